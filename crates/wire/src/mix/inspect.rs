//! Answers that are looked into: their fields as they come, their bodies once they are whole.
//!
//! ```text
//!   begin(kind, status) ─► field(name, value) … ─► piece(body) … ─► end ─► Judged, and whether the next step follows
//! ```
//!
//! A body is kept as far as [`LOOKED_INTO_BYTES_MAX`]: what a check or a take seeks behind that is not found.

use std::sync::Arc;

use memchr::memmem;
use regex_automata::meta::{self, Regex};
use regex_automata::util::captures::Captures;

use super::expect::{Check, Expect, Follow, JsonIs, Source, Take};
use super::field::{FieldPath, Raw};
use super::json::{Found, Pointer, unescape};
use super::looked::Looked;
use super::user::{User, put};
use super::{LOOKED_INTO_BYTES_MAX, Mix, TAKEN_BYTES_MAX};
use crate::{Judged, Redirect, WireError};

/// Most bytes that a regular expression's machine may take.
const REGEX_BYTES_MAX: usize = 4 << 20;

/// What every kind's answers are looked into for, ready for use by all workers.
#[derive(Debug)]
pub(crate) struct Looks {
    kinds: Vec<Look>,
    /// Which of them are looked into at all; none where no answer is.
    looked_into: Vec<bool>,
    origins: Vec<String>,
}

#[derive(Debug)]
struct Look {
    expect: Expect,
    checks: Vec<Seek>,
    takes: Vec<Seek>,
    needs_body: bool,
    needs_fields: bool,
    /// Whether a redirect that keeps the method is followed by what would follow it anyway.
    is_get: bool,
    /// Whether it follows a redirect.
    is_hop: bool,
}

/// How something is found.
#[derive(Debug)]
enum Seek {
    /// Among the fields, by the length, or in a message.
    None,
    Bytes(Box<memmem::Finder<'static>>),
    Json(Pointer),
    Regex(Arc<Regex>),
}

impl Expect {
    /// Refuses pointers and patterns that are none.
    pub fn check(&self) -> Result<(), String> {
        self.checks
            .iter()
            .try_for_each(|check| Seek::of_check(check).map(drop))?;
        self.takes
            .iter()
            .try_for_each(|take| Seek::of_source(&take.from).map(drop))
    }
}

impl Looks {
    /// Of every kind of a mix; an error names it.
    pub(crate) fn of(mix: &Mix) -> Result<Looks, String> {
        let one = |kind: &super::Kind| {
            let expect = kind.expect.clone();
            let named = |why: String| format!("`{}`: {why}", kind.name);
            let checks = expect.checks.iter().map(Seek::of_check);
            let takes = expect.takes.iter().map(|take| Seek::of_source(&take.from));
            Ok(Look {
                checks: checks.collect::<Result<_, _>>().map_err(named)?,
                takes: takes.collect::<Result<_, _>>().map_err(named)?,
                needs_body: expect.needs_body(),
                needs_fields: expect.needs_fields(),
                is_get: kind.request.is_get(),
                is_hop: kind.request.is_hop(),
                expect,
            })
        };
        let kinds = mix
            .kinds
            .iter()
            .map(one)
            .collect::<Result<Vec<Look>, String>>()?;
        let mut looked_into: Vec<bool> = kinds.iter().map(|of| !of.expect.is_nothing()).collect();
        if !looked_into.contains(&true) {
            looked_into.clear();
        }
        Ok(Looks {
            kinds,
            looked_into,
            origins: mix.origins.clone(),
        })
    }

    /// Whether a kind's answers are looked into.
    #[inline]
    pub(crate) fn look_into(&self, kind: u16) -> bool {
        !self.looked_into.is_empty() && self.looked_into[usize::from(kind)]
    }

    /// Whether fields of a kind's answers are looked into.
    #[inline]
    pub(crate) fn need_fields(&self, kind: u16) -> bool {
        self.kinds[usize::from(kind)].needs_fields
    }

    /// Whether fields of any answer are.
    pub(crate) fn need_any_fields(&self) -> bool {
        self.kinds.iter().any(|look| look.needs_fields)
    }

