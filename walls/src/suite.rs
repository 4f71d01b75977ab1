//! The scenarios, as data. Each row's arithmetic is in `docs/labelled-suite.md`.

use wallfinder_model::Detail;
use wallfinder_model::verdict::Wall::{
    ClientCpu, CoLimited, Concurrency, Downlink, Inconclusive, OfferedLoad, ServerCpu,
    ServerSerial, Uplink, Wait,
};

use crate::catalogue::CATALOGUE;
use crate::clients::CLIENTS;
use crate::http2::HTTP2;
use crate::routes::ROUTES;
use crate::scenario::Check::{Elasticity, P99AtLeastMs, Unproved};
use crate::scenario::Server::Subject;
use crate::scenario::{Expect, Lift, Scenario};
use crate::servers::SERVERS;

/// A server that does next to nothing, and a client that asks it with 16 in flight.
pub(crate) const PLAIN: Scenario = Scenario {
    name: "",
    server: Subject("knownwall"),
    link: None,
    scheme: "http",
    path: "/",
    flags: "-c 16",
    server_cpus: "0",
    beside: None,
    beside_client: None,
    slow_client: None,
    expect: Expect::NoEffect,
    function: None,
    rate: None,
    needs: None,
    lift: None,
    alone: &[],
};

const fn wall(walls: &'static [wallfinder_model::verdict::Wall]) -> Expect {
    made_of(walls, None)
}

pub(crate) const fn made_of(
    walls: &'static [wallfinder_model::verdict::Wall],
    detail: Option<fn(&Detail) -> bool>,
) -> Expect {
    Expect::Wall {
        walls,
        detail,
        checks: &[],
    }
}

fn by_quota(detail: &Detail) -> bool {
    matches!(
        detail,
        Detail::Quota { .. } | Detail::Throttled { .. } | Detail::BurstsThrottled { .. }
    )
}

fn by_a_lock(detail: &Detail) -> bool {
    matches!(detail, Detail::LockAt { .. })
}

pub(crate) fn by_a_thread(detail: &Detail) -> bool {
    let shared = |detail: &Detail| matches!(detail, Detail::SharedProcessors { thread: Some(_) });
    matches!(
        detail,
        Detail::HotThreads { .. } | Detail::InTurn | Detail::OneRuns
    ) || shared(detail)
}

pub(crate) fn four_at_a_time(detail: &Detail) -> bool {
    matches!(detail, Detail::Pool { at_once, .. } if (3.5..4.5).contains(at_once))
}

fn by_a_pool(detail: &Detail) -> bool {
    matches!(detail, Detail::Pool { .. })
}

fn by_the_accept_queue(detail: &Detail) -> bool {
    matches!(detail, Detail::AcceptQueue)
}

fn by_delayed_ack(detail: &Detail) -> bool {
    matches!(detail, Detail::DelayedAck)
}

fn by_a_collector(detail: &Detail) -> bool {
    matches!(detail, Detail::Collector { .. })
}

fn by_a_neighbour(detail: &Detail) -> bool {
    matches!(detail, Detail::Neighbour { .. } | Detail::Neighbours { .. })
}

pub(crate) fn by_streams(detail: &Detail) -> bool {
    matches!(detail, Detail::StreamsMax { .. })
}

pub(crate) fn per_connection(detail: &Detail) -> bool {
    matches!(detail, Detail::PerConnection { .. } | Detail::Bodies { .. })
}

fn by_phases(detail: &Detail) -> bool {
    matches!(detail, Detail::Phases)
}

/// Enough to see that everything works: a processor, and a lock whose function is named.
pub const SMOKE: [&str; 2] = ["spin-200us", "lock-sleep-1ms"];

/// Every scenario of all sections.
pub fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    let others = SERVERS.iter().chain(CATALOGUE).chain(HTTP2);
    SUITE.iter().chain(others).chain(ROUTES).chain(CLIENTS)
}

