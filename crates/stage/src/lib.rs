//! The apparatus: the processes of an experiment, and where they run.
//!
//! ```text
//!  "catalogue --prefork" ─► command ─► child ──► Subject   a server under load
//!  "wrk -c 100 {url}"    ─► command ─► child ──► Driver    a foreign load generator
//!                                                   └─► report: its output, understood
//! ```
//!
//! It starts, pins, watches and stops. It measures nothing: probes look at the processes
//! that are named here, and the judge concludes.
//!
//! Invariants:
//!
//! - Whatever was started here is gone when its value is dropped, and when this process
//!   is killed: processes die with whoever started them, by whole groups.
//! - Nothing waits without a limit, and no output is kept without one.
//! - A child's words end up in the error when it fails.

#![forbid(unsafe_code)]

pub mod child;
pub mod command;
pub mod driver;
pub mod error;
pub mod lab;
pub mod redact;
pub mod report;
pub mod subject;
pub mod undo;

mod iproute;

pub use driver::{Driver, DriverKind, DriverSpec};
pub use error::{NoPrivilege, StageError};
pub use subject::{Subject, SubjectSpec};
