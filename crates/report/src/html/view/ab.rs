//! Two settings side by side: the answer, each ratio on an axis with 1 marked, each round.

use serde::Serialize;
use wallfinder_judge::bounds::is_bound;
use wallfinder_model::record::{Ab, Ratio};
use wallfinder_model::{Record, Step};

use super::{Fact, fact};
use crate::figures::{self, quantile};
use crate::{compared, number, words};

#[derive(Serialize)]
pub(super) struct AbView {
    answer: String,
    settings: Vec<Fact>,
    rounds_words: String,
    ratios: Vec<RatioRow>,
    ticks: Vec<(f64, String, bool)>,
    pictures: Vec<Picture>,
    rounds: Vec<RoundRow>,
}

/// A ratio; positions in percent of an axis of logarithms.
#[derive(Serialize)]
struct RatioRow {
    name: String,
    a: String,
    b: String,
    ratio: String,
    interval: String,
    effect: &'static str,
    differs: bool,
    low: f64,
    high: f64,
    centre: f64,
    below: bool,
    above: bool,
}

/// A measure of each round, A and B joined by a line; in a box of 300 by 120.
#[derive(Serialize)]
struct Picture {
    name: &'static str,
    top: String,
    marks: Vec<Mark>,
}

#[derive(Serialize)]
struct Mark {
    /// Beside each other, so that equals can be seen.
    x: (f64, f64),
    a: Option<f64>,
    b: Option<f64>,
    words: String,
}

#[derive(Serialize)]
struct RoundRow {
    round: String,
    first: &'static str,
    a: String,
    b: String,
    ratio: String,
    a_p99: String,
    b_p99: String,
    a_bound: &'static str,
    b_bound: &'static str,
}

impl AbView {
    pub(super) fn of(record: &Record) -> Option<AbView> {
        let ab = record.ab.as_ref()?;
        let rounds = compared::rounds(record, ab);
        let axis = Axis::of(&ab.ratios);
        // A lower bound is not drawn beside what is known.
        let p99 = |step: &Step| {
            let ns = quantile(step.latency.as_ref(), "p99")?;
            (!is_bound(step, "p99")).then_some(ns)
        };
        let throughput = |step: &Step| Some(step.throughput);
        let pictures = [
            (
                "Throughput, requests/s",
                picture(&rounds, &throughput, number::amount),
            ),
            ("Latency, p99", picture(&rounds, &p99, number::span)),
        ];
        Some(AbView {
            answer: compared::answer(record, ab)
                .trim_end_matches('.')
                .to_owned(),
            settings: settings(record, ab),
            rounds_words: compared::rounds_in_words(record, ab),
            ratios: ab.ratios.iter().map(|ratio| row(ab, ratio, axis)).collect(),
            ticks: axis.ticks(),
            pictures: pictures
                .into_iter()
                .filter_map(|(name, made)| {
                    let (top, marks) = made?;
                    Some(Picture { name, top, marks })
                })
                .collect(),
            rounds: rounds
                .iter()
                .map(|(round, a, b)| round_row(ab, *round, *a, *b))
                .collect(),
        })
    }
}

fn settings(record: &Record, ab: &Ab) -> Vec<Fact> {
    let mut facts = Vec::new();
    for (name, what, is_b) in [("A", &ab.a, false), ("B", &ab.b, true)] {
        let steps = compared::steps_of(record, ab, is_b);
        let mut text = what.clone();
        if let Some(step) = steps.first() {
            text.push_str(&format!(
                " · {} · {}",
                words::connections(&step.load),
                words::arrival(&step.load.arrival)
            ));
        }
        if let Some(wall) = compared::bound_by(record, ab, is_b) {
            text.push_str(&format!(" · bound by {wall}, by telemetry"));
        }
        facts.push(fact(name, text));
    }
    let proofs = compared::proofs(ab).into_iter();
    facts.extend(proofs.map(|proof| fact("Seen", proof)));
    facts
}

/// Logarithms of ratios, 1 always on it.
#[derive(Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

/// Places that may be marked.
const MARKS: [f64; 19] = [
    0.1, 0.2, 0.5, 0.67, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0, 1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0,
    5.0, 10.0,
];

impl Axis {
    fn of(ratios: &[Ratio]) -> Axis {
        let known = |value: &f64| value.is_finite() && *value > 0.0;
        let ends = || ratios.iter().flat_map(|r| [r.low, r.high, r.ratio]);
        let low = ends().filter(known).fold(1.0 / 1.02, f64::min).max(0.1);
        let high = ends().filter(known).fold(1.02, f64::max).min(10.0);
        let pad = (high.ln() - low.ln()) * 0.06;
        Axis {
            low: low.ln() - pad,
            high: high.ln() + pad,
        }
    }

