//! The apparatus: the processes of an experiment, and where they run.
//!
//! ```text
//!  "catalogue --prefork" ─► command ─► programs ─► child ──► Subject   a server under load
//!  "wrk -c 100 {url}"    ─► command ─► programs ─► child ──► Driver    a foreign load generator
//!                            (trust: may root run it?)         └─► report: its output, understood
//!  "1gbit,mtu=1500"      ─► lab: two hosts, a link ──► Shaper ┐
//!  processors, processes ─► CPU stealer, pauses, group ─────────────┴─► squeeze: one Lever each
//!  "huge-pages=always"   ─► tune: settings of the host, for as long as one is tried
//!  every change of the machine ─► undo: a journal, written first, undone on every way out
//! ```
//!
//! It starts, pins, squeezes, watches and stops. It measures nothing but whether a squeeze
//! was in force: probes look at the processes that are named here, and the judge concludes.
//!
//! Invariants:
//!
//! - Whatever was started here is gone when its value is dropped, and when this process
//!   is killed: processes die with whoever started them, with all that they started; namespaces, links,
//!   rates, control groups and stopped processes are taken back.
//! - Nothing is taken from the current folder; a child has no more privilege than it was given, and
//!   no more of our environment.
//! - Nothing waits without a limit, and no output is kept without one.
//! - A child's words end up in the error when it fails.

#![forbid(unsafe_code)]

pub mod child;
pub mod command;
pub mod cpu_stealer;
pub mod driver;
pub mod error;
pub mod group;
pub mod lab;
pub mod pauses;
pub mod programs;
pub mod redact;
pub mod report;
pub mod scratch;
pub mod service;
pub mod squeeze;
pub mod subject;
pub mod trust;
pub mod tune;
pub mod undo;

mod affinity;
mod iproute;

pub use driver::{Driver, DriverKind, DriverSpec};
pub use error::{NoPrivilege, TestbedError};
pub use squeeze::{Check, Lever};
pub use subject::{Subject, SubjectSpec};
