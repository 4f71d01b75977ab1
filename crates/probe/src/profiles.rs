//! Profiles of a process that offers them over HTTP, at the paths of Go's `net/http/pprof`.
//!
//! Asked in HTTP/1.0, so that the answer is a head and everything after it until the end.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use thiserror::Error;
use wallfinder_model::ProfileKind;

/// How long beyond its window a profile may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The longest head of an answer, and the longest body, in bytes.
const HEAD_BYTES_MAX: usize = 16 << 10;
const BODY_BYTES_MAX: usize = 64 << 20;

/// The longest text of a refusal that is passed on.
const REFUSAL_BYTES_MAX: usize = 200;

/// Why there is no profile.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NoProfile {
    /// Nobody answers there.
    #[error("no profiles at {address}: {why}; does the server offer /debug/pprof/ there?")]
    Unreachable {
        /// Where.
        address: SocketAddr,
        /// In the system's words.
        why: String,
    },
    /// Somebody else answers there.
    #[error("{address} does not answer as HTTP: {start:?}")]
    NotHttp {
        /// Where.
        address: SocketAddr,
        /// How it begins.
        start: String,
    },
    /// Asked, and refused.
    #[error("{address} answers {path} with status {status}: {why}")]
    Refused {
        /// Where.
        address: SocketAddr,
        /// What was asked for.
        path: String,
        /// The status.
        status: u16,
        /// How the body begins.
        why: String,
    },
    /// Too long, too late, or cut short.
    #[error("the answer of {address} to {path} {why}")]
    Broken {
        /// Where.
        address: SocketAddr,
        /// What was asked for.
        path: String,
        /// How.
        why: String,
    },
}

/// A profile, as the process writes it. Of a window of whole seconds, or of this moment where
/// `seconds` is 0; CPU profiles have no moment.
pub fn fetch(address: SocketAddr, kind: ProfileKind, seconds: u64) -> Result<Vec<u8>, NoProfile> {
    fetch_path(address, &path(kind, seconds), seconds)
}

/// The trace of a window: every event of the runtime, for `go tool trace`.
pub fn fetch_trace(address: SocketAddr, seconds: u64) -> Result<Vec<u8>, NoProfile> {
    let path = format!("/debug/pprof/trace?seconds={seconds}");
    fetch_path(address, &path, seconds)
}

fn path(kind: ProfileKind, seconds: u64) -> String {
    let name = match kind {
        ProfileKind::Cpu => "profile",
        other => other.label(),
    };
    match seconds {
        0 => format!("/debug/pprof/{name}"),
        seconds => format!("/debug/pprof/{name}?seconds={seconds}"),
    }
}

fn fetch_path(address: SocketAddr, path: &str, seconds: u64) -> Result<Vec<u8>, NoProfile> {
    let patience = Duration::from_secs(seconds).saturating_add(PATIENCE);
    fetch_within(address, path, patience)
}

/// Everything together, from the connection to the last byte, within this time.
fn fetch_within(address: SocketAddr, path: &str, patience: Duration) -> Result<Vec<u8>, NoProfile> {
    let until = Instant::now() + patience;
    let unreachable = |error: io::Error| NoProfile::Unreachable {
        address,
        why: error.to_string(),
    };
    let mut socket =
        TcpStream::connect_timeout(&address, patience.min(PATIENCE)).map_err(unreachable)?;
    socket
        .set_write_timeout(Some(patience.min(PATIENCE)))
        .map_err(unreachable)?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    socket.write_all(request.as_bytes()).map_err(unreachable)?;
    let broken = |why: String| NoProfile::Broken {
        address,
        path: path.to_owned(),
        why,
    };
    let answer = read_all(&mut socket, until).map_err(broken)?;
    let Some((head, body)) = split(&answer) else {
        let start = String::from_utf8_lossy(&answer[..answer.len().min(40)]);
        return Err(NoProfile::NotHttp {
            address,
            start: start.into_owned(),
        });
    };
    if head.status != 200 {
        let why = String::from_utf8_lossy(&body[..body.len().min(REFUSAL_BYTES_MAX)]);
        return Err(NoProfile::Refused {
            address,
            path: path.to_owned(),
            status: head.status,
            why: why.trim().to_owned(),
        });
    }
    match head.length {
        Some(length) if length != body.len() => Err(broken(format!(
            "ended after {} of {length} bytes",
            body.len()
        ))),
        _ => Ok(body.to_vec()),
    }
}

