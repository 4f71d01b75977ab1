//! Sampled stacks of processes, by the kernel's clock: a thread that drains the rings while a
//! load runs, and names for the addresses when it has ended.
//!
//! User stacks are followed by frame pointers: Go has them, Rust and C where they are compiled
//! with them.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::time::Duration;

use thiserror::Error;
use wallfinder_model::profile::Profile;
use wallfinder_sys::perf::EventRing;

use crate::parse::perf::{Record, records};
use crate::rings::{Habits, Rings, of_each};
use crate::symbols::{Maps, RawStack};

/// Samples of a processor in a second: no divisor of what servers do at round intervals.
pub const PER_SECOND: u32 = 499;

/// How often rings are drained.
const DRAIN_EVERY: Duration = Duration::from_millis(50);

/// Why stacks cannot be sampled.
#[derive(Debug, Error)]
#[error(
    "stacks of other processes cannot be sampled: {0}; it takes root, or \
     kernel.perf_event_paranoid at 0 (sysctl)"
)]
pub struct NoStacks(#[from] io::Error);

/// What is to be sampled.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Processors that it may run on.
    pub cpus: Vec<u32>,
    /// Processes; others on these processors are dropped.
    pub pids: Vec<u32>,
}

#[derive(Debug, Default)]
struct Counted {
    stacks: HashMap<RawStack, i64>,
    lost: u64,
}

/// Stacks that are being sampled.
#[derive(Debug)]
pub struct Stacks {
    rings: Rings<Counted>,
    maps: Maps,
}

/// What was sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampled {
    /// The stacks, with names.
    pub profile: Profile,
    /// Samples that were lost, for rings were full.
    pub lost: u64,
}

/// Whether stacks of other processes may be sampled here at all.
pub fn allowed() -> Result<(), NoStacks> {
    let cpu = wallfinder_sys::process::allowed_cpus()[0];
    EventRing::open_stacks(cpu, PER_SECOND)?;
    Ok(())
}

impl Stacks {
    /// Begins to sample.
    pub fn start(setup: Setup) -> Result<Stacks, NoStacks> {
        let open = |cpu| EventRing::open_stacks(cpu, PER_SECOND);
        let rings = of_each(&setup.cpus, open)?;
        let maps = Maps::of(&setup.pids);
        let pids: BTreeSet<u32> = setup.pids.into_iter().collect();
        let take = move |counted: &mut Counted, bytes: &[u8]| {
            records(bytes).for_each(|record| counted.take(record, &pids));
            true
        };
        let habits = Habits {
            name: "stacks",
            every: DRAIN_EVERY,
            most: Duration::MAX,
        };
        let rings = Rings::start(rings, habits, Counted::default(), take)?;
        Ok(Stacks { rings, maps })
    }

    /// Samples no more.
    pub fn end(&self) {
        self.rings.end();
    }

    /// Ends it, and finds the names.
    pub fn stop(self) -> Result<Sampled, NoStacks> {
        let (counted, duration) = self.rings.join()?;
        let each_ns = 1_000_000_000 / i64::from(PER_SECOND);
        let stacks = counted.stacks.into_iter();
        let stacks: Vec<(RawStack, Vec<i64>)> = stacks
            .map(|(stack, count)| (stack, vec![count, count * each_ns]))
            .collect();
        let measures = [("samples", "count"), ("cpu", "nanoseconds")];
        Ok(Sampled {
            profile: self.maps.profile(&stacks, measures, duration),
            lost: counted.lost,
        })
    }
}

impl Counted {
    fn take(&mut self, record: Record, pids: &BTreeSet<u32>) {
        match record {
            Record::Lost(lost) => self.lost += lost,
            Record::Sample(sample) if pids.contains(&sample.pid) => {
                *self.stacks.entry(RawStack::of(sample)).or_default() += 1;
            }
            Record::Sample(_) | Record::In { .. } | Record::Preempted { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_model::profile::StackSample;
    use wallfinder_sys::clock;

    use super::*;

    #[inline(never)]
    fn spin_in_a_function_of_its_own(cpu: Duration) -> u64 {
        let mut sum = 0_u64;
        let until_ns = clock::thread_cpu_ns() + cpu.as_nanos() as u64;
        while clock::thread_cpu_ns() < until_ns {
            for i in 0..10_000_u64 {
                sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
            }
        }
        sum
    }

    #[test]
    fn the_function_that_spins_is_named() {
        let setup = Setup {
            cpus: wallfinder_sys::process::allowed_cpus(),
            pids: vec![std::process::id()],
        };
        let stacks = match Stacks::start(setup) {
            Ok(stacks) => stacks,
            Err(why) => return wallfinder_skip::skip(why),
        };
        // Of a processor's time, however many other tests want it too.
        std::hint::black_box(spin_in_a_function_of_its_own(Duration::from_millis(600)));
        let sampled = stacks.stop().unwrap();
        let profile = &sampled.profile;
        let spins = |sample: &&StackSample| {
            let mut frames = sample.stack.iter();
            frames.any(|frame| {
                let name = &profile.function(*frame).name;
                name.contains("spin_in_a_function_of_its_own")
            })
        };
        let all: i64 = profile.samples.iter().map(|sample| sample.values[0]).sum();
        let spinning = profile.samples.iter().filter(spins);
        let spinning: i64 = spinning.map(|sample| sample.values[0]).sum();
        // Without frame pointers only leaves are seen, and some. Other tests of this process run beside it.
        assert!(spinning > 20, "{spinning} of {all} samples");
        let named = profile
            .functions
            .iter()
            .filter(|function| !function.name.is_empty());
        assert!(named.count() > 0);
    }
}
