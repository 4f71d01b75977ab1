//! How one load is dealt to the hosts that make it together. A function of the load and of how many hosts there are.
//!
//! Connections, bounds and counts are dealt in proportion to the hosts' weights, to the last one; where these are alike
//! that is as evenly as can be, and the first hosts have what is left over. Arrivals of an open loop and rows of data
//! are dealt by the engine: in turn by [`Share`], or unevenly by [`Slots`].

use std::sync::Arc;

use wallfinder_engine::StepSpec;
use wallfinder_model::drive::{Clients, LeverSetting, Share, Slots};
use wallfinder_model::{Load, Stop};

/// How many hosts a load has use for: each needs a connection, room for a request in flight where that is bounded, and
/// a request where they are counted.
pub(super) fn hosts_of(load: &Load, hosts: usize) -> usize {
    let bounds = [
        u64::from(load.connections),
        load.max_in_flight.map_or(u64::MAX, u64::from),
        load.stop.requests.unwrap_or(u64::MAX),
    ];
    let bound = bounds.into_iter().min().unwrap_or(u64::MAX).max(1);
    usize::try_from(bound).map_or(hosts, |bound| bound.min(hosts))
}

/// What each host has of a whole, in proportion to these weights, of which one at least is above 0. Each has something
/// where there is enough for all. What cannot be parted goes to those that lack most of a whole one, the first first.
pub(super) fn split(whole: u64, weights: &[f64]) -> Vec<u64> {
    let hosts = weights.len() as u64;
    let least = u64::from(whole >= hosts);
    let rest = in_proportion(whole - least * hosts, weights);
    rest.into_iter().map(|own| own + least).collect()
}

fn in_proportion(whole: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let wanted = weights.iter().map(|weight| whole as f64 * weight / sum);
    let wanted: Vec<f64> = wanted.collect();
    let mut parts: Vec<u64> = wanted.iter().map(|own| *own as u64).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|a, b| wanted[*b].fract().total_cmp(&wanted[*a].fract()));
    let left = whole.saturating_sub(parts.iter().sum());
    for nth in order.into_iter().cycle().take(left as usize) {
        parts[nth] += 1;
    }
    parts
}

