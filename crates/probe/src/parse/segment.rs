//! TCP segments as a packet socket shows them (packet(7), link header cut off), and the HTTP/1
//! exchanges in them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const TCP: u8 = 6;

/// One segment and what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'p> {
    /// Who sent it.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// Bytes of payload, as many as were captured.
    pub payload: &'p [u8],
}

/// The segment in an IP packet; `None` for everything else: other protocols, fragments, IPv6
/// with extension headers, heads cut short.
pub fn segment(packet: &[u8]) -> Option<Segment<'_>> {
    let (from, to, rest) = match packet.first()? >> 4 {
        4 => v4(packet)?,
        6 => v6(packet)?,
        _ => return None,
    };
    let port = |at: usize| Some(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
    let head = usize::from(rest.get(12)? >> 4) * 4;
    Some(Segment {
        from: SocketAddr::new(from, port(0)?),
        to: SocketAddr::new(to, port(2)?),
        payload: rest.get(head.max(20)..)?,
    })
}

/// Source, destination, and what is behind the head.
type Inside<'p> = (IpAddr, IpAddr, &'p [u8]);

fn v4(packet: &[u8]) -> Option<Inside<'_>> {
    let head = usize::from(packet[0] & 15) * 4;
    let fields = packet.get(..20)?;
    let is_fragment = u16::from_be_bytes([fields[6], fields[7]]) & 0x3fff != 0;
    if fields[9] != TCP || is_fragment || head < 20 {
        return None;
    }
    // A short packet is padded on Ethernet; one above 64 KiB (of segmentation offload) says 0.
    let length = match u16::from_be_bytes([fields[2], fields[3]]) {
        0 => packet.len(),
        length => packet.len().min(length.into()),
    };
    let address = |at: usize| {
        let bytes: [u8; 4] = fields[at..at + 4].try_into().expect("four of them");
        IpAddr::V4(Ipv4Addr::from(bytes))
    };
    Some((address(12), address(16), packet.get(head..length)?))
}

fn v6(packet: &[u8]) -> Option<Inside<'_>> {
    let fields = packet.get(..40)?;
    if fields[6] != TCP {
        return None;
    }
    let length = match u16::from_be_bytes([fields[4], fields[5]]) {
        0 => packet.len(),
        length => packet.len().min(40 + usize::from(length)),
    };
    let address = |at: usize| {
        let bytes: [u8; 16] = fields[at..at + 16].try_into().expect("sixteen of them");
        IpAddr::V6(Ipv6Addr::from(bytes))
    };
    Some((address(8), address(24), packet.get(40..length)?))
}

/// HTTP/1 exchanges with one server, added up. Each direction is counted by itself, so a
/// packet that was not captured is missing from both sides of its ratio.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exchanges {
    /// Request lines seen.
    pub requests: u64,
    /// Payload of the direction that they go in.
    pub request_bytes: u64,
    /// Status lines seen.
    pub answers: u64,
    /// Payload of the other direction.
    pub answer_bytes: u64,
}

impl Exchanges {
    /// Adds a packet, if it goes to the server or comes from it.
    pub fn add(&mut self, packet: &[u8], server: SocketAddr) {
        let Some(segment) = segment(packet) else {
            return;
        };
        let bytes = segment.payload.len() as u64;
        if segment.to == server {
            self.requests += count(segment.payload, is_end_of_request_line);
            self.request_bytes += bytes;
        } else if segment.from == server {
            self.answers += count(segment.payload, is_status_line);
            self.answer_bytes += bytes;
        }
    }
}

fn count(payload: &[u8], begins: fn(&[u8]) -> bool) -> u64 {
    (0..payload.len())
        .filter(|at| begins(&payload[*at..]))
        .count() as u64
}

fn is_end_of_request_line(bytes: &[u8]) -> bool {
    bytes.starts_with(b" HTTP/1.1\r\n") || bytes.starts_with(b" HTTP/1.0\r\n")
}

