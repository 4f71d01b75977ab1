//! Where the squeezes do not decide: what telemetry says, or why nothing can be said.

use wallfinder_model::Wall;
use wallfinder_model::experiment::Squeeze;
use wallfinder_model::verdict::How;

use super::claims::{Case, squeezes_of};
use super::decide::Decision;
use super::gates::note;
use super::readings::{Answer, HALF_WIDTH_MAX, Reading};
use super::say;
use super::shares::{idle, missing};

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
    let detail = format!(
        "a pool on the client's side: {} connections are open where {} were asked for",
        connections.open, connections.asked
    );
    let sentence = format!(
        "Too little in flight: slowing either side moves nothing, both have time left, and of {} connections that the load generator was asked for {} are open.",
        connections.asked, connections.open
    );
    // What is in flight was counted and not squeezed.
    let decision = Decision::new(Wall::Concurrency, How::Likely, sentence);
    Some(decision.with_detail(Some(detail)))
}

/// Squeezes that would tell were out of reach: what telemetry says, where the squeezes that
/// were in reach do not speak against it.
pub(super) fn observed(case: &Case) -> Option<Decision> {
    let missing = missing(case);
    let first = missing.first()?;
    let why = case
        .experiment
        .out_of_reach
        .iter()
        .find(|out| missing.contains(&out.squeeze))
        .map(|out| format!("{} is out of reach: {}", out.squeeze.label(), out.why))
        .unwrap_or_else(|| format!("{} was not squeezed", first.label()));
    let why = match &case.others {
        Some(others) => format!("{others}; and {why}"),
        None => why,
    };
    let not = say::not_these(&say::ruled_out(case));
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
    let begin = not.map_or(String::new(), |not| {
        format!("{not}: squeezing them moves nothing. ")
    });
    if observed.wall == Wall::Inconclusive || against.is_some() {
        let end = match against {
            Some(wall) => format!(
                "telemetry alone would say {}, which a squeeze rules out, and {why}",
                wall.words()
            ),
            None => why.clone(),
        };
        let decision = Decision::inconclusive(format!("{begin}Not decided: {end}."));
        return Some(decision.with_detail(Some(why)));
    }
    let sentence = format!("{begin}By telemetry: {}", observed.sentence);
    let mut decision = Decision::new(observed.wall, How::Observed, sentence);
    decision.shares = observed.shares.clone();
    decision.detail = observed.detail.clone().or(Some(why.clone()));
    decision.caveats.push(note(format!("Not proved: {why}.")));
    Some(decision)
}

/// Why nothing was decided.
pub(super) fn undecided(case: &Case) -> Decision {
    let not = say::not_these(&say::ruled_out(case));
    let begin = not.map_or(String::new(), |not| format!("{not}. "));
    Decision::inconclusive(format!("{begin}Not decided: {}.", reason(case)))
}

fn reason(case: &Case) -> String {
    if let Some(why) = &case.experiment.cut_short {
        return format!("the experiment was cut short: {why}");
    }
    let readings = case.readings;
    if let Some((reading, odd)) = readings.iter().find_map(|r| Some((r, r.odd()?))) {
        return format!("{} {}", reading.squeeze.label(), odd.words());
    }
    if let Some(others) = &case.others {
        return others.clone();
    }
    if let Some(reading) = readings.iter().find(|reading| reading.disagree) {
        return format!("the doses of {} disagree", reading.squeeze.label());
    }
    let wide = readings
        .iter()
        .filter(|reading| {
            reading.answer() == Answer::Open || reading.local.half_width() > HALF_WIDTH_MAX
        })
        .max_by(|a, b| a.local.half_width().total_cmp(&b.local.half_width()));
    if let Some(reading) = wide {
        let (low, high) = reading.interval();
        return format!(
            "the elasticity to {} is only known to lie between {low:.2} and {high:.2} after {} rounds",
            reading.squeeze.label(),
            reading.local.rounds
        );
    }
    let speed = case.get(Squeeze::ServerSpeed);
    let capacity = case.get(Squeeze::ServerCapacity);
    if capacity.is_some_and(Reading::names) && speed.is_some_and(Reading::slack) {
        return "the server answers a quota and not slower processors, and has no quota of its own: something beside the requests uses its processor time".to_owned();
    }
    if readings.iter().all(Reading::slack) {
        return if idle(case) {
            "nothing that was squeezed moves the throughput, and what is left is not known well enough to call it a wait".to_owned()
        } else {
            "nothing that was squeezed moves the throughput, and telemetry does not show both sides waiting".to_owned()
        };
    }
    let second = case.get(Squeeze::InFlight).map(|_| Squeeze::ThinkTime);
    let most = readings
        .iter()
        .filter(|reading| Some(reading.squeeze) != second)
        .max_by(|a, b| a.local.value.total_cmp(&b.local.value));
    match most {
        Some(reading) => format!(
            "{} moves the throughput most, by {:.2} of its dose, and that is not enough to be the wall",
            reading.squeeze.label(),
            reading.local.value
        ),
        None => "no squeeze was in force".to_owned(),
    }
}
