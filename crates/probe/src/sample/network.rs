//! Reading the link between the two sides, and the TCP counters of the server's network namespace.
//!
//! ```text
//!  client's namespace            server's namespace
//!  ┌───────────────┐   veth     ┌────────────────┐     tx = downlink, its shaper stands here
//!  │   [shaper] c0 ┼────────────┼ s0 [shaper]    │     rx = uplink, its shaper stands at the other end
//!  └───────────────┘            └────────────────┘
//! ```
//!
//! The link is counted at the server's end. With the server out of sight the driver's own interface
//! is all there is; then both directions are swapped, so that `tx` is the downlink there as well.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::SocketAddr;

use wallfinder_model::telemetry::{LinkSample, TcpSample};
use wallfinder_sys::card::Card;

use crate::link::{Links, nominal_bits};
use crate::netns;
use crate::parse::link::{Link, Shaper};
use crate::parse::network::{counters, dev};
use crate::procfile::Buffer;
use crate::sample::reading::{LinkDetail, ShaperReading};

/// What is known of where the two sides are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    /// The link's name at either end.
    pub(crate) interface: Option<String>,
    /// A process in the server's namespace; none when the server is out of sight.
    pub(crate) server_pid: Option<u32>,
    /// Where the server listens.
    pub(crate) server_address: Option<SocketAddr>,
    /// A process in the driver's namespace; none: the caller's.
    pub(crate) client_pid: Option<u32>,
}

/// The counters of a network namespace: one interface, and TCP.
#[derive(Debug)]
pub(crate) struct NetworkReader {
    tcp: TcpReader,
    /// Of the driver's namespace, where it is not the server's.
    client_tcp: Option<TcpReader>,
    link: Option<LinkReader>,
}

/// The TCP counters of a network namespace.
#[derive(Debug)]
struct TcpReader {
    snmp: File,
    netstat: File,
}

impl NetworkReader {
    pub(crate) fn open(place: Place) -> io::Result<NetworkReader> {
        let apart = || {
            let server = netns::id_of(Some(place.server_pid?)).ok()?;
            let client = netns::id_of(place.client_pid).ok()?;
            (server != client).then(|| TcpReader::open(place.client_pid).ok())?
        };
        Ok(NetworkReader {
            tcp: TcpReader::open(place.server_pid.or(place.client_pid))?,
            client_tcp: apart(),
            link: LinkReader::open(&place),
        })
    }

    /// The interface that was settled on.
    pub(crate) fn interface(&self) -> Option<String> {
        Some(self.link.as_ref()?.interface.clone())
    }

    pub(crate) fn link(&self, buffer: &mut Buffer) -> Option<LinkSample> {
        self.link.as_ref()?.read(buffer)
    }

    pub(crate) fn detail(&mut self) -> LinkDetail {
        self.link
            .as_mut()
            .map(LinkReader::detail)
            .unwrap_or_default()
    }

    pub(crate) fn tcp(&self, buffer: &mut Buffer) -> Option<TcpSample> {
        self.tcp.read(buffer)
    }

    pub(crate) fn client_tcp(&self, buffer: &mut Buffer) -> Option<TcpSample> {
        self.client_tcp.as_ref()?.read(buffer)
    }
}

impl TcpReader {
    fn open(pid: Option<u32>) -> io::Result<TcpReader> {
        let folder = netns::folder(pid);
        Ok(TcpReader {
            snmp: File::open(folder.join("snmp"))?,
            netstat: File::open(folder.join("netstat"))?,
        })
    }

    fn read(&self, buffer: &mut Buffer) -> Option<TcpSample> {
        const BASIC: [&str; 6] = [
            "InSegs",
            "OutSegs",
            "RetransSegs",
            "ActiveOpens",
            "PassiveOpens",
            "OutRsts",
        ];
        const EXTENDED: [&str; 2] = ["ListenOverflows", "ListenDrops"];
        let [
            segments_in,
            segments_out,
            retransmits,
            active,
            passive,
            resets,
        ] = counters(buffer.read(&self.snmp).ok()?, "Tcp", BASIC);
        let [overflows, drops] = counters(buffer.read(&self.netstat).ok()?, "TcpExt", EXTENDED);
        Some(TcpSample {
            segments_in: segments_in?,
            segments_out: segments_out?,
            retransmits: retransmits?,
            listen_overflows: overflows?,
            listen_drops: drops?,
            opens_active: active?,
            opens_passive: passive?,
            resets_out: resets?,
        })
    }
}

/// One interface.
#[derive(Debug)]
struct LinkReader {
    interface: String,
    dev: File,
    /// Whether it stands at the driver's end.
    swapped: bool,
    here: Option<Links>,
    /// A card's driver.
    card: Option<CardReader>,
    /// Where the other end of a `veth` may be.
    there: Option<Links>,
}

