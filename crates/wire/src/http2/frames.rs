//! Frames out of bytes, whatever the pieces they come in (RFC 9113, 4.1).
//!
//! ```text
//!   Header ──► Whole      gathered unless it is there already, then handled
//!     ▲   ├──► PadLength ─► Data       counted as it passes, never kept; its padding dropped
//!     │   └──► Skip       dropped
//!     └──────────┘
//! ```
//!
//! A rule that a header breaks is broken when the header is whole, and one that a payload
//! breaks when the payload is: the same outcome for every split.

use super::connection::{Http2, Phase};
use super::fault::Breach;
use super::frame::{FrameHeader, FrameKind, HEADER_BYTES, flag};
use super::shared::Shared;

/// What is done with the payload of a frame whose header is in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// It is handled in one piece.
    Whole,
    /// It is the body of this slot's answer.
    Data { slot: u32 },
    /// It says nothing to us.
    Skip,
}

/// Where in the peer's frames the connection stands.
#[derive(Debug)]
pub(super) struct Frames {
    at: At,
    /// The beginning of a header whose end has not come.
    held: [u8; HEADER_BYTES],
    held_len: usize,
    header: FrameHeader,
    /// The beginning of a payload whose end has not come; empty between frames.
    partial: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum At {
    Header,
    Whole,
    PadLength {
        slot: u32,
    },
    /// So much of a body, and then of its padding.
    Data {
        slot: u32,
        left: usize,
        padding: usize,
    },
    Skip {
        left: usize,
    },
}

/// Room for a payload that comes in pieces, reserved when a connection is opened.
const PARTIAL_BYTES: usize = 1024;

const NOTHING_YET: FrameHeader = FrameHeader {
    len: 0,
    kind: FrameKind::SETTINGS,
    flags: 0,
    stream: 0,
};

impl Frames {
    pub(super) fn new() -> Frames {
        Frames {
            at: At::Header,
            held: [0; HEADER_BYTES],
            held_len: 0,
            header: NOTHING_YET,
            partial: Vec::with_capacity(PARTIAL_BYTES),
        }
    }

    pub(super) fn reset(&mut self) {
        self.at = At::Header;
        self.held_len = 0;
        self.header = NOTHING_YET;
        self.partial.clear();
    }

    /// The frame that came last.
    pub(super) fn header(&self) -> FrameHeader {
        self.header
    }

    /// Takes bytes of a header; says how many, and the header once it is whole.
    #[inline]
    fn gather(&mut self, bytes: &[u8]) -> (usize, Option<FrameHeader>) {
        if self.held_len == 0
            && let Some(whole) = bytes.first_chunk()
        {
            return (HEADER_BYTES, Some(FrameHeader::parse(whole)));
        }
        let count = bytes.len().min(HEADER_BYTES - self.held_len);
        self.held[self.held_len..self.held_len + count].copy_from_slice(&bytes[..count]);
        self.held_len += count;
        if self.held_len < HEADER_BYTES {
            return (count, None);
        }
        self.held_len = 0;
        (count, Some(FrameHeader::parse(&self.held)))
    }
}

impl Http2 {
    /// Takes bytes up to the end of a header or payload; says how many.
    #[inline]
    pub(super) fn take_bytes(&mut self, shared: &mut Shared, bytes: &[u8]) -> usize {
        if matches!(self.phase, Phase::Over | Phase::Broken) {
            return bytes.len();
        }
        let At::Header = self.frames.at else {
            return self.take_payload(shared, bytes);
        };
        let (count, header) = self.frames.gather(bytes);
        let Some(header) = header else {
            return count;
        };
        self.frames.header = header;
        match self.begin_frame(shared, header) {
            Ok(payload) => {
                self.frames.at = match payload {
                    Payload::Whole => At::Whole,
                    Payload::Data { slot } if header.has(flag::PADDED) => At::PadLength { slot },
                    Payload::Data { slot } => At::Data {
                        slot,
                        left: header.len as usize,
                        padding: 0,
                    },
                    Payload::Skip => At::Skip {
                        left: header.len as usize,
                    },
                };
                if header.len == 0 {
                    self.take_payload(shared, &[]);
                }
            }
            Err(breach) => self.break_off(shared, header, breach),
        }
        count
    }

