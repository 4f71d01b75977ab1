//! What a worker reports: totals at an instant, and latencies since the report before.

use wallfinder_model::drive::Edge;

use wallfinder_sys::process;
use wallfinder_wire::mix::Mix;

use crate::counters::Counters;
use crate::histogram::{Latencies, Repeated};
use crate::mix::{FlowReport, KindReport};

/// What a worker did from `from_ns` to `to_ns`.
#[derive(Debug)]
pub(crate) struct WorkerReport {
    /// Monotonic start.
    pub(crate) from_ns: u64,
    /// Monotonic end.
    pub(crate) to_ns: u64,
    /// Totals at the end.
    pub(crate) totals: Counters,
    /// Connections open at a time since the window opened, at the most.
    pub(crate) open_most: u64,
    /// Connections open, summed over time: connection-nanoseconds.
    pub(crate) open_area: u128,
    /// CPU time of the worker's thread at the end.
    pub(crate) cpu_ns: u64,
    /// From the intended start to the last byte.
    pub(crate) latency: Latencies,
    /// From sending to the last byte.
    pub(crate) service: Latencies,
    /// From sending to the first byte.
    pub(crate) first_byte: Latencies,
    /// From the intended start to sending, in an open loop while a connection was free.
    pub(crate) lateness: Latencies,
    /// Of each kind of request, where they are several.
    pub(crate) kinds: Vec<KindReport>,
    /// Of each flow of a mix.
    pub(crate) flows: Vec<FlowReport>,
    /// Which edge of the measured window the end is.
    pub(crate) edge: Option<Edge>,
    /// The window of an experiment that it belongs to; 0: none.
    pub(crate) window: u32,
    /// Whether the end is that of this window.
    pub(crate) ends_window: bool,
}

impl WorkerReport {
    /// An empty report; kinds of request are told apart where there is a mix.
    pub(crate) fn new(mix: Option<&Mix>) -> Box<WorkerReport> {
        let (kinds, flows) = mix.map_or((0, 0), |mix| (mix.kinds.len(), mix.flows.len()));
        Box::new(WorkerReport {
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
            kinds: KindReport::empty(kinds),
            flows: FlowReport::empty(flows),
            edge: None,
            window: 0,
            ends_window: false,
        })
    }

    /// Makes it empty again.
    pub(crate) fn clear(&mut self) {
        for part in [
            &mut self.latency,
            &mut self.service,
            &mut self.first_byte,
            &mut self.lateness,
        ] {
            part.clear();
            process::yield_adaptive();
        }
        for kind in &mut self.kinds {
            kind.latency.clear();
        }
        for flow in &mut self.flows {
            flow.took.clear();
        }
        self.edge = None;
        self.window = 0;
        self.ends_window = false;
    }
}

/// How long an answer took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Took {
    pub(crate) latency_ns: u64,
    pub(crate) service_ns: u64,
    pub(crate) first_byte_ns: u64,
}

/// Answers that are not in a report's histograms yet: what they took is what the one before them took.
#[derive(Debug)]
pub(crate) struct Unplaced {
    latency: Repeated,
    service: Repeated,
    first_byte: Repeated,
    /// By kind, where they are several.
    kinds: Vec<Repeated>,
}

impl Unplaced {
    /// None; kinds of request are told apart where there is a mix.
    pub(crate) fn of(mix: Option<&Mix>) -> Unplaced {
        Unplaced {
            latency: Repeated::default(),
            service: Repeated::default(),
            first_byte: Repeated::default(),
            kinds: vec![Repeated::default(); mix.map_or(0, |mix| mix.kinds.len())],
        }
    }

    /// An answer to a request of a kind.
    #[inline]
    pub(crate) fn record(&mut self, kind: usize, took: Took, report: &mut WorkerReport) {
        self.latency.record(took.latency_ns, &mut report.latency);
        if let Some(of) = self.kinds.get_mut(kind) {
            of.record(took.latency_ns, &mut report.kinds[kind].latency);
        }
        self.service.record(took.service_ns, &mut report.service);
        self.first_byte
            .record(took.first_byte_ns, &mut report.first_byte);
    }

    /// Places all of them.
    pub(crate) fn place(&mut self, report: &mut WorkerReport) {
        self.latency.place(&mut report.latency);
        self.service.place(&mut report.service);
        self.first_byte.place(&mut report.first_byte);
        for (of, report) in self.kinds.iter_mut().zip(&mut report.kinds) {
            of.place(&mut report.latency);
        }
    }
}
