//! The decision: the table of the method, in its order, with intervals and not points.
//!
//! ```text
//!  gates that leave nothing ─► offered load ─► concurrency ─► claims: none ─► wait, shares,
//!                                                              │              or telemetry
//!                                                    one ──────┤
//!                                                              └ several: a kink, or shares
//! ```
//!
//! Elasticities to all rates sum to 1 where throughput is smooth. Where several read near 1
//! the sum says that throughput stands at a kink; then the gaps tell the first wall from the
//! next, and where they cannot, the resources are co-limited.

use std::collections::BTreeMap;

use wallfinder_model::experiment::{Effort, Squeeze};
use wallfinder_model::verdict::How;
use wallfinder_model::{Caveat, Wall};

use super::claims::{Case, Claim, squeezes_of};
use super::estimate::{ALPHA, Estimate};
use super::gates::note;
use super::readings::{Answer, HALF_WIDTH_MAX, ROUNDS_PROVED, Reading, SHARE_MIN, WALL_MIN};
use super::say;
use crate::words::{percent, rate, trimmed};

/// Claims whose sum is certainly above this stand at a kink.
const SUM_SMOOTH: f64 = 1.1;
/// Ceilings nearer than this, in ln of throughput, are one ceiling for any use.
const GAP_MIN: f64 = 0.02;
/// Error in saying that one ceiling lies behind another. It is asked at several looks.
pub(super) const ALPHA_BEHIND: f64 = 0.01;
/// Use below which telemetry bears a wait out.
const IDLE: f64 = 0.85;
/// Squeezes share their shams, so that their sum is less certain than if they did not.
const SHARED_SHAMS: f64 = 1.15;

/// What is concluded.
pub(super) struct Decision {
    pub(super) wall: Wall,
    pub(super) how: How,
    pub(super) sentence: String,
    pub(super) detail: Option<String>,
    pub(super) shares: BTreeMap<String, f64>,
    pub(super) caveats: Vec<Caveat>,
}

impl Decision {
    fn new(wall: Wall, how: How, sentence: String) -> Decision {
        Decision {
            wall,
            how,
            sentence,
            detail: None,
            shares: BTreeMap::new(),
            caveats: Vec::new(),
        }
    }

    fn inconclusive(sentence: String) -> Decision {
        Decision::new(Wall::Inconclusive, How::Inconclusive, sentence)
    }

    fn with_detail(mut self, detail: Option<String>) -> Decision {
        self.detail = detail;
        self
    }
}

/// The first row of the table that holds.
pub(super) fn decide(case: &Case) -> Decision {
    gated(case)
        .or_else(|| restarts(case))
        .or_else(|| offered_load(case))
        .or_else(|| concurrency(case))
        .or_else(|| phases(case))
        .or_else(|| claimed(case))
        .or_else(|| wait(case))
        .or_else(|| shares(case))
        .or_else(|| fallback(case))
        .unwrap_or_else(|| undecided(case))
}

fn gated(case: &Case) -> Option<Decision> {
    if let Some(failed) = case.gates.fatal() {
        return Some(Decision::inconclusive(format!(
            "Not decided: {}.",
            failed.words
        )));
    }
    case.readings.iter().next().is_none().then(|| {
        let why = case.experiment.cut_short.as_ref();
        Decision::inconclusive(match why {
            Some(why) => {
                format!("Not decided: the experiment ended before any squeeze told: {why}.")
            }
            None => "Not decided: no squeeze was in force in any window.".to_owned(),
        })
    })
}

fn restarts(case: &Case) -> Option<Decision> {
    let one = case
        .readings
        .iter()
        .find(|reading| reading.restarts_disagree())?;
    Some(Decision::inconclusive(format!(
        "Not decided: starts of the server disagree about {}.",
        say::what(one.squeeze)
    )))
}

