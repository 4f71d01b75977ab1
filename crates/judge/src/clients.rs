//! The client hosts of a load that several made: each beside its own ceiling, and which of them were full.
//!
//! Hosts share nothing, so the full one of several holds back its own part alone: in a closed loop its connections, in an
//! open one the starts that were dealt to it.

use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::record::{Ceiling, ClientPart, WorkerSummary};
use wallfinder_model::telemetry::FamilySummary;
use wallfinder_model::{Detail, Step, Verdict, Wall};

use crate::finite::{known, ratio, share};

/// A host this busy was full.
const FULL: f64 = 0.95;
/// Share of quota periods that ended throttled from which the quota is felt.
const THROTTLED: f64 = 0.2;
/// A host that sent or answered so much less of what was to start on it was behind.
const BEHIND: f64 = 0.01;

/// A client host as the judge sees it.
#[derive(Debug, Clone, Copy)]
pub struct ClientView<'s> {
    /// What it did.
    pub part: &'s ClientPart,
    /// Its load generator, where it was watched.
    pub seen: Option<&'s FamilySummary>,
    /// Mean busy share of its workers, 0..1; polling for nothing is left out.
    pub busy: Option<f64>,
    /// What it could drive at most.
    pub ceiling: Option<&'s Ceiling>,
}

impl ClientView<'_> {
    /// Its throughput over its own ceiling.
    pub fn ceiling_share(&self) -> Option<f64> {
        ratio(known(self.part.throughput)?, self.ceiling?.throughput)
    }

    /// How full it was, 0..1: its workers, or the quota that holds them.
    pub fn level(&self) -> f64 {
        let quota = self
            .seen
            .filter(|seen| seen.quota_cores.is_some() && share(seen.throttled_share) >= THROTTLED);
        let of_quota = quota.map_or(0.0, |seen| share(seen.utilisation));
        self.busy.unwrap_or(0.0).max(of_quota)
    }

    /// Whether it had no room.
    pub fn is_full(&self) -> bool {
        self.part.lost.is_none() && self.level() >= FULL
    }

    /// Whether it did less than what was to start on it.
    fn is_behind(&self) -> bool {
        let counts = &self.part.counts;
        let unsent = counts.not_sent.max(0) as f64 + counts.expired_unsent as f64;
        unsent / counts.scheduled.max(1) as f64 > BEHIND
    }
}

/// The client hosts of a step, in its order; none where one host made the load.
pub fn views(step: &Step) -> Vec<ClientView<'_>> {
    let mut workers = &step.workers[..];
    let ceilings = step.ceiling.as_ref().map(|ceiling| &ceiling.of_hosts[..]);
    let each = step.clients.iter().enumerate().map(|(nth, part)| {
        let count = (part.workers as usize).min(workers.len());
        let own;
        (own, workers) = workers.split_at(count);
        let hosts = step.telemetry.client_hosts.iter();
        let mut hosts = hosts.filter(|of| of.host.name == part.host);
        ClientView {
            part,
            seen: hosts.next().and_then(|of| of.client.as_ref()),
            busy: mean(own),
            ceiling: ceilings.and_then(|of_hosts| of_hosts.get(nth)),
        }
    });
    each.collect()
}

fn mean(workers: &[WorkerSummary]) -> Option<f64> {
    let sum: f64 = workers.iter().map(|worker| share(worker.busy_share)).sum();
    ratio(sum, workers.len() as f64)
}

/// What the full ones of several client hosts mean for the load.
pub(crate) struct FullHosts {
    pub(crate) names: Vec<String>,
    pub(crate) of: u32,
    /// The fullest.
    pub(crate) level: f64,
    /// The part of the load that they hold back, 0..1: all of it, where it is they alone that are behind an open loop.
    pub(crate) part: f64,
}

impl FullHosts {
    /// What a wall of the client's CPU is made of.
    pub(crate) fn detail(&self) -> Detail {
        Detail::ClientHosts {
            hosts: self.names.clone(),
            of: self.of,
        }
    }
}

/// The full ones, where there are some.
pub(crate) fn full(step: &Step) -> Option<FullHosts> {
    let views = views(step);
    let full: Vec<&ClientView<'_>> = views.iter().filter(|view| view.is_full()).collect();
    if full.is_empty() {
        return None;
    }
    let weight = |view: &ClientView<'_>| f64::from(view.part.connections);
    let whole: f64 = views.iter().map(weight).sum();
    let own: f64 = full.iter().map(|view| weight(view)).sum();
    let behind = views.iter().filter(|view| view.is_behind());
    let (mut behind, is_some) = (behind.clone(), behind.count() > 0);
    let are_alone_behind =
        step.load.arrival.is_open() && is_some && behind.all(|view| view.is_full());
    Some(FullHosts {
        names: full.iter().map(|view| view.part.host.clone()).collect(),
        of: views.len() as u32,
        level: full.iter().map(|view| view.level()).fold(0.0, f64::max),
        part: match are_alone_behind {
            true => 1.0,
            false => ratio(own, whole).unwrap_or(0.0),
        },
    })
}

/// Names the hosts in a verdict: as what the wall is made of, where it is the client's CPU; else as evidence.
pub(crate) fn name(verdict: &mut Verdict, step: &Step) {
    let Some(full) = full(step) else { return };
    if verdict.wall == Wall::ClientCpu {
        verdict.detail = Some(full.detail());
    }
    let fact = Fact::ClientHostsFull {
        hosts: full.names,
        of: full.of,
    };
    let evidence = Evidence::new("client.hosts_full", full.level, fact);
    // After what shows the wall itself.
    let place = verdict.evidence.len().min(1);
    verdict.evidence.insert(place, evidence);
}
