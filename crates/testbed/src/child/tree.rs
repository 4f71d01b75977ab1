//! Processes that a child started, however far they went: by descent, and by the tag that each of
//! them has in its environment from the start.

use std::fmt;
use std::fs;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use wallfinder_probe::parse;
use wallfinder_sys::namespace::netns_id;

use crate::undo::{Process, Tag, World};

/// Names the process of ours that a child belongs to, in the child's environment.
pub(super) const TAG_VARIABLE: &str = "WALLFINDER_CHILD_OF";
/// Processes that are looked at, at the most: a kernel has 4 million numbers.
const PROCESSES_MAX: usize = 4 << 20;

/// How long guards and the keeper of a run that was killed may take.
const SEEN_TO: Duration = Duration::from_millis(300);

/// A process that was found where none should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stray {
    /// Its number.
    pub pid: u32,
    /// When it started, in ticks since boot.
    start: u64,
    /// What it is called.
    pub name: String,
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ({})", self.name, self.pid)
    }
}

impl Stray {
    /// Kills it, and nobody who has its number since.
    pub fn kill(&self) -> bool {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else {
            return false;
        };
        let handle = pidfd_open(pid, PidfdFlags::empty());
        // Whoever has the number now is who the handle is of.
        let is_same = stat(self.pid).is_some_and(|(stat, _)| stat.start_ticks == self.start);
        match handle {
            Ok(handle) => is_same && pidfd_send_signal(handle, Signal::KILL).is_ok(),
            // A container may forbid handles.
            Err(Errno::NOSYS | Errno::PERM) => is_same && kill_process(pid, Signal::KILL).is_ok(),
            Err(_) => false,
        }
    }
}

/// Descendants of a process that still run. Zombies do not.
pub(super) fn below(ancestor: u32) -> Vec<Stray> {
    let all = processes();
    let mut family = vec![ancestor];
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        at += 1;
        let children = all.iter().filter(|(stat, _)| stat.parent == parent);
        for (stat, name) in children {
            // Processes come and go while they are read: nobody is met twice.
            if stat.pid == 0 || family.contains(&stat.pid) {
                continue;
            }
            family.push(stat.pid);
            if stat.state != b'Z' && stat.state != b'X' {
                found.push(Stray {
                    pid: stat.pid,
                    start: stat.start_ticks,
                    name: name.clone(),
                });
            }
        }
    }
    found
}

/// Processes that were started for a run that is dead: they bear its tag. Those of another
/// namespace of process numbers are not taken for any.
pub fn left_over() -> Vec<Stray> {
    let found = bearing_tags_of_dead();
    if found.is_empty() {
        return found;
    }
    // Of a run that was killed just now, who sees to them is at it.
    std::thread::sleep(SEEN_TO);
    let still = bearing_tags_of_dead();
    let is_still_there = |stray: &Stray| {
        let mut there = still.iter();
        there.any(|other| (other.pid, other.start) == (stray.pid, stray.start))
    };
    found.into_iter().filter(is_still_there).collect()
}

fn bearing_tags_of_dead() -> Vec<Stray> {
    let own = pid_namespace("self");
    let is_left = |pid: u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let owner = owner_in(&environ);
        owner.is_some_and(|owner| !owner.is_alive()) && pid_namespace(&pid.to_string()) == own
    };
    processes()
        .into_iter()
        .filter(|(stat, _)| stat.state != b'Z' && is_left(stat.pid))
        .map(|(stat, name)| Stray {
            pid: stat.pid,
            start: stat.start_ticks,
            name,
        })
        .collect()
}

/// What is put into a child's environment.
pub(super) fn tag() -> Option<String> {
    let own = World::own().ok()?.own_tag().ok()?;
    Some(format!("{own}-child"))
}

fn owner_in(environ: &[u8]) -> Option<Process> {
    let mut pairs = environ.split(|byte| *byte == 0);
    let value = pairs.find_map(|pair| {
        let pair = std::str::from_utf8(pair).ok()?;
        pair.strip_prefix(TAG_VARIABLE)?.strip_prefix('=')
    })?;
    Some(Tag::of_name(value)?.process)
}

fn pid_namespace(pid: &str) -> Option<u64> {
    let path = format!("/proc/{pid}/ns/pid");
    netns_id(Some(path.as_ref())).ok()
}

fn processes() -> Vec<(parse::process::Stat, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.take(PROCESSES_MAX).filter_map(stat).collect()
}

fn stat(pid: u32) -> Option<(parse::process::Stat, String)> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    Some((parse::process::stat(&bytes)?, name_in(&bytes)))
}

/// The name between brackets; a process may give itself any.
fn name_in(stat: &[u8]) -> String {
    let open = stat.iter().position(|byte| *byte == b'(');
    let close = stat.iter().rposition(|byte| *byte == b')');
    let (Some(open), Some(close)) = (open, close) else {
        return String::new();
    };
    let name = stat.get(open + 1..close).unwrap_or_default();
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    String::from_utf8_lossy(name).chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_its_owner_and_a_name_cannot_steer_a_terminal() {
        let own = tag().expect("this process");
        let environ = format!("A=1\0{TAG_VARIABLE}={own}\0B=2\0");
        let owner = owner_in(environ.as_bytes()).expect("it is there");
        assert_eq!(Process::of(std::process::id()), Some(owner));
        for other in [
            "",
            "A=wf-1-2-child",
            "WALLFINDER_CHILD_OF=x",
            "WALLFINDER_CHILD_OFF=wf-1-2-child",
        ] {
            assert_eq!(owner_in(other.as_bytes()), None, "{other}");
        }
        assert_eq!(name_in(b"7 (a) b\x1b[2J) S 1"), "a) b\u{fffd}[2J");
        assert_eq!(name_in(b"7 )("), "");
    }

    #[test]
    fn descendants_are_found_and_killed_and_others_with_their_number_are_not() {
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 60 & wait"])
            .spawn()
            .unwrap();
        let since = std::time::Instant::now();
        let found = loop {
            let found = below(std::process::id());
            let is_ours = |one: &Stray| one.pid == child.id();
            let sleeps = found.iter().any(|one| one.name == "sleep");
            if found.iter().any(is_ours) && sleeps {
                break found;
            }
            assert!(since.elapsed().as_secs() < 10, "{found:?}");
        };
        let other = Stray {
            start: found[0].start + 1,
            ..found[0].clone()
        };
        assert!(!other.kill(), "another process");
        // Tests beside this one have children, too.
        let shell = found.iter().find(|one| one.pid == child.id()).unwrap();
        let sleeper = below(child.id());
        assert_eq!(sleeper.len(), 1, "{sleeper:?}");
        assert!(sleeper[0].kill() && shell.kill());
        child.wait().unwrap();
        assert!(!shell.kill(), "it is gone");
    }
}
