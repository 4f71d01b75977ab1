//! What one good answer cost: processor time on each side, bytes and packets on the link.
//!
//! Processor time of a process leaves out receive work that ran on another processor for
//! it (see the softirq caveats); it is the demand D = U·C/X of the operational laws.

use wallfinder_model::Step;
use wallfinder_model::record::{ThroughputFrom, WorkerSummary};
use wallfinder_model::telemetry::FamilySummary;

use crate::finite::{positive, ratio};

/// Cost of one good answer. `None` where it was not seen; never 0 for not seen.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cost {
    /// Processor time of the driver's processes, nanoseconds; without what workers spent
    /// polling for nothing.
    pub client_cpu_ns: Option<f64>,
    /// Of it, that of the engine's workers.
    pub workers_cpu_ns: Option<f64>,
    /// Processor time of the server's processes, nanoseconds.
    pub server_cpu_ns: Option<f64>,
    /// Bytes from server to client, headers of the link included.
    pub downlink_bytes: Option<f64>,
    /// Bytes from client to server.
    pub uplink_bytes: Option<f64>,
    /// Packets from server to client, as the interface counts them.
    pub downlink_packets: Option<f64>,
    /// Packets from client to server.
    pub uplink_packets: Option<f64>,
    /// Bytes read from the client's sockets.
    pub bytes_in: Option<f64>,
    /// Bytes written to the client's sockets.
    pub bytes_out: Option<f64>,
    /// Segments that the server's host sent, bare acknowledgements among them; known where
    /// client and server are in network namespaces of their own.
    pub downlink_segments: Option<f64>,
    /// Segments that the client's host sent.
    pub uplink_segments: Option<f64>,
    /// Headers of those segments, once for each: Ethernet, IP, and TCP with its time stamps.
    pub downlink_header_bytes: Option<f64>,
    /// The same of the client's.
    pub uplink_header_bytes: Option<f64>,
}

/// The cost of one good answer of a step.
pub fn per_answer(step: &Step) -> Cost {
    let Some(answers) = positive(step.counts.answered as f64) else {
        return Cost::default();
    };
    let each = |total: u64| ratio(total as f64, answers);
    let telemetry = &step.telemetry;
    let share = window_share(step);
    let seen = |total: u64| each(total).map(|value| value * share);
    let passed = |total: u64| match is_whole(step) {
        true => each(total),
        false => seen(total),
    };
    let counted = |total: u64| Some(total).filter(|total| *total > 0);
    let cpu = |family: &Option<FamilySummary>| counted(family.as_ref()?.cpu_ns).and_then(seen);
    let sum = |of: fn(&WorkerSummary) -> u64| {
        let workers = step.workers.iter().map(of);
        workers.fold(0u64, u64::saturating_add)
    };
    let link = telemetry.link.as_ref().map(|link| link.totals);
    let polled = each(sum(|worker| worker.polled_ns)).unwrap_or(0.0);
    let downlink_segments = telemetry
        .client_tcp
        .and(telemetry.tcp)
        .and_then(|tcp| passed(tcp.segments_out));
    let uplink_segments = telemetry
        .client_tcp
        .and_then(|tcp| passed(tcp.segments_out));
    let header = header_bytes(step);
    Cost {
        client_cpu_ns: cpu(&telemetry.client).and_then(|total| positive(total - polled)),
        workers_cpu_ns: counted(sum(|worker| worker.cpu_ns)).and_then(each),
        server_cpu_ns: cpu(&telemetry.server),
        downlink_bytes: link.and_then(|totals| passed(totals.tx_bytes)),
        uplink_bytes: link.and_then(|totals| passed(totals.rx_bytes)),
        downlink_packets: link.and_then(|totals| passed(totals.tx_packets)),
        uplink_packets: link.and_then(|totals| passed(totals.rx_packets)),
        downlink_segments,
        uplink_segments,
        downlink_header_bytes: downlink_segments.map(|segments| segments * header),
        uplink_header_bytes: uplink_segments.map(|segments| segments * header),
        bytes_in: counted(step.counts.bytes_in).and_then(each),
        bytes_out: counted(step.counts.bytes_out).and_then(each),
    }
}

/// Whether what went over the network was counted from the first request to the last: a number of
/// requests without a warm-up, of our engine.
fn is_whole(step: &Step) -> bool {
    let (load, driver) = (&step.load, &step.driver);
    driver.throughput_from == ThroughputFrom::Engine
        && load.stop.requests.is_some()
        && load.warmup.0 == 0
}

/// What stands before the data of a segment: the headers of Ethernet, IP and TCP, with the time
/// stamps (RFC 7323) that Linux asks for unless it is told not to.
pub(crate) fn header_bytes(step: &Step) -> f64 {
    const ETHERNET: f64 = 14.0;
    const TCP: f64 = 20.0 + 12.0;
    let is_v6 = step.target.address.starts_with('[');
    let ip = if is_v6 { 40.0 } else { 20.0 };
    ETHERNET + ip + TCP
}

/// The measured window over the time that samples cover: the samples' ticks need not
/// begin and end with the window.
fn window_share(step: &Step) -> f64 {
    ratio(step.window_ns as f64, step.telemetry.window_ns as f64)
        .filter(|share| (0.5..=2.0).contains(share))
        .unwrap_or(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::a_step;
    use wallfinder_model::telemetry::TcpSample;

    #[test]
    fn cost_is_time_over_answers_on_each_side() {
        let step = a_step()
            .throughput(10_000.0)
            .server(1.0, 0.5)
            .client(1.0, 0.25)
            .build();
        let cost = per_answer(&step);
        assert!((cost.server_cpu_ns.unwrap() - 50_000.0).abs() < 1.0);
        assert!((cost.client_cpu_ns.unwrap() - 25_000.0).abs() < 1.0);
    }

    #[test]
    fn segments_of_a_direction_are_known_where_the_sides_are_apart() {
        let sent = |segments_out| {
            Some(TcpSample {
                segments_out,
                ..TcpSample::default()
            })
        };
        let mut step = a_step().throughput(10_000.0).build();
        let answers = step.counts.answered;
        step.telemetry.tcp = sent(3 * answers);
        assert_eq!(per_answer(&step).downlink_segments, None, "whose are they?");
        step.telemetry.client_tcp = sent(2 * answers);
        let cost = per_answer(&step);
        let near = |value: Option<f64>, wanted: f64| (value.unwrap() / wanted - 1.0).abs() < 0.01;
        assert!(near(cost.downlink_segments, 3.0) && near(cost.uplink_segments, 2.0));
        assert!(near(cost.downlink_header_bytes, 3.0 * 66.0));
        assert!(near(cost.uplink_header_bytes, 2.0 * 66.0));
    }

    #[test]
    fn what_was_not_seen_is_not_zero() {
        let step = a_step().throughput(10_000.0).without_server().build();
        assert_eq!(per_answer(&step).server_cpu_ns, None);
        let step = a_step().throughput(0.0).server(1.0, 0.5).build();
        assert_eq!(per_answer(&step), Cost::default());
    }
}
