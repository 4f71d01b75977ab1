//! How many answers are waited for together, and for how long.

use crate::counters::Counters;
use crate::report::WorkerReport;

/// When answers queue at least this many times as long as the
/// quickest took, at most this part of their time is spent waiting for more of them.
const QUEUEING_TIMES: f64 = 4.0;
const BATCH_WAIT_PART: u64 = 8;
/// Where streams are answered several at once, the quickest that a worker can see is slower, for it sends on
/// all of its connections before it takes the first answers.
const STREAMS_QUEUEING_TIMES: f64 = 2.5;
/// A worker that sleeps while they are batched may sleep for this part of what most of them take,
const SLEEP_PART: f64 = 1.0 / 3.0;
/// have its whole turn, the sleep and the handling, last for this part of it,
const TURN_PART: f64 = 0.7;
/// and not for less than pays for its timer, which is so late and costs the worker almost as much.
const SLEEP_MIN_NS: f64 = 30_000.0;
const TIMER_LATE_NS: f64 = 8_000.0;
const BATCH_WAIT_MAX_NS: u64 = 200_000;
const BATCH_MAX: u64 = 32;
/// A worker busier than this in an open loop batches answers, for so long at the most.
const OPEN_BUSY: f64 = 0.5;
const OPEN_BATCH_US: u32 = 25;

/// How many completions to wait for together.
///
/// Each answer that is handled alone costs a system call. Where answers queue at the
/// server anyway, a closed loop may wait for a few of them: the requests in flight and
/// the throughput fix the mean latency (N/X), so a short wait here only moves time from
/// the server's queue to this one. Where nothing queues, a wait would slow the loop
/// down, so there is none: the quickest answer tells the two apart. What a connection brings at once
/// counts as one, by the slowest of it: the last of ten answers that were made one after the other
/// is slower than the first without any queue of connections.
///
/// A batch is of events of connections, and not of answers. Requests that a connection carries
/// whole and in order keep coming while answers are batched. Where the connection must make what it sends as
/// windows allow (streams), or an answer takes several events (long bodies), the peer may
/// stand still for want of what is batched here: then no more is waited for than connections can
/// bring, and an answer's events share the wait.
///
/// Where several streams of a connection are answered at once, a wake-up for each connection costs more
/// than its answers do: there the worker sleeps. It should be woken by its own timer, since a wake-up by the peer is
/// charged to the peer's CPU. So it waits for more connections than can be answered meanwhile, yet
/// not for all: where the worker itself is the slow part, the others stand ready. And it sleeps for so
/// long only that the peer still has something to do when the worker has handled what it slept for.
///
/// The end of a send that nothing waits for comes beside the batch, and is no part of it: the socket
/// takes most sends at once, and five of their ends are not five answers. Where nothing is batched, such an
/// end is taken as it comes: another call is cheap beside a timer, which a virtual machine pays its
/// host for whenever it is the next to go off.
///
/// An open loop's worker that is busy with one call for each request and one for each answer
/// falls behind its own schedule. Then, and only then, answers may be batched for some
/// microseconds; what is to start still goes out in time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batching {
    batch: u32,
    wait_us: u32,
    brought: Brought,
    /// The least of what `brought` ever was.
    quickest_ns: u64,
    /// Events before the last report.
    events: u64,
    /// Connections make what they send: streams, or records.
    makes_own: bool,
}

/// What connections brought since the last report: answers that came at once count as one time, that of the
/// slowest.
#[derive(Debug, Clone, Copy)]
struct Brought {
    answers: u64,
    times: u64,
    sum_ns: u64,
    min_ns: u64,
}

impl Brought {
    const NOTHING: Brought = Brought {
        answers: 0,
        times: 0,
        sum_ns: 0,
        min_ns: u64::MAX,
    };

    fn mean_ns(&self) -> u64 {
        self.sum_ns / self.times.max(1)
    }
}

impl Batching {
    /// Nothing is batched.
    pub(crate) const NONE: Batching = Batching {
        batch: 1,
        wait_us: 0,
        brought: Brought::NOTHING,
        quickest_ns: u64::MAX,
        events: 0,
        makes_own: false,
    };

    /// Adapts an open loop to the worker's share of its processor.
    pub(crate) fn adapt_open(&mut self, busy: f64) {
        if busy > OPEN_BUSY {
            self.batch = BATCH_MAX as u32;
            self.wait_us = OPEN_BATCH_US;
        } else if busy < OPEN_BUSY / 3.0 {
            self.batch = 1;
        }
    }

