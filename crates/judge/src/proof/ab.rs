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

type Measure = (&'static str, fn(&Step) -> Option<f64>);

/// What is compared. Costs are of one good answer.
const MEASURES: [Measure; 7] = [
    ("throughput", |step| positive(step.throughput)),
    ("p50", |step| quantile(step, "p50")),
    ("p99", |step| quantile(step, "p99")),
    ("p99.9", |step| quantile(step, "p99.9")),
    ("server-cpu", |step| cost::per_answer(step).server_cpu_ns),
    ("client-cpu", |step| cost::per_answer(step).client_cpu_ns),
    ("downlink-bytes", |step| {
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

/// B over A by measure; steps that were not measured leave their round out.
pub fn ratios(steps: &[Step], order: &[(u32, bool)]) -> Vec<Ratio> {
    let compared: Vec<(&str, Vec<(f64, f64)>)> = MEASURES
        .iter()
        .map(|(name, of)| (*name, pairs(steps, order, *of)))
        .filter(|(_, pairs)| pairs.len() >= 3)
        .collect();
    let estimates: Vec<Option<Estimate>> = compared
        .iter()
        .map(|(_, pairs)| {
            let logs: Vec<f64> = pairs.iter().map(|(a, b)| (b / a).ln()).collect();
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
        .filter_map(|(((name, pairs), found), p)| {
            let found = (*found)?;
            let (low, high) = found.interval(ALPHA);
            let mean = |of: fn(&(f64, f64)) -> f64| {
                let sum: f64 = pairs.iter().map(|pair| of(pair).ln()).sum();
                (sum / pairs.len() as f64).exp()
            };
            Some(Ratio {
                measure: (*name).to_owned(),
                a: mean(|pair| pair.0),
                b: mean(|pair| pair.1),
                ratio: found.value.exp(),
                low: low.exp(),
                high: high.exp(),
                rounds: pairs.len() as u32,
                differs: *p < ALPHA,
            })
        })
        // An interval without an end says nothing, and no record can hold one.
        .filter(|ratio| ratio.low > 0.0 && ratio.high.is_finite())
        .collect()
}

/// A and B of each round that has both.
fn pairs(steps: &[Step], order: &[(u32, bool)], of: fn(&Step) -> Option<f64>) -> Vec<(f64, f64)> {
    let measured = |round: u32, is_b: bool| {
        let at = order.iter().position(|place| *place == (round, is_b))?;
        of(steps.get(at)?)
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
}
