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
pub fn quantiles(samples: &[i64]) -> Vec<QuantileInterval> {
    if samples.is_empty() {
        return Vec::new();
    }
    let length = samples.len() / BATCHES;
    let told = |q: f64| (1.0 - q) * length as f64 >= BEYOND_MIN;
    let mut readings: [Vec<f64>; QUANTILES.len()] = Default::default();
    let mut all = Counts::default();
    let mut rest = samples;
    if told(QUANTILES[0].1) {
        let (batches, left) = samples.split_at(length * BATCHES);
        for batch in batches.chunks_exact(length) {
            let counts = Counts::of(batch);
            for (reading, value) in readings.iter_mut().zip(selected(batch, &counts)) {
                reading.push(value as f64);
            }
            all.add(&counts);
        }
        rest = left;
    }
    all.add(&Counts::of(rest));
    let values = selected(samples, &all);
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

/// Leading bits, after the first, by which samples are told apart without being sorted.
const BITS: u32 = 8;
/// Rooms for every `i64`: each power of two from 2^8 on has 2^8 of them.
const ROOMS: usize = ((i64::BITS - BITS) as usize) << BITS;

/// The room of a sample. A larger one is never in a lower room; what is below 0 is in the lowest.
fn room(sample: i64) -> usize {
    let sample = sample.max(0) as u64;
    let power = (u64::BITS - sample.leading_zeros()).saturating_sub(BITS + 1);
    // The leading bit counts as well: it begins the rooms of the next power.
    ((power as usize) << BITS) + (sample >> power) as usize
}

/// Samples in each room.
struct Counts(Vec<usize>);

impl Default for Counts {
    fn default() -> Counts {
        Counts(vec![0; ROOMS])
    }
}

impl Counts {
    fn of(samples: &[i64]) -> Counts {
        let mut counts = Counts::default();
        for sample in samples {
            counts.0[room(*sample)] += 1;
        }
        counts
    }

    fn add(&mut self, other: &Counts) {
        for (count, other) in self.0.iter_mut().zip(&other.0) {
            *count += other;
        }
    }

    /// The room of the sample at a rank, and the samples in lower rooms.
    fn room_of(&self, rank: usize) -> (usize, usize) {
        let mut below = 0;
        for (room, count) in self.0.iter().enumerate() {
            if rank < below + count {
                return (room, below);
            }
            below += count;
        }
        unreachable!("ranks are below the count of samples");
    }
}

/// The samples that these shares of all do not exceed: only those that share a room with one of them
/// are sorted out.
fn selected(samples: &[i64], counts: &Counts) -> [i64; QUANTILES.len()] {
    const NONE: u8 = u8::MAX;
    let mut sought = vec![NONE; ROOMS];
    let mut found: Vec<Vec<i64>> = Vec::new();
    let places = QUANTILES.map(|(_, q)| {
        let rank = (q * samples.len() as f64).ceil() as usize;
        let rank = rank.clamp(1, samples.len()) - 1;
        let (room, below) = counts.room_of(rank);
        if sought[room] == NONE {
            sought[room] = found.len() as u8;
            found.push(Vec::with_capacity(counts.0[room]));
        }
        (usize::from(sought[room]), rank - below)
    });
    for sample in samples {
        let at = sought[room(*sample)];
        if at != NONE {
            found[usize::from(at)].push(*sample);
        }
    }
    places.map(|(room, rank)| *found[room].select_nth_unstable(rank).1)
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
        for found in quantiles(&samples) {
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
    fn rooms_keep_the_order_of_samples() {
        let mut edges: Vec<i64> = (0..63)
            .flat_map(|power| [-1, 0, 1].map(|by| (1 << power) + by))
            .collect();
        edges.extend([i64::MIN, i64::MAX, -1]);
        edges.sort_unstable();
        assert!(edges.is_sorted_by_key(|edge| room(*edge)));
        assert_eq!(
            (room(-1), room(0), room(256), room(i64::MAX)),
            (0, 0, 256, ROOMS - 1)
        );
    }

    #[test]
    fn quantiles_are_those_of_sorted_samples_whatever_their_spread() {
        // From nanoseconds to minutes, and many alike.
        for spread in [1_u32, 7, 20, 40] {
            let samples: Vec<i64> = even(100_003)
                .iter()
                .map(|n| n * n % (1 << spread))
                .collect();
            let mut sorted = samples.clone();
            sorted.sort_unstable();
            for (found, (_, q)) in quantiles(&samples).iter().zip(QUANTILES) {
                let rank = (q * 100_003.0).ceil() as usize;
                assert_eq!(
                    found.value_ns as i64,
                    sorted[rank - 1],
                    "{} of 2^{spread}",
                    found.name
                );
            }
        }
    }

    #[test]
    fn intervals_hold_the_truth_nineteen_times_in_twenty() {
        let truth = 990_000.0;
        let mut held = 0;
        let samples = even(200 * 40_000);
        for part in samples.chunks_exact(40_000) {
            let found = quantiles(part);
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
            let found = quantiles(samples);
            found[0].high_ns.unwrap() - found[0].low_ns.unwrap()
        };
        assert!(width(&moody) > 10 * width(&calm));
    }

    #[test]
    fn few_samples_have_no_intervals() {
        assert_eq!(quantiles(&[]), []);
        let found = quantiles(&[7]);
        assert!(
            found
                .iter()
                .all(|found| found.value_ns == 7 && found.low_ns.is_none())
        );
    }
}
