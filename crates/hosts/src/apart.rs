//! Both roles together, whichever hosts they are on: one sampler, one pace and one set of levers of both.
//!
//! On one host a single sampler watches both, and levers know each other's processors. On two hosts each does its
//! part, and what the two saw is put on the client's axis of time by marks that both took.

use std::net::{IpAddr, SocketAddr};

use wallfinder_model::Wall;
use wallfinder_model::experiment::Squeeze;
use wallfinder_model::telemetry::{HostSummary, Sample, Telemetry};
use wallfinder_probe::environment::interface_towards;
use wallfinder_probe::reference_loop::ReferenceLoop;
use wallfinder_probe::sample::Setup;
use wallfinder_protocol::Role;
use wallfinder_sys::process::host_name;
use wallfinder_testbed::squeeze::{self, Reach, Scene};

use crate::{ClientHost, Joint, Own, Pace, PaceOf, Sampling, ServerHost};

/// The two hosts of a load.
#[derive(Clone, Copy)]
pub struct Sides<'s> {
    /// Where it comes from.
    pub client: &'s dyn ClientHost,
    /// Where it goes.
    pub server: &'s dyn ServerHost,
}

impl Sides<'_> {
    /// Whether both are this host.
    fn are_here(self) -> bool {
        self.client.name().is_none() && self.server.name().is_none()
    }

    /// Whether the load goes from another host to nobody knows whom.
    fn is_server_unknown(self) -> bool {
        self.client.name().is_some() && self.server.name().is_none() && !self.server.is_seen()
    }
}

/// What the server's host is called, where it is another than the client's.
pub fn server_apart(sides: Sides<'_>) -> Option<String> {
    let is_known = !sides.are_here() && !sides.is_server_unknown();
    is_known.then(|| sides.server.name().map_or_else(host_name, str::to_owned))
}

/// A route is asked for by an address with some port.
pub(crate) fn towards(peer: IpAddr) -> SocketAddr {
    SocketAddr::new(peer, 9)
}

/// Begins to watch both. Of `setup`, the server is filled in here, and the client where it is our own engine.
pub fn sampler(sides: Sides<'_>, setup: Setup) -> Result<Box<dyn Sampling>, String> {
    if sides.are_here() {
        return sides.server.sampler(setup);
    }
    if sides.is_server_unknown() {
        return sides.client.sampler(setup);
    }
    let [server_paced, client_paced] = match setup.paced_cpus.clone() {
        Some([server, client]) => [Some([server, Vec::new()]), Some([Vec::new(), client])],
        None => [None, None],
    };
    let way_back = sides.client.addresses().first().copied();
    let way_back = way_back.filter(|_| sides.server.name().is_none());
    let way_back = way_back.and_then(|client| interface_towards(towards(client)));
    let server = Setup {
        client: None,
        interface: way_back.map(|interface| interface.name),
        pin: None,
        // There is no worker beside it that it could hold up.
        under_quota: true,
        paced_cpus: server_paced,
        ..setup.clone()
    };
    let with_ticks = !setup.marks_only;
    let client = sides.client.sampler(Setup {
        paced_cpus: client_paced,
        ..setup
    });
    let mut joined = Joined {
        client: client?,
        server: sides.server.sampler(server)?,
        with_ticks,
        marks: Vec::new(),
    };
    joined.mark("start");
    Ok(Box::new(joined))
}

/// Watches the pace of the processors of server and client.
pub fn pace(sides: Sides<'_>, [server, client]: [Vec<u32>; 2]) -> Box<dyn Pace> {
    match sides.are_here() {
        true => Box::new(ReferenceLoop::start([server, client])),
        false => Box::new(Paces([
            sides.server.pace(server),
            sides.client.pace(client),
        ])),
    }
}

/// Puts up every lever that is to be had.
pub fn reach(sides: Sides<'_>, scene: Scene) -> Reach {
    if sides.are_here() {
        return squeeze::reach(scene);
    }
    let Scene {
        server,
        client,
        backend,
        backend_cores,
        downlink,
        uplink,
        seed,
        ..
    } = scene;
    let mut reach = sides.server.levers(Own {
        side: server,
        backend,
        backend_cores,
        way_out: downlink,
        seed,
    });
    let of_client = sides.client.levers(Own {
        side: client,
        way_out: uplink,
        seed,
        ..Own::default()
    });
    reach.levers.extend(of_client.levers);
    reach.out_of_reach.extend(of_client.out_of_reach);
    reach.uplink_bits = of_client.uplink_bits;
    reach
}

/// Whether a resource is on the host of a role. What is behind the server may be on its own.
pub(crate) fn is_of(squeeze: Squeeze, role: Role) -> bool {
    let is_backend = squeeze.wall() == Wall::Backend;
    match squeeze {
        Squeeze::ServerSpeed | Squeeze::ServerCapacity | Squeeze::Downlink => role == Role::Server,
        Squeeze::ClientSpeed | Squeeze::ClientCapacity | Squeeze::Uplink => role == Role::Client,
        _ => is_backend && role != Role::Client,
    }
}

