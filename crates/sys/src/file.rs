//! What a user names to be read, read whole: up to a bound, by a deadline, and never from a device.
//!
//! What it is not: a way to read `/proc`, a record, or anything that this program wrote itself.

use std::fmt;
use std::fs::{File, FileType};
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// How long everything that is read may take.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Where bytes are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A regular file.
    File(PathBuf),
    /// A regular file or a pipe. A pipe can be read once.
    FileOrPipe(PathBuf),
    /// Standard input, whatever it is. It can be read once.
    StandardInput,
}

/// Why something was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// In the system's words.
    Io(String),
    /// It is no regular file, but this.
    Is(&'static str),
    /// There is more of it than this.
    TooLong {
        /// The bound.
        bytes_max: u64,
    },
    /// It had not ended by then.
    Late {
        /// The deadline.
        after: Duration,
    },
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Io(why) => f.write_str(why),
            Unread::Is(what) => write!(f, "it is {what}; name a regular file"),
            Unread::TooLong { bytes_max } => match bytes_max % (1 << 20) {
                0 => write!(f, "it is longer than {} MiB", bytes_max >> 20),
                _ => write!(f, "it is longer than {bytes_max} bytes"),
            },
            Unread::Late { after } => write!(
                f,
                "it did not end within {:.0} s; is there a writer at its other end?",
                after.as_secs_f64()
            ),
        }
    }
}

impl std::error::Error for Unread {}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        Unread::Io(error.to_string())
    }
}

/// Reads all of it, if that is at most `bytes_max` and arrives within `patience`.
///
/// The reading is done by a thread, which is left behind where the deadline passes: a call to open
/// or to read a pipe has no deadline of its own.
pub fn read(source: Source, bytes_max: u64, patience: Duration) -> Result<Vec<u8>, Unread> {
    let (give, taken) = mpsc::channel();
    thread::spawn(move || {
        // Nobody listens any more where the deadline has passed.
        let _ = give.send(read_now(&source, bytes_max));
    });
    taken
        .recv_timeout(patience)
        .unwrap_or(Err(Unread::Late { after: patience }))
}

/// [`read`] of text. Bytes that are no UTF-8 are told with their place.
pub fn read_text(source: Source, bytes_max: u64, patience: Duration) -> Result<String, Unread> {
    let bytes = read(source, bytes_max, patience)?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Unread::Io(format!("it is no text: byte {at} is not UTF-8"))
    })
}

fn read_now(source: &Source, bytes_max: u64) -> Result<Vec<u8>, Unread> {
    match source {
        Source::StandardInput => up_to(io::stdin().lock(), bytes_max),
        Source::File(path) => up_to(opened(path, false)?, bytes_max),
        Source::FileOrPipe(path) => up_to(opened(path, true)?, bytes_max),
    }
}

/// Opens nothing but what may be read: opening alone acts on some devices.
fn opened(path: &Path, or_pipe: bool) -> Result<File, Unread> {
    let check = |kind: FileType| match kind {
        kind if kind.is_file() || (or_pipe && kind.is_fifo()) => Ok(()),
        kind => Err(Unread::Is(name_of(kind))),
    };
    check(path.metadata()?.file_type())?;
    let file = File::open(path)?;
    // Another file may have taken its name.
    check(file.metadata()?.file_type())?;
    Ok(file)
}

fn name_of(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

fn up_to(from: impl Read, bytes_max: u64) -> Result<Vec<u8>, Unread> {
    let mut bytes = Vec::new();
    from.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Unread::TooLong { bytes_max });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const SOON: Duration = Duration::from_millis(200);

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("wf-read-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn pipe(&self) -> PathBuf {
            let path = self.0.join("pipe");
            let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
            let fifo = rustix::fs::FileType::Fifo;
            rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_has_no_end_is_refused_before_it_is_read() {
        for device in ["/dev/zero", "/dev/urandom", "/dev/null", "/dev/tty"] {
            for source in [Source::File, Source::FileOrPipe] {
                let refused = read(source(device.into()), 1 << 20, SOON);
                assert_eq!(refused, Err(Unread::Is("a device")), "{device}");
            }
        }
        let refused = read(Source::File("/".into()), 1 << 20, SOON);
        assert_eq!(refused, Err(Unread::Is("a folder")));
    }

    #[test]
    fn a_link_to_a_device_is_a_device() {
        let folder = Folder::new("link");
        let link = folder.0.join("body");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        let refused = read(Source::FileOrPipe(link), 1 << 20, SOON);
        assert_eq!(refused, Err(Unread::Is("a device")));
    }

    #[test]
    fn a_file_is_read_up_to_its_bound_and_not_beyond() {
        let folder = Folder::new("bound");
        let path = folder.0.join("body");
        std::fs::write(&path, b"12345678").unwrap();
        let read_up_to = |bytes_max| read(Source::File(path.clone()), bytes_max, PATIENCE);
        assert_eq!(read_up_to(8), Ok(b"12345678".to_vec()));
        assert_eq!(read_up_to(7), Err(Unread::TooLong { bytes_max: 7 }));
        // It has no blocks at all, and would fill the memory.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let bytes_max = 1 << 20;
        assert_eq!(read_up_to(bytes_max), Err(Unread::TooLong { bytes_max }));
    }

    #[test]
    fn a_pipe_that_nobody_writes_to_ends_at_the_deadline() {
        let folder = Folder::new("silent");
        let pipe = folder.pipe();
        let late = read(Source::FileOrPipe(pipe.clone()), 8, SOON);
        assert_eq!(late, Err(Unread::Late { after: SOON }));
        let refused = read(Source::File(pipe), 8, SOON);
        assert_eq!(refused, Err(Unread::Is("a pipe")));
    }

    #[test]
    fn a_pipe_is_read_to_its_end() {
        let folder = Folder::new("pipe");
        let pipe = folder.pipe();
        let other_end = pipe.clone();
        let writer = thread::spawn(move || {
            let mut file = File::options().write(true).open(other_end).unwrap();
            file.write_all(b"whole").unwrap();
        });
        let bytes = read(Source::FileOrPipe(pipe), 8, PATIENCE);
        writer.join().unwrap();
        assert_eq!(bytes, Ok(b"whole".to_vec()));
    }

    #[test]
    fn what_is_no_text_is_told_with_its_place() {
        let folder = Folder::new("text");
        let path = folder.0.join("text");
        std::fs::write(&path, b"ab\xff").unwrap();
        let error = read_text(Source::File(path), 8, PATIENCE).unwrap_err();
        assert!(error.to_string().contains("byte 2"), "{error}");
    }
}
