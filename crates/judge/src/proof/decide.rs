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

use wallfinder_model::detail::ClientHold;
use wallfinder_model::experiment::{Effort, Squeeze, Takes};
use wallfinder_model::reason::{Doubt, Open};
use wallfinder_model::verdict::How;
use wallfinder_model::{Caveat, Detail, Reason, Wall};

use super::alone::{self, AtOnce};
use super::claims::{Case, Claim, squeezes_of};
use super::estimate::{ALPHA, Estimate, level};
use super::readings::{Answer, ROUNDS_PROVED, Reading, WALL_MIN};
use super::shares::{self, Part, idle, parts, residual};
use super::{fallback, in_flight, looks, readings, say, windows};
use crate::finite::{known, median};
use crate::{caveats, clients, way};

/// Claims whose sum is certainly above this stand at a kink.
const SUM_SMOOTH: f64 = 1.1;
/// Claims whose sum may be above this may stand at one.
const SUM_KINK: f64 = 1.5;
/// Ceilings nearer than this, in ln of throughput, are one ceiling for any use.
const GAP_MIN: f64 = 0.02;
/// Ceilings that may be farther apart than this are not known to be one.
const GAP_MAX: f64 = 0.1;
/// Error in saying that one ceiling lies behind another. It is asked at several looks.
pub(super) const ALPHA_BEHIND: f64 = 0.01;
/// A quota that ends this share of its periods early holds up what comes in bursts.
const THROTTLED_MIN: f64 = 0.05;

/// What is concluded.
pub(super) struct Decision {
    pub(super) wall: Wall,
    pub(super) how: How,
    pub(super) reason: Reason,
    pub(super) detail: Option<Detail>,
    pub(super) shares: BTreeMap<String, f64>,
    pub(super) caveats: Vec<Caveat>,
}

impl Decision {
    pub(super) fn new(wall: Wall, how: How, reason: Reason) -> Decision {
        Decision {
            wall,
            how,
            reason,
            detail: None,
            shares: BTreeMap::new(),
            caveats: Vec::new(),
        }
    }

    pub(super) fn inconclusive(reason: Reason) -> Decision {
        Decision::new(Wall::Inconclusive, How::Inconclusive, reason)
    }