    /// Whether a field of this name is, of a kind's answers.
    pub(crate) fn want(&self, kind: u16, name: &[u8]) -> bool {
        let Expect {
            checks,
            takes,
            follow,
            keeps_cookies,
            ..
        } = &self.kinds[usize::from(kind)].expect;
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted.as_bytes());
        let of_check = |check: &Check| matches!(check, Check::Header(wanted, _) if is(wanted));
        let of_take = |take: &Take| match &take.from {
            Source::Header(wanted) => is(wanted),
            Source::Cookie(_) => is("set-cookie"),
            Source::Json(_) | Source::Regex(_) | Source::Field(_) => false,
        };
        checks.iter().any(of_check)
            || takes.iter().any(of_take)
            || (*follow != Follow::Never && is("location"))
            || (*keeps_cookies && is("set-cookie"))
    }

    /// Whether any body is.
    pub(crate) fn need_bodies(&self) -> bool {
        self.kinds.iter().any(|look| look.needs_body)
    }

    /// Whether any redirect is followed.
    pub(crate) fn follow(&self) -> bool {
        let is_followed = |look: &Look| look.expect.follow != Follow::Never;
        self.kinds.iter().any(is_followed)
    }

    /// Whether any cookie is kept or taken.
    pub(crate) fn keep_cookies(&self) -> bool {
        self.kinds.iter().any(|look| look.expect.keeps_cookies)
    }
}

impl Seek {
    fn of_check(check: &Check) -> Result<Seek, String> {
        Ok(match check {
            Check::Header(..) | Check::Length(..) | Check::Field(..) => Seek::None,
            Check::BodyHas(bytes) => Seek::Bytes(Box::new(memmem::Finder::new(bytes).into_owned())),
            Check::Json(pointer, _) => Seek::Json(pointer_of(pointer)?),
        })
    }

    fn of_source(source: &Source) -> Result<Seek, String> {
        Ok(match source {
            Source::Header(_) | Source::Cookie(_) | Source::Field(_) => Seek::None,
            Source::Json(pointer) => Seek::Json(pointer_of(pointer)?),
            Source::Regex(pattern) => {
                let config = meta::Config::new().nfa_size_limit(Some(REGEX_BYTES_MAX));
                let built = meta::Builder::new().configure(config).build(pattern);
                let wrong = |error: meta::BuildError| match error.size_limit() {
                    Some(_) => format!(
                        "the pattern {pattern} takes more than 4 MiB: make it shorter, or take by json:"
                    ),
                    None => match error.syntax_error() {
                        Some(why) => format!("the pattern {pattern} is none: {why}"),
                        None => format!("the pattern {pattern} is none: {error}"),
                    },
                };
                Seek::Regex(Arc::new(built.map_err(wrong)?))
            }
        })
    }
}

fn pointer_of(text: &str) -> Result<Pointer, String> {
    let wrong = || format!("{text} is no JSON pointer, such as /user/id");
    Pointer::parse(text).ok_or_else(wrong)
}

/// What one worker needs to search by regular expressions: for each kind, for each that it takes.
#[derive(Debug)]
pub(crate) struct Caches(Vec<Vec<Option<(meta::Cache, Captures)>>>);

impl Caches {
    pub(crate) fn of(looks: &Looks) -> Caches {
        let one = |seek: &Seek| match seek {
            Seek::Regex(regex) => Some((regex.create_cache(), regex.create_captures())),
            _ => None,
        };
        let of_kind = |look: &Look| look.takes.iter().map(one).collect();
        Caches(looks.kinds.iter().map(of_kind).collect())
    }

    /// Whether there are any: a search may then allocate.
    pub(crate) fn are_used(&self) -> bool {
        self.0.iter().flatten().any(Option::is_some)
    }
}

/// Whether a value may be sent on: what would end a line may not.
pub(super) fn is_sound(value: &[u8]) -> bool {
    !value
        .iter()
        .any(|byte| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f)
}

