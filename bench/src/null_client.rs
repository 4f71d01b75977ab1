//! The client that does nothing: sends one fixed request, counts bytes, parses nothing.
//!
//! It speaks HTTP/1.1 and framed messages: what is sent as one fixed block of bytes.
//!
//! What it is: the least that any client of this kind can cost, so the yardstick of what
//! the engine's checking, timing and recording add. It waits for sockets the same two ways
//! as the engine (`wallfinder_sys::io`), in a closed loop at any depth. What it is not: a
//! load generator. It takes on trust that every answer is good and of the length that
//! [`crate::learn`] saw; answers of another length end it with an error where they can
//! be noticed (at depth 1 always).

use std::net::SocketAddr;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde::Serialize;
use wallfinder_sys::io::{Epoll, Event, Io, IoConfig, SendState, Span, Uring, Wait};
use wallfinder_sys::{Errno, clock};
use wallfinder_wire::framed;
use wallfinder_wire::http1::{Options, Request, Shared};

use crate::learn::{self, Length};
use crate::ours::framed_request;
use crate::scenario::Speaks;

/// What to drive, and how.
#[derive(Debug, Clone, Args)]
pub struct Spec {
    /// The server.
    pub address: SocketAddr,
    /// The request's target.
    pub path: String,
    /// Connections.
    #[arg(short = 'c', long, default_value_t = 100)]
    pub connections: u32,
    /// Requests in flight on each.
    #[arg(short = 'p', long, default_value_t = 1)]
    pub depth: u32,
    /// How long.
    #[arg(short = 'd', long, default_value_t = 3.0)]
    pub seconds: f64,
    /// How sockets are waited for.
    #[arg(long, value_enum, default_value_t = Way::Epoll)]
    pub io: Way,
    /// Completions to wait for together (io_uring).
    #[arg(long, default_value_t = 1)]
    pub batch: u32,
    /// Longest time to wait for all of them before one is enough.
    #[arg(long, default_value_t = 500)]
    pub batch_wait_us: u32,
    /// When a connection sends again.
    #[arg(long, value_enum, default_value_t = Refill::Each)]
    pub refill: Refill,
    /// What is sent: an HTTP/1.1 request, or a framed message.
    #[arg(long, value_enum, default_value_t = Speaks::Http1)]
    pub speaks: Speaks,
}

/// How sockets are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// One wait, one read and one write for each answer: as wrk does.
    Epoll,
    /// Multishot receives into buffers of the kernel's choice.
    Uring,
}

/// When a connection with several requests in flight sends again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Refill {
    /// As answers come, so that the depth is kept: as our engine does.
    Each,
    /// When all are answered: as wrk does.
    All,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Done {
    /// Whole answers.
    pub answered: u64,
    /// Always 0: anything else ends the run.
    pub failed: u64,
    /// From the first request to the end.
    pub seconds: f64,
    /// CPU time of this process until now, user and system.
    pub cpu_seconds: f64,
    /// Waits for events.
    pub waits: u64,
}

/// Runs it.
pub fn run(spec: &Spec) -> Result<Done, String> {
    let (block, request_bytes) = encode(spec)?;
    let read = match spec.speaks {
        Speaks::Framed => learn::read_frame,
        _ => learn::read_answer,
    };
    let length = learn::learn(spec.address, &block[..request_bytes], read)
        .map_err(|error| error.to_string())?;
    let is_fixed = matches!(length, Length::Fixed(_));
    if !is_fixed && (spec.depth > 1 || spec.speaks == Speaks::Framed) {
        return Err("answers of varying length can only be counted at depth 1 of HTTP/1.1".into());
    }
    let config = IoConfig {
        connections: spec.connections,
        address: spec.address,
        payload: block,
        own_bytes: 0,
        quiet_sends: spec.depth == 1 || spec.refill == Refill::All,
    };
    match spec.io {
        Way::Epoll => drive::<Epoll>(spec, &config, request_bytes, length),
        Way::Uring => drive::<Uring>(spec, &config, request_bytes, length),
    }
}

/// The request that our engine sends, repeated.
fn encode(spec: &Spec) -> Result<(Arc<[u8]>, usize), String> {
    if spec.speaks == Speaks::Framed {
        let options = framed::Options {
            in_flight_max: spec.depth,
            connection_per_request: false,
        };
        let shared = framed::Shared::new(&framed_request(), options);
        let shared = shared.map_err(|error| error.to_string())?;
        return Ok((Arc::clone(shared.block()), shared.request_bytes()));
    }
    let request = Request::get(spec.address.to_string(), spec.path.clone());
    let options = Options {
        in_flight_max: spec.depth,
        ..Options::default()
    };
    let shared = Shared::new(&request, options).map_err(|error| error.to_string())?;
    Ok((Arc::clone(shared.block()), shared.request_bytes()))
}

#[derive(Debug, Clone, Copy, Default)]
struct Connection {
    /// Bytes still to come of the answer that has begun.
    rest_bytes: usize,
    /// Requests sent, or being sent, and not answered.
    in_flight: u32,
    /// Requests to be sent.
    owed: u32,
    /// Bytes that a short write left over.
    unsent_bytes: usize,
    sending: bool,
    dirty: bool,
}

struct Client<I> {
    io: I,
    connections: Vec<Connection>,
    dirty: Vec<u32>,
    connected: u32,
    length: Length,
    depth: u32,
    refill: Refill,
    request_bytes: usize,
    block_bytes: usize,
    answered: u64,
}

