//! How a worker lets others see: it fills one report while the last one is read.
//!
//! About ten times a second the worker swaps its full report for an empty one. If the
//! reader has not come back yet, the worker goes on filling: nothing is lost, and the
//! report just covers more time. The worker never waits, and never allocates.

use std::sync::{Arc, Mutex};

use wallfinder_wire::mix::Mix;

use crate::report::WorkerReport;

#[derive(Debug, Default)]
struct Places {
    full: Vec<Box<WorkerReport>>,
    empty: Vec<Box<WorkerReport>>,
}

impl Places {
    fn swap(&mut self, report: &mut Box<WorkerReport>) {
        let empty = self.empty.pop().expect("some are reserved for this");
        self.full.push(std::mem::replace(report, empty));
    }
}

/// Between one worker and one reader.
#[derive(Debug, Clone)]
pub(crate) struct SwapBuffer {
    places: Arc<Mutex<Places>>,
}

/// Reports in circulation: enough that a reader may be late by several periods.
const REPORTS: usize = 7;
/// Of them kept for the edges of the window and the end of waiting.
const RESERVED: usize = 3;

impl SwapBuffer {
    /// A buffer with its empty reports.
    pub(crate) fn new(mix: Option<&Mix>) -> SwapBuffer {
        let mut empty = Vec::with_capacity(REPORTS + 1);
        empty.extend((0..REPORTS).map(|_| WorkerReport::new(mix)));
        let full = Vec::with_capacity(REPORTS + 1);
        SwapBuffer {
            places: Arc::new(Mutex::new(Places { full, empty })),
        }
    }

    /// For the worker: gives a full report for an empty one. `false` when that is not
    /// possible now, and the report stays as it is.
    pub(crate) fn swap(&self, report: &mut Box<WorkerReport>) -> bool {
        let Ok(mut places) = self.places.try_lock() else {
            return false;
        };
        if places.empty.len() <= RESERVED {
            return false;
        }
        places.swap(report);
        true
    }

    /// For the worker, at an edge of the window: the same, come what may.
    pub(crate) fn swap_at_edge(&self, report: &mut Box<WorkerReport>) {
        let mut places = self.places.lock().expect("readers do not panic in here");
        places.swap(report);
    }

    /// For the reader: the oldest full report.
    pub(crate) fn take(&self) -> Option<Box<WorkerReport>> {
        let mut places = self.places.lock().expect("workers do not panic in here");
        if places.full.is_empty() {
            return None;
        }
        Some(places.full.remove(0))
    }

    /// For the reader: gives a report back.
    pub(crate) fn give_back(&self, mut report: Box<WorkerReport>) {
        report.clear();
        let mut places = self.places.lock().expect("workers do not panic in here");
        places.empty.push(report);
    }
}

impl Default for SwapBuffer {
    fn default() -> SwapBuffer {
        SwapBuffer::new(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wallfinder_model::drive::Edge;

    #[test]
    fn a_late_reader_loses_nothing() {
        let buffer = SwapBuffer::new(None);
        let mut mine = WorkerReport::new(None);
        let mut recorded = 0;
        for _ in 0..20 {
            mine.latency.record(100);
            recorded += 1;
            buffer.swap(&mut mine);
        }
        let mut read = 0;
        mine.edge = Some(Edge::Close);
        buffer.swap_at_edge(&mut mine);
        assert_eq!(mine.latency.count(), 0);
        while let Some(report) = buffer.take() {
            read += report.latency.count();
            buffer.give_back(report);
        }
        assert_eq!(read, recorded);
    }
}