    #[inline]
    fn take_payload(&mut self, shared: &mut Shared, bytes: &[u8]) -> usize {
        match self.frames.at {
            At::Whole => self.take_whole(shared, bytes),
            At::Data {
                slot,
                left,
                padding,
            } => {
                let piece = left.min(bytes.len());
                let dropped = padding.min(bytes.len() - piece);
                let (left, padding) = (left - piece, padding - dropped);
                if !self.take_piece(shared, slot, &bytes[..piece]) {
                    self.skip(left + padding);
                } else if left + padding > 0 {
                    self.frames.at = At::Data {
                        slot,
                        left,
                        padding,
                    };
                } else {
                    self.frames.at = At::Header;
                    let header = self.frames.header;
                    if header.has(flag::END_STREAM) {
                        self.end_answer(shared, header, slot);
                    }
                }
                piece + dropped
            }
            At::PadLength { slot } => {
                self.take_pad_length(shared, slot, bytes[0]);
                1
            }
            At::Skip { left } => {
                let count = left.min(bytes.len());
                self.skip(left - count);
                count
            }
            At::Header => unreachable!("no payload has begun"),
        }
    }

    fn take_whole(&mut self, shared: &mut Shared, bytes: &[u8]) -> usize {
        let header = self.frames.header;
        let len = header.len as usize;
        if self.frames.partial.is_empty()
            && let Some(payload) = bytes.get(..len)
        {
            self.frames.at = At::Header;
            self.handle(shared, header, payload);
            return len;
        }
        let count = bytes.len().min(len - self.frames.partial.len());
        self.frames.partial.extend_from_slice(&bytes[..count]);
        if self.frames.partial.len() == len {
            self.frames.at = At::Header;
            let mut payload = std::mem::take(&mut self.frames.partial);
            self.handle(shared, header, &payload);
            payload.clear();
            self.frames.partial = payload;
        }
        count
    }

    fn handle(&mut self, shared: &mut Shared, header: FrameHeader, payload: &[u8]) {
        if let Err(breach) = self.handle_frame(shared, header, payload) {
            self.break_off(shared, header, breach);
        }
    }

    /// RFC 9113, 6.1: padding leaves room for its own length.
    fn take_pad_length(&mut self, shared: &mut Shared, slot: u32, padding: u8) {
        let header = self.frames.header;
        let left = header.len as usize - 1;
        let Some(body) = left.checked_sub(usize::from(padding)) else {
            let breach = Breach::protocol("padding longer than the frame (RFC 9113, 6.1)");
            self.break_off(shared, header, breach);
            return;
        };
        match self.take_body(shared, header, slot, body as u32) {
            Ok(true) => {
                self.frames.at = At::Data {
                    slot,
                    left: body,
                    padding: usize::from(padding),
                };
                if left == 0 {
                    self.take_payload(shared, &[]);
                }
            }
            Ok(false) => self.skip(left),
            Err(breach) => self.break_off(shared, header, breach),
        }
    }

    /// The rest of a frame that this slot's answer is in the middle of says nothing any more.
    pub(super) fn forget_frame_of(&mut self, forgotten: u32) {
        self.block.forget(forgotten);
        match self.frames.at {
            At::Data {
                slot,
                left,
                padding,
            } if slot == forgotten => self.skip(left + padding),
            At::PadLength { slot } if slot == forgotten => {
                self.skip(self.frames.header.len as usize)
            }
            _ => {}
        }
    }

    fn skip(&mut self, left: usize) {
        self.frames.at = if left > 0 {
            At::Skip { left }
        } else {
            At::Header
        };
    }
}
