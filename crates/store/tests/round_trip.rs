//! What is written reads back as it was.

mod records;

use std::time::{Duration, UNIX_EPOCH};

use records::{Scratch, interval, record, step_begun, step_ended};
use wallfinder_store::{RunFolder, StoreError, open};

#[test]
fn a_sealed_run_reads_back_as_it_was() {
    let scratch = Scratch::new();
    let now = UNIX_EPOCH + Duration::from_secs(1_795_183_331);
    let runs = scratch.0.join("runs");
    let folder = RunFolder::create(&runs, "ramp /read", now).expect("a new folder");
    assert_eq!(folder.id(), "20261120T140211Z-ramp-read");
    let mut record = record(folder.id(), 2);
    let journal = folder.begin(&record).expect("a journal");
    for index in 0..2 {
        journal.step_begins(&step_begun(index)).expect("noted");
        for nth in 0..12 {
            journal.interval(index, &interval(nth)).expect("noted");
        }
        let step = step_ended(index);
        journal.step_ends(&step).expect("noted");
        record.steps.push(step);
    }
    let unsealed = open(folder.path()).expect("readable while it runs");
    assert!(!unsealed.complete);
    let path = folder.seal(&journal, &record).expect("sealed");
    assert_eq!(open(folder.path()).expect("readable"), record);
    assert_eq!(open(&path).expect("readable"), record);
    assert_eq!(open(&runs.join("latest")).expect("readable"), record);
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["plan.json", "record.json", "series.parquet"]);
    assert!(matches!(
        RunFolder::create(&runs, "ramp /read", now),
        Err(StoreError::Exists { .. })
    ));
    assert!(
        journal.interval(1, &interval(12)).is_err(),
        "the run is over"
    );
}

mod any {
    //! Records of any numbers and texts.

    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use wallfinder_model::record::{
        Ceiling, ClaimOutcome, ClientPart, Counts, Drained, Handshakes, Histogram, Interval,
        LostClient, Outage, Outcome, Record, Step, WorkerSummary,
    };
    use wallfinder_model::telemetry::{
        CoreSample, FamilySample, FamilySummary, LinkSample, Sample, TcpSample,
    };
    use wallfinder_model::{Caveat, Detail, Reason, Verdict, Wall};

    use crate::records;

    fn float() -> impl Strategy<Value = f64> {
        prop_oneof![
            any::<f64>().prop_filter("finite", |f| f.is_finite()),
            Just(0.1 + 0.2)
        ]
    }

    fn share() -> impl Strategy<Value = f32> {
        any::<f32>().prop_filter("finite", |f| f.is_finite())
    }

    fn counts_by_class() -> impl Strategy<Value = BTreeMap<String, u64>> {
        prop::collection::btree_map(".{0,6}", any::<u64>(), 0..3)
    }

    prop_compose! {
        fn histogram()(
            hdr_v2 in "[A-Za-z0-9+/=]{0,20}", count: u64, beyond: u64, mean_ns in float(),
            stdev_ns in float(), min_ns: u64, max_ns: u64, quantiles_ns in counts_by_class(),
        ) -> Histogram {
            Histogram { hdr_v2, count, beyond, mean_ns, stdev_ns, min_ns, max_ns, quantiles_ns }
        }
    }

    prop_compose! {
        fn family()(
            n in any::<[u64; 10]>(), processes: u32, threads: u32, hottest_thread_share in share(),
        ) -> FamilySample {
            FamilySample {
                processes, threads, cpu_ns: n[0], cpu_user_ns: n[1], run_wait_ns: n[2],
                switches_voluntary: n[3], switches_involuntary: n[4], faults_minor: n[5],
                faults_major: n[6], rss_bytes: n[7], throttled_ns: n[8],
                throttled_periods: n[9], hottest_thread_share,
            }
        }
    }

