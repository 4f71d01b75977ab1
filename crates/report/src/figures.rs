//! What follows from a step by a division: N/X, cost per answer, shares of ceilings.
//!
//! The judge's estimators, side by side with shares and rates that need no judgement.
//! `None` is not known, and never 0.

use wallfinder_judge::bounds::is_bound;
use wallfinder_judge::{caveats, cost, identity, little, steady};
use wallfinder_model::record::{Counts, Histogram};
use wallfinder_model::telemetry::{CoreSample, FamilySummary};
use wallfinder_model::{Decode, Step};

use crate::number;
pub use wallfinder_judge::histogram::NAMED as QUANTILES;

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
    /// Whether `mean_ns` and `p50_ns` are of service time, and not of latency.
    pub of_service: bool,
    /// Little's law, where N, X and R are all known.
    pub little: Option<little::Little>,
    /// The 95 % interval of throughput, from the slices within the window.
    pub throughput_interval: Option<(f64, f64)>,
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
    /// What the body of a good answer came to, where all are decoded.
    pub decoded_bytes: Option<f64>,
    /// Messages per good answer, where an answer may have another number than one.
    pub messages: Option<f64>,
    /// Packets from server to client per good answer.
    pub packets_down: Option<f64>,
    /// Packets from client to server per good answer.
    pub packets_up: Option<f64>,
    /// Segments from server to client per good answer.
    pub segments_down: Option<f64>,
    /// The bytes of their headers.
    pub header_bytes_down: Option<f64>,
    /// Segments from client to server per good answer.
    pub segments_up: Option<f64>,
    /// The bytes of their headers.
    pub header_bytes_up: Option<f64>,
    /// Throughput over the calibrated ceiling of the workers.
    pub ceiling_share: Option<f64>,
    /// Failed among all that ended, connections that could not be made among them.
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
        let little = little::check(step);
        let cost = cost::per_answer(step);
        let timed = step.service.as_ref().or(step.latency.as_ref());
        let link = telemetry.link.as_ref();
        Figures {
            n_over_x_ns: little.map(|little| little.n_over_x_s * 1e9),
            mean_ns: little.map(|little| little.mean_s * 1e9).or_else(|| {
                timed
                    .filter(|histogram| histogram.count > 0 && histogram.mean_ns.is_finite())
                    .map(|histogram| histogram.mean_ns)
            }),
            p50_ns: timed
                .and_then(|histogram| histogram.quantile_ns("p50"))
                .map(|ns| ns as f64),
            of_service: step.service.is_some(),
            little,
            throughput_interval: steady::throughput(step)
                .map(|mean| (mean.low, mean.high))
                .filter(|(low, high)| low.is_finite() && high.is_finite()),
            server_cpu_ns: cost.server_cpu_ns,
            client_cpu_ns: cost.client_cpu_ns.or(cost.workers_cpu_ns),
            bytes_in: cost.bytes_in,
            bytes_out: cost.bytes_out,
            body_bytes: known(counts.body_bytes).and_then(|bytes| per(bytes, answered)),
            decoded_bytes: known(counts.decoded_bytes)
                .filter(|_| step.load.decode == Decode::Inflate)
                .and_then(|bytes| per(bytes, answered)),
            messages: known(counts.messages)
                .filter(|_| counts.messages != counts.answered)
                .and_then(|messages| per(messages, answered)),
            packets_down: cost.downlink_packets,
            packets_up: cost.uplink_packets,
            segments_down: cost.downlink_segments,
            header_bytes_down: cost.downlink_header_bytes,
            segments_up: cost.uplink_segments,
            header_bytes_up: cost.uplink_header_bytes,
            ceiling_share: step
                .ceiling
                .as_ref()
                .and_then(|ceiling| per(step.throughput, ceiling.throughput)),
            failed_share: failed_share(counts),
            server_core_max: core_max(step, telemetry.server.as_ref(), telemetry.server_cores()),
            client_core_max: core_max(step, telemetry.client.as_ref(), &telemetry.cores),
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

/// Failures in all that ended; `None` where nothing did.
fn failed_share(counts: &Counts) -> Option<f64> {
    let ended = counts.answered > 0 || identity::worst_class(counts).is_some();
    ended.then(|| identity::failure_share(counts))
}

/// A byte count, unless nothing was counted.
fn known(bytes: u64) -> Option<f64> {
    (bytes > 0).then_some(bytes as f64)
}

/// The mean busy share of the busiest of a family's processors, of those of its host.
fn core_max(step: &Step, family: Option<&FamilySummary>, cores: &[CoreSample]) -> Option<f64> {
    let family = family.filter(|_| !caveats::is_too_short(&step.telemetry))?;
    cores
        .iter()
        .filter(|core| family.cpus_allowed.contains(&core.cpu))
        .map(|core| f64::from(core.busy()))
        .filter(|busy| busy.is_finite())
        .reduce(f64::max)
}

/// A quantile of a step's latency in words: `1.14 ms`, or `≥ 1.14 ms` where requests without an answer could
/// move it.
pub fn latency(step: &Step, name: &str) -> Option<String> {
    let ns = quantile(step.latency.as_ref(), name)?;
    Some(at_least(number::span(ns), is_bound(step, name)))
}

/// A number as it is shown where it is a lower bound.
pub fn at_least(shown: String, is_bound: bool) -> String {
    match is_bound {
        true => format!("≥ {shown}"),
        false => shown,
    }
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

    #[test]
    fn connections_that_could_not_be_made_have_failed() {
        let mut counts = Counts::default();
        assert_eq!(failed_share(&counts), None);
        counts.connect_failures.insert("net.refused".into(), 25);
        assert_eq!(failed_share(&counts), Some(1.0));
        counts.answered = 75;
        assert_eq!(failed_share(&counts), Some(0.25));
        counts.connect_failures.clear();
        assert_eq!(failed_share(&counts), Some(0.0));
    }
}
