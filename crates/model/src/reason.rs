//! Why a verdict is what it is: one variant for each conclusion, with the numbers behind it.
//!
//! The judge decides and fills these in; the report words them. Nothing here is a sentence.
//!
//! Numbers are finite: one that is not known is an `Option`.

use serde::{Deserialize, Serialize};

use crate::detail::{AtSockets, Detail, Exhausted};
use crate::experiment::Squeeze;
use crate::gate::Gate;
use crate::verdict::Wall;

/// A side of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// What is loaded.
    Server,
    /// What loads it.
    Client,
}

impl Side {
    /// `server`, as measures begin.
    pub const fn label(self) -> &'static str {
        match self {
            Side::Server => "server",
            Side::Client => "client",
        }
    }
}

/// Processor time that a side may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capacity {
    /// Cores.
    pub cores: f64,
    /// Whether a quota sets it, and not the number of processors.
    pub quota: bool,
}

/// Somebody, and the cores that they used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Named {
    /// The name.
    pub name: String,
    /// Cores.
    pub cores: f64,
}

/// What shows that a resource was full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Sign {
    /// A quota was used up.
    Quota {
        /// Share of it that was used.
        used: f64,
        /// The quota.
        capacity: Capacity,
        /// Share of its periods in which it ended early, where it did.
        throttled: Option<f64>,
    },
    /// Its processors were busy with others' work.
    ByOthers {
        /// Busy share of the processors.
        busy: f64,
        /// Share with its own work.
        own: f64,
    },
    /// Its processors were busy, with network receive work among it.
    ReceiveWork {
        /// The processors.
        capacity: Capacity,
        /// Busy share.
        busy: f64,
        /// Share of receive work.
        softirq: f64,
    },
    /// Its processors were busy.
    Busy {
        /// The processors.
        capacity: Capacity,
        /// Busy share.
        busy: f64,
    },
    /// One processor did the network's receive work, and the mean over all hides it.
    ReceivingCore {
        /// Which.
        cpu: u32,
        /// Its share of receive work.
        softirq: f64,
        /// Cores of the side.
        cores: f64,
    },
    /// Threads of one name were full.
    HotThreads {
        /// The name.
        name: String,
        /// How many.
        threads: u32,
        /// Busy share of the hottest.
        busy: f64,
        /// Cores that they may use.
        cores: f64,
    },
    /// Threads together used as much as if one ran at a time.
    InTurn {
        /// Threads.
        threads: u32,
        /// Cores used.
        used: f64,
        /// Cores that they may use.
        cores: f64,
    },
    /// A link carried this share of its rate.
    LinkUse {
        /// The share.
        share: f64,
    },
    /// The engine's workers were busy.
    Workers {
        /// How many.
        workers: u32,
        /// Busy share.
        busy: f64,
    },
    /// The engine drove this share of what its workers can.
    Ceiling {
        /// The share.
        share: f64,
        /// What they can drive, requests per second.
        throughput: f64,
    },
    /// Every thread of a driver that works was busy.
    WorkingThreads {
        /// How many.
        threads: u32,
        /// Busy share of the hottest.
        busy: f64,
    },
    /// One thread of a driver was full, and others not.
    DriverThread {
        /// Its name.
        name: String,
        /// Busy share.
        busy: f64,
    },
}

/// A resource, and what shows that it was full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Full {
    /// Which wall it would be.
    pub wall: Wall,
    /// What shows it.
    pub sign: Sign,
}

/// What of the others is worth a word beside a wall, where it was seen.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Beside {
    /// The server's use, and of what.
    pub server: Option<(f64, Capacity)>,
    /// The load generator's busy share.
    pub client: Option<f64>,
}

/// A wall with a part of the throughput.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// The wall.
    pub wall: Wall,
    /// Its elasticity, or its share of time.
    pub value: f64,
}

/// Others' processes that had the processors, while neither side used anything of them to speak of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrowdedOut {
    /// Whether both sides were on the same processors.
    pub together: bool,
    /// Each side that was seen.
    pub sides: Vec<CrowdedSide>,
    /// Who used processors before the load, where that is known.
    pub before: Vec<Named>,
}

