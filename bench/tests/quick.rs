//! The small size of the benchmark, run as a test so that it does not rot. It says nothing
//! about speed.

use wallfinder_bench::null_client::{self, Refill, Spec, Way};
use wallfinder_bench::scenario::Speaks;
use wallfinder_engine::null_server::NullServer;
use wallfinder_sys::io::uring_available;
use wallfinder_wire::http1::{Options, Request, Shared};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// The server must know the length of a request, which names the port, which the server
/// draws: so the digits of the port are guessed, until the guess is right.
fn null_server(path: &str) -> NullServer {
    let mut digits = 5;
    loop {
        let authority = format!("127.0.0.1:{}", "1".repeat(digits));
        let request = Request::get(authority, path);
        let bytes = Shared::new(&request, Options::default())
            .unwrap()
            .request_bytes();
        let server = NullServer::start(bytes, ANSWER, None).unwrap();
        let got = server.address().port().to_string().len();
        if got == digits {
            return server;
        }
        digits = got;
    }
}

fn drive(io: Way, depth: u32, refill: Refill, batch: u32) {
    let server = null_server("/simple");
    let done = null_client::run(&Spec {
        address: server.address(),
        path: "/simple".into(),
        connections: 8,
        depth,
        seconds: 0.2,
        io,
        batch,
        batch_wait_us: 500,
        refill,
        speaks: Speaks::Http1,
    })
    .unwrap();
    assert!(done.answered > 100, "{done:?}");
    assert_eq!(done.failed, 0);
    assert!(done.cpu_seconds > 0.0 && done.seconds >= 0.2);
}

fn ways() -> Vec<Way> {
    match uring_available() {
        Ok(()) => vec![Way::Epoll, Way::Uring],
        Err(why) => {
            wallfinder_skip::skip(format_args!("io_uring: {why}"));
            vec![Way::Epoll]
        }
    }
}

#[test]
fn the_null_client_gets_answers_one_by_one() {
    for io in ways() {
        drive(io, 1, Refill::Each, 1);
    }
}

#[test]
fn the_null_client_gets_answers_in_batches() {
    for io in ways() {
        drive(io, 16, Refill::Each, 8);
        drive(io, 16, Refill::All, 8);
    }
}

#[test]
fn a_null_client_without_a_server_says_so() {
    let error = null_client::run(&Spec {
        address: "127.0.0.1:1".parse().unwrap(),
        path: "/".into(),
        connections: 1,
        depth: 1,
        seconds: 0.1,
        io: Way::Epoll,
        batch: 1,
        batch_wait_us: 0,
        refill: Refill::Each,
        speaks: Speaks::Http1,
    });
    assert!(error.unwrap_err().contains("refused"));
}
