//! Folders that are held open, and what is in them by one name each. Nothing is looked up twice, so who
//! may change the path that led here cannot lead elsewhere what is made, written or read through it.
//!
//! What is made belongs to its maker alone, under `sudo` to its caller: folders are 0700, files 0600. A link that stands where a name
//! is made, opened or written is an error; only [`walk`] follows links, and only those of whom it trusts.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{
    self as fs, AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, fstatfs, mkdirat, openat,
    readlinkat, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::{Gid, Uid, geteuid};

const FOLDER: Mode = Mode::RWXU;
const FILE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Links on the way of a path, as the kernel bounds them.
const LINKS_MAX: usize = 40;

/// Opens a folder by its path as the kernel does, links included: for reading what somebody names.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(fs::open(path, flags, Mode::empty())?)
}

/// Opens a folder inside of another one.
pub fn enter(at: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(at, one(name)?, flags, Mode::empty())?)
}

/// The user and group on whose behalf root acts: those of `sudo`, where it started this process.
fn caller() -> Option<(u32, u32)> {
    let number = |name| std::env::var(name).ok()?.parse::<u32>().ok();
    let (user, group) = (number("SUDO_UID")?, number("SUDO_GID")?);
    (geteuid().is_root() && user != 0).then_some((user, group))
}

/// Gives what this process has just made to the user on whose behalf it acts as root: that user is to read it,
/// and to remove it, without being root.
pub fn give_to_caller(made: impl AsFd) -> io::Result<()> {
    let Some((user, group)) = caller() else {
        return Ok(());
    };
    let (user, group) = (Uid::from_raw(user), Gid::from_raw(group));
    Ok(fs::fchown(made, Some(user), Some(group))?)
}

/// Makes a folder inside of another one; whatever has its name already is an error.
pub fn make(at: impl AsFd, name: &OsStr) -> io::Result<()> {
    Ok(mkdirat(at, one(name)?, FOLDER)?)
}

/// Makes a file to write, or to append to; whatever has its name already is an error.
pub fn create(at: impl AsFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
    Ok(openat(at, one(name)?, flags | OFlags::CLOEXEC, FILE)?.into())
}

