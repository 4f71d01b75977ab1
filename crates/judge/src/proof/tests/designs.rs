//! Designs of an experiment beside each other: one squeeze at a time, many at once by a factorial design, and
//! the suspect alone beside all others together. Same systems, same noise, same number of windows.
//!
//! ```text
//!  one at a time      S a b S c d S e f │ ...                 pairs with their shams, or least squares
//!  factorial          twelve by Plackett and Burman, mirrored │ ...   least squares
//!  suspect and rest   one at a time once │ S w R S R w │ ...  least squares
//! ```
//!
//! Least squares are those of the proof (`squares`). Estimates are held against the one-sided elasticity of the
//! load that is not squeezed.
//!
//! ```sh
//! WALLFINDER_SEEDS=8 cargo test --release -p wallfinder-judge --lib designs -- --ignored --nocapture
//! ```

use wallfinder_model::experiment::Squeeze;

use super::suite;
use crate::double::Noise;
use crate::proof::estimate;
use crate::proof::squares::{self, Row};
use crate::proof::synthetic::System;

const SQUEEZES: [Squeeze; 6] = [
    Squeeze::ServerSpeed,
    Squeeze::ClientSpeed,
    Squeeze::Downlink,
    Squeeze::Uplink,
    Squeeze::InFlight,
    Squeeze::BackendSpeed,
];
const MANY: usize = SQUEEZES.len();
const DOSE: f64 = 0.8;
/// A wall's elasticity is above this, and that of what is none below the other.
const WALL: f64 = 0.5;
const SLACK: f64 = 0.2;
/// Shared over the squeezes, at both ends of an interval.
const ALPHA: f64 = 0.05 / MANY as f64;

/// Which squeezes are in force in a window.
type Squeezed = [bool; MANY];
const NONE: Squeezed = [false; MANY];

fn only(at: usize) -> Squeezed {
    std::array::from_fn(|of| of == at)
}

fn all_but(at: usize) -> Squeezed {
    std::array::from_fn(|of| of != at)
}

/// How the machine blurs what is measured, in ln of throughput.
#[derive(Debug, Clone, Copy)]
struct Blur {
    /// Deviation from window to window.
    white: f64,
    /// Deviation of what wanders, over eight windows.
    drift: f64,
    /// Share of windows that run at three quarters.
    slow: f64,
    /// Deviation from start to start of the server.
    luck: f64,
}

/// ln of throughput under every set of squeezes, so that each system is solved once.
struct Truth {
    ln: Vec<f64>,
}

impl Truth {
    fn of(system: &System) -> Truth {
        let of_set = |set: usize| {
            let squeezed = (0..MANY).filter(|at| set >> at & 1 == 1);
            let with = |system: System, at: usize| system.with(SQUEEZES[at], DOSE);
            squeezed.fold(system.clone(), with).throughput().ln()
        };
        Truth {
            ln: (0..1 << MANY).map(of_set).collect(),
        }
    }

    fn at(&self, squeezed: &Squeezed) -> f64 {
        let set = (0..MANY).filter(|at| squeezed[*at]).map(|at| 1 << at);
        self.ln[set.sum::<usize>()]
    }

    /// The one-sided elasticity at the dose.
    fn elasticity(&self, at: usize) -> f64 {
        (self.ln[1 << at] - self.ln[0]) / DOSE.ln()
    }

    fn largest(&self) -> usize {
        let order = |a: &usize, b: &usize| self.elasticity(*a).total_cmp(&self.elasticity(*b));
        (0..MANY).max_by(order).expect("there are squeezes")
    }

    /// The one wall, where there is one.
    fn wall(&self) -> Option<usize> {
        let wall = self.largest();
        let alone = (0..MANY).all(|at| at == wall || self.elasticity(at) < SLACK);
        (alone && self.elasticity(wall) >= WALL).then_some(wall)
    }
}

/// An experiment as it goes: three starts of the server, a machine that wanders.
struct Trial<'t> {
    truth: &'t Truth,
    blur: Blur,
    noise: Noise,
    windows: usize,
    drift: f64,
    levels: [f64; 3],
    squeezed: Vec<Squeezed>,
    y: Vec<f64>,
}

