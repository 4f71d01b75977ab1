//! What the engine is asked for: one step.

use std::net::SocketAddr;
use std::sync::Arc;

use wallfinder_model::Load;
use wallfinder_model::drive::{Share, Slots};
use wallfinder_model::scenario::Io;
use wallfinder_wire::{Exchange, tls};

use crate::samples::SampleChannel;

/// Everything the engine needs for one step.
#[derive(Debug, Clone)]
pub struct StepSpec {
    /// The load; of one that several hosts make, this host's connections, bounds and counts, and the arrivals of all.
    pub load: Load,
    /// Which part of its arrivals and rows this host has.
    pub share: Share,
    /// The same where hosts are dealt to unevenly, instead of in turn.
    pub slots: Option<Arc<Slots>>,
    /// Where it goes.
    pub address: SocketAddr,
    /// What is asked.
    pub request: Exchange,
    /// Under TLS, and how; `None`: in the clear.
    pub tls: Option<tls::Client>,
    /// Processors for the workers, in turn; empty: not pinned.
    pub cpus: Vec<u32>,
    /// How sockets are waited for.
    pub io: Io,
    /// Seed of what is drawn at random.
    pub seed: u64,
    /// Where every request goes that has ended, if anywhere.
    pub samples: Option<SampleChannel>,
    /// Connections of a closed loop beside the load's, open and idle until a lever asks for
    /// more in flight; 0 in an open loop.
    pub spare_connections: u32,
    /// The same, until another client host rests. Both are of the same connections, of which there are as many as the
    /// larger of the two says.
    pub standby_connections: u32,
    /// Bytes by which longer forms of the request are longer, for a lever to choose.
    pub paddings: Vec<usize>,
    /// Whether a quota may hold the workers up together with what collects their reports: a thread of
    /// low priority gets nothing then, so the collector goes first.
    pub under_quota: bool,
    /// What is left of the workers' speed, above 0 and at most 1: for the rest of their working time they spin, whatever
    /// levers ask for.
    pub speed: f64,
}

impl StepSpec {
    /// Connections beside the load's: the same ones serve both ends.
    pub fn more_connections(&self) -> u32 {
        self.spare_connections.max(self.standby_connections)
    }
}
