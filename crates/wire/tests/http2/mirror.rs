//! A peer in memory that answers every request with the same answer, and allocates
//! nothing once it is made: what remains is the client's cost, and the client's
//! allocations.
//!
//! What it is not: a check. It takes whole frames, and believes them.

/// HTTP/2's server end, as far as a client that behaves needs it.
pub(crate) struct Mirror {
    /// SETTINGS, before the first answer.
    greeting: Option<Vec<u8>>,
    /// The first answer of a connection, which fills the client's table, and every later
    /// one; stream ids are written over.
    first: Frames,
    later: Frames,
    has_answered: bool,
    /// Of the client's frames: the end of one that was cut.
    skip: usize,
    /// Bytes of bodies that the connection's window is still to be opened by.
    credit: u32,
}

/// Whole frames, and where each begins.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    begin: Vec<usize>,
}

impl Frames {
    fn push(&mut self, kind: u8, flags: u8, payload: &[u8]) {
        self.begin.push(self.bytes.len());
        self.bytes.extend(header(payload.len(), kind, flags));
        self.bytes.extend(payload);
    }
}

const PREFACE_BYTES: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const WINDOW_UPDATE: u8 = 8;
/// Half of the window that a client begins with.
const CREDIT_DUE: u32 = 32 * 1024;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
/// `:status: 200` in the static table.
const OK: u8 = 0x88;

impl Mirror {
    /// Answers with the fields that a Go server gives, and `body_bytes` of DATA.
    pub(crate) fn new(body_bytes: usize) -> Mirror {
        assert!(body_bytes <= 16_384, "one frame");
        let mut first = vec![OK];
        for (name, value) in [
            ("server", "mirror"),
            ("content-type", "application/json"),
            ("date", "Sat, 21 Nov 2026 14:00:00 GMT"),
        ] {
            insert(name, value, &mut first);
        }
        let length = body_bytes.to_string();
        let mut later = vec![OK, 0xc0, 0xbf, 0xbe];
        for block in [&mut first, &mut later] {
            block.extend([0x0f, 0x0d, length.len() as u8]);
            block.extend(length.bytes());
        }
        let answer = |block: &[u8]| {
            let mut frames = Frames::default();
            frames.push(HEADERS, END_HEADERS, block);
            frames.push(DATA, END_STREAM, &vec![b'x'; body_bytes]);
            frames
        };
        Mirror::of(answer(&first), answer(&later))
    }

    /// Answers as a gRPC server does: a body of whole messages, and OK.
    pub(crate) fn of_calls(body: &[u8]) -> Mirror {
        assert!(body.len() <= 16_384, "one frame");
        let (mut head, mut end) = (vec![OK], Vec::new());
        insert("content-type", "application/grpc", &mut head);
        insert("grpc-status", "0", &mut end);
        insert("grpc-message", "", &mut end);
        let answer = |head: &[u8], end: &[u8]| {
            let mut frames = Frames::default();
            frames.push(HEADERS, END_HEADERS, head);
            frames.push(DATA, 0, body);
            frames.push(HEADERS, END_HEADERS | END_STREAM, end);
            frames
        };
        Mirror::of(answer(&head, &end), answer(&[OK, 0xc0], &[0xbf, 0xbe]))
    }

    fn of(first: Frames, later: Frames) -> Mirror {
        Mirror {
            greeting: Some(header(0, SETTINGS, 0)),
            first,
            later,
            has_answered: false,
            skip: PREFACE_BYTES,
            credit: 0,
        }
    }

    /// Takes what the client wrote, and appends the answers to all that it asked for.
    pub(crate) fn answer(&mut self, mut written: &[u8], out: &mut Vec<u8>) {
        if let Some(greeting) = self.greeting.take() {
            out.extend_from_slice(&greeting);
        }
        loop {
            let skipped = self.skip.min(written.len());
            self.skip -= skipped;
            written = &written[skipped..];
            let Some((head, rest)) = written.split_first_chunk::<9>() else {
                assert!(written.is_empty(), "frames are written whole");
                return;
            };
            self.skip = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            written = rest;
            let (kind, flags) = (head[3], head[4]);
            if kind == DATA {
                self.give_credit(self.skip as u32, out);
            }
            if kind <= HEADERS && flags & END_STREAM != 0 {
                self.answer_one(&head[5..], out);
            }
        }
    }

    fn give_credit(&mut self, bytes: u32, out: &mut Vec<u8>) {
        self.credit += bytes;
        if self.credit >= CREDIT_DUE {
            out.extend_from_slice(&[0, 0, 4, WINDOW_UPDATE, 0, 0, 0, 0, 0]);
            out.extend_from_slice(&self.credit.to_be_bytes());
            self.credit = 0;
        }
    }

    fn answer_one(&mut self, stream: &[u8], out: &mut Vec<u8>) {
        let answer = if self.has_answered {
            &self.later
        } else {
            &self.first
        };
        self.has_answered = true;
        let at = out.len();
        out.extend_from_slice(&answer.bytes);
        for begin in &answer.begin {
            out[at + begin + 5..at + begin + 9].copy_from_slice(stream);
        }
    }
}

/// A field that is spelled out and kept.
fn insert(name: &str, value: &str, block: &mut Vec<u8>) {
    block.extend([0x40, name.len() as u8]);
    block.extend(name.bytes());
    block.push(value.len() as u8);
    block.extend(value.bytes());
}

fn header(len: usize, kind: u8, flags: u8) -> Vec<u8> {
    let mut bytes = (len as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags, 0, 0, 0, 0]);
    bytes
}
