//! The environment fingerprint: what must be alike for two runs to be compared.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where and on what a run was made. Facts that could not be read are `None`, never a guess.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Environment {
    /// Kernel release.
    pub kernel: Option<String>,
    /// Operating system, as it names itself.
    pub os: Option<String>,
    /// Processor model.
    pub cpu_model: Option<String>,
    /// Processors online.
    pub cpus: u32,
    /// Processors this process may use.
    pub cpus_allowed: Vec<u32>,
    /// Memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Frequency governor.
    pub governor: Option<String>,
    /// Whether simultaneous multithreading is on.
    pub smt: Option<bool>,
    /// Mitigations by vulnerability.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mitigations: BTreeMap<String, String>,
    /// Virtual machine or container, where it can be told.
    pub virtualisation: Option<String>,
    /// Quota of this process's group in cores.
    pub cgroup_quota_cores: Option<f64>,
    /// `v1`, `v2` or `hybrid`.
    pub cgroup_version: Option<String>,
    /// Transparent huge pages setting.
    pub huge_pages: Option<String>,
    /// The interface that the load used.
    pub interface: Option<InterfaceFacts>,
    /// Congestion control.
    pub congestion_control: Option<String>,
    /// Whether irqbalance runs.
    pub irqbalance: Option<bool>,
    /// Receive packet steering in use on the interface.
    pub rps: Option<bool>,
    /// Whether hardware counters can be read.
    pub hardware_counters: Option<bool>,
    /// Descriptors this process may open.
    pub descriptors_max: Option<u64>,
    /// Local ports to choose from.
    pub local_ports: Option<(u16, u16)>,
    /// Versions of what took part: `wallfinder`, subject, driver.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub versions: BTreeMap<String, String>,
    /// Kernel settings that change results, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// An interface as configured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterfaceFacts {
    /// Name.
    pub name: String,
    /// Largest packet in bytes.
    pub mtu: Option<u32>,
    /// Nominal speed in bits per second, where the driver says one.
    pub speed_bits: Option<u64>,
    /// Receive and transmit queues.
    pub queues: Option<(u32, u32)>,
    /// Offloads that are on.
    pub offloads: Vec<String>,
    /// Queueing discipline.
    pub qdisc: Option<String>,
}
