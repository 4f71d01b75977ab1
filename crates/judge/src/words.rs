//! Numbers as a colleague would say them: for claims of studies, and for what ends a command. Verdicts are worded
//! by the report.

/// `28,140`, `790`, `3.5`.
pub fn rate(value: f64) -> String {
    if !value.is_finite() {
        return "unknown".to_owned();
    }
    if value < 10.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `3.4 ms`, `250 µs`, `1.2 s`.
pub fn time(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 1e-3 => format!("{:.1} ms", s * 1e3),
        s => format!("{:.1} µs", s * 1e6),
    }
}

/// A number with so many decimals at the most, and no trailing zeros: `0.5`, `12`.
pub fn trimmed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_they_are_said() {
        assert_eq!(rate(28_140.2), "28,140");
        assert_eq!(rate(999.6), "1,000");
        assert_eq!(rate(3.46), "3.5");
        assert_eq!(rate(f64::NAN), "unknown");
        assert_eq!(time(0.0034), "3.4 ms");
        assert_eq!(
            (trimmed(0.5, 2), trimmed(100.0, 0)),
            ("0.5".into(), "100".into())
        );
    }
}
