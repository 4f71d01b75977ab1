//! The host that the load comes from: this one with its engine, or another whose agent drives one.
//!
//! ```text
//!  drive ─► Drive ═════════► engine there ─► Progress ═► News ─► observe
//!   signals, as they change ═► Steer, FillIn, EndLoad
//!                              Followed ═► News ─► signals.levers
//! ```

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use wallfinder_engine::samples::{RequestSample, SampleChannel};
use wallfinder_engine::{
    EngineError, Observer, Signals, StepSpec, calibrate, precheck, run, workers_of,
};
use wallfinder_model::drive::{Edge, Measured, Progress, Typical};
use wallfinder_model::experiment::Neighbour;
use wallfinder_model::record::Ceiling;
use wallfinder_model::{Environment, Load, Nanos};
use wallfinder_probe::Family;
use wallfinder_probe::discover::family_of_self;
use wallfinder_probe::fingerprint;
use wallfinder_probe::sample::Setup;
use wallfinder_protocol::clock::Offset;
use wallfinder_protocol::{
    Answer, Ask, Grant, LeversOrder, LoadOrder, News, Role, Side as FarSide, WayOut,
};
use wallfinder_sys::process;
use wallfinder_testbed::squeeze::Reach;
use wallfinder_wire::mix::Known;

use crate::channel::{HostError, Pending};
use crate::far::Far;
use crate::here;
use crate::recall::Recall;
use crate::{Agent, ClientHost, ClockOf, Host, Own, PaceOf, Sampling};

/// How often what is to be passed on to the other host is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The same where hosts are many: each has a thread that looks, and together they look so often.
const LOOK_EVERY_OF_ALL: Duration = Duration::from_micros(200);
const LOOK_EVERY_MAX: Duration = Duration::from_millis(100);

/// Why a load is left alone while nothing can be said to its host: a lease, and as long as the way may be gone.
const GIVEN_UP: &str =
    "given up while the hub is not reached; the load there ends by itself within 45 s";

/// This host, and the engine of this process.
#[derive(Debug, Clone, Copy)]
pub struct LoadHere {
    server: SocketAddr,
}

impl LoadHere {
    /// For a load that goes there.
    pub fn towards(server: SocketAddr) -> LoadHere {
        LoadHere { server }
    }
}

