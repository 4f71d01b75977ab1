//! Proofs of systems whose answers are known: the labelled suite, nothing against nothing,
//! random networks, and next walls against what lifting the first brings.

use wallfinder_model::experiment::{Effort, Squeeze};
use wallfinder_model::verdict::How;
use wallfinder_model::{Step, Verdict, Wall};

use super::prove;
use super::synthetic::{Conditions, System, run};
use crate::double::{Noise, a_machine};

fn judge(step: &Step) -> Verdict {
    let verdict = prove(step, &a_machine());
    check_invariants(step, &verdict);
    verdict
}

fn check_invariants(step: &Step, verdict: &Verdict) {
    assert!(verdict.sentence.ends_with('.'), "{}", verdict.sentence);
    assert_eq!(
        verdict.how == How::Inconclusive,
        verdict.wall == Wall::Inconclusive
    );
    for elasticity in verdict.elasticities.values() {
        assert!(
            elasticity.low.is_finite() && elasticity.high.is_finite(),
            "{verdict:#?}"
        );
        assert!(elasticity.low <= elasticity.value && elasticity.value <= elasticity.high);
    }
    if verdict.wall == Wall::CoLimited {
        let sum: f64 = verdict.shares.values().sum();
        assert!(
            (sum - 1.0).abs() < 1e-6 && verdict.shares.len() >= 2,
            "{verdict:#?}"
        );
    }
    let experiment = step.experiment.as_ref().unwrap();
    if experiment.effort == Effort::Quick {
        assert!(verdict.how < How::Proved, "{verdict:#?}");
    }
}

/// A row of the labelled suite.
struct Row {
    name: &'static str,
    system: System,
    right: &'static [Wall],
    /// Words that the detail must hold.
    detail: &'static str,
    drift: f64,
}

fn row(name: &'static str, right: &'static [Wall], system: System) -> Row {
    Row {
        name,
        system,
        right,
        detail: "",
        drift: 0.0,
    }
}