    fn cores() -> impl Strategy<Value = Vec<CoreSample>> {
        let core = prop::collection::vec(share(), 6);
        prop::collection::btree_map(0..300_u32, core, 0..4).prop_map(|cores| {
            let core = |(cpu, f): (u32, Vec<f32>)| CoreSample {
                cpu,
                usr: f[0],
                sys: f[1],
                irq: f[2],
                softirq: f[3],
                steal: f[4],
                idle: f[5],
            };
            cores.into_iter().map(core).collect()
        })
    }

    prop_compose! {
        fn sample()(
            at_ns: i64, span_ns: u64, cores in cores(),
            client in prop::option::of(family()), server in prop::option::of(family()),
            link in prop::option::of(any::<[u64; 5]>()),
            tcp in prop::option::of(any::<[u64; 8]>()), switches: u64, runnable: u32,
        ) -> Sample {
            Sample {
                server_cores: Vec::new(),
                at_ns, span_ns, cores, client, server, switches, runnable,
                link: link.map(|n| LinkSample {
                    rx_bytes: n[0], rx_packets: n[1], tx_bytes: n[2], tx_packets: n[3], drops: n[4],
                }),
                tcp: tcp.map(|n| TcpSample {
                    segments_in: n[0], segments_out: n[1], retransmits: n[2],
                    listen_overflows: n[3], listen_drops: n[4], opens_active: n[5],
                    opens_passive: n[6], resets_out: n[7],
                }),
            }
        }
    }

    prop_compose! {
        fn interval()(n in any::<[u64; 10]>()) -> Interval {
            Interval {
                at_ns: n[0], span_ns: n[1], answered: n[2], failed: n[3], scheduled: n[4],
                bytes_in: n[5], in_flight: n[6], p50_ns: n[7], p99_ns: n[8], max_ns: n[9],
            }
        }
    }

    prop_compose! {
        fn outage()(at_ns: u64, for_ns: u64) -> Outage {
            Outage { at_ns, for_ns }
        }
    }

    prop_compose! {
        fn counts()(
            n in any::<[u64; 13]>(), not_sent: i64, failed in counts_by_class(),
            statuses in prop::collection::btree_map(any::<u16>(), any::<u64>(), 0..3),
            connect_failures in counts_by_class(), anomalies in counts_by_class(),
            handshakes in prop::option::of(any::<[u64; 2]>()),
        ) -> Counts {
            Counts {
                scheduled: n[0], answered: n[1], failed, expired_unsent: n[10], not_sent, in_flight_start: n[2],
                in_flight_end: n[3], unknown: n[12], late_by_client: n[1], statuses, bytes_in: n[4], bytes_out: n[5],
                body_bytes: n[6], decoded_bytes: n[9], messages: n[8], connects: n[7],
                connect_failures, unreachable_ns: n[11], anomalies,
                handshakes: handshakes.map(|[full, resumed]| Handshakes { full, resumed }),
            }
        }
    }

    prop_compose! {
        fn client()(
            host: String, connections: u32, began_ns: i64, clock_error_ns: u64, counts in counts(),
            throughput in float(), lost in prop::option::of((".*", any::<u64>())),
        ) -> ClientPart {
            ClientPart {
                host, connections, dealt: throughput, workers: connections, began_ns, clock_error_ns, counts, throughput,
                in_flight_mean: throughput, drained: Drained::default(), latency: None, lateness: None,
                lost: lost.map(|(why, heard_ns)| LostClient { why, heard_ns }),
            }
        }
    }

    fn caveat() -> impl Strategy<Value = Caveat> {
        prop_oneof![
            ".*".prop_map(|text| Caveat::Note { text }),
            float().prop_map(|share| Caveat::StealAbove { share }),
            any::<i64>().prop_map(|by_ns| Caveat::ClockStepped { by_ns }),
            Just(Caveat::NotVerified),
            any::<Vec<u32>>().prop_map(|cpus| Caveat::SharedProcessors { cpus }),
        ]
    }

