//! The proof: windows of one load in which one resource was squeezed, or several at once.
//!
//! What it is: what the conductor did and what it saw, in order, so that it can be judged
//! again later. What it is not: a conclusion; elasticities are the judge's work.
//!
//! ```text
//!  round 0:  sham │ link 0.8 │ server 0.8 │ sham │ client 0.8 │ in-flight 0.8 │ sham
//!  round 1:  sham │ server 0.8 │ all others 0.8 │ sham …
//!             ▲
//!             └ each window: wash-out (not measured), then measured
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::record::Interval;
use crate::verdict::Wall;

/// A small, reversible reduction of one resource.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    VariantArray,
    IntoStaticStr,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Squeeze {
    /// Each of the server's processors made slower.
    ServerSpeed,
    /// Processor time taken from the server as a whole: a quota, or whole processors less.
    ServerCapacity,
    /// The load generator made slower.
    ClientSpeed,
    /// Processor time taken from the load generator as a whole.
    ClientCapacity,
    /// Client hosts, of several: some rest in turns, and the others take their connections over, so that as much is in
    /// flight as before.
    MoreClients,
    /// The rate from server to client.
    Downlink,
    /// The rate from client to server.
    Uplink,
    /// Requests in flight at the most.
    InFlight,
    /// The same, widened and not squeezed: whether more in flight carries more.
    MoreInFlight,
    /// A pause of the client before each request: an added round trip.
    ThinkTime,
    /// The rate asked for, in an open loop.
    OfferedLoad,
    /// The processors of a process behind the server made slower.
    BackendSpeed,
    /// Processor time taken from a process behind the server that has a quota of it.
    BackendCapacity,
}

impl Squeeze {
    /// Every squeeze.
    pub const ALL: [Squeeze; Squeeze::VARIANTS.len()] = *Squeeze::VARIANTS.first_chunk().unwrap();

    /// The label, which is also the key of the verdict's elasticities: `server-speed`.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// The wall that it speaks for or against.
    pub const fn wall(self) -> Wall {
        match self {
            Squeeze::ServerSpeed | Squeeze::ServerCapacity => Wall::ServerCpu,
            Squeeze::ClientSpeed | Squeeze::ClientCapacity | Squeeze::MoreClients => {
                Wall::ClientCpu
            }
            Squeeze::Downlink => Wall::Downlink,
            Squeeze::Uplink => Wall::Uplink,
            Squeeze::InFlight | Squeeze::MoreInFlight | Squeeze::ThinkTime => Wall::Concurrency,
            Squeeze::OfferedLoad => Wall::OfferedLoad,
            Squeeze::BackendSpeed | Squeeze::BackendCapacity => Wall::Backend,
        }
    }

    /// What it takes of its resource.
    pub const fn takes(self) -> Takes {
        match self {
            Squeeze::ServerSpeed
            | Squeeze::ClientSpeed
            | Squeeze::Downlink
            | Squeeze::Uplink
            | Squeeze::BackendSpeed => Takes::Speed,
            Squeeze::ServerCapacity | Squeeze::ClientCapacity | Squeeze::BackendCapacity => {
                Takes::Capacity
            }
            Squeeze::MoreClients => Takes::Machines,
            Squeeze::InFlight | Squeeze::MoreInFlight | Squeeze::ThinkTime => Takes::InFlight,
            Squeeze::OfferedLoad => Takes::Offered,
        }
    }

    /// Whether there is anything for it to take in an experiment.
    pub fn applies(self, setting: &Setting) -> bool {
        match self.wall() {
            Wall::ClientCpu if self == Squeeze::MoreClients => setting.client_hosts > 1,
            Wall::Concurrency => !setting.open_loop,
            Wall::OfferedLoad => setting.open_loop,
            Wall::Backend => !setting.backends.is_empty(),
            _ => true,
        }
    }
}

/// What a squeeze takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Speed, which can be taken until what is slack binds.
    Speed,
    /// Time as a whole, at the speed that there is.
    Capacity,
    /// Whole machines, with all that each of them has.
    Machines,
    /// Requests in flight.
    InFlight,
    /// Requests that are offered.
    Offered,
}

