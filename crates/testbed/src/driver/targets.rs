//! Where a driver's command leads beside the target that it is given: every address in it that can be
//! understood. Pure: words in, places out; nothing is looked up.
//!
//! What a program reads elsewhere (a script, a file of targets) is not seen here. A command that
//! neither takes the target nor names a place is one whose load may go anywhere
//! ([`Targets::is_clear`]).

use std::net::{Ipv4Addr, Ipv6Addr};

/// A place in the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// A name or an address, without brackets.
    pub host: String,
    /// Its port, where one is named.
    pub port: Option<u16>,
    /// Whether it is surely a place: `10s:20` only looks like one.
    pub is_certain: bool,
}

/// Where a command leads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Targets {
    /// Places that it names itself.
    pub named: Vec<Destination>,
    /// Whether it takes the target that it is given.
    pub takes_target: bool,
    /// Whether it names a place that cannot be understood, such as `http://$HOST/`.
    pub is_unclear: bool,
}

impl Targets {
    /// Whether it is known where the load goes.
    pub fn is_clear(&self) -> bool {
        !self.is_unclear && (self.takes_target || !self.named.is_empty())
    }

    /// Takes all places out of a word, which may be a whole script.
    pub(super) fn read(&mut self, word: &str) {
        let mut rest = word;
        while let Some(at) = rest.find("://") {
            self.words(&rest[..at]);
            rest = &rest[at + 3..];
            let authority = &rest[..rest.find(ends_authority).unwrap_or(rest.len())];
            self.certain(authority);
            rest = &rest[authority.len()..];
        }
        self.words(rest);
    }

    /// A place that is surely one: a URL's, or where a tool expects its target. A path may follow.
    pub(super) fn certain(&mut self, authority: &str) {
        let authority = &authority[..authority.find(['/', '?', '#']).unwrap_or(authority.len())];
        let place = authority.rsplit_once('@').map_or(authority, |(_, at)| at);
        if place.is_empty() {
            // `file:///x`, or `://{url}` with the target taken out.
            return;
        }
        if place.contains(['$', '{', '}', '`']) {
            self.is_unclear = true;
            return;
        }
        let (host, port) = host_and_port(place);
        self.add(host, port, true);
    }

    /// Words that are no URL: addresses, and what looks like `host:port`.
    fn words(&mut self, text: &str) {
        for word in text.split(ends_word).filter(|word| !word.is_empty()) {
            let place = &word[..word.find('/').unwrap_or(word.len())];
            let place = place.rsplit_once('@').map_or(place, |(_, at)| at);
            let (host, port) = host_and_port(place);
            if host.parse::<Ipv4Addr>().is_ok() || host.parse::<Ipv6Addr>().is_ok() {
                self.add(host, port, true);
            } else if port.is_some() && looks_like_name(host) {
                self.add(host, port, false);
            } else {
                // `name:80:10.0.0.1`, as curl's --resolve has it.
                let pieces = place.split(':');
                for piece in pieces.filter(|piece| piece.parse::<Ipv4Addr>().is_ok()) {
                    self.add(piece, None, true);
                }
            }
        }
    }

    fn add(&mut self, host: &str, port: Option<u16>, is_certain: bool) {
        let place = Destination {
            host: host.to_owned(),
            port,
            is_certain,
        };
        if !self.named.contains(&place) {
            self.named.push(place);
        }
    }
}

fn ends_authority(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "/?#\\\"'<>|&;,()".contains(c)
}

fn ends_word(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "=?#\\\"'<>|&;,()".contains(c)
}

/// `host:port`, `[host]:port`, `host`, or an address of IPv6 without brackets.
fn host_and_port(place: &str) -> (&str, Option<u16>) {
    if let Some((host, rest)) = place
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        return (
            host,
            rest.strip_prefix(':').and_then(|port| port.parse().ok()),
        );
    }
    match place.split_once(':') {
        Some((host, port)) if !port.contains(':') => (host, port.parse().ok()),
        _ => (place, None),
    }
}

/// A host's name, and no number with a unit.
fn looks_like_name(host: &str) -> bool {
    let starts_well = host.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    (starts_well || host.contains('.'))
        && host.chars().all(is_plain)
        && host.contains(|c: char| c.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(word: &str) -> Vec<String> {
        let mut targets = Targets::default();
        targets.read(word);
        let shown = |place: Destination| {
            let port = place.port.map_or(String::new(), |port| format!(":{port}"));
            let sure = if place.is_certain { "" } else { "?" };
            format!("{}{port}{sure}", place.host)
        };
        targets.named.into_iter().map(shown).collect()
    }

    #[test]
    fn every_address_that_a_word_holds_is_found() {
        for (word, places) in [
            ("http://h:80/p?x=http://i/", &["h:80", "i"][..]),
            ("http://u:p@h/", &["h"]),
            ("http://1.2.3.4@5.6.7.8/", &["5.6.7.8"]),
            ("http://[::1]:80/", &["::1:80"]),
            ("curl 'https://a.b/c';wget \"http://d\"", &["a.b", "d"]),
            ("--to=1.2.3.4:5", &["1.2.3.4:5"]),
            ("1.2.3.4/p", &["1.2.3.4"]),
            ("2001:db8::1", &["2001:db8::1"]),
            ("db.lan:5432", &["db.lan:5432?"]),
            ("a:80:1.2.3.4", &["1.2.3.4"]),
            ("a,1.2.3.4:80", &["1.2.3.4:80"]),
            ("GET http://a/\nGET http://b/", &["a", "b"]),
            ("10s", &[]),
            ("10:20", &[]),
            ("1.5", &[]),
            ("script.lua", &[]),
            ("/etc/hosts:ro", &[]),
            ("file:///etc/hosts", &[]),
        ] {
            assert_eq!(read(word), places, "{word}");
        }
    }

    #[test]
    fn a_place_that_a_shell_fills_in_is_unclear() {
        for word in ["http://$HOST/", "http://${HOST}:80", "http://`hostname`/"] {
            let mut targets = Targets {
                takes_target: true,
                ..Targets::default()
            };
            targets.read(word);
            assert!(!targets.is_clear(), "{word}");
        }
        assert!(!Targets::default().is_clear());
    }
}
