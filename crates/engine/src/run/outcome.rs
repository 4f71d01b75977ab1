//! What came of a step: the window of all workers, or why there is none.

use std::any::Any;
use std::collections::BTreeMap;
use std::thread;

use wallfinder_model::drive::Measured;
use wallfinder_model::record::{
    Counts, Drained, Handshakes, OpenConnections, Outage, RequestKind, SessionKind, WorkerSummary,
};
use wallfinder_model::telemetry::SocketsSummary;
use wallfinder_sys::io::Io;
use wallfinder_sys::net::TcpInfo;
use wallfinder_wire::Wire;
use wallfinder_wire::mix::{Flow, Mix};

use super::collect::{Collector, WindowLatencies};
use super::start::Ended;
use super::window::{Mark, Stretch};
use crate::counters::{Class, Counters};
use crate::error::EngineError;
use crate::mix::{FlowCounts, KindSum};
use crate::plan::WorkerPlan;
use crate::protocol::{self, Common};
use crate::reach;
use crate::spec::StepSpec;
use crate::worker::{Shares, WorkerEnd};

type Joined<S> = thread::Result<Ended<S>>;

/// What the wires of all workers noticed.
#[derive(Debug, Default)]
struct Noticed {
    anomalies: BTreeMap<String, u64>,
    handshakes: Option<Handshakes>,
}

impl Noticed {
    fn add<S: Common>(&mut self, shared: &S) {
        if let Some(begun) = shared.handshakes() {
            let sum = self.handshakes.get_or_insert_default();
            sum.full += begun.full;
            sum.resumed += begun.resumed;
        }
        for (name, count) in shared.anomalies() {
            if count > 0 {
                *self.anomalies.entry(name.to_owned()).or_insert(0) += count;
            }
        }
    }
}

pub(super) fn conclude<W, I>(
    spec: &StepSpec,
    collector: Collector<'_>,
    results: Vec<Joined<W::Shared>>,
) -> Result<Measured, EngineError>
where
    W: Wire,
    W::Shared: Common,
    I: Io,
{
    let mut ends = Vec::new();
    let mut noticed = Noticed::default();
    for (worker, result) in results.into_iter().enumerate() {
        let ended = result.map_err(|panic| worker_panicked(worker as u32, &*panic))?;
        let (end, shared) = ended.map_err(|errno| EngineError::Refused {
            what: I::NAME,
            why: errno.to_string(),
        })?;
        if end.speaks_otherwise {
            return Err(EngineError::OtherProtocol {
                address: spec.address,
                fault: shared.fault().unwrap_or_default(),
                way_out: protocol::way_out(&spec.request),
            });
        }
        noticed.add(&shared);
        ends.push(end);
    }
    let windows = collector.windows.iter();
    let connects: u64 = windows.map(|window| window.last_totals.connects).sum();
    let last_failure = ends.iter().find_map(|end| end.last_connect_failure);
    if connects == 0
        && let Some((class, errno)) = last_failure
    {
        return Err(EngineError::NoConnection {
            address: spec.address,
            class: Class::name_at(class.index()),
            errno,
        });
    }
    Ok(measured::<I>(spec.request.mix(), collector, &ends, noticed))
}

/// The error of a worker that panicked.
pub(super) fn panicked<S>((worker, result): (usize, Joined<S>)) -> Option<EngineError> {
    let panic = result.err()?;
    Some(worker_panicked(worker as u32, &*panic))
}

fn worker_panicked(worker: u32, panic: &(dyn Any + Send)) -> EngineError {
    let message = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "no message".to_owned());
    EngineError::WorkerPanicked { worker, message }
}

/// The measured windows of all workers, added up as they are met.
#[derive(Debug, Default)]
struct Sum {
    change: Counters,
    in_flight: (u64, u64),
    backlog: (u64, u64),
    from_ns: u128,
    to_ns: u128,
    counted: u128,
    throughput: f64,
    in_flight_mean: f64,
    drained: Drained,
    open_connections: OpenConnections,
    workers: Vec<WorkerSummary>,
    kinds: Vec<KindSum>,
    flows: Vec<FlowCounts>,
}

