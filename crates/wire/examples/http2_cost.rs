//! How long one HTTP/2 request and its answer take, in nanoseconds: written, answered by a
//! peer in memory, read. The peer's own time is measured apart and taken off.
//!
//! ```text
//! cargo run --release -p wallfinder-wire --example http2_cost
//! ```

use std::time::Instant;

use wallfinder_wire::http2::{Http2, Options, Shared};
use wallfinder_wire::{Outcome, Request, Wire};

#[path = "../tests/http2/mirror.rs"]
mod mirror;

use mirror::Mirror;

const REQUESTS: u64 = 2_000_000;

fn main() {
    for (streams, body_bytes) in [(1, 14), (10, 14), (100, 14), (10, 4096)] {
        let best_ns = (0..5)
            .map(|_| converse(streams, body_bytes))
            .fold(f64::INFINITY, f64::min);
        println!("{streams:4} streams, {body_bytes:4} bytes  {best_ns:6.1} ns per request");
    }
}

/// Nanoseconds of the client for each request.
fn converse(streams: u32, body_bytes: usize) -> f64 {
    let options = Options {
        in_flight_max: streams,
        ..Options::default()
    };
    let request = Request::get("localhost:8080", "/simple");
    let mut shared = Shared::new(&request, options).expect("the request is sound");
    let mut http2 = Http2::open(&shared);
    let mut mirror = Mirror::new(body_bytes);
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
        let began = Instant::now();
        let mut rest = answers.as_slice();
        while !rest.is_empty() {
            let taken = http2.handle_bytes(&mut shared, rest);
            rest = &rest[taken..];
            while let Some(outcome) = http2.poll_outcome() {
                let is_whole = matches!(outcome, Outcome::Answered(answer) if answer.status == 200);
                assert!(is_whole, "{outcome:?}");
                answered += 1;
            }
        }
        client_ns += began.elapsed().as_nanos();
    }
    client_ns as f64 / answered as f64
}
