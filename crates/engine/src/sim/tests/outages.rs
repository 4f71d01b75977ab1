//! When no connection was open, and how many were.

use wallfinder_model::drive::Edge;
use wallfinder_sys::Errno;

use super::super::http1::{ANSWER, Http1, LAST_ANSWER, closes};
use super::super::peer::{Connect, says};
use super::super::world::{MS, SECOND, Sim};

/// The schedule's zero by the virtual clock, which outages count from.
fn outages(ran: &super::super::world::Ran) -> Vec<(u64, u64)> {
    let outages = ran.end.outages.iter();
    outages
        .map(|(from, to)| (from - ran.zero_ns, to - ran.zero_ns))
        .collect()
}

#[test]
fn a_server_that_goes_away_is_an_outage_from_then_on() {
    // It answers after 5 ms until 500 ms have passed, and refuses then.
    let gone_ns = 500 * MS;
    let peer = Http1::new(move |asked| match asked.nth {
        99 => closes(5 * MS),
        _ => says(5 * MS, ANSWER),
    })
    .connecting(|_, nth, _| match nth {
        0 => Connect::Accept { after_ns: 0 },
        _ => Connect::Refuse {
            after_ns: MS,
            errno: Errno::CONNREFUSED,
        },
    });
    let ran = Sim::closed(2, 1).lasting(SECOND).http1(peer);
    assert_eq!(outages(&ran), [(gone_ns, SECOND)]);
    // Two were open for half of the time.
    let close = ran.published.iter().find(|p| p.edge == Some(Edge::Close));
    let close = close.unwrap();
    assert_eq!(close.open_area, u128::from(2 * gone_ns));
    assert_eq!(close.open_most, 2);
}

#[test]
fn one_that_comes_back_ends_it() {
    // From 100 ms on attempts are refused, until the fourth.
    let peer = Http1::new(|asked| match (asked.number, asked.conn) {
        (9, 0) => closes(10 * MS),
        _ => says(10 * MS, ANSWER),
    })
    .connecting(|_, nth, _| match nth {
        1..=3 => Connect::Refuse {
            after_ns: 0,
            errno: Errno::CONNREFUSED,
        },
        _ => Connect::Accept { after_ns: 2 * MS },
    });
    let ran = Sim::closed(1, 1).lasting(SECOND).http1(peer);
    let back_ns = ran.connects().last().unwrap() + 2 * MS;
    assert_eq!(outages(&ran), [(100 * MS, back_ns)]);
}

#[test]
fn a_server_that_ends_each_connection_is_never_unreachable() {
    let peer = Http1::new(|_| [says(MS, LAST_ANSWER), closes(MS)].concat());
    let ran = Sim::closed(2, 1).http1(peer);
    assert!(outages(&ran).is_empty());
    assert_eq!(ran.last().failed_total(), 0);
}

#[test]
fn connections_that_were_open_are_counted_and_not_those_that_were_asked_for() {
    // Ten are accepted, and others refused.
    let peer = Http1::new(|_| says(MS, ANSWER)).connecting(|conn, _, _| match conn {
        0..10 => Connect::Accept { after_ns: 0 },
        _ => Connect::Refuse {
            after_ns: 0,
            errno: Errno::CONNREFUSED,
        },
    });
    let ran = Sim::closed(40, 1).http1(peer);
    assert_eq!(ran.end.answering, 10);
    let close = ran.published.iter().find(|p| p.edge == Some(Edge::Close));
    assert_eq!(close.unwrap().open_area, u128::from(10 * 100 * MS));
}
