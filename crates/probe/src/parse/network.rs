//! The text files under `/proc/net`: interfaces, protocol counters, sockets and local addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{decimal, decimal_u32, hexadecimal, lines, words};

/// Counters of an interface since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets received.
    pub rx_packets: u64,
    /// Received packets dropped.
    pub rx_drops: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Packets dropped before they were sent.
    pub tx_drops: u64,
}

/// The row of one interface in `/proc/net/dev`.
pub fn dev(bytes: &[u8], interface: &str) -> Option<LinkCounters> {
    let rest = lines(bytes).find_map(|line| {
        line.trim_ascii_start()
            .strip_prefix(interface.as_bytes())?
            .strip_prefix(b":")
    })?;
    let mut columns = [0u64; 16];
    let mut words = words(rest);
    for column in &mut columns {
        *column = decimal(words.next()?)?;
    }
    Some(LinkCounters {
        rx_bytes: columns[0],
        rx_packets: columns[1],
        rx_drops: columns[3],
        tx_bytes: columns[8],
        tx_packets: columns[9],
        tx_drops: columns[11],
    })
}

/// Counters by name from `/proc/net/snmp` or `/proc/net/netstat`: a line of names, then a line of
/// values, both starting with the same `section` (`Tcp`, `TcpExt`). A name that is not there stays
/// `None`.
pub fn counters<const N: usize>(bytes: &[u8], section: &str, names: [&str; N]) -> [Option<u64>; N] {
    let mut found = [None; N];
    let mut rows = lines(bytes).filter_map(|line| {
        line.strip_prefix(section.as_bytes())
            .and_then(|rest| rest.strip_prefix(b":"))
    });
    let (Some(heads), Some(values)) = (rows.next(), rows.next()) else {
        return found;
    };
    for (head, value) in words(heads).zip(words(values)) {
        if let Some(at) = names.iter().position(|name| name.as_bytes() == head) {
            found[at] = decimal(value);
        }
    }
    found
}

/// State of an established connection.
pub const STATE_ESTABLISHED: u8 = 1;
/// State of a socket that listens, in `/proc/net/tcp` and `sock_diag`.
pub const STATE_LISTEN: u8 = 10;

/// A row of `/proc/net/tcp` or `/proc/net/tcp6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpRow {
    /// Local address and port.
    pub local: SocketAddr,
    /// The other end's; unspecified of one that listens.
    pub remote: SocketAddr,
    /// State: 1 established, 10 listening.
    pub state: u8,
    /// User that owns the socket.
    pub user: u32,
    /// Inode, as in `socket:[123]` under `/proc/PID/fd`; 0 when it belongs to nobody any more.
    pub inode: u64,
}

/// The rows of `/proc/net/tcp` and `/proc/net/tcp6`; broken rows are left out.
pub fn tcp(bytes: &[u8]) -> impl Iterator<Item = TcpRow> {
    lines(bytes).skip(1).filter_map(tcp_row)
}

fn tcp_row(line: &[u8]) -> Option<TcpRow> {
    let mut words = words(line);
    let local = socket_address(words.nth(1)?)?;
    let remote = socket_address(words.next()?)?;
    let state = u8::try_from(hexadecimal(words.next()?)?).ok()?;
    let user = decimal_u32(words.nth(3)?)?;
    let inode = decimal(words.nth(1)?)?;
    Some(TcpRow {
        local,
        remote,
        state,
        user,
        inode,
    })
}

