//! Which connections are to be opened, and when: those that wait to be, and those that failed and back off.
//!
//! What this is not: it opens none. A connection is in one place at a time: it waits here, backs off here, or is
//! the lifecycle's.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use wallfinder_wire::random::mixed;

/// Connection attempts of one worker under way at once: more overflow a server's backlog.
pub(crate) const CONNECTING_MAX: usize = 256;
/// First and longest pause before a connection is tried again.
pub(super) const BACKOFF_FIRST_NS: u64 = 5_000_000;
pub(super) const BACKOFF_LONGEST_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Dialling {
    waiting: VecDeque<u32>,
    /// Attempts under way.
    connecting: usize,
    /// Connections to be tried again, by time.
    backing_off: BinaryHeap<Reverse<(u64, u32)>>,
    randomness: u64,
}

impl Dialling {
    /// The first `opened` of so many connections wait to be opened.
    pub(super) fn new(connections: u32, opened: u32, seed: u64) -> Dialling {
        let mut waiting = VecDeque::with_capacity(connections as usize);
        waiting.extend(0..opened);
        Dialling {
            waiting,
            connecting: 0,
            backing_off: BinaryHeap::with_capacity(connections as usize + 1),
            randomness: mixed(seed),
        }
    }

    /// A connection is to be opened as soon as may be.
    pub(super) fn push(&mut self, conn: u32) {
        self.waiting.push_back(conn);
    }

    /// The next to be opened, unless too many are being opened.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        if self.connecting >= CONNECTING_MAX {
            return None;
        }
        self.waiting.pop_front()
    }

    /// An attempt is under way.
    pub(super) fn begins(&mut self) {
        self.connecting += 1;
    }

    /// An attempt has ended, well or not.
    pub(super) fn ends(&mut self) {
        self.connecting -= 1;
    }

    /// A connection that failed so often in a row is tried again after a while.
    pub(super) fn back_off(&mut self, conn: u32, failures_in_a_row: u32, now: u64) {
        let doubled = BACKOFF_FIRST_NS << (failures_in_a_row.saturating_sub(1)).min(10);
        let pause = doubled.min(BACKOFF_LONGEST_NS);
        self.randomness = mixed(self.randomness);
        // Between half and one and a half, so that a thousand do not come back together.
        let jittered = pause / 2 + self.randomness % pause;
        self.backing_off.push(Reverse((now + jittered, conn)));
    }

    /// When the next is to be tried again.
    #[inline]
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.backing_off.peek().map(|Reverse((at, _))| *at)
    }

    /// Those whose pause is over wait to be opened.
    #[inline]
    pub(super) fn end_pauses(&mut self, now: u64) {
        while let Some(Reverse((at, conn))) = self.backing_off.peek().copied()
            && at <= now
        {
            self.backing_off.pop();
            self.waiting.push_back(conn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_vary_by_half() {
        let mut dialling = Dialling::new(1, 0, 7);
        for failures in 1..40 {
            dialling.back_off(0, failures, 0);
            let pause = dialling.next_ns().unwrap();
            let doubled = BACKOFF_FIRST_NS << (failures - 1).min(10);
            let mean = doubled.min(BACKOFF_LONGEST_NS);
            assert!(
                (mean / 2..mean * 3 / 2).contains(&pause),
                "{failures}: {pause}"
            );
            dialling.end_pauses(pause - 1);
            assert_eq!(dialling.pop(), None);
            dialling.end_pauses(pause);
            assert_eq!(dialling.pop(), Some(0));
        }
    }

    #[test]
    fn no_more_are_opened_at_once_than_a_backlog_takes() {
        let mut dialling = Dialling::new(300, 300, 1);
        while dialling.pop().is_some() {
            dialling.begins();
        }
        assert_eq!(dialling.connecting, CONNECTING_MAX);
        dialling.ends();
        assert_eq!(dialling.pop(), Some(256));
    }
}
