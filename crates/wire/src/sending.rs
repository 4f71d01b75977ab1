//! What is still to be written, as ranges of a block that repeats one request.
//!
//! ```text
//!   block   │GET …│GET …│GET …│GET …│GET … padded│GET … padded│     forms of one request,
//!              ▲───────────────────▲                                  each repeated
//!           offset            offset + unsent, cut at the form's end
//! ```
//!
//! Since a form is periodic, `offset` is kept within its first copy: the range that
//! follows is then as long as it can be. A connection takes on another form when all of its
//! requests are sent, so that what is unsent is always of one.

use std::cell::Cell;

use crate::Transmit;

/// One form of the request in the block: as it was asked for, or with padding.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Form {
    /// Where its copies begin.
    pub(crate) start: usize,
    /// Bytes of all of them.
    pub(crate) len: usize,
    /// Bytes of one.
    pub(crate) request_len: usize,
}

/// The unsent bytes of one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sending {
    /// The form of what is unsent, or of what was sent last.
    form: Form,
    /// Bytes issued and not confirmed as sent.
    unsent: u64,
    /// Bytes of the first unsent request that are sent already.
    offset: usize,
    /// How many of the unsent bytes the socket may have taken, unconfirmed.
    offered: Cell<u64>,
}

impl Sending {
    #[inline]
    pub(crate) fn issue(&mut self, form: Form) {
        if self.unsent == 0 {
            self.form = form;
        }
        self.unsent += self.form.request_len as u64;
    }

    /// The next range, of at most `count_max` bytes.
    #[inline]
    pub(crate) fn poll(&self, count_max: u64) -> Transmit {
        let room = (self.form.len - self.offset) as u64;
        let len = self.unsent.min(count_max).min(room);
        if len == 0 {
            return Transmit::Idle;
        }
        self.offered.set(self.offered.get().max(len));
        Transmit::Block {
            start: self.form.start + self.offset,
            len: len as usize,
        }
    }

    #[inline]
    pub(crate) fn sent(&mut self, count: usize) {
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
            (self.offset + count) % self.form.request_len
        };
    }

    #[inline]
    pub(crate) fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Bytes of the first unsent request that are sent already.
    #[inline]
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Whether all of the oldest of the last `in_flight` requests has been offered.
    #[inline]
    pub(crate) fn has_offered_whole(&self, in_flight: u32) -> bool {
        let later = u64::from(in_flight).checked_sub(1);
        later.is_some_and(|later| self.unsent <= self.request_len() * later + self.offered.get())
    }

    /// Whether the oldest of the last `in_flight` requests has had a byte offered.
    #[inline]
    pub(crate) fn has_offered(&self, in_flight: u32) -> bool {
        self.unsent < self.request_len() * u64::from(in_flight) + self.offered.get()
    }

    /// Bytes of one request in the form of what is unsent.
    #[inline]
    pub(crate) fn request_len(&self) -> u64 {
        self.form.request_len as u64
    }
}