impl Sum {
    fn add(&mut self, open: &Mark, close: &Mark, stretch: &Stretch, zero_ns: u64) {
        self.throughput += stretch.throughput;
        self.in_flight_mean += stretch.in_flight_mean;
        self.open_connections.mean += stretch.open_mean;
        self.in_flight.0 += open.totals.in_flight;
        self.in_flight.1 += close.totals.in_flight;
        self.backlog.0 += open.totals.backlog();
        self.backlog.1 += close.totals.backlog();
        self.from_ns += u128::from(open.at_ns.saturating_sub(zero_ns));
        self.to_ns += u128::from(close.at_ns.saturating_sub(zero_ns));
        self.counted += 1;
        self.kinds.resize_with(close.kinds.len(), KindSum::default);
        let kinds = self
            .kinds
            .iter_mut()
            .zip(open.kinds.iter().zip(&close.kinds));
        for (sum, (before, after)) in kinds {
            sum.add(&after.since(before), stretch.span_ns);
        }
        self.flows
            .resize_with(close.flows.len(), FlowCounts::default);
        let flows = open.flows.iter().zip(&close.flows);
        for (sum, (before, after)) in self.flows.iter_mut().zip(flows) {
            sum.add(&after.since(before));
        }
        self.change.add(&stretch.change);
    }

    /// What came after the window of a worker.
    fn add_drained(&mut self, at_close: &Counters, after: &Counters) {
        let drained = &mut self.drained;
        drained.answered += after.answered - at_close.answered;
        drained.failed += after.failed_total() - at_close.failed_total();
        drained.in_flight += after.in_flight;
        drained.not_sent += after.backlog();
    }

    fn add_end(&mut self, end: &WorkerEnd) {
        self.drained.waited_ns = self.drained.waited_ns.max(end.drained_ns);
        self.drained.oldest_ns = self.drained.oldest_ns.max(end.oldest_unanswered_ns);
        self.open_connections.answering += end.answering;
    }

    /// The window's edges, from zero: the means over the workers.
    fn window(&self) -> (u64, u64) {
        let counted = self.counted.max(1);
        (
            (self.from_ns / counted) as u64,
            (self.to_ns / counted) as u64,
        )
    }

    fn counts(&self, mut noticed: Noticed, outages: &[Outage]) -> Counts {
        let change = &self.change;
        if change.resent > 0 {
            let name = "request_sent_again".to_owned();
            noticed.anomalies.insert(name, change.resent);
        }
        let statuses = (0..).zip(change.statuses).filter(|(_, count)| *count > 0);
        Counts {
            scheduled: change.scheduled,
            answered: change.answered,
            failed: Counters::named(&change.failed),
            not_sent: self.backlog.1 as i64 - self.backlog.0 as i64,
            in_flight_start: self.in_flight.0,
            in_flight_end: self.in_flight.1,
            unknown: 0,
            statuses: statuses.collect(),
            bytes_in: change.bytes_in,
            bytes_out: change.bytes_out,
            body_bytes: change.body_bytes,
            decoded_bytes: change.decoded_bytes,
            messages: change.messages,
            late_by_client: change.late_by_client,
            expired_unsent: change.expired_unsent,
            unreachable_ns: outages.iter().map(|outage| outage.for_ns).sum(),
            connects: change.connects,
            connect_failures: Counters::named(&change.connect_failed),
            anomalies: noticed.anomalies,
            handshakes: noticed.handshakes,
        }
    }
}

fn measured<I: Io>(
    mix: Option<&Mix>,
    collector: Collector<'_>,
    ends: &[WorkerEnd],
    noticed: Noticed,
) -> Measured {
    let zero_ns = collector.zero_ns;
    let mut sum = Sum::default();
    for (plan, window) in collector.plans.iter().zip(&collector.windows) {
        let (Some(open), Some(close)) = (&window.open, &window.close) else {
            continue;
        };
        let stretch = open.until(close);
        sum.add(open, close, &stretch, zero_ns);
        sum.open_connections.most += window.open_most;
        let after = window.drained.as_ref().unwrap_or(&close.totals);
        sum.add_drained(&close.totals, after);
        let end = ends.get(plan.worker as usize);
        sum.workers.push(summary(plan, end, &stretch));
    }
    ends.iter().for_each(|end| sum.add_end(end));
    let window = sum.window();
    let outages = outages(ends, window, zero_ns);
    let counts = sum.counts(noticed, &outages);
    assert!(counts.balanced(), "the accounting identity does not hold");
    let latencies = &collector.latencies;
    Measured {
        requests: mix.map_or(Vec::new(), |mix| requests(mix, &sum, latencies)),
        sessions: mix.map_or(Vec::new(), |mix| sessions(mix, &sum, latencies)),
        zero_ns,
        window_from_ns: window.0,
        window_to_ns: window.1,
        counts,
        throughput: sum.throughput,
        in_flight_mean: sum.in_flight_mean,
        fairness: fairness(ends),
        latency: latencies.latency.to_record(),
        service: latencies.service.to_record(),
        first_byte: latencies.first_byte.to_record(),
        lateness: latencies.lateness.to_record(),
        drained: sum.drained,
        open_connections: sum.open_connections,
        outages,
        intervals: collector.intervals,
        workers: sum.workers,
        sockets: sockets_summary(ends),
        clients: Vec::new(),
        io: I::NAME.to_owned(),
    }
}

