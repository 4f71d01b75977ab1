//! What a change would do, from elasticities and ceilings: more of a resource moves what
//! answers to it, until the next ceiling binds.
//!
//! It is a prediction to be held beside a measurement. It knows nothing of what was neither
//! squeezed nor seen, and says so where that is what it leans on.

use wallfinder_model::experiment::Squeeze;
use wallfinder_model::record::RequestKind;
use wallfinder_model::{Detail, Environment, Step, Verdict, Wall};

use super::claims::squeezes_of;
use super::dose::{self, Ceiling};
use super::estimate::ALPHA;
use super::prove;
use super::readings::Readings;
use crate::finite::positive;
use crate::routes::{MadeOf, WallShares, costs_of};

/// An elasticity whose lower end is below this may be noise, and moves nothing.
const ELASTICITY_MIN: f64 = 0.1;
/// What came of a request half as dear was off what was told by so much of the gain, both as logarithms: the root mean
/// square of ten in the labelled suite. A share tells how much time comes free, and not what that changes in the rest.
const OFF_PER_GAIN: f64 = 0.06;

/// Throughput after a change, before it is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Good answers per second.
    pub throughput: f64,
    /// Lower end of what the intervals behind it allow.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What it rests on.
    pub because: Because,
    /// Whether other bytes cost processors less or more, which answers of one size do not tell and this leaves out.
    pub leaves_bytes_out: bool,
}

/// What a prediction rests on.
#[derive(Debug, Clone, PartialEq)]
pub enum Because {
    /// The change does not touch what binds.
    Untouched {
        /// What that is.
        walls: Vec<Wall>,
    },
    /// What binds now still does.
    StillBinds {
        /// What that is.
        walls: Vec<Wall>,
        /// At so many times the present throughput.
        ratio: f64,
    },
    /// Another resource binds then.
    BindsNext {
        /// Which.
        wall: Wall,
        /// At so many a second.
        throughput: f64,
        /// Whether squeezing it showed that, and not its demand alone.
        squeezed: bool,
    },
}

/// A multiple of the present throughput, with its interval.
#[derive(Debug, Clone, Copy)]
struct Multiple {
    ratio: f64,
    low: f64,
    high: f64,
}

/// Predicts the throughput after each resource is multiplied by its factor: the downlink by
/// 2 for a link twice as fast, and also for answers of half the size. `None` without a
/// decided verdict, without throughput, or with a factor that is no positive number.
pub fn what_if(step: &Step, changes: &[(Squeeze, f64)]) -> Option<Prediction> {
    let throughput = positive(step.throughput)?;
    if changes
        .iter()
        .any(|(_, factor)| positive(*factor).is_none())
    {
        return None;
    }
    let verdict = match (&step.verdict, &step.experiment) {
        (Some(verdict), _) => verdict.clone(),
        (None, Some(_)) => prove(step, &Environment::default()),
        (None, None) => return None,
    };
    if verdict.wall == Wall::Inconclusive {
        return None;
    }
    let walls = super::walls(&verdict);
    let readings = step
        .experiment
        .as_ref()
        .map(|experiment| Readings::of(experiment).within(step));
    let free = answered(&verdict, &walls, changes, readings.as_ref());
    let lowest = readings
        .map(|readings| dose::ceilings(&readings, &verdict.resources, throughput, &walls))
        .unwrap_or_default()
        .into_iter()
        .map(|(wall, ceiling)| (wall, ceiling, moved(wall, ceiling, changes)))
        .min_by(|a, b| a.2.ratio.total_cmp(&b.2.ratio));
    let Some((wall, ceiling, next)) = lowest.filter(|(_, _, next)| next.low < free.high) else {
        let because = stays(&walls, free);
        return Some(prediction(throughput, free, because));
    };
    let capped = Multiple {
        ratio: free.ratio.min(next.ratio),
        low: free.low.min(next.low),
        high: free.high.min(next.high),
    };
    let because = if next.ratio < free.ratio {
        binds_next(wall, ceiling, throughput * next.ratio)
    } else {
        stays(&walls, free)
    };
    Some(prediction(throughput, capped, because))
}

/// Predicts the throughput where one request of a kind, or one session, takes `factor` times as much of what the wall is
/// made of: of the processors of the server, of what it asks or of the client, or of the link either way. `None` where its
/// cost is not known; [`untold`] may say why.
pub fn what_if_of_kind(step: &Step, name: &str, factor: f64) -> Option<Prediction> {
    let wall = step.verdict.as_ref()?.wall;
    let told = match wall {
        Wall::Wait => of_a_wait(step, name, factor),
        _ => of_a_rate(step, wall, name, factor),
    };
    Some(with_what_shares_do_not_tell(
        told?,
        positive(step.throughput)?,
    ))
}

