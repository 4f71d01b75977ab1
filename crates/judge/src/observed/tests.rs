//! Synthetic steps with known answers: every wall, and every trap that we know of.

use proptest::prelude::*;
use wallfinder_model::detail::{AtSockets, Exhausted};
use wallfinder_model::plan::Arrival;
use wallfinder_model::reason::{Beside, Capacity, Side, Sign, TimeOf};
use wallfinder_model::record::{Interval, Step, WorkerSummary};
use wallfinder_model::telemetry::{
    CoreSample, FamilySample, HostSummary, LinkSample, LinkSummary, RelaySummary, Sample,
    SocketsSummary, TcpSample, ThreadShare,
};
use wallfinder_model::{Caveat, Nanos, Wall};

use super::*;
use crate::double::{DoubleStep, a_machine, a_step, times};

fn judge(step: DoubleStep) -> Verdict {
    let verdict = verdict(&step.build(), &a_machine());
    check_invariants(&verdict);
    verdict
}

fn check_invariants(verdict: &Verdict) {
    assert!((0.0..=1.0).contains(&verdict.confidence), "{verdict:#?}");
    assert!(!verdict.evidence.is_empty(), "{verdict:#?}");
    assert!(matches!(verdict.how, How::Observed | How::Inconclusive));
    assert_eq!(
        verdict.how == How::Inconclusive,
        verdict.wall == Wall::Inconclusive
    );
    let written = serde_json::to_string(verdict).expect("plain data");
    // A number that is not finite would be null.
    serde_json::from_str::<Verdict>(&written).expect("what is written can be read");
    for fact in &verdict.evidence {
        assert!(fact.value.is_finite(), "{fact:?}");
    }
    for view in &verdict.resources {
        assert!((0.0..=1.0).contains(&view.utilisation), "{view:?}");
        for value in [view.demand_s, view.ceiling].into_iter().flatten() {
            assert!(value.is_finite() && value >= 0.0, "{view:?}");
        }
    }
    if let Some(next) = verdict.next {
        assert!(next.ratio.is_finite(), "{next:?}");
    }
    if verdict.wall == Wall::CoLimited {
        let sum: f64 = verdict.shares.values().sum();
        assert!((sum - 1.0).abs() < 1e-6, "{:?}", verdict.shares);
    }
}

/// What shows that the wall was full.
#[track_caller]
fn sign(verdict: &Verdict) -> &Sign {
    match &verdict.reason {
        Reason::Full { full, .. } => &full.sign,
        other => panic!("{other:#?}"),
    }
}

/// Asserts a wall, and shows the verdict where it is another.
#[track_caller]
fn expect(verdict: &Verdict, wall: Wall) {
    assert_eq!(verdict.wall, wall, "{verdict:#?}");
}

mod server {
    use super::*;

    #[test]
    fn a_full_core_beside_an_idle_client_is_the_servers_cpu() {
        let verdict = judge(a_step().server(1.0, 0.98).client(1.0, 0.41));
        expect(&verdict, Wall::ServerCpu);
        let Reason::Full { full, beside } = &verdict.reason else {
            panic!("{verdict:#?}");
        };
        let one = Capacity {
            cores: 1.0,
            quota: false,
        };
        let sign = Sign::Busy {
            capacity: one,
            busy: 0.98,
        };
        assert_eq!((full.wall, &full.sign), (Wall::ServerCpu, &sign));
        assert!((beside.client.unwrap() - 0.41).abs() < 1e-6, "{beside:?}");
        assert!(verdict.confidence > 0.85);
        let next = verdict.next.unwrap();
        assert_eq!(next.wall, Wall::ClientCpu);
        assert!((next.ratio - 1.0 / 0.41).abs() < 0.01);
    }

    #[test]
    fn a_quota_is_the_servers_cpu_though_the_host_looks_idle() {
        let verdict = judge(a_step().server(0.5, 0.99).client(1.0, 0.2).with(|step| {
            let server = step.telemetry.server.as_mut().unwrap();
            server.throttled_share = 0.97;
        }));
        expect(&verdict, Wall::ServerCpu);
        assert_eq!(verdict.detail, Some(Detail::Quota { cores: 0.5 }));
        assert!(matches!(
            sign(&verdict),
            Sign::Quota { throttled: Some(share), .. } if (share - 0.97).abs() < 1e-6
        ));
        assert!(verdict.caveats.iter().any(|c| matches!(
            c,
            Caveat::Throttled {
                side: Side::Server,
                ..
            }
        )));
    }

    #[test]
    fn one_hot_thread_on_two_processors_is_a_serial_section() {
        let verdict = judge(
            a_step()
                .server(2.0, 0.5)
                .with(|step| {
                    step.telemetry.client.as_mut().unwrap().cpus_allowed = vec![2];
                })
                .hottest_server("loop", 0.99),
        );
        expect(&verdict, Wall::ServerSerial);
        assert!(
            matches!(sign(&verdict), Sign::HotThreads { name, threads: 1, .. } if name == "loop")
        );
    }

    #[test]
    fn a_runtime_limited_to_one_processor_is_serial_though_no_thread_is_hot() {
        let verdict = judge(
            a_step()
                .server(2.0, 0.503)
                .with(|step| {
                    step.telemetry.client.as_mut().unwrap().cpus_allowed = vec![2];
                    step.telemetry.server.as_mut().unwrap().threads = 7;
                })
                .hottest_server("catalogue", 0.58),
        );
        expect(&verdict, Wall::ServerSerial);
        assert!(verdict.confidence <= 0.6, "it may be chance");
    }

    #[test]
    fn a_core_full_of_receive_work_is_found_behind_a_low_mean() {
        let verdict = judge(a_step().with(|step| {
            let server = step.telemetry.server.as_mut().unwrap();
            server.cpus_allowed = vec![0, 2, 3, 4];
            server.utilisation = 0.3;
            server.cpu_ns = 12_000_000_000;
            server.threads = 4;
            server.cpus_busy = 0.5;
            server.cpus_softirq = 0.22;
            step.telemetry.cores = (0..5)
                .map(|cpu| CoreSample {
                    cpu,
                    usr: if cpu == 2 { 0.1 } else { 0.3 },
                    softirq: if cpu == 2 { 0.89 } else { 0.0 },
                    ..CoreSample::default()
                })
                .collect();
        }));
        expect(&verdict, Wall::ServerSerial);
        assert_eq!(verdict.detail, Some(Detail::ReceiveWork { cpu: Some(2) }));
        assert!(matches!(sign(&verdict), Sign::ReceivingCore { cpu: 2, .. }));
    }

