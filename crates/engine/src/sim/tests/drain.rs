//! After the window: what is in flight is waited for, and no request begins any more.

use wallfinder_model::Nanos;
use wallfinder_model::drive::Edge;

use super::super::http1::{ANSWER, Http1, after};
use super::super::http2::{DATA, Http2, answer, frame};
use super::super::peer::{Script, says};
use super::super::world::{MS, SECOND, Sim};

/// Every tenth answer takes long.
fn with_slow_ones(
    slow_ns: u64,
) -> Http1<impl FnMut(super::super::http1::Asked) -> Vec<(u64, super::super::peer::Does)>> {
    Http1::new(move |asked| says(if asked.number % 10 == 3 { slow_ns } else { MS }, ANSWER))
}

#[test]
fn a_drain_that_is_long_enough_knows_what_slow_answers_took() {
    let mut sim = Sim::open(100, 100.0).lasting(800 * MS);
    sim.load.drain = Nanos::from_secs(5);
    let ran = sim.http1(with_slow_ones(1_200 * MS));
    // Those of 30 ms, 130 ms, … 730 ms.
    assert_eq!(ran.at(Edge::Close).in_flight, 8 + 1);
    assert_eq!(ran.last().in_flight, 0);
    assert_eq!(ran.end.oldest_unanswered_ns, 0);
    // It is over when the last is answered.
    assert_eq!(ran.end.drained_ns, 730 * MS + 1_200 * MS - 800 * MS);
    let slow = ran
        .samples
        .iter()
        .filter(|s| s.done_ns - s.intended_ns == 1_200 * MS);
    assert_eq!(slow.count(), 8);
}

#[test]
fn what_has_no_answer_in_the_end_is_told_with_its_age() {
    let mut sim = Sim::open(100, 100.0).lasting(800 * MS);
    sim.load.drain = Nanos(200 * MS);
    let ran = sim.http1(with_slow_ones(3 * SECOND));
    assert_eq!(ran.last().in_flight, 8);
    assert_eq!(ran.end.drained_ns, 200 * MS);
    assert_eq!(ran.end.oldest_unanswered_ns, SECOND - 30 * MS);
    assert_eq!(ran.last().failed_total(), 0);
}

/// A window of 400 bytes for bodies of 1,000: 400 at once, 400 after 4 ms, 200 after 8 ms, the answer after 9 ms.
#[test]
fn a_request_that_has_begun_is_sent_to_its_end_while_answers_are_waited_for() {
    const WINDOW_UPDATE: u8 = 8;
    let peer = Http2::new(&[0, 4, 0, 0, 1, 0x90], |asked| {
        match (asked.kind, asked.nth % 3) {
            (DATA, 0 | 1) => says(
                4 * MS,
                &frame(WINDOW_UPDATE, 0, asked.stream, &400u32.to_be_bytes()),
            ),
            (DATA, _) => says(MS, &answer(asked.stream)),
            _ => Script::new(),
        }
    });
    let ran = Sim::closed(1, 1).lasting(20 * MS).http2(1_000, peer);
    // The third began at 18 ms.
    assert_eq!(ran.at(Edge::Close).in_flight, 1);
    assert_eq!((ran.last().answered, ran.last().in_flight), (3, 0));
    assert_eq!(ran.end.drained_ns, 27 * MS - 20 * MS);
}

#[test]
fn no_request_begins_while_answers_are_waited_for() {
    let ran = Sim::closed(5, 1).lasting(95 * MS).http1(after(10 * MS));
    assert_eq!(ran.at(Edge::Close).issued, ran.last().issued);
    assert_eq!(ran.end.drained_ns, 5 * MS);
    assert_eq!(ran.last().backlog(), 0);
}

#[test]
fn only_requests_that_started_early_enough_are_timed_while_they_drain() {
    // With a warm-up of 100 ms those that started within 100 ms of the end stand for those that were in flight
    // when the window opened.
    let mut sim = Sim::open(400, 100.0).lasting(400 * MS);
    sim.load.warmup = Nanos(100 * MS);
    let ran = sim.http1(after(150 * MS));
    let timed: u64 = ran.published.iter().map(|p| p.timed).sum();
    // Of 51 requests, those with an intended start up to 400 ms, less none: the first ended within the window.
    assert_eq!(ran.last().scheduled, 51);
    let before_close = ran.at(Edge::Close).answered;
    assert_eq!(before_close, 36);
    let drained = 400 / 10 + 1 - 36;
    assert_eq!(timed, before_close + drained);
    // The same ones are kept.
    assert_eq!(ran.samples.len() as u64, timed);
}

#[test]
fn an_interrupted_load_waits_for_a_second_at_most() {
    let mut sim = Sim::closed(2, 1).lasting(60 * SECOND).stop_at(300 * MS);
    sim.load.drain = Nanos::from_secs(30);
    sim.load.timeout = Nanos::from_secs(60);
    let ran = sim.http1(after(40 * SECOND));
    let close = ran.published.iter().find(|p| p.edge == Some(Edge::Close));
    assert_eq!(close.unwrap().to_ns, 300 * MS);
    assert_eq!(ran.end.drained_ns, SECOND);
    assert_eq!(ran.last().in_flight, 2);
}

#[test]
fn a_load_that_is_stopped_in_its_warm_up_has_an_empty_window() {
    let mut sim = Sim::closed(2, 1).stop_at(35 * MS);
    sim.load.warmup = Nanos(60 * MS);
    let ran = sim.http1(after(10 * MS));
    let change = ran.at(Edge::Close).since(ran.at(Edge::Open));
    assert_eq!((change.answered, change.scheduled), (0, 0));
    assert_eq!(ran.at(Edge::Open).answered, 6);
}

#[test]
fn a_load_that_is_given_up_waits_for_nothing() {
    let sim = Sim::closed(2, 1).lasting(60 * SECOND);
    let ran = sim
        .stop_at(300 * MS)
        .abort_at(300 * MS)
        .http1(after(40 * SECOND));
    assert_eq!(ran.end.drained_ns, 0);
    assert_eq!(ran.last().in_flight, 2);
}
