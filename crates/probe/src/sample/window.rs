//! A window between two readings: the summary of a step.
//!
//! Processor shares come from `/proc/stat`, which counts in 10 ms: over a window of a second a
//! share is good to 0.01, and percentiles are taken over spans of at least 100 ms.

use std::collections::{BTreeMap, BTreeSet};

use wallfinder_model::telemetry::{
    CoreSample, FamilySummary, LINK_FULL_MAX, LinkSummary, SocketsSummary, Telemetry, ThreadShare,
};

use crate::parse::host::CpuTicks;
use crate::sample::difference::{core_samples, link_difference, tcp_difference, user_part};
use crate::sample::reading::{
    Detail, FamilyDetail, LinkDetail, Reading, ShaperReading, Side, ThreadDetail,
};
use crate::sample::store::Store;

/// `/proc/stat` counts in 10 ms: percentiles of shares over less than this are noise.
const BUSY_SPAN_NS_MIN: i64 = 100_000_000;
/// Threads with the same processors and less than this share of their family's CPU together say nothing
/// about where the family may run.
const WORKING_SHARE_MIN: f64 = 0.05;

/// Two readings and what lies between.
pub(crate) struct Window<'a> {
    store: &'a Store,
    between: &'a [Reading],
    before: &'a Reading,
    after: &'a Reading,
    /// The readings with details nearest to the edges; the same one when the window is short.
    details: Option<[(&'a Reading, &'a Detail); 2]>,
    cores: Vec<CoreSample>,
}

