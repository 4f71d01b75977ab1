//! Limits of this process and of the machine that a load must fit in.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open descriptors as far as it may go, towards `wanted`, and says
/// what it is now. With privilege the hard limit is raised as well.
pub fn raise_descriptors(wanted: u64) -> u64 {
    let now = getrlimit(Resource::Nofile);
    let current = now.current.unwrap_or(u64::MAX);
    if current >= wanted {
        return current;
    }
    let hard = now.maximum.unwrap_or(u64::MAX);
    if hard < wanted {
        let raised = Rlimit {
            current: Some(wanted),
            maximum: Some(wanted),
        };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            return wanted;
        }
    }
    let soft = wanted.min(hard);
    let raised = Rlimit {
        current: Some(soft),
        maximum: now.maximum,
    };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => soft,
        Err(_) => current,
    }
}

/// The range of local ports that connections are opened from, where it can be read.
pub fn local_ports() -> Option<(u16, u16)> {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<u16>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}
