//! The offset of another host's clock, from round trips.
//!
//! ```text
//!   here   ──●───────────────────●──      asked, answered
//!             ╲                 ╱
//!   there  ────╲───────●───────╱────      its clock, read in between
//! ```
//!
//! The other clock was read at some moment within the round trip, so half of the shortest one bounds the error,
//! whatever the way there and the way back took (Cristian 1989). Two crystals part by some millionths, so a round
//! trip of earlier counts with what they may have parted since. One that fits none of those before says that a clock
//! stood still, with its machine or alone: those before count no more.

use std::collections::VecDeque;

/// Round trips that are kept: some minutes at one each second.
const KEPT: usize = 300;
/// Clocks of two machines part by no more than this: 100 millionths.
const DRIFT_MAX: f64 = 100e-6;

/// A clock that moved by so much at once stood still.
const STOOD_STILL_NS: u64 = 50_000_000;

/// A round trip, by the monotonic clocks of both ends in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// When it was asked here.
    pub asked_ns: u64,
    /// What the other clock said.
    pub there_ns: u64,
    /// When the answer was here.
    pub answered_ns: u64,
}

impl RoundTrip {
    fn length_ns(self) -> u64 {
        self.answered_ns.saturating_sub(self.asked_ns)
    }

    fn offset(self, now_ns: u64) -> Offset {
        let middle_ns = self.asked_ns.saturating_add(self.length_ns() / 2);
        // It was read no earlier than it was asked for.
        let parted = DRIFT_MAX * now_ns.abs_diff(self.asked_ns) as f64;
        Offset {
            // What the other clock says is anybody's word.
            ns: (self.there_ns as i64).saturating_sub(middle_ns as i64),
            error_ns: self
                .length_ns()
                .div_ceil(2)
                .saturating_add(parted.ceil() as u64),
        }
    }
}

/// How far the other clock is ahead, and what that may be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// Theirs less ours.
    pub ns: i64,
    /// Bound of the error, either way.
    pub error_ns: u64,
}

impl Offset {
    /// An instant here, by the other clock.
    pub fn there(self, here_ns: u64) -> u64 {
        here_ns.saturating_add_signed(self.ns)
    }

    /// An instant of the other clock, here.
    pub fn here(self, there_ns: u64) -> u64 {
        there_ns.saturating_add_signed(self.ns.saturating_neg())
    }
}

/// Round trips so far.
#[derive(Debug, Clone, Default)]
pub struct Offsets {
    trips: VecDeque<RoundTrip>,
    stepped_ns: Vec<i64>,
}

impl Offsets {
    /// One more.
    pub fn add(&mut self, trip: RoundTrip) {
        let seen = trip.offset(trip.answered_ns);
        let stepped = self.at(trip.answered_ns).map_or(0, |known| {
            let by_ns = seen.ns.saturating_sub(known.ns);
            let is_step = by_ns.unsigned_abs() > seen.error_ns.saturating_add(known.error_ns);
            if is_step { by_ns } else { 0 }
        });
        if stepped != 0 {
            self.trips.clear();
        }
        // Less may be a clock that is being corrected.
        if stepped.unsigned_abs() >= STOOD_STILL_NS {
            self.stepped_ns.push(stepped);
        }
        if self.trips.len() == KEPT {
            self.trips.pop_front();
        }
        self.trips.push_back(trip);
    }

    /// The best that is known at an instant here; `None` before the first.
    pub fn at(&self, now_ns: u64) -> Option<Offset> {
        let offsets = self.trips.iter().map(|trip| trip.offset(now_ns));
        offsets.min_by_key(|offset| offset.error_ns)
    }

    /// By how much the other clock moved against ours each time that one of the two stood still; ahead where ours did.
    pub fn stepped_ns(&self) -> &[i64] {
        &self.stepped_ns
    }

