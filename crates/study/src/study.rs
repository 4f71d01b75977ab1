//! A study that can be run: every name refers to something, every number is in bounds.

use std::collections::{BTreeMap, BTreeSet};

use wallfinder_model::scenario::{Deal, Hub};
use wallfinder_model::traffic::Traffic;
use wallfinder_model::{Decode, Effort, Nanos, Rate};

use crate::Size;
use crate::StudyError;
use crate::charts::ChartPlan;
use crate::check::Place;
use crate::claims::Claim;
use crate::dry_run;
use crate::file::StudyFile;

/// Longest study file that is read.
const FILE_BYTES_MAX: usize = 1 << 20;

/// A study that was checked.
#[derive(Debug)]
pub struct Study {
    /// Short name.
    pub id: String,
    /// One line.
    pub title: String,
    /// The document whose experiment this is.
    pub source: String,
    /// What is to be found out.
    pub question: String,
    /// How.
    pub method: String,
    /// Processors of the server.
    pub server_cpus: u32,
    /// Processors of the client, and workers of the engine.
    pub client_cpus: u32,
    /// Where the two sides are.
    pub hosts: Hosts,
    /// Servers that are started.
    pub subjects: Vec<SubjectSpec>,
    /// What produces load.
    pub drivers: Vec<Driver>,
    pub(crate) groups: Vec<Group>,
    /// What is claimed.
    pub claims: Vec<Claim>,
    /// What is drawn.
    pub charts: Vec<ChartPlan>,
    /// The file's text.
    pub text: String,
}

/// The hosts of a study's two sides.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hosts {
    /// Of the servers, `ssh://user@host` or the name of an agent at the hub; `None`: this one.
    pub server: Option<String>,
    /// By which address the load reaches it; `None`: by its name.
    pub server_address: Option<String>,
    /// Of the load, each written alike, which make it together; none: this one. Where one of several is lost its step is
    /// left out: claims compare steps, and those of fewer hosts are of another load.
    pub clients: Vec<String>,
    /// How the load is dealt to several.
    pub deal: Deal,
    /// How ssh is called; `None`: `ssh`.
    pub ssh: Option<String>,
    /// Where agents that dialled out are met.
    pub hub: Hub,
}

/// Whether a study's host is written as one that ssh reaches; if not, how it is to be written. Files name no agents at a
/// hub, for a hub belongs to the machine that the study runs on.
pub fn is_reached_by_ssh(host: &str) -> Result<(), String> {
    match host.starts_with("ssh://") {
        true => Ok(()),
        false => Err(
            "a study's host is written as ssh://user@host, with :port where it is not 22; an agent at a hub is named by \
             a flag, beside --hub FOLDER"
                .to_owned(),
        ),
    }
}

/// A server that is started for a study.
#[derive(Debug, Clone, PartialEq)]
pub struct SubjectSpec {
    /// Short name within the study.
    pub name: String,
    /// Command and arguments; the first may name a subject that comes with the tool.
    pub command: Vec<String>,
    /// Port it listens on.
    pub port: u16,
    /// Environment variables added to its own.
    pub env: BTreeMap<String, String>,
    /// Processors it is pinned to, by number of processors.
    pub cpus: u32,
    /// Whether it may run on every processor.
    pub everywhere: bool,
    /// Whether it serves TLS.
    pub tls: bool,
    /// Quota in cores, below its processors.
    pub quota_cores: Option<f64>,
    /// The link between it and the client, where there is one. A rate that is spelt `between` is
    /// settled when the link is needed.
    pub link: Option<String>,
    /// Groups that such a rate lies between: the middle of what they fill of theirs.
    pub link_between: Vec<String>,
}

/// What produces load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// Name within the study: `engine` is our own.
    pub name: String,
    /// The foreign load generator.
    pub program: String,
    /// Arguments added to a foreign driver's command line.
    pub arguments: Vec<String>,
    /// Environment variables added to a foreign driver's own.
    pub env: BTreeMap<String, String>,
    /// Whether a foreign driver may run on every processor.
    pub everywhere: bool,
}

impl Driver {
    /// Our own engine's name in study files.
    pub const ENGINE: &'static str = "engine";

    /// Whether it is our own engine.
    pub fn is_engine(&self) -> bool {
        self.name == Driver::ENGINE
    }
}

/// The protocol of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2, by prior knowledge.
    Http2,
    /// gRPC, unary.
    Grpc,
    /// Messages behind their length: four bytes, big-endian.
    Framed,
    /// The same, as much as the server grants.
    FramedCredit,
}

impl Speaks {
    /// Every protocol.
    pub(crate) const ALL: [Speaks; 5] = [
        Speaks::Http1,
        Speaks::Http2,
        Speaks::Grpc,
        Speaks::Framed,
        Speaks::FramedCredit,
    ];

