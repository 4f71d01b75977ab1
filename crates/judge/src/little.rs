//! Little's law: N = X·R, requests in flight are throughput times mean time in flight.
//!
//! It is an identity of means over a window. It holds for any order of service, and says
//! nothing about causes; a median in place of the mean breaks it. Where counted N and X·R
//! disagree, one of the three numbers is wrong.

use wallfinder_model::{Caveat, Step};

use crate::finite::{known, positive, ratio};
use crate::identity;

/// The tolerated distance of [`Little::ratio`] from 1.
pub const TOLERANCE: f64 = 0.03;

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
}

impl Little {
    /// Whether the three numbers agree within [`TOLERANCE`].
    pub fn holds(&self) -> bool {
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
    let failed = identity::failed(&step.counts) as f64;
    let ended = ratio(failed, step.counts.answered as f64).unwrap_or(0.0);
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
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::a_step;

    #[test]
    fn the_law_holds_for_the_mean_and_not_for_the_median() {
        // 100,000 in flight at 18.16 M/s stay 5.5 ms on average, whatever the median is.
        let step = a_step()
            .throughput(18_164_736.0)
            .in_flight(100_000.0)
            .latency_ms(5.505, 4.0)
            .build();
        let little = check(&step).unwrap();
        assert!(little.holds(), "{little:?}");
        assert!((little.n_over_x_s * 1e3 - 5.505).abs() < 0.001);
        assert!((little.ratio_p50.unwrap() - 1.376).abs() < 0.001);
    }

    #[test]
    fn numbers_that_disagree_are_doubted() {
        let step = a_step()
            .throughput(1_000.0)
            .in_flight(10.0)
            .latency_ms(5.0, 5.0)
            .build();
        let little = check(&step).unwrap();
        assert_eq!(little.caveat(), Some(Caveat::LittleMismatch { ratio: 2.0 }));
    }

    #[test]
    fn without_latency_there_is_nothing_to_compare() {
        let mut step = a_step().throughput(1_000.0).build();
        step.service = None;
        step.latency = None;
        assert_eq!(check(&step), None);
    }
}
