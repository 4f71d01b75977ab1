//! Signs that the load generator was full: its workers, its threads, its processors, its own
//! calibrated ceiling.

use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::reason::{Side as Which, Sign};
use wallfinder_model::{Detail, Wall};

use super::finding::{Finding, certainty, processors};
use super::sight::{FULL, Sight};
use crate::clients;

pub(super) fn client_cpu(sight: &Sight) -> Option<Finding> {
    let crowd = sight
        .client
        .as_ref()
        .map(|side| processors(side, Which::Client));
    let mut best = match &sight.workers {
        Some(workers) if workers.spinning && !workers.counted_polls => by_ceiling(sight),
        Some(_) => by_workers(sight),
        None => by_thread(sight),
    };
    // The family's processors, its quota and its neighbours; workers that spin fill them
    // without meaning it.
    let spinning = sight.polls();
    if let (Some(crowd), false, Some(side)) = (crowd, spinning, &sight.client) {
        let better = best
            .as_ref()
            .is_none_or(|finding| crowd.strength > finding.strength);
        if better && crowd.strength > 0.0 {
            let (busy, capacity) = (crowd.level, side.capacity());
            let sign = match side.quota {
                Some(_) => Sign::Quota {
                    used: busy,
                    capacity,
                    throttled: None,
                },
                None => Sign::Busy { capacity, busy },
            };
            best = Some(crowd.found(Wall::ClientCpu, sign));
        }
    }
    let best = best.map(|finding| of_hosts(finding, sight));
    best.map(|finding| beside_ceiling(finding, sight))
}

/// Of several client hosts the full ones hold back their own parts alone: they are the wall where those parts are nearly
/// all of the load, or where they alone are behind what an open loop asks.
fn of_hosts(mut finding: Finding, sight: &Sight) -> Finding {
    /// From this part on it is nearly all.
    const NEARLY_ALL: f64 = 0.9;
    let Some(full) = clients::full(sight.step) else {
        return finding;
    };
    let strength = certainty(full.level);
    finding.strength = match full.part >= NEARLY_ALL {
        true => finding.strength.max(strength),
        false => strength.min(0.3).max(0.3 * full.part),
    };
    finding.level = finding.level.max(full.level);
    finding.detail = Some(full.detail());
    finding
}

/// Workers share nothing: one that is full holds back its own connections only.
fn by_workers(sight: &Sight) -> Option<Finding> {
    let workers = sight.workers.as_ref()?;
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
        detail = Some(Detail::UnevenWorkers);
    }
    let sign = Sign::Workers {
        workers: workers.count as u32,
        busy: workers.busy,
    };
    Some(Finding {
        wall: Wall::ClientCpu,
        level,
        strength,
        detail,
        by_others: false,
        evidence: vec![Evidence::new(
            "client.busy",
            workers.busy,
            Fact::ClientFull { sign: sign.clone() },
        )],
        sign,
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
        detail: Some(Detail::PollingWorkers),
        by_others: false,
        sign: Sign::Ceiling {
            share: share_of,
            throughput: ceiling.throughput,
        },
        evidence: vec![ceiling_share(share_of, None)],
    })
}

/// A foreign driver: one full thread is a full driver, however many processors it may use.
fn by_thread(sight: &Sight) -> Option<Finding> {
    let side = sight.client.as_ref()?;
    let (name, hottest) = side.hottest.as_ref()?;
    let threads = side.plateau();
    let (name, busy) = (name.clone(), *hottest);
    let (sign, strength) = match threads {
        Some(threads) => (
            Sign::WorkingThreads { threads, busy },
            0.95 * certainty(busy),
        ),
        // Some threads full and others not: it may or may not hold the rest back.
        None if busy >= FULL => (Sign::DriverThread { name, busy }, 0.5),
        None => return None,
    };
    let spreads = side.available < 1.5;
    let detail = Detail::DriverThreads {
        name: side.name.clone(),
    };
    Some(Finding {
        wall: Wall::ClientCpu,
        level: busy,
        strength,
        detail: (!spreads).then_some(detail),
        by_others: false,
        evidence: vec![Evidence::new(
            "client.hottest_thread",
            busy,
            Fact::ClientFull { sign: sign.clone() },
        )],
        sign,
    })
}

/// Throughput over the engine's own ceiling.
pub(super) fn ceiling_share(share: f64, of: Option<f64>) -> Evidence {
    Evidence::new(
        "client.ceiling_share",
        share,
        Fact::CeilingShare { share, of },
    )
}

/// Sets the calibrated ceiling beside busy workers: agreement strengthens, room weakens.
fn beside_ceiling(mut finding: Finding, sight: &Sight) -> Finding {
    let polls = sight.polls();
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
    let beside = ceiling_share(share_of, Some(ceiling.throughput));
    finding.evidence.push(beside);
    finding
}
