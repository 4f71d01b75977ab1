//! What the workers of one step and their conductor share.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use crate::levers::Levers;

/// Read, not written, on the hot path.
#[derive(Debug, Default)]
pub struct Signals {
    /// Monotonic instant of the schedule's zero; 0: not yet.
    pub zero_ns: AtomicU64,
    /// The instant that was agreed on with other hosts for it; 0: none was. Set while the observer hears that the load
    /// is ready.
    pub begin_ns: AtomicU64,
    /// Workers whose connections have all been tried.
    pub ready: AtomicU32,
    /// End the window now.
    pub stop: AtomicBool,
    /// Give up: end without draining.
    pub abort: AtomicBool,
    /// Who watches has looked at the end of the window: connections may close.
    pub may_close: AtomicBool,
    /// What is changed while the workers run.
    pub levers: Levers,
}
