//! The kernel's view of a port's TCP connections: chronographs, round trips, queues (sock_diag(7)).
//!
//! The chronographs run from the start of a connection, so a share of time needs two readings:
//! [`read`] at the start and at the end of a window, then [`SocketTable::summary`]. At most
//! [`SOCKETS_MAX`] connections are looked at, those that the kernel lists first.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use wallfinder_model::telemetry::SocketsSummary;
use wallfinder_sys::clock::monotonic_ns;

use crate::netlink::{Family, Question, Socket};
use crate::netns;
use crate::parse::sockets::{self, SOCK_DIAG_BY_FAMILY};

/// Connections looked at, at the most.
pub const SOCKETS_MAX: usize = 2_000;

/// Which end of the connections to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The sockets that the server accepted: their local port.
    Server,
    /// The sockets that clients opened: their remote port.
    Client,
}

/// Established connections of one side at one instant.
#[derive(Debug, Clone, Default)]
pub struct SocketTable {
    sockets: Vec<sockets::Socket>,
}

/// Reads the established connections of a port, in the network namespace of a process (`None`: the
/// caller's; another one takes `CAP_SYS_ADMIN`).
pub fn read(side: Side, port: u16, netns_of_pid: Option<u32>) -> io::Result<SocketTable> {
    netns::inside(netns_of_pid, || {
        let mut found = Vec::new();
        for family in [2u8, 10] {
            dump(family, side, port, &mut found)?;
        }
        Ok(SocketTable { sockets: found })
    })
}

/// `struct inet_diag_req_v2`: the kernel filters by port, and gives `TCP_INFO` on request.
fn dump(family: u8, side: Side, port: u16, found: &mut Vec<sockets::Socket>) -> io::Result<()> {
    const TCP: u8 = 6;
    const WITH_TCP_INFO: u8 = 1 << 1;
    const ESTABLISHED: u32 = 1 << 1;
    let mut fixed = [0u8; 56];
    fixed[..3].copy_from_slice(&[family, TCP, WITH_TCP_INFO]);
    fixed[4..8].copy_from_slice(&ESTABLISHED.to_ne_bytes());
    let at = match side {
        Side::Server => 8,
        Side::Client => 10,
    };
    fixed[at..at + 2].copy_from_slice(&port.to_be_bytes());
    let question = Question {
        kind: SOCK_DIAG_BY_FAMILY,
        dump: true,
        fixed: &fixed,
        attributes: &[],
    };
    Socket::open(Family::SockDiag)?.ask(&question, |message| {
        if found.len() >= SOCKETS_MAX {
            return ControlFlow::Break(());
        }
        let here = sockets::socket(message).filter(|socket| match side {
            Side::Server => socket.port_local == port,
            Side::Client => socket.port_remote == port,
        });
        found.extend(here);
        ControlFlow::Continue(())
    })
}

/// Looks twice at the server's side of a port of the caller's namespace, `over` apart.
pub fn summary(port: u16, over: Duration) -> io::Result<SocketsSummary> {
    let started = monotonic_ns();
    let earlier = read(Side::Server, port, None)?;
    std::thread::sleep(over);
    let later = read(Side::Server, port, None)?;
    Ok(later.summary(&earlier, monotonic_ns() - started))
}

impl SocketTable {
    /// What happened since an earlier reading, `window_ns` before. A connection that was not there
    /// yet counts from its beginning as if it had lasted the whole window, so that its busy share
    /// is at least what is said.
    pub fn summary(&self, earlier: &SocketTable, window_ns: u64) -> SocketsSummary {
        let before: HashMap<u64, &sockets::Socket> = earlier
            .sockets
            .iter()
            .map(|socket| (socket.cookie, socket))
            .collect();
        let window_us = window_ns / 1_000;
        let mut totals = Totals::default();
        for socket in &self.sockets {
            let Some(now) = socket.info else { continue };
            let then = before
                .get(&socket.cookie)
                .and_then(|socket| socket.info)
                .unwrap_or_default();
            let since = |now: Option<u64>, then: Option<u64>| {
                now.unwrap_or(0)
                    .saturating_sub(then.unwrap_or(0))
                    .min(window_us)
            };
            totals.busy_us += since(now.busy_us, then.busy_us);
            totals.receive_window_us += since(
                now.receive_window_limited_us,
                then.receive_window_limited_us,
            );
            totals.send_buffer_us += since(now.send_buffer_limited_us, then.send_buffer_limited_us);
            totals.retransmits += u64::from(now.retransmits.saturating_sub(then.retransmits));
            totals.unsent_bytes_max = totals.unsent_bytes_max.max(now.unsent_bytes.unwrap_or(0));
            totals.rtts_us.push(now.rtt_us);
            totals.rtts_min_us.extend(now.rtt_min_us);
            totals.path_mtus.extend(now.path_mtu);
        }
        totals.rtts_us.sort_unstable();
        let watched_us = window_us.saturating_mul(self.sockets.len() as u64);
        SocketsSummary {
            sockets: u32::try_from(self.sockets.len()).unwrap_or(u32::MAX),
            busy_share: Some(share(totals.busy_us, watched_us)),
            receive_window_limited_share: share(totals.receive_window_us, totals.busy_us),
            send_buffer_limited_share: share(totals.send_buffer_us, totals.busy_us),
            rtt_p50_us: totals
                .rtts_us
                .get(totals.rtts_us.len() / 2)
                .copied()
                .unwrap_or(0),
            rtt_min_us: middle(totals.rtts_min_us),
            path_mtu: totals.path_mtus.into_iter().min(),
            retransmits: totals.retransmits,
            receive_queue_bytes_max: self
                .sockets
                .iter()
                .map(|socket| socket.receive_queue_bytes)
                .max(),
            send_queue_bytes_max: Some(totals.unsent_bytes_max),
        }
    }

    /// Connections in the table.
    pub fn len(&self) -> usize {
        self.sockets.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }
}

fn middle(mut values: Vec<u32>) -> Option<u32> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

#[derive(Default)]
struct Totals {
    busy_us: u64,
    receive_window_us: u64,
    send_buffer_us: u64,
    retransmits: u64,
    unsent_bytes_max: u32,
    rtts_us: Vec<u32>,
    rtts_min_us: Vec<u32>,
    path_mtus: Vec<u32>,
}

fn share(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => (part as f64 / whole as f64).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_reader_that_does_not_read_limits_the_sender() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).unwrap();
        let (mut accepted, _) = listener.accept().unwrap();
        accepted.set_nonblocking(true).unwrap();
        let earlier = read(Side::Server, address.port(), None).unwrap();
        assert_eq!(earlier.len(), 1);
        let chunk = [7u8; 65_536];
        while accepted.write(&chunk).is_ok_and(|written| written > 0) {}
        std::thread::sleep(Duration::from_millis(120));
        let later = read(Side::Server, address.port(), None).unwrap();
        let summary = later.summary(&earlier, 120_000_000);
        assert_eq!(summary.sockets, 1);
        assert!(summary.busy_share > Some(0.5), "{summary:?}");
        assert!(summary.receive_window_limited_share > 0.3, "{summary:?}");
        assert!(summary.send_queue_bytes_max > Some(0), "{summary:?}");
        let other_end = read(Side::Client, address.port(), None).unwrap();
        let summary = other_end.summary(&SocketTable::default(), 1_000_000_000);
        assert_eq!(summary.sockets, 1);
        assert!(summary.receive_queue_bytes_max > Some(0), "{summary:?}");
        drop(client);
    }
}