impl Trial<'_> {
    fn new(truth: &Truth, blur: Blur, windows: usize, seed: u64) -> Trial<'_> {
        let mut noise = Noise::new(seed.wrapping_mul(7919) + 13);
        Trial {
            truth,
            blur,
            windows,
            drift: blur.drift * noise.gauss(),
            levels: std::array::from_fn(|_| blur.luck * noise.gauss()),
            noise,
            squeezed: Vec::new(),
            y: Vec::new(),
        }
    }

    fn start(&self, at: usize) -> usize {
        at * self.levels.len() / self.windows
    }

    fn left(&self) -> usize {
        self.windows - self.y.len()
    }

    fn run(&mut self, squeezed: &[Squeezed]) {
        let memory = (-1.0f64 / 8.0).exp();
        for squeezed in squeezed.iter().take(self.left()) {
            let step = self.blur.drift * (1.0 - memory * memory).sqrt();
            self.drift = memory * self.drift + step * self.noise.gauss();
            let is_slow = self.noise.uniform() < self.blur.slow;
            let slow = if is_slow { 0.75f64.ln() } else { 0.0 };
            let level = self.levels[self.start(self.y.len())] + self.drift + slow;
            let white = self.blur.white * self.noise.gauss();
            self.y.push(self.truth.at(squeezed) + level + white);
            self.squeezed.push(*squeezed);
        }
    }
}

/// A round of each squeeze alone, two between shams.
fn each_alone(random: &mut fastrand::Rng) -> Vec<Squeezed> {
    let mut order: Vec<usize> = (0..MANY).collect();
    random.shuffle(&mut order);
    let two = |two: &[usize]| [NONE, only(two[0]), only(two[1])];
    order.chunks(2).flat_map(two).collect()
}

/// Plackett and Burman's twelve and their mirror image, each in random order, with columns of their own.
fn mirrored_twelve(random: &mut fastrand::Rng) -> Vec<Squeezed> {
    const FIRST: [bool; 11] = [
        true, true, false, true, true, true, false, false, false, true, false,
    ];
    let mut columns: Vec<usize> = (0..11).collect();
    random.shuffle(&mut columns);
    let mut all = Vec::new();
    for mirrored in [false, true] {
        let is_set = |row: usize, of: usize| row < 11 && FIRST[(columns[of] + 11 - row) % 11];
        let mut rows: Vec<Squeezed> = (0..12)
            .map(|row| std::array::from_fn(|of| is_set(row, of) != mirrored))
            .collect();
        random.shuffle(&mut rows);
        all.extend(rows);
    }
    all
}

/// The elasticity of a squeeze and its interval.
#[derive(Debug, Clone, Copy)]
struct Told {
    value: f64,
    low: f64,
    high: f64,
}

/// A design with its estimator.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Design {
    Pairs,
    AloneBySquares,
    FactorialBySquares,
    SuspectAndRest,
}

