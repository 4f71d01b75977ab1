//! Next walls and predictions against what the change then brings.

use wallfinder_model::Wall;
use wallfinder_model::experiment::Squeeze;
use wallfinder_model::record::RequestKind;

use super::judge;
use crate::double::Noise;
use crate::proof::synthetic::{Conditions, System, run};
use crate::proof::{Because, what_if, what_if_of_kind};

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
