//! A mix and each of its requests alone, held in turn: what each takes of what the wall is made of, measured without the
//! method that is marked by it.
//!
//! ```text
//!   alone, at the wall: answered X times a second ─► one takes e = 1/X of it
//!   in the mix: one of whatever comes takes m, and p of all are this one ─► one of the others takes o = (m − p·e) / (1 − p)
//!   its share by its weight w                     ─► w·e / (w·e + (1 − w)·o)
//! ```
//!
//! Where the load generator has the wall's processor too, what it uses is taken off both.

use serde::{Deserialize, Serialize};
use wallfinder_judge::rounds::mean_95;
use wallfinder_model::Record;

use crate::find::{Apparatus, CLIENT_CPU};
use crate::scenario::{Scenario, Server};

/// How often all are held in turn, before a mix is squeezed and behind it; each for so long.
const TURNS: usize = 3;
const TURN_LASTS: &str = "2s";

/// A mean with half of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// Centre.
    pub value: f64,
    /// Half of the interval.
    pub half: f64,
}

impl Mean {
    /// Of what came in all turns.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Mean {
        let values: Vec<f64> = values.into_iter().collect();
        let (value, half) = mean_95(&values);
        Mean { value, half }
    }
}

/// One request of a mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// Its name.
    pub name: String,
    /// What one takes alone, turn by turn, in nanoseconds of a wall that is busy all the time.
    pub each_ns: Vec<f64>,
    /// Its share of that wall in the mix.
    pub shares: Vec<f64>,
}

/// What was measured of one load.
#[derive(Debug, Clone, PartialEq)]
pub struct Turn {
    /// Answers per second.
    rate: f64,
    /// CPU time of the load generator for one, in nanoseconds; `None`: it was not seen.
    client_ns: Option<f64>,
    /// CPU time of the server for one.
    pub(crate) server_ns: Option<f64>,
    /// Requests of a mix.
    kinds: Vec<OfMix>,
}

/// One request of a mix that was held.
#[derive(Debug, Clone, PartialEq)]
struct OfMix {
    name: String,
    /// Its part of all answers.
    part: f64,
    /// Its part by its weight: what is drawn by chance is not just that.
    weight: f64,
}

/// A mix, and each of its requests alone, turn by turn.
#[derive(Debug, Default)]
pub struct Turns {
    mix: Vec<Turn>,
    alone: Vec<Vec<Turn>>,
}

