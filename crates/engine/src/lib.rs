//! The load engine: a schedule and a wire driven over sockets, filling histograms.
//!
//! What it is: `worker` is the one loop that everything runs in; [`run`] starts workers
//! together and merges what they publish; [`schedule`] says when requests are due;
//! [`null_server`] and [`calibrate`] find the most that the workers can drive. What it is
//! not: it judges nothing and shows nothing, and nobody's watching changes the path that
//! measures.
//!
//! ```text
//!             ┌ worker 0: schedule × wire × io ─► report ─┐
//!  StepSpec ──┤                                          ├─► collector ─► Measured
//!             └ worker n: …                     ─► report ─┘       └─► Watcher (10 × a second)
//! ```

#![forbid(unsafe_code)]

mod batching;
pub mod calibrate;
pub mod counters;
mod deadlines;
pub mod histogram;
pub mod in_flight;
pub mod levers;
pub mod null_server;
mod plan;
pub mod precheck;
mod protocol;
pub mod publication;
mod reach;
pub mod run;
pub mod samples;
pub mod schedule;
mod signals;
mod slowdown;
mod worker;

pub use levers::{Segment, Setting};
pub use plan::workers_of;
pub use publication::Edge;
pub use run::{EngineError, IoChoice, Measured, StepSpec, Unwatched, Watcher, run};
pub use signals::Signals;
