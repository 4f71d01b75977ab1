//! Which request is sent on which connection, and when: dispatch for an open loop, flush for both.

use wallfinder_sys::io::Io;
use wallfinder_wire::Wire;
use wallfinder_wire::mix::Ask;

use super::connection::{Phase, Sending};
use super::grant::Grant;
use super::state::Worker;
use crate::mix::Script;

impl<W: Wire, I: Io> Worker<W, I> {
    /// Open loop: gives each request that is to start to the connection that has been free longest.
    pub(super) fn dispatch(&mut self, now: u64) {
        if !self.admission.is_open() {
            return;
        }
        self.ledger.advance(now);
        if self.admission.next_resend_ns().is_some() {
            self.dispatch_again(now);
        }
        while let Some(intended_ns) = self.admission.next_intended_ns() {
            let grant = Grant::new(self.zero_ns + intended_ns);
            if grant.intended_ns > now {
                return;
            }
            if self.ledger.deadlines.is_late(grant.intended_ns, now) {
                self.take_intended();
                let kind = self.kind_of(grant, None);
                self.skip_begins(1);
                self.expire_undispatched(grant, kind, now);
                continue;
            }
            let able_since_ns = self.able_since_ns();
            let Some(conn) = self.next_free() else {
                return;
            };
            self.take_intended();
            let sent_ns = self.io.now_ns();
            let mut sent_late_ns = 0;
            if able_since_ns <= grant.intended_ns {
                sent_late_ns = sent_ns - grant.intended_ns;
                self.ledger.report.lateness.record(sent_late_ns);
            }
            self.issue(conn, grant, sent_ns, sent_late_ns);
            self.offer_again(conn);
        }
    }

    /// Open loop: since when a connection has been free, and one more request could be in flight.
    #[inline]
    pub(super) fn able_since_ns(&self) -> u64 {
        let free_since_ns = self.admission.free_since_ns();
        free_since_ns.max(self.ledger.full_until_ns())
    }

    /// Open loop: a connection that was given a request may have room for more.
    #[inline]
    fn offer_again(&mut self, conn: u32) {
        if self.is_free(conn) {
            self.admission.put_back(conn);
        }
        self.dirty.join(conn);
    }

    /// Open loop: the same for requests that are sent again, which come first.
    #[cold]
    fn dispatch_again(&mut self, now: u64) {
        while let Some((at_ns, grant)) = self.admission.first_resend() {
            if self.ledger.deadlines.is_late(grant.intended_ns, now) {
                self.take_resend();
                let kind = self.kind_of(grant, None);
                self.expire_unsent(grant, kind, now);
                continue;
            }
            if at_ns > now {
                return;
            }
            let Some(conn) = self.next_free() else {
                return;
            };
            self.take_resend();
            self.issue(conn, grant, self.io.now_ns(), 0);
            self.offer_again(conn);
        }
    }

    /// Open loop: the connection that has been free longest, where one more request may be in flight.
    #[inline]
    fn next_free(&mut self) -> Option<u32> {
        if !self.admission.has_room(self.ledger.counters.in_flight) {
            return None;
        }
        while let Some(conn) = self.admission.next_in_line() {
            // Meanwhile it may have been lost, or its peer may be going away.
            if self.is_free(conn) {
                return Some(conn);
            }
        }
        None
    }

    /// Whether a connection could send one more request at once.
    #[inline]
    pub(super) fn can_send(&self, conn: u32) -> bool {
        let connection = &self.connections[conn as usize];
        connection.phase == Phase::Open
            && connection.sending == Sending::Nothing
            && connection.wire.room(&self.shared) > 0
    }

    /// Open loop: the same for a request that begins something: a session's connection is its own.
    #[inline]
    pub(super) fn is_free(&self, conn: u32) -> bool {
        self.can_send(conn) && !self.holds_session(conn)
    }

    /// Whether a session has this connection.
    #[inline]
    pub(super) fn holds_session(&self, conn: u32) -> bool {
        self.script
            .as_ref()
            .is_some_and(|script| script.holds(conn))
    }

    /// Whether there is a request for this grant: the load's count lets it be sent, and there is one to send.
    #[inline]
    pub(super) fn lets(&self, conn: u32, grant: Grant) -> bool {
        let has_next = |script: &Script| script.has_next(conn);
        self.admission.lets(grant) && (grant.tries > 0 || self.script.as_ref().is_none_or(has_next))
    }

    /// Which kind a grant's request is, that was sent before, or would be sent next: on any connection, or on this one.
    #[cold]
    pub(super) fn kind_of(&self, grant: Grant, conn: Option<u32>) -> Option<u16> {
        match grant.tries {
            0 => self.script.as_ref()?.kind_of_next(conn),
            _ => Some(grant.kind),
        }
    }

    /// Arrivals pass of which nothing is sent.
    pub(super) fn skip_begins(&mut self, count: u64) {
        if let Some(script) = &mut self.script {
            script.skip(count);
            if script.is_spent() {
                self.admission.end_arrivals();
            }
        }
    }

    #[inline]
    fn take_intended(&mut self) {
        self.ledger.counters.scheduled = self.admission.take_intended();
    }