/// Opens a file to read. Of a pipe nobody is waited for; whether it is one is for the caller to see.
pub fn read(at: impl AsFd, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(openat(at, one(name)?, flags | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// The same for a path that somebody names: links are followed.
pub fn read_path(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(fs::open(path, flags, Mode::empty())?.into())
}

/// Gives what has a name another one, in whose place it comes.
pub fn rename(at: impl AsFd, from: &OsStr, to: &OsStr) -> io::Result<()> {
    let at = at.as_fd();
    Ok(renameat(at, one(from)?, at, one(to)?)?)
}

/// Takes away a file, or a link and not what it leads to.
pub fn remove(at: impl AsFd, name: &OsStr) -> io::Result<()> {
    Ok(unlinkat(at, one(name)?, AtFlags::empty())?)
}

/// Makes a link.
pub fn link(at: impl AsFd, name: &OsStr, target: &OsStr) -> io::Result<()> {
    Ok(symlinkat(target, at, one(name)?)?)
}

/// Where a link leads; `None`: nothing of that name, or no link.
pub fn link_target(at: impl AsFd, name: &OsStr) -> io::Result<Option<PathBuf>> {
    match readlinkat(at, one(name)?, Vec::new()) {
        Ok(target) => Ok(Some(OsString::from_vec(target.into_bytes()).into())),
        Err(Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether there is something of a name that is no link.
pub fn is_no_link(at: impl AsFd, name: &OsStr) -> io::Result<bool> {
    match statat(at, one(name)?, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(!is(&stat, FileType::Symlink)),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Names in a folder, in no order.
pub fn names(at: impl AsFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(at)? {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

/// Who could change what is in a folder, beside this process's user, root, and who called it as root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// Nobody.
    None,
    /// The user that it belongs to.
    Owner(u32),
    /// Whoever is neither: it is theirs to write, and has no sticky bit.
    Anybody,
}

/// Who else could change what is in a folder. Where the sticky bit is set, names belong to who made them.
pub fn others(at: impl AsFd) -> io::Result<Others> {
    const STICKY: u32 = 0o1000;
    let stat = fstat(at)?;
    let group_is_ours = stat.st_gid == rustix::process::getegid().as_raw();
    let open = match group_is_ours {
        true => 0o002,
        false => 0o022,
    };
    Ok(if !is_trusted(stat.st_uid) {
        Others::Owner(stat.st_uid)
    } else if stat.st_mode & open != 0 && stat.st_mode & STICKY == 0 {
        Others::Anybody
    } else {
        Others::None
    })
}

/// Whether a folder belongs to this process's user, or to the one on whose behalf it acts as root, and
/// nobody else can write in it.
pub fn is_ours(at: impl AsFd) -> io::Result<bool> {
    let at = at.as_fd();
    let owner = fstat(at)?.st_uid;
    let is_callers = caller().is_some_and(|(user, _)| owner == user);
    let is_own = owner == geteuid().as_raw() || is_callers;
    Ok(is_own && others(at)? == Others::None)
}

/// Opens the folder of a path, and makes what is missing of it where `makes`. A link on the way is followed
/// if it belongs to this process's user or to root: anybody else could have put it there to lead us.
pub fn walk(path: &Path, makes: bool) -> io::Result<OwnedFd> {
    let start = if path.is_absolute() { "/" } else { "." };
    let mut at = fs::open(start, O_PATH.union(OFlags::DIRECTORY), Mode::empty())?;
    let mut rest: VecDeque<OsString> = parts(path);
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        let next = match openat(&at, &name, O_PATH | OFlags::NOFOLLOW, Mode::empty()) {
            Err(Errno::NOENT) if makes => {
                match mkdirat(&at, &name, FOLDER) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                openat(&at, &name, O_PATH | OFlags::NOFOLLOW, Mode::empty())?
            }
            other => other?,
        };
        if !is(&fstat(&next)?, FileType::Symlink) {
            at = next;
            continue;
        }
        links += 1;
        match followed(&at, &name, &next)? {
            _ if links > LINKS_MAX => return Err(Errno::LOOP.into()),
            Followed::There(there) => at = there,
            Followed::Path(target) => {
                if target.is_absolute() {
                    at = fs::open("/", O_PATH.union(OFlags::DIRECTORY), Mode::empty())?;
                }
                for part in parts(&target).into_iter().rev() {
                    rest.push_front(part);
                }
            }
        }
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(&at, ".", flags, Mode::empty())?)
}

/// Opens a file that somebody names, to write in it or behind its end; it is made where it is missing. A
/// link that another user put there is refused, and a file with further names where others could have
/// given it those: what it holds may be anybody's.
pub fn write_path(path: &Path, appends: bool) -> io::Result<File> {
    let how = match appends {
        true => OFlags::APPEND,
        false => OFlags::TRUNC,
    };
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Some(name) = path.file_name().map(OsStr::to_owned) else {
            return Err(Errno::ISDIR.into());
        };
        let folder = walk(path.parent().unwrap_or(Path::new("")), false)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&folder, &name, flags | OFlags::NOCTTY, Mode::from(0o666));
        match opened {
            Ok(file) => return checked(file, &folder, how),
            Err(Errno::LOOP) => {}
            Err(error) => return Err(error.into()),
        }
        let link = openat(&folder, &name, O_PATH | OFlags::NOFOLLOW, Mode::empty())?;
        match followed(&folder, &name, &link)? {
            Followed::Path(target) => path = path.parent().unwrap_or(Path::new("")).join(target),
            // Such as `/dev/stdout`: open already, and this process's own.
            Followed::There(_) => {
                let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY;
                return Ok(openat(&folder, &name, flags | how, Mode::empty())?.into());
            }
        }
    }
    Err(Errno::LOOP.into())
}

/// The file, if it is ours to write, as long as it is to be.
fn checked(file: OwnedFd, folder: &OwnedFd, how: OFlags) -> io::Result<File> {
    let stat = fstat(&file)?;
    if is(&stat, FileType::RegularFile) {
        if stat.st_nlink > 1 && others(folder)? != Others::None {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it has further names, and others may write in its folder",
            ));
        }
        match how {
            OFlags::TRUNC => fs::ftruncate(&file, 0)?,
            _ => fs::fcntl_setfl(&file, OFlags::APPEND)?,
        }
    }
    Ok(file.into())
}

const O_PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Where a link leads.
enum Followed {
    Path(PathBuf),
    /// A link of `/proc` leads to what is open, by no path.
    There(OwnedFd),
}

/// Follows a link that is held, if it is to be trusted.
fn followed(at: impl AsFd, name: &OsStr, link: &OwnedFd) -> io::Result<Followed> {
    let owner = fstat(link)?.st_uid;
    if !is_trusted(owner) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("`{}` is a link of user {owner}", name.display()),
        ));
    }
    let is_magic = fstatfs(link)?.f_type == fs::PROC_SUPER_MAGIC;
    if is_magic {
        return Ok(Followed::There(openat(at, name, O_PATH, Mode::empty())?));
    }
    let target = readlinkat(link, "", Vec::new())?;
    Ok(Followed::Path(
        OsString::from_vec(target.into_bytes()).into(),
    ))
}

fn is_trusted(owner: u32) -> bool {
    owner == 0 || owner == geteuid().as_raw() || caller().is_some_and(|(user, _)| owner == user)
}

fn is(stat: &Stat, kind: FileType) -> bool {
    FileType::from_raw_mode(stat.st_mode) == kind
}

/// What a path goes through from its start.
fn parts(path: &Path) -> VecDeque<OsString> {
    let steps = path.components().filter_map(|part| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    steps.collect()
}

/// A name that leads nowhere else.
fn one(name: &OsStr) -> io::Result<&OsStr> {
    let bytes = name.as_bytes();
    match bytes.contains(&b'/') || matches!(bytes, b"" | b"." | b"..") {
        true => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{}` is not the name of one file", name.display()),
        )),
        false => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path =
                std::env::temp_dir().join(format!("wf-folder-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    const SOMEBODY: Option<u32> = Some(12_345);

    fn is_root() -> bool {
        let is = geteuid().is_root();
        if !is {
            wallfinder_skip::skip("only root can give files to another user");
        }
        is
    }

    #[test]
    fn what_is_made_is_its_makers_alone() {
        let scratch = Scratch::new("modes");
        let at = open(&scratch.0).unwrap();
        make(&at, "in".as_ref()).unwrap();
        let inside = enter(&at, "in".as_ref()).unwrap();
        create(&inside, "file".as_ref()).unwrap();
        let mode = |name: &str| fs::metadata(scratch.0.join(name)).unwrap().mode() & 0o777;
        assert_eq!((mode("in"), mode("in/file")), (0o700, 0o600));
        assert_eq!(names(&inside).unwrap(), ["file"]);
    }

    #[test]
    fn a_name_is_of_one_thing_and_no_link() {
        let scratch = Scratch::new("names");
        fs::create_dir(scratch.0.join("to")).unwrap();
        fs::write(scratch.0.join("to/file"), "kept").unwrap();
        symlink("to", scratch.0.join("folder")).unwrap();
        symlink("to/file", scratch.0.join("file")).unwrap();
        symlink("to/new", scratch.0.join("dangling")).unwrap();
        let at = open(&scratch.0).unwrap();
        for bad in ["", ".", "..", "to/file", "/etc/passwd"] {
            assert!(read(&at, bad.as_ref()).is_err(), "{bad}");
            assert!(create(&at, bad.as_ref()).is_err(), "{bad}");
        }
        assert!(enter(&at, "folder".as_ref()).is_err());
        assert!(read(&at, "file".as_ref()).is_err());
        assert!(create(&at, "file".as_ref()).is_err());
        assert!(create(&at, "dangling".as_ref()).is_err());
        assert!(!scratch.0.join("to/new").exists());
        remove(&at, "file".as_ref()).unwrap();
        assert_eq!(fs::read(scratch.0.join("to/file")).unwrap(), b"kept");
    }

    #[test]
    fn a_walk_makes_what_is_missing_and_follows_links_of_ours_alone() {
        let scratch = Scratch::new("walk");
        fs::create_dir(scratch.0.join("to")).unwrap();
        symlink("to", scratch.0.join("ours")).unwrap();
        symlink(scratch.0.join("ours"), scratch.0.join("twice")).unwrap();
        symlink("round", scratch.0.join("round")).unwrap();
        let inode = |fd: &OwnedFd| fstat(fd).unwrap().st_ino;
        let of = |name: &str| fs::metadata(scratch.0.join(name)).unwrap().ino();
        for (path, there) in [
            ("to", "to"),
            ("ours", "to"),
            ("twice/../to/.", "to"),
            ("twice/a/b", "to/a/b"),
        ] {
            let walked = walk(&scratch.0.join(path), true).unwrap();
            assert_eq!(inode(&walked), of(there), "{path}");
        }
        assert!(walk(&scratch.0.join("none"), false).is_err());
        assert!(walk(&scratch.0.join("round"), true).is_err());
        if is_root() {
            lchown(scratch.0.join("ours"), SOMEBODY, None).unwrap();
            for path in ["ours", "twice/c"] {
                let error = walk(&scratch.0.join(path), true).unwrap_err();
                assert!(error.to_string().contains("link of user 12345"), "{error}");
            }
            assert!(!scratch.0.join("to/c").exists());
        }
    }

    #[test]
    fn who_else_may_write_in_a_folder_is_told() {
        let scratch = Scratch::new("others");
        let at = open(&scratch.0).unwrap();
        let told = |mode: u32| {
            fs::set_permissions(&scratch.0, fs::Permissions::from_mode(mode)).unwrap();
            others(&at).unwrap()
        };
        assert_eq!(told(0o700), Others::None);
        assert_eq!(told(0o775), Others::None, "a group of one's own");
        assert_eq!(told(0o777), Others::Anybody);
        assert_eq!(told(0o1777), Others::None);
        assert!(is_ours(&at).unwrap());
        if is_root() {
            chown(&scratch.0, None, SOMEBODY).unwrap();
            assert_eq!(told(0o770), Others::Anybody);
            assert_eq!(told(0o750), Others::None);
            chown(&scratch.0, SOMEBODY, None).unwrap();
            assert_eq!(told(0o700), Others::Owner(12_345));
            assert!(!is_ours(&at).unwrap());
        }
    }

    #[test]
    fn a_file_that_is_named_is_written_and_no_other() {
        use std::io::Write;
        let scratch = Scratch::new("named");
        let path = |name: &str| scratch.0.join(name);
        let put = |name: &str, appends: bool, text: &str| {
            write_path(&path(name), appends)?.write_all(text.as_bytes())
        };
        put("new", false, "some words").unwrap();
        put("new", false, "words").unwrap();
        put("new", true, "!").unwrap();
        symlink("new", path("ours")).unwrap();
        put("ours", true, "!").unwrap();
        assert_eq!(fs::read_to_string(path("new")).unwrap(), "words!!");
        put("/dev/null", false, "anything").unwrap();
        assert!(put("none/file", false, "").is_err());
        assert!(put("..", false, "").is_err());
        if is_root() {
            // A folder of somebody who waits for root.
            fs::write(path("precious"), "kept").unwrap();
            fs::create_dir(path("theirs")).unwrap();
            for (link, to) in [("link", "../precious"), ("fresh", "../made")] {
                symlink(to, path("theirs").join(link)).unwrap();
                lchown(path("theirs").join(link), SOMEBODY, None).unwrap();
            }
            fs::hard_link(path("precious"), path("theirs/hard")).unwrap();
            chown(path("theirs"), SOMEBODY, None).unwrap();
            for name in ["theirs/link", "theirs/fresh", "theirs/hard"] {
                for appends in [true, false] {
                    assert!(put(name, appends, "gone").is_err(), "{name}");
                }
            }
            assert_eq!(fs::read_to_string(path("precious")).unwrap(), "kept");
            assert!(!path("made").exists());
            put("theirs/plain", false, "words").unwrap();
        }
    }
}
