//! Who serves an address: the processes that listen there, as one family.
//!
//! ```text
//! address ─► network namespaces that own it ─► listening sockets on its port ─► inodes
//!                                                                                  │ /proc/*/fd
//!    family = holders + parents of the same program + descendants  ◄─── holders ◄──┘
//! ```
//!
//! The caller's own network namespace comes first. When the address is not one of its own, or
//! nobody listens there, the namespaces of all other processes are tried; `/proc/PID/net` shows
//! them without privilege. To look behind another user's descriptors takes root.
//!
//! A port that a forwarder holds is not the forwarder's: docker-proxy is followed into the
//! container, and behind the others the server is not seen.
//!
//! Whom a server asks in turn (databases, upstreams) is read off its own connections, as far as they lead to
//! processes of this machine ([`behind`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use thiserror::Error;

use crate::netns;
use crate::parse::network::{
    STATE_ESTABLISHED, STATE_LISTEN, TcpRow, is_local_v4, is_local_v6, tcp,
};
use crate::parse::{decimal_u32, forwarder, process};
use crate::procfile::contents;

/// Forwarders one behind the other that are followed, at the most.
const FORWARDERS_MAX: u32 = 4;

/// Processes that count as one: a prefork server with its parent and children, or a driver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Family {
    /// Command name of the first process.
    pub name: String,
    /// Process ids, those that nobody else in the family started first.
    pub pids: Vec<u32>,
    /// The address that it was found by, inside the container for a published port; a family that
    /// died is looked for there again.
    pub address: Option<SocketAddr>,
    /// Whether children that these processes start later belong to the family.
    pub follows_children: bool,
    /// Processors that Go's runtime uses at once in each of them, where they have said so.
    pub gomaxprocs: Option<u32>,
}

impl Family {
    /// The first process: the oldest parent.
    pub fn leader(&self) -> Option<u32> {
        self.pids.first().copied()
    }
}

/// Why a server's processes cannot be seen.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum NotSeen {
    /// The address belongs to another machine, or to a place that cannot be seen from here.
    #[error(
        "{address} is not an address of this machine or of any network namespace on it: the server's side is out of sight"
    )]
    Remote {
        /// The address looked for.
        address: SocketAddr,
    },
    /// Somebody listens, and the process may not be looked into.
    #[error(
        "{address} is served by a process of user {user} that cannot be looked into: run as root, or name it with --server-pid"
    )]
    NoPermission {
        /// The address looked for.
        address: SocketAddr,
        /// User id that owns the listening socket.
        user: u32,
    },
    /// Somebody listens, and none of the processes in sight holds the socket.
    #[error(
        "{address} is served from outside this process namespace (another container, or the kernel): run on the host, or name the server with --server-pid"
    )]
    HolderHidden {
        /// The address looked for.
        address: SocketAddr,
    },
    /// A port forwarder listens, and where it leads to is out of sight.
    #[error(
        "{address} is held by the port forwarder {by}, behind which the server is not seen: name it with --server-pid or --server-cgroup"
    )]
    Forwarded {
        /// The address looked for.
        address: SocketAddr,
        /// The forwarder's command name.
        by: String,
    },
    /// Nobody listens there.
    #[error("nobody listens on {address}")]
    NoListener {
        /// The address looked for.
        address: SocketAddr,
    },
    /// Several namespaces have a listener on such an address.
    #[error(
        "{namespaces} network namespaces have a listener on {address}: name the server with --server-pid"
    )]
    Ambiguous {
        /// The address looked for.
        address: SocketAddr,
        /// How many.
        namespaces: usize,
    },
    /// No such process.
    #[error("there is no process {pid}")]
    NoSuchProcess {
        /// The process id looked for.
        pid: u32,
    },
    /// No such control group, or nobody in it.
    #[error("the control group {folder} has no processes: {why}")]
    NoSuchGroup {
        /// Its folder.
        folder: String,
        /// In words.
        why: String,
    },
    /// `/proc` cannot be read.
    #[error("/proc cannot be read: {why}")]
    NoProc {
        /// The system's words.
        why: String,
    },
}

