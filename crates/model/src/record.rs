//! Everything one run measured, complete enough to be judged again later.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::caveat::Caveat;
use crate::chart::Chart;
use crate::environment::Environment;
use crate::experiment::Experiment;
use crate::plan::{Load, Plan, Target};
use crate::profile::{FUNCTIONS_MAX, FunctionPart, Profiles, Reading};
use crate::scenario::Scenario;
use crate::sizes::Sizes;
use crate::telemetry::{CpuUse, Sample, Telemetry};
use crate::verdict::Verdict;

/// Version of the shape below. A reader refuses what is newer than itself.
pub const SCHEMA: &str = "wallfinder.record/2";

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// [`SCHEMA`]; of a record that was read, that of its files.
    pub schema: String,
    /// Name of the folder, such as `20261120T140211Z-ramp-simple`.
    pub id: String,
    /// Start, UTC, RFC 3339.
    pub started_utc: String,
    /// Version of the tool, with the revision of its sources where that was known to the build: `0.1.0+26ff8c9f`.
    pub tool_version: String,
    /// The command line, secrets redacted.
    pub command_line: Vec<String>,
    /// All that was asked for, secrets redacted; studies have their own files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scenario: Option<Scenario>,
    /// What was asked for, as it was known once the server stood.
    pub plan: Plan,
    /// Where it ran.
    pub environment: Environment,
    /// The server's host, where that is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_environment: Option<Environment>,
    /// What was measured.
    pub steps: Vec<Step>,
    /// What holds for the run as a whole.
    pub caveats: Vec<Caveat>,
    /// Whether every planned step ended as planned.
    pub complete: bool,
    /// Why it ended early, such as `SIGINT`.
    pub interrupted: Option<String>,
    /// Two settings side by side, when the run compared some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ab: Option<Ab>,
    /// Answers of several sizes, when the run was about bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// Claims, when the run was a study.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<ClaimOutcome>,
    /// Pictures of a study's numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub charts: Vec<Chart>,
}

/// One load held for a warm-up and a measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// Position in the run, from 0.
    pub index: u32,
    /// Name in tables.
    pub name: String,
    /// The URL.
    pub target: Target,
    /// The load asked for.
    pub load: Load,
    /// What produced it.
    pub driver: Driver,
    /// Start of the schedule, UTC, RFC 3339.
    pub started_utc: String,
    /// Length of the measured window.
    pub window_ns: u64,
    /// Counts of the measured window, and the identity that they obey.
    pub counts: Counts,
    /// Good answers per second of the window.
    pub throughput: f64,
    /// Mean requests in flight over the window, counted and not inferred.
    pub in_flight_mean: f64,
    /// Jain's index of good answers over connections (over its clients, where Go's echo
    /// clients tell): 1 where all had as many, 1/n where one of n had them all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    /// What became of the requests in flight when the window closed; a foreign driver does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained: Option<Drained>,
    /// How many connections were open; a foreign driver does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_connections: Option<OpenConnections>,
    /// From the intended instant to the last byte.
    pub latency: Option<Histogram>,
    /// From the first byte handed to the socket to the last byte received.
    pub service: Option<Histogram>,
    /// From the first byte handed to the socket to the first byte received.
    pub first_byte: Option<Histogram>,
    /// From the intended instant to the first byte handed to the socket, while a
    /// connection was free: how late the worker itself was.
    pub lateness: Option<Histogram>,
    /// The window in slices of about 100 ms, warm-up included (`at_ns` below the warm-up).
    pub intervals: Vec<Interval>,
    /// When no connection was open, within the window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// Its kinds of request, where they are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestKind>,
    /// Its kinds of session, where it has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<SessionKind>,
    /// Windows in which their weights were drawn anew, to tell what each costs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mix_windows: Vec<MixWindow>,
    /// The rarest of many, of which these windows tell only together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool>,
    /// Which of them cost each other, beyond doubt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interference: Vec<Interference>,
    /// Telemetry of the window.
    pub telemetry: Telemetry,
    /// What the engine could drive at most for such a load.
    pub ceiling: Option<Ceiling>,
    /// How each worker did; those of one client host after those of the other.
    pub workers: Vec<WorkerSummary>,
    /// What each client host did, where several made the load together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientPart>,
    /// Where its requests are kept one by one, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<Samples>,
    /// What profilers saw of the server within the window, where they were asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiles: Option<Profiles>,
    /// The same of the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_profiles: Option<Profiles>,
    /// Its place in a study's table, where the study sends messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cell: Option<Cell>,
    /// Doubts that were met while measuring; those of the judge stand in the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub caveats: Vec<Caveat>,
    /// The verdict.
    pub verdict: Option<Verdict>,
    /// The squeezes at this load, where there were some: the verdict is then theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Experiment>,
    /// Telemetry rows: kept in `series.parquet`, not in `record.json`.
    #[serde(skip)]
    #[cfg_attr(feature = "schema", schemars(skip))]
    pub series: Vec<Sample>,
}

