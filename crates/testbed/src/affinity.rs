//! Where the threads of a side may run, and whole processors less for all of them.
//!
//! By `sched_setaffinity(2)` on every thread, which needs no privilege for processes of the
//! same user. A thread that is born meanwhile inherits what its creator had.
//!
//! Invariants: what each thread had is journalled before any is changed; on every way out
//! each has it again, and those born meanwhile have the processor again that their creator had.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde::{Deserialize, Serialize};
use wallfinder_probe::{online, parse};

use crate::child::Shim;
use crate::error::TestbedError;
use crate::group;
use crate::undo::{Change, Journal, Process, Undo};

/// How often threads that are born while others are narrowed are looked for.
const LOOKS_MAX: usize = 8;
/// Threads of one side, at the most.
const THREADS_MAX: usize = 65_536;

/// A side on one processor less than it had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Narrowed {
    /// Its processes.
    pub(crate) processes: Vec<Process>,
    /// The processors that are left to it.
    pub(crate) left: Vec<u32>,
    /// The one that was taken.
    pub(crate) taken: u32,
    /// Its threads, and where each might run.
    pub(crate) threads: Vec<(Process, Vec<u32>)>,
}

impl Narrowed {
    /// Takes a processor from all threads of these processes and of their descendants. A
    /// thread that would have none left gets those that are left to the side.
    pub(crate) fn to(
        pids: &[u32],
        left: &[u32],
        taken: u32,
        shim: &Shim,
    ) -> Result<Change, TestbedError> {
        let narrowed = Narrowed {
            processes: pids.iter().filter_map(|pid| Process::of(*pid)).collect(),
            left: left.to_vec(),
            taken,
            threads: threads_of(pids),
        };
        if narrowed.threads.is_empty() {
            let why = "no thread of theirs can be seen";
            return Err(TestbedError::refused("taking a processor", why));
        }
        let undo = Undo::RestoreAffinity(narrowed.clone());
        let make = |_: &fs::File| narrowed.apply();
        let (change, ()) = Journal::open(shim)?.change(undo, make)?;
        Ok(change)
    }

    fn apply(&self) -> Result<(), TestbedError> {
        for _ in 0..LOOKS_MAX {
            let mut wide = threads_of(&self.alive());
            wide.retain(|(_, allowed)| allowed.contains(&self.taken));
            if wide.is_empty() {
                return Ok(());
            }
            for (thread, allowed) in wide {
                let own = without(self.taken, online::only(allowed), &self.left);
                run_on(thread, &own).map_err(|error| {
                    let what = format!("taking a processor from thread {}", thread.pid);
                    TestbedError::no_privilege(what, error.to_string())
                })?;
            }
        }
        Ok(())
    }

    /// The numbers of its processes, of those that have them still.
    fn alive(&self) -> Vec<u32> {
        let alive = self.processes.iter().filter(|process| process.is_alive());
        alive.map(|process| process.pid).collect()
    }

    /// Where threads may run from which the processor was taken, and so those that they created meanwhile.
    fn narrowed(&self, online: impl Fn(Vec<u32>) -> Vec<u32>) -> BTreeSet<Vec<u32>> {
        let had = self.threads.iter().map(|(_, had)| had);
        let had: BTreeSet<&Vec<u32>> = had.filter(|had| had.contains(&self.taken)).collect();
        let left = |had: &Vec<u32>| without(self.taken, online(had.clone()), &self.left);
        let narrowed = had.into_iter().map(left);
        narrowed.chain([self.left.clone()]).collect()
    }

    /// Gives every thread back what it had. Those that are gone need nothing.
    pub(crate) fn restore(&self) {
        let narrowed = self.narrowed(online::only);
        for (thread, allowed) in threads_of(&self.alive()) {
            let mut allowed = online::only(allowed);
            let known = self.threads.iter().any(|(known, _)| *known == thread);
            if !known && narrowed.contains(&allowed) {
                allowed.push(self.taken);
                let _ = run_on(thread, &allowed);
            }
        }
        for (thread, cpus) in &self.threads {
            let _ = run_on(*thread, cpus);
        }
    }
}

/// How many threads of these processes may run on a processor, and how many there are.
pub(crate) fn on(pids: &[u32], cpu: u32) -> (usize, usize) {
    let threads = threads_of(pids);
    let there = threads.iter().filter(|(_, own)| own.contains(&cpu)).count();
    (there, threads.len())
}

/// Where a thread may run once a processor is taken from it: where the side may, if it has none
/// left.
fn without(taken: u32, mut allowed: Vec<u32>, left: &[u32]) -> Vec<u32> {
    allowed.retain(|cpu| *cpu != taken);
    match allowed.is_empty() {
        true => left.to_vec(),
        false => allowed,
    }
}

/// Threads of processes and of their descendants, and where each may run, as the kernel has it:
/// processors that are offline are given back as well.
fn threads_of(pids: &[u32]) -> Vec<(Process, Vec<u32>)> {
    let folders = group::family(pids).into_iter();
    let tasks = folders.filter_map(|pid| fs::read_dir(format!("/proc/{pid}/task")).ok());
    tasks
        .flat_map(|tasks| tasks.flatten())
        .filter_map(|task| {
            let tid = task.file_name().to_str()?.parse().ok()?;
            let status = fs::read(task.path().join("status")).ok()?;
            let allowed = parse::process::status(&status)?.cpus_allowed;
            Some((Process::of(tid)?, allowed))
        })
        .take(THREADS_MAX)
        .collect()
}

fn run_on(thread: Process, cpus: &[u32]) -> Result<(), rustix::io::Errno> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter().filter(|cpu| (**cpu as usize) < CpuSet::MAX_CPU) {
        set.set(*cpu as usize);
    }
    let pid = i32::try_from(thread.pid).ok().and_then(Pid::from_raw);
    // `/proc/TID/stat` can be read for any thread; its number may be another's by now.
    match pid.filter(|_| thread.is_alive()) {
        Some(pid) => match sched_setaffinity(Some(pid), &set) {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            done => done,
        },
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_not_left_on_processors_that_are_offline() {
        let online = [0, 1, 2, 3];
        let pinned_to_the_last = online::among((3..128).collect(), &online);
        assert_eq!(without(3, pinned_to_the_last, &[0, 1, 2]), [0, 1, 2]);
        let anywhere = online::among((0..128).collect(), &online);
        assert_eq!(without(3, anywhere, &[0, 1, 2]), [0, 1, 2]);
        assert_eq!(without(3, vec![1, 3], &[0, 1, 2]), [1]);
    }

    #[test]
    fn a_thread_born_meanwhile_is_known_by_where_its_creator_was_left() {
        let thread = |pid: u32| Process { pid, start: 1 };
        let narrowed = Narrowed {
            processes: Vec::new(),
            left: vec![0, 1, 2],
            taken: 3,
            threads: vec![
                (thread(1), vec![0, 1, 2, 3]),
                (thread(2), vec![1, 3]),
                (thread(3), vec![0, 2]),
            ],
        };
        let narrowed = narrowed.narrowed(|cpus| cpus);
        assert!(narrowed.contains(&[0, 1, 2][..]));
        assert!(narrowed.contains(&[1][..]), "its creator had two");
        assert!(
            !narrowed.contains(&[0, 2][..]),
            "nothing was taken from its creator"
        );
    }
}
