//! No record makes any renderer panic: extreme numbers in every place that takes one.

mod sample;

use proptest::prelude::*;
use wallfinder_model::plan::Arrival;
use wallfinder_model::profile::{FunctionPart, Measure, Node, Part, Reading, Site};
use wallfinder_model::{ProfileKind, Profiles, Rate, Record};
use wallfinder_report::text::{self, Paths};
use wallfinder_report::{Look, csv, html, json};

fn everything(record: &Record) {
    let look = Look {
        width: 80,
        colour: true,
        ascii: true,
    };
    let paths = Paths::default();
    text::record(record, &paths, &look);
    text::run(record, &paths, &look);
    text::ramp(record, &paths, &look);
    text::find(record, &paths, &look);
    text::ab(record, &paths, &look);
    csv::steps(record);
    csv::each_step(record);
    csv::windows(record);
    csv::ab(record);
    csv::intervals(record);
    json::document(record);
    html::render(record);
}

#[test]
fn every_sample_is_rendered_every_way() {
    for (_, record) in sample::all() {
        everything(&record);
    }
}

fn extreme() -> impl Strategy<Value = f64> {
    prop_oneof![
        Just(0.0),
        Just(-1.0),
        Just(f64::NAN),
        Just(f64::INFINITY),
        Just(f64::MAX),
        Just(f64::MIN_POSITIVE),
        proptest::num::f64::ANY,
    ]
}

/// Readings whose numbers are these, several of each place.
fn profiles(counts: &[u64], from: usize, label: &str) -> Profiles {
    let n = |k: usize| counts[(from + k) % counts.len()];
    let kinds = [
        ProfileKind::Cpu,
        ProfileKind::Block,
        ProfileKind::Mutex,
        ProfileKind::Waits,
        ProfileKind::Heap,
        ProfileKind::Goroutine,
    ];
    let reading = |(at, kind): (usize, ProfileKind)| {
        let n = |k: usize| n(at + k) as i64;
        let part = |k: usize| Part {
            name: label.to_owned(),
            value: n(k),
        };
        let site = |k: usize| Site {
            function: "main.next".to_owned(),
            line: label.to_owned(),
            waits_in: label.to_owned(),
            value: n(k),
            count: n(k + 1),
            idle: k.is_multiple_of(2),
            path: vec![label.to_owned()],
        };
        let node = |k: usize| Node {
            name: "runtime.futex".to_owned(),
            depth: n(k) as u32 % 5,
            value: n(k),
        };
        Reading {
            kind,
            measure: Measure {
                name: "delay".to_owned(),
                unit: "nanoseconds".to_owned(),
            },
            duration_ns: n(2) as u64,
            total: n(3),
            count: n(4),
            idle: n(5),
            named_share: n(6) as f64,
            origins: vec![part(0), part(1)],
            categories: vec![part(2), part(3)],
            functions: (0..3)
                .map(|k| FunctionPart {
                    name: label.to_owned(),
                    own: n(k),
                    with_callees: n(k + 1),
                })
                .collect(),
            sites: (0..4).map(site).collect(),
            tree: (0..4).map(node).collect(),
            whole: None,
        }
    };
    Profiles {
        window_ns: n(0),
        processes: n(1) as u32,
        answered: n(2) as f64,
        socket_waits: Some(reading((3, ProfileKind::Waits))),
        readings: kinds.into_iter().enumerate().map(reading).collect(),
        counts_ns: Some(n(4)),
        ready_ns: Some(n(5)),
        ..Profiles::default()
    }
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(1), Just(u64::MAX), any::<u64>()]
}

