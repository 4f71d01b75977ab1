//! Client and server on the same processors, and those full.
//!
//! Neither side has a wall of its own then: making either cheaper helps both. One is
//! named only where it took nearly all of the time, or where it has a thread that never
//! rested while the other side's did; and never with much confidence.

use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::reason::Side as Which;
use wallfinder_model::{Detail, Reason, Wall};

use super::choice::SURE;
use super::finding::{Finding, certainty};
use super::sight::{FULL, Side, Sight};
use super::strangers::{self, cores_used};
use super::{Conclusion, shares, slack};
use crate::finite::{ratio, share};

/// Above this share of the time used, a side is named alone.
const NEARLY_ALL: f64 = 0.75;

/// How full processors are that both sides may run on; none where they keep apart, or
/// where a quota bounds one of them.
pub(super) fn together(sight: &Sight) -> Option<f64> {
    let (client, server) = (sight.client.as_ref()?, sight.server.as_ref()?);
    if sight.shared_cpus.is_empty() || client.quota.is_some() || server.quota.is_some() {
        return None;
    }
    let used = client.used + server.used;
    let counted = ratio(used, client.available.max(server.available)).unwrap_or(0.0);
    Some(share(counted.max(client.cpus_busy).max(server.cpus_busy)))
}

/// The verdict where shared processors are full.
pub(super) fn conclude(sight: &Sight, links: &[Finding]) -> Option<Conclusion> {
    if strangers::had_them(sight) {
        return None;
    }
    let full = together(sight).filter(|together| certainty(*together) >= SURE)?;
    let (client, server) = (sight.client.as_ref()?, sight.server.as_ref()?);
    let used = client.used + server.used;
    let client_part = ratio(client.used, used)?;
    let mut facts = vec![
        Evidence::new(
            "shared.cpus_busy",
            full,
            Fact::Shared {
                processors: sight.shared_cpus.len() as u32,
                busy: full,
            },
        ),
        cores_used(server, Which::Server),
        cores_used(client, Which::Client),
    ];
    facts.extend(slack::elsewhere(sight, &[Wall::ClientCpu, Wall::ServerCpu]));
    let spinning = sight.polls();
    let restless = |side: &Side| side.hottest.as_ref().is_some_and(|(_, s)| *s >= FULL);
    let workers_full = sight.workers.as_ref().is_some_and(|l| l.full_share >= 0.9);
    let client_restless = !spinning && (workers_full || restless(client));
    let link = links.iter().find(|finding| finding.strength >= 0.8);
    let one = match (client_restless, restless(server)) {
        _ if link.is_some() => None,
        (true, false) => Some(Wall::ClientCpu),
        (false, true) if server.available >= 1.5 => Some(Wall::ServerSerial),
        _ if client_part >= NEARLY_ALL && !spinning => Some(Wall::ClientCpu),
        _ if client_part <= 1.0 - NEARLY_ALL => Some(Wall::ServerCpu),
        _ => None,
    };
    let reason = Reason::SharedProcessors {
        wall: one,
        busy: full,
        client: client_part,
        link: link.filter(|_| one.is_none()).map(Finding::full),
    };
    if let Some(wall) = one {
        let thread = server
            .hottest
            .as_ref()
            .filter(|_| wall == Wall::ServerSerial);
        facts.extend(thread.map(|(name, busy)| {
            let (name, busy) = (name.clone(), *busy);
            Evidence::new(
                "server.hottest_thread",
                busy,
                Fact::HotThread { name, busy },
            )
        }));
        let detail = Detail::SharedProcessors {
            thread: thread.map(|(name, _)| name.clone()),
        };
        // A thread that never rests is one whether or not the processors are full.
        let thread = thread.map_or(full, |(_, busy)| busy.max(full));
        let conclusion = Conclusion::new(wall, 0.55 * certainty(thread), reason, facts);
        return Some(conclusion.with_detail(Some(detail)));
    }
    let mut parts = vec![
        (Wall::ServerCpu, server.used),
        (Wall::ClientCpu, client.used),
    ];
    if let Some(link) = link {
        facts.extend(link.evidence.iter().cloned());
        parts.push((link.wall, used));
    }
    let detail = Detail::SharedProcessors { thread: None };
    let mut conclusion =
        Conclusion::new(Wall::CoLimited, 0.5, reason, facts).with_detail(Some(detail));
    conclusion.shares = shares(parts);
    Some(conclusion)
}
