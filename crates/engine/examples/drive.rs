//! Drives a URL's host for some seconds and prints the bare numbers: the engine alone,
//! without probes, record or verdict.
//!
//! `cargo run --release -p wallfinder-engine --example drive -- 127.0.0.1:8083 /simple 100 1 5 1 [uring|epoll]`

use std::sync::Arc;

use wallfinder_engine::{IoChoice, Signals, StepSpec, run, unobserved};
use wallfinder_model::drive::Share;
use wallfinder_model::{Load, Nanos, Stop};
use wallfinder_wire::http1::Request;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [address, path, connections, depth, seconds, cpu, rest @ ..] = words.as_slice() else {
        return Err("drive ADDRESS PATH CONNECTIONS DEPTH SECONDS CPU [uring|epoll]".into());
    };
    let spec = StepSpec {
        load: Load {
            in_flight_per_connection: depth.parse()?,
            warmup: Nanos::from_millis(500),
            stop: Stop {
                after: Nanos::from_secs(seconds.parse()?),
                requests: None,
            },
            timeout: Nanos::from_secs(10),
            ..Load::closed(connections.parse()?)
        },
        address: address.parse()?,
        request: Request::get(address, path).into(),
        tls: None,
        cpus: vec![cpu.parse()?],
        io: match rest.first().map(String::as_str) {
            Some("epoll") => IoChoice::Epoll,
            Some("uring") => IoChoice::Uring,
            _ => IoChoice::Auto,
        },
        seed: 1,
        share: Share::WHOLE,
        slots: None,
        samples: None,
        spare_connections: 0,
        standby_connections: 0,
        paddings: Vec::new(),
        under_quota: false,
        speed: 1.0,
    };
    let measured = run(&spec, &Arc::new(Signals::default()), &mut unobserved)?;
    let worker = &measured.workers[0];
    println!(
        "{:?}\n{:8} {:>9.0}/s  busy {:.2}  cpu/req {:.3} µs  p50 {:?}  in flight {:.1}  waits {} events {} failed {:?}",
        measured
            .latency
            .as_ref()
            .map(|l| (l.mean_ns as u64, &l.quantiles_ns, l.max_ns)),
        measured.io,
        measured.throughput,
        worker.busy_share,
        worker.cpu_ns as f64 / 1e3 / worker.answered.max(1) as f64,
        measured.latency.as_ref().and_then(|l| l.quantile_ns("p50")),
        measured.in_flight_mean,
        worker.waits,
        worker.events,
        measured.counts.failed,
    );
    Ok(())
}
