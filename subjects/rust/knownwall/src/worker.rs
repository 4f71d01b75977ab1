//! A worker: one thread, one epoll, the connections that it was dealt.
//!
//! ```text
//!  wait ─► read all that is readable ─► batch cost ─► for each request: its cost, then
//!    ▲                                                answer, or into the stations
//!    └── answers of those who left the stations ◄──────────────────────┘
//! ```

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

use crate::connection::{Connection, Over, Sending};
use crate::http::{Answer, Asked};
use crate::options::Options;
use crate::stations::Stations;
use crate::work::{Phase, Work};

/// The event that says that there are new connections.
const NEW_CONNECTIONS: u64 = u64::MAX;
/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;
/// Answers kept of the sizes that paths ask for.
const SIZES_MAX: usize = 64;
/// Events taken at a time.
const EVENTS: usize = 1024;

/// Where the acceptor puts a worker's connections.
#[derive(Debug, Clone)]
pub struct Inbox {
    sockets: Arc<Mutex<Vec<TcpStream>>>,
    bell: Arc<OwnedFd>,
}

impl Inbox {
    fn new() -> io::Result<Inbox> {
        Ok(Inbox {
            sockets: Arc::default(),
            bell: Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
        })
    }

    /// Hands a connection over.
    pub fn put(&self, socket: TcpStream) -> io::Result<()> {
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.push(socket);
        rustix::io::write(&*self.bell, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    fn take(&self) -> Vec<TcpStream> {
        // Before the sockets: a ring in between is then not lost.
        let _ = rustix::io::read(&*self.bell, &mut [0_u8; 8]);
        let mut sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *sockets)
    }
}

/// A worker before it runs.
#[derive(Debug)]
pub struct Worker {
    epoll: OwnedFd,
    inbox: Inbox,
    connections: HashMap<u64, Connection>,
    connections_ever: u64,
    /// Requests in stations: whose they are.
    waiting: HashMap<u64, (u64, Asked)>,
    requests_ever: u64,
    work: Work,
    stations: Stations,
    stall: Option<Stall>,
    sending: Sending,
    answer: Answer,
    small: Answer,
    /// Of the sizes that paths ask for.
    by_size: HashMap<u32, Answer>,
    origin: Instant,
}

impl Worker {
    /// One that counts time from `origin`.
    pub fn new(
        options: &Options,
        work: Work,
        stations: Stations,
        origin: Instant,
    ) -> io::Result<Worker> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let inbox = Inbox::new()?;
        let data = EventData::new_u64(NEW_CONNECTIONS);
        epoll::add(&epoll, &*inbox.bell, data, EventFlags::IN)?;
        Ok(Worker {
            epoll,
            inbox,
            connections: HashMap::new(),
            connections_ever: 0,
            waiting: HashMap::new(),
            requests_ever: 0,
            work,
            stations,
            stall: Stall::new(options),
            sending: match options.nagle_wwr {
                true => Sending::HeadThenBody,
                false => Sending::Whole,
            },
            answer: Answer::ok(options.answer_bytes),
            small: Answer::ok(2),
            by_size: HashMap::new(),
            origin,
        })
    }

    /// Where its connections are put.
    pub fn inbox(&self) -> Inbox {
        self.inbox.clone()
    }

