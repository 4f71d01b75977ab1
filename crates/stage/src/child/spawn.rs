//! Starting, watching and stopping a child, from outside.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};

pub(crate) use super::capture::{Capture, Keep};
use super::{BETWEEN_VARIABLE, SUBCOMMAND, keeper};

/// Names the tool's binary where the running program is another, as in tests.
const SHIM_VARIABLE: &str = "WALLFINDER_SHIM";
/// What a child is called until it became the program.
pub(super) const ARG0: &str = "wallfinder";
/// How long that may take, on a machine that is busy.
const BECOME_WAIT_MAX: Duration = Duration::from_secs(5);
/// How often a child that should be ending is looked at.
const POLL: Duration = Duration::from_millis(2);
/// How long a killed group may take to be gone; the kernel needs milliseconds.
const KILL_WAIT_MAX: Duration = Duration::from_secs(5);

/// The program that turns itself into a child: this tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shim {
    pub(super) program: PathBuf,
}

impl Shim {
    /// The binary named by `WALLFINDER_SHIM`, or else the one that runs.
    pub fn of_this_process() -> Shim {
        let named = std::env::var_os(SHIM_VARIABLE).filter(|value| !value.is_empty());
        // Not by its path: that may hold another binary by now, or none.
        Shim::at(named.map_or_else(|| "/proc/self/exe".into(), PathBuf::from))
    }

    /// A binary that calls [`enter`](super::enter()) when its first argument is
    /// [`SUBCOMMAND`].
    pub fn at(program: PathBuf) -> Shim {
        Shim { program }
    }
}

/// Where a child runs, apart from its processors. By default where this process does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// A network namespace: `/run/netns/NAME`.
    pub netns: Option<PathBuf>,
    /// Control groups, one for each hierarchy: the folders that hold their `cgroup.procs`.
    pub cgroups: Vec<PathBuf>,
}

/// What to start, and how.
pub(crate) struct ChildSpec<'a> {
    pub(crate) shim: &'a Shim,
    pub(crate) program: &'a Path,
    pub(crate) args: &'a [String],
    pub(crate) env: &'a [(String, String)],
    /// Processors it may run on; empty: those of this process.
    pub(crate) cpus: &'a [u32],
    pub(crate) place: &'a Place,
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) stdout: Keep,
    pub(crate) stderr: Keep,
}

/// A child could not be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnError {
    /// The program.
    pub program: PathBuf,
    /// In the system's words.
    pub why: String,
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "could not start {}: {}",
            self.program.display(),
            self.why
        )
    }
}

impl std::error::Error for SpawnError {}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl Ended {
    fn of(status: ExitStatus) -> Ended {
        match status.code() {
            Some(code) => Ended::Code(code),
            None => Ended::Signal(status.signal().unwrap_or(0)),
        }
    }

