//! One engine thread: its connections, its loop, its histograms.
//!
//! ```text
//!   ┌─► publish ─► dispatch ─► flush ─► wait ─► events ─► timers ─┐
//!   └──────────────────────────────────────────────────────────────┘
//! ```
//!
//! *Publish* swaps the report, and follows levers. *Dispatch* gives requests of an open loop that are to start to free
//! connections. *Flush* issues what connections may issue and sends it. *Events* feed the wire and turn
//! outcomes into counts. *Timers* end pauses, back-offs and deadlines.
//!
//! ```text
//!   state ◄── this loop ─► publish ─► dispatch, flush ─► events ─► lifecycle, expiry
//!     │                                   │
//!     └─ ledger · admission · dialling · connection: what is in flight, what may be sent, what is opened when
//! ```
//!
//! One loop serves every schedule, wire and way of waiting. It shares nothing with other
//! workers, takes no lock on the way, reads no clock but that of its [`Io`], and allocates nothing once the
//! schedule has begun. The identity `scheduled = answered + failed + backlog + in flight` is asserted by
//! every publication.

mod admission;
mod connection;
mod dialling;
mod dispatch;
mod end;
mod events;
mod expiry;
mod grant;
mod ledger;
mod lifecycle;
mod line;
mod publish;
mod send;
mod state;
mod timers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wallfinder_model::drive::Edge;
use wallfinder_sys::io::{Io, Wait};
use wallfinder_sys::{Errno, allocator, process};
use wallfinder_wire::Wire;

use connection::{Connection, Phase};
use publish::PUBLISH_NS;
use state::SOCKETS_LOOKED_AT;
use timers::{Timer, Timers};

use crate::batching::Batching;
use crate::mix::Script;
use crate::slowdown::Slowdown;

#[cfg(test)]
pub(crate) use dialling::CONNECTING_MAX;
pub(crate) use end::{Shares, WorkerEnd};
pub(crate) use state::Worker;

/// Longest time to wait for answers after an interruption, however long the load would.
const DRAIN_INTERRUPTED_NS: u64 = 1_000_000_000;
/// A worker with a processor to itself does not sleep this close before a request is to be sent: a
/// sleep may end later than asked by more than that.
const POLL_BEFORE_NS: u64 = 200_000;
/// How often signals are looked at before the schedule begins, and while answers are waited for.
const SIGNALS_BEFORE_NS: u64 = 1_000_000;
const SIGNALS_AFTER_NS: u64 = 20_000_000;
/// So long connections stay open for who watches, at the most.
const LOOKED_AT_NS_MAX: u64 = 1_500_000_000;
/// How often it is asked whether that is done.
const LOOKED_AT_EVERY: Duration = Duration::from_micros(500);

impl<W: Wire, I: Io> Worker<W, I> {
    /// Runs the worker to its end. An error is the kernel's refusal to wait.
    pub(crate) fn run(mut self) -> Result<(WorkerEnd, W::Shared), Errno> {
        self.ledger.report.from_ns = self.io.now_ns();
        if !self.connect_all()? {
            return Ok((self.end, self.shared));
        }
        {
            let _promise = allocator::forbid();
            self.measure()?;
        }
        self.drain()?;
        self.ledger.finish();
        Ok((self.end, self.shared))
    }

    /// Tries every connection once, says so, and waits for the schedule's zero. `false`
    /// when the run is called off.
    fn connect_all(&mut self) -> Result<bool, Errno> {
        let mut said = false;
        loop {
            let now = self.io.now_ns();
            self.open_waiting(now);
            let all_tried = self.tried as usize == self.connections.len();
            if all_tried && !said {
                self.signals.ready.fetch_add(1, Ordering::Release);
                said = true;
            }
            if self.signals.abort.load(Ordering::Relaxed) {
                return Ok(false);
            }
            self.zero_ns = self.signals.zero_ns.load(Ordering::Acquire);
            if self.zero_ns > 0 && now >= self.zero_ns {
                return Ok(true);
            }
            let mut timers = Timers::NONE;
            timers.set(Timer::Signals, now + SIGNALS_BEFORE_NS);
            timers.set_if(Timer::Zero, (self.zero_ns > 0).then_some(self.zero_ns));
            self.wait_until(timers.nearest_ns())?;
            self.handle_events();
            self.dialling.end_pauses(self.io.now_ns());
        }
    }

    /// From the schedule's zero to the end of the window.
    fn measure(&mut self) -> Result<(), Errno> {
        self.begin();
        let open_ns = self.zero_ns + self.plan.load.warmup.0;
        let close_ns = open_ns + self.plan.load.stop.after.0;
        let mut now = self.io.now_ns();
        while now < open_ns && !self.is_stopped() {
            now = self.turn(now, open_ns)?;
        }
        self.open_window(now);
        while now < close_ns && !self.is_stopped() && !self.is_finished() {
            now = self.turn(now, close_ns)?;
        }
        self.close_window(now);
        Ok(())
    }

