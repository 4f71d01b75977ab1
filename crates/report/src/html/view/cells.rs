//! A study's cells as small pictures side by side, latency against size and against clients,
//! and as a table with one row for all rounds of each.

use std::collections::BTreeSet;

use serde::Serialize;
use wallfinder_model::record::Cell;
use wallfinder_model::{Record, Step};

use crate::cells::{self, Choice};
use crate::figures::quantile;
use crate::html::kind;
use crate::{number, words};

/// What of a picture's box, 320 by 210, is left for lines: the rest is the axes'.
const LEFT: f64 = 46.0;
const RIGHT: f64 = 308.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 184.0;
/// Labels of an axis stand at least so far from each other.
const LABEL_ROOM: f64 = 38.0;
/// Lines that differ in look.
const LOOKS: usize = 8;

#[derive(Serialize)]
pub(super) struct Cells {
    summary: String,
    maps: Vec<Map>,
    sets: Vec<Set>,
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

/// Pictures with one pair of axes.
#[derive(Serialize)]
struct Set {
    title: &'static str,
    legend: Vec<(usize, String)>,
    panels: Vec<Panel>,
}

#[derive(Serialize)]
struct Panel {
    name: String,
    label: String,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
    lines: Vec<Line>,
    crossings: Vec<Mark>,
}

/// Where the medians of two groups cross.
#[derive(Serialize)]
struct Mark {
    x: f64,
    /// Ends of its interval; where they are not known, those of the axis.
    low: f64,
    high: f64,
    words: String,
}

#[derive(Serialize)]
struct Tick {
    at: f64,
    label: String,
}

/// The median of one group, and its 99th percentile.
#[derive(Serialize)]
struct Line {
    look: usize,
    p50: String,
    p99: String,
    dots: Vec<Dot>,
}

#[derive(Serialize)]
struct Dot {
    x: f64,
    y: f64,
    /// Ends of the range over rounds.
    low: f64,
    high: f64,
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
    p50: String,
    p99: String,
    tail: String,
    fairness: String,
    server: String,
    client: String,
    wall: String,
    kind: &'static str,
}

type Rounds<'r> = (&'r Cell, Vec<&'r Step>);

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
        let against_size = set(
            &cells,
            &groups,
            "Latency against size",
            &Axis {
                x: |cell| cell.payload,
                held: |cell| cell.clients,
                held_words: |clients| words::counted(u64::from(clients), "client"),
                x_label: |bytes| number::bytes(f64::from(bytes)),
                is_size: true,
            },
        );
        let against_clients = set(
            &cells,
            &groups,
            "Latency against clients",
            &Axis {
                x: |cell| cell.clients,
                held: |cell| cell.payload,
                held_words: |bytes| number::bytes(f64::from(bytes)),
                x_label: |clients| number::whole(u64::from(clients)),
                is_size: false,
            },
        );
        let rounds = cells.iter().map(|(_, rounds)| rounds.len()).max();
        Some(Cells {
            summary: format!(
                "{}, each run up to {}; of each figure the middle one of the rounds",
                words::counted(cells.len() as u64, "cell"),
                words::counted(rounds.unwrap_or(0) as u64, "time")
            ),
            maps: maps(&cells, &groups),
            sets: [against_size, against_clients]
                .into_iter()
                .flatten()
                .collect(),
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

/// What a set of pictures has on its x axis, and what each of them holds still.
struct Axis {
    x: fn(&Cell) -> u32,
    held: fn(&Cell) -> u32,
    held_words: fn(u32) -> String,
    x_label: fn(u32) -> String,
    is_size: bool,
}

/// `None`: there is nothing to draw against.
fn set(cells: &[Rounds<'_>], groups: &[&str], title: &'static str, axis: &Axis) -> Option<Set> {
    let mut xs: Vec<u32> = cells.iter().map(|(cell, _)| (axis.x)(cell)).collect();
    xs.sort_unstable();
    xs.dedup();
    let values = cells.iter().flat_map(|(_, rounds)| {
        let of = |name| rounds.iter().filter_map(move |step| latency(step, name));
        of("p50").chain(of("p99"))
    });
    let (low, high) = values.fold((f64::INFINITY, 0f64), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if xs.len() < 2 || low > high {
        return None;
    }
    let across = Scale::new(
        f64::from(xs[0].max(1)),
        f64::from(xs[xs.len() - 1]),
        LEFT,
        RIGHT,
    );
    let up = Scale::new(low, high, BOTTOM, TOP);
    let mut held: Vec<(&str, u32)> = Vec::new();
    for (cell, _) in cells {
        let key = (cell.driver.as_str(), (axis.held)(cell));
        if !held.contains(&key) {
            held.push(key);
        }
    }
    held.sort_by_key(|(_, value)| *value);
    let panels: Vec<Panel> = held
        .into_iter()
        .filter_map(|(driver, value)| {
            let name = format!("{driver}, {}", (axis.held_words)(value));
            let of: Vec<&Rounds<'_>> = cells
                .iter()
                .filter(|(cell, _)| cell.driver == driver && (axis.held)(cell) == value)
                .collect();
            let lines: Vec<Line> = groups
                .iter()
                .enumerate()
                .filter_map(|(look, group)| {
                    let mut points: Vec<&Rounds<'_>> = of
                        .iter()
                        .copied()
                        .filter(|(cell, _)| cell.group == *group)
                        .collect();
                    points.sort_by_key(|(cell, _)| (axis.x)(cell));
                    line(look, &points, axis, across, up)
                })
                .collect();
            // A picture of single dots shows nothing that the table does not.
            let drawn = lines.iter().any(|line| line.dots.len() > 1);
            drawn.then(|| Panel {
                label: format!("{title} with {name}. The table below has the numbers."),
                name,
                x_ticks: x_ticks(&xs, axis, across),
                y_ticks: up.decades(),
                lines,
                crossings: match axis.is_size {
                    true => marks(cells, driver, value, across),
                    false => Vec::new(),
                },
            })
        })
        .collect();
    let legend = groups
        .iter()
        .enumerate()
        .map(|(look, group)| (look % LOOKS, (*group).to_owned()));
    (!panels.is_empty()).then(|| Set {
        title,
        legend: legend.collect(),
        panels,
    })
}

/// Crossovers of the medians of rivals, for so many clients.
fn marks(cells: &[Rounds<'_>], driver: &str, clients: u32, across: Scale) -> Vec<Mark> {
    let crossings = cells::crossings(cells, driver, cells::MEASURES[0]);
    let of_clients = crossings
        .iter()
        .filter(|crossing| crossing.clients == clients);
    of_clients
        .map(|crossing| {
            let end = |end: Option<f64>, else_at: f64| {
                rounded(end.map_or(else_at, |size| across.at(size)))
            };
            Mark {
                x: rounded(across.at(crossing.place.at)),
                low: end(crossing.place.low, LEFT),
                high: end(crossing.place.high, RIGHT),
                words: crossing.words(),
            }
        })
        .collect()
}

fn line(
    look: usize,
    points: &[&Rounds<'_>],
    axis: &Axis,
    across: Scale,
    up: Scale,
) -> Option<Line> {
    let path = |name: &str| {
        let corners = points.iter().filter_map(|(cell, rounds)| {
            let value = cells::middle(rounds, |step| latency(step, name))?;
            let x = across.at(f64::from((axis.x)(cell)));
            Some(format!("{x:.1},{:.1}", up.at(value)))
        });
        corners.collect::<Vec<_>>().join(" ")
    };
    let dots: Vec<Dot> = points
        .iter()
        .filter_map(|(cell, rounds)| {
            let values: Vec<f64> = rounds
                .iter()
                .filter_map(|step| latency(step, "p50"))
                .collect();
            let middle = cells::middle(rounds, |step| latency(step, "p50"))?;
            let tail = cells::middle(rounds, |step| latency(step, "p99"));
            Some(Dot {
                x: rounded(across.at(f64::from((axis.x)(cell)))),
                y: rounded(up.at(middle)),
                low: rounded(up.at(values.iter().copied().fold(f64::INFINITY, f64::min))),
                high: rounded(up.at(values.iter().copied().fold(0.0, f64::max))),
                words: format!(
                    "{}, {}: p50 {}, p99 {}",
                    cell.group,
                    (axis.x_label)((axis.x)(cell)),
                    number::span(middle),
                    maybe(tail, number::span)
                ),
            })
        })
        .collect();
    (!dots.is_empty()).then(|| Line {
        look: look % LOOKS,
        p50: path("p50"),
        p99: path("p99"),
        dots,
    })
}

fn x_ticks(xs: &[u32], axis: &Axis, across: Scale) -> Vec<Tick> {
    let mut ticks: Vec<Tick> = Vec::new();
    for x in xs {
        let at = rounded(across.at(f64::from(*x)));
        if ticks.last().is_none_or(|last| at - last.at >= LABEL_ROOM) {
            ticks.push(Tick {
                at,
                label: (axis.x_label)(*x),
            });
        }
    }
    ticks
}

/// Logarithms of positive values on a line.
#[derive(Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(low: f64, high: f64, from: f64, to: f64) -> Scale {
        let low = low.max(f64::MIN_POSITIVE);
        Scale {
            low: low.ln(),
            // One value alone has a line's width all the same.
            high: high.max(low * 1.01).ln(),
            from,
            to,
        }
    }

    fn at(self, value: f64) -> f64 {
        let share = (value.max(f64::MIN_POSITIVE).ln() - self.low) / (self.high - self.low);
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Powers of ten that lie on it; where there is none, its ends.
    fn decades(self) -> Vec<Tick> {
        let tick = |value: f64| Tick {
            at: rounded(self.at(value)),
            label: number::span(value),
        };
        let first = (self.low / std::f64::consts::LN_10).ceil() as i32;
        let last = (self.high / std::f64::consts::LN_10).floor() as i32;
        if first >= last {
            return vec![tick(self.low.exp()), tick(self.high.exp())];
        }
        (first..=last)
            .map(|power| tick(10f64.powi(power)))
            .collect()
    }
}

fn latency(step: &Step, name: &str) -> Option<f64> {
    quantile(step.latency.as_ref(), name).filter(|ns| *ns > 0.0)
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn maybe(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or(number::UNKNOWN.to_owned(), show)
}

fn row((cell, rounds): &Rounds<'_>) -> Row {
    let used = |side: fn(&Step) -> Option<f64>| maybe(cells::middle(rounds, side), number::share);
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
        p50: of("p50"),
        p99: of("p99"),
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
