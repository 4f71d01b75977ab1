//! A call as the user gives it: checked, and encoded once.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::call::{Calls, Kind, Terms};
use super::messages::PREFIX_BYTES;
use crate::http2;
use crate::http2::hpack::Field;
use crate::mix::Template;
use crate::request::{self as http, BadRequest, USER_AGENT};

/// Longest message that an answer may have unless the request says otherwise, in bytes: what
/// most clients allow.
pub const MESSAGE_BYTES_MAX: u32 = 4 << 20;

/// A call, sent over and over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The authority, `host:port`.
    pub authority: String,
    /// The method: `/package.Service/Method`.
    pub path: String,
    /// Which sides stream.
    pub kind: Kind,
    /// Metadata of the user. The value of a name that ends in `-bin` is in base64.
    pub metadata: Vec<(String, String)>,
    /// How long the server is told that it may take, as `grpc-timeout`.
    pub deadline: Option<Duration>,
    /// The messages of one call, encoded; where the client does not stream, one.
    #[serde(with = "crate::bytes::many")]
    pub messages: Vec<Vec<u8>>,
    /// Whether each message waits for an answer to the one before it, where both sides stream.
    pub in_turn: bool,
    /// Longest message that an answer may have, in bytes.
    pub message_bytes_max: u32,
    /// Whether answers' messages are kept ([`http2::Shared::kept_messages`]): for a call
    /// that is made once. A load keeps none.
    pub keeps_answers: bool,
}

impl Request {
    /// A unary call without metadata.
    pub fn unary(
        authority: impl Into<String>,
        path: impl Into<String>,
        message: impl Into<Vec<u8>>,
    ) -> Request {
        Request {
            authority: authority.into(),
            path: path.into(),
            kind: Kind::Unary,
            metadata: Vec::new(),
            deadline: None,
            messages: vec![message.into()],
            in_turn: false,
            message_bytes_max: MESSAGE_BYTES_MAX,
            keeps_answers: false,
        }
    }

    /// Bytes of its messages, without prefixes.
    pub fn message_bytes(&self) -> u64 {
        self.messages
            .iter()
            .map(|message| message.len() as u64)
            .sum()
    }

    /// The messages behind their prefixes.
    fn body(&self) -> Result<Vec<u8>, BadRequest> {
        if !self.kind.client_streams() && self.messages.len() != 1 {
            let count = self.messages.len();
            let reason = format!("there are {count}, and a {} call has one", self.kind.name());
            return Err(BadRequest::new("messages", &reason));
        }
        if self.in_turn && self.kind != Kind::Bidirectional {
            let reason = format!(
                "go in turn where both sides stream, and this call is {}",
                self.kind.name()
            );
            return Err(BadRequest::new("messages", &reason));
        }
        let mut body = Vec::new();
        for message in &self.messages {
            let len = u32::try_from(message.len())
                .map_err(|_| BadRequest::new("messages", "one is above 4 GiB"))?;
            body.reserve(PREFIX_BYTES + message.len());
            body.push(0);
            body.extend(len.to_be_bytes());
            body.extend(message);
        }
        Ok(body)
    }

    /// Where each message ends in the body, where they go in turn.
    fn turns(&self) -> Vec<usize> {
        let mut end = 0;
        let ends = self.messages.iter().map(|message| {
            end += PREFIX_BYTES + message.len();
            end
        });
        ends.filter(|_| self.in_turn).collect()
    }

    fn fields(&self, is_https: bool) -> Result<Vec<Field>, BadRequest> {
        let mut post = http::Request::new("POST", &self.authority, &self.path);
        post.headers.clone_from(&self.metadata);
        fields_of(&post, self.deadline, is_https)
    }

    /// As one of the calls of a mix.
    pub fn of_mix(&self) -> Result<(Template, Terms), BadRequest> {
        if self.in_turn {
            return Err(BadRequest::new(
                "messages",
                "go in turn, which those of a mix do not",
            ));
        }
        let mut post = http::Request::new("POST", &self.authority, &self.path);
        post.headers.clone_from(&self.metadata);
        post.body = self.body()?;
        let terms = Terms {
            kind: self.kind,
            deadline: self.deadline,
            message_bytes_max: self.message_bytes_max,
        };
        Ok((Template::from(&post), terms))
    }

    /// From one of a mix: its messages are taken for one.
    pub(crate) fn of_sample(post: &http::Request, terms: &Terms) -> Request {
        let message = post.body.get(PREFIX_BYTES..).unwrap_or_default();
        Request {
            kind: terms.kind,
            metadata: post.headers.clone(),
            deadline: terms.deadline,
            message_bytes_max: terms.message_bytes_max,
            ..Request::unary(post.authority.as_str(), post.target.as_str(), message)
        }
    }
}

