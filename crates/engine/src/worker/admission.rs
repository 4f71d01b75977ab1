//! What may be sent now: the schedule of an open loop, the count of a closed one, pauses, and how much may be in
//! flight.
//!
//! What this is not: it sends nothing and knows no connection's state. Of connections it knows numbers: which stand
//! in line for room, and which a lever holds back.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use wallfinder_model::Arrival;
use wallfinder_model::drive::Clients;

use super::grant::Grant;
use super::line::Line;
use crate::in_flight::Room;
use crate::mix::logged;
use crate::plan::WorkerPlan;
use crate::schedule::Schedule;

/// A pause before a request of a closed loop, or a step of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pause {
    pub(super) until_ns: u64,
    pub(super) conn: u32,
    /// The request that waits for it, where that was sent before; else a new one is meant to start then.
    pub(super) again: Option<Grant>,
    /// Its place among those that end at one instant.
    nth: u64,
}

/// The greatest ends first.
impl Ord for Pause {
    fn cmp(&self, other: &Pause) -> Ordering {
        let end = |pause: &Pause| (pause.until_ns, pause.nth);
        end(other).cmp(&end(self))
    }
}

impl PartialOrd for Pause {
    fn partial_cmp(&self, other: &Pause) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug)]
pub(super) struct Admission {
    /// Open loop: what is to be sent next, and the same as far as it is counted.
    schedule: Option<Schedule>,
    counted: Option<Schedule>,
    /// Open loop: requests to be sent again, each not before an instant.
    resends: VecDeque<(u64, Grant)>,
    /// Open loop: connections that can send. Closed loop with a bound of what is in flight: those that wait for room.
    line: Line,
    /// Since when one has stood there.
    free_since_ns: u64,
    /// Open loop: arrivals so far, by the clock or as they were taken; and steps that followed them.
    arrived: u64,
    followed: u64,
    /// Closed loop: requests that may still be issued.
    budget: u64,
    /// Nothing arrives any more, whatever the schedule has.
    is_ended: bool,
    pauses: BinaryHeap<Pause>,
    paused: u64,
    /// Before each request of a closed loop.
    pub(super) think_ns: u64,
    pub(super) room: Room,
    connections: u32,
    depth: u32,
    /// Turns over which connections are held back, where some are.
    turn: u32,
    /// No more requests: the window is over.
    closed: bool,
}

impl Admission {
    pub(super) fn new(plan: &WorkerPlan) -> Admission {
        let load = &plan.load;
        let schedule = Schedule::new(
            &load.arrival,
            plan.turns.clone(),
            plan.seed,
            plan.requests_from_the_start().unwrap_or(u64::MAX),
            logged(plan.mix.as_ref()),
        );
        let depth = load.in_flight_per_connection;
        let slots = plan.connections as usize * depth as usize;
        let of_open = if schedule.is_some() { slots } else { 0 };
        Admission {
            counted: schedule.clone(),
            schedule,
            resends: VecDeque::with_capacity(of_open),
            line: Line::new(plan.connections as usize),
            free_since_ns: 0,
            arrived: 0,
            followed: 0,
            budget: plan.requests_from_the_start().unwrap_or(u64::MAX),
            is_ended: false,
            pauses: BinaryHeap::with_capacity(slots),
            paused: 0,
            think_ns: think_ns(&load.arrival),
            room: Room::of_worker(
                load,
                (plan.workers, plan.worker),
                plan.more,
                1.0,
                Clients::All,
            ),
            connections: plan.connections,
            depth,
            turn: 0,
            closed: false,
        }
    }

