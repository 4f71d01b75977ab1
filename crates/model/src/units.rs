//! Durations, rates and sizes as users write them: `500ms`, `10k`, `64KiB`.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A span of time in whole nanoseconds.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// One second.
    pub const SECOND: Nanos = Nanos(1_000_000_000);

    /// Whole seconds.
    pub const fn from_secs(secs: u64) -> Nanos {
        Nanos(secs * 1_000_000_000)
    }

    /// Whole milliseconds.
    pub const fn from_millis(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    /// Seconds as a fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// Events per second; finite and above zero when parsed.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Rate(pub f64);

/// A count of bytes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Bytes(pub u64);

/// A value that is not of the form asked for; the message says what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadUnit(pub String);

impl fmt::Display for BadUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadUnit {}

/// Splits `12.5ms` into its number and its suffix. The number must be finite and not negative.
fn split_number<'t>(text: &'t str, form: &str) -> Result<(f64, &'t str), BadUnit> {
    let text = text.trim();
    let end = text
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(text.len());
    let bad = || BadUnit(format!("`{text}` is not {form}"));
    let number: f64 = text[..end].replace('_', "").parse().map_err(|_| bad())?;
    if !number.is_finite() {
        return Err(bad());
    }
    Ok((number, text[end..].trim()))
}

impl FromStr for Nanos {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Nanos, BadUnit> {
        const FORM: &str = "a duration such as 500ms, 30s, 2m or 1h";
        let (number, suffix) = split_number(text, FORM)?;
        let unit_ns = match suffix {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" | "" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            _ => return Err(BadUnit(format!("`{text}` is not {FORM}"))),
        };
        let ns = number * unit_ns;
        if ns > 365.0 * 24.0 * 3600e9 {
            return Err(BadUnit(format!("`{text}` is longer than a year")));
        }
        Ok(Nanos(ns.round() as u64))
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..=999 => (ns, "ns"),
            1_000..=999_999 => (ns / 1e3, "µs"),
            1_000_000..=999_999_999 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        let digits = if unit == "ns" || value >= 100.0 {
            0
        } else if value >= 10.0 {
            1
        } else {
            2
        };
        let shown = format!("{value:.digits$}");
        let shown = if shown.contains('.') {
            shown.trim_end_matches('0').trim_end_matches('.')
        } else {
            &shown
        };
        f.pad(&format!("{shown} {unit}"))
    }
}

/// `k`, `M`, `G` as powers of a thousand.
fn thousands(suffix: &str) -> Option<f64> {
    match suffix {
        "" => Some(1.0),
        "k" | "K" => Some(1e3),
        "m" | "M" => Some(1e6),
        "g" | "G" => Some(1e9),
        _ => None,
    }
}

impl FromStr for Rate {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Rate, BadUnit> {
        const FORM: &str = "a rate per second such as 500, 10k or 1.5M";
        let (number, suffix) = split_number(text, FORM)?;
        let suffix = suffix.strip_suffix("/s").unwrap_or(suffix);
        let unit = thousands(suffix).ok_or_else(|| BadUnit(format!("`{text}` is not {FORM}")))?;
        let rate = number * unit;
        if rate <= 0.0 || rate > 1e10 {
            return Err(BadUnit(format!(
                "`{text}` must be above 0 and at most 10G per second"
            )));
        }
        Ok(Rate(rate))
    }
}

/// A whole count such as `10k` or `1M`.
pub fn parse_count(text: &str) -> Result<u64, BadUnit> {
    const FORM: &str = "a whole count such as 500, 10k or 1M";
    let (number, suffix) = split_number(text, FORM)?;
    let unit = thousands(suffix).ok_or_else(|| BadUnit(format!("`{text}` is not {FORM}")))?;
    let count = number * unit;
    if count.fract() != 0.0 || count > 1e15 {
        return Err(BadUnit(format!("`{text}` is not {FORM}")));
    }
    Ok(count as u64)
}

impl FromStr for Bytes {
    type Err = BadUnit;

