//! The decoders of one worker: made when they are first wanted, kept, and used again.
//!
//! What a decoder may come to is told by its coding's largest window: 32 KiB of gzip and
//! deflate, 16 MiB of br, 8 MiB of zstd. A worker has no more decoders than would fill
//! [`WINDOW_BYTES_MAX`] with such windows, which is 256 of the greediest kind; a window is as
//! large only where a server sends as much. A body for which none is left is not decoded,
//! and the caller counts it.

use super::brotli::Brotli;
use super::coding::Coding;
use super::inflate::Inflate;
use super::zstd::Zstd;
use super::{Decode, Sink};
use crate::WireError;

/// The windows of all decoders of a worker, in bytes, if each were as large as its kind allows.
const WINDOW_BYTES_MAX: u64 = 4 << 30;

/// Room for decoded bytes, shared by all of them.
const ROOM_BYTES: usize = 16 * 1024;

/// What decodes the bodies of one worker.
#[derive(Debug)]
pub(crate) struct Decoders {
    decode: Decode,
    /// Of one decoded body.
    bytes_max: u64,
    /// Where decoded bytes go, to be dropped; empty where none are.
    room: Box<[u8]>,
    idle: [Vec<Decoder>; KINDS],
    /// The largest windows of those that there are.
    window_bytes: u64,
}

/// What decodes one body after another.
#[derive(Debug)]
pub(crate) struct Decoder {
    machine: Machine,
    bytes: u64,
}

#[derive(Debug)]
enum Machine {
    Inflate(Box<Inflate>),
    Brotli(Box<Brotli>),
    Zstd(Box<Zstd>),
    /// Takes nothing but an empty body.
    Other {
        is_empty: bool,
    },
}

const KINDS: usize = 4;

impl Decoders {
    /// None yet; `bytes_max` caps what each body may decode to.
    pub(crate) fn new(decode: Decode, bytes_max: u64) -> Decoders {
        let room_bytes = match decode {
            Decode::None => 0,
            Decode::Check | Decode::Inflate => ROOM_BYTES,
        };
        Decoders {
            decode,
            bytes_max,
            room: vec![0; room_bytes].into(),
            idle: std::array::from_fn(|_| Vec::new()),
            window_bytes: 0,
        }
    }

    /// Which bodies are decoded.
    #[inline]
    pub(crate) fn decode(&self) -> Decode {
        self.decode
    }

    /// A decoder for the next body, in place of one that was left behind; none where too many
    /// bodies are under way.
    pub(crate) fn open(&mut self, coding: Coding, left_behind: Option<Decoder>) -> Option<Decoder> {
        if let Some(decoder) = left_behind {
            self.close(decoder);
        }
        let mut decoder = match self.idle[kind(coding)].pop() {
            Some(decoder) => decoder,
            None => self.make(coding)?,
        };
        decoder.start(coding);
        Some(decoder)
    }

    /// Keeps a decoder for a later body.
    pub(crate) fn close(&mut self, decoder: Decoder) {
        self.idle[decoder.kind()].push(decoder);
    }

    /// Decodes the next bytes of a body.
    pub(crate) fn take(&mut self, decoder: &mut Decoder, bytes: &[u8]) -> Result<(), WireError> {
        let mut sink = Sink {
            room: &mut self.room,
            bytes: decoder.bytes,
            bytes_max: self.bytes_max,
        };
        let taken = match &mut decoder.machine {
            _ if bytes.is_empty() => Ok(()),
            Machine::Inflate(inflate) => inflate.take(bytes, &mut sink),
            Machine::Brotli(brotli) => brotli.take(bytes, &mut sink),
            Machine::Zstd(zstd) => zstd.take(bytes, &mut sink),
            Machine::Other { is_empty } => {
                *is_empty = false;
                Err(WireError::BodyDecode)
            }
        };
        decoder.bytes = sink.bytes;
        taken
    }

    fn make(&mut self, coding: Coding) -> Option<Decoder> {
        let window_bytes = window_bytes_max(coding);
        if self.window_bytes + window_bytes > WINDOW_BYTES_MAX {
            return None;
        }
        let machine = match coding {
            Coding::Gzip | Coding::Deflate => Machine::Inflate(Box::new(Inflate::new())),
            Coding::Brotli => Machine::Brotli(Box::new(Brotli::new())),
            Coding::Zstd => Machine::Zstd(Box::new(Zstd::new()?)),
            Coding::Plain | Coding::Other => Machine::Other { is_empty: true },
        };
        self.window_bytes += window_bytes;
        Some(Decoder { machine, bytes: 0 })
    }
}

impl Decoder {
    /// What the body came to, if it may end here.
    pub(crate) fn end(&self) -> Result<u64, WireError> {
        let may_end = match &self.machine {
            Machine::Inflate(inflate) => inflate.may_end(),
            Machine::Brotli(brotli) => brotli.may_end(),
            Machine::Zstd(zstd) => zstd.may_end(),
            Machine::Other { is_empty } => *is_empty,
        };
        if may_end {
            Ok(self.bytes)
        } else {
            Err(WireError::BodyDecode)
        }
    }

    fn start(&mut self, coding: Coding) {
        self.bytes = 0;
        match &mut self.machine {
            Machine::Inflate(inflate) => inflate.start(coding),
            Machine::Brotli(brotli) => brotli.start(),
            Machine::Zstd(zstd) => zstd.start(),
            Machine::Other { is_empty } => *is_empty = true,
        }
    }

    fn kind(&self) -> usize {
        kind(match self.machine {
            Machine::Inflate(_) => Coding::Gzip,
            Machine::Brotli(_) => Coding::Brotli,
            Machine::Zstd(_) => Coding::Zstd,
            Machine::Other { .. } => Coding::Other,
        })
    }
}

/// Which kind of decoder undoes a coding.
fn kind(coding: Coding) -> usize {
    match coding {
        Coding::Gzip | Coding::Deflate => 0,
        Coding::Brotli => 1,
        Coding::Zstd => 2,
        Coding::Plain | Coding::Other => 3,
    }
}

fn window_bytes_max(coding: Coding) -> u64 {
    match coding {
        Coding::Gzip | Coding::Deflate => 32 << 10,
        Coding::Brotli => 16 << 20,
        Coding::Zstd => 8 << 20,
        Coding::Plain | Coding::Other => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoders_are_as_many_as_their_windows_allow_and_used_again() {
        let mut decoders = Decoders::new(Decode::Inflate, 100);
        let mut open: Vec<_> = (0..256)
            .map(|_| decoders.open(Coding::Brotli, None).expect("room"))
            .collect();
        assert!(decoders.open(Coding::Brotli, None).is_none());
        assert!(decoders.open(Coding::Gzip, None).is_none());
        let one = open.pop().expect("one of many");
        decoders.close(one);
        let again = decoders.open(Coding::Brotli, None).expect("the one closed");
        assert!(decoders.open(Coding::Brotli, None).is_none());
        assert!(decoders.open(Coding::Brotli, Some(again)).is_some());
    }
}
