//! gzip (RFC 1952) and deflate (RFC 1950), by one decoder.
//!
//! ```text
//!   gzip      ┌► header ─► deflate data ─► checksum, length ─┐      members, end to end
//!             └──────────────────────────────────────────────┘
//!   deflate      zlib stream, or raw deflate data as some servers send it
//! ```

use flate2::{Crc, Decompress, FlushDecompress, Status};

use super::Sink;
use super::coding::Coding;
use crate::WireError;

/// The decoder of one body after another.
#[derive(Debug)]
pub(super) struct Inflate {
    at: At,
    stream: Decompress,
    /// Of the header's bytes, then of the member's output.
    checksum: Crc,
    /// Bytes of a field read so far, and its first ones.
    field: [u8; 10],
    field_len: usize,
    flags: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Where a gzip member starts, or no content has come.
    Start,
    FixedHeader,
    ExtraLength,
    Extra {
        left: u16,
    },
    Name,
    Comment,
    HeaderChecksum,
    GzipData,
    Trailer,
    /// The two bytes that tell zlib from raw deflate.
    ZlibStart,
    DeflateData,
    DeflateEnd,
}

const FLAG_CHECKSUM: u8 = 2;
const FLAG_EXTRA: u8 = 4;
const FLAG_NAME: u8 = 8;
const FLAG_COMMENT: u8 = 16;
const FLAGS_RESERVED: u8 = 0xe0;

impl Inflate {
    /// A decoder with all its state reserved.
    pub(super) fn new() -> Inflate {
        Inflate {
            at: At::Start,
            stream: Decompress::new(false),
            checksum: Crc::new(),
            field: [0; 10],
            field_len: 0,
            flags: 0,
        }
    }

    /// Makes ready for the next body.
    pub(super) fn start(&mut self, coding: Coding) {
        self.field_len = 0;
        self.at = if coding == Coding::Deflate {
            At::ZlibStart
        } else {
            At::Start
        };
    }

    /// Decodes the next bytes of the body.
    pub(super) fn take(&mut self, mut bytes: &[u8], sink: &mut Sink<'_>) -> Result<(), WireError> {
        while let Some(&byte) = bytes.first() {
            match self.at {
                At::GzipData | At::DeflateData => {
                    let taken = self.inflate(bytes, sink)?;
                    bytes = &bytes[taken..];
                }
                _ => {
                    let next = self.after(byte, sink)?;
                    if next != self.at {
                        self.field_len = 0;
                        self.at = next;
                    }
                    bytes = &bytes[1..];
                }
            }
        }
        Ok(())
    }

    /// Whether the body may end here.
    pub(super) fn may_end(&self) -> bool {
        let nothing_yet = self.at == At::ZlibStart && self.field_len == 0;
        matches!(self.at, At::Start | At::DeflateEnd) || nothing_yet
    }

