//! Servers that do nothing: they read requests as far as they must, and write the same answer to each.
//!
//! ```text
//!  counted   requests of one length           HTTP/1.1, framed messages in turn
//!  named     the same, with an id in them     framed messages with ids
//!  streams   heads of frames                  HTTP/2, gRPC
//!  secured   records of TLS around any of these
//! ```
//!
//! What they are for: against them the workers are as fast as they can be, so what they reach is
//! their own ceiling and not a server's. What they are not: they understand no request, and serve only
//! our own client.

mod counted;
mod named;
mod secured;
pub(crate) mod streams;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt};
use wallfinder_sys::{clock, process};
use wallfinder_wire::tls::{Client, Double};

use crate::error::EngineError;
use counted::Counted;
use named::Named;
use secured::Secured;
use streams::Streams;

const LISTENER: u64 = u64::MAX;
/// How long no connection is taken after one could not be.
const ACCEPT_PAUSE_NS: u64 = 20_000_000;

/// The server, until it is dropped.
#[derive(Debug)]
pub struct NullServer {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    /// Whether a connection could not be taken.
    is_short: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Where a null server runs, and under what it is spoken to.
#[derive(Debug, Default)]
pub(crate) struct Stand {
    /// The processor that it is pinned to.
    cpu: Option<u32>,
    /// TLS.
    double: Option<Double>,
    /// Whether each connection is closed behind its first answer, as a server does that was told
    /// `Connection: close`: the client then keeps no port for what is over. Only for a server that
    /// writes nothing before its answers.
    closes: bool,
}

impl Stand {
    /// On this processor, and under TLS if that is what the load is under.
    pub(crate) fn of(cpu: Option<u32>, tls: Option<&Client>) -> Result<Stand, EngineError> {
        let double = tls.map(secured::double).transpose()?;
        Ok(Stand {
            cpu,
            double,
            closes: false,
        })
    }

    /// The same, where each connection is closed behind its first answer if `closes`.
    pub(crate) fn closing(self, closes: bool) -> Stand {
        Stand { closes, ..self }
    }
}

impl NullServer {
    /// For each so many bytes read it writes the same answer. Like the others it is started on a free
    /// port of loopback, in one thread, pinned if a processor is given.
    pub fn start(request_bytes: usize, answer: &[u8], cpu: Option<u32>) -> io::Result<NullServer> {
        let stand = Stand {
            cpu,
            ..Stand::default()
        };
        NullServer::counted(request_bytes, answer, &stand)
    }

    /// The same, under TLS too.
    pub(crate) fn counted(
        request_bytes: usize,
        answer: &[u8],
        stand: &Stand,
    ) -> io::Result<NullServer> {
        NullServer::playing(Counted::new(request_bytes, answer), stand)
    }

    /// The same, with bytes of each request put into its answer, at the same place.
    pub(crate) fn named(
        request_bytes: usize,
        answer: Vec<u8>,
        id: Range<usize>,
        stand: &Stand,
    ) -> io::Result<NullServer> {
        NullServer::playing(Named::new(request_bytes, answer, id), stand)
    }

    /// Each stream of HTTP/2 has the same answer.
    pub(crate) fn streams(answer: streams::Answer, stand: &Stand) -> io::Result<NullServer> {
        NullServer::playing(Streams::new(answer), stand)
    }

    fn playing<S: Script>(script: S, stand: &Stand) -> io::Result<NullServer> {
        match &stand.double {
            None => NullServer::serving(script, stand),
            Some(double) => {
                let script = Secured::new(script, double.clone());
                NullServer::serving(script, stand)
            }
        }
    }

