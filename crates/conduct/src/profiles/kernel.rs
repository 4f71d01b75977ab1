//! What the kernel tells of a side's processes: sampled stacks, where threads wait, system calls by
//! name, and what is counted of them.

use std::ops::Range;
use std::time::Duration;

use wallfinder_hosts::{ServerHost, Taking, whose};
use wallfinder_judge::profile::{self, Rules};
use wallfinder_judge::steady;
use wallfinder_model::Step;
use wallfinder_model::counters::{EventCount, SystemCalls};
use wallfinder_model::profile::{ProfileKind, Profiles};
use wallfinder_model::record::Interval;
use wallfinder_probe::calls::{Calls, Watched};
use wallfinder_probe::counters::Counters;
use wallfinder_probe::stacks::{NoStacks, Sampled};
use wallfinder_probe::waits::Waited;
use wallfinder_sys::clock;

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
    /// System calls by name, from the window's begin until enough are known, a second at most.
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
    stacks: Option<Result<Box<dyn Taking<Sampled>>, String>>,
    waits: Option<Result<Box<dyn Taking<Waited>>, String>>,
    calls: Option<Result<Calls, String>>,
    counting: Option<Result<Counting, String>>,
}

impl Looking {
    /// Begins. `name` are the processes in words, for what cannot be had.
    pub(super) fn start(looks: Looks, of: &dyn ServerHost, name: &str) -> Looking {
        let setup = || whose(of.family(), name);
        Looking {
            stacks: looks.stacks.then(|| of.stacks()),
            waits: looks.waits.then(|| of.waits(WATCH_FOR)),
            calls: looks.calls.then(|| told(Calls::start(setup()?, WATCH_FOR))),
            counting: looks.counters.then(|| Ok(Counting::start(&setup()?.pids))),
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
        if let Some(Ok(counting)) = &mut self.counting {
            counting.end();
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
        let stacks = self.stacks;
        match stacks.map(|stacks| stacks.and_then(|stacks| stacks.stop())) {
            Some(Ok(sampled)) => {
                let kind = ProfileKind::Stacks;
                profiles.files.extend(keep.folded(kind, &sampled.profile)?);
                let reading = profile::read(kind, &sampled.profile, rules);
                profiles.readings.push(reading);
                let lost = lost(kind.label(), "samples", sampled.lost);
                profiles.missing.extend(lost);
            }
            Some(Err(why)) => profiles.missing.push(why),
            None => {}
        }
        let waits = self.waits;
        match waits.map(|waits| waits.and_then(|waits| waits.stop())) {
            Some(Ok(waited)) => {
                let file = keep.folded(ProfileKind::Waits, &waited.profile)?;
                profiles.files.extend(file);
                take_waits(waited, rules, profiles);
            }
            Some(Err(why)) => profiles.missing.push(why),
            None => {}
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
        match self.counting {
            Some(Ok(counting)) => {
                let (counts, counts_ns) = counting.stop();
                profiles.counts = counts;
                profiles.counts_ns = Some(counts_ns);
            }
            Some(Err(why)) => profiles.missing.push(why),
            None => {}
        }
        Ok(())
    }
}

/// Where threads waited, read: for sockets apart from all else, and without the time in which they
/// were ready, where that is known.
fn take_waits(waited: Waited, rules: &Rules, profiles: &mut Profiles) {
    let kind = ProfileKind::Waits;
    let (sockets, others) = rules.part_sockets(waited.profile);
    profiles.readings.push(profile::read(kind, &others, rules));
    if !sockets.samples.is_empty() {
        profiles.socket_waits = Some(profile::read(kind, &sockets, rules));
    }
    match waited.ready_ns {
        Ok(ready_ns) => profiles.ready_ns = Some(ready_ns),
        Err(why) => profiles.missing.push(format!(
            "waits: threads that were ready and had no processor count as waiting: {why}"
        )),
    }
    let lost = lost(kind.label(), "switches and wakings", waited.lost);
    profiles.missing.extend(lost);
}

/// Records of something that were lost, in words.
fn lost(what: &str, records: &str, lost: u64) -> Option<String> {
    (lost > 0).then(|| format!("{what}: {lost} {records} were lost"))
}

/// Counters, and from when to when they count. Profiles have whole seconds of a window, and these have
/// all of it.
#[derive(Debug)]
struct Counting {
    counters: Counters,
    from_ns: u64,
    to_ns: Option<u64>,
}

impl Counting {
    fn start(pids: &[u32]) -> Counting {
        let (counters, from_ns) = amid(|| Counters::start(pids));
        Counting {
            counters,
            from_ns,
            to_ns: None,
        }
    }

    /// The window has closed.
    fn end(&mut self) {
        if self.to_ns.is_none() {
            let ((), to_ns) = amid(|| self.counters.end());
            self.to_ns = Some(to_ns);
        }
    }

    /// What was counted, and within how long.
    fn stop(mut self) -> (Vec<EventCount>, u64) {
        self.end();
        let to_ns = self.to_ns.unwrap_or(self.from_ns);
        (self.counters.stop(), to_ns.saturating_sub(self.from_ns))
    }
}

/// What something gives, and the monotonic clock in the middle of it: counters of many threads begin
/// and end one after the other.
fn amid<T>(what: impl FnOnce() -> T) -> (T, u64) {
    let from_ns = clock::monotonic_ns();
    let given = what();
    (given, from_ns.midpoint(clock::monotonic_ns()))
}

/// What the kernel would not, in words.
fn told<T>(looked: Result<T, NoStacks>) -> Result<T, String> {
    looked.map_err(|why| why.to_string())
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
    use std::thread;
    use std::time::Instant;

    use wallfinder_model::profile::{Function, Measure, Profile, StackFrame, StackSample};

    use super::*;

    #[test]
    fn counts_cover_the_time_until_they_were_ended() {
        const PART: Duration = Duration::from_millis(30);
        let began = Instant::now();
        let mut counting = Counting::start(&[std::process::id()]);
        thread::sleep(PART);
        counting.end();
        let within = began.elapsed();
        // Names are looked up meanwhile.
        thread::sleep(PART);
        let (counts, counts_ns) = counting.stop();
        assert!(!counts.is_empty());
        let covered = Duration::from_nanos(counts_ns);
        assert!((PART..=within).contains(&covered), "{covered:?}");
    }

    /// Two waits of a second, one of them for a socket.
    fn waited(ready_ns: Result<u64, String>) -> Waited {
        let functions = ["futex_wait", "tcp_recvmsg", "serve"].map(|name| Function {
            name: name.to_owned(),
            file: match name {
                "serve" => "server".to_owned(),
                _ => "[kernel]".to_owned(),
            },
        });
        let wait_in = |function: u32| StackSample {
            stack: [function, 2]
                .map(|function| StackFrame { function, line: 0 })
                .to_vec(),
            values: vec![1_000_000_000],
        };
        let profile = Profile {
            measures: vec![Measure {
                name: "delay".to_owned(),
                unit: "nanoseconds".to_owned(),
            }],
            functions: functions.to_vec(),
            samples: vec![wait_in(0), wait_in(1)],
            duration_ns: 1_000_000_000,
        };
        Waited {
            profile,
            ready_ns,
            lost: 0,
        }
    }

    #[test]
    fn waits_for_sockets_and_ready_time_are_told_apart_from_waits() {
        let rules = Rules::default();
        let mut profiles = Profiles::default();
        take_waits(waited(Ok(7)), &rules, &mut profiles);
        assert_eq!(profiles.readings[0].total, 1_000_000_000);
        let sockets = profiles.socket_waits.as_ref().unwrap();
        assert_eq!((sockets.total, sockets.idle), (1_000_000_000, 0));
        assert_eq!(profiles.ready_ns, Some(7));
        assert!(profiles.missing.is_empty(), "{:?}", profiles.missing);
        // Where wakings are not seen, the record says so.
        let mut profiles = Profiles::default();
        let unseen = Err("there is no such tracepoint".to_owned());
        take_waits(waited(unseen), &rules, &mut profiles);
        assert_eq!(profiles.ready_ns, None);
        assert!(
            profiles.missing[0].ends_with("no such tracepoint"),
            "{:?}",
            profiles.missing
        );
    }

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
