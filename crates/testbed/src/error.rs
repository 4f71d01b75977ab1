//! What the apparatus cannot do, and what it would need.

use std::fmt;
use std::io;
use std::path::Path;

/// Something that this process may not do here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} is out of reach: {why}")]
pub struct NoPrivilege {
    /// What was wanted: `a control group around the server`.
    pub what: String,
    /// Why it cannot be had, and what it needs.
    pub why: String,
}

/// Why a part of the apparatus does not stand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TestbedError {
    /// It may not be done here.
    #[error(transparent)]
    NoPrivilege(#[from] NoPrivilege),
    /// It could be done, and is not, so that nobody else's things are touched.
    #[error("{what} is refused: {why}")]
    Refused {
        /// What was wanted.
        what: String,
        /// Why not, and the way out.
        why: String,
    },
    /// The system would not.
    #[error("could not {doing}: {why}")]
    Failed {
        /// What was being done.
        doing: String,
        /// In the system's words.
        why: String,
    },
}

impl TestbedError {
    pub(crate) fn failed(doing: impl Into<String>, why: impl fmt::Display) -> TestbedError {
        TestbedError::Failed {
            doing: doing.into(),
            why: why.to_string(),
        }
    }

    pub(crate) fn refused(what: impl Into<String>, why: impl Into<String>) -> TestbedError {
        TestbedError::Refused {
            what: what.into(),
            why: why.into(),
        }
    }

    pub(crate) fn no_privilege(what: impl Into<String>, why: impl Into<String>) -> TestbedError {
        TestbedError::NoPrivilege(NoPrivilege {
            what: what.into(),
            why: why.into(),
        })
    }

    /// For a file that the kernel would not let us read or write.
    pub(crate) fn at(doing: &str, path: &Path, error: &io::Error) -> TestbedError {
        TestbedError::failed(format!("{doing} {}", path.display()), error)
    }
}
