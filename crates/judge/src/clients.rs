//! The client hosts of a load that several made: each beside its own ceiling, and which of them were full, had a full
//! link, or were behind.
//!
//! Hosts share nothing, so the full one of several holds back its own part alone: in a closed loop its connections, in an
//! open one the starts that were dealt to it.

use wallfinder_model::detail::ClientHold;
use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::record::{Ceiling, ClientPart, WorkerSummary};
use wallfinder_model::telemetry::{FamilySummary, LINK_FULL_MAX, LinkSummary};
use wallfinder_model::{Detail, Step, Verdict, Wall};

use crate::caveats;
use crate::finite::{known, ratio, share};

/// A host this busy was full.
const FULL: f64 = 0.95;
/// From this share of its rate on a link was full: framing that counters leave out is the rest.
const LINK_FULL: f64 = FULL - 0.04;
/// Up to this share of its rate a link surely had room.
const LINK_ROOM: f64 = 0.8;
/// Share of quota periods that ended throttled from which the quota is felt.
const THROTTLED: f64 = 0.2;
/// A host that sent or answered so much less of what was to start on it was behind.
const BEHIND: f64 = 0.01;
/// A host is behind by itself where it is so many times as far behind as the usual one.
const APART: f64 = 2.0;
/// Fewer requests that were not sent are what a window's end cuts off.
const UNSENT_MIN: f64 = 10.0;

/// A client host as the judge sees it.
#[derive(Debug, Clone, Copy)]
pub struct ClientView<'s> {
    /// What it did.
    pub part: &'s ClientPart,
    /// Its load generator, where it was watched.
    pub seen: Option<&'s FamilySummary>,
    /// Its own link, where that was watched.
    pub link: Option<&'s LinkSummary>,
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

    /// Use of its own link's rate, the fuller way; above [`LINK_FULL_MAX`] where the rate is not what is stated.
    pub fn link_share(&self) -> Option<f64> {
        let ways = self.link_ways().into_iter().flatten();
        ways.reduce(f64::max)
    }

    /// Whether its own link was full, one way or the other.
    pub fn has_full_link(&self) -> bool {
        let is_full = |share: f64| (LINK_FULL..=LINK_FULL_MAX).contains(&share);
        self.part.lost.is_none() && self.link_share().is_some_and(is_full)
    }

    /// Whether its own link surely had room: both ways are known, and it may use the rate that is stated.
    fn has_room_on_link(&self) -> bool {
        let held_to_less = |link: &LinkSummary| caveats::exceeded(link).next().is_some();
        let mut ways = self.link_ways().into_iter();
        ways.all(|way| way.is_some_and(|share| share <= LINK_ROOM))
            && !self.link.is_some_and(held_to_less)
    }

    /// Downlink and uplink.
    fn link_ways(&self) -> [Option<f64>; 2] {
        let Some(link) = self.link else {
            return [None; 2];
        };
        [link.downlink_share, link.uplink_share].map(|way| way.and_then(known))
    }

    /// What was to start on it and was not sent.
    fn unsent(&self) -> f64 {
        let counts = &self.part.counts;
        counts.not_sent.max(0) as f64 + counts.expired_unsent as f64
    }

    /// The same as a share of what was to start on it.
    fn unsent_share(&self) -> f64 {
        self.unsent() / self.part.counts.scheduled.max(1) as f64
    }

    /// Whether it did less than what was to start on it.
    fn is_behind(&self) -> bool {
        self.unsent_share() > BEHIND
    }
}