fn is_status_line(bytes: &[u8]) -> bool {
    let is_version = bytes.starts_with(b"HTTP/1.1 ") || bytes.starts_with(b"HTTP/1.0 ");
    is_version && bytes.len() >= 12 && bytes[9..12].iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: &str = "10.0.0.2:80";

    /// A segment between 10.0.0.1:40000 and the server, with options of 12 bytes.
    fn packet(to_server: bool, payload: &[u8]) -> Vec<u8> {
        let (client, server) = (([10, 0, 0, 1], 40_000_u16), ([10, 0, 0, 2], 80_u16));
        let (from, to) = match to_server {
            true => (client, server),
            false => (server, client),
        };
        let mut bytes = vec![0x45, 0];
        bytes.extend((52 + payload.len() as u16).to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, TCP, 0, 0]);
        bytes.extend(from.0);
        bytes.extend(to.0);
        bytes.extend(from.1.to_be_bytes());
        bytes.extend(to.1.to_be_bytes());
        bytes.extend([0; 8]);
        bytes.extend([0x80, 0x10]);
        bytes.extend([0; 6 + 12]);
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn a_segment_has_its_ends_and_its_payload_without_padding() {
        let mut bytes = packet(true, b"hello");
        bytes.extend([0; 7]);
        let seen = segment(&bytes).unwrap();
        assert_eq!(seen.from, "10.0.0.1:40000".parse().unwrap());
        assert_eq!(seen.to, SERVER.parse().unwrap());
        assert_eq!(seen.payload, b"hello");
    }

    #[test]
    fn six_is_read_as_four_is() {
        let inner = &packet(true, b"hello")[20..];
        let mut bytes = vec![0x60, 0, 0, 0];
        bytes.extend((inner.len() as u16).to_be_bytes());
        bytes.extend([TCP, 64]);
        bytes.extend(Ipv6Addr::LOCALHOST.octets());
        bytes.extend(Ipv6Addr::LOCALHOST.octets());
        bytes.extend(inner);
        let seen = segment(&bytes).unwrap();
        assert_eq!(seen.to, "[::1]:80".parse().unwrap());
        assert_eq!(seen.payload, b"hello");
    }

    #[test]
    fn what_is_no_whole_segment_is_passed_over() {
        let whole = packet(true, b"hello");
        for length in 0..52 {
            assert_eq!(segment(&whole[..length]), None, "{length}");
        }
        let with = |at: usize, byte: u8| {
            let mut bytes = whole.clone();
            bytes[at] = byte;
            bytes
        };
        assert_eq!(segment(&with(9, 17)), None, "UDP");
        assert_eq!(segment(&with(6, 0x20)), None, "a fragment");
        assert_eq!(segment(&with(0, 0x41)), None, "a head of 4 bytes");
        assert_eq!(segment(&with(0, 0x15)), None, "no IP");
        // A head of TCP that is longer than the packet.
        assert_eq!(segment(&with(32, 0xf0)), None);
    }

    #[test]
    fn exchanges_are_counted_in_either_direction_by_itself() {
        let server = SERVER.parse().unwrap();
        let mut seen = Exchanges::default();
        let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
        seen.add(&packet(true, &[&request[..], request].concat()), server);
        seen.add(&packet(false, &[&answer[..], answer].concat()), server);
        // The end of a body in a segment of its own, an acknowledgement, and a stranger.
        seen.add(&packet(false, b"HTTP/1.1 is a protocol"), server);
        seen.add(&packet(true, b""), server);
        seen.add(&packet(true, request), "10.0.0.2:81".parse().unwrap());
        assert_eq!(
            seen,
            Exchanges {
                requests: 2,
                request_bytes: 2 * request.len() as u64,
                answers: 2,
                answer_bytes: 2 * answer.len() as u64 + 22,
            }
        );
    }
}