    /// Whether it says that all went well.
    pub fn is_success(self) -> bool {
        self == Ended::Code(0)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Code(code) => write!(f, "exit code {code}"),
            Ended::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// A running child and its process group. Dropping it ends the whole group.
#[derive(Debug)]
pub(crate) struct Child {
    inner: std::process::Child,
    group: Pid,
    ended: Option<Ended>,
    pub(crate) stdout: Capture,
    pub(crate) stderr: Capture,
}

impl Child {
    pub(crate) fn start(spec: ChildSpec<'_>) -> Result<Child, SpawnError> {
        let program = spec.program.to_owned();
        let shim = spec.shim.clone();
        let failed = |e: io::Error| SpawnError {
            program: program.clone(),
            why: e.to_string(),
        };
        // A program that does not know the subcommand would start itself without end.
        if std::env::var_os(BETWEEN_VARIABLE).is_some() {
            let why = format!("this program does not handle `{SUBCOMMAND}`");
            return Err(failed(io::Error::other(why)));
        }
        let (keep_stdout, keep_stderr) = (spec.stdout, spec.stderr);
        let stdin = spec.stdin.clone();
        let mut inner = in_nursery(command(&spec)).map_err(failed)?;
        let group = i32::try_from(inner.id()).ok().and_then(Pid::from_raw);
        let group = group.ok_or_else(|| failed(io::Error::other("no process id")))?;
        keeper::watch(&shim, group);
        let streams = (|| {
            let stdout = inner.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
            let stderr = inner.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
            if let (Some(bytes), Some(mut pipe)) = (stdin, inner.stdin.take()) {
                // A child that does not read must not hold anybody up.
                std::thread::Builder::new()
                    .name("child-input".into())
                    .spawn(move || drop(pipe.write_all(&bytes)))?;
            }
            Ok((
                Capture::of(stdout, keep_stdout)?,
                Capture::of(stderr, keep_stderr)?,
            ))
        })();
        match streams {
            Ok((stdout, stderr)) => {
                let child = Child {
                    inner,
                    group,
                    ended: None,
                    stdout,
                    stderr,
                };
                child.wait_until_it_became_the_program();
                Ok(child)
            }
            Err(e) => {
                let _ = kill_process_group(group, Signal::KILL);
                let _ = inner.wait();
                keeper::forget(group);
                Err(failed(e))
            }
        }
    }

    /// So that whoever looks at it sees the program, by its name and where it was pinned.
    fn wait_until_it_became_the_program(&self) {
        let command_line = format!("/proc/{}/cmdline", self.pid());
        let since = Instant::now();
        let mut pause = Duration::from_micros(200);
        while self.exited().is_none() && since.elapsed() < BECOME_WAIT_MAX {
            let words = std::fs::read(&command_line).unwrap_or_default();
            let mut words = words.split(|byte| *byte == 0);
            let is_between = words.next() == Some(ARG0.as_bytes())
                && words.next() == Some(SUBCOMMAND.as_bytes());
            if !is_between {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(POLL);
        }
    }

    /// Its process id, which is also its group's.
    pub(crate) fn pid(&self) -> u32 {
        self.inner.id()
    }

    /// How it ended, if it did. It stays a zombie, and its id taken, until it is stopped.
    pub(crate) fn exited(&self) -> Option<Ended> {
        if self.ended.is_some() {
            return self.ended;
        }
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.group), look).ok()??;
        Some(match status.exit_status() {
            Some(code) => Ended::Code(code),
            None => Ended::Signal(status.terminating_signal().unwrap_or(0)),
        })
    }

    /// Asks the group to end as Ctrl-C does, and waits for its leader.
    pub(crate) fn interrupt(&mut self, grace: Duration) {
        if self.ended.is_none() {
            self.ask(Signal::INT, grace);
        }
    }

    fn ask(&self, signal: Signal, grace: Duration) {
        if self.exited().is_some() {
            return;
        }
        let _ = kill_process_group(self.group, signal);
        // A stopped process takes the request when it goes on.
        let _ = kill_process_group(self.group, Signal::CONT);
        let asked = Instant::now();
        while self.exited().is_none() && asked.elapsed() < grace {
            std::thread::sleep(POLL);
        }
    }

    /// Asks the group to end, kills what is left after `grace`, and waits until nothing is.
    pub(crate) fn stop(&mut self, grace: Duration) -> Ended {
        if let Some(ended) = self.ended {
            return ended;
        }
        self.ask(Signal::TERM, grace);
        // The leader is alive or a zombie: its id cannot belong to anybody else yet.
        let _ = kill_process_group(self.group, Signal::KILL);
        let ended = self.inner.wait().map_or(Ended::Signal(9), Ended::of);
        self.ended = Some(ended);
        let killed = Instant::now();
        while group_runs(self.group) && killed.elapsed() < KILL_WAIT_MAX {
            std::thread::sleep(POLL);
        }
        keeper::forget(self.group);
        // Somebody outside the group may hold the pipes: then the rest is not waited for.
        self.stdout.wait_end(Duration::from_millis(500));
        self.stderr.wait_end(Duration::from_millis(500));
        ended
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.stop(Duration::from_secs(2));
    }
}

/// Whether a process of the group still runs. Zombies do not: where the first process of a
/// container reaps nobody, they stay for good.
fn group_runs(group: Pid) -> bool {
    if test_kill_process_group(group).is_err() {
        return false;
    }
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return false;
    };
    processes.flatten().any(|process| {
        let stat = std::fs::read(process.path().join("stat")).unwrap_or_default();
        group_and_state(&stat).is_some_and(|(of, state)| of == group.as_raw_pid() && state != b'Z')
    })
}

/// From a line such as `4711 (name) S 1 4711 …` (proc(5)): process group and state.
fn group_and_state(stat: &[u8]) -> Option<(i32, u8)> {
    // The name may hold anything, so its end is the last bracket.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(&stat[after_name..])
        .ok()?
        .split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some((group, state))
}

fn command(spec: &ChildSpec<'_>) -> Command {
    let mut command = Command::new(&spec.shim.program);
    command
        .arg0(ARG0)
        .args([SUBCOMMAND, "--parent", &std::process::id().to_string()]);
    if !spec.cpus.is_empty() {
        let cpus: Vec<String> = spec.cpus.iter().map(u32::to_string).collect();
        command.args(["--cpus", &cpus.join(",")]);
    }
    if let Some(netns) = &spec.place.netns {
        command.arg("--netns").arg(netns);
    }
    for cgroup in &spec.place.cgroups {
        command.arg("--cgroup").arg(cgroup);
    }
    command
        .arg("--")
        .arg(spec.program)
        .args(spec.args)
        .envs(spec.env.iter().map(|(name, value)| (name, value)))
        .env(BETWEEN_VARIABLE, "1")
        .process_group(0)
        .stdin(match spec.stdin {
            Some(_) => Stdio::piped(),
            None => Stdio::null(),
        })
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

type Birth = (Command, SyncSender<io::Result<std::process::Child>>);

/// Forks on a thread that lives as long as this process, since the kernel's death signal
/// is tied to the thread that forked.
pub(super) fn in_nursery(command: Command) -> io::Result<std::process::Child> {
    static NURSERY: OnceLock<Option<Sender<Birth>>> = OnceLock::new();
    let nursery = NURSERY.get_or_init(|| {
        let (births, asked) = channel::<Birth>();
        let run = move || {
            for (mut command, answer) in asked {
                let _ = answer.send(command.spawn());
            }
        };
        let thread = std::thread::Builder::new().name("nursery".into());
        thread.spawn(run).ok().map(|_| births)
    });
    let gone = || io::Error::other("the thread that starts children is gone");
    let (answer, answered) = sync_channel(1);
    let births = nursery.as_ref().ok_or_else(gone)?;
    births.send((command, answer)).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_may_have_any_name() {
        let stat = b"4711 (a) Z 1 (b) S 1 4700 4700 0 -1";
        assert_eq!(group_and_state(stat), Some((4700, b'S')));
        for bad in [&b""[..], b"1 (a", b"1 (a)", b"1 (a) S 1", b"1 (a) S 1 x"] {
            assert_eq!(group_and_state(bad), None);
        }
    }
}
