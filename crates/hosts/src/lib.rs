//! The hosts of a run: the one that the load comes from and the one that the server is on. Each is this one, or
//! another that an agent stands in for. Who conducts a step or an experiment asks a [`ClientHost`] and a
//! [`ServerHost`], and never which of the two kinds they are.
//!
//! ```text
//!                     ┌─ Here, LoadHere: probes, levers and engine of this process
//!  dyn ServerHost ◄───┤
//!  dyn ClientHost ◄───┤
//!                     └─ There, LoadThere ─► Channel ═ ssh, NATS ═ agent ─► the same probes, levers and engine there
//! ```
//!
//! Several servers behind one address are one [`ServerHost`] ([`Several`]), several clients one [`ClientHost`] ([`Fleet`]).
//!
//! Invariants: process ids of another host never leave [`There`], so that nobody takes them for processes here;
//! instants of two clocks are never subtracted, but for what an [`Offset`](wallfinder_protocol::clock::Offset) with
//! its error allows; after an agent's end, whatever ended it, its host is as it was.

#![forbid(unsafe_code)]

pub mod agent;
mod apart;
mod at_once;
mod backend;
mod channel;
mod ends;
mod far;
mod fleet;
mod here;
mod intervals;
mod load;
mod partial;
mod reached;
mod recall;
mod sampling;
mod several;
pub mod ssh;
mod there;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use wallfinder_engine::{EngineError, Observer, Signals, StepSpec};
use wallfinder_model::drive::{Measured, Typical};
use wallfinder_model::experiment::Neighbour;
use wallfinder_model::record::Ceiling;
use wallfinder_model::{Environment, Load, Nanos};
use wallfinder_probe::Family;
use wallfinder_probe::sample::Setup;
use wallfinder_probe::stacks::Sampled;
use wallfinder_probe::waits::Waited;
use wallfinder_testbed::lab::Shaper;
use wallfinder_testbed::squeeze::{Reach, Side};

pub use apart::{Sides, pace, reach, sampler, server_apart};
pub use at_once::at_once;
pub use backend::BackendHost;
pub use channel::{Away, Channel, HostError, WhyOver};
pub use ends::ends_by_itself;
pub use fleet::Fleet;
pub use here::{Here, cpus_of, named, whose};
pub use load::{LoadHere, LoadThere};
pub use reached::{Again, Agent, Kept, Way};
pub use sampling::{Joint, Sampling};
pub use several::Several;
pub use there::{Shaped, There};
pub use wallfinder_protocol::{Named, ProcessTimes};

/// A host, for whichever role it is asked in.
pub trait Host: fmt::Debug + Send + Sync {
    /// What it is called; `None`: it is this one.
    fn name(&self) -> Option<&str>;

    /// Why nothing more can be asked of it, where that is so.
    fn lost(&self) -> Option<HostError> {
        None
    }

    /// Begins to watch its role alone. What `setup` says of processes is filled in here.
    fn sampler(&self, setup: Setup) -> Result<Box<dyn Sampling>, String>;

    /// Watches how fast these processors are.
    fn pace(&self, cpus: Vec<u32>) -> PaceOf;

    /// Puts up every lever of its role that is to be had, where the other role is on another host.
    fn levers(&self, own: Own) -> Reach;

    /// Who else uses these processors.
    fn neighbours(&self, cpus: &[u32], known: &[u32], cores_min: f64) -> Vec<Neighbour>;
}

/// The server, and the host that it is on.
pub trait ServerHost: Host {
    /// The server's processes, where they are of this host.
    fn family(&self) -> Option<&Family>;

    /// Whether the server's processes are seen.
    fn is_seen(&self) -> bool;

    /// Processors that those who serve may run on; none where that is not known.
    fn processors(&self) -> Vec<u32>;

    /// CPU time of every process of the server's host; empty where it cannot be told.
    fn times(&self) -> ProcessTimes;

    /// Whom the server asks in turn, on its host.
    fn behind(&self) -> Vec<Backend>;

    /// Addresses that the server has connections to, of whichever hosts.
    fn asked(&self) -> Vec<SocketAddr>;

