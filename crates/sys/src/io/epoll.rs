//! Readiness: level-triggered epoll, reads and writes at once when a socket is ready.

use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, connect, recv, send};

use super::own::OwnBuffers;
use super::{Event, Io, IoConfig, SendState, Span, Wait};
use crate::net::{Blocking, TcpInfo, pending_error, tcp_info, tcp_socket};

/// Bytes that one read takes at the most: large, since one buffer serves all connections.
const RECEIVE_BYTES: usize = 256 * 1024;
/// Ready sockets that one wait takes at the most.
const READY_MAX: usize = 512;

#[derive(Debug)]
struct Socket {
    fd: Option<OwnedFd>,
    generation: u32,
    state: State,
    /// What a blocked send still has to write.
    unsent: Option<Unsent>,
}

/// Where the bytes of a blocked send are.
#[derive(Debug, Clone, Copy)]
enum Unsent {
    /// In the payload block: start and length.
    Block(usize, usize),
    /// In the connection's own buffer, from so many on and up to so many.
    Own { from: usize, len: usize },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Opening,
    Open,
    /// The peer has finished: its end was told once.
    Ended,
}

/// Sockets waited for with epoll.
pub struct Epoll {
    poll: OwnedFd,
    address: SocketAddr,
    payload: Arc<[u8]>,
    own: OwnBuffers,
    sockets: Vec<Socket>,
    ready: Vec<epoll::Event>,
    ready_next: usize,
    received: Box<[u8]>,
}

impl std::fmt::Debug for Epoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Epoll")
            .field("sockets", &self.sockets.len())
            .finish_non_exhaustive()
    }
}

fn token(conn: u32, generation: u32) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(generation) << 32 | u64::from(conn))
}

impl Epoll {
    fn socket(&self, conn: u32) -> &Socket {
        &self.sockets[conn as usize]
    }

    fn watch(&self, conn: u32, flags: epoll::EventFlags) -> Result<(), Errno> {
        let socket = self.socket(conn);
        match &socket.fd {
            Some(fd) => epoll::modify(&self.poll, fd, token(conn, socket.generation), flags),
            None => Ok(()),
        }
    }

