//! Another host, by its agent.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wallfinder_model::experiment::{Neighbour, OutOfReach, Squeeze};
use wallfinder_model::telemetry::{Sample, ServerHostSummary, Telemetry};
use wallfinder_model::{Caveat, Environment, Wall};
use wallfinder_probe::Family;
use wallfinder_probe::reference_loop::ReferenceLoop;
use wallfinder_probe::sample::{Sampler, Setup};
use wallfinder_probe::stacks::Sampled;
use wallfinder_probe::waits::Waited;
use wallfinder_protocol::{
    Answer, Ask, Check as FarCheck, Downlink, Found, Grant, LeverAt, Named, ProcessTimes,
    Side as FarSide, Stacks, Welcome,
};
use wallfinder_testbed::error::TestbedError;
use wallfinder_testbed::squeeze::{self, Check, Lever, Reach, Scene, Side};

use crate::channel::{Channel, HostError};
use crate::ssh::Ssh;
use crate::{Backend, Joint, Pace, Sampling, ServerHost, Taking};

/// A server on another host.
#[derive(Debug, Clone)]
pub struct There {
    channel: Arc<Channel>,
    welcome: Welcome,
    found: Result<Found, String>,
    /// This host's address as the server's sees it.
    peer: Option<IpAddr>,
    /// The server's port.
    port: u16,
    /// The interface that answers leave by and its rate, where the user named them.
    downlink: (Option<String>, Option<u64>),
}

impl There {
    /// Looks for who serves an address there. That nobody is seen is no error: it is said.
    pub fn find(
        agent: &Ssh,
        address: SocketAddr,
        named: Named,
        downlink: (Option<String>, Option<u64>),
    ) -> Result<There, HostError> {
        let (channel, welcome) = (agent.channel(), agent.welcome().clone());
        let found = match channel.call(Ask::Find { address, named }) {
            Ok(Answer::Found(found)) => Ok(found),
            Ok(other) => return Err(channel.strange(&other)),
            Err(error) => Err(error.to_string()),
        };
        Ok(There {
            channel,
            welcome,
            found,
            peer: own_address(address),
            port: address.port(),
            downlink,
        })
    }

    /// Why the server's processes are not seen.
    pub fn not_seen(&self) -> Option<&str> {
        self.found.as_ref().err().map(String::as_str)
    }

    /// The machine's fingerprint.
    pub fn facts(&self) -> Result<Environment, HostError> {
        match self.channel.call(Ask::Facts { peer: self.peer })? {
            Answer::Facts(facts) => Ok(*facts),
            other => Err(self.channel.strange(&other)),
        }
    }

    /// What is said of the host beside its telemetry.
    fn summary(&self) -> ServerHostSummary {
        let offset = self.channel.offset();
        ServerHostSummary {
            name: self.channel.host().to_owned(),
            cores: Vec::new(),
            clock_offset_ns: offset.map(|offset| offset.ns),
            clock_error_ns: offset.map(|offset| offset.error_ns),
            round_trip_ns: self.channel.round_trip().map(|trip| trip.as_nanos() as u64),
            observer_cpu_ns: 0,
        }
    }

    /// Something was asked that the agent could not tell: said once, and the run goes on without.
    fn told<T>(&self, what: &str, answer: Result<T, HostError>) -> Option<T> {
        answer
            .inspect_err(|error| tracing::warn!(%error, what, "not known of another host"))
            .ok()
    }
}

