//! What can be squeezed at a testbed, and what the judge must know of the place.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use wallfinder_conduct::{Metered, StepOrder};
use wallfinder_hosts::{self as hosts, BackendHost, Host, ProcessTimes, ServerHost, server_apart};
use wallfinder_model::experiment::{Effort, Neighbour, Setting};
use wallfinder_model::scenario::Link;
use wallfinder_model::telemetry::{FamilySummary, Telemetry};
use wallfinder_model::{Scenario, Step};
use wallfinder_probe::{NotSeen, server_of};
use wallfinder_scenario::Fault;
use wallfinder_testbed::child::Shim;
use wallfinder_testbed::lab::{self, Flows, RelayWatch, Shaper};
use wallfinder_testbed::squeeze::{Scene, Side};

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
        let (from, to) = (self.client.name(), self.server.host.name());
        let is_apart = from.is_some() || to.is_some();
        let standing = |key: &str, device: &Option<String>, peers: Vec<IpAddr>| {
            let Some(device) = device else {
                return Ok(None);
            };
            let (interface, rate) = device_of(job, key, device)?;
            if is_apart && !peers.is_empty() {
                // The channel to the other host may leave by it as well.
                let flows = Flows {
                    peers,
                    port: self.server.address.port(),
                    from_server: to.is_none(),
                };
                return lab::of_flows(interface, rate, flows, &Shim::of_this_process())
                    .map(Some)
                    .map_err(Failed::run);
            }
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
        // What leaves another host is squeezed there.
        let downlink_dev = downlink_dev.clone().filter(|_| to.is_none());
        let uplink_dev = uplink_dev.clone().filter(|_| from.is_none());
        let server = vec![self.server.address.ip()];
        Ok((
            standing("link.downlink_dev", &downlink_dev, self.client.addresses())?,
            standing("link.uplink_dev", &uplink_dev, server)?,
        ))
    }

    /// What can be squeezed under a load.
    pub(crate) fn proof(
        &self,
        scenario: &Scenario,
        effort: Effort,
        (downlink, uplink): Shapers,
        order: &StepOrder,
        telemetry: Option<&Telemetry>,
        behind: Behind,
    ) -> Proof {
        let (seed, family) = (scenario.load.seed, order.server.family());
        let own_engine = scenario.driver().is_none();
        let client = telemetry.and_then(|t| t.client.as_ref());
        let server = telemetry.and_then(|t| t.server.as_ref());
        let cpus = |family: Option<&FamilySummary>, placed: &[u32]| match family {
            Some(family) if !family.cpus_allowed.is_empty() => family.cpus_allowed.clone(),
            _ => placed.to_vec(),
        };
        let behind_here = match behind.host {
            None => &behind.pids[..],
            Some(_) => &[],
        };
        // What delays the link is ours.
        let relay = order.relay.as_ref().map(RelayWatch::pid);
        let mut setting = Setting {
            server_cpus: cpus(server, &self.placement.server),
            server_quota_cores: server.and_then(|f| f.quota_cores),
            client_cpus: cpus(client, &self.placement.client),
            client_quota_cores: client.and_then(|f| f.quota_cores),
            open_loop: order.load.arrival.is_open(),
            in_flight_max: order.load.in_flight_bound(),
            own_engine,
            connections: None,
            downlink_bits: None,
            uplink_bits: None,
            neighbours: neighbours(
                &*order.server,
                server,
                &[
                    family.map_or(&[][..], |family| &family.pids),
                    behind_here,
                    relay.as_slice(),
                ]
                .concat(),
            ),
            // A driver that is started again and again is not seen by name.
            client_neighbours: match own_engine {
                true => neighbours(&*order.client, client, relay.as_slice()),
                false => Vec::new(),
            },
            backends: behind.names,
            server_host: server_apart(order.sides()),
            client_host: order.client.name().map(str::to_owned),
            client_hosts: match own_engine {
                true => order.client.parts(&order.load).len() as u32,
                false => 0,
            },
        };
        let client_pids = match own_engine && order.client.name().is_none() {
            true => vec![std::process::id()],
            false => Vec::new(),
        };
        let scene = Scene {
            server: match way_out(order, telemetry) {
                Some(interface) => Side::beyond(&interface),
                // Nobody knows where it is, but for the client's host.
                None if order.client.name().is_some() && !order.server.is_seen() => Side {
                    elsewhere: true,
                    ..Side::default()
                },
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
            backend: (!behind_here.is_empty()).then(|| Side {
                pids: behind_here.to_vec(),
                ..Side::default()
            }),
            backend_cores: Some(behind.cores),
            downlink,
            uplink,
            seed,
            shim: Shim::of_this_process(),
        };
        let mut reach = hosts::reach(order.sides(), scene);
        if let Some(host) = behind.host.filter(|_| !behind.pids.is_empty()) {
            let there = host.levers(behind.pids, behind.cores, seed);
            reach.levers.extend(there.levers);
            reach.out_of_reach.extend(there.out_of_reach);
        }
        let bits = |bits: Option<u64>| bits.map(|bits| bits as f64);
        (setting.downlink_bits, setting.uplink_bits) =
            (bits(reach.downlink_bits), bits(reach.uplink_bits));
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

/// `IFACE[,RATE]` taken apart.
pub(crate) fn device_of<'d>(
    job: &Job,
    key: &str,
    device: &'d str,
) -> Result<(&'d str, Option<u64>), Failed> {
    let Some((interface, rate)) = device.split_once(',') else {
        return Ok((device, None));
    };
    let wrong = |why: lab::BadLink| Fault::at(key, why.to_string());
    let rate = lab::parse_bits(rate).map_err(|why| job.around.fault(&wrong(why)))?;
    Ok((interface, Some(rate)))
}

/// CPU times of the server's host, and of its backend's where that is another.
pub(crate) struct Times {
    server: ProcessTimes,
    backend: Option<ProcessTimes>,
}

impl Times {
    pub(crate) fn now(testbed: &Testbed, server: &dyn ServerHost) -> Times {
        Times {
            server: server.times(),
            backend: testbed.backend.as_ref().map(BackendHost::times),
        }
    }
}

/// Processes behind the server that may be squeezed apart from it, and what they used under the load.
#[derive(Debug, Default)]
pub(crate) struct Behind {
    pids: Vec<u32>,
    names: Vec<String>,
    /// Cores, in the mean.
    cores: f64,
    /// Their host, where it is not the server's.
    host: Option<BackendHost>,
}

impl Behind {
    /// How their CPU time is read; `None`: there are none.
    pub(crate) fn metered(&self, server: &Arc<dyn ServerHost>) -> Option<Metered> {
        if self.pids.is_empty() {
            return None;
        }
        let (host, server) = (self.host.clone(), Arc::clone(server));
        Some(Metered {
            pids: self.pids.clone(),
            times: Arc::new(move || match &host {
                Some(host) => host.times(),
                None => server.times(),
            }),
        })
    }

    /// Those that the scenario names; else those that the server's connections lead to and that had something
    /// to do. `before` is of the start of a load that took `loaded_s`.
    pub(crate) fn of(
        scenario: &Scenario,
        testbed: &Testbed,
        server: &dyn ServerHost,
        before: &Times,
        loaded_s: f64,
    ) -> Behind {
        /// Fewer cores than this do nothing that a load would wait for.
        const CORES_MIN: f64 = 0.05;
        let now = Times::now(testbed, server);
        let on_host = now.backend.as_ref().zip(before.backend.as_ref());
        let (now, before) = on_host.unwrap_or((&now.server, &before.server));
        let cores = |pids: &[u32]| now.used_since(before, pids) / loaded_s;
        let named = &scenario.server.backend_pid;
        if !named.is_empty() {
            return Behind {
                names: named.iter().map(|pid| format!("process {pid}")).collect(),
                cores: cores(named),
                pids: named.clone(),
                host: None,
            };
        }
        let host = testbed.backend.clone();
        let backends = match &host {
            Some(host) => host.serving(&server.asked()),
            None => server.behind(),
        };
        let of_host = host
            .as_ref()
            .map_or(String::new(), |host| format!(" of {}", host.name()));
        let mut behind = Behind {
            host,
            ..Behind::default()
        };
        for backend in backends {
            let used = cores(&backend.pids);
            let name = format!(
                "{} ({}){of_host}",
                backend.name,
                backend.pids.first().copied().unwrap_or_default()
            );
            tracing::info!(backend = %name, cores = used, "the server asks a process");
            if used >= CORES_MIN {
                behind.names.push(name);
                behind.cores += used;
                behind.pids.extend(backend.pids);
            }
        }
        behind
    }
}

/// The telemetry of the step that was measured last.
pub(crate) fn last(steps: &[Step]) -> Option<&Telemetry> {
    steps.last().map(|step| &step.telemetry)
}

/// The interface that leads to the server, where nobody on this machine has its address.
fn way_out(order: &StepOrder, telemetry: Option<&Telemetry>) -> Option<String> {
    let link = telemetry?.link.as_ref()?;
    let is_away = order.server.name().is_none()
        && order.client.name().is_none()
        && !order.server.is_seen()
        && matches!(server_of(order.address), Err(NotSeen::Remote { .. }));
    is_away.then(|| link.interface.clone())
}

/// Who else uses a side's processors, where telemetry says that somebody does and `known` does not name them. What
/// is behind the server works for it.
fn neighbours(host: &dyn Host, side: Option<&FamilySummary>, known: &[u32]) -> Vec<Neighbour> {
    /// Fewer cores than this are the machine's own housekeeping.
    const CORES_MIN: f64 = 0.1;
    match side.filter(|side| side.neighbour_cores >= CORES_MIN) {
        Some(side) => host.neighbours(&side.cpus_allowed, known, CORES_MIN),
        None => Vec::new(),
    }
}
