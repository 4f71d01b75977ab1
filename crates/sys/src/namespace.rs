//! Network namespaces (network_namespaces(7)): which one a thread is in, and another.

use std::fs::{File, OpenOptions, metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FsWord, fstatfs};
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// `NSFS_MAGIC` of <linux/magic.h>.
const NAMESPACES: FsWord = 0x6e73_6673;
/// `SO_NETNS_COOKIE` of <asm-generic/socket.h>, Linux 5.14.
const COOKIE: libc::c_int = 71;

/// A namespace that is held open: it stays what it is, whatever becomes of its path.
#[derive(Debug)]
pub struct Netns(File);

impl Netns {
    /// Opens what a path such as `/run/netns/NAME` or `/proc/PID/ns/net` names. Anything that is
    /// no namespace is refused before it is opened, so that a FIFO or a device does nothing.
    pub fn open(path: &Path) -> io::Result<Netns> {
        let place = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(path)?;
        if fstatfs(&place)?.f_type != NAMESPACES {
            let why = format!("{} is no namespace", path.display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        File::open(format!("/proc/self/fd/{}", place.as_raw_fd())).map(Netns)
    }

    /// The number by which the kernel tells it from those that are there at the same time.
    pub fn id(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.ino())
    }

    /// Moves the calling thread into it, as [`enter_netns`] does.
    pub fn enter(&self) -> io::Result<()> {
        move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?;
        Ok(())
    }
}

/// Moves the calling thread, and every thread and process that it starts from now on, into
/// the network namespace that a path such as `/run/netns/NAME` or `/proc/PID/ns/net` names.
/// Threads that run already stay where they are: call it from the main thread before there
/// is another one. Needs `CAP_SYS_ADMIN`.
pub fn enter_netns(path: &Path) -> io::Result<()> {
    Netns::open(path)?.enter()
}

/// The number by which the kernel tells namespaces apart, of the one that a path names; for
/// `None` of the calling thread's network namespace. One that is gone leaves its number to the
/// next: see [`netns_cookie`].
pub fn netns_id(path: Option<&Path>) -> io::Result<u64> {
    let own = Path::new("/proc/thread-self/ns/net");
    Ok(metadata(path.unwrap_or(own))?.ino())
}

/// A number that no other network namespace has until the next boot, of the calling thread's;
/// `None` before Linux 5.14.
pub fn netns_cookie() -> Option<u64> {
    let socket = socket(AddressFamily::UNIX, SocketType::DGRAM, None).ok()?;
    let mut cookie = 0_u64;
    let mut size = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the socket is open, and the kernel writes `size` bytes at the most to `cookie`,
    // which live through the call.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            COOKIE,
            (&raw mut cookie).cast(),
            &raw mut size,
        )
    };
    (got == 0 && size as usize == size_of::<u64>()).then_some(cookie)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_in_one_namespace_and_a_plain_file_is_none() {
        let own = netns_id(None).unwrap();
        assert_eq!(netns_id(Some(Path::new("/proc/self/ns/net"))).unwrap(), own);
        let held = Netns::open(Path::new("/proc/self/ns/net")).unwrap();
        assert_eq!(held.id().unwrap(), own);
        for other in ["/proc/self/status", "/dev/null", "/"] {
            let error = enter_netns(Path::new(other)).unwrap_err().to_string();
            assert!(error.contains("no namespace"), "{other}: {error}");
        }
        assert_eq!(netns_id(None).unwrap(), own);
        assert_eq!(netns_cookie(), netns_cookie());
    }
}
