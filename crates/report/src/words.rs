//! Walls, loads and figures in words.
//!
//! Every renderer uses these words, so that the terminal and the page never disagree.
//! Sentences of verdicts and doubts have a module of their own: [`said`].

use wallfinder_judge::identity;
use wallfinder_judge::proof::{Prediction, Untold, untold, what_if};
use wallfinder_judge::ramp::{self, Knee, PastKnee, Ramp};
use wallfinder_model::experiment::{Condition, Squeeze};
use wallfinder_model::plan::{Arrival, Decode, Load, Tls};
use wallfinder_model::record::{Driver, Handshakes, Outcome, Ratio, ThroughputFrom, WorkerSummary};
use wallfinder_model::verdict::{How, Verdict};
use wallfinder_model::{Detail, Record, Step, Wall};

use crate::figures::Figures;
use crate::{number, said, squeezed};

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

/// With a small letter at the start.
pub(crate) fn lower(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
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
    match (verdict.how, rounds(verdict)) {
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

/// Rounds that tell of the wall: of its own squeezes and, where it has none, of the one that has most. `None`
/// where nothing was squeezed.
fn rounds(verdict: &Verdict) -> Option<u32> {
    let squeezed = match verdict.wall {
        Wall::ServerSerial => Wall::ServerCpu,
        wall => wall,
    };
    let own = Squeeze::ALL.into_iter().filter(|it| it.wall() == squeezed);
    let own = own.filter_map(|squeeze| verdict.elasticities.get(squeeze.label()));
    let most = own.map(|elasticity| elasticity.rounds).max();
    let of_any = || verdict.elasticities.values().map(|it| it.rounds).max();
    most.or_else(of_any).filter(|rounds| *rounds > 0)
}

/// The same, with the time that the experiment took: `proved · 10 rounds · 4 min 05 s`.
pub fn standing_of(step: &Step) -> Option<String> {
    let mut text = standing(step.verdict.as_ref()?);
    if let Some(experiment) = &step.experiment {
        let restarts = experiment.windows.iter().map(|window| window.restart).max();
        if let Some(restarts @ 1..) = restarts {
            text.push_str(&format!(" · {} starts", u64::from(restarts) + 1));
        }
        let length = squeezed::length_ns(experiment);
        if length > 0 {
            text.push_str(&format!(" · {}", number::rough(length)));
        }
    }
    Some(text)
}

/// A squeeze as tables name it: `server-speed` reads `server speed`.
pub fn squeeze(name: &str) -> String {
    match name {
        "in-flight" | "inflight" => "in-flight".to_owned(),
        _ => name.replace(['-', '_'], " ").replace("cpu", "CPU"),
    }
}

/// Several squeezes as a sentence lists them: `server speed, downlink and uplink`.
pub fn squeezes(squeezes: &[Squeeze]) -> String {
    let names: Vec<String> = squeezes.iter().map(|it| squeeze(it.label())).collect();
    match &names[..] {
        [] => String::new(),
        [one] => one.clone(),
        [firsts @ .., last] => format!("{} and {last}", firsts.join(", ")),
    }
}

/// What a condition squeezes: `downlink squeezed by 20 %`.
pub fn condition(condition: &Condition) -> String {
    let all: Vec<Squeeze> = condition.squeezes().collect();
    let retained = condition.retained;
    match all[..] {
        [] => "nothing squeezed".to_owned(),
        [Squeeze::MoreInFlight] => format!("{} more in flight", number::share(retained - 1.0)),
        [Squeeze::MoreClients] => "client hosts rest in turns".to_owned(),
        _ => format!(
            "{} squeezed by {}",
            squeezes(&all),
            number::share(1.0 - retained)
        ),
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

/// Claims that nothing measured decides.
pub const BY_FIGURES: &str = "by its own figures, nothing measured: ";

/// What a client wall means for the number.
pub const CLIENT_WALL: &str =
    "This throughput is the load generator's own: the server can do at least as much.";

/// Whether more client machines would carry more, where they rested in turns: `More client machines would carry no more.`
pub fn more_clients(verdict: &Verdict) -> Option<String> {
    /// From here, and up to here, it is certain either way.
    const ENDS: (f64, f64) = (0.5, 0.2);
    let answer = verdict.elasticities.get(Squeeze::MoreClients.label())?;
    let (low, high) = ENDS;
    if answer.low >= low {
        Some("More client machines would carry more.".to_owned())
    } else {
        (answer.high < high).then(|| "More client machines would carry no more.".to_owned())
    }
}

/// The wall after this one: `the server's CPU at 74,000/s (2.63 × [2.55, 2.71]); lifting the
/// downlink alone buys at most 2.71 ×.`
pub fn next(verdict: &Verdict, throughput: f64) -> Option<String> {
    let next = verdict.next.as_ref()?;
    let ends = next.low.zip(next.high);
    let at = number::about(
        throughput * next.ratio,
        ends.map(|(low, high)| (throughput * low, throughput * high)),
    );
    let interval = match ends {
        Some((low, high)) => format!(" [{}, {}]", number::factor(low), number::factor(high)),
        None => ", by its demand per request".to_owned(),
    };
    let by_quota = is_held_by_quota(verdict);
    let lifting = match verdict.wall {
        _ if by_quota => "lifting the quota alone".to_owned(),
        Wall::OfferedLoad => "a higher rate".to_owned(),
        Wall::Concurrency => "more in flight".to_owned(),
        Wall::CoLimited => "lifting what binds now".to_owned(),
        wall => format!("lifting {} alone", wall.words()),
    };
    // Without an interval nothing says how much more it may be.
    let (most, bound) = match ends {
        Some((_, high)) => (high.max(next.ratio), "at most"),
        None => (next.ratio, "about"),
    };
    let buys = match most {
        most if !most.is_finite() => "no more than that".to_owned(),
        most if most < 1.5 => format!("{bound} {} more", number::share((most - 1.0).max(0.0))),
        most => format!("{bound} {} ×", number::factor(most)),
    };
    let wall = match by_quota && next.wall == verdict.wall {
        true => "the processors that the quota leaves idle",
        false => next.wall.words(),
    };
    Some(format!(
        "{wall} at {at}/s ({} ×{interval}); {lifting} buys {buys}.",
        number::factor(next.ratio),
    ))
}

/// Whether what binds is a quota on a side's processors, and not the processors.
fn is_held_by_quota(verdict: &Verdict) -> bool {
    let is_cpu = matches!(verdict.wall, Wall::ServerCpu | Wall::ClientCpu);
    is_cpu && matches!(verdict.detail, Some(Detail::Quota { .. }))
}

/// Squeezes that were out of reach and could have mattered, and what they would need:
/// `server speed and server capacity (nothing here reaches it)`.
pub fn missing(missing: &[(Vec<Squeeze>, String)]) -> Option<String> {
    let parts: Vec<String> = missing
        .iter()
        .map(|(squeezes, why)| {
            let names: Vec<String> = squeezes.iter().map(|s| squeeze(s.label())).collect();
            let why = why.trim_end_matches('.');
            match why.is_empty() {
                true => join(&names),
                false => format!("{} ({why})", join(&names)),
            }
        })
        .collect();
    (!parts.is_empty()).then(|| format!("out of reach here: {}.", parts.join("; ")))
}

/// `a, b and c`.
pub(crate) fn join(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A question of what if as it was asked, in words: `bytes=0.5` reads `half the bytes`.
pub fn question(asked: &str) -> String {
    let Some((name, factor)) = asked.split_once('=') else {
        return asked.to_owned();
    };
    if name == "link" {
        return format!("a link of {}", crate::safe::clean(factor));
    }
    let number = factor.trim().trim_end_matches(['x', '×']).parse::<f64>();
    let Some(factor) = number.ok().filter(|factor| factor.is_finite()) else {
        return asked.to_owned();
    };
    let times = times(factor);
    match name {
        "bytes" => format!("{times} the bytes"),
        "in-flight" => format!("{times} as much in flight"),
        "offered-load" => format!("{times} the offered load"),
        "server-capacity" => format!("{times} the server's CPU time"),
        "client-capacity" => format!("{times} the client's CPU time"),
        "cpu" | "server" | "server-speed" => format!("a server {times} as fast"),
        "client" | "client-speed" => format!("a client {times} as fast"),
        "backend-speed" => format!("a backend {times} as fast"),
        "downlink" => format!("a downlink {times} as fast"),
        "uplink" => format!("an uplink {times} as fast"),
        _ => asked.to_owned(),
    }
}

/// `half`, `twice`, `1.3 ×`.
fn times(factor: f64) -> String {
    match factor {
        0.5 => "half".to_owned(),
        2.0 => "twice".to_owned(),
        factor => format!("{} ×", number::amount(factor)),
    }
}

/// What is changed where other bytes are asked for and the link is what can be changed: of
/// `bytes=0.5`, `a link twice as fast in place of half the bytes`.
pub fn link_for_bytes(asked: &str) -> Option<String> {
    let factor = asked.strip_prefix("bytes=")?;
    let factor: f64 = factor.trim().trim_end_matches(['x', '×']).parse().ok()?;
    let link = times(1.0 / factor);
    Some(format!(
        "a link {link} as fast in place of {}",
        question(asked)
    ))
}

/// What is predicted: `56,000/s [54,000, 58,000]. The server's CPU then binds.`
pub fn prediction(prediction: &Prediction) -> String {
    let ends = (prediction.low, prediction.high);
    let known = ends.1 - ends.0 > prediction.throughput * 1e-3;
    let interval = if known {
        format!(
            " [{}, {}]",
            number::about(ends.0, Some(ends)),
            number::about(ends.1, Some(ends))
        )
    } else {
        String::new()
    };
    let bytes = match prediction.leaves_bytes_out {
        true => {
            " What a byte costs the processors is not known from answers of one size, and is left out: \
             `wallfinder bytes` measures it."
        }
        false => "",
    };
    format!(
        "{}/s{interval}. {}{bytes}",
        number::about(prediction.throughput, known.then_some(ends)),
        said::because(&prediction.because)
    )
}

/// Why nothing is predicted for a question as it was asked: `search=0.5`.
pub fn unpredicted(step: &Step, asked: &str) -> String {
    let name = asked.rsplit_once('=').map_or(asked, |(name, _)| name);
    match untold(step, name) {
        Some(Untold::Pooled { of }) => {
            format!("its cost is told only together with those of other rare ones, {of} in all.")
        }
        Some(Untold::RequestBytes) => {
            "the wall is the uplink, and the bytes of requests were not counted.".to_owned()
        }
        None => "there is nothing to predict it from.".to_owned(),
    }
}

/// A change that was predicted and then made.
#[derive(Debug, Clone, PartialEq)]
pub struct Lifted {
    /// As it was asked: `downlink=2`.
    pub question: String,
    /// Throughput before, from which it was predicted.
    pub present: f64,
    /// What was predicted, if anything was.
    pub predicted: Option<Prediction>,
    /// What was really changed, where that is not what was asked: `a link twice as fast in place of
    /// half the bytes`.
    pub by: Option<String>,
    /// Throughput with the change over that without, and the record of both; or why it was not
    /// made.
    pub measured: Result<(Ratio, String), String>,
}

/// The multiple that was predicted beside the one that was measured.
pub fn lifted(lifted: &Lifted) -> String {
    let multiple = |low: f64, value: f64, high: f64| format!("{value:.2} × [{low:.2}, {high:.2}]");
    let by = lifted.by.as_ref().map(|by| format!(" with {by}"));
    let predicted = match &lifted.predicted {
        Some(found) if lifted.present > 0.0 => {
            let of = |throughput: f64| throughput / lifted.present;
            format!(
                "predicted {}",
                multiple(of(found.low), of(found.throughput), of(found.high))
            )
        }
        _ => "nothing could be predicted".to_owned(),
    };
    match &lifted.measured {
        Ok((ratio, record)) => format!(
            "{predicted}; measured {}{}, over {} rounds ({record}).",
            multiple(ratio.low, ratio.ratio, ratio.high),
            by.unwrap_or_default(),
            ratio.rounds
        ),
        Err(why) => format!("{predicted}; not made: {why}."),
    }
}

/// What lifting the wall would be, as a question that the judge can answer: `bytes=0.5`.
pub fn natural_question(wall: Wall) -> Option<(&'static str, Vec<(Squeeze, f64)>)> {
    Some(match wall {
        Wall::Downlink | Wall::Uplink => (
            "bytes=0.5",
            vec![(Squeeze::Downlink, 2.0), (Squeeze::Uplink, 2.0)],
        ),
        Wall::ServerCpu | Wall::ServerSerial => {
            ("server-speed=2", vec![(Squeeze::ServerSpeed, 2.0)])
        }
        Wall::ClientCpu => ("client-speed=2", vec![(Squeeze::ClientSpeed, 2.0)]),
        Wall::Backend => ("backend-speed=2", vec![(Squeeze::BackendSpeed, 2.0)]),
        Wall::Concurrency => ("in-flight=2", vec![(Squeeze::InFlight, 2.0)]),
        Wall::OfferedLoad => ("offered-load=2", vec![(Squeeze::OfferedLoad, 2.0)]),
        Wall::Wait | Wall::CoLimited | Wall::Inconclusive => return None,
    })
}

/// A prediction of what doubling what binds would bring, where squeezes bear one. Of a quota the next wall
/// says it all: faster processors would stand as idle.
pub fn natural_what_if(step: &Step) -> Option<(String, String)> {
    let verdict = step.verdict.as_ref()?;
    if verdict.how < How::Likely || is_held_by_quota(verdict) {
        return None;
    }
    let (asked, changes) = natural_question(verdict.wall)?;
    let found = what_if(step, &changes)?;
    Some((question(asked), prediction(&found)))
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
    if little.agrees() {
        text.push_str(": they agree");
    } else {
        let factor = number::factor(little.ratio);
        text.push_str(&match little.holds() {
            true => format!(
                ": N / (X·R) is {factor}; requests under way at the window's edges, or failed, explain that"
            ),
            false => format!(": N / (X·R) is {factor}, and should be 1"),
        });
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

/// What answers did at the client before they were handled, where some had to wait: it is in their latency.
pub fn batching(step: &Step) -> Option<String> {
    let sum = |of: fn(&WorkerSummary) -> u64| {
        step.workers
            .iter()
            .map(|worker| of(worker) as f64)
            .sum::<f64>()
    };
    let waits = sum(|worker| worker.batching_waits);
    (waits > 0.0).then(|| {
        let longest = number::span(sum(|worker| worker.batching_ns) / waits);
        format!("answers that queue wait for one another, for up to {longest} (--no-batching: not at all)")
    })
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

/// How connections under TLS began: `16 full, 4,210 resumed`.
pub(crate) fn handshakes(handshakes: &Handshakes) -> String {
    format!(
        "{} full, {} resumed",
        number::whole(handshakes.full),
        number::whole(handshakes.resumed)
    )
}

/// The class that failed most, connections that could not be made among them, with its count.
pub fn worst_class(step: &Step) -> Option<String> {
    let counts = &step.counts;
    let class = identity::worst_class(counts)?;
    let maps = [&counts.failed, &counts.connect_failures];
    let of_class = maps.into_iter().filter_map(|map| map.get(class));
    let most = of_class.max().copied().unwrap_or(0);
    Some(format!("{class} {}", number::whole(most)))
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
    (record.steps.len() > 1 && record.steps.iter().all(alike)).then(|| ramp::read(&record.steps))
}

/// What more brought past the knee: `Past the knee: 5.0 × the in-flight only took 4.9 × the time, throughput
/// 1.01 ×.`
pub fn past_knee(past: &PastKnee) -> String {
    let what = if past.by_rate { "rate" } else { "in-flight" };
    let (load, time, throughput) = (past.load_ratio, past.time_ratio, past.throughput_ratio);
    match throughput < 0.9 {
        true => format!(
            "Past the knee: {load:.1} × the {what} took {time:.1} × the time and cost throughput, {throughput:.2} ×."
        ),
        false => format!(
            "Past the knee: {load:.1} × the {what} only took {time:.1} × the time, throughput {throughput:.2} ×."
        ),
    }
}

/// Where more stops to help: `knee at 32 in flight`.
pub fn knee(knee: &Knee, by_rate: bool) -> String {
    let where_it_is = if knee.at_most {
        "knee at or below"
    } else {
        "knee at"
    };
    let unit = if by_rate { "/s" } else { " in flight" };
    // It is read off a few steps: two figures.
    let load = if knee.load < 9.95 {
        format!("{:.1}", knee.load)
            .trim_end_matches(".0")
            .to_owned()
    } else {
        number::about(knee.load, None)
    };
    format!("{where_it_is} {load}{unit}")
}

/// A capital at the start, a full stop at the end.
pub(crate) fn capital_sentence(text: &str) -> String {
    sentence(&capital(text))
}

/// A noun with its count: `1 worker`, `4 workers`.
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

/// Processor time as a number of cores: `1 core`, `0.37 cores`.
pub(crate) fn cores(count: f64) -> String {
    let shown = number::cores(count);
    let plural = if shown == "1" { "" } else { "s" };
    format!("{shown} core{plural}")
}

/// Segments, whole or not: `1 segment`, `3.07 segments`.
pub(crate) fn segments(count: f64) -> String {
    let shown = number::amount(count);
    let plural = if shown == "1" { "" } else { "s" };
    format!("{shown} segment{plural}")
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
        Arrival::Replay {
            requests,
            over,
            speed,
            again,
        } => {
            let speed = match *speed == 1.0 {
                true => "as logged".to_owned(),
                false => format!("{} times as fast as logged", number::amount(*speed)),
            };
            let again = if *again { ", over and over" } else { "" };
            format!(
                "open loop, {} over {}, {speed}{again}",
                counted(*requests, "request"),
                number::length(over.0)
            )
        }
    }
}

/// The rate that a step was asked for, in words: `10,000 asked for`. Of a rate that grows it is the mean over
/// the window, beside the mean that was had.
pub fn asked(step: &Step) -> Option<String> {
    let rate = match step.load.arrival {
        Arrival::Ramp { .. } | Arrival::Replay { .. } if step.window_ns > 0 => {
            let mean = step.counts.scheduled as f64 * 1e9 / step.window_ns as f64;
            return Some(format!("{} asked for on average", number::amount(mean)));
        }
        ref arrival => rate_asked(arrival)?,
    };
    Some(format!("{} asked for", number::amount(rate)))
}

/// The rate that a load asks for at its end, where it asks for one.
pub fn rate_asked(arrival: &Arrival) -> Option<f64> {
    match arrival {
        Arrival::Closed { .. } | Arrival::Replay { .. } => None,
        Arrival::Constant { rate } | Arrival::Poisson { rate } => Some(rate.0),
        Arrival::Ramp { to, .. } => Some(to.0),
    }
}

/// `100 connections`, `100 connections × 8 in flight`, `500 connections, 50 in flight at most`.
pub fn connections(load: &Load) -> String {
    let mut text = counted(u64::from(load.connections), "connection");
    if load.in_flight_per_connection > 1 {
        text.push_str(&format!(
            " × {} in flight",
            number::whole(u64::from(load.in_flight_per_connection))
        ));
    }
    if let Some(bound) = load.max_in_flight {
        text.push_str(&format!(", {bound} in flight at most"));
    }
    text
}

/// `GET http://subject:8083/read (127.0.0.1:8083)`, and how it is encrypted.
pub fn target(step: &Step) -> String {
    let target = &step.target;
    let mut beside = Vec::new();
    if !target.url.contains(&target.address) {
        beside.push(target.address.clone());
    }
    beside.extend(target.tls.as_ref().map(tls));
    let beside = match beside.as_slice() {
        [] => String::new(),
        facts => format!(" ({})", facts.join(", ")),
    };
    format!("{} {}{beside}", step.load.method, target.url)
}

/// `TLSv1.3 TLS13_AES_256_GCM_SHA384 X25519 h2, not verified`.
fn tls(tls: &Tls) -> String {
    let mut words = vec![tls.version.as_str(), tls.cipher_suite.as_str()];
    words.extend(tls.group.as_deref());
    words.extend(tls.alpn.as_deref());
    let mut text = words.join(" ");
    for (said, word) in [
        (!tls.verified, "not verified"),
        (!tls.resumes, "never resumed"),
        (tls.client_certificate, "with a client certificate"),
    ] {
        if said {
            text.push_str(", ");
            text.push_str(word);
        }
    }
    text
}

/// Where both sides and the link are: `catalogue, 1 process on cpu 0 · client on cpu 1 · link
/// 1 Gbit/s, MTU 1500`.
pub fn place(record: &Record, step: &Step) -> String {
    let mut parts = Vec::new();
    let telemetry = &step.telemetry;
    let setting = step.experiment.as_ref().map(|e| &e.setting);
    let name = record.plan.subject.clone();
    match &telemetry.server {
        Some(server) => {
            let processes = match server.processes {
                1 => "1 process".to_owned(),
                n => format!("{} processes", number::whole(u64::from(n))),
            };
            let host = telemetry.server_host.as_ref();
            let host = host.map_or(String::new(), |host| format!(" of {}", host.name));
            let mut text = format!(
                "{}, {processes}{}{host}",
                name.unwrap_or_else(|| server.name.clone()),
                on_cpus(&server.cpus_allowed)
            );
            if let Some(cores) = server.quota_cores {
                text.push_str(&format!(", quota {} cores", number::amount(cores)));
            }
            parts.push(text);
        }
        None => parts.push(format!(
            "{} (not seen)",
            name.unwrap_or_else(|| "server".into())
        )),
    }
    let client = telemetry.client.as_ref().map(|c| c.cpus_allowed.as_slice());
    let client = match client {
        _ if !record.plan.client_cpus.is_empty() => &record.plan.client_cpus[..],
        Some(cpus) => cpus,
        None => setting.map_or(&[][..], |setting| &setting.client_cpus),
    };
    let host = telemetry.client_host.as_ref();
    parts.push(match (host, telemetry.client_hosts.len()) {
        (None, _) => format!("client{}", on_cpus(client)),
        (Some(host), 0) => format!("client{} of {}", on_cpus(client), host.name),
        (Some(host), _) => format!(
            "clients {} with {}",
            host.name,
            counted(client.len() as u64, "processor")
        ),
    });
    match &telemetry.link {
        Some(link) => {
            let rate = match link.rate_bits {
                Some(bits) => format!("link {}", number::bits(bits as f64)),
                None if link.interface == "lo" => "loopback".to_owned(),
                None => format!("link {}", link.interface),
            };
            let mtu = link.mtu.map(|mtu| format!(", MTU {mtu}"));
            let relay = telemetry.relay.as_ref();
            let delay = relay.map(|relay| {
                let delay = number::span(relay.delay_ns as f64);
                format!(", {delay} each way")
            });
            let (mtu, delay) = (mtu.unwrap_or_default(), delay.unwrap_or_default());
            parts.push(format!("{rate}{mtu}{delay}"));
        }
        None => {
            if let Some(bits) = setting.and_then(|setting| setting.downlink_bits) {
                parts.push(format!("link {}", number::bits(bits)));
            }
        }
    }
    parts.join(" · ")
}

/// ` on cpu 0`, ` on cpus 0-3`; nothing where it is not known.
fn on_cpus(cpus: &[u32]) -> String {
    match cpus {
        [] => String::new(),
        [one] => format!(" on cpu {one}"),
        [first, .., last] if last.saturating_sub(*first) as usize == cpus.len() - 1 => {
            format!(" on cpus {first}-{last}")
        }
        more => {
            let shown: Vec<String> = more.iter().take(8).map(u32::to_string).collect();
            let rest = if more.len() > 8 { ", …" } else { "" };
            format!(" on cpus {}{rest}", shown.join(", "))
        }
    }
}

/// A load in one line.
pub fn load(load: &Load) -> String {
    let mut parts = vec![connections(load)];
    if load.connection_per_request {
        parts.push("a new connection for each request".to_owned());
    }
    parts.extend(decode(load.decode).map(str::to_owned));
    if load.no_batching {
        parts.push("answers one by one".to_owned());
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

/// What the client decodes, if anything.
pub fn decode(decode: Decode) -> Option<&'static str> {
    match decode {
        Decode::None => None,
        Decode::Check => Some("the first coded body of each connection decoded"),
        Decode::Inflate => Some("every body decoded"),
    }
}

/// Who drove the load: `3 workers on io_uring`, `autocannon`.
pub fn driver(driver: &Driver, workers: u32) -> String {
    if driver.command.is_some() {
        return driver.name.clone();
    }
    let io = driver
        .io
        .as_deref()
        .map(|io| format!(" on {io}"))
        .unwrap_or_default();
    format!("{}{io}", counted(u64::from(workers), "worker"))
}

/// Where the throughput of a foreign driver's step comes from.
pub fn throughput_from(driver: &Driver) -> Option<&'static str> {
    match driver.throughput_from {
        ThroughputFrom::Engine => None,
        ThroughputFrom::Report => Some("as the driver reports it"),
        ThroughputFrom::Wire => Some("counted on the wire"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lift_says_what_was_changed_in_the_place_of_what() {
        let made = Lifted {
            question: "bytes=0.5".to_owned(),
            present: 1000.0,
            predicted: None,
            by: link_for_bytes("bytes=0.5"),
            measured: Ok((
                Ratio {
                    measure: "throughput".to_owned(),
                    a: 1000.0,
                    b: 1900.0,
                    ratio: 1.9,
                    low: 1.88,
                    high: 1.92,
                    rounds: 8,
                    differs: true,
                    pace_explained: None,
                },
                "runs/b".to_owned(),
            )),
        };
        assert_eq!(
            lifted(&made),
            "nothing could be predicted; measured 1.90 × [1.88, 1.92] with a link twice as fast in \
             place of half the bytes, over 8 rounds (runs/b)."
        );
        let as_asked = Lifted { by: None, ..made };
        assert!(lifted(&as_asked).contains("1.92], over 8 rounds"));
        assert_eq!(link_for_bytes("downlink=2"), None);
    }
}
