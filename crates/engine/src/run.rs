//! One step: workers started together, their reports merged, the window cut out.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use wallfinder_model::record::{Counts, Drained, Interval, OpenConnections, Outage, WorkerSummary};
use wallfinder_model::telemetry::SocketsSummary;
use wallfinder_model::{Load, record};
use wallfinder_sys::io::{Epoll, Io, IoConfig, Uring, uring_available};
use wallfinder_sys::net::TcpInfo;
use wallfinder_sys::{Errno, clock, process};
use wallfinder_wire::framed::{self, ById, InTurn};
use wallfinder_wire::http1::{self, Http1};
use wallfinder_wire::http2::{self, Http2};
use wallfinder_wire::tls::{self, Tls};
use wallfinder_wire::{Exchange, Wire, grpc};

use crate::counters::{Class, Counters};
use crate::histogram::Latencies;
use crate::levers::Segment;
use crate::plan::{WorkerPlan, part, workers_of};
use crate::protocol::{self, Common};
use crate::publication::{Edge, Publication, Report};
use crate::reach;
use crate::samples::Outlet;
use crate::signals::Signals;
use crate::worker::{Shares, Worker, WorkerEnd};

/// How sockets are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// io_uring where the kernel has it, else epoll.
    #[default]
    Auto,
    /// io_uring or nothing.
    Uring,
    /// epoll.
    Epoll,
}

/// Everything the engine needs for one step.
#[derive(Debug, Clone)]
pub struct StepSpec {
    /// The load.
    pub load: Load,
    /// Where it goes.
    pub address: SocketAddr,
    /// What is asked.
    pub request: Exchange,
    /// Under TLS, and how; `None`: in the clear.
    pub tls: Option<tls::Client>,
    /// Processors for the workers, in turn; empty: not pinned.
    pub cpus: Vec<u32>,
    /// How sockets are waited for.
    pub io: IoChoice,
    /// Seed of what is drawn at random.
    pub seed: u64,
    /// Where every request goes that has ended, if anywhere.
    pub samples: Option<Outlet>,
    /// Connections of a closed loop beside the load's, open and idle until a lever asks for
    /// more in flight; 0 in an open loop.
    pub spare_connections: u32,
    /// Bytes by which longer forms of the request are longer, for a lever to choose.
    pub paddings: Vec<usize>,
    /// Whether a quota may hold the workers up together with what collects their reports:
    /// whoever goes last gets nothing then, so the collector goes first.
    pub under_quota: bool,
}

/// What happens while a step runs, for whoever watches. Called by the thread that called
/// [`run`], about ten times a second: never by a worker.
pub trait Watcher {
    /// Every worker has tried its connections, and none sends a request yet. What takes time before a load is
    /// done here: the schedule's zero is chosen when this returns.
    fn prepares(&mut self) {}

    /// The schedule's zero, in monotonic time, some milliseconds before it comes. The workers know
    /// it already, and do not wait for this.
    fn starts(&mut self, zero_ns: u64) {
        let _ = zero_ns;
    }

    /// A slice of the run has ended.
    fn interval(&mut self, interval: &Interval) {
        let _ = interval;
    }

    /// All workers have ended a segment (see [`crate::levers`]).
    fn segment(&mut self, segment: &Segment) {
        let _ = segment;
    }

    /// The measured window opened or closed, now.
    fn edge(&mut self, edge: Edge) {
        let _ = edge;
    }
}

/// Watches nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unwatched;

impl Watcher for Unwatched {}

/// What a step measured.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Monotonic instant of the schedule's zero.
    pub zero_ns: u64,
    /// The window, from zero: the mean over the workers of when each saw its edges.
    pub window_from_ns: u64,
    /// End of the window, from zero.
    pub window_to_ns: u64,
    /// Counts of the window.
    pub counts: Counts,
    /// Good answers per second.
    pub throughput: f64,
    /// Mean requests in flight.
    pub in_flight_mean: f64,
    /// Jain's index of the window's answers over connections, where there are several.
    pub fairness: Option<f64>,
    /// From the intended instant to the last byte.
    pub latency: Option<record::Histogram>,
    /// From sending to the last byte.
    pub service: Option<record::Histogram>,
    /// From sending to the first byte.
    pub first_byte: Option<record::Histogram>,
    /// From the intended instant to sending.
    pub lateness: Option<record::Histogram>,
    /// What became of the requests in flight when the window closed; those answered since are in the
    /// histograms.
    pub drained: Drained,
    /// How many connections were open in the window.
    pub open_connections: OpenConnections,
    /// When none was, within the window.
    pub outages: Vec<Outage>,
    /// Slices of the whole run.
    pub intervals: Vec<Interval>,
    /// The workers.
    pub workers: Vec<WorkerSummary>,
    /// The client's sockets at the end of the window.
    pub sockets: Option<SocketsSummary>,
    /// `io_uring` or `epoll`.
    pub io: &'static str,
}

