//! An [`Io`] in memory with a virtual clock.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use wallfinder_sys::Errno;
use wallfinder_sys::io::{Event, Io, IoConfig, SendState, Span, Wait};
use wallfinder_sys::net::TcpInfo;

use super::peer::{Connect, Does, Peer, Script, Take};

/// When the clock begins.
pub(super) const START_NS: u64 = 1_000;
/// A look for events that finds none takes so long.
const POLL_NS: u64 = 100;
/// And a reading of the CPU clock.
const CPU_READING_NS: u64 = 50;

/// What is noted for tests, by the virtual clock.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) connects: Vec<(u64, u32)>,
    pub(super) waits: Vec<(u64, Wait)>,
}

/// What the test does to a run while it goes on, and what the machine does to the worker.
pub(super) trait Conductor {
    /// Called whenever the worker waits; gives when it wants to be called at the latest.
    fn turn(&mut self, now: u64) -> Option<u64>;
}

/// What is under way to the worker, in the order of its arrival.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Coming {
    at_ns: u64,
    number: u64,
    conn: u32,
    generation: u32,
    what: What,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Connected,
    ConnectFailed(i32),
    Bytes(Vec<u8>),
    Sent(Vec<u8>),
    Eof,
    Broken(i32),
}

#[derive(Debug, Clone, Copy, Default)]
struct Link {
    /// Odd: open, or being opened.
    generation: u32,
    attempts: u32,
}

pub(super) struct SimIo {
    clock_ns: Cell<u64>,
    cpu_ns: Cell<u64>,
    payload: Arc<[u8]>,
    own: Vec<u8>,
    own_bytes: usize,
    links: Vec<Link>,
    peer: Box<dyn Peer>,
    conductor: Box<dyn Conductor>,
    coming: BinaryHeap<Reverse<Coming>>,
    number: u64,
    ready: VecDeque<Coming>,
    received: Vec<u8>,
    /// Handling an event takes so long.
    pub(super) event_ns: u64,
    /// The worker's thread stands still from an instant on for so long.
    pub(super) stalls: BTreeMap<u64, u64>,
    pub(super) log: Rc<RefCell<Log>>,
}

/// Accepts everything and says nothing.
struct Silent;

impl Peer for Silent {
    fn opened(&mut self, _: u32, _: u64) -> Script {
        Script::new()
    }

    fn received(&mut self, _: u32, _: &[u8], _: u64) -> Script {
        Script::new()
    }
}

/// Does nothing.
struct Idle;

impl Conductor for Idle {
    fn turn(&mut self, _: u64) -> Option<u64> {
        None
    }
}

impl SimIo {
    /// Joins it to a peer, under a conductor.
    pub(super) fn join(&mut self, peer: Box<dyn Peer>, conductor: Box<dyn Conductor>) {
        self.peer = peer;
        self.conductor = conductor;
    }

    fn now(&self) -> u64 {
        self.clock_ns.get()
    }

    fn push(&mut self, conn: u32, after_ns: u64, what: What) {
        self.number += 1;
        self.coming.push(Reverse(Coming {
            at_ns: self.now().saturating_add(after_ns),
            number: self.number,
            conn,
            generation: self.links[conn as usize].generation,
            what,
        }));
    }

    fn follow(&mut self, conn: u32, script: Script) {
        for (after_ns, does) in script {
            let what = match does {
                Does::Says(bytes) => What::Bytes(bytes),
                Does::Closes => What::Eof,
                Does::Resets(errno) => What::Broken(errno.raw_os_error()),
            };
            self.push(conn, after_ns, what);
        }
    }

    fn deliver(&mut self, conn: u32, bytes: &[u8]) {
        let script = self.peer.received(conn, bytes, self.now());
        self.follow(conn, script);
    }

