//! A bound of requests in flight: so many are let through, and the others wait in line.

use wallfinder_model::drive::Edge;

use super::super::http1::{ANSWER, Http1, after, closes};
use super::super::peer::{Does, says};
use super::super::world::{MS, Sim};

/// The most that were in flight at once, by when they were sent and ended.
fn most_at_once(times: &[(u64, u64, u64)]) -> u64 {
    let times = times
        .iter()
        .filter(|(_, sent_ns, done_ns)| sent_ns < done_ns);
    let sent = times.clone().map(|(_, sent_ns, _)| (*sent_ns, 1_i64));
    let ended = times.map(|(_, _, done_ns)| (*done_ns, -1_i64));
    let mut changes: Vec<(u64, i64)> = sent.chain(ended).collect();
    // At one instant ends come first.
    changes.sort_unstable();
    let mut at_once = 0;
    let counts = changes.iter().map(|(_, change)| {
        at_once += change;
        at_once as u64
    });
    counts.max().unwrap_or(0)
}

#[test]
fn connections_take_turns_where_fewer_may_be_in_flight() {
    let ran = Sim::closed(20, 1).max_in_flight(3).http1(after(2 * MS));
    let times = ran.times();
    assert_eq!(most_at_once(&times), 3);
    for (k, (intended_ns, sent_ns, done_ns)) in (0..).zip(&times) {
        // Three at a time.
        let begun_ns = k / 3 * 2 * MS;
        assert_eq!(*sent_ns, begun_ns.max(1));
        assert_eq!(*done_ns, begun_ns + 2 * MS);
        // Since its connection's last answer, 20 requests ago.
        let granted_ns = match u64::checked_sub(k, 20) {
            Some(last) => (last / 3 + 1) * 2 * MS,
            None => 0,
        };
        assert_eq!(*intended_ns, granted_ns, "request {k}");
    }
    assert_eq!(ran.at(Edge::Close).in_flight_area, u128::from(3 * 100 * MS));
}

#[test]
fn deep_connections_share_the_bound() {
    let ran = Sim::closed(2, 20).max_in_flight(2).http1(after(2 * MS));
    let times = ran.times();
    assert_eq!(most_at_once(&times), 2);
    // Forty wait, two at a time are answered: in the long run each waits 40 ms.
    let (intended_ns, _, done_ns) = times[90];
    assert_eq!(done_ns - intended_ns, 40 * MS);
}

#[test]
fn an_open_loop_waits_for_room_and_says_how_long() {
    // 2,000 a second are let through by four at a time, and 2,500 are to start.
    let mut sim = Sim::open(20, 2_500.0).max_in_flight(4);
    sim.load.drain.0 = 0;
    let ran = sim.http1(after(2 * MS));
    let totals = ran.at(Edge::Close);
    assert_eq!((totals.answered, totals.in_flight), (197, 4));
    assert_eq!(totals.scheduled, 251);
    assert_eq!(totals.backlog(), 50);
    let times = ran.times();
    assert_eq!(most_at_once(&times), 4);
    for (k, (intended_ns, sent_ns, _)) in (0..).zip(&times) {
        assert_eq!(*intended_ns, k * 400_000);
        // Each waits for the fourth before it.
        assert_eq!(*sent_ns, (k % 4 * 400_000 + k / 4 * 2 * MS).max(1));
    }
    // While there is no room nothing is late by the worker.
    let lateness: u64 = ran.published.iter().map(|report| report.lateness).sum();
    assert_eq!(lateness, 4);
}

#[test]
fn room_of_connections_that_break_is_given_back() {
    // Every third request of a connection is hung up on, which waited for its turn meanwhile.
    let peer = Http1::new(|asked| match asked.nth {
        2 => closes(MS),
        _ => says(MS, ANSWER),
    });
    let ran = Sim::closed(6, 1).max_in_flight(2).http1(peer);
    assert_eq!(most_at_once(&ran.times()), 2);
    // Two each millisecond, always: a third of them fail.
    assert_eq!(ran.at(Edge::Close).in_flight_area, u128::from(2 * 100 * MS));
    let totals = ran.at(Edge::Close);
    assert_eq!(totals.answered + totals.failed_total(), 200);
    assert_eq!(ran.failed()["net.stale_reuse"], totals.failed_total());
}

#[test]
fn a_reset_that_takes_all_in_flight_with_it_gives_all_room_back() {
    let peer = Http1::new(|asked| match (asked.conn, asked.nth) {
        (0, 3) => vec![(0, Does::Resets(wallfinder_sys::Errno::CONNRESET))],
        _ => says(2 * MS, ANSWER),
    });
    let ran = Sim::closed(2, 4).max_in_flight(4).http1(peer);
    assert_eq!(most_at_once(&ran.times()), 4);
    assert!(ran.last().answered > 100);
}