/// The answer that is being looked into.
#[derive(Debug, Default)]
pub(crate) struct Inspection {
    kind: u16,
    is_on: bool,
    /// Whether the checks are held against it.
    is_checked: bool,
    /// Whether it is measured how long that takes; so long so far.
    is_timed: bool,
    took_ns: u64,
    is_coded: bool,
    redirects: Option<Redirect>,
    /// It says where that leads.
    has_place: bool,
    /// Its place is one beside that of its request.
    is_beside: bool,
    /// Its status says already that it is not good.
    is_refused: bool,
    bad: Option<WireError>,
    /// Checks and takes that fields have met, by bits.
    fields: u64,
    body: Vec<u8>,
    /// A value that is taken, before it is known that it may be.
    told: Vec<u8>,
}

/// Takes among the fields stand behind the checks, by bits.
const CHECKS_MAX: usize = 32;
const TAKES: u64 = !0 << CHECKS_MAX;

impl Inspection {
    /// With room for a body, where any is looked into.
    pub(crate) fn new(looks: &Looks) -> Inspection {
        let (room, told) = match looks.need_bodies() {
            true => (LOOKED_INTO_BYTES_MAX, TAKEN_BYTES_MAX),
            false => (0, 0),
        };
        Inspection {
            body: Vec::with_capacity(room),
            told: Vec::with_capacity(told),
            ..Inspection::default()
        }
    }

    /// Nothing is looked into any more.
    pub(crate) fn stop(&mut self) {
        self.is_on = false;
        self.body.clear();
    }

    /// The head of an answer has come.
    pub(crate) fn begin(
        &mut self,
        looks: &Looks,
        looked: &Looked,
        kind: u16,
        status: u16,
        is_coded: bool,
    ) {
        let (nth, is_timed) = looked.begin(kind);
        self.is_timed = is_timed;
        self.took_ns = 0;
        let look = &looks.kinds[usize::from(kind)];
        self.kind = kind;
        self.is_on = !look.expect.is_nothing();
        self.is_checked = nth.is_multiple_of(u64::from(look.expect.every.max(1)));
        self.is_coded = is_coded;
        self.redirects = None;
        self.has_place = false;
        self.is_beside = false;
        self.is_refused = look.expect.statuses.is_empty() && status >= 400;
        // What the redirect had that led here is taken from both.
        self.fields &= if look.is_hop { TAKES } else { 0 };
        self.body.clear();
        let is_redirect = matches!(status, 301 | 302 | 303 | 307 | 308);
        self.bad = None;
        match look.expect.follow {
            Follow::Yes if is_redirect => {
                let keeps = matches!(status, 307 | 308) && !look.is_get;
                self.redirects = Some(if keeps {
                    Redirect::AsItIs
                } else {
                    Redirect::ToGet
                });
            }
            Follow::Spent if is_redirect => self.bad = Some(WireError::RedirectTooMany),
            _ if look.expect.statuses.is_empty() => {}
            _ => {
                let is_good = |(from, to): &(u16, u16)| (*from..=*to).contains(&status);
                if !look.expect.statuses.iter().any(is_good) {
                    self.bad = Some(WireError::CheckStatus);
                }
            }
        }
    }

    /// Before a part of the answer is looked into: the time, where that is measured.
    #[inline]
    pub(crate) fn since(&self, looked: &Looked) -> u64 {
        if self.is_timed { looked.now_ns() } else { 0 }
    }

    /// A part of it was looked into since then.
    #[inline]
    pub(crate) fn took(&mut self, looked: &Looked, since_ns: u64) {
        if self.is_timed {
            self.took_ns += looked.now_ns() - since_ns;
        }
    }

    /// Whether fields and body of this answer are wanted.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// A field of its head, held against the checks alone: the user stays as it is.
    pub(crate) fn check_field(&mut self, looks: &Looks, name: &[u8], value: &[u8]) {
        let look = &looks.kinds[usize::from(self.kind)];
        for (check, bit) in look.expect.checks.iter().zip(0..) {
            if let Check::Header(wanted, has) = check
                && name.eq_ignore_ascii_case(wanted.as_bytes())
                && (has.is_empty() || memmem::find(value, has.as_bytes()).is_some())
            {
                self.fields |= 1 << bit;
            }
        }
    }

    /// There was no room for all of its fields.
    pub(crate) fn lacks_fields(&mut self) {
        self.bad.get_or_insert(WireError::TakeTooLong);
    }