    /// How many processes serve; 0 where they are not seen.
    fn processes(&self) -> u32;

    /// Whether stacks of the server may be taken; if not, why.
    fn may_take_stacks(&self) -> Result<(), String>;

    /// Takes stacks of where the server runs.
    fn stacks(&self) -> Result<Box<dyn Taking<Sampled>>, String>;

    /// Takes stacks of where it waits, for so long at the most.
    fn waits(&self, most: Duration) -> Result<Box<dyn Taking<Waited>>, String>;
}

/// The host that the load comes from, and the engine there.
pub trait ClientHost: Host {
    /// The engine's processes, where they are of this host.
    fn family(&self) -> Option<Family>;

    /// Processors that its workers may use.
    fn processors(&self) -> Vec<u32>;

    /// The machine's fingerprint.
    fn facts(&self) -> Environment;

    /// Whether such a load fits into its limits, as far as that is known before it begins; else why not.
    fn fits(&self, load: &Load) -> Result<(), String>;

    /// The addresses that the server sees; none where they are not known.
    fn addresses(&self) -> Vec<IpAddr>;

    /// Whether so many connections of a load fit beside its own, of which hosts of several hold what may be asked of each;
    /// else why not.
    fn may_stand_by(&self, load: &Load, more: u32) -> Result<(), String> {
        self.fits(&Load {
            connections: load.connections.saturating_add(more),
            ..load.clone()
        })
    }

    /// Whether it can be asked now; where not, the way there may come back.
    fn is_reached(&self) -> bool {
        true
    }

    /// The hosts that make such a load together, each with the part that is dealt to it, 0..1; none where one host makes
    /// it.
    fn parts(&self, _: &Load) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// The same hosts as long as they are there, each with what its workers may take, in processors: those that they are
    /// on, or a quota.
    fn members(&self, _: &Load) -> Vec<(String, f64)> {
        Vec::new()
    }

    /// The names of those that are lost by now.
    fn lost_members(&self) -> Vec<String> {
        Vec::new()
    }

    /// How well its clock is known.
    fn clock(&self) -> ClockOf {
        ClockOf::default()
    }

    /// Runs one step to its end; see [`wallfinder_engine::run`]. What `observe` is told and what `signals` say is
    /// by the clock of this host.
    fn drive(
        &self,
        spec: &StepSpec,
        signals: &Arc<Signals>,
        observe: &mut Observer<'_>,
    ) -> Result<Measured, EngineError>;

    /// What was measured so far is on disk here. Called when a run is sealed.
    fn kept(&self) {}

    /// The most that its workers could drive of such a load; see [`wallfinder_engine::calibrate::calibrate`].
    fn calibrate(
        &self,
        spec: &StepSpec,
        typical: Typical,
        server_cpu: Option<u32>,
        measure: Nanos,
    ) -> Result<Ceiling, EngineError>;
}

/// How well the clock of a host is known here. This host's own has no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockOf {
    /// What its offset may be off, either way.
    pub error_ns: u64,
    /// The shortest round trip to it.
    pub round_trip_ns: u64,
}

/// What is to be squeezed on one host, where the other role is elsewhere.
#[derive(Debug, Default)]
pub struct Own {
    /// The processes of the role.
    pub side: Side,
    /// Processes behind the server.
    pub backend: Option<Side>,
    /// Cores that those used under the load.
    pub backend_cores: Option<f64>,
    /// The rate at which the load leaves the host, where it is ours to set.
    pub way_out: Option<Shaper>,
    /// Seed of the rhythm of CPU stealers and pauses.
    pub seed: u64,
}

/// CPU time of a fixed piece of work on the processors of one role between two instants of monotonic time here.
pub type PaceOf = Box<dyn Fn(u64, u64) -> Option<f64>>;

/// How fast the processors of both roles are.
pub trait Pace {
    /// CPU time of a fixed piece of work on the processors of server and client, between two instants of monotonic
    /// time here.
    fn times_ns(&self, from_ns: u64, to_ns: u64) -> [Option<f64>; 2];
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
    /// Process ids on its host, the oldest parent first.
    pub pids: Vec<u32>,
}
