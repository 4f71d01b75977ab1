//! Servers of HTTP/1.1, HTTP/2 and gRPC that answer as a function says, in the clear or under TLS.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use wallfinder_wire::tls::Double;

use crate::frames::{DATA, HEADERS, frame};

const PREFACE_BYTES: usize = 24;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 0x1;

/// What is done with bytes of one connection as they come: it appends what is said to them, and tells whether the
/// connection goes on.
pub(crate) type Conversation = Box<dyn FnMut(&[u8], &mut Vec<u8>) -> bool + Send>;

/// A server of which each connection has a conversation of its own, by its number from 1.
pub(crate) fn serving(
    double: Option<Double>,
    lead: impl Fn(u64) -> Conversation + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut connections, mut served) = (0, Vec::new());
        while let Ok((stream, _)) = listener.accept() {
            connections += 1;
            let (double, lead) = (double.clone(), lead(connections));
            let _ = stream.set_nodelay(true);
            serve_beside(&mut served, move || match double {
                None => converse(stream, lead),
                Some(double) => converse_under_tls(stream, &double, lead),
            });
        }
    });
    address
}

/// Serves a connection in a thread of its own, and joins those that have ended: glibc 2.36 may read the stack of a thread
/// that ends while it is detached.
fn serve_beside(served: &mut Vec<JoinHandle<()>>, serve: impl FnOnce() + Send + 'static) {
    let (ended, running) = served.drain(..).partition(JoinHandle::is_finished);
    *served = running;
    let ended: Vec<JoinHandle<()>> = ended;
    for thread in ended {
        thread.join().expect("a double does not panic");
    }
    served.push(thread::spawn(serve));
}

fn converse(mut stream: TcpStream, mut lead: Conversation) {
    let (mut bytes, mut says) = (vec![0; 16 * 1024], Vec::new());
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        says.clear();
        let goes_on = lead(&bytes[..count], &mut says);
        if stream.write_all(&says).is_err() || !goes_on {
            return;
        }
    }
}

/// The same, with what is said at a time in one record.
fn converse_under_tls(mut stream: TcpStream, double: &Double, mut lead: Conversation) {
    let mut session = double.begin();
    let (mut bytes, mut plain) = (vec![0; 16 * 1024], Vec::new());
    let (mut says, mut records) = (Vec::new(), Vec::new());
    while let Ok(count @ 1..) = stream.read(&mut bytes) {
        plain.clear();
        says.clear();
        records.clear();
        if session.read(&bytes[..count], &mut plain).is_err() {
            return;
        }
        let goes_on = plain.is_empty() || lead(&plain, &mut says);
        if !says.is_empty() {
            assert_eq!(session.write(&says), says.len());
        }
        session.collect(&mut records);
        if stream.write_all(&records).is_err() || !goes_on {
            return;
        }
    }
}

/// HTTP/1.1: what is answered to a request, by its head. The tenth of a connection is answered with `last`, if there is
/// one, and nothing follows that.
pub(crate) fn http1(
    answer: impl Fn(&[u8]) -> &'static [u8] + Send + 'static,
    last: Option<&'static [u8]>,
) -> Conversation {
    let (mut head, mut answers) = (Vec::new(), 0);
    Box::new(move |bytes: &[u8], says: &mut Vec<u8>| {
        for byte in bytes {
            head.push(*byte);
            // Each request has one blank line, behind its head.
            if !head.ends_with(b"\r\n\r\n") {
                continue;
            }
            answers += 1;
            let last = last.filter(|_| answers == 10);
            says.extend_from_slice(last.unwrap_or_else(|| answer(&head)));
            head.clear();
            if last.is_some() {
                return false;
            }
        }
        true
    })
}

/// HTTP/2: `answer` appends the frames that answer the request of a stream, once that is whole.
pub(crate) fn http2(answer: impl Fn(u32, &mut Vec<u8>) + Send + 'static) -> Conversation {
    let (mut unread, mut is_greeted) = (Vec::new(), false);
    Box::new(move |bytes: &[u8], says: &mut Vec<u8>| {
        unread.extend_from_slice(bytes);
        let mut at = 0;
        if !is_greeted {
            if unread.len() < PREFACE_BYTES {
                return true;
            }
            is_greeted = true;
            at = PREFACE_BYTES;
            says.extend(frame(SETTINGS, 0, 0, b""));
        }
        while let Some((head, rest)) = unread[at..].split_first_chunk::<9>() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            if rest.len() < length as usize {
                break;
            }
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            at += head.len() + length as usize;
            if kind == DATA && length > 0 {
                says.extend(frame(WINDOW_UPDATE, 0, 0, &length.to_be_bytes()));
            }
            if matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0 {
                answer(stream, says);
            }
        }
        unread.drain(..at);
        true
    })
}
