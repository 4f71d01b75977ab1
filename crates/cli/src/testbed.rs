//! The testbed that a load runs on: a server that was started for it or that is there, a link
//! where one was asked for, and which processors belong to whom.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use wallfinder_conduct::experiment::{Restart, Restarted};
use wallfinder_hosts::ssh::{self, Allowed, Destination};
use wallfinder_hosts::{
    Agent, BackendHost, ClientHost, Fleet, Here, HostError, LoadHere, LoadThere, Named, ServerHost,
    Several, Shaped, There, at_once, cpus_of, named,
};
use wallfinder_model::scenario::Hub;
use wallfinder_model::{Environment, scenario};
use wallfinder_probe::Family;
use wallfinder_scenario::{is_at_hub, is_pattern, is_several};
use wallfinder_sys::{namespace, process};
use wallfinder_testbed::child::{Place, RunAs, Shim};
use wallfinder_testbed::command;
use wallfinder_testbed::error::TestbedError;
use wallfinder_testbed::group::{self, Control, Group};
use wallfinder_testbed::lab::{Lab, LinkSpec};
use wallfinder_testbed::programs;
use wallfinder_testbed::subject::{Subject, SubjectSpec};
use wallfinder_wire::mix::Known;

use crate::exit::Failed;
use crate::hub;
use crate::job::Job;
use crate::listening;
use crate::placement::Placement;
use crate::reach::Reach;
use crate::set_up::SetUp;
use crate::squeezing::device_of;
use crate::target::SUBJECT_HOST;

/// How long a subject may take to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Subjects of ours, which are told where to listen; any other server has it in its own
/// configuration.
const TOLD_WHERE: [&str; 5] = ["catalogue", "knownwall", "content", "echo", "echo-rs"];

/// A server to load: one that was started for the run, or one that is there.
pub(crate) struct Server {
    /// Kept for its life: dropping it ends it.
    pub(crate) subject: Option<Subject>,
    /// Where the load goes.
    pub(crate) address: SocketAddr,
    /// The host that it is on, and its processes there.
    pub(crate) host: Arc<dyn ServerHost>,
    /// Why they are not seen, where they are not.
    pub(crate) not_seen: Option<String>,
    /// The fingerprint of its host, where that is another.
    pub(crate) facts: Option<Environment>,
    /// Where else it may be asked.
    pub(crate) reach: Reach,
}

/// How the subject is started again within an experiment.
enum Anew {
    Here(Start),
    There(StartThere),
}

/// How it is started on another host, by name.
struct StartThere {
    agent: Arc<Agent>,
    name: String,
    port: u16,
    cpus: Vec<u32>,
    /// The addresses of the client's hosts, as it sees them.
    clients: Vec<IpAddr>,
    downlink: (Option<String>, Option<u64>),
}

/// How it is started here.
struct Start {
    command: String,
    cpus: Vec<u32>,
    port: Option<u16>,
    ip: Option<IpAddr>,
    place: Place,
    run_as: RunAs,
    /// The control group that this process was in when the subject was started first.
    origin: Option<PathBuf>,
    reach: Reach,
}

/// What stands already where one testbed is raised after the other.
pub(crate) struct Standing<'s> {
    /// Where the two sides are.
    pub(crate) placement: &'s Placement,
    /// The agents of the hosts that server and client are on, where these are others.
    pub(crate) server: Option<&'s Arc<Agent>>,
    pub(crate) clients: &'s [Arc<Agent>],
    /// The rate at which answers leave the server's host.
    pub(crate) rate_bits: Option<u64>,
    /// Why the way there is narrower than was asked for, where it is.
    pub(crate) narrower: Option<String>,
}

