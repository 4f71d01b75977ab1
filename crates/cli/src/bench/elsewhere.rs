//! A study whose servers stand on another host, and whose load may come from a third.
//!
//! ```text
//!  subjects ─► what the agent there may start, by their names; programs of ours are sent ─► Start { name }
//!              (at a hub: what its own host lets it start by these names; nothing is sent)
//!  link = "1gbit,mtu=9001" ─► the load's flows at that rate at the most, where the way there has such an MTU
//! ```

use std::net::SocketAddr;
use std::sync::Arc;

use wallfinder_hosts::ssh::{Allowed, Destination, Program};
use wallfinder_hosts::{Agent, ClientHost, LoadHere, There};
use wallfinder_model::link::{LinkSpec, shown_bits};
use wallfinder_model::scenario::{Client, Server};
use wallfinder_model::{Environment, Scenario};
use wallfinder_protocol::Grant;
use wallfinder_scenario::is_at_hub;
use wallfinder_study::{Hosts, Study, SubjectSpec};
use wallfinder_testbed::redact::is_telling;
use wallfinder_testbed::{command, programs};

use crate::exit::Failed;
use crate::placement::Placement;
use crate::reach::Reach;
use crate::testbed::{Standing, Ways, agent_of, agents_of, load_of, meant, told_apart, told_where};

/// The hosts of a study.
pub(crate) struct Elsewhere {
    hosts: Hosts,
    /// What the server's agent may start.
    allowed: Vec<Allowed>,
    /// The server's agent.
    server: Arc<Agent>,
    /// The client's, where that is another host as well, or several.
    clients: Vec<Arc<Agent>>,
    pub(crate) from: Arc<dyn ClientHost>,
    /// Where servers are reached; the port is that of the first.
    address: SocketAddr,
    /// The server's host, as the load's way leads there.
    facts: Environment,
}

impl Elsewhere {
    /// Starts agents on the study's hosts; `None`: it has none.
    pub(crate) fn of(study: &Study, reach: &Reach) -> Result<Option<Elsewhere>, Failed> {
        let Some(host) = &study.hosts.server else {
            return Ok(None);
        };
        let name = match &study.hosts.server_address {
            Some(address) => address.clone(),
            None => address_of(host)?,
        };
        let port = study.subjects.first().map_or(0, |subject| subject.port);
        let address = reach.look_up(&name, port)?;
        let at_hub = is_at_hub(host);
        let sent = match at_hub {
            false => &study.subjects[..],
            true => &[],
        };
        let allowed = sent
            .iter()
            .map(|subject| allowed(subject, address))
            .collect::<Result<Vec<Allowed>, Failed>>()?;
        let elsewhere = Elsewhere::connect(study.hosts.clone(), allowed, address)?;
        if at_hub {
            starts_all(&elsewhere.server, host, &study.subjects)?;
        }
        Ok(Some(elsewhere))
    }

    /// The same with agents that are started anew: those that were there have given up.
    pub(crate) fn again(&self) -> Result<Elsewhere, Failed> {
        Elsewhere::connect(self.hosts.clone(), self.allowed.clone(), self.address)
    }

    fn connect(
        hosts: Hosts,
        allowed: Vec<Allowed>,
        address: SocketAddr,
    ) -> Result<Elsewhere, Failed> {
        let ways = ways(&hosts);
        let server = hosts.server.as_deref();
        let server = server.ok_or_else(|| Failed::usage("no host is named"))?;
        let server = agent_of(server, ways, &allowed)?;
        let clients = agents_of(&hosts.clients, ways)?;
        let client = Client {
            deal: hosts.deal,
            ..Client::default()
        };
        let from: Arc<dyn ClientHost> = match &clients[..] {
            [] => Arc::new(LoadHere::towards(address)),
            agents => load_of(agents, address, (None, None), &client)?,
        };
        let facts =
            There::facts_of(&server, from.addresses().first().copied()).map_err(Failed::run)?;
        Ok(Elsewhere {
            hosts,
            allowed,
            server,
            clients,
            from,
            address,
            facts,
        })
    }

    /// As many of the client's processors as the study asks for, the last ones: the first may have a card's
    /// interrupts.
    pub(crate) fn placement(&self, study: &Study) -> Placement {
        let there = self.from.processors();
        let client = last(&there, study.client_cpus as usize);
        Placement::elsewhere(Some(client), there)
    }

