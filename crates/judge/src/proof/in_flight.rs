//! What too little in flight is made of: a pool, a limit per connection, or where the time of
//! a request goes.

use wallfinder_model::Wall;
use wallfinder_model::experiment::Squeeze;
use wallfinder_model::record::Histogram;

use super::claims::Case;
use super::shares::residual;
use crate::finite::positive;
use crate::words::percent;

/// A part of a request's time that is worth a word.
const PART_MIN: f64 = 0.05;

/// What holds the number in flight down, or where the time of a request goes.
pub(super) fn detail(case: &Case) -> Option<String> {
    if case.readings.by_a_pool().is_some() {
        return Some(
            "a pool on the client's side: fewer connections cost nothing, a pause before each request does"
                .to_owned(),
        );
    }
    if case.observed.wall == Wall::Concurrency && case.observed.detail.is_some() {
        return case.observed.detail.clone();
    }
    body_share(case)
        .map(|share| {
            let share = percent(share);
            format!("a limit per connection: {share} of a request's time is that of its body")
        })
        .or_else(|| time_of_a_request(case))
}

/// The share of a request's time that passes between its first byte and its last, where it
/// is most of it: then each connection is held by its window and not by the number of them.
fn body_share(case: &Case) -> Option<f64> {
    let mean = |times: &Option<Histogram>| positive(times.as_ref()?.mean_ns);
    let first = mean(&case.step.first_byte)?;
    let whole = mean(&case.step.service).filter(|whole| *whole > 1e6)?;
    Some(1.0 - first / whole).filter(|share| *share > 0.7)
}

/// Each station's share of the response time: with nothing queued, that is its elasticity.
fn time_of_a_request(case: &Case) -> Option<String> {
    let stations = [
        (Squeeze::ServerSpeed, Wall::ServerCpu),
        (Squeeze::ClientSpeed, Wall::ClientCpu),
        (Squeeze::Downlink, Wall::Downlink),
        (Squeeze::Uplink, Wall::Uplink),
        (Squeeze::BackendSpeed, Wall::Backend),
    ];
    let rest = residual(case).map(|rest| ("waiting that no squeeze reaches", rest.value));
    let parts: Vec<String> = stations
        .into_iter()
        .filter_map(|(squeeze, wall)| Some((wall.words(), case.get(squeeze)?.local.value)))
        .chain(rest)
        .filter(|(_, value)| *value >= PART_MIN)
        .map(|(words, value)| format!("{words} {}", percent(value.min(1.0))))
        .collect();
    (!parts.is_empty()).then(|| format!("of a request's time: {}", parts.join(", ")))
}
