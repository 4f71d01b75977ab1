//! This host.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use wallfinder_model::experiment::Neighbour;
use wallfinder_probe::discover::{self, Family, NotSeen};
use wallfinder_probe::parse;
use wallfinder_probe::reference_loop::ReferenceLoop;
use wallfinder_probe::sample::{Sampler, Setup};
use wallfinder_probe::stacks::{self, Sampled, Stacks};
use wallfinder_probe::waits::{Waited, Waits};
use wallfinder_protocol::{Named, ProcessTime, ProcessTimes, Role};
use wallfinder_testbed::child::Shim;
use wallfinder_testbed::group;
use wallfinder_testbed::squeeze::{self, Reach, Scene, Side};

use crate::apart::is_of;
use crate::{Backend, Host, Own, PaceOf, Sampling, ServerHost, Taking};

/// A server on this host, or one whose processes are not seen.
#[derive(Debug, Clone, Default)]
pub struct Here {
    family: Option<Family>,
}

impl Here {
    /// These processes.
    pub fn of(family: Option<Family>) -> Here {
        Here { family }
    }
}

impl Host for Here {
    fn name(&self) -> Option<&str> {
        None
    }

    fn sampler(&self, setup: Setup) -> Result<Box<dyn Sampling>, String> {
        started(Setup {
            server: self.family.clone(),
            netns_of_pid: self.family.as_ref().and_then(Family::leader),
            ..setup
        })
    }

    fn pace(&self, cpus: Vec<u32>) -> PaceOf {
        pace(cpus)
    }

    fn levers(&self, own: Own) -> Reach {
        levers(Role::Server, own)
    }

    fn neighbours(&self, cpus: &[u32], known: &[u32], cores_min: f64) -> Vec<Neighbour> {
        neighbours(cpus, known, cores_min)
    }
}

impl ServerHost for Here {
    fn family(&self) -> Option<&Family> {
        self.family.as_ref()
    }

    fn is_seen(&self) -> bool {
        self.family.is_some()
    }

    fn processors(&self) -> Vec<u32> {
        let family = self.family.as_ref();
        family.map_or(Vec::new(), |family| squeeze::cpus_of(&family.pids))
    }

    fn times(&self) -> ProcessTimes {
        times()
    }

    fn processes(&self) -> u32 {
        let family = self.family.as_ref();
        family.map_or(0, |family| family.pids.len() as u32)
    }

    fn may_take_stacks(&self) -> Result<(), String> {
        stacks::allowed().map_err(|why| why.to_string())
    }

    fn stacks(&self) -> Result<Box<dyn Taking<Sampled>>, String> {
        let taken = Stacks::start(whose(self.family.as_ref(), "server")?);
        Ok(Box::new(taken.map_err(|why| why.to_string())?))
    }

    fn waits(&self, most: Duration) -> Result<Box<dyn Taking<Waited>>, String> {
        let taken = Waits::start(whose(self.family.as_ref(), "server")?, most);
        Ok(Box::new(taken.map_err(|why| why.to_string())?))
    }

    fn behind(&self) -> Vec<Backend> {
        let behind = self.family.as_ref().map_or_else(Vec::new, discover::behind);
        let behind = behind.into_iter().map(|family| Backend {
            name: family.name,
            pids: family.pids,
        });
        behind.collect()
    }

    fn asked(&self) -> Vec<SocketAddr> {
        self.family
            .as_ref()
            .map_or_else(Vec::new, discover::asked_by_family)
    }
}

pub(crate) fn started(setup: Setup) -> Result<Box<dyn Sampling>, String> {
    let sampler = Sampler::start(setup).map_err(|error| error.to_string())?;
    Ok(Box::new(sampler))
}

pub(crate) fn pace(cpus: Vec<u32>) -> PaceOf {
    let watched = ReferenceLoop::start([cpus, Vec::new()]);
    Box::new(move |from_ns, to_ns| watched.times_ns(from_ns, to_ns)[0])
}

/// The levers of one role, where the other is on another host.
pub(crate) fn levers(role: Role, own: Own) -> Reach {
    let Own {
        side,
        backend,
        backend_cores,
        way_out,
        seed,
    } = own;
    let elsewhere = Side {
        elsewhere: true,
        ..Side::default()
    };
    let none = elsewhere.clone();
    let (server, client, backend, downlink, uplink) = match role {
        Role::Server => (side, elsewhere, backend, way_out, None),
        Role::Client => (elsewhere, side, None, None, way_out),
        Role::Backend => (elsewhere, none, Some(side), None, None),
    };
    let mut reach = squeeze::reach(Scene {
        server,
        client,
        backend,
        backend_cores,
        downlink,
        uplink,
        seed,
        shim: Shim::of_this_process(),
    });
    reach.out_of_reach.retain(|out| is_of(out.squeeze, role));
    // Nobody is there for the others.
    reach.levers.retain(|lever| is_of(lever.squeeze(), role));
    reach
}

impl Taking<Sampled> for Stacks {
    fn end(&self) {
        Stacks::end(self);
    }

    fn stop(self: Box<Self>) -> Result<Sampled, String> {
        Stacks::stop(*self).map_err(|why| why.to_string())
    }
}

impl Taking<Waited> for Waits {
    fn end(&self) {
        Waits::end(self);
    }

    fn stop(self: Box<Self>) -> Result<Waited, String> {
        Waits::stop(*self).map_err(|why| why.to_string())
    }
}

