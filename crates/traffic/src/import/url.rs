//! Whole URLs, apart.

/// A URL that begins with its scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Url<'u> {
    pub(super) scheme: &'u str,
    /// Whether a user stands before the host, and mostly a password.
    pub(super) has_user: bool,
    /// `host[:port]`.
    pub(super) host: &'u str,
    behind: &'u str,
}

impl<'u> Url<'u> {
    /// `None`: it begins with no scheme. A path is none, though another URL may stand in its query.
    pub(crate) fn of(text: &'u str) -> Option<Url<'u>> {
        let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        let (scheme, rest) = text.split_once("://")?;
        if scheme.is_empty() || !scheme.bytes().all(is_of_scheme) {
            return None;
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, behind) = rest.split_at(end);
        let (has_user, host) = match authority.rsplit_once('@') {
            Some((_, host)) => (true, host),
            None => (false, authority),
        };
        Some(Url {
            scheme,
            has_user,
            host,
            behind,
        })
    }

    /// Its scheme and host.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme, self.host)
    }

    /// The path and query of a request for it.
    pub(crate) fn target(&self) -> String {
        let sent = self.behind.split('#').next().unwrap_or_default();
        match sent.starts_with('/') {
            true => sent.to_owned(),
            false => format!("/{sent}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart_and_a_path_is_none() {
        for (text, host, target) in [
            ("http://h", "h", "/"),
            ("https://h:8443/a/b?x=1#y", "h:8443", "/a/b?x=1"),
            ("http://h?u=/a", "h", "/?u=/a"),
            ("http://h#/a", "h", "/"),
            ("http://me:p@ss@h/@", "h", "/@"),
            ("h2+ssl.x-1://h/a://b", "h", "/a://b"),
        ] {
            let url = Url::of(text).expect(text);
            assert_eq!((url.host, url.target().as_str()), (host, target), "{text}");
            assert_eq!(url.has_user, text.contains("me:"), "{text}");
            assert_eq!(url.origin(), format!("{}://{host}", url.scheme), "{text}");
        }
        for none in ["/a", "/r?u=http://h/", "h/a?u=http://h/", "://h/", ""] {
            assert_eq!(Url::of(none), None, "{none}");
        }
    }
}
