//! What is concluded: the wall, how it was established, and why.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::caveat::Caveat;
use crate::detail::Detail;
use crate::gate::Gate;
use crate::reason::Reason;

pub use crate::evidence::Evidence;

/// The resource that binds. The label in records and on the command line is in kebab case.
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
pub enum Wall {
    /// The server's processors, or its quota of them.
    ServerCpu,
    /// One hot thread or a lock with work inside.
    ServerSerial,
    /// The load generator's processors: the number is its own.
    ClientCpu,
    /// The way from server to client.
    Downlink,
    /// The way from client to server.
    Uplink,
    /// Too little in flight to keep anything busy.
    Concurrency,
    /// The load asked for no more.
    OfferedLoad,
    /// Another process behind the server.
    Backend,
    /// A wait that nothing observed or squeezed reaches: pool, limiter, sleeping lock, timer.
    Wait,
    /// Two or more resources at once.
    CoLimited,
    /// Not decided, and the evidence says why.
    Inconclusive,
}

impl Wall {
    /// Every wall.
    pub const ALL: [Wall; Wall::VARIANTS.len()] = *Wall::VARIANTS.first_chunk().unwrap();

    /// The label: `server-cpu`.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// As a reader would say it: `the server's CPU`.
    pub const fn words(self) -> &'static str {
        match self {
            Wall::ServerCpu => "the server's CPU",
            Wall::ServerSerial => "a serial section of the server",
            Wall::ClientCpu => "the load generator's CPU",
            Wall::Downlink => "the downlink",
            Wall::Uplink => "the uplink",
            Wall::Concurrency => "too little in flight",
            Wall::OfferedLoad => "the offered load",
            Wall::Backend => "a backend",
            Wall::Wait => "a wait inside the server",
            Wall::CoLimited => "more than one resource",
            Wall::Inconclusive => "not decided",
        }
    }

    /// Whether the wall stands on the server's side.
    pub const fn is_server(self) -> bool {
        matches!(
            self,
            Wall::ServerCpu | Wall::ServerSerial | Wall::Backend | Wall::Wait
        )
    }
}

/// How a wall was established.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// Not established.
    Inconclusive,
    /// From telemetry alone.
    Observed,
    /// From a few rounds of squeezes.
    Likely,
    /// From squeezes that passed every gate.
    Proved,
}

impl How {
    /// `proved`, as in the record.
    pub fn label(self) -> &'static str {
        match self {
            How::Inconclusive => "inconclusive",
            How::Observed => "observed",
            How::Likely => "likely",
            How::Proved => "proved",
        }
    }
}

/// The wall, and why to believe it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Verdict {
    /// The wall.
    pub wall: Wall,
    /// How it was established.
    pub how: How,
    /// 0..1: how far an observed verdict may be trusted. Stated, not measured.
    pub confidence: f64,
    /// Why it is that wall, or none.
    pub reason: Reason,
    /// Pool, limiter, quota, neighbour: what the wall is made of, where there is evidence.
    pub detail: Option<Detail>,
    /// What bears it out, strongest first.
    pub evidence: Vec<Evidence>,
    /// What had to hold before a wall could be called proved, where there were squeezes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Gate>,
    /// Utilisation and ceiling of each resource that was seen.
    pub resources: Vec<ResourceView>,
    /// Shares, when co-limited.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<String, f64>,
    /// Elasticities by squeeze, when there were squeezes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub elasticities: BTreeMap<String, Elasticity>,
    /// The wall after this one, where it can be told.
    pub next: Option<NextWall>,
    /// What a reader must know first.
    pub caveats: Vec<Caveat>,
    /// The reason in words, as the report put it for readers of the document. It is never read back.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub sentence: Option<String>,
    /// The detail in words, likewise.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub made_of: Option<String>,
}

/// One resource as telemetry shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResourceView {
    /// Which wall it would be.
    pub wall: Wall,
    /// Busy share of what was available, 0..1.
    pub utilisation: f64,
    /// Service demand: resource-seconds per good answer.
    pub demand_s: Option<f64>,
    /// The throughput at which it would be full, requests per second.
    pub ceiling: Option<f64>,
    /// A sign that work waited for it.
    pub saturation: Option<Saturation>,
}

/// A sign that work waited for a resource.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Saturation {
    /// A thread never rests.
    NeverRests {
        /// Its name.
        thread: String,
    },
    /// A quota ended early.
    Throttled {
        /// In this share of its periods.
        share: f64,
    },
    /// Threads waited for cores.
    RunWait {
        /// So many.
        cores: f64,
    },
    /// Packets were dropped.
    Dropped {
        /// How many.
        packets: u64,
    },
    /// Segments were sent again.
    SentAgain {
        /// How many.
        segments: u64,
    },
}

/// d ln(throughput) / d ln(resource), with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Elasticity {
    /// Centre.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Rounds behind it.
    pub rounds: u32,
}

/// The resource that would bind next.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NextWall {
    /// Which.
    pub wall: Wall,
    /// Its ceiling divided by the present throughput.
    pub ratio: f64,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}
