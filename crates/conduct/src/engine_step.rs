//! A step driven by our own engine.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use wallfinder_engine::{Edge, IoChoice, Measured, Progress, Signals, StepSpec, Typical};
use wallfinder_hosts::{Joint, ProcessTimes, Sampling, ends_by_itself};
use wallfinder_judge::caveats::tell_gaps_apart;
use wallfinder_model::drive::Share;
use wallfinder_model::record::{Ceiling, Counts, Driver, Interval, ThroughputFrom};
use wallfinder_model::telemetry::{CpuUse, RelaySummary, Telemetry};
use wallfinder_model::{Caveat, Environment, Step};
use wallfinder_sys::clock;

use crate::profiles::Capture;
use crate::samples::Keeping;
use crate::{
    Audience, ClientNow, ConductError, StepOrder, is_crowded, relayed, start_sampler, utc_of,
};

/// This long before the window a server that was started anew during the warm-up is looked for.
const NEAR_OPENING_NS: u64 = 250_000_000;
/// A mark may be so much later than its edge: hosts wait for each other.
const MARK_LATE_NS: i64 = 1_000_000_000;

/// Starts the sampler with the schedule, marks the edges of the window, passes intervals on.
struct Watch<'w> {
    order: &'w StepOrder,
    environment: &'w Environment,
    audience: &'w mut dyn Audience,
    blank: Step,
    /// The schedule's, by the monotonic clock.
    zero_ns: u64,
    sampler: Option<Box<dyn Sampling>>,
    /// Several client hosts as they began, each with what it may take, in processors.
    clients: Vec<(String, f64)>,
    failed: Option<ConductError>,
    /// Whether the server was looked for again before the window.
    found_again: bool,
    /// Before the first request, where the load is counted from there.
    started_ns: Option<i64>,
    opened_ns: Option<i64>,
    closed_ns: Option<i64>,
    capture: Option<Capture<'w>>,
    relayed: Option<RelaySummary>,
    /// CPU times of the host of what the server asks, at both edges.
    behind: Vec<(u64, ProcessTimes)>,
}

impl Watch<'_> {
    fn hear(&mut self, progress: &Progress) {
        match progress {
            Progress::Ready => self.prepare(),
            Progress::Starts { zero_ns } => self.start(*zero_ns),
            Progress::Interval { interval, .. } => self.interval(interval),
            Progress::Edge(edge) => self.edge(*edge),
            // No lever is touched in a step.
            Progress::Window(_) => {}
        }
    }

    fn prepare(&mut self) {
        let now_ns = clock::monotonic_ns();
        match start_sampler(
            self.order,
            self.environment,
            now_ns,
            self.order.client.family(),
        ) {
            Ok(mut sampler) => {
                let load = &self.order.load;
                let is_whole = load.stop.requests.is_some() && load.warmup.0 == 0;
                self.started_ns = is_whole.then(|| sampler.mark("start"));
                self.sampler = Some(sampler);
            }
            Err(error) => self.failed = Some(error),
        }
    }

    fn start(&mut self, zero_ns: u64) {
        self.zero_ns = zero_ns;
        self.blank.started_utc = utc_of(zero_ns);
        if let Some(sampler) = &mut self.sampler {
            let later_ns = sampler.count_from(zero_ns);
            self.started_ns = self.started_ns.map(|at_ns| at_ns - later_ns);
        }
        self.clients = self.order.client.members(&self.order.load);
        self.audience.begins(&self.blank);
    }

    fn interval(&mut self, interval: &Interval) {
        let opens_ns = self.order.load.warmup.0;
        let is_near = interval.at_ns < opens_ns && opens_ns - interval.at_ns <= NEAR_OPENING_NS;
        if let Some(sampler) = self
            .sampler
            .as_ref()
            .filter(|_| is_near && !self.found_again)
        {
            self.found_again = true;
            sampler.find_server_again();
        }
        self.tell_clients();
        let sample = self.sampler.as_ref();
        let sample = sample.and_then(|sampler| sampler.latest());
        self.audience.interval(interval, sample.as_ref());
    }

    fn tell_clients(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let lost = self.order.client.lost_members();
        let sampler = self.sampler.as_ref();
        let used = sampler.map_or(Vec::new(), |sampler| sampler.latest_of_clients());
        self.audience
            .clients(&clients_now(&self.clients, &lost, &used));
    }

    fn edge(&mut self, edge: Edge) {
        // What it says of the time before the window is let go.
        self.relayed = relayed(self.order);
        if edge == Edge::Drained {
            return;
        }
        if let (Edge::Open, Some(profiles)) = (edge, &self.order.profiles) {
            let (window, server) = (self.order.load.stop.after, &*self.order.server);
            let client = self.order.client.family();
            self.capture = Some(Capture::start(profiles, window, server, client.as_ref()));
        }
        if let (Edge::Close, Some(capture)) = (edge, &mut self.capture) {
            capture.close();
        }
        let Some(sampler) = &mut self.sampler else {
            return;
        };
        match edge {
            Edge::Open => self.opened_ns = Some(sampler.mark("open")),
            Edge::Close => self.closed_ns = Some(sampler.mark("close")),
            Edge::Drained => {}
        }
        if let Some(behind) = &self.order.behind {
            self.behind.push((clock::monotonic_ns(), (behind.times)()));
        }
    }
}