/// Whose stacks the kernel is to take from now on: children that were born since the family was found are among them.
/// `name` in words, for what cannot be had.
pub fn whose(family: Option<&Family>, name: &str) -> Result<stacks::Setup, String> {
    let pids = family.map_or_else(Vec::new, present);
    if pids.is_empty() {
        return Err(format!(
            "the {name}'s processes are not seen, so their stacks are not"
        ));
    }
    Ok(stacks::Setup {
        cpus: squeeze::cpus_of(&pids),
        pids,
    })
}

/// The processes that were found, and those that they have started since, where these belong to the family.
fn present(family: &Family) -> Vec<u32> {
    let mut pids = family.pids.clone();
    if family.follows_children {
        let now = group::family(&pids).into_iter();
        pids.extend(now.filter(|pid| !family.pids.contains(pid)));
    }
    pids
}

/// The processes that serve an address, by whom the user says that they are.
pub fn named(address: SocketAddr, named: &Named) -> Result<Family, NotSeen> {
    match named {
        Named::Nobody => discover::server_of(address),
        Named::Process(pid) => discover::family_of(*pid),
        Named::Group(folder) => discover::family_of_group(folder),
    }
}

/// Processors that those who serve may run on; `None` when that is every one. Who has started
/// others of the family looks after them, and is idle while they serve: a supervisor that
/// nobody pinned would make pinned workers look as if they had the whole machine. Where that
/// is wrong, telemetry says so as soon as there is a load.
pub fn cpus_of(family: &Family) -> Option<Vec<u32>> {
    let cpus = squeeze::cpus_of(&workers(&family.pids, parent_of));
    let all = wallfinder_sys::process::allowed_cpus();
    (!cpus.is_empty() && !all.iter().all(|cpu| cpus.contains(cpu))).then_some(cpus)
}

/// How long processes are watched to see who uses a processor.
const WATCH: Duration = Duration::from_millis(400);

/// Processes that may run on these processors, belong neither to `known` nor to this
/// process, and use at least so many cores. Takes [`WATCH`].
pub(crate) fn neighbours(cpus: &[u32], known: &[u32], cores_min: f64) -> Vec<Neighbour> {
    let before = times();
    let began = Instant::now();
    std::thread::sleep(WATCH);
    let after = times();
    let took_ns = began.elapsed().as_nanos().max(1) as f64;
    let mut found: Vec<Neighbour> = after
        .of
        .iter()
        .filter(|(pid, _)| !known.contains(pid) && **pid != std::process::id())
        .filter_map(|(pid, now)| {
            let used_ns = now.cpu_ns.saturating_sub(before.of.get(pid)?.cpu_ns);
            let cores = used_ns as f64 / took_ns;
            (cores >= cores_min && may_run_on(*pid, cpus)).then(|| Neighbour {
                name: format!("{} ({pid})", now.name),
                cores,
            })
        })
        .collect();
    found.sort_by(|a, b| b.cores.total_cmp(&a.cores));
    found
}

/// CPU time of every process now.
pub(crate) fn times() -> ProcessTimes {
    let tick_ns = 1_000_000_000 / wallfinder_sys::clock::ticks_per_second().max(1);
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let of: BTreeMap<u32, ProcessTime> = processes
        .filter_map(|entry| {
            let bytes = std::fs::read(entry.path().join("stat")).ok()?;
            let stat = parse::process::stat(&bytes)?;
            let process = ProcessTime {
                name: parse::process::stat_name(&bytes)?,
                parent: stat.parent,
                cpu_ns: (stat.user_ticks + stat.system_ticks) * tick_ns,
            };
            Some((stat.pid, process))
        })
        .collect();
    ProcessTimes { of }
}

fn may_run_on(pid: u32, cpus: &[u32]) -> bool {
    squeeze::cpus_of(&[pid])
        .iter()
        .any(|cpu| cpus.contains(cpu))
}

/// Those that started none of the others.
fn workers(pids: &[u32], parent_of: impl Fn(u32) -> Option<u32>) -> Vec<u32> {
    let parents: Vec<u32> = pids.iter().filter_map(|pid| parent_of(*pid)).collect();
    let is_worker = |pid: &u32| !parents.contains(pid);
    pids.iter().copied().filter(is_worker).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let bytes = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse::process::stat(&bytes).map(|stat| stat.parent)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn who_was_born_since_the_family_was_found_is_looked_at_as_well() {
        // A shell that waits for a child, which waits for its input.
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", "cat; exit"]).stdin(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let found = |follows_children| Family {
            pids: vec![shell.id()],
            follows_children,
            ..Family::default()
        };
        let looked_at = |follows| whose(Some(&found(follows)), "server").unwrap().pids;
        let until = Instant::now() + Duration::from_secs(10);
        while looked_at(true).len() < 2 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(looked_at(true).len(), 2, "its child");
        assert_eq!(looked_at(false), [shell.id()]);
        drop(shell.stdin.take());
        shell.wait().unwrap();
    }

    #[test]
    fn who_started_others_does_not_serve() {
        // A master (10) with two workers, of which one has a helper of its own.
        let parent_of = |pid: u32| {
            [(10, 1), (11, 10), (12, 10), (13, 12)]
                .into_iter()
                .find_map(|(child, parent)| (child == pid).then_some(parent))
        };
        assert_eq!(workers(&[10, 11, 12, 13], parent_of), [11, 13]);
        assert_eq!(workers(&[10], parent_of), [10]);
    }
}