    /// Where a subject is reached.
    pub(crate) fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.address.ip(), port)
    }

    /// Whether drivers other than our engine can make the load, and quotas hold it.
    pub(crate) fn loads_here(&self) -> Result<(), String> {
        match self.from.name() {
            None => Ok(()),
            Some(host) => Err(format!(
                "it is of this host, and the load comes from {host}"
            )),
        }
    }

    /// Where a subject stands and where its load comes from, in a scenario.
    pub(crate) fn place(&self, scenario: &mut Scenario, subject: &SubjectSpec) {
        let (server, client) = (&mut scenario.server, &mut scenario.client);
        scenario.target.url = format!("http://{}/", self.address(subject.port));
        server.host.clone_from(&self.hosts.server);
        server.ssh.clone_from(&self.hosts.ssh);
        server.subject = Some(subject.name.clone());
        let there = &self.server.welcome().cpus;
        server.cpus = (!subject.everywhere).then(|| last(there, subject.cpus as usize));
        let mut clients = self.hosts.clients.iter().cloned();
        client.host = clients.next();
        client.more_hosts = clients.collect();
        if !client.more_hosts.is_empty() {
            client.deal = self.hosts.deal;
        }
        client.ssh.clone_from(&self.hosts.ssh);
        scenario.hub.clone_from(&self.hosts.hub);
    }

    /// What stands for a subject, with the rate of its way to the client; an error where it cannot be had.
    pub(crate) fn standing<'s>(
        &'s self,
        placement: &'s Placement,
        subject: &SubjectSpec,
    ) -> Result<Standing<'s>, Failed> {
        if subject.quota_cores.is_some() {
            return Err(Failed::run("quotas of servers are for this host"));
        }
        let link = subject.link.as_deref().map(str::parse::<LinkSpec>);
        let (rate_bits, narrower) = match link.transpose().map_err(Failed::usage)? {
            None => (None, None),
            Some(link) => self.rate(&link).map_err(Failed::run)?,
        };
        Ok(Standing {
            narrower: narrower.map(|why| format!("`{}`: {why}", subject.name)),
            placement,
            server: Some(&self.server),
            clients: &self.clients,
            rate_bits,
        })
    }

    /// The rate that a link asks for, where the way there is like it; none where that is no wider by itself, and in
    /// words where it is narrower.
    fn rate(&self, link: &LinkSpec) -> Result<(Option<u64>, Option<String>), String> {
        let host = self.server.channel();
        let host = host.host();
        let Some(interface) = &self.facts.interface else {
            return Err(format!("the interface of {host} is not known"));
        };
        if link.delay_ns > 0 || link.buffer_bytes.is_some() || link.up_bits != link.down_bits {
            return Err(format!(
                "of its link, {host} can have the rate alone: no delay, no buffer, no other rate to it"
            ));
        }
        if let Some(mtu) = interface.mtu.filter(|mtu| *mtu != link.mtu) {
            return Err(format!(
                "its link has an MTU of {}, and {} of {host} has {mtu}",
                link.mtu, interface.name
            ));
        }
        let Some(bits) = interface.speed_bits.filter(|bits| *bits <= link.down_bits) else {
            return Ok((Some(link.down_bits), None));
        };
        let is_narrower = bits < link.down_bits;
        let why = is_narrower.then(|| {
            let (bits, asked) = (shown_bits(bits), shown_bits(link.down_bits));
            let name = &interface.name;
            format!("{name} of {host} has {bits}, and the study asks for a link of {asked}")
        });
        Ok((None, why))
    }
}

/// Puts the agents that a pattern means in its place.
pub(crate) fn name_clients(hosts: &mut Hosts) -> Result<(), Failed> {
    hosts.clients = meant(&hosts.clients, ways(hosts))?;
    let server = Server {
        host: hosts.server.clone(),
        ..Server::default()
    };
    told_apart(&hosts.clients, &server)
}

fn ways(hosts: &Hosts) -> Ways<'_> {
    Ways {
        ssh: hosts.ssh.as_deref(),
        hub: Some(&hosts.hub),
    }
}

/// By what a host's servers are reached where nothing else is said.
fn address_of(host: &str) -> Result<String, Failed> {
    if is_at_hub(host) {
        return Err(Failed::usage(format!(
            "`{host}` is a name at the hub, and no address: say with --server-address where the servers there are reached"
        )));
    }
    let destination: Destination = host.parse().map_err(Failed::usage)?;
    Ok(destination.name().to_owned())
}

/// At a hub an agent starts what its own host allows: these servers by their names?
fn starts_all(agent: &Agent, host: &str, servers: &[SubjectSpec]) -> Result<(), Failed> {
    let welcome = agent.welcome();
    let may_start = welcome.grants.contains(&Grant::Start);
    let is_missing = |name: &&String| !may_start || !welcome.subjects.contains(name);
    let names = servers.iter().map(|server| &server.name);
    let missing: Vec<&str> = names.filter(is_missing).map(String::as_str).collect();
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Failed::run(format!(
            "{host}: the agent there does not start {}: let its host do so (agent --grant {} --subject NAME=COMMAND, for \
             each), or name it as ssh://user@host, where they are sent",
            missing.join(", "),
            Grant::Start
        ))),
    }
}

fn last(cpus: &[u32], count: usize) -> Vec<u32> {
    cpus[cpus.len().saturating_sub(count)..].to_vec()
}

/// A subject as an agent is allowed to start it.
fn allowed(subject: &SubjectSpec, address: SocketAddr) -> Result<Allowed, Failed> {
    let told = told_where(
        &command::join(&subject.command),
        Some(&address.ip().to_string()),
        Some(subject.port),
    );
    let mut words = command::split(&told).map_err(Failed::usage)?;
    let name = words.remove(0);
    let program = match programs::find_subject(&name) {
        Ok(found) if found.built_in.is_some() => Program::Sent(found.path),
        // What this host has of that name says nothing of the other.
        _ => Program::There(name),
    };
    if let Some(name) = subject.env.keys().find(|name| is_telling(name)) {
        return Err(Failed::usage(format!(
            "`{name}` of the subject `{}` may be a secret, and command lines of another host are no place for it: set \
             it there, in a script that a forced command allows by name",
            subject.name
        )));
    }
    let env = subject.env.iter();
    Ok(Allowed {
        name: subject.name.clone(),
        env: env.map(|(name, value)| format!("{name}={value}")).collect(),
        program,
        arguments: words,
    })
}
