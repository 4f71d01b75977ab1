//! Centre and interval of a few rounds.
//!
//! The centre is Hodges' and Lehmann's: the median of all pairwise means. It loses 5 % to
//! the mean where noise is normal, and one round in four may be far off.
//!
//! The interval is Student's around it, with the variance of a trimmed mean (Yuen 1974:
//! the ends are drawn in before it is taken), moderated by the variance that everything else
//! of the same experiment shows (Smyth 2004). Why not the bootstrap over rounds:
//! resampling six values sees five degrees of freedom as if there were infinitely many, and
//! its 95 % percentile interval covers 85 to 90 % (the test below measures it). Why not
//! the plain t interval: one slow window in six makes it three times as wide. Why pooled:
//! noise is a property of the machine more than of the squeeze, so that six squeezes of six
//! rounds know it better than one; a squeeze that is much noisier keeps its own.
//!
//! Shared error: an experiment looks at its data at 6, 10 and 16 rounds and ends when it
//! has seen enough, so each look spends a part of the 5 % (Lan and DeMets 1983, Pocock's
//! form), and within a look the resources share it by Holm's steps (1979).

use crate::finite::median;
use crate::student;

/// Error that one experiment may make in naming a wall.
pub(super) const ALPHA: f64 = 0.05;
/// Rounds at which a normal experiment looks at its data.
pub(super) const LOOKS: [u32; 3] = [6, 10, 16];
/// Degrees of freedom that the other squeezes' variance counts for.
#[cfg(test)]
const POOL_DEGREES: f64 = 3.0;
/// A variance so many times the pool's is the squeeze's own affair.
const POOL_RATIO_MAX: f64 = 4.0;

/// Deviations of the pool from which one value of three or four is taken for a slow window.
const FAR: f64 = 6.0;

/// A centre, how well it is known, and from how many rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// Standard error; infinite where it cannot be told.
    pub(super) error: f64,
    pub(super) degrees: f64,
    pub(super) rounds: u32,
}

impl Estimate {
    /// The interval for a two-sided error of `alpha`.
    pub(super) fn interval(&self, alpha: f64) -> (f64, f64) {
        let half = student::quantile(alpha, self.degrees) * self.error;
        if half.is_nan() {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        (self.value - half, self.value + half)
    }

    /// How surely it is not below the bar: the one-sided p value, twice.
    pub(super) fn p_above(&self, bar: f64) -> f64 {
        if !self.error.is_finite() {
            return 1.0;
        }
        let t = (self.value - bar) / self.error.max(1e-9);
        (2.0 * student::tail(t, self.degrees)).min(1.0)
    }

    /// The same thing in another unit.
    pub(super) fn scaled(self, factor: f64) -> Estimate {
        Estimate {
            value: self.value * factor,
            error: self.error * factor.abs(),
            ..self
        }
    }

    /// A difference of two that were measured apart.
    pub(super) fn minus(self, other: Estimate) -> Estimate {
        let (a, b) = (self.error.powi(2), other.error.powi(2));
        Estimate {
            value: self.value - other.value,
            error: (a + b).sqrt(),
            // Welch and Satterthwaite.
            degrees: if a + b > 0.0 {
                (a + b).powi(2) / (a * a / self.degrees + b * b / other.degrees).max(1e-300)
            } else {
                self.degrees.min(other.degrees)
            },
            rounds: self.rounds.min(other.rounds),
        }
    }

    /// Two measurements of one thing, by their rounds.
    pub(super) fn joined(self, other: Estimate) -> Estimate {
        let rounds = self.rounds + other.rounds;
        let weight = f64::from(self.rounds) / f64::from(rounds.max(1));
        let (a, b) = (self.scaled(weight), other.scaled(1.0 - weight));
        Estimate {
            value: a.value + b.value,
            rounds,
            ..a.minus(b)
        }
    }
}

/// The variance of one round's value as the centre feels it, and how well it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) variance: f64,
    pub(super) degrees: f64,
}

/// The median of all pairwise means, each value with itself included.
pub(super) fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let means: Vec<f64> = values
        .iter()
        .enumerate()
        .flat_map(|(i, a)| values[i..].iter().map(move |b| (a + b) / 2.0))
        .collect();
    median(&means)
}

