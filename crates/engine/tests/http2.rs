//! HTTP/2: the real engine at peers that break streams, windows and the protocol.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use wallfinder_engine::{EngineError, StepSpec};
use wallfinder_model::{Arrival, Nanos, Rate};
use wallfinder_wire::{Exchange, Request};

mod drive;
#[path = "drive/frames.rs"]
mod frames;

use drive::with_both;
use frames::{DATA, HEADERS, frame, other_protocol, peer, refused};

const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;
const REFUSED_STREAM: u32 = 7;

fn spec(address: SocketAddr, body: usize) -> StepSpec {
    let request = Request::new("POST", address.to_string(), "/").body(vec![b'b'; body]);
    let mut spec = drive::spec(address, Exchange::Http2(request), 2, 3);
    spec.load.stop.after = Nanos::from_millis(600);
    spec.load.timeout = Nanos::from_millis(200);
    spec
}

#[test]
fn a_refused_stream_is_sent_again_and_fails_at_last_and_never_at_once() {
    let address = peer(b"", |stream, kind, id| match kind {
        HEADERS => stream.write_all(&frame(RST_STREAM, 0, id, &REFUSED_STREAM.to_be_bytes())),
        _ => Ok(()),
    });
    with_both(spec(address, 0), |measured| {
        let counts = &measured.counts;
        let refused = counts.failed["h2.reset.refused_stream"];
        // Six in flight, sent eleven times each, with a pause of 5 ms at least after each time.
        assert!((6..=6 * 600 / 55 + 6).contains(&refused), "{counts:?}");
        let again = counts.anomalies["request_sent_again"];
        assert!(
            again.abs_diff(10 * refused) <= 10 * 6,
            "{again}, {counts:?}"
        );
        assert_eq!(counts.failed_total(), refused);
        assert_eq!(counts.connects, 0, "the connections go on");
    });
}

#[test]
fn a_window_that_never_opens_is_told_from_a_server_that_never_answers() {
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    let shut = peer(&[0, 4, 0, 0, 0, 0], |_, kind, _| {
        assert_ne!(kind, DATA, "more than the window");
        Ok(())
    });
    let silent = peer(b"", |_, _, _| Ok(()));
    for (address, class) in [(shut, "timeout.flow"), (silent, "timeout.total")] {
        with_both(spec(address, 1000), |measured| {
            let counts = &measured.counts;
            assert!(counts.failed[class] >= 6, "{counts:?}");
            assert_eq!(counts.failed_total(), counts.failed[class], "{counts:?}");
            assert_eq!(counts.connects, 0, "the connections go on");
        });
    }
}

/// SETTINGS_MAX_CONCURRENT_STREAMS.
const STREAMS_MAX: u8 = 3;

#[test]
fn who_waits_for_a_stream_waits_since_it_was_due_and_no_longer() {
    // END_STREAM and END_HEADERS; `:status: 200` from the static table.
    let address = peer(
        &[0, STREAMS_MAX, 0, 0, 0, 2],
        |stream, kind, id| match kind {
            HEADERS => {
                thread::sleep(Duration::from_millis(5));
                stream.write_all(&frame(HEADERS, 5, id, &[0x88]))
            }
            _ => Ok(()),
        },
    );
    let mut spec = spec(address, 0);
    spec.load.in_flight_per_connection = 10;
    with_both(spec, |measured| {
        let counts = &measured.counts;
        assert_eq!(counts.failed_total(), 0, "{counts:?}");
        // Ten want to and two may: from wanting to the answer it takes 10/2 as long.
        let [latency, service] = [&measured.latency, &measured.service].map(Option::as_ref);
        let ratio = latency.unwrap().mean_ns / service.unwrap().mean_ns;
        assert!((4.0..6.5).contains(&ratio), "{ratio}");
    });
}

