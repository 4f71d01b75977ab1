//! One connection as its worker sees it, and the requests that a closed loop may issue on it.
//!
//! ```text
//!   Closed ──connect──► Connecting ──► Greeting ──► Open
//!     ▲                     │              │          │
//!     └──── back-off ◄──────┴──────────────┴──────────┘   or at rest, until there is something to send
//! ```

use std::collections::VecDeque;

use super::grant::Grant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Waits to be connected, for the end of a back-off, or rests.
    Closed,
    Connecting,
    /// Connected, and its wire not ready for requests yet.
    Greeting,
    Open,
}

/// The send of a connection that is outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sending {
    #[default]
    Nothing,
    /// Of the payload block.
    Block,
    /// Of bytes that its wire wrote.
    Own,
    /// The same, and there is nothing to be done when it ends.
    Unawaited,
}

#[derive(Debug)]
pub(super) struct Connection<W> {
    pub(super) wire: W,
    pub(super) phase: Phase,
    /// While a send is outstanding nothing may be issued.
    pub(super) sending: Sending,
    /// The requests that a closed loop may issue here, the oldest first.
    pub(super) granted: VecDeque<Grant>,
    /// When the last answer ended or the connection opened.
    pub(super) last_done_ns: u64,
    /// When the attempt began, greeting included.
    pub(super) connecting_since_ns: u64,
    /// Answers on this connection since it opened.
    pub(super) answered: u64,
    /// Answers in the window, whether it was opened anew meanwhile or not.
    pub(super) window_answers: u64,
    /// Attempts in a row that brought no answer.
    pub(super) failures_in_a_row: u32,
    /// Whether the first attempt has ended.
    pub(super) tried: bool,
    /// Closed, and opened when it has something to send: a server that serves one connection at a time
    /// with each of its threads would wait on it for what is not to be sent.
    pub(super) resting: bool,
}

impl<W> Connection<W> {
    /// A closed one, with leave for so many requests. A spare one rests until it is asked for.
    pub(super) fn new(wire: W, granted: usize, spare: bool) -> Connection<W> {
        // A step of a session is granted in an open loop too.
        let mut leave = VecDeque::with_capacity(granted.max(1));
        leave.resize(granted, Grant::default());
        Connection {
            wire,
            phase: Phase::Closed,
            sending: Sending::Nothing,
            granted: leave,
            last_done_ns: 0,
            connecting_since_ns: 0,
            answered: 0,
            window_answers: 0,
            failures_in_a_row: 0,
            tried: spare,
            resting: spare,
        }
    }

    /// Whether it is being opened, greeting included.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self.phase, Phase::Connecting | Phase::Greeting)
    }

    #[inline]
    pub(super) fn after_answer(&mut self, now: u64) {
        self.answered += 1;
        self.window_answers += 1;
        self.last_done_ns = now;
    }

    /// Leave for `count` more requests with one intended start.
    #[inline]
    pub(super) fn grant(&mut self, count: u32, intended_ns: u64) {
        for _ in 0..count {
            self.granted.push_back(Grant::new(intended_ns));
        }
    }

    /// Leave for a request that was sent before, in its place by age behind those that are held back.
    pub(super) fn grant_again(&mut self, grant: Grant, held: u32) {
        let behind = (held as usize).min(self.granted.len());
        let older = |other: &Grant| other.intended_ns <= grant.intended_ns;
        let newer = self.granted.iter().skip(behind).take_while(|g| older(g));
        let at = behind + newer.count();
        self.granted.insert(at, grant);
    }

    /// Takes the oldest that is not held back.
    #[inline]
    pub(super) fn take_granted(&mut self, held: u32) -> Grant {
        let grant = match held {
            0 => self.granted.pop_front(),
            held => self.granted.remove(held as usize),
        };
        grant.expect("it was granted")
    }

    /// What was granted is meant to start at this instant, and not before.
    pub(super) fn start_granted_at(&mut self, now: u64) {
        for grant in self.granted.iter_mut().filter(|grant| grant.tries == 0) {
            grant.intended_ns = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_again_stands_by_its_age_behind_what_is_held_back() {
        let mut connection = Connection::new((), 0, false);
        for intended_ns in [1, 5, 9] {
            connection.grant(1, intended_ns);
        }
        let again = Grant {
            tries: 1,
            ..Grant::new(4)
        };
        connection.grant_again(again, 2);
        let starts: Vec<u64> = connection.granted.iter().map(|g| g.intended_ns).collect();
        assert_eq!(starts, [1, 5, 4, 9]);
        assert_eq!(connection.take_granted(2).tries, 1);
        assert_eq!(connection.take_granted(0).intended_ns, 1);
        connection.start_granted_at(20);
        assert!(connection.granted.iter().all(|g| g.intended_ns == 20));
    }
}
