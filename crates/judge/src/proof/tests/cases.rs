//! Single cases: what is in reach, what is said, and what telemetry knows better.

use wallfinder_model::detail::ClientHold;
use wallfinder_model::evidence::Fact;
use wallfinder_model::experiment::{Connections, Effort, Experiment, Neighbour, Squeeze};
use wallfinder_model::profile::{Measure, ProfileKind, Profiles, Reading, Site};
use wallfinder_model::reason::{Doubt, Odd, Open};
use wallfinder_model::record::ThroughputFrom;
use wallfinder_model::telemetry::{HostSummary, SocketsSummary, ThreadShare};
use wallfinder_model::verdict::How;
use wallfinder_model::{Arrival, Caveat, Detail, Rate, Reason, Step, Verdict, Wall};

use super::judge;
use crate::clients::tests::{linked, three};
use crate::double::a_step;
use crate::proof::synthetic::{Conditions, System, experiment_of, run};

/// What can be said without privilege: the load generator and the number in flight.
#[test]
fn without_privilege_the_client_is_proved_and_the_server_only_observed() {
    let unprivileged = |system: &System, seed: u64| {
        judge(&run(
            system,
            Conditions {
                unprivileged: true,
                seed,
                ..Conditions::default()
            },
        ))
    };
    let client = System {
        client: 300e-6,
        ..System::default()
    };
    let server = System {
        server: 200e-6,
        ..System::default()
    };
    let sleep = System {
        delay: 5e-3,
        in_flight: 8.0,
        ..System::default()
    };
    let (mut proved, mut in_flight_excluded) = (0, 0);
    for seed in 0..8 {
        let verdict = unprivileged(&client, seed);
        assert_eq!(verdict.wall, Wall::ClientCpu, "{verdict:#?}");
        assert!(verdict.how >= How::Likely);
        proved += u32::from(verdict.how == How::Proved);
        let verdict = unprivileged(&server, seed);
        assert_eq!(
            (verdict.wall, verdict.how),
            (Wall::ServerCpu, How::Observed),
            "{verdict:#?}"
        );
        let Reason::ByTelemetry {
            ruled_out,
            observed,
        } = &verdict.reason
        else {
            panic!("{verdict:#?}");
        };
        assert_eq!(ruled_out.first(), Some(&Wall::ClientCpu));
        in_flight_excluded += u32::from(ruled_out.contains(&Wall::Concurrency));
        assert!(matches!(&**observed, Reason::Full { full, .. } if full.wall == Wall::ServerCpu));
        let verdict = unprivileged(&sleep, seed);
        assert_eq!(verdict.wall, Wall::Concurrency, "{verdict:#?}");
    }
    assert!(proved >= 6, "{proved} of 8");
    assert!(in_flight_excluded >= 6, "{in_flight_excluded} of 8");
}

/// A foreign driver: what it has in flight cannot be squeezed, and its connections are counted.
#[test]
fn a_drivers_pool_is_named_by_its_connections() {
    let system = System {
        delay: 5e-3,
        in_flight: 64.0,
        client_pool: Some(4.0),
        ..System::default()
    };
    let with_open = |open: u32| {
        let mut step = run(&system, Conditions::default());
        let experiment = step.experiment.as_mut().unwrap();
        let conditions = experiment.conditions.clone();
        experiment.windows.retain(|window| {
            let of_the_engine = [
                Some(Squeeze::InFlight),
                Some(Squeeze::MoreInFlight),
                Some(Squeeze::ThinkTime),
            ];
            !of_the_engine.contains(&conditions[window.condition as usize].squeeze)
        });
        experiment.setting.own_engine = false;
        experiment.setting.connections = Some(Connections { asked: 64, open });
        judge(&step)
    };
    let verdict = with_open(4);
    assert_eq!(
        (verdict.wall, verdict.how),
        (Wall::Concurrency, How::Likely)
    );
    assert_eq!(
        verdict.detail,
        Some(Detail::FewConnections { asked: 64, open: 4 })
    );
    let detail = with_open(64).detail;
    assert!(!detail.is_some_and(|detail| detail.is_on_client()));
}

/// Pauses are work for processors that are full: what they cost there tells of no pool.
#[test]
fn a_pause_tells_of_a_pool_only_where_the_client_has_room() {
    let system = System {
        delay: 5e-3,
        in_flight: 64.0,
        client_pool: Some(4.0),
        ..System::default()
    };
    let with_busy = |cpus_busy: f64| {
        let mut step = run(&system, Conditions::default());
        let client = step.telemetry.client.as_mut().unwrap();
        (client.cpus_busy, client.cpus_allowed) = (cpus_busy, vec![1]);
        judge(&step)
    };
    let roomy = with_busy(0.3);
    assert_eq!(roomy.wall, Wall::Concurrency, "{roomy:#?}");
    assert!(roomy.detail.is_some_and(|detail| detail.is_on_client()));
    let full = with_busy(1.0);
    assert_ne!(full.wall, Wall::Concurrency, "{full:#?}");
    assert!(!full.detail.is_some_and(|detail| detail.is_on_client()));
}

