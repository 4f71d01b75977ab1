//! What can go wrong with a run's folder, and who is at fault.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// An error of the store. The message names the path and, where there is one, the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreError {
    /// The run's folder is there already.
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// What another user could change is no place for a record.
    UnsafePlace {
        /// The folder.
        path: PathBuf,
        /// What it is, as the rest of a sentence.
        why: String,
    },
    /// The operating system refused.
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
    DiskTooSlow {
        /// The journal.
        path: PathBuf,
        /// How long was waited.
        waited_s: u64,
    },
    /// The path holds no run.
    NotARun {
        /// The path.
        path: PathBuf,
        /// What was found instead.
        why: String,
    },
    /// What should be a file is none that is read.
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is, as the rest of a sentence.
        why: &'static str,
    },
    /// Nothing could be recovered: the journal is damaged before its first entry ends.
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Where the damage begins.
        offset_bytes: u64,
        /// What is wrong there.
        why: String,
    },
    /// The record was written by a newer version.
    NewerSchema {
        /// The file.
        path: PathBuf,
        /// The schema it names.
        found: String,
    },
    /// The file is not a record.
    BadRecord {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        why: String,
    },
    /// A file or entry is larger than is taken.
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

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::Exists { path } => write!(
                f,
                "{} exists already; a run never writes into another one's folder",
                path.display()
            ),
            StoreError::UnsafePlace { path, why } => write!(
                f,
                "{} {why}; what is written there would not be safe from others",
                path.display()
            ),
            StoreError::Io {
                doing,
                path,
                kind,
                why,
            } => {
                write!(f, "could not {doing} {}: {why}", path.display())?;
                match kind {
                    io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                        f.write_str("; what was written before is kept")
                    }
                    io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
                        f.write_str("; choose a folder that can be written to")
                    }
                    _ => Ok(()),
                }
            }
            StoreError::DiskTooSlow { path, waited_s } => write!(
                f,
                "the disk under {} took nothing for {waited_s} s",
                path.display()
            ),
            StoreError::NotARun { path, why } => {
                write!(f, "{} is not a run: {why}", path.display())
            }
            StoreError::NotAFile { path, why } => write!(f, "{} {why}", path.display()),
            StoreError::Damaged {
                path,
                offset_bytes,
                why,
            } => write!(
                f,
                "{} is damaged at byte {offset_bytes} ({why}), before anything that could be recovered",
                path.display()
            ),
            StoreError::NewerSchema { path, found } => write!(
                f,
                "{} has the schema `{found}`, newer than `{}` that this version reads; use a newer wallfinder",
                path.display(),
                wallfinder_model::record::SCHEMA
            ),
            StoreError::BadRecord { path, why } => {
                write!(f, "{} is not a record: {why}", path.display())
            }
            StoreError::TooLarge {
                path,
                bytes,
                bytes_max,
            } => write!(
                f,
                "{} holds {bytes} bytes in one piece; at most {bytes_max} are taken",
                path.display()
            ),
        }
    }
}

impl std::error::Error for StoreError {}
