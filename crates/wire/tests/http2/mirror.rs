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
    first: Vec<u8>,
    later: Vec<u8>,
    has_answered: bool,
    /// Of the client's frames: the end of one that was cut.
    skip: usize,
}

const PREFACE_BYTES: usize = 24;

impl Mirror {
    /// Answers with the fields that a Go server gives, and `body_bytes` of DATA.
    pub(crate) fn new(body_bytes: usize) -> Mirror {
        assert!(body_bytes <= 16_384, "one frame");
        let mut first = vec![0x88];
        for (name, value) in [
            ("server", "mirror"),
            ("content-type", "application/json"),
            ("date", "Sat, 21 Nov 2026 14:00:00 GMT"),
        ] {
            first.extend([0x40, name.len() as u8]);
            first.extend(name.bytes());
            first.push(value.len() as u8);
            first.extend(value.bytes());
        }
        let length = body_bytes.to_string();
        let mut later = vec![0x88, 0xc0, 0xbf, 0xbe];
        for block in [&mut first, &mut later] {
            block.extend([0x0f, 0x0d, length.len() as u8]);
            block.extend(length.bytes());
        }
        let answer = |block: &[u8]| {
            let mut bytes = header(block.len(), 1, 0x4);
            bytes.extend(block);
            bytes.extend(header(body_bytes, 0, 0x1));
            bytes.extend(vec![b'x'; body_bytes]);
            bytes
        };
        Mirror {
            greeting: Some(header(0, 4, 0)),
            first: answer(&first),
            later: answer(&later),
            has_answered: false,
            skip: PREFACE_BYTES,
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
            if kind <= 1 && flags & 1 != 0 {
                self.answer_one(&head[5..], out);
            }
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
        let head_bytes = u32::from_be_bytes([0, answer[0], answer[1], answer[2]]) as usize;
        out.extend_from_slice(answer);
        for frame in [at, at + 9 + head_bytes] {
            out[frame + 5..frame + 9].copy_from_slice(stream);
        }
    }
}

fn header(len: usize, kind: u8, flags: u8) -> Vec<u8> {
    let mut bytes = (len as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags, 0, 0, 0, 0]);
    bytes
}
