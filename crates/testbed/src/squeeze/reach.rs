//! Which squeezes are to be had here, and why the others are not.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use wallfinder_model::experiment::{OutOfReach, Squeeze};
use wallfinder_probe::online;
use wallfinder_probe::parse::host::cpulist;

use super::{Capacity, FewerCpus, Lever, LinkRate, Speed};
use crate::child::Shim;
use crate::cpu_stealer::{CpuStealer, shown_cpus};
use crate::error::TestbedError;
use crate::group::{Control, Group};
use crate::lab::Shaper;
use crate::pauses::Pauses;

/// Threads of one process that are asked where they may run, at the most.
const THREADS_MAX: usize = 4_096;
/// A backend that uses fewer cores than this has no share worth naming in the throughput.
const WORKING_CORES_MIN: f64 = 0.2;
/// Where the kernel tells what its interfaces are.
const INTERFACES: &str = "/sys/class/net";

/// The processes of one side, and the processors that they may run on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Side {
    /// Its processes; their descendants belong to it.
    pub pids: Vec<u32>,
    /// Its processors, ascending; empty: asked of its processes.
    pub cpus: Vec<u32>,
    /// Whether its processes are started later, and told by [`Lever::follow`] each time.
    pub comes_later: bool,
    /// Whether it is on another machine: it shares no processor with anybody here. A side that was
    /// only not found is not.
    pub elsewhere: bool,
}

impl Side {
    /// A server whose address nobody on this machine has, reached by this interface.
    pub fn beyond(interface: &str) -> Side {
        Side {
            elsewhere: leads_away(Path::new(INTERFACES), interface),
            ..Side::default()
        }
    }
}

/// Who is there to be squeezed.
#[derive(Debug)]
pub struct Scene {
    /// The server.
    pub server: Side,
    /// What makes the load: this process for our own engine, else the driver's.
    pub client: Side,
    /// Processes behind the server that are to be squeezed apart from it.
    pub backend: Option<Side>,
    /// Cores that those used under the load, where that was seen.
    pub backend_cores: Option<f64>,
    /// The rate from server to client, where it is ours to set.
    pub downlink: Option<Shaper>,
    /// The rate from client to server.
    pub uplink: Option<Shaper>,
    /// Seed of the rhythm of CPU stealers and pauses.
    pub seed: u64,
    /// What turns itself into the helpers.
    pub shim: Shim,
}

/// What came of it.
#[derive(Default)]
pub struct Reach {
    /// The levers, each at no dose.
    pub levers: Vec<Box<dyn Lever>>,
    /// What is not to be had, why, and what it needs.
    pub out_of_reach: Vec<OutOfReach>,
    /// The rate from server to client when nothing is taken, where it is ours to set.
    pub downlink_bits: Option<u64>,
    /// The rate from client to server.
    pub uplink_bits: Option<u64>,
}

impl Reach {
    fn add(&mut self, squeeze: Squeeze, lever: Result<Box<dyn Lever>, String>) {
        match lever {
            Ok(lever) => {
                tracing::info!(squeeze = squeeze.label(), how = %lever.how(), "lever stands");
                self.levers.push(lever);
            }
            Err(why) => self.out_of_reach.push(OutOfReach { squeeze, why }),
        }
    }
}

