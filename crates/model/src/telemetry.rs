//! What the probes saw: one row for each tick, and the summary of a step's window.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One tick of telemetry, every 50-100 ms. Counts are those of the tick, not totals.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// End of the tick, from the start of the step's schedule; negative: before it.
    pub at_ns: i64,
    /// Length of the tick.
    pub span_ns: u64,
    /// Processors, in the order of their numbers.
    pub cores: Vec<CoreSample>,
    /// Those of the server's host, where it is another than the client's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub server_cores: Vec<CoreSample>,
    /// The driver's processes.
    pub client: Option<FamilySample>,
    /// The server's processes.
    pub server: Option<FamilySample>,
    /// The interface between them, as the server's host sees it.
    pub link: Option<LinkSample>,
    /// The TCP stack of the server's namespace.
    pub tcp: Option<TcpSample>,
    /// Context switches of the whole machine.
    pub switches: u64,
    /// Tasks that could run at the instant of the sample.
    pub runnable: u32,
}

/// How one processor spent a tick; shares sum to about 1.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoreSample {
    /// Processor number.
    pub cpu: u32,
    /// User code (nice included).
    pub usr: f32,
    /// Kernel code on behalf of tasks.
    pub sys: f32,
    /// Hardware interrupts.
    pub irq: f32,
    /// Software interrupts: most of the network stack's receive side.
    pub softirq: f32,
    /// Taken by the hypervisor.
    pub steal: f32,
    /// Idle, waiting for disk included.
    pub idle: f32,
}

impl CoreSample {
    /// Share that was not idle and not stolen.
    pub fn busy(&self) -> f32 {
        self.usr + self.sys + self.irq + self.softirq
    }
}

/// A family of processes in one tick: a server with its parent and children, or a driver.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FamilySample {
    /// Processes.
    pub processes: u32,
    /// Threads.
    pub threads: u32,
    /// CPU time, user and system, exact (from the scheduler where it counts).
    pub cpu_ns: u64,
    /// CPU time in user code; the split is by clock tick, so coarse.
    pub cpu_user_ns: u64,
    /// Time spent runnable and not running.
    pub run_wait_ns: u64,
    /// Context switches by waiting.
    pub switches_voluntary: u64,
    /// Context switches by preemption.
    pub switches_involuntary: u64,
    /// Page faults without disk.
    pub faults_minor: u64,
    /// Page faults with disk.
    pub faults_major: u64,
    /// Resident memory at the instant of the sample.
    pub rss_bytes: u64,
    /// Time throttled by a quota.
    pub throttled_ns: u64,
    /// Quota periods in which it was throttled.
    pub throttled_periods: u64,
    /// CPU share of the busiest thread, 0..1.
    pub hottest_thread_share: f32,
}

/// An interface in one tick, as the server's host sees it: `tx` is the downlink.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkSample {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped, both ways.
    pub drops: u64,
}

/// The TCP stack in one tick.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TcpSample {
    /// Segments received.
    pub segments_in: u64,
    /// Segments sent.
    pub segments_out: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Connections dropped because an accept queue was full.
    pub listen_overflows: u64,
    /// Connections dropped at listening sockets for any reason.
    pub listen_drops: u64,
    /// Connections opened by this host.
    pub opens_active: u64,
    /// Connections accepted by this host.
    pub opens_passive: u64,
    /// Resets sent.
    pub resets_out: u64,
}

/// A step's measured window in one look.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Telemetry {
    /// Length covered by the samples below.
    pub window_ns: u64,
    /// Samples in the window.
    pub samples: u32,
    /// Processors over the window.
    pub cores: Vec<CoreSample>,
    /// For each processor, the 95th percentile of its busy share over the ticks, 0..1.
    pub cores_busy_p95: Vec<f32>,
    /// The driver.
    pub client: Option<FamilySummary>,
    /// The server.
    pub server: Option<FamilySummary>,
    /// The processes that the server asks, where they were watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<CpuUse>,
    /// The link.
    pub link: Option<LinkSummary>,
    /// What the link's relay did, where the link has a delay of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<RelaySummary>,
    /// The TCP stack.
    pub tcp: Option<TcpSample>,
    /// That of the client's network namespace, where it is another one: `tcp` is then the
    /// server's, and what either sent is known as segments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_tcp: Option<TcpSample>,
    /// The server's sockets at the end of the window.
    pub server_sockets: Option<SocketsSummary>,
    /// The client's sockets at the end of the window.
    pub client_sockets: Option<SocketsSummary>,
    /// Cost of observing: CPU time of the sampler in the window.
    pub observer_cpu_ns: u64,
    /// CPU time that a fixed piece of work took on the server's processors: how slow they were.
    /// `None` where that was not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_reference_ns: Option<f64>,
    /// The same on the client's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_reference_ns: Option<f64>,
    /// The server's host, where it is another than the client's: what is said of the server, its sockets, `link` and
    /// `tcp` is then by its agent, and `cores` are the client's alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_host: Option<HostSummary>,
    /// The client's host, where it is another than the controller's: `cores` are its processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_host: Option<HostSummary>,
    /// Each of the client hosts, where several make the load: `client` and `client_host` are then all of them together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_hosts: Vec<ClientHostSummary>,
}

