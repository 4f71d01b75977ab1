//! What a journal is written on: a file, or in tests something that fails on demand.

use std::fs::File;
use std::io::{self, Write};

/// Bytes go in at the end; a sync makes them outlast a power cut.
pub(crate) trait Medium: Send + Sync {
    /// One attempt to append; how many bytes went in.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes all that was written durable.
    fn sync(&self) -> io::Result<()>;
}

impl Medium for File {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut &*self, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