    #[test]
    fn receive_work_on_the_servers_only_core_is_its_cpu() {
        let verdict = judge(a_step().server(1.0, 0.7).client(1.0, 0.5).with(|step| {
            let server = step.telemetry.server.as_mut().unwrap();
            server.cpus_busy = 0.99;
            server.cpus_softirq = 0.28;
            server.neighbour_cores = 0.28;
        }));
        expect(&verdict, Wall::ServerCpu);
        assert_eq!(verdict.detail, Some(Detail::ReceiveWork { cpu: None }));
        assert!(
            !verdict
                .caveats
                .iter()
                .any(|c| matches!(c, Caveat::Neighbour { .. })),
            "interrupts are no neighbour"
        );
    }

    #[test]
    fn softirq_in_the_servers_own_time_is_not_what_fills_the_rest() {
        let verdict = judge(a_step().server(1.0, 0.62).client(1.0, 0.3).with(|step| {
            let server = step.telemetry.server.as_mut().unwrap();
            (server.cpus_busy, server.cpus_softirq) = (0.98, 0.2);
            server.neighbour_cores = 0.36;
            server.interrupt_cores = Some(0.0);
            server.run_wait_cores = 0.3;
        }));
        expect(&verdict, Wall::ServerCpu);
        assert!(
            matches!(verdict.detail, Some(Detail::Neighbour { cores }) if cores > 0.35),
            "{verdict:#?}"
        );
    }

    #[test]
    fn the_relay_of_a_link_is_no_neighbour_of_the_client() {
        let beside = |relay_cpu| {
            judge(a_step().server(1.0, 0.3).client(1.0, 0.4).with(|step| {
                let client = step.telemetry.client.as_mut().unwrap();
                client.cpus_busy = 1.0;
                client.neighbour_cores = 0.6;
                client.run_wait_cores = 0.58;
                step.telemetry.take_relay(RelaySummary {
                    cpus: vec![relay_cpu],
                    delay_ns: 500_000,
                    span_ns: 1_000_000_000,
                    cpu_ns: 590_000_000,
                    ..RelaySummary::default()
                });
            }))
        };
        let is_neighbour = |caveat: &Caveat| matches!(caveat, Caveat::Neighbour { .. });
        // The client has processor 1.
        let verdict = beside(1);
        expect(&verdict, Wall::ClientCpu);
        assert!(
            matches!(verdict.detail, Some(Detail::Relay { cores }) if (cores - 0.59).abs() < 1e-9),
            "{verdict:#?}"
        );
        assert!(!verdict.caveats.iter().any(is_neighbour), "{verdict:#?}");
        let apart = beside(2);
        assert!(apart.caveats.iter().any(is_neighbour), "{apart:#?}");
    }

    #[test]
    fn a_neighbour_on_the_servers_core_is_named() {
        let verdict = judge(a_step().server(1.0, 0.5).client(1.0, 0.3).with(|step| {
            let server = step.telemetry.server.as_mut().unwrap();
            server.cpus_busy = 1.0;
            server.neighbour_cores = 0.5;
            server.run_wait_cores = 0.48;
        }));
        expect(&verdict, Wall::ServerCpu);
        assert!(matches!(verdict.detail, Some(Detail::Neighbour { .. })));
        assert!(verdict.confidence < 0.9);
    }

    #[test]
    fn many_cores_near_full_with_tasks_waiting_are_a_wall() {
        let many = |run_wait: f64| {
            a_step().client(1.0, 0.1).with(move |step| {
                let server = step.telemetry.server.as_mut().unwrap();
                server.cpus_allowed = (10..138).collect();
                server.utilisation = 0.88;
                server.cpu_ns = (0.88 * 128.0 * 1e10) as u64;
                server.cpus_busy = 0.89;
                server.run_wait_cores = run_wait;
                server.threads = 400;
                server.hottest_thread = None;
            })
        };
        expect(&judge(many(60.0)), Wall::ServerCpu);
        // Without a queue in front of it, 88 % may as well wait for a slow client.
        expect(&judge(many(0.0)), Wall::Inconclusive);
    }
}

mod client {
    use super::*;

    #[test]
    fn full_workers_beside_an_idle_server_are_the_clients_cpu() {
        let verdict = judge(
            a_step()
                .client(1.0, 0.99)
                .server(1.0, 0.38)
                .ceiling(10_400.0),
        );
        expect(&verdict, Wall::ClientCpu);
        assert!(verdict.confidence > 0.9);
        assert!(matches!(
            &verdict.reason,
            Reason::Full {
                beside: Beside {
                    server: Some(_),
                    client: None
                },
                ..
            }
        ));
    }

    #[test]
    fn a_clients_quota_is_its_cpu() {
        let verdict = judge(a_step().client(0.3, 0.99).server(1.0, 0.2).with(|step| {
            step.workers[0].busy_share = 0.3;
            step.telemetry.client.as_mut().unwrap().throttled_share = 0.9;
        }));
        expect(&verdict, Wall::ClientCpu);
        assert!(matches!(verdict.detail, Some(Detail::Quota { .. })));
    }

    #[test]
    fn workers_that_poll_are_judged_by_their_ceiling() {
        let polling = |ceiling: f64, server: f64| {
            a_step()
                .client(1.0, 1.0)
                .server(1.0, server)
                .ceiling(ceiling)
                .with(|step| {
                    step.workers[0].waits = 90_000_000;
                    step.workers[0].events = 100_000;
                })
        };
        expect(&judge(polling(50_000.0, 0.98)), Wall::ServerCpu);
        expect(&judge(polling(10_100.0, 0.5)), Wall::ClientCpu);
        let idle = judge(polling(50_000.0, 0.3));
        assert_ne!(idle.wall, Wall::ClientCpu, "{idle:#?}");
    }