/// With several client hosts, one of which rests in turns: whether more of them would carry more.
#[test]
fn more_clients_carry_more_where_what_each_of_them_has_is_the_wall() {
    let systems = |hosts: f64| {
        let base = System {
            hosts,
            in_flight: 64.0,
            ..System::default()
        };
        [
            (
                Wall::ServerCpu,
                0.0,
                System {
                    server: 200e-6,
                    ..base.clone()
                },
            ),
            (
                Wall::ClientCpu,
                1.0,
                System {
                    client: 200e-6 * hosts,
                    ..base.clone()
                },
            ),
            (
                Wall::Concurrency,
                0.0,
                System {
                    delay: 50e-3,
                    ..base.clone()
                },
            ),
            (
                Wall::Wait,
                0.0,
                System {
                    inner: 1e-3,
                    ..base.clone()
                },
            ),
            (
                Wall::Wait,
                1.0,
                System {
                    per_client: 1e-3 * hosts,
                    ..base
                },
            ),
        ]
    };
    let (mut read, mut undecided) = (0, 0);
    for hosts in [2.0, 3.0, 5.0, 12.0] {
        for (wall, truth, system) in systems(hosts) {
            for seed in 0..3 {
                let conditions = Conditions {
                    seed,
                    ..Conditions::default()
                };
                let verdict = judge(&run(&system, conditions));
                if verdict.wall == Wall::Inconclusive {
                    undecided += 1;
                    continue;
                }
                assert_eq!(verdict.wall, wall, "{hosts} hosts: {verdict:#?}");
                // Nothing is known of their links.
                let is_per_client = verdict.detail == Some(Detail::HeldPerClient { by: None });
                assert_eq!(is_per_client, system.per_client > 0.0, "{verdict:#?}");
                if let Some(more) = verdict.elasticities.get(Squeeze::MoreClients.label()) {
                    assert!(
                        (more.value - truth).abs() < 0.2,
                        "{hosts} hosts: {more:?}, {wall:?}"
                    );
                    read += 1;
                }
            }
        }
    }
    assert!(
        undecided <= 6 && read >= 51,
        "{read} of 60 tell it, {undecided} are undecided"
    );
}

/// The same, and each host's own link was seen.
#[test]
fn a_limit_for_each_client_is_its_link_where_that_is_full_and_the_servers_where_it_has_room() {
    let system = System {
        hosts: 3.0,
        in_flight: 64.0,
        per_client: 3e-3,
        ..System::default()
    };
    let mut decided = 0;
    for seed in 0..3 {
        let conditions = Conditions {
            seed,
            ..Conditions::default()
        };
        let mut step = run(&system, conditions);
        step.clients = three([0.3; 3], false).clients;
        step.telemetry.server_host = Some(HostSummary::default());
        for (downlinks, way, by) in [
            ([0.98, 0.97, 0.99], Some(0.1), Some(ClientHold::OwnLink)),
            ([0.3, 0.2, 0.3], Some(0.1), Some(ClientHold::Server)),
            ([0.98, 0.2, 0.3], Some(0.1), None),
            // The way between may hold each of them.
            ([0.3, 0.2, 0.3], None, None),
        ] {
            step.telemetry.server_sockets = Some(SocketsSummary {
                busy_share: way,
                ..SocketsSummary::default()
            });
            step.telemetry.client_hosts = linked(downlinks.map(|share| Some((share, 0.1))));
            let verdict = judge(&step);
            if verdict.wall == Wall::Inconclusive {
                continue;
            }
            decided += 1;
            assert_eq!(verdict.wall, Wall::Wait, "{verdict:#?}");
            assert_eq!(verdict.detail, Some(Detail::HeldPerClient { by }));
        }
    }
    assert!(decided >= 4, "{decided} of 12");
}

/// Half of the hosts at rest may be more than what is slack allows, which tells nothing of a small dose.
#[test]
fn a_large_part_of_the_hosts_at_rest_says_no_more_than_it_can() {
    let system = System {
        hosts: 2.0,
        server: 200e-6,
        client: 280e-6,
        in_flight: 64.0,
        ..System::default()
    };
    let verdict = judge(&run(&system, Conditions::default()));
    assert_eq!(verdict.wall, Wall::ServerCpu, "{verdict:#?}");
    let more = verdict.elasticities.get(Squeeze::MoreClients.label());
    assert!(more.is_none(), "{more:?}");
}

/// One slow host of three: what is taken from all of them costs little, and it is the wall all the same.
#[test]
fn a_client_host_that_is_alone_behind_an_open_loop_is_its_wall() {
    let system = System {
        open: Some(20_000.0),
        ..System::default()
    };
    let judged = |behind: &[usize]| {
        let mut step = three([0.3, 0.99, 0.3], true);
        for nth in behind {
            let counts = &mut step.clients[*nth].counts;
            (counts.not_sent, counts.scheduled) = (30_000, 90_000);
            step.counts.not_sent += 30_000;
            step.counts.scheduled += 30_000;
        }
        step.experiment = run(&system, Conditions::default()).experiment;
        judge(&step)
    };
    let verdict = judged(&[1]);
    assert_eq!(
        (verdict.wall, verdict.how),
        (Wall::ClientCpu, How::Observed),
        "{verdict:#?}"
    );
    let hosts = vec!["c2".to_owned()];
    assert_eq!(verdict.detail, Some(Detail::ClientHosts { hosts, of: 3 }));
    // Where one with room is behind too, it is something else.
    assert_ne!(judged(&[0, 1]).wall, Wall::ClientCpu);
}

/// Where one host makes the load none of this is asked.
#[test]
fn one_client_host_is_not_put_to_rest() {
    let step = run(&System::default(), Conditions::default());
    let experiment = step.experiment.unwrap();
    let mut squeezes = experiment.conditions.iter().flat_map(|it| it.squeezes());
    assert!(squeezes.all(|squeeze| squeeze != Squeeze::MoreClients));
}

