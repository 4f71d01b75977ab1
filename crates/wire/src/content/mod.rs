//! Content codings, undone only to be checked (RFC 9110, 8.4): gzip, deflate, br and zstd.
//!
//! What it is: decoders that take a body in any pieces, count what it decodes to, check its
//! checksum where it has one, and drop it. What it is not: a way to see a body. Used where
//! the user asks for it; else a body's content is not looked at, and a bomb is so many bytes.
//!
//! ```text
//!   Content-Encoding ─► Codings ─► Coding ─► Decoders::open ─► Decoder   one for each
//!                                               ▲                │       body under way
//!                                               └── close ◄──────┤
//!   pieces of the body ─► Decoder::take ─► Sink (counted, capped, dropped)
//!   its end            ─► Decoder::end  ─► bytes, or `body.decode`
//! ```
//!
//! Invariants:
//!
//! * An empty body stands for no content, coded or not.
//! * A body that is broken off, corrupt, followed by anything, coded in a way that is not
//!   known or coded twice is `body.decode`, and so is one that decodes to more than its cap.
//! * Any split of the same bytes gives the same outcome.
//! * Decoders are kept and used again, so that nothing is allocated once there are as many
//!   as bodies are under way, and each has seen the largest of them.
//! * The memory of a worker's decoders is bounded: [`decoders`] says how.

mod brotli;
mod coding;
mod decoders;
mod inflate;
mod zstd;

pub(crate) use coding::{Coding, Codings};
pub(crate) use decoders::{Decoder, Decoders};

use crate::WireError;

/// Which bodies are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decode {
    /// None.
    #[default]
    None,
    /// The first coded body of each connection, until one of them is sound.
    Check,
    /// All of them, as a client does that uses what it is sent.
    Inflate,
}

/// Where decoded bytes go: they are counted and dropped.
struct Sink<'a> {
    room: &'a mut [u8],
    bytes: u64,
    bytes_max: u64,
}

impl Sink<'_> {
    /// Counts what was written into the room.
    fn count(&mut self, written: usize) -> Result<(), WireError> {
        self.bytes += written as u64;
        if self.bytes > self.bytes_max {
            return Err(WireError::BodyDecode);
        }
        Ok(())
    }
}
