//! Pauses: where no thief may run, all processes of a side are stopped for 1 to 3 ms at a
//! time, jittered, until a share of the elapsed time is gone.
//!
//! By a freezer group where one can be had, else by SIGSTOP and SIGCONT, which need no
//! privilege for processes of the same user, but show: a parent that waits for its children
//! hears of each stop, and calls such as `epoll_wait` return early (signal(7)).
//!
//! What it is not: as fine as a thief. It stops what sleeps as well, so it also delays what
//! needs no processor, and it aliases with collectors and quota periods: hence the jitter.
//!
//! Invariants: it never takes more than [`DUTY_MAX`]; whatever was stopped goes on when this
//! is dropped, by the journal when this process is killed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use wallfinder_sys::clock::monotonic_ns;
use wallfinder_sys::process::short_turns;

use crate::child::Shim;
use crate::error::{NoPrivilege, StageError};
use crate::group::{self, Control, Group};
use crate::thief::Dice;
use crate::undo::{Change, Journal, Process, Undo};

/// The largest share of time that it takes.
pub const DUTY_MAX: f64 = 0.2;
/// The shortest and the longest pause.
const PAUSE_NS: std::ops::Range<f64> = 1e6..3e6;
/// How long the sham and the idle wait from one look to the next.
const SHAM_EVERY: Duration = Duration::from_millis(10);
/// How long its processes go on between two pauses, at the least.
const REST_NS_MIN: f64 = 2e6;
/// And at the most, so that new orders are seen.
const REST_NS_MAX: f64 = 5e8;
/// What it is behind its share at the most.
const BEHIND_NS_MAX: f64 = 1e7;

/// Pauses of some processes. Dropping it lets them go on for good.
#[derive(Debug)]
pub struct Pauses {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    how: &'static str,
    shim: Shim,
    /// After the thread: what it stopped goes on by then.
    stopped: Option<Change>,
}

#[derive(Debug)]
struct Shared {
    /// The bits of the share of time to take.
    duty: AtomicU64,
    paused_ns: AtomicU64,
    ends: AtomicBool,
    target: Target,
    failed: Mutex<Option<StageError>>,
}

#[derive(Debug)]
enum Target {
    Group(Group),
    Signals(Mutex<Vec<Process>>),
}

impl Pauses {
    /// Gets ready to pause processes and their descendants, at no dose: by a freezer where
    /// one can be had, else by signals. The rhythm follows from the seed.
    pub fn of(pids: &[u32], side: &str, seed: u64, shim: &Shim) -> Result<Pauses, NoPrivilege> {
        let missing = |why: String| NoPrivilege {
            what: format!("pauses of the {side}"),
            why,
        };
        let frozen = match Pauses::by_freezer(pids, side, seed, shim) {
            Ok(pauses) => return Ok(pauses),
            Err(why) => why,
        };
        Pauses::by_signals(pids, seed, shim).map_err(|why| missing(format!("{frozen}; {why}")))
    }

    /// The same for processes that are started later, of whom [`Pauses::follow`] tells.
    pub fn for_later(side: &str, seed: u64, shim: &Shim) -> Result<Pauses, NoPrivilege> {
        let target = match Group::for_children(side, Control::Freezer, shim) {
            Ok(group) => Target::Group(group),
            Err(_) => Target::Signals(Mutex::default()),
        };
        Pauses::start(target, None, seed, shim).map_err(|error| NoPrivilege {
            what: format!("pauses of the {side}"),
            why: error.to_string(),
        })
    }

    /// By a freezer group around them.
    pub fn by_freezer(
        pids: &[u32],
        side: &str,
        seed: u64,
        shim: &Shim,
    ) -> Result<Pauses, StageError> {
        not_us(pids)?;
        let group = Group::around(pids, side, Control::Freezer, shim)?;
        Pauses::start(Target::Group(group), None, seed, shim)
    }

    /// By SIGSTOP and SIGCONT, for processes of the same user.
    pub fn by_signals(pids: &[u32], seed: u64, shim: &Shim) -> Result<Pauses, StageError> {
        let (processes, change) = to_be_stopped(pids, shim)?;
        Pauses::start(
            Target::Signals(Mutex::new(processes)),
            Some(change),
            seed,
            shim,
        )
    }

    /// From now on pauses these processes and their descendants. Those before are let go on.
    pub fn follow(&mut self, pids: &[u32]) -> Result<(), StageError> {
        not_us(pids)?;
        match &self.shared.target {
            Target::Group(group) => group.include(pids),
            Target::Signals(processes) => {
                let (new, change) = to_be_stopped(pids, &self.shim)?;
                self.shared.let_go_on();
                *processes.lock().unwrap_or_else(PoisonError::into_inner) = new;
                drop(self.stopped.replace(change));
                Ok(())
            }
        }
    }

    fn start(
        target: Target,
        stopped: Option<Change>,
        seed: u64,
        shim: &Shim,
    ) -> Result<Pauses, StageError> {
        let how = match &target {
            Target::Group(_) => "a freezer group",
            Target::Signals(_) => "SIGSTOP and SIGCONT",
        };
        let shared = Arc::new(Shared {
            duty: AtomicU64::new(0),
            paused_ns: AtomicU64::new(0),
            ends: AtomicBool::new(false),
            target,
            failed: Mutex::new(None),
        });
        let run = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("pauses".into());
        let thread = thread.spawn(move || run.pause_until_ended(seed));
        Ok(Pauses {
            shared,
            thread: Some(thread.map_err(|e| StageError::failed("start a thread", e))?),
            how,
            shim: shim.clone(),
            stopped,
        })
    }

