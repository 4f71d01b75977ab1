//! Little's law: N = X·R, requests in flight are throughput times mean time in flight.
//!
//! It is an identity of means over a window. It holds for any order of service, and says
//! nothing about causes; a median in place of the mean breaks it. Where counted N and X·R
//! disagree, one of the three numbers is wrong, or the window is too short for the law:
//!
//! ```text
//!        open                               close
//!    ├────┼────┤ answered: its time counts    │      in X·R whole, in N·T from `open` on
//!         │   ├────────────────✗ failed       │      in N·T, and no answer's time is in R
//!         │                          ├────────┼───?  in N·T until `close`, in X·R not at all
//! ```
//!
//! So there is a range that edges and failures explain ([`Little::explained`]), and only what lies
//! beyond it is doubted.

use wallfinder_model::record::Histogram;
use wallfinder_model::{Caveat, Step};

use crate::finite::{known, positive, ratio};
use crate::{histogram, identity};

/// The tolerated distance of [`Little::ratio`] from 1, beside what is explained.
pub const TOLERANCE: f64 = 0.03;
/// A worker looks for requests past their deadline this often.
const DEADLINE_LATE_S: f64 = 0.1;
/// Deviations of a mean that is of other answers than those counted.
const DEVIATIONS: f64 = 3.0;

/// N, X and R of one step, side by side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Little {
    /// Mean requests in flight, counted.
    pub in_flight: f64,
    /// Requests per second that ended, good or not.
    pub throughput: f64,
    /// N/X in seconds: the mean time in flight that the law demands.
    pub n_over_x_s: f64,
    /// Mean time in flight as measured, seconds.
    pub mean_s: f64,
    /// Median time in flight, seconds.
    pub p50_s: Option<f64>,
    /// N over X·R with the mean for R: 1 when the three agree.
    pub ratio: f64,
    /// The same with the median for R: 1 only where mean and median are alike.
    pub ratio_p50: Option<f64>,
    /// What `ratio` can be, from and to, by what was in flight at the window's edges and what failed.
    pub explained: (f64, f64),
}

impl Little {
    /// Whether the three numbers agree, but for what is explained, within [`TOLERANCE`].
    pub fn holds(&self) -> bool {
        self.unexplained() <= TOLERANCE
    }

    /// How far the ratio lies outside of what is explained; 0: within.
    pub fn unexplained(&self) -> f64 {
        let (low, high) = self.explained;
        (low - self.ratio).max(self.ratio - high).max(0.0)
    }

    /// Whether they agree by themselves, whatever would explain more.
    pub fn agrees(&self) -> bool {
        (self.ratio - 1.0).abs() <= TOLERANCE
    }

    /// The doubt, where they do not.
    pub fn caveat(&self) -> Option<Caveat> {
        (!self.holds()).then_some(Caveat::LittleMismatch { ratio: self.ratio })
    }
}

/// Sets N/X beside the measured times. Time in flight is from the first byte sent, where
/// that was measured: in an open loop a request also waits before it is in flight.
pub fn check(step: &Step) -> Option<Little> {
    let time = step.service.as_ref().or(step.latency.as_ref())?;
    let mean_s = positive(time.mean_ns / 1e9)?;
    let in_flight = positive(step.in_flight_mean)?;
    let ended = ratio(failed_in_flight(step), step.counts.answered as f64).unwrap_or(0.0);
    let throughput = positive(step.throughput * (1.0 + ended))?;
    let n_over_x_s = known(in_flight / throughput)?;
    let p50_s = time
        .quantile_ns("p50")
        .and_then(|ns| positive(ns as f64 / 1e9));
    Some(Little {
        in_flight,
        throughput,
        n_over_x_s,
        mean_s,
        p50_s,
        ratio: ratio(n_over_x_s, mean_s)?,
        ratio_p50: p50_s.and_then(|p50| ratio(n_over_x_s, p50)),
        explained: explained(step, time, mean_s),
    })
}

/// Failures but for those of requests that were never sent.
fn failed_in_flight(step: &Step) -> f64 {
    let failed = identity::failed(&step.counts);
    failed.saturating_sub(step.counts.expired_unsent.into()) as f64
}

/// What edges and failures can make of N / (X·R).
fn explained(step: &Step, time: &Histogram, mean_s: f64) -> (f64, f64) {
    let counts = &step.counts;
    let failed = failed_in_flight(step);
    // In X·R failures stand as if they had taken what answers take.
    let Some(whole_s) = positive((counts.answered as f64 + failed) * mean_s) else {
        return (1.0, 1.0);
    };
    // Of a foreign driver nobody counted what was in flight at the edges, and its mean is that of its whole run.
    let foreign = step.driver.command.is_some();
    let at_edge = |count: u64| match foreign {
        true => known(step.in_flight_mean).unwrap_or(0.0).ceil() as u64,
        false => count,
    };
    let of_the_mean = match foreign {
        true => ratio(DEVIATIONS * time.stdev_ns / 1e9, mean_s)
            .and_then(|deviation| ratio(deviation, (counts.answered as f64).sqrt()))
            .unwrap_or(0.0),
        false => 0.0,
    };
    let (begun, last) = (
        at_edge(counts.in_flight_start),
        at_edge(counts.in_flight_end),
    );
    // Of those under way at the end, the ones that were waited for are among the times.
    let awaited = match foreign {
        true => 0,
        false => time.count.saturating_sub(counts.answered).min(last),
    };
    let window_s = step.window_ns as f64 / 1e9;
    let deadline_s = (step.load.timeout.0 as f64 / 1e9 + DEADLINE_LATE_S).min(window_s);
    let timed_s = (counts.answered as f64 + awaited as f64) * mean_s;
    let outside_s = longest_s(time, begun) + longest_s(time, awaited);
    // The others failed meanwhile, or are as old as is known. In records that do not tell they are as the answers
    // are, unless some failed.
    let rest = last - awaited;
    let rest_s = match step.drained {
        Some(drained) if !foreign => {
            let oldest_s = (drained.oldest_ns as f64 / 1e9).min(window_s);
            drained.failed as f64 * deadline_s + drained.in_flight as f64 * oldest_s
        }
        _ if failed > 0.0 => rest as f64 * deadline_s,
        _ => longest_s(time, rest),
    };
    let low = (timed_s - outside_s) / whole_s - of_the_mean;
    let high = (timed_s + rest_s + failed * deadline_s) / whole_s + of_the_mean;
    (low.clamp(0.0, 1.0), high.max(1.0))
}

/// The time of the longest `count` of a distribution together, in seconds; each that it lacks took
/// its longest.
fn longest_s(time: &Histogram, count: u64) -> f64 {
    let whole = histogram::decode(time).ok();
    let (counted, sum_ns) = whole.map_or((0, 0.0), |whole| whole.longest(count));
    (sum_ns + (count - counted) as f64 * time.max_ns as f64) / 1e9
}

#[cfg(test)]
mod tests;
