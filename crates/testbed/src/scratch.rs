//! A private folder for files that other programs are told of: scripts and reports.
//!
//! It is made, never found: with a name that nobody can guess, readable by its owner alone, and
//! held open, so that files are made and read within that very folder whatever happens to its
//! name. No link is followed in it: the program that writes there may be another user's. It is
//! removed with its value; what a killed run left is removed by a later one.

use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchown, openat, unlinkat};
use rustix::process::{Gid, Uid, geteuid};
use wallfinder_sys::users::User;

use crate::trust;

/// How the folders are called, before the process and a random number.
const PREFIX: &str = "wallfinder-scratch-";
/// Folders of processes that are gone are kept so long: a container that shares the folder
/// has processes that are not seen here.
const KEPT: Duration = Duration::from_secs(3_600);
/// Names that are tried, at the most.
const TRIES_MAX: u32 = 100;

/// A folder of our own; removed with it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    folder: File,
    /// Who is to write there, where it is not this process's user.
    user: Option<(Uid, Gid)>,
}

impl Scratch {
    /// A new one, for programs that run as this user (`None`: as this process does).
    pub fn new(user: Option<&User>) -> io::Result<Scratch> {
        let parent = parent();
        sweep(&parent);
        Scratch::within(&parent, user)
    }

    fn within(parent: &Path, user: Option<&User>) -> io::Result<Scratch> {
        let mut tries = 0;
        let path = loop {
            let random = RandomState::new().hash_one(tries);
            let path = parent.join(format!("{PREFIX}{}-{random:016x}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => break path,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES_MAX => {
                    tries += 1;
                }
                Err(error) => {
                    let why = format!("{}: {error}", path.display());
                    return Err(io::Error::new(error.kind(), why));
                }
            }
        };
        let folder = open(&path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let found = folder.metadata()?;
        if found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
            let why = format!("{} was changed while it was made", path.display());
            return Err(io::Error::other(why));
        }
        let user = user.map(|user| (Uid::from_raw(user.uid), Gid::from_raw(user.gid)));
        if let Some((uid, gid)) = user {
            fchown(&folder, Some(uid), Some(gid))?;
        }
        Ok(Scratch { path, folder, user })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file of this name, in place of one that was there.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        let _ = unlinkat(&self.folder, name, AtFlags::empty());
        let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(openat(&self.folder, name, new | OFlags::CLOEXEC, mode)?);
        if let Some((uid, gid)) = self.user {
            fchown(&file, Some(uid), Some(gid))?;
        }
        file.write_all(bytes)?;
        Ok(self.path.join(name))
    }

    /// Reads what a program has written; `None` if it is longer than `most`. Only a plain file
    /// of the program's own is read.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        // Whoever opens a pipe would wait for its other end.
        let plain = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&self.folder, name, plain, Mode::empty())?);
        let found = file.metadata()?;
        let owner = self.user.map_or(geteuid(), |(uid, _)| uid);
        if !found.is_file() || found.uid() != owner.as_raw() {
            let why = format!("{name} is no file of the program's own");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes)?;
        Ok((bytes.len() as u64 <= most).then_some(bytes))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn open(path: &Path, how: OFlags) -> io::Result<File> {
    let flags = how | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path, flags, Mode::empty())?))
}

/// The folder for temporary files, unless it is in the current one, or in the hands of others.
fn parent() -> PathBuf {
    let asked = std::env::temp_dir();
    match trust::trusted(&asked) {
        Ok(folder) if asked.is_absolute() => folder,
        _ => PathBuf::from("/tmp"),
    }
}

/// Removes folders of processes that are gone: those that were killed could not.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let pid = owner.and_then(|owner| owner.split('-').next()?.parse::<u32>().ok());
        let Ok(found) = entry.metadata() else {
            continue;
        };
        let may_remove = geteuid().is_root() || found.uid() == geteuid().as_raw();
        let age = found.modified().ok().and_then(|at| at.elapsed().ok());
        let is_old = age.is_some_and(|age| age > KEPT);
        let is_left = pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if found.is_dir() && may_remove && is_old && is_left {
            // Gone already, perhaps: the next run tries again.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("wf-scratch-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        path
    }

    #[test]
    fn it_is_private_new_each_time_and_gone_afterwards() {
        let parent = folder("private");
        let (one, other) = (
            Scratch::within(&parent, None).unwrap(),
            Scratch::within(&parent, None).unwrap(),
        );
        assert_ne!(one.path(), other.path());
        let mode = fs::metadata(one.path()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        let script = one.write("a.lua", b"one").unwrap();
        assert_eq!(fs::metadata(&script).unwrap().mode() & 0o777, 0o600);
        one.write("a.lua", b"two").unwrap();
        assert_eq!(one.read("a.lua", 3).unwrap().as_deref(), Some(&b"two"[..]));
        assert_eq!(one.read("a.lua", 2).unwrap(), None, "longer than that");
        drop((one, other));
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn no_link_is_followed_and_no_pipe_waited_for() {
        let parent = folder("links");
        let victim = parent.join("victim");
        fs::write(&victim, "secret").unwrap();
        let scratch = Scratch::within(&parent, None).unwrap();
        symlink(&victim, scratch.path().join("summary.json")).unwrap();
        assert!(scratch.read("summary.json", 100).is_err());
        scratch.write("summary.json", b"new").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"secret", "not written through");
        let pipe = scratch.path().join("pipe");
        rustix::fs::mknodat(
            CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(scratch.read("pipe", 100).is_err());
        // Another folder in its place: its own files stay where it is.
        let moved = parent.join("moved");
        fs::rename(scratch.path(), &moved).unwrap();
        symlink(&parent, scratch.path()).unwrap();
        scratch.write("victim", b"mine").unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"secret");
        assert_eq!(fs::read(moved.join("victim")).unwrap(), b"mine");
        drop(scratch);
        assert!(victim.exists());
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn a_file_of_another_users_is_not_read_for_a_program() {
        if !geteuid().is_root() {
            wallfinder_skip::skip("only root can give files away");
            return;
        }
        let parent = folder("owners");
        let nobody = User {
            name: "nobody".into(),
            uid: 65534,
            gid: 65534,
            groups: vec![65534],
            home: "/".into(),
            shell: String::new(),
        };
        let scratch = Scratch::within(&parent, Some(&nobody)).unwrap();
        assert_eq!(fs::metadata(scratch.path()).unwrap().uid(), 65534);
        let given = scratch.write("script", b"x").unwrap();
        assert_eq!(fs::metadata(given).unwrap().uid(), 65534);
        // Root's own file, put there by a hard link for instance.
        fs::write(scratch.path().join("report"), "root's").unwrap();
        assert!(scratch.read("report", 100).is_err());
        drop(scratch);
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn folders_that_nobody_owns_any_more_are_swept() {
        let parent = folder("sweep");
        let make = |name: &str, age_s: u64| {
            let path = parent.join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("report"), "a report").unwrap();
            let at = SystemTime::now() - Duration::from_secs(age_s);
            File::open(&path).unwrap().set_modified(at).unwrap();
            path
        };
        // No process has an id so high.
        let left = make(&format!("{PREFIX}4999999-0"), 7_200);
        let kept = [
            make(&format!("{PREFIX}4999999-1"), 60),
            make(&format!("{PREFIX}{}-0", std::process::id()), 7_200),
            make("wallfinder-other-4999999-0", 7_200),
        ];
        sweep(&parent);
        assert!(!left.exists());
        assert!(kept.iter().all(|path| path.exists()));
        fs::remove_dir_all(&parent).unwrap();
    }
}
