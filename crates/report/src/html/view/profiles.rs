//! What was seen from inside: of the step that is judged a part for each kind and side, of a study's
//! cells a row for each, and what flame graphs can be asked for.

use serde::Serialize;
use wallfinder_model::counters::SystemCalls;
use wallfinder_model::profile::{ProfileKind, Profiles, Reading};
use wallfinder_model::record::Cell;
use wallfinder_model::{Record, Step};

use crate::counted::{self, Side};
use crate::flames::{self, kind_in_words};
use crate::profiled::{self, short};
use crate::{cells, number};

/// Rows of each table.
const ROWS_MAX: usize = 12;
/// Groups of a study that are told of.
const GROUPS_MAX: usize = 6;
/// Callers of a site that are told.
const CALLERS_MAX: usize = 8;

#[derive(Serialize)]
pub(super) struct ProfilesView {
    /// The server, and the client where it was looked into.
    sides: Vec<SideView>,
    /// What both cost for each request.
    counted: Vec<CountedRow>,
    unavailable: Vec<String>,
    /// Tables of a study's cells, one for each side and question.
    cells: Vec<CellsTable>,
    /// What can be drawn.
    flames: Vec<String>,
    /// What cannot, for there would be too much of it.
    flames_left_out: usize,
}

#[derive(Serialize)]
struct SideView {
    title: String,
    summary: String,
    beside: Option<String>,
    missing: Vec<String>,
    kinds: Vec<Kind>,
}

#[derive(Serialize)]
struct CountedRow {
    what: String,
    each: [String; 2],
}

#[derive(Serialize)]
struct CellsTable {
    title: String,
    head: Vec<&'static str>,
    /// Group, bytes, clients, and a cell for each column.
    rows: Vec<([String; 3], Vec<String>)>,
}

#[derive(Serialize)]
struct Kind {
    name: &'static str,
    headline: String,
    tables: Vec<Table>,
    sites: Vec<SiteRow>,
}