fn read_all(socket: &mut TcpStream, until: Instant) -> Result<Vec<u8>, String> {
    let mut answer = Vec::new();
    let mut chunk = [0; 64 << 10];
    // Where the head ends, and how long the body says it is.
    let mut head: Option<(usize, Option<usize>)> = None;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err("took too long".into());
        }
        let patience = socket.set_read_timeout(Some(left));
        match patience.and_then(|()| socket.read(&mut chunk)) {
            Ok(0) => return Ok(answer),
            Ok(len) => answer.extend_from_slice(&chunk[..len]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if is_timeout(&error) => return Err("took too long".into()),
            Err(error) => return Err(format!("broke off: {error}")),
        }
        if head.is_none() {
            head = split(&answer).map(|(head, body)| (answer.len() - body.len(), head.length));
        }
        match head {
            // Its connection may stay open.
            Some((from, Some(length))) if answer.len() - from >= length => return Ok(answer),
            // A head that does not end is none.
            None if answer.len() > HEAD_BYTES_MAX => return Ok(answer),
            _ => {}
        }
        if answer.len() > HEAD_BYTES_MAX + BODY_BYTES_MAX {
            return Err(format!("is longer than {} MiB", BODY_BYTES_MAX >> 20));
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    length: Option<usize>,
}

/// The head and the body of an answer; `None` where it is none of HTTP.
fn split(answer: &[u8]) -> Option<(Head, &[u8])> {
    const END: &[u8] = b"\r\n\r\n";
    let within = &answer[..answer.len().min(HEAD_BYTES_MAX)];
    let end = within.windows(END.len()).position(|four| four == END)?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    if !words.next()?.starts_with("HTTP/1.") {
        return None;
    }
    let status = words.next()?.parse().ok()?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    Some((Head { status, length }, &answer[end + END.len()..]))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// A server that says one thing to one caller, and what it was asked.
    fn serve(answer: &'static [u8]) -> (SocketAddr, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let served = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut asked = [0; 1024];
            let len = socket.read(&mut asked).unwrap();
            socket.write_all(answer).unwrap();
            String::from_utf8_lossy(&asked[..len]).into_owned()
        });
        (address, served)
    }

    fn asked_for(answer: &'static [u8]) -> Result<Vec<u8>, NoProfile> {
        let (address, served) = serve(answer);
        let fetched = fetch(address, ProfileKind::Mutex, 3);
        let asked = served.join().unwrap();
        assert!(
            asked.starts_with("GET /debug/pprof/mutex?seconds=3 HTTP/1.0\r\n"),
            "{asked}"
        );
        fetched
    }

    #[test]
    fn the_body_is_given_as_it_came() {
        let body = asked_for(b"HTTP/1.0 200 OK\r\nContent-Type: x\r\n\r\n\x1f\x8b\r\n\r\nrest");
        assert_eq!(body.unwrap(), b"\x1f\x8b\r\n\r\nrest");
        let body = asked_for(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc");
        assert_eq!(body.unwrap(), b"abc");
    }

    #[test]
    fn what_is_no_profile_is_told_apart() {
        let said = |answer| asked_for(answer).unwrap_err().to_string();
        let refused = said(b"HTTP/1.0 500 Oops\r\n\r\nCould not enable CPU profiling: in use\n");
        assert!(
            refused.ends_with("with status 500: Could not enable CPU profiling: in use"),
            "{refused}"
        );
        let cut = said(b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nabc");
        assert!(cut.ends_with("ended after 3 of 9 bytes"), "{cut}");
        let other = said(b"-ERR unknown command\r\n");
        assert!(other.contains("does not answer as HTTP"), "{other}");
    }

    /// A server that says one thing, and then another every few milliseconds for as long as it is heard.
    fn drip(first: &'static [u8], then: &'static [u8], every: Duration) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let _ = socket.read(&mut [0; 1024]);
            let mut said = socket.write_all(first);
            while said.is_ok() {
                thread::sleep(every);
                said = socket.write_all(then);
            }
        });
        address
    }

    #[test]
    fn a_server_that_drips_is_left_when_the_time_is_over() {
        const EVERY: Duration = Duration::from_millis(10);
        let (no_end, long): (&[u8], &[u8]) = (
            b"HTTP/1.0 200 OK\r\n\r\n",
            b"HTTP/1.0 200 OK\r\nContent-Length: 60000000\r\n\r\n",
        );
        for (first, then) in [
            (no_end, &b"a"[..]),
            (long, b"b"),
            (b"HTTP/1.0 200 OK\r\nX: ", b"c"),
        ] {
            let address = drip(first, then, EVERY);
            let began = Instant::now();
            let left = fetch_within(address, "/x", Duration::from_millis(300)).unwrap_err();
            assert!(left.to_string().ends_with("took too long"), "{left}");
            // Not at once, and not after any of the times that a single read may take.
            let took = began.elapsed().as_secs_f64();
            assert!((0.25..5.0).contains(&took), "{took}");
        }
    }

    #[test]
    fn what_does_not_end_is_read_no_further_than_it_may_be() {
        static MUCH: [u8; 1 << 20] = [b'x'; 1 << 20];
        let fetched = |first| {
            let address = drip(first, &MUCH, Duration::ZERO);
            fetch_within(address, "/x", Duration::from_secs(60))
                .unwrap_err()
                .to_string()
        };
        let body = fetched(b"HTTP/1.0 200 OK\r\n\r\n");
        assert!(body.ends_with("is longer than 64 MiB"), "{body}");
        // One that has a head without an end is no HTTP, and nobody waits for more of it.
        let head = fetched(b"HTTP/1.0 200 OK\r\nX: ");
        assert!(head.contains("does not answer as HTTP"), "{head}");
    }

    #[test]
    fn nobody_there_is_said_with_the_way_out() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let said = fetch(address, ProfileKind::Cpu, 1).unwrap_err().to_string();
        assert!(
            said.contains("does the server offer /debug/pprof/"),
            "{said}"
        );
    }
}