impl<'s> Standing<'s> {
    /// Both sides on this host.
    pub(crate) fn here(placement: &'s Placement) -> Standing<'s> {
        Standing {
            placement,
            server: None,
            clients: &[],
            rate_bits: None,
            narrower: None,
        }
    }
}

/// Agents, whose sessions end all at once: each waits until its agent knows.
#[derive(Default)]
struct Agents(Vec<Arc<Agent>>);

impl Agents {
    /// Those that were begun, unless one was not.
    fn all<E>(each: Vec<Result<Arc<Agent>, E>>) -> Result<Vec<Arc<Agent>>, E> {
        let (mut agents, mut failed) = (Agents::default(), None);
        for agent in each {
            match agent {
                Ok(agent) => agents.0.push(agent),
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or_else(|| Ok(std::mem::take(&mut agents.0)), Err)
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        // What others hold goes on.
        let own: Vec<Agent> = self.0.drain(..).filter_map(Arc::into_inner).collect();
        own.iter().for_each(Agent::end);
        at_once(own, drop);
    }
}

/// Everything that stands before a load begins. The order of the fields is that of taking
/// it down: the server goes before the link that it listens on.
pub(crate) struct Testbed {
    /// What is asked of the server beside the load, and once more before it goes. It stands first: fields are dropped in
    /// turn.
    set_up: OnceLock<SetUp>,
    pub(crate) server: Server,
    /// How often the server was started anew.
    pub(crate) restarts: u32,
    pub(crate) placement: Placement,
    pub(crate) lab: Option<Lab>,
    /// How to start the server anew, where it is ours and its processes are found by it.
    start: Option<Anew>,
    /// Quotas that were asked for.
    _quotas: Vec<Group>,
    /// The rate of the server's host that was asked for.
    _shaped: Option<Shaped>,
    /// The client's network namespace, where it is not that of the command.
    client_netns: Option<PathBuf>,
    /// The host that the load comes from.
    pub(crate) client: Arc<dyn ClientHost>,
    /// The host of what the server asks, where that is another.
    pub(crate) backend: Option<BackendHost>,
    /// Agents of other hosts, for as long as they are needed.
    _agents: Agents,
}

/// How a server that was started for the run ended during it.
pub(crate) struct SubjectEnded {
    /// Such as `exit status 3`.
    pub(crate) how: String,
    /// The last lines of what it said on standard error.
    pub(crate) said: String,
}

/// Where a thread was before a testbed took it elsewhere.
pub(crate) struct Home {
    netns: File,
    cpus: Vec<u32>,
}

impl Home {
    /// Of the calling thread.
    pub(crate) fn here() -> Result<Home, Failed> {
        Ok(Home {
            netns: File::open("/proc/thread-self/ns/net").map_err(Failed::run)?,
            cpus: process::allowed_cpus(),
        })
    }

    /// Takes the calling thread back.
    pub(crate) fn back(&self) -> Result<(), Failed> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", self.netns.as_raw_fd()));
        let id = |path| namespace::netns_id(path).map_err(Failed::run);
        if id(Some(&path))? != id(None)? {
            namespace::enter_netns(&path).map_err(Failed::run)?;
        }
        process::pin_to(&self.cpus).map_err(Failed::run)
    }
}

impl Testbed {
    /// Has a load's set-up made, once, and gives what it took. Its tear-down is made when the testbed goes.
    pub(crate) fn set_up(
        &self,
        make: impl FnOnce() -> Result<SetUp, Failed>,
    ) -> Result<Known, Failed> {
        let set_up = match self.set_up.get() {
            Some(set_up) => set_up,
            None => {
                let made = make()?;
                self.set_up.get_or_init(|| made)
            }
        };
        Ok(set_up.known())
    }

    /// Has set-up made again where it failed at the last start of the server, once what was made of it is taken down; an
    /// error says that it failed again.
    pub(crate) fn prepare(&mut self) -> Result<(), String> {
        match self.set_up.get_mut() {
            Some(set_up) if !set_up.is_whole() => {
                let shared = set_up.shared();
                let _turn = shared.as_ref().map(|shared| shared.turn());
                set_up.take_down();
                set_up.make_again()
            }
            _ => Ok(()),
        }
    }

    /// What went wrong with set-up while loads ran, in words.
    pub(crate) fn told_of_set_up(&self) -> Option<String> {
        self.set_up.get().and_then(SetUp::told)
    }