fn drive<I: Io>(
    spec: &Spec,
    config: &IoConfig,
    request_bytes: usize,
    length: Length,
) -> Result<Done, String> {
    let told = |errno: Errno| errno.to_string();
    let mut client = Client {
        io: I::open(config).map_err(told)?,
        connections: vec![Connection::default(); spec.connections as usize],
        dirty: Vec::with_capacity(spec.connections as usize),
        connected: 0,
        length,
        depth: spec.depth,
        refill: spec.refill,
        request_bytes,
        block_bytes: config.payload.len(),
        answered: 0,
    };
    let mut wait = Wait {
        timeout_ns: Some(100_000_000),
        batch: 1,
        batch_wait_us: spec.batch_wait_us,
    };
    for conn in 0..spec.connections {
        client.io.connect(conn).map_err(told)?;
        // One by one: a server's backlog is short, and this is not measured.
        while client.connected <= conn {
            client.io.wait(wait).map_err(told)?;
            client.handle_events()?;
        }
    }
    let started_ns = clock::monotonic_ns();
    let until_ns = started_ns + (spec.seconds * 1e9) as u64;
    for conn in 0..spec.connections {
        client.owe(conn, spec.depth);
    }
    wait.batch = spec.batch;
    let mut waits = 0;
    let ended_ns = loop {
        client.flush()?;
        client.io.wait(wait).map_err(told)?;
        waits += 1;
        client.handle_events()?;
        let now = clock::monotonic_ns();
        if now >= until_ns {
            break now;
        }
    };
    Ok(Done {
        answered: client.answered,
        failed: 0,
        seconds: (ended_ns - started_ns) as f64 / 1e9,
        cpu_seconds: clock::process_cpu_ns() as f64 / 1e9,
        waits,
    })
}

impl<I: Io> Client<I> {
    fn handle_events(&mut self) -> Result<(), String> {
        while let Some(event) = self.io.next_event() {
            match event {
                Event::Received { conn, span } => self.received(conn, span)?,
                Event::Sent { conn, count } => self.sent(conn, count),
                Event::Connected { .. } => self.connected += 1,
                Event::Eof { .. } => return Err("the server closed a connection".into()),
                Event::ConnectFailed { errno, .. } | Event::Broken { errno, .. } => {
                    return Err(errno.to_string());
                }
            }
        }
        Ok(())
    }

    #[inline]
    fn received(&mut self, conn: u32, span: Span) -> Result<(), String> {
        let connection = &mut self.connections[conn as usize];
        let mut left = span.len();
        let mut answers = 0;
        while left > 0 {
            if connection.rest_bytes == 0 {
                connection.rest_bytes = match self.length {
                    Length::Fixed(bytes) => bytes,
                    Length::Read {
                        digits_at,
                        tail_bytes,
                    } => answer_bytes(self.io.bytes(span), digits_at, tail_bytes)?,
                };
            }
            let count = left.min(connection.rest_bytes);
            left -= count;
            connection.rest_bytes -= count;
            if connection.rest_bytes == 0 {
                answers += 1;
            }
            if left > 0 && self.depth == 1 {
                return Err("an answer was longer than expected".into());
            }
        }
        if answers > connection.in_flight {
            return Err("more answers than requests".into());
        }
        connection.in_flight -= answers;
        self.answered += u64::from(answers);
        match self.refill {
            Refill::Each if answers > 0 => self.owe(conn, answers),
            Refill::All if connection.in_flight == 0 => self.owe(conn, self.depth),
            _ => {}
        }
        Ok(())
    }

    fn sent(&mut self, conn: u32, count: usize) {
        let connection = &mut self.connections[conn as usize];
        connection.sending = false;
        connection.unsent_bytes -= count;
        self.owe(conn, 0);
    }

    /// The connection has so many more requests to send.
    #[inline]
    fn owe(&mut self, conn: u32, requests: u32) {
        let connection = &mut self.connections[conn as usize];
        connection.owed += requests;
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(conn);
        }
    }

    fn flush(&mut self) -> Result<(), String> {
        while let Some(conn) = self.dirty.pop() {
            let connection = &mut self.connections[conn as usize];
            connection.dirty = false;
            connection.in_flight += connection.owed;
            connection.unsent_bytes +=
                std::mem::take(&mut connection.owed) as usize * self.request_bytes;
            while connection.unsent_bytes > 0 && !connection.sending {
                // The block repeats one request: what a short write left over starts
                // within the first copy.
                let over = connection.unsent_bytes % self.request_bytes;
                let start = (self.request_bytes - over) % self.request_bytes;
                let len = connection.unsent_bytes.min(self.block_bytes - start);
                match self.io.send(conn, start, len) {
                    Ok(SendState::Now(count)) => connection.unsent_bytes -= count,
                    Ok(SendState::Later) => connection.sending = true,
                    Err(errno) => return Err(errno.to_string()),
                }
            }
        }
        Ok(())
    }
}

/// The length of the answer that begins with `bytes`.
#[inline]
fn answer_bytes(bytes: &[u8], digits_at: usize, tail_bytes: usize) -> Result<usize, String> {
    let (body_bytes, digits) = bytes
        .get(digits_at..)
        .and_then(learn::decimal)
        .ok_or("an answer's Content-Length is not where the first one's was")?;
    Ok(digits_at + digits + tail_bytes + body_bytes)
}
