//! Synthetic records: a closed queueing network (exact mean value analysis) in place of a
//! machine, and noise from a seeded generator. Nothing here was measured; every record
//! says so in its name and in its caveats.

#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::sync::OnceLock;

use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Serializer, V2Serializer};
use wallfinder_judge::proof::ab::{order_of_rounds, ratios};
use wallfinder_model::environment::{Environment, InterfaceFacts};
use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::experiment::{
    Condition, Effort, Experiment, OutOfReach, Setting, Squeeze, Window,
};
use wallfinder_model::gate::{Gate, GateKind, GateOutcome, Seen};
use wallfinder_model::plan::{Arrival, Load, Plan, StepPlan, Stop, Target};
use wallfinder_model::reason::{Beside, Capacity, Full, Moved, Rest, Side, Sign, Unsqueezed};
use wallfinder_model::record::{
    Ab, Ceiling, ClaimOutcome, Counts, Driver, Histogram, Interval, Outcome, Record, SCHEMA, Step,
    ThroughputFrom, WorkerSummary,
};
use wallfinder_model::telemetry::{
    CoreSample, FamilySample, FamilySummary, LinkSample, LinkSummary, Sample, SocketsSummary,
    TcpSample, Telemetry, ThreadShare,
};
use wallfinder_model::verdict::{Elasticity, How, NextWall, ResourceView, Saturation, Verdict};
use wallfinder_model::{Caveat, Detail, Nanos, Rate, Reason, Wall};

/// SplitMix64: enough for noise, and the same on every machine.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Noise {
        Noise(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// 0..1, never 0.
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    pub fn exponential(&mut self) -> f64 {
        -self.unit().ln()
    }

    /// Around 1, by a few percent.
    pub fn about(&mut self, spread: f64) -> f64 {
        1.0 + spread * (self.unit() + self.unit() + self.unit() - 1.5)
    }
}

/// A system to be loaded: seconds of each resource per request.
#[derive(Clone, Copy)]
pub struct System {
    pub server_s: f64,
    pub client_s: f64,
    pub down_bytes: f64,
    pub up_bytes: f64,
    pub link_bits: Option<f64>,
    pub delay_s: f64,
    /// Workers' own CPU per request at the calibrated ceiling.
    pub ceiling_s: f64,
}

pub const SIMPLE: System = System {
    server_s: 14.2e-6,
    client_s: 9.1e-6,
    down_bytes: 176.0,
    up_bytes: 54.0,
    link_bits: None,
    delay_s: 45e-6,
    ceiling_s: 5.6e-6,
};

pub const READ: System = System {
    server_s: 13.5e-6,
    client_s: 11.8e-6,
    down_bytes: 4_440.0,
    up_bytes: 61.0,
    link_bits: Some(1e9),
    delay_s: 60e-6,
    ceiling_s: 7.2e-6,
};

struct Point {
    throughput: f64,
    response_s: f64,
    busy: [f64; 3],
}

impl System {
    fn demands(&self) -> [f64; 3] {
        let link = self
            .link_bits
            .map_or(0.0, |bits| self.down_bytes * 8.0 / bits);
        [self.server_s, self.client_s, link]
    }

    /// Exact mean value analysis of three queues and a delay.
    fn closed(&self, in_flight: u64) -> Point {
        let demands = self.demands();
        let mut queues = [0.0; 3];
        let mut point = Point {
            throughput: 0.0,
            response_s: 0.0,
            busy: [0.0; 3],
        };
        for n in 1..=in_flight.max(1) {
            let waits: Vec<f64> = (0..3).map(|k| demands[k] * (1.0 + queues[k])).collect();
            let response: f64 = waits.iter().sum::<f64>() + self.delay_s;
            let throughput = n as f64 / response;
            for k in 0..3 {
                queues[k] = throughput * waits[k];
            }
            point = Point {
                throughput,
                response_s: response,
                busy: demands.map(|demand| (throughput * demand).min(1.0)),
            };
        }
        point
    }
}

pub fn target(path: &str) -> Target {
    Target {
        url: format!("http://127.0.0.1:8083{path}"),
        scheme: "http".into(),
        host: "127.0.0.1".into(),
        port: 8083,
        path: path.into(),
        address: "127.0.0.1:8083".into(),
        tls: None,
    }
}

pub fn load(connections: u32, depth: u32) -> Load {
    Load {
        in_flight_per_connection: depth,
        warmup: Nanos::from_secs(2),
        stop: Stop {
            after: Nanos::from_secs(10),
            requests: None,
        },
        timeout: Nanos::from_secs(30),
        ..Load::closed(connections)
    }
}

/// A histogram of `count` values around `mean_s`, drawn and then weighted.
pub fn histogram(
    noise: &mut Noise,
    mean_s: f64,
    floor_s: f64,
    shape: u32,
    count: u64,
) -> Histogram {
    let mut hdr = Hdr::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).expect("bounds are valid");
    let draws = count.min(3_000);
    let body = (mean_s - floor_s).max(mean_s * 0.05);
    for index in 0..draws {
        let sum: f64 = (0..shape).map(|_| noise.exponential()).sum();
        let mut value = floor_s + body * sum / f64::from(shape);
        if noise.unit() < 0.0008 && mean_s > 20e-6 {
            value += noise.exponential() * 4.0 * mean_s + 0.4e-3;
        }
        let weight = count / draws + u64::from(index < count % draws);
        hdr.record_n((value * 1e9).max(1.0) as u64, weight)
            .expect("values are in range");
    }
    shown(&hdr)
}

/// A histogram as the record holds it.
pub fn shown(hdr: &Hdr<u64>) -> Histogram {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(hdr, &mut bytes)
        .expect("a vector takes everything");
    let quantiles_ns = wallfinder_report::figures::QUANTILES
        .iter()
        .map(|(name, q)| ((*name).to_owned(), hdr.value_at_quantile(*q)))
        .collect();
    Histogram {
        hdr_v2: base64::Engine::encode(&base64::engine::general_purpose::STANDARD, bytes),
        count: hdr.len(),
        beyond: 0,
        mean_ns: hdr.mean(),
        stdev_ns: hdr.stdev(),
        min_ns: hdr.min(),
        max_ns: hdr.max(),
        quantiles_ns,
    }
}

