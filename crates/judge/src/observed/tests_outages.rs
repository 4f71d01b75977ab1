//! Steps in which something else than a wall explains what was measured: the server was away, had ended,
//! or gave no good answer; the load itself asked for little, or for ever more.

use wallfinder_model::evidence::Fact;
use wallfinder_model::reason::{Ended, Side, Unreachable};
use wallfinder_model::record::{Outage, Step};
use wallfinder_model::{Arrival, Caveat, Nanos, Rate, Reason, Verdict, Wall};

use super::verdict;
use crate::double::{DoubleStep, a_machine, a_step};
use crate::steady;

fn judge(step: DoubleStep) -> Verdict {
    verdict(&step.build(), &a_machine())
}

fn away(step: &mut Step, from_ns: u64, for_ns: u64) {
    step.load.warmup = Nanos(0);
    step.counts
        .connect_failures
        .insert("net.refused".into(), 12);
    step.counts.unreachable_ns = for_ns;
    step.outages.push(Outage {
        at_ns: from_ns,
        for_ns,
    });
}

#[test]
fn no_wall_is_named_over_a_time_in_which_the_server_was_away() {
    for full in [
        a_step().server(1.0, 0.98),
        a_step().client(1.0, 0.99),
        a_step().in_flight(1.0),
    ] {
        let verdict = judge(full.with(|step| away(step, 500_000_000, 700_000_000)));
        assert_eq!(verdict.wall, Wall::Inconclusive, "{verdict:#?}");
        let reason = Reason::Unreachable(Unreachable {
            at_ns: Some(500_000_000),
            for_ns: 700_000_000,
            outages: 1,
        });
        assert_eq!(verdict.reason, reason);
        let typed = |caveat: &&Caveat| matches!(caveat, Caveat::Unreachable { outages: 1, .. });
        assert_eq!(verdict.caveats.iter().filter(typed).count(), 1);
        let unsteady = |caveat: &Caveat| matches!(caveat, Caveat::NotSteady { .. });
        assert!(
            !verdict.caveats.iter().any(unsteady),
            "warming up longer would not help"
        );
    }
}

#[test]
fn no_wall_is_named_where_requests_without_an_answer_are_most_of_what_is_in_flight() {
    let stuck = |unanswered, times: f64| {
        judge(a_step().latency_ms(6.4, 6.4).with(|step| {
            step.in_flight_mean *= times;
            step.counts.in_flight_end = unanswered;
            step.drained = Some(wallfinder_model::record::Drained {
                in_flight: unanswered,
                oldest_ns: 6_000_000_000,
                ..Default::default()
            });
        }))
    };
    let verdict = stuck(28, 8.0);
    assert_eq!(verdict.wall, Wall::Inconclusive, "{verdict:#?}");
    assert_eq!(verdict.reason, Reason::UnansweredHoldMost { in_flight: 28 });
    // One that is stuck among many that are not leaves the wall.
    let verdict = stuck(1, 1.0);
    assert_ne!(verdict.wall, Wall::Inconclusive, "{verdict:#?}");
}

#[test]
fn a_moment_without_a_connection_leaves_the_wall_and_is_told() {
    let verdict = judge(
        a_step()
            .server(1.0, 0.98)
            .with(|step| away(step, 0, 5_000_000)),
    );
    assert_eq!(verdict.wall, Wall::ServerCpu, "{verdict:#?}");
    let told = |caveat: &Caveat| matches!(caveat, Caveat::Unreachable { .. });
    assert!(verdict.caveats.iter().any(told));
}

#[test]
fn of_a_server_that_has_ended_no_idleness_is_told() {
    let verdict = judge(a_step().server(1.0, 0.0).client(1.0, 0.2).with(|step| {
        let server = step.telemetry.server.as_mut().unwrap();
        (server.processes, server.threads) = (0, 0);
    }));
    let of_server = |view: &wallfinder_model::verdict::ResourceView| {
        matches!(view.wall, Wall::ServerCpu | Wall::ServerSerial)
    };
    assert!(!verdict.resources.iter().any(of_server), "{verdict:#?}");
    let told = verdict.evidence.iter().any(|evidence| {
        matches!(
            evidence.fact,
            Fact::Used {
                side: Side::Server,
                ..
            }
        )
    });
    assert!(!told, "{verdict:#?}");
}