/// Puts up every lever that is to be had. The engine's own squeezes are not among them; for
/// our own engine the client's speed is one of those.
pub fn reach(scene: Scene) -> Reach {
    let mut reach = Reach::default();
    let Scene {
        server,
        client,
        backend,
        backend_cores,
        downlink,
        uplink,
        seed,
        shim,
    } = scene;
    reach.downlink_bits = downlink.as_ref().map(Shaper::full_bits);
    reach.uplink_bits = uplink.as_ref().map(Shaper::full_bits);
    let (server, client) = (located(server), located(client));
    let by = taken_by(&server, &client);
    let client_apart = client_apart(&server, &client);
    let own_engine = client.pids == [std::process::id()];
    let backend = backend.map(located);
    let (sharing, alone) = match &backend {
        Some(backend) if shares(backend, &[&server, &client]) => (Some(backend), None),
        backend => (None, backend.as_ref()),
    };
    let mut speeds = vec![(Squeeze::ServerSpeed, &server, "server", seed, by.clone())];
    if !own_engine {
        let may = client_apart.clone().map(|()| By::Processors);
        speeds.push((Squeeze::ClientSpeed, &client, "client", seed ^ 1, may));
    }
    if let Some(backend) = alone {
        speeds.push((
            Squeeze::BackendSpeed,
            backend,
            "backend",
            seed ^ 2,
            Ok(By::Processors),
        ));
    }
    // CPU stealers before quotas: the kernel may give a group of ours no real-time bandwidth. Quotas before
    // pauses: in version 2 a group that freezes stands below one with a quota, and never around it.
    let stealers: Vec<Result<_, String>> = speeds
        .iter()
        .map(|(_, side, _, seed, may)| {
            Ok(match may.clone()? {
                By::Processors => {
                    CpuStealer::start(&side.cpus, *seed, &shim).map_err(TestbedError::from)
                }
                By::Processes(shared) => Err(TestbedError::refused(
                    "a CPU stealer",
                    format!(
                        "it would take from the client as well, which runs on {}",
                        shown_cpus(&shared)
                    ),
                )),
            })
        })
        .collect();
    let server_capacity = by.and_then(|by| match by {
        By::Processors => capacity(Squeeze::ServerCapacity, &server, "server", &shim),
        // A processor less of the server's would be the client's alone.
        By::Processes(_) => quota(Squeeze::ServerCapacity, &server, "server", &shim)
            .map(|quota| Box::new(quota) as Box<dyn Lever>)
            .map_err(|error| error.to_string()),
    });
    let client_capacity =
        client_apart.and_then(|()| capacity(Squeeze::ClientCapacity, &client, "client", &shim));
    let backend_capacity = alone.map(|backend| quota_at_hand(backend, &shim));
    for ((squeeze, side, name, seed, _), stealer) in speeds.into_iter().zip(stealers) {
        let lever = stealer.and_then(|stealer| match stealer {
            Ok(stealer) => Ok(Box::new(Speed::by_stealer(squeeze, stealer)) as Box<dyn Lever>),
            Err(no_stealer) => pauses_of(squeeze, side, name, seed, &shim)
                .map_err(|no_pauses| format!("{no_stealer}; {no_pauses}")),
        });
        reach.add(squeeze, lever);
    }
    if let Some(backend) = sharing {
        let lever = pausable(backend_cores).and_then(|()| {
            pauses_of(Squeeze::BackendSpeed, backend, "backend", seed ^ 2, &shim)
                .map_err(|error| error.to_string())
        });
        reach.add(Squeeze::BackendSpeed, lever);
    }
    reach.add(Squeeze::ServerCapacity, server_capacity);
    reach.add(Squeeze::ClientCapacity, client_capacity);
    if let Some(lever) = backend_capacity {
        reach.add(Squeeze::BackendCapacity, lever);
    }
    for (squeeze, shaper, flag) in [
        (Squeeze::Downlink, downlink, "--downlink-dev"),
        (Squeeze::Uplink, uplink, "--uplink-dev"),
    ] {
        let lever = shaper.map(|shaper| Box::new(LinkRate::of(squeeze, shaper)) as Box<dyn Lever>);
        let why = || {
            format!(
                "there is no link whose rate is ours to set: lay one with --subject and --link, \
                 or name an interface with {flag}"
            )
        };
        reach.add(squeeze, lever.ok_or_else(why));
    }
    reach
}

fn located(mut side: Side) -> Side {
    if side.cpus.is_empty() {
        side.cpus = match side.comes_later {
            // What this process starts may run where it may itself.
            true => cpus_of(&[std::process::id()]),
            false => cpus_of(&side.pids),
        };
    }
    side
}

