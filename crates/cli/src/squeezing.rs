//! What can be squeezed at a testbed, and what the judge must know of the place.

use std::fs::File;
use std::os::fd::AsRawFd;

use wallfinder_conduct::{StepOrder, sight};
use wallfinder_model::experiment::{Effort, Neighbour, Setting};
use wallfinder_model::scenario::Link;
use wallfinder_model::telemetry::{FamilySummary, Telemetry};
use wallfinder_model::{Scenario, Step};
use wallfinder_probe::{Family, NotSeen, server_of};
use wallfinder_scenario::Fault;
use wallfinder_testbed::child::Shim;
use wallfinder_testbed::lab::{self, Shaper};
use wallfinder_testbed::squeeze::{self, Scene, Side};

use crate::exit::Failed;
use crate::job::Job;
use crate::session::Proof;
use crate::testbed::Testbed;

/// The links whose rates may be squeezed, from the server and to it.
pub(crate) type Shapers = (Option<Shaper>, Option<Shaper>);

impl Testbed {
    /// The links whose rates may be squeezed: those that were laid, or those that were named. A name without
    /// a namespace is of the one that the command was started in, which has to stay open as long as they are.
    pub(crate) fn shapers(&mut self, job: &Job, started_in: &File) -> Result<Shapers, Failed> {
        if let Some(lab) = &mut self.lab {
            return Ok(lab.take_shapers());
        }
        let is_elsewhere = job.scenario.client.netns.is_some();
        let standing = |key: &str, device: &Option<String>| {
            let Some(device) = device else {
                return Ok(None);
            };
            let (interface, rate) = match device.split_once(',') {
                Some((interface, rate)) => {
                    let rate = lab::parse_bits(rate);
                    let wrong = |why: lab::BadLink| Fault::at(key, why.to_string());
                    let rate = rate.map_err(|why| job.around.fault(&wrong(why)))?;
                    (interface, Some(rate))
                }
                None => (device.as_str(), None),
            };
            // By now this thread, and those that it starts, are where the client is.
            let interface = match is_elsewhere && !interface.contains('/') {
                true => format!("/proc/self/fd/{}/{interface}", started_in.as_raw_fd()),
                false => interface.to_owned(),
            };
            lab::standing(&interface, rate, &Shim::of_this_process())
                .map(Some)
                .map_err(Failed::run)
        };
        let Link {
            downlink_dev,
            uplink_dev,
            ..
        } = &job.scenario.link;
        Ok((
            standing("link.downlink_dev", downlink_dev)?,
            standing("link.uplink_dev", uplink_dev)?,
        ))
    }

    /// What can be squeezed under a load, whose processes `family` are the server's. `backend_cores` are those
    /// that processes behind the server use under it.
    pub(crate) fn proof(
        &self,
        scenario: &Scenario,
        effort: Effort,
        (downlink, uplink): Shapers,
        order: &StepOrder,
        telemetry: Option<&Telemetry>,
        backend_cores: f64,
    ) -> Proof {
        let (seed, family) = (scenario.load.seed, order.server.as_ref());
        let backend_pids = &scenario.server.backend_pid;
        let own_engine = scenario.driver().is_none();
        let client = telemetry.and_then(|t| t.client.as_ref());
        let server = telemetry.and_then(|t| t.server.as_ref());
        let bits = |shaper: &Option<Shaper>| shaper.as_ref().map(|s| s.full_bits() as f64);
        let cpus = |family: Option<&FamilySummary>, placed: &[u32]| match family {
            Some(family) if !family.cpus_allowed.is_empty() => family.cpus_allowed.clone(),
            _ => placed.to_vec(),
        };
        let backends = backend_pids.iter();
        let setting = Setting {
            server_cpus: cpus(server, &self.placement.server),
            server_quota_cores: server.and_then(|f| f.quota_cores),
            client_cpus: cpus(client, &self.placement.client),
            client_quota_cores: client.and_then(|f| f.quota_cores),
            open_loop: order.load.arrival.is_open(),
            in_flight_max: order.load.in_flight_bound(),
            own_engine,
            connections: None,
            downlink_bits: bits(&downlink),
            uplink_bits: bits(&uplink),
            neighbours: neighbours(server, family, backend_pids),
            backends: backends.map(|pid| format!("process {pid}")).collect(),
        };
        let client_pids = match own_engine {
            true => vec![std::process::id()],
            false => Vec::new(),
        };
        let reach = squeeze::reach(Scene {
            server: match way_out(order, telemetry) {
                Some(interface) => Side::beyond(&interface),
                None => Side {
                    pids: family.map_or(Vec::new(), |family| family.pids.clone()),
                    // Of those that were seen at work: idle housekeepers may well run elsewhere.
                    cpus: setting.server_cpus.clone(),
                    ..Side::default()
                },
            },
            client: Side {
                pids: client_pids,
                // A driver may keep to fewer than it was given.
                cpus: match own_engine {
                    true => self.placement.client.clone(),
                    false => setting.client_cpus.clone(),
                },
                comes_later: !own_engine,
                ..Side::default()
            },
            backend: (!backend_pids.is_empty()).then(|| Side {
                pids: backend_pids.clone(),
                ..Side::default()
            }),
            backend_cores: Some(backend_cores),
            downlink,
            uplink,
            seed,
            shim: Shim::of_this_process(),
        });
        Proof {
            effort,
            window: None,
            seed,
            levers: reach.levers,
            out_of_reach: reach.out_of_reach,
            setting,
            null: false,
        }
    }
}

/// The telemetry of the step that was measured last.
pub(crate) fn last(steps: &[Step]) -> Option<&Telemetry> {
    steps.last().map(|step| &step.telemetry)
}

/// The interface that leads to the server, where nobody on this machine has its address.
fn way_out(order: &StepOrder, telemetry: Option<&Telemetry>) -> Option<String> {
    let link = telemetry?.link.as_ref()?;
    let is_away =
        order.server.is_none() && matches!(server_of(order.address), Err(NotSeen::Remote { .. }));
    is_away.then(|| link.interface.clone())
}

/// Who else uses the server's processors, where telemetry says that somebody does. What is
/// behind the server works for it.
fn neighbours(
    server: Option<&FamilySummary>,
    family: Option<&Family>,
    backend_pids: &[u32],
) -> Vec<Neighbour> {
    /// Fewer cores than this are the machine's own housekeeping.
    const CORES_MIN: f64 = 0.1;
    match (server, family) {
        (Some(server), Some(family)) if server.neighbour_cores >= CORES_MIN => {
            let known = [&family.pids[..], backend_pids].concat();
            sight::neighbours(&server.cpus_allowed, &known, CORES_MIN)
        }
        _ => Vec::new(),
    }
}