/// The client hosts of a step, in its order; none where one host made the load.
pub fn views(step: &Step) -> Vec<ClientView<'_>> {
    let mut workers = &step.workers[..];
    let ceilings = step.ceiling.iter().flat_map(|ceiling| &ceiling.of_hosts);
    let mut ceilings = ceilings.collect::<Vec<_>>().into_iter();
    let mut hosts = step.telemetry.client_hosts.iter();
    let each = step.clients.iter().map(|part| {
        let count = (part.workers as usize).min(workers.len());
        let own;
        (own, workers) = workers.split_at(count);
        let host = next_of(&mut hosts, |of| of.host.name == part.host);
        ClientView {
            part,
            seen: host.and_then(|of| of.client.as_ref()),
            link: host.and_then(|of| of.link.as_ref()),
            busy: mean(own),
            // It is measured after the load: of a host that was gone by then there is none.
            ceiling: next_of(&mut ceilings, |of| match &of.host {
                Some(host) => *host == part.host,
                // As records have it from before it was written.
                None => part.lost.is_none(),
            }),
        }
    });
    each.collect()
}

/// The next that is so, of a list in the order of the hosts: two of them may have one name, and either list may have hosts
/// that the other has not.
fn next_of<T>(
    rest: &mut (impl Iterator<Item = T> + Clone),
    is_so: impl Fn(&T) -> bool,
) -> Option<T> {
    let at = rest.clone().position(|of| is_so(&of))?;
    rest.nth(at)
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

/// What holds each client host to its part, where it is not its processors: its own link, where that of each was full,
/// and the server, where each had room.
pub(crate) fn hold(step: &Step) -> Option<ClientHold> {
    let views = views(step);
    let left = views.iter().filter(|view| view.part.lost.is_none());
    let left: Vec<&ClientView<'_>> = left.collect();
    if left.is_empty() {
        None
    } else if left.iter().all(|view| view.has_full_link()) {
        Some(ClientHold::OwnLink)
    } else {
        let have_room = left.iter().all(|view| view.has_room_on_link());
        have_room.then_some(ClientHold::Server)
    }
}

/// Names the hosts in a verdict: as what the wall is made of, where it is the client's CPU; else as evidence.
pub(crate) fn name(verdict: &mut Verdict, step: &Step) {
    let views = views(step);
    let mut told = Vec::new();
    if let Some(full) = full(step) {
        if verdict.wall == Wall::ClientCpu {
            verdict.detail.get_or_insert_with(|| full.detail());
        }
        let fact = Fact::ClientHostsFull {
            hosts: full.names,
            of: full.of,
        };
        told.push(Evidence::new("client.hosts_full", full.level, fact));
    }
    let behind = behind(step, &views);
    told.extend(full_links(&views, behind.as_ref()));
    told.extend(behind);
    // After what shows the wall itself.
    let place = verdict.evidence.len().min(1);
    verdict.evidence.splice(place..place, told);
}

/// The host with processors left that is furthest behind an open loop, where others are not behind.
fn behind(step: &Step, views: &[ClientView<'_>]) -> Option<Evidence> {
    let left = views.iter().filter(|view| view.part.lost.is_none());
    if !step.load.arrival.is_open() {
        return None;
    }
    let mut shares: Vec<f64> = left.map(ClientView::unsent_share).collect();
    shares.sort_by(f64::total_cmp);
    // Of two the one that keeps up is what the other is held against.
    let usual = *shares.get(shares.len().saturating_sub(1) / 2)?;
    let is_told = |view: &&ClientView<'_>| {
        let is_there = view.part.lost.is_none() && !view.is_full();
        let is_apart = view.is_behind() && view.unsent_share() > APART * usual;
        is_there && is_apart && view.unsent() >= UNSENT_MIN
    };
    let behind: Vec<&ClientView<'_>> = views.iter().filter(is_told).collect();
    let furthest = behind
        .iter()
        .max_by(|a, b| a.unsent_share().total_cmp(&b.unsent_share()))?;
    let scheduled = furthest.part.counts.scheduled as f64;
    let per_second = |count: f64| ratio(count * 1e9, step.window_ns as f64);
    let fact = Fact::ClientHostBehind {
        host: furthest.part.host.clone(),
        asked: per_second(scheduled)?,
        sent: per_second((scheduled - furthest.unsent()).max(0.0))?,
        more: behind.len() as u32 - 1,
        link: furthest.link_share().filter(|_| furthest.has_full_link()),
        processors: furthest.seen.map(|seen| share(seen.cpus_busy)),
    };
    let by = furthest.unsent_share();
    Some(Evidence::new("client.host_behind", by, fact))
}

/// The hosts whose links were full, where that is not told of the one that is behind.
fn full_links(views: &[ClientView<'_>], behind: Option<&Evidence>) -> Option<Evidence> {
    let full = views.iter().filter(|view| view.has_full_link());
    let most = full.clone().filter_map(ClientView::link_share);
    let most = most.reduce(f64::max)?;
    let hosts: Vec<String> = full.map(|view| view.part.host.clone()).collect();
    if let Some(Fact::ClientHostBehind { host, .. }) = behind.map(|behind| &behind.fact)
        && hosts == [host.as_str()]
    {
        return None;
    }
    let of = views.len() as u32;
    let fact = Fact::ClientLinksFull { hosts, of };
    Some(Evidence::new("client.links_full", most, fact))
}

#[cfg(test)]
pub(crate) mod tests {
    use wallfinder_model::Reason;
    use wallfinder_model::record::{Counts, Drained, LostClient};
    use wallfinder_model::telemetry::{ClientHostSummary, HostSummary};

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

    /// The hosts of [`three`], with processors that are busy for 41 % and with these uses of downlink and uplink.
    pub(crate) fn linked(ways: [Option<(f64, f64)>; 3]) -> Vec<ClientHostSummary> {
        let link = |(downlink, uplink)| LinkSummary {
            interface: "eth0".to_owned(),
            rate_bits: Some(1_000_000_000),
            downlink_share: Some(downlink),
            uplink_share: Some(uplink),
            ..LinkSummary::default()
        };
        let each = (1..).zip(ways).map(|(nth, ways)| ClientHostSummary {
            host: HostSummary {
                name: format!("c{nth}"),
                ..HostSummary::default()
            },
            client: Some(FamilySummary {
                cpus_busy: 0.41,
                ..FamilySummary::default()
            }),
            link: ways.map(link),
        });
        each.collect()
    }

    /// Lets a host of [`three`] send so much less of the 60,000 requests that were to start on it.
    fn put_behind(step: &mut Step, nth: usize, unsent: i64) {
        let counts = &mut step.clients[nth].counts;
        counts.not_sent = unsent;
        counts.answered -= unsent as u64;
    }

    fn facts(step: &Step) -> Vec<Fact> {
        let verdict = judge_step(step, &a_machine());
        let of_hosts = |fact: &Fact| {
            matches!(
                fact,
                Fact::ClientHostsFull { .. }
                    | Fact::ClientLinksFull { .. }
                    | Fact::ClientHostBehind { .. }
            )
        };
        let facts = verdict.evidence.into_iter().map(|evidence| evidence.fact);
        facts.filter(of_hosts).collect()
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
        step.telemetry.client_hosts = linked([None; 3]);
        step.telemetry.client_hosts[2].client = Some(FamilySummary {
            quota_cores: Some(0.1),
            utilisation: 0.99,
            throttled_share: 0.9,
            ..FamilySummary::default()
        });
        let full = full(&step).expect("one is");
        assert_eq!((full.names, full.of), (vec!["c3".to_owned()], 3));
    }

    #[test]
    fn a_host_that_is_behind_alone_and_has_processors_left_is_told_with_its_rate() {
        let mut step = three([0.4, 0.4, 0.4], true);
        step.telemetry.client_hosts = linked([Some((0.2, 0.1)); 3]);
        assert_eq!(facts(&step), []);
        put_behind(&mut step, 2, 11_280);
        let window_ns = step.window_ns as f64;
        let per_second = |count: f64| count * 1e9 / window_ns;
        let behind = |more, link| Fact::ClientHostBehind {
            host: "c3".to_owned(),
            asked: per_second(60_000.0),
            sent: per_second(48_720.0),
            more,
            link,
            processors: Some(0.41),
        };
        assert_eq!(facts(&step), [behind(0, None)]);
        let mut full_link = step.clone();
        full_link.telemetry.client_hosts = linked([None, None, Some((0.97, 0.1))]);
        assert_eq!(facts(&full_link), [behind(0, Some(0.97))]);
        // Where all are nearly as far behind, it is no matter of one host.
        let mut alike = step.clone();
        for nth in [0, 1] {
            put_behind(&mut alike, nth, 8_000);
        }
        assert_eq!(facts(&alike), []);
        // Another that is less behind by itself is counted, where the usual one keeps up.
        step.clients.push(step.clients[1].clone());
        step.clients.push(step.clients[1].clone());
        put_behind(&mut step, 0, 5_000);
        assert_eq!(facts(&step), [behind(1, None)]);
    }

    #[test]
    fn a_host_that_is_behind_is_not_told_in_a_closed_loop_nor_where_it_is_full_or_lost() {
        let mut closed = three([0.4, 0.4, 0.4], false);
        put_behind(&mut closed, 2, 11_280);
        assert_eq!(facts(&closed), []);
        let mut full = three([0.4, 0.4, 0.99], true);
        put_behind(&mut full, 2, 11_280);
        let expected = Fact::ClientHostsFull {
            hosts: vec!["c3".to_owned()],
            of: 3,
        };
        assert_eq!(facts(&full), [expected]);
        let mut lost = three([0.4, 0.4, 0.4], true);
        put_behind(&mut lost, 2, 11_280);
        lost.clients[2].lost = Some(LostClient {
            why: "its ssh ended".to_owned(),
            heard_ns: 3_000_000_000,
        });
        assert_eq!(facts(&lost), []);
    }

    #[test]
    fn a_full_link_of_a_host_is_told_and_one_whose_rate_is_another_than_stated_is_not() {
        let mut step = three([0.4, 0.4, 0.4], false);
        step.telemetry.client_hosts = linked([Some((0.1, 0.96)), Some((1.4, 0.1)), None]);
        let expected = Fact::ClientLinksFull {
            hosts: vec!["c1".to_owned()],
            of: 3,
        };
        assert_eq!(facts(&step), [expected]);
        let views = views(&step);
        let shares: Vec<Option<f64>> = views.iter().map(ClientView::link_share).collect();
        assert_eq!(shares, [Some(0.96), Some(1.4), None]);
    }

    #[test]
    fn links_tell_what_holds_each_host_where_all_of_them_are_full_or_have_room() {
        let mut step = three([0.4, 0.4, 0.4], false);
        let mut hold_with = |ways: [Option<(f64, f64)>; 3]| {
            step.telemetry.client_hosts = linked(ways);
            hold(&step)
        };
        let (full, room) = (Some((0.1, 0.97)), Some((0.3, 0.1)));
        assert_eq!(hold_with([full; 3]), Some(ClientHold::OwnLink));
        assert_eq!(hold_with([room; 3]), Some(ClientHold::Server));
        assert_eq!(hold_with([full, room, room]), None);
        assert_eq!(hold_with([room, room, None]), None);
        assert_eq!(hold_with([Some((0.86, 0.1)); 3]), None, "nearly full");
        assert_eq!(hold_with([Some((1.3, 0.1)); 3]), None, "of another rate");
        assert_eq!(hold(&a_step().build()), None, "one host");
        // A card that is held to less than its rate, and a link of which one way is known.
        step.telemetry.client_hosts = linked([room; 3]);
        let mut links = step.telemetry.client_hosts.iter_mut();
        let link = links.next().and_then(|of| of.link.as_mut());
        let link = link.expect("it has one");
        link.card.insert("bw_in_allowance_exceeded".to_owned(), 3);
        assert_eq!(hold(&step), None);
        step.telemetry.client_hosts = linked([room; 3]);
        if let Some(link) = &mut step.telemetry.client_hosts[1].link {
            link.downlink_share = None;
        }
        assert_eq!(hold(&step), None);
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
