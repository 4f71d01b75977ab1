//! How long answers may gather before they are handled together.

use crate::counters::Counters;
use crate::publication::Report;

/// When answers queue at least this many times as long as the
/// quickest took, at most this part of their time is spent waiting for more of them.
const QUEUEING_TIMES: u64 = 4;
const BATCH_WAIT_PART: u64 = 8;
const BATCH_WAIT_MAX_NS: u64 = 200_000;
const BATCH_MAX: u64 = 32;
/// A lane busier than this in an open loop lets answers gather, for so long at the most.
const OPEN_BUSY: f64 = 0.5;
const OPEN_GATHER_US: u32 = 25;

/// How many completions to wait for together.
///
/// Handling answers one by one costs a system call each. Where answers queue at the
/// server anyway, a closed loop may let a few of them gather: the requests in flight and
/// the throughput fix the mean latency (N/X), so a short wait here only moves time from
/// the server's queue to this one. Where nothing queues, waiting would slow the loop
/// down, so there is none: the quickest answer tells the two apart.
///
/// What gathers are events of connections, and not answers. Requests that a connection carries
/// whole and in order keep coming while answers gather. Where it must make what it sends as
/// windows allow (streams), or an answer takes several events (long bodies), the peer may
/// stand still for want of what gathers here: then no more is waited for than connections can
/// bring, and an answer's events share the wait.
///
/// The end of a send that nobody waits for comes beside what gathers, and is none of it: the socket
/// takes most sends at once, and five of their ends are not five answers. Where nothing gathers, such an
/// end is taken as it comes: another call is cheap beside a timer, which a virtual machine pays its
/// host for whenever it is the next to go off.
///
/// An open loop's lane that is busy with one call for each request and one for each answer
/// falls behind its own schedule. Then, and only then, answers may gather for some
/// microseconds; what is due still goes out when it is due.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batching {
    batch: u32,
    wait_us: u32,
    quickest_ns: u64,
    /// Events before the last report.
    events: u64,
    /// Connections make what they send: streams, or records.
    makes_own: bool,
}

impl Batching {
    /// Nothing gathers.
    pub(crate) const ONE_BY_ONE: Batching = Batching {
        batch: 1,
        wait_us: 0,
        quickest_ns: u64::MAX,
        events: 0,
        makes_own: false,
    };

    /// Adapts an open loop to the lane's share of its processor.
    pub(crate) fn adapt_open(&mut self, busy: f64) {
        if busy > OPEN_BUSY {
            self.batch = BATCH_MAX as u32;
            self.wait_us = OPEN_GATHER_US;
        } else if busy < OPEN_BUSY / 3.0 {
            self.batch = 1;
        }
    }

    /// Adapts a closed loop to what the last report saw, and to how many connections have
    /// something in flight at most.
    pub(crate) fn adapt(&mut self, report: &Report, counters: &Counters, connections: u64) {
        let service = &report.service;
        let events = counters.events - self.events.min(counters.events);
        self.events = counters.events;
        self.batch = 1;
        if service.count() == 0 {
            return;
        }
        self.quickest_ns = self.quickest_ns.min(service.min_ns());
        // The mean, not the median: a server that favours some connections answers half of
        // the requests at once while the queue, which is N/X long, stands behind the others.
        let mean_ns = service.mean_ns() as u64;
        if mean_ns >= self.quickest_ns.saturating_mul(QUEUEING_TIMES) {
            let events_per_answer = events.div_ceil(service.count()).max(1);
            let wait_ns = (mean_ns / BATCH_WAIT_PART).min(BATCH_WAIT_MAX_NS) / events_per_answer;
            // 0 would be no limit.
            self.wait_us = (wait_ns / 1000).max(1) as u32;
            // While half of the connections gather, the peer has the other half to serve.
            let quarter = counters.in_flight / 4;
            let gathered = match self.makes_own || events_per_answer > 1 {
                true => quarter.min(connections / 2),
                false => quarter,
            };
            self.batch = gathered.clamp(1, BATCH_MAX) as u32;
        }
    }

    /// How many events to wait for, and for how many microseconds before one is enough (0: one is enough
    /// at once), while so many sends end in events that nobody waits for.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A lane that saw so many events, and answers of a quick one and of 20 ms each.
    fn adapted(events: u64, answers: u64, in_flight: u64, connections: u64, own: bool) -> Batching {
        let mut batching = Batching::ONE_BY_ONE;
        if own {
            batching.connections_make_what_they_send();
        }
        let mut report = Report::new();
        report.service.record(100_000);
        for _ in 1..answers {
            report.service.record(20_000_000);
        }
        let counters = Counters {
            events,
            in_flight,
            ..Counters::default()
        };
        batching.adapt(&report, &counters, connections);
        batching
    }

    #[test]
    fn answers_that_queue_gather() {
        let batching = adapted(100, 100, 64, 64, false);
        assert_eq!(batching.beside(0), (16, 200));
        let pipelined = adapted(10, 100, 1000, 10, false);
        assert_eq!(pipelined.beside(0), (32, 200));
    }

    /// 50 streams of 64 KB on one connection went at a quarter of their speed: each send and
    /// each receive waited for eleven others, which only its own end could have brought about.
    #[test]
    fn one_connection_waits_for_nobody() {
        let streams = adapted(10, 100, 50, 1, true);
        assert_eq!(streams.batch, 1);
        let long_answers = adapted(800, 100, 50, 1, false);
        assert_eq!(long_answers.batch, 1);
    }

    /// Two of ten at a time are hardly fewer system calls than one at a time.
    #[test]
    fn half_of_few_connections_gather() {
        let streams = adapted(100, 100, 100, 10, true);
        assert_eq!(streams.batch, 5);
        let one_each = adapted(100, 100, 10, 10, true);
        assert_eq!(one_each.batch, 2);
    }

    #[test]
    fn ends_of_sends_are_none_of_what_gathers() {
        let streams = adapted(100, 100, 100, 10, true);
        assert_eq!(streams.beside(4), (9, 200));
        // Who waits for one answer waits for no other, and sets no timer.
        assert_eq!(Batching::ONE_BY_ONE.beside(4), (1, 0));
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
