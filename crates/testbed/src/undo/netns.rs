//! Network namespaces in the journal: found again whoever looks for them, opened, checked, and
//! then entered or deleted.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, openat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use serde::{Deserialize, Serialize};
use wallfinder_sys::namespace::{self, netns_cookie, netns_id};

use super::step::{LINK, NETNS_FOLDER, OwnName};
use crate::error::TestbedError;
use crate::iproute;

/// A network namespace, found again whoever looks for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Netns {
    /// Its number; see [`netns_id`].
    pub(crate) id: u64,
    /// What no other has until the next boot, where the kernel tells it: see [`netns_cookie`].
    pub(crate) cookie: Option<u64>,
    /// A name that it had.
    pub(crate) path: Option<PathBuf>,
}

impl Netns {
    /// The one that a path names; for `None` that of the calling thread.
    pub(crate) fn of(path: Option<&Path>) -> Result<Netns, TestbedError> {
        let opened = path.map(namespace::Netns::open).transpose();
        let opened = opened.map_err(|e| TestbedError::failed("open a network namespace", e))?;
        let looked = iproute::within(opened.as_ref(), || Ok((netns_id(None), netns_cookie())));
        let (id, cookie) = looked?;
        Ok(Netns {
            id: id.map_err(|e| TestbedError::failed("look at a network namespace", e))?,
            cookie,
            path: path.map(Path::to_owned),
        })
    }

    /// Runs a command of `ip` or `tc` in it, unless it is gone.
    pub(crate) fn run(&self, words: &[&str], lock: &File) -> Result<(), TestbedError> {
        let found = match self.find() {
            Found::Here => None,
            Found::At(namespace) => Some(namespace),
            Found::Gone => return Ok(()),
        };
        let lock = lock.try_clone();
        let lock = lock.map_err(|e| TestbedError::failed("share the journal's lock", e))?;
        iproute::within(found.as_ref(), || {
            let is_another = self.cookie.is_some() && self.cookie != netns_cookie();
            // One that is gone leaves its number to the next.
            match is_another || netns_id(None).is_ok_and(|id| id != self.id) {
                true => Ok(()),
                false => iproute::run(words, Some(lock)).map(drop),
            }
        })
    }

    fn find(&self) -> Found {
        if netns_id(None).is_ok_and(|id| id == self.id) {
            return Found::Here;
        }
        let opened = |path: &Path| {
            let namespace = namespace::Netns::open(path).ok()?;
            let is_it = namespace.id().is_ok_and(|id| id == self.id);
            is_it.then_some(namespace)
        };
        if let Some(found) = self.path.as_deref().and_then(opened) {
            return Found::At(found);
        }
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut namespaces = processes.map(|process| process.path().join("ns/net"));
        namespaces
            .find_map(|path| opened(&path))
            .map_or(Found::Gone, Found::At)
    }
}

/// Where a namespace is, as seen from here.
enum Found {
    Here,
    At(namespace::Netns),
    Gone,
}

/// Deletes one of ours as `ip netns delete` does, by the descriptor of its folder.
pub(super) fn delete(name: &OwnName, lock: &File) -> Result<(), TestbedError> {
    let path = Path::new(NETNS_FOLDER).join(&**name);
    let failed = |e: Errno| TestbedError::at("delete the network namespace", &path, &e.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match open(NETNS_FOLDER, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = match openat(&folder, &**name, flags, Mode::empty()) {
        Ok(found) => found,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    // A namespace that is mounted there, or the empty file that it was to be mounted on.
    let kind = FileType::from_raw_mode(fstat(&found).map_err(failed)?.st_mode);
    if kind != FileType::RegularFile {
        let what = format!("deleting {}", path.display());
        return Err(TestbedError::refused(what, "it is no network namespace"));
    }
    let there = PathBuf::from(format!("/proc/self/fd/{}", found.as_raw_fd()));
    if let Ok(namespace) = namespace::Netns::open(&there) {
        // The link goes at once, also its other end, which may be in a namespace that stays; the
        // namespace itself goes when nobody is in it any more.
        let lock = lock.try_clone();
        let lock = lock.map_err(|e| TestbedError::failed("share the journal's lock", e))?;
        let words = ["ip", "link", "delete", "dev", LINK];
        let _ = iproute::within(Some(&namespace), || iproute::run(&words, Some(lock)));
    }
    let mounted = format!("/proc/self/fd/{}/{}", folder.as_raw_fd(), &**name);
    match unmount(mounted, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        // EINVAL: nothing is mounted there.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
        Err(error) => return Err(failed(error)),
    }
    match unlinkat(&folder, &**name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
