//! The proof: the wall of one load, from an experiment that squeezed one resource at a time, and what is not
//! suspected at once.
//!
//! ```text
//!  design ─► [conductor runs a batch] ─► looks ─► enough?
//!                                          │
//!  Experiment ─► windows ─► readings ─┬─► claims ─► decide ─► Verdict
//!                squares ─────────────┤     gates ─────┘
//!                                     └─► dose ─► next wall, what_if
//! ```
//!
//! It is not the conductor: it squeezes nothing, and an old record is judged again by a
//! newer version. Telemetry is evidence beside the squeezes; it names a wall only where the
//! squeezes that would tell were out of reach, and then the verdict says *observed*.
//!
//! Invariants: *proved* needs at least six rounds, an interval that excludes a half with the
//! error shared over resources and looks, the small dose to bear the large one out, and
//! every gate passed; quick effort never proves.

use std::collections::BTreeMap;

use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::experiment::{Condition, Experiment, Squeeze};
use wallfinder_model::record::ThroughputFrom;
use wallfinder_model::verdict::{Elasticity, How, NextWall};
use wallfinder_model::{Caveat, Detail, Environment, Step, Verdict, Wall};

use crate::caveats::ERRORS_MAX;
use crate::{clients, identity, observed, profile};
use alone::AtOnce;
use claims::Case;
use estimate::ALPHA;
use gates::Gates;
use pace::Pace;
use readings::{Reading, Readings};
use windows::Done;

pub mod ab;
mod alone;
mod claims;
mod decide;
pub mod design;
mod dose;
mod estimate;
mod fallback;
mod gates;
mod in_flight;
pub mod looks;
mod pace;
mod readings;
mod say;
mod shares;
pub mod sizes;
pub(crate) mod squares;
#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;
mod what_if;
mod windows;

pub use looks::{ConditionOrder, Next, next};
pub use what_if::{Because, Prediction, Untold, untold, what_if, what_if_of_kind};
pub use windows::{WASH_OUT_MAX_S, relatives};

/// The squeeze that throughput answers to the most by now, and how well that is known: for whoever watches. It is no
/// verdict.
pub fn strongest(experiment: &Experiment) -> Option<(Squeeze, Elasticity)> {
    let readings = Readings::of(experiment);
    let asked = readings
        .iter()
        .filter(|it| it.squeeze != Squeeze::MoreInFlight);
    let strongest = asked.max_by(|a, b| a.value().total_cmp(&b.value()))?;
    Some((strongest.squeeze, strongest.record()))
}

/// The verdict of a step with an experiment; without one, the observed verdict.
pub(crate) fn prove(step: &Step, environment: &Environment) -> Verdict {
    let observed = observed::verdict(step, environment);
    let Some(experiment) = &step.experiment else {
        return observed;
    };
    let readings = Readings::of(experiment).within(step);
    let gates = Gates::of(step, experiment, &observed.caveats);
    let case = Case {
        step,
        experiment,
        observed: &observed,
        readings: &readings,
        gates: &gates,
        others: observed::crowded_out(step, environment),
    };
    let decision = decide::decide(&case);
    let evidence = evidence(&case, &decision);
    let detail = detail(&case, &decision);
    let caveats = caveats(&case, &decision);
    let mut verdict = Verdict {
        wall: decision.wall,
        how: decision.how,
        confidence: confidence(decision.how, observed.confidence),
        reason: decision.reason,
        detail,
        evidence,
        resources: observed.resources.clone(),
        shares: decision.shares,
        elasticities: readings
            .iter()
            .map(|reading| (reading.squeeze.label().to_owned(), reading.record()))
            .collect(),
        next: None,
        caveats,
        gates: gates.all(),
        sentence: None,
        made_of: None,
    };
    verdict.next = next_wall(&verdict, &readings, step.throughput);
    if verdict.wall == Wall::ClientCpu
        && let Some(full) = clients::full(step)
    {
        verdict.detail.get_or_insert_with(|| full.detail());
    }
    verdict
}

