//! When a worker must look for requests past their deadline, and whose lateness it was.
//!
//! What this is not: the look itself, which is the worker's. [`Deadlines`] knows the earliest instant at
//! which anything can be late, so that a load whose requests are answered in time is hardly ever looked
//! through. [`Turn`] bounds how long an answer may have been there before the worker read it.

/// Shortest time between two looks, and what each place for a request adds to it: where requests expire all
/// the time, looks take at most a few percent of the worker.
const GAP_NS: u64 = 500_000;
const GAP_FOR_EACH_NS: u64 = 50;
/// A request that the worker sent so late had this part of its deadline taken by the worker.
const TAKEN_PART: u64 = 10;

/// The earliest deadline of a worker's requests and connection attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    timeout_ns: u64,
    gap_ns: u64,
    not_before_ns: u64,
    next_ns: u64,
}

impl Deadlines {
    pub(crate) fn new(timeout_ns: u64, slots: usize) -> Deadlines {
        Deadlines {
            timeout_ns,
            gap_ns: GAP_NS + slots as u64 * GAP_FOR_EACH_NS,
            not_before_ns: 0,
            next_ns: u64::MAX,
        }
    }

    /// When to look next, by the monotonic clock; `u64::MAX` while nothing can be late.
    #[inline]
    pub(crate) fn next_ns(&self) -> u64 {
        self.next_ns.max(self.not_before_ns)
    }

    /// A request with this intended start is under way.
    #[inline]
    pub(crate) fn watch(&mut self, intended_ns: u64) {
        self.watch_until(
            intended_ns
                .saturating_add(self.timeout_ns)
                .saturating_add(1),
        );
    }

    /// Something is late from this instant on.
    #[inline]
    pub(crate) fn watch_until(&mut self, late_ns: u64) {
        self.next_ns = self.next_ns.min(late_ns);
    }

    /// A look begins: what it finds under way is to be watched anew.
    pub(crate) fn look(&mut self, now: u64) {
        self.not_before_ns = now + self.gap_ns;
        self.next_ns = u64::MAX;
    }

    /// Whether a request is past its deadline.
    #[inline]
    pub(crate) fn is_late(&self, intended_ns: u64, now: u64) -> bool {
        now.saturating_sub(intended_ns) > self.timeout_ns
    }

    /// Whether an answer that is late would not have been, had the worker been quicker by so much.
    pub(crate) fn own_doing(&self, intended_ns: u64, now: u64, own_ns: u64) -> bool {
        !self.is_late(intended_ns, now.saturating_sub(own_ns))
    }

    /// Whether a request without an answer was sent so late that it lacked the time for one.
    pub(crate) fn sent_too_late(&self, sent_late_ns: u64) -> bool {
        sent_late_ns >= self.timeout_ns / TAKEN_PART && sent_late_ns > 0
    }
}

/// One turn of a worker's loop, by the clock readings that it makes anyway.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turn {
    /// When the worker began to read what the last wait brought.
    read_ns: u64,
    /// From then on until it asked the kernel again.
    away_ns: u64,
    /// How long completions may have been kept back in the wait.
    kept_back_ns: u64,
    /// Nothing of this turn was read yet.
    unread: bool,
}

impl Turn {
    /// The worker asks the kernel for events, which may keep them back for so long.
    #[inline]
    pub(crate) fn asks(&mut self, now: u64, kept_back_ns: u64) {
        if self.read_ns > 0 {
            self.away_ns = now.saturating_sub(self.read_ns);
        }
        self.kept_back_ns = kept_back_ns;
        self.unread = true;
    }

    /// It reads an event.
    #[inline]
    pub(crate) fn reads(&mut self, now: u64) {
        if self.unread {
            self.unread = false;
            self.read_ns = now;
        }
    }

    /// The wait brought nothing that was read: whatever comes next came after it.
    #[inline]
    pub(crate) fn ends(&mut self, now: u64) {
        self.reads(now);
    }

    /// How long at the most what is read now was there before: since the worker last asked the kernel and
    /// was told all there was.
    pub(crate) fn unread_for_ns(&self, now: u64) -> u64 {
        now.saturating_sub(self.read_ns) + self.away_ns + self.kept_back_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_look_is_when_the_earliest_is_late() {
        let mut deadlines = Deadlines::new(1_000_000, 0);
        assert_eq!(deadlines.next_ns(), u64::MAX);
        deadlines.watch(5_000_000);
        deadlines.watch(4_000_000);
        deadlines.watch(6_000_000);
        assert_eq!(deadlines.next_ns(), 5_000_001);
        assert!(!deadlines.is_late(4_000_000, 5_000_000));
        assert!(deadlines.is_late(4_000_000, 5_000_001));
    }

    #[test]
    fn looks_keep_a_distance_and_forget_what_they_saw() {
        let mut deadlines = Deadlines::new(1_000, 100);
        deadlines.watch(0);
        deadlines.look(10_000_000);
        assert_eq!(deadlines.next_ns(), u64::MAX);
        deadlines.watch(10_000_000);
        assert_eq!(deadlines.next_ns(), 10_000_000 + GAP_NS + 5_000);
    }

    #[test]
    fn a_deadline_beyond_the_clock_is_never_reached() {
        let mut deadlines = Deadlines::new(u64::MAX, 1);
        deadlines.watch(7);
        assert_eq!(deadlines.next_ns(), u64::MAX);
        assert!(!deadlines.is_late(0, u64::MAX));
    }

    #[test]
    fn what_the_worker_did_meanwhile_is_its_own_lateness() {
        let mut turn = Turn::default();
        turn.asks(1_000, 0);
        turn.reads(2_000);
        turn.reads(2_500);
        // 500 in this turn, and none before the first wait.
        assert_eq!(turn.unread_for_ns(2_500), 500);
        turn.asks(9_000, 40);
        turn.reads(9_100);
        // It was away for 7,000, and the wait kept 40 back.
        assert_eq!(turn.unread_for_ns(9_200), 100 + 7_000 + 40);
        turn.asks(9_300, 0);
        turn.ends(20_000);
        turn.asks(20_010, 0);
        turn.reads(20_020);
        assert_eq!(turn.unread_for_ns(20_020), 10);
    }

    #[test]
    fn an_answer_is_late_by_the_worker_where_its_share_decides() {
        let deadlines = Deadlines::new(1_000, 0);
        assert!(deadlines.own_doing(0, 1_200, 200));
        assert!(!deadlines.own_doing(0, 1_200, 199));
        assert!(deadlines.sent_too_late(100));
        assert!(!deadlines.sent_too_late(99));
    }
}