/// The family that listens on an address of this machine, in whichever network namespace; for a
/// port that docker-proxy holds, the family in the container.
pub fn server_of(address: SocketAddr) -> Result<Family, NotSeen> {
    server_behind(address, &processes()?, FORWARDERS_MAX)
}

/// The same, through so many forwarders at the most.
fn server_behind(
    address: SocketAddr,
    table: &Table,
    forwarders_max: u32,
) -> Result<Family, NotSeen> {
    let address = SocketAddr::new(address.ip().to_canonical(), address.port());
    let sockets = listening_sockets(address, table)?;
    let inodes: BTreeSet<u64> = sockets.iter().map(|row| row.inode).collect();
    let (holders, hidden) = holders_of(&inodes, table);
    if holders.is_empty() {
        let user = sockets.first().map_or(0, |row| row.user);
        return Err(match hidden {
            true => NotSeen::NoPermission { address, user },
            false => NotSeen::HolderHidden { address },
        });
    }
    let holders = without_socket_activation(holders, table);
    if let Some(by) = forwarder_of(&holders, table) {
        let target = holders.iter().find_map(|pid| container_address(*pid));
        let found = target
            .zip(forwarders_max.checked_sub(1))
            .and_then(|(target, left)| server_behind(target, table, left).ok());
        return found.ok_or(NotSeen::Forwarded { address, by });
    }
    let members = with_relatives(holders, table);
    Ok(family(members, table, Some(address), true))
}

/// Whom a family asks: a family for each address that its connections lead to and that processes of this
/// machine serve. Who connects to it is not among them, nor whom it reaches by other machines or by sockets that
/// are no network's.
pub fn behind(family: &Family) -> Vec<Family> {
    let Ok(table) = processes() else {
        return Vec::new();
    };
    let mut known: BTreeSet<u32> = family.pids.iter().copied().collect();
    known.insert(std::process::id());
    let mut found = Vec::new();
    for (pid, address) in asked_by(&family.pids) {
        let sockets = match has_address(Some(pid), address.ip()) {
            // Loopback leads to the server's own namespace, whichever that is.
            true => listeners(Some(pid), address),
            false => listening_sockets(address, &table).unwrap_or_default(),
        };
        let inodes = sockets.iter().map(|row| row.inode).collect();
        let (holders, _) = holders_of(&inodes, &table);
        let members = with_relatives(without_socket_activation(holders, &table), &table);
        if members.is_empty() || !members.is_disjoint(&known) {
            continue;
        }
        known.extend(&members);
        found.push(self::family(members, &table, Some(address), true));
    }
    found
}

/// Where connections of a family lead to that it opened itself, on whichever host.
pub fn asked_by_family(family: &Family) -> Vec<SocketAddr> {
    let asked = asked_by(&family.pids).into_iter();
    asked.map(|(_, address)| address).collect()
}

/// Where connections of these processes lead to that they opened themselves, each once, with one of the
/// processes that has such a connection.
fn asked_by(pids: &[u32]) -> Vec<(u32, SocketAddr)> {
    // Who may not be looked into shows none.
    let sockets = pids.iter().filter_map(|pid| sockets_of(*pid).ok());
    let own: BTreeSet<u64> = sockets.flatten().collect();
    let mut namespaces = BTreeSet::new();
    let mut asked: Vec<(u32, SocketAddr)> = Vec::new();
    for pid in pids {
        let is_new = netns::id_of(Some(*pid)).is_ok_and(|namespace| namespaces.insert(namespace));
        if !is_new {
            continue;
        }
        let folder = netns::folder(Some(*pid));
        let files = ["tcp", "tcp6"].map(|file| contents(folder.join(file)).unwrap_or_default());
        let rows: Vec<TcpRow> = files
            .iter()
            .flat_map(|bytes| tcp(bytes))
            .filter(|row| own.contains(&row.inode))
            .collect();
        let serves = |port: u16| {
            let mut rows = rows.iter();
            rows.any(|row| row.state == STATE_LISTEN && row.local.port() == port)
        };
        for row in &rows {
            let ip = row.remote.ip().to_canonical();
            let remote = SocketAddr::new(ip, row.remote.port());
            let is_asked = row.state == STATE_ESTABLISHED && !serves(row.local.port());
            if is_asked && !asked.iter().any(|(_, address)| *address == remote) {
                asked.push((*pid, remote));
            }
        }
    }
    asked
}

