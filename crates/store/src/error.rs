//! What can go wrong with a run's folder, and who is at fault.

use std::io;
use std::path::{Path, PathBuf};

/// An error of the store. The message names the path and, where there is one, the way out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The run's folder is there already.
    #[error("{} exists already; a run never writes into another one's folder", path.display())]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// What another user could change is no place for a record.
    #[error("{} {why}; what is written there would not be safe from others", path.display())]
    UnsafePlace {
        /// The folder.
        path: PathBuf,
        /// What it is, as the rest of a sentence.
        why: String,
    },
    /// The operating system refused.
    #[error("could not {doing} {}: {why}{}", path.display(), way_out(*kind))]
    Io {
        /// What was being done, such as `write to`.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// Class of the failure.
        kind: io::ErrorKind,
        /// In the system's words.
        why: String,
    },
    /// The disk did not take the journal in time.
    #[error("the disk under {} took nothing for {waited_s} s", path.display())]
    DiskTooSlow {
        /// The journal.
        path: PathBuf,
        /// How long was waited.
        waited_s: u64,
    },
    /// The path holds no run.
    #[error("{} is not a run: {why}", path.display())]
    NotARun {
        /// The path.
        path: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// What should be a file is none that is read.
    #[error("{} {why}", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is, as the rest of a sentence.
        why: &'static str,
    },
    /// Nothing could be recovered: the journal is damaged before its first entry ends.
    #[error(
        "{} is damaged at byte {offset_bytes} ({why}), before anything that could be recovered",
        path.display()
    )]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Where the damage begins.
        offset_bytes: u64,
        /// What is wrong there.
        why: String,
    },
    /// The record was written by a newer version.
    #[error(
        "{} has the schema `{found}`, newer than `{}` that this version reads; use a newer wallfinder",
        path.display(),
        wallfinder_model::record::SCHEMA
    )]
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The schema it names.
        found: String,
    },
    /// The file is not a record.
    #[error("{} is not a record: {why}", path.display())]
    BadRecord {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        why: String,
    },
    /// A file or entry is larger than is taken.
    #[error(
        "{} holds {bytes} bytes in one piece; at most {bytes_max} are taken",
        path.display()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The most that is taken.
        bytes_max: u64,
    },
}

impl StoreError {
    pub(crate) fn io(doing: &'static str, path: &Path, error: &io::Error) -> StoreError {
        StoreError::Io {
            doing,
            path: path.to_owned(),
            kind: error.kind(),
            why: error.to_string(),
        }
    }

    pub(crate) fn unsafe_place(path: &Path, why: String) -> StoreError {
        StoreError::UnsafePlace {
            path: path.to_owned(),
            why,
        }
    }
}

fn way_out(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; what was written before is kept"
        }
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "; choose a folder that can be written to"
        }
        _ => "",
    }
}
