//! One controller at a time squeezes a host: our folder is locked as long as one does, and a socket's name says who.
//!
//! The kernel lets go of both with the process, whatever ends it, so nothing of them is ever left.

use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use wallfinder_sys::clock;

use super::folder::Folder;
use super::own_folder;
use crate::error::TestbedError;

/// What stands before who squeezes, in the abstract name of a socket.
const NAME: &str = "wallfinder-squeezed-by ";
/// Names of sockets are short.
const WHO_CHARS_MAX: usize = 50;

/// Held while a controller squeezes this host.
#[derive(Debug)]
pub struct SqueezeLock {
    _folder: Folder,
    _name: Option<UnixDatagram>,
}

impl SqueezeLock {
    /// Takes it for `who`; refused, with the name of who has it, while another does.
    pub fn take(who: &str) -> Result<SqueezeLock, TestbedError> {
        SqueezeLock::take_in(own_folder()?, who)
    }

    fn take_in(folder: Folder, who: &str) -> Result<SqueezeLock, TestbedError> {
        match flock(folder.dir(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(SqueezeLock {
                _folder: folder,
                _name: named(who),
            }),
            Err(Errno::WOULDBLOCK) => Err(taken()),
            Err(error) => Err(TestbedError::at("lock", folder.path(), &error.into())),
        }
    }
}

/// A socket that nobody talks to, for its name.
fn named(who: &str) -> Option<UnixDatagram> {
    let plain = |c: &char| c.is_ascii_graphic() || *c == ' ';
    let who: String = who.chars().filter(plain).take(WHO_CHARS_MAX).collect();
    let seconds = clock::realtime_ns() / 1_000_000_000 % 86_400;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let name = format!(
        "{NAME}{who}, since {hours:02}:{minutes:02}:{:02} UTC",
        seconds % 60
    );
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()
}

fn taken() -> TestbedError {
    let sockets = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let who = sockets.lines().find_map(|line| line.split_once(NAME));
    let who = who.map_or_else(String::new, |(_, who)| format!(" ({who})"));
    TestbedError::refused(
        "squeezing this host",
        format!("another controller does{who}, and two at a time would measure each other"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_who_is_said() {
        let path = std::env::temp_dir().join(format!("wf-lock-{}", std::process::id()));
        let folder = || Folder::make(&path).expect("a folder");
        let first = SqueezeLock::take_in(folder(), "root@one\n (4711)").expect("nobody has it");
        let refused = SqueezeLock::take_in(folder(), "root@two").expect_err("it is taken");
        let refused = refused.to_string();
        assert!(refused.contains("(root@one (4711), since "), "{refused}");
        drop(first);
        assert!(SqueezeLock::take_in(folder(), "root@two").is_ok());
        fs::remove_dir(&path).expect("nothing is left in it");
    }
}
