//! Study files: what is run, and what is claimed of it.
//!
//! ```text
//!  file.toml ─► Study ─► expand(size) ─► [StudyStep] ─► Apparatus ─► [Step]
//!     (checked before any packet)                                      │ judge
//!  claims: confirmed / contradicted ◄── data (vocabulary) ┘
//! ```
//!
//! A study is data: subjects, drivers, groups of steps, claims. A claim carries two
//! conditions, one that confirms and one that contradicts it; where neither holds, or
//! something was not measured, it stays open, and says why. No outcome is printed that
//! the study's own data did not decide.
//!
//! It is not the apparatus: it starts no process and opens no socket. Whoever runs a study
//! implements [`Apparatus`].
//!
//! Invariants: a study that parses can be expanded at every size it has; every name in it
//! refers to something; every condition was tried on made-up data before the first packet.

#![forbid(unsafe_code)]

pub mod apparatus;
mod between;
pub mod builtin;
mod charts;
mod check;
pub mod claims;
mod data;
mod dry_run;
mod entry;
mod expand;
mod expression;
mod file;
mod functions;
mod language;
pub mod made_up;
pub mod pages;
pub mod payload;
pub mod results;
pub mod run;
mod study;
mod template;
pub mod vocabulary;

pub use apparatus::{Apparatus, ApparatusError, Availability, Deviation};
pub use expand::{SEED, StudyStep, duration, label_of};
pub use file::Figure;
#[cfg(feature = "schema")]
pub use file::schema;
pub use run::{Ran, Skipped, resume, run};
pub use study::{Driver, Hosts, KernelLooks, Speaks, Study, SubjectSpec, is_reached_by_ssh};
pub use wallfinder_scenario::FileError as StudyError;

use std::fmt;
use std::str::FromStr;

/// How much of a study is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Size {
    /// Seconds: shows that it works.
    Smoke,
    /// A few minutes: shows what it is about.
    Demo,
    /// The size of the source, as far as the machine allows.
    Full,
}

impl Size {
    /// Every size, the smallest first.
    pub const ALL: [Size; 3] = [Size::Smoke, Size::Demo, Size::Full];

    /// As it is written on the command line and in files.
    pub const fn label(self) -> &'static str {
        match self {
            Size::Smoke => "smoke",
            Size::Demo => "demo",
            Size::Full => "full",
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        Size::ALL
            .into_iter()
            .find(|size| size.label() == text)
            .ok_or_else(|| format!("`{text}` is not smoke, demo or full"))
    }
}
