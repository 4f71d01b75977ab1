//! How often pairs of requests are said to cost each other where they do not, and where they do: experiments that are
//! drawn, judged as those of `find` are, second look included.
//!
//! ```text
//! cargo run --release -p wallfinder-judge --example interference [-- EXPERIMENTS]
//! ```
//!
//! Exit code 1 where one in a hundred is said wrongly.

use std::process::ExitCode;

use fastrand::Rng;
use wallfinder_judge::routes::{self, Told};
use wallfinder_model::Wall;
use wallfinder_model::record::{MixWindow, RequestKind};

/// Experiments of each row, unless it is said.
const EXPERIMENTS: usize = 2_000;
/// The share of experiments with a pair that is none, at the most.
const FALSE_MAX: f64 = 0.01;

/// A service: how often each request is asked for, what it takes, and what else is so.
struct Service {
    weights: Vec<u32>,
    costs: Vec<f64>,
    truth: Truth,
}

/// What the whole takes beside the sum of costs.
#[derive(Clone, Copy)]
enum Truth {
    /// Nothing.
    Adds,
    /// The first two cost each other this share of the whole, as often as they meet.
    Meet(f64),
    /// The same, as where the one empties what the other fills: each time they take turns.
    Turns(f64),
    /// Two walls, of which now the one binds and now the other.
    TwoWalls,
}

/// What a machine adds.
#[derive(Clone, Copy)]
enum Noise {
    /// Windows differ by so much, normally.
    Even(f64),
    /// One window in ten is slower, by a seventh at the most.
    Bursts,
    /// It gets slower while it is looked at, by a tenth.
    Drift,
}

impl Noise {
    const fn words(self) -> &'static str {
        match self {
            Noise::Even(_) => "2 %",
            Noise::Bursts => "1 %, bursts",
            Noise::Drift => "1 %, drift",
        }
    }

    fn factor(self, at: f64, random: &mut Rng) -> f64 {
        match self {
            Noise::Even(deviation) => 1.0 + deviation * normal(random),
            Noise::Bursts => {
                let slow = if random.f64() < 0.1 {
                    0.15 * random.f64()
                } else {
                    0.0
                };
                1.0 + 0.01 * normal(random) + slow
            }
            Noise::Drift => 1.0 + 0.01 * normal(random) + 0.1 * at,
        }
    }
}

fn normal(random: &mut Rng) -> f64 {
    let twelve: f64 = (0..12).map(|_| random.f64()).sum();
    twelve - 6.0
}

impl Service {
    fn drawn(kinds: usize, truth: Truth, random: &mut Rng) -> Service {
        let ten_fold = |random: &mut Rng| 10_f64.powf(random.f64());
        Service {
            weights: (0..kinds)
                .map(|_| (100.0 * ten_fold(random)) as u32)
                .collect(),
            costs: (0..kinds).map(|_| 20_000.0 * ten_fold(random)).collect(),
            truth,
        }
    }

    /// What so many of each take, in nanoseconds.
    fn takes(&self, counts: &[f64]) -> f64 {
        let sum = |counts: &[f64]| {
            counts
                .iter()
                .zip(&self.costs)
                .map(|(count, cost)| count * cost)
                .sum::<f64>()
        };
        let own: Vec<f64> = self
            .weights
            .iter()
            .map(|weight| f64::from(*weight))
            .collect();
        let among = |share: f64, met: &dyn Fn(&[f64]) -> f64| {
            let each = share / (1.0 - share) * sum(&own) / met(&own);
            sum(counts) + each * met(counts)
        };
        match self.truth {
            Truth::Adds => sum(counts),
            Truth::Meet(share) => among(share, &|n| n[0] * n[1] / n.iter().sum::<f64>()),
            Truth::Turns(share) => among(share, &|n| n[0] * n[1] / (n[0] + n[1])),
            Truth::TwoWalls => {
                let half = counts.len() / 2;
                let of = |kinds: std::ops::Range<usize>| -> f64 {
                    kinds.map(|kind| counts[kind] * self.costs[kind]).sum()
                };
                of(0..half).max(of(half..counts.len()))
            }
        }
    }

