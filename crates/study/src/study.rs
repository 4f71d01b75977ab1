//! A study that can be run: every name refers to something, every number is in bounds.

use std::collections::BTreeMap;

use wallfinder_model::{Nanos, Rate};

use crate::Size;
use crate::check::Place;
use crate::claims::Claim;
use crate::dry_run;
use crate::error::StudyError;
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
    /// Processors of the client, and lanes of the engine.
    pub client_cpus: u32,
    /// Servers that are started.
    pub subjects: Vec<SubjectSpec>,
    /// What produces load.
    pub drivers: Vec<Driver>,
    pub(crate) groups: Vec<Group>,
    /// What is claimed.
    pub claims: Vec<Claim>,
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
    /// Quota in cores, below its processors.
    pub quota_cores: Option<f64>,
}

/// What produces load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// `engine`, or the name of a foreign load generator.
    pub name: String,
    /// Arguments added to a foreign driver's command line.
    pub arguments: Vec<String>,
}

impl Driver {
    /// Our own engine's name in study files.
    pub const ENGINE: &'static str = "engine";

    /// Whether it is our own engine.
    pub fn is_engine(&self) -> bool {
        self.name == Driver::ENGINE
    }
}

/// Steps that belong together.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) id: String,
    /// Index into the subjects.
    pub(crate) subject: usize,
    pub(crate) path: String,
    pub(crate) pipeline: u32,
    pub(crate) runs: Vec<Ramp>,
}

/// A ramp for each of its drivers.
#[derive(Debug)]
pub(crate) struct Ramp {
    pub(crate) sizes: Vec<Size>,
    /// Indices into the drivers.
    pub(crate) drivers: Vec<usize>,
    pub(crate) connections: Vec<u32>,
    pub(crate) rates: Vec<Rate>,
    pub(crate) warmup: Nanos,
    pub(crate) window: Nanos,
    pub(crate) timeout: Nanos,
    pub(crate) calibrate: bool,
}

impl Study {
    /// Reads a study file's text. `file` is the name that errors carry.
    pub fn parse(file: &str, text: &str) -> Result<Study, StudyError> {
        let place = Place { file, text };
        if text.len() > FILE_BYTES_MAX {
            return Err(place.error(0..0, "a study file of more than 1 MiB".to_owned()));
        }
        let raw: StudyFile = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            place.error(span, error.message().trim_end().to_owned())
        })?;
        let study = place.study(raw)?;
        dry_run::check(&study, &place)?;
        Ok(study)
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

    /// The driver of this name.
    pub fn driver(&self, name: &str) -> Option<&Driver> {
        self.drivers.iter().find(|driver| driver.name == name)
    }
}
