//! Deadlines: when a request fails that has no answer, and whose lateness it was.

use wallfinder_model::drive::Edge;

use super::super::http1::{ANSWER, Http1, after, one_by_one};
use super::super::peer::{Script, says};
use super::super::world::{MS, SECOND, Sim};

const TOTAL: &str = "timeout.total";

#[test]
fn a_request_fails_at_its_deadline_and_the_next_starts_then() {
    let ran = Sim::closed(1, 1).timeout(15 * MS).http1(after(20 * MS));
    let at = |k: u64| k * (15 * MS + 1);
    assert_eq!(ran.failed_at(TOTAL), (1..=7).map(at).collect::<Vec<_>>());
    let intended: Vec<u64> = ran.samples.iter().map(|s| s.intended_ns).collect();
    assert_eq!(intended, (0..7).map(at).collect::<Vec<_>>());
    // An answer that may still come ends its connection, over HTTP/1; the next is opened at once.
    assert_eq!(ran.connects(), (1..=6).map(at).collect::<Vec<_>>());
    assert_eq!(ran.last().late_by_client, 0);
}

#[test]
fn no_good_answer_is_later_than_the_deadline() {
    // They take 5 ms and 25 ms in turn.
    let peer = Http1::new(|asked| {
        says(
            if asked.number % 2 == 0 {
                5 * MS
            } else {
                25 * MS
            },
            ANSWER,
        )
    });
    let ran = Sim::closed(1, 1).timeout(18 * MS).http1(peer);
    let mut from_ns = 0;
    for (k, sample) in ran.samples.iter().enumerate() {
        from_ns += if k % 2 == 0 { 5 * MS } else { 18 * MS + 1 };
        assert_eq!(sample.done_ns, from_ns);
        assert_eq!(sample.failed > 0, k % 2 == 1);
    }
    assert_eq!(ran.failed().keys().collect::<Vec<_>>(), [TOTAL]);
}

#[test]
fn an_answer_on_its_deadline_is_in_time() {
    let ran = Sim::closed(1, 1).timeout(20 * MS).http1(after(20 * MS));
    assert_eq!(ran.last().failed_total(), 0);
    assert_eq!(ran.at(Edge::Close).answered, 5);
}

/// Four at once on a connection, of which the first is answered after 5 ms, and the next is sent then.
#[test]
fn all_that_are_late_on_a_connection_are_late_and_the_others_are_abandoned() {
    let peer = Http1::new(|asked| match asked.nth {
        0 => says(5 * MS, ANSWER),
        _ => says(SECOND, ANSWER),
    });
    let ran = Sim::closed(1, 4)
        .timeout(15 * MS)
        .lasting(16 * MS)
        .http1(peer);
    assert_eq!(ran.failed_at(TOTAL)[..3], [15 * MS + 1; 3]);
    assert_eq!(ran.failed_at("net.abandoned")[0], 15 * MS + 1);
}

#[test]
fn looks_for_what_is_late_keep_a_distance() {
    // Two requests, 100 µs apart: the second is late so soon after the first was looked for.
    let sim = Sim::open(2, 10_000.0).timeout(15 * MS).lasting(50 * MS);
    let mut sim = sim;
    sim.load.stop.requests = Some(2);
    let ran = sim.http1(after(SECOND));
    let gap_ns = 500_000 + 2 * 50;
    let first_ns = 15 * MS + 1;
    assert_eq!(ran.failed_at(TOTAL), [first_ns, first_ns + gap_ns]);
}

#[test]
fn progress_byte_by_byte_is_no_excuse() {
    let peer = Http1::new(|_| {
        let bytes = (0..).zip(&ANSWER[..20]);
        let each = bytes.map(|(k, byte)| says(5 * k * MS, &[*byte]));
        each.collect::<Vec<Script>>().concat()
    });
    let ran = Sim::closed(1, 1).timeout(30 * MS).http1(peer);
    assert_eq!(ran.failed_at(TOTAL)[..2], [30 * MS + 1, 60 * MS + 2]);
    assert_eq!(ran.samples[0].first_byte_ns, 1);
}

