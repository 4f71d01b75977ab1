//! Least squares over windows: what one request of each kind takes, and what pairs of kinds take beside each other.
//!
//! ```text
//!  used = Σ costs × counts  +  Σ g × pairs      pairs: as often as both meet among all, or take turns with each other
//! ```
//!
//! Every term grows in proportion to all counts, so that only the mix tells, and not how busy a window was. Hence what one
//! more of a kind takes, times how many there are, adds up to the whole over the kinds (Euler), with pairs as without.

use crate::proof::squares::inverse;

/// Windows beyond one for each column, at the least: else what is left over tells nothing.
pub(super) const SPARE_MIN: usize = 3;

/// Windows, and what of them explains what they used.
#[derive(Debug, Clone)]
pub(super) struct Windows<'w> {
    /// How many of each kind each window had, in its time.
    pub(super) counts: &'w [Vec<f64>],
    /// What each used, in its time.
    pub(super) used: &'w [f64],
}

/// Two kinds, by number, and how often they come upon each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) kinds: (usize, usize),
    pub(super) among: Among,
}

/// Whom two kinds come upon each other among.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Among {
    /// All: the one is there while the other is, as at a lock. Counts of one × counts of the other / all counts.
    All,
    /// Each other: the one comes next after the other, whatever comes between, as at a cache. The same over the counts of
    /// both.
    Both,
}

impl Pair {
    /// How often, at so many of each kind.
    pub(super) fn times(&self, counts: &[f64]) -> f64 {
        let (a, b) = (counts[self.kinds.0], counts[self.kinds.1]);
        a * b / self.whole(counts)
    }

    /// How many times more with one more of a kind.
    fn one_more(&self, kind: usize, counts: &[f64]) -> f64 {
        let (a, b) = (counts[self.kinds.0], counts[self.kinds.1]);
        let whole = self.whole(counts);
        let is_own = kind == self.kinds.0 || kind == self.kinds.1;
        let with = match kind {
            _ if kind == self.kinds.0 => b,
            _ if kind == self.kinds.1 => a,
            _ => 0.0,
        };
        let is_counted = is_own || self.among == Among::All;
        let thinned = if is_counted {
            a * b / (whole * whole)
        } else {
            0.0
        };
        with / whole - thinned
    }

    fn whole(&self, counts: &[f64]) -> f64 {
        match self.among {
            Among::All => counts.iter().sum(),
            Among::Both => counts[self.kinds.0] + counts[self.kinds.1],
        }
    }
}

/// Who takes of what is used, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// A kind: what one more of it takes.
    Kind(usize),
    /// A pair: all that neither of its kinds takes without the other.
    Pair(usize),
}

impl Who {
    /// How many there are, at so many of each kind.
    fn count(self, counts: &[f64]) -> f64 {
        match self {
            Who::Kind(kind) => counts[kind],
            Who::Pair(_) => 1.0,
        }
    }
}

/// What one takes of what is used, with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) error: f64,
}

/// Costs and pairs, fitted.
#[derive(Debug, Clone)]
pub(super) struct Fit {
    pairs: Vec<Pair>,
    /// By column, kinds before pairs: what a column is divided by, so that rare kinds weigh as others do.
    scale: Vec<f64>,
    values: Vec<f64>,
    inverse: Vec<Vec<f64>>,
    /// Of each window, what the columns leave unexplained.
    left_over: Vec<f64>,
    /// Windows beyond one for each column.
    pub(super) degrees: usize,
}