/// Inodes of the sockets that a process holds.
fn sockets_of(pid: u32) -> io::Result<impl Iterator<Item = u64>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    Ok(links.filter_map(|link| socket_inode(link.as_os_str().as_encoded_bytes())))
}

/// A process and its descendants.
pub fn family_of(pid: u32) -> Result<Family, NotSeen> {
    let table = processes()?;
    if !table.contains_key(&pid) {
        return Err(NotSeen::NoSuchProcess { pid });
    }
    let members = with_descendants(BTreeSet::from([pid]), &table);
    Ok(family(members, &table, None, true))
}

/// The processes of a control group, by its folder, and of the groups within it; with their
/// descendants. Who comes to the group later and was started by nobody in it is not among them.
pub fn family_of_group(folder: &Path) -> Result<Family, NotSeen> {
    let table = processes()?;
    let nobody = |why: String| NotSeen::NoSuchGroup {
        folder: folder.display().to_string(),
        why,
    };
    let mut members = members_of(folder).map_err(|error| nobody(error.to_string()))?;
    members.retain(|pid| table.contains_key(pid));
    if members.is_empty() {
        return Err(nobody("cgroup.procs is empty".to_owned()));
    }
    let members = with_descendants(members, &table);
    Ok(family(members, &table, None, true))
}

fn members_of(folder: &Path) -> io::Result<BTreeSet<u32>> {
    let bytes = contents(folder.join("cgroup.procs"))?;
    let lines = bytes.split(|byte| *byte == b'\n');
    let mut members: BTreeSet<u32> = lines.filter_map(decimal_u32).collect();
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            // It may be gone by now.
            members.extend(members_of(&entry.path()).unwrap_or_default());
        }
    }
    Ok(members)
}

/// This process alone: what it starts (subjects, tools) is not part of the driver.
pub fn family_of_self() -> Family {
    let pid = std::process::id();
    let name = fs::read("/proc/self/stat")
        .ok()
        .and_then(|bytes| process::stat_name(&bytes))
        .unwrap_or_default();
    Family {
        name,
        pids: vec![pid],
        address: None,
        follows_children: false,
        gomaxprocs: None,
    }
}

/// What the walk over `/proc` keeps of a process.
#[derive(Debug, Clone)]
struct Row {
    name: String,
    parent: u32,
    start_ticks: u64,
}

type Table = BTreeMap<u32, Row>;

/// All processes in sight.
fn processes() -> Result<Table, NotSeen> {
    let no_proc = |error: io::Error| NotSeen::NoProc {
        why: error.to_string(),
    };
    let mut table = Table::new();
    for entry in fs::read_dir("/proc").map_err(no_proc)? {
        let entry = entry.map_err(no_proc)?;
        let Some(pid) = decimal_u32(entry.file_name().as_encoded_bytes()) else {
            continue;
        };
        // A process may end between the listing and the reading.
        let Ok(bytes) = contents(entry.path().join("stat")) else {
            continue;
        };
        if let (Some(stat), Some(name)) = (process::stat(&bytes), process::stat_name(&bytes)) {
            let row = Row {
                name,
                parent: stat.parent,
                start_ticks: stat.start_ticks,
            };
            table.insert(pid, row);
        }
    }
    Ok(table)
}

/// The listening sockets that serve an address, all of one network namespace.
fn listening_sockets(address: SocketAddr, table: &Table) -> Result<Vec<TcpRow>, NotSeen> {
    let own_has_address = has_address(None, address.ip());
    if own_has_address {
        let rows = listeners(None, address);
        if !rows.is_empty() {
            return Ok(rows);
        }
    }
    let mut seen = BTreeSet::from_iter(netns::id_of(None));
    let mut found: Vec<Vec<TcpRow>> = Vec::new();
    let mut owned_elsewhere = false;
    for pid in table.keys() {
        let Ok(namespace) = netns::id_of(Some(*pid)) else {
            continue;
        };
        if seen.insert(namespace) && has_address(Some(*pid), address.ip()) {
            owned_elsewhere = true;
            let rows = listeners(Some(*pid), address);
            if !rows.is_empty() {
                found.push(rows);
            }
        }
    }
    match (found.len(), own_has_address || owned_elsewhere) {
        (0, false) => Err(NotSeen::Remote { address }),
        (0, true) => Err(NotSeen::NoListener { address }),
        (1, _) => Ok(found.swap_remove(0)),
        (namespaces, _) => Err(NotSeen::Ambiguous {
            address,
            namespaces,
        }),
    }
}