/// Fewer in flight cost a thread that never rests what it saves by taking several at once; more would bring
/// it nothing.
#[test]
fn where_a_thread_never_rests_there_is_enough_in_flight() {
    let system = System {
        delay: 5e-3,
        in_flight: 8.0,
        ..System::default()
    };
    let with_thread = |share: f64| {
        let mut step = run(
            &system,
            Conditions {
                effort: Effort::Quick,
                unprivileged: true,
                ..Conditions::default()
            },
        );
        let experiment = step.experiment.as_mut().unwrap();
        let conditions = experiment.conditions.clone();
        experiment.windows.retain(|window| {
            conditions[window.condition as usize].squeeze != Some(Squeeze::MoreInFlight)
        });
        step.telemetry.server.as_mut().unwrap().hottest_thread = Some(ThreadShare {
            tid: 7,
            name: "worker".to_owned(),
            share,
        });
        judge(&step)
    };
    let resting = with_thread(0.3);
    assert_eq!(
        (resting.wall, resting.how),
        (Wall::Concurrency, How::Likely)
    );
    // Telemetry is left to say what it is.
    let busy = with_thread(0.99);
    assert_eq!(busy.how, How::Observed, "{busy:#?}");
}

#[test]
fn a_verdict_says_what_a_colleague_would() {
    let system = System {
        downlink: 4e-3,
        ..System::default()
    };
    let verdict = judge(&run(
        &system,
        Conditions {
            slow: 0.0,
            noise: 0.002,
            ..Conditions::default()
        },
    ));
    let Reason::Moved { wall, moved, rest } = &verdict.reason else {
        panic!("{verdict:#?}");
    };
    assert_eq!((*wall, moved.squeeze), (Wall::Downlink, Squeeze::Downlink));
    assert!(
        (moved.by - 0.2).abs() < 0.01 && (moved.lost - 0.2).abs() < 0.01,
        "{moved:?}"
    );
    assert!(rest.squeezed && rest.moving.is_empty(), "{rest:?}");
    assert_eq!(verdict.how, How::Proved);
    let downlink = verdict.elasticities["downlink"];
    assert!((downlink.value - 1.0).abs() < 0.03 && downlink.rounds >= 6);
    assert_eq!(verdict.evidence[0].measure, "elasticity.downlink");
}

#[test]
fn a_squeeze_that_should_have_bound_and_did_not_is_said() {
    let null = System {
        server: 200e-6,
        inner: 260e-6,
        null: true,
        ..System::default()
    };
    let step = run(&null, Conditions::default());
    let verdict = judge(&step);
    assert!(verdict.how < How::Proved, "{verdict:#?}");
    let said = |caveat: &Caveat| {
        let squeeze = Squeeze::ServerSpeed;
        *caveat == Caveat::Inert { squeeze }
    };
    assert!(verdict.caveats.iter().any(said), "{:#?}", verdict.caveats);
}

/// Where a delayed acknowledgement stands in front of every answer, more connections carry
/// more; the wall is the timer all the same.
#[test]
fn a_timer_that_telemetry_knows_is_a_wait_and_not_concurrency() {
    let system = System {
        delay: 41e-3,
        in_flight: 64.0,
        ..System::default()
    };
    let step = crate::double::a_step()
        .throughput(system.throughput())
        .in_flight(64.0)
        .latency_ms(41.0, 41.0)
        .server(1.0, 0.02)
        .client(1.0, 0.02)
        .build();
    let mut run = run(&system, Conditions::default());
    run.telemetry = step.telemetry;
    run.telemetry.server_sockets = Some(SocketsSummary {
        sockets: 64,
        busy_share: Some(0.99),
        ..SocketsSummary::default()
    });
    run.latency = step.latency;
    run.service = step.service;
    let verdict = judge(&run);
    assert_eq!(
        (verdict.wall, verdict.how),
        (Wall::Wait, How::Likely),
        "{verdict:#?}"
    );
    assert_eq!(verdict.detail, Some(Detail::DelayedAck));
}

/// The run of a system with the telemetry of another step.
fn seen_as(system: &System, step: Step) -> Step {
    let mut run = run(system, Conditions::default());
    run.telemetry = step.telemetry;
    run
}

fn is_held_to_use(verdict: &Verdict) -> bool {
    let said = |caveat: &Caveat| matches!(caveat, Caveat::OverUse { .. });
    verdict.caveats.iter().any(said)
}

/// A CPU stealer holds up what wakes under a lock, so that a processor which hardly works answers.
#[test]
fn what_wakes_late_on_an_idle_processor_is_no_wall_of_it() {
    let system = System {
        inner: 1e-3,
        serial: 0.85e-3,
        ..System::default()
    };
    let telemetry = |busy: f64| {
        let step = crate::double::a_step().throughput(system.throughput());
        step.server(1.0, busy).client(1.0, 0.02).build()
    };
    let idle = judge(&seen_as(&system, telemetry(0.06)));
    assert_eq!(idle.wall, Wall::Wait, "{idle:#?}");
    assert!(is_held_to_use(&idle), "{:#?}", idle.caveats);
    let busy = judge(&seen_as(&system, telemetry(0.8)));
    assert_ne!(busy.wall, Wall::Wait, "{busy:#?}");
    assert!(!is_held_to_use(&busy), "{:#?}", busy.caveats);
}

/// A tenth of a core is little at work, and all that a quota allows.
#[test]
fn a_quota_that_is_used_up_is_no_idle_processor() {
    let system = System {
        client: 80e-6,
        ..System::default()
    };
    let telemetry = |quota: Option<f64>| {
        let step = crate::double::a_step().throughput(system.throughput());
        let step = step.server(1.0, 0.1).client(0.1, 0.9);
        let step = step.with(|step| {
            let client = step.telemetry.client.as_mut().expect("a client");
            client.quota_cores = quota;
        });
        step.build()
    };
    let held = judge(&seen_as(&system, telemetry(Some(0.1))));
    assert_eq!(held.wall, Wall::ClientCpu, "{held:#?}");
    assert!(!is_held_to_use(&held), "{:#?}", held.caveats);
    assert!(is_held_to_use(&judge(&seen_as(&system, telemetry(None)))));
}