    /// `a freezer group`, or `SIGSTOP and SIGCONT`.
    pub fn how(&self) -> &'static str {
        self.how
    }

    /// From now on takes this share of the time, up to [`DUTY_MAX`]; 0 is the sham.
    pub fn set_duty(&mut self, duty: f64) -> Result<(), StageError> {
        assert!((0.0..=DUTY_MAX).contains(&duty), "a duty: {duty}");
        self.shared.duty.store(duty.to_bits(), Ordering::Relaxed);
        let mut failed = self
            .shared
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        failed.take().map_or(Ok(()), Err)
    }

    /// For how long its processes have been stopped so far.
    pub fn paused_ns(&self) -> u64 {
        self.shared.paused_ns.load(Ordering::Relaxed)
    }
}

impl Drop for Pauses {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn pause_until_ended(&self, seed: u64) {
        short_turns();
        let mut dice = Dice(seed | 1);
        // Of the duty in force: since when, and for how long it paused.
        let (mut of, mut since_ns, mut paused_ns) = (0.0, 0, 0.0);
        while !self.ends.load(Ordering::Relaxed) {
            let duty = f64::from_bits(self.duty.load(Ordering::Relaxed));
            if duty <= 0.0 {
                of = duty;
                std::thread::sleep(SHAM_EVERY);
                continue;
            }
            if duty != of {
                (of, since_ns, paused_ns) = (duty, monotonic_ns(), 0.0);
            }
            let pause_ns = PAUSE_NS.start + (PAUSE_NS.end - PAUSE_NS.start) * dice.share();
            paused_ns += self.pause(Duration::from_nanos(pause_ns as u64)) as f64;
            // They go on until what was taken, by late wake-ups too, is the share asked for.
            // What was missed while this machine stood still is forgiven.
            let elapsed_ns = (monotonic_ns() - since_ns) as f64;
            paused_ns = paused_ns.max(duty * elapsed_ns - BEHIND_NS_MAX);
            let rest_ns = (paused_ns / duty - elapsed_ns).clamp(REST_NS_MIN, REST_NS_MAX);
            std::thread::sleep(Duration::from_nanos(rest_ns as u64));
        }
        self.let_go_on();
    }

    /// One pause; how long it was.
    fn pause(&self, length: Duration) -> u64 {
        let stopped = self.stop();
        let from_ns = monotonic_ns();
        std::thread::sleep(length);
        let paused_ns = monotonic_ns() - from_ns;
        self.let_go_on();
        if let Err(error) = stopped {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(error);
            return paused_ns.max(1);
        }
        self.paused_ns.fetch_add(paused_ns, Ordering::Relaxed);
        paused_ns.max(1)
    }

    fn stop(&self) -> Result<(), StageError> {
        match &self.target {
            Target::Group(group) => group.freeze(),
            Target::Signals(processes) => {
                let processes = processes.lock().unwrap_or_else(PoisonError::into_inner);
                let stopped = processes.iter().filter(|p| send(**p, Signal::STOP)).count();
                if stopped == 0 {
                    return Err(StageError::failed("pause the processes", "none is left"));
                }
                Ok(())
            }
        }
    }

    fn let_go_on(&self) {
        match &self.target {
            Target::Group(group) => drop(group.thaw()),
            Target::Signals(processes) => {
                let processes = processes.lock().unwrap_or_else(PoisonError::into_inner);
                for process in &*processes {
                    send(*process, Signal::CONT);
                }
            }
        }
    }
}

/// Processes and their descendants, where they may be stopped, and the journal's word that
/// they are to go on whatever happens to this process.
fn to_be_stopped(pids: &[u32], shim: &Shim) -> Result<(Vec<Process>, Change), StageError> {
    not_us(pids)?;
    let pids = group::family(pids).into_iter();
    let processes: Vec<Process> = pids.filter_map(Process::of).collect();
    let what = "stopping the processes";
    if processes.is_empty() {
        return Err(StageError::refused(what, "there are none"));
    }
    if let Some(other) = processes.iter().find(|process| !may_signal(**process)) {
        let why = format!("process {} belongs to another user", other.pid);
        return Err(StageError::no_privilege(what, why));
    }
    let undo = Undo::Continue {
        processes: processes.clone(),
    };
    let (change, ()) = Journal::open(shim)?.change(undo, |_| Ok(()))?;
    Ok((processes, change))
}

/// A process that stopped itself could not let itself go on.
fn not_us(pids: &[u32]) -> Result<(), StageError> {
    if pids.contains(&std::process::id()) {
        let why = "this process is among them, which does the pausing";
        return Err(StageError::refused("pausing the processes", why));
    }
    Ok(())
}

fn send(process: Process, signal: Signal) -> bool {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    // Its number may be another's by now.
    pid.is_some_and(|pid| process.is_alive() && kill_process(pid, signal).is_ok())
}

fn may_signal(process: Process) -> bool {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    let asked = pid.map(rustix::process::test_kill_process);
    geteuid().is_root() || asked.is_some_and(|asked| asked.is_ok())
}
