//! Reading the machine and the network namespace of the server: processors, interface, TCP counters.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;

use wallfinder_model::telemetry::{LinkSample, TcpSample};

use crate::link::{Links, nominal_bits};
use crate::netns;
use crate::parse::host::{CpuTicks, HostStat, stat};
use crate::parse::link::{Link, Shaper};
use crate::parse::network::{counters, dev};
use crate::parse::process::{schedstat, stat_name};
use crate::parse::{decimal_u32, words};
use crate::procfile::{Buffer, contents};
use crate::sample::reading::{LinkDetail, ShaperReading};

/// Kernel threads of softirq work that are read, at the most.
const SOFTIRQ_THREADS_MAX: usize = 256;

/// `/proc/stat` and the kernel threads that do softirq work.
#[derive(Debug)]
pub(crate) struct HostReader {
    stat: File,
    cores: Vec<CpuTicks>,
    softirq_threads: Vec<(u32, File)>,
}

impl HostReader {
    pub(crate) fn open() -> io::Result<HostReader> {
        Ok(HostReader {
            stat: File::open("/proc/stat")?,
            cores: Vec::new(),
            softirq_threads: softirq_threads(),
        })
    }

    /// Reads the processors; `None` when the kernel's answer was not understood.
    pub(crate) fn read(&mut self, buffer: &mut Buffer) -> Option<(Box<[CpuTicks]>, HostStat)> {
        let host = stat(buffer.read(&self.stat).ok()?, &mut self.cores)?;
        Some((self.cores.clone().into_boxed_slice(), host))
    }

    /// CPU time of the softirq threads, by processor.
    pub(crate) fn softirq_threads(&self, buffer: &mut Buffer) -> Vec<(u32, u64)> {
        let read = |file: &File, buffer: &mut Buffer| schedstat(buffer.read(file).ok()?);
        self.softirq_threads
            .iter()
            .filter_map(|(cpu, file)| Some((*cpu, read(file, buffer)?.cpu_ns)))
            .collect()
    }
}

/// `ksoftirqd/N` are children of `kthreadd`, process 2; in a container there is none to be seen.
fn softirq_threads() -> Vec<(u32, File)> {
    let name = |pid: u32| stat_name(&contents(format!("/proc/{pid}/stat")).ok()?);
    if name(2).as_deref() != Some("kthreadd") {
        return Vec::new();
    }
    let children = contents("/proc/2/task/2/children").unwrap_or_default();
    words(&children)
        .filter_map(decimal_u32)
        .filter_map(|pid| {
            let name = name(pid)?;
            let cpu = decimal_u32(name.strip_prefix("ksoftirqd/")?.as_bytes())?;
            Some((cpu, File::open(format!("/proc/{pid}/schedstat")).ok()?))
        })
        .take(SOFTIRQ_THREADS_MAX)
        .collect()
}

/// The counters of a network namespace: one interface, and TCP.
#[derive(Debug)]
pub(crate) struct NetworkReader {
    interface: Option<String>,
    dev: File,
    snmp: File,
    netstat: File,
    here: Option<Links>,
    /// Where the other end of a `veth` may be.
    there: Option<Links>,
}

impl NetworkReader {
    /// Opens the namespace of `pid` (`None`: the caller's); `peer_pid` is in the client's.
    pub(crate) fn open(
        interface: Option<String>,
        pid: Option<u32>,
        peer_pid: Option<u32>,
    ) -> io::Result<NetworkReader> {
        let folder = netns::folder(pid);
        let open = |name: &str| File::open(folder.join(name));
        let shaped = interface.as_deref().is_some_and(|name| name != "lo");
        Ok(NetworkReader {
            dev: open("dev")?,
            snmp: open("snmp")?,
            netstat: open("netstat")?,
            here: shaped.then(|| Links::of(pid).ok()).flatten(),
            there: shaped.then(|| Links::of(peer_pid).ok()).flatten(),
            interface,
        })
    }

    pub(crate) fn link(&self, buffer: &mut Buffer) -> Option<LinkSample> {
        let interface = self.interface.as_deref()?;
        let counted = dev(buffer.read_rows(&self.dev).ok()?, interface)?;
        Some(LinkSample {
            rx_bytes: counted.rx_bytes,
            rx_packets: counted.rx_packets,
            tx_bytes: counted.tx_bytes,
            tx_packets: counted.tx_packets,
            drops: counted.rx_drops.saturating_add(counted.tx_drops),
        })
    }

    pub(crate) fn tcp(&self, buffer: &mut Buffer) -> Option<TcpSample> {
        const BASIC: [&str; 6] = [
            "InSegs",
            "OutSegs",
            "RetransSegs",
            "ActiveOpens",
            "PassiveOpens",
            "OutRsts",
        ];
        let [
            segments_in,
            segments_out,
            retransmits,
            active,
            passive,
            resets,
        ] = counters(buffer.read(&self.snmp).ok()?, "Tcp", BASIC);
        let [overflows, drops] = counters(
            buffer.read(&self.netstat).ok()?,
            "TcpExt",
            ["ListenOverflows", "ListenDrops"],
        );
        Some(TcpSample {
            segments_in: segments_in?,
            segments_out: segments_out?,
            retransmits: retransmits?,
            listen_overflows: overflows?,
            listen_drops: drops?,
            opens_active: active?,
            opens_passive: passive?,
            resets_out: resets?,
        })
    }

    /// How the link is configured: its shaper, and that of a `veth`'s other end for the way up.
    pub(crate) fn detail(&mut self) -> LinkDetail {
        let mut detail = LinkDetail::default();
        let (Some(interface), Some(here)) = (self.interface.as_deref(), self.here.as_mut()) else {
            return detail;
        };
        let Some(link) = here.named(interface) else {
            return detail;
        };
        detail.mtu = link.mtu;
        detail.nominal_bits = nominal_bits(&link);
        detail.down = here.shaper(&link).map(shaper_reading);
        detail.up = self.there.as_mut().and_then(|there| {
            let peer = peer_of(&link, there.all().ok()?)?;
            there.shaper(&peer).map(shaper_reading)
        });
        detail
    }
}

/// The other end of a `veth`: each names the other's number.
fn peer_of(link: &Link, candidates: Vec<Link>) -> Option<Link> {
    let is_veth = |link: &Link| link.kind.as_deref() == Some("veth");
    candidates.into_iter().find(|candidate| {
        is_veth(link)
            && is_veth(candidate)
            && candidate.peer == Some(link.index)
            && link.peer == Some(candidate.index)
    })
}

fn shaper_reading(shaper: Shaper) -> ShaperReading {
    ShaperReading {
        rate_bits: shaper.rate_bytes.saturating_mul(8),
        passed_bytes: shaper.passed_bytes,
        drops: u64::from(shaper.drops.unwrap_or(0)),
    }
}

/// Processors of a list, for lookups.
pub(crate) fn set_of(cpus: &[u32]) -> BTreeSet<u32> {
    cpus.iter().copied().collect()
}