fn requests(mix: &Mix, sum: &Sum, latencies: &WindowLatencies) -> Vec<RequestKind> {
    let mut sessions = vec![None; mix.kinds.len()];
    for flow in mix.flows.iter().filter(|flow| flow.is_session()) {
        for step in &flow.steps {
            sessions[usize::from(step.kind)] = Some(flow.name.as_str());
        }
    }
    let kinds = mix
        .kinds
        .iter()
        .zip(mix.weights().into_iter().zip(sessions));
    let measured = sum.kinds.iter().zip(&latencies.kinds);
    kinds
        .zip(measured)
        .map(|((kind, of), (sum, latency))| sum.to_record(kind, of, latency))
        .collect()
}

/// Flows of several steps; one that only follows a redirect is a request all the same.
fn sessions(mix: &Mix, sum: &Sum, latencies: &WindowLatencies) -> Vec<SessionKind> {
    let steps = |flow: &Flow| flow.steps.iter().filter(|step| step.hop.is_none()).count();
    let flows = mix.flows.iter().zip(sum.flows.iter().zip(&latencies.flows));
    let sessions = flows.filter(|(flow, _)| steps(flow) > 1);
    sessions
        .map(|(flow, (sum, took))| sum.to_record(flow, took))
        .collect()
}

fn summary(plan: &WorkerPlan, end: Option<&WorkerEnd>, stretch: &Stretch) -> WorkerSummary {
    let change = &stretch.change;
    WorkerSummary {
        worker: plan.worker,
        cpu: end.and_then(|end| end.cpu),
        connections: plan.connections,
        answered: change.answered,
        cpu_ns: stretch.worked_ns,
        polled_ns: change.polled_ns,
        busy_share: stretch.worked_ns as f64 / stretch.span_ns as f64,
        waits: change.waits,
        events: change.events,
        batching_waits: change.batching_waits,
        batching_ns: change.batching_ns,
    }
}

/// When no worker had a connection, within the window, whose edges count from the schedule's zero.
fn outages(ends: &[WorkerEnd], (from_ns, to_ns): (u64, u64), zero_ns: u64) -> Vec<Outage> {
    let workers: Vec<&[(u64, u64)]> = ends.iter().map(|end| &end.outages[..]).collect();
    reach::common(&workers, (zero_ns + from_ns, zero_ns + to_ns), zero_ns)
}

fn fairness(ends: &[WorkerEnd]) -> Option<f64> {
    let shares: Option<Vec<Shares>> = ends.iter().map(|end| end.shares).collect();
    Shares::fairness(&shares?)
}

fn sockets_summary(ends: &[WorkerEnd]) -> Option<SocketsSummary> {
    let sockets: Vec<TcpInfo> = ends.iter().flat_map(|end| end.sockets.clone()).collect();
    if sockets.is_empty() {
        return None;
    }
    let sum = |of: fn(&TcpInfo) -> u64| sockets.iter().map(of).sum::<u64>();
    let busy_us = sum(|info| info.busy_us);
    let share = |part: u64| part as f64 / busy_us.max(1) as f64;
    let mut round_trips: Vec<u32> = sockets.iter().map(|info| info.rtt_us).collect();
    round_trips.sort_unstable();
    let mut shortest: Vec<u32> = sockets.iter().filter_map(|info| info.rtt_min_us).collect();
    shortest.sort_unstable();
    Some(SocketsSummary {
        sockets: sockets.len() as u32,
        // The sockets' lifetimes are not known here.
        busy_share: None,
        receive_window_limited_share: share(sum(|info| info.receive_window_limited_us)),
        send_buffer_limited_share: share(sum(|info| info.send_buffer_limited_us)),
        rtt_p50_us: round_trips[round_trips.len() / 2],
        rtt_min_us: shortest.get(shortest.len() / 2).copied(),
        path_mtu: sockets
            .iter()
            .map(|info| info.path_mtu)
            .filter(|mtu| *mtu > 0)
            .min(),
        retransmits: sum(|info| u64::from(info.retransmits)),
        receive_queue_bytes_max: None,
        send_queue_bytes_max: None,
    })
}