/// Whether what leaves by an interface leaves this machine: by a network card, or by a bond or a
/// VLAN on cards. Anything else (a bridge, one end of a pair, a tunnel) may end in a container or
/// a virtual machine here.
fn leads_away(interfaces: &Path, name: &str) -> bool {
    let folder = interfaces.join(name);
    if folder.join("device").exists() {
        return true;
    }
    if folder.join("bridge").exists() {
        return false;
    }
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
    let below: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_prefix("lower_").map(str::to_owned)
        })
        .collect();
    !below.is_empty() && below.iter().all(|lower| leads_away(interfaces, lower))
}

/// Processors that are online and that any thread of the processes may run on, ascending; empty
/// where that cannot be seen.
pub fn cpus_of(pids: &[u32]) -> Vec<u32> {
    let mut cpus = BTreeSet::new();
    for pid in pids {
        let threads = fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten();
        for thread in threads.flatten().take(THREADS_MAX) {
            let status = fs::read(thread.path().join("status")).unwrap_or_default();
            let mut lines = status.split(|byte| *byte == b'\n');
            let list = lines.find_map(|line| line.strip_prefix(b"Cpus_allowed_list:"));
            cpus.extend(
                list.and_then(|list| cpulist(list.trim_ascii()))
                    .unwrap_or_default(),
            );
        }
    }
    online::only(cpus.into_iter().collect())
}

/// How a server is squeezed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum By {
    /// By what is done to its processors.
    Processors,
    /// By what is done to its processes alone, for the client runs on these of its processors too. The client may
    /// then use what the server does not: the judge bounds what that hides.
    Processes(Vec<u32>),
}

fn taken_by(server: &Side, client: &Side) -> Result<By, String> {
    seen(server, "server")?;
    if client.elsewhere {
        return Ok(By::Processors);
    }
    seen(client, "client")?;
    let shared = in_common(server, client);
    Ok(match shared.is_empty() {
        true => By::Processors,
        false => By::Processes(shared),
    })
}

/// Processors that both may run on.
fn in_common(server: &Side, client: &Side) -> Vec<u32> {
    let both = server.cpus.iter().copied();
    both.filter(|cpu| client.cpus.contains(cpu)).collect()
}

/// What is taken from a client on a server's processors feeds the server.
fn keep_apart(server: &Side, client: &Side) -> Result<(), String> {
    seen(server, "server")?;
    seen(client, "client")?;
    let shared = in_common(server, client);
    if shared.is_empty() {
        return Ok(());
    }
    Err(format!(
        "server and client share {}, so what is taken from one feeds the other: keep them apart \
         with --client-cpus, and --server-cpus or, for a server that stands, taskset",
        shown_cpus(&shared)
    ))
}

/// The same for squeezes of the client: what they take cannot feed a server on another machine.
fn client_apart(server: &Side, client: &Side) -> Result<(), String> {
    match server.elsewhere {
        true => seen(client, "client"),
        false => keep_apart(server, client),
    }
}

/// Whether a side is here, and it is known where.
fn seen(side: &Side, name: &str) -> Result<(), String> {
    match (side.elsewhere, side.cpus.is_empty()) {
        (true, _) => Err(format!(
            "the {name} is on another machine, where nothing is ours to squeeze"
        )),
        (false, true) => Err(format!(
            "which processors the {name} runs on cannot be seen: it may be another user's, or in \
             a container or a virtual machine of this host"
        )),
        (false, false) => Ok(()),
    }
}

/// Pauses of a side, where there is no CPU stealer.
fn pauses_of(
    squeeze: Squeeze,
    side: &Side,
    name: &str,
    seed: u64,
    shim: &Shim,
) -> Result<Box<dyn Lever>, TestbedError> {
    let pauses = match side.comes_later {
        true => Pauses::for_later(name, seed, shim),
        false => Pauses::of(&side.pids, name, seed, shim),
    };
    Ok(Box::new(Speed::by_pauses(squeeze, pauses?, name)))
}

