//! The wall clock as folders and records write it. Only names and labels come from it;
//! no duration does.

use std::time::{SystemTime, UNIX_EPOCH};

/// `20261120T140211Z`: sorts by time, fits a file name.
pub fn utc_compact(at: SystemTime) -> String {
    let t = Civil::of(at);
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}Z",
        t.year, t.month, t.day, t.hour, t.minute, t.second
    )
}

/// `2026-11-20T14:02:11.042Z`, RFC 3339.
pub fn utc_rfc3339(at: SystemTime) -> String {
    let t = Civil::of(at);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        t.year, t.month, t.day, t.hour, t.minute, t.second, t.millis
    )
}

struct Civil {
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    millis: u32,
}

impl Civil {
    /// Days to a date as in Howard Hinnant's "chrono-Compatible Low-Level Date
    /// Algorithms", `civil_from_days`. Before 1970 counts as 1970.
    fn of(at: SystemTime) -> Civil {
        let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = since.as_secs();
        let days = seconds / 86_400 + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 {
            march_month + 3
        } else {
            march_month - 9
        };
        Civil {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * march_month + 2) / 5 + 1,
            hour: seconds / 3_600 % 24,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            millis: since.subsec_millis(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn instants_read_as_a_calendar_says() {
        // From `date -u -d @N +%FT%TZ`.
        for (seconds, date) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_795_183_331, "2026-11-20T14:02:11.000Z"),
            (4_107_542_399, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc_rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), date);
        }
        let at = UNIX_EPOCH + Duration::from_millis(1_795_183_331_042);
        assert_eq!(utc_compact(at), "20261120T140211Z");
        assert_eq!(utc_rfc3339(at), "2026-11-20T14:02:11.042Z");
    }
}