    /// Whether requests are meant to start by a schedule, and not when answers make room.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.schedule.is_some()
    }

    /// No more requests.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// When the next request of an open loop is to be sent, from the schedule's zero.
    #[inline]
    pub(super) fn next_intended_ns(&self) -> Option<u64> {
        self.schedule.as_ref()?.next_intended_ns()
    }

    /// Takes the next request of the schedule; gives how many were scheduled in all.
    #[inline]
    pub(super) fn take_intended(&mut self) -> u64 {
        if let Some(schedule) = &mut self.schedule {
            schedule.take();
            self.arrived = schedule.taken().max(self.arrived);
        }
        self.arrived + self.followed
    }

    /// How many requests of an open loop were to be sent in so long, steps of sessions among them; 0 in a closed one.
    pub(super) fn count_intended(&mut self, elapsed_ns: u64) -> u64 {
        if let Some(counted) = &mut self.counted {
            self.arrived = counted.take_until(elapsed_ns).max(self.arrived);
        }
        self.arrived + self.followed
    }

    /// A request is sent that was granted, or it is given up.
    #[inline]
    pub(super) fn count_granted(&mut self) {
        match self.is_open() {
            true => self.followed += 1,
            false => self.budget -= 1,
        }
    }

    /// A load that is counted from now on: so many more, of which some are under way in a closed loop.
    pub(super) fn count_from(&mut self, requests: u64, under_way: u64, elapsed_ns: u64) {
        self.budget = requests.saturating_sub(under_way);
        self.count_intended(elapsed_ns);
        if self.is_ended {
            return;
        }
        let limit = self.arrived.saturating_add(requests);
        for schedule in self.schedule.iter_mut().chain(&mut self.counted) {
            schedule.set_limit(limit);
        }
    }

    /// Open loop: there is nothing more to send, so nothing arrives any more.
    pub(super) fn end_arrivals(&mut self) {
        if std::mem::replace(&mut self.is_ended, true) {
            return;
        }
        let taken = self.schedule.as_ref().map_or(0, Schedule::taken);
        // What had arrived by the clock counts, and is not sent.
        if let Some(schedule) = &mut self.schedule {
            schedule.set_limit(taken);
        }
        if let Some(counted) = &mut self.counted {
            counted.set_limit(taken.max(self.arrived));
        }
    }

    /// Whether a counted load has issued all that it may.
    pub(super) fn is_spent(&self) -> bool {
        match &self.schedule {
            Some(schedule) => schedule.next_intended_ns().is_none(),
            None => self.budget == 0,
        }
    }

    /// From now on as levers ask: so much room, of which what is held back goes around with `turn`, and a pause beside
    /// that of the load.
    pub(super) fn set(&mut self, room: Room, turn: u32, think_ns: u64) {
        self.room = room;
        self.turn = turn;
        self.think_ns = think_ns;
    }

    /// An open loop's schedule goes on at another pace.
    pub(super) fn set_pace(&mut self, elapsed_ns: u64, pace: f64) {
        for schedule in self.schedule.iter_mut().chain(&mut self.counted) {
            schedule.set_pace(elapsed_ns, pace);
        }
    }

    /// What is overdue stays unsent; gives how many those are.
    pub(super) fn skip_overdue(&mut self, elapsed_ns: u64) -> u64 {
        self.schedule.as_mut().map_or(0, |schedule| {
            let before = schedule.taken();
            schedule.take_until(elapsed_ns) - before
        })
    }

    /// Whether what was granted may be sent, as far as the load's count is concerned.
    #[inline]
    pub(super) fn may_issue(&self, waiting_again: u64) -> bool {
        (self.budget > 0 || waiting_again > 0 || self.is_open()) && !self.closed
    }

    /// Whether the load's count lets this one be sent: one that was sent before is counted already.
    #[inline]
    pub(super) fn lets(&self, grant: Grant) -> bool {
        grant.tries > 0 || self.budget > 0 || self.is_open()
    }

    /// Whether one more request may be in flight, as far as their bound is concerned.
    #[inline]
    pub(super) fn has_room(&self, in_flight: u64) -> bool {
        in_flight < self.room.in_flight_max
    }

    /// Whether a lever holds this connection back. Which ones are held goes around, so that no thread of a server
    /// is always spared.
    #[inline]
    pub(super) fn holds_back(&self, conn: u32) -> bool {
        let all = self.connections;
        self.room.connections < all && (conn + self.turn) % all >= self.room.connections
    }

    /// Of what a connection was granted, so much is held back by a lever: the oldest.
    #[inline]
    pub(super) fn held(&self) -> u32 {
        self.depth - self.room.depth
    }

    /// A connection stands in line, if it does not already.
    #[inline]
    pub(super) fn line_up(&mut self, conn: u32, now: u64) {
        if self.line.is_empty() {
            self.free_since_ns = now;
        }
        self.line.join(conn);
    }

    /// A connection that was taken out of the line could have stayed in it, for it can send more.
    #[inline]
    pub(super) fn put_back(&mut self, conn: u32) {
        self.line.join(conn);
    }

    /// Since when a connection has stood in line; stands, too, when it has just been taken out.
    #[inline]
    pub(super) fn free_since_ns(&self) -> u64 {
        self.free_since_ns
    }

    /// The connection that has stood in line the longest.
    #[inline]
    pub(super) fn next_in_line(&mut self) -> Option<u32> {
        self.line.pop()
    }

    /// Whether a connection stands in line, and one more request may be in flight.
    #[inline]
    pub(super) fn could_send(&self, in_flight: u64) -> bool {
        !self.line.is_empty() && self.has_room(in_flight)
    }

    /// Open loop: a request is to be sent again, not before an instant.
    pub(super) fn resend(&mut self, not_before_ns: u64, grant: Grant) {
        self.resends.push_back((not_before_ns, grant));
    }

    /// The first of those that are to be sent again.
    #[inline]
    pub(super) fn first_resend(&self) -> Option<(u64, Grant)> {
        self.resends.front().copied()
    }

    pub(super) fn take_resend(&mut self) {
        self.resends.pop_front();
    }

    /// When the first of them may be sent.
    #[inline]
    pub(super) fn next_resend_ns(&self) -> Option<u64> {
        self.resends
            .front()
            .map(|(not_before_ns, _)| *not_before_ns)
    }

    /// The earliest intended start of them.
    pub(super) fn oldest_resend_ns(&self) -> Option<u64> {
        self.resends
            .iter()
            .map(|(_, grant)| grant.intended_ns)
            .min()
    }

    /// A connection has leave for a request when a pause is over.
    #[inline]
    pub(super) fn pause(&mut self, conn: u32, until_ns: u64, again: Option<Grant>) {
        self.paused += 1;
        self.pauses.push(Pause {
            until_ns,
            conn,
            again,
            nth: self.paused,
        });
    }

    /// When the next pause ends.
    #[inline]
    pub(super) fn next_pause_ns(&self) -> Option<u64> {
        self.pauses.peek().map(|pause| pause.until_ns)
    }

    /// The next pause that is over.
    #[inline]
    pub(super) fn end_pause(&mut self, now: u64) -> Option<Pause> {
        match self.next_pause_ns() {
            Some(until_ns) if until_ns <= now => self.pauses.pop(),
            _ => None,
        }
    }
}

/// The pause before each request of a closed loop.
pub(super) fn think_ns(arrival: &Arrival) -> u64 {
    match arrival {
        Arrival::Closed { think } => think.0,
        _ => 0,
    }
}
