//! Connections that end: when they are opened again, and what becomes of the requests in flight.

use wallfinder_model::drive::Edge;
use wallfinder_sys::Errno;
use wallfinder_wire::random::mixed;

use super::super::http1::{ANSWER, Http1, LAST_ANSWER, after, closes};
use super::super::io::START_NS;
use super::super::peer::{Connect, Does, says};
use super::super::world::{MS, SECOND, Sim};
use crate::samples::RequestSample;
use crate::worker::CONNECTING_MAX;

/// Pauses before attempts that follow so many failures in a row, of one connection.
fn back_offs(seed: u64, failures: u32) -> Vec<u64> {
    let mut randomness = mixed(seed);
    let pauses = (0..failures).map(|before| {
        let pause_ns = ((5 * MS) << before.min(10)).min(SECOND);
        randomness = mixed(randomness);
        pause_ns / 2 + randomness % pause_ns
    });
    pauses.collect()
}

/// What comes after one another, from a beginning on.
fn one_after_another(from_ns: u64, spans: &[u64]) -> Vec<u64> {
    let mut at_ns = from_ns;
    let instants = spans.iter().map(|span| {
        at_ns += span;
        at_ns
    });
    instants.collect()
}

#[test]
fn attempts_that_are_refused_back_off_by_doubling() {
    let peer = after(0).connecting(|_, nth, _| match nth {
        0 => Connect::Accept { after_ns: 0 },
        _ => Connect::Refuse {
            after_ns: 0,
            errno: Errno::CONNREFUSED,
        },
    });
    // The server goes at 0, with the first request unanswered.
    let peer = peer_that_goes(peer);
    let ran = Sim::closed(1, 1).lasting(4 * SECOND).http1(peer);
    let spans = back_offs(1, 16);
    // The connection that was lost without an answer is the first failure in a row.
    let connects = one_after_another(0, &spans);
    let within = connects.iter().copied().filter(|at| *at <= 4 * SECOND);
    assert_eq!(ran.connects(), within.collect::<Vec<_>>());
    assert_eq!(
        ran.connect_failed()["net.refused"],
        ran.connects().len() as u64
    );
    assert_eq!(ran.failed()["net.closed.wait"], 1);
    // What is not connected has nothing in flight, and its request waits.
    assert_eq!(ran.last().in_flight, 0);
}

fn peer_that_goes(
    refusing: Http1<impl FnMut(super::super::http1::Asked) -> super::super::peer::Script>,
) -> impl super::super::peer::Peer {
    refusing.serving(|_| closes(0))
}

#[test]
fn an_answer_ends_a_row_of_failures() {
    // Of each connection the first request is answered and the second hung up on.
    let peer = Http1::new(|asked| match asked.nth {
        0 => says(MS, ANSWER),
        _ => closes(0),
    });
    let ran = Sim::closed(1, 1).lasting(10 * MS).http1(peer);
    // Opened again at once, each time.
    let expected: Vec<u64> = (1..=10).map(|k| k * MS).collect();
    assert_eq!(ran.connects(), expected[..9]);
    assert_eq!(ran.failed_at("net.closed.wait"), expected);
}

#[test]
fn a_server_that_hangs_up_is_not_tried_in_a_hot_loop() {
    let ran = Sim::closed(1, 1)
        .lasting(SECOND)
        .http1(Http1::new(|_| closes(0)));
    let expected = one_after_another(0, &back_offs(1, 12));
    let within = expected.iter().copied().filter(|at| *at <= SECOND);
    let within: Vec<u64> = within.collect();
    assert_eq!(ran.connects(), within);
    assert_eq!(ran.failed()["net.closed.wait"], within.len() as u64 + 1);
}

#[test]
fn an_attempt_without_an_answer_ends_after_five_seconds() {
    let peer = after(MS).connecting(|_, nth, _| match nth {
        0 | 1 => Connect::Refuse {
            after_ns: 0,
            errno: Errno::CONNREFUSED,
        },
        2 => Connect::Silence,
        _ => Connect::Accept { after_ns: 3 * MS },
    });
    let ran = Sim::closed(1, 1).lasting(7 * SECOND).http1(peer);
    assert_eq!(ran.connect_failed()["timeout.connect"], 1);
    let [silent_since_ns, again_ns] = ran.connects()[..] else {
        panic!("{:?}", ran.connects());
    };
    let pause_ns = back_offs(1, 3)[2];
    assert_eq!(again_ns, silent_since_ns + 5 * SECOND + 1 + pause_ns);
    // Requests wait since the load's beginning, and their deadline of 5 s passes meanwhile.
    assert_eq!(ran.samples[0].intended_ns, 0);
    assert_eq!(ran.samples[0].done_ns, again_ns + 3 * MS);
}

