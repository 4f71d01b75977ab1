//! Quantiles of many samples, with intervals that do not take neighbours for strangers.
//!
//! Requests that follow each other share a queue, so a thousand of them do not tell as much
//! as a thousand that were drawn. Samples are therefore cut into batches in time: the
//! quantile of each is one reading, and Student's interval over readings is the answer
//! (batch means; Law, Simulation Modeling and Analysis, 9.5.3).

use wallfinder_model::record::QuantileInterval;

use crate::student;

/// Batches; twenty to thirty are usual.
const BATCHES: usize = 20;
/// Samples of a batch that must lie beyond its quantile for it to be a reading.
const BEYOND_MIN: f64 = 10.0;

/// The quantiles that are asked for.
pub const QUANTILES: [(&str, f64); 6] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
    ("max", 1.0),
];

/// Quantiles of samples in the order of time, each with its 95 % interval where batches are
/// long enough for one. Exact: no histogram. Empty for no samples.
pub fn quantiles(mut samples: Vec<i64>) -> Vec<QuantileInterval> {
    if samples.is_empty() {
        return Vec::new();
    }
    let length = samples.len() / BATCHES;
    let told = |q: f64| (1.0 - q) * length as f64 >= BEYOND_MIN;
    let mut readings: [Vec<f64>; QUANTILES.len()] = Default::default();
    if told(QUANTILES[0].1) {
        let mut batch = Vec::with_capacity(length);
        for part in samples.chunks_exact(length).take(BATCHES) {
            batch.clear();
            batch.extend_from_slice(part);
            for (reading, value) in readings.iter_mut().zip(selected(&mut batch)) {
                reading.push(value as f64);
            }
        }
    }
    let values = selected(&mut samples);
    let each = QUANTILES.iter().zip(values).zip(&readings);
    each.map(|(((name, q), value), readings)| {
        let interval = told(*q).then(|| interval(readings, value as f64));
        QuantileInterval {
            name: (*name).to_owned(),
            value_ns: value.max(0) as u64,
            low_ns: interval.map(|(low, _)| low.max(0.0) as u64),
            high_ns: interval.map(|(_, high)| high as u64),
        }
    })
    .collect()
}

/// The samples that these shares of all do not exceed. What lies below one is not looked at
/// again for the next.
fn selected(samples: &mut [i64]) -> [i64; QUANTILES.len()] {
    let count = samples.len();
    let mut from = 0;
    QUANTILES.map(|(_, q)| {
        let rank = (q * count as f64).ceil() as usize;
        let index = rank.clamp(1, count) - 1;
        let value = *samples[from..].select_nth_unstable(index - from).1;
        from = index;
        value
    })
}

/// Around `centre`, as wide as readings differ.
fn interval(readings: &[f64], centre: f64) -> (f64, f64) {
    let count = readings.len() as f64;
    let mean = readings.iter().sum::<f64>() / count;
    let squares: f64 = readings
        .iter()
        .map(|reading| (reading - mean).powi(2))
        .sum();
    let half = student::t_95(readings.len() - 1) * (squares / (count - 1.0) / count).sqrt();
    (centre - half, centre + half)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Even, so that quantiles are known.
    fn even(count: u64) -> Vec<i64> {
        // A full cycle of a generator visits every number once, in no order.
        let mut value = 1_i64;
        (0..count)
            .map(|_| {
                value = (value * 48_271) % 2_147_483_647;
                value % 1_000_000
            })
            .collect()
    }

    #[test]
    fn quantiles_are_exact_and_lie_in_their_intervals() {
        let samples = even(400_000);
        let mut sorted = samples.clone();
        sorted.sort_unstable();
        for found in quantiles(samples) {
            let (_, q) = QUANTILES
                .iter()
                .find(|(name, _)| *name == found.name)
                .unwrap();
            let rank = (q * 400_000.0).ceil() as usize;
            assert_eq!(found.value_ns as i64, sorted[rank - 1], "{}", found.name);
            match (found.low_ns, found.high_ns) {
                (Some(low), Some(high)) => assert!(low <= found.value_ns && found.value_ns <= high),
                _ => assert!(*q > 0.999, "{} has no interval", found.name),
            }
        }
    }

    #[test]
    fn intervals_hold_the_truth_nineteen_times_in_twenty() {
        let truth = 990_000.0;
        let mut held = 0;
        let samples = even(200 * 40_000);
        for part in samples.chunks_exact(40_000) {
            let found = quantiles(part.to_vec());
            let p99 = found.iter().find(|found| found.name == "p99").unwrap();
            let (low, high) = (p99.low_ns.unwrap() as f64, p99.high_ns.unwrap() as f64);
            held += usize::from((low..=high).contains(&truth));
        }
        assert!((180..=199).contains(&held), "{held} of 200");
    }

    #[test]
    fn neighbours_that_are_alike_widen_an_interval() {
        let calm = even(100_000);
        // The same numbers, sorted within each tenth: a queue that comes and goes.
        let mut moody = calm.clone();
        moody.sort_unstable();
        let width = |samples: &[i64]| {
            let found = quantiles(samples.to_vec());
            found[0].high_ns.unwrap() - found[0].low_ns.unwrap()
        };
        assert!(width(&moody) > 10 * width(&calm));
    }

    #[test]
    fn few_samples_have_no_intervals() {
        assert_eq!(quantiles(Vec::new()), []);
        let found = quantiles(vec![7]);
        assert!(
            found
                .iter()
                .all(|found| found.value_ns == 7 && found.low_ns.is_none())
        );
    }
}
