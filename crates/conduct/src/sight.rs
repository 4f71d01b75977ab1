//! What can be seen of the server from here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use wallfinder_model::experiment::Neighbour;
use wallfinder_probe::discover::{self, Family};
use wallfinder_probe::parse;

/// The server's processes: those of `pid` where one is named, else whoever listens on the
/// address. When they cannot be seen, why.
pub fn server(address: SocketAddr, pid: Option<u32>) -> (Option<Family>, Option<String>) {
    let seen = match pid {
        Some(pid) => discover::family_of(pid),
        None => discover::server_of(address),
    };
    match seen {
        Ok(family) => (Some(family), None),
        Err(why) => (None, Some(why.to_string())),
    }
}

/// Processors that the family's first process may run on; `None` when that is every one.
pub fn cpus_of(family: &Family) -> Option<Vec<u32>> {
    let cpus = cpus_allowed(family.leader()?)?;
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
    cpus_allowed(pid).is_some_and(|allowed| allowed.iter().any(|cpu| cpus.contains(cpu)))
}

/// Processors that a process's first thread may run on.
fn cpus_allowed(pid: u32) -> Option<Vec<u32>> {
    let status = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    parse::process::status(&status).map(|status| status.cpus_allowed)
}
