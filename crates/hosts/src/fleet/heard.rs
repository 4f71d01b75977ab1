//! What hosts tell of one load while they make it, as one: intervals, windows of an experiment, and what is known of a
//! host that is lost.
//!
//! Intervals of the hosts are about as long and begin together, so the first of each make the first of all. A host that
//! tells nothing for a while holds nobody up: the others' are told without it, and its own are added when they come. No
//! count is lost or told twice, whatever the order.

use std::collections::{BTreeMap, VecDeque};

use wallfinder_engine::ExperimentWindow;
use wallfinder_engine::histogram::Latencies;
use wallfinder_model::drive::Measured;
use wallfinder_model::record::{Counts, Histogram, Interval};

use crate::intervals::{EDGE_NS, add, tell_anew};

/// A host may be behind the others by so many intervals.
const BEHIND_MAX: usize = 5;

/// Failures of a host that was lost, of which only the number is known.
pub(super) const CLASS_OF_LOST: &str = "unknown";

type Told = (Interval, Option<Box<Histogram>>);

/// Intervals of all hosts on their way to one.
#[derive(Debug)]
pub(super) struct Intervals {
    waiting: Vec<VecDeque<Told>>,
    /// Hosts that will tell no more.
    ended: Vec<bool>,
    /// Requests in flight of each host, by what it told last.
    in_flight: Vec<u64>,
    sum: Interval,
    latency: Latencies,
    /// The end of the last that was told.
    told_ns: u64,
}

impl Intervals {
    pub(super) fn of(hosts: usize) -> Intervals {
        Intervals {
            waiting: vec![VecDeque::new(); hosts],
            ended: vec![false; hosts],
            in_flight: vec![0; hosts],
            sum: Interval::default(),
            latency: Latencies::new(),
            told_ns: 0,
        }
    }

    /// One more of a host.
    pub(super) fn add(&mut self, host: usize, interval: Interval, latency: Option<Box<Histogram>>) {
        self.waiting[host].push_back((interval, latency));
    }

    /// A host tells no more.
    pub(super) fn end(&mut self, host: usize) {
        self.ended[host] = true;
        self.in_flight[host] = 0;
    }

    /// The next of all hosts together, if there is one.
    pub(super) fn next(&mut self) -> Option<Interval> {
        loop {
            let longest = self.waiting.iter().map(VecDeque::len).max()?;
            let is_awaited = |host: usize| self.waiting[host].is_empty() && !self.ended[host];
            let is_complete = !(0..self.waiting.len()).any(is_awaited);
            if longest == 0 || (!is_complete && longest <= BEHIND_MAX) {
                return None;
            }
            let ended = (0..self.waiting.len()).map(|host| self.take(host)).max();
            let ended_ns = ended.flatten().unwrap_or(0);
            // Of a host that is far behind: it is part of the next.
            if ended_ns > self.told_ns {
                return Some(self.end_one(ended_ns));
            }
        }
    }

    /// Adds the next interval of a host, and what it is behind by; says when they ended.
    fn take(&mut self, host: usize) -> Option<u64> {
        let mut ended_ns = None;
        loop {
            let (interval, latency) = self.waiting[host].pop_front()?;
            // Of a host that has all of the load quantiles are the load's; else they are told anew below.
            add(&mut self.sum, &interval);
            self.in_flight[host] = interval.in_flight;
            if let Some(latency) = latency {
                // What is no histogram of ours costs quantiles, and no count.
                let _ = self.latency.add_record(&latency);
            }
            ended_ns = ended_ns.max(Some(interval.at_ns));
            if self.waiting[host].len() <= BEHIND_MAX {
                return ended_ns;
            }
        }
    }

    fn end_one(&mut self, ended_ns: u64) -> Interval {
        let mut interval = Interval {
            at_ns: ended_ns,
            span_ns: ended_ns - self.told_ns,
            in_flight: self.in_flight.iter().sum(),
            ..std::mem::take(&mut self.sum)
        };
        tell_anew(&mut interval, &self.latency);
        self.told_ns = ended_ns;
        self.latency.clear();
        interval
    }

    /// What is left when every host has ended is a part of the last that was told.
    pub(super) fn rest(&mut self, told: &mut [Interval]) {
        let rest = std::mem::take(&mut self.sum);
        if let Some(last) = told.last_mut() {
            last.answered += rest.answered;
            last.failed += rest.failed;
            last.scheduled += rest.scheduled;
            last.bytes_in += rest.bytes_in;
        }
    }
}

/// Windows of an experiment that some hosts have ended.
#[derive(Debug, Default)]
pub(super) struct Windows {
    open: BTreeMap<u32, (ExperimentWindow, Latencies, u64)>,
}

