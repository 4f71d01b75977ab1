//! The Go echo and this one, asked the same: what comes back is the same, byte for byte, but
//! for the timestamp and the date. Without a Go echo in `WALLFINDER_SUBJECTS` or the
//! workspace's `bin/` (`make subjects`) there is nothing to compare, and the tests say so.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use echo_rs::payload::Payload;
use http::{HeaderMap, Request};

/// A server until the test ends.
struct Echo {
    child: Child,
    address: String,
}

impl Echo {
    fn start(program: &Path, flags: &[&str]) -> Echo {
        let mut child = Command::new(program)
            .args(["--port", "0"])
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
        stdout.read_line(&mut line).expect("a start-up line");
        let (_, rest) = line
            .split_once("\"listening\":\"")
            .expect("where it listens");
        let address = rest.split('"').next().expect("quoted").to_owned();
        Echo { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        let limit = Some(Duration::from_secs(10));
        stream.set_read_timeout(limit).expect("a limit");
        stream
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The Go echo and ours, with the same flags.
fn twins(flags: &[&str]) -> [Echo; 2] {
    let folder = std::env::var_os("WALLFINDER_SUBJECTS").map(PathBuf::from);
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../bin");
    let go = folder.unwrap_or(ours).join("echo");
    assert!(
        go.is_file(),
        "no Go echo at {} (make subjects)",
        go.display()
    );
    let ours = Path::new(env!("CARGO_BIN_EXE_echo-rs"));
    [Echo::start(&go, flags), Echo::start(ours, flags)]
}

fn payload(id: &str, data: usize, timestamp: i64) -> Vec<u8> {
    let data: Vec<u8> = (0..data).map(|at| at as u8).collect();
    let mut bytes = Vec::new();
    let payload = Payload {
        id,
        data: &data,
        timestamp,
        unknown: Vec::new(),
    };
    payload.encode(&mut bytes);
    bytes
}

fn requests() -> Vec<Vec<u8>> {
    let mut requests = vec![
        payload("", 0, 0),
        payload("r-1", 64, 1),
        payload("", 127, -1),
        payload("überall", 128, i64::MIN),
        payload("0000-00000000000", 65_536, i64::MAX),
        payload("large", 1 << 20, 7),
    ];
    // Fields given twice, given empty, of other kinds, unknown, and groups.
    for odd in [
        &b"\x0a\x01a\x12\x01x\x0a\x01b\x12\x02yz"[..],
        b"\x0a\x00\x12\x00\x18\x00",
        b"\x08\x05\x12\x01x",
        b"\x1a\x01x\x0d\x01\x02\x03\x04",
        b"\x20\x05\x0a\x01a\x2b\x08\x01\x33\x34\x2c\x12\x01b\x31\x01\x02\x03\x04\x05\x06\x07\x08",
        b"\xfa\xff\xff\xff\x0f\x00",
        b"\x8a\x00\x01a",
        b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ] {
        requests.push(odd.to_vec());
    }
    requests
}

/// What neither takes for a message.
const BROKEN: [&[u8]; 10] = [
    b"\x0a",
    b"\x0a\x05abc",
    b"\x0a\x01\xff",
    b"\x00\x01",
    b"\x82\x80\x80\x80\x10\x00",
    b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",
    b"\x2c",
    b"\x2b\x34",
    b"\x2b",
    b"\x2e\x00",
];

/// An answer with its timestamp zeroed, which must have been there.
fn masked(mut message: Vec<u8>) -> Vec<u8> {
    let answer = Payload::decode(&message).expect("a payload");
    assert!(answer.timestamp > 1_700_000_000_000_000_000, "{answer:?}");
    let unknown: usize = answer.unknown.iter().map(|field| field.len()).sum();
    let end = message.len() - unknown;
    assert_eq!(message[end - 10], 0x18, "the tag of the timestamp");
    message[end - 9..end].fill(0);
    message
}

fn frame(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u32).to_be_bytes()[..], message].concat()
}

#[test]
fn over_a_plain_stream_the_answers_are_the_same() {
    for answer in ["echo", "ack", "5000"] {
        let twins = twins(&["--answer", answer]);
        let mut streams = twins.each_ref().map(Echo::connect);
        for request in requests() {
            let answers = streams.each_mut().map(|stream| {
                stream.write_all(&frame(&request)).expect("sent");
                let mut length = [0; 4];
                stream.read_exact(&mut length).expect("a length");
                let mut message = vec![0; u32::from_be_bytes(length) as usize];
                stream.read_exact(&mut message).expect("a message");
                masked(message)
            });
            assert!(answers[0] == answers[1], "{answer}: {request:x?}");
        }
    }
}

#[test]
fn over_a_plain_stream_the_same_is_refused() {
    let twins = twins(&[]);
    let too_long = [0xff, 0xff, 0xff, 0xff, 0];
    let broken = BROKEN.iter().map(|message| frame(message));
    for sent in broken.chain([too_long.to_vec()]) {
        for echo in &twins {
            let mut stream = echo.connect();
            stream.write_all(&sent).expect("sent");
            // Closed, in order or by a reset.
            let closed = match stream.read(&mut [0]) {
                Ok(count) => count == 0,
                Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
            };
            assert!(closed, "{sent:x?}");
        }
    }
}

#[test]
fn credit_is_granted_the_same() {
    let message = payload("r-1", 64, 1);
    let length = (message.len() as u32).to_be_bytes();
    let whole = frame(&message);
    // What is sent at a time, and how many bytes come back for it.
    let first = (&b""[..], 4);
    let answered = 4 + message.len() + 9 - 1;
    for (flags, exchanges) in [
        // All in one, and given back in front of the answer.
        (
            ["--credit", "65536"],
            vec![
                first,
                (&whole[..], 4 + answered),
                (&whole[..], 4 + answered),
            ],
        ),
        // Forty bytes at a time: given back within the message, and the rest before the answer.
        (
            ["--credit", "40"],
            vec![first, (&whole[..44], 4), (&whole[44..], 4 + answered)],
        ),
        // A turn for each message, whatever its length.
        (
            ["--credit-shared", "10"],
            vec![
                first,
                (&length[..], 4),
                (&message[..], answered),
                (&length[..], 4),
                (&message[..], answered),
            ],
        ),
    ] {
        let twins = twins(&flags);
        let [go, rust] = twins.each_ref().map(|echo| {
            let mut stream = echo.connect();
            let mut said = Vec::new();
            for (sent, count) in &exchanges {
                stream.write_all(sent).expect("sent");
                let mut back = vec![0; *count];
                stream.read_exact(&mut back).expect("an answer");
                let grants = back.len() - back.len().min(answered - 4);
                if back.len() > 4 {
                    let answer = masked(back.split_off(grants));
                    back.extend(answer);
                }
                said.push(back);
            }
            said
        });
        assert_eq!(go, rust, "{flags:?}");
        assert_eq!(go[0][0] & 0x80, 0x80, "the first word is a grant");
    }
}

/// One exchange on a connection of its own: status line and fields without the date, body.
fn exchange(echo: &Echo, method: &str, path: &str, body: &[u8]) -> (String, Vec<u8>) {
    let mut stream = echo.connect();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: echo\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(&[head.as_bytes(), body].concat())
        .expect("sent");
    let mut reader = BufReader::new(stream);
    let (mut head, mut length, mut line) = (String::new(), 0, String::new());
    while reader.read_line(&mut line).expect("a head") > 2 {
        if let Some(value) = line.strip_prefix("Content-Length: ") {
            length = value.trim().parse().expect("a length");
        }
        match line.starts_with("Date: ") {
            true => head.push_str("Date\r\n"),
            false => head.push_str(&line),
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).expect("a body");
    (head, body)
}

#[test]
fn over_rest_heads_and_bodies_are_the_same() {
    let twins = twins(&["--protocol", "rest"]);
    for request in requests() {
        let [go, rust] = twins.each_ref().map(|echo| {
            let (head, body) = exchange(echo, "POST", "/echo", &request);
            (head, masked(body))
        });
        assert_eq!(go.0, rust.0);
        assert!(go.1 == rust.1, "{request:x?}");
    }
    let refused = BROKEN.map(|body| ("POST", "/echo", body));
    let misled = [("POST", "/", &b""[..]), ("GET", "/echo", b"")];
    for (method, path, body) in refused.into_iter().chain(misled) {
        let [go, rust] = twins.each_ref().map(|echo| {
            let (head, body) = exchange(echo, method, path, body);
            (head.lines().next().map(str::to_owned), body)
        });
        assert_eq!(go, rust, "{method} {path} {body:x?}");
    }
}

type Called = (HeaderMap, Vec<u8>, HeaderMap);

/// One call: fields of the head, the message behind its prefix, and the trailers. Where there
/// are only trailers, they stand in the head.
async fn call(echo: &Echo, path: &str, message: &[u8]) -> Called {
    let stream = tokio::net::TcpStream::connect(&echo.address).await;
    let (client, connection) = h2::client::Builder::new()
        .initial_window_size(4 << 20)
        .initial_connection_window_size(4 << 20)
        .handshake(stream.expect("it listens"))
        .await
        .expect("HTTP/2");
    tokio::spawn(connection);
    let request = Request::post(format!("http://echo{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .expect("a request");
    let mut client = client.ready().await.expect("ready");
    let (response, mut body) = client.send_request(request, false).expect("sent");
    let prefixed = [&[0][..], &frame(message)].concat();
    body.send_data(Bytes::from(prefixed), true).expect("sent");
    let (head, mut body) = response.await.expect("an answer").into_parts();
    assert_eq!(head.status, 200);
    let mut received = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.expect("data");
        let released = body.flow_control().release_capacity(chunk.len());
        released.expect("in its window");
        received.extend_from_slice(&chunk);
    }
    let trailers = body.trailers().await.expect("an end").unwrap_or_default();
    (head.headers, received, trailers)
}

#[test]
fn over_grpc_messages_heads_and_trailers_are_the_same() {
    let twins = twins(&["--protocol", "grpc"]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a runtime");
    let both = |path: &str, message: &[u8]| {
        twins
            .each_ref()
            .map(|echo| runtime.block_on(call(echo, path, message)))
    };
    for request in requests() {
        let [go, rust] = both("/wallfinder.echo.Echo/Call", &request);
        assert_eq!((&go.0, &go.2), (&rust.0, &rust.2));
        assert_eq!(go.1[..5], rust.1[..5], "the prefix");
        let [go, rust] = [go, rust].map(|(_, body, _)| masked(body[5..].to_vec()));
        assert!(go == rust, "{request:x?}");
    }
    let refused = BROKEN.map(|message| ("/wallfinder.echo.Echo/Call", message));
    let misled = ("/wallfinder.echo.Echo/No", &b""[..]);
    for (path, message) in refused.into_iter().chain([misled]) {
        // The words are each library's own.
        let [go, rust] = both(path, message).map(|(head, body, trailers)| {
            let status = head.get("grpc-status").or(trailers.get("grpc-status"));
            (status.cloned().expect("a status"), body)
        });
        assert_eq!(go, rust, "{path} {message:x?}");
    }
}
