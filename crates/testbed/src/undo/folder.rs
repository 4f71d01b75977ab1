//! The folder of journals, opened once: what is found in it is read and removed through the same
//! descriptors, so that it is the file that was checked.
//!
//! Nobody else may write to the folder or to a file in it, since what stands in a journal is carried
//! out: both belong to this user, have no rights for others, and are no links. The folder above
//! belongs to this user or to root, and is closed to others or sticky.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat, flock, fstat, mkdirat, open,
    openat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::lines::{self, Content};
use super::owner::{Fate, Tag, World};
use super::step::Undo;
use crate::error::TestbedError;

/// Bytes of one journal, at the most.
pub(super) const BYTES_MAX: u64 = 64 << 20;
/// Journals that are looked at, at the most.
const JOURNALS_MAX: usize = 10_000;
/// How long an owner may take to be gone, and a change that was under way when it died to end.
const GONE_WAIT_MAX: Duration = Duration::from_secs(12);
/// Rights of others and of the group.
const OTHERS: u32 = 0o077;
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// A folder that is ours alone.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// `None`: there is none.
    pub(crate) fn open(path: &Path) -> Result<Option<Folder>, TestbedError> {
        Folder::at(path, false)
    }

    /// Makes it where there is none.
    pub(crate) fn make(path: &Path) -> Result<Folder, TestbedError> {
        let gone = || TestbedError::at("open", path, &io::ErrorKind::NotFound.into());
        Folder::at(path, true)?.ok_or_else(gone)
    }

    fn at(path: &Path, make: bool) -> Result<Option<Folder>, TestbedError> {
        let failed = |e: Errno| TestbedError::at("open the folder of journals", path, &e.into());
        let (Some(above), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(failed(Errno::INVAL));
        };
        let folder = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = match open(above, folder, Mode::empty()) {
            Ok(above) => above,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if make {
            match mkdirat(&above, name, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let dir = match openat(&above, name, folder | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(dir) => dir,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let found = fstat(&above).map_err(failed)?;
        let is_safe = found.st_mode & OTHERS_WRITE == 0 || found.st_mode & STICKY != 0;
        if !is_safe || ![geteuid().as_raw(), 0].contains(&found.st_uid) {
            let why = "others may rename what is in the folder above it";
            return Err(not_private(path, why));
        }
        is_private(&fstat(&dir).map_err(failed)?).map_err(|why| not_private(path, why))?;
        let path = path.to_owned();
        Ok(Some(Folder { dir, path }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn dir(&self) -> &OwnedFd {
        &self.dir
    }

    /// The names of the journals in it.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = Dir::read_from(&self.dir).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| Some(entry.file_name().to_str().ok()?.to_owned()));
        names
            .filter(|name| name.ends_with(super::owner::ENDING))
            .take(JOURNALS_MAX)
            .collect()
    }

    /// Makes a journal's file and locks it, before anybody can take it for a dead one's.
    pub(super) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR)?;
        // Whoever looks for left-overs holds it for a moment.
        flock(&file, FlockOperation::LockExclusive)?;
        Ok(file.into())
    }

    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.dir, name, AtFlags::empty())?)
    }

    /// A journal in it; `None` where there is none.
    pub(super) fn journal(self: &Arc<Folder>, name: &str) -> Result<Option<Paper>, TestbedError> {
        let path = self.path.join(name);
        let failed = |e: Errno| TestbedError::at("open the journal", &path, &e.into());
        // Not blocking: a FIFO must not hold us up.
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.dir, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Err(not_private(&path, "it is a link")),
            Err(error) => return Err(failed(error)),
        };
        let found = fstat(&file).map_err(failed)?;
        let checked = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => is_private(&found),
            _ => Err("it is no regular file"),
        };
        checked.map_err(|why| not_private(&path, why))?;
        let tag = Tag::of_file(name)
            .ok_or_else(|| not_private(&path, "its name is not one that Wallfinder gives"))?;
        Ok(Some(Paper {
            folder: Arc::clone(self),
            name: name.to_owned(),
            tag,
            file: file.into(),
        }))
    }
}

fn is_private(found: &Stat) -> Result<(), &'static str> {
    if found.st_uid != geteuid().as_raw() {
        Err("it belongs to another user")
    } else if found.st_mode & OTHERS != 0 {
        Err("others have rights to it")
    } else {
        Ok(())
    }
}

fn not_private(path: &Path, why: &str) -> TestbedError {
    TestbedError::refused(
        format!("trusting {}", path.display()),
        format!("{why}; look at it, and remove it if nobody needs it"),
    )
}

/// A journal's file that was found, and held open since.
#[derive(Debug)]
pub(super) struct Paper {
    folder: Arc<Folder>,
    name: String,
    /// As its name says.
    pub(super) tag: Tag,
    file: File,
}

impl Paper {
    pub(super) fn path(&self) -> PathBuf {
        self.folder.path.join(&self.name)
    }

