//! A double of the apparatus: a queueing model in place of processes and sockets.
//!
//! Both sides have one core. A closed loop gets the least of what the server's core, the
//! client's core and the requests in flight allow.

use std::collections::BTreeMap;

use wallfinder_model::counters::{EventCount, SystemCall, SystemCalls};
use wallfinder_model::plan::Target;
use wallfinder_model::profile::{
    Measure, Own, ProfileKind, Profiles, Reading, Reconciliation, Site, Whole,
};
use wallfinder_model::record::{
    Ceiling, Counts, Driver as StepDriver, Histogram, Samples, Step, ThroughputFrom, WorkerSummary,
};
use wallfinder_model::telemetry::{
    CoreSample, FamilySummary, LinkSample, LinkSummary, SocketsSummary, TcpSample, Telemetry,
    ThreadShare,
};
use wallfinder_model::verdict::{Elasticity, How};
use wallfinder_model::{Environment, Squeeze, Verdict};
use wallfinder_study::{
    Apparatus, ApparatusError, Availability, Deviation, Driver, StudyStep, SubjectSpec,
};

/// What a request costs in the model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs {
    /// CPU of the client per request, microseconds.
    pub(crate) client_us: f64,
    /// CPU of the server per request, microseconds.
    pub(crate) server_us: f64,
}

/// Where every request waits, whatever else: a round trip.
const WAIT_S: f64 = 0.0002;

type Model = Box<dyn Fn(&StudyStep) -> Costs>;

/// The apparatus of the model.
pub(crate) struct DoubleApparatus {
    model: Model,
    /// Drivers that are not there, and why.
    pub(crate) missing: BTreeMap<String, String>,
    /// Labels of steps that fail.
    pub(crate) failing: Vec<String>,
    /// Subjects that do not start.
    pub(crate) dead_subjects: Vec<String>,
    /// The label of the step at which the user interrupts.
    pub(crate) interrupt_at: Option<String>,
    /// Median over mean latency.
    pub(crate) p50_share: f64,
    /// Whether the server's processes are seen.
    pub(crate) server_seen: bool,
    /// Cores that others use of the client's processor, which is then full.
    pub(crate) others_on_client: f64,
    /// Labels of the only steps in which they do; none: in all.
    pub(crate) disturbed: Vec<String>,
    /// How often others disturb those steps, until they are gone.
    pub(crate) disturbed_for: usize,
    /// What happened, in order.
    pub(crate) log: Vec<String>,
}

impl DoubleApparatus {
    pub(crate) fn new(model: impl Fn(&StudyStep) -> Costs + 'static) -> DoubleApparatus {
        DoubleApparatus {
            model: Box::new(model),
            missing: BTreeMap::new(),
            failing: Vec::new(),
            dead_subjects: Vec::new(),
            interrupt_at: None,
            p50_share: 0.8,
            server_seen: true,
            others_on_client: 0.0,
            disturbed: Vec::new(),
            disturbed_for: usize::MAX,
            log: Vec::new(),
        }
    }

    /// Every driver but our engine is not installed.
    pub(crate) fn engine_alone(mut self) -> DoubleApparatus {
        for name in ["autocannon", "autocannon-everywhere", "wrk", "h2load"] {
            self.missing
                .insert(name.to_owned(), "not installed".to_owned());
        }
        self
    }
}

impl Apparatus for DoubleApparatus {
    fn environment(&self) -> Environment {
        Environment {
            cpus: 2,
            cpus_allowed: vec![0, 1],
            ..Environment::default()
        }
    }

    fn driver_available(&mut self, driver: &Driver) -> Availability {
        self.log.push(format!("ask {}", driver.name));
        match self.missing.get(&driver.name) {
            Some(why) => Availability::Missing { why: why.clone() },
            None => Availability::Available { version: None },
        }
    }

    fn start_subject(&mut self, subject: &SubjectSpec) -> Result<(), ApparatusError> {
        let on = subject.link.as_ref().map(|link| format!(" on {link}"));
        let on = on.unwrap_or_default();
        self.log.push(format!("start {}{on}", subject.name));
        if self.dead_subjects.contains(&subject.name) {
            return Err(ApparatusError::Failed("port 8083 is taken".to_owned()));
        }
        Ok(())
    }

    fn stop_subject(&mut self) {
        self.log.push("stop".to_owned());
    }