    #[test]
    fn a_foreign_driver_of_one_thread_is_full_at_one_core_of_two() {
        let verdict = judge(
            a_step()
                .driver("autocannon")
                .client(2.0, 0.52)
                .server(1.0, 0.45)
                .hottest_client("node", 0.97),
        );
        expect(&verdict, Wall::ClientCpu);
        assert!(verdict.confidence >= 0.75, "{}", verdict.confidence);
    }

    #[test]
    fn a_foreign_driver_of_one_thread_is_full_on_a_processor_it_shares() {
        let verdict = judge(
            a_step()
                .driver("autocannon")
                .client(2.0, 0.52)
                .hottest_client("node", 0.98)
                .server(1.0, 0.4)
                .with(|step| {
                    step.telemetry.client.as_mut().unwrap().cpus_allowed = vec![0, 1];
                    step.telemetry.client.as_mut().unwrap().cpus_busy = 0.72;
                    step.telemetry.server.as_mut().unwrap().cpus_allowed = vec![0, 1];
                    step.telemetry.server.as_mut().unwrap().cpus_busy = 0.72;
                    step.telemetry.server.as_mut().unwrap().utilisation = 0.2;
                    step.telemetry.server.as_mut().unwrap().cpu_ns = 4_000_000_000;
                }),
        );
        expect(&verdict, Wall::ClientCpu);
    }

    #[test]
    fn one_full_worker_among_idle_ones_does_not_decide() {
        let verdict = judge(a_step().client(1.0, 0.5).with(|step| {
            step.workers = (0..4)
                .map(|worker| WorkerSummary {
                    worker,
                    answered: 25_000,
                    busy_share: if worker == 0 { 1.0 } else { 0.3 },
                    waits: 10,
                    events: 100,
                    ..WorkerSummary::default()
                })
                .collect();
        }));
        assert_ne!(verdict.wall, Wall::ClientCpu, "{verdict:#?}");
    }

    #[test]
    fn full_workers_with_much_room_beside_a_full_server_leave_the_wall_to_the_server() {
        let verdict = judge(
            a_step()
                .client(1.0, 0.97)
                .server(1.0, 0.99)
                .ceiling(30_000.0),
        );
        expect(&verdict, Wall::ServerCpu);
    }

    #[test]
    fn running_out_of_ports_is_the_clients_side() {
        let verdict = judge(a_step().with(|step| {
            let failures = &mut step.counts.connect_failures;
            failures.insert("local.port".into(), 7_000);
            failures.insert("timeout.connect".into(), 9_000);
        }));
        expect(&verdict, Wall::Concurrency);
        let of = Exhausted::Ports;
        assert_eq!(verdict.reason, Reason::RanOut { of });
        assert_eq!(verdict.detail, Some(Detail::RanOut { of }));
    }

    #[test]
    fn a_server_that_refuses_connections_is_no_wall() {
        let refused = |count| {
            judge(a_step().with(|step| {
                let failures = &mut step.counts.connect_failures;
                failures.insert("net.refused".into(), count);
            }))
        };
        let verdict = refused(1_000_000);
        expect(&verdict, Wall::Inconclusive);
        assert!(matches!(
            &verdict.reason,
            Reason::TooManyFailures { class, .. } if class == "net.refused"
        ));
        assert_ne!(refused(1).wall, Wall::Inconclusive);
    }

    #[test]
    fn a_window_that_was_half_asleep_names_no_wall() {
        let with_gap = |share: f64, at: f64, driver: bool, workers_worked: bool| {
            let mut step = a_step().server(1.0, 0.99).client(1.0, 0.3);
            if driver {
                step = step.driver("wrk").client(1.0, 0.3);
            }
            judge(step.with(|step| {
                let of_window = |share| (step.window_ns as f64 * share) as u64;
                let (gap_ns, at_ns) = (of_window(share), step.load.warmup.0 + of_window(at));
                step.caveats.push(Caveat::Gap { gap_ns, at_ns });
                let span_ns = of_window(0.05);
                let slices = (1..=20).map(|nth| Interval {
                    at_ns: step.load.warmup.0 + nth * span_ns,
                    span_ns,
                    answered: step.counts.answered / 20,
                    ..Interval::default()
                });
                let inside = at_ns..at_ns + gap_ns;
                let was_there = |slice: &Interval| workers_worked || !inside.contains(&slice.at_ns);
                step.intervals = slices.filter(was_there).collect();
                if !driver {
                    caveats::tell_gaps_apart(step);
                }
            }))
        };
        let asleep = |share, at| with_gap(share, at, false, false);
        expect(&asleep(0.5, 0.2), Wall::Inconclusive);
        let short = asleep(0.1, 0.2);
        expect(&short, Wall::ServerCpu);
        // What lies behind the window does not count.
        let behind = asleep(0.5, 0.95);
        expect(&behind, Wall::ServerCpu);
        assert!(behind.confidence > short.confidence);
        // Telemetry was starved, and the workers were not; of a driver nobody knows.
        expect(&with_gap(0.8, 0.1, false, true), Wall::ServerCpu);
        assert_ne!(with_gap(0.8, 0.1, true, false).wall, Wall::Inconclusive);
    }
}

mod link {
    use super::*;

    #[test]
    fn a_full_downlink_and_a_full_uplink_are_told_apart() {
        let verdict = judge(a_step().link(0.97, 0.05).server(1.0, 0.4).client(1.0, 0.3));
        expect(&verdict, Wall::Downlink);
        assert!(verdict.confidence > 0.85);
        let verdict = judge(a_step().link(0.03, 0.96).server(1.0, 0.4).client(1.0, 0.3));
        expect(&verdict, Wall::Uplink);
    }

