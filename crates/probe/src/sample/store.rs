//! Where readings are kept, and what is made of them: samples, summaries, gaps.
//!
//! A window is taken between the two readings nearest to its edges. Between two marks that is
//! exact; without marks each edge is off by half a tick at the most, and [`Telemetry::window_ns`]
//! says what was covered: shares and totals belong to that. Memory is bounded: a sampler that runs
//! for hours lets every second tick go.

use std::time::Duration;

use wallfinder_model::caveat::Caveat;
use wallfinder_model::telemetry::{Sample, Telemetry};

use crate::Family;
use crate::reference_loop::ReferenceLoop;
use crate::sample::Setup;
use crate::sample::difference::{Switches, sample};
use crate::sample::reading::{Detail, Reading, Side};
use crate::sample::window::Window;

/// Memory for readings; beyond it every second tick is let go.
const READINGS_BYTES_MAX: usize = 96 << 20;
const GAPS_MAX: usize = 256;
const GAP_NS: u64 = 200_000_000;
const WALL_STEP_NS: u64 = 100_000_000;
/// Readings at the end that hold at least two with details.
const READINGS_LATEST: usize = 128;

/// What a sampler saw from its start to its end.
#[derive(Debug)]
pub struct Series {
    /// One for each tick, oldest first.
    pub samples: Vec<Sample>,
    store: Store,
}

impl Series {
    pub(crate) fn from(store: Store) -> Series {
        Series {
            samples: store.samples(),
            store,
        }
    }

    /// What happened between two times from the schedule's zero, in nanoseconds. Times from
    /// [`mark`](crate::Sampler::mark) make it exact, and give it sockets.
    pub fn summarise(&self, from_ns: i64, to_ns: i64) -> Telemetry {
        self.store.summarise(from_ns, to_ns)
    }

    /// Ticks that came more than 200 ms late, suspends, and steps of the wall clock; the first 256.
    pub fn gaps(&self) -> Vec<Caveat> {
        self.store.gaps.clone()
    }

    /// The marks, with their times from the schedule's zero in nanoseconds.
    pub fn marks(&self) -> &[(String, i64)] {
        &self.store.marks
    }
}

/// The readings so far.
#[derive(Debug, Default)]
pub(crate) struct Store {
    readings: Vec<Reading>,
    readings_bytes: usize,
    marks: Vec<(String, i64)>,
    gaps: Vec<Caveat>,
    /// The last two ticks, whatever was let go of the readings.
    last_ticks: [Option<Box<Reading>>; 2],
    tick_ns: u64,
    client_name: String,
    server_name: String,
    server_gomaxprocs: Option<u32>,
    interface: Option<String>,
    /// The schedule's zero, in monotonic time.
    zero_ns: u64,
    /// What watches the pace of both sides' processors.
    reference_loop: Option<ReferenceLoop>,
}

impl Store {
    pub(crate) fn new(setup: &Setup, tick: Duration, interface: Option<String>) -> Store {
        let name = |family: &Option<Family>| {
            family
                .as_ref()
                .map(|family| family.name.clone())
                .unwrap_or_default()
        };
        Store {
            tick_ns: tick.as_nanos() as u64,
            client_name: name(&setup.client),
            server_name: name(&setup.server),
            server_gomaxprocs: setup.server.as_ref().and_then(|server| server.gomaxprocs),
            interface,
            zero_ns: setup.zero_ns,
            reference_loop: setup.paced_cpus.clone().map(ReferenceLoop::start),
            ..Store::default()
        }
    }

    pub(crate) fn readings(&self) -> &[Reading] {
        &self.readings
    }

    /// What a side is called.
    pub(crate) fn name(&self, side: Side) -> &str {
        match side {
            Side::Client => &self.client_name,
            Side::Server => &self.server_name,
        }
    }

    /// What a side has said of Go's runtime in each of its processes.
    pub(crate) fn gomaxprocs(&self, side: Side) -> Option<u32> {
        match side {
            Side::Client => None,
            Side::Server => self.server_gomaxprocs,
        }
    }

    pub(crate) fn interface(&self) -> &str {
        self.interface.as_deref().unwrap_or_default()
    }

    /// The zero that times are counted from is later by so much, and what was held up before it is no
    /// gap of the load.
    pub(crate) fn count_from(&mut self, later_ns: i64) {
        let last = self.last_ticks.iter_mut().flatten().map(|tick| &mut **tick);
        for reading in self.readings.iter_mut().chain(last) {
            reading.at_ns -= later_ns;
        }
        for (_, at_ns) in &mut self.marks {
            *at_ns -= later_ns;
        }
        self.gaps.clear();
        self.zero_ns = self.zero_ns.saturating_add_signed(later_ns);
    }

    /// Ends what watches beside the sampler.
    pub(crate) fn stop(&self) {
        if let Some(reference_loop) = &self.reference_loop {
            reference_loop.stop();
        }
    }

