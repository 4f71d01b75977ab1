//! The answer: the wall, how sure, the figures, what each resource allows, the squeezes.

use serde::Serialize;
use wallfinder_model::verdict::Verdict;
use wallfinder_model::{Record, Step, Wall};

use super::proof::kind_of;
use crate::figures::{self, Figures};
use crate::html::kind;
use crate::{number, said, squeezed, words};

#[derive(Serialize)]
pub(super) struct Hero {
    wall: String,
    kind: &'static str,
    standing: String,
    sentence: String,
    detail: Option<String>,
    evidence: Vec<String>,
    next: Option<String>,
    what_if: Option<(String, String)>,
    missing: Option<String>,
    at: String,
    decided: bool,
    stats: Vec<Stat>,
    ceilings: Vec<CeilingRow>,
    ceilings_mark: f64,
    squeezes: Vec<SqueezeRow>,
    /// Where 0 and 1 are on their axis.
    zero_one: (f64, f64),
}

#[derive(Serialize)]
struct Stat {
    label: &'static str,
    value: String,
    unit: String,
    note: String,
}

/// A bar from nothing to a resource's ceiling, in the unit of throughput; positions in
/// percent of the picture.
#[derive(Serialize)]
struct CeilingRow {
    name: String,
    kind: &'static str,
    wall: bool,
    next: bool,
    end: f64,
    beyond: bool,
    /// Ends of the interval, where the ceiling was measured by squeezing to it.
    ends: Option<(f64, f64)>,
    value: String,
    headroom: String,
    utilisation: String,
    demand: String,
    saturation: String,
}

/// A squeeze's elasticity; positions in percent of the axis.
#[derive(Serialize)]
struct SqueezeRow {
    name: String,
    kind: &'static str,
    below: bool,
    above: bool,
    low: f64,
    high: f64,
    centre: f64,
    value: String,
    interval: String,
    rounds: u32,
}

impl Hero {
    pub(super) fn of(record: &Record, step: &Step) -> Hero {
        let figures = Figures::of(step);
        let (ceilings, ceilings_mark) = ceilings(step);
        let mut hero = Hero {
            wall: "Not judged".to_owned(),
            kind: "neutral",
            standing: String::new(),
            sentence: String::new(),
            detail: None,
            evidence: Vec::new(),
            next: None,
            what_if: words::natural_what_if(step),
            missing: words::missing(&squeezed::missing(step)).map(|text| words::capital(&text)),
            at: at(record, step),
            decided: false,
            stats: stats(step, &figures),
            ceilings,
            ceilings_mark,
            squeezes: Vec::new(),
            zero_one: (0.0, 100.0),
        };
        if let Some(verdict) = &step.verdict {
            hero.wall = words::capital(verdict.wall.words());
            hero.kind = kind(verdict.wall);
            hero.decided = verdict.wall != Wall::Inconclusive;
            hero.standing = words::standing_of(step).unwrap_or_default();
            hero.sentence = said::below_heading(verdict);
            hero.detail = detail(verdict);
            hero.evidence = verdict
                .evidence
                .iter()
                // What the pictures and the gates show is not said again.
                .filter(|evidence| step.experiment.is_none() || !evidence.fact.is_of_squeezes())
                .take(6)
                .map(|evidence| said::fact(&evidence.fact))
                .collect();
            hero.next = words::next(verdict, step.throughput);
            hero.squeezes = squeezes(verdict);
            let axis = Axis::of(verdict);
            hero.zero_one = (axis.place(0.0), axis.place(1.0));
        }
        hero
    }
}

/// Which step the answer is about, where there are several.
fn at(record: &Record, step: &Step) -> String {
    if record.steps.len() < 2 {
        return String::new();
    }
    let depth = match step.load.in_flight_per_connection {
        0 | 1 => String::new(),
        depth => format!(" × {} in flight", number::whole(u64::from(depth))),
    };
    let connections = words::counted(u64::from(step.load.connections), "connection");
    let same = record.steps.iter().all(|other| other.target == step.target);
    let path = if same {
        String::new()
    } else {
        format!("{} with ", step.target.path)
    };
    format!("{path}{connections}{depth}")
}

