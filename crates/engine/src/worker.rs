//! One engine thread: its connections, its loop, its histograms.
//!
//! ```text
//!   ┌─► wait ─► events ─► timers ─► dispatch ─► flush ─► publish ─┐
//!   └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! *Events* feed the wire and turn outcomes into counts. *Timers* end pauses, back-offs
//! and deadlines. *Dispatch* gives due requests of an open loop to free connections.
//! *Flush* issues what connections may issue and sends it. *Publish* swaps the report.
//!
//! One loop serves every schedule, wire and way of waiting. It shares nothing with other
//! workers, takes no lock on the way, and allocates nothing once the schedule has begun.
//! The identity `scheduled = answered + failed + backlog + in flight` is asserted by
//! every publication.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use wallfinder_model::{Arrival, Failure, Load};
use wallfinder_sys::io::{Event, Io, SendState, Span, Wait};
use wallfinder_sys::net::TcpInfo;
use wallfinder_sys::{Errno, allocator, process};
use wallfinder_wire::{Answer, Outcome, Transmit, Wire, WireError};

use crate::batching::Batching;
use crate::counters::{Class, Counters};
use crate::deadlines::{Deadlines, Turn};
use crate::levers::{Levers, Room, Setting, Slowdown};
use crate::publication::{Edge, Publication, Report};
use crate::reach::Reach;
use crate::samples::{Sample, Sink};
use crate::schedule::{Schedule, mix};

/// Connection attempts of one worker under way at once: more overflow a server's backlog.
const CONNECTING_MAX: usize = 256;
/// How often a report is published.
const PUBLISH_NS: u64 = 100_000_000;
/// First and longest pause before a connection is tried again.
const BACKOFF_FIRST_NS: u64 = 5_000_000;
const BACKOFF_LONGEST_NS: u64 = 1_000_000_000;
/// A connection that was idle for this long and is lost at its next request was lost
/// while idle.
const IDLE_RACE_NS: u64 = 1_000_000;
/// Longest time for a connection to open.
const CONNECT_TIMEOUT_NS: u64 = 5_000_000_000;
/// Longest time to wait for answers after an interruption, however long the load would.
const DRAIN_INTERRUPTED_NS: u64 = 1_000_000_000;
/// How often a request is sent again at most.
const RESENDS_MAX: u8 = 10;
/// A worker with a processor to itself does not sleep this close before a request is due: a
/// sleep may end later than asked by more than that.
const POLL_BEFORE_NS: u64 = 200_000;
/// Sockets whose state is asked of the kernel at the end.
const SOCKETS_LOOKED_AT: u32 = 64;

/// What the workers of one step and their conductor share. Read, not written, on the hot
/// path.
#[derive(Debug, Default)]
pub struct Signals {
    /// Monotonic instant of the schedule's zero; 0: not yet.
    pub zero_ns: AtomicU64,
    /// Workers whose connections have all been tried.
    pub ready: AtomicU32,
    /// End the window now.
    pub stop: AtomicBool,
    /// Give up: end without draining.
    pub abort: AtomicBool,
    /// What is changed while the workers run.
    pub levers: Levers,
}

/// What a worker needs to know of its part of the load.
#[derive(Debug, Clone)]
pub struct WorkerPlan {
    /// Worker number.
    pub worker: u32,
    /// Workers in all.
    pub workers: u32,
    /// Connections of this worker, the spare ones included.
    pub connections: u32,
    /// Connections of a closed loop that are used only where a lever asks for more in flight.
    pub spare: u32,
    /// Whether it is kept on a processor: then polling takes time from nobody.
    pub pinned: bool,
    /// Requests that this worker may make, where the load counts them.
    pub requests: Option<u64>,
    /// The whole load.
    pub load: Load,
    /// Seed of what is drawn at random.
    pub seed: u64,
}

impl WorkerPlan {
    /// What may be in flight where so much of it is left.
    fn room(&self, left: f64) -> Room {
        Room::of_worker(&self.load, (self.workers, self.worker), self.spare, left)
    }

    /// The count of a load that is counted from its first request: one without a warm-up.
    fn requests_from_the_start(&self) -> Option<u64> {
        self.requests.filter(|_| self.load.warmup.0 == 0)
    }
}

/// A worker's part of a whole that is shared among workers as evenly as it can be.
pub(crate) fn part(whole: u64, workers: u32, worker: u32) -> u64 {
    let (each, rest) = (whole / u64::from(workers), whole % u64::from(workers));
    each + u64::from(u64::from(worker) < rest)
}

/// Workers that a load has use for: each needs a connection, and room for one in flight where that is bounded.
pub fn workers_of(load: &Load) -> u32 {
    let bound = load.max_in_flight.unwrap_or(u32::MAX).max(1);
    load.workers.max(1).min(load.connections).min(bound)
}

/// What a worker leaves behind beside its reports.
#[derive(Debug, Default)]
pub struct WorkerEnd {
    /// The processor that it was pinned to.
    pub cpu: Option<u32>,
    /// What the kernel says of some of its connections.
    pub sockets: Vec<TcpInfo>,
    /// Why connections could not be opened, the last one.
    pub last_connect_failure: Option<(Class, Errno)>,
    /// The peer speaks another protocol: the run was called off.
    pub speaks_otherwise: bool,
    /// How long was waited after the window for what was in flight then.
    pub drained_ns: u64,
    /// Age of the oldest request without an answer when nothing was waited for any more; 0: none.
    pub oldest_unanswered_ns: u64,
    /// When none of its connections was open, by the monotonic clock.
    pub outages: Vec<(u64, u64)>,
    /// Its connections that brought an answer in the window.
    pub answering: u64,
    /// How the answers of the window fell to its connections; `None` where some were spare.
    pub shares: Option<Shares>,
}

/// How answers were shared out, as Jain's index needs it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shares {
    connections: f64,
    sum: f64,
    squares: f64,
}

impl Shares {
    fn of(answers: impl Iterator<Item = u64>) -> Shares {
        answers.fold(Shares::default(), |shares, answers| Shares {
            connections: shares.connections + 1.0,
            sum: shares.sum + answers as f64,
            squares: shares.squares + (answers as f64).powi(2),
        })
    }

    /// Jain's index over several workers: 1 where all connections had as many answers, 1/n where
    /// one of n had them all. `None` below two connections, or without an answer.
    pub fn fairness(workers: &[Shares]) -> Option<f64> {
        let sum = |of: fn(&Shares) -> f64| workers.iter().map(of).sum::<f64>();
        let connections = sum(|shares| shares.connections);
        let squares = sum(|shares| shares.squares);
        let fair = sum(|shares| shares.sum).powi(2) / (connections * squares);
        (connections >= 2.0 && squares > 0.0).then_some(fair)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits in `to_connect`, for a back-off, or rests.
    Closed,
    Connecting,
    /// Connected, and its wire not ready for requests yet.
    Greeting,
    Open,
}

/// The send of a connection that is outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Sending {
    #[default]
    Nothing,
    /// Of the payload block.
    Block,
    /// Of bytes that its wire wrote.
    Own,
    /// The same, and there is nothing to be done when it ends.
    Unawaited,
}

/// Leave for one request.
#[derive(Debug, Clone, Copy, Default)]
struct Grant {
    /// Its intended instant.
    due_ns: u64,
    /// How often it was sent before.
    tries: u8,
}

/// The end of a pause.
#[derive(Debug, Clone, Copy)]
struct Pause {
    at_ns: u64,
    conn: u32,
    /// The request that waits for it, where that was sent before; else a new one is due then.
    again: Option<Grant>,
}

impl Pause {
    /// One before a new request.
    fn new(at_ns: u64, conn: u32) -> Pause {
        Pause {
            at_ns,
            conn,
            again: None,
        }
    }
}

#[derive(Debug)]
struct Connection<W> {
    wire: W,
    phase: Phase,
    /// While a send is outstanding nothing may be issued.
    sending: Sending,
    /// Stands in `dirty`.
    dirty: bool,
    /// Stands in `line`.
    in_line: bool,
    /// The requests that a closed loop may issue here, the oldest first.
    granted: VecDeque<Grant>,
    in_flight: u32,
    /// When the last answer ended or the connection opened.
    last_done_ns: u64,
    /// When the attempt began, greeting included.
    connecting_since_ns: u64,
    /// Answers on this connection since it opened.
    answered: u64,
    /// Answers in the window, whether it was opened anew meanwhile or not.
    window_answers: u64,
    /// Attempts in a row that brought no answer.
    failures_in_a_row: u32,
    /// Whether the first attempt has ended.
    tried: bool,
    /// Closed, and opened when it has something to send: a server that serves one connection at a time
    /// with each of its workers would wait on it for what nobody means to send.
    resting: bool,
}