#[test]
fn where_no_stream_is_allowed_requests_run_out_of_time() {
    let address = peer(&[0, STREAMS_MAX, 0, 0, 0, 0], |_, kind, _| {
        assert_ne!(kind, HEADERS, "more than the limit");
        Ok(())
    });
    with_both(spec(address, 0), |measured| {
        let counts = &measured.counts;
        // Six wait, and each gives up after 200 ms of the 600.
        let late = counts.failed["timeout.total"];
        assert!((6..=18).contains(&late), "{counts:?}");
        assert_eq!(counts.failed_total(), late, "{counts:?}");
        assert_eq!(counts.connects, 0, "the connections go on");
    });
}

#[test]
fn a_peer_that_breaks_the_protocol_is_told_why() {
    let (tell, told) = mpsc::channel();
    let address = peer(b"", move |stream, kind, id| match kind {
        // DATA belongs to a stream (RFC 9113, 6.1).
        HEADERS => stream.write_all(&frame(DATA, 0, 0, b"x")),
        GOAWAY => {
            assert_eq!(id, 0);
            let _ = tell.send(());
            Ok(())
        }
        _ => Ok(()),
    });
    with_both(spec(address, 0), |measured| {
        let counts = &measured.counts;
        // No stream broke it: the connection did.
        assert!(counts.connect_failures["h2.protocol"] > 0, "{counts:?}");
        assert!(told.try_iter().count() > 0, "no GOAWAY came");
    });
}

#[test]
fn a_peer_of_another_protocol_ends_the_run() {
    for error in refused(spec(other_protocol(), 0)) {
        assert!(
            matches!(error, EngineError::OtherProtocol { .. }),
            "{error:?}"
        );
    }
}

#[test]
fn a_late_answer_over_http2_is_a_timeout_and_its_connection_goes_on() {
    let address = peer(b"", |stream, kind, id| match kind {
        HEADERS => {
            thread::sleep(Duration::from_millis(20));
            stream.write_all(&frame(HEADERS, 5, id, &[0x88]))
        }
        _ => Ok(()),
    });
    let request = Request::get(address.to_string(), "/");
    let mut spec = drive::spec(address, Exchange::Http2(request), 2, 1);
    spec.load.stop.after = Nanos::from_millis(600);
    spec.load.timeout = Nanos::from_millis(15);
    with_both(spec, |measured| {
        let counts = &measured.counts;
        assert_eq!(counts.answered, 0, "{counts:?}");
        assert_eq!(counts.failed["timeout.total"], counts.failed_total());
        assert_eq!(counts.connects, 0, "a stream was cancelled, and no more");
    });
}

#[test]
fn streams_above_a_goaway_are_sent_again_elsewhere() {
    // As nginx over HTTP/2: after so many streams it goes away, and answers what it took up.
    let address = peer(b"", |stream, kind, id| match kind {
        HEADERS if id < 41 => stream.write_all(&frame(HEADERS, 5, id, &[0x88])),
        HEADERS if id == 41 => {
            let mut last = 41_u32.to_be_bytes().to_vec();
            last.extend_from_slice(&[0; 4]);
            stream.write_all(&frame(GOAWAY, 0, 0, &last))?;
            thread::sleep(Duration::from_millis(2));
            stream.write_all(&frame(HEADERS, 5, id, &[0x88]))
        }
        _ => Ok(()),
    });
    for open in [false, true] {
        let request = Request::new("POST", address.to_string(), "/");
        let mut spec = drive::spec(address, Exchange::Http2(request), 3, 5);
        spec.load.stop.after = Nanos::from_millis(800);
        if open {
            let rate = Rate(1000.0);
            spec.load.arrival = Arrival::Constant { rate };
        }
        with_both(spec, |measured| {
            let counts = &measured.counts;
            assert!(counts.answered > 200, "{counts:?}");
            assert!(counts.connects > 3, "{counts:?}");
            assert_eq!(counts.failed_total(), 0, "{counts:?}");
            assert!(
                open || counts.anomalies["request_sent_again"] > 5,
                "{counts:?}"
            );
        });
    }
}