impl Windows {
    /// A host has ended one; it, of all hosts together, once the last of so many has.
    pub(super) fn add(
        &mut self,
        window: ExperimentWindow,
        hosts: usize,
    ) -> Option<ExperimentWindow> {
        let number = window.number;
        let latency = window.latency.clone();
        let entry = self.open.entry(number);
        let (_, latencies, ended) = match entry {
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert((window, Latencies::new(), 0))
            }
            std::collections::btree_map::Entry::Occupied(place) => {
                let known = place.into_mut();
                add_window(&mut known.0, &window);
                known
            }
        };
        latency.and_then(|latency| latencies.add_record(&latency));
        *ended += 1;
        if *ended < hosts as u64 {
            return None;
        }
        let (mut whole, latencies, hosts) = self.open.remove(&number)?;
        whole.from_ns /= hosts;
        whole.to_ns /= hosts;
        whole.latency = None;
        if latencies.count() > 0 {
            whole.latency_mean_ns = latencies.mean_ns();
            whole.quantiles_ns = latencies.quantiles_ns();
        }
        Some(whole)
    }
}

fn add_window(sum: &mut ExperimentWindow, of: &ExperimentWindow) {
    sum.from_ns += of.from_ns;
    sum.to_ns += of.to_ns;
    sum.answered += of.answered;
    sum.failed += of.failed;
    sum.scheduled += of.scheduled;
    sum.throughput += of.throughput;
    sum.in_flight_mean += of.in_flight_mean;
    sum.workers_cpu_ns += of.workers_cpu_ns;
    sum.workers_spun_ns += of.workers_spun_ns;
}

/// What a host has told so far, for when it is lost.
#[derive(Debug)]
pub(super) struct Heard {
    warmup_ns: u64,
    /// Up to the opening of the window.
    before: Interval,
    /// Since.
    within: Interval,
    latency: Latencies,
    /// Requests in flight, over time.
    in_flight_area: f64,
}

impl Heard {
    pub(super) fn of(warmup_ns: u64) -> Heard {
        Heard {
            warmup_ns,
            before: Interval::default(),
            within: Interval::default(),
            latency: Latencies::new(),
            in_flight_area: 0.0,
        }
    }

    pub(super) fn add(&mut self, interval: &Interval, latency: Option<&Histogram>) {
        let is_before = self.warmup_ns > 0 && interval.at_ns <= self.warmup_ns + EDGE_NS;
        let sum = match is_before {
            true => &mut self.before,
            false => &mut self.within,
        };
        sum.at_ns = interval.at_ns;
        sum.scheduled += interval.scheduled;
        sum.answered += interval.answered;
        sum.failed += interval.failed;
        sum.bytes_in += interval.bytes_in;
        if !is_before {
            latency.and_then(|latency| self.latency.add_record(latency));
            self.in_flight_area += interval.in_flight as f64 * interval.span_ns as f64;
        }
    }

    /// The end of what it told.
    pub(super) fn heard_ns(&self) -> u64 {
        self.before.at_ns.max(self.within.at_ns)
    }

