//! Walls, loads and figures in words.
//!
//! Every renderer uses these words, so that the terminal and the page never disagree.
//! Doubts have a module of their own: [`doubt`](crate::doubt).

use wallfinder_judge::ramp::{self, Knee, Ramp};
use wallfinder_model::plan::{Arrival, Load};
use wallfinder_model::record::{Driver, Outcome};
use wallfinder_model::verdict::{How, Verdict};
use wallfinder_model::{Record, Step, Wall};

use crate::figures::Figures;
use crate::number;

/// With a full stop, unless it ends already.
pub(crate) fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() || text.ends_with(['.', '!', '?', '…']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

/// With a capital at the start.
pub(crate) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => String::new(),
    }
}

/// A wall in a table's column: `server CPU`.
pub const fn short(wall: Wall) -> &'static str {
    match wall {
        Wall::ServerCpu => "server CPU",
        Wall::ServerSerial => "serial section",
        Wall::ClientCpu => "client CPU",
        Wall::Downlink => "downlink",
        Wall::Uplink => "uplink",
        Wall::Concurrency => "concurrency",
        Wall::OfferedLoad => "offered load",
        Wall::Backend => "backend",
        Wall::Wait => "wait",
        Wall::CoLimited => "co-limited",
        Wall::Inconclusive => "undecided",
    }
}

/// How a wall was established, as a label: `proved`.
pub const fn how(how: How) -> &'static str {
    match how {
        How::Proved => "proved",
        How::Likely => "likely",
        How::Observed => "observed",
        How::Inconclusive => "not established",
    }
}

/// Below this an observed verdict is marked with a question mark.
pub const DOUBTFUL: f64 = 0.6;

/// How sure a verdict is: `proved · 10 rounds`, `observed · confidence 0.85`.
pub fn standing(verdict: &Verdict) -> String {
    let rounds = verdict
        .elasticities
        .values()
        .map(|elasticity| elasticity.rounds)
        .max()
        .filter(|rounds| *rounds > 0);
    match (verdict.how, rounds) {
        (How::Proved | How::Likely, Some(rounds)) => {
            format!("{} · {rounds} rounds", how(verdict.how))
        }
        (How::Observed, _) => format!(
            "observed · confidence {}",
            number::factor(verdict.confidence)
        ),
        _ => how(verdict.how).to_owned(),
    }
}

/// A squeeze as tables name it: `server-speed` reads `server speed`.
pub fn squeeze(name: &str) -> String {
    match name {
        "in-flight" | "inflight" => "in-flight".to_owned(),
        _ => name.replace(['-', '_'], " ").replace("cpu", "CPU"),
    }
}

/// `confirmed`, `contradicted`, `open`.
pub const fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Confirmed => "confirmed",
        Outcome::Contradicted => "contradicted",
        Outcome::Open => "open",
    }
}

/// What a client wall means for the number.
pub const CLIENT_WALL: &str =
    "This throughput is the load generator's own: the server can do at least as much.";

/// The wall after this one: `the server's CPU at 74,000/s (2.63 ×, [2.55, 2.71])`.
pub fn next(verdict: &Verdict, throughput: f64) -> Option<String> {
    let next = verdict.next.as_ref()?;
    let interval = match (next.low, next.high) {
        (Some(low), Some(high)) => {
            format!(", [{}, {}]", number::factor(low), number::factor(high))
        }
        _ => String::new(),
    };
    Some(format!(
        "{} at {}/s ({} ×{interval}); {} buys no more than that.",
        next.wall.words(),
        number::amount(throughput * next.ratio),
        number::factor(next.ratio),
        match verdict.wall {
            Wall::OfferedLoad => "a higher rate".to_owned(),
            Wall::Concurrency => "more in flight".to_owned(),
            wall => format!("lifting {} alone", wall.words()),
        },
    ))
}

/// Half the interval of throughput within the window: `0.4 %`.
pub fn interval(figures: &Figures) -> Option<String> {
    let (low, high) = figures.throughput_interval?;
    let middle = (high + low) / 2.0;
    let half = (high - low) / 2.0 / middle;
    (half.is_finite() && half > 0.0 && half < 1.0).then(|| number::share(half))
}

/// N/X beside the mean and the median: the check that needs no trust.
pub fn little(figures: &Figures) -> Option<String> {
    let little = figures.little?;
    let mut text = format!(
        "{} in flight / {}/s = {}; {} {}",
        number::amount(little.in_flight),
        number::amount(little.throughput),
        number::span(little.n_over_x_s * 1e9),
        mean(figures),
        number::span(little.mean_s * 1e9)
    );
    if let Some(p50) = little.p50_s {
        text.push_str(&format!(", p50 {}", number::span(p50 * 1e9)));
    }
    if little.holds() {
        text.push_str(": they agree");
    } else {
        text.push_str(&format!(
            ": N / (X·R) is {}, and should be 1",
            number::factor(little.ratio)
        ));
    }
    Some(text)
}