    /// As it is written in files.
    pub const fn label(self) -> &'static str {
        match self {
            Speaks::Http1 => "http1",
            Speaks::Http2 => "http2",
            Speaks::Grpc => "grpc",
            Speaks::Framed => "framed",
            Speaks::FramedCredit => "framed-credit",
        }
    }

    /// Whether messages stand behind their length, and nowhere else.
    pub(crate) const fn is_framed(self) -> bool {
        matches!(self, Speaks::Framed | Speaks::FramedCredit)
    }

    /// Whether clients can share a connection.
    pub(crate) const fn multiplexes(self) -> bool {
        matches!(self, Speaks::Http2 | Speaks::Grpc)
    }
}

/// Steps that belong together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) id: String,
    /// Index into the subjects.
    pub(crate) subject: usize,
    /// The part of the study that it belongs to, if it is not always run.
    pub(crate) part: Option<String>,
    pub(crate) speaks: Speaks,
    /// Empty for framed messages.
    pub(crate) path: String,
    /// In the place of one request; empty: there is none.
    pub(crate) traffic: Traffic,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) decode: Decode,
    /// Whether the study asks if it is better than others.
    pub(crate) rival: bool,
    pub(crate) runs: Vec<Ramp>,
}

/// The concurrency of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Concurrency {
    /// As the file gives it, and labels have it: connections, or clients.
    pub(crate) given: u32,
    pub(crate) connections: u32,
    pub(crate) in_flight_per_connection: u32,
}

/// What the kernel is to tell of both sides of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelLooks {
    /// Stacks that it samples.
    pub stacks: bool,
    /// Where threads wait.
    pub waits: bool,
    /// System calls by name.
    pub calls: bool,
    /// Events that processors count.
    pub counters: bool,
}

/// A ramp for each of its drivers.
#[derive(Debug)]
pub(crate) struct Ramp {
    pub(crate) sizes: Vec<Size>,
    /// Indices into the drivers.
    pub(crate) drivers: Vec<usize>,
    /// Bytes of data, for each of which every step is run; empty: nothing is sent.
    pub(crate) payload: Vec<u32>,
    pub(crate) concurrency: Vec<Concurrency>,
    /// Of each client.
    pub(crate) requests: Option<u32>,
    pub(crate) rounds: u32,
    pub(crate) samples: bool,
    pub(crate) profiles: bool,
    pub(crate) kernel: KernelLooks,
    pub(crate) squeeze: Option<Effort>,
    pub(crate) client_quota: Option<f64>,
    /// Bound of the engine's requests in flight.
    pub(crate) max_in_flight: Option<u32>,
    pub(crate) rates: Vec<Rate>,
    pub(crate) warmup: Nanos,
    pub(crate) window: Nanos,
    pub(crate) timeout: Nanos,
    pub(crate) calibrate: bool,
}

impl Study {
    /// Reads a study file's text. `file` is the name that errors carry. Conditions are tried on
    /// made-up data.
    pub fn parse(file: &str, text: &str) -> Result<Study, StudyError> {
        let place = Place { file, text };
        let study = Study::read(&place)?;
        dry_run::check(&study, &place)?;
        Ok(study)
    }

    /// Reads a text whose conditions were tried before.
    pub(crate) fn read(place: &Place) -> Result<Study, StudyError> {
        let text = place.text;
        if text.len() > FILE_BYTES_MAX {
            return Err(place.error(0..0, "a study file of more than 1 MiB".to_owned()));
        }
        let raw: StudyFile = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            place.error(span, error.message().trim_end().to_owned())
        })?;
        place.study(raw)
    }

    /// Parts that are run only where they are asked for.
    pub fn parts(&self) -> BTreeSet<&str> {
        let parts = self.groups.iter().filter_map(|group| group.part.as_deref());
        parts.collect()
    }

    /// Leaves out what belongs to parts that are not wanted.
    ///
    /// # Errors
    ///
    /// A part that there is not.
    pub fn keep_parts(&mut self, wanted: &[String]) -> Result<(), String> {
        let parts = self.parts();
        if let Some(unknown) = wanted.iter().find(|name| !parts.contains(name.as_str())) {
            let there = match parts.is_empty() {
                true => "it has none".to_owned(),
                false => format!("there are: {}", Vec::from_iter(parts).join(", ")),
            };
            return Err(format!("{} has no part `{unknown}`; {there}", self.id));
        }
        let is_kept =
            |part: &Option<String>| part.as_ref().is_none_or(|part| wanted.contains(part));
        self.groups.retain(|group| is_kept(&group.part));
        self.claims.retain(|claim| is_kept(&claim.part));
        Ok(())
    }

    /// The sizes at which there is something to run.
    pub fn sizes(&self) -> Vec<Size> {
        Size::ALL
            .into_iter()
            .filter(|size| {
                self.groups
                    .iter()
                    .flat_map(|group| &group.runs)
                    .any(|run| run.sizes.contains(size))
            })
            .collect()
    }

    /// The subject of this name.
    pub fn subject(&self, name: &str) -> Option<&SubjectSpec> {
        self.subjects.iter().find(|subject| subject.name == name)
    }

    /// The driver of this name.
    pub fn driver(&self, name: &str) -> Option<&Driver> {
        self.drivers.iter().find(|driver| driver.name == name)
    }
}
