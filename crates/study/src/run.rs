//! Runs a study: round by round, subject by subject, step by step, then judges steps and claims.
//!
//! A step that others disturbed is measured again at once, whatever it came to, and what was
//! disturbed is kept beside it under a name of its own:
//!
//! ```text
//!  read/engine/c64/round3              what claims look at
//!  read/engine/c64/round3/disturbed1   what was measured first
//! ```
//!
//! Not without end: [`REPEATS`] times, for a part of the steps, and no more in a group whose steps
//! were disturbed each time, [`PATIENCE`] of them: that is how it is there.
//!
//! A run that was cut short can be taken up again: steps that were measured before are kept as they are, in
//! their places, and the others run.

use std::collections::BTreeMap;

use wallfinder_model::chart::Chart;
use wallfinder_model::record::{ClaimOutcome, Step};
use wallfinder_model::verdict::How;
use wallfinder_model::{Caveat, Environment, Verdict};

use crate::Size;
use crate::apparatus::{Apparatus, ApparatusError, Availability, Deviation};
use crate::between::Rates;
use crate::claims;
use crate::entry::disturbance;
use crate::expand::{StudyStep, label_of};
use crate::study::{Study, SubjectSpec};

/// How often a step that others disturbed is measured again.
const REPEATS: usize = 2;
/// After so many steps for which that was of no use a group is left as it is.
const PATIENCE: usize = 2;
/// A step that took longer is not measured again: of counted requests some take minutes.
const REPEATED_NS_MAX: u64 = 30_000_000_000;
/// One step of so many may be measured again.
const ONE_IN: usize = 8;

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
    resume(study, size, apparatus, Vec::new())
}

/// The same, with steps that were measured before: of a run of the same study at the same size, on the same
/// machine. `measured` has them by their names, those that were disturbed and measured again among them;
/// others are not looked at.
pub fn resume(
    study: &Study,
    size: Size,
    apparatus: &mut dyn Apparatus,
    measured: Vec<Step>,
) -> Ran {
    let steps = study.expand(size);
    let mut course = Course {
        environment: apparatus.environment(),
        apparatus,
        repeats_left: steps.len().div_ceil(ONE_IN) + REPEATS,
        in_vain: BTreeMap::new(),
        missing: Vec::new(),
        rates: Rates::default(),
        before: by_label(measured),
        ran: Vec::new(),
        skipped: Vec::new(),
        interrupted: false,
    };
    course.ask_for_drivers(&steps);
    for block in steps.chunk_by(|a, b| a.subject == b.subject && a.round == b.round) {
        if let Some(subject) = study.subject(&block[0].subject) {
            course.run_subject(subject, &block.iter().collect::<Vec<_>>());
        }
    }
    course.finish(study, size)
}

