//! A request's body as the user gives it: on the command line, in a file, by a pipe or on standard
//! input. It is never shown.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use wallfinder_sys::file::{self, Source};

use crate::exit::Failed;

/// Most that is sent with a request.
pub(crate) const BODY_BYTES_MAX: u64 = 64 << 20;

/// The bytes that a word stands for: `@FILE`, `@-`, or the body itself.
pub(crate) fn bytes(given: &str) -> Result<Vec<u8>, Failed> {
    match given.strip_prefix('@') {
        None => Ok(given.as_bytes().to_vec()),
        Some("-") if io::stdin().is_terminal() => Err(Failed::usage(
            "-b @- reads standard input, which is a terminal: pipe the body in, or name a \
             file with -b @FILE",
        )),
        Some("-") => read(Source::StandardInput, "standard input"),
        Some(path) => read(Source::FileOrPipe(PathBuf::from(path)), path),
    }
}

fn read(source: Source, name: &str) -> Result<Vec<u8>, Failed> {
    file::read(source, BODY_BYTES_MAX, file::PATIENCE)
        .map_err(|error| Failed::usage(format!("the body file {name}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_a_word_or_a_files_bytes() {
        assert_eq!(bytes("pin=1").unwrap(), b"pin=1");
        assert_eq!(bytes("").unwrap(), b"");
        let path = std::env::temp_dir().join(format!("wf-body-{}", std::process::id()));
        std::fs::write(&path, b"\xff\0").unwrap();
        assert_eq!(bytes(&format!("@{}", path.display())).unwrap(), b"\xff\0");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_body_without_end_is_refused_with_its_name_and_a_way_out() {
        for path in ["/dev/zero", "/dev/urandom", "/proc/self/fd", "/nowhere"] {
            let failed = bytes(&format!("@{path}")).unwrap_err();
            assert_eq!(failed.code, 2);
            assert!(failed.message.contains(path), "{}", failed.message);
        }
        let failed = bytes("@/dev/zero").unwrap_err();
        assert!(
            failed
                .message
                .ends_with("it is a device; name a regular file"),
            "{}",
            failed.message
        );
    }
}