#[test]
fn so_many_are_opened_at_once_and_no_more() {
    let peer = after(MS).connecting(|_, _, _| Connect::Accept { after_ns: 4 * MS });
    let ran = Sim::closed(300, 1).http1(peer);
    let connects = ran.log.connects.iter().map(|(at_ns, _)| *at_ns);
    let mut expected = vec![START_NS; CONNECTING_MAX];
    expected.resize(300, START_NS + 4 * MS);
    assert_eq!(connects.collect::<Vec<_>>(), expected);
    assert_eq!(ran.published[0].open_most, 300);
}

#[test]
fn what_stands_behind_a_last_answer_is_sent_again_with_its_intended_start() {
    // As nginx with keepalive_requests: the third answer of a connection says that it is the last.
    for open in [false, true] {
        let peer = Http1::new(|asked| match asked.nth {
            0 | 1 => says(MS, ANSWER),
            2 => [says(MS, LAST_ANSWER), closes(MS)].concat(),
            _ => Vec::new(),
        });
        let mut sim = Sim::closed(1, 8).lasting(50 * MS);
        if open {
            sim.load.arrival = Sim::open(1, 2_000.0).load.arrival;
        }
        let ran = sim.http1(peer);
        assert_eq!(ran.last().failed_total(), 0, "{:?}", ran.failed());
        assert!(open || ran.last().resent > 50);
        // Three each millisecond: the oldest first, whichever connection they were sent on before.
        let intended: Vec<u64> = ran.samples.iter().map(|s| s.intended_ns).collect();
        assert!(intended.is_sorted(), "{intended:?}");
        assert!(!open || ran.last().resent > 0);
    }
}

#[test]
fn a_request_is_sent_again_ten_times_at_most() {
    // Of sixteen in flight one is answered, and its connection ends.
    let peer = Http1::new(|asked| match asked.nth {
        0 => [says(MS, LAST_ANSWER), closes(MS)].concat(),
        _ => Vec::new(),
    });
    let ran = Sim::closed(1, 16).http1(peer);
    let totals = ran.last();
    // The first of each connection is the oldest: ten resends later it is its turn, or it is given up.
    assert_eq!(ran.failed_at("net.abandoned")[0], 11 * MS);
    let of_first = ran.samples.iter().filter(|s| s.intended_ns == 0);
    let (answered, failed): (Vec<&RequestSample>, Vec<_>) = of_first.partition(|s| s.failed == 0);
    assert_eq!((answered.len(), failed.len()), (11, 5));
    assert!(totals.resent <= 10 * (totals.answered + totals.failed_total() + 16));
}

#[test]
fn nothing_is_sent_again_after_a_bare_end() {
    let peer = Http1::new(|asked| match asked.nth {
        9 => closes(MS),
        _ => says(MS, ANSWER),
    });
    let ran = Sim::closed(2, 4).http1(peer);
    assert_eq!(ran.last().resent, 0);
    assert!(ran.last().failed_total() > 10);
}

#[test]
fn a_connection_for_each_request_is_opened_when_the_request_starts() {
    let mut sim = Sim::closed(1, 1).thinking(6 * MS).lasting(50 * MS);
    sim.load.connection_per_request = true;
    let peer = Http1::new(|_| [says(4 * MS, LAST_ANSWER), closes(4 * MS)].concat());
    let ran = sim.http1(peer);
    // A server that serves one connection at a time is not kept waiting by one that has nothing to send.
    let expected: Vec<u64> = (1..=4).map(|k| 10 * k * MS).collect();
    assert_eq!(ran.connects(), expected);
    assert_eq!(ran.at(Edge::Close).failed_total(), 0);
    assert_eq!(ran.last().answered, 5);
}

#[test]
fn an_answer_that_ends_with_its_connection_is_one() {
    let peer = Http1::new(|_| {
        [
            says(MS, b"HTTP/1.0 200 OK\r\n\r\nto the end"),
            closes(3 * MS),
        ]
        .concat()
    });
    let ran = Sim::closed(1, 1).lasting(10 * MS).http1(peer);
    let ends: Vec<u64> = ran.samples.iter().map(|s| s.done_ns).collect();
    assert_eq!(ends, [3 * MS, 6 * MS, 9 * MS, 12 * MS]);
    assert!(ran.samples.iter().all(|s| s.failed == 0));
}

#[test]
fn a_reset_ends_all_requests_of_its_connection_and_no_others() {
    let peer = Http1::new(|asked| match (asked.conn, asked.nth) {
        (0, 2) => vec![(MS / 2, Does::Resets(Errno::CONNRESET))],
        _ => says(MS, ANSWER),
    });
    let ran = Sim::closed(2, 2).lasting(4 * MS).http1(peer);
    let failed = ran.failed_at("net.reset.wait");
    assert_eq!(failed[..2], [MS + MS / 2; 2]);
    let of_other = ran
        .samples
        .iter()
        .filter(|s| s.failed == 0 && s.done_ns == 2 * MS);
    assert_eq!(of_other.count(), 2);
}
