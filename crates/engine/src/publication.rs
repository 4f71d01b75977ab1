//! How a worker lets others see: it fills one report while the last one is read.
//!
//! About ten times a second the worker swaps its full report for an empty one. If the
//! reader has not come back yet, the worker goes on filling: nothing is lost, and the
//! report just covers more time. The worker never waits, and never allocates.

use std::sync::{Arc, Mutex};

use wallfinder_sys::process;

use crate::counters::Counters;
use crate::histogram::Latencies;

/// What a worker did from `from_ns` to `to_ns`.
#[derive(Debug)]
pub struct Report {
    /// Monotonic start.
    pub from_ns: u64,
    /// Monotonic end.
    pub to_ns: u64,
    /// Totals at the end.
    pub totals: Counters,
    /// Connections open at a time since the window opened, at the most.
    pub open_most: u64,
    /// Connections open, summed over time: connection-nanoseconds.
    pub open_area: u128,
    /// CPU time of the worker's thread at the end.
    pub cpu_ns: u64,
    /// From the intended instant to the last byte.
    pub latency: Latencies,
    /// From sending to the last byte.
    pub service: Latencies,
    /// From sending to the first byte.
    pub first_byte: Latencies,
    /// From the intended instant to sending, in an open loop while a connection was free.
    pub lateness: Latencies,
    /// Which edge of the measured window the end is.
    pub edge: Option<Edge>,
    /// The segment that it belongs to; 0: none.
    pub segment: u32,
    /// Whether the end is that of the segment.
    pub ends_segment: bool,
}

/// An edge of the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The warm-up is over.
    Open,
    /// The window is over.
    Close,
    /// Nothing is waited for any more: what was in flight at the end of the window has ended, or was given up.
    Drained,
}

impl Report {
    /// An empty report.
    pub fn new() -> Box<Report> {
        Box::new(Report {
            from_ns: 0,
            to_ns: 0,
            totals: Counters::default(),
            open_most: 0,
            open_area: 0,
            cpu_ns: 0,
            latency: Latencies::new(),
            service: Latencies::new(),
            first_byte: Latencies::new(),
            lateness: Latencies::new(),
            edge: None,
            segment: 0,
            ends_segment: false,
        })
    }

    /// Makes it empty again.
    pub fn clear(&mut self) {
        for part in [
            &mut self.latency,
            &mut self.service,
            &mut self.first_byte,
            &mut self.lateness,
        ] {
            part.clear();
            process::yield_adaptive();
        }
        self.edge = None;
        self.segment = 0;
        self.ends_segment = false;
    }
}

#[derive(Debug, Default)]
struct Exchange {
    full: Vec<Box<Report>>,
    empty: Vec<Box<Report>>,
}

impl Exchange {
    fn swap(&mut self, report: &mut Box<Report>) {
        let empty = self.empty.pop().expect("some are reserved for this");
        self.full.push(std::mem::replace(report, empty));
    }
}

/// The place where reports change hands.
#[derive(Debug, Clone)]
pub struct Publication {
    exchange: Arc<Mutex<Exchange>>,
}

/// Reports in circulation: enough that a reader may be late by several periods.
const REPORTS: usize = 7;
/// Of them kept for the edges of the window and the end of waiting.
const RESERVED: usize = 3;

impl Publication {
    /// A place with its empty reports.
    pub fn new() -> Publication {
        let mut empty = Vec::with_capacity(REPORTS + 1);
        empty.extend((0..REPORTS).map(|_| Report::new()));
        let full = Vec::with_capacity(REPORTS + 1);
        Publication {
            exchange: Arc::new(Mutex::new(Exchange { full, empty })),
        }
    }

    /// For the worker: gives a full report for an empty one. `false` when that is not
    /// possible now, and the report stays as it is.
    pub fn swap(&self, report: &mut Box<Report>) -> bool {
        let Ok(mut exchange) = self.exchange.try_lock() else {
            return false;
        };
        if exchange.empty.len() <= RESERVED {
            return false;
        }
        exchange.swap(report);
        true
    }

    /// For the worker, at an edge of the window: the same, come what may.
    pub fn swap_at_edge(&self, report: &mut Box<Report>) {
        let mut exchange = self.exchange.lock().expect("readers do not panic in here");
        exchange.swap(report);
    }

    /// For the reader: the oldest full report.
    pub fn take(&self) -> Option<Box<Report>> {
        let mut exchange = self.exchange.lock().expect("workers do not panic in here");
        if exchange.full.is_empty() {
            return None;
        }
        Some(exchange.full.remove(0))
    }

    /// For the reader: gives a report back.
    pub fn give_back(&self, mut report: Box<Report>) {
        report.clear();
        let mut exchange = self.exchange.lock().expect("workers do not panic in here");
        exchange.empty.push(report);
    }
}

impl Default for Publication {
    fn default() -> Publication {
        Publication::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reader_loses_nothing() {
        let place = Publication::new();
        let mut mine = Report::new();
        let mut recorded = 0;
        for _ in 0..20 {
            mine.latency.record(100);
            recorded += 1;
            place.swap(&mut mine);
        }
        let mut read = 0;
        mine.edge = Some(Edge::Close);
        place.swap_at_edge(&mut mine);
        assert_eq!(mine.latency.count(), 0);
        while let Some(report) = place.take() {
            read += report.latency.count();
            place.give_back(report);
        }
        assert_eq!(read, recorded);
    }
}