fn core(cpu: u32, busy: f64, softirq: f64, kernel: f64) -> CoreSample {
    let busy = busy.clamp(0.0, 1.0);
    let softirq = softirq.min(busy);
    let rest = busy - softirq;
    CoreSample {
        cpu,
        usr: (rest * (1.0 - kernel)) as f32,
        sys: (rest * kernel) as f32,
        irq: 0.0,
        softirq: softirq as f32,
        steal: 0.001,
        idle: (1.0 - busy).max(0.0) as f32,
    }
}

fn family(name: &str, cpu: u32, busy: f64, window_ns: u64) -> FamilySummary {
    FamilySummary {
        name: name.into(),
        pids: vec![4711],
        processes: 1,
        threads: 7,
        gomaxprocs: None,
        cpus_allowed: vec![cpu],
        quota_cores: None,
        cpu_ns: (busy * window_ns as f64) as u64,
        cpu_user_ns: (busy * window_ns as f64 * 0.44) as u64,
        utilisation: busy,
        run_wait_cores: 0.03 + 0.9 * busy.powi(6),
        switches_voluntary: 21_340,
        switches_involuntary: 811,
        faults_minor: 240,
        faults_major: 0,
        faults_since_start: 1_240,
        rss_bytes_max: 41_200_000,
        throttled_ns: 0,
        throttled_share: 0.0,
        hottest_thread: Some(ThreadShare {
            tid: 4714,
            name: name.into(),
            share: busy * 0.71,
        }),
        neighbour_cores: 0.01,
        cpus_busy: (busy + 0.02).min(1.0),
        cpus_softirq: 0.11,
        interrupt_cores: None,
    }
}