    #[test]
    fn an_uplink_of_unknown_rate_is_not_measured_by_the_downlinks() {
        // Ten seconds at 9.92 Mbit/s.
        const FULL_BYTES: u64 = 12_400_000;
        let step = |tx_bytes: u64, downlink_share: Option<f64>, uplink_share: Option<f64>| {
            let link = LinkSummary {
                rate_bits: Some(10_000_000),
                totals: LinkSample {
                    tx_bytes,
                    rx_bytes: FULL_BYTES,
                    ..LinkSample::default()
                },
                downlink_share,
                uplink_share,
                ..LinkSummary::default()
            };
            let step = a_step().server(1.0, 0.4).client(1.0, 0.3);
            judge(step.with(|step| step.telemetry.link = Some(link)))
        };
        let unknown = step(100_000, Some(0.01), None);
        assert_ne!(unknown.wall, Wall::Uplink, "{unknown:#?}");
        expect(&step(100_000, Some(0.01), Some(0.99)), Wall::Uplink);
        expect(&step(FULL_BYTES, None, Some(0.01)), Wall::Downlink);
    }

    #[test]
    fn a_link_above_its_own_rate_is_not_believed() {
        let verdict = judge(a_step().link(2.0, 0.05).server(1.0, 0.4).client(1.0, 0.3));
        assert_ne!(verdict.wall, Wall::Downlink, "{verdict:#?}");
    }

    #[test]
    fn a_full_link_and_a_full_server_are_both_named() {
        let verdict = judge(a_step().link(0.97, 0.05).server(1.0, 0.99).client(1.0, 0.3));
        expect(&verdict, Wall::CoLimited);
        assert!(verdict.shares.contains_key("downlink"));
        assert!(verdict.shares.contains_key("server-cpu"));
    }

    #[test]
    fn a_busy_background_thread_beside_a_full_link_is_not_called_the_wall_alone() {
        let verdict = judge(
            a_step()
                .link(0.98, 0.02)
                .server(2.0, 0.6)
                .with(|step| step.telemetry.client.as_mut().unwrap().cpus_allowed = vec![2])
                .hottest_server("burner", 1.0),
        );
        assert!(
            matches!(verdict.wall, Wall::Downlink | Wall::CoLimited),
            "{verdict:#?}"
        );
    }
}

mod load {
    use super::*;

    #[test]
    fn an_open_loop_that_got_its_rate_was_limited_by_asking() {
        let verdict = judge(a_step().throughput(9_990.0).open(10_000.0).server(1.0, 0.5));
        expect(&verdict, Wall::OfferedLoad);
        assert!(verdict.confidence > 0.9);
        assert_eq!(verdict.next.unwrap().wall, Wall::ServerCpu);
    }

    #[test]
    fn an_open_loop_beyond_the_server_is_the_servers_wall_with_a_backlog() {
        let verdict = judge(
            a_step()
                .throughput(10_000.0)
                .open(12_000.0)
                .server(1.0, 0.99),
        );
        expect(&verdict, Wall::ServerCpu);
        assert!(
            verdict
                .caveats
                .iter()
                .any(|c| matches!(c, Caveat::Backlog { .. }))
        );
        assert!(
            verdict
                .caveats
                .iter()
                .any(|c| matches!(c, Caveat::RateMissed { .. }))
        );
    }

    #[test]
    fn one_request_at_a_time_is_too_little_in_flight() {
        let verdict = judge(a_step().in_flight(1.0).throughput(5_000.0).server(1.0, 0.4));
        expect(&verdict, Wall::Concurrency);
    }

    #[test]
    fn pausing_connections_are_too_little_in_flight() {
        let verdict = judge(a_step().latency_ms(2.0, 2.0).with(|step| {
            step.load.arrival = Arrival::Closed {
                think: Nanos::from_millis(50),
            };
        }));
        expect(&verdict, Wall::Concurrency);
        assert_eq!(verdict.detail, Some(Detail::ThinkTime));
    }

    #[test]
    fn a_pool_on_the_clients_side_is_seen_by_what_is_in_flight() {
        let verdict = judge(
            a_step()
                .in_flight(4.0)
                .with(|step| step.load.connections = 64),
        );
        expect(&verdict, Wall::Concurrency);
        assert!(verdict.detail.unwrap().is_on_client());
    }

    #[test]
    fn a_request_that_is_all_work_does_not_queue() {
        let verdict = judge(
            a_step()
                .in_flight(1.2)
                .throughput(10_000.0)
                .latency_ms(0.12, 0.12)
                .server(1.0, 0.55)
                .client(1.0, 0.45),
        );
        expect(&verdict, Wall::Concurrency);
        assert!(verdict.confidence >= 0.6);
    }

    #[test]
    fn with_few_in_flight_the_greater_part_of_the_time_counts_without_being_full() {
        let verdict = judge(
            a_step()
                .in_flight(1.0)
                .throughput(1_300.0)
                .latency_ms(0.77, 0.7)
                .client(1.0, 0.8)
                .server(1.0, 0.1),
        );
        expect(&verdict, Wall::Inconclusive);
        assert!(matches!(
            verdict.reason,
            Reason::GreaterPart {
                wall: Wall::ClientCpu,
                ..
            }
        ));
    }

    #[test]
    fn a_long_round_trip_is_too_little_in_flight() {
        let verdict = judge(a_step().latency_ms(20.5, 20.3).with(|step| {
            step.telemetry.server_sockets = Some(SocketsSummary {
                sockets: 64,
                rtt_p50_us: 20_000,
                ..SocketsSummary::default()
            });
        }));
        expect(&verdict, Wall::Concurrency);
        assert!(matches!(
            verdict.reason,
            Reason::Explained {
                by: TimeOf::RoundTrip,
                ..
            }
        ));
    }

    /// Its queues make round trips long, and its own way is short.
    #[test]
    fn a_full_link_between_hosts_is_none_that_more_in_flight_would_fill() {
        let between = |host: Option<HostSummary>| {
            judge(a_step().latency_ms(135.0, 134.0).with(|step| {
                step.telemetry.server_host = host;
                step.telemetry.server_sockets = Some(SocketsSummary {
                    sockets: 16,
                    busy_share: Some(0.97),
                    rtt_p50_us: 131_000,
                    rtt_min_us: Some(10),
                    ..SocketsSummary::default()
                });
            }))
        };
        let verdict = between(Some(HostSummary::default()));
        expect(&verdict, Wall::Downlink);
        assert!(matches!(verdict.reason, Reason::BetweenHosts { .. }));
        // On one host there is none.
        assert_ne!(between(None).wall, Wall::Downlink);
    }
}

