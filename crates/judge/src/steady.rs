//! Whether throughput held still in the window, and how well its mean is known.
//!
//! Slices of 100 ms are not independent: a queue that is long now is long a moment later.
//! So noise is taken as the long-run variance (first-order autocorrelation included), and
//! the interval of the mean comes from batches long enough to forget each other.
//!
//! The change point is the best split into two levels. Its score must pass a fixed, high
//! bar, and the levels must differ by enough to matter: a false alarm costs more trust
//! than a missed wobble.

use wallfinder_model::profile::ProfileKind;
use wallfinder_model::record::Interval;
use wallfinder_model::{Arrival, Caveat, Step};

use crate::finite::{mean, median, ratio};
use crate::student::mean_95;
use crate::unanswered;

/// A split is believed when its levels are this many standard errors apart. The largest
/// of 100 splits of pure noise passes 3.3 in one window of twenty, and 5 practically never.
const SCORE_MIN: f64 = 5.0;
/// Levels nearer than this are one level.
pub const CHANGE_MIN: f64 = 0.03;
/// A slow drift counts from here.
const DRIFT_MIN: f64 = 0.05;
/// Fewer slices than this decide nothing.
const SLICES_MIN: usize = 10;

/// Where a series takes another level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value of the later level.
    pub index: usize,
    /// Mean before.
    pub before: f64,
    /// Mean after.
    pub after: f64,
}

/// A change of throughput within a step's window.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The later level divided by the earlier.
    pub ratio: f64,
    /// When, from the window's start.
    pub at_ns: u64,
}

impl Change {
    /// The change as a doubt.
    pub fn caveat(&self) -> Caveat {
        Caveat::NotSteady {
            ratio: self.ratio,
            at_ns: self.at_ns,
        }
    }
}

/// A mean with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanInterval {
    /// The mean.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Good answers per second in each slice of the measured window.
pub fn rates(step: &Step) -> Vec<f64> {
    window(step)
        .filter_map(|slice| ratio(slice.answered as f64 * 1e9, slice.span_ns as f64))
        .collect()
}

/// The change of throughput in the window, where there is one. Where every switch or every system
/// call was watched for a part of it, that is what changed it; and so it is where the rate that was asked
/// for changes, or where the server could not be reached for a while.
pub fn change(step: &Step) -> Option<Change> {
    if was_watched(step) || is_to_change(step) || unanswered::unreachable_share(step) > 0.0 {
        return None;
    }
    let rates = rates(step);
    let (index, before, after) = change_point(&rates)
        .map(|point| (point.index, point.before, point.after))
        .or_else(|| drift(&rates).map(|(before, after)| (rates.len() / 2, before, after)))?;
    let at_ns = window(step)
        .take(index)
        .fold(0u64, |sum, slice| sum.saturating_add(slice.span_ns));
    Some(Change {
        ratio: ratio(after, before)?,
        at_ns,
    })
}

fn was_watched(step: &Step) -> bool {
    let mut sides = [&step.profiles, &step.client_profiles]
        .into_iter()
        .flatten();
    sides.any(|side| side.calls.is_some() || side.of(ProfileKind::Waits).is_some())
}

/// Whether the load itself asks for a throughput that changes.
fn is_to_change(step: &Step) -> bool {
    matches!(
        step.load.arrival,
        Arrival::Ramp { .. } | Arrival::Replay { .. }
    )
}

/// The mean throughput of the window and its interval, by batch means. A mean of rates that are to grow
/// has none.
pub fn throughput(step: &Step) -> Option<MeanInterval> {
    match is_to_change(step) {
        true => None,
        false => batch_means(&rates(step)),
    }
}

/// The best split of a series into two levels, where it is beyond doubt.
pub fn change_point(values: &[f64]) -> Option<ChangePoint> {
    let n = values.len();
    if n < SLICES_MIN {
        return None;
    }
    let shortest = (n / 10).max(3);
    let split = |k: usize| Some((mean(&values[..k])?, mean(&values[k..])?));
    let spread = |k: usize, before: f64, after: f64| {
        let inverse = 1.0 / k as f64 + 1.0 / (n - k) as f64;
        (after - before).abs() / inverse.sqrt()
    };
    let (index, before, after) = (shortest..=n - shortest)
        .filter_map(|k| split(k).map(|(before, after)| (k, before, after)))
        .max_by(|a, b| spread(a.0, a.1, a.2).total_cmp(&spread(b.0, b.1, b.2)))?;
    let level = (before + after) / 2.0;
    if level <= 0.0 || (after - before).abs() < CHANGE_MIN * level {
        return None;
    }
    let residuals: Vec<f64> = values
        .iter()
        .enumerate()
        .map(|(i, value)| value - if i < index { before } else { after })
        .collect();
    let noise = long_run_deviation(&residuals).max(0.001 * level);
    let score = spread(index, before, after) / noise;
    (score >= SCORE_MIN).then_some(ChangePoint {
        index,
        before,
        after,
    })
}

