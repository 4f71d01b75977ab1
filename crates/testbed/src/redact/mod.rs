//! Command lines as they may be kept and shown: without what looks like a secret; and [`Secrets`], which
//! finds the same values again in what others say.
//!
//! A secret is told by its surroundings: user information and telling query values of a
//! URL, the value of a header field or of a flag or variable with a telling name, what an HTTP client is
//! told to send. A secret in a place that tells nothing, such as a bare word, cannot be told, and stays.

mod places;
mod secrets;

pub use secrets::{BYTES_MIN, Secrets};

use crate::command::{self, CommandError};
use places::Kind;

/// What stands in a secret's place.
pub const HIDDEN: &str = "***";

/// Parts of names whose values are secrets.
const TELLING: &[&str] = &[
    "auth",
    "cookie",
    "credential",
    "jwt",
    "key",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "sessid",
    "session",
    "signature",
    "token",
];

/// Whole names of the same sort: as parts they stand in too many others.
const TELLING_WHOLE: &[&str] = &["otp", "pass", "pin", "pw", "sid", "sig"];

/// A command without its secrets, quoted as a shell reads it.
pub fn command(command: &str) -> Result<String, CommandError> {
    Ok(command::join(&words(&command::split(command)?)))
}

/// Words of a command line, the program among them, without their secrets.
pub fn words(words: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = words.iter().map(|given| word(given)).collect();
    for (shown, given) in shown.iter_mut().zip(words) {
        if given.contains(char::is_whitespace) {
            *shown = script(shown, given);
        }
    }
    for place in places::of(words) {
        // Those of header fields show their names.
        if place.kind != Kind::Header {
            shown[place.word] = format!("{}{HIDDEN}", &words[place.word][..place.from]);
        }
    }
    shown
}

/// A word that may be a script, without the secrets of the commands in it.
fn script(shown: &str, given: &str) -> String {
    /// Shorter values stand in too many other words.
    const BYTES_SHOWN_MAX: usize = 2;
    let mut shown = shown.to_owned();
    if let Ok(inside) = command::split(given) {
        places::values(&inside, &mut |value| {
            if value.len() > BYTES_SHOWN_MAX {
                shown = shown.replace(value, HIDDEN);
            }
        });
    }
    shown
}

/// One word without its secrets.
pub fn word(word: &str) -> String {
    if let Some((name, value)) = word.split_once('=')
        && !name.contains([' ', '/', '?', ':'])
    {
        if is_telling(name) {
            return format!("{name}={HIDDEN}");
        }
        return format!("{name}={}", self::word(value));
    }
    if word.contains("://") {
        return url(word);
    }
    match word.split_once(':') {
        Some((name, _)) if is_telling(name) && !name.contains(' ') => format!("{name}: {HIDDEN}"),
        _ => word.to_owned(),
    }
}

/// A header field without its value, whatever its name.
pub(crate) fn header(field: &str) -> String {
    match field.find([':', '=']) {
        Some(end) => format!(
            "{}{}{HIDDEN}",
            &field[..=end],
            if field[end..].starts_with(": ") {
                " "
            } else {
                ""
            }
        ),
        None => field.to_owned(),
    }
}

fn url(word: &str) -> String {
    let (scheme, rest) = word.split_once("://").unwrap_or(("", word));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let authority = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => authority.to_owned(),
    };
    let path = match path.split_once('?') {
        Some((path, query)) => {
            let pairs: Vec<String> = query.split('&').map(pair).collect();
            format!("{path}?{}", pairs.join("&"))
        }
        None => path.to_owned(),
    };
    format!("{scheme}://{authority}{path}")
}

fn pair(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if is_telling(name) => format!("{name}={HIDDEN}"),
        _ => pair.to_owned(),
    }
}

/// Whether the value of what has such a name is a secret.
pub fn is_telling(name: &str) -> bool {
    // `:authority` is a host, and tells no secret.
    let name = name.to_ascii_lowercase().replace("authority", "");
    let whole = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    TELLING.iter().any(|part| name.contains(part)) || TELLING_WHOLE.contains(&whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_and_the_rest_stays() {
        for (given, shown) in [
            ("nginx -c bench.conf", "nginx -c bench.conf"),
            (
                "API_TOKEN=abc GOMAXPROCS=1 ./s --port 8080",
                "'API_TOKEN=***' GOMAXPROCS=1 ./s --port 8080",
            ),
            ("./s --password hunter2 -x", "./s --password '***' -x"),
            ("./s --db-password=hunter2", "./s '--db-password=***'"),
            (
                "./s --dsn=postgres://me:pw@db/x?sslmode=off",
                "./s '--dsn=postgres://***@db/x?sslmode=off'",
            ),
            (
                "wrk 'http://u:p@h/p?a=b&api_key=s'",
                "wrk 'http://***@h/p?a=b&api_key=***'",
            ),
            (
                "curl -H 'Authorization: Bearer s' -H 'Accept: x'",
                "curl -H 'Authorization: ***' -H 'Accept: x'",
            ),
            ("ghz --authority api.lan", "ghz --authority api.lan"),
            ("curl -u a:b -d x {url}", "curl -u '***' -d '***' {url}"),
            ("curl -sua:b -sdpin=1", "curl '-su***' '-sd***'"),
            ("curl -su a:b --json='{}'", "curl -su '***' '--json=***'"),
            ("./s -d /data -u 10.0.0.1:80", "./s -d /data -u 10.0.0.1:80"),
            (
                "sh -c 'curl -u me:pw \"$0\" > /dev/null' {url}",
                "sh -c 'curl -u *** \"$0\" > /dev/null' {url}",
            ),
            (
                "./s http://h/?pin=1&pinned=2",
                "./s 'http://h/?pin=***&pinned=2'",
            ),
        ] {
            assert_eq!(command(given).as_deref(), Ok(shown), "{given}");
        }
        assert_eq!(header("X-Any: thing"), "X-Any: ***");
        assert_eq!(header("k=v"), "k=***");
    }
}
