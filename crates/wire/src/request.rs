//! The request of a worker: what the user asked for, checked once. How it is encoded is
//! each protocol's matter.
//!
//! What it is not: a template. Every request of a worker is the same bytes. Nothing the
//! user gives can end a line early: a request that would smuggle a second one, or that
//! this client could not frame the answer to, is refused with the name of its place.

use serde::{Deserialize, Serialize};

/// A request as the user gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(with = "crate::bytes::one")]
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

    /// Refuses what no protocol could carry, or could carry and mean something else by.
    pub(crate) fn check(&self) -> Result<(), BadRequest> {
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
        self.check_length()
    }

    pub(crate) fn values_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = move |header: &&(String, String)| header.0.eq_ignore_ascii_case(name);
        self.headers
            .iter()
            .filter(named)
            .map(|(_, value)| value.as_str())
    }

    /// RFC 9110, 8.6: where the method anticipates a body, its absence is announced too.
    pub(crate) fn announces_length(&self) -> bool {
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

pub(crate) const USER_AGENT: &str = concat!("wallfinder/", env!("CARGO_PKG_VERSION"));

/// A request or an option that cannot be used, and where in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct BadRequest {
    place: String,
    reason: String,
}

impl BadRequest {
    pub(crate) fn new(place: &str, reason: &str) -> BadRequest {
        BadRequest {
            place: place.into(),
            reason: reason.into(),
        }
    }

    pub(crate) fn header(name: &str, reason: &str) -> BadRequest {
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

/// RFC 9110, 5.5: a field's value has no controls but HTAB.
pub(crate) fn is_control(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\t') || byte == 0x7f
}

/// RFC 9110, 5.6.2.
pub(crate) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
