//! The request of a lane: what the user asked for, checked and encoded once.
//!
//! What it is not: a template. Every request of a lane is the same bytes. Nothing the
//! user gives can end a line early: a request that would smuggle a second one, or that
//! this client could not frame the answer to, is refused with the name of its place.

use std::fmt;

/// A request as the user gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The method token, such as `GET`. Case matters.
    pub method: String,
    /// The authority, as `Host` says it: `127.0.0.1:8080`.
    pub authority: String,
    /// The request target: path and query, or `*` for OPTIONS, or an absolute URI for a proxy.
    pub target: String,
    /// Fields of the user, which take the place of defaults of the same name.
    pub headers: Vec<(String, String)>,
    /// The body, in bytes; sent with a `Content-Length`.
    pub body: Vec<u8>,
}

impl Request {
    /// A request without fields or body.
    pub fn new(
        method: impl Into<String>,
        authority: impl Into<String>,
        target: impl Into<String>,
    ) -> Request {
        Request {
            method: method.into(),
            authority: authority.into(),
            target: target.into(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// A GET.
    pub fn get(authority: impl Into<String>, target: impl Into<String>) -> Request {
        Request::new("GET", authority, target)
    }

    /// Adds a field.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Request {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self
    }

    /// The bytes on the wire, and what they oblige the connection to.
    pub(super) fn encode(&self, connection_per_request: bool) -> Result<Encoded, BadRequest> {
        check_method(&self.method)?;
        check_target(&self.method, &self.target)?;
        check_authority(&self.authority)?;
        for (name, value) in &self.headers {
            check_header(name, value)?;
        }
        for name in ["Host", "Content-Length"] {
            if self.values_of(name).count() > 1 {
                return Err(BadRequest::header(name, "is given more than once"));
            }
        }
        self.check_length()?;
        let closes = self.values_of("Connection").any(has_close);

        let mut bytes = Vec::with_capacity(256 + self.body.len());
        let mut line = |parts: [&str; 5]| {
            parts
                .iter()
                .for_each(|part| bytes.extend_from_slice(part.as_bytes()));
            bytes.extend_from_slice(b"\r\n");
        };
        line([&self.method, " ", &self.target, " ", "HTTP/1.1"]);
        let default = |name| self.values_of(name).next().is_none();
        if default("Host") {
            line(["Host", ": ", &self.authority, "", ""]);
        }
        if default("User-Agent") {
            line(["User-Agent", ": ", USER_AGENT, "", ""]);
        }
        if default("Accept") {
            line(["Accept", ": ", "*/*", "", ""]);
        }
        if default("Content-Length") && self.announces_length() {
            let length = self.body.len().to_string();
            line(["Content-Length", ": ", &length, "", ""]);
        }
        if connection_per_request && !closes {
            line(["Connection", ": ", "close", "", ""]);
        }
        for (name, value) in &self.headers {
            line([name, ": ", value.trim_matches([' ', '\t']), "", ""]);
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        Ok(Encoded {
            bytes,
            closes: closes || connection_per_request,
            is_head: self.method == "HEAD",
        })
    }

    fn values_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = move |header: &&(String, String)| header.0.eq_ignore_ascii_case(name);
        self.headers
            .iter()
            .filter(named)
            .map(|(_, value)| value.as_str())
    }

    /// RFC 9110, 8.6: where the method anticipates a body, its absence is announced too.
    fn announces_length(&self) -> bool {
        !self.body.is_empty() || ["POST", "PUT", "PATCH"].contains(&self.method.as_str())
    }

    fn check_length(&self) -> Result<(), BadRequest> {
        if self.values_of("Transfer-Encoding").next().is_some() {
            return Err(BadRequest::header(
                "Transfer-Encoding",
                "cannot be set: the body is sent whole, with its length",
            ));
        }
        let len = self.body.len();
        match self.values_of("Content-Length").next() {
            Some(said) if said.trim() != len.to_string() => Err(BadRequest {
                place: "header `Content-Length`".into(),
                reason: format!("says {:?}, but the body has {len} bytes", said.trim()),
            }),
            _ => Ok(()),
        }
    }
}

const USER_AGENT: &str = concat!("wallfinder/", env!("CARGO_PKG_VERSION"));

/// A request in bytes.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) bytes: Vec<u8>,
    /// The request asks for `Connection: close`.
    pub(super) closes: bool,
    /// The method is HEAD: answers have no body.
    pub(super) is_head: bool,
}

/// A request or an option that cannot be used, and where in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadRequest {
    place: String,
    reason: String,
}