    /// Lays the link, starts the subject, finds the server, and puts this process on its
    /// processors and its side of the link. Called before any thread is started: threads
    /// inherit both.
    pub(crate) fn raise(job: &Job, standing: Option<&Standing<'_>>) -> Result<Testbed, Failed> {
        let (url, reach) = (&job.url, &job.around.reach);
        let (server, client) = (&job.scenario.server, &job.scenario.client);
        check(job)?;
        let shim = Shim::of_this_process();
        let lab = lay(job.scenario.link.lay.as_deref(), &shim)?;
        let mut quotas = Vec::new();
        let mut place = Place {
            netns: lab.as_ref().map(|lab| lab.server_netns().to_owned()),
            ..Place::default()
        };
        if let Some(cores) = server.quota {
            let group = Group::for_children("server", Control::Cpu, &shim);
            let group = with_quota(group, cores)?;
            place.cgroups.push(group.folder().to_owned());
            quotas.push(group);
        }
        let who = match (server.pid, &server.cgroup) {
            (Some(pid), _) => Named::Process(pid),
            (None, Some(folder)) => Named::Group(folder.clone()),
            (None, None) => Named::Nobody,
        };
        let (mut start, mut facts, mut agents, mut shaped) = (None, None, Agents::default(), None);
        let placed = standing.map(|standing| standing.placement);
        let (subject, placement, found, from) = match (&server.subject, &server.host) {
            (Some(command), None) => {
                let decide =
                    || Placement::decide(client.cpus.clone(), server.cpus.clone(), true, None);
                let placement = placed.cloned().unwrap_or_else(decide);
                let cpus = server.cpus.clone();
                let first = Start {
                    command: command.clone(),
                    cpus: cpus.unwrap_or_else(|| placement.server.clone()),
                    port: Some(url.port),
                    ip: lab.as_ref().map(Lab::server_address),
                    place,
                    run_as: job.run_as()?,
                    origin: group::of_this_process(Control::Cpu),
                    reach: reach.clone(),
                };
                let (subject, address) = first.run()?;
                if who == Named::Nobody && url.port != 0 {
                    start = Some(Anew::Here(first));
                }
                let address = url.resolve(Some(address), reach)?;
                let found = (address, here(address, &who, Some(&subject)));
                let from = Arc::new(LoadHere::towards(address)) as Arc<dyn ClientHost>;
                (Some(subject), placement, found, from)
            }
            (subject, host) => {
                let stands = standing.and_then(|standing| standing.server);
                let agent = host.as_ref().map(|host| match stands {
                    Some(agent) => Ok(Arc::clone(agent)),
                    None => agent_of(listens_on(host)?.0, Ways::of(job, &server.ssh), &[]),
                });
                let agent = agent.transpose()?;
                let cpus_there = server.cpus.clone().unwrap_or_default();
                if let (Some(agent), Some(name)) = (&agent, subject) {
                    There::start(agent, name, Some(url.port), cpus_there.clone())
                        .map_err(Failed::run)?;
                }
                let address = listening::address_of(job)?;
                let stands = standing.map_or(&[][..], |standing| standing.clients);
                let from = client_at(job, address, stands, &mut agents.0)?;
                let link = &job.scenario.link;
                let downlink = named_device(job, "link.downlink_dev", &link.downlink_dev)?;
                let seen = match &agent {
                    None => here(address, &who, None),
                    Some(agent) => {
                        let peers = from.addresses();
                        let port = host.as_deref().map(listens_on).transpose()?;
                        let port = port.and_then(|(_, port)| port);
                        let is_several = !server.more_hosts.is_empty();
                        let port = port.or(is_several.then(|| address.port()));
                        let there = match port {
                            None => {
                                There::find(agent, (address, who), peers.clone(), downlink.clone())
                            }
                            Some(port) => {
                                let place = (address, port);
                                There::find_behind(agent, place, peers.clone(), downlink.clone())
                            }
                        };
                        let there = there.map_err(Failed::run)?;
                        facts = there.facts().ok();
                        let rate_bits = standing.and_then(|standing| standing.rate_bits);
                        let rate = rate_bits.map(|rate_bits| there.shaped(rate_bits));
                        shaped = rate.transpose().map_err(Failed::run)?;
                        all_there(job, there, address, &peers, &mut agents.0)?
                    }
                };
                match (agent, subject) {
                    (Some(agent), Some(name)) => {
                        start = Some(Anew::There(StartThere {
                            agent,
                            name: name.clone(),
                            port: url.port,
                            cpus: cpus_there,
                            clients: from.addresses(),
                            downlink,
                        }));
                    }
                    (agent, _) => agents.0.extend(agent),
                }
                let runs_on = seen.0.family().and_then(cpus_of);
                let cpus = client.cpus.clone();
                let placement = match (&client.host, &server.host) {
                    _ if placed.is_some() => placed.cloned().unwrap_or_default(),
                    // Of several those of all.
                    (Some(_), _) => Placement::elsewhere(
                        cpus.filter(|_| !is_several(client)),
                        from.processors(),
                    ),
                    // Nobody there uses a processor of this host.
                    (None, Some(_)) => {
                        let cpus = cpus.or_else(|| Some(from.processors()));
                        Placement::decide(cpus, None, false, None)
                    }
                    (None, None) => Placement::decide(cpus, None, false, runs_on),
                };
                (None, placement, (address, seen), from)
            }
        };
        let mut backend = None;
        if let Some(host) = &server.backend_host {
            let agent = agent_of(host, Ways::of(job, &server.ssh), &[])?;
            backend = Some(BackendHost::of(&agent));
            agents.0.push(agent);
        }
        if let Some(folder) = &client.cgroup {
            let procs = folder.join("cgroup.procs");
            std::fs::write(&procs, std::process::id().to_string())
                .map_err(|error| Failed::run(format!("--client-cgroup: {procs:?}: {error}")))?;
        }
        if let Some(cores) = client.quota {
            quotas.push(client_quota(cores)?);
        }
        let (address, (host, not_seen)) = found;
        let laid = lab.as_ref().map(|lab| lab.client_netns().to_owned());
        let testbed = Testbed {
            set_up: OnceLock::new(),
            server: Server {
                subject,
                address,
                host,
                not_seen,
                facts,
                reach: reach.clone(),
            },
            restarts: 0,
            placement,
            client_netns: laid.or(client.netns.as_deref().map(netns_path)),
            lab,
            start,
            _quotas: quotas,
            _shaped: shaped,
            client: from,
            backend,
            _agents: agents,
        };
        if let Some(lab) = &testbed.lab {
            let cpus = testbed.placement.relay(&process::allowed_cpus());
            lab.relay_on(&cpus).map_err(Failed::run)?;
        }
        testbed.pin()?;
        testbed.enter()?;
        Ok(testbed)
    }

