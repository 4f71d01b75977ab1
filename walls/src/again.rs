//! Judges again what was measured: the record of a kept outcome, by the tool of now.
//!
//! A verdict is made from a record and from nothing else, so that a rule that was mended can be
//! marked on all that was measured before. What the older tool decided while it measured, when to
//! stop and what to squeeze once more, stays as it was.

use std::fs;
use std::path::{Path, PathBuf};

use crate::find::Apparatus;
use crate::found::{self, Found};
use crate::scenario::Scenario;
use crate::score::{self, Outcome};

/// The same outcome with what the tool of now says of its record.
pub fn judged(
    apparatus: &Apparatus,
    scenario: &Scenario,
    outcome: &Outcome,
) -> Result<Outcome, String> {
    let before = outcome.found.as_ref()?;
    let run = record_of(&apparatus.runs, scenario.name, before)?;
    let found = apparatus.judge(&run)?;
    let next = scenario
        .lift
        .zip(outcome.lifted_rate)
        .map(|(lift, rate)| score::told_error(&found, lift.told, outcome.before_rate, rate));
    let outcome = Outcome {
        found: Ok(found),
        ..outcome.clone()
    };
    Ok(outcome.with_next(next).marked(scenario))
}

/// The folder of the run that an outcome was read from: its rate is that of no other run.
fn record_of(runs: &Path, scenario: &str, found: &Found) -> Result<PathBuf, String> {
    let at = |error: std::io::Error| format!("{}: {error}", runs.display());
    let mut folders = Vec::new();
    for entry in fs::read_dir(runs).map_err(at)? {
        folders.push(entry.map_err(at)?.path());
    }
    let of_scenario = |folder: &PathBuf| {
        let name = folder.file_name().and_then(|name| name.to_str());
        name.and_then(|name| name.split_once('-'))
            .is_some_and(|(_, name)| name == scenario)
    };
    let is_it = |folder: &PathBuf| {
        let record = fs::read(folder.join("record.json")).ok();
        let read = record.and_then(|record| found::read(&record).ok());
        read.is_some_and(|read| (read.rate / found.rate - 1.0).abs() < 1e-9)
    };
    folders
        .into_iter()
        .filter(of_scenario)
        .find(is_it)
        .ok_or_else(|| {
            format!(
                "{}: no record of {scenario} at {:.1}/s; without it the outcome cannot be judged again",
                runs.display(),
                found.rate
            )
        })
}
