//! A message of which a part has passed. One of many megabytes takes its time, and as long as its bytes pass both ends
//! are there: neither gives the other up.
//!
//! Invariant: a message counts for [`WHOLE_WITHIN`] at the most, so that who sends byte by byte and never ends holds
//! nothing for ever. Time is handed in, in nanoseconds above 0.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a message may take from its first byte to its last: the longest that there may be, at 2.7 Mbit/s.
pub(crate) const WHOLE_WITHIN: Duration = Duration::from_secs(300);

/// When the bytes of one passed. One thread at a time tells of them, and any may ask.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    /// The first; 0: none is under way.
    since_ns: AtomicU64,
    /// The last so far.
    last_ns: AtomicU64,
}

impl Partial {
    /// Bytes passed, and more may follow.
    pub(crate) fn passed(&self, now_ns: u64) {
        self.last_ns.store(now_ns, Ordering::Release);
        if self.since_ns.load(Ordering::Relaxed) == 0 {
            self.since_ns.store(now_ns, Ordering::Release);
        }
    }

    /// It is whole.
    pub(crate) fn ended(&self) {
        self.since_ns.store(0, Ordering::Release);
    }

    /// When bytes of one that is under way passed last, where that was after this instant.
    pub(crate) fn passed_after(&self, after_ns: u64) -> Option<u64> {
        let since_ns = self.since_ns.load(Ordering::Acquire);
        let until_ns = since_ns.saturating_add(WHOLE_WITHIN.as_nanos() as u64);
        let last_ns = self.last_ns.load(Ordering::Acquire).min(until_ns);
        (since_ns > 0 && last_ns > after_ns).then_some(last_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_message_counts_while_its_bytes_pass() {
        let partial = Partial::default();
        assert_eq!(partial.passed_after(0), None, "there is none");
        for at in [100, 104, 108] {
            partial.passed(at * SECOND);
            assert_eq!(partial.passed_after(99 * SECOND), Some(at * SECOND));
        }
        assert_eq!(partial.passed_after(108 * SECOND), None, "nothing since");
        partial.ended();
        assert_eq!(partial.passed_after(0), None, "it is whole");
    }

    #[test]
    fn one_that_never_ends_counts_no_longer_than_the_longest_may_take() {
        let partial = Partial::default();
        let until = 100 + WHOLE_WITHIN.as_secs();
        for at in 100..=until + 40 {
            partial.passed(at * SECOND);
            let counts = at.min(until) * SECOND;
            assert_eq!(partial.passed_after(0), Some(counts), "{at}");
        }
        assert_eq!(partial.passed_after(until * SECOND), None);
        // The next begins anew.
        partial.ended();
        partial.passed((until + 50) * SECOND);
        let next = (until + 50) * SECOND;
        assert_eq!(partial.passed_after(until * SECOND), Some(next));
    }
}
