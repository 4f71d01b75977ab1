//! The observed verdict: the wall of one step, from telemetry alone.
//!
//! ```text
//!  Step ─► sight ─► gates: answers? failures? stolen time? did the schedule ask for more?
//!                     └─► finding: which resources were full, each by its own rule
//!                            └─► one: the wall · several: co-limited, or the fuller one
//!                                none: concurrency or a wait, with little confidence
//! ```
//!
//! It is not a proof, and never says so: a lock can hold most of the blocked time and be
//! worth nothing, and a server at 85 % can be waiting for a slow client. Confidence is a
//! statement about the rules, not a probability that was measured.
//!
//! Invariants: confidence lies in 0..1; there is always evidence; a load generator that
//! was seen idle is never the wall; signals that conflict end as inconclusive, with the
//! conflict as the reason.

use std::collections::BTreeMap;

use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::reason::CrowdedOut;
use wallfinder_model::record::ThroughputFrom;
use wallfinder_model::verdict::{How, ResourceView};
use wallfinder_model::{Caveat, Detail, Environment, Reason, Step, Verdict, Wall};

use crate::{caveats, clients, identity, little, profile, steady};
use sight::Sight;

mod choice;
mod client;
mod finding;
mod gate;
#[cfg(test)]
mod labelled;
mod phases;
mod resources;
mod shared;
mod sight;
mod slack;
mod strangers;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_outages;

/// A conclusion with less confidence is none.
const CONFIDENCE_MIN: f64 = 0.25;

/// The observed verdict of one step, with evidence, resources and caveats.
pub(crate) fn verdict(step: &Step, environment: &Environment) -> Verdict {
    let sight = Sight::of(step, environment);
    let caveats = caveats::of_step(step, environment);
    let conclusion = conclude(&sight);
    let mut verdict = finish(&sight, conclusion, caveats);
    clients::name(&mut verdict, step);
    verdict
}

/// Whether nothing can be said of walls, whatever the neighbouring steps show.
pub(crate) fn gated(step: &Step, environment: &Environment) -> bool {
    let sight = Sight::of(step, environment);
    gate::gate(&sight).is_some() || strangers::conclude(&sight).is_some()
}

/// Who had the processors, where neither side used anything of them to speak of.
pub(crate) fn crowded_out(step: &Step, environment: &Environment) -> Option<CrowdedOut> {
    strangers::crowded_out(&Sight::of(step, environment))
}

/// What was concluded, before doubt is taken off.
struct Conclusion {
    wall: Wall,
    confidence: f64,
    reason: Reason,
    detail: Option<Detail>,
    evidence: Vec<Evidence>,
    shares: BTreeMap<String, f64>,
}

impl Conclusion {
    fn new(wall: Wall, confidence: f64, reason: Reason, evidence: Vec<Evidence>) -> Conclusion {
        Conclusion {
            wall,
            confidence,
            reason,
            detail: None,
            evidence,
            shares: BTreeMap::new(),
        }
    }

    fn inconclusive(reason: Reason, evidence: Vec<Evidence>) -> Conclusion {
        Conclusion::new(Wall::Inconclusive, 0.0, reason, evidence)
    }

    fn with_detail(mut self, detail: Option<Detail>) -> Conclusion {
        self.detail = detail;
        self
    }
}

fn conclude(sight: &Sight) -> Conclusion {
    gate::gate(sight)
        .or_else(|| gate::offered_load(sight))
        .or_else(|| gate::alternating(sight))
        .or_else(|| strangers::conclude(sight))
        .or_else(|| shared::conclude(sight, &finding::links(sight)))
        .unwrap_or_else(|| choice::by_findings(sight, finding::all(sight)))
}

