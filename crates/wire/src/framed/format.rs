//! The shape of a frame, as a user spells it.
//!
//! ```text
//!   u32be                       4 bytes of length, then that many bytes
//!   u16le,inclusive             the length counts its own 2 bytes
//!   u32be,id=u64be@0            the message begins with the request's id
//!   u32be,max=65536             no answer is longer
//!   u32be,credit                as much is sent as the peer grants (`credit.rs`)
//!
//!   │ length │ message ……………………………………… │
//!             ▲──offset──▲ id
//! ```

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Longest message that an answer may have unless the format says otherwise, in bytes.
pub const MESSAGE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Widest head (the length, and the message up to the end of its id), in bytes.
pub(super) const HEAD_BYTES_MAX: usize = 64;

/// An unsigned integer on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Integer {
    /// 1, 2, 4 or 8 bytes.
    pub width: usize,
    /// Whether the least significant byte comes first.
    pub little_endian: bool,
}

impl Integer {
    /// The largest value that it can have.
    pub(super) fn max(self) -> u64 {
        u64::MAX >> (64 - 8 * self.width)
    }

    #[inline]
    pub(super) fn read(self, bytes: &[u8]) -> u64 {
        let mut wide = [0; 8];
        if self.little_endian {
            wide[..self.width].copy_from_slice(&bytes[..self.width]);
            u64::from_le_bytes(wide)
        } else {
            wide[8 - self.width..].copy_from_slice(&bytes[..self.width]);
            u64::from_be_bytes(wide)
        }
    }

    #[inline]
    pub(super) fn write(self, value: u64, to: &mut [u8]) {
        if self.little_endian {
            to[..self.width].copy_from_slice(&value.to_le_bytes()[..self.width]);
        } else {
            to[..self.width].copy_from_slice(&value.to_be_bytes()[8 - self.width..]);
        }
    }
}

/// Where a message carries the id of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdField {
    /// The id itself.
    pub integer: Integer,
    /// Where it begins, in bytes from the end of the length.
    pub offset: usize,
}

/// Messages that each follow their length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Format {
    /// The length.
    pub length: Integer,
    /// Whether the length counts its own bytes.
    pub inclusive: bool,
    /// The id, where answers may come in another order than requests.
    pub id: Option<IdField>,
    /// Longest message of an answer, in bytes.
    pub message_bytes_max: u64,
    /// Whether a length with its highest bit set is none, but a grant of credit.
    pub credit: bool,
}

impl Format {
    /// Bytes that the length adds to its message's own.
    pub(super) fn counted(&self) -> u64 {
        if self.inclusive {
            self.length.width as u64
        } else {
            0
        }
    }

    /// Shortest message: one byte, or what holds the id.
    pub(super) fn message_bytes_min(&self) -> u64 {
        self.id
            .map_or(1, |id| (id.offset + id.integer.width) as u64)
    }

    /// Bytes up to the end of all that is read of a frame.
    pub(super) fn head_bytes(&self) -> usize {
        let id = self.id.map_or(0, |id| id.offset + id.integer.width);
        self.length.width + id
    }

    /// Longest message that the length can announce, in bytes.
    pub(super) fn announced_max(&self) -> u64 {
        (self.length.max() - self.counted()) >> u32::from(self.credit)
    }

    /// Longest message that an answer may have, in bytes.
    pub(super) fn longest(&self) -> u64 {
        self.announced_max().min(self.message_bytes_max)
    }
}

/// Why a format cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{part}` {reason}; a frame is spelt u32be, u16le,inclusive or u32be,id=u64be@0,max=65536")]
pub struct BadFormat {
    /// The part of it that is wrong.
    part: String,
    reason: &'static str,
}

impl BadFormat {
    fn new(part: &str, reason: &'static str) -> BadFormat {
        BadFormat {
            part: part.to_owned(),
            reason,
        }
    }
}

impl FromStr for Integer {
    type Err = BadFormat;

    fn from_str(text: &str) -> Result<Integer, BadFormat> {
        let (width, little_endian) = match text {
            "u8" => (1, false),
            "u16be" => (2, false),
            "u16le" => (2, true),
            "u32be" => (4, false),
            "u32le" => (4, true),
            "u64be" => (8, false),
            "u64le" => (8, true),
            _ => {
                let reason = "is no integer: u8, u16be, u16le, u32be, u32le, u64be or u64le";
                return Err(BadFormat::new(text, reason));
            }
        };
        Ok(Integer {
            width,
            little_endian,
        })
    }
}