impl BadRequest {
    pub(super) fn new(place: &str, reason: &str) -> BadRequest {
        BadRequest {
            place: place.into(),
            reason: reason.into(),
        }
    }

    fn header(name: &str, reason: &str) -> BadRequest {
        BadRequest {
            place: format!("header `{}`", name.escape_debug()),
            reason: reason.into(),
        }
    }

    /// The part at fault: `method`, `target`, `authority`, ``header `X` ``, or an option.
    pub fn place(&self) -> &str {
        &self.place
    }
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl std::error::Error for BadRequest {}

fn check_method(method: &str) -> Result<(), BadRequest> {
    let refuse = |reason| Err(BadRequest::new("method", reason));
    match method {
        "" => refuse("is empty"),
        "CONNECT" => refuse("CONNECT opens a tunnel, which has no answers to measure"),
        _ if !method.bytes().all(is_token) => refuse("is not a token of RFC 9110, 5.6.2"),
        _ => Ok(()),
    }
}

fn check_target(method: &str, target: &str) -> Result<(), BadRequest> {
    let refuse = |reason| Err(BadRequest::new("target", reason));
    if let Some(at) = target.bytes().position(|b| !(0x21..=0x7e).contains(&b)) {
        let reason = format!("a space, control or non-ASCII byte at {at}: percent-encode it");
        return Err(BadRequest {
            place: "target".into(),
            reason,
        });
    }
    if target.contains('#') {
        return refuse("a fragment (`#`) is never sent to a server");
    }
    let absolute = ["http://", "https://"]
        .iter()
        .any(|scheme| target.starts_with(scheme));
    match target {
        "" => refuse("is empty"),
        "*" if method == "OPTIONS" => Ok(()),
        _ if target.starts_with('/') || absolute => Ok(()),
        _ => refuse("does not start with `/`"),
    }
}

fn check_authority(authority: &str) -> Result<(), BadRequest> {
    let refuse = |reason| Err(BadRequest::new("authority", reason));
    let forbidden = |b: u8| !(0x21..=0x7e).contains(&b) || b"/?#@\\".contains(&b);
    match authority {
        "" => refuse("is empty"),
        _ if authority.bytes().any(forbidden) => refuse("is not `host` or `host:port`"),
        _ => Ok(()),
    }
}

fn check_header(name: &str, value: &str) -> Result<(), BadRequest> {
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(BadRequest::header(name, "its name is not a token"));
    }
    match value.bytes().find(|&b| is_control(b)) {
        Some(b'\r' | b'\n') => Err(BadRequest::header(name, "its value has a line end")),
        Some(0) => Err(BadRequest::header(name, "its value has a NUL")),
        Some(_) => Err(BadRequest::header(name, "its value has a control byte")),
        None => Ok(()),
    }
}

fn has_close(value: &str) -> bool {
    value
        .split(',')
        .any(|token| token.trim().eq_ignore_ascii_case("close"))
}

/// RFC 9110, 5.5: a field's value has no controls but HTAB.
pub(super) fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