/// Checks a call, a POST whose fields are its metadata, and lists what is sent before its messages.
pub(crate) fn fields_of(
    post: &http::Request,
    deadline: Option<Duration>,
    is_https: bool,
) -> Result<Vec<Field>, BadRequest> {
    check_path(&post.target)?;
    for (name, value) in &post.headers {
        check_metadata(name, value)?;
    }
    let mut fields = http2::pseudo_fields(post, is_https)?;
    fields.push(Field::new("te", "trailers"));
    if let Some(deadline) = deadline {
        fields.push(Field::new("grpc-timeout", &timeout(deadline)?));
    }
    let is_given = |name| post.values_of(name).next().is_some();
    for (name, value) in [
        ("content-type", "application/grpc"),
        ("user-agent", USER_AGENT),
    ] {
        if !is_given(name) {
            fields.push(Field::new(name, value));
        }
    }
    fields.extend(http2::user_fields(post).filter(|field| &*field.name != "te"));
    Ok(fields)
}

/// Checks and encodes a call, for the connections of one worker.
pub fn shared(request: &Request, options: http2::Options) -> Result<http2::Shared, BadRequest> {
    let fields = request.fields(options.is_https)?;
    let calls = Calls {
        message_bytes_max: request.message_bytes_max,
        kind: request.kind,
        turns: request.turns(),
        kept: request.keeps_answers.then(Vec::new),
    };
    http2::Shared::of_calls(&fields, request.body()?, calls, options)
}

/// `/package.Service/Method`: two names.
fn check_path(path: &str) -> Result<(), BadRequest> {
    let names: Vec<&str> = path.split('/').collect();
    match names.as_slice() {
        ["", service, method] if !service.is_empty() && !method.is_empty() => Ok(()),
        _ => Err(BadRequest::new(
            "method",
            "is not written as package.Service/Method",
        )),
    }
}

/// What the client says itself.
const OURS: [&str; 5] = [
    "grpc-timeout",
    "grpc-encoding",
    "grpc-accept-encoding",
    "grpc-status",
    "grpc-message",
];

fn check_metadata(name: &str, value: &str) -> Result<(), BadRequest> {
    let refuse = |reason| Err(BadRequest::header(name, reason));
    let lower = name.to_ascii_lowercase();
    match lower.as_str() {
        "grpc-timeout" => return refuse("is said by the deadline"),
        "grpc-encoding" | "grpc-accept-encoding" => {
            return refuse("cannot be set: messages are sent, and read, as they are");
        }
        "content-length" => return refuse("cannot be set: gRPC sends none"),
        "content-type" if !is_grpc(value.trim().as_bytes()) => {
            return refuse("is not application/grpc");
        }
        name if OURS.contains(&name) => return refuse("is said by the answer"),
        _ => {}
    }
    let may_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if !name.bytes().all(may_name) {
        return refuse("its name has other bytes than letters, digits, `_`, `-` and `.`");
    }
    if lower.ends_with("-bin") {
        if !value.split(',').all(|part| is_base64(part.trim())) {
            return refuse("is not base64, which the value of a `-bin` name must be");
        }
    } else if value
        .bytes()
        .any(|byte| byte != b'\t' && !(b' '..=b'~').contains(&byte))
    {
        return refuse("has other bytes than ASCII: give them in base64, under a `-bin` name");
    }
    Ok(())
}

/// Base64 with or without its padding.
fn is_base64(text: &str) -> bool {
    let digits = text.trim_end_matches('=');
    let padding = text.len() - digits.len();
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/".contains(&byte);
    let fits = match digits.len() % 4 {
        0 => padding == 0,
        1 => false,
        over => padding == 0 || padding == 4 - over,
    };
    fits && digits.bytes().all(is_digit)
}

/// Whether a content type is one of gRPC's: alone, or with a codec or a parameter behind it.
pub(crate) fn is_grpc(content_type: &[u8]) -> bool {
    const PLAIN: &[u8] = b"application/grpc";
    match content_type.split_at_checked(PLAIN.len()) {
        Some((begin, rest)) => {
            begin.eq_ignore_ascii_case(PLAIN) && matches!(rest.first(), None | Some(b'+' | b';'))
        }
        None => false,
    }
}

