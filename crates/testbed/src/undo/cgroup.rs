//! Control groups in the journal: opened without following a link, checked to be groups, and
//! changed through that descriptor.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, FsWord, Mode, OFlags, fstat, fstatfs, openat, statat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use wallfinder_probe::parse::cgroup;

use super::owner::{GROUP_PREFIX, Tag};
use crate::error::TestbedError;

/// `CGROUP_SUPER_MAGIC` and `CGROUP2_SUPER_MAGIC` of <linux/magic.h>.
const GROUPS: [FsWord; 2] = [0x0027_e0eb, 0x6367_7270];
/// How long a group may take to become empty.
const EMPTY_WAIT_MAX: Duration = Duration::from_secs(3);
/// The longest text of a quota.
const QUOTA_BYTES_MAX: usize = 64;
/// Bytes that are read of a group's file: the processes moved in one go, at the most.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where a group is: an absolute path without detours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PathBuf", into = "PathBuf")]
pub(crate) struct GroupPath(PathBuf);

/// Where a group of ours is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "PathBuf", into = "PathBuf")]
pub(crate) struct OwnGroup(GroupPath);

impl TryFrom<PathBuf> for GroupPath {
    type Error = String;

    fn try_from(path: PathBuf) -> Result<GroupPath, String> {
        let mut parts = path.components();
        let is_plain = parts.next() == Some(Component::RootDir)
            && parts.all(|part| matches!(part, Component::Normal(_)));
        match is_plain {
            true => Ok(GroupPath(path)),
            false => Err(format!("{} is no control group", path.display())),
        }
    }
}

impl TryFrom<PathBuf> for OwnGroup {
    type Error = String;

    fn try_from(path: PathBuf) -> Result<OwnGroup, String> {
        match OwnGroup::tag_in(&path) {
            Some(_) => Ok(OwnGroup(path.try_into()?)),
            None => Err(format!("{} is no group of Wallfinder", path.display())),
        }
    }
}

impl From<GroupPath> for PathBuf {
    fn from(path: GroupPath) -> PathBuf {
        path.0
    }
}

impl From<OwnGroup> for PathBuf {
    fn from(group: OwnGroup) -> PathBuf {
        group.0.0
    }
}

impl GroupPath {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl OwnGroup {
    /// The tag of a group of ours.
    pub(super) fn tag_in(path: &Path) -> Option<Tag> {
        let name = path.file_name()?.to_str()?;
        Tag::of_name(name.strip_prefix(GROUP_PREFIX)?)
    }