    prop_compose! {
        fn verdict()(
            wall in prop::sample::select(&Wall::ALL[..]), confidence in float(), class: String, share in float(),
            shares in prop::collection::btree_map(".{0,4}", float(), 0..3),
            caveats in prop::collection::vec(caveat(), 0..2),
        ) -> Verdict {
            Verdict {
                wall, how: wallfinder_model::verdict::How::Observed, confidence,
                reason: Reason::TooManyFailures { share, class: class.clone() },
                detail: Some(Detail::DriverThreads { name: class }), evidence: vec![],
                gates: vec![], resources: vec![], shares,
                elasticities: BTreeMap::new(), next: None, caveats, sentence: None, made_of: None,
            }
        }
    }

    prop_compose! {
        fn step(index: u32)(
            name: String, counts in counts(), throughput in float(), in_flight_mean in float(),
            latency in prop::option::of(histogram()), service in prop::option::of(histogram()),
            intervals in prop::collection::vec(interval(), 0..5),
            outages in prop::collection::vec(outage(), 0..3),
            series in prop::collection::vec(sample(), 0..8),
            cpu in prop::option::of(any::<u32>()), busy_share in float(),
            verdict in prop::option::of(verdict()), cpus_busy in float(),
            caveats in prop::collection::vec(caveat(), 0..3), client in client(),
        ) -> Step {
            let mut step = records::step_begun(index);
            step.workers.push(WorkerSummary { cpu, busy_share, ..WorkerSummary::default() });
            step.clients.push(client);
            step.telemetry.server = Some(FamilySummary { cpus_busy, ..FamilySummary::default() });
            step.ceiling = Some(Ceiling {
                throughput, workers_saturated: true, cpu_per_request_ns: busy_share, driven: cpus_busy, age_s: None, host: None, of_hosts: Vec::new(),
            });
            Step {
                name, counts, throughput, in_flight_mean, latency, service, intervals, outages, series,
                verdict, caveats, ..step
            }
        }
    }

    prop_compose! {
        pub(crate) fn record()(
            steps in (0..4_u32).prop_flat_map(|n| (0..n).map(step).collect::<Vec<_>>()),
            caveats in prop::collection::vec(caveat(), 0..3), complete: bool,
            interrupted in prop::option::of(".*"), claim: String, words in any::<Vec<String>>(),
        ) -> Record {
            let mut record = records::record("any", steps.len() as u32);
            record.command_line = words;
            record.claims.push(ClaimOutcome {
                id: "c".into(), claim, source: "s".into(), by_figures: false, outcome: Outcome::Open,
                because: "b".into(),
            });
            Record { steps, caveats, complete, interrupted, ..record }
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    #[test]
    fn any_record_reads_back_as_it_was(record in any::record()) {
        let scratch = Scratch::new();
        let folder = RunFolder::create(&scratch.0, "any", UNIX_EPOCH).expect("a new folder");
        let journal = folder.begin(&record).expect("a journal");
        for step in &record.steps {
            journal.step_begins(step).expect("noted");
            journal.step_ends(step).expect("noted");
        }
        folder.seal(&journal, &record).expect("sealed");
        proptest::prop_assert_eq!(open(folder.path()).expect("readable"), record);
    }

    #[test]
    fn any_steps_that_ended_are_recovered_as_they_were(record in any::record()) {
        let scratch = Scratch::new();
        let folder = RunFolder::create(&scratch.0, "any", UNIX_EPOCH).expect("a new folder");
        let journal = folder.begin(&record).expect("a journal");
        for step in &record.steps {
            journal.step_ends(step).expect("noted");
        }
        // A record that cannot be sealed ends the journal all the same.
        let mut unsealable = record.clone();
        unsealable.plan.name = "x".into();
        unsealable.steps.truncate(0);
        std::fs::create_dir(folder.path().join("record.json")).expect("in the way");
        folder.seal(&journal, &unsealable).expect_err("in the way");
        std::fs::remove_dir(folder.path().join("record.json")).expect("removed");
        proptest::prop_assert_eq!(open(folder.path()).expect("recovered").steps, record.steps);
    }
}
