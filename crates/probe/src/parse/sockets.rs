//! sock_diag(7): TCP sockets with their `TCP_INFO` (`struct tcp_info` of `linux/tcp.h`).
//!
//! `tcp_info` only ever grew at its end: a field beyond the bytes that the kernel sent is `None`.

use super::netlink::{Message, attribute, u32_at, u64_at};

/// Kind of the messages that describe a socket.
pub const SOCK_DIAG_BY_FAMILY: u16 = 20;

const SOCKET_FIXED_BYTES: usize = 72;
const ATTRIBUTE_INFO: u16 = 2;

/// A TCP socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Socket {
    /// State: 1 established, 10 listening.
    pub state: u8,
    /// Local port.
    pub port_local: u16,
    /// Remote port.
    pub port_remote: u16,
    /// Names the socket for as long as the machine is up.
    pub cookie: u64,
    /// Bytes that arrived and were not read yet.
    pub receive_queue_bytes: u32,
    /// Bytes that were written and not acknowledged yet.
    pub send_queue_bytes: u32,
    /// Inode of the socket.
    pub inode: u32,
    /// `TCP_INFO`, where the kernel gave it.
    pub info: Option<TcpInfo>,
}

/// The part of `struct tcp_info` that is of use here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpInfo {
    /// Smoothed round trip in microseconds.
    pub rtt_us: u32,
    /// Segments sent again since the connection began.
    pub retransmits: u32,
    /// The shortest round trip so far.
    pub rtt_min_us: Option<u32>,
    /// The largest packet that fits the way.
    pub path_mtu: Option<u32>,
    /// Bytes written and never sent so far.
    pub unsent_bytes: Option<u32>,
    /// Time with data unsent or unacknowledged, in microseconds.
    pub busy_us: Option<u64>,
    /// Of it, stopped by the peer's receive window.
    pub receive_window_limited_us: Option<u64>,
    /// Of it, stopped by the send buffer.
    pub send_buffer_limited_us: Option<u64>,
}

/// Reads a socket's message.
pub fn socket(message: &Message<'_>) -> Option<Socket> {
    let bytes = message.payload;
    if message.kind != SOCK_DIAG_BY_FAMILY || bytes.len() < SOCKET_FIXED_BYTES {
        return None;
    }
    let port = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let cookie = u64::from(u32_at(bytes, 44)?) | u64::from(u32_at(bytes, 48)?) << 32;
    Some(Socket {
        state: bytes[1],
        port_local: port(4),
        port_remote: port(6),
        cookie,
        receive_queue_bytes: u32_at(bytes, 56)?,
        send_queue_bytes: u32_at(bytes, 60)?,
        inode: u32_at(bytes, 68)?,
        info: attribute(&bytes[SOCKET_FIXED_BYTES..], ATTRIBUTE_INFO).and_then(tcp_info),
    })
}

/// Reads `struct tcp_info`.
pub fn tcp_info(bytes: &[u8]) -> Option<TcpInfo> {
    Some(TcpInfo {
        rtt_us: u32_at(bytes, 68)?,
        retransmits: u32_at(bytes, 100)?,
        // None was measured yet: the largest number.
        rtt_min_us: u32_at(bytes, 148).filter(|us| !matches!(us, 0 | &u32::MAX)),
        path_mtu: u32_at(bytes, 60).filter(|mtu| *mtu > 0),
        unsent_bytes: u32_at(bytes, 144),
        busy_us: u64_at(bytes, 168),
        receive_window_limited_us: u64_at(bytes, 176),
        send_buffer_limited_us: u64_at(bytes, 184),
    })
}

#[cfg(test)]
mod tests {
    use super::super::netlink::messages;
    use super::*;

    #[test]
    fn reads_sockets_of_both_address_families() {
        let bytes = include_bytes!("../../testdata/sock_diag_tcp6");
        let sockets: Vec<_> = messages(bytes)
            .filter_map(|message| socket(&message))
            .collect();
        assert_eq!(sockets.len(), 2);
        assert!(
            sockets
                .iter()
                .all(|socket| socket.port_local == 18_083 && socket.state == 1)
        );
        let unread: u32 = sockets
            .iter()
            .map(|socket| socket.receive_queue_bytes)
            .sum();
        assert_eq!(unread, 100);
        assert_ne!(sockets[0].cookie, sockets[1].cookie);
        let info = sockets[0].info.unwrap();
        assert!(info.rtt_us < 100_000 && info.busy_us.is_some());
        assert!(info.rtt_min_us.is_some_and(|us| us <= info.rtt_us));
        assert_eq!(info.path_mtu, Some(65_535));
        let bytes = include_bytes!("../../testdata/sock_diag_tcp4");
        assert!(
            messages(bytes)
                .filter_map(|message| socket(&message))
                .count()
                >= 1
        );
    }

    #[test]
    fn an_older_kernel_gives_less() {
        let mut bytes = [0u8; 104];
        bytes[68..72].copy_from_slice(&250u32.to_ne_bytes());
        let info = tcp_info(&bytes).unwrap();
        assert_eq!((info.rtt_us, info.busy_us), (250, None));
        assert_eq!(tcp_info(&bytes[..103]), None);
    }
}
