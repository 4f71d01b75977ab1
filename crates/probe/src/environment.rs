//! The fingerprint of the machine: what must be alike for two runs to be compared.
//!
//! Every fact is read where the kernel keeps it; one that cannot be read is `None` or absent, never
//! a guess. Facts of the network are those of the calling thread's network namespace.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use wallfinder_model::environment::{Environment, InterfaceFacts};
use wallfinder_sys::programs;

use crate::groups::{Hierarchies, quota_cores_of};
use crate::link::{Links, nominal_bits};
use crate::online;
use crate::parse::{cgroup, decimal_u32, lines, process, value_of, words};
use crate::procfile::{contents, line};

/// Interrupts of an interface that are listed, at the most.
const INTERRUPTS_MAX: usize = 64;

/// Kernel settings that change results, below `/proc/sys`.
const SETTINGS: [&str; 25] = [
    "kernel/numa_balancing",
    "kernel/perf_event_paranoid",
    "kernel/sched_autogroup_enabled",
    "kernel/sched_rt_runtime_us",
    "net/core/busy_poll",
    "net/core/busy_read",
    "net/core/default_qdisc",
    "net/core/netdev_budget",
    "net/core/netdev_max_backlog",
    "net/core/rmem_max",
    "net/core/rps_sock_flow_entries",
    "net/core/somaxconn",
    "net/core/wmem_max",
    "net/ipv4/tcp_autocorking",
    "net/ipv4/tcp_fin_timeout",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_mem",
    "net/ipv4/tcp_notsent_lowat",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_syncookies",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/tcp_wmem",
    "net/netfilter/nf_conntrack_max",
    "vm/swappiness",
];

/// Where and on what a run is made; `target` says which interface the load takes.
pub fn fingerprint(target: Option<SocketAddr>) -> Environment {
    let cpuinfo = contents("/proc/cpuinfo").unwrap_or_default();
    let mounts = cgroup::mounts(&contents("/proc/self/mountinfo").unwrap_or_default());
    let own_groups = contents("/proc/self/cgroup").unwrap_or_default();
    let interface = target.and_then(interface_towards);
    Environment {
        kernel: line("/proc/sys/kernel/osrelease"),
        os: os_name(),
        cpu_model: cpu_model(&cpuinfo),
        cpus: u32::try_from(online::cpus().len()).unwrap_or(u32::MAX),
        cpus_allowed: contents("/proc/thread-self/status")
            .ok()
            .and_then(|bytes| process::status(&bytes))
            .map(|status| online::only(status.cpus_allowed))
            .unwrap_or_default(),
        memory_bytes: memory_bytes(),
        governor: governor(),
        smt: smt(),
        mitigations: mitigations(),
        virtualisation: virtualisation(&cpuinfo),
        cgroup_quota_cores: quota_cores_of(&Hierarchies::mounted(), &own_groups),
        cgroup_version: Hierarchies::version(&mounts).map(str::to_owned),
        huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled").map(|text| chosen(&text)),
        congestion_control: line("/proc/sys/net/ipv4/tcp_congestion_control"),
        irqbalance: irqbalance(),
        rps: interface.as_ref().and_then(|facts| rps(&facts.name)),
        hardware_counters: hardware_counters(),
        descriptors_max: rustix::process::getrlimit(rustix::process::Resource::Nofile).current,
        local_ports: local_ports(),
        versions: BTreeMap::new(),
        settings: settings(interface.as_ref()),
        interface,
    }
}

fn os_name() -> Option<String> {
    let text = contents("/etc/os-release")
        .or_else(|_| contents("/usr/lib/os-release"))
        .ok()?;
    let value = lines(&text).find_map(|line| line.strip_prefix(b"PRETTY_NAME="))?;
    let name = String::from_utf8_lossy(value);
    Some(name.trim().trim_matches(['"', '\'']).to_owned())
}

/// `model name` on x86; elsewhere what the device tree says.
fn cpu_model(cpuinfo: &[u8]) -> Option<String> {
    let named = lines(cpuinfo).find_map(|line| {
        let rest = line.strip_prefix(b"model name")?.trim_ascii_start();
        let name = rest.strip_prefix(b":")?.trim_ascii();
        Some(String::from_utf8_lossy(name).into_owned())
    });
    named.or_else(|| {
        let model = line("/sys/firmware/devicetree/base/model")?;
        Some(model.trim_end_matches('\0').to_owned())
    })
}

fn memory_bytes() -> Option<u64> {
    let meminfo = contents("/proc/meminfo").ok()?;
    let mut words = words(value_of(&meminfo, "MemTotal")?);
    let kibibytes = crate::parse::decimal(words.next()?)?;
    kibibytes.checked_mul(1024)
}

