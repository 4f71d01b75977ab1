//! Numbers as tools print them for people: `12.3k`, `1.28ms`, `22.77MB`.

/// A number with its unit attached, such as `424.56us`.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let is_number = |c: char| c.is_ascii_digit() || c == '.' || c == '-';
    let end = text.find(|c: char| !is_number(c)).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some((number, text[end..].trim()))
}

/// Nanoseconds of `12us`, `1.28ms`, `2.00s`, `1.5m`, `2h`.
pub(super) fn nanos(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" | "secs" | "" => 1e9,
        "m" => 60e9,
        "h" => 3600e9,
        _ => return None,
    };
    Some(number * factor)
}

/// Bytes of `22.77MB`, where a K is 1024.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "B" | "" => 1.0,
        "KB" | "K" => 1024.0,
        "MB" | "M" => 1024.0 * 1024.0,
        "GB" | "G" => 1024.0 * 1024.0 * 1024.0,
        "TB" | "T" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((number * factor) as u64)
}

/// The number at the start of a text: `50490.16`, `101164 requests`.
pub(super) fn number(text: &str) -> Option<f64> {
    Some(split(text.split_ascii_whitespace().next()?)?.0)
}

/// A whole number at the start of a text.
pub(super) fn count(text: &str) -> Option<u64> {
    let word = text.split_ascii_whitespace().next()?;
    word.trim_end_matches([',', ':']).parse().ok()
}

/// What stands before `label` in `… 3492 label, …`.
pub(super) fn count_before(text: &str, label: &str) -> Option<u64> {
    let at = text.find(label)?;
    text[..at]
        .split_ascii_whitespace()
        .next_back()?
        .parse()
        .ok()
}

/// What stands after `label` in `… label 3492, …`.
pub(super) fn count_after(text: &str, label: &str) -> Option<u64> {
    let at = text.find(label)? + label.len();
    count(&text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_numbers_read_back() {
        assert_eq!(nanos("424.56us"), Some(424_560.0));
        assert_eq!(nanos("2.00s"), Some(2e9));
        assert_eq!(nanos("-nan"), None);
        assert_eq!(nanos("5parsecs"), None);
        assert_eq!(bytes("11.36MB"), Some((11.36 * 1_048_576.0) as u64));
        assert_eq!(number("50490.16"), Some(50490.16));
        assert_eq!(number("NaN secs"), None);
        assert_eq!(
            count_after("connect 0, read 3492, write 0", "read "),
            Some(3492)
        );
        assert_eq!(count_before("10 total, 9 started", " started"), Some(9));
        assert_eq!(count("99999999999999999999999"), None);
    }
}