/// Windows of 120 ms of a client under a quota of a tenth of a core, as measured: three rounds, with
/// nothing squeezed from 6,600 to 11,300/s. That fewer in flight seem to cost nothing is no evidence
/// of a pool then.
#[test]
fn what_is_hardly_known_is_no_evidence_of_a_pool() {
    let squeezes = [
        Squeeze::ServerSpeed,
        Squeeze::ServerCapacity,
        Squeeze::ClientSpeed,
        Squeeze::ClientCapacity,
        Squeeze::InFlight,
        Squeeze::ThinkTime,
    ];
    let rounds: [&[(u32, f64)]; 3] = [
        &[
            (0, 7228.0),
            (5, 9128.0),
            (6, 5938.0),
            (0, 8673.0),
            (2, 8287.0),
            (4, 5057.0),
            (0, 6649.0),
            (1, 5316.0),
            (3, 5441.0),
            (0, 9396.0),
        ],
        &[
            (0, 8612.0),
            (1, 8734.0),
            (2, 7496.0),
            (0, 9084.0),
            (3, 7463.0),
            (5, 9486.0),
            (0, 8999.0),
            (4, 5816.0),
            (6, 5785.0),
            (0, 9167.0),
        ],
        &[
            (0, 11302.0),
            (3, 8123.0),
            (1, 7039.0),
            (0, 7178.0),
            (4, 7474.0),
            (2, 9079.0),
            (0, 9177.0),
            (6, 6051.0),
            (5, 9168.0),
            (0, 9171.0),
        ],
    ];
    let mut experiment = experiment_of(&squeezes.map(|squeeze| (squeeze, 0.8)), &rounds.concat());
    experiment.effort = Effort::Quick;
    for (at, window) in experiment.windows.iter_mut().enumerate() {
        window.round = at as u32 / 10;
    }
    let mut step = crate::double::a_step()
        .server(1.0, 0.1)
        .client(0.1, 0.9)
        .build();
    step.experiment = Some(experiment);
    let verdict = judge(&step);
    assert_ne!(verdict.wall, Wall::Concurrency, "{verdict:#?}");
}

/// A pause takes work of whoever makes it, so that of a load generator at its limit costs throughput.
#[test]
fn a_pause_that_costs_a_busy_client_is_no_pool() {
    let squeezes = [
        (Squeeze::ServerSpeed, 0.8),
        (Squeeze::ClientSpeed, 0.8),
        (Squeeze::InFlight, 0.8),
        (Squeeze::ThinkTime, 0.8),
    ];
    let round = |at: u32| {
        let near = |level: f64| level + f64::from(at % 3);
        [
            (0, near(1000.0)),
            (1, near(999.0)),
            (2, near(800.0)),
            (0, near(1001.0)),
            (3, near(1000.0)),
            (4, near(830.0)),
            (0, near(1000.0)),
        ]
    };
    let windows: Vec<(u32, f64)> = (0..6).flat_map(round).collect();
    let mut step = crate::double::a_step()
        .server(1.0, 0.1)
        .client(1.0, 0.99)
        .build();
    step.experiment = Some(experiment_of(&squeezes, &windows));
    let verdict = judge(&step);
    assert_eq!(verdict.wall, Wall::ClientCpu, "{verdict:#?}");
    let mut facts = verdict.evidence.iter().map(|evidence| &evidence.fact);
    let is_said = facts.any(|fact| matches!(fact, Fact::PauseIsWork { used } if *used > 0.95));
    assert!(is_said, "{verdict:#?}");
}

/// Where throughput keeps up with what is offered, a quota shows in latency.
#[test]
fn bursts_that_a_quota_holds_up_are_told_beside_the_offered_load() {
    let system = System {
        open: Some(800.0),
        server: 300e-6,
        quota: Some(0.6),
        ..System::default()
    };
    let throttled = |share: f64| {
        let mut step = run(&system, Conditions::default());
        let server = step.telemetry.server.as_mut().expect("a server");
        server.throttled_share = share;
        judge(&step)
    };
    let verdict = throttled(0.17);
    assert_eq!(verdict.wall, Wall::OfferedLoad, "{verdict:#?}");
    assert!(matches!(
        verdict.detail,
        Some(Detail::BurstsThrottled { share }) if (share - 0.17).abs() < 1e-6
    ));
    assert_eq!(throttled(0.01).detail, None);
}

/// A proved verdict with one thing broken in its experiment.
fn broken(change: impl FnOnce(&mut Experiment)) -> (Wall, How, Vec<Caveat>) {
    let system = System {
        server: 200e-6,
        ..System::default()
    };
    let quiet = Conditions {
        noise: 0.005,
        slow: 0.0,
        ..Conditions::default()
    };
    let mut step = run(&system, quiet);
    change(step.experiment.as_mut().unwrap());
    let verdict = judge(&step);
    (verdict.wall, verdict.how, verdict.caveats)
}

/// No verdict stands on numbers of which one is another than it seems.
#[test]
fn a_law_that_is_off_by_far_leaves_nothing_to_be_said() {
    for off in [115.0, 4.0, 0.05] {
        let (wall, how, caveats) = broken(|experiment| {
            for window in &mut experiment.windows {
                window.in_flight_mean = window.in_flight_mean.map(|mean| mean * off);
            }
        });
        assert_eq!((wall, how), (Wall::Inconclusive, How::Inconclusive));
        let is_said = |c: &Caveat| matches!(c, Caveat::LittleMismatch { ratio } if (ratio / off - 1.0).abs() < 0.2);
        assert!(caveats.iter().any(is_said), "{caveats:?}");
    }
}

