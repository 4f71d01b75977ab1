//! Merges the workers' reports: into intervals as they come, into windows of an experiment as they end, into the measured
//! window at the end.

use std::sync::mpsc;
use std::time::Duration;

use wallfinder_model::Load;
use wallfinder_model::drive::{Edge, Progress};
use wallfinder_model::record::Interval;
use wallfinder_sys::{clock, process};
use wallfinder_wire::mix::Mix;

use super::interval::OpenInterval;
use super::window::{Mark, OpenWindow, WorkerWindow};
use crate::histogram::Latencies;
use crate::plan::WorkerPlan;
use crate::report::WorkerReport;
use crate::swap_buffer::SwapBuffer;

/// How often reports are collected, and how often about the edges of the window, which
/// observers hear of when their reports come.
pub(super) const COLLECT_EVERY: Duration = Duration::from_millis(20);
const COLLECT_AT_EDGES: Duration = Duration::from_millis(1);

/// Latencies of the measured window, by what they are counted from and to.
#[derive(Debug)]
pub(super) struct WindowLatencies {
    pub(super) latency: Latencies,
    pub(super) service: Latencies,
    pub(super) first_byte: Latencies,
    pub(super) lateness: Latencies,
    /// Of each kind of request, where they are several.
    pub(super) kinds: Vec<Latencies>,
    /// How long sessions took, of each flow.
    pub(super) flows: Vec<Latencies>,
}

impl WindowLatencies {
    fn new(mix: Option<&Mix>) -> WindowLatencies {
        let (kinds, flows) = mix.map_or((0, 0), |mix| (mix.kinds.len(), mix.flows.len()));
        let coarse = |count| (0..count).map(|_| Latencies::coarse()).collect();
        WindowLatencies {
            kinds: coarse(kinds),
            flows: coarse(flows),
            latency: Latencies::new(),
            service: Latencies::new(),
            first_byte: Latencies::new(),
            lateness: Latencies::new(),
        }
    }

    fn add(&mut self, report: &WorkerReport) {
        for (sum, part) in [
            (&mut self.latency, &report.latency),
            (&mut self.service, &report.service),
            (&mut self.first_byte, &report.first_byte),
            (&mut self.lateness, &report.lateness),
        ] {
            sum.add(part);
            process::yield_adaptive();
        }
        for (sum, part) in self.kinds.iter_mut().zip(&report.kinds) {
            sum.add(&part.latency);
        }
        for (sum, part) in self.flows.iter_mut().zip(&report.flows) {
            sum.add(&part.took);
        }
    }
}

/// All that was collected when the workers have ended.
#[derive(Debug)]
pub(super) struct Collector<'p> {
    tell: mpsc::Sender<Progress>,
    buffers: &'p [SwapBuffer],
    pub(super) plans: &'p [WorkerPlan],
    pub(super) zero_ns: u64,
    pub(super) windows: Vec<WorkerWindow>,
    pub(super) latencies: WindowLatencies,
    pub(super) intervals: Vec<Interval>,
    interval: OpenInterval,
    /// Whether other hosts have parts of the load: latencies are told as they come then.
    is_part: bool,
    /// Windows of an experiment that some worker has begun and not all have ended, oldest first.
    experiment: Vec<OpenWindow>,
}

impl<'p> Collector<'p> {
    pub(super) fn new(
        plans: &'p [WorkerPlan],
        buffers: &'p [SwapBuffer],
        zero_ns: u64,
        tell: mpsc::Sender<Progress>,
    ) -> Collector<'p> {
        let is_part = plans.iter().any(|plan| plan.share.of > plan.workers);
        Collector {
            is_part,
            tell,
            buffers,
            plans,
            zero_ns,
            windows: vec![WorkerWindow::default(); plans.len()],
            latencies: WindowLatencies::new(plans.first().and_then(|plan| plan.mix.as_deref())),
            intervals: Vec::new(),
            interval: OpenInterval::new(is_part),
            experiment: Vec::new(),
        }
    }

    /// How long reports may wait to be collected.
    pub(super) fn time_to_next(&self, load: &Load) -> Duration {
        let now = clock::monotonic_ns();
        let open_ns = self.zero_ns + load.warmup.0;
        let near = |edge_ns: u64| {
            let margin = COLLECT_EVERY.as_nanos() as u64 + 5_000_000;
            now + margin > edge_ns && now < edge_ns + margin
        };
        if near(open_ns) || near(open_ns + load.stop.after.0) {
            COLLECT_AT_EDGES
        } else {
            COLLECT_EVERY
        }
    }

    pub(super) fn collect(&mut self) {
        // In rounds over the workers, so that an interval holds one report of each.
        loop {
            let mut took = false;
            for (worker, buffer) in self.buffers.iter().enumerate() {
                if let Some(report) = buffer.take() {
                    took = true;
                    self.merge(worker, &report);
                    buffer.give_back(report);
                }
            }
            if !took {
                return;
            }
        }
    }

    fn merge(&mut self, worker: usize, report: &WorkerReport) {
        let window = &mut self.windows[worker];
        let change = report.totals.since(&window.last_totals);
        window.last_totals.clone_from(&report.totals);
        if window.open.is_some() {
            self.latencies.add(report);
        }
        let mark = Mark::of(report);
        if report.edge == Some(Edge::Drained) {
            // No part of the window, but for the latencies above.
            window.drained = Some(mark.totals);
            return;
        }
        self.merge_experiment(worker, report, &mark);
        let window = &mut self.windows[worker];
        match report.edge {
            Some(Edge::Open) => window.open = Some(mark),
            Some(Edge::Close) => {
                window.open_most = report.open_most;
                window.close = Some(mark);
            }
            Some(Edge::Drained) | None => {}
        }
        if let Some(edge) = report.edge
            && worker + 1 == self.windows.len()
        {
            self.tell(Progress::Edge(edge));
        }
        self.interval.add(report, &change, self.zero_ns);
        if self.interval.reports() == self.buffers.len() {
            self.end_interval();
        }
    }

    fn merge_experiment(&mut self, worker: usize, report: &WorkerReport, end: &Mark) {
        let begun = self.windows[worker].experiment.take();
        if report.window != 0 {
            let at = self.window_at(report.window);
            let open = &mut self.experiment[at];
            open.latency.add(&report.latency);
            process::yield_adaptive();
            if report.ends_window
                && let Some(begun) = &begun
            {
                open.worker_ends(begun, end, self.zero_ns);
                if open.ended == self.buffers.len() {
                    let whole = self.experiment.remove(at).end(self.is_part);
                    self.tell(Progress::Window(whole));
                }
            }
        }
        self.windows[worker].experiment = match report.ends_window {
            true => Some(end.clone()),
            false => begun,
        };
    }

    /// Where the open window of this number stands; it begins if no worker has begun it.
    fn window_at(&mut self, number: u32) -> usize {
        let known = self
            .experiment
            .iter()
            .position(|open| open.sum.number == number);
        known.unwrap_or_else(|| {
            self.experiment.push(OpenWindow::new(number));
            self.experiment.len() - 1
        })
    }

    /// Nothing listens any more once the run is called off.
    fn tell(&self, progress: Progress) {
        let _ = self.tell.send(progress);
    }

    /// Workers that end apart leave reports without a partner; nothing of them is lost.
    pub(super) fn end_last_interval(&mut self) {
        if self.interval.reports() > 0 {
            self.end_interval();
        }
    }

    fn end_interval(&mut self) {
        let (interval, latency) = self.interval.end();
        self.intervals.push(interval.clone());
        self.tell(Progress::Interval { interval, latency });
    }
}
