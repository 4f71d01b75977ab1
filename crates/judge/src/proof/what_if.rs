//! What a change would do, from ceilings: more of a resource moves its ceiling, and the
//! lowest ceiling is the throughput.
//!
//! It is a prediction to be held beside a measurement. It knows nothing of what was neither
//! squeezed nor seen, and says so where that is what it leans on.

use wallfinder_model::experiment::Squeeze;
use wallfinder_model::{Environment, Step, Verdict, Wall};

use super::dose::{self, Ceiling};
use super::looks::speed_of;
use super::prove;
use super::readings::Readings;
use crate::finite::positive;
use crate::words::{rate, trimmed};

/// Throughput after a change, before it is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Prediction {
    /// Good answers per second.
    pub throughput: f64,
    /// Lower end of what the ceilings' intervals allow.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What it rests on, in one sentence.
    pub because: String,
}

/// A ceiling after the change.
struct Changed {
    wall: Wall,
    ratio: f64,
    low: f64,
    high: f64,
    known: bool,
}

/// Predicts the throughput after each resource is multiplied by its factor: the downlink by
/// 2 for a link twice as fast, and for answers of half the size. `None` without a decided
/// verdict, without throughput, or with a factor that is no positive number.
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
    let readings = step.experiment.as_ref().map(Readings::of);
    let walls = super::walls(&verdict);
    let mut changed: Vec<Changed> = walls
        .iter()
        .map(|wall| at_the_wall(*wall, &verdict, changes))
        .collect();
    if let Some(readings) = &readings {
        let others = dose::ceilings(readings, &verdict.resources, throughput, &walls);
        changed.extend(
            others
                .into_iter()
                .map(|(wall, ceiling)| behind(wall, ceiling, changes)),
        );
    }
    let lowest = changed.iter().min_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
    let low = changed.iter().map(|c| c.low).fold(f64::INFINITY, f64::min);
    let high = changed.iter().map(|c| c.high).fold(f64::INFINITY, f64::min);
    Some(Prediction {
        throughput: throughput * lowest.ratio,
        low: throughput * low,
        high: throughput * high.max(lowest.ratio),
        because: because(lowest, &walls, throughput),
    })
}

/// What a change does to a resource's ceiling.
fn factor(wall: Wall, changes: &[(Squeeze, f64)]) -> f64 {
    changes
        .iter()
        .filter(|(squeeze, _)| super::claims::squeezes_of(wall).contains(squeeze))
        .map(|(_, factor)| factor)
        .product()
}

/// A wall answers with its own elasticity, as far as it was measured; at most in proportion
/// when widened, for what widens a wall cannot gain more than its ceiling.
fn at_the_wall(wall: Wall, verdict: &Verdict, changes: &[(Squeeze, f64)]) -> Changed {
    let factor = factor(wall, changes);
    let elasticity = speed_of(wall)
        .and_then(|squeeze| verdict.elasticities.get(squeeze.label()))
        .filter(|_| wall != Wall::ServerCpu || verdict.detail.is_none());
    let (value, low, high) = elasticity.map_or((1.0, 1.0, 1.0), |e| (e.value, e.low, e.high));
    let power = |e: f64| factor.powf(e.clamp(0.0, if factor > 1.0 { 1.0 } else { 2.0 }));
    let (a, b) = (power(low), power(high));
    Changed {
        wall,
        ratio: power(value),
        low: a.min(b),
        high: a.max(b),
        known: true,
    }
}

fn behind(wall: Wall, ceiling: Ceiling, changes: &[(Squeeze, f64)]) -> Changed {
    let factor = factor(wall, changes);
    let (low, high) = ceiling.interval.unwrap_or((ceiling.ratio, ceiling.ratio));
    Changed {
        wall,
        ratio: ceiling.ratio * factor,
        low: low * factor,
        high: high * factor,
        known: ceiling.interval.is_some(),
    }
}

fn because(lowest: &Changed, walls: &[Wall], throughput: f64) -> String {
    let at = rate(throughput * lowest.ratio);
    if walls.contains(&lowest.wall) {
        let more = trimmed(lowest.ratio, 2);
        return format!(
            "{} stays the wall, and its ceiling is then {more} times what it was.",
            crate::words::capital(lowest.wall.words())
        );
    }
    let source = if lowest.known {
        "as squeezing it showed"
    } else {
        "by its service demand, which was not squeezed until it bound"
    };
    format!(
        "{} binds next, at {at}/s, {source}.",
        crate::words::capital(lowest.wall.words())
    )
}