#[test]
fn what_edges_and_failures_explain_of_the_law_is_no_alarm() {
    let is_alarm = |caveats: &[Caveat]| {
        let mut alarms = caveats.iter();
        alarms.any(|c| matches!(c, Caveat::LittleMismatch { .. }))
    };
    // Windows of twenty answers, of which those under way at the edges are a good part.
    let (_, _, caveats) = broken(|experiment| {
        for (at, window) in experiment.windows.iter_mut().enumerate() {
            window.answered = 20;
            let off = if at % 3 == 0 { 0.9 } else { 1.1 };
            window.in_flight_mean = window.in_flight_mean.map(|mean| mean * off);
        }
    });
    assert!(!is_alarm(&caveats), "{caveats:?}");
    // One in two hundred failed, and was in flight as long as a window lasts.
    let (_, _, caveats) = broken(|experiment| {
        for window in &mut experiment.windows {
            window.failed = window.answered / 200;
            let area_s = window.failed as f64 * window.seconds();
            let more = area_s / window.seconds();
            window.in_flight_mean = window.in_flight_mean.map(|mean| mean + more);
        }
    });
    assert!(!is_alarm(&caveats), "{caveats:?}");
}

/// A latency in which most is the time before a request is sent, as with a permit or a new connection.
#[test]
fn the_law_is_of_the_time_in_flight() {
    let system = System::default();
    let mut step = run(&system, Conditions::default());
    for window in &mut step.experiment.as_mut().unwrap().windows {
        window.latency_mean_ns = window.latency_mean_ns.map(|mean| mean * 4.0);
    }
    let alarms = |step: &Step| {
        let verdict = judge(step);
        let mut caveats = verdict.caveats.into_iter();
        caveats.any(|c| matches!(c, Caveat::LittleMismatch { .. }))
    };
    assert!(alarms(&step));
    step.latency = Some(crate::double::times(8.0, 8.0, 10_000));
    step.service = Some(crate::double::times(2.0, 2.0, 10_000));
    step.in_flight_mean = step.throughput * 2e-3;
    assert!(!alarms(&step));
}

/// Whoever takes time of a full processor holds up what wakes on it. A side that used next to nothing of it
/// is no wall for that.
#[test]
fn a_side_that_rests_among_strangers_is_no_wall() {
    let squeezes = [
        (Squeeze::InFlight, 0.8),
        (Squeeze::ServerSpeed, 0.8),
        (Squeeze::ClientSpeed, 0.8),
    ];
    let beside = |client_used: f64| {
        let mut windows = Vec::new();
        for round in 0..6 {
            let wobble = 1.0 + 0.003 * f64::from(round % 3);
            windows.extend([
                (0, 50.0 * wobble),
                (1, 50.0),
                (0, 50.0),
                (2, 50.0 * wobble),
                (0, 50.0 * wobble),
                (3, 40.0),
            ]);
        }
        let mut experiment = experiment_of(&squeezes, &windows);
        experiment.setting.server_cpus = vec![0];
        experiment.setting.client_cpus = vec![1];
        experiment.setting.neighbours = vec![Neighbour {
            name: "burn (4711)".to_owned(),
            cores: 1.0,
        }];
        let mut step = a_step().server(1.0, 0.02).client(1.0, client_used).build();
        for family in [&mut step.telemetry.server, &mut step.telemetry.client] {
            let family = family.as_mut().unwrap();
            let used = family.utilisation;
            (family.cpus_busy, family.neighbour_cores) = (1.0, 1.0 - used);
        }
        step.experiment = Some(experiment);
        judge(&step)
    };
    let resting = beside(0.03);
    assert_eq!(resting.wall, Wall::Inconclusive, "{resting:#?}");
    let Reason::Undecided {
        why: Open::CrowdedOut { others },
        ..
    } = &resting.reason
    else {
        panic!("{resting:#?}");
    };
    let before: Vec<_> = others
        .before
        .iter()
        .map(|it| (&it.name[..], it.cores))
        .collect();
    assert_eq!(before, [("burn (4711)", 1.0)]);
    // One that works has to share, and its speed is what it lacks.
    let working = beside(0.5);
    assert_eq!(working.wall, Wall::ClientCpu, "{working:#?}");
}

/// As a server has it whose workers wait on the connections that a squeeze left open and silent.
#[test]
fn an_elasticity_beyond_its_share_or_too_wide_to_tell_names_nothing() {
    let squeezes = [
        (Squeeze::InFlight, 0.8),
        (Squeeze::ServerSpeed, 0.8),
        (Squeeze::ClientSpeed, 0.8),
    ];
    let of = |in_flight: fn(u32) -> f64| {
        let mut windows = Vec::new();
        for round in 0..6 {
            let wobble = 1.0 + 0.003 * f64::from(round % 3);
            windows.extend([
                (0, 400.0 * wobble),
                (1, 400.0 * in_flight(round)),
                (0, 400.0),
                (2, 400.0 * wobble),
                (0, 400.0 * wobble),
                (3, 400.0),
            ]);
        }
        let mut experiment = experiment_of(&squeezes, &windows);
        experiment.setting.server_cpus = vec![0];
        let mut step = a_step().server(1.0, 0.1).client(1.0, 0.1).build();
        step.experiment = Some(experiment);
        judge(&step)
    };
    let whole = of(|_| 0.8);
    assert_eq!(whole.wall, Wall::Concurrency, "{whole:#?}");
    let three_quarters = of(|_| 0.25);
    assert_eq!(
        three_quarters.wall,
        Wall::Inconclusive,
        "{three_quarters:#?}"
    );
    assert!(matches!(
        three_quarters.reason,
        Reason::Undecided {
            why: Open::Odd {
                odd: Odd::MoreThanItsShare,
                ..
            },
            ..
        }
    ));
    let wild = of(|round| [0.8, 0.3, 0.6, 0.3, 0.75, 0.5][round as usize]);
    assert_eq!(wild.wall, Wall::Inconclusive, "{wild:#?}");
}