/// One step of a closed loop on `system`.
pub fn step(system: &System, path: &str, index: u32, load: Load, seed: u64) -> Step {
    let mut noise = Noise::new(seed ^ (u64::from(index) << 32));
    let point = system.closed(load.in_flight_bound());
    let window_ns = load.stop.after.0;
    let seconds = window_ns as f64 / 1e9;
    let throughput = point.throughput * noise.about(0.006);
    let answered = (throughput * seconds) as u64;
    let throughput = answered as f64 / seconds;
    let in_flight = load.in_flight_bound();
    let [server_busy, client_busy, link_busy] = point.busy;
    let shape = if point.busy.iter().any(|busy| *busy > 0.9) {
        9
    } else {
        3
    };
    let latency = histogram(
        &mut noise,
        point.response_s,
        system.delay_s + system.server_s,
        shape,
        answered,
    );
    let in_flight_mean = throughput * latency.mean_ns / 1e9;
    let service = latency.clone();
    let first_byte = histogram(
        &mut noise,
        point.response_s * 0.93,
        system.delay_s,
        shape,
        answered,
    );
    let lateness = histogram(&mut noise, 3.1e-6, 0.4e-6, 2, answered);
    let softirq = [0.09, 0.14];
    let warmup_ns = load.warmup.0;

    let mut intervals = Vec::new();
    let mut series = Vec::new();
    let tick_ns = 100_000_000;
    for tick in 1..=(warmup_ns + window_ns) / tick_ns {
        let at_ns = tick * tick_ns;
        let warm = (at_ns as f64 / 0.7e9).min(1.0);
        let level = (0.55 + 0.45 * warm) * noise.about(0.02);
        let good = (throughput * 0.1 * level) as u64;
        let typical = latency.quantile_ns("p50").unwrap_or(0) as f64;
        let tail = latency.quantile_ns("p99").unwrap_or(0) as f64;
        intervals.push(Interval {
            at_ns,
            span_ns: tick_ns,
            answered: good,
            failed: 0,
            scheduled: good,
            bytes_in: (good as f64 * system.down_bytes) as u64,
            in_flight,
            p50_ns: (typical / level) as u64,
            p99_ns: (tail / level * noise.about(0.12)) as u64,
            max_ns: (tail * 1.6 * noise.about(0.3)) as u64,
        });
        series.push(Sample {
            server_cores: Vec::new(),
            at_ns: at_ns as i64,
            span_ns: tick_ns,
            cores: vec![
                core(0, server_busy * level + 0.01, softirq[0] * level, 0.55),
                core(1, client_busy * level + 0.01, softirq[1] * level, 0.62),
            ],
            client: Some(FamilySample {
                processes: 1,
                threads: 2,
                cpu_ns: (client_busy * level * tick_ns as f64) as u64,
                rss_bytes: 21_000_000,
                ..FamilySample::default()
            }),
            server: Some(FamilySample {
                processes: 1,
                threads: 7,
                cpu_ns: (server_busy * level * tick_ns as f64) as u64,
                rss_bytes: 38_000_000 + tick * 30_000,
                ..FamilySample::default()
            }),
            link: Some(LinkSample {
                rx_bytes: (good as f64 * (system.up_bytes + 66.0)) as u64,
                rx_packets: good,
                tx_bytes: (good as f64 * system.down_bytes) as u64,
                tx_packets: (good as f64 * (system.down_bytes / 1448.0).ceil()) as u64,
                drops: 0,
            }),
            tcp: None,
            switches: 9_000,
            runnable: 2,
        });
    }

    let demands = system.demands();
    let walls = [Wall::ServerCpu, Wall::ClientCpu, Wall::Downlink];
    let top = (0..3)
        .max_by(|a, b| point.busy[*a].total_cmp(&point.busy[*b]))
        .unwrap_or(0);
    let bound = point.busy[top] > 0.93;
    let wall = if bound { walls[top] } else { Wall::Concurrency };
    let resources = (0..3)
        .filter(|k| demands[*k] > 0.0)
        .map(|k| ResourceView {
            wall: walls[k],
            utilisation: point.busy[k],
            demand_s: Some(demands[k]),
            ceiling: Some(1.0 / demands[k]),
            saturation: (k == top && bound).then(|| match walls[k] {
                Wall::Downlink => Saturation::Dropped { packets: 1_204 },
                _ => Saturation::RunWait { cores: 0.9 },
            }),
        })
        .collect();
    let mut next: Vec<(f64, Wall)> = (0..3)
        .filter(|k| demands[*k] > 0.0 && *k != top)
        .map(|k| (1.0 / demands[k] / throughput, walls[k]))
        .collect();
    next.sort_by(|a, b| a.0.total_cmp(&b.0));
    let one = Capacity {
        cores: 1.0,
        quota: false,
    };
    let busy = point.busy[top];
    let reason = match wall {
        Wall::Concurrency => Reason::NothingFull { few: true },
        Wall::Downlink => Reason::Full {
            full: Full {
                wall,
                sign: Sign::LinkUse { share: busy },
            },
            beside: Beside {
                server: Some((server_busy, one)),
                client: Some(client_busy),
            },
        },
        wall => Reason::Full {
            full: Full {
                wall,
                sign: Sign::Busy {
                    capacity: one,
                    busy,
                },
            },
            beside: Beside {
                server: None,
                client: Some(client_busy),
            },
        },
    };
    let used = |side: Side, share: f64| Evidence {
        fact: Fact::Used {
            side,
            share,
            capacity: one,
        },
        measure: format!("{}.utilisation", side.label()),
        value: share,
        text: None,
    };
    let verdict = Verdict {
        wall,
        how: How::Observed,
        confidence: if bound { 0.85 } else { 0.55 },
        reason,
        detail: None,
        evidence: vec![
            used(Side::Server, server_busy),
            used(Side::Client, client_busy),
        ],
        gates: Vec::new(),
        resources,
        shares: BTreeMap::new(),
        elasticities: BTreeMap::new(),
        next: bound
            .then(|| next.first().copied())
            .flatten()
            .map(|(ratio, wall)| NextWall {
                wall,
                ratio,
                low: None,
                high: None,
            }),
        caveats: vec![Caveat::SoftirqElsewhere {
            side: Side::Client,
            share: 0.14,
        }],
        sentence: None,
        made_of: None,
    };

    let packets_down = (system.down_bytes / 1448.0).ceil();
    Step {
        index,
        name: format!(
            "{path} c={} d={}",
            load.connections, load.in_flight_per_connection
        ),
        target: target(path),
        driver: Driver {
            name: "wallfinder".into(),
            command: None,
            io: Some("io_uring".into()),
            throughput_from: ThroughputFrom::Engine,
            latency_from_intended: true,
            answered: None,
        },
        started_utc: format!("2026-11-20T14:{:02}:{:02}Z", 2 + index / 4, index % 4 * 14),
        window_ns,
        counts: Counts {
            scheduled: answered,
            answered,
            in_flight_start: in_flight,
            in_flight_end: in_flight,
            statuses: BTreeMap::from([(200, answered)]),
            bytes_in: (answered as f64 * system.down_bytes) as u64,
            bytes_out: (answered as f64 * system.up_bytes) as u64,
            body_bytes: (answered as f64 * (system.down_bytes - 131.0).max(0.0)) as u64,
            ..Counts::default()
        },
        throughput,
        in_flight_mean,
        latency: Some(latency),
        service: Some(service),
        first_byte: Some(first_byte),
        lateness: Some(lateness),
        intervals,
        telemetry: Telemetry {
            window_ns,
            server_reference_ns: None,
            client_reference_ns: None,
            server_host: None,
            client_host: None,
            client_hosts: Vec::new(),
            samples: 100,
            cores: vec![
                core(0, server_busy + 0.01, softirq[0], 0.55),
                core(1, client_busy + 0.01, softirq[1], 0.62),
            ],
            cores_busy_p95: vec![
                (server_busy + 0.02).min(1.0) as f32,
                (client_busy + 0.03).min(1.0) as f32,
            ],
            client: Some(family("wallfinder", 1, client_busy, window_ns)),
            server: Some(family("catalogue", 0, server_busy, window_ns)),
            link: Some(LinkSummary {
                interface: if system.link_bits.is_some() {
                    "wf0"
                } else {
                    "lo"
                }
                .into(),
                rate_bits: system.link_bits.map(|bits| bits as u64),
                totals: LinkSample {
                    rx_bytes: (answered as f64 * (system.up_bytes + 66.0)) as u64,
                    rx_packets: answered,
                    tx_bytes: (answered as f64 * system.down_bytes) as u64,
                    tx_packets: (answered as f64 * packets_down) as u64,
                    drops: 0,
                },
                downlink_share: system.link_bits.map(|_| link_busy),
                uplink_share: system
                    .link_bits
                    .map(|bits| throughput * (system.up_bytes + 66.0) * 8.0 / bits),
                mtu: Some(if system.link_bits.is_some() {
                    1500
                } else {
                    65_536
                }),
                ..LinkSummary::default()
            }),
            relay: None,
            backend: None,
            tcp: Some(TcpSample::default()),
            client_tcp: None,
            server_sockets: Some(SocketsSummary {
                sockets: load.connections,
                busy_share: Some(0.4),
                rtt_p50_us: 71,
                ..SocketsSummary::default()
            }),
            client_sockets: None,
            observer_cpu_ns: 31_000_000,
        },
        ceiling: Some(Ceiling {
            throughput: 1.0 / system.ceiling_s,
            workers_saturated: true,
            cpu_per_request_ns: system.ceiling_s * 1e9,
            driven: 1.0 / system.ceiling_s,
            age_s: None,
            host: None,
            of_hosts: Vec::new(),
        }),
        clients: Vec::new(),
        samples: None,
        profiles: None,
        client_profiles: None,
        caveats: Vec::new(),
        workers: vec![WorkerSummary {
            worker: 0,
            cpu: Some(1),
            connections: load.connections,
            answered,
            cpu_ns: (client_busy * window_ns as f64) as u64,
            polled_ns: 0,
            busy_share: client_busy,
            waits: 180_000,
            events: answered,
            batching_waits: 170_000,
            batching_ns: 170_000 * 83_000,
        }],
        verdict: Some(verdict),
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
        series,
        load,
    }
}

