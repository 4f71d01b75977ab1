//! A straight line through costs, in which a small answer counts as much as a large one.

/// `y = at_nothing + slope * x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    pub(super) at_nothing: f64,
    pub(super) slope: f64,
    /// Root mean square of the relative distances.
    pub(super) misfit: f64,
}

impl Line {
    /// The line whose relative errors have the least squares; `None` without two values of x, or
    /// with costs that are none.
    pub(super) fn through(points: &[(f64, f64)]) -> Option<Line> {
        if points.iter().any(|(_, y)| *y <= 0.0 || !y.is_finite()) {
            return None;
        }
        let sum =
            |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(*x, *y)).sum::<f64>();
        let (w, wx, wxx) = (
            sum(&|_, y| 1.0 / (y * y)),
            sum(&|x, y| x / (y * y)),
            sum(&|x, y| x * x / (y * y)),
        );
        let (wy, wxy) = (sum(&|_, y| 1.0 / y), sum(&|x, y| x / y));
        let determinant = w * wxx - wx * wx;
        // Of equal sizes it is what rounding leaves.
        if determinant <= 1e-9 * w * wxx {
            return None;
        }
        let slope = (w * wxy - wx * wy) / determinant;
        let at_nothing = (wxx * wy - wx * wxy) / determinant;
        let squares = sum(&|x, y| ((at_nothing + slope * x) / y - 1.0).powi(2));
        Some(Line {
            at_nothing,
            slope,
            misfit: (squares / points.len() as f64).sqrt(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<(f64, f64)> = [100.0, 1e3, 1e4, 1e6]
            .map(|x| (x, 20_000.0 + 0.4 * x))
            .to_vec();
        let line = Line::through(&points).unwrap();
        assert!((line.at_nothing - 20_000.0).abs() < 1e-6, "{line:?}");
        assert!((line.slope - 0.4).abs() < 1e-9, "{line:?}");
        assert!(line.misfit < 1e-9);
    }

    #[test]
    fn one_size_or_no_cost_makes_no_line() {
        assert_eq!(Line::through(&[]), None);
        assert_eq!(Line::through(&[(1e3, 5.0), (1e3, 6.0)]), None);
        assert_eq!(Line::through(&[(1e3, 5.0), (2e3, 0.0)]), None);
        assert_eq!(Line::through(&[(1e3, 5.0), (2e3, f64::NAN)]), None);
    }
}
