//! Readings become samples, summaries and doubts: subtraction, and what it takes to do it fairly.
//!
//! A window is taken between the two readings nearest to its edges. Between two marks that is exact; without
//! marks each edge is off by half a tick at the most, and [`Telemetry::window_ns`] says what was covered: shares
//! and totals belong to that. Processor shares come from `/proc/stat`, which counts in 10 ms.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use wallfinder_model::caveat::Caveat;
use wallfinder_model::telemetry::{
    CoreSample, FamilySample, FamilySummary, LinkSample, LinkSummary, Sample, SocketsSummary,
    TcpSample, Telemetry, ThreadShare,
};

use crate::parse::host::CpuTicks;
use crate::sample::Setup;
use crate::sample::host::set_of;
use crate::sample::reading::{
    Detail, FamilyDetail, FamilyReading, LinkDetail, Reading, ShaperReading, Side,
};

/// Memory for readings; beyond it every second tick is let go.
const READINGS_BYTES_MAX: usize = 96 << 20;
const GAPS_MAX: usize = 256;
const GAP_NS: u64 = 200_000_000;
const WALL_STEP_NS: u64 = 100_000_000;
/// `/proc/stat` counts in 10 ms: percentiles of shares over less than this are noise.
const BUSY_SPAN_NS_MIN: i64 = 100_000_000;
/// A thread with less than this share of its family's CPU says nothing about where the family may run.
const WORKING_SHARE_MIN: f64 = 0.05;

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
    interface: Option<String>,
}

