//! The accounting identity: every request ends in exactly one way.

use wallfinder_model::record::Counts;

/// Both sides of the identity of [`Counts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// In flight when the window opened, and meant to start in it.
    pub came: i128,
    /// Answered, failed, grown in the backlog, in flight when the window closed, and unknown.
    pub went: i128,
}

impl Identity {
    /// Whether no request is missing and none is counted twice.
    pub fn holds(&self) -> bool {
        self.came == self.went
    }

    /// Requests unaccounted for; negative: counted twice.
    pub fn missing(&self) -> i128 {
        self.came - self.went
    }
}

/// Adds up both sides. Sums are wide, so no count overflows them.
pub fn check(counts: &Counts) -> Identity {
    let failed: i128 = counts.failed.values().map(|n| i128::from(*n)).sum();
    Identity {
        came: i128::from(counts.in_flight_start) + i128::from(counts.scheduled),
        went: i128::from(counts.answered)
            + failed
            + i128::from(counts.not_sent)
            + i128::from(counts.in_flight_end)
            + i128::from(counts.unknown),
    }
}

/// Requests that failed, however large the counts.
pub(crate) fn failed(counts: &Counts) -> u128 {
    counts.failed.values().map(|n| u128::from(*n)).sum()
}

/// Requests that failed, among answered and failed ones, 0..1.
pub fn error_share(counts: &Counts) -> f64 {
    let failed = failed(counts) as f64;
    let ended = failed + counts.answered as f64;
    if ended > 0.0 { failed / ended } else { 0.0 }
}

/// Failures of requests, and connections that could not be made: each of them is a request that
/// could not even be sent, and stands in no other count.
fn all_failures(counts: &Counts) -> impl Iterator<Item = (&str, u64)> {
    let maps = counts.failed.iter().chain(&counts.connect_failures);
    maps.map(|(class, count)| (class.as_str(), *count))
}

/// Failures, connections that could not be made among them, in all that ended, 0..1.
pub fn failure_share(counts: &Counts) -> f64 {
    share_of(counts, |_| true)
}

/// Of all that ended: failures that the load generator's own host is the reason of, 0..1.
pub(crate) fn local_share(counts: &Counts) -> f64 {
    share_of(counts, |class| class.starts_with("local."))
}

fn share_of(counts: &Counts, counts_in: impl Fn(&str) -> bool) -> f64 {
    let (mut of_them, mut ended) = (0.0, counts.answered as f64);
    for (class, count) in all_failures(counts) {
        ended += count as f64;
        if counts_in(class) {
            of_them += count as f64;
        }
    }
    if ended > 0.0 { of_them / ended } else { 0.0 }
}

/// The class that failed most, connections that could not be made among them.
pub fn worst_class(counts: &Counts) -> Option<&str> {
    worst_of(counts, "")
}

/// The same among classes that begin so.
pub(crate) fn worst_of<'c>(counts: &'c Counts, prefix: &str) -> Option<&'c str> {
    all_failures(counts)
        .filter(|(class, count)| *count > 0 && class.starts_with(prefix))
        .max_by_key(|(_, count)| *count)
        .map(|(class, _)| class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_request_and_a_doubled_one_are_told_apart() {
        let mut counts = Counts {
            scheduled: 10,
            answered: 9,
            in_flight_end: 1,
            ..Counts::default()
        };
        assert!(check(&counts).holds());
        counts.answered = 8;
        assert_eq!(check(&counts).missing(), 1);
        counts.answered = 11;
        assert_eq!(check(&counts).missing(), -2);
    }

    #[test]
    fn connections_that_could_not_be_made_are_failures() {
        let mut counts = Counts {
            answered: 900,
            ..Counts::default()
        };
        counts.failed.insert("net.closed.wait".into(), 20);
        counts.connect_failures.insert("net.refused".into(), 50);
        counts.connect_failures.insert("local.port".into(), 30);
        assert!((failure_share(&counts) - 0.1).abs() < 1e-9);
        assert!((local_share(&counts) - 0.03).abs() < 1e-9);
        assert!((error_share(&counts) - 20.0 / 920.0).abs() < 1e-9);
        assert_eq!(worst_class(&counts), Some("net.refused"));
        assert_eq!(worst_of(&counts, "local."), Some("local.port"));
        assert_eq!(worst_class(&Counts::default()), None);
    }

    #[test]
    fn counts_at_their_limits_do_not_overflow() {
        let mut counts = Counts {
            scheduled: u64::MAX,
            answered: u64::MAX,
            in_flight_start: u64::MAX,
            in_flight_end: u64::MAX,
            not_sent: i64::MIN,
            ..Counts::default()
        };
        counts.failed.insert("a".into(), u64::MAX);
        counts.failed.insert("b".into(), u64::MAX);
        assert!(!check(&counts).holds());
        assert!((error_share(&counts) - 2.0 / 3.0).abs() < 1e-9);
    }
}