pub fn environment() -> Environment {
    Environment {
        kernel: Some("6.18.2".into()),
        os: Some("Debian GNU/Linux 12 (bookworm)".into()),
        cpu_model: Some("AMD EPYC 7B13".into()),
        cpus: 2,
        cpus_allowed: vec![0, 1],
        memory_bytes: Some(25_200_000_000),
        governor: None,
        smt: Some(true),
        mitigations: BTreeMap::from([
            ("spectre_v2".into(), "Mitigation: Retpolines".into()),
            ("meltdown".into(), "Not affected".into()),
        ]),
        virtualisation: Some("kvm".into()),
        cgroup_quota_cores: None,
        cgroup_version: Some("v1".into()),
        huge_pages: Some("madvise".into()),
        interface: Some(InterfaceFacts {
            name: "wf0".into(),
            mtu: Some(1500),
            speed_bits: Some(10_000_000_000),
            queues: Some((1, 1)),
            offloads: vec!["tso".into(), "gso".into(), "gro".into()],
            qdisc: Some("tbf".into()),
        }),
        congestion_control: Some("bbr".into()),
        irqbalance: Some(false),
        rps: Some(false),
        hardware_counters: Some(false),
        descriptors_max: Some(1_048_576),
        local_ports: Some((32_768, 60_999)),
        versions: BTreeMap::from([
            ("wallfinder".into(), "0.1.0".into()),
            ("catalogue".into(), "0.1.0 (go1.26, fiber 3.1.0)".into()),
        ]),
        settings: BTreeMap::from([
            ("net.core.somaxconn".into(), "4096".into()),
            ("net.ipv4.tcp_wmem".into(), "4096 16384 4194304".into()),
        ]),
    }
}

/// A record around steps.
pub fn record(command: &str, name: &str, steps: Vec<Step>) -> Record {
    let plans = steps
        .iter()
        .map(|step| StepPlan {
            name: step.name.clone(),
            target: step.target.clone(),
            load: step.load.clone(),
        })
        .collect();
    let first = steps
        .first()
        .map_or_else(|| target("/simple"), |step| step.target.clone());
    let mut command_line: Vec<String> = vec!["wallfinder".into(), command.into()];
    command_line.extend(
        [
            "--subject",
            "catalogue",
            "--server-cpus",
            "0",
            "--client-cpus",
            "1",
        ]
        .map(String::from),
    );
    if steps.len() > 1 {
        let ramp: Vec<String> = steps
            .iter()
            .map(|s| s.load.connections.to_string())
            .collect();
        command_line.extend(["--connections".to_owned(), ramp.join(",")]);
    }
    command_line.extend(["-d".into(), "10s".into(), first.url.clone()]);
    Record {
        schema: SCHEMA.into(),
        id: format!("20261120T140211Z-{command}-{name}"),
        started_utc: "2026-11-20T14:02:11Z".into(),
        tool_version: "0.1.0".into(),
        command_line,
        plan: Plan {
            name: name.into(),
            command: command.into(),
            target: first,
            steps: plans,
            seed: 42,
            client_cpus: vec![1],
            server_cpus: vec![0],
            subject: Some("catalogue".into()),
            driver: None,
            link: None,
            effort: None,
            study: None,
        },
        environment: environment(),
        server_environment: None,
        steps,
        caveats: vec![
            Caveat::Note {
                text: "Synthetic: made from a queueing model to show what a report looks like; nothing was measured.".into(),
            },
        ],
        complete: true,
        interrupted: None,
        ab: None,
        sizes: None,
        scenario: None,
        charts: Vec::new(),
        claims: vec![],
    }
}

/// One step of `/simple`, bound by the server.
pub fn one_step() -> Record {
    record(
        "run",
        "simple",
        vec![step(&SIMPLE, "/simple", 0, load(100, 1), 7)],
    )
}

/// Seven steps of `/read` behind a link of 1 Gbit/s.
pub fn seven_steps() -> Record {
    let steps = [1, 2, 4, 8, 32, 100, 500]
        .iter()
        .zip(0..)
        .map(|(connections, index)| step(&READ, "/read", index, load(*connections, 1), 11))
        .collect();
    record("ramp", "read", steps)
}

/// Forty steps with pipelining.
pub fn forty_steps() -> Record {
    let steps = (0..40)
        .map(|index| {
            let connections = (1.0 * 1.22f64.powi(index)).ceil() as u32;
            let mut load = load(connections, 1);
            load.stop.after = Nanos::from_secs(4);
            let mut step = step(&SIMPLE, "/simple", index as u32, load, 13);
            if index > 36 {
                let lost = step.counts.answered / 300;
                step.counts.failed.insert("timeout.total".into(), lost);
                step.counts.scheduled += lost;
            }
            step
        })
        .collect();
    record("ramp", "simple", steps)
}

/// The gates of an experiment, all of which hold.
fn gates() -> Vec<Gate> {
    let gate = |kind, asked, seen| Gate {
        kind,
        outcome: GateOutcome::Held,
        asked,
        seen: Some(seen),
    };
    vec![
        gate(
            GateKind::NullEffect,
            Some(0.02),
            Seen::Interval {
                low: -0.004,
                high: 0.006,
            },
        ),
        gate(GateKind::Little, Some(0.03), Seen::Ratio { value: 1.0 }),
        gate(GateKind::Steady, None, Seen::Ratio { value: 0.998 }),
        gate(GateKind::Errors, Some(0.001), Seen::Share { value: 0.0 }),
        gate(GateKind::Steal, Some(0.02), Seen::Share { value: 0.001 }),
        gate(
            GateKind::Apart,
            None,
            Seen::Processors {
                server: vec![0],
                client: vec![1],
            },
        ),
    ]
}

