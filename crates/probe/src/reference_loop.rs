//! How fast the processors are at this moment: a fixed piece of work, timed again and again.
//!
//! A guest's processor shares its core with strangers, who slow it by a quarter or a half for
//! seconds at a time; no clock, counter or steal time of the guest tells. What tells is how long
//! the same work takes. The work is system calls, for servers spend their time on them, and by trial
//! they answer to strangers as servers do, where sums in registers answer less. Its time is CPU time, so
//! that waiting for a turn is not in it.
//!
//! ```text
//!   processor 0: ─▌────▌────▌────▌──    every 5 ms: 50 calls, some 12 µs ─► (when, how long)
//!   processor 1: ──▌────▌────▌────▌─
//! ```
//!
//! It costs 0.3 % of each processor that it watches.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use wallfinder_sys::{clock, process};

/// What its threads are called.
pub(crate) const THREAD: &str = "wf-reference";
/// Time from one piece of work to the next.
const EVERY: Duration = Duration::from_millis(5);
/// System calls in a piece of work.
const CALLS: u32 = 50;
/// System calls before it: what ran here before has filled the caches, and that is no slowness.
const CALLS_BEFORE: u32 = 5;
/// Pieces that are kept: a minute of them.
const KEPT: usize = 12_000;
/// Pieces without which there is no mean.
const PIECES_MIN: usize = 10;
/// A piece that took no more than the median through this was misread. In a guest one of a million or so
/// reads as no time at all.
const MISREAD: u32 = 2;
/// Processors watched of one side, at the most; more are seldom slow at once.
const CPUS_MAX: usize = 8;

/// When a piece of work began, in monotonic time, and the CPU time that it took.
type Pieces = Arc<Mutex<VecDeque<(u64, u32)>>>;

fn locked(pieces: &Pieces) -> MutexGuard<'_, VecDeque<(u64, u32)>> {
    pieces.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread on each watched processor of a server and a client. Dropped, they end.
#[derive(Debug)]
pub struct ReferenceLoop {
    over: Arc<AtomicBool>,
    by_cpu: BTreeMap<u32, Pieces>,
    sides: [Vec<u32>; 2],
}

impl ReferenceLoop {
    /// Watches the processors of server and client; those of a side with very many are watched in part.
    /// One that this process may not run on is left out.
    pub fn start(sides: [Vec<u32>; 2]) -> ReferenceLoop {
        let over = Arc::new(AtomicBool::new(false));
        let mut by_cpu = BTreeMap::new();
        for cpu in sides.iter().flat_map(|cpus| spread(cpus)) {
            if by_cpu.contains_key(&cpu) {
                continue;
            }
            let pieces = Pieces::default();
            let (until, into) = (Arc::clone(&over), Arc::clone(&pieces));
            let watching = thread::Builder::new()
                .name(THREAD.to_owned())
                .spawn(move || watch(cpu, &until, &into));
            if watching.is_ok() {
                by_cpu.insert(cpu, pieces);
            }
        }
        ReferenceLoop {
            over,
            by_cpu,
            sides,
        }
    }

    /// Ends it. What it saw can still be read.
    pub fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// The CPU time of a piece of work on the processors of server and client at their mean speed between
    /// two instants of monotonic time, in nanoseconds.
    pub fn times_ns(&self, from_ns: u64, to_ns: u64) -> [Option<f64>; 2] {
        self.sides.each_ref().map(|cpus| {
            let speeds: Vec<f64> = cpus
                .iter()
                .filter_map(|cpu| speed(&locked(self.by_cpu.get(cpu)?), from_ns, to_ns))
                .collect();
            let sum: f64 = speeds.iter().sum();
            (!speeds.is_empty()).then(|| speeds.len() as f64 / sum)
        })
    }
}

impl Drop for ReferenceLoop {
    fn drop(&mut self) {
        self.stop();
    }
}

/// So many of them as are watched, from all over.
fn spread(cpus: &[u32]) -> Vec<u32> {
    let step = cpus.len().div_ceil(CPUS_MAX).max(1);
    cpus.iter().copied().step_by(step).collect()
}