/// What the mean beside N/X is a mean of.
pub fn mean(figures: &Figures) -> &'static str {
    if figures.of_service {
        "service mean"
    } else {
        "mean"
    }
}

/// Why there is no latency.
pub fn no_latency(step: &Step) -> &'static str {
    if step.driver.command.is_some() {
        "not known: the driver reported none"
    } else if step.counts.answered == 0 {
        "not known: there were no good answers"
    } else {
        "not known: its histogram was not kept"
    }
}

/// The class that failed most, with its count.
pub fn worst_class(step: &Step) -> Option<String> {
    step.counts
        .failed
        .iter()
        .filter(|(_, count)| **count > 0)
        .max_by_key(|(_, count)| **count)
        .map(|(class, count)| format!("{class} {}", number::whole(*count)))
}

/// Steps that differ in nothing but load, read as one ramp.
pub fn one_ramp(record: &Record) -> Option<Ramp> {
    let first = record.steps.first()?;
    let alike = |step: &Step| {
        step.target == first.target
            && step.driver.name == first.driver.name
            && step.load.method == first.load.method
            && step.load.body_bytes == first.load.body_bytes
            && step.load.arrival.is_open() == first.load.arrival.is_open()
    };
    (record.steps.len() > 1 && record.steps.iter().all(alike))
        .then(|| ramp::read(&record.steps, &record.environment))
}

/// Where more stops to help: `knee at 32 in flight`.
pub fn knee(knee: &Knee, by_rate: bool) -> String {
    let where_it_is = if knee.at_most {
        "knee at or below"
    } else {
        "knee at"
    };
    let unit = if by_rate { "/s" } else { " in flight" };
    format!("{where_it_is} {}{unit}", number::amount(knee.load))
}

/// A capital at the start, a full stop at the end.
pub(crate) fn capital_sentence(text: &str) -> String {
    sentence(&capital(text))
}

/// A noun with its count: `1 lane`, `4 lanes`.
pub(crate) fn counted(count: u64, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", number::whole(count))
}

/// Packets, whole or not: `1 packet`, `3.07 packets`.
pub(crate) fn packets(count: f64) -> String {
    let shown = number::amount(count);
    let plural = if shown == "1" { "" } else { "s" };
    format!("{shown} packet{plural}")
}

/// A load's pattern in time: `closed loop`, `10,000/s, evenly spaced`.
pub fn arrival(arrival: &Arrival) -> String {
    match arrival {
        Arrival::Closed { think } if think.0 == 0 => "closed loop".to_owned(),
        Arrival::Closed { think } => {
            format!("closed loop, {} pause", number::length(think.0))
        }
        Arrival::Constant { rate } => {
            format!("open loop, {}/s evenly spaced", number::amount(rate.0))
        }
        Arrival::Poisson { rate } => {
            format!("open loop, {}/s at random", number::amount(rate.0))
        }
        Arrival::Ramp { from, to, over } => format!(
            "open loop, {}/s growing to {}/s in {}",
            number::amount(from.0),
            number::amount(to.0),
            number::length(over.0)
        ),
    }
}

/// The rate that a load asks for at its end, where it asks for one.
pub fn rate_asked(arrival: &Arrival) -> Option<f64> {
    match arrival {
        Arrival::Closed { .. } => None,
        Arrival::Constant { rate } | Arrival::Poisson { rate } => Some(rate.0),
        Arrival::Ramp { to, .. } => Some(to.0),
    }
}

/// A load in one line.
pub fn load(load: &Load) -> String {
    let mut parts = vec![counted(u64::from(load.connections), "connection")];
    if load.in_flight_per_connection > 1 {
        parts[0].push_str(&format!(
            " × {} in flight",
            number::whole(u64::from(load.in_flight_per_connection))
        ));
    }
    if load.connection_per_request {
        parts.push("a new connection for each request".to_owned());
    }
    parts.push(arrival(&load.arrival));
    parts.push(match load.stop.requests {
        Some(requests) => format!(
            "{} requests, at most {}",
            number::whole(requests),
            number::length(load.stop.after.0)
        ),
        None => number::length(load.stop.after.0),
    });
    if load.warmup.0 > 0 {
        parts.push(format!("{} warm-up", number::length(load.warmup.0)));
    }
    parts.join(" · ")
}

/// Who drove the load: `3 lanes on io_uring`, `autocannon`.
pub fn driver(driver: &Driver, lanes: u32) -> String {
    if driver.command.is_some() {
        return driver.name.clone();
    }
    let io = driver
        .io
        .as_deref()
        .map(|io| format!(" on {io}"))
        .unwrap_or_default();
    format!("{}{io}", counted(u64::from(lanes), "lane"))
}

/// Where the throughput of a foreign driver's step comes from.
pub fn throughput_from(driver: &Driver) -> Option<&'static str> {
    match driver.throughput_from.as_str() {
        "report" => Some("as the driver reports it"),
        "wire" => Some("counted on the wire"),
        _ => None,
    }
}