    /// The shortest round trip, in nanoseconds.
    pub fn round_trip_ns(&self) -> Option<u64> {
        self.trips.iter().map(|trip| trip.length_ns()).min()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    proptest! {
        /// A planted offset and drift, ways of any length: the truth is within the error that is told.
        #[test]
        fn the_truth_is_within_the_error(
            planted_ns in -1_000_000_000_000_i64..1_000_000_000_000,
            drift in -100e-6..100e-6_f64,
            ways in prop::collection::vec((1_000_u64..50_000_000, 1_000_u64..50_000_000), 1..100),
        ) {
            let start = 10_000 * SECOND;
            let there = |here_ns: u64| {
                let parted = (here_ns - start) as f64 * drift;
                here_ns.saturating_add_signed(planted_ns + parted as i64)
            };
            let mut offsets = Offsets::default();
            let mut now_ns = start;
            for (out, back) in ways {
                now_ns += SECOND;
                let trip = RoundTrip {
                    asked_ns: now_ns,
                    there_ns: there(now_ns + out),
                    answered_ns: now_ns + out + back,
                };
                now_ns += out + back;
                offsets.add(trip);
                let known = offsets.at(now_ns).unwrap();
                let truth = there(now_ns) as i64 - now_ns as i64;
                prop_assert!((known.ns - truth).unsigned_abs() <= known.error_ns + 1);
            }
        }
    }

    proptest! {
        /// Clocks that stand still now and then, with ways of any length: after the next round trip the truth is
        /// within the error, and what is no step is taken for none.
        #[test]
        fn a_clock_that_stood_still_is_noticed(
            ways in prop::collection::vec((1_000_u64..20_000_000, 1_000_u64..20_000_000), 4..60),
            steps in prop::collection::vec((0_usize..60, -20_000_000_000_i64..20_000_000_000), 0..4),
        ) {
            let mut ahead = 5_000_000_000_i64;
            let (mut offsets, mut now_ns) = (Offsets::default(), 100_000 * SECOND);
            let mut told = 0;
            for (nth, (out, back)) in ways.iter().enumerate() {
                let stepped: i64 = steps.iter().filter(|(at, _)| *at == nth).map(|(_, by)| by).sum();
                ahead += stepped;
                now_ns += SECOND;
                offsets.add(RoundTrip {
                    asked_ns: now_ns,
                    there_ns: (now_ns + out).saturating_add_signed(ahead),
                    answered_ns: now_ns + out + back,
                });
                now_ns += out + back;
                let known = offsets.at(now_ns).unwrap();
                // A step that is within the error of both cannot be told, and costs no more than that.
                let bound = known.error_ns + 20_000_001;
                prop_assert!((known.ns - ahead).unsigned_abs() <= bound);
                if stepped == 0 && steps.is_empty() {
                    prop_assert!(offsets.stepped_ns().is_empty());
                }
                if nth > 0 && stepped.unsigned_abs() > 100_000_000 {
                    prop_assert!(offsets.stepped_ns().len() > told, "{stepped}");
                }
                told = offsets.stepped_ns().len();
            }
        }
    }

    #[test]
    fn a_clock_may_say_what_it_likes() {
        let latest = i64::MAX.unsigned_abs();
        for there_ns in [0, latest, 1 << 63, (1 << 63) + 1, u64::MAX] {
            for asked_ns in [0, 1, latest] {
                let mut offsets = Offsets::default();
                let trip = |there_ns| RoundTrip {
                    asked_ns,
                    there_ns,
                    answered_ns: asked_ns,
                };
                offsets.add(trip(there_ns));
                let known = offsets.at(asked_ns).unwrap();
                if there_ns <= latest {
                    assert_eq!(known.there(asked_ns), there_ns);
                }
                let _ = known.here(there_ns);
                offsets.add(trip(SECOND));
                let known = offsets.at(asked_ns).unwrap();
                assert_eq!(known.there(asked_ns), SECOND);
            }
        }
    }

    #[test]
    fn the_shortest_of_late_round_trips_counts_until_clocks_may_have_parted() {
        let trip = |at: u64, length: u64| RoundTrip {
            asked_ns: at,
            there_ns: at + length / 2,
            answered_ns: at + length,
        };
        let mut offsets = Offsets::default();
        assert_eq!(offsets.at(0), None);
        offsets.add(trip(SECOND, 100_000));
        offsets.add(trip(2 * SECOND, 5_000_000));
        let error = |now: u64| offsets.at(now).unwrap().error_ns;
        assert!(error(2 * SECOND) < 200_000);
        assert!(error(60 * SECOND) > 2_000_000);
        assert_eq!(offsets.round_trip_ns(), Some(100_000));
    }
}
