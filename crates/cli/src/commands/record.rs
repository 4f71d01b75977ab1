//! `judge` and `report`: a record read back, judged again or printed again; and the
//! conditions that a run may be held to.

use std::path::Path;

use wallfinder_judge::require::Requirement;
use wallfinder_judge::thresholds::Threshold;
use wallfinder_judge::{judge_among, judge_step, proof, ramp, routes, unanswered};
use wallfinder_model::record::SCHEMA;
use wallfinder_model::{Record, Step};
use wallfinder_report::said;
use wallfinder_report::text::Paths;
use wallfinder_store::Folder;
use wallfinder_wire::Exchange;

use crate::commands::study::judge_claims;
use crate::exit::{self, Failed};
use crate::flags::{JudgeFlags, OutputFlags, RecordFlags, ReportFlags};
use crate::output;
use crate::session::PAGE;

/// `wallfinder judge RUN`: verdicts, costs and claims anew, by this version, from what was measured.
pub(crate) fn judge(flags: &JudgeFlags) -> Result<(), Failed> {
    let study = flags.study.as_deref();
    let flags = &flags.record;
    conditions(&flags.require, &flags.threshold)?;
    let mut record = open(&flags.run)?;
    judge_anew(&mut record);
    judge_claims(&mut record, study)?;
    print(&record, flags, &Paths::default())?;
    hold(&record, &flags.require, &flags.threshold)
}

/// `wallfinder report RUN`: the record as it was judged then, and its page. Another user's run is read, and
/// nothing is written there.
pub(crate) fn report(flags: &ReportFlags) -> Result<(), Failed> {
    let (file, flags) = (flags.page.as_deref(), &flags.record);
    conditions(&flags.require, &flags.threshold)?;
    let (mut record, folder) = open_with_folder(&flags.run)?;
    judge_recovered(&mut record);
    let page = wallfinder_report::html::render(&record);
    let written = match file {
        Some(file) => output::put(&page, Some(file)).map(|()| file.to_owned()),
        None => {
            let ours = folder.must_be_ours();
            let written = ours.and_then(|()| folder.write(PAGE, page.as_bytes()));
            let elsewhere =
                |error| Failed::run(format!("{error}. The page goes elsewhere by --page FILE"));
            written
                .map(|()| folder.path().join(PAGE))
                .map_err(elsewhere)
        }
    };
    let place = written.as_ref().map(|page| page.display().to_string());
    let paths = Paths {
        record: Some(&folder.path().display().to_string()),
        report: place.as_deref().ok(),
    };
    print(&record, flags, &paths)?;
    written?;
    hold(&record, &flags.require, &flags.threshold)
}

/// Prints a run that ended as planned as it was printed when it did.
pub(crate) fn print_again(run: &Path, output: &OutputFlags) -> Result<(), Failed> {
    let (record, folder) = open_with_folder(run)?;
    let page = folder.path().join(PAGE);
    let page = page.exists().then(|| page.display().to_string());
    let paths = Paths {
        record: Some(&folder.path().display().to_string()),
        report: page.as_deref(),
    };
    let file = output.output.as_deref();
    output::print(&record, &paths, output.format, file, output.ascii)
}

/// Reads a run's folder. What an older version wrote is judged by this one.
pub(crate) fn open(run: &Path) -> Result<Record, Failed> {
    open_with_folder(run).map(|(record, _)| record)
}

pub(crate) fn open_with_folder(run: &Path) -> Result<(Record, Folder), Failed> {
    let (mut record, folder) = wallfinder_store::open_with_folder(run).map_err(Failed::run)?;
    if record.schema != SCHEMA {
        SCHEMA.clone_into(&mut record.schema);
        judge_anew(&mut record);
    }
    Ok((record, folder))
}

/// Judges every step anew, with its neighbours where they make a ramp.
pub(crate) fn judge_steps(record: &mut Record) {
    let verdicts = judge_among(&record.steps, &record.environment);
    for (step, verdict) in record.steps.iter_mut().zip(verdicts) {
        step.verdict = Some(verdict);
    }
}

