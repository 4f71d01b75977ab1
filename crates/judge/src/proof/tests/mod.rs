//! Proofs of systems whose answers are known: the labelled suite here, random networks and
//! nothing against nothing in `networks`, next walls and predictions in `levers`.

use wallfinder_model::experiment::Effort;
use wallfinder_model::verdict::How;
use wallfinder_model::{Detail, Step, Verdict, Wall};

use super::prove;
use super::synthetic::{Conditions, System, run};
use crate::double::a_machine;

mod any_record;
mod cases;
mod designs;
mod levers;
mod networks;

fn judge(step: &Step) -> Verdict {
    let verdict = prove(step, &a_machine());
    check_invariants(step, &verdict);
    verdict
}

fn check_invariants(step: &Step, verdict: &Verdict) {
    let written = serde_json::to_string(verdict).expect("plain data");
    // A number that is not finite would be null.
    if let Err(error) = serde_json::from_str::<Verdict>(&written) {
        panic!("{error}: {written}");
    }
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
    /// What the detail must be.
    detail: fn(&Detail) -> bool,
    drift: f64,
}

fn row(name: &'static str, right: &'static [Wall], system: System) -> Row {
    Row {
        name,
        system,
        right,
        detail: |_| true,
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
            detail: |detail| matches!(detail, Detail::Quota { .. }),
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
            detail: |detail| {
                matches!(
                    detail,
                    Detail::OneRuns | Detail::HotThreads { threads: 1, .. }
                )
            },
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
            detail: Detail::is_on_client,
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
            detail: |detail| matches!(detail, Detail::Neighbours { .. }),
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
            "three equal stages inside the server, 4 in flight",
            &[Wall::CoLimited],
            System {
                inner: 1e-3,
                alike: 3,
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
        row(
            "bursts under a quota, open loop",
            &[Wall::OfferedLoad],
            System {
                server: 200e-6,
                quota: Some(0.6),
                open: Some(1_500.0),
                ..base()
            },
        ),
        row(
            "one in flight, the server half of the time",
            &[Wall::Concurrency],
            System {
                server: 1e-3,
                delay: 1e-3,
                in_flight: 1.0,
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
        row(
            "a backend at its quota",
            &[Wall::Backend],
            System {
                server: 100e-6,
                backend: 150e-6,
                backend_quota: Some(0.5),
                ..base()
            },
        ),
    ]
}

#[derive(Default)]
struct Score {
    right: u32,
    wrong: u32,
    undecided: u32,
    proved: u32,
    /// Proved, and wrong.
    proved_wrong: u32,
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
        let is_proved = verdict.how == How::Proved;
        self.proved += u32::from(is_proved);
        self.proved_wrong += u32::from(is_proved && !right);
    }
}

fn scored(seeds: u64, conditions: Conditions) -> Score {
    let effort = conditions.effort;
    let mut score = Score::default();
    let (mut windows_max, mut windows_sum) = (0, 0);
    for row in suite() {
        // A quick look is too short to see it, and noise of so much hides it.
        let is_hidden = effort == Effort::Quick || conditions.noise > 0.05;
        if row.drift != 0.0 && is_hidden {
            continue;
        }
        let mut own = Score::default();
        for seed in 0..seeds {
            let conditions = Conditions {
                seed,
                drift: row.drift,
                ..conditions
            };
            let step = run(&row.system, conditions);
            windows_max = windows_max.max(step.experiment.as_ref().unwrap().windows.len());
            windows_sum += step.experiment.as_ref().unwrap().windows.len();
            let verdict = judge(&step);
            // Where a row asks for none, none is as good.
            let is_made_of = match &verdict.detail {
                Some(detail) => (row.detail)(detail),
                None => (row.detail)(&Detail::NoSqueezeReaches),
            };
            let right = row.right.contains(&verdict.wall) && is_made_of;
            if !right {
                println!(
                    "  {} seed {seed}: {:?} | {:?}",
                    row.name, verdict.reason, verdict.detail
                );
            }
            own.add(right, &verdict);
            score.add(right, &verdict);
        }
        own.show(row.name);
    }
    let windows_mean = windows_sum as f64 / f64::from(score.all());
    println!("windows: {windows_mean:.0} in the mean, {windows_max} at the most");
    score.show(&format!("{conditions:?}"));
    score
}

#[test]
fn the_labelled_suite_is_judged_right() {
    let score = scored(20, Conditions::default());
    assert!(score.of_answered() >= 0.95);
    assert!(score.answered() >= 0.90);
}

#[test]
fn on_a_noisy_machine_it_still_is() {
    let score = scored(
        6,
        Conditions {
            noise: 0.03,
            ..Conditions::default()
        },
    );
    assert!(score.of_answered() >= 0.95);
    assert!(score.answered() >= 0.90);
}

#[test]
fn a_quick_look_is_likely_and_mostly_right() {
    let score = scored(
        10,
        Conditions {
            effort: Effort::Quick,
            ..Conditions::default()
        },
    );
    assert_eq!(score.proved, 0);
    assert!(score.of_answered() >= 0.92);
    assert!(score.answered() >= 0.80);
}

/// Where one window of each answers few of these, the rest of the time is for what it leaves open.
#[test]
fn a_quick_look_takes_its_time_on_a_noisy_machine() {
    let score = scored(
        10,
        Conditions {
            effort: Effort::Quick,
            noise: 0.03,
            ..Conditions::default()
        },
    );
    assert!(score.of_answered() >= 0.9);
    assert!(score.answered() >= 0.88);
}

/// Where windows are so unlike that nothing against nothing cannot be told to be small.
#[test]
fn on_a_machine_that_wanders_what_outweighs_nothing_is_proved() {
    let wanders = Conditions {
        noise: 0.06,
        ..Conditions::default()
    };
    let score = scored(8, wanders);
    assert!(score.proved >= 10, "something is proved all the same");
    assert_eq!(score.proved_wrong, 0);
}

/// Processors that are slowed by strangers, by a tenth in the mean.
#[test]
fn a_reference_loop_tells_strangers_from_walls() {
    let with = |effort, is_told| Conditions {
        effort,
        pace: (0.1, is_told),
        ..Conditions::default()
    };
    let blind = scored(4, with(Effort::Quick, false));
    let told = scored(4, with(Effort::Quick, true));
    assert!(told.answered() >= 0.85 && told.of_answered() >= 0.92);
    assert!(
        blind.answered() < told.answered() - 0.1,
        "there is something to tell"
    );
    let told = scored(4, with(Effort::Normal, true));
    assert!(told.answered() >= 0.9 && told.of_answered() >= 0.95);
}

#[test]
fn among_neighbours_that_come_and_go_it_still_is() {
    let score = scored(
        6,
        Conditions {
            rough: true,
            ..Conditions::default()
        },
    );
    assert!(score.of_answered() >= 0.95);
    assert!(score.answered() >= 0.90);
}

#[test]
fn with_more_time_more_is_proved() {
    let thorough = Conditions {
        effort: Effort::Thorough,
        noise: 0.025,
        ..Conditions::default()
    };
    let score = scored(3, thorough);
    assert!(score.of_answered() >= 0.95 && score.answered() >= 0.95);
}

/// ```sh
/// WALLFINDER_SEEDS=75 cargo test --release -p wallfinder-judge --lib of_thousands -- --ignored --nocapture
/// ```
#[test]
#[ignore = "a table for people, in minutes"]
fn verdicts_of_thousands() {
    let seeds = std::env::var("WALLFINDER_SEEDS").ok();
    let seeds = seeds.and_then(|seeds| seeds.parse().ok()).unwrap_or(10);
    for (effort, noise) in [
        (Effort::Quick, 0.02),
        (Effort::Normal, 0.02),
        (Effort::Normal, 0.04),
        (Effort::Normal, 0.06),
    ] {
        let conditions = Conditions {
            effort,
            noise,
            ..Conditions::default()
        };
        let score = scored(seeds, conditions);
        let of_nothing = 27 * seeds;
        let false_walls = networks::false_walls(of_nothing, conditions);
        let rate = |count: u32| f64::from(count) / f64::from(score.all());
        println!(
            "{effort:?}, noise {noise}: right of answered {:.3}, answered {:.3}, proved {:.3}, proved wrong {:.4} of {}, \
             false walls of nothing {false_walls} of {of_nothing}",
            score.of_answered(),
            score.answered(),
            rate(score.proved),
            rate(score.proved_wrong),
            score.all()
        );
    }
}
