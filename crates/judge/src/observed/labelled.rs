//! Observed verdicts scored against a queueing model whose answer is known.
//!
//! A closed network of exponential stations (client, server, both ways of a link, a delay)
//! is solved exactly by mean value analysis. Its elasticities say which resource binds;
//! its utilisations, with noise, are all that the judge sees.

use wallfinder_model::record::Step;
use wallfinder_model::{Verdict, Wall};

use crate::double::{Noise, a_machine, a_step};
use crate::ramp;

/// Seconds per request at each place.
#[derive(Debug, Clone, Copy)]
struct Network {
    client: f64,
    server: f64,
    downlink: f64,
    uplink: f64,
    delay: f64,
}

/// Resources that queue, in the order of [`Network::demands`].
const WALLS: [Wall; 4] = [
    Wall::ClientCpu,
    Wall::ServerCpu,
    Wall::Downlink,
    Wall::Uplink,
];

impl Network {
    /// Demands that span two orders of magnitude, and a delay from none to much.
    fn draw(noise: &mut Noise) -> Network {
        let mut demand = || 20e-6 * 10f64.powf(1.5 * noise.uniform());
        let (client, server, downlink, uplink) = (demand(), demand(), demand(), demand());
        let delay = match noise.uniform() {
            u if u < 0.4 => 0.0,
            u => 0.02 * u,
        };
        Network {
            client,
            server,
            downlink,
            uplink: uplink / 4.0,
            delay,
        }
    }

    fn demands(&self) -> [f64; 4] {
        [self.client, self.server, self.downlink, self.uplink]
    }

    /// Throughput with so many requests in flight.
    fn throughput(&self, population: u32) -> f64 {
        let demands = self.demands();
        let mut queues = [0.0f64; 4];
        let mut throughput = 0.0;
        for n in 1..=population {
            let times: Vec<f64> = demands
                .iter()
                .zip(queues)
                .map(|(demand, queue)| demand * (1.0 + queue))
                .collect();
            throughput = f64::from(n) / (self.delay + times.iter().sum::<f64>());
            for (queue, time) in queues.iter_mut().zip(times) {
                *queue = throughput * time;
            }
        }
        throughput
    }

    /// d ln X / d ln speed of each resource.
    fn elasticities(&self, population: u32) -> [f64; 4] {
        let base = self.throughput(population);
        let mut found = [0.0; 4];
        for (i, elasticity) in found.iter_mut().enumerate() {
            let mut slower = *self;
            let place = [
                &mut slower.client,
                &mut slower.server,
                &mut slower.downlink,
                &mut slower.uplink,
            ];
            for (j, demand) in place.into_iter().enumerate() {
                if i == j {
                    *demand *= 1.02;
                }
            }
            *elasticity = (slower.throughput(population) / base).ln() / -1.02f64.ln();
        }
        found
    }

    /// d ln X / d ln N.
    fn elasticity_of_load(&self, population: u32) -> f64 {
        let more = (population + 1).max(population * 11 / 10);
        (self.throughput(more) / self.throughput(population)).ln()
            / (f64::from(more) / f64::from(population)).ln()
    }

    /// What the judge sees of it.
    fn step(&self, population: u32, noise: &mut Noise) -> Step {
        let throughput = self.throughput(population);
        let mut seen = |demand: f64| (throughput * demand * (1.0 + 0.01 * noise.gauss())).min(1.0);
        let (client, server) = (seen(self.client), seen(self.server));
        let (downlink, uplink) = (0.96 * seen(self.downlink), 0.96 * seen(self.uplink));
        let mean_ms = f64::from(population) / throughput * 1e3;
        a_step()
            .throughput(throughput)
            .in_flight(f64::from(population))
            .latency_ms(mean_ms, 0.8 * mean_ms)
            .server(1.0, server)
            .client(1.0, client)
            .link(downlink, uplink)
            .build()
    }

    /// Whether a named wall is right: it is a resource with much of the elasticity, or what
    /// is in flight has much of it. An undecided verdict is no wrong one.
    fn right(&self, population: u32, verdict: &Verdict) -> Option<bool> {
        let load = self.elasticity_of_load(population);
        let of = |wall: Wall| {
            let at = WALLS.iter().position(|known| *known == wall);
            at.map(|at| self.elasticities(population)[at])
        };
        match verdict.wall {
            Wall::Inconclusive => None,
            Wall::Concurrency => Some(load >= 0.35),
            Wall::CoLimited => {
                let named = WALLS
                    .iter()
                    .filter(|wall| verdict.shares.contains_key(wall.label()));
                Some(named.into_iter().all(|wall| of(*wall) >= Some(0.15)))
            }
            wall => Some(of(wall).is_some_and(|elasticity| elasticity >= 0.5)),
        }
    }
}

/// Right, wrong, undecided.
#[derive(Debug, Default)]
struct Score {
    right: u32,
    wrong: u32,
    undecided: u32,
    /// Summed confidence of the wrong ones.
    wrong_confidence: f64,
}

impl Score {
    fn add(&mut self, right: Option<bool>, verdict: &Verdict) {
        match right {
            Some(true) => self.right += 1,
            Some(false) => {
                self.wrong += 1;
                self.wrong_confidence += verdict.confidence;
            }
            None => self.undecided += 1,
        }
    }

    fn of_answered(&self) -> f64 {
        f64::from(self.right) / f64::from((self.right + self.wrong).max(1))
    }

    fn show(&self, what: &str) {
        println!(
            "{what}: right of answered {:.3}, answered {:.3}, {self:?}",
            self.of_answered(),
            self.answered()
        );
    }

    fn answered(&self) -> f64 {
        let all = self.right + self.wrong + self.undecided;
        f64::from(self.right + self.wrong) / f64::from(all)
    }
}

#[test]
fn ramps_of_known_networks_are_judged_right() {
    let mut noise = Noise::new(20_261_120);
    let mut score = Score::default();
    let populations = [1, 4, 16, 64, 256];
    for _ in 0..300 {
        let network = Network::draw(&mut noise);
        let steps: Vec<Step> = populations
            .iter()
            .map(|population| network.step(*population, &mut noise))
            .collect();
        let verdicts = ramp::verdicts(&steps, &a_machine());
        for (population, verdict) in populations.iter().zip(&verdicts) {
            let right = network.right(*population, verdict);
            score.add(right, verdict);
        }
    }
    score.show("ramps");
    assert!(score.of_answered() >= 0.97, "{score:?}");
    assert!(score.answered() >= 0.90, "{score:?}");
}

#[test]
fn single_steps_that_name_a_resource_name_the_right_one() {
    let mut noise = Noise::new(7);
    let mut score = Score::default();
    for _ in 0..1_000 {
        let network = Network::draw(&mut noise);
        let population = 1 + (200.0 * noise.uniform().powi(2)) as u32;
        let verdict = super::verdict(&network.step(population, &mut noise), &a_machine());
        let guess = matches!(verdict.wall, Wall::Concurrency | Wall::Wait);
        if !guess {
            score.add(network.right(population, &verdict), &verdict);
        }
    }
    score.show("single steps that name a resource");
    assert!(score.of_answered() >= 0.95, "{score:?}");
}