    /// Puts the calling thread, and those that it starts, on the client's processors, where they are of this host.
    pub(crate) fn pin(&self) -> Result<(), Failed> {
        match self.client.name().is_none() && !self.placement.client.is_empty() {
            true => process::pin_to(&self.placement.client).map_err(Failed::run),
            false => Ok(()),
        }
    }

    /// Puts the calling thread, and those that it starts, on the client's side of the link.
    pub(crate) fn enter(&self) -> Result<(), Failed> {
        let Some(netns) = &self.client_netns else {
            return Ok(());
        };
        namespace::enter_netns(netns)
            .map_err(|error| Failed::run(format!("the client's side, {netns:?}: {error}")))
    }

    /// An error where the subject went into the background.
    pub(crate) fn in_foreground(&self) -> Result<(), Failed> {
        let subject = self.server.subject.as_ref();
        match subject.and_then(Subject::in_background) {
            Some(went) => Err(Failed::run(went)),
            None => Ok(()),
        }
    }

    /// The server as it is now, where the processes that were found are gone: it was started anew.
    pub(crate) fn found_again(&self) -> Option<Arc<dyn ServerHost>> {
        let family = self.server.host.family()?;
        let runs = |pid: &u32| Path::new("/proc").join(pid.to_string()).exists();
        if family.pids.iter().any(runs) {
            return None;
        }
        let subject = self.server.subject.as_ref();
        let (host, _) = here(self.server.address, &Named::Nobody, subject);
        host.is_seen().then_some(host)
    }

    /// How the server that was started here ended, where it is gone.
    pub(crate) fn subject_ended(&self) -> Option<SubjectEnded> {
        let subject = self.server.subject.as_ref()?;
        let ended = subject.exited()?;
        Some(SubjectEnded {
            how: ended.to_string(),
            said: last_lines(&subject.stderr()),
        })
    }

