//! What earlier runs of a study measured before they were cut short.
//!
//! ```text
//!  runs/…-lock-full/  study.toml ─► what was asked, step by step ─┐
//!                     study.sums ─► by which build, around what ──┤
//!                     journal    ─► steps that ended ─────────────┴─► those that are asked alike now
//! ```
//!
//! A step is taken over where it was planned as it is now: the same load at the same server, driven alike, on the
//! same machine by the same build. The last one of a run that was cut short may not be whole, or was to be measured
//! again, and is not taken.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use wallfinder_model::plan::StepPlan;
use wallfinder_model::{Caveat, Environment, Plan, Record, Step};
use wallfinder_report::number;
use wallfinder_study::results::fingerprint;
use wallfinder_study::{Size, Study, StudyStep, SubjectSpec, duration, label_of};

use super::sums::{SUMS, are_alike};
use super::text_of;

/// The study as it was run, in the run's folder.
pub(super) const STUDY: &str = "study.toml";

/// What earlier runs have of a study.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// Steps, with those that were disturbed and measured again, in the order in which they were measured.
    pub(super) steps: Vec<Step>,
    /// A run that ended as planned and has all of it, if one does.
    pub(super) whole: Option<PathBuf>,
    /// Whether a run that steps are of was asked something else than this one is, or may have been.
    pub(super) asked_otherwise: bool,
    /// The runs they are of.
    runs: Vec<String>,
    /// How many runs are of another build, or were given something else.
    others: usize,
}

impl Measured {
    /// How much of the plan there is, in words.
    pub(super) fn said(&self, planned: &[StudyStep]) -> String {
        let there: BTreeSet<&str> = self.steps.iter().map(label_of).collect();
        let left = planned
            .iter()
            .filter(|step| !there.contains(step.label.as_str()));
        let left_alone = match self.others {
            0 => String::new(),
            others => format!(
                "; nothing is taken from {others} earlier run{}, by another build of the tool, a server or a driver, or with \
                 other --env, --as or hosts",
                if others == 1 { "" } else { "s" }
            ),
        };
        format!(
            "{} of {} steps were measured before; the rest takes about {}{left_alone}",
            there.len(),
            planned.len(),
            number::length(duration(left).0)
        )
    }

    /// That steps are of other runs, for the record.
    pub(super) fn caveat(&self) -> Option<Caveat> {
        (!self.steps.is_empty()).then(|| Caveat::MeasuredBefore {
            steps: self.steps.len() as u64,
            runs: self.runs.clone(),
        })
    }
}

/// What runs in a folder have measured of a study with these parts at a size, planned so and here. The newest goes
/// before others; what is older than one that ended as planned is left alone.
pub(super) fn measured(
    runs: &Path,
    (study, parts, size): (&Study, &[String], Size),
    plan: &Plan,
    environment: &Environment,
    sums: &str,
) -> Measured {
    let asked = Asked::of(study, size, plan);
    let mut found = Measured::default();
    let mut there = BTreeSet::new();
    for folder in folders(runs, &plan.name) {
        let Some(earlier) = asked_in(&folder, parts, size) else {
            continue;
        };
        let Ok(record) = wallfinder_store::open(&folder) else {
            continue;
        };
        if !is_alike(&record, plan, environment) {
            continue;
        }
        if !text_of(&folder.join(SUMS)).is_ok_and(|earlier| are_alike(&earlier, sums)) {
            found.others += 1;
            continue;
        }
        let is_asked_alike = is_asked_alike(&folder, &record.plan, (&earlier, study), size);
        let earlier = Asked::of(&earlier, size, &record.plan);
        let mut of_run: BTreeMap<&str, Vec<&Step>> = BTreeMap::new();
        for step in ended(&record) {
            of_run.entry(label_of(step)).or_default().push(step);
        }
        of_run.retain(|label, _| asked.is_as_in(&earlier, label));
        let has_all = asked
            .planned
            .keys()
            .all(|label| of_run.contains_key(label.as_str()));
        if record.complete && has_all && there.is_empty() {
            found.whole = Some(folder);
            return found;
        }
        let before = there.len();
        for (label, steps) in of_run {
            if there.insert(label.to_owned()) {
                found.steps.extend(steps.into_iter().cloned());
            }
        }
        if there.len() > before {
            found.runs.push(record.id.clone());
            found.asked_otherwise |= !is_asked_alike;
        }
        // What it left out, for want of a driver perhaps, is all that is left.
        if record.complete {
            break;
        }
    }
    found
}

/// Folders of runs of a name, the newest first.
fn folders(runs: &Path, name: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let ends = format!("-{name}");
    let mut folders: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let own = path.file_name().unwrap_or_default().to_string_lossy();
            // Several of one second have a number behind it.
            let numbered = own.rsplit_once('-').map_or("", |(before, _)| before);
            own.ends_with(&ends) || numbered.ends_with(&ends)
        })
        .collect();
    folders.sort();
    folders.reverse();
    folders
}

/// The study that a run was of, as it was then.
fn asked_in(folder: &Path, parts: &[String], size: Size) -> Option<Study> {
    let file = folder.join(STUDY);
    let mut study = Study::parse(&file.display().to_string(), &text_of(&file).ok()?).ok()?;
    study.keep_parts(parts).ok()?;
    study.sizes().contains(&size).then_some(study)
}