/// Proved, or only likely, and why only likely.
fn how(case: &Case, sure: bool, rounds: u32) -> How {
    let proved = sure
        && case.experiment.effort != Effort::Quick
        && rounds >= ROUNDS_PROVED
        && case.gates.pass();
    if proved { How::Proved } else { How::Likely }
}

fn offered_load(case: &Case) -> Option<Decision> {
    let reading = case
        .get(Squeeze::OfferedLoad)
        .filter(|reading| reading.names())?;
    let sure = reading.answer() == Answer::Surely && !reading.bent;
    let sentence = format!(
        "The offered load: {}; {}.",
        lower(&say::moved(reading)),
        say::rest(case, &[Squeeze::OfferedLoad])
    );
    Some(Decision::new(
        Wall::OfferedLoad,
        how(case, sure, reading.local.rounds),
        sentence,
    ))
}

fn concurrency(case: &Case) -> Option<Decision> {
    if case.experiment.setting.open_loop {
        return None;
    }
    let reading = case
        .readings
        .in_flight()
        .filter(|reading| reading.names())?;
    if !reading.clearly() && parts(case).len() >= 2 {
        return None;
    }
    let sentence = format!(
        "Too little in flight: {}; more in flight would carry more.",
        lower(&say::moved(reading))
    );
    let sure = reading.answer() == Answer::Surely;
    let decision = Decision::new(
        Wall::Concurrency,
        how(case, sure, reading.local.rounds),
        sentence,
    );
    Some(decision.with_detail(in_flight_detail(case)))
}

/// What holds the number in flight down, or where the time of a request goes.
fn in_flight_detail(case: &Case) -> Option<String> {
    let step = case.step;
    let (fewer, pause) = (case.get(Squeeze::InFlight), case.get(Squeeze::ThinkTime));
    if fewer.is_some_and(Reading::slack) && pause.is_some_and(Reading::names) {
        return Some(
            "a pool on the client's side: fewer connections cost nothing, a pause before each request does"
                .to_owned(),
        );
    }
    if case.observed.wall == Wall::Concurrency && case.observed.detail.is_some() {
        return case.observed.detail.clone();
    }
    let mean = |times: &Option<wallfinder_model::record::Histogram>| {
        times
            .as_ref()
            .map(|times| times.mean_ns)
            .filter(|mean| *mean > 0.0)
    };
    if let (Some(first), Some(whole)) = (mean(&step.first_byte), mean(&step.service))
        && first < 0.3 * whole
        && whole > 1e6
    {
        return Some(format!(
            "a limit per connection: {} of a request's time is that of its body",
            percent(1.0 - first / whole)
        ));
    }
    let parts: Vec<String> = [
        (Squeeze::ServerSpeed, "the server's CPU"),
        (Squeeze::ClientSpeed, "the load generator's CPU"),
        (Squeeze::Downlink, "the downlink"),
        (Squeeze::Uplink, "the uplink"),
        (Squeeze::BackendSpeed, "the backend"),
    ]
    .into_iter()
    .filter_map(|(squeeze, words)| Some((case.get(squeeze)?.local.value, words)))
    .filter(|(value, _)| *value >= 0.05)
    .map(|(value, words)| format!("{words} {}", percent(value.min(1.0))))
    .collect();
    let rest = residual(case)
        .map(|rest| rest.value)
        .filter(|rest| *rest >= 0.05);
    let rest =
        rest.map(|rest| format!("waiting that no squeeze reaches {}", percent(rest.min(1.0))));
    let parts: Vec<String> = parts.into_iter().chain(rest).collect();
    (!parts.is_empty()).then(|| format!("of a request's time: {}", parts.join(", ")))
}

/// Phases that alternate: the mean of two walls is neither.
fn phases(case: &Case) -> Option<Decision> {
    let alternate =
        case.observed.wall == Wall::CoLimited && case.observed.detail.as_deref() == Some("phases");
    if !alternate {
        return None;
    }
    let parts = parts(case);
    if parts.len() < 2 {
        return None;
    }
    let mut decision = co_limited(case, &parts, false);
    decision.sentence = format!("{} {}", case.observed.sentence, decision.sentence);
    Some(decision.with_detail(Some("phases".to_owned())))
}

