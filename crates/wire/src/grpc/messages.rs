//! Finds the ends of messages in the DATA of one stream.
//!
//! ```text
//!   │ flag │ length (u32, big-endian) │ message ……… │ flag │ length │ …
//! ```

/// The flag and the length, in bytes.
pub(super) const PREFIX_BYTES: usize = 5;

const TOO_LONG: &str = "a message above the limit";
const CODED: &str = "a compression flag, and no coding was offered";

/// How far the messages of a stream have come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Messages {
    /// The beginning of a prefix whose end has not come.
    held: [u8; PREFIX_BYTES],
    held_len: u8,
    /// Bytes of a message that are still to come.
    left: u32,
    /// Whole messages, up to the most that fit: a load's deadline comes before.
    count: u32,
}

impl Messages {
    /// Whole messages so far.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Whether one has begun and not ended.
    #[inline]
    pub(crate) fn is_inside(&self) -> bool {
        self.held_len > 0 || self.left > 0
    }

    /// Bytes of the prefixes of whole messages.
    #[inline]
    pub(crate) fn prefix_bytes(&self) -> u64 {
        u64::from(self.count) * PREFIX_BYTES as u64
    }

    /// Takes bytes of the body; an error is the rule that they break.
    #[inline]
    pub(super) fn take(&mut self, mut bytes: &[u8], bytes_max: u32) -> Result<(), &'static str> {
        while !bytes.is_empty() {
            if self.left > 0 {
                let count = (self.left as usize).min(bytes.len());
                self.left -= count as u32;
                self.count = self.count.saturating_add(u32::from(self.left == 0));
                bytes = &bytes[count..];
                continue;
            }
            let prefix = match bytes.split_first_chunk() {
                // Nearly always a prefix is in one piece.
                Some((prefix, rest)) if self.held_len == 0 => {
                    bytes = rest;
                    *prefix
                }
                _ => {
                    let held = usize::from(self.held_len);
                    let count = bytes.len().min(PREFIX_BYTES - held);
                    self.held[held..held + count].copy_from_slice(&bytes[..count]);
                    self.held_len += count as u8;
                    bytes = &bytes[count..];
                    if usize::from(self.held_len) < PREFIX_BYTES {
                        return if self.held[0] == 0 {
                            Ok(())
                        } else {
                            Err(CODED)
                        };
                    }
                    self.held_len = 0;
                    self.held
                }
            };
            let [flag, length @ ..] = prefix;
            if flag != 0 {
                return Err(CODED);
            }
            let length = u32::from_be_bytes(length);
            if length > bytes_max {
                return Err(TOO_LONG);
            }
            self.left = length;
            self.count = self.count.saturating_add(u32::from(length == 0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u32 = 10;

    fn taken(bytes: &[u8], pieces: usize) -> Result<(u32, bool), &'static str> {
        let mut messages = Messages::default();
        for piece in bytes.chunks(pieces) {
            messages.take(piece, LIMIT)?;
        }
        Ok((messages.count(), messages.is_inside()))
    }

    #[test]
    fn messages_are_counted_whatever_the_pieces() {
        let bytes = b"\0\0\0\0\x03abc\0\0\0\0\0\0\0\0\0\x0a0123456789";
        for pieces in 1..=bytes.len() {
            assert_eq!(taken(bytes, pieces), Ok((3, false)), "{pieces}");
            for end in 0..bytes.len() {
                let (count, inside) = taken(&bytes[..end], pieces).unwrap();
                let whole = [8, 13].iter().filter(|at| **at <= end).count() as u32;
                assert_eq!(count, whole, "{end}");
                assert_eq!(inside, ![0, 8, 13].contains(&end), "{end}");
            }
        }
    }

    #[test]
    fn a_prefix_is_judged_whatever_the_pieces() {
        for (bytes, why) in [
            (&b"\x01\0\0\0\0"[..], CODED),
            (b"\x80", CODED),
            (b"\0\0\0\0\x0b", TOO_LONG),
            (b"\0\xff\xff\xff\xff", TOO_LONG),
            (b"\0\0\0\0\x01x\xff", CODED),
        ] {
            for pieces in 1..=bytes.len() {
                assert_eq!(taken(bytes, pieces), Err(why), "{bytes:?} by {pieces}");
            }
        }
    }
}
