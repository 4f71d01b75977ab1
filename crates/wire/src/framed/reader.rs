//! Finds the ends of frames in a stream.

use super::format::{Format, HEAD_BYTES_MAX};
use crate::WireError;

/// A frame that has come whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    /// 0 where the format has none.
    pub(super) id: u64,
    /// Bytes of its message.
    pub(super) message_bytes: u64,
}

/// What some bytes made of the frame that they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It goes on.
    More,
    /// It is whole.
    Whole(Frame),
    /// It was no frame, but a grant of so many bytes.
    Grant(u64),
    /// It is none.
    Bad(WireError),
}

/// How far the frame that arrives has come.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    head: [u8; HEAD_BYTES_MAX],
    /// Bytes of the frame that have come.
    seen: u64,
    /// Bytes of its message, once its length has come; 0 before.
    message_bytes: u64,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader {
            head: [0; HEAD_BYTES_MAX],
            seen: 0,
            message_bytes: 0,
        }
    }
}

impl Reader {
    /// Whether a frame has begun and not ended.
    #[inline]
    pub(super) fn is_inside(&self) -> bool {
        self.seen > 0
    }

    /// Whether a frame has begun that is known to be no grant.
    #[inline]
    pub(super) fn is_inside_answer(&self, format: &Format) -> bool {
        self.seen > 0 && (!format.credit || self.message_bytes > 0)
    }

    /// Takes bytes up to the end of the frame, and says how many it took.
    #[inline]
    pub(super) fn take(&mut self, format: &Format, bytes: &[u8]) -> (usize, Step) {
        let head_bytes = format.head_bytes();
        if self.seen == 0 && bytes.len() >= head_bytes {
            if let Some(granted) = grant(format, bytes) {
                return (head_bytes, Step::Grant(granted));
            }
            // Nearly always a frame begins with its whole head in one piece.
            return match message_bytes(format, bytes) {
                Ok(message_bytes) => {
                    let frame = Frame {
                        id: id(format, bytes),
                        message_bytes,
                    };
                    let whole = format.length.width as u64 + message_bytes;
                    if bytes.len() as u64 >= whole {
                        return (whole as usize, Step::Whole(frame));
                    }
                    self.head[..head_bytes].copy_from_slice(&bytes[..head_bytes]);
                    self.seen = bytes.len() as u64;
                    self.message_bytes = message_bytes;
                    (bytes.len(), Step::More)
                }
                Err(error) => (bytes.len(), Step::Bad(error)),
            };
        }
        self.take_pieces(format, bytes)
    }

    fn take_pieces(&mut self, format: &Format, bytes: &[u8]) -> (usize, Step) {
        let width = format.length.width;
        let head_bytes = format.head_bytes();
        let mut taken = 0;
        if self.seen < head_bytes as u64 {
            let seen = self.seen as usize;
            taken = (head_bytes - seen).min(bytes.len());
            self.head[seen..seen + taken].copy_from_slice(&bytes[..taken]);
            self.seen += taken as u64;
            if self.seen >= width as u64 && self.message_bytes == 0 {
                if let Some(granted) = grant(format, &self.head) {
                    self.seen = 0;
                    return (taken, Step::Grant(granted));
                }
                match message_bytes(format, &self.head) {
                    Ok(message_bytes) => self.message_bytes = message_bytes,
                    Err(error) => return (bytes.len(), Step::Bad(error)),
                }
            }
            if self.seen < head_bytes as u64 {
                return (taken, Step::More);
            }
        }
        let whole = width as u64 + self.message_bytes;
        let rest = (whole - self.seen).min((bytes.len() - taken) as u64);
        self.seen += rest;
        taken += rest as usize;
        if self.seen < whole {
            return (taken, Step::More);
        }
        let frame = Frame {
            id: id(format, &self.head),
            message_bytes: self.message_bytes,
        };
        self.seen = 0;
        self.message_bytes = 0;
        (taken, Step::Whole(frame))
    }
}

/// What the length at the beginning of `head` grants, if it is a grant.
#[inline]
fn grant(format: &Format, head: &[u8]) -> Option<u64> {
    let is_grant = format.credit && head[0] & 0x80 != 0;
    is_grant.then(|| format.length.read(head) & super::credit::BYTES_MAX)
}

/// The length at the beginning of `head`, checked.
#[inline]
fn message_bytes(format: &Format, head: &[u8]) -> Result<u64, WireError> {
    let length = format.length.read(head);
    match length.checked_sub(format.counted()) {
        Some(bytes) if (format.message_bytes_min()..=format.longest()).contains(&bytes) => {
            Ok(bytes)
        }
        _ => Err(WireError::FrameLength),
    }
}

#[inline]
fn id(format: &Format, head: &[u8]) -> u64 {
    match format.id {
        Some(id) => id.integer.read(&head[format.length.width + id.offset..]),
        None => 0,
    }
}
