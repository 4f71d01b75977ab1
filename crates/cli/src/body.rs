//! A request's body as the user gives it: on the command line, in a file, by a pipe or on standard
//! input. It is read once, when it is first asked for, and never shown.

use std::fmt;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use wallfinder_sys::file::{self, Source};

use crate::exit::Failed;

/// Most that is sent with a request.
pub(crate) const BODY_BYTES_MAX: u64 = 64 << 20;

/// What `-b` says. Copies share what was read: a pipe can be read once.
#[derive(Clone)]
pub(crate) struct Body {
    given: String,
    read: Arc<OnceLock<Vec<u8>>>,
}

impl Body {
    /// The word behind the flag: `@FILE`, `@-`, or the body itself.
    pub(crate) fn given(word: &str) -> Result<Body, std::convert::Infallible> {
        Ok(Body {
            given: word.to_owned(),
            read: Arc::default(),
        })
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> Result<Vec<u8>, Failed> {
        if let Some(bytes) = self.read.get() {
            return Ok(bytes.clone());
        }
        let bytes = match self.given.strip_prefix('@') {
            None => self.given.clone().into_bytes(),
            Some("-") if io::stdin().is_terminal() => {
                return Err(Failed::usage(
                    "-b @- reads standard input, which is a terminal: pipe the body in, or name a \
                     file with -b @FILE",
                ));
            }
            Some("-") => read(Source::StandardInput, "standard input")?,
            Some(path) => read(Source::FileOrPipe(PathBuf::from(path)), path)?,
        };
        Ok(self.read.get_or_init(|| bytes).clone())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Body(***)")
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
        let bytes = |word: &str| Body::given(word).unwrap().bytes();
        assert_eq!(bytes("pin=1").unwrap(), b"pin=1");
        assert_eq!(bytes("").unwrap(), b"");
        let path = std::env::temp_dir().join(format!("wf-body-{}", std::process::id()));
        std::fs::write(&path, b"\xff\0").unwrap();
        let body = Body::given(&format!("@{}", path.display())).unwrap();
        assert_eq!(body.bytes().unwrap(), b"\xff\0");
        // What was read stays as it was, in copies too.
        std::fs::remove_file(&path).unwrap();
        assert_eq!(body.clone().bytes().unwrap(), b"\xff\0");
    }

    #[test]
    fn a_body_without_end_is_refused_with_its_name_and_a_way_out() {
        for path in ["/dev/zero", "/dev/urandom", "/proc/self/fd", "/nowhere"] {
            let failed = Body::given(&format!("@{path}"))
                .unwrap()
                .bytes()
                .unwrap_err();
            assert_eq!(failed.code, 2);
            assert!(failed.message.contains(path), "{}", failed.message);
        }
        let failed = Body::given("@/dev/zero").unwrap().bytes().unwrap_err();
        assert!(
            failed
                .message
                .ends_with("it is a device; name a regular file"),
            "{}",
            failed.message
        );
    }

    #[test]
    fn a_body_is_not_debugged() {
        let body = Body::given("pin=1").unwrap();
        assert!(!format!("{body:?}").contains("pin"));
    }
}
