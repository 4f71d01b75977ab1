//! A long conversation with a peer in memory: many rounds, every slot, both windows.

use wallfinder_wire::http2::{Http2, Options, Shared};
use wallfinder_wire::{Outcome, Request, Wire, grpc};

use crate::mirror::Mirror;

/// Runs `rounds` of as many requests as there is room for; gives how many were answered.
fn converse(request: &Request, options: Options, body_bytes: usize, rounds: usize) -> u64 {
    let shared = Shared::new(request, options).unwrap();
    converse_with(shared, Mirror::new(body_bytes), body_bytes, rounds)
}

fn converse_with(mut shared: Shared, mut mirror: Mirror, body_bytes: usize, rounds: usize) -> u64 {
    let mut http2 = Http2::open(&shared);
    let mut buffer = vec![0; 256 * 1024];
    let (mut answers, mut answered, mut issued) = (Vec::new(), 0, 0);
    for _ in 0..rounds {
        while http2.room(&shared) > 0 {
            http2.issue(&shared);
            issued += 1;
        }
        let len = http2.write(&shared, &mut buffer);
        answers.clear();
        mirror.answer(&buffer[..len], &mut answers);
        let mut rest = answers.as_slice();
        while !rest.is_empty() {
            let taken = http2.handle_bytes(&mut shared, rest);
            rest = &rest[taken..];
            while let Some(outcome) = http2.poll_outcome() {
                let Outcome::Answered(answer) = outcome else {
                    panic!("{outcome:?}: {:?}", shared.fault());
                };
                assert_eq!(answer.body_bytes, body_bytes as u64);
                answered += 1;
            }
        }
    }
    assert_eq!(issued, answered + u64::from(http2.in_flight()));
    answered
}

#[test]
fn every_request_is_answered_once_for_many_rounds() {
    for in_flight_max in [1, 10, 100] {
        let options = Options {
            in_flight_max,
            ..Options::default()
        };
        let request = Request::get("localhost:8080", "/simple");
        let answered = converse(&request, options, 14, 200);
        assert_eq!(answered, u64::from(in_flight_max) * 199);
    }
}

#[test]
fn every_call_is_answered_once_for_many_rounds() {
    let options = Options {
        in_flight_max: 10,
        ..Options::default()
    };
    let call = grpc::Request {
        kind: grpc::Kind::ServerStreaming,
        ..grpc::Request::unary("localhost:8080", "/a.B/C", "hello")
    };
    let shared = grpc::shared(&call, options).unwrap();
    let mirror = Mirror::of_calls(b"\0\0\0\0\x02hi\0\0\0\0\0");
    let answered = converse_with(shared, mirror, 2, 2000);
    assert_eq!(answered, 10 * 1999);
}

/// 160 MB of bodies through windows of 64 KiB: credit comes back in time.
#[test]
fn windows_are_kept_open_for_as_long_as_bodies_come() {
    let options = Options {
        in_flight_max: 3,
        stream_window_bytes: 20_000,
        connection_window_bytes: 65_535,
        ..Options::default()
    };
    let request = Request::get("localhost:8080", "/big");
    let answered = converse(&request, options, 16_000, 3000);
    assert!(answered * 16_000 > 100_000_000);
}