/// What steps that were measured in turn come to beside each other: two settings, or several sizes.
pub(crate) fn set_beside(record: &mut Record) {
    if let Some(ab) = &mut record.ab {
        proof::ab::weigh(&record.steps, ab);
    }
    if let Some(sizes) = &mut record.sizes {
        proof::sizes::weigh(&record.steps, sizes);
    }
}

/// Judges by this version what was measured, whichever version measured it.
fn judge_anew(record: &mut Record) {
    judge_steps(record);
    for step in &mut record.steps {
        routes::fill(step);
    }
    set_beside(record);
}

/// What was cut off before it was judged is judged now.
fn judge_recovered(record: &mut Record) {
    let ratios = record.ab.iter().any(|ab| ab.ratios.is_empty());
    let points = record.sizes.iter().any(|sizes| sizes.points.is_empty());
    if ratios || points {
        set_beside(record);
    }
    for step in &mut record.steps {
        let windows = step.experiment.iter().flat_map(|e| &e.windows);
        let judged = step.verdict.iter().any(|v| !v.elasticities.is_empty());
        if windows.count() > 0 && !judged {
            step.verdict = Some(judge_step(step, &record.environment));
        }
    }
}

fn print(record: &Record, flags: &RecordFlags, paths: &Paths<'_>) -> Result<(), Failed> {
    let file = flags.output.as_deref();
    output::print(record, paths, flags.format, file, flags.ascii)
}

/// What a run is held to, read from the command line.
fn conditions(
    requirement: &Option<String>,
    thresholds: &[String],
) -> Result<(Option<Requirement>, Vec<Threshold>), Failed> {
    let requirement = requirement
        .as_deref()
        .map(|text| text.parse().map_err(Failed::usage))
        .transpose()?;
    let thresholds = thresholds
        .iter()
        .map(|text| text.parse().map_err(Failed::usage))
        .collect::<Result<Vec<Threshold>, Failed>>()?;
    Ok((requirement, thresholds))
}

/// Refuses conditions that make no sense, before anything is started.
pub(crate) fn check_conditions(
    requirement: &Option<String>,
    thresholds: &[String],
    sent: Option<&Exchange>,
) -> Result<(), Failed> {
    let (_, thresholds) = conditions(requirement, thresholds)?;
    let Some(sent) = sent else {
        return Ok(());
    };
    let flows = sent.mix().into_iter().flat_map(|mix| &mix.flows);
    let kinds = sent.kinds().iter().map(|kind| kind.name.as_str());
    let names: Vec<&str> = kinds.chain(flows.map(|flow| flow.name.as_str())).collect();
    for threshold in thresholds {
        if let Some(name) = threshold
            .name
            .filter(|name| !names.contains(&name.as_str()))
        {
            let there = match names.is_empty() {
                true => "one request is sent, which has no name: leave it out".to_owned(),
                false => format!("there is {}", names.join(", ")),
            };
            return Err(Failed::usage(format!(
                "--threshold {}: no request is called `{name}`; {there}",
                threshold.text
            )));
        }
    }
    Ok(())
}

/// What of a threshold is breached: in the first step that breaches it, and in how many more.
fn breach(threshold: &Threshold, steps: &[Step]) -> Option<String> {
    let crossings = steps.iter().map(|step| (step, threshold.evaluate(step)));
    let mut breached = crossings.filter(|(_, crossing)| !crossing.holds());
    let (step, first) = breached.next()?;
    let first = said::threshold(threshold, &first);
    let (name, all) = (&step.name, breached.count() + 1);
    Some(match (steps.len(), all) {
        (1, _) => first,
        (_, 1) => format!("{first} (in {name})"),
        (steps, _) => format!("{first} (in {name}; breached in {all} of {steps} steps)"),
    })
}