/// The governor of all processors, or those that differ side by side.
fn governor() -> Option<String> {
    let mut names: Vec<String> = fs::read_dir("/sys/devices/system/cpu/cpufreq")
        .ok()?
        .flatten()
        .filter_map(|policy| line(policy.path().join("scaling_governor")))
        .collect();
    names.sort_unstable();
    names.dedup();
    (!names.is_empty()).then(|| names.join(","))
}

fn smt() -> Option<bool> {
    match line("/sys/devices/system/cpu/smt/active")?.as_str() {
        "1" => Some(true),
        "0" => Some(false),
        _ => None,
    }
}

fn mitigations() -> BTreeMap<String, String> {
    let Ok(folder) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return BTreeMap::new();
    };
    folder
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, line(entry.path())?)))
        .collect()
}

/// Container and machine, as far as either shows: `docker in vm (QEMU)`.
fn virtualisation(cpuinfo: &[u8]) -> Option<String> {
    let parts: Vec<String> = [container(), virtual_machine(cpuinfo)]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| parts.join(" in "))
}

fn container() -> Option<String> {
    // Images leave their marks on machines that were made of them: where the kernel's own threads
    // are in sight, this is no container.
    if sees_kernel_threads() {
        return None;
    }
    if fs::exists("/.dockerenv").unwrap_or(false) {
        return Some("docker".to_owned());
    }
    if fs::exists("/run/.containerenv").unwrap_or(false) {
        return Some("podman".to_owned());
    }
    // Only root may read this of another user's process; then nothing is said.
    let environment = contents("/proc/1/environ").ok()?;
    let value = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(b"container="))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

fn virtual_machine(cpuinfo: &[u8]) -> Option<String> {
    let flags = lines(cpuinfo).find(|line| line.starts_with(b"flags"));
    let by_flag = flags.is_some_and(|line| words(line).any(|word| word == b"hypervisor"));
    let product = line("/sys/class/dmi/id/product_name");
    let kind = line("/sys/hypervisor/type");
    match (by_flag, kind, product) {
        (_, Some(kind), _) => Some(format!("vm ({kind})")),
        (true, None, Some(product)) => Some(format!("vm ({product})")),
        (true, None, None) => Some("vm".to_owned()),
        (false, None, _) => None,
    }
}

/// The word in brackets: `always [madvise] never`.
fn chosen(text: &str) -> String {
    let inside = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    inside.map_or(text, |(word, _)| word).to_owned()
}

/// Whether a process of that name runs, where all processes are in sight.
fn irqbalance() -> Option<bool> {
    let names = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter(|entry| decimal_u32(entry.file_name().as_encoded_bytes()).is_some());
    let mut names = names.filter_map(|entry| line(entry.path().join("comm")));
    if names.any(|name| name == "irqbalance") {
        return Some(true);
    }
    // Inside a process namespace of its own, the host's daemons are hidden.
    sees_kernel_threads().then_some(false)
}

fn sees_kernel_threads() -> bool {
    line("/proc/2/comm").as_deref() == Some("kthreadd")
}

/// Whether any receive queue spreads its packets over processors.
fn rps(interface: &str) -> Option<bool> {
    let queues = fs::read_dir(format!("/sys/class/net/{interface}/queues")).ok()?;
    let mut masks = queues
        .flatten()
        .filter_map(|queue| line(queue.path().join("rps_cpus")))
        .peekable();
    masks.peek()?;
    Some(masks.any(|mask| mask.bytes().any(|byte| byte != b'0' && byte != b',')))
}

/// Without a processor's counting unit among the event sources there are no hardware counters; with
/// one, the paranoia setting decides, unless this is root.
fn hardware_counters() -> Option<bool> {
    let sources = fs::read_dir("/sys/bus/event_source/devices").ok()?;
    let has_unit = sources.flatten().any(|source| {
        let name = source.file_name();
        let name = name.to_string_lossy();
        name == "cpu"
            || name.starts_with("cpu_")
            || name.starts_with("armv")
            || name.starts_with("apple_")
    });
    if !has_unit {
        return Some(false);
    }
    let paranoia: i32 = line("/proc/sys/kernel/perf_event_paranoid")?.parse().ok()?;
    Some(rustix::process::geteuid().is_root() || paranoia <= 2)
}

