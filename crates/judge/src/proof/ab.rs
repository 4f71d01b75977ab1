//! Two settings of a lever: what B is over A, measure by measure.
//!
//! Each round holds both settings once, next to each other, so that a machine that slows
//! for a while slows both. The ratio of a round is B's value over A's; the centre is that
//! of the rounds' logarithms, and a difference is shown only where the interval leaves 1
//! out after Holm's correction for the number of measures. No difference shown is not the
//! same as no difference: the interval says how large one could be.

use wallfinder_model::Step;
use wallfinder_model::record::Ratio;

use super::estimate::{ALPHA, Estimate, estimate, holm};
use super::pace::{self, Pace, Point};
use super::random::Random;
use crate::cost;
use crate::finite::positive;

/// The rounds' order: for each step its round, and whether it is of B. In pairs of rounds
/// each setting comes first once; which one is drawn.
pub fn order_of_rounds(seed: u64, rounds: u32) -> Vec<(u32, bool)> {
    let mut random = Random::new(seed);
    let mut order = Vec::with_capacity(rounds as usize * 2);
    let mut b_first = false;
    for round in 0..rounds {
        let mut pair = [false, true];
        if round % 2 == 0 {
            random.shuffle(&mut pair);
            b_first = pair[0];
        }
        let first = if round % 2 == 0 { b_first } else { !b_first };
        order.extend([(round, first), (round, !first)]);
    }
    order
}

/// A measure, and what it answers to a slow machine.
struct Measure {
    name: &'static str,
    of: fn(&Step) -> Option<f64>,
    answers: Answers,
}

/// Which way a measure goes when the machine becomes slow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// It falls.
    Falls,
    /// It grows.
    Grows,
    /// It does not answer.
    Stays,
}

const fn measure(name: &'static str, answers: Answers, of: fn(&Step) -> Option<f64>) -> Measure {
    Measure { name, of, answers }
}

/// What is compared. Costs are of one good answer.
const MEASURES: [Measure; 7] = [
    measure("throughput", Answers::Falls, |step| {
        positive(step.throughput)
    }),
    measure("p50", Answers::Grows, |step| quantile(step, "p50")),
    measure("p99", Answers::Grows, |step| quantile(step, "p99")),
    measure("p99.9", Answers::Grows, |step| quantile(step, "p99.9")),
    measure("server-cpu", Answers::Grows, |step| {
        cost::per_answer(step).server_cpu_ns
    }),
    measure("client-cpu", Answers::Grows, |step| {
        cost::per_answer(step).client_cpu_ns
    }),
    measure("downlink-bytes", Answers::Stays, |step| {
        cost::per_answer(step).downlink_bytes
    }),
];

fn quantile(step: &Step, name: &str) -> Option<f64> {
    let latency = step.latency.as_ref()?;
    // A quantile needs some answers beyond it.
    let beyond = match name {
        "p99.9" => 0.001,
        "p99" => 0.01,
        _ => 0.5,
    };
    const BEYOND_MIN: f64 = 10.0;
    (latency.count as f64 * beyond >= BEYOND_MIN)
        .then(|| latency.quantile_ns(name))
        .flatten()
        .and_then(|ns| positive(ns as f64))
}

/// What was compared: a measure over the rounds that have it.
struct Compared {
    name: &'static str,
    pairs: Vec<(f64, f64)>,
    pace_explained: Option<f64>,
}

/// B over A by measure; steps that were not measured leave their round out. Where the machine's own
/// pace explains how a measure moves within either setting, it is taken out ([`pace`]).
pub fn ratios(steps: &[Step], order: &[(u32, bool)]) -> Vec<Ratio> {
    let compared: Vec<Compared> = MEASURES
        .iter()
        .map(|measure| {
            let seen: Vec<Option<f64>> = steps.iter().map(measure.of).collect();
            let pace = pace_of(measure, steps, &seen, order);
            let values = match &pace {
                Some(pace) => at_one_pace(measure, pace, steps, &seen, order),
                None => seen,
            };
            Compared {
                name: measure.name,
                pairs: pairs(&values, order),
                pace_explained: pace.map(|pace| pace.explained()),
            }
        })
        .filter(|compared| compared.pairs.len() >= 3)
        .collect();
    let estimates: Vec<Option<Estimate>> = compared
        .iter()
        .map(|compared| {
            let logs: Vec<f64> = compared.pairs.iter().map(|(a, b)| (b / a).ln()).collect();
            estimate(&logs, None)
        })
        .collect();
    let p: Vec<f64> = estimates
        .iter()
        .map(|found| {
            found.map_or(1.0, |found| {
                let away = Estimate {
                    value: found.value.abs(),
                    ..found
                };
                away.p_above(0.0)
            })
        })
        .collect();
    let adjusted = holm(&p);
    compared
        .iter()
        .zip(&estimates)
        .zip(&adjusted)
        .filter_map(|((compared, found), p)| {
            let found = (*found)?;
            let pairs = &compared.pairs;
            let (low, high) = found.interval(ALPHA);
            let mean = |of: fn(&(f64, f64)) -> f64| {
                let sum: f64 = pairs.iter().map(|pair| of(pair).ln()).sum();
                (sum / pairs.len() as f64).exp()
            };
            Some(Ratio {
                measure: compared.name.to_owned(),
                a: mean(|pair| pair.0),
                b: mean(|pair| pair.1),
                ratio: found.value.exp(),
                low: low.exp(),
                high: high.exp(),
                rounds: pairs.len() as u32,
                differs: *p < ALPHA,
                pace_explained: compared.pace_explained,
            })
        })
        // An interval without an end says nothing, and no record can hold one.
        .filter(|ratio| ratio.low > 0.0 && ratio.high.is_finite())
        .collect()
}