impl Fit {
    /// Of all windows but `left_out`. `None` where a kind never came, or where the windows do not tell.
    pub(super) fn of(
        windows: &Windows<'_>,
        pairs: &[Pair],
        left_out: Option<usize>,
    ) -> Option<Fit> {
        let taken = || (0..windows.counts.len()).filter(|nth| Some(*nth) != left_out);
        let rows: Vec<Vec<f64>> = taken()
            .map(|nth| columns(&windows.counts[nth], pairs))
            .collect();
        let used: Vec<f64> = taken().map(|nth| windows.used[nth]).collect();
        let width = rows.first()?.len();
        let degrees = rows.len().checked_sub(width).filter(|left| *left > 0)?;
        let mean =
            |column: usize| rows.iter().map(|row| row[column]).sum::<f64>() / rows.len() as f64;
        let scale: Vec<f64> = (0..width).map(mean).collect();
        if scale.iter().any(|mean| *mean <= 0.0) {
            return None;
        }
        let scaled: Vec<Vec<f64>> = rows
            .iter()
            .map(|row| {
                row.iter()
                    .zip(&scale)
                    .map(|(value, scale)| value / scale)
                    .collect()
            })
            .collect();
        let (inverse, _) = inverse(products(&scaled));
        if inverse.iter().flatten().any(|value| !value.is_finite()) {
            return None;
        }
        let with_used = |column: usize| {
            let each = scaled.iter().zip(&used);
            each.map(|(row, used)| row[column] * used).sum::<f64>()
        };
        let right: Vec<f64> = (0..width).map(with_used).collect();
        let values: Vec<f64> = inverse.iter().map(|row| dot(row, &right)).collect();
        let left_over = scaled
            .iter()
            .zip(&used)
            .map(|(row, used)| used - dot(row, &values))
            .collect();
        Some(Fit {
            pairs: pairs.to_vec(),
            scale,
            values,
            inverse,
            left_over,
            degrees,
        })
    }

    /// A sum of the fitted columns, each so many times.
    fn sum(&self, times: &[f64]) -> Estimate {
        let times = self.scaled(times);
        Estimate {
            value: dot(&times, &self.values),
            error: self.together(&times, self, &times).max(0.0).sqrt(),
        }
    }

    fn scaled(&self, times: &[f64]) -> Vec<f64> {
        let each = times.iter().zip(&self.scale);
        each.map(|(times, scale)| times / scale).collect()
    }

    /// How two sums err together, the second one of another fit over the same windows. Both are of scaled columns.
    fn together(&self, times: &[f64], other: &Fit, other_times: &[f64]) -> f64 {
        let covariance = dot(&self.left_over, &other.left_over) / self.degrees as f64;
        let each = self.inverse.iter().zip(times);
        covariance
            * each
                .map(|(row, one)| one * dot(row, other_times))
                .sum::<f64>()
    }

    /// What all take, at so many of each kind.
    pub(super) fn whole(&self, counts: &[f64]) -> f64 {
        self.sum(&columns(counts, &self.pairs)).value
    }

    /// What one takes, at so many of each kind.
    pub(super) fn each(&self, who: Who, counts: &[f64]) -> Estimate {
        self.sum(&self.times(who, counts))
    }

    /// The share of one's in the whole: what each takes, times how many there are.
    pub(super) fn share(&self, who: Who, counts: &[f64]) -> Estimate {
        let part = self.part(who, counts);
        Estimate {
            value: part.share,
            error: self.sum(&part.slopes).error,
        }
    }

    /// By how much one's share is greater than it is in another fit over the same windows.
    pub(super) fn share_above(&self, other: &Fit, who: Who, counts: &[f64]) -> Estimate {
        let (part, others) = (self.part(who, counts), other.part(who, counts));
        let (slopes, other_slopes) = (self.scaled(&part.slopes), other.scaled(&others.slopes));
        let squares = self.together(&slopes, self, &slopes)
            + other.together(&other_slopes, other, &other_slopes)
            - 2.0 * self.together(&slopes, other, &other_slopes);
        Estimate {
            value: part.share - others.share,
            error: squares.max(0.0).sqrt(),
        }
    }

    /// How many times each column one takes, at so many of each kind.
    fn times(&self, who: Who, counts: &[f64]) -> Vec<f64> {
        match who {
            Who::Kind(kind) => one_more(kind, counts, &self.pairs),
            Who::Pair(nth) => {
                let mut own = vec![0.0; self.values.len()];
                let at = counts.len() + nth;
                own[at] = columns(counts, &self.pairs)[at];
                own
            }
        }
    }

    /// The `nth` pair over its standard error.
    pub(super) fn t_of_pair(&self, nth: usize) -> f64 {
        let at = self.values.len() - self.pairs.len() + nth;
        let mut once = vec![0.0; self.values.len()];
        once[at] = 1.0;
        let Estimate { value, error } = self.sum(&once);
        value / error
    }

