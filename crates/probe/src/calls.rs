//! System calls of processes by name: how often, how long from the call to its return, and how
//! often they failed.
//!
//! Every call of the processors is two records, which doubles what a call costs, so a server is
//! watched for a moment only. The time of a call has the waiting in it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::time::{Duration, Instant};

use syscalls::Sysno;
use wallfinder_model::counters::SystemCall;
use wallfinder_sys::clock;
use wallfinder_sys::perf::EventRing;

use crate::parse::perf::{Point, Pointed, points};
use crate::rings::{Habits, Rings, of_each, tracepoint};
use crate::stacks::{NoStacks, Setup};

/// How often rings are drained.
const DRAIN_EVERY: Duration = Duration::from_millis(10);

/// As many records as say how often each call is made: some thousands of requests' worth.
const RECORDS_ENOUGH: usize = 80_000;
/// And no shorter than this, for requests are counted in slices of a load and there must be some.
const LEAST: Duration = Duration::from_millis(400);
/// Records that are kept: beyond that they count as lost.
const RECORDS_MAX: usize = 4_000_000;

/// A call gives back the negative of an error's number, down to this.
const ERRORS: Range<i64> = -4095..0;

/// Calls that do not come back.
const NEVER_RETURN: [Sysno; 2] = [Sysno::exit, Sysno::exit_group];

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// It came back, with an error or without.
    Exit { failed: bool },
    /// It makes the call of this number.
    Enter(u32),
}

/// When, who, what.
type Seen = (u64, u32, What);

/// What was seen of calls.
#[derive(Debug, Default)]
pub struct Watched {
    /// In order of time.
    seen: Vec<Seen>,
    /// When it was watched, by the monotonic clock.
    pub span_ns: Range<u64>,
    /// Records that were lost, for there was no room.
    pub lost: u64,
}

/// System calls that are being watched.
#[derive(Debug)]
pub struct Calls {
    rings: Rings<Watched>,
    from_ns: u64,
}

impl Calls {
    /// Begins to watch, for so long at the most, and hardly longer than it takes to know.
    pub fn start(setup: Setup, most: Duration) -> Result<Calls, NoStacks> {
        let enter = tracepoint("raw_syscalls/sys_enter")?;
        let exit = tracepoint("raw_syscalls/sys_exit")?;
        let mut rings = of_each(&setup.cpus, |cpu| EventRing::open_points(cpu, enter))?;
        rings.extend(of_each(&setup.cpus, |cpu| {
            EventRing::open_points(cpu, exit)
        })?);
        let pids: BTreeSet<u32> = setup.pids.into_iter().collect();
        let begun = Instant::now();
        let take = move |watched: &mut Watched, bytes: &[u8]| {
            for pointed in points(bytes) {
                match pointed {
                    Pointed::Point(point) if pids.contains(&point.pid) => {
                        watched.take(point, u64::from(point.tracepoint) == enter);
                    }
                    Pointed::Point(_) => {}
                    Pointed::Lost(lost) => watched.lost += lost,
                }
            }
            watched.seen.len() < RECORDS_ENOUGH || begun.elapsed() < LEAST
        };
        let habits = Habits {
            name: "calls",
            every: DRAIN_EVERY,
            most,
        };
        Ok(Calls {
            from_ns: clock::monotonic_ns(),
            rings: Rings::start(rings, habits, Watched::default(), take)?,
        })
    }

    /// Watches no more.
    pub fn end(&self) {
        self.rings.end();
    }

    /// Ends it.
    pub fn stop(self) -> Result<Watched, NoStacks> {
        let (mut watched, _) = self.rings.join()?;
        watched.seen.sort_unstable();
        let last_ns = watched.seen.last().map_or(self.from_ns, |seen| seen.0);
        watched.span_ns = self.from_ns..last_ns;
        Ok(watched)
    }
}

impl Watched {
    fn take(&mut self, point: Point, enters: bool) {
        if self.seen.len() >= RECORDS_MAX {
            self.lost += 1;
            return;
        }
        let what = match enters {
            true => What::Enter(point.number as u32),
            false => What::Exit {
                failed: ERRORS.contains(&point.value),
            },
        };
        self.seen.push((point.time_ns, point.tid, what));
    }

    /// What was called within a part of it, by name, the most frequent first.
    pub fn within(&self, part_ns: &Range<u64>) -> Vec<SystemCall> {
        let until = |ns: u64| self.seen.partition_point(|seen| seen.0 < ns);
        let part = until(part_ns.start)..until(part_ns.end);
        called(self.seen.get(part).unwrap_or_default(), part_ns.end)
    }
}