pub(crate) fn run(
    order: &StepOrder,
    io: IoChoice,
    environment: &Environment,
    signals: &Arc<Signals>,
    audience: &mut dyn Audience,
) -> Result<Step, ConductError> {
    let keeping = order.samples.as_ref();
    let keeping = keeping.map(|folder| Keeping::start(folder, order.index));
    let keeping = keeping.transpose()?;
    let spec = StepSpec {
        load: order.load.clone(),
        address: order.address,
        request: order.request.clone(),
        tls: order.tls.clone(),
        cpus: order.client_cpus.clone(),
        io,
        seed: order.seed,
        share: Share::WHOLE,
        slots: None,
        samples: keeping.as_ref().map(Keeping::channel),
        spare_connections: 0,
        standby_connections: 0,
        paddings: Vec::new(),
        under_quota: is_crowded(order, environment),
        speed: 1.0,
    };
    let mut watch = Watch {
        order,
        environment,
        audience,
        blank: blank(order),
        zero_ns: 0,
        sampler: None,
        clients: Vec::new(),
        failed: None,
        found_again: false,
        started_ns: None,
        opened_ns: None,
        closed_ns: None,
        capture: None,
        relayed: None,
        behind: Vec::new(),
    };
    tracing::info!(
        step = %order.name,
        connections = spec.load.connections,
        workers = spec.load.workers,
        cpus = ?spec.cpus,
        under_quota = spec.under_quota,
        warmup_ms = spec.load.warmup.0 / 1_000_000,
        "step begins"
    );
    let driven = order
        .client
        .drive(&spec, signals, &mut |progress| watch.hear(&progress));
    let measured = driven?;
    tracing::info!(
        io = ?measured.io,
        throughput = measured.throughput.round(),
        answered = measured.counts.answered,
        failed = measured.counts.failed_total(),
        "step is measured"
    );
    let Watch {
        mut blank,
        sampler,
        failed,
        started_ns,
        opened_ns,
        closed_ns,
        audience,
        capture,
        zero_ns,
        relayed,
        behind,
        ..
    } = watch;
    if let Some(error) = failed {
        return Err(error);
    }
    let series = sampler.map(|sampler| sampler.stop());
    let opened_ns = opened_ns.map(|at_ns| in_time(at_ns, measured.window_from_ns));
    let closed_ns = closed_ns.map(|at_ns| {
        let seen_ns = measured.window_to_ns;
        // Hosts whose load ends by itself end apart: the last of them tells.
        match ends_by_itself(&order.load, &order.request) {
            true => {
                let last_ns = measured.intervals.last().map_or(0, |last| last.at_ns);
                in_time(at_ns, last_ns.max(seen_ns))
            }
            false => in_time(at_ns, seen_ns),
        }
    });
    let mut telemetry = match (&series, opened_ns, closed_ns) {
        (Some(series), Some(from), Some(to)) => series.summarise(from, to),
        _ => Telemetry::default(),
    };
    if let Some(relay) = relayed.filter(|_| closed_ns.is_some()) {
        telemetry.take_relay(relay);
    }
    if let (Some(of), [(from_ns, before), .., (to_ns, after)]) = (&order.behind, &behind[..])
        // What could not be read has no processes.
        && !before.of.is_empty()
        && !after.of.is_empty()
    {
        telemetry.backend = Some(CpuUse {
            cpu_ns: (after.used_since(before, &of.pids) * 1e9) as u64,
            span_ns: to_ns - from_ns,
        });
    }
    if let (Some(series), Some(from), Some(to)) = (&series, started_ns, closed_ns) {
        count_whole(&mut telemetry, series.summarise(from, to));
    }
    if let Some(keeping) = keeping {
        let kept = keeping.finish()?;
        if kept.dropped > 0 {
            blank.caveats.push(Caveat::SamplesDropped {
                count: kept.dropped,
            });
        }
        blank.samples = Some(kept);
    }
    let caveats = &mut blank.caveats;
    let ceiling = ceiling(order, &spec, &measured, signals, audience, caveats);
    fill(&mut blank, measured, telemetry, series, ceiling);
    if let Some(capture) = capture {
        let captured = capture.finish(&blank, zero_ns, is_stopped(signals))?;
        captured.fill(&mut blank);
    }
    Ok(blank)
}

