//! The streams of one connection: a slab of slots, and lines of slots that wait.
//!
//! A slot is a worker's name for a request, `0..in_flight_max`; an id is the wire's. Ids
//! only rise, so a table indexed by an id's low bits finds nearly every slot at once; a
//! stream that stays behind while many others pass is found by looking through the slab.

use std::collections::VecDeque;

use super::flow::{ReceiveWindow, SendWindow};
use super::frame::ErrorCode;
use crate::grpc::{Messages, Status};
use crate::mix::Ask;

/// One request and its answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Stream {
    pub(super) is_taken: bool,
    /// What it asks, where there are several kinds of request.
    pub(super) ask: Ask,
    /// 0 until its HEADERS are written.
    pub(super) id: u32,
    /// The answer's first byte has come.
    pub(super) is_begun: bool,
    /// The final head has come, with this status.
    pub(super) has_head: bool,
    pub(super) status: u16,
    pub(super) interims: u32,
    /// What the body must come to.
    pub(super) length: Option<u64>,
    pub(super) body_bytes: u64,
    pub(super) wire_bytes: u64,
    /// Its body is coded, and decoded.
    pub(super) is_decoded: bool,
    /// The messages of its body, where it is a call.
    pub(super) messages: Messages,
    /// What the block that ended it said of the call.
    pub(super) call: Status,
    /// Bytes of the request's body that are still to be written.
    pub(super) unsent: usize,
    /// Of so many.
    pub(super) request_body: usize,
    pub(super) send: SendWindow,
    pub(super) receive: ReceiveWindow,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Streams {
    slab: Box<[Stream]>,
    free: Vec<u32>,
    slots_by_id: Box<[u32]>,
}

impl Streams {
    pub(super) fn new(slots: u32) -> Streams {
        let places = (slots as usize * 4).next_power_of_two();
        let mut streams = Streams {
            slab: vec![Stream::default(); slots as usize].into(),
            free: Vec::with_capacity(slots as usize),
            slots_by_id: vec![0; places].into(),
        };
        streams.reset();
        streams
    }

    pub(super) fn reset(&mut self) {
        self.slab.fill(Stream::default());
        self.free.clear();
        // The last is taken first: slots are handed out from 0.
        self.free.extend((0..self.slab.len() as u32).rev());
    }

    /// Slots that nobody has.
    #[inline]
    pub(super) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    #[inline]
    pub(super) fn in_flight(&self) -> u32 {
        (self.slab.len() - self.free.len()) as u32
    }

    #[inline]
    pub(super) fn take(&mut self, ask: Ask) -> u32 {
        let slot = self.free.pop().expect("issued without room");
        self.slab[slot as usize] = Stream {
            is_taken: true,
            ask,
            ..Stream::default()
        };
        slot
    }

    #[inline]
    pub(super) fn release(&mut self, slot: u32) {
        let stream = &mut self.slab[slot as usize];
        assert!(stream.is_taken, "a stream ended twice");
        stream.is_taken = false;
        stream.id = 0;
        self.free.push(slot);
    }

    /// Gives a slot its id.
    #[inline]
    pub(super) fn name(&mut self, slot: u32, id: u32) {
        self.slab[slot as usize].id = id;
        let place = self.place(id);
        self.slots_by_id[place] = slot;
    }

    #[inline]
    fn place(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.slots_by_id.len() - 1)
    }

    /// The slot of an open stream.
    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<u32> {
        let slot = self.slots_by_id[self.place(id)];
        if self.slab[slot as usize].id == id {
            return Some(slot);
        }
        let found = self.slab.iter().position(|stream| stream.id == id);
        found.map(|slot| slot as u32)
    }

    #[inline]
    pub(super) fn at(&self, slot: u32) -> &Stream {
        &self.slab[slot as usize]
    }

    #[inline]
    pub(super) fn at_mut(&mut self, slot: u32) -> &mut Stream {
        &mut self.slab[slot as usize]
    }

    /// The first taken slot that `wanted` picks.
    pub(super) fn position(&self, wanted: impl Fn(&Stream) -> bool) -> Option<u32> {
        let found = self.slab.iter().position(|s| s.is_taken && wanted(s));
        found.map(|slot| slot as u32)
    }

    /// Every stream that has an id.
    pub(super) fn open_mut(&mut self) -> impl Iterator<Item = (u32, &mut Stream)> {
        let numbered = self.slab.iter_mut().enumerate();
        numbered
            .filter(|(_, stream)| stream.id != 0)
            .map(|(slot, stream)| (slot as u32, stream))
    }
}