/// One client host of several.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClientHostSummary {
    /// The host.
    pub host: HostSummary,
    /// The load generator there.
    pub client: Option<FamilySummary>,
    /// The interface that it reaches the server by, seen from the client's host: `tx` still means the downlink. `None` where it
    /// was not seen, and in a record from before this was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkSummary>,
}

/// CPU time of processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CpuUse {
    /// So much.
    pub cpu_ns: u64,
    /// Over so long.
    pub span_ns: u64,
}

impl Telemetry {
    /// Takes in what the link's relay did: what it used of a side's processors is no neighbour's.
    pub fn take_relay(&mut self, relay: RelaySummary) {
        for side in [&mut self.client, &mut self.server].into_iter().flatten() {
            let others = side.neighbour_cores - relay.cores_of(&side.cpus_allowed);
            side.neighbour_cores = others.max(0.0);
        }
        self.relay = Some(relay);
    }

    /// Processors of the server's host over the window.
    pub fn server_cores(&self) -> &[CoreSample] {
        let host = self.server_host.as_ref();
        host.map_or(&self.cores, |host| &host.cores)
    }

    /// What the processors that both sides may use did, each of them once; of all, where nobody is known to use
    /// any.
    pub fn cores_in_use(&self) -> Vec<CoreSample> {
        let cpus = |family: &Option<FamilySummary>| {
            let family = family.as_ref();
            family.map_or(Vec::new(), |family| family.cpus_allowed.clone())
        };
        let (client, server) = (cpus(&self.client), cpus(&self.server));
        let is_elsewhere = self.server_host.is_some();
        let is_used = |cpu: &u32| client.contains(cpu) || (!is_elsewhere && server.contains(cpu));
        let here = self.cores.iter().filter(|core| is_used(&core.cpu));
        let there = self.server_cores().iter();
        let there = there.filter(|core| is_elsewhere && server.contains(&core.cpu));
        let used: Vec<CoreSample> = here.chain(there).copied().collect();
        match client.is_empty() && server.is_empty() {
            true => self.cores.clone(),
            false => used,
        }
    }
}

/// A host of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostSummary {
    /// What it is called.
    pub name: String,
    /// Its processors over the window, where they stand nowhere else.
    pub cores: Vec<CoreSample>,
    /// How far its monotonic clock was ahead of the controller's.
    pub clock_offset_ns: Option<i64>,
    /// What that may be off, either way.
    pub clock_error_ns: Option<u64>,
    /// The shortest round trip to its agent.
    pub round_trip_ns: Option<u64>,
    /// CPU time of its sampler in the window.
    pub observer_cpu_ns: u64,
}

/// A family of processes over a window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FamilySummary {
    /// Command name of the first process: `catalogue`.
    pub name: String,
    /// Process ids; the first 256.
    pub pids: Vec<u32>,
    /// Processes at the end.
    pub processes: u32,
    /// Threads at the end.
    pub threads: u32,
    /// `GOMAXPROCS` of each process that serves, where a subject has said it of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gomaxprocs: Option<u32>,
    /// Processors that it may run on.
    pub cpus_allowed: Vec<u32>,
    /// Quota in cores, where a group has one.
    pub quota_cores: Option<f64>,
    /// CPU time in the window.
    pub cpu_ns: u64,
    /// Of it in user code.
    pub cpu_user_ns: u64,
    /// CPU time over the time of the processors it may use (or its quota), 0..1.
    pub utilisation: f64,
    /// Time runnable and not running, over the window; may exceed 1 with several threads.
    pub run_wait_cores: f64,
    /// Context switches by waiting.
    pub switches_voluntary: u64,
    /// Context switches by preemption.
    pub switches_involuntary: u64,
    /// Page faults without disk.
    pub faults_minor: u64,
    /// Page faults with disk.
    pub faults_major: u64,
    /// Page faults, with disk and without, since its processes began, up to the window's end.
    #[serde(default)]
    pub faults_since_start: u64,
    /// Most resident memory seen.
    pub rss_bytes_max: u64,
    /// Time throttled.
    pub throttled_ns: u64,
    /// Share of quota periods that ended throttled, 0..1.
    pub throttled_share: f64,
    /// The busiest thread.
    pub hottest_thread: Option<ThreadShare>,
    /// Busy cores of its processors that are neither its own, nor the other side's, nor those of the link's relay.
    pub neighbour_cores: f64,
    /// Mean busy share of its processors, everybody's work included, 0..1.
    pub cpus_busy: f64,
    /// Mean softirq share of its processors, 0..1.
    pub cpus_softirq: f64,
    /// Cores of its processors that worked on interrupts and in no thread of a process, which `neighbour_cores`
    /// leaves out. `None` where that cannot be told from interrupts that threads were charged with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupt_cores: Option<f64>,
}

