//! Flow control: how much may be sent, and how much the peer may send (RFC 9113, 5.2).

/// A window that nobody has changed, in bytes (RFC 9113, 6.9.2).
pub(super) const WINDOW_BYTES_DEFAULT: u32 = 65_535;

/// The largest window, in bytes (RFC 9113, 6.9.1).
pub(super) const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;

/// Bytes that may be sent. Below zero after the peer made its initial window smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SendWindow(i64);

/// A window above 2^31 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overflow;

impl SendWindow {
    pub(super) fn new(bytes: u32) -> SendWindow {
        SendWindow(i64::from(bytes))
    }

    /// Bytes that may be sent now.
    #[inline]
    pub(super) fn open(self) -> usize {
        self.0.max(0) as usize
    }

    /// Moves the window by a WINDOW_UPDATE, or by what the initial window changed.
    pub(super) fn shift(&mut self, bytes: i64) -> Result<(), Overflow> {
        let moved = self.0 + bytes;
        if moved > i64::from(WINDOW_BYTES_MAX) {
            return Err(Overflow);
        }
        self.0 = moved;
        Ok(())
    }

    #[inline]
    pub(super) fn take(&mut self, bytes: usize) {
        assert!(bytes <= self.open(), "sent beyond the window");
        self.0 -= bytes as i64;
    }
}

/// Bytes that the peer may send, and those whose credit it has not got back yet.
///
/// Bodies are dropped as they come, so credit could be returned at once; it is gathered
/// until half the window is used, so that an update is rare and the peer never stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ReceiveWindow {
    left: u32,
    size: u32,
}

impl ReceiveWindow {
    pub(super) fn new(bytes: u32) -> ReceiveWindow {
        ReceiveWindow {
            left: bytes,
            size: bytes,
        }
    }

    /// Takes a DATA frame's whole payload; `false` when it is more than was allowed.
    #[inline]
    pub(super) fn take(&mut self, bytes: u32) -> bool {
        match self.left.checked_sub(bytes) {
            None => false,
            Some(left) => {
                self.left = left;
                true
            }
        }
    }

    /// Whether credit is worth an update.
    #[inline]
    pub(super) fn is_due(self) -> bool {
        self.size - self.left >= self.size.div_ceil(2)
    }

    /// Opens the window again, by as many bytes as are given back.
    pub(super) fn refill(&mut self) -> u32 {
        let credit = self.size - self.left;
        self.left = self.size;
        credit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_window_may_fall_below_zero_and_not_above_its_limit() {
        let mut window = SendWindow::new(100);
        window.take(60);
        window.shift(-70).unwrap();
        assert_eq!(window.open(), 0);
        window.shift(31).unwrap();
        assert_eq!(window.open(), 1);
        let most = i64::from(WINDOW_BYTES_MAX);
        window.shift(most - 1).unwrap();
        assert_eq!(window.shift(1), Err(Overflow));
        assert_eq!(window.open(), WINDOW_BYTES_MAX as usize);
    }

    #[test]
    fn credit_is_due_at_half_and_given_back_whole() {
        let mut window = ReceiveWindow::new(101);
        assert!(window.take(50));
        assert!(!window.is_due());
        assert!(window.take(1));
        assert!(window.is_due());
        assert!(!window.take(51));
        assert!(window.take(50));
        assert_eq!(window.refill(), 101);
        assert!(window.take(101));
    }
}