struct Paces([PaceOf; 2]);

impl Pace for Paces {
    fn times_ns(&self, from_ns: u64, to_ns: u64) -> [Option<f64>; 2] {
        self.0.each_ref().map(|of| of(from_ns, to_ns))
    }
}

impl Pace for ReferenceLoop {
    fn times_ns(&self, from_ns: u64, to_ns: u64) -> [Option<f64>; 2] {
        ReferenceLoop::times_ns(self, from_ns, to_ns)
    }
}

/// Sampling on two hosts.
struct Joined {
    client: Box<dyn Sampling>,
    server: Box<dyn Sampling>,
    with_ticks: bool,
    marks: Marks,
}

/// Instants of marks on the client's axis and on the server's.
type Marks = Vec<(i64, i64)>;

/// An instant of the client's axis on the server's: by the mark that is nearest.
fn on_server_axis(marks: &Marks, at_ns: i64) -> Option<i64> {
    let nearest = marks.iter().min_by_key(|(here, _)| here.abs_diff(at_ns))?;
    Some(nearest.1 + (at_ns - nearest.0))
}

/// What the client's host saw, with what the server's did of the same span.
fn joined(
    marks: &Marks,
    (from_ns, to_ns): (i64, i64),
    mut near: Telemetry,
    summarise: impl FnOnce(i64, i64) -> Telemetry,
) -> Telemetry {
    let span = on_server_axis(marks, from_ns).zip(on_server_axis(marks, to_ns));
    let Some((from_ns, to_ns)) = span else {
        return near;
    };
    let far = summarise(from_ns, to_ns);
    let host = far.server_host.unwrap_or_else(|| HostSummary {
        name: host_name(),
        observer_cpu_ns: far.observer_cpu_ns,
        ..HostSummary::default()
    });
    if far.window_ns > 0 {
        near.server = far.server;
        near.server_sockets = far.server_sockets;
        near.server_reference_ns = far.server_reference_ns;
        near.link = far.link.or(near.link);
        near.client_tcp = near.tcp;
        near.tcp = far.tcp;
    }
    near.server_host = Some(HostSummary {
        cores: far.cores,
        ..host
    });
    near
}

/// Ticks of the server's host beside those of the client's.
fn beside(marks: &Marks, near: &mut [Sample], far: &[Sample]) {
    let mut far = far.iter().peekable();
    for sample in near {
        let Some(at_ns) = on_server_axis(marks, sample.at_ns) else {
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

/// What the server's host saw in a tick, in place of what the client's did not.
fn take_far(near: &mut Sample, far: &Sample) {
    near.server_cores.clone_from(&far.cores);
    near.server = far.server;
    near.link = far.link.or(near.link);
    near.tcp = far.tcp;
}

impl Sampling for Joined {
    fn count_from(&mut self, zero_ns: u64) -> i64 {
        let later_ns = self.client.count_from(zero_ns);
        for (here, _) in &mut self.marks {
            *here -= later_ns;
        }
        later_ns
    }

    fn mark(&mut self, name: &str) -> i64 {
        let here_ns = self.client.mark(name);
        self.marks.push((here_ns, self.server.mark(name)));
        here_ns
    }

    fn find_server_again(&self) {
        self.server.find_server_again();
    }

    fn latest(&self) -> Option<Sample> {
        let mut sample = self.client.latest()?;
        if let Some(far) = self.server.latest() {
            take_far(&mut sample, &far);
        }
        Some(sample)
    }

    fn latest_of_clients(&self) -> Vec<(String, f64)> {
        self.client.latest_of_clients()
    }

    fn summarise(&self, from_ns: i64, to_ns: i64) -> Telemetry {
        let near = self.client.summarise(from_ns, to_ns);
        let server = |from, to| self.server.summarise(from, to);
        joined(&self.marks, (from_ns, to_ns), near, server)
    }

    fn stop(self: Box<Self>) -> Joint {
        let Joined {
            client,
            server,
            with_ticks,
            marks,
        } = *self;
        // The load's host last: it may be busy still.
        let (server, mut client) = (server.stop(), client.stop());
        if with_ticks {
            beside(&marks, &mut client.samples, &server.samples);
        }
        let samples = std::mem::take(&mut client.samples);
        let mut gaps = std::mem::take(&mut client.gaps);
        gaps.extend(server.gaps.iter().cloned());
        Joint::new(samples, gaps, move |from_ns, to_ns| {
            let near = client.summarise(from_ns, to_ns);
            let server = |from, to| server.summarise(from, to);
            joined(&marks, (from_ns, to_ns), near, server)
        })
    }
}
