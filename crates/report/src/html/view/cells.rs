//! A study's cells: which rival is best in each, pictures, and a table with one row for all rounds of
//! each.

use std::collections::BTreeSet;

use serde::Serialize;
use wallfinder_model::record::Cell;
use wallfinder_model::{Record, Step};

use super::pictures::{self, LOOKS, Set, latency, maybe};
use crate::cells::{self, Choice};
use crate::figures::quantile;
use crate::html::kind;
use crate::{number, words};

#[derive(Serialize)]
pub(super) struct Cells {
    summary: String,
    maps: Vec<Map>,
    sets: Vec<Set>,
    /// Latency by percentile, a picture for each place that several groups have.
    curves: Option<Set>,
    rows: Vec<Row>,
}

/// Which rival is best in each cell: sizes down, clients across.
#[derive(Serialize)]
struct Map {
    name: String,
    /// Where one becomes better than another, in words.
    crossings: Vec<String>,
    clients: Vec<String>,
    rows: Vec<(String, Vec<Option<Best>>)>,
}

#[derive(Serialize)]
struct Best {
    group: String,
    look: usize,
    by: String,
    clear: bool,
    words: String,
}

#[derive(Serialize)]
struct Row {
    group: String,
    driver: String,
    data: String,
    clients: String,
    rounds: usize,
    throughput: String,
    mean: String,
    p50: String,
    p99: String,
    p999: String,
    service: String,
    tail: String,
    fairness: String,
    server: String,
    client: String,
    wall: String,
    kind: &'static str,
}

pub(super) type Rounds<'r> = (&'r Cell, Vec<&'r Step>);

impl Cells {
    /// `None`: the record's steps are no cells.
    pub(super) fn of(record: &Record) -> Option<Cells> {
        if !cells::are_all(record) {
            return None;
        }
        let cells = cells::of(record);
        let mut groups: Vec<&str> = Vec::new();
        for (cell, _) in &cells {
            if !groups.contains(&cell.group.as_str()) {
                groups.push(&cell.group);
            }
        }
        let rounds = cells.iter().map(|(_, rounds)| rounds.len()).max();
        Some(Cells {
            summary: format!(
                "{}, each run up to {}; of each figure the middle one of the rounds",
                words::counted(cells.len() as u64, "cell"),
                words::counted(rounds.unwrap_or(0) as u64, "time")
            ),
            maps: maps(&cells, &groups),
            sets: pictures::against(&cells, &groups),
            curves: pictures::curves(&cells, &groups),
            rows: cells.iter().map(row).collect(),
        })
    }
}

fn maps(cells: &[Rounds<'_>], groups: &[&str]) -> Vec<Map> {
    let mut maps = Vec::new();
    for driver in cells::drivers_of_rivals(cells) {
        for measure in cells::MEASURES {
            let choices = cells::choices(cells, driver, measure);
            if choices.is_empty() {
                continue;
            }
            let name = format!("Best by {}, {driver}", measure.name);
            let crossings = cells::crossings(cells, driver, measure);
            let crossings = crossings.iter().map(cells::Crossing::line).collect();
            maps.push(map(name, crossings, &choices, groups));
        }
    }
    maps
}

fn map(name: String, crossings: Vec<String>, choices: &[Choice<'_>], groups: &[&str]) -> Map {
    let clients: BTreeSet<u32> = choices.iter().map(|choice| choice.clients).collect();
    let payloads: BTreeSet<u32> = choices.iter().map(|choice| choice.payload).collect();
    let best = |payload: u32, count: u32| {
        let is = |choice: &&Choice<'_>| (choice.payload, choice.clients) == (payload, count);
        choices.iter().find(is).map(|choice| Best {
            group: choice.best.to_owned(),
            look: groups
                .iter()
                .position(|group| *group == choice.best)
                .unwrap_or(0)
                % LOOKS,
            by: format!("{} ×", number::amount(choice.by.value)),
            clear: choice.is_clear(),
            words: format!(
                "{} is worse by {} [{}, {}]",
                choice.next,
                number::fixed(choice.by.value, 2),
                maybe(choice.by.low, |end| number::fixed(end, 2)),
                maybe(choice.by.high, |end| number::fixed(end, 2))
            ),
        })
    };
    Map {
        name,
        crossings,
        clients: clients
            .iter()
            .map(|count| number::whole(u64::from(*count)))
            .collect(),
        rows: payloads
            .iter()
            .map(|payload| {
                let cells = clients.iter().map(|count| best(*payload, *count)).collect();
                (number::whole(u64::from(*payload)), cells)
            })
            .collect(),
    }
}

fn row((cell, rounds): &Rounds<'_>) -> Row {
    let used = |side: fn(&Step) -> Option<f64>| maybe(cells::middle(rounds, side), number::share);
    let time =
        |figure: fn(&Step) -> Option<f64>| maybe(cells::middle(rounds, figure), number::span);
    let of = |name: &str| {
        maybe(
            cells::middle(rounds, |step| latency(step, name)),
            number::span,
        )
    };
    let wall = cells::wall(rounds);
    Row {
        group: cell.group.clone(),
        driver: cell.driver.clone(),
        data: number::whole(u64::from(cell.payload)),
        clients: number::whole(u64::from(cell.clients)),
        rounds: rounds.len(),
        throughput: maybe(
            cells::middle(rounds, |step| Some(step.throughput)),
            number::amount,
        ),
        mean: time(|step| Some(step.latency.as_ref()?.mean_ns)),
        p50: of("p50"),
        p99: of("p99"),
        p999: of("p99.9"),
        service: time(|step| quantile(step.service.as_ref(), "p50")),
        tail: maybe(cells::middle(rounds, cells::tail), |tail| {
            format!("{} ×", number::amount(tail))
        }),
        fairness: maybe(cells::middle(rounds, |step| step.fairness), |index| {
            number::fixed(index, 2)
        }),
        server: used(|step| step.telemetry.server.as_ref().map(|side| side.utilisation)),
        client: used(|step| step.telemetry.client.as_ref().map(|side| side.utilisation)),
        wall: cells::wall_words(rounds),
        kind: wall.map_or("unknown", |(wall, _)| kind(wall)),
    }
}
