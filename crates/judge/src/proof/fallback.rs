//! Where the squeezes do not decide: what telemetry says, or why nothing can be said.

use wallfinder_model::experiment::Squeeze;
use wallfinder_model::reason::{Open, Unsqueezed};
use wallfinder_model::verdict::How;
use wallfinder_model::{Caveat, Detail, Reason, Wall};

use super::claims::{Case, squeezes_of};
use super::decide::Decision;
use super::readings::{Answer, HALF_WIDTH_MAX, Reading};
use super::say;
use super::shares::{idle, missing};
use super::windows::ELASTICITY_MAX;

/// A foreign driver with far fewer connections than it was asked for, while slowing either
/// side moves nothing and both have time left: they are what holds it.
pub(super) fn client_pool(case: &Case) -> Option<Decision> {
    let connections = case.experiment.setting.connections?;
    let few = connections.open > 0 && connections.open <= connections.asked / 2;
    let sides = [Squeeze::ServerSpeed, Squeeze::ClientSpeed].map(|side| case.get(side));
    let both_slack = sides.iter().all(|side| side.is_some_and(Reading::slack));
    if !few || !both_slack || !idle(case) {
        return None;
    }
    let (asked, open) = (connections.asked, connections.open);
    // What is in flight was counted and not squeezed.
    let reason = Reason::FewConnections { asked, open };
    let decision = Decision::new(Wall::Concurrency, How::Likely, reason);
    Some(decision.with_detail(Some(Detail::FewConnections { asked, open })))
}

/// Squeezes that would tell were out of reach: what telemetry says, where the squeezes that
/// were in reach do not speak against it.
pub(super) fn observed(case: &Case) -> Option<Decision> {
    let missing = missing(case);
    let first = missing.first()?;
    let out = case
        .experiment
        .out_of_reach
        .iter()
        .find(|out| missing.contains(&out.squeeze));
    let missing = Unsqueezed {
        squeeze: out.map_or(*first, |out| out.squeeze),
        why: out.map(|out| out.why.clone()),
        others: case.others.clone(),
    };
    let ruled_out = say::ruled_out(case);
    let observed = case.observed;
    let walls: Vec<Wall> = match observed.wall {
        Wall::CoLimited => Wall::ALL
            .into_iter()
            .filter(|wall| observed.shares.contains_key(wall.label()))
            .collect(),
        wall => vec![wall],
    };
    let against = walls.iter().find(|wall| {
        let squeezes = squeezes_of(**wall);
        let squeezed: Vec<&Reading> = squeezes
            .iter()
            .filter_map(|squeeze| case.get(*squeeze))
            .collect();
        !squeezed.is_empty() && squeezed.iter().all(|reading| reading.slack())
    });
    if observed.wall == Wall::Inconclusive || against.is_some() {
        let decision = Decision::inconclusive(Reason::OutOfReach {
            ruled_out,
            against: against.copied(),
            missing: missing.clone(),
        });
        return Some(decision.with_detail(Some(Detail::Unsqueezed { missing })));
    }
    let reason = Reason::ByTelemetry {
        ruled_out,
        observed: Box::new(observed.reason.clone()),
    };
    let mut decision = Decision::new(observed.wall, How::Observed, reason);
    decision.shares = observed.shares.clone();
    let unsqueezed = || Detail::Unsqueezed {
        missing: missing.clone(),
    };
    decision.detail = observed.detail.clone().or_else(|| Some(unsqueezed()));
    decision.caveats.push(Caveat::NotSqueezed { missing });
    Some(decision)
}

/// Why nothing was decided.
pub(super) fn undecided(case: &Case) -> Decision {
    Decision::inconclusive(Reason::Undecided {
        ruled_out: say::ruled_out(case),
        why: reason(case),
    })
}

fn reason(case: &Case) -> Open {
    if let Some(why) = &case.experiment.cut_short {
        return Open::CutShort { why: why.clone() };
    }
    let readings = case.readings;
    if let Some((squeeze, odd)) = readings.iter().find_map(|r| Some((r.squeeze, r.odd()?))) {
        return Open::Odd { squeeze, odd };
    }
    if let Some(others) = &case.others {
        let others = others.clone();
        return Open::CrowdedOut { others };
    }
    if let Some(reading) = readings.iter().find(|reading| reading.disagree) {
        let squeeze = reading.squeeze;
        return Open::DosesDisagree { squeeze };
    }
    let wide = readings
        .iter()
        .filter(|reading| reading.answer() == Answer::Open || reading.half_width() > HALF_WIDTH_MAX)
        .max_by(|a, b| a.half_width().total_cmp(&b.half_width()));
    if let Some(reading) = wide {
        let (low, high) = reading.interval();
        return Open::Wide {
            squeeze: reading.squeeze,
            low: low.max(-ELASTICITY_MAX),
            high: high.min(ELASTICITY_MAX),
            rounds: reading.rounds(),
        };
    }
    let speed = case.get(Squeeze::ServerSpeed);
    let capacity = case.get(Squeeze::ServerCapacity);
    if capacity.is_some_and(Reading::names) && speed.is_some_and(Reading::slack) {
        return Open::QuotaWithout;
    }
    if readings.iter().all(Reading::slack) {
        return Open::NothingMoves { idle: idle(case) };
    }
    let second = case.get(Squeeze::InFlight).map(|_| Squeeze::ThinkTime);
    let most = readings
        .iter()
        .filter(|reading| Some(reading.squeeze) != second)
        .max_by(|a, b| a.value().total_cmp(&b.value()));
    match most {
        Some(reading) => Open::NotEnough {
            squeeze: reading.squeeze,
            value: reading.value(),
        },
        None => Open::NothingInForce,
    }
}
