//! A run in virtual time: a load at a peer, what is done to it meanwhile, and what came of it.
//!
//! After each publication these are checked, beside what the worker asserts of itself: requests that were handed to a
//! connection are answered, failed, in flight or sent again; reports follow each other without a gap; and no total
//! falls. When the run has ended, each request that ended in the window has its sample.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use wallfinder_model::drive::{Edge, LeverSetting, Share};
use wallfinder_model::{Arrival, Failure, Load, Nanos, Rate, Stop};
use wallfinder_sys::io::{Io, IoConfig};
use wallfinder_wire::http1::{self, Http1 as Http1Wire};
use wallfinder_wire::http2::{self, Http2 as Http2Wire};
use wallfinder_wire::mix::Mix;
use wallfinder_wire::{Request, Wire};

use super::io::{Conductor, Log, START_NS, SimIo};
use super::peer::Peer;
use crate::counters::{Class, Counters};
use crate::mix::{FlowCounts, KindCounts};
use crate::plan::WorkerPlan;
use crate::protocol::Common;
use crate::report::WorkerReport;
use crate::samples::{RequestSample, SampleChannel, class_of};
use crate::signals::Signals;
use crate::swap_buffer::SwapBuffer;
use crate::worker::{Worker, WorkerEnd};

pub(super) const MS: u64 = 1_000_000;
pub(super) const SECOND: u64 = 1_000 * MS;
/// The schedule's zero, by the virtual clock.
const ZERO_NS: u64 = START_NS + 10 * MS;

/// A load, and what is done while it runs. Instants are from the schedule's zero.
pub(super) struct Sim {
    pub(super) load: Load,
    pub(super) seed: u64,
    /// What is sent, where it is not one request.
    pub(super) mix: Option<Arc<Mix>>,
    pub(super) spare: u32,
    pub(super) polls: bool,
    /// What is left of the worker's speed.
    pub(super) speed: f64,
    pub(super) event_ns: u64,
    stalls: BTreeMap<u64, u64>,
    deeds: Vec<(u64, Deed)>,
}

#[derive(Debug, Clone, Copy)]
enum Deed {
    Set(LeverSetting),
    Stop,
    Abort,
}

impl Sim {
    /// A closed loop of one worker over 100 ms, without a warm-up, a deadline of 5 s; nothing is batched.
    pub(super) fn closed(connections: u32, depth: u32) -> Sim {
        Sim {
            load: Load {
                in_flight_per_connection: depth,
                stop: Stop {
                    after: Nanos(100 * MS),
                    requests: None,
                },
                timeout: Nanos::from_secs(5),
                no_batching: true,
                ..Load::closed(connections)
            },
            seed: 1,
            mix: None,
            spare: 0,
            polls: false,
            speed: 1.0,
            event_ns: 0,
            stalls: BTreeMap::new(),
            deeds: Vec::new(),
        }
    }

    /// The same with an even schedule of so many requests a second.
    pub(super) fn open(connections: u32, rate: f64) -> Sim {
        let mut sim = Sim::closed(connections, 1);
        sim.load.arrival = Arrival::Constant { rate: Rate(rate) };
        sim
    }

    pub(super) fn lasting(mut self, ns: u64) -> Sim {
        self.load.stop.after = Nanos(ns);
        self
    }

    /// Sends these in the place of one request.
    pub(super) fn mixed(mut self, mix: Mix) -> Sim {
        self.mix = Some(Arc::new(mix));
        self
    }

    pub(super) fn timeout(mut self, ns: u64) -> Sim {
        self.load.timeout = Nanos(ns);
        self
    }

    pub(super) fn thinking(mut self, ns: u64) -> Sim {
        self.load.arrival = Arrival::Closed { think: Nanos(ns) };
        self
    }

    pub(super) fn max_in_flight(mut self, bound: u32) -> Sim {
        self.load.max_in_flight = Some(bound);
        self
    }

    /// Levers are set at an instant.
    pub(super) fn set_at(mut self, at_ns: u64, setting: LeverSetting) -> Sim {
        self.deeds.push((at_ns, Deed::Set(setting)));
        self
    }

    /// The run is interrupted.
    pub(super) fn stop_at(mut self, at_ns: u64) -> Sim {
        self.deeds.push((at_ns, Deed::Stop));
        self
    }

    /// The run is given up.
    pub(super) fn abort_at(mut self, at_ns: u64) -> Sim {
        self.deeds.push((at_ns, Deed::Abort));
        self
    }

    /// The worker's thread does not run for so long.
    pub(super) fn stall(mut self, at_ns: u64, for_ns: u64) -> Sim {
        self.stalls.insert(ZERO_NS + at_ns, for_ns);
        self
    }