/// A wall that was proved by squeezes.
pub fn proved() -> Record {
    let mut record = seven_steps();
    record.plan.command = "find".into();
    record.id = "20261120T140211Z-find-read".into();
    record.command_line[1] = "find".into();
    record.steps.truncate(6);
    record.plan.steps.truncate(6);
    let step = record.steps.last_mut().expect("six steps");
    let squeezed = |value: f64, spread: f64| Elasticity {
        value,
        low: value - spread,
        high: value + spread * 0.8,
        rounds: 10,
    };
    let throughput = step.throughput;
    let verdict = step.verdict.as_mut().expect("steps are judged");
    verdict.how = How::Proved;
    verdict.confidence = 0.99;
    verdict.wall = Wall::Downlink;
    let moved = Moved {
        squeeze: Squeeze::Downlink,
        by: 0.2,
        lost: 0.2,
    };
    verdict.reason = Reason::Moved {
        wall: Wall::Downlink,
        moved,
        rest: Rest {
            squeezed: true,
            ..Rest::default()
        },
    };
    verdict.elasticities = BTreeMap::from([
        ("downlink".into(), squeezed(0.997, 0.016)),
        ("server-speed".into(), squeezed(0.001, 0.021)),
        ("server-capacity".into(), squeezed(0.004, 0.018)),
        ("client-speed".into(), squeezed(0.012, 0.022)),
        ("in-flight".into(), squeezed(-0.001, 0.011)),
    ]);
    verdict.next = Some(NextWall {
        wall: Wall::ServerCpu,
        ratio: 1.0 / READ.server_s / throughput,
        low: Some(1.0 / READ.server_s / throughput * 0.97),
        high: Some(1.0 / READ.server_s / throughput * 1.03),
    });
    let evidence = |fact: Fact, measure: &str, value| Evidence {
        fact,
        measure: measure.into(),
        value,
        text: None,
    };
    let check = "rate 0.8 Gbit/s".to_owned();
    verdict.gates = gates();
    verdict.evidence = [
        evidence(Fact::Moved { moved, check }, "elasticity.downlink", 0.997),
        evidence(
            Fact::Null {
                interval: Some((-0.004, 0.006)),
            },
            "proof.null_effect",
            0.001,
        ),
    ]
    .into_iter()
    .chain(std::mem::take(&mut verdict.evidence))
    .collect();
    let doses = [
        (Squeeze::Downlink, 0.8),
        (Squeeze::Downlink, 0.9),
        (Squeeze::ServerSpeed, 0.8),
        (Squeeze::ServerSpeed, 0.5),
        (Squeeze::ServerSpeed, 0.35),
        (Squeeze::ServerCapacity, 0.8),
        (Squeeze::ClientSpeed, 0.8),
        (Squeeze::ClientSpeed, 0.5),
        (Squeeze::InFlight, 0.8),
    ];
    step.experiment = Some(experiment(&READ, &step.load, &doses, 10, 0.006));
    record
}

/// Windows of a system under squeezes, seen through noise.
pub fn experiment(
    system: &System,
    load: &Load,
    doses: &[(Squeeze, f64)],
    rounds: u32,
    spread: f64,
) -> Experiment {
    let mut noise = Noise::new(31);
    let mut conditions = vec![Condition::sham()];
    conditions.extend(doses.iter().map(|(squeeze, retained)| Condition {
        squeeze: Some(*squeeze),
        together: Vec::new(),
        retained: *retained,
        how: format!("{} made less, synthetically", squeeze.label()),
    }));
    let (mut windows, mut intervals) = (Vec::new(), Vec::new());
    let mut at_ns = 0u64;
    let slice_ns = 100_000_000;
    for round in 0..rounds {
        let mut order: Vec<usize> = (1..conditions.len()).collect();
        for k in (1..order.len()).rev() {
            order.swap(k, (noise.unit() * (k + 1) as f64) as usize);
        }
        for k in (0..=order.len()).rev().step_by(3) {
            order.insert(k, 0);
        }
        for at in order {
            let condition = &conditions[at];
            let retained = condition.retained * if at == 0 { 1.0 } else { noise.about(0.01) };
            let mut squeezed = *system;
            let mut in_flight = load.in_flight_bound();
            match condition.squeeze {
                Some(Squeeze::ServerSpeed | Squeeze::ServerCapacity) => {
                    squeezed.server_s /= retained
                }
                Some(Squeeze::ClientSpeed) => squeezed.client_s /= retained,
                Some(Squeeze::Downlink) => {
                    squeezed.link_bits = system.link_bits.map(|bits| bits * retained)
                }
                Some(Squeeze::InFlight) => in_flight = (in_flight as f64 * retained) as u64,
                _ => {}
            }
            let point = squeezed.closed(in_flight);
            let throughput = point.throughput * noise.about(spread);
            for slice in 1..=13 {
                let good = throughput * 0.1 * noise.about(0.03);
                intervals.push(Interval {
                    at_ns: at_ns + slice * slice_ns,
                    span_ns: slice_ns,
                    answered: good as u64,
                    in_flight,
                    ..Interval::default()
                });
            }
            let squeezed = condition.squeeze.is_some();
            windows.push(Window {
                round,
                condition: at as u32,
                restart: 0,
                from_ns: at_ns + 500_000_000,
                to_ns: at_ns + 1_300_000_000,
                answered: (throughput * 0.8) as u64,
                failed: 0,
                throughput,
                in_flight_mean: Some(in_flight as f64),
                latency_mean_ns: Some(point.response_s * 1e9),
                p50_ns: Some((point.response_s * 0.96e9) as u64),
                p99_ns: Some((point.response_s * 1.8e9) as u64),
                retained: squeezed.then_some(retained),
                in_force: squeezed.then_some(true),
                without: Vec::new(),
                retained_each: BTreeMap::new(),
                check: if squeezed {
                    format!("left {retained:.3} of it")
                } else {
                    String::new()
                },
                server_cores: Some(point.busy[0]),
                client_cores: Some(point.busy[1]),
                steal_share: 0.001,
                server_reference_ns: None,
                client_reference_ns: None,
            });
            at_ns += 1_300_000_000;
        }
    }
    Experiment {
        seed: 42,
        effort: Effort::Normal,
        conditions,
        windows,
        out_of_reach: vec![
            OutOfReach {
                squeeze: Squeeze::OfferedLoad,
                why: "a closed loop offers what the server takes".into(),
            },
            OutOfReach {
                squeeze: Squeeze::BackendSpeed,
                why: "no process behind the server was named (--backend-pid)".into(),
            },
        ],
        setting: Setting {
            server_cpus: vec![0],
            client_cpus: vec![1],
            in_flight_max: load.in_flight_bound(),
            own_engine: true,
            downlink_bits: system.link_bits,
            uplink_bits: system.link_bits,
            ..Setting::default()
        },
        intervals,
        cut_short: None,
        alone: None,
    }
}

