//! What one answer of a server looks like, learned before a null client starts.
//!
//! A null client parses nothing, so it must be told how many bytes make an answer. Where
//! all answers have one length, that is a number. Where they vary (`/read`), it reads the
//! digits of `Content-Length` at the place where they stood in the first answers, and
//! nothing else: that is honest only where each answer begins with the bytes of a
//! receive, so with one request in flight.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How a null client knows where an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    /// All answers have this many bytes, head and body.
    Fixed(usize),
    /// The digits of `Content-Length` stand at `digits_at`, and between the last digit
    /// and the body there are `tail_bytes`.
    Read {
        /// From the first byte of the answer.
        digits_at: usize,
        /// To the first byte of the body.
        tail_bytes: usize,
    },
}

/// Answers asked for: enough to see whether lengths vary.
const ANSWERS: usize = 16;

/// Reads one answer: its length, and where its `Content-Length` stands, if it has one.
pub type ReadAnswer = fn(&mut TcpStream) -> io::Result<(usize, usize, usize)>;

/// Asks the server some times and compares the answers.
pub fn learn(address: SocketAddr, request: &[u8], read: ReadAnswer) -> io::Result<Length> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut fixed = None;
    let mut place = None;
    let mut varies = false;
    for _ in 0..ANSWERS {
        stream.write_all(request)?;
        let (bytes, digits_at, tail_bytes) = read(&mut stream)?;
        varies |= fixed.replace(bytes).is_some_and(|before| before != bytes);
        let here = (digits_at, tail_bytes);
        if place.replace(here).is_some_and(|before| before != here) {
            return Err(unusable("its Content-Length moves about in the head"));
        }
    }
    match (varies, fixed, place) {
        (false, Some(bytes), _) => Ok(Length::Fixed(bytes)),
        (_, _, Some((digits_at, tail_bytes))) => Ok(Length::Read {
            digits_at,
            tail_bytes,
        }),
        _ => Err(unusable("it did not answer")),
    }
}

fn unusable(why: &str) -> io::Error {
    io::Error::other(format!("a null client cannot drive this server: {why}"))
}

/// Total length, place of the digits, and bytes between digits and body.
pub fn read_answer(stream: &mut TcpStream) -> io::Result<(usize, usize, usize)> {
    let mut bytes = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Err(unusable("it closed the connection"));
        }
        bytes.extend_from_slice(&piece[..count]);
        let Some(head_bytes) = end_of_head(&bytes) else {
            continue;
        };
        if !bytes.starts_with(b"HTTP/1.1 200 ") {
            return Err(unusable("its answer is not a 200"));
        }
        let (digits_at, length, digits) = content_length(&bytes[..head_bytes])
            .ok_or_else(|| unusable("its answer has no Content-Length"))?;
        let total = head_bytes + length;
        if bytes.len() > total {
            return Err(unusable("it sent more than its Content-Length"));
        }
        if bytes.len() == total {
            return Ok((total, digits_at, head_bytes - digits_at - digits));
        }
    }
}

/// The same of a message behind its length, 4 bytes, big-endian, which does not count itself.
/// There is no place to read the length from that [`Length::Read`] could name.
pub fn read_frame(stream: &mut TcpStream) -> io::Result<(usize, usize, usize)> {
    let mut prefix = [0; 4];
    stream.read_exact(&mut prefix)?;
    let length = u32::from_be_bytes(prefix) as usize;
    let mut message = vec![0; length.min(1 << 20)];
    stream.read_exact(&mut message)?;
    match message.len() == length {
        true => Ok((4 + length, 0, 0)),
        false => Err(unusable("its message is longer than a mebibyte")),
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let at = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some(at + 4)
}

/// Place, value and number of the digits of `Content-Length`.
fn content_length(head: &[u8]) -> Option<(usize, usize, usize)> {
    const NAME: &[u8] = b"\r\ncontent-length: ";
    let at = head
        .windows(NAME.len())
        .position(|window| window.eq_ignore_ascii_case(NAME))?
        + NAME.len();
    let (value, digits) = decimal(&head[at..])?;
    Some((at, value, digits))
}

/// The number at the start of `bytes` and how many digits it has, if it ends within.
#[inline]
pub fn decimal(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0_usize;
    for (digits, byte) in bytes.iter().enumerate().take(12) {
        match byte {
            b'0'..=b'9' => value = value * 10 + usize::from(byte - b'0'),
            _ if digits > 0 => return Some((value, digits)),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// A server that gives these answers, one for each read.
    fn serve(answers: Vec<String>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            for answer in answers.iter().cycle() {
                let mut request = [0; 100];
                match stream.read(&mut request) {
                    Ok(count) if count > 0 => stream.write_all(answer.as_bytes()).unwrap(),
                    _ => return,
                }
            }
        });
        address
    }

    fn answer(body: &str) -> String {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\ncontent-Length: {length}\r\nA: b\r\n\r\n{body}")
    }

    #[test]
    fn equal_answers_are_a_number() {
        let address = serve(vec![answer("hello")]);
        let length = answer("hello").len();
        assert_eq!(
            learn(address, b"x", read_answer).unwrap(),
            Length::Fixed(length)
        );
    }

    #[test]
    fn varying_answers_have_their_digits_at_one_place() {
        let address = serve(vec![answer("hello"), answer(&"x".repeat(1234))]);
        let learned = learn(address, b"x", read_answer).unwrap();
        assert_eq!(
            learned,
            Length::Read {
                digits_at: 33,
                tail_bytes: 10
            }
        );
    }

    #[test]
    fn a_server_that_cannot_be_counted_is_refused() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_owned();
        let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned();
        let moving = "HTTP/1.1 200 OK\r\nB: c\r\nContent-Length: 1\r\n\r\nx".to_owned();
        for answers in [vec![chunked], vec![missing], vec![answer("x"), moving]] {
            assert!(learn(serve(answers), b"x", read_answer).is_err());
        }
    }

    #[test]
    fn a_decimal_ends_within_its_bytes() {
        assert_eq!(decimal(b"4742\r"), Some((4742, 4)));
        assert_eq!(decimal(b"4742"), None);
        assert_eq!(decimal(b"\r"), None);
    }
}
