//! One step, conducted: the load is driven, both ends are watched, and what came of it is
//! judged.
//!
//! What it is: the place where engine (or foreign driver), probes and judge meet, for
//! `run`, `ramp` and studies alike. What it is not: it starts no subject (that is the
//! stage's), keeps nothing on disk (the store's) and prints nothing (the report's).
//!
//! ```text
//!                    ┌─ hosts: where client and server are, and who they are ─┐
//!  StepOrder ─► conduct ─► sampling ──────────────────────► Telemetry ┐
//!                    └─► engine │ foreign driver ──► Measured ────────┴─► Step ─► verdict
//! ```

#![forbid(unsafe_code)]

mod ceilings;
mod driver_command;
mod engine_step;
pub mod experiment;
mod foreign_step;
mod profiles;
mod samples;

pub use ceilings::Calibration;
pub use driver_command::driver_command;
pub use profiles::{Looks, ProfileOrder};

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use wallfinder_engine::{EngineError, IoChoice, Signals};
use wallfinder_hosts::{ClientHost, ProcessTimes, Sampling, ServerHost, Sides, sampler};
use wallfinder_model::record::Interval;
use wallfinder_model::telemetry::{RelaySummary, Sample};
use wallfinder_model::{Environment, Load, Step, Target};
use wallfinder_probe::discover::Family;
use wallfinder_probe::sample::Setup;
use wallfinder_store::Folder;
use wallfinder_testbed::driver::DriverSpec;
use wallfinder_testbed::lab::RelayWatch;
use wallfinder_wire::{Exchange, tls};

/// Time between two samples of telemetry.
const TICK: Duration = Duration::from_millis(50);

/// Everything that one step needs.
#[derive(Debug, Clone)]
pub struct StepOrder {
    /// Position in the run, from 0.
    pub index: u32,
    /// Name in tables.
    pub name: String,
    /// The URL, as it may be shown.
    pub target: Target,
    /// Where the load goes.
    pub address: SocketAddr,
    /// The load.
    pub load: Load,
    /// What is asked.
    pub request: Exchange,
    /// Under TLS, and how; `None`: in the clear.
    pub tls: Option<tls::Client>,
    /// What produces the load.
    pub producer: Producer,
    /// Processors of the client; empty: not pinned.
    pub client_cpus: Vec<u32>,
    /// A processor for the null server of calibration, away from the workers.
    pub null_server_cpu: Option<u32>,
    /// Seed of what is drawn at random.
    pub seed: u64,
    /// The host that the load comes from, where it is our engine's. A driver runs on this one.
    pub client: Arc<dyn ClientHost>,
    /// The server, and the host that it is on.
    pub server: Arc<dyn ServerHost>,
    /// Why they are not, where they are not.
    pub server_not_seen: Option<String>,
    /// How the engine's own ceiling is told afterwards, if it is.
    pub calibrate: Option<Calibration>,
    /// The record's folder, if every request is to be kept there. The engine's only.
    pub samples: Option<Folder>,
    /// What is to be profiled within the window, if anything.
    pub profiles: Option<ProfileOrder>,
    /// Whether both sides are watched while the window is open too, and not only when it opens and
    /// closes.
    pub watched: bool,
    /// Whether the pace of both sides' processors is watched, for who compares steps.
    pub paced: bool,
    /// Who delays packets between client and server, if anybody does.
    pub relay: Option<RelayWatch>,
    /// What the server asks, where its CPU time is to be told too.
    pub behind: Option<Metered>,
}

/// Processes whose CPU time is read at the edges of the window.
#[derive(Clone)]
pub struct Metered {
    /// They, with all that they started.
    pub pids: Vec<u32>,
    /// CPU times of their host.
    pub times: Arc<dyn Fn() -> ProcessTimes + Send + Sync>,
}

impl std::fmt::Debug for Metered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metered")
            .field("pids", &self.pids)
            .finish_non_exhaustive()
    }
}

/// What produces the load.
#[derive(Debug, Clone)]
pub enum Producer {
    /// Our engine.
    Engine(IoChoice),
    /// Another load generator, with the URL that it is given.
    Foreign {
        /// Its command.
        spec: Box<DriverSpec>,
        /// The URL, secrets included. What a driver says may hold them: who keeps or shows that takes
        /// them out.
        url: String,
    },
}

/// Hears how a step goes: about ten times a second, never from a worker. This is what a live view implements; what it
/// is given comes from the engine's [`wallfinder_engine::Progress`], with telemetry beside it.
pub trait Audience {
    /// The step begins; `step` holds what is known of it already.
    fn begins(&mut self, step: &Step) {
        let _ = step;
    }

    /// An interval has ended; `sample` is the last of telemetry.
    fn interval(&mut self, interval: &Interval, sample: Option<&Sample>) {
        let _ = (interval, sample);
    }

    /// How each of several client hosts does, before the interval that it is told with.
    fn clients(&mut self, hosts: &[ClientNow]) {
        let _ = hosts;
    }

