//! `knownwall-client`: a load generator that is the wall itself: it burns CPU time for each
//! answer, or has a pool of few connections behind many nominal ones.
//!
//! ```text
//!  64 askers ─► pool of 4 connections ─► server          what it says: 64 connections
//!               (the others wait here)                    what there is: 4 in flight
//! ```
//!
//! Each asker is a thread that asks, reads the answer and works on it before it gives its
//! connection back. Closed loop, HTTP/1.1, no pipelining; prints a count at the end.
//! Exit codes: 0 done, 1 could not run, 2 bad arguments.

#![forbid(unsafe_code)]

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use knownwall::spin::Spinner;
use subject::follow_starter;

const USAGE: &str = "\
Usage: knownwall-client [flags] URL

  -c N              askers, each with one request at a time (default 16)
  --pool N          connections that they share (default: one for each)
  --spin-us T       microseconds of CPU time for each answer (default 0)
  -d SECONDS        how long (default 10)
";

/// How long an answer may take.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(30);
/// The longest head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;

fn main() -> ExitCode {
    let plan = match Plan::parse(std::env::args().skip(1)) {
        Ok(plan) => plan,
        Err(mistake) => {
            eprintln!("knownwall-client: {mistake}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let done = follow_starter().and_then(|()| drive(&plan));
    match done {
        Ok((answers, seconds)) => {
            let rate = answers as f64 / seconds;
            println!("{answers} answers in {seconds:.2} s, {rate:.1} per second");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("knownwall-client: {}: {error}", plan.authority);
            ExitCode::FAILURE
        }
    }
}

/// The command line, checked.
#[derive(Debug, Clone, PartialEq)]
struct Plan {
    askers: usize,
    pool: usize,
    spin_us: f64,
    seconds: f64,
    authority: String,
    path: String,
}

impl Plan {
    fn parse(args: impl Iterator<Item = String>) -> Result<Plan, String> {
        let (mut askers, mut pool, mut spin_us, mut seconds) = (16, None, 0.0, 10.0);
        let mut url = None;
        let mut args = args;
        while let Some(word) = args.next() {
            let mut number = || -> Result<f64, String> {
                let value = args.next().ok_or(format!("{word} lacks its value"))?;
                let number = value.parse().ok().filter(|n| (0.0..=1e6).contains(n));
                number.ok_or(format!("{word} cannot be `{value}`"))
            };
            match word.as_str() {
                "-c" => askers = number()? as usize,
                "--pool" => pool = Some(number()? as usize),
                "--spin-us" => spin_us = number()?,
                "-d" => seconds = number()?,
                flag if flag.starts_with('-') => return Err(format!("there is no flag `{flag}`")),
                _ => url = Some(word),
            }
        }
        let url = url.ok_or("the URL is missing")?;
        let rest = url
            .strip_prefix("http://")
            .ok_or(format!("`{url}` is no http:// URL"))?;
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        let pool = pool.unwrap_or(askers);
        if askers == 0 || pool == 0 {
            return Err("-c and --pool must be above 0".to_owned());
        }
        Ok(Plan {
            askers,
            pool,
            spin_us,
            seconds,
            authority: authority.to_owned(),
            path: path.to_owned(),
        })
    }
}

/// Connections that are free, and who waits for one.
#[derive(Default)]
struct Pool {
    free: Mutex<Vec<TcpStream>>,
    given_back: Condvar,
}

impl Pool {
    fn take(&self) -> TcpStream {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match free.pop() {
                Some(connection) => return connection,
                None => {
                    let waited = self.given_back.wait(free);
                    free = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    fn give_back(&self, connection: TcpStream) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(connection);
        self.given_back.notify_one();
    }
}

fn drive(plan: &Plan) -> io::Result<(u64, f64)> {
    let authority = match plan.authority.contains(':') {
        true => plan.authority.clone(),
        false => format!("{}:80", plan.authority),
    };
    let address = authority.to_socket_addrs()?.next();
    let address = address.ok_or_else(|| io::Error::other("the host has no address"))?;
    let pool = Arc::new(Pool::default());
    for _ in 0..plan.pool {
        let connection = TcpStream::connect(address)?;
        connection.set_nodelay(true)?;
        connection.set_read_timeout(Some(ANSWER_WAIT_MAX))?;
        pool.give_back(connection);
    }
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\n\r\n",
        plan.path, plan.authority
    );
    let spinner = Spinner::calibrate();
    let start = Instant::now();
    let end = start + Duration::from_secs_f64(plan.seconds);
    let askers: Vec<_> = (0..plan.askers)
        .map(|_| {
            let (pool, request, spin_us) = (Arc::clone(&pool), request.clone(), plan.spin_us);
            thread::spawn(move || ask_until(end, &pool, request.as_bytes(), &spinner, spin_us))
        })
        .collect();
    let mut answers = 0;
    for asker in askers {
        answers += asker.join().expect("an asker does not panic")?;
    }
    Ok((answers, start.elapsed().as_secs_f64()))
}

/// A function of its own in every build: profiles are to name it.
#[inline(never)]
fn ask_until(
    end: Instant,
    pool: &Pool,
    request: &[u8],
    spinner: &Spinner,
    spin_us: f64,
) -> io::Result<u64> {
    let (mut answers, mut buffer) = (0, vec![0; HEAD_BYTES_MAX]);
    while Instant::now() < end {
        let mut connection = pool.take();
        let answered = ask(&mut connection, request, &mut buffer);
        spinner.spin_us(spin_us);
        // Given back even when it broke, so that nobody waits for it for ever.
        pool.give_back(connection);
        answered?;
        answers += 1;
    }
    Ok(answers)
}

/// One request, and its whole answer.
fn ask(connection: &mut TcpStream, request: &[u8], buffer: &mut [u8]) -> io::Result<()> {
    connection.write_all(request)?;
    let mut got = 0;
    loop {
        let n = connection.read(&mut buffer[got..])?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        got += n;
        if let Some((head_bytes, body_bytes)) = lengths(&buffer[..got])? {
            let mut left = (head_bytes + body_bytes).saturating_sub(got);
            while left > 0 {
                let most = left.min(buffer.len());
                match connection.read(&mut buffer[..most])? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    n => left -= n,
                }
            }
            return Ok(());
        }
        if got == buffer.len() {
            return Err(io::Error::other("the head of the answer is too long"));
        }
    }
}

/// Lengths of head and body, once the head is whole. Only 2xx with a length will do.
fn lengths(bytes: &[u8]) -> io::Result<Option<(usize, usize)>> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&bytes[..end]);
    if !head.starts_with("HTTP/1.1 2") {
        let line = head.lines().next().unwrap_or_default();
        return Err(io::Error::other(format!("the answer was `{line}`")));
    }
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.trim().parse().ok())?
    });
    let length = length.ok_or_else(|| io::Error::other("the answer says no length"))?;
    Ok(Some((end + 4, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Plan, String> {
        Plan::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn flags_and_url_are_read() {
        let plan = parse("-c 64 --pool 4 http://a:1/x?y -d 2.5").unwrap();
        assert_eq!((plan.askers, plan.pool, plan.seconds), (64, 4, 2.5));
        assert_eq!(
            (plan.authority.as_str(), plan.path.as_str()),
            ("a:1", "/x?y")
        );
        assert_eq!(parse("-c 3 http://a").unwrap().pool, 3);
        for bad in [
            "",
            "-c 0 http://a",
            "-c http://a",
            "--x http://a",
            "ftp://a",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_answer_is_framed_by_its_length() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc";
        assert_eq!(lengths(answer).unwrap(), Some((38, 3)));
        assert_eq!(lengths(&answer[..20]).unwrap(), None);
        assert!(lengths(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n").is_err());
        assert!(lengths(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
