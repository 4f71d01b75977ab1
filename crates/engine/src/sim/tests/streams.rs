//! Requests on streams (HTTP/2): refused, taken back, held up by windows and limits, and cancelled alone.

use std::cell::Cell;
use std::rc::Rc;

use super::super::http2::{DATA, Frame, GOAWAY, HEADERS, Http2, RST_STREAM, answer, frame};
use super::super::peer::{Peer, Script, says};
use super::super::world::{MS, Sim};

/// SETTINGS_MAX_CONCURRENT_STREAMS.
const STREAMS_MAX: u8 = 3;
const REFUSED_STREAM: u32 = 7;

/// Answers each request after so long.
fn after(after_ns: u64) -> Http2<impl FnMut(Frame) -> Script> {
    Http2::new(b"", move |frame| match frame.kind {
        HEADERS => says(after_ns, &answer(frame.stream)),
        _ => Script::new(),
    })
}

#[test]
fn streams_are_answered_apart() {
    let ran = Sim::closed(1, 3).lasting(10 * MS).http2(0, after(4 * MS));
    assert_eq!(ran.samples.len(), 9);
    for (at, (intended_ns, _, done_ns)) in (0..).zip(ran.times()) {
        assert_eq!(intended_ns, at / 3 * 4 * MS);
        assert_eq!(done_ns, intended_ns + 4 * MS);
    }
}

#[test]
fn a_refused_stream_is_sent_again_after_a_pause_ten_times_and_fails() {
    let peer = Http2::new(b"", |asked| match asked.kind {
        HEADERS => {
            let code = REFUSED_STREAM.to_be_bytes();
            says(0, &frame(RST_STREAM, 0, asked.stream, &code))
        }
        _ => Script::new(),
    });
    let ran = Sim::closed(1, 2).lasting(114 * MS).http2(0, peer);
    // Eleven times, five milliseconds apart; the next starts five milliseconds later.
    let ends = ran.failed_at("h2.reset.refused_stream");
    assert_eq!(ends, [50 * MS, 50 * MS, 105 * MS, 105 * MS]);
    let intended: Vec<u64> = ran.samples.iter().map(|s| s.intended_ns).collect();
    assert_eq!(intended, [0, 0, 55 * MS, 55 * MS]);
    assert!(ran.connects().is_empty(), "the connection goes on");
}

#[test]
fn a_refused_stream_of_an_open_loop_goes_before_the_schedule() {
    let first = Rc::new(Cell::new(true));
    let peer = Http2::new(b"", move |asked| match asked.kind {
        HEADERS if first.replace(false) => {
            let code = REFUSED_STREAM.to_be_bytes();
            says(0, &frame(RST_STREAM, 0, asked.stream, &code))
        }
        HEADERS => says(MS, &answer(asked.stream)),
        _ => Script::new(),
    });
    let ran = Sim::open(1, 500.0).lasting(19 * MS).http2(0, peer);
    // It was to start at zero, and is sent again after 5 ms.
    let again = ran.samples.iter().find(|s| s.intended_ns == 0).unwrap();
    assert_eq!((again.sent_ns, again.done_ns), (5 * MS, 6 * MS));
    assert_eq!(ran.last().resent, 1);
    assert_eq!(ran.last().failed_total(), 0);
}

#[test]
fn streams_above_a_goaway_are_sent_again_elsewhere_at_once() {
    // The third stream of a connection is the last that is taken up.
    for open in [false, true] {
        let peer = Http2::new(b"", |asked| match (asked.kind, asked.nth) {
            (HEADERS, 0 | 1) => says(2 * MS, &answer(asked.stream)),
            (HEADERS, 2) => {
                let mut last = asked.stream.to_be_bytes().to_vec();
                last.extend_from_slice(&[0; 4]);
                [
                    says(MS, &frame(GOAWAY, 0, 0, &last)),
                    says(2 * MS, &answer(asked.stream)),
                ]
                .concat()
            }
            _ => Script::new(),
        });
        let mut sim = Sim::closed(1, 5).lasting(30 * MS);
        if open {
            sim.load.arrival = Sim::open(1, 3_000.0).load.arrival;
        }
        let ran = sim.http2(0, peer);
        assert_eq!(ran.last().failed_total(), 0, "{:?}", ran.failed());
        assert!(ran.last().resent > 10);
        let starts: Vec<u64> = ran.samples.iter().map(|s| s.intended_ns).collect();
        assert!(starts.is_sorted(), "the oldest first: {starts:?}");
    }
}

#[test]
fn a_window_that_never_opens_is_told_from_a_server_that_never_answers() {
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    let shut = Http2::new(&[0, 4, 0, 0, 0, 0], |frame| {
        assert_ne!(frame.kind, DATA, "more than the window");
        Script::new()
    });
    let silent = Http2::new(b"", |_| Script::new());
    let fails = |peer: Box<dyn Peer>, class| {
        let sim = Sim::closed(2, 3).timeout(20 * MS).lasting(50 * MS);
        let ran = sim.http2(1_000, Boxed(peer));
        let ends = ran.failed_at(class);
        assert_eq!(ends[..6], [20 * MS + 1; 6], "{class}: {:?}", ran.failed());
        assert_eq!(ran.last().failed_total(), ends.len() as u64);
        assert!(ran.connects().is_empty(), "the connections go on");
    };
    fails(Box::new(shut), "timeout.flow");
    fails(Box::new(silent), "timeout.total");
}

/// A peer of one of several kinds.
struct Boxed(Box<dyn Peer>);

