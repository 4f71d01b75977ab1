//! The keeper: a process of ours that outlives us by a moment, to kill what is left.
//!
//! It reads process groups from its standard input, `+4711 1715004` when one starts whose leader
//! has this number and this start, `-4711` when it is gone, and `journal NAME FOLDER` once for the
//! journal of changes. The end of the input is our end, whatever caused it: it kills the groups, and
//! undoes what the journal holds. `lease MS` asks for our end: where the next one does not come in time, we were
//! stopped, or hang, while something stood that must not stand for long.
//!
//! While we are stopped (Ctrl-Z, SIGSTOP, a debugger), whom we froze or stopped goes on: we could not end a pause.
//!
//! Invariant: it kills by descriptors that were opened while we lived, so a number that is
//! somebody else's by then is not touched.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid};
use wallfinder_sys::pidfd::PidFd;

use super::spawn::ARG0;
use super::{BETWEEN_VARIABLE, SUBCOMMAND, Shim};
use crate::undo::{self, Folder, Process};

/// What stands before the name and the folder of the journal.
const JOURNAL: &str = "journal ";
/// What stands before how long a lease lasts, in milliseconds; 0: there is none.
const LEASE: &str = "lease ";
/// Without a lease.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// A lease is told of no more often than this.
const LEASE_EVERY: Duration = Duration::from_millis(200);
/// How often it is looked whether the owner is stopped, once it has a journal.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often processes that are born in a group while it is killed are looked for.
const LOOKS_MAX: usize = 100;

/// The keeper's own life.
pub(super) fn keep() {
    // Out of the terminal's reach: its signals are for those who work.
    let _ = rustix::process::setsid();
    let parent = wallfinder_sys::process::parent();
    let owner = parent.and_then(|pid| PidFd::open(pid).ok());
    let process = parent.and_then(Process::of);
    let mut groups = BTreeMap::new();
    let mut journal: Option<(String, Arc<Folder>)> = None;
    let mut lease: Option<Instant> = None;
    let lines = lines();
    loop {
        let left = lease.map_or(FOR_EVER, |until| {
            until.saturating_duration_since(Instant::now())
        });
        let look = journal.as_ref().map_or(FOR_EVER, |_| LOOK_EVERY);
        let line = match lines.recv_timeout(left.min(look)) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                let is_over = lease.is_some_and(|until| until <= Instant::now());
                if is_over && let (Some(owner), Some(_)) = (&owner, lease.take()) {
                    let _ = owner.signal(Signal::KILL);
                }
                if let Some((name, folder)) = &journal
                    && process.is_some_and(Process::is_stopped)
                {
                    let _ = undo::let_go_on(folder, name);
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if let Some(ms) = line.strip_prefix(LEASE).and_then(|ms| ms.parse().ok()) {
            lease = (ms > 0).then(|| Instant::now() + Duration::from_millis(ms));
        } else if let Some(leader) = line.strip_prefix('+').and_then(leader) {
            groups.insert(leader.pid, Group::of(leader));
        } else if let Some(pid) = line.strip_prefix('-').and_then(|pid| pid.parse().ok()) {
            groups.remove(&pid);
        } else if let Some((name, folder)) = line.strip_prefix(JOURNAL).and_then(journal_of) {
            journal = Some((name, Arc::new(folder)));
        }
    }
    for group in groups.values() {
        group.kill();
    }
    if let Some((name, folder)) = journal {
        // What fails here stays in the journal, for `doctor --clean`.
        let _ = undo::undo_all_of(&folder, &name);
    }
}

/// What is read, by a thread of its own, so that it can be waited for with a limit.
fn lines() -> Receiver<String> {
    let (tell, lines) = channel();
    std::thread::spawn(move || {
        let read = io::stdin().lock().lines().map_while(Result::ok);
        read.map(|line| tell.send(line)).find(Result::is_err)
    });
    lines
}

fn leader(text: &str) -> Option<Process> {
    let (pid, start) = text.split_once(' ')?;
    Some(Process {
        pid: pid.parse().ok()?,
        start: start.parse().ok()?,
    })
}

fn journal_of(text: &str) -> Option<(String, Folder)> {
    let (name, folder) = text.split_once(' ')?;
    let folder = Folder::open(Path::new(folder)).ok()??;
    Some((name.to_owned(), folder))
}

/// A process group, and its leader held open.
struct Group {
    leader: Process,
    held: Option<PidFd>,
}

impl Group {
    fn of(leader: Process) -> Group {
        let held = PidFd::open(leader.pid).ok();
        // Its zombie keeps its number, and its group.
        let is_it = Process::of(leader.pid).is_some_and(|now| now == leader);
        let held = held.filter(|_| is_it);
        Group { leader, held }
    }

    fn kill(&self) {
        let held = self.held.as_ref();
        match held.map(|held| held.signal_group(Signal::KILL)) {
            Some(Ok(()) | Err(rustix::io::Errno::SRCH)) => {}
            // Before Linux 6.9.
            _ => self.kill_one_by_one(),
        }
    }

    /// Kills its members, unless its number is another's by now.
    fn kill_one_by_one(&self) {
        for _ in 0..LOOKS_MAX {
            let now = Process::of(self.leader.pid);
            if now.is_some_and(|now| now != self.leader) {
                return;
            }
            let members = self.members();
            if members.is_empty() {
                return;
            }
            for held in members {
                let _ = held.signal(Signal::KILL);
            }
        }
    }

    /// Each opened first, and looked at then.
    fn members(&self) -> Vec<PidFd> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        numbers
            .filter_map(|number: u32| {
                let held = PidFd::open(number).ok()?;
                let process = Process::of(number).filter(|process| process.is_alive())?;
                let pid = Pid::from_raw(i32::try_from(process.pid).ok()?)?;
                let group = getpgid(Some(pid)).ok()?;
                (group.as_raw_pid().cast_unsigned() == self.leader.pid).then_some(held)
            })
            .collect()
    }
}

