//! The load engine: a schedule and a wire driven over sockets, filling histograms.
//!
//! What it is: `worker` is the one loop that everything runs in; [`run()`] starts workers
//! together and merges what they report; [`schedule`] says when requests are meant to start;
//! [`null_server`] and [`calibrate`] find the most that the workers can drive. What it is
//! not: it judges nothing and shows nothing, and an observer does not change the path that
//! measures.
//!
//! ```text
//!             ┌ worker 0: schedule × wire × io ─► report ─┐
//!  StepSpec ──┤                                          ├─► collector ─► Measured
//!             └ worker n: …                     ─► report ─┘       └─► Progress (10 × a second)
//! ```

#![forbid(unsafe_code)]

mod batching;
pub mod calibrate;
pub mod counters;
mod deadlines;
mod error;
pub mod histogram;
pub mod in_flight;
pub mod levers;
mod mix;
pub mod null_server;
mod plan;
pub mod precheck;
mod protocol;
mod reach;
mod report;
mod run;
pub mod samples;
pub mod schedule;
mod signals;
#[cfg(test)]
mod sim;
mod slowdown;
mod spec;
mod swap_buffer;
pub mod turns;
mod worker;

pub use error::EngineError;
pub use plan::workers_of;
pub use run::{Observer, run, unobserved};
pub use signals::Signals;
pub use spec::StepSpec;
pub use wallfinder_model::drive::{
    Edge, ExperimentWindow, LeverSetting, Measured, Progress, Typical,
};
pub use wallfinder_model::scenario::Io as IoChoice;