    /// Who starts the server anew, where that can be done.
    pub(crate) fn restart(&mut self) -> Option<&mut dyn Restart> {
        self.start.is_some().then_some(self as &mut dyn Restart)
    }
}

impl Restart for Testbed {
    fn restart(&mut self) -> Result<Restarted, String> {
        let address = self.server.address;
        let mut set_up = self.set_up.take();
        let shared = set_up.as_ref().and_then(SetUp::shared);
        let turn = shared.as_ref().map(|shared| shared.turn());
        if let Some(set_up) = &mut set_up {
            set_up.take_down();
        }
        match self.start.as_ref().ok_or("the server is not ours")? {
            Anew::Here(start) => {
                self.server.subject = None;
                self.server.host = Arc::new(Here::default());
                let (subject, listens_on) = start.again().map_err(|error| {
                    format!("the server did not start again: {}", error.message)
                })?;
                if listens_on.port() != address.port() {
                    return Err(format!(
                        "the server listened on {address} and now listens on {listens_on}"
                    ));
                }
                (self.server.host, self.server.not_seen) =
                    here(address, &Named::Nobody, Some(&subject));
                self.server.subject = Some(subject);
            }
            Anew::There(start) => {
                let there = start.again(address);
                let there =
                    there.map_err(|error| format!("the server did not start again: {error}"))?;
                self.server.not_seen = there.not_seen().map(str::to_owned);
                self.server.host = Arc::new(there);
            }
        }
        let made = set_up.as_mut().map(SetUp::make_again);
        drop(turn);
        self.restarts += 1;
        self.set_up = set_up.map_or_else(OnceLock::new, OnceLock::from);
        Ok(Restarted {
            host: Arc::clone(&self.server.host),
            unprepared: made.and_then(Result::err),
        })
    }
}

impl StartThere {
    fn again(&self, address: SocketAddr) -> Result<There, HostError> {
        There::start(&self.agent, &self.name, Some(self.port), self.cpus.clone())?;
        let found = (address, Named::Nobody);
        There::find(
            &self.agent,
            found,
            self.clients.clone(),
            self.downlink.clone(),
        )
    }
}

impl Start {
    fn run(&self) -> Result<(Subject, SocketAddr), Failed> {
        self.in_place(self.place.clone())
    }

    /// The same from within groups that were made for the client since.
    fn again(&self) -> Result<(Subject, SocketAddr), Failed> {
        let mut place = self.place.clone();
        let moved = group::of_this_process(Control::Cpu) != self.origin;
        if place.cgroups.is_empty() && moved {
            place.cgroups.extend(self.origin.clone());
        }
        self.in_place(place)
    }

