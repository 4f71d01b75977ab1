//! Two cells of an experiment that was run several times over, side by side.
//!
//! A round runs every cell once, one after another, each time with a server started anew.
//! What differs from round to round is what another run would differ by, so rounds are the
//! sample: logarithms of the ratio within each round, and Student's interval of their mean.

use crate::compare::RatioInterval;
use crate::student;

pub use crate::finite::median;

/// One cell over another, round by round: `over[i]` and `under[i]` are of the same round.
/// The ratio is the geometric mean; its 95 % interval needs two rounds. `None`: nothing to
/// divide, different numbers of rounds, or a value that is not above zero.
pub fn ratio(over: &[f64], under: &[f64]) -> Option<RatioInterval> {
    let sound = |values: &[f64]| values.iter().all(|value| value.is_finite() && *value > 0.0);
    if over.is_empty() || over.len() != under.len() || !sound(over) || !sound(under) {
        return None;
    }
    let rounds = over.len() as f64;
    let logs: Vec<f64> = over.iter().zip(under).map(|(a, b)| (a / b).ln()).collect();
    let mean = logs.iter().sum::<f64>() / rounds;
    let half = (logs.len() > 1).then(|| {
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let error = (squares / (rounds - 1.0) / rounds).sqrt();
        student::t_95(logs.len() - 1) * error
    });
    Some(RatioInterval {
        value: mean.exp(),
        low: half.map(|half| (mean - half).exp()),
        high: half.map(|half| (mean + half).exp()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_rounds_share_leaves_no_doubt() {
        let drifting = [10.0, 20.0, 40.0];
        let twice = [20.0, 40.0, 80.0];
        let found = ratio(&twice, &drifting).unwrap();
        assert!((found.value - 2.0).abs() < 1e-12);
        assert!((found.low.unwrap() - 2.0).abs() < 1e-9);
        assert!((found.high.unwrap() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_interval_is_students_of_the_logarithms() {
        // Logarithms 0 and ln 4: mean ln 2, standard error ln 2, t(1) = 12.706.
        let found = ratio(&[1.0, 4.0], &[1.0, 1.0]).unwrap();
        assert!((found.value - 2.0).abs() < 1e-12);
        let high = found.high.unwrap().ln();
        assert!((high - 13.706 * 2f64.ln()).abs() < 1e-3, "{high}");
    }

    #[test]
    fn one_round_has_no_interval_and_nonsense_no_ratio() {
        let one = ratio(&[3.0], &[2.0]).unwrap();
        assert_eq!((one.value, one.low, one.high), (1.5, None, None));
        for (over, under) in [
            (&[][..], &[][..]),
            (&[1.0], &[1.0, 2.0]),
            (&[1.0], &[0.0]),
            (&[f64::NAN], &[1.0]),
        ] {
            assert_eq!(ratio(over, under), None);
        }
    }
}
