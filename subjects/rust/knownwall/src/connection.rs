//! One connection of a worker: its socket, what arrived and what is still to be sent.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use rustix::event::epoll::EventFlags;

use crate::http::{Answer, Asked, Refused, Requests};

/// While more than this waits to be sent, nothing is read: a client that does not read its
/// answers is asked for no more requests.
const UNSENT_BYTES_MAX: usize = 4 << 20;

/// How answers leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    /// Head and body in one write.
    Whole,
    /// Head and body in two writes. With Nagle's algorithm on (RFC 896) the body waits for
    /// the acknowledgement of the head, and that for the client's delayed-acknowledgement
    /// timer (RFC 1122, 4.2.3.2).
    HeadThenBody,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    requests: Requests,
    unsent: Vec<u8>,
    /// It ends when all is sent.
    closing: bool,
    /// What its epoll watches for.
    watched: EventFlags,
}

/// Why a connection is over.
#[derive(Debug)]
pub enum Over {
    /// The peer closed it, or asked for its end and has all answers.
    Done,
    /// It broke.
    Broke(io::Error),
    /// The peer does not speak as much HTTP as is needed.
    Refused(Refused),
}

impl Connection {
    /// Takes a socket over. Without Nagle's algorithm unless it is to be shown.
    pub fn new(socket: TcpStream, sending: Sending) -> io::Result<Connection> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(sending == Sending::Whole)?;
        Ok(Connection {
            socket,
            requests: Requests::default(),
            unsent: Vec::new(),
            closing: false,
            watched: EventFlags::IN,
        })
    }

    /// Its socket.
    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// What is to be watched for from now on, if that is something else than before. A new
    /// connection is watched for bytes to read.
    pub fn new_interest(&mut self) -> Option<EventFlags> {
        let mut wanted = EventFlags::empty();
        wanted.set(
            EventFlags::IN,
            !self.closing && self.unsent.len() <= UNSENT_BYTES_MAX,
        );
        wanted.set(EventFlags::OUT, !self.unsent.is_empty());
        let before = std::mem::replace(&mut self.watched, wanted);
        (wanted != before).then_some(wanted)
    }

    /// Reads what is there, up to the buffer's length, and adds the requests in it.
    pub fn read(&mut self, buffer: &mut [u8], asked: &mut Vec<Asked>) -> Result<(), Over> {
        match self.socket.read(buffer) {
            Ok(0) => Err(Over::Done),
            Ok(n) => self
                .requests
                .handle_bytes(&buffer[..n], asked)
                .map_err(Over::Refused),
            Err(error) if is_for_later(&error) => Ok(()),
            Err(error) => Err(Over::Broke(error)),
        }
    }

    /// Answers a request.
    pub fn answer(&mut self, answer: &Answer, to: Asked, sending: Sending) -> Result<(), Over> {
        match (to.head_only, sending) {
            (true, _) => self.send(answer.head())?,
            (false, Sending::Whole) => self.send(answer.whole())?,
            (false, Sending::HeadThenBody) => {
                self.send(answer.head())?;
                self.send(answer.body())?;
            }
        }
        self.closing |= to.last;
        self.over_if_done()
    }

    /// Sends what waits.
    pub fn flush(&mut self) -> Result<(), Over> {
        let sent = write_some(&self.socket, &self.unsent)?;
        self.unsent.drain(..sent);
        self.over_if_done()
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Over> {
        let sent = match self.unsent.is_empty() {
            true => write_some(&self.socket, bytes)?,
            false => 0,
        };
        self.unsent.extend_from_slice(&bytes[sent..]);
        Ok(())
    }

    fn over_if_done(&self) -> Result<(), Over> {
        match self.closing && self.unsent.is_empty() {
            true => Err(Over::Done),
            false => Ok(()),
        }
    }
}

/// Writes as much as the socket takes.
fn write_some(mut socket: &TcpStream, bytes: &[u8]) -> Result<usize, Over> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.write(&bytes[sent..]) {
            Ok(0) => break,
            Ok(n) => sent += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_for_later(&error) => break,
            Err(error) => return Err(Over::Broke(error)),
        }
    }
    Ok(sent)
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}
