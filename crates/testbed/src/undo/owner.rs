//! Whose a change is: a process named for good, the world in which its number means something,
//! and the names that it gives to its things.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use wallfinder_probe::parse;
use wallfinder_sys::pidfd::PidFd;

use crate::error::TestbedError;

/// What all our names begin with.
const PREFIX: &str = "wf-";
/// What our control groups' names begin with.
pub(crate) const GROUP_PREFIX: &str = "wallfinder-";
/// Namespaces that give numbers and paths their meaning. Not the network's: this tool itself moves
/// between those, and each change of an interface says in which one it was made.
const NAMESPACES: [&str; 5] = ["pid", "mnt", "user", "cgroup", "time"];

/// A process, told apart from another that has its number later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
        stat(self.pid).is_some_and(|stat| stat.start_ticks == self.start && !stat.is_zombie())
    }

    /// It, held: opened first and compared then, so that what is signalled is this process or
    /// nobody. [`Errno::SRCH`] where it is gone.
    pub(crate) fn hold(self) -> Result<PidFd, Errno> {
        let held = PidFd::open(self.pid)?;
        match self.is_alive() {
            true => Ok(held),
            false => Err(Errno::SRCH),
        }
    }

    /// Sends it a signal. Nobody else gets it.
    pub(crate) fn signal(self, signal: Signal) -> Result<(), Errno> {
        self.hold()?.signal(signal)
    }

    /// Whether it may be sent signals.
    pub(crate) fn may_signal(self) -> Result<(), Errno> {
        self.hold()?.may_signal()
    }
}

fn stat(pid: u32) -> Option<parse::process::Stat> {
    parse::process::stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// What the names of a process's things begin with: `wf-4711-1a2b3c-effffffc`, its number, its
/// start, and the namespace in which it has that number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Tag {
    pub(crate) process: Process,
    /// The number of its namespace of process ids.
    pids: u64,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Process { pid, start } = self.process;
        write!(f, "{PREFIX}{pid}-{start:x}-{:x}", self.pids)
    }
}

impl Tag {
    /// The one that a name of ours begins with: `wf-4711-1a2b3c-effffffc-0s`.
    pub(crate) fn of_name(name: &str) -> Option<Tag> {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(4, '-');
        let mut next = || parts.next();
        let (pid, start, pids, rest) = (next()?, next()?, next()?, next()?);
        let tag = Tag {
            process: Process {
                pid: pid.parse().ok()?,
                start: u64::from_str_radix(start, 16).ok()?,
            },
            pids: u64::from_str_radix(pids, 16).ok()?,
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        // As we write it, and not merely something that can be read so.
        let is_ours = rest.bytes().all(is_plain) && name.starts_with(&format!("{tag}-"));
        is_ours.then_some(tag)
    }

    /// The one of a journal's file: `wf-4711-1a2b3c-effffffc.jsonl`.
    pub(crate) fn of_file(name: &str) -> Option<Tag> {
        Tag::of_name(&format!("{}-", name.strip_suffix(ENDING)?))
    }

    /// The name of its journal's file.
    pub(crate) fn file(self) -> String {
        format!("{self}{ENDING}")
    }
}

/// How a journal's file ends.
pub(super) const ENDING: &str = ".jsonl";

/// One namespace, as the kernel tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Namespace {
    dev: u64,
    ino: u64,
}

/// Where a process's number, and the paths that it sees, mean something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct World {
    /// `/proc/sys/kernel/random/boot_id`.
    boot: String,
    /// Those of [`NAMESPACES`] that this kernel has.
    namespaces: BTreeMap<String, Namespace>,
}