    /// How many bytes the socket takes now; `None`: it takes none.
    fn try_send(&self, conn: u32, bytes: &[u8]) -> Result<Option<usize>, Errno> {
        let socket = self.socket(conn);
        assert!(socket.unsent.is_none(), "a send is outstanding");
        let fd = socket.fd.as_ref().ok_or(Errno::NOTCONN)?;
        match send(fd, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => Ok(Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    fn send_later(&mut self, conn: u32, unsent: Unsent) -> Result<SendState, Errno> {
        self.sockets[conn as usize].unsent = Some(unsent);
        self.watch(conn, epoll::EventFlags::IN | epoll::EventFlags::OUT)?;
        Ok(SendState::Later)
    }

    /// The end of a connection attempt, or a send that can go on.
    fn writable(&mut self, conn: u32) -> Option<Event> {
        let socket = &mut self.sockets[conn as usize];
        let fd = socket.fd.as_ref()?;
        if socket.state == State::Opening {
            if let Some(errno) = pending_error(fd) {
                return Some(Event::ConnectFailed { conn, errno });
            }
            socket.state = State::Open;
            return match self.watch(conn, epoll::EventFlags::IN) {
                Ok(()) => Some(Event::Connected { conn }),
                Err(errno) => Some(Event::ConnectFailed { conn, errno }),
            };
        }
        let bytes = match socket.unsent? {
            Unsent::Block(start, len) => &self.payload[start..start + len],
            Unsent::Own { from, len } => self.own.bytes(conn, from..len),
        };
        match send(fd, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => {
                let count = match &mut socket.unsent {
                    Some(Unsent::Own { from, len }) => {
                        *from += count;
                        if from < len {
                            return None;
                        }
                        self.own.give_back(conn);
                        *len
                    }
                    _ => count,
                };
                socket.unsent = None;
                match self.watch(conn, epoll::EventFlags::IN) {
                    Ok(()) => Some(Event::Sent { conn, count }),
                    Err(errno) => Some(broken(conn, errno, true)),
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(errno) => {
                socket.unsent = None;
                Some(broken(conn, errno, true))
            }
        }
    }

    fn readable(&mut self, conn: u32) -> Option<Event> {
        let socket = &mut self.sockets[conn as usize];
        if socket.state == State::Ended {
            return None;
        }
        let fd = socket.fd.as_ref()?;
        match recv(fd, &mut self.received[..], RecvFlags::empty()) {
            Ok((0, _)) => {
                socket.state = State::Ended;
                // Level-triggered: an end that stays readable would be told for ever.
                let _ = self.watch(conn, epoll::EventFlags::empty());
                Some(Event::Eof { conn })
            }
            Ok((len, _)) => Some(Event::Received {
                conn,
                span: Span { start: 0, len },
            }),
            Err(Errno::AGAIN | Errno::INTR) => None,
            Err(errno) => Some(broken(conn, errno, false)),
        }
    }
}

fn broken(conn: u32, errno: Errno, sending: bool) -> Event {
    Event::Broken {
        conn,
        errno,
        sending,
    }
}

impl Io for Epoll {
    const NAME: &'static str = "epoll";
    const BATCHES: bool = false;

    fn open(config: &IoConfig) -> Result<Epoll, Errno> {
        let sockets = (0..config.connections)
            .map(|_| Socket {
                fd: None,
                generation: 0,
                state: State::Opening,
                unsent: None,
            })
            .collect();
        Ok(Epoll {
            poll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            address: config.address,
            payload: Arc::clone(&config.payload),
            own: OwnBuffers::new(config.connections, config.own_bytes),
            sockets,
            ready: Vec::with_capacity(READY_MAX),
            ready_next: 0,
            received: vec![0; RECEIVE_BYTES].into_boxed_slice(),
        })
    }

    fn connect(&mut self, conn: u32) -> Result<(), Errno> {
        let fd = tcp_socket(&self.address, Blocking::No)?;
        match connect(&fd, &self.address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => return Err(errno),
        }
        let socket = &mut self.sockets[conn as usize];
        assert!(socket.fd.is_none(), "connection {conn} is open already");
        socket.generation = socket.generation.wrapping_add(1);
        socket.state = State::Opening;
        socket.unsent = None;
        let data = token(conn, socket.generation);
        epoll::add(&self.poll, &fd, data, epoll::EventFlags::OUT)?;
        socket.fd = Some(fd);
        Ok(())
    }

    fn send(&mut self, conn: u32, start: usize, len: usize) -> Result<SendState, Errno> {
        let sent = self.try_send(conn, &self.payload[start..start + len])?;
        match sent {
            Some(count) => Ok(SendState::Now(count)),
            None => self.send_later(conn, Unsent::Block(start, len)),
        }
    }

    fn own(&mut self, conn: u32) -> &mut [u8] {
        self.own.take(conn)
    }

    fn send_own(&mut self, conn: u32, len: usize) -> Result<SendState, Errno> {
        match self
            .try_send(conn, self.own.bytes(conn, 0..len))?
            .unwrap_or(0)
        {
            count if count == len => {
                self.own.give_back(conn);
                Ok(SendState::Now(len))
            }
            from => self.send_later(conn, Unsent::Own { from, len }),
        }
    }

    fn send_last(&mut self, conn: u32, len: usize) -> usize {
        let sent = self.try_send(conn, self.own.bytes(conn, 0..len));
        self.own.give_back(conn);
        sent.ok().flatten().unwrap_or(0)
    }

    fn close(&mut self, conn: u32) {
        let socket = &mut self.sockets[conn as usize];
        socket.generation = socket.generation.wrapping_add(1);
        socket.unsent = None;
        socket.fd = None;
        self.own.give_back(conn);
    }

    fn wait(&mut self, wait: Wait) -> Result<(), Errno> {
        let timeout = wait.timeout_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as i64,
        });
        self.ready.clear();
        self.ready_next = 0;
        let spare = rustix::buffer::spare_capacity(&mut self.ready);
        match epoll::wait(&self.poll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn next_event(&mut self) -> Option<Event> {
        while let Some(ready) = self.ready.get(self.ready_next).copied() {
            self.ready_next += 1;
            let data = ready.data.u64();
            let (conn, generation) = (data as u32, (data >> 32) as u32);
            let socket = self.socket(conn);
            if socket.generation != generation {
                continue;
            }
            let opening = socket.state == State::Opening;
            let ended = epoll::EventFlags::ERR | epoll::EventFlags::HUP;
            let flags = ready.flags;
            let event = if opening || flags.contains(epoll::EventFlags::OUT) {
                // Level-triggered: what is readable as well is told by the next wait.
                self.writable(conn)
            } else if flags.intersects(epoll::EventFlags::IN | ended) {
                self.readable(conn)
            } else {
                None
            };
            if event.is_some() {
                return event;
            }
        }
        None
    }

    fn bytes(&self, span: Span) -> &[u8] {
        &self.received[span.start..span.start + span.len]
    }

    fn tcp_info(&self, conn: u32) -> Option<TcpInfo> {
        let fd = self.socket(conn).fd.as_ref()?;
        tcp_info(fd.as_fd()).ok()
    }
}