/// The deadline in at most eight digits: in the coarsest unit that loses nothing, else
/// rounded up to the finest that holds it.
fn timeout(deadline: Duration) -> Result<String, BadRequest> {
    const MOST: u128 = 99_999_999;
    const UNITS: [(&str, u128); 6] = [
        ("H", 3_600_000_000_000),
        ("M", 60_000_000_000),
        ("S", 1_000_000_000),
        ("m", 1_000_000),
        ("u", 1_000),
        ("n", 1),
    ];
    let ns = deadline.as_nanos();
    if ns == 0 {
        return Err(BadRequest::new("deadline", "is 0"));
    }
    let fits = |unit_ns: u128| ns.div_ceil(unit_ns) <= MOST;
    let exact = UNITS
        .iter()
        .find(|(_, unit)| ns.is_multiple_of(*unit) && fits(*unit));
    let finest = || UNITS.iter().rev().find(|(_, unit)| fits(*unit));
    match exact.or_else(finest) {
        Some((name, unit)) => Ok(format!("{}{name}", ns.div_ceil(*unit))),
        None => Err(BadRequest::new("deadline", "is above 99,999,999 hours")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Request {
        Request::unary("h:1", "/a.B/C", b"hi")
    }

    fn with(name: &str, value: &str) -> Request {
        let mut request = call();
        request.metadata.push((name.into(), value.into()));
        request
    }

    fn text_of(request: &Request) -> Vec<String> {
        let fields = request.fields(false).expect("the request is sound");
        let line = |f: &Field| format!("{} {}", f.name, String::from_utf8_lossy(&f.value));
        fields.iter().map(line).collect()
    }

    #[test]
    fn a_call_says_what_the_specification_wants_and_nothing_of_http() {
        let mut request = with("X-Trace", "7");
        request.metadata.push(("id-bin".into(), "AAEC".into()));
        request.deadline = Some(Duration::from_millis(1500));
        assert_eq!(
            text_of(&request),
            [
                ":method POST",
                ":scheme http",
                ":path /a.B/C",
                ":authority h:1",
                "te trailers",
                "grpc-timeout 1500m",
                "content-type application/grpc",
                &format!("user-agent {USER_AGENT}"),
                "x-trace 7",
                "id-bin AAEC",
            ]
        );
        let proto = text_of(&with("Content-Type", "application/grpc+proto"));
        assert_eq!(
            proto[5..],
            [
                &format!("user-agent {USER_AGENT}"),
                "content-type application/grpc+proto"
            ]
        );
    }

    #[test]
    fn metadata_that_cannot_be_sent_is_refused_by_name() {
        for (name, value) in [
            ("Grpc-Timeout", "1S"),
            ("grpc-encoding", "gzip"),
            ("grpc-accept-encoding", "gzip"),
            ("grpc-status", "0"),
            ("content-length", "7"),
            ("content-type", "application/json"),
            ("a!b", "x"),
            ("x", "caf\u{e9}"),
            ("x", "a\nb"),
            ("connection", "close"),
            ("TE", "gzip"),
            ("x-bin", "no base64!"),
            ("x-bin", "AAE=C"),
            ("x-bin", "A"),
            ("x-bin", "AA="),
        ] {
            let refused = with(name, value).fields(false).unwrap_err();
            assert_eq!(refused.place(), format!("header `{name}`"), "{value}");
        }
        for value in ["", "AAE", "AAE=", "AA==", "AAEC", "+/+/,AAE="] {
            assert!(with("x-bin", value).fields(false).is_ok(), "{value}");
        }
    }

    #[test]
    fn a_method_is_two_names() {
        for path in ["", "/", "/a", "/a/", "//b", "a/b", "/a/b/c"] {
            let request = Request::unary("h", path, "");
            assert_eq!(request.fields(false).unwrap_err().place(), "method");
        }
    }

    #[test]
    fn deadlines_have_eight_digits_and_are_never_cut_short() {
        for (ns, said) in [
            (1, "1n"),
            (1_000, "1u"),
            (100_000_000, "100m"),
            (1_500_000_000, "1500m"),
            (60_000_000_000, "1M"),
            (99_999_999, "99999999n"),
            (100_000_001, "100001u"),
            (7_200_000_000_000, "2H"),
            (u64::MAX, "5124096H"),
        ] {
            assert_eq!(timeout(Duration::from_nanos(ns)).unwrap(), said);
        }
        assert!(timeout(Duration::ZERO).is_err());
        assert!(timeout(Duration::MAX).is_err());
    }

    #[test]
    fn messages_stand_behind_their_lengths() {
        let mut request = call();
        assert_eq!(request.body().unwrap(), b"\0\0\0\0\x02hi");
        request.messages.push(Vec::new());
        assert!(request.body().is_err(), "two messages of a unary call");
        request.kind = Kind::ClientStreaming;
        assert_eq!(request.body().unwrap(), b"\0\0\0\0\x02hi\0\0\0\0\0");
        request.messages.clear();
        assert_eq!(request.body().unwrap(), b"");
    }

    #[test]
    fn messages_go_in_turn_where_both_sides_stream() {
        let mut request = call();
        request.messages.push(Vec::new());
        request.kind = Kind::Bidirectional;
        assert_eq!(request.turns(), [0; 0]);
        request.in_turn = true;
        assert_eq!(request.turns(), [7, 12]);
        assert_eq!(request.body().unwrap().len(), 12);
        request.kind = Kind::ClientStreaming;
        let refused = request.body().unwrap_err().to_string();
        assert!(refused.contains("client-streaming"), "{refused}");
    }
}
