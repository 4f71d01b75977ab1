//! Elasticities as shares: of each resource, and of what no squeeze reached.
//!
//! Elasticities to all rates sum to 1, so what is left of 1 belongs to what was not squeezed:
//! a sleep, a timer, a pool. That holds only where everything else was in reach.

use std::collections::BTreeMap;

use wallfinder_model::Wall;
use wallfinder_model::experiment::Squeeze;

use super::claims::{Case, Claim, squeezes_of};
use super::dose;
use super::estimate::{ALPHA, Estimate, level};
use super::looks;
use super::readings::{Answer, Reading, SHARE_MIN};

/// Use below which telemetry bears a wait out.
const IDLE: f64 = 0.85;
/// Use above which a resource has no room, whatever its squeeze did.
const FULL: f64 = 0.98;
/// Use above which halving a resource must cost throughput.
const SHOULD_BIND: f64 = 0.6;
/// Of what several at once lost, in logarithms: one that lost less than this is no measure of what it costs.
const TAKEN_MIN: f64 = 0.8;
/// Squeezes share their shams, so that their sum is less certain than if they did not.
const SHARED_SHAMS: f64 = 1.15;

/// A wall with its part of the throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    pub(super) wall: Wall,
    pub(super) value: f64,
    pub(super) rounds: u32,
    /// Beyond doubt, at the level of this look.
    pub(super) sure: bool,
}

impl Part {
    pub(super) fn of(claim: &Claim) -> Part {
        Part {
            sure: claim.doubt.is_none(),
            ..Part::by(claim.wall, claim.reading)
        }
    }

    /// A part that was measured by one squeeze.
    pub(super) fn by(wall: Wall, reading: &Reading) -> Part {
        Part {
            wall,
            value: reading.value(),
            rounds: reading.rounds(),
            sure: reading.answer() == Answer::Surely,
        }
    }
}

/// Parts of one, by label.
pub(super) fn of(parts: &[Part]) -> BTreeMap<String, f64> {
    let total: f64 = parts.iter().map(|part| part.value.max(0.0)).sum();
    parts
        .iter()
        .map(|part| {
            let share = if total > 0.0 {
                part.value.max(0.0) / total
            } else {
                0.0
            };
            (part.wall.label().to_owned(), share)
        })
        .collect()
}

/// Of parts that are each below a half: beyond doubt more than a share.
fn surely_shared(case: &Case, estimate: Estimate) -> bool {
    let looks = level(estimate.rounds, looks::first(case.experiment.effort));
    let resources = case.readings.iter().count().max(1) as f64;
    estimate.p_above(SHARE_MIN) * resources < looks
}

/// The sum of elasticities.
pub(super) fn sum(estimates: impl Iterator<Item = Estimate>) -> Option<Estimate> {
    estimates
        .reduce(|a, b| a.minus(b.scaled(-1.0)))
        .map(|sum| Estimate {
            error: sum.error * SHARED_SHAMS,
            ..sum
        })
}

/// Of squeezes of one resource, that which throughput answers to the most.
fn stronger<'c>(case: &Case<'c>, wall: Wall) -> Option<&'c Reading> {
    let own = squeezes_of(wall).into_iter();
    strongest(own.filter_map(|squeeze| case.get(squeeze)))
}

/// The reading that throughput answers to the most.
pub(super) fn strongest<'c>(readings: impl Iterator<Item = &'c Reading>) -> Option<&'c Reading> {
    readings.max_by(|a, b| a.value().total_cmp(&b.value()))
}

/// What certainly has a share, the rest included.
pub(super) fn parts(case: &Case) -> Vec<Part> {
    let resources = [
        Wall::ServerCpu,
        Wall::ClientCpu,
        Wall::Downlink,
        Wall::Uplink,
        Wall::Backend,
    ];
    let mut parts: Vec<Part> = resources
        .into_iter()
        .filter_map(|wall| Some((wall, stronger(case, wall)?)))
        .filter(|(_, reading)| reading.has_share())
        .map(|(wall, reading)| Part {
            sure: surely_shared(case, reading.local),
            ..Part::by(wall, reading)
        })
        .collect();
    let rest = residual(case).filter(|rest| rest.interval(ALPHA).0 >= SHARE_MIN);
    if let Some(rest) = rest {
        let moved = case.readings.in_flight().is_some_and(Reading::has_share);
        parts.push(Part {
            wall: if moved { Wall::Concurrency } else { Wall::Wait },
            value: rest.value.min(1.0),
            rounds: rest.rounds,
            sure: surely_shared(case, rest),
        });
    }
    parts
}

