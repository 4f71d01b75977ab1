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
    // It is measured after the load: of a host that was lost there is none.
    let mut ceilings = step.ceiling.iter().flat_map(|ceiling| &ceiling.of_hosts);
    let each = step.clients.iter().map(|part| {
        let count = (part.workers as usize).min(workers.len());
        let own;
        (own, workers) = workers.split_at(count);
        let hosts = step.telemetry.client_hosts.iter();
        let mut hosts = hosts.filter(|of| of.host.name == part.host);
        ClientView {
            part,
            seen: hosts.next().and_then(|of| of.client.as_ref()),
            busy: mean(own),
            ceiling: match part.lost {
                Some(_) => None,
                None => ceilings.next(),
            },
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
        verdict.detail.get_or_insert_with(|| full.detail());
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

#[cfg(test)]
pub(crate) mod tests {
    use wallfinder_model::Reason;
    use wallfinder_model::record::{Counts, Drained, LostClient};

    use super::*;
    use crate::double::{a_machine, a_step};
    use crate::judge_step;

    /// Three hosts with a worker and the same number of connections each, of these busy shares.
    pub(crate) fn three(busy: [f64; 3], open: bool) -> Step {
        let step = match open {
            true => a_step().open(30_000.0),
            false => a_step(),
        };
        let mut step = step.throughput(20_000.0).in_flight(64.0).build();
        let worker = step.workers[0].clone();
        step.workers = (0..)
            .zip(busy)
            .map(|(nth, busy_share)| WorkerSummary {
                worker: nth,
                busy_share,
                answered: 60_000,
                ..worker.clone()
            })
            .collect();
        step.clients = (1..=3).map(part).collect();
        step
    }

    fn part(nth: u32) -> ClientPart {
        ClientPart {
            host: format!("c{nth}"),
            connections: 20,
            dealt: 1.0 / 3.0,
            workers: 1,
            began_ns: 0,
            clock_error_ns: 100_000,
            counts: Counts {
                scheduled: 60_000,
                answered: 60_000,
                ..Counts::default()
            },
            throughput: 6_000.0,
            in_flight_mean: 20.0,
            drained: Drained::default(),
            latency: None,
            lateness: None,
            lost: None,
        }
    }

    fn hosts(verdict: &Verdict) -> (Vec<String>, u32) {
        match &verdict.detail {
            Some(Detail::ClientHosts { hosts, of }) => (hosts.clone(), *of),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn where_all_hosts_are_full_the_wall_is_all_of_them() {
        let verdict = judge_step(&three([0.99, 0.98, 0.99], false), &a_machine());
        assert_eq!(verdict.wall, Wall::ClientCpu, "{verdict:#?}");
        assert_eq!(
            hosts(&verdict),
            (vec!["c1".into(), "c2".into(), "c3".into()], 3)
        );
    }

    #[test]
    fn one_full_host_is_no_wall_of_a_closed_loop_and_is_told() {
        let verdict = judge_step(&three([0.3, 0.99, 0.3], false), &a_machine());
        assert_ne!(verdict.wall, Wall::ClientCpu, "{verdict:#?}");
        let told = verdict.evidence.iter().map(|evidence| &evidence.fact);
        let expected = Fact::ClientHostsFull {
            hosts: vec!["c2".into()],
            of: 3,
        };
        assert!(told.into_iter().any(|fact| *fact == expected));
    }

    #[test]
    fn the_one_host_that_is_behind_an_open_loop_is_its_wall() {
        let mut step = three([0.3, 0.99, 0.3], true);
        step.clients[1].counts.not_sent = 30_000;
        step.counts.not_sent = 30_000;
        step.counts.scheduled += 30_000;
        let verdict = judge_step(&step, &a_machine());
        assert_eq!(verdict.wall, Wall::ClientCpu, "{verdict:#?}");
        assert_eq!(hosts(&verdict), (vec!["c2".into()], 3));
        // Where another is behind too, and has room, it is not the client's CPU alone.
        step.clients[0].counts.not_sent = 30_000;
        let verdict = judge_step(&step, &a_machine());
        assert_ne!(verdict.wall, Wall::ClientCpu, "{verdict:#?}");
    }

    #[test]
    fn a_host_is_full_by_its_quota_as_well() {
        let mut step = three([0.1, 0.1, 0.1], false);
        step.telemetry.client_hosts = vec![wallfinder_model::telemetry::ClientHostSummary {
            host: wallfinder_model::telemetry::HostSummary {
                name: "c3".to_owned(),
                ..Default::default()
            },
            client: Some(FamilySummary {
                quota_cores: Some(0.1),
                utilisation: 0.99,
                throttled_share: 0.9,
                ..FamilySummary::default()
            }),
        }];
        let full = full(&step).expect("one is");
        assert_eq!((full.names, full.of), (vec!["c3".to_owned()], 3));
    }

    #[test]
    fn a_step_with_a_lost_host_names_no_wall() {
        let mut step = three([0.99, 0.99, 0.99], false);
        let lost = &mut step.clients[2];
        lost.workers = 0;
        lost.counts.unknown = 20;
        lost.lost = Some(LostClient {
            why: "its ssh ended".to_owned(),
            heard_ns: 3_000_000_000,
        });
        step.workers.truncate(2);
        let verdict = judge_step(&step, &a_machine());
        assert_eq!(verdict.wall, Wall::Inconclusive);
        assert!(matches!(verdict.reason, Reason::ClientsLost { .. }));
        let views = views(&step);
        assert_eq!(views[2].busy, None);
        assert!(views[0].is_full() && !views[2].is_full());
    }
}