    fn place(self, ratio: f64) -> f64 {
        if !ratio.is_finite() || ratio <= 0.0 {
            return self.place(1.0);
        }
        let share = (ratio.ln() - self.low) / (self.high - self.low);
        (share.clamp(0.0, 1.0) * 1000.0).round() / 10.0
    }

    fn ticks(self) -> Vec<(f64, String, bool)> {
        let one = self.place(1.0);
        let mut ticks = vec![(one, "1".to_owned(), true)];
        // From 1 outwards, so that what is near it is marked where there is room.
        let mut marks: Vec<f64> = MARKS.into_iter().filter(|mark| *mark != 1.0).collect();
        marks.sort_by(|a, b| b.ln().abs().total_cmp(&a.ln().abs()));
        for mark in marks {
            let place = self.place(mark);
            let inside = mark.ln() > self.low && mark.ln() < self.high;
            const APART: f64 = 13.0;
            if inside && ticks.iter().all(|(at, _, _)| (at - place).abs() >= APART) {
                ticks.push((place, number::amount(mark), false));
            }
        }
        ticks
    }
}

fn row(ab: &Ab, ratio: &Ratio, axis: Axis) -> RatioRow {
    let out = |value: f64| !value.is_finite() || value <= 0.0;
    let low = if out(ratio.low) {
        0.0
    } else {
        axis.place(ratio.low)
    };
    let high = if out(ratio.high) {
        100.0
    } else {
        axis.place(ratio.high)
    };
    RatioRow {
        name: compared::measure(&ratio.measure),
        a: compared::value(&ratio.measure, ratio.a),
        b: compared::value(&ratio.measure, ratio.b),
        ratio: compared::centre(ratio),
        interval: compared::interval(ratio),
        effect: compared::effect(ab, ratio),
        differs: ratio.differs,
        low,
        high: high.max(low),
        centre: axis.place(ratio.ratio),
        below: out(ratio.low) || ratio.low.ln() < axis.low,
        above: out(ratio.high) || ratio.high.ln() > axis.high,
    }
}

type Rounds<'r> = [(u32, Option<&'r Step>, Option<&'r Step>)];

fn picture(
    rounds: &Rounds<'_>,
    take: &dyn Fn(&Step) -> Option<f64>,
    show: fn(f64) -> String,
) -> Option<(String, Vec<Mark>)> {
    let good = |step: Option<&Step>| step.and_then(take).filter(|v| v.is_finite() && *v > 0.0);
    let values: Vec<(u32, Option<f64>, Option<f64>)> = rounds
        .iter()
        .map(|(round, a, b)| (*round, good(*a), good(*b)))
        .collect();
    let all = values.iter().flat_map(|(_, a, b)| [*a, *b]).flatten();
    let most = all.fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let y = |value: f64| ((114.0 - value / most * 104.0) * 10.0).round() / 10.0;
    let count = values.len() as f64;
    let place = |at: usize, aside: f64| ((at as f64 + 0.5 + aside) / count * 1000.0).round() / 10.0;
    let said = |value: Option<f64>| value.map_or(number::UNKNOWN.to_owned(), show);
    let marks = values
        .iter()
        .enumerate()
        .map(|(at, (round, a, b))| Mark {
            x: (place(at, -0.08), place(at, 0.08)),
            a: a.map(y),
            b: b.map(y),
            words: format!(
                "round {}: A {}, B {}",
                u64::from(*round) + 1,
                said(*a),
                said(*b)
            ),
        })
        .collect();
    Some((show(most), marks))
}

fn round_row(ab: &Ab, round: u32, a: Option<&Step>, b: Option<&Step>) -> RoundRow {
    let shown = |value: Option<f64>, show: fn(f64) -> String| {
        value.map_or(number::UNKNOWN.to_owned(), show)
    };
    let throughput = |step: Option<&Step>| step.map(|step| step.throughput);
    let p99 = |step: Option<&Step>| {
        let shown = step.and_then(|step| figures::latency(step, "p99"));
        shown.unwrap_or(number::UNKNOWN.to_owned())
    };
    let bound = |step: Option<&Step>| {
        let verdict = step.and_then(|step| step.verdict.as_ref());
        verdict.map_or(number::UNKNOWN, |verdict| words::short(verdict.wall))
    };
    let ratio = throughput(b).zip(throughput(a)).map(|(b, a)| b / a);
    let first = ab.order.iter().find(|(known, _)| *known == round);
    RoundRow {
        round: number::whole(u64::from(round) + 1),
        first: match first {
            Some((_, true)) => "B",
            _ => "A",
        },
        a: shown(throughput(a), number::amount),
        b: shown(throughput(b), number::amount),
        ratio: shown(ratio, |ratio| number::fixed(ratio, 3)),
        a_p99: p99(a),
        b_p99: p99(b),
        a_bound: bound(a),
        b_bound: bound(b),
    }
}
