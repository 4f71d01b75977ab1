//! Whose a change is: a process named for good, and the names that it gives to its things.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use wallfinder_probe::parse;
use wallfinder_sys::namespace;

/// What all our names begin with.
const PREFIX: &str = "wf-";
/// What our control groups' names begin with.
pub(crate) const GROUP_PREFIX: &str = "wallfinder-";

/// A process, told apart from another that has its number later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// When it started, in ticks since boot.
    pub(crate) start: u64,
}

impl Process {
    /// The process that has this number now.
    pub(crate) fn of(pid: u32) -> Option<Process> {
        let stat = stat(pid)?;
        Some(Process {
            pid,
            start: stat.start_ticks,
        })
    }

    /// Whether it still runs; a zombie does not.
    pub(crate) fn is_alive(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.start_ticks == self.start && stat.state != b'Z')
    }

    /// `wf-4711-1a2b3c`.
    pub(crate) fn tag(self) -> String {
        format!("{PREFIX}{}-{:x}", self.pid, self.start)
    }

    /// The process whose tag a name of ours begins with: `wf-4711-1a2b3c-0s`.
    pub(crate) fn of_name(name: &str) -> Option<Process> {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(3, '-');
        let (pid, start) = (parts.next()?, parts.next()?);
        let owner = Process {
            pid: pid.parse().ok()?,
            start: u64::from_str_radix(start, 16).ok()?,
        };
        // As we write it, and not merely something that can be read so.
        (parts.next().is_some() && name.starts_with(&format!("{}-", owner.tag()))).then_some(owner)
    }
}

fn stat(pid: u32) -> Option<parse::process::Stat> {
    parse::process::stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The process that keeps a journal, and the world in which its number means something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    #[serde(flatten)]
    pub(crate) process: Process,
    /// `/proc/sys/kernel/random/boot_id`.
    pub(crate) boot: String,
    /// Its namespace of process ids.
    pub(crate) pid_namespace: u64,
}

/// What became of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Alive,
    Dead,
    /// The machine was started again since: its changes went with that.
    BeforeBoot,
    /// It counts its processes by other numbers, so that it cannot be looked for.
    Elsewhere,
}

impl Owner {
    pub(crate) fn this_process() -> Option<Owner> {
        Some(Owner {
            process: Process::of(std::process::id())?,
            boot: boot(),
            pid_namespace: pid_namespace(),
        })
    }

    pub(crate) fn fate(&self) -> Fate {
        if self.boot != boot() {
            Fate::BeforeBoot
        } else if self.pid_namespace != pid_namespace() {
            Fate::Elsewhere
        } else if self.process.is_alive() {
            Fate::Alive
        } else {
            Fate::Dead
        }
    }
}

fn boot() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    text.trim().to_owned()
}

fn pid_namespace() -> u64 {
    namespace::netns_id(Some(Path::new("/proc/self/ns/pid"))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_its_owner_and_only_ours_do() {
        let own = Process::of(std::process::id()).expect("this process");
        assert!(own.is_alive());
        let other = Process {
            start: own.start + 1,
            ..own
        };
        assert!(!other.is_alive(), "its number alone is not enough");
        assert_eq!(Process::of_name(&format!("{}-0s", own.tag())), Some(own));
        for other in [
            "wf-",
            "wf-1",
            "wf-1-2",
            "wf-01-2-s",
            "wf-1-0x2-s",
            "wf-1-0A-s",
            "wf-a-2-s",
            "wfx-1-2-s",
            "xwf-1-2-s",
            "wf-+1-2-s",
            "",
        ] {
            assert_eq!(Process::of_name(other), None, "{other}");
        }
    }

    #[test]
    fn an_owner_of_another_boot_or_world_is_not_taken_for_dead() {
        let owner = Owner::this_process().expect("this process");
        assert_eq!(owner.fate(), Fate::Alive);
        let mut past = owner.clone();
        past.boot = "x".into();
        assert_eq!(past.fate(), Fate::BeforeBoot);
        let mut elsewhere = owner.clone();
        elsewhere.pid_namespace += 1;
        assert_eq!(elsewhere.fate(), Fate::Elsewhere);
        let mut dead = owner;
        dead.process.start += 1;
        assert_eq!(dead.fate(), Fate::Dead);
    }
}
