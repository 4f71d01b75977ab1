//! The fields that frame an answer: `Content-Length`, `Transfer-Encoding` and `Connection`.
//! Each is gathered over all its lines, in order, as one list (RFC 9110, 5.3).

use crate::WireError;
use crate::list::{elements, is};

/// How the body ends (RFC 9112, 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// After this many bytes; 0 where there is no body.
    Length(u64),
    Chunked,
    /// With the connection.
    ToClose,
}

impl Default for Framing {
    fn default() -> Framing {
        Framing::Length(0)
    }
}

/// All lengths given (RFC 9110, 8.6). They must agree.
#[derive(Debug, Default)]
pub(super) struct Lengths {
    agreed: Option<u64>,
    count: u32,
    bad: bool,
}

impl Lengths {
    pub(super) fn add(&mut self, value: &[u8]) {
        for element in elements(value) {
            match decimal(element) {
                Some(length) if self.agreed.is_none_or(|known| known == length) => {
                    self.agreed = Some(length);
                }
                _ => self.bad = true,
            }
            self.count = self.count.saturating_add(1);
        }
    }

    pub(super) fn agreed(&self) -> Result<Option<u64>, WireError> {
        if self.bad {
            return Err(WireError::H1Length);
        }
        Ok(self.agreed)
    }

    pub(super) fn repeated(&self) -> bool {
        self.count > 1
    }
}

/// The transfer codings, in the order of their application (RFC 9112, 6.1 and 7).
#[derive(Debug, Default)]
pub(super) struct TransferCoding {
    present: bool,
    count: u32,
    chunked: u32,
    chunked_last: bool,
    bad: bool,
}

impl TransferCoding {
    pub(super) fn add(&mut self, value: &[u8]) {
        self.present = true;
        for element in elements(value).filter(|element| !element.is_empty()) {
            self.chunked_last = is(element, "chunked");
            self.chunked += u32::from(self.chunked_last);
            self.bad |= !self.chunked_last && !COMPRESSIONS.iter().any(|name| is(element, name));
            self.count += 1;
        }
    }

    /// How the body ends by its coding; nothing where none was given.
    pub(super) fn framing(&self) -> Result<Option<Framing>, WireError> {
        if !self.present {
            return Ok(None);
        }
        if self.bad || self.count == 0 || self.chunked > 1 {
            return Err(WireError::H1Framing);
        }
        Ok(Some(if self.chunked_last {
            Framing::Chunked
        } else {
            Framing::ToClose
        }))
    }
}

/// The registered codings beside `chunked`.
const COMPRESSIONS: [&str; 5] = ["gzip", "deflate", "compress", "x-gzip", "x-compress"];

/// The connection options that matter to a client (RFC 9112, 9.3).
#[derive(Debug, Default)]
pub(super) struct Connection {
    pub(super) close: bool,
    pub(super) keep_alive: bool,
}

impl Connection {
    pub(super) fn add(&mut self, value: &[u8]) {
        for option in elements(value) {
            self.close |= is(option, "close");
            self.keep_alive |= is(option, "keep-alive");
        }
    }
}

/// `1*DIGIT` that fits 64 bits; no sign, no space.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |sum, &digit| {
        let value = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(value)
    })
}