    pub(crate) fn push(&mut self, reading: Reading, mark: Option<&str>) {
        assert!(
            self.readings
                .last()
                .is_none_or(|last| last.at_ns <= reading.at_ns),
            "readings are taken and stored under one lock"
        );
        if let Some(name) = mark {
            self.marks.push((name.to_owned(), reading.at_ns));
        }
        if reading.is_tick {
            if let Some(before) = &self.last_ticks[1] {
                let doubts = doubts_between(before, &reading, self.tick_ns);
                let room = GAPS_MAX.saturating_sub(self.gaps.len());
                self.gaps.extend(doubts.into_iter().take(room));
            }
            self.last_ticks.rotate_left(1);
            self.last_ticks[1] = Some(Box::new(reading.clone()));
        }
        self.readings_bytes += bytes_of(&reading);
        self.readings.push(reading);
        if self.readings_bytes > READINGS_BYTES_MAX {
            self.thin_out();
        }
    }

    /// Lets every second tick go; marks stay.
    fn thin_out(&mut self) {
        let mut keep = false;
        self.readings.retain(|reading| {
            keep = !keep;
            keep || !reading.is_tick
        });
        self.readings_bytes = self.readings.iter().map(bytes_of).sum();
    }

    pub(crate) fn latest(&self) -> Option<Sample> {
        let [Some(before), Some(after)] = &self.last_ticks else {
            return None;
        };
        let recent = self.readings.len().saturating_sub(READINGS_LATEST);
        Some(sample(
            before,
            after,
            &Switches::of(&self.readings[recent..]),
        ))
    }

    fn samples(&self) -> Vec<Sample> {
        let switches = Switches::of(&self.readings);
        let ticks: Vec<&Reading> = self
            .readings
            .iter()
            .filter(|reading| reading.is_tick)
            .collect();
        ticks
            .windows(2)
            .map(|pair| sample(pair[0], pair[1], &switches))
            .collect()
    }

    pub(crate) fn summarise(&self, from_ns: i64, to_ns: i64) -> Telemetry {
        let (Some(first), Some(last)) = (self.nearest(from_ns), self.nearest(to_ns)) else {
            return Telemetry::default();
        };
        if first >= last {
            return Telemetry::default();
        }
        let telemetry = Window::new(self, first, last).summary();
        let Some(reference_loop) = &self.reference_loop else {
            return telemetry;
        };
        let [from_ns, to_ns] =
            [first, last].map(|at| self.zero_ns.saturating_add_signed(self.readings[at].at_ns));
        let [server_reference_ns, client_reference_ns] = reference_loop.times_ns(from_ns, to_ns);
        Telemetry {
            server_reference_ns,
            client_reference_ns,
            ..telemetry
        }
    }

    /// The reading nearest to a time.
    fn nearest(&self, at_ns: i64) -> Option<usize> {
        let after = self
            .readings
            .partition_point(|reading| reading.at_ns < at_ns);
        let distance = |at: usize| Some(self.readings.get(at)?.at_ns.abs_diff(at_ns));
        match (after.checked_sub(1), distance(after)) {
            (Some(before), Some(to_after)) if distance(before)? < to_after => Some(before),
            (Some(before), None) => Some(before),
            (_, Some(_)) => Some(after),
            (None, None) => None,
        }
    }

    /// The reading with details nearest to a reading.
    pub(crate) fn nearest_detail(&self, at: usize) -> Option<(&Reading, &Detail)> {
        let here = self.readings.get(at)?.at_ns;
        let with_detail = |reading: &'_ &Reading| reading.detail.is_some();
        let before = self.readings[..=at].iter().rev().find(with_detail);
        let after = self.readings[at..].iter().find(with_detail);
        let nearest = [before, after]
            .into_iter()
            .flatten()
            .min_by_key(|reading| reading.at_ns.abs_diff(here))?;
        Some((nearest, nearest.detail.as_deref()?))
    }
}

fn bytes_of(reading: &Reading) -> usize {
    let threads: usize = reading
        .detail
        .iter()
        .flat_map(|detail| [&detail.client, &detail.server])
        .flatten()
        .map(|family| family.threads.len() * 64 + family.pids.len() * 4)
        .sum();
    let sockets: usize = reading
        .detail
        .iter()
        .flat_map(|detail| [&detail.client_sockets, &detail.server_sockets])
        .flatten()
        .map(|table| table.len() * 120)
        .sum();
    size_of::<Reading>() + size_of_val(&*reading.cores) + threads + sockets
}

