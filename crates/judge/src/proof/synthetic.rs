//! Experiments with known answers: a closed queueing network, squeezed by a conductor of
//! four lines, seen through noise.
//!
//! The network is solved exactly by mean value analysis, so that its true elasticities and
//! what lifting a wall would bring are known to any digit.

use std::collections::BTreeMap;

use wallfinder_model::experiment::{
    Condition, Effort, Experiment, Neighbour, OutOfReach, Setting, Squeeze, Window,
};
use wallfinder_model::record::Step;

use super::{design, looks};
use crate::double::{Noise, a_step};

/// Seconds per request at each place, and what limits the load.
#[derive(Debug, Clone)]
pub(super) struct System {
    /// Work of the server that its processors share.
    pub(super) server: f64,
    /// Work of the server that runs one at a time.
    pub(super) serial: f64,
    pub(super) cores: f64,
    pub(super) quota: Option<f64>,
    /// Cores that somebody else takes from the server.
    pub(super) neighbour: f64,
    pub(super) client: f64,
    pub(super) client_quota: Option<f64>,
    /// Client hosts, among which the client's work is dealt.
    pub(super) hosts: f64,
    /// What each of them can do one at a time, with no processor of its own: its link, a limit for its address.
    pub(super) per_client: f64,
    pub(super) downlink: f64,
    pub(super) uplink: f64,
    pub(super) backend: f64,
    pub(super) backend_quota: Option<f64>,
    /// A queue that no squeeze reaches: a pool, a sleeping lock.
    pub(super) inner: f64,
    /// How many such queues there are, one behind the other.
    pub(super) alike: usize,
    /// A delay in parallel: a round trip, an asynchronous sleep.
    pub(super) delay: f64,
    pub(super) in_flight: f64,
    /// A pool on the client's side, below what is nominally in flight.
    pub(super) client_pool: Option<f64>,
    /// Requests per second asked for, in an open loop.
    pub(super) open: Option<f64>,
    /// How much the server's demand answers its speed: 1.3 for collectors, 0.85 for batching.
    pub(super) answers: f64,
    /// Two phases of equal work, the one bound by the server, the other by the downlink.
    pub(super) phases: bool,
    /// Squeezes do nothing: shams all the way.
    pub(super) null: bool,
}

impl Default for System {
    fn default() -> System {
        System {
            server: 5e-6,
            serial: 0.0,
            cores: 1.0,
            quota: None,
            neighbour: 0.0,
            client: 5e-6,
            client_quota: None,
            hosts: 1.0,
            per_client: 0.0,
            downlink: 2e-6,
            uplink: 1e-6,
            backend: 0.0,
            backend_quota: None,
            inner: 0.0,
            alike: 1,
            delay: 0.0,
            in_flight: 16.0,
            client_pool: None,
            open: None,
            answers: 1.0,
            phases: false,
            null: false,
        }
    }
}

impl System {
    /// Throughput with this much left of a resource.
    pub(super) fn squeezed(&self, squeeze: Squeeze, r: f64) -> f64 {
        self.with(squeeze, r).throughput()
    }

