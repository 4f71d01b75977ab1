//! A server on another host, by its agent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use wallfinder_model::Environment;
use wallfinder_model::experiment::Neighbour;
use wallfinder_probe::Family;
use wallfinder_probe::sample::Setup;
use wallfinder_probe::stacks::Sampled;
use wallfinder_probe::waits::Waited;
use wallfinder_protocol::{
    Answer, Ask, Found, Grant, LeversOrder, Named, ProcessTimes, Role, Side as FarSide, Stacks,
    WayOut,
};
use wallfinder_testbed::squeeze::{Reach, Side};

use crate::channel::{Channel, HostError};
use crate::far::Far;
use crate::{Agent, Backend, Host, Own, PaceOf, Sampling, ServerHost, Taking};

/// A server on another host.
#[derive(Debug, Clone)]
pub struct There {
    far: Far,
    found: Result<Found, String>,
    /// The addresses of the client's hosts as the server sees them; none: they are not known.
    peers: Vec<IpAddr>,
    /// The server's port.
    port: u16,
    /// The interface that answers leave by and its rate, where the user named them.
    downlink: (Option<String>, Option<u64>),
}

impl There {
    /// Looks for who serves an address there, for client hosts of these addresses. That nobody is seen is no error: it
    /// is said.
    pub fn find(
        agent: &Agent,
        (address, named): (SocketAddr, Named),
        peers: Vec<IpAddr>,
        downlink: (Option<String>, Option<u64>),
    ) -> Result<There, HostError> {
        let far = Far::of(agent, Role::Server);
        let found = match far.channel.call(Ask::Find { address, named }) {
            Ok(Answer::Found(found)) => Ok(found),
            Ok(other) => return Err(far.channel.strange(&other)),
            Err(error) => Err(error.to_string()),
        };
        Ok(There {
            far,
            found,
            peers,
            port: address.port(),
            downlink,
        })
    }

    /// Looks for who listens on a port there, where the load's address is that of who passes requests on to it: by
    /// which way it answers is not known then.
    pub fn find_behind(
        agent: &Agent,
        (address, port): (SocketAddr, u16),
        peers: Vec<IpAddr>,
        downlink: (Option<String>, Option<u64>),
    ) -> Result<There, HostError> {
        let direct = (SocketAddr::new(address.ip(), port), Named::Nobody);
        let there = There::find(agent, direct, peers, downlink.clone())?;
        if there.not_seen().is_none() {
            return Ok(there);
        }
        let any = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let any = (SocketAddr::new(any, port), Named::Nobody);
        There::find(agent, any, Vec::new(), downlink)
    }

    /// Starts a server of the host's own list, in the place of one that was, and waits until it listens.
    pub fn start(
        agent: &Agent,
        name: &str,
        port: Option<u16>,
        cpus: Vec<u32>,
    ) -> Result<(), HostError> {
        let channel = agent.channel();
        let name = name.to_owned();
        match channel.call(Ask::Start { name, port, cpus })? {
            Answer::Started { address } => {
                tracing::info!(host = channel.host(), address, "a server is started");
                Ok(())
            }
            other => Err(channel.strange(&other)),
        }
    }

    /// The load's flows leave the server's host at such a rate at the most, as long as what is given is kept.
    pub fn shaped(&self, rate_bits: u64) -> Result<Shaped, HostError> {
        let way_out = self.way_out();
        let way_out = WayOut {
            rate_bits: Some(rate_bits),
            ..way_out.ok_or_else(|| self.far.channel.failed("no way leads there from here"))?
        };
        let way_out = Some(way_out);
        self.far.channel.order(Ask::Shape { way_out })?;
        Ok(Shaped(Arc::clone(&self.far.channel)))
    }

    fn way_out(&self) -> Option<WayOut> {
        (!self.peers.is_empty()).then(|| WayOut {
            peers: self.peers.clone(),
            port: self.port,
            interface: self.downlink.0.clone(),
            rate_bits: self.downlink.1,
        })
    }

    /// A client host, by the way to which the others are taken to be reached too.
    fn peer(&self) -> Option<IpAddr> {
        self.peers.first().copied()
    }

    /// Why the server's processes are not seen.
    pub fn not_seen(&self) -> Option<&str> {
        self.found.as_ref().err().map(String::as_str)
    }

    /// The machine's fingerprint.
    pub fn facts(&self) -> Result<Environment, HostError> {
        facts(&self.far.channel, self.peer())
    }

    /// That of an agent's machine, as the way to a client of such an address leads.
    pub fn facts_of(agent: &Agent, peer: Option<IpAddr>) -> Result<Environment, HostError> {
        facts(&agent.channel(), peer)
    }

    fn pids(&self) -> &[u32] {
        let found = self.found.as_ref();
        found.map_or(&[][..], |found| &found.family.pids)
    }
}

fn facts(channel: &Channel, peer: Option<IpAddr>) -> Result<Environment, HostError> {
    match channel.call(Ask::Facts { peer })? {
        Answer::Facts(facts) => Ok(*facts),
        other => Err(channel.strange(&other)),
    }
}

impl Host for There {
    fn name(&self) -> Option<&str> {
        Some(self.far.name())
    }

