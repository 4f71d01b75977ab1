//! A record as terminal text: the answer first, then why to believe it, then the numbers.
//!
//! Fits [`Look::width`](crate::Look) columns (100 at the most), in colour or not, in
//! Unicode or ASCII; no sentence and no cell depends on colour.

mod ab;
#[path = "text/cells.rs"]
mod cells_table;
mod claims;
mod clients;
mod columns;
mod comparison;
mod find;
#[path = "text/grouped.rs"]
mod grouped_table;
pub mod live;
mod profile;
mod ramp;
mod run;
mod sizes;
mod verdict;

use wallfinder_judge::compare::Comparison;
use wallfinder_judge::profile::Change;
use wallfinder_judge::proof::Prediction;
use wallfinder_model::profile::{Profiles, Reading};
use wallfinder_model::record::ClaimOutcome;
use wallfinder_model::{Caveat, Record, Step};

use crate::look::{Line, Look, Page, Role};
use crate::{cells, grouped, said, squeezed, words};

/// Where the artefacts of a run were written, as the user should read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Paths<'p> {
    /// The record's folder.
    pub record: Option<&'p str>,
    /// The HTML report.
    pub report: Option<&'p str>,
}

/// The whole record: the last step in full where there is one step, else the table of
/// steps; two settings beside each other, squeezes and claims where there were some.
pub fn record(record: &Record, paths: &Paths<'_>, look: &Look) -> String {
    let squeezed = record.steps.iter().any(is_squeezed);
    if record.ab.is_some() {
        ab(record, paths, look)
    } else if record.sizes.is_some() {
        sizes(record, paths, look)
    } else if grouped::are_all(record) {
        groups(record, paths, look)
    } else if squeezed || record.plan.command == "find" {
        find(record, paths, look)
    } else if record.steps.len() == 1 && record.claims.is_empty() {
        run(record, paths, look)
    } else {
        ramp(record, paths, look)
    }
}

/// The result of one `run`: verdict, throughput, latency, costs, failures, caveats, and
/// wrk's closing lines.
pub fn run(record: &Record, paths: &Paths<'_>, look: &Look) -> String {
    let mut page = Page::new(look);
    let step = record.steps.last();
    if let Some(step) = step {
        run::target(&mut page, record, step);
        page.gap();
        verdict::wall(&mut page, step.verdict.as_ref());
        verdict::next(&mut page, step);
        page.gap();
        run::result(&mut page, step);
    }
    ending(&mut page, record, step.into_iter());
    if let Some(step) = step {
        profile::inside(&mut page, step);
    }
    if let Some(step) = step {
        page.gap();
        run::closing_lines(&mut page, step);
    }
    claims_below(&mut page, record);
    where_it_is(&mut page, paths);
    page.finish()
}

/// The steps of a `ramp` as one table with its "bound by" column, and the best of them.
pub fn ramp(record: &Record, paths: &Paths<'_>, look: &Look) -> String {
    let mut page = Page::new(look);
    if cells::are_all(record) {
        cells_table::table(&mut page, record);
        page.gap();
        cells_table::best(&mut page, record);
        cells_table::amplification(&mut page, record);
        cells_table::inside(&mut page, record);
    } else if let Some(step) = record.steps.first() {
        ramp::target(&mut page, record, step);
        page.gap();
        ramp::best(&mut page, record);
        ramp::best_wall(&mut page, record);
        page.gap();
        ramp::table(&mut page, record);
        if let Some(best) = best_step(record) {
            clients::table(&mut page, best);
        }
    }
    ending(&mut page, record, record.steps.iter());
    claims_below(&mut page, record);
    where_it_is(&mut page, paths);
    page.finish()
}

/// A study's groups, each with all of its rounds: the table, what waits, what squeezes say.
fn groups(record: &Record, paths: &Paths<'_>, look: &Look) -> String {
    let mut page = Page::new(look);
    grouped_table::heading(&mut page, record);
    page.gap();
    grouped_table::table(&mut page, record);
    grouped_table::waits(&mut page, record);
    grouped_table::squeezes(&mut page, record);
    ending(&mut page, record, record.steps.iter());
    claims_below(&mut page, record);
    where_it_is(&mut page, paths);
    page.finish()
}

/// The answer of `find`: the ceiling, the wall and how it was proved, the next wall.
pub fn find(record: &Record, paths: &Paths<'_>, look: &Look) -> String {
    let mut page = Page::new(look);
    let step = judged_step(record);
    if let Some(step) = step {
        find::target(&mut page, record, step);
        find::ceiling(&mut page, record, step);
        page.gap();
        find::wall(&mut page, step);
        page.gap();
        find::inside(&mut page, step);
        page.gap();
        run::by_request(&mut page, step);
        run::requests(&mut page, step);
        clients::table(&mut page, step);
        page.gap();
        find::elasticities(&mut page, step);
        find::missing(&mut page, step);
        page.gap();
        find::next(&mut page, step);
    }
    ending(&mut page, record, step.into_iter());
    claims_below(&mut page, record);
    where_it_is(&mut page, paths);
    page.finish()
}

/// The answer of `ab`: what B is over A, measure by measure.
pub fn ab(record: &Record, paths: &Paths<'_>, look: &Look) -> String {
    let mut page = Page::new(look);
    if let Some(ab) = &record.ab {
        ab::settings(&mut page, record, ab);
        page.gap();
        ab::answer(&mut page, record, ab);
        page.gap();
        ab::table(&mut page, record, ab);
    }
    ending(&mut page, record, record.steps.iter());
    claims_below(&mut page, record);
    where_it_is(&mut page, paths);
    page.finish()
}

