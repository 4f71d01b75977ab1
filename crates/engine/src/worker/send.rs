//! Bytes on their way out: what a wire has to send, as far as its socket takes it.

use wallfinder_sys::io::{Io, SendState};
use wallfinder_wire::{Transmit, Wire};

use super::connection::{Phase, Sending};
use super::state::Worker;

impl<W: Wire, I: Io> Worker<W, I> {
    /// Sends what the wire has to send, until it has no more or the socket takes no more.
    #[inline]
    pub(super) fn transmit(&mut self, conn: u32) {
        if self.connection(conn).sending != Sending::Nothing {
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
                    self.ledger.counters.bytes_out += count as u64;
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
    /// its send. Other loops do: only then is there room for what is to start, or for what waits for room.
    #[inline]
    fn note_unawaited(&mut self, conn: u32) {
        let connection = &mut self.connections[conn as usize];
        if connection.sending == Sending::Own
            && connection.phase == Phase::Open
            && !self.admission.is_open()
            && !self.admission.room.is_limited_in_flight()
            && connection.wire.poll_transmit(&self.shared) == Transmit::Idle
        {
            connection.sending = Sending::Unawaited;
            self.unawaited += 1;
        }
    }

    /// Sends what a wire has to say to a peer that broke the protocol. Nothing waits for it.
    #[cold]
    pub(super) fn say_last(&mut self, conn: u32) {
        let connection = &mut self.connections[conn as usize];
        let may_send = connection.sending == Sending::Nothing;
        if may_send && connection.wire.poll_transmit(&self.shared) == Transmit::Own {
            let len = connection.wire.write(&self.shared, self.io.own(conn));
            self.ledger.counters.bytes_out += self.io.send_last(conn, len) as u64;
        }
    }
}