/// Pieces of work in a nanosecond, in the mean. A piece that was interrupted was slow, and weighs
/// little; one that was misread would weigh more than all others, and is left out.
fn speed(pieces: &VecDeque<(u64, u32)>, from_ns: u64, to_ns: u64) -> Option<f64> {
    let mut took_ns: Vec<u32> = pieces
        .iter()
        .filter(|(at_ns, _)| (from_ns..to_ns).contains(at_ns))
        .map(|(_, took_ns)| *took_ns)
        .collect();
    if took_ns.len() < PIECES_MIN {
        return None;
    }
    let middle = took_ns.len() / 2;
    let (_, median, _) = took_ns.select_nth_unstable(middle);
    let least = *median / MISREAD;
    let speeds = took_ns
        .into_iter()
        .filter(|took| *took > least)
        .map(|took| 1.0 / f64::from(took));
    let speeds: Vec<f64> = speeds.collect();
    (!speeds.is_empty()).then(|| speeds.iter().sum::<f64>() / speeds.len() as f64)
}

fn watch(cpu: u32, over: &AtomicBool, into: &Pieces) {
    if process::pin_to(&[cpu]).is_err() {
        return;
    }
    while !over.load(Ordering::Relaxed) {
        work(CALLS_BEFORE);
        let at_ns = clock::monotonic_ns();
        let before = clock::thread_cpu_ns();
        work(CALLS);
        let took_ns = clock::thread_cpu_ns().saturating_sub(before);
        let mut pieces = locked(into);
        if pieces.len() == KEPT {
            pieces.pop_front();
        }
        pieces.push_back((at_ns, u32::try_from(took_ns).unwrap_or(u32::MAX)));
        drop(pieces);
        thread::sleep(EVERY);
    }
}

/// The CPU time of a piece of work on a processor at this moment, in nanoseconds; `None`: it may not be used. It takes a
/// millisecond.
pub fn pace_ns(cpu: Option<u32>) -> Option<f64> {
    const PIECES: usize = 60;
    let timed = thread::Builder::new()
        .name(THREAD.to_owned())
        .spawn(move || {
            if let Some(cpu) = cpu {
                process::pin_to(&[cpu]).ok()?;
            }
            let mut took_ns: Vec<u64> = (0..PIECES)
                .map(|_| {
                    let before = clock::thread_cpu_ns();
                    work(CALLS);
                    clock::thread_cpu_ns().saturating_sub(before)
                })
                .collect();
            let (_, median, _) = took_ns.select_nth_unstable(PIECES / 2);
            (*median > 0).then_some(*median as f64)
        });
    timed.ok()?.join().ok()?
}

fn work(calls: u32) {
    for _ in 0..calls {
        // The kernel is asked each time.
        process::parent();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_of_what_lies_between_and_interrupts_weigh_little() {
        let mut pieces: VecDeque<(u64, u32)> = (0..20).map(|at| (at, 100)).collect();
        let took_ns = 1.0 / speed(&pieces, 2, 12).unwrap();
        assert!((took_ns - 100.0).abs() < 1e-6, "{took_ns}");
        assert_eq!(speed(&pieces, 0, 9), None, "too few");
        pieces.push_back((20, 9_000_000));
        let one_off = 1.0 / speed(&pieces, 0, 21).unwrap();
        assert!((104.0..106.0).contains(&one_off), "{one_off}");
        pieces.push_back((21, 0));
        pieces.push_back((22, 40));
        assert_eq!(1.0 / speed(&pieces, 0, 23).unwrap(), one_off, "misread");
    }

    #[test]
    fn processors_are_watched_and_others_are_not() {
        let own = process::allowed_cpus();
        let from_ns = clock::monotonic_ns();
        let reference_loop = ReferenceLoop::start([own[..1].to_vec(), vec![60_000]]);
        thread::sleep(Duration::from_millis(400));
        let to_ns = clock::monotonic_ns();
        let [server, client] = reference_loop.times_ns(from_ns, to_ns);
        assert!(server.is_some_and(|took| took > 1_000.0), "{server:?}");
        assert_eq!(client, None);
    }

    #[test]
    fn many_processors_are_watched_in_part() {
        let all: Vec<u32> = (0..64).collect();
        assert_eq!(spread(&all), [0, 8, 16, 24, 32, 40, 48, 56]);
        assert_eq!(spread(&all[..3]), [0, 1, 2]);
    }
}
