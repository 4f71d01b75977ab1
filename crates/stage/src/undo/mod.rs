//! A journal of what was changed on this machine, written before each change, so that it is
//! taken back on every way out.
//!
//! ```text
//!  journal line ─► change ─► … ─► undone, line says so        the ordinary way: on drop
//!       │                  ╲
//!       │                   SIGKILL ─► the keeper reads the journal and undoes    (child::keeper)
//!       │                          ╲
//!       └──────────────────────────── keeper killed too ─► `wallfinder doctor --clean`
//! ```
//!
//! One file for each process, `/run/wallfinder/wf-PID-START.jsonl` (without privilege in
//! `XDG_RUNTIME_DIR` or the folder for temporary files): the first line says whose it is,
//! each other line is one change, or that one is undone. It is there as long as there is
//! anything to undo.
//!
//! Invariants:
//!
//! - The line is written before the change. So undoing must be right for a change that was
//!   not made, and for one that is undone already.
//! - Changes are undone in reverse order.
//! - The owner holds a lock on its journal, and so does each `ip` or `tc` that it runs:
//!   nobody undoes the changes of a process that lives, or while one is still being made.
//! - Only what bears a tag of ours, or stands in a journal, is ever touched.

mod owner;
mod remains;
mod step;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use crate::child::{Shim, keep_journal};
use crate::error::StageError;

pub(crate) use owner::{GROUP_PREFIX, Process};
pub(crate) use remains::is_lowered;
pub use remains::{Cleaned, Remain, clean, remains};
pub(crate) use step::{HANDLE, LINK, NETNS_FOLDER, Netns, Undo};

use owner::Owner;

/// Lines of one journal that are read, at the most.
const LINES_MAX: usize = 100_000;
/// How long a change that was under way when its owner died may take to end.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(12);

#[derive(Debug, Serialize, Deserialize)]
enum Line {
    #[serde(rename = "owner")]
    Owner(Owner),
    #[serde(rename = "change")]
    Change { id: u64, by: Undo },
    #[serde(rename = "undone")]
    Undone { id: u64 },
}

/// The journal of this process.
#[derive(Debug)]
pub(crate) struct Journal {
    owner: Owner,
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// There while anything is to be undone; locked.
    file: Option<File>,
    next: u64,
    standing: BTreeMap<u64, Undo>,
}

/// A change that stands. Dropping it undoes it.
#[derive(Debug)]
pub(crate) struct Change {
    journal: &'static Journal,
    id: u64,
}

