//! The experiment behind a wall: dose curves, the series with what was squeezed when, gates
//! and checks, what was out of reach.
//!
//! Positions are percent of a picture's width, or units of its own box, as the template
//! says; every picture stands without script and without inline style.

use serde::Serialize;
use wallfinder_model::Step;
use wallfinder_model::experiment::{Condition, Experiment, Squeeze, Window};

use crate::html::kind;
use crate::said::{self, Gated};
use crate::squeezed::{self, Dose};
use crate::{number, words};

#[derive(Serialize)]
pub(super) struct Proof {
    summary: String,
    curves: Vec<Curve>,
    ticks: Vec<Tick>,
    /// Ends of the line of a wall, in the curves' box.
    diagonal: [f64; 4],
    level: f64,
    series: Option<Series>,
    gates: Vec<Gated>,
    checks: Vec<Check>,
    missing: Vec<Missing>,
}

/// Throughput against what was left of one resource.
#[derive(Serialize)]
struct Curve {
    name: String,
    kind: &'static str,
    elasticity: String,
    /// Windows: x, y, and whether they were in force.
    points: Vec<(f64, f64, bool)>,
    /// The medians, from (1, 1) on, as points of a line.
    line: String,
    middles: Vec<(f64, f64)>,
    label: String,
}

#[derive(Serialize)]
struct Tick {
    at_x: f64,
    at_y: f64,
    text: String,
}

/// Throughput over the experiment's time, and rows of what was squeezed when.
#[derive(Serialize)]
struct Series {
    line: String,
    top: String,
    /// Windows as levels: from, to, height, kind, words.
    levels: Vec<Level>,
    rows: Vec<Row>,
    times: Vec<(f64, String)>,
    end: String,
}

#[derive(Serialize)]
struct Level {
    from: f64,
    width: f64,
    y: f64,
    kind: &'static str,
    sham: bool,
    words: String,
}

#[derive(Serialize)]
struct Row {
    name: String,
    kind: &'static str,
    /// From, width, and how much was taken, 0..1.
    cells: Vec<(f64, f64, f64)>,
    count: usize,
}

#[derive(Serialize)]
struct Check {
    name: String,
    kind: &'static str,
    taken: String,
    how: String,
    windows: String,
    outcome: &'static str,
    check: String,
}

#[derive(Serialize)]
struct Missing {
    name: String,
    why: String,
    matters: bool,
}

/// The style of a squeeze by its label.
pub(super) fn kind_of(label: &str) -> &'static str {
    Squeeze::ALL
        .into_iter()
        .find(|squeeze| squeeze.label() == label)
        .map_or("neutral", |squeeze| kind(squeeze.wall()))
}

impl Proof {
    pub(super) fn of(step: &Step) -> Option<Proof> {
        let experiment = step.experiment.as_ref()?;
        let squeezes = squeezed::squeezes(experiment);
        let scale = Scale::of(&squeezes);
        Some(Proof {
            summary: summary(experiment),
            curves: curves(step, &squeezes, scale),
            ticks: scale.ticks(),
            diagonal: [
                scale.x(scale.low),
                scale.y(scale.low),
                scale.x(1.0),
                scale.y(1.0),
            ],
            level: scale.y(1.0),
            series: series(experiment),
            gates: gates(step),
            checks: checks(&squeezes),
            missing: missing(step, experiment),
        })
    }
}

fn summary(experiment: &Experiment) -> String {
    let rounds = experiment
        .windows
        .iter()
        .map(|window| u64::from(window.round) + 1)
        .max()
        .unwrap_or(0);
    let shams = experiment
        .windows
        .iter()
        .filter(|window| experiment.is_sham(window))
        .count() as u64;
    let mut text = format!(
        "{} in {} of {}, {shams} of them with nothing squeezed; the order is drawn with seed {}.",
        words::counted(experiment.windows.len() as u64, "window"),
        words::counted(rounds, "round"),
        number::rough(squeezed::length_ns(experiment)),
        experiment.seed
    );
    if let Some(why) = &experiment.cut_short {
        text.push_str(&format!(" It was cut short: {}", words::sentence(why)));
    }
    text
}

/// The box of a dose curve: 220 by 176, both axes alike.
#[derive(Clone, Copy)]
struct Scale {
    low: f64,
    high: f64,
}

const LEFT: f64 = 30.0;
const RIGHT: f64 = 212.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 152.0;

impl Scale {
    fn of(squeezes: &[(Squeeze, Vec<Dose>)]) -> Scale {
        let points = || {
            squeezes
                .iter()
                .flat_map(|(_, doses)| doses)
                .flat_map(|dose| &dose.points)
        };
        let least = points()
            .map(|point| point.retained.min(point.relative))
            .filter(|value| value.is_finite())
            .fold(0.75, f64::min);
        let most = points()
            .map(|point| point.relative.max(point.retained))
            .filter(|value| value.is_finite())
            .fold(1.05, f64::max);
        Scale {
            low: ((least - 0.02) * 10.0).floor().clamp(0.0, 7.0) / 10.0,
            high: ((most + 0.01) * 20.0).ceil().clamp(21.0, 30.0) / 20.0,
        }
    }

