//! What must hold before a wall may be called proved, as it was found.

use serde::{Deserialize, Serialize};

/// What a gate asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GateKind {
    /// Windows with nothing squeezed read alike (an A/A test): the interval of their effect on each other.
    NullEffect,
    /// N = X·R over the windows with nothing squeezed.
    Little,
    /// With nothing squeezed throughput has one level.
    Steady,
    /// Requests do not fail with nothing squeezed.
    Errors,
    /// The hypervisor leaves the processors to this machine.
    Steal,
    /// No processor is used by both sides.
    Apart,
    /// Somebody counted failures.
    FailuresCounted,
    /// A foreign driver's bytes come as fast as those of the load that it reported on.
    SameAnswers,
    /// The load generator kept the schedule of an open loop.
    Schedule,
}

/// How a gate was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum GateOutcome {
    /// It holds.
    Held,
    /// It does not.
    Failed {
        /// Nothing can be said of walls then.
        fatal: bool,
    },
    /// What it asks about was not seen.
    NotSeen,
}

/// What was seen of what a gate asks about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Seen {
    /// A share, 0..1.
    Share {
        /// The share.
        value: f64,
    },
    /// One value over another: 1 where they agree.
    Ratio {
        /// The ratio.
        value: f64,
    },
    /// An interval, as shares of throughput.
    Interval {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// The processors of both sides.
    Processors {
        /// The server's.
        server: Vec<u32>,
        /// The load generator's.
        client: Vec<u32>,
    },
    /// How late requests were sent: the 99.9th percentile.
    Late {
        /// Lateness.
        p999_ns: u64,
    },
}

/// One gate of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gate {
    /// What it asks.
    pub kind: GateKind,
    /// How it was found.
    pub outcome: GateOutcome,
    /// The bound that was asked for, in the unit of what was seen, where it is a number.
    pub asked: Option<f64>,
    /// What was seen, where something was.
    pub seen: Option<Seen>,
}

impl Gate {
    /// Whether it failed.
    pub fn failed(&self) -> bool {
        matches!(self.outcome, GateOutcome::Failed { .. })
    }

    /// Whether it failed so far that nothing can be said of walls.
    pub fn is_fatal(&self) -> bool {
        self.outcome == GateOutcome::Failed { fatal: true }
    }
}
