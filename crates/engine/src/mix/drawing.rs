//! What begins next, by weight.

use fastrand::Rng;

/// Draws by weights, each draw alike in cost: by aliases (Walker 1977, as Vose has it).
#[derive(Debug, Clone)]
pub(super) struct Drawing {
    random: Rng,
    /// Of each kind: below which of 2^32 it is itself, and who it is else.
    places: Vec<(u64, u16)>,
}

impl Drawing {
    /// For these weights, of which there are two or more; none of anything else: there is nothing to draw.
    pub(super) fn of(weights: &[u32], seed: u64) -> Option<Drawing> {
        let count = weights.len();
        let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
        if count < 2 || sum == 0 {
            return None;
        }
        const WHOLE: u64 = 1 << 32;
        // Shares of an even part, in units of 2^-32 of it.
        let scaled = |weight: &u32| {
            let of = u128::from(*weight) * count as u128 * u128::from(WHOLE);
            (of / u128::from(sum)) as u64
        };
        let mut left: Vec<u64> = weights.iter().map(scaled).collect();
        let mut places: Vec<(u64, u16)> = (0..count).map(|kind| (WHOLE, kind as u16)).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..count).partition(|kind| left[*kind] < WHOLE);
        while let (Some(less), Some(more)) = (small.pop(), large.last().copied()) {
            places[less] = (left[less], more as u16);
            left[more] -= WHOLE - left[less];
            if left[more] < WHOLE {
                large.pop();
                small.push(more);
            }
        }
        Some(Drawing {
            random: Rng::with_seed(seed),
            places,
        })
    }

    /// The next one.
    #[inline]
    pub(super) fn next(&mut self) -> u16 {
        // One number has both: which place, by its upper half times the number of places, and where in it.
        let drawn = self.random.u64(..);
        let at = ((drawn >> 32) * self.places.len() as u64) >> 32;
        let (below, other) = self.places[at as usize];
        // Nobody can guess which: a branch would be taken wrongly as often as the weights differ.
        std::hint::select_unpredictable(drawn & 0xffff_ffff < below, at as u16, other)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_kind_needs_no_drawing() {
        assert!(Drawing::of(&[], 1).is_none());
        assert!(Drawing::of(&[7], 1).is_none());
    }

    #[test]
    fn a_million_draws_hold_the_weights() {
        let weights = [60, 25, 10, 4, 1];
        let mut drawing = Drawing::of(&weights, 7).expect("several");
        let mut seen = [0_f64; 5];
        for _ in 0..1_000_000 {
            seen[usize::from(drawing.next())] += 1.0;
        }
        let sum: u32 = weights.iter().sum();
        let expected = weights.map(|weight| f64::from(weight) / f64::from(sum) * 1e6);
        let squares = seen
            .iter()
            .zip(expected)
            .map(|(seen, of)| (seen - of).powi(2) / of);
        // Chi square with four degrees of freedom: above 23.5 once in ten thousand times.
        let chi: f64 = squares.sum();
        assert!(chi < 23.5, "{chi}: {seen:?}");
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let drawn = |seed| {
            let mut drawing = Drawing::of(&[3, 1, 2], seed).expect("several");
            (0..50).map(|_| drawing.next()).collect::<Vec<u16>>()
        };
        assert_eq!(drawn(4), drawn(4));
        assert_ne!(drawn(4), drawn(5));
    }

    proptest! {
        /// What the table gives each kind, summed over it, is its weight to within rounding.
        #[test]
        fn every_weight_has_its_share_of_the_table(weights in prop::collection::vec(1_u32..1_000_000, 2..200)) {
            let drawing = Drawing::of(&weights, 1).unwrap();
            let mut given = vec![0_f64; weights.len()];
            for (kind, (below, other)) in drawing.places.iter().enumerate() {
                let own = *below as f64 / (1_u64 << 32) as f64;
                given[kind] += own;
                given[usize::from(*other)] += 1.0 - own;
            }
            let sum: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
            for (weight, given) in weights.iter().zip(given) {
                let share = f64::from(*weight) / sum;
                prop_assert!((given / weights.len() as f64 - share).abs() < 1e-6);
            }
        }
    }
}
