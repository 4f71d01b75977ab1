//! A load under way, in words that its engine and who conducts it share, on one host or two.
//!
//! ```text
//!   conductor ── LeverSetting ──► workers
//!             ◄── Progress ──── about ten times a second
//!             ◄── Measured ──── at the end
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::record::{self, Counts, Drained, Interval, OpenConnections, Outage, WorkerSummary};
use crate::telemetry::SocketsSummary;

/// What a worker is to do until the next change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LeverSetting {
    /// Number of the window of an experiment that begins; 0: none is counted, and what an open loop
    /// should have sent and has not stays unsent.
    pub window: u32,
    /// What is left of a worker's speed, above 0 and at most 1: for the rest of its working
    /// time it spins. At 1 it keeps the same accounts and spins never; `None`: no accounts.
    pub speed: Option<f64>,
    /// What is left of the requests in flight, above 0 (see `in_flight_left` of the engine); above 1:
    /// the spare connections are used too (see `in_flight_more`).
    pub in_flight: f64,
    /// Turns over which connections are held back, where some are.
    pub turn: u32,
    /// A pause before each request of a closed loop, beside that of the load.
    pub think: Nanos,
    /// Pace of an open loop's schedule, as a factor.
    pub pace: f64,
    /// The form of the request: 0 as it was asked for, from 1 on with the paddings that
    /// the load was begun with.
    pub form: usize,
    /// Which client hosts make the load.
    pub clients: Clients,
}

/// Which of several client hosts make a load. The first two are asked of all of them, and the last two of one by whoever
/// deals the load to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Clients {
    /// Each its own part.
    #[default]
    All,
    /// So many rest, from that at this place on; the others take their connections over.
    Rest {
        /// The place of the first, from 0; after the last host comes the first.
        first: u32,
        /// How many.
        hosts: u32,
    },
    /// This one rests: its connections stay open, and send nothing.
    Rests,
    /// This one has more than its part.
    TakesOver {
        /// Connections beside its own, of those that stand by.
        connections: u32,
        /// Requests in flight beside its own, where these are bounded.
        in_flight: u32,
    },
}

impl LeverSetting {
    /// No change, nothing counted.
    pub const FREE: LeverSetting = LeverSetting {
        window: 0,
        speed: None,
        in_flight: 1.0,
        turn: 0,
        think: Nanos(0),
        pace: 1.0,
        form: 0,
        clients: Clients::All,
    };
}

/// Which part of a load a host has of several, or a worker: of `of` that make it together the one after `nth` others.
/// Requests that start by a schedule are dealt in turn, and so are rows of data: the first has the starts 0, `of`, 2 `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Those before it.
    pub nth: u32,
    /// All, at least one.
    pub of: u32,
}

impl Share {
    /// All of a load.
    pub const WHOLE: Share = Share { nth: 0, of: 1 };

    /// Whether others have parts of the load too.
    pub fn is_part(self) -> bool {
        self.of > 1
    }

    /// Its part of a whole that is dealt as evenly as it can be; the first have what is left over.
    pub fn of(self, whole: u64) -> u64 {
        let (each, rest) = (whole / u64::from(self.of), whole % u64::from(self.of));
        each + u64::from(u64::from(self.nth) < rest)
    }

    /// The part that one of its workers has of what starts: what is dealt to a host is dealt to its workers in turn.
    pub fn of_worker(self, worker: u32, workers: u32) -> Share {
        Share {
            nth: worker * self.of + self.nth,
            of: workers * self.of,
        }
    }
}

/// Which arrivals and rows a host has where hosts are dealt to unevenly: of each cycle of `of` these places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slots {
    /// Places in a cycle, in order, each below `of`; one at least.
    pub own: Vec<u32>,
    /// Length of a cycle.
    pub of: u32,
}

impl Slots {
    /// Whether it is as it says.
    pub fn is_sound(&self) -> bool {
        let is_last_within = self.own.last().is_some_and(|last| *last < self.of);
        is_last_within && self.own.windows(2).all(|two| two[0] < two[1])
    }

