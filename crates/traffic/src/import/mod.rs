//! Traffic files from what others have: a HAR, an access log, a line of curl, an OpenAPI description.
//!
//! What comes out runs as it is, and a person can edit it. Secrets are left out of it, and named.

mod curl;
mod har;
mod log;
mod openapi;
mod route;
mod stamps;
mod url;

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use wallfinder_model::scenario::Reference;
use wallfinder_model::traffic::{Data, Request, RowOrder, Scalar, Traffic};
use wallfinder_wire::mix::Spelling;

pub use curl::from_curl;
pub use har::{from_har, from_har_by_route, logged as har_logged};
pub use log::{Format, from_log, logged};
pub use openapi::from_openapi;
pub(crate) use route::route;
pub(crate) use url::Url;

/// Whether a name, of a header field or a parameter, is one whose value is a secret.
pub type IsSecret<'s> = &'s dyn Fn(&str) -> bool;

/// What was made of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Imported {
    /// It.
    pub traffic: Traffic,
    /// The origin that was asked most, where it is known: `https://shop.example`.
    pub origin: Option<String>,
    /// What was left out, and why, in words; each a line of its own.
    pub left_out: Vec<String>,
}

impl Imported {
    /// As a traffic file.
    pub fn written(&self) -> String {
        let mut text = String::new();
        if let Some(origin) = &self.origin {
            text.push_str(&format!("# From {}.\n", on_one_line(origin)));
        }
        for line in &self.left_out {
            text.push_str(&format!("# Left out: {}\n", on_one_line(line)));
        }
        if !text.is_empty() {
            text.push('\n');
        }
        // Rows stand last: there are many of them.
        let mut traffic = self.traffic.clone();
        let data = std::mem::take(&mut traffic.data);
        let requests = toml::to_string(&traffic);
        text.push_str(&requests.expect("traffic is tables of plain values"));
        for (name, of) in &data {
            let order = toml::Value::try_from(of.order).expect("it is a word");
            text.push_str(&format!("\n[data.{name}]\norder = {order}\nrows = [\n"));
            for row in &of.rows {
                let cell = |(column, value): (&String, &Scalar)| {
                    let value = toml::Value::String(value.to_string());
                    format!("{column} = {value}")
                };
                let cells: Vec<String> = row.iter().map(cell).collect();
                text.push_str(&format!("  {{ {} }},\n", cells.join(", ")));
            }
            text.push_str("]\n");
        }
        text
    }
}

/// Without what would end a comment.
fn on_one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// A request as it was made once.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Logged {
    /// When it began, from any beginning.
    pub at_ns: u64,
    /// Its method.
    pub method: String,
    /// Its path and query, as they were sent.
    pub target: String,
    /// Its body, and the type of that.
    pub body: Option<(String, Vec<u8>)>,
}

/// Requests as they were made, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// They.
    pub requests: Vec<Logged>,
    /// Whether their stamps are of whole seconds.
    pub is_coarse: bool,
    /// What was left out, in words.
    pub left_out: Vec<String>,
}

/// Secrets that were met: what holds each, by name.
#[derive(Debug, Default)]
struct Secrets {
    named: BTreeSet<String>,
}

impl Secrets {
    fn note(&mut self, what: &str) {
        self.named.insert(what.to_owned());
    }

    fn said(self) -> Option<String> {
        let named: Vec<String> = self.named.into_iter().collect();
        (!named.is_empty()).then(|| {
            format!(
                "secrets: {}. Give what the server needs in header = {{ NAME = \"env:VARIABLE\" }}, or with -H",
                named.join(", ")
            )
        })
    }
}

/// Whether a path has a parameter that is secret.
pub(crate) fn has_secret(target: &str, is_secret: IsSecret<'_>) -> bool {
    let mut secrets = Secrets::default();
    without_secrets(target, is_secret, &mut secrets);
    !secrets.named.is_empty()
}

