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

use wallfinder_model::verdict::{Evidence, How, ResourceView};
use wallfinder_model::{Arrival, Caveat, Environment, Step, Verdict, Wall};

use crate::{caveats, identity, little, steady};
use finding::{Finding, evidence};
use sight::{Side, Sight};
use words::{capital, percent, rate};

mod finding;
#[cfg(test)]
mod labelled;
mod phases;
mod resources;
mod shared;
mod sight;
mod slack;
#[cfg(test)]
mod tests;
pub(crate) mod words;

/// Failures above this share leave nothing to be said of walls.
const ERRORS_TOO_MANY: f64 = 0.10;
/// Stolen time above this share leaves nothing to be said of walls.
const STEAL_TOO_MUCH: f64 = 0.10;
/// A finding this sure can be a wall.
const SURE: f64 = 0.5;
/// Share of a side's processors in others' hands from which its numbers are theirs too.
const CROWDED: f64 = 0.15;
/// Levels nearer than this cannot be told apart.
const APART: f64 = 0.03;
/// A conclusion with less confidence is none.
const CONFIDENCE_MIN: f64 = 0.25;

/// The observed verdict of one step, with evidence, resources and caveats.
pub fn verdict(step: &Step, environment: &Environment) -> Verdict {
    let sight = Sight::of(step, environment);
    let caveats = caveats::of_step(step, environment);
    let conclusion = conclude(&sight);
    finish(&sight, conclusion, caveats)
}

/// Whether nothing can be said of walls, whatever the neighbouring steps show.
pub(crate) fn gated(step: &Step, environment: &Environment) -> bool {
    gate(&Sight::of(step, environment)).is_some()
}

/// What was concluded, before doubt is taken off.
struct Conclusion {
    wall: Wall,
    confidence: f64,
    sentence: String,
    detail: Option<String>,
    evidence: Vec<Evidence>,
    shares: BTreeMap<String, f64>,
}

impl Conclusion {
    fn new(wall: Wall, confidence: f64, sentence: String, evidence: Vec<Evidence>) -> Conclusion {
        Conclusion {
            wall,
            confidence,
            sentence,
            detail: None,
            evidence,
            shares: BTreeMap::new(),
        }
    }

    fn inconclusive(sentence: String, evidence: Vec<Evidence>) -> Conclusion {
        Conclusion::new(Wall::Inconclusive, 0.0, sentence, evidence)
    }

    fn with_detail(mut self, detail: Option<String>) -> Conclusion {
        self.detail = detail;
        self
    }
}

fn conclude(sight: &Sight) -> Conclusion {
    gate(sight)
        .or_else(|| offered_load(sight))
        .or_else(|| alternating(sight))
        .or_else(|| shared::conclude(sight, &finding::links(sight)))
        .unwrap_or_else(|| by_findings(sight, finding::all(sight)))
}