    /// The system with this much left of a resource.
    pub(super) fn with(&self, squeeze: Squeeze, r: f64) -> System {
        let mut changed = self.clone();
        match squeeze {
            _ if self.null => {}
            Squeeze::ServerSpeed => {
                changed.serial /= r.powf(self.answers);
                changed.server /= r.powf(self.answers);
                // A quota below what the CPU stealer leaves still binds alone; above it, it binds
                // no more.
                let left = (self.cores - self.neighbour) * r;
                match self.quota {
                    Some(quota) if quota < left => {
                        changed.server = self.server;
                        changed.serial = self.serial;
                    }
                    _ => changed.quota = None,
                }
            }
            Squeeze::ServerCapacity => {
                changed.quota = Some(self.quota.unwrap_or(self.cores) * r);
            }
            Squeeze::ClientSpeed => match self.client_quota {
                Some(quota) if quota < r => {}
                _ => changed.client /= r,
            },
            Squeeze::ClientCapacity => {
                changed.client_quota = Some(self.client_quota.unwrap_or(1.0) * r);
            }
            Squeeze::MoreClients => changed.hosts *= r,
            Squeeze::Downlink => changed.downlink /= r,
            Squeeze::Uplink => changed.uplink /= r,
            Squeeze::BackendSpeed => match self.backend_quota {
                Some(quota) if quota < r => {}
                _ => changed.backend /= r,
            },
            Squeeze::BackendCapacity => {
                changed.backend_quota = Some(self.backend_quota.unwrap_or(1.0) * r);
            }
            Squeeze::InFlight | Squeeze::MoreInFlight => changed.in_flight *= r,
            Squeeze::ThinkTime => {
                changed.delay += self.in_flight() / self.throughput() * (1.0 / r - 1.0);
            }
            Squeeze::OfferedLoad => changed.open = self.open.map(|rate| rate * r),
        }
        changed
    }

    fn in_flight(&self) -> f64 {
        self.client_pool
            .map_or(self.in_flight, |pool| pool.min(self.in_flight))
    }

    fn server_cores(&self) -> f64 {
        let left = self.cores - self.neighbour;
        self.quota.map_or(left, |quota| quota.min(left))
    }

    fn demands(&self) -> Vec<f64> {
        let mut demands = vec![self.inner; self.alike];
        demands.extend([
            self.server / self.server_cores(),
            self.serial,
            self.client / self.client_quota.unwrap_or(1.0) / self.hosts,
            self.per_client / self.hosts,
            self.downlink,
            self.uplink,
            self.backend / self.backend_quota.unwrap_or(1.0),
        ]);
        demands
    }

    pub(super) fn throughput(&self) -> f64 {
        if self.phases {
            let only = |server: f64, downlink: f64| {
                System {
                    server,
                    downlink,
                    phases: false,
                    ..self.clone()
                }
                .throughput()
            };
            let (a, b) = (only(self.server, 1e-6), only(1e-6, self.downlink));
            return 2.0 / (1.0 / a + 1.0 / b);
        }
        let n = self.in_flight();
        let closed = closed(&self.demands(), self.delay, n);
        self.open.map_or(closed, |rate| rate.min(closed))
    }

    /// d ln X / d ln r in the limit of small doses.
    pub(super) fn elasticity(&self, squeeze: Squeeze) -> f64 {
        (self.squeezed(squeeze, 0.995) / self.throughput()).ln() / 0.995f64.ln()
    }

    /// 1 - Σ over the rates: the share of what no squeeze reaches.
    pub(super) fn rest(&self) -> f64 {
        let server = self
            .elasticity(Squeeze::ServerSpeed)
            .max(self.elasticity(Squeeze::ServerCapacity));
        let backend = self
            .elasticity(Squeeze::BackendSpeed)
            .max(self.elasticity(Squeeze::BackendCapacity));
        let others = [
            Squeeze::ClientSpeed,
            Squeeze::Downlink,
            Squeeze::Uplink,
            Squeeze::OfferedLoad,
        ];
        1.0 - server - backend - others.into_iter().map(|s| self.elasticity(s)).sum::<f64>()
    }

    /// Its elasticities, to be printed beside a verdict that is wrong.
    pub(super) fn truth(&self) -> String {
        let each = Squeeze::ALL
            .into_iter()
            .map(|squeeze| format!("{} {:.2}", squeeze.label(), self.elasticity(squeeze)));
        let each: Vec<String> = each.collect();
        format!(
            "{}, rest {:.2}, in flight {}",
            each.join(", "),
            self.rest(),
            self.in_flight
        )
    }

    fn has(&self, squeeze: Squeeze) -> bool {
        match squeeze {
            Squeeze::BackendSpeed => self.backend > 0.0,
            Squeeze::BackendCapacity => self.backend > 0.0 && self.backend_quota.is_some(),
            Squeeze::ClientCapacity => self.client_quota.is_some(),
            Squeeze::MoreClients => self.hosts > 1.0,
            _ => true,
        }
    }