fn local_ports() -> Option<(u16, u16)> {
    let text = line("/proc/sys/net/ipv4/ip_local_port_range")?;
    let mut words = text.split_ascii_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

fn settings(interface: Option<&InterfaceFacts>) -> BTreeMap<String, String> {
    let mut settings: BTreeMap<String, String> = SETTINGS
        .iter()
        .filter_map(|name| {
            let value = line(format!("/proc/sys/{name}"))?;
            let value = value.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            Some((name.replace('/', "."), value))
        })
        .collect();
    let files = [
        (
            "clocksource",
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        ("cpus.isolated", "/sys/devices/system/cpu/isolated"),
        ("cpus.nohz_full", "/sys/devices/system/cpu/nohz_full"),
        (
            "huge_pages.defrag",
            "/sys/kernel/mm/transparent_hugepage/defrag",
        ),
    ];
    for (name, path) in files {
        settings.extend(line(path).map(|text| (name.to_owned(), chosen(&text))));
    }
    settings.extend(seccomp().map(|mode| ("seccomp".to_owned(), mode)));
    settings.extend(
        interface
            .into_iter()
            .flat_map(|facts| interrupts(&facts.name)),
    );
    settings
}

/// Whether this process's system calls are filtered, which costs each of them something; what it
/// starts inherits that.
fn seccomp() -> Option<String> {
    let status = fs::read("/proc/self/status").ok()?;
    let mode = match value_of(&status, "Seccomp")? {
        b"0" => "off",
        b"1" => "strict",
        _ => "filter",
    };
    Some(mode.to_owned())
}

/// Which processors an interface's interrupts go to: `irq.37` = `0-1`.
fn interrupts(interface: &str) -> Vec<(String, String)> {
    // The interrupts hang on the bus device: for virtio one above the interface's.
    let folders = [
        format!("/sys/class/net/{interface}/device/msi_irqs"),
        format!("/sys/class/net/{interface}/device/../msi_irqs"),
    ];
    let Some(folder) = folders.iter().find_map(|folder| fs::read_dir(folder).ok()) else {
        return Vec::new();
    };
    folder
        .flatten()
        .filter_map(|entry| {
            let number = decimal_u32(entry.file_name().as_encoded_bytes())?;
            let cpus = line(format!("/proc/irq/{number}/smp_affinity_list"))?;
            Some((format!("irq.{number}"), cpus))
        })
        .take(INTERRUPTS_MAX)
        .collect()
}

/// The interface that leads to the target.
pub fn interface_towards(target: SocketAddr) -> Option<InterfaceFacts> {
    let link = Links::of(None).ok()?.towards(target.ip().to_canonical())?;
    Some(InterfaceFacts {
        mtu: link.mtu,
        speed_bits: nominal_bits(&link),
        queues: link.rx_queues.zip(link.tx_queues),
        offloads: offloads(&link.name),
        qdisc: link.qdisc,
        name: link.name,
    })
}

/// The offloads that are on, by `ethtool` where it is installed; empty without it.
fn offloads(interface: &str) -> Vec<String> {
    let Some(ethtool) = programs::on_path("ethtool") else {
        return Vec::new();
    };
    let output = Command::new(ethtool)
        .args(["-k", interface])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => offloads_on(&output.stdout),
        _ => Vec::new(),
    }
}

/// `ethtool -k`: lines like `tx-checksumming: on` and `rx-vlan-offload: off [fixed]`.
fn offloads_on(text: &[u8]) -> Vec<String> {
    lines(text)
        .skip(1)
        .filter_map(|line| {
            let text = std::str::from_utf8(line).ok()?;
            let (name, state) = text.split_once(':')?;
            (state.split_ascii_whitespace().next() == Some("on")).then(|| name.trim().to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_this_machine() {
        let environment = fingerprint(Some("127.0.0.1:80".parse().unwrap()));
        assert!(environment.kernel.is_some());
        assert!(environment.cpus >= 1);
        assert!(!environment.cpus_allowed.is_empty());
        assert!(environment.memory_bytes.unwrap() > 1 << 20);
        assert!(environment.descriptors_max.is_none_or(|limit| limit > 0));
        let (low, high) = environment.local_ports.unwrap();
        assert!(low < high);
        let interface = environment.interface.unwrap();
        assert_eq!(interface.name, "lo");
        assert!(interface.mtu.is_some());
        assert!(environment.settings.contains_key("net.core.somaxconn"));
    }

    #[test]
    fn without_a_target_there_is_no_interface() {
        assert_eq!(fingerprint(None).interface, None);
    }

    #[test]
    fn reads_offloads_that_are_on() {
        let text = b"Features for eth0:\nrx-checksumming: on\ntx-checksumming: on\n\ttx-checksum-ipv4: off [fixed]\n\ttx-checksum-ip-generic: on\nlarge-receive-offload: off\n";
        assert_eq!(
            offloads_on(text),
            [
                "rx-checksumming",
                "tx-checksumming",
                "tx-checksum-ip-generic"
            ]
        );
    }

    #[test]
    fn the_chosen_word_stands_in_brackets() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("tsc"), "tsc");
    }
}