/// What must hold before any wall is named.
fn gate(sight: &Sight) -> Option<Conclusion> {
    let counts = &sight.step.counts;
    let errors = identity::error_share(counts);
    let class = identity::worst_class(counts).unwrap_or("unknown");
    let failures = || {
        evidence(
            "errors.share",
            errors,
            format!(
                "{} of the requests failed, most as {class}",
                percent(errors)
            ),
        )
    };
    if class.starts_with("local.") && errors > caveats::ERRORS_MAX {
        let what = match class {
            "local.port" => "local ports",
            "local.fd" => "file descriptors",
            _ => "kernel memory for sockets",
        };
        let sentence = format!(
            "The load generator's side: it ran out of {what}, so it could not keep in flight what was asked."
        );
        return Some(
            Conclusion::new(Wall::Concurrency, 0.7, sentence, vec![failures()])
                .with_detail(Some(format!("the client ran out of {what}"))),
        );
    }
    if errors > ERRORS_TOO_MANY {
        return Some(Conclusion::inconclusive(
            format!(
                "Not decided: {} of the requests failed ({class}), and failures are not throughput.",
                percent(errors)
            ),
            vec![failures()],
        ));
    }
    if sight.throughput <= 0.0 || counts.answered == 0 {
        return Some(Conclusion::inconclusive(
            "Not decided: there were no good answers.".to_owned(),
            vec![evidence(
                "throughput",
                0.0,
                "no good answers in the window".to_owned(),
            )],
        ));
    }
    if sight.steal > STEAL_TOO_MUCH {
        return Some(Conclusion::inconclusive(
            format!(
                "Not decided: the hypervisor took {} of the processors in use.",
                percent(sight.steal)
            ),
            vec![evidence(
                "steal.share",
                sight.steal,
                format!(
                    "{} of the processors in use was stolen",
                    percent(sight.steal)
                ),
            )],
        ));
    }
    if sight.client.is_none() && sight.lanes.is_none() && sight.server.is_none() {
        return Some(Conclusion::inconclusive(
            "Not decided: neither the server's processes nor the load generator's were seen."
                .to_owned(),
            vec![evidence(
                "sides.seen",
                0.0,
                "no telemetry of either side".to_owned(),
            )],
        ));
    }
    None
}

/// An open loop that got what it asked for was limited by the asking.
fn offered_load(sight: &Sight) -> Option<Conclusion> {
    let step = sight.step;
    let asked = caveats::asked_rate(step)?;
    let counts = &step.counts;
    let ended = sight.throughput / (1.0 - identity::error_share(counts)).max(0.1);
    // A Poisson schedule asks for a random number: three deviations are its own.
    let chance = match step.load.arrival {
        Arrival::Poisson { .. } => 3.0 / (counts.scheduled.max(1) as f64).sqrt(),
        _ => 0.0,
    };
    let reached = ended / asked;
    let grown = counts.not_sent.max(0) as f64 / (counts.scheduled.max(1) as f64);
    if reached < caveats::RATE_MIN - chance || grown > 0.01 + chance {
        return None;
    }
    let full = finding::all(sight)
        .into_iter()
        .max_by(|a, b| a.strength.total_cmp(&b.strength));
    let mut facts = vec![evidence(
        "load.rate_reached",
        reached,
        format!(
            "{} requests/s were asked for and {} of them were answered",
            rate(asked),
            percent(reached.min(1.0))
        ),
    )];
    let mut confidence = 0.95;
    let mut sentence = format!(
        "The offered load: {}/s were asked for and {}/s were answered; no more was wanted.",
        rate(asked),
        rate(sight.throughput)
    );
    if let Some(full) = full.filter(|finding| finding.strength >= 0.8) {
        confidence = 0.6;
        sentence = format!(
            "The offered load: {}/s were asked for and answered, but {} is all but full: {}.",
            rate(asked),
            full.wall.words(),
            full.clause
        );
        facts.extend(full.evidence);
    }
    facts.extend(slack::elsewhere(sight, &[]));
    Some(Conclusion::new(
        Wall::OfferedLoad,
        confidence,
        sentence,
        facts,
    ))
}

/// Different resources full at different times.
fn alternating(sight: &Sight) -> Option<Conclusion> {
    let shares = phases::find(sight.step, sight.client.as_ref(), sight.server.as_ref())?;
    let parts: Vec<String> = shares
        .iter()
        .map(|(wall, share)| format!("{} in {} of the ticks", wall.words(), percent(*share)))
        .collect();
    let facts = shares
        .iter()
        .map(|(wall, share)| {
            evidence(
                &format!("phases.{}", wall.label()),
                *share,
                format!(
                    "{} alone was full in {} of the ticks",
                    wall.words(),
                    percent(*share)
                ),
            )
        })
        .collect();
    let sentence = format!("Phases that alternate: {}.", parts.join(", "));
    let mut conclusion = Conclusion::new(Wall::CoLimited, 0.7, sentence, facts)
        .with_detail(Some("phases".to_owned()));
    let sum: f64 = shares.values().sum();
    conclusion.shares = shares
        .iter()
        .map(|(wall, share)| (wall.label().to_owned(), share / sum))
        .collect();
    Some(conclusion)
}

