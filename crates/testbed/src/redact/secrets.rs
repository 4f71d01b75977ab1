//! Secrets by value: collected once from a command line, and taken out of everything that is written,
//! whoever says it and however it is spelled.
//!
//! ```text
//!  command line, environment ─► Secrets ─► scrub(text) ─► record, journal, page, terminal, errors
//! ```
//!
//! A value of fewer bytes than [`BYTES_MIN`] is none: it would stand in too many other words. Each is
//! found as it is, in base64 (both alphabets, with padding or not), percent-encoded, and as strings of
//! JSON, HTML and programs spell it, byte by byte in any mixture of these.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::{HIDDEN, places};
use crate::command;
use crate::driver::DriverSpec;

/// Bytes of a secret at the least.
pub const BYTES_MIN: usize = 6;

/// Names of variables whose values are secrets have one of these words, between underscores.
const TELLING_WORDS: [&str; 11] = [
    "apikey",
    "auth",
    "cookie",
    "credentials",
    "jwt",
    "passphrase",
    "passwd",
    "password",
    "secret",
    "token",
    "key",
];

/// Values that must not be shown.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Each behind its length: the longest first.
    values: BTreeSet<(Reverse<usize>, String)>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

impl Secrets {
    /// A value, and its forms in base64.
    pub fn add(&mut self, value: &str) {
        let value = value.trim();
        if value.len() < BYTES_MIN {
            return;
        }
        self.keep(value.to_owned());
        self.keep(STANDARD_NO_PAD.encode(value));
        self.keep(URL_SAFE_NO_PAD.encode(value));
    }

    fn keep(&mut self, value: String) {
        self.values.insert((Reverse(value.len()), value));
    }

    /// Of a header field, `Name: value`, whose name says that it holds one.
    pub fn add_header(&mut self, field: &str) {
        places::of_header(field, &mut |value| self.add(value));
    }

    /// Of a URL, whose scheme may lack: user information, and values of telling query fields.
    pub fn add_url(&mut self, url: &str) {
        places::of_url(url, &mut |value| self.add(value));
    }

    /// A request's body, and the values of fields in it with telling names.
    pub fn add_body(&mut self, body: &str) {
        places::of_body(body, &mut |value| self.add(value));
    }

    /// Of another program's command, by what is known of such programs.
    pub fn add_command(&mut self, command: &str) {
        if let Ok(words) = command::split(command) {
            places::values(&words, &mut |value| self.add(value));
        }
        if let Ok(spec) = DriverSpec::parse(command) {
            spec.add_secrets(self);
        }
    }

    /// Of variables of the environment. Paths are none, such as that of an agent's socket.
    pub fn add_environment(&mut self, variables: impl IntoIterator<Item = (String, String)>) {
        for (name, value) in variables {
            let name = name.to_ascii_lowercase();
            let is_telling = name.split('_').any(|word| TELLING_WORDS.contains(&word));
            if is_telling && !value.starts_with('/') {
                self.add(&value);
            }
        }
    }

