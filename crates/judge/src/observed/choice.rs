//! Which of the resources that were full is the wall.
//!
//! One: that is the wall. Several: the fuller one, or co-limited where they cannot be told
//! apart. None: see [`super::slack`]. Others on the processors: perhaps nothing at all.

use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::reason::{Beside, Side as Which};
use wallfinder_model::{Reason, Wall};

use super::finding::Finding;
use super::sight::{Side, Sight};
use super::{Conclusion, shares, slack};

/// A finding this sure can be a wall.
pub(super) const SURE: f64 = 0.5;
/// Share of a side's processors in others' hands from which its numbers are theirs too.
pub(super) const CROWDED: f64 = 0.15;
/// Levels nearer than this cannot be told apart.
const APART: f64 = 0.03;

/// Chooses between the resources that were full.
pub(super) fn by_findings(sight: &Sight, mut findings: Vec<Finding>) -> Conclusion {
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
    let by_itself = |finding: &Finding| finding.strength >= SURE && !finding.by_others;
    if !sight.shared_cpus.is_empty() || findings.iter().any(by_itself) {
        return None;
    }
    let sides: Vec<(Which, &Side)> = sight
        .sides()
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
        .map(|(which, side)| {
            Evidence::new(
                "neighbour.cores",
                side.neighbour,
                Fact::Others {
                    side: *which,
                    cores: side.neighbour,
                    busy: Some(side.cpus_busy),
                    waited: Some(side.run_wait),
                },
            )
        })
        .collect();
    let sides = sides.iter().map(|(which, side)| (*which, side.crowded()));
    let reason = Reason::OthersToo {
        sides: sides.collect(),
    };
    Some(Conclusion::inconclusive(reason, facts))
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

/// Workers full beside another full resource: where a null server gets much more out of the
/// same workers, they are busy because there is little to wait for, and the other is the wall.
fn yield_to_room(sight: &Sight, findings: &mut [Finding]) {
    let calibrated = sight
        .step
        .ceiling
        .as_ref()
        .is_some_and(|c| c.workers_saturated);
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
    let reason = Reason::Full {
        full: one.full(),
        beside: beside(sight, one.wall),
    };
    Conclusion::new(one.wall, confidence, reason, facts).with_detail(one.detail.clone())
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
        let reason = Reason::FullAndNear {
            full: fuller.full(),
            near: emptier.full(),
        };
        return Conclusion::new(fuller.wall, confidence, reason, facts)
            .with_detail(fuller.detail.clone());
    }
    let full: Vec<&Finding> = findings.iter().filter(|f| f.strength >= SURE).collect();
    let reason = Reason::SeveralFull {
        full: full.iter().map(|finding| finding.full()).collect(),
    };
    let mut conclusion = Conclusion::new(Wall::CoLimited, 0.6 * emptier.strength, reason, facts);
    conclusion.shares = shares(full.iter().map(|f| (f.wall, f.strength)));
    conclusion
}

/// The load generator had room and the server was out of sight.
fn beyond(sight: &Sight) -> Conclusion {
    let mut facts = slack::elsewhere(sight, &[]);
    facts.extend(slack::in_flight(sight));
    if facts.is_empty() {
        facts.push(Evidence::new("server.seen", 0.0, Fact::ServerNotSeen));
    }
    let reason = Reason::ServerNotSeen {
        client: sight.client_busy().filter(|busy| *busy < 0.8),
    };
    Conclusion::inconclusive(reason, facts)
}

/// What was not full beside a wall.
fn beside(sight: &Sight, wall: Wall) -> Beside {
    let server = || {
        let side = sight.server.as_ref()?;
        Some((side.utilisation, side.capacity()))
    };
    match wall {
        Wall::ClientCpu => Beside {
            server: server(),
            client: None,
        },
        Wall::Downlink | Wall::Uplink => Beside {
            server: server(),
            client: sight.client_busy(),
        },
        _ => Beside {
            server: None,
            client: sight.client_busy(),
        },
    }
}
