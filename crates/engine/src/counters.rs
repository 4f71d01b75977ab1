//! What a worker counts: plain numbers in fixed places, copied when reported. Each is listed once, in [`Counters`].

use std::collections::BTreeMap;

use wallfinder_model::Failure;
use wallfinder_wire::WireError;

/// A class of failure, the wire's or the network's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The peer's bytes were wrong.
    Wire(WireError),
    /// Something else.
    Other(Failure),
}

/// How many classes there are.
pub const CLASSES: usize = WireError::ALL.len() + Failure::ALL.len();

impl Class {
    /// Position in arrays of counters.
    #[inline]
    pub fn index(self) -> usize {
        match self {
            Class::Wire(error) => error as usize,
            Class::Other(failure) => WireError::ALL.len() + failure as usize,
        }
    }

    /// The name of the class at an index.
    pub fn name_at(index: usize) -> &'static str {
        match WireError::ALL.get(index) {
            Some(error) => error.class(),
            None => Failure::ALL[index - WireError::ALL.len()].class(),
        }
    }
}

/// A count of one or of several, as all counters are added and subtracted.
trait Count {
    const ZERO: Self;

    fn add(&mut self, other: &Self);

    fn subtract(&mut self, other: &Self);
}

macro_rules! count {
    ($($number:ty),*) => {
        $(impl Count for $number {
            const ZERO: $number = 0;

            fn add(&mut self, other: &$number) {
                *self += other;
            }

            fn subtract(&mut self, other: &$number) {
                *self -= other;
            }
        })*
    };
}

count!(u64, u128);

impl<const N: usize> Count for [u64; N] {
    const ZERO: [u64; N] = [0; N];

    fn add(&mut self, other: &[u64; N]) {
        for (into, from) in self.iter_mut().zip(other) {
            *into += from;
        }
    }

    fn subtract(&mut self, other: &[u64; N]) {
        for (into, from) in self.iter_mut().zip(other) {
            *into -= from;
        }
    }
}

/// How a counter changes between two copies: a total is subtracted, a gauge stays that of now.
macro_rules! since {
    (Total, $now:expr, $earlier:expr) => {
        $now.subtract($earlier)
    };
    (Gauge, $now:expr, $earlier:expr) => {
        let _ = $earlier;
    };
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $kind:ty = $change:ident,)*) => {
        /// Totals since the worker's start. Copied whole into each report.
        #[derive(Debug, Clone)]
        pub struct Counters {
            $($(#[$doc])* pub $name: $kind,)*
        }

        impl Default for Counters {
            fn default() -> Counters {
                Counters {
                    $($name: Count::ZERO,)*
                }
            }
        }

        impl Counters {
            /// Adds another worker's totals.
            pub fn add(&mut self, other: &Counters) {
                $(self.$name.add(&other.$name);)*
            }

            /// What came since an earlier copy. `in_flight` and `waiting_again` stay those of now.
            pub fn since(&self, earlier: &Counters) -> Counters {
                let mut change = self.clone();
                $(since!($change, change.$name, &earlier.$name);)*
                change
            }
        }
    };
}

counters! {
    /// Requests that were to start: issued, or waiting for a connection in an open loop.
    scheduled: u64 = Total,
    /// Requests handed to a connection.
    issued: u64 = Total,
    /// Good answers.
    answered: u64 = Total,
    /// Failures by [`Class::index`].
    failed: [u64; CLASSES] = Total,
    /// Connection attempts that failed, by [`Class::index`].
    connect_failed: [u64; CLASSES] = Total,
    /// Connections opened.
    connects: u64 = Total,
    /// Answers by status, 0..=599; others stand at 0.
    statuses: [u64; 600] = Total,
    /// Bytes read.
    bytes_in: u64 = Total,
    /// Bytes written.
    bytes_out: u64 = Total,
    /// Body bytes of good answers.
    body_bytes: u64 = Total,
    /// What those came to that were decoded.
    decoded_bytes: u64 = Total,
    /// Messages of good answers, where the protocol has several in one.
    messages: u64 = Total,
    /// Of those that failed as timeouts: requests that were never sent.
    expired_unsent: u64 = Total,
    /// Of those that failed as timeouts: requests that the worker itself may have made late.
    late_by_client: u64 = Total,
    /// Requests sent again, for their server had not processed them.
    resent: u64 = Total,
    /// Of these, those that wait now to be sent again: scheduled, and not in flight.
    waiting_again: u64 = Gauge,
    /// Requests in flight now.
    in_flight: u64 = Gauge,
    /// Requests in flight, summed over time: request-nanoseconds.
    in_flight_area: u128 = Total,
    /// Waits for events.
    waits: u64 = Total,
    /// Events handled.
    events: u64 = Total,
    /// Waits for several answers together.
    batching_waits: u64 = Total,
    /// How long these waits could be longer for it, summed over them.
    batching_ns: u64 = Total,
    /// Time spent polling for nothing, before requests that were about to start.
    polled_ns: u64 = Total,
    /// Time spun, because the worker's speed was squeezed.
    spun_ns: u64 = Total,
}

impl Counters {
    /// Failures of every class.
    pub fn failed_total(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Connections that could not be made, of every class.
    pub fn connect_failed_total(&self) -> u64 {
        self.connect_failed.iter().sum()
    }

    /// Requests that should have started and were not yet handed to a connection nor given up: asserts that there are no more outcomes than requests.
    pub fn backlog(&self) -> u64 {
        let gone = self.answered + self.failed_total() + self.in_flight;
        assert!(gone <= self.scheduled, "more outcomes than requests");
        self.scheduled - gone
    }

    /// Counts that are not zero, by the class's name.
    pub fn named(counts: &[u64; CLASSES]) -> BTreeMap<String, u64> {
        counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| (Class::name_at(index).to_owned(), *count))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_place_and_a_name_of_its_own() {
        let mut names: Vec<_> = (0..CLASSES).map(Class::name_at).collect();
        assert_eq!(names[Class::Wire(WireError::H1Length).index()], "h1.length");
        assert_eq!(
            names[Class::Other(Failure::NetRefused).index()],
            "net.refused"
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CLASSES);
    }

    #[test]
    fn since_and_add_undo_each_other() {
        let mut first = Counters::default();
        (first.scheduled, first.answered, first.bytes_in) = (10, 8, 900);
        first.failed[3] = 1;
        first.statuses[200] = 8;
        let mut second = first.clone();
        (second.scheduled, second.answered, second.in_flight) = (30, 25, 4);
        second.failed[3] = 1;
        let mut sum = first.clone();
        sum.add(&second.since(&first));
        assert_eq!(sum.scheduled, second.scheduled);
        assert_eq!(sum.answered, second.answered);
        assert_eq!(second.backlog(), 0);
    }
}
