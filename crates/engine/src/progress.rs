//! What is told while a step runs.
//!
//! ```text
//!   worker ─ WorkerReport ─► collector ─ Progress ─► the caller of run, and a live view
//! ```

use wallfinder_model::record::Interval;

use crate::levers::ExperimentWindow;
use crate::report::Edge;

/// One piece of news, told by the thread that called [`crate::run()`], about ten times a second: never by a worker.
#[derive(Debug, Clone)]
pub enum Progress {
    /// Every worker has tried its connections, and none sends a request yet. What takes time before a load is
    /// done now: the schedule's zero is chosen when the observer returns.
    Ready,
    /// The schedule's zero is chosen, and some milliseconds ahead. The workers know it already, and do not wait
    /// for the observer.
    Starts {
        /// In monotonic time.
        zero_ns: u64,
    },
    /// An interval of the run has ended.
    Interval(Interval),
    /// All workers have ended a window of an experiment (see [`crate::levers`]).
    Window(ExperimentWindow),
    /// The measured window opened or closed, now.
    Edge(Edge),
}

/// Observes nothing.
pub fn unobserved(_: Progress) {}