/// Each host that began: whether it is lost, and how busy it is.
fn clients_now(began: &[(String, f64)], lost: &[String], used: &[(String, f64)]) -> Vec<ClientNow> {
    let lost: HashSet<&str> = lost.iter().map(String::as_str).collect();
    let used = used.iter().map(|(name, cores)| (name.as_str(), *cores));
    let used: HashMap<&str, f64> = used.collect();
    let each = began.iter().map(|(name, most)| {
        let is_lost = lost.contains(name.as_str());
        // Of a lost one the sampler still has the last tick.
        let used = used.get(name.as_str()).filter(|_| !is_lost);
        ClientNow {
            name: name.clone(),
            busy: used.map(|cores| (cores / most.max(f64::MIN_POSITIVE)).min(1.0)),
            is_lost,
        }
    });
    each.collect()
}

/// When an edge was, which was marked then. News of a load on another host may be held up on its way: the tick that is
/// nearest to what its workers saw stands for the mark.
fn in_time(marked_ns: i64, seen_ns: u64) -> i64 {
    let seen_ns = seen_ns as i64;
    match marked_ns - seen_ns > MARK_LATE_NS {
        true => seen_ns,
        false => marked_ns,
    }
}

/// The step as far as it is known before it runs.
pub(crate) fn blank(order: &StepOrder) -> Step {
    Step {
        index: order.index,
        name: order.name.clone(),
        target: order.target.clone(),
        load: order.load.clone(),
        driver: Driver {
            name: "wallfinder".into(),
            command: None,
            io: None,
            throughput_from: ThroughputFrom::Engine,
            latency_from_intended: true,
            answered: None,
        },
        started_utc: String::new(),
        window_ns: 0,
        counts: Counts::default(),
        throughput: 0.0,
        in_flight_mean: 0.0,
        drained: None,
        open_connections: None,
        latency: None,
        service: None,
        first_byte: None,
        lateness: None,
        intervals: Vec::new(),
        outages: Vec::new(),
        requests: Vec::new(),
        sessions: Vec::new(),
        mix_windows: Vec::new(),
        pool: None,
        interference: Vec::new(),
        telemetry: Telemetry::default(),
        ceiling: None,
        workers: Vec::new(),
        clients: Vec::new(),
        samples: None,
        profiles: None,
        client_profiles: None,
        caveats: order
            .server_not_seen
            .iter()
            .map(|why| Caveat::ServerNotSeen { why: why.clone() })
            .collect(),
        verdict: None,
        experiment: None,
        cell: None,
        fairness: None,
        series: Vec::new(),
    }
}

/// What went over the network belongs to the requests that were counted, also before the window's
/// opening was noticed: that takes some milliseconds beside busy workers.
fn count_whole(telemetry: &mut Telemetry, whole: Telemetry) {
    telemetry.tcp = whole.tcp;
    telemetry.client_tcp = whole.client_tcp;
    if let (Some(link), Some(of_all)) = (&mut telemetry.link, whole.link) {
        link.totals = of_all.totals;
    }
}

