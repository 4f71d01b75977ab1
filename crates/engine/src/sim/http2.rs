//! A peer that speaks HTTP/2: each frame that comes is given to a function.

use std::collections::BTreeMap;

use super::peer::{Peer, Script, says};

const PREFACE_BYTES: usize = 24;
const FRAME_HEAD_BYTES: usize = 9;
const SETTINGS: u8 = 4;
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const GOAWAY: u8 = 7;

/// A frame that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) stream: u32,
    /// Frames of its kind that came before on its connection.
    pub(super) nth: u64,
    pub(super) conn: u32,
    pub(super) now: u64,
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// `:status: 200` from the static table, with END_STREAM and END_HEADERS.
pub(super) fn answer(stream: u32) -> Vec<u8> {
    frame(HEADERS, 5, stream, &[0x88])
}

/// Greets with these settings, and answers frames as a function says.
pub(super) struct Http2<F> {
    settings: &'static [u8],
    serve: F,
    links: BTreeMap<u32, Link>,
}

#[derive(Debug, Default)]
struct Link {
    unread: Vec<u8>,
    greeted: bool,
    kinds: BTreeMap<u8, u64>,
}

impl<F: FnMut(Frame) -> Script> Http2<F> {
    pub(super) fn new(settings: &'static [u8], serve: F) -> Http2<F> {
        Http2 {
            settings,
            serve,
            links: BTreeMap::new(),
        }
    }
}

impl<F: FnMut(Frame) -> Script> Peer for Http2<F> {
    fn opened(&mut self, conn: u32, _: u64) -> Script {
        self.links.insert(conn, Link::default());
        says(0, &frame(SETTINGS, 0, 0, self.settings))
    }

    fn received(&mut self, conn: u32, bytes: &[u8], now: u64) -> Script {
        let link = self.links.get_mut(&conn).expect("it was opened");
        link.unread.extend_from_slice(bytes);
        if !link.greeted && link.unread.len() >= PREFACE_BYTES {
            link.unread.drain(..PREFACE_BYTES);
            link.greeted = true;
        }
        let mut script = Script::new();
        while link.greeted && link.unread.len() >= FRAME_HEAD_BYTES {
            let head = &link.unread[..FRAME_HEAD_BYTES];
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let whole = FRAME_HEAD_BYTES + length as usize;
            if link.unread.len() < whole {
                break;
            }
            let kind = head[3];
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            link.unread.drain(..whole);
            let nth = link.kinds.entry(kind).or_default();
            let frame = Frame {
                kind,
                stream,
                nth: *nth,
                conn,
                now,
            };
            *nth += 1;
            script.extend((self.serve)(frame));
        }
        script
    }
}
