//! A folder of a record, held open: all that a record consists of is made, written, renamed and read
//! through it, by one name each and without following a link. So whoever may write in the folder above can
//! move it or put a link in its place, and changes nothing of where the record goes.
//!
//! What it makes is its maker's alone: folders 0700, files 0600. It knows nothing of what files mean.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wallfinder_sys::folder::{self as sys, Others};

use crate::StoreError;

/// The link to the newest run, among runs.
pub(crate) const LATEST: &str = "latest";

/// An open folder. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Folder {
    held: Arc<OwnedFd>,
    /// Where it was found: for messages, and not for looking it up again.
    path: PathBuf,
}

impl Folder {
    /// Opens what somebody names, to read. Links are followed, but for `latest`, which runs have as their
    /// own: it must name a folder beside it.
    pub fn open(path: &Path) -> Result<Folder, StoreError> {
        let failed = |error: io::Error| StoreError::io("open", path, &error);
        if path.file_name() == Some(OsStr::new(LATEST)) {
            let runs = path.parent().unwrap_or(Path::new(""));
            let runs = Folder::hold(sys::open(or_here(runs)).map_err(failed)?, runs);
            if let Some(id) = runs.latest()? {
                return runs.enter(&id);
            }
        }
        Ok(Folder::hold(
            sys::open(or_here(path)).map_err(failed)?,
            path,
        ))
    }

    /// Opens the folder that runs are kept in, made where it is missing. One that somebody else could
    /// change is refused, and so is a link: a record is to be where it was put.
    pub(crate) fn of_runs(path: &Path) -> Result<Folder, StoreError> {
        let failed = |error: io::Error| StoreError::io("create", path, &error);
        let held = match path.file_name() {
            // Such as `..`.
            None => sys::walk(path, true).map_err(failed)?,
            Some(name) => {
                let above = path.parent().unwrap_or(Path::new(""));
                let above = sys::walk(above, true).map_err(failed)?;
                if let Some(to) = sys::link_target(&above, name).map_err(failed)? {
                    let why = format!("is a link, to {}", to.display());
                    return Err(StoreError::unsafe_place(path, why));
                }
                let made = match sys::make(&above, name) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(failed(error));
                    }
                    made => made.is_ok(),
                };
                let held = sys::enter(&above, name).map_err(failed)?;
                if made {
                    sys::give_to_caller(&held).map_err(failed)?;
                }
                held
            }
        };
        let why = match sys::others(&held).map_err(failed)? {
            Others::None => return Ok(Folder::hold(held, path)),
            Others::Owner(user) => format!("belongs to user {user}"),
            Others::Anybody => "can be written in by other users".to_owned(),
        };
        Err(StoreError::unsafe_place(path, why))
    }

    /// Makes a folder in it; what has its name already is refused, whatever it is.
    pub(crate) fn make(&self, name: &str) -> Result<Folder, StoreError> {
        let path = self.path.join(name);
        sys::make(&*self.held, name.as_ref()).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists { path: path.clone() },
            _ => StoreError::io("create", &path, &error),
        })?;
        let made = self.enter(name.as_ref())?;
        // Between the two calls somebody could have put his own there, or the file system gives it to
        // another user than who made it.
        made.must_be_ours()?;
        let given = sys::give_to_caller(&*made.held);
        given.map_err(|error| StoreError::io("give to its user", &path, &error))?;
        Ok(made)
    }

    /// Opens a folder in it, made where it is missing.
    pub fn inner(&self, name: &str) -> Result<Folder, StoreError> {
        match self.make(name) {
            Err(StoreError::Exists { .. }) => self.enter(name.as_ref()),
            made => made,
        }
    }

    fn enter(&self, name: &OsStr) -> Result<Folder, StoreError> {
        let path = self.path.join(name);
        let held = sys::enter(&*self.held, name);
        held.map(|held| Folder::hold(held, &path))
            .map_err(|error| StoreError::io("open", &path, &error))
    }

    fn hold(held: OwnedFd, path: &Path) -> Folder {
        Folder {
            held: Arc::new(held),
            path: path.to_owned(),
        }
    }

    /// Where it was found.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Refuses a folder that is another user's, or that others may write in.
    pub fn must_be_ours(&self) -> Result<(), StoreError> {
        let ours = sys::is_ours(&*self.held);
        match ours.map_err(|error| StoreError::io("look at", &self.path, &error))? {
            true => Ok(()),
            false => Err(StoreError::unsafe_place(
                &self.path,
                "belongs to another user, or others may write in it".to_owned(),
            )),
        }
    }

    /// Writes a file that is there whole or not at all, in the place of one of that name. After a crash of
    /// the machine it may be missing; [`write_through`](Folder::write_through) is for what may not.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.put(name, |file| (&*file).write_all(bytes))
    }

    /// Writes a file that is there whole or not at all, even after a power cut.
    pub(crate) fn write_through(
        &self,
        name: &str,
        fill: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        self.put(name, |file| {
            let mut buffered = BufWriter::new(file);
            fill(&mut buffered)?;
            buffered.flush()?;
            drop(buffered);
            file.sync_all()
        })?;
        self.sync()
    }

    fn put(
        &self,
        name: &str,
        fill: impl FnOnce(&File) -> io::Result<()>,
    ) -> Result<(), StoreError> {
        let part = format!(".{name}.part");
        let failed = |error| StoreError::io("write", &self.path.join(name), &error);
        let file = self.create_anew(&part)?;
        let filled = fill(&file);
        let named = filled.and_then(|()| sys::rename(&*self.held, part.as_ref(), name.as_ref()));
        named.map_err(|error| {
            let _ = self.remove(&part);
            failed(error)
        })
    }

    /// Makes a file to append to; what has its name already is refused, whatever it is.
    pub(crate) fn create(&self, name: &str) -> Result<File, StoreError> {
        let path = self.path.join(name);
        let made = sys::create(&*self.held, name.as_ref());
        let file = made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => StoreError::Exists { path: path.clone() },
            _ => StoreError::io("create", &path, &error),
        })?;
        let given = sys::give_to_caller(&file);
        given.map_err(|error| StoreError::io("give to its user", &path, &error))?;
        Ok(file)
    }

    /// Makes a file to append to, in the place of one of that name, which nobody finished.
    pub(crate) fn create_anew(&self, name: &str) -> Result<File, StoreError> {
        match self.create(name) {
            Err(StoreError::Exists { .. }) => self.remove(name).and_then(|()| self.create(name)),
            created => created,
        }
    }

    /// Gives a file another name, in whose place it comes.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        sys::rename(&*self.held, from.as_ref(), to.as_ref())
            .map_err(|error| StoreError::io("rename", &self.path.join(from), &error))
    }

    /// Takes a file away.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        sys::remove(&*self.held, name.as_ref())
            .map_err(|error| StoreError::io("remove", &self.path.join(name), &error))
    }

    /// Makes new names outlast a power cut.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        let synced = File::from(
            self.held
                .try_clone()
                .map_err(|error| StoreError::io("sync", &self.path, &error))?,
        );
        let synced = synced.sync_all();
        synced.map_err(|error| StoreError::io("sync", &self.path, &error))
    }

    /// Opens a file in it to read: a plain one, of at most so many bytes.
    pub(crate) fn read(&self, name: &OsStr, bytes_max: u64) -> Result<File, StoreError> {
        let path = self.path.join(name);
        match sys::read(&*self.held, name) {
            Ok(file) => plain(file, &path, bytes_max),
            Err(_) if matches!(sys::link_target(&*self.held, name), Ok(Some(_))) => {
                Err(StoreError::NotAFile {
                    path,
                    why: "is a link; name what it leads to",
                })
            }
            Err(error) => Err(StoreError::io("open", &path, &error)),
        }
    }

    /// Names of what is in it, sorted.
    pub(crate) fn names(&self) -> Result<Vec<OsString>, StoreError> {
        let names = sys::names(&*self.held);
        let mut names = names.map_err(|error| StoreError::io("read", &self.path, &error))?;
        names.sort();
        Ok(names)
    }

    /// The folder that `latest` leads to, if there is such a link.
    fn latest(&self) -> Result<Option<OsString>, StoreError> {
        let path = self.path.join(LATEST);
        let to = sys::link_target(&*self.held, LATEST.as_ref())
            .map_err(|error| StoreError::io("open", &path, &error))?;
        let Some(to) = to else {
            return Ok(None);
        };
        let mut parts = to.components();
        match (parts.next(), parts.next()) {
            (Some(std::path::Component::Normal(id)), None) => Ok(Some(id.to_owned())),
            _ => Err(StoreError::NotARun {
                path,
                why: format!("it leads to {}, which is no folder beside it", to.display()),
            }),
        }
    }

    /// Points `latest` to a folder in it. A convenience: what stands in its way stays.
    pub(crate) fn point_latest_to(&self, id: &str) {
        if sys::is_no_link(&*self.held, LATEST.as_ref()).unwrap_or(true) {
            return;
        }
        let part = format!(".{LATEST}-{id}");
        let link = |name: &str| sys::link(&*self.held, name.as_ref(), id.as_ref());
        if link(&part).is_ok() && self.rename(&part, LATEST).is_err() {
            let _ = self.remove(&part);
        }
    }
}

