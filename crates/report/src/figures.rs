//! What follows from a step by a division: N/X, cost per answer, shares of ceilings.
//!
//! `None` is not known, and never 0. No judgement: that is the judge's.

use wallfinder_model::Step;
use wallfinder_model::record::Histogram;
use wallfinder_model::telemetry::FamilySummary;

/// Quantiles in the order of tables.
pub const QUANTILES: [(&str, f64); 7] = [
    ("p50", 0.5),
    ("p75", 0.75),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// A quotient, where it is a number.
fn per(value: f64, by: f64) -> Option<f64> {
    let quotient = value / by;
    (by > 0.0 && quotient.is_finite()).then_some(quotient)
}

/// Derived quantities of one step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Figures {
    /// Mean in flight divided by throughput: the time in the system by Little's law.
    pub n_over_x_ns: Option<f64>,
    /// Mean of the time that N/X should equal: service time, or latency without it.
    pub mean_ns: Option<f64>,
    /// Its median.
    pub p50_ns: Option<f64>,
    /// `n_over_x_ns / mean_ns`.
    pub little_ratio: Option<f64>,
    /// CPU time of the server's processes per good answer.
    pub server_cpu_ns: Option<f64>,
    /// CPU time of the driver per good answer.
    pub client_cpu_ns: Option<f64>,
    /// Bytes read per good answer.
    pub bytes_in: Option<f64>,
    /// Bytes written per good answer.
    pub bytes_out: Option<f64>,
    /// Bytes of body per good answer.
    pub body_bytes: Option<f64>,
    /// Packets from server to client per good answer.
    pub packets_down: Option<f64>,
    /// Packets from client to server per good answer.
    pub packets_up: Option<f64>,
    /// Throughput over the calibrated ceiling of the lanes.
    pub ceiling_share: Option<f64>,
    /// Failed among answered and failed.
    pub failed_share: Option<f64>,
    /// Busiest of the server's processors, 0..1.
    pub server_core_max: Option<f64>,
    /// Busiest of the client's processors, 0..1.
    pub client_core_max: Option<f64>,
    /// The busier direction of the link, 0..1.
    pub link_share: Option<f64>,
    /// Bytes read per second.
    pub bytes_in_rate: Option<f64>,
    /// Bytes written per second.
    pub bytes_out_rate: Option<f64>,
    /// CPU time of the sampler over that of the window, in cores.
    pub observer_cores: Option<f64>,
}

impl Figures {
    /// Derives them.
    pub fn of(step: &Step) -> Figures {
        let counts = &step.counts;
        let answered = counts.answered as f64;
        let seconds = step.window_ns as f64 / 1e9;
        let telemetry = &step.telemetry;
        let timed = step.service.as_ref().or(step.latency.as_ref());
        let mean_ns = timed
            .filter(|histogram| histogram.count > 0)
            .map(|histogram| histogram.mean_ns)
            .filter(|mean| mean.is_finite() && *mean > 0.0);
        let n_over_x_ns =
            per(step.in_flight_mean * 1e9, step.throughput).filter(|_| step.in_flight_mean > 0.0);
        let lane_cpu: u64 = step
            .lanes
            .iter()
            .fold(0, |sum: u64, lane| sum.saturating_add(lane.cpu_ns));
        let client_cpu = match &telemetry.client {
            Some(client) => Some(client.cpu_ns),
            None => (lane_cpu > 0).then_some(lane_cpu),
        };
        let link = telemetry.link.as_ref();
        let failed = counts
            .failed
            .values()
            .fold(0.0, |sum, count| sum + *count as f64);
        Figures {
            n_over_x_ns,
            mean_ns,
            p50_ns: timed
                .and_then(|histogram| histogram.quantile_ns("p50"))
                .map(|ns| ns as f64),
            little_ratio: n_over_x_ns
                .zip(mean_ns)
                .and_then(|(n_over_x, mean)| per(n_over_x, mean)),
            server_cpu_ns: telemetry
                .server
                .as_ref()
                .and_then(|server| per(server.cpu_ns as f64, answered)),
            client_cpu_ns: client_cpu.and_then(|cpu| per(cpu as f64, answered)),
            bytes_in: known(counts.bytes_in).and_then(|bytes| per(bytes, answered)),
            bytes_out: known(counts.bytes_out).and_then(|bytes| per(bytes, answered)),
            body_bytes: known(counts.body_bytes).and_then(|bytes| per(bytes, answered)),
            packets_down: link.and_then(|link| per(link.totals.tx_packets as f64, answered)),
            packets_up: link.and_then(|link| per(link.totals.rx_packets as f64, answered)),
            ceiling_share: step
                .ceiling
                .as_ref()
                .and_then(|ceiling| per(step.throughput, ceiling.throughput)),
            failed_share: per(failed, answered + failed),
            server_core_max: core_max(step, telemetry.server.as_ref()),
            client_core_max: core_max(step, telemetry.client.as_ref()),
            link_share: link.and_then(|link| match (link.downlink_share, link.uplink_share) {
                (Some(down), Some(up)) => Some(down.max(up)),
                (down, up) => down.or(up),
            }),
            bytes_in_rate: known(counts.bytes_in).and_then(|bytes| per(bytes, seconds)),
            bytes_out_rate: known(counts.bytes_out).and_then(|bytes| per(bytes, seconds)),
            observer_cores: (telemetry.samples > 0)
                .then(|| per(telemetry.observer_cpu_ns as f64, telemetry.window_ns as f64))
                .flatten(),
        }
    }
}

/// A byte count, unless nothing was counted.
fn known(bytes: u64) -> Option<f64> {
    (bytes > 0).then_some(bytes as f64)
}

/// The mean busy share of the busiest of a family's processors.
fn core_max(step: &Step, family: Option<&FamilySummary>) -> Option<f64> {
    let family = family?;
    step.telemetry
        .cores
        .iter()
        .filter(|core| family.cpus_allowed.contains(&core.cpu))
        .map(|core| f64::from(core.busy()))
        .filter(|busy| busy.is_finite())
        .reduce(f64::max)
}

/// A histogram's quantile as a float, `None` where it is not known.
pub fn quantile(histogram: Option<&Histogram>, name: &str) -> Option<f64> {
    histogram?.quantile_ns(name).map(|ns| ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_division_by_nothing_is_unknown() {
        assert_eq!(per(1.0, 0.0), None);
        assert_eq!(per(f64::NAN, 1.0), None);
        assert_eq!(per(3.0, 2.0), Some(1.5));
    }
}
