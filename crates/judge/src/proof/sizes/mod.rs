//! Answers of several sizes and codings: what bytes cost whom, what a link makes of it, and from
//! which size on compressing pays.
//!
//! ```text
//!  steps, in rounds ─► Rounds ─┬─► points: measured without the link's rate, and behind it
//!                              ├─► line: cost = so much a request + so much a byte
//!                              ├─► network: two stations in a closed loop ─► predicted behind it
//!                              └─► pays: coded over not coded, and where that passes the bar
//! ```
//!
//! What a request costs is taken from windows without the link's rate: a server that waits for a
//! link wakes for each request, and spends more on it than one that is full.

mod line;
mod network;
mod pays;
mod rounds;

use fastrand::Rng;
use wallfinder_model::sizes::{Cost, Known, Point, Score, Sizes, Turn};
use wallfinder_model::{Step, Wall};

use super::estimate::{ALPHA, estimate};
use crate::student;
use line::Line;
use rounds::Rounds;

/// The coding that is none.
pub const IDENTITY: &str = "identity";

/// What a shaper lets through is known no better than this: what its bucket holds at the edges of
/// a window, and segments that are sent again.
const LINK_KNOWN: f64 = 0.01;
/// A line needs some sizes.
const SIZES_MIN: usize = 3;

/// The order of windows: each round holds every answer once on each side of the link, drawn anew.
pub fn order_of_rounds(seed: u64, rounds: u32, answers: u32, has_link: bool) -> Vec<Turn> {
    let mut random = Rng::with_seed(seed);
    let mut order = Vec::new();
    for round in 0..rounds {
        let sides: &[bool] = if has_link { &[false, true] } else { &[false] };
        let turn = |answer: u32, behind_link: bool| Turn {
            round,
            answer,
            behind_link,
        };
        let mut of_round: Vec<Turn> = (0..answers)
            .flat_map(|answer| sides.iter().map(move |side| turn(answer, *side)))
            .collect();
        random.shuffle(&mut of_round);
        order.extend(of_round);
    }
    order
}

/// Fills in what the steps come to: points, costs, where coding pays, and how good the predictions
/// were. Steps that were not measured leave their round out; with fewer than two rounds there is no
/// interval, and so neither costs nor where coding pays.
pub fn weigh(steps: &[Step], sizes: &mut Sizes) {
    let rounds = Rounds::of(steps, sizes);
    sizes.points = (0..sizes.answers.len() as u32)
        .filter_map(|answer| point(&rounds, sizes, answer))
        .collect();
    sizes.costs = costs(&rounds, sizes);
    sizes.pays = pays::all(&rounds, sizes);
    sizes.score = score(&sizes.points);
}

fn point(rounds: &Rounds<'_>, sizes: &Sizes, answer: u32) -> Option<Point> {
    let body_bytes = rounds.body_bytes(answer)?;
    let open = known(&rounds.throughputs(answer, false));
    let downlink_bits = rounds.downlink_bits(answer);
    let predicted = match (open, downlink_bits, sizes.link_bits) {
        (Some(open), Some(bits), Some(rate)) => {
            let station = network::Behind {
                link_seconds: bits / rate as f64,
                in_flight: rounds.in_flight(answer)?,
            };
            Some(within(station, open))
        }
        _ => None,
    };
    Some(Point {
        answer,
        raw_bytes: rounds.raw_bytes(&sizes.answers, answer)?,
        body_bytes,
        downlink_bytes: downlink_bits.map(|bits| bits / 8.0),
        segments: rounds.segments(answer),
        open,
        behind: known(&rounds.throughputs(answer, true)),
        predicted,
        server_cpu_ns: rounds.server_cpu_ns(answer),
        client_cpu_ns: rounds.client_cpu_ns(answer),
        open_wall: wall(&rounds.steps(answer, false)),
        behind_wall: wall(&rounds.steps(answer, true)),
    })
}

/// A prediction from what was measured without the link's rate.
fn within(behind: network::Behind, open: Known) -> Known {
    let (low, high) = (behind.least(open.low), behind.most(open.high));
    Known {
        value: behind.between(open.value),
        low: low * (1.0 - LINK_KNOWN),
        high: high * (1.0 + LINK_KNOWN),
        high_is_open: false,
    }
}

/// What most of the windows were bound by.
fn wall(steps: &[&Step]) -> Option<Wall> {
    let walls = steps
        .iter()
        .filter_map(|step| Some(step.verdict.as_ref()?.wall));
    let walls: Vec<Wall> = walls.collect();
    let count = |wall: &Wall| walls.iter().filter(|other| *other == wall).count();
    walls.iter().copied().max_by_key(|wall| count(wall))
}

/// Centre and interval of ratios and rates, by their logarithms. Two rounds have a centre only, and
/// an interval that is as wide as it must be.
fn known(values: &[f64]) -> Option<Known> {
    let logs: Vec<f64> = values
        .iter()
        .filter(|v| **v > 0.0)
        .map(|v| v.ln())
        .collect();
    let found = estimate(&logs, None)?;
    let (low, high) = found.interval(ALPHA);
    of_logs(Known {
        value: found.value,
        low,
        high,
        high_is_open: false,
    })
}