/// Chooses between the resources that were full.
fn by_findings(sight: &Sight, mut findings: Vec<Finding>) -> Conclusion {
    findings.sort_by(|a, b| {
        b.strength
            .total_cmp(&a.strength)
            .then(b.level.total_cmp(&a.level))
    });
    yield_to_room(sight, &mut findings);
    if let Some(conclusion) = disturbed(sight, &findings) {
        return conclusion;
    }
    let sure: Vec<&Finding> = findings.iter().filter(|f| f.strength >= SURE).collect();
    match sure[..] {
        [] if sight.server.is_none() => beyond(sight),
        [] => slack::conclude(sight, findings.first()),
        [one] => single(sight, one, &findings),
        [one, other, ..] => several(sight, one, other, &findings),
    }
}

/// Others on the processors of both sides, or of one whose threads waited for them: what
/// the two sides would have done alone cannot be told, unless one was full by itself.
fn disturbed(sight: &Sight, findings: &[Finding]) -> Option<Conclusion> {
    let by_itself = |finding: &Finding| {
        let neighbour = finding
            .detail
            .as_ref()
            .is_some_and(|detail| detail.starts_with("neighbour"));
        finding.strength >= SURE && !neighbour
    };
    if !sight.shared_cpus.is_empty() || findings.iter().any(by_itself) {
        return None;
    }
    let sides: Vec<(&str, &Side)> = [
        ("the server", &sight.server),
        ("the load generator", &sight.client),
    ]
    .into_iter()
    .filter_map(|(name, side)| Some((name, side.as_ref()?)))
    .filter(|(_, side)| side.crowded() >= CROWDED)
    .collect();
    let named = findings.iter().any(|finding| finding.strength >= SURE);
    let starved = |side: &Side| side.pressure() >= 0.85 && side.cpus_busy >= 0.8;
    let both = sides.len() == 2 && sides.iter().any(|(_, side)| starved(side));
    let one = !named && sides.iter().any(|(_, side)| starved(side));
    if !both && !one {
        return None;
    }
    if let Some(conclusion) = dominant(sight, findings) {
        return Some(conclusion);
    }
    let facts = sides
        .iter()
        .map(|(name, side)| {
            evidence(
                "neighbour.cores",
                side.neighbour,
                format!(
                    "others used {} cores of {name}'s processors, which were {} busy, and its threads waited for {}",
                    sight::trimmed(side.neighbour),
                    percent(side.cpus_busy),
                    sight::trimmed(side.run_wait)
                ),
            )
        })
        .collect();
    let who: Vec<String> = sides
        .iter()
        .map(|(name, side)| format!("{} of {name}'s", percent(side.crowded())))
        .collect();
    Some(Conclusion::inconclusive(
        format!(
            "Not decided: others used {} processor time, and both sides' numbers are theirs too.",
            who.join(" and ")
        ),
        facts,
    ))
}

/// In spite of others everywhere: one side took most of its full processors itself, and the
/// other so little that its fair share of its own would have been plenty.
fn dominant(sight: &Sight, findings: &[Finding]) -> Option<Conclusion> {
    let (server, client) = (sight.server.as_ref()?, sight.client.as_ref()?);
    let much = |side: &Side| side.utilisation >= 0.75 && side.cpus_busy >= 0.95;
    let wall = if much(server) && client.utilisation <= server.utilisation / 3.0 {
        Wall::ServerCpu
    } else if much(client) && server.utilisation <= client.utilisation / 3.0 {
        Wall::ClientCpu
    } else {
        return None;
    };
    let one = findings
        .iter()
        .find(|finding| finding.wall == wall && finding.strength >= SURE)?;
    let mut conclusion = single(sight, one, &[]);
    conclusion.confidence = conclusion.confidence.min(0.5);
    Some(conclusion)
}