/// Why a step could not be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineError {
    /// The request cannot be encoded.
    BadRequest(String),
    /// No connection could be opened.
    NoConnection {
        /// Where to.
        address: SocketAddr,
        /// The class of the last failure.
        class: &'static str,
        /// The last error.
        errno: Errno,
    },
    /// The peer does not speak the protocol that it was asked in.
    OtherProtocol {
        /// Where it is.
        address: SocketAddr,
        /// What it said instead.
        fault: String,
        /// Where to look.
        way_out: &'static str,
    },
    /// The kernel refused what a worker needs.
    Refused {
        /// What.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// What the workers could drive of such a load cannot be told.
    NoCeiling {
        /// Why.
        why: String,
    },
    /// A worker panicked: our own bug.
    WorkerPanicked {
        /// Which.
        worker: u32,
        /// Its message.
        message: String,
    },
}

impl std::fmt::Display for EngineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            EngineError::BadRequest(why) => write!(f, "the request cannot be sent: {why}"),
            EngineError::NoConnection {
                address,
                class,
                errno,
            } => write!(
                f,
                "no connection to {address} could be opened ({class}: {errno}); is the server running there?"
            ),
            EngineError::OtherProtocol {
                address,
                fault,
                way_out,
            } => write!(
                f,
                "what listens at {address} does not speak HTTP/2 ({fault}); {way_out}"
            ),
            EngineError::Refused { what, why } => write!(f, "{what} was refused: {why}"),
            EngineError::NoCeiling { why } => f.write_str(why),
            EngineError::WorkerPanicked { worker, message } => write!(
                f,
                "worker {worker} panicked ({message}): a bug of Wallfinder, and the step is void"
            ),
        }
    }
}

impl std::error::Error for EngineError {}

/// Longest time for all connections to be tried before the schedule starts regardless.
const SETUP_MAX_NS: u64 = 30_000_000_000;
/// How often reports are collected, and how often about the edges of the window, which
/// watchers hear of when their reports come.
const COLLECT_EVERY: Duration = Duration::from_millis(20);
const COLLECT_AT_EDGES: Duration = Duration::from_millis(1);

/// Runs one step to its end. `signals` lets others end it early.
pub fn run(
    spec: &StepSpec,
    signals: &Arc<Signals>,
    watcher: &mut dyn Watcher,
) -> Result<Measured, EngineError> {
    let use_uring = match spec.io {
        IoChoice::Epoll => false,
        IoChoice::Auto => uring_available().is_ok(),
        IoChoice::Uring => match uring_available() {
            Ok(()) => true,
            Err(why) => {
                return Err(EngineError::Refused {
                    what: "io_uring",
                    why,
                });
            }
        },
    };
    let way = if use_uring { Way::Uring } else { Way::Epoll };
    match &spec.request {
        Exchange::Http1(request) => {
            let shared = || http1::Shared::new(request, protocol::http1_options(spec));
            run_on::<Http1, _>(spec, signals, watcher, way, &shared)
        }
        Exchange::Http2(request) => {
            let shared = || http2::Shared::new(request, protocol::http2_options(spec));
            run_on::<Http2, _>(spec, signals, watcher, way, &shared)
        }
        Exchange::Grpc(request) => {
            let shared = || grpc::shared(request, protocol::http2_options(spec));
            run_on::<Http2, _>(spec, signals, watcher, way, &shared)
        }
        Exchange::Framed(request) => {
            let shared = || framed::Shared::new(request, protocol::framed_options(&spec.load));
            match request.format.id {
                None => run_on::<InTurn, _>(spec, signals, watcher, way, &shared),
                Some(_) => run_on::<ById, _>(spec, signals, watcher, way, &shared),
            }
        }
    }
}

enum Way {
    Uring,
    Epoll,
}

fn run_on<W, B>(
    spec: &StepSpec,
    signals: &Arc<Signals>,
    watcher: &mut dyn Watcher,
    way: Way,
    shared: &dyn Fn() -> Result<W::Shared, B>,
) -> Result<Measured, EngineError>
where
    W: Wire,
    W::Shared: Send + Common,
    B: std::fmt::Display,
{
    let shared = || shared().map_err(bad_request);
    let Some(client) = &spec.tls else {
        return match way {
            Way::Uring => run_with::<W, Uring>(spec, signals, watcher, &shared),
            Way::Epoll => run_with::<W, Epoll>(spec, signals, watcher, &shared),
        };
    };
    let shared = || {
        let inner = shared()?;
        let own_bytes = inner.own_bytes();
        Ok(tls::Shared::new(inner, client, own_bytes))
    };
    match way {
        Way::Uring => run_with::<Tls<W>, Uring>(spec, signals, watcher, &shared),
        Way::Epoll => run_with::<Tls<W>, Epoll>(spec, signals, watcher, &shared),
    }
}

