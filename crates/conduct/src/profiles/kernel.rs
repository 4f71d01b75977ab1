//! What the kernel tells of a side's processes: sampled stacks, where threads wait, system calls by
//! name, and what is counted of them.

use std::ops::Range;
use std::time::Duration;

use wallfinder_judge::profile::{self, Rules};
use wallfinder_judge::steady;
use wallfinder_model::Step;
use wallfinder_model::counters::SystemCalls;
use wallfinder_model::profile::{ProfileKind, Profiles};
use wallfinder_model::record::Interval;
use wallfinder_probe::calls::{Calls, Watched};
use wallfinder_probe::counters::Counters;
use wallfinder_probe::discover::Family;
use wallfinder_probe::stacks::{NoStacks, Setup, Stacks};
use wallfinder_probe::waits::Waits;
use wallfinder_stage::squeeze;

use super::keep::Keep;
use crate::ConductError;

/// How long waits and calls are watched: every switch, and every call, is a record.
const WATCH_FOR: Duration = Duration::from_secs(1);

/// What the kernel is to tell of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Looks {
    /// Stacks that it samples.
    pub stacks: bool,
    /// Where threads wait, in the window's first second.
    pub waits: bool,
    /// System calls by name, in the window's first second.
    pub calls: bool,
    /// Events that processors count, and migrations.
    pub counters: bool,
}

impl Looks {
    /// Whether anything is asked that the kernel tells root alone.
    pub fn takes_root(self) -> bool {
        self.stacks || self.waits || self.calls
    }

    /// Whether anything is asked.
    pub fn any(self) -> bool {
        self != Looks::default()
    }
}

/// What is being looked at; or why not.
#[derive(Debug)]
pub(super) struct Looking {
    stacks: Option<Result<Stacks, String>>,
    waits: Option<Result<Waits, String>>,
    calls: Option<Result<Calls, String>>,
    counters: Option<Result<Counters, String>>,
}

impl Looking {
    /// Begins. `whose` are the processes in words, for what cannot be had.
    pub(super) fn start(looks: Looks, family: Option<&Family>, whose: &str) -> Looking {
        // Once: it reads where every process may run, while the load is on.
        let setup = match looks.any() {
            true => setup(family, whose),
            false => Err(String::new()),
        };
        let setup = || setup.clone();
        Looking {
            stacks: looks.stacks.then(|| told(Stacks::start(setup()?))),
            waits: looks.waits.then(|| told(Waits::start(setup()?, WATCH_FOR))),
            calls: looks.calls.then(|| told(Calls::start(setup()?, WATCH_FOR))),
            counters: looks.counters.then(|| Ok(Counters::start(&setup()?.pids))),
        }
    }

    /// The window has closed.
    pub(super) fn close(&mut self) {
        if let Some(Ok(stacks)) = &self.stacks {
            stacks.end();
        }
        if let Some(Ok(waits)) = &self.waits {
            waits.end();
        }
        if let Some(Ok(calls)) = &self.calls {
            calls.end();
        }
        if let Some(Ok(counters)) = &mut self.counters {
            counters.end();
        }
    }

    /// Finds names, adds up, and puts it where the other profiles are. `zero_ns` is the schedule's
    /// zero by the monotonic clock.
    pub(super) fn finish(
        self,
        keep: Keep<'_>,
        rules: &Rules,
        step: &Step,
        zero_ns: u64,
        profiles: &mut Profiles,
    ) -> Result<(), ConductError> {
        let stacks = self.stacks.map(|stacks| {
            let sampled = stacks.and_then(|stacks| told(stacks.stop()));
            sampled.map(|sampled| (sampled.profile, sampled.lost))
        });
        let waits = self.waits.map(|waits| {
            let waited = waits.and_then(|waits| told(waits.stop()));
            waited.map(|waited| (waited.profile, waited.lost))
        });
        let lost = |what: &str, records: &str, lost: u64| {
            (lost > 0).then(|| format!("{what}: {lost} {records} were lost"))
        };
        for (kind, records, taken) in [
            (ProfileKind::Stacks, "samples", stacks),
            (ProfileKind::Waits, "switches", waits),
        ] {
            match taken {
                Some(Ok((profile, missed))) => {
                    profiles.files.push(keep.folded(kind, &profile)?);
                    let reading = profile::read(kind, &profile, rules);
                    profiles.readings.push(reading);
                    profiles.missing.extend(lost(kind.label(), records, missed));
                }
                Some(Err(why)) => profiles.missing.push(why),
                None => {}
            }
        }
        let calls = self
            .calls
            .map(|calls| calls.and_then(|calls| told(calls.stop())));
        match calls {
            Some(Ok(watched)) => {
                profiles
                    .missing
                    .extend(lost("calls", "records", watched.lost));
                match of_requests(&watched, step, zero_ns) {
                    Some(calls) => profiles.calls = Some(calls),
                    None => profiles.missing.push(
                        "calls: the load's counts stood still while they were watched, so whose \
                         requests they were is not known; a longer run has another chance"
                            .to_owned(),
                    ),
                }
            }
            Some(Err(why)) => profiles.missing.push(why),
            None => {}
        }
        match self.counters {
            Some(Ok(counters)) => profiles.counts = counters.stop(),
            Some(Err(why)) => profiles.missing.push(why),
            None => {}
        }
        Ok(())
    }
}

