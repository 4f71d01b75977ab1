//! Where in a command line secrets stand, and which values they are. Pure: words in, places and values
//! out.
//!
//! Flags are those that HTTP clients share (curl's and wget's): of an unknown program `-d` may be a
//! folder, so that what such a client sends counts only behind its name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use super::is_telling;
use crate::command;

/// Programs whose flags for what is sent are known.
const CLIENTS: [&str; 5] = ["curl", "wget", "http", "https", "xh"];
/// Short flags of those that take something else: what is attached is no cluster.
const OTHER_VALUES: &str = "oXAeTmwxEKcCDPQrtyYz";
/// Scripts in scripts.
const DEPTH_MAX: u32 = 3;

/// What a secret is, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A header field: a secret if its name says so.
    Header,
    /// `user:password`.
    User,
    /// `name=value; name=value`.
    Cookies,
    /// What is sent.
    Body,
    /// The value of a flag or variable with a telling name.
    Value,
}

/// A secret's place: the word, and where in it the value begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) word: usize,
    pub(super) from: usize,
    pub(super) kind: Kind,
}

/// The places of secrets, by the flags in front of them.
pub(super) fn of(words: &[String]) -> Vec<Place> {
    let mut places = Vec::new();
    let mut is_client = false;
    for (at, word) in words.iter().enumerate() {
        let mut add = |kind, attached: Option<usize>| {
            let (word, from) = match attached {
                Some(from) => (at, from),
                None => (at + 1, 0),
            };
            let value = words.get(word).map_or("", |word| &word[from..]);
            if kind != Kind::User || is_user(value, is_client) {
                places.extend(words.get(word).map(|_| Place { word, from, kind }));
            }
        };
        let name = word.split('=').next().unwrap_or_default();
        let attached = (name.len() < word.len()).then_some(name.len() + 1);
        if is_flag(name) && is_telling(name) {
            let follows = words.get(at + 1).is_some_and(|next| !next.starts_with('-'));
            if attached.is_some() || follows {
                add(Kind::Value, attached);
            }
        } else if attached.is_some() && !name.contains([' ', '/', '?', ':']) && is_telling(name) {
            add(Kind::Value, attached);
        } else if let Some(kind) = long(name, is_client) {
            add(kind, attached);
        } else if word.starts_with('-') && !word.starts_with("--") {
            for (place, letter) in word.char_indices().skip(1) {
                let end = place + letter.len_utf8();
                let attached = (end < word.len()).then_some(end);
                if let Some(kind) = short(letter, is_client) {
                    add(kind, attached);
                    break;
                }
                if !is_client || OTHER_VALUES.contains(letter) {
                    break;
                }
            }
        }
        let program = word.rsplit('/').next().unwrap_or_default();
        is_client |= CLIENTS.contains(&program);
    }
    places
}

fn is_flag(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    name.len() < word.len() && name.chars().all(is_plain)
}

fn long(name: &str, is_client: bool) -> Option<Kind> {
    match name {
        "--header" | "--headers" => Some(Kind::Header),
        "--user" | "--proxy-user" => Some(Kind::User),
        "--cookie" if is_client => Some(Kind::Cookies),
        "--json" | "--form" | "--form-string" | "--post-data" | "--body-data" if is_client => {
            Some(Kind::Body)
        }
        name if is_client && name.starts_with("--data") => Some(Kind::Body),
        _ => None,
    }
}

fn short(letter: char, is_client: bool) -> Option<Kind> {
    match letter {
        'H' => Some(Kind::Header),
        'u' | 'U' => Some(Kind::User),
        'b' if is_client => Some(Kind::Cookies),
        'd' | 'F' if is_client => Some(Kind::Body),
        _ => None,
    }
}

/// Whether a value is a user's name and password, and neither a URL nor a place in the network.
fn is_user(value: &str, is_client: bool) -> bool {
    let Some((user, password)) = value.split_once(':') else {
        return false;
    };
    let is_port = password.bytes().all(|byte| byte.is_ascii_digit());
    let is_address = user.parse::<std::net::IpAddr>().is_ok() || user.starts_with('[');
    !password.starts_with("//") && !password.is_empty() && (is_client || !is_port && !is_address)
}

