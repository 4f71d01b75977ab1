//! A lab on one machine: two hosts with a link between them whose rate is ours to set.
//!
//! ```text
//!  network namespace wf-PID-START-Ns          network namespace wf-PID-START-Nc
//!  ┌──────────────────────────────┐           ┌──────────────────────────────┐
//!  │ server   10.231.x.1 link0 tbf│──veth────▶│ downlink                     │
//!  │                    uplink    │◀────veth──│tbf link0 10.231.x.2   client │
//!  └──────────────────────────────┘           └──────────────────────────────┘
//! ```
//!
//! With a delay the two are joined by two veth pairs instead, whose inner ends are in a
//! namespace of a [`relay`].
//!
//! What it is not: a network. There is no delay beyond the queues and the one that was asked
//! for, and no loss but a full queue's. With segmentation offload packets of up to 64 KB cross it as one, unless they are
//! larger than the bucket; and the sender's processor does most of the receiver's softirq
//! work, as with every veth.
//!
//! The addresses are of 10.231.0.0/16, a part of the private range 10.0.0.0/8 (RFC 1918):
//! one /30 for each lab, and only inside its namespaces.

mod hosts;
mod rate;
mod relay;
mod shaper;

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use crate::child::Shim;
use crate::error::TestbedError;
use crate::iproute::{self, InterfaceName};
use crate::tune::Interface;
use crate::undo::{Change, Journal, LINK, NETNS_FOLDER, OwnName, Tag, Undo};
use relay::{CLIENT_SIDE, Relay, SERVER_SIDE};

pub use hosts::{HOSTS_MAX, Host, Hosts};
pub(crate) use rate::{Handle, Rate, Tbf};
pub use relay::RelayWatch;
pub(crate) use relay::relay;
pub use shaper::{Flows, Shaper, ShaperStats};
pub use wallfinder_model::link::{BadLink, LinkSpec, parse_bits};

/// Names tried for one thing, at the most.
const NAMES_MAX: usize = 64;
/// Networks tried, at the most: all there are.
const NETWORKS_MAX: u32 = 256;

/// Which way packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From server to client.
    Down,
    /// From client to server.
    Up,
}

/// Two hosts and a link. Dropping it removes them.
#[derive(Debug)]
pub struct Lab {
    spec: LinkSpec,
    server: PathBuf,
    client: PathBuf,
    /// What the link is called on the client's host.
    client_link: String,
    network: u8,
    down: Option<Shaper>,
    up: Option<Shaper>,
    /// Ends before its namespace goes.
    relay: Option<Relay>,
    changes: Vec<Change>,
}

impl Lab {
    /// Lays the link between two hosts of its own; `client` names a network namespace that
    /// stands already, for the client to be in that.
    pub fn lay(spec: LinkSpec, client: Option<&Path>, shim: &Shim) -> Result<Lab, TestbedError> {
        let journal = Journal::open(shim)?;
        let mut changes = Vec::new();
        let (server, change) = add_netns(journal, "s")?;
        changes.push(change);
        let (client_netns, client_link) = match client {
            Some(path) => (path.to_owned(), free_link_name(path)?),
            None => {
                let (path, change) = add_netns(journal, "c")?;
                changes.push(change);
                (path, LINK.to_owned())
            }
        };
        let network = free_network(Some(&client_netns), 231, 30)?;
        let mut lab = Lab {
            spec,
            server,
            client: client_netns,
            client_link,
            network,
            down: None,
            up: None,
            relay: None,
            changes,
        };
        // From here on dropping it removes what is there.
        let between = match spec.delay_ns {
            0 => None,
            _ => {
                let (path, change) = add_netns(journal, "r")?;
                lab.changes.push(change);
                Some(path)
            }
        };
        lab.join(client.is_none(), between.as_deref(), journal)?;
        if let Some(netns) = &between {
            lab.relay = Some(Relay::start(spec, netns, shim)?);
        }
        let (server, client) = (&lab.server, &lab.client);
        let down = Tbf::of_link(&spec, spec.down_bits);
        let down = Shaper::on_own(server, &interface_named(LINK)?, down, journal)?;
        let up = Tbf::of_link(&spec, spec.up_bits);
        let up = Shaper::on_own(client, &interface_named(&lab.client_link)?, up, journal)?;
        (lab.down, lab.up) = (Some(down), Some(up));
        tracing::info!(link = %lab.how(), "testbed is laid");
        Ok(lab)
    }