fn detail(verdict: &Verdict) -> Option<String> {
    let mut parts: Vec<String> = said::made_of(verdict).into_iter().collect();
    if !verdict.shares.is_empty() {
        let shares: Vec<String> = verdict
            .shares
            .iter()
            .map(|(name, share)| format!("{} {}", words::squeeze(name), number::share(*share)))
            .collect();
        parts.push(format!("Shares: {}.", shares.join(", ")));
    }
    if verdict.wall == Wall::ClientCpu {
        parts.push(words::CLIENT_WALL.to_owned());
    }
    parts.extend(words::more_clients(verdict));
    (!parts.is_empty()).then(|| parts.join(" "))
}

fn stats(step: &Step, figures: &Figures) -> Vec<Stat> {
    let stat = |label, shown: String, note: String| {
        let (value, unit) = match shown.split_once(' ') {
            Some((value, unit)) => (value.to_owned(), unit.to_owned()),
            None => (shown, String::new()),
        };
        Stat {
            label,
            value,
            unit,
            note,
        }
    };
    let mut stats = Vec::new();
    let asked = words::asked(step)
        .or_else(|| words::throughput_from(&step.driver).map(str::to_owned))
        .or_else(|| {
            figures
                .ceiling_share
                .map(|share| format!("{} of what these workers can drive", number::share(share)))
        });
    let interval = words::interval(figures).map(|half| format!("± {half}"));
    let notes: Vec<String> = interval.into_iter().chain(asked).collect();
    stats.push(stat(
        "Throughput",
        format!("{} requests/s", number::amount(step.throughput)),
        notes.join(", "),
    ));
    // A unit is what stands behind the first space: the mark of a lower bound stays with its number.
    let latency = |name: &str| {
        let shown = figures::latency(step, name)?;
        Some(shown.replacen("≥ ", "≥\u{a0}", 1))
    };
    stats.push(stat(
        "Latency, median",
        latency("p50").unwrap_or(number::UNKNOWN.to_owned()),
        figures
            .n_over_x_ns
            .zip(figures.mean_ns)
            .map(|(n_over_x, mean)| {
                format!(
                    "{} {}, N/X {}",
                    words::mean(figures),
                    number::span(mean),
                    number::span(n_over_x)
                )
            })
            .unwrap_or_default(),
    ));
    stats.push(stat(
        "Latency, p99",
        latency("p99").unwrap_or(number::UNKNOWN.to_owned()),
        latency("p99.9")
            .map(|shown| format!("p99.9 {shown}"))
            .unwrap_or_default(),
    ));
    if let Some(ns) = figures.server_cpu_ns {
        let note = figures
            .client_cpu_ns
            .map(|ns| format!("client {}", number::span(ns)));
        stats.push(stat(
            "Server CPU per request",
            number::span(ns),
            note.unwrap_or_default(),
        ));
    } else if let Some(ns) = figures.client_cpu_ns {
        stats.push(stat(
            "Client CPU per request",
            number::span(ns),
            "the server's is not known".to_owned(),
        ));
    }
    if let Some(bytes) = figures.bytes_in {
        let packets = figures
            .packets_down
            .map(|packets| format!("in {}", words::packets(packets)));
        stats.push(stat(
            "Bytes per answer",
            number::bytes(bytes),
            packets.unwrap_or_default(),
        ));
    }
    let failed = figures.failed_share.unwrap_or(0.0);
    stats.push(stat(
        "Failed",
        number::share(failed),
        words::worst_class(step).unwrap_or_default(),
    ));
    stats
}