/// Yuen's variance: a fifth of the values at each end drawn in to the next.
pub(super) fn spread(values: &[f64]) -> Option<Spread> {
    let n = values.len();
    let (low, high, kept) = ends(values)?;
    let drawn: Vec<f64> = values.iter().map(|v| v.clamp(low, high)).collect();
    let mean = drawn.iter().sum::<f64>() / n as f64;
    let squares: f64 = drawn.iter().map(|v| (v - mean).powi(2)).sum();
    Some(Spread {
        variance: squares / (kept * (kept - 1.0)) * n as f64,
        degrees: kept - 1.0,
    })
}

/// Where a fifth of the values at each end are drawn in to, and how many lie between.
fn ends(values: &[f64]) -> Option<(f64, f64, f64)> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let cut = if n < 5 { 0 } else { (n / 5).max(1) };
    Some((sorted[cut], sorted[n - 1 - cut], (n - 2 * cut) as f64))
}

/// The typical variance of several squeezes: the median, so that a wild one does not count.
#[cfg(test)]
pub(super) fn pool(spreads: &[Spread]) -> Option<Spread> {
    let variances: Vec<f64> = spreads.iter().map(|spread| spread.variance).collect();
    let degrees: f64 = spreads.iter().map(|spread| spread.degrees).sum();
    Some(Spread {
        variance: median(&variances)?,
        degrees: degrees.min(POOL_DEGREES),
    })
}

/// One value that is far off while the others agree, drawn in to where noise could have put
/// it: with fewer than five rounds neither the centre nor the trimmed variance would bear
/// it. How far is far only the pool can tell.
fn drawn_in(values: &[f64], pool: Option<Spread>) -> Vec<f64> {
    let mut drawn = values.to_vec();
    let (Some(pool), Some(middle), 3..=4) = (pool, median(values), values.len()) else {
        return drawn;
    };
    let deviation = pool.variance.sqrt();
    let off = |value: &f64| (value - middle).abs();
    let far: Vec<usize> = (0..drawn.len())
        .filter(|at| off(&drawn[*at]) > FAR * deviation)
        .collect();
    if let [far] = far[..] {
        let reach = 2.0 * deviation;
        drawn[far] = drawn[far].clamp(middle - reach, middle + reach);
    }
    drawn
}

/// Centre and error of the values of the rounds.
pub(super) fn estimate(values: &[f64], pool: Option<Spread>) -> Option<Estimate> {
    let values = &drawn_in(values, pool)[..];
    let value = hodges_lehmann(values)?;
    let spread = spread(values).map_or(UNKNOWN, |own| moderated(own, pool));
    Some(around(value, spread, values.len()))
}

const UNKNOWN: Spread = Spread {
    variance: f64::INFINITY,
    degrees: 1.0,
};

fn moderated(own: Spread, pool: Option<Spread>) -> Spread {
    match pool {
        Some(pool) if own.variance <= POOL_RATIO_MAX * pool.variance => Spread {
            variance: (own.degrees * own.variance + pool.degrees * pool.variance)
                / (own.degrees + pool.degrees),
            degrees: own.degrees + pool.degrees,
        },
        _ => own,
    }
}

fn around(value: f64, spread: Spread, rounds: usize) -> Estimate {
    Estimate {
        value,
        error: (spread.variance / rounds as f64).sqrt(),
        degrees: spread.degrees,
        rounds: rounds as u32,
    }
}

/// The error that the look at so many rounds may spend, where the first look is at `first`.
pub(super) fn level(rounds: u32, first: u32) -> f64 {
    let spent = |rounds: u32| {
        let information = f64::from(rounds) / f64::from(LOOKS[LOOKS.len() - 1]);
        ALPHA * (1.0 + (std::f64::consts::E - 1.0) * information.min(1.0)).ln()
    };
    let taken: Vec<u32> = LOOKS.into_iter().filter(|look| *look >= first).collect();
    let look = taken.iter().rposition(|look| *look <= rounds).unwrap_or(0);
    match look {
        0 => spent(taken.first().copied().unwrap_or(rounds)),
        look => spent(taken[look]) - spent(taken[look - 1]),
    }
}