/// RFC 9110, 5.6.2.
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(request: &Request) -> String {
        let encoded = request.encode(false).expect("the request is sound");
        String::from_utf8(encoded.bytes).expect("the request is text")
    }

    #[track_caller]
    fn refused(request: Request, message: &str) {
        let error = request.encode(false).expect_err("the request is not sound");
        assert_eq!(error.to_string(), message);
    }

    #[test]
    fn defaults_stand_where_the_user_says_nothing() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            text_of(&Request::get("h:80", "/a?b=c")),
            format!(
                "GET /a?b=c HTTP/1.1\r\nHost: h:80\r\nUser-Agent: wallfinder/{version}\r\n\
                 Accept: */*\r\n\r\n"
            )
        );
    }

    #[test]
    fn fields_of_the_user_take_the_place_of_defaults() {
        let request = Request::get("h", "/")
            .header("host", "other")
            .header("USER-AGENT", "me")
            .header("accept", "")
            .header("X-Two", " spaced\t")
            .header("X-Two", "caf\u{e9}");
        assert_eq!(
            text_of(&request),
            "GET / HTTP/1.1\r\nhost: other\r\nUSER-AGENT: me\r\naccept: \r\n\
             X-Two: spaced\r\nX-Two: caf\u{e9}\r\n\r\n"
        );
    }

    #[test]
    fn a_length_is_announced_where_a_body_is_or_is_expected() {
        for (method, body, announced) in [
            ("GET", "", None),
            ("DELETE", "", None),
            ("GET", "hi", Some(2)),
            ("POST", "", Some(0)),
            ("PUT", "", Some(0)),
            ("PATCH", "hello", Some(5)),
        ] {
            let text = text_of(&Request::new(method, "h", "/").body(body));
            let line = announced.map(|len: usize| format!("\r\nContent-Length: {len}\r\n"));
            assert_eq!(text.contains("Content-Length"), line.is_some(), "{method}");
            assert!(text.contains(&line.unwrap_or_default()));
            assert!(text.ends_with(&format!("\r\n\r\n{body}")));
        }
        let said = Request::new("POST", "h", "/").header("content-length", "2");
        assert!(text_of(&said.clone().body("hi")).contains("content-length: 2\r\n"));
        refused(
            said.body("hello"),
            "header `Content-Length`: says \"2\", but the body has 5 bytes",
        );
    }

    #[test]
    fn what_would_end_a_line_early_is_refused() {
        for (value, what) in [
            ("a\r\nEvil: 1", "a line end"),
            ("a\nEvil: 1", "a line end"),
            ("a\r", "a line end"),
            ("a\0", "a NUL"),
            ("a\x1b", "a control byte"),
            ("a\x7f", "a control byte"),
        ] {
            let request = Request::get("h", "/").header("X-Key", value);
            refused(request, &format!("header `X-Key`: its value has {what}"));
        }
        for name in ["", "X Key", "X:", "X\r\nEvil", "caf\u{e9}"] {
            let request = Request::get("h", "/").header(name, "a");
            let shown = name.escape_debug();
            refused(
                request,
                &format!("header `{shown}`: its name is not a token"),
            );
        }
        for target in ["/a b", "/a\r\nEvil: 1", "/\0", "/caf\u{e9}", "/\t"] {
            let error = Request::get("h", target).encode(false).unwrap_err();
            assert_eq!(error.place(), "target");
        }
        for authority in ["", "h\r\nEvil: 1", "h h", "u:p@h", "h/a", "h?", "h#"] {
            let error = Request::get(authority, "/").encode(false).unwrap_err();
            assert_eq!(error.place(), "authority");
        }
    }

    #[test]
    fn methods_and_targets_that_have_no_meaning_are_refused() {
        for method in ["", "GE T", "GET\r\n", "G\u{e9}T", "G/T", "CONNECT"] {
            let error = Request::new(method, "h", "/").encode(false).unwrap_err();
            assert_eq!(error.place(), "method");
        }
        for target in ["", "a", "?a", "*", "/a#b", "ftp://h/"] {
            let error = Request::get("h", target).encode(false).unwrap_err();
            assert_eq!(error.place(), "target");
        }
        for (method, target) in [
            ("OPTIONS", "*"),
            ("GET", "http://h/a"),
            ("PROPFIND", "/%20"),
        ] {
            assert!(Request::new(method, "h", target).encode(false).is_ok());
        }
    }

    #[test]
    fn what_frames_the_request_is_given_once_and_by_us() {
        refused(
            Request::get("h", "/").header("transfer-encoding", "chunked"),
            "header `Transfer-Encoding`: cannot be set: the body is sent whole, with its length",
        );
        let twice = Request::get("h", "/")
            .header("Host", "a")
            .header("host", "b");
        refused(twice, "header `Host`: is given more than once");
    }

    #[test]
    fn closing_is_asked_for_once() {
        for (request, asked, closes) in [
            (Request::get("h", "/"), false, false),
            (Request::get("h", "/"), true, true),
            (
                Request::get("h", "/").header("connection", "x, Close"),
                false,
                true,
            ),
            (
                Request::get("h", "/").header("connection", "x, Close"),
                true,
                true,
            ),
            (
                Request::get("h", "/").header("Connection", "keep-alive"),
                false,
                false,
            ),
        ] {
            let encoded = request.encode(asked).unwrap();
            assert_eq!(encoded.closes, closes);
            let text = String::from_utf8(encoded.bytes).unwrap().to_lowercase();
            assert_eq!(text.matches("close").count(), usize::from(closes));
        }
    }
}
