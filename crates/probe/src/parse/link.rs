//! rtnetlink(7): interfaces, queueing disciplines with a rate, and the interface that a route
//! takes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::netlink::{Message, attribute, attributes, text, u32_at, u64_at};

/// Kind of a message that describes an interface.
pub const NEW_LINK: u16 = 16;
/// Kind of a message that describes an address.
pub const NEW_ADDRESS: u16 = 20;
/// Kind of a message that describes a route.
pub const NEW_ROUTE: u16 = 24;
/// Kind of a message that describes a queueing discipline.
pub const NEW_QDISC: u16 = 36;
/// Kind of a message that describes a class of a queueing discipline.
pub const NEW_CLASS: u16 = 40;

const LINK_FIXED_BYTES: usize = 16;
const ADDRESS_FIXED_BYTES: usize = 8;
const TRAFFIC_FIXED_BYTES: usize = 20;
const ROUTE_FIXED_BYTES: usize = 12;
const PARENT_ROOT: u32 = u32::MAX;

/// An interface as configured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Link {
    /// Number within its namespace.
    pub index: u32,
    /// Name.
    pub name: String,
    /// Largest packet in bytes.
    pub mtu: Option<u32>,
    /// Name of the root queueing discipline.
    pub qdisc: Option<String>,
    /// Receive queues.
    pub rx_queues: Option<u32>,
    /// Transmit queues.
    pub tx_queues: Option<u32>,
    /// For a `veth`, the number of its peer within the peer's namespace.
    pub peer: Option<u32>,
    /// Kind, such as `veth`; none for hardware and loopback.
    pub kind: Option<String>,
}

/// Reads a [`NEW_LINK`] message.
pub fn link(message: &Message<'_>) -> Option<Link> {
    if message.kind != NEW_LINK {
        return None;
    }
    let mut link = Link {
        index: u32_at(message.payload, 4)?,
        ..Link::default()
    };
    for (kind, value) in attributes(message.payload.get(LINK_FIXED_BYTES..)?) {
        match kind {
            3 => link.name = text(value)?.to_owned(),
            4 => link.mtu = u32_at(value, 0),
            5 => link.peer = u32_at(value, 0),
            6 => link.qdisc = text(value).map(str::to_owned),
            18 => link.kind = attribute(value, 1).and_then(text).map(str::to_owned),
            31 => link.tx_queues = u32_at(value, 0),
            32 => link.rx_queues = u32_at(value, 0),
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

/// Reads a [`NEW_ADDRESS`] message: the number of an interface and one of its own addresses.
pub fn address(message: &Message<'_>) -> Option<(u32, IpAddr)> {
    if message.kind != NEW_ADDRESS {
        return None;
    }
    let parts = message.payload.get(ADDRESS_FIXED_BYTES..)?;
    // On a point-to-point link the plain address is the peer's, and the local one stands beside it.
    let octets = attribute(parts, 2).or_else(|| attribute(parts, 1))?;
    let ip = if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        IpAddr::V4(Ipv4Addr::from(v4))
    } else {
        IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(octets).ok()?))
    };
    Some((u32_at(message.payload, 4)?, ip))
}

/// A discipline or class that limits the rate at which an interface sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shaper {
    /// Number of the interface.
    pub interface: u32,
    /// Whether it stands at the root, so that everything passes it.
    pub root: bool,
    /// The most it lets through, in bytes per second.
    pub rate_bytes: u64,
    /// Bytes that passed it since it was made, headers of each segment included.
    pub passed_bytes: Option<u64>,
    /// Packets that it dropped since it was made.
    pub drops: Option<u32>,
}

