//! A test double of a measured step: a closed loop on one machine, client on processor 1,
//! server on processor 0, everything idle, until a test says otherwise.

use std::collections::BTreeMap;

use wallfinder_model::plan::{Arrival, Load, Stop, Target};
use wallfinder_model::record::{
    Ceiling, Counts, Driver, Histogram, Interval, Step, ThroughputFrom, WorkerSummary,
};
use wallfinder_model::telemetry::{
    CoreSample, FamilySummary, LinkSample, LinkSummary, Telemetry, ThreadShare,
};
use wallfinder_model::{Environment, Nanos, Plan, Rate, Record};

/// Length of the window.
pub(crate) const WINDOW_NS: u64 = 10_000_000_000;

/// The machine of the double: two processors.
pub(crate) fn a_machine() -> Environment {
    Environment {
        cpus: 2,
        cpus_allowed: vec![0, 1],
        ..Environment::default()
    }
}

/// A step to be told what it saw.
pub(crate) struct DoubleStep {
    step: Step,
}

/// A closed loop of 64 in flight at 10,000 requests per second, with both sides seen idle.
pub(crate) fn a_step() -> DoubleStep {
    let family = |name: &str, cpu: u32| FamilySummary {
        name: name.to_owned(),
        processes: 1,
        threads: 1,
        cpus_allowed: vec![cpu],
        ..FamilySummary::default()
    };
    let telemetry = Telemetry {
        window_ns: WINDOW_NS,
        samples: 100,
        cores: (0..2)
            .map(|cpu| CoreSample {
                cpu,
                idle: 1.0,
                ..CoreSample::default()
            })
            .collect(),
        cores_busy_p95: vec![0.0; 2],
        client: Some(family("wallfinder", 1)),
        server: Some(family("server", 0)),
        ..Telemetry::default()
    };
    let step = Step {
        index: 0,
        name: "double".to_owned(),
        target: Target {
            url: "http://127.0.0.1:8083/simple".to_owned(),
            scheme: "http".to_owned(),
            host: "127.0.0.1".to_owned(),
            port: 8083,
            path: "/simple".to_owned(),
            address: "127.0.0.1:8083".to_owned(),
            tls: None,
        },
        load: Load {
            stop: Stop {
                after: Nanos(WINDOW_NS),
                requests: None,
            },
            timeout: Nanos::from_secs(10),
            ..Load::closed(64)
        },
        driver: Driver {
            name: "wallfinder".to_owned(),
            command: None,
            io: Some("epoll".to_owned()),
            throughput_from: ThroughputFrom::Engine,
            latency_from_intended: true,
            answered: None,
        },
        started_utc: "2026-11-20T14:00:00Z".to_owned(),
        window_ns: WINDOW_NS,
        counts: Counts::default(),
        throughput: 0.0,
        in_flight_mean: 64.0,
        latency: None,
        service: None,
        first_byte: None,
        lateness: None,
        intervals: Vec::new(),
        telemetry,
        ceiling: None,
        clients: Vec::new(),
        samples: None,
        profiles: None,
        client_profiles: None,
        caveats: Vec::new(),
        workers: vec![WorkerSummary {
            worker: 0,
            cpu: Some(1),
            connections: 64,
            waits: 1_000,
            events: 1_000,
            ..WorkerSummary::default()
        }],
        verdict: None,
        experiment: None,
        cell: None,
        fairness: None,
        drained: None,
        open_connections: None,
        outages: Vec::new(),
        requests: Vec::new(),
        sessions: Vec::new(),
        mix_windows: Vec::new(),
        pool: None,
        interference: Vec::new(),
        series: Vec::new(),
    };
    DoubleStep { step }
        .throughput(10_000.0)
        .server(1.0, 0.02)
        .client(1.0, 0.02)
}