/// What the wall is made of. Of a lock who looked inside knows more than who looked from outside.
fn detail(case: &Case, decision: &decide::Decision) -> Option<Detail> {
    let outside = || decision.detail.clone();
    let is_in_line = match decision.wall {
        Wall::Wait => matches!(alone::at_once(case.step), Some(AtOnce::One { .. })),
        Wall::ServerSerial => {
            matches!(decision.detail, Some(Detail::InTurn | Detail::OneRuns))
        }
        _ => false,
    };
    match is_in_line {
        true => profile::lock(case.step).or_else(outside),
        false => outside().or_else(|| profile::made_of(case.step, decision.wall)),
    }
}

/// The walls that a verdict names: one, or those that share.
fn walls(verdict: &Verdict) -> Vec<Wall> {
    match verdict.wall {
        Wall::CoLimited => Wall::ALL
            .into_iter()
            .filter(|wall| verdict.shares.contains_key(wall.label()))
            .collect(),
        wall => vec![wall],
    }
}

fn next_wall(verdict: &Verdict, readings: &Readings, throughput: f64) -> Option<NextWall> {
    if matches!(verdict.wall, Wall::Inconclusive) {
        return None;
    }
    let ceilings = dose::ceilings(readings, &verdict.resources, throughput, &walls(verdict));
    dose::next(&ceilings)
}

/// A statement about the rules, not a measured probability.
fn confidence(how: How, observed: f64) -> f64 {
    match how {
        How::Proved => 0.95,
        How::Likely => 0.8,
        How::Observed => observed,
        How::Inconclusive => 0.0,
    }
}

/// What each squeeze did and how it was checked, strongest first; then shams against shams,
/// then telemetry and profiles.
fn evidence(case: &Case, decision: &decide::Decision) -> Vec<Evidence> {
    let mut readings: Vec<&Reading> = case.readings.iter().collect();
    readings.sort_by(|a, b| b.value().total_cmp(&a.value()));
    let squeezes = readings.into_iter().map(|reading| {
        let measure = format!("elasticity.{}", reading.squeeze.label());
        let fact = Fact::Moved {
            moved: say::moved(reading),
            check: checked(case.experiment, reading),
        };
        Evidence::new(measure, reading.value(), fact)
    });
    // What profiles say depends on the wall.
    let observed = case.observed.evidence.iter();
    let observed = observed.filter(|evidence| !evidence.fact.is_of_profiles());
    squeezes
        .chain(case.readings.bounding().map(together))
        .chain(null_effect(case))
        .chain(pause(case))
        .chain(Pace::of(case.experiment).map(|pace| pace.evidence()))
        .chain(of_one_alone(case, decision))
        .chain(observed.cloned())
        .chain(profile::evidence(case.step, decision.wall, decision.how))
        .collect()
}

/// What several squeezes did at once.
fn together(several: &Done) -> Evidence {
    let effect = &several.effect;
    let (low, high) = effect.y().interval(ALPHA);
    let lost = |y: f64| 1.0 - y.clamp(-5.0, 5.0).exp();
    let fact = Fact::MovedTogether {
        squeezes: several.squeezes.clone(),
        by: 1.0 - effect.x.exp(),
        lost: (lost(high), lost(low)),
        rounds: effect.elasticity.rounds,
    };
    Evidence::new("elasticity.together", effect.elasticity.value, fact)
}

/// The comparison of nothing with nothing.
fn null_effect(case: &Case) -> Option<Evidence> {
    let null = case.gates.null?;
    let interval = Some(null.interval(gates::ALPHA_WITHIN)).filter(|(_, high)| high.is_finite());
    let fact = Fact::Null { interval };
    Some(Evidence::new("proof.null_effect", null.value, fact))
}

/// That a pause takes more than time, where one was added.
fn pause(case: &Case) -> Option<Evidence> {
    let used = case.readings.pause_paid_by()?;
    case.readings.get(Squeeze::ThinkTime)?;
    let fact = Fact::PauseIsWork { used };
    Some(Evidence::new("proof.pause_paid_by", used, fact))
}

/// How many requests are served at once, where that is what the wall is made of.
fn of_one_alone(case: &Case, decision: &decide::Decision) -> Option<Evidence> {
    let is_per_client = matches!(decision.detail, Some(Detail::HeldPerClient { .. }));
    let is_inside = decision.wall == Wall::Wait && !is_per_client;
    let at_once = alone::at_once(case.step).filter(|_| is_inside)?;
    Some(at_once.evidence(case.step.throughput))
}