fn is_stopped(signals: &Signals) -> bool {
    signals.stop.load(Ordering::Relaxed)
}

/// The most the workers could drive for such a load; nothing when the run is being stopped
/// or nothing was answered. Where it cannot be told, a caveat says why.
fn ceiling(
    order: &StepOrder,
    spec: &StepSpec,
    measured: &Measured,
    signals: &Signals,
    audience: &mut dyn Audience,
    caveats: &mut Vec<Caveat>,
) -> Option<Ceiling> {
    let calibration = order.calibrate.as_ref()?;
    if is_stopped(signals) || measured.counts.answered == 0 {
        return None;
    }
    audience.calibrating();
    let counts = &measured.counts;
    let typical = Typical {
        body_bytes: counts.body_bytes / counts.answered,
        messages: counts.messages / counts.answered,
        closes: counts.connects > counts.answered / 2,
    };
    match calibration.ceiling(&*order.client, spec, typical, order.null_server_cpu) {
        Ok(ceiling) => Some(ceiling),
        // The result stands without.
        Err(why) => {
            let why = why.to_string();
            caveats.push(Caveat::NoCeiling { why });
            None
        }
    }
}

fn fill(
    step: &mut Step,
    measured: Measured,
    mut telemetry: Telemetry,
    series: Option<Joint>,
    ceiling: Option<Ceiling>,
) {
    if let Some(series) = series {
        step.caveats.extend(series.gaps);
        step.series = series.samples;
    }
    if telemetry.client_sockets.is_none() {
        telemetry.client_sockets = measured.sockets;
    }
    step.driver.io = Some(measured.io);
    step.window_ns = measured.window_to_ns - measured.window_from_ns;
    step.counts = measured.counts;
    step.throughput = measured.throughput;
    step.in_flight_mean = measured.in_flight_mean;
    step.fairness = measured.fairness;
    step.drained = Some(measured.drained);
    step.open_connections = Some(measured.open_connections);
    step.outages = measured.outages;
    step.latency = measured.latency;
    step.service = measured.service;
    step.first_byte = measured.first_byte;
    step.lateness = measured.lateness;
    step.intervals = measured.intervals;
    step.requests = measured.requests;
    step.sessions = measured.sessions;
    tell_gaps_apart(step);
    step.workers = measured.workers;
    step.clients = measured.clients;
    let lost = step.clients.iter().filter_map(|client| {
        Some(Caveat::ClientLost {
            host: client.host.clone(),
            why: client.lost.as_ref()?.why.clone(),
            unknown: client.counts.unknown,
        })
    });
    step.caveats.extend(lost);
    step.telemetry = telemetry;
    step.ceiling = ceiling;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_client_host_is_told_as_lost_and_what_it_took_last_is_forgotten() {
        let hosts = |each: &[(&str, f64)]| -> Vec<(String, f64)> {
            let each = each.iter();
            each.map(|(name, cores)| ((*name).to_owned(), *cores))
                .collect()
        };
        let began = hosts(&[("c1", 2.0), ("c2", 0.5), ("c3", 1.0), ("c4", 1.0)]);
        // One more, that has nothing of this load.
        let lost = ["c2".to_owned(), "c6".to_owned()];
        let used = hosts(&[("c1", 0.5), ("c2", 0.5), ("c4", 1.25), ("c5", 1.0)]);
        let now = |name: &str, busy, is_lost| ClientNow {
            name: name.to_owned(),
            busy,
            is_lost,
        };
        assert_eq!(
            clients_now(&began, &lost, &used),
            [
                now("c1", Some(0.25), false),
                now("c2", None, true),
                now("c3", None, false),
                now("c4", Some(1.0), false),
            ]
        );
    }

    #[test]
    fn a_mark_that_comes_far_too_late_is_placed_where_the_workers_saw_the_edge() {
        let second = 1_000_000_000;
        assert_eq!(
            in_time(10 * second + 700_000_000, 10_000_000_000),
            10 * second + 700_000_000
        );
        assert_eq!(in_time(9 * second, 10_000_000_000), 9 * second);
        assert_eq!(in_time(31 * second, 10_000_000_000), 10 * second);
    }
}
