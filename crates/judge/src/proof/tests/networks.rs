//! Random networks: verdicts scored against elasticities that are known exactly, intervals
//! against true effects, and squeezes that do nothing.

use wallfinder_model::experiment::Squeeze;
use wallfinder_model::{Verdict, Wall};

use super::super::{Readings, claims, walls};
use super::{Score, judge};
use crate::double::Noise;
use crate::proof::synthetic::{Conditions, System, run};

/// Demands over two orders of magnitude, and a delay from none to much.
fn draw(noise: &mut Noise) -> System {
    let mut demand = || 20e-6 * 10f64.powf(1.5 * noise.uniform());
    let (server, client, downlink) = (demand(), demand(), demand());
    let uplink = demand() / 4.0;
    let delay = match noise.uniform() {
        u if u < 0.4 => 0.0,
        u => 0.02 * u,
    };
    let populations = [1.0, 4.0, 16.0, 64.0, 256.0];
    let in_flight = populations[(5.0 * noise.uniform()) as usize % 5];
    System {
        server,
        client,
        downlink,
        uplink,
        delay,
        in_flight,
        ..System::default()
    }
}

/// The same with everything that a server may have: more processors, a serial part, a quota,
/// a backend, a queue that no squeeze reaches, a schedule.
fn draw_any(noise: &mut Noise) -> System {
    let mut system = draw(noise);
    let demand = |chance: f64, noise: &mut Noise| {
        let drawn = 20e-6 * 10f64.powf(1.5 * noise.uniform());
        if noise.uniform() < chance { drawn } else { 0.0 }
    };
    system.inner = demand(0.4, noise);
    system.backend = demand(0.3, noise);
    system.serial = demand(0.3, noise);
    system.cores = [1.0, 2.0, 4.0][(3.0 * noise.uniform()) as usize % 3];
    if noise.uniform() < 0.2 {
        system.quota = Some(system.cores * (0.3 + 0.5 * noise.uniform()));
    }
    if noise.uniform() < 0.2 {
        system.open = Some(system.throughput() * (0.4 + noise.uniform()));
        system.in_flight = 256.0;
    }
    system.answers = 0.9 + 0.3 * noise.uniform();
    system
}

/// Whether a verdict on a network is right: what it names has much of the elasticity.
fn right(system: &System, verdict: &Verdict) -> bool {
    let of = |wall: Wall| {
        let squeezes = claims::squeezes_of(wall);
        let most = squeezes
            .iter()
            .map(|squeeze| system.elasticity(*squeeze))
            .fold(0.0, f64::max);
        match wall {
            Wall::Concurrency if system.in_flight < 2.0 => 1.0,
            Wall::Wait => system.rest(),
            _ => most,
        }
    };
    match verdict.wall {
        Wall::CoLimited => walls(verdict)
            .into_iter()
            .all(|wall| of(wall) >= 0.12 || (wall == Wall::Concurrency && system.rest() >= 0.12)),
        wall => of(wall) >= 0.4,
    }
}

fn scored_networks(trials: u64, draw: fn(&mut Noise) -> System, conditions: Conditions) -> Score {
    let mut noise = Noise::new(20_261_121);
    let mut score = Score::default();
    for seed in 0..trials {
        let system = draw(&mut noise);
        let verdict = judge(&run(&system, Conditions { seed, ..conditions }));
        let right = verdict.wall != Wall::Inconclusive && right(&system, &verdict);
        if !right {
            println!(
                "  seed {seed}: {:?} | {:?} | {}",
                verdict.reason,
                verdict.detail,
                system.truth()
            );
        }
        score.add(right, &verdict);
    }
    score.show("random networks");
    score
}

#[test]
fn random_networks_are_judged_right() {
    let score = scored_networks(200, draw, Conditions::default());
    assert!(score.of_answered() >= 0.95);
    assert!(score.answered() >= 0.90);
}

#[test]
fn random_servers_of_every_kind_are_judged_right() {
    let score = scored_networks(300, draw_any, Conditions::default());
    assert!(score.of_answered() >= 0.95);
    assert!(score.answered() >= 0.90);
}

/// Looking at several sizes, dropping what is clear and pooling variances must not make
/// intervals too narrow.
#[test]
fn intervals_hold_the_true_effect_of_their_dose() {
    let mut noise = Noise::new(99);
    let (mut held, mut all) = (0u32, 0u32);
    for seed in 0..120 {
        let system = draw(&mut noise);
        let step = run(
            &system,
            Conditions {
                seed,
                ..Conditions::default()
            },
        );
        let readings = Readings::of(step.experiment.as_ref().unwrap());
        for reading in readings.iter().filter(|reading| !reading.bent) {
            if matches!(reading.squeeze, Squeeze::InFlight | Squeeze::MoreInFlight) {
                continue;
            }
            let truth =
                (system.squeezed(reading.squeeze, 0.8) / system.throughput()).ln() / 0.8f64.ln();
            let (low, high) = reading.interval();
            held += u32::from(low <= truth && truth <= high);
            all += 1;
        }
    }
    let share = f64::from(held) / f64::from(all);
    println!("intervals that hold the truth: {share:.3} of {all}");
    assert!(share >= 0.93);
}

#[test]
fn nothing_against_nothing_names_no_wall() {
    let trials = 320;
    let false_walls = false_walls(trials, Conditions::default());
    assert!(false_walls * 100 < trials as u32);
}

/// How often a wall is named where every squeeze is a sham, beside telemetry of any kind of load: with a full
/// server, with an idle one.
pub(super) fn false_walls(trials: u64, conditions: Conditions) -> u32 {
    let mut noise = Noise::new(41);
    let (mut false_walls, mut waits) = (0, 0);
    for seed in 0..trials {
        let server = 20e-6 + 180e-6 * noise.uniform();
        let system = System {
            server,
            inner: if seed % 4 == 0 { 400e-6 } else { 0.0 },
            null: true,
            ..System::default()
        };
        let conditions = Conditions {
            seed,
            noise: conditions.noise * (0.67 + 1.33 * noise.uniform()),
            slow: 0.04,
            ..conditions
        };
        let step = run(&system, conditions);
        let verdict = judge(&step);
        let idle = seed % 4 == 0;
        waits += u32::from(verdict.wall == Wall::Wait && idle);
        let legitimate = verdict.wall == Wall::Inconclusive || (verdict.wall == Wall::Wait && idle);
        if !legitimate {
            println!("seed {seed}: {:?}", verdict.reason);
            false_walls += 1;
        }
    }
    println!("false walls: {false_walls} of {trials}; waits where both sides idle: {waits}");
    false_walls
}