impl Step {
    /// Whether others disturbed it, and another step has its place.
    pub fn measured_again(&self) -> bool {
        let again = |caveat: &Caveat| matches!(caveat, Caveat::MeasuredAgain { .. });
        self.caveats.iter().any(again)
    }
}

/// What one client host of several did in the window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientPart {
    /// What the host is called.
    pub host: String,
    /// Its connections.
    pub connections: u32,
    /// The part of the load that was dealt to it, 0..1; 0 in a record from before this was written.
    #[serde(default)]
    pub dealt: f64,
    /// Its workers; 0 where it was lost, and nothing is known of them.
    pub workers: u32,
    /// When its schedule began, against the agreed instant: later, or where negative earlier.
    pub began_ns: i64,
    /// What that may be off, either way: the error of its clock's offset.
    pub clock_error_ns: u64,
    /// Its counts, which obey the same identity.
    pub counts: Counts,
    /// Good answers per second.
    pub throughput: f64,
    /// Mean requests in flight.
    pub in_flight_mean: f64,
    /// What became of its requests in flight when the window closed.
    pub drained: Drained,
    /// From the intended instant to the last byte.
    pub latency: Option<Histogram>,
    /// How late its workers themselves were.
    pub lateness: Option<Histogram>,
    /// Why nothing more is known of it, where it was lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<LostClient>,
}

/// A client host that was lost while it made its part of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostClient {
    /// Why.
    pub why: String,
    /// The end of what it last told of, from the start of the schedule: its counts are up to then.
    pub heard_ns: u64,
}

/// The place of a step in a study's table: the same cell may be run in several rounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cell {
    /// Id of the study's group.
    pub group: String,
    /// The study's name for what drives it.
    pub driver: String,
    /// Bytes of data in each request.
    pub payload: u32,
    /// Clients with one request at a time each.
    pub clients: u32,
    /// Which repetition, from 1.
    pub round: u32,
    /// Whether its group is to be compared with others.
    #[serde(default)]
    pub rival: bool,
}

/// Every request that ended in the window of a step, one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Samples {
    /// The file, beside the record.
    pub file: String,
    /// Requests in it: those answered and those that failed.
    pub rows: u64,
    /// Requests that are missing, for there was no room for them: such a file is no sample.
    pub dropped: u64,
}

/// A quantile of samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QuantileInterval {
    /// `p99`.
    pub name: String,
    /// The sample itself.
    pub value_ns: u64,
    /// Its 95 % interval, where there are enough samples beyond it.
    pub low_ns: Option<u64>,
    /// Its upper end.
    pub high_ns: Option<u64>,
}

/// What produced the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Driver {
    /// `wallfinder`, `autocannon`, `wrk`, `other`, ...
    pub name: String,
    /// Its command line, where it is foreign.
    pub command: Option<String>,
    /// `io_uring` or `epoll`, for the engine.
    pub io: Option<String>,
    /// Where throughput comes from.
    pub throughput_from: ThroughputFrom,
    /// Whether latency is counted from intended starts.
    #[serde(alias = "latency_from_due")]
    pub latency_from_intended: bool,
    /// Good answers of a foreign driver's whole run, as it reports them; the step's counts are
    /// of the window that telemetry covers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered: Option<u64>,
}

/// Where the throughput of a step comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ThroughputFrom {
    /// Our engine counted its answers.
    Engine,
    /// A foreign driver's own report.
    Report,
    /// Bytes and packets that were observed.
    Wire,
}

impl ThroughputFrom {
    /// `engine`, `report` or `wire`.
    pub const fn label(self) -> &'static str {
        match self {
            ThroughputFrom::Engine => "engine",
            ThroughputFrom::Report => "report",
            ThroughputFrom::Wire => "wire",
        }
    }
}

