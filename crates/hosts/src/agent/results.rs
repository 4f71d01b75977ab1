//! Results of loads, on this host's disk until their controller has them on its own: what was measured outlasts the
//! way to who asked for it.
//!
//! A result is written before it is told, to a file of its own: temporary file, fsync, rename, fsync of the folder. Until
//! then a locked file says that the load goes on; whatever ends the agent lets go of the lock.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ring::rand::{SecureRandom, SystemRandom};
use rustix::fs::{FlockOperation, flock};
use wallfinder_model::drive::Measured;
use wallfinder_protocol::FRAME_BYTES_MAX;

/// So many are kept; the oldest go first, for no controller may ever come back for them.
const RESULTS_MAX: usize = 64;
/// What a file ends with that is locked while its load goes on.
const UNDER_WAY: &str = "under-way";
/// What a file ends with that a result is written to.
const FRESH: &str = "new";

/// The results of one session of an agent, beside those of others.
#[derive(Debug, Clone)]
pub struct Results {
    folder: PathBuf,
    session: String,
}

impl Results {
    /// Of a session that begins. The folder is made where it is not there.
    pub fn open(folder: &Path) -> io::Result<Results> {
        let mut making = DirBuilder::new();
        making.recursive(true).mode(0o700).create(folder)?;
        // Where it is new its name outlasts a power cut as well.
        if let Some(above) = folder.parent().and_then(|above| File::open(above).ok()) {
            above.sync_all()?;
        }
        let mut bytes = [0; 12];
        let filled = SystemRandom::new().fill(&mut bytes);
        filled.map_err(|_| io::Error::other("this machine has no random numbers"))?;
        // Of agents that were killed: a result is written while its load counts as under way.
        for path in fs::read_dir(folder)?.flatten().map(|entry| entry.path()) {
            let end = path.extension();
            let is_unfinished = end.is_some_and(|end| end == UNDER_WAY || end == FRESH);
            if is_unfinished && !is_locked(&path.with_extension(UNDER_WAY)) {
                let _ = fs::remove_file(path);
            }
        }
        Ok(Results {
            folder: folder.to_owned(),
            session: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
        })
    }

    /// What results of this session are called, before the number of the request.
    pub(super) fn session(&self) -> &str {
        &self.session
    }

    /// The load of this request begins; it goes on until this is dropped.
    pub(super) fn begin(&self, number: u64) -> io::Result<UnderWay> {
        let path = self
            .folder
            .join(format!("{}-{number}.{UNDER_WAY}", self.session));
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(UnderWay { path, _file: file })
    }

    /// Puts the result of the load of this request on disk.
    pub(super) fn keep(&self, number: u64, measured: &Measured) -> io::Result<()> {
        let path = self.folder.join(format!("{}-{number}", self.session));
        let fresh = path.with_extension(FRESH);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let written = options.open(&fresh).and_then(|mut file| {
            file.write_all(&serde_json::to_vec(measured)?)?;
            file.sync_all()?;
            fs::rename(&fresh, &path)
        });
        written.inspect_err(|_| drop(fs::remove_file(&fresh)))?;
        File::open(&self.folder)?.sync_all()?;
        self.let_go()
    }

    /// The oldest go.
    fn let_go(&self) -> io::Result<()> {
        let mut all: Vec<(SystemTime, PathBuf)> = fs::read_dir(&self.folder)?
            .flatten()
            // Others are of loads under way, or being written.
            .filter(|entry| entry.path().extension().is_none())
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        all.sort();
        let beyond = all.len().saturating_sub(RESULTS_MAX);
        all.drain(..beyond)
            .for_each(|(_, path)| drop(fs::remove_file(path)));
        Ok(())
    }