mod waits {
    use super::*;

    #[test]
    fn without_neighbours_confidence_is_low() {
        let verdict = judge(a_step().latency_ms(80.0, 80.0).throughput(800.0));
        assert!(matches!(verdict.wall, Wall::Wait | Wall::Concurrency));
        assert!(verdict.confidence <= 0.4, "{}", verdict.confidence);
    }

    #[test]
    fn a_full_accept_queue_is_named() {
        let with_opened = |connects: u64| {
            judge(a_step().with(|step| {
                step.load.connection_per_request = connects > 0;
                step.counts.connects = connects;
                step.telemetry.tcp = Some(TcpSample {
                    listen_overflows: 4_000,
                    opens_passive: 100_000,
                    ..TcpSample::default()
                });
            }))
        };
        let verdict = with_opened(100_000);
        expect(&verdict, Wall::Wait);
        assert_eq!(verdict.detail, Some(Detail::AcceptQueue));
        // Of a load that keeps its connections it is somebody else's door.
        assert_ne!(with_opened(0).detail, Some(Detail::AcceptQueue));
    }

    #[test]
    fn forty_milliseconds_are_the_delayed_acknowledgement() {
        let unacknowledged = |busy_share: f64| {
            let step = a_step().throughput(1_560.0).latency_ms(41.1, 41.0);
            judge(step.with(|step| {
                step.telemetry.server_sockets = Some(SocketsSummary {
                    sockets: 64,
                    busy_share: Some(busy_share),
                    ..SocketsSummary::default()
                });
            }))
        };
        let verdict = unacknowledged(0.99);
        expect(&verdict, Wall::Wait);
        assert_eq!(verdict.detail, Some(Detail::DelayedAck));
        // A handler that asks somebody else for as long has sent nothing meanwhile.
        assert_ne!(unacknowledged(0.001).detail, Some(Detail::DelayedAck));
        // Nor has one whose client waits for the acknowledgement of its request: that comes with the answer.
        let step = a_step().throughput(800.0).latency_ms(40.0, 40.0);
        let late = judge(step.with(|step| {
            let sockets = |busy_share: f64| {
                Some(SocketsSummary {
                    sockets: 32,
                    busy_share: Some(busy_share),
                    ..SocketsSummary::default()
                })
            };
            step.telemetry.server_sockets = sockets(0.0);
            step.telemetry.client_sockets = sockets(0.98);
        }));
        assert_ne!(late.detail, Some(Detail::DelayedAck));
    }

    /// Eleven cores of sixteen threads, the hottest nearly full, are no eleven or twelve full threads.
    #[test]
    fn many_threads_that_differ_are_no_whole_number_of_full_ones() {
        let used = |cores: f64| {
            let step = a_step().server(16.0, cores / 16.0).with(|step| {
                let family = step.telemetry.server.as_mut().unwrap();
                family.hottest_thread = Some(ThreadShare {
                    tid: 7,
                    name: "worker-3".to_owned(),
                    share: 0.97,
                });
            });
            let step = step.build();
            let machine = a_machine();
            let sight = Sight::of(&step, &machine);
            sight.server.as_ref().unwrap().plateau()
        };
        assert_eq!(used(11.2), None);
        assert_eq!(used(3.88), Some(4));
        assert_eq!(used(3.4), None);
    }

    /// Where each second answer is acknowledged late, the kernel's round trip is half of the timer.
    #[test]
    fn a_round_trip_with_the_timer_in_it_is_no_long_way() {
        let judge_with = |first_byte_ms: f64| {
            judge(
                a_step()
                    .throughput(1_560.0)
                    .latency_ms(44.0, 44.0)
                    .with(|step| {
                        step.first_byte = Some(times(first_byte_ms, first_byte_ms, 1_560));
                        step.telemetry.server_sockets = Some(SocketsSummary {
                            sockets: 64,
                            busy_share: Some(0.99),
                            rtt_p50_us: 20_469,
                            ..SocketsSummary::default()
                        });
                    }),
            )
        };
        let at_once = judge_with(0.2);
        expect(&at_once, Wall::Wait);
        assert_eq!(at_once.detail, Some(Detail::DelayedAck));
        assert_ne!(judge_with(22.0).detail, Some(Detail::DelayedAck));
    }

    #[test]
    fn connections_held_by_their_window_are_named() {
        let verdict = judge(a_step().latency_ms(9.0, 9.0).with(|step| {
            step.telemetry.server_sockets = Some(SocketsSummary {
                sockets: 64,
                busy_share: Some(0.95),
                receive_window_limited_share: 0.8,
                ..SocketsSummary::default()
            });
        }));
        expect(&verdict, Wall::Concurrency);
        let what = AtSockets::ReceiveWindow;
        assert_eq!(verdict.detail, Some(Detail::PerConnection { what }));
    }
}

mod shared {
    use super::*;

    fn together(client: f64, server: f64) -> DoubleStep {
        a_step().driver("wrk").with(move |step| {
            for (family, used) in [
                (&mut step.telemetry.client, client),
                (&mut step.telemetry.server, server),
            ] {
                let family = family.as_mut().unwrap();
                family.cpus_allowed = vec![0, 1];
                family.utilisation = used / 2.0;
                family.cpu_ns = (used * 1e10) as u64;
                family.cpus_busy = ((client + server) / 2.0).min(1.0);
                family.hottest_thread = None;
                family.threads = 4;
            }
        })
    }

    #[test]
    fn two_sides_on_the_same_full_processors_are_co_limited() {
        let verdict = judge(together(0.9, 1.09));
        expect(&verdict, Wall::CoLimited);
        assert!(verdict.confidence <= 0.5);
        assert!((verdict.shares["server-cpu"] - 0.548).abs() < 0.01);
        assert!(
            verdict
                .caveats
                .iter()
                .any(|c| matches!(c, Caveat::SharedProcessors { .. }))
        );
    }