/// What the kernel would not, in words.
fn told<T>(looked: Result<T, NoStacks>) -> Result<T, String> {
    looked.map_err(|why| why.to_string())
}

/// Whose stacks the kernel is to take.
fn setup(family: Option<&Family>, whose: &str) -> Result<Setup, String> {
    let pids = family.map_or(&[][..], |family| &family.pids);
    if pids.is_empty() {
        return Err(format!(
            "the {whose}'s processes are not seen, so their stacks are not"
        ));
    }
    Ok(Setup {
        cpus: squeeze::cpus_of(pids),
        pids: pids.to_vec(),
    })
}

/// Calls with the requests that were answered meanwhile: of the slices of the load that were watched
/// from end to end, for within a slice nobody knows when its requests were. `None` if there is no
/// such slice. A load without slices has its throughput.
fn of_requests(watched: &Watched, step: &Step, zero_ns: u64) -> Option<SystemCalls> {
    let from_zero = |at_ns: u64| at_ns.saturating_sub(zero_ns);
    let span_ns = from_zero(watched.span_ns.start)..from_zero(watched.span_ns.end);
    let (part_ns, answered) = match step.intervals.is_empty() {
        false => whole_slices(&step.intervals, &span_ns)
            .map(|(part_ns, answered)| (part_ns, answered as f64 * scale(step)))?,
        true => {
            let seconds = (span_ns.end - span_ns.start) as f64 / 1e9;
            (span_ns, step.throughput * seconds)
        }
    };
    Some(SystemCalls {
        watched_ns: part_ns.end - part_ns.start,
        answered,
        calls: watched.within(&(zero_ns + part_ns.start..zero_ns + part_ns.end)),
        lost: watched.lost,
    })
}

/// What slices count may be on another scale than throughput: they are of the wire where the
/// driver's report is what counts, and what an exchange weighs is then only nearly known.
fn scale(step: &Step) -> f64 {
    let rates = steady::rates(step);
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    match mean > 0.0 && step.throughput > 0.0 {
        true => step.throughput / mean,
        false => 1.0,
    }
}

/// From where to where slices follow each other within a span, and what was answered in them.
/// Watching slows a server, so its throughput elsewhere says nothing, and few slices are better.
/// `None` if there is none.
fn whole_slices(slices: &[Interval], span_ns: &Range<u64>) -> Option<(Range<u64>, u64)> {
    let begin = |slice: &Interval| slice.at_ns.saturating_sub(slice.span_ns);
    let is_whole = |slice: &&Interval| begin(slice) >= span_ns.start && slice.at_ns <= span_ns.end;
    let mut whole = slices.iter().filter(is_whole);
    let first = whole.next()?;
    let mut part_ns = begin(first)..first.at_ns;
    let mut answered = first.answered;
    for slice in whole {
        part_ns.end = slice.at_ns;
        answered += slice.answered;
    }
    Some((part_ns, answered))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_the_slices_that_were_watched() {
        let slice = |at_ns, answered| Interval {
            at_ns,
            span_ns: 100,
            answered,
            ..Interval::default()
        };
        let slices = [slice(100, 10), slice(200, 20), slice(300, 40)];
        let of = |span_ns| whole_slices(&slices, &span_ns);
        assert_eq!(of(0..300), Some((0..300, 70)));
        assert_eq!(of(50..310), Some((100..300, 60)));
        assert_eq!(of(100..250), Some((100..200, 20)));
        assert_eq!(
            of(90..290),
            Some((100..200, 20)),
            "few are better than none"
        );
        assert_eq!(of(210..290), None, "no slice is whole");
        assert_eq!(of(300..300), None);
    }
}