    fn in_place(&self, place: Place) -> Result<(Subject, SocketAddr), Failed> {
        let mut spec = subject_spec(&self.command, &self.cpus, self.port, self.ip);
        spec.place = place;
        spec.run_as = self.run_as.clone();
        start_subject(spec, self.ip, &self.reach)
    }
}

/// The server by its processes on this host; when they cannot be seen, why. One that was started here, the
/// subject, may tell of itself what `/proc` does not.
pub(crate) fn here(
    address: SocketAddr,
    who: &Named,
    subject: Option<&Subject>,
) -> (Arc<dyn ServerHost>, Option<String>) {
    let announced = subject.and_then(Subject::announced);
    match named(address, who) {
        Ok(family) => {
            let family = Family {
                gomaxprocs: announced.and_then(|said| said.gomaxprocs),
                ..family
            };
            (Arc::new(Here::of(Some(family))), None)
        }
        Err(why) => (Arc::new(Here::default()), Some(why.to_string())),
    }
}

/// The interface of another host that the user named, and its rate.
fn named_device(
    job: &Job,
    key: &str,
    device: &Option<String>,
) -> Result<(Option<String>, Option<u64>), Failed> {
    let Some(device) = device else {
        return Ok((None, None));
    };
    let (interface, rate) = device_of(job, key, device)?;
    Ok((Some(interface.to_owned()), rate))
}

/// The host that a load comes from, with an agent where that is another.
fn client_at(
    job: &Job,
    server: SocketAddr,
    stands: &[Arc<Agent>],
    agents: &mut Vec<Arc<Agent>>,
) -> Result<Arc<dyn ClientHost>, Failed> {
    let client = &job.scenario.client;
    let ways = Ways::of(job, &client.ssh);
    let Some(host) = &client.host else {
        return Ok(Arc::new(LoadHere::towards(server)));
    };
    if server.ip().is_loopback() {
        return Err(Failed::usage(format!(
            "{server} is this host as {host} sees itself: name the server by an address that is reached from there"
        )));
    }
    let mut named = meant([host], ways)?;
    named.extend(meant(&client.more_hosts, ways)?);
    told_apart(&named, &job.scenario.server)?;
    match stands {
        [] => agents.extend(agents_of(&named, ways)?),
        stands => agents.extend(stands.iter().cloned()),
    }
    let uplink = named_device(job, "link.uplink_dev", &job.scenario.link.uplink_dev)?;
    let of_load = &agents[agents.len() - named.len()..];
    load_of(of_load, server, uplink, client)
}

/// A load that these agents make towards a server, of which there is one at least; its way there is by such an interface.
pub(crate) fn load_of(
    agents: &[Arc<Agent>],
    server: SocketAddr,
    uplink: (Option<String>, Option<u64>),
    client: &scenario::Client,
) -> Result<Arc<dyn ClientHost>, Failed> {
    let each = at_once(agents, |agent| {
        let there = LoadThere::towards(agent, server, uplink.clone());
        there.map(|there| Arc::new(there) as Arc<dyn ClientHost>)
    });
    let each = each.into_iter().collect::<Result<Vec<_>, _>>();
    let mut each = each.map_err(Failed::run)?;
    match each.len() {
        1 => Ok(each.remove(0)),
        _ => Ok(Arc::new(Fleet::of(
            each,
            client.cpus.clone(),
            client.on_lost,
            client.deal,
        ))),
    }
}

/// Refuses client hosts that a pattern means twice, or that are the server's.
pub(crate) fn told_apart(clients: &[String], server: &scenario::Server) -> Result<(), Failed> {
    for (nth, name) in clients.iter().enumerate() {
        if clients[..nth].contains(name) {
            return Err(Failed::usage(format!(
                "`{name}` is meant twice by --client-host: name each host once"
            )));
        }
        let mut servers = server.host.iter().chain(&server.more_hosts);
        if servers.any(|other| other.split(',').next() == Some(name)) {
            return Err(Failed::usage(format!(
                "`{name}` is the server's host, and --client-host means it too: the load would take its processors. Name \
                 the others"
            )));
        }
    }
    Ok(())
}

/// The hosts that these mean, of which a pattern means those at the hub.
pub(crate) fn meant<'h>(
    hosts: impl IntoIterator<Item = &'h String>,
    ways: Ways<'_>,
) -> Result<Vec<String>, Failed> {
    let mut all = Vec::new();
    for host in hosts {
        match ways.hub.filter(|_| is_pattern(host)) {
            Some(hub) => all.extend(hub::meant(hub, host)?),
            None => all.push(host.clone()),
        }
    }
    Ok(all)
}

/// Starts agents on several hosts, some at a time: each takes as long as the way there does.
pub(crate) fn agents_of(hosts: &[String], ways: Ways<'_>) -> Result<Vec<Arc<Agent>>, Failed> {
    match ways.hub.filter(|hub| **hub != Hub::default()) {
        Some(hub) if hosts.len() > 1 && hosts.iter().all(|host| is_at_hub(host)) => {
            let agents = hub::line(hub)?.agents(hosts, &controller()).into_iter();
            let each = agents.map(|agent| agent.map(Arc::new).map_err(Failed::run));
            Agents::all(each.collect())
        }
        _ => Agents::all(at_once(hosts, |host| agent_of(host, ways, &[]))),
    }
}

/// A server's host as it is written with the port that it listens on there: `ssh://user@host,8080`.
fn listens_on(host: &str) -> Result<(&str, Option<u16>), Failed> {
    let Some((place, port)) = host.rsplit_once(',') else {
        return Ok((host, None));
    };
    match port.parse().ok().filter(|port| *port != 0) {
        Some(port) => Ok((place, Some(port))),
        None => Err(Failed::usage(format!(
            "`{host}` names no port: write it as ssh://user@host,8080"
        ))),
    }
}

/// The server on its host, and on those that answer for the same address; and why it is not seen on one of them.
fn all_there(
    job: &Job,
    first: There,
    address: SocketAddr,
    peers: &[IpAddr],
    agents: &mut Vec<Arc<Agent>>,
) -> Result<(Arc<dyn ServerHost>, Option<String>), Failed> {
    let server = &job.scenario.server;
    let mut all = vec![first];
    for host in &server.more_hosts {
        let (place, port) = listens_on(host)?;
        let agent = agent_of(place, Ways::of(job, &server.ssh), &[])?;
        let port = port.unwrap_or(address.port());
        let there = There::find_behind(&agent, (address, port), peers.to_vec(), (None, None));
        all.push(there.map_err(Failed::run)?);
        agents.push(agent);
    }
    let mut not_seen = all.iter().filter_map(There::not_seen);
    let not_seen = not_seen.next().map(str::to_owned);
    let found: Arc<dyn ServerHost> = match all.len() {
        1 => Arc::new(all.remove(0)),
        _ => Arc::new(Several::of(all)),
    };
    Ok((found, not_seen))
}

/// How agents of other hosts are reached.
#[derive(Clone, Copy)]
pub(crate) struct Ways<'w> {
    /// How ssh is called.
    pub(crate) ssh: Option<&'w str>,
    /// Where those are met that dialled out.
    pub(crate) hub: Option<&'w Hub>,
}

impl<'w> Ways<'w> {
    fn of(job: &'w Job, ssh: &'w Option<String>) -> Ways<'w> {
        Ways {
            ssh: ssh.as_deref(),
            hub: Some(&job.scenario.hub),
        }
    }
}

