//! The guard: the parent of one child, between it and us. Whatever the child starts, however it
//! detaches itself, ends up below the guard, and ends with it.
//!
//! ```text
//!  wallfinder ──control──► guard ──► the program ──► its workers
//!                            ▲                           │ setsid, double fork, a daemon
//!                            └──── adopts (a subreaper) ◄┘
//! ```
//!
//! The guard says on the control socket when the program started and how it ended, and which of
//! its descendants still ran then: those it kills. The end of the socket is our end, or our wish:
//! it kills everything below, and ends. The program stays a zombie until then, so its number, and
//! that of its group, are nobody else's.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, getppid, kill_process_group, pidfd_open,
    set_child_subreaper, waitid,
};
use serde::{Deserialize, Serialize};

use super::SUBCOMMAND;
use super::enter::EnterError;
use super::spawn::{ARG0, Ended};
use super::tree::{self, Stray};

/// How long what a program started may take to end after it, until it counts as left behind.
const LINGER: Duration = Duration::from_millis(150);
/// Looks that have to find nothing, for nothing to be there.
const LOOKS: u32 = 3;
/// How long killed processes may take to be gone; the kernel needs milliseconds.
const KILL_WAIT_MAX: Duration = Duration::from_secs(5);
/// How often a crowd that should be ending is looked at.
const POLL: Duration = Duration::from_millis(2);
/// How often adopted processes that ended are taken out of the kernel's table.
const REAP_EVERY: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// How often a program is looked at that cannot be waited for beside the socket.
const LOOK_EVERY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 10_000_000,
};

/// What a guard says, a line of JSON each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// The program's process, which is also its group.
    Started(i32),
    /// It could not be started.
    Failed(String),
    /// It ended, and left these running.
    Ended(Ended, Vec<Stray>),
}

/// The guard's own life. `args`: our number, how many bytes of the program's input come first on
/// the control socket (`-`: it has none), and what the child is told.
pub(super) fn guard(args: &[OsString]) -> Result<(), EnterError> {
    let bad = || EnterError::BadArgs("--guard takes a process, a length, and a child".into());
    let [parent, input, rest @ ..] = args else {
        return Err(bad());
    };
    let (parent, input) = (parent.to_str(), input.to_str());
    let parent: i32 = parent.and_then(|pid| pid.parse().ok()).ok_or_else(bad)?;
    let input = match input.ok_or_else(bad)? {
        "-" => None,
        length => Some(length.parse::<u64>().map_err(|_| bad())?),
    };
    let os = |doing| move |error: io::Error| EnterError::Os { doing, error };
    let control = io::stdin().as_fd().try_clone_to_owned();
    let control = UnixStream::from(control.map_err(os("share the control socket"))?);
    let own = rustix::process::getpid();
    set_child_subreaper(Some(own)).map_err(|errno| os("adopt orphans")(errno.into()))?;
    if getppid().map(|pid| pid.as_raw_pid()) != Some(parent) {
        return Err(EnterError::ParentGone);
    }
    let mut bytes = Vec::new();
    let read = (&control).take(input.unwrap_or(0)).read_to_end(&mut bytes);
    let read = read.map_err(os("read the program's input"))?;
    if (read as u64) < input.unwrap_or(0) {
        return Err(EnterError::ParentGone);
    }
    let mut guard = Guard {
        control,
        own,
        program: None,
    };
    match start(own, input.is_some(), rest) {
        Ok(mut child) => {
            if let Some(mut pipe) = child.stdin.take() {
                // A program that does not read must not hold anybody up.
                let thread = std::thread::Builder::new().name("child-input".into());
                let _ = thread.spawn(move || drop(pipe.write_all(&bytes)));
            }
            guard.program = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            guard.watch();
        }
        Err(error) => guard.say(&Said::Failed(error.to_string())),
    }
    Ok(())
}