    /// One turn of the loop, of which nothing is later than the next edge of the window; gives when it ended.
    fn turn(&mut self, began_ns: u64, edge_ns: u64) -> Result<u64, Errno> {
        self.follow_and_publish(began_ns);
        self.dispatch(began_ns);
        self.flush();
        self.open_waiting(began_ns);
        self.slow_down();

        let until_ns = self.timers(edge_ns).nearest_ns();
        let done_before = self.done();
        self.wait_until(until_ns)?;
        self.handle_events();
        let mut now = self.io.now_ns();
        self.ledger.turn.ends(now);
        if until_ns <= began_ns && self.done() == done_before {
            self.ledger.counters.polled_ns += now - began_ns;
            process::give_way();
            now = self.io.now_ns();
        }

        self.end_pauses(now);
        self.dialling.end_pauses(now);
        self.expire(now);
        Ok(now)
    }

    /// What the worker has to do without any event, and when.
    #[inline]
    fn timers(&self, edge_ns: u64) -> Timers {
        let mut timers = Timers::NONE;
        timers.set(Timer::Edge, edge_ns);
        timers.set(Timer::Publish, self.publishing.at_ns + PUBLISH_NS);
        timers.set(Timer::Deadline, self.ledger.deadlines.next_ns());
        timers.set_if(Timer::Reconnect, self.dialling.next_ns());
        timers.set_if(Timer::ThinkTime, self.admission.next_pause_ns());
        if self.admission.could_send(self.ledger.counters.in_flight) {
            timers.set_if(Timer::Resend, self.admission.next_resend_ns());
            let intended_ns = self.admission.next_intended_ns();
            let margin_ns = if self.plan.polls { POLL_BEFORE_NS } else { 0 };
            let wake = |intended_ns: u64| self.zero_ns + intended_ns.saturating_sub(margin_ns);
            timers.set_if(Timer::IntendedStart, intended_ns.map(wake));
        }
        timers
    }

    /// Waits for events, for as long as nothing else needs the worker.
    fn wait_until(&mut self, until_ns: u64) -> Result<(), Errno> {
        let counters = &mut self.ledger.counters;
        counters.waits += 1;
        let (batch, batch_wait_us) = self.batching.beside(self.unawaited);
        let kept_back_ns = u64::from(batch_wait_us) * 1000;
        counters.batching_waits += u64::from(batch_wait_us > 0);
        counters.batching_ns += kept_back_ns;
        let now = self.io.now_ns();
        self.ledger.turn.asks(now, kept_back_ns);
        self.io.wait(Wait {
            timeout_ns: Some(until_ns.saturating_sub(now)),
            batch,
            batch_wait_us,
        })
    }

    /// Changes with each request that is sent and each event.
    fn done(&self) -> u64 {
        self.ledger.counters.issued + self.ledger.counters.events
    }

    fn slow_down(&mut self) {
        if let Some(slowdown) = &mut self.following.slowdown {
            self.ledger.counters.spun_ns += slowdown.spin(|| self.io.cpu_ns());
        }
    }

    fn is_stopped(&self) -> bool {
        self.signals.stop.load(Ordering::Relaxed)
    }

    /// Whether a load that ends by itself has had all of its answers: it was counted, or its rows are used once.
    fn is_finished(&self) -> bool {
        let counters = &self.ledger.counters;
        if counters.in_flight + counters.waiting_again > 0 {
            return false;
        }
        let script = self.script.as_ref();
        let under_way = script.map_or(0, Script::under_way);
        let is_spent = self.admission.is_spent();
        match self.admission.is_open() {
            true => is_spent && under_way == 0,
            false => is_spent || (script.is_some_and(Script::is_spent) && under_way == 0),
        }
    }

    /// The schedule begins.
    fn begin(&mut self) {
        let zero_ns = self.zero_ns;
        self.ledger.begin(zero_ns);
        self.publishing.at_ns = zero_ns;
        let cpu_ns = self.io.cpu_ns();
        self.publishing.cpu_ns = cpu_ns;
        self.following.slowdown = Slowdown::to(self.plan.speed, None, cpu_ns);
        self.reach.begin(zero_ns);
        for conn in 0..self.plan.connections {
            let connection = self.connection(conn);
            connection.start_granted_at(zero_ns);
            if connection.phase == Phase::Open {
                connection.last_done_ns = zero_ns;
                self.offer(conn);
            }
        }
    }

