//! The client that does nothing: sends one fixed request, counts bytes, parses nothing.
//!
//! It speaks HTTP/1.1, framed messages and HTTP/2 ([`crate::null_http2`]): what is sent as one
//! fixed block of bytes.
//!
//! What it is: the least that any client of this kind can cost, so the measure of what
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
use crate::null_http2::{self, Frames};
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
    /// What is sent: an HTTP/1.1 request, a framed message, or an HTTP/2 request.
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

/// Requests per second that nobody reaches: the block of HTTP/2 has as many.
const RATE_MAX: f64 = 2e6;

/// What connections send, and how their answers are counted.
struct Plan {
    block: Arc<[u8]>,
    /// Sent when a connection opens, and answered once before the start.
    greeting_bytes: usize,
    /// Sent with the first requests.
    acknowledgement_bytes: usize,
    request_bytes: usize,
    /// The block repeats one request; else each has its place in it.
    repeats: bool,
    counted: Counted,
}

/// What tells the end of an answer.
#[derive(Debug, Clone, Copy)]
enum Counted {
    /// Bytes.
    ByLength(Length),
    /// Frames that end streams.
    ByFrames,
}

/// Runs it.
pub fn run(spec: &Spec) -> Result<Done, String> {
    let plan = match spec.speaks {
        Speaks::Http2 => plan_streams(spec)?,
        _ => plan_lengths(spec)?,
    };
    let config = IoConfig {
        connections: spec.connections,
        address: spec.address,
        payload: Arc::clone(&plan.block),
        own_bytes: 0,
        quiet_sends: spec.depth == 1 || spec.refill == Refill::All,
    };
    match spec.io {
        Way::Epoll => drive::<Epoll>(spec, &config, plan),
        Way::Uring => drive::<Uring>(spec, &config, plan),
    }
}

fn plan_streams(spec: &Spec) -> Result<Plan, String> {
    let requests = (spec.seconds * RATE_MAX) as u32 / spec.connections + spec.depth;
    let authority = spec.address.to_string();
    let block = null_http2::Block::new(&authority, &spec.path, requests)?;
    null_http2::check(spec.address, &block.bytes[..block.greeting_bytes])
        .map_err(|error| error.to_string())?;
    Ok(Plan {
        block: block.bytes.into(),
        greeting_bytes: block.greeting_bytes,
        acknowledgement_bytes: block.acknowledgement_bytes,
        request_bytes: block.request_bytes,
        repeats: false,
        counted: Counted::ByFrames,
    })
}

fn plan_lengths(spec: &Spec) -> Result<Plan, String> {
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
    Ok(Plan {
        block,
        greeting_bytes: 0,
        acknowledgement_bytes: 0,
        request_bytes,
        repeats: true,
        counted: Counted::ByLength(length),
    })
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
    /// Where in the block the next byte to be sent is.
    at: usize,
    /// Bytes to be sent from there.
    unsent_bytes: usize,
    sending: bool,
    dirty: bool,
    /// What its greeting asked for is not answered.
    greeting: bool,
    frames: Frames,
}

struct Client<I> {
    io: I,
    connections: Vec<Connection>,
    dirty: Vec<u32>,
    connected: u32,
    plan: Plan,
    depth: u32,
    refill: Refill,
    answered: u64,
}

fn drive<I: Io>(spec: &Spec, config: &IoConfig, plan: Plan) -> Result<Done, String> {
    let told = |errno: Errno| errno.to_string();
    let mut client = Client {
        io: I::open(config).map_err(told)?,
        connections: vec![Connection::default(); spec.connections as usize],
        dirty: Vec::with_capacity(spec.connections as usize),
        connected: 0,
        plan,
        depth: spec.depth,
        refill: spec.refill,
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
            client.flush()?;
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
                Event::Connected { conn } => self.opened(conn),
                Event::Eof { .. } => return Err("the server closed a connection".into()),
                Event::ConnectFailed { errno, .. } | Event::Broken { errno, .. } => {
                    return Err(errno.to_string());
                }
            }
        }
        Ok(())
    }

    fn opened(&mut self, conn: u32) {
        if self.plan.greeting_bytes == 0 {
            self.connected += 1;
            return;
        }
        let connection = &mut self.connections[conn as usize];
        connection.greeting = true;
        connection.unsent_bytes = self.plan.greeting_bytes;
        self.owe(conn, 0);
    }

    #[inline]
    fn received(&mut self, conn: u32, span: Span) -> Result<(), String> {
        let answers = match self.plan.counted {
            Counted::ByLength(length) => self.answers_by_length(conn, span, length)?,
            Counted::ByFrames => {
                let frames = &mut self.connections[conn as usize].frames;
                frames.streams_ended(self.io.bytes(span))?
            }
        };
        let connection = &mut self.connections[conn as usize];
        if connection.greeting {
            if answers > 0 {
                connection.greeting = false;
                connection.unsent_bytes += self.plan.acknowledgement_bytes;
                self.connected += 1;
            }
            return Ok(());
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

    #[inline]
    fn answers_by_length(&mut self, conn: u32, span: Span, length: Length) -> Result<u32, String> {
        let connection = &mut self.connections[conn as usize];
        let mut left = span.len();
        let mut answers = 0;
        while left > 0 {
            if connection.rest_bytes == 0 {
                connection.rest_bytes = match length {
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
        Ok(answers)
    }

    fn sent(&mut self, conn: u32, count: usize) {
        let connection = &mut self.connections[conn as usize];
        connection.sending = false;
        self.plan.took(connection, count);
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
            let owed = std::mem::take(&mut connection.owed) as usize;
            connection.unsent_bytes += owed * self.plan.request_bytes;
            while connection.unsent_bytes > 0 && !connection.sending {
                let left = self.plan.block.len() - connection.at;
                let len = connection.unsent_bytes.min(left);
                if len == 0 {
                    return Err("more requests than there are in the block".into());
                }
                match self.io.send(conn, connection.at, len) {
                    Ok(SendState::Now(count)) => self.plan.took(connection, count),
                    Ok(SendState::Later) => connection.sending = true,
                    Err(errno) => return Err(errno.to_string()),
                }
            }
        }
        Ok(())
    }
}

impl Plan {
    /// The socket took so many bytes of a connection.
    #[inline]
    fn took(&self, connection: &mut Connection, count: usize) {
        connection.unsent_bytes -= count;
        connection.at += count;
        if self.repeats {
            // What a short write left over starts within the first copy.
            connection.at %= self.request_bytes;
        }
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
