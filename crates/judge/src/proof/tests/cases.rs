//! Single cases: what is in reach, what is said, and what telemetry knows better.

use wallfinder_model::verdict::How;
use wallfinder_model::{Caveat, Wall};

use super::judge;
use crate::proof::synthetic::{Conditions, System, run};

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
    let mut proved = 0;
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
        assert!(
            verdict.sentence.starts_with("Not the load generator's CPU and not too little in flight: squeezing them moves nothing. By telemetry: The server's CPU"),
            "{}", verdict.sentence
        );
        let verdict = unprivileged(&sleep, seed);
        assert_eq!(verdict.wall, Wall::Concurrency, "{verdict:#?}");
    }
    assert!(proved >= 6, "{proved} of 8");
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
    assert_eq!(
        verdict.sentence,
        "Take 20 % of the downlink away and 20 % of the throughput goes; nothing else that was squeezed moves it."
    );
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
    let said = |caveat: &Caveat| matches!(caveat, Caveat::Note { text } if text.contains("server-speed should cost"));
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
    run.latency = step.latency;
    run.service = step.service;
    let verdict = judge(&run);
    assert_eq!(
        (verdict.wall, verdict.how),
        (Wall::Wait, How::Likely),
        "{verdict:#?}"
    );
    assert!(verdict.detail.unwrap().starts_with("timer"));
}