/// The death signal of the program is tied to this thread, which is the guard's only one that
/// forks, and its last.
fn start(own: Pid, has_input: bool, rest: &[OsString]) -> io::Result<std::process::Child> {
    Command::new("/proc/self/exe")
        .arg0(ARG0)
        .args([SUBCOMMAND, "--parent", &own.as_raw_pid().to_string()])
        .args(rest)
        .process_group(0)
        .stdin(match has_input {
            true => Stdio::piped(),
            false => Stdio::null(),
        })
        .spawn()
}

struct Guard {
    control: UnixStream,
    own: Pid,
    program: Option<Pid>,
}

impl Guard {
    fn watch(&self) {
        let Some(program) = self.program else {
            return;
        };
        self.say(&Said::Started(program.as_raw_pid()));
        let by_itself = self.until_it_ends(program);
        let left = match by_itself {
            true => self.lingering(),
            false => Vec::new(),
        };
        self.end_all(program);
        if let Some(ended) = ended(program) {
            self.say(&Said::Ended(ended, left));
        }
        // Until we were heard, the program's number is kept.
        let _ = (&self.control).read(&mut [0]);
        self.until_nobody_is_there();
    }

    /// Whether the program ended before we were told to end it.
    fn until_it_ends(&self, program: Pid) -> bool {
        let handle = pidfd_open(program, PidfdFlags::empty());
        // A container may forbid handles: then it is looked at.
        let look_every = handle.as_ref().map_or(LOOK_EVERY, |_| REAP_EVERY);
        loop {
            let mut watched = vec![PollFd::new(&self.control, PollFlags::IN)];
            watched.extend(handle.iter().map(|of| PollFd::new(of, PollFlags::IN)));
            let _ = poll(&mut watched, Some(&look_every));
            if ended(program).is_some() {
                return true;
            }
            if !watched[0].revents().is_empty() {
                return false;
            }
            self.reap(program);
        }
    }

    /// What still runs when the program has had its moment to see its own off.
    fn lingering(&self) -> Vec<Stray> {
        let since = Instant::now();
        let mut empty = 0;
        loop {
            let left = self.below();
            // One that forks and ends while it is looked for is missed once.
            empty = if left.is_empty() { empty + 1 } else { 0 };
            if empty == LOOKS || since.elapsed() >= LINGER {
                return left;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Kills what is below until nothing is.
    fn end_all(&self, program: Pid) {
        let since = Instant::now();
        loop {
            let _ = kill_process_group(program, Signal::KILL);
            let below = self.below();
            self.reap(program);
            if below.is_empty() || since.elapsed() >= KILL_WAIT_MAX {
                return;
            }
            for found in below {
                found.kill();
            }
            std::thread::sleep(POLL);
        }
    }

    /// The last word is the kernel's: whoever runs below us is, or is below, a child of ours.
    fn until_nobody_is_there(&self) {
        let since = Instant::now();
        let gone = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        while since.elapsed() < KILL_WAIT_MAX {
            match waitid(WaitId::All, gone) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    for stray in self.below() {
                        stray.kill();
                    }
                    std::thread::sleep(POLL);
                }
                // There is no child.
                Err(_) => return,
            }
        }
    }

    fn below(&self) -> Vec<Stray> {
        tree::below(self.own.as_raw_pid().unsigned_abs())
    }

    /// Takes adopted processes that ended out of the kernel's table, but for the program.
    fn reap(&self, program: Pid) {
        let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        let pids = children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok());
        for pid in pids.filter_map(Pid::from_raw).filter(|pid| *pid != program) {
            let gone = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            let _ = waitid(WaitId::Pid(pid), gone);
        }
    }

    fn say(&self, said: &Said) {
        let mut line = serde_json::to_vec(said).unwrap_or_default();
        line.push(b'\n');
        // Whoever asked may be gone: then nobody needs to know.
        let _ = (&self.control).write_all(&line);
    }
}

/// How a process ended that is still a zombie.
fn ended(program: Pid) -> Option<Ended> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::Pid(program), look).ok()??;
    Some(match status.exit_status() {
        Some(code) => Ended::Code(code),
        None => Ended::Signal(status.terminating_signal().unwrap_or(0)),
    })
}
