//! Records to store: a plain one, and any one.

#![allow(dead_code)] // each test binary uses its own part

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use wallfinder_model::plan::{Load, Plan, StepPlan, Target};
use wallfinder_model::record::{
    Counts, Driver, Histogram, Interval, Record, SCHEMA, Step, ThroughputFrom,
};
use wallfinder_model::telemetry::{
    CoreSample, FamilySample, LinkSample, Sample, TcpSample, Telemetry,
};
use wallfinder_model::{Environment, Nanos};

/// A fresh folder, removed when dropped.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("wf-store-{}-{nth}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn target() -> Target {
    Target {
        url: "http://127.0.0.1:8083/read".into(),
        scheme: "http".into(),
        host: "127.0.0.1".into(),
        port: 8083,
        path: "/read".into(),
        address: "127.0.0.1:8083".into(),
        tls: None,
    }
}

pub(crate) fn load() -> Load {
    Load {
        warmup: Nanos::from_millis(200),
        timeout: Nanos::from_secs(10),
        ..Load::closed(100)
    }
}

/// A record of a plan with this many steps, none measured yet.
pub(crate) fn record(id: &str, planned: u32) -> Record {
    let steps = (0..planned)
        .map(|index| StepPlan {
            name: format!("/read c=100 #{index}"),
            target: target(),
            load: load(),
        })
        .collect();
    Record {
        schema: SCHEMA.into(),
        id: id.into(),
        started_utc: "2026-11-20T14:02:11.000Z".into(),
        tool_version: "0.1.0".into(),
        command_line: vec!["wallfinder".into(), "ramp".into()],
        plan: Plan {
            name: "ramp-read".into(),
            command: "ramp".into(),
            target: target(),
            steps,
            seed: 7,
            client_cpus: vec![1],
            server_cpus: vec![0],
            subject: None,
            driver: None,
            link: None,
            effort: None,
            study: None,
        },
        environment: Environment::default(),
        server_environment: None,
        steps: vec![],
        caveats: vec![],
        complete: true,
        interrupted: None,
        ab: None,
        sizes: None,
        scenario: None,
        charts: Vec::new(),
        claims: vec![],
    }
}

/// A step that begins.
pub(crate) fn step_begun(index: u32) -> Step {
    Step {
        index,
        name: format!("/read c=100 #{index}"),
        target: target(),
        load: load(),
        driver: Driver {
            name: "wallfinder".into(),
            command: None,
            io: Some("epoll".into()),
            throughput_from: ThroughputFrom::Engine,
            latency_from_intended: true,
            answered: None,
        },
        started_utc: "2026-11-20T14:02:12.000Z".into(),
        window_ns: 0,
        counts: Counts::default(),
        throughput: 0.0,
        in_flight_mean: 0.0,
        latency: None,
        service: None,
        first_byte: None,
        lateness: None,
        intervals: vec![],
        outages: vec![],
        requests: vec![],
        sessions: vec![],
        mix_windows: vec![],
        pool: None,
        interference: vec![],
        telemetry: Telemetry::default(),
        ceiling: None,
        clients: Vec::new(),
        samples: None,
        profiles: None,
        client_profiles: None,
        caveats: vec![],
        workers: vec![],
        verdict: None,
        experiment: None,
        cell: None,
        fairness: None,
        drained: None,
        open_connections: None,
        series: vec![],
    }
}

/// The `nth` interval of 100 ms, from 0.
pub(crate) fn interval(nth: u64) -> Interval {
    Interval {
        at_ns: (nth + 1) * 100_000_000,
        span_ns: 100_000_000,
        answered: 1_000 + nth,
        failed: 0,
        scheduled: 1_000 + nth,
        bytes_in: 4_000_000,
        in_flight: 100,
        p50_ns: 3_400_000,
        p99_ns: 5_100_000,
        max_ns: 9_000_000,
    }
}

pub(crate) fn sample(nth: i64) -> Sample {
    let core = |cpu| CoreSample {
        cpu,
        usr: 0.5,
        sys: 0.25,
        irq: 0.0,
        softirq: 0.1,
        steal: 0.0,
        idle: 0.15,
    };
    Sample {
        server_cores: Vec::new(),
        at_ns: (nth - 1) * 50_000_000,
        span_ns: 50_000_000,
        cores: vec![core(0), core(1)],
        client: None,
        server: (nth % 2 == 0).then(|| FamilySample {
            processes: 1,
            cpu_ns: 49_000_000,
            hottest_thread_share: 0.7,
            ..FamilySample::default()
        }),
        link: Some(LinkSample {
            tx_bytes: 5_000_000,
            ..LinkSample::default()
        }),
        tcp: Some(TcpSample::default()),
        switches: 1234,
        runnable: 2,
    }
}

/// A step that ended, with twelve intervals (two of warm-up) and telemetry.
pub(crate) fn step_ended(index: u32) -> Step {
    let mut step = step_begun(index);
    step.window_ns = 1_000_000_000;
    step.intervals = (0..12).map(interval).collect();
    step.series = (0..24).map(sample).collect();
    step.counts.answered = 10_065;
    step.counts.scheduled = 10_065;
    step.counts.in_flight_start = 100;
    step.counts.in_flight_end = 100;
    step.throughput = 10_065.0;
    step.in_flight_mean = 100.0;
    step.latency = Some(Histogram {
        hdr_v2: "HISTEwAAAAMAAAAAAAAAAw==".into(),
        count: 10_065,
        beyond: 0,
        mean_ns: 3.4e6,
        stdev_ns: 1.0 / 3.0,
        min_ns: 1_000,
        max_ns: 9_000_000,
        quantiles_ns: [("p50".to_string(), 3_400_000)].into(),
    });
    step
}
