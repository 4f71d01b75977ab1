//! One connection whose answers come in the order of its requests.

use super::reader::{Reader, Step};
use super::shared::Shared;
use crate::sending::Sending;
use crate::{Answer, Outcome, Transmit, Wire, WireError};

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
    sending: Sending,
    reader: Reader,
    /// Whether the answer that arrives was told of.
    is_begun_told: bool,
    outcome: Option<Outcome>,
}

impl Wire for InTurn {
    type Shared = Shared;

    fn open(_shared: &Shared) -> InTurn {
        InTurn::default()
    }

    fn reset(&mut self, _shared: &Shared) {
        *self = InTurn::default();
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
        self.sending.poll(u64::MAX)
    }

    #[inline]
    fn handle_sent(&mut self, _shared: &Shared, count: usize) {
        self.sending.sent(count);
    }

    fn write(&mut self, _shared: &Shared, _into: &mut [u8]) -> usize {
        unreachable!("every request is a range of the block");
    }

    #[inline]
    fn handle_bytes(&mut self, shared: &mut Shared, bytes: &[u8]) -> usize {
        assert!(self.outcome.is_none(), "an outcome was not polled");
        if self.is_over || bytes.is_empty() {
            return bytes.len();
        }
        if !self.reader.is_inside() && !self.sending.has_offered(self.in_flight) {
            self.break_off(None, WireError::FrameUnmatched);
            return bytes.len();
        }
        let (taken, step) = self.reader.take(&shared.format, bytes);
        match step {
            Step::More => {}
            Step::Whole(frame) => {
                self.outcome = Some(Outcome::Answered(Answer {
                    slot: self.oldest,
                    status: Answer::NO_STATUS,
                    wire_bytes: shared.format.length.width as u64 + frame.message_bytes,
                    body_bytes: frame.message_bytes,
                    reusable: !shared.options.connection_per_request,
                }));
                self.is_begun_told = false;
                self.in_flight -= 1;
                self.oldest = (self.oldest + 1) % shared.options.in_flight_max;
                self.is_over = shared.options.connection_per_request;
            }
            Step::Bad(error) => self.break_off(Some(self.oldest), error),
        }
        taken
    }

    fn handle_eof(&mut self, _shared: &mut Shared) {
        assert!(self.outcome.is_none(), "an outcome was not polled");
        if self.reader.is_inside() && !self.is_over {
            self.break_off(Some(self.oldest), WireError::FrameTruncated);
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
        self.reader.is_inside().then_some(self.oldest)
    }

    /// Answers come in turn: none can be left out.
    fn cancel(&mut self, _slot: u32) -> bool {
        false
    }
}

impl InTurn {
    #[cold]
    fn break_off(&mut self, slot: Option<u32>, error: WireError) {
        self.outcome = Some(Outcome::Broken { slot, error });
        self.in_flight -= u32::from(slot.is_some());
        self.is_over = true;
    }
}
