//! Waiting for many sockets: one trait, two ways.
//!
//! The trait is shaped like completions: a worker asks for connections and sends, waits,
//! and takes events one by one. [`Epoll`] does the reads itself when a socket is ready;
//! [`Uring`] lets the kernel do them into buffers that it was given. What a worker does
//! with the events is the same code either way.
//!
//! ```text
//!  connect(conn) ──► Connected | ConnectFailed
//!  send(conn, range of the payload block) ──► Now(n) | Later ──► Sent
//!  send_own(conn, so many bytes of own(conn)) ──► Now(n) | Later ──► Sent
//!                                   Received(conn, bytes) · Eof · Broken
//! ```
//!
//! Invariants: no event of a connection comes after [`Io::close`] of it until it is
//! connected again; bytes of an event stay valid until the next [`Io::next_event`].

mod epoll;
mod own;
mod uring;

use std::net::SocketAddr;
use std::sync::Arc;

use rustix::io::Errno;

use crate::clock;

pub use epoll::Epoll;
pub use uring::Uring;

/// What an instance is opened with; everything it needs is reserved then.
#[derive(Debug, Clone)]
pub struct IoConfig {
    /// Connections, numbered from 0.
    pub connections: u32,
    /// Where they go.
    pub address: SocketAddr,
    /// The immutable bytes that sends take ranges of.
    pub payload: Arc<[u8]>,
    /// Room for bytes of its own that a connection sends.
    pub own_bytes: usize,
    /// Whether at most one send is ever outstanding for a connection and the peer's
    /// answer shows that it is done: completions of sends are then not asked for.
    pub quiet_sends: bool,
}

/// A range of received bytes, to be read with [`Io::bytes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    start: usize,
    len: usize,
}

impl Span {
    /// So many bytes from a place on.
    pub fn new(start: usize, len: usize) -> Span {
        Span { start, len }
    }

    /// Where it begins.
    pub fn start(&self) -> usize {
        self.start
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Something that happened to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It is open.
    Connected {
        /// Which.
        conn: u32,
    },
    /// It could not be opened.
    ConnectFailed {
        /// Which.
        conn: u32,
        /// Why.
        errno: Errno,
    },
    /// Bytes came.
    Received {
        /// On which.
        conn: u32,
        /// The bytes.
        span: Span,
    },
    /// A send that was to end later has.
    Sent {
        /// On which.
        conn: u32,
        /// Bytes taken by the socket.
        count: usize,
    },
    /// The peer has finished writing.
    Eof {
        /// Which.
        conn: u32,
    },
    /// Reading or writing failed.
    Broken {
        /// Which.
        conn: u32,
        /// Why.
        errno: Errno,
        /// Whether it was a write.
        sending: bool,
    },
}

/// How far a send has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendState {
    /// The socket took this many bytes, now.
    Now(usize),
    /// An [`Event::Sent`] will say.
    Later,
}

/// How long a wait may take, and for how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Longest time, from now; `None`: as long as it takes.
    pub timeout_ns: Option<u64>,
    /// Events worth waiting for together, where that is cheap to ask for (io_uring).
    pub batch: u32,
    /// How long to wait for a full batch before one event is enough.
    pub batch_wait_us: u32,
}

/// One thread's sockets, and its time: a worker has no other clock than these.
pub trait Io: Sized {
    /// Its name in records.
    const NAME: &'static str;

    /// Whether it waits for several events together ([`Wait::batch`]).
    const BATCHES: bool;

    /// The clock, for what has no [`Io`] to ask.
    const CLOCK: fn() -> u64 = clock::monotonic_ns;

    /// Reserves everything for these connections.
    fn open(config: &IoConfig) -> Result<Self, Errno>;

    /// The time, by the monotonic clock: above 0, and never going back.
    #[inline]
    fn now_ns(&self) -> u64 {
        clock::monotonic_ns()
    }

    /// CPU time of the calling thread.
    fn cpu_ns(&self) -> u64 {
        clock::thread_cpu_ns()
    }

    /// Starts to open a connection. An error here is local: no descriptor, port, memory.
    fn connect(&mut self, conn: u32) -> Result<(), Errno>;

    /// Sends a range of the payload block. Not while an earlier send is outstanding.
    fn send(&mut self, conn: u32, start: usize, len: usize) -> Result<SendState, Errno>;

    /// Where a connection puts bytes of its own to be sent: [`IoConfig::own_bytes`] of
    /// room. Not while an earlier send of them is outstanding.
    fn own(&mut self, conn: u32) -> &mut [u8];