impl Turns {
    /// Holds them all some times more.
    ///
    /// # Errors
    ///
    /// What could not be run or read, in words.
    pub fn hold(
        &mut self,
        apparatus: &Apparatus,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<(), String> {
        // Another host's servers are not held from here.
        if scenario.alone.is_empty() || apparatus.elsewhere.is_some() {
            return Ok(());
        }
        self.alone.resize(scenario.alone.len(), Vec::new());
        for _ in 0..TURNS {
            self.mix.push(turn(apparatus, scenario, seed)?);
            for ((_, path), turns) in scenario.alone.iter().zip(&mut self.alone) {
                turns.push(turn(apparatus, &alone(scenario, path), seed)?);
            }
        }
        Ok(())
    }

    /// The turns of each request alone.
    pub fn alone(&self) -> impl Iterator<Item = &[Turn]> {
        self.alone.iter().map(Vec::as_slice)
    }

    /// What each takes of the wall.
    ///
    /// # Errors
    ///
    /// A request that the mix does not have.
    pub fn told(&self, scenario: &Scenario) -> Result<Vec<Held>, String> {
        let has_client = match scenario.server {
            Server::Ordinary(server) => server.backend.is_some_and(|of| of.cpus == CLIENT_CPU),
            Server::Subject(_) => false,
        };
        let each_ns = |turn: &Turn| {
            let of_client = turn.client_ns.filter(|_| has_client).unwrap_or(0.0);
            1e9 / turn.rate - of_client
        };
        let one = |((name, _), alone): (&(&str, _), &Vec<Turn>)| {
            let shares = self.mix.iter().zip(alone).map(|(mix, alone)| {
                let of_mix = mix.kinds.iter().find(|kind| kind.name == *name);
                let of_mix = of_mix.ok_or_else(|| format!("the mix has no {name}"))?;
                let OfMix { part, weight, .. } = of_mix;
                let other_ns = (each_ns(mix) - part * each_ns(alone)) / (1.0 - part);
                let own_ns = weight * each_ns(alone);
                Ok(own_ns / (own_ns + (1.0 - weight) * other_ns))
            });
            Ok(Held {
                name: (*name).to_owned(),
                each_ns: alone.iter().map(each_ns).collect(),
                shares: shares.collect::<Result<_, String>>()?,
            })
        };
        scenario.alone.iter().zip(&self.alone).map(one).collect()
    }
}

/// A request of a mix alone.
fn alone(scenario: &Scenario, path: &'static str) -> Scenario {
    let flags = scenario.flags.split_once(" --traffic");
    Scenario {
        path,
        flags: flags.map_or(scenario.flags, |(flags, _)| flags),
        ..*scenario
    }
}

fn turn(apparatus: &Apparatus, scenario: &Scenario, seed: u64) -> Result<Turn, String> {
    let json = apparatus.load(scenario, seed, TURN_LASTS)?;
    let record: Record = serde_json::from_str(&json)
        .map_err(|error| format!("what run printed is no record: {error}"))?;
    let step = record.steps.last().ok_or("the record has no step")?;
    let cost = wallfinder_judge::cost::per_answer(step);
    let weights: u32 = step.requests.iter().map(|kind| kind.weight).sum();
    let kinds = step.requests.iter().map(|kind| OfMix {
        name: kind.name.clone(),
        part: kind.throughput / step.throughput,
        weight: f64::from(kind.weight) / f64::from(weights),
    });
    Ok(Turn {
        rate: step.throughput,
        client_ns: cost.client_cpu_ns,
        server_ns: cost.server_cpu_ns,
        kinds: kinds.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::scenarios;

    /// `kinds`: of so many of the answers, and by such a weight.
    fn turn(rate: f64, kinds: &[(&str, f64, f64)]) -> Turn {
        let kinds = kinds.iter().map(|(name, part, weight)| OfMix {
            name: (*name).to_owned(),
            part: *part,
            weight: *weight,
        });
        Turn {
            rate,
            client_ns: Some(10_000.0),
            server_ns: None,
            kinds: kinds.collect(),
        }
    }

    #[test]
    fn a_mean_of_six_has_its_interval() {
        let found = Mean::of([9.0, 10.0, 11.0, 10.0, 10.0, 10.0]);
        assert_eq!(found.value, 10.0);
        let t_95 = 2.570_581_835_636_314;
        assert!((found.half - t_95 * (2.0_f64 / 5.0 / 6.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn a_share_is_what_one_takes_alone_as_often_as_it_is_answered_in_the_mix() {
        let scenario = scenarios().find(|it| it.name == "routes-lock").unwrap();
        let turns = Turns {
            mix: vec![turn(4_600.0, &[("write", 0.2, 0.2)])],
            alone: vec![vec![turn(960.0, &[])]],
        };
        let told = turns.told(scenario).unwrap();
        assert_eq!(told[0].name, "write");
        assert!((told[0].each_ns[0] - 1e9 / 960.0).abs() < 1e-3);
        assert!((told[0].shares[0] - 920.0 / 960.0).abs() < 1e-12);
        let other = Turns {
            mix: vec![turn(4_600.0, &[("read", 0.2, 0.2)])],
            ..turns
        };
        assert_eq!(other.told(scenario).unwrap_err(), "the mix has no write");
        // Of a millisecond on a processor that the load generator has too, 10 µs are its own.
        let behind = scenarios().find(|it| it.name == "routes-backend").unwrap();
        let turns = Turns {
            mix: vec![turn(2_000.0, &[("report", 0.2, 0.2)])],
            alone: vec![vec![turn(1_000.0, &[])]],
        };
        let told = turns.told(behind).unwrap();
        assert!((told[0].each_ns[0] - 990_000.0).abs() < 1e-3);
        assert!((told[0].shares[0] - 0.2 * 990.0 / 490.0).abs() < 1e-12);
        // By chance one in four came in place of one in five: others take 50 ns each.
        let one = |ns: f64, kinds: &[(&str, f64, f64)]| turn(1e9 / ns, kinds);
        let turns = Turns {
            mix: vec![one(62.5, &[("write", 0.25, 0.2)])],
            alone: vec![vec![one(100.0, &[])]],
        };
        let told = turns.told(scenario).unwrap();
        assert!((told[0].shares[0] - 1.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn every_request_that_is_held_alone_stands_in_its_mix_with_its_path() {
        let mut any = false;
        for scenario in scenarios().filter(|it| !it.alone.is_empty()) {
            let (_, file) = scenario.flags.split_once("{mixes}/").expect("a mix");
            let file = format!("{}/mixes/{file}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(&file).expect("a mix");
            for (name, path) in scenario.alone {
                let block = text.split("[[request]]");
                let mut block = block.filter(|it| it.contains(&format!("name = \"{name}\"")));
                let block = block.next().unwrap_or_else(|| panic!("{name} in {file}"));
                assert!(block.contains(&format!("get = \"{path}\"")), "{block}");
                any = true;
            }
        }
        assert!(any);
    }
}
