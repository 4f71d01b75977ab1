//! What the page's charts draw, as one JSON value: plain numbers, bounded in size.
//!
//! Lists stand for columns, `null` for what is not known. Times are seconds, latencies
//! nanoseconds, rates per second, shares 0..1.

use std::collections::BTreeMap;

use serde::Serialize;
use wallfinder_model::telemetry::{CoreSample, FamilySummary, Sample};
use wallfinder_model::{Record, Step};

use crate::figures::{Figures, quantile};
use crate::{flames, percentiles, profiled, words};

/// Points in time of one step at the most; finer ones are merged.
const POINTS_MAX: usize = 300;
/// Numbers of all processors' series together; beyond that points are merged further.
const CORE_NUMBERS_MAX: usize = 400_000;
/// Processors drawn at the most; of more, the busiest.
const CORES_MAX: usize = 64;

#[derive(Serialize)]
pub(crate) struct Charts {
    /// `in-flight` or `rate`.
    axis: &'static str,
    /// Steps in the order of the record.
    steps: Vec<StepData>,
    /// Names of lines, where steps differ in more than their load.
    groups: Vec<String>,
    /// What each resource allows, at the step that is judged.
    ceilings: Vec<CeilingLine>,
    /// Where more load stops to help, on the load axis.
    knee: Option<f64>,
    /// Horizontal axis of percentile curves: one in how many.
    grid: Vec<f64>,
    /// The step shown first.
    chosen: usize,
    /// Stacks, those of the step shown first before the others'.
    flames: Vec<Flame>,
}

/// One kind of profile as a tree.
#[derive(Serialize)]
struct Flame {
    title: String,
    kind: &'static str,
    unit: String,
    total: i64,
    answered: f64,
    names: Vec<String>,
    /// Depth, value and name of each node, in preorder.
    nodes: Vec<(u32, i64, usize)>,
}

fn flames(record: &Record, chosen: usize) -> Vec<Flame> {
    let flame = |flame: flames::Flame<'_>| {
        let reading = flame.reading;
        let mut names: Vec<String> = Vec::new();
        let mut known: BTreeMap<&str, usize> = BTreeMap::new();
        let nodes = reading.tree.iter().map(|node| {
            let name = *known.entry(&node.name).or_insert_with(|| {
                names.push(node.name.clone());
                names.len() - 1
            });
            (node.depth, node.value, name)
        });
        let nodes = nodes.collect();
        Flame {
            title: flame.title,
            kind: reading.kind.label(),
            unit: reading.measure.unit.clone(),
            total: reading.total,
            answered: profiled::answered(flame.profiles, reading),
            names,
            nodes,
        }
    };
    let drawn = flames::of(record, chosen).flames.into_iter();
    drawn.map(flame).collect()
}

#[derive(Serialize)]
struct StepData {
    name: String,
    group: usize,
    /// Where two settings are measured in turn: the round, from 1.
    round: Option<u64>,
    /// Position on the load axis.
    x: Option<f64>,
    throughput: Option<f64>,
    p50: Option<f64>,
    p99: Option<f64>,
    mean: Option<f64>,
    n_over_x: Option<f64>,
    server: Option<f64>,
    server_core: Option<f64>,
    client: Option<f64>,
    link: Option<f64>,
    curves: Vec<CurveData>,
    time: Option<Time>,
    telemetry: Option<Series>,
}

#[derive(Serialize)]
struct CeilingLine {
    name: &'static str,
    kind: &'static str,
    value: f64,
    wall: bool,
}

#[derive(Serialize)]
struct CurveData {
    kind: &'static str,
    sparse: bool,
    ns: Vec<Option<u64>>,
}

/// Intervals as columns.
#[derive(Serialize, Default)]
struct Time {
    warmup: f64,
    at: Vec<f64>,
    throughput: Vec<Option<f64>>,
    failed: Vec<u64>,
    p50: Vec<Option<u64>>,
    p99: Vec<Option<u64>>,
    in_flight: Vec<u64>,
}

/// Telemetry rows as columns.
#[derive(Serialize, Default)]
struct Series {
    at: Vec<f64>,
    cores: Vec<CoreSeries>,
    /// Processors left out.
    cores_more: usize,
    down: Vec<Option<f64>>,
    up: Vec<Option<f64>>,
    rate_bits: Option<u64>,
}

