//! Student's t: how far a mean of few values may be off.

/// The two-sided 95 % quantile of Student's distribution. Tabled up to 30 degrees of
/// freedom, where the error of an approximation would show; above, Cornish and Fisher's
/// expansion, right to four digits.
pub(crate) fn t_95(degrees: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match degrees {
        0 => f64::INFINITY,
        1..=30 => TABLE[degrees - 1],
        _ => {
            let z: f64 = 1.959_964;
            let n = degrees as f64;
            z + (z.powi(3) + z) / (4.0 * n)
                + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
        }
    }
}

/// The two-sided quantile for an error of `alpha`: what |t| passes with that probability.
/// Degrees of freedom may be a fraction, as where variances are pooled.
pub(crate) fn quantile(alpha: f64, degrees: f64) -> f64 {
    if degrees.is_nan() || degrees <= 0.0 || alpha.is_nan() || alpha <= 0.0 {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0f64, 1e4f64);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if 2.0 * tail(middle, degrees) > alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// P(T > t) of Student's distribution.
pub(crate) fn tail(t: f64, degrees: f64) -> f64 {
    if t.is_nan() || degrees.is_nan() || degrees <= 0.0 {
        return 0.5;
    }
    let half = 0.5 * incomplete_beta(degrees / 2.0, 0.5, degrees / (degrees + t * t));
    if t >= 0.0 { half } else { 1.0 - half }
}

/// The regularised incomplete beta function, by Lentz's continued fraction
/// (Numerical Recipes, 6.4).
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut c = 1.0;
    let mut d = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut sum = d;
    for m in 1..200 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / away(1.0 + term * d);
            c = away(1.0 + term / c);
            step = c * d;
            sum *= step;
        }
        if (step - 1.0).abs() < 1e-12 {
            break;
        }
    }
    sum
}

/// Lanczos' approximation, for positive arguments.
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.120_865_097_386_617_9e-2,
        -0.539_523_938_495_3e-5,
    ];
    let base = x + 5.5;
    let series = TERMS
        .iter()
        .enumerate()
        .fold(1.000_000_000_190_015, |sum, (i, term)| {
            sum + term / (x + 1.0 + i as f64)
        });
    (x + 0.5) * base.ln() - base + (2.506_628_274_631_000_5 * series / x).ln()
}

#[cfg(test)]
mod tests {
    use super::{quantile, t_95, tail};

    #[test]
    fn quantiles_of_any_level_meet_the_printed_tables() {
        for (alpha, degrees, printed) in [
            (0.05, 3.0, 3.182),
            (0.05, 30.0, 2.042),
            (0.01, 5.0, 4.032),
            (0.002, 9.0, 4.297),
        ] {
            assert!(
                (quantile(alpha, degrees) - printed).abs() < 2e-3,
                "{degrees}"
            );
        }
        assert!((tail(0.0, 4.0) - 0.5).abs() < 1e-9);
        assert!((tail(-2.776, 4.0) - 0.975).abs() < 1e-4);
        assert_eq!(quantile(0.05, 0.0), f64::INFINITY);
    }

    #[test]
    fn the_expansion_meets_the_printed_tables() {
        for (degrees, printed) in [(1, 12.706), (10, 2.228), (40, 2.021), (120, 1.980)] {
            assert!((t_95(degrees) - printed).abs() < 6e-4, "{degrees}");
        }
        assert!(t_95(30) > t_95(31));
    }
}