    fn part(&self, who: Who, counts: &[f64]) -> Part {
        let all = columns(counts, &self.pairs);
        let mut own = self.times(who, counts);
        own.iter_mut().for_each(|times| *times *= who.count(counts));
        let whole = self.sum(&all).value;
        let share = self.sum(&own).value / whole;
        let each = own.iter().zip(&all);
        Part {
            share,
            slopes: each.map(|(own, all)| (own - share * all) / whole).collect(),
        }
    }
}

/// One's share of the whole.
struct Part {
    share: f64,
    /// How it changes with each of the fitted values.
    slopes: Vec<f64>,
}

/// The counts of kinds, and how often pairs come upon each other.
fn columns(counts: &[f64], pairs: &[Pair]) -> Vec<f64> {
    let beside = pairs.iter().map(|pair| pair.times(counts));
    counts.iter().copied().chain(beside).collect()
}

/// How each column grows with one more of a kind.
fn one_more(kind: usize, counts: &[f64], pairs: &[Pair]) -> Vec<f64> {
    let own = (0..counts.len()).map(|other| if other == kind { 1.0 } else { 0.0 });
    let beside = pairs.iter().map(|pair| pair.one_more(kind, counts));
    own.chain(beside).collect()
}

/// The products of all columns with one another, summed over the rows.
pub(super) fn products(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let width = rows.first().map_or(0, Vec::len);
    let product = |a: usize, b: usize| rows.iter().map(|row| row[a] * row[b]).sum::<f64>();
    (0..width)
        .map(|a| (0..width).map(|b| product(a, b)).collect())
        .collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is used is known exactly, so the fit must give it back: costs, the pair, and shares that add up.
    #[test]
    fn what_windows_were_made_of_is_found_again() {
        for among in [Among::All, Among::Both] {
            let pair = Pair {
                kinds: (0, 2),
                among,
            };
            let of = |counts: &[f64]| {
                3.0 * counts[0] + 5.0 * counts[1] + 2.0 * counts[2] + 7.0 * pair.times(counts)
            };
            let mut random = fastrand::Rng::with_seed(4);
            let counts: Vec<Vec<f64>> = (0..12)
                .map(|_| (0..3).map(|_| 10.0 + 40.0 * random.f64()).collect())
                .collect();
            let used: Vec<f64> = counts.iter().map(|counts| of(counts)).collect();
            let windows = Windows {
                counts: &counts,
                used: &used,
            };
            let fit = Fit::of(&windows, &[pair], None).expect("it tells");
            let own = [20.0, 30.0, 50.0];
            assert!((fit.whole(&own) / of(&own) - 1.0).abs() < 1e-6);
            let step = 1e-4;
            for kind in 0..3 {
                let mut more = own;
                more[kind] += step;
                let slope = (of(&more) - of(&own)) / step;
                let found = fit.each(Who::Kind(kind), &own).value;
                assert!((found / slope - 1.0).abs() < 1e-4, "{found} of {slope}");
            }
            let shares: f64 = (0..3)
                .map(|kind| fit.share(Who::Kind(kind), &own).value)
                .sum();
            assert!((shares - 1.0).abs() < 1e-9, "{shares}");
            let share = 7.0 * pair.times(&own) / of(&own);
            assert!((fit.share(Who::Pair(0), &own).value - share).abs() < 1e-6);
            // Without the pair something is left over.
            let additive = Fit::of(&windows, &[], None).expect("it tells");
            assert!(
                additive.each(Who::Kind(0), &own).error
                    > 100.0 * fit.each(Who::Kind(0), &own).error
            );
        }
    }

    #[test]
    fn kinds_meet_among_all_and_take_turns_among_themselves() {
        let times = |among| {
            Pair {
                kinds: (0, 1),
                among,
            }
            .times(&[30.0, 30.0, 40.0])
        };
        assert_eq!(times(Among::All), 9.0);
        assert_eq!(times(Among::Both), 15.0);
    }
}
