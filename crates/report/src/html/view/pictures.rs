//! A study's cells as small pictures side by side: latency against size, against clients, and by
//! percentile.

use serde::Serialize;
use wallfinder_judge::crossover::Manner;
use wallfinder_model::Step;
use wallfinder_model::record::Cell;

use super::cells::Rounds;
use crate::cells;
use crate::figures::{QUANTILES, quantile};
use crate::number::maybe;
use crate::{number, words};

/// What of a picture's box, 320 by 210, is left for lines: the rest is the axes'.
const LEFT: f64 = 46.0;
const RIGHT: f64 = 308.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 184.0;
/// Labels of an axis stand at least so far from each other.
const LABEL_ROOM: f64 = 38.0;
/// Lines that differ in look.
pub(super) const LOOKS: usize = 8;

/// Pictures with one pair of axes.
#[derive(Serialize)]
pub(super) struct Set {
    title: &'static str,
    /// What the lines are, beside whose.
    lines: &'static str,
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
    /// Where it is, if its interval says more than between which sizes.
    x: Option<f64>,
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

/// Latency against size, and against clients.
pub(super) fn against(cells: &[Rounds<'_>], groups: &[&str]) -> Vec<Set> {
    let size = Axis {
        x: |cell| cell.payload,
        held: |cell| cell.clients,
        held_words: |clients| words::counted(u64::from(clients), "client"),
        x_label: |bytes| number::bytes(f64::from(bytes)),
        is_size: true,
    };
    let clients = Axis {
        x: |cell| cell.clients,
        held: |cell| cell.payload,
        held_words: |bytes| number::bytes(f64::from(bytes)),
        x_label: |clients| number::whole(u64::from(clients)),
        is_size: false,
    };
    let sets = [
        set(cells, groups, "Latency against size", &size),
        set(cells, groups, "Latency against clients", &clients),
    ];
    sets.into_iter().flatten().collect()
}

/// Latency by percentile, of each place in which at least two groups were measured.
pub(super) fn curves(cells: &[Rounds<'_>], groups: &[&str]) -> Option<Set> {
    let mut places: Vec<(&str, u32, u32)> = Vec::new();
    for (cell, _) in cells {
        let place = (cell.driver.as_str(), cell.payload, cell.clients);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places.sort_by_key(|(_, payload, clients)| (*payload, *clients));
    let values = cells.iter().flat_map(|(_, rounds)| {
        QUANTILES
            .iter()
            .filter_map(|(name, _)| middle(rounds, name))
    });
    let (low, high) = ends(values);
    if low > high {
        return None;
    }
    let up = Scale::new(low, high, BOTTOM, TOP);
    let one_in = |quantile: f64| 1.0 / (1.0 - quantile);
    let rarest = QUANTILES[QUANTILES.len() - 1].1;
    let across = Scale::new(one_in(QUANTILES[0].1), one_in(rarest), LEFT, RIGHT);
    let panels: Vec<Panel> = places
        .into_iter()
        .filter_map(|(driver, payload, clients)| {
            let is_here = |cell: &Cell| {
                (cell.driver.as_str(), cell.payload, cell.clients) == (driver, payload, clients)
            };
            let lines: Vec<Line> = cells
                .iter()
                .filter(|(cell, _)| is_here(cell))
                .filter_map(|(cell, rounds)| {
                    let look = groups.iter().position(|group| *group == cell.group)?;
                    let corners: Vec<String> = QUANTILES
                        .iter()
                        .filter_map(|(name, quantile)| {
                            let value = middle(rounds, name)?;
                            let x = across.at(one_in(*quantile));
                            Some(format!("{x:.1},{:.1}", up.at(value)))
                        })
                        .collect();
                    (corners.len() > 1).then(|| Line {
                        look: look % LOOKS,
                        p50: corners.join(" "),
                        p99: String::new(),
                        dots: Vec::new(),
                    })
                })
                .collect();
            let bytes = number::bytes(f64::from(payload));
            let clients = words::counted(u64::from(clients), "client");
            let name = format!("{driver}, {bytes}, {clients}");
            (lines.len() > 1).then(|| Panel {
                label: format!("Latency by percentile, {name}."),
                name,
                x_ticks: ["p50", "p90", "p99", "p99.9", "p99.99"]
                    .into_iter()
                    .filter_map(|name| {
                        let named = QUANTILES.iter().find(|(known, _)| *known == name);
                        Some(Tick {
                            at: rounded(across.at(one_in(named?.1))),
                            label: name.to_owned(),
                        })
                    })
                    .collect(),
                y_ticks: up.decades(),
                lines,
                crossings: Vec::new(),
            })
        })
        .collect();
    (!panels.is_empty()).then(|| Set {
        title: "Latency by percentile",
        lines: "the middle one of the rounds; to the right is rarer",
        legend: legend(groups),
        panels,
    })
}

fn legend(groups: &[&str]) -> Vec<(usize, String)> {
    let look = |(look, group): (usize, &&str)| (look % LOOKS, (*group).to_owned());
    groups.iter().enumerate().map(look).collect()
}

fn middle(rounds: &[&Step], name: &str) -> Option<f64> {
    cells::middle(rounds, |step| latency(step, name))
}

/// The least and the largest; the wrong way round where there are none.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, 0f64), |(low, high), value| {
        (low.min(value), high.max(value))
    })
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
    let (low, high) = ends(values);
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
    (!panels.is_empty()).then(|| Set {
        title,
        lines: "solid: p50, with the range over rounds · dashed: p99",
        legend: legend(groups),
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
            let place = crossing.place;
            let is_known = place.manner() == Manner::Gradual || !place.is_sure();
            Mark {
                x: is_known.then(|| rounded(across.at(place.at))),
                low: end(place.low, LEFT),
                high: end(place.high, RIGHT),
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
            let value = middle(rounds, name)?;
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
            let median = middle(rounds, "p50")?;
            let tail = middle(rounds, "p99");
            Some(Dot {
                x: rounded(across.at(f64::from((axis.x)(cell)))),
                y: rounded(up.at(median)),
                low: rounded(up.at(values.iter().copied().fold(f64::INFINITY, f64::min))),
                high: rounded(up.at(values.iter().copied().fold(0.0, f64::max))),
                words: format!(
                    "{}, {}: p50 {}, p99 {}",
                    cell.group,
                    (axis.x_label)((axis.x)(cell)),
                    number::span(median),
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

pub(super) fn latency(step: &Step, name: &str) -> Option<f64> {
    quantile(step.latency.as_ref(), name).filter(|ns| *ns > 0.0)
}

fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
