//! What squeezes did, as a verdict's reasons name it.

use wallfinder_model::Wall;
use wallfinder_model::experiment::{Squeeze, Takes};
use wallfinder_model::reason::{Moved, Rest};

use super::claims::Case;
use super::readings::Reading;
use super::windows::Dose;

/// What a squeeze did at its usual dose.
pub(super) fn moved(reading: &Reading) -> Moved {
    let dose = match (reading.bent, reading.main) {
        (false, Some(_)) => Dose::Main,
        _ => Dose::Small,
    };
    let xs = |dose| reading.alone(dose).map(|at| at.x).collect::<Vec<f64>>();
    let mut own = xs(dose);
    if own.is_empty() {
        // What cannot be dosed finely.
        own = xs(Dose::Deep);
    }
    let squeeze = reading.squeeze;
    let usual = match squeeze {
        Squeeze::MoreInFlight => 1.25f64,
        _ => 0.8,
    };
    let x = crate::finite::median(&own).unwrap_or(usual.ln());
    let by = match squeeze {
        Squeeze::MoreInFlight => x.exp() - 1.0,
        Squeeze::ThinkTime => (-x).exp() - 1.0,
        _ => 1.0 - x.exp(),
    };
    let elasticity = match squeeze {
        Squeeze::MoreInFlight => reading.value(),
        _ => reading.measured(),
    };
    Moved {
        squeeze,
        by,
        lost: 1.0 - (x * elasticity).exp(),
    }
}

/// Where an elasticity certainly lies below this, throughput rose under the squeeze.
pub(super) const RISES: f64 = -0.1;

/// What the other squeezes did.
pub(super) fn rest(case: &Case, but: &[Squeeze]) -> Rest {
    let others: Vec<&Reading> = case
        .readings
        .iter()
        .filter(|reading| !but.contains(&reading.squeeze))
        // Fewer clients are less of what each of them has.
        .filter(|reading| {
            reading.squeeze != Squeeze::MoreClients || !but.contains(&Squeeze::ClientSpeed)
        })
        .collect();
    let moving = others
        .iter()
        .filter(|reading| !reading.slack())
        .map(|reading| (reading.squeeze, reading.value().max(0.0)));
    Rest {
        squeezed: !others.is_empty(),
        moving: moving.collect(),
        // What throughput rose under is told apart.
        rises: others.iter().any(|reading| reading.record().high < RISES),
    }
}

/// What certainly is no wall.
pub(super) fn ruled_out(case: &Case) -> Vec<Wall> {
    let speaks = |reading: &&Reading| {
        matches!(reading.squeeze.takes(), Takes::Speed | Takes::Offered) && reading.excluded()
    };
    let mut out: Vec<Wall> = case
        .readings
        .iter()
        .filter(speaks)
        .map(|reading| reading.squeeze.wall())
        .collect();
    if case.readings.in_flight().is_some_and(Reading::excluded) {
        out.push(Wall::Concurrency);
    }
    out
}