    /// A result, by what it is called; `None`: its load goes on.
    pub(super) fn recall(&self, key: &str) -> Result<Option<Measured>, String> {
        let path = self.path(key)?;
        // Looked at first: a result is there before its load is over.
        if is_locked(&path.with_extension(UNDER_WAY)) {
            return Ok(None);
        }
        let bytes = fs::read(path).map_err(|error| format!("no such result is kept: {error}"))?;
        match bytes.len() <= FRAME_BYTES_MAX {
            true => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| error.to_string()),
            false => Err("the result is longer than any message".to_owned()),
        }
    }

    /// Its controller has it on disk.
    pub(super) fn forget(&self, key: &str) -> Result<(), String> {
        // One that is not there was forgotten before.
        let _ = fs::remove_file(self.path(key)?);
        Ok(())
    }

    /// A key is no way out of the folder.
    fn path(&self, key: &str) -> Result<PathBuf, String> {
        let is_key = |c: char| c.is_ascii_hexdigit() || c == '-';
        match !key.is_empty() && key.chars().all(is_key) {
            true => Ok(self.folder.join(key)),
            false => Err(format!("`{key}` is no name of a result")),
        }
    }
}

/// A load that goes on.
#[derive(Debug)]
pub(super) struct UnderWay {
    path: PathBuf,
    /// Held locked.
    _file: File,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn is_locked(path: &Path) -> bool {
    let opened = File::open(path);
    // Shared, so that two who ask do not find each other.
    opened.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(throughput: f64) -> Measured {
        Measured {
            throughput,
            ..Measured::default()
        }
    }

    #[test]
    fn a_result_outlasts_its_session_until_it_is_forgotten() {
        let folder = std::env::temp_dir().join(format!("wf-results-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let first = Results::open(&folder).unwrap();
        first.keep(7, &measured(5.0)).unwrap();
        let key = format!("{}-7", first.session());
        drop(first);
        let later = Results::open(&folder).unwrap();
        let recalled = later.recall(&key).unwrap().expect("its load is over");
        assert_eq!(recalled.throughput, 5.0);
        later.forget(&key).unwrap();
        assert!(later.recall(&key).is_err());
        assert_eq!(later.forget(&key), Ok(()));
        for wrong in ["", "../x", "a/b", "x.new"] {
            assert!(later.recall(wrong).unwrap_err().contains("no name"));
        }
        // Nobody comes for them.
        let _goes_on = later.begin(1_000).unwrap();
        let goes_on = folder.join(format!("{}-1000.{UNDER_WAY}", later.session()));
        for number in 0..RESULTS_MAX as u64 + 9 {
            later.keep(number, &measured(1.0)).unwrap();
        }
        // What is locked is no result, however old.
        assert!(goes_on.exists());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), RESULTS_MAX + 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_load_that_goes_on_is_told_from_one_that_left_nothing() {
        let folder = std::env::temp_dir().join(format!("wf-under-way-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let first = Results::open(&folder).unwrap();
        let goes_on = first.begin(7).unwrap();
        let later = Results::open(&folder).unwrap();
        let key = format!("{}-7", first.session());
        assert_eq!(later.recall(&key), Ok(None));
        first.keep(7, &measured(5.0)).unwrap();
        assert_eq!(
            later.recall(&key),
            Ok(None),
            "it is told once all of it is on disk"
        );
        drop(goes_on);
        assert!(later.recall(&key).unwrap().is_some());
        // Of one that was killed nothing holds the lock, and nothing stays.
        let left = folder.join(format!("{}-9.{UNDER_WAY}", first.session()));
        fs::write(&left, "").unwrap();
        assert!(later.recall(&format!("{}-9", first.session())).is_err());
        let _ = Results::open(&folder).unwrap();
        assert!(!left.exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_result_that_was_half_written_goes_once_its_agent_is_gone() {
        let folder = std::env::temp_dir().join(format!("wf-half-written-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let first = Results::open(&folder).unwrap();
        let goes_on = first.begin(7).unwrap();
        let half = folder.join(format!("{}-7.{FRESH}", first.session()));
        fs::write(&half, "{").unwrap();
        let _ = Results::open(&folder).unwrap();
        assert!(half.exists(), "it is being written");
        drop(goes_on);
        first.keep(8, &measured(5.0)).unwrap();
        let _ = Results::open(&folder).unwrap();
        assert!(!half.exists());
        let whole = first.recall(&format!("{}-8", first.session()));
        assert!(whole.unwrap().is_some(), "a whole one stays");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_result_that_no_disk_takes_is_no_result_on_disk() {
        let folder = std::env::temp_dir().join(format!("wf-results-gone-{}", std::process::id()));
        let results = Results::open(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(results.keep(1, &measured(1.0)).is_err());
    }
}
