//! What is still to be written, as ranges of a block that repeats one request.
//!
//! ```text
//!   block   │GET …│GET …│GET …│GET …│       copies of one request, period `request_len`
//!              ▲───────────────────▲
//!           offset            offset + unsent, cut at the block's end
//! ```
//!
//! Since the block is periodic, `offset` is kept within its first copy: the range that
//! follows is then as long as it can be.

use std::cell::Cell;

use crate::Transmit;

/// The unsent bytes of one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sending {
    /// Bytes issued and not confirmed as sent.
    unsent: u64,
    /// Bytes of the first unsent request that are sent already.
    offset: usize,
    /// How many of the unsent bytes the socket may have taken, unconfirmed.
    offered: Cell<u64>,
}

impl Sending {
    #[inline]
    pub(crate) fn issue(&mut self, request_len: usize) {
        self.unsent += request_len as u64;
    }

    /// The next range, of at most `count_max` bytes.
    #[inline]
    pub(crate) fn poll(&self, block_len: usize, count_max: u64) -> Transmit {
        let room = (block_len - self.offset) as u64;
        let len = self.unsent.min(count_max).min(room);
        if len == 0 {
            return Transmit::Idle;
        }
        self.offered.set(self.offered.get().max(len));
        Transmit::Block {
            start: self.offset,
            len: len as usize,
        }
    }

    #[inline]
    pub(crate) fn sent(&mut self, request_len: usize, count: usize) {
        let offered = self.offered.get();
        assert!(
            count as u64 <= offered,
            "sent {count} bytes of {offered} offered"
        );
        self.offered.set(offered - count as u64);
        self.unsent -= count as u64;
        self.offset = if self.unsent == 0 {
            0
        } else {
            (self.offset + count) % request_len
        };
    }

    #[inline]
    pub(crate) fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Whether the oldest of the last `in_flight` requests has had a byte offered.
    #[inline]
    pub(crate) fn has_offered(&self, request_len: usize, in_flight: u32) -> bool {
        self.unsent < request_len as u64 * u64::from(in_flight) + self.offered.get()
    }
}