    pub(super) fn tag(&self) -> Option<Tag> {
        OwnGroup::tag_in(self.path())
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Moves what is in it back to where it was, and removes it.
    pub(super) fn remove(&self, back: &GroupPath) -> Result<(), TestbedError> {
        let Some(group) = OpenGroup::at(&self.0)? else {
            return Ok(());
        };
        let back = OpenGroup::at(back)?;
        let until = Instant::now() + EMPTY_WAIT_MAX;
        loop {
            let inside = group.read("cgroup.procs").unwrap_or_default();
            for pid in inside.lines() {
                // One that ended meanwhile needs no moving.
                if let Some(back) = &back {
                    let _ = back.write("cgroup.procs", pid);
                }
            }
            match group.unlink() {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > until => {
                    // Where they were may be gone. They stay, and are held no more.
                    let _ = group.write("cpu.max", "max");
                    let error = error.into();
                    return Err(TestbedError::at(
                        "remove the control group",
                        self.path(),
                        &error,
                    ));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Lets its processes go on.
    pub(super) fn thaw(&self) -> Result<(), TestbedError> {
        let Some(group) = OpenGroup::at(&self.0)? else {
            return Ok(());
        };
        for (file, word) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
            match group.write(file, word) {
                Ok(()) | Err(Errno::NOENT | Errno::NODEV) => {}
                Err(error) => return Err(TestbedError::at("thaw", self.path(), &error.into())),
            }
        }
        Ok(())
    }
}

/// A quota of version 2 as it stood, in the kernel's words: `max 100000`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct QuotaText(String);

impl TryFrom<String> for QuotaText {
    type Error = String;

    fn try_from(text: String) -> Result<QuotaText, String> {
        let is_one = text.len() <= QUOTA_BYTES_MAX && cgroup::cpu_max(text.as_bytes()).is_some();
        match is_one {
            true => Ok(QuotaText(text)),
            false => Err("no quota of a control group".into()),
        }
    }
}

impl From<QuotaText> for String {
    fn from(text: QuotaText) -> String {
        text.0
    }
}

/// Puts back a quota, where the group is still the one that had it.
pub(super) fn restore_quota(
    path: &GroupPath,
    id: u64,
    text: &QuotaText,
) -> Result<(), TestbedError> {
    let Some(group) = OpenGroup::at(path)? else {
        return Ok(());
    };
    group.restore_quota(id, text)
}

/// A group that is held open.
#[derive(Debug)]
pub(crate) struct OpenGroup {
    above: OwnedFd,
    dir: OwnedFd,
    path: PathBuf,
}

impl OpenGroup {
    /// `None`: it is gone.
    fn at(path: &GroupPath) -> Result<Option<OpenGroup>, TestbedError> {
        let Some(group) = OpenGroup::folder(path.path())? else {
            return Ok(None);
        };
        let found = fstatfs(&group.dir);
        let found = found.map_err(|e| TestbedError::at("open", path.path(), &e.into()))?;
        match GROUPS.contains(&found.f_type) {
            true => Ok(Some(group)),
            false => {
                let what = format!("changing {}", path.path().display());
                Err(TestbedError::refused(what, "it is no control group"))
            }
        }
    }

    /// A folder, with no link on the way to it.
    pub(crate) fn folder(path: &Path) -> Result<Option<OpenGroup>, TestbedError> {
        let failed = |e: Errno| TestbedError::at("open without links", path, &e.into());
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(failed(Errno::INVAL));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let steps = parent.iter().chain([name]);
        let mut way: [Option<OwnedFd>; 2] = [None, None];
        for step in steps {
            let [_, from] = &mut way;
            let opened = match &from {
                None => openat(CWD, step, flags, Mode::empty()),
                Some(from) => openat(from, step, flags, Mode::empty()),
            };
            match opened {
                Ok(next) => way = [from.take(), Some(next)],
                Err(Errno::NOENT) => return Ok(None),
                Err(error) => return Err(failed(error)),
            }
        }
        let [Some(above), Some(dir)] = way else {
            return Err(failed(Errno::INVAL));
        };
        let path = path.to_owned();
        Ok(Some(OpenGroup { above, dir, path }))
    }

    fn read(&self, file: &str) -> Result<String, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&self.dir, file, flags, Mode::empty())?);
        let mut text = String::new();
        let read = file.take(FILE_BYTES_MAX).read_to_string(&mut text);
        read.map(|_| text).map_err(errno)
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(&self.dir, file, flags, Mode::empty())?);
        file.write_all(text.as_bytes()).map_err(errno)
    }

    pub(crate) fn restore_quota(&self, id: u64, text: &QuotaText) -> Result<(), TestbedError> {
        if fstat(&self.dir).is_ok_and(|found| found.st_ino != id) {
            // Another one has its name since.
            return Ok(());
        }
        match self.write("cpu.max", &text.0) {
            // It is being removed.
            Ok(()) | Err(Errno::NOENT | Errno::NODEV) => Ok(()),
            Err(error) => {
                let file = self.path.join("cpu.max");
                Err(TestbedError::at(
                    "put back the quota in",
                    &file,
                    &error.into(),
                ))
            }
        }
    }

    /// Removes it, where its name still leads to it.
    fn unlink(&self) -> Result<(), Errno> {
        let name = self.path.file_name().unwrap_or_default();
        let own = fstat(&self.dir)?;
        match statat(&self.above, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(there) if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino) => {}
            Ok(_) | Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(error),
        }
        match unlinkat(&self.above, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOENT) => Ok(()),
            done => done,
        }
    }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