fn suite() -> Vec<Row> {
    let base = System::default;
    vec![
        row(
            "spin 200 us, 16 in flight",
            &[Wall::ServerCpu],
            System {
                server: 200e-6,
                ..base()
            },
        ),
        Row {
            detail: "quota",
            ..row(
                "server quota of half a core",
                &[Wall::ServerCpu],
                System {
                    server: 200e-6,
                    quota: Some(0.5),
                    ..base()
                },
            )
        },
        row(
            "client spins 300 us",
            &[Wall::ClientCpu],
            System {
                client: 300e-6,
                ..base()
            },
        ),
        row(
            "client quota of 0.3 core",
            &[Wall::ClientCpu],
            System {
                client: 100e-6,
                client_quota: Some(0.3),
                ..base()
            },
        ),
        row(
            "10 KB answers, 20 Mbit/s",
            &[Wall::Downlink],
            System {
                downlink: 4e-3,
                ..base()
            },
        ),
        row(
            "10 KB uploads, 20 Mbit/s",
            &[Wall::Uplink],
            System {
                uplink: 4e-3,
                ..base()
            },
        ),
        row(
            "sleep under a lock",
            &[Wall::Wait],
            System {
                inner: 1e-3,
                ..base()
            },
        ),
        Row {
            detail: "one",
            ..row(
                "300 us of work under a lock, two processors",
                &[Wall::ServerSerial],
                System {
                    serial: 300e-6,
                    server: 30e-6,
                    cores: 2.0,
                    ..base()
                },
            )
        },
        row(
            "asynchronous sleep, 8 in flight",
            &[Wall::Concurrency],
            System {
                delay: 5e-3,
                in_flight: 8.0,
                ..base()
            },
        ),
        row(
            "4 permits of 5 ms, 64 in flight",
            &[Wall::Wait],
            System {
                inner: 1.25e-3,
                in_flight: 64.0,
                ..base()
            },
        ),
        Row {
            detail: "client's side",
            ..row(
                "client pool of 4 behind 64",
                &[Wall::Concurrency],
                System {
                    delay: 5e-3,
                    in_flight: 64.0,
                    client_pool: Some(4.0),
                    ..base()
                },
            )
        },
        row(
            "open loop at 50 %",
            &[Wall::OfferedLoad],
            System {
                server: 200e-6,
                open: Some(2_500.0),
                ..base()
            },
        ),
        row(
            "open loop at 120 %",
            &[Wall::ServerCpu],
            System {
                server: 200e-6,
                open: Some(6_000.0),
                in_flight: 256.0,
                ..base()
            },
        ),
        Row {
            detail: "neighbour",
            ..row(
                "a neighbour on the server's processor",
                &[Wall::ServerCpu],
                System {
                    server: 200e-6,
                    neighbour: 0.5,
                    ..base()
                },
            )
        },
        row(
            "a collector: 1.3 for speed",
            &[Wall::ServerCpu],
            System {
                server: 200e-6,
                answers: 1.3,
                ..base()
            },
        ),
        row(
            "batching: 0.85 for speed",
            &[Wall::ServerCpu],
            System {
                server: 200e-6,
                answers: 0.85,
                ..base()
            },
        ),
        row(
            "CPU ceiling = link ceiling",
            &[Wall::CoLimited],
            System {
                server: 200e-6,
                downlink: 200e-6,
                in_flight: 64.0,
                ..base()
            },
        ),
        row(
            "CPU ceiling 3 % below link ceiling",
            &[Wall::CoLimited, Wall::ServerCpu],
            System {
                server: 206e-6,
                downlink: 200e-6,
                in_flight: 64.0,
                ..base()
            },
        ),
        row(
            "client 8 % behind the server",
            &[Wall::ServerCpu],
            System {
                server: 200e-6,
                client: 185e-6,
                in_flight: 128.0,
                ..base()
            },
        ),
        row(
            "phases of 200 ms",
            &[Wall::CoLimited],
            System {
                server: 200e-6,
                downlink: 200e-6,
                phases: true,
                ..base()
            },
        ),
        row(
            "three equal exponential stages, 4 in flight",
            &[Wall::CoLimited],
            System {
                server: 200e-6,
                client: 200e-6,
                downlink: 200e-6,
                uplink: 0.0,
                in_flight: 4.0,
                ..base()
            },
        ),
        row(
            "a backend",
            &[Wall::Backend],
            System {
                server: 100e-6,
                backend: 300e-6,
                ..base()
            },
        ),
        Row {
            drift: 0.6,
            ..row(
                "slow drift",
                &[Wall::Inconclusive],
                System {
                    server: 200e-6,
                    ..base()
                },
            )
        },
    ]
}

#[derive(Default)]
struct Score {
    right: u32,
    wrong: u32,
    undecided: u32,
    proved: u32,
}

impl Score {
    fn of_answered(&self) -> f64 {
        f64::from(self.right) / f64::from((self.right + self.wrong).max(1))
    }

    fn all(&self) -> u32 {
        self.right + self.wrong + self.undecided
    }

    fn answered(&self) -> f64 {
        f64::from(self.right + self.wrong) / f64::from(self.all().max(1))
    }

    fn show(&self, what: &str) {
        println!(
            "{what}: right of answered {:.3}, answered {:.3}, proved {} of {}",
            self.of_answered(),
            self.answered(),
            self.proved,
            self.all()
        );
    }

    fn add(&mut self, right: bool, verdict: &Verdict) {
        match (right, verdict.wall) {
            (true, _) => self.right += 1,
            (false, Wall::Inconclusive) => self.undecided += 1,
            (false, _) => self.wrong += 1,
        }
        self.proved += u32::from(verdict.how == How::Proved);
    }
}