/// Reads a file that somebody names, a plain one of at most so many bytes: no pipe is waited for, and
/// nothing without end is read.
pub fn read_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>, StoreError> {
    let file = open_file(path, bytes_max)?;
    read_whole(file, path, bytes_max)
}

/// Opens a file that somebody names, as [`read_file`].
pub(crate) fn open_file(path: &Path, bytes_max: u64) -> Result<File, StoreError> {
    match sys::read_path(path) {
        Ok(file) => plain(file, path, bytes_max),
        Err(error) => Err(StoreError::io("open", path, &error)),
    }
}

/// All of an open file, which may have grown since.
pub(crate) fn read_whole(file: File, path: &Path, bytes_max: u64) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    let read = file.take(bytes_max).read_to_end(&mut bytes);
    read.map_err(|error| StoreError::io("read", path, &error))?;
    Ok(bytes)
}

fn plain(file: File, path: &Path, bytes_max: u64) -> Result<File, StoreError> {
    let metadata = file.metadata();
    let metadata = metadata.map_err(|error| StoreError::io("read", path, &error))?;
    if !metadata.is_file() {
        return Err(StoreError::NotAFile {
            path: path.to_owned(),
            why: "is not a plain file, and nothing else is read",
        });
    }
    match metadata.len() {
        bytes if bytes > bytes_max => Err(StoreError::TooLarge {
            path: path.to_owned(),
            bytes,
            bytes_max,
        }),
        _ => Ok(file),
    }
}

fn or_here(path: &Path) -> &Path {
    match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    }
}
