//! Files of `/proc` and `/sys` that are opened once and read again and again.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use wallfinder_sys::process::yield_adaptive;

/// Files are not read beyond this; a `/proc/stat` of a machine with 1,000 cores and 10,000
/// interrupts fits.
const FILE_BYTES_MAX: usize = 4 << 20;

/// A buffer that grows to the largest file it met and stays.
#[derive(Debug)]
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    pub(crate) fn new() -> Buffer {
        Buffer(vec![0; 16 << 10])
    }

    /// The whole file from its beginning, in one read where it fits: the kernel then takes one
    /// consistent look.
    pub(crate) fn read(&mut self, file: &File) -> io::Result<&[u8]> {
        // Perhaps a worker's processor: no turn of this thread is longer than one file's.
        yield_adaptive();
        loop {
            let length = file.read_at(&mut self.0, 0)?;
            if length < self.0.len() || self.0.len() >= FILE_BYTES_MAX {
                return Ok(&self.0[..length]);
            }
            self.0.resize(self.0.len() * 2, 0);
        }
    }

    /// The whole of a file whose rows the kernel hands out a page at a time.
    pub(crate) fn read_rows(&mut self, file: &File) -> io::Result<&[u8]> {
        let mut filled = 0;
        loop {
            if filled == self.0.len() {
                if filled >= FILE_BYTES_MAX {
                    return Ok(&self.0);
                }
                self.0.resize(filled * 2, 0);
            }
            match file.read_at(&mut self.0[filled..], filled as u64)? {
                0 => return Ok(&self.0[..filled]),
                length => filled += length,
            }
        }
    }
}

/// A file's whole contents, bounded.
pub(crate) fn contents(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = File::open(path)?;
    file.take(64 << 20).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A one-line file's text without blanks around it; `None` when unreadable or empty.
pub(crate) fn line(path: impl AsRef<Path>) -> Option<String> {
    let bytes = contents(path).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Whether a read failed because the process or thread has ended.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    const ENOENT: i32 = 2;
    const ESRCH: i32 = 3;
    matches!(error.raw_os_error(), Some(ENOENT | ESRCH))
}