/// What the check of the manipulation saw, in one window of it.
fn checked(experiment: &Experiment, reading: &Reading) -> String {
    let window = experiment.windows.iter().rev().find(|window| {
        experiment.squeezed(window) == Some(reading.squeeze)
            && window.in_force != Some(false)
            && !window.check.is_empty()
    });
    window.map_or(String::new(), |window| window.check.clone())
}

/// Gates that failed, doubts of telemetry, squeezes that did not take, and those not had.
fn caveats(case: &Case, decision: &decide::Decision) -> Vec<Caveat> {
    let mut caveats: Vec<Caveat> = case.gates.caveats().cloned().collect();
    let kinds: Vec<_> = caveats.iter().map(std::mem::discriminant).collect();
    let telemetry = case.observed.caveats.iter().filter(|caveat| {
        matches!(caveat, Caveat::Note { .. }) || !kinds.contains(&std::mem::discriminant(caveat))
    });
    caveats.extend(telemetry.cloned());
    caveats.extend(decision.caveats.iter().cloned());
    caveats.extend(without_force(case.experiment));
    caveats.extend(unseen_failures(case));
    caveats.extend(case.readings.iter().filter_map(over_use));
    let fed = case
        .readings
        .iter()
        .map(|reading| reading.fed)
        .fold(0.0, f64::max);
    caveats.extend((fed > 0.0).then_some(Caveat::Fed { most: fed }));
    let rising = case.readings.iter();
    caveats.extend(rising.filter_map(|reading| rose(case, reading)));
    let inert = shares::inert(case).into_iter();
    caveats.extend(inert.map(|squeeze| Caveat::Inert { squeeze }));
    let out_of_reach = case.experiment.out_of_reach.iter();
    caveats.extend(out_of_reach.map(|out| Caveat::OutOfReach {
        squeeze: out.squeeze,
        why: out.why.clone(),
    }));
    if windows::outlast_the_wash_out(&windows::shams(case.experiment)) {
        caveats.push(Caveat::OutlastWashOut);
    }
    let cut_short = case.experiment.cut_short.clone();
    caveats.extend(cut_short.map(|why| Caveat::CutShort { why }));
    caveats
}

/// A squeeze of processors that cost more than processors that idle so much can.
fn over_use(reading: &Reading) -> Option<Caveat> {
    let (measured, cores) = reading.over_use?;
    Some(Caveat::OverUse {
        squeeze: reading.squeeze,
        measured: measured.value,
        most: reading.local.value,
        cores,
    })
}

/// What the windows of a foreign driver cannot show, and what it says itself. Where its report was not
/// understood, or tells of many failures, a gate says so.
fn unseen_failures(case: &Case) -> Option<Caveat> {
    let is_read = case.step.driver.throughput_from == ThroughputFrom::Report;
    if case.experiment.setting.own_engine || !is_read {
        return None;
    }
    let share = identity::failure_share(&case.step.counts);
    Some(Caveat::FailuresUnseen {
        reported: Some(share).filter(|share| *share <= ERRORS_MAX),
    })
}

/// A squeeze under which throughput certainly rose. No wall does that.
fn rose(case: &Case, reading: &Reading) -> Option<Caveat> {
    let measured = reading.record();
    // That more in flight costs is no riddle.
    if reading.squeeze == Squeeze::MoreInFlight || measured.high >= say::RISES {
        return None;
    }
    Some(Caveat::Rose {
        squeeze: reading.squeeze,
        value: measured.value,
        low: measured.low,
        high: measured.high,
        by_bytes: !case.experiment.setting.own_engine,
    })
}

/// Squeezes of which many windows were not in force.
fn without_force(experiment: &Experiment) -> Vec<Caveat> {
    let mut counts: BTreeMap<_, (u32, u32)> = BTreeMap::new();
    for window in &experiment.windows {
        let condition = experiment.condition(window);
        for squeeze in condition.into_iter().flat_map(Condition::squeezes) {
            let out = window.in_force == Some(false) || window.without.contains(&squeeze);
            let count = counts.entry(squeeze).or_default();
            count.0 += u32::from(out);
            count.1 += 1;
        }
    }
    counts
        .into_iter()
        .filter(|(_, (out, all))| 4 * out >= *all && *out > 0)
        .map(|(squeeze, (out, all))| {
            let share = f64::from(out) / f64::from(all);
            Caveat::NotInForce { squeeze, share }
        })
        .collect()
}
