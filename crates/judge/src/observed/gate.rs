//! Before walls: steps that say nothing of any, loads that asked for no more, and phases.

use wallfinder_model::detail::Exhausted;
use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::reason::Part;
use wallfinder_model::{Arrival, Detail, Reason, Wall};

use super::choice::CROWDED;
use super::finding;
use super::sight::Sight;
use super::{Conclusion, phases, shares, slack};
use crate::{caveats, identity, little, unanswered};

/// Failures above this share leave nothing to be said of walls.
const ERRORS_TOO_MANY: f64 = 0.10;
/// Stolen time above this share leaves nothing to be said of walls.
const STEAL_TOO_MUCH: f64 = 0.10;
/// Gaps that fill more than this share of the window leave nothing to be said of walls.
const STILL_TOO_MUCH: f64 = 0.25;

/// Of what was in flight, requests without an answer may be this many times the others.
const UNANSWERED_TIMES: f64 = 2.0;

/// Requests that were never answered are most of what was in flight: where they waited, no answer tells.
fn unanswered_hold_most(sight: &Sight) -> Option<Conclusion> {
    let drained = sight.step.drained.filter(|drained| drained.in_flight > 0)?;
    let little = little::check(sight.step)?;
    if little.ratio <= UNANSWERED_TIMES {
        return None;
    }
    let answering = little.in_flight / little.ratio;
    Some(Conclusion::inconclusive(
        Reason::UnansweredHoldMost {
            in_flight: drained.in_flight,
        },
        vec![Evidence::new(
            "in-flight.unanswered",
            drained.in_flight as f64,
            Fact::Unanswered {
                in_flight: little.in_flight,
                answering,
            },
        )],
    ))
}

/// What must hold before any wall is named.
pub(super) fn gate(sight: &Sight) -> Option<Conclusion> {
    let counts = &sight.step.counts;
    let errors = identity::failure_share(counts);
    let class = identity::worst_class(counts).unwrap_or("unknown");
    let failures = || {
        let class = class.to_owned();
        let fact = Fact::Failures {
            share: errors,
            class,
        };
        Evidence::new("errors.share", errors, fact)
    };
    let none = |reason: Reason, measure: &str, value: f64, fact: Fact| {
        Some(Conclusion::inconclusive(
            reason,
            vec![Evidence::new(measure, value, fact)],
        ))
    };
    let lost = sight.step.clients.iter().filter(|of| of.lost.is_some());
    let hosts: Vec<String> = lost.map(|of| of.host.clone()).collect();
    if !hosts.is_empty() {
        let unknown = counts.unknown;
        let reason = Reason::ClientsLost { hosts };
        let fact = Fact::Lost { unknown };
        return none(reason, "requests.unknown", unknown as f64, fact);
    }
    let local = identity::worst_of(counts, "local.");
    if let Some(local) = local.filter(|_| identity::local_share(counts) > caveats::ERRORS_MAX) {
        let of = match local {
            "local.port" => Exhausted::Ports,
            "local.fd" => Exhausted::Descriptors,
            _ => Exhausted::SocketMemory,
        };
        let reason = Reason::RanOut { of };
        return Some(
            Conclusion::new(Wall::Concurrency, 0.7, reason, vec![failures()])
                .with_detail(Some(Detail::RanOut { of })),
        );
    }
    // Over a gap both sides idle, and whatever was full is averaged away.
    let unreachable = unanswered::unreachable_share(sight.step);
    let away = unanswered::unreachable(sight.step);
    if let Some(away) = away.filter(|_| unreachable > unanswered::UNREACHABLE_MAX)
        && counts.answered > 0
    {
        let fact = Fact::NoConnection { share: unreachable };
        let reason = Reason::Unreachable(away);
        return none(reason, "unreachable.share", unreachable, fact);
    }
    if errors > ERRORS_TOO_MANY && counts.answered > 0 {
        let reason = Reason::TooManyFailures {
            share: errors,
            class: class.to_owned(),
        };
        return Some(Conclusion::inconclusive(reason, vec![failures()]));
    }
    if sight.throughput <= 0.0 || counts.answered == 0 {
        let ended = unanswered::nothing_answered(sight.step).unwrap_or_default();
        let reason = Reason::NothingAnswered { ended, why: None };
        return none(reason, "throughput", 0.0, Fact::NoAnswers);
    }
    if let Some(conclusion) = unanswered_hold_most(sight) {
        return Some(conclusion);
    }
    if sight.steal > STEAL_TOO_MUCH {
        let share = sight.steal;
        let reason = Reason::Stolen { share };
        return none(reason, "steal.share", share, Fact::Stolen { share });
    }
    let share = caveats::still_share(sight.step);
    if share > STILL_TOO_MUCH {
        let reason = Reason::StoodStill { share };
        return none(reason, "still.share", share, Fact::Still { share });
    }
    let telemetry = &sight.step.telemetry;
    if telemetry.samples > 0 && caveats::is_too_short(telemetry) {
        let seconds = telemetry.window_ns as f64 / 1e9;
        let reason = Reason::WindowTooShort { seconds };
        return none(reason, "window.length", seconds, Fact::Window { seconds });
    }
    if sight.client.is_none() && sight.workers.is_none() && sight.server.is_none() {
        let reason = Reason::NeitherSideSeen;
        return none(reason, "sides.seen", 0.0, Fact::NeitherSideSeen);
    }
    None
}

