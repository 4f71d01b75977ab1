//! The load engine: a schedule and a wire driven over sockets, filling histograms.
//!
//! What it is: [`lane`] is the one loop that everything runs in; [`run`] starts lanes
//! together and merges what they publish; [`schedule`] says when requests are due;
//! [`null_server`] and [`calibrate`] find the most that the lanes can drive. What it is
//! not: it judges nothing and shows nothing, and nobody's watching changes the path that
//! measures.
//!
//! ```text
//!             ┌ lane 0: schedule × wire × io ─► report ─┐
//!  StepSpec ──┤                                          ├─► collector ─► Measured
//!             └ lane n: …                     ─► report ─┘       └─► Watcher (10 × a second)
//! ```

#![forbid(unsafe_code)]

mod batching;
pub mod calibrate;
pub mod counters;
mod deadlines;
pub mod histogram;
pub mod lane;
pub mod levers;
pub mod null_server;
pub mod precheck;
mod protocol;
pub mod publication;
mod reach;
pub mod run;
pub mod samples;
pub mod schedule;

pub use lane::{Signals, lanes_of};
pub use levers::{Segment, Setting};
pub use publication::Edge;
pub use run::{EngineError, IoChoice, Measured, StepSpec, Unwatched, Watcher, run};
