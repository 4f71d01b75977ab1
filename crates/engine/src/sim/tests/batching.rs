//! Batching: where answers queue, some of them are waited for together.

use super::super::http1::{after, one_by_one};
use super::super::world::{MS, Ran, SECOND, Sim};

/// Batches that were waited for, from an instant on.
fn batches(ran: &Ran, from_ns: u64) -> Vec<(u32, u32)> {
    let waits = ran.log.waits.iter().filter(|(at_ns, _)| *at_ns > from_ns);
    let mut batches: Vec<_> = waits.map(|(_, w)| (w.batch, w.batch_wait_us)).collect();
    batches.dedup();
    batches
}

fn queueing(no_batching: bool) -> Ran {
    let mut sim = Sim::closed(40, 1).lasting(SECOND);
    sim.load.no_batching = no_batching;
    // One request at a time is served, so that forty connections queue.
    sim.http1(one_by_one(MS / 10))
}

#[test]
fn answers_that_queue_are_waited_for_together() {
    let ran = queueing(false);
    // A quarter of the 39 that are in flight when a report is due, for at most 200 µs of the 4 ms that each waits.
    assert_eq!(batches(&ran, 100 * MS)[0], (9, 200));
    let totals = ran.last();
    assert!(totals.batching_waits > 0);
    assert_eq!(totals.batching_ns, 200_000 * totals.batching_waits);
    // Two come in 200 µs: half as many waits, and as many answers.
    let no_batching = queueing(true);
    assert_eq!(totals.answered, no_batching.last().answered);
    assert!(totals.waits < no_batching.last().waits * 6 / 10);
}

#[test]
fn without_batching_answers_are_taken_as_they_come() {
    let ran = queueing(true);
    assert_eq!(batches(&ran, 0), [(1, 0)]);
    assert_eq!((ran.last().batching_waits, ran.last().batching_ns), (0, 0));
}

#[test]
fn where_nothing_queues_nothing_is_waited_for() {
    let mut sim = Sim::closed(40, 1).lasting(SECOND);
    sim.load.no_batching = false;
    let ran = sim.http1(after(4 * MS));
    assert_eq!(batches(&ran, 0), [(1, 0)]);
}

#[test]
fn a_batch_is_no_longer_waited_for_than_the_next_task_allows() {
    let ran = queueing(false);
    for pair in ran.log.waits.windows(2) {
        let (at_ns, wait) = pair[0];
        let until_ns = at_ns + wait.timeout_ns.unwrap();
        assert!(pair[1].0 <= until_ns, "waited beyond {until_ns}");
    }
}

#[test]
fn a_busy_worker_of_an_open_loop_batches_for_a_moment() {
    let busy = |event_ns| {
        let mut sim = Sim::open(100, 10_000.0).lasting(400 * MS);
        sim.load.no_batching = false;
        sim.event_ns = event_ns;
        sim.http1(after(MS))
    };
    // 60 µs of each 100 are work; after the window nothing is batched.
    assert_eq!(batches(&busy(60_000), 150 * MS), [(32, 25), (1, 0)]);
    assert_eq!(batches(&busy(10_000), 0), [(1, 0)]);
}