impl World {
    /// That of this process.
    pub(crate) fn own() -> Result<World, TestbedError> {
        let failed = |why: &str| TestbedError::failed("tell whose changes are whose", why);
        let seen = fs::read_link("/proc/self").map_err(|_| failed("/proc is not mounted"))?;
        // In a new namespace of process ids with the old /proc, every number is another's.
        if seen.to_str() != Some(&std::process::id().to_string()) {
            return Err(failed(
                "/proc shows another namespace's processes: mount one of this namespace",
            ));
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let boot = boot.map_err(|e| failed(&e.to_string()))?;
        let found = NAMESPACES.into_iter().filter_map(|kind| {
            let found = fs::metadata(format!("/proc/self/ns/{kind}")).ok()?;
            let (dev, ino) = (found.dev(), found.ino());
            Some((kind.to_owned(), Namespace { dev, ino }))
        });
        Ok(World {
            boot: boot.trim().to_owned(),
            namespaces: found.collect(),
        })
    }

    /// Whether a tag's number is one of this world.
    pub(crate) fn knows(&self, tag: Tag) -> bool {
        self.pids() == tag.pids
    }

    fn pids(&self) -> u64 {
        self.namespaces.get("pid").map_or(0, |pids| pids.ino)
    }

    /// What this process's things are tagged with.
    pub(crate) fn own_tag(&self) -> Result<Tag, TestbedError> {
        let process = Process::of(std::process::id());
        let none = || TestbedError::failed("keep a journal", "/proc is not mounted");
        Ok(Tag {
            process: process.ok_or_else(none)?,
            pids: self.pids(),
        })
    }

    /// What became of the owner of a journal that was written in another world, or this one.
    pub(crate) fn fate(&self, owner: Process, of: &World) -> Fate {
        if self.boot != of.boot {
            Fate::BeforeBoot
        } else if self.namespaces != of.namespaces {
            Fate::Elsewhere
        } else if owner.is_alive() {
            Fate::Alive
        } else {
            Fate::Dead
        }
    }
}

/// What became of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Alive,
    Dead,
    /// The machine was started again since: its changes went with that.
    BeforeBoot,
    /// Its numbers and paths mean something else here.
    Elsewhere,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_the_next_one_with_its_number() {
        let own = Process::of(std::process::id()).expect("this process");
        assert!(own.is_alive());
        assert_eq!(own.may_signal(), Ok(()));
        let other = Process {
            start: own.start + 1,
            ..own
        };
        assert!(!other.is_alive(), "its number alone is not enough");
        assert_eq!(other.may_signal(), Err(Errno::SRCH));
        assert_eq!(other.signal(Signal::KILL), Err(Errno::SRCH));
    }

    #[test]
    fn a_name_is_ours_only_as_we_write_it() {
        let world = World::own().expect("this world");
        let tag = world.own_tag().expect("this process");
        assert!(world.knows(tag));
        assert_eq!(Tag::of_name(&format!("{tag}-0s")), Some(tag));
        assert_eq!(Tag::of_file(&tag.file()), Some(tag));
        let elsewhere = Tag {
            pids: tag.pids + 1,
            ..tag
        };
        assert!(!world.knows(elsewhere));
        for other in [
            "wf-",
            "wf-1",
            "wf-1-2",
            "wf-1-2-3",
            "wf-1-2-s",
            "wf-01-2-3-s",
            "wf-1-0x2-3-s",
            "wf-1-0A-3-s",
            "wf-a-2-3-s",
            "wfx-1-2-3-s",
            "xwf-1-2-3-s",
            "wf-+1-2-3-s",
            "wf-1-2-3-s/../../x",
            "wf-1-2-3-a b",
            "../wf-1-2-3-s",
            "",
        ] {
            assert_eq!(Tag::of_name(other), None, "{other}");
        }
        for other in ["wf-1-2-3", "wf-1-2-3-0s.jsonl.x", "x.jsonl", ".jsonl"] {
            assert_eq!(Tag::of_file(other), None, "{other}");
        }
    }

    #[test]
    fn an_owner_of_another_boot_or_world_is_not_taken_for_dead() {
        let here = World::own().expect("this world");
        let own = here.own_tag().expect("this process").process;
        assert_eq!(here.fate(own, &here), Fate::Alive);
        let dead = Process {
            start: own.start + 1,
            ..own
        };
        assert_eq!(here.fate(dead, &here), Fate::Dead);
        let mut past = here.clone();
        past.boot = "x".into();
        assert_eq!(here.fate(dead, &past), Fate::BeforeBoot);
        for kind in here.namespaces.keys() {
            let mut elsewhere = here.clone();
            elsewhere.namespaces.get_mut(kind).expect("there").ino += 1;
            assert_eq!(here.fate(dead, &elsewhere), Fate::Elsewhere, "{kind}");
        }
        let mut fewer = here.clone();
        fewer.namespaces.clear();
        assert_eq!(here.fate(dead, &fewer), Fate::Elsewhere);
    }
}
