//! One look at everything: cumulative counters at an instant.
//!
//! Counters only grow, so that any two readings can be subtracted, whatever was lost between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use wallfinder_model::telemetry::{LinkSample, TcpSample};

use crate::parse::host::CpuTicks;
use crate::sockets::SocketTable;

/// A reading of the machine, the families and the link.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    /// When, from the schedule's zero.
    pub(crate) at_ns: i64,
    /// Taken because the clock ticked, not because somebody asked.
    pub(crate) is_tick: bool,
    /// CPU time that observing took so far.
    pub(crate) observer_cpu_ns: u64,
    /// Time since boot that the machine was suspended.
    pub(crate) suspended_ns: i64,
    /// Wall clock minus monotonic clock.
    pub(crate) wall_offset_ns: i64,
    pub(crate) cores: Box<[CpuTicks]>,
    pub(crate) switches: u64,
    /// At this instant.
    pub(crate) runnable: u32,
    pub(crate) client: Option<FamilyReading>,
    pub(crate) server: Option<FamilyReading>,
    pub(crate) link: Option<LinkSample>,
    pub(crate) tcp: Option<TcpSample>,
    /// Of the client's namespace, where it is another one. With the detail.
    pub(crate) client_tcp: Option<TcpSample>,
    /// What is read less often: every 500 ms, and when asked.
    pub(crate) detail: Option<Box<Detail>>,
}

/// A family's counters.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FamilyReading {
    /// At this instant.
    pub(crate) processes: u32,
    /// At this instant.
    pub(crate) threads: u32,
    pub(crate) cpu_ns: u64,
    pub(crate) user_ticks: u64,
    pub(crate) system_ticks: u64,
    pub(crate) run_wait_ns: u64,
    /// Times that threads were put on a processor.
    pub(crate) slices: u64,
    pub(crate) faults_minor: u64,
    pub(crate) faults_major: u64,
    /// At this instant.
    pub(crate) rss_bytes: u64,
    pub(crate) periods: u64,
    pub(crate) throttled_periods: u64,
    pub(crate) throttled_ns: u64,
    /// CPU share of the busiest thread since the last tick.
    pub(crate) hottest_thread_share: f32,
    /// Whether there are processes that are not in these counters.
    pub(crate) is_partial: bool,
}

/// What is read every 500 ms and at marks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Detail {
    pub(crate) client: Option<FamilyDetail>,
    pub(crate) server: Option<FamilyDetail>,
    pub(crate) link: LinkDetail,
    /// CPU time of the kernel threads that do softirq work, by processor.
    pub(crate) softirq_threads: Vec<(u32, u64)>,
    /// Only at marks.
    pub(crate) server_sockets: Option<SocketTable>,
    /// Only at marks.
    pub(crate) client_sockets: Option<SocketTable>,
}

/// A family thread by thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct FamilyDetail {
    pub(crate) pids: Vec<u32>,
    pub(crate) threads: Vec<ThreadDetail>,
    pub(crate) quota_cores: Option<f64>,
    pub(crate) switches_voluntary: u64,
    pub(crate) switches_involuntary: u64,
}

/// A thread's identity and counters.
#[derive(Debug, Clone)]
pub(crate) struct ThreadDetail {
    pub(crate) tid: u32,
    pub(crate) name: Arc<str>,
    pub(crate) cpus_allowed: Arc<[u32]>,
    pub(crate) cpu_ns: u64,
}

/// How the link was configured, and what its shapers counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LinkDetail {
    pub(crate) mtu: Option<u32>,
    pub(crate) nominal_bits: Option<u64>,
    pub(crate) down: Option<ShaperReading>,
    pub(crate) up: Option<ShaperReading>,
    /// What its driver has counted as lost or held up, by its names.
    pub(crate) card: BTreeMap<String, u64>,
}

/// A shaper in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ShaperReading {
    pub(crate) rate_bits: u64,
    pub(crate) passed_bytes: Option<u64>,
    pub(crate) drops: u64,
}

/// The two sides of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Side {
    pub(crate) fn other(self) -> Side {
        match self {
            Side::Client => Side::Server,
            Side::Server => Side::Client,
        }
    }
}

impl Reading {
    pub(crate) fn family(&self, side: Side) -> Option<&FamilyReading> {
        match side {
            Side::Client => self.client.as_ref(),
            Side::Server => self.server.as_ref(),
        }
    }
}

impl Detail {
    pub(crate) fn family(&self, side: Side) -> Option<&FamilyDetail> {
        match side {
            Side::Client => self.client.as_ref(),
            Side::Server => self.server.as_ref(),
        }
    }

    pub(crate) fn sockets(&self, side: Side) -> Option<&SocketTable> {
        match side {
            Side::Client => self.client_sockets.as_ref(),
            Side::Server => self.server_sockets.as_ref(),
        }
    }
}
