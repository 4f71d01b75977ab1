//! Connections from their opening to their end: connect, greet, open, lose; then back off, rest, or connect again.

use wallfinder_model::Failure;
use wallfinder_sys::io::Io;
use wallfinder_sys::{Errno, allocator};
use wallfinder_wire::{Wire, WireError};

use super::connection::{Phase, Sending};
use super::ledger::Failing;
use super::state::Worker;
use crate::counters::Class;
use crate::mix::After;

/// Longest time for a connection to open.
pub(super) const CONNECT_TIMEOUT_NS: u64 = 5_000_000_000;
/// A connection that was idle for this long and is lost at its next request was lost
/// while idle.
const IDLE_RACE_NS: u64 = 1_000_000;

/// What becomes of the requests in flight on a connection that ends.
#[derive(Debug, Clone, Copy)]
pub(super) enum Left {
    /// They fail with this class.
    Failed(Class),
    /// Their peer said that it did not process them: they are sent again.
    Unprocessed,
}

impl Left {
    pub(super) const ABANDONED: Left = Left::Failed(Class::Other(Failure::Abandoned));
}

impl<W: Wire, I: Io> Worker<W, I> {
    /// Begins to open connections that wait for it.
    pub(super) fn open_waiting(&mut self, now: u64) {
        while !self.admission.is_closed()
            && let Some(conn) = self.dialling.pop()
        {
            // Opening a connection is the kernel's and the allocator's business.
            let _permit = allocator::permit();
            match self.io.connect(conn) {
                Ok(()) => {
                    self.dialling.begins();
                    let connection = self.connection(conn);
                    connection.phase = Phase::Connecting;
                    connection.answered = 0;
                    connection.connecting_since_ns = now;
                    let late_ns = now + CONNECT_TIMEOUT_NS + 1;
                    self.ledger.deadlines.watch_until(late_ns);
                }
                Err(errno) => self.could_not_connect(conn, connect_class(errno), errno),
            }
        }
    }

    pub(super) fn connected(&mut self, conn: u32) {
        self.connection(conn).phase = Phase::Greeting;
        self.greet(conn);
    }

    /// Sends what comes before the first request. When all of that is done the connection is
    /// open.
    pub(super) fn greet(&mut self, conn: u32) {
        let _permit = allocator::permit();
        if !self.connection(conn).wire.is_ready() {
            self.transmit(conn);
            return;
        }
        let now = self.io.now_ns();
        self.ledger.counters.connects += 1;
        self.dialling.ends();
        let since_ns = self.connection(conn).connecting_since_ns;
        self.reach.opened(since_ns, now);
        self.note_tried(conn);
        let connection = self.connection(conn);
        connection.phase = Phase::Open;
        connection.last_done_ns = now;
        self.offer(conn);
    }

    pub(super) fn connect_failed(&mut self, conn: u32, errno: Errno) {
        self.dialling.ends();
        self.io.close(conn);
        self.could_not_connect(conn, connect_class(errno), errno);
    }

    /// An attempt to connect takes too long.
    pub(super) fn connect_timed_out(&mut self, conn: u32) {
        self.connections[conn as usize].wire.reset(&self.shared);
        self.dialling.ends();
        self.io.close(conn);
        self.could_not_connect(conn, Failure::TimeoutConnect, Errno::TIMEDOUT);
    }

    fn could_not_connect(&mut self, conn: u32, failure: Failure, errno: Errno) {
        self.fail_connection(Class::Other(failure), errno);
        self.reach.failed();
        self.note_tried(conn);
        self.end_sending(conn);
        let connection = self.connection(conn);
        connection.phase = Phase::Closed;
        connection.failures_in_a_row += 1;
        self.back_off(conn, self.io.now_ns());
    }

    fn back_off(&mut self, conn: u32, now: u64) {
        let failures_in_a_row = self.connection(conn).failures_in_a_row;
        self.dialling.back_off(conn, failures_in_a_row, now);
    }

    /// A connection failed with which no request did.
    fn fail_connection(&mut self, class: Class, errno: Errno) {
        self.ledger.counters.connect_failed[class.index()] += 1;
        self.end.last_connect_failure = Some((class, errno));
    }

    fn note_tried(&mut self, conn: u32) {
        let tried = &mut self.connections[conn as usize].tried;
        self.tried += u32::from(!*tried);
        *tried = true;
    }

    /// Nothing of a connection is outstanding any more.
    fn end_sending(&mut self, conn: u32) {
        let sending = std::mem::take(&mut self.connection(conn).sending);
        self.unawaited -= u32::from(sending == Sending::Unawaited);
    }

    pub(super) fn closed_by_peer(&mut self, conn: u32, now: u64) {
        let failure = self.waiting_class(conn, Failure::ClosedWait);
        self.lose(conn, now, Left::Failed(Class::Other(failure)));
    }

