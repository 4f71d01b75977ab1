//! Windows cut out of what workers report: the measured one, and those of an experiment.
//!
//! Each worker ends a window at its own instant and says when that was, so that rates are exact whatever the workers'
//! delays; they are added, and instants are their mean.

use std::collections::BTreeMap;

use wallfinder_model::drive::ExperimentWindow;

use crate::counters::Counters;
use crate::histogram::Latencies;
use crate::mix::{FlowCounts, KindCounts};
use crate::report::WorkerReport;

/// A worker at one instant.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    pub(super) at_ns: u64,
    pub(super) totals: Counters,
    pub(super) open_area: u128,
    pub(super) cpu_ns: u64,
    /// Of each kind of request, where they are several.
    pub(super) kinds: Vec<KindCounts>,
    /// Of each flow.
    pub(super) flows: Vec<FlowCounts>,
}

/// What a worker did between two instants.
pub(super) struct Stretch {
    pub(super) change: Counters,
    pub(super) span_ns: u64,
    /// CPU time of its work: without polling for nothing.
    pub(super) worked_ns: u64,
    pub(super) throughput: f64,
    pub(super) in_flight_mean: f64,
    pub(super) open_mean: f64,
}

impl Mark {
    /// Where a report ends.
    pub(super) fn of(report: &WorkerReport) -> Mark {
        Mark {
            at_ns: report.to_ns,
            totals: report.totals.clone(),
            open_area: report.open_area,
            cpu_ns: report.cpu_ns,
            kinds: report.kinds.iter().map(|kind| kind.counts).collect(),
            flows: report.flows.iter().map(|flow| flow.counts).collect(),
        }
    }

    pub(super) fn until(&self, end: &Mark) -> Stretch {
        let change = end.totals.since(&self.totals);
        let span_ns = (end.at_ns - self.at_ns).max(1);
        Stretch {
            span_ns,
            worked_ns: (end.cpu_ns - self.cpu_ns).saturating_sub(change.polled_ns),
            throughput: change.answered as f64 * 1e9 / span_ns as f64,
            in_flight_mean: change.in_flight_area as f64 / span_ns as f64,
            open_mean: (end.open_area - self.open_area) as f64 / span_ns as f64,
            change,
        }
    }
}

/// One worker's measured window as its two edge reports give it.
#[derive(Debug, Default, Clone)]
pub(super) struct WorkerWindow {
    pub(super) open: Option<Mark>,
    pub(super) close: Option<Mark>,
    /// Connections open at a time in the window, at the most.
    pub(super) open_most: u64,
    /// When nothing was waited for any more.
    pub(super) drained: Option<Counters>,
    pub(super) last_totals: Counters,
    /// The end of the last window of an experiment.
    pub(super) experiment: Option<Mark>,
}

/// A window of an experiment, put together from the workers' reports.
#[derive(Debug)]
pub(super) struct OpenWindow {
    pub(super) sum: ExperimentWindow,
    pub(super) latency: Latencies,
    /// Workers that have ended it.
    pub(super) ended: usize,
}

impl OpenWindow {
    pub(super) fn new(number: u32) -> OpenWindow {
        OpenWindow {
            sum: ExperimentWindow {
                number,
                from_ns: 0,
                to_ns: 0,
                answered: 0,
                failed: 0,
                scheduled: 0,
                throughput: 0.0,
                in_flight_mean: 0.0,
                latency_mean_ns: 0.0,
                quantiles_ns: BTreeMap::new(),
                workers_cpu_ns: 0,
                workers_spun_ns: 0,
                latency: None,
            },
            latency: Latencies::new(),
            ended: 0,
        }
    }

    /// Adds a worker that ended it; instants are from the schedule's zero.
    pub(super) fn worker_ends(&mut self, from: &Mark, to: &Mark, zero_ns: u64) {
        let stretch = from.until(to);
        self.ended += 1;
        self.sum.from_ns += from.at_ns.saturating_sub(zero_ns);
        self.sum.to_ns += to.at_ns.saturating_sub(zero_ns);
        self.sum.answered += stretch.change.answered;
        self.sum.failed += stretch.change.failed_total() + stretch.change.connect_failed_total();
        self.sum.scheduled += stretch.change.scheduled;
        self.sum.throughput += stretch.throughput;
        self.sum.in_flight_mean += stretch.in_flight_mean;
        self.sum.workers_cpu_ns += stretch.worked_ns;
        self.sum.workers_spun_ns += stretch.change.spun_ns;
    }

    /// Ends it; of a part of a load with the latencies themselves.
    pub(super) fn end(mut self, is_part: bool) -> ExperimentWindow {
        self.sum.latency = is_part.then(|| self.latency.to_record()).flatten();
        self.sum.from_ns /= self.ended as u64;
        self.sum.to_ns /= self.ended as u64;
        if self.latency.count() > 0 {
            self.sum.latency_mean_ns = self.latency.mean_ns();
            self.sum.quantiles_ns = self.latency.quantiles_ns();
        }
        self.sum
    }
}