    /// Runs it at a peer that speaks HTTP/1.1.
    pub(super) fn http1(self, peer: impl Peer + 'static) -> Ran {
        let options = http1::Options {
            in_flight_max: self.load.in_flight_per_connection,
            connection_per_request: self.load.connection_per_request,
            paddings: vec![14, 400],
            ..http1::Options::default()
        };
        let shared = match &self.mix {
            None => http1::Shared::new(&Request::get("sim", "/"), options),
            Some(mix) => {
                let ready =
                    http1::Ready::of(mix, self.seed, &options).expect("it can be made ready");
                http1::Shared::of_mix(&Arc::new(ready), options)
            }
        };
        let shared = shared.expect("it can be encoded");
        self.run::<Http1Wire>(shared, peer)
    }

    /// Runs it at a peer that speaks HTTP/2, with a body of so many bytes.
    pub(super) fn http2(self, body_bytes: usize, peer: impl Peer + 'static) -> Ran {
        let options = http2::Options {
            in_flight_max: self.load.in_flight_per_connection,
            ..http2::Options::default()
        };
        let request = Request::new("POST", "sim", "/").body(vec![b'b'; body_bytes]);
        let shared = http2::Shared::new(&request, options).expect("it can be encoded");
        self.run::<Http2Wire>(shared, peer)
    }

    fn run<W: Wire>(self, shared: W::Shared, peer: impl Peer + 'static) -> Ran
    where
        W::Shared: Common,
    {
        let plan = WorkerPlan {
            worker: 0,
            workers: 1,
            share: Share::WHOLE,
            turns: Share::WHOLE.into(),
            connections: self.load.connections + self.spare,
            spare: self.spare,
            more: self.spare,
            polls: self.polls,
            requests: self.load.stop.requests,
            load: self.load,
            mix: self.mix.clone(),
            speed: self.speed,
            seed: self.seed,
        };
        let mut io = SimIo::open(&IoConfig {
            connections: plan.connections,
            address: ([127, 0, 0, 1], 9).into(),
            payload: shared.payload(),
            own_bytes: shared.own_bytes(),
            quiet_sends: false,
        })
        .expect("it opens nothing");
        let signals = Arc::new(Signals::default());
        signals.zero_ns.store(ZERO_NS, Ordering::Relaxed);
        // Nobody looks at sockets here.
        signals.may_close.store(true, Ordering::Relaxed);
        let published: Rc<RefCell<Vec<Published>>> = Rc::default();
        let reader = Reader {
            reports: SwapBuffer::new(self.mix.as_deref()),
            published: Rc::clone(&published),
        };
        let reports = reader.reports.clone();
        let mut deeds = self.deeds;
        deeds.sort_by_key(|(at_ns, _)| *at_ns);
        let conducting = Conducting {
            signals: Arc::clone(&signals),
            reader: reader.clone(),
            deeds: deeds.into(),
        };
        io.join(Box::new(peer), Box::new(conducting));
        io.event_ns = self.event_ns;
        io.stalls = self.stalls;
        let log = Rc::clone(&io.log);
        let channel = SampleChannel::default();
        let samples = Some(channel.sender());
        let worker = Worker::<W, SimIo>::new(plan, signals, reports, io, shared, samples);
        let (end, _) = worker.run().expect("nothing is refused");
        reader.read();
        let mut samples = Vec::new();
        let keep = |block: &[RequestSample]| -> Result<(), ()> {
            samples.extend_from_slice(block);
            Ok(())
        };
        channel.receiver().drain(keep).expect("it keeps all");
        let log = from_zero(log.take());
        let published = published.take();
        let ran = Ran {
            zero_ns: ZERO_NS,
            published,
            end,
            samples,
            log,
        };
        ran.check();
        ran
    }
}

/// Waits from the schedule's zero on, and their instants from there.
fn from_zero(mut log: Log) -> Log {
    log.waits.retain(|(at_ns, _)| *at_ns >= ZERO_NS);
    for (at_ns, _) in &mut log.waits {
        *at_ns -= ZERO_NS;
    }
    log
}

/// A report, as far as tests look at it.
#[derive(Debug, Clone)]
pub(super) struct Published {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    pub(super) totals: Counters,
    pub(super) edge: Option<Edge>,
    pub(super) window: u32,
    pub(super) ends_window: bool,
    pub(super) open_most: u64,
    pub(super) open_area: u128,
    /// How many were timed, from the intended start and in lateness.
    pub(super) timed: u64,
    pub(super) lateness: u64,
    /// What became of each kind of request, and of sessions.
    pub(super) kinds: Vec<KindCounts>,
    pub(super) flows: Vec<FlowCounts>,
}

#[derive(Clone)]
struct Reader {
    reports: SwapBuffer,
    published: Rc<RefCell<Vec<Published>>>,
}

impl Reader {
    fn read(&self) {
        while let Some(report) = self.reports.take() {
            self.note(&report);
            self.reports.give_back(report);
        }
    }