/// One side among others' processes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CrowdedSide {
    /// Which.
    pub side: Side,
    /// Cores that others used.
    pub others: f64,
    /// Cores that there are.
    pub cores: u32,
    /// Cores that it used itself.
    pub used: f64,
}

/// What a squeeze did to throughput.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Moved {
    /// The squeeze.
    pub squeeze: Squeeze,
    /// What was taken, as a share of the resource; of more in flight what was added; of a pause its length
    /// as a share of the response time.
    pub by: f64,
    /// Share of the throughput that went; below 0: that came.
    pub lost: f64,
}

/// What the squeezes did that a sentence is not about.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rest {
    /// Whether there were any.
    pub squeezed: bool,
    /// Those that moved throughput, with their elasticities.
    pub moving: Vec<(Squeeze, f64)>,
    /// Whether throughput rose under one.
    pub rises: bool,
}

/// Why squeezes that would tell did not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unsqueezed {
    /// The squeeze that is missing.
    pub squeeze: Squeeze,
    /// Why it was out of reach; `null`: it was not tried.
    pub why: Option<String>,
    /// Who had the processors, where neither side did.
    pub others: Option<CrowdedOut>,
}

impl Unsqueezed {
    /// Whether the list of squeezes that were out of reach says all of it.
    pub fn is_listed(&self) -> bool {
        self.why.is_some() && self.others.is_none()
    }
}

/// Why nothing can be built on what a squeeze read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Odd {
    /// Its interval is as wide as what it could be.
    TooWide,
    /// Less in flight costs certainly more than all of it is worth.
    MoreThanItsShare,
}

/// What a request's time is, where nothing queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TimeOf {
    /// The work of both sides.
    Work,
    /// The round trip.
    RoundTrip,
}

/// Why squeezes decided nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Open {
    /// The experiment ended early.
    CutShort {
        /// Why.
        why: String,
    },
    /// A squeeze read what cannot be built on.
    Odd {
        /// Which.
        squeeze: Squeeze,
        /// What.
        odd: Odd,
    },
    /// Others had the processors.
    CrowdedOut {
        /// Who.
        others: CrowdedOut,
    },
    /// The doses of a squeeze disagree.
    DosesDisagree {
        /// Which.
        squeeze: Squeeze,
    },
    /// An elasticity is not known well enough.
    Wide {
        /// Of which squeeze.
        squeeze: Squeeze,
        /// Lower end of its interval.
        low: f64,
        /// Upper end.
        high: f64,
        /// After so many rounds.
        rounds: u32,
    },
    /// The server answers a quota and not slower processors, and has no quota.
    QuotaWithout,
    /// Nothing that was squeezed moves throughput.
    NothingMoves {
        /// Whether telemetry shows both sides waiting.
        idle: bool,
    },
    /// What moves throughput most is not enough to be a wall.
    NotEnough {
        /// Which squeeze.
        squeeze: Squeeze,
        /// Its elasticity.
        value: f64,
    },
    /// Two resources move throughput, and which of them binds first is not known.
    EitherFirst {
        /// The one that seems to.
        first: Wall,
        /// The other.
        second: Wall,
        /// The second's ceiling over the first's, at the least.
        low: f64,
        /// At the most.
        high: f64,
    },
    /// No squeeze was in force.
    NothingInForce,
}

/// When and for how long no connection to the server was open, and none could be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unreachable {
    /// When that began first, from the window's start.
    pub at_ns: Option<u64>,
    /// For how long, all together.
    pub for_ns: u64,
    /// How many times.
    pub outages: u64,
}

