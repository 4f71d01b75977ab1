//! Reading the machine's processors.

use std::fs::File;
use std::io;

use crate::parse::host::{CpuTicks, HostStat, stat};
use crate::parse::process::{schedstat, stat_name};
use crate::parse::{decimal_u32, words};
use crate::procfile::{Buffer, contents};

/// Kernel threads of softirq work that are read, at the most.
const SOFTIRQ_THREADS_MAX: usize = 256;

/// `/proc/stat` and the kernel threads that do softirq work.
#[derive(Debug)]
pub(crate) struct HostReader {
    stat: File,
    cores: Vec<CpuTicks>,
    scratch: Vec<CpuTicks>,
    last: HostStat,
    softirq_threads: Vec<(u32, File)>,
}

impl HostReader {
    pub(crate) fn open() -> io::Result<HostReader> {
        Ok(HostReader {
            stat: File::open("/proc/stat")?,
            cores: Vec::new(),
            scratch: Vec::new(),
            last: HostStat::default(),
            softirq_threads: softirq_threads(),
        })
    }

    /// Reads the processors; when that fails the counters stand still, which any later difference
    /// survives.
    pub(crate) fn read(&mut self, buffer: &mut Buffer) -> (Box<[CpuTicks]>, HostStat) {
        if let Ok(bytes) = buffer.read(&self.stat)
            && let Some(host) = stat(bytes, &mut self.scratch)
        {
            std::mem::swap(&mut self.cores, &mut self.scratch);
            self.last = host;
        }
        (self.cores.clone().into_boxed_slice(), self.last)
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
