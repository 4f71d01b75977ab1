//! How long one HTTP/2 request and its answer take, in nanoseconds: written, answered by a
//! peer in memory, read; and how long a call of gRPC. The peer's own time is measured apart and
//! taken off.
//!
//! ```text
//! cargo run --release -p wallfinder-wire --example http2_cost
//! ```

use std::time::Instant;

use wallfinder_wire::http2::{Http2, Options, Shared};
use wallfinder_wire::{Answer, Outcome, Request, Wire, grpc};

#[path = "../tests/http2/mirror.rs"]
mod mirror;

use mirror::Mirror;

const REQUESTS: u64 = 2_000_000;

fn main() {
    for (streams, body_bytes) in [(1, 14), (10, 14), (100, 14), (10, 4096)] {
        let best_ns = best(|| {
            let request = Request::get("localhost:8080", "/simple");
            let shared = Shared::new(&request, options(streams)).expect("the request is sound");
            let is_good = |answer: &Answer| answer.status == 200;
            converse(shared, Mirror::new(body_bytes), is_good)
        });
        println!("{streams:4} streams, {body_bytes:4} bytes  {best_ns:6.1} ns per request");
    }
    for (streams, message_bytes, messages) in
        [(1, 14, 1), (10, 14, 1), (10, 4096, 1), (10, 14, 100)]
    {
        let best_ns = best(|| {
            let call = grpc::Request {
                kind: grpc::Kind::ServerStreaming,
                ..grpc::Request::unary("localhost:8080", "/a.B/C", "fourteen bytes")
            };
            let shared = grpc::shared(&call, options(streams)).expect("the call is sound");
            let mut message = vec![0; 5 + message_bytes];
            message[1..5].copy_from_slice(&(message_bytes as u32).to_be_bytes());
            let is_good = |answer: &Answer| answer.call.is_some_and(|call| call.error.is_none());
            converse(shared, Mirror::of_calls(&message.repeat(messages)), is_good)
        });
        println!(
            "{streams:4} streams, {messages:3} messages of {message_bytes:4} bytes  \
             {best_ns:6.1} ns per call"
        );
    }
}

fn options(in_flight_max: u32) -> Options {
    Options {
        in_flight_max,
        ..Options::default()
    }
}

fn best(measure: impl Fn() -> f64) -> f64 {
    (0..5).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

/// Nanoseconds of the client for each request.
fn converse(mut shared: Shared, mut mirror: Mirror, is_good: impl Fn(&Answer) -> bool) -> f64 {
    let mut http2 = Http2::open(&shared);
    let mut buffer = vec![0; 64 * 1024];
    let mut answers = Vec::new();
    let (mut answered, mut client_ns) = (0, 0);
    while answered < REQUESTS {
        let began = Instant::now();
        while http2.room(&shared) > 0 {
            http2.issue(&shared);
        }
        let len = http2.write(&shared, &mut buffer);
        client_ns += began.elapsed().as_nanos();
        answers.clear();
        mirror.answer(&buffer[..len], &mut answers);
        assert!(!answers.is_empty(), "the conversation stands still");
        let began = Instant::now();
        let mut rest = answers.as_slice();
        while !rest.is_empty() {
            let taken = http2.handle_bytes(&mut shared, rest);
            rest = &rest[taken..];
            while let Some(outcome) = http2.poll_outcome() {
                let is_whole = matches!(&outcome, Outcome::Answered(answer) if is_good(answer));
                assert!(is_whole, "{outcome:?}");
                answered += 1;
            }
        }
        client_ns += began.elapsed().as_nanos();
    }
    client_ns as f64 / answered as f64
}