/// The same with room for how far such predictions were off.
fn with_what_shares_do_not_tell(told: Prediction, present: f64) -> Prediction {
    let off = 2.0 * OFF_PER_GAIN * (told.throughput / present).ln();
    let apart = |end: f64| (end / told.throughput).ln().hypot(off).exp();
    Prediction {
        low: told.throughput / apart(told.low),
        high: told.throughput * apart(told.high),
        ..told
    }
}

/// Why there is nothing to predict of a request from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Untold {
    /// It is one of so many of the rarest, which are told only together.
    Pooled {
        /// How many.
        of: usize,
    },
    /// The wall is the uplink, and the bytes of requests were not counted.
    RequestBytes,
}

/// Why [`what_if_of_kind`] has nothing to go by for this name, where that is known.
pub fn untold(step: &Step, name: &str) -> Option<Untold> {
    let wall = step.verdict.as_ref()?.wall;
    match wall {
        Wall::Inconclusive => return None,
        Wall::Uplink if WallShares::of(wall, &step.requests).is_none() => {
            let own =
                |kind: &RequestKind| kind.name == name || kind.session.as_deref() == Some(name);
            return step
                .requests
                .iter()
                .any(own)
                .then_some(Untold::RequestBytes);
        }
        _ => {}
    }
    let names = &step.pool.as_ref()?.names;
    let of = names.len();
    names
        .iter()
        .any(|pooled| pooled == name)
        .then_some(Untold::Pooled { of })
}

/// The share that a kind, or a session, has of the wall, with its interval.
fn share_of_wall(step: &Step, wall: Wall, name: &str) -> Option<[f64; 3]> {
    let shares = WallShares::of(wall, &step.requests)?;
    shares.share(name, costs_of(step, name).as_ref())
}

/// Where requests share what works at a rate.
fn of_a_rate(step: &Step, wall: Wall, name: &str, factor: f64) -> Option<Prediction> {
    let squeeze = match MadeOf::of(wall) {
        Some(MadeOf::AnswerBytes) => Squeeze::Downlink,
        Some(MadeOf::RequestBytes) => Squeeze::Uplink,
        Some(MadeOf::BackendCpu) => Squeeze::BackendSpeed,
        Some(MadeOf::ClientCpu) => Squeeze::ClientSpeed,
        Some(MadeOf::ServerCpu | MadeOf::Waiting) | None => Squeeze::ServerSpeed,
    };
    // Where no one thing binds, it is asked of the server's processors.
    let of = MadeOf::of(wall).map_or(Wall::ServerCpu, |_| wall);
    let shares = share_of_wall(step, of, name)?;
    let [found, low, high] = shares.map(|share| what_if(step, &[(squeeze, freed(share, factor))]));
    let (found, low, high) = (found?, low?, high?);
    Some(Prediction {
        low: found.low.min(low.low).min(high.low),
        high: found.high.max(low.high).max(high.high),
        ..found
    })
}

/// The same where requests wait for one another: as fast as what they wait for is free again, and no faster than the next
/// wall lets them.
fn of_a_wait(step: &Step, name: &str, factor: f64) -> Option<Prediction> {
    let verdict = step.verdict.as_ref()?;
    let throughput = positive(step.throughput)?;
    let shares = share_of_wall(step, verdict.wall, name)?;
    let [ratio, low, high] = shares.map(|share| freed(share, factor));
    let free = Multiple {
        ratio,
        low: low.min(high),
        high: low.max(high),
    };
    let walls = super::walls(verdict);
    let next = verdict.next.as_ref();
    match next.filter(|next| next.ratio < free.ratio) {
        None => Some(prediction(throughput, free, stays(&walls, free))),
        Some(next) => {
            let capped = Multiple {
                ratio: next.ratio,
                low: free.low.min(next.ratio),
                high: free.high.min(next.ratio.max(free.low)),
            };
            let because = Because::BindsNext {
                wall: next.wall,
                throughput: throughput * next.ratio,
                squeezed: false,
            };
            Some(prediction(throughput, capped, because))
        }
    }
}

/// The multiple of a resource that comes free where what has this share of it takes `factor` times as much.
fn freed(share: f64, factor: f64) -> f64 {
    1.0 / (1.0 - share.clamp(0.0, 1.0) * (1.0 - factor)).max(1e-3)
}

