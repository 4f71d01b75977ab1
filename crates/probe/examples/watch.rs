//! Watches a process and its descendants for three seconds: `cargo run --example watch -- PID
//! [INTERFACE]`.

use std::time::Duration;

use wallfinder_probe::{Sampler, Setup, family_of};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let pid = arguments
        .next()
        .ok_or("usage: watch PID [INTERFACE]")?
        .parse()?;
    let sampler = Sampler::start(Setup {
        tick: Duration::from_millis(50),
        server: Some(family_of(pid)?),
        interface: arguments.next(),
        ..Setup::default()
    })?;
    let from = sampler.mark("start");
    println!("   ms  procs  threads    cpu  waiting  hottest  switches  cores");
    for _ in 0..12 {
        std::thread::sleep(Duration::from_millis(250));
        let Some(sample) = sampler.latest() else {
            continue;
        };
        let server = sample.server.unwrap_or_default();
        let share = |ns: u64| 100.0 * ns as f64 / sample.span_ns as f64;
        let cores: Vec<String> = sample
            .cores
            .iter()
            .map(|core| format!("{:3.0}%", 100.0 * core.busy()))
            .collect();
        println!(
            "{:5}  {:5}  {:7}  {:4.0}%  {:6.0}%  {:6.0}%  {:8}  {}",
            (sample.at_ns - from) / 1_000_000,
            server.processes,
            server.threads,
            share(server.cpu_ns),
            share(server.run_wait_ns),
            100.0 * server.hottest_thread_share,
            server.switches_voluntary + server.switches_involuntary,
            cores.join(" "),
        );
    }
    let to = sampler.mark("end");
    let series = sampler.stop();
    let telemetry = series.summarise(from, to);
    println!("{telemetry:#?}");
    let per_tick = telemetry.observer_cpu_ns as f64 / f64::from(telemetry.samples.max(1)) / 1e6;
    println!(
        "observing took {per_tick:.3} ms of CPU a tick; {:?}",
        series.gaps()
    );
    Ok(())
}