/// A quick look without privilege: telemetry says it, squeezes do not speak against it.
pub fn observed() -> Record {
    let mut steps: Vec<Step> = [4, 16]
        .iter()
        .zip(0..)
        .map(|(connections, index)| step(&SIMPLE, "/simple", index, load(*connections, 1), 29))
        .collect();
    let step = steps.last_mut().expect("two steps");
    let doses = [(Squeeze::ClientSpeed, 0.8), (Squeeze::InFlight, 0.75)];
    let mut experiment = experiment(&SIMPLE, &step.load, &doses, 3, 0.2);
    experiment.effort = Effort::Quick;
    let why = "a SCHED_FIFO CPU stealer needs CAP_SYS_NICE, and SIGSTOP a server of the same user";
    experiment
        .out_of_reach
        .extend(
            [Squeeze::ServerSpeed, Squeeze::ServerCapacity].map(|squeeze| OutOfReach {
                squeeze,
                why: why.into(),
            }),
        );
    experiment.out_of_reach.push(OutOfReach {
        squeeze: Squeeze::Downlink,
        why: "there is no link on loopback".into(),
    });
    let notes: Vec<Caveat> = experiment
        .out_of_reach
        .iter()
        .map(|out| Caveat::OutOfReach {
            squeeze: out.squeeze,
            why: out.why.clone(),
        })
        .collect();
    step.experiment = Some(experiment);
    let verdict = step.verdict.as_mut().expect("steps are judged");
    verdict.reason = Reason::ByTelemetry {
        ruled_out: Vec::new(),
        observed: Box::new(verdict.reason.clone()),
    };
    let missing = Unsqueezed {
        squeeze: Squeeze::ServerSpeed,
        why: Some(why.to_owned()),
        others: None,
    };
    verdict.detail = Some(Detail::Unsqueezed {
        missing: missing.clone(),
    });
    let (low, high) = (-0.064, 0.057);
    verdict.gates = gates();
    verdict.gates[0].outcome = GateOutcome::Failed { fatal: false };
    verdict.gates[0].seen = Some(Seen::Interval { low, high });
    verdict.elasticities = BTreeMap::from([
        (
            "client-speed".into(),
            Elasticity {
                value: -0.3,
                low: -1.17,
                high: 0.57,
                rounds: 3,
            },
        ),
        (
            "in-flight".into(),
            Elasticity {
                value: 0.27,
                low: -2.5,
                high: 3.04,
                rounds: 3,
            },
        ),
    ]);
    verdict.evidence.insert(
        0,
        Evidence {
            fact: Fact::Null {
                interval: Some((low, high)),
            },
            measure: "proof.null_effect".into(),
            value: 0.01,
            text: None,
        },
    );
    verdict.caveats.push(Caveat::NullWide { low, high });
    verdict.caveats.push(Caveat::NotSqueezed { missing });
    verdict.caveats.extend(notes);
    record("find", "simple", steps)
}

/// Two settings in turn, of which some rounds were measured.
pub fn settings(a: &System, b: &System, rounds: u32, measured: usize) -> Record {
    let order = order_of_rounds(42, rounds);
    let steps: Vec<Step> = order
        .iter()
        .zip(0..)
        .take(measured)
        .map(|((_, is_b), index)| {
            let (system, path) = if *is_b { (b, "/read-gz") } else { (a, "/read") };
            let mut load = load(64, 1);
            load.stop.after = Nanos::from_secs(2);
            load.warmup = Nanos::from_millis(300);
            let mut step = step(system, path, index, load, 37);
            step.name = format!("{} {}", if *is_b { "B" } else { "A" }, step.name);
            step
        })
        .collect();
    let found = ratios(&steps, &order);
    let mut record = record("ab", "read", steps);
    record.ab = Some(Ab {
        a: "/read".into(),
        b: "/read-gz".into(),
        order,
        ratios: found,
        ..Ab::default()
    });
    record
}

/// B is half the bytes.
pub fn ab() -> Record {
    let half = System {
        down_bytes: 2_170.0,
        server_s: 14.1e-6,
        ..READ
    };
    settings(&READ, &half, 6, 12)
}

/// A study with claims of each outcome.
pub fn study() -> Record {
    let mut steps = Vec::new();
    for (path, system) in [("/simple", SIMPLE), ("/read", READ)] {
        for connections in [10, 100, 1000] {
            let index = steps.len() as u32;
            steps.push(step(&system, path, index, load(connections, 1), 17));
        }
    }
    let mut record = record("study", "client-ceiling", steps);
    let claim = |id: &str, claim: &str, outcome, because: &str| ClaimOutcome {
        id: id.into(),
        claim: claim.into(),
        source: "client-ceiling.txt".into(),
        by_figures: false,
        outcome,
        because: because.into(),
    };
    record.claims = vec![
        claim(
            "n-over-x",
            "More in flight past the knee only adds latency: N/X equals the mean latency.",
            Outcome::Confirmed,
            "N/X over the mean lies between 0.998 and 1.002 in all 6 steps",
        ),
        claim(
            "client-wall-simple",
            "At /simple the client is the wall.",
            Outcome::Contradicted,
            "elasticity of client speed 0.05 [0.03, 0.08], of server speed 1.04 [0.99, 1.09], with this engine as the driver",
        ),
        claim(
            "no-tuning",
            "No client tuning fixes this.",
            Outcome::Open,
            "only one driver was installed; wrk and h2load are needed to decide",
        ),
    ];
    record
}

