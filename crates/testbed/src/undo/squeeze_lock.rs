//! One controller at a time squeezes a host: a file that is locked as long as one does, and says who.

use std::fs::File;
use std::io::{Read, Write};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use wallfinder_sys::clock;

use super::folder::Folder;
use super::own_folder;
use crate::error::TestbedError;

const NAME: &str = "squeezed-by";
/// How often a file that somebody just removed is looked for again.
const TRIES_MAX: usize = 20;
const WHO_BYTES_MAX: u64 = 300;

/// Held while a controller squeezes this host.
#[derive(Debug)]
pub struct SqueezeLock {
    folder: Folder,
    _file: File,
}

impl SqueezeLock {
    /// Takes it for `who`; refused, with the name of who has it, while another does.
    pub fn take(who: &str) -> Result<SqueezeLock, TestbedError> {
        SqueezeLock::take_in(own_folder()?, who)
    }

    fn take_in(folder: Folder, who: &str) -> Result<SqueezeLock, TestbedError> {
        let path = folder.path().join(NAME);
        let failed = |error: Errno| TestbedError::at("lock", &path, &error.into());
        for _ in 0..TRIES_MAX {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file =
                openat(folder.dir(), NAME, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(taken(file.into())),
                Err(error) => return Err(failed(error)),
            }
            // Who had it before removes it last.
            let named = statat(folder.dir(), NAME, AtFlags::SYMLINK_NOFOLLOW);
            let own = fstat(&file).map_err(failed)?;
            if named.is_ok_and(|named| named.st_ino == own.st_ino) {
                let mut file = File::from(file);
                let seconds = clock::realtime_ns() / 1_000_000_000 % 86_400;
                let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
                let text = format!(
                    "{who}, since {hours:02}:{minutes:02}:{:02} UTC",
                    seconds % 60
                );
                let written = file
                    .set_len(0)
                    .and_then(|()| file.write_all(text.as_bytes()));
                written.map_err(|error| TestbedError::at("write", &path, &error))?;
                return Ok(SqueezeLock {
                    folder,
                    _file: file,
                });
            }
        }
        Err(failed(Errno::AGAIN))
    }
}

impl Drop for SqueezeLock {
    fn drop(&mut self) {
        let _ = unlinkat(self.folder.dir(), NAME, AtFlags::empty());
    }
}

fn taken(file: File) -> TestbedError {
    let mut who = String::new();
    let _ = file.take(WHO_BYTES_MAX).read_to_string(&mut who);
    TestbedError::refused(
        "squeezing this host",
        format!("another controller does ({who}), and two at a time would measure each other"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_and_who_is_said() {
        let path = std::env::temp_dir().join(format!("wf-lock-{}", std::process::id()));
        let folder = || Folder::make(&path).expect("a folder");
        let first = SqueezeLock::take_in(folder(), "root@one (4711)").expect("nobody has it");
        let refused = SqueezeLock::take_in(folder(), "root@two").expect_err("it is taken");
        let refused = refused.to_string();
        assert!(refused.contains("root@one (4711), since "), "{refused}");
        drop(first);
        assert!(SqueezeLock::take_in(folder(), "root@two").is_ok());
        std::fs::remove_dir(&path).expect("nothing is left in it");
    }
}