#[test]
fn a_gate_that_fails_is_said_and_nothing_is_proved_past_it() {
    let (wall, how, _) = broken(|_| {});
    assert_eq!((wall, how), (Wall::ServerCpu, How::Proved));

    let (wall, how, caveats) = broken(|experiment| {
        experiment
            .windows
            .iter_mut()
            .for_each(|w| w.steal_share = 0.04);
    });
    assert_eq!((wall, how), (Wall::ServerCpu, How::Likely));
    assert!(
        caveats
            .iter()
            .any(|c| matches!(c, Caveat::StealAbove { .. }))
    );

    let (wall, how, caveats) = broken(|experiment| {
        experiment
            .windows
            .iter_mut()
            .for_each(|w| w.failed = w.answered / 200);
    });
    assert_eq!((wall, how), (Wall::ServerCpu, How::Likely));
    assert!(caveats.iter().any(|c| matches!(c, Caveat::Errors { .. })));

    let (wall, how, caveats) = broken(|experiment| {
        for window in &mut experiment.windows {
            window.latency_mean_ns = window.latency_mean_ns.map(|mean| mean * 0.9);
        }
    });
    assert_eq!((wall, how), (Wall::ServerCpu, How::Likely));
    assert!(
        caveats
            .iter()
            .any(|c| matches!(c, Caveat::LittleMismatch { .. }))
    );

    let (wall, how, caveats) = broken(|experiment| {
        experiment.setting.client_cpus = experiment.setting.server_cpus.clone()
    });
    assert_eq!((wall, how), (Wall::ServerCpu, How::Likely));
    assert!(
        caveats
            .iter()
            .any(|c| matches!(c, Caveat::SharedProcessors { .. }))
    );
    // Of two hosts each has a processor 0.
    let (wall, how, caveats) = broken(|experiment| {
        experiment.setting.client_cpus = experiment.setting.server_cpus.clone();
        experiment.setting.server_host = Some("db1".to_owned());
    });
    assert_eq!((wall, how), (Wall::ServerCpu, How::Proved));
    assert!(
        !caveats
            .iter()
            .any(|c| matches!(c, Caveat::SharedProcessors { .. }))
    );
}

#[test]
fn beyond_measure_nothing_is_said() {
    let (wall, ..) = broken(|experiment| {
        experiment
            .windows
            .iter_mut()
            .for_each(|w| w.failed = w.answered / 4);
    });
    assert_eq!(wall, Wall::Inconclusive);
    let (wall, ..) = broken(|experiment| {
        experiment
            .windows
            .iter_mut()
            .for_each(|w| w.steal_share = 0.3);
    });
    assert_eq!(wall, Wall::Inconclusive);
    let (wall, ..) = broken(|experiment| experiment.windows.clear());
    assert_eq!(wall, Wall::Inconclusive);
}

#[test]
fn what_was_cut_short_is_at_most_likely_and_says_so() {
    let (wall, how, caveats) = broken(|experiment| {
        let keep = experiment.windows.iter().filter(|w| w.round < 4).count();
        experiment.windows.truncate(keep);
        experiment.cut_short = Some("interrupted".to_owned());
    });
    assert_eq!((wall, how), (Wall::ServerCpu, How::Likely));
    assert!(caveats.iter().any(|c| matches!(c, Caveat::CutShort { .. })));
}

#[test]
fn starts_of_the_server_that_disagree_decide_nothing() {
    let (wall, how, _) = broken(|experiment| {
        for window in &mut experiment.windows {
            window.restart = u32::from(window.round % 6 >= 3);
            let squeeze = experiment.conditions[window.condition as usize].squeeze;
            if squeeze == Some(Squeeze::ServerSpeed) && window.restart == 1 {
                window.throughput /= 0.8;
            }
        }
    });
    assert_eq!((wall, how), (Wall::Inconclusive, How::Inconclusive));
}

/// A load generator that gains from a slower server, by so much for each per cent.
#[test]
fn throughput_that_rises_under_a_squeeze_is_said() {
    let system = System {
        client: 300e-6,
        ..System::default()
    };
    let quiet = Conditions {
        noise: 0.005,
        slow: 0.0,
        ..Conditions::default()
    };
    let judged = |elasticity: f64, own_engine: bool| {
        let mut step = run(&system, quiet);
        let experiment = step.experiment.as_mut().unwrap();
        experiment.setting.own_engine = own_engine;
        let conditions = experiment.conditions.clone();
        for window in &mut experiment.windows {
            let condition = &conditions[window.condition as usize];
            if condition.squeeze == Some(Squeeze::ServerSpeed) {
                window.throughput *= condition.retained.powf(elasticity);
            }
        }
        judge(&step)
    };
    let said = |verdict: &Verdict| {
        let rose = |caveat: &Caveat| match caveat {
            Caveat::Rose {
                squeeze,
                value,
                by_bytes,
                ..
            } => Some((*squeeze, *value, *by_bytes)),
            _ => None,
        };
        verdict.caveats.iter().find_map(rose)
    };
    let verdict = judged(-0.5, true);
    assert_eq!(verdict.wall, Wall::ClientCpu, "{verdict:#?}");
    let (squeeze, value, by_bytes) = said(&verdict).expect("it is said");
    assert_eq!((squeeze, by_bytes), (Squeeze::ServerSpeed, false));
    assert!((-1.0..-0.3).contains(&value), "{value}");
    let (.., by_bytes) = said(&judged(-0.5, false)).expect("it is said");
    assert!(by_bytes);
    assert_eq!(said(&judged(-0.03, true)), None);
}

