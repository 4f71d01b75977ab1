//! What a study needs of the world: subjects that start, drivers that drive, a step run.
//!
//! The tool implements it over its engine, probes and stage; tests with a double.

use wallfinder_model::Environment;
use wallfinder_model::record::Step;

use crate::expand::StudyStep;
use crate::study::{Driver, SubjectSpec};

/// Whether a driver can be run here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It can; its version, where it says one.
    Available {
        /// Such as `8.0.0`.
        version: Option<String>,
    },
    /// It cannot.
    Missing {
        /// Why, and the way out: `not installed (npm install -g autocannon)`.
        why: String,
    },
}

/// Why something did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApparatusError {
    /// This step did not work out; the others may.
    #[error("{0}")]
    Failed(String),
    /// The user stopped the run. What was measured is kept.
    #[error("interrupted")]
    Interrupted,
}

/// What does not go by the plan.
#[derive(Debug)]
pub enum Deviation<'r> {
    /// Others disturbed a step, which is about to be measured again.
    Again {
        /// Which.
        step: &'r StudyStep,
        /// What they did.
        why: &'r str,
    },
    /// A step is left out.
    Skipped {
        /// Which.
        step: &'r StudyStep,
        /// Why.
        why: &'r str,
    },
}

/// What runs a study's steps.
pub trait Apparatus {
    /// Where the study runs.
    fn environment(&self) -> Environment;

    /// Whether a driver can be run here. Asked once for each driver, before the first step.
    fn driver_available(&mut self, driver: &Driver) -> Availability;

    /// Starts a subject and waits until it listens. At most one runs at a time.
    fn start_subject(&mut self, subject: &SubjectSpec) -> Result<(), ApparatusError>;

    /// Stops the subject that runs. Called on every way out, after a start that succeeded.
    fn stop_subject(&mut self);

    /// Runs one step against the subject that runs.
    fn run_step(&mut self, step: &StudyStep) -> Result<Step, ApparatusError>;

    /// Keeps a step that was measured before, in an earlier run that was cut short.
    fn take_over(&mut self, measured: &Step) -> Result<(), ApparatusError>;

    /// Told as the run goes on. Showing it must not change what is measured.
    fn deviates(&mut self, _deviation: Deviation<'_>) {}
}
