//! What a worker counts: plain numbers in fixed places, copied when published.

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

/// Totals since the worker's start. Copied whole into each publication.
#[derive(Debug, Clone)]
pub struct Counters {
    /// Requests that became due: issued, or waiting for a connection in an open loop.
    pub scheduled: u64,
    /// Requests handed to a connection.
    pub issued: u64,
    /// Good answers.
    pub answered: u64,
    /// Failures by [`Class::index`].
    pub failed: [u64; CLASSES],
    /// Connection attempts that failed, by [`Class::index`].
    pub connect_failed: [u64; CLASSES],
    /// Connections opened.
    pub connects: u64,
    /// Answers by status, 0..=599; others stand at 0.
    pub statuses: [u64; 600],
    /// Bytes read.
    pub bytes_in: u64,
    /// Bytes written.
    pub bytes_out: u64,
    /// Body bytes of good answers.
    pub body_bytes: u64,
    /// What those came to that were decoded.
    pub decoded_bytes: u64,
    /// Messages of good answers, where the protocol has several in one.
    pub messages: u64,
    /// Of those that failed as timeouts: requests that were never sent.
    pub expired_unsent: u64,
    /// Of those that failed as timeouts: requests that the worker itself may have made late.
    pub late_by_client: u64,
    /// Requests sent again, for their server had not processed them.
    pub resent: u64,
    /// Of these, those that wait now to be sent again: scheduled, and not in flight.
    pub waiting_again: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Requests in flight, summed over time: request-nanoseconds.
    pub in_flight_area: u128,
    /// Waits for events.
    pub waits: u64,
    /// Events handled.
    pub events: u64,
    /// Waits in which answers were let gather.
    pub batching_waits: u64,
    /// How long they were let at the most, summed over these waits.
    pub batching_ns: u64,
    /// Time spent polling for nothing, before requests that were about to be due.
    pub polled_ns: u64,
    /// Time spun, because the worker's speed was squeezed.
    pub spun_ns: u64,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            scheduled: 0,
            issued: 0,
            answered: 0,
            failed: [0; CLASSES],
            connect_failed: [0; CLASSES],
            connects: 0,
            statuses: [0; 600],
            bytes_in: 0,
            bytes_out: 0,
            body_bytes: 0,
            decoded_bytes: 0,
            messages: 0,
            expired_unsent: 0,
            late_by_client: 0,
            resent: 0,
            waiting_again: 0,
            in_flight: 0,
            in_flight_area: 0,
            waits: 0,
            events: 0,
            batching_waits: 0,
            batching_ns: 0,
            polled_ns: 0,
            spun_ns: 0,
        }
    }
}

impl Counters {
    /// Failures of every class.
    pub fn failed_total(&self) -> u64 {
        self.failed.iter().sum()
    }

    /// Requests due and not yet handed to a connection nor given up.
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

    /// Adds another worker's totals.
    pub fn add(&mut self, other: &Counters) {
        self.scheduled += other.scheduled;
        self.issued += other.issued;
        self.answered += other.answered;
        add_each(&mut self.failed, &other.failed);
        add_each(&mut self.connect_failed, &other.connect_failed);
        self.connects += other.connects;
        add_each(&mut self.statuses, &other.statuses);
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.body_bytes += other.body_bytes;
        self.decoded_bytes += other.decoded_bytes;
        self.messages += other.messages;
        self.expired_unsent += other.expired_unsent;
        self.late_by_client += other.late_by_client;
        self.resent += other.resent;
        self.waiting_again += other.waiting_again;
        self.in_flight += other.in_flight;
        self.in_flight_area += other.in_flight_area;
        self.waits += other.waits;
        self.events += other.events;
        self.batching_waits += other.batching_waits;
        self.batching_ns += other.batching_ns;
        self.polled_ns += other.polled_ns;
        self.spun_ns += other.spun_ns;
    }

    /// What came since an earlier copy. `in_flight` and `waiting_again` stay those of now.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let mut change = self.clone();
        change.scheduled -= earlier.scheduled;
        change.issued -= earlier.issued;
        change.answered -= earlier.answered;
        subtract_each(&mut change.failed, &earlier.failed);
        subtract_each(&mut change.connect_failed, &earlier.connect_failed);
        change.connects -= earlier.connects;
        subtract_each(&mut change.statuses, &earlier.statuses);
        change.bytes_in -= earlier.bytes_in;
        change.bytes_out -= earlier.bytes_out;
        change.body_bytes -= earlier.body_bytes;
        change.decoded_bytes -= earlier.decoded_bytes;
        change.messages -= earlier.messages;
        change.expired_unsent -= earlier.expired_unsent;
        change.late_by_client -= earlier.late_by_client;
        change.resent -= earlier.resent;
        change.in_flight_area -= earlier.in_flight_area;
        change.waits -= earlier.waits;
        change.polled_ns -= earlier.polled_ns;
        change.spun_ns -= earlier.spun_ns;
        change.events -= earlier.events;
        change.batching_waits -= earlier.batching_waits;
        change.batching_ns -= earlier.batching_ns;
        change
    }
}

fn add_each(into: &mut [u64], from: &[u64]) {
    for (into, from) in into.iter_mut().zip(from) {
        *into += from;
    }
}

fn subtract_each(into: &mut [u64], from: &[u64]) {
    for (into, from) in into.iter_mut().zip(from) {
        *into -= from;
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