/// A run under way.
struct Course<'a> {
    apparatus: &'a mut dyn Apparatus,
    environment: Environment,
    /// How many steps may yet be measured again.
    repeats_left: usize,
    /// Steps for which that was of no use, by group and driver.
    in_vain: BTreeMap<(String, String), usize>,
    /// Drivers that cannot be run, and why.
    missing: Vec<(String, String)>,
    /// Of links that this machine decides.
    rates: Rates,
    /// What was measured before, by label: the step, and before it what was disturbed.
    before: BTreeMap<String, Vec<Step>>,
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
        if able
            .iter()
            .all(|step| self.before.contains_key(&step.label))
        {
            for step in able {
                self.run_step(step);
            }
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
        if self.interrupted {
            self.skip(step, "the run was interrupted");
            return;
        }
        if let Some(before) = self.before.remove(&step.label) {
            self.take_over(step, before);
            return;
        }
        match self.measure(step) {
            Ok(measured) => {
                let measured = self.undisturbed(step, measured);
                self.keep(measured);
            }
            Err(ApparatusError::Interrupted) => {
                self.interrupted = true;
                self.skip(step, "the run was interrupted");
            }
            Err(ApparatusError::Failed(why)) => self.skip(step, &why),
        }
    }

    /// Keeps what was measured before.
    fn take_over(&mut self, step: &StudyStep, before: Vec<Step>) {
        let last = before.len().saturating_sub(1);
        self.repeats_left = self.repeats_left.saturating_sub(last);
        for (nth, measured) in before.into_iter().enumerate() {
            let mut measured = self.judged(step, measured);
            if nth < last {
                let why = disturbance(&measured).unwrap_or_default();
                give_way(&mut measured, step, nth + 1, why);
            }
            match self.apparatus.take_over(&measured) {
                Ok(()) => self.keep(measured),
                Err(ApparatusError::Interrupted) => {
                    self.interrupted = true;
                    self.skip(step, "the run was interrupted");
                    return;
                }
                Err(ApparatusError::Failed(why)) => self.skip(step, &why),
            }
        }
    }

    /// What was measured; or what came of measuring again, where others disturbed it.
    fn undisturbed(&mut self, step: &StudyStep, measured: Step) -> Step {
        let mut kept = measured;
        for again in 1..=REPEATS {
            let Some(why) = self.worth_repeating(step, &kept) else {
                return kept;
            };
            self.repeats_left -= 1;
            self.apparatus
                .deviates(Deviation::Again { step, why: &why });
            match self.measure(step) {
                Ok(next) => {
                    let mut disturbed = std::mem::replace(&mut kept, next);
                    give_way(&mut disturbed, step, again, why);
                    self.keep(disturbed);
                }
                Err(ApparatusError::Interrupted) => {
                    self.interrupted = true;
                    return kept;
                }
                // What was measured stands.
                Err(ApparatusError::Failed(_)) => return kept,
            }
        }
        if disturbance(&kept).is_some() {
            *self.in_vain.entry(place_of(step)).or_default() += 1;
        }
        kept
    }

    /// What disturbed a step that is to be measured again for it. An experiment has its own way with
    /// disturbed windows, and a client under a quota stands still now and then.
    fn worth_repeating(&self, step: &StudyStep, measured: &Step) -> Option<String> {
        let is_plain = step.squeeze.is_none() && step.client_quota.is_none();
        let is_short = measured.window_ns <= REPEATED_NS_MAX;
        let may = is_plain && is_short && !self.interrupted && self.repeats_left > 0;
        let in_vain = self.in_vain.get(&place_of(step));
        let helps = may && in_vain.is_none_or(|steps| *steps < PATIENCE);
        helps.then(|| disturbance(measured)).flatten()
    }

    fn keep(&mut self, mut step: Step) {
        step.index = u32::try_from(self.ran.len()).unwrap_or(u32::MAX);
        self.ran.push(step);
    }

    fn measure(&mut self, step: &StudyStep) -> Result<Step, ApparatusError> {
        let measured = self.apparatus.run_step(step)?;
        Ok(self.judged(step, measured))
    }

    /// A step under its own name, with its verdict.
    fn judged(&self, step: &StudyStep, mut measured: Step) -> Step {
        measured.name.clone_from(&step.label);
        measured.cell = Some(step.cell());
        if !is_squeezed(&measured) {
            let verdict = wallfinder_judge::judge_step(&measured, &self.environment);
            measured.verdict = Some(verdict);
        }
        measured
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
        self.apparatus.deviates(Deviation::Skipped { step, why });
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
    let verdicts = wallfinder_judge::judge_among(steps, environment);
    for (step, verdict) in steps.iter_mut().zip(verdicts) {
        if !is_squeezed(step) {
            step.verdict = Some(verdict);
        }
    }
}

/// Names a step that was disturbed and measured again, for the nth time.
fn give_way(disturbed: &mut Step, step: &StudyStep, nth: usize, why: String) {
    disturbed.name = format!("{}/disturbed{nth}", step.label);
    disturbed.cell = None;
    let again = Caveat::MeasuredAgain { why };
    if !disturbed.caveats.contains(&again) {
        disturbed.caveats.push(again);
    }
}

/// Steps by the label that they were planned by, in the order in which they were measured. One that was to be
/// measured again, and was not, is not measured.
fn by_label(measured: Vec<Step>) -> BTreeMap<String, Vec<Step>> {
    let mut labels: BTreeMap<String, Vec<Step>> = BTreeMap::new();
    for step in measured {
        let label = label_of(&step).to_owned();
        labels.entry(label).or_default().push(step);
    }
    labels.retain(|label, of| of.last().is_some_and(|last| last.name == *label));
    labels
}

/// The group and the driver of a step.
fn place_of(step: &StudyStep) -> (String, String) {
    (step.group.clone(), step.driver.name.clone())
}

/// Whether its verdict is that of squeezes, decided or not.
fn is_squeezed(step: &Step) -> bool {
    let verdict = step.verdict.as_ref();
    let by_squeezes = |verdict: &Verdict| matches!(verdict.how, How::Proved | How::Likely);
    verdict.is_some() && step.experiment.is_some() || verdict.is_some_and(by_squeezes)
}