    fn note(&self, report: &WorkerReport) {
        self.published.borrow_mut().push(Published {
            from_ns: report.from_ns - ZERO_NS,
            to_ns: report.to_ns - ZERO_NS,
            totals: report.totals.clone(),
            edge: report.edge,
            window: report.window,
            ends_window: report.ends_window,
            open_most: report.open_most,
            open_area: report.open_area,
            timed: report.latency.count(),
            lateness: report.lateness.count(),
            kinds: report.kinds.iter().map(|kind| kind.counts).collect(),
            flows: report.flows.iter().map(|flow| flow.counts).collect(),
        });
    }
}

struct Conducting {
    signals: Arc<Signals>,
    reader: Reader,
    deeds: std::collections::VecDeque<(u64, Deed)>,
}

impl Conductor for Conducting {
    fn turn(&mut self, now: u64) -> Option<u64> {
        self.reader.read();
        while let Some((at_ns, deed)) = self.deeds.front().copied()
            && ZERO_NS + at_ns <= now
        {
            self.deeds.pop_front();
            match deed {
                Deed::Set(setting) => self.signals.levers.set(setting),
                Deed::Stop => self.signals.stop.store(true, Ordering::Relaxed),
                Deed::Abort => self.signals.abort.store(true, Ordering::Relaxed),
            }
        }
        self.deeds.front().map(|(at_ns, _)| ZERO_NS + at_ns)
    }
}

/// What came of a run. Instants are from the schedule's zero.
#[derive(Debug)]
pub(super) struct Ran {
    /// The schedule's zero, by the virtual clock.
    pub(super) zero_ns: u64,
    pub(super) published: Vec<Published>,
    pub(super) end: WorkerEnd,
    /// Requests in the order in which they ended.
    pub(super) samples: Vec<RequestSample>,
    pub(super) log: Log,
}

impl Ran {
    /// Totals at an edge of the window.
    pub(super) fn at(&self, edge: Edge) -> &Counters {
        let is_edge = |published: &&Published| published.edge == Some(edge);
        let published = self.published.iter().find(is_edge);
        &published.expect("each edge is published").totals
    }

    /// Totals when nothing was waited for any more.
    pub(super) fn last(&self) -> &Counters {
        self.at(Edge::Drained)
    }

    /// What became of each flow's sessions, of the whole run.
    pub(super) fn flows(&self) -> Vec<FlowCounts> {
        let last = self.published.last().expect("the last is published");
        last.flows.clone()
    }

    /// What became of each kind of request, of the whole run.
    pub(super) fn kinds(&self) -> Vec<KindCounts> {
        let last = self.published.last().expect("the last is published");
        last.kinds.clone()
    }

    /// Failures by class, of the whole run.
    pub(super) fn failed(&self) -> BTreeMap<String, u64> {
        Counters::named(&self.last().failed)
    }

    /// Connections that failed without a request, by class.
    pub(super) fn connect_failed(&self) -> BTreeMap<String, u64> {
        Counters::named(&self.last().connect_failed)
    }

    /// Ends of the requests that failed with a class.
    pub(super) fn failed_at(&self, class: &str) -> Vec<u64> {
        let of_class = self.samples.iter().filter(|s| class_of(s.failed) == class);
        of_class.map(|sample| sample.done_ns).collect()
    }

    /// Intended start, sending and end of each request, in the order of their ends.
    pub(super) fn times(&self) -> Vec<(u64, u64, u64)> {
        let samples = self.samples.iter();
        samples
            .map(|s| (s.intended_ns, s.sent_ns, s.done_ns))
            .collect()
    }

    /// When connections were asked for, from the schedule's zero on.
    pub(super) fn connects(&self) -> Vec<u64> {
        let connects = self.log.connects.iter().map(|(at_ns, _)| *at_ns);
        let since_zero = connects.filter_map(|at_ns| at_ns.checked_sub(ZERO_NS));
        since_zero.collect()
    }

    fn check(&self) {
        let mut before: Option<&Published> = None;
        for published in &self.published {
            let now = &published.totals;
            let failed_in_flight = now.failed_total() - now.expired_unsent;
            assert_eq!(
                now.issued,
                now.answered + failed_in_flight + now.in_flight + now.resent,
                "what was issued: {now:?}"
            );
            assert!(now.late_by_client <= timeouts(now), "{now:?}");
            if let Some(before) = before {
                // `since` would overflow where a total fell.
                let _ = now.since(&before.totals);
                assert_eq!(published.from_ns, before.to_ns, "a gap between reports");
            }
            before = Some(published);
        }
        if !self.published.iter().any(|p| p.edge == Some(Edge::Drained)) {
            return;
        }
        let change = self.last().since(self.at(Edge::Open));
        if change.in_flight == 0 && self.last().backlog() == 0 && self.has_no_warmup() {
            let ended = change.answered + change.failed_total();
            assert_eq!(
                self.samples.len() as u64,
                ended,
                "a sample for each that ended"
            );
        }
    }

    fn has_no_warmup(&self) -> bool {
        let opens = self.published.iter().find(|p| p.edge == Some(Edge::Open));
        opens.is_some_and(|published| published.to_ns == 0)
    }
}

fn timeouts(counters: &Counters) -> u64 {
    let of = |failure| counters.failed[Class::Other(failure).index()];
    of(Failure::TimeoutTotal) + of(Failure::TimeoutFlow)
}
