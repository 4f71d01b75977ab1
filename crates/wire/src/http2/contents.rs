//! The bodies that are decoded, each by a decoder that stands at its stream's slot.
//!
//! A stream that is given up leaves its decoder where it was; whatever has the slot next,
//! takes it or gives it back. In between it belongs to nobody, since only [`Stream::is_decoded`] says
//! that a slot's decoder is its stream's.
//!
//! [`Stream::is_decoded`]: super::streams::Stream::is_decoded

use super::connection::Http2;
use super::fault::Breach;
use super::shared::{Options, Shared};
use crate::WireError;
use crate::content::{Coding, Decode, Decoder};

/// The decoders of one connection's streams.
#[derive(Debug)]
pub(super) struct Contents {
    /// By slot; empty where nothing is decoded.
    decoders: Box<[Option<Decoder>]>,
    check: Check,
}

/// How far the check of one body on this connection has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Due,
    /// Of the body of this slot's stream, as long as that is under way.
    Under(u32),
    Done,
}

impl Contents {
    pub(super) fn new(options: &Options) -> Contents {
        let slots = match options.decode {
            Decode::None => 0,
            Decode::Check | Decode::Inflate => options.in_flight_max,
        };
        Contents {
            decoders: (0..slots).map(|_| None).collect(),
            check: Check::Due,
        }
    }

    pub(super) fn reset(&mut self) {
        self.check = Check::Due;
    }
}

impl Http2 {
    /// A coded body is to follow.
    pub(super) fn begin_content(&mut self, shared: &mut Shared, slot: u32, coding: Coding) {
        match shared.decoders.decode() {
            Decode::None => return,
            Decode::Check if !self.is_check_due() => return,
            Decode::Check | Decode::Inflate => {}
        }
        let place = &mut self.contents.decoders[slot as usize];
        *place = shared.decoders.open(coding, place.take());
        let is_decoded = place.is_some();
        self.streams.at_mut(slot).is_decoded = is_decoded;
        if is_decoded {
            self.contents.check = Check::Under(slot);
        } else {
            shared.anomalies.content_not_decoded += 1;
        }
    }

    /// Decodes a piece; `false` when it is corrupt, and the request has failed.
    pub(super) fn take_content(&mut self, shared: &mut Shared, slot: u32, piece: &[u8]) -> bool {
        let place = &mut self.contents.decoders[slot as usize];
        let Some(mut decoder) = place.take() else {
            return true;
        };
        if shared.decoders.take(&mut decoder, piece).is_ok() {
            *place = Some(decoder);
            return true;
        }
        shared.decoders.close(decoder);
        self.fail_stream(shared, self.frames.header(), slot, Breach::content());
        false
    }

    /// What a whole body came to, decoded; 0 where it was not to be.
    #[inline]
    pub(super) fn end_content(&mut self, shared: &mut Shared, slot: u32) -> Result<u64, WireError> {
        let stream = self.streams.at(slot);
        if !stream.is_decoded {
            return Ok(match shared.options.decode {
                Decode::None | Decode::Check => 0,
                Decode::Inflate => stream.body_bytes,
            });
        }
        let has_come = stream.body_bytes > 0;
        let Some(decoder) = self.contents.decoders[slot as usize].take() else {
            return Ok(0);
        };
        let ended = decoder.end();
        shared.decoders.close(decoder);
        if has_come && ended.is_ok() {
            self.contents.check = Check::Done;
        }
        ended
    }

    /// Whether no body was found to be sound, and none is being looked at.
    fn is_check_due(&self) -> bool {
        match self.contents.check {
            Check::Due => true,
            Check::Done => false,
            Check::Under(slot) => {
                let stream = self.streams.at(slot);
                !(stream.is_taken && stream.is_decoded)
            }
        }
    }
}