    #[test]
    fn the_side_with_nearly_all_of_the_time_is_named_with_little_confidence() {
        let verdict = judge(together(0.2, 1.79));
        expect(&verdict, Wall::ServerCpu);
        assert!(verdict.confidence <= 0.6);
        let verdict = judge(together(1.79, 0.2));
        expect(&verdict, Wall::ClientCpu);
        assert!(verdict.confidence <= 0.6);
    }

    #[test]
    fn one_thread_that_never_rests_beside_a_client_that_does_is_named() {
        let verdict = judge(together(0.8, 1.0).hottest_server("nginx", 0.99));
        expect(&verdict, Wall::ServerSerial);
        let thread = Some("nginx".to_owned());
        assert_eq!(verdict.detail, Some(Detail::SharedProcessors { thread }));
    }
}

mod nulls {
    use super::*;

    #[test]
    fn failures_that_dominate_leave_no_wall() {
        let verdict = judge(a_step().server(1.0, 0.99).with(|step| {
            step.counts.failed.insert("status.5xx".into(), 50_000);
        }));
        expect(&verdict, Wall::Inconclusive);
        assert!(matches!(
            &verdict.reason,
            Reason::TooManyFailures { class, .. } if class == "status.5xx"
        ));
    }

    #[test]
    fn without_answers_or_telemetry_there_is_no_wall() {
        expect(&judge(a_step().throughput(0.0)), Wall::Inconclusive);
        let blind = a_step().with(|step| {
            step.telemetry = Default::default();
            step.workers.clear();
        });
        expect(&judge(blind), Wall::Inconclusive);
    }

    #[test]
    fn stolen_time_withholds_the_verdict() {
        let verdict = judge(a_step().server(1.0, 0.98).with(|step| {
            step.telemetry.cores[0].steal = 0.3;
        }));
        expect(&verdict, Wall::Inconclusive);
    }

    #[test]
    fn an_unseen_server_leaves_the_clients_side_alone() {
        let full = judge(a_step().client(1.0, 0.99).without_server());
        expect(&full, Wall::ClientCpu);
        let idle = judge(a_step().client(1.0, 0.3).without_server());
        expect(&idle, Wall::Inconclusive);
        assert!(matches!(
            idle.reason,
            Reason::ServerNotSeen { client: Some(busy) } if (busy - 0.3).abs() < 1e-6
        ));
        assert!(
            idle.caveats
                .iter()
                .any(|c| matches!(c, Caveat::ServerNotSeen { .. }))
        );
    }

    #[test]
    fn between_slack_and_full_nothing_is_decided() {
        expect(&judge(a_step().server(1.0, 0.86)), Wall::Inconclusive);
    }

    /// As seen on a machine where a compiler ran beside the test.
    #[test]
    fn others_on_the_processors_of_both_sides_leave_nothing_to_say() {
        let verdict = judge(a_step().server(1.0, 0.52).client(1.0, 0.32).with(|step| {
            let server = step.telemetry.server.as_mut().unwrap();
            (
                server.cpus_busy,
                server.neighbour_cores,
                server.run_wait_cores,
            ) = (1.0, 0.48, 0.32);
            let client = step.telemetry.client.as_mut().unwrap();
            (
                client.cpus_busy,
                client.neighbour_cores,
                client.run_wait_cores,
            ) = (1.0, 0.68, 0.6);
        }));
        expect(&verdict, Wall::Inconclusive);
        let Reason::OthersToo { sides } = &verdict.reason else {
            panic!("{verdict:#?}");
        };
        let of_client = sides.iter().find(|(side, _)| *side == Side::Client);
        assert!((of_client.unwrap().1 - 0.68).abs() < 1e-6, "{sides:?}");
    }

    #[test]
    fn the_side_that_took_most_of_its_own_is_named_with_little_confidence() {
        let verdict = judge(a_step().server(1.0, 0.81).client(1.0, 0.19).with(|step| {
            let server = step.telemetry.server.as_mut().unwrap();
            (
                server.cpus_busy,
                server.neighbour_cores,
                server.run_wait_cores,
            ) = (1.0, 0.19, 0.3);
            let client = step.telemetry.client.as_mut().unwrap();
            (
                client.cpus_busy,
                client.neighbour_cores,
                client.run_wait_cores,
            ) = (1.0, 0.8, 0.7);
        }));
        expect(&verdict, Wall::ServerCpu);
        assert!(verdict.confidence <= 0.5);
    }

    #[test]
    fn a_side_full_by_itself_is_named_in_spite_of_others_elsewhere() {
        let verdict = judge(a_step().server(1.0, 0.98).client(1.0, 0.3).with(|step| {
            let client = step.telemetry.client.as_mut().unwrap();
            (
                client.cpus_busy,
                client.neighbour_cores,
                client.run_wait_cores,
            ) = (0.9, 0.6, 0.3);
        }));
        expect(&verdict, Wall::ServerCpu);
    }

    #[test]
    fn a_neighbour_that_yields_takes_nothing() {
        let verdict = judge(a_step().server(1.0, 0.3).client(1.0, 0.2).with(|step| {
            let server = step.telemetry.server.as_mut().unwrap();
            (server.cpus_busy, server.neighbour_cores) = (1.0, 0.7);
        }));
        assert_ne!(verdict.wall, Wall::ServerCpu, "{verdict:#?}");
    }

    /// Two sides that used so many cores of the same two processors, which others filled.
    fn among_strangers(server: f64, client: f64) -> DoubleStep {
        a_step().in_flight(10.0).with(move |step| {
            for (family, used) in [
                (&mut step.telemetry.server, server),
                (&mut step.telemetry.client, client),
            ] {
                let family = family.as_mut().unwrap();
                family.cpus_allowed = vec![0, 1];
                family.utilisation = used / 2.0;
                family.cpu_ns = (used * 1e10) as u64;
                family.cpus_busy = 1.0;
                family.neighbour_cores = 2.0 - server - client;
                // Who wakes up waits for its turn.
                family.run_wait_cores = 0.2;
                family.hottest_thread.as_mut().unwrap().share = used;
            }
            step.workers[0].busy_share = client;
        })
    }

