//! One connection whose answers come in the order of its requests.

use super::credit::{Credit, Frames};
use super::reader::{Frame, Reader, Step};
use super::shared::Shared;
use crate::sending::Sending;
use crate::{Answer, Judged, Outcome, Transmit, Wire, WireError};

/// Bytes of a length, where there is credit.
const LENGTH_BYTES: u64 = 4;

/// The client's end of one connection without ids.
#[derive(Debug, Default)]
pub struct InTurn {
    /// No request may follow: the peer closed, or broke the protocol.
    is_over: bool,
    /// Whether any request was issued since the connection was opened.
    is_used: bool,
    /// The slot of the oldest request in flight, which is the one answered next.
    oldest: u32,
    in_flight: u32,
    /// As many slots as there are.
    depth: u32,
    sending: Sending,
    /// What may be sent, where the format has credit.
    credit: Option<Credit>,
    reader: Reader,
    /// Whether the answer that arrives was told of.
    is_begun_told: bool,
    /// Whether the frame that arrives is known to be an answer.
    is_answer: bool,
    outcome: Option<Outcome>,
}

impl Wire for InTurn {
    type Shared = Shared;

    fn open(shared: &Shared) -> InTurn {
        InTurn {
            depth: shared.options.in_flight_max,
            credit: shared.format.credit.then(Credit::default),
            ..InTurn::default()
        }
    }

    fn block(shared: &Shared) -> &[u8] {
        shared.block()
    }

    fn reset(&mut self, shared: &Shared) {
        *self = InTurn::open(shared);
    }

    #[inline]
    fn room(&self, shared: &Shared) -> u32 {
        if self.is_over || (shared.options.connection_per_request && self.is_used) {
            0
        } else {
            shared.options.in_flight_max - self.in_flight
        }
    }

    #[inline]
    fn issue(&mut self, shared: &Shared) -> u32 {
        assert!(self.room(shared) > 0, "issued without room");
        let slot = (self.oldest + self.in_flight) % shared.options.in_flight_max;
        self.in_flight += 1;
        self.is_used = true;
        self.sending.issue(shared.form());
        slot
    }

    #[inline]
    fn poll_transmit(&self, _shared: &Shared) -> Transmit {
        if self.is_over {
            return Transmit::Idle;
        }
        let allowed = self.credit.map(|credit| credit.allows(self.frames()));
        self.sending.poll(allowed.unwrap_or(u64::MAX))
    }

    #[inline]
    fn handle_sent(&mut self, _shared: &Shared, count: usize) {
        let frames = self.frames();
        if let Some(credit) = &mut self.credit {
            credit.take(frames, count as u64);
        }
        self.sending.sent(count);
    }

    fn write(&mut self, _shared: &Shared, _into: &mut [u8]) -> usize {
        unreachable!("every request is a range of the block");
    }

    #[inline]
    fn handle_bytes(&mut self, shared: &mut Shared, bytes: &[u8]) -> usize {
        assert!(self.outcome.is_none(), "an outcome was not polled");
        if self.credit.is_some() {
            return self.handle_with_credit(shared, bytes);
        }
        if self.is_over || bytes.is_empty() {
            return bytes.len();
        }
        if !self.reader.is_inside() && !self.sending.has_offered(self.in_flight) {
            self.break_off(None, WireError::FrameUnmatched);
            return bytes.len();
        }
        let (taken, step) = self.reader.take(&shared.format, bytes);
        self.is_answer = self.reader.is_inside();
        match step {
            Step::More => {}
            Step::Whole(frame) => self.answered(shared, frame),
            Step::Bad(error) => self.break_off(Some(self.oldest), error),
            Step::Grant(_) => unreachable!("the format has no credit"),
        }
        taken
    }

    fn handle_eof(&mut self, _shared: &mut Shared) {
        assert!(self.outcome.is_none(), "an outcome was not polled");
        if self.reader.is_inside() && !self.is_over {
            let slot = (self.in_flight > 0).then_some(self.oldest);
            self.break_off(slot, WireError::FrameTruncated);
        }
        self.is_over = true;
    }

    #[inline]
    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcome.take()
    }

    #[inline]
    fn poll_begun(&mut self) -> Option<u32> {
        if self.is_begun_told || self.is_over {
            return None;
        }
        let begun = self.answering();
        self.is_begun_told = begun.is_some();
        begun
    }

    #[inline]
    fn answering(&self) -> Option<u32> {
        self.is_answer.then_some(self.oldest)
    }

    /// Whether it waits for credit: it is not sent whole, and nothing of it may be sent.
    fn is_flow_blocked(&self, slot: u32) -> bool {
        let frames = self.frames();
        let is_waiting = self.credit.is_some_and(|credit| credit.allows(frames) == 0);
        if !is_waiting || frames.len == 0 {
            return false;
        }
        let unsent = self.sending.unsent().div_ceil(frames.len) as u32;
        let place = (slot + self.depth - self.oldest) % self.depth;
        // One that was answered may not be confirmed as sent yet.
        let sent = self.in_flight.saturating_sub(unsent);
        (sent..self.in_flight).contains(&place)
    }

    /// Answers come in turn: none can be left out.
    fn cancel(&mut self, _slot: u32) -> bool {
        false
    }
}

impl InTurn {
    fn frames(&self) -> Frames {
        Frames {
            width: LENGTH_BYTES,
            len: self.sending.request_len(),
            offset: self.sending.offset() as u64,
        }
    }

    /// Takes grants, up to the first frame that is an answer.
    fn handle_with_credit(&mut self, shared: &Shared, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && !self.is_over {
            let (count, step) = self.reader.take(&shared.format, &bytes[taken..]);
            taken += count;
            if let Step::Grant(granted) = step {
                if !self
                    .credit
                    .as_mut()
                    .is_some_and(|credit| credit.grant(granted))
                {
                    self.break_off(None, WireError::FrameCredit);
                }
                continue;
            }
            let is_inside = self.reader.is_inside_answer(&shared.format);
            if step == Step::More && !is_inside {
                // Not yet known from a grant.
                continue;
            }
            let may_answer = self.is_answer || self.sending.has_offered_whole(self.in_flight);
            self.is_answer = is_inside;
            match step {
                _ if self.credit.is_some_and(|credit| !credit.has_begun) => {
                    self.break_off(None, WireError::FrameCredit);
                }
                _ if !may_answer => self.break_off(None, WireError::FrameUnmatched),
                Step::Whole(frame) => {
                    self.answered(shared, frame);
                    return taken;
                }
                Step::Bad(error) => self.break_off(Some(self.oldest), error),
                Step::More | Step::Grant(_) => {}
            }
        }
        bytes.len()
    }

    #[inline]
    fn answered(&mut self, shared: &Shared, frame: Frame) {
        self.outcome = Some(Outcome::Answered(Answer {
            slot: self.oldest,
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
        self.is_begun_told = false;
        self.in_flight -= 1;
        self.oldest = (self.oldest + 1) % shared.options.in_flight_max;
        self.is_over = shared.options.connection_per_request;
    }

    #[cold]
    fn break_off(&mut self, slot: Option<u32>, error: WireError) {
        self.outcome = Some(Outcome::Broken { slot, error });
        self.in_flight -= u32::from(slot.is_some());
        self.is_over = true;
        self.is_answer = false;
    }
}