#[derive(Serialize)]
struct CoreSeries {
    cpu: u32,
    /// `server`, `client`, `both` or empty.
    side: &'static str,
    usr: Vec<f32>,
    sys: Vec<f32>,
    softirq: Vec<f32>,
    steal: Vec<f32>,
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Shorter numbers: more digits than are measured only make the page larger.
fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let digits = 4 - value.abs().log10().ceil() as i32;
    let scale = 10f64.powi(digits.clamp(-300, 300));
    (value * scale).round() / scale
}

fn milli(share: f32) -> f32 {
    if share.is_finite() {
        (share.clamp(0.0, 1.0) * 1000.0).round() / 1000.0
    } else {
        0.0
    }
}

/// The kinds of steps that are lines of their own.
pub(crate) fn groups(record: &Record) -> Vec<(String, Vec<usize>)> {
    let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
    if let Some(ab) = &record.ab {
        for (name, of_b) in [("A", false), ("B", true)] {
            let is_of = |index: &usize| ab.order.get(*index).is_some_and(|(_, b)| *b == of_b);
            let steps = (0..record.steps.len()).filter(is_of);
            groups.push((name.to_owned(), steps.collect()));
        }
        return groups;
    }
    for (index, step) in record.steps.iter().enumerate() {
        let mut name = crate::safe::clean(&step.target.path);
        if step.load.body_bytes > 0 {
            name.push_str(&format!(" {} B", step.load.body_bytes));
        }
        if step.driver.command.is_some() {
            name.push_str(&format!(" {}", crate::safe::clean(&step.driver.name)));
        }
        match groups.iter_mut().find(|(known, _)| *known == name) {
            Some((_, steps)) => steps.push(index),
            None => groups.push((name, vec![index])),
        }
    }
    groups
}

/// Whether steps differ in the rate they ask for.
pub(crate) fn by_rate(record: &Record) -> bool {
    let rates: Vec<Option<f64>> = record
        .steps
        .iter()
        .map(|step| words::rate_asked(&step.load.arrival))
        .collect();
    rates.len() > 1
        && rates.iter().all(Option::is_some)
        && rates.windows(2).any(|pair| pair[0] != pair[1])
}

/// Of a study's cells only the stacks: the rest is drawn without script.
pub(crate) fn charts_of_cells(record: &Record) -> Charts {
    Charts {
        axis: "in-flight",
        steps: Vec::new(),
        groups: Vec::new(),
        ceilings: Vec::new(),
        knee: None,
        grid: Vec::new(),
        chosen: 0,
        flames: flames(record, 0),
    }
}

pub(crate) fn charts(record: &Record, chosen: usize) -> Charts {
    let grid = percentiles::grid();
    let groups = groups(record);
    let by_rate = by_rate(record);
    let points_max = points_max(record);
    let steps = record
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| {
            let group = groups
                .iter()
                .position(|(_, steps)| steps.contains(&index))
                .unwrap_or(0);
            let place = record.ab.as_ref().and_then(|ab| ab.order.get(index));
            StepData {
                round: place.map(|(round, _)| u64::from(*round) + 1),
                ..step_data(step, group, by_rate, &grid, points_max)
            }
        })
        .collect();
    Charts {
        axis: if by_rate { "rate" } else { "in-flight" },
        steps,
        groups: groups.into_iter().map(|(name, _)| name).collect(),
        ceilings: record.steps.get(chosen).map_or(Vec::new(), ceilings),
        knee: words::one_ramp(record)
            .and_then(|ramp| ramp.knee)
            .map(|knee| short(knee.load)),
        grid: grid.into_iter().map(short).collect(),
        chosen,
        flames: flames(record, chosen),
    }
}

/// Points in time for each step, so that all processors of all steps stay in bounds.
fn points_max(record: &Record) -> usize {
    let columns: usize = record
        .steps
        .iter()
        .map(|step| {
            let cores = step.series.iter().map(|s| s.cores.len()).max().unwrap_or(0);
            cores.min(CORES_MAX) * 4
        })
        .sum();
    match CORE_NUMBERS_MAX.checked_div(columns) {
        Some(points) => points.clamp(30, POINTS_MAX),
        None => POINTS_MAX,
    }
}