    /// Processors of their own, each full of somebody else's work.
    fn apart_among_strangers(server: f64, client: f64) -> DoubleStep {
        among_strangers(server, client).with(move |step| {
            for (family, cpu, used) in [
                (&mut step.telemetry.server, 0, server),
                (&mut step.telemetry.client, 1, client),
            ] {
                let family = family.as_mut().unwrap();
                family.cpus_allowed = vec![cpu];
                family.utilisation = used;
                family.neighbour_cores = 1.0 - used;
            }
        })
    }

    #[test]
    fn two_sides_that_used_next_to_nothing_of_full_processors_are_no_wall() {
        let verdict = judge(among_strangers(0.05, 0.06));
        expect(&verdict, Wall::Inconclusive);
        let Reason::CrowdedOut { others } = &verdict.reason else {
            panic!("{verdict:#?}");
        };
        assert!(others.together && others.before.is_empty(), "{others:?}");
        let used = others.sides.iter().map(|it| (it.side, it.cores, it.used));
        let used: Vec<_> = used.collect();
        assert_eq!(used, [(Side::Server, 2, 0.05), (Side::Client, 2, 0.06)]);
        let others = |verdict: &Verdict| {
            ["server", "client"].map(|side| {
                let measure = format!("{side}.neighbour");
                let mut facts = verdict.evidence.iter();
                facts.find(|fact| fact.measure == measure).unwrap().value
            })
        };
        assert_eq!(others(&verdict), [1.89, 1.89]);
        let verdict = judge(apart_among_strangers(0.02, 0.03));
        expect(&verdict, Wall::Inconclusive);
        assert_eq!(others(&verdict), [0.98, 0.97]);
    }

    #[test]
    fn processors_of_two_hosts_are_not_the_same_ones() {
        let together = |step: DoubleStep| {
            let verdict = judge(step);
            match verdict.reason {
                Reason::CrowdedOut { others } => others.together,
                other => panic!("{other:#?}"),
            }
        };
        assert!(together(among_strangers(0.05, 0.06)));
        let apart = among_strangers(0.05, 0.06).with(|step| {
            step.telemetry.server_host = Some(HostSummary::default());
        });
        assert!(!together(apart));
    }

    #[test]
    fn a_side_that_used_next_to_nothing_is_no_wall_whatever_the_other_did() {
        // The one that works is judged as ever; the one that rests is not the wall for its neighbours.
        for (server, client) in [(0.02, 0.5), (0.5, 0.02), (0.02, 0.97), (0.97, 0.02)] {
            let verdict = judge(apart_among_strangers(server, client));
            let resting = match server < client {
                true => Wall::ServerCpu,
                false => Wall::ClientCpu,
            };
            assert_ne!(verdict.wall, resting, "{verdict:#?}");
            assert!(
                !verdict.shares.contains_key(resting.label()),
                "{verdict:#?}"
            );
        }
        let full = judge(apart_among_strangers(0.97, 0.02));
        expect(&full, Wall::ServerCpu);
    }

    #[test]
    fn strangers_hide_no_link_that_is_full_and_no_load_that_asked_for_no_more() {
        let linked = judge(among_strangers(0.05, 0.06).link(0.99, 0.01));
        expect(&linked, Wall::Downlink);
        let asked = judge(among_strangers(0.05, 0.06).throughput(500.0).open(500.0));
        expect(&asked, Wall::OfferedLoad);
    }

    #[test]
    fn one_thread_that_never_rests_uses_much_of_many_processors() {
        let verdict = judge(a_step().client(1.0, 0.1).with(|step| {
            let server = step.telemetry.server.as_mut().unwrap();
            server.cpus_allowed = (10..42).collect();
            server.utilisation = 1.0 / 32.0;
            server.cpu_ns = 10_000_000_000;
            (server.cpus_busy, server.neighbour_cores) = (1.0, 31.0);
            server.hottest_thread.as_mut().unwrap().share = 0.99;
        }));
        assert!(
            matches!(verdict.wall, Wall::ServerSerial | Wall::ServerCpu),
            "{verdict:#?}"
        );
    }

    #[test]
    fn few_answers_lower_the_confidence() {
        let many = judge(a_step().server(1.0, 0.99));
        let few = judge(a_step().throughput(5.0).server(1.0, 0.99));
        assert!(few.confidence < 0.7 * many.confidence);
    }
}

/// Half of the time the server is busy, half of it the link.
fn phased() -> DoubleStep {
    a_step().link(0.5, 0.02).server(1.0, 0.5).with(|step| {
        step.series = (0..100)
            .map(|i| {
                let heavy = (i / 4) % 2 == 0;
                Sample {
                    at_ns: 50_000_000 * (i + 1),
                    span_ns: 50_000_000,
                    server: Some(FamilySample {
                        cpu_ns: if heavy { 49_900_000 } else { 5_000_000 },
                        ..FamilySample::default()
                    }),
                    link: Some(LinkSample {
                        tx_bytes: if heavy { 100_000 } else { 6_200_000 },
                        ..LinkSample::default()
                    }),
                    ..Sample::default()
                }
            })
            .collect();
    })
}

#[test]
fn phases_that_alternate_are_found_behind_their_means() {
    let verdict = judge(phased());
    expect(&verdict, Wall::CoLimited);
    assert_eq!(verdict.detail, Some(Detail::Phases));
    assert!((verdict.shares["downlink"] - 0.5).abs() < 0.1);
}

#[test]
fn an_uplink_has_phases_where_its_own_rate_is_known() {
    let received = |uplink_share: Option<f64>| {
        judge(phased().with(|step| {
            for tick in step.series.iter_mut().filter_map(|tick| tick.link.as_mut()) {
                (tick.rx_bytes, tick.tx_bytes) = (tick.tx_bytes, 0);
            }
            let link = step.telemetry.link.as_mut().unwrap();
            // Half of 1 Gbit/s for ten seconds.
            link.totals.rx_bytes = 625_000_000;
            link.uplink_share = uplink_share;
        }))
    };
    let known = received(Some(0.5));
    assert_eq!(known.detail, Some(Detail::Phases));
    assert!((known.shares["uplink"] - 0.5).abs() < 0.1, "{known:#?}");
    assert_ne!(received(None).detail, Some(Detail::Phases));
    let wider = received(Some(0.25));
    assert_ne!(wider.detail, Some(Detail::Phases), "not full at 2 Gbit/s");
}

