//! What is known of the user on a connection: values that were taken from answers, and cookies.

use super::TAKEN_BYTES_MAX;

/// Most bytes of all cookies that are kept for a user.
const COOKIES_BYTES_MAX: usize = 4096;
/// Most cookies.
const COOKIES_MAX: usize = 50;

/// It, with room for all that it may come to hold.
#[derive(Debug, Default)]
pub(crate) struct User {
    variables: Box<[Vec<u8>]>,
    location: Vec<u8>,
    /// Where it redirected to, from where the request was.
    reference: Vec<u8>,
    /// Where that is found.
    place: Vec<u8>,
    /// Each `name=value`, one behind the other.
    cookies: Vec<u8>,
    /// Where each ends.
    ends: Vec<usize>,
}

impl User {
    pub(crate) fn new(variables: u16, redirects: bool, cookies: bool) -> User {
        let room =
            |is_used: bool, bytes: usize| Vec::with_capacity(if is_used { bytes } else { 0 });
        User {
            variables: (0..variables)
                .map(|_| room(true, TAKEN_BYTES_MAX))
                .collect(),
            location: room(redirects, TAKEN_BYTES_MAX),
            reference: room(redirects, TAKEN_BYTES_MAX),
            place: room(redirects, 2 * TAKEN_BYTES_MAX),
            cookies: room(cookies, COOKIES_BYTES_MAX),
            ends: Vec::with_capacity(if cookies { COOKIES_MAX } else { 0 }),
        }
    }

    /// Another user comes, of whom nothing is known.
    #[inline]
    pub(crate) fn forget(&mut self) {
        self.variables.iter_mut().for_each(Vec::clear);
        self.location.clear();
        self.cookies.clear();
        self.ends.clear();
    }

    /// What was taken; nothing before it was.
    #[inline]
    pub(crate) fn variable(&self, variable: u16) -> &[u8] {
        &self.variables[usize::from(variable)]
    }

    /// Where to put what is taken.
    pub(crate) fn variable_mut(&mut self, variable: u16) -> &mut Vec<u8> {
        &mut self.variables[usize::from(variable)]
    }

    /// Where the last answer redirected to.
    pub(crate) fn location(&self) -> &[u8] {
        &self.location
    }

    /// The same, to be set; `false`: it is too long.
    pub(crate) fn set_location(&mut self, location: &[u8]) -> bool {
        put(&mut self.location, location)
    }

    /// Keeps a reference that is relative to the place of its request; `false`: it is too long.
    pub(crate) fn set_reference(&mut self, reference: &[u8]) -> bool {
        put(&mut self.reference, reference)
    }

    /// Follows it from the place that `from` writes; `false`: that is too long.
    pub(crate) fn follow_reference(
        &mut self,
        from: impl FnOnce(&User, &mut dyn FnMut(&[u8])),
    ) -> bool {
        let mut place = std::mem::take(&mut self.place);
        place.clear();
        let mut fits = true;
        from(self, &mut |bytes| {
            fits &= place.len() + bytes.len() <= TAKEN_BYTES_MAX;
            if fits {
                place.extend_from_slice(bytes);
            }
        });
        resolve(&mut place, &self.reference);
        let fits = fits && put(&mut self.location, &place);
        self.place = place;
        fits
    }

    fn range(&self, nth: usize) -> std::ops::Range<usize> {
        let from = if nth == 0 { 0 } else { self.ends[nth - 1] };
        from..self.ends[nth]
    }

    fn cookie(&self, nth: usize) -> &[u8] {
        &self.cookies[self.range(nth)]
    }

    /// Whether there are cookies to send.
    pub(crate) fn has_cookies(&self) -> bool {
        !self.ends.is_empty()
    }

    /// The most bytes that all cookies are, as a request's field has them.
    pub(crate) const COOKIES_FIELD_BYTES_MAX: usize = COOKIES_BYTES_MAX + 2 * COOKIES_MAX;

    /// Bytes of all cookies, as a request's field has them.
    pub(crate) fn cookies_len(&self) -> usize {
        self.cookies.len() + 2 * self.ends.len().saturating_sub(1)
    }

    /// All cookies, as a request's field has them.
    pub(crate) fn write_cookies(&self, mut to: impl FnMut(&[u8])) {
        for nth in 0..self.ends.len() {
            if nth > 0 {
                to(b"; ");
            }
            to(self.cookie(nth));
        }
    }

    /// Takes cookies as a request's field has them.
    pub(crate) fn take_cookies(&mut self, field: &[u8]) {
        for pair in field.split(|byte| *byte == b';') {
            self.set_cookie(pair);
        }
    }

