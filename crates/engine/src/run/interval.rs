//! An interval of the run, put together from one report of each worker.

use wallfinder_model::record::{Histogram, Interval};
use wallfinder_sys::process;

use crate::counters::Counters;
use crate::histogram::Latencies;
use crate::report::WorkerReport;

#[derive(Debug)]
pub(super) struct OpenInterval {
    sum: Interval,
    latency: Latencies,
    reports: usize,
    /// Whether the latencies themselves are told with it.
    with_latency: bool,
}

impl OpenInterval {
    pub(super) fn new(with_latency: bool) -> OpenInterval {
        OpenInterval {
            with_latency,
            sum: Interval::default(),
            latency: Latencies::new(),
            reports: 0,
        }
    }

    /// Adds a report, and what changed with it; instants are from the schedule's zero.
    pub(super) fn add(&mut self, report: &WorkerReport, change: &Counters, zero_ns: u64) {
        self.latency.add(&report.latency);
        process::yield_adaptive();
        let sum = &mut self.sum;
        sum.at_ns = report.to_ns.saturating_sub(zero_ns);
        sum.span_ns = sum.span_ns.max(report.to_ns - report.from_ns);
        sum.answered += change.answered;
        sum.failed += change.failed_total();
        sum.scheduled += change.scheduled;
        sum.bytes_in += change.bytes_in;
        sum.in_flight += report.totals.in_flight;
        self.reports += 1;
    }

    /// Reports that were added.
    pub(super) fn reports(&self) -> usize {
        self.reports
    }

    /// Ends it; the next begins.
    pub(super) fn end(&mut self) -> (Interval, Option<Box<Histogram>>) {
        let latency = self.with_latency.then(|| self.latency.to_record());
        let mut interval = std::mem::take(&mut self.sum);
        interval.p50_ns = self.latency.quantile_ns(0.5);
        process::yield_adaptive();
        interval.p99_ns = self.latency.quantile_ns(0.99);
        interval.max_ns = self.latency.max_ns();
        process::yield_adaptive();
        self.latency.clear();
        process::yield_adaptive();
        self.reports = 0;
        (interval, latency.flatten().map(Box::new))
    }
}
