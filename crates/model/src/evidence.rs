//! What was seen that bears a verdict out: a fact, and the number behind it.

use serde::{Deserialize, Serialize};

use crate::detail::{AtSockets, Place, Waiters};
use crate::experiment::Squeeze;
use crate::reason::{Capacity, Moved, Side, Sign, TimeOf};
use crate::verdict::Wall;

/// One reason for a verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Evidence {
    /// What was seen.
    pub fact: Fact,
    /// Which measure: `server.utilisation`.
    pub measure: String,
    /// Its value, in the measure's own unit.
    pub value: f64,
    /// The fact in words, as the report put it for readers of the document. It is never read back.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Evidence {
    /// A fact and the measure behind it; a value that is not finite is 0.
    pub fn new(measure: impl Into<String>, value: f64, fact: Fact) -> Evidence {
        Evidence {
            fact,
            measure: measure.into(),
            value: if value.is_finite() { value } else { 0.0 },
            text: None,
        }
    }
}

/// What was seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Fact {
    /// Good answers per second.
    Throughput {
        /// How many.
        per_second: f64,
    },
    /// A side's use of what it may use.
    Used {
        /// Which side.
        side: Side,
        /// The share.
        share: f64,
        /// Of what.
        capacity: Capacity,
    },
    /// Cores that a side used.
    CoresUsed {
        /// Which side.
        side: Side,
        /// How many.
        cores: f64,
    },
    /// A quota ended early.
    Throttled {
        /// Of which side.
        side: Side,
        /// In this share of its periods.
        share: f64,
    },
    /// Threads waited for cores.
    RunWait {
        /// Of which side.
        side: Side,
        /// So many.
        cores: f64,
    },
    /// Network receive work on a side's processors.
    ReceiveWork {
        /// Whose.
        side: Side,
        /// The share.
        share: f64,
    },
    /// Others used cores of a side's processors.
    Others {
        /// Whose.
        side: Side,
        /// How many.
        cores: f64,
        /// Busy share of those processors, where it is worth a word.
        busy: Option<f64>,
        /// Cores that the side's threads waited for, where that is.
        waited: Option<f64>,
    },
    /// The relay that delays the link used cores of a side's processors.
    Relay {
        /// Whose.
        side: Side,
        /// How many.
        cores: f64,
    },
    /// How busy a side's processors were, everybody's work included.
    ProcessorsBusy {
        /// Whose.
        side: Side,
        /// The share.
        share: f64,
    },
    /// Processors that both sides share.
    Shared {
        /// How many.
        processors: u32,
        /// Their busy share.
        busy: f64,
    },
    /// One processor was full of network receive work.
    ReceivingCore {
        /// Which.
        cpu: u32,
        /// The share of that work.
        softirq: f64,
    },
    /// The busiest thread.
    HotThread {
        /// Its name.
        name: String,
        /// Its busy share.
        busy: f64,
    },
    /// Use of all the cores that it may use.
    OfAllCores {
        /// The share.
        share: f64,
        /// How many there are.
        cores: f64,
    },
    /// What threads used together.
    ThreadsUsed {
        /// Threads.
        threads: u32,
        /// Processes.
        processes: u32,
        /// Cores.
        cores: f64,
    },
    /// How full the load generator was.
    ClientFull {
        /// What shows it.
        sign: Sign,
    },
    /// How busy the load generator was.
    ClientBusy {
        /// The share.
        share: f64,
    },
    /// Throughput over the engine's own ceiling.
    CeilingShare {
        /// The share.
        share: f64,
        /// The ceiling, where it is worth a word.
        of: Option<f64>,
    },
    /// A link's use.
    LinkUse {
        /// Which way.
        wall: Wall,
        /// The share.
        share: f64,
    },
    /// The server was not seen.
    ServerNotSeen,
    /// Neither side was seen.
    NeitherSideSeen,
    /// What was in flight, and what answers account for.
    Unanswered {
        /// In flight on average.
        in_flight: f64,
        /// What the answers account for.
        answering: f64,
    },
    /// What failed.
    Failures {
        /// Of what was tried.
        share: f64,
        /// The class that failed most.
        class: String,
    },
    /// No connection was open.
    NoConnection {
        /// For this share of the window.
        share: f64,
    },
    /// There were no good answers.
    NoAnswers,
    /// Client hosts that were full.
    ClientHostsFull {
        /// Which.
        hosts: Vec<String>,
        /// Of so many.
        of: u32,
    },
    /// Client hosts whose own links were full.
    ClientLinksFull {
        /// Which.
        hosts: Vec<String>,
        /// Of so many.
        of: u32,
    },
    /// A client host that had processors left and was behind what an open loop asked of it, while others were not.
    ClientHostBehind {
        /// Which: of several the one that was furthest behind.
        host: String,
        /// Requests per second that were to start on it.
        asked: f64,
        /// Those that it sent.
        sent: f64,
        /// Other hosts of which the same is true.
        more: u32,
        /// Use of its own link, 0..1, where that was full.
        link: Option<f64>,
        /// Busy share of its processors, everybody's work included, where it was seen.
        processors: Option<f64>,
    },
    /// Requests of client hosts that were lost.
    Lost {
        /// Of so many nobody knows what became of them.
        unknown: u64,
    },
    /// Stolen time.
    Stolen {
        /// Of the processors in use.
        share: f64,
    },
    /// Gaps.
    Still {
        /// Of the window.
        share: f64,
    },
    /// The window's length.
    Window {
        /// Its length.
        seconds: f64,
    },
    /// What of the rate that was asked for ended in the window.
    RateReached {
        /// Requests per second that were asked for.
        asked: f64,
        /// Whether that is a mean.
        on_average: bool,
        /// The share that ended.
        share: f64,
        /// Of those the share that failed, where it is worth a word.
        failed: Option<f64>,
    },
    /// A resource alone was full.
    Phase {
        /// Which.
        wall: Wall,
        /// In this share of the ticks.
        share: f64,
    },
    /// Segments that were sent again.
    SentAgain {
        /// The share.
        share: f64,
    },
    /// Connections that found the accept queue full.
    AcceptQueue {
        /// How many.
        connections: f64,
    },
    /// Requests in flight.
    InFlight {
        /// On average.
        mean: f64,
        /// At the most.
        most: u64,
    },
    /// What a request took.
    Response {
        /// On average.
        seconds: f64,
    },
    /// Time in which connections pause.
    Pausing {
        /// The share.
        share: f64,
    },
    /// What of the allowed requests was in flight.
    OfAllowed {
        /// The share.
        share: f64,
    },
    /// There was one request at a time.
    OneAtATime,
    /// What explains a request's time.
    Explained {
        /// What.
        by: TimeOf,
        /// Which share.
        share: f64,
    },
    /// Connections waited at their sockets.
    AtSockets {
        /// For what.
        what: AtSockets,
        /// For this share of their busy time.
        share: f64,
    },
    /// The median, which is the mean too.
    Median {
        /// It.
        ms: f64,
    },
    /// How throughput goes on to the next step of a ramp.
    Growth {
        /// The neighbour's in-flight over this step's.
        load_ratio: f64,
        /// The same for throughput.
        throughput_ratio: f64,
    },
    /// What a squeeze did.
    Moved {
        /// It.
        moved: Moved,
        /// What the check of it saw; empty: nothing.
        check: String,
    },
    /// What several squeezes did at once.
    MovedTogether {
        /// They.
        squeezes: Vec<Squeeze>,
        /// What was taken, as a share of each.
        by: f64,
        /// Share of the throughput that went at the least and at the most; below 0: that came.
        lost: (f64, f64),
        /// Windows of it.
        rounds: u32,
    },
    /// The effect of nothing on throughput.
    Null {
        /// Its interval; `null`: too few windows.
        interval: Option<(f64, f64)>,
    },
    /// An added pause takes the load generator's processors as well as time.
    PauseIsWork {
        /// The part of them that is used.
        used: f64,
    },
    /// What the machine's own pace did to throughput.
    Pace {
        /// At the slowest: what it lost.
        lost: f64,
        /// At the fastest: what it won.
        won: f64,
        /// Share of the windows' variance that it explains.
        explained: f64,
    },
    /// Little's law for a request that is alone.
    Alone {
        /// What it takes.
        each_ns: f64,
        /// Requests per second.
        throughput: f64,
        /// How many at a time that is.
        at_once: f64,
    },
    /// What a side's CPU does.
    Cpu {
        /// Whose.
        side: Side,
        /// The category with the most.
        category: String,
        /// Its share.
        share: f64,
        /// The function with the most of its own.
        function: String,
        /// Its share.
        own: f64,
        /// Share of code without symbols, where there is more of that.
        nameless: Option<f64>,
    },
    /// The garbage collector's part of a side's CPU.
    Collector {
        /// Whose.
        side: Side,
        /// The share.
        share: f64,
    },
    /// The place that most of what waits waits at.
    Waiting {
        /// Where.
        place: Place,
        /// Its share of the time in which anything waits.
        share: f64,
        /// How many wait there at any moment.
        waiting: f64,
        /// Who waits.
        who: Waiters,
        /// Requests in flight, where most of them wait there.
        of_in_flight: Option<f64>,
        /// Whether squeezes have shown that it is not the wall.
        no_wall: bool,
        /// Whether waits for sockets are left out.
        but_sockets: bool,
    },
    /// What each request allocates.
    Allocated {
        /// Bytes.
        bytes: f64,
        /// The function with most of it.
        function: String,
    },
}

impl Fact {
    /// Whether a profiler saw it.
    pub fn is_of_profiles(&self) -> bool {
        matches!(
            self,
            Fact::Cpu { .. }
                | Fact::Collector { .. }
                | Fact::Waiting { .. }
                | Fact::Allocated { .. }
        )
    }

    /// Whether it was seen by squeezing something, or nothing.
    pub fn is_of_squeezes(&self) -> bool {
        matches!(
            self,
            Fact::Moved { .. }
                | Fact::MovedTogether { .. }
                | Fact::Null { .. }
                | Fact::PauseIsWork { .. }
                | Fact::Pace { .. }
                | Fact::Alone { .. }
        )
    }
}