/// Requests by what became of them, in the measured window:
/// `in_flight_start + scheduled = answered + failed + not_sent + in_flight_end + unknown`
/// (with `not_sent` the growth of the open loop's backlog, which may be negative).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counts {
    /// Requests whose intended start came.
    pub scheduled: u64,
    /// Good answers: complete, framed, 2xx or 3xx.
    pub answered: u64,
    /// Failures by class.
    pub failed: BTreeMap<String, u64>,
    /// Of those that failed as `timeout.total`: requests that were never sent, for no connection was
    /// free before their deadline.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub expired_unsent: u64,
    /// Growth of the requests that were to start and were not sent.
    pub not_sent: i64,
    /// In flight when the window opened.
    pub in_flight_start: u64,
    /// In flight when it closed.
    pub in_flight_end: u64,
    /// Of client hosts that were lost: what was in flight or waited when they last told of it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
    /// Answers by status code.
    pub statuses: BTreeMap<u16, u64>,
    /// Bytes read from sockets.
    pub bytes_in: u64,
    /// Bytes written to sockets.
    pub bytes_out: u64,
    /// Bytes of bodies of good answers, as framed on the wire.
    pub body_bytes: u64,
    /// What those bodies came to that were decoded. Where all are, the others count as they are.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub decoded_bytes: u64,
    /// Messages of good answers, in gRPC; elsewhere an answer is one, and this 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub messages: u64,
    /// Of those that failed as `timeout.total`: those that the load generator itself may have made late, by
    /// sending them or reading their answers late.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late_by_client: u64,
    /// Connections opened in the window.
    pub connects: u64,
    /// Connection attempts that failed, by class.
    pub connect_failures: BTreeMap<String, u64>,
    /// Time of the window during which no connection was open.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unreachable_ns: u64,
    /// Oddities survived, by name.
    pub anomalies: BTreeMap<String, u64>,
    /// How connections under TLS began, from the start of the step on, its warm-up included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshakes: Option<Handshakes>,
}

/// What became of the requests that had no answer when the window closed. Those in flight then are
/// `answered + failed + in_flight`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Drained {
    /// How long their answers were waited for.
    pub waited_ns: u64,
    /// Answered well in that time, and in no count of the window. The latencies of those that were older than the
    /// warm-up at the window's end are in the step's histograms.
    pub answered: u64,
    /// Failed in that time.
    pub failed: u64,
    /// Still without an answer when the wait was over.
    pub in_flight: u64,
    /// Open loop: never sent, for no connection was free.
    pub not_sent: u64,
    /// Age of the oldest request without an answer, from its intended instant, when the wait was over; 0: none.
    pub oldest_ns: u64,
}

impl Drained {
    /// Requests of which nobody knows how long they would have taken.
    pub fn unanswered(&self) -> u64 {
        self.in_flight.saturating_add(self.not_sent)
    }
}

/// How many connections a load really had in the window.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OpenConnections {
    /// The most that were open at a time.
    pub most: u64,
    /// The mean over the window.
    pub mean: f64,
    /// Connections that brought an answer in the window.
    pub answering: u64,
}

/// How connections under TLS began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Handshakes {
    /// With certificates, from the beginning.
    pub full: u64,
    /// By what an earlier connection had left.
    pub resumed: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Counts {
    /// Failures of every class.
    pub fn failed_total(&self) -> u64 {
        let sum = |sum: u64, count: &u64| sum.saturating_add(*count);
        self.failed.values().fold(0, sum)
    }

    /// Whether these may be of a load: they balance, and are no more than a load can have had.
    pub fn is_sound(&self) -> bool {
        const MOST: u64 = 1 << 53;
        let bytes = [self.bytes_in, self.bytes_out, self.body_bytes];
        let begun = self.scheduled.saturating_add(self.in_flight_start);
        self.balanced() && begun <= MOST && bytes.iter().all(|bytes| *bytes <= 1 << 60)
    }

    /// Whether the accounting identity holds.
    pub fn balanced(&self) -> bool {
        let came = self.in_flight_start as i128 + self.scheduled as i128;
        let went = self.answered as i128
            + self.failed_total() as i128
            + self.not_sent as i128
            + self.in_flight_end as i128
            + self.unknown as i128;
        came == went
    }
}

/// A distribution: the whole histogram, and the quantiles that tables show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// HDR V2, compressed by nothing, in base64; unit nanoseconds. Empty where a foreign
    /// driver gave quantiles only.
    pub hdr_v2: String,
    /// Values.
    pub count: u64,
    /// Values beyond the range, counted apart and included in no quantile.
    pub beyond: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Standard deviation.
    pub stdev_ns: f64,
    /// Smallest.
    pub min_ns: u64,
    /// Largest.
    pub max_ns: u64,
    /// Quantiles by name: `p50`, `p75`, `p90`, `p95`, `p99`, `p99.9`, `p99.99`; those
    /// known.
    pub quantiles_ns: BTreeMap<String, u64>,
}

