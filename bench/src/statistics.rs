//! Estimates from few rounds: medians, and intervals on ratios that are paired by round.
//!
//! The ratio of two contestants is estimated by the Hodges-Lehmann estimator on the
//! logarithms of the rounds' ratios (the median of all pairwise means), and its interval
//! is the exact one of Wilcoxon's signed-rank test: no distribution is assumed but
//! symmetry, and no resampling pretends to more than the rounds hold. Below six rounds
//! there is no interval at 95 %; the widest one is given with the confidence it has.
//! (Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, 3.2 and 3.3.)

use serde::Serialize;

/// Confidence that intervals aim at.
const CONFIDENCE: f64 = 0.95;

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The most likely value.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Share of such intervals that hold the true value; 0 for a single round.
    pub confidence: f64,
    /// Rounds it comes from.
    pub rounds: usize,
}

/// Whether a ratio is at most what was aimed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// The whole interval is.
    Met,
    /// The whole interval is above.
    NotMet,
    /// The interval holds the aim, or there were too few rounds for an interval.
    Undecided,
}

impl Estimate {
    /// Compares with an upper bound.
    pub fn at_most(&self, bound: f64) -> Judgement {
        if self.confidence < CONFIDENCE {
            Judgement::Undecided
        } else if self.high <= bound {
            Judgement::Met
        } else if self.low > bound {
            Judgement::NotMet
        } else {
            Judgement::Undecided
        }
    }
}

/// Middle value; the mean of the two middle ones of an even number. `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    middle(&sorted)
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[half]),
        _ => Some((sorted[half - 1] + sorted[half]) / 2.0),
    }
}

/// The ratio of two quantities from pairs of measurements, all above zero.
pub fn ratio(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let logarithms: Vec<f64> = pairs
        .iter()
        .map(|(upper, lower)| (upper / lower).ln())
        .collect();
    let of_logarithms = centre(&logarithms)?;
    Some(Estimate {
        value: of_logarithms.value.exp(),
        low: of_logarithms.low.exp(),
        high: of_logarithms.high.exp(),
        ..of_logarithms
    })
}

/// Hodges-Lehmann estimate of the centre of a symmetric distribution, with the exact
/// signed-rank interval.
pub fn centre(values: &[f64]) -> Option<Estimate> {
    let rounds = values.len();
    let mut means = Vec::with_capacity(rounds * (rounds + 1) / 2);
    for (at, first) in values.iter().enumerate() {
        means.extend(values[at..].iter().map(|second| (first + second) / 2.0));
    }
    means.sort_unstable_by(f64::total_cmp);
    let value = middle(&means)?;
    let (left_out, confidence) = signed_rank_cut(rounds);
    Some(Estimate {
        value,
        low: means[left_out],
        high: means[means.len() - 1 - left_out],
        confidence,
        rounds,
    })
}

/// How many of the sorted pairwise means may be left out at each end for an interval of
/// at least [`CONFIDENCE`], and the confidence that it has then.
fn signed_rank_cut(rounds: usize) -> (usize, f64) {
    let ways = signed_rank_ways(rounds);
    let all: f64 = ways.iter().sum();
    // P(W <= cut), of which the interval loses two.
    let mut below = 0.0;
    let mut best = (0, 1.0 - 2.0 * ways[0] / all);
    for (cut, count) in ways.iter().enumerate() {
        below += count / all;
        let confidence = 1.0 - 2.0 * below;
        if confidence < CONFIDENCE {
            break;
        }
        best = (cut, confidence);
    }
    best
}

/// In how many of the 2^n sign patterns the ranks with a plus add up to each sum.
fn signed_rank_ways(rounds: usize) -> Vec<f64> {
    let largest = rounds * (rounds + 1) / 2;
    let mut ways = vec![0.0; largest + 1];
    ways[0] = 1.0;
    for rank in 1..=rounds {
        for sum in (rank..=largest).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_known_values() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    /// Table A.4 of Hollander, Wolfe and Chicken: P(W >= x) for n = 4 and 7.
    #[test]
    fn signed_ranks_add_up_as_in_the_tables() {
        let at_least = |rounds: usize, sum: usize| {
            let ways = signed_rank_ways(rounds);
            ways[sum..].iter().sum::<f64>() / ways.iter().sum::<f64>()
        };
        assert_eq!(at_least(4, 10), 1.0 / 16.0);
        assert_eq!(at_least(7, 26), 3.0 / 128.0);
        assert_eq!(at_least(7, 22), 14.0 / 128.0);
    }

    #[test]
    fn intervals_lose_as_many_means_as_the_tables_say() {
        // Six rounds: only the extremes make 95 %, at 1 - 2/64.
        assert_eq!(signed_rank_cut(6), (0, 1.0 - 2.0 / 64.0));
        // Seven: W <= 2 has probability 3/128 (0; 1; 2), so two means go at each end.
        assert_eq!(signed_rank_cut(7), (2, 1.0 - 6.0 / 128.0));
        let (left_out, confidence) = signed_rank_cut(20);
        assert_eq!(left_out, 52);
        assert!((0.95..0.96).contains(&confidence), "{confidence}");
        assert_eq!(signed_rank_cut(3), (0, 0.75));
    }

    /// Seven values by hand: 28 pairwise means, their median, and the third from each end.
    #[test]
    fn a_centre_and_its_interval_by_hand() {
        let estimate = centre(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 70.0]).unwrap();
        assert_eq!((estimate.value, estimate.rounds), (4.0, 7));
        // 1, 1.5, 2 … and from the other end 70, 38, 37.5.
        assert_eq!((estimate.low, estimate.high), (2.0, 37.5));
        assert_eq!(estimate.confidence, 1.0 - 6.0 / 128.0);
    }

    #[test]
    fn ratios_are_paired_and_symmetric() {
        // The server's speed drifts by a factor of four; the ratio does not.
        let pairs: Vec<(f64, f64)> = (1..=7)
            .map(|n| (0.8 * f64::from(n), f64::from(n)))
            .collect();
        let there = ratio(&pairs).unwrap();
        let back: Vec<(f64, f64)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
        let back = ratio(&back).unwrap();
        assert!((there.value - 0.8).abs() < 1e-12);
        assert!((there.value * back.value - 1.0).abs() < 1e-12);
        assert!((there.low * back.high - 1.0).abs() < 1e-12);
        assert_eq!(there.at_most(0.85), Judgement::Met);
        assert_eq!(there.at_most(0.75), Judgement::NotMet);
        assert!(ratio(&[]).is_none());
    }

    #[test]
    fn few_rounds_decide_nothing() {
        let pairs = [(1.0, 2.0); 5];
        let estimate = ratio(&pairs).unwrap();
        assert_eq!(estimate.value, 0.5);
        assert_eq!(estimate.confidence, 1.0 - 2.0 / 32.0);
        assert_eq!(estimate.at_most(1.0), Judgement::Undecided);
    }

    /// Nine in ten and more of the intervals hold the truth, with skewless noise.
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut uniform = || random.f64() - 0.5;
        let held = (0..4000)
            .filter(|_| {
                let values: Vec<f64> = (0..7).map(|_| 3.0 + uniform() + uniform()).collect();
                let estimate = centre(&values).unwrap();
                (estimate.low..=estimate.high).contains(&3.0)
            })
            .count();
        let share = held as f64 / 4000.0;
        assert!((share - 0.953).abs() < 0.012, "{share}");
    }
}