/// Which way y of a measure goes: it has to fall.
fn sign(measure: &Measure) -> f64 {
    match measure.answers {
        Answers::Grows => -1.0,
        Answers::Falls | Answers::Stays => 1.0,
    }
}

fn yards(step: &Step) -> pace::Yards {
    let telemetry = &step.telemetry;
    pace::ln_yards([telemetry.server_yard_ns, telemetry.client_yard_ns])
}

/// What the machine's pace does to a measure; a setting is a condition.
fn pace_of(
    measure: &Measure,
    steps: &[Step],
    seen: &[Option<f64>],
    order: &[(u32, bool)],
) -> Option<Pace> {
    if measure.answers == Answers::Stays {
        return None;
    }
    let all = steps.iter().zip(seen).zip(order);
    Pace::through(all.filter_map(|((step, value), (_, is_b))| {
        let y = sign(measure) * value.and_then(positive)?.ln();
        Some(Point::new((u32::from(*is_b), 0), y, yards(step)))
    }))
}

fn at_one_pace(
    measure: &Measure,
    pace: &Pace,
    steps: &[Step],
    seen: &[Option<f64>],
    order: &[(u32, bool)],
) -> Vec<Option<f64>> {
    let all = steps.iter().zip(seen).zip(order);
    all.map(|((step, value), (_, is_b))| {
        let off = sign(measure) * pace.effect(u32::from(*is_b), yards(step));
        value.map(|value| value * (-off).exp())
    })
    .collect()
}

/// A and B of each round that has both.
fn pairs(values: &[Option<f64>], order: &[(u32, bool)]) -> Vec<(f64, f64)> {
    let measured = |round: u32, is_b: bool| {
        let at = order.iter().position(|place| *place == (round, is_b))?;
        *values.get(at)?
    };
    let rounds = order.iter().map(|(round, _)| *round + 1).max().unwrap_or(0);
    (0..rounds)
        .filter_map(|round| Some((measured(round, false)?, measured(round, true)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::{Noise, a_step};

    /// Rounds of two settings with so much noise; B's throughput is `effect` times A's.
    fn rounds(effect: f64, noise: &mut Noise) -> (Vec<Step>, Vec<(u32, bool)>) {
        let order = order_of_rounds(5, 8);
        let steps = order
            .iter()
            .map(|(_, is_b)| {
                let mut step = a_step().build();
                let factor = if *is_b { effect } else { 1.0 };
                step.throughput = 1_000.0 * factor * (0.02 * noise.gauss()).exp();
                step.counts.answered = 1_000;
                step
            })
            .collect();
        (steps, order)
    }

    #[test]
    fn every_round_holds_both_and_neither_is_always_first() {
        let order = order_of_rounds(3, 40);
        let first = order.iter().step_by(2).filter(|(_, is_b)| *is_b).count();
        assert_eq!(first, 20);
        for pair in order.chunks(2) {
            assert_eq!(pair[0].0, pair[1].0);
            assert_ne!(pair[0].1, pair[1].1);
        }
        assert_ne!(order, order_of_rounds(4, 40));
    }

    #[test]
    fn two_equal_settings_show_no_difference() {
        let mut noise = Noise::new(1);
        let mut shown = 0;
        for _ in 0..300 {
            let (steps, order) = rounds(1.0, &mut noise);
            shown += ratios(&steps, &order).iter().filter(|r| r.differs).count();
        }
        assert!(shown <= 18, "a difference was shown {shown} times in 300");
    }

    #[test]
    fn a_tenth_more_is_shown_with_its_size() {
        let mut noise = Noise::new(2);
        let (mut shown, mut held) = (0, 0);
        for _ in 0..100 {
            let (steps, order) = rounds(1.1, &mut noise);
            let ratios = ratios(&steps, &order);
            let throughput = ratios.iter().find(|r| r.measure == "throughput").unwrap();
            shown += u32::from(throughput.differs);
            held += u32::from(throughput.low <= 1.1 && 1.1 <= throughput.high);
        }
        assert!(shown >= 97, "{shown}");
        assert!(held >= 90, "{held}");
    }

    #[test]
    fn rounds_that_lack_a_step_are_left_out() {
        let (mut steps, order) = rounds(1.0, &mut Noise::new(3));
        steps.truncate(9);
        assert_eq!(ratios(&steps, &order)[0].rounds, 4);
        steps.truncate(4);
        assert!(ratios(&steps, &order).is_empty());
    }

    #[test]
    fn on_a_machine_that_wanders_a_small_difference_is_shown() {
        let mut noise = Noise::new(11);
        let (mut shown, mut held) = ([0, 0], 0);
        for told in [false, true] {
            for _ in 0..20 {
                let (mut steps, order) = rounds(1.08, &mut noise);
                for step in &mut steps {
                    let pace = 0.1 * noise.gauss();
                    step.throughput *= pace.exp();
                    let yard = 7_000.0 * (0.01 * noise.gauss() - pace).exp();
                    step.telemetry.server_yard_ns = told.then_some(yard);
                }
                let ratios = ratios(&steps, &order);
                let throughput = ratios.iter().find(|r| r.measure == "throughput").unwrap();
                assert_eq!(throughput.pace_explained.is_some(), told, "{throughput:?}");
                held += u32::from(throughput.low <= 1.08 && 1.08 <= throughput.high);
                shown[usize::from(told)] += u32::from(throughput.differs);
            }
        }
        let [blind, told] = shown;
        assert!(told >= 17 && blind <= 5, "{blind} and {told} of 20");
        assert!(held >= 34, "{held} of 40");
    }
}
