//! The last few distinct heads, and what they said.
//!
//! A server under load sends the same head again and again, until the second of its
//! `Date` turns. Parsing is a pure function of a head's bytes (and of the worker's one
//! request), so a head that is equal byte for byte, blank line included, needs no second
//! parse. That is exact: no length is assumed, no field skipped.

use super::head::Head;

/// Heads remembered at once: a `Date` turns under several lengths of answer.
const ENTRIES: usize = 4;

/// The longest head worth remembering, in bytes.
const HEAD_BYTES_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Memo {
    entries: [Entry; ENTRIES],
    /// The entry that matched last, tried first.
    last: usize,
}

#[derive(Debug)]
struct Entry {
    /// A whole head with its blank line, or nothing.
    bytes: Vec<u8>,
    head: Head,
}

impl Memo {
    /// An empty memo, with all it will need reserved.
    pub(super) fn new() -> Memo {
        let entry = || Entry {
            bytes: Vec::with_capacity(HEAD_BYTES_MAX),
            head: Head::default(),
        };
        Memo {
            entries: std::array::from_fn(|_| entry()),
            last: 0,
        }
    }

    /// The head that matched last, if `bytes` starts with it.
    #[inline]
    pub(super) fn recall_last(&self, bytes: &[u8]) -> Option<Head> {
        let entry = &self.entries[self.last];
        (bytes.starts_with(&entry.bytes) && !entry.bytes.is_empty()).then_some(entry.head)
    }

    /// What is known of exactly this head.
    pub(super) fn recall(&mut self, head: &[u8]) -> Option<Head> {
        let found = self.entries.iter().position(|entry| entry.bytes == head)?;
        self.last = found;
        Some(self.entries[found].head)
    }

    /// Keeps a head, in the place of the entry after the one that matched last.
    pub(super) fn remember(&mut self, bytes: &[u8], head: Head) {
        if bytes.len() > HEAD_BYTES_MAX {
            return;
        }
        self.last = (self.last + 1) % ENTRIES;
        let entry = &mut self.entries[self.last];
        entry.bytes.clear();
        entry.bytes.extend_from_slice(bytes);
        entry.head = head;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(len: u32) -> Head {
        Head {
            len,
            ..Head::default()
        }
    }

    #[test]
    fn nothing_is_recalled_from_an_empty_memo() {
        assert_eq!(Memo::new().recall_last(b"HTTP/1.1 200 OK\r\n\r\n"), None);
        assert_eq!(Memo::new().recall_last(b""), None);
    }

    #[test]
    fn only_equal_bytes_are_recalled() {
        let mut memo = Memo::new();
        memo.remember(b"A: 1\r\n\r\n", head(8));
        assert_eq!(memo.recall_last(b"A: 1\r\n\r\nbody"), Some(head(8)));
        assert_eq!(memo.recall_last(b"A: 2\r\n\r\nbody"), None);
        assert_eq!(memo.recall_last(b"A: 1\r\n"), None);
        assert_eq!(memo.recall(b"A: 1\r\n\r\nbody"), None);
    }

    #[test]
    fn the_entry_that_matched_last_survives_new_heads() {
        let mut memo = Memo::new();
        memo.remember(b"kept", head(4));
        for n in 0..10u32 {
            assert_eq!(memo.recall(b"kept"), Some(head(4)));
            memo.remember(&n.to_be_bytes(), head(n));
        }
    }

    #[test]
    fn a_long_head_is_not_remembered() {
        let mut memo = Memo::new();
        let long = vec![b'x'; HEAD_BYTES_MAX + 1];
        memo.remember(&long, head(1));
        assert_eq!(memo.recall(&long), None);
    }
}
