//! Gates: what each asks, what was seen, and what it means that it failed.

use serde::Serialize;
use wallfinder_model::gate::{Gate, GateKind, GateOutcome, Seen};

use super::fact::small;
use crate::number;

/// A gate as a table shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gated {
    /// Its name: `A/A`.
    pub name: &'static str,
    /// `held`, `failed` or `not seen`.
    pub outcome: &'static str,
    /// What it asks.
    pub asked: String,
    /// What was seen.
    pub seen: String,
}

/// A gate as a table shows it.
pub fn gate(gate: &Gate) -> Gated {
    let bound = || gate.asked.map_or_else(String::new, number::share);
    let (name, asked) = match gate.kind {
        GateKind::NullEffect => ("A/A", format!("no effect of nothing beyond ±{}", bound())),
        GateKind::Little => (
            "Little's law",
            format!(
                "N / (X·R) within {} of 1, but for edges and failures",
                bound()
            ),
        ),
        GateKind::Steady => ("Steady", "one level with nothing squeezed".to_owned()),
        GateKind::Errors => (
            "Errors",
            format!("at most {} with nothing squeezed", bound()),
        ),
        GateKind::Steal => ("Steal", format!("at most {} of the processors", bound())),
        GateKind::Apart => ("Apart", "no processor used by both sides".to_owned()),
        GateKind::FailuresCounted => ("Failures counted", "by the driver's own report".to_owned()),
        GateKind::SameAnswers => (
            "Same answers",
            format!(
                "bytes per second within {} × of the driver's load before",
                gate.asked.map_or_else(String::new, number::factor)
            ),
        ),
        GateKind::Schedule => (
            "Schedule",
            "requests sent at their intended start".to_owned(),
        ),
    };
    Gated {
        name,
        outcome: match gate.outcome {
            GateOutcome::Held => "held",
            GateOutcome::Failed { .. } => "failed",
            GateOutcome::NotSeen => "not seen",
        },
        asked,
        seen: gate.seen.as_ref().map_or_else(
            || number::UNKNOWN.to_owned(),
            |seen| self::seen(gate.kind, seen),
        ),
    }
}

fn seen(kind: GateKind, seen: &Seen) -> String {
    let list = |cpus: &[u32]| {
        let shown: Vec<String> = cpus.iter().take(8).map(u32::to_string).collect();
        shown.join(", ")
    };
    match seen {
        Seen::Share { value } => number::share(*value),
        Seen::Ratio { value } if kind == GateKind::Steady => {
            format!(
                "the later level is {} of the earlier",
                number::share(*value)
            )
        }
        Seen::Ratio { value } => number::factor(*value),
        Seen::Interval { low, high } => format!("{} to {}", small(*low), small(*high)),
        Seen::Processors { server, client } => {
            format!("server on {}, client on {}", list(server), list(client))
        }
        Seen::Late { p999_ns } => format!("p99.9 of lateness {}", number::span(*p999_ns as f64)),
    }
}

/// What it means that a gate failed, as a clause.
pub(super) fn failed(gate: &Gate) -> String {
    let seen = gate.seen.as_ref();
    let seen = seen.map_or_else(
        || number::UNKNOWN.to_owned(),
        |seen| match seen {
            Seen::Ratio { value } if gate.kind != GateKind::Little => number::share(*value),
            seen => self::seen(gate.kind, seen),
        },
    );
    match gate.kind {
        GateKind::NullEffect => {
            format!("the A/A interval ({seen}) is too wide to prove anything")
        }
        GateKind::Little => format!("in flight is {seen} times throughput times latency"),
        GateKind::Steady => {
            format!("with nothing squeezed throughput moved to {seen} of what it was")
        }
        GateKind::Errors => format!("{seen} of the requests failed with nothing squeezed"),
        GateKind::Steal => format!("the hypervisor took {seen} of the processors"),
        GateKind::Apart => {
            "client and server share processors, so squeezing one feeds the other".to_owned()
        }
        GateKind::FailuresCounted => "nobody counted failures".to_owned(),
        GateKind::SameAnswers => format!(
            "the wire carries {seen} of the bytes per second that the driver's load had before"
        ),
        GateKind::Schedule => "the load generator ran late against its own schedule".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_says_what_it_asks_and_what_was_seen() {
        let null = Gate {
            kind: GateKind::NullEffect,
            outcome: GateOutcome::Held,
            asked: Some(0.02),
            seen: Some(Seen::Interval {
                low: -0.004,
                high: 0.006,
            }),
        };
        let shown = gate(&null);
        assert_eq!((shown.name, shown.outcome), ("A/A", "held"));
        assert_eq!(shown.seen, "-0.4 % to 0.6 %");
        let unseen = Gate {
            kind: GateKind::Steal,
            outcome: GateOutcome::NotSeen,
            asked: Some(0.02),
            seen: None,
        };
        assert_eq!(gate(&unseen).outcome, "not seen");
        let moved = Gate {
            kind: GateKind::Steady,
            outcome: GateOutcome::Failed { fatal: true },
            asked: None,
            seen: Some(Seen::Ratio { value: 0.7 }),
        };
        assert_eq!(
            failed(&moved),
            "with nothing squeezed throughput moved to 70 % of what it was"
        );
    }
}