#[test]
fn neighbours_that_come_and_go_are_no_phases() {
    let verdict = judge(phased().with(|step| {
        step.telemetry.server.as_mut().unwrap().neighbour_cores = 0.4;
    }));
    assert_ne!(verdict.detail, Some(Detail::Phases));
}

#[test]
fn two_full_sides_apart_by_some_percents_name_the_fuller_and_the_next() {
    let verdict = judge(a_step().server(1.0, 0.99).client(1.0, 0.93));
    expect(&verdict, Wall::ServerCpu);
    assert!(verdict.confidence < 0.8);
    assert_eq!(verdict.next.unwrap().wall, Wall::ClientCpu);
    let verdict = judge(a_step().server(1.0, 0.985).client(1.0, 0.98));
    expect(&verdict, Wall::CoLimited);
}

/// Numbers that telemetry should never hold, and sometimes does.
fn odd() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
        -2.0..3.0f64,
        0.0..1.0f64,
    ]
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        any::<u64>(),
        0..2_000_000u64
    ]
}

fn spoil(values: &[f64], counts: &[u64], flags: u32) -> Step {
    let f = |i: usize| values[i % values.len()];
    let n = |i: usize| counts[i % counts.len()];
    let flag = |i: u32| flags & (1 << i) != 0;
    let mut step = a_step()
        .link(f(0), f(1))
        .ceiling(f(2))
        .latency_ms(1.0, 1.0)
        .build();
    step.throughput = f(3);
    step.in_flight_mean = f(4);
    step.window_ns = n(0);
    step.counts.answered = n(1);
    step.counts.scheduled = n(2);
    step.counts.not_sent = n(3) as i64;
    if flag(0) {
        step.counts.failed.insert("net.other".into(), n(4));
        step.counts.failed.insert("local.fd".into(), n(5));
    }
    step.telemetry.window_ns = n(6);
    for (i, family) in [&mut step.telemetry.client, &mut step.telemetry.server]
        .into_iter()
        .flatten()
        .enumerate()
    {
        family.utilisation = f(5 + i);
        family.cpu_ns = n(7 + i);
        family.quota_cores = flag(1).then_some(f(7 + i));
        family.throttled_share = f(9 + i);
        family.neighbour_cores = f(11 + i);
        family.run_wait_cores = f(13 + i);
        family.cpus_busy = f(15 + i);
        family.cpus_softirq = f(17 + i);
        family.interrupt_cores = flag(8).then_some(f(11 + i));
        family.hottest_thread.as_mut().unwrap().share = f(19 + i);
        family.threads = n(9) as u32;
        if flag(2) {
            family.cpus_allowed.clear();
        }
        if flag(3) {
            family.cpus_allowed = vec![0, 1];
        }
    }
    for worker in &mut step.workers {
        worker.busy_share = f(21);
        worker.waits = n(10);
        worker.events = n(11);
    }
    if flag(4) {
        step.workers.clear();
    }
    if flag(5) {
        step.telemetry.server = None;
    }
    if flag(6) {
        step.telemetry.client = None;
    }
    if flag(7) {
        step.load.arrival = Arrival::Constant {
            rate: wallfinder_model::Rate(f(22)),
        };
    }
    for time in [&mut step.latency, &mut step.service].into_iter().flatten() {
        time.mean_ns = f(23);
    }
    for core in &mut step.telemetry.cores {
        core.usr = f(24) as f32;
        core.softirq = f(25) as f32;
        core.steal = f(26) as f32;
    }
    step
}

proptest! {
    #[test]
    fn no_telemetry_panics_or_breaks_the_invariants(
        values in proptest::collection::vec(odd(), 27),
        counts in proptest::collection::vec(count(), 12),
        flags in any::<u32>(),
    ) {
        let step = spoil(&values, &counts, flags);
        check_invariants(&verdict(&step, &a_machine()));
        let _ = crate::cost::per_answer(&step);
        let steps = [step.clone(), a_step().build(), step];
        for verdict in crate::ramp::verdicts(&steps, &a_machine()) {
            check_invariants(&verdict);
        }
    }

    #[test]
    fn an_idle_client_is_never_the_wall(
        busy in 0.0..0.8f64,
        server in 0.0..1.0f64,
        downlink in 0.0..1.1f64,
        ceiling in 5_000.0..1e6f64,
        answers in 1.0..1e6f64,
        foreign in any::<bool>(),
    ) {
        let mut step = a_step().throughput(answers).client(1.0, busy).server(1.0, server)
            .link(downlink, 0.1).ceiling(ceiling);
        if foreign {
            step = step.driver("wrk");
        }
        let verdict = verdict(&step.build(), &a_machine());
        prop_assert_ne!(verdict.wall, Wall::ClientCpu);
    }

    #[test]
    fn an_idle_server_is_never_the_wall_by_its_cpu(
        busy in 0.0..1.0f64,
        server in 0.0..0.8f64,
        downlink in 0.0..1.1f64,
    ) {
        let step = a_step().client(1.0, busy).server(1.0, server).link(downlink, 0.1).build();
        let verdict = verdict(&step, &a_machine());
        prop_assert!(!matches!(verdict.wall, Wall::ServerCpu | Wall::ServerSerial));
    }

    #[test]
    fn confidence_does_not_fall_as_a_lone_resource_fills(
        low in 0.80..0.99f64,
        more in 0.001..0.1f64,
    ) {
        let at = |share: f64| {
            let verdict = verdict(&a_step().server(1.0, share.min(1.0)).build(), &a_machine());
            if verdict.wall == Wall::ServerCpu { verdict.confidence } else { 0.0 }
        };
        prop_assert!(at(low + more) >= at(low) - 1e-9);
    }
}