/// Holm's adjusted p values, in the order of the arguments.
pub(super) fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0f64; p.len()];
    let mut most = 0.0f64;
    for (rank, at) in order.into_iter().enumerate() {
        most = most.max(p[at] * (p.len() - rank) as f64).min(1.0);
        adjusted[at] = most;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::Noise as DoubleNoise;

    /// Rounds of an experiment with several squeezes: noise, and now and then a slow window.
    fn rounds(noise: &mut DoubleNoise, n: usize, outliers: f64) -> Vec<f64> {
        (0..n)
            .map(|_| {
                let slow = if noise.uniform() < outliers {
                    -12.0
                } else {
                    0.0
                };
                noise.gauss() + slow
            })
            .collect()
    }

    /// The share of intervals that hold the true centre, and their median half width.
    fn coverage(
        n: usize,
        outliers: f64,
        mut interval: impl FnMut(&[f64], Option<Spread>) -> (f64, f64),
    ) -> (f64, f64) {
        let mut noise = DoubleNoise::new(11);
        let mut held = 0;
        let mut widths = Vec::new();
        let trials = 1_500;
        for _ in 0..trials {
            let squeezes: Vec<Vec<f64>> = (0..6).map(|_| rounds(&mut noise, n, outliers)).collect();
            let spreads: Vec<Spread> = squeezes.iter().filter_map(|v| spread(v)).collect();
            let (low, high) = interval(&squeezes[0], pool(&spreads));
            held += u32::from(low <= 0.0 && 0.0 <= high);
            widths.push((high - low) / 2.0);
        }
        (
            f64::from(held) / f64::from(trials),
            median(&widths).unwrap(),
        )
    }

    fn percentile_bootstrap(values: &[f64]) -> (f64, f64) {
        let mut random = fastrand::Rng::with_seed(5);
        let mut centres: Vec<f64> = (0..200)
            .map(|_| {
                let sample: Vec<f64> = values
                    .iter()
                    .map(|_| values[random.usize(..values.len())])
                    .collect();
                hodges_lehmann(&sample).unwrap()
            })
            .collect();
        centres.sort_by(f64::total_cmp);
        (centres[4], centres[194])
    }

    #[test]
    fn intervals_of_six_rounds_hold_the_truth_and_the_bootstrap_does_not() {
        let ours = |v: &[f64], pool: Option<Spread>| estimate(v, pool).unwrap().interval(0.05);
        for (n, outliers) in [
            (3, 0.0),
            (3, 0.03),
            (6, 0.0),
            (6, 0.03),
            (6, 0.08),
            (10, 0.03),
            (16, 0.05),
        ] {
            let (held, width) = coverage(n, outliers, ours);
            println!("n {n}, outliers {outliers}: {held:.3}, half width {width:.2}");
            assert!(held >= 0.93, "{n} rounds, outliers {outliers}: {held}");
        }
        let (held, width) = coverage(6, 0.0, |v, _| percentile_bootstrap(v));
        println!("bootstrap: {held:.3}, half width {width:.2}");
        assert!(held < 0.92, "{held}");
    }

    #[test]
    fn the_centre_stands_though_one_round_was_slow() {
        let centre = hodges_lehmann(&[1.0, 1.02, 0.98, 1.01, 0.99, -3.0]).unwrap();
        assert!((centre - 1.0).abs() < 0.03, "{centre}");
        assert_eq!(hodges_lehmann(&[]), None);
    }

    #[test]
    fn one_round_tells_nothing_of_its_error() {
        let one = estimate(&[1.0], None).unwrap();
        assert_eq!(one.interval(0.05), (f64::NEG_INFINITY, f64::INFINITY));
        assert_eq!(one.p_above(0.5), 1.0);
    }

    #[test]
    fn the_looks_together_spend_no_more_than_the_error_of_one() {
        for first in [LOOKS[0], LOOKS[1]] {
            let looks = LOOKS.iter().filter(|look| **look >= first);
            let spent: f64 = looks.map(|look| level(*look, first)).sum();
            assert!((spent - ALPHA).abs() < 1e-12, "{spent}");
        }
    }

    #[test]
    fn holm_adjusts_in_steps() {
        let adjusted = holm(&[0.01, 0.04, 0.03]);
        for (got, want) in adjusted.iter().zip([0.03, 0.06, 0.06]) {
            assert!((got - want).abs() < 1e-12, "{adjusted:?}");
        }
    }
}
