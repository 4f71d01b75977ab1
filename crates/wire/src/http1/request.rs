//! The bytes of a request in HTTP/1.1 (RFC 9112, 3).

use crate::mix::{Template, Text};
use crate::request::{BadRequest, USER_AGENT};

impl Template {
    /// The text on the wire, and what it obliges the connection to. A field that says nothing makes it longer by so many
    /// bytes: 0, or at least [`PADDING_BYTES_MIN`].
    pub(super) fn encode(
        &self,
        connection_per_request: bool,
        padding_bytes: usize,
    ) -> Result<Encoded, BadRequest> {
        let sample = self.sample();
        let is_default = |name| sample.values_of(name).next().is_none();
        if !self.body.is_fixed() && !is_default("Content-Length") {
            let reason =
                "cannot be set: the length of the body depends on what it is filled in with";
            return Err(BadRequest::header("Content-Length", reason));
        }
        sample.check()?;
        let closes = sample.values_of("Connection").any(has_close);
        let mut head = Text::default();
        head.push(format!("{} ", self.method).as_bytes());
        head.append(&self.target);
        head.push(b" HTTP/1.1\r\n");
        let mut line = |name: &str, value: &Text| {
            head.push(format!("{name}: ").as_bytes());
            head.append(value);
            head.push(b"\r\n");
        };
        for (name, value) in [
            ("Host", self.authority.as_str()),
            ("User-Agent", USER_AGENT),
            ("Accept", "*/*"),
        ] {
            if is_default(name) {
                line(name, &Text::fixed(value));
            }
        }
        if connection_per_request && !closes {
            line("Connection", &Text::fixed("close"));
        }
        for (name, value) in &self.headers {
            line(name, &value.trimmed());
        }
        if padding_bytes > 0 {
            let value = padding_bytes.checked_sub(PADDING_BYTES_MIN - 1);
            let value = value.filter(|bytes| *bytes > 0).ok_or_else(|| {
                BadRequest::new("padding", "is shorter than the field that carries it")
            })?;
            line(PADDING, &Text::fixed(vec![b'x'; value]));
        }
        Ok(Encoded {
            has_length: is_default("Content-Length") && sample.announces_length(),
            closes: closes || connection_per_request,
            is_head: self.method == "HEAD",
            head,
        })
    }

    /// The bytes of one without places.
    pub(super) fn encode_fixed(
        &self,
        connection_per_request: bool,
        padding_bytes: usize,
    ) -> Result<Vec<u8>, BadRequest> {
        let encoded = self.encode(connection_per_request, padding_bytes)?;
        let mut bytes = encoded.head;
        let body = self.body.clone().into_fixed().unwrap_or_default();
        if encoded.has_length {
            bytes.push(format!("{CONTENT_LENGTH}{}\r\n", body.len()).as_bytes());
        }
        bytes.push(b"\r\n");
        bytes.push(&body);
        let places = || BadRequest::new("request", "has places, and is to be always the same");
        bytes.into_fixed().ok_or_else(places)
    }
}

/// How the field begins that says a body's length.
pub(super) const CONTENT_LENGTH: &str = "Content-Length: ";
/// The field that makes a request longer.
const PADDING: &str = "X-Padding";
/// The least by which it does: its name, colon, space, one byte and the end of the line.
pub(super) const PADDING_BYTES_MIN: usize = PADDING.len() + 5;

/// A request's head on the wire, without the length of its body and the empty line.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) head: Text,
    /// The length of the body is said.
    pub(super) has_length: bool,
    /// The request asks for `Connection: close`.
    pub(super) closes: bool,
    /// The method is HEAD: answers have no body.
    pub(super) is_head: bool,
}

fn has_close(value: &str) -> bool {
    value
        .split(',')
        .any(|token| token.trim().eq_ignore_ascii_case("close"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;

    fn encode(request: &Request, one_each: bool) -> Result<Vec<u8>, BadRequest> {
        Template::from(request).encode_fixed(one_each, 0)
    }

    fn text_of(request: &Request) -> String {
        let bytes = encode(request, false).expect("the request is sound");
        String::from_utf8(bytes).expect("the request is text")
    }

    #[track_caller]
    fn refused(request: Request, message: &str) {
        let error = encode(&request, false).expect_err("the request is not sound");
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
            let error = encode(&Request::get("h", target), false).unwrap_err();
            assert_eq!(error.place(), "target");
        }
        for authority in ["", "h\r\nEvil: 1", "h h", "u:p@h", "h/a", "h?", "h#"] {
            let error = encode(&Request::get(authority, "/"), false).unwrap_err();
            assert_eq!(error.place(), "authority");
        }
    }

    #[test]
    fn methods_and_targets_that_have_no_meaning_are_refused() {
        for method in ["", "GE T", "GET\r\n", "G\u{e9}T", "G/T", "CONNECT"] {
            let error = encode(&Request::new(method, "h", "/"), false).unwrap_err();
            assert_eq!(error.place(), "method");
        }
        for target in ["", "a", "?a", "*", "/a#b", "ftp://h/"] {
            let error = encode(&Request::get("h", target), false).unwrap_err();
            assert_eq!(error.place(), "target");
        }
        for (method, target) in [
            ("OPTIONS", "*"),
            ("GET", "http://h/a"),
            ("PROPFIND", "/%20"),
        ] {
            assert!(encode(&Request::new(method, "h", target), false).is_ok());
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
            let encoded = Template::from(&request).encode(asked, 0).unwrap();
            assert_eq!(encoded.closes, closes);
            let text = String::from_utf8(encode(&request, asked).unwrap()).unwrap();
            let text = text.to_lowercase();
            assert_eq!(text.matches("close").count(), usize::from(closes));
        }
    }
}