/// An open loop that got what it asked for was limited by the asking.
pub(super) fn offered_load(sight: &Sight) -> Option<Conclusion> {
    let step = sight.step;
    let asked = caveats::asked_rate(step)?;
    let counts = &step.counts;
    let ended = sight.throughput / (1.0 - identity::error_share(counts)).max(0.1);
    let chance = caveats::schedule_chance(step);
    let reached = ended / asked;
    // What waited until its deadline had passed was not had either.
    let unsent = counts.not_sent.max(0) as f64 + counts.expired_unsent as f64;
    let grown = unsent / (counts.scheduled.max(1) as f64);
    if reached < caveats::RATE_MIN - chance || grown > 0.01 + chance {
        return None;
    }
    let full = finding::all(sight)
        .into_iter()
        .max_by(|a, b| a.strength.total_cmp(&b.strength));
    let failed = identity::error_share(counts);
    let on_average = matches!(
        step.load.arrival,
        Arrival::Ramp { .. } | Arrival::Replay { .. }
    );
    let mut facts = vec![Evidence::new(
        "load.rate_reached",
        reached,
        Fact::RateReached {
            asked,
            on_average,
            share: reached.min(1.0),
            failed: Some(failed).filter(|failed| *failed > caveats::ERRORS_MAX),
        },
    )];
    let full = full.filter(|finding| finding.strength >= 0.8);
    let confidence = if full.is_some() { 0.6 } else { 0.95 };
    let reason = Reason::Offered {
        asked,
        on_average,
        answered: sight.throughput,
        full: full.as_ref().map(finding::Finding::full),
    };
    facts.extend(full.into_iter().flat_map(|full| full.evidence));
    facts.extend(slack::elsewhere(sight, &[]));
    Some(Conclusion::new(
        Wall::OfferedLoad,
        confidence,
        reason,
        facts,
    ))
}

/// Different resources full at different times.
pub(super) fn alternating(sight: &Sight) -> Option<Conclusion> {
    // Neighbours come and go, and would be taken for phases.
    if sight.sides().any(|(_, side)| side.crowded() >= CROWDED) {
        return None;
    }
    let found = phases::find(sight.step, sight.client.as_ref(), sight.server.as_ref())?;
    let phase = |(&wall, &share): (&Wall, &f64)| {
        let measure = format!("phases.{}", wall.label());
        Evidence::new(measure, share, Fact::Phase { wall, share })
    };
    let facts = found.iter().map(phase).collect();
    let parts = found.iter().map(|(&wall, &value)| Part { wall, value });
    let reason = Reason::Phases {
        parts: parts.collect(),
    };
    let mut conclusion =
        Conclusion::new(Wall::CoLimited, 0.7, reason, facts).with_detail(Some(Detail::Phases));
    conclusion.shares = shares(found);
    Some(conclusion)
}