/// Starts an agent on another host, which may start these servers; or begins a session with one at the hub, whose own
/// host says which it may start.
pub(crate) fn agent_of(
    host: &str,
    ways: Ways<'_>,
    servers: &[Allowed],
) -> Result<Arc<Agent>, Failed> {
    let controller = controller();
    if let Some(hub) = ways.hub.filter(|_| is_at_hub(host)) {
        if hub == &Hub::default() {
            return Err(Failed::usage(format!(
                "`{host}` is no ssh://USER@HOST, and an agent of that name is met with --hub FOLDER"
            )));
        }
        let line = hub::line(hub)?;
        let agent = line.agent(host, &controller).map_err(Failed::run)?;
        return Ok(Arc::new(agent));
    }
    let destination: Destination = host.parse().map_err(Failed::usage)?;
    let ssh = command::split(ways.ssh.unwrap_or("ssh"))
        .map_err(|error| Failed::usage(format!("--ssh: {error}")))?;
    let agent = ssh::start(&destination, &ssh, &controller, servers).map_err(Failed::run)?;
    Ok(Arc::new(agent))
}

/// What this controller is called at agents.
fn controller() -> String {
    let variable = |name: &str| std::env::var(name).ok();
    let user = variable("USER").or(variable("LOGNAME"));
    format!(
        "{}@{} ({})",
        user.unwrap_or_else(|| format!("user {}", rustix::process::geteuid().as_raw())),
        process::host_name(),
        std::process::id()
    )
}

/// The end of what a server said, as far as a person reads it.
fn last_lines(said: &str) -> String {
    const LINES_MAX: usize = 5;
    const CHARS_MAX: usize = 300;
    let lines: Vec<&str> = said.trim_end().lines().collect();
    let last = &lines[lines.len().saturating_sub(LINES_MAX)..];
    let cut = |line: &&str| line.chars().take(CHARS_MAX).collect::<String>();
    last.iter().map(cut).collect::<Vec<_>>().join("\n")
}

fn netns_path(name: &str) -> PathBuf {
    match name.contains('/') {
        true => PathBuf::from(name),
        false => Path::new("/run/netns").join(name),
    }
}

/// Holds this process, and with it the engine, to a quota.
pub(crate) fn client_quota(cores: f64) -> Result<Group, Failed> {
    let own = [std::process::id()];
    let group = Group::around(&own, "client-quota", Control::Cpu, &Shim::of_this_process());
    with_quota(group, cores)
}

fn with_quota(group: Result<Group, TestbedError>, cores: f64) -> Result<Group, Failed> {
    let mut group = group.map_err(Failed::run)?;
    group.set_quota(Some(cores)).map_err(Failed::run)?;
    Ok(group)
}

/// What of a scenario its URL says: whether the host is the subject.
fn check(job: &Job) -> Result<(), Failed> {
    let (scenario, url) = (&job.scenario, &job.url);
    if scenario.server.subject.is_none() && url.host == SUBJECT_HOST {
        return Err(Failed::usage(
            "the host `subject` is the server that --subject starts, and there is no --subject",
        ));
    }
    if scenario.link.lay.is_some() && url.host != SUBJECT_HOST {
        return Err(Failed::usage(format!(
            "with --link the server is on a host of its own, whose name is `subject`: \
             write {}://subject:{}{}",
            url.scheme,
            url.port,
            url.path()
        )));
    }
    Ok(())
}

/// Lays a link, where there is to be one.
pub(crate) fn lay(link: Option<&str>, shim: &Shim) -> Result<Option<Lab>, Failed> {
    let Some(link) = link else {
        return Ok(None);
    };
    let spec: LinkSpec = link.parse().map_err(Failed::usage)?;
    Lab::lay(spec, None, shim).map(Some).map_err(Failed::run)
}

/// A subject on its processors, and where it is to listen.
fn subject_spec(command: &str, cpus: &[u32], port: Option<u16>, ip: Option<IpAddr>) -> SubjectSpec {
    let host = ip.map(|ip| ip.to_string());
    let mut spec = SubjectSpec::new(told_where(command, host.as_deref(), port));
    spec.cpus = cpus.to_vec();
    spec.listen_timeout = LISTEN_TIMEOUT;
    // 0: whichever the subject takes and announces.
    spec.expect_port = port.filter(|port| *port != 0);
    spec
}

