//! The last few header blocks that changed no table, and what they said.
//!
//! What a block says is a function of its bytes and of the dynamic table. While the table
//! stays as it was, equal bytes say the same: no index is looked up twice, and no literal
//! that a server spells out each time is decoded twice. Every byte is compared.

use super::fields::Section;

/// Blocks remembered at once: a head and its trailers, or two kinds of answer.
const ENTRIES: usize = 2;

/// The longest block worth remembering, in bytes.
const BLOCK_BYTES_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Memo {
    entries: [Entry; ENTRIES],
    /// The entry that was used last, and is replaced last.
    last: usize,
}

#[derive(Debug)]
struct Entry {
    block: Vec<u8>,
    /// Of the table; no table has the last one.
    version: u64,
    section: Section,
}

impl Memo {
    /// An empty memo, with all it will need reserved.
    pub(super) fn new() -> Memo {
        let entry = || Entry {
            block: Vec::with_capacity(BLOCK_BYTES_MAX),
            version: u64::MAX,
            section: Section::default(),
        };
        Memo {
            entries: std::array::from_fn(|_| entry()),
            last: 0,
        }
    }

    /// Forgets everything: the table is another one.
    pub(super) fn reset(&mut self) {
        for entry in &mut self.entries {
            entry.version = u64::MAX;
        }
    }

    /// What this block said, when the table was what it is now.
    #[inline]
    pub(super) fn recall(&mut self, block: &[u8], version: u64) -> Option<Section> {
        let is_it = |entry: &Entry| entry.version == version && entry.block == block;
        if !is_it(&self.entries[self.last]) {
            self.last = self.entries.iter().position(is_it)?;
        }
        Some(self.entries[self.last].section)
    }

    /// Keeps what a block said that left the table at `version`, as it was.
    pub(super) fn remember(&mut self, block: &[u8], version: u64, section: Section) {
        if block.len() > BLOCK_BYTES_MAX {
            return;
        }
        self.last = (self.last + 1) % ENTRIES;
        let entry = &mut self.entries[self.last];
        entry.block.clear();
        entry.block.extend_from_slice(block);
        entry.version = version;
        entry.section = section;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(status: u16) -> Section {
        Section {
            status,
            ..Section::default()
        }
    }

    #[test]
    fn only_equal_bytes_under_an_equal_table_are_recalled() {
        let mut memo = Memo::new();
        assert_eq!(memo.recall(b"", 0), None);
        memo.remember(b"\x88", 3, section(200));
        memo.remember(b"\x89", 3, section(204));
        assert_eq!(memo.recall(b"\x88", 3), Some(section(200)));
        assert_eq!(memo.recall(b"\x89", 3), Some(section(204)));
        assert_eq!(memo.recall(b"\x88", 4), None);
        assert_eq!(memo.recall(b"\x88\x88", 3), None);
        memo.reset();
        assert_eq!(memo.recall(b"\x88", 3), None);
    }

    #[test]
    fn the_entry_that_matched_last_survives_a_new_one() {
        let mut memo = Memo::new();
        memo.remember(b"kept", 0, section(200));
        for n in 0..10_u8 {
            assert_eq!(memo.recall(b"kept", 0), Some(section(200)));
            memo.remember(&[n], 0, section(204));
        }
        let long = [0; BLOCK_BYTES_MAX + 1];
        memo.remember(&long, 0, section(500));
        assert_eq!(memo.recall(&long, 0), None);
    }
}