#[test]
fn without_a_good_answer_the_verdict_knows_how_all_ended() {
    let verdict = judge(a_step().throughput(0.0).with(|step| {
        step.counts.failed.insert("status.4xx".into(), 1_200);
        step.counts.statuses.insert(404, 1_200);
    }));
    let ended = vec![Ended::Failed {
        count: 1_200,
        class: "status.4xx".into(),
        statuses: vec![(404, 1_200)],
        unsent: None,
    }];
    let why = None;
    assert_eq!(verdict.reason, Reason::NothingAnswered { ended, why });
    let few = |caveat: &Caveat| matches!(caveat, Caveat::FewAnswers { .. });
    assert!(!verdict.caveats.iter().any(few), "none is not few");
}

#[test]
fn what_expired_before_it_was_sent_was_not_sent() {
    let step = a_step().throughput(10_000.0).open(12_000.0).with(|step| {
        let expired = std::mem::take(&mut step.counts.not_sent);
        step.counts
            .failed
            .insert("timeout.total".into(), expired as u64);
        step.counts.expired_unsent = expired as u64;
    });
    let verdict = judge(step);
    assert_ne!(verdict.wall, Wall::OfferedLoad, "{verdict:#?}");
    let sent = verdict.caveats.iter().find_map(|caveat| match caveat {
        Caveat::RateMissed { sent, .. } => Some(*sent),
        _ => None,
    });
    let sent = sent.expect("the rate was missed");
    assert!((9_900.0..10_100.0).contains(&sent), "{sent}");
}

#[test]
fn a_request_that_the_windows_edge_cuts_off_is_no_missed_rate() {
    let slow = |rate: f64, scheduled: u64| {
        judge(a_step().throughput(0.4).in_flight(1.0).with(|step| {
            step.window_ns = 5_000_000_000;
            step.telemetry.window_ns = step.window_ns;
            step.load.arrival = Arrival::Constant { rate: Rate(rate) };
            (step.counts.scheduled, step.counts.answered) = (scheduled, scheduled);
            step.throughput = scheduled as f64 / 5.0;
        }))
    };
    let missed = |verdict: &Verdict| {
        let missed = |caveat: &Caveat| matches!(caveat, Caveat::RateMissed { .. });
        verdict.caveats.iter().any(missed)
    };
    // 2.5 are due in five seconds: two or three.
    let verdict = slow(0.5, 2);
    assert!(!missed(&verdict), "{verdict:#?}");
    assert_eq!(verdict.wall, Wall::OfferedLoad, "{verdict:#?}");
    assert!(missed(&slow(100.0, 480)));
}

#[test]
fn a_rate_that_is_to_grow_is_steady_and_its_mean_has_no_interval() {
    let rates: Vec<f64> = (0..60).map(|nth| 100.0 + 15.0 * f64::from(nth)).collect();
    let growing = |arrival| {
        let step = a_step()
            .slices(&rates)
            .with(|step| step.load.arrival = arrival);
        step.build()
    };
    let ramp = growing(Arrival::Ramp {
        from: Rate(100.0),
        to: Rate(1_000.0),
        over: Nanos::from_secs(6),
    });
    assert_eq!(steady::change(&ramp), None);
    assert_eq!(steady::throughput(&ramp), None);
    let constant = growing(Arrival::Constant {
        rate: Rate(1_000.0),
    });
    assert!(steady::change(&constant).is_some());
}

#[test]
fn of_a_window_of_a_few_ticks_no_wall_is_named() {
    let judged = |window_ns: u64| {
        judge(a_step().server(1.0, 0.98).with(|step| {
            step.telemetry.window_ns = window_ns;
            step.window_ns = window_ns;
        }))
    };
    let verdict = judged(10_000_000);
    assert_eq!(verdict.wall, Wall::Inconclusive, "{verdict:#?}");
    assert_eq!(verdict.reason, Reason::WindowTooShort { seconds: 0.01 });
    assert_ne!(judged(300_000_000).wall, Wall::Inconclusive);
}