/// Every scenario with a server whose wall is dialled in.
pub const SUITE: &[Scenario] = &[
    Scenario {
        name: "spin-200us",
        server: Subject("knownwall --spin-us 200"),
        expect: wall(&[ServerCpu]),
        rate: Some((4_000.0, 5_000.0)),
        ..PLAIN
    },
    Scenario {
        name: "spin-1000us",
        server: Subject("knownwall --spin-us 1000"),
        expect: wall(&[ServerCpu]),
        rate: Some((850.0, 1_000.0)),
        ..PLAIN
    },
    Scenario {
        name: "server-quota",
        server: Subject("knownwall --spin-us 200"),
        flags: "-c 16 --server-quota 0.5",
        expect: made_of(&[ServerCpu], Some(by_quota)),
        rate: Some((1_800.0, 2_550.0)),
        ..PLAIN
    },
    Scenario {
        name: "client-spin-300us",
        flags: "-c 16 --driver '{bin}/knownwall-client --spin-us 300 -c {connections} -d {duration} {url}'",
        expect: wall(&[ClientCpu]),
        ..PLAIN
    },
    Scenario {
        name: "client-quota",
        flags: "-c 256 --client-quota 0.1",
        expect: made_of(&[ClientCpu], Some(by_quota)),
        ..PLAIN
    },
    Scenario {
        name: "downlink-20mbit",
        server: Subject("knownwall --answer-bytes 10000"),
        link: Some("20mbit"),
        expect: wall(&[Downlink]),
        rate: Some((225.0, 250.0)),
        ..PLAIN
    },
    Scenario {
        name: "uplink-20mbit",
        link: Some("20mbit"),
        flags: "-c 16 -m POST --body-bytes 10000",
        expect: wall(&[Uplink]),
        rate: Some((225.0, 250.0)),
        ..PLAIN
    },
    Scenario {
        name: "lock-sleep-1ms",
        server: Subject("knownwall --lock-sleep-us 1000 --workers 8"),
        expect: made_of(&[Wait], Some(by_a_lock)),
        function: Some("Work::request"),
        rate: Some((800.0, 1_000.0)),
        ..PLAIN
    },
    Scenario {
        name: "lock-spin-300us",
        server: Subject("knownwall --lock-spin-us 300 --workers 4"),
        server_cpus: "0,1",
        expect: made_of(&[ServerSerial], Some(by_a_lock)),
        function: Some("Work::request"),
        rate: Some((2_300.0, 3_334.0)),
        ..PLAIN
    },
    Scenario {
        name: "one-thread",
        server: Subject("knownwall --spin-us 200"),
        server_cpus: "0,1",
        expect: made_of(&[ServerSerial], Some(by_a_thread)),
        rate: Some((3_800.0, 5_000.0)),
        ..PLAIN
    },
    Scenario {
        name: "contention-behind-downlink",
        server: Subject("knownwall --answer-bytes 10000 --contend-threads 4"),
        link: Some("20mbit"),
        expect: wall(&[Downlink]),
        rate: Some((225.0, 250.0)),
        // Of the lock that nearly everything waits at.
        function: Some("it is not the wall"),
        ..PLAIN
    },
    Scenario {
        name: "async-sleep-5ms",
        server: Subject("knownwall --async-sleep-us 5000"),
        flags: "-c 8",
        expect: Expect::Wall {
            walls: &[Concurrency],
            detail: None,
            checks: &[Elasticity {
                squeeze: "in-flight",
                low: 0.9,
                high: 1.1,
            }],
        },
        rate: Some((1_350.0, 1_600.0)),
        ..PLAIN
    },
    Scenario {
        name: "pool-4x5ms",
        server: Subject("knownwall --permits 4 --permit-sleep-us 5000"),
        flags: "-c 64",
        expect: made_of(&[Wait], Some(four_at_a_time)),
        rate: Some((780.0, 801.0)),
        ..PLAIN
    },
    Scenario {
        name: "client-pool-4-of-64",
        server: Subject("knownwall --async-sleep-us 5000"),
        flags: "-c 64 --driver '{bin}/knownwall-client -c 64 --pool 4 -d {duration} {url}'",
        expect: made_of(&[Concurrency], Some(Detail::is_on_client)),
        ..PLAIN
    },
    Scenario {
        name: "open-50-percent",
        server: Subject("knownwall --spin-us 200"),
        flags: "-c 64 -R 2300",
        expect: wall(&[OfferedLoad]),
        rate: Some((2_270.0, 2_330.0)),
        ..PLAIN
    },
    Scenario {
        name: "open-120-percent",
        server: Subject("knownwall --spin-us 200"),
        flags: "-c 64 -R 5600",
        expect: wall(&[ServerCpu]),
        rate: Some((4_000.0, 5_000.0)),
        ..PLAIN
    },
    Scenario {
        name: "slow-accept",
        server: Subject("knownwall --backlog 4 --accept-delay-us 2000"),
        flags: "-c 16 --no-keepalive",
        expect: made_of(&[Wait], Some(by_the_accept_queue)),
        rate: Some((430.0, 501.0)),
        ..PLAIN
    },
    Scenario {
        name: "write-write-read",
        server: Subject("knownwall --nagle-wwr"),
        expect: made_of(&[Wait, Concurrency], Some(by_delayed_ack)),
        rate: Some((280.0, 401.0)),
        ..PLAIN
    },
    Scenario {
        name: "collector",
        server: Subject("catalogue --server nethttp --products 5000 --gogc 20"),
        path: "/compute?body=full",
        expect: made_of(&[ServerCpu], Some(by_a_collector)),
        function: Some("garbage collector"),
        ..PLAIN
    },
    Scenario {
        name: "neighbour",
        server: Subject("knownwall --spin-us 200"),
        beside: Some("knownwall --burn"),
        expect: made_of(&[ServerCpu], Some(by_a_neighbour)),
        rate: Some((1_800.0, 2_600.0)),
        ..PLAIN
    },
    Scenario {
        name: "bursts-under-quota",
        server: Subject("knownwall --spin-us 100 --burst-one-in 50 --burst-us 10000"),
        flags: "-c 64 -R 800 --server-quota 0.6",
        expect: made_of(&[OfferedLoad], Some(by_quota)),
        rate: Some((790.0, 810.0)),
        ..PLAIN
    },
    Scenario {
        name: "cpu-meets-link",
        server: Subject("knownwall --spin-us 1000 --answer-bytes 2400"),
        link: Some("20mbit"),
        expect: wall(&[CoLimited]),
        rate: Some((850.0, 1_000.0)),
        ..PLAIN
    },
    Scenario {
        name: "phases-200ms",
        server: Subject("knownwall --spin-us 800 --phase-ms 200 --answer-bytes 10000"),
        link: Some("100mbit"),
        expect: made_of(&[CoLimited, Inconclusive], Some(by_phases)),
        rate: Some((950.0, 1_250.0)),
        ..PLAIN
    },
    Scenario {
        name: "three-stages",
        server: Subject("knownwall --stages 3 --stage-mean-us 1000"),
        flags: "-c 4",
        expect: Expect::Wall {
            walls: &[Wait, CoLimited],
            detail: None,
            checks: &[Elasticity {
                squeeze: "in-flight",
                low: 0.22,
                high: 0.52,
            }],
        },
        rate: Some((600.0, 690.0)),
        ..PLAIN
    },
    Scenario {
        name: "batches",
        server: Subject("knownwall --batch-us 200 --each-us 10"),
        flags: "-c 256 --think 1ms",
        expect: wall(&[ServerCpu]),
        ..PLAIN
    },
    Scenario {
        name: "stall-500ms",
        server: Subject("knownwall --stall-ms 500 --stall-every-s 5"),
        flags: "-c 64 -R 1000",
        expect: Expect::Wall {
            walls: &[OfferedLoad],
            detail: None,
            checks: &[P99AtLeastMs(300.0)],
        },
        rate: Some((980.0, 1_020.0)),
        ..PLAIN
    },
    Scenario {
        name: "drift",
        server: Subject("knownwall --spin-us 200 --drift-percent-per-min 20"),
        expect: Expect::Wall {
            walls: &[Inconclusive, ServerCpu],
            detail: None,
            checks: &[Unproved],
        },
        ..PLAIN
    },
    Scenario {
        name: "warms-up",
        server: Subject("knownwall --spin-us 200 --cold-percent 60 --warm-s 6"),
        expect: wall(&[ServerCpu]),
        ..PLAIN
    },
    Scenario {
        name: "shared-cpu",
        server: Subject("knownwall --spin-us 1000"),
        server_cpus: "1",
        expect: wall(&[ServerCpu]),
        ..PLAIN
    },
    Scenario {
        name: "shared-cpus",
        server: Subject("knownwall --spin-us 1000 --workers 2"),
        server_cpus: "0,1",
        expect: wall(&[ServerCpu]),
        ..PLAIN
    },
    Scenario {
        name: "client-neighbour",
        flags: "-c 16 --driver '{bin}/knownwall-client --spin-us 300 -c {connections} -d {duration} {url}'",
        beside_client: Some("knownwall --burn"),
        expect: wall(&[ClientCpu]),
        ..PLAIN
    },
    Scenario {
        name: "null-spin",
        server: Subject("knownwall --spin-us 200"),
        flags: "-c 16 --null",
        ..PLAIN
    },
    Scenario {
        name: "null-downlink",
        server: Subject("knownwall --answer-bytes 10000"),
        link: Some("20mbit"),
        flags: "-c 16 --null",
        ..PLAIN
    },
    Scenario {
        name: "next-cpu-then-link",
        server: Subject("knownwall --spin-us 200 --answer-bytes 1000"),
        link: Some("60mbit"),
        expect: wall(&[ServerCpu]),
        rate: Some((4_000.0, 5_000.0)),
        lift: Lift::by_subject("knownwall --spin-us 20 --answer-bytes 1000", Downlink),
        ..PLAIN
    },
    Scenario {
        name: "next-cpu-then-uplink",
        server: Subject("knownwall --spin-us 400"),
        link: Some("60mbit"),
        flags: "-c 16 -m POST --body-bytes 2000",
        expect: wall(&[ServerCpu]),
        rate: Some((2_100.0, 2_500.0)),
        lift: Lift::by_subject("knownwall --spin-us 20", Uplink),
        ..PLAIN
    },
    Scenario {
        name: "next-cpu-then-client",
        server: Subject("knownwall --spin-us 250"),
        flags: "-c 16 --driver '{bin}/knownwall-client --spin-us 150 -c {connections} -d {duration} {url}'",
        expect: wall(&[ServerCpu]),
        rate: Some((3_200.0, 4_000.0)),
        lift: Lift::by_subject("knownwall --spin-us 20", ClientCpu),
        ..PLAIN
    },
    Scenario {
        name: "next-client-then-cpu",
        server: Subject("knownwall --spin-us 200"),
        flags: "-c 16 --driver '{bin}/knownwall-client --spin-us 300 -c {connections} -d {duration} {url}'",
        expect: wall(&[ClientCpu]),
        rate: Some((2_600.0, 3_334.0)),
        lift: Lift::by_flags(
            "-c 16 --driver '{bin}/knownwall-client --spin-us 20 -c {connections} -d {duration} {url}'",
            ServerCpu,
        ),
        ..PLAIN
    },
    Scenario {
        name: "next-link-then-cpu",
        server: Subject("knownwall --spin-us 600 --answer-bytes 2000"),
        link: Some("20mbit"),
        expect: wall(&[Downlink]),
        rate: Some((1_080.0, 1_210.0)),
        lift: Lift::by_link("200mbit", ServerCpu),
        ..PLAIN
    },
    Scenario {
        name: "next-uplink-then-cpu",
        server: Subject("knownwall --spin-us 400"),
        link: Some("30mbit"),
        flags: "-c 16 -m POST --body-bytes 2000",
        expect: wall(&[Uplink]),
        rate: Some((1_450.0, 1_750.0)),
        lift: Lift::by_link("200mbit", ServerCpu),
        ..PLAIN
    },
    Scenario {
        name: "next-downlink-then-uplink",
        server: Subject("knownwall --answer-bytes 5000"),
        link: Some("20mbit"),
        flags: "-c 16 -m POST --body-bytes 3000",
        expect: wall(&[Downlink]),
        rate: Some((420.0, 490.0)),
        lift: Lift::by_subject("knownwall --answer-bytes 500", Uplink),
        ..PLAIN
    },
    Scenario {
        name: "next-pool-then-link",
        server: Subject("knownwall --permits 4 --permit-sleep-us 5000 --answer-bytes 2000"),
        link: Some("20mbit"),
        flags: "-c 64",
        expect: made_of(&[Wait], Some(by_a_pool)),
        rate: Some((780.0, 801.0)),
        lift: Lift::by_subject(
            "knownwall --permits 16 --permit-sleep-us 5000 --answer-bytes 2000",
            Downlink,
        ),
        ..PLAIN
    },
    Scenario {
        name: "next-pool-then-cpu",
        server: Subject("knownwall --permits 4 --permit-sleep-us 5000 --spin-us 700"),
        flags: "-c 64",
        expect: made_of(&[Wait], Some(by_a_pool)),
        rate: Some((740.0, 801.0)),
        lift: Lift::by_subject(
            "knownwall --permits 64 --permit-sleep-us 5000 --spin-us 700",
            ServerCpu,
        ),
        ..PLAIN
    },
    Scenario {
        name: "next-lock-then-cpu",
        server: Subject("knownwall --workers 8 --lock-sleep-us 700 --spin-us 500"),
        expect: made_of(&[Wait], Some(by_a_lock)),
        function: Some("Work::request"),
        rate: Some((1_050.0, 1_429.0)),
        lift: Lift::by_subject("knownwall --workers 8 --spin-us 500", ServerCpu),
        ..PLAIN
    },
    Scenario {
        name: "next-concurrency-then-cpu",
        server: Subject("knownwall --async-sleep-us 5000 --spin-us 300"),
        flags: "-c 10",
        expect: wall(&[Concurrency]),
        rate: Some((1_450.0, 1_890.0)),
        lift: Lift::by_flags("-c 64", ServerCpu),
        ..PLAIN
    },
    Scenario {
        name: "next-concurrency-then-link",
        server: Subject("knownwall --async-sleep-us 5000 --answer-bytes 2000"),
        link: Some("20mbit"),
        flags: "-c 4",
        expect: wall(&[Concurrency]),
        rate: Some((600.0, 801.0)),
        lift: Lift::by_flags("-c 32", Downlink),
        ..PLAIN
    },
    Scenario {
        name: "next-load-then-cpu",
        server: Subject("knownwall --spin-us 200"),
        flags: "-c 64 -R 3300",
        expect: wall(&[OfferedLoad]),
        rate: Some((3_260.0, 3_340.0)),
        lift: Lift::by_flags("-c 64 -R 8000", ServerCpu),
        ..PLAIN
    },
    Scenario {
        name: "next-load-then-link",
        server: Subject("knownwall --answer-bytes 10000"),
        link: Some("20mbit"),
        flags: "-c 64 -R 150",
        expect: wall(&[OfferedLoad]),
        rate: Some((147.0, 153.0)),
        lift: Lift::by_flags("-c 64 -R 400", Downlink),
        ..PLAIN
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_the_smoke_set_is_in_the_suite() {
        let names: BTreeSet<&str> = scenarios().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), scenarios().count());
        assert!(SMOKE.iter().all(|name| names.contains(name)));
        let kebab = |name: &str| {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            !name.is_empty() && name.chars().all(plain)
        };
        assert!(names.iter().all(|name| kebab(name)));
    }

    #[test]
    fn every_scenario_is_explained() {
        let text = include_str!("../../docs/labelled-suite.md");
        for scenario in scenarios() {
            let heading = format!("`{}`", scenario.name);
            assert!(text.contains(&heading), "{heading} is not in the document");
        }
    }

    #[test]
    fn whoever_expects_no_effect_squeezes_nothing() {
        for scenario in scenarios() {
            let null = scenario.flags.contains("--null");
            let no_effect = matches!(scenario.expect, Expect::NoEffect);
            assert_eq!(null, no_effect, "{}", scenario.name);
        }
    }

    #[test]
    fn bounds_are_bounds() {
        for scenario in scenarios() {
            if let Some((least, most)) = scenario.rate {
                assert!(least < most, "{}", scenario.name);
            }
        }
    }
}
