//! The request ledger: each request that is in flight has a slot, and each that ends is counted once.
//!
//! ```text
//!              issue                        answered ──► answered, or failed by what the answer says
//!   a grant ──────────► a slot of its  ───► fail     ──► failed, by class
//!                       connection          take_back ─► waiting again: a grant once more
//! ```
//!
//! Invariants: `scheduled = answered + failed + in flight + backlog`, asserted by [`Ledger::backlog`]; requests
//! in flight are those with a slot. Every failure of a request passes [`Ledger::fail`]. What this is not: it
//! knows no connection and no wire, and decides nothing.

use wallfinder_model::Failure;
use wallfinder_wire::mix::Mix;
use wallfinder_wire::{Answer, Judged};

use super::grant::{Grant, RESENDS_MAX};
use crate::counters::{Class, Counters};
use crate::deadlines::{Deadlines, Turn};
use crate::mix::KindCounts;
use crate::report::{Took, Unplaced, WorkerReport};
use crate::samples::{RequestSample, SampleSender};

/// A request in flight.
#[derive(Debug, Clone, Copy)]
struct Slot {
    /// 0: free.
    sent_ns: u64,
    intended_ns: u64,
    first_byte_ns: u64,
    /// How late the worker sent it, in an open loop while a connection was free.
    sent_late_ns: u32,
    /// How often it was sent before.
    tries: u8,
    kind: u16,
    /// Which rows it was filled in with.
    draw: u32,
}

const FREE: Slot = Slot {
    sent_ns: 0,
    intended_ns: 0,
    first_byte_ns: 0,
    sent_late_ns: 0,
    tries: 0,
    kind: 0,
    draw: 0,
};

impl Slot {
    /// Its request as it ended.
    fn sample(&self, now: u64) -> RequestSample {
        RequestSample {
            sent_ns: self.sent_ns,
            first_byte_ns: self.first_byte_ns,
            kind: self.kind,
            ..RequestSample::new(self.intended_ns, now)
        }
    }

    /// The same, with its answer.
    #[inline]
    fn sample_of(&self, answer: &Answer, now: u64) -> RequestSample {
        let mut sample = self.sample(now);
        sample.status = answer.status;
        sample.bytes = u32::try_from(answer.wire_bytes).unwrap_or(u32::MAX);
        if sample.first_byte_ns == 0 {
            sample.first_byte_ns = now;
        }
        sample
    }
}

/// A request that fails.
#[derive(Debug, Clone, Copy)]
pub(super) enum Failing {
    /// It waits for its answer, in this slot of a connection.
    InFlight { conn: u32, slot: u32 },
    /// It was never sent, or waits to be sent again; of a mix, which kind it would have been.
    Unsent { grant: Grant, kind: Option<u16> },
}

#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) counters: Counters,
    /// Of each kind of request, where they are several.
    kinds: Vec<KindCounts>,
    pub(super) report: Box<WorkerReport>,
    unplaced: Unplaced,
    pub(super) deadlines: Deadlines,
    pub(super) turn: Turn,
    /// Those of a connection stand together.
    slots: Vec<Slot>,
    depth: u32,
    /// Where every request goes that has ended, if anywhere.
    samples: Option<SampleSender>,
    /// When the requests in flight last changed; 0: the schedule has not begun.
    area_at_ns: u64,
    /// When as many were last in flight as may be.
    full_until_ns: u64,
    pub(super) in_flight_max: u64,
    /// Latencies of requests that were to start later are in no histogram: see [`Ledger::close`].
    timed_until_ns: u64,
}

impl Ledger {
    /// For so many connections with so many slots each, of which so many may be taken at once.
    pub(super) fn new(
        (connections, depth): (u32, u32),
        in_flight_max: u64,
        timeout_ns: u64,
        mix: Option<&Mix>,
        samples: Option<SampleSender>,
    ) -> Ledger {
        let slots = connections as usize * depth as usize;
        Ledger {
            counters: Counters::default(),
            kinds: vec![KindCounts::default(); mix.map_or(0, |mix| mix.kinds.len())],
            report: WorkerReport::new(mix),
            unplaced: Unplaced::of(mix),
            deadlines: Deadlines::new(timeout_ns, slots),
            turn: Turn::default(),
            slots: vec![FREE; slots],
            depth,
            samples,
            area_at_ns: 0,
            full_until_ns: 0,
            in_flight_max,
            timed_until_ns: u64::MAX,
        }
    }

