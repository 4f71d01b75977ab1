//! Next walls and predictions against what the change then brings.

use wallfinder_model::experiment::Squeeze;
use wallfinder_model::record::{Cost, Costs, Pool, RequestKind};
use wallfinder_model::{Step, Wall};

use super::judge;
use crate::double::Noise;
use crate::proof::synthetic::{Conditions, System, run};
use crate::proof::{Because, Untold, untold, what_if, what_if_of_kind};

#[test]
fn the_next_wall_is_where_lifting_the_first_shows_it() {
    let mut noise = Noise::new(3);
    let (mut squares, mut count, mut held, mut wrong) = (0.0, 0, 0, 0);
    for seed in 0..80 {
        let behind = 1.04 + 0.8 * noise.uniform();
        let system = System {
            server: 200e-6,
            client: 200e-6 / behind,
            downlink: 200e-6 / (2.4 + noise.uniform()),
            in_flight: 64.0,
            ..System::default()
        };
        let step = run(
            &system,
            Conditions {
                seed,
                ..Conditions::default()
            },
        );
        let verdict = judge(&step);
        if verdict.wall != Wall::ServerCpu {
            continue;
        }
        let lifted = System {
            server: 20e-6,
            ..system.clone()
        }
        .throughput();
        let truth = lifted / system.throughput();
        let next = verdict.next.unwrap();
        if next.wall != Wall::ClientCpu {
            wrong += 1;
            println!("seed {seed}: {next:?}, truth {truth:.3}");
            continue;
        }
        squares += (next.ratio / truth - 1.0).powi(2);
        count += 1;
        held += u32::from(next.low.unwrap_or(0.0) <= truth && truth <= next.high.unwrap_or(9.0));
    }
    let rmse = (squares / f64::from(count)).sqrt();
    println!("next wall: RMSE {rmse:.4} over {count}, intervals hold {held}, other wall {wrong}");
    assert!(count >= 60 && rmse <= 0.05 && wrong <= 2);
}

#[test]
fn what_a_lever_would_do_is_what_it_does() {
    let mut noise = Noise::new(17);
    let (mut squares, mut count) = (0.0, 0);
    for seed in 0..60 {
        let behind = 1.1 + noise.uniform();
        let system = System {
            downlink: 400e-6,
            server: 400e-6 / behind,
            in_flight: 64.0,
            ..System::default()
        };
        let step = run(
            &system,
            Conditions {
                seed,
                ..Conditions::default()
            },
        );
        let factor = [0.5, 1.3, 2.0, 8.0][seed as usize % 4];
        // Where the wall is not known nothing is predicted.
        let Some(predicted) = what_if(&step, &[(Squeeze::Downlink, factor)]) else {
            continue;
        };
        assert!(predicted.low <= predicted.throughput && predicted.throughput <= predicted.high);
        let measured = System {
            downlink: system.downlink / factor,
            ..system
        }
        .throughput();
        squares += (predicted.throughput / measured - 1.0).powi(2);
        count += 1;
    }
    let rmse = (squares / f64::from(count)).sqrt();
    println!("what if: RMSE {rmse:.4} over {count}");
    assert!(rmse <= 0.05 && count >= 55);
}

#[test]
fn what_does_not_bind_is_predicted_to_gain_nothing() {
    let system = System {
        downlink: 400e-6,
        server: 100e-6,
        in_flight: 64.0,
        ..System::default()
    };
    let step = run(&system, Conditions::default());
    let predicted = what_if(&step, &[(Squeeze::ServerSpeed, 2.0)]).unwrap();
    assert!((predicted.throughput / step.throughput - 1.0).abs() < 0.01);
    let walls = vec![Wall::Downlink];
    assert_eq!(predicted.because, Because::Untouched { walls });
    assert_eq!(what_if(&step, &[(Squeeze::ServerSpeed, 0.0)]), None);
}

/// The server's ceiling is near enough to bind where its speed is taken to 0.8, and does not bind now.
#[test]
fn widening_what_binds_only_when_it_is_squeezed_is_predicted_to_gain_nothing() {
    let system = System {
        downlink: 400e-6,
        server: 375e-6,
        in_flight: 64.0,
        ..System::default()
    };
    let step = run(&system, Conditions::default());
    let verdict = judge(&step);
    assert_eq!(verdict.wall, Wall::Downlink);
    assert!(
        verdict.elasticities[Squeeze::ServerSpeed.label()].value > 0.3,
        "{verdict:?}"
    );
    let predicted = what_if(&step, &[(Squeeze::ServerSpeed, 2.0)]).unwrap();
    let gain = predicted.throughput / step.throughput;
    assert!(gain < 1.06, "{gain}");
    // Slower it binds, as its squeeze says.
    let slower = what_if(&step, &[(Squeeze::ServerSpeed, 0.5)]).unwrap();
    assert!(slower.throughput / step.throughput < 0.8, "{slower:?}");
}

#[test]
fn behind_a_quota_the_processors_themselves_are_next() {
    let system = System {
        server: 200e-6,
        quota: Some(0.7),
        ..System::default()
    };
    let verdict = judge(&run(&system, Conditions::default()));
    let next = verdict.next.unwrap();
    assert_eq!(
        (verdict.wall, next.wall),
        (Wall::ServerCpu, Wall::ServerCpu)
    );
    assert!((next.ratio * 0.7 - 1.0).abs() < 0.05, "{next:?}");
}