    /// How many of the first `whole` are its own.
    pub fn within(&self, whole: u64) -> u64 {
        let (cycles, rest) = (whole / u64::from(self.of), whole % u64::from(self.of));
        let in_rest = self.own.iter().filter(|place| u64::from(**place) < rest);
        cycles * self.own.len() as u64 + in_rest.count() as u64
    }
}

/// What the workers did in one window of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentWindow {
    /// Its number.
    pub number: u32,
    /// Start, from the schedule's zero: the mean over the workers.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// Good answers.
    pub answered: u64,
    /// Failures.
    pub failed: u64,
    /// Requests that were to start.
    pub scheduled: u64,
    /// Good answers per second.
    pub throughput: f64,
    /// Mean requests in flight.
    pub in_flight_mean: f64,
    /// Mean latency; 0 without answers.
    pub latency_mean_ns: f64,
    /// Quantiles of latency by name, as in a record; none without answers.
    pub quantiles_ns: BTreeMap<String, u64>,
    /// CPU time of the workers.
    pub workers_cpu_ns: u64,
    /// Part of that which they spun, because their speed was squeezed.
    pub workers_spun_ns: u64,
    /// The latencies themselves, of a host that has a part of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<record::Histogram>,
}

/// An edge of the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Edge {
    /// The warm-up is over.
    Open,
    /// The window is over.
    Close,
    /// Nothing is waited for any more: what was in flight at the end of the window has ended, or was given up.
    Drained,
}

/// One piece of news, told by the thread that runs the step, about ten times a second: never by a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Progress {
    /// Every worker has tried its connections, and none sends a request yet. What takes time before a load is
    /// done now: the schedule's zero is chosen when the observer returns.
    Ready,
    /// The schedule's zero is chosen, and some milliseconds ahead. The workers know it already, and do not wait
    /// for the observer.
    Starts {
        /// In monotonic time.
        zero_ns: u64,
    },
    /// An interval of the run has ended.
    Interval {
        /// It.
        interval: Interval,
        /// Its latencies, of a host that has a part of the load.
        latency: Option<Box<record::Histogram>>,
    },
    /// All workers have ended a window of an experiment.
    Window(ExperimentWindow),
    /// The measured window opened or closed, now.
    Edge(Edge),
}

/// The window of a step, and what came after it. Instants count from the schedule's zero.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Measured {
    /// Monotonic instant of the schedule's zero.
    pub zero_ns: u64,
    /// The window, from zero: the mean over the workers of when each saw its edges.
    pub window_from_ns: u64,
    /// End of the window, from zero.
    pub window_to_ns: u64,
    /// Counts of the window.
    pub counts: Counts,
    /// Good answers per second.
    pub throughput: f64,
    /// Mean requests in flight.
    pub in_flight_mean: f64,
    /// Jain's index of the window's answers over connections, where there are several.
    pub fairness: Option<f64>,
    /// Kinds of request, where they are several.
    #[serde(default)]
    pub requests: Vec<record::RequestKind>,
    /// Kinds of session.
    #[serde(default)]
    pub sessions: Vec<record::SessionKind>,
    /// From the intended start to the last byte.
    pub latency: Option<record::Histogram>,
    /// From sending to the last byte.
    pub service: Option<record::Histogram>,
    /// From sending to the first byte.
    pub first_byte: Option<record::Histogram>,
    /// From the intended start to sending.
    pub lateness: Option<record::Histogram>,
    /// What became of the requests in flight when the window closed; those answered since are in the
    /// histograms.
    pub drained: Drained,
    /// How many connections were open in the window.
    pub open_connections: OpenConnections,
    /// When none was, within the window.
    pub outages: Vec<Outage>,
    /// Intervals of the whole run.
    pub intervals: Vec<Interval>,
    /// The workers.
    pub workers: Vec<WorkerSummary>,
    /// The client's sockets at the end of the window.
    pub sockets: Option<SocketsSummary>,
    /// The hosts that made the load together, where they were several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<record::ClientPart>,
    /// How sockets were waited for: `io_uring` or `epoll`.
    pub io: String,
}

/// What a load was answered with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Typical {
    /// Bytes of an answer's body, or of its messages.
    pub body_bytes: u64,
    /// Messages of an answer, in gRPC.
    pub messages: u64,
    /// Whether connections ended with their first answer, although that was not asked for.
    pub closes: bool,
}