pub(crate) fn bad_request(error: impl std::fmt::Display) -> EngineError {
    EngineError::BadRequest(error.to_string())
}

type WorkerResult<S> = thread::Result<Result<(WorkerEnd, S), Errno>>;

fn run_with<W, I>(
    spec: &StepSpec,
    signals: &Arc<Signals>,
    watcher: &mut dyn Watcher,
    shared: &dyn Fn() -> Result<W::Shared, EngineError>,
) -> Result<Measured, EngineError>
where
    W: Wire,
    W::Shared: Send + Common,
    I: Io,
{
    let (payload, own_bytes, in_parts) = {
        let shared = shared()?;
        (
            shared.payload(),
            shared.own_bytes(),
            shared.sends_in_parts(),
        )
    };
    let plans = worker_plans(spec);
    let publications: Vec<Publication> = plans.iter().map(|_| Publication::new()).collect();
    let mut shareds = plans
        .iter()
        .map(|_| shared())
        .collect::<Result<Vec<_>, _>>()?;
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for ((plan, publication), shared) in plans.iter().zip(&publications).zip(shareds.drain(..))
        {
            let cpu = cpu_of(spec, plan.worker);
            let config = IoConfig {
                connections: plan.connections,
                address: spec.address,
                payload: Arc::clone(&payload),
                own_bytes,
                quiet_sends: own_bytes == 0 && !in_parts && plan.load.in_flight_per_connection == 1,
            };
            let (plan, shared_signals) = (plan.clone(), Arc::clone(signals));
            let publication = publication.clone();
            let samples = spec.samples.as_ref().map(Outlet::sink);
            let name = format!("worker-{}", plan.worker);
            let worker = thread::Builder::new()
                .name(name)
                .spawn_scoped(scope, move || {
                    let _others = AbortOnPanic(Arc::clone(&shared_signals));
                    // Not vital: the record says where the worker ran, if that was one place.
                    let cpu = cpu.filter(|cpu| process::pin_to(&[*cpu]).is_ok());
                    process::exact_timers();
                    process::set_short_slice();
                    // Opened here: an io_uring belongs to the thread that submits to it.
                    let io = I::open(&config)?;
                    let worker =
                        Worker::<W, I>::new(plan, shared_signals, publication, io, shared, samples);
                    let (end, shared) = worker.run()?;
                    Ok((WorkerEnd { cpu, ..end }, shared))
                });
            match worker {
                Ok(worker) => workers.push(worker),
                Err(error) => {
                    signals.abort.store(true, Ordering::Relaxed);
                    return Err(EngineError::Refused {
                        what: "a thread for a worker",
                        why: error.to_string(),
                    });
                }
            }
        }
        let (tell, told) = mpsc::channel();
        let mut collector = Collector::new(&plans, &publications, tell);
        let all_ended = || workers.iter().all(|worker| worker.is_finished());
        collector.start_when_ready(signals, watcher, &all_ended);
        let ended = AtomicBool::new(false);
        let collected = thread::scope(|beside| {
            // Merging takes a millisecond ten times a second, perhaps on a worker's processor.
            let merging = beside.spawn(|| {
                if spec.under_quota {
                    process::go_first();
                } else {
                    process::lower_priority();
                }
                while !ended.load(Ordering::Relaxed) {
                    thread::sleep(collector.time_to_next(&spec.load));
                    collector.collect();
                }
                collector.collect();
                collector.end_last_slice();
                collector
            });
            while !all_ended() {
                hear(&told, watcher, COLLECT_EVERY);
            }
            ended.store(true, Ordering::Relaxed);
            merging.join()
        });
        let results: Vec<WorkerResult<W::Shared>> =
            workers.into_iter().map(|worker| worker.join()).collect();
        let collector = match collected {
            Ok(collector) => collector,
            // What a worker holds while it panics is of no use to the collector either.
            Err(panic) => match results.into_iter().enumerate().find_map(panicked) {
                Some(error) => return Err(error),
                None => std::panic::resume_unwind(panic),
            },
        };
        hear(&told, watcher, Duration::ZERO);
        conclude::<W, I>(spec, collector, results)
    })
}

