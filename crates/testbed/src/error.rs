//! What the apparatus cannot do, and what it would need.

use std::fmt;
use std::io;
use std::path::Path;

/// Something that this process may not do here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoPrivilege {
    /// What was wanted: `a control group around the server`.
    pub what: String,
    /// Why it cannot be had, and what it needs.
    pub why: String,
}

impl fmt::Display for NoPrivilege {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is out of reach: {}", self.what, self.why)
    }
}

impl std::error::Error for NoPrivilege {}

/// Why a part of the apparatus does not stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TestbedError {
    /// It may not be done here.
    NoPrivilege(NoPrivilege),
    /// It could be done, and is not, so that nobody else's things are touched.
    Refused {
        /// What was wanted.
        what: String,
        /// Why not, and the way out.
        why: String,
    },
    /// The system would not.
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

impl fmt::Display for TestbedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TestbedError::NoPrivilege(missing) => missing.fmt(f),
            TestbedError::Refused { what, why } => write!(f, "{what} is refused: {why}"),
            TestbedError::Failed { doing, why } => write!(f, "could not {doing}: {why}"),
        }
    }
}

impl std::error::Error for TestbedError {}

impl From<NoPrivilege> for TestbedError {
    fn from(missing: NoPrivilege) -> TestbedError {
        TestbedError::NoPrivilege(missing)
    }
}