/// Whether others may run on its processors, or these cannot be seen. A backend on processors
/// of its own can have a CPU stealer there.
fn shares(backend: &Side, others: &[&Side]) -> bool {
    let mut theirs = others.iter().flat_map(|side| &side.cpus);
    backend.cpus.is_empty() || theirs.any(|cpu| backend.cpus.contains(cpu))
}

/// Pauses hold what merely waits in a process as well as what works in it. An elasticity to
/// the speed of processors is at most their utilisation (in closed networks of queues,
/// Q(N) - Q(N-1) = U - (1 - U) Q(N-1)), so of one that hardly works pauses would say more than
/// is so.
fn pausable(cores: Option<f64>) -> Result<(), String> {
    match cores {
        Some(cores) if cores < WORKING_CORES_MIN => Err(format!(
            "it used {cores:.2} cores, so its processors are not the wall; on processors that \
             others use it can only be paused, and that would hold what merely waits in it as \
             well: give it a processor of its own"
        )),
        _ => Ok(()),
    }
}

/// A quota on a control group.
fn quota(squeeze: Squeeze, side: &Side, name: &str, shim: &Shim) -> Result<Capacity, TestbedError> {
    let group = match side.comes_later {
        true => Group::for_children(name, Control::Cpu, shim)?,
        false => Group::around(&side.pids, name, Control::Cpu, shim)?,
    };
    Capacity::of(squeeze, group, side.cpus.len(), &side.pids)
}

/// A part of the quota that a backend has. While a quota binds, its processors have time left, so that their
/// speed tells nothing; without one, their speed tells all.
fn quota_at_hand(backend: &Side, shim: &Shim) -> Result<Box<dyn Lever>, String> {
    let capacity = quota(Squeeze::BackendCapacity, backend, "backend", shim);
    let capacity = capacity.map_err(|error| error.to_string())?;
    match capacity.outer_quota_cores() {
        Some(_) => Ok(Box::new(capacity)),
        None => Err("it has no quota of processor time, so that its speed tells all".to_owned()),
    }
}

