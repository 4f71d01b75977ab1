//! What wakes a worker that no event wakes.
//!
//! A table with one place for each [`Timer`]. It is filled anew before each wait from where the instants are
//! known (the schedule, the earliest deadline, the end of a back-off), so that none has to be taken back.

/// What a worker has to do at an instant, without any event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// The signals of the conductor are looked at.
    Signals,
    /// The schedule begins.
    Zero,
    /// The measured window opens or closes.
    Edge,
    /// A report is published.
    Publish,
    /// A request or a connection attempt is past its deadline.
    Deadline,
    /// A connection is tried again.
    Reconnect,
    /// A pause before a request of a closed loop ends.
    ThinkTime,
    /// A request of an open loop is sent again.
    Resend,
    /// A request of an open loop is to be sent.
    IntendedStart,
    /// Answers are not waited for any longer.
    DrainEnd,
}

const TIMERS: usize = Timer::DrainEnd as usize + 1;

/// Instants by the monotonic clock; `u64::MAX`: not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Timers {
    at_ns: [u64; TIMERS],
}

impl Timers {
    pub(super) const NONE: Timers = Timers {
        at_ns: [u64::MAX; TIMERS],
    };

    #[inline]
    pub(super) fn set(&mut self, timer: Timer, at_ns: u64) {
        self.at_ns[timer as usize] = at_ns;
    }

    /// Sets it where there is an instant.
    #[inline]
    pub(super) fn set_if(&mut self, timer: Timer, at_ns: Option<u64>) {
        if let Some(at_ns) = at_ns {
            self.set(timer, at_ns);
        }
    }

    /// The instant of the nearest; `u64::MAX` where none is set.
    #[inline]
    pub(super) fn nearest_ns(&self) -> u64 {
        self.at_ns
            .iter()
            .fold(u64::MAX, |nearest, at| nearest.min(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_of_those_that_are_set_is_told() {
        let mut timers = Timers::NONE;
        assert_eq!(timers.nearest_ns(), u64::MAX);
        timers.set(Timer::Publish, 700);
        timers.set_if(Timer::Reconnect, Some(300));
        timers.set_if(Timer::Resend, None);
        timers.set(Timer::Deadline, 500);
        assert_eq!(timers.nearest_ns(), 300);
    }
}