    /// A field of its head.
    pub(crate) fn field(&mut self, looks: &Looks, user: &mut User, name: &[u8], value: &[u8]) {
        self.check_field(looks, name, value);
        let look = &looks.kinds[usize::from(self.kind)];
        let is_cookie = name.eq_ignore_ascii_case(b"set-cookie");
        if is_cookie && look.expect.keeps_cookies {
            user.set_cookie(value);
        }
        for (take, bit) in look.expect.takes.iter().zip(CHECKS_MAX..) {
            let found = match &take.from {
                Source::Header(wanted) if name.eq_ignore_ascii_case(wanted.as_bytes()) => {
                    Some(value)
                }
                Source::Cookie(wanted) if is_cookie => cookie_value(value, wanted.as_bytes()),
                _ => None,
            };
            // Of an answer that is not good nothing is taken, as of its body.
            if let Some(found) = found.filter(|_| !self.is_refused && self.bad.is_none()) {
                self.take(user, take, found);
                self.fields |= 1 << bit;
            }
        }
        if self.redirects.is_some() && name.eq_ignore_ascii_case(b"location") {
            match looks.place(value) {
                Ok(Location::Path(path)) if user.set_location(path) => self.has_place = true,
                Ok(Location::Beside(reference)) if user.set_reference(reference) => {
                    self.has_place = true;
                    self.is_beside = true;
                }
                Ok(_) => self.bad = Some(WireError::TakeTooLong),
                Err(error) => self.bad = Some(error),
            }
        }
    }

    /// Whether the redirect's place is one beside that of its request, which is to be told.
    pub(crate) fn is_beside(&self) -> bool {
        self.is_beside
    }

    /// The redirect's place is too long.
    pub(crate) fn leads_too_far(&mut self) {
        self.bad = Some(WireError::TakeTooLong);
    }

    /// Takes a value, or leaves the one of before where it may not be sent on.
    fn take(&mut self, user: &mut User, take: &Take, value: &[u8]) {
        let bad = if !is_sound(value) {
            WireError::TakeMissing
        } else if value.len() > TAKEN_BYTES_MAX {
            WireError::TakeTooLong
        } else if !take.fits.iter().all(|scalar| scalar.accepts(value)) {
            WireError::TakeUnfit
        } else {
            let is_put = put(user.variable_mut(take.variable), value);
            debug_assert!(is_put, "it was measured");
            return;
        };
        self.bad.get_or_insert(bad);
    }

    /// A piece of its body.
    #[inline]
    pub(crate) fn piece(&mut self, looks: &Looks, looked: &Looked, piece: &[u8]) {
        if self.is_on && looks.kinds[usize::from(self.kind)].needs_body {
            let since = self.since(looked);
            let room = self.body.capacity().min(LOOKED_INTO_BYTES_MAX) - self.body.len();
            self.body.extend_from_slice(&piece[..piece.len().min(room)]);
            self.took(looked, since);
        }
    }

    /// The answer is whole: what it is worth, and whether the next step follows its redirect.
    pub(crate) fn end(
        &mut self,
        looks: &Looks,
        looked: &Looked,
        caches: &mut Caches,
        user: &mut User,
        body_bytes: u64,
    ) -> (Judged, Option<Redirect>) {
        let since = self.since(looked);
        let judged = self.judge(looks, caches, user, body_bytes);
        self.took(looked, since);
        if self.is_timed {
            looked.took(self.kind, self.took_ns);
        }
        judged
    }

    fn judge(
        &mut self,
        looks: &Looks,
        caches: &mut Caches,
        user: &mut User,
        body_bytes: u64,
    ) -> (Judged, Option<Redirect>) {
        if !std::mem::take(&mut self.is_on) || self.is_refused {
            return (Judged::ByStatus, None);
        }
        let look = &looks.kinds[usize::from(self.kind)];
        if self.redirects.is_some() {
            return match self.bad {
                Some(error) => (Judged::Bad(error), None),
                None if !self.has_place => (Judged::Bad(WireError::RedirectTarget), None),
                None => (Judged::Good, self.redirects),
            };
        }
        if self.bad.is_none() && self.is_coded && look.needs_body {
            self.bad = Some(WireError::CheckCoded);
        }
        if self.bad.is_none() && self.is_checked {
            self.bad = self.failed_check(look, body_bytes);
        }
        if self.bad.is_none() {
            let caches = &mut caches.0[usize::from(self.kind)];
            let is_cut = body_bytes > self.body.len() as u64;
            self.take_all((look, is_cut), caches, user);
        }
        let judged = match (self.bad, look.expect.statuses.is_empty()) {
            (Some(error), _) => Judged::Bad(error),
            (None, true) => Judged::ByStatus,
            (None, false) => Judged::Good,
        };
        (judged, None)
    }