fn scored(effort: Effort, seeds: u64, noise: f64) -> Score {
    let mut score = Score::default();
    let mut windows_max = 0;
    for row in suite() {
        if effort == Effort::Quick && row.drift != 0.0 {
            continue;
        }
        let mut own = Score::default();
        for seed in 0..seeds {
            let conditions = Conditions {
                effort,
                seed,
                noise,
                drift: row.drift,
                ..Conditions::default()
            };
            let step = run(&row.system, conditions);
            windows_max = windows_max.max(step.experiment.as_ref().unwrap().windows.len());
            let verdict = judge(&step);
            let detail = verdict.detail.as_deref().unwrap_or("");
            let right = row.right.contains(&verdict.wall) && detail.contains(row.detail);
            if !right {
                println!(
                    "  {} seed {seed}: {} | {detail}",
                    row.name, verdict.sentence
                );
            }
            own.add(right, &verdict);
            score.add(right, &verdict);
        }
        own.show(row.name);
    }
    println!("windows at the most: {windows_max}");
    score.show(&format!("{effort:?}, noise {noise}"));
    score
}

#[test]
fn the_labelled_suite_is_judged_right() {
    let score = scored(Effort::Normal, 20, 0.015);
    assert!(score.of_answered() >= 0.95);
    assert!(score.answered() >= 0.90);
}

#[test]
fn on_a_noisy_machine_it_still_is() {
    let score = scored(Effort::Normal, 6, 0.03);
    assert!(score.of_answered() >= 0.95);
    assert!(score.answered() >= 0.90);
}

#[test]
fn a_quick_look_is_likely_and_mostly_right() {
    let score = scored(Effort::Quick, 10, 0.015);
    assert_eq!(score.proved, 0);
    assert!(score.of_answered() >= 0.92);
    assert!(score.answered() >= 0.80);
}

#[test]
fn nothing_against_nothing_names_no_wall() {
    // Telemetry of any kind of load: with a full server beside squeezes that move nothing,
    // with an idle one, with little in flight.
    let mut noise = Noise::new(41);
    let (mut false_walls, mut waits, trials) = (0, 0, 320);
    for seed in 0..trials {
        let server = 20e-6 + 180e-6 * noise.uniform();
        let system = System {
            server,
            inner: if seed % 4 == 0 { 400e-6 } else { 0.0 },
            null: true,
            ..System::default()
        };
        let blur = 0.01 + 0.02 * noise.uniform();
        let conditions = Conditions {
            seed,
            noise: blur,
            slow: 0.04,
            ..Conditions::default()
        };
        let step = run(&system, conditions);
        let verdict = judge(&step);
        let idle = seed % 4 == 0;
        waits += u32::from(verdict.wall == Wall::Wait && idle);
        let legitimate = verdict.wall == Wall::Inconclusive || (verdict.wall == Wall::Wait && idle);
        if !legitimate {
            println!("seed {seed}: {}", verdict.sentence);
            false_walls += 1;
        }
    }
    println!("false walls: {false_walls} of {trials}; waits where both sides idle: {waits}");
    assert!(false_walls * 100 < trials);
}

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

/// Whether a verdict on a network is right: what it names has much of the elasticity.
fn right(system: &System, verdict: &Verdict) -> bool {
    let of = |wall: Wall| {
        let squeeze = super::looks::speed_of(wall).filter(|_| wall != Wall::Concurrency);
        match wall {
            Wall::Concurrency if system.in_flight < 2.0 => 1.0,
            Wall::Concurrency => system.elasticity(Squeeze::InFlight),
            _ => squeeze.map_or(0.0, |squeeze| system.elasticity(squeeze)),
        }
    };
    match verdict.wall {
        Wall::CoLimited => super::walls(verdict)
            .into_iter()
            .all(|wall| of(wall) >= 0.12),
        wall => of(wall) >= 0.4,
    }
}

#[test]
fn random_networks_are_judged_right() {
    let mut noise = Noise::new(20_261_121);
    let mut score = Score::default();
    for seed in 0..200 {
        let system = draw(&mut noise);
        let verdict = judge(&run(
            &system,
            Conditions {
                seed,
                ..Conditions::default()
            },
        ));
        let right = verdict.wall != Wall::Inconclusive && right(&system, &verdict);
        if !right {
            println!(
                "  seed {seed}: {} {:?} {system:?}",
                verdict.sentence, verdict.detail
            );
        }
        score.add(right, &verdict);
    }
    score.show("random networks");
    assert!(score.of_answered() >= 0.95);
    assert!(score.answered() >= 0.90);
}

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