/// `0100007F:1F90`: words of the address in the machine's byte order, then the port.
fn socket_address(word: &[u8]) -> Option<SocketAddr> {
    let colon = word.iter().position(|byte| *byte == b':')?;
    let (address, port) = (&word[..colon], &word[colon + 1..]);
    let port = u16::try_from(hexadecimal(port)?).ok()?;
    let native = |part: &[u8]| -> Option<[u8; 4]> {
        let value = u32::try_from(hexadecimal(part)?).ok()?;
        Some(value.to_ne_bytes())
    };
    let ip = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(native(address)?)),
        32 => {
            let mut octets = [0u8; 16];
            for (to, from) in octets.chunks_exact_mut(4).zip(address.chunks_exact(8)) {
                to.copy_from_slice(&native(from)?);
            }
            IpAddr::from(Ipv6Addr::from(octets))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Whether `/proc/net/fib_trie` has `address` as one of the namespace's own.
pub fn is_local_v4(fib_trie: &[u8], address: Ipv4Addr) -> bool {
    let wanted = address.to_string();
    let mut rows = lines(fib_trie).map(<[u8]>::trim_ascii);
    let mut inside = false;
    rows.any(|row| {
        if let Some(leaf) = row.strip_prefix(b"|-- ") {
            inside = leaf == wanted.as_bytes();
        }
        inside && row.starts_with(b"/32 host LOCAL")
    })
}

/// Whether `/proc/net/if_inet6` has `address` as one of the namespace's own.
pub fn is_local_v6(if_inet6: &[u8], address: Ipv6Addr) -> bool {
    lines(if_inet6).any(|line| {
        let Some(word) = words(line).next().filter(|word| word.len() == 32) else {
            return false;
        };
        let high = hexadecimal(&word[..16]).map(u128::from);
        let low = hexadecimal(&word[16..]).map(u128::from);
        match (high, low) {
            (Some(high), Some(low)) => Ipv6Addr::from(high << 64 | low) == address,
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_an_interface_and_not_its_namesake() {
        let bytes = include_bytes!("../../testdata/net_dev");
        let eth0 = dev(bytes, "eth0").unwrap();
        assert!(eth0.rx_bytes > 375_000_000 && eth0.tx_bytes > 1_800_000);
        assert_eq!(dev(bytes, "eth"), None);
        assert_eq!(dev(bytes, ""), None);
        let glued = b"h\nh\neth0:1 2 0 4 0 0 0 0 9 10 0 12 0 0 0 0\n";
        let read = dev(glued, "eth0").unwrap();
        assert_eq!(
            (read.rx_bytes, read.rx_drops, read.tx_packets, read.tx_drops),
            (1, 4, 10, 12)
        );
    }

    #[test]
    fn reads_protocol_counters_by_name() {
        let snmp = include_bytes!("../../testdata/net_snmp");
        let [active, passive, out, absent, limit] = counters(
            snmp,
            "Tcp",
            [
                "ActiveOpens",
                "PassiveOpens",
                "OutSegs",
                "Nonsense",
                "MaxConn",
            ],
        );
        assert!(active.unwrap() > 100 && passive.unwrap() >= 2 && out.unwrap() > 10_000);
        assert_eq!((absent, limit), (None, None), "-1 is not a count");
        let netstat = include_bytes!("../../testdata/net_netstat");
        let [overflows, loss] = counters(netstat, "TcpExt", ["ListenOverflows", "TCPLossProbes"]);
        assert_eq!(overflows, Some(0));
        assert!(loss.is_some());
        assert_eq!(counters(b"Tcp: A\n", "Tcp", ["A"]), [None]);
    }

    #[test]
    fn reads_listening_sockets() {
        let rows: Vec<_> = tcp(include_bytes!("../../testdata/net_tcp")).collect();
        let listening = rows.iter().find(|row| row.state == STATE_LISTEN).unwrap();
        assert_eq!(listening.local, "0.0.0.0:2024".parse().unwrap());
        assert_eq!(listening.inode, 563);
        let rows: Vec<_> = tcp(include_bytes!("../../testdata/net_tcp6")).collect();
        let listening = rows.iter().find(|row| row.state == STATE_LISTEN).unwrap();
        assert_eq!(listening.local, "[::]:18083".parse().unwrap());
        let addresses: Vec<_> = rows.iter().map(|row| row.local.ip().to_string()).collect();
        assert!(addresses.contains(&"::1".to_owned()), "{addresses:?}");
        assert!(
            addresses.contains(&"::ffff:127.0.0.1".to_owned()),
            "{addresses:?}"
        );
    }

    #[test]
    fn broken_rows_are_left_out() {
        let text = b"head\n 0: 0100007F:1F90 00000000:0000 0A 0:0 00:0 0 7 0 42\n 1: 01:1F90 x\n 2: 0100007F:1FFFF 0 0A 0 0 0 0 0 1\n";
        let rows: Vec<_> = tcp(text).collect();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].user, rows[0].inode), (7, 42));
    }

    #[test]
    fn knows_local_addresses() {
        let trie = include_bytes!("../../testdata/net_fib_trie");
        assert!(is_local_v4(trie, Ipv4Addr::new(192, 0, 2, 2)));
        assert!(is_local_v4(trie, Ipv4Addr::LOCALHOST));
        assert!(!is_local_v4(trie, Ipv4Addr::new(192, 0, 2, 0)));
        assert!(!is_local_v4(trie, Ipv4Addr::new(192, 0, 2, 255)));
        let inet6 = include_bytes!("../../testdata/net_if_inet6");
        assert!(is_local_v6(inet6, Ipv6Addr::LOCALHOST));
        assert!(is_local_v6(inet6, "fd00::2".parse().unwrap()));
        assert!(!is_local_v6(inet6, "fd00::3".parse().unwrap()));
    }
}