    /// Reading or writing failed.
    pub(super) fn broken(&mut self, conn: u32, errno: Errno, sending: bool) {
        let now = self.io.now_ns();
        if errno == Errno::NOBUFS || errno == Errno::NOMEM {
            let class = Class::Other(Failure::LocalMemory);
            self.lose(conn, now, Left::Failed(class));
            return;
        }
        if self.connection(conn).phase == Phase::Greeting {
            let class = Class::Wire(WireError::TlsHandshake);
            self.fail_and_lose(conn, None, class, now);
            return;
        }
        let answering = self.connection(conn).wire.answering();
        if answering.is_some() {
            let class = Class::Other(Failure::ResetBody);
            self.fail_and_lose(conn, answering, class, now);
            return;
        }
        let failure = match sending {
            true => Failure::ResetSend,
            false => Failure::ResetWait,
        };
        let failure = self.waiting_class(conn, failure);
        self.lose(conn, now, Left::Failed(Class::Other(failure)));
    }

    /// The class of requests that lost their connection before their first byte: the
    /// race with a server that closes idle connections is told apart.
    fn waiting_class(&self, conn: u32, otherwise: Failure) -> Failure {
        let connection = &self.connections[conn as usize];
        let sent_ns = self.ledger.last_sent_ns(conn);
        let idle = sent_ns.saturating_sub(connection.last_done_ns) >= IDLE_RACE_NS;
        if connection.answered > 0 && idle {
            Failure::StaleReuse
        } else {
            otherwise
        }
    }

    /// One request fails with a class of its own, the others as abandoned. Without one the connection was idle: no
    /// request failed, and the anomaly still counts.
    pub(super) fn fail_and_lose(&mut self, conn: u32, slot: Option<u32>, class: Class, now: u64) {
        match slot {
            Some(slot) => self.fail_in_flight(conn, slot, class, now),
            None => self.fail_connection(class, Errno::PROTO),
        }
        self.lose(conn, now, Left::ABANDONED);
    }

    /// Ends a connection, and opens it again. What is in flight on it fails, or is sent again.
    pub(super) fn lose(&mut self, conn: u32, now: u64, left: Left) {
        self.end_requests(conn, now, left);
        match self.connection(conn).phase {
            Phase::Greeting => {
                self.dialling.ends();
                self.reach.failed();
                self.note_tried(conn);
            }
            Phase::Open => self.reach.closed(now),
            Phase::Closed | Phase::Connecting => {}
        }
        self.end_sending(conn);
        let connection = &mut self.connections[conn as usize];
        connection.phase = Phase::Closed;
        connection.wire.reset(&self.shared);
        connection.failures_in_a_row = match connection.answered {
            0 => connection.failures_in_a_row + 1,
            _ => 0,
        };
        let has_failed = connection.failures_in_a_row > 0;
        self.io.close(conn);
        if self.admission.is_closed() {
            return;
        }
        if has_failed {
            self.back_off(conn, now);
        } else {
            self.connection(conn).resting = true;
            self.wake(conn);
        }
    }

    /// A request fails that is in flight, and what comes behind it may be sent.
    pub(super) fn fail_in_flight(&mut self, conn: u32, slot: u32, class: Class, now: u64) {
        let failing = Failing::InFlight { conn, slot };
        self.ledger.fail(failing, class, now);
        self.grant_after_failure(conn, 0, now);
    }

    /// Lets the next request start after one that failed, after so long a pause at the least: the next step of a session
    /// that continues, or in a closed loop what begins.
    pub(super) fn grant_after_failure(&mut self, conn: u32, pause_ns_min: u64, now: u64) {
        let script = self.script.as_mut();
        let after = script.map_or(After::Begins, |script| script.failed(conn));
        let (goes_on, think_ns) = match after {
            After::Begins => (!self.admission.is_open(), 0),
            After::Continues { think_ns } => (true, self.admission.think_ns + think_ns),
        };
        if goes_on {
            self.grant_after(think_ns.max(pause_ns_min), conn, now);
        }
    }

    /// The requests in flight on a connection fail, or wait to be sent again.
    fn end_requests(&mut self, conn: u32, now: u64, left: Left) {
        for slot in 0..self.plan.load.in_flight_per_connection {
            if !self.ledger.is_in_flight(conn, slot) {
                continue;
            }
            let class = match left {
                Left::Unprocessed if self.send_again(conn, slot, 0, now) => continue,
                Left::Unprocessed => Class::Other(Failure::Abandoned),
                Left::Failed(class) => class,
            };
            self.fail_in_flight(conn, slot, class, now);
        }
    }

    /// Has a connection that rests opened, if it has something to send. In an open loop any may be
    /// the next that has.
    pub(super) fn wake(&mut self, conn: u32) {
        let connection = &self.connections[conn as usize];
        let may_send = !connection.granted.is_empty() && !self.admission.holds_back(conn);
        if connection.resting && (may_send || self.admission.is_open()) {
            self.connection(conn).resting = false;
            self.dialling.push(conn);
        }
    }

    /// Closes a connection on which nothing was sent yet, for a lever holds it back.
    #[cold]
    pub(super) fn put_to_rest(&mut self, conn: u32) {
        self.reach.closed(self.io.now_ns());
        let connection = &mut self.connections[conn as usize];
        connection.phase = Phase::Closed;
        connection.resting = true;
        connection.wire.reset(&self.shared);
        self.io.close(conn);
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
        Errno::PERM | Errno::ACCESS => Failure::NetForbidden,
        _ => Failure::NetOther,
    }
}
