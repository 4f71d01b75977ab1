//! Runs a study: round by round, subject by subject, step by step, then judges steps and claims.

use wallfinder_judge::ramp;
use wallfinder_model::chart::Chart;
use wallfinder_model::record::{ClaimOutcome, Step};
use wallfinder_model::verdict::How;
use wallfinder_model::{Environment, Verdict};

use crate::Size;
use crate::apparatus::{Apparatus, ApparatusError, Availability, Progress};
use crate::between::Rates;
use crate::claims;
use crate::expand::StudyStep;
use crate::study::{Study, SubjectSpec};

/// A step that did not run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Label of the step.
    pub label: String,
    /// Why.
    pub why: String,
}

/// What a run of a study gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// Steps that ran, judged; `name` is the label.
    pub steps: Vec<Step>,
    /// Steps that did not.
    pub skipped: Vec<Skipped>,
    /// The claims.
    pub claims: Vec<ClaimOutcome>,
    /// What there is to draw.
    pub charts: Vec<Chart>,
    /// Claims whose conditions are wrong.
    pub faults: Vec<String>,
    /// Whether the user stopped it.
    pub interrupted: bool,
}

/// Runs a study at one size. Whatever goes wrong with a step, a driver or a subject leaves
/// the others running, and is the reason why claims stay open.
pub fn run(study: &Study, size: Size, apparatus: &mut dyn Apparatus) -> Ran {
    let steps = study.expand(size);
    let mut course = Course {
        environment: apparatus.environment(),
        apparatus,
        of: steps.len(),
        number: 0,
        missing: Vec::new(),
        rates: Rates::default(),
        ran: Vec::new(),
        skipped: Vec::new(),
        interrupted: false,
    };
    course.ask_for_drivers(&steps);
    for block in steps.chunk_by(|a, b| a.subject == b.subject && a.round == b.round) {
        let its = |subject: &&SubjectSpec| subject.name == block[0].subject;
        if let Some(subject) = study.subjects.iter().find(its) {
            course.run_subject(subject, &block.iter().collect::<Vec<_>>());
        }
    }
    course.finish(study, size)
}

/// A run under way.
struct Course<'a> {
    apparatus: &'a mut dyn Apparatus,
    environment: Environment,
    of: usize,
    number: usize,
    /// Drivers that cannot be run, and why.
    missing: Vec<(String, String)>,
    /// Of links that this machine decides.
    rates: Rates,
    ran: Vec<Step>,
    skipped: Vec<Skipped>,
    interrupted: bool,
}

