//! Numbers as people read them: three figures that matter, and a unit.
//!
//! Not finite means not known: every function prints [`UNKNOWN`] for it.

/// What stands where a value is not known.
pub const UNKNOWN: &str = "–";

/// Digits grouped by thousands: `1,234,567`.
fn grouped(digits: &str) -> String {
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A whole count: `41,234`.
pub fn whole(count: u64) -> String {
    grouped(&count.to_string())
}

/// A rate or a count that need not be whole: `41,234`, `96.2`, `0.5`.
pub fn amount(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    if value.abs() >= 1e15 {
        return format!("{value:.2e}");
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let value = value.abs();
    if value >= 99.95 {
        return format!("{sign}{}", grouped(&format!("{value:.0}")));
    }
    let shown = if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    };
    format!("{sign}{}", trimmed(&shown))
}

/// Without zeros that say nothing: `2.50` reads `2.5`, `3.00` reads `3`.
pub(crate) fn trimmed(shown: &str) -> &str {
    if shown.contains('.') {
        shown.trim_end_matches('0').trim_end_matches('.')
    } else {
        shown
    }
}

/// Three significant figures, for values of a unit.
fn three(value: f64) -> String {
    if value >= 99.95 {
        format!("{value:.0}")
    } else if value >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// The first unit in which `value` stays below a thousand, when three figures are shown.
fn scaled(value: f64, units: &[(f64, &str)]) -> String {
    let last = units.len() - 1;
    let (size, unit) = units
        .iter()
        .enumerate()
        .find(|(index, (size, _))| value / size < 999.5 || *index == last)
        .map_or(units[last], |(_, unit)| *unit);
    let value = value / size;
    if value >= 1e6 {
        return format!("{value:.1e} {unit}");
    }
    format!("{} {unit}", three(value))
}

/// A span of time: `850 ns`, `3.41 ms`, `12.3 s`, `4 min 05 s`.
pub fn span(ns: f64) -> String {
    if !ns.is_finite() || ns < 0.0 {
        return UNKNOWN.to_owned();
    }
    if ns < 999.5 {
        return format!("{ns:.0} ns");
    }
    if (119.5e9..1e18).contains(&ns) {
        let seconds = (ns / 1e9).round() as u64;
        return if seconds < 7200 {
            format!("{} min {:02} s", seconds / 60, seconds % 60)
        } else {
            format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60)
        };
    }
    scaled(ns, &[(1e3, "µs"), (1e6, "ms"), (1e9, "s")])
}

/// Requests in flight on a connection; 0 is not known, as of a driver's script.
pub fn depth(depth: u32) -> String {
    match depth {
        0 => UNKNOWN.to_owned(),
        depth => whole(u64::from(depth)),
    }
}

/// A planned length of time, without trailing zeros: `10 s`, `500 ms`.
pub fn length(ns: u64) -> String {
    let shown = span(ns as f64);
    match shown.split_once(' ') {
        Some((number, unit)) if !unit.contains(' ') => format!("{} {unit}", trimmed(number)),
        _ => shown,
    }
}

/// How long something took, in whole seconds where there are some: `33 s`, `4 min 05 s`.
pub fn rough(ns: u64) -> String {
    const SECOND: u64 = 1_000_000_000;
    if ns < 2 * SECOND {
        length(ns)
    } else {
        length(ns.saturating_add(SECOND / 2) / SECOND * SECOND)
    }
}

/// Bytes in powers of a thousand: `512 B`, `4.07 KB`, `1.25 GB`.
pub fn bytes(count: f64) -> String {
    if !count.is_finite() || count < 0.0 {
        return UNKNOWN.to_owned();
    }
    if count < 999.5 {
        return format!("{} B", trimmed(&format!("{count:.0}")));
    }
    scaled(
        count,
        &[(1e3, "KB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")],
    )
}

/// Bits per second: `1 Gbit/s`.
pub fn bits(rate: f64) -> String {
    if !rate.is_finite() || rate < 0.0 {
        return UNKNOWN.to_owned();
    }
    let units = [
        (1.0, "bit/s"),
        (1e3, "kbit/s"),
        (1e6, "Mbit/s"),
        (1e9, "Gbit/s"),
        (1e12, "Tbit/s"),
    ];
    let shown = scaled(rate, &units);
    match shown.split_once(' ') {
        Some((number, unit)) => format!("{} {unit}", trimmed(number)),
        None => shown,
    }
}

/// A share of one, in percent: `38 %`, `0.4 %`, `100 %`. Below a thousandth of a percent
/// and above zero it says so.
pub fn share(share: f64) -> String {
    if !share.is_finite() {
        return UNKNOWN.to_owned();
    }
    let percent = share * 100.0;
    let size = percent.abs();
    if size == 0.0 {
        "0 %".to_owned()
    } else if size < 0.001 {
        "<0.001 %".to_owned()
    } else if size < 0.0995 {
        format!("{} %", trimmed(&format!("{percent:.3}")))
    } else if size < 0.995 {
        format!("{} %", trimmed(&format!("{percent:.1}")))
    } else if size < 1e6 {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1e} %")
    }
}

