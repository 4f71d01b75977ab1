//! What `Content-Encoding` says.

use crate::list::{elements, is};

/// How a body is coded, as far as decoding it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Coding {
    /// Nothing to undo.
    #[default]
    Plain,
    /// RFC 1952.
    Gzip,
    /// RFC 1950, or RFC 1951 as some servers send it.
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878, with the window of RFC 9659.
    Zstd,
    /// One that is not known, or more than one.
    Other,
}

/// The codings of a body, over all lines of the field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Codings {
    so_far: Coding,
}

impl Codings {
    /// Those that one value lists.
    pub(crate) fn parse(value: &[u8]) -> Codings {
        let mut codings = Codings::default();
        let is_coding = |element: &&[u8]| !element.is_empty() && !is(element, "identity");
        for element in elements(value).filter(is_coding) {
            let so_far = coding(element);
            codings = codings.and(Codings { so_far });
        }
        codings
    }

    /// Those of a value that is malformed.
    pub(crate) fn unknown() -> Codings {
        Codings {
            so_far: Coding::Other,
        }
    }

    /// These, and then those of another line.
    pub(crate) fn and(self, later: Codings) -> Codings {
        let so_far = match (self.so_far, later.so_far) {
            (one, Coding::Plain) | (Coding::Plain, one) => one,
            _ => Coding::Other,
        };
        Codings { so_far }
    }

    /// What is to be undone.
    pub(crate) fn coding(self) -> Coding {
        self.so_far
    }
}

fn coding(name: &[u8]) -> Coding {
    if is(name, "gzip") || is(name, "x-gzip") {
        Coding::Gzip
    } else if is(name, "deflate") {
        Coding::Deflate
    } else if is(name, "br") {
        Coding::Brotli
    } else if is(name, "zstd") {
        Coding::Zstd
    } else {
        Coding::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_known_coding_can_be_undone_and_no_two() {
        for (value, expected) in [
            ("", Coding::Plain),
            ("identity", Coding::Plain),
            ("gzip", Coding::Gzip),
            ("X-GZip", Coding::Gzip),
            ("deflate", Coding::Deflate),
            (" br\t", Coding::Brotli),
            ("ZSTD", Coding::Zstd),
            (",identity, gzip,", Coding::Gzip),
            ("compress", Coding::Other),
            ("gzip2", Coding::Other),
            ("gzip, br", Coding::Other),
            ("gzip, gzip", Coding::Other),
            ("compress, identity", Coding::Other),
        ] {
            assert_eq!(
                Codings::parse(value.as_bytes()).coding(),
                expected,
                "{value}"
            );
        }
        let lines = Codings::parse(b"identity").and(Codings::parse(b"br"));
        assert_eq!(lines.coding(), Coding::Brotli);
        assert_eq!(lines.and(Codings::parse(b"gzip")).coding(), Coding::Other);
    }
}
