//! Requests over a blocking socket, one after the other: for the few that stand beside a load.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use wallfinder_wire::mix::Ask;
use wallfinder_wire::{Outcome, Transmit, Wire};

/// A connection on which requests are made, and a time by which all is to be done.
pub(crate) struct Asking<W: Wire> {
    address: SocketAddr,
    socket: TcpStream,
    pub(crate) wire: W,
    out: Vec<u8>,
    read: Vec<u8>,
    /// What came behind the last answer.
    rest: Vec<u8>,
    until: Instant,
}

impl<W: Wire> Asking<W> {
    /// Connects. `room`: as much as the wire writes at once, at the least.
    pub(crate) fn connect(
        address: SocketAddr,
        shared: &W::Shared,
        room: usize,
        until: Instant,
    ) -> Result<Asking<W>> {
        Ok(Asking {
            address,
            socket: TcpStream::connect_timeout(&address, left(until)?)?,
            wire: W::open(shared),
            out: vec![0; room],
            read: vec![0; 64 * 1024],
            rest: Vec::new(),
            until,
        })
    }

    /// Connects anew, where an answer ended the connection. What the session took is kept.
    pub(crate) fn reconnect(&mut self, shared: &W::Shared) -> Result<()> {
        self.socket = TcpStream::connect_timeout(&self.address, left(self.until)?)?;
        self.wire.reset(shared);
        self.rest.clear();
        Ok(())
    }

    /// Makes one request, and waits for what becomes of it.
    pub(crate) fn ask(&mut self, shared: &mut W::Shared, ask: Ask) -> Result<Outcome> {
        let mut is_issued = false;
        loop {
            if !is_issued && self.wire.room(shared) > 0 {
                self.wire.issue_one(shared, ask);
                is_issued = true;
            }
            if let Some(outcome) = self.take(shared) {
                return Ok(outcome);
            }
            self.send(shared)?;
            self.socket.set_read_timeout(Some(left(self.until)?))?;
            let len = self.socket.read(&mut self.read)?;
            if len == 0 {
                self.wire.handle_eof(shared);
                return Ok(self.wire.poll_outcome().unwrap_or(Outcome::Over));
            }
            self.rest.extend_from_slice(&self.read[..len]);
            if let Some(outcome) = self.take(shared) {
                return Ok(outcome);
            }
        }
    }

    /// Gives the wire what came, until it tells of a request.
    fn take(&mut self, shared: &mut W::Shared) -> Option<Outcome> {
        while !self.rest.is_empty() {
            let taken = self.wire.handle_bytes(shared, &self.rest);
            self.rest.drain(..taken);
            let outcome = self.wire.poll_outcome();
            if outcome.is_some() || taken == 0 {
                return outcome;
            }
        }
        None
    }

    fn send(&mut self, shared: &W::Shared) -> Result<()> {
        loop {
            self.socket.set_write_timeout(Some(left(self.until)?))?;
            match self.wire.poll_transmit(shared) {
                Transmit::Idle => return Ok(()),
                Transmit::Own => {
                    let len = self.wire.write(shared, &mut self.out);
                    if len == 0 {
                        return Ok(());
                    }
                    self.socket.write_all(&self.out[..len])?;
                }
                Transmit::Block { start, len } => {
                    let block = &W::block(shared)[start..start + len];
                    self.socket.write_all(block)?;
                    self.wire.handle_sent(shared, len);
                }
            }
        }
    }
}

/// What is left of the time: a peer that sends without end has no more of it than one that sends nothing.
fn left(until: Instant) -> Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}