/// Gives every secret value of a command line's words, those of scripts among them, of any length.
pub(super) fn values(words: &[String], give: &mut dyn FnMut(&str)) {
    values_within(words, DEPTH_MAX, give);
}

fn values_within(words: &[String], depth: u32, give: &mut dyn FnMut(&str)) {
    for place in of(words) {
        let value = &words[place.word][place.from..];
        match place.kind {
            Kind::Header => of_header(value, give),
            Kind::User => of_user(value, give),
            Kind::Cookies => of_cookies(value, give),
            Kind::Body => of_body(value, give),
            Kind::Value => give(value),
        }
    }
    for word in words {
        of_urls(word, give);
        if let Some(depth) = depth.checked_sub(1)
            && word.contains(char::is_whitespace)
            && let Ok(inside) = command::split(word)
        {
            values_within(&inside, depth, give);
        }
    }
}

/// Of a header field, where its name says that it holds one: its value, and the secret in it.
pub(super) fn of_header(field: &str, give: &mut dyn FnMut(&str)) {
    let Some(end) = field.find([':', '=']) else {
        return;
    };
    let (name, value) = (&field[..end], field[end + 1..].trim());
    if !is_telling(name) {
        return;
    }
    give(value);
    if name.to_ascii_lowercase().contains("cookie") {
        return of_cookies(value, give);
    }
    if let Some((scheme, rest)) = value.split_once(' ') {
        give(rest.trim());
        let decoded = BASE64.decode(rest.trim()).ok();
        if scheme.eq_ignore_ascii_case("basic")
            && let Some(user) = decoded.and_then(|bytes| String::from_utf8(bytes).ok())
        {
            of_user(&user, give);
        }
    }
}

fn of_user(user: &str, give: &mut dyn FnMut(&str)) {
    give(user);
    if let Some((_, password)) = user.split_once(':') {
        give(password);
    }
}

fn of_cookies(cookies: &str, give: &mut dyn FnMut(&str)) {
    give(cookies);
    for cookie in cookies.split(';') {
        if let Some((_, value)) = cookie.split_once('=') {
            give(value.trim());
        }
    }
}

/// Of what is sent: all of it, and the values of fields with telling names.
pub(super) fn of_body(body: &str, give: &mut dyn FnMut(&str)) {
    if body.starts_with('@') {
        // A file's name.
        return;
    }
    give(body);
    if let Ok(value) = serde_json::from_str::<Value>(body) {
        return of_json(&value, false, give);
    }
    of_pairs(body, give);
}

fn of_json(value: &Value, is_secret: bool, give: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) if is_secret => give(text),
        Value::Array(values) => values.iter().for_each(|v| of_json(v, is_secret, give)),
        Value::Object(fields) => {
            for (name, value) in fields {
                of_json(value, is_secret || is_telling(name), give);
            }
        }
        _ => {}
    }
}

fn of_pairs(pairs: &str, give: &mut dyn FnMut(&str)) {
    for pair in pairs.split('&') {
        if let Some((name, value)) = pair.split_once('=')
            && is_telling(name)
        {
            give(value);
            give(&decoded(value));
        }
    }
}

/// Of every URL in a text: user information, its password, values of telling query fields.
pub(super) fn of_urls(text: &str, give: &mut dyn FnMut(&str)) {
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        rest = &rest[at + 3..];
        let end = rest.find(|c: char| c.is_whitespace() || "\"'<>`".contains(c));
        of_url(&rest[..end.unwrap_or(rest.len())], give);
    }
}

/// The same of one URL, whose scheme may lack.
pub(super) fn of_url(url: &str, give: &mut dyn FnMut(&str)) {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    if let Some((user, _)) = rest[..end].rsplit_once('@') {
        of_user(user, give);
        of_user(&decoded(user), give);
    }
    if let Some((_, query)) = rest[end..].split_once('?') {
        of_pairs(query.split('#').next().unwrap_or_default(), give);
    }
}

/// Percent-decoded, as far as that is text.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%');
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
