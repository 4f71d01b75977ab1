//! Starting, watching and stopping a child, from outside.

use std::fmt;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use wallfinder_sys::namespace::Netns;

pub(crate) use super::capture::{Capture, Keep};
use super::hearing::Hearing;
use super::{BETWEEN_VARIABLE, GUARD, RunAs, SUBCOMMAND, Stray, environment, keeper, tree};

/// What a child is called until it became the program.
pub(super) const ARG0: &str = "wallfinder";
/// How long that may take, on a machine that is busy.
const BECOME_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long a guard may take to start it.
const START_WAIT_MAX: Duration = Duration::from_secs(10);
/// How often a child that should be ending is looked at.
const POLL: Duration = Duration::from_millis(2);
/// How long a guard may take to kill all; the kernel needs milliseconds.
const KILL_WAIT_MAX: Duration = Duration::from_secs(6);

/// The program that turns itself into a child: this tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shim {
    pub(super) program: PathBuf,
}

impl Shim {
    /// The binary that runs. Not by its path: that may hold another one by now, or none.
    pub fn of_this_process() -> Shim {
        Shim::at("/proc/self/exe".into())
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
    pub(crate) run_as: &'a RunAs,
    pub(crate) stdin: Option<Vec<u8>>,
    pub(crate) stdout: Keep,
    pub(crate) stderr: Keep,
}

/// A child could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not start {}: {why}", program.display())]
pub struct SpawnError {
    /// The program.
    pub program: PathBuf,
    /// In the system's words.
    pub why: String,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// With an exit code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl Ended {
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

/// A running child, with all that it started. Dropping it ends the whole of it.
#[derive(Debug)]
pub(crate) struct Child {
    guard: std::process::Child,
    hearing: Mutex<Hearing>,
    group: Pid,
    ended: Option<Ended>,
    pub(crate) stdout: Capture,
    pub(crate) stderr: Capture,
}

impl Child {
    pub(crate) fn start(spec: ChildSpec<'_>) -> Result<Child, SpawnError> {
        let failed = |error: io::Error| SpawnError {
            program: spec.program.to_owned(),
            why: error.to_string(),
        };
        // A program that does not know the subcommand would start itself without end.
        if std::env::var_os(BETWEEN_VARIABLE).is_some() {
            let why = format!("this program does not handle `{SUBCOMMAND}`");
            return Err(failed(io::Error::other(why)));
        }
        let (control, theirs) = UnixStream::pair().map_err(failed)?;
        let mut guard = in_nursery(command(&spec, theirs.into())).map_err(failed)?;
        match heard(&mut guard, control, &spec) {
            Ok((hearing, group, stdout, stderr)) => {
                keeper::watch(spec.shim, group);
                let child = Child {
                    guard,
                    hearing: Mutex::new(hearing),
                    group,
                    ended: None,
                    stdout,
                    stderr,
                };
                child.wait_until_it_became_the_program();
                Ok(child)
            }
            Err(error) => {
                // With the socket, which is closed by now, the guard ends what it has started.
                let _ = guard.wait();
                Err(failed(error))
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
        self.group.as_raw_pid().unsigned_abs()
    }

    /// How it ended, if it did. Its id stays taken until it is stopped.
    pub(crate) fn exited(&self) -> Option<Ended> {
        self.ended.or_else(|| self.hear().ended())
    }

    /// What still ran when it had ended by itself, and was ended then.
    pub(crate) fn left_behind(&self) -> Vec<Stray> {
        self.hear().left().to_vec()
    }

    fn hear(&self) -> MutexGuard<'_, Hearing> {
        self.hearing.lock().unwrap_or_else(PoisonError::into_inner)
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
        let ended = self.hear().close(KILL_WAIT_MAX).unwrap_or_else(|| {
            // The guard is gone, or hangs: what is left of the group is ended by its number.
            let _ = kill_process_group(self.group, Signal::KILL);
            Ended::Signal(9)
        });
        self.ended = Some(ended);
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        keeper::forget(self.group);
        // Somebody outside the family may hold the pipes: then the rest is not waited for.
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

/// What a guard needs to be told, and says first.
fn heard(
    guard: &mut std::process::Child,
    control: UnixStream,
    spec: &ChildSpec<'_>,
) -> io::Result<(Hearing, Pid, Capture, Capture)> {
    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
    let stdout = guard.stdout.take().ok_or_else(gone)?;
    let stderr = guard.stderr.take().ok_or_else(gone)?;
    let stdout = Capture::of(stdout, spec.stdout)?;
    let stderr = Capture::of(stderr, spec.stderr)?;
    if let Some(bytes) = &spec.stdin {
        (&control).write_all(bytes)?;
    }
    let mut hearing = Hearing::of(control)?;
    match hearing.started(START_WAIT_MAX) {
        Ok(group) => Ok((hearing, group, stdout, stderr)),
        Err(error) => {
            hearing.close(KILL_WAIT_MAX);
            stderr.wait_end(Duration::from_millis(500));
            let said = stderr.text();
            match said.trim() {
                "" => Err(error),
                said => Err(io::Error::other(format!("{error}: {said}"))),
            }
        }
    }
}

fn command(spec: &ChildSpec<'_>, control: OwnedFd) -> Command {
    let mut command = Command::new(&spec.shim.program);
    let input = spec.stdin.as_ref().map(|bytes| bytes.len().to_string());
    command.arg0(ARG0).args([
        SUBCOMMAND,
        GUARD,
        &std::process::id().to_string(),
        input.as_deref().unwrap_or("-"),
    ]);
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
    if let Some(user) = spec.run_as.user() {
        let numbers = [user.uid, user.gid].into_iter().chain(user.groups.clone());
        let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
        command.args(["--user", &numbers.join(",")]);
    }
    let tag = tree::tag().map(|tag| (tree::TAG_VARIABLE.into(), tag.into()));
    let environment = spec.run_as.environment(spec.env).into_iter().chain(tag);
    command
        .arg("--")
        .arg(spec.program)
        .args(spec.args)
        .env_clear()
        .envs(environment.map(environment::given))
        .env(BETWEEN_VARIABLE, "1")
        .process_group(0)
        .stdin(control)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What is to be started, in which network, and who hears of it.
type Birth = (
    Command,
    Option<Netns>,
    SyncSender<io::Result<std::process::Child>>,
);

/// Forks on a thread that lives as long as this process, since the kernel's death signal
/// is tied to the thread that forked; in the network namespace of the thread that calls.
pub(super) fn in_nursery(command: Command) -> io::Result<std::process::Child> {
    static NURSERY: OnceLock<Option<Sender<Birth>>> = OnceLock::new();
    let nursery = NURSERY.get_or_init(|| {
        let (births, asked) = channel::<Birth>();
        let run = move || {
            let home = own_netns();
            for (command, netns, answer) in asked {
                let _ = answer.send(born(command, netns.as_ref(), home.as_ref()));
            }
        };
        let thread = std::thread::Builder::new().name("nursery".into());
        thread.spawn(run).ok().map(|_| births)
    });
    let gone = || io::Error::other("the thread that starts children is gone");
    let (answer, answered) = sync_channel(1);
    let births = nursery.as_ref().ok_or_else(gone)?;
    let birth = (command, own_netns(), answer);
    births.send(birth).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

/// The calling thread's; `None` where the kernel has none.
fn own_netns() -> Option<Netns> {
    Netns::open(Path::new("/proc/thread-self/ns/net")).ok()
}

/// Starts it in a network namespace, and comes home.
fn born(
    mut command: Command,
    netns: Option<&Netns>,
    home: Option<&Netns>,
) -> io::Result<std::process::Child> {
    let (Some(netns), Some(home)) = (netns, home) else {
        return command.spawn();
    };
    if netns.id()? == home.id()? {
        return command.spawn();
    }
    netns.enter()?;
    let born = command.spawn();
    home.enter()?;
    born
}
