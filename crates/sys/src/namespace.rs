//! Network namespaces (network_namespaces(7)): which one a thread is in, and another.

use std::fs::{File, metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Moves the calling thread, and every thread and process that it starts from now on, into
/// the network namespace that a path such as `/run/netns/NAME` or `/proc/PID/ns/net` names.
/// Threads that run already stay where they are: call it from the main thread before there
/// is another one. Needs `CAP_SYS_ADMIN`.
pub fn enter_netns(path: &Path) -> io::Result<()> {
    let namespace = File::open(path)?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

/// The number by which the kernel tells namespaces apart, of the one that a path names; for
/// `None` of the calling thread's network namespace.
pub fn netns_id(path: Option<&Path>) -> io::Result<u64> {
    let own = Path::new("/proc/thread-self/ns/net");
    Ok(metadata(path.unwrap_or(own))?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_in_one_namespace_and_a_plain_file_is_none() {
        let own = netns_id(None).unwrap();
        assert_eq!(netns_id(Some(Path::new("/proc/self/ns/net"))).unwrap(), own);
        assert!(enter_netns(Path::new("/proc/self/status")).is_err());
        assert_eq!(netns_id(None).unwrap(), own);
    }
}