#[test]
fn at_a_kink_widening_one_alone_is_predicted_to_gain_nothing() {
    let system = System {
        server: 200e-6,
        downlink: 200e-6,
        in_flight: 64.0,
        ..System::default()
    };
    let step = run(&system, Conditions::default());
    assert_eq!(judge(&step).wall, Wall::CoLimited);
    let one = what_if(&step, &[(Squeeze::Downlink, 2.0)]).unwrap();
    assert!(one.throughput / step.throughput < 1.01 && one.high / step.throughput < 1.1);
    let both = [(Squeeze::Downlink, 1.5), (Squeeze::ServerSpeed, 1.5)];
    let both = what_if(&step, &both).unwrap();
    assert!(both.throughput / step.throughput > 1.4, "{both:?}");
}

/// A step whose wall this is, of one request that takes nearly all of it and of another.
fn of_two(system: &System, wall: Wall, heavy: RequestKind) -> Step {
    let mut step = run(system, Conditions::default());
    let verdict = judge(&step);
    assert_eq!(verdict.wall, wall, "{verdict:#?}");
    step.verdict = Some(verdict);
    let light = RequestKind {
        name: "light".to_owned(),
        sent_bytes: heavy.sent_bytes / 99,
        ..RequestKind::default()
    };
    let name = "heavy".to_owned();
    step.requests = vec![RequestKind { name, ..heavy }, light];
    step
}

#[test]
fn a_cheaper_request_gives_its_share_of_what_the_wall_is_made_of() {
    let share = |share| Cost {
        share,
        share_low: share,
        share_high: share,
        ..Cost::default()
    };
    let base = System {
        server: 40e-6,
        in_flight: 64.0,
        ..System::default()
    };
    let uplink = System {
        uplink: 400e-6,
        ..base.clone()
    };
    let client = System {
        client: 400e-6,
        ..base
    };
    // Of the server it takes next to nothing.
    let costs = |of_client| {
        Some(Costs {
            server: share(0.01),
            client: Some(share(of_client)),
            ..Costs::default()
        })
    };
    let half = |step: &Step| {
        let told = what_if_of_kind(step, "heavy", 0.5).expect("its share is known");
        told.throughput / step.throughput
    };
    let sent = RequestKind {
        sent_bytes: 99_000,
        costs: costs(0.01),
        ..RequestKind::default()
    };
    let of_uplink = half(&of_two(&uplink, Wall::Uplink, sent));
    let spent = RequestKind {
        costs: costs(0.99),
        ..RequestKind::default()
    };
    let of_client = half(&of_two(&client, Wall::ClientCpu, spent.clone()));
    for gain in [of_uplink, of_client] {
        assert!((gain - 1.98).abs() < 0.15, "{of_uplink} {of_client}");
    }
    // Where bytes were not counted nothing is claimed, and that is said.
    let step = of_two(&uplink, Wall::Uplink, spent);
    assert_eq!(what_if_of_kind(&step, "heavy", 0.5), None);
    assert_eq!(untold(&step, "heavy"), Some(Untold::RequestBytes));
    assert_eq!(untold(&step, "nobody"), None);
}

#[test]
fn a_request_that_was_told_only_with_others_is_not_predicted_and_is_said_to_be_pooled() {
    let system = System {
        server: 400e-6,
        in_flight: 64.0,
        ..System::default()
    };
    let mut step = of_two(&system, Wall::ServerCpu, RequestKind::default());
    step.pool = Some(Pool {
        names: vec!["light".to_owned(), "rare".to_owned()],
        ..Pool::default()
    });
    assert_eq!(what_if_of_kind(&step, "light", 0.5), None);
    assert_eq!(untold(&step, "light"), Some(Untold::Pooled { of: 2 }));
    assert_eq!(untold(&step, "heavy"), None);
}

#[test]
fn what_a_cheaper_request_gives_has_room_for_what_its_share_does_not_tell() {
    let system = System {
        downlink: 400e-6,
        server: 40e-6,
        in_flight: 64.0,
        ..System::default()
    };
    let mut step = run(&system, Conditions::default());
    step.verdict = Some(judge(&step));
    let kind = |name: &str, wire_bytes| RequestKind {
        name: name.to_owned(),
        wire_bytes,
        ..RequestKind::default()
    };
    step.requests = vec![kind("image", 9_900), kind("text", 100)];
    let told = |factor| {
        let told = what_if_of_kind(&step, "image", factor).unwrap();
        [told.low, told.throughput, told.high].map(|it| it / step.throughput)
    };
    let [low, half, high] = told(0.5);
    assert!((half - 1.98).abs() < 0.1, "{half}");
    assert!(
        low < half * 0.93 && high > half * 1.07,
        "{low} {half} {high}"
    );
    // A small change is told as well as it was measured, and none exactly.
    let [low, same, high] = told(0.98);
    assert!(high / low < 1.02, "{low} {same} {high}");
    assert_eq!(told(1.0), [1.0; 3]);
}
