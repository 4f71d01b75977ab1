//! Closed loops: the next request starts with the answer to the one before, after a pause for thought.

use wallfinder_model::Nanos;
use wallfinder_model::drive::Edge;

use super::super::http1::{ANSWER, Http1, after, one_by_one};
use super::super::peer::{Take, says};
use super::super::world::{MS, Sim};

#[test]
fn each_answer_starts_the_next_request_at_the_same_instant() {
    let ran = Sim::closed(2, 1).http1(after(10 * MS));
    let totals = ran.at(Edge::Close);
    assert_eq!((totals.answered, totals.in_flight), (20, 2));
    assert_eq!(totals.in_flight_area, u128::from(2 * 100 * MS));
    assert_eq!((ran.last().answered, ran.last().in_flight), (22, 0));
    for (at, (intended_ns, sent_ns, done_ns)) in ran.times().into_iter().enumerate() {
        let from_ns = at as u64 / 2 * 10 * MS;
        assert_eq!(intended_ns, from_ns);
        // A sample's 0 stands for what never was.
        assert_eq!(sent_ns, from_ns.max(1));
        assert_eq!(done_ns, from_ns + 10 * MS);
    }
}

#[test]
fn a_pause_for_thought_comes_before_each_request_but_the_first() {
    let ran = Sim::closed(1, 1).thinking(3 * MS).http1(after(7 * MS));
    let expected = (0..11).map(|k| (10 * k * MS, (10 * k * MS).max(1), (10 * k + 7) * MS));
    assert_eq!(ran.times(), expected.collect::<Vec<_>>());
    assert_eq!(ran.at(Edge::Close).in_flight_area, u128::from(70 * MS));
}

#[test]
fn requests_in_flight_on_one_connection_queue_at_the_server() {
    let ran = Sim::closed(1, 4).lasting(20 * MS).http1(one_by_one(MS));
    for (at, (intended_ns, _, done_ns)) in ran.times().into_iter().enumerate() {
        let at = at as u64;
        assert_eq!(intended_ns, at.saturating_sub(3) * MS);
        assert_eq!(done_ns, (at + 1) * MS);
    }
    assert_eq!(ran.samples.len(), 24);
}

#[test]
fn a_counted_load_makes_as_many_requests_and_ends_with_the_last_answer() {
    let mut sim = Sim::closed(3, 1);
    sim.load.stop.requests = Some(7);
    let ran = sim.http1(after(10 * MS));
    let totals = ran.at(Edge::Close);
    assert_eq!((totals.scheduled, totals.answered), (7, 7));
    assert_eq!(ran.published.last().unwrap().to_ns, 30 * MS);
    assert_eq!(ran.end.drained_ns, 0);
}

#[test]
fn after_a_warm_up_a_load_is_counted_by_the_answers_of_its_window() {
    let mut sim = Sim::closed(2, 1);
    sim.load.warmup = Nanos(25 * MS);
    sim.load.stop.requests = Some(5);
    let ran = sim.http1(after(10 * MS));
    let change = ran.at(Edge::Close).since(ran.at(Edge::Open));
    // Two are under way when the window opens.
    assert_eq!((change.answered, change.issued), (5, 3));
    assert_eq!(ran.published.last().unwrap().to_ns, 50 * MS);
    // Only what ends in the window is kept one by one.
    let ends: Vec<u64> = ran.samples.iter().map(|sample| sample.done_ns).collect();
    assert_eq!(ends, [30 * MS, 30 * MS, 40 * MS, 40 * MS, 50 * MS]);
}

#[test]
fn the_first_byte_is_timed_where_an_answer_comes_in_parts() {
    let ran = Sim::closed(1, 1).lasting(9 * MS).http1(Http1::new(|_| {
        let (head, rest) = ANSWER.split_at(20);
        [says(2 * MS, head), says(5 * MS, rest)].concat()
    }));
    let parts = ran.samples.iter().map(|s| (s.first_byte_ns, s.done_ns));
    assert_eq!(
        parts.collect::<Vec<_>>(),
        [(2 * MS, 5 * MS), (7 * MS, 10 * MS)]
    );
}

#[test]
fn a_socket_that_takes_little_or_takes_its_time_gets_all_of_a_request() {
    let sends = |take: Take| {
        let peer = after(4 * MS).taking(move |_, _, _| take);
        let ran = Sim::closed(1, 1).lasting(5 * MS).http1(peer);
        let ends = ran.samples.iter().map(|sample| sample.done_ns);
        (ends.collect::<Vec<_>>(), ran.last().bytes_out)
    };
    let (ends, bytes) = sends(Take::All);
    assert_eq!(ends, [4 * MS, 8 * MS]);
    assert_eq!(sends(Take::Part(7)), (ends, bytes));
    // Of the time until it is taken nothing is left out.
    assert_eq!(sends(Take::Later(MS)), (vec![5 * MS, 10 * MS], bytes));
}

#[test]
fn answers_are_shared_out_among_connections_as_the_server_does() {
    let ran = Sim::closed(2, 1).http1(Http1::new(|asked| {
        says(if asked.conn == 0 { MS } else { 20 * MS }, ANSWER)
    }));
    let shares = ran.end.shares.unwrap();
    let fairness = crate::worker::Shares::fairness(&[shares]).unwrap();
    // 100 answers and 5: (105)² / (2 · (100² + 5²)).
    assert_eq!(fairness, 11_025.0 / 20_050.0);
    assert_eq!(ran.end.answering, 2);
}