    /// Adapts a closed loop to what the last report saw, to how many connections have
    /// something in flight at most, and to the worker's share of its processor.
    pub(crate) fn adapt(
        &mut self,
        report: &WorkerReport,
        counters: &Counters,
        connections: u64,
        busy: f64,
    ) {
        let service = &report.service;
        let events = counters.events - self.events.min(counters.events);
        self.events = counters.events;
        let brought = std::mem::replace(&mut self.brought, Brought::NOTHING);
        self.batch = 1;
        if brought.answers == 0 || service.count() == 0 {
            return;
        }
        self.quickest_ns = self.quickest_ns.min(brought.min_ns);
        // The mean, not the median: a server that favours some connections answers half of
        // the requests at once while the queue, which is N/X long, stands behind the others.
        let queue = |times: f64| brought.mean_ns() as f64 >= times * self.quickest_ns as f64;
        let mean_ns = service.mean_ns() as u64;
        let mut sleep_ns = None;
        if self.makes_own && brought.answers >= 2 * events && queue(STREAMS_QUEUEING_TIMES) {
            // What is favoured is not held for as long as the others take.
            sleep_ns = sleep_for(mean_ns.min(service.quantile_ns(0.5)), busy);
        }
        if sleep_ns.is_none() && !queue(QUEUEING_TIMES) {
            return;
        }
        let events_per_answer = events.div_ceil(brought.answers).max(1);
        let wait_ns = sleep_ns
            .unwrap_or(mean_ns / BATCH_WAIT_PART)
            .min(BATCH_WAIT_MAX_NS);
        // 0 would be no limit.
        self.wait_us = (wait_ns / events_per_answer / 1000).max(1) as u32;
        let quarter = counters.in_flight / 4;
        let wanted = if sleep_ns.is_some() {
            connections * 3 / 4
        } else if self.makes_own || events_per_answer > 1 {
            // While half of the connections are waited for, the peer has the other half to serve.
            quarter.min(connections / 2)
        } else {
            quarter
        };
        self.batch = wanted.clamp(1, BATCH_MAX) as u32;
    }

    /// A connection brought so many answers at once, and the slowest of them took so long.
    #[inline]
    pub(crate) fn bring(&mut self, answers: u64, slowest_ns: u64) {
        self.brought.answers += answers;
        self.brought.times += 1;
        // In an open loop it is never asked for, however long that takes.
        self.brought.sum_ns = self.brought.sum_ns.saturating_add(slowest_ns);
        self.brought.min_ns = self.brought.min_ns.min(slowest_ns);
    }

    /// How many events to wait for, and for how many microseconds before one is enough (0: one is enough
    /// at once), while so many sends end in events that nothing waits for.
    #[inline]
    pub(crate) fn beside(&self, unawaited: u32) -> (u32, u32) {
        if self.batch == 1 {
            return (1, 0);
        }
        (self.batch + unawaited, self.wait_us)
    }

    /// What is sent is made by connections: streams, or records.
    #[inline]
    pub(crate) fn connections_make_what_they_send(&mut self) {
        self.makes_own = true;
    }
}

