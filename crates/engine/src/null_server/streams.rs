//! Streams of HTTP/2, and calls of gRPC on them: the same answer for each, under its own number.
//!
//! ```text
//!  9 bytes of each frame ─► ends a request? ─► the answer's frames, with the stream's number in them
//!                        └► SETTINGS, PING: acknowledged · DATA: window given back
//! ```
//!
//! What it is not: it decodes no header block, and it knows its client, which opens streams' windows
//! wider than any answer. Only the connection's window is watched (RFC 9113, 5.2).

use std::collections::VecDeque;

use super::{Out, Script, Spoilt};

const HEADER_BYTES: usize = 9;
/// What a client sends first.
const PREFACE_BYTES: usize = 24;
/// The longest payload that every endpoint takes.
const PAYLOAD_BYTES_MAX: usize = 16_384;
/// A window that was not changed, and the largest.
const WINDOW_DEFAULT: i64 = 65_535;
const WINDOW_MAX: u32 = (1 << 31) - 1;
/// Bytes read before the connection's window is opened again by as many.
const GIVE_BACK_BYTES: u32 = 1 << 20;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

const INITIAL_WINDOW_SIZE: u16 = 4;

/// `:status: 200`, and names of fields, as the static table has them (RFC 7541, A).
const STATUS_200: u8 = 0x80 | 8;
const CONTENT_LENGTH: u8 = 28;
const CONTENT_TYPE: u8 = 31;
const SERVER: u8 = 54;

/// An answer, as frames that lack the number of their stream.
pub(crate) struct Answer {
    bytes: Vec<u8>,
    /// Where that number belongs.
    numbers_at: Vec<usize>,
    /// Bytes that count against windows.
    data_bytes: i64,
}

impl Answer {
    /// An answer of HTTP; to HEAD it has no body.
    pub(crate) fn http(body_bytes: usize, head_only: bool) -> Answer {
        let mut answer = Answer::empty();
        let length = body_bytes.to_string();
        let fields = [
            vec![STATUS_200],
            field(SERVER, "null"),
            field(CONTENT_TYPE, "application/octet-stream"),
            field(CONTENT_LENGTH, &length),
        ];
        let ends = head_only || body_bytes == 0;
        let flags = END_HEADERS | if ends { END_STREAM } else { 0 };
        answer.frame(HEADERS, flags, &fields.concat());
        if !ends {
            answer.data(&vec![b'x'; body_bytes], END_STREAM);
        }
        answer
    }

    /// A call's answer of so many messages, which has gone well.
    pub(crate) fn grpc(message_bytes: usize, messages: usize) -> Answer {
        let mut answer = Answer::empty();
        let head = [vec![STATUS_200], field(CONTENT_TYPE, "application/grpc")];
        answer.frame(HEADERS, END_HEADERS, &head.concat());
        let mut message = vec![0];
        message.extend_from_slice(&(message_bytes as u32).to_be_bytes());
        message.resize(message.len() + message_bytes, b'x');
        answer.data(&message.repeat(messages), 0);
        let mut status = vec![0];
        status.extend(text("grpc-status"));
        status.extend(text("0"));
        answer.frame(HEADERS, END_HEADERS | END_STREAM, &status);
        answer
    }

    fn empty() -> Answer {
        Answer {
            bytes: Vec::new(),
            numbers_at: Vec::new(),
            data_bytes: 0,
        }
    }

    /// DATA, in as many frames as it takes; the last one has these flags.
    fn data(&mut self, bytes: &[u8], last_flags: u8) {
        let frames = bytes.chunks(PAYLOAD_BYTES_MAX);
        let last = frames.len().saturating_sub(1);
        for (at, payload) in frames.enumerate() {
            let flags = if at == last { last_flags } else { 0 };
            self.frame(DATA, flags, payload);
        }
        self.data_bytes += bytes.len() as i64;
    }