    /// The veth pair or pairs, their addresses, and the loopbacks of hosts that are ours.
    fn join(
        &self,
        client_is_ours: bool,
        between: Option<&Path>,
        journal: &'static Journal,
    ) -> Result<(), TestbedError> {
        let lock = journal.held()?;
        let server = End {
            netns: &self.server,
            link: LINK,
            address: self.server_address(),
            hardware: self.hardware(1),
            is_ours: true,
        };
        let client = End {
            netns: &self.client,
            link: &self.client_link,
            address: self.client_address(),
            hardware: self.hardware(2),
            is_ours: client_is_ours,
        };
        match between {
            None => self.pair(&server, (client.netns, client.link), &lock)?,
            Some(between) => {
                let inner = [(&server, SERVER_SIDE), (&client, CLIENT_SIDE)];
                for (end, inner) in inner {
                    self.pair(end, (between, inner), &lock)?;
                    let quiet = ["ip", "link", "set", "dev", inner, "addrgenmode", "none"];
                    let up = ["ip", "link", "set", "dev", inner, "up"];
                    iproute::change_all(Some(between), &[&quiet, &up], &lock)?;
                }
            }
        }
        for (end, other) in [(&server, &client), (&client, &server)] {
            end.put_up(&lock)?;
            if between.is_some() {
                end.make_known(other, &lock)?;
            }
        }
        Ok(())
    }

    /// A veth pair from a host to an interface in another namespace.
    fn pair(
        &self,
        end: &End<'_>,
        (far, far_link): (&Path, &str),
        lock: &std::fs::File,
    ) -> Result<(), TestbedError> {
        let mtu = self.spec.mtu.to_string();
        let far = far.display().to_string();
        let add = [
            "ip",
            "link",
            "add",
            end.link,
            "address",
            &end.hardware,
            "mtu",
            &mtu,
            "type",
            "veth",
            "peer",
            "name",
            far_link,
            "mtu",
            &mtu,
            "netns",
            &far,
        ];
        iproute::change(Some(end.netns), &add, lock)
    }

    /// A hardware address of ours, locally administered: "WF", and which host.
    fn hardware(&self, host: u8) -> String {
        format!("02:57:46:{:02x}:00:{host:02x}", self.network)
    }

    /// The server's network namespace, a path to enter.
    pub fn server_netns(&self) -> &Path {
        &self.server
    }

    /// The client's.
    pub fn client_netns(&self) -> &Path {
        &self.client
    }

    /// Both ends of the link, as far as they stand in namespaces of ours: the server's first.
    pub fn ends(&self) -> Vec<Interface> {
        let ends = [
            (&self.server, LINK),
            (&self.client, self.client_link.as_str()),
        ];
        let own = ends.into_iter().filter_map(|(netns, link)| {
            let name = netns.strip_prefix(NETNS_FOLDER).ok()?.to_str()?;
            Tag::of_name(name)?;
            Some(Interface {
                netns: Some(name.to_owned()),
                name: link.to_owned(),
            })
        });
        own.collect()
    }

    /// Where the server is reached.
    pub fn server_address(&self) -> IpAddr {
        Ipv4Addr::new(10, 231, self.network, 1).into()
    }

    /// Where the client is.
    pub fn client_address(&self) -> IpAddr {
        Ipv4Addr::new(10, 231, self.network, 2).into()
    }

    /// What was laid.
    pub fn spec(&self) -> LinkSpec {
        self.spec
    }

    /// Hands out one direction of the link, once, to be squeezed. Its interface still goes
    /// with the lab.
    pub fn take_shaper(&mut self, direction: Direction) -> Option<Shaper> {
        match direction {
            Direction::Down => self.down.take(),
            Direction::Up => self.up.take(),
        }
    }

    /// Both, down and up.
    pub fn take_shapers(&mut self) -> (Option<Shaper>, Option<Shaper>) {
        (self.down.take(), self.up.take())
    }

    /// Keeps the relay on these processors, where the link has a delay.
    pub fn relay_on(&self, cpus: &[u32]) -> Result<(), TestbedError> {
        match &self.relay {
            Some(relay) if !cpus.is_empty() => relay.run_on(cpus),
            _ => Ok(()),
        }
    }

    /// Tells what the relay did, where the link has a delay.
    pub fn relay_watch(&self) -> Option<RelayWatch> {
        self.relay.as_ref().map(Relay::watch)
    }

    /// What the record should say of it.
    pub fn how(&self) -> String {
        let by = self.relay.as_ref().map_or("", |_| ", delayed by a relay");
        format!(
            "veth {} between {} and {}, tbf at both ends, segmentation offload on{by}",
            self.spec,
            self.server_address(),
            self.client_address()
        )
    }

    /// Removes it, and says if that could not be done.
    pub fn remove(mut self) -> Result<(), TestbedError> {
        self.relay = None;
        while let Some(change) = self.changes.pop() {
            change.undo()?;
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.relay = None;
        while self.changes.pop().is_some() {}
    }
}

/// A host's end of the link.
#[derive(Debug)]
struct End<'l> {
    netns: &'l Path,
    link: &'l str,
    address: IpAddr,
    hardware: String,
    is_ours: bool,
}