    fn send_bytes(
        &mut self,
        conn: u32,
        bytes: Vec<u8>,
        in_parts: bool,
    ) -> Result<SendState, Errno> {
        match self.peer.take(conn, bytes.len(), self.now()) {
            Take::Part(count) if in_parts => {
                let count = count.min(bytes.len());
                self.deliver(conn, &bytes[..count]);
                Ok(SendState::Now(count))
            }
            Take::All | Take::Part(_) => {
                self.deliver(conn, &bytes);
                Ok(SendState::Now(bytes.len()))
            }
            Take::Later(after_ns) => {
                self.push(conn, after_ns, What::Sent(bytes));
                Ok(SendState::Later)
            }
            Take::Broken(errno) => Err(errno),
        }
    }

    fn is_current(&self, coming: &Coming) -> bool {
        self.links[coming.conn as usize].generation == coming.generation
    }

    /// When a wait ends: with so many events, with one after a while, or at its limit.
    fn end_of(&mut self, wait: Wait, limit_ns: u64) -> u64 {
        let now = self.now();
        let mut looked_at = Vec::new();
        while looked_at.len() < wait.batch.max(1) as usize {
            match self.coming.pop() {
                Some(Reverse(coming)) if !self.is_current(&coming) => {}
                Some(coming) => looked_at.push(coming),
                None => break,
            }
        }
        let first_ns = looked_at.first().map_or(u64::MAX, |Reverse(c)| c.at_ns);
        let is_full = looked_at.len() == wait.batch.max(1) as usize;
        let last_ns = looked_at.last().map_or(u64::MAX, |Reverse(c)| c.at_ns);
        let full_ns = if is_full { last_ns } else { u64::MAX };
        self.coming.extend(looked_at);
        let alone_ns = match wait.batch {
            0 | 1 => first_ns,
            _ => first_ns.max(now + u64::from(wait.batch_wait_us) * 1_000),
        };
        full_ns.min(alone_ns).min(limit_ns).max(now)
    }

    fn take_ready(&mut self) {
        let now = self.now();
        while self
            .coming
            .peek()
            .is_some_and(|Reverse(coming)| coming.at_ns <= now)
        {
            let Reverse(coming) = self.coming.pop().expect("it was looked at");
            self.ready.push_back(coming);
        }
    }

    /// The machine gives the processor to others.
    fn stand_still(&mut self) {
        let now = self.now();
        while let Some(stall) = self
            .stalls
            .first_entry()
            .filter(|stall| *stall.key() <= now)
        {
            let until_ns = stall.key() + stall.get();
            stall.remove();
            self.clock_ns.set(until_ns.max(self.now()));
        }
    }
}

impl Io for SimIo {
    const NAME: &'static str = "sim";
    const BATCHES: bool = true;
    const CLOCK: fn() -> u64 = || START_NS;

    fn open(config: &IoConfig) -> Result<SimIo, Errno> {
        Ok(SimIo {
            clock_ns: Cell::new(START_NS),
            cpu_ns: Cell::new(0),
            payload: Arc::clone(&config.payload),
            own: vec![0; config.own_bytes * config.connections as usize],
            own_bytes: config.own_bytes,
            links: vec![Link::default(); config.connections as usize],
            peer: Box::new(Silent),
            conductor: Box::new(Idle),
            coming: BinaryHeap::new(),
            number: 0,
            ready: VecDeque::new(),
            received: Vec::new(),
            event_ns: 0,
            stalls: BTreeMap::new(),
            log: Rc::default(),
        })
    }

    fn now_ns(&self) -> u64 {
        self.now()
    }

    fn cpu_ns(&self) -> u64 {
        self.cpu_ns.set(self.cpu_ns.get() + CPU_READING_NS);
        self.clock_ns
            .set(self.now() + CPU_READING_NS * u64::from(self.event_ns > 0));
        self.cpu_ns.get()
    }

