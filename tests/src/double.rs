//! Doubles of a server: each connection is a conversation that a script leads.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How many requests are kept, as bytes.
const KEPT_MAX: usize = 16;
/// What a connection takes for each request at the least: a load at a double leaves the processors to others.
const PAUSE: Duration = Duration::from_micros(300);

/// What a double has seen.
#[derive(Debug, Default)]
pub struct Seen {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Whole requests read.
    pub requests: AtomicU64,
    /// The first requests, byte for byte.
    pub first: Mutex<Vec<Vec<u8>>>,
}

/// A server that does as a script says. Dropping it closes everything.
#[derive(Debug)]
pub struct Double {
    address: SocketAddr,
    seen: Arc<Seen>,
    over: Arc<AtomicBool>,
    streams: Arc<Mutex<HashMap<u64, TcpStream>>>,
}

impl Double {
    /// Listens on a free port; `script` leads each connection.
    pub fn start(script: impl Fn(&mut Conversation) + Send + Sync + 'static) -> Double {
        Double::start_on(0, script)
    }

    /// Listens on this port.
    pub fn start_on(
        port: u16,
        script: impl Fn(&mut Conversation) + Send + Sync + 'static,
    ) -> Double {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
        let double = Double {
            address: listener.local_addr().expect("it is bound"),
            seen: Arc::default(),
            over: Arc::default(),
            streams: Arc::default(),
        };
        let (seen, over) = (Arc::clone(&double.seen), Arc::clone(&double.over));
        let (streams, script) = (Arc::clone(&double.streams), Arc::new(script));
        thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let _ = stream.set_nodelay(true);
                let number = seen.connections.fetch_add(1, Ordering::SeqCst);
                let Ok(copy) = stream.try_clone() else {
                    continue;
                };
                streams.lock().unwrap().insert(number, copy);
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                let streams = Arc::clone(&streams);
                let mut conversation = Conversation {
                    stream,
                    number,
                    served: 0,
                    resets: false,
                    read: Vec::new(),
                    seen,
                };
                thread::spawn(move || {
                    script(&mut conversation);
                    if !conversation.resets {
                        let _ = conversation.stream.shutdown(Shutdown::Both);
                    }
                    streams.lock().unwrap().remove(&number);
                });
            }
        });
        double
    }

    /// Gives the same answer to every request.
    pub fn answering(answer: &'static [u8]) -> Double {
        Double::start(move |peer| while peer.request().is_some() && peer.say(answer) {})
    }

    /// Answers with a short 200.
    pub fn plain() -> Double {
        Double::answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
    }

    /// Its URL with a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What it has seen.
    pub fn seen(&self) -> &Seen {
        &self.seen
    }

    /// Whole requests read so far.
    pub fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::SeqCst)
    }

    /// Waits until so many requests are read: a load that is to be disturbed has begun.
    ///
    /// # Panics
    /// After 20 seconds without them.
    pub fn await_requests(&self, requests: u64) {
        let until = Instant::now() + Duration::from_secs(20);
        while self.requests() < requests {
            assert!(
                Instant::now() < until,
                "{} of {requests} requests came in 20 s",
                self.requests()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Connections accepted so far.
    pub fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// The first request, byte for byte, as text.
    #[track_caller]
    pub fn first_request(&self) -> String {
        let first = self.seen.first.lock().unwrap();
        String::from_utf8(first.first().expect("there was a request").clone())
            .expect("the request is text")
    }
}

impl Drop for Double {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes the listener, which then closes.
        let _ = TcpStream::connect(self.address);
        for (_, stream) in self.streams.lock().unwrap().drain() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        while TcpStream::connect(self.address).is_ok() {
            thread::yield_now();
        }
    }
}

/// One connection of a double.
#[derive(Debug)]
pub struct Conversation {
    stream: TcpStream,
    /// Number of the connection, from 0.
    pub number: u64,
    /// Requests read on it.
    pub served: u64,
    /// Whether its end is a reset, and no orderly one.
    resets: bool,
    read: Vec<u8>,
    seen: Arc<Seen>,
}

impl Conversation {
    /// The next whole request, head and body; `None` when the client has gone.
    pub fn request(&mut self) -> Option<Vec<u8>> {
        let mut chunk = [0; 4096];
        loop {
            if let Some(end) = request_end(&self.read) {
                thread::sleep(PAUSE);
                let rest = self.read.split_off(end);
                let request = std::mem::replace(&mut self.read, rest);
                self.served += 1;
                self.seen.requests.fetch_add(1, Ordering::SeqCst);
                let mut first = self.seen.first.lock().unwrap();
                if first.len() < KEPT_MAX {
                    first.push(request.clone());
                }
                return Some(request);
            }
            match self.stream.read(&mut chunk) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.read.extend_from_slice(&chunk[..count]),
            }
        }
    }

    /// When the script ends, the connection is reset.
    pub fn will_reset(&mut self) {
        let linger = Some(std::time::Duration::ZERO);
        rustix::net::sockopt::set_socket_linger(&self.stream, linger).expect("it is open");
        self.resets = true;
    }

    /// Says something; `false` when nobody listens any more.
    pub fn say(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).is_ok()
    }
}

/// Where the first request ends, by its head and Content-Length.
fn request_end(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    let length = text
        .split("\r\n")
        .find_map(|line| line.strip_prefix("content-length:"))
        .map_or(0, |value| value.trim().parse().unwrap_or(0));
    (bytes.len() >= head + length).then_some(head + length)
}

/// A port that nobody listens on now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it is bound").port()
}
