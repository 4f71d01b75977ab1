//! Every condition is tried on made-up data before the first packet: a study that would
//! fail after an hour fails at once, with file, line and column.
//!
//! The made-up steps have every field that their driver tells. They come in two kinds, as if the client were the
//! wall and as if the server were, so that both sides of most conditions are walked.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::Size;
use crate::StudyError;
use crate::charts;
use crate::check::Place;
use crate::claims::{Claim, NoValue, Scope, is_truth};
use crate::data::Data;
use crate::entry::{Entry, Field};
use crate::expand::StudyStep;
use crate::expression::Expression;
use crate::language::Value;
use crate::study::Study;
use crate::vocabulary::{FIELDS, Kind};

/// Holds every claim against the study and against made-up data.
pub(crate) fn check(study: &Study, place: &Place) -> Result<(), StudyError> {
    let mut steps: Vec<StudyStep> = Size::ALL
        .into_iter()
        .flat_map(|size| study.expand(size))
        .collect();
    steps.sort_by(|a, b| a.label.cmp(&b.label));
    steps.dedup_by(|a, b| a.label == b.label);
    for claim in &study.claims {
        references(claim, study, &steps, place)?;
    }
    for walls in ["client-cpu", "server-cpu"] {
        let of_size = |size: Size| {
            let entries = study.expand(size);
            let entries = entries.iter().map(|step| pretend(step, walls)).collect();
            Arc::new(Data::new(size, entries, Vec::new()))
        };
        // The largest first: it has the most cells, and its errors tell the most.
        let data: Vec<Arc<Data>> = study.sizes().into_iter().rev().map(of_size).collect();
        if let Some(largest) = data.first() {
            charts::check(study, largest, place)?;
        }
        for claim in &study.claims {
            let mut tried = data.iter().map(|data| try_out(claim, data, place));
            // What one size does not measure another may; none is no use.
            let first = tried.next().unwrap_or(Ok(Tried::Whole))?;
            let whole = |tried: Result<Tried, StudyError>| match tried? {
                Tried::Whole => Ok(true),
                Tried::Lacking(_) => Ok(false),
            };
            if let Tried::Lacking(why) = first
                && !tried
                    .map(whole)
                    .collect::<Result<Vec<_>, _>>()?
                    .contains(&true)
            {
                return Err(*why);
            }
        }
    }
    Ok(())
}

/// How a claim's trial at one size went.
enum Tried {
    /// Every expression has a value.
    Whole,
    /// An expression needs what this size does not measure.
    Lacking(Box<StudyError>),
}

/// Every expression of a claim and where it stands.
fn expressions(claim: &Claim) -> impl Iterator<Item = (&Expression, &Range<usize>)> {
    claim
        .deciding()
        .map(|condition| (&condition.expression, &condition.span))
        .chain(
            claim
                .because
                .expressions()
                .map(|e| (e, &claim.because_span)),
        )
}

/// Groups, drivers and connections that are named must be of the study.
fn references(
    claim: &Claim,
    study: &Study,
    steps: &[StudyStep],
    place: &Place,
) -> Result<(), StudyError> {
    for (expression, span) in expressions(claim) {
        for (function, literals) in &expression.named {
            let literal = |i: usize| literals.get(i).filter(|text| !text.is_empty());
            let Some(group) = literal(0) else { continue };
            let error = |message: String| Err(place.error(span.clone(), message));
            if !study.groups.iter().any(|known| known.id == *group) {
                return error(format!("`{function}`: there is no group `{group}`"));
            }
            let Some(driver) = literal(1) else { continue };
            if study.driver(driver).is_none() {
                return error(format!("`{function}`: there is no driver `{driver}`"));
            }
            let matching = |step: &&StudyStep| step.group == *group && step.driver.name == *driver;
            let of: Vec<&StudyStep> = steps.iter().filter(matching).collect();
            if of.is_empty() {
                return error(format!(
                    "`{function}`: no run of `{group}` has the driver `{driver}`"
                ));
            }
            let Some(connections) = literal(2) else {
                continue;
            };
            if function == "rounds" {
                let Some(clients) = literal(3) else { continue };
                let cell = |step: &&StudyStep| {
                    step.payload.unwrap_or(0).to_string() == *connections
                        && step.load.wanted_max().to_string() == *clients
                };
                if !of.iter().any(cell) {
                    return error(format!(
                        "`rounds`: no run of `{group}` by {driver} has {connections} bytes and \
                         {clients} clients"
                    ));
                }
                continue;
            }
            if !of
                .iter()
                .any(|step| step.load.connections.to_string() == *connections)
            {
                return error(format!(
                    "`{function}`: no run of `{group}` by {driver} has {connections} connections"
                ));
            }
        }
    }
    Ok(())
}

