//! Open loops: requests start by a schedule, whatever becomes of those before.

use wallfinder_model::drive::{Edge, Share};
use wallfinder_model::{Arrival, Nanos, Rate};

use super::super::http1::{ANSWER, Http1, after};
use super::super::peer::says;
use super::super::world::{MS, SECOND, Sim};
use crate::schedule::Schedule;

#[test]
fn an_even_schedule_is_kept_to_the_nanosecond() {
    let ran = Sim::open(4, 1_000.0).http1(after(MS / 2));
    let expected = (0..101).map(|k| (k * MS, (k * MS).max(1), k * MS + MS / 2));
    assert_eq!(ran.times(), expected.collect::<Vec<_>>());
    let lateness: u64 = ran.published.iter().map(|report| report.lateness).sum();
    assert_eq!(lateness, 101);
}

#[test]
fn arrivals_at_random_are_those_of_their_seed() {
    for seed in [1, 2] {
        let mut sim = Sim::open(20, 500.0);
        sim.load.arrival = Arrival::Poisson { rate: Rate(500.0) };
        sim.seed = seed;
        let mut schedule =
            Schedule::new(&sim.load.arrival, Share::WHOLE, seed, u64::MAX, None).unwrap();
        let ran = sim.http1(after(MS));
        let intended: Vec<u64> = ran.samples.iter().map(|s| s.intended_ns).collect();
        let mut expected = Vec::new();
        while let Some(at_ns) = schedule.next_intended_ns().filter(|at| *at <= 100 * MS) {
            expected.push(at_ns);
            schedule.take();
        }
        assert_eq!(intended, expected);
        assert!(ran.samples.iter().all(|s| s.done_ns == s.intended_ns + MS));
    }
}

#[test]
fn a_ramp_starts_requests_as_its_rate_grows() {
    let mut sim = Sim::open(4, 1.0).lasting(SECOND);
    let (from, to) = (Rate(100.0), Rate(300.0));
    let over = Nanos(SECOND);
    sim.load.arrival = Arrival::Ramp { from, to, over };
    let ran = sim.http1(after(MS));
    assert_eq!(ran.at(Edge::Close).scheduled, 201);
    // By the middle a quarter of what the rate grows by is not there yet: 100/2 + 200/8.
    let by_half = ran.samples.iter().filter(|s| s.intended_ns <= SECOND / 2);
    assert_eq!(by_half.count(), 76);
}

#[test]
fn a_backlog_is_latency_and_what_was_never_sent_is_told_apart() {
    // One connection carries 20 a second of 200.
    let ran = Sim::open(1, 200.0).lasting(800 * MS).http1(after(50 * MS));
    let totals = ran.at(Edge::Close);
    assert_eq!(totals.scheduled, 161);
    assert_eq!((totals.answered, totals.in_flight), (16, 1));
    assert_eq!(totals.backlog(), 144);
    for (k, (intended_ns, sent_ns, done_ns)) in (0..).zip(ran.times()) {
        assert_eq!(intended_ns, 5 * k * MS);
        assert_eq!(sent_ns, (50 * k * MS).max(1));
        assert_eq!(done_ns, 50 * (k + 1) * MS);
    }
    // Of the backlog the first was to start after 17 others, and nothing was waited for 50 ms later.
    assert_eq!(ran.last().backlog(), 144);
    assert_eq!(ran.end.drained_ns, 50 * MS);
    assert_eq!(ran.end.oldest_unanswered_ns, 850 * MS - 5 * 17 * MS);
    // Lateness is the worker's own: while no connection is free there is none.
    let lateness: u64 = ran.published.iter().map(|report| report.lateness).sum();
    assert_eq!(lateness, 1);
}

#[test]
fn a_stall_shows_in_every_request_that_was_to_start_meanwhile() {
    // One connection, 1,000 requests a second, each served in 0.1 ms, and one that takes 50 ms.
    let peer = Http1::new(|asked| match asked.number {
        100 => says(50 * MS, ANSWER),
        _ => says(MS / 10, ANSWER),
    });
    let ran = Sim::open(1, 1_000.0).lasting(200 * MS).http1(peer);
    for (k, (intended_ns, _, done_ns)) in (0..).zip(ran.times()) {
        assert_eq!(intended_ns, k * MS);
        let expected_ns = match k {
            // 55 wait behind it, and are caught up with.
            100..=155 => 150 * MS + (k - 100) * (MS / 10),
            _ => k * MS + MS / 10,
        };
        assert_eq!(done_ns, expected_ns, "request {k}");
    }
}

#[test]
fn a_worker_with_a_processor_to_itself_polls_before_a_request() {
    let mut sim = Sim::open(2, 100.0).lasting(95 * MS);
    sim.polls = true;
    let ran = sim.http1(after(MS));
    // Not before the first, which starts at zero.
    assert_eq!(ran.last().polled_ns, 9 * 200_000);
    assert!(ran.samples.iter().all(|s| s.done_ns == s.intended_ns + MS));
}

#[test]
fn what_the_worker_sends_late_counts_from_when_it_should_have_been_sent() {
    // Its thread stands still from 20 ms on for 30.
    let ran = Sim::open(40, 1_000.0)
        .stall(20 * MS + MS / 2, 30 * MS)
        .http1(after(MS / 4));
    for (k, (intended_ns, sent_ns, done_ns)) in (0..).zip(ran.times()) {
        assert_eq!(intended_ns, k * MS);
        let from_ns = match k {
            21..=50 => 50 * MS + MS / 2,
            _ => k * MS,
        };
        assert_eq!(sent_ns, from_ns.max(1), "request {k}");
        assert_eq!(done_ns, from_ns + MS / 4, "request {k}");
    }
}

#[test]
fn after_a_warm_up_a_counted_schedule_is_counted_by_intended_starts() {
    let mut sim = Sim::open(4, 1_000.0);
    sim.load.warmup = Nanos(20 * MS + 700_000);
    sim.load.stop.requests = Some(30);
    let ran = sim.http1(after(MS / 2));
    let change = ran.at(Edge::Close).since(ran.at(Edge::Open));
    assert_eq!((change.scheduled, change.answered), (30, 30));
    assert_eq!(ran.published.last().unwrap().to_ns, 50 * MS + MS / 2);
}

#[test]
fn a_counted_schedule_ends_with_its_last_answer() {
    let mut sim = Sim::open(4, 1_000.0);
    sim.load.stop.requests = Some(30);
    let ran = sim.http1(after(MS / 2));
    assert_eq!(ran.last().answered, 30);
    assert_eq!(ran.published.last().unwrap().to_ns, 29 * MS + MS / 2);
}

#[test]
fn connections_are_used_in_turn() {
    let ran = Sim::open(4, 1_000.0).http1(after(MS / 2));
    assert_eq!(ran.end.answering, 4);
    let fairness = crate::worker::Shares::fairness(&[ran.end.shares.unwrap()]).unwrap();
    // 100 answers within the window.
    assert_eq!(fairness, 1.0);
}