    /// Whether its owner, or what its owner ran for a change, has it locked.
    pub(super) fn is_held(&self) -> bool {
        let is_held = flock(&self.file, FlockOperation::NonBlockingLockShared).is_err();
        let _ = flock(&self.file, FlockOperation::Unlock);
        is_held
    }

    pub(super) fn read(&self) -> Result<Content, TestbedError> {
        let failed = |e: io::Error| TestbedError::at("read the journal", &self.path(), &e);
        let mut bytes = Vec::new();
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let mut bounded = file.take(BYTES_MAX + 1);
        bounded.read_to_end(&mut bytes).map_err(failed)?;
        let content = match bytes.len() as u64 > BYTES_MAX {
            true => Err(format!("it is larger than {BYTES_MAX} bytes")),
            false => lines::read(&bytes, self.tag),
        };
        content.map_err(|why| {
            let path = self.path().display().to_string();
            TestbedError::refused(
                format!("undoing what stands in {path}"),
                format!(
                    "{why}, so nothing of it is done; look at it with `cat {path}`, undo by hand \
                     what it names, and remove it with `rm {path}`"
                ),
            )
        })
    }

    /// Undoes what it holds, last change first, if its owner is dead and was of this world, and
    /// removes it. What a reboot has undone is only removed.
    pub(super) fn undo_all(&self) -> Result<(), TestbedError> {
        let until = Instant::now() + GONE_WAIT_MAX;
        let held = |why: &str| {
            let what = format!("undoing what stands in {}", self.path().display());
            Err(TestbedError::refused(what, why))
        };
        while flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() > until {
                return held("its owner still holds it");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let done = self.undo_locked(until, held);
        let _ = flock(&self.file, FlockOperation::Unlock);
        done
    }

    fn undo_locked(
        &self,
        until: Instant,
        held: impl Fn(&str) -> Result<(), TestbedError>,
    ) -> Result<(), TestbedError> {
        // Whoever had the lock may have undone it all.
        if !self.is_there() {
            return Ok(());
        }
        let content = self.read()?;
        let world = World::own()?;
        loop {
            match content.fate(&world, self.tag) {
                Fate::BeforeBoot => return self.remove(),
                Fate::Elsewhere => return held(ELSEWHERE),
                Fate::Dead => break,
                // It lets go of its lock a moment before it is gone.
                Fate::Alive if Instant::now() > until => return held("its owner lives"),
                Fate::Alive => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        let mut first_error = None;
        for undo in content.standing.iter().rev() {
            if let Err(error) = undo.perform(&self.file) {
                first_error.get_or_insert(error);
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => self.remove(),
        }
    }

    /// Lets go on what it says is frozen or stopped, where its owner lives in this world. Nothing is struck out: the
    /// owner may freeze it again.
    fn let_go_on(&self) -> Result<(), TestbedError> {
        let content = self.read()?;
        if content.fate(&World::own()?, self.tag) != Fate::Alive {
            return Ok(());
        }
        let stands = content.standing.iter();
        for undo in stands.filter(|undo| undo.is_of_a_stop()) {
            undo.perform(&self.file)?;
        }
        Ok(())
    }

    /// Whether the name still leads to this file.
    fn is_there(&self) -> bool {
        let there = statat(&self.folder.dir, &*self.name, AtFlags::SYMLINK_NOFOLLOW);
        let same = |there: Stat| {
            let own = fstat(&self.file).ok()?;
            Some((own.st_dev, own.st_ino) == (there.st_dev, there.st_ino))
        };
        there.ok().and_then(same) == Some(true)
    }

    fn remove(&self) -> Result<(), TestbedError> {
        if !self.is_there() {
            return Ok(());
        }
        let removed = self.folder.remove(&self.name);
        removed.map_err(|e| TestbedError::at("remove the journal", &self.path(), &e))
    }
}

/// Why a journal of another world is left alone.
pub(super) const ELSEWHERE: &str = "it belongs to a run in another container or namespace; clean it \
     there, or remove it by hand if that is gone";

/// Undoes what a process that ended still has in its journal.
pub(crate) fn undo_all_of(folder: &Arc<Folder>, name: &str) -> Result<(), TestbedError> {
    match folder.journal(name)? {
        Some(paper) => paper.undo_all(),
        None => Ok(()),
    }
}

/// Lets go on whom a process that lives, and is stopped itself, has frozen or stopped. All of it stays in its journal.
pub(crate) fn let_go_on(folder: &Arc<Folder>, name: &str) -> Result<(), TestbedError> {
    match folder.journal(name)? {
        Some(paper) => paper.let_go_on(),
        None => Ok(()),
    }
}

/// Of a journal's content, what its owner stands for now.
impl Content {
    pub(super) fn fate(&self, world: &World, tag: Tag) -> Fate {
        match &self.world {
            Some(of) => world.fate(tag.process, of),
            // Nothing was announced yet: its name alone tells.
            None if !world.knows(tag) => Fate::Elsewhere,
            None if tag.process.is_alive() => Fate::Alive,
            None => Fate::Dead,
        }
    }

    pub(super) fn shown(&self) -> impl Iterator<Item = String> {
        self.standing.iter().map(Undo::shown)
    }
}
