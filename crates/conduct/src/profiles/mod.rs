//! What is seen of a server, and of what loads it, from inside: asked for when the window opens, all
//! kinds at once, and read when they have come.

mod keep;
mod kernel;
mod runtime;

pub use kernel::Looks;

use std::net::SocketAddr;

use wallfinder_hosts::{Here, ServerHost};
use wallfinder_judge::profile::{self, Rules};
use wallfinder_model::profile::{ProfileKind, Profiles};
use wallfinder_model::telemetry::FamilySummary;
use wallfinder_model::{Nanos, Step};
use wallfinder_probe::discover::Family;
use wallfinder_store::Folder;

use crate::ConductError;
use keep::Keep;
use kernel::Looking;
use runtime::Asked;

/// What is to be profiled within a window.
#[derive(Debug, Clone)]
pub struct ProfileOrder {
    /// Where the server's processes offer profiles; those of several are merged.
    pub addresses: Vec<SocketAddr>,
    /// The record's folder: `profiles/` and `stacks/` are made in it. `None`: what is read is not kept as it came.
    pub folder: Option<Folder>,
    /// Which of those.
    pub kinds: Vec<ProfileKind>,
    /// Whether to keep the runtime's trace of the window's first second as well.
    pub trace: bool,
    /// What the kernel is to tell of the server.
    pub server: Looks,
    /// What it is to tell of the client.
    pub client: Looks,
    /// What names of functions say.
    pub rules: Rules,
}

/// Whose processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Server,
    Client,
}

impl Side {
    /// Before the name of a kind, in names of files.
    fn prefix(self) -> &'static str {
        match self {
            Side::Server => "",
            Side::Client => "client-",
        }
    }
}

/// Profiles that are on their way.
#[derive(Debug)]
pub(crate) struct Capture<'o> {
    order: &'o ProfileOrder,
    seconds: u64,
    /// Processes of the server and of the client.
    processes: [u32; 2],
    asked: Asked,
    server: Looking,
    client: Looking,
}

/// What came of a capture.
#[derive(Debug, Default)]
pub(crate) struct Captured {
    pub(crate) server: Option<Profiles>,
    pub(crate) client: Option<Profiles>,
}

impl Captured {
    /// Puts it where it belongs.
    pub(crate) fn fill(self, step: &mut Step) {
        step.profiles = self.server;
        step.client_profiles = self.client;
    }
}

impl<'o> Capture<'o> {
    /// Begins, for a window of so long. Windows of profiles are whole seconds.
    pub(crate) fn start(
        order: &'o ProfileOrder,
        window: Nanos,
        server: &dyn ServerHost,
        client: Option<&Family>,
    ) -> Capture<'o> {
        let seconds = (window.0 / 1_000_000_000).max(1);
        let client = Here::of(client.cloned());
        Capture {
            order,
            seconds,
            processes: match order.addresses.len() {
                0 => [server.processes(), client.processes()],
                addresses => [addresses as u32, client.processes()],
            },
            asked: Asked::of(order, seconds),
            server: Looking::start(order.server, server, "server"),
            client: Looking::start(order.client, &client, "client"),
        }
    }

    /// How long it is meant to last.
    pub(crate) fn seconds(&self) -> u64 {
        self.seconds
    }

    /// The window has closed: the kernel is asked no more.
    pub(crate) fn close(&mut self) {
        self.server.close();
        self.client.close();
    }

    /// Waits for the answers, keeps them as they came, and reads them beside what telemetry
    /// says of the step. Profiles of a window that was broken off are not waited for. `zero_ns` is
    /// the schedule's zero by the monotonic clock.
    pub(crate) fn finish(
        self,
        step: &Step,
        zero_ns: u64,
        was_stopped: bool,
    ) -> Result<Captured, ConductError> {
        let blank = |processes: u32| Profiles {
            window_ns: self.seconds * 1_000_000_000,
            processes,
            answered: step.throughput * self.seconds as f64,
            ..Profiles::default()
        };
        let [mut server, mut client] = self.processes.map(blank);
        let (of_server, of_client) = (
            !self.order.addresses.is_empty() || self.order.server.any(),
            self.order.client.any(),
        );
        if was_stopped {
            for profiles in [&mut server, &mut client] {
                profiles.missing.push("the window was broken off".into());
            }
        } else {
            let keep = |side| Keep {
                folder: self.order.folder.as_ref(),
                step: step.index,
                side,
            };
            let rules = &self.order.rules;
            self.asked.finish(keep(Side::Server), rules, &mut server)?;
            for (looking, side, profiles) in [
                (self.server, Side::Server, &mut server),
                (self.client, Side::Client, &mut client),
            ] {
                looking.finish(keep(side), rules, step, zero_ns, profiles)?;
            }
        }
        let telemetry = &step.telemetry;
        for (profiles, family) in [
            (&mut server, &telemetry.server),
            (&mut client, &telemetry.client),
        ] {
            if let (Some(cpu), Some(family)) = (profiles.of_cpu(), family)
                && telemetry.window_ns > 0
            {
                let cores = family.cpu_ns as f64 / telemetry.window_ns as f64;
                let beside = profile::reconcile(cpu, cores, machine_cores(family));
                profiles.reconciliation = beside;
            }
        }
        Ok(Captured {
            server: of_server.then_some(server),
            client: of_client.then_some(client),
        })
    }
}

/// Processors in use among those that a side may use, interrupts and others included.
fn machine_cores(side: &FamilySummary) -> Option<f64> {
    let cpus = side.cpus_allowed.len();
    (cpus > 0).then_some(side.cpus_busy * cpus as f64)
}
