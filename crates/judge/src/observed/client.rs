//! Signs that the load generator was full: its workers, its threads, its processors, its own
//! calibrated ceiling.

use wallfinder_model::Wall;

use super::finding::{Finding, certainty, evidence, processors, verb};
use super::sight::{FULL, Sight};
use crate::words::{percent, rate};

pub(super) fn client_cpu(sight: &Sight) -> Option<Finding> {
    let crowd = sight
        .client
        .as_ref()
        .map(|side| processors(side, "client", "the load generator"));
    let mut best = match &sight.workers {
        Some(workers) if workers.spinning && !workers.counted_polls => by_ceiling(sight),
        Some(_) => by_workers(sight),
        None => by_thread(sight),
    };
    // The family's processors, its quota and its neighbours; workers that spin fill them
    // without meaning it.
    let spinning = sight
        .workers
        .as_ref()
        .is_some_and(|workers| workers.spinning);
    if let (Some(crowd), false, Some(side)) = (crowd, spinning, &sight.client) {
        let better = best
            .as_ref()
            .is_none_or(|finding| crowd.strength > finding.strength);
        if better && crowd.strength > 0.0 {
            let clause = match side.quota {
                Some(_) => format!(
                    "it used {} of {}",
                    percent(crowd.level),
                    side.capacity_words()
                ),
                None => format!(
                    "{} {} {} busy",
                    side.capacity_words(),
                    verb(side),
                    percent(crowd.level)
                ),
            };
            best = Some(Finding {
                wall: Wall::ClientCpu,
                level: crowd.level,
                strength: crowd.strength,
                detail: crowd.detail,
                by_others: crowd.by_others,
                clause,
                evidence: crowd.evidence,
            });
        }
    }
    best.map(|finding| beside_ceiling(finding, sight))
}

/// Workers share nothing: one that is full holds back its own connections only.
fn by_workers(sight: &Sight) -> Option<Finding> {
    let workers = sight.workers.as_ref()?;
    let one = workers.count == 1;
    let full = workers.full_share;
    let level = if full >= 0.9 {
        workers.busy.max(FULL)
    } else {
        workers.busy
    };
    let mut strength = certainty(level);
    let mut detail = None;
    if workers.busiest >= FULL && full < 0.9 {
        strength = strength.min(0.3).max(0.3 * full);
        detail = Some("some workers are full and others not".to_owned());
    }
    let clause = if one {
        format!("its one worker was {} busy", percent(workers.busy))
    } else {
        format!(
            "its {} workers were {} busy",
            workers.count,
            percent(workers.busy)
        )
    };
    Some(Finding {
        wall: Wall::ClientCpu,
        level,
        strength,
        detail,
        by_others: false,
        evidence: vec![evidence(
            "client.busy",
            workers.busy,
            format!("the load generator: {clause}"),
        )],
        clause,
    })
}

/// Workers that poll without sleeping are always busy; only their ceiling tells.
fn by_ceiling(sight: &Sight) -> Option<Finding> {
    let share_of = sight.ceiling_share?;
    let ceiling = sight.step.ceiling.as_ref()?;
    Some(Finding {
        wall: Wall::ClientCpu,
        level: share_of.min(1.0),
        strength: 0.85 * certainty(share_of.min(1.0) + 0.03),
        detail: Some("workers that poll: busy by design".to_owned()),
        by_others: false,
        clause: format!(
            "it drove {} of the {}/s that its workers can",
            percent(share_of),
            rate(ceiling.throughput)
        ),
        evidence: vec![evidence(
            "client.ceiling_share",
            share_of,
            format!(
                "throughput was {} of the engine's own ceiling",
                percent(share_of)
            ),
        )],
    })
}

/// A foreign driver: one full thread is a full driver, however many processors it may use.
fn by_thread(sight: &Sight) -> Option<Finding> {
    let side = sight.client.as_ref()?;
    let (name, hottest) = side.hottest.as_ref()?;
    let threads = side.plateau();
    let (clause, strength) = match threads {
        Some(1) => (
            format!("its one working thread was {} busy", percent(*hottest)),
            0.95 * certainty(*hottest),
        ),
        Some(n) => (
            format!("its {n} working threads were {} busy", percent(*hottest)),
            0.95 * certainty(*hottest),
        ),
        // Some threads full and others not: it may or may not hold the rest back.
        None if *hottest >= FULL => (
            format!("its thread `{name}` was {} busy", percent(*hottest)),
            0.5,
        ),
        None => return None,
    };
    Some(Finding {
        wall: Wall::ClientCpu,
        level: *hottest,
        strength,
        detail: (side.available >= 1.5)
            .then(|| format!("threads of {} do not spread over its processors", side.name)),
        by_others: false,
        evidence: vec![evidence(
            "client.hottest_thread",
            *hottest,
            format!("the load generator: {clause}"),
        )],
        clause,
    })
}

/// Sets the calibrated ceiling beside busy workers: agreement strengthens, room weakens.
fn beside_ceiling(mut finding: Finding, sight: &Sight) -> Finding {
    let polls = sight
        .workers
        .as_ref()
        .is_some_and(|workers| workers.spinning);
    let (Some(share_of), false) = (sight.ceiling_share, polls) else {
        return finding;
    };
    let Some(ceiling) = sight.step.ceiling.as_ref() else {
        return finding;
    };
    if ceiling.workers_saturated && share_of >= 0.85 && finding.level >= 0.85 {
        finding.strength = (finding.strength + 0.1).min(0.97);
    } else if share_of < 0.7 {
        finding.strength *= 0.85;
    }
    finding.evidence.push(evidence(
        "client.ceiling_share",
        share_of,
        format!(
            "throughput was {} of the {}/s that its workers drive against a null server",
            percent(share_of),
            rate(ceiling.throughput)
        ),
    ));
    finding
}