    /// What is known of its part of a window of this length. What had begun and not ended, as far as it told, is
    /// unknown.
    pub(super) fn measured(&self, window_ns: u64) -> Measured {
        let (before, within) = (&self.before, &self.within);
        let waited = |of: &Interval| of.scheduled.saturating_sub(of.answered + of.failed);
        let mut failed = BTreeMap::new();
        if within.failed > 0 {
            failed.insert(CLASS_OF_LOST.to_owned(), within.failed);
        }
        let came = waited(before) + within.scheduled;
        let counts = Counts {
            scheduled: within.scheduled,
            answered: within.answered,
            failed,
            in_flight_start: waited(before),
            unknown: came.saturating_sub(within.answered + within.failed),
            bytes_in: within.bytes_in,
            ..Counts::default()
        };
        let seconds = window_ns.max(1) as f64 / 1e9;
        Measured {
            zero_ns: 0,
            window_from_ns: self.warmup_ns,
            window_to_ns: self.warmup_ns + window_ns,
            throughput: counts.answered as f64 / seconds,
            counts,
            in_flight_mean: self.in_flight_area / window_ns.max(1) as f64,
            fairness: None,
            requests: Vec::new(),
            sessions: Vec::new(),
            latency: self.latency.to_record(),
            service: None,
            first_byte: None,
            lateness: None,
            drained: Default::default(),
            open_connections: Default::default(),
            outages: Vec::new(),
            intervals: Vec::new(),
            workers: Vec::new(),
            sockets: None,
            clients: Vec::new(),
            io: String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH_NS: u64 = 100_000_000;

    fn interval(nth: u64, answered: u64) -> Interval {
        Interval {
            at_ns: nth * LENGTH_NS,
            span_ns: LENGTH_NS,
            answered,
            scheduled: answered + 1,
            in_flight: 3,
            ..Interval::default()
        }
    }

    fn all(intervals: &mut Intervals) -> Vec<Interval> {
        std::iter::from_fn(|| intervals.next()).collect()
    }

    #[test]
    fn the_first_of_each_host_make_the_first_of_all() {
        let mut intervals = Intervals::of(2);
        intervals.add(0, interval(1, 10), None);
        assert_eq!(all(&mut intervals), []);
        intervals.add(1, interval(1, 5), None);
        let told = all(&mut intervals);
        assert_eq!(told.len(), 1);
        let sum = &told[0];
        assert_eq!((sum.answered, sum.scheduled, sum.in_flight), (15, 17, 6));
        assert_eq!((sum.at_ns, sum.span_ns), (LENGTH_NS, LENGTH_NS));
    }

    #[test]
    fn quantiles_are_of_all_answers_and_those_of_one_host_are_its_own() {
        let mut latencies = [Latencies::new(), Latencies::new()];
        (0..90).for_each(|_| latencies[0].record(1_000));
        (0..10).for_each(|_| latencies[1].record(50_000));
        let told = |at: usize| latencies[at].to_record().map(Box::new);
        let mut intervals = Intervals::of(2);
        intervals.add(0, interval(1, 90), told(0));
        intervals.add(1, interval(1, 10), told(1));
        let sum = intervals.next().expect("both told");
        assert_eq!(sum.p50_ns, 1_000);
        assert!((49_900..50_100).contains(&sum.p99_ns), "{sum:?}");
        let mut alone = Intervals::of(1);
        let own = Interval {
            p50_ns: 70,
            p99_ns: 90,
            max_ns: 95,
            ..interval(1, 10)
        };
        alone.add(0, own.clone(), None);
        assert_eq!(alone.next(), Some(own));
    }

    #[test]
    fn a_host_that_tells_nothing_holds_nobody_up_and_loses_nothing() {
        let mut intervals = Intervals::of(2);
        let mut told = Vec::new();
        for nth in 1..=20 {
            intervals.add(0, interval(nth, 10), None);
            told.extend(all(&mut intervals));
        }
        assert!(told.len() >= 14, "{}", told.len());
        // It comes back, with all that it did meanwhile in one.
        let late = Interval {
            span_ns: 20 * LENGTH_NS,
            ..interval(20, 70)
        };
        intervals.add(1, late, None);
        intervals.end(1);
        intervals.end(0);
        told.extend(all(&mut intervals));
        intervals.rest(&mut told);
        assert_eq!(told.iter().map(|of| of.answered).sum::<u64>(), 270);
        assert!(told.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns));
        let spans: u64 = told.iter().map(|of| of.span_ns).sum();
        assert_eq!(spans, told.last().map_or(0, |last| last.at_ns));
    }

    proptest! {
        /// Whatever the order in which hosts tell, and whenever they end: each count is told once.
        #[test]
        fn no_count_is_lost_or_told_twice(
            hosts in 1_usize..6,
            order in prop::collection::vec((0_usize..6, 0_u64..50, prop::bool::weighted(0.1)), 1..120),
        ) {
            let mut intervals = Intervals::of(hosts);
            let (mut nth, mut told) = (vec![0; hosts], Vec::new());
            let mut answered = 0;
            for (host, count, ends) in order {
                let host = host % hosts;
                if intervals.ended[host] {
                    continue;
                }
                nth[host] += 1;
                answered += count;
                intervals.add(host, interval(nth[host], count), None);
                if ends {
                    intervals.end(host);
                }
                told.extend(all(&mut intervals));
            }
            (0..hosts).for_each(|host| intervals.end(host));
            told.extend(all(&mut intervals));
            intervals.rest(&mut told);
            prop_assert_eq!(told.iter().map(|of| of.answered).sum::<u64>(), answered);
            prop_assert!(told.windows(2).all(|pair| pair[0].at_ns < pair[1].at_ns));
        }
    }

    #[test]
    fn a_window_is_told_once_all_hosts_have_ended_it() {
        let latency = |values: &[u64]| {
            let mut latencies = Latencies::new();
            values.iter().for_each(|value| latencies.record(*value));
            latencies
        };
        let window = |from_ns, answered, values: &[u64]| ExperimentWindow {
            number: 3,
            from_ns,
            to_ns: from_ns + 500,
            answered,
            failed: 1,
            scheduled: answered + 1,
            throughput: 10.0,
            in_flight_mean: 2.0,
            latency_mean_ns: 0.0,
            quantiles_ns: BTreeMap::new(),
            workers_cpu_ns: 50,
            workers_spun_ns: 5,
            latency: latency(values).to_record(),
        };
        let mut windows = Windows::default();
        assert_eq!(windows.add(window(100, 3, &[1_000, 2_000, 3_000]), 2), None);
        let whole = windows
            .add(window(300, 2, &[4_000, 5_000]), 2)
            .expect("all");
        assert_eq!((whole.from_ns, whole.to_ns), (200, 700));
        assert_eq!((whole.answered, whole.failed, whole.scheduled), (5, 2, 7));
        assert_eq!((whole.throughput, whole.in_flight_mean), (20.0, 4.0));
        assert_eq!((whole.workers_cpu_ns, whole.workers_spun_ns), (100, 10));
        let together = latency(&[1_000, 2_000, 3_000, 4_000, 5_000]);
        assert_eq!(whole.quantiles_ns, together.quantiles_ns());
        assert_eq!(whole.latency_mean_ns, together.mean_ns());
        assert_eq!(whole.latency, None);
    }
}
