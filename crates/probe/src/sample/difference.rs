//! Two readings subtracted: a tick's sample.
//!
//! Nothing here knows of windows. Counters that fell, as when an interface was made anew, count as
//! standing still.

use wallfinder_model::telemetry::{CoreSample, FamilySample, LinkSample, Sample, TcpSample};

use crate::parse::host::CpuTicks;
use crate::sample::reading::{FamilyDetail, FamilyReading, Reading, Side};

/// How switches split into voluntary and not, known every 500 ms, spread over the ticks between.
pub(crate) struct Switches {
    known: Vec<KnownSwitches>,
}

/// When, and totals of the client and of the server.
type KnownSwitches = (i64, Option<Split>, Option<Split>);
/// Voluntary and involuntary.
type Split = (u64, u64);

impl Switches {
    pub(crate) fn of(readings: &[Reading]) -> Switches {
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
pub(crate) fn sample(before: &Reading, after: &Reading, switches: &Switches) -> Sample {
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
        server_cores: Vec::new(),
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
pub(crate) fn user_part(before: &FamilyReading, after: &FamilyReading, cpu_ns: u64) -> u64 {
    let user = after.user_ticks.saturating_sub(before.user_ticks);
    let system = after.system_ticks.saturating_sub(before.system_ticks);
    match user + system {
        0 => 0,
        all => (cpu_ns as f64 * user as f64 / all as f64) as u64,
    }
}

/// Shares of the processors that were online at both instants.
pub(crate) fn core_samples(before: &[CpuTicks], after: &[CpuTicks]) -> Vec<CoreSample> {
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

pub(crate) fn link_difference(
    before: Option<LinkSample>,
    after: Option<LinkSample>,
) -> Option<LinkSample> {
    let (before, after) = (before?, after?);
    Some(LinkSample {
        rx_bytes: after.rx_bytes.saturating_sub(before.rx_bytes),
        rx_packets: after.rx_packets.saturating_sub(before.rx_packets),
        tx_bytes: after.tx_bytes.saturating_sub(before.tx_bytes),
        tx_packets: after.tx_packets.saturating_sub(before.tx_packets),
        drops: after.drops.saturating_sub(before.drops),
    })
}

pub(crate) fn tcp_difference(
    before: Option<TcpSample>,
    after: Option<TcpSample>,
) -> Option<TcpSample> {
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