fn ceilings(step: &Step) -> (Vec<CeilingRow>, f64) {
    let throughput = step.throughput;
    if !throughput.is_finite() || throughput <= 0.0 {
        return (Vec::new(), 0.0);
    }
    let mut rows: Vec<(f64, CeilingRow)> = Vec::new();
    let resources = step.verdict.iter().flat_map(|verdict| {
        let wall = verdict.wall;
        verdict
            .resources
            .iter()
            .map(move |resource| (wall, resource))
    });
    for (wall, resource) in resources {
        // What was squeezed until it bound is known better than by its demand.
        let next = step.verdict.as_ref().and_then(|verdict| verdict.next);
        let next = next.filter(|next| next.wall == resource.wall);
        let measured = next.filter(|next| next.low.is_some() && next.high.is_some());
        let ceiling = measured.map(|next| throughput * next.ratio);
        let ceiling = ceiling.or(resource.ceiling);
        let Some(ceiling) = ceiling.filter(|c| c.is_finite() && *c > 0.0) else {
            continue;
        };
        rows.push((
            ceiling,
            CeilingRow {
                name: words::short(resource.wall).to_owned(),
                kind: kind(resource.wall),
                wall: resource.wall == wall,
                next: next.is_some(),
                ends: measured
                    .and_then(|next| next.low.zip(next.high))
                    .map(|(low, high)| (throughput * low, throughput * high)),
                utilisation: number::share(resource.utilisation),
                demand: resource
                    .demand_s
                    .map_or(String::new(), |seconds| number::span(seconds * 1e9)),
                saturation: resource
                    .saturation
                    .as_ref()
                    .map(said::saturation)
                    .unwrap_or_default(),
                ..CeilingRow::at(ceiling, throughput)
            },
        ));
    }
    if let Some(ceiling) = step
        .ceiling
        .as_ref()
        .map(|c| c.throughput)
        .filter(|c| c.is_finite() && *c > 0.0)
    {
        rows.push((
            ceiling,
            CeilingRow {
                name: "workers, calibrated".to_owned(),
                kind: "neutral",
                utilisation: number::share(throughput / ceiling),
                saturation: "against a server that does nothing".to_owned(),
                ..CeilingRow::at(ceiling, throughput)
            },
        ));
    }
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The wall and what comes next matter; what is far away is cut off and says so.
    let furthest = rows.iter().map(|(c, _)| *c).fold(throughput, f64::max);
    let full = furthest.min(throughput * 5.0).max(throughput * 1.15);
    for (ceiling, row) in &mut rows {
        row.end = (*ceiling / full * 100.0).clamp(0.0, 100.0);
        row.beyond = *ceiling > full;
        let place = |value: f64| (value / full * 100.0).clamp(0.0, 100.0);
        row.ends = row.ends.map(|(low, high)| (place(low), place(high)));
    }
    (
        rows.into_iter().map(|(_, row)| row).collect(),
        (throughput / full * 100.0).clamp(0.0, 100.0),
    )
}

impl CeilingRow {
    fn at(ceiling: f64, throughput: f64) -> CeilingRow {
        CeilingRow {
            name: String::new(),
            kind: "neutral",
            wall: false,
            next: false,
            ends: None,
            end: 0.0,
            beyond: false,
            value: number::amount(ceiling),
            headroom: format!("{} ×", number::factor(ceiling / throughput)),
            utilisation: String::new(),
            demand: String::new(),
            saturation: String::new(),
        }
    }
}

/// The axis of elasticities: 0 and 1 are always on it, and as much as is known of others.
#[derive(Clone, Copy)]
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn of(verdict: &Verdict) -> Axis {
        let all = || verdict.elasticities.values();
        let finite = |value: &f64| value.is_finite();
        let low = all().map(|e| e.low).filter(finite).fold(0.0, f64::min);
        let high = all().map(|e| e.high).filter(finite).fold(1.0, f64::max);
        Axis {
            low: low.max(-1.0) - 0.1,
            high: high.min(2.0) + 0.1,
        }
    }

    fn place(self, value: f64) -> f64 {
        let value = if value.is_finite() { value } else { 0.0 };
        let share = (value - self.low) / (self.high - self.low);
        (share.clamp(0.0, 1.0) * 1000.0).round() / 10.0
    }
}

fn squeezes(verdict: &Verdict) -> Vec<SqueezeRow> {
    let axis = Axis::of(verdict);
    let mut rows: Vec<_> = verdict.elasticities.iter().collect();
    rows.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    rows.into_iter()
        .map(|(name, elasticity)| SqueezeRow {
            name: words::squeeze(name),
            kind: kind_of(name),
            below: elasticity.low.is_nan() || elasticity.low < axis.low,
            above: elasticity.high.is_nan() || elasticity.high > axis.high,
            low: axis.place(elasticity.low),
            high: axis.place(elasticity.high).max(axis.place(elasticity.low)),
            centre: axis.place(elasticity.value),
            value: number::elasticity(elasticity.value),
            interval: format!(
                "{} to {}",
                number::elasticity(elasticity.low),
                number::elasticity(elasticity.high)
            ),
            rounds: elasticity.rounds,
        })
        .collect()
}
