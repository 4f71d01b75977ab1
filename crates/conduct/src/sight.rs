//! What can be seen of the server from here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use wallfinder_model::experiment::Neighbour;
use wallfinder_probe::discover::{self, Family};
use wallfinder_probe::parse;
use wallfinder_testbed::squeeze;
use wallfinder_testbed::subject::Subject;

/// Whom a user says that the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named<'n> {
    /// Nobody: whoever listens on the address.
    Nobody,
    /// This process.
    Process(u32),
    /// The processes of a control group, by its folder.
    Group(&'n Path),
}

/// The server's processes. When they cannot be seen, why. One that was started here, the subject, may
/// tell of itself what `/proc` does not.
pub fn server(
    address: SocketAddr,
    named: Named<'_>,
    subject: Option<&Subject>,
) -> (Option<Family>, Option<String>) {
    let seen = match named {
        Named::Nobody => discover::server_of(address),
        Named::Process(pid) => discover::family_of(pid),
        Named::Group(folder) => discover::family_of_group(folder),
    };
    let announced = subject.and_then(Subject::announced);
    match seen {
        Ok(family) => {
            let gomaxprocs = announced.and_then(|said| said.gomaxprocs);
            (
                Some(Family {
                    gomaxprocs,
                    ..family
                }),
                None,
            )
        }
        Err(why) => (None, Some(why.to_string())),
    }
}

/// Processors that those who serve may run on; `None` when that is every one. Who has started
/// others of the family looks after them, and is idle while they serve: a supervisor that
/// nobody pinned would make pinned workers look as if they had the whole machine. Where that
/// is wrong, telemetry says so as soon as there is a load.
pub fn cpus_of(family: &Family) -> Option<Vec<u32>> {
    let cpus = squeeze::cpus_of(&workers(&family.pids, parent_of));
    let all = wallfinder_sys::process::allowed_cpus();
    (!cpus.is_empty() && !all.iter().all(|cpu| cpus.contains(cpu))).then_some(cpus)
}

/// How long processes are watched to see who uses a processor.
const WATCH: Duration = Duration::from_millis(400);

/// Processes that may run on these processors, belong neither to `known` nor to this
/// process, and use at least so many cores. Takes [`WATCH`].
pub fn neighbours(cpus: &[u32], known: &[u32], cores_min: f64) -> Vec<Neighbour> {
    let before = times();
    let began = Instant::now();
    std::thread::sleep(WATCH);
    let after = times();
    let ticks = began.elapsed().as_secs_f64() * wallfinder_sys::clock::ticks_per_second() as f64;
    let mut found: Vec<Neighbour> = after
        .iter()
        .filter(|(pid, _)| !known.contains(pid) && **pid != std::process::id())
        .filter_map(|(pid, (name, used))| {
            let (_, earlier) = before.get(pid)?;
            let cores = used.saturating_sub(*earlier) as f64 / ticks.max(1.0);
            (cores >= cores_min && may_run_on(*pid, cpus)).then(|| Neighbour {
                name: format!("{name} ({pid})"),
                cores,
            })
        })
        .collect();
    found.sort_by(|a, b| b.cores.total_cmp(&a.cores));
    found
}

/// CPU time of every process at one instant.
pub struct CpuTimes(BTreeMap<u32, (String, u64)>);

impl CpuTimes {
    /// Now.
    pub fn now() -> CpuTimes {
        CpuTimes(times())
    }

    /// Seconds that these processes, and those that they started, have used since.
    pub fn used_since(&self, pids: &[u32]) -> f64 {
        let families = pids.iter().filter_map(|pid| discover::family_of(*pid).ok());
        let members: BTreeSet<u32> = families.flat_map(|family| family.pids).collect();
        let now = times();
        let ticks = |times: &BTreeMap<u32, (String, u64)>, pid| times.get(pid).map_or(0, |it| it.1);
        let used = |pid| ticks(&now, pid).saturating_sub(ticks(&self.0, pid));
        let ticks: u64 = members.iter().map(used).sum();
        ticks as f64 / wallfinder_sys::clock::ticks_per_second() as f64
    }
}

/// Name and CPU time in clock ticks of every process.
fn times() -> BTreeMap<u32, (String, u64)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|entry| {
            let bytes = std::fs::read(entry.path().join("stat")).ok()?;
            let stat = parse::process::stat(&bytes)?;
            let name = parse::process::stat_name(&bytes)?;
            Some((stat.pid, (name, stat.user_ticks + stat.system_ticks)))
        })
        .collect()
}

fn may_run_on(pid: u32, cpus: &[u32]) -> bool {
    squeeze::cpus_of(&[pid])
        .iter()
        .any(|cpu| cpus.contains(cpu))
}

/// Those that started none of the others.
fn workers(pids: &[u32], parent_of: impl Fn(u32) -> Option<u32>) -> Vec<u32> {
    let parents: Vec<u32> = pids.iter().filter_map(|pid| parent_of(*pid)).collect();
    let is_worker = |pid: &u32| !parents.contains(pid);
    pids.iter().copied().filter(is_worker).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse::process::stat(&bytes).map(|stat| stat.parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_started_others_does_not_serve() {
        // A master (10) with two workers, of which one has a helper of its own.
        let parent_of = |pid: u32| {
            [(10, 1), (11, 10), (12, 10), (13, 12)]
                .into_iter()
                .find_map(|(child, parent)| (child == pid).then_some(parent))
        };
        assert_eq!(workers(&[10, 11, 12, 13], parent_of), [11, 13]);
        assert_eq!(workers(&[10], parent_of), [10]);
    }
}