fn claimed(case: &Case) -> Option<Decision> {
    let mut claims = case.claims();
    match claims.len() {
        0 => None,
        1 => claims
            .pop()
            .filter(|claim| claim.reading.clearly() || parts(case).len() < 2)
            .map(|claim| single(case, &claim, None)),
        _ => Some(several(case, claims)),
    }
}

/// One resource named; `behind`: another at the kink, that binds a little later.
fn single(case: &Case, claim: &Claim, behind: Option<(&Claim, Estimate)>) -> Decision {
    let reading = claim.reading;
    let tail = match behind {
        Some((next, gap)) => format!(
            "{} binds next, at {} times this throughput",
            next.wall.words(),
            trimmed(gap.value.max(0.0).exp(), 2)
        ),
        None => say::rest(case, squeezes_of(claim.wall)),
    };
    let sentence = format!("{}; {tail}.", say::moved(reading));
    // Bent and alone: something that was not squeezed binds before it.
    let first = !reading.bent || behind.is_some();
    let sure = claim.sure && reading.confirmed() && first;
    let mut decision = Decision::new(claim.wall, how(case, sure, reading.local.rounds), sentence)
        .with_detail(claim.detail.clone());
    if reading.disagree {
        decision.caveats.push(note(format!(
            "{} moves throughput more at the small dose than at the large one: the doses disagree.",
            reading.squeeze.label()
        )));
    }
    if !first {
        decision.caveats.push(note(format!(
            "At a small dose {} moves throughput less than at a large one: something that was not squeezed binds just before it.",
            reading.squeeze.label()
        )));
    }
    decision
}

/// Two or more near 1: a kink. The first wall has no gap; who has one is next.
fn several(case: &Case, mut claims: Vec<Claim>) -> Decision {
    let sum = sum(claims.iter().map(|claim| claim.reading.local));
    if sum.is_some_and(|sum| sum.interval(ALPHA).0 <= SUM_SMOOTH) {
        let mut parts = parts(case);
        if parts.len() < 2 {
            parts = claims
                .iter()
                .map(|claim| (claim.wall, claim.reading.local.value))
                .collect();
        }
        return co_limited(case, &parts, false);
    }
    claims.sort_by(|a, b| a.reading.gap.value.total_cmp(&b.reading.gap.value));
    let first = &claims[0];
    let apart: Vec<Estimate> = claims[1..]
        .iter()
        .map(|claim| behind(first.reading, claim.reading))
        .collect();
    let near: Vec<(Wall, f64)> = claims
        .iter()
        .take(1)
        .chain(
            claims[1..]
                .iter()
                .zip(&apart)
                .filter(|(_, gap)| !is_behind(gap))
                .map(|(claim, _)| claim),
        )
        .map(|claim| (claim.wall, claim.reading.local.value))
        .collect();
    if near.len() >= 2 {
        return co_limited(case, &near, true);
    }
    single(case, first, Some((&claims[1], apart[0])))
}

/// How far one ceiling lies behind another, in ln of throughput. A wall that answers more
/// than its dose has a gap below 0, and is no more the wall for that.
pub(super) fn behind(first: &Reading, other: &Reading) -> Estimate {
    let zero = Estimate {
        value: first.gap.value.max(0.0),
        ..first.gap
    };
    other.gap.minus(zero)
}

/// Whether a ceiling certainly lies behind, and by enough to matter.
pub(super) fn is_behind(gap: &Estimate) -> bool {
    gap.value >= GAP_MIN && gap.interval(ALPHA_BEHIND).0 > 0.0
}

