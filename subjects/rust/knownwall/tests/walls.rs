//! Black-box: the binary, its start-up line, and walls that hold on any machine, however
//! busy: none of these may be exceeded, and answers arrive.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(flags: &str) -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_knownwall"))
            .args(flags.split_whitespace())
            .args(["--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.split('"').nth(3).unwrap().to_owned();
        assert!(line.contains("\"server\":\"knownwall\""), "{line}");
        Server { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
    }

    /// Answers per second to so many connections.
    fn rate(&self, connections: usize, time: Duration) -> f64 {
        let start = Instant::now();
        let askers: Vec<_> = (0..connections)
            .map(|_| {
                let mut stream = self.connect();
                thread::spawn(move || {
                    let mut answers = 0;
                    while start.elapsed() < time {
                        ask(&mut stream, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
                        answers += 1;
                    }
                    answers
                })
            })
            .collect();
        let answers: u32 = askers.into_iter().map(|asker| asker.join().unwrap()).sum();
        f64::from(answers) / start.elapsed().as_secs_f64()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One exchange; the body's length.
fn ask(stream: &mut TcpStream, request: &[u8]) -> usize {
    stream.write_all(request).unwrap();
    let (mut got, mut buffer) = (Vec::new(), [0; 65_536]);
    loop {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0, "closed too early");
        got.extend_from_slice(&buffer[..n]);
        let text = String::from_utf8_lossy(&got);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let length: usize = head.rsplit_once(": ").unwrap().1.parse().unwrap();
        if body.len() >= length {
            return body.len();
        }
    }
}

#[test]
fn answers_are_whole_and_uploads_are_dropped() {
    let server = Server::start("--answer-bytes 200000");
    let mut stream = server.connect();
    let upload = [
        b"POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n".to_vec(),
        vec![b'x'; 100_000],
    ]
    .concat();
    assert_eq!(ask(&mut stream, &upload), 200_000);
    assert_eq!(ask(&mut stream, b"GET / HTTP/1.1\r\n\r\n"), 200_000);
    stream
        .write_all(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(rest.len() > 200_000);
}

#[test]
fn no_ceiling_is_exceeded() {
    let time = Duration::from_millis(700);
    for (flags, connections, ceiling) in [
        ("--spin-us 1000", 4, 1_000.0),
        ("--lock-sleep-us 2000 --workers 4", 8, 500.0),
        ("--lock-spin-us 2000 --workers 4", 8, 500.0),
        ("--async-sleep-us 10000", 4, 400.0),
        ("--permits 2 --permit-sleep-us 5000", 8, 400.0),
        ("--batch-us 1000 --each-us 1000", 4, 1_000.0),
        ("--contend-threads 4 --async-sleep-us 10000", 2, 200.0),
    ] {
        let rate = Server::start(flags).rate(connections, time);
        assert!(rate <= ceiling * 1.03, "{flags}: {rate} of {ceiling}");
        assert!(rate >= ceiling * 0.1, "{flags}: {rate} of {ceiling}");
    }
}

#[test]
fn a_client_drives_it_and_says_how_much() {
    let server = Server::start("--async-sleep-us 10000");
    let url = format!("http://{}/", server.address);
    let output = Command::new(env!("CARGO_BIN_EXE_knownwall-client"))
        .args(["-c", "16", "--pool", "2", "-d", "1", &url])
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let rate: f64 = said.split_whitespace().nth(5).unwrap().parse().unwrap();
    assert!((20.0..=206.0).contains(&rate), "{said}");
}

#[test]
fn mistakes_end_with_2() {
    let output = Command::new(env!("CARGO_BIN_EXE_knownwall"))
        .arg("--spin")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--help"));
}
