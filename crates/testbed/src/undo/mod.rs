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
//! One file for each process, `/run/wallfinder/wf-PID-START-PIDNS.jsonl` (without privilege in
//! `XDG_RUNTIME_DIR` or the folder for temporary files): the first line says whose it is and where
//! it was written, each other line is one change, or that one is undone. It is there as long as
//! there is anything to undo.
//!
//! Invariants:
//!
//! - The line is written before the change. So undoing must be right for a change that was
//!   not made, and for one that is undone already.
//! - Changes are undone in reverse order.
//! - The owner holds a lock on its journal, and so does each `ip` or `tc` that it runs:
//!   nobody undoes the changes of a process that lives, or while one is still being made. But for
//!   whom it froze or stopped: those go on while it is stopped itself.
//! - Only what bears a tag of ours, or stands in a journal, is ever touched; and only by who
//!   counts processes, mounts and groups as the journal's owner did, in the same boot. But for
//!   a group that holds no process, where nobody is left in its owner's namespace of process ids:
//!   that goes from the machine's first namespace.
//! - What is done about a journal is done through the descriptor that was checked.

mod cgroup;
mod folder;
mod lines;
mod netns;
mod owner;
mod remains;
mod squeeze_lock;
mod step;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::process::geteuid;

use crate::child::{Shim, keep_journal};
use crate::error::TestbedError;

#[cfg(test)]
pub(crate) use cgroup::OpenGroup;
pub(crate) use cgroup::{GroupPath, OwnGroup, QuotaText};
pub(crate) use folder::{Folder, let_go_on, undo_all_of};
pub(crate) use netns::Netns;
pub(crate) use owner::{GROUP_PREFIX, Process, Tag, World};
pub(crate) use remains::is_lowered;
pub use remains::{Cleaned, Left, Remain, clean, remains};
pub use squeeze_lock::SqueezeLock;
pub(crate) use step::{LINK, NETNS_FOLDER, OwnName, Undo};

use folder::BYTES_MAX;
use lines::Line;

/// The journal of this process.
#[derive(Debug)]
pub(crate) struct Journal {
    world: World,
    tag: Tag,
    name: String,
    folder: Folder,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// There while anything is to be undone; locked.
    file: Option<File>,
    /// How long it is.
    bytes: u64,
    next: u64,
    standing: BTreeMap<u64, Standing>,
    /// What is undone although the file holds it before something that stands.
    undone: Vec<u64>,
}

/// A change that stands, and where its line ends.
#[derive(Debug)]
struct Standing {
    by: Undo,
    end: u64,
}

/// A change that stands. Dropping it undoes it.
#[derive(Debug)]
pub(crate) struct Change {
    journal: &'static Journal,
    id: u64,
}