/// A distribution known by mean and median alone.
pub(crate) fn times(mean_ms: f64, p50_ms: f64, count: u64) -> Histogram {
    Histogram {
        hdr_v2: String::new(),
        count,
        beyond: 0,
        mean_ns: mean_ms * 1e6,
        stdev_ns: 0.0,
        min_ns: (p50_ms * 0.5e6) as u64,
        max_ns: (mean_ms * 4e6) as u64,
        quantiles_ns: BTreeMap::from([
            ("p50".to_owned(), (p50_ms * 1e6) as u64),
            ("p99".to_owned(), (mean_ms * 2e6) as u64),
        ]),
    }
}

impl DoubleStep {
    pub(crate) fn throughput(mut self, per_second: f64) -> Self {
        self.step.throughput = per_second;
        self.step.counts.answered = (per_second * WINDOW_NS as f64 / 1e9) as u64;
        self.step.counts.scheduled = self.step.counts.answered;
        self
    }

    pub(crate) fn in_flight(mut self, mean: f64) -> Self {
        self.step.in_flight_mean = mean;
        self.step.load.connections = mean.ceil() as u32;
        self
    }

    pub(crate) fn latency_ms(mut self, mean: f64, p50: f64) -> Self {
        let histogram = times(mean, p50, self.step.counts.answered);
        self.step.latency = Some(histogram.clone());
        self.step.service = Some(histogram);
        self
    }

    /// The server may use `cores` processors, from 0 on, and was busy for `share` of them.
    pub(crate) fn server(mut self, cores: f64, share: f64) -> Self {
        let family = self.step.telemetry.server.get_or_insert_default();
        occupy(family, 0, cores, share);
        self.step.telemetry.mirror_cores();
        self
    }

    /// The client may use `cores` processors, from 1 on, and was busy for `share` of them.
    pub(crate) fn client(mut self, cores: f64, share: f64) -> Self {
        let family = self.step.telemetry.client.get_or_insert_default();
        occupy(family, 1, cores, share);
        for worker in &mut self.step.workers {
            worker.busy_share = share;
            worker.cpu_ns = (share * WINDOW_NS as f64) as u64;
            worker.answered = self.step.counts.answered;
        }
        self.step.telemetry.mirror_cores();
        self
    }

    pub(crate) fn without_server(mut self) -> Self {
        self.step.telemetry.server = None;
        self
    }

    /// A foreign driver: no workers, no ceiling.
    pub(crate) fn driver(mut self, name: &str) -> Self {
        self.step.driver.name = name.to_owned();
        self.step.driver.command = Some(format!("{name} http://127.0.0.1:8083/"));
        self.step.driver.io = None;
        self.step.driver.throughput_from = ThroughputFrom::Report;
        self.step.workers.clear();
        self.step.ceiling = None;
        if let Some(family) = &mut self.step.telemetry.client {
            family.name = name.to_owned();
        }
        self
    }

    pub(crate) fn link(mut self, downlink: f64, uplink: f64) -> Self {
        self.step.telemetry.link = Some(LinkSummary {
            interface: "veth0".to_owned(),
            rate_bits: Some(1_000_000_000),
            totals: LinkSample {
                tx_bytes: (downlink * 1.25e9) as u64,
                rx_bytes: (uplink * 1.25e9) as u64,
                tx_packets: 1_000_000,
                rx_packets: 1_000_000,
                drops: 0,
            },
            downlink_share: Some(downlink),
            uplink_share: Some(uplink),
            mtu: Some(1500),
            ..LinkSummary::default()
        });
        self
    }

    pub(crate) fn ceiling(mut self, throughput: f64) -> Self {
        self.step.ceiling = Some(Ceiling {
            throughput,
            workers_saturated: true,
            cpu_per_request_ns: 1e9 / throughput,
            driven: throughput,
            age_s: None,
            host: None,
            of_hosts: Vec::new(),
        });
        self
    }

    /// An open loop at this rate.
    pub(crate) fn open(mut self, rate: f64) -> Self {
        self.step.load.arrival = Arrival::Constant { rate: Rate(rate) };
        self.step.counts.scheduled = (rate * WINDOW_NS as f64 / 1e9) as u64;
        self.step.counts.not_sent =
            self.step.counts.scheduled as i64 - self.step.counts.answered as i64;
        self
    }