/// What was odd between two ticks.
fn doubts_between(before: &Reading, after: &Reading, tick_ns: u64) -> Vec<Caveat> {
    let mut doubts = Vec::new();
    let at_ns = u64::try_from(before.at_ns).unwrap_or(0);
    let span_ns = after.at_ns.abs_diff(before.at_ns);
    if span_ns > tick_ns + GAP_NS {
        doubts.push(Caveat::Gap {
            gap_ns: span_ns,
            at_ns,
        });
    }
    let suspended_ns = after.suspended_ns - before.suspended_ns;
    if suspended_ns.unsigned_abs() > GAP_NS {
        doubts.push(Caveat::Gap {
            gap_ns: suspended_ns.unsigned_abs(),
            at_ns,
        });
    }
    let stepped_ns = after.wall_offset_ns - before.wall_offset_ns - suspended_ns;
    if stepped_ns.unsigned_abs() > WALL_STEP_NS {
        doubts.push(Caveat::ClockStepped { by_ns: stepped_ns });
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::reading::FamilyReading;

    const TICK_NS: i64 = 50_000_000;

    fn store() -> Store {
        Store::new(
            &Setup::default(),
            Duration::from_nanos(TICK_NS as u64),
            None,
        )
    }

    /// A server that uses one core.
    fn reading(at_ns: i64, is_tick: bool) -> Reading {
        Reading {
            at_ns,
            is_tick,
            server: Some(FamilyReading {
                cpu_ns: 7_000_000_000 + at_ns as u64,
                ..FamilyReading::default()
            }),
            detail: Some(Box::default()),
            ..Reading::default()
        }
    }

    #[test]
    fn the_nearest_reading_is_taken() {
        let mut store = store();
        assert_eq!(store.nearest(0), None);
        for at in 0..10 {
            store.push(reading(at * TICK_NS, true), None);
        }
        store.push(reading(9 * TICK_NS + 3, false), Some("open"));
        assert_eq!(store.nearest(i64::MIN), Some(0));
        assert_eq!(store.nearest(i64::MAX), Some(10));
        assert_eq!(store.nearest(2 * TICK_NS + 1), Some(2));
        assert_eq!(store.nearest(3 * TICK_NS - 1), Some(3));
        assert_eq!(store.nearest(9 * TICK_NS + 3), Some(10));
        assert_eq!(store.marks, [("open".to_owned(), 9 * TICK_NS + 3)]);
    }

    #[test]
    fn ticks_are_differences_and_marks_are_none() {
        let mut store = store();
        for at in 0..4 {
            store.push(reading(at * TICK_NS, true), None);
            store.push(reading(at * TICK_NS + 7, false), Some("mark"));
        }
        let samples = Series::from(store).samples;
        assert_eq!(samples.len(), 3);
        for (at, sample) in samples.iter().enumerate() {
            assert_eq!(sample.at_ns, (at as i64 + 1) * TICK_NS);
            assert_eq!(sample.server.unwrap().cpu_ns, TICK_NS as u64);
        }
    }

    #[test]
    fn a_later_zero_makes_every_time_earlier_and_what_was_held_up_before_it_no_gap() {
        let mut store = store();
        store.push(reading(0, true), None);
        store.push(reading(7, false), Some("start"));
        store.push(reading(10 * TICK_NS, true), None);
        assert_eq!(store.gaps.len(), 1);
        store.count_from(10 * TICK_NS + 5);
        store.push(reading(TICK_NS, true), None);
        assert_eq!(store.marks, [("start".to_owned(), 2 - 10 * TICK_NS)]);
        assert_eq!(store.gaps, []);
        let samples = Series::from(store).samples;
        let at_ns: Vec<i64> = samples.iter().map(|sample| sample.at_ns).collect();
        assert_eq!(at_ns, [-5, TICK_NS]);
        assert_eq!(samples[1].span_ns, TICK_NS as u64 + 5);
    }

    #[test]
    fn thinning_keeps_marks_and_totals() {
        let mut store = store();
        for at in 0..100 {
            store.push(reading(at * TICK_NS, true), None);
        }
        store.push(reading(99 * TICK_NS + 5, false), Some("close"));
        store.thin_out();
        assert_eq!(store.readings.len(), 51);
        assert!(store.readings.iter().any(|reading| !reading.is_tick));
        let cpu_ns: u64 = store
            .samples()
            .iter()
            .map(|sample| sample.server.unwrap().cpu_ns)
            .sum();
        assert_eq!(cpu_ns, 98 * TICK_NS as u64);
    }

    #[test]
    fn gaps_suspends_and_steps_are_told_apart() {
        let mut store = store();
        let mut push = |at_ns: i64, suspended_ns: i64, wall_offset_ns: i64| {
            let reading = Reading {
                suspended_ns,
                wall_offset_ns,
                ..reading(at_ns, true)
            };
            store.push(reading, None);
        };
        push(0, 0, 0);
        push(TICK_NS + 190_000_000, 0, 0);
        push(1_000_000_000, 0, 20_000);
        push(1_050_000_000, 4_000_000_000, 4_000_020_000);
        push(1_100_000_000, 4_000_000_000, 1_000_020_000);
        let expected = [
            Caveat::Gap {
                gap_ns: 760_000_000,
                at_ns: 240_000_000,
            },
            Caveat::Gap {
                gap_ns: 4_000_000_000,
                at_ns: 1_000_000_000,
            },
            Caveat::ClockStepped {
                by_ns: -3_000_000_000,
            },
        ];
        assert_eq!(store.gaps, expected);
    }
}