    /// Takes what `Set-Cookie` says (RFC 6265, 5.2): the name and the value, and whether it is to be forgotten. Where and
    /// how long it holds otherwise is not asked: a session has one server, and is short. What does not fit is left out.
    pub(crate) fn set_cookie(&mut self, field: &[u8]) {
        let mut parts = field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let pair = parts.next().unwrap_or_default();
        let Some(equals) = pair.iter().position(|byte| *byte == b'=') else {
            return;
        };
        let (name, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
        if name.is_empty() {
            return;
        }
        let ends = parts.any(is_end);
        if let Some(nth) = (0..self.ends.len()).find(|nth| self.value_of(*nth, name).is_some()) {
            self.remove(nth);
        }
        let len = name.len() + 1 + value.len();
        let fits = self.cookies.len() + len <= self.cookies.capacity()
            && self.ends.len() < self.ends.capacity();
        if !ends && fits {
            for part in [name, b"=", value] {
                self.cookies.extend_from_slice(part);
            }
            self.ends.push(self.cookies.len());
        }
    }

    /// The value of a cookie, where it has this name.
    fn value_of(&self, nth: usize, name: &[u8]) -> Option<&[u8]> {
        self.cookie(nth).strip_prefix(name)?.strip_prefix(b"=")
    }

    fn remove(&mut self, nth: usize) {
        let range = self.range(nth);
        let len = range.len();
        self.cookies.drain(range);
        self.ends.remove(nth);
        for end in &mut self.ends[nth..] {
            *end -= len;
        }
    }
}

/// Follows a relative reference of a path or a query from a path (RFC 3986, 5.2).
fn resolve(place: &mut Vec<u8>, reference: &[u8]) {
    let is_query = |byte: &u8| *byte == b'?';
    let (path, query) = match reference.iter().position(is_query) {
        Some(at) => reference.split_at(at),
        None => (reference, &[][..]),
    };
    if reference.is_empty() {
        return;
    }
    let end = place.iter().position(is_query);
    place.truncate(end.unwrap_or(place.len()));
    if !path.is_empty() {
        let slash = place.iter().rposition(|byte| *byte == b'/');
        place.truncate(slash.map_or(0, |slash| slash + 1));
        place.extend_from_slice(path);
        remove_dots(place);
    }
    place.extend_from_slice(query);
}

/// Takes `.` and `..` out of a path that begins with a slash (RFC 3986, 5.2.4).
fn remove_dots(path: &mut Vec<u8>) {
    let (mut from, mut to) = (0, 0);
    while from < path.len() {
        let rest = &path[from + 1..];
        let len = rest
            .iter()
            .position(|byte| *byte == b'/')
            .unwrap_or(rest.len());
        let (segment, is_last) = (&rest[..len], len == rest.len());
        let is_up = segment == b"..";
        if is_up {
            to = path[..to]
                .iter()
                .rposition(|byte| *byte == b'/')
                .unwrap_or(0);
        }
        if !is_up && segment != b"." {
            path.copy_within(from..from + 1 + len, to);
            to += 1 + len;
        } else if is_last {
            path[to] = b'/';
            to += 1;
        }
        from += 1 + len;
    }
    path.truncate(to);
}

/// Puts a value in the place of an earlier one; `false`: there is no room for it.
pub(super) fn put(place: &mut Vec<u8>, value: &[u8]) -> bool {
    let fits = value.len() <= place.capacity();
    if fits {
        place.clear();
        place.extend_from_slice(value);
    }
    fits
}

/// Whether an attribute says that a cookie is to be forgotten.
fn is_end(attribute: &[u8]) -> bool {
    let mut lower = [0; 48];
    let len = attribute.len().min(lower.len());
    lower[..len].copy_from_slice(&attribute[..len]);
    lower.make_ascii_lowercase();
    let lower = &lower[..len];
    if let Some(age) = lower.strip_prefix(b"max-age=") {
        return age.starts_with(b"-") || age.iter().all(|digit| *digit == b'0');
    }
    let date = lower.strip_prefix(b"expires=").unwrap_or_default();
    date.windows(6)
        .any(|part| part == b" 1970 " || part == b"-1970 ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(user: &User) -> String {
        let mut all = Vec::new();
        user.write_cookies(|bytes| all.extend_from_slice(bytes));
        String::from_utf8(all).unwrap()
    }

    #[test]
    fn cookies_are_kept_changed_and_forgotten() {
        let mut user = User::new(0, false, true);
        user.set_cookie(b"sid=1; Path=/; HttpOnly");
        user.set_cookie(b" theme = dark");
        user.set_cookie(b"lang=de;SameSite=Lax");
        assert_eq!(sent(&user), "sid=1; theme=dark; lang=de");
        user.set_cookie(b"sid=22");
        assert_eq!(sent(&user), "theme=dark; lang=de; sid=22");
        user.set_cookie(b"lang=; Max-Age=0");
        user.set_cookie(b"sid=x; expires=Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(sent(&user), "theme=dark");
        user.set_cookie(b"nonsense");
        user.set_cookie(b"=x");
        assert_eq!(sent(&user), "theme=dark");
        user.forget();
        assert!(!user.has_cookies());
    }

    #[test]
    fn cookies_of_a_request_are_taken_and_changed_like_any_others() {
        let mut user = User::new(0, false, true);
        user.take_cookies(b"sid=1; theme=a=b; lang=");
        assert_eq!(sent(&user), "sid=1; theme=a=b; lang=");
        user.set_cookie(b"sid=2");
        assert_eq!(sent(&user), "theme=a=b; lang=; sid=2");
        let mut user = User::new(0, false, true);
        user.take_cookies(b"");
        assert!(!user.has_cookies());
    }

    #[test]
    fn references_are_followed_as_the_standard_says() {
        // RFC 3986, 5.4, as far as paths and queries go.
        for (reference, expected) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../g", "/g"),
            ("../../../g", "/g"),
            ("g.", "/b/c/g."),
            ("..g", "/b/c/..g"),
            ("./../g", "/b/g"),
            ("./g/.", "/b/c/g/"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            ("g?y/../x", "/b/c/g?y/../x"),
        ] {
            let mut place = b"/b/c/d;p?q".to_vec();
            resolve(&mut place, reference.as_bytes());
            assert_eq!(String::from_utf8_lossy(&place), expected, "{reference}");
        }
    }

    #[test]
    fn cookies_without_end_take_no_more_room_than_there_is() {
        let mut user = User::new(0, false, true);
        let room = (user.cookies.capacity(), user.ends.capacity());
        for n in 0..10_000 {
            user.set_cookie(format!("name{n}={}", "v".repeat(n % 200)).as_bytes());
        }
        assert_eq!((user.cookies.capacity(), user.ends.capacity()), room);
        assert_eq!(user.ends.len().min(COOKIES_MAX), user.ends.len());
    }
}