/// A difference in percent with its sign, as fine as a tenth: `+0.9 %`, `−1.2 %`, `0 %`.
pub fn signed_share(share: f64) -> String {
    if !share.is_finite() || share.abs() >= 1e4 {
        return UNKNOWN.to_owned();
    }
    let percent = share * 100.0;
    let shown = if percent.abs() < 9.95 {
        format!("{:.1}", percent.abs())
    } else {
        format!("{:.0}", percent.abs())
    };
    match trimmed(&shown) {
        "0" => "0 %".to_owned(),
        size if percent < 0.0 => format!("−{size} %"),
        size => format!("+{size} %"),
    }
}

/// With so many digits after the point.
pub fn fixed(value: f64, digits: usize) -> String {
    if value.is_finite() && value.abs() < 1e4 {
        format!("{value:.digits$}")
    } else {
        amount(value)
    }
}

/// A rate no finer than what is known of it: `74,000` for 74,074 between 71,900 and 76,300.
/// Without ends, two figures.
pub fn about(value: f64, ends: Option<(f64, f64)>) -> String {
    let step = match ends {
        Some((low, high)) => (high - low).abs() / 4.0,
        None => value.abs() / 10.0,
    };
    if !value.is_finite() || !step.is_finite() || step < 1.0 {
        return amount(value);
    }
    let step = 10f64.powf(step.log10().floor().min(15.0));
    amount((value / step).round() * step)
}

/// A value as it is shown, where it is known.
pub(crate) fn maybe<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or(UNKNOWN.to_owned(), show)
}

/// Cores, or as few of anything: `0.5`, `12`.
pub fn cores(value: f64) -> String {
    if !value.is_finite() {
        return UNKNOWN.to_owned();
    }
    trimmed(&format!("{value:.2}")).to_owned()
}

/// A factor: `2.63`.
pub fn factor(value: f64) -> String {
    if value.is_finite() {
        if value.abs() < 1e4 {
            format!("{value:.2}")
        } else {
            amount(value)
        }
    } else {
        UNKNOWN.to_owned()
    }
}

/// A dimensionless elasticity, without a minus before zero: `0.98`, `-0.02`, `0.00`.
pub fn elasticity(value: f64) -> String {
    if !value.is_finite() || value.abs() >= 1e4 {
        return UNKNOWN.to_owned();
    }
    let shown = format!("{value:.2}");
    if shown == "-0.00" {
        "0.00".to_owned()
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn figures_read_as_people_write_them() {
        assert_eq!(amount(41_234.4), "41,234");
        assert_eq!(amount(96.24), "96.2");
        assert_eq!(amount(0.5), "0.5");
        assert_eq!(amount(-3.0), "-3");
        assert_eq!(amount(999.96), "1,000");
        assert_eq!(whole(1_234_567), "1,234,567");
        assert_eq!(whole(100), "100");
        assert_eq!(span(850.0), "850 ns");
        assert_eq!(span(999.7), "1.00 µs");
        assert_eq!(span(3_410_000.0), "3.41 ms");
        assert_eq!(span(999_700.0), "1.00 ms");
        assert_eq!(span(12_340_000_000.0), "12.3 s");
        assert_eq!(span(245e9), "4 min 05 s");
        assert_eq!(length(10_000_000_000), "10 s");
        assert_eq!(length(500_000_000), "500 ms");
        assert_eq!(rough(33_040_000_000), "33 s");
        assert_eq!(bytes(4_070.0), "4.07 KB");
        assert_eq!(bytes(128.0), "128 B");
        assert_eq!(bits(1e9), "1 Gbit/s");
        assert_eq!(share(0.384), "38 %");
        assert_eq!(share(0.004), "0.4 %");
        assert_eq!(share(0.0), "0 %");
        assert_eq!(share(1e-9), "<0.001 %");
        assert_eq!(elasticity(-0.001), "0.00");
        assert_eq!(signed_share(-0.012), "−1.2 %");
        assert_eq!(signed_share(0.0001), "0 %");
        assert_eq!(signed_share(0.254), "+25 %");
        assert_eq!(about(74_074.0, Some((71_900.0, 76_300.0))), "74,000");
        assert_eq!(about(61_889.0, None), "62,000");
        assert_eq!(about(108_960.0, None), "110,000");
        assert_eq!(about(8.2, None), "8.2");
    }

    #[test]
    fn what_is_not_finite_is_unknown() {
        for shown in [
            amount(f64::NAN),
            span(f64::INFINITY),
            bytes(f64::NAN),
            bits(-1.0),
            share(f64::NAN),
            factor(f64::NEG_INFINITY),
            elasticity(f64::NAN),
        ] {
            assert_eq!(shown, UNKNOWN);
        }
    }

    proptest! {
        #[test]
        fn every_number_is_short(value in proptest::num::f64::ANY) {
            for shown in [
                amount(value), span(value), bytes(value), bits(value), share(value),
                factor(value), elasticity(value), signed_share(value), fixed(value, 3),
                about(value, None), about(value, Some((0.0, value))),
            ] {
                prop_assert!(shown.chars().count() <= 24, "{shown}");
            }
        }
    }
}