    fn experiment(&self, noise: Noise, random: &mut Rng) -> Option<Told> {
        const WINDOW_NS: f64 = 900e6;
        let own: f64 = self.weights.iter().map(|weight| f64::from(*weight)).sum();
        let requests: Vec<RequestKind> = self
            .weights
            .iter()
            .enumerate()
            .map(|(nth, weight)| RequestKind {
                name: nth.to_string(),
                weight: *weight,
                sent: (f64::from(*weight) / own * 1e6) as u64,
                ..RequestKind::default()
            })
            .collect();
        let wall = match self.truth {
            Truth::TwoWalls => Wall::Wait,
            _ => Wall::ServerCpu,
        };
        let mut windows = Vec::new();
        for look in 0..2 {
            let drawn = routes::weights(&self.weights, random.u64(..));
            let all = drawn.len() as f64;
            for (nth, weights) in drawn.into_iter().enumerate() {
                let counts: Vec<f64> = weights.iter().map(|weight| f64::from(*weight)).collect();
                let at = (nth as f64 / all + f64::from(look)) / 2.0;
                let rounds = WINDOW_NS / (self.takes(&counts) * noise.factor(at, random));
                let window = MixWindow {
                    answered: counts
                        .iter()
                        .map(|count| (count * rounds).round() as u64)
                        .collect(),
                    window_ns: WINDOW_NS as u64,
                    cpu_span_ns: WINDOW_NS as u64,
                    // A wait leaves the processor what its requests take of it.
                    server_cpu_ns: match self.truth {
                        Truth::TwoWalls => (counts.iter().sum::<f64>() * rounds * 5_000.0) as u64,
                        _ => WINDOW_NS as u64,
                    },
                    weights,
                    ..MixWindow::default()
                };
                windows.push(window);
            }
            let told = routes::told(&windows, &requests, Some(wall));
            if told.as_ref().is_none_or(|told| !told.is_open) {
                return told;
            }
        }
        routes::told(&windows, &requests, Some(wall))
    }
}

/// Of so many experiments.
#[derive(Default)]
struct Counted {
    right: usize,
    wrong: usize,
    share: f64,
    held: usize,
}

fn counted(
    kinds: usize,
    truth: Truth,
    noise: Noise,
    experiments: usize,
    random: &mut Rng,
) -> Counted {
    let mut counted = Counted::default();
    let real = match truth {
        Truth::Meet(share) | Truth::Turns(share) => Some(share),
        Truth::Adds | Truth::TwoWalls => None,
    };
    for _ in 0..experiments {
        let told = Service::drawn(kinds, truth, random).experiment(noise, random);
        let named = told.map_or_else(Vec::new, |told| told.interference);
        let is_real = |between: &[String; 2]| real.is_some() && *between == ["0", "1"];
        counted.wrong += usize::from(named.iter().any(|pair| !is_real(&pair.between)));
        for pair in named.iter().filter(|pair| is_real(&pair.between)) {
            counted.right += 1;
            counted.share += pair.share;
            let held =
                real.is_some_and(|share| (pair.share_low..=pair.share_high).contains(&share));
            counted.held += usize::from(held);
        }
    }
    counted
}

fn main() -> ExitCode {
    let asked = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let experiments: usize = asked.unwrap_or(EXPERIMENTS);
    let mut random = Rng::with_seed(20_261_127);
    let mut worst: f64 = 0.0;
    println!(
        "| requests | cost each other | windows differ by | named | another pair named | share told | its interval holds it |"
    );
    println!("|---|---|---|---|---|---|---|");
    let truths = [
        ("no", Truth::Adds),
        ("no, two walls", Truth::TwoWalls),
        ("10 %, as they meet", Truth::Meet(0.1)),
        ("20 %, as they meet", Truth::Meet(0.2)),
        ("30 %, as they meet", Truth::Meet(0.3)),
        ("20 %, by turns", Truth::Turns(0.2)),
        ("30 %, by turns", Truth::Turns(0.3)),
    ];
    for (words, truth) in truths {
        let noises: &[Noise] = match truth {
            Truth::Adds | Truth::TwoWalls => &[Noise::Even(0.02), Noise::Bursts, Noise::Drift],
            Truth::Meet(_) | Truth::Turns(_) => &[Noise::Even(0.02)],
        };
        for kinds in [2, 4, 8] {
            for noise in noises {
                let found = counted(kinds, truth, *noise, experiments, &mut random);
                let part =
                    |count: usize| format!("{:.1} %", 100.0 * count as f64 / experiments as f64);
                let of_right = |value: f64| match found.right {
                    0 => "–".to_owned(),
                    right => format!("{:.0} %", 100.0 * value / right as f64),
                };
                worst = worst.max(found.wrong as f64 / experiments as f64);
                println!(
                    "| {kinds} | {words} | {} | {} | {} | {} | {} |",
                    noise.words(),
                    part(found.right),
                    part(found.wrong),
                    of_right(found.share),
                    of_right(found.held as f64),
                );
            }
        }
    }
    println!("wrongly named at the most: {:.2} %", 100.0 * worst);
    match worst <= FALSE_MAX {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
