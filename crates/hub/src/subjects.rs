//! What messages are called at the hub, and who may send and read which.
//!
//! ```text
//!  wallfinder.all                              the controller asks who is there; every agent reads it
//!  wallfinder.agent.NAME.here                  that agent says that it is
//!  wallfinder.agent.NAME.ask.INSTANCE.SESSION  the controller's messages of a session, read by that agent alone
//!  wallfinder.agent.NAME.say.SESSION           that agent's
//! ```
//!
//! The server of messages admits an identity as often as it comes. Each process that does has a random number, its
//! instance, so that a session is of one of them, and it is noticed that there are two.
//!
//! Nothing is answered to an address of the asker's choice, so there is no inbox to read or to forge.

use serde::{Deserialize, Serialize};
use wallfinder_protocol::Grant;

/// Where the controller asks who is there.
pub(crate) const ALL: &str = "wallfinder.all";
/// Where every agent says so.
pub(crate) const HERE_OF_ALL: &str = "wallfinder.agent.*.here";
/// Longest name of an agent.
const NAME_CHARS_MAX: usize = 63;

/// Whether an agent may be called so: small letters, digits and hyphens, so that it is one word of a subject and one of
/// a file's name.
pub fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=NAME_CHARS_MAX).contains(&name.len())
        && name.chars().all(is_plain)
        && !name.starts_with('-')
}

pub(crate) fn here(name: &str) -> String {
    format!("wallfinder.agent.{name}.here")
}

/// `*` for all sessions of an instance.
pub(crate) fn ask(name: &str, instance: u64, session: &str) -> String {
    format!("wallfinder.agent.{name}.ask.{instance:016x}.{session}")
}

fn ask_any(name: &str) -> String {
    format!("wallfinder.agent.{name}.ask.*.*")
}

pub(crate) fn say(name: &str, session: &str) -> String {
    format!("wallfinder.agent.{name}.say.{session}")
}

/// The session that a subject belongs to.
pub(crate) fn session(subject: &str) -> Option<&str> {
    subject.rsplit('.').next()
}

/// What an agent may publish, and what it may subscribe to.
pub(crate) fn of_agent(name: &str) -> [Vec<String>; 2] {
    [
        vec![say(name, "*"), here(name)],
        vec![ask_any(name), ALL.to_owned()],
    ]
}

/// The same for a controller.
pub(crate) fn of_controller() -> [Vec<String>; 2] {
    [
        vec![ask_any("*"), ALL.to_owned()],
        vec![say("*", "*"), HERE_OF_ALL.to_owned()],
    ]
}

/// Who is there?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WhoIsThere {
    /// The answer carries it.
    pub(crate) number: u64,
}

/// What an agent says of itself when it is asked who is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Here {
    /// Of the question.
    pub number: u64,
    /// What it is called.
    pub name: String,
    /// Which of those that bear this name; random.
    pub instance: u64,
    /// What its machine calls itself.
    pub host: String,
    /// Its kernel's release.
    pub kernel: String,
    /// Processors that it may use.
    pub cpus: u32,
    /// Its version of Wallfinder.
    pub version: String,
    /// The protocol that it speaks.
    pub protocol: u32,
    /// What it may be asked for.
    pub grants: Vec<Grant>,
    /// Whether it is root there.
    pub is_root: bool,
    /// Sessions that controllers have with it now.
    pub sessions: u32,
    /// Its monotonic clock.
    pub monotonic_ns: u64,
}

impl Here {
    /// What came as such under this subject, if it is. The hub lets an agent publish under its own name alone.
    pub(crate) fn heard(subject: &str, payload: &[u8]) -> Option<Here> {
        let said: Here = serde_json::from_slice(payload).ok()?;
        let is_clock = i64::try_from(said.monotonic_ns).is_ok();
        (is_clock && subject == here(&said.name)).then_some(said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_subject_and_of_a_path() {
        for name in ["c1", "db-eu-2", "0"] {
            assert!(is_name(name), "{name}");
        }
        let long = "x".repeat(64);
        for name in ["", "*", ">", "a.b", "a b", "../x", "-x", "C1", "ä", &long] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn no_agent_has_a_subject_of_another() {
        let [publishes, subscribes] = of_agent("c1");
        for subject in publishes.iter().chain(&subscribes) {
            assert!(subject == ALL || subject.starts_with("wallfinder.agent.c1."));
        }
        assert_eq!(session(&ask("c1", 7, "0f")), Some("0f"));
    }

    #[test]
    fn an_agent_speaks_for_itself_and_has_a_clock() {
        let mut said = Here {
            number: 0,
            name: "c1".to_owned(),
            instance: 7,
            host: "h1".to_owned(),
            kernel: "6.8".to_owned(),
            cpus: 2,
            version: "1".to_owned(),
            protocol: 1,
            grants: vec![Grant::Load],
            is_root: false,
            sessions: 0,
            monotonic_ns: i64::MAX.unsigned_abs(),
        };
        let text = |said: &Here| serde_json::to_vec(said).unwrap();
        assert_eq!(Here::heard(&here("c1"), &text(&said)), Some(said.clone()));
        assert_eq!(Here::heard(&here("c2"), &text(&said)), None);
        assert_eq!(Here::heard(&here("c1"), b"c1"), None);
        said.monotonic_ns += 1;
        assert_eq!(Here::heard(&here("c1"), &text(&said)), None);
    }
}