    /// Sends the first `len` bytes of [`Io::own`], all of them: what the socket does not
    /// take at once follows by itself. Not while an earlier send is outstanding.
    fn send_own(&mut self, conn: u32, len: usize) -> Result<SendState, Errno>;

    /// Sends the first `len` bytes of [`Io::own`] at once, as many as the socket takes
    /// without waiting, and gives their number: the connection is about to be closed. Not
    /// while an earlier send is outstanding.
    fn send_last(&mut self, conn: u32, len: usize) -> usize;

    /// Closes a connection, open or opening. Nothing of it is heard afterwards.
    fn close(&mut self, conn: u32);

    /// Hands over what was asked for, and waits for events.
    fn wait(&mut self, wait: Wait) -> Result<(), Errno>;

    /// The next event, until there is none.
    fn next_event(&mut self) -> Option<Event>;

    /// The bytes of the last event.
    fn bytes(&self, span: Span) -> &[u8];

    /// What the kernel knows of a connection, if it is open.
    fn tcp_info(&self, conn: u32) -> Option<crate::net::TcpInfo>;
}

/// Whether io_uring can be used here, with all that [`Uring`] needs; else why not.
pub fn uring_available() -> Result<(), String> {
    let config = IoConfig {
        connections: 1,
        address: SocketAddr::from(([127, 0, 0, 1], 9)),
        payload: Arc::from(&b"x"[..]),
        own_bytes: 0,
        quiet_sends: false,
    };
    match Uring::open(&config) {
        Ok(_) => Ok(()),
        Err(Errno::PERM) => {
            Err("io_uring is forbidden here (kernel.io_uring_disabled or seccomp)".into())
        }
        Err(Errno::NOSYS) => Err("this kernel has no io_uring".into()),
        Err(errno) => Err(format!("io_uring cannot be set up: {errno}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    const OWN_BYTES: usize = 1_000_000;

    /// Waits until `wanted` picks an event; gives up after some seconds.
    fn until<I: Io, T>(io: &mut I, mut wanted: impl FnMut(&I, Event) -> Option<T>) -> T {
        for _ in 0..100 {
            let wait = Wait {
                timeout_ns: Some(100_000_000),
                batch: 1,
                batch_wait_us: 0,
            };
            io.wait(wait).unwrap();
            while let Some(event) = io.next_event() {
                if let Some(found) = wanted(io, event) {
                    return found;
                }
            }
        }
        panic!("the event never came");
    }

    fn config(listener: &TcpListener, connections: u32) -> IoConfig {
        IoConfig {
            connections,
            address: listener.local_addr().unwrap(),
            payload: Arc::from(&b"hello, world"[..]),
            own_bytes: OWN_BYTES,
            quiet_sends: false,
        }
    }

    fn a_round_trip_and_an_end<I: Io>() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut io = I::open(&config(&listener, 2)).unwrap();
        io.connect(1).unwrap();
        until(&mut io, |_, event| {
            (event == Event::Connected { conn: 1 }).then_some(())
        });
        let (mut far, _) = listener.accept().unwrap();
        let sent = match io.send(1, 7, 5).unwrap() {
            SendState::Now(count) => count,
            SendState::Later => until(&mut io, |_, event| match event {
                Event::Sent { conn: 1, count } => Some(count),
                _ => None,
            }),
        };
        assert_eq!(sent, 5);
        let mut got = [0; 5];
        far.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"world");
        for text in [&b"one"[..], b"and two"] {
            far.write_all(text).unwrap();
            let heard = until(&mut io, |io, event| match event {
                Event::Received { conn: 1, span } => Some(io.bytes(span).to_vec()),
                _ => None,
            });
            assert_eq!(heard, text);
        }
        drop(far);
        until(&mut io, |_, event| {
            (event == Event::Eof { conn: 1 }).then_some(())
        });
        io.close(1);
        io.connect(1).unwrap();
        until(&mut io, |_, event| {
            (event == Event::Connected { conn: 1 }).then_some(())
        });
        assert!(io.tcp_info(1).is_some());
        assert!(io.tcp_info(0).is_none());
    }

    fn a_refused_connection_says_so<I: Io>() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let config = config(&listener, 1);
        drop(listener);
        let mut io = I::open(&config).unwrap();
        io.connect(0).unwrap();
        let errno = until(&mut io, |_, event| match event {
            Event::ConnectFailed { conn: 0, errno } => Some(errno),
            _ => None,
        });
        assert_eq!(errno, Errno::CONNREFUSED);
    }

    fn nothing_is_heard_of_a_closed_connection<I: Io>() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut io = I::open(&config(&listener, 1)).unwrap();
        io.connect(0).unwrap();
        until(&mut io, |_, event| {
            (event == Event::Connected { conn: 0 }).then_some(())
        });
        let (mut far, _) = listener.accept().unwrap();
        far.write_all(b"late").unwrap();
        io.close(0);
        let wait = Wait {
            timeout_ns: Some(20_000_000),
            batch: 1,
            batch_wait_us: 0,
        };
        io.wait(wait).unwrap();
        assert_eq!(io.next_event(), None);
    }

    fn a_long_answer_arrives_whole<I: Io>() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut io = I::open(&config(&listener, 1)).unwrap();
        io.connect(0).unwrap();
        until(&mut io, |_, event| {
            (event == Event::Connected { conn: 0 }).then_some(())
        });
        let (mut far, _) = listener.accept().unwrap();
        let sender = std::thread::spawn(move || {
            let bytes: Vec<u8> = (0..20_000_000_u32).map(|n| (n % 251) as u8).collect();
            far.write_all(&bytes).unwrap();
        });
        let mut seen = 0_u32;
        until(&mut io, |io, event| match event {
            Event::Received { span, .. } => {
                for byte in io.bytes(span) {
                    assert_eq!(*byte, (seen % 251) as u8);
                    seen += 1;
                }
                (seen == 20_000_000).then_some(())
            }
            _ => None,
        });
        sender.join().unwrap();
    }

    fn bytes_of_its_own_go_out_in_order<I: Io>() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut io = I::open(&config(&listener, 2)).unwrap();
        io.connect(1).unwrap();
        until(&mut io, |_, event| {
            (event == Event::Connected { conn: 1 }).then_some(())
        });
        let (mut far, _) = listener.accept().unwrap();
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            far.read_to_end(&mut got).unwrap();
            got
        });
        // More than the socket takes, and no multiple of what is set aside.
        let bytes: Vec<u8> = (0..20_000_001_u32).map(|n| (n % 251) as u8).collect();
        let mut sent = 0;
        while sent < bytes.len() {
            let len = (bytes.len() - sent).min(OWN_BYTES);
            io.own(1)[..len].copy_from_slice(&bytes[sent..sent + len]);
            let count = match io.send_own(1, len).unwrap() {
                SendState::Now(count) => count,
                SendState::Later => until(&mut io, |_, event| match event {
                    Event::Sent { conn: 1, count } => Some(count),
                    _ => None,
                }),
            };
            assert_eq!(count, len, "all or nothing");
            sent += len;
        }
        io.close(1);
        assert!(reader.join().unwrap() == bytes);
    }

    /// Of two connections, each of which sends only what an answer asks for.
    fn quiet_bytes_of_its_own_go_out_whole<I: Io>() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let quiet = IoConfig {
            quiet_sends: true,
            ..config(&listener, 2)
        };
        let mut io = I::open(&quiet).unwrap();
        let mut far = Vec::new();
        for conn in 0..2 {
            io.connect(conn).unwrap();
            until(&mut io, |_, event| {
                (event == Event::Connected { conn }).then_some(())
            });
            far.push(listener.accept().unwrap().0);
        }
        for round in 0..50_u8 {
            for conn in 0..2 {
                let bytes = [round ^ conn as u8; 4096];
                io.own(conn)[..4096].copy_from_slice(&bytes);
                assert_eq!(io.send_own(conn, 4096), Ok(SendState::Now(4096)));
            }
            let now = Wait {
                timeout_ns: Some(0),
                batch: 1,
                batch_wait_us: 0,
            };
            io.wait(now).unwrap();
            for (conn, far) in (0..2).zip(&mut far) {
                let mut got = [0; 4096];
                far.read_exact(&mut got).unwrap();
                assert_eq!(got, [round ^ conn as u8; 4096]);
                far.write_all(b"!").unwrap();
                let of = until(&mut io, |_, event| match event {
                    Event::Received { conn, .. } => Some(conn),
                    _ => None,
                });
                assert_eq!(of, conn);
            }
        }
    }

    macro_rules! for_both {
        ($($name:ident),*) => {
            mod with_epoll {
                $(#[test] fn $name() { super::$name::<super::Epoll>(); })*
            }
            mod with_uring {
                $(#[test] fn $name() {
                    match super::uring_available() {
                        Ok(()) => super::$name::<super::Uring>(),
                        Err(why) => wallfinder_skip::skip(format_args!("io_uring: {why}")),
                    }
                })*
            }
        };
    }

    for_both!(
        a_round_trip_and_an_end,
        a_refused_connection_says_so,
        nothing_is_heard_of_a_closed_connection,
        a_long_answer_arrives_whole,
        bytes_of_its_own_go_out_in_order,
        quiet_bytes_of_its_own_go_out_whole
    );
}