/// What logarithms stand for; `None` where an end is beyond all numbers.
fn of_logs(logs: Known) -> Option<Known> {
    let known = Known {
        value: logs.value.exp(),
        low: logs.low.exp(),
        high: logs.high.exp(),
        high_is_open: false,
    };
    (known.low > 0.0 && known.high.is_finite()).then_some(known)
}

/// A value of several rounds, and Student's interval around it. Its error is the jackknife's (Tukey
/// 1958): what the value is without a round tells what that round alone says. `None` with fewer than
/// two rounds. Why not the bootstrap: see `estimate`.
fn of_rounds(rounds: &[usize], of: impl Fn(&[usize]) -> Option<f64>) -> Option<Known> {
    let value = of(rounds)?;
    let count = rounds.len() as f64;
    let own = |round: &usize| {
        let others = rounds.iter().copied().filter(|other| other != round);
        let without = of(&others.collect::<Vec<_>>())?;
        Some(count * value - (count - 1.0) * without)
    };
    let own: Option<Vec<f64>> = rounds.iter().map(own).collect();
    let (_, half) = student::mean_95(&own?);
    half.is_finite().then_some(Known {
        value,
        low: value - half,
        high: value + half,
        high_is_open: false,
    })
}

type OfAnswer = fn(&Rounds<'_>, u32, &[usize]) -> Option<f64>;

/// Who pays for requests and bytes.
const WHOSE: [(&str, OfAnswer); 3] = [
    ("server", |rounds, answer, chosen| {
        rounds.server_cpu_ns_in(answer, chosen)
    }),
    ("client", |rounds, answer, chosen| {
        rounds.client_cpu_ns_in(answer, chosen)
    }),
    ("downlink", |rounds, answer, chosen| {
        let bits = rounds.downlink_bits_in(answer, chosen)?;
        Some(bits / 8.0)
    }),
];

fn costs(rounds: &Rounds<'_>, sizes: &Sizes) -> Vec<Cost> {
    let mut costs = Vec::new();
    for coding in codings(sizes) {
        let of_coding: Vec<&Point> = sizes
            .points
            .iter()
            .filter(|point| sizes.answers[point.answer as usize].coding == coding)
            .collect();
        for (whose, of_answer) in WHOSE {
            costs.extend(cost(rounds, &of_coding, (whose, of_answer), coding));
        }
    }
    costs
}

/// The line through the points whose cost was seen at all, of the rounds in which each was.
fn cost(
    rounds: &Rounds<'_>,
    points: &[&Point],
    (whose, of_answer): (&str, OfAnswer),
    coding: &str,
) -> Option<Cost> {
    let is_seen = |point: &&&Point| of_answer(rounds, point.answer, &rounds.all()).is_some();
    let seen: Vec<&Point> = points.iter().filter(is_seen).copied().collect();
    if seen.len() < SIZES_MIN {
        return None;
    }
    let fit = |chosen: &[usize]| {
        let costs = seen.iter().map(|point| {
            let cost = of_answer(rounds, point.answer, chosen)?;
            Some((point.body_bytes, cost))
        });
        Line::through(&costs.collect::<Option<Vec<_>>>()?)
    };
    let whole = rounds.whole(|round| fit(&[round]).is_some());
    let of = |take: fn(&Line) -> f64| of_rounds(&whole, |chosen| Some(take(&fit(chosen)?)));
    Some(Cost {
        whose: whose.to_owned(),
        coding: coding.to_owned(),
        per_request: of(|line| line.at_nothing)?,
        per_byte: of(|line| line.slope)?,
        misfit: fit(&whole)?.misfit,
        sizes: seen.len() as u32,
    })
}

/// Codings in the order in which they were asked for.
fn codings(sizes: &Sizes) -> Vec<&str> {
    let mut codings: Vec<&str> = Vec::new();
    for answer in &sizes.answers {
        if !codings.contains(&answer.coding.as_str()) {
            codings.push(&answer.coding);
        }
    }
    codings
}

fn score(points: &[Point]) -> Option<Score> {
    let pairs: Vec<(Known, f64)> = points
        .iter()
        .filter_map(|point| Some((point.predicted?, point.behind?.value)))
        .collect();
    let errors = pairs
        .iter()
        .map(|(predicted, measured)| predicted.value / measured - 1.0);
    let squares: f64 = errors.map(|error| error * error).sum();
    (!pairs.is_empty()).then(|| Score {
        predictions: pairs.len() as u32,
        within: pairs
            .iter()
            .filter(|(predicted, measured)| (predicted.low..=predicted.high).contains(measured))
            .count() as u32,
        rmse: (squares / pairs.len() as f64).sqrt(),
    })
}

#[cfg(test)]
mod tests;