    fn failed_check(&self, look: &Look, body_bytes: u64) -> Option<WireError> {
        let checks = look.expect.checks.iter().zip(&look.checks).zip(0..);
        for ((check, seek), bit) in checks {
            let (holds, error) = match (check, seek) {
                (Check::Header(..), _) => (self.fields & 1 << bit != 0, WireError::CheckHeader),
                (Check::Length(from, to), _) => {
                    ((*from..=*to).contains(&body_bytes), WireError::CheckLength)
                }
                (Check::BodyHas(_), Seek::Bytes(finder)) => {
                    (finder.find(&self.body).is_some(), WireError::CheckBody)
                }
                (Check::Json(_, is), Seek::Json(pointer)) => {
                    let found = pointer.find(&self.body);
                    (
                        found.is_some_and(|found| is.is_met(found)),
                        WireError::CheckJson,
                    )
                }
                (Check::Field(path, is), _) => {
                    let (message, is_whole) = message(&self.body);
                    let found = path.find(message, is_whole && *is != JsonIs::There);
                    (
                        found.is_some_and(|found| is.is_told(path, found)),
                        WireError::CheckJson,
                    )
                }
                (Check::BodyHas(_) | Check::Json(..), _) => unreachable!("made alike"),
            };
            if !holds {
                return Some(error);
            }
        }
        None
    }

    /// Takes what the body has, which may be cut off behind what is looked into.
    fn take_all(
        &mut self,
        (look, is_cut): (&Look, bool),
        caches: &mut [Option<(meta::Cache, Captures)>],
        user: &mut User,
    ) {
        let body = std::mem::take(&mut self.body);
        let takes = look.expect.takes.iter().zip(&look.takes).zip(caches);
        for (((take, seek), cache), bit) in takes.zip(CHECKS_MAX..) {
            let is_found = match (&take.from, seek, cache) {
                (Source::Field(path), ..) => {
                    let (message, is_whole) = message(&body);
                    let found = path.find(message, is_whole);
                    if let Some(raw) = found {
                        self.take_told(user, take, |to| {
                            path.tell(raw, to);
                            true
                        });
                    }
                    found.is_some()
                }
                (_, Seek::Json(pointer), _) => {
                    let found = pointer.find(&body);
                    match found {
                        Some(Found::Text(raw)) => {
                            self.take_told(user, take, |to| unescape(raw, to));
                        }
                        Some(Found::Other(raw)) => self.take(user, take, raw),
                        None => {}
                    }
                    found.is_some()
                }
                (_, Seek::Regex(regex), Some((cache, captures))) => {
                    let input = regex_automata::Input::new(&body);
                    regex.search_captures_with(cache, &input, captures);
                    let group = captures.get_group(1).or_else(|| captures.get_group(0));
                    // One that ends with what there is may go on.
                    let group = group.filter(|span| !is_cut || span.end < body.len());
                    if let Some(span) = group {
                        self.take(user, take, &body[span.range()]);
                    }
                    group.is_some()
                }
                _ => self.fields & 1 << bit != 0,
            };
            if !is_found {
                self.bad.get_or_insert(WireError::TakeMissing);
            }
        }
        self.body = body;
    }

    /// Takes what is told in pieces, where `tell` says that it is well written.
    fn take_told(
        &mut self,
        user: &mut User,
        take: &Take,
        tell: impl FnOnce(&mut dyn FnMut(&[u8])) -> bool,
    ) {
        let mut told = std::mem::take(&mut self.told);
        told.clear();
        let mut fits = true;
        let is_well_written = tell(&mut |part| {
            fits &= told.len() + part.len() <= TAKEN_BYTES_MAX;
            if fits {
                told.extend_from_slice(part);
            }
        });
        if !fits {
            self.bad.get_or_insert(WireError::TakeTooLong);
        } else if !is_well_written {
            self.bad.get_or_insert(WireError::TakeMissing);
        } else {
            self.take(user, take, &told);
        }
        self.told = told;
    }
}