impl<'a> Window<'a> {
    pub(crate) fn new(store: &'a Store, first: usize, last: usize) -> Window<'a> {
        let (before, after) = (&store.readings()[first], &store.readings()[last]);
        Window {
            details: store
                .nearest_detail(first)
                .zip(store.nearest_detail(last))
                .map(|(first, last)| [first, last]),
            between: &store.readings()[first..=last],
            cores: core_samples(&before.cores, &after.cores),
            store,
            before,
            after,
        }
    }

    fn span_ns(&self) -> u64 {
        self.after.at_ns.abs_diff(self.before.at_ns)
    }

    pub(crate) fn summary(&self) -> Telemetry {
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
            relay: None,
            backend: None,
            tcp: tcp_difference(self.before.tcp, self.after.tcp),
            client_tcp: tcp_difference(self.before.client_tcp, self.after.client_tcp),
            server_sockets: self.sockets(Side::Server),
            client_sockets: self.sockets(Side::Client),
            server_reference_ns: None,
            client_reference_ns: None,
            server_host: None,
            client_host: None,
            client_hosts: Vec::new(),
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
        let (interrupts, is_all) = self.interrupt_cores(&cpus_allowed);
        Some(FamilySummary {
            name: self.store.name(side).to_owned(),
            pids: detail_after.pids.clone(),
            processes: after.processes,
            threads: after.threads,
            gomaxprocs: self.store.gomaxprocs(side),
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
            faults_since_start: after.faults_minor + after.faults_major,
            rss_bytes_max: rss.max().unwrap_or(0),
            throttled_ns: after.throttled_ns.saturating_sub(before.throttled_ns),
            throttled_share: ratio(throttled_periods as f64, periods as f64),
            hottest_thread: hottest_thread(first, last, side),
            neighbour_cores: self.neighbour_cores(side, &cpus_allowed),
            cpus_busy: f64::from(on_its_cpus.busy()),
            cpus_softirq: f64::from(on_its_cpus.softirq),
            interrupt_cores: is_all.then_some(interrupts),
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
    /// From what the processors did, subtract: the family; the other side where it may run on one
    /// of these processors, with all its CPU, since nobody tells where it ran; and interrupts that
    /// belong to nobody. None are told where one of the two was not counted whole: it would be its
    /// own neighbour.
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
        let is_partial = |side: Side| {
            let family = self.after.family(side);
            family.is_some_and(|family| family.is_partial)
        };
        if is_partial(side) || (other_meets && is_partial(side.other())) {
            return 0.0;
        }
        let other = if other_meets { used(side.other()) } else { 0.0 };
        let (interrupts, _) = self.interrupt_cores(cpus);
        let busy = f64::from(mean.busy()) * cores;
        (busy - used(side) - other - interrupts).max(0.0)
    }

    /// Cores of these processors that worked on interrupts in nobody's thread, and whether that is all:
    /// in a container the softirq threads are not seen.
    ///
    /// They are softirq threads, and interrupts that came while a processor was idle. Interrupts that
    /// come while a thread runs are in that thread's CPU time, but where the kernel counts all of them
    /// apart (`CONFIG_IRQ_TIME_ACCOUNTING`).
    fn interrupt_cores(&self, cpus: &[u32]) -> (f64, bool) {
        let mean = self.mean_over(cpus);
        let all = f64::from(mean.irq + mean.softirq) * cpus.len() as f64;
        if interrupts_are_apart(&self.after.cores) {
            return (all, true);
        }
        let threads = self.softirq_thread_cores(&set_of(cpus));
        let others = (all - threads.unwrap_or(0.0)).max(0.0);
        let while_idle = others * f64::from(mean.idle);
        (threads.unwrap_or(0.0) + while_idle, threads.is_some())
    }

    /// `None` where none is seen.
    fn softirq_thread_cores(&self, cpus: &BTreeSet<u32>) -> Option<f64> {
        let [(first, before), (last, after)] = self.details?;
        let span_ns = last.at_ns.abs_diff(first.at_ns) as f64;
        let sum = |detail: &Detail| -> Option<u64> {
            let ours = detail
                .softirq_threads
                .iter()
                .filter(|(cpu, _)| cpus.contains(cpu));
            let times_ns = ours.map(|(_, cpu_ns)| *cpu_ns);
            times_ns.reduce(|one, other| one + other)
        };
        let used_ns = sum(after)?.saturating_sub(sum(before)?);
        Some(ratio(used_ns as f64, span_ns))
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
            interface: self.store.interface().to_owned(),
            rate_bits: now.down.map(|shaped| shaped.rate_bits).or(now.nominal_bits),
            downlink_share: share(|link| link.down, totals.tx_bytes),
            uplink_share: share(|link| link.up, totals.rx_bytes),
            mtu: now.mtu,
            card: card_counted(before, now),
            totals,
        })
    }

    /// Between the first and the last reading in which they were looked at. Connections that are closed by then say
    /// nothing of what they were: the last is one before.
    fn sockets(&self, side: Side) -> Option<SocketsSummary> {
        let mut tables = self.between.iter().filter_map(|reading| {
            let table = reading.detail.as_deref()?.sockets(side)?;
            Some((reading.at_ns, table))
        });
        let (from_ns, earlier) = tables.next()?;
        let (to_ns, later) = tables.rfind(|(_, table)| !table.is_empty())?;
        Some(later.summary(earlier, to_ns.abs_diff(from_ns)))
    }
}

/// What a driver's counters rose by. One that fell counts anew, and says nothing.
fn card_counted(before: &LinkDetail, now: &LinkDetail) -> BTreeMap<String, u64> {
    let risen = now.card.iter().filter_map(|(name, count)| {
        let rise = count.checked_sub(*before.card.get(name)?)?;
        (rise > 0).then(|| (name.clone(), rise))
    });
    risen.collect()
}

/// By the shaper's own count, which has the headers of every segment; `None` when it was replaced
/// in between.
fn shaped_share(before: Option<ShaperReading>, after: ShaperReading, span_ns: u64) -> Option<f64> {
    let passed = after.passed_bytes?.checked_sub(before?.passed_bytes?)?;
    rate_share(passed, after.rate_bits, span_ns)
}

/// More than the rate is full, up to where the rate is another than is stated: then the share says so.
fn rate_share(bytes: u64, rate_bits: u64, span_ns: u64) -> Option<f64> {
    let possible_bits = rate_bits as f64 * span_ns as f64 / 1e9;
    let share = bytes as f64 * 8.0 / possible_bits;
    let is_other = share > LINK_FULL_MAX;
    (possible_bits > 0.0).then(|| if is_other { share } else { share.min(1.0) })
}

fn shaper_drops(before: Option<ShaperReading>, after: Option<ShaperReading>) -> u64 {
    let count = |shaper: Option<ShaperReading>| shaper.map_or(0, |shaper| shaper.drops);
    count(after).saturating_sub(count(before))
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// CPU of each thread between two looks; threads that are new since the first count from their
/// beginning.
fn threads_used<'a>(
    before: &FamilyDetail,
    after: &'a FamilyDetail,
) -> Vec<(&'a ThreadDetail, u64)> {
    let then: BTreeMap<u32, u64> = before
        .threads
        .iter()
        .map(|thread| (thread.tid, thread.cpu_ns))
        .collect();
    let used = |thread: &'a ThreadDetail| {
        let before_ns = then.get(&thread.tid).copied().unwrap_or(0);
        (thread, thread.cpu_ns.saturating_sub(before_ns))
    };
    after.threads.iter().map(used).collect()
}

