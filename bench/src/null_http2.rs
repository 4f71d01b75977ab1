//! What the null client sends over HTTP/2, and how it knows an answer's end.
//!
//! Requests differ in the numbers of their streams alone, and those are the same on every
//! connection. So one block serves them all, each at a place of its own in it: nothing is
//! encoded while it runs. Of what comes the heads of frames are looked at, for lengths and ends
//! of streams; fields are not decoded, and windows are opened so far that they never close.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const HEAD_BYTES: usize = 9;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;
const WINDOW_MAX: u32 = (1 << 31) - 1;
const WINDOW_AT_FIRST: u32 = 65_535;
const INITIAL_WINDOW_SIZE: u16 = 4;
/// `:status: 200` in HPACK's static table.
const STATUS_200: u8 = 0x88;
/// The longest string whose length takes one byte.
const STRING_BYTES_MAX: usize = 126;

/// All that a connection sends, one thing after the other.
#[derive(Debug)]
pub struct Block {
    /// The greeting, what acknowledges the server's, and requests.
    pub bytes: Vec<u8>,
    /// Sent at once: preface, settings, a window, and the request whose fields later ones refer to.
    pub greeting_bytes: usize,
    /// Sent when that one is answered.
    pub acknowledgement_bytes: usize,
    /// Each request after that.
    pub request_bytes: usize,
}

impl Block {
    /// For so many requests of each connection.
    pub fn new(authority: &str, path: &str, requests: u32) -> Result<Block, String> {
        if authority.len().max(path.len()) > STRING_BYTES_MAX {
            return Err(format!("a path has at most {STRING_BYTES_MAX} bytes here"));
        }
        let mut bytes = PREFACE.to_vec();
        let mut window = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        window.extend(WINDOW_MAX.to_be_bytes());
        push(&mut bytes, SETTINGS, 0, 0, &window);
        let wider = WINDOW_MAX - WINDOW_AT_FIRST;
        push(&mut bytes, WINDOW_UPDATE, 0, 0, &wider.to_be_bytes());
        // GET and http of the static table; the path and the authority enter the dynamic one.
        let mut fields = vec![0x82, 0x86, 0x44, path.len() as u8];
        fields.extend(path.bytes());
        fields.extend([0x41, authority.len() as u8]);
        fields.extend(authority.bytes());
        push(&mut bytes, HEADERS, END_STREAM | END_HEADERS, 1, &fields);
        let greeting_bytes = bytes.len();
        push(&mut bytes, SETTINGS, ACK, 0, &[]);
        let again = [0x82, 0x86, 0xbf, 0xbe];
        for request in 1..=requests {
            let stream = 2 * request + 1;
            push(
                &mut bytes,
                HEADERS,
                END_STREAM | END_HEADERS,
                stream,
                &again,
            );
        }
        Ok(Block {
            bytes,
            greeting_bytes,
            acknowledgement_bytes: HEAD_BYTES,
            request_bytes: HEAD_BYTES + again.len(),
        })
    }
}

fn push(bytes: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    bytes.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
}

/// Asks once, and looks whether the answer is what all are taken for.
pub fn check(address: SocketAddr, greeting: &[u8]) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.write_all(greeting)?;
    loop {
        let mut head = [0; HEAD_BYTES];
        stream.read_exact(&mut head)?;
        let mut payload = vec![0; payload_bytes(&head)];
        stream.read_exact(&mut payload)?;
        if head[3] == HEADERS {
            return match payload.first() {
                Some(&STATUS_200) => Ok(()),
                _ => Err(io::Error::other(
                    "a null client cannot drive this server: its answer is not a 200",
                )),
            };
        }
    }
}

#[inline]
fn payload_bytes(head: &[u8; HEAD_BYTES]) -> usize {
    u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize
}

/// Where a connection is in the frames that come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frames {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Of the frame that has begun.
    rest_bytes: usize,
}

impl Frames {
    /// How many streams end in these bytes, which follow those before.
    #[inline]
    pub fn streams_ended(&mut self, mut bytes: &[u8]) -> Result<u32, String> {
        let mut ended = 0;
        while !bytes.is_empty() {
            if self.head_bytes < HEAD_BYTES {
                let count = bytes.len().min(HEAD_BYTES - self.head_bytes);
                self.head[self.head_bytes..][..count].copy_from_slice(&bytes[..count]);
                self.head_bytes += count;
                bytes = &bytes[count..];
                if self.head_bytes < HEAD_BYTES {
                    break;
                }
                self.rest_bytes = payload_bytes(&self.head);
            }
            let count = bytes.len().min(self.rest_bytes);
            bytes = &bytes[count..];
            self.rest_bytes -= count;
            if self.rest_bytes == 0 {
                self.head_bytes = 0;
                ended += self.stream_ends()?;
            }
        }
        Ok(ended)
    }

    #[inline]
    fn stream_ends(&self) -> Result<u32, String> {
        match self.head[3] {
            DATA | HEADERS => Ok(u32::from(self.head[4] & END_STREAM)),
            SETTINGS | WINDOW_UPDATE => Ok(0),
            other => Err(format!(
                "the server sent a frame of type {other}, which nobody here would heed"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_streams_are_counted_however_the_bytes_are_cut() {
        let mut bytes = Vec::new();
        push(&mut bytes, SETTINGS, 0, 0, &[0; 6]);
        push(&mut bytes, HEADERS, END_HEADERS, 1, &[STATUS_200, 0xbf]);
        push(&mut bytes, DATA, 0, 1, b"hello");
        push(&mut bytes, DATA, END_STREAM, 1, b"");
        push(
            &mut bytes,
            HEADERS,
            END_HEADERS | END_STREAM,
            3,
            &[STATUS_200],
        );
        for cut in 1..=bytes.len() {
            let mut frames = Frames::default();
            let ended = bytes
                .chunks(cut)
                .map(|piece| frames.streams_ended(piece).unwrap());
            assert_eq!(ended.sum::<u32>(), 2, "pieces of {cut}");
        }
        let mut frames = Frames::default();
        assert_eq!(frames.streams_ended(&bytes[..bytes.len() - 1]), Ok(1));
    }

    #[test]
    fn what_asks_for_an_answer_ends_the_run() {
        let mut bytes = Vec::new();
        push(&mut bytes, 7, 0, 0, &[0; 8]);
        assert!(Frames::default().streams_ended(&bytes).is_err());
    }

    /// The fields, decoded by hand: RFC 7541 puts the newest of the dynamic table at 62.
    #[test]
    fn a_block_is_a_greeting_and_requests_with_streams_of_their_own() {
        let block = Block::new("a:1", "/simple", 3).unwrap();
        assert!(block.bytes.starts_with(PREFACE));
        let requests = &block.bytes[block.greeting_bytes + block.acknowledgement_bytes..];
        assert_eq!(requests.len(), 3 * block.request_bytes);
        let streams: Vec<u8> = requests
            .chunks(block.request_bytes)
            .map(|request| request[8])
            .collect();
        assert_eq!(streams, [3, 5, 7]);
        assert_eq!(requests[9..13], [0x82, 0x86, 0x80 | 63, 0x80 | 62]);
        assert!(Block::new("a:1", &"/".repeat(127), 1).is_err());
    }
}