/// The first message of an answer to a call, as far as it is kept, and whether that is all of it.
fn message(body: &[u8]) -> (&[u8], bool) {
    let Some(([_, length @ ..], rest)) = body.split_first_chunk::<5>() else {
        return (&[], false);
    };
    let length = u32::from_be_bytes(*length) as usize;
    (&rest[..length.min(rest.len())], length <= rest.len())
}

/// Whether both are numbers, and one and the same: `1e3` is `1000`. Whole ones are compared digit by digit, for a fraction has
/// room for sixteen.
fn is_same_number(one: &[u8], other: &[u8]) -> bool {
    let is_whole = |text: &[u8]| !text.iter().any(|byte| b".eE".contains(byte));
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<f64>().ok();
    let are_whole = is_whole(one) && is_whole(other);
    !are_whole && number(one).is_some_and(|one| number(other) == Some(one))
}

impl JsonIs {
    fn is_met(&self, found: Found<'_>) -> bool {
        match (self, found) {
            (JsonIs::There, _) => true,
            (JsonIs::Plain(plain), Found::Other(raw)) => {
                raw == plain.as_bytes() || is_same_number(raw, plain.as_bytes())
            }
            (JsonIs::Text(text), Found::Text(raw)) => {
                let (mut rest, mut is_same) = (text.as_bytes(), true);
                let ended = unescape(raw, |part| match rest.strip_prefix(part) {
                    Some(left) => rest = left,
                    None => is_same = false,
                });
                ended && is_same && rest.is_empty()
            }
            _ => false,
        }
    }

    /// The same of a value of a message.
    fn is_told(&self, path: &FieldPath, raw: Raw<'_>) -> bool {
        let (JsonIs::Text(wanted) | JsonIs::Plain(wanted)) = self else {
            return true;
        };
        let (mut rest, mut is_same) = (wanted.as_bytes(), true);
        path.tell(raw, |part| match rest.strip_prefix(part) {
            Some(left) => rest = left,
            None => is_same = false,
        });
        is_same && rest.is_empty() || path.is_number(raw, wanted)
    }
}

impl Looks {
    /// Where a redirect leads, where it stays with the server.
    fn place<'l>(&self, location: &'l [u8]) -> Result<Location<'l>, WireError> {
        let is_path = |path: &[u8]| path.first() == Some(&b'/');
        if location.iter().any(|byte| !(0x21..=0x7e).contains(byte)) {
            return Err(WireError::RedirectTarget);
        }
        // A fragment is the client's own.
        let location = location
            .split(|byte| *byte == b'#')
            .next()
            .unwrap_or_default();
        if is_path(location) && !location.starts_with(b"//") {
            return Ok(Location::Path(location));
        }
        for origin in &self.origins {
            let Some((begin, rest)) = location.split_at_checked(origin.len()) else {
                continue;
            };
            if begin.eq_ignore_ascii_case(origin.as_bytes()) {
                match rest {
                    [] => return Ok(Location::Path(b"/")),
                    [b'/', ..] => return Ok(Location::Path(rest)),
                    _ => {}
                }
            }
        }
        let first = location.split(|byte| b"/?".contains(byte)).next();
        let has_scheme = first.is_some_and(|first| first.contains(&b':'));
        match has_scheme || location.starts_with(b"//") {
            true => Err(WireError::RedirectElsewhere),
            false => Ok(Location::Beside(location)),
        }
    }
}

/// Where a redirect leads.
enum Location<'l> {
    /// A path and query.
    Path(&'l [u8]),
    /// A reference that is relative to the place of its request (RFC 3986, 4.2).
    Beside(&'l [u8]),
}

/// The value of a cookie of this name, where `Set-Cookie` sets it.
fn cookie_value<'f>(field: &'f [u8], name: &[u8]) -> Option<&'f [u8]> {
    let pair = field.split(|byte| *byte == b';').next()?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    (pair[..equals].trim_ascii() == name).then(|| pair[equals + 1..].trim_ascii())
}
