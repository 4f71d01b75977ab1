//! Numbers out of records, made safe: what is not finite is not known.

/// The value, where it is finite and not negative.
pub(crate) fn known(value: f64) -> Option<f64> {
    (value.is_finite() && value >= 0.0).then_some(value)
}

/// The value, where it is finite and above zero.
pub(crate) fn positive(value: f64) -> Option<f64> {
    (value.is_finite() && value > 0.0).then_some(value)
}

/// A share of one: 0 where it is not known, at most 1.
pub(crate) fn share(value: f64) -> f64 {
    known(value).unwrap_or(0.0).min(1.0)
}

/// A quotient, where it is a finite number that is not negative.
pub(crate) fn ratio(above: f64, below: f64) -> Option<f64> {
    positive(below).and_then(|below| known(above / below))
}

/// The mean of what is finite.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if finite.is_empty() {
        return None;
    }
    Some(finite.iter().sum::<f64>() / finite.len() as f64)
}

/// The median of what is finite; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    if finite.is_empty() {
        return None;
    }
    finite.sort_by(f64::total_cmp);
    let middle = finite.len() / 2;
    Some(if finite.len().is_multiple_of(2) {
        (finite[middle - 1] + finite[middle]) / 2.0
    } else {
        finite[middle]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finite_is_not_known() {
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.1] {
            assert_eq!(known(bad), None);
            assert_eq!(share(bad), 0.0);
            assert_eq!(ratio(1.0, bad), None);
        }
        assert_eq!(ratio(1.0, 0.0), None);
        assert_eq!(ratio(1.0, 4.0), Some(0.25));
        assert_eq!(share(7.0), 1.0);
    }

    #[test]
    fn means_and_medians_skip_what_is_not_finite() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[f64::NAN, 2.0, 4.0]), Some(3.0));
        assert_eq!(median(&[9.0, f64::NAN, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
    }
}
