//! The engine alone: no probes, no record, no verdict. What a worker costs, and nothing else.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde::{Deserialize, Serialize};
use wallfinder_engine::{IoChoice, Measured, Signals, StepSpec, precheck, run, unobserved};
use wallfinder_model::drive::Share;
use wallfinder_model::{Arrival, Load, Nanos, Rate, Stop, record};
use wallfinder_sys::clock;
use wallfinder_wire::{Exchange, Request, framed, grpc, tls};

use crate::scenario::{MESSAGE, Speaks};

/// What to drive, and how.
#[derive(Debug, Clone, Args)]
pub struct Spec {
    /// The server.
    pub address: SocketAddr,
    /// The request's target.
    pub path: String,
    /// Connections.
    #[arg(short = 'c', long, default_value_t = 100)]
    pub connections: u32,
    /// Requests in flight on each.
    #[arg(short = 'p', long, default_value_t = 1)]
    pub depth: u32,
    /// How long.
    #[arg(short = 'd', long, default_value_t = 3.0)]
    pub seconds: f64,
    /// How sockets are waited for.
    #[arg(long, value_enum, default_value_t = Way::Auto)]
    pub io: Way,
    /// The protocol; framed messages are a fixed one.
    #[arg(long, value_enum, default_value_t = Speaks::Http1)]
    pub speaks: Speaks,
    /// Requests per second, evenly spaced; none: a closed loop.
    #[arg(short = 'R', long)]
    pub rate: Option<f64>,
    /// Not measured at the start, in seconds.
    #[arg(long, default_value_t = 0.0)]
    pub warmup: f64,
}

/// How sockets are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// As the engine chooses.
    Auto,
    /// epoll.
    Epoll,
    /// io_uring.
    Uring,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// Good answers.
    pub answered: u64,
    /// Everything else.
    pub failed: u64,
    /// The measured window.
    pub seconds: f64,
    /// CPU time of this process until now, user and system.
    pub cpu_seconds: f64,
    /// CPU time of the worker in the window.
    pub worker_cpu_seconds: f64,
    /// Requests that became due in the window.
    pub scheduled: u64,
    /// Of the requests of an open loop: how many were sent within the bound of
    /// [`LATE_NS`], of how many that found a connection free.
    pub on_time: Option<(u64, u64)>,
    /// Lateness that 99.9 % stay below, in microseconds.
    pub lateness_p999_us: Option<f64>,
    /// The most memory this process ever held (VmHWM), in bytes.
    pub memory_bytes_max: u64,
    /// `io_uring` or `epoll`.
    pub io: String,
    /// Waits for events, and events.
    pub waits: u64,
    /// Events handled.
    pub events: u64,
}

/// A request of an open loop is on time when it is sent at most this late.
pub const LATE_NS: u64 = 250_000;

/// Runs it.
pub fn run_engine(spec: &Spec) -> Result<Done, String> {
    let step = step(spec);
    precheck::check(&step.load, &step.address).map_err(|error| error.to_string())?;
    let measured = run(&step, &Arc::new(Signals::default()), &mut unobserved)
        .map_err(|error| error.to_string())?;
    summarise(&measured)
}

fn step(spec: &Spec) -> StepSpec {
    let nanos = |seconds: f64| Nanos((seconds * 1e9) as u64);
    StepSpec {
        load: Load {
            in_flight_per_connection: spec.depth,
            arrival: match spec.rate {
                Some(rate) => Arrival::Constant { rate: Rate(rate) },
                None => Arrival::Closed { think: Nanos(0) },
            },
            warmup: nanos(spec.warmup),
            stop: Stop {
                after: nanos(spec.seconds),
                requests: None,
            },
            timeout: Nanos::from_secs(10),
            ..Load::closed(spec.connections)
        },
        address: spec.address,
        request: exchange(spec),
        tls: spec.speaks.is_secure().then(|| believer(spec.speaks)),
        // Pinned from outside, as the peers are.
        cpus: Vec::new(),
        io: match spec.io {
            Way::Auto => IoChoice::Auto,
            Way::Epoll => IoChoice::Epoll,
            Way::Uring => IoChoice::Uring,
        },
        seed: 1,
        samples: None,
        share: Share::WHOLE,
        slots: None,
        spare_connections: 0,
        standby_connections: 0,
        paddings: Vec::new(),
        under_quota: false,
        speed: 1.0,
    }
}