/// A path without the parameters that are secret: those of its query, and those behind a `;` of its segments.
fn without_secrets(target: &str, is_secret: IsSecret<'_>, secrets: &mut Secrets) -> String {
    let mut is_kept = |parameter: &str| {
        let name = parameter.split('=').next().unwrap_or_default();
        let is_secret = is_secret(name);
        if is_secret {
            secrets.note(&format!("the parameter `{name}`"));
        }
        !is_secret
    };
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    };
    let mut parts = path.split(';');
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find('/').unwrap_or(part.len());
        let (parameter, behind) = part.split_at(end);
        if !parameter.contains('=') || is_kept(parameter) {
            kept.push(';');
            kept.push_str(parameter);
        }
        kept.push_str(behind);
    }
    let mut pairs: Vec<String> = Vec::new();
    for pair in query.into_iter().flat_map(|query| query.split('&')) {
        // Some separate them by `;`.
        let parts: Vec<&str> = pair.split(';').filter(|part| is_kept(part)).collect();
        if !parts.is_empty() {
            pairs.push(parts.join(";"));
        }
    }
    match pairs.is_empty() {
        true => kept,
        false => format!("{kept}?{}", pairs.join("&")),
    }
}

/// Fields that are of the one connection, or that describe its browser and say nothing to most servers.
const UNTOLD: [&str; 22] = [
    "host",
    "connection",
    "content-length",
    "transfer-encoding",
    "keep-alive",
    "proxy-connection",
    "upgrade",
    "upgrade-insecure-requests",
    "user-agent",
    "referer",
    "origin",
    "dnt",
    "priority",
    "pragma",
    "cache-control",
    "accept-language",
    "te",
    "expect",
    "if-none-match",
    "if-modified-since",
    "if-range",
    "range",
];

/// Fields that are kept, and their values.
fn fields<'f>(
    given: impl Iterator<Item = (&'f str, &'f str)>,
    is_secret: IsSecret<'_>,
    secrets: &mut Secrets,
) -> BTreeMap<String, String> {
    let mut kept = BTreeMap::new();
    for (name, value) in given {
        let lower = name.to_ascii_lowercase();
        let is_untold = lower.starts_with([':']) || lower.starts_with("sec-");
        if is_untold || UNTOLD.contains(&lower.as_str()) {
            continue;
        }
        // What begins so would be read from a variable or a file.
        let is_reference = Reference::of(value).is_some();
        if lower == "cookie" || is_secret(&lower) || is_reference {
            secrets.note(&format!("`{name}`"));
            continue;
        }
        kept.insert(lower, literal(value));
    }
    kept
}

/// The type of a body, where the fields do not tell it. One that would be read from a variable or a file is none.
fn set_type(header: &mut BTreeMap<String, String>, media_type: &str) {
    if !media_type.is_empty() && Reference::of(media_type).is_none() {
        let place = header.entry("content-type".to_owned());
        place.or_insert_with(|| literal(media_type));
    }
}

const FORM: &str = "application/x-www-form-urlencoded";

/// A field of a form, or a parameter of a query.
fn pair(name: &str, value: &str) -> String {
    format!("{}={}", encoded(name), encoded(value))
}

/// As a part of a path, a query or a form.
fn encoded(text: &str) -> String {
    spelled(text, Spelling::Url)
}

fn spelled(text: &str, by: Spelling) -> String {
    let mut all = Vec::new();
    by.spell(text.as_bytes(), |part| all.extend_from_slice(part));
    String::from_utf8_lossy(&all).into_owned()
}

/// A text that has no places: braces that would be read as one are doubled.
pub(crate) fn literal(text: &str) -> String {
    crate::slots::literal(text)
}

