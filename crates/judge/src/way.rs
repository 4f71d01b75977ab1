//! The way between two hosts, where it is neither's to squeeze: what both ends see of it.

use wallfinder_model::telemetry::SocketsSummary;
use wallfinder_model::{Reason, Step};

use crate::finite::{known, ratio};

/// From this share of a connection's time on it is the way that requests spend their time on.
const BUSY_MIN: f64 = 0.5;
/// So few connections are what a network that bounds each would hold.
const FLOWS_MAX: u32 = 2;

/// Share of a connection's time in which an answer is on its way to another host.
pub(crate) fn busy_share(step: &Step) -> Option<f64> {
    step.telemetry.server_host.as_ref()?;
    known(step.telemetry.server_sockets.as_ref()?.busy_share?)
}

/// That answers are on their way for most of the time, and what is seen of that.
pub(crate) fn taken_up(step: &Step, squeezed: bool) -> Option<Reason> {
    let telemetry = &step.telemetry;
    let busy_share = busy_share(step).filter(|busy| *busy >= BUSY_MIN)?;
    let sockets = telemetry.server_sockets.as_ref()?;
    let tcp = telemetry.tcp.filter(|tcp| tcp.segments_out > 0);
    let sent = telemetry.link.as_ref().map(|link| link.totals.tx_bytes);
    let flows = step.load.connections;
    let flow_bits = sent.filter(|_| flows <= FLOWS_MAX).and_then(|bytes| {
        let bits = 8e9 * bytes as f64 / f64::from(flows.max(1));
        ratio(bits, telemetry.window_ns as f64)
    });
    Some(Reason::BetweenHosts {
        busy_share,
        rtt_us: sockets.rtt_p50_us,
        rtt_min_us: sockets.rtt_min_us,
        sent_again: tcp.map(|tcp| tcp.retransmits as f64 / tcp.segments_out as f64),
        flow_bits,
        squeezed,
    })
}

/// The round trip of the way itself, in microseconds: without what waits in its queues, where that is known.
pub(crate) fn round_trip_us(sockets: &SocketsSummary) -> u32 {
    sockets.rtt_min_us.unwrap_or(sockets.rtt_p50_us)
}
