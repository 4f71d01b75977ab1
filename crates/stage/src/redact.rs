//! Command lines as they may be kept and shown: without what looks like a secret.
//!
//! A secret is told by its surroundings: user information and telling query values of a
//! URL, the value of a header field or of a flag or variable with a telling name. A secret
//! in a place that tells nothing, such as a bare word, cannot be told, and stays.

use crate::command::{self, CommandError};

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
    "session",
    "signature",
    "token",
];

/// A command without its secrets, quoted as a shell reads it.
pub fn command(command: &str) -> Result<String, CommandError> {
    Ok(command::join(&words(&command::split(command)?)))
}

/// Words of a command line without their secrets.
pub fn words(words: &[String]) -> Vec<String> {
    let mut shown: Vec<String> = Vec::with_capacity(words.len());
    for (nth, given) in words.iter().enumerate() {
        let before = nth.checked_sub(1).map(|nth| words[nth].as_str());
        let is_flag = |word: &str| {
            let name = word.trim_start_matches('-');
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            name.len() < word.len() && name.chars().all(plain)
        };
        let follows_telling_flag = before.is_some_and(|flag| is_flag(flag) && is_telling(flag));
        if follows_telling_flag && !given.starts_with('-') {
            shown.push(HIDDEN.to_owned());
        } else {
            shown.push(word(given));
        }
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
    let name = name.to_ascii_lowercase();
    TELLING.iter().any(|part| name.contains(part))
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
        ] {
            assert_eq!(command(given).as_deref(), Ok(shown), "{given}");
        }
        assert_eq!(header("X-Any: thing"), "X-Any: ***");
        assert_eq!(header("k=v"), "k=***");
    }
}