/// A body without the values of members and fields that are secret: of JSON, of lines of JSON, or of a form, whatever its
/// type says. `None`: it is none of these, or a value without a name, and it is not known where secrets stand in it.
fn body_without_secrets(
    body: &str,
    is_secret: IsSecret<'_>,
    secrets: &mut Secrets,
) -> Option<String> {
    let mut json = |text: &str| {
        let mut value: serde_json::Value = serde_json::from_str(text).ok()?;
        // A number or a text alone may be a secret itself.
        if !value.is_object() && !value.is_array() {
            return None;
        }
        let before = value.clone();
        blank(&mut value, is_secret, secrets);
        Some(match value == before {
            true => text.to_owned(),
            false => value.to_string(),
        })
    };
    if body.is_empty() {
        return Some(String::new());
    }
    if let Some(whole) = json(body) {
        return Some(whole);
    }
    let lines = body.lines().map(|line| match line.trim().is_empty() {
        true => Some(line.to_owned()),
        false => json(line),
    });
    if let Some(lines) = lines.collect::<Option<Vec<String>>>() {
        return Some(lines.join("\n"));
    }
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        // Base64 with its padding looks like one field without a value.
        let is_bare = pair.len() == body.len() && value.bytes().all(|byte| byte == b'=');
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~%+[]*@$".contains(&byte);
        let is_field = !name.is_empty() && name.bytes().all(is_plain) && !is_bare;
        if !is_field || pair.contains(char::is_whitespace) {
            return None;
        }
        Some(match is_secret(name) {
            true => {
                secrets.note(&format!("`{name}` of a body"));
                format!("{name}=left-out")
            }
            false => pair.to_owned(),
        })
    };
    let pairs = body.split('&').map(pair);
    Some(pairs.collect::<Option<Vec<String>>>()?.join("&"))
}

/// Values of members that are secret are written over.
fn blank(value: &mut serde_json::Value, is_secret: IsSecret<'_>, secrets: &mut Secrets) {
    match value {
        serde_json::Value::Object(members) => {
            for (name, member) in members {
                if is_secret(name) {
                    secrets.note(&format!("`{name}` of a body"));
                    blank_all(member);
                } else {
                    blank(member, is_secret, secrets);
                }
            }
        }
        serde_json::Value::Array(items) => {
            items
                .iter_mut()
                .for_each(|item| blank(item, is_secret, secrets));
        }
        _ => {}
    }
}

/// All of it.
fn blank_all(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(members) => members.values_mut().for_each(blank_all),
        serde_json::Value::Array(items) => items.iter_mut().for_each(blank_all),
        plain => *plain = "left-out".into(),
    }
}

/// A text as a body: one that begins with `@` would be the name of a file.
fn as_body(text: &str) -> String {
    match text.starts_with('@') {
        true => literal(&format!("@{text}")),
        false => literal(text),
    }
}

/// A request of a method; `None`: there is no key for that.
fn request(method: &str, path: &str) -> Option<Request> {
    let mut request = Request::default();
    let place = match method {
        "GET" => &mut request.get,
        "HEAD" => &mut request.head,
        "POST" => &mut request.post,
        "PUT" => &mut request.put,
        "PATCH" => &mut request.patch,
        "DELETE" => &mut request.delete,
        "OPTIONS" => &mut request.options,
        _ => return None,
    };
    *place = Some(literal(&spelled(path, Spelling::Path)));
    Some(request)
}

/// A request for any of these paths, each as likely as any other. Where they are several, they are rows of a table of
/// its own.
pub(crate) fn drawn(
    traffic: &mut Traffic,
    method: &str,
    origin: &str,
    paths: Vec<String>,
) -> Request {
    let first = format!("{origin}{}", paths[0]);
    let mut kind = request(method, &first).expect("there is a key for it");
    if paths.iter().any(|path| *path != paths[0]) {
        let table = format!("paths_{}", traffic.request.len() + 1);
        // Behind an origin stands a slash, so that it is a URL whatever the rows are.
        let slash = if origin.is_empty() { "" } else { "/" };
        let place = format!("{origin}{slash}{{{table}.path|raw}}");
        kind.paths_mut().for_each(|path| path.clone_from(&place));
        let row = |path: String| {
            let path = path.strip_prefix(slash).unwrap_or(&path).to_owned();
            [("path".to_owned(), Scalar::Text(path))].into()
        };
        let rows = Data {
            order: RowOrder::Random,
            rows: paths.into_iter().map(row).collect(),
            ..Data::default()
        };
        traffic.data.insert(table, rows);
    }
    kind
}

/// Whether bytes are of a file that gzip made.
pub fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\x1f\x8b")
}

