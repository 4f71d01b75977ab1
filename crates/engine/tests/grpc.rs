//! gRPC: the real engine at peers that answer calls well, with another status, and not at all.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread;

use wallfinder_engine::{EngineError, Signals, StepSpec, run, unobserved};
use wallfinder_model::Nanos;
use wallfinder_wire::Exchange;
use wallfinder_wire::grpc::{Kind, Request};

mod drive;
#[path = "drive/frames.rs"]
mod frames;

use drive::{ways, with_both};
use frames::{DATA, HEADERS, frame, peer};

const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// `hello` behind its prefix.
const CALL_BYTES: u32 = 10;

fn spec(address: SocketAddr, kind: Kind) -> StepSpec {
    let request = Request {
        kind,
        ..Request::unary(address.to_string(), "/a.B/C", "hello")
    };
    let mut spec = drive::spec(address, Exchange::Grpc(request), 2, 3);
    spec.load.warmup = Nanos::from_millis(20);
    spec.load.stop.after = Nanos::from_millis(120);
    spec.load.timeout = Nanos::from_millis(80);
    spec
}

/// Fields that are spelled out, behind `:status: 200` where there is a head.
fn block(is_head: bool, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = if is_head { vec![0x88] } else { Vec::new() };
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(text.len() as u8);
            block.extend(text.bytes());
        }
    }
    block
}

/// A server that answers each call with this body and status, and gives back its window.
fn server(body: &'static [u8], status: &'static str) -> SocketAddr {
    peer(b"", move |stream, kind, id| {
        if kind != DATA {
            return Ok(());
        }
        let head = block(true, &[("content-type", "application/grpc")]);
        let end = block(false, &[("grpc-status", status)]);
        let mut answer = frame(WINDOW_UPDATE, 0, 0, &CALL_BYTES.to_be_bytes());
        answer.extend(frame(HEADERS, END_HEADERS, id, &head));
        answer.extend(frame(DATA, 0, id, body));
        answer.extend(frame(HEADERS, END_HEADERS | END_STREAM, id, &end));
        stream.write_all(&answer)
    })
}

#[test]
fn good_calls_are_answers_with_their_messages() {
    let address = server(b"\0\0\0\0\x02hi\0\0\0\0\0", "0");
    with_both(spec(address, Kind::ServerStreaming), |measured| {
        let counts = &measured.counts;
        assert!(counts.answered > 50, "{counts:?}");
        assert_eq!(counts.failed_total(), 0, "{counts:?}");
        assert_eq!(counts.messages, 2 * counts.answered);
        assert_eq!(counts.body_bytes, 2 * counts.answered);
        assert_eq!(counts.statuses[&200], counts.answered);
    });
}

#[test]
fn another_status_is_an_answer_that_failed_and_a_broken_message_a_failure() {
    for (body, status, class, at_once) in [
        (&b""[..], "14", "grpc.status.unavailable", true),
        (b"\x01\0\0\0\0", "0", "grpc.frame", false),
        (b"\0\0\0\0\0", "x", "grpc.no_status", false),
        (b"", "0", "grpc.messages", false),
    ] {
        let address = server(body, status);
        with_both(spec(address, Kind::Unary), |measured| {
            let counts = &measured.counts;
            assert_eq!((counts.answered, counts.messages), (0, 0), "{counts:?}");
            assert_eq!(counts.failed[class], counts.failed_total(), "{counts:?}");
            assert_eq!(counts.connects, 0, "the connections go on");
            assert!(counts.failed[class] > 10, "{counts:?}");
            // A call that the peer broke is followed by a pause of 5 ms, an answer by none.
            let paused_max = 6 * 120 / 5 + 6;
            assert!(at_once || counts.failed[class] <= paused_max, "{counts:?}");
        });
    }
}

#[test]
fn a_call_without_an_answer_ends_with_its_deadline() {
    let silent = peer(b"", |_, _, _| Ok(()));
    with_both(spec(silent, Kind::Unary), |measured| {
        let counts = &measured.counts;
        assert!(counts.failed["timeout.total"] >= 6, "{counts:?}");
        assert_eq!(counts.connects, 0, "the connections go on");
    });
}

/// A server that answers everybody in HTTP/1.1, unasked.
fn other_protocol() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    address
}

#[test]
fn a_peer_of_another_protocol_ends_the_run() {
    let mut spec = spec(other_protocol(), Kind::Unary);
    for io in ways() {
        spec.io = io;
        let error = run(&spec, &Arc::new(Signals::default()), &mut unobserved).unwrap_err();
        assert!(
            matches!(error, EngineError::OtherProtocol { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("gRPC"), "{error}");
    }
}