    /// The text with `***` in the place of every secret.
    pub fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut shown = Cow::Borrowed(text);
        // What is put in is shorter than what is taken out: this ends. Another turn is for what comes
        // together only where something stood between.
        loop {
            let mut is_clean = true;
            for (_, secret) in &self.values {
                if let Some(scrubbed) = without(&shown, secret) {
                    shown = Cow::Owned(scrubbed);
                    is_clean = false;
                }
            }
            if is_clean {
                return shown;
            }
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// The text without a secret; `None` where it is not in it.
fn without(text: &str, secret: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let first = secret.as_bytes().first().copied();
    // Most places begin no spelling of its first byte: texts of megabytes are passed over quickly.
    let may_begin = |byte: u8| Some(byte) == first || b"+%\\&".contains(&byte);
    let mut shown: Option<String> = None;
    let (mut at, mut copied) = (0, 0);
    while at < bytes.len() {
        let found = match may_begin(bytes[at]) {
            true => spelled(bytes, at, secret.as_bytes()),
            false => None,
        };
        let Some(end) = found else {
            at += 1;
            continue;
        };
        let shown = shown.get_or_insert_default();
        shown.push_str(&text[copied..at]);
        shown.push_str(HIDDEN);
        (at, copied) = (end, end);
    }
    shown.map(|shown| shown + &text[copied..])
}

/// Where a secret ends that begins at a place, in whatever way each of its bytes is spelled.
fn spelled(text: &[u8], at: usize, secret: &[u8]) -> Option<usize> {
    // All places that the bytes so far may have led to: `%` itself is a byte, and begins `%25`.
    let mut ends = vec![at];
    for byte in secret {
        let mut next = Vec::new();
        for end in ends {
            for len in spellings(&text[end..], *byte) {
                if !next.contains(&(end + len)) {
                    next.push(end + len);
                }
            }
        }
        if next.is_empty() {
            return None;
        }
        ends = next;
    }
    ends.into_iter().max()
}

/// How many bytes of a text spell one byte, in each way that they do.
fn spellings(text: &[u8], byte: u8) -> impl Iterator<Item = usize> + use<> {
    let first = text.first().copied();
    let itself = first == Some(byte) || (byte == b' ' && first == Some(b'+'));
    let other = match first {
        Some(b'%') => hex(text.get(1..3), byte).map(|()| 3),
        Some(b'\\') => escape(&text[1..], byte).map(|len| len + 1),
        Some(b'&') => entity(text, byte),
        _ => None,
    };
    itself.then_some(1).into_iter().chain(other)
}

fn hex(digits: Option<&[u8]>, byte: u8) -> Option<()> {
    let digits = std::str::from_utf8(digits?).ok()?;
    let value = u32::from_str_radix(digits, 16).ok()?;
    (value == u32::from(byte)).then_some(())
}

/// Behind a backslash, as JSON and programs have it.
fn escape(text: &[u8], byte: u8) -> Option<usize> {
    let is_ascii = byte.is_ascii();
    match *text.first()? {
        b'n' if byte == b'\n' => Some(1),
        b'r' if byte == b'\r' => Some(1),
        b't' if byte == b'\t' => Some(1),
        b'b' if byte == 8 => Some(1),
        b'f' if byte == 12 => Some(1),
        b'0' if byte == 0 => Some(1),
        b'x' => hex(text.get(1..3), byte).map(|()| 3),
        b'u' if is_ascii && text.get(1) == Some(&b'{') => {
            let end = text.iter().position(|c| *c == b'}')?;
            hex(text.get(2..end), byte).map(|()| end + 1)
        }
        b'u' if is_ascii => hex(text.get(1..5), byte).map(|()| 5),
        c @ (b'"' | b'\\' | b'/' | b'\'') if byte == c => Some(1),
        _ => None,
    }
}

/// As HTML has it.
fn entity(text: &[u8], byte: u8) -> Option<usize> {
    const ENTITIES: [(&str, u8); 8] = [
        ("&amp;", b'&'),
        ("&lt;", b'<'),
        ("&gt;", b'>'),
        ("&quot;", b'"'),
        ("&#34;", b'"'),
        ("&#39;", b'\''),
        ("&#x27;", b'\''),
        ("&#x2f;", b'/'),
    ];
    let found = ENTITIES.iter().find(|(name, _)| {
        let head = text.get(..name.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(name.as_bytes()))
    });
    found.and_then(|(name, is)| (*is == byte).then_some(name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};
    use proptest::prelude::*;

    fn of_command(command: &str) -> Secrets {
        let mut secrets = Secrets::default();
        secrets.add_command(command);
        secrets
    }

    #[test]
    fn what_a_driver_was_given_is_found_wherever_it_says_it() {
        for (command, secret) in [
            ("curl -u user:hunter22 {url}", "hunter22"),
            ("curl -su user:hunter22 {url}", "hunter22"),
            ("curl -suuser:hunter22 {url}", "hunter22"),
            ("curl --user=user:hunter22 {url}", "hunter22"),
            ("curl --proxy-user user:hunter22 {url}", "hunter22"),
            ("sh -c 'curl -u user:hunter22 $0' {url}", "hunter22"),
            ("curl -d pin=hunter22 {url}", "pin=hunter22"),
            ("curl --data-raw '{\"password\": \"hunter22\"}'", "hunter22"),
            ("curl -sd 'token=hunter22&n=1' {url}", "hunter22"),
            ("curl -b 'sid=hunter22; theme=dark' {url}", "hunter22"),
            ("wget --post-data=hunter22 {url}", "hunter22"),
            ("wrk -H 'Authorization: Bearer hunter22' {url}", "hunter22"),
            ("wrk -H'Cookie: a=hunter22' {url}", "hunter22"),
            ("mine -H 'X-Api-Key: hunter22' {url}", "hunter22"),
            (
                "wrk -H 'Authorization: Basic dXNlcjpodW50ZXIyMg==' {url}",
                "hunter22",
            ),
            ("wrk http://user:hunter22@127.0.0.1/", "hunter22"),
            ("wrk 'http://127.0.0.1/?a=b&sig=hunter22'", "hunter22"),
            ("wrk 'http://127.0.0.1/?api_key=hunter22#x'", "hunter22"),
            ("API_TOKEN=hunter22 mine {url}", "hunter22"),
            ("mine --db-password hunter22", "hunter22"),
            ("mine --dsn=postgres://me:hunter22@db/", "hunter22"),
            ("hey -a user:hunter22 {url}", "hunter22"),
            ("ab -A user:hunter22 {url}", "hunter22"),
            ("autocannon -b hunter22 {url}", "hunter22"),
            ("oha -jd hunter22 {url}", "hunter22"),
            (
                "ghz -m '{\"x\": \"hunter22\"}' {address}",
                "{\"x\": \"hunter22\"}",
            ),
        ] {
            let secrets = of_command(command);
            for said in [
                format!("cannot reach x with {secret}: 401"),
                STANDARD.encode(secret),
                URL_SAFE.encode(secret),
            ] {
                let shown = secrets.scrub(&said).into_owned();
                assert!(shown.contains(HIDDEN), "{command}: {said} -> {shown}");
                assert!(!shown.contains(secret), "{command}: {shown}");
            }
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for command in [
            "nginx -c /etc/nginx.conf -u nobody:nogroup1",
            "mine -u http://127.0.0.1:8080/ -d /data/folder",
            "mine -u 127.0.0.1:8080 -H 'Accept: text/html'",
            "wrk -c 100 -d 10s --latency http://127.0.0.1:8080/?page=2",
            "GOMAXPROCS=100000 mine",
        ] {
            let secrets = of_command(command);
            let user = command.contains("nobody");
            assert_eq!(secrets.is_empty(), !user, "{command}: {:?}", secrets.values);
        }
    }

    #[test]
    fn variables_are_secrets_by_their_names() {
        let mut secrets = Secrets::default();
        let variables = [
            ("GITHUB_TOKEN", "hunter22"),
            ("aws_secret_access_key", "wJalrXUt"),
            ("SSH_AUTH_SOCK", "/tmp/ssh-agent"),
            ("PWD", "/home/somebody"),
            ("XDG_SESSION_TYPE", "wayland"),
            ("KEYMAP", "us-intl"),
        ];
        secrets.add_environment(variables.map(|(name, value)| (name.into(), value.into())));
        assert_eq!(secrets.scrub("a hunter22 b wJalrXUt"), "a *** b ***");
        for shown in ["/tmp/ssh-agent", "/home/somebody", "wayland", "us-intl"] {
            assert_eq!(secrets.scrub(shown), shown);
        }
    }

    #[test]
    fn a_short_value_is_none_and_debugging_shows_none() {
        let mut secrets = Secrets::default();
        secrets.add("12345");
        assert!(secrets.is_empty());
        secrets.add("hunter22");
        assert!(!format!("{secrets:?}").contains("hunter"));
    }

    /// One byte of a secret, spelled in one of the ways that text is.
    fn spell(byte: u8, c: char, how: u8) -> String {
        match how {
            0 => format!("%{byte:02X}"),
            1 => format!("%{byte:02x}"),
            2 if c.is_ascii() => format!("\\u{byte:04x}"),
            3 if c.is_ascii() => format!("\\x{byte:02x}"),
            _ => String::new(),
        }
    }

    fn any_secret() -> impl Strategy<Value = String> {
        prop_oneof![any::<String>(), "[ -~]{6,40}", "[*%+&]{6,9}"]
            .prop_filter("it is long enough", |text| text.trim().len() >= BYTES_MIN)
    }

    proptest! {
        #[test]
        fn a_secret_is_in_no_text_in_none_of_its_forms(
            secret in any_secret(),
            before in "[ -~]{0,20}",
            after in any::<String>(),
            hows in proptest::collection::vec(0u8..6, 1..40),
        ) {
            let mut secrets = Secrets::default();
            secrets.add(&secret);
            let secret = secret.trim();
            let percent = |upper: bool| -> String {
                secret.bytes().map(|byte| match (byte, upper) {
                    (b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~', _) => {
                        char::from(byte).to_string()
                    }
                    (byte, true) => format!("%{byte:02X}"),
                    (byte, false) => format!("%{byte:02x}"),
                }).collect()
            };
            let mut mixed = String::new();
            for (nth, c) in secret.chars().enumerate() {
                let how = hows[nth % hows.len()];
                let mut bytes = [0; 4];
                let spelled: Vec<String> = c
                    .encode_utf8(&mut bytes)
                    .bytes()
                    .map(|byte| spell(byte, c, how))
                    .collect();
                match spelled.iter().any(String::is_empty) {
                    true => mixed.push(c),
                    false => mixed.push_str(&spelled.concat()),
                }
            }
            let json = serde_json::to_string(secret).unwrap();
            let forms = [
                secret.to_owned(),
                STANDARD.encode(secret),
                STANDARD_NO_PAD.encode(secret),
                URL_SAFE.encode(secret),
                URL_SAFE_NO_PAD.encode(secret),
                percent(true),
                percent(false),
                percent(true).replace("%20", "+"),
                json[1..json.len() - 1].to_owned(),
                mixed,
            ];
            for form in &forms {
                let said = format!("{before}{form}{after}{form}");
                let shown = secrets.scrub(&said).into_owned();
                for form in &forms {
                    prop_assert!(!shown.contains(form.as_str()), "{form:?} in {shown:?}");
                }
            }
        }

        #[test]
        fn a_text_without_secrets_stays_as_it_is(text in any::<String>()) {
            prop_assert_eq!(Secrets::default().scrub(&text), text.as_str());
            let mut secrets = Secrets::default();
            secrets.add("this is in no text of these: \u{10ffff}");
            prop_assert_eq!(secrets.scrub(&text), text.as_str());
        }
    }
}