/// A name that no other has yet.
pub(crate) fn unused(name: &str, names: &mut BTreeSet<String>) -> String {
    let mut own = name.to_owned();
    let mut nth = 1;
    while !names.insert(own.clone()) {
        nth += 1;
        own = format!("{name} {nth}");
    }
    own
}

/// What is said of bodies in which it is not known where secrets stand; nothing of none.
fn strange_bodies(count: usize) -> Option<String> {
    let bodies = match count {
        0 => return None,
        1 => "1 body".to_owned(),
        count => format!("{count} bodies"),
    };
    Some(format!(
        "{bodies}, in which it is not known where secrets stand: write them in as body, or as multipart"
    ))
}

/// `12 requests`.
fn counted(count: usize, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn telling(name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        ["token", "password", "authorization", "api_key"]
            .iter()
            .any(|part| name.contains(part))
    }

    /// Its requests by name, with their weights.
    pub(super) fn weights(made: &Imported) -> Vec<(String, Option<u32>)> {
        let kinds = made.traffic.request.iter();
        kinds.map(|kind| (kind.shown_name(), kind.weight)).collect()
    }

    #[test]
    fn secrets_are_left_out_and_named() {
        let mut secrets = Secrets::default();
        let target = without_secrets("/a?x=1&token=s3&y=2", &telling, &mut secrets);
        assert_eq!(target, "/a?x=1&y=2");
        for (target, want) in [
            ("/cart;token=s3", "/cart"),
            ("/a;token=s3;v=1/b;token=s3/c?token=s3", "/a;v=1/b/c"),
            ("/a?x=1;token=s3&token=s3;y=2&z;", "/a?x=1&y=2&z;"),
            ("/tokens;tokens/a;b=token?", "/tokens;tokens/a;b=token?"),
        ] {
            assert_eq!(without_secrets(target, &telling, &mut secrets), want);
        }
        let given = [
            ("Authorization", "Bearer s3"),
            ("Cookie", "sid=s3"),
            ("Accept", "*/*"),
            ("Host", "h"),
        ];
        let kept = fields(given.into_iter(), &telling, &mut secrets);
        assert_eq!(kept, [("accept".to_owned(), "*/*".to_owned())].into());
        let mut body = |body: &str| body_without_secrets(body, &telling, &mut secrets);
        assert_eq!(
            body("{\"user\":{\"password\":\"s3\"}}").as_deref(),
            Some("{\"user\":{\"password\":\"left-out\"}}")
        );
        let deep = body("{\"tokens\":[\"s3\",{\"a\":\"s3\"}]}").expect("it is JSON");
        assert!(!deep.contains("s3"), "{deep}");
        let lines = body("{\"a\":1}\n{\"password\":\"s3\"}\n").expect("each is JSON");
        assert!(
            lines.starts_with("{\"a\":1}\n") && !lines.contains("s3"),
            "{lines}"
        );
        assert_eq!(
            body("a=1&password=s3").as_deref(),
            Some("a=1&password=left-out")
        );
        assert_eq!(body("").as_deref(), Some(""));
        // Where it is not known which part is a secret, none is kept and none is named.
        for strange in [
            "{\"password\": s3}",
            "<login password=\"s3\"/>",
            "password: s3",
            "s3",
            // A code, a quoted token, several of them, and base64.
            "483920",
            "\"eyJhbGci.s3\"",
            "\"s3\"\n483920\n",
            "c2VjcmV0czM=",
            "c2VjcmV0cw==",
            "--x\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\ns3\r\n--x--",
        ] {
            assert_eq!(body(strange), None, "{strange}");
        }
        // What would be read from a variable or a file when it is sent.
        let given = [("X-A", "env:HOME"), ("X-B", "file:/etc/passwd")];
        assert!(fields(given.into_iter(), &telling, &mut secrets).is_empty());
        assert_eq!(as_body("@/etc/passwd"), "@@/etc/passwd");
        let said = secrets.said().expect("there are some");
        assert!(!said.contains("s3"), "{said}");
        for part in [
            "the parameter `token`",
            "`Authorization`",
            "`Cookie`",
            "`password` of a body",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }
}
