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
///
/// Each sample is looked at twice: to be counted, and to be kept where it shares a room with a
/// quantile of all or of its batch.
pub fn quantiles(samples: &[i64]) -> Vec<QuantileInterval> {
    if samples.is_empty() {
        return Vec::new();
    }
    let length = samples.len() / BATCHES;
    let told = |q: f64| (1.0 - q) * length as f64 >= BEYOND_MIN;
    let many = if told(QUANTILES[0].1) { BATCHES } else { 0 };
    let (batches, rest) = samples.split_at(length * many);
    let batches: Vec<(&[i64], Counts)> = batches
        .chunks(length.max(1))
        .map(|batch| (batch, Counts::of(batch)))
        .collect();
    let rest_counts = Counts::of(rest);
    let mut all = Counts::default();
    for counts in batches
        .iter()
        .map(|(_, counts)| counts)
        .chain([&rest_counts])
    {
        all.add(counts);
    }
    let of_all = all.places(samples.len());
    let mut whole = Kept::of(&of_all, &all);
    let mut readings: [Vec<f64>; QUANTILES.len()] = Default::default();
    for (batch, counts) in &batches {
        let own = counts.places(length);
        let mut kept = Kept::of(of_all.iter().chain(&own), counts);
        kept.look_through(batch);
        whole.take(&kept);
        for (reading, place) in readings.iter_mut().zip(own) {
            reading.push(kept.at(place) as f64);
        }
    }
    whole.look_through(rest);
    let each = QUANTILES.iter().zip(of_all).zip(&readings);
    each.map(|(((name, q), place), readings)| {
        let value = whole.at(place);
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

    /// Where the quantiles of so many samples are; at least one.
    fn places(&self, samples: usize) -> [Place; QUANTILES.len()] {
        QUANTILES.map(|(_, q)| {
            let rank = (q * samples as f64).ceil() as usize;
            self.place(rank.clamp(1, samples) - 1)
        })
    }

    fn place(&self, rank: usize) -> Place {
        let mut below = 0;
        for (room, count) in self.0.iter().enumerate() {
            if rank < below + count {
                return Place {
                    room,
                    rank: rank - below,
                };
            }
            below += count;
        }
        unreachable!("ranks are below the count of samples");
    }
}

/// A rank among the samples of a room.
#[derive(Debug, Clone, Copy)]
struct Place {
    room: usize,
    rank: usize,
}

/// All samples of a few rooms.
struct Kept {
    /// Which of `samples` a room has; [`Kept::NONE`] for most.
    of_room: Vec<u8>,
    samples: Vec<Vec<i64>>,
}

impl Kept {
    const NONE: u8 = u8::MAX;

    /// Room for those of the rooms of these places.
    fn of<'a>(places: impl IntoIterator<Item = &'a Place>, counts: &Counts) -> Kept {
        let mut kept = Kept {
            of_room: vec![Kept::NONE; ROOMS],
            samples: Vec::new(),
        };
        for place in places {
            let at = &mut kept.of_room[place.room];
            if *at == Kept::NONE {
                *at = kept.samples.len() as u8;
                kept.samples.push(Vec::with_capacity(counts.0[place.room]));
            }
        }
        kept
    }

    fn look_through(&mut self, samples: &[i64]) {
        for sample in samples {
            let at = self.of_room[room(*sample)];
            if at != Kept::NONE {
                self.samples[usize::from(at)].push(*sample);
            }
        }
    }

    /// Takes over what another has in the same rooms.
    fn take(&mut self, other: &Kept) {
        for (own, others) in self.of_room.iter().zip(&other.of_room) {
            if *own != Kept::NONE && *others != Kept::NONE {
                let from = &other.samples[usize::from(*others)];
                self.samples[usize::from(*own)].extend_from_slice(from);
            }
        }
    }

    fn at(&mut self, place: Place) -> i64 {
        let own = &mut self.samples[usize::from(self.of_room[place.room])];
        *own.select_nth_unstable(place.rank).1
    }
}

/// Around `centre`, as wide as readings differ.
fn interval(readings: &[f64], centre: f64) -> (f64, f64) {
    let (_, half) = student::mean_95(readings);
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