/// Where a step stands on the load axis.
fn position(step: &Step, by_rate: bool) -> Option<f64> {
    if by_rate {
        return words::rate_asked(&step.load.arrival).and_then(finite);
    }
    finite(step.in_flight_mean)
        .filter(|in_flight| *in_flight > 0.0)
        .or(Some(step.load.in_flight_bound() as f64).filter(|max| *max > 0.0))
        .map(short)
}

fn step_data(
    step: &Step,
    group: usize,
    by_rate: bool,
    grid: &[f64],
    points_max: usize,
) -> StepData {
    let figures = Figures::of(step);
    let telemetry = &step.telemetry;
    let latency = step.latency.as_ref();
    let curves = [
        ("latency", &step.latency),
        ("service", &step.service),
        ("first byte", &step.first_byte),
        ("worker late", &step.lateness),
    ]
    .into_iter()
    .filter_map(|(kind, histogram)| {
        let mut curve = percentiles::curve(histogram.as_ref()?, grid)?;
        let known = curve.values_ns.iter().rposition(Option::is_some);
        curve.values_ns.truncate(known.map_or(0, |last| last + 1));
        Some(CurveData {
            kind,
            sparse: curve.sparse,
            ns: curve.values_ns,
        })
    })
    .collect();
    StepData {
        name: crate::safe::clean(&step.name),
        group,
        round: None,
        x: position(step, by_rate),
        throughput: finite(step.throughput).map(short),
        p50: quantile(latency, "p50"),
        p99: quantile(latency, "p99"),
        mean: figures.mean_ns.map(short),
        n_over_x: figures.n_over_x_ns.map(short),
        server: telemetry
            .server
            .as_ref()
            .and_then(|s| finite(s.utilisation))
            .map(short),
        server_core: figures.server_core_max.map(short),
        client: telemetry
            .client
            .as_ref()
            .and_then(|c| finite(c.utilisation))
            .map(short),
        link: figures.link_share.map(short),
        curves,
        time: time(step),
        telemetry: series(step, points_max),
    }
}

fn ceilings(step: &Step) -> Vec<CeilingLine> {
    let Some(verdict) = &step.verdict else {
        return Vec::new();
    };
    verdict
        .resources
        .iter()
        .filter_map(|resource| {
            Some(CeilingLine {
                name: words::short(resource.wall),
                kind: super::kind(resource.wall),
                value: short(resource.ceiling.filter(|c| c.is_finite() && *c > 0.0)?),
                wall: resource.wall == verdict.wall,
            })
        })
        .collect()
}

/// Slices of `0..length`, at most `most` of them and of about equal size.
fn merged(length: usize, most: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let size = length.div_ceil(most.max(1)).max(1);
    (0..length)
        .step_by(size)
        .map(move |start| start..(start + size).min(length))
}

fn time(step: &Step) -> Option<Time> {
    if step.intervals.is_empty() {
        return None;
    }
    let mut time = Time {
        warmup: step.load.warmup.as_secs_f64(),
        ..Time::default()
    };
    for range in merged(step.intervals.len(), POINTS_MAX) {
        let slice = &step.intervals[range];
        let span: f64 = slice.iter().map(|i| i.span_ns as f64).sum();
        let answered: f64 = slice.iter().map(|i| i.answered as f64).sum();
        let last = &slice[slice.len() - 1];
        // The middle of several medians stands for theirs; of tails, the worst.
        let mut medians: Vec<u64> = slice.iter().map(|i| i.p50_ns).filter(|p| *p > 0).collect();
        medians.sort_unstable();
        time.at.push(short_time(last.at_ns as f64 / 1e9));
        time.throughput
            .push((span > 0.0).then(|| short(answered * 1e9 / span)));
        time.failed.push(
            slice
                .iter()
                .fold(0, |sum: u64, i| sum.saturating_add(i.failed)),
        );
        time.p50.push(medians.get(medians.len() / 2).copied());
        time.p99
            .push(slice.iter().map(|i| i.p99_ns).max().filter(|p| *p > 0));
        time.in_flight.push(last.in_flight);
    }
    Some(time)
}