fn exchange(spec: &Spec) -> Exchange {
    let get = Request::get(spec.address.to_string(), spec.path.clone());
    match spec.speaks {
        Speaks::Http1 | Speaks::Https => Exchange::Http1(get),
        Speaks::Grpc => Exchange::Grpc(grpc::Request::unary(
            spec.address.to_string(),
            spec.path.clone(),
            MESSAGE,
        )),
        Speaks::Http2 | Speaks::Http2Tls => Exchange::Http2(get),
        Speaks::Framed => Exchange::Framed(framed_request()),
    }
}

/// A client that believes the certificate that the server made for the occasion.
fn believer(speaks: Speaks) -> tls::Client {
    let protocol = if speaks.multiplexes() {
        "h2"
    } else {
        "http/1.1"
    };
    tls::Client::new(&tls::Options {
        name: "subject".into(),
        alpn: vec![protocol.into()],
        trust: tls::Trust::Anybody,
        identity: None,
        groups: Vec::new(),
        version: None,
        resumes: true,
    })
    .expect("it asks for nothing that could be wrong")
}

/// The message of framed scenarios, as every contestant sends it.
pub(crate) fn framed_request() -> framed::Request {
    framed::Request {
        format: "u32be".parse().expect("it is a format"),
        message: MESSAGE.to_vec(),
    }
}

fn summarise(measured: &Measured) -> Result<Done, String> {
    let counts = &measured.counts;
    let on_time = match &measured.lateness {
        Some(lateness) => Some((on_time(lateness)?, lateness.count + lateness.beyond)),
        None => None,
    };
    let lateness = measured.lateness.as_ref();
    Ok(Done {
        answered: counts.answered,
        failed: counts.failed.values().sum::<u64>() + counts.connect_failures.values().sum::<u64>(),
        seconds: (measured.window_to_ns - measured.window_from_ns) as f64 / 1e9,
        cpu_seconds: clock::process_cpu_ns() as f64 / 1e9,
        worker_cpu_seconds: measured
            .workers
            .iter()
            .map(|worker| worker.cpu_ns)
            .sum::<u64>() as f64
            / 1e9,
        scheduled: counts.scheduled,
        on_time,
        lateness_p999_us: lateness
            .and_then(|lateness| lateness.quantile_ns("p99.9"))
            .map(|ns| ns as f64 / 1e3),
        memory_bytes_max: memory_bytes_max(
            &std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?,
        )
        .ok_or("VmHWM is missing")?,
        io: measured.io.to_owned(),
        waits: measured.workers.iter().map(|worker| worker.waits).sum(),
        events: measured.workers.iter().map(|worker| worker.events).sum(),
    })
}

/// How many values of the histogram are at most [`LATE_NS`].
fn on_time(lateness: &record::Histogram) -> Result<u64, String> {
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(&lateness.hdr_v2)
        .map_err(|error| error.to_string())?;
    let histogram: Histogram<u64> = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| error.to_string())?;
    Ok(histogram.count_between(0, LATE_NS))
}

/// `VmHWM` of `/proc/PID/status`, in bytes.
fn memory_bytes_max(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wallfinder_engine::histogram::Latencies;

    #[test]
    fn the_peak_of_memory_is_read() {
        let status = "Name:\tx\nVmPeak:\t  9000 kB\nVmHWM:\t    8104 kB\nVmRSS:\t    1 kB\n";
        assert_eq!(memory_bytes_max(status), Some(8104 * 1024));
        assert_eq!(memory_bytes_max("Name:\tx\n"), None);
    }

    #[test]
    fn what_was_on_time_is_counted_from_the_histogram() {
        let mut latencies = Latencies::new();
        for us in [1, 10, 100, 249, 252, 1000] {
            latencies.record(us * 1000);
        }
        assert_eq!(on_time(&latencies.to_record().unwrap()), Ok(4));
    }
}
