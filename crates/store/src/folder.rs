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

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use wallfinder_model::{Plan, Record};

use crate::journal::Journal;
use crate::{StoreError, series, utc_compact};

/// The sealed record.
pub(crate) const RECORD: &str = "record.json";
/// Telemetry rows.
pub(crate) const SERIES: &str = "series.parquet";
/// Entries while the run lasts.
pub(crate) const JOURNAL: &str = "journal.wfj";
const PLAN: &str = "plan.json";
const LATEST: &str = "latest";
/// Characters of a run's name that reach its folder's name.
const NAME_CHARS_MAX: usize = 80;

/// The folder of one run.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    id: String,
}

impl RunFolder {
    /// Makes `<runs>/<utc>-<name>` and proves that it can be written to. `runs` is made
    /// where it is missing. A folder, file or link of that name is refused.
    pub fn create(runs: &Path, name: &str, now: SystemTime) -> Result<RunFolder, StoreError> {
        fs::create_dir_all(runs).map_err(|e| StoreError::io("create", runs, &e))?;
        let id = format!("{}-{}", utc_compact(now), file_name_of(name));
        let path = runs.join(&id);
        // `mkdir` follows no link and takes no folder that is there.
        fs::create_dir(&path).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists { path: path.clone() },
            _ => StoreError::io("create", &path, &e),
        })?;
        sync_folder(runs)?;
        point_latest_to(runs, &id);
        Ok(RunFolder { path, id })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
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
        let path = self.path.join(JOURNAL);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(|e| StoreError::io("create", &path, &e))?;
        let journal = Journal::start(path, Box::new(file), record)?;
        sync_folder(&self.path)?;
        Ok(journal)
    }

    /// Ends the journal, writes the record and its telemetry, and removes the journal.
    /// Returns the path of `record.json`. After a failure the journal stays; if it was the
    /// journal that failed, the record is written all the same, and the failure returned.
    pub fn seal(&self, journal: &Journal, record: &Record) -> Result<PathBuf, StoreError> {
        let journalled = journal.end(record);
        self.write_series(record)?;
        let path = self.write_record(record)?;
        let journal_path = self.path.join(JOURNAL);
        fs::remove_file(&journal_path).map_err(|e| StoreError::io("remove", &journal_path, &e))?;
        sync_folder(&self.path)?;
        journalled.map(|()| path)
    }

    fn write_plan(&self, plan: &Plan) -> Result<(), StoreError> {
        self.write_whole(PLAN, |file| {
            serde_json::to_writer_pretty(&mut *file, plan)?;
            file.write_all(b"\n")
        })?;
        Ok(())
    }

    fn write_series(&self, record: &Record) -> Result<(), StoreError> {
        if record.steps.iter().all(|step| step.series.is_empty()) {
            return Ok(());
        }
        self.write_whole(SERIES, |file| {
            series::write(file, &record.steps).map_err(io::Error::other)
        })?;
        Ok(())
    }

    fn write_record(&self, record: &Record) -> Result<PathBuf, StoreError> {
        let path = self.path.join(RECORD);
        let bad = |e: serde_json::Error| StoreError::BadRecord {
            path: path.clone(),
            why: e.to_string(),
        };
        let bytes = serde_json::to_vec_pretty(record).map_err(bad)?;
        // A number that is not finite turns into null, and would not read back.
        serde_json::from_slice::<Record>(&bytes).map_err(bad)?;
        self.write_whole(RECORD, |file| file.write_all(&bytes))
    }

    /// Writes a file so that it is there whole or not at all, even after a power cut.
    fn write_whole(
        &self,
        name: &str,
        fill: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<PathBuf, StoreError> {
        let path = self.path.join(name);
        let temporary = self.path.join(format!(".{name}.part"));
        let written = (|| {
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(&temporary)?;
            let mut buffered = BufWriter::new(&file);
            fill(&mut buffered)?;
            buffered.flush()?;
            drop(buffered);
            file.sync_all()?;
            fs::rename(&temporary, &path)
        })();
        if let Err(e) = written {
            let _ = fs::remove_file(&temporary);
            return Err(StoreError::io("write", &path, &e));
        }
        sync_folder(&self.path)?;
        Ok(path)
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

/// Makes new names in a folder outlast a power cut.
fn sync_folder(path: &Path) -> Result<(), StoreError> {
    let path = if path.as_os_str() == OsStr::new("") {
        Path::new(".")
    } else {
        path
    };
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(|e| StoreError::io("sync", path, &e))
}

/// Points `latest` to the newest run. A convenience: what stands in its way stays.
fn point_latest_to(runs: &Path, id: &str) {
    let latest = runs.join(LATEST);
    if fs::symlink_metadata(&latest).is_ok_and(|m| !m.is_symlink()) {
        return;
    }
    let temporary = runs.join(format!(".{LATEST}-{id}"));
    if std::os::unix::fs::symlink(id, &temporary).is_ok()
        && fs::rename(&temporary, &latest).is_err()
    {
        let _ = fs::remove_file(&temporary);
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
