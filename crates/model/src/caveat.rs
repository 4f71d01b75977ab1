//! Doubt, typed: what a reader must know before believing a number.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::experiment::Squeeze;
use crate::reason::{Doubt, Side, Unsqueezed};

/// A reason for care. The report words it and gives advice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Caveat {
    /// The hypervisor took this share of the processors.
    StealAbove {
        /// Mean share over all cores, 0..1.
        share: f64,
    },
    /// Requests failed.
    Errors {
        /// Failed among answered and failed, 0..1.
        share: f64,
        /// The class that failed most.
        class: String,
    },
    /// Good answers were redirects: the load measured those, and not what they lead to.
    Redirects {
        /// How many.
        count: u64,
        /// Answers of every status.
        answers: u64,
        /// The statuses of the redirects.
        statuses: Vec<u16>,
    },
    /// For a part of the window no connection to the target was open, and none could be opened.
    Unreachable {
        /// When that began first, from the window's start; `null`: not known.
        at_ns: Option<u64>,
        /// For how long, all together.
        for_ns: u64,
        /// Length of the window.
        window_ns: u64,
        /// How many times.
        outages: u64,
    },
    /// Requests had no answer when the load ended and the wait for them was over.
    Unanswered {
        /// Sent, and not answered.
        in_flight: u64,
        /// Due in an open loop, and not sent.
        not_sent: u64,
        /// Age of the oldest, from its intended instant.
        oldest_ns: u64,
        /// How long they were waited for after the window.
        waited_ns: u64,
        /// Percentiles that they could move, such as `p99`: lower bounds.
        bounds: Vec<String>,
    },
    /// Requests timed out that might not have, had the load generator itself been in time.
    LateByClient {
        /// How many.
        count: u64,
        /// Of so many that timed out.
        timeouts: u64,
    },
    /// Fewer connections were open than the load asked for.
    FewerConnections {
        /// Asked for.
        asked: u64,
        /// Open at a time, at the most.
        most: u64,
        /// Open, the mean over the window.
        mean: f64,
        /// Connections that brought an answer.
        answering: u64,
    },
    /// A server that was started for the run ended during the load.
    SubjectEnded {
        /// How, such as `exit status 3`.
        how: String,
        /// The last lines of what it said on standard error.
        said: String,
    },
    /// The workers ran late against their own schedule.
    WorkersLate {
        /// 99.9th percentile of lateness.
        p999_ns: u64,
    },
    /// The offered rate was not reached.
    RateMissed {
        /// Requests per second asked for.
        asked: f64,
        /// Requests per second sent.
        sent: f64,
    },
    /// N and X·R disagree: the numbers cannot all be right.
    LittleMismatch {
        /// Mean in flight divided by throughput times mean latency; 1 when they agree.
        ratio: f64,
    },
    /// Throughput changed within the window.
    NotSteady {
        /// The later level divided by the earlier.
        ratio: f64,
        /// When, from the window's start.
        at_ns: u64,
    },
    /// Client and server shared processors.
    SharedProcessors {
        /// The processors that both ran on.
        cpus: Vec<u32>,
    },
    /// Somebody else used the processors of a side.
    Neighbour {
        /// Whose.
        side: Side,
        /// Cores used by others.
        cores: f64,
    },
    /// Receive work of one side ran on the other side's processors.
    SoftirqElsewhere {
        /// Whose processors did the work.
        side: Side,
        /// Share of those processors, 0..1.
        share: f64,
    },
    /// A client host of several was lost: what the step shows is of less load than was asked for.
    ClientLost {
        /// Which.
        host: String,
        /// Why.
        why: String,
        /// Requests of which nobody knows what became of them.
        unknown: u64,
    },
    /// The server's processes could not be seen.
    ServerNotSeen {
        /// Why, and the way out; empty where that is not known.
        why: String,
    },
    /// Too few answers for the quantiles shown.
    FewAnswers {
        /// Answers in the window.
        answers: u64,
    },
    /// So few answers for what was in flight that those under way at the window's ends count.
    FewTurns {
        /// Answers in the window.
        answers: u64,
        /// Requests in flight at the most.
        in_flight: u64,
    },
    /// Others disturbed the step, and it was measured again: another step has its place.
    MeasuredAgain {
        /// What they did.
        why: String,
    },
    /// A step of the plan did not run.
    LeftOut {
        /// Its name.
        step: String,
        /// Why.
        why: String,
    },
    /// The measured window was shorter than planned.
    WindowCut {
        /// Planned length.
        planned_ns: u64,
        /// Actual length.
        actual_ns: u64,
    },
    /// The machine or this process stood still.
    Gap {
        /// Length of the gap.
        gap_ns: u64,
        /// When, from the start of the step.
        at_ns: u64,
    },
    /// Telemetry stood still, and the load went on: full processors left it no room.
    TelemetryGap {
        /// Length of the gap.
        gap_ns: u64,
        /// When, from the start of the step.
        at_ns: u64,
    },
    /// The wall clock was stepped during the run.
    ClockStepped {
        /// By how much; negative: back.
        by_ns: i64,
    },
    /// A processor group was throttled.
    Throttled {
        /// Whose.
        side: Side,
        /// Share of the window in which it was, 0..1.
        share: f64,
    },
    /// A foreign driver's report was not understood: throughput is from the wire.
    DriverReportUnread {
        /// What was looked for; empty where it is not known.
        why: String,
    },
    /// A foreign driver's command neither takes the target nor names an address that could be checked:
    /// where its load went is not known.
    DriverTargetUnchecked,
    /// A foreign driver's time goes on to a whole second after its last answer: throughput is of what the window had.
    DriverTimeRounded {
        /// The driver.
        driver: String,
        /// The time that it tells of.
        duration_ns: u64,
        /// The requests that took less.
        requests: u64,
    },
    /// A foreign driver prints more answers per second than it counted: throughput is of those that it counted.
    DriverPrintsMore {
        /// The driver.
        driver: String,
        /// What it prints per second.
        printed: f64,
        /// What it counted.
        counted: u64,
        /// In this time.
        duration_ns: u64,
    },
    /// A foreign driver tells latency in steps.
    LatencyInSteps {
        /// The driver.
        driver: String,
        /// One of them.
        step_ns: u64,
    },
    /// A foreign driver adds latencies of requests that it never sent.
    LatencyMadeUp {
        /// The driver.
        driver: String,
        /// Whether its mean and quantiles, of both, are told; else the largest alone.
        is_told: bool,
    },
    /// A foreign driver ended and left processes running, which were ended too.
    DriverLeftRunning {
        /// The driver's command.
        command: String,
        /// How many.
        processes: u64,
        /// Some of them.
        names: Vec<String>,
    },
    /// Throughput is counted on the wire by the weight of our own requests, for the driver's were not weighed.
    DriverNotWeighed {
        /// Why.
        why: String,
    },
    /// Nothing was profiled.
    NothingProfiled {
        /// Why; `null`: the load was not seen for long enough.
        why: Option<String>,
    },
    /// The mix was not held with other weights, so requests that cost each other are not told.
    OtherWeightsUnmeasured {
        /// Why.
        why: String,
    },
    /// The ceiling of the workers was not measured.
    NoCeiling {
        /// Why.
        why: String,
    },
    /// A server was started anew, and what is made before a load was not made at it.
    UnpreparedServer {
        /// Why.
        why: String,
        /// The round before which that was, from 1.
        round: u32,
    },
    /// Requests failed at such a server: its windows are left out.
    UnpreparedServerFails,
    /// For the same reason nothing is asked of the server after the squeezes.
    NothingMoreAsked {
        /// Why.
        why: String,
    },
    /// The clock of another host moved against this one's.
    HostClockMoved {
        /// The host.
        host: String,
        /// By how much, in either direction.
        by_ns: u64,
    },
    /// A host was lost while it was watched.
    WatchLost {
        /// `client`, `server` or `backend`.
        role: String,
        /// Why.
        why: String,
    },
    /// One host of several, or its agent, stood still.
    HostStoodStill {
        /// The host.
        host: String,
        /// For how long.
        gap_ns: u64,
        /// When, from the start of the step.
        at_ns: u64,
    },
    /// Servers of several hosts are not used evenly.
    ServersUneven {
        /// The host that is used most.
        most: String,
        /// The use of its processors, 0..1.
        most_used: f64,
        /// The host that is used least.
        least: String,
        /// The use of its processors, 0..1.
        least_used: f64,
    },
    /// Client and server have processors that are siblings on one core.
    SharedCores {
        /// The client's.
        client: Vec<u32>,
        /// The server's.
        server: Vec<u32>,
    },
    /// Steps were measured in runs that were cut short, where their samples and profiles are.
    MeasuredBefore {
        /// How many.
        steps: u64,
        /// The runs.
        runs: Vec<String>,
    },
    /// The run was interrupted or killed.
    Incomplete {
        /// What is missing.
        what: String,
    },
    /// Samples fell outside the histogram.
    BeyondHistogram {
        /// How many.
        count: u64,
    },
    /// The peer did something odd that was survived.
    Anomaly {
        /// Which, such as `h1.length_and_chunked`.
        what: String,
        /// How many times.
        count: u64,
    },
    /// Samples were dropped for want of room: what is kept is no sample of the whole.
    SamplesDropped {
        /// How many.
        count: u64,
    },
    /// The server's certificate was not looked at: anybody may have answered.
    NotVerified,
    /// In an open loop, requests were to start in the window and were not sent in it.
    Backlog {
        /// How many.
        requests: u64,
    },
    /// The relay that delays a link's packets lost some, was late, or was busy: it may be the
    /// limit, and not the link.
    RelayBehind {
        /// The delay that it is to add, in each direction.
        delay_ns: u64,
        /// Packets that it lost.
        dropped: u64,
        /// 99th percentile of how late packets left.
        late_p99_ns: u64,
        /// Share of a processor that it was busy for, 0..1.
        busy_share: f64,
    },
    /// A card's driver counted packets that were held up or lost because more was sent than is allowed: by who rents
    /// the machine out.
    AllowanceExceeded {
        /// The interface.
        interface: String,
        /// By the driver's own names, how often in the window.
        counted: BTreeMap<String, u64>,
    },
    /// There were more workers than processors for them.
    WorkersTakeTurns {
        /// Workers.
        workers: u64,
        /// Processors.
        cpus: u64,
    },
    /// Nobody counted failures: a driver's report was not understood, and on the wire an error is as good
    /// as an answer.
    FailuresUncounted,
    /// With no squeeze a driver's bytes come at another rate than those of the load that it reported on.
    OtherAnswers {
        /// Bytes per second over those of that load.
        ratio: f64,
    },
    /// What is said of the windows of a foreign driver does not hold its failures and latencies.
    FailuresUnseen {
        /// Failures by its own report of the load before any squeeze, 0..1; `null`: not known, or many.
        reported: Option<f64>,
    },
    /// There were too few windows with nothing squeezed to compare them.
    NullUnknown,
    /// Windows with nothing squeezed are not known to read alike.
    NullWide {
        /// Lower end of their effect on each other, a share of throughput.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// A wall is likely, and not proved.
    LikelyOnly {
        /// Why.
        doubt: Doubt,
    },
    /// A wall is proved, though windows with nothing squeezed are not known to read alike.
    ProvedAllTheSame {
        /// The squeeze that it rests on; `None`: that no squeeze reaches it.
        squeeze: Option<Squeeze>,
        /// What it still reads, with the most that nothing may have cost taken from it.
        least: f64,
    },
    /// On shared processors the client may use what a squeeze takes from the server.
    Fed {
        /// By how much the server's elasticities may be larger than they read.
        most: f64,
    },
    /// A server got faster for a while before it was squeezed.
    Warmed {
        /// For how long that was waited for.
        for_ns: u64,
        /// The later throughput over the first.
        ratio: f64,
        /// Whether it was over by then.
        over: bool,
    },
    /// Sessions last longer than the windows that tell what each of a mix costs, so nothing of the mix is told apart.
    SessionsOutlast {
        /// The sessions.
        session: String,
        /// How long one takes, in the mean.
        took_ns: u64,
        /// How long a window may be.
        window_ns: u64,
    },
    /// A wall is that of telemetry, for squeezes that would tell were out of reach.
    NotSqueezed {
        /// Which.
        missing: Unsqueezed,
    },
    /// By telemetry a resource should cost throughput at half, and its squeeze did not.
    Inert {
        /// Which squeeze.
        squeeze: Squeeze,
    },
    /// A squeeze was out of reach.
    OutOfReach {
        /// Which.
        squeeze: Squeeze,
        /// Why.
        why: String,
    },
    /// Answers take longer than the wait between two windows.
    OutlastWashOut,
    /// A squeeze of processors cost more than processors that idle so much can.
    OverUse {
        /// Which.
        squeeze: Squeeze,
        /// What it read.
        measured: f64,
        /// What of that can be the processors' speed.
        most: f64,
        /// Cores that were at work.
        cores: f64,
    },
    /// Throughput rose under a squeeze.
    Rose {
        /// Which.
        squeeze: Squeeze,
        /// Its elasticity, which is below 0.
        value: f64,
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
        /// Whether a foreign driver's answers are counted by their bytes.
        by_bytes: bool,
    },
    /// A squeeze was not in force in many of its windows.
    NotInForce {
        /// Which.
        squeeze: Squeeze,
        /// In this share of them.
        share: f64,
    },
    /// An experiment ended early.
    CutShort {
        /// Why.
        why: String,
    },
    /// Something else, in the words of whoever measured.
    Note {
        /// The words.
        text: String,
    },
}