    fn run_step(&mut self, step: &StudyStep) -> Result<Step, ApparatusError> {
        self.log.push(format!("run {}", step.label));
        if self.interrupt_at.as_ref() == Some(&step.label) {
            return Err(ApparatusError::Interrupted);
        }
        if self.failing.contains(&step.label) {
            return Err(ApparatusError::Failed("it exploded".to_owned()));
        }
        let mut measured = measured(step, (self.model)(step), self.p50_share);
        if !self.server_seen {
            measured.telemetry.server_sockets = None;
            measured.telemetry.server = None;
        }
        let is_disturbed = self.disturbed.is_empty() || self.disturbed.contains(&step.label);
        let run = format!("run {}", step.label);
        let times = self.log.iter().filter(|line| **line == run).count();
        let others = self.others_on_client > 0.0 && is_disturbed && times <= self.disturbed_for;
        if let (Some(client), true) = (&mut measured.telemetry.client, others) {
            client.neighbour_cores = self.others_on_client;
            client.cpus_busy = 1.0;
        }
        if step.squeeze.is_some() {
            measured.verdict = Some(squeezed(&measured));
        }
        if step.calibrate {
            let us = (self.model)(step).client_us;
            measured.ceiling = Some(Ceiling {
                throughput: 1e6 / us,
                workers_saturated: true,
                cpu_per_request_ns: us * 1e3,
                driven: 1e6 / us,
                age_s: None,
                host: None,
                of_hosts: Vec::new(),
            });
        }
        Ok(measured)
    }

    fn take_over(&mut self, measured: &Step) -> Result<(), ApparatusError> {
        self.log.push(format!("take {}", measured.name));
        Ok(())
    }

    fn deviates(&mut self, deviation: Deviation<'_>) {
        if let Deviation::Skipped { step, why } = deviation {
            self.log.push(format!("skip {}: {why}", step.label));
        }
    }
}

/// A step as the model has it.
pub(crate) fn measured(step: &StudyStep, costs: Costs, p50_share: f64) -> Step {
    let window_ns = step.load.stop.after.0;
    let n = step.load.in_flight_bound() as f64;
    let (client_s, server_s) = (costs.client_us / 1e6, costs.server_us / 1e6);
    let ceiling = (1.0 / client_s).min(1.0 / server_s);
    let throughput = ceiling.min(n / (WAIT_S + client_s + server_s));
    let mean_ns = n / throughput * 1e9;
    let answered = (throughput * window_ns as f64 / 1e9) as u64;
    let engine = step.driver.is_engine();
    let histogram = Histogram {
        hdr_v2: String::new(),
        count: answered,
        beyond: 0,
        mean_ns,
        stdev_ns: 0.0,
        min_ns: 1,
        max_ns: (mean_ns * 3.0) as u64,
        quantiles_ns: BTreeMap::from([
            ("p50".to_owned(), (mean_ns * p50_share) as u64),
            ("p95".to_owned(), (mean_ns * 1.5) as u64),
            ("p99".to_owned(), (mean_ns * 2.0) as u64),
            ("p99.9".to_owned(), (mean_ns * 3.0) as u64),
        ]),
    };
    let busy = |seconds: f64| (throughput * seconds * 0.99).min(0.99);
    Step {
        index: 0,
        name: String::new(),
        target: Target {
            url: format!("http://subject:8083{}", step.path),
            scheme: "http".to_owned(),
            host: "subject".to_owned(),
            port: 8083,
            path: step.path.clone(),
            address: "10.0.0.2:8083".to_owned(),
            tls: None,
        },
        load: step.load.clone(),
        driver: StepDriver {
            name: if engine {
                "wallfinder"
            } else {
                &step.driver.name
            }
            .to_owned(),
            command: (!engine).then(|| step.driver.name.clone()),
            io: engine.then(|| "io_uring".to_owned()),
            throughput_from: if engine {
                ThroughputFrom::Engine
            } else {
                ThroughputFrom::Report
            },
            latency_from_intended: engine,
            answered: None,
        },
        started_utc: "2026-11-20T14:00:00Z".to_owned(),
        window_ns,
        counts: Counts {
            scheduled: answered,
            answered,
            bytes_in: answered * 124,
            ..Counts::default()
        },
        throughput,
        in_flight_mean: n,
        latency: Some(histogram.clone()),
        service: Some(histogram),
        first_byte: None,
        lateness: None,
        clients: Vec::new(),
        intervals: Vec::new(),
        telemetry: Telemetry {
            window_ns,
            samples: 40,
            cores: vec![core(0, busy(server_s)), core(1, busy(client_s))],
            cores_busy_p95: vec![1.0; 2],
            client: Some(family(&step.driver.name, 1, busy(client_s), window_ns)),
            server: Some(family("catalogue", 0, busy(server_s), window_ns)),
            server_sockets: Some(SocketsSummary {
                sockets: step.load.connections,
                busy_share: Some(0.5),
                send_buffer_limited_share: 0.25,
                ..SocketsSummary::default()
            }),
            link: Some(link(answered)),
            tcp: Some(TcpSample {
                segments_out: 2 * answered,
                ..TcpSample::default()
            }),
            ..Telemetry::default()
        },
        ceiling: None,
        workers: if engine {
            vec![worker(busy(client_s), answered)]
        } else {
            Vec::new()
        },
        samples: Some(Samples {
            file: "samples/0.parquet".into(),
            rows: 1_000,
            dropped: 0,
        }),
        profiles: (step.profiles || step.kernel.stacks).then(profiles),
        client_profiles: step.kernel.stacks.then(profiles),
        caveats: Vec::new(),
        verdict: None,
        experiment: None,
        cell: None,
        fairness: Some(1.0),
        drained: None,
        open_connections: None,
        outages: Vec::new(),
        requests: Vec::new(),
        sessions: Vec::new(),
        mix_windows: Vec::new(),
        pool: None,
        interference: Vec::new(),
        series: Vec::new(),
    }
}