impl FromStr for Format {
    type Err = BadFormat;

    fn from_str(text: &str) -> Result<Format, BadFormat> {
        let mut parts = text.split(',').map(str::trim);
        let length = parts.next().unwrap_or_default().parse()?;
        let mut format = Format {
            length,
            inclusive: false,
            id: None,
            message_bytes_max: MESSAGE_BYTES_MAX,
            credit: false,
        };
        for part in parts {
            if part == "inclusive" {
                format.inclusive = true;
            } else if part == "credit" {
                format.credit = true;
            } else if let Some(id) = part.strip_prefix("id=") {
                format.id = Some(id_field(part, id)?);
            } else if let Some(max) = part.strip_prefix("max=") {
                let bad = || BadFormat::new(part, "is no number of bytes");
                format.message_bytes_max = max.parse().map_err(|_| bad())?;
            } else {
                return Err(BadFormat::new(
                    part,
                    "is none of inclusive, id=…, max=… and credit",
                ));
            }
        }
        if format.head_bytes() > HEAD_BYTES_MAX {
            return Err(BadFormat::new(text, "has its id too far behind the length"));
        }
        let is_plain = format.length.to_string() == "u32be" && !format.inclusive;
        if format.credit && !(is_plain && format.id.is_none()) {
            return Err(BadFormat::new(
                text,
                "has credit, which goes with u32be alone",
            ));
        }
        if format.longest() < format.message_bytes_min() {
            return Err(BadFormat::new(text, "has no room for a message"));
        }
        Ok(format)
    }
}

fn id_field(part: &str, spelt: &str) -> Result<IdField, BadFormat> {
    let (integer, offset) = spelt.split_once('@').unwrap_or((spelt, "0"));
    let bad = || BadFormat::new(part, "has an offset that is no number of bytes");
    Ok(IdField {
        integer: integer.parse()?,
        offset: offset.parse().map_err(|_| bad())?,
    })
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match (self.width, self.little_endian) {
            (1, _) => "",
            (_, true) => "le",
            (_, false) => "be",
        };
        write!(f, "u{}{order}", 8 * self.width)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.length)?;
        if self.inclusive {
            write!(f, ",inclusive")?;
        }
        if let Some(id) = self.id {
            write!(f, ",id={}@{}", id.integer, id.offset)?;
        }
        if self.message_bytes_max != MESSAGE_BYTES_MAX {
            write!(f, ",max={}", self.message_bytes_max)?;
        }
        if self.credit {
            write!(f, ",credit")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_read_as_they_are_written() {
        for text in [
            "u8",
            "u32be",
            "u16le,inclusive",
            "u32be,id=u64be@0",
            "u64le,inclusive,id=u16le@7,max=65536",
            "u32be,max=65536,credit",
        ] {
            assert_eq!(text.parse::<Format>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_format_is_refused_by_its_part() {
        for (text, part) in [
            ("", "``"),
            ("u24be", "`u24be`"),
            ("u32be,exclusive", "`exclusive`"),
            ("u32be,id=u32be@x", "`id=u32be@x`"),
            ("u32be,id=u32", "`u32`"),
            ("u32be,max=-1", "`max=-1`"),
            ("u32be,id=u32be@60", "`u32be,id=u32be@60`"),
            ("u32be,max=0", "`u32be,max=0`"),
            ("u32be,id=u64be@0,max=7", "`u32be,id=u64be@0,max=7`"),
            ("u32le,credit", "`u32le,credit`"),
            ("u32be,credit,id=u32be@0", "`u32be,credit,id=u32be@0`"),
        ] {
            let error = text.parse::<Format>().unwrap_err().to_string();
            assert!(error.starts_with(part), "{text}: {error}");
        }
    }

    #[test]
    fn integers_survive_both_orders() {
        for text in ["u8", "u16be", "u16le", "u32be", "u32le", "u64be", "u64le"] {
            let integer: Integer = text.parse().unwrap();
            let value = 0x0102_0304_0506_0708 & integer.max();
            let mut bytes = [0xee; 8];
            integer.write(value, &mut bytes);
            assert_eq!(integer.read(&bytes), value, "{text}");
            assert!(bytes[integer.width..].iter().all(|byte| *byte == 0xee));
        }
    }
}