impl Design {
    const ALL: [(Design, &'static str); 4] = [
        (Design::Pairs, "one at a time, pairs"),
        (Design::AloneBySquares, "one at a time, least squares"),
        (Design::FactorialBySquares, "factorial, least squares"),
        (Design::SuspectAndRest, "suspect and rest"),
    ];

    fn tells(self, trial: &mut Trial, seed: u64) -> [Told; MANY] {
        let random = &mut fastrand::Rng::with_seed(seed);
        match self {
            Design::Pairs | Design::AloneBySquares => {
                while trial.left() > 0 {
                    trial.run(&each_alone(random));
                }
            }
            Design::FactorialBySquares => {
                while trial.left() > 0 {
                    trial.run(&mirrored_twelve(random));
                }
            }
            Design::SuspectAndRest => return suspect_and_rest(trial, random),
        }
        match self {
            Design::Pairs => pairs(trial),
            _ => {
                let of = |squeezed: &Squeezed| (0..MANY).filter(|at| squeezed[*at]).collect();
                let told = by_squares(trial, MANY, of);
                std::array::from_fn(|at| told[at])
            }
        }
    }
}

/// Each squeezed window beside the line between its shams, as the proof does it now.
fn pairs(trial: &Trial) -> [Told; MANY] {
    let shams: Vec<usize> = (0..trial.windows)
        .filter(|at| trial.squeezed[*at] == NONE)
        .collect();
    let base = |at: usize| {
        let own = |sham: &&usize| trial.start(**sham) == trial.start(at);
        let before = shams.iter().filter(own).rev().find(|sham| **sham < at);
        let after = shams.iter().filter(own).find(|sham| **sham > at);
        match (before, after) {
            (Some(a), Some(b)) => {
                let weight = (at - a) as f64 / (b - a) as f64;
                Some(trial.y[*a] * (1.0 - weight) + trial.y[*b] * weight)
            }
            (Some(one), None) | (None, Some(one)) => Some(trial.y[*one]),
            (None, None) => None,
        }
    };
    let values: Vec<Vec<f64>> = (0..MANY)
        .map(|of| {
            let own = (0..trial.windows).filter(|at| trial.squeezed[*at] == only(of));
            own.filter_map(|at| Some((trial.y[at] - base(at)?) / DOSE.ln()))
                .collect()
        })
        .collect();
    let spreads: Vec<_> = values
        .iter()
        .filter_map(|own| estimate::spread(own))
        .collect();
    let pool = estimate::pool(&spreads);
    std::array::from_fn(|of| match estimate::estimate(&values[of], pool) {
        Some(one) => {
            let (low, high) = one.interval(ALPHA);
            let value = one.value;
            Told { value, low, high }
        }
        None => NOTHING,
    })
}

const NOTHING: Told = Told {
    value: 0.0,
    low: f64::NEG_INFINITY,
    high: f64::INFINITY,
};

/// Throughput is monotone in each resource: what costs nothing together costs nothing alone. Who costs most is
/// suspected, and another one where the rest turns out to cost as much.
fn suspect_and_rest(trial: &mut Trial, random: &mut fastrand::Rng) -> [Told; MANY] {
    trial.run(&each_alone(random));
    let mut sets: Vec<Squeezed> = (0..MANY).map(only).collect();
    loop {
        let of = |squeezed: &Squeezed| sets.iter().position(|set| set == squeezed);
        let by_sets = by_squares(trial, sets.len(), |squeezed| {
            of(squeezed).into_iter().collect()
        });
        let told: [Told; MANY] = std::array::from_fn(|at| {
            // Every rest that it was in.
            let rests = (MANY..sets.len()).filter(|of| sets[*of][at]);
            rests.fold(by_sets[at], |own, of| {
                let rest = by_sets[of];
                Told {
                    value: own.value.min(rest.value),
                    high: own.high.min(rest.high),
                    ..own
                }
            })
        });
        if trial.left() == 0 {
            return told;
        }
        let order = |a: &usize, b: &usize| told[*a].value.total_cmp(&told[*b].value);
        let suspect = (0..MANY).max_by(order).expect("there are squeezes");
        let rest = all_but(suspect);
        if !sets.contains(&rest) {
            sets.push(rest);
        }
        let mut block = [NONE, rest, NONE, rest, only(suspect)];
        random.shuffle(&mut block);
        trial.run(&block);
    }
}

/// Effects of columns, by the proof's own estimator. `of` says which columns a window is of.
fn by_squares(trial: &Trial, columns: usize, of: impl Fn(&Squeezed) -> Vec<usize>) -> Vec<Told> {
    let row = |at: usize| Row {
        columns: of(&trial.squeezed[at]),
        x: DOSE.ln(),
        y: trial.y[at],
        start: trial.start(at) as u32,
        at_s: at as f64,
    };
    let rows: Vec<Row> = (0..trial.y.len()).map(row).collect();
    let effects = squares::effects(&rows, columns);
    let told = |effect: Option<squares::Effect>| {
        effect.map_or(NOTHING, |effect| {
            let (low, high) = effect.elasticity.interval(ALPHA);
            let value = effect.elasticity.value;
            Told { value, low, high }
        })
    };
    effects.into_iter().map(told).collect()
}

/// What a design did over many experiments.
#[derive(Debug, Default)]
struct Score {
    experiments: u32,
    /// Of systems with one wall: its estimates' errors, its intervals' halves, whether they held the truth.
    walls: u32,
    bias: f64,
    squares: f64,
    half: f64,
    held: u32,
    /// The largest upper bound among the others.
    highest: f64,
    proved: u32,
    wrong: u32,
    /// Of systems in which another wall is near: the errors of the largest elasticity.
    kinks: u32,
    kink_squares: f64,
}

impl Score {
    fn add(&mut self, truth: &Truth, told: &[Told; MANY]) {
        self.experiments += 1;
        let proved = (0..MANY).find(|at| {
            let others = (0..MANY).filter(|other| other != at);
            told[*at].low > WALL && others.into_iter().all(|other| told[other].high < SLACK)
        });
        if let Some(wall) = truth.wall() {
            let (own, is) = (told[wall], truth.elasticity(wall));
            self.walls += 1;
            self.bias += own.value - is;
            self.squares += (own.value - is).powi(2);
            self.half += (own.high - own.low) / 2.0;
            self.held += u32::from(own.low <= is && is <= own.high);
            let others = (0..MANY).filter(|at| *at != wall);
            self.highest += others.map(|at| told[at].high).fold(0.0, f64::max);
            self.proved += u32::from(proved == Some(wall));
        }
        let largest = truth.largest();
        if truth.wall().is_none() && truth.elasticity(largest) >= WALL {
            self.kinks += 1;
            self.kink_squares += (told[largest].value - truth.elasticity(largest)).powi(2);
        }
        // A wall that is none, or one that shares.
        self.wrong += u32::from(proved.is_some_and(|at| truth.elasticity(at) < WALL));
    }