impl Store {
    pub(crate) fn new(setup: &Setup, tick: Duration) -> Store {
        let name = |family: &Option<crate::Family>| {
            family
                .as_ref()
                .map(|family| family.name.clone())
                .unwrap_or_default()
        };
        Store {
            tick_ns: tick.as_nanos() as u64,
            client_name: name(&setup.client),
            server_name: name(&setup.server),
            interface: setup.interface.clone(),
            ..Store::default()
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
        Some(sample(before, after, &Switches::of(&self.readings)))
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
        Window::new(self, first, last).summary()
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
    fn nearest_detail(&self, at: usize) -> Option<(&Reading, &Detail)> {
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

/// How switches split into voluntary and not, known every 500 ms, spread over the ticks between.
struct Switches {
    known: Vec<KnownSwitches>,
}

/// When, and totals of the client and of the server.
type KnownSwitches = (i64, Option<Split>, Option<Split>);
/// Voluntary and involuntary.
type Split = (u64, u64);

impl Switches {
    fn of(readings: &[Reading]) -> Switches {
        let pair = |family: Option<&FamilyDetail>| {
            family.map(|family| (family.switches_voluntary, family.switches_involuntary))
        };
        let known = readings.iter().filter_map(|reading| {
            let detail = reading.detail.as_deref()?;
            Some((
                reading.at_ns,
                pair(detail.family(Side::Client)),
                pair(detail.family(Side::Server)),
            ))
        });
        Switches {
            known: known.collect(),
        }
    }

    /// Share of voluntary switches around a time; all of them where nothing is known.
    fn voluntary_share(&self, side: Side, at_ns: i64) -> f64 {
        let after = self
            .known
            .partition_point(|(known_ns, ..)| *known_ns < at_ns)
            .min(self.known.len().saturating_sub(1));
        let side_of = |at: usize| {
            let (_, client, server) = self.known.get(at)?;
            match side {
                Side::Client => *client,
                Side::Server => *server,
            }
        };
        let (Some(before), Some(after)) = (after.checked_sub(1).and_then(side_of), side_of(after))
        else {
            return 1.0;
        };
        let voluntary = after.0.saturating_sub(before.0) as f64;
        let involuntary = after.1.saturating_sub(before.1) as f64;
        match voluntary + involuntary {
            0.0 => 1.0,
            all => voluntary / all,
        }
    }
}

/// The difference of two ticks.
fn sample(before: &Reading, after: &Reading, switches: &Switches) -> Sample {
    let family = |side: Side| {
        let (before, now) = (before.family(side)?, after.family(side)?);
        Some(family_sample(
            before,
            now,
            switches.voluntary_share(side, after.at_ns),
        ))
    };
    Sample {
        at_ns: after.at_ns,
        span_ns: after.at_ns.abs_diff(before.at_ns),
        cores: core_samples(&before.cores, &after.cores),
        client: family(Side::Client),
        server: family(Side::Server),
        link: link_difference(before.link, after.link),
        tcp: tcp_difference(before.tcp, after.tcp),
        switches: after.switches.saturating_sub(before.switches),
        runnable: after.runnable,
    }
}

fn family_sample(
    before: &FamilyReading,
    after: &FamilyReading,
    voluntary_share: f64,
) -> FamilySample {
    let slices = after.slices.saturating_sub(before.slices);
    let voluntary = (slices as f64 * voluntary_share).round() as u64;
    let cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns);
    FamilySample {
        processes: after.processes,
        threads: after.threads,
        cpu_ns,
        cpu_user_ns: user_part(before, after, cpu_ns),
        run_wait_ns: after.run_wait_ns.saturating_sub(before.run_wait_ns),
        switches_voluntary: voluntary,
        switches_involuntary: slices.saturating_sub(voluntary),
        faults_minor: after.faults_minor.saturating_sub(before.faults_minor),
        faults_major: after.faults_major.saturating_sub(before.faults_major),
        rss_bytes: after.rss_bytes,
        throttled_ns: after.throttled_ns.saturating_sub(before.throttled_ns),
        throttled_periods: after
            .throttled_periods
            .saturating_sub(before.throttled_periods),
        hottest_thread_share: after.hottest_thread_share,
    }
}

/// Exact CPU time split as the clock ticks were.
fn user_part(before: &FamilyReading, after: &FamilyReading, cpu_ns: u64) -> u64 {
    let user = after.user_ticks.saturating_sub(before.user_ticks);
    let system = after.system_ticks.saturating_sub(before.system_ticks);
    match user + system {
        0 => 0,
        all => (cpu_ns as f64 * user as f64 / all as f64) as u64,
    }
}

/// Shares of the processors that were online at both instants.
fn core_samples(before: &[CpuTicks], after: &[CpuTicks]) -> Vec<CoreSample> {
    after
        .iter()
        .filter_map(|now| {
            let then = before.iter().find(|then| then.cpu == now.cpu)?;
            Some(core_sample(then, now))
        })
        .collect()
}

fn core_sample(before: &CpuTicks, after: &CpuTicks) -> CoreSample {
    let spent = [
        after.usr.saturating_sub(before.usr),
        after.sys.saturating_sub(before.sys),
        after.irq.saturating_sub(before.irq),
        after.softirq.saturating_sub(before.softirq),
        after.steal.saturating_sub(before.steal),
        // Idle time may step back by a tick when a processor wakes.
        after.idle.saturating_sub(before.idle),
    ];
    let all: u64 = spent.iter().sum();
    let share = |at: usize| match all {
        0 => 0.0,
        all => (spent[at] as f64 / all as f64) as f32,
    };
    CoreSample {
        cpu: after.cpu,
        usr: share(0),
        sys: share(1),
        irq: share(2),
        softirq: share(3),
        steal: share(4),
        idle: share(5),
    }
}

fn link_difference(before: Option<LinkSample>, after: Option<LinkSample>) -> Option<LinkSample> {
    let (before, after) = (before?, after?);
    Some(LinkSample {
        rx_bytes: after.rx_bytes.saturating_sub(before.rx_bytes),
        rx_packets: after.rx_packets.saturating_sub(before.rx_packets),
        tx_bytes: after.tx_bytes.saturating_sub(before.tx_bytes),
        tx_packets: after.tx_packets.saturating_sub(before.tx_packets),
        drops: after.drops.saturating_sub(before.drops),
    })
}

fn tcp_difference(before: Option<TcpSample>, after: Option<TcpSample>) -> Option<TcpSample> {
    let (before, after) = (before?, after?);
    Some(TcpSample {
        segments_in: after.segments_in.saturating_sub(before.segments_in),
        segments_out: after.segments_out.saturating_sub(before.segments_out),
        retransmits: after.retransmits.saturating_sub(before.retransmits),
        listen_overflows: after
            .listen_overflows
            .saturating_sub(before.listen_overflows),
        listen_drops: after.listen_drops.saturating_sub(before.listen_drops),
        opens_active: after.opens_active.saturating_sub(before.opens_active),
        opens_passive: after.opens_passive.saturating_sub(before.opens_passive),
        resets_out: after.resets_out.saturating_sub(before.resets_out),
    })
}

/// Two readings and what lies between.
struct Window<'a> {
    store: &'a Store,
    between: &'a [Reading],
    before: &'a Reading,
    after: &'a Reading,
    /// The readings with details nearest to the edges; the same one when the window is short.
    details: Option<[(&'a Reading, &'a Detail); 2]>,
    cores: Vec<CoreSample>,
}

impl<'a> Window<'a> {
    fn new(store: &'a Store, first: usize, last: usize) -> Window<'a> {
        let (before, after) = (&store.readings[first], &store.readings[last]);
        Window {
            details: store
                .nearest_detail(first)
                .zip(store.nearest_detail(last))
                .map(|(first, last)| [first, last]),
            between: &store.readings[first..=last],
            cores: core_samples(&before.cores, &after.cores),
            store,
            before,
            after,
        }
    }

    fn span_ns(&self) -> u64 {
        self.after.at_ns.abs_diff(self.before.at_ns)
    }

    fn summary(&self) -> Telemetry {
        let ticks = self
            .between
            .iter()
            .skip(1)
            .filter(|reading| reading.is_tick);
        Telemetry {
            window_ns: self.span_ns(),
            samples: u32::try_from(ticks.count()).unwrap_or(u32::MAX),
            cores: self.cores.clone(),
            cores_busy_p95: self.busy_p95(),
            client: self.family(Side::Client),
            server: self.family(Side::Server),
            link: self.link(),
            tcp: tcp_difference(self.before.tcp, self.after.tcp),
            server_sockets: self.sockets(Side::Server),
            client_sockets: self.sockets(Side::Client),
            observer_cpu_ns: self
                .after
                .observer_cpu_ns
                .saturating_sub(self.before.observer_cpu_ns),
        }
    }

    /// Of each processor in [`Window::cores`], over spans of at least 100 ms.
    fn busy_p95(&self) -> Vec<f32> {
        let mut spans: BTreeMap<u32, Vec<f32>> = BTreeMap::new();
        let mut from = self.before;
        for reading in &self.between[1..] {
            if reading.at_ns - from.at_ns >= BUSY_SPAN_NS_MIN {
                for core in core_samples(&from.cores, &reading.cores) {
                    spans.entry(core.cpu).or_default().push(core.busy());
                }
                from = reading;
            }
        }
        let of_core = |core: &CoreSample| match spans.get_mut(&core.cpu) {
            Some(shares) => {
                shares.sort_by(f32::total_cmp);
                let rank = (shares.len() * 95).div_ceil(100);
                shares[rank.saturating_sub(1)]
            }
            None => core.busy(),
        };
        self.cores.iter().map(of_core).collect()
    }

    fn family(&self, side: Side) -> Option<FamilySummary> {
        let (before, after) = (self.before.family(side)?, self.after.family(side)?);
        let [first, last] = self.details?;
        let (detail_before, detail_after) = (first.1.family(side)?, last.1.family(side)?);
        let cpus_allowed = working_cpus(detail_before, detail_after);
        let cpu_ns = after.cpu_ns.saturating_sub(before.cpu_ns);
        let span_ns = self.span_ns() as f64;
        let cores_usable = detail_after
            .quota_cores
            .unwrap_or(f64::MAX)
            .min(cpus_allowed.len() as f64);
        let periods = after.periods.saturating_sub(before.periods);
        let throttled_periods = after
            .throttled_periods
            .saturating_sub(before.throttled_periods);
        let rss = self
            .between
            .iter()
            .filter_map(|reading| Some(reading.family(side)?.rss_bytes));
        let on_its_cpus = self.mean_over(&cpus_allowed);
        Some(FamilySummary {
            name: match side {
                Side::Client => self.store.client_name.clone(),
                Side::Server => self.store.server_name.clone(),
            },
            pids: detail_after.pids.clone(),
            processes: after.processes,
            threads: after.threads,
            quota_cores: detail_after.quota_cores,
            cpu_ns,
            cpu_user_ns: user_part(before, after, cpu_ns),
            utilisation: ratio(cpu_ns as f64, span_ns * cores_usable),
            run_wait_cores: ratio(
                after.run_wait_ns.saturating_sub(before.run_wait_ns) as f64,
                span_ns,
            ),
            switches_voluntary: detail_after
                .switches_voluntary
                .saturating_sub(detail_before.switches_voluntary),
            switches_involuntary: detail_after
                .switches_involuntary
                .saturating_sub(detail_before.switches_involuntary),
            faults_minor: after.faults_minor.saturating_sub(before.faults_minor),
            faults_major: after.faults_major.saturating_sub(before.faults_major),
            rss_bytes_max: rss.max().unwrap_or(0),
            throttled_ns: after.throttled_ns.saturating_sub(before.throttled_ns),
            throttled_share: ratio(throttled_periods as f64, periods as f64),
            hottest_thread: hottest_thread(first, last, side),
            neighbour_cores: self.neighbour_cores(side, &cpus_allowed),
            cpus_busy: f64::from(on_its_cpus.busy()),
            cpus_softirq: f64::from(on_its_cpus.softirq),
            cpus_allowed,
        })
    }

    /// Mean shares over some processors.
    fn mean_over(&self, cpus: &[u32]) -> CoreSample {
        let wanted = set_of(cpus);
        let cores: Vec<&CoreSample> = self
            .cores
            .iter()
            .filter(|core| wanted.contains(&core.cpu))
            .collect();
        let mean = |part: fn(&CoreSample) -> f32| match cores.len() {
            0 => 0.0,
            count => cores.iter().map(|core| part(core)).sum::<f32>() / count as f32,
        };
        CoreSample {
            cpu: 0,
            usr: mean(|core| core.usr),
            sys: mean(|core| core.sys),
            irq: mean(|core| core.irq),
            softirq: mean(|core| core.softirq),
            steal: mean(|core| core.steal),
            idle: mean(|core| core.idle),
        }
    }

    /// Busy cores of these processors that are nobody's of ours: a lower bound.
    ///
    /// From what the processors did, subtract: the family; the other side where it may run on one of these
    /// processors, with all its CPU, since nobody tells where it ran; softirq threads; and interrupts that came
    /// while a processor was idle, which belong to nobody. (Interrupts that come while a thread runs are in that
    /// thread's CPU time.)
    fn neighbour_cores(&self, side: Side, cpus: &[u32]) -> f64 {
        let mean = self.mean_over(cpus);
        let cores = cpus.len() as f64;
        let used = |side: Side| {
            let difference = self.before.family(side).zip(self.after.family(side));
            let cpu_ns = difference.map_or(0, |(before, after)| {
                after.cpu_ns.saturating_sub(before.cpu_ns)
            });
            ratio(cpu_ns as f64, self.span_ns() as f64)
        };
        let wanted = set_of(cpus);
        let other_detail = self
            .details
            .map(|[first, last]| (first.1.family(side.other()), last.1.family(side.other())));
        let other_meets = match other_detail {
            Some((Some(before), Some(after))) => working_cpus(before, after)
                .iter()
                .any(|cpu| wanted.contains(cpu)),
            _ => false,
        };
        let other = if other_meets { used(side.other()) } else { 0.0 };
        let softirq_threads = self.softirq_thread_cores(&wanted);
        let interrupts = (f64::from(mean.irq + mean.softirq) * cores - softirq_threads).max(0.0);
        let while_idle = interrupts * f64::from(mean.idle);
        let busy = f64::from(mean.busy()) * cores;
        (busy - used(side) - other - softirq_threads - while_idle).max(0.0)
    }

    fn softirq_thread_cores(&self, cpus: &BTreeSet<u32>) -> f64 {
        let Some([(first, before), (last, after)]) = self.details else {
            return 0.0;
        };
        let span_ns = last.at_ns.abs_diff(first.at_ns) as f64;
        let sum = |detail: &Detail| -> u64 {
            let ours = detail
                .softirq_threads
                .iter()
                .filter(|(cpu, _)| cpus.contains(cpu));
            ours.map(|(_, cpu_ns)| cpu_ns).sum()
        };
        ratio(sum(after).saturating_sub(sum(before)) as f64, span_ns)
    }

    fn link(&self) -> Option<LinkSummary> {
        let mut totals = link_difference(self.before.link, self.after.link)?;
        let [(first, before), (last, after)] = self.details?;
        let (before, now) = (&before.link, &after.link);
        let detail_span_ns = last.at_ns.abs_diff(first.at_ns);
        totals.drops += shaper_drops(before.down, now.down) + shaper_drops(before.up, now.up);
        let share = |shaper: fn(&LinkDetail) -> Option<ShaperReading>, bytes: u64| match shaper(now)
        {
            Some(shaped) => shaped_share(shaper(before), shaped, detail_span_ns)
                .or_else(|| rate_share(bytes, shaped.rate_bits, self.span_ns())),
            None => rate_share(bytes, now.nominal_bits?, self.span_ns()),
        };
        Some(LinkSummary {
            interface: self.store.interface.clone().unwrap_or_default(),
            rate_bits: now.down.map(|shaped| shaped.rate_bits).or(now.nominal_bits),
            downlink_share: share(|link| link.down, totals.tx_bytes),
            uplink_share: share(|link| link.up, totals.rx_bytes),
            mtu: now.mtu,
            totals,
        })
    }

    fn sockets(&self, side: Side) -> Option<SocketsSummary> {
        let earlier = self
            .before
            .detail
            .as_deref()
            .and_then(|detail| detail.sockets(side))?;
        let later = self
            .after
            .detail
            .as_deref()
            .and_then(|detail| detail.sockets(side))?;
        Some(later.summary(earlier, self.span_ns()))
    }
}

/// By the shaper's own count, which has the headers of every segment; `None` when it was replaced in between.
fn shaped_share(before: Option<ShaperReading>, after: ShaperReading, span_ns: u64) -> Option<f64> {
    let passed = after.passed_bytes?.checked_sub(before?.passed_bytes?)?;
    rate_share(passed, after.rate_bits, span_ns)
}

fn rate_share(bytes: u64, rate_bits: u64, span_ns: u64) -> Option<f64> {
    let possible_bits = rate_bits as f64 * span_ns as f64 / 1e9;
    (possible_bits > 0.0).then(|| (bytes as f64 * 8.0 / possible_bits).min(1.0))
}

fn shaper_drops(before: Option<ShaperReading>, after: Option<ShaperReading>) -> u64 {
    let count = |shaper: Option<ShaperReading>| shaper.map_or(0, |shaper| shaper.drops);
    count(after).saturating_sub(count(before))
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// CPU of each thread between two looks; threads that are new since the first count from their beginning.
fn threads_used<'a>(
    before: &FamilyDetail,
    after: &'a FamilyDetail,
) -> Vec<(&'a crate::sample::reading::ThreadDetail, u64)> {
    let then: BTreeMap<u32, u64> = before
        .threads
        .iter()
        .map(|thread| (thread.tid, thread.cpu_ns))
        .collect();
    let used = |thread: &'a crate::sample::reading::ThreadDetail| {
        let before_ns = then.get(&thread.tid).copied().unwrap_or(0);
        (thread, thread.cpu_ns.saturating_sub(before_ns))
    };
    after.threads.iter().map(used).collect()
}

/// The processors that the work of a family may run on: those of its threads that work, and of those that are
/// pinned to fewer than the family's all. Idle housekeepers that nobody pinned would make a pinned server look
/// as if it had the whole machine.
fn working_cpus(before: &FamilyDetail, after: &FamilyDetail) -> Vec<u32> {
    let used = threads_used(before, after);
    let all: BTreeSet<u32> = after
        .threads
        .iter()
        .flat_map(|thread| thread.cpus_allowed.iter().copied())
        .collect();
    let total: u64 = used.iter().map(|(_, cpu_ns)| cpu_ns).sum();
    let counts = |cpu_ns: u64, cpus: usize| {
        cpus < all.len() || (total > 0 && cpu_ns as f64 >= WORKING_SHARE_MIN * total as f64)
    };
    let working: BTreeSet<u32> = used
        .iter()
        .filter(|(thread, cpu_ns)| counts(*cpu_ns, thread.cpus_allowed.len()))
        .flat_map(|(thread, _)| thread.cpus_allowed.iter().copied())
        .collect();
    let chosen = if working.is_empty() { all } else { working };
    chosen.into_iter().collect()
}

fn hottest_thread(
    first: (&Reading, &Detail),
    last: (&Reading, &Detail),
    side: Side,
) -> Option<ThreadShare> {
    let span_ns = last.0.at_ns.abs_diff(first.0.at_ns);
    let (before, after) = (first.1.family(side)?, last.1.family(side)?);
    if span_ns == 0 {
        return None;
    }
    let (thread, cpu_ns) = threads_used(before, after)
        .into_iter()
        .max_by_key(|(_, cpu_ns)| *cpu_ns)?;
    Some(ThreadShare {
        tid: thread.tid,
        name: thread.name.to_string(),
        share: (cpu_ns as f64 / span_ns as f64).min(1.0),
    })
}