/// How requests ended that got no good answer, or why there were none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Ended {
    /// Attempts to connect failed.
    NotConnected {
        /// How many.
        count: u64,
        /// As what.
        class: String,
    },
    /// They were to start in an open loop, and never were sent.
    NotSent {
        /// How many.
        count: u64,
    },
    /// They failed.
    Failed {
        /// How many.
        count: u64,
        /// As what.
        class: String,
        /// The statuses of that class, and how often each came.
        statuses: Vec<(u16, u64)>,
        /// Of those that timed out: so many were never sent.
        unsent: Option<u64>,
    },
    /// They were in flight when the window closed.
    InFlight {
        /// How many.
        count: u64,
    },
    /// A foreign driver reports no good answer, and nothing else is known.
    NoneReported {
        /// Which.
        driver: String,
    },
    /// No request was sent in the window.
    NoneSent,
    /// Connections pause between requests for longer than the window.
    Pause {
        /// For so long.
        pause_ns: u64,
        /// Length of the window.
        window_ns: u64,
    },
}

/// Why a verdict is what it is. Of a wall that is inconclusive: why it is not decided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reason {
    // What says nothing of walls.
    /// Requests without an answer were most of what was in flight.
    UnansweredHoldMost {
        /// How many.
        in_flight: u64,
    },
    /// The load generator's host ran out of something.
    RanOut {
        /// Of what.
        of: Exhausted,
    },
    /// The server could not be reached for a part of the window.
    Unreachable(Unreachable),
    /// Too much failed.
    TooManyFailures {
        /// Of what was tried, 0..1.
        share: f64,
        /// The class that failed most.
        class: String,
    },
    /// Nothing was answered well.
    NothingAnswered {
        /// How requests ended, as counted.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ended: Vec<Ended>,
        /// The same in words, as the report put it for readers of the document; read back only where that is
        /// all that a record has.
        why: Option<String>,
    },
    /// The hypervisor took too much.
    Stolen {
        /// Of the processors in use, 0..1.
        share: f64,
    },
    /// The machine, or this process, stood still.
    StoodStill {
        /// Of the window, 0..1.
        share: f64,
    },
    /// The window is too short for counters of processors.
    WindowTooShort {
        /// Its length.
        seconds: f64,
    },
    /// Neither side was seen.
    NeitherSideSeen,
    /// Client hosts were lost, and with them a part of the load.
    ClientsLost {
        /// Which.
        hosts: Vec<String>,
    },

    // From telemetry.
    /// The load asked for no more.
    Offered {
        /// Requests per second that were asked for.
        asked: f64,
        /// Whether that is a mean.
        on_average: bool,
        /// Requests per second that were answered.
        answered: f64,
        /// A resource that is all but full.
        full: Option<Full>,
    },
    /// Each resource was full for a part of the time.
    Phases {
        /// Shares of the ticks.
        parts: Vec<Part>,
    },
    /// Others had the processors.
    CrowdedOut {
        /// Who.
        others: CrowdedOut,
    },
    /// Client and server share processors, and those were full.
    SharedProcessors {
        /// The side that is named, where one is.
        wall: Option<Wall>,
        /// Busy share of the processors.
        busy: f64,
        /// Of what was used, the client's part.
        client: f64,
        /// A link that was full too.
        link: Option<Full>,
    },
    /// One resource was full.
    Full {
        /// Which, and what shows it.
        full: Full,
        /// What was not.
        beside: Beside,
    },
    /// One resource was full, and another nearly.
    FullAndNear {
        /// The fuller one.
        full: Full,
        /// The other.
        near: Full,
    },
    /// Several resources were full.
    SeveralFull {
        /// Which.
        full: Vec<Full>,
    },
    /// The server was not seen.
    ServerNotSeen {
        /// How busy the load generator was, where it had room.
        client: Option<f64>,
    },
    /// Others used processors of both sides, or of one that waited for them.
    OthersToo {
        /// Their share of each side's processors.
        sides: Vec<(Side, f64)>,
    },
    /// So little is in flight that nothing fills.
    GreaterPart {
        /// What takes the greater part of a request's time.
        wall: Wall,
        /// Its busy share.
        busy: f64,
    },
    /// One resource came near, and was not surely full.
    Nearest {
        /// Which.
        full: Full,
    },
    /// Connections found the accept queue full.
    AcceptQueue {
        /// How many.
        connections: f64,
    },
    /// Connections pause between requests.
    ThinkTime {
        /// For so long.
        pause_s: f64,
        /// A request takes so long.
        response_s: f64,
    },
    /// Far less is in flight than the load allows.
    HeldBack {
        /// What the load allows.
        allowed: f64,
        /// What is in flight.
        in_flight: f64,
    },
    /// There is one request at a time.
    OneAtATime,
    /// A request's time is known, and nothing queues.
    Explained {
        /// What it is.
        by: TimeOf,
        /// A request takes so long.
        response_s: f64,
        /// Of which this is explained.
        part_s: f64,
    },
    /// Each connection waits for room in a window.
    WindowLimited {
        /// Which.
        what: AtSockets,
        /// Share of its busy time, 0..1.
        share: f64,
    },
    /// Every answer takes the time of a delayed acknowledgement.
    DelayedAck {
        /// The median.
        ms: f64,
    },
    /// Nothing was full; what is in flight makes one of two walls likelier.
    NothingFull {
        /// Whether little was in flight.
        few: bool,
    },

    // From neighbouring steps of a ramp.
    /// Throughput grows with what is in flight.
    Grows {
        /// The neighbour's in-flight over this step's.
        load_ratio: f64,
        /// The same for throughput.
        throughput_ratio: f64,
    },
    /// A resource came near, and more in flight brings no more answers.
    NearAndFlat {
        /// Which.
        wall: Wall,
        /// Its busy share.
        busy: f64,
    },
    /// Nothing was full, and more in flight brings no more answers.
    IdleAndFlat {
        /// The neighbour's in-flight over this step's.
        load_ratio: f64,
        /// What the wait is made of.
        detail: Option<Detail>,
    },
    /// A resource looked full, and yet throughput grew from here on.
    Unmasked {
        /// Which.
        was: Wall,
        /// In flight at the next step.
        in_flight: u64,
        /// Its throughput over this step's.
        throughput_ratio: f64,
    },

    // From squeezes.
    /// A gate failed, and nothing can be said.
    GateFailed {
        /// Which.
        gate: Gate,
    },
    /// The experiment ended before any squeeze told.
    EndedEarly {
        /// Why.
        why: String,
    },
    /// No squeeze was in force in any window.
    NothingInForce,
    /// Starts of the server say different things of a squeeze.
    StartsDisagree {
        /// Which.
        squeeze: Squeeze,
    },
    /// One squeeze moves throughput.
    Moved {
        /// The wall that it names.
        wall: Wall,
        /// What it did.
        moved: Moved,
        /// What the others did.
        rest: Rest,
    },
    /// One squeeze moves throughput, and another resource binds a little later.
    MovedFirst {
        /// What it did.
        moved: Moved,
        /// What binds next.
        next: Wall,
        /// At so many times this throughput.
        ratio: f64,
    },
    /// Less in flight costs throughput.
    TooLittleInFlight {
        /// What less did.
        fewer: Moved,
        /// What more did, where it carried more.
        more: Option<Moved>,
    },
    /// Nothing that was squeezed costs throughput, and more connections carry more.
    HeldPerConnection {
        /// What more did.
        more: Moved,
    },
    /// Nothing that was squeezed costs throughput, and fewer client hosts do.
    HeldPerClient {
        /// What fewer did.
        fewer: Moved,
    },
    /// Less in flight costs throughput, and every answer waits for what telemetry names.
    NamedWait {
        /// What is waited for.
        detail: Detail,
        /// What less in flight did.
        fewer: Moved,
    },
    /// What is in flight just fills something.
    JustFills {
        /// What.
        wall: Wall,
        /// What less did.
        fewer: Moved,
        /// What more did.
        more: Moved,
    },
    /// Several resources bind at the same throughput.
    Coincide {
        /// Which.
        walls: Vec<Wall>,
    },
    /// Throughput answers to several resources in part.
    Shares {
        /// Which, with their elasticities.
        parts: Vec<Part>,
    },
    /// Each resource is full for a part of the time, and squeezes say so too.
    PhasesAndShares {
        /// Shares of the ticks.
        phases: Vec<Part>,
        /// Elasticities.
        parts: Vec<Part>,
    },
    /// Nothing that was squeezed moves throughput: something inside holds it.
    HeldInside {
        /// At this many a second.
        throughput: f64,
    },
    /// Nothing that was squeezed moves throughput, and answers are on their way between two hosts meanwhile.
    BetweenHosts {
        /// Share of a connection's time with an answer on its way.
        busy_share: f64,
        /// The median round trip that its packets see.
        rtt_us: u32,
        /// The shortest that any has seen; `None`: not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rtt_min_us: Option<u32>,
        /// Share of the server's segments that were sent again; `None`: not known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sent_again: Option<f64>,
        /// What each of the connections carried, in bits per second, where they are few.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flow_bits: Option<f64>,
        /// Whether everything that can be squeezed was, and moved nothing.
        #[serde(default = "yes")]
        squeezed: bool,
    },
    /// Requests queue inside for a part of their time.
    QueuedInside {
        /// What less in flight did.
        fewer: Moved,
    },
    /// A foreign driver has far fewer connections open than it was asked for.
    FewConnections {
        /// Asked for.
        asked: u32,
        /// Open.
        open: u32,
    },
    /// What telemetry says, for the squeezes that would tell were out of reach.
    ByTelemetry {
        /// What squeezes rule out.
        ruled_out: Vec<Wall>,
        /// Why telemetry says so.
        observed: Box<Reason>,
    },
    /// Squeezes that would tell were out of reach, and telemetry does not decide either.
    OutOfReach {
        /// What squeezes rule out.
        ruled_out: Vec<Wall>,
        /// What telemetry says, where a squeeze rules that out.
        against: Option<Wall>,
        /// What is missing.
        missing: Unsqueezed,
    },
    /// Squeezes were in reach and decided nothing.
    Undecided {
        /// What they rule out.
        ruled_out: Vec<Wall>,
        /// Why nothing was decided.
        why: Open,
    },

    /// Too much speaks against what would be concluded.
    TooLittleConfidence {
        /// Why it would be.
        of: Box<Reason>,
    },
}