/// How long a worker that is so busy may sleep, while answers that take so long queue; nothing when that would
/// not pay.
fn sleep_for(usual_ns: u64, busy: f64) -> Option<u64> {
    let usual_ns = usual_ns as f64;
    // While it sleeps as much comes as keeps it busy for its share of the turn.
    let within_turn_ns = TURN_PART * usual_ns * (1.0 - busy.min(1.0)) - TIMER_LATE_NS;
    let sleep_ns = within_turn_ns.min(SLEEP_PART * usual_ns);
    (sleep_ns >= SLEEP_MIN_NS).then_some(sleep_ns as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker that saw so many events, and so many answers one by one: a quick one, and others of 20 ms.
    fn adapted(events: u64, answers: u64, in_flight: u64, connections: u64, own: bool) -> Batching {
        let slow = std::iter::repeat_n((1, 20_000_000), answers as usize - 1);
        let brought: Vec<(u64, u64)> = std::iter::once((1, 100_000)).chain(slow).collect();
        adapted_to(&brought, events, in_flight, connections, own, 0.5)
    }

    /// A worker to which connections brought so many answers at once, all of them in that many nanoseconds.
    fn adapted_to(
        brought: &[(u64, u64)],
        events: u64,
        in_flight: u64,
        connections: u64,
        own: bool,
        busy: f64,
    ) -> Batching {
        let mut batching = Batching::NONE;
        if own {
            batching.connections_make_what_they_send();
        }
        let mut report = WorkerReport::new(None);
        for &(answers, ns) in brought {
            batching.bring(answers, ns);
            for _ in 0..answers {
                report.service.record(ns);
            }
        }
        let counters = Counters {
            events,
            in_flight,
            ..Counters::default()
        };
        batching.adapt(&report, &counters, connections, busy);
        batching
    }

    #[test]
    fn answers_that_queue_are_batched() {
        let batching = adapted(100, 100, 64, 64, false);
        assert_eq!(batching.beside(0), (16, 200));
        let together = [vec![(10, 100_000)], vec![(10, 20_000_000); 9]].concat();
        let pipelined = adapted_to(&together, 10, 1000, 10, false, 0.5);
        assert_eq!(pipelined.beside(0), (32, 200));
        // A quick one that was seen before counts as well.
        let mut later = batching;
        let mut report = WorkerReport::new(None);
        report.service.record(20_000_000);
        later.bring(1, 20_000_000);
        let counters = Counters {
            events: 101,
            in_flight: 64,
            ..Counters::default()
        };
        later.adapt(&report, &counters, 64, 0.5);
        assert_eq!(later.beside(0), (16, 200));
    }

    #[test]
    fn a_worker_sleeps_while_streams_are_batched_that_are_answered_at_once() {
        // Ten streams each: a receive, and the end of a send.
        let brought = [vec![(10, 40_000)], vec![(10, 240_000); 99]].concat();
        let waits = |brought: &[(u64, u64)], own, busy| {
            adapted_to(brought, 200, 100, 10, own, busy).beside(0)
        };
        // A third.
        assert_eq!(waits(&brought, true, 0.2), (7, 79));
        // What it handles afterwards takes as long again: 0.7 of the half, less what the timer is late.
        assert_eq!(waits(&brought, true, 0.5), (7, 75));
        // As before where its turn would be too long, or the timer too dear.
        assert_eq!(waits(&brought, true, 0.8), (5, 29));
        let quick = [vec![(10, 10_000)], vec![(10, 80_000); 99]].concat();
        assert_eq!(waits(&quick, true, 0.2), (5, 9));
        // Requests that no connection makes, or that are answered one at a time.
        assert_eq!(waits(&brought, false, 0.2), (25, 29));
        let no_batching: Vec<(u64, u64)> = brought.iter().map(|&(_, ns)| (1, ns)).collect();
        assert_eq!(waits(&no_batching, true, 0.2).1, 14);
        // Others wait for what an unfair server does not answer; most are not held for that long.
        let unfair = [
            vec![(10, 10_000)],
            vec![(10, 90_000); 70],
            vec![(10, 900_000); 29],
        ]
        .concat();
        assert_eq!(waits(&unfair, true, 0.2).1, 30);
    }

    /// The last of ten answers that are made one after the other is slower than the first, wherever each
    /// connection has a server of its own: there is no queue that a wait could be taken from.
    #[test]
    fn answers_that_came_at_once_are_no_queue() {
        let brought = [vec![(10, 90_000)], vec![(10, 110_000); 99]].concat();
        let mut batching = Batching::NONE;
        let mut report = WorkerReport::new(None);
        for (answers, slowest_ns) in brought {
            batching.bring(answers, slowest_ns);
            for answer in 1..=answers {
                report.service.record(answer * slowest_ns / answers);
            }
        }
        let counters = Counters {
            events: 200,
            in_flight: 100,
            ..Counters::default()
        };
        batching.adapt(&report, &counters, 10, 0.1);
        assert_eq!(batching.batch, 1);
    }

    /// 50 streams of 64 KB on one connection went at a quarter of their speed: each send and
    /// each receive waited for eleven others, which only its own end could have brought about.
    #[test]
    fn one_connection_waits_for_no_other() {
        let streams = adapted_to(&[(5, 100_000), (5, 20_000_000)], 4, 50, 1, true, 0.1);
        assert_eq!(streams.batch, 1);
        let long_answers = adapted(800, 100, 50, 1, false);
        assert_eq!(long_answers.batch, 1);
    }

    /// Two of ten at a time are hardly fewer system calls than one at a time.
    #[test]
    fn half_of_few_connections_are_batched() {
        let streams = adapted(100, 100, 100, 10, true);
        assert_eq!(streams.batch, 5);
        let one_each = adapted(100, 100, 10, 10, true);
        assert_eq!(one_each.batch, 2);
    }

    #[test]
    fn ends_of_sends_are_no_part_of_a_batch() {
        let streams = adapted(100, 100, 100, 10, true);
        assert_eq!(streams.beside(4), (9, 200));
        // A wait for one answer is for no other, and sets no timer.
        assert_eq!(Batching::NONE.beside(4), (1, 0));
    }

    #[test]
    fn a_wait_has_a_limit_where_an_answer_takes_very_many_events() {
        let batching = adapted(100_000, 100, 64, 64, false);
        assert_eq!(batching.beside(0), (16, 1));
    }

    #[test]
    fn the_events_of_an_answer_share_its_wait() {
        let batching = adapted(800, 100, 64, 64, false);
        assert_eq!(batching.beside(0), (16, 25));
    }
}