/// Cells of a study: two groups of three sizes and two numbers of clients, three rounds each.
pub fn cells() -> Record {
    let mut steps = Vec::new();
    for round in 1..=3 {
        for (group, system) in [("tcp", SIMPLE), ("rest", READ)] {
            for payload in [64, 1024, 65_536] {
                for clients in [1, 50] {
                    let index = steps.len() as u32;
                    let seed = u64::from(payload + clients + round);
                    let mut step = step(&system, "/echo", index, load(clients, 1), seed);
                    step.name = format!("{group}/engine/{payload}B/c{clients}/round{round}");
                    step.fairness = Some(0.97);
                    step.cell = Some(wallfinder_model::record::Cell {
                        group: group.into(),
                        driver: "engine".into(),
                        payload,
                        clients,
                        round,
                        rival: true,
                    });
                    steps.push(step);
                }
            }
        }
    }
    let mut record = record("study", "protocols-demo", steps);
    record.claims = study().claims;
    record
}

/// An open loop that asks for more than there is.
pub fn open_loop() -> Record {
    let mut load = load(100, 1);
    load.arrival = Arrival::Constant {
        rate: Rate(90_000.0),
    };
    let mut step = step(&SIMPLE, "/simple", 0, load, 19);
    let sent = step.counts.answered;
    step.counts.scheduled = 900_000;
    step.counts.not_sent = 900_000 - sent as i64;
    if let Some(verdict) = &mut step.verdict {
        verdict.caveats.push(Caveat::RateMissed {
            asked: 90_000.0,
            sent: step.throughput,
        });
        verdict.caveats.push(Caveat::Backlog {
            requests: step.counts.not_sent as u64,
        });
    }
    record("run", "open", vec![step])
}

/// A machine of 32 processors, 16 for the server and 8 for the client.
pub fn many_cores() -> Record {
    let mut record = one_step();
    record.plan.server_cpus = (0..16).collect();
    record.plan.client_cpus = (16..24).collect();
    record.environment.cpus = 32;
    record.environment.cpus_allowed = (0..32).collect();
    let mut noise = Noise::new(23);
    let step = &mut record.steps[0];
    let busy = |cpu: u32, level: f64, noise: &mut Noise| {
        let usual = match cpu {
            3 => 0.99,
            0..16 => 0.35 + 0.02 * f64::from(cpu),
            16..24 => 0.62,
            _ => 0.02,
        };
        core(cpu, usual * level * noise.about(0.1), 0.06 * usual, 0.5)
    };
    for sample in &mut step.series {
        let level = (sample.at_ns as f64 / 0.8e9).min(1.0);
        sample.cores = (0..32).map(|cpu| busy(cpu, level, &mut noise)).collect();
    }
    let telemetry = &mut step.telemetry;
    telemetry.cores = (0..32).map(|cpu| busy(cpu, 1.0, &mut noise)).collect();
    for (family, cpus) in [
        (&mut telemetry.server, 0..16),
        (&mut telemetry.client, 16..24),
    ] {
        let family = family.as_mut().expect("samples have both sides");
        family.cpus_allowed = cpus.collect();
        family.utilisation = 0.5;
    }
    record
}

/// A foreign driver that gives quantiles and no histogram.
pub fn foreign() -> Record {
    let mut record = seven_steps();
    record.plan.driver = Some("autocannon -c 100 -d 10 http://127.0.0.1:8083/read".into());
    for step in &mut record.steps {
        step.driver = Driver {
            name: "autocannon".into(),
            command: Some(format!(
                "autocannon -c {} -d 10 http://127.0.0.1:8083/read",
                step.load.connections
            )),
            io: None,
            throughput_from: ThroughputFrom::Report,
            latency_from_intended: false,
            answered: None,
        };
        step.service = None;
        step.first_byte = None;
        step.lateness = None;
        step.ceiling = None;
        step.workers.clear();
        if let Some(latency) = &mut step.latency {
            latency.hdr_v2.clear();
            latency.quantiles_ns.remove("p95");
            latency.quantiles_ns.remove("p99.99");
        }
    }
    record
}

/// Interrupted in its third step, the server out of sight, no telemetry rows.
pub fn interrupted() -> Record {
    let mut record = seven_steps();
    record.steps.truncate(3);
    record.complete = false;
    record.interrupted = Some("SIGINT".into());
    for step in &mut record.steps {
        step.telemetry.server = None;
        step.telemetry.link = None;
        step.telemetry.server_sockets = None;
        step.series.clear();
        if let Some(verdict) = &mut step.verdict {
            verdict.wall = Wall::Inconclusive;
            verdict.how = How::Inconclusive;
            verdict.confidence = 0.0;
            verdict.reason = Reason::ServerNotSeen { client: None };
            verdict
                .resources
                .retain(|resource| resource.wall == Wall::ClientCpu);
            verdict.next = None;
            verdict.evidence.remove(0);
            verdict.caveats.push(Caveat::ServerNotSeen {
                why: "nobody on this host listens on 127.0.0.1:8083.".into(),
            });
        }
    }
    let last = record.steps.last_mut().expect("three steps");
    last.window_ns = 3_200_000_000;
    last.intervals.truncate(52);
    record
}

