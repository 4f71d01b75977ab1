//! A study's groups as tables: each under each load with all of its rounds, what servers wait for, and
//! what squeezes say.

use serde::Serialize;
use wallfinder_model::Record;

use crate::counted::each;
use crate::grouped::{self, Place, Waits};
use crate::html::kind;
use crate::{cells, number, words};

#[derive(Serialize)]
pub(super) struct Groups {
    summary: String,
    by_several: bool,
    head: Vec<&'static str>,
    rows: Vec<Row>,
    waits: Vec<WaitRow>,
    squeezed: Vec<Squeezed>,
}

#[derive(Serialize)]
struct Row {
    group: String,
    driver: String,
    cells: Vec<String>,
    wall: String,
    kind: &'static str,
}

#[derive(Serialize)]
struct WaitRow {
    name: String,
    waiting: String,
    idle: String,
    most: String,
    part: String,
    mutexes: String,
    there: String,
}

#[derive(Serialize)]
struct Squeezed {
    name: String,
    /// The step, as the page numbers it.
    index: u32,
    text: String,
}

impl Groups {
    /// `None`: the record's steps are not a study's groups.
    pub(super) fn of(record: &Record) -> Option<Groups> {
        if !grouped::are_all(record) {
            return None;
        }
        let places = grouped::of(record);
        let by_several = grouped::by_several(&places);
        let columns = grouped::columns(&places);
        let row = |(at, place): (usize, &Place<'_>)| Row {
            group: place.group.to_owned(),
            driver: place.driver.to_owned(),
            cells: columns
                .iter()
                .map(|column| column.cells[at].clone())
                .collect(),
            wall: cells::wall_words(&place.rounds),
            kind: cells::wall(&place.rounds).map_or("unknown", |(wall, _)| kind(wall)),
        };
        let squeezed = |place: &Place<'_>| {
            let step = place.squeezed()?;
            Some(Squeezed {
                name: place.name(by_several),
                index: step.index,
                text: grouped::squeezes(step),
            })
        };
        let rounds = places.iter().map(|place| place.rounds.len()).max();
        Some(Groups {
            summary: format!(
                "{} in up to {}; of each figure the middle one",
                words::counted(record.steps.len() as u64, "step"),
                words::counted(rounds.unwrap_or(0) as u64, "round")
            ),
            by_several,
            head: columns.iter().map(|column| column.name).collect(),
            rows: places.iter().enumerate().map(row).collect(),
            waits: places
                .iter()
                .filter_map(|place| Some(wait_row(place.name(by_several), place.waits()?)))
                .collect(),
            squeezed: places.iter().filter_map(squeezed).collect(),
        })
    }
}

fn wait_row(name: String, waits: Waits) -> WaitRow {
    let unknown = || number::UNKNOWN.to_owned();
    let (most, part) = waits.most.map_or((unknown(), unknown()), |(place, part)| {
        (place, number::share(part))
    });
    let (seconds, there) = waits.mutexes.map_or((None, None), |(seconds, there)| {
        (Some(number::span(seconds * 1e9)), there.map(number::share))
    });
    WaitRow {
        name,
        waiting: each(waits.waiting),
        idle: each(waits.idle),
        most,
        part,
        mutexes: seconds.unwrap_or_else(unknown),
        there: there.unwrap_or_else(unknown),
    }
}
