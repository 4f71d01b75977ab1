//! Points in time as logs write them, in nanoseconds since 1970.

use chrono::DateTime;

/// A stamp, and whether it is of whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) at_ns: u64,
    pub(super) is_coarse: bool,
}

/// `10/Oct/2000:13:55:36 -0700`, `2000-10-10T13:55:36.123Z`, `971211336.123`, or milliseconds.
pub(super) fn stamp(text: &str) -> Option<Stamp> {
    let text = text.trim().trim_matches(['[', ']']);
    if let Some(at_ns) = since_1970(text) {
        return Some(Stamp {
            at_ns,
            is_coarse: !text.contains('.') && text.len() <= 11,
        });
    }
    let parsed = DateTime::parse_from_str(text, "%d/%b/%Y:%H:%M:%S %z")
        .or_else(|_| DateTime::parse_from_rfc3339(text))
        .or_else(|_| DateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f%z"))
        .ok()?;
    let at_ns = u64::try_from(parsed.timestamp_nanos_opt()?).ok()?;
    let has_part = text.rsplit_once(':').is_some_and(|_| text.contains('.'));
    Some(Stamp {
        at_ns,
        is_coarse: !has_part,
    })
}

/// A number of seconds since 1970; of milli-, micro- or nanoseconds where it would else be beyond the year 5138.
fn since_1970(text: &str) -> Option<u64> {
    let value: f64 = text.parse().ok()?;
    let scale = match value {
        value if value < 1e11 => 1.0,
        value if value < 1e14 => 1e3,
        value if value < 1e17 => 1e6,
        _ => 1e9,
    };
    nanos(value / scale)
}

/// A length in seconds, in nanoseconds; none that is longer than five centuries, which 64 bits hold with room for more.
pub(super) fn nanos(seconds: f64) -> Option<u64> {
    let is_sound = (0.0..1.6e10).contains(&seconds);
    // Kept to the microsecond: more is not in such a number.
    is_sound.then(|| (seconds * 1e6).round() as u64 * 1_000)
}

/// The same, as it is written.
pub(super) fn seconds(text: &str) -> Option<u64> {
    nanos(text.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_instant_is_written_in_many_ways() {
        let at_ns = 971_211_336_000_000_000;
        for (text, part_ns, is_coarse) in [
            ("[10/Oct/2000:13:55:36 -0700]", 0, true),
            ("2000-10-10T20:55:36Z", 0, true),
            ("2000-10-10T20:55:36.250Z", 250_000_000, false),
            ("2000-10-10T22:55:36.250+02:00", 250_000_000, false),
            ("971211336", 0, true),
            ("971211336.250", 250_000_000, false),
            ("971211336250", 250_000_000, false),
            ("971211336250000", 250_000_000, false),
            ("971211336250000000", 250_000_000, false),
        ] {
            let want = Stamp {
                at_ns: at_ns + part_ns,
                is_coarse,
            };
            assert_eq!(stamp(text), Some(want), "{text}");
        }
        for none in ["yesterday", "-1", "1e300", "nan", "99999999999"] {
            assert_eq!(stamp(none), None, "{none}");
        }
    }
}
