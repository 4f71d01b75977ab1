//! The chunked coding (RFC 9112, 7.1), one byte of framing at a time.
//!
//! ```text
//!   1a ;name=value CR LF │ 26 bytes │ CR LF │ … │ 0 CR LF │ Name: value CR LF │ CR LF
//!   size extension         data                  last       trailers
//! ```
//!
//! Data is skipped in one step for each piece, whatever its size. Line ends are CR LF
//! and nothing else: lenience here is how two readers come to disagree. Extensions and
//! trailers are checked, bounded and ignored.

use crate::WireError;
use crate::request::{is_control, is_token};

/// Where in a chunked body the next byte stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunked {
    at: At,
    /// Bytes left of the chunk, or its size so far while that is read.
    left: u64,
    digits: u8,
    extension_bytes_left: u32,
    trailer_bytes_left: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Size,
    /// White space after the size: an extension must follow.
    SizeSpace,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
}

/// What the first bytes of a piece are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// So many bytes of framing; nothing is known of what follows.
    Framing(usize),
    /// So many bytes of the body.
    Data(usize),
    /// So many bytes of framing, which end the body.
    End(usize),
}

impl Chunked {
    pub(super) fn new(extension_bytes_max: u32, trailer_bytes_max: u32) -> Chunked {
        Chunked {
            at: At::Size,
            left: 0,
            digits: 0,
            extension_bytes_left: extension_bytes_max,
            trailer_bytes_left: trailer_bytes_max,
        }
    }

    /// Takes the longest piece of one kind from the start of `bytes`, which are not empty.
    #[inline]
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Piece, WireError> {
        if self.at == At::Data {
            let count = self.left.min(bytes.len() as u64);
            self.left -= count;
            if self.left == 0 {
                self.at = At::DataCr;
            }
            return Ok(Piece::Data(count as usize));
        }
        for (at, &byte) in bytes.iter().enumerate() {
            let is_last = self.at == At::LastLf;
            self.at = self.after(byte).ok_or(WireError::H1Chunk)?;
            if is_last {
                return Ok(Piece::End(at + 1));
            }
            if self.at == At::Data {
                return Ok(Piece::Framing(at + 1));
            }
        }
        Ok(Piece::Framing(bytes.len()))
    }

    /// The place after a byte of framing; nothing if it may not stand here.
    fn after(&mut self, byte: u8) -> Option<At> {
        match (self.at, byte) {
            (At::Size, b'\r' | b' ' | b'\t' | b';') if self.digits == 0 => None,
            (At::Size | At::Extension, b'\r') => Some(At::SizeLf),
            (At::Size | At::SizeSpace, b';') => self.extension(At::Extension),
            (At::Size | At::SizeSpace, b' ' | b'\t') => self.extension(At::SizeSpace),
            (At::Size, _) => self.digit(byte),
            (At::Extension, _) if !is_control(byte) => self.extension(At::Extension),
            (At::SizeLf, b'\n') if self.left == 0 => Some(At::TrailerStart),
            (At::SizeLf, b'\n') => Some(At::Data),
            (At::DataCr, b'\r') => Some(At::DataLf),
            (At::DataLf, b'\n') => {
                self.digits = 0;
                Some(At::Size)
            }
            (At::TrailerStart, b'\r') => Some(At::LastLf),
            (At::TrailerStart | At::TrailerName, _) if is_token(byte) => {
                self.trailer(At::TrailerName)
            }
            (At::TrailerName, b':') => self.trailer(At::TrailerValue),
            (At::TrailerValue, b'\r') => self.trailer(At::TrailerLf),
            (At::TrailerValue, _) if !is_control(byte) => self.trailer(At::TrailerValue),
            (At::TrailerLf, b'\n') => self.trailer(At::TrailerStart),
            (At::LastLf, b'\n') => Some(At::LastLf),
            _ => None,
        }
    }

    fn digit(&mut self, byte: u8) -> Option<At> {
        const DIGITS_MAX: u8 = 16;
        let value = char::from(byte).to_digit(16)?;
        if self.digits == DIGITS_MAX {
            return None;
        }
        self.digits += 1;
        self.left = self.left << 4 | u64::from(value);
        Some(At::Size)
    }

    fn extension(&mut self, next: At) -> Option<At> {
        self.extension_bytes_left = self.extension_bytes_left.checked_sub(1)?;
        Some(next)
    }

    fn trailer(&mut self, next: At) -> Option<At> {
        self.trailer_bytes_left = self.trailer_bytes_left.checked_sub(1)?;
        Some(next)
    }
}