impl Histogram {
    /// A quantile by name, such as `p99.9`.
    pub fn quantile_ns(&self, name: &str) -> Option<u64> {
        self.quantiles_ns.get(name).copied()
    }
}

/// A slice of the run, over all workers.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// End, from the start of the schedule.
    pub at_ns: u64,
    /// Length.
    pub span_ns: u64,
    /// Good answers.
    pub answered: u64,
    /// Failures.
    pub failed: u64,
    /// Requests whose intended start came.
    pub scheduled: u64,
    /// Bytes read.
    pub bytes_in: u64,
    /// In flight at the end.
    pub in_flight: u64,
    /// Median latency; 0 without answers.
    pub p50_ns: u64,
    /// 99th percentile of latency; 0 without answers.
    pub p99_ns: u64,
    /// Largest latency.
    pub max_ns: u64,
}

/// One kind of request of a mix, in the measured window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RequestKind {
    /// What it is called.
    pub name: String,
    /// Its weight against the others.
    pub weight: u32,
    /// Its method.
    pub method: String,
    /// Requests sent.
    pub sent: u64,
    /// Good answers.
    pub answered: u64,
    /// Failures by class.
    pub failed: BTreeMap<String, u64>,
    /// Those of them that were never sent: their deadline passed before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unsent: u64,
    /// Good answers per second.
    pub throughput: f64,
    /// Body bytes of good answers.
    pub body_bytes: u64,
    /// Bytes of good answers on the wire, heads and framing included.
    pub wire_bytes: u64,
    /// Bytes of requests on the wire, heads and framing included; 0 where they are not counted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sent_bytes: u64,
    /// Answers that the load generator looked into, where it measured what that takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looked_into: Option<Looked>,
    /// From the intended start to the last byte, to two digits.
    pub latency: Option<Histogram>,
    /// The session that it is a step of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// What one costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// The server's functions that mostly work for it, the dearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionCost>,
}

/// Answers that the load generator looked into, to check them or to take something from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Looked {
    /// So many.
    pub answers: u64,
    /// Of so many it was measured how long that took.
    pub timed: u64,
    /// So long it took of those together, in nanoseconds.
    pub timed_ns: u64,
}

impl Looked {
    /// Both together.
    pub fn and(self, other: Looked) -> Looked {
        Looked {
            answers: self.answers + other.answers,
            timed: self.timed + other.timed,
            timed_ns: self.timed_ns + other.timed_ns,
        }
    }

    /// What came since an earlier count.
    pub fn since(self, earlier: Looked) -> Looked {
        Looked {
            answers: self.answers - earlier.answers,
            timed: self.timed - earlier.timed,
            timed_ns: self.timed_ns - earlier.timed_ns,
        }
    }

    /// What one takes in the mean, in nanoseconds; 0 where none was measured.
    pub fn each_ns(self) -> f64 {
        self.timed_ns as f64 / self.timed.max(1) as f64
    }
}

/// The sessions of one kind, in the measured window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionKind {
    /// What it is called.
    pub name: String,
    /// Its weight against other sessions and requests.
    pub weight: u32,
    /// Begun.
    pub begun: u64,
    /// Ended with a good answer to the last step.
    pub completed: u64,
    /// Ended early: a step failed.
    pub broken_off: u64,
    /// From the intended start of the first step to the end of the last, pauses included, to two digits.
    pub took: Option<Histogram>,
    /// What one costs, all its steps together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<Costs>,
    /// The server's functions that mostly work for it, the dearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionCost>,
}

/// The rarest requests and sessions of a mix of many: their weights are drawn as one, so that they are told only together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pool {
    /// What they are called, the heaviest first.
    pub names: Vec<String>,
    /// What one of them costs in the mean, and the share of all of them.
    pub costs: Costs,
}

/// What one request of a kind costs, or one session, where weights were drawn anew to tell.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Costs {
    /// CPU time of the server, in nanoseconds.
    pub server: Cost,
    /// The same of the load generator.
    pub client: Option<Cost>,
    /// The same of the processes that the server asks, all together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Cost>,
    /// The time for which one is held, of the load's own, which is all in use: where the wall is a wait, what it takes of
    /// what is waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Cost>,
}