/// A quota on a control group, else one processor less.
fn capacity(
    squeeze: Squeeze,
    side: &Side,
    name: &str,
    shim: &Shim,
) -> Result<Box<dyn Lever>, String> {
    let no_quota = match quota(squeeze, side, name, shim) {
        Ok(capacity) => return Ok(Box::new(capacity)),
        Err(error) => error,
    };
    if side.comes_later {
        return Err(no_quota.to_string());
    }
    match FewerCpus::of(squeeze, &side.pids, &side.cpus, shim) {
        Ok(fewer) => Ok(Box::new(fewer)),
        Err(no_fewer) => Err(format!("{no_quota}; {no_fewer}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(cpus: &[u32]) -> Side {
        Side {
            pids: vec![std::process::id()],
            cpus: cpus.to_vec(),
            ..Side::default()
        }
    }

    #[test]
    fn on_shared_processors_only_the_servers_processes_are_squeezed() {
        assert_eq!(keep_apart(&side(&[0]), &side(&[1])), Ok(()));
        let why = keep_apart(&side(&[0, 1]), &side(&[1, 2])).expect_err("they share one");
        assert!(
            why.contains("share cpu 1,") && why.contains("--server-cpus"),
            "{why}"
        );
        assert!(keep_apart(&side(&[]), &side(&[1])).is_err());
        let by = |server: &[u32]| taken_by(&side(server), &side(&[1, 2]));
        assert_eq!(by(&[0]), Ok(By::Processors));
        assert_eq!(by(&[0, 1]), Ok(By::Processes(vec![1])));
        assert!(by(&[]).is_err());
    }

    /// Who drives from here may be squeezed whoever the server is, unless that may be here as well.
    #[test]
    fn a_server_elsewhere_puts_only_its_own_squeezes_out_of_reach() {
        let elsewhere = Side {
            elsewhere: true,
            ..Side::default()
        };
        let client = side(&[0, 1]);
        let why = taken_by(&elsewhere, &client).expect_err("nothing there is ours");
        assert!(why.contains("another machine"), "{why}");
        assert_eq!(client_apart(&elsewhere, &client), Ok(()));
        assert!(client_apart(&elsewhere, &side(&[])).is_err());
        // From the server's host the client is the one elsewhere.
        assert_eq!(taken_by(&client, &elsewhere), Ok(By::Processors));
        assert!(client_apart(&client, &elsewhere).is_err());
        // It may be another user's, on the same processors.
        let not_found = Side::default();
        let why = client_apart(&not_found, &client).expect_err("it may be here");
        assert!(why.contains("cannot be seen"), "{why}");
        assert!(client_apart(&side(&[1]), &client).is_err());
        assert_eq!(client_apart(&side(&[2]), &client), Ok(()));
    }

    #[test]
    fn a_driver_that_nobody_pins_runs_where_this_process_may() {
        let driver = located(Side {
            comes_later: true,
            ..Side::default()
        });
        assert!(!driver.cpus.is_empty());
        assert_eq!(seen(&driver, "client"), Ok(()));
    }

    #[test]
    fn only_cards_lead_away_from_this_machine() {
        let top = std::env::temp_dir().join(format!("wf-interfaces-{}", std::process::id()));
        for folder in [
            "eth0/device",
            "bond0/lower_eth0",
            "bond0.7/lower_bond0",
            "br0/bridge",
            "br0/lower_eth0",
            "veth1",
            "vlan2/lower_veth1",
        ] {
            fs::create_dir_all(top.join(folder)).expect("a folder");
        }
        let away = ["eth0", "bond0", "bond0.7"];
        let here = ["br0", "veth1", "vlan2", "lo", "gone"];
        let is_away = |name: &&str| leads_away(&top, name);
        let (away, here) = (away.iter().all(is_away), here.iter().any(is_away));
        let _ = fs::remove_dir_all(&top);
        assert!(away && !here);
    }

    #[test]
    fn a_backend_that_hardly_works_is_not_paused() {
        let why = pausable(Some(0.04)).expect_err("it waits");
        assert!(
            why.contains("0.04 cores") && why.contains("processor of its own"),
            "{why}"
        );
        assert_eq!(pausable(Some(0.6)), Ok(()));
        assert_eq!(pausable(None), Ok(()));
        assert!(shares(&side(&[0]), &[&side(&[0]), &side(&[1])]));
        assert!(!shares(&side(&[2]), &[&side(&[0]), &side(&[1])]));
    }

    #[test]
    fn a_process_says_where_it_may_run() {
        let own = cpus_of(&[std::process::id()]);
        assert!(!own.is_empty());
        assert_eq!(cpus_of(&[u32::MAX]), Vec::<u32>::new());
    }

    #[test]
    fn what_is_out_of_reach_says_why_and_what_it_needs() {
        let scene = Scene {
            // Nobody saw it.
            server: Side::default(),
            client: side(&[0]),
            backend: None,
            backend_cores: None,
            downlink: None,
            uplink: None,
            seed: 1,
            shim: Shim::of_this_process(),
        };
        let reach = reach(scene);
        assert!(reach.levers.is_empty());
        let squeezes: Vec<Squeeze> = reach.out_of_reach.iter().map(|out| out.squeeze).collect();
        // The speed of our own engine is its own affair.
        let expected = [
            Squeeze::ServerSpeed,
            Squeeze::ServerCapacity,
            Squeeze::ClientCapacity,
            Squeeze::Downlink,
            Squeeze::Uplink,
        ];
        assert_eq!(squeezes, expected);
        assert!(reach.out_of_reach[0].why.contains("cannot be seen"));
        assert!(reach.out_of_reach[3].why.contains("--downlink-dev"));
    }
}