/// Slots in the order in which they came, each at most once.
///
/// A slot that is released while it stands here stays until it is popped: whoever pops
/// asks whether it still wants what it stood for.
#[derive(Debug)]
pub(super) struct Line {
    order: VecDeque<u32>,
    stands: Box<[bool]>,
}

impl Line {
    pub(super) fn new(slots: u32) -> Line {
        Line {
            order: VecDeque::with_capacity(slots as usize),
            stands: vec![false; slots as usize].into(),
        }
    }

    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.stands.fill(false);
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    #[inline]
    pub(super) fn push(&mut self, slot: u32) {
        if !std::mem::replace(&mut self.stands[slot as usize], true) {
            self.order.push_back(slot);
        }
    }

    /// Takes a slot out, wherever it stands.
    pub(super) fn remove(&mut self, slot: u32) {
        if std::mem::replace(&mut self.stands[slot as usize], false) {
            self.order.retain(|standing| *standing != slot);
        }
    }

    #[inline]
    pub(super) fn front(&self) -> Option<u32> {
        self.order.front().copied()
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<u32> {
        let slot = self.order.pop_front()?;
        self.stands[slot as usize] = false;
        Some(slot)
    }
}

/// Streams that this end has reset: those that the peer is still to be told of, and
/// those whose late frames are forgiven (RFC 9113, 5.1).
#[derive(Debug)]
pub(super) struct Resets {
    /// Oldest first; the last `unsent` are still to be written.
    ids: VecDeque<(u32, ErrorCode)>,
    unsent: usize,
    most: usize,
    /// Ids up to this one were forgotten, so all of them are forgiven.
    forgotten: u32,
}

/// More resets than the peer has let us say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooMany;

impl Resets {
    pub(super) fn new(most: usize) -> Resets {
        Resets {
            ids: VecDeque::with_capacity(most),
            unsent: 0,
            most,
            forgotten: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.unsent = 0;
        self.forgotten = 0;
    }

    pub(super) fn push(&mut self, id: u32, code: ErrorCode) -> Result<(), TooMany> {
        if self.unsent == self.most {
            return Err(TooMany);
        }
        if self.ids.len() == self.most
            && let Some((id, _)) = self.ids.pop_front()
        {
            self.forgotten = self.forgotten.max(id);
        }
        self.ids.push_back((id, code));
        self.unsent += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        self.unsent > 0
    }

    pub(super) fn next_unsent(&mut self) -> Option<(u32, ErrorCode)> {
        let at = self.ids.len() - self.unsent;
        let next = self.ids.get(at).copied()?;
        self.unsent -= 1;
        Some(next)
    }

    /// Whether frames of this closed stream may still be on their way.
    pub(super) fn forgives(&self, id: u32) -> bool {
        id <= self.forgotten || self.ids.iter().any(|(reset, _)| *reset == id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_stays_behind_is_still_found() {
        let mut streams = Streams::new(3);
        let slow = streams.take(Ask::default());
        streams.name(slow, 1);
        for n in 1..100 {
            let slot = streams.take(Ask::default());
            let id = 2 * n + 1;
            streams.name(slot, id);
            assert_eq!(streams.find(id), Some(slot));
            assert_eq!(streams.find(1), Some(slow));
            assert_eq!(streams.in_flight(), 2);
            streams.release(slot);
            assert_eq!(streams.find(id), None);
        }
    }

    #[test]
    fn a_line_holds_each_slot_once() {
        let mut line = Line::new(2);
        line.push(1);
        line.push(0);
        line.push(1);
        assert_eq!(line.len(), 2);
        assert_eq!(line.pop(), Some(1));
        line.push(1);
        assert_eq!(
            (line.pop(), line.pop(), line.pop()),
            (Some(0), Some(1), None)
        );
        line.push(0);
        line.push(1);
        line.remove(0);
        line.remove(0);
        assert_eq!((line.pop(), line.pop()), (Some(1), None));
    }

    #[test]
    fn resets_are_said_once_and_forgiven_for_ever() {
        let mut resets = Resets::new(2);
        for id in [1, 5] {
            resets.push(id, ErrorCode::Cancel).unwrap();
        }
        assert_eq!(resets.push(7, ErrorCode::Cancel), Err(TooMany));
        assert_eq!(resets.next_unsent(), Some((1, ErrorCode::Cancel)));
        resets.push(9, ErrorCode::Cancel).unwrap();
        assert_eq!(resets.next_unsent(), Some((5, ErrorCode::Cancel)));
        assert_eq!(resets.next_unsent(), Some((9, ErrorCode::Cancel)));
        assert_eq!(resets.next_unsent(), None);
        assert!(resets.forgives(1) && resets.forgives(5) && resets.forgives(9));
        assert!(!resets.forgives(3 + 4));
    }
}