/// Starts a subject on its side of the link. Where it says that it listens has to be an address that a load may
/// go to.
fn start_subject(
    spec: SubjectSpec,
    ip: Option<IpAddr>,
    reach: &Reach,
) -> Result<(Subject, SocketAddr), Failed> {
    let subject = Subject::start(spec).map_err(Failed::run)?;
    let address = reached_at(subject.address(), ip, reach)?;
    Ok((subject, address))
}

/// Where a subject is reached that says that it listens there: on its side of a link, if there is one.
fn reached_at(announced: &str, ip: Option<IpAddr>, reach: &Reach) -> Result<SocketAddr, Failed> {
    let mut address: SocketAddr = announced.parse().map_err(|_| {
        Failed::run(format!(
            "the subject says that it listens on `{announced}`, which is no address"
        ))
    })?;
    match ip {
        Some(ip) => address.set_ip(ip),
        // It listens on all addresses of this host.
        None if address.ip().is_unspecified() => address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        }),
        None => {}
    }
    let host = address.ip().to_string();
    reach.check(&host, address).map_err(|failed| Failed {
        message: format!("where the subject says that it listens: {}", failed.message),
        ..failed
    })
}

/// Whether a subject's command takes the flags that say where to listen.
pub(crate) fn is_told_where(command: &str) -> bool {
    let mut words = command.split_whitespace();
    // Variables may stand before the program, as in a shell.
    let program = words.find(|word| !word.contains('='));
    program.is_some_and(|program| {
        // `small20k/echo` is one of ours that was built otherwise.
        let built = || programs::find_subject(program).ok()?.built_in;
        TOLD_WHERE.contains(&program)
            || built().is_some_and(|name| TOLD_WHERE.contains(&name.as_str()))
    })
}

pub(crate) fn told_where(command: &str, host: Option<&str>, port: Option<u16>) -> String {
    if !is_told_where(command) {
        return command.to_owned();
    }
    let mut told = command.to_owned();
    let mut tell = |flag: &str, value: Option<String>| {
        if let Some(value) = value
            && !command.contains(flag)
        {
            told.push_str(&format!(" {flag} {value}"));
        }
    };
    tell("--host", host.map(str::to_owned));
    tell("--port", port.map(|port| port.to_string()));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_leads_no_load_elsewhere() {
        let at = |announced: &str| reached_at(announced, None, &Reach::default());
        for announced in [
            "8.8.8.8:80",
            "[2001:db8::1]:80",
            "169.254.169.254:80",
            "[::ffff:8.8.8.8]:80",
        ] {
            let failed = at(announced).unwrap_err();
            assert!(failed.message.contains("the subject says"), "{failed:?}");
        }
        for (announced, reached) in [
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("10.1.2.3:80", "10.1.2.3:80"),
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
        ] {
            assert_eq!(at(announced).unwrap().to_string(), reached, "{announced}");
        }
        let named = Reach::of(&["8.8.8.8".into(), "169.254.169.254".into()]);
        assert!(reached_at("8.8.8.8:80", None, &named).is_ok());
        assert!(reached_at("169.254.169.254:80", None, &named).is_err());
        // On a link it is on a host of ours, whatever it says.
        let ip = Some("10.231.0.1".parse().unwrap());
        let reached = reached_at("8.8.8.8:80", ip, &Reach::default()).unwrap();
        assert_eq!(reached.to_string(), "10.231.0.1:80");
        assert!(at("localhost:80").is_err());
    }

    #[test]
    fn subjects_of_ours_are_told_where_to_listen() {
        let told = |command| told_where(command, Some("10.231.0.1"), Some(80));
        assert_eq!(
            told("catalogue --prefork"),
            "catalogue --prefork --host 10.231.0.1 --port 80"
        );
        assert_eq!(
            told("knownwall --port 7"),
            "knownwall --port 7 --host 10.231.0.1"
        );
        assert_eq!(told("nginx -c bench.conf"), "nginx -c bench.conf");
        assert_eq!(told_where("catalogue", None, None), "catalogue");
    }

    #[test]
    fn of_what_a_server_said_the_last_lines_are_told() {
        assert_eq!(last_lines(""), "");
        assert_eq!(last_lines("one\ntwo\n\n"), "one\ntwo");
        let many: String = (0..40).map(|nth| format!("line {nth}\n")).collect();
        assert!(last_lines(&many).starts_with("line 35\n"));
        assert!(last_lines(&"x".repeat(9_000)).len() <= 300);
    }
}