    fn show(&self, what: &str, windows: usize) {
        let walls = f64::from(self.walls.max(1));
        println!(
            "  {what:30} {windows:3} windows: bias {:+.3}  rms {:.3}  half {:.3}  holds {:.3}  others below {:.2}  \
             proved {:.3}  wrong {} of {}  near walls rms {:.3}",
            self.bias / walls,
            (self.squares / walls).sqrt(),
            self.half / walls,
            f64::from(self.held) / walls,
            self.highest / walls,
            f64::from(self.proved) / walls,
            self.wrong,
            self.experiments,
            (self.kink_squares / f64::from(self.kinks.max(1))).sqrt()
        );
    }
}

fn systems() -> Vec<(&'static str, System)> {
    let rows = suite().into_iter().filter(|row| row.drift == 0.0);
    let mut systems: Vec<(&'static str, System)> = rows.map(|row| (row.name, row.system)).collect();
    for (name, client) in [("6 % behind", 189e-6), ("15 % behind", 174e-6)] {
        systems.push((
            name,
            System {
                server: 200e-6,
                client,
                in_flight: 64.0,
                ..System::default()
            },
        ));
    }
    systems.push((
        "nothing moves it",
        System {
            null: true,
            ..System::default()
        },
    ));
    systems
}

fn simulate(blur: Blur, seeds: u64, sizes: &[usize]) {
    println!("{blur:?}");
    let truths: Vec<Truth> = systems()
        .iter()
        .map(|(_, system)| Truth::of(system))
        .collect();
    for (design, name) in Design::ALL {
        for windows in sizes {
            let mut score = Score::default();
            for (system, truth) in truths.iter().enumerate() {
                for seed in (0..seeds).map(|seed| seed * 1_000 + system as u64) {
                    let mut trial = Trial::new(truth, blur, *windows, seed);
                    let told = design.tells(&mut trial, seed);
                    score.add(truth, &told);
                }
            }
            score.show(name, *windows);
        }
    }
}

#[test]
#[ignore = "a table for people, in minutes"]
fn designs_beside_each_other() {
    let seeds = std::env::var("WALLFINDER_SEEDS")
        .ok()
        .and_then(|seeds| seeds.parse().ok());
    let seeds = seeds.unwrap_or(8);
    for white in [0.02, 0.04, 0.06] {
        let blur = Blur {
            white,
            drift: 0.03,
            slow: 0.02,
            luck: 0.02,
        };
        simulate(blur, seeds, &[24, 36, 48, 72]);
    }
}