impl Journal {
    /// The one of this process. `shim` starts the keeper that undoes what we cannot.
    pub(crate) fn open(shim: &Shim) -> Result<&'static Journal, TestbedError> {
        static JOURNAL: OnceLock<Result<Journal, TestbedError>> = OnceLock::new();
        let journal = JOURNAL.get_or_init(|| {
            let world = World::own()?;
            let tag = world.own_tag()?;
            Ok(Journal::new(own_folder()?, world, tag))
        });
        let journal = journal.as_ref().map_err(Clone::clone)?;
        tracing::debug!(journal = %journal.path().display(), "undo journal is open");
        keep_journal(shim, journal.folder.path(), &journal.name);
        Ok(journal)
    }

    fn new(folder: Folder, world: World, tag: Tag) -> Journal {
        Journal {
            world,
            tag,
            name: tag.file(),
            folder,
            state: Mutex::default(),
        }
    }

    /// A name that nothing of ours has yet: `wf-4711-1a2b3c-effffffc-0s` for the suffix `s`.
    pub(crate) fn name(&self, suffix: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("{}-{nth}{suffix}", self.tag)
    }

    /// Writes down how to undo a change, and makes it. One that could not be made is undone
    /// as far as it went; one that was refused, since somebody else's thing stands there, is
    /// none of ours to undo.
    pub(crate) fn change<T>(
        &'static self,
        undo: Undo,
        make: impl FnOnce(&File) -> Result<T, TestbedError>,
    ) -> Result<(Change, T), TestbedError> {
        let (id, lock) = self.write(undo)?;
        let change = Change { journal: self, id };
        match make(&lock) {
            Ok(made) => Ok((change, made)),
            Err(error @ TestbedError::Refused { .. }) => {
                self.forget(id);
                Err(error)
            }
            // Dropping the change undoes it.
            Err(error) => Err(error),
        }
    }

    /// The lock, for a command about something that is in the journal; none while nothing is.
    pub(crate) fn held(&self) -> Result<File, TestbedError> {
        let state = self.lock();
        let file = state.file.as_ref().map(File::try_clone);
        let file = file.unwrap_or_else(|| Err(io::ErrorKind::NotFound.into()));
        file.map_err(|e| TestbedError::at("share the journal", &self.path(), &e))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(&self.name)
    }

    /// Writes down how to undo a change that is yet to be made.
    fn write(&self, undo: Undo) -> Result<(u64, File), TestbedError> {
        let failed = |e: io::Error| TestbedError::at("write the journal", &self.path(), &e);
        // What whoever reads it would refuse must not get in.
        undo.check(self.tag)
            .map_err(|why| TestbedError::failed("write the journal", why))?;
        let mut state = self.lock();
        let written = self.write_to(&mut state, undo).map_err(failed);
        if state.standing.is_empty() {
            self.remove(&mut state);
        }
        written
    }

    fn write_to(&self, state: &mut State, undo: Undo) -> io::Result<(u64, File)> {
        if state.file.is_none() {
            state.file = Some(self.folder.create(&self.name)?);
            state.bytes = 0;
            state.put(&Line::head(self.tag.process, self.world.clone()))?;
        }
        let id = state.next;
        tracing::debug!(id, change = ?undo, "undo journal: a change is about to be made");
        state.next += 1;
        let lock = state.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let lock = lock.try_clone()?;
        state.put(&Line::change(id, undo.clone()))?;
        let end = state.bytes;
        state.standing.insert(id, Standing { by: undo, end });
        Ok((id, lock))
    }

    fn remove(&self, state: &mut State) {
        if state.file.take().is_some() {
            let _ = self.folder.remove(&self.name);
        }
        state.undone.clear();
    }

    /// Undoes one change. What could not be undone stays in the journal.
    fn undo(&self, id: u64) -> Result<(), TestbedError> {
        let standing = |state: &State| state.standing.get(&id).map(|one| one.by.clone());
        let Some(undo) = standing(&self.lock()) else {
            return Ok(());
        };
        let lock = self.held()?;
        if let Err(error) = undo.perform(&lock) {
            tracing::warn!(id, %error, "undo journal: a change could not be taken back");
            return Err(error);
        }
        tracing::debug!(id, "undo journal: a change is taken back");
        drop(lock);
        self.forget(id);
        Ok(())
    }

    /// A change that does not stand any more.
    fn forget(&self, id: u64) {
        let mut state = self.lock();
        state.standing.remove(&id);
        if state.standing.is_empty() {
            self.remove(&mut state);
        } else {
            state.strike(id);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// One line by one write: a line that is there is there as a whole. What could only be
    /// written in part is taken out again, for the next line would run on from it.
    fn put(&mut self, line: &Line) -> io::Result<()> {
        let text = line.bytes()?;
        let file = self.file.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let end = self.bytes + text.len() as u64;
        if end > BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if let Err(error) = file.write_all(&text) {
            file.set_len(self.bytes)?;
            return Err(error);
        }
        self.bytes = end;
        Ok(())
    }

    /// Takes a change out of the file: what stands last ends it, so that it does not grow with
    /// every change that comes and goes. One before that is said to be undone.
    fn strike(&mut self, id: u64) {
        let Some((last, end)) = self
            .standing
            .iter()
            .next_back()
            .map(|(id, one)| (*id, one.end))
        else {
            return;
        };
        // Were a word of this lost, it would be undone twice, which does nothing.
        if id < last {
            self.undone.push(id);
            let _ = self.put(&Line::undone(id));
            return;
        }
        let file = self.file.as_ref().map(|file| file.set_len(end));
        if let Some(Ok(())) = file {
            self.bytes = end;
            self.undone.retain(|id| *id < last);
            for id in self.undone.clone() {
                let _ = self.put(&Line::undone(id));
            }
        } else {
            let _ = self.put(&Line::undone(id));
        }
    }
}

impl Change {
    /// Undoes it, and says if that could not be done.
    pub(crate) fn undo(self) -> Result<(), TestbedError> {
        self.journal.undo(self.id)
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        let _ = self.journal.undo(self.id);
    }
}

/// Folders where journals are kept: the first is ours, the others may hold some of ours.
fn folders() -> Vec<PathBuf> {
    let user = geteuid();
    let mut folders = Vec::new();
    if user.is_root() {
        folders.push(PathBuf::from("/run/wallfinder"));
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    folders.extend(runtime.map(|path| path.join("wallfinder")));
    folders.push(std::env::temp_dir().join(format!("wallfinder-{}", user.as_raw())));
    // The keeper is told in one line.
    let is_plain = |path: &PathBuf| path.to_str().is_some_and(|text| !text.contains('\n'));
    folders.retain(|path| path.is_absolute() && is_plain(path));
    folders
}

fn own_folder() -> Result<Folder, TestbedError> {
    let mut tried = Vec::new();
    for path in folders() {
        match Folder::make(&path) {
            Ok(folder) => return Ok(folder),
            Err(error) => tried.push(error.to_string()),
        }
    }
    let why = format!("no folder for it is ours alone: {}", tried.join("; "));
    Err(TestbedError::failed("keep a journal of changes", why))
}
