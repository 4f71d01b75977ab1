//! Whose a change is: a process named for good, the world in which its number means something,
//! and the names that it gives to its things.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
/// The number of the machine's first namespace of process ids (`PROC_PID_INIT_INO` of <linux/proc_ns.h>): each
/// process of the machine has a number in it.
const FIRST_PIDS: u64 = 0xefff_fffc;

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

    /// Whether it is stopped, by a signal or a debugger.
    pub(crate) fn is_stopped(self) -> bool {
        let is_stopped = |state: u8| matches!(state, b'T' | b't');
        stat(self.pid).is_some_and(|stat| stat.start_ticks == self.start && is_stopped(stat.state))
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

    /// Whether its process has its number in one of these namespaces of process ids.
    pub(crate) fn is_among(self, namespaces: &BTreeSet<u64>) -> bool {
        namespaces.contains(&self.pids)
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

    /// The namespaces of process ids, beside the machine's first, in which there is a process; `None` where not every
    /// process of the machine is seen.
    pub(crate) fn inhabited(&self) -> Option<BTreeSet<u64>> {
        let mounts = parse::cgroup::mounts(&fs::read("/proc/self/mountinfo").ok()?);
        let mut of_proc = mounts.iter().filter(|mount| mount.point == "/proc");
        let hides = |option: &str| option.starts_with("hidepid=") || option.starts_with("subset=");
        let is_hidden = of_proc.any(|mount| mount.options.split(',').any(hides));
        match self.pids() == FIRST_PIDS && !is_hidden {
            true => inhabited(Path::new("/proc")),
            false => None,
        }
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

/// The same, of the processes in such a folder; `None` where one of them does not tell.
fn inhabited(processes: &Path) -> Option<BTreeSet<u64>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(processes).ok()? {
        let entry = entry.ok()?;
        let name = entry.file_name();
        if name
            .to_str()
            .is_none_or(|name| name.parse::<u32>().is_err())
        {
            continue;
        }
        match nested_in(&entry.path()) {
            Ok(namespace) => found.extend(namespace),
            // It ended meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
            Err(_) => return None,
        }
    }
    Some(found)
}

/// The namespace of process ids that a process is in; `None`: the one whose numbers `/proc` has.
fn nested_in(process: &Path) -> io::Result<Option<u64>> {
    let status = fs::read(process.join("status"))?;
    let status = String::from_utf8_lossy(&status);
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    // Of one in this namespace that is all that is needed, and the link below may be closed.
    if numbers.is_some_and(|numbers| numbers.split_whitespace().count() == 1) {
        return Ok(None);
    }
    let namespace = fs::metadata(process.join("ns/pid"))?;
    Ok(Some(namespace.ino()))
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
        assert!(!own.is_stopped());
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
    fn a_namespace_is_inhabited_as_long_as_a_process_in_it_is_seen() {
        let proc = std::env::temp_dir().join(format!("wf-test-inhabited-{}", std::process::id()));
        let process = |name: &str, status: &str| {
            let folder = proc.join(name);
            fs::create_dir_all(folder.join("ns")).expect("a folder");
            fs::write(folder.join("status"), status).expect("a file");
            folder
        };
        process("self", "NSpid:\t7\t1\n");
        // Its link may not be read, and need not.
        process("6", "Name:\ta\nNSpid:\t6\n");
        assert_eq!(inhabited(&proc), Some(BTreeSet::new()));
        let link = process("7", "Name:\tb\nNSpid:\t7\t1\n").join("ns/pid");
        fs::write(&link, "").expect("a file");
        let number = fs::metadata(&link).expect("there").ino();
        // It ended while it was looked at.
        fs::create_dir(proc.join("8")).expect("a folder");
        assert_eq!(inhabited(&proc), Some([number].into()));
        // It does not tell.
        fs::create_dir(proc.join("8/status")).expect("a folder");
        assert_eq!(inhabited(&proc), None);
        fs::remove_dir_all(&proc).expect("removed");
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