/// Lanes full beside another full resource: where a null server gets much more out of the
/// same lanes, they are busy because there is little to wait for, and the other is the wall.
fn yield_to_room(sight: &Sight, findings: &mut [Finding]) {
    let calibrated = sight
        .step
        .ceiling
        .as_ref()
        .is_some_and(|c| c.lanes_saturated);
    let room = calibrated && sight.ceiling_share.is_some_and(|share| share < 0.75);
    let other_full = findings
        .iter()
        .any(|f| f.wall != Wall::ClientCpu && f.strength >= 0.8);
    if room && other_full {
        for finding in findings.iter_mut().filter(|f| f.wall == Wall::ClientCpu) {
            finding.strength = finding.strength.min(SURE - 0.1);
        }
        findings.sort_by(|a, b| b.strength.total_cmp(&a.strength));
    }
}

/// One resource was full and no other.
fn single(sight: &Sight, one: &Finding, findings: &[Finding]) -> Conclusion {
    let mut facts = one.evidence.clone();
    facts.extend(slack::elsewhere(sight, &[one.wall]));
    let mut confidence = one.strength;
    // The runner-up, where there is one, takes some of it.
    if let Some(second) = findings.iter().find(|f| f.wall != one.wall) {
        confidence *= 1.0 - 0.4 * second.strength;
    }
    if unseen_rival(sight, one.wall) {
        confidence *= 0.8;
    }
    Conclusion::new(one.wall, confidence, sentence(sight, one), facts)
        .with_detail(one.detail.clone())
}

/// Whether the side that would speak against this wall was out of sight.
fn unseen_rival(sight: &Sight, wall: Wall) -> bool {
    match wall {
        Wall::ClientCpu => sight.server.is_none(),
        _ => sight.client_busy().is_none(),
    }
}

/// Two resources were full.
fn several(sight: &Sight, one: &Finding, other: &Finding, findings: &[Finding]) -> Conclusion {
    let server = [Wall::ServerCpu, Wall::ServerSerial];
    if server.contains(&one.wall) && server.contains(&other.wall) {
        return single(sight, one, &[]);
    }
    let (fuller, emptier) = if one.level >= other.level {
        (one, other)
    } else {
        (other, one)
    };
    let mut facts = fuller.evidence.clone();
    facts.extend(emptier.evidence.iter().cloned());
    facts.extend(slack::elsewhere(sight, &[one.wall, other.wall]));
    let apart = fuller.level - emptier.level;
    if apart >= APART && fuller.strength >= emptier.strength {
        let confidence = fuller.strength * (0.55 + 3.0 * (apart - APART)).min(0.9);
        let text = format!(
            "{}: {}, with {} close behind: {}.",
            capital(fuller.wall.words()),
            fuller.clause,
            emptier.wall.words(),
            emptier.clause
        );
        return Conclusion::new(fuller.wall, confidence, text, facts)
            .with_detail(fuller.detail.clone());
    }
    let full: Vec<&Finding> = findings.iter().filter(|f| f.strength >= SURE).collect();
    let text = format!(
        "More than one resource at once: {}.",
        full.iter()
            .map(|f| format!("{} ({})", f.wall.words(), f.clause))
            .collect::<Vec<_>>()
            .join(" and ")
    );
    let mut conclusion = Conclusion::new(Wall::CoLimited, 0.6 * emptier.strength, text, facts);
    conclusion.shares = shares(full.iter().map(|f| (f.wall, f.strength)));
    conclusion
}

