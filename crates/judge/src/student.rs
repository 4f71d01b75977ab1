//! Student's t: how far a mean of few values may be off.

use statrs::distribution::{Continuous, ContinuousCDF, StudentsT};

const QUANTILE_MAX: f64 = 1e4;
/// More than any quantile takes: they are a dozen for the usual ones, 700 for one in 10³⁰⁰.
const STEPS_MAX: usize = 1_000;

/// The two-sided 95 % quantile; infinite without a degree of freedom.
pub(crate) fn t_95(degrees: usize) -> f64 {
    quantile(0.05, degrees as f64)
}

/// The mean of values, and half of its 95 % interval; that is no number for a single one.
pub fn mean_95(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let error = (squares / (n - 1.0) / n).sqrt();
    (mean, t_95(values.len() - 1) * error)
}

/// The two-sided quantile for an error of `alpha`: what |t| passes with that probability; 10,000 at the most.
/// Degrees of freedom may be a fraction, as where variances are pooled.
///
/// By Newton's method: the tail is convex from 0 on, so that its steps never pass the quantile. The library's own
/// inverse loses digits above 10,000 degrees of freedom.
pub(crate) fn quantile(alpha: f64, degrees: f64) -> f64 {
    let Some(student) = distribution(degrees).filter(|_| alpha > 0.0) else {
        return f64::INFINITY;
    };
    let mut at = 0.0f64;
    for _ in 0..STEPS_MAX {
        let step = (student.sf(at) - alpha / 2.0) / student.pdf(at);
        let next = (at + step).clamp(0.0, QUANTILE_MAX);
        if (next - at).abs() <= 1e-15 * at {
            break;
        }
        at = next;
    }
    at
}

/// P(T > t).
pub(crate) fn tail(t: f64, degrees: f64) -> f64 {
    match distribution(degrees) {
        Some(student) if !t.is_nan() => student.sf(t),
        _ => 0.5,
    }
}

fn distribution(degrees: f64) -> Option<StudentsT> {
    StudentsT::new(0.0, 1.0, degrees).ok()
}

#[cfg(test)]
mod tests {
    use super::{quantile, t_95, tail};

    /// From R's `qt` and `pt`.
    #[test]
    fn quantiles_and_tails_meet_the_printed_tables() {
        for (alpha, degrees, printed) in [
            (0.05, 1.0, 12.706),
            (0.05, 3.0, 3.182),
            (0.05, 10.0, 2.228),
            (0.05, 30.0, 2.042),
            (0.05, 120.0, 1.980),
            (0.01, 5.0, 4.032),
            (0.002, 9.0, 4.297),
            // Where tails are heaviest, and where they are lightest.
            (1e-3, 1.0, 636.619_2),
            (1e-100, 1e9, 21.305_9),
        ] {
            let found = quantile(alpha, degrees);
            assert!((found - printed).abs() < 6e-4, "{degrees}: {found}");
            assert!(
                (2.0 * tail(found, degrees) - alpha).abs() < 1e-9,
                "{degrees}"
            );
        }
        assert_eq!(t_95(10), quantile(0.05, 10.0));
        assert!((tail(0.0, 4.0) - 0.5).abs() < 1e-12);
        assert!((tail(-2.776_445, 4.0) - 0.975).abs() < 1e-6);
    }

    #[test]
    fn what_is_no_distribution_is_known_in_no_way() {
        for degrees in [0.0, -1.0, f64::NAN] {
            assert_eq!(quantile(0.05, degrees), f64::INFINITY);
            assert_eq!(tail(2.0, degrees), 0.5);
        }
        for alpha in [0.0, -1.0, f64::NAN] {
            assert_eq!(quantile(alpha, 4.0), f64::INFINITY);
        }
        assert_eq!(tail(f64::NAN, 4.0), 0.5);
        assert!(quantile(1.5, 4.0) < 1e-9);
        assert_eq!(t_95(0), f64::INFINITY);
    }
}