    /// Serves for ever.
    pub fn run(mut self) -> io::Result<()> {
        let mut events: Vec<Event> = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0_u8; READ_BYTES];
        let mut asked: Vec<(u64, Asked)> = Vec::new();
        let mut left: Vec<u64> = Vec::new();
        loop {
            self.wait(&mut events)?;
            self.stall_if_due();
            for event in &events {
                match event.data.u64() {
                    NEW_CONNECTIONS => self.adopt()?,
                    id => self.attend(id, event.flags, &mut buffer, &mut asked)?,
                }
            }
            if !asked.is_empty() {
                self.work.batch(self.now_ns());
            }
            for (id, request) in asked.drain(..) {
                self.serve(id, request)?;
            }
            let now_ns = self.now_ns();
            let stretch = self.work.stretch(now_ns);
            self.stations.leave(now_ns, stretch, &mut left);
            for request in left.drain(..) {
                if let Some((id, asked)) = self.waiting.remove(&request) {
                    self.answer(id, asked)?;
                }
            }
        }
    }

    fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Waits for events, but not beyond the next timer.
    fn wait(&self, events: &mut Vec<Event>) -> io::Result<()> {
        events.clear();
        let timeout = self.stations.next_due_ns().map(|due_ns| {
            let left_ns = due_ns.saturating_sub(self.now_ns());
            Timespec {
                tv_sec: (left_ns / 1_000_000_000) as i64,
                tv_nsec: (left_ns % 1_000_000_000) as i64,
            }
        });
        let buffer = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.epoll, buffer, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn adopt(&mut self) -> io::Result<()> {
        for socket in self.inbox.take() {
            // A peer that is gone already is none.
            let Ok(connection) = Connection::new(socket, self.sending) else {
                continue;
            };
            let id = self.connections_ever;
            self.connections_ever += 1;
            let data = EventData::new_u64(id);
            epoll::add(&self.epoll, connection.socket(), data, EventFlags::IN)?;
            self.connections.insert(id, connection);
        }
        Ok(())
    }

    /// Reads and sends what a connection can.
    fn attend(
        &mut self,
        id: u64,
        flags: EventFlags,
        buffer: &mut [u8],
        asked: &mut Vec<(u64, Asked)>,
    ) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        let mut found = Vec::new();
        let mut done = Ok(());
        if flags.contains(EventFlags::OUT) {
            done = connection.flush();
        }
        if done.is_ok() && !flags.intersection(!EventFlags::OUT).is_empty() {
            done = connection.read(buffer, &mut found);
        }
        asked.extend(found.into_iter().map(|request| (id, request)));
        self.settle(id, done)
    }

    fn serve(&mut self, id: u64, request: Asked) -> io::Result<()> {
        let route = request.route;
        self.work.request(self.now_ns(), route);
        if self.stations.is_empty() && route.wait_us == 0 {
            return self.answer(id, request);
        }
        let number = self.requests_ever;
        self.requests_ever += 1;
        self.waiting.insert(number, (id, request));
        let now_ns = self.now_ns();
        let stretch = self.work.stretch(now_ns);
        match route.wait_us {
            0 => self.stations.enter(now_ns, number, stretch),
            wait_us => self
                .stations
                .rest(now_ns, number, u64::from(wait_us) * 1_000),
        }
        Ok(())
    }

    fn answer(&mut self, id: u64, to: Asked) -> io::Result<()> {
        let answer = match (self.work.phase(self.now_ns()), to.route.bytes) {
            (Phase::Cpu, _) => &self.small,
            (Phase::Answer | Phase::Both, 0) => &self.answer,
            (Phase::Answer | Phase::Both, bytes) => {
                if self.by_size.len() >= SIZES_MAX && !self.by_size.contains_key(&bytes) {
                    self.by_size.clear();
                }
                let made = || Answer::ok(bytes as usize);
                self.by_size.entry(bytes).or_insert_with(made)
            }
        };
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        let done = connection.answer(answer, to, self.sending);
        self.settle(id, done)
    }

    /// Ends a connection that is over; otherwise waits for what it can do next.
    fn settle(&mut self, id: u64, done: Result<(), Over>) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        if done.is_err() {
            // Dropping the socket takes it out of the epoll as well.
            self.connections.remove(&id);
            return Ok(());
        }
        if let Some(flags) = connection.new_interest() {
            let data = EventData::new_u64(id);
            epoll::modify(&self.epoll, connection.socket(), data, flags)?;
        }
        Ok(())
    }

    fn stall_if_due(&mut self) {
        let now_ns = self.now_ns();
        if let Some(stall) = &mut self.stall
            && let Some(ns) = stall.due(now_ns)
        {
            thread::sleep(Duration::from_nanos(ns));
        }
    }
}

/// Everything stands still, now and then.
#[derive(Debug, Clone, PartialEq)]
struct Stall {
    next_ns: u64,
    every_ns: u64,
    for_ns: u64,
}

impl Stall {
    fn new(options: &Options) -> Option<Stall> {
        (options.stall_ns > 0).then_some(Stall {
            next_ns: options.stall_every_ns,
            every_ns: options.stall_every_ns,
            for_ns: options.stall_ns,
        })
    }

    /// How long to stand still, if it is time. A stall that nobody was there for is past.
    fn due(&mut self, now_ns: u64) -> Option<u64> {
        if now_ns < self.next_ns {
            return None;
        }
        let behind_ns = (now_ns - self.next_ns) % self.every_ns;
        self.next_ns = now_ns - behind_ns + self.every_ns;
        self.for_ns.checked_sub(behind_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_keep_to_their_instants() {
        let mut stall = Stall {
            next_ns: 5_000,
            every_ns: 5_000,
            for_ns: 500,
        };
        assert_eq!(stall.due(4_999), None);
        assert_eq!(stall.due(5_000), Some(500));
        assert_eq!(stall.due(5_500), None);
        // Asked late, it lasts as long as is left of it; asked after it, it is past.
        assert_eq!(stall.due(10_100), Some(400));
        assert_eq!(stall.due(17_000), None);
        assert_eq!(stall.due(20_000), Some(500));
    }
}
