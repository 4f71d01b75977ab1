//! One connection whose answers name their requests, and come in any order.
//!
//! The low bits of an id are the request's slot, the others count the slot's uses: an
//! answer finds its request by index, and a second answer to it is told from the first.

use std::collections::VecDeque;

use super::reader::{Reader, Step};
use super::shared::Shared;
use crate::{Answer, Judged, Outcome, Transmit, Wire, WireError};

/// The client's end of one connection with ids.
#[derive(Debug)]
pub struct ById {
    /// No request may follow: the peer closed, or broke the protocol.
    is_over: bool,
    /// Whether any request was issued since the connection was opened.
    is_used: bool,
    slots: Box<[Slot]>,
    /// Slots without a request.
    free: Vec<u32>,
    /// Slots whose requests are not written yet.
    waiting: VecDeque<u32>,
    /// The frame of the request that is being written: the worker's, with its own id.
    frame: Box<[u8]>,
    /// Bytes of it that are written; all of them between requests.
    written: usize,
    reader: Reader,
    outcome: Option<Outcome>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    uses: u64,
    is_sent: bool,
}

impl Wire for ById {
    type Shared = Shared;

    fn open(shared: &Shared) -> ById {
        let depth = shared.options.in_flight_max as usize;
        ById {
            is_over: false,
            is_used: false,
            slots: vec![Slot::default(); depth].into(),
            free: (0..depth as u32).rev().collect(),
            waiting: VecDeque::with_capacity(depth),
            frame: shared.block()[..shared.frame_len].into(),
            written: shared.frame_len,
            reader: Reader::default(),
            outcome: None,
        }
    }

    fn block(shared: &Shared) -> &[u8] {
        shared.block()
    }

    fn reset(&mut self, shared: &Shared) {
        self.is_over = false;
        self.is_used = false;
        self.slots.fill(Slot::default());
        self.free.clear();
        self.free.extend((0..shared.options.in_flight_max).rev());
        self.waiting.clear();
        self.written = shared.frame_len;
        self.reader = Reader::default();
        self.outcome = None;
    }

    #[inline]
    fn room(&self, shared: &Shared) -> u32 {
        if self.is_over || (shared.options.connection_per_request && self.is_used) {
            0
        } else {
            self.free.len() as u32
        }
    }

    #[inline]
    fn issue(&mut self, shared: &Shared) -> u32 {
        assert!(self.room(shared) > 0, "issued without room");
        let slot = self.free.pop().expect("there is room");
        self.is_used = true;
        self.waiting.push_back(slot);
        slot
    }

    #[inline]
    fn poll_transmit(&self, _shared: &Shared) -> Transmit {
        let has_none = self.waiting.is_empty() && self.written == self.frame.len();
        if self.is_over || has_none {
            Transmit::Idle
        } else {
            Transmit::Own
        }
    }

    fn handle_sent(&mut self, _shared: &Shared, _count: usize) {
        unreachable!("what was written is the worker's to send");
    }

    #[inline]
    fn write(&mut self, shared: &Shared, into: &mut [u8]) -> usize {
        let mut len = 0;
        while len < into.len() && !self.is_over {
            if self.written == self.frame.len() {
                let Some(slot) = self.waiting.pop_front() else {
                    break;
                };
                self.begin(shared, slot);
            }
            let rest = &self.frame[self.written..];
            let count = rest.len().min(into.len() - len);
            into[len..len + count].copy_from_slice(&rest[..count]);
            self.written += count;
            len += count;
        }
        len
    }

    #[inline]
    fn handle_bytes(&mut self, shared: &mut Shared, bytes: &[u8]) -> usize {
        assert!(self.outcome.is_none(), "an outcome was not polled");
        if self.is_over {
            return bytes.len();
        }
        let (taken, step) = self.reader.take(&shared.format, bytes);
        match step {
            Step::More => {}
            Step::Grant(_) => unreachable!("a format with ids has no credit"),
            Step::Whole(frame) => match self.slot_of(shared, frame.id) {
                Some(slot) => {
                    self.outcome = Some(Outcome::Answered(Answer {
                        slot,
                        status: Answer::NO_STATUS,
                        wire_bytes: shared.format.length.width as u64 + frame.message_bytes,
                        body_bytes: frame.message_bytes,
                        decoded_bytes: 0,
                        reusable: !shared.options.connection_per_request,
                        is_last: false,
                        call: None,
                        judged: Judged::ByStatus,
                        redirects: None,
                    }));
                    let used = &mut self.slots[slot as usize];
                    used.is_sent = false;
                    used.uses += 1;
                    self.free.push(slot);
                    self.is_over = shared.options.connection_per_request;
                }
                None => self.break_off(WireError::FrameUnmatched),
            },
            Step::Bad(error) => self.break_off(error),
        }
        taken
    }

    fn handle_eof(&mut self, _shared: &mut Shared) {
        assert!(self.outcome.is_none(), "an outcome was not polled");
        if self.reader.is_inside() && !self.is_over {
            self.break_off(WireError::FrameTruncated);
        }
        self.is_over = true;
    }

    #[inline]
    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcome.take()
    }

    /// Which request an answer belongs to is known when it is whole.
    #[inline]
    fn poll_begun(&mut self) -> Option<u32> {
        None
    }

    #[inline]
    fn answering(&self) -> Option<u32> {
        None
    }

    /// A late answer to it would be one that nobody waits for.
    fn cancel(&mut self, _slot: u32) -> bool {
        false
    }
}

impl ById {
    /// Gives the frame the id of this slot's request, which is then on its way.
    #[inline]
    fn begin(&mut self, shared: &Shared, slot: u32) {
        let Some(field) = shared.format.id else {
            unreachable!("a format without ids is read in turn");
        };
        let at = shared.format.length.width + field.offset;
        let id = self.id_of(shared, slot);
        field.integer.write(id, &mut self.frame[at..]);
        self.slots[slot as usize].is_sent = true;
        self.written = 0;
    }

    #[inline]
    fn id_of(&self, shared: &Shared, slot: u32) -> u64 {
        let max = shared.format.id.map_or(0, |id| id.integer.max());
        let uses = self.slots[slot as usize].uses;
        (uses.checked_shl(shared.slot_bits).unwrap_or(0) | u64::from(slot)) & max
    }

    /// The slot whose request waits for an answer with this id.
    #[inline]
    fn slot_of(&self, shared: &Shared, id: u64) -> Option<u32> {
        let slot = (id & ((1 << shared.slot_bits) - 1)) as u32;
        let known = self.slots.get(slot as usize)?;
        (known.is_sent && self.id_of(shared, slot) == id).then_some(slot)
    }

    #[cold]
    fn break_off(&mut self, error: WireError) {
        self.outcome = Some(Outcome::Broken { slot: None, error });
        self.is_over = true;
    }
}
