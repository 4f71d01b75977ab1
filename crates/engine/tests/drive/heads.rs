//! Heads of HTTP/1 requests, as doubles of servers read them.

use std::io::Read;
use std::net::TcpStream;

/// Reads to the end of the next head; `false` where the peer has none.
pub(crate) fn read_request(stream: &mut TcpStream) -> bool {
    let mut tail = [0; 4];
    let mut byte = [0];
    while tail != *b"\r\n\r\n" {
        match stream.read(&mut byte) {
            Ok(1) => {}
            _ => return false,
        }
        tail.rotate_left(1);
        tail[3] = byte[0];
    }
    true
}