/// A driver's windows show no failures: its own report of the load is what tells.
#[test]
fn of_a_driver_its_own_report_is_the_gate() {
    let system = System {
        server: 200e-6,
        ..System::default()
    };
    let quiet = Conditions {
        noise: 0.005,
        slow: 0.0,
        ..Conditions::default()
    };
    let judged = |change: fn(&mut Step)| {
        let mut step = run(&system, quiet);
        step.driver.throughput_from = ThroughputFrom::Report;
        let experiment = step.experiment.as_mut().unwrap();
        experiment.setting.own_engine = false;
        for window in &mut experiment.windows {
            (window.in_flight_mean, window.latency_mean_ns) = (None, None);
        }
        change(&mut step);
        let verdict = judge(&step);
        assert_eq!(verdict.wall, Wall::ServerCpu, "{verdict:#?}");
        (verdict.how, verdict.caveats)
    };

    let (how, caveats) = judged(|_| {});
    assert_eq!(how, How::Proved, "{caveats:#?}");
    let none = Caveat::FailuresUnseen {
        reported: Some(0.0),
    };
    assert!(caveats.contains(&none), "{caveats:#?}");

    let (how, caveats) = judged(|step| {
        let failed = step.counts.answered / 200;
        step.counts.failed.insert("status.5xx".into(), failed);
    });
    assert_eq!(how, How::Likely);
    let errors =
        |caveat: &&Caveat| matches!(caveat, Caveat::Errors { class, .. } if class == "status.5xx");
    assert_eq!(caveats.iter().filter(errors).count(), 1, "{caveats:#?}");

    let (how, caveats) = judged(|step| step.driver.throughput_from = ThroughputFrom::Wire);
    assert_eq!(how, How::Likely);
    assert!(caveats.contains(&Caveat::FailuresUncounted), "{caveats:#?}");

    let (how, caveats) = judged(|step| {
        let windows = &mut step.experiment.as_mut().unwrap().windows;
        windows.iter_mut().for_each(|w| w.throughput *= 1.7);
    });
    assert_eq!(how, How::Likely);
    let others = |caveat: &Caveat| matches!(caveat, Caveat::OtherAnswers { .. });
    assert!(caveats.iter().any(others), "{caveats:#?}");
}

/// Something beside the requests burns the group's time: it answers a quota and no CPU stealer.
#[test]
fn a_burner_in_the_servers_group_is_no_cpu_wall() {
    let (wall, ..) = broken(|experiment| {
        for window in &mut experiment.windows {
            let squeeze = experiment.conditions[window.condition as usize].squeeze;
            if squeeze == Some(Squeeze::ServerSpeed) {
                window.throughput /= experiment.conditions[window.condition as usize].retained;
            }
        }
    });
    assert_eq!(wall, Wall::Inconclusive);
}

/// Whoever reads *likely* after minutes is told what a proof would have needed.
#[test]
fn what_is_only_likely_says_what_a_proof_lacks() {
    let system = System {
        downlink: 4e-3,
        ..System::default()
    };
    let mut step = run(&system, Conditions::default());
    let said = |step: &Step| {
        let verdict = judge(step);
        let notes = verdict.caveats.iter().filter_map(|caveat| match caveat {
            Caveat::LikelyOnly { doubt } => Some(doubt.clone()),
            _ => None,
        });
        (verdict.wall, verdict.how, notes.collect::<Vec<_>>())
    };
    assert_eq!(said(&step), (Wall::Downlink, How::Proved, vec![]));

    let experiment = step.experiment.as_mut().unwrap();
    let conditions = experiment.conditions.clone();
    let mut left = 2;
    experiment.windows.retain(|window| {
        let condition = &conditions[window.condition as usize];
        if condition.squeeze != Some(Squeeze::Downlink) || condition.retained != 0.9 {
            return true;
        }
        left -= 1;
        left >= 0
    });
    let lacks = Doubt::SmallDoseFew {
        rounds: 2,
        needed: 3,
    };
    assert_eq!(said(&step), (Wall::Downlink, How::Likely, vec![lacks]));

    // At quick effort nothing is proved, and everybody is told so.
    step.experiment.as_mut().unwrap().effort = Effort::Quick;
    assert_eq!(said(&step), (Wall::Downlink, How::Likely, vec![]));
}

/// A server of two processors that are so busy, and whose speed was squeezed at four fifths of its cost,
/// with what it answered at four fifths of its capacity.
fn on_two_processors(busy: f64, at_capacity: f64) -> Step {
    let mut windows = Vec::new();
    for round in 0..8 {
        let wobble = 1.0 + 0.002 * f64::from(round % 3);
        windows.extend([
            (0, 1000.0),
            (1, 835.0 * wobble),
            (0, 1000.0),
            (2, at_capacity * wobble),
        ]);
    }
    windows.push((0, 1000.0));
    let squeezes = [(Squeeze::ServerSpeed, 0.8), (Squeeze::ServerCapacity, 0.8)];
    let mut experiment = experiment_of(&squeezes, &windows);
    experiment.setting.server_cpus = vec![0, 1];
    let mut step = a_step().server(2.0, busy).client(1.0, 0.2).build();
    step.experiment = Some(experiment);
    // Its work is spread over many threads.
    step.telemetry.server.as_mut().unwrap().hottest_thread = None;
    step
}

/// Of two processors that are nearly full a quota of four fifths costs a little, and that is no slack.
#[test]
fn a_capacity_that_costs_a_part_of_its_dose_makes_no_serial_section() {
    let wall = |busy: f64, at_capacity: f64| judge(&on_two_processors(busy, at_capacity)).wall;
    assert_eq!(wall(0.55, 1000.0), Wall::ServerSerial);
    assert_eq!(wall(0.85, 941.0), Wall::ServerCpu);
}

/// Somebody with a tenth of a core does not keep a server from the half of its processors that idles.
#[test]
fn a_neighbour_is_named_only_where_processors_are_full() {
    let beside = |cpus_busy: f64| {
        let mut step = on_two_processors(0.55, 1000.0);
        let experiment = step.experiment.as_mut().unwrap();
        experiment.setting.neighbours = vec![Neighbour {
            name: "cron (4711)".to_owned(),
            cores: 0.1,
        }];
        step.telemetry.server.as_mut().unwrap().cpus_busy = cpus_busy;
        judge(&step)
    };
    assert_eq!(beside(0.55).wall, Wall::ServerSerial);
    let crowded = beside(0.97);
    assert_eq!(crowded.wall, Wall::ServerCpu);
    assert!(matches!(
        &crowded.detail,
        Some(Detail::Neighbours { named }) if named[0].name == "cron (4711)"
    ));
}

