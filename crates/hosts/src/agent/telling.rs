//! How often a host tells of its part of a load. A controller hears of a thousand hosts: ten intervals a second of each, with
//! their latencies, would keep a processor busy with nothing but taking them apart.
//!
//! Invariants: counts and latencies are told once, whatever is told together; nothing that follows an interval is told
//! before it; no interval holds both warm-up and window.

use std::time::Duration;

use wallfinder_engine::StepSpec;
use wallfinder_engine::histogram::Latencies;
use wallfinder_model::drive::{Progress, Share};
use wallfinder_model::record::{Histogram, Interval};

use crate::intervals::{EDGE_NS, add, tell_anew};

/// All hosts together tell of so many intervals a second, until each tells of one.
const INTERVALS_PER_S: u32 = 100;
const EVERY_MAX: Duration = Duration::from_secs(1);

/// How long the intervals are that one of so many hosts tells of; shorter than those of its engine: each is told.
pub fn told_every(share: Share) -> Duration {
    (Duration::from_secs(1) * share.of / INTERVALS_PER_S).min(EVERY_MAX)
}

/// What a host has still to tell.
pub(super) struct Telling {
    every_ns: u64,
    warmup_ns: u64,
    kept: Option<(Interval, Option<Latencies>)>,
}

impl Telling {
    pub(super) fn of(spec: &StepSpec) -> Telling {
        Telling {
            every_ns: told_every(spec.share).as_nanos() as u64,
            warmup_ns: spec.load.warmup.0,
            kept: None,
        }
    }

    /// What is to be told now that this came, in order: none, one or two.
    pub(super) fn pass(&mut self, progress: Progress) -> [Option<Progress>; 2] {
        let Progress::Interval { interval, latency } = progress else {
            return [self.rest(), Some(progress)];
        };
        let is_warm = |of: &Interval| of.at_ns > self.warmup_ns + EDGE_NS;
        let is_apart = self
            .kept
            .as_ref()
            .is_some_and(|(kept, _)| is_warm(kept) != is_warm(&interval));
        let before = if is_apart { self.rest() } else { None };
        match &mut self.kept {
            None if interval.span_ns >= self.every_ns => {
                return [before, Some(Progress::Interval { interval, latency })];
            }
            None => self.kept = Some((interval, latency.as_deref().and_then(read))),
            Some((sum, latencies)) => {
                add(sum, &interval);
                if let Some(latency) = latency {
                    let latencies = latencies.get_or_insert_with(Latencies::new);
                    // It is this host's own engine's.
                    let _ = latencies.add_record(&latency);
                }
            }
        }
        let is_long = self
            .kept
            .as_ref()
            .is_some_and(|(sum, _)| sum.span_ns >= self.every_ns);
        [before, if is_long { self.rest() } else { None }]
    }

    /// What is left, when the load has ended.
    pub(super) fn rest(&mut self) -> Option<Progress> {
        let (mut interval, latencies) = self.kept.take()?;
        if let Some(latencies) = &latencies {
            tell_anew(&mut interval, latencies);
        }
        let latency = latencies
            .and_then(|latencies| latencies.to_record())
            .map(Box::new);
        Some(Progress::Interval { interval, latency })
    }
}

fn read(latency: &Histogram) -> Option<Latencies> {
    let mut latencies = Latencies::new();
    latencies.add_record(latency)?;
    Some(latencies)
}

#[cfg(test)]
mod tests {
    use wallfinder_model::drive::Edge;

    use super::*;

    const TICK_NS: u64 = 100_000_000;

    fn telling(hosts: u32) -> Telling {
        Telling {
            every_ns: told_every(Share { nth: 0, of: hosts }).as_nanos() as u64,
            warmup_ns: 3 * TICK_NS,
            kept: None,
        }
    }

    fn interval(nth: u64) -> Progress {
        let mut latencies = Latencies::new();
        (0..nth).for_each(|n| latencies.record(1_000 * (n + 1)));
        Progress::Interval {
            interval: Interval {
                at_ns: nth * TICK_NS,
                span_ns: TICK_NS,
                answered: nth,
                scheduled: nth + 1,
                in_flight: nth,
                ..Interval::default()
            },
            latency: latencies.to_record().map(Box::new),
        }
    }

    fn told(telling: &mut Telling, ticks: u64) -> Vec<Progress> {
        let each = (1..=ticks).flat_map(|nth| telling.pass(interval(nth)));
        each.flatten().collect()
    }

    #[test]
    fn few_hosts_tell_each_interval_as_it_is() {
        for hosts in [1, 2, 10] {
            let expected: Vec<Progress> = (1..=5).map(interval).collect();
            assert_eq!(told(&mut telling(hosts), 5), expected, "{hosts}");
        }
    }

    #[test]
    fn many_tell_longer_ones_with_the_same_counts_and_no_warm_up_in_the_window() {
        for (hosts, ends) in [
            (30, [3, 6, 9, 12].as_slice()),
            (100, &[3, 13]),
            (5_000, &[3, 13]),
        ] {
            let mut telling = telling(hosts);
            let mut all = told(&mut telling, 14);
            all.extend(
                telling
                    .pass(Progress::Edge(Edge::Close))
                    .into_iter()
                    .flatten(),
            );
            assert_eq!(all.pop(), Some(Progress::Edge(Edge::Close)));
            let each = all.iter().map(|progress| match progress {
                Progress::Interval { interval, latency } => (interval, latency),
                other => panic!("{other:?}"),
            });
            let (mut answered, mut latencies, mut at_ns) = (0, 0, Vec::new());
            for (interval, latency) in each {
                answered += interval.answered;
                latencies += latency.as_ref().map_or(0, |latency| latency.count);
                at_ns.push(interval.at_ns / TICK_NS);
            }
            assert_eq!(at_ns, [ends, &[14]].concat(), "{hosts}");
            assert_eq!((answered, latencies), (105, 105), "{hosts}");
            assert_eq!(telling.rest(), None);
        }
    }
}