    fn serving<S: Script>(script: S, stand: &Stand) -> io::Result<NullServer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        // The standard library listens with a backlog of 128; a load opens far more at once.
        rustix::net::listen(&listener, 4096)?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut serving = Serving::new(listener, script, stand.closes)?;
        let is_short = Arc::clone(&serving.is_short);
        let (cpu, stopping) = (stand.cpu, Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("null-server".into())
            .spawn(move || {
                if let Some(cpu) = cpu {
                    let _ = process::pin_to(&[cpu]);
                }
                let mut ready = Vec::with_capacity(512);
                while !stopping.load(Ordering::Relaxed) {
                    if serving.turn(&mut ready).is_err() {
                        return;
                    }
                }
            })?;
        Ok(NullServer {
            address,
            stop,
            is_short,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether a connection could not be taken so far, for want of a descriptor or of memory: its
    /// client takes it for open, and waits.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What was read makes no sense: the connection is closed.
#[derive(Debug)]
struct Spoilt;

/// What is read and what is written.
trait Script: Send + 'static {
    /// What is known of one connection.
    type Peer: Default + Send;

    /// Bytes have come.
    fn read(&self, peer: &mut Self::Peer, bytes: &[u8]) -> Result<(), Spoilt>;

    /// What is to be written next; empty: nothing.
    fn next<'s>(&'s self, peer: &'s Self::Peer) -> &'s [u8];

    /// So many bytes of it were.
    fn wrote(&self, peer: &mut Self::Peer, bytes: usize);
}

/// Bytes on their way out.
#[derive(Debug, Default)]
struct Out {
    bytes: Vec<u8>,
    written: usize,
}

impl Out {
    /// Adds some, and gives their place.
    fn push(&mut self, bytes: &[u8]) -> &mut [u8] {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        &mut self.bytes[from..]
    }

    fn left(&self) -> &[u8] {
        &self.bytes[self.written..]
    }

    fn wrote(&mut self, bytes: usize) {
        self.written += bytes;
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
    }
}

struct Connection<P> {
    fd: OwnedFd,
    peer: P,
    has_written: bool,
    waits_to_write: bool,
}

struct Serving<S: Script> {
    poll: OwnedFd,
    listener: TcpListener,
    connections: Vec<Option<Connection<S::Peer>>>,
    /// Places in `connections` that were left.
    free: Vec<usize>,
    /// No connection is taken before this instant.
    accepts_at_ns: Option<u64>,
    is_short: Arc<AtomicBool>,
    read: Box<[u8]>,
    script: S,
    /// Whether each connection is closed behind its first answer.
    closes: bool,
}

impl<S: Script> Serving<S> {
    fn new(listener: TcpListener, script: S, closes: bool) -> io::Result<Serving<S>> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::add(&poll, &listener, data, epoll::EventFlags::IN)?;
        Ok(Serving {
            poll,
            listener,
            connections: Vec::new(),
            free: Vec::new(),
            accepts_at_ns: None,
            is_short: Arc::default(),
            read: vec![0; 256 * 1024].into_boxed_slice(),
            script,
            closes,
        })
    }

    fn turn(&mut self, ready: &mut Vec<epoll::Event>) -> Result<(), Errno> {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        ready.clear();
        match epoll::wait(&self.poll, spare_capacity(ready), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        for event in ready.iter() {
            if event.data.u64() == LISTENER {
                self.accept()?;
                continue;
            }
            let index = event.data.u64() as usize;
            let flags = event.flags;
            if self.serve(index, flags).is_err() {
                self.connections[index] = None;
                self.free.push(index);
            }
        }
        if let Some(at_ns) = self.accepts_at_ns
            && clock::monotonic_ns() >= at_ns
        {
            self.accepts_at_ns = None;
            self.watch_listener(epoll::EventFlags::IN)?;
        }
        Ok(())
    }

    fn watch_listener(&self, flags: epoll::EventFlags) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(LISTENER);
        epoll::modify(&self.poll, &self.listener, data, flags)
    }

    /// Takes every connection that waits. One that cannot be taken goes on waiting, and would wake this
    /// thread for ever: so none is for a moment.
    fn accept(&mut self) -> Result<(), Errno> {
        loop {
            match accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(fd) => self.admit(fd),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => {
                    self.is_short.store(true, Ordering::Relaxed);
                    self.accepts_at_ns = Some(clock::monotonic_ns() + ACCEPT_PAUSE_NS);
                    return self.watch_listener(epoll::EventFlags::empty());
                }
            }
        }
    }

    fn admit(&mut self, fd: OwnedFd) {
        let _ = sockopt::set_tcp_nodelay(&fd, true);
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        let data = epoll::EventData::new_u64(index as u64);
        if epoll::add(&self.poll, &fd, data, epoll::EventFlags::IN).is_err() {
            self.is_short.store(true, Ordering::Relaxed);
            self.free.push(index);
            return;
        }
        self.connections[index] = Some(Connection {
            fd,
            peer: S::Peer::default(),
            has_written: false,
            waits_to_write: false,
        });
    }

    /// An error, or an end, closes the connection.
    fn serve(&mut self, index: usize, flags: epoll::EventFlags) -> Result<(), Errno> {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return Ok(());
        };
        let (fd, peer) = (&connection.fd, &mut connection.peer);
        if flags.contains(epoll::EventFlags::IN) {
            match recv(fd, &mut self.read[..], RecvFlags::empty()) {
                Ok((0, _)) => return Err(Errno::PIPE),
                Ok((count, _)) => {
                    let read = self.script.read(peer, &self.read[..count]);
                    read.map_err(|Spoilt| Errno::PROTO)?;
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        } else if flags.intersects(epoll::EventFlags::ERR | epoll::EventFlags::HUP) {
            return Err(Errno::PIPE);
        }
        loop {
            let next = self.script.next(peer);
            if next.is_empty() {
                break;
            }
            match send(fd, next, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    self.script.wrote(peer, count);
                    connection.has_written = true;
                }
                Err(Errno::AGAIN) => {
                    if !connection.waits_to_write {
                        connection.waits_to_write = true;
                        let data = epoll::EventData::new_u64(index as u64);
                        // Reads wait too: a peer that does not read gets no more answers.
                        epoll::modify(&self.poll, fd, data, epoll::EventFlags::OUT)?;
                    }
                    return Ok(());
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        if self.closes && connection.has_written {
            return Err(Errno::PIPE);
        }
        if connection.waits_to_write {
            connection.waits_to_write = false;
            let data = epoll::EventData::new_u64(index as u64);
            epoll::modify(&self.poll, fd, data, epoll::EventFlags::IN)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    #[test]
    fn every_request_gets_one_answer_whatever_the_pieces() {
        let server = NullServer::start(10, b"answer!", None).unwrap();
        let mut near = TcpStream::connect(server.address()).unwrap();
        near.write_all(&[b'x'; 7]).unwrap();
        near.write_all(&[b'x'; 13]).unwrap();
        let mut got = [0; 14];
        near.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"answer!answer!");
    }

    #[test]
    fn a_connection_ends_behind_its_first_answer_where_that_is_asked_for() {
        let stand = Stand::default().closing(true);
        // Longer than what a socket takes at once.
        let answer = vec![b'a'; 8 << 20];
        let server = NullServer::counted(10, &answer, &stand).unwrap();
        for _ in 0..3 {
            let mut near = TcpStream::connect(server.address()).unwrap();
            near.write_all(&[b'x'; 10]).unwrap();
            let mut got = Vec::new();
            near.read_to_end(&mut got).unwrap();
            assert_eq!(got.len(), answer.len());
        }
        assert!(!server.is_short());
    }
}