/// The places of each host in a cycle of arrivals, in proportion to these weights and as far apart as can be; none where
/// the weights are alike, and hosts take turns.
fn slots(weights: &[f64]) -> Option<Vec<Arc<Slots>>> {
    if weights.iter().all(|weight| *weight == weights[0]) {
        return None;
    }
    // Weights are told apart to a thousandth of the whole, and to a hundredth of what a host has in the mean.
    let of = 1_000.max(100 * weights.len() as u32);
    let counts = split(u64::from(of), weights);
    let mut places: Vec<(f64, usize)> = Vec::with_capacity(of as usize);
    for (host, count) in counts.iter().enumerate() {
        let gap = 1.0 / *count as f64;
        places.extend((0..*count).map(|nth| ((nth as f64 + 0.5) * gap, host)));
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut own = vec![Vec::new(); weights.len()];
    for (nth, (_, host)) in (0..).zip(&places) {
        own[*host].push(nth);
    }
    let each = own.into_iter().map(|own| Arc::new(Slots { own, of }));
    Some(each.collect())
}

/// The part of a load that each of these has, 0..1: of the starts of an open loop, of the requests of a closed one that
/// counts them, and of its connections else.
pub(super) fn dealt(parts: &[StepSpec]) -> Vec<f64> {
    let closed = |part: &StepSpec| match part.load.stop.requests {
        Some(requests) => requests as f64,
        None => f64::from(part.load.connections),
    };
    let whole: f64 = parts.iter().map(closed).sum();
    let of = |part: &StepSpec| match &part.slots {
        _ if !part.load.arrival.is_open() => closed(part) / whole,
        Some(slots) => slots.own.len() as f64 / f64::from(slots.of),
        None => 1.0 / f64::from(part.share.of),
    };
    parts.iter().map(of).collect()
}

/// The parts of a step that hosts with these weights have.
pub(super) fn parts(spec: &StepSpec, weights: &[f64]) -> Vec<StepSpec> {
    let load = &spec.load;
    let each = |whole: u64| split(whole, weights);
    let connections = each(u64::from(load.connections));
    let bounds = load.max_in_flight.map(|bound| each(u64::from(bound)));
    let slots = slots(weights);
    let requests = load.stop.requests.map(|whole| match &slots {
        // The first so many of the schedule.
        Some(slots) if load.arrival.is_open() => {
            slots.iter().map(|slots| slots.within(whole)).collect()
        }
        _ => each(whole),
    });
    let own: Vec<f64> = connections.iter().map(|own| *own as f64).collect();
    let standing_by = standing_by(spec.standby_connections, &own);
    let spare = each(u64::from(spec.spare_connections));
    let of = weights.len() as u32;
    let part = |nth: usize| StepSpec {
        load: Load {
            connections: connections[nth] as u32,
            max_in_flight: bounds.as_ref().map(|bounds| bounds[nth] as u32),
            stop: Stop {
                requests: requests.as_ref().map(|requests| requests[nth]),
                ..load.stop
            },
            ..load.clone()
        },
        share: Share {
            nth: nth as u32,
            of,
        },
        slots: slots.as_ref().map(|slots| Arc::clone(&slots[nth])),
        samples: spec
            .samples
            .as_ref()
            .map(|channel| channel.of_host(nth as u16)),
        spare_connections: spare[nth] as u32,
        standby_connections: standing_by[nth],
        ..spec.clone()
    };
    (0..weights.len()).map(part).collect()
}

/// What each host has of so many connections, and of those that stand by.
pub(super) fn with_standby(connections: u32, standby: u32, weights: &[f64]) -> Vec<(u32, u32)> {
    let own = split(u64::from(connections), weights);
    let each: Vec<f64> = own.iter().map(|own| *own as f64).collect();
    let own = own.into_iter().map(|own| own as u32);
    own.zip(standing_by(standby, &each)).collect()
}

/// Connections that stand by on each host, where so many are taken over at the most: what any turn may ask of it.
fn standing_by(most: u32, connections: &[f64]) -> Vec<u32> {
    if most == 0 {
        return vec![0; connections.len()];
    }
    let all: f64 = connections.iter().sum();
    let each = connections.iter().map(|own| {
        let left = (all - f64::from(most)).max(*own);
        // What cannot be parted may make one more.
        (f64::from(most) * own / left).ceil() as u32 + 1
    });
    each.collect()
}

/// What each host does while some rest: with these connections, and these bounds of what is in flight, where there are
/// such.
pub(super) fn turns(
    (first, hosts): (u32, u32),
    connections: &[u32],
    bounds: Option<&[u32]>,
) -> Vec<Clients> {
    let all = connections.len();
    let rests = |nth: usize| (nth + all - (first as usize) % all) % all < hosts as usize;
    let taken_over = |each: &[u32]| -> Vec<u64> {
        let whole = (0..all)
            .filter(|nth| rests(*nth))
            .map(|nth| u64::from(each[nth]));
        let left: Vec<f64> = (0..all)
            .filter(|nth| !rests(*nth))
            .map(|nth| f64::from(each[nth]))
            .collect();
        let mut dealt = in_proportion(whole.sum(), &left).into_iter();
        let own = |nth: usize| {
            if rests(nth) {
                0
            } else {
                dealt.next().unwrap_or(0)
            }
        };
        (0..all).map(own).collect()
    };
    let (connections, bounds) = (taken_over(connections), bounds.map(taken_over));
    let turn = |nth: usize| match rests(nth) {
        true => Clients::Rests,
        false => Clients::TakesOver {
            connections: connections[nth] as u32,
            in_flight: bounds.as_ref().map_or(0, |bounds| bounds[nth] as u32),
        },
    };
    (0..all).map(turn).collect()
}

/// What each host does while there are so many in place of all these connections, or of these bounds of what is in flight:
/// whole ones, so that hosts with few of them have fewer, or more, too. One that has none left rests.
pub(super) fn places(setting: LeverSetting, places: u64, own: &[u32]) -> Vec<LeverSetting> {
    let weights: Vec<f64> = own.iter().map(|own| f64::from(*own)).collect();
    let all = own.iter().map(|own| u64::from(*own)).sum();
    if let Some(more) = places.checked_sub(all).filter(|more| *more > 0) {
        let of = |more| LeverSetting {
            clients: Clients::TakesOver {
                connections: 0,
                in_flight: more as u32,
            },
            in_flight: 1.0,
            ..setting
        };
        return in_proportion(more, &weights).into_iter().map(of).collect();
    }
    let dealt = in_proportion(places, &weights).into_iter().zip(weights);
    let of = |(left, own): (u64, f64)| match left {
        0 => LeverSetting {
            clients: Clients::Rests,
            in_flight: 1.0,
            ..setting
        },
        left => LeverSetting {
            in_flight: left as f64 / own,
            ..setting
        },
    };
    dealt.map(of).collect()
}

/// A step like this one, of which every host has a part that keeps it busy.
pub(super) fn for_all(spec: &StepSpec, hosts: usize) -> StepSpec {
    const CONNECTIONS_MIN: u32 = 16;
    let least = CONNECTIONS_MIN * hosts as u32;
    StepSpec {
        load: Load {
            connections: spec.load.connections.max(least),
            max_in_flight: None,
            stop: Stop {
                requests: None,
                ..spec.load.stop
            },
            ..spec.load.clone()
        },
        ..spec.clone()
    }
}

/// So many workers in all, by the processors that each host has: alike, but no host has more than processors while others
/// have fewer. Where there were one for each processor of all hosts, lost ones among them, each has one for each of its own.
pub(super) fn workers(whole: u32, of_all: usize, processors: &[usize]) -> Vec<u32> {
    let left: usize = processors.iter().sum();
    let hosts = processors.len() as u32;
    let whole = if whole as usize == of_all {
        left as u32
    } else {
        whole
    };
    if whole as usize > left {
        let shares = (0..hosts).map(|nth| Share { nth, of: hosts });
        return shares
            .map(|share| share.of(u64::from(whole)) as u32)
            .collect();
    }
    let mut workers = vec![1; processors.len()];
    for _ in hosts..whole {
        let has_room = |nth: &usize| (workers[*nth] as usize) < processors[*nth];
        let next = (0..processors.len())
            .filter(has_room)
            .min_by_key(|nth| workers[*nth]);
        next.into_iter().for_each(|nth| workers[nth] += 1);
    }
    workers
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wallfinder_model::scenario::Io;
    use wallfinder_model::{Arrival, Rate};
    use wallfinder_wire::Exchange;
    use wallfinder_wire::http1::Request;

    use super::*;

    fn whole(load: Load, spare: u32) -> StepSpec {
        StepSpec {
            load,
            share: Share::WHOLE,
            slots: None,
            address: ([127, 0, 0, 1], 9).into(),
            request: Exchange::Http1(Request::get("h", "/")),
            tls: None,
            cpus: Vec::new(),
            io: Io::Auto,
            seed: 1,
            samples: None,
            spare_connections: spare,
            standby_connections: 0,
            paddings: Vec::new(),
            under_quota: false,
            speed: 1.0,
        }
    }

    proptest! {
        #[test]
        fn what_is_dealt_adds_up_and_differs_by_one_at_the_most(
            hosts in 1_usize..200,
            connections in 1_u32..5_000,
            bound in prop::option::of(1_u32..5_000),
            requests in prop::option::of(1_u64..1_000_000),
            spare in 0_u32..300,
        ) {
            let mut load = Load::closed(connections);
            load.max_in_flight = bound;
            load.stop.requests = requests;
            let whole = whole(load, spare);
            let of = hosts_of(&whole.load, hosts) as u32;
            prop_assert!(of >= 1 && of as usize <= hosts);
            let parts = parts(&whole, &vec![1.0; of as usize]);
            let even = |each: Vec<u64>, whole: u64| {
                let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
                each.iter().sum::<u64>() == whole && most - least <= 1
            };
            let each = |of: &dyn Fn(&StepSpec) -> u64| parts.iter().map(of).collect::<Vec<u64>>();
            let connections_each = each(&|part| u64::from(part.load.connections));
            prop_assert!(connections_each.iter().all(|own| *own > 0));
            prop_assert!(even(connections_each, u64::from(connections)));
            prop_assert!(even(each(&|part| u64::from(part.spare_connections)), u64::from(spare)));
            if let Some(bound) = bound {
                let own = each(&|part| part.load.max_in_flight.map_or(0, u64::from));
                prop_assert!(own.iter().all(|own| *own > 0));
                prop_assert!(even(own, u64::from(bound)));
            }
            if let Some(requests) = requests {
                let own = each(&|part| part.load.stop.requests.unwrap_or(0));
                prop_assert!(own.iter().all(|own| *own > 0));
                prop_assert!(even(own, requests));
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_dealt_in_proportion_adds_up_and_is_off_by_one_at_the_most(
            weights in prop::collection::vec(0.01_f64..1_000.0, 1..40),
            whole in 0_u64..2_000_000,
        ) {
            let parts = split(whole, &weights);
            prop_assert_eq!(parts.iter().sum::<u64>(), whole);
            let hosts = weights.len() as u64;
            if whole >= hosts {
                prop_assert!(parts.iter().all(|own| *own >= 1));
                let sum: f64 = weights.iter().sum();
                for (own, weight) in parts.iter().zip(&weights) {
                    let wanted = 1.0 + (whole - hosts) as f64 * weight / sum;
                    prop_assert!((*own as f64 - wanted).abs() <= 1.0 + 1e-6);
                }
            }
        }

        #[test]
        fn starts_of_an_open_loop_are_dealt_in_proportion_and_adds_up_to_the_last(
            weights in prop::collection::vec(0.05_f64..10.0, 2..20),
            requests in 20_u64..100_000,
        ) {
            let mut load = Load::closed(100);
            load.arrival = Arrival::Constant { rate: Rate(1_000.0) };
            load.stop.requests = Some(requests);
            let parts = parts(&whole(load, 0), &weights);
            let counts = parts.iter().map(|part| part.load.stop.requests.unwrap_or(0));
            prop_assert_eq!(counts.sum::<u64>(), requests);
            let mut all: Vec<u32> = Vec::new();
            let sum: f64 = weights.iter().sum();
            for (part, weight) in parts.iter().zip(&weights) {
                let slots = part.slots.as_ref().expect("weights differ");
                prop_assert!(slots.is_sound());
                let share = slots.own.len() as f64 / f64::from(slots.of);
                let parts = weights.len() as f64;
                prop_assert!((share - weight / sum).abs() < parts / f64::from(slots.of) + 2e-3);
                all.extend(&slots.own);
            }
            all.sort_unstable();
            let of = 1_000.max(100 * weights.len() as u32);
            prop_assert_eq!(all, (0..of).collect::<Vec<u32>>());
        }

        #[test]
        fn who_rests_is_replaced_to_the_last_connection_by_those_that_stand_by(
            connections in prop::collection::vec(1_u32..200, 2..12),
            first in 0_u32..24,
            hosts in 1_u32..3,
            bound in prop::bool::ANY,
        ) {
            prop_assume!((hosts as usize) < connections.len());
            let bounds = bound.then_some(&connections[..]);
            let turns = turns((first, hosts), &connections, bounds);
            let of = |turn: &Clients| match turn {
                Clients::TakesOver { connections, in_flight } => (*connections, *in_flight),
                _ => (0, 0),
            };
            let own: Vec<f64> = connections.iter().map(|own| f64::from(*own)).collect();
            let rest = |nth: usize| turns[nth] == Clients::Rests;
            let resting = (0..turns.len()).filter(|nth| rest(*nth)).count();
            prop_assert_eq!(resting, hosts as usize);
            let gone: u32 = (0..turns.len()).filter(|nth| rest(*nth)).map(|nth| connections[nth]).sum();
            prop_assert_eq!(turns.iter().map(|turn| of(turn).0).sum::<u32>(), gone);
            let bounds = turns.iter().map(|turn| of(turn).1).sum::<u32>();
            prop_assert_eq!(bounds, if bound { gone } else { 0 });
            let standing = standing_by(gone, &own);
            for (turn, standing) in turns.iter().zip(standing) {
                prop_assert!(of(turn).0 <= standing, "{:?} {}", turn, standing);
            }
        }
    }

    #[test]
    fn starts_are_dealt_by_weight_to_however_many_hosts() {
        for hosts in [200, 2_000] {
            let weights: Vec<f64> = (0..hosts).map(|nth| f64::from(1 + nth % 4)).collect();
            let mut load = Load::closed(4 * hosts);
            load.arrival = Arrival::Constant { rate: Rate(9e6) };
            let parts = parts(&whole(load, 0), &weights);
            let dealt = dealt(&parts);
            assert!((dealt.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let sum: f64 = weights.iter().sum();
            for (own, weight) in dealt.iter().zip(&weights) {
                let wanted = weight / sum;
                assert!((own / wanted - 1.0).abs() < 0.05, "{own} {wanted}");
            }
            let of: Vec<u32> = parts
                .iter()
                .filter_map(|part| part.slots.as_ref())
                .flat_map(|slots| slots.own.iter().copied())
                .collect();
            let distinct: std::collections::BTreeSet<u32> = of.iter().copied().collect();
            assert_eq!(of.len(), distinct.len(), "no start is of two hosts");
            assert_eq!(of.len(), 100 * hosts as usize);
        }
    }

    #[test]
    fn of_few_connections_fewer_are_left_on_all_hosts_together() {
        let left = |left, own: &[u32]| -> Vec<(f64, bool)> {
            let all = places(LeverSetting::FREE, left, own).into_iter();
            all.map(|of| (of.in_flight, of.clients == Clients::Rests))
                .collect()
        };
        let two_thirds = (2.0 / 3.0, false);
        assert_eq!(left(6, &[3, 3, 2]), [two_thirds, two_thirds, (1.0, false)]);
        assert_eq!(
            left(2, &[1, 1, 1]),
            [(1.0, false), (1.0, false), (1.0, true)]
        );
    }

    #[test]
    fn what_is_told_of_a_closed_loop_is_of_its_requests_where_these_are_counted() {
        let mut load = Load::closed(16);
        let part = |load: Load| dealt(&parts(&whole(load, 0), &[1.0, 31.0]))[0];
        assert_eq!(part(load.clone()), 1.0 / 16.0);
        load.stop.requests = Some(3_200);
        assert!((part(load) - 1.0 / 32.0).abs() < 1e-3);
    }

    #[test]
    fn starts_of_one_host_are_as_far_apart_as_can_be() {
        let slots = slots(&[3.0, 1.0]).expect("they differ");
        let gaps = |nth: usize| slots[nth].own.windows(2).map(|two| two[1] - two[0]);
        assert!(gaps(0).all(|gap| gap <= 2) && gaps(1).all(|gap| (3..=5).contains(&gap)));
        assert!(super::slots(&[2.0; 5]).is_none());
    }

    #[test]
    fn what_more_there_is_of_a_bound_is_dealt_whole() {
        let more = |whole, own: &[u32]| -> Vec<(f64, u32)> {
            let each = places(LeverSetting::FREE, whole, own).into_iter();
            let of = |setting: LeverSetting| match setting.clients {
                Clients::TakesOver {
                    connections: 0,
                    in_flight,
                } => (setting.in_flight, in_flight),
                clients => panic!("{clients:?}"),
            };
            each.map(of).collect()
        };
        // A quarter more of sixteen, on eight hosts of two; and one more of two.
        let of_eight = more(20, &[2; 8]);
        assert!(of_eight.iter().all(|(left, _)| *left == 1.0));
        assert_eq!(of_eight.iter().map(|(_, more)| more).sum::<u32>(), 4);
        assert!(of_eight.iter().all(|(_, more)| *more <= 1));
        let of_two: u32 = more(3, &[1, 1]).iter().map(|(_, more)| more).sum();
        assert_eq!(of_two, 1);
    }

    #[test]
    fn workers_follow_processors_where_each_has_one() {
        let of = |whole| workers(whole, 7, &[4, 1, 2]);
        assert_eq!(of(7), [4, 1, 2]);
        assert_eq!(of(3), [1, 1, 1]);
        assert_eq!(of(5), [2, 1, 2]);
        assert_eq!(of(1), [1, 1, 1]);
        assert_eq!(of(9), [3, 3, 3]);
        // A host of two processors beside one of many, and three hosts of four, one of which is lost.
        assert_eq!(workers(16, 34, &[2, 32]), [2, 14]);
        assert_eq!(workers(12, 12, &[4, 4]), [4, 4]);
    }
}
