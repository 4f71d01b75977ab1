//! A study's cells: which rival is best in each, pictures, and a table with one row for all rounds of
//! each.

use std::collections::BTreeSet;

use serde::Serialize;
use wallfinder_model::record::Cell;
use wallfinder_model::{Record, Step};

use super::pictures::{self, LOOKS, Set, latency};
use crate::cells::{self, Amplification, Choice};
use crate::figures::quantile;
use crate::html::kind;
use crate::number::maybe;
use crate::{number, words};

#[derive(Serialize)]
pub(super) struct Cells {
    summary: String,
    maps: Vec<Map>,
    /// Whether others disturbed what a map shows.
    disturbed: bool,
    tails: Vec<Tails>,
    tails_words: &'static str,
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
    disturbed: bool,
    words: String,
}

/// What the 99th percentile is over the median: sizes and groups down, clients across.
#[derive(Serialize)]
struct Tails {
    name: String,
    clients: Vec<String>,
    rows: Vec<TailRow>,
}

#[derive(Serialize)]
struct TailRow {
    data: String,
    group: String,
    /// One for each number of clients; empty where it was not measured.
    tails: Vec<String>,
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
        let maps = maps(&cells, &groups);
        Some(Cells {
            summary: format!(
                "{}, each run up to {}; of each figure the middle one of the rounds",
                words::counted(cells.len() as u64, "cell"),
                words::counted(rounds.unwrap_or(0) as u64, "time")
            ),
            disturbed: maps.iter().any(Map::is_disturbed),
            maps,
            tails: cells::amplification(&cells).iter().map(tails).collect(),
            tails_words: cells::AMPLIFICATION,
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
            by: times(choice.by),
            clear: choice.is_clear(),
            disturbed: choice.disturbed,
            words: choice.words(),
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

impl Map {
    fn is_disturbed(&self) -> bool {
        let mut choices = self.rows.iter().flat_map(|(_, row)| row).flatten();
        choices.any(|best| best.disturbed)
    }
}

fn tails(table: &Amplification<'_>) -> Tails {
    let counts = table.clients.iter();
    let rows = table.rows.iter().map(|row| TailRow {
        data: number::whole(u64::from(row.payload)),
        group: row.group.to_owned(),
        tails: row
            .tails
            .iter()
            .map(|tail| tail.map_or(String::new(), times))
            .collect(),
    });
    Tails {
        name: format!("p99 over p50, {}", table.driver),
        clients: counts
            .map(|count| number::whole(u64::from(*count)))
            .collect(),
        rows: rows.collect(),
    }
}

fn times(factor: f64) -> String {
    format!("{} ×", number::amount(factor))
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
        tail: maybe(cells::middle(rounds, cells::tail), times),
        fairness: maybe(cells::middle(rounds, |step| step.fairness), |index| {
            number::fixed(index, 2)
        }),
        server: used(|step| step.telemetry.server.as_ref().map(|side| side.utilisation)),
        client: used(|step| step.telemetry.client.as_ref().map(|side| side.utilisation)),
        wall: cells::wall_words(rounds),
        kind: wall.map_or("unknown", |(wall, _)| kind(wall)),
    }
}