/// How much time an experiment may take, and how sure it may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Effort {
    /// About 25 seconds: likely at best.
    Quick,
    /// About a minute.
    Normal,
    /// About five minutes.
    Thorough,
}

/// One experiment at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Experiment {
    /// Seed of the order of the windows.
    pub seed: u64,
    /// Effort asked for.
    pub effort: Effort,
    /// What was compared. The first is the sham: all machinery in place, at no dose.
    pub conditions: Vec<Condition>,
    /// The windows in the order in which they were run.
    pub windows: Vec<Window>,
    /// Squeezes that could not be had, and why.
    pub out_of_reach: Vec<OutOfReach>,
    /// What the judge must know of where it ran.
    pub setting: Setting,
    /// Slices of the whole experiment, wash-outs included; on the windows' time axis.
    pub intervals: Vec<Interval>,
    /// Why it ended before it was done, such as a signal or a server that went away.
    pub cut_short: Option<String>,
    /// What a request takes that meets no other, where that was asked: at a wait.
    #[serde(default)]
    pub alone: Option<Alone>,
}

/// One request at a time, with a pause before each in which whatever it waits for is free again.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Alone {
    /// Good answers.
    pub answered: u64,
    /// Mean latency.
    pub mean_ns: f64,
    /// The pause before each.
    pub pause_ns: u64,
}

impl Experiment {
    /// The condition of a window; `None` in a record whose windows name one that is not
    /// there.
    pub fn condition(&self, window: &Window) -> Option<&Condition> {
        self.conditions.get(window.condition as usize)
    }

    /// What was squeezed in a window and nothing beside it; `None` for a sham, and where several were.
    pub fn squeezed(&self, window: &Window) -> Option<Squeeze> {
        self.condition(window)?.squeeze
    }

    /// Whether a window had all machinery in place at no dose.
    pub fn is_sham(&self, window: &Window) -> bool {
        self.condition(window).is_some_and(Condition::is_sham)
    }
}

/// One thing compared: a squeeze at a dose, several at once, or the sham.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Condition {
    /// What is squeezed alone; `None` for the sham, and where several are.
    pub squeeze: Option<Squeeze>,
    /// What is squeezed at once, where it is more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<Squeeze>,
    /// What is left of the resource, as asked for: 0.8 after taking a fifth; 1 for the sham;
    /// above 1 where it was widened.
    pub retained: f64,
    /// How it is done, in words: `SCHED_FIFO CPU stealer on cpu 0`.
    pub how: String,
}

impl Condition {
    /// All machinery in place, at no dose.
    pub fn sham() -> Condition {
        Condition {
            squeeze: None,
            together: Vec::new(),
            retained: 1.0,
            how: "all machinery in place, at no dose".to_owned(),
        }
    }

    /// Whether nothing is squeezed.
    pub fn is_sham(&self) -> bool {
        self.squeeze.is_none() && self.together.is_empty()
    }

    /// All that is squeezed.
    pub fn squeezes(&self) -> impl Iterator<Item = Squeeze> + '_ {
        self.squeeze
            .into_iter()
            .chain(self.together.iter().copied())
    }
}

/// One measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// Round, from 0. Every round holds each of its conditions once, and at least two shams.
    pub round: u32,
    /// Index into the conditions.
    pub condition: u32,
    /// Which start of the subject served it, from 0.
    pub restart: u32,
    /// Start of the measured part, from the start of the experiment.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// Good answers.
    pub answered: u64,
    /// Failures of requests, and connections that could not be made.
    pub failed: u64,
    /// Good answers per second; for a foreign driver, what the wire says of them.
    pub throughput: f64,
    /// Mean requests in flight; `None` for a foreign driver.
    pub in_flight_mean: Option<f64>,
    /// Mean latency from the intended instant; `None` for a foreign driver.
    pub latency_mean_ns: Option<f64>,
    /// Median latency.
    pub p50_ns: Option<u64>,
    /// 99th percentile of latency.
    pub p99_ns: Option<u64>,
    /// What was left of the resource, as the check of the manipulation measured it.
    pub retained: Option<f64>,
    /// Whether the squeeze was in force; `None` where that cannot be told. A squeeze that
    /// binds nobody (a quota that is not reached) may well be in force.
    pub in_force: Option<bool>,
    /// Of several squeezes at once, those that were not in force.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Squeeze>,
    /// Of several squeezes at once, what was left of each as its check measured it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub retained_each: BTreeMap<Squeeze, f64>,
    /// What the check saw: `stole 0.199 of cpu 0`, `throttled in 71 of 100 periods`.
    pub check: String,
    /// Cores that the server's processes used.
    pub server_cores: Option<f64>,
    /// Cores that the client used.
    pub client_cores: Option<f64>,
    /// Share of the processors that the hypervisor took, 0..1.
    pub steal_share: f64,
    /// CPU time that a fixed piece of work took on the server's processors: how slow they were.
    /// `None` where that was not watched.
    #[serde(default)]
    pub server_reference_ns: Option<f64>,
    /// The same on the client's.
    #[serde(default)]
    pub client_reference_ns: Option<f64>,
}