    /// The place after a byte outside of compressed data.
    fn after(&mut self, byte: u8, sink: &mut Sink<'_>) -> Result<At, WireError> {
        let in_header = !matches!(self.at, At::Trailer | At::ZlibStart | At::HeaderChecksum);
        if self.at == At::Start {
            self.checksum.reset();
        }
        if in_header {
            self.checksum.update(&[byte]);
        }
        match self.at {
            At::Start | At::FixedHeader => {
                self.at = At::FixedHeader;
                self.gather(byte, 10).map_or(Ok(self.at), |f| match f {
                    [0x1f, 0x8b, 8, flags, ..] if flags & FLAGS_RESERVED == 0 => {
                        self.flags = flags;
                        Ok(self.header_part_after(At::FixedHeader))
                    }
                    _ => Err(WireError::BodyDecode),
                })
            }
            At::ExtraLength => Ok(match self.gather(byte, 2) {
                None => self.at,
                Some([0, 0, ..]) => self.header_part_after(At::Extra { left: 0 }),
                Some([low, high, ..]) => At::Extra {
                    left: u16::from_le_bytes([low, high]),
                },
            }),
            At::Extra { left: 1 } => Ok(self.header_part_after(self.at)),
            At::Extra { left } => Ok(At::Extra { left: left - 1 }),
            At::Name | At::Comment if byte == 0 => Ok(self.header_part_after(self.at)),
            At::Name | At::Comment => Ok(self.at),
            At::HeaderChecksum => match self.gather(byte, 2) {
                None => Ok(self.at),
                Some([low, high, ..])
                    if u16::from_le_bytes([low, high]) == self.checksum.sum() as u16 =>
                {
                    Ok(self.header_part_after(self.at))
                }
                Some(_) => Err(WireError::BodyDecode),
            },
            At::Trailer => match self.gather(byte, 8) {
                None => Ok(self.at),
                Some(f)
                    if f[..4] == self.checksum.sum().to_le_bytes()
                        && f[4..8] == self.checksum.amount().to_le_bytes() =>
                {
                    Ok(At::Start)
                }
                Some(_) => Err(WireError::BodyDecode),
            },
            At::ZlibStart => match self.gather(byte, 2) {
                None => Ok(self.at),
                Some([first, second, ..]) => {
                    let check = u16::from_be_bytes([first, second]);
                    let is_zlib = first & 0x0f == 8 && first >> 4 <= 7 && check % 31 == 0;
                    self.stream.reset(is_zlib);
                    self.at = At::DeflateData;
                    self.replay([first, second], sink)?;
                    Ok(self.at)
                }
            },
            At::GzipData | At::DeflateData | At::DeflateEnd => Err(WireError::BodyDecode),
        }
    }

    /// Decodes the two bytes that were held back.
    fn replay(&mut self, held: [u8; 2], sink: &mut Sink<'_>) -> Result<(), WireError> {
        let taken = self.inflate(&held, sink)?;
        if taken < held.len() {
            return Err(WireError::BodyDecode);
        }
        Ok(())
    }

    /// The field's bytes, once `len` of them have come.
    fn gather(&mut self, byte: u8, len: usize) -> Option<[u8; 10]> {
        self.field[self.field_len] = byte;
        self.field_len += 1;
        (self.field_len == len).then_some(self.field)
    }

    /// The next part of a gzip header that its flags announce, or the data.
    fn header_part_after(&mut self, part: At) -> At {
        let has = |flag| self.flags & flag != 0;
        match part {
            At::FixedHeader if has(FLAG_EXTRA) => At::ExtraLength,
            At::FixedHeader | At::Extra { .. } if has(FLAG_NAME) => At::Name,
            At::FixedHeader | At::Extra { .. } | At::Name if has(FLAG_COMMENT) => At::Comment,
            At::FixedHeader | At::Extra { .. } | At::Name | At::Comment if has(FLAG_CHECKSUM) => {
                At::HeaderChecksum
            }
            _ => {
                self.stream.reset(false);
                self.checksum.reset();
                At::GzipData
            }
        }
    }

    /// Decodes compressed data, to its end or to the end of `bytes`.
    fn inflate(&mut self, bytes: &[u8], sink: &mut Sink<'_>) -> Result<usize, WireError> {
        let mut taken = 0;
        loop {
            let (read, written) = (self.stream.total_in(), self.stream.total_out());
            let status = self
                .stream
                .decompress(&bytes[taken..], sink.room, FlushDecompress::None)
                .map_err(|_| WireError::BodyDecode)?;
            let read = (self.stream.total_in() - read) as usize;
            let written = (self.stream.total_out() - written) as usize;
            taken += read;
            sink.count(written)?;
            self.checksum.update(&sink.room[..written]);
            if status == Status::StreamEnd {
                self.at = match self.at {
                    At::GzipData => At::Trailer,
                    _ => At::DeflateEnd,
                };
                self.field_len = 0;
                return Ok(taken);
            }
            if read == 0 && written == 0 && taken < bytes.len() {
                return Err(WireError::BodyDecode);
            }
            if taken == bytes.len() && written < sink.room.len() {
                return Ok(taken);
            }
        }
    }
}