/// A worker that panics takes the others with it: what they go on to measure is of no use.
struct AbortOnPanic(Arc<Signals>);

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.abort.store(true, Ordering::Relaxed);
            self.0.stop.store(true, Ordering::Relaxed);
        }
    }
}

/// What the collector tells those who watch.
enum News {
    Interval(Interval),
    Segment(Segment),
    Edge(Edge),
}

/// Passes news on until there is none for so long.
fn hear(told: &mpsc::Receiver<News>, watcher: &mut dyn Watcher, wait: Duration) {
    while let Ok(news) = told.recv_timeout(wait) {
        match news {
            News::Interval(interval) => watcher.interval(&interval),
            News::Segment(segment) => watcher.segment(&segment),
            News::Edge(edge) => watcher.edge(edge),
        }
    }
}

fn worker_plans(spec: &StepSpec) -> Vec<WorkerPlan> {
    assert!(
        spec.spare_connections == 0 || !spec.load.arrival.is_open(),
        "an open loop uses every connection that it has"
    );
    let workers = workers_of(&spec.load);
    // By us, or by whoever started us (taskset).
    let pinned = !spec.cpus.is_empty() || process::allowed_cpus().len() == 1;
    (0..workers)
        .map(|worker| {
            let own = |whole: u32| part(u64::from(whole), workers, worker) as u32;
            (
                worker,
                own(spec.load.connections),
                own(spec.spare_connections),
            )
        })
        .map(|(worker, connections, spare)| WorkerPlan {
            worker,
            workers,
            connections: connections + spare,
            spare,
            pinned,
            requests: spec
                .load
                .stop
                .requests
                .map(|whole| part(whole, workers, worker)),
            load: spec.load.clone(),
            seed: spec.seed,
        })
        .collect()
}

fn cpu_of(spec: &StepSpec, worker: u32) -> Option<u32> {
    if spec.cpus.is_empty() {
        return None;
    }
    Some(spec.cpus[worker as usize % spec.cpus.len()])
}

/// A worker at one instant.
#[derive(Debug, Clone)]
struct Mark {
    at_ns: u64,
    totals: Counters,
    open_area: u128,
    cpu_ns: u64,
}

/// What a worker did between two instants.
struct Stretch {
    change: Counters,
    span_ns: u64,
    /// CPU time of its work: without polling for nothing.
    worked_ns: u64,
    throughput: f64,
    in_flight_mean: f64,
    open_mean: f64,
}

impl Mark {
    fn until(&self, end: &Mark) -> Stretch {
        let change = end.totals.since(&self.totals);
        let span_ns = (end.at_ns - self.at_ns).max(1);
        Stretch {
            span_ns,
            worked_ns: (end.cpu_ns - self.cpu_ns).saturating_sub(change.polled_ns),
            throughput: change.answered as f64 * 1e9 / span_ns as f64,
            in_flight_mean: change.in_flight_area as f64 / span_ns as f64,
            open_mean: (end.open_area - self.open_area) as f64 / span_ns as f64,
            change,
        }
    }
}

/// One worker's window as its two edge reports give it.
#[derive(Debug, Default, Clone)]
struct WorkerWindow {
    open: Option<Mark>,
    close: Option<Mark>,
    /// Connections open at a time in the window, at the most.
    open_most: u64,
    /// When nothing was waited for any more.
    drained: Option<Counters>,
    last_totals: Counters,
    /// The end of the last segment.
    segment: Option<Mark>,
}

/// A segment being put together from the workers' reports.
#[derive(Debug)]
struct OpenSegment {
    sum: Segment,
    latency: Latencies,
    /// Workers that have ended it.
    ended: usize,
}

impl OpenSegment {
    fn new(number: u32) -> OpenSegment {
        OpenSegment {
            sum: Segment {
                number,
                from_ns: 0,
                to_ns: 0,
                answered: 0,
                failed: 0,
                scheduled: 0,
                throughput: 0.0,
                in_flight_mean: 0.0,
                latency_mean_ns: 0.0,
                quantiles_ns: BTreeMap::new(),
                workers_cpu_ns: 0,
                workers_spun_ns: 0,
            },
            latency: Latencies::new(),
            ended: 0,
        }
    }

    /// Adds a worker that ended it; instants are from the schedule's zero.
    fn worker_ends(&mut self, from: &Mark, to: &Mark, zero_ns: u64) {
        let stretch = from.until(to);
        self.ended += 1;
        self.sum.from_ns += from.at_ns.saturating_sub(zero_ns);
        self.sum.to_ns += to.at_ns.saturating_sub(zero_ns);
        self.sum.answered += stretch.change.answered;
        self.sum.failed += stretch.change.failed_total();
        self.sum.scheduled += stretch.change.scheduled;
        self.sum.throughput += stretch.throughput;
        self.sum.in_flight_mean += stretch.in_flight_mean;
        self.sum.workers_cpu_ns += stretch.worked_ns;
        self.sum.workers_spun_ns += stretch.change.spun_ns;
    }

