//! Pauses: where no CPU stealer may run, all processes of a side are stopped for 1 to 3 ms at a
//! time, jittered, until a share of the elapsed time is gone.
//!
//! By a freezer group where one can be had, else by SIGSTOP and SIGCONT, which need no
//! privilege for processes of the same user, but show: a parent that waits for its children
//! hears of each stop, and calls such as `epoll_wait` return early (signal(7)).
//!
//! What it is not: as fine as a CPU stealer. It stops what sleeps as well, so it also delays what
//! needs no processor, and it aliases with collectors and quota periods: hence the jitter.
//!
//! Signals reach the processes that were there when the window began: those that are born in it
//! go on until the next. A group has them all.
//!
//! Invariants: it never takes more than [`DUTY_MAX`]; what counts as paused is for how long a
//! process stood, in the mean; whatever was stopped goes on when this is dropped, by the journal
//! when this process is killed, and by the keeper while this process is stopped itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::Signal;
use wallfinder_sys::clock::monotonic_ns;
use wallfinder_sys::process::set_short_slice;

use crate::child::Shim;
use crate::error::{NoPrivilege, TestbedError};
use crate::group::{self, Control, Group};
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
/// A pause that took so long: this process was stopped in it, and the keeper let them go on by then.
const STOPPED_NS: u64 = 200_000_000;
/// How often processes that are born while others are written down are looked for.
const LOOKS_MAX: usize = 8;

/// Pauses of some processes. Dropping it lets them go on for good.
#[derive(Debug)]
pub struct Pauses {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    how: &'static str,
    shim: Shim,
    /// Those that signals could not be meant for when the window began.
    missed: Vec<Process>,
    /// After the thread: what it stopped goes on by then. One more for each window that began
    /// with new processes.
    stopped: Vec<Change>,
}

/// Of a window: whom the pauses did not reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unreached {
    /// Processes that lived through it and were not stopped.
    pub missed: usize,
    /// Processes that were born in it and live at its end: they are stopped from the next on.
    pub born: usize,
}

impl std::fmt::Display for Unreached {
    /// Nothing, or what follows a share: `; 1 process that was there was not stopped`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.missed {
            0 => {}
            1 => write!(f, "; 1 process that was there was not stopped")?,
            missed => write!(f, "; {missed} processes that were there were not stopped")?,
        }
        match self.born {
            0 => Ok(()),
            born => write!(f, "; {born} born meanwhile"),
        }
    }
}

#[derive(Debug)]
struct Shared {
    /// The bits of the share of time to take.
    duty: AtomicU64,
    paused_ns: AtomicU64,
    ends: AtomicBool,
    target: Target,
    failed: Mutex<Option<TestbedError>>,
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
        Pauses::start(target, Vec::new(), seed, shim).map_err(|error| NoPrivilege {
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
    ) -> Result<Pauses, TestbedError> {
        not_us(pids)?;
        let group = Group::around(pids, side, Control::Freezer, shim)?;
        Pauses::start(Target::Group(group), Vec::new(), seed, shim)
    }

    /// By SIGSTOP and SIGCONT, for processes of the same user.
    pub fn by_signals(pids: &[u32], seed: u64, shim: &Shim) -> Result<Pauses, TestbedError> {
        let (processes, change) = to_be_stopped(pids, shim)?;
        Pauses::start(
            Target::Signals(Mutex::new(processes)),
            vec![change],
            seed,
            shim,
        )
    }

    /// From now on pauses these processes and their descendants. Those before are let go on.
    pub fn follow(&mut self, pids: &[u32]) -> Result<(), TestbedError> {
        not_us(pids)?;
        match &self.shared.target {
            Target::Group(group) => group.include(pids),
            Target::Signals(processes) => {
                let (new, change) = to_be_stopped(pids, &self.shim)?;
                self.shared.let_go_on();
                *processes.lock().unwrap_or_else(PoisonError::into_inner) = new;
                self.missed.clear();
                drop(std::mem::replace(&mut self.stopped, vec![change]));
                Ok(())
            }
        }
    }

    /// A window begins: descendants that were born since the last are paused from now on.
    pub fn begin_window(&mut self) {
        self.missed.clear();
        let shared = Arc::clone(&self.shared);
        let Target::Signals(processes) = &shared.target else {
            return;
        };
        processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|process| process.is_alive());
        for _ in 0..LOOKS_MAX {
            let born = self.born();
            if born.is_empty() {
                return;
            }
            let (new, foreign): (Vec<Process>, Vec<Process>) = born
                .into_iter()
                .partition(|process| process.may_signal().is_ok());
            self.missed.extend(foreign);
            if new.is_empty() {
                return;
            }
            match written_down(&new, &self.shim) {
                Ok(change) => {
                    self.stopped.push(change);
                    let mut processes = processes.lock().unwrap_or_else(PoisonError::into_inner);
                    processes.extend(new);
                }
                Err(_) => self.missed.extend(new),
            }
        }
    }