/// The address that packets to another have as their source.
pub(crate) fn own_address(other: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = match other.is_ipv4() {
        true => ([0, 0, 0, 0], 0).into(),
        false => ([0_u16; 8], 0).into(),
    };
    // Nothing is sent: connecting a datagram socket only asks for the route.
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(other).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

impl Host for LoadHere {
    fn name(&self) -> Option<&str> {
        None
    }

    fn sampler(&self, setup: Setup) -> Result<Box<dyn Sampling>, String> {
        here::started(Setup {
            server: None,
            netns_of_pid: None,
            ..setup
        })
    }

    fn pace(&self, cpus: Vec<u32>) -> PaceOf {
        here::pace(cpus)
    }

    fn levers(&self, own: Own) -> Reach {
        here::levers(Role::Client, own)
    }

    fn neighbours(&self, cpus: &[u32], known: &[u32], cores_min: f64) -> Vec<Neighbour> {
        here::neighbours(cpus, known, cores_min)
    }
}

impl ClientHost for LoadHere {
    fn family(&self) -> Option<Family> {
        Some(family_of_self())
    }

    fn processors(&self) -> Vec<u32> {
        process::allowed_cpus()
    }

    fn facts(&self) -> Environment {
        fingerprint(Some(self.server))
    }

    fn fits(&self, load: &Load) -> Result<(), String> {
        precheck::check(load, &self.server).map_err(|why| why.to_string())
    }

    fn addresses(&self) -> Vec<IpAddr> {
        own_address(self.server).into_iter().collect()
    }

    fn drive(
        &self,
        spec: &StepSpec,
        signals: &Arc<Signals>,
        observe: &mut Observer<'_>,
    ) -> Result<Measured, EngineError> {
        run(spec, signals, observe)
    }

    fn calibrate(
        &self,
        spec: &StepSpec,
        typical: Typical,
        server_cpu: Option<u32>,
        measure: Nanos,
    ) -> Result<Ceiling, EngineError> {
        calibrate::calibrate(spec, typical, server_cpu, measure)
    }
}

/// Another host, whose agent drives the load.
#[derive(Debug, Clone)]
pub struct LoadThere {
    far: Far,
    server: SocketAddr,
    address: Option<IpAddr>,
    facts: Environment,
    /// The interface that requests leave by and its rate, where the user named them.
    uplink: (Option<String>, Option<u64>),
    recall: Recall,
}

impl LoadThere {
    /// For a load from there that goes to `server`.
    pub fn towards(
        agent: &Agent,
        server: SocketAddr,
        uplink: (Option<String>, Option<u64>),
    ) -> Result<LoadThere, HostError> {
        let far = Far::of(agent, Role::Client);
        if !far.welcome.grants.contains(&Grant::Load) {
            let why = format!("the agent there does not grant `{}`", Grant::Load);
            return Err(far.channel.failed(why));
        }
        let address = match far.channel.call(Ask::Route { to: server })? {
            Answer::Route { own, .. } => own,
            other => return Err(far.channel.strange(&other)),
        };
        let peer = Some(server.ip());
        let facts = match far.told("facts", far.channel.call(Ask::Facts { peer })) {
            Some(Answer::Facts(facts)) => *facts,
            _ => Environment::default(),
        };
        Ok(LoadThere {
            far,
            server,
            address,
            facts,
            uplink,
            recall: Recall::of(agent),
        })
    }

    fn order(&self, spec: &StepSpec) -> Box<LoadOrder> {
        let StepSpec {
            load,
            share,
            slots,
            address,
            request,
            tls,
            cpus,
            io,
            seed,
            samples,
            spare_connections,
            standby_connections,
            paddings,
            under_quota,
            // Each host knows its own.
            speed: _,
        } = spec.clone();
        Box::new(LoadOrder {
            load,
            share,
            slots: slots.map(|slots| (*slots).clone()),
            address,
            request,
            tls,
            cpus,
            io,
            seed,
            spare_connections,
            standby_connections,
            paddings,
            under_quota,
            keeps: samples.is_some(),
        })
    }

    /// Requests that were kept there one by one, as if workers here had; `fetched` counts them.
    fn fetch(
        &self,
        into: &SampleChannel,
        signals: &Signals,
        fetched: &mut u64,
    ) -> Result<(), HostError> {
        let channel = &self.far.channel;
        let mut from = 0;
        loop {
            let (bytes, dropped) = match channel.call(Ask::Fetch { from })? {
                Answer::Piece { bytes, dropped } => (bytes, dropped),
                other => return Err(channel.strange(&other)),
            };
            let (requests, rest) = bytes.as_chunks();
            if !rest.is_empty() {
                return Err(channel.failed("it kept a request in part"));
            }
            let is_all = requests.is_empty();
            from += bytes.len() as u64;
            *fetched += requests.len() as u64;
            let requests = requests.iter().map(RequestSample::from_bytes).collect();
            into.of_elsewhere(requests, if is_all { dropped } else { 0 });
            if is_all || signals.abort.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
}

impl Host for LoadThere {
    fn name(&self) -> Option<&str> {
        Some(self.far.name())
    }

    fn lost(&self) -> Option<HostError> {
        self.far.channel.lost()
    }

    fn sampler(&self, setup: Setup) -> Result<Box<dyn Sampling>, String> {
        self.far.watch(&setup, Some(self.server.ip()))
    }

    fn pace(&self, cpus: Vec<u32>) -> PaceOf {
        self.far.pace(cpus)
    }

    fn levers(&self, own: Own) -> Reach {
        self.far.levers(LeversOrder {
            role: Role::Client,
            own: FarSide {
                pids: Vec::new(),
                cpus: own.side.cpus,
            },
            backend: None,
            backend_cores: None,
            way_out: Some(WayOut {
                peers: vec![self.server.ip()],
                port: self.server.port(),
                interface: self.uplink.0.clone(),
                rate_bits: self.uplink.1,
            }),
            seed: own.seed,
        })
    }

    fn neighbours(&self, cpus: &[u32], known: &[u32], cores_min: f64) -> Vec<Neighbour> {
        self.far.neighbours(cpus, known.to_vec(), cores_min)
    }
}

impl ClientHost for LoadThere {
    fn family(&self) -> Option<Family> {
        None
    }

    fn processors(&self) -> Vec<u32> {
        self.far.welcome.cpus.clone()
    }

    fn facts(&self) -> Environment {
        self.facts.clone()
    }

    fn fits(&self, _: &Load) -> Result<(), String> {
        // Its agent looks when the load is to begin.
        Ok(())
    }

    fn may_stand_by(&self, load: &Load, more: u32) -> Result<(), String> {
        let fits = Ask::Fits {
            connections: load.connections.saturating_add(more),
            address: self.server,
        };
        self.far
            .channel
            .order(fits)
            .map_err(|error| error.to_string())
    }

    fn is_reached(&self) -> bool {
        !self.far.channel.is_gone()
    }

    fn addresses(&self) -> Vec<IpAddr> {
        self.address.into_iter().collect()
    }

    fn clock(&self) -> ClockOf {
        let channel = &self.far.channel;
        ClockOf {
            error_ns: channel.offset().map_or(u64::MAX, |offset| offset.error_ns),
            round_trip_ns: channel
                .round_trip()
                .map_or(0, |trip| trip.as_nanos() as u64),
        }
    }

    fn drive(
        &self,
        spec: &StepSpec,
        signals: &Arc<Signals>,
        observe: &mut Observer<'_>,
    ) -> Result<Measured, EngineError> {
        let known = spec.request.mix().map(|mix| &mix.known);
        let known_version = known.map_or(0, Known::version);
        let order = self.order(spec);
        let news = self.far.channel.news();
        let ended = self.far.channel.ask(Ask::Drive(order))?;
        let mut passing = Passing {
            host: self,
            signals,
            workers: workers_of(&spec.load),
            look_every: look_every(spec.share.of),
            version: signals.levers.version(),
            known,
            known_version,
            ends: None,
            began: None,
        };
        let (measured, is_recalled) = match passing.on(&news, &ended, observe) {
            Ok(measured) => (measured, false),
            Err(lost) if self.far.channel.lost().is_some() => {
                let given_up = || signals.abort.load(Ordering::Relaxed);
                let measured = self.recall.result(ended.number, lost, given_up)?;
                (passing.placed(measured)?, true)
            }
            Err(refused) => return Err(refused.into()),
        };
        if let Some(samples) = &spec.samples {
            let mut fetched = 0;
            // They go with the session that they were kept in.
            let is_whole = !is_recalled
                && self
                    .fetch(samples, signals, &mut fetched)
                    .inspect_err(
                        |error| tracing::warn!(%error, "requests kept one by one are lost"),
                    )
                    .is_ok();
            if !is_whole {
                let counts = &measured.counts;
                let all = counts.answered + counts.failed_total();
                samples.of_elsewhere(Vec::new(), all.saturating_sub(fetched));
            }
        }
        self.recall.heard(ended.number);
        Ok(measured)
    }

    fn kept(&self) {
        self.recall.forget(&self.far.channel);
    }

    fn calibrate(
        &self,
        spec: &StepSpec,
        typical: Typical,
        server_cpu: Option<u32>,
        measure: Nanos,
    ) -> Result<Ceiling, EngineError> {
        let calibrate = Ask::Calibrate {
            order: self.order(&StepSpec {
                samples: None,
                ..spec.clone()
            }),
            typical,
            server_cpu,
            measure,
        };
        match self.far.channel.call(calibrate)? {
            Answer::Ceiling(ceiling) => Ok(*ceiling),
            other => Err(self.far.channel.strange(&other).into()),
        }
    }
}

/// How often what one of so many hosts is to be told is looked at.
fn look_every(hosts: u32) -> Duration {
    (LOOK_EVERY_OF_ALL * hosts).clamp(LOOK_EVERY, LOOK_EVERY_MAX)
}

/// Passes on what is said to a load elsewhere, and what it says.
struct Passing<'p> {
    host: &'p LoadThere,
    signals: &'p Signals,
    workers: u32,
    look_every: Duration,
    /// Of the levers' setting that was passed on last.
    version: u32,
    /// What its requests are filled in with, where that may be renewed, and which of it was passed on last.
    known: Option<&'p Known>,
    known_version: u32,
    /// Whether the load was told to end, and whether at once.
    ends: Option<bool>,
    /// The schedule's zero by the clock there, and here as it was known then: by now the clocks may have parted.
    began: Option<(u64, u64)>,
}

impl Passing<'_> {
    fn on(
        &mut self,
        news: &Receiver<News>,
        ended: &Pending,
        observe: &mut Observer<'_>,
    ) -> Result<Measured, HostError> {
        let channel = &self.host.far.channel;
        loop {
            match news.recv_timeout(self.look_every) {
                Ok(news) => self.hear(news, observe)?,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    if let Some(answer) = ended.came(channel) {
                        // All that was said before it is here by now.
                        for news in news.try_iter() {
                            self.hear(news, observe)?;
                        }
                        return match answer? {
                            Answer::Measured(measured) => self.placed(*measured),
                            other => Err(channel.strange(&other)),
                        };
                    }
                }
            }
            self.tell()?;
        }
    }

    fn hear(&mut self, news: News, observe: &mut Observer<'_>) -> Result<(), HostError> {
        let channel = &self.host.far.channel;
        match news {
            News::Followed { version } => {
                self.signals
                    .levers
                    .followed_elsewhere(version, self.workers);
            }
            News::Progress(progress) => match *progress {
                Progress::Ready => {
                    observe(Progress::Ready);
                    let begin_ns = self.signals.begin_ns.load(Ordering::Acquire);
                    let zero_ns = match begin_ns {
                        0 => None,
                        _ => Some(self.offset()?.there(begin_ns)),
                    };
                    channel.order(Ask::Proceed { zero_ns })?;
                }
                close @ Progress::Edge(Edge::Close) => {
                    observe(close);
                    channel.order(Ask::Proceed { zero_ns: None })?;
                }
                Progress::Starts { zero_ns: there_ns } => {
                    let zero_ns = self.here(there_ns)?;
                    self.began = Some((there_ns, zero_ns));
                    observe(Progress::Starts { zero_ns });
                }
                other => observe(other),
            },
        }
        Ok(())
    }

    /// An instant there by the clock of this host.
    fn here(&self, there_ns: u64) -> Result<u64, HostError> {
        Ok(self.offset()?.here(there_ns))
    }

    fn offset(&self) -> Result<Offset, HostError> {
        let channel = &self.host.far.channel;
        let offset = channel.offset();
        offset.ok_or_else(|| channel.failed("its clock is not known"))
    }

    /// What its agent sent, by the clock of this host; what cannot be is refused.
    fn placed(&self, measured: Measured) -> Result<Measured, HostError> {
        let is_sound =
            measured.counts.is_sound() && measured.window_from_ns <= measured.window_to_ns;
        if !is_sound {
            let channel = &self.host.far.channel;
            return Err(channel.failed("its agent told counts that do not add up"));
        }
        let zero_ns = match self.began {
            Some((there_ns, here_ns)) if there_ns == measured.zero_ns => here_ns,
            _ => self.here(measured.zero_ns)?,
        };
        Ok(Measured {
            zero_ns,
            ..measured
        })
    }

    /// What has changed here since it was passed on last.
    fn tell(&mut self) -> Result<(), HostError> {
        let channel = &self.host.far.channel;
        let is_set = |flag: &std::sync::atomic::AtomicBool| flag.load(Ordering::Relaxed);
        let ends = match (is_set(&self.signals.abort), is_set(&self.signals.stop)) {
            (true, _) => Some(true),
            (false, true) => Some(false),
            (false, false) => None,
        };
        // Nothing of this waits for a way that is gone: a user who gives up is heard meanwhile.
        if let Some(abort) = ends.filter(|_| ends != self.ends) {
            self.ends = ends;
            channel.ask(Ask::EndLoad { abort })?;
        }
        if channel.is_gone() {
            return match ends {
                Some(true) => Err(channel.give_up(GIVEN_UP)),
                _ => Ok(()),
            };
        }
        let (version, setting) = self.signals.levers.setting();
        if version != self.version {
            self.version = version;
            channel.order(Ask::Steer { version, setting })?;
        }
        if let Some(known) = self
            .known
            .filter(|known| known.version() != self.known_version)
        {
            self.known_version = known.version();
            channel.order(Ask::FillIn {
                known: known.clone(),
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