    /// The warm-up is over. After one a counted load is counted from here: its requests are those whose
    /// answers fall into the window, and in an open loop those that are to start in it.
    fn open_window(&mut self, now: u64) {
        if let Some(requests) = self.plan.requests_after_warmup() {
            let counters = &self.ledger.counters;
            let under_way = counters.in_flight + counters.waiting_again;
            let elapsed_ns = now.saturating_sub(self.zero_ns);
            self.admission.count_from(requests, under_way, elapsed_ns);
        }
        self.reach.open_window();
        for connection in &mut self.connections {
            connection.window_answers = 0;
        }
        self.publish(now, Some(Edge::Open));
        self.ledger.open(self.zero_ns);
    }

    /// The window is over. What is to start by now is sent, where a connection is free: only what had to wait is
    /// told.
    fn close_window(&mut self, now: u64) {
        self.dispatch(now);
        self.flush();
        self.admission.close();
        let warmup_ns = self.plan.load.warmup.0;
        self.ledger.close(now.saturating_sub(warmup_ns));
        let answers = |connection: &Connection<W>| connection.window_answers;
        let all = self.connections.iter().map(answers);
        self.end.shares = (self.plan.spare == 0).then(|| Shares::of(all.clone()));
        self.end.answering = all.filter(|answers| *answers > 0).count() as u64;
        self.publish(now, Some(Edge::Close));
        self.batching = Batching::NONE;
        let opening = self.connections.iter().filter(|c| c.is_opening());
        let oldest_attempt_ns = opening.map(|c| c.connecting_since_ns).min();
        self.end.outages = self.reach.end(oldest_attempt_ns, now);
    }

    /// Lets what is in flight end, so that its latency is known, and the next load finds an idle server.
    /// No request begins any more, and deadlines hold.
    fn drain(&mut self) -> Result<(), Errno> {
        let began_ns = self.io.now_ns();
        self.look_at_sockets();
        let mut now = self.io.now_ns();
        while self.ledger.counters.in_flight > 0 && !self.signals.abort.load(Ordering::Relaxed) {
            let longest_ns = match self.is_stopped() {
                true => DRAIN_INTERRUPTED_NS.min(self.plan.load.drain.0),
                false => self.plan.load.drain.0,
            };
            let until_ns = began_ns.saturating_add(longest_ns);
            if now >= until_ns {
                break;
            }
            let mut timers = Timers::NONE;
            timers.set(Timer::DrainEnd, until_ns);
            timers.set(Timer::Deadline, self.ledger.deadlines.next_ns());
            timers.set(Timer::Signals, now + SIGNALS_AFTER_NS);
            self.wait_until(timers.nearest_ns())?;
            self.handle_events();
            // The rest of requests that have begun, where their peer lets them go on only now, and what answers need
            // to go on: nothing is issued any more.
            self.flush();
            now = self.io.now_ns();
            self.ledger.turn.ends(now);
            self.expire(now);
        }
        self.end.drained_ns = now - began_ns;
        self.end.oldest_unanswered_ns = self.oldest_age_ns(now);
        self.publish(now, Some(Edge::Drained));
        self.stay_open_while_looked_at();
        for conn in 0..self.plan.connections {
            if self.connection(conn).phase != Phase::Closed {
                self.io.close(conn);
            }
        }
        Ok(())
    }

    /// Connections stay open until who watches has looked at both ends of them, within a bound.
    fn stay_open_while_looked_at(&self) {
        let is_set = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let since_ns = self.io.now_ns();
        while !is_set(&self.signals.may_close) && !is_set(&self.signals.abort) {
            if self.io.now_ns() - since_ns > LOOKED_AT_NS_MAX {
                return;
            }
            std::thread::sleep(LOOKED_AT_EVERY);
        }
    }

    fn look_at_sockets(&mut self) {
        let infos = (0..self.plan.connections).filter_map(|conn| self.io.tcp_info(conn));
        self.end.sockets.extend(infos.take(SOCKETS_LOOKED_AT));
    }

    /// Age of the oldest request that has no answer: in flight, or meant to start in an open loop and never sent.
    fn oldest_age_ns(&self, now: u64) -> u64 {
        let counters = &self.ledger.counters;
        let waits = counters.backlog() > counters.waiting_again;
        let next = self.admission.next_intended_ns().filter(|_| waits);
        let oldest = [
            self.ledger.oldest_intended_ns(),
            self.admission.oldest_resend_ns(),
            next.map(|intended_ns| self.zero_ns + intended_ns),
        ];
        let oldest = oldest.into_iter().flatten().min();
        oldest.map_or(0, |intended_ns| now.saturating_sub(intended_ns))
    }
}