impl<W> Connection<W> {
    #[inline]
    fn after_answer(&mut self, now: u64) {
        self.in_flight -= 1;
        self.answered += 1;
        self.window_answers += 1;
        self.last_done_ns = now;
    }

    /// Leave for `count` more requests, due at one instant.
    #[inline]
    fn grant(&mut self, count: u32, due_ns: u64) {
        for _ in 0..count {
            self.granted.push_back(Grant { due_ns, tries: 0 });
        }
    }

    /// Leave for a request that was sent before, in its place by age behind those that are held back.
    fn grant_again(&mut self, grant: Grant, held: u32) {
        let behind = (held as usize).min(self.granted.len());
        let older = |other: &Grant| other.due_ns <= grant.due_ns;
        let newer = self.granted.iter().skip(behind).take_while(|g| older(g));
        let at = behind + newer.count();
        self.granted.insert(at, grant);
    }

    /// What was granted is due at this instant, and not before.
    fn grants_are_due(&mut self, now: u64) {
        for grant in self.granted.iter_mut().filter(|grant| grant.tries == 0) {
            grant.due_ns = now;
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// 0: free.
    sent_ns: u64,
    due_ns: u64,
    first_byte_ns: u64,
    /// How late the worker sent it, in an open loop while a connection was free.
    sent_late_ns: u32,
    /// How often it was sent before.
    tries: u8,
}

impl Slot {
    /// Its request has ended.
    fn take(&mut self) -> Slot {
        assert!(self.sent_ns > 0, "a free slot has no end");
        std::mem::replace(self, FREE)
    }

    /// Leave to send its request once more.
    fn again(&self) -> Grant {
        Grant {
            due_ns: self.due_ns,
            tries: self.tries + 1,
        }
    }

    /// What became of its request.
    fn sample(&self, failed: Option<Class>, now: u64) -> Sample {
        Sample {
            sent_ns: self.sent_ns,
            first_byte_ns: self.first_byte_ns,
            ..Sample::new(self.due_ns, now, failed)
        }
    }
}

const FREE: Slot = Slot {
    sent_ns: 0,
    due_ns: 0,
    first_byte_ns: 0,
    sent_late_ns: 0,
    tries: 0,
};

/// What becomes of the requests in flight on a connection that ends.
#[derive(Debug, Clone, Copy)]
enum Left {
    /// They fail with this class.
    Failed(Class),
    /// Their peer said that it did not process them: they are sent again.
    Unprocessed,
}

const ABANDONED: Left = Left::Failed(Class::Other(Failure::Abandoned));

/// A worker, from its first connection to its end.
pub struct Worker<W: Wire, I: Io> {
    plan: WorkerPlan,
    signals: Arc<Signals>,
    publication: Publication,
    io: I,
    shared: W::Shared,
    connections: Vec<Connection<W>>,
    slots: Vec<Slot>,
    depth: u32,
    dirty: Vec<u32>,
    to_connect: VecDeque<u32>,
    connecting: usize,
    tried: u32,
    reach: Reach,
    /// Connections to be tried again, by time.
    retries: BinaryHeap<Reverse<(u64, u32)>>,
    /// Ends of pauses, in order of their beginnings: the pause is the same for all, until
    /// a lever changes it, and then the first may hold the others up once.
    pauses: VecDeque<Pause>,
    pause_ns: u64,
    /// Open loop: what is due next, and how much was due by now.
    schedule: Option<Schedule>,
    due_count: Option<Schedule>,
    /// Open loop: connections with room, longest free first. Closed loop with a max_in_flight: those
    /// that wait for room, longest first.
    line: VecDeque<u32>,
    /// Since when somebody has stood there.
    free_since_ns: u64,
    /// Open loop: requests to be sent again, each not before an instant.
    again: VecDeque<(u64, Grant)>,
    /// Open loop: requests were due when no connection was free, or too much was in flight.
    backlogged: bool,
    /// Closed loop: requests that may still be issued.
    budget: u64,
    report: Box<Report>,
    counters: Counters,
    area_at_ns: u64,
    deadlines: Deadlines,
    turn: Turn,
    published_ns: u64,
    randomness: u64,
    batching: Batching,
    /// Sends that end in an event which nobody waits for.
    unawaited: u32,
    /// The peer has ended a connection behind an answer.
    peer_ends: bool,
    cpu_at_publish_ns: u64,
    polled_at_publish_ns: u64,
    /// The levers as they were followed last.
    levers_seen: u32,
    setting: Setting,
    room: Room,
    slowdown: Option<Slowdown>,
    /// No more requests: the window is over.
    closing: bool,
    /// Latencies of requests that were due later are in no histogram: see [`Worker::close`].
    timed_until_ns: u64,
    /// Where every request goes that has ended, if anywhere.
    samples: Option<Sink>,
    end: WorkerEnd,
}

impl<W: Wire, I: Io> Worker<W, I> {
    /// A worker with everything it needs reserved.
    pub(crate) fn new(
        plan: WorkerPlan,
        signals: Arc<Signals>,
        publication: Publication,
        io: I,
        shared: W::Shared,
        samples: Option<Sink>,
    ) -> Worker<W, I> {
        let count = plan.connections as usize;
        let depth = plan.load.in_flight_per_connection;
        let slots = count * depth as usize;
        let pause_ns = match plan.load.arrival {
            Arrival::Closed { think } => think.0,
            _ => 0,
        };
        let schedule = Schedule::new(
            &plan.load.arrival,
            plan.worker,
            plan.workers,
            plan.seed,
            plan.requests_from_the_start(),
        );
        let closed = schedule.is_none();
        let granted = if closed { depth as usize } else { 0 };
        // Spare connections are opened when a lever first asks for them.
        let opened = plan.connections - plan.spare;
        let connections = (0..plan.connections)
            .map(|conn| Connection {
                wire: W::open(&shared),
                phase: Phase::Closed,
                sending: Sending::Nothing,
                dirty: false,
                in_line: false,
                granted: VecDeque::from(vec![Grant::default(); granted]),
                in_flight: 0,
                last_done_ns: 0,
                connecting_since_ns: 0,
                answered: 0,
                window_answers: 0,
                failures_in_a_row: 0,
                tried: conn >= opened,
                resting: conn >= opened,
            })
            .collect();
        let mut to_connect = VecDeque::with_capacity(count);
        to_connect.extend(0..opened);
        let mut end = WorkerEnd::default();
        end.sockets.reserve_exact(SOCKETS_LOOKED_AT as usize);
        Worker {
            io,
            shared,
            connections,
            slots: vec![FREE; slots],
            depth,
            dirty: Vec::with_capacity(count),
            to_connect,
            connecting: 0,
            tried: plan.spare,
            reach: Reach::new(),
            retries: BinaryHeap::with_capacity(count + 1),
            pauses: VecDeque::with_capacity(if closed { slots } else { 0 }),
            pause_ns,
            due_count: schedule.clone(),
            schedule,
            line: VecDeque::with_capacity(count),
            free_since_ns: 0,
            again: VecDeque::with_capacity(if closed { 0 } else { slots }),
            backlogged: false,
            budget: plan.requests_from_the_start().unwrap_or(u64::MAX),
            report: Report::new(),
            counters: Counters::default(),
            area_at_ns: 0,
            deadlines: Deadlines::new(plan.load.timeout.0, slots),
            turn: Turn::default(),
            published_ns: 0,
            randomness: mix(plan.seed ^ u64::from(plan.worker)),
            batching: Batching::ONE_BY_ONE,
            unawaited: 0,
            peer_ends: false,
            cpu_at_publish_ns: 0,
            polled_at_publish_ns: 0,
            levers_seen: 0,
            setting: Setting::FREE,
            room: plan.room(1.0),
            slowdown: None,
            closing: false,
            timed_until_ns: u64::MAX,
            samples,
            end,
            plan,
            signals,
            publication,
        }
    }

    /// Runs the worker to its end. An error is the kernel's refusal to wait.
    pub fn run(mut self) -> Result<(WorkerEnd, W::Shared), Errno> {
        self.report.from_ns = self.io.now_ns();
        let Some(zero_ns) = self.connect_all()? else {
            return Ok((self.end, self.shared));
        };
        {
            let _promise = allocator::forbid();
            self.measure(zero_ns)?;
        }
        self.drain(zero_ns)?;
        if let Some(samples) = self.samples.take() {
            samples.finish();
        }
        Ok((self.end, self.shared))
    }

    /// Tries every connection once, says so, and waits for the schedule's zero. `None`
    /// when the run is called off.
    fn connect_all(&mut self) -> Result<Option<u64>, Errno> {
        let mut said = false;
        loop {
            let now = self.io.now_ns();
            self.start_connecting(now);
            let all_tried = self.tried as usize == self.connections.len();
            if all_tried && !said {
                self.signals.ready.fetch_add(1, Ordering::Release);
                said = true;
            }
            if self.signals.abort.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let zero_ns = self.signals.zero_ns.load(Ordering::Acquire);
            if zero_ns > 0 && now >= zero_ns {
                return Ok(Some(zero_ns));
            }
            let timeout_ns = match zero_ns {
                0 => 1_000_000,
                zero => (zero - now).min(1_000_000),
            };
            self.wait(Some(timeout_ns))?;
            self.handle_events();
            self.retry(self.io.now_ns());
        }
    }

    fn measure(&mut self, zero_ns: u64) -> Result<(), Errno> {
        let open_ns = zero_ns + self.plan.load.warmup.0;
        let close_ns = open_ns + self.plan.load.stop.after.0;
        let mut opened = false;
        self.report.from_ns = zero_ns;
        self.published_ns = zero_ns;
        self.area_at_ns = zero_ns;
        self.reach.begin(zero_ns);
        for conn in 0..self.connections.len() as u32 {
            let connection = &mut self.connections[conn as usize];
            connection.grants_are_due(zero_ns);
            if connection.phase == Phase::Open {
                connection.last_done_ns = zero_ns;
                self.offer(conn);
            }
        }
        let mut now = self.io.now_ns();
        loop {
            if !opened && now >= open_ns {
                opened = true;
                self.count_from(now - zero_ns);
                self.reach.open_window();
                for connection in &mut self.connections {
                    connection.window_answers = 0;
                }
                self.publish(now, zero_ns, Some(Edge::Open));
                if let Some(samples) = &mut self.samples {
                    samples.open(zero_ns);
                }
            }
            let stop = self.signals.stop.load(Ordering::Relaxed);
            if opened && (now >= close_ns || stop || self.finished()) {
                // What is due by now is sent, where a connection is free: only what had to wait is told.
                self.dispatch(now, zero_ns);
                self.flush();
                self.close(now);
                self.end.shares = self.shares();
                self.end.answering = self.answering();
                self.publish(now, zero_ns, Some(Edge::Close));
                self.batching = Batching::ONE_BY_ONE;
                let attempt_ns = self.oldest_attempt_ns();
                self.end.outages = self.reach.end(attempt_ns, now);
                return Ok(());
            }
            if stop && !opened {
                // Interrupted in the warm-up: an empty window is still a window.
                opened = true;
                self.publish(now, zero_ns, Some(Edge::Open));
                continue;
            }
            if self.signals.levers.version() != self.levers_seen {
                self.follow_levers(now, zero_ns);
            }
            if now - self.published_ns >= PUBLISH_NS {
                self.publish(now, zero_ns, None);
            }
            self.dispatch(now, zero_ns);
            self.flush();
            self.start_connecting(now);
            let edge = if opened { close_ns } else { open_ns };
            if let Some(slowdown) = &mut self.slowdown {
                self.counters.spun_ns += slowdown.spin(|| self.io.cpu_ns());
            }
            let timeout_ns = self.time_to_next(now, zero_ns, edge);
            let done_before = self.counters.issued + self.counters.events;
            self.wait(Some(timeout_ns))?;
            self.handle_events();
            let began_ns = now;
            now = self.io.now_ns();
            self.turn.ends(now);
            if timeout_ns == 0 && self.counters.issued + self.counters.events == done_before {
                self.counters.polled_ns += now - began_ns;
                process::give_way();
                now = self.io.now_ns();
            }
            self.end_pauses(now);
            self.retry(now);
            if now >= self.deadlines.next_ns() {
                self.check_deadlines(now);
            }
        }
    }

    /// The window is over. Of the requests in flight, those that were due before its end less the warm-up are timed
    /// when they are answered. The others stand for those that were in flight when the window opened, and are
    /// timed already: with both, those that take long would weigh too much. None of the first could have been in
    /// flight then, for the load had not begun.
    fn close(&mut self, now: u64) {
        self.closing = true;
        self.timed_until_ns = now.saturating_sub(self.plan.load.warmup.0);
        if let Some(samples) = &mut self.samples {
            samples.close(self.timed_until_ns);
        }
    }

    /// Lets what is in flight end, so that its latency is known, and the next load finds an idle server.
    /// Nothing is sent any more, and deadlines hold.
    fn drain(&mut self, zero_ns: u64) -> Result<(), Errno> {
        let began_ns = self.io.now_ns();
        self.look_at_sockets();
        let mut now = self.io.now_ns();
        while self.counters.in_flight > 0 && !self.signals.abort.load(Ordering::Relaxed) {
            let interrupted = self.signals.stop.load(Ordering::Relaxed);
            let longest_ns = match interrupted {
                true => DRAIN_INTERRUPTED_NS.min(self.plan.load.drain.0),
                false => self.plan.load.drain.0,
            };
            let until = began_ns.saturating_add(longest_ns);
            if now >= until {
                break;
            }
            let next_ns = until.min(self.deadlines.next_ns());
            self.wait(Some(next_ns.saturating_sub(now).min(20_000_000)))?;
            self.handle_events();
            now = self.io.now_ns();
            self.turn.ends(now);
            if now >= self.deadlines.next_ns() {
                self.check_deadlines(now);
            }
        }
        self.end.drained_ns = now - began_ns;
        self.end.oldest_unanswered_ns = self.oldest_age_ns(now, zero_ns);
        self.publish(now, zero_ns, Some(Edge::Drained));
        for conn in 0..self.connections.len() as u32 {
            if self.connections[conn as usize].phase != Phase::Closed {
                self.io.close(conn);
            }
        }
        Ok(())
    }

    fn look_at_sockets(&mut self) {
        for conn in 0..self.connections.len() as u32 {
            if self.end.sockets.len() == SOCKETS_LOOKED_AT as usize {
                return;
            }
            if let Some(info) = self.io.tcp_info(conn) {
                self.end.sockets.push(info);
            }
        }
    }

    /// After a warm-up, a counted load is counted from here: its requests are those whose
    /// answers fall into the window, and in an open loop those that are due in it.
    fn count_from(&mut self, elapsed_ns: u64) {
        let Some(requests) = self.plan.requests.filter(|_| self.plan.load.warmup.0 > 0) else {
            return;
        };
        let under_way = self.counters.in_flight + self.counters.waiting_again;
        self.budget = requests.saturating_sub(under_way);
        if let (Some(schedule), Some(due)) = (&mut self.schedule, &mut self.due_count) {
            let limit = due.take_until(elapsed_ns).saturating_add(requests);
            due.set_limit(limit);
            schedule.set_limit(limit);
        }
    }

    /// Whether a counted load has had all of its answers.
    fn finished(&self) -> bool {
        let over = match &self.schedule {
            Some(schedule) => schedule.next_due_ns().is_none(),
            None => self.budget == 0,
        };
        over && self.counters.in_flight + self.counters.waiting_again == 0
    }

    fn shares(&self) -> Option<Shares> {
        let answers = self
            .connections
            .iter()
            .map(|connection| connection.window_answers);
        (self.plan.spare == 0).then(|| Shares::of(answers))
    }

    /// When the oldest attempt to connect began that is under way.
    fn oldest_attempt_ns(&self) -> Option<u64> {
        let connections = self.connections.iter();
        let under_way =
            connections.filter(|c| matches!(c.phase, Phase::Connecting | Phase::Greeting));
        under_way.map(|c| c.connecting_since_ns).min()
    }

    fn answering(&self) -> u64 {
        let answered = |connection: &&Connection<W>| connection.window_answers > 0;
        self.connections.iter().filter(answered).count() as u64
    }

    /// Age of the oldest request that has no answer: in flight, or due in an open loop and never sent.
    fn oldest_age_ns(&self, now: u64, zero_ns: u64) -> u64 {
        let in_flight = self.slots.iter().filter(|slot| slot.sent_ns > 0);
        let again = self.again.iter().map(|(_, grant)| grant.due_ns);
        let waits = self.counters.backlog() > self.counters.waiting_again;
        let next = self.schedule.as_ref().and_then(Schedule::next_due_ns);
        let waiting = next.filter(|_| waits).map(|due| zero_ns + due);
        let oldest = in_flight.map(|slot| slot.due_ns);
        let oldest = oldest.chain(again).chain(waiting).min();
        oldest.map_or(0, |due_ns| now.saturating_sub(due_ns))
    }

    fn wait(&mut self, timeout_ns: Option<u64>) -> Result<(), Errno> {
        self.counters.waits += 1;
        let (batch, batch_wait_us) = self.batching.beside(self.unawaited);
        self.counters.batching_waits += u64::from(batch_wait_us > 0);
        self.counters.batching_ns += u64::from(batch_wait_us) * 1000;
        let asked_ns = self.io.now_ns();
        self.turn.asks(asked_ns, u64::from(batch_wait_us) * 1000);
        self.io.wait(Wait {
            timeout_ns,
            batch,
            batch_wait_us,
        })
    }

    /// How long nothing but an event needs the worker.
    fn time_to_next(&self, now: u64, zero_ns: u64, edge_ns: u64) -> u64 {
        let mut until = edge_ns.min(self.published_ns + PUBLISH_NS);
        until = until.min(self.deadlines.next_ns());
        if let Some(Reverse((at, _))) = self.retries.peek() {
            until = until.min(*at);
        }
        if let Some(pause) = self.pauses.front() {
            until = until.min(pause.at_ns);
        }
        if let Some((at, _)) = self.again.front()
            && !self.line.is_empty()
            && self.has_room_in_flight()
        {
            until = until.min(*at);
        }
        if let Some(schedule) = &self.schedule
            && !self.line.is_empty()
            && self.has_room_in_flight()
            && let Some(due) = schedule.next_due_ns()
        {
            let margin_ns = if self.plan.pinned { POLL_BEFORE_NS } else { 0 };
            until = until.min(zero_ns + due - margin_ns.min(due));
        }
        until.saturating_sub(now)
    }

    fn handle_events(&mut self) {
        while let Some(event) = self.io.next_event() {
            self.counters.events += 1;
            match event {
                Event::Received { conn, span } => self.received(conn, span),
                Event::Sent { conn, count } => self.sent(conn, count),
                Event::Connected { conn } => self.connected(conn),
                Event::ConnectFailed { conn, errno } => self.connect_failed(conn, errno),
                Event::Eof { conn } => self.ended(conn),
                Event::Broken {
                    conn,
                    errno,
                    sending,
                } => self.broken(conn, errno, sending),
            }
        }
    }

    #[inline]
    fn received(&mut self, conn: u32, span: Span) {
        let now = self.io.now_ns();
        self.turn.reads(now);
        self.advance(now);
        let held = self.held();
        let first_slot = conn as usize * self.depth as usize;
        let connection = &mut self.connections[conn as usize];
        let mut bytes = self.io.bytes(span);
        self.counters.bytes_in += bytes.len() as u64;
        let (mut answers, mut slowest_ns) = (0, 0);
        while !bytes.is_empty() {
            let taken = connection.wire.handle_bytes(&mut self.shared, bytes);
            bytes = &bytes[taken..];
            let mut told = false;
            while let Some(outcome) = connection.wire.poll_outcome() {
                told = true;
                match outcome {
                    Outcome::Answered(answer) => {
                        let done = self.slots[first_slot + answer.slot as usize].take();
                        answers += 1;
                        slowest_ns = slowest_ns.max(now - done.sent_ns);
                        let ledger = (&mut self.counters, &mut *self.report, &mut self.samples);
                        take_answer(
                            ledger,
                            (&self.deadlines, &self.turn),
                            self.timed_until_ns,
                            (&done, &answer),
                            now,
                        );
                        connection.after_answer(now);
                        if self.pause_ns > 0 {
                            self.pauses.push_back(Pause::new(now + self.pause_ns, conn));
                        } else if self.schedule.is_none() {
                            connection.grant(1, now);
                        }
                        if !answer.reusable {
                            self.peer_ends = true;
                            self.lose(conn, now, behind(&answer));
                            return;
                        }
                    }
                    Outcome::Failed { slot, error } => {
                        let done = self.slots[first_slot + slot as usize].take();
                        self.counters.in_flight -= 1;
                        connection.in_flight -= 1;
                        // A peer that refuses at once is not asked again at once.
                        let refused = error != WireError::H2Unprocessed;
                        let pause_ns = if refused { BACKOFF_FIRST_NS } else { 0 };
                        if error.is_unprocessed() && done.tries < RESENDS_MAX && !self.closing {
                            let again = done.again();
                            self.counters.resent += 1;
                            self.counters.waiting_again += 1;
                            if self.schedule.is_some() {
                                self.again.push_back((now + pause_ns, again));
                            } else if refused {
                                self.pauses.push_back(Pause {
                                    at_ns: now + pause_ns,
                                    conn,
                                    again: Some(again),
                                });
                            } else {
                                connection.grant_again(again, held);
                            }
                            continue;
                        }
                        let class = Class::Wire(error);
                        keep(&mut self.samples, || done.sample(Some(class), now));
                        self.counters.failed[class.index()] += 1;
                        if self.schedule.is_none() {
                            let pause_ns = self.pause_ns.max(BACKOFF_FIRST_NS);
                            self.pauses.push_back(Pause::new(now + pause_ns, conn));
                        }
                    }
                    Outcome::Over => {
                        self.lose(conn, now, ABANDONED);
                        return;
                    }
                    Outcome::Broken { slot, error } => {
                        if error == WireError::H2Preface {
                            // It speaks another protocol, and will the next time.
                            self.end.speaks_otherwise = true;
                            self.signals.abort.store(true, Ordering::Relaxed);
                            self.signals.stop.store(true, Ordering::Relaxed);
                        }
                        let class = Class::Wire(error);
                        self.say_last(conn);
                        self.fail_and_lose(conn, slot, class, Failure::Abandoned, now);
                        return;
                    }
                }
            }
            assert!(
                taken > 0 || told || bytes.is_empty(),
                "a wire must take or tell"
            );
        }
        if answers > 0 {
            self.batching.bring(answers, slowest_ns);
        }
        while let Some(slot) = connection.wire.poll_begun() {
            let slot = &mut self.slots[first_slot + slot as usize];
            if slot.first_byte_ns == 0 {
                slot.first_byte_ns = now;
            }
        }
        if connection.phase == Phase::Greeting {
            self.greet(conn);
        }
        self.offer(conn);
    }

    fn sent(&mut self, conn: u32, count: usize) {
        if self.end_sending(conn) == Sending::Block {
            self.connections[conn as usize]
                .wire
                .handle_sent(&self.shared, count);
        }
        self.counters.bytes_out += count as u64;
        if self.connections[conn as usize].phase == Phase::Greeting {
            self.greet(conn);
        }
        self.offer(conn);
    }

    /// Nothing of a connection is outstanding any more; gives what was.
    #[inline]
    fn end_sending(&mut self, conn: u32) -> Sending {
        let sending = std::mem::take(&mut self.connections[conn as usize].sending);
        self.unawaited -= u32::from(sending == Sending::Unawaited);
        sending
    }

    fn connected(&mut self, conn: u32) {
        self.connections[conn as usize].phase = Phase::Greeting;
        self.greet(conn);
    }

    /// Sends what comes before the first request. When all of that is done the connection is
    /// open.
    fn greet(&mut self, conn: u32) {
        let _permit = allocator::permit();
        if !self.connections[conn as usize].wire.is_ready() {
            self.transmit(conn);
            return;
        }
        let now = self.io.now_ns();
        self.counters.connects += 1;
        self.connecting -= 1;
        let since_ns = self.connections[conn as usize].connecting_since_ns;
        self.reach.opened(since_ns, now);
        self.note_tried(conn);
        let connection = &mut self.connections[conn as usize];
        connection.phase = Phase::Open;
        connection.last_done_ns = now;
        self.offer(conn);
    }

    fn connect_failed(&mut self, conn: u32, errno: Errno) {
        self.connecting -= 1;
        self.io.close(conn);
        self.could_not_connect(conn, connect_class(errno), errno);
    }

    fn could_not_connect(&mut self, conn: u32, failure: Failure, errno: Errno) {
        let class = Class::Other(failure);
        self.counters.connect_failed[class.index()] += 1;
        self.end.last_connect_failure = Some((class, errno));
        self.reach.failed();
        self.note_tried(conn);
        self.end_sending(conn);
        let connection = &mut self.connections[conn as usize];
        connection.phase = Phase::Closed;
        connection.failures_in_a_row += 1;
        self.retry_later(conn, self.io.now_ns());
    }

    fn note_tried(&mut self, conn: u32) {
        let connection = &mut self.connections[conn as usize];
        if !connection.tried {
            connection.tried = true;
            self.tried += 1;
        }
    }

    /// The peer has finished writing.
    fn ended(&mut self, conn: u32) {
        let now = self.io.now_ns();
        self.turn.reads(now);
        let connection = &mut self.connections[conn as usize];
        connection.wire.handle_eof(&mut self.shared);
        match connection.wire.poll_outcome() {
            Some(Outcome::Answered(answer)) => {
                self.advance(now);
                let first_slot = conn as usize * self.depth as usize;
                let done = self.slots[first_slot + answer.slot as usize].take();
                let ledger = (&mut self.counters, &mut *self.report, &mut self.samples);
                take_answer(
                    ledger,
                    (&self.deadlines, &self.turn),
                    self.timed_until_ns,
                    (&done, &answer),
                    now,
                );
                self.connections[conn as usize].after_answer(now);
                self.peer_ends = true;
                if self.pause_ns > 0 {
                    self.pauses.push_back(Pause::new(now + self.pause_ns, conn));
                } else {
                    self.grant(conn, 1, now);
                }
                self.lose(conn, now, behind(&answer));
            }
            Some(Outcome::Broken { slot, error }) => {
                self.fail_and_lose(conn, slot, Class::Wire(error), Failure::Abandoned, now);
            }
            Some(Outcome::Failed { slot, error }) => {
                let class = Class::Wire(error);
                self.fail_and_lose(conn, Some(slot), class, Failure::Abandoned, now);
            }
            Some(Outcome::Over) | None => {
                let failure = self.waiting_class(conn, Failure::ClosedWait);
                self.lose(conn, now, Left::Failed(Class::Other(failure)));
            }
        }
    }

    fn broken(&mut self, conn: u32, errno: Errno, sending: bool) {
        let now = self.io.now_ns();
        if errno == Errno::NOBUFS || errno == Errno::NOMEM {
            let class = Class::Other(Failure::LocalMemory);
            self.lose(conn, now, Left::Failed(class));
            return;
        }
        if self.connections[conn as usize].phase == Phase::Greeting {
            let class = Class::Wire(WireError::TlsHandshake);
            self.fail_and_lose(conn, None, class, Failure::Abandoned, now);
            return;
        }
        let answering = self.connections[conn as usize].wire.answering();
        if answering.is_some() {
            let class = Class::Other(Failure::ResetBody);
            self.fail_and_lose(conn, answering, class, Failure::Abandoned, now);
            return;
        }
        let failure = if sending {
            Failure::ResetSend
        } else {
            Failure::ResetWait
        };
        let failure = self.waiting_class(conn, failure);
        self.lose(conn, now, Left::Failed(Class::Other(failure)));
    }

    /// The class of requests that lost their connection before their first byte: the
    /// race with a server that closes idle connections is told apart.
    fn waiting_class(&self, conn: u32, otherwise: Failure) -> Failure {
        let connection = &self.connections[conn as usize];
        let first = conn as usize * self.depth as usize;
        let slots = &self.slots[first..first + self.depth as usize];
        let sent_ns = slots.iter().map(|slot| slot.sent_ns).max().unwrap_or(0);
        let idle = sent_ns.saturating_sub(connection.last_done_ns) >= IDLE_RACE_NS;
        if connection.answered > 0 && idle {
            Failure::StaleReuse
        } else {
            otherwise
        }
    }

    /// Sends what a wire has to say to a peer that broke the protocol. Nothing waits for it.
    #[cold]
    fn say_last(&mut self, conn: u32) {
        let connection = &mut self.connections[conn as usize];
        let may_send = connection.sending == Sending::Nothing;
        if may_send && connection.wire.poll_transmit(&self.shared) == Transmit::Own {
            let len = connection.wire.write(&self.shared, self.io.own(conn));
            self.counters.bytes_out += self.io.send_last(conn, len) as u64;
        }
    }

    /// One request fails with a class of its own, the others as abandoned.
    fn fail_and_lose(
        &mut self,
        conn: u32,
        slot: Option<u32>,
        class: Class,
        others: Failure,
        now: u64,
    ) {
        self.advance(now);
        match slot {
            Some(slot) => {
                let at = conn as usize * self.depth as usize + slot as usize;
                let done = self.slots[at].take();
                keep(&mut self.samples, || done.sample(Some(class), now));
                self.counters.failed[class.index()] += 1;
                self.counters.in_flight -= 1;
                self.connections[conn as usize].in_flight -= 1;
                self.grant(conn, 1, now);
            }
            // The connection was idle: no request failed, and the oddity still counts.
            None => {
                self.counters.connect_failed[class.index()] += 1;
                self.end.last_connect_failure = Some((class, Errno::PROTO));
            }
        }
        self.lose(conn, now, Left::Failed(Class::Other(others)));
    }

    /// Ends a connection, and opens it again. What is in flight on it fails, or is sent again.
    fn lose(&mut self, conn: u32, now: u64, left: Left) {
        self.advance(now);
        let first = conn as usize * self.depth as usize;
        let held = self.held();
        let (mut lost, mut failed) = (0, 0);
        for slot in &mut self.slots[first..first + self.depth as usize] {
            if slot.sent_ns == 0 {
                continue;
            }
            let done = slot.take();
            lost += 1;
            let class = match left {
                Left::Unprocessed if done.tries < RESENDS_MAX && !self.closing => {
                    self.counters.resent += 1;
                    self.counters.waiting_again += 1;
                    match self.schedule {
                        Some(_) => self.again.push_back((now, done.again())),
                        None => self.connections[conn as usize].grant_again(done.again(), held),
                    }
                    continue;
                }
                Left::Unprocessed => Class::Other(Failure::Abandoned),
                Left::Failed(class) => class,
            };
            keep(&mut self.samples, || done.sample(Some(class), now));
            self.counters.failed[class.index()] += 1;
            failed += 1;
        }
        match self.connections[conn as usize].phase {
            Phase::Greeting => {
                self.connecting -= 1;
                self.reach.failed();
                self.note_tried(conn);
            }
            Phase::Open => self.reach.closed(now),
            Phase::Closed | Phase::Connecting => {}
        }
        self.end_sending(conn);
        let connection = &mut self.connections[conn as usize];
        assert_eq!(lost, connection.in_flight, "slots and count disagree");
        self.counters.in_flight -= u64::from(lost);
        connection.in_flight = 0;
        connection.phase = Phase::Closed;
        connection.wire.reset(&self.shared);
        if connection.answered > 0 {
            connection.failures_in_a_row = 0;
        } else {
            connection.failures_in_a_row += 1;
        }
        self.io.close(conn);
        self.grant(conn, failed, now);
        if self.closing {
            return;
        }
        if self.connections[conn as usize].failures_in_a_row == 0 {
            self.connections[conn as usize].resting = true;
            self.wake(conn);
        } else {
            self.retry_later(conn, now);
        }
    }

    /// Has a connection that rests opened, if it has something to send. In an open loop any may be
    /// the next that has.
    fn wake(&mut self, conn: u32) {
        let connection = &self.connections[conn as usize];
        let may_send = !connection.granted.is_empty() && !self.held_back(conn);
        if connection.resting && (may_send || self.schedule.is_some()) {
            self.connections[conn as usize].resting = false;
            self.to_connect.push_back(conn);
        }
    }

    /// Closes a connection on which nothing was sent yet, for a lever holds it back.
    #[cold]
    fn put_to_rest(&mut self, conn: u32) {
        self.reach.closed(self.io.now_ns());
        let connection = &mut self.connections[conn as usize];
        connection.phase = Phase::Closed;
        connection.resting = true;
        connection.wire.reset(&self.shared);
        self.io.close(conn);
    }

    /// Gives a closed loop's connection leave for more requests, due now.
    fn grant(&mut self, conn: u32, count: u32, due_ns: u64) {
        if self.schedule.is_none() {
            self.connections[conn as usize].grant(count, due_ns);
        }
    }

    fn retry_later(&mut self, conn: u32, now: u64) {
        let failures = self.connections[conn as usize].failures_in_a_row;
        let doubled = BACKOFF_FIRST_NS << (failures.saturating_sub(1)).min(10);
        let pause = doubled.min(BACKOFF_LONGEST_NS);
        self.randomness = mix(self.randomness);
        // Between half and one and a half, so that a thousand do not come back together.
        let jittered = pause / 2 + self.randomness % pause;
        self.retries.push(Reverse((now + jittered, conn)));
    }

    fn retry(&mut self, now: u64) {
        while let Some(Reverse((at, conn))) = self.retries.peek().copied() {
            if at > now {
                return;
            }
            self.retries.pop();
            self.to_connect.push_back(conn);
        }
    }

    fn start_connecting(&mut self, now: u64) {
        while self.connecting < CONNECTING_MAX && !self.closing {
            let Some(conn) = self.to_connect.pop_front() else {
                return;
            };
            // Opening a connection is the kernel's and the allocator's business.
            let _permit = allocator::permit();
            match self.io.connect(conn) {
                Ok(()) => {
                    self.connecting += 1;
                    let connection = &mut self.connections[conn as usize];
                    connection.phase = Phase::Connecting;
                    connection.answered = 0;
                    connection.connecting_since_ns = now;
                    self.deadlines.watch_until(now + CONNECT_TIMEOUT_NS + 1);
                }
                Err(errno) => self.could_not_connect(conn, connect_class(errno), errno),
            }
        }
    }

    fn end_pauses(&mut self, now: u64) {
        while let Some(pause) = self.pauses.front().copied() {
            if pause.at_ns > now {
                return;
            }
            self.pauses.pop_front();
            let held = self.held();
            match pause.again {
                None => self.grant(pause.conn, 1, pause.at_ns),
                Some(again) => self.connections[pause.conn as usize].grant_again(again, held),
            }
            self.offer(pause.conn);
        }
    }

    /// Ends the segment with a report, and begins the next one as the levers stand now.
    /// When the report cannot be given away at this moment, the change waits for the next
    /// turn of the loop.
    fn follow_levers(&mut self, now: u64, zero_ns: u64) {
        let (version, setting) = self.signals.levers.setting();
        self.report.ends_segment = true;
        if !self.publish(now, zero_ns, None) {
            self.report.ends_segment = false;
            return;
        }
        self.levers_seen = version;
        self.report.segment = setting.segment;
        if setting.pace != self.setting.pace {
            let elapsed_ns = now.saturating_sub(zero_ns);
            for schedule in self.schedule.iter_mut().chain(&mut self.due_count) {
                schedule.set_pace(elapsed_ns, setting.pace);
            }
        }
        if let Some(schedule) = &mut self.schedule
            && setting.segment == 0
        {
            // What is overdue stays unsent: a queue from one setting would be the next one's
            // load, and an overloaded server's grows until every request is late.
            schedule.take_until(now.saturating_sub(zero_ns));
        }
        self.pause_ns = setting.think.0
            + match self.plan.load.arrival {
                Arrival::Closed { think } => think.0,
                _ => 0,
            };
        W::take_form(&mut self.shared, setting.form);
        if setting.speed != self.setting.speed {
            let cpu_ns = self.io.cpu_ns();
            self.slowdown = setting.speed.map(|speed| Slowdown::to(speed, cpu_ns));
        }
        self.room = self.plan.room(setting.in_flight);
        self.setting = setting;
        self.signals.levers.follow(version);
        for conn in 0..self.plan.connections {
            let connection = &mut self.connections[conn as usize];
            if !connection.granted.is_empty() {
                if !self.room.is_limited_in_flight() {
                    // What was held back was not meant to be sent before now.
                    connection.grants_are_due(now);
                }
                self.offer(conn);
            }
        }
    }

    /// Whether a lever holds this connection back. Which ones are held goes around, so that
    /// no server's worker is always spared.
    #[inline]
    fn held_back(&self, conn: u32) -> bool {
        let all = self.plan.connections;
        self.room.connections < all && (conn + self.setting.turn) % all >= self.room.connections
    }

    /// A connection may have something to send, or room for more.
    #[inline]
    fn offer(&mut self, conn: u32) {
        if self.schedule.is_some() {
            self.stand_in_line(conn);
        }
        let connection = &mut self.connections[conn as usize];
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(conn);
        }
    }

    fn stand_in_line(&mut self, conn: u32) {
        if self.can_send(conn) {
            self.line_up(conn);
        }
    }

    /// Whether a connection could send one more request at once.
    fn can_send(&self, conn: u32) -> bool {
        let connection = &self.connections[conn as usize];
        connection.phase == Phase::Open
            && connection.sending == Sending::Nothing
            && connection.wire.room(&self.shared) > 0
    }

    /// Behind those who stand in the line already.
    fn line_up(&mut self, conn: u32) {
        let connection = &mut self.connections[conn as usize];
        if !connection.in_line {
            connection.in_line = true;
            if self.line.is_empty() {
                // When something last changed is now, near enough.
                self.free_since_ns = self.area_at_ns;
            }
            self.line.push_back(conn);
        }
    }

    /// Whether one more request may be in flight, as far as the bound of requests in flight is concerned.
    #[inline]
    fn has_room_in_flight(&self) -> bool {
        self.counters.in_flight < self.room.in_flight_max
    }

    /// Closed loop with a bound of requests in flight: room that is free goes to those who have waited longest, one
    /// at a time.
    fn admit_waiting(&mut self) {
        while self.has_room_in_flight() && self.may_issue() {
            let Some(conn) = self.line.pop_front() else {
                return;
            };
            let can_send = self.can_send(conn);
            let connection = &mut self.connections[conn as usize];
            connection.in_line = false;
            let Some(Grant { due_ns, tries }) = connection.granted.front().copied() else {
                continue;
            };
            if tries == 0 && self.budget == 0 {
                continue;
            }
            // Who cannot send now asks again as soon as it can.
            if !can_send {
                continue;
            }
            let now = self.io.now_ns();
            if self.deadlines.is_late(due_ns, now) {
                // Its deadline passed before there was room.
                self.fail_granted(conn, 0, now);
            } else {
                self.issue_granted(conn, 0, 1);
                self.transmit(conn);
            }
            if !self.connections[conn as usize].granted.is_empty() {
                self.line_up(conn);
            }
        }
    }

    /// Open loop: gives each due request to the connection that has been free longest.
    fn dispatch(&mut self, now: u64, zero_ns: u64) {
        if self.schedule.is_none() {
            return;
        }
        self.advance(now);
        if !self.again.is_empty() {
            self.dispatch_again(now);
        }
        while let Some(due) = self.schedule.as_ref().and_then(Schedule::next_due_ns) {
            let due_ns = zero_ns + due;
            if due_ns > now {
                self.backlogged = false;
                return;
            }
            if self.deadlines.is_late(due_ns, now) {
                // Its deadline passed before a connection was free, or before the worker looked.
                self.take_due();
                let free_in_time = !self.line.is_empty()
                    && self.has_room_in_flight()
                    && !self.deadlines.is_late(due_ns, self.free_since_ns);
                self.counters.late_by_client += u64::from(free_in_time);
                self.expire(due_ns, now);
                continue;
            }
            let Some(conn) = self.next_free() else {
                self.backlogged = true;
                return;
            };
            self.take_due();
            let sent_ns = self.io.now_ns();
            let mut sent_late_ns = 0;
            if !self.backlogged {
                self.report.lateness.record(sent_ns - due_ns);
                sent_late_ns = sent_ns - due_ns;
            }
            let grant = Grant { due_ns, tries: 0 };
            self.issue(conn, grant, sent_ns, sent_late_ns);
            self.offer(conn);
        }
        self.backlogged = false;
    }

    /// Open loop: the connection that has been free longest, where one more request may be in flight.
    #[inline]
    fn next_free(&mut self) -> Option<u32> {
        if !self.has_room_in_flight() {
            return None;
        }
        while let Some(conn) = self.line.pop_front() {
            self.connections[conn as usize].in_line = false;
            // Meanwhile it may have been lost, or its peer may be going away.
            if self.can_send(conn) {
                return Some(conn);
            }
        }
        None
    }

    /// Open loop: the same for requests that are sent again, which come first.
    #[cold]
    fn dispatch_again(&mut self, now: u64) {
        while let Some((at_ns, grant)) = self.again.front().copied() {
            if self.deadlines.is_late(grant.due_ns, now) {
                self.again.pop_front();
                self.counters.waiting_again -= 1;
                self.expire(grant.due_ns, now);
                continue;
            }
            if at_ns > now {
                return;
            }
            let Some(conn) = self.next_free() else {
                return;
            };
            self.again.pop_front();
            self.counters.waiting_again -= 1;
            self.issue(conn, grant, self.io.now_ns(), 0);
            self.offer(conn);
        }
    }

    /// A request's deadline passed before it was sent.
    fn expire(&mut self, due_ns: u64, now: u64) {
        let class = Class::Other(Failure::TimeoutTotal);
        keep(&mut self.samples, || Sample::new(due_ns, now, Some(class)));
        self.counters.failed[class.index()] += 1;
        self.counters.expired_unsent += 1;
    }

    fn take_due(&mut self) {
        if let Some(schedule) = &mut self.schedule {
            schedule.take();
            self.counters.scheduled = self.counters.scheduled.max(schedule.taken());
        }
    }

    #[inline]
    fn issue(&mut self, conn: u32, grant: Grant, sent_ns: u64, sent_late_ns: u64) {
        self.deadlines.watch(grant.due_ns);
        let connection = &mut self.connections[conn as usize];
        let slot = connection.wire.issue(&self.shared);
        let at = conn as usize * self.depth as usize + slot as usize;
        assert!(self.slots[at].sent_ns == 0, "the slot is taken");
        self.slots[at] = Slot {
            sent_ns,
            due_ns: grant.due_ns,
            first_byte_ns: 0,
            sent_late_ns: u32::try_from(sent_late_ns).unwrap_or(u32::MAX),
            tries: grant.tries,
        };
        connection.in_flight += 1;
        self.counters.issued += 1;
        self.counters.in_flight += 1;
    }

    /// Closed loop: issues what was granted. Both: sends what was issued.
    fn flush(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for conn in dirty.drain(..) {
            self.connections[conn as usize].dirty = false;
            self.flush_one(conn);
        }
        // The vector goes back with its memory; nothing was added meanwhile but by `lose`.
        std::mem::swap(&mut self.dirty, &mut dirty);
        if self.room.is_limited_in_flight() && self.schedule.is_none() {
            self.admit_waiting();
        }
    }

    #[inline]
    fn flush_one(&mut self, conn: u32) {
        let connection = &self.connections[conn as usize];
        if connection.phase != Phase::Open || connection.sending != Sending::Nothing {
            self.wake(conn);
            return;
        }
        let granted = connection.granted.len() as u32;
        let held_back = self.held_back(conn);
        if held_back && self.peer_ends && connection.answered == 0 && connection.in_flight == 0 {
            self.put_to_rest(conn);
            return;
        }
        if granted > 0 && self.may_issue() && !held_back {
            let room = connection.wire.room(&self.shared);
            let held = self.held();
            let count = granted.saturating_sub(held).min(room);
            match self.room.is_limited_in_flight() {
                false => {
                    self.issue_granted(conn, held, count);
                    let left = self.connections[conn as usize].granted.get(held as usize);
                    if let Some(grant) = left {
                        self.deadlines.watch(grant.due_ns);
                    }
                }
                true => self.line_up(conn),
            }
        }
        self.transmit(conn);
    }

    /// Closed loop: whether what was granted may be sent, as far as the load's count is concerned.
    #[inline]
    fn may_issue(&self) -> bool {
        (self.budget > 0 || self.counters.waiting_again > 0) && !self.closing
    }

    /// Of what a connection was granted, so much is held back by a lever: the oldest.
    #[inline]
    fn held(&self) -> u32 {
        self.depth - self.room.depth
    }

    /// Closed loop: issues so many of the requests that a connection was granted, behind those that
    /// are held back.
    #[inline]
    fn issue_granted(&mut self, conn: u32, held: u32, count: u32) {
        let now = self.io.now_ns();
        self.advance(now);
        for _ in 0..count {
            let granted = &mut self.connections[conn as usize].granted;
            let next = granted.get(held as usize).expect("it was granted");
            if next.tries == 0 && self.budget == 0 {
                return;
            }
            if self.deadlines.is_late(next.due_ns, now) {
                self.fail_granted(conn, held, now);
                continue;
            }
            let grant = match held {
                0 => granted.pop_front(),
                held => granted.remove(held as usize),
            };
            let grant = grant.expect("it was granted");
            self.count_granted(grant);
            self.issue(conn, grant, now, 0);
        }
    }

    /// A granted request is sent, or given up. It is scheduled with that, where it was not before.
    #[inline]
    fn count_granted(&mut self, grant: Grant) {
        if grant.tries == 0 {
            self.counters.scheduled += 1;
            self.budget -= 1;
        } else {
            self.counters.waiting_again -= 1;
        }
    }

    /// The oldest request that is not held back has waited too long for its turn to be sent. The next
    /// is due now.
    #[cold]
    fn fail_granted(&mut self, conn: u32, held: u32, now: u64) {
        let connection = &mut self.connections[conn as usize];
        let granted = &mut connection.granted;
        let grant = granted.remove(held as usize).expect("it was granted");
        connection.grant(1, now);
        self.count_granted(grant);
        self.expire(grant.due_ns, now);
    }

    /// Sends what the wire has to send, until it has no more or the socket takes no more.
    #[inline]
    fn transmit(&mut self, conn: u32) {
        if self.connections[conn as usize].sending != Sending::Nothing {
            return;
        }
        loop {
            let connection = &mut self.connections[conn as usize];
            let (sending, state) = match connection.wire.poll_transmit(&self.shared) {
                Transmit::Idle => return,
                Transmit::Block { start, len } => (Sending::Block, self.io.send(conn, start, len)),
                Transmit::Own => {
                    let len = connection.wire.write(&self.shared, self.io.own(conn));
                    if len == 0 {
                        return;
                    }
                    self.batching.connections_make_what_they_send();
                    (Sending::Own, self.io.send_own(conn, len))
                }
            };
            match state {
                Ok(SendState::Now(count)) => {
                    if sending == Sending::Block {
                        connection.wire.handle_sent(&self.shared, count);
                    }
                    self.counters.bytes_out += count as u64;
                }
                Ok(SendState::Later) => {
                    connection.sending = sending;
                    self.note_unawaited(conn);
                    return;
                }
                Err(errno) => {
                    self.broken(conn, errno, true);
                    return;
                }
            }
        }
    }

    /// A closed loop's connection that has sent all it had waits for an answer, and not for the end of
    /// its send. Other loops do: only then is there room for what is due, or for what waits for room.
    #[inline]
    fn note_unawaited(&mut self, conn: u32) {
        let connection = &mut self.connections[conn as usize];
        if connection.sending == Sending::Own
            && connection.phase == Phase::Open
            && self.schedule.is_none()
            && !self.room.is_limited_in_flight()
            && connection.wire.poll_transmit(&self.shared) == Transmit::Idle
        {
            connection.sending = Sending::Unawaited;
            self.unawaited += 1;
        }
    }

    /// Fails what is older than the total deadline. Its connection is not used again, but
    /// where its wire can do without the answer.
    fn check_deadlines(&mut self, now: u64) {
        self.deadlines.look(now);
        for conn in 0..self.connections.len() as u32 {
            let connection = &self.connections[conn as usize];
            match connection.phase {
                Phase::Connecting | Phase::Greeting => {
                    let age = now.saturating_sub(connection.connecting_since_ns);
                    if age > CONNECT_TIMEOUT_NS {
                        self.connections[conn as usize].wire.reset(&self.shared);
                        self.connecting -= 1;
                        self.io.close(conn);
                        self.could_not_connect(conn, Failure::TimeoutConnect, Errno::TIMEDOUT);
                    } else {
                        let since_ns = connection.connecting_since_ns;
                        self.deadlines
                            .watch_until(since_ns + CONNECT_TIMEOUT_NS + 1);
                    }
                }
                Phase::Open => {
                    if connection.in_flight > 0 {
                        self.fail_late(conn, now);
                    }
                    self.fail_unsent(conn, now);
                }
                Phase::Closed => {}
            }
        }
    }

    /// Closed loop: fails what a connection was granted, and has had no room for before its deadline: a
    /// peer that allows no streams, or no more of them. What waits for room is told when it has one.
    fn fail_unsent(&mut self, conn: u32, now: u64) {
        if self.room.is_limited_in_flight() || self.held_back(conn) {
            return;
        }
        let held = self.held();
        while self.may_issue()
            && let Some(grant) = self.connections[conn as usize].granted.get(held as usize)
        {
            if !self.deadlines.is_late(grant.due_ns, now) {
                self.deadlines.watch(grant.due_ns);
                return;
            }
            if grant.tries == 0 && self.budget == 0 {
                return;
            }
            self.fail_granted(conn, held, now);
        }
    }

    /// Fails a connection's requests that are past their deadline.
    fn fail_late(&mut self, conn: u32, now: u64) {
        let first = conn as usize * self.depth as usize;
        for slot in 0..self.depth {
            let at = &mut self.slots[first + slot as usize];
            if at.sent_ns == 0 {
                continue;
            }
            if !self.deadlines.is_late(at.due_ns, now) {
                self.deadlines.watch(at.due_ns);
                continue;
            }
            let sent_late_ns = u64::from(at.sent_late_ns);
            let by_client = self.deadlines.sent_too_late(sent_late_ns);
            self.counters.late_by_client += u64::from(by_client);
            let connection = &mut self.connections[conn as usize];
            let class = Class::Other(match connection.wire.is_flow_blocked(slot) {
                true => Failure::TimeoutFlow,
                false => Failure::TimeoutTotal,
            });
            if !connection.wire.cancel(slot) {
                // It did open, so there is no reason to open it later than at once.
                connection.answered = connection.answered.max(1);
                self.fail_and_lose(conn, Some(slot), class, Failure::Abandoned, now);
                return;
            }
            let done = at.take();
            keep(&mut self.samples, || done.sample(Some(class), now));
            connection.in_flight -= 1;
            let outcome = connection.wire.poll_outcome();
            self.advance(now);
            self.counters.failed[class.index()] += 1;
            self.counters.in_flight -= 1;
            self.grant(conn, 1, now);
            if outcome.is_some() {
                // Nothing was left in flight on a connection whose peer is going away.
                self.lose(conn, now, ABANDONED);
                return;
            }
            self.offer(conn);
        }
    }

    /// Adds the requests in flight, over the time since they last changed, to the area.
    #[inline]
    fn advance(&mut self, now: u64) {
        let span = now.saturating_sub(self.area_at_ns);
        if self.area_at_ns > 0 {
            self.counters.in_flight_area += u128::from(span) * u128::from(self.counters.in_flight);
            self.area_at_ns = now.max(self.area_at_ns);
        }
    }

    /// Gives the report away; `false` when that is not possible now.
    fn publish(&mut self, now: u64, zero_ns: u64, edge: Option<Edge>) -> bool {
        self.advance(now);
        if let Some(count) = &mut self.due_count
            && edge != Some(Edge::Drained)
        {
            let due = count.take_until(now.saturating_sub(zero_ns));
            self.counters.scheduled = self.counters.scheduled.max(due);
        }
        // Asserts the identity: what is not accounted for is the backlog, never negative.
        let backlog = self.counters.backlog();
        assert!(
            self.schedule.is_some() || backlog == self.counters.waiting_again,
            "requests were lost"
        );
        let span_ns = now.saturating_sub(self.published_ns).max(1);
        self.published_ns = now;
        let cpu_ns = self.io.cpu_ns();
        let polled_ns = self.counters.polled_ns - self.polled_at_publish_ns;
        let busy_ns = cpu_ns.saturating_sub(self.cpu_at_publish_ns + polled_ns);
        let busy = busy_ns as f64 / span_ns as f64;
        if self.plan.load.no_batching || !I::GATHERS {
            // Nothing ever gathers.
        } else if self.schedule.is_none() {
            let connections = self.connections.len() as u64;
            self.batching
                .adapt(&self.report, &self.counters, connections, busy);
        } else {
            self.batching.adapt_open(busy);
        }
        self.cpu_at_publish_ns = cpu_ns;
        self.polled_at_publish_ns = self.counters.polled_ns;
        self.report.to_ns = now;
        self.report.totals.clone_from(&self.counters);
        self.report.open_most = self.reach.most();
        self.report.open_area = self.reach.area(now);
        self.report.cpu_ns = cpu_ns;
        self.report.edge = edge;
        if edge.is_some() {
            self.publication.swap_at_edge(&mut self.report);
        } else if !self.publication.swap(&mut self.report) {
            return false;
        }
        self.report.from_ns = now;
        self.report.segment = self.setting.segment;
        true
    }
}

fn connect_class(errno: Errno) -> Failure {
    match errno {
        Errno::CONNREFUSED => Failure::NetRefused,
        Errno::HOSTUNREACH | Errno::NETUNREACH => Failure::NetUnreachable,
        Errno::TIMEDOUT => Failure::TimeoutConnect,
        Errno::CONNRESET => Failure::ResetConnect,
        Errno::MFILE | Errno::NFILE => Failure::LocalFd,
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => Failure::LocalPort,
        Errno::NOBUFS | Errno::NOMEM => Failure::LocalMemory,
        _ => Failure::NetOther,
    }
}

/// Keeps a request that has ended, where requests are kept.
#[inline]
fn keep(samples: &mut Option<Sink>, sample: impl FnOnce() -> Sample) {
    if let Some(samples) = samples {
        samples.push(sample());
    }
}

/// An answer as a sample.
#[inline]
fn of_answer(done: &Slot, failed: Option<Class>, answer: &Answer, now: u64) -> Sample {
    let mut sample = done.sample(failed, now);
    sample.status = answer.status;
    sample.bytes = u32::try_from(answer.wire_bytes).unwrap_or(u32::MAX);
    if sample.first_byte_ns == 0 {
        sample.first_byte_ns = now;
    }
    sample
}

/// What becomes of the requests behind an answer that ends its connection.
fn behind(answer: &Answer) -> Left {
    match answer.is_last {
        true => Left::Unprocessed,
        false => ABANDONED,
    }
}

/// Counts an answer, in time or late, and keeps it.
#[inline]
fn take_answer(
    (counters, report, samples): (&mut Counters, &mut Report, &mut Option<Sink>),
    (deadlines, turn): (&Deadlines, &Turn),
    timed_until_ns: u64,
    (done, answer): (&Slot, &Answer),
    now: u64,
) {
    let failed = match deadlines.is_late(done.due_ns, now) {
        true => Some(count_late(counters, deadlines, turn, done, now)),
        false => {
            let report = (done.due_ns <= timed_until_ns).then_some(report);
            count_answer(counters, report, done, answer, now)
        }
    };
    keep(samples, || of_answer(done, failed, answer, now));
}

/// Counts an answer that came after its deadline: whatever it says, its request timed out.
#[cold]
fn count_late(
    counters: &mut Counters,
    deadlines: &Deadlines,
    turn: &Turn,
    slot: &Slot,
    now: u64,
) -> Class {
    let class = Class::Other(Failure::TimeoutTotal);
    counters.in_flight -= 1;
    counters.failed[class.index()] += 1;
    let own_ns = turn.unread_for_ns(now) + u64::from(slot.sent_late_ns);
    counters.late_by_client += u64::from(deadlines.own_doing(slot.due_ns, now, own_ns));
    class
}

/// Counts an answer: a good one with its latencies, another by its status. Gives the class of
/// what is wrong with it.
#[inline]
fn count_answer(
    counters: &mut Counters,
    report: Option<&mut Report>,
    slot: &Slot,
    answer: &Answer,
    now: u64,
) -> Option<Class> {
    counters.in_flight -= 1;
    if answer.status != Answer::NO_STATUS {
        let status = usize::from(answer.status);
        let place = if status < counters.statuses.len() {
            status
        } else {
            0
        };
        counters.statuses[place] += 1;
    }
    let class = failure_of(answer);
    match class {
        Some(class) => counters.failed[class.index()] += 1,
        None => {
            counters.answered += 1;
            counters.body_bytes += answer.body_bytes;
            counters.decoded_bytes += answer.decoded_bytes;
            counters.messages += answer.call.map_or(0, |call| u64::from(call.messages));
            let first_byte_ns = if slot.first_byte_ns == 0 {
                now
            } else {
                slot.first_byte_ns
            };
            if let Some(report) = report {
                report.latency.record(now - slot.due_ns);
                report.service.record(now - slot.sent_ns);
                report.first_byte.record(first_byte_ns - slot.sent_ns);
            }
        }
    }
    class
}

/// What is wrong with an answer that is whole.
#[inline]
fn failure_of(answer: &Answer) -> Option<Class> {
    if let Some(error) = answer.call.and_then(|call| call.error) {
        return Some(Class::Wire(error));
    }
    let failure = match answer.status {
        Answer::NO_STATUS | 200..=399 => return None,
        400..=499 => Failure::Status4xx,
        500..=599 => Failure::Status5xx,
        _ => Failure::StatusOther,
    };
    Some(Class::Other(failure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_could_not_be_made_has_a_class_of_its_reason() {
        for (errno, class) in [
            (Errno::CONNREFUSED, "net.refused"),
            (Errno::HOSTUNREACH, "net.unreachable"),
            (Errno::NETUNREACH, "net.unreachable"),
            (Errno::TIMEDOUT, "timeout.connect"),
            (Errno::CONNRESET, "net.reset.connect"),
            (Errno::MFILE, "local.fd"),
            (Errno::NFILE, "local.fd"),
            (Errno::ADDRNOTAVAIL, "local.port"),
            (Errno::ADDRINUSE, "local.port"),
            (Errno::NOBUFS, "local.memory"),
            (Errno::NOMEM, "local.memory"),
            (Errno::PERM, "net.other"),
        ] {
            let index = Class::Other(connect_class(errno)).index();
            assert_eq!(Class::name_at(index), class);
        }
    }
}