    fn lost(&self) -> Option<HostError> {
        self.far.channel.lost()
    }

    fn sampler(&self, setup: Setup) -> Result<Box<dyn Sampling>, String> {
        let port = setup.port.map(|_| self.port);
        self.far.watch(&Setup { port, ..setup }, self.peer())
    }

    fn pace(&self, cpus: Vec<u32>) -> PaceOf {
        self.far.pace(cpus)
    }

    fn levers(&self, own: Own) -> Reach {
        let side = |side: &Side| FarSide {
            pids: side.pids.clone(),
            cpus: side.cpus.clone(),
        };
        self.far.levers(LeversOrder {
            role: Role::Server,
            own: FarSide {
                pids: self.pids().to_vec(),
                ..side(&own.side)
            },
            backend: own.backend.as_ref().map(side),
            backend_cores: own.backend_cores,
            way_out: self.way_out(),
            seed: own.seed,
        })
    }

    fn neighbours(&self, cpus: &[u32], known: &[u32], cores_min: f64) -> Vec<Neighbour> {
        let known = [known, self.pids()].concat();
        self.far.neighbours(cpus, known, cores_min)
    }
}

impl ServerHost for There {
    fn family(&self) -> Option<&Family> {
        None
    }

    fn is_seen(&self) -> bool {
        self.found.is_ok()
    }

    fn processors(&self) -> Vec<u32> {
        let found = self.found.as_ref().ok();
        found.map_or(Vec::new(), |found| found.cpus.clone())
    }

    fn times(&self) -> ProcessTimes {
        self.far.times()
    }

    fn processes(&self) -> u32 {
        self.pids().len() as u32
    }

    fn may_take_stacks(&self) -> Result<(), String> {
        let host = self.far.channel.host();
        match (
            self.far.welcome.is_root,
            self.far.welcome.grants.contains(&Grant::Profile),
        ) {
            (true, true) => Ok(()),
            (false, _) => Err(format!(
                "the agent on {host} is not root, and takes no stacks"
            )),
            (_, false) => Err(format!(
                "the agent on {host} does not grant `{}`",
                Grant::Profile
            )),
        }
    }

    fn stacks(&self) -> Result<Box<dyn Taking<Sampled>>, String> {
        Ok(Box::new(self.take(Stacks::Running)?))
    }

    fn waits(&self, _: Duration) -> Result<Box<dyn Taking<Waited>>, String> {
        Ok(Box::new(self.take(Stacks::Waiting)?))
    }

    fn asked(&self) -> Vec<SocketAddr> {
        match self.far.told("backends", self.far.channel.call(Ask::Asked)) {
            Some(Answer::Addresses(addresses)) => addresses,
            _ => Vec::new(),
        }
    }

    fn behind(&self) -> Vec<Backend> {
        match self
            .far
            .told("backends", self.far.channel.call(Ask::Behind))
        {
            Some(Answer::Families(families)) => families
                .into_iter()
                .map(|family| Backend {
                    name: family.name,
                    pids: family.pids,
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// The rate of a load's way out of another host.
#[derive(Debug)]
pub struct Shaped(Arc<Channel>);

impl Drop for Shaped {
    fn drop(&mut self) {
        // An agent that is gone has undone it.
        let undone = self.0.order(Ask::Shape { way_out: None });
        if let Err(error) = undone {
            tracing::info!(%error, "a rate is not lifted by us");
        }
    }
}

impl There {
    fn take(&self, of: Stacks) -> Result<FarStacks, String> {
        let taken = self.far.channel.order(Ask::TakeStacks { of });
        taken.map_err(|error| error.to_string())?;
        Ok(FarStacks {
            channel: Arc::clone(&self.far.channel),
            of,
        })
    }
}

/// Stacks that are taken on another host.
#[derive(Debug)]
struct FarStacks {
    channel: Arc<Channel>,
    of: Stacks,
}

impl FarStacks {
    fn end_taking(&self) {
        if let Err(error) = self.channel.order(Ask::EndStacks { of: self.of }) {
            tracing::warn!(%error, "stacks are taken for too long");
        }
    }

    fn read(&self) -> Result<(Sampled, Option<Result<u64, String>>), String> {
        match self.channel.call(Ask::Stacks { of: self.of }) {
            Ok(Answer::Stacks {
                profile,
                lost,
                ready_ns,
            }) => Ok((Sampled { profile, lost }, ready_ns)),
            Ok(other) => Err(self.channel.strange(&other).to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Taking<Sampled> for FarStacks {
    fn end(&self) {
        self.end_taking();
    }

    fn stop(self: Box<Self>) -> Result<Sampled, String> {
        self.read().map(|(sampled, _)| sampled)
    }
}

impl Taking<Waited> for FarStacks {
    fn end(&self) {
        self.end_taking();
    }

    fn stop(self: Box<Self>) -> Result<Waited, String> {
        let (Sampled { profile, lost }, ready_ns) = self.read()?;
        Ok(Waited {
            profile,
            lost,
            ready_ns: ready_ns.unwrap_or_else(|| Err("its host did not say".to_owned())),
        })
    }
}
