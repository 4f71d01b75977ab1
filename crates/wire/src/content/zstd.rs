//! zstd (RFC 8878): frames and skippable frames, end to end.
//!
//! A window above 8 MB is refused, as RFC 9659 says for content codings. Checksums of
//! frames are verified where there are any. The decoder is the reference one, which keeps its
//! buffers from body to body.

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::Sink;
use crate::WireError;

/// RFC 9659, 3.
const WINDOW_LOG_MAX: u32 = 23;

/// The decoder of one body after another.
pub(super) struct Zstd {
    stream: DCtx<'static>,
    /// No frame has begun that has not ended.
    is_between: bool,
}

impl Zstd {
    /// A decoder, if there is memory for it.
    pub(super) fn new() -> Option<Zstd> {
        let mut stream = DCtx::try_create()?;
        let limited = stream.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX));
        limited.expect("the limit is one that the format has");
        Some(Zstd {
            stream,
            is_between: true,
        })
    }

    /// Makes ready for the next body.
    pub(super) fn start(&mut self) {
        let reset = self.stream.reset(ResetDirective::SessionOnly);
        reset.expect("a session can be reset at any time");
        self.is_between = true;
    }

    /// Decodes the next bytes of the body.
    pub(super) fn take(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), WireError> {
        let mut taken = 0;
        loop {
            // A frame that is whole in one piece may be decoded at once, and then its window
            // is not looked at: the first byte alone makes every frame one that is in pieces.
            let to = match self.is_between {
                true => bytes.len().min(taken + 1),
                false => bytes.len(),
            };
            let mut input = InBuffer::around(&bytes[taken..to]);
            let mut output = OutBuffer::around(&mut *sink.room);
            let wanted = self
                .stream
                .decompress_stream(&mut output, &mut input)
                .map_err(|_| WireError::BodyDecode)?;
            let (read, written) = (input.pos(), output.pos());
            taken += read;
            sink.count(written)?;
            self.is_between = wanted == 0;
            let is_flushed = self.is_between || written < sink.room.len();
            if taken == bytes.len() && is_flushed {
                return Ok(());
            }
            if read == 0 && written == 0 {
                return Err(WireError::BodyDecode);
            }
        }
    }

    /// Whether the body may end here.
    pub(super) fn may_end(&self) -> bool {
        self.is_between
    }
}

impl std::fmt::Debug for Zstd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Zstd")
            .field("is_between", &self.is_between)
            .finish_non_exhaustive()
    }
}