    /// What telemetry shows of it.
    fn step(&self, noise: &mut Noise) -> Step {
        let x = self.throughput();
        let n = self
            .open
            .map_or(self.in_flight(), |rate| if x < rate { 256.0 } else { 4.0 });
        let mut seen = |used: f64| (used * (1.0 + 0.01 * noise.gauss())).clamp(0.0, 1.0);
        let cores = self.quota.unwrap_or(self.cores);
        let server = seen(x * (self.server + self.serial) / cores);
        let client = seen(x * self.client / self.client_quota.unwrap_or(1.0) / self.hosts);
        let (down, up) = (seen(x * self.downlink), seen(x * self.uplink));
        let mean_ms = n / x * 1e3;
        a_step()
            .throughput(x)
            .in_flight(n)
            .latency_ms(mean_ms, 0.8 * mean_ms)
            .server(cores, server)
            .client(self.client_quota.unwrap_or(1.0), client)
            .link(0.96 * down, 0.96 * up)
            .build()
    }
}

/// Throughput of a closed network, between whole populations by interpolation.
fn closed(demands: &[f64], delay: f64, population: f64) -> f64 {
    let (below, above) = (population.floor().max(1.0), population.ceil().max(1.0));
    let mut queues = vec![0.0f64; demands.len()];
    let mut last = 0.0;
    for n in 1..=above as u32 {
        let times: Vec<f64> = demands
            .iter()
            .zip(&queues)
            .map(|(d, q)| d * (1.0 + q))
            .collect();
        let x = f64::from(n) / (delay + times.iter().sum::<f64>());
        for (queue, time) in queues.iter_mut().zip(times) {
            *queue = x * time;
        }
        if n as f64 > below {
            return last + (x - last) * (population - below);
        }
        last = x;
    }
    if population < 1.0 {
        last * population
    } else {
        last
    }
}

/// How an experiment is run and blurred.
#[derive(Debug, Clone, Copy)]
pub(super) struct Conditions {
    pub(super) effort: Effort,
    pub(super) seed: u64,
    /// Deviation of a window's ln throughput.
    pub(super) noise: f64,
    /// Share of windows that run at three quarters.
    pub(super) slow: f64,
    /// ln of throughput in a minute.
    pub(super) drift: f64,
    /// Deviation of ln throughput from one start of the server to the next.
    pub(super) luck: f64,
    /// A shared machine: spells of two to five windows at four fifths, and a level that
    /// wanders.
    pub(super) rough: bool,
    /// Only what needs no privilege.
    pub(super) unprivileged: bool,
    /// Deviation of ln speed of the server's processors from window to window, and whether a
    /// reference loop tells it.
    pub(super) pace: (f64, bool),
}

impl Default for Conditions {
    fn default() -> Conditions {
        Conditions {
            effort: Effort::Normal,
            seed: 1,
            noise: 0.015,
            slow: 0.02,
            drift: 0.0,
            luck: 0.02,
            rough: false,
            unprivileged: false,
            pace: (0.0, true),
        }
    }
}