    fn end(mut self) -> Segment {
        self.sum.from_ns /= self.ended as u64;
        self.sum.to_ns /= self.ended as u64;
        if self.latency.count() > 0 {
            self.sum.latency_mean_ns = self.latency.mean_ns();
            self.sum.quantiles_ns = self.latency.quantiles_ns();
        }
        self.sum
    }
}

/// A slice of time being put together from the workers' reports.
#[derive(Debug, Default)]
struct Slice {
    interval: Interval,
    in_flight: u64,
}

/// Merges the workers' reports: into slices as they come, into the window at the end.
struct Collector<'p> {
    tell: mpsc::Sender<News>,
    publications: &'p [Publication],
    plans: &'p [WorkerPlan],
    zero_ns: u64,
    windows: Vec<WorkerWindow>,
    latency: Latencies,
    service: Latencies,
    first_byte: Latencies,
    lateness: Latencies,
    slice_latency: Latencies,
    slice: Slice,
    slice_reports: usize,
    intervals: Vec<Interval>,
    /// Segments that some worker has begun and not all have ended, oldest first.
    segments: Vec<OpenSegment>,
}

impl<'p> Collector<'p> {
    fn new(
        plans: &'p [WorkerPlan],
        publications: &'p [Publication],
        tell: mpsc::Sender<News>,
    ) -> Collector<'p> {
        Collector {
            tell,
            publications,
            plans,
            zero_ns: 0,
            windows: vec![WorkerWindow::default(); plans.len()],
            latency: Latencies::new(),
            service: Latencies::new(),
            first_byte: Latencies::new(),
            lateness: Latencies::new(),
            slice_latency: Latencies::new(),
            slice: Slice::default(),
            slice_reports: 0,
            intervals: Vec::new(),
            segments: Vec::new(),
        }
    }

    /// Gives the signal to start once every worker has tried its connections.
    fn start_when_ready(
        &mut self,
        signals: &Signals,
        watcher: &mut dyn Watcher,
        all_ended: &dyn Fn() -> bool,
    ) {
        let began_ns = clock::monotonic_ns();
        while (signals.ready.load(Ordering::Acquire) as usize) < self.plans.len() {
            let waited_ns = clock::monotonic_ns() - began_ns;
            if waited_ns > SETUP_MAX_NS || all_ended() {
                break;
            }
            if signals.stop.load(Ordering::Relaxed) {
                signals.abort.store(true, Ordering::Relaxed);
            }
            thread::sleep(Duration::from_millis(1));
        }
        watcher.prepares();
        self.zero_ns = clock::monotonic_ns() + 20_000_000;
        signals.zero_ns.store(self.zero_ns, Ordering::Release);
        watcher.starts(self.zero_ns);
    }

    fn time_to_next(&self, load: &Load) -> Duration {
        let now = clock::monotonic_ns();
        let open_ns = self.zero_ns + load.warmup.0;
        let near = |edge_ns: u64| {
            let margin = COLLECT_EVERY.as_nanos() as u64 + 5_000_000;
            now + margin > edge_ns && now < edge_ns + margin
        };
        if near(open_ns) || near(open_ns + load.stop.after.0) {
            COLLECT_AT_EDGES
        } else {
            COLLECT_EVERY
        }
    }

    fn collect(&mut self) {
        // In rounds over the workers, so that a slice holds one report of each.
        loop {
            let mut took = false;
            for worker in 0..self.publications.len() {
                if let Some(report) = self.publications[worker].take() {
                    took = true;
                    self.merge(worker, &report);
                    self.publications[worker].give_back(report);
                }
            }
            if !took {
                return;
            }
        }
    }

    fn merge(&mut self, worker: usize, report: &Report) {
        let window = &mut self.windows[worker];
        let change = report.totals.since(&window.last_totals);
        window.last_totals.clone_from(&report.totals);
        if window.open.is_some() {
            for (sum, part) in [
                (&mut self.latency, &report.latency),
                (&mut self.service, &report.service),
                (&mut self.first_byte, &report.first_byte),
                (&mut self.lateness, &report.lateness),
            ] {
                sum.add(part);
                process::yield_adaptive();
            }
        }
        let edge = Mark {
            at_ns: report.to_ns,
            totals: report.totals.clone(),
            open_area: report.open_area,
            cpu_ns: report.cpu_ns,
        };
        if report.edge == Some(Edge::Drained) {
            // No part of the window, but for the latencies above.
            window.drained = Some(edge.totals);
            return;
        }
        self.merge_segment(worker, report, &edge);
        let window = &mut self.windows[worker];
        match report.edge {
            Some(Edge::Open) => window.open = Some(edge),
            Some(Edge::Close) => {
                window.open_most = report.open_most;
                window.close = Some(edge);
            }
            Some(Edge::Drained) | None => {}
        }
        if let Some(edge) = report.edge
            && worker + 1 == self.windows.len()
        {
            self.tell(News::Edge(edge));
        }
        self.slice_latency.add(&report.latency);
        process::yield_adaptive();
        let interval = &mut self.slice.interval;
        interval.at_ns = report.to_ns.saturating_sub(self.zero_ns);
        interval.span_ns = interval.span_ns.max(report.to_ns - report.from_ns);
        interval.answered += change.answered;
        interval.failed += change.failed_total();
        interval.scheduled += change.scheduled;
        interval.bytes_in += change.bytes_in;
        self.slice.in_flight += report.totals.in_flight;
        self.slice_reports += 1;
        if self.slice_reports == self.publications.len() {
            self.end_slice();
        }
    }

    fn merge_segment(&mut self, worker: usize, report: &Report, end: &Mark) {
        let begun = self.windows[worker].segment.take();
        if report.segment != 0 {
            let known = self
                .segments
                .iter()
                .position(|open| open.sum.number == report.segment);
            let at = known.unwrap_or_else(|| {
                self.segments.push(OpenSegment::new(report.segment));
                self.segments.len() - 1
            });
            let open = &mut self.segments[at];
            open.latency.add(&report.latency);
            process::yield_adaptive();
            if report.ends_segment
                && let Some(begun) = &begun
            {
                open.worker_ends(begun, end, self.zero_ns);
                if open.ended == self.publications.len() {
                    let whole = self.segments.remove(at).end();
                    self.tell(News::Segment(whole));
                }
            }
        }
        self.windows[worker].segment = if report.ends_segment {
            Some(end.clone())
        } else {
            begun
        };
    }

    /// Nobody listens any more once the run is called off.
    fn tell(&self, news: News) {
        let _ = self.tell.send(news);
    }

    /// Workers that end apart leave reports without a partner; nothing of them is lost.
    fn end_last_slice(&mut self) {
        if self.slice_reports > 0 {
            self.end_slice();
        }
    }

    fn end_slice(&mut self) {
        let Slice {
            mut interval,
            in_flight,
        } = std::mem::take(&mut self.slice);
        interval.in_flight = in_flight;
        interval.p50_ns = self.slice_latency.quantile_ns(0.5);
        process::yield_adaptive();
        interval.p99_ns = self.slice_latency.quantile_ns(0.99);
        interval.max_ns = self.slice_latency.max_ns();
        process::yield_adaptive();
        self.slice_latency.clear();
        process::yield_adaptive();
        self.slice_reports = 0;
        self.tell(News::Interval(interval.clone()));
        self.intervals.push(interval);
    }
}