/// 1 - Σ over the rates: the share of what no squeeze reached. `None` where a squeeze that
/// it would need was out of reach.
pub(super) fn residual(case: &Case) -> Option<Estimate> {
    if !missing(case).is_empty() {
        return None;
    }
    let rates = Wall::ALL
        .into_iter()
        .filter(|wall| *wall != Wall::Concurrency && *wall != Wall::ServerSerial);
    let together = case.readings.bounding();
    // One of which less was taken than of the others cost less beside them than it would alone.
    let is_within = |reading: &&Reading| {
        together.is_some_and(|several| {
            several.squeezes.contains(&reading.squeeze)
                && several.x_of(reading.squeeze).abs() >= TAKEN_MIN * several.effect.x.abs()
        })
    };
    let alone = rates
        .filter_map(|wall| stronger(case, wall))
        .filter(|reading| !is_within(reading))
        .map(|reading| reading.local);
    // What was squeezed at once cost at once what its parts cost.
    let sum = sum(alone.chain(together.map(|several| several.effect.elasticity)))?;
    Some(Estimate {
        value: 1.0 - sum.value,
        ..sum
    })
}

/// Squeezes without which the rest cannot be told from what was not squeezed.
pub(super) fn missing(case: &Case) -> Vec<Squeeze> {
    let mut missing = Vec::new();
    // What feeds the other side tells a wall where there is one, and nothing where it reads none.
    let tells = |reading: &Reading| reading.fed == 0.0 || reading.names();
    let absent = |squeeze: Squeeze| !case.get(squeeze).is_some_and(tells);
    // On one processor a quota takes from all of the server's work, serial or not.
    let quota = case.server_cpus() == 1 && !absent(Squeeze::ServerCapacity);
    if absent(Squeeze::ServerSpeed) && !quota {
        missing.push(Squeeze::ServerSpeed);
    }
    if absent(Squeeze::ClientSpeed) {
        missing.push(Squeeze::ClientSpeed);
    }
    let link = case.step.telemetry.link.as_ref();
    let here = case.step.telemetry.server.is_some();
    for (squeeze, wall) in [
        (Squeeze::Downlink, Wall::Downlink),
        (Squeeze::Uplink, Wall::Uplink),
    ] {
        // Without a rate between two processes of one host there is no link to fill.
        let unlimited = here && link.is_none_or(|link| link.rate_bits.is_none());
        let idle = used(case, wall).is_some_and(|used| used < IDLE - 0.15);
        if absent(squeeze) && !unlimited && !idle {
            missing.push(squeeze);
        }
    }
    if case.experiment.setting.open_loop {
        if absent(Squeeze::OfferedLoad) {
            missing.push(Squeeze::OfferedLoad);
        }
    } else if case.readings.in_flight().is_none() {
        missing.push(Squeeze::InFlight);
    }
    missing
}

/// Use of a resource by telemetry.
fn used(case: &Case, wall: Wall) -> Option<f64> {
    let view = case
        .observed
        .resources
        .iter()
        .find(|view| view.wall == wall);
    view.map(|view| view.utilisation)
}

/// Both sides and the link have room: telemetry shows time left, or a large dose bound
/// while small ones did not. The second is the better evidence, for a squeeze that binds at
/// all is known to work. Processors that others fill have none, however little either side uses.
pub(super) fn idle(case: &Case) -> bool {
    if case.others.is_some() {
        return false;
    }
    let room = |wall: Wall, most: f64| {
        let used = used(case, wall);
        let squeeze = squeezes_of(wall).first().copied();
        let bound = squeeze
            .and_then(|squeeze| case.get(squeeze))
            .and_then(|reading| dose::binds(reading, 0.5));
        match (used, bound) {
            (Some(used), Some(true)) => Some(used < FULL),
            (Some(used), _) => Some(used < most),
            (None, Some(true)) => Some(true),
            (None, _) => None,
        }
    };
    room(Wall::ServerCpu, IDLE) == Some(true)
        && room(Wall::ClientCpu, IDLE) == Some(true)
        && [Wall::Downlink, Wall::Uplink, Wall::ServerSerial]
            .into_iter()
            .all(|wall| room(wall, IDLE + 0.05).unwrap_or(true))
}

/// Squeezes that by telemetry should have bound at their large dose, and did not: either
/// the squeeze does not work, or what looks busy is not at work.
pub(super) fn inert(case: &Case) -> Vec<Squeeze> {
    let resources = [
        Wall::ServerCpu,
        Wall::ClientCpu,
        Wall::Downlink,
        Wall::Uplink,
    ];
    resources
        .into_iter()
        .filter(|wall| used(case, *wall).is_some_and(|used| used > SHOULD_BIND))
        .filter_map(|wall| squeezes_of(wall).first().copied())
        .filter(|squeeze| {
            case.get(*squeeze)
                .is_some_and(|reading| dose::binds(reading, 0.5) == Some(false))
        })
        .collect()
}
