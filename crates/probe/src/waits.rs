//! Where threads of processes wait, and how long: the stack on which each gave its processor up,
//! until it got one back. Who was made to give it up waits for a processor and for nothing else,
//! and is left out.
//!
//! Every switch of the processors is a record, the stacks of the server's threads among them, so
//! this costs a server that switches often much more than sampling does.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use wallfinder_model::profile::Profile;
use wallfinder_sys::perf::EventRing;

use crate::parse::perf::{Record, records};
use crate::rings::{Habits, Rings, of_each, tracepoint};
use crate::stacks::{NoStacks, Setup};
use crate::symbols::{Maps, RawStack};

/// How often rings are drained.
const DRAIN_EVERY: Duration = Duration::from_millis(10);

/// Switches that are kept: beyond that they count as lost.
const SWITCHES_MAX: usize = 4_000_000;

/// What happened to a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// It waits, on this stack.
    Out(u32),
    /// It would rather have gone on.
    Preempted,
    In,
}

/// When, who, what.
type Switch = (u64, u32, What);

#[derive(Debug, Default)]
struct Seen {
    switches: Vec<Switch>,
    stacks: Vec<RawStack>,
    by_stack: HashMap<RawStack, u32>,
    lost: u64,
}

/// Threads that are being watched.
#[derive(Debug)]
pub struct Waits {
    rings: Rings<Seen>,
    maps: Maps,
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waited {
    /// Stacks with the time that was waited on them, and how often.
    pub profile: Profile,
    /// Records that were lost, for there was no room: what they began or ended is not counted.
    pub lost: u64,
}

impl Waits {
    /// Begins to watch, for so long at the most.
    pub fn start(setup: Setup, most: Duration) -> Result<Waits, NoStacks> {
        let tracepoint = tracepoint("sched/sched_switch")?;
        let open = |cpu| EventRing::open_switches(cpu, tracepoint);
        let rings = of_each(&setup.cpus, open)?;
        let maps = Maps::of(&setup.pids);
        let pids: BTreeSet<u32> = setup.pids.into_iter().collect();
        let take = move |seen: &mut Seen, bytes: &[u8]| {
            records(bytes).for_each(|record| seen.take(record, &pids));
            true
        };
        let habits = Habits {
            name: "waits",
            every: DRAIN_EVERY,
            most,
        };
        let rings = Rings::start(rings, habits, Seen::default(), take)?;
        Ok(Waits { rings, maps })
    }

    /// Watches no more.
    pub fn end(&self) {
        self.rings.end();
    }

    /// Ends it, and finds the names.
    pub fn stop(self) -> Result<Waited, NoStacks> {
        let (mut seen, duration) = self.rings.join()?;
        let waited = waited(&mut seen.switches, seen.stacks.len());
        let stacks: Vec<(RawStack, Vec<i64>)> = seen
            .stacks
            .into_iter()
            .zip(waited)
            .filter(|(_, (count, _))| *count > 0)
            .map(|(stack, (count, ns))| (stack, vec![count, ns]))
            .collect();
        let measures = [("contentions", "count"), ("delay", "nanoseconds")];
        Ok(Waited {
            profile: self.maps.profile(&stacks, measures, duration),
            lost: seen.lost,
        })
    }
}

impl Seen {
    fn take(&mut self, record: Record, pids: &BTreeSet<u32>) {
        let switch = match record {
            Record::Lost(lost) => {
                self.lost += lost;
                return;
            }
            Record::In { tid, time_ns } => (time_ns, tid, What::In),
            Record::Preempted { tid, time_ns } => (time_ns, tid, What::Preempted),
            Record::Sample(sample) if pids.contains(&sample.pid) => {
                let (time_ns, tid) = (sample.time_ns, sample.tid);
                (time_ns, tid, What::Out(self.stack(RawStack::of(sample))))
            }
            Record::Sample(_) => return,
        };
        match self.switches.len() < SWITCHES_MAX {
            true => self.switches.push(switch),
            false => self.lost += 1,
        }
    }

    fn stack(&mut self, stack: RawStack) -> u32 {
        let next = self.stacks.len() as u32;
        *self.by_stack.entry(stack).or_insert_with_key(|stack| {
            self.stacks.push(stack.clone());
            next
        })
    }
}

/// How often and how long was waited on each of so many stacks, in nanoseconds. A wait that the
/// end of the window cuts off counts until then; one that began before it does not count.
fn waited(switches: &mut [Switch], stacks: usize) -> Vec<(i64, i64)> {
    switches.sort_unstable();
    let last_ns = switches.last().map_or(0, |(time_ns, _, _)| *time_ns);
    let mut waited = vec![(0, 0); stacks];
    let mut out: HashMap<u32, (u64, u32)> = HashMap::new();
    let mut add = |stack: u32, ns: u64| {
        let (count, sum) = &mut waited[stack as usize];
        *count += 1;
        *sum += ns as i64;
    };
    for (time_ns, tid, what) in switches.iter() {
        match what {
            What::Out(stack) => {
                out.insert(*tid, (*time_ns, *stack));
            }
            What::Preempted => {
                out.remove(tid);
            }
            What::In => {
                if let Some((since_ns, stack)) = out.remove(tid) {
                    add(stack, time_ns.saturating_sub(since_ns));
                }
            }
        }
    }
    for (since_ns, stack) in out.into_values() {
        add(stack, last_ns.saturating_sub(since_ns));
    }
    waited
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn a_wait_lasts_from_out_to_in_and_preemption_is_none() {
        let mut switches = vec![
            (500, 1, What::In),
            (100, 1, What::Out(0)),
            (200, 2, What::Out(1)),
            (201, 2, What::Preempted),
            (300, 2, What::In),
            // It came in from a wait that nobody saw begin.
            (50, 3, What::In),
            (600, 1, What::Out(0)),
            (1000, 2, What::In),
        ];
        assert_eq!(waited(&mut switches, 2), [(2, 400 + 400), (0, 0)]);
        assert_eq!(waited(&mut [], 1), [(0, 0)]);
    }

    /// In a call of the standard library, which keeps frame pointers: what is generic or inlined may
    /// stand between, and hides its caller where it keeps none.
    #[inline(never)]
    fn waits_in_a_function_of_its_own(over: &AtomicBool) {
        while !over.load(Ordering::Acquire) {
            thread::park();
        }
    }

    #[test]
    fn the_function_that_waits_is_named() {
        let setup = Setup {
            cpus: wallfinder_sys::process::allowed_cpus(),
            pids: vec![std::process::id()],
        };
        let waits = match Waits::start(setup, Duration::from_secs(10)) {
            Ok(waits) => waits,
            Err(why) => return eprintln!("skipped: {why}"),
        };
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| waits_in_a_function_of_its_own(&over));
            thread::sleep(Duration::from_millis(300));
            over.store(true, Ordering::Release);
            waiting.thread().unpark();
        });
        let seen = waits.stop().unwrap();
        let profile = &seen.profile;
        let in_it = profile.samples.iter().filter(|sample| {
            let mut names = sample
                .stack
                .iter()
                .map(|frame| &profile.function(*frame).name);
            names.any(|name| name.contains("waits_in_a_function_of_its_own"))
        });
        let ns: i64 = in_it.map(|sample| sample.values[1]).sum();
        // 300 ms of waiting, if the thread was there soon.
        assert!((100_000_000..400_000_000).contains(&ns), "{ns} ns");
    }
}