impl Course<'_> {
    fn ask_for_drivers(&mut self, steps: &[StudyStep]) {
        let mut asked: Vec<&str> = Vec::new();
        for step in steps {
            if asked.contains(&step.driver.name.as_str()) {
                continue;
            }
            asked.push(&step.driver.name);
            match self.apparatus.driver_available(&step.driver) {
                Availability::Available { version } => {
                    if let Some(version) = version {
                        let versions = &mut self.environment.versions;
                        versions.insert(step.driver.name.clone(), version);
                    }
                }
                Availability::Missing { why } => self.missing.push((step.driver.name.clone(), why)),
            }
        }
    }

    fn run_subject(&mut self, subject: &SubjectSpec, steps: &[&StudyStep]) {
        let (able, unable): (Vec<&StudyStep>, Vec<&StudyStep>) = steps
            .iter()
            .copied()
            .partition(|step| self.unavailable(step).is_none());
        for step in unable {
            let why = self.unavailable(step).unwrap_or_default();
            self.skip(step, &why);
        }
        if able.is_empty() {
            return;
        }
        if self.interrupted {
            self.skip_all(&able, "the run was interrupted");
            return;
        }
        let settled = match self.rates.settle(subject, &self.ran) {
            Ok(settled) => settled,
            Err(why) => {
                let why = format!("the subject `{}` did not start: {why}", subject.name);
                self.skip_all(&able, &why);
                return;
            }
        };
        let subject = &settled;
        self.apparatus.progress(Progress::Subject { subject });
        match self.apparatus.start_subject(subject) {
            Ok(()) => {}
            Err(ApparatusError::Interrupted) => {
                self.interrupted = true;
                self.skip_all(&able, "the run was interrupted");
                return;
            }
            Err(ApparatusError::Failed(why)) => {
                let why = format!("the subject `{}` did not start: {why}", subject.name);
                self.skip_all(&able, &why);
                return;
            }
        }
        for step in able {
            self.run_step(step);
        }
        self.apparatus.stop_subject();
    }

    fn run_step(&mut self, step: &StudyStep) {
        self.number += 1;
        if self.interrupted {
            self.skip(step, "the run was interrupted");
            return;
        }
        let (number, of) = (self.number, self.of);
        self.apparatus
            .progress(Progress::Starting { step, number, of });
        match self.measure(step) {
            Ok(measured) => {
                self.apparatus.progress(Progress::Ended { step: &measured });
                self.ran.push(measured);
            }
            Err(ApparatusError::Interrupted) => {
                self.interrupted = true;
                self.skip(step, "the run was interrupted");
            }
            Err(ApparatusError::Failed(why)) => self.skip(step, &why),
        }
    }

    fn measure(&mut self, step: &StudyStep) -> Result<Step, ApparatusError> {
        let mut measured = self.apparatus.run_step(step)?;
        measured.name = step.label.clone();
        measured.cell = step.cell();
        measured.index = u32::try_from(self.ran.len()).unwrap_or(u32::MAX);
        if step.calibrate && measured.ceiling.is_none() {
            // A step that was measured stands, whether its ceiling is known or not.
            match self.apparatus.calibrate(step, &measured) {
                Ok(ceiling) => measured.ceiling = ceiling,
                Err(ApparatusError::Interrupted) => self.interrupted = true,
                Err(ApparatusError::Failed(_)) => {}
            }
        }
        if !is_squeezed(&measured) {
            let verdict = wallfinder_judge::observed::verdict(&measured, &self.environment);
            measured.verdict = Some(verdict);
        }
        Ok(measured)
    }

    fn unavailable(&self, step: &StudyStep) -> Option<String> {
        self.missing
            .iter()
            .find(|(driver, _)| *driver == step.driver.name)
            .map(|(_, why)| why.clone())
    }

    fn skip_all(&mut self, steps: &[&StudyStep], why: &str) {
        for step in steps {
            self.skip(step, why);
        }
    }

    fn skip(&mut self, step: &StudyStep, why: &str) {
        self.apparatus.progress(Progress::Skipped { step, why });
        self.skipped.push(Skipped {
            label: step.label.clone(),
            why: why.to_owned(),
        });
    }

    fn finish(mut self, study: &Study, size: Size) -> Ran {
        refine(&mut self.ran, &self.environment);
        let judged = claims::judge(study, size, &self.ran, &self.skipped);
        Ran {
            steps: self.ran,
            skipped: self.skipped,
            claims: judged.outcomes,
            charts: judged.charts,
            faults: judged.faults,
            interrupted: self.interrupted,
        }
    }
}

/// Corrects observed verdicts by the neighbouring steps of their ramps.
pub fn refine(steps: &mut [Step], environment: &Environment) {
    let verdicts = ramp::verdicts(steps, environment);
    for (step, verdict) in steps.iter_mut().zip(verdicts) {
        if !is_squeezed(step) {
            step.verdict = Some(verdict);
        }
    }
}

/// Whether its verdict is that of squeezes, decided or not.
fn is_squeezed(step: &Step) -> bool {
    let verdict = step.verdict.as_ref();
    let by_squeezes = |verdict: &Verdict| matches!(verdict.how, How::Proved | How::Likely);
    verdict.is_some() && step.experiment.is_some() || verdict.is_some_and(by_squeezes)
}
