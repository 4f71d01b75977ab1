//! Real grpc-go servers on loopback, over one blocking socket: the echo, and one with a method
//! of each kind. Where they are not built they are skipped, aloud.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use wallfinder_wire::grpc::{self, Kind, Request};
use wallfinder_wire::http2::Options;

use crate::socket::{Loaded, load};

/// A subject, ended with the value.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start(name: &str, flags: &[&str]) -> Option<Server> {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bin");
        let folder = std::env::var_os("WALLFINDER_SUBJECTS").map_or(built, PathBuf::from);
        let program = folder.join(name);
        if !program.is_file() {
            wallfinder_skip::skip(format_args!("{name} is not built (make subjects)"));
            return None;
        }
        let mut process = Command::new(program)
            .args(flags)
            .args(["--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = process.stdout.take().expect("it is piped");
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let (_, rest) = line.split_once("\"listening\":\"").expect("it says where");
        let address = rest.split('"').next().expect("a string").parse().unwrap();
        Some(Server { process, address })
    }

    fn call(&self, path: &str, kind: Kind, messages: Vec<Vec<u8>>) -> Request {
        Request {
            kind,
            messages,
            ..Request::unary(self.address.to_string(), path, "")
        }
    }

    fn load(&self, request: &Request, in_flight_max: u32, count: u32) -> Loaded {
        let options = Options {
            in_flight_max,
            ..Options::default()
        };
        load(
            self.address,
            &mut grpc::shared(request, options).unwrap(),
            count,
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The echo's payload: `id` 1, `data` 2, `timestamp` 3.
fn payload(id: &str, data: &[u8], timestamp: u64) -> Vec<u8> {
    let mut message = Vec::new();
    for (tag, bytes) in [(0x0a, id.as_bytes()), (0x12, data)] {
        message.push(tag);
        varint(bytes.len() as u64, &mut message);
        message.extend(bytes);
    }
    message.push(0x18);
    varint(timestamp, &mut message);
    message
}

fn varint(mut value: u64, into: &mut Vec<u8>) {
    while value > 0x7f {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

#[track_caller]
fn assert_answers(loaded: &Loaded, count: usize, messages: u32) {
    assert_eq!(loaded.failures, [] as [&str; 0]);
    assert_eq!(loaded.answers.len(), count);
    for answer in &loaded.answers {
        let call = answer.call.expect("it is a call");
        assert_eq!(
            (answer.status, call.messages, call.error),
            (200, messages, None)
        );
    }
}

const ECHO: &str = "/wallfinder.echo.Echo/Call";

#[test]
fn grpc_go_gives_every_payload_back() {
    let Some(server) = Server::start("echo", &["--protocol", "grpc"]) else {
        return;
    };
    for (data_bytes, in_flight, count) in [(0, 1, 50), (64, 100, 500), (200_000, 10, 40)] {
        let message = payload("r-1", &vec![7; data_bytes], 1);
        let request = server.call(ECHO, Kind::Unary, vec![message.clone()]);
        let loaded = server.load(&request, in_flight, count);
        assert_answers(&loaded, count as usize, 1);
        for answer in &loaded.answers {
            // The server's own timestamp has nine bytes and not one; no data is no field.
            let absent = if data_bytes == 0 { 2 } else { 0 };
            assert_eq!(answer.body_bytes, message.len() as u64 + 8 - absent);
        }
    }
}

#[test]
fn grpc_go_says_what_it_has_not() {
    let Some(server) = Server::start("echo", &["--protocol", "grpc"]) else {
        return;
    };
    for (path, message, class) in [
        (
            "/wallfinder.echo.Echo/Cull",
            payload("r", b"", 1),
            "grpc.status.unimplemented",
        ),
        (
            "/wallfinder.echo.Eco/Call",
            payload("r", b"", 1),
            "grpc.status.unimplemented",
        ),
        (ECHO, b"\xff\xff".to_vec(), "grpc.status.internal"),
    ] {
        let request = server.call(path, Kind::Unary, vec![message]);
        let loaded = server.load(&request, 4, 20);
        assert_eq!(loaded.answers.len(), 20, "{path}");
        for answer in &loaded.answers {
            let error = answer.call.and_then(|call| call.error).expect("a status");
            assert_eq!(error.class(), class, "{path}");
        }
    }
}

#[test]
fn grpc_go_answers_every_kind_of_call() {
    let Some(server) = Server::start("calls", &[]) else {
        return;
    };
    let asks = |count: usize, timestamp| vec![payload("x", b"abc", timestamp); count];
    for (method, kind, messages, answers) in [
        ("One", Kind::Unary, asks(1, 0), 1),
        ("Down", Kind::ServerStreaming, asks(1, 7), 7),
        ("Down", Kind::ServerStreaming, asks(1, 0), 0),
        ("Down", Kind::ServerStreaming, asks(1, 3000), 3000),
        ("Up", Kind::ClientStreaming, asks(5, 0), 1),
        ("Up", Kind::ClientStreaming, asks(0, 0), 1),
        ("Up", Kind::ClientStreaming, asks(20_000, 0), 1),
        ("Both", Kind::Bidirectional, asks(12, 0), 12),
        ("Both", Kind::Bidirectional, asks(0, 0), 0),
    ] {
        let path = format!("/wallfinder.calls.Calls/{method}");
        let request = server.call(&path, kind, messages);
        assert_answers(&server.load(&request, 10, 20), 20, answers);
    }
    let mut request = server.call(
        "/wallfinder.calls.Calls/Both",
        Kind::Bidirectional,
        asks(12, 0),
    );
    request.in_turn = true;
    assert_answers(&server.load(&request, 10, 20), 20, 12);
    // Another kind than the method's: what comes is not what was said to come.
    let path = "/wallfinder.calls.Calls/Down";
    let request = server.call(path, Kind::Unary, asks(1, 2));
    let loaded = server.load(&request, 1, 3);
    assert_eq!(loaded.failures, ["grpc.messages"; 3]);
}

#[test]
fn grpc_go_reads_metadata_and_deadlines() {
    let Some(server) = Server::start("calls", &[]) else {
        return;
    };
    let check =
        |key: &str, metadata: &[(&str, &str)], deadline: Option<Duration>, expected: &[u8]| {
            let path = "/wallfinder.calls.Calls/Metadata";
            // It answers FAILED_PRECONDITION where the value is not that of the data.
            let message = payload(key, expected, 0);
            let mut request = server.call(path, Kind::Unary, vec![message]);
            let owned = metadata.iter().map(|(n, v)| ((*n).into(), (*v).into()));
            request.metadata = owned.collect();
            request.deadline = deadline;
            assert_answers(&server.load(&request, 3, 6), 6, 1);
        };
    check("x-trace", &[("X-Trace", "7")], None, b"7");
    check(
        "x-trace",
        &[("x-trace", "7"), ("x-trace", "8")],
        None,
        b"7,8",
    );
    check("id-bin", &[("id-bin", "AP8Q")], None, b"\0\xff\x10");
    check(":deadline", &[], None, b"none");
    check(":deadline", &[], Some(Duration::from_secs(3600)), b"hour");
    let slow = server.call(
        "/wallfinder.calls.Calls/Slow",
        Kind::Unary,
        vec![payload("", b"", 60_000)],
    );
    let slow = Request {
        deadline: Some(Duration::from_millis(30)),
        ..slow
    };
    let loaded = server.load(&slow, 5, 10);
    let classes = loaded
        .answers
        .iter()
        .filter_map(|answer| answer.call?.error);
    assert!(
        classes
            .clone()
            .all(|error| error.class() == "grpc.status.deadline_exceeded")
    );
    assert_eq!(classes.count() + loaded.failures.len(), 10);
    assert!(
        loaded
            .failures
            .iter()
            .all(|class| *class == "h2.reset.cancel"),
        "{:?}",
        loaded.failures
    );
}