/// First and last level of a series that moves steadily one way.
pub(crate) fn drift(values: &[f64]) -> Option<(f64, f64)> {
    let third = values.len() / 3;
    if third < 4 {
        return None;
    }
    let first = median(&values[..third])?;
    let middle = median(&values[third..values.len() - third])?;
    let last = median(&values[values.len() - third..])?;
    let one_way = (first < middle && middle < last) || (first > middle && middle > last);
    if !one_way || (last - first).abs() < DRIFT_MIN * middle {
        return None;
    }
    // Differences of neighbours do not see the drift, so they measure the noise beside it.
    let steps: Vec<f64> = values.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
    let noise = 1.4826 * median(&steps)? / std::f64::consts::SQRT_2;
    let error = noise * (2.0 / third as f64).sqrt() * 1.2533;
    ((last - first).abs() > SCORE_MIN * error).then_some((first, last))
}

/// The interval of a mean of correlated values: 8 to 20 batches, each at least four slices.
pub fn batch_means(values: &[f64]) -> Option<MeanInterval> {
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let n = finite.len();
    let centre = mean(&finite)?;
    let batches = (n / 4).min(20);
    if batches < 3 {
        return None;
    }
    let size = n / batches;
    let means: Vec<f64> = finite.chunks_exact(size).filter_map(mean).collect();
    let (_, half) = mean_95(&means);
    Some(MeanInterval {
        mean: centre,
        low: centre - half,
        high: centre + half,
    })
}

/// Standard deviation of residuals, widened for their correlation.
fn long_run_deviation(residuals: &[f64]) -> f64 {
    let n = residuals.len() as f64;
    let variance = residuals.iter().map(|r| r * r).sum::<f64>() / (n - 2.0).max(1.0);
    let rho = lag1(residuals).clamp(0.0, 0.9);
    (variance * (1.0 + rho) / (1.0 - rho)).sqrt()
}

/// Correlation of neighbours in a series of mean zero.
fn lag1(residuals: &[f64]) -> f64 {
    let power: f64 = residuals.iter().map(|r| r * r).sum();
    if power <= 0.0 {
        return 0.0;
    }
    residuals.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / power
}

/// The slices of the measured window: those whose greater part lies after the warm-up.
fn window(step: &Step) -> impl Iterator<Item = &Interval> {
    let warmup = step.load.warmup.0;
    step.intervals
        .iter()
        .filter(move |slice| slice.at_ns.saturating_sub(slice.span_ns / 2) > warmup)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::{Noise, a_step};

    fn noisy(n: usize, seed: u64, level: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut noise = Noise::new(seed);
        (0..n)
            .map(|i| level(i) * (1.0 + 0.02 * noise.gauss()))
            .collect()
    }

    #[test]
    fn noise_alone_is_no_change() {
        for seed in 0..400 {
            assert_eq!(change_point(&noisy(80, seed, |_| 1e4)), None, "{seed}");
        }
    }

    #[test]
    fn correlated_noise_alone_is_seldom_a_change() {
        let mut alarms = 0;
        for seed in 0..200 {
            let mut noise = Noise::new(seed);
            let mut state = 0.0;
            let series: Vec<f64> = (0..80)
                .map(|_| {
                    state = 0.7 * state + 0.02 * noise.gauss();
                    1e4 * (1.0 + state)
                })
                .collect();
            alarms += u32::from(change_point(&series).is_some());
        }
        assert!(alarms <= 4, "{alarms} of 200");
    }

    #[test]
    fn a_step_of_a_tenth_is_found_where_it_is() {
        for seed in 0..50 {
            let series = noisy(80, seed, |i| if i < 30 { 1e4 } else { 1.1e4 });
            let point = change_point(&series).expect("a change");
            assert!((28..=32).contains(&point.index), "{point:?}");
            assert!((point.after / point.before - 1.1).abs() < 0.02);
        }
    }

    #[test]
    fn a_slow_drift_is_not_steady() {
        let step = a_step()
            .throughput(1e4)
            .slices(&noisy(90, 3, |i| 1e4 * (1.0 - 0.003 * i as f64)))
            .build();
        let change = change(&step).expect("a drift");
        assert!(change.ratio < 0.9, "{change:?}");
    }

    #[test]
    fn the_warm_up_does_not_count() {
        let mut step = a_step()
            .throughput(1e4)
            .slices(&noisy(60, 5, |_| 1e4))
            .build();
        for slice in &mut step.intervals {
            slice.at_ns += 1_000_000_000;
        }
        step.load.warmup = wallfinder_model::Nanos::from_secs(1);
        for i in 0..10 {
            step.intervals.insert(
                i,
                Interval {
                    at_ns: 100_000_000 * (i as u64 + 1),
                    span_ns: 100_000_000,
                    answered: 10,
                    ..Interval::default()
                },
            );
        }
        assert_eq!(change(&step), None);
        assert_eq!(rates(&step).len(), 60);
    }

    #[test]
    fn the_interval_of_the_mean_covers_it_about_as_often_as_it_says() {
        let mut covered = 0;
        for seed in 0..300 {
            let interval = batch_means(&noisy(100, 1000 + seed, |_| 1e4)).unwrap();
            covered += u32::from(interval.low <= 1e4 && 1e4 <= interval.high);
        }
        assert!((270..=297).contains(&covered), "{covered} of 300");
    }
}