/// Many rounds of a comparison are listed in a time that goes with their number, and not with its square.
#[test]
fn a_comparison_of_very_many_rounds_takes_no_time() {
    let mut record = sample::ab();
    let ab = record.ab.as_mut().unwrap();
    ab.order = (0..400_000).map(|round| (round, round % 2 == 0)).collect();
    let ab = record.ab.clone().unwrap();
    let began = std::time::Instant::now();
    assert_eq!(
        wallfinder_report::compared::rounds(&record, &ab).len(),
        400_000
    );
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn numbers_without_sense_do_not_panic(
        reals in proptest::collection::vec(extreme(), 16),
        counts in proptest::collection::vec(count(), 16),
        label in ".{0,40}",
        which in 0usize..7,
    ) {
        let mut record = match which {
            0 => sample::one_step(),
            1 => sample::proved(),
            2 => sample::open_loop(),
            3 => sample::ab(),
            4 => sample::observed(),
            5 => sample::cells(),
            _ => sample::interrupted(),
        };
        let at = |i: usize| reals[i % reals.len()];
        let n = |i: usize| counts[i % counts.len()];
        record.id.clone_from(&label);
        record.started_utc.clone_from(&label);
        for (i, step) in record.steps.iter_mut().enumerate() {
            step.index = n(i) as u32;
            if let Some(cell) = &mut step.cell {
                cell.group.clone_from(&label);
                cell.payload = n(i) as u32;
                cell.clients = n(i + 3) as u32;
                cell.rival = i % 3 > 0;
            }
            step.fairness = Some(at(i + 7));
            step.name.clone_from(&label);
            step.throughput = at(i);
            step.in_flight_mean = at(i + 1);
            step.window_ns = n(i);
            step.load.connections = n(i + 1) as u32;
            step.load.warmup.0 = n(i + 2);
            step.load.stop.after.0 = n(i + 3);
            if at(i) < 0.0 {
                step.load.arrival = Arrival::Poisson { rate: Rate(at(i + 2)) };
            }
            step.counts.answered = n(i + 4);
            step.counts.scheduled = n(i + 5);
            step.counts.bytes_in = n(i + 6);
            step.counts.not_sent = n(i + 7) as i64;
            step.counts.in_flight_start = u64::MAX;
            step.counts.failed.insert(label.clone(), n(i + 8));
            step.counts.failed.insert("x".into(), u64::MAX);
            step.telemetry.window_ns = n(i + 9);
            step.telemetry.observer_cpu_ns = n(i + 10);
            if let Some(server) = &mut step.telemetry.server {
                server.utilisation = at(i + 3);
                server.cpu_ns = n(i + 11);
                server.run_wait_cores = at(i + 4);
                server.neighbour_cores = at(i + 5);
                server.faults_minor = n(i + 1);
                server.faults_major = n(i + 2);
                server.switches_voluntary = n(i + 3);
                server.switches_involuntary = n(i + 4);
            }
            if let Some(link) = &mut step.telemetry.link {
                link.downlink_share = Some(at(i + 4));
                link.totals.tx_packets = n(i + 12);
                link.rate_bits = Some(n(i + 13));
            }
            for core in &mut step.telemetry.cores {
                core.usr = at(i + 5) as f32;
            }
            if let Some(latency) = &mut step.latency {
                latency.mean_ns = at(i + 6);
                latency.max_ns = n(i + 14);
                for value in latency.quantiles_ns.values_mut() {
                    *value = n(i + 15);
                }
            }
            let profiles = profiles(&counts, i, &label);
            (step.profiles, step.client_profiles) = (Some(profiles.clone()), Some(profiles));
            if let Some(ceiling) = &mut step.ceiling {
                ceiling.throughput = at(i + 7);
                ceiling.driven = at(i + 8);
            }
            if let Some(verdict) = &mut step.verdict {
                verdict.confidence = at(i + 9);
                verdict.shares.insert(label.clone(), at(i + 10));
                for (k, resource) in verdict.resources.iter_mut().enumerate() {
                    resource.utilisation = at(i + k);
                    resource.ceiling = Some(at(i + k + 1));
                    resource.demand_s = Some(at(i + k + 2));
                }
                for elasticity in verdict.elasticities.values_mut() {
                    elasticity.value = at(i + 11);
                    elasticity.low = at(i + 12);
                    elasticity.high = at(i + 13);
                }
                if let Some(next) = &mut verdict.next {
                    next.ratio = at(i + 14);
                    next.low = Some(at(i + 15));
                }
            }
            for (k, interval) in step.intervals.iter_mut().enumerate() {
                interval.at_ns = n(i + k);
                interval.span_ns = n(i + k + 1);
                interval.answered = n(i + k + 2);
                interval.failed = n(i + k + 3);
                interval.p99_ns = n(i + k + 4);
            }
            for (k, sample) in step.series.iter_mut().enumerate() {
                sample.at_ns = n(i + k) as i64;
                sample.span_ns = n(i + k + 1);
                for core in &mut sample.cores {
                    core.usr = at(k) as f32;
                    core.steal = at(k + 1) as f32;
                }
                if let Some(link) = &mut sample.link {
                    link.tx_bytes = n(k);
                }
            }
        }
        if let Some(ab) = &mut record.ab {
            for (k, ratio) in ab.ratios.iter_mut().enumerate() {
                ratio.ratio = at(k);
                ratio.low = at(k + 1);
                ratio.high = at(k + 2);
                ratio.a = at(k + 3);
            }
            ab.order[0] = (n(0) as u32, true);
            ab.order[1] = (u32::MAX, false);
        }
        for step in &mut record.steps {
            let Some(experiment) = &mut step.experiment else {
                continue;
            };
            for (k, condition) in experiment.conditions.iter_mut().enumerate() {
                condition.retained = at(k);
            }
            for (k, window) in experiment.windows.iter_mut().enumerate() {
                if k % 3 == 0 {
                    window.throughput = at(k);
                    window.retained = Some(at(k + 1));
                    window.condition = n(k) as u32;
                }
                if k % 5 == 0 {
                    window.from_ns = n(k);
                    window.to_ns = n(k + 1);
                }
            }
            for (k, slice) in experiment.intervals.iter_mut().enumerate() {
                slice.at_ns = n(k);
                slice.span_ns = n(k + 1);
            }
        }
        everything(&record);
    }
}
