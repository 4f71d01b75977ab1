//! What a wall is made of, where there is evidence.

use serde::{Deserialize, Serialize};

use crate::reason::{Named, Part, Side, Unsqueezed};
use crate::verdict::Wall;

/// What a host ran out of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Exhausted {
    /// Local ports.
    Ports,
    /// File descriptors.
    Descriptors,
    /// Kernel memory for sockets.
    SocketMemory,
}

/// What a connection waits for at its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AtSockets {
    /// The peer's receive window.
    ReceiveWindow,
    /// Its own send buffer.
    SendBuffer,
}

/// What holds each client host to its part of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ClientHold {
    /// Its own link, which is full.
    OwnLink,
    /// A limit of the server's for each client, or of each one's way there: the hosts' own links have room.
    Server,
}

/// A place in a program where threads wait.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    /// What is waited in, such as `sync.(*Mutex).Lock`; empty: not known.
    pub waits_in: String,
    /// The function that waits.
    pub function: String,
    /// Its file and line; empty: not known.
    pub line: String,
}

/// Who waits at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Waiters {
    /// Threads of the system.
    Threads,
    /// Goroutines.
    Goroutines,
}

/// What a wall is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Detail {
    /// A quota of processor time.
    Quota {
        /// Cores.
        cores: f64,
    },
    /// A quota of an unknown size.
    Throttled {
        /// Share of its periods that ended early.
        share: f64,
    },
    /// These client hosts were full.
    ClientHosts {
        /// Which.
        hosts: Vec<String>,
        /// Of so many.
        of: u32,
    },
    /// The relay that delays the link used cores of its processors.
    Relay {
        /// How many.
        cores: f64,
    },
    /// Others used cores of its processors.
    Neighbour {
        /// How many.
        cores: f64,
    },
    /// Others that are known by name used cores of its processors.
    Neighbours {
        /// Who.
        named: Vec<Named>,
    },
    /// Network receive work on its processors.
    ReceiveWork {
        /// The processor that it is not spread beyond, where it is one.
        cpu: Option<u32>,
    },
    /// Threads that never rest.
    HotThreads {
        /// Their name.
        name: String,
        /// How many.
        threads: u32,
        /// Busy share of the hottest.
        busy: f64,
    },
    /// No thread is hot, and together they run as if one did at a time.
    InTurn,
    /// The same, as squeezes show it.
    OneRuns,
    /// So many threads run at a time.
    SomeRun {
        /// How many.
        count: f64,
    },
    /// A server on one processor answers speed and not a quota.
    SpeedAlone,
    /// A link carries more than its rate.
    RateIsOther,
    /// Some of the engine's workers are full and others not.
    UnevenWorkers,
    /// Workers poll, and are busy by design.
    PollingWorkers,
    /// A driver's threads do not spread over its processors.
    DriverThreads {
        /// The driver.
        name: String,
    },
    /// Client and server share processors.
    SharedProcessors {
        /// The server's thread that never rests, where one does.
        thread: Option<String>,
    },
    /// The load generator's host ran out of something.
    RanOut {
        /// Of what.
        of: Exhausted,
    },
    /// Each resource is full for a part of the time.
    Phases,
    /// The server's accept queue.
    AcceptQueue,
    /// Pauses between requests.
    ThinkTime,
    /// A pool or limit on the client's side.
    ClientLimit,
    /// A pool on the client's side, by what squeezes do.
    ClientPool,
    /// A pool on the client's side, by its connections.
    FewConnections {
        /// Asked for.
        asked: u32,
        /// Open.
        open: u32,
    },
    /// What each connection waits for at its socket.
    PerConnection {
        /// What.
        what: AtSockets,
    },
    /// Each connection takes most of a request's time for the body.
    Bodies {
        /// The share, 0..1.
        share: f64,
    },
    /// A connection carries fewer streams at once than it is asked for: the server's limit.
    StreamsMax {
        /// Open on a connection, in the mean.
        open: f64,
        /// Asked for.
        asked: u32,
    },
    /// Where a request's time goes.
    TimeOfARequest {
        /// Shares of it.
        parts: Vec<Part>,
        /// The share that no squeeze reaches.
        rest: Option<f64>,
    },
    /// A delayed acknowledgement.
    DelayedAck,
    /// A resource was busy without being the limit.
    BusyWithoutLimit {
        /// Which.
        wall: Wall,
    },
    /// Bursts are held up by the server's quota.
    BurstsThrottled {
        /// Share of its periods that ended early.
        share: f64,
    },
    /// A wait that no squeeze reaches.
    NoSqueezeReaches,
    /// Each client host is held to its part by something beside its processors.
    HeldPerClient {
        /// What that is, where the hosts' own links tell; `None`: their links, or a limit of the server's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<ClientHold>,
    },
    /// Less than one request is served at a time: a limit of rate, or a timer.
    Spaced {
        /// What one takes that is alone.
        each_ns: f64,
    },
    /// One request is served at a time.
    OneAtATime {
        /// What each takes.
        each_ns: f64,
    },
    /// Several requests are served at a time: a pool, or a limit.
    Pool {
        /// How many.
        at_once: f64,
        /// What each takes.
        each_ns: f64,
    },
    /// Processes behind the server.
    Backends {
        /// Their names.
        names: Vec<String>,
    },
    /// Ceilings coincide.
    Coincide {
        /// Sum of the elasticities.
        sum: f64,
    },
    /// The squeezes that would tell were out of reach.
    Unsqueezed {
        /// Which, and why.
        missing: Unsqueezed,
    },
    /// A garbage collector.
    Collector {
        /// Whose.
        side: Side,
        /// Its share of that side's CPU.
        share: f64,
    },
    /// A lock that most of what waits stands in line at.
    LockAt {
        /// Where.
        place: Place,
        /// How many wait at any moment.
        waiting: f64,
        /// Who waits.
        who: Waiters,
    },
}

impl Detail {
    /// Whether it lies on the client's side, so that more in flight is no more than a name.
    pub fn is_on_client(&self) -> bool {
        matches!(
            self,
            Detail::RanOut { .. }
                | Detail::ClientLimit
                | Detail::ClientPool
                | Detail::FewConnections { .. }
        )
    }
}