    fn connect(&mut self, conn: u32) -> Result<(), Errno> {
        let now = self.now();
        self.log.borrow_mut().connects.push((now, conn));
        let link = &mut self.links[conn as usize];
        let nth = link.attempts;
        link.attempts += 1;
        let connect = self.peer.connect(conn, nth, now);
        if let Connect::Local(errno) = connect {
            return Err(errno);
        }
        assert!(link.generation.is_multiple_of(2), "{conn} is open already");
        link.generation += 1;
        match connect {
            Connect::Accept { after_ns } => self.push(conn, after_ns, What::Connected),
            Connect::Refuse { after_ns, errno } => {
                self.push(conn, after_ns, What::ConnectFailed(errno.raw_os_error()));
            }
            Connect::Silence | Connect::Local(_) => {}
        }
        Ok(())
    }

    fn send(&mut self, conn: u32, start: usize, len: usize) -> Result<SendState, Errno> {
        let bytes = self.payload[start..start + len].to_vec();
        self.send_bytes(conn, bytes, true)
    }

    fn own(&mut self, conn: u32) -> &mut [u8] {
        &mut self.own[conn as usize * self.own_bytes..][..self.own_bytes]
    }

    fn send_own(&mut self, conn: u32, len: usize) -> Result<SendState, Errno> {
        let bytes = self.own(conn)[..len].to_vec();
        self.send_bytes(conn, bytes, false)
    }

    fn send_last(&mut self, conn: u32, len: usize) -> usize {
        let bytes = self.own(conn)[..len].to_vec();
        self.deliver(conn, &bytes);
        len
    }

    fn close(&mut self, conn: u32) {
        let link = &mut self.links[conn as usize];
        if !link.generation.is_multiple_of(2) {
            link.generation += 1;
        }
    }

    fn wait(&mut self, wait: Wait) -> Result<(), Errno> {
        let now = self.now();
        self.log.borrow_mut().waits.push((now, wait));
        let called_ns = self.conductor.turn(now).unwrap_or(u64::MAX);
        let timeout_ns = wait.timeout_ns.unwrap_or(u64::MAX);
        let limit_ns = now.saturating_add(timeout_ns).min(called_ns);
        if timeout_ns == 0 {
            self.take_ready();
            if self.ready.is_empty() {
                self.clock_ns.set(now + POLL_NS);
            }
        } else {
            let end_ns = self.end_of(wait, limit_ns);
            assert!(end_ns < u64::MAX, "nothing ever ends this wait");
            self.clock_ns.set(end_ns);
        }
        self.stand_still();
        self.take_ready();
        self.conductor.turn(self.now());
        Ok(())
    }

    fn next_event(&mut self) -> Option<Event> {
        loop {
            let coming = self.ready.pop_front()?;
            if !self.is_current(&coming) {
                continue;
            }
            self.clock_ns.set(self.now() + self.event_ns);
            self.cpu_ns.set(self.cpu_ns.get() + self.event_ns);
            let conn = coming.conn;
            return Some(match coming.what {
                What::Connected => {
                    let script = self.peer.opened(conn, self.now());
                    self.follow(conn, script);
                    Event::Connected { conn }
                }
                What::ConnectFailed(errno) => {
                    let errno = Errno::from_raw_os_error(errno);
                    Event::ConnectFailed { conn, errno }
                }
                What::Bytes(bytes) => {
                    self.received = bytes;
                    let span = Span::new(0, self.received.len());
                    Event::Received { conn, span }
                }
                What::Sent(bytes) => {
                    self.deliver(conn, &bytes);
                    let count = bytes.len();
                    Event::Sent { conn, count }
                }
                What::Eof => Event::Eof { conn },
                What::Broken(errno) => Event::Broken {
                    conn,
                    errno: Errno::from_raw_os_error(errno),
                    sending: false,
                },
            });
        }
    }

    fn bytes(&self, span: Span) -> &[u8] {
        &self.received[span.start()..][..span.len()]
    }

    fn tcp_info(&self, _: u32) -> Option<TcpInfo> {
        None
    }
}