/// Runs an experiment on a system until the judge has seen enough.
pub(super) fn run(system: &System, conditions: Conditions) -> Step {
    let mut noise = Noise::new(conditions.seed.wrapping_mul(7919) + 13);
    let mut step = system.step(&mut noise);
    let mut experiment = empty(conditions.effort, conditions.seed);
    experiment.setting = setting(system);
    for squeeze in Squeeze::ALL {
        let needs = !matches!(
            squeeze,
            Squeeze::ClientSpeed
                | Squeeze::InFlight
                | Squeeze::MoreInFlight
                | Squeeze::ThinkTime
                | Squeeze::OfferedLoad
        );
        if !system.has(squeeze) || (conditions.unprivileged && needs) {
            let why = "needs root".to_owned();
            experiment.out_of_reach.push(OutOfReach { squeeze, why });
        }
    }
    let mut round = 0;
    let mut batches = 0;
    let (mut start, mut level) = (0, 1.0);
    let mut machine = Machine::default();
    let answers = system.elasticity(Squeeze::ServerSpeed);
    while let looks::Next::Rounds {
        rounds,
        conditions: orders,
    } = looks::next(&experiment)
    {
        batches += 1;
        assert!(
            batches < 60 && rounds > 0 && !orders.is_empty(),
            "{orders:?}"
        );
        let in_use: Vec<usize> = orders
            .iter()
            .map(|order| place(&mut experiment, order))
            .collect();
        for _ in 0..rounds {
            if design::restarts_before(conditions.effort, round) {
                start += 1;
                level = (conditions.luck * noise.gauss()).exp();
            }
            for index in design::block(experiment.seed, round, &in_use) {
                let mut window = window(system, &experiment, index, round, conditions, &mut noise);
                window.restart = start;
                window.throughput *= level;
                window.latency_mean_ns = window.latency_mean_ns.map(|mean| mean / level);
                if conditions.rough {
                    machine.pass(&mut window, &mut noise);
                }
                pace(&mut window, answers, conditions.pace, &mut noise);
                experiment.windows.push(window);
            }
            round += 1;
        }
    }
    step.experiment = Some(experiment);
    step
}

/// Strangers on the cores of the server's processors, and a reference loop there that blurs by 2 %.
fn pace(window: &mut Window, answers: f64, pace: (f64, bool), noise: &mut Noise) {
    let (deviation, is_told) = pace;
    if deviation == 0.0 {
        return;
    }
    let speed = deviation * noise.gauss();
    window.throughput *= (answers * speed).exp();
    window.latency_mean_ns = window.in_flight_mean.map(|n| n / window.throughput * 1e9);
    let yard_ns = 7_000.0 * (0.02 * noise.gauss() - speed).exp();
    window.server_reference_ns = is_told.then_some(yard_ns);
}

/// Others on the machine.
#[derive(Default)]
struct Machine {
    spell: u32,
    level: f64,
}

impl Machine {
    fn pass(&mut self, window: &mut Window, noise: &mut Noise) {
        if self.spell == 0 && noise.uniform() < 0.015 {
            self.spell = 2 + (4.0 * noise.uniform()) as u32;
        }
        self.level = 0.95 * self.level + 0.01 * noise.gauss();
        let spell = if self.spell > 0 { 0.8 } else { 1.0 };
        self.spell = self.spell.saturating_sub(1);
        window.throughput *= spell * self.level.exp();
        window.latency_mean_ns = window.in_flight_mean.map(|n| n / window.throughput * 1e9);
    }
}

/// Index of an order's condition, which is new at its first time.
fn place(experiment: &mut Experiment, order: &looks::ConditionOrder) -> usize {
    let conditions = &mut experiment.conditions;
    let known = conditions.iter().position(|condition| order.is(condition));
    known.unwrap_or_else(|| {
        conditions.push(order.condition(String::new()));
        conditions.len() - 1
    })
}

fn window(
    system: &System,
    experiment: &Experiment,
    index: usize,
    round: u32,
    conditions: Conditions,
    noise: &mut Noise,
) -> Window {
    let condition = &experiment.conditions[index];
    let place = experiment.windows.len();
    let blank = blank(conditions.effort, index as u32, round, place);
    let mut retained = None;
    let mut retained_each = BTreeMap::new();
    let mut squeezed = system.clone();
    for squeeze in condition.squeezes() {
        let mut left = condition.retained;
        if squeeze == Squeeze::InFlight {
            left = (system.in_flight * left).round().max(1.0) / system.in_flight;
            retained = condition.together.is_empty().then_some(left);
        }
        if !condition.together.is_empty() {
            retained_each.insert(squeeze, left);
        }
        if squeeze == Squeeze::MoreClients {
            // One rests, or a fifth of them.
            let rest = (0.2 * system.hosts).round().max(1.0);
            left = 1.0 - rest / system.hosts;
            retained = Some(left);
        }
        squeezed = squeezed.with(squeeze, left);
    }
    let truth = squeezed.throughput();
    let slow = if noise.uniform() < conditions.slow {
        0.75
    } else {
        1.0
    };
    let drift = (conditions.drift * blank.from_ns as f64 / 60e9).exp();
    let x = truth * slow * drift * (conditions.noise * noise.gauss()).exp();
    Window {
        retained,
        retained_each,
        throughput: x,
        answered: (x * blank.seconds()) as u64,
        in_flight_mean: Some(system.in_flight()),
        latency_mean_ns: Some(system.in_flight() / x * 1e9),
        ..blank
    }
}

