//! A run's folder: made before any load, sealed after it.
//!
//! ```text
//!  runs/latest -> 20261120T140211Z-find-read
//!  runs/20261120T140211Z-find-read/
//!      plan.json        written first
//!      journal.wfj      while it runs, and afterwards if it was killed
//!      record.json      sealed: temporary file, fsync, rename, fsync of the folder
//!      series.parquet   telemetry rows of all steps
//! ```

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use wallfinder_model::json::indented;
use wallfinder_model::{Json, Plan, Record};

use crate::folder::Folder;
use crate::journal::Journal;
use crate::{StoreError, series, utc_compact};

/// The sealed record.
pub(crate) const RECORD: &str = "record.json";
/// Telemetry rows.
pub(crate) const SERIES: &str = "series.parquet";
/// Entries while the run lasts.
pub(crate) const JOURNAL: &str = "journal.wfj";
const PLAN: &str = "plan.json";
/// Characters of a run's name that reach its folder's name.
const NAME_CHARS_MAX: usize = 80;

/// The folder of one run.
#[derive(Debug)]
pub struct RunFolder {
    folder: Folder,
    id: String,
}

impl RunFolder {
    /// Makes `<runs>/<utc>-<name>` and proves that it can be written to. `runs` is made
    /// where it is missing, and refused where others could change what is in it. A folder,
    /// file or link of that name is refused.
    pub fn create(runs: &Path, name: &str, now: SystemTime) -> Result<RunFolder, StoreError> {
        let runs = Folder::of_runs(runs)?;
        let id = format!("{}-{}", utc_compact(now), file_name_of(name));
        let folder = runs.make(&id)?;
        runs.sync()?;
        runs.point_latest_to(&id);
        Ok(RunFolder { folder, id })
    }

    /// Where it was made.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folder itself, for what is kept beside the record.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The folder's name, which is the record's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Writes `plan.json` and opens the journal with the record as it is before the first
    /// step. Both are on the disk when this returns: a full or read-only disk stops the run
    /// before any load.
    pub fn begin(&self, record: &Record) -> Result<Journal, StoreError> {
        self.write_plan(&record.plan)?;
        let file = self.folder.create(JOURNAL)?;
        let journal = Journal::start(self.path().join(JOURNAL), Box::new(file), record)?;
        self.folder.sync()?;
        Ok(journal)
    }

    /// Ends the journal, writes the record and its telemetry, and removes the journal.
    /// Returns the path of `record.json`. After a failure the journal stays; if it was the
    /// journal that failed, the record is written all the same, and the failure returned.
    pub fn seal(&self, journal: &Journal, record: &Record) -> Result<PathBuf, StoreError> {
        let journalled = journal.end(record);
        self.write_series(record)?;
        self.write_record(record)?;
        self.folder.remove(JOURNAL)?;
        self.folder.sync()?;
        journalled.map(|()| self.path().join(RECORD))
    }

    fn write_plan(&self, plan: &Plan) -> Result<(), StoreError> {
        self.folder.write_through(PLAN, |file| {
            file.write_all(&indented(&plan.to_json()?))?;
            file.write_all(b"\n")
        })
    }

    fn write_series(&self, record: &Record) -> Result<(), StoreError> {
        if record.steps.iter().all(|step| step.series.is_empty()) {
            return Ok(());
        }
        self.folder.write_through(SERIES, |file| {
            series::write(file, &record.steps).map_err(io::Error::other)
        })
    }

    fn write_record(&self, record: &Record) -> Result<(), StoreError> {
        let bad = |e: serde_json::Error| StoreError::BadRecord {
            path: self.path().join(RECORD),
            why: e.to_string(),
        };
        let bytes = record.to_json().map_err(bad)?;
        // A number that is not finite turns into null, and would not read back.
        Record::from_json(&bytes).map_err(bad)?;
        self.folder
            .write_through(RECORD, |file| file.write_all(&indented(&bytes)))
    }
}

/// A name as part of a file's: letters, digits, `.`, `_`, `-`; anything else becomes one `-`.
fn file_name_of(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars().take(NAME_CHARS_MAX) {
        if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') {
            out.push(c);
        } else if !out.ends_with('-') {
            out.push('-');
        }
    }
    let out = out.trim_matches(['-', '.']);
    if out.is_empty() {
        "run".into()
    } else {
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_plain_file_names() {
        for (name, file) in [
            ("find-read", "find-read"),
            ("run /simple c=100", "run-simple-c-100"),
            ("../../etc/passwd", "etc-passwd"),
            ("<script>alert(1)</script>", "script-alert-1-script"),
            ("", "run"),
            ("…", "run"),
            ("a\nb\0c", "a-b-c"),
        ] {
            assert_eq!(file_name_of(name), file, "{name:?}");
        }
        assert!(file_name_of(&"x".repeat(1000)).len() <= NAME_CHARS_MAX);
    }
}
