//! What is still to be written, as ranges of a block that repeats one request.
//!
//! ```text
//!   block   │GET …│GET …│GET …│GET …│GET … padded│GET … padded│     forms of one request,
//!              ▲───────────────────▲                                  each repeated
//!           offset            offset + unsent, cut at the form's end
//! ```
//!
//! Since a form is periodic, `offset` is kept within its first copy: the range that
//! follows is then as long as it can be. A connection of one kind of request takes on another form when all of its
//! requests are sent. One of several kinds has runs of each, which wait behind one another.

use std::cell::Cell;
use std::collections::VecDeque;

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

/// Runs of requests: a form, and how many of it. Boxed, so that connections of one kind stay small.
#[derive(Debug, Clone)]
struct Later {
    runs: VecDeque<(Form, u32)>,
}

/// The unsent bytes of one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sending {
    /// The form of what is unsent, or of what was sent last.
    form: Form,
    /// Bytes of this form issued and not confirmed as sent.
    unsent: u64,
    /// Bytes of the first unsent request that are sent already.
    offset: usize,
    /// How many of the unsent bytes the socket may have taken, unconfirmed.
    offered: Cell<u64>,
    /// Requests of other forms behind these. `None`: there is one kind.
    later: Option<Box<Later>>,
}

impl Sending {
    /// With room for so many runs of other forms behind the first; 0: there is one kind.
    pub(crate) fn with_room(runs: usize) -> Sending {
        Sending {
            later: (runs > 0).then(|| {
                let runs = VecDeque::with_capacity(runs);
                Box::new(Later { runs })
            }),
            ..Sending::default()
        }
    }

    /// Nothing is unsent any more.
    pub(crate) fn forget(&mut self) {
        let mut later = self.later.take();
        if let Some(later) = &mut later {
            later.runs.clear();
        }
        *self = Sending {
            later,
            ..Sending::default()
        };
    }

    #[inline]
    pub(crate) fn issue(&mut self, form: Form) {
        if self.unsent == 0 {
            self.form = form;
        } else if let Some(later) = &mut self.later
            && (!later.runs.is_empty() || self.form.start != form.start)
        {
            match later.runs.back_mut() {
                Some((last, count)) if last.start == form.start => *count += 1,
                _ => later.runs.push_back((form, 1)),
            }
            return;
        }
        self.unsent += self.form.request_len as u64;
    }

    /// Requests of which a byte is unsent.
    fn requests(&self) -> u64 {
        let later = self.later.iter().flat_map(|later| &later.runs);
        let later: u64 = later.map(|(_, count)| u64::from(*count)).sum();
        self.unsent.div_ceil(self.request_len().max(1)) + later
    }

    /// Unsent bytes of the first of them.
    fn unsent_of_first(&self) -> u64 {
        self.unsent.min(self.request_len() - self.offset as u64)
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
        if self.unsent == 0
            && let Some(later) = &mut self.later
            && let Some((form, requests)) = later.runs.pop_front()
        {
            self.form = form;
            self.unsent = form.request_len as u64 * u64::from(requests);
        }
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

    /// What is unsent of the oldest of the last `in_flight` requests.
    pub(crate) fn unsent_of_oldest(&self, in_flight: u32) -> u64 {
        match u64::from(in_flight) > self.requests() {
            true => 0,
            false => self.unsent_of_first(),
        }
    }

    /// Whether all of the oldest of the last `in_flight` requests has been offered.
    #[inline]
    pub(crate) fn has_offered_whole(&self, in_flight: u32) -> bool {
        in_flight > 0 && self.unsent_of_oldest(in_flight) <= self.offered.get()
    }

    /// Whether the oldest of the last `in_flight` requests has had a byte offered.
    #[inline]
    pub(crate) fn has_offered(&self, in_flight: u32) -> bool {
        if self
            .later
            .as_ref()
            .is_none_or(|later| later.runs.is_empty())
        {
            let of_all = self.request_len() * u64::from(in_flight);
            return self.unsent < of_all + self.offered.get();
        }
        let is_before = u64::from(in_flight) > self.requests();
        is_before || (in_flight > 0 && self.offset as u64 + self.offered.get() > 0)
    }

    /// Bytes of one request in the form of what is unsent.
    #[inline]
    pub(crate) fn request_len(&self) -> u64 {
        self.form.request_len as u64
    }
}