impl Window {
    /// What was left of the resource: as measured, else as asked for.
    pub fn left(&self, asked: f64) -> f64 {
        self.retained.filter(is_share).unwrap_or(asked)
    }

    /// What was left of one of several resources: as measured, else as asked for.
    pub fn left_of(&self, squeeze: Squeeze, asked: f64) -> f64 {
        let measured = self.retained_each.get(&squeeze).copied();
        measured.filter(is_share).unwrap_or(asked)
    }

    /// Its length in seconds.
    pub fn seconds(&self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }
}

fn is_share(retained: &f64) -> bool {
    retained.is_finite() && *retained > 0.0
}

/// A squeeze that was out of reach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutOfReach {
    /// Which.
    pub squeeze: Squeeze,
    /// Why, and what it would need.
    pub why: String,
}

/// Where the experiment ran, as far as its judgement depends on it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Setting {
    /// Processors that the server may run on; empty: not known.
    pub server_cpus: Vec<u32>,
    /// A quota that the server's group had already, in cores.
    pub server_quota_cores: Option<f64>,
    /// Processors that the client may run on.
    pub client_cpus: Vec<u32>,
    /// A quota that the client's group had already, in cores.
    pub client_quota_cores: Option<f64>,
    /// Whether requests start by the clock.
    pub open_loop: bool,
    /// Requests in flight at the most.
    pub in_flight_max: u64,
    /// Whether our own engine made the load.
    pub own_engine: bool,
    /// Connections of a foreign driver, where they were seen.
    #[serde(default)]
    pub connections: Option<Connections>,
    /// Rate of the link from server to client, bits per second, where it is set by a qdisc.
    pub downlink_bits: Option<f64>,
    /// Rate of the link from client to server.
    pub uplink_bits: Option<f64>,
    /// Processes on the server's processors that belong to neither side, with the cores
    /// they used: `stress-ng (4711)`.
    pub neighbours: Vec<Neighbour>,
    /// The same on the client's.
    #[serde(default)]
    pub client_neighbours: Vec<Neighbour>,
    /// Names of the processes behind the server that may be squeezed apart.
    pub backends: Vec<String>,
    /// The server's host, where it is another than the client's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_host: Option<String>,
    /// The client's host, where it is another than the controller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_host: Option<String>,
    /// Client hosts that made the load together; 0: one.
    #[serde(default)]
    pub client_hosts: u32,
}

/// What a foreign driver was asked for, and what it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connections {
    /// Connections asked for.
    pub asked: u32,
    /// Connections open to the server: the median over windows.
    pub open: u32,
}

impl Setting {
    /// Processors that both client and server may run on.
    pub fn shared_cpus(&self) -> Vec<u32> {
        let is_shared = |cpu: &u32| self.server_host.is_none() && self.client_cpus.contains(cpu);
        self.server_cpus.iter().copied().filter(is_shared).collect()
    }

    /// Whether there are any.
    pub fn shares_cpus(&self) -> bool {
        !self.shared_cpus().is_empty()
    }
}

/// Somebody else on a side's processors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Neighbour {
    /// Its name and process id.
    pub name: String,
    /// Cores it used in the first windows.
    pub cores: f64,
}