    /// The measured window has closed, and the engine's own ceiling is being measured.
    fn calibrating(&mut self) {}
}

/// One of several client hosts while it makes its part of a load.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientNow {
    /// What it is called.
    pub name: String,
    /// CPU time of its load generator over what its workers may take, 0..1, in the last tick; `None`: not known.
    pub busy: Option<f64>,
    /// Whether it is lost.
    pub is_lost: bool,
}

/// Nobody.
#[derive(Debug, Clone, Copy)]
pub struct Nobody;

impl Audience for Nobody {}

/// Why a step could not be run.
#[derive(Debug)]
pub enum ConductError {
    /// The engine could not.
    Engine(EngineError),
    /// The probes could not.
    Probe(String),
    /// The foreign driver could not.
    Driver(String),
    /// A resource could not be squeezed.
    Lever(String),
    /// The server could not be started anew, or answers no more.
    Subject(String),
    /// Requests could not be kept one by one.
    Samples(String),
    /// Profiles could not be kept.
    Profiles(String),
}

impl std::fmt::Display for ConductError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConductError::Engine(error) => error.fmt(f),
            ConductError::Probe(why)
            | ConductError::Driver(why)
            | ConductError::Lever(why)
            | ConductError::Subject(why)
            | ConductError::Samples(why)
            | ConductError::Profiles(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ConductError {}

impl From<EngineError> for ConductError {
    fn from(error: EngineError) -> ConductError {
        ConductError::Engine(error)
    }
}

impl StepOrder {
    /// Both hosts.
    pub fn sides(&self) -> Sides<'_> {
        Sides {
            client: &*self.client,
            server: &*self.server,
        }
    }
}

/// Runs a step to its end and judges it by itself. `signals` end it early.
pub fn conduct(
    order: &StepOrder,
    environment: &Environment,
    signals: &Arc<Signals>,
    audience: &mut dyn Audience,
) -> Result<Step, ConductError> {
    let mut step = match &order.producer {
        Producer::Engine(io) => engine_step::run(order, *io, environment, signals, audience)?,
        Producer::Foreign { spec, url } => {
            foreign_step::run(order, spec, url, environment, signals, audience)?
        }
    };
    step.verdict = Some(wallfinder_judge::judge_step(&step, environment));
    Ok(step)
}

/// The quota that holds this process, in workers: how much of the time that its workers want
/// they may have, where that is less than all.
fn quota_of_workers(order: &StepOrder, environment: &Environment) -> Option<f64> {
    let workers = f64::from(order.load.workers.max(1));
    let share = environment.cgroup_quota_cores? / workers;
    (share < 1.0).then_some(share)
}

/// Whether workers have less than all of their processors' time, by a quota or beside a link's relay:
/// they fill what is left, and what watches them has to go first to be heard.
pub(crate) fn is_crowded(order: &StepOrder, environment: &Environment) -> bool {
    order.relay.is_some() || quota_of_workers(order, environment).is_some()
}

/// What the link's relay did since it was asked last.
pub(crate) fn relayed(order: &StepOrder) -> Option<RelaySummary> {
    // One that does not answer delays nothing either: the load shows it.
    order.relay.as_ref()?.read().ok()
}

/// Processors of server and client whose pace is watched. Under a quota that would take from the workers, of
/// whose time there is little.
fn paced_cpus(order: &StepOrder, environment: &Environment) -> Option<[Vec<u32>; 2]> {
    if !order.paced || is_crowded(order, environment) {
        return None;
    }
    let client = match &order.client_cpus[..] {
        [] => order.client.processors(),
        cpus => cpus.to_vec(),
    };
    Some([order.server.processors(), client])
}

fn start_sampler(
    order: &StepOrder,
    environment: &Environment,
    zero_ns: u64,
    client: Option<Family>,
) -> Result<Box<dyn Sampling>, ConductError> {
    let setup = Setup {
        zero_ns,
        tick: TICK,
        client,
        server: None,
        interface: environment
            .interface
            .as_ref()
            .map(|interface| interface.name.clone()),
        netns_of_pid: None,
        port: Some(order.address.port()),
        pin: order.client_cpus.first().copied(),
        under_quota: is_crowded(order, environment),
        marks_only: !order.watched,
        paced_cpus: paced_cpus(order, environment),
    };
    sampler(order.sides(), setup).map_err(ConductError::Probe)
}

/// The wall-clock instant of a monotonic one, as RFC 3339 in UTC.
fn utc_of(monotonic_ns: u64) -> String {
    let now = wallfinder_sys::clock::monotonic_ns();
    let at = match monotonic_ns.checked_sub(now) {
        Some(ahead) => SystemTime::now() + Duration::from_nanos(ahead),
        None => SystemTime::now() - Duration::from_nanos(now - monotonic_ns),
    };
    wallfinder_store::utc_rfc3339(at)
}