fn setting(system: &System) -> Setting {
    let neighbours = (system.neighbour > 0.0).then(|| Neighbour {
        name: "stress-ng (4711)".to_owned(),
        cores: system.neighbour,
    });
    let cores = system.cores as u32;
    Setting {
        server_cpus: (0..cores).collect(),
        server_quota_cores: system.quota,
        client_cpus: vec![cores],
        client_quota_cores: system.client_quota,
        open_loop: system.open.is_some(),
        in_flight_max: system.in_flight as u64,
        own_engine: true,
        client_hosts: system.hosts as u32,
        neighbours: neighbours.into_iter().collect(),
        backends: if system.backend > 0.0 {
            vec!["redis".to_owned()]
        } else {
            Vec::new()
        },
        ..Setting::default()
    }
}

fn empty(effort: Effort, seed: u64) -> Experiment {
    Experiment {
        seed,
        effort,
        conditions: vec![Condition::sham()],
        windows: Vec::new(),
        out_of_reach: Vec::new(),
        setting: Setting {
            in_flight_max: 16,
            ..Setting::default()
        },
        intervals: Vec::new(),
        cut_short: None,
        alone: None,
    }
}

/// A window, and the wash-out before it, as long as an effort has them.
fn blank(effort: Effort, condition: u32, round: u32, at: usize) -> Window {
    let (wash_out_ns, window_ns) = match effort {
        Effort::Quick => (250_000_000, 500_000_000),
        Effort::Normal => (300_000_000, 700_000_000),
        Effort::Thorough => (400_000_000, 1_000_000_000),
    };
    let from_ns = at as u64 * (wash_out_ns + window_ns) + wash_out_ns;
    Window {
        round,
        condition,
        restart: 0,
        from_ns,
        to_ns: from_ns + window_ns,
        answered: 0,
        failed: 0,
        throughput: 0.0,
        in_flight_mean: None,
        latency_mean_ns: None,
        p50_ns: None,
        p99_ns: None,
        retained: None,
        in_force: Some(true),
        without: Vec::new(),
        retained_each: BTreeMap::new(),
        check: String::new(),
        server_cores: None,
        client_cores: None,
        steal_share: 0.0,
        server_reference_ns: None,
        client_reference_ns: None,
    }
}

/// An experiment by hand: squeezes with what is left of them (conditions from 1 on), and
/// windows as condition and throughput. The n-th window of a condition is of round n.
pub(super) fn experiment_of(squeezes: &[(Squeeze, f64)], windows: &[(u32, f64)]) -> Experiment {
    let mut experiment = empty(Effort::Normal, 1);
    experiment
        .conditions
        .extend(squeezes.iter().map(|(squeeze, retained)| Condition {
            squeeze: Some(*squeeze),
            together: Vec::new(),
            retained: *retained,
            how: String::new(),
        }));
    for (at, (condition, throughput)) in windows.iter().enumerate() {
        let same = |window: &&Window| window.condition == *condition;
        let round = experiment.windows.iter().filter(same).count() as u32;
        experiment.windows.push(Window {
            throughput: *throughput,
            answered: *throughput as u64,
            ..blank(Effort::Normal, *condition, round, at)
        });
    }
    experiment
}