/// A thread and its CPU share.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadShare {
    /// Thread id.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// CPU share over the window, 0..1.
    pub share: f64,
}

/// Up to this share of its rate a link is full: bursts, and windows whose edges are not the shaper's. Beyond it the rate is
/// another than is stated, as of a virtual card.
pub const LINK_FULL_MAX: f64 = 1.15;

/// An interface over a window, as the server's host sees it: `tx` is the downlink.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkSummary {
    /// Name, such as `lo` or `eth0`.
    pub interface: String,
    /// Rate in bits per second, by qdisc or by the driver; none on loopback.
    pub rate_bits: Option<u64>,
    /// Totals in the window.
    pub totals: LinkSample,
    /// Downlink use of the rate, 0..1; above [`LINK_FULL_MAX`] where the rate that is stated is not the link's.
    pub downlink_share: Option<f64>,
    /// Uplink use of the rate, likewise.
    pub uplink_share: Option<f64>,
    /// Largest packet in bytes.
    pub mtu: Option<u32>,
    /// What the card's driver counted as lost or held up in the window, by its own names; what stood still is left
    /// out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub card: BTreeMap<String, u64>,
}

/// What the relay of a link with a delay did, over a window.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RelaySummary {
    /// Processors that it may run on; none where an earlier version did not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<u32>,
    /// The delay that it adds, in each direction.
    pub delay_ns: u64,
    /// Length of the window.
    pub span_ns: u64,
    /// Packets that it passed on, both ways; one may be as large as 64 KB with segmentation
    /// offload.
    pub packets: u64,
    /// Their bytes, Ethernet headers included.
    pub bytes: u64,
    /// Packets that were lost for want of room, or could not be sent.
    pub dropped: u64,
    /// 99th percentile of how late packets left, beyond the delay; to within an eighth.
    pub late_p99_ns: u64,
    /// The latest.
    pub late_max_ns: u64,
    /// Time from waking until there was nothing to do: more than its CPU time where others took
    /// its processor, less where it woke often.
    pub busy_ns: u64,
    /// Its CPU time, that of waking and going to sleep included.
    pub cpu_ns: u64,
    /// The most that it held at once, in one direction.
    pub queue_bytes_max: u64,
}

impl RelaySummary {
    /// The share of a processor that it took, by the larger of both measures, 0..1.
    pub fn busy_share(&self) -> f64 {
        self.busy_ns.max(self.cpu_ns) as f64 / self.span_ns.max(1) as f64
    }

    /// Cores that it took of these processors.
    pub fn cores_of(&self, cpus: &[u32]) -> f64 {
        let meets = self.cpus.iter().any(|cpu| cpus.contains(cpu));
        let cores = self.cpu_ns as f64 / self.span_ns.max(1) as f64;
        if meets { cores } else { 0.0 }
    }
}

/// What the kernel's socket chronographs say: where time with data to send went.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SocketsSummary {
    /// Sockets looked at.
    pub sockets: u32,
    /// Share of their time with data unacknowledged or unsent, 0..1; `None` where only their end was
    /// looked at.
    pub busy_share: Option<f64>,
    /// Share of busy time limited by the peer's receive window, 0..1.
    pub receive_window_limited_share: f64,
    /// Share of busy time limited by the send buffer, 0..1.
    pub send_buffer_limited_share: f64,
    /// Median smoothed round trip.
    pub rtt_p50_us: u32,
    /// The median of the shortest round trip that each has seen; `None` where the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_min_us: Option<u32>,
    /// The largest packet that fits the way to the other end, the smallest of all sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_mtu: Option<u32>,
    /// Segments sent again.
    pub retransmits: u64,
    /// Largest bytes unread in a receive queue; `None` where queues were not looked at.
    pub receive_queue_bytes_max: Option<u32>,
    /// Largest bytes unsent in a send queue; `None` as above.
    pub send_queue_bytes_max: Option<u32>,
}
