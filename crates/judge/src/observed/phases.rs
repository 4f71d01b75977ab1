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
    let rate = step.telemetry.link.as_ref().and_then(|link| link.rate_bits);
    let mut alone: BTreeMap<Wall, usize> = BTreeMap::new();
    for tick in &ticks {
        let span = tick.span_ns as f64;
        let cpu = |used: Option<u64>, side: Option<&Side>| {
            ratio(used? as f64, span).and_then(|cores| ratio(cores, side?.available))
        };
        let bits = |bytes: Option<u64>| ratio(bytes? as f64 * 8e9, span * rate? as f64);
        let uses = [
            (Wall::ServerCpu, cpu(tick.server.map(|f| f.cpu_ns), server)),
            (Wall::ClientCpu, cpu(tick.client.map(|f| f.cpu_ns), client)),
            (Wall::Downlink, bits(tick.link.map(|l| l.tx_bytes))),
            (Wall::Uplink, bits(tick.link.map(|l| l.rx_bytes))),
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