#[derive(Serialize)]
struct Table {
    head: [&'static str; 3],
    rows: Vec<[String; 3]>,
}

#[derive(Serialize)]
struct SiteRow {
    share: String,
    site: String,
    times: String,
    callers: String,
}

impl ProfilesView {
    /// Of the step that is judged, or of a study's cells; nothing where nothing was looked into.
    pub(super) fn of(
        record: &Record,
        judged: Option<&Step>,
        chosen: usize,
    ) -> Option<ProfilesView> {
        let drawn = flames::of(record, chosen);
        let flames: Vec<String> = drawn.flames.into_iter().map(|flame| flame.title).collect();
        let sides = judged.map_or(Vec::new(), |judged| match is_profiled(judged) {
            true => sides(judged, ""),
            false => of_each_group(record),
        });
        let cells = match judged {
            None => cells_tables(record),
            Some(_) => Vec::new(),
        };
        if sides.is_empty() && cells.is_empty() {
            return None;
        }
        let counted = judged.map_or(Vec::new(), counted::each_request);
        let first = judged.and_then(|step| Side::BOTH.iter().find_map(|side| side.profiles(step)));
        Some(ProfilesView {
            sides,
            counted: counted
                .into_iter()
                .map(|row| CountedRow {
                    what: row.what,
                    each: row.each,
                })
                .collect(),
            unavailable: first.map_or(Vec::new(), counted::unavailable),
            cells,
            flames,
            flames_left_out: drawn.left_out,
        })
    }
}

fn is_profiled(step: &Step) -> bool {
    Side::BOTH.iter().any(|side| side.profiles(step).is_some())
}

/// Where the step that is judged was not looked into: the first step of each group that was.
fn of_each_group(record: &Record) -> Vec<SideView> {
    let group = |step: &Step| step.name.split('/').next().map(str::to_owned);
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for step in record.steps.iter().filter(|step| is_profiled(step)) {
        if !seen.contains(&group(step)) && seen.len() < GROUPS_MAX {
            seen.push(group(step));
            found.extend(sides(step, &step.name));
        }
    }
    found
}

/// What is seen from inside of both sides, under the step's name where there are several.
fn sides(step: &Step, name: &str) -> Vec<SideView> {
    let of = |side: Side| {
        let profiles = side.profiles(step)?;
        let kinds = ProfileKind::ALL
            .iter()
            .filter_map(|kind| profiles.of(*kind));
        let processes = match profiles.processes {
            1 => "one process".to_owned(),
            processes => format!("{processes} processes, merged"),
        };
        let mut kinds: Vec<Kind> = kinds.map(|reading| part(profiles, reading)).collect();
        kinds.extend(profiles.socket_waits.as_ref().map(sockets));
        kinds.extend(profiles.calls.as_ref().map(calls));
        Some(SideView {
            title: match name {
                "" => format!("Inside the {}", side.label()),
                name => format!("Inside the {} · {name}", side.label()),
            },
            summary: format!("{} of {processes}.", number::length(profiles.window_ns)),
            beside: profiled::reconciliation(profiles),
            missing: profiles.missing.clone(),
            kinds,
        })
    };
    Side::BOTH.into_iter().filter_map(of).collect()
}

fn sockets(reading: &Reading) -> Kind {
    Kind {
        name: "waits for sockets, by the kernel",
        headline: profiled::headline_of_sockets(reading),
        tables: Vec::new(),
        sites: sites(reading),
    }
}

fn calls(calls: &SystemCalls) -> Kind {
    let rows = counted::calls(calls, ROWS_MAX).into_iter();
    Kind {
        name: "system calls",
        headline: counted::calls_headline(calls),
        tables: vec![Table {
            head: ["System call", "Each request", "Until it returns"],
            rows: rows
                .map(|row| [row.name, row.each_request, row.time_each])
                .collect(),
        }],
        sites: Vec::new(),
    }
}

/// What each side of each cell cost, and what its processors did.
fn cells_tables(record: &Record) -> Vec<CellsTable> {
    let cells: Vec<(&Cell, Vec<&Step>)> = cells::of(record)
        .into_iter()
        .filter(|(_, rounds)| rounds.iter().any(|step| step.profiles.is_some()))
        .collect();
    if cells.is_empty() {
        return Vec::new();
    }
    let mut tables = Vec::new();
    for side in Side::BOTH {
        for (what, figures) in [
            ("for each request", counted::figures()),
            ("what its processors do", counted::shares()),
        ] {
            let row = |(cell, rounds): &(&Cell, Vec<&Step>)| {
                let shown = figures.iter().map(|figure| {
                    let middle = cells::middle(rounds, |step| (figure.of)(side, step));
                    middle.map_or(number::UNKNOWN.to_owned(), figure.show)
                });
                let bytes = number::whole(u64::from(cell.payload));
                let name = format!("{} {}", cell.group, cell.driver);
                ([name, bytes, cell.clients.to_string()], shown.collect())
            };
            tables.push(CellsTable {
                title: format!("{}: {what}", side.label()),
                head: figures.iter().map(|figure| figure.name).collect(),
                rows: cells.iter().map(row).collect(),
            });
        }
    }
    tables
}

fn part(profiles: &Profiles, reading: &Reading) -> Kind {
    if let Some(why) = profiled::empty(reading) {
        return Kind {
            name: kind_in_words(reading.kind),
            headline: why.to_owned(),
            tables: Vec::new(),
            sites: Vec::new(),
        };
    }
    let each = |value| profiled::per_request(profiles, reading, value).unwrap_or_default();
    let categories = || Table {
        head: ["What it does", "Share", "Each request"],
        rows: reading
            .categories
            .iter()
            .take(ROWS_MAX)
            .map(|part| {
                let share = number::share(reading.share_of_busy(part.value));
                [part.name.clone(), share, each(part.value)]
            })
            .collect(),
    };
    let functions = || Table {
        head: ["Function", "Own", "With callees"],
        rows: reading
            .functions
            .iter()
            .take(ROWS_MAX)
            .map(|part| {
                let share = |value| number::share(reading.share(value));
                let name = short(&part.name).to_owned();
                [name, share(part.own), share(part.with_callees)]
            })
            .collect(),
    };
    let (tables, sites) = match reading.kind {
        ProfileKind::Cpu | ProfileKind::Stacks => (vec![categories(), functions()], Vec::new()),
        ProfileKind::Allocs | ProfileKind::Heap => (vec![functions()], Vec::new()),
        ProfileKind::Block | ProfileKind::Waits | ProfileKind::Mutex | ProfileKind::Goroutine => {
            (Vec::new(), sites(reading))
        }
    };
    let mut told = vec![profiled::headline(profiles, reading)];
    told.extend(profiled::doubts(reading));
    Kind {
        name: kind_in_words(reading.kind),
        headline: told.join("; "),
        tables,
        sites,
    }
}

fn sites(reading: &Reading) -> Vec<SiteRow> {
    let busy = reading.sites.iter().filter(|site| !site.idle);
    busy.take(ROWS_MAX)
        .map(|site| SiteRow {
            share: number::share(reading.share_of_busy(site.value)),
            site: profiled::place(site),
            times: match site.count {
                0 => String::new(),
                count => number::whole(count as u64),
            },
            callers: profiled::callers(site, CALLERS_MAX),
        })
        .collect()
}
