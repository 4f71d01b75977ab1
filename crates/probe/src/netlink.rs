//! Questions and their answers over a netlink socket.
//!
//! A socket belongs to the network namespace that it was opened in, whichever thread uses it later.

use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::parse::netlink::{DONE, ERROR, Message, error_number, messages, request};

/// The kernel fills dumps in pieces of at most 32 KiB.
const ANSWER_BYTES: usize = 64 << 10;
const REQUEST: u16 = 0x001;
const DUMP: u16 = 0x300;

/// The protocols asked here.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Family {
    /// Interfaces, disciplines, routes.
    Route,
    /// Sockets.
    SockDiag,
}

/// A question: its kind, fixed part and attributes.
pub(crate) struct Question<'a> {
    pub(crate) kind: u16,
    /// Whether many messages answer it.
    pub(crate) dump: bool,
    pub(crate) fixed: &'a [u8],
    pub(crate) attributes: &'a [(u16, &'a [u8])],
}

/// A socket for one question after another.
#[derive(Debug)]
pub(crate) struct Socket {
    socket: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens a socket in the calling thread's network namespace.
    pub(crate) fn open(family: Family) -> io::Result<Socket> {
        let protocol: Option<Protocol> = match family {
            Family::Route => None,
            Family::SockDiag => Some(rustix::net::netlink::SOCK_DIAG),
        };
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, protocol)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(1)))?;
        Ok(Socket {
            socket,
            sequence: 0,
            buffer: vec![0; ANSWER_BYTES],
        })
    }

    /// Asks, and gives each answer to `each` until it breaks off. After breaking off a dump the
    /// socket is of no more use: the rest of the answer would stand in the next one's way.
    pub(crate) fn ask(
        &mut self,
        question: &Question<'_>,
        mut each: impl FnMut(&Message<'_>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        self.sequence += 1;
        let flags = if question.dump {
            REQUEST | DUMP
        } else {
            REQUEST
        };
        let bytes = request(
            question.kind,
            flags,
            self.sequence,
            question.fixed,
            question.attributes,
        );
        rustix::net::send(&self.socket, &bytes, SendFlags::empty())?;
        loop {
            let (_, length) =
                rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            let received = &self.buffer[..length.min(self.buffer.len())];
            let mut any = false;
            for message in messages(received).filter(|message| message.sequence == self.sequence) {
                any = true;
                match message.kind {
                    DONE => return Ok(()),
                    ERROR => return acknowledged(message.payload),
                    _ if each(&message).is_break() => return Ok(()),
                    _ => {}
                }
            }
            if any && !question.dump {
                return Ok(());
            }
        }
    }
}

fn acknowledged(payload: &[u8]) -> io::Result<()> {
    match error_number(payload) {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(number)),
        None => Err(io::Error::from(io::ErrorKind::InvalidData)),
    }
}