    /// The schedule begins.
    pub(super) fn begin(&mut self, zero_ns: u64) {
        self.report.from_ns = zero_ns;
        self.area_at_ns = zero_ns;
    }

    /// The window opens: from now on requests are kept one by one, where they are; times count from zero.
    pub(super) fn open(&mut self, zero_ns: u64) {
        if let Some(samples) = &mut self.samples {
            samples.open(zero_ns);
        }
    }

    /// The window is over. Of the requests in flight, those with an intended start before its end less the
    /// warm-up are timed when they are answered. The others stand for those that were in flight when the window
    /// opened, and are timed already: with both, those that take long would weigh too much. None of the first
    /// could have been in flight then, for the load had not begun.
    pub(super) fn close(&mut self, timed_until_ns: u64) {
        self.timed_until_ns = timed_until_ns;
        if let Some(samples) = &mut self.samples {
            samples.close(timed_until_ns);
        }
    }

    /// The worker ends.
    pub(super) fn finish(&mut self) {
        if let Some(samples) = self.samples.take() {
            samples.finish();
        }
    }

    #[inline]
    fn at(&self, conn: u32, slot: u32) -> usize {
        conn as usize * self.depth as usize + slot as usize
    }

    /// Adds the requests in flight, over the time since they last changed, to the area.
    #[inline]
    pub(super) fn advance(&mut self, now: u64) {
        if self.area_at_ns > 0 && now > self.area_at_ns {
            let span = u128::from(now - self.area_at_ns);
            self.counters.in_flight_area += span * u128::from(self.counters.in_flight);
            self.area_at_ns = now;
        }
    }

    /// When the requests in flight last changed, near enough.
    #[inline]
    pub(super) fn changed_ns(&self) -> u64 {
        self.area_at_ns
    }

    /// When as many requests were last in flight as may be; 0: never.
    #[inline]
    pub(super) fn full_until_ns(&self) -> u64 {
        self.full_until_ns
    }

    /// A request is sent.
    #[inline]
    pub(super) fn issue(
        &mut self,
        (conn, slot): (u32, u32),
        grant: Grant,
        sent_ns: u64,
        sent_late_ns: u64,
    ) {
        self.deadlines.watch(grant.intended_ns);
        self.advance(sent_ns);
        let at = self.at(conn, slot);
        assert!(self.slots[at].sent_ns == 0, "the slot is taken");
        self.slots[at] = Slot {
            sent_ns,
            intended_ns: grant.intended_ns,
            first_byte_ns: 0,
            sent_late_ns: u32::try_from(sent_late_ns).unwrap_or(u32::MAX),
            tries: grant.tries,
            kind: grant.kind,
            draw: grant.draw,
        };
        if let Some(of) = self.kinds.get_mut(usize::from(grant.kind)) {
            of.sent += 1;
        }
        self.counters.issued += 1;
        self.counters.in_flight += 1;
    }

    /// A request ends that is in flight: its slot is free.
    #[inline]
    fn take(&mut self, conn: u32, slot: u32, now: u64) -> Slot {
        self.advance(now);
        let at = self.at(conn, slot);
        let request = std::mem::replace(&mut self.slots[at], FREE);
        assert!(request.sent_ns > 0, "a free slot has no end");
        if self.counters.in_flight >= self.in_flight_max {
            self.full_until_ns = now;
        }
        self.counters.in_flight -= 1;
        request
    }

    /// The first byte of an answer has come.
    #[inline]
    pub(super) fn begins(&mut self, conn: u32, slot: u32, now: u64) {
        let at = self.at(conn, slot);
        let request = &mut self.slots[at];
        if request.first_byte_ns == 0 {
            request.first_byte_ns = now;
        }
    }

