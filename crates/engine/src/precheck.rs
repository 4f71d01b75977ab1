//! Does the load fit into this machine's limits? Asked before the first packet.

use std::net::SocketAddr;

use wallfinder_model::Load;
use wallfinder_sys::limits;

/// Descriptors for everything that is not a connection: workers, results, logs, and telemetry of a
/// server that is not large. With fewer a load is refused.
const DESCRIPTORS_RESERVED_MIN: u64 = 256;

/// The same where the limit can be raised that far. Of each side's family telemetry holds a file of each
/// of 512 threads and two of each of 256 processes at the most (`sample/family.rs` of `wallfinder-probe`);
/// what it cannot open is not seen.
const DESCRIPTORS_RESERVED: u64 = DESCRIPTORS_RESERVED_MIN + 2 * (512 + 2 * 256);

/// Why a load does not fit, and the way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoesNotFit(pub String);

impl std::fmt::Display for DoesNotFit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DoesNotFit {}

/// Raises this process's limit of descriptors to what the load needs, and checks it and
/// the local ports.
pub fn check(load: &Load, address: &SocketAddr) -> Result<(), DoesNotFit> {
    check_descriptors(load, 1, "connections")?;
    check_ports(load, address, limits::local_ports())
}

/// Raises the limit to what the load needs at a null server, which is in this process too: both ends
/// of a connection are descriptors then, and where each request has one of its own, the server may
/// still hold the one before.
pub(crate) fn check_both_ends(load: &Load) -> Result<(), DoesNotFit> {
    let each = if load.connection_per_request { 3 } else { 2 };
    check_descriptors(load, each, "connections to a null server")
}

/// So many descriptors for each connection, and the reserve.
fn check_descriptors(load: &Load, each: u64, what: &str) -> Result<(), DoesNotFit> {
    let held = each * u64::from(load.connections);
    let needed = held + DESCRIPTORS_RESERVED_MIN;
    // In large steps: runs are compared by this limit too, and small loads do not differ in it.
    let wanted = (held + DESCRIPTORS_RESERVED).next_power_of_two();
    let allowed = limits::raise_descriptors(wanted);
    if allowed < needed {
        return Err(DoesNotFit(format!(
            "{} {what} need {needed} open descriptors, and this process may have {allowed}; \
             raise it with `ulimit -n {needed}`, or ask for fewer with -c",
            load.connections
        )));
    }
    Ok(())
}

fn check_ports(
    load: &Load,
    address: &SocketAddr,
    range: Option<(u16, u16)>,
) -> Result<(), DoesNotFit> {
    let Some((first, last)) = range else {
        return Ok(());
    };
    let ports = u32::from(last).saturating_sub(u32::from(first)) + 1;
    if load.connections > ports {
        return Err(DoesNotFit(format!(
            "{} connections to {address} need as many local ports, and there are {ports} \
             ({first}-{last}); widen net.ipv4.ip_local_port_range, or ask for fewer with -c",
            load.connections
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(connections: u32) -> Load {
        Load::closed(connections)
    }

    #[test]
    fn more_connections_than_ports_are_refused_with_the_way_out() {
        let address: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let error = check_ports(&load(101), &address, Some((1000, 1099))).unwrap_err();
        assert!(error.0.contains("ip_local_port_range"), "{error}");
        assert!(check_ports(&load(100), &address, Some((1000, 1099))).is_ok());
    }
}