impl LinkReader {
    fn open(place: &Place) -> Option<LinkReader> {
        let given = place.interface.clone()?;
        let (interface, swapped) = settle(place, &given);
        let (here, there) = match swapped {
            false => (place.server_pid.or(place.client_pid), place.client_pid),
            true => (place.client_pid, place.server_pid),
        };
        let dev = File::open(netns::folder(here).join("dev")).ok()?;
        let shaped = interface != "lo";
        let links_of = |pid| shaped.then(|| Links::of(pid).ok()).flatten();
        Some(LinkReader {
            dev,
            swapped,
            here: links_of(here),
            card: shaped.then(|| CardReader::open(here, &interface)).flatten(),
            there: links_of(there),
            interface,
        })
    }

    fn read(&self, buffer: &mut Buffer) -> Option<LinkSample> {
        let counted = dev(buffer.read_rows(&self.dev).ok()?, &self.interface)?;
        let received = (counted.rx_bytes, counted.rx_packets);
        let sent = (counted.tx_bytes, counted.tx_packets);
        let (up, down) = match self.swapped {
            false => (received, sent),
            true => (sent, received),
        };
        Some(LinkSample {
            rx_bytes: up.0,
            rx_packets: up.1,
            tx_bytes: down.0,
            tx_packets: down.1,
            drops: counted.rx_drops.saturating_add(counted.tx_drops),
        })
    }

    /// How the link is configured: the shaper at this end, and that of a `veth`'s other end.
    fn detail(&mut self) -> LinkDetail {
        let Some((here, link)) = self.here.as_mut().and_then(|here| {
            let link = here.named(&self.interface)?;
            Some((here, link))
        }) else {
            return LinkDetail::default();
        };
        let this_end = here.shaper(&link).map(shaper_reading);
        let other_end = self.there.as_mut().and_then(|there| {
            let peer = peer_of(&link, there.all().ok()?)?;
            there.shaper(&peer).map(shaper_reading)
        });
        let (down, up) = match self.swapped {
            false => (this_end, other_end),
            true => (other_end, this_end),
        };
        LinkDetail {
            mtu: link.mtu,
            nominal_bits: nominal_bits(&link),
            down,
            up,
            card: self.card.as_ref().map(CardReader::read).unwrap_or_default(),
        }
    }
}

/// What a card's driver counts of what was lost or held up.
#[derive(Debug)]
struct CardReader {
    card: Card,
    /// Places of such counters, with their names.
    telling: Vec<(usize, String)>,
}

impl CardReader {
    fn open(pid: Option<u32>, interface: &str) -> Option<CardReader> {
        let card = netns::inside(pid, || Card::open(interface)).ok()?;
        let names = card.names().iter().enumerate();
        let telling = names.filter(|(_, name)| tells_of_loss(name));
        let telling: Vec<(usize, String)> =
            telling.map(|(place, name)| (place, name.clone())).collect();
        (!telling.is_empty()).then_some(CardReader { card, telling })
    }

    fn read(&self) -> BTreeMap<String, u64> {
        let Ok(counts) = self.card.counts() else {
            return BTreeMap::new();
        };
        let mut read = BTreeMap::new();
        for (place, name) in &self.telling {
            *read.entry(name.clone()).or_default() += counts[*place];
        }
        read
    }
}

/// Whether a driver's counter is of packets that were lost, found no room, or were held up by who rents the machine
/// out. Drivers have no common names.
fn tells_of_loss(name: &str) -> bool {
    const PARTS: [&str; 9] = [
        "_exceeded",
        "drop",
        "discard",
        "missed",
        "no_buf",
        "nobuf",
        "out_of_buffer",
        "overrun",
        "fifo",
    ];
    PARTS.iter().any(|part| name.contains(part))
}

/// The interface to count at, and whether it stands at the driver's end.
fn settle(place: &Place, given: &str) -> (String, bool) {
    let as_given = |swapped| (given.to_owned(), swapped);
    let Some(server) = place.server_pid else {
        return as_given(given != "lo");
    };
    let namespace = |pid| netns::id_of(pid).ok();
    if namespace(Some(server)) == namespace(place.client_pid) {
        return as_given(false);
    }
    let Ok(mut there) = Links::of(Some(server)) else {
        return as_given(false);
    };
    let by_address = place
        .server_address
        .filter(|address| !address.ip().is_loopback());
    if let Some(link) = by_address.and_then(|address| there.owning(address.ip())) {
        return (link.name, false);
    }
    if there.named(given).is_some() {
        return as_given(false);
    }
    let at_client = Links::of(place.client_pid)
        .ok()
        .and_then(|mut links| links.named(given));
    let opposite = at_client.and_then(|link| peer_of(&link, there.all().ok()?));
    match opposite {
        Some(link) => (link.name, false),
        None => as_given(true),
    }
}

/// The other end of a `veth`: each names the other's number.
fn peer_of(link: &Link, candidates: Vec<Link>) -> Option<Link> {
    let is_veth = |link: &Link| link.kind.as_deref() == Some("veth");
    candidates.into_iter().find(|candidate| {
        is_veth(link)
            && is_veth(candidate)
            && candidate.peer == Some(link.index)
            && link.peer == Some(candidate.index)
    })
}

fn shaper_reading(shaper: Shaper) -> ShaperReading {
    ShaperReading {
        rate_bits: shaper.rate_bytes.saturating_mul(8),
        passed_bytes: shaper.passed_bytes,
        drops: u64::from(shaper.drops.unwrap_or(0)),
    }
}
