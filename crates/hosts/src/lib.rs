//! The host that the server is on: this one, or another that an agent stands in for. Who conducts a step or an
//! experiment asks a [`ServerHost`], and never which of the two it is.
//!
//! ```text
//!                    ┌─ Here: probes and levers of this process
//!  dyn ServerHost ◄──┤
//!                    └─ There ─► Channel ═══ ssh ═══ agent ─► the same probes and levers, on its own host
//! ```
//!
//! Invariants: process ids of another host never leave [`There`], so that nobody takes them for processes here;
//! instants of two clocks are never subtracted, but for what an [`Offset`](wallfinder_protocol::clock::Offset) with
//! its error allows; after an agent's end, whatever ended it, its host is as it was.

#![forbid(unsafe_code)]

pub mod agent;
mod channel;
mod here;
mod sampling;
pub mod ssh;
mod there;

use std::fmt;
use std::time::Duration;

use wallfinder_model::experiment::Neighbour;
use wallfinder_probe::Family;
use wallfinder_probe::reference_loop::ReferenceLoop;
use wallfinder_probe::sample::Setup;
use wallfinder_probe::stacks::Sampled;
use wallfinder_probe::waits::Waited;
use wallfinder_testbed::squeeze::{Reach, Scene};

pub use channel::{Channel, HostError};
pub use here::{Here, cpus_of, named, whose};
pub use sampling::{Joint, Sampling};
pub use there::There;
pub use wallfinder_protocol::{Named, ProcessTimes};

/// The server, and the host that it is on.
pub trait ServerHost: fmt::Debug + Send + Sync {
    /// What the host is called; `None`: it is this one.
    fn name(&self) -> Option<&str>;

    /// The server's processes, where they are of this host.
    fn family(&self) -> Option<&Family>;

    /// Whether the server's processes are seen.
    fn is_seen(&self) -> bool;

    /// Processors that those who serve may run on; none where that is not known.
    fn processors(&self) -> Vec<u32>;

    /// Begins to watch both sides. Of `setup`, what is said of the server is filled in here.
    fn sampler(&self, setup: Setup) -> Result<Box<dyn Sampling>, String>;

    /// Watches the pace of processors: the server's on its host, the client's on this one.
    fn pace(&self, sides: [Vec<u32>; 2]) -> Box<dyn Pace>;

    /// Puts up every lever that is to be had.
    fn reach(&self, scene: Scene) -> Reach;

    /// Who else uses these processors of the server's host.
    fn neighbours(&self, cpus: &[u32], known: &[u32], cores_min: f64) -> Vec<Neighbour>;

    /// CPU time of every process of the server's host; empty where it cannot be told.
    fn times(&self) -> ProcessTimes;

    /// Whom the server asks in turn, on its host.
    fn behind(&self) -> Vec<Backend>;

    /// How many processes serve; 0 where they are not seen.
    fn processes(&self) -> u32;

    /// Whether stacks of the server may be taken; if not, why.
    fn may_take_stacks(&self) -> Result<(), String>;

    /// Takes stacks of where the server runs.
    fn stacks(&self) -> Result<Box<dyn Taking<Sampled>>, String>;

    /// Takes stacks of where it waits, for so long at the most.
    fn waits(&self, most: Duration) -> Result<Box<dyn Taking<Waited>>, String>;
}

/// Stacks that are being taken.
pub trait Taking<T>: fmt::Debug {
    /// No more are taken.
    fn end(&self);

    /// They, with names.
    fn stop(self: Box<Self>) -> Result<T, String>;
}

/// Processes that a server asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// Command name of the first.
    pub name: String,
    /// Process ids on the server's host, the oldest parent first.
    pub pids: Vec<u32>,
}

/// How fast the processors of both sides are.
pub trait Pace {
    /// CPU time of a fixed piece of work on the processors of server and client, between two instants of monotonic
    /// time here.
    fn times_ns(&self, from_ns: u64, to_ns: u64) -> [Option<f64>; 2];
}

impl Pace for ReferenceLoop {
    fn times_ns(&self, from_ns: u64, to_ns: u64) -> [Option<f64>; 2] {
        ReferenceLoop::times_ns(self, from_ns, to_ns)
    }
}