/// What one takes of something, and which share of all of it the kind has; each with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// What one takes.
    pub each: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The kind's share, 0..1.
    pub share: f64,
    /// Lower end.
    pub share_low: f64,
    /// Upper end.
    pub share_high: f64,
}

impl Cost {
    /// The share, and the ends of its interval.
    pub fn shares(&self) -> [f64; 3] {
        [self.share, self.share_low, self.share_high]
    }
}

/// A function of the server that mostly works for one kind.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionCost {
    /// `catalogue.rank`.
    pub name: String,
    /// CPU time in it, and in what it calls, for one of the kind, in nanoseconds; the share is the kind's in all of that time.
    pub cost: Cost,
    /// Its part of what one costs the server, 0..1, with its 95 % interval.
    pub part: f64,
    /// Lower end.
    pub part_low: f64,
    /// Upper end.
    pub part_high: f64,
}

/// Two kinds of which windows show, beyond doubt, that they cost more beside each other than each does with the other away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interference {
    /// The names of both.
    pub between: [String; 2],
    /// What they use more of.
    pub of: UsedBy,
    /// Share of all that is used of it, which neither would use without the other, 0..1, with its 95 % interval.
    pub share: f64,
    /// Lower end.
    pub share_low: f64,
    /// Upper end.
    pub share_high: f64,
    /// How often chance shows as much of any pair.
    pub chance: f64,
    /// Of CPU time of a server that was looked into: functions whose time is mostly this, the dearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
}

/// What requests use, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UsedBy {
    /// CPU time of the server.
    Server,
    /// CPU time of the processes that the server asks.
    Backend,
    /// The time for which requests are held, where the wall is a wait.
    Wait,
}

/// Stacks of the server that were sampled in a window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MixStacks {
    /// CPU time of all of them, in nanoseconds.
    pub total: i64,
    /// By function, those with a thousandth of it at the least.
    pub functions: Vec<FunctionPart>,
    /// One that is not among them has so much with what it calls, at the most.
    #[serde(default)]
    pub unlisted_most: i64,
}

impl MixStacks {
    /// Of a reading, without what is a trifle.
    pub fn of(reading: &Reading) -> MixStacks {
        let is_kept = |part: &&FunctionPart| 1_000 * part.with_callees >= reading.total;
        let mut all: Vec<i64> = reading.functions.iter().map(|of| of.with_callees).collect();
        all.sort_unstable_by(|one, other| other.cmp(one));
        // A reading keeps so many, and those with the most.
        let last = all.get(FUNCTIONS_MAX - 1).copied();
        MixStacks {
            total: reading.total,
            functions: reading.functions.iter().filter(is_kept).cloned().collect(),
            unlisted_most: last.unwrap_or(0).max(reading.total / 1_000),
        }
    }
}

/// A window in which the weights of a mix were drawn anew.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MixWindow {
    /// They, in the order of the step's requests.
    pub weights: Vec<u32>,
    /// Answers of each kind, and what failed of it: both cost the server.
    pub answered: Vec<u64>,
    /// Length of the window in which they came.
    pub window_ns: u64,
    /// CPU time of the server.
    pub server_cpu_ns: u64,
    /// Over so long.
    pub cpu_span_ns: u64,
    /// CPU time of the load generator, over so long too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_ns: Option<u64>,
    /// What the processes that the server asks used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<CpuUse>,
    /// CPU time of a fixed piece of work on the server's processors meanwhile, where that was watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_ns: Option<f64>,
    /// The same of the load generator's processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_reference_ns: Option<f64>,
    /// Where the server was meanwhile, where its stacks were sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<MixStacks>,
}

/// A time during which no connection to the target was open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outage {
    /// Its start, from the start of the schedule.
    pub at_ns: u64,
    /// How long it lasted, to the end of the window at the most.
    pub for_ns: u64,
}

/// How one worker did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkerSummary {
    /// Worker number.
    pub worker: u32,
    /// The processor it was pinned to.
    pub cpu: Option<u32>,
    /// Connections it held.
    pub connections: u32,
    /// Good answers.
    pub answered: u64,
    /// CPU time of its work in the window.
    pub cpu_ns: u64,
    /// Time spent polling for nothing, before intended starts of an open loop that were near.
    #[serde(default)]
    pub polled_ns: u64,
    /// CPU time of its work over wall time, 0..1.
    pub busy_share: f64,
    /// Waits for events in the window.
    pub waits: u64,
    /// Events handled.
    pub events: u64,
    /// Of the waits, those in which answers were let wait for one another at the client.
    #[serde(default)]
    pub batching_waits: u64,
    /// How long they were let at the most, summed over these waits.
    #[serde(default)]
    pub batching_ns: u64,
}