/// Whether the network namespace of a process (`None`: the caller's) has the address as its own.
fn has_address(pid: Option<u32>, ip: IpAddr) -> bool {
    if ip.is_loopback() || ip.is_unspecified() {
        return true;
    }
    let folder = netns::folder(pid);
    match ip {
        IpAddr::V4(v4) => {
            contents(folder.join("fib_trie")).is_ok_and(|bytes| is_local_v4(&bytes, v4))
        }
        IpAddr::V6(v6) => {
            contents(folder.join("if_inet6")).is_ok_and(|bytes| is_local_v6(&bytes, v6))
        }
    }
}

/// The listening sockets of one namespace that would take a connection to the address: those bound
/// to it before those bound to any address, as the kernel prefers them.
fn listeners(pid: Option<u32>, address: SocketAddr) -> Vec<TcpRow> {
    let folder = netns::folder(pid);
    let mut rows: Vec<(u8, TcpRow)> = Vec::new();
    for file in ["tcp", "tcp6"] {
        let bytes = contents(folder.join(file)).unwrap_or_default();
        let fitting = tcp(&bytes)
            .filter(|row| row.state == STATE_LISTEN && row.local.port() == address.port())
            .filter_map(|row| Some((fit(row.local.ip(), address.ip())?, row)));
        rows.extend(fitting);
    }
    let best = rows.iter().map(|(fit, _)| *fit).max();
    rows.retain(|(fit, _)| Some(*fit) == best);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// How closely a bound address fits the one asked for; `None`: not at all.
fn fit(bound: IpAddr, asked: IpAddr) -> Option<u8> {
    let unspecified_v6 = bound == IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    if bound.to_canonical() == asked {
        return Some(3);
    }
    if asked.is_unspecified() {
        return Some(2);
    }
    match asked {
        IpAddr::V4(_) if bound == IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Some(2),
        // Unless it is for version 6 only, which the table does not tell.
        IpAddr::V4(_) if unspecified_v6 => Some(1),
        IpAddr::V6(_) if unspecified_v6 => Some(2),
        _ => None,
    }
}

/// The processes that hold one of these sockets, and whether some process's descriptors were out of
/// sight.
fn holders_of(inodes: &BTreeSet<u64>, table: &Table) -> (BTreeSet<u32>, bool) {
    let mut holders = BTreeSet::new();
    let mut hidden = false;
    for pid in table.keys() {
        let holds = match sockets_of(*pid) {
            Ok(mut sockets) => sockets.any(|inode| inodes.contains(&inode)),
            Err(error) => {
                hidden |= error.kind() == io::ErrorKind::PermissionDenied;
                false
            }
        };
        if holds {
            holders.insert(*pid);
        }
    }
    (holders, hidden)
}

/// `socket:[123]`.
fn socket_inode(link: &[u8]) -> Option<u64> {
    let inside = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
    crate::parse::decimal(inside)
}

/// systemd keeps the sockets that it passes on: with it, everything on the machine would be the
/// server.
fn without_socket_activation(holders: BTreeSet<u32>, table: &Table) -> BTreeSet<u32> {
    let is_manager = |pid: &u32| table.get(pid).is_some_and(|row| row.name == "systemd");
    let others: BTreeSet<u32> = holders
        .iter()
        .copied()
        .filter(|pid| !is_manager(pid))
        .collect();
    if others.is_empty() { holders } else { others }
}

/// The name of a port forwarder, where nobody but forwarders holds the sockets.
fn forwarder_of(holders: &BTreeSet<u32>, table: &Table) -> Option<String> {
    let mut names = holders
        .iter()
        .map(|pid| table.get(pid).map(|row| &row.name));
    let is_forwarder =
        |name: Option<&String>| name.is_some_and(|name| forwarder::is_forwarder(name));
    let first = names.next()?;
    (is_forwarder(first) && names.all(is_forwarder)).then(|| first.cloned())?
}

/// Where a process leads to, when it is docker-proxy.
fn container_address(pid: u32) -> Option<SocketAddr> {
    let line = contents(format!("/proc/{pid}/cmdline")).ok()?;
    forwarder::container_address(&line)
}

/// Adds the parents that run the same program, and all descendants.
fn with_relatives(holders: BTreeSet<u32>, table: &Table) -> BTreeSet<u32> {
    let own = std::process::id();
    let mut members = holders.clone();
    for holder in holders {
        let mut child = holder;
        while let Some(parent) = table.get(&child).map(|row| row.parent) {
            // A load generator that starts itself as a server is not part of that server.
            if parent <= 1
                || parent == own
                || !same_program(parent, child)
                || !members.insert(parent)
            {
                break;
            }
            child = parent;
        }
    }
    with_descendants(members, table)
}

/// Adds all descendants; not this process, nor what it started, which is more than servers.
fn with_descendants(mut members: BTreeSet<u32>, table: &Table) -> BTreeSet<u32> {
    let own = std::process::id();
    loop {
        let children: Vec<u32> = table
            .iter()
            .filter(|(pid, row)| **pid != own && row.parent != own && members.contains(&row.parent))
            .map(|(pid, _)| *pid)
            .filter(|pid| !members.contains(pid))
            .collect();
        if children.is_empty() {
            return members;
        }
        members.extend(children);
    }
}

/// Whether two processes run the same program: the same executable and, for interpreters, the same
/// script.
fn same_program(one: u32, other: u32) -> bool {
    let executable = |pid: u32| {
        let metadata = fs::metadata(format!("/proc/{pid}/exe")).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    let (Some(first), Some(second)) = (executable(one), executable(other)) else {
        return false;
    };
    first == second && (!is_interpreter(one) || script(one) == script(other))
}

fn is_interpreter(pid: u32) -> bool {
    const INTERPRETERS: [&str; 12] = [
        "python", "node", "ruby", "perl", "php", "java", "bash", "dash", "sh", "busybox", "bun",
        "deno",
    ];
    let Ok(path) = fs::read_link(format!("/proc/{pid}/exe")) else {
        return false;
    };
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    INTERPRETERS.iter().any(|interpreter| {
        let version = name.strip_prefix(interpreter);
        version.is_some_and(|rest| {
            rest.bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        })
    })
}

/// The first argument that is not an option.
fn script(pid: u32) -> Option<Vec<u8>> {
    let line = contents(format!("/proc/{pid}/cmdline")).ok()?;
    line.split(|byte| *byte == 0)
        .skip(1)
        .find(|word| !word.starts_with(b"-"))
        .map(<[u8]>::to_vec)
}

/// Orders the members, parents first, oldest first.
fn family(
    members: BTreeSet<u32>,
    table: &Table,
    address: Option<SocketAddr>,
    follows_children: bool,
) -> Family {
    let key = |pid: &u32| {
        let row = table.get(pid);
        let started_by_member = row.is_some_and(|row| members.contains(&row.parent));
        (
            started_by_member,
            row.map_or(0, |row| row.start_ticks),
            *pid,
        )
    };
    let mut pids: Vec<u32> = members.iter().copied().collect();
    pids.sort_by_key(key);
    let leader = pids.first().and_then(|pid| table.get(pid));
    Family {
        name: leader.map(|row| row.name.clone()).unwrap_or_default(),
        pids,
        address,
        follows_children,
        gomaxprocs: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows: &[(u32, u32, &str)]) -> Table {
        rows.iter()
            .map(|(pid, parent, name)| {
                let row = Row {
                    name: (*name).to_owned(),
                    parent: *parent,
                    start_ticks: u64::from(*pid),
                };
                (*pid, row)
            })
            .collect()
    }

    #[test]
    fn descendants_of_any_depth_belong() {
        let table = table(&[
            (10, 1, "a"),
            (11, 10, "a"),
            (12, 11, "b"),
            (20, 1, "x"),
            (5, 12, "wrapped pid"),
        ]);
        let members = with_descendants(BTreeSet::from([10]), &table);
        assert_eq!(members, BTreeSet::from([5, 10, 11, 12]));
        let family = family(members, &table, None, true);
        assert_eq!(family.pids, [10, 5, 11, 12]);
        assert_eq!(family.name, "a");
    }

    #[test]
    fn a_bound_address_comes_before_any_address() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(fit(ip("10.0.0.1"), ip("10.0.0.1")), Some(3));
        assert_eq!(fit(ip("::ffff:10.0.0.1"), ip("10.0.0.1")), Some(3));
        assert_eq!(fit(ip("0.0.0.0"), ip("10.0.0.1")), Some(2));
        assert_eq!(fit(ip("::"), ip("10.0.0.1")), Some(1));
        assert_eq!(fit(ip("10.0.0.2"), ip("10.0.0.1")), None);
        assert_eq!(fit(ip("0.0.0.0"), ip("::1")), None);
    }

    #[test]
    fn socket_activation_does_not_make_systemd_the_server() {
        let table = table(&[(1, 0, "systemd"), (30, 1, "server")]);
        let holders = BTreeSet::from([1, 30]);
        assert_eq!(
            without_socket_activation(holders, &table),
            BTreeSet::from([30])
        );
        assert_eq!(
            without_socket_activation(BTreeSet::from([1]), &table),
            BTreeSet::from([1])
        );
    }

    #[test]
    fn who_only_forwards_is_not_the_server() {
        let table = table(&[
            (30, 1, "docker-proxy"),
            (31, 1, "dockerd"),
            (40, 1, "nginx"),
        ]);
        let by = |pids: &[u32]| forwarder_of(&pids.iter().copied().collect(), &table);
        assert_eq!(by(&[30, 31]).as_deref(), Some("docker-proxy"));
        assert_eq!(by(&[30, 40]), None, "somebody else listens as well");
        assert_eq!(by(&[40]), None);
        assert_eq!(by(&[]), None);
    }

    #[test]
    fn a_remote_address_is_told_apart_from_a_silent_one() {
        let remote = "198.51.100.7:80".parse().unwrap();
        assert_eq!(server_of(remote), Err(NotSeen::Remote { address: remote }));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert_eq!(server_of(address), Err(NotSeen::NoListener { address }));
        assert_eq!(
            family_of(u32::MAX),
            Err(NotSeen::NoSuchProcess { pid: u32::MAX })
        );
    }

    #[test]
    fn a_group_is_everybody_in_it_and_below() {
        let mut child = std::process::Command::new("sleep")
            .arg("30")
            .spawn()
            .unwrap();
        // A folder as the kernel shows it: nobody here, one below, and one who has gone.
        let folder = std::env::temp_dir().join(format!("wallfinder-group-{}", child.id()));
        fs::create_dir_all(folder.join("below")).unwrap();
        fs::write(folder.join("cgroup.procs"), "").unwrap();
        let below = folder.join("below/cgroup.procs");
        fs::write(&below, format!("{}\n4194304\n", child.id())).unwrap();
        let found = family_of_group(&folder);
        fs::write(below, "").unwrap();
        let nobody = family_of_group(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let nowhere = family_of_group(&folder);
        child.kill().unwrap();
        child.wait().unwrap();
        let found = found.unwrap();
        assert_eq!(
            (found.pids, found.name.as_str()),
            (vec![child.id()], "sleep")
        );
        assert!(found.follows_children);
        for error in [nobody.unwrap_err(), nowhere.unwrap_err()] {
            assert!(matches!(error, NotSeen::NoSuchGroup { .. }), "{error}");
        }
    }

    #[test]
    fn finds_itself() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let found = server_of(listener.local_addr().unwrap()).unwrap();
        assert_eq!(found.pids, [std::process::id()]);
        assert_eq!(found.name, family_of_self().name);
    }
}
