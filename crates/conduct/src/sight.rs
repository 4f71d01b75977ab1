//! What can be seen of the server from here.

use std::net::SocketAddr;

use wallfinder_probe::discover::{self, Family};

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
    let path = format!("/proc/{}/status", family.leader()?);
    let status = wallfinder_probe::parse::process::status(&std::fs::read(path).ok()?)?;
    let all = wallfinder_sys::process::allowed_cpus();
    let cpus: Vec<u32> = status.cpus_allowed;
    (!cpus.is_empty() && !all.iter().all(|cpu| cpus.contains(cpu))).then_some(cpus)
}
