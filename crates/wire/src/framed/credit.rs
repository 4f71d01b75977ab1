//! Credit that the peer grants: how much of what is unsent may be sent.
//!
//! What it is: the sending end of `docs/framed-credit.md`. A length costs nothing; each byte
//! of the message behind it takes one of credit. What it is not: a policy, which is the
//! receiver's.
//!
//! ```text
//!   │length│ message ………………│length│ message ………………│length│ …        what is unsent
//!    free   credit            free   credit           free
//!   ├──────────── may be sent ────────────────┤
//! ```

/// The most that may be granted and not be used yet.
pub(super) const BYTES_MAX: u64 = (1 << 31) - 1;

/// What one connection may send.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Credit {
    left: u64,
    /// Whether anything was granted, which may be nothing the first time.
    pub(super) has_begun: bool,
}

/// Frames as they stand in what is unsent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frames {
    /// Bytes of a length.
    pub(super) width: u64,
    /// Bytes of a frame; 0 where there is none.
    pub(super) len: u64,
    /// Bytes of the first that are sent already.
    pub(super) offset: u64,
}

impl Frames {
    /// Bytes of messages among the first `count` unsent ones.
    fn messages_in(self, count: u64) -> u64 {
        let message = self.len - self.width;
        let within =
            |count: u64| count / self.len * message + (count % self.len).saturating_sub(self.width);
        within(self.offset + count) - within(self.offset)
    }

    /// How many bytes may be sent until so many are of messages: all up to the first byte
    /// that would be one more.
    fn until(self, messages: u64) -> u64 {
        let message = self.len - self.width;
        let before = self.messages_before() + messages;
        before / message * self.len + self.width + before % message - self.offset
    }

    /// Bytes of the first message that are sent already.
    fn messages_before(self) -> u64 {
        self.offset.saturating_sub(self.width)
    }
}

impl Credit {
    /// Takes a grant; `false` if it is none that may be given.
    pub(super) fn grant(&mut self, bytes: u64) -> bool {
        let is_sound = (bytes > 0 || !self.has_begun) && bytes <= BYTES_MAX - self.left;
        if is_sound {
            self.has_begun = true;
            self.left += bytes;
        }
        is_sound
    }

    /// How many bytes of what is unsent may be sent.
    #[inline]
    pub(super) fn allows(&self, frames: Frames) -> u64 {
        match self.has_begun && frames.len > 0 {
            true => frames.until(self.left),
            false => 0,
        }
    }

    /// So many were sent.
    #[inline]
    pub(super) fn take(&mut self, frames: Frames, count: u64) {
        let taken = frames.messages_in(count);
        assert!(taken <= self.left, "sent without credit");
        self.left -= taken;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(len: u64, offset: u64) -> Frames {
        Frames {
            width: 4,
            len,
            offset,
        }
    }

    /// Byte for byte, from the rule.
    fn plainly(frames: Frames, credit: u64) -> u64 {
        let (mut left, mut sent) = (credit, 0);
        loop {
            let is_free = (frames.offset + sent) % frames.len < frames.width;
            if !is_free && left == 0 {
                return sent;
            }
            left -= u64::from(!is_free);
            sent += 1;
        }
    }

    #[test]
    fn lengths_are_free_and_messages_are_not() {
        for len in [5, 6, 11] {
            for offset in 0..len {
                for bytes in 0..40 {
                    let mut credit = Credit::default();
                    assert!(credit.grant(bytes));
                    let frames = frames(len, offset);
                    let allowed = credit.allows(frames);
                    assert_eq!(allowed, plainly(frames, bytes), "{len} {offset} {bytes}");
                    for count in 0..=allowed {
                        let mut taken = credit;
                        taken.take(frames, count);
                        let rest = Frames {
                            offset: (offset + count) % len,
                            ..frames
                        };
                        assert_eq!(taken.allows(rest), allowed - count);
                    }
                }
            }
        }
    }

    #[test]
    fn nothing_is_sent_before_the_first_grant_and_a_length_after_it() {
        let mut credit = Credit::default();
        assert_eq!(credit.allows(frames(100, 0)), 0);
        assert!(credit.grant(0));
        assert_eq!(credit.allows(frames(100, 0)), 4);
        assert_eq!(credit.allows(frames(0, 0)), 0);
    }

    #[test]
    fn grants_are_bounded_and_never_of_nothing_again() {
        let mut credit = Credit::default();
        assert!(credit.grant(5) && !credit.grant(0));
        assert!(credit.grant(BYTES_MAX - 5) && !credit.grant(1));
    }
}