    fn from_str(text: &str) -> Result<Bytes, BadUnit> {
        const FORM: &str = "a size such as 512, 64KiB or 1MB";
        let (number, suffix) = split_number(text, FORM)?;
        let unit = match suffix {
            "" | "B" => 1.0,
            "k" | "kB" | "KB" => 1e3,
            "KiB" | "Ki" => 1024.0,
            "M" | "MB" => 1e6,
            "MiB" | "Mi" => 1024.0 * 1024.0,
            "G" | "GB" => 1e9,
            "GiB" | "Gi" => 1024.0 * 1024.0 * 1024.0,
            _ => return Err(BadUnit(format!("`{text}` is not {FORM}"))),
        };
        let bytes = number * unit;
        if bytes.fract() != 0.0 || bytes > 1e15 {
            return Err(BadUnit(format!("`{text}` is not {FORM}")));
        }
        Ok(Bytes(bytes as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        let shown = match self.0 {
            0..=9_999 => format!("{} B", self.0),
            10_000..=999_999 => format!("{:.1} KB", bytes / 1e3),
            1_000_000..=999_999_999 => format!("{:.1} MB", bytes / 1e6),
            _ => format!("{:.2} GB", bytes / 1e9),
        };
        f.pad(&shown)
    }
}

impl Nanos {
    /// As it is written in files, with nothing lost: `10s`, `1500ms`.
    pub fn written(self) -> String {
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
        let whole = units.iter().find(|(ns, _)| self.0.is_multiple_of(*ns));
        match whole {
            Some((ns, unit)) => format!("{}{unit}", self.0 / ns),
            None => format!("{}ns", self.0),
        }
    }
}

/// What a file may give as a number or as people write it.
struct Loose<T>(PhantomData<T>);

impl<T: FromStr<Err = BadUnit>> Visitor<'_> for Loose<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, or a text such as \"10k\"")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// The same within lists and options.
struct Loosely<T>(T);

impl<'de, T: FromStr<Err = BadUnit>> Deserialize<'de> for Loosely<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Loosely<T>, D::Error> {
        from.deserialize_any(Loose(PhantomData)).map(Loosely)
    }
}

/// A span as a text.
pub(crate) mod text {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(span: &Nanos, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&span.written())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}

/// The same, where there is one.
pub(crate) mod text_or_none {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(span: &Option<Nanos>, to: S) -> Result<S::Ok, S::Error> {
        span.map(Nanos::written).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Nanos>, D::Error> {
        let text = Option::<String>::deserialize(from)?;
        let span = text.map(|text| text.parse().map_err(de::Error::custom));
        span.transpose()
    }
}

/// A rate, where there is one, as a number or as people write it.
pub(crate) mod loose_rate {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(rate: &Option<Rate>, to: S) -> Result<S::Ok, S::Error> {
        rate.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Rate>, D::Error> {
        let rate = Option::<Loosely<Rate>>::deserialize(from)?;
        Ok(rate.map(|Loosely(rate)| rate))
    }
}

/// Several rates.
pub(crate) mod loose_rates {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(rates: &[Rate], to: S) -> Result<S::Ok, S::Error> {
        rates.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Rate>, D::Error> {
        let rates = Vec::<Loosely<Rate>>::deserialize(from)?;
        Ok(rates.into_iter().map(|Loosely(rate)| rate).collect())
    }
}

/// A count of bytes, where there is one, as a number or as people write it.
pub(crate) mod loose_bytes {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(
        bytes: &Option<Bytes>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Bytes>, D::Error> {
        let bytes = Option::<Loosely<Bytes>>::deserialize(from)?;
        Ok(bytes.map(|Loosely(bytes)| bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_read_as_users_write_them() {
        for (text, ns) in [
            ("500ms", 500_000_000),
            ("30s", 30_000_000_000),
            ("2m", 120_000_000_000),
            ("1.5s", 1_500_000_000),
            ("250us", 250_000),
            ("10", 10_000_000_000),
        ] {
            assert_eq!(text.parse::<Nanos>(), Ok(Nanos(ns)), "{text}");
        }
        for text in ["", "ms", "-1s", "1x", "nan", "inf", "1e400s", "1..2s"] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }

    #[test]
    fn counts_rates_and_sizes_take_their_suffixes() {
        assert_eq!(parse_count("10k"), Ok(10_000));
        assert_eq!(parse_count("1.5M"), Ok(1_500_000));
        assert!(parse_count("0.5").is_err());
        assert_eq!("20k".parse::<Rate>(), Ok(Rate(20_000.0)));
        assert!("0".parse::<Rate>().is_err());
        assert_eq!("64KiB".parse::<Bytes>(), Ok(Bytes(65_536)));
        assert!("1XB".parse::<Bytes>().is_err());
    }

    #[test]
    fn durations_print_short() {
        assert_eq!(Nanos(950).to_string(), "950 ns");
        assert_eq!(Nanos(1_500).to_string(), "1.5 µs");
        assert_eq!(Nanos(3_400_000).to_string(), "3.4 ms");
        assert_eq!(Nanos(120_000_000_000).to_string(), "120 s");
        assert_eq!(Nanos(100_000_000).to_string(), "100 ms");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,20}") {
            let _ = text.parse::<Nanos>();
            let _ = text.parse::<Rate>();
            let _ = text.parse::<Bytes>();
            let _ = parse_count(&text);
        }
    }
}
