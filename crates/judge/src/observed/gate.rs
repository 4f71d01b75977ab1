//! Before walls: steps that say nothing of any, loads that asked for no more, and phases.

use wallfinder_model::{Arrival, Wall};

use super::choice::CROWDED;
use super::finding::{self, evidence};
use super::sight::Sight;
use super::{Conclusion, phases, slack};
use crate::words::{percent, rate, time};
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
        format!(
            "Not decided: {} requests had no answer, and requests like them were most of what was in flight; \
             where they waited, no answer tells.",
            drained.in_flight
        ),
        vec![evidence(
            "in-flight.unanswered",
            drained.in_flight as f64,
            format!(
                "{} requests were in flight on average, and the answers account for {}",
                rate(little.in_flight),
                rate(answering)
            ),
        )],
    ))
}

/// What must hold before any wall is named.
pub(super) fn gate(sight: &Sight) -> Option<Conclusion> {
    let counts = &sight.step.counts;
    let errors = identity::failure_share(counts);
    let class = identity::worst_class(counts).unwrap_or("unknown");
    let failures = || {
        evidence(
            "errors.share",
            errors,
            format!(
                "{} of what was tried failed, most as {class}",
                percent(errors)
            ),
        )
    };
    let local = identity::worst_of(counts, "local.");
    if let Some(local) = local.filter(|_| identity::local_share(counts) > caveats::ERRORS_MAX) {
        let what = match local {
            "local.port" => "local ports",
            "local.fd" => "file descriptors",
            _ => "kernel memory for sockets",
        };
        let sentence = format!(
            "The load generator's side: it ran out of {what}, so it could not keep in flight what was asked."
        );
        return Some(
            Conclusion::new(Wall::Concurrency, 0.7, sentence, vec![failures()])
                .with_detail(Some(format!("the client ran out of {what}"))),
        );
    }
    // Over a gap both sides idle, and whatever was full is averaged away.
    let unreachable = unanswered::unreachable_share(sight.step);
    if unreachable > unanswered::UNREACHABLE_MAX
        && let Some(when) = unanswered::unreachable_in_words(sight.step)
        && counts.answered > 0
    {
        return Some(Conclusion::inconclusive(
            format!("Not decided: the server could not be reached {when}."),
            vec![evidence(
                "unreachable.share",
                unreachable,
                format!(
                    "{} of the window had no connection, and attempts to open one failed",
                    percent(unreachable)
                ),
            )],
        ));
    }
    if errors > ERRORS_TOO_MANY && counts.answered > 0 {
        return Some(Conclusion::inconclusive(
            format!(
                "Not decided: {} of what was tried failed ({class}), and failures are not throughput.",
                percent(errors)
            ),
            vec![failures()],
        ));
    }
    if sight.throughput <= 0.0 || counts.answered == 0 {
        let why = unanswered::nothing_answered(sight.step);
        let why = why.map_or(String::new(), |why| format!(": {why}"));
        return Some(Conclusion::inconclusive(
            format!("Not decided: nothing was answered well{why}."),
            vec![evidence(
                "throughput",
                0.0,
                "no good answers in the window".to_owned(),
            )],
        ));
    }
    if let Some(conclusion) = unanswered_hold_most(sight) {
        return Some(conclusion);
    }
    if sight.steal > STEAL_TOO_MUCH {
        return Some(Conclusion::inconclusive(
            format!(
                "Not decided: the hypervisor took {} of the processors in use.",
                percent(sight.steal)
            ),
            vec![evidence(
                "steal.share",
                sight.steal,
                format!(
                    "{} of the processors in use was stolen",
                    percent(sight.steal)
                ),
            )],
        ));
    }
    let still = caveats::still_share(sight.step);
    if still > STILL_TOO_MUCH {
        return Some(Conclusion::inconclusive(
            format!(
                "Not decided: the machine, or whoever measures, stood still for {} of the window.",
                percent(still)
            ),
            vec![evidence(
                "still.share",
                still,
                format!("{} of the window lies in gaps", percent(still)),
            )],
        ));
    }
    let telemetry = &sight.step.telemetry;
    if telemetry.samples > 0 && caveats::is_too_short(telemetry) {
        let window = time(telemetry.window_ns as f64 / 1e9);
        return Some(Conclusion::inconclusive(
            format!(
                "Not decided: the counters of processors tell nothing of a window of {window}."
            ),
            vec![evidence(
                "window.length",
                telemetry.window_ns as f64 / 1e9,
                format!("the window was {window} long"),
            )],
        ));
    }
    if sight.client.is_none() && sight.workers.is_none() && sight.server.is_none() {
        return Some(Conclusion::inconclusive(
            "Not decided: neither the server's processes nor the load generator's were seen."
                .to_owned(),
            vec![evidence(
                "sides.seen",
                0.0,
                "no telemetry of either side".to_owned(),
            )],
        ));
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
    let failing = match failed > caveats::ERRORS_MAX {
        true => format!(", {} of them by a failure", percent(failed)),
        false => String::new(),
    };
    let mean = match step.load.arrival {
        Arrival::Ramp { .. } => " on average",
        _ => "",
    };
    let mut facts = vec![evidence(
        "load.rate_reached",
        reached,
        format!(
            "{} requests/s were asked for{mean} and {} of them ended in the window{failing}",
            rate(asked),
            percent(reached.min(1.0))
        ),
    )];
    let mut confidence = 0.95;
    let mut sentence = format!(
        "The offered load: {}/s were asked for{mean} and {}/s were answered; no more was wanted.",
        rate(asked),
        rate(sight.throughput)
    );
    if let Some(full) = full.filter(|finding| finding.strength >= 0.8) {
        confidence = 0.6;
        sentence = format!(
            "The offered load: {}/s were asked for{mean} and answered, but {} is all but full: {}.",
            rate(asked),
            full.wall.words(),
            full.clause
        );
        facts.extend(full.evidence);
    }
    facts.extend(slack::elsewhere(sight, &[]));
    Some(Conclusion::new(
        Wall::OfferedLoad,
        confidence,
        sentence,
        facts,
    ))
}

/// Different resources full at different times.
pub(super) fn alternating(sight: &Sight) -> Option<Conclusion> {
    // Neighbours come and go, and would be taken for phases.
    let sides = [&sight.client, &sight.server];
    if sides
        .into_iter()
        .flatten()
        .any(|side| side.crowded() >= CROWDED)
    {
        return None;
    }
    let shares = phases::find(sight.step, sight.client.as_ref(), sight.server.as_ref())?;
    let parts: Vec<String> = shares
        .iter()
        .map(|(wall, share)| format!("{} in {} of the ticks", wall.words(), percent(*share)))
        .collect();
    let facts = shares
        .iter()
        .map(|(wall, share)| {
            evidence(
                &format!("phases.{}", wall.label()),
                *share,
                format!(
                    "{} alone was full in {} of the ticks",
                    wall.words(),
                    percent(*share)
                ),
            )
        })
        .collect();
    let sentence = format!("Phases that alternate: {}.", parts.join(", "));
    let mut conclusion = Conclusion::new(Wall::CoLimited, 0.7, sentence, facts)
        .with_detail(Some("phases".to_owned()));
    let sum: f64 = shares.values().sum();
    conclusion.shares = shares
        .iter()
        .map(|(wall, share)| (wall.label().to_owned(), share / sum))
        .collect();
    Some(conclusion)
}
