//! Reports on their way out, and levers on their way in: both change hands between two turns.

use wallfinder_model::drive::{Edge, LeverSetting};
use wallfinder_model::record::Looked;
use wallfinder_sys::io::Io;
use wallfinder_wire::Wire;
use wallfinder_wire::mix::LookedInto;

use super::admission::think_ns;
use super::state::Worker;
use crate::in_flight::Room;
use crate::mix::KindCounts;
use crate::slowdown::Slowdown;

/// Less time says nothing of how busy the worker is: an edge may follow upon a report.
const ADAPT_MIN_NS: u64 = 1_000_000;
/// How often a report is published.
pub(super) const PUBLISH_NS: u64 = 100_000_000;

/// A wire's count, as records have it.
fn to_record(looked: LookedInto) -> Looked {
    let LookedInto {
        answers,
        timed,
        timed_ns,
    } = looked;
    Looked {
        answers,
        timed,
        timed_ns,
    }
}

impl<W: Wire, I: Io> Worker<W, I> {
    /// Follows levers that have changed, and publishes when it is time.
    #[inline]
    pub(super) fn follow_and_publish(&mut self, now: u64) {
        if self.signals.levers.version() != self.following.version {
            self.follow_levers(now);
        }
        if let Some(mix) = &self.plan.mix
            && mix.known.version() != self.following.known
        {
            self.follow_known();
        }
        if now - self.publishing.at_ns >= PUBLISH_NS {
            self.publish(now, None);
        }
    }

    /// Gives the report away; `false` when that is not possible now.
    pub(super) fn publish(&mut self, now: u64, edge: Option<Edge>) -> bool {
        self.ledger.advance(now);
        if edge != Some(Edge::Drained) {
            let elapsed_ns = now.saturating_sub(self.zero_ns);
            if self.admission.is_open() {
                self.ledger.counters.scheduled = self.admission.count_intended(elapsed_ns);
            }
        }
        let backlog = self.ledger.backlog();
        assert!(
            self.admission.is_open() || backlog == self.ledger.counters.waiting_again,
            "requests were lost"
        );
        self.ledger.place_all();
        let cpu_ns = self.io.cpu_ns();
        self.adapt_batching(now, cpu_ns);
        let ledger = &mut self.ledger;
        let shared = &self.shared;
        let looked = W::looked(shared);
        ledger.report_kinds(|kind, counts| KindCounts {
            sent_bytes: W::sent_bytes(shared, kind, counts.sent),
            looked: looked.map_or(Looked::default(), |looked| to_record(looked.of(kind))),
            ..counts
        });
        let report = &mut ledger.report;
        if let Some(script) = &self.script {
            script.report(&mut report.flows);
        }
        report.to_ns = now;
        report.totals.clone_from(&ledger.counters);
        report.open_most = self.reach.most();
        report.open_area = self.reach.area(now);
        report.cpu_ns = cpu_ns;
        report.edge = edge;
        let reports = &self.publishing.reports;
        if edge.is_some() {
            reports.swap_at_edge(report);
        } else if !reports.swap(report) {
            return false;
        }
        report.from_ns = now;
        report.window = self.following.setting.window;
        true
    }

    /// Batches answers as the time since the last report suggests.
    fn adapt_batching(&mut self, now: u64, cpu_ns: u64) {
        let last = &mut self.publishing;
        let counters = &self.ledger.counters;
        let span_ns = now.saturating_sub(last.at_ns).max(1);
        let polled_ns = counters.polled_ns - last.polled_ns;
        let busy_ns = cpu_ns.saturating_sub(last.cpu_ns + polled_ns);
        let busy = busy_ns as f64 / span_ns as f64;
        last.at_ns = now;
        last.cpu_ns = cpu_ns;
        last.polled_ns = counters.polled_ns;
        if self.plan.load.no_batching || !I::BATCHES {
            // Nothing is ever batched.
        } else if self.admission.is_open() {
            if span_ns >= ADAPT_MIN_NS {
                self.batching.adapt_open(busy);
            }
        } else {
            let connections = self.connections.len() as u64;
            let report = &self.ledger.report;
            self.batching.adapt(report, counters, connections, busy);
        }
    }

    /// Ends the window of an experiment with a report, and begins the next one as the levers stand now.
    /// When the report cannot be given away at this moment, the change waits for the next
    /// turn of the loop.
    #[cold]
    fn follow_levers(&mut self, now: u64) {
        let (version, setting) = self.signals.levers.setting();
        self.ledger.report.ends_window = true;
        if !self.publish(now, None) {
            self.ledger.report.ends_window = false;
            return;
        }
        self.following.version = version;
        self.ledger.report.window = setting.window;
        self.apply(setting, now);
        self.signals.levers.follow(version);
        for conn in 0..self.plan.connections {
            let is_limited = self.admission.room.is_limited_in_flight();
            let connection = self.connection(conn);
            if !connection.granted.is_empty() {
                if !is_limited {
                    // What was held back was not meant to be sent before now.
                    connection.start_granted_at(now);
                }
                self.offer(conn);
            }
        }
    }

    /// Requests that begin from now on are filled in with what became known. Where that is being renewed at this moment,
    /// it is followed at the next turn.
    #[cold]
    fn follow_known(&mut self) {
        let Some(mix) = &self.plan.mix else { return };
        let version = mix.known.version();
        if let Some(known) = mix.known.try_now() {
            W::take_known(&mut self.shared, &known);
            self.following.known = version;
        }
    }

    fn apply(&mut self, setting: LeverSetting, now: u64) {
        let elapsed_ns = now.saturating_sub(self.zero_ns);
        let last = std::mem::replace(&mut self.following.setting, setting);
        if setting.pace != last.pace {
            self.admission.set_pace(elapsed_ns, setting.pace);
        }
        if setting.window == 0 {
            // A queue from one setting would be the next one's load, and an overloaded server's grows until every
            // request is late.
            let skipped = self.admission.skip_overdue(elapsed_ns);
            self.skip_begins(skipped);
        }
        let plan = &self.plan;
        let part = (plan.workers, plan.worker);
        let room = Room::of_worker(
            &plan.load,
            part,
            plan.more,
            setting.in_flight,
            setting.clients,
        );
        let think_ns = setting.think.0 + think_ns(&plan.load.arrival);
        self.admission.set(room, setting.turn, think_ns);
        self.ledger.in_flight_max = room.in_flight_max;
        W::take_form(&mut self.shared, setting.form);
        if setting.speed != last.speed {
            let cpu_ns = self.io.cpu_ns();
            self.following.slowdown = Slowdown::to(self.plan.speed, setting.speed, cpu_ns);
        }
    }
}