/// The address that packets to another have as their source.
fn own_address(other: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = match other.is_ipv4() {
        true => ([0, 0, 0, 0], 0).into(),
        false => ([0_u16; 8], 0).into(),
    };
    // Nothing is sent: connecting a datagram socket only asks for the route.
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(other).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

impl ServerHost for There {
    fn name(&self) -> Option<&str> {
        Some(self.channel.host())
    }

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

    fn sampler(&self, setup: Setup) -> Result<Box<dyn Sampling>, String> {
        let paced = setup.paced_cpus.as_ref();
        let watch = Ask::Watch {
            tick_ns: match setup.marks_only {
                true => 0,
                false => setup.tick.as_nanos() as u64,
            },
            peer: self.peer,
            port: setup.port,
            paced: paced.is_some_and(|[server, _]| !server.is_empty()),
        };
        self.channel
            .order(watch)
            .map_err(|error| error.to_string())?;
        let paced_cpus = setup.paced_cpus.map(|[_, client]| [Vec::new(), client]);
        let near = Sampler::start(Setup {
            server: None,
            netns_of_pid: None,
            paced_cpus,
            ..setup
        });
        let mut joined = Joined {
            near: near.map_err(|error| error.to_string())?,
            host: self.clone(),
            with_ticks: !setup.marks_only,
            marks: Vec::new(),
            lost: None,
        };
        joined.mark("start");
        Ok(Box::new(joined))
    }

    fn pace(&self, sides: [Vec<u32>; 2]) -> Box<dyn Pace> {
        let [server, client] = sides;
        let watched = self.channel.order(Ask::Pace { cpus: server });
        let is_watched = self.told("pace", watched).is_some();
        Box::new(JoinedPace {
            near: ReferenceLoop::start([Vec::new(), client]),
            far: is_watched.then(|| Arc::clone(&self.channel)),
        })
    }

    fn reach(&self, scene: Scene) -> Reach {
        let Scene {
            server,
            backend,
            backend_cores,
            seed,
            ..
        } = &scene;
        let side = |side: &Side| FarSide {
            pids: side.pids.clone(),
            cpus: side.cpus.clone(),
        };
        let far = self.channel.call(Ask::Levers {
            server: match &self.found {
                Ok(found) => FarSide {
                    pids: found.family.pids.clone(),
                    cpus: server.cpus.clone(),
                },
                Err(_) => side(server),
            },
            backend: backend.as_ref().map(side),
            backend_cores: *backend_cores,
            downlink: self.peer.map(|peer| Downlink {
                peer,
                port: self.port,
                interface: self.downlink.0.clone(),
                rate_bits: self.downlink.1,
            }),
            seed: *seed,
        });
        let mut reach = squeeze::reach(Scene {
            server: Side {
                elsewhere: true,
                ..Side::default()
            },
            backend: None,
            ..scene
        });
        reach.out_of_reach.retain(|out| !is_there(out.squeeze));
        match far {
            Ok(Answer::Levers {
                levers,
                out_of_reach: missing,
                downlink_bits,
            }) => {
                reach.downlink_bits = downlink_bits;
                let together = Arc::new(Together {
                    channel: Arc::clone(&self.channel),
                    checks: Mutex::default(),
                });
                let far = levers.into_iter().enumerate().map(|(at, lever)| {
                    let far = FarLever {
                        is_first: at == 0,
                        lever,
                        together: Arc::clone(&together),
                    };
                    Box::new(far) as Box<dyn Lever>
                });
                reach.levers.extend(far);
                let host = self.channel.host();
                let missing = missing.into_iter().filter(|out| is_there(out.squeeze));
                let missing = missing.map(|out| OutOfReach {
                    why: format!("{host}: {}", out.why),
                    ..out
                });
                reach.out_of_reach.extend(missing);
            }
            other => {
                let why = match other {
                    Ok(strange) => self.channel.strange(&strange).to_string(),
                    Err(error) => error.to_string(),
                };
                let all = [
                    Squeeze::ServerSpeed,
                    Squeeze::ServerCapacity,
                    Squeeze::Downlink,
                ];
                let all = all.map(|squeeze| OutOfReach {
                    squeeze,
                    why: why.clone(),
                });
                reach.out_of_reach.extend(all);
            }
        }
        reach
    }

    fn neighbours(&self, cpus: &[u32], known: &[u32], cores_min: f64) -> Vec<Neighbour> {
        let own = self.found.as_ref().map(|found| &found.family.pids[..]);
        let answer = self.channel.call(Ask::Neighbours {
            cpus: cpus.to_vec(),
            known: [known, own.unwrap_or_default()].concat(),
            cores_min,
        });
        match self.told("neighbours", answer) {
            Some(Answer::Neighbours(neighbours)) => neighbours,
            _ => Vec::new(),
        }
    }

    fn times(&self) -> ProcessTimes {
        match self.told("times", self.channel.call(Ask::Times)) {
            Some(Answer::Times(times)) => times,
            _ => ProcessTimes::default(),
        }
    }

    fn processes(&self) -> u32 {
        let found = self.found.as_ref();
        found.map_or(0, |found| found.family.pids.len() as u32)
    }

    fn may_take_stacks(&self) -> Result<(), String> {
        let host = self.channel.host();
        match (
            self.welcome.is_root,
            self.welcome.grants.contains(&Grant::Profile),
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

    fn behind(&self) -> Vec<Backend> {
        match self.told("backends", self.channel.call(Ask::Behind)) {
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

impl There {
    fn take(&self, of: Stacks) -> Result<FarStacks, String> {
        let taken = self.channel.order(Ask::TakeStacks { of });
        taken.map_err(|error| error.to_string())?;
        Ok(FarStacks {
            channel: Arc::clone(&self.channel),
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

/// Whether a resource is on the server's host.
fn is_there(squeeze: Squeeze) -> bool {
    matches!(
        squeeze,
        Squeeze::ServerSpeed | Squeeze::ServerCapacity | Squeeze::Downlink
    ) || squeeze.wall() == Wall::Backend
}

/// Sampling on both hosts.
struct Joined {
    near: Sampler,
    host: There,
    with_ticks: bool,
    /// Instants of marks here and there.
    marks: Vec<(i64, i64)>,
    /// Why there are no more of there.
    lost: Option<String>,
}

impl Joined {
    fn far(&self) -> Far {
        Far {
            channel: Arc::clone(&self.host.channel),
            marks: self.marks.clone(),
            summary: self.host.summary(),
        }
    }

    fn gap(&self) -> Option<Caveat> {
        self.lost.as_ref().map(|why| Caveat::Note {
            text: format!("The server's host was lost while it was watched: {why}"),
        })
    }
}

/// What is asked of the agent about spans that are known by instants here.
struct Far {
    channel: Arc<Channel>,
    marks: Vec<(i64, i64)>,
    summary: ServerHostSummary,
}

impl Far {
    /// An instant of here by the axis of there: by the mark that is nearest.
    fn there(&self, here_ns: i64) -> Option<i64> {
        let nearest = self
            .marks
            .iter()
            .min_by_key(|(here, _)| here.abs_diff(here_ns))?;
        Some(nearest.1 + (here_ns - nearest.0))
    }

    /// What the client's host saw, with what the server's did.
    fn joined(&self, mut near: Telemetry, from_ns: i64, to_ns: i64) -> Telemetry {
        let span = self.there(from_ns).zip(self.there(to_ns));
        let asked = span.map(|span| self.channel.call(Ask::Summarise { spans: vec![span] }));
        let mut summary = self.summary.clone();
        if let Some(Ok(Answer::Telemetry(far))) = asked
            && let Some(far) = far.into_iter().next()
        {
            near.server = far.server;
            near.server_sockets = far.server_sockets;
            near.server_reference_ns = far.server_reference_ns;
            near.link = far.link.or(near.link);
            near.client_tcp = near.tcp;
            near.tcp = far.tcp;
            summary.cores = far.cores;
            summary.observer_cpu_ns = far.observer_cpu_ns;
        }
        near.server_host = Some(summary);
        near
    }

    /// Ticks of there beside those of here.
    fn beside(&self, near: &mut [Sample], far: &[Sample]) {
        let mut far = far.iter().peekable();
        for sample in near {
            let Some(at_ns) = self.there(sample.at_ns) else {
                return;
            };
            while far
                .next_if(|next| next.at_ns < at_ns - next.span_ns as i64 / 2)
                .is_some()
            {}
            let Some(seen) = far.peek() else { return };
            take_far(sample, seen);
        }
    }

    fn samples(&self) -> Vec<Sample> {
        let mut samples: Vec<Sample> = Vec::new();
        loop {
            let from = samples.len();
            match self.channel.call(Ask::Samples { from }) {
                Ok(Answer::Samples {
                    samples: next,
                    more,
                }) if !next.is_empty() => {
                    samples.extend(next);
                    if !more {
                        return samples;
                    }
                }
                _ => return samples,
            }
        }
    }
}

/// What the server's host saw in a tick, in place of what the client's did not.
fn take_far(near: &mut Sample, far: &Sample) {
    near.server = far.server;
    near.link = far.link.or(near.link);
    near.tcp = far.tcp;
}

impl Sampling for Joined {
    fn count_from(&mut self, zero_ns: u64) -> i64 {
        let later_ns = self.near.count_from(zero_ns);
        for (here, _) in &mut self.marks {
            *here -= later_ns;
        }
        later_ns
    }

    fn mark(&mut self, name: &str) -> i64 {
        let here_ns = self.near.mark(name);
        let asked = self.host.channel.call(Ask::Mark {
            name: name.to_owned(),
        });
        match asked {
            Ok(Answer::Marked { at_ns }) => self.marks.push((here_ns, at_ns)),
            Ok(other) => self.lost = Some(self.host.channel.strange(&other).to_string()),
            Err(error) => self.lost = Some(error.to_string()),
        }
        here_ns
    }

    fn find_server_again(&self) {
        let asked = self.host.channel.order(Ask::FindAgain);
        self.host.told("the server, once more", asked);
    }

    fn latest(&self) -> Option<Sample> {
        let mut sample = self.near.latest()?;
        if let Some(far) = self.host.channel.latest() {
            take_far(&mut sample, &far);
        }
        Some(sample)
    }

    fn summarise(&self, from_ns: i64, to_ns: i64) -> Telemetry {
        let near = self.near.summarise(from_ns, to_ns);
        self.far().joined(near, from_ns, to_ns)
    }

    fn stop(self: Box<Self>) -> Joint {
        let (far, lost) = (self.far(), self.gap());
        let Joined {
            near,
            host,
            with_ticks,
            ..
        } = *self;
        host.told("the end of a watch", host.channel.order(Ask::Unwatch));
        let mut series = near.stop();
        let mut samples = std::mem::take(&mut series.samples);
        if with_ticks {
            far.beside(&mut samples, &far.samples());
        }
        let gaps = series.gaps().into_iter().chain(lost).collect();
        Joint::new(samples, gaps, move |from_ns, to_ns| {
            far.joined(series.summarise(from_ns, to_ns), from_ns, to_ns)
        })
    }
}

/// The pace of processors on both hosts.
struct JoinedPace {
    near: ReferenceLoop,
    far: Option<Arc<Channel>>,
}

impl Pace for JoinedPace {
    fn times_ns(&self, from_ns: u64, to_ns: u64) -> [Option<f64>; 2] {
        let [_, client] = self.near.times_ns(from_ns, to_ns);
        let server = self.far.as_ref().and_then(|channel| {
            let offset = channel.offset()?;
            let within = Ask::PaceWithin {
                from_ns: offset.there(from_ns),
                to_ns: offset.there(to_ns),
            };
            match channel.call(within) {
                Ok(Answer::Pace { ns }) => ns,
                _ => None,
            }
        });
        [server, client]
    }
}

/// Levers of one host, whose windows begin and end together.
struct Together {
    channel: Arc<Channel>,
    checks: Mutex<HashMap<Squeeze, FarCheck>>,
}

impl Together {
    fn checks(&self) -> MutexGuard<'_, HashMap<Squeeze, FarCheck>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        if let Err(error) = self.channel.order(Ask::Release) {
            tracing::warn!(%error, "levers of another host end by their lease");
        }
    }
}

/// A lever on another host.
struct FarLever {
    /// The one that speaks for all.
    is_first: bool,
    lever: LeverAt,
    together: Arc<Together>,
}

impl FarLever {
    fn failed(&self, error: HostError) -> TestbedError {
        TestbedError::Failed {
            doing: format!("squeeze {} on {}", self.lever.squeeze.label(), error.host),
            why: error.why,
        }
    }
}

impl Lever for FarLever {
    fn squeeze(&self) -> Squeeze {
        self.lever.squeeze
    }

    fn how(&self) -> String {
        format!("{} of {}", self.lever.how, self.together.channel.host())
    }

    fn retained_min(&self) -> f64 {
        self.lever.retained_min
    }

    fn set(&mut self, retained: f64) -> Result<(), TestbedError> {
        let settings = vec![(self.lever.squeeze, retained)];
        let set = self.together.channel.order(Ask::Set { settings });
        set.map_err(|error| self.failed(error))
    }

    fn begin_window(&mut self) {
        if self.is_first {
            // One that did not begin has no check at its end.
            let _ = self.together.channel.order(Ask::BeginWindow);
        }
    }

    fn end_window(&mut self) -> Check {
        if self.is_first {
            let mut checks = self.together.checks();
            checks.clear();
            match self.together.channel.call(Ask::EndWindow) {
                Ok(Answer::Checks(all)) => checks.extend(all),
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "squeezes were not checked"),
            }
        }
        let check = self.together.checks().remove(&self.lever.squeeze);
        check.map_or_else(
            || Check {
                text: "its host did not say whether it was in force".to_owned(),
                ..Check::default()
            },
            |check| Check {
                retained: check.retained,
                in_force: check.in_force,
                text: check.text,
            },
        )
    }
}
