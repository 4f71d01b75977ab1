//! Real servers on loopback: Go's, nghttp2's and the crate `h2`'s. Each is loaded over one
//! blocking socket, and every answer is checked. What is not installed is skipped, aloud.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use wallfinder_wire::http2::{Http2, Options, Shared};
use wallfinder_wire::{Outcome, Request, Wire};

use crate::socket::{self, Loaded};

fn load(address: SocketAddr, request: &Request, options: Options, count: u32) -> Loaded {
    let mut shared = Shared::new(request, options).unwrap();
    socket::load(address, &mut shared, count)
}

fn streams(in_flight_max: u32) -> Options {
    Options {
        in_flight_max,
        ..Options::default()
    }
}

fn narrow(in_flight_max: u32) -> Options {
    Options {
        in_flight_max,
        stream_window_bytes: 10_000,
        connection_window_bytes: 65_535,
        ..Options::default()
    }
}

/// A server process, ended with the value.
struct Server {
    process: Child,
    address: SocketAddr,
    folder: Option<PathBuf>,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// A folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("wallfinder-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn go_server(name: &str) -> Option<Server> {
    let folder = folder(name);
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(folder.join("server"))
        .arg(".")
        .current_dir(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/http2/go_server"
        ))
        .status();
    let Ok(status) = built else {
        wallfinder_skip::skip("go is not installed");
        return None;
    };
    assert!(status.success(), "the Go server does not build");
    let mut process = Command::new(folder.join("server"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let stdout = process.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).unwrap();
    Some(Server {
        process,
        address: line.trim().parse().expect("an address"),
        folder: Some(folder),
    })
}

#[test]
fn gos_server_is_loaded_and_every_answer_is_whole() {
    let Some(server) = go_server("go") else {
        return;
    };
    let get = |path: &str| Request::get(server.address.to_string(), path);
    let load = |request: &Request, options, count| load(server.address, request, options, count);

    load(&get("/bytes/14"), streams(1), 50).assert_all(50, 200, 14);
    load(&get("/bytes/14"), streams(200), 2000).assert_all(2000, 200, 14);
    load(&get("/bytes/0"), streams(10), 100).assert_all(100, 200, 0);
    load(&get("/bytes/3000000"), streams(4), 12).assert_all(12, 200, 3_000_000);
    load(&get("/bytes/1000000"), narrow(4), 12).assert_all(12, 200, 1_000_000);
    load(&get("/nowhere"), streams(3), 9).assert_all(9, 404, 19);

    let head = Request::new("HEAD", server.address.to_string(), "/bytes/14");
    load(&head, streams(5), 50).assert_all(50, 200, 0);
    let post = |path: &str, bytes: usize| {
        Request::new("POST", server.address.to_string(), path).body(vec![b'p'; bytes])
    };
    load(&post("/echo", 0), streams(5), 20).assert_all(20, 200, 0);
    load(&post("/echo", 100), streams(50), 500).assert_all(500, 200, 100);
    load(&post("/echo", 500_000), streams(5), 20).assert_all(20, 200, 500_000);
    load(&post("/echo", 500_000), narrow(5), 20).assert_all(20, 200, 500_000);
    load(&get("/trailers"), streams(10), 100).assert_all(100, 200, 4);

    let early = load(&post("/early", 2_000_000), streams(3), 9);
    early.assert_all(9, 403, 0);
    let aborted = load(&get("/abort"), streams(3), 9);
    assert_eq!(aborted.failures, ["h2.reset.internal_error"; 9]);

    let mut many = get("/bytes/1");
    for n in 0..300 {
        many = many.header(format!("x-{n}"), "v".repeat(60));
    }
    load(&many, streams(3), 30).assert_all(30, 200, 1);

    let once = Options {
        requests_max: 7,
        ..streams(3)
    };
    let used_up = load(&get("/bytes/1"), once, 100);
    assert_eq!((used_up.answers.len(), used_up.is_over), (7, true));
}

#[test]
fn gos_server_says_goodbye_and_nothing_is_lost() {
    let Some(server) = go_server("bye") else {
        return;
    };
    let bye = Request::get(server.address.to_string(), "/bye");
    let loaded = load(server.address, &bye, streams(5), 100_000);
    assert!(loaded.is_over);
    assert!(!loaded.answers.is_empty());
    let all_unprocessed = loaded
        .failures
        .iter()
        .all(|class| *class == "h2.unprocessed");
    assert!(all_unprocessed, "{:?}", loaded.failures);
}