impl End<'_> {
    /// Gives it its address, and takes it up.
    fn put_up(&self, lock: &std::fs::File) -> Result<(), TestbedError> {
        let link = self.link;
        let address = format!("{}/30", self.address);
        let quiet = ["ip", "link", "set", "dev", link, "addrgenmode", "none"];
        let named = ["ip", "address", "add", &address, "dev", link];
        let up = ["ip", "link", "set", "dev", link, "up"];
        let mut commands: Vec<&[&str]> = vec![&quiet, &named, &up];
        let lo: &[&str] = &["ip", "link", "set", "dev", "lo", "up"];
        if self.is_ours {
            commands.push(lo);
        }
        iproute::change_all(Some(self.netns), &commands, lock)
    }

    /// Tells it the other's hardware address: to ask for it would be one more round trip, and
    /// the kernel stops asking after three seconds.
    fn make_known(&self, other: &End<'_>, lock: &std::fs::File) -> Result<(), TestbedError> {
        let address = other.address.to_string();
        let known = [
            "ip",
            "neighbour",
            "replace",
            &address,
            "lladdr",
            &other.hardware,
            "nud",
            "permanent",
            "dev",
            self.link,
        ];
        iproute::change(Some(self.netns), &known, lock)
    }
}

/// Takes an interface that stands, `[NETNS/]IFACE`, to have its rate squeezed and put back.
/// `NETNS` is a name in `/run/netns` or a path; `rate_bits` is needed where the interface has
/// no rate of its own.
pub fn standing(device: &str, rate_bits: Option<u64>, shim: &Shim) -> Result<Shaper, TestbedError> {
    let (netns, interface) = match device.rsplit_once('/') {
        Some((netns, interface)) if netns.contains('/') => (Some(PathBuf::from(netns)), interface),
        Some((netns, interface)) => (Some(Path::new(NETNS_FOLDER).join(netns)), interface),
        None => (None, device),
    };
    let interface = interface_named(interface)?;
    Shaper::on_standing(
        netns.as_deref(),
        &interface,
        rate_bits,
        Journal::open(shim)?,
    )
}

/// Takes an interface of this network namespace, to have the rate of a load's flows squeezed and of nothing else.
pub fn of_flows(
    interface: &str,
    rate_bits: Option<u64>,
    flows: Flows,
    shim: &Shim,
) -> Result<Shaper, TestbedError> {
    let interface = interface_named(interface)?;
    Shaper::on_flows(&interface, rate_bits, flows, Journal::open(shim)?)
}

fn interface_named(name: &str) -> Result<InterfaceName, TestbedError> {
    name.parse().map_err(|why| {
        TestbedError::refused("squeezing a rate", format!("{why}; write [NETNS/]IFACE"))
    })
}

fn add_netns(journal: &'static Journal, suffix: &str) -> Result<(PathBuf, Change), TestbedError> {
    for _ in 0..NAMES_MAX {
        let name = journal.name(suffix);
        let path = Path::new(NETNS_FOLDER).join(&name);
        if path.exists() {
            continue;
        }
        let own = OwnName::try_from(name.clone());
        let own = own.map_err(|why| TestbedError::failed("name a network namespace", why))?;
        let undo = Undo::DeleteNetns { name: own };
        let words = ["ip", "netns", "add", &name];
        match journal.change(undo, |lock| iproute::change(None, &words, lock)) {
            Ok((change, ())) => return Ok((path, change)),
            Err(TestbedError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let why = format!("{NAMES_MAX} names in {NETNS_FOLDER} are taken already");
    Err(TestbedError::refused("adding a network namespace", why))
}

/// A name for the client's end in a namespace that is not ours.
fn free_link_name(netns: &Path) -> Result<String, TestbedError> {
    let shown = iproute::look(Some(netns), &["ip", "-o", "link", "show"])?;
    let is_free = |name: &String| {
        let mut lines = shown.lines();
        !lines.any(|line| {
            line.contains(&format!(": {name}:")) || line.contains(&format!(": {name}@"))
        })
    };
    let mut names = (0..NAMES_MAX).map(|nth| format!("wflink{nth}"));
    names.find(is_free).ok_or_else(|| {
        let what = format!("adding a link to {}", netns.display());
        TestbedError::refused(what, format!("{NAMES_MAX} names are taken already"))
    })
}

/// A /30 that the client's host does not know yet. Only the client may have other links.
/// A network of 10.SECOND.0.0/16, with so many bits, of which whoever is in `netns` (`None`: here) knows nothing.
fn free_network(netns: Option<&Path>, second: u8, bits: u8) -> Result<u8, TestbedError> {
    let first = std::process::id();
    for nth in 0..NETWORKS_MAX {
        let network = (first.wrapping_add(nth) % NETWORKS_MAX) as u8;
        let prefix = format!("10.{second}.{network}.0/{bits}");
        let addresses = ["ip", "-4", "-o", "address", "show", "to", &prefix];
        let routes = ["ip", "-4", "route", "show", "table", "all", "root", &prefix];
        let is_known =
            |words: &[&str]| iproute::look(netns, words).map(|shown| !shown.trim().is_empty());
        if !is_known(&addresses)? && !is_known(&routes)? {
            return Ok(network);
        }
    }
    let place = netns.map_or("this namespace".to_owned(), |netns| {
        netns.display().to_string()
    });
    Err(TestbedError::refused(
        format!("an address in {place}"),
        format!("all of 10.{second}.0.0/16 is in use there"),
    ))
}