/// The verdict of squeezes that moved the throughput as far as they went.
fn squeezed(step: &Step) -> Verdict {
    let elasticity = Elasticity {
        value: 1.0,
        low: 0.9,
        high: 1.1,
        rounds: 3,
    };
    let squeezes = Squeeze::ALL.iter();
    Verdict {
        how: How::Likely,
        elasticities: squeezes
            .map(|squeeze| (squeeze.label().to_owned(), elasticity))
            .collect(),
        ..wallfinder_judge::judge_step(step, &Environment::default())
    }
}

/// A profile of each kind, with a lock that somebody waits for.
fn profiles() -> Profiles {
    let site = |idle: bool| Site {
        function: "main.next".to_owned(),
        line: "main.go:12".to_owned(),
        waits_in: "sync.(*Mutex).Lock".to_owned(),
        value: 500_000_000,
        count: 10,
        idle,
        path: vec!["main.next".to_owned()],
    };
    let reading = |kind: ProfileKind| Reading {
        kind,
        whole: Some(Whole {
            futexes: 1_000_000,
            frames_before_kernel: Some(2.5),
            frames_outside_runtime: Some(1.5),
            own: Some(Own::default()),
            ..Whole::default()
        }),
        measure: Measure {
            name: kind.measure().to_owned(),
            unit: "nanoseconds".to_owned(),
        },
        duration_ns: 1_000_000_000,
        total: 1_000_000_000,
        count: 100,
        idle: 500_000_000,
        named_share: 1.0,
        origins: Vec::new(),
        categories: Vec::new(),
        functions: Vec::new(),
        sites: vec![site(true), site(false)],
        tree: Vec::new(),
    };
    Profiles {
        window_ns: 1_000_000_000,
        processes: 1,
        answered: 1000.0,
        readings: ProfileKind::ALL.map(reading).to_vec(),
        reconciliation: Some(Reconciliation {
            profile_cores: 0.98,
            process_cores: 1.0,
            machine_cores: Some(1.0),
            off_profile_share: 0.02,
        }),
        calls: Some(SystemCalls {
            watched_ns: 1_000_000_000,
            answered: 1000.0,
            calls: vec![call("read", 2000), call("write", 1000), call("futex", 130)],
            lost: 0,
        }),
        counts: EVENTS.map(event).to_vec(),
        ..Profiles::default()
    }
}

/// What a processor that counts counts.
const EVENTS: [&str; 6] = [
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branch-misses",
    "migrations",
];

fn event(name: &str) -> EventCount {
    EventCount {
        name: name.to_owned(),
        value: Some(10),
        unavailable: None,
    }
}

fn call(name: &str, count: u64) -> SystemCall {
    SystemCall {
        name: name.to_owned(),
        count,
        ns: count * 1000,
        failed: 0,
    }
}

fn core(cpu: u32, busy: f64) -> CoreSample {
    CoreSample {
        cpu,
        usr: busy as f32,
        idle: (1.0 - busy) as f32,
        ..CoreSample::default()
    }
}

fn worker(busy: f64, answered: u64) -> WorkerSummary {
    WorkerSummary {
        cpu: Some(1),
        answered,
        busy_share: busy,
        waits: answered / 20,
        events: answered / 10,
        ..WorkerSummary::default()
    }
}

fn family(name: &str, cpu: u32, busy: f64, window_ns: u64) -> FamilySummary {
    FamilySummary {
        name: name.to_owned(),
        processes: 1,
        threads: 1,
        gomaxprocs: Some(1),
        cpus_allowed: vec![cpu],
        cpu_ns: (busy * window_ns as f64) as u64,
        faults_since_start: 5_000,
        utilisation: busy,
        cpus_busy: busy,
        hottest_thread: Some(ThreadShare {
            tid: 1,
            name: name.to_owned(),
            share: busy,
        }),
        ..FamilySummary::default()
    }
}

/// A link of 50 Gbit/s with room to spare.
fn link(answered: u64) -> LinkSummary {
    LinkSummary {
        interface: "veth0".to_owned(),
        rate_bits: Some(50_000_000_000),
        totals: LinkSample {
            tx_bytes: answered * 124,
            rx_bytes: answered * 60,
            tx_packets: answered / 10 + 1,
            rx_packets: answered / 10 + 1,
            drops: 0,
        },
        downlink_share: Some(0.1),
        uplink_share: Some(0.05),
        mtu: Some(1500),
        ..LinkSummary::default()
    }
}