#[test]
fn nghttp2s_server_is_loaded_and_every_answer_is_whole() {
    let folder = folder("nghttpd");
    std::fs::write(folder.join("small"), "fourteen bytes").unwrap();
    std::fs::write(folder.join("large"), vec![b'x'; 2_000_000]).unwrap();
    // A port that was free a moment ago.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let started = Command::new("nghttpd")
        .args(["--no-tls", "--address=127.0.0.1", "--echo-upload", "-d"])
        .arg(&folder)
        .arg(address.port().to_string())
        .stdout(Stdio::null())
        .spawn();
    let Ok(process) = started else {
        wallfinder_skip::skip("nghttpd is not installed");
        return;
    };
    let server = Server {
        process,
        address,
        folder: Some(folder),
    };
    let listens = (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        TcpStream::connect(address).is_ok()
    });
    assert!(listens, "nghttpd does not listen");
    let get = |path: &str| Request::get(server.address.to_string(), path);
    let load = |request: &Request, options, count| load(server.address, request, options, count);

    load(&get("/small"), streams(1), 50).assert_all(50, 200, 14);
    load(&get("/small"), streams(300), 3000).assert_all(3000, 200, 14);
    load(&get("/large"), streams(4), 12).assert_all(12, 200, 2_000_000);
    load(&get("/large"), narrow(4), 6).assert_all(6, 200, 2_000_000);
    let missing = load(&get("/missing"), streams(3), 9);
    assert!(missing.answers.iter().all(|answer| answer.status == 404));
    assert_eq!(missing.answers.len(), 9);
    let post = Request::new("POST", server.address.to_string(), "/").body(vec![b'p'; 300_000]);
    load(&post, streams(5), 20).assert_all(20, 200, 300_000);
}

/// Serves connections with the crate `h2` until the process ends; gives the address.
fn h2_crate_server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(socket));
            }
        });
    });
    address
}

/// Answers each request with its body, and with trailers.
async fn serve(socket: tokio::net::TcpStream) {
    let mut connection = h2::server::Builder::new()
        .max_concurrent_streams(7)
        .handshake::<_, bytes::Bytes>(socket)
        .await
        .unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        tokio::spawn(async move {
            let mut body = request.into_body();
            let mut whole = Vec::new();
            while let Some(Ok(data)) = body.data().await {
                let _ = body.flow_control().release_capacity(data.len());
                whole.extend_from_slice(&data);
            }
            let head = http::Response::builder().header("x-seen", whole.len());
            let mut send = respond
                .send_response(head.body(()).unwrap(), false)
                .unwrap();
            send.send_data(whole.into(), false).unwrap();
            let mut trailers = http::HeaderMap::new();
            trailers.insert("x-sum", http::HeaderValue::from_static("1"));
            send.send_trailers(trailers).unwrap();
        });
    }
}

#[test]
fn the_crate_h2s_server_is_loaded_and_every_answer_is_whole() {
    let address = h2_crate_server();
    let get = Request::get(address.to_string(), "/");
    load(address, &get, streams(1), 50).assert_all(50, 200, 0);
    // More slots than the seven streams that the server allows.
    load(address, &get, streams(50), 1000).assert_all(1000, 200, 0);
    let post =
        |bytes: usize| Request::new("POST", address.to_string(), "/").body(vec![b'p'; bytes]);
    load(address, &post(1000), streams(50), 500).assert_all(500, 200, 1000);
    load(address, &post(300_000), streams(5), 20).assert_all(20, 200, 300_000);
    load(address, &post(300_000), narrow(5), 20).assert_all(20, 200, 300_000);
}

#[test]
fn a_server_of_http1_alone_is_known_before_any_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut asked = [0; 24];
        socket.read_exact(&mut asked).unwrap();
        let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
        socket.write_all(answer).unwrap();
    });
    let request = Request::get(address.to_string(), "/");
    let mut shared = Shared::new(&request, streams(3)).unwrap();
    let mut http2 = Http2::open(&shared);
    let mut socket = TcpStream::connect(address).unwrap();
    let mut buffer = vec![0; shared.write_bytes_min()];
    let len = http2.write(&shared, &mut buffer);
    socket.write_all(&buffer[..len]).unwrap();
    let mut answer = Vec::new();
    // The server closes on what it did not read: a reset may follow its answer.
    let _ = socket.read_to_end(&mut answer);
    http2.handle_bytes(&mut shared, &answer);
    let Some(Outcome::Broken { slot: None, error }) = http2.poll_outcome() else {
        panic!("it went on");
    };
    assert_eq!(error.class(), "h2.preface");
}