    fn share(self, value: f64) -> f64 {
        let value = if value.is_finite() { value } else { 1.0 };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn x(self, retained: f64) -> f64 {
        round(LEFT + self.share(retained) * (RIGHT - LEFT))
    }

    fn y(self, relative: f64) -> f64 {
        round(BOTTOM - self.share(relative) * (BOTTOM - TOP))
    }

    fn ticks(self) -> Vec<Tick> {
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
            .into_iter()
            .filter(|at| *at >= self.low - 1e-9)
            .map(|at| Tick {
                at_x: self.x(at),
                at_y: self.y(at),
                text: number::amount(at),
            })
            .collect()
    }
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn curves(step: &Step, squeezes: &[(Squeeze, Vec<Dose>)], scale: Scale) -> Vec<Curve> {
    let elasticity = |squeeze: Squeeze| {
        let verdict = step.verdict.as_ref()?;
        verdict.elasticities.get(squeeze.label()).copied()
    };
    let mut order: Vec<&(Squeeze, Vec<Dose>)> = squeezes.iter().collect();
    let strength = |squeeze: Squeeze| elasticity(squeeze).map_or(f64::NEG_INFINITY, |e| e.value);
    order.sort_by(|a, b| strength(b.0).total_cmp(&strength(a.0)));
    order
        .into_iter()
        .map(|(squeeze, doses)| {
            let mut middles: Vec<(f64, f64)> = doses.iter().filter_map(Dose::middle).collect();
            middles.sort_by(|a, b| b.0.total_cmp(&a.0));
            let spoken: Vec<String> = middles
                .iter()
                .map(|(left, relative)| {
                    format!(
                        "{} left: {} of the throughput",
                        number::share(*left),
                        number::share(*relative)
                    )
                })
                .collect();
            let at = |(left, relative): (f64, f64)| (scale.x(left), scale.y(relative));
            let line: Vec<String> = std::iter::once((1.0, 1.0))
                .chain(middles.iter().copied())
                .map(at)
                .map(|(x, y)| format!("{x},{y}"))
                .collect();
            let points = doses.iter().flat_map(|dose| &dose.points);
            Curve {
                name: words::squeeze(squeeze.label()),
                kind: kind(squeeze.wall()),
                elasticity: elasticity(*squeeze)
                    .map(|e| number::elasticity(e.value))
                    .unwrap_or_default(),
                points: points
                    .map(|point| {
                        let (x, y) = at((point.retained, point.relative));
                        (x, y, point.in_force != Some(false))
                    })
                    .collect(),
                line: line.join(" "),
                middles: middles.into_iter().map(at).collect(),
                label: format!("{}: {}", words::squeeze(squeeze.label()), spoken.join("; ")),
            }
        })
        .collect()
}

/// Points of the curve at the most.
const POINTS_MAX: usize = 600;

fn series(experiment: &Experiment) -> Option<Series> {
    let length = squeezed::length_ns(experiment);
    let end = length as f64;
    let rate = |answered: u64, span: u64| answered as f64 * 1e9 / span.max(1) as f64;
    let slices = &experiment.intervals;
    let size = slices.len().div_ceil(POINTS_MAX).max(1);
    let curve: Vec<(f64, f64)> = slices
        .chunks(size)
        .map(|chunk| {
            let answered = chunk
                .iter()
                .fold(0u64, |sum, s| sum.saturating_add(s.answered));
            let span = chunk
                .iter()
                .fold(0u64, |sum, s| sum.saturating_add(s.span_ns));
            let at = chunk.last().map_or(0, |slice| slice.at_ns) as f64;
            ((at - span as f64 / 2.0).max(0.0), rate(answered, span))
        })
        .collect();
    let good = |value: &f64| value.is_finite() && *value >= 0.0;
    let windows = experiment.windows.iter().map(|window| window.throughput);
    let mut all: Vec<f64> = windows.filter(good).collect();
    // One slice far above the windows is a burst, and not a scale for the rest.
    let most = all.iter().copied().fold(0.0, f64::max);
    let bursts = curve.iter().map(|(_, rate)| *rate).filter(good);
    all.extend(bursts.map(|rate| {
        if most > 0.0 {
            rate.min(most * 1.3)
        } else {
            rate
        }
    }));
    let top = all.into_iter().fold(0.0, f64::max) * 1.05;
    if length == 0 || top <= 0.0 || !top.is_finite() || experiment.windows.is_empty() {
        return None;
    }
    let x = |ns: f64| (ns / end * 1e4).clamp(0.0, 1e4).round() / 100.0;
    let y = |value: f64| {
        let value = if value.is_finite() { value } else { 0.0 };
        round(100.0 - (value / top).clamp(0.0, 1.0) * 100.0)
    };
    let line: Vec<String> = curve
        .iter()
        .map(|(at, rate)| format!("{},{}", x(*at), y(*rate)))
        .collect();
    let place = |window: &Window| {
        let (from, to) = (x(window.from_ns as f64), x(window.to_ns as f64));
        (from, round((to - from).max(0.1)))
    };
    let levels = experiment
        .windows
        .iter()
        .map(|window| {
            let squeeze = experiment.squeezed(window);
            let (from, width) = place(window);
            Level {
                from,
                width,
                y: y(window.throughput),
                kind: squeeze.map_or("neutral", |squeeze| kind(squeeze.wall())),
                sham: experiment.is_sham(window),
                words: format!(
                    "{}: {}/s",
                    experiment
                        .condition(window)
                        .map_or_else(String::new, words::condition),
                    number::amount(window.throughput)
                ),
            }
        })
        .collect();
    // Several at once stand in the row of each.
    let is_of = |condition: &Condition, squeeze: Option<Squeeze>| match squeeze {
        None => condition.is_sham(),
        Some(squeeze) => condition.squeezes().any(|it| it == squeeze),
    };
    let squeezes = std::iter::once(None).chain(Squeeze::ALL.into_iter().map(Some));
    let rows = squeezes
        .filter_map(|squeeze| {
            let cells: Vec<(f64, f64, f64)> = experiment
                .windows
                .iter()
                .filter_map(|window| {
                    let condition = experiment.condition(window)?;
                    is_of(condition, squeeze).then(|| {
                        let (from, width) = place(window);
                        let taken = match squeeze {
                            Some(_) => (1.0 - condition.retained).abs(),
                            None => 0.5,
                        };
                        let taken = if taken.is_finite() { taken } else { 0.2 };
                        // A tenth is a third of the row, a half all of it.
                        (from, width, round((4.0 + 24.0 * taken).clamp(4.0, 16.0)))
                    })
                })
                .collect();
            let count = cells.len();
            (count > 0).then(|| Row {
                name: squeeze.map_or("nothing".to_owned(), |s| words::squeeze(s.label())),
                kind: squeeze.map_or("neutral", |squeeze| kind(squeeze.wall())),
                cells,
                count,
            })
        })
        .collect();
    let seconds = end / 1e9;
    let step = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0]
        .into_iter()
        .find(|step| seconds / step <= 6.0)
        .unwrap_or(seconds / 4.0);
    let times = (0..=6)
        .map(|k| f64::from(k) * step)
        .take_while(|at| *at <= seconds * 0.96)
        .map(|at| (x(at * 1e9), clock(at)))
        .collect();
    Some(Series {
        line: line.join(" "),
        top: number::amount(top / 1.05),
        levels,
        rows,
        times,
        end: number::span(end),
    })
}

/// `0 s`, `30 s`, `2:00`.
fn clock(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    if whole < 60 {
        format!("{whole} s")
    } else {
        format!("{}:{:02}", whole / 60, whole % 60)
    }
}

fn gates(step: &Step) -> Vec<Gated> {
    let gates = step.verdict.iter().flat_map(|verdict| &verdict.gates);
    gates.map(said::gate).collect()
}

fn checks(squeezes: &[(Squeeze, Vec<Dose>)]) -> Vec<Check> {
    squeezes
        .iter()
        .flat_map(|(squeeze, doses)| doses.iter().map(move |dose| (*squeeze, dose)))
        .map(|(squeeze, dose)| {
            let (held, out, untold) = dose.force;
            let all = held + out + untold;
            let taken = dose.middle().map(|(left, _)| taken(left));
            Check {
                name: words::squeeze(squeeze.label()),
                kind: kind(squeeze.wall()),
                taken: taken.unwrap_or_else(|| self::taken(dose.asked)),
                how: dose.how.clone(),
                windows: match (held, untold) {
                    (0, untold) if untold == all => format!("{all} windows"),
                    _ => format!("in force in {held} of {all}"),
                },
                outcome: match (held, out, untold) {
                    (_, 0, 0) => "held",
                    (0, 0, _) => "not seen",
                    (0, _, _) => "failed",
                    _ => "partly",
                },
                check: dose.check.clone(),
            }
        })
        .collect()
}

/// `20 %`, or `+25 %` where it was widened.
fn taken(left: f64) -> String {
    match left > 1.0 {
        true => format!("+{}", number::share(left - 1.0)),
        false => number::share(1.0 - left),
    }
}

fn missing(step: &Step, experiment: &Experiment) -> Vec<Missing> {
    let mattering: Vec<Squeeze> = squeezed::missing(step)
        .into_iter()
        .flat_map(|(squeezes, _)| squeezes)
        .collect();
    let mut missing: Vec<Missing> = experiment
        .out_of_reach
        .iter()
        .map(|out| Missing {
            name: words::squeeze(out.squeeze.label()),
            why: words::capital_sentence(&out.why),
            matters: mattering.contains(&out.squeeze),
        })
        .collect();
    missing.sort_by_key(|one| !one.matters);
    missing
}