/// The sum of elasticities.
fn sum(estimates: impl Iterator<Item = Estimate>) -> Option<Estimate> {
    estimates
        .reduce(|a, b| a.minus(b.scaled(-1.0)))
        .map(|sum| Estimate {
            error: sum.error * SHARED_SHAMS,
            ..sum
        })
}

/// Walls and their elasticities, of those that certainly have a share.
fn parts(case: &Case) -> Vec<(Wall, f64)> {
    let stronger = |squeezes: &[Squeeze]| {
        squeezes
            .iter()
            .filter_map(|squeeze| case.get(*squeeze))
            .max_by(|a, b| a.local.value.total_cmp(&b.local.value))
    };
    let mut parts: Vec<(Wall, f64)> = [
        (
            Wall::ServerCpu,
            stronger(&[Squeeze::ServerSpeed, Squeeze::ServerCapacity]),
        ),
        (
            Wall::ClientCpu,
            stronger(&[Squeeze::ClientSpeed, Squeeze::ClientCapacity]),
        ),
        (Wall::Downlink, case.get(Squeeze::Downlink)),
        (Wall::Uplink, case.get(Squeeze::Uplink)),
        (Wall::Backend, case.get(Squeeze::BackendSpeed)),
    ]
    .into_iter()
    .filter_map(|(wall, reading)| Some((wall, reading.filter(|r| r.has_share())?.local.value)))
    .collect();
    let rest = residual(case).filter(|rest| rest.interval(ALPHA).0 >= SHARE_MIN);
    if let Some(rest) = rest {
        let moved = case.readings.in_flight().is_some_and(Reading::has_share);
        let wall = if moved { Wall::Concurrency } else { Wall::Wait };
        parts.push((wall, rest.value.min(1.0)));
    }
    parts
}

fn co_limited(case: &Case, parts: &[(Wall, f64)], kink: bool) -> Decision {
    let total: f64 = parts.iter().map(|(_, value)| value.max(0.0)).sum();
    let names: Vec<&str> = parts.iter().map(|(wall, _)| wall.words()).collect();
    let values: Vec<String> = parts
        .iter()
        .map(|(wall, value)| format!("{} {value:.2}", wall.words()))
        .collect();
    let rounds = case
        .readings
        .iter()
        .map(|reading| reading.local.rounds)
        .max()
        .unwrap_or(0);
    let sentence = if kink {
        format!(
            "{} bind at the same throughput: taking from any one of them costs it all, and widening one alone gains next to nothing.",
            crate::words::capital(&say::join(&names))
        )
    } else {
        format!("More than one resource at once: {}.", say::join(&values))
    };
    let mut decision = Decision::new(Wall::CoLimited, how(case, true, rounds), sentence);
    decision.detail = kink.then(|| {
        format!(
            "their ceilings coincide: elasticities sum to {}",
            trimmed(total, 1)
        )
    });
    decision.shares = parts
        .iter()
        .map(|(wall, value)| {
            let share = if total > 0.0 {
                value.max(0.0) / total
            } else {
                0.0
            };
            (wall.label().to_owned(), share)
        })
        .collect();
    decision
}

/// 1 - Σ over the rates: the share of what no squeeze reached. `None` where a squeeze that
/// it would need was out of reach.
pub(super) fn residual(case: &Case) -> Option<Estimate> {
    if !missing(case).is_empty() {
        return None;
    }
    let capacity = case.get(Squeeze::ServerCapacity);
    let server = case
        .get(Squeeze::ServerSpeed)
        .into_iter()
        .chain(capacity)
        .max_by(|a, b| a.local.value.total_cmp(&b.local.value));
    let others = [
        Squeeze::ClientSpeed,
        Squeeze::Downlink,
        Squeeze::Uplink,
        Squeeze::BackendSpeed,
        Squeeze::OfferedLoad,
    ];
    let all = server
        .into_iter()
        .chain(others.into_iter().filter_map(|s| case.get(s)));
    let sum = sum(all.map(|reading| reading.local))?;
    Some(Estimate {
        value: 1.0 - sum.value,
        ..sum
    })
}

