//! Phases that alternate: each resource full for a part of the time, no mean near full.
//!
//! Looks at the ticks of telemetry, 50-100 ms each, before averages are trusted.

use std::collections::BTreeMap;

use wallfinder_model::{Step, Wall};

use super::sight::Side;
use crate::finite::ratio;

/// A tick in which a resource was at least this busy belongs to it.
const TICK_FULL: f64 = 0.90;
/// A phase covers at least this share of the ticks.
const SHARE_MIN: f64 = 0.25;
/// Fewer ticks decide nothing.
const TICKS_MIN: usize = 12;

/// Shares of the ticks in which one resource alone was full, where at least two have a
/// phase of their own.
pub(super) fn find(
    step: &Step,
    client: Option<&Side>,
    server: Option<&Side>,
) -> Option<BTreeMap<Wall, f64>> {
    let ticks: Vec<_> = step.series.iter().filter(|tick| tick.at_ns > 0).collect();
    if ticks.len() < TICKS_MIN {
        return None;
    }
    let (down_bits, up_bits) = link_bits(step);
    let mut alone: BTreeMap<Wall, usize> = BTreeMap::new();
    for tick in &ticks {
        let span = tick.span_ns as f64;
        let cpu = |used: Option<u64>, side: Option<&Side>| {
            ratio(used? as f64, span).and_then(|cores| ratio(cores, side?.available))
        };
        let of_rate =
            |bytes: Option<u64>, bits: Option<f64>| ratio(bytes? as f64 * 8e9, span * bits?);
        let uses = [
            (Wall::ServerCpu, cpu(tick.server.map(|f| f.cpu_ns), server)),
            (Wall::ClientCpu, cpu(tick.client.map(|f| f.cpu_ns), client)),
            (
                Wall::Downlink,
                of_rate(tick.link.map(|l| l.tx_bytes), down_bits),
            ),
            (
                Wall::Uplink,
                of_rate(tick.link.map(|l| l.rx_bytes), up_bits),
            ),
        ];
        let full: Vec<Wall> = uses
            .into_iter()
            .filter(|(_, used)| used.is_some_and(|used| used >= TICK_FULL))
            .map(|(wall, _)| wall)
            .collect();
        if let [wall] = full[..] {
            *alone.entry(wall).or_default() += 1;
        }
    }
    let shares: BTreeMap<Wall, f64> = alone
        .into_iter()
        .map(|(wall, count)| (wall, count as f64 / ticks.len() as f64))
        .filter(|(_, share)| *share >= SHARE_MIN)
        .collect();
    (shares.len() >= 2).then_some(shares)
}

/// The rates of downlink and uplink in bits per second. That of the uplink is stated nowhere: it follows
/// from what passed and the share of the rate that this was.
fn link_bits(step: &Step) -> (Option<f64>, Option<f64>) {
    let telemetry = &step.telemetry;
    let Some(link) = &telemetry.link else {
        return (None, None);
    };
    let passed_bits = ratio(
        link.totals.rx_bytes as f64 * 8e9,
        telemetry.window_ns as f64,
    );
    let up_bits = passed_bits
        .zip(link.uplink_share)
        .and_then(|(passed, share)| ratio(passed, share));
    (link.rate_bits.map(|bits| bits as f64), up_bits)
}
