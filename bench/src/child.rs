//! Processes that are started, pinned, waited for, ended, and asked what they used; the labelled suite uses it too.
//!
//! CPU time of a client is the growth of `getrusage(RUSAGE_CHILDREN)` while it is reaped:
//! all of its threads, dead ones included, user and system, in microseconds. Where the
//! kernel accounts by ticks (CONFIG_TICK_CPU_ACCOUNTING) only the *split* between user and
//! system is estimated from ticks; their *sum* is scaled to the scheduler's exact run
//! time, so the sum is what is compared.

use std::io::{self, Read, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use wallfinder_sys::process::pin_to;

/// A process that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// As the kernel says it.
    pub status: ExitStatus,
    /// By itself, within the time that it had.
    pub in_time: bool,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
    /// CPU time in user mode (estimated split).
    pub user_seconds: f64,
    /// CPU time in the kernel (estimated split).
    pub system_seconds: f64,
}

impl Ended {
    /// Whether it said that all was well.
    pub fn is_success(&self) -> bool {
        self.in_time && self.status.success()
    }

    /// CPU time in all: exact to a microsecond.
    pub fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// Its last words, for a message.
    pub fn last_words(&self) -> String {
        let text = if self.stderr.trim().is_empty() {
            &self.stdout
        } else {
            &self.stderr
        };
        text.trim()
            .lines()
            .last()
            .unwrap_or("it said nothing")
            .to_owned()
    }
}

/// A process that does not outlive the value: it is asked to end, where it can be, and killed after a grace.
#[derive(Debug)]
pub struct Held {
    child: Child,
    asked: Option<(Signal, Duration)>,
}

impl Held {
    /// Killed in the end.
    pub fn killed(child: Child) -> Held {
        Held { child, asked: None }
    }

    /// Asked by a signal, and killed if it has not ended after `grace`.
    pub fn asked(child: Child, signal: Signal, grace: Duration) -> Held {
        let asked = Some((signal, grace));
        Held { child, asked }
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.has_ended() {
            if let Some((signal, grace)) = self.asked {
                let _ = kill_process(Pid::from_child(&self.child), signal);
                let _ = wait_at_most(&self.child, grace);
            }
            let _ = self.child.kill();
        }
        self.child.wait()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Starts a process that inherits the processor from the calling thread, which is left
/// on it: the caller sleeps while the process runs.
pub fn start_pinned(command: &mut Command, cpu: Option<u32>) -> io::Result<Child> {
    if let Some(cpu) = cpu {
        pin_to(&[cpu])?;
    }
    command.stdin(Stdio::null()).spawn()
}

/// Runs a process to its end on a processor; kills it after `at_most`. No other child may be reaped
/// meanwhile, since the account of all reaped children is what is read.
pub fn run_pinned(command: &mut Command, cpu: Option<u32>, at_most: Duration) -> io::Result<Ended> {
    if let Some(cpu) = cpu {
        pin_to(&[cpu])?;
    }
    run(command, at_most, Duration::ZERO)
}

/// Runs a process to its end; interrupts it after `at_most`, and kills it after `grace`.
pub fn run(command: &mut Command, at_most: Duration, grace: Duration) -> io::Result<Ended> {
    // Files in memory: a pipe would block a process that says much, or wake this one.
    let mut stdout = std::fs::File::from(memfd_create("stdout", MemfdFlags::CLOEXEC)?);
    let mut stderr = std::fs::File::from(memfd_create("stderr", MemfdFlags::CLOEXEC)?);
    command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?);
    let before = reaped_seconds();
    let mut held = Held::asked(command.spawn()?, Signal::TERM, grace);
    let in_time = wait_at_most(&held.child, at_most)?;
    let status = held.end()?;
    let after = reaped_seconds();
    let text = |file: &mut std::fs::File| -> io::Result<String> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let mut stderr = text(&mut stderr)?;
    if !in_time {
        stderr.push_str(&format!("\nkilled after {at_most:?}"));
    }
    Ok(Ended {
        status,
        in_time,
        stdout: text(&mut stdout)?,
        stderr,
        user_seconds: after.0 - before.0,
        system_seconds: after.1 - before.1,
    })
}

/// Whether the process ends within the time. Sleeps, and wakes once.
fn wait_at_most(child: &Child, at_most: Duration) -> io::Result<bool> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let end = Instant::now() + at_most;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let timeout = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// User and system time of all children that were reaped so far.
fn reaped_seconds() -> (f64, f64) {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).expect("a constant that Linux knows");
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    (seconds(usage.user_time()), seconds(usage.system_time()))
}

/// Run time of all living threads of a process, from the scheduler, in seconds. Threads
/// that ended meanwhile are missing: a Go server's do not.
pub fn run_seconds(pid: u32) -> io::Result<f64> {
    let mut nanoseconds = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let Ok(text) = std::fs::read_to_string(task?.path().join("schedstat")) else {
            continue;
        };
        nanoseconds += run_nanoseconds(&text).unwrap_or(0);
    }
    Ok(nanoseconds as f64 / 1e9)
}

/// First field of `/proc/PID/task/TID/schedstat`.
fn run_nanoseconds(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// The account of reaped children is one for the whole process.
    static REAPING: Mutex<()> = Mutex::new(());

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_child_is_heard_and_accounted_for() {
        let _alone = REAPING.lock();
        let busy = "echo out; echo err >&2; n=0; while [ $n -lt 100000 ]; do n=$((n+1)); done";
        let ended = run_pinned(&mut shell(busy), None, Duration::from_secs(60)).unwrap();
        assert!(ended.is_success());
        assert_eq!((ended.stdout.trim(), ended.stderr.trim()), ("out", "err"));
        let idle = run_pinned(&mut shell("true"), None, Duration::from_secs(60)).unwrap();
        assert!(ended.cpu_seconds() > 0.01, "{ended:?}");
        assert!(idle.cpu_seconds() < ended.cpu_seconds());
    }

    #[test]
    fn a_child_that_does_not_end_is_killed() {
        let _alone = REAPING.lock();
        let ended = run_pinned(&mut shell("exec sleep 60"), None, Duration::from_millis(50));
        let ended = ended.unwrap();
        assert!(!ended.in_time && !ended.is_success());
        assert!(ended.last_words().contains("killed"));
    }

    #[test]
    fn a_child_that_puts_things_back_when_it_is_interrupted_has_the_time_to() {
        let _alone = REAPING.lock();
        let script = "trap 'echo back; exit 3' TERM; echo begun >&2; while :; do sleep 0.05; done";
        let limit = Duration::from_secs(1);
        let ended = run(&mut shell(script), limit, Duration::from_secs(30)).unwrap();
        assert_eq!(
            (ended.status.code(), ended.stdout.as_str()),
            (Some(3), "back\n")
        );
        assert!(!ended.in_time);
    }

    #[test]
    fn the_scheduler_knows_this_process() {
        assert!(run_seconds(std::process::id()).unwrap() > 0.0);
        assert_eq!(run_nanoseconds("2717147 5 1\n"), Some(2_717_147));
        assert_eq!(run_nanoseconds(""), None);
    }
}