fn prediction(throughput: f64, by: Multiple, because: Because) -> Prediction {
    Prediction {
        throughput: throughput * by.ratio,
        low: throughput * by.low.min(by.ratio),
        high: throughput * by.high.max(by.ratio),
        because,
        leaves_bytes_out: false,
    }
}

/// What the changes do by their elasticities, before any other ceiling binds. Where ceilings
/// coincide, one that is not widened holds all of it.
fn answered(
    verdict: &Verdict,
    walls: &[Wall],
    changes: &[(Squeeze, f64)],
    readings: Option<&Readings>,
) -> Multiple {
    let mut by = Multiple {
        ratio: 1.0,
        low: 1.0,
        high: 1.0,
    };
    // What is in flight is no rate: it does not sum up with them.
    let rates = walls.iter().filter(|wall| **wall != Wall::Concurrency);
    let of_walls = rates.flat_map(|wall| squeezes_of(*wall));
    let of_walls = of_walls.filter_map(|squeeze| verdict.elasticities.get(squeeze.label()));
    let strongest = of_walls.max_by(|a, b| a.value.total_cmp(&b.value));
    for (squeeze, factor) in changes {
        let own = walls
            .iter()
            .any(|wall| squeezes_of(*wall).contains(squeeze));
        let widens = *factor > 1.0;
        // What others do while a processor is stopped is delay, which a faster one does not take away.
        let reading = readings.and_then(|readings| readings.get(*squeeze));
        if widens && reading.is_some_and(|reading| reading.over_use.is_some()) {
            continue;
        }
        let measured = verdict.elasticities.get(squeeze.label());
        let (mut value, mut low, mut high) = match measured {
            Some(e) if e.low >= ELASTICITY_MIN => (e.value, e.low, e.high),
            None if own => (1.0, 1.0, 1.0),
            _ => continue,
        };
        // What is no wall may bind when it is squeezed. Widened, it brings what the wall leaves, for
        // elasticities to rates sum to one.
        if let Some(wall) = strongest.filter(|_| widens && !own && verdict.wall != Wall::CoLimited)
        {
            let left = (1.0 - wall.value).max(0.0);
            (value, low) = (value.min(left), low.min(left));
            high = high.min((1.0 - wall.low).max(left));
        }
        // Nothing gains more than in proportion by being widened; a wall that answers more
        // than its dose may well lose more.
        let most = if widens { 1.0 } else { 2.0 };
        let power = |e: f64| factor.powf(e.clamp(0.0, most));
        by.ratio *= power(value);
        by.low *= power(low).min(power(high));
        by.high *= power(low).max(power(high));
    }
    let kink = matches!(verdict.detail, Some(Detail::Coincide { .. }));
    let held: Vec<Squeeze> = walls
        .iter()
        .filter_map(|wall| squeezes_of(*wall).first().copied())
        .filter(|held| {
            !changes
                .iter()
                .any(|(squeeze, f)| squeeze == held && *f > 1.0)
        })
        .collect();
    if kink && !held.is_empty() && by.ratio > 1.0 {
        // How far behind the ceiling of the one that stays may lie.
        let room = held
            .iter()
            .filter_map(|squeeze| readings?.get(*squeeze))
            .map(|reading| reading.gap.interval(ALPHA).1.max(0.0).exp())
            .fold(by.high, f64::min);
        return Multiple {
            ratio: 1.0,
            low: 1.0,
            high: room,
        };
    }
    by
}

/// A ceiling after the changes.
fn moved(wall: Wall, ceiling: Ceiling, changes: &[(Squeeze, f64)]) -> Multiple {
    let factor: f64 = changes
        .iter()
        .filter(|(squeeze, _)| squeezes_of(wall).contains(squeeze))
        .map(|(_, factor)| factor)
        .product();
    let (low, high) = ceiling.interval.unwrap_or((ceiling.ratio, ceiling.ratio));
    Multiple {
        ratio: ceiling.ratio * factor,
        low: low * factor,
        high: high * factor,
    }
}

fn stays(walls: &[Wall], by: Multiple) -> Because {
    let walls = walls.to_vec();
    match by.ratio {
        ratio if (ratio - 1.0).abs() < 0.005 => Because::Untouched { walls },
        ratio => Because::StillBinds { walls, ratio },
    }
}

fn binds_next(wall: Wall, ceiling: Ceiling, at: f64) -> Because {
    Because::BindsNext {
        wall,
        throughput: at,
        squeezed: ceiling.interval.is_some(),
    }
}