#[test]
fn requests_of_a_schedule_expire_where_no_connection_is_free() {
    // Ten a second, and one connection that is never answered on.
    let ran = Sim::open(1, 10.0)
        .timeout(250 * MS)
        .lasting(SECOND)
        .http1(after(10 * SECOND));
    // The first is in flight; by its end at 250 ms two others wait, of which the older is sent at once, and so on.
    let totals = ran.at(Edge::Close);
    assert_eq!(ran.failed_at(TOTAL)[0], 250 * MS + 1);
    assert_eq!(totals.scheduled, 11);
    assert_eq!(totals.late_by_client, 0, "no connection was free");
    let sent = ran.samples.iter().filter(|sample| sample.sent_ns > 0);
    let unsent = ran.samples.len() - sent.count();
    assert_eq!(ran.last().expired_unsent, unsent as u64);
    for sample in &ran.samples {
        assert!(sample.done_ns > sample.intended_ns + 250 * MS);
    }
}

#[test]
fn what_expires_while_a_connection_is_free_was_made_late_by_the_worker() {
    // Its thread stands still for 60 ms, and requests have 20.
    let ran = Sim::open(40, 1_000.0)
        .timeout(20 * MS)
        .stall(10 * MS + MS / 2, 60 * MS)
        .http1(after(MS / 4));
    // Those of 11 ms to 50 ms: at 70.5 ms they are late.
    assert_eq!(ran.failed_at(TOTAL), [70 * MS + MS / 2; 40]);
    assert_eq!(ran.last().expired_unsent, 40);
    assert_eq!(ran.last().late_by_client, 40);
}

#[test]
fn an_answer_that_lay_unread_too_long_is_late_by_the_worker() {
    // It comes after 10 ms, and is read after 30: its request has 20.
    let ran = Sim::closed(1, 1)
        .timeout(20 * MS)
        .stall(5 * MS, 25 * MS)
        .lasting(31 * MS)
        .http1(after(10 * MS));
    let late = &ran.samples[0];
    assert_eq!((late.done_ns, late.status), (30 * MS, 200));
    assert_eq!(ran.failed()[TOTAL], 1);
    // Counted as an answer of no status, for it came too late.
    assert_eq!(ran.last().statuses[200], ran.last().answered);
}

#[test]
fn deadlines_hold_while_answers_are_waited_for() {
    let ran = Sim::closed(3, 1)
        .timeout(600 * MS)
        .lasting(200 * MS)
        .http1(after(30 * SECOND));
    let gap_ns = 600 * MS + 1;
    assert_eq!(ran.failed_at(TOTAL), [gap_ns; 3]);
    assert_eq!(ran.at(Edge::Close).in_flight, 3);
    assert_eq!(ran.end.drained_ns, gap_ns - 200 * MS);
    assert_eq!(ran.end.oldest_unanswered_ns, 0);
}

#[test]
fn a_deadline_passes_while_room_is_waited_for() {
    // Four want to, one may, and each takes 10 ms of a deadline of 25.
    let ran = Sim::closed(4, 1)
        .max_in_flight(1)
        .timeout(25 * MS)
        .http1(one_by_one(10 * MS));
    // The third is sent after 20 ms, and has five left; then there is room for the fourth, which has none.
    assert_eq!(ran.failed_at(TOTAL)[..2], [25 * MS + 1; 2]);
    let unsent = ran.samples.iter().filter(|sample| sample.sent_ns == 0);
    assert_eq!(unsent.count() as u64, ran.last().expired_unsent);
    assert!(ran.last().expired_unsent > 0);
    for sample in &ran.samples {
        let waited_ns = sample.done_ns - sample.intended_ns;
        assert!(sample.failed > 0 || waited_ns <= 25 * MS);
    }
}
