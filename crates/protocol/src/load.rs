//! A load that the agent of another host is to drive.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use wallfinder_model::Load;
use wallfinder_model::drive::{Share, Slots};
use wallfinder_model::scenario::Io;
use wallfinder_wire::{Exchange, tls};

/// All that an engine needs for one step, but for the processes and files of its own host.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadOrder {
    /// The load; of one that several hosts make, this host's connections, bounds and counts, and the arrivals of all.
    pub load: Load,
    /// Which part of its arrivals and rows this host has.
    pub share: Share,
    /// The same where hosts are dealt to unevenly.
    pub slots: Option<Slots>,
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
    /// Connections beside the load's, for a lever.
    pub spare_connections: u32,
    /// The same, for when another client host rests.
    pub standby_connections: u32,
    /// Bytes by which longer forms of the request are longer, for a lever.
    pub paddings: Vec<usize>,
    /// Whether a quota may hold the workers up.
    pub under_quota: bool,
    /// Whether requests are kept one by one, to be fetched.
    pub keeps: bool,
}

/// Without what is asked, which may hold secrets: a host's log shows this.
impl fmt::Debug for LoadOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadOrder")
            .field("address", &self.address)
            .field("connections", &self.load.connections)
            .field("workers", &self.load.workers)
            .field("stop", &self.load.stop)
            .finish_non_exhaustive()
    }
}