impl Peer for Boxed {
    fn opened(&mut self, conn: u32, now: u64) -> Script {
        self.0.opened(conn, now)
    }

    fn received(&mut self, conn: u32, bytes: &[u8], now: u64) -> Script {
        self.0.received(conn, bytes, now)
    }
}

#[test]
fn a_request_that_waits_for_a_stream_waits_since_its_intended_start() {
    // Two at a time, and ten want to.
    let peer = Http2::new(&[0, STREAMS_MAX, 0, 0, 0, 2], |frame| match frame.kind {
        HEADERS => says(5 * MS, &answer(frame.stream)),
        _ => Script::new(),
    });
    let ran = Sim::closed(1, 10).http2(0, peer);
    for (at, (intended_ns, sent_ns, done_ns)) in (0..).zip(ran.times()) {
        let begun_ns = at / 2 * 5 * MS;
        assert_eq!((sent_ns, done_ns), (begun_ns.max(1), begun_ns + 5 * MS));
        let granted_ns = match u64::checked_sub(at, 10) {
            Some(last) => (last / 2 + 1) * 5 * MS,
            None => 0,
        };
        assert_eq!(intended_ns, granted_ns, "request {at}");
    }
}

#[test]
fn where_no_stream_is_allowed_requests_run_out_of_time_unsent() {
    let peer = Http2::new(&[0, STREAMS_MAX, 0, 0, 0, 0], |frame| {
        assert_ne!(frame.kind, HEADERS, "more than the limit");
        Script::new()
    });
    let ran = Sim::closed(2, 3)
        .timeout(20 * MS)
        .lasting(50 * MS)
        .http2(0, peer);
    let first_ns = 20 * MS + 1;
    let mut expected = vec![first_ns; 6];
    expected.extend([2 * first_ns; 6]);
    assert_eq!(ran.failed_at("timeout.total"), expected);
    assert_eq!(ran.last().expired_unsent, 12);
    assert!(ran.connects().is_empty(), "the connections go on");
}

#[test]
fn a_late_answer_cancels_its_stream_and_no_more() {
    let cancelled = Rc::new(Cell::new(0));
    let count = Rc::clone(&cancelled);
    let peer = Http2::new(b"", move |frame| match frame.kind {
        HEADERS => says(20 * MS, &answer(frame.stream)),
        RST_STREAM => {
            count.set(count.get() + 1);
            Script::new()
        }
        _ => Script::new(),
    });
    let ran = Sim::closed(1, 1)
        .timeout(15 * MS)
        .lasting(50 * MS)
        .http2(0, peer);
    let ends: Vec<u64> = (1..=4).map(|k| k * (15 * MS + 1)).collect();
    assert_eq!(ran.failed_at("timeout.total"), ends);
    assert_eq!(cancelled.get(), 3, "after the window nothing is sent");
    assert!(ran.connects().is_empty());
}

#[test]
fn a_peer_that_breaks_the_protocol_is_told_why() {
    let told = Rc::new(Cell::new(0));
    let count = Rc::clone(&told);
    let peer = Http2::new(b"", move |asked| match asked.kind {
        // DATA belongs to a stream (RFC 9113, 6.1).
        HEADERS => says(0, &frame(DATA, 0, 0, b"x")),
        GOAWAY => {
            count.set(count.get() + 1);
            Script::new()
        }
        _ => Script::new(),
    });
    let ran = Sim::closed(1, 1).lasting(20 * MS).http2(0, peer);
    // No stream broke it: the connection did.
    assert_eq!(ran.connect_failed()["h2.protocol"], told.get());
    assert_eq!(ran.failed()["net.abandoned"], told.get());
    assert!(told.get() > 1);
}

/// Answers everybody in HTTP/1.1, unasked.
struct OtherProtocol;

impl Peer for OtherProtocol {
    fn opened(&mut self, _: u32, _: u64) -> Script {
        says(0, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    }

    fn received(&mut self, _: u32, _: &[u8], _: u64) -> Script {
        Script::new()
    }
}

#[test]
fn a_peer_of_another_protocol_ends_the_run_before_it_begins() {
    let ran = Sim::closed(1, 1).http2(0, OtherProtocol);
    assert!(ran.end.speaks_otherwise);
    assert!(ran.published.is_empty());
}

/// A balancer: a connection that was ended is opened to a server of its own, which may be refused in HTTP/1.1.
struct Balanced<P> {
    server: P,
    opened: u32,
}

impl<P: Peer> Peer for Balanced<P> {
    fn opened(&mut self, conn: u32, now: u64) -> Script {
        self.opened += 1;
        match self.opened {
            2 => OtherProtocol.opened(conn, now),
            _ => self.server.opened(conn, now),
        }
    }

    fn received(&mut self, conn: u32, bytes: &[u8], now: u64) -> Script {
        match self.opened {
            2 => Script::new(),
            _ => self.server.received(conn, bytes, now),
        }
    }
}

#[test]
fn a_peer_that_has_answered_may_refuse_one_connection_in_another_protocol() {
    let server = Http2::new(b"", |asked| match (asked.kind, asked.nth) {
        // The first connection ends with its third request.
        (HEADERS, 2) => says(MS, &frame(GOAWAY, 0, 0, &[0; 8])),
        (HEADERS, _) => says(MS, &answer(asked.stream)),
        _ => Script::new(),
    });
    let opened = 0;
    let ran = Sim::closed(1, 1)
        .lasting(50 * MS)
        .http2(0, Balanced { server, opened });
    assert!(!ran.end.speaks_otherwise);
    assert!(ran.connect_failed()["h2.preface"] >= 1);
    assert!(ran.last().answered > 10);
}