/// Evaluates a claim's expressions: those that have values must have the right ones.
fn try_out(claim: &Claim, data: &Arc<Data>, place: &Place) -> Result<Tried, StudyError> {
    for driver in claim.drivers() {
        let scope = Scope::new(claim, driver, data);
        let error = |span: &Range<usize>, why: &str| {
            place.error(span.clone(), format!("this cannot be evaluated: {why}"))
        };
        for (expression, span) in expressions(claim) {
            match expression.value(&scope.context) {
                Ok(_) => {}
                Err(none) => match scope.no_value(none) {
                    NoValue::Wrong(why) => return Err(error(span, &why)),
                    NoValue::Missing(why) => {
                        return Ok(Tried::Lacking(Box::new(error(span, &why))));
                    }
                },
            }
        }
        let mut truths = Vec::new();
        let outcomes = [&claim.confirmed, &claim.contradicted];
        for condition in claim.needs.iter().chain(outcomes) {
            // It had a value above.
            let Ok(found) = condition.expression.value(&scope.context) else {
                continue;
            };
            if !is_truth(&found) {
                let message = "a condition is true or false, and this is neither".to_owned();
                return Err(place.error(condition.span.clone(), message));
            }
            truths.push(found);
        }
        if truths.iter().all(|truth| *truth == Value::Truth(true)) {
            let message =
                "on made-up data this is true together with `confirmed`: a claim cannot be \
                           both"
                    .to_owned();
            return Err(place.error(claim.contradicted.span.clone(), message));
        }
    }
    Ok(Tried::Whole)
}

/// Whether a field is never measured of a step: wrk, which pipelines by a script, does not tell how much is in
/// flight.
fn is_never_told(step: &StudyStep, path: &str) -> bool {
    let is_scripted = step.driver.program == "wrk" && step.load.in_flight_per_connection > 1;
    is_scripted && (["in_flight", "n_over_x_ms"].contains(&path) || path.starts_with("little_"))
}

/// A step with every field that it may have, and numbers that could be.
fn pretend(step: &StudyStep, wall: &str) -> Entry {
    let in_flight = step.load.in_flight_bound() as f64;
    let client_bound = wall == "client-cpu";
    let value = |path: &str, kind: Kind| match (path, kind) {
        ("label", _) => Field::Text(step.label.clone()),
        ("group", _) => Field::Text(step.group.clone()),
        ("driver", _) => Field::Text(step.driver.name.clone()),
        ("path", _) => Field::Text(step.path.clone()),
        ("bound_by", _) => Field::Text(wall.to_owned()),
        (_, Kind::Text) => Field::Text(String::new()),
        (_, Kind::Truth) => Field::Truth(!client_bound),
        ("payload", _) => Field::Number(f64::from(step.payload.unwrap_or(0))),
        ("round", _) => Field::Number(f64::from(step.round)),
        ("connections", _) => Field::Number(f64::from(step.load.connections)),
        ("depth", _) => Field::Number(f64::from(step.load.in_flight_per_connection)),
        ("in_flight" | "in_flight_max", _) => Field::Number(in_flight),
        ("window_ms", _) => Field::Number(1e4),
        ("throughput" | "ceiling.throughput", _) => Field::Number(1e5),
        ("mean_ms" | "n_over_x_ms", _) => Field::Number(in_flight / 1e2),
        (path, _) if path.ends_with("_share") || path.ends_with("utilisation") => {
            Field::Number(if path.starts_with("client") == client_bound {
                0.97
            } else {
                0.3
            })
        }
        (_, Kind::Number) => Field::Number(1.0),
    };
    Entry {
        label: step.label.clone(),
        group: step.group.clone(),
        driver: step.driver.name.clone(),
        connections: step.load.connections,
        clients: step.load.wanted_max() as f64,
        payload: step.payload,
        round: step.round,
        in_flight,
        throughput: 1e5,
        disturbed: None,
        fields: FIELDS
            .iter()
            .filter(|(path, _, _)| !is_never_told(step, path))
            .map(|(path, kind, _)| ((*path).to_owned(), value(path, *kind)))
            .collect(),
        value: OnceLock::new(),
    }
}