fn shares(parts: impl IntoIterator<Item = (Wall, f64)>) -> BTreeMap<String, f64> {
    let parts: Vec<(Wall, f64)> = parts.into_iter().collect();
    let sum: f64 = parts.iter().map(|(_, part)| part).sum();
    parts
        .into_iter()
        .map(|(wall, part)| {
            (
                wall.label().to_owned(),
                if sum > 0.0 { part / sum } else { 0.0 },
            )
        })
        .collect()
}

/// The load generator had room and the server was out of sight.
fn beyond(sight: &Sight) -> Conclusion {
    let busy = sight.client_busy();
    let text = match busy {
        Some(busy) if busy < 0.8 => format!(
            "Not decided: the load generator was only {} busy, so the limit lies beyond it, but the server could not be seen.",
            percent(busy)
        ),
        _ => "Not decided: the server could not be seen, and the load generator does not say enough by itself.".to_owned(),
    };
    let mut facts = slack::elsewhere(sight, &[]);
    facts.extend(slack::in_flight(sight));
    if facts.is_empty() {
        facts.push(evidence(
            "server.seen",
            0.0,
            "the server was not seen".to_owned(),
        ));
    }
    Conclusion::inconclusive(text, facts)
}

/// The wall, and what was not full beside it.
fn sentence(sight: &Sight, one: &Finding) -> String {
    let busy = sight.client_busy();
    let beside = match one.wall {
        Wall::ClientCpu => sight.server.as_ref().map(|side| {
            format!(
                "while the server used {} of {}; the number is the load generator's",
                percent(side.utilisation),
                side.capacity_words()
            )
        }),
        Wall::Downlink | Wall::Uplink => {
            let server = sight.server.as_ref().map(|side| side.utilisation);
            match (server, busy) {
                (Some(server), Some(busy)) => Some(format!(
                    "while the server was {} busy and the load generator {}",
                    percent(server),
                    percent(busy)
                )),
                (Some(server), None) => {
                    Some(format!("while the server was {} busy", percent(server)))
                }
                (None, Some(busy)) => Some(format!(
                    "while the load generator was {} busy",
                    percent(busy)
                )),
                (None, None) => None,
            }
        }
        _ => busy.map(|busy| {
            let verb = if busy < 0.7 {
                "idled at"
            } else {
                "was busy at"
            };
            format!("while the load generator {verb} {}", percent(busy))
        }),
    };
    let name = capital(one.wall.words());
    match beside {
        Some(beside) => format!("{name}: {} {beside}.", one.clause),
        None => format!("{name}: {}.", one.clause),
    }
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
        conclusion.sentence = format!(
            "Not decided, too much speaks against it: {}",
            conclusion.sentence
        );
        conclusion.wall = Wall::Inconclusive;
        conclusion.shares.clear();
        conclusion.detail = None;
    }
    if conclusion.evidence.is_empty() {
        conclusion.evidence.push(evidence(
            "throughput",
            sight.throughput,
            format!("{} good answers per second", rate(sight.throughput)),
        ));
    }
    let decided = conclusion.wall != Wall::Inconclusive;
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
        how: if decided {
            How::Observed
        } else {
            How::Inconclusive
        },
        confidence: if decided { confidence } else { 0.0 },
        sentence: conclusion.sentence,
        detail: conclusion.detail,
        evidence: conclusion.evidence,
        next: decided
            .then(|| resources::next(sight, &resources, &walls))
            .flatten(),
        resources,
        shares: conclusion.shares,
        elasticities: BTreeMap::new(),
        caveats,
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
    if little::check(step).is_some_and(|little| (little.ratio - 1.0).abs() > 0.1) {
        left *= 0.9;
    }
    if step.driver.throughput_from == "wire" {
        left *= 0.95;
    }
    // Failures of the load generator's own host are the finding, not a doubt about it.
    let own = identity::worst_class(&step.counts).is_some_and(|class| class.starts_with("local."));
    if !own {
        left *= 1.0 - 2.0 * identity::error_share(&step.counts);
    }
    left * (1.0 - 2.0 * sight.steal)
}