impl Journal {
    /// The one of this process. `shim` starts the keeper that undoes what we cannot.
    pub(crate) fn open(shim: &Shim) -> Result<&'static Journal, StageError> {
        static JOURNAL: OnceLock<Result<Journal, StageError>> = OnceLock::new();
        let journal = JOURNAL.get_or_init(|| {
            let folder = own_folder()?;
            let owner = Owner::this_process()
                .ok_or_else(|| StageError::failed("keep a journal", "/proc is not mounted"))?;
            let path = folder.join(format!("{}.jsonl", owner.process.tag()));
            Ok(Journal {
                owner,
                path,
                state: Mutex::default(),
            })
        });
        let journal = journal.as_ref().map_err(Clone::clone)?;
        keep_journal(shim, &journal.path);
        Ok(journal)
    }

    /// A name that nothing of ours has yet: `wf-4711-1a2b3c-0s` for the suffix `s`.
    pub(crate) fn name(&self, suffix: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{}-{nth}{suffix}", self.owner.process.tag())
    }

    /// Writes down how to undo a change, and makes it. One that could not be made is undone
    /// as far as it went; one that was refused, since somebody else's thing stands there, is
    /// none of ours to undo.
    pub(crate) fn change<T>(
        &'static self,
        undo: Undo,
        make: impl FnOnce(&File) -> Result<T, StageError>,
    ) -> Result<(Change, T), StageError> {
        let (id, lock) = self.write(undo)?;
        let change = Change { journal: self, id };
        match make(&lock) {
            Ok(made) => Ok((change, made)),
            Err(error @ StageError::Refused { .. }) => {
                self.forget(id);
                Err(error)
            }
            // Dropping the change undoes it.
            Err(error) => Err(error),
        }
    }

    /// The lock, for a command about something that is in the journal; none while nothing is.
    pub(crate) fn held(&self) -> Result<File, StageError> {
        let state = self.lock();
        let file = state.file.as_ref().map(File::try_clone);
        let file = file.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()));
        file.map_err(|e| StageError::at("share the journal", &self.path, &e))
    }

    /// Writes down how to undo a change that is yet to be made.
    fn write(&self, undo: Undo) -> Result<(u64, File), StageError> {
        let failed = |e: io::Error| StageError::at("write the journal", &self.path, &e);
        let mut state = self.lock();
        if state.file.is_none() {
            state.file = Some(self.create().map_err(failed)?);
        }
        let id = state.next;
        state.next += 1;
        let file = state.file.as_mut().expect("opened above");
        put(
            file,
            &Line::Change {
                id,
                by: undo.clone(),
            },
        )
        .map_err(failed)?;
        let lock = file.try_clone().map_err(failed)?;
        state.standing.insert(id, undo);
        Ok((id, lock))
    }

    fn create(&self) -> io::Result<File> {
        let mut file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&self.path)?;
        // Whoever looks for left-overs holds it for a moment.
        flock(&file, FlockOperation::LockExclusive)?;
        put(&mut file, &Line::Owner(self.owner.clone()))?;
        Ok(file)
    }

    /// Undoes one change. What could not be undone stays in the journal.
    fn undo(&self, id: u64) -> Result<(), StageError> {
        let Some(undo) = self.lock().standing.get(&id).cloned() else {
            return Ok(());
        };
        let lock = self.held()?;
        undo.perform(&lock)?;
        drop(lock);
        self.forget(id);
        Ok(())
    }

    /// A change that does not stand any more.
    fn forget(&self, id: u64) {
        let mut state = self.lock();
        state.standing.remove(&id);
        if state.standing.is_empty() {
            let _ = fs::remove_file(&self.path);
            state.file = None;
        } else if let Some(file) = state.file.as_mut() {
            // Were it lost, it would be undone twice, which does nothing.
            let _ = put(file, &Line::Undone { id });
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Change {
    /// Undoes it, and says if that could not be done.
    pub(crate) fn undo(self) -> Result<(), StageError> {
        self.journal.undo(self.id)
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let _ = self.journal.undo(self.id);
    }
}

/// One line by one write: a line that is there is there as a whole.
fn put(file: &mut File, line: &Line) -> io::Result<()> {
    let mut text = serde_json::to_vec(line).map_err(io::Error::other)?;
    text.push(b'\n');
    file.write_all(&text)
}

/// Folders where journals are kept: the first is ours, the others may hold some of ours.
fn folders() -> Vec<PathBuf> {
    let user = geteuid();
    let mut folders = Vec::new();
    if user.is_root() {
        folders.push(PathBuf::from("/run/wallfinder"));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    folders.extend(runtime.map(|path| Path::new(&path).join("wallfinder")));
    folders.push(std::env::temp_dir().join(format!("wallfinder-{}", user.as_raw())));
    folders
}

/// Nobody else may write there: what stands in a journal is carried out.
fn is_private(folder: &Path) -> bool {
    let found = fs::symlink_metadata(folder);
    found.is_ok_and(|found| {
        found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0
    })
}

fn own_folder() -> Result<PathBuf, StageError> {
    let folders = folders();
    let made = folders.iter().find(|folder| {
        let _ = fs::DirBuilder::new().mode(0o700).create(folder);
        is_private(folder)
    });
    made.cloned().ok_or_else(|| {
        let tried: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
        let why = format!(
            "no folder for it that is ours alone; tried {}",
            tried.join(", ")
        );
        StageError::failed("keep a journal of changes", why)
    })
}

/// A journal as it was found.
#[derive(Debug)]
struct Found {
    owner: Owner,
    /// What is not undone yet, in the order in which it was done.
    standing: Vec<Undo>,
}

/// Reads a journal. A last line that is torn announced a change that was never made.
fn read(file: &File) -> io::Result<Found> {
    let mut owner = None;
    let mut standing = BTreeMap::new();
    for line in BufReader::new(file).split(b'\n').take(LINES_MAX) {
        match serde_json::from_slice(&line?) {
            Ok(Line::Owner(found)) => owner = Some(found),
            Ok(Line::Change { id, by }) => drop(standing.insert(id, by)),
            Ok(Line::Undone { id }) => drop(standing.remove(&id)),
            Err(_) => {}
        }
    }
    Ok(Found {
        owner: owner.ok_or_else(|| io::Error::other("it does not say whose it is"))?,
        standing: standing.into_values().collect(),
    })
}

/// Undoes what the journal of a process that ended still holds, last change first.
pub(crate) fn undo_all_of(path: &Path) -> Result<Vec<Undo>, StageError> {
    let failed = |e: io::Error| StageError::at("read the journal", path, &e);
    let file = match OpenOptions::new().read(true).append(true).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(failed(e)),
    };
    wait_for_lock(&file, path)?;
    // Whoever had the lock may have undone it all.
    if file.metadata().map_err(failed)?.nlink() == 0 {
        return Ok(Vec::new());
    }
    let mut standing = read(&file).map_err(failed)?.standing;
    standing.reverse();
    let mut first_error = None;
    for undo in &standing {
        if let Err(error) = undo.perform(&file) {
            first_error.get_or_insert(error);
        }
    }
    match first_error {
        Some(error) => Err(error),
        None => fs::remove_file(path).map(|()| standing).map_err(failed),
    }
}

fn wait_for_lock(file: &File, path: &Path) -> Result<(), StageError> {
    let until = Instant::now() + LOCK_WAIT_MAX;
    while flock(file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() > until {
            let what = format!("undoing the changes in {}", path.display());
            return Err(StageError::refused(what, "its owner still holds it"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