/// The answer of `bytes`: from which size on a coding pays, and what bytes cost whom.
pub fn sizes(record: &Record, paths: &Paths<'_>, look: &Look) -> String {
    let mut page = Page::new(look);
    if let Some(sizes) = &record.sizes {
        sizes::setting(&mut page, record, sizes);
        page.gap();
        sizes::answer(&mut page, sizes);
        page.gap();
        sizes::table(&mut page, sizes);
        page.gap();
        sizes::costs(&mut page, sizes);
    }
    ending(&mut page, record, record.steps.iter());
    claims_below(&mut page, record);
    where_it_is(&mut page, paths);
    page.finish()
}

/// What the judge predicts of a step for questions as they were asked (`bytes=0.5`), one entry each.
pub fn what_if(asked: &[(&str, Option<Prediction>)], step: &Step, look: &Look) -> String {
    let mut page = Page::new(look);
    let mut label = "WHAT IF";
    for (asked, prediction) in asked {
        let question = words::question(asked);
        let text = match prediction {
            Some(found) => words::prediction(found),
            None => words::unpredicted(step, asked),
        };
        page.entry(label, Role::Plain, &format!("{question}: {text}"));
        label = "";
    }
    page.finish()
}

/// Changes that were predicted and then made, one entry each.
pub fn lifted(all: &[words::Lifted], look: &Look) -> String {
    let mut page = Page::new(look);
    let mut label = "LIFTED";
    for lifted in all {
        let question = words::question(&lifted.question);
        let text = words::lifted(lifted);
        page.entry(label, Role::Plain, &format!("{question}: {text}"));
        label = "";
    }
    page.finish()
}

/// The claims of a study, and what the data say of each.
pub fn claims(outcomes: &[ClaimOutcome], look: &Look) -> String {
    let mut page = Page::new(look);
    claims::list(&mut page, outcomes);
    page.finish()
}

/// What one profile says, from its file.
pub fn profile(reading: &Reading, look: &Look) -> String {
    let mut page = Page::new(look);
    profile::one(&mut page, &Profiles::default(), reading);
    page.finish()
}

/// What changed between two profiles of one kind, by what a second has; `after` is the later.
pub fn profile_changes(after: &Reading, changes: &[Change], look: &Look) -> String {
    let mut page = Page::new(look);
    profile::changes(&mut page, after, changes);
    page.finish()
}

/// Two records side by side, the later over the earlier.
pub fn comparison(comparison: &Comparison, look: &Look) -> String {
    let mut page = Page::new(look);
    comparison::write(&mut page, comparison);
    page.finish()
}

fn is_squeezed(step: &Step) -> bool {
    step.experiment.is_some() || has_elasticities(step)
}

fn has_elasticities(step: &Step) -> bool {
    step.verdict
        .as_ref()
        .is_some_and(|verdict| !verdict.elasticities.is_empty())
}

/// The step whose verdict is the run's: the one that was squeezed, else the fastest.
pub fn judged_step(record: &Record) -> Option<&Step> {
    record
        .steps
        .iter()
        .rev()
        .find(|step| is_squeezed(step))
        .or_else(|| best_step(record))
}

/// The step with the highest throughput; of equals the first.
pub fn best_step(record: &Record) -> Option<&Step> {
    record
        .steps
        .iter()
        .filter(|step| step.throughput.is_finite())
        .fold(None, |best: Option<&Step>, step| match best {
            Some(best) if best.throughput >= step.throughput => Some(best),
            _ => Some(step),
        })
        .or(record.steps.first())
}

/// Doubts: of the run, and of the steps shown.
fn ending<'s>(page: &mut Page, record: &'s Record, steps: impl Iterator<Item = &'s Step>) {
    page.gap();
    let ended = |caveat: &&Caveat| matches!(caveat, Caveat::SubjectEnded { .. });
    let ended = record.caveats.iter().find(ended);
    let ended = ended.map(|caveat| said::caveat(caveat).fact);
    if let Some(why) = &record.interrupted {
        page.entry(
            "PARTIAL",
            Role::Warn,
            &format!("The run was interrupted ({why}): what is shown is what it had."),
        );
    } else if let Some(ended) = &ended {
        page.entry("PARTIAL", Role::Warn, ended);
    } else if !record.complete {
        page.entry(
            "PARTIAL",
            Role::Warn,
            "The run did not end as planned: what is shown is what it had.",
        );
    }
    if record.steps.is_empty() {
        page.entry("RESULT", Role::Warn, "Nothing was measured.");
    }
    let mut label = "CAREFUL";
    let is_told = record.interrupted.is_none();
    let told = |caveat: &Caveat| is_told && matches!(caveat, Caveat::SubjectEnded { .. });
    for worded in squeezed::careful_but(record, steps, told) {
        page.entry(label, Role::Plain, &worded.line());
        label = "";
    }
}

fn claims_below(page: &mut Page, record: &Record) {
    if !record.claims.is_empty() {
        page.gap();
        claims::list(page, &record.claims);
    }
}

fn where_it_is(page: &mut Page, paths: &Paths<'_>) {
    if paths.record.is_none() && paths.report.is_none() {
        return;
    }
    page.gap();
    for (label, path) in [("record", paths.record), ("report", paths.report)] {
        if let Some(path) = path {
            // Not wrapped: a path is to be copied.
            page.push(
                Line::new()
                    .plain(" ")
                    .dim(label)
                    .until_column(crate::look::INDENT)
                    .plain(path),
            );
        }
    }
}
