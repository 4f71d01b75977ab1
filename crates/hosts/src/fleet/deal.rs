//! How one load is dealt to the hosts that make it together. A function of the load and of how many hosts there are.
//!
//! Connections, bounds and counts are dealt as evenly as can be, to the last one; the first hosts have what is left
//! over. Arrivals of an open loop and rows of data are dealt by the engine, by [`Share`].

use wallfinder_engine::StepSpec;
use wallfinder_model::drive::Share;
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

/// The part of a step that a host has, with so many workers on these processors.
pub(super) fn part(spec: &StepSpec, share: Share, workers: u32, cpus: Vec<u32>) -> StepSpec {
    let of = |whole: u32| share.of(u64::from(whole)) as u32;
    let load = &spec.load;
    StepSpec {
        load: Load {
            connections: of(load.connections),
            max_in_flight: load.max_in_flight.map(of),
            workers,
            stop: Stop {
                requests: load.stop.requests.map(|whole| share.of(whole)),
                ..load.stop
            },
            ..load.clone()
        },
        share,
        cpus,
        samples: spec
            .samples
            .as_ref()
            .map(|channel| channel.of_host(share.nth as u16)),
        spare_connections: of(spec.spare_connections),
        ..spec.clone()
    }
}

/// So many workers in all, by the processors that each host has: where there is one for each, each host has one for each
/// of its own.
pub(super) fn workers(whole: u32, processors: &[usize]) -> Vec<u32> {
    let all: usize = processors.iter().sum();
    let hosts = processors.len() as u32;
    let shares = (0..hosts).map(|nth| Share { nth, of: hosts });
    match whole as usize == all {
        true => processors.iter().map(|own| *own as u32).collect(),
        false => shares
            .map(|share| (share.of(u64::from(whole)) as u32).max(1))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wallfinder_model::scenario::Io;
    use wallfinder_wire::Exchange;
    use wallfinder_wire::http1::Request;

    use super::*;

    fn whole(load: Load, spare: u32) -> StepSpec {
        StepSpec {
            load,
            share: Share::WHOLE,
            address: ([127, 0, 0, 1], 9).into(),
            request: Exchange::Http1(Request::get("h", "/")),
            tls: None,
            cpus: Vec::new(),
            io: Io::Auto,
            seed: 1,
            samples: None,
            spare_connections: spare,
            paddings: Vec::new(),
            under_quota: false,
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
            let parts: Vec<StepSpec> = (0..of)
                .map(|nth| part(&whole, Share { nth, of }, 1, Vec::new()))
                .collect();
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

    #[test]
    fn workers_follow_processors_where_each_has_one() {
        assert_eq!(workers(7, &[4, 1, 2]), [4, 1, 2]);
        assert_eq!(workers(3, &[4, 1, 2]), [1, 1, 1]);
        assert_eq!(workers(5, &[4, 1, 2]), [2, 2, 1]);
        assert_eq!(workers(1, &[4, 1, 2]), [1, 1, 1]);
    }
}
