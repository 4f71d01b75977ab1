//! The table of steps, and what the charts above it are called.

use serde::Serialize;
use wallfinder_model::verdict::How;
use wallfinder_model::{Record, Step};

use crate::figures::{self, Figures};
use crate::html::{data, kind};
use crate::number::maybe;
use crate::{number, words};

#[derive(Serialize)]
pub(super) struct Ramp {
    rows: Vec<Row>,
    named: bool,
    depths: bool,
    asked: bool,
    errors: bool,
    link: bool,
    sparks: bool,
    charts: bool,
    /// `in flight` or `requests per second asked for`.
    axis: &'static str,
    one_group: bool,
    summary: String,
}

#[derive(Serialize)]
struct Row {
    index: usize,
    name: String,
    connections: String,
    depth: String,
    in_flight: String,
    asked: String,
    throughput: String,
    throughput_bar: f64,
    p50: String,
    p99: String,
    n_over_x: String,
    errors: String,
    server: String,
    server_bar: f64,
    server_known: bool,
    server_core: String,
    client: String,
    client_bar: f64,
    client_known: bool,
    link: String,
    link_bar: f64,
    wall: String,
    kind: &'static str,
    standing: String,
    doubtful: bool,
    best: bool,
    chosen: bool,
    spark: String,
}

/// Lines in one chart that can still be told apart.
const GROUPS_MAX: usize = 8;

impl Ramp {
    pub(super) fn of(record: &Record, chosen: usize) -> Ramp {
        let steps = &record.steps;
        let best = crate::text::best_step(record).map(|step| step.throughput);
        let top = best.filter(|best| *best > 0.0).unwrap_or(1.0);
        let groups = data::groups(record).len();
        let rows: Vec<Row> = steps
            .iter()
            .enumerate()
            .map(|(index, step)| {
                let mut row = row(step, index, top);
                row.best = Some(step.throughput) == best;
                row.chosen = index == chosen;
                row
            })
            .collect();
        Ramp {
            named: groups > 1,
            depths: steps
                .iter()
                .any(|step| step.load.in_flight_per_connection > 1),
            asked: steps.iter().any(|step| step.load.arrival.is_open()),
            errors: rows.iter().any(|row| !row.errors.is_empty()),
            link: rows.iter().any(|row| !row.link.is_empty()),
            sparks: rows.iter().any(|row| !row.spark.is_empty()),
            charts: groups <= GROUPS_MAX,
            axis: if data::by_rate(record) {
                "requests/s asked for"
            } else {
                "requests in flight"
            },
            one_group: groups <= 1,
            summary: summary(record),
            rows,
        }
    }
}

fn summary(record: &Record) -> String {
    let Some(best) = crate::text::best_step(record) else {
        return String::new();
    };
    let mut text = format!(
        "The most was {} requests/s, at {} in flight",
        number::amount(best.throughput),
        number::amount(best.in_flight_mean)
    );
    let ramp = words::one_ramp(record);
    if let Some(knee) = ramp.as_ref().and_then(|ramp| ramp.knee) {
        text.push_str(&format!("; {}", words::knee(&knee, data::by_rate(record))));
    }
    text.push('.');
    if let Some(past) = ramp.and_then(|ramp| ramp.past_knee) {
        text.push(' ');
        text.push_str(&words::past_knee(&past));
    }
    text
}

fn percent(share: Option<f64>) -> f64 {
    let share = share.unwrap_or(0.0);
    if share.is_finite() {
        (share.clamp(0.0, 1.0) * 1000.0).round() / 10.0
    } else {
        0.0
    }
}

fn row(step: &Step, index: usize, top: f64) -> Row {
    let figures = Figures::of(step);
    let server = step.telemetry.server.as_ref().map(|s| s.utilisation);
    let client = step.telemetry.client.as_ref().map(|c| c.utilisation);
    let mut row = Row {
        index,
        name: step.name.clone(),
        connections: number::whole(u64::from(step.load.connections)),
        depth: number::depth(step.load.in_flight_per_connection),
        in_flight: number::amount(step.in_flight_mean),
        asked: maybe(words::rate_asked(&step.load.arrival), number::amount),
        throughput: number::amount(step.throughput),
        throughput_bar: percent(Some(step.throughput / top)),
        p50: figures::latency(step, "p50").unwrap_or(number::UNKNOWN.to_owned()),
        p99: figures::latency(step, "p99").unwrap_or(number::UNKNOWN.to_owned()),
        n_over_x: maybe(figures.n_over_x_ns, number::span),
        errors: figures
            .failed_share
            .filter(|share| *share > 0.0)
            .map(number::share)
            .unwrap_or_default(),
        server: maybe(server, number::share),
        server_bar: percent(server),
        server_known: server.is_some(),
        server_core: maybe(figures.server_core_max, number::share),
        client: maybe(client, number::share),
        client_bar: percent(client),
        client_known: client.is_some(),
        link: figures.link_share.map(number::share).unwrap_or_default(),
        link_bar: percent(figures.link_share),
        wall: number::UNKNOWN.to_owned(),
        kind: "neutral",
        standing: String::new(),
        doubtful: false,
        best: false,
        chosen: false,
        spark: spark(step),
    };
    if let Some(verdict) = &step.verdict {
        row.wall = words::short(verdict.wall).to_owned();
        row.kind = kind(verdict.wall);
        row.standing = words::standing(verdict);
        row.doubtful = verdict.how == How::Observed && verdict.confidence < words::DOUBTFUL;
    }
    row
}

/// Throughput over the measured window, from nothing to its most, as points of a line in
/// a box of 64 by 16.
fn spark(step: &Step) -> String {
    let window: Vec<f64> = step
        .intervals
        .iter()
        .filter(|interval| interval.at_ns > step.load.warmup.0 && interval.span_ns > 0)
        .map(|interval| interval.answered as f64 / interval.span_ns as f64)
        .collect();
    let size = window.len().div_ceil(32).max(1);
    let merged: Vec<f64> = window
        .chunks(size)
        .map(|chunk| chunk.iter().sum::<f64>() / chunk.len() as f64)
        .collect();
    let top = merged.iter().copied().fold(0.0, f64::max);
    if merged.len() < 2 || top <= 0.0 {
        return String::new();
    }
    let points: Vec<String> = merged
        .iter()
        .enumerate()
        .map(|(index, value)| {
            let x = index as f64 / (merged.len() - 1) as f64 * 64.0;
            format!("{x:.1},{:.1}", 15.0 - value / top * 14.0)
        })
        .collect();
    points.join(" ")
}
