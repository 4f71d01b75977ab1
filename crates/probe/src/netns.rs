//! Network namespaces: telling them apart, and acting inside one.
//!
//! Which namespace a process is in can be told without privilege: the files under `/proc/PID/net`
//! have inode numbers of their own in each. To act inside one (open a netlink socket there) takes
//! `CAP_SYS_ADMIN`.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A number that is the same for processes in the same network namespace.
pub(crate) fn id_of(pid: Option<u32>) -> io::Result<u64> {
    Ok(fs::metadata(folder(pid).join("tcp"))?.ino())
}

/// `/proc/PID/net`; for `None` that of the calling thread.
pub(crate) fn folder(pid: Option<u32>) -> PathBuf {
    match pid {
        Some(pid) => PathBuf::from(format!("/proc/{pid}/net")),
        None => PathBuf::from("/proc/thread-self/net"),
    }
}

/// Runs `act` in the network namespace of a process, on a thread of its own unless that is where
/// the caller is already. Sockets that `act` opens stay in that namespace.
pub(crate) fn inside<T: Send>(
    pid: Option<u32>,
    act: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let Some(pid) = pid else {
        return act();
    };
    if id_of(Some(pid))? == id_of(None)? {
        return act();
    }
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("wf-netns".to_owned())
            .spawn_scoped(scope, || {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                act()
            })?;
        thread
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread inside the namespace panicked")))
    })
}