/// By name, in order of time. A call that the end of the window cuts off lasts until then; of one
/// that began before it nothing counts.
fn called(seen: &[Seen], end_ns: u64) -> Vec<SystemCall> {
    let mut by_number: BTreeMap<u32, SystemCall> = BTreeMap::new();
    let mut within: HashMap<u32, (u64, u32)> = HashMap::new();
    let mut add = |number: u32, ns: u64, failed: bool| {
        let call = by_number.entry(number).or_insert_with(|| SystemCall {
            name: name(number),
            ..SystemCall::default()
        });
        call.count += 1;
        call.ns += ns;
        call.failed += u64::from(failed);
    };
    for (time_ns, tid, what) in seen.iter() {
        match what {
            What::Enter(number) => {
                // A record was lost, or the call never returned.
                if let Some((_, before)) = within.insert(*tid, (*time_ns, *number)) {
                    add(before, 0, false);
                }
            }
            What::Exit { failed } => {
                if let Some((since_ns, number)) = within.remove(tid) {
                    add(number, time_ns.saturating_sub(since_ns), *failed);
                }
            }
        }
    }
    for (since_ns, number) in within.into_values() {
        let returns = !NEVER_RETURN.iter().any(|call| call.id() as u32 == number);
        let ns = if returns {
            end_ns.saturating_sub(since_ns)
        } else {
            0
        };
        add(number, ns, false);
    }
    let mut calls: Vec<SystemCall> = by_number.into_values().collect();
    calls.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    calls
}

/// `futex`, as the kernel's tables name it.
fn name(number: u32) -> String {
    match Sysno::new(number as usize) {
        Some(call) => call.name().to_owned(),
        None => format!("system call {number}"),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::thread;

    use super::*;

    const READ: u32 = Sysno::read as u32;
    const FUTEX: u32 = Sysno::futex as u32;

    #[test]
    fn a_call_lasts_from_enter_to_exit_of_the_same_thread() {
        let ok = What::Exit { failed: false };
        let mut seen = vec![
            // One that began before, and another thread's between.
            (50, 1, ok),
            (100, 1, What::Enter(READ)),
            (110, 2, What::Enter(FUTEX)),
            (130, 1, What::Exit { failed: true }),
            (200, 1, What::Enter(READ)),
            (260, 1, ok),
            // Cut off by the end.
            (310, 1, What::Enter(READ)),
            (410, 3, ok),
        ];
        let call = |name: &str, count, ns, failed| SystemCall {
            name: name.to_owned(),
            count,
            ns,
            failed,
        };
        let expected = [call("read", 3, 30 + 60 + 100, 1), call("futex", 1, 300, 0)];
        seen.sort_unstable();
        assert_eq!(called(&seen, 410), expected);
        assert_eq!(called(&[], 410), []);
        let watched = Watched {
            seen,
            span_ns: 0..420,
            lost: 0,
        };
        // The second read alone; its return is at 260.
        assert_eq!(watched.within(&(200..300)), [call("read", 1, 60, 0)]);
        assert_eq!(watched.within(&(200..230)), [call("read", 1, 30, 0)]);
        assert_eq!(watched.within(&(500..600)), []);
    }

    #[test]
    fn a_call_whose_return_was_lost_counts_and_has_no_time() {
        let mut seen = vec![(100, 1, What::Enter(READ)), (900, 1, What::Enter(FUTEX))];
        seen.push((950, 1, What::Exit { failed: false }));
        let calls = called(&seen, 950);
        let of = |name: &str| calls.iter().find(|call| call.name == name).unwrap();
        assert_eq!((of("read").count, of("read").ns), (1, 0));
        assert_eq!((of("futex").count, of("futex").ns), (1, 50));
    }

    #[test]
    fn a_thread_of_ours_that_reads_is_counted_to_the_call() {
        let setup = Setup {
            cpus: wallfinder_sys::process::allowed_cpus(),
            pids: vec![std::process::id()],
        };
        let calls = match Calls::start(setup, Duration::from_secs(10)) {
            Ok(calls) => calls,
            Err(why) => return wallfinder_skip::skip(why),
        };
        const CALLS: u64 = 5_000;
        thread::spawn(|| {
            let (mut reader, mut writer) = std::io::pipe().unwrap();
            for _ in 0..CALLS {
                writer.write_all(b"x").unwrap();
                reader.read_exact(&mut [0]).unwrap();
            }
        })
        .join()
        .unwrap();
        let watched = calls.stop().unwrap();
        assert_eq!(watched.lost, 0);
        let called = watched.within(&(watched.span_ns.start..watched.span_ns.end + 1));
        for name in ["read", "write"] {
            let found = called.iter().find(|call| call.name == name);
            let count = found.unwrap().count;
            // Other tests of this process run beside it.
            assert!((CALLS..CALLS * 2).contains(&count), "{count} of {name}");
        }
    }
}