    pub(super) fn with_detail(mut self, detail: Option<Detail>) -> Decision {
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
        .or_else(|| behind_alone(case))
        .or_else(|| held_per_connection(case))
        .or_else(|| between_hosts(case))
        .or_else(|| held_per_client(case))
        .or_else(|| wait(case))
        .or_else(|| shared(case))
        .or_else(|| queued(case))
        .or_else(|| fallback::client_pool(case))
        .or_else(|| fallback::observed(case))
        .unwrap_or_else(|| fallback::undecided(case))
}

fn gated(case: &Case) -> Option<Decision> {
    if let Some(gate) = case.gates.fatal() {
        let gate = gate.clone();
        return Some(Decision::inconclusive(Reason::GateFailed { gate }));
    }
    case.readings.iter().next().is_none().then(|| {
        let why = case.experiment.cut_short.clone();
        Decision::inconclusive(match why {
            Some(why) => Reason::EndedEarly { why },
            None => Reason::NothingInForce,
        })
    })
}

fn restarts(case: &Case) -> Option<Decision> {
    // What is in flight is told by one squeeze; the others of it only bear that out.
    let in_flight = case.readings.in_flight().map(|reading| reading.squeeze);
    let decides = |reading: &&Reading| {
        reading.squeeze.takes() != Takes::InFlight || Some(reading.squeeze) == in_flight
    };
    let one = case
        .readings
        .iter()
        .filter(decides)
        .find(|reading| reading.restarts_disagree())?;
    let squeeze = one.squeeze;
    Some(Decision::inconclusive(Reason::StartsDisagree { squeeze }))
}

/// A wall that squeezes established: proved, or likely, and then why no more than that. What a gate
/// says is said already, and at quick effort nothing is proved. `least` is what is left of what it rests on
/// beside the most that nothing may have cost ([`beside_nothing`]).
fn established(
    case: &Case,
    wall: Wall,
    reason: Reason,
    doubt: Option<Doubt>,
    rounds: u32,
    least: Option<Least>,
) -> Decision {
    let few = (rounds < ROUNDS_PROVED).then_some(Doubt::FewRounds {
        rounds,
        needed: ROUNDS_PROVED,
    });
    let doubt = doubt.or(few);
    let quick = case.experiment.effort == Effort::Quick;
    if doubt.is_none() && !quick {
        let outweighs = least.and_then(|least| outweighs_nothing(case, least));
        if case.gates.pass() || outweighs.is_some() {
            let mut decision = Decision::new(wall, How::Proved, reason);
            decision.caveats.extend(outweighs);
            return decision;
        }
    }
    let mut decision = Decision::new(wall, How::Likely, reason);
    let why = doubt.filter(|_| !quick);
    let said = why.map(|doubt| Caveat::LikelyOnly { doubt });
    decision.caveats.extend(said);
    decision
}

/// What is left of an elasticity beside the most that nothing may have cost, and of which squeeze it is.
#[derive(Clone, Copy)]
struct Least {
    squeeze: Option<Squeeze>,
    least: f64,
}

/// A reading beside nothing.
fn beside_nothing(case: &Case, reading: &Reading) -> Option<Least> {
    Some(Least {
        squeeze: Some(reading.squeeze),
        least: reading.least_beside(&case.gates.null?)?,
    })
}

/// On a machine that wanders the A/A interval is too wide to prove anything. What would be a wall
/// with the most that nothing may have cost taken from it is one all the same; where another gate fails too, none is.
fn outweighs_nothing(case: &Case, least: Least) -> Option<Caveat> {
    let Least { squeeze, least } = least;
    let is_enough = case.gates.only_null_is_wide() && least >= WALL_MIN;
    is_enough.then_some(Caveat::ProvedAllTheSame { squeeze, least })
}

fn offered_load(case: &Case) -> Option<Decision> {
    let reading = case
        .get(Squeeze::OfferedLoad)
        .filter(|reading| reading.names())?;
    // Where less comes through than is asked for, something else holds it, though a fifth less of
    // what is asked for costs some of it too.
    if !keeps_up(case) {
        return None;
    }
    let claims = case.claims();
    if let Some(full) = claims.iter().find(|claim| claim.reading.fills()) {
        let both = [Part::by(Wall::OfferedLoad, reading), Part::of(full)];
        return Some(co_limited(case, &both, true));
    }
    let bent = reading.bent.then_some(Doubt::Bent);
    let doubt = reading.doubt().or(bent);
    let doubt = doubt.or_else(|| reading.unconfirmed());
    let reason = Reason::Moved {
        wall: Wall::OfferedLoad,
        moved: say::moved(reading),
        rest: say::rest(case, &[Squeeze::OfferedLoad]),
    };
    let rounds = reading.rounds();
    let decision = established(
        case,
        Wall::OfferedLoad,
        reason,
        doubt,
        rounds,
        beside_nothing(case, reading),
    );
    Some(decision.with_detail(paid_in_latency(case)))
}

/// Less comes through than is asked for, and it is full client hosts alone that are behind. What is taken from all hosts
/// says little of that, for the others have room.
fn behind_alone(case: &Case) -> Option<Decision> {
    let open = case.experiment.setting.open_loop && !keeps_up(case);
    let full = clients::full(case.step).filter(|_| open)?;
    let is_wall = full.part >= 1.0 && case.observed.wall == Wall::ClientCpu;
    is_wall.then(|| {
        let reason = case.observed.reason.clone();
        let decision = Decision::new(Wall::ClientCpu, How::Observed, reason);
        decision.with_detail(Some(full.detail()))
    })
}

/// Whether what is asked for comes through, with nothing squeezed.
fn keeps_up(case: &Case) -> bool {
    const OF_ASKED_MIN: f64 = 0.97;
    let shams = windows::shams(case.experiment);
    let rates: Vec<f64> = shams.iter().map(|sham| sham.throughput).collect();
    let asked = caveats::asked_rate(case.step);
    let share = median(&rates).zip(asked).map(|(got, asked)| got / asked);
    share.is_none_or(|share| share >= OF_ASKED_MIN)
}

/// What holds bursts up where throughput keeps up with what is offered.
fn paid_in_latency(case: &Case) -> Option<Detail> {
    let family = case.step.telemetry.server.as_ref()?;
    let share = known(family.throttled_share).filter(|share| *share >= THROTTLED_MIN)?;
    Some(Detail::BurstsThrottled { share })
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
    // Of a pool the pause tells, but it also takes work of the load generator: where that is a
    // wall, it costs throughput without any pool.
    let by_pause = case.readings.by_a_pool().is_some();
    let claims = case.claims();
    if by_pause && claims.iter().any(|claim| claim.wall == Wall::ClientCpu) {
        return None;
    }
    let rounds = reading.rounds();
    if let Some(timer) = named_wait(case) {
        let reason = Reason::NamedWait {
            detail: timer.clone(),
            fewer: say::moved(reading),
        };
        // The squeeze says that time passes; what passes it is named by telemetry.
        return Some(Decision::new(Wall::Wait, How::Likely, reason).with_detail(Some(timer)));
    }
    if let Some(full) = claims.iter().find(|claim| claim.reading.fills()) {
        let near = [Part::of(full), Part::by(Wall::Concurrency, reading)];
        return Some(co_limited(case, &near, true));
    }
    let more = case.get(Squeeze::MoreInFlight);
    // Beside a pool on the client's side more connections are as idle as fewer.
    let fewer = reading.squeeze == Squeeze::InFlight;
    if let Some(more) = more.filter(|more| fewer && more.excluded()) {
        return Some(at_the_knee(case, reading, more));
    }
    if fewer && more.is_none() && never_rests(case) {
        return None;
    }
    let carried = more.filter(|more| more.has_share());
    let reason = Reason::TooLittleInFlight {
        fewer: say::moved(reading),
        more: carried.map(say::moved),
    };
    // Where more was tried, it must have carried more.
    let more = (fewer && more.is_some_and(|more| !more.has_share())).then_some(Doubt::MoreInVain);
    let doubt = reading.doubt().or(more);
    let decision = established(
        case,
        Wall::Concurrency,
        reason,
        doubt,
        rounds,
        beside_nothing(case, reading),
    );
    Some(decision.with_detail(in_flight::detail(case)))
}

/// Whether a thread of the server has no time left, where no squeeze can say what that means: it can carry
/// no more, and fewer in flight cost what it saves by taking several at once.
fn never_rests(case: &Case) -> bool {
    const NEVER: f64 = 0.97;
    let squeezes = [Squeeze::ServerSpeed, Squeeze::ServerCapacity];
    let server = case.step.telemetry.server.as_ref();
    let hottest = server.and_then(|server| server.hottest_thread.as_ref());
    squeezes.iter().all(|squeeze| case.get(*squeeze).is_none())
        && hottest.is_some_and(|thread| thread.share >= NEVER)
}

/// Less in flight costs throughput, and more brings none: what is in flight just fills
/// something, and that binds at the same throughput.
fn at_the_knee(case: &Case, fewer: &Reading, more: &Reading) -> Decision {
    let claims = case.claims();
    let full = claims
        .iter()
        .max_by(|a, b| a.reading.value().total_cmp(&b.reading.value()));
    let inside = Part {
        wall: Wall::Wait,
        value: fewer.value(),
        rounds: more.rounds(),
        sure: more.excluded(),
    };
    let filled = full.map_or(inside, Part::of);
    let mut decision = co_limited(case, &[Part::by(Wall::Concurrency, fewer), filled], true);
    decision.reason = Reason::JustFills {
        wall: filled.wall,
        fewer: say::moved(fewer),
        more: say::moved(more),
    };
    decision
}

/// A wait that telemetry can name: a delayed acknowledgement, a full accept queue.
fn named_wait(case: &Case) -> Option<Detail> {
    (case.observed.wall == Wall::Wait)
        .then(|| case.observed.detail.clone())
        .flatten()
}

/// Phases that alternate: the mean of two walls is neither.
fn phases(case: &Case) -> Option<Decision> {
    let Reason::Phases { parts: phases } = &case.observed.reason else {
        return None;
    };
    if case.observed.wall != Wall::CoLimited {
        return None;
    }
    let parts = parts(case);
    if parts.len() < 2 {
        return None;
    }
    let mut decision = co_limited(case, &parts, false);
    decision.reason = Reason::PhasesAndShares {
        phases: phases.clone(),
        parts: named(&parts),
    };
    Some(decision.with_detail(Some(Detail::Phases)))
}

fn claimed(case: &Case) -> Option<Decision> {
    let mut claims = case.claims();
    match claims.len() {
        0 => None,
        1 => claims
            .pop()
            .filter(|claim| stands_out(case, claim))
            .map(|claim| single(case, &claim, None)),
        _ => Some(several(case, claims)),
    }
}

/// Whether a claim is clear of the other shares: above a half, and certainly more than each.
fn stands_out(case: &Case, claim: &Claim) -> bool {
    let own = squeezes_of(claim.wall);
    let others: Vec<&Reading> = case
        .readings
        .iter()
        .filter(|reading| matches!(reading.squeeze.takes(), Takes::Speed | Takes::Capacity))
        .filter(|reading| !own.contains(&reading.squeeze))
        .filter(|reading| reading.has_share())
        .collect();
    let more = |other: &&Reading| {
        let apart = claim.reading.local.minus(other.local);
        apart.interval(ALPHA).0 > 0.0
    };
    others.iter().all(more) && (claim.reading.clearly() || parts(case).len() < 2)
}

/// One resource named; `behind`: another at the kink, that binds a little later.
fn single(case: &Case, claim: &Claim, behind: Option<(&Claim, Estimate)>) -> Decision {
    let reading = claim.reading;
    let moved = say::moved(reading);
    let reason = match behind {
        Some((next, gap)) => Reason::MovedFirst {
            moved,
            next: next.wall,
            ratio: gap.value.max(0.0).exp(),
        },
        None => Reason::Moved {
            wall: claim.wall,
            moved,
            rest: say::rest(case, &squeezes_of(claim.wall)),
        },
    };
    // Bent and alone: something that was not squeezed binds before it.
    let first = !reading.bent || behind.is_some();
    let squeeze = reading.squeeze;
    let doubt = if reading.disagree {
        Some(Doubt::DosesDisagree { squeeze })
    } else if !first {
        Some(Doubt::BentAlone { squeeze })
    } else {
        claim.doubt.clone().or_else(|| reading.unconfirmed())
    };
    let rounds = reading.rounds();
    established(
        case,
        claim.wall,
        reason,
        doubt,
        rounds,
        beside_nothing(case, reading),
    )
    .with_detail(claim.detail.clone())
}

/// Two or more near 1: a kink. The first wall has no gap; who has one is next.
fn several(case: &Case, mut claims: Vec<Claim>) -> Decision {
    claims.sort_by(|a, b| a.reading.gap.value.total_cmp(&b.reading.gap.value));
    let first = &claims[0];
    let apart: Vec<Estimate> = claims[1..]
        .iter()
        .map(|claim| behind(first.reading, claim.reading))
        .collect();
    let sum = shares::sum(claims.iter().map(|claim| claim.reading.local));
    let sum = sum.map(|sum| sum.interval(ALPHA));
    if let Some((_, most)) = sum.filter(|(least, _)| *least <= SUM_SMOOTH) {
        if most > SUM_KINK {
            return either_first(case, first, &claims[1], &apart[0]);
        }
        let mut parts = parts(case);
        if parts.len() < 2 {
            parts = claims.iter().map(Part::of).collect();
        }
        return co_limited(case, &parts, false);
    }
    let near: Vec<Part> = claims
        .iter()
        .take(1)
        .chain(
            claims[1..]
                .iter()
                .zip(&apart)
                .filter(|(_, gap)| !is_behind(gap))
                .map(|(claim, _)| claim),
        )
        .map(Part::of)
        .collect();
    if near.len() >= 2 {
        let may_lie_behind = |gap: &&Estimate| !is_behind(gap) && gap.interval(ALPHA).1 > GAP_MAX;
        let far = apart.iter().position(|gap| may_lie_behind(&gap));
        return match far {
            Some(at) => either_first(case, first, &claims[at + 1], &apart[at]),
            None => co_limited(case, &near, true),
        };
    }
    single(case, first, Some((&claims[1], apart[0])))
}

/// Two that each move throughput, of which the second's ceiling may be the same or well behind.
fn either_first(case: &Case, first: &Claim, second: &Claim, gap: &Estimate) -> Decision {
    let (low, high) = gap.interval(ALPHA);
    Decision::inconclusive(Reason::Undecided {
        ruled_out: say::ruled_out(case),
        why: Open::EitherFirst {
            first: first.wall,
            second: second.wall,
            low: low.exp(),
            high: high.exp(),
        },
    })
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

/// Nothing that was squeezed moves it, nor fewer in flight, and more connections carry more: each of them is
/// held to its part by a limit of the server's, such as one of streams.
fn held_per_connection(case: &Case) -> Option<Decision> {
    let more = case
        .get(Squeeze::MoreInFlight)
        .filter(|more| more.has_share())?;
    let rest = residual(case)?.interval(ALPHA);
    let fewer = case.get(Squeeze::InFlight).is_some_and(Reading::slack);
    if rest.0 < WALL_MIN || !fewer || !idle(case) {
        return None;
    }
    let rounds = more.local.rounds;
    let clear = more.local.p_above(WALL_MIN) < level(rounds, looks::first(case.experiment.effort));
    let doubt = (!clear).then_some(Doubt::BelowHalf);
    let reason = Reason::HeldPerConnection {
        more: say::moved(more),
    };
    let least = beside_nothing(case, more);
    let decision = established(case, Wall::Concurrency, reason, doubt, rounds, least);
    Some(decision.with_detail(in_flight::detail(case)))
}

/// Nothing that was squeezed moves it, nor fewer in flight, and fewer client hosts do: each of them is held to its part
/// by what is no processor of its own, such as its link, or a limit of the server's for an address.
fn held_per_client(case: &Case) -> Option<Decision> {
    let fewer = case
        .get(Squeeze::MoreClients)
        .filter(|reading| reading.names())?;
    let in_flight = case.readings.in_flight().is_none_or(Reading::slack);
    if residual(case)?.interval(ALPHA).0 < WALL_MIN || !in_flight || !idle(case) {
        return None;
    }
    let reason = Reason::HeldPerClient {
        fewer: say::moved(fewer),
    };
    let (doubt, rounds) = (fewer.doubt(), fewer.rounds());
    let least = beside_nothing(case, fewer);
    let decision = established(case, Wall::Wait, reason, doubt, rounds, least);
    // Where nobody saw how busy the way is, it may hold each of them as well.
    let is_way_seen = way::busy_share(case.step).is_some();
    let by = clients::hold(case.step).filter(|by| *by != ClientHold::Server || is_way_seen);
    Some(decision.with_detail(Some(Detail::HeldPerClient { by })))
}

/// Nothing that was squeezed moves it, and answers are on their way between two hosts: a link there that is neither's.
fn between_hosts(case: &Case) -> Option<Decision> {
    // A way that each client has for itself costs what rests of them.
    let mut others = case.readings.iter();
    if !others.all(|reading| reading.slack() || reading.squeeze == Squeeze::MoreClients) {
        return None;
    }
    let reason = way::taken_up(case.step, true)?;
    Some(Decision::new(Wall::Downlink, How::Observed, reason))
}

/// Nothing that was squeezed moves it, nor what is in flight: something inside waits.
fn wait(case: &Case) -> Option<Decision> {
    let is_elsewhere = case.experiment.setting.server_host.is_some();
    if is_elsewhere && way::busy_share(case.step).is_none() && case.get(Squeeze::Downlink).is_none()
    {
        // The link may hold it as well.
        return None;
    }
    let rest = residual(case)?;
    let (low, _) = rest.interval(ALPHA);
    let in_flight = [Squeeze::InFlight, Squeeze::ThinkTime].map(|squeeze| case.get(squeeze));
    let mut in_flight = in_flight.into_iter().flatten().peekable();
    let held = match in_flight.peek() {
        Some(_) => in_flight.all(Reading::slack),
        None => case.experiment.setting.open_loop,
    };
    if low < WALL_MIN || !held || !idle(case) {
        return None;
    }
    let named = named_wait(case).or_else(|| alone::at_once(case.step).map(AtOnce::detail));
    let reason = Reason::HeldInside {
        throughput: case.step.throughput,
    };
    let least = case.readings.iter().min_by_key(|r| r.rounds());
    let rounds = least.map_or(0, |reading| reading.rounds());
    let clear = rest.p_above(WALL_MIN) < level(rounds, looks::first(case.experiment.effort));
    let doubt = if !clear {
        Some(Doubt::WaitUnsure)
    } else if !shares::inert(case).is_empty() {
        Some(Doubt::Inert)
    } else {
        None
    };
    let few = least.filter(|_| rounds < ROUNDS_PROVED);
    let few = few.map(|reading| Doubt::FewRoundsOf {
        squeeze: reading.squeeze,
        rounds,
        needed: ROUNDS_PROVED,
    });
    let least = case.gates.null.as_ref().and_then(|null| {
        let dose = case.readings.bounding()?.effect.x.abs();
        readings::least_beside(low, dose, null)
    });
    let least = least.map(|least| Least {
        squeeze: None,
        least,
    });
    let decision = established(case, Wall::Wait, reason, doubt.or(few), rounds, least);
    let detail = named.unwrap_or(Detail::NoSqueezeReaches);
    Some(decision.with_detail(Some(detail)))
}

/// Two or more with a share, none with a half.
fn shared(case: &Case) -> Option<Decision> {
    let parts = parts(case);
    (parts.len() >= 2).then(|| co_limited(case, &parts, false))
}

/// Nothing that was squeezed moves it, and what is in flight moves it a little: stations inside
/// that are neither always busy nor never queued at. Of K alike with N in flight the next
/// request brings (K - 1) / (N + K - 1) of its share, and the stations hold the rest.
fn queued(case: &Case) -> Option<Decision> {
    let rest = residual(case)?;
    let reading = case
        .readings
        .in_flight()
        .filter(|reading| reading.answer() == Answer::No && !reading.slack())?;
    if rest.interval(ALPHA).0 < WALL_MIN || !idle(case) {
        return None;
    }
    let more = Part::by(Wall::Concurrency, reading);
    let inside = Part {
        wall: Wall::Wait,
        value: rest.value.min(1.0) - reading.value(),
        rounds: rest.rounds,
        sure: rest.p_above(WALL_MIN) < level(rest.rounds, looks::first(case.experiment.effort)),
    };
    let more = Part {
        sure: reading.has_share(),
        ..more
    };
    let mut decision = co_limited(case, &[inside, more], false);
    decision.reason = Reason::QueuedInside {
        fewer: say::moved(reading),
    };
    Some(decision)
}

/// Several resources: at a kink each costs in full, and otherwise each has its share.
fn co_limited(case: &Case, parts: &[Part], kink: bool) -> Decision {
    let total: f64 = parts.iter().map(|part| part.value.max(0.0)).sum();
    let reason = match kink {
        true => Reason::Coincide {
            walls: parts.iter().map(|part| part.wall).collect(),
        },
        false => Reason::Shares {
            parts: named(parts),
        },
    };
    let rounds = parts.iter().map(|part| part.rounds).min().unwrap_or(0);
    let unsure = parts.iter().find(|part| !part.sure);
    let doubt = unsure.map(|part| Doubt::ShareUnsure { wall: part.wall });
    let mut decision = established(case, Wall::CoLimited, reason, doubt, rounds, None);
    decision.detail = kink.then_some(Detail::Coincide { sum: total });
    decision.shares = shares::of(parts);
    decision
}

/// Parts as a reason names them.
fn named(parts: &[Part]) -> Vec<wallfinder_model::reason::Part> {
    let part = |part: &Part| wallfinder_model::reason::Part {
        wall: part.wall,
        value: part.value,
    };
    parts.iter().map(part).collect()
}