/// Whether each claim of today was asked by a run before it measured anything: its study is still as it was then.
fn is_asked_alike(folder: &Path, plan: &Plan, of: (&Study, &Study), size: Size) -> bool {
    let text = text_of(&folder.join(STUDY)).unwrap_or_default();
    let asked = plan.study.as_ref();
    let is_as_run = asked
        .is_some_and(|asked| asked.fingerprint == fingerprint(&text) && !asked.asked_otherwise);
    is_as_run && asks_alike(of, size)
}

/// Whether an earlier study has every claim of a later one, under the same conditions.
fn asks_alike((earlier, later): (&Study, &Study), size: Size) -> bool {
    later.claims.iter().all(|claim| {
        let before = earlier.claims.iter().find(|known| known.id == claim.id);
        before.is_some_and(|before| earlier.asked(before, size) == later.asked(claim, size))
    })
}

/// The steps of a run that are whole. Of one that was cut short the last may not be; nor is it known whether it
/// was to be measured again, so that all that stands under its label is left out. Steps that lost a client host are in
/// such a record too.
fn ended(record: &Record) -> impl Iterator<Item = &Step> {
    let last = match record.complete {
        true => None,
        false => record.steps.last().map(label_of),
    };
    let steps = record.steps.iter();
    steps.filter(move |step| {
        let is_whole = step.clients.iter().all(|client| client.lost.is_none());
        is_whole && last != Some(label_of(step))
    })
}

/// Whether a run was on this machine and its processors.
fn is_alike(record: &Record, plan: &Plan, environment: &Environment) -> bool {
    let machine = |of: &Environment| (of.cpus, of.cpu_model.clone(), of.kernel.clone());
    record.plan.command == plan.command
        && record.plan.client_cpus == plan.client_cpus
        && record.plan.server_cpus == plan.server_cpus
        && machine(&record.environment) == machine(environment)
}

/// What is asked by each step of a study.
struct Asked {
    planned: BTreeMap<String, (StudyStep, Option<SubjectSpec>, Option<StepPlan>)>,
}

impl Asked {
    fn of(study: &Study, size: Size, plan: &Plan) -> Asked {
        let plans: BTreeMap<&str, &StepPlan> = plan
            .steps
            .iter()
            .map(|step| (step.name.as_str(), step))
            .collect();
        let planned = study.expand(size).into_iter().map(|step| {
            let subject = study.subject(&step.subject).cloned();
            let plan = plans.get(step.label.as_str()).copied().cloned();
            (step.label.clone(), (step, subject, plan))
        });
        Asked {
            planned: planned.collect(),
        }
    }

    /// Whether a step was asked for then as it is now.
    fn is_as_in(&self, earlier: &Asked, label: &str) -> bool {
        let now = self.planned.get(label);
        now.is_some() && now == earlier.planned.get(label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of steps of these names, made of one that was kept.
    fn record_of(names: &[&str], complete: bool) -> Record {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../store/testdata/record-1.json"
        );
        let mut record = wallfinder_store::open(file.as_ref()).unwrap();
        record.complete = complete;
        let step = record.steps[0].clone();
        let named = |name: &&str| Step {
            name: (*name).to_owned(),
            ..step.clone()
        };
        record.steps = names.iter().map(named).collect();
        record
    }

    #[test]
    fn a_claim_that_is_new_or_has_another_condition_was_not_asked_before() {
        let builtin = wallfinder_study::builtin::find("lock").unwrap();
        let of = |text: &str| Study::parse("lock.toml", text).unwrap();
        let today = of(builtin.text);
        assert!(asks_alike((&today, &today), Size::Full));
        let first = today.claims.iter().find(|claim| !claim.is_by_figures());
        let id = format!("id = \"{}\"", first.unwrap().id);
        let (before, claim) = builtin.text.split_once(&id).unwrap();
        let (condition, after) = claim.split_once("\nconfirmed = '").unwrap();
        let changed = format!("{before}{id}{condition}\nconfirmed = 'true && {after}");
        assert!(!asks_alike((&of(&changed), &today), Size::Full));
        let mut fewer = of(builtin.text);
        fewer.claims.pop();
        assert!(asks_alike((&today, &fewer), Size::Full));
        assert!(!asks_alike((&fewer, &today), Size::Full));
    }

    /// A journal has what was disturbed and what was measured again under one name; a record that was sealed tells
    /// them apart.
    #[test]
    fn what_may_have_been_about_to_be_measured_again_is_not_taken() {
        let taken = |names: &[&str], complete| -> Vec<String> {
            let record = record_of(names, complete);
            ended(&record).map(|step| step.name.clone()).collect()
        };
        assert_eq!(taken(&["a", "b", "b"], false), ["a"]);
        assert_eq!(taken(&["a", "a", "b"], false), ["a", "a"]);
        assert_eq!(taken(&["a", "b/disturbed1", "b"], false), ["a"]);
        assert_eq!(taken(&["a", "b", "b"], true), ["a", "b", "b"]);
        assert!(taken(&["a"], false).is_empty() && taken(&[], false).is_empty());
    }
}