/// Milliseconds are fine enough for an axis of time.
fn short_time(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn series(step: &Step, points_max: usize) -> Option<Series> {
    if step.series.is_empty() {
        return None;
    }
    let ranges: Vec<_> = merged(step.series.len(), points_max).collect();
    let (cores, cores_more) = cores(step, &ranges);
    let mut series = Series {
        cores,
        cores_more,
        rate_bits: step.telemetry.link.as_ref().and_then(|link| link.rate_bits),
        ..Series::default()
    };
    for range in ranges {
        let slice = &step.series[range];
        let seconds: f64 = slice.iter().map(|sample| sample.span_ns as f64 / 1e9).sum();
        let bits = |bytes: fn(&Sample) -> Option<u64>| {
            let known: Vec<f64> = slice.iter().filter_map(bytes).map(|b| b as f64).collect();
            (!known.is_empty() && seconds > 0.0)
                .then(|| short(known.iter().sum::<f64>() * 8.0 / seconds))
        };
        series
            .at
            .push(short_time(slice[slice.len() - 1].at_ns as f64 / 1e9));
        series.down.push(bits(|sample| Some(sample.link?.tx_bytes)));
        series.up.push(bits(|sample| Some(sample.link?.rx_bytes)));
    }
    Some(series)
}

/// Processors of the client's host, and of the server's where that is another: the busiest of each.
fn cores(step: &Step, ranges: &[std::ops::Range<usize>]) -> (Vec<CoreSeries>, usize) {
    let is_apart = step.telemetry.server_host.is_some();
    let runs_on = |family: &Option<FamilySummary>, cpu: u32| {
        let family = family.as_ref();
        family.is_some_and(|family| family.cpus_allowed.contains(&cpu))
    };
    let side = |cpu: u32| {
        let server = !is_apart && runs_on(&step.telemetry.server, cpu);
        match (server, runs_on(&step.telemetry.client, cpu)) {
            (true, true) => "both",
            (true, false) => "server",
            (false, true) => "client",
            (false, false) => "",
        }
    };
    let (mut all, mut more) = cores_of(step, ranges, |sample| &sample.cores, side);
    if is_apart {
        let there = cores_of(step, ranges, |sample| &sample.server_cores, |_| "server");
        all.extend(there.0);
        more += there.1;
    }
    (all, more)
}

fn cores_of(
    step: &Step,
    ranges: &[std::ops::Range<usize>],
    of: impl Fn(&Sample) -> &Vec<CoreSample>,
    side: impl Fn(u32) -> &'static str,
) -> (Vec<CoreSeries>, usize) {
    let mut sums: BTreeMap<u32, f32> = BTreeMap::new();
    for core in step.series.iter().flat_map(&of) {
        *sums.entry(core.cpu).or_default() += milli(core.busy());
    }
    let mut known: Vec<(u32, f32)> = sums.into_iter().collect();
    let more = known.len().saturating_sub(CORES_MAX);
    known.sort_by(|a, b| b.1.total_cmp(&a.1));
    known.truncate(CORES_MAX);
    known.sort_by_key(|(cpu, _)| *cpu);
    let cores = known
        .into_iter()
        .map(|(cpu, _)| {
            let mut core = CoreSeries {
                cpu,
                side: side(cpu),
                usr: Vec::new(),
                sys: Vec::new(),
                softirq: Vec::new(),
                steal: Vec::new(),
            };
            for range in ranges {
                let samples: Vec<_> = step.series[range.clone()]
                    .iter()
                    .filter_map(|sample| of(sample).iter().find(|core| core.cpu == cpu))
                    .collect();
                let mean = |share: fn(&CoreSample) -> f32| {
                    let sum: f32 = samples.iter().map(|core| milli(share(core))).sum();
                    milli(sum / samples.len().max(1) as f32)
                };
                core.usr.push(mean(|core| core.usr));
                core.sys.push(mean(|core| core.sys));
                core.softirq.push(mean(|core| core.softirq + core.irq));
                core.steal.push(mean(|core| core.steal));
            }
            core
        })
        .collect();
    (cores, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_slices_cover_everything_once() {
        for (length, most) in [(0, 5), (1, 5), (5, 5), (7, 3), (1000, 300)] {
            let ranges: Vec<_> = merged(length, most).collect();
            assert!(ranges.len() <= most);
            assert_eq!(
                ranges.iter().map(|range| range.len()).sum::<usize>(),
                length
            );
        }
    }

    #[test]
    fn numbers_keep_four_digits() {
        assert_eq!(short(28_207.13), 28_210.0);
        assert_eq!(short(0.123_456), 0.1235);
        assert_eq!(short(0.0), 0.0);
        assert_eq!(short(-3.5), -3.5);
    }
}
