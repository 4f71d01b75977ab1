//! Which weights the windows have: each half of its own or twice, half of the windows each. Of many such draws the one is
//! taken whose windows tell most of costs, and of pairs where there are enough windows for them.
//!
//! Ends tell more than what lies between: intervals are half as wide as with weights anywhere between half and twice, for
//! as many windows.

use fastrand::Rng;

use super::linear::{SPARE_MIN, products};
use crate::proof::squares::inverse;

/// What is told apart, at the most: each takes two windows.
pub(super) const PARCELS_MAX: usize = 24;
/// Draws of which the best is taken.
const DRAWS: usize = 64;

/// Which of several weights vary by themselves, by number: the heaviest; the rest of more than there may be vary as one,
/// which is the last.
pub(super) fn parcels(weights: &[u32]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let mut pooled = Vec::new();
    if order.len() > PARCELS_MAX {
        order.sort_by_key(|nth| (std::cmp::Reverse(weights[*nth]), *nth));
        pooled.push(order.split_off(PARCELS_MAX - 1));
    }
    order.sort_unstable();
    order
        .into_iter()
        .map(|nth| vec![nth])
        .chain(pooled)
        .collect()
}

/// Windows that so many kinds take.
pub(super) fn windows_needed(kinds: usize) -> usize {
    (2 * kinds + 4).max(10)
}

/// Weights for as many windows as a mix of these needs: each half of its own or twice, those of the rarest of many alike.
pub fn weights(own: &[u32], seed: u64) -> Vec<Vec<u32>> {
    /// Weights are counts: a thousandth of one is told apart, where the largest leaves room for that.
    const SCALE: f64 = 1_000.0;
    let heaviest = own.iter().max().copied().unwrap_or(1).max(1);
    let scale = SCALE.min(f64::from(u32::MAX) / (2.0 * f64::from(heaviest)));
    let mut random = Rng::with_seed(seed);
    let parcels = parcels(own);
    let weight_of = |parcel: &Vec<usize>| parcel.iter().map(|nth| f64::from(own[*nth])).sum();
    let heavy: Vec<f64> = parcels.iter().map(weight_of).collect();
    let draws =
        (0..DRAWS).map(|_| drawn(windows_needed(parcels.len()), parcels.len(), &mut random));
    let told = draws.map(|draw| (tells(&draw, &heavy), draw));
    let best = told.max_by(|a, b| a.0.total_cmp(&b.0));
    let one = |factors: Vec<f64>| {
        let mut weights = vec![0; own.len()];
        for (parcel, factor) in parcels.iter().zip(factors) {
            for nth in parcel {
                let weight = (f64::from(own[*nth]) * factor * scale).round() as u32;
                weights[*nth] = weight.max(1);
            }
        }
        weights
    };
    best.into_iter()
        .flat_map(|(_, draw)| draw)
        .map(one)
        .collect()
}

/// For each window a factor of each kind: half or twice, as often each.
fn drawn(windows: usize, kinds: usize, random: &mut Rng) -> Vec<Vec<f64>> {
    let mut of_kind = || {
        let mut factors: Vec<f64> = (0..windows).map(|nth| [0.5, 2.0][nth % 2]).collect();
        random.shuffle(&mut factors);
        factors
    };
    let columns: Vec<Vec<f64>> = (0..kinds).map(|_| of_kind()).collect();
    let row = |window: usize| columns.iter().map(|column| column[window]).collect();
    (0..windows).map(row).collect()
}

/// ln of the determinant: how much windows tell of costs, and of pairs where those have windows too.
fn tells(draw: &[Vec<f64>], heavy: &[f64]) -> f64 {
    let kinds = heavy.len();
    let has_pairs = kinds * (kinds + 1) / 2 + SPARE_MIN <= draw.len();
    let row = |factors: &Vec<f64>| {
        let all: f64 = factors
            .iter()
            .zip(heavy)
            .map(|(factor, weight)| factor * weight)
            .sum();
        // As in the mix itself, where all of these are 1.
        let own: f64 = heavy.iter().sum();
        let part = |kind: usize| factors[kind] * own / all;
        let pairs = (0..kinds).flat_map(|a| (a + 1..kinds).map(move |b| (a, b)));
        let pairs = pairs.filter(|_| has_pairs).map(|(a, b)| part(a) * part(b));
        (0..kinds).map(part).chain(pairs).collect()
    };
    let rows: Vec<Vec<f64>> = draw.iter().map(row).collect();
    inverse(products(&rows)).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_half_or_twice_as_often_each_and_alike_for_a_seed() {
        let own = [60, 5, 1];
        let drawn = weights(&own, 3);
        assert_eq!(drawn.len(), windows_needed(3));
        assert_eq!(drawn, weights(&own, 3));
        assert_ne!(drawn, weights(&own, 4));
        for (nth, own) in own.iter().enumerate() {
            let is_half = |window: &&Vec<u32>| window[nth] == own * 500;
            assert_eq!(drawn.iter().filter(is_half).count(), drawn.len() / 2);
            assert!(
                drawn
                    .iter()
                    .all(|window| [own * 500, own * 2_000].contains(&window[nth]))
            );
        }
        // As counts of a long log are.
        let large = weights(&[3_000_000_000, 30_000_000], 3);
        for nth in 0..2 {
            let of_windows = large.iter().map(|window| window[nth]);
            let (least, most) = (of_windows.clone().min().unwrap(), of_windows.max().unwrap());
            assert!(
                (f64::from(most) / f64::from(least) - 4.0).abs() < 0.01,
                "{large:?}"
            );
        }
    }
}
