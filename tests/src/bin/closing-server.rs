//! A server that ends each connection after one answer: the default of several application servers.
//!
//! `closing-server PORT WORKERS sleep|spin MS [1.0]`: so many threads that each accept a connection, read a
//! request, wait or compute, answer, and close. In HTTP/1.0 the answer's end is that of the connection.
//!
//! It is a process of its own, so that what it uses is not taken for the test's.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A request without a body.
fn read_request(stream: &mut TcpStream) -> Option<()> {
    let mut read = Vec::new();
    let mut chunk = [0; 4096];
    while !read.ends_with(b"\r\n\r\n") {
        let count = stream.read(&mut chunk).ok().filter(|count| *count > 0)?;
        read.extend_from_slice(&chunk[..count]);
    }
    Some(())
}

/// So much work, and not so much time: a slower processor takes longer for it.
fn spin(turns: u64) {
    for turn in 0..turns {
        black_box(turn);
    }
}

/// How many turns take so long on a processor that nobody else has.
fn turns_of(time: Duration) -> u64 {
    const TRIED: u64 = 1_000_000;
    let timed = |_| {
        let began = Instant::now();
        spin(TRIED);
        began.elapsed()
    };
    let each = (0..10).map(timed).min().expect("some were timed");
    (TRIED as f64 * time.as_secs_f64() / each.as_secs_f64()) as u64
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args[at].parse::<u64>().expect("a number");
    let port = u16::try_from(number(0)).expect("a port");
    let time = Duration::from_millis(number(3));
    let turns = (args[2] == "spin").then(|| turns_of(time));
    let answer: &[u8] = match args.get(4) {
        Some(_) => b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nhello",
        None => b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
    };
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let listener = Arc::new(listener);
    let serve = move |listener: Arc<TcpListener>| {
        while let Ok((mut stream, _)) = listener.accept() {
            if read_request(&mut stream).is_some() {
                match turns {
                    Some(turns) => spin(turns),
                    None => thread::sleep(time),
                }
                let _ = stream.write_all(answer);
            }
        }
    };
    for _ in 1..number(1) {
        let listener = Arc::clone(&listener);
        thread::spawn(move || serve(listener));
    }
    serve(listener);
}