/// Squeezes say that one runs at a time, and who looked inside says at what.
#[test]
fn a_serial_section_that_squeezes_establish_has_the_name_of_its_lock() {
    let mut step = on_two_processors(0.55, 1000.0);
    let waits = Reading {
        kind: ProfileKind::Block,
        measure: Measure {
            name: "delay".to_owned(),
            unit: "nanoseconds".to_owned(),
        },
        duration_ns: 1_000_000_000,
        total: 6_000_000_000,
        count: 600,
        idle: 0,
        named_share: 1.0,
        origins: Vec::new(),
        categories: Vec::new(),
        functions: Vec::new(),
        sites: vec![Site {
            function: "main.next".to_owned(),
            line: "next.go:7".to_owned(),
            waits_in: "sync.(*Mutex).Lock".to_owned(),
            value: 6_000_000_000,
            count: 600,
            idle: false,
            path: Vec::new(),
        }],
        tree: Vec::new(),
        whole: None,
    };
    step.profiles = Some(Profiles {
        readings: vec![waits],
        ..Profiles::default()
    });
    let verdict = judge(&step);
    assert_eq!(verdict.wall, Wall::ServerSerial);
    let Some(Detail::LockAt { place, .. }) = &verdict.detail else {
        panic!("{verdict:#?}");
    };
    assert_eq!(place.waits_in, "sync.(*Mutex).Lock");
    assert_eq!(place.function, "main.next");
}

/// Four workers that are full on sixteen processors are no lock.
#[test]
fn as_many_as_run_at_a_time_are_told() {
    let mut step = on_two_processors(0.55, 1000.0);
    let family = step.telemetry.server.as_mut().unwrap();
    family.cpu_ns = 4 * step.telemetry.window_ns;
    let experiment = step.experiment.as_mut().unwrap();
    experiment.setting.server_cpus = (0..16).collect();
    let verdict = judge(&step);
    assert_eq!(verdict.wall, Wall::ServerSerial);
    assert!(matches!(
        verdict.detail,
        Some(Detail::SomeRun { count }) if (3.5..4.5).contains(&count)
    ));
}

/// A database beside the server, which works as long as the server is loaded.
#[test]
fn who_works_beside_the_server_under_its_load_is_no_lock_of_it() {
    let mut step = on_two_processors(0.55, 1000.0);
    let family = step.telemetry.server.as_mut().unwrap();
    (family.neighbour_cores, family.cpus_busy) = (0.85, 0.98);
    let verdict = judge(&step);
    assert_eq!(verdict.wall, Wall::ServerCpu, "{verdict:#?}");
    assert!(verdict.how < How::Proved);
    assert!(matches!(
        verdict.detail,
        Some(Detail::Neighbour { cores }) if (cores - 0.85).abs() < 0.005
    ));
}

/// An open loop a tenth above what a server can do, and one of a half.
#[test]
fn a_rate_that_does_not_come_through_is_no_wall_of_its_own() {
    let asked = |share: f64| {
        let system = System {
            server: 200e-6,
            open: Some(share / 200e-6),
            ..System::default()
        };
        let mut step = run(&system, Conditions::default());
        step.load.arrival = Arrival::Constant {
            rate: Rate(share / 200e-6),
        };
        judge(&step).wall
    };
    assert_eq!(asked(0.5), Wall::OfferedLoad);
    assert_eq!(asked(1.1), Wall::ServerCpu);
}

/// What is asked for takes longer than any window waits: how many are in flight cannot be told within one.
#[test]
fn answers_that_outlast_the_wash_out_say_nothing_of_what_is_in_flight() {
    let slow = System {
        inner: 5e-3,
        ..System::default()
    };
    let mut step = run(&slow, Conditions::default());
    assert_eq!(judge(&step).wall, Wall::Wait);
    let experiment = step.experiment.as_mut().unwrap();
    for window in &mut experiment.windows {
        window.p99_ns = Some(5_000_000_000);
    }
    let verdict = judge(&step);
    assert_ne!(verdict.wall, Wall::Wait, "{verdict:#?}");
    assert!(!verdict.elasticities.contains_key("in-flight"));
    assert!(
        verdict.caveats.contains(&Caveat::OutlastWashOut),
        "{:#?}",
        verdict.caveats
    );
}

/// Nothing moves throughput of a server elsewhere: its sockets tell a link between the hosts from a wait in it.
#[test]
fn a_link_between_hosts_is_told_from_a_wait_by_the_servers_sockets() {
    let waits = System {
        inner: 2e-3,
        ..System::default()
    };
    let mut step = run(&waits, Conditions::default());
    assert_eq!(judge(&step).wall, Wall::Wait);
    let experiment = step.experiment.as_mut().unwrap();
    experiment.setting.server_host = Some("db1".to_owned());
    step.telemetry.server_host = Some(HostSummary::default());
    let mut seen = |busy_share: Option<f64>| {
        step.telemetry.server_sockets = busy_share.map(|busy| SocketsSummary {
            busy_share: Some(busy),
            rtt_p50_us: 66_000,
            ..SocketsSummary::default()
        });
        judge(&step)
    };
    let link = seen(Some(0.99));
    assert_eq!((link.wall, link.how), (Wall::Downlink, How::Observed));
    assert!(
        matches!(link.reason, Reason::BetweenHosts { .. }),
        "{link:#?}"
    );
    assert_eq!(seen(Some(0.01)).wall, Wall::Wait);
}