/// What somebody would write who wants to run script in a reader's browser.
pub const HOSTILE: &str = "</script><img src=x onerror=alert(1)>\u{202e}{{7*1917191}}{% raw %}<!--\"'&\u{2028}\x1b]0;x\x07";

/// A record whose every label is hostile.
pub fn hostile() -> Record {
    let mut record = study();
    let bad = || HOSTILE.to_owned();
    record.id = bad();
    record.started_utc = bad();
    record.tool_version = bad();
    record.command_line = vec![bad(), bad()];
    record.plan.name = bad();
    record.plan.command = bad();
    record.plan.subject = Some(bad());
    record.plan.driver = Some(bad());
    record.plan.target.url = bad();
    record.interrupted = Some(bad());
    record.environment.kernel = Some(bad());
    record.environment.cpu_model = Some(bad());
    record.environment.versions.insert(bad(), bad());
    record.environment.settings.insert(bad(), bad());
    record.environment.mitigations.insert(bad(), bad());
    record.caveats.push(Caveat::Note { text: bad() });
    for claim in &mut record.claims {
        claim.id = bad();
        claim.claim = bad();
        claim.source = bad();
        claim.because = bad();
    }
    for step in &mut record.steps {
        step.name = bad();
        step.target.url = bad();
        step.target.path = bad();
        step.target.address = bad();
        step.load.method = bad();
        step.load.header_names = vec![bad()];
        step.driver.name = bad();
        step.driver.command = Some(bad());
        step.driver.io = Some(bad());
        step.started_utc = bad();
        step.counts.failed.insert(bad(), 3);
        step.counts.anomalies.insert(bad(), 3);
        if let Some(server) = &mut step.telemetry.server {
            server.name = bad();
        }
        if let Some(link) = &mut step.telemetry.link {
            link.interface = bad();
        }
        if let Some(latency) = &mut step.latency {
            latency.hdr_v2 = bad();
            latency.quantiles_ns.insert(bad(), 1);
        }
        if let Some(verdict) = &mut step.verdict {
            verdict.reason = Reason::TooManyFailures {
                share: 0.5,
                class: bad(),
            };
            verdict.detail = Some(Detail::DriverThreads { name: bad() });
            verdict.shares.insert(bad(), 0.5);
            verdict.elasticities.insert(
                bad(),
                Elasticity {
                    value: 1.0,
                    low: 0.9,
                    high: 1.1,
                    rounds: 6,
                },
            );
            for evidence in &mut verdict.evidence {
                evidence.fact = Fact::HotThread {
                    name: bad(),
                    busy: 0.5,
                };
                evidence.measure = bad();
            }
            for resource in &mut verdict.resources {
                resource.saturation = Some(Saturation::NeverRests { thread: bad() });
            }
        }
    }
    record
}

/// A proved wall and two settings, every label hostile.
pub fn hostile_find() -> Record {
    let mut record = proved();
    record.id = HOSTILE.into();
    record.plan.subject = Some(HOSTILE.into());
    let step = record.steps.last_mut().expect("six steps");
    step.target.url = HOSTILE.into();
    step.target.address = HOSTILE.into();
    if let Some(server) = &mut step.telemetry.server {
        server.name = HOSTILE.into();
    }
    if let Some(link) = &mut step.telemetry.link {
        link.interface = HOSTILE.into();
        link.rate_bits = None;
    }
    let verdict = step.verdict.as_mut().expect("steps are judged");
    let bad = || HOSTILE.to_owned();
    verdict.reason = Reason::EndedEarly { why: bad() };
    verdict.detail = Some(Detail::Backends { names: vec![bad()] });
    let elasticity = verdict.elasticities["downlink"];
    verdict.elasticities.insert(HOSTILE.into(), elasticity);
    for evidence in &mut verdict.evidence {
        evidence.fact = Fact::HotThread {
            name: bad(),
            busy: 0.5,
        };
    }
    verdict.caveats.push(Caveat::Note {
        text: HOSTILE.into(),
    });
    let experiment = step.experiment.as_mut().expect("it was squeezed");
    experiment.cut_short = Some(HOSTILE.into());
    experiment.setting.backends = vec![HOSTILE.into()];
    for out in &mut experiment.out_of_reach {
        out.why = HOSTILE.into();
    }
    for condition in &mut experiment.conditions {
        condition.how = HOSTILE.into();
    }
    for window in &mut experiment.windows {
        window.check = HOSTILE.into();
    }
    record
}

/// Two settings, every label hostile.
pub fn hostile_ab() -> Record {
    let mut record = ab();
    for step in &mut record.steps {
        step.name = HOSTILE.into();
        step.target.url = HOSTILE.into();
    }
    if let Some(ab) = &mut record.ab {
        ab.a = HOSTILE.into();
        ab.b = HOSTILE.into();
        for ratio in &mut ab.ratios {
            ratio.measure = format!("p{HOSTILE}");
        }
    }
    record
}

/// A record without a step.
pub fn empty() -> Record {
    let mut record = record("run", "empty", vec![]);
    record.complete = false;
    record.environment = Environment::default();
    record
}

/// Every sample by name.
pub fn all() -> Vec<(&'static str, Record)> {
    static ALL: OnceLock<Vec<(&'static str, Record)>> = OnceLock::new();
    ALL.get_or_init(make_all).clone()
}

fn make_all() -> Vec<(&'static str, Record)> {
    vec![
        ("one", one_step()),
        ("seven", seven_steps()),
        ("forty", forty_steps()),
        ("proved", proved()),
        ("observed", observed()),
        ("ab", ab()),
        ("ab-equal", settings(&READ, &READ, 6, 12)),
        ("ab-few", settings(&READ, &READ, 6, 4)),
        ("study", study()),
        ("cells", cells()),
        ("open", open_loop()),
        ("many-cores", many_cores()),
        ("foreign", foreign()),
        ("interrupted", interrupted()),
        ("hostile", hostile()),
        ("hostile-find", hostile_find()),
        ("hostile-ab", hostile_ab()),
        ("empty", empty()),
    ]
}
