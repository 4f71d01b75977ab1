//! What too little in flight is made of: a pool, a limit per connection, or where the time of
//! a request goes.

use wallfinder_model::reason::Part;
use wallfinder_model::record::Histogram;
use wallfinder_model::{Arrival, Detail, Nanos, Wall};

use super::claims::Case;
use super::looks;
use super::shares::residual;
use crate::finite::positive;

/// A part of a request's time that is worth a word.
const PART_MIN: f64 = 0.05;

/// What holds the number in flight down, or where the time of a request goes.
pub(super) fn detail(case: &Case) -> Option<Detail> {
    if case.readings.by_a_pool().is_some() {
        return Some(Detail::ClientPool);
    }
    if let Some(limit) = streams_max(case) {
        return Some(limit);
    }
    if case.observed.wall == Wall::Concurrency && case.observed.detail.is_some() {
        return case.observed.detail.clone();
    }
    body_share(case)
        .map(|share| Detail::Bodies { share })
        .or_else(|| time_of_a_request(case))
}

/// Fewer streams on a connection than are asked for, where nothing on this side keeps them back.
fn streams_max(case: &Case) -> Option<Detail> {
    /// More than this of what is asked for is what comes and goes.
    const OPEN_MAX: f64 = 0.75;
    let load = &case.step.load;
    let asked = load.in_flight_per_connection;
    let open = case.step.in_flight_mean / f64::from(load.connections.max(1));
    let is_free =
        load.arrival == Arrival::Closed { think: Nanos(0) } && load.max_in_flight.is_none();
    let is_held = asked > 1 && open <= OPEN_MAX * f64::from(asked);
    let own = case.experiment.setting.own_engine;
    (own && is_free && is_held).then_some(Detail::StreamsMax { open, asked })
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
fn time_of_a_request(case: &Case) -> Option<Detail> {
    let of = |value: f64| (value >= PART_MIN).then_some(value.min(1.0));
    let rest = residual(case).and_then(|rest| of(rest.value));
    let parts: Vec<Part> = case
        .readings
        .iter()
        .filter(|reading| looks::is_speed(reading.squeeze))
        .filter_map(|reading| {
            let value = of(reading.value())?;
            let wall = reading.squeeze.wall();
            Some(Part { wall, value })
        })
        .collect();
    (!parts.is_empty() || rest.is_some()).then_some(Detail::TimeOfARequest { parts, rest })
}
