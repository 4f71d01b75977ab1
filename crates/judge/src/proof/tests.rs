//! Proofs of systems whose answers are known: the labelled suite, nothing against nothing,
//! random networks, and next walls against what lifting the first brings.

use wallfinder_model::experiment::{Effort, Squeeze};
use wallfinder_model::verdict::How;
use wallfinder_model::{Caveat, Step, Verdict, Wall};

use super::synthetic::{Conditions, System, run};
use super::{prove, what_if};
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

fn scored(seeds: u64, conditions: Conditions) -> Score {
    let effort = conditions.effort;
    let mut score = Score::default();
    let (mut windows_max, mut windows_sum) = (0, 0);
    for row in suite() {
        if effort == Effort::Quick && row.drift != 0.0 {
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
        let predicted = what_if(&step, &[(Squeeze::Downlink, factor)]).unwrap();
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
    assert!(rmse <= 0.05);
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
    assert_eq!(
        predicted.because,
        "The change does not touch what binds: the downlink."
    );
    assert_eq!(what_if(&step, &[(Squeeze::ServerSpeed, 0.0)]), None);
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

mod any_record {
    use proptest::prelude::*;
    use wallfinder_model::experiment::{Condition, Window};

    use super::*;
    use crate::double::a_step;
    use crate::proof::synthetic::experiment_of;
    use crate::proof::{Next, next};

    fn a_number() -> impl Strategy<Value = f64> {
        prop_oneof![
            4 => 0.0..2_000.0f64,
            1 => Just(f64::NAN),
            1 => Just(f64::INFINITY),
            1 => Just(-1.0),
            1 => Just(0.0),
        ]
    }

    prop_compose! {
        fn a_window()(
            condition in 0u32..14, round in 0u32..9, restart in 0u32..3, at in 0u64..100,
            throughput in a_number(), in_flight in a_number(), retained in a_number(),
            steal in a_number(), failed in 0u64..3, in_force: Option<bool>,
        ) -> Window {
            Window {
                throughput, failed, round, condition, restart,
                in_flight_mean: Some(in_flight),
                latency_mean_ns: Some(throughput),
                retained: (round % 2 == 0).then_some(retained / 2_000.0),
                steal_share: steal / 1e5,
                in_force,
                from_ns: at * 1_000_000_000,
                to_ns: (at + 1) * 1_000_000_000,
                ..experiment_of(&[], &[(0, 1.0)]).windows[0].clone()
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]
        #[test]
        fn is_judged_without_panic(
            windows in proptest::collection::vec(a_window(), 0..60),
            retained in proptest::collection::vec(a_number(), 12),
            open: bool,
        ) {
            let mut experiment = experiment_of(&[], &[]);
            experiment.setting.open_loop = open;
            experiment.windows = windows;
            for (i, retained) in retained.into_iter().enumerate() {
                experiment.conditions.push(Condition {
                    squeeze: Some(Squeeze::ALL[i % Squeeze::ALL.len()]),
                    retained: if retained > 1.0 { 0.8 } else { retained },
                    how: String::new(),
                });
            }
            if let Next::Rounds { rounds, conditions } = next(&experiment) {
                prop_assert!(rounds > 0 && !conditions.is_empty());
            }
            let mut step = a_step().build();
            step.experiment = Some(experiment);
            let verdict = judge(&step);
            step.verdict = Some(verdict);
            let _ = what_if(&step, &[(Squeeze::Downlink, 2.0)]);
        }
    }
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

/// The same with everything that a server may have: more processors, a serial part, a quota,
/// a backend, a queue that no squeeze reaches, a schedule.
fn draw_any(noise: &mut Noise) -> System {
    let mut system = draw(noise);
    let mut demand = |chance: f64, noise: &mut Noise| {
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
        let squeezes = super::claims::squeezes_of(wall);
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
        Wall::CoLimited => super::walls(verdict)
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
                "  seed {seed}: {} | {:?} | {}",
                verdict.sentence,
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
        let readings = super::Readings::of(step.experiment.as_ref().unwrap());
        for reading in readings.iter().filter(|reading| !reading.bent) {
            if reading.squeeze == Squeeze::InFlight {
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
