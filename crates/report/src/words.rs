//! Doubt, walls and loads in words, with what to do about them.
//!
//! The judge types a doubt ([`Caveat`]); here it is worded. Every renderer uses these
//! words, so that the terminal and the page never disagree.

use wallfinder_judge::ramp::{self, Knee, Ramp};
use wallfinder_model::plan::{Arrival, Load};
use wallfinder_model::record::{Driver, Outcome};
use wallfinder_model::verdict::{How, Verdict};
use wallfinder_model::{Caveat, Record, Step, Wall};

use crate::figures::Figures;
use crate::number;

/// A doubt in words: what is so, and what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worded {
    /// What is so, the number included.
    pub fact: String,
    /// What to do, where there is something to do.
    pub advice: Option<String>,
}

impl Worded {
    /// Both in one line.
    pub fn line(&self) -> String {
        match &self.advice {
            Some(advice) => format!("{} {advice}", self.fact),
            None => self.fact.clone(),
        }
    }
}

/// `the client's` or `the server's`; another side by its name.
fn whose(side: &str) -> String {
    format!("the {side}'s")
}

/// The side across.
fn other(side: &str) -> &'static str {
    match side {
        "client" => "server",
        "server" => "client",
        _ => "other side",
    }
}

fn list(cpus: &[u32]) -> String {
    let shown: Vec<String> = cpus.iter().take(8).map(u32::to_string).collect();
    let more = if cpus.len() > 8 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// A doubt in words.
pub fn caveat(caveat: &Caveat) -> Worded {
    let (fact, advice) = match caveat {
        Caveat::StealAbove { share } => (
            format!(
                "The hypervisor took {} of the processors.",
                number::share(*share)
            ),
            "Repeat on a quieter machine before comparing numbers.",
        ),
        Caveat::Errors { share, class } => (
            format!(
                "{} of the requests failed, most of them with {class}.",
                number::share(*share)
            ),
            "Throughput and latency are of good answers only; find the cause first.",
        ),
        Caveat::LanesLate { p999_ns } => (
            format!(
                "The lanes ran late against their own schedule: p99.9 of lateness is {}.",
                number::span(*p999_ns as f64)
            ),
            "Give them more processors (-t, --client-cpus) or ask for a lower rate.",
        ),
        Caveat::RateMissed { asked, sent } => (
            format!(
                "{} requests/s were asked for and {} were sent.",
                number::amount(*asked),
                number::amount(*sent)
            ),
            "The tail below is of the rate that was sent. Allow more connections or in-flight, or ask for less.",
        ),
        Caveat::LittleMismatch { ratio } => (
            format!(
                "In flight, throughput and latency do not fit each other: N / (X·R) is {} and should be 1.",
                number::factor(*ratio)
            ),
            "One of the three is not what it seems; trust none of them yet.",
        ),
        Caveat::NotSteady { ratio, at_ns } => (
            format!(
                "Throughput changed within the window, to {} × after {}.",
                number::factor(*ratio),
                number::span(*at_ns as f64)
            ),
            "Warm up longer (--warmup), or look at the intervals for what happened then.",
        ),
        Caveat::SharedProcessors { cpus } => (
            format!("Client and server shared processors ({}).", list(cpus)),
            "Keep them apart with --client-cpus and --server-cpus: each takes time from the other.",
        ),
        Caveat::Neighbour { side, cores } => (
            format!(
                "Others used {} cores of {} processors.",
                number::amount(*cores),
                whose(side)
            ),
            "Stop them, or pin this run elsewhere.",
        ),
        Caveat::SoftirqElsewhere { side, share } => (
            format!(
                "{} of {} processors went to receive work of the {}.",
                number::share(*share),
                whose(side),
                other(side)
            ),
            "On veth and loopback the sender's processor pays for it; on two machines it would not.",
        ),
        Caveat::ServerNotSeen { why } => (
            format!("The server's processes could not be seen: {why}"),
            "Name them with --server-pid or --server-cgroup.",
        ),
        Caveat::CountersUnavailable => (
            "Hardware counters (cycles, cache misses) are not available here.".to_owned(),
            "",
        ),
        Caveat::FewAnswers { answers } => (
            format!(
                "Only {} answers: the outer percentiles rest on a handful of values.",
                number::whole(*answers)
            ),
            "Measure longer (-d).",
        ),
        Caveat::WindowCut {
            planned_ns,
            actual_ns,
        } => (
            format!(
                "The window was {} long instead of {}.",
                number::span(*actual_ns as f64),
                number::length(*planned_ns)
            ),
            "",
        ),
        Caveat::Gap { gap_ns, at_ns } => (
            format!(
                "The machine or this process stood still for {} at {}.",
                number::span(*gap_ns as f64),
                number::span(*at_ns as f64)
            ),
            "Latencies around it are not the server's.",
        ),
        Caveat::ClockStepped { by_ns } => (
            format!(
                "The wall clock was stepped {} by {} during the run.",
                if *by_ns < 0 { "back" } else { "forward" },
                number::span(by_ns.unsigned_abs() as f64)
            ),
            "Durations are unaffected; timestamps are not comparable across it.",
        ),
        Caveat::Throttled { side, share } => (
            format!(
                "{} processor group was throttled in {} of its periods.",
                capital(&whose(side)),
                number::share(*share)
            ),
            "Its quota is the limit, not the processors: raise it, or read p99 with that in mind.",
        ),
        Caveat::DriverReportUnread { why } => (
            format!("The driver's own report was not understood: {why}"),
            "Throughput is counted on the wire instead; latency is not known.",
        ),
        Caveat::Incomplete { what } => (format!("The run did not end as planned: {what}"), ""),
        Caveat::BeyondHistogram { count } => (
            format!(
                "{} values lay beyond the histogram and are in no percentile.",
                number::whole(*count)
            ),
            "The maximum shown is the range's end.",
        ),
        Caveat::Anomaly { what, count } => (
            format!(
                "The peer did something odd that was survived: {what}, {} ×.",
                number::whole(*count)
            ),
            "",
        ),
        Caveat::Backlog { requests } => (
            format!(
                "{} requests were due and not sent when the window closed.",
                number::whole(*requests)
            ),
            "The target does not keep up with this rate; latency grows as long as it lasts.",
        ),
        Caveat::Note { text } => (text.clone(), ""),
    };
    Worded {
        fact: sentence(&fact),
        advice: (!advice.is_empty()).then(|| advice.to_owned()),
    }
}

/// With a full stop, unless it ends already.
fn sentence(text: &str) -> String {
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

/// Doubts that differ, in their first order.
pub fn distinct<'c>(caveats: impl IntoIterator<Item = &'c Caveat>) -> Vec<Worded> {
    let mut seen: Vec<Worded> = Vec::new();
    for one in caveats {
        let worded = caveat(one);
        if !worded.fact.is_empty() && !seen.contains(&worded) {
            seen.push(worded);
        }
    }
    seen
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
        _ => name.replace(['-', '_'], " "),
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
        "{} at {}/s ({} ×{interval}); lifting {} alone buys no more than that.",
        next.wall.words(),
        number::amount(throughput * next.ratio),
        number::factor(next.ratio),
        verdict.wall.words(),
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
        "{} in flight / {}/s = {}; mean {}",
        number::amount(little.in_flight),
        number::amount(little.throughput),
        number::span(little.n_over_x_s * 1e9),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubts_are_sentences_with_advice() {
        let worded = caveat(&Caveat::SoftirqElsewhere {
            side: "client".into(),
            share: 0.14,
        });
        assert_eq!(
            worded.fact,
            "14 % of the client's processors went to receive work of the server."
        );
        assert!(worded.advice.is_some());
        let worded = caveat(&Caveat::Throttled {
            side: "server".into(),
            share: 0.5,
        });
        assert!(worded.fact.starts_with("The server's processor group"));
        let note = caveat(&Caveat::Note {
            text: "Short".into(),
        });
        assert_eq!(note.line(), "Short.");
    }

    #[test]
    fn the_same_doubt_is_said_once() {
        let twice = [Caveat::CountersUnavailable, Caveat::CountersUnavailable];
        assert_eq!(distinct(&twice).len(), 1);
    }
}