/// Parts of a whole, by label.
fn shares(parts: impl IntoIterator<Item = (Wall, f64)>) -> BTreeMap<String, f64> {
    let parts: Vec<(Wall, f64)> = parts.into_iter().collect();
    let sum: f64 = parts.iter().map(|(_, part)| part).sum();
    let share = |part: f64| if sum > 0.0 { part / sum } else { 0.0 };
    let parts = parts.into_iter();
    parts
        .map(|(wall, part)| (wall.label().to_owned(), share(part)))
        .collect()
}

/// Takes doubt off the confidence and puts the verdict together.
fn finish(sight: &Sight, mut conclusion: Conclusion, caveats: Vec<Caveat>) -> Verdict {
    let confidence = conclusion.confidence * doubt(sight);
    let confidence = if confidence.is_finite() {
        confidence.clamp(0.0, 0.95)
    } else {
        0.0
    };
    let resources: Vec<ResourceView> = resources::views(sight);
    if conclusion.wall != Wall::Inconclusive && confidence < CONFIDENCE_MIN {
        conclusion.reason = Reason::TooLittleConfidence {
            of: Box::new(conclusion.reason),
        };
        conclusion.wall = Wall::Inconclusive;
        conclusion.shares.clear();
        conclusion.detail = None;
    }
    if conclusion.evidence.is_empty() {
        conclusion.evidence.push(Evidence::new(
            "throughput",
            sight.throughput,
            Fact::Throughput {
                per_second: sight.throughput,
            },
        ));
    }
    let decided = conclusion.wall != Wall::Inconclusive;
    let how = match decided {
        true => How::Observed,
        false => How::Inconclusive,
    };
    let inside = profile::evidence(sight.step, conclusion.wall, how);
    conclusion.evidence.extend(inside);
    conclusion.detail = conclusion
        .detail
        .or_else(|| profile::made_of(sight.step, conclusion.wall));
    let mut walls: Vec<Wall> = match conclusion.wall {
        Wall::CoLimited => Wall::ALL
            .into_iter()
            .filter(|wall| conclusion.shares.contains_key(wall.label()))
            .collect(),
        wall => vec![wall],
    };
    if shared::together(sight).is_some() {
        // On shared processors the two sides' CPU is one resource.
        walls.extend([Wall::ServerCpu, Wall::ClientCpu]);
    }
    Verdict {
        wall: conclusion.wall,
        how,
        confidence: if decided { confidence } else { 0.0 },
        reason: conclusion.reason,
        detail: conclusion.detail,
        evidence: conclusion.evidence,
        gates: Vec::new(),
        next: decided
            .then(|| resources::next(sight, &resources, &walls))
            .flatten(),
        resources,
        shares: conclusion.shares,
        elasticities: BTreeMap::new(),
        caveats,
        sentence: None,
        made_of: None,
    }
}

/// What the state of the measurement leaves of a confidence, 0..1.
fn doubt(sight: &Sight) -> f64 {
    let step = sight.step;
    let mut left = 1.0;
    left *= match step.counts.answered {
        0..=99 => 0.6,
        100..=999 => 0.85,
        _ => 1.0,
    };
    if (1..3).contains(&step.telemetry.samples) {
        left *= 0.8;
    }
    if let Some(change) = steady::change(step) {
        left *= match (change.ratio - 1.0).abs() {
            off if off > 0.3 => 0.6,
            off if off > 0.1 => 0.8,
            _ => 0.95,
        };
    }
    let little = little::check(step).filter(|little| !little.holds());
    if little.is_some_and(|little| (little.ratio - 1.0).abs() > 0.1) {
        left *= 0.9;
    }
    if step.driver.throughput_from == ThroughputFrom::Wire {
        left *= 0.95;
    }
    // Failures of the load generator's own host are the finding, not a doubt about it.
    let own = identity::worst_class(&step.counts).is_some_and(|class| class.starts_with("local."));
    if !own {
        left *= 1.0 - 2.0 * identity::failure_share(&step.counts);
    }
    left *= 1.0 - caveats::still_share(step);
    left * (1.0 - 2.0 * sight.steal)
}
