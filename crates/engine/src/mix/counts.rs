//! What became of each kind of request, and of each kind of session.

use wallfinder_model::record::{Looked, RequestKind, SessionKind};
use wallfinder_wire::mix::{Flow, Kind};

use crate::counters::{CLASSES, Class, Counters};
use crate::histogram::Latencies;

/// What became of the requests of one kind, since the worker's start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KindCounts {
    /// Sent, those that wait to be sent again left out.
    pub(crate) sent: u64,
    /// Answered well.
    pub(crate) answered: u64,
    /// Failed, by [`Class::index`].
    pub(crate) failed: [u64; CLASSES],
    /// Those of them that were not sent.
    pub(crate) unsent: u64,
    /// Body bytes of good answers.
    pub(crate) body_bytes: u64,
    /// Bytes of good answers on the wire.
    pub(crate) wire_bytes: u64,
    /// Bytes of requests on the wire, as its wire counts them: up to date in reports.
    pub(crate) sent_bytes: u64,
    /// Answers that were looked into, likewise.
    pub(crate) looked: Looked,
}

impl Default for KindCounts {
    fn default() -> KindCounts {
        KindCounts {
            sent: 0,
            answered: 0,
            failed: [0; CLASSES],
            unsent: 0,
            body_bytes: 0,
            wire_bytes: 0,
            sent_bytes: 0,
            looked: Looked::default(),
        }
    }
}

impl KindCounts {
    /// What came since an earlier copy.
    pub(crate) fn since(&self, earlier: &KindCounts) -> KindCounts {
        let mut failed = self.failed;
        for (now, then) in failed.iter_mut().zip(&earlier.failed) {
            *now -= then;
        }
        KindCounts {
            // A request that is taken back and sent again later is sent once.
            sent: self.sent.saturating_sub(earlier.sent),
            answered: self.answered - earlier.answered,
            failed,
            unsent: self.unsent - earlier.unsent,
            body_bytes: self.body_bytes - earlier.body_bytes,
            wire_bytes: self.wire_bytes - earlier.wire_bytes,
            // Where they go by the requests sent, they shrink with those.
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            looked: self.looked.since(earlier.looked),
        }
    }

    pub(crate) fn add(&mut self, other: &KindCounts) {
        self.sent += other.sent;
        self.answered += other.answered;
        for (into, from) in self.failed.iter_mut().zip(&other.failed) {
            *into += from;
        }
        self.unsent += other.unsent;
        self.body_bytes += other.body_bytes;
        self.wire_bytes += other.wire_bytes;
        self.sent_bytes += other.sent_bytes;
        self.looked = self.looked.and(other.looked);
    }

    /// A request failed.
    pub(crate) fn fail(&mut self, class: Class) {
        self.failed[class.index()] += 1;
    }
}

/// What a worker reports of one kind.
#[derive(Debug)]
pub(crate) struct KindReport {
    /// Totals at the end.
    pub(crate) counts: KindCounts,
    /// From the intended start to the last byte, since the report before.
    pub(crate) latency: Latencies,
}

impl KindReport {
    /// One for each kind, all empty.
    pub(crate) fn empty(kinds: usize) -> Vec<KindReport> {
        let one = |_| KindReport {
            counts: KindCounts::default(),
            latency: Latencies::coarse(),
        };
        (0..kinds).map(one).collect()
    }
}

/// A kind's part of the measured window, over all workers.
#[derive(Debug, Default)]
pub(crate) struct KindSum {
    counts: KindCounts,
    throughput: f64,
}

impl KindSum {
    /// Adds what a worker did in its window.
    pub(crate) fn add(&mut self, change: &KindCounts, span_ns: u64) {
        self.counts.add(change);
        self.throughput += change.answered as f64 * 1e9 / span_ns as f64;
    }

    /// For the record.
    pub(crate) fn to_record(
        &self,
        kind: &Kind,
        (weight, session): (u32, Option<&str>),
        latency: &Latencies,
    ) -> RequestKind {
        let KindCounts {
            sent,
            answered,
            failed,
            unsent,
            body_bytes,
            wire_bytes,
            sent_bytes,
            looked,
        } = &self.counts;
        RequestKind {
            name: kind.name.clone(),
            weight,
            method: kind.request.method.clone(),
            sent: *sent,
            answered: *answered,
            failed: Counters::named(failed),
            unsent: *unsent,
            throughput: self.throughput,
            body_bytes: *body_bytes,
            wire_bytes: *wire_bytes,
            sent_bytes: *sent_bytes,
            looked_into: (looked.timed > 0).then_some(*looked),
            latency: latency.to_record(),
            session: session.map(str::to_owned),
            costs: None,
            functions: Vec::new(),
        }
    }
}

/// What became of the sessions of one flow, since the worker's start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FlowCounts {
    /// Begun.
    pub(crate) begun: u64,
    /// Ended with a good answer to their last step.
    pub(crate) completed: u64,
    /// Ended early, for a step of them failed.
    pub(crate) broken_off: u64,
}

impl FlowCounts {
    /// What came since an earlier copy.
    pub(crate) fn since(&self, earlier: &FlowCounts) -> FlowCounts {
        FlowCounts {
            begun: self.begun - earlier.begun,
            completed: self.completed - earlier.completed,
            broken_off: self.broken_off - earlier.broken_off,
        }
    }

    pub(crate) fn add(&mut self, other: &FlowCounts) {
        self.begun += other.begun;
        self.completed += other.completed;
        self.broken_off += other.broken_off;
    }

    /// For the record, with how long those took that were completed.
    pub(crate) fn to_record(self, flow: &Flow, took: &Latencies) -> SessionKind {
        SessionKind {
            name: flow.name.clone(),
            weight: flow.weight,
            begun: self.begun,
            completed: self.completed,
            broken_off: self.broken_off,
            took: took.to_record(),
            costs: None,
            functions: Vec::new(),
        }
    }
}

/// What a worker reports of one flow.
#[derive(Debug)]
pub(crate) struct FlowReport {
    /// Totals at the end.
    pub(crate) counts: FlowCounts,
    /// From the intended start of the first step to the end of the last, since the report before.
    pub(crate) took: Latencies,
}

impl FlowReport {
    /// One for each flow, all empty.
    pub(crate) fn empty(flows: usize) -> Vec<FlowReport> {
        let one = |_| FlowReport {
            counts: FlowCounts::default(),
            took: Latencies::coarse(),
        };
        (0..flows).map(one).collect()
    }
}