/// Tells the keeper of a group that started; the first one starts the keeper.
pub(super) fn watch(shim: &Shim, group: Pid) {
    let pid = group.as_raw_pid().cast_unsigned();
    // Its zombie has a start as well: it is not waited for before it is forgotten.
    if let Some(Process { pid, start }) = Process::of(pid) {
        tell(Some(shim), &format!("+{pid} {start}\n"));
    }
}

/// Tells the keeper that a group is gone.
pub(super) fn forget(group: Pid) {
    tell(None, &format!("-{}\n", group.as_raw_pid()));
}

/// Tells the keeper where our changes are written down.
pub(crate) fn keep_journal(shim: &Shim, folder: &Path, name: &str) {
    // Neither holds what would end the line.
    tell(
        Some(shim),
        &format!("{JOURNAL}{name} {}\n", folder.display()),
    );
}

/// This process's lease.
static HELD: Mutex<Lease> = Mutex::new(Lease(None));

/// From now on this process is killed, and what it changed undone, unless it says so again within this time;
/// `None`: no more.
pub fn hold_lease(within: Option<Duration>) {
    let mut lease = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    tell_of_lease(lease.hold(within, Instant::now()));
}

/// The lease lasts for this time from now on, where one is held.
pub fn extend_lease(within: Duration) {
    let mut lease = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    tell_of_lease(lease.extend(within, Instant::now()));
}

fn tell_of_lease(ms: Option<u128>) {
    if let Some(ms) = ms {
        tell(None, &format!("{LEASE}{ms}\n"));
    }
}

/// When the keeper was told of a lease last; `None`: there is none.
struct Lease(Option<Instant>);

impl Lease {
    /// How long the keeper is told that it lasts, in milliseconds; `None`: there is nothing to tell yet.
    fn hold(&mut self, within: Option<Duration>, now: Instant) -> Option<u128> {
        let since = self.0.map(|at| now.saturating_duration_since(at));
        let is_due = match within {
            Some(_) => since.is_none_or(|since| since >= LEASE_EVERY),
            None => since.is_some(),
        };
        is_due.then(|| {
            self.0 = within.map(|_| now);
            within.map_or(0, |within| within.as_millis())
        })
    }

    fn extend(&mut self, within: Duration, now: Instant) -> Option<u128> {
        self.0.and_then(|_| self.hold(Some(within), now))
    }
}

/// Without a keeper the kernel's death signal still reaches each child itself.
fn tell(shim: Option<&Shim>, line: &str) {
    static KEEPER: OnceLock<Mutex<Option<ChildStdin>>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| Mutex::new(None));
    let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
    if let (None, Some(shim)) = (&*keeper, shim) {
        *keeper = start(shim).ok();
    }
    if let Some(stdin) = keeper.as_mut()
        && stdin.write_all(line.as_bytes()).is_err()
    {
        *keeper = None;
    }
}

fn start(shim: &Shim) -> io::Result<ChildStdin> {
    let mut child = Command::new(&shim.program)
        .arg0(ARG0)
        .args([SUBCOMMAND, "--keep"])
        .env(BETWEEN_VARIABLE, "1")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()?;
    child
        .stdin
        .take()
        .ok_or_else(|| io::Error::other("no pipe"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Child;

    fn group_of_two() -> Child {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "sleep 60 & sleep 60; :"])
            .process_group(0);
        shell.spawn().expect("a shell")
    }

    fn members_of(child: &Child) -> usize {
        let leader = Process::of(child.id()).expect("it is not waited for");
        Group { leader, held: None }.members().len()
    }

    fn until(what: &str, is_so: impl Fn() -> bool) {
        for _ in 0..1_000 {
            if is_so() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("{what}: not within 5 s");
    }

    #[test]
    fn a_group_is_killed_with_and_without_its_leader_held() {
        for is_held in [true, false] {
            let mut child = group_of_two();
            until("three members", || members_of(&child) == 3);
            let mut group = Group::of(Process::of(child.id()).expect("it lives"));
            assert!(group.held.is_some());
            if !is_held {
                group.held = None;
            }
            group.kill();
            until("nobody is left", || members_of(&child) == 0);
            child.wait().expect("it ended");
        }
    }

    #[test]
    fn a_lease_is_extended_only_while_it_is_held() {
        let within = Duration::from_secs(5);
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut lease = Lease(None);
        assert_eq!(lease.extend(within, at(0)), None);
        assert_eq!(lease.hold(None, at(0)), None);
        assert_eq!(lease.hold(Some(within), at(0)), Some(5_000));
        assert_eq!(lease.extend(within, at(199)), None);
        assert_eq!(lease.extend(within, at(1_000)), Some(5_000));
        assert_eq!(lease.hold(Some(within), at(1_100)), None);
        assert_eq!(lease.hold(None, at(1_100)), Some(0));
        assert_eq!(lease.extend(within, at(9_000)), None);
    }

    #[test]
    fn a_group_whose_number_is_anothers_by_now_is_not_killed() {
        let mut child = group_of_two();
        until("three members", || members_of(&child) == 3);
        let now = Process::of(child.id()).expect("it lives");
        let before = Process {
            start: now.start - 1,
            ..now
        };
        let group = Group::of(before);
        assert!(group.held.is_none(), "another process was taken for it");
        group.kill();
        assert_eq!(members_of(&child), 3);
        Group::of(now).kill();
        until("nobody is left", || members_of(&child) == 0);
        child.wait().expect("it ended");
    }
}