/// The error of a worker that panicked.
fn panicked<S>((worker, result): (usize, WorkerResult<S>)) -> Option<EngineError> {
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

fn conclude<W, I>(
    spec: &StepSpec,
    collector: Collector<'_>,
    results: Vec<WorkerResult<W::Shared>>,
) -> Result<Measured, EngineError>
where
    W: Wire,
    W::Shared: Common,
    I: Io,
{
    let mut ends = Vec::new();
    let mut anomalies = BTreeMap::new();
    let mut handshakes = None;
    for (worker, result) in results.into_iter().enumerate() {
        let worker = worker as u32;
        match result {
            Err(panic) => return Err(worker_panicked(worker, &*panic)),
            Ok(Err(errno)) => {
                return Err(EngineError::Refused {
                    what: I::NAME,
                    why: errno.to_string(),
                });
            }
            Ok(Ok((end, shared))) => {
                if end.speaks_otherwise {
                    return Err(EngineError::OtherProtocol {
                        address: spec.address,
                        fault: shared.fault().unwrap_or_default(),
                        way_out: protocol::way_out(&spec.request),
                    });
                }
                if let Some(begun) = shared.handshakes() {
                    let sum: &mut record::Handshakes = handshakes.get_or_insert_default();
                    sum.full += begun.full;
                    sum.resumed += begun.resumed;
                }
                for (name, count) in shared.anomalies() {
                    if count > 0 {
                        *anomalies.entry(name.to_owned()).or_insert(0) += count;
                    }
                }
                ends.push(end);
            }
        }
    }
    let connects: u64 = collector
        .windows
        .iter()
        .map(|window| window.last_totals.connects)
        .sum();
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
    Ok(measured::<I>(collector, &ends, anomalies, handshakes))
}

fn measured<I: Io>(
    collector: Collector<'_>,
    ends: &[WorkerEnd],
    anomalies: BTreeMap<String, u64>,
    handshakes: Option<record::Handshakes>,
) -> Measured {
    let zero_ns = collector.zero_ns;
    let mut change = Counters::default();
    let (mut in_flight_start, mut in_flight_end) = (0, 0);
    let (mut backlog_start, mut backlog_end) = (0, 0);
    let (mut from_sum, mut to_sum, mut counted) = (0_u128, 0_u128, 0_u128);
    let (mut throughput, mut in_flight_mean) = (0.0, 0.0);
    let mut drained = Drained::default();
    let mut open_connections = OpenConnections::default();
    let mut workers = Vec::new();
    for (plan, window) in collector.plans.iter().zip(&collector.windows) {
        let (Some(open), Some(close)) = (&window.open, &window.close) else {
            continue;
        };
        let stretch = open.until(close);
        throughput += stretch.throughput;
        in_flight_mean += stretch.in_flight_mean;
        let after = window.drained.as_ref().unwrap_or(&close.totals);
        drained.answered += after.answered - close.totals.answered;
        drained.failed += after.failed_total() - close.totals.failed_total();
        drained.in_flight += after.in_flight;
        drained.not_sent += after.backlog();
        open_connections.most += window.open_most;
        open_connections.mean += stretch.open_mean;
        in_flight_start += open.totals.in_flight;
        in_flight_end += close.totals.in_flight;
        backlog_start += open.totals.backlog();
        backlog_end += close.totals.backlog();
        from_sum += u128::from(open.at_ns.saturating_sub(zero_ns));
        to_sum += u128::from(close.at_ns.saturating_sub(zero_ns));
        counted += 1;
        workers.push(WorkerSummary {
            worker: plan.worker,
            cpu: ends.get(plan.worker as usize).and_then(|end| end.cpu),
            connections: plan.connections,
            answered: stretch.change.answered,
            cpu_ns: stretch.worked_ns,
            polled_ns: stretch.change.polled_ns,
            busy_share: stretch.worked_ns as f64 / stretch.span_ns as f64,
            waits: stretch.change.waits,
            events: stretch.change.events,
            batching_waits: stretch.change.batching_waits,
            batching_ns: stretch.change.batching_ns,
        });
        change.add(&stretch.change);
    }
    for end in ends {
        drained.waited_ns = drained.waited_ns.max(end.drained_ns);
        drained.oldest_ns = drained.oldest_ns.max(end.oldest_unanswered_ns);
        open_connections.answering += end.answering;
    }
    let counted = counted.max(1);
    let window = ((from_sum / counted) as u64, (to_sum / counted) as u64);
    let outages = outages(ends, window, zero_ns);
    let mut anomalies = anomalies;
    if change.resent > 0 {
        anomalies.insert("request_sent_again".into(), change.resent);
    }
    let statuses = change
        .statuses
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(status, count)| (status as u16, *count))
        .collect();
    let counts = Counts {
        scheduled: change.scheduled,
        answered: change.answered,
        failed: Counters::named(&change.failed),
        not_sent: backlog_end as i64 - backlog_start as i64,
        in_flight_start,
        in_flight_end,
        statuses,
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
        anomalies,
        handshakes,
    };
    assert!(counts.balanced(), "the accounting identity does not hold");
    Measured {
        zero_ns,
        window_from_ns: window.0,
        window_to_ns: window.1,
        counts,
        throughput,
        in_flight_mean,
        fairness: fairness(ends),
        latency: collector.latency.to_record(),
        service: collector.service.to_record(),
        first_byte: collector.first_byte.to_record(),
        lateness: collector.lateness.to_record(),
        intervals: collector.intervals,
        workers,
        sockets: sockets_summary(ends),
        io: I::NAME,
        drained,
        open_connections,
        outages,
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
    Some(SocketsSummary {
        sockets: sockets.len() as u32,
        // The sockets' lifetimes are not known here.
        busy_share: None,
        receive_window_limited_share: share(sum(|info| info.receive_window_limited_us)),
        send_buffer_limited_share: share(sum(|info| info.send_buffer_limited_us)),
        rtt_p50_us: round_trips[round_trips.len() / 2],
        retransmits: sum(|info| u64::from(info.retransmits)),
        receive_queue_bytes_max: None,
        send_queue_bytes_max: None,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Instant;

    use wallfinder_model::{Arrival, DRAIN_DEFAULT, Decode, Nanos, Stop};
    use wallfinder_wire::{Outcome, Request, Transmit};

    use super::*;
    use crate::null_server::NullServer;

    /// HTTP/1.1 that panics after so many reads.
    struct Bomb(Http1);

    struct Fused {
        inner: http1::Shared,
        reads_left: u32,
    }

    impl Common for Fused {
        fn payload(&self) -> Arc<[u8]> {
            self.inner.payload()
        }

        fn own_bytes(&self) -> usize {
            self.inner.own_bytes()
        }

        fn anomalies(&self) -> Vec<(&'static str, u64)> {
            Vec::new()
        }
    }

    impl Wire for Bomb {
        type Shared = Fused;

        fn open(shared: &Fused) -> Bomb {
            Bomb(Http1::open(&shared.inner))
        }

        fn reset(&mut self, shared: &Fused) {
            self.0.reset(&shared.inner);
        }

        fn block(shared: &Fused) -> &[u8] {
            Http1::block(&shared.inner)
        }

        fn room(&self, shared: &Fused) -> u32 {
            self.0.room(&shared.inner)
        }

        fn issue(&mut self, shared: &Fused) -> u32 {
            self.0.issue(&shared.inner)
        }

        fn poll_transmit(&self, shared: &Fused) -> Transmit {
            self.0.poll_transmit(&shared.inner)
        }

        fn handle_sent(&mut self, shared: &Fused, count: usize) {
            self.0.handle_sent(&shared.inner, count);
        }

        fn write(&mut self, shared: &Fused, into: &mut [u8]) -> usize {
            self.0.write(&shared.inner, into)
        }

        fn handle_bytes(&mut self, shared: &mut Fused, bytes: &[u8]) -> usize {
            shared.reads_left = shared.reads_left.checked_sub(1).expect("the fuse burns");
            self.0.handle_bytes(&mut shared.inner, bytes)
        }

        fn handle_eof(&mut self, shared: &mut Fused) {
            self.0.handle_eof(&mut shared.inner);
        }

        fn poll_outcome(&mut self) -> Option<Outcome> {
            self.0.poll_outcome()
        }

        fn poll_begun(&mut self) -> Option<u32> {
            self.0.poll_begun()
        }

        fn answering(&self) -> Option<u32> {
            self.0.answering()
        }

        fn cancel(&mut self, slot: u32) -> bool {
            self.0.cancel(slot)
        }
    }

    #[test]
    fn a_worker_that_panics_takes_the_others_with_it_at_once() {
        let request = Request::get("null", "/");
        let load = Load {
            connections: 4,
            in_flight_per_connection: 1,
            max_in_flight: None,
            workers: 2,
            arrival: Arrival::Closed { think: Nanos(0) },
            warmup: Nanos(0),
            stop: Stop {
                after: Nanos::from_secs(120),
                requests: None,
            },
            timeout: Nanos::from_secs(5),
            drain: DRAIN_DEFAULT,
            connection_per_request: false,
            method: "GET".into(),
            header_names: Vec::new(),
            body_bytes: 0,
            decode: Decode::None,
            no_batching: false,
        };
        let spec = StepSpec {
            load,
            address: SocketAddr::from(([127, 0, 0, 1], 9)),
            request: Exchange::Http1(request.clone()),
            tls: None,
            cpus: Vec::new(),
            io: IoChoice::Epoll,
            seed: 1,
            samples: None,
            spare_connections: 0,
            paddings: Vec::new(),
            under_quota: false,
        };
        let shared = || http1::Shared::new(&request, protocol::http1_options(&spec)).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let server = NullServer::start(shared().request_bytes(), answer, None).unwrap();
        let spec = StepSpec {
            address: server.address(),
            ..spec.clone()
        };
        // The first is asked what it needs, the second is worker 0's, the third worker 1's.
        let made = Cell::new(0);
        let shareds = || {
            made.set(made.get() + 1);
            Ok(Fused {
                inner: shared(),
                reads_left: if made.get() == 3 { 500 } else { u32::MAX },
            })
        };
        let began = Instant::now();
        let signals = Arc::new(Signals::default());
        let ended = run_with::<Bomb, Epoll>(&spec, &signals, &mut Unwatched, &shareds);
        let error = ended.expect_err("a worker panicked");
        assert!(
            matches!(&error, EngineError::WorkerPanicked { worker: 1, message } if message.contains("fuse")),
            "{error}"
        );
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{:?}",
            began.elapsed()
        );
    }
}
