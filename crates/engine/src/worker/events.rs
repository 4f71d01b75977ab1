//! What events mean: bytes are fed to wires, and what wires make of them is counted.

use std::sync::atomic::Ordering;

use wallfinder_sys::allocator;
use wallfinder_sys::io::{Event, Io, Span};
use wallfinder_wire::{Answer, Outcome, Wire, WireError};

use super::connection::{Phase, Sending};
use super::dialling::BACKOFF_FIRST_NS;
use super::ledger::Failing;
use super::lifecycle::Left;
use super::state::Worker;
use crate::counters::Class;
use crate::mix::After;

/// Whether a connection is still there after an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Afterwards {
    GoesOn,
    Lost,
}

/// What one read brought: answers that come at once count as one, with the time of the slowest.
#[derive(Debug, Default)]
struct Brought {
    answers: u64,
    slowest_ns: u64,
}

impl<W: Wire, I: Io> Worker<W, I> {
    pub(super) fn handle_events(&mut self) {
        while let Some(event) = self.io.next_event() {
            self.ledger.counters.events += 1;
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
        let _permit = self.allocates.then(allocator::permit);
        let now = self.io.now_ns();
        self.ledger.turn.reads(now);
        self.ledger.advance(now);
        self.ledger.counters.bytes_in += span.len() as u64;
        let mut brought = Brought::default();
        let mut read = 0;
        while read < span.len() {
            let wire = &mut self.connections[conn as usize].wire;
            let bytes = &self.io.bytes(span)[read..];
            let taken = wire.handle_bytes(&mut self.shared, bytes);
            read += taken;
            let mut told = false;
            while let Some(outcome) = self.connection(conn).wire.poll_outcome() {
                told = true;
                if self.outcome(conn, outcome, &mut brought, now) == Afterwards::Lost {
                    return;
                }
            }
            assert!(
                taken > 0 || told || read == span.len(),
                "a wire must take or tell"
            );
        }
        if brought.answers > 0 {
            self.batching.bring(brought.answers, brought.slowest_ns);
        }
        let connection = &mut self.connections[conn as usize];
        while let Some(slot) = connection.wire.poll_begun() {
            self.ledger.begins(conn, slot, now);
        }
        if connection.phase == Phase::Greeting {
            self.greet(conn);
        }
        self.offer(conn);
    }

    #[inline]
    fn outcome(
        &mut self,
        conn: u32,
        outcome: Outcome,
        brought: &mut Brought,
        now: u64,
    ) -> Afterwards {
        match outcome {
            Outcome::Answered(answer) => {
                let sent_for_ns = self.answered(conn, &answer, now);
                brought.answers += 1;
                brought.slowest_ns = brought.slowest_ns.max(sent_for_ns);
                if answer.reusable {
                    return Afterwards::GoesOn;
                }
                self.peer_ends = true;
                self.lose(conn, now, behind(&answer));
                Afterwards::Lost
            }
            Outcome::Failed { slot, error } => {
                self.failed_alone(conn, slot, error, now);
                Afterwards::GoesOn
            }
            Outcome::Over => {
                self.lose(conn, now, Left::ABANDONED);
                Afterwards::Lost
            }
            Outcome::Broken { slot, error } => {
                // It speaks another protocol, and will the next time. One that has answered does not: what stands
                // before it may have refused a connection.
                if error == WireError::H2Preface && self.ledger.counters.answered == 0 {
                    self.end.speaks_otherwise = true;
                    self.signals.abort.store(true, Ordering::Relaxed);
                    self.signals.stop.store(true, Ordering::Relaxed);
                }
                self.say_last(conn);
                self.fail_and_lose(conn, slot, Class::Wire(error), now);
                Afterwards::Lost
            }
        }
    }

    /// Counts an answer, and lets the next request start when it may; gives how long ago the answered one was sent.
    #[inline]
    fn answered(&mut self, conn: u32, answer: &Answer, now: u64) -> u64 {
        let (sent_for_ns, is_well) = self.ledger.answered(conn, answer, now);
        let after = self.script.as_mut().map_or(After::Begins, |script| {
            let flows = self.ledger.report.flows.as_mut_slice();
            // As with requests: of those that end later, the slow ones would weigh too much.
            let flows = (!self.admission.is_closed()).then_some(flows);
            script.answered(conn, (is_well, answer.redirects), now, flows)
        });
        self.connections[conn as usize].after_answer(now);
        let (goes_on, think_ns) = match after {
            After::Begins => (!self.admission.is_open(), 0),
            After::Continues { think_ns } => (true, think_ns),
        };
        if goes_on {
            self.grant_after(self.admission.think_ns + think_ns, conn, now);
        }
        sent_for_ns
    }

    /// The next request may start after so long a pause.
    #[inline(always)]
    pub(super) fn grant_after(&mut self, pause_ns: u64, conn: u32, now: u64) {
        match pause_ns {
            0 => self.connections[conn as usize].grant(1, now),
            pause_ns => self.admission.pause(conn, now + pause_ns, None),
        }
    }

    /// A request failed, and its connection goes on without it.
    #[cold]
    fn failed_alone(&mut self, conn: u32, slot: u32, error: WireError, now: u64) {
        // A peer that refuses at once is not asked again at once.
        let refused = error != WireError::H2Unprocessed;
        let pause_ns = if refused { BACKOFF_FIRST_NS } else { 0 };
        if error.is_unprocessed() && self.send_again(conn, slot, pause_ns, now) {
            return;
        }
        let failing = Failing::InFlight { conn, slot };
        self.ledger.fail(failing, Class::Wire(error), now);
        let pause_ns = self.admission.think_ns.max(BACKOFF_FIRST_NS);
        self.grant_after_failure(conn, pause_ns, now);
    }

    /// A request that its peer did not process is sent again after a pause, with its intended start; `false` where
    /// nothing is sent any more, or it was sent too often.
    pub(super) fn send_again(&mut self, conn: u32, slot: u32, pause_ns: u64, now: u64) -> bool {
        if self.admission.is_closed() {
            return false;
        }
        let Some(grant) = self.ledger.take_back(conn, slot, now) else {
            return false;
        };
        if self.admission.is_open() && !self.holds_session(conn) {
            self.admission.resend(now + pause_ns, grant);
        } else if pause_ns > 0 {
            self.admission.pause(conn, now + pause_ns, Some(grant));
        } else {
            let held = self.admission.held();
            self.connection(conn).grant_again(grant, held);
        }
        true
    }

    fn sent(&mut self, conn: u32, count: usize) {
        let connection = &mut self.connections[conn as usize];
        let sending = std::mem::take(&mut connection.sending);
        self.unawaited -= u32::from(sending == Sending::Unawaited);
        if sending == Sending::Block {
            connection.wire.handle_sent(&self.shared, count);
        }
        self.ledger.counters.bytes_out += count as u64;
        if connection.phase == Phase::Greeting {
            self.greet(conn);
        }
        self.offer(conn);
    }

    /// The peer has finished writing.
    fn ended(&mut self, conn: u32) {
        let now = self.io.now_ns();
        self.ledger.turn.reads(now);
        let connection = &mut self.connections[conn as usize];
        connection.wire.handle_eof(&mut self.shared);
        match connection.wire.poll_outcome() {
            Some(Outcome::Answered(answer)) => {
                self.answered(conn, &answer, now);
                self.peer_ends = true;
                self.lose(conn, now, behind(&answer));
            }
            Some(Outcome::Broken { slot, error }) => {
                self.fail_and_lose(conn, slot, Class::Wire(error), now);
            }
            Some(Outcome::Failed { slot, error }) => {
                self.fail_and_lose(conn, Some(slot), Class::Wire(error), now);
            }
            Some(Outcome::Over) | None => self.closed_by_peer(conn, now),
        }
    }

    /// Pauses that are over.
    #[inline]
    pub(super) fn end_pauses(&mut self, now: u64) {
        while let Some(pause) = self.admission.end_pause(now) {
            let held = self.admission.held();
            match pause.again {
                None => self.connection(pause.conn).grant(1, pause.until_ns),
                Some(again) => self.connection(pause.conn).grant_again(again, held),
            }
            self.offer(pause.conn);
        }
    }
}

/// What becomes of the requests behind an answer that ends its connection.
fn behind(answer: &Answer) -> Left {
    match answer.is_last {
        true => Left::Unprocessed,
        false => Left::ABANDONED,
    }
}