    fn frame(&mut self, kind: u8, flags: u8, payload: &[u8]) {
        self.numbers_at.push(self.bytes.len() + 5);
        self.bytes.extend(frame(kind, flags, 0, payload));
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, l0, l1, l2] = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![l0, l1, l2, kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A field whose name is in the static table, and which is not to be remembered.
fn field(name: u8, value: &str) -> Vec<u8> {
    // Four bits of prefix: what does not fit follows.
    let mut bytes = vec![0x0f, name - 0x0f];
    bytes.extend(text(value));
    bytes
}

/// A short string, as it is.
fn text(value: &str) -> Vec<u8> {
    assert!(value.len() < 127, "a longer one takes another byte");
    let mut bytes = vec![value.len() as u8];
    bytes.extend_from_slice(value.as_bytes());
    bytes
}

pub(super) struct Streams {
    answer: Answer,
}

/// The head of the frame that is being read, and the first bytes of its payload.
#[derive(Debug, Default)]
struct Reading {
    head: [u8; HEADER_BYTES],
    head_bytes: usize,
    first: [u8; 8],
    payload_bytes: usize,
}

impl Reading {
    fn payload_len(&self) -> usize {
        let [l0, l1, l2, ..] = self.head;
        u32::from_be_bytes([0, l0, l1, l2]) as usize
    }

    fn stream(&self) -> u32 {
        let [.., s0, s1, s2, s3] = self.head;
        u32::from_be_bytes([s0 & 0x7f, s1, s2, s3])
    }

    /// Takes what belongs to this frame; whether it is whole.
    fn take(&mut self, bytes: &mut &[u8]) -> bool {
        let wanted = (HEADER_BYTES - self.head_bytes).min(bytes.len());
        self.head[self.head_bytes..self.head_bytes + wanted].copy_from_slice(&bytes[..wanted]);
        self.head_bytes += wanted;
        *bytes = &bytes[wanted..];
        if self.head_bytes < HEADER_BYTES {
            return false;
        }
        let wanted = (self.payload_len() - self.payload_bytes).min(bytes.len());
        let room = self.first.len().saturating_sub(self.payload_bytes);
        let kept = wanted.min(room);
        let from = self.payload_bytes.min(self.first.len());
        self.first[from..from + kept].copy_from_slice(&bytes[..kept]);
        self.payload_bytes += wanted;
        *bytes = &bytes[wanted..];
        self.payload_bytes == self.payload_len()
    }
}

#[derive(Debug)]
pub(super) struct Peer {
    preface_left: usize,
    reading: Reading,
    /// A request whose header block goes on, and that ends with it.
    ends_with_block: bool,
    /// Bytes of DATA that may be sent to it.
    window: i64,
    /// Requests whose answers do not fit into that.
    waiting: VecDeque<u32>,
    /// Bytes of DATA whose window is not given back yet.
    taken_bytes: u32,
    out: Out,
}

impl Default for Peer {
    fn default() -> Peer {
        let mut out = Out::default();
        let mut settings = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        settings.extend_from_slice(&WINDOW_MAX.to_be_bytes());
        out.push(&frame(SETTINGS, 0, 0, &settings));
        let more = WINDOW_MAX - WINDOW_DEFAULT as u32;
        out.push(&frame(WINDOW_UPDATE, 0, 0, &more.to_be_bytes()));
        Peer {
            preface_left: PREFACE_BYTES,
            reading: Reading::default(),
            ends_with_block: false,
            window: WINDOW_DEFAULT,
            waiting: VecDeque::new(),
            taken_bytes: 0,
            out,
        }
    }
}

impl Streams {
    pub(super) fn new(answer: Answer) -> Streams {
        Streams { answer }
    }

    fn frame_ends(&self, peer: &mut Peer) {
        let reading = std::mem::take(&mut peer.reading);
        let (kind, flags) = (reading.head[3], reading.head[4]);
        let stream = reading.stream();
        match kind {
            HEADERS if flags & END_HEADERS == 0 => {
                peer.ends_with_block = flags & END_STREAM != 0;
            }
            CONTINUATION if flags & END_HEADERS != 0 && peer.ends_with_block => {
                self.answer(peer, stream);
            }
            HEADERS if flags & END_STREAM != 0 => self.answer(peer, stream),
            DATA => {
                peer.taken_bytes += reading.payload_len() as u32;
                if peer.taken_bytes >= GIVE_BACK_BYTES {
                    let back = std::mem::take(&mut peer.taken_bytes).to_be_bytes();
                    peer.out.push(&frame(WINDOW_UPDATE, 0, 0, &back));
                }
                if flags & END_STREAM != 0 {
                    self.answer(peer, stream);
                }
            }
            SETTINGS if flags & ACK == 0 => {
                peer.out.push(&frame(SETTINGS, ACK, 0, &[]));
            }
            PING if flags & ACK == 0 => {
                peer.out.push(&frame(PING, ACK, 0, &reading.first));
            }
            WINDOW_UPDATE if stream == 0 => {
                let [i0, i1, i2, i3, ..] = reading.first;
                peer.window += i64::from(u32::from_be_bytes([i0 & 0x7f, i1, i2, i3]));
                while peer.window >= self.answer.data_bytes
                    && let Some(stream) = peer.waiting.pop_front()
                {
                    self.send(peer, stream);
                }
            }
            _ => {}
        }
    }

    fn answer(&self, peer: &mut Peer, stream: u32) {
        if peer.waiting.is_empty() && peer.window >= self.answer.data_bytes {
            self.send(peer, stream);
        } else {
            peer.waiting.push_back(stream);
        }
    }

    fn send(&self, peer: &mut Peer, stream: u32) {
        peer.window -= self.answer.data_bytes;
        let bytes = peer.out.push(&self.answer.bytes);
        for at in &self.answer.numbers_at {
            bytes[*at..*at + 4].copy_from_slice(&stream.to_be_bytes());
        }
    }
}

impl Script for Streams {
    type Peer = Peer;

    fn read(&self, peer: &mut Peer, mut bytes: &[u8]) -> Result<(), Spoilt> {
        let preface = peer.preface_left.min(bytes.len());
        peer.preface_left -= preface;
        bytes = &bytes[preface..];
        while !bytes.is_empty() {
            if peer.reading.take(&mut bytes) {
                self.frame_ends(peer);
            } else if peer.reading.payload_len() > PAYLOAD_BYTES_MAX {
                return Err(Spoilt);
            }
        }
        Ok(())
    }

    fn next<'s>(&'s self, peer: &'s Peer) -> &'s [u8] {
        peer.out.left()
    }

    fn wrote(&self, peer: &mut Peer, bytes: usize) {
        peer.out.wrote(bytes);
    }
}
