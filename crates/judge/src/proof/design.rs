//! The order of the windows of one round: randomised complete blocks, balanced.
//!
//! ```text
//!  sham │ a │ b │ sham │ c │ d │ sham │ e │   next: sham │ ...
//! ```
//!
//! Every squeeze comes once, and no more than two come without a sham between them, so that a
//! machine that slows for a while slows base and squeeze alike. Over as many rounds as
//! there are squeezes each takes each place once, and follows each of the others about
//! equally often (Williams' squares), so that neither drift nor carry-over favours one.
//!
//! It is a function of its arguments: a record's seed gives its order again.

use fastrand::Rng;
use wallfinder_model::experiment::Effort;

/// Squeezed windows between two shams, at the most.
pub const SQUEEZED_BETWEEN_SHAMS: usize = 2;

/// Rounds before which the first starts end: the first serves one, the second two.
const FIRST_STARTS_END: [u32; 2] = [1, 3];
/// Rounds that each later start serves.
const ROUNDS_OF_A_START: u32 = 8;

/// Whether a server that can be started anew is, before a round. What a process draws once
/// (where its memory lies, the seeds of its tables, which of its threads gets which
/// connection) would otherwise be taken for an effect of what was squeezed.
pub fn restarts_before(effort: Effort, round: u32) -> bool {
    let [_, last] = FIRST_STARTS_END;
    let is_later = round > last && (round - last).is_multiple_of(ROUNDS_OF_A_START);
    effort != Effort::Quick && (FIRST_STARTS_END.contains(&round) || is_later)
}

/// The windows of a round as indices of conditions; 0 is the sham. `conditions_in_use` are
/// the squeezes of the round (a 0 among them is passed over).
pub fn block(seed: u64, round: u32, conditions_in_use: &[usize]) -> Vec<usize> {
    let mut squeezes: Vec<usize> = conditions_in_use
        .iter()
        .copied()
        .filter(|index| *index != 0)
        .collect();
    squeezes.sort_unstable();
    squeezes.dedup();
    let mut order = Vec::with_capacity(length(squeezes.len()));
    for (place, squeeze) in row(seed, round as usize, squeezes).into_iter().enumerate() {
        if place.is_multiple_of(SQUEEZED_BETWEEN_SHAMS) {
            order.push(0);
        }
        order.push(squeeze);
    }
    if order.is_empty() {
        order.push(0);
    }
    order
}

/// Windows of a round with so many squeezes, shams included.
pub fn length(squeezes: usize) -> usize {
    match squeezes {
        0 => 1,
        n => n + n.div_ceil(SQUEEZED_BETWEEN_SHAMS),
    }
}

/// One row of a Williams square over the squeezes. Each square has its own relabelling and
/// its own order of rows.
fn row(seed: u64, round: usize, mut squeezes: Vec<usize>) -> Vec<usize> {
    let n = squeezes.len();
    if n < 2 {
        return squeezes;
    }
    let square = (round / n) as u64;
    let mut random = Rng::with_seed(seed ^ square.wrapping_mul(0xD1B5_4A32_D192_ED03));
    random.shuffle(&mut squeezes);
    let mut rows: Vec<usize> = (0..n).collect();
    random.shuffle(&mut rows);
    let shift = rows[round % n];
    // 0, 1, n-1, 2, n-2, ...: neighbours differ by every distance once.
    (0..n)
        .map(|place| {
            let step = place.div_ceil(2);
            let zigzag = if place % 2 == 1 { step } else { n - step };
            squeezes[(zigzag + shift) % n]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::proof::{ab, sizes};

    /// A seed that is printed brings the same order back, on any machine and with any version: should the generator's
    /// order ever change, that is noticed here.
    #[test]
    fn a_seed_gives_this_order_for_ever() {
        let of_rounds: Vec<Vec<usize>> = (0..3).map(|nth| block(7, nth, &[1, 2, 3, 4])).collect();
        assert_eq!(
            of_rounds,
            [[0, 1, 3, 0, 4, 2], [0, 3, 2, 0, 1, 4], [0, 2, 4, 0, 3, 1]]
        );
        let is_b: Vec<bool> = ab::order_of_rounds(7, 6)
            .iter()
            .map(|turn| turn.1)
            .collect();
        let turns = sizes::order_of_rounds(7, 1, 3, true);
        let turns: Vec<_> = turns
            .iter()
            .map(|turn| (turn.answer, turn.behind_link))
            .collect();
        assert_eq!(
            (is_b, turns),
            (
                vec![
                    false, true, true, false, true, false, false, true, false, true, true, false
                ],
                vec![
                    (2, true),
                    (0, true),
                    (2, false),
                    (0, false),
                    (1, true),
                    (1, false)
                ]
            )
        );
    }

    /// Neighbouring seeds are what users try one after the other.
    #[test]
    fn neighbouring_seeds_draw_either_setting_first_as_often() {
        let first = |seed: &u64| ab::order_of_rounds(*seed, 2)[0].1;
        let count = (1..=1_000).filter(first).count();
        assert!((440..560).contains(&count), "{count} of 1000");
    }

    proptest! {
        #[test]
        fn every_squeeze_comes_once_and_two_in_a_row_at_the_most(
            seed: u64, round in 0u32..40, n in 0usize..12,
        ) {
            let squeezes: Vec<usize> = (1..=n).collect();
            let order = block(seed, round, &squeezes);
            prop_assert_eq!(order.len(), length(n));
            prop_assert_eq!(order[0], 0);
            for squeeze in &squeezes {
                prop_assert_eq!(order.iter().filter(|i| *i == squeeze).count(), 1);
            }
            for three in order.windows(3) {
                prop_assert!(three.contains(&0));
            }
            prop_assert_eq!(block(seed, round, &squeezes), order);
        }

        #[test]
        fn over_as_many_rounds_each_takes_each_place_once(seed: u64, n in 2usize..9) {
            let squeezes: Vec<usize> = (1..=n).collect();
            let mut places: BTreeMap<(usize, usize), u32> = BTreeMap::new();
            for round in 0..n as u32 {
                for (at, squeeze) in block(seed, round, &squeezes).into_iter().enumerate() {
                    if squeeze != 0 {
                        *places.entry((squeeze, at)).or_default() += 1;
                    }
                }
            }
            prop_assert!(places.len() == n * n && places.values().all(|count| *count == 1));
        }
    }

    #[test]
    fn a_first_look_sees_three_starts_and_a_quick_one_a_single_start() {
        let starts = |effort| {
            (0..6)
                .filter(|round| restarts_before(effort, *round))
                .count()
        };
        assert_eq!(starts(Effort::Normal), 2);
        assert_eq!(starts(Effort::Quick), 0);
        assert!(!restarts_before(Effort::Thorough, 0));
    }

    #[test]
    fn a_squeeze_does_not_always_follow_the_same_other() {
        let squeezes: Vec<usize> = (1..=6).collect();
        let mut follows: BTreeMap<(usize, usize), u32> = BTreeMap::new();
        for round in 0..6 {
            let order: Vec<usize> = block(7, round, &squeezes)
                .into_iter()
                .filter(|i| *i != 0)
                .collect();
            for pair in order.windows(2) {
                *follows.entry((pair[0], pair[1])).or_default() += 1;
            }
        }
        assert_eq!(follows.len(), 30);
        assert!(follows.values().all(|count| *count == 1));
    }
}