/// Reads a [`NEW_QDISC`] message of `tbf` (its rate) or a [`NEW_CLASS`] message of `htb` (its
/// ceiling); `None` for disciplines that limit no rate.
pub fn shaper(message: &Message<'_>) -> Option<Shaper> {
    let interface = u32_at(message.payload, 4)?;
    let parent = u32_at(message.payload, 12)?;
    let parts = message.payload.get(TRAFFIC_FIXED_BYTES..)?;
    let kind = attribute(parts, 1).and_then(text)?;
    let options = attribute(parts, 2)?;
    // A rate above 2^32 - 1 bytes per second stands in an attribute of its own.
    let rate_bytes = match (message.kind, kind) {
        (NEW_QDISC, "tbf") => match attribute(options, 4) {
            Some(wide) => u64_at(wide, 0)?,
            None => u64::from(u32_at(attribute(options, 1)?, 8)?),
        },
        (NEW_CLASS, "htb") => match attribute(options, 7) {
            Some(wide) => u64_at(wide, 0)?,
            None => u64::from(u32_at(attribute(options, 1)?, 20)?),
        },
        _ => return None,
    };
    let counters = attribute(parts, 7);
    let basic = counters.and_then(|parts| attribute(parts, 1));
    let queue = counters.and_then(|parts| attribute(parts, 3));
    (rate_bytes > 0).then_some(Shaper {
        interface,
        root: parent == PARENT_ROOT,
        rate_bytes,
        passed_bytes: basic.and_then(|value| u64_at(value, 0)),
        drops: queue.and_then(|value| u32_at(value, 8)),
    })
}

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// Whether the destination is this namespace itself.
    pub local: bool,
    /// Number of the interface that packets leave by.
    pub interface: Option<u32>,
}

/// Reads a [`NEW_ROUTE`] message.
pub fn route(message: &Message<'_>) -> Option<Route> {
    const KIND_LOCAL: u8 = 2;
    if message.kind != NEW_ROUTE {
        return None;
    }
    let kind = *message.payload.get(7)?;
    let parts = message.payload.get(ROUTE_FIXED_BYTES..)?;
    Some(Route {
        local: kind == KIND_LOCAL,
        interface: attribute(parts, 4).and_then(|value| u32_at(value, 0)),
    })
}

#[cfg(test)]
mod tests {
    use super::super::netlink::messages;
    use super::*;

    #[test]
    fn reads_the_interfaces_of_a_lab_host() {
        let bytes = include_bytes!("../../testdata/rtnetlink_links");
        let links: Vec<_> = messages(bytes)
            .filter_map(|message| link(&message))
            .collect();
        let names: Vec<_> = links.iter().map(|link| link.name.as_str()).collect();
        assert_eq!(names, ["lo", "v1", "v0"]);
        let v0 = &links[2];
        assert_eq!((v0.mtu, v0.qdisc.as_deref()), (Some(1500), Some("tbf")));
        assert_eq!(v0.kind.as_deref(), Some("veth"));
        assert_eq!(v0.peer, Some(links[1].index));
        assert!(v0.rx_queues.is_some() && v0.tx_queues.is_some());
        assert_eq!((links[0].mtu, links[0].peer), (Some(65_536), None));
    }

    #[test]
    fn reads_own_addresses_of_both_families() {
        let bytes = include_bytes!("../../testdata/rtnetlink_addresses");
        let addresses: Vec<_> = messages(bytes)
            .filter_map(|message| address(&message))
            .collect();
        let of = |text: &str| {
            let wanted: IpAddr = text.parse().unwrap();
            addresses
                .iter()
                .find(|(_, ip)| *ip == wanted)
                .map(|(index, _)| *index)
        };
        assert_eq!(addresses.len(), 4);
        assert_eq!(of("127.0.0.1"), of("::1"));
        assert!(of("10.9.0.1").is_some());
        assert_eq!(of("10.9.0.1"), of("fd00:9::1"));
    }

    #[test]
    fn reads_the_rate_of_a_token_bucket() {
        let bytes = include_bytes!("../../testdata/rtnetlink_qdiscs");
        let shapers: Vec<_> = messages(bytes)
            .filter_map(|message| shaper(&message))
            .collect();
        assert_eq!(shapers.len(), 1);
        assert!(shapers[0].root);
        assert_eq!(shapers[0].rate_bytes, 125_000_000);
        assert_eq!(
            (shapers[0].passed_bytes, shapers[0].drops),
            (Some(90), Some(0))
        );
    }

    #[test]
    fn reads_the_ceiling_of_a_class_above_32_bits() {
        let bytes = include_bytes!("../../testdata/rtnetlink_classes_htb");
        let shapers: Vec<_> = messages(bytes)
            .filter_map(|message| shaper(&message))
            .collect();
        let root: Vec<_> = shapers.iter().filter(|shaper| shaper.root).collect();
        assert_eq!(root.len(), 1);
        assert_eq!(root[0].rate_bytes, 5_000_000_000);
        assert!(
            shapers
                .iter()
                .any(|shaper| !shaper.root && shaper.rate_bytes == 6_250_000)
        );
    }
}