    fn take_resend(&mut self) {
        self.admission.take_resend();
        self.ledger.counters.waiting_again -= 1;
    }

    #[inline]
    fn issue(&mut self, conn: u32, grant: Grant, sent_ns: u64, sent_late_ns: u64) {
        let ask = match &mut self.script {
            Some(script) if grant.tries == 0 => script.next(conn, grant.intended_ns),
            _ => Ask {
                kind: grant.kind,
                draw: grant.draw,
                is_fresh: false,
            },
        };
        if ask.is_fresh && self.script.as_ref().is_some_and(Script::is_spent) {
            self.admission.end_arrivals();
        }
        let wire = &mut self.connections[conn as usize].wire;
        let slot = wire.issue_one(&self.shared, ask);
        let place = (conn, slot);
        let Ask { kind, draw, .. } = ask;
        let grant = Grant {
            kind,
            draw,
            ..grant
        };
        self.ledger.issue(place, grant, sent_ns, sent_late_ns);
    }

    /// Closed loop: issues what was granted. Both: sends what was issued.
    pub(super) fn flush(&mut self) {
        // What is lost meanwhile has nothing to be sent before the next turn.
        for _ in 0..self.dirty.len() {
            if let Some(conn) = self.dirty.pop() {
                self.flush_one(conn);
            }
        }
        if self.admission.room.is_limited_in_flight() && !self.admission.is_open() {
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
        let held_back = self.admission.holds_back(conn);
        if held_back
            && self.peer_ends
            && connection.answered == 0
            && self.ledger.last_sent_ns(conn) == 0
        {
            self.put_to_rest(conn);
            return;
        }
        let waiting_again = self.ledger.counters.waiting_again;
        if granted > 0 && !held_back && self.admission.may_issue(waiting_again) {
            match self.admission.room.is_limited_in_flight() {
                false => self.issue_all_granted(conn),
                true if self.admission.is_open() => self.issue_step(conn),
                true => self.admission.line_up(conn, self.ledger.changed_ns()),
            }
        }
        self.transmit(conn);
    }

    /// Open loop with a bound of requests in flight: the next step of a session, once there is room for it.
    fn issue_step(&mut self, conn: u32) {
        if !self.admission.has_room(self.ledger.counters.in_flight) {
            self.dirty.join(conn);
        } else if self.can_send(conn) {
            self.issue_granted(conn, 0, 1);
        }
    }

    /// Closed loop, and steps of sessions: as many of the requests that a connection was granted as its wire has room for.
    #[inline]
    fn issue_all_granted(&mut self, conn: u32) {
        let held = self.admission.held();
        let connection = &self.connections[conn as usize];
        let room = connection.wire.room(&self.shared);
        let granted = connection.granted.len() as u32;
        self.issue_granted(conn, held, granted.saturating_sub(held).min(room));
        let granted = &self.connections[conn as usize].granted;
        if let Some(left) = granted.get(held as usize) {
            self.ledger.deadlines.watch(left.intended_ns);
        }
    }

    /// Closed loop: issues so many of the requests that a connection was granted, behind those that
    /// are held back.
    #[inline]
    fn issue_granted(&mut self, conn: u32, held: u32, count: u32) {
        let now = self.io.now_ns();
        self.ledger.advance(now);
        for _ in 0..count {
            let granted = &self.connections[conn as usize].granted;
            let next = *granted.get(held as usize).expect("it was granted");
            if !self.lets(conn, next) {
                return;
            }
            if self.ledger.deadlines.is_late(next.intended_ns, now) {
                self.expire_granted(conn, held, now);
                continue;
            }
            let grant = self.connection(conn).take_granted(held);
            self.count_granted(grant);
            self.issue(conn, grant, now, 0);
        }
    }

    /// A granted request is sent, or given up. It is scheduled with that, where it was not before.
    #[inline]
    pub(super) fn count_granted(&mut self, grant: Grant) {
        if grant.tries == 0 {
            self.ledger.counters.scheduled += 1;
            self.admission.count_granted();
        } else {
            self.ledger.counters.waiting_again -= 1;
        }
    }

    /// Closed loop with a bound of requests in flight: room that is free goes to those that have waited longest, one
    /// at a time.
    fn admit_waiting(&mut self) {
        while self.admission.has_room(self.ledger.counters.in_flight)
            && self.admission.may_issue(self.ledger.counters.waiting_again)
        {
            let Some(conn) = self.admission.next_in_line() else {
                return;
            };
            // One that cannot send now asks again as soon as it can.
            let may_send = self.can_send(conn);
            let first = self.connection(conn).granted.front().copied();
            let Some(grant) = first.filter(|grant| may_send && self.lets(conn, *grant)) else {
                continue;
            };
            let now = self.io.now_ns();
            if self.ledger.deadlines.is_late(grant.intended_ns, now) {
                // Its deadline passed before there was room.
                self.expire_granted(conn, 0, now);
            } else {
                self.issue_granted(conn, 0, 1);
                self.transmit(conn);
            }
            if !self.connection(conn).granted.is_empty() {
                self.admission.line_up(conn, self.ledger.changed_ns());
            }
        }
    }
}
