//! What may be lost: results that a later run can use again instead of measuring them anew.
//!
//! It stands in `$XDG_CACHE_HOME/wallfinder`, or `~/.cache/wallfinder`, in files that belong to the user alone. A cache that
//! cannot be read or written, or that somebody else could have written, is as good as none: nothing here is an error.

use std::io::Read;
use std::path::PathBuf;

use crate::Folder;

/// Longest file that is read.
const BYTES_MAX: u64 = 1 << 20;

/// The open folder.
#[derive(Debug, Clone)]
pub struct Cache(Folder);

impl Cache {
    /// The user's, made where it is missing. `None`: there is no home, or others may write there.
    pub fn of_user() -> Option<Cache> {
        let absolute = |name: &str| {
            let path = PathBuf::from(std::env::var_os(name)?);
            path.is_absolute().then_some(path)
        };
        let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        Cache::at(caches?.join("wallfinder"))
    }

    /// One in a folder of its own.
    pub fn at(path: PathBuf) -> Option<Cache> {
        let folder = Folder::of_runs(&path).ok()?;
        folder.must_be_ours().ok()?;
        Some(Cache(folder))
    }

    /// The text of a file; `None`: there is none that is sound.
    pub fn read(&self, name: &str) -> Option<String> {
        let file = self.0.read(name.as_ref(), BYTES_MAX).ok()?;
        let mut text = String::new();
        file.take(BYTES_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// Writes a file in the place of one of that name, if that can be done.
    pub fn write(&self, name: &str, text: &str) {
        let _ = self.0.write(name, text.as_bytes());
    }
}
