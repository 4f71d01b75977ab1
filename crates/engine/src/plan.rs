//! A worker's part of a load.

use std::sync::Arc;

use wallfinder_model::Load;
use wallfinder_model::drive::Share;
use wallfinder_wire::mix::Mix;

use crate::turns::Turns;

/// What a worker needs to know of its part of the load.
#[derive(Debug, Clone)]
pub(crate) struct WorkerPlan {
    /// Worker number.
    pub(crate) worker: u32,
    /// Workers of this host.
    pub(crate) workers: u32,
    /// Its place among those of all hosts.
    pub(crate) share: Share,
    /// Which arrivals and rows it has.
    pub(crate) turns: Turns,
    /// Connections of this worker, the spare ones included.
    pub(crate) connections: u32,
    /// Connections of a closed loop that are used only where a lever asks for them.
    pub(crate) spare: u32,
    /// Those of them that make more in flight.
    pub(crate) more: u32,
    /// Whether it polls before a request is to be sent: it is kept on a processor, so that this takes time from no other
    /// thread, and no quota counts it.
    pub(crate) polls: bool,
    /// Requests that this worker may make, where the load counts them.
    pub(crate) requests: Option<u64>,
    /// The whole load.
    pub(crate) load: Load,
    /// What is sent, where that is a mix.
    pub(crate) mix: Option<Arc<Mix>>,
    /// What is left of its speed, whatever levers leave of it.
    pub(crate) speed: f64,
    /// Seed of what is drawn at random.
    pub(crate) seed: u64,
}

impl WorkerPlan {
    /// The count of a load that is counted from its first request: one without a warm-up.
    pub(crate) fn requests_from_the_start(&self) -> Option<u64> {
        self.requests.filter(|_| self.load.warmup.0 == 0)
    }

    /// The count of a load that is counted from the end of its warm-up.
    pub(crate) fn requests_after_warmup(&self) -> Option<u64> {
        self.requests.filter(|_| self.load.warmup.0 > 0)
    }
}

/// Workers that a load has use for: each needs a connection, and room for one in flight where that is bounded.
pub fn workers_of(load: &Load) -> u32 {
    let bound = load.max_in_flight.unwrap_or(u32::MAX).max(1);
    load.workers.max(1).min(load.connections).min(bound)
}
