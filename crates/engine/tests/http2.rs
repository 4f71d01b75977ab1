//! HTTP/2 over sockets: connections that the peer leaves, and what it is told last. What becomes of each stream is
//! tested on a virtual clock (`src/sim/tests/streams.rs`).

use std::io::Write;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use wallfinder_engine::StepSpec;
use wallfinder_wire::{Exchange, Request};

mod drive;
#[path = "drive/frames.rs"]
mod frames;

use drive::with_both;
use frames::{DATA, HEADERS, frame, peer};

const GOAWAY: u8 = 7;

fn spec(address: SocketAddr) -> StepSpec {
    let request = Request::new("POST", address.to_string(), "/");
    drive::spec(address, Exchange::Http2(request), 2, 3)
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
    with_both(spec(address), |measured| {
        let counts = &measured.counts;
        // No stream broke it: the connection did.
        assert!(counts.connect_failures["h2.protocol"] > 0, "{counts:?}");
        assert!(told.try_iter().count() > 0, "no GOAWAY came");
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
    let mut spec = spec(address);
    spec.load.in_flight_per_connection = 5;
    with_both(spec, |measured| {
        let counts = &measured.counts;
        assert!(counts.answered > 50, "{counts:?}");
        assert!(counts.connects > 2, "{counts:?}");
        assert_eq!(counts.failed_total(), 0, "{counts:?}");
        assert!(counts.anomalies["request_sent_again"] > 5, "{counts:?}");
    });
}