    /// Counts an answer, in time or late; gives how long ago its request was sent, and whether it was answered well.
    #[inline]
    pub(super) fn answered(&mut self, conn: u32, answer: &Answer, now: u64) -> (u64, bool) {
        let request = self.take(conn, answer.slot, now);
        let sent_for_ns = now - request.sent_ns;
        if self.deadlines.is_late(request.intended_ns, now) {
            self.answered_late(&request, answer, now);
            return (sent_for_ns, false);
        }
        if answer.status != Answer::NO_STATUS {
            let status = usize::from(answer.status);
            let known = status < self.counters.statuses.len();
            self.counters.statuses[if known { status } else { 0 }] += 1;
        }
        let failure = failure_of(answer);
        match failure {
            Some(class) => {
                self.count_failed(Some(request.kind), class, || request.sample_of(answer, now));
            }
            None => self.answered_well(&request, answer, now),
        }
        (sent_for_ns, failure.is_none())
    }

    #[inline]
    fn answered_well(&mut self, request: &Slot, answer: &Answer, now: u64) {
        let counters = &mut self.counters;
        counters.answered += 1;
        counters.body_bytes += answer.body_bytes;
        counters.decoded_bytes += answer.decoded_bytes;
        counters.messages += answer.call.map_or(0, |call| u64::from(call.messages));
        let kind = usize::from(request.kind);
        if let Some(of) = self.kinds.get_mut(kind) {
            of.answered += 1;
            of.body_bytes += answer.body_bytes;
            of.wire_bytes += answer.wire_bytes;
        }
        if request.intended_ns <= self.timed_until_ns {
            let first_byte_ns = match request.first_byte_ns {
                0 => now,
                first_byte_ns => first_byte_ns,
            };
            let took = Took {
                latency_ns: now - request.intended_ns,
                service_ns: now - request.sent_ns,
                first_byte_ns: first_byte_ns - request.sent_ns,
            };
            self.unplaced.record(kind, took, &mut self.report);
        }
        if let Some(samples) = &mut self.samples {
            samples.push(request.sample_of(answer, now));
        }
    }

    /// Whatever an answer says that came after its deadline, its request timed out.
    #[cold]
    fn answered_late(&mut self, request: &Slot, answer: &Answer, now: u64) {
        let own_ns = self.turn.unread_for_ns(now) + u64::from(request.sent_late_ns);
        let by_client = self.deadlines.own_doing(request.intended_ns, now, own_ns);
        self.counters.late_by_client += u64::from(by_client);
        let class = Class::Other(Failure::TimeoutTotal);
        self.count_failed(Some(request.kind), class, || request.sample_of(answer, now));
    }

    /// Ends a request without a good answer. The one place for failures that no answer tells.
    pub(super) fn fail(&mut self, failing: Failing, class: Class, now: u64) {
        match failing {
            Failing::InFlight { conn, slot } => {
                let request = self.take(conn, slot, now);
                self.count_failed(Some(request.kind), class, || request.sample(now));
            }
            Failing::Unsent { grant, kind } => {
                self.counters.expired_unsent += 1;
                if let Some(of) = kind.and_then(|kind| self.kinds.get_mut(usize::from(kind))) {
                    of.unsent += 1;
                }
                self.count_failed(kind, class, || RequestSample {
                    kind: kind.unwrap_or_default(),
                    ..RequestSample::new(grant.intended_ns, now)
                });
            }
        }
    }

    #[inline]
    fn count_failed(
        &mut self,
        kind: Option<u16>,
        class: Class,
        sample: impl FnOnce() -> RequestSample,
    ) {
        self.counters.failed[class.index()] += 1;
        if let Some(of) = kind.and_then(|kind| self.kinds.get_mut(usize::from(kind))) {
            of.fail(class);
        }
        if let Some(samples) = &mut self.samples {
            samples.push(sample().failed(class));
        }
    }