/// Squeezes without which the rest cannot be told from what was not squeezed.
pub(super) fn missing(case: &Case) -> Vec<Squeeze> {
    let mut missing = Vec::new();
    let absent = |squeeze: Squeeze| case.get(squeeze).is_none();
    for squeeze in [Squeeze::ServerSpeed, Squeeze::ClientSpeed] {
        if absent(squeeze) {
            missing.push(squeeze);
        }
    }
    let link = case.step.telemetry.link.as_ref();
    let here = case.step.telemetry.server.is_some();
    for (squeeze, wall) in [
        (Squeeze::Downlink, Wall::Downlink),
        (Squeeze::Uplink, Wall::Uplink),
    ] {
        // Without a rate between two processes of one host there is no link to fill.
        let unlimited = here && link.is_none_or(|link| link.rate_bits.is_none());
        let idle = used(case, wall).is_some_and(|used| used < IDLE - 0.15);
        if absent(squeeze) && !unlimited && !idle {
            missing.push(squeeze);
        }
    }
    if case.experiment.setting.open_loop {
        if absent(Squeeze::OfferedLoad) {
            missing.push(Squeeze::OfferedLoad);
        }
    } else if case.readings.in_flight().is_none() {
        missing.push(Squeeze::InFlight);
    }
    missing
}

/// Use of a resource by telemetry.
fn used(case: &Case, wall: Wall) -> Option<f64> {
    let view = case
        .observed
        .resources
        .iter()
        .find(|view| view.wall == wall);
    view.map(|view| view.utilisation)
}

/// Nothing that was squeezed moves it, nor what is in flight: something inside waits.
fn wait(case: &Case) -> Option<Decision> {
    let rest = residual(case)?;
    let (low, _) = rest.interval(ALPHA);
    let held = match case.readings.in_flight() {
        Some(reading) => reading.slack(),
        None => case.experiment.setting.open_loop,
    };
    if low < WALL_MIN || !held || !idle(case) {
        return None;
    }
    let named = (case.observed.wall == Wall::Wait)
        .then(|| case.observed.detail.clone())
        .flatten();
    let most = rate(case.step.throughput);
    let sentence = format!(
        "A wait: slowing either side, the link or the number in flight moves nothing, so something inside holds it at {most}/s while both sides have time left."
    );
    let rounds = case
        .readings
        .iter()
        .map(|reading| reading.local.rounds)
        .min()
        .unwrap_or(0);
    let sure = rest.p_above(WALL_MIN) < super::estimate::level(rounds);
    let decision = Decision::new(Wall::Wait, how(case, sure, rounds), sentence);
    Some(decision.with_detail(Some(named.unwrap_or_else(|| {
        "a wait that no squeeze reaches: a pool, a limiter, a sleeping lock or a timer".to_owned()
    }))))
}

/// Telemetry shows time left on both sides and on the link.
fn idle(case: &Case) -> bool {
    let below = |wall: Wall, most: f64| used(case, wall).map(|used| used < most);
    below(Wall::ServerCpu, IDLE) == Some(true)
        && below(Wall::ClientCpu, IDLE) == Some(true)
        && [Wall::Downlink, Wall::Uplink, Wall::ServerSerial]
            .into_iter()
            .all(|wall| below(wall, IDLE + 0.05).unwrap_or(true))
}

/// Two or more with a share, none with a half.
fn shares(case: &Case) -> Option<Decision> {
    let parts = parts(case);
    (parts.len() >= 2).then(|| co_limited(case, &parts, false))
}