/// How a load that was held ends: by its conditions, and where nothing was answered well by that. A record
/// is there either way.
pub(crate) fn conclude(
    record: &Record,
    requirement: &Option<String>,
    thresholds: &[String],
) -> Result<(), Failed> {
    let held = hold(record, requirement, thresholds);
    match (held, nothing_answered(record)) {
        (Ok(()), None) => Ok(()),
        (Ok(()), Some(why)) => Err(Failed::run(why)),
        (Err(failed), Some(why)) if !failed.message.contains(&why) => Err(Failed::with_code(
            failed.code,
            format!("{}\n{why}", failed.message),
        )),
        (Err(failed), _) => Err(failed),
    }
}

/// Why a load measured nothing: no step had a good answer, or one of two settings had none.
fn nothing_answered(record: &Record) -> Option<String> {
    if let Some(ab) = &record.ab {
        let setting = unanswered::setting_unanswered(&record.steps, &ab.order);
        return setting.map(|setting| said::unanswered(&setting));
    }
    if record.steps.iter().any(|step| step.counts.answered > 0) {
        return None;
    }
    let why = said::ended(&unanswered::nothing_answered(record.steps.first()?)?);
    Some(match record.steps.len() {
        1 => format!("nothing was answered well: {why}"),
        steps => format!("nothing was answered well in {steps} steps; in the first: {why}"),
    })
}

/// Holds a record to its conditions. A threshold is of every step; a requirement is of
/// the ceiling: in a ramp, the step with the most throughput. Where a step was squeezed,
/// both are of that one.
pub(crate) fn hold(
    record: &Record,
    requirement: &Option<String>,
    thresholds: &[String],
) -> Result<(), Failed> {
    let (requirement, thresholds) = conditions(requirement, thresholds)?;
    // A `find` is held at its ceiling, where it was squeezed; its ramp is on the way there.
    let proved = record.steps.iter().find(|step| step.experiment.is_some());
    let held = match proved {
        Some(step) => std::slice::from_ref(step),
        None => record.steps.as_slice(),
    };
    if record.steps.is_empty() && !thresholds.is_empty() {
        let message = "there is no step that a threshold could be measured on";
        return Err(Failed::with_code(exit::THRESHOLD, message));
    }
    let breaches = thresholds
        .iter()
        .filter_map(|threshold| breach(threshold, held));
    let breaches: Vec<String> = breaches.collect();
    if !breaches.is_empty() {
        return Err(Failed::with_code(exit::THRESHOLD, breaches.join("\n")));
    }
    let Some(requirement) = requirement else {
        return Ok(());
    };
    let peak = ramp::read(held).peak;
    let verdict = peak.and_then(|peak| held.get(peak.position)?.verdict.as_ref());
    match requirement.holds(verdict) {
        true => Ok(()),
        false => {
            let why = said::unmet(requirement, verdict);
            Err(Failed::with_code(exit::REQUIREMENT, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_model::Wall;
    use wallfinder_model::verdict::How;

    use super::*;

    #[test]
    fn a_record_of_the_first_version_opens_is_judged_and_printed() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../store/testdata/record-1.json"
        );
        let record = open(path.as_ref()).unwrap_or_else(|failed| panic!("{}", failed.message));
        assert_eq!(record.schema, SCHEMA);
        let walls: Vec<_> = record
            .steps
            .iter()
            .map(|step| {
                let verdict = step.verdict.as_ref().expect("every step is judged");
                (verdict.wall, verdict.how)
            })
            .collect();
        let downlink = |how| (Wall::Downlink, how);
        assert_eq!(walls, [downlink(How::Observed), downlink(How::Proved)]);
        let page = wallfinder_report::html::render(&record);
        assert!(page.contains("downlink"));
        let again: Record =
            serde_json::from_str(&wallfinder_report::json::document(&record)).unwrap();
        assert_eq!(again.schema, SCHEMA);
        assert_eq!(again.steps[1].verdict, record.steps[1].verdict);
    }
}