/// What the engine's workers could drive at most for such a load, against a null server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ceiling {
    /// Requests per second.
    pub throughput: f64,
    /// Whether the workers were busy when it was reached; otherwise it is extrapolated from
    /// their CPU time per request.
    pub workers_saturated: bool,
    /// Worker CPU per request there, in nanoseconds.
    pub cpu_per_request_ns: f64,
    /// Requests per second actually driven against the null server.
    pub driven: f64,
    /// Seconds since an earlier run of this machine measured it; `null`: this one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_s: Option<u64>,
    /// The client host that it is of, among those of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Those of each client host that was there after the load, in the order of the step's `clients`, where several made
    /// it; then the sum of them is the ceiling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of_hosts: Vec<Ceiling>,
}

/// Two settings of a lever, measured in turn: each round holds both, in an order that
/// changes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ab {
    /// What A is, in words.
    pub a: String,
    /// What B is.
    pub b: String,
    /// For each step of the record, in order: its round, and whether it is of B.
    pub order: Vec<(u32, bool)>,
    /// B over A, by measure.
    pub ratios: Vec<Ratio>,
    /// For each setting of the host that B has, what showed whether it acted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signs: Vec<Sign>,
    /// The most that B may cost, where that was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most_cost: Option<CostBound>,
}

/// What showed, step by step, whether a setting of the host acted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sign {
    /// The setting, such as `huge-pages=always`.
    pub setting: String,
    /// What was looked at.
    pub kind: SignKind,
    /// What was seen in each step, in the order of the steps; `null` where it could not be seen.
    pub steps: Vec<Option<f64>>,
    /// Median of A's steps.
    pub a: Option<f64>,
    /// Of B's.
    pub b: Option<f64>,
    /// Whether A and B differ in it; `null` where that is not known.
    pub acted: Option<bool>,
}

/// What is looked at to see whether a setting of the host acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SignKind {
    /// Bytes of the server's own memory that were in huge pages at the end of the step.
    HugeBytes,
    /// How often receive work was handed to another processor of this machine during the step.
    Steered,
    /// Packets that sockets of the server's namespace took by polling their device during the step.
    Polled,
    /// Interrupts of the load's interface that went to the wanted processors at the end of the step.
    Interrupts,
}

/// The most that B may cost of A's throughput, asked before anything was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CostBound {
    /// As a share of A's throughput, 0..1.
    pub share: f64,
    /// What the rounds say; `null` where they give no interval.
    pub outcome: Option<CostOutcome>,
}

/// What the 95 % interval of B's throughput over A's says of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum CostOutcome {
    /// It lies within the bound.
    Shown,
    /// It lies beyond the bound.
    NotMet,
    /// It holds the bound.
    NotDecided,
}

/// A measure of B over the same of A, over rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ratio {
    /// `throughput`, `p50`, `p99`, `p99.9`, `server-cpu`, `client-cpu`, `downlink-bytes`.
    pub measure: String,
    /// Geometric mean of A.
    pub a: f64,
    /// Of B.
    pub b: f64,
    /// Centre of the rounds' ratios.
    pub ratio: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Rounds behind it.
    pub rounds: u32,
    /// Whether a difference is shown: the interval, widened for the number of measures,
    /// leaves 1 out.
    pub differs: bool,
    /// Share of the variance within either setting that the machine's own pace explains, where that
    /// was taken out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace_explained: Option<f64>,
}

/// A sentence of a study, and what the data say of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimOutcome {
    /// Short name in the study file.
    pub id: String,
    /// The claim in words.
    pub claim: String,
    /// Where it was made.
    pub source: String,
    /// Whether the source's own figures decide it, and nothing that was measured.
    #[serde(default, skip_serializing_if = "crate::scenario::is_false")]
    pub by_figures: bool,
    /// The outcome.
    pub outcome: Outcome,
    /// The numbers that decided it, or why they could not.
    pub because: String,
}

/// What data say of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The data support it.
    Confirmed,
    /// The data speak against it.
    Contradicted,
    /// The data do not decide.
    Open,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_counts_every_request_once() {
        let mut counts = Counts {
            scheduled: 100,
            answered: 90,
            in_flight_start: 4,
            in_flight_end: 6,
            not_sent: 3,
            ..Counts::default()
        };
        counts.failed.insert("net.refused".into(), 5);
        assert!(counts.balanced());
        counts.answered += 1;
        assert!(!counts.balanced());
    }
}