    /// It ends: whom the pauses did not reach in it.
    pub fn end_window(&self) -> Unreached {
        let Target::Signals(processes) = &self.shared.target else {
            return Unreached::default();
        };
        let known = processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        // One may have become another user's since.
        let out_of_hand = known.iter().filter(|process| process.may_signal().is_err());
        let not_stopped = self.missed.iter().chain(out_of_hand);
        Unreached {
            missed: not_stopped.filter(|process| process.is_alive()).count(),
            born: self.born().len(),
        }
    }

    /// Descendants of those that are stopped by signals which are neither among them nor known
    /// to be missed.
    fn born(&self) -> Vec<Process> {
        let Target::Signals(processes) = &self.shared.target else {
            return Vec::new();
        };
        let known = processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let alive = known.iter().filter(|process| process.is_alive());
        let pids: Vec<u32> = alive.map(|process| process.pid).collect();
        let family = group::family(&pids).into_iter();
        family
            .filter_map(Process::of)
            .filter(|process| !known.contains(process) && !self.missed.contains(process))
            .collect()
    }

    fn start(
        target: Target,
        stopped: Vec<Change>,
        seed: u64,
        shim: &Shim,
    ) -> Result<Pauses, TestbedError> {
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
            thread: Some(thread.map_err(|e| TestbedError::failed("start a thread", e))?),
            how,
            shim: shim.clone(),
            missed: Vec::new(),
            stopped,
        })
    }

    /// `a freezer group`, or `SIGSTOP and SIGCONT`.
    pub fn how(&self) -> &'static str {
        self.how
    }

    /// From now on takes this share of the time, up to [`DUTY_MAX`]; 0 is the sham.
    pub fn set_duty(&mut self, duty: f64) -> Result<(), TestbedError> {
        assert!((0.0..=DUTY_MAX).contains(&duty), "a duty: {duty}");
        self.shared.duty.store(duty.to_bits(), Ordering::Relaxed);
        let mut failed = self
            .shared
            .failed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        failed.take().map_or(Ok(()), Err)
    }

    /// For how long its processes have been stopped so far, in the mean.
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
        set_short_slice();
        let mut random = fastrand::Rng::with_seed(seed);
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
            let pause_ns = PAUSE_NS.start + (PAUSE_NS.end - PAUSE_NS.start) * random.f64();
            let stood_ns = self.pause(Duration::from_nanos(pause_ns as u64));
            if stood_ns >= STOPPED_NS {
                // Made up for, it would leave no dose for long.
                of = 0.0;
                continue;
            }
            paused_ns += stood_ns as f64;
            // They go on until what was taken, by late wake-ups too, is the share asked for.
            // What was missed while this machine stood still is forgiven.
            let elapsed_ns = (monotonic_ns() - since_ns) as f64;
            paused_ns = paused_ns.max(duty * elapsed_ns - BEHIND_NS_MAX);
            let rest_ns = (paused_ns / duty - elapsed_ns).clamp(REST_NS_MIN, REST_NS_MAX);
            std::thread::sleep(Duration::from_nanos(rest_ns as u64));
        }
        self.let_go_on();
    }

    /// One pause; for how long a process stood, in the mean.
    fn pause(&self, length: Duration) -> u64 {
        let stood = match &self.target {
            Target::Group(group) => pause_group(group, length),
            Target::Signals(processes) => pause_each(processes, length),
        };
        match stood {
            Ok(stood_ns) => {
                let stood_ns = stood_ns.min(STOPPED_NS);
                self.paused_ns.fetch_add(stood_ns, Ordering::Relaxed);
                stood_ns.max(1)
            }
            Err(error) => {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.get_or_insert(error);
                drop(failed);
                std::thread::sleep(length);
                (length.as_nanos() as u64).max(1)
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

/// Freezes a group for this long; for how long it stood. Its processes come to a stand one after
/// another between the asking and the last one's: half of that counts. Where one does not, nobody knows who stood
/// for how long: they go on, and it is no pause.
fn pause_group(group: &Group, length: Duration) -> Result<u64, TestbedError> {
    let asked_ns = monotonic_ns();
    let frozen = group.freeze();
    let from_ns = asked_ns.midpoint(monotonic_ns());
    if let Ok(false) = frozen {
        drop(group.thaw());
        return Ok(0);
    }
    sleep_until(from_ns, length);
    let to_ns = monotonic_ns();
    drop(group.thaw());
    frozen.map(|_| to_ns.saturating_sub(from_ns))
}

/// Stops processes one after another, and lets them go on in the same order, each after this
/// long; for how long they stood in the mean.
fn pause_each(processes: &Mutex<Vec<Process>>, length: Duration) -> Result<u64, TestbedError> {
    let from_ns = monotonic_ns();
    let stop = |process: &Process| {
        let is_stopped = send(*process, Signal::STOP);
        is_stopped.then(|| (*process, monotonic_ns()))
    };
    let stopped: Vec<(Process, u64)> = {
        let processes = processes.lock().unwrap_or_else(PoisonError::into_inner);
        processes.iter().filter_map(stop).collect()
    };
    if stopped.is_empty() {
        return Err(TestbedError::failed("pause the processes", "none is left"));
    }
    sleep_until(from_ns, length);
    let stood: Vec<(u64, u64)> = stopped
        .into_iter()
        .map(|(process, since_ns)| {
            // Before the signal: who goes on may take this very processor.
            let until_ns = monotonic_ns();
            send(process, Signal::CONT);
            (since_ns, until_ns)
        })
        .collect();
    Ok(mean_stand_ns(&stood))
}

/// For how long processes stood in the mean, each from one instant to another.
fn mean_stand_ns(stood: &[(u64, u64)]) -> u64 {
    let each = stood.iter().map(|(from, to)| to.saturating_sub(*from));
    each.sum::<u64>() / stood.len().max(1) as u64
}

/// Sleeps for what is left of a time that began at an instant.
fn sleep_until(from_ns: u64, length: Duration) {
    let gone = Duration::from_nanos(monotonic_ns().saturating_sub(from_ns));
    std::thread::sleep(length.saturating_sub(gone));
}

/// Processes and their descendants, where they may be stopped, and the journal's word that
/// they are to go on whatever happens to this process.
fn to_be_stopped(pids: &[u32], shim: &Shim) -> Result<(Vec<Process>, Change), TestbedError> {
    not_us(pids)?;
    let pids = group::family(pids).into_iter();
    let processes: Vec<Process> = pids.filter_map(Process::of).collect();
    let what = "stopping the processes";
    if processes.is_empty() {
        return Err(TestbedError::refused(what, "there are none"));
    }
    for process in &processes {
        match process.may_signal() {
            // It ended meanwhile.
            Ok(()) | Err(Errno::SRCH) => {}
            Err(Errno::PERM) => {
                let why = format!("process {} belongs to another user", process.pid);
                return Err(TestbedError::no_privilege(what, why));
            }
            Err(error) => {
                let why = format!("process {} cannot be held ({error})", process.pid);
                return Err(TestbedError::no_privilege(what, why));
            }
        }
    }
    let change = written_down(&processes, shim)?;
    Ok((processes, change))
}

/// The journal's word that processes are to go on.
fn written_down(processes: &[Process], shim: &Shim) -> Result<Change, TestbedError> {
    let undo = Undo::Continue {
        processes: processes.to_vec(),
    };
    let (change, ()) = Journal::open(shim)?.change(undo, |_| Ok(()))?;
    Ok(change)
}

/// A process that stopped itself could not let itself go on.
fn not_us(pids: &[u32]) -> Result<(), TestbedError> {
    if pids.contains(&std::process::id()) {
        let why = "this process is among them, which does the pausing";
        return Err(TestbedError::refused("pausing the processes", why));
    }
    Ok(())
}

fn send(process: Process, signal: Signal) -> bool {
    process.signal(signal).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

    #[test]
    fn what_counts_is_how_long_each_process_stood() {
        // Three that are stopped within 0.2 ms: from the last stop to the first resume it is 0.8.
        let stood = [(0, 1_000_000), (100_000, 1_100_000), (200_000, 1_200_000)];
        assert_eq!(mean_stand_ns(&stood), 1_000_000);
        assert_eq!(mean_stand_ns(&[(5, 7), (5, 11)]), 4);
        assert_eq!(mean_stand_ns(&[]), 0);
    }

    #[test]
    fn whom_the_pauses_did_not_reach_is_told() {
        let unreached = |missed, born| Unreached { missed, born }.to_string();
        assert_eq!(unreached(0, 0), "");
        assert_eq!(
            unreached(1, 2),
            "; 1 process that was there was not stopped; 2 born meanwhile"
        );
        assert_eq!(
            unreached(3, 0),
            "; 3 processes that were there were not stopped"
        );
    }

    /// A shell with a child that waits.
    struct Parent(Child);

    impl Drop for Parent {
        fn drop(&mut self) {
            // Its child reads from the same pipe, which is closed with this.
            drop(self.0.stdin.take());
            let _ = self.0.wait();
        }
    }

    #[test]
    fn who_is_not_stopped_is_seen_at_the_end_of_a_window() {
        let child = Command::new("sh")
            .args(["-c", "cat; exit"])
            .stdin(Stdio::piped())
            .spawn();
        let parent = Parent(child.expect("a shell"));
        let pid = parent.0.id();
        let until = Instant::now() + Duration::from_secs(10);
        while group::family(&[pid]).len() < 2 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let process = Process::of(pid).expect("it lives");
        let target = Target::Signals(Mutex::new(vec![process]));
        let shim = Shim::of_this_process();
        let pauses = Pauses::start(target, Vec::new(), 7, &shim);
        let mut pauses = pauses.expect("a thread");
        let born = pauses.born();
        assert_eq!(born.len(), 1, "its child");
        let unreached = |missed, born| Unreached { missed, born };
        assert_eq!(pauses.end_window(), unreached(0, 1));
        // One that the window began with.
        pauses.missed = born;
        assert_eq!(pauses.end_window(), unreached(1, 0));
        drop(parent);
        assert_eq!(pauses.end_window(), unreached(0, 0));
    }
}