/// Why a wall that squeezes name is not called proved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Doubt {
    /// It rests on few rounds.
    FewRounds {
        /// So many.
        rounds: u32,
        /// A proof needs so many.
        needed: u32,
    },
    /// One squeeze told in few rounds at the dose that counts.
    FewRoundsOf {
        /// Which.
        squeeze: Squeeze,
        /// So many.
        rounds: u32,
        /// A proof needs so many of each.
        needed: u32,
    },
    /// Its interval lies above a half, but not once the chances of an error are shared.
    ChancesShared,
    /// Its interval reaches below a half.
    BelowHalf,
    /// Its small dose moves less than its share of the large one.
    Bent,
    /// The same of a squeeze that stands alone: something that was not squeezed binds before it.
    BentAlone {
        /// Which.
        squeeze: Squeeze,
    },
    /// The small dose moves more than the large one.
    DosesDisagree {
        /// Of which squeeze.
        squeeze: Squeeze,
    },
    /// Its small dose told in few rounds.
    SmallDoseFew {
        /// So many.
        rounds: u32,
        /// So many are needed.
        needed: u32,
    },
    /// Its small dose is not known to move anything.
    SmallDoseNothing,
    /// Its small dose moves less than half of what a wall would.
    SmallDoseLittle,
    /// More in flight is not known to have carried more.
    MoreInVain,
    /// That a wall has its share is not beyond doubt.
    ShareUnsure {
        /// Which.
        wall: Wall,
    },
    /// That most of a request's time is out of every squeeze's reach is not beyond doubt.
    WaitUnsure,
    /// A squeeze that should have bound by telemetry did not.
    Inert,
    /// Others' work on its processors was not squeezed apart.
    OthersNotSqueezed,
    /// How many processors the server may use is not known.
    ProcessorsUnknown,
    /// Two squeezes of one processor contradict each other.
    Contradiction,
    /// Telemetry alone tells all processors from one thread.
    CapacityUnknown,
    /// The server's speed was not squeezed, or answers too little to be called slack.
    SpeedUnknown,
    /// The load generator answers a quota, and none of its own is known.
    QuotaUnknown,
}

/// What records of before did not say was so.
fn yes() -> bool {
    true
}
