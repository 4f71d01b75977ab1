//! Deadlines that pass: of requests in flight, of requests that were never sent, and of connection attempts.

use wallfinder_model::Failure;
use wallfinder_sys::io::Io;
use wallfinder_wire::Wire;

use super::connection::Phase;
use super::grant::Grant;
use super::ledger::Failing;
use super::lifecycle::{CONNECT_TIMEOUT_NS, Left};
use super::state::Worker;
use crate::counters::Class;

impl<W: Wire, I: Io> Worker<W, I> {
    /// Looks for what is past its deadline, where anything can be.
    #[inline]
    pub(super) fn expire(&mut self, now: u64) {
        if now >= self.ledger.deadlines.next_ns() {
            self.expire_all(now);
        }
    }

    /// Fails what is older than the total deadline. Its connection is not used again, but
    /// where its wire can do without the answer.
    fn expire_all(&mut self, now: u64) {
        self.ledger.deadlines.look(now);
        for conn in 0..self.plan.connections {
            match self.connection(conn).phase {
                Phase::Connecting | Phase::Greeting => self.expire_attempt(conn, now),
                Phase::Open => {
                    self.expire_in_flight(conn, now);
                    self.expire_all_granted(conn, now);
                }
                Phase::Closed => {}
            }
        }
    }

    fn expire_attempt(&mut self, conn: u32, now: u64) {
        let since_ns = self.connection(conn).connecting_since_ns;
        if now.saturating_sub(since_ns) > CONNECT_TIMEOUT_NS {
            self.connect_timed_out(conn);
        } else {
            let late_ns = since_ns + CONNECT_TIMEOUT_NS + 1;
            self.ledger.deadlines.watch_until(late_ns);
        }
    }

    /// Fails a connection's requests that are past their deadline.
    fn expire_in_flight(&mut self, conn: u32, now: u64) {
        for slot in 0..self.plan.load.in_flight_per_connection {
            if !self.ledger.is_past_deadline(conn, slot, now) {
                continue;
            }
            let class = self.late(conn, slot);
            let connection = self.connection(conn);
            if !connection.wire.cancel(slot) {
                // It did open, so there is no reason to open it later than at once.
                connection.answered = connection.answered.max(1);
                self.expire_others_late(conn, slot, now);
                self.fail_and_lose(conn, Some(slot), class, now);
                return;
            }
            let outcome = connection.wire.poll_outcome();
            self.fail_in_flight(conn, slot, class, now);
            if outcome.is_some() {
                // Nothing was left in flight on a connection whose peer is going away.
                self.lose(conn, now, Left::ABANDONED);
                return;
            }
            self.offer(conn);
        }
    }

    /// A connection is lost with a request that is late: who is late behind it is so for the same reason, and was not
    /// abandoned.
    #[cold]
    fn expire_others_late(&mut self, conn: u32, first: u32, now: u64) {
        for slot in first + 1..self.plan.load.in_flight_per_connection {
            if self.ledger.is_past_deadline(conn, slot, now) {
                let class = self.late(conn, slot);
                self.fail_in_flight(conn, slot, class, now);
            }
        }
    }

    /// Notes whose lateness it was that a request passed its deadline, and says what it fails as.
    fn late(&mut self, conn: u32, slot: u32) -> Class {
        self.ledger.note_sent_late(conn, slot);
        Class::Other(match self.connection(conn).wire.is_flow_blocked(slot) {
            true => Failure::TimeoutFlow,
            false => Failure::TimeoutTotal,
        })
    }

    /// Closed loop, and steps of sessions: fails what a connection was granted, and has had no room for before its deadline: a
    /// peer that allows no streams, or no more of them. What waits for room in flight is told when it has some.
    fn expire_all_granted(&mut self, conn: u32, now: u64) {
        if self.admission.room.is_limited_in_flight() || self.admission.holds_back(conn) {
            return;
        }
        let held = self.admission.held();
        while self.admission.may_issue(self.ledger.counters.waiting_again)
            && let Some(grant) = self.connection(conn).granted.get(held as usize).copied()
        {
            if !self.ledger.deadlines.is_late(grant.intended_ns, now) {
                self.ledger.deadlines.watch(grant.intended_ns);
                return;
            }
            if !self.lets(conn, grant) {
                return;
            }
            self.expire_granted(conn, held, now);
        }
    }

    /// The oldest request that is not held back has waited too long for its turn to be sent. The next
    /// is meant to start now, or after its pause.
    #[cold]
    pub(super) fn expire_granted(&mut self, conn: u32, held: u32, now: u64) {
        let grant = self.connection(conn).take_granted(held);
        let kind = self.kind_of(grant, Some(conn));
        self.grant_after_failure(conn, 0, now);
        self.count_granted(grant);
        self.expire_unsent(grant, kind, now);
        // It is free for others, or has the next to send.
        self.offer(conn);
    }

    /// Open loop: a deadline passed before a connection was free, or before the worker looked.
    #[cold]
    pub(super) fn expire_undispatched(&mut self, grant: Grant, kind: Option<u16>, now: u64) {
        let could_send = self.admission.could_send(self.ledger.counters.in_flight);
        let able_since_ns = self.able_since_ns();
        let is_late = self
            .ledger
            .deadlines
            .is_late(grant.intended_ns, able_since_ns);
        let free_in_time = could_send && !is_late;
        self.ledger.counters.late_by_client += u64::from(free_in_time);
        self.expire_unsent(grant, kind, now);
    }

    /// A request's deadline passed before it was sent.
    pub(super) fn expire_unsent(&mut self, grant: Grant, kind: Option<u16>, now: u64) {
        let class = Class::Other(Failure::TimeoutTotal);
        self.ledger
            .fail(Failing::Unsent { grant, kind }, class, now);
    }
}
