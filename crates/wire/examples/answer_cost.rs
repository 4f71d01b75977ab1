//! How long one answer takes, in nanoseconds: bursts of a hundred, as an engine sees them.
//!
//! ```text
//! cargo run --release -p wallfinder-wire --example answer_cost
//! ```

use std::time::Instant;

use wallfinder_wire::http1::{Http1, Options, Request, Shared};
use wallfinder_wire::{Outcome, Transmit, Wire};

const DEPTH: usize = 100;
const BURSTS: usize = 40_000;

fn main() {
    let same = |_| answer(0, "Content-Length: 14", "{\"ok\": \"fast\"}");
    report("memo hit", &bursts(1, same));
    report(
        "memo hit, 2 heads in turn",
        &bursts(1, |n| {
            answer(n % 2, "Content-Length: 14", "{\"ok\": \"fast\"}")
        }),
    );
    report(
        "memo miss",
        &bursts(16, |n| {
            answer(n, "Content-Length: 14", "{\"ok\": \"fast\"}")
        }),
    );
    let chunks = "7\r\n{\"ok\": \r\n7\r\n\"fast\"}\r\n0\r\n\r\n";
    report(
        "memo hit, 2 chunks",
        &bursts(1, |_| answer(0, "Transfer-Encoding: chunked", chunks)),
    );
}

fn answer(n: usize, framing: &str, body: &str) -> String {
    let (minute, second) = (n / 60 % 60, n % 60);
    format!(
        "HTTP/1.1 200 OK\r\nServer: fasthttp\r\nDate: Fri, 20 Nov 2026 14:{minute:02}:{second:02} GMT\r\n\
         Content-Type: application/json\r\n{framing}\r\n\r\n{body}"
    )
}

/// `count` different bursts.
fn bursts(count: usize, answer: impl Fn(usize) -> String) -> Vec<Vec<u8>> {
    let burst = |n: usize| {
        (0..DEPTH).fold(Vec::new(), |mut bytes, i| {
            bytes.extend(answer(n * DEPTH + i).bytes());
            bytes
        })
    };
    (0..count).map(burst).collect()
}

fn report(name: &str, bursts: &[Vec<u8>]) {
    let options = Options {
        in_flight_max: DEPTH as u32,
        ..Options::default()
    };
    let mut shared = Shared::new(&Request::get("localhost:8080", "/simple"), options)
        .expect("the request is sound");
    let mut http1 = Http1::open(&shared);
    let mut best_ns = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        for n in 0..BURSTS {
            run(&mut http1, &mut shared, &bursts[n % bursts.len()]);
        }
        let ns = start.elapsed().as_nanos() as f64 / (BURSTS * DEPTH) as f64;
        best_ns = best_ns.min(ns);
    }
    println!("{name:28} {best_ns:6.1} ns per answer");
}

fn run(http1: &mut Http1, shared: &mut Shared, mut bytes: &[u8]) {
    while http1.room(shared) > 0 {
        http1.issue(shared);
    }
    while let Transmit::Block { len, .. } = http1.poll_transmit(shared) {
        http1.handle_sent(shared, len);
    }
    while !bytes.is_empty() {
        let taken = http1.handle_bytes(shared, bytes);
        bytes = &bytes[taken..];
        match http1.poll_outcome() {
            Some(Outcome::Answered(answer)) => assert_eq!(answer.body_bytes, 14),
            Some(broken) => panic!("{broken:?}"),
            None => {}
        }
    }
}