/// Squeezes that would tell were out of reach: what telemetry says, where the squeezes that
/// were in reach do not speak against it.
fn fallback(case: &Case) -> Option<Decision> {
    let missing = missing(case);
    let first = missing.first()?;
    let why = case
        .experiment
        .out_of_reach
        .iter()
        .find(|out| missing.contains(&out.squeeze))
        .map(|out| format!("{} is out of reach: {}", out.squeeze.label(), out.why))
        .unwrap_or_else(|| format!("{} was not squeezed", first.label()));
    let not = say::not_these(&say::ruled_out(case));
    let observed = case.observed;
    let walls: Vec<Wall> = match observed.wall {
        Wall::CoLimited => Wall::ALL
            .into_iter()
            .filter(|wall| observed.shares.contains_key(wall.label()))
            .collect(),
        wall => vec![wall],
    };
    let against = walls.iter().find(|wall| {
        let squeezes = squeezes_of(**wall);
        let squeezed: Vec<&Reading> = squeezes
            .iter()
            .filter_map(|squeeze| case.get(*squeeze))
            .collect();
        !squeezed.is_empty() && squeezed.iter().all(|reading| reading.slack())
    });
    let begin = not.map_or(String::new(), |not| {
        format!("{not}: squeezing them moves nothing. ")
    });
    if observed.wall == Wall::Inconclusive || against.is_some() {
        let end = match against {
            Some(wall) => format!(
                "telemetry alone would say {}, which a squeeze rules out, and {why}",
                wall.words()
            ),
            None => why.clone(),
        };
        let decision = Decision::inconclusive(format!("{begin}Not decided: {end}."));
        return Some(decision.with_detail(Some(why)));
    }
    let sentence = format!("{begin}By telemetry: {}", observed.sentence);
    let mut decision = Decision::new(observed.wall, How::Observed, sentence);
    decision.shares = observed.shares.clone();
    decision.detail = observed.detail.clone().or(Some(why.clone()));
    decision.caveats.push(note(format!("Not proved: {why}.")));
    Some(decision)
}

/// Why nothing was decided.
fn undecided(case: &Case) -> Decision {
    let not = say::not_these(&say::ruled_out(case));
    let begin = not.map_or(String::new(), |not| format!("{not}. "));
    Decision::inconclusive(format!("{begin}Not decided: {}.", reason(case)))
}

fn reason(case: &Case) -> String {
    if let Some(why) = &case.experiment.cut_short {
        return format!("the experiment was cut short: {why}");
    }
    let readings = case.readings;
    if let Some(reading) = readings.iter().find(|reading| reading.disagree) {
        return format!("the doses of {} disagree", reading.squeeze.label());
    }
    let wide = readings
        .iter()
        .filter(|reading| {
            reading.answer() == Answer::Open || reading.local.half_width() > HALF_WIDTH_MAX
        })
        .max_by(|a, b| a.local.half_width().total_cmp(&b.local.half_width()));
    if let Some(reading) = wide {
        let (low, high) = reading.interval();
        return format!(
            "the elasticity to {} is only known to lie between {low:.2} and {high:.2} after {} rounds",
            reading.squeeze.label(),
            reading.local.rounds
        );
    }
    let speed = case.get(Squeeze::ServerSpeed);
    let capacity = case.get(Squeeze::ServerCapacity);
    if capacity.is_some_and(Reading::names) && speed.is_some_and(Reading::slack) {
        return "the server answers a quota and not slower processors, and has no quota of its own: something beside the requests uses its processor time".to_owned();
    }
    if readings.iter().all(Reading::slack) {
        return if idle(case) {
            "nothing that was squeezed moves the throughput, and what is left is not known well enough to call it a wait".to_owned()
        } else {
            "nothing that was squeezed moves the throughput, and telemetry does not show both sides waiting".to_owned()
        };
    }
    let most = readings
        .iter()
        .max_by(|a, b| a.local.value.total_cmp(&b.local.value));
    match most {
        Some(reading) => format!(
            "{} moves the throughput most, by {:.2} of its dose, and that is not enough to be the wall",
            reading.squeeze.label(),
            reading.local.value
        ),
        None => "no squeeze was in force".to_owned(),
    }
}

fn lower(text: &str) -> String {
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}
