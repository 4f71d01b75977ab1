//! Leave for one request.

/// Most times that a request is sent again.
pub(super) const RESENDS_MAX: u8 = 10;

/// A request that is not in flight and may be, now or later.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Grant {
    /// Its intended start.
    pub(super) intended_ns: u64,
    /// How often it was sent before.
    pub(super) tries: u8,
    /// Its kind, where it was sent before.
    pub(super) kind: u16,
    /// Which rows it is filled in with, there too.
    pub(super) draw: u32,
}

impl Grant {
    /// One that was never sent.
    #[inline]
    pub(super) fn new(intended_ns: u64) -> Grant {
        Grant {
            intended_ns,
            tries: 0,
            kind: 0,
            draw: 0,
        }
    }
}