    /// Requests per second in slices of 100 ms.
    pub(crate) fn slices(mut self, rates: &[f64]) -> Self {
        self.step.intervals = rates
            .iter()
            .enumerate()
            .map(|(i, rate)| Interval {
                at_ns: (i as u64 + 1) * 100_000_000,
                span_ns: 100_000_000,
                answered: (rate / 10.0) as u64,
                ..Interval::default()
            })
            .collect();
        self
    }

    pub(crate) fn hottest_server(mut self, name: &str, share: f64) -> Self {
        if let Some(family) = &mut self.step.telemetry.server {
            family.threads = family.threads.max(2);
            family.hottest_thread = Some(thread(name, share));
        }
        self
    }

    pub(crate) fn hottest_client(mut self, name: &str, share: f64) -> Self {
        if let Some(family) = &mut self.step.telemetry.client {
            family.hottest_thread = Some(thread(name, share));
        }
        self
    }

    /// Any other change.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut Step)) -> Self {
        change(&mut self.step);
        self
    }

    pub(crate) fn build(self) -> Step {
        self.step
    }
}

fn thread(name: &str, share: f64) -> ThreadShare {
    ThreadShare {
        tid: 1,
        name: name.to_owned(),
        share,
    }
}

/// Fills a family: `cores` below 1 is a quota on one processor.
fn occupy(family: &mut FamilySummary, first: u32, cores: f64, share: f64) {
    let cpus = cores.ceil() as u32;
    family.cpus_allowed = (first..first + cpus).collect();
    family.quota_cores = (cores < f64::from(cpus)).then_some(cores);
    family.utilisation = share;
    family.cpu_ns = (share * cores * WINDOW_NS as f64) as u64;
    family.cpus_busy = share * cores / f64::from(cpus);
    family.hottest_thread = Some(thread("main", (share * cores).min(1.0)));
}

/// Processors as the families on them imply.
trait MirrorCores {
    fn mirror_cores(&mut self);
}

impl MirrorCores for Telemetry {
    fn mirror_cores(&mut self) {
        let families = [&self.client, &self.server];
        for core in &mut self.cores {
            let busy: f64 = families
                .into_iter()
                .flatten()
                .filter(|family| family.cpus_allowed.contains(&core.cpu))
                .map(|family| family.cpu_ns as f64 / family.cpus_allowed.len() as f64)
                .sum::<f64>()
                / WINDOW_NS as f64;
            core.usr = busy.min(1.0) as f32;
            core.idle = 1.0 - core.usr;
        }
    }
}

/// Reproducible noise.
pub(crate) struct Noise {
    state: u64,
}

impl Noise {
    pub(crate) fn new(seed: u64) -> Noise {
        Noise {
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        }
    }

    /// Uniform in 0..1 (xorshift64*).
    pub(crate) fn uniform(&mut self) -> f64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let bits = self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        bits as f64 / (1u64 << 53) as f64
    }

    /// Normal with mean 0 and deviation 1 (Irwin-Hall of twelve).
    pub(crate) fn gauss(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A complete record of these steps.
pub(crate) fn a_record(steps: Vec<Step>) -> Record {
    let target = steps
        .first()
        .map_or_else(|| a_step().build().target, |step| step.target.clone());
    Record {
        schema: wallfinder_model::record::SCHEMA.to_owned(),
        id: "double".to_owned(),
        started_utc: "2026-11-20T14:00:00Z".to_owned(),
        tool_version: "0".to_owned(),
        command_line: Vec::new(),
        plan: Plan {
            name: "double".to_owned(),
            command: "ramp".to_owned(),
            target,
            steps: Vec::new(),
            seed: 1,
            client_cpus: vec![1],
            server_cpus: vec![0],
            subject: None,
            driver: None,
            link: None,
            effort: None,
            study: None,
        },
        environment: a_machine(),
        server_environment: None,
        steps,
        caveats: Vec::new(),
        complete: true,
        interrupted: None,
        ab: None,
        sizes: None,
        scenario: None,
        charts: Vec::new(),
        claims: Vec::new(),
    }
}
