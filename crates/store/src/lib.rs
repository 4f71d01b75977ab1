//! A run's record on disk: journalled while it is measured, sealed when it ends, read back.
//!
//! ```text
//!  RunFolder::create ─► begin ─► Journal ── step_begins, interval, samples, step_ends ──┐
//!                                  │ journal.wfj: {length, crc32, kind, JSON}           │
//!                                  ▼                                                    ▼
//!                     killed: open() recovers the valid prefix           seal: record.json,
//!                     and says what is missing                           series.parquet
//! ```
//!
//! It is not a database, and knows nothing of what the numbers mean: it measures nothing
//! and judges nothing. It prints nothing either: whatever is in doubt stands in the
//! record's caveats.
//!
//! Invariants:
//!
//! - A folder that exists is never written into by a new run.
//! - What belongs to a record is reached through an open [`Folder`], and no link is followed there.
//! - Measuring never waits for the disk: intervals go through a bounded queue, and what
//!   finds it full is counted.
//! - A failed write or sync stays failed: no later call reports success.
//! - `record.json` appears whole or not at all; as long as it is missing, the journal is there.
//! - Whatever the files hold, reading them ends in a record or an error.

#![forbid(unsafe_code)]

mod cache;
mod error;
mod folder;
mod groups;
mod journal;
mod open;
mod packed;
mod record_1;
mod run_folder;
mod samples;
mod series;
mod utc;

pub use cache::Cache;
pub use error::StoreError;
pub use folder::{Folder, read_file};
pub use journal::Journal;
pub use open::{open, open_with_folder};
pub use run_folder::RunFolder;
pub use samples::{ClassName, Clock, Places, SampleFile, SampleRow, SampleWriter, Times};
pub use utc::{utc_compact, utc_rfc3339};