    /// A request that its peer did not process waits to be sent again; `None`, and nothing is changed, where it
    /// was sent too often.
    pub(super) fn take_back(&mut self, conn: u32, slot: u32, now: u64) -> Option<Grant> {
        let at = self.at(conn, slot);
        if self.slots[at].tries >= RESENDS_MAX {
            return None;
        }
        let request = self.take(conn, slot, now);
        self.counters.resent += 1;
        self.counters.waiting_again += 1;
        if let Some(of) = self.kinds.get_mut(usize::from(request.kind)) {
            of.sent -= 1;
        }
        Some(Grant {
            intended_ns: request.intended_ns,
            tries: request.tries + 1,
            kind: request.kind,
            draw: request.draw,
        })
    }

    /// Whether a request is in flight there that is past its deadline; one that has time is watched.
    pub(super) fn is_past_deadline(&mut self, conn: u32, slot: u32, now: u64) -> bool {
        let at = self.at(conn, slot);
        let request = self.slots[at];
        if request.sent_ns == 0 {
            return false;
        }
        let is_late = self.deadlines.is_late(request.intended_ns, now);
        if !is_late {
            self.deadlines.watch(request.intended_ns);
        }
        is_late
    }

    /// Notes whether the worker itself sent a request so late that it lacked the time for an answer.
    pub(super) fn note_sent_late(&mut self, conn: u32, slot: u32) {
        let at = self.at(conn, slot);
        let sent_late_ns = u64::from(self.slots[at].sent_late_ns);
        let by_client = self.deadlines.sent_too_late(sent_late_ns);
        self.counters.late_by_client += u64::from(by_client);
    }

    /// Whether a slot of a connection has a request in flight.
    pub(super) fn is_in_flight(&self, conn: u32, slot: u32) -> bool {
        self.slots[self.at(conn, slot)].sent_ns > 0
    }

    /// When the last request was sent on a connection of those in flight there; 0: none is.
    pub(super) fn last_sent_ns(&self, conn: u32) -> u64 {
        let first = self.at(conn, 0);
        let slots = &self.slots[first..first + self.depth as usize];
        slots.iter().map(|slot| slot.sent_ns).max().unwrap_or(0)
    }

    /// The earliest intended start of those in flight.
    pub(super) fn oldest_intended_ns(&self) -> Option<u64> {
        let in_flight = self.slots.iter().filter(|slot| slot.sent_ns > 0);
        in_flight.map(|slot| slot.intended_ns).min()
    }

    /// Every answer is in the report's histograms then.
    pub(super) fn place_all(&mut self) {
        self.unplaced.place(&mut self.report);
    }

    /// Writes what became of each kind into the report, `with` what its wire counts of it.
    pub(super) fn report_kinds(&mut self, with: impl Fn(u16, KindCounts) -> KindCounts) {
        let all = self.report.kinds.iter_mut().zip(&self.kinds);
        for (kind, (report, counts)) in (0..).zip(all) {
            report.counts = with(kind, *counts);
        }
    }

    /// Requests that should have been sent by now and were not. Asserts the identity: what is accounted for nowhere
    /// else is the backlog, and it is never negative.
    pub(super) fn backlog(&self) -> u64 {
        debug_assert_eq!(
            self.slots.iter().filter(|slot| slot.sent_ns > 0).count() as u64,
            self.counters.in_flight,
            "slots and count disagree"
        );
        self.counters.backlog()
    }
}

/// What is wrong with an answer that is whole.
#[inline]
fn failure_of(answer: &Answer) -> Option<Class> {
    if let Some(error) = answer.call.and_then(|call| call.error) {
        return Some(Class::Wire(error));
    }
    match answer.judged {
        Judged::ByStatus => {}
        Judged::Good => return None,
        Judged::Bad(error) => return Some(Class::Wire(error)),
    }
    let failure = match answer.status {
        Answer::NO_STATUS | 200..=399 => return None,
        400..=499 => Failure::Status4xx,
        500..=599 => Failure::Status5xx,
        _ => Failure::StatusOther,
    };
    Some(Class::Other(failure))
}