/// The processors that the work of a family may run on: those of its threads that work together, and of
/// those that are pinned to fewer than the family's all. Idle housekeepers that nobody pinned would
/// make a pinned server look as if it had the whole machine.
fn working_cpus(before: &FamilyDetail, after: &FamilyDetail) -> Vec<u32> {
    let used = threads_used(before, after);
    let all: BTreeSet<u32> = after
        .threads
        .iter()
        .flat_map(|thread| thread.cpus_allowed.iter().copied())
        .collect();
    // Work that is spread over many threads is of none of them in particular.
    let mut by_mask: BTreeMap<&[u32], u64> = BTreeMap::new();
    for (thread, cpu_ns) in &used {
        *by_mask.entry(&thread.cpus_allowed).or_default() += cpu_ns;
    }
    let total: u64 = by_mask.values().sum();
    let counts = |cpu_ns: u64, cpus: usize| {
        cpus < all.len() || (total > 0 && cpu_ns as f64 >= WORKING_SHARE_MIN * total as f64)
    };
    let working: BTreeSet<u32> = by_mask
        .iter()
        .filter(|(cpus, cpu_ns)| counts(**cpu_ns, cpus.len()))
        .flat_map(|(cpus, _)| cpus.iter().copied())
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

/// Whether the kernel measures the time of interrupts and leaves it out of threads' CPU time. Where it
/// samples them it never meets a hardware interrupt, which holds the clock tick off: then that column of
/// `/proc/stat` stands at zero, but for an old driver's.
fn interrupts_are_apart(cores: &[CpuTicks]) -> bool {
    let ticks: u64 = cores.iter().map(|core| core.irq).sum();
    ticks > cores.len() as u64
}

fn set_of(cpus: &[u32]) -> BTreeSet<u32> {
    cpus.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::sample::Setup;
    use crate::sample::reading::FamilyReading;

    const SECOND_NS: u64 = 1_000_000_000;

    fn thread(tid: u32, cpus: &[u32], cpu_ns: u64) -> ThreadDetail {
        ThreadDetail {
            tid,
            name: Arc::from("worker"),
            cpus_allowed: Arc::from(cpus),
            cpu_ns,
        }
    }

    fn family(threads: Vec<ThreadDetail>, quota_cores: Option<f64>) -> FamilyDetail {
        FamilyDetail {
            threads,
            quota_cores,
            ..FamilyDetail::default()
        }
    }

    #[test]
    fn a_pinned_worker_counts_and_an_idle_housekeeper_does_not() {
        let before = family(vec![], None);
        let after = family(vec![thread(1, &[0, 1], 10), thread(2, &[1], 1_000)], None);
        assert_eq!(working_cpus(&before, &after), [1]);
        let after = family(vec![thread(1, &[0, 1], 500), thread(2, &[1], 500)], None);
        assert_eq!(
            working_cpus(&before, &after),
            [0, 1],
            "a housekeeper that works counts"
        );
        let after = family(vec![thread(1, &[0], 1_000), thread(2, &[1], 0)], None);
        assert_eq!(
            working_cpus(&before, &after),
            [0, 1],
            "an idle worker that is pinned counts"
        );
        let after = family(vec![thread(1, &[0, 1], 0)], None);
        assert_eq!(
            working_cpus(&before, &after),
            [0, 1],
            "nobody works: all that is allowed"
        );
    }

    #[test]
    fn many_threads_that_share_the_work_count_together() {
        let mut threads: Vec<_> = (1..=40).map(|tid| thread(tid, &[0, 1, 2], 25)).collect();
        threads.push(thread(41, &[1], 0));
        let after = family(threads, None);
        assert_eq!(working_cpus(&family(vec![], None), &after), [0, 1, 2]);
    }

    /// A second of two cores, the server on core 0 with 0.6 of it, the client on `client_cpus` with
    /// 0.3.
    fn second(cores: [CpuTicks; 2], client_cpus: &[u32], quota_cores: Option<f64>) -> Telemetry {
        second_of(cores, client_cpus, quota_cores, false)
    }

    /// The same, of a client some of whose processes are not counted if it `is_partial`.
    fn second_of(
        cores: [CpuTicks; 2],
        client_cpus: &[u32],
        quota_cores: Option<f64>,
        is_partial: bool,
    ) -> Telemetry {
        let reading = |at_ns: u64, cores: [CpuTicks; 2]| {
            let used = |share: f64| FamilyReading {
                cpu_ns: (at_ns as f64 * share) as u64,
                periods: at_ns / 10_000_000,
                throttled_periods: at_ns / 40_000_000,
                ..FamilyReading::default()
            };
            let of = |cpus: &[u32], share: f64, quota| {
                family(vec![thread(1, cpus, (at_ns as f64 * share) as u64)], quota)
            };
            Reading {
                at_ns: at_ns as i64,
                cores: Box::new(cores),
                server: Some(used(0.6)),
                client: Some(FamilyReading {
                    is_partial,
                    ..used(0.3)
                }),
                detail: Some(Box::new(Detail {
                    server: Some(of(&[0], 0.6, quota_cores)),
                    client: Some(of(client_cpus, 0.3, None)),
                    ..Detail::default()
                })),
                ..Reading::default()
            }
        };
        let mut store = Store::new(&Setup::default(), Duration::from_millis(50), None);
        let begin = [core(0, 0, 0, 0), core(1, 0, 0, 0)];
        store.push(reading(0, begin), Some("open"));
        store.push(reading(SECOND_NS, cores), Some("close"));
        store.summarise(0, SECOND_NS as i64)
    }

    fn core(cpu: u32, usr: u64, softirq: u64, idle: u64) -> CpuTicks {
        CpuTicks {
            cpu,
            usr,
            softirq,
            idle,
            ..CpuTicks::default()
        }
    }

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-3
    }

    #[test]
    fn use_is_of_the_processors_or_of_the_quota() {
        let cores = [core(0, 60, 0, 40), core(1, 30, 0, 70)];
        let server = second(cores, &[1], None).server.unwrap();
        assert!(close(server.utilisation, 0.6));
        assert!(close(server.throttled_share, 0.25));
        let server = second(cores, &[1], Some(0.8)).server.unwrap();
        assert!(close(server.utilisation, 0.75));
    }

    #[test]
    fn a_neighbour_is_what_nobody_of_ours_used() {
        let cores = [core(0, 90, 0, 10), core(1, 30, 0, 70)];
        let apart = second(cores, &[1], None);
        assert!(close(apart.server.unwrap().neighbour_cores, 0.3));
        assert!(close(apart.client.unwrap().neighbour_cores, 0.0));
        let shared = second(cores, &[0, 1], None);
        assert!(
            close(shared.server.unwrap().neighbour_cores, 0.0),
            "the client may have run there"
        );
        assert!(close(shared.client.unwrap().neighbour_cores, 0.3));
    }

    #[test]
    fn who_is_not_counted_whole_is_nobodys_neighbour() {
        let cores = [core(0, 95, 0, 5), core(1, 90, 0, 10)];
        let neighbours = |client_cpus: &[u32], is_partial| {
            let telemetry = second_of(cores, client_cpus, None, is_partial);
            let cores = |family: Option<FamilySummary>| family.unwrap().neighbour_cores;
            (cores(telemetry.server), cores(telemetry.client))
        };
        let (server, client) = neighbours(&[1], false);
        assert!(close(server, 0.35) && close(client, 0.6));
        let (server, client) = neighbours(&[1], true);
        assert!(close(server, 0.35) && client == 0.0, "of the client alone");
        assert_eq!(neighbours(&[0, 1], true), (0.0, 0.0), "they meet");
    }

    #[test]
    fn interrupts_of_an_idle_processor_are_no_neighbour() {
        let cores = [core(0, 60, 20, 20), core(1, 30, 0, 70)];
        let server = second(cores, &[1], None).server.unwrap();
        assert!(close(server.neighbour_cores, 0.2 - 0.2 * 0.2), "{server:?}");
        assert!(close(server.cpus_softirq, 0.2));
        assert!(close(server.cpus_busy, 0.8));
    }

    #[test]
    fn interrupts_in_nobodys_thread_are_told_where_all_of_them_are_seen() {
        // The server used 0.4 of a core that was busy for 0.8, 0.3 of it with softirq.
        let server = |irq: u64, softirq_thread: Option<f64>| {
            let reading = |at_ns: u64, core: CpuTicks| {
                let used = |share: f64| (at_ns as f64 * share) as u64;
                Reading {
                    at_ns: at_ns as i64,
                    cores: Box::new([CpuTicks { irq, ..core }]),
                    server: Some(FamilyReading {
                        cpu_ns: used(0.4),
                        ..FamilyReading::default()
                    }),
                    detail: Some(Box::new(Detail {
                        server: Some(family(vec![thread(1, &[0], used(0.4))], None)),
                        softirq_threads: softirq_thread
                            .iter()
                            .map(|share| (0, used(*share)))
                            .collect(),
                        ..Detail::default()
                    })),
                    ..Reading::default()
                }
            };
            let mut store = Store::new(&Setup::default(), Duration::from_millis(50), None);
            store.push(reading(0, core(0, 0, 0, 0)), Some("open"));
            store.push(reading(SECOND_NS, core(0, 50, 30, 20)), Some("close"));
            store.summarise(0, SECOND_NS as i64).server.unwrap()
        };
        let unseen = server(0, None);
        assert_eq!(unseen.interrupt_cores, None);
        assert!(close(unseen.neighbour_cores, 0.4 - 0.3 * 0.2));
        let seen = server(0, Some(0.1));
        assert!(close(seen.interrupt_cores.unwrap(), 0.1 + 0.2 * 0.2));
        assert!(close(seen.neighbour_cores, 0.4 - 0.14), "{seen:?}");
        let counted_apart = server(1_000, None);
        assert!(close(counted_apart.interrupt_cores.unwrap(), 0.3));
        assert!(close(counted_apart.neighbour_cores, 0.1));
    }

    #[test]
    fn a_shaper_made_anew_is_measured_by_the_interface() {
        let shaper = |passed| ShaperReading {
            rate_bits: 8_000,
            passed_bytes: Some(passed),
            drops: 0,
        };
        assert_eq!(
            shaped_share(Some(shaper(100)), shaper(600), SECOND_NS),
            Some(0.5)
        );
        assert_eq!(
            shaped_share(Some(shaper(600)), shaper(100), SECOND_NS),
            None
        );
        assert_eq!(shaped_share(None, shaper(100), SECOND_NS), None);
        assert_eq!(rate_share(250, 8_000, SECOND_NS), Some(0.25));
        assert_eq!(rate_share(250, 0, SECOND_NS), None);
        // A card whose driver states less than what passes is not full: its rate is another one.
        assert_eq!(rate_share(1_100, 8_000, SECOND_NS), Some(1.0));
        assert_eq!(rate_share(2_000, 8_000, SECOND_NS), Some(2.0));
    }
}
