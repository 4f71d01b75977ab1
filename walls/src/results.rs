//! Outcomes kept in a folder, so that a suite of hours may be run in parts.
//!
//! ```text
//!  FOLDER/spin-200us-normal-1.json      scenario, effort, seed
//!         spin-200us-normal-2.json      { tool, effort, outcome }
//! ```
//!
//! Invariants: a file is written whole or not at all; what is read is marked again, so that a
//! label that was corrected counts for runs of yesterday too.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::find::Effort;
use crate::scenario::Scenario;
use crate::score::Outcome;

/// One run, and what it was run with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kept {
    /// The tool: its version, and a checksum of its sources, or of its binary where those are not known.
    pub tool: String,
    /// The tool that judged its record again, where another did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged_by: Option<String>,
    /// How hard it tried.
    pub effort: Effort,
    /// On a machine that was made restless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub restless: bool,
    /// What came of it.
    pub outcome: Outcome,
}

impl Kept {
    /// Who measured and judged.
    fn by(&self) -> String {
        match &self.judged_by {
            Some(judge) => format!("{}, judged again by {judge}", self.tool),
            None => self.tool.clone(),
        }
    }
}

/// The outcomes of one effort, on a machine as it is or on a restless one, of this run and, where there is a folder, of earlier ones.
#[derive(Debug)]
pub struct Results {
    folder: Option<PathBuf>,
    effort: Effort,
    restless: bool,
    tool: String,
    /// By scenario and seed.
    kept: BTreeMap<(String, u64), Kept>,
}

impl Results {
    /// None yet; `folder` is made and read where one is named. A file in it that is no
    /// outcome is an error: a score without it would be another one.
    pub fn open(
        folder: Option<&Path>,
        effort: Effort,
        restless: bool,
        tool: String,
    ) -> Result<Results, String> {
        let mut results = Results {
            folder: folder.map(Path::to_owned),
            effort,
            restless,
            tool,
            kept: BTreeMap::new(),
        };
        let Some(folder) = folder else {
            return Ok(results);
        };
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for text in texts(folder)? {
            let (path, bytes) = text?;
            let kept: Kept = serde_json::from_slice(&bytes)
                .map_err(|error| format!("{}: no outcome of the suite: {error}", path.display()))?;
            if (kept.effort, kept.restless) == (effort, restless) {
                let key = (kept.outcome.scenario.clone(), kept.outcome.seed);
                results.kept.insert(key, kept);
            }
        }
        Ok(results)
    }

    /// What came of a scenario with this seed, where it was run.
    pub fn of(&self, scenario: &Scenario, seed: u64) -> Option<Outcome> {
        let kept = self.kept.get(&(scenario.name.to_owned(), seed))?;
        Some(kept.outcome.clone().marked(scenario))
    }

    /// Takes an outcome, in the place of an earlier one with its seed.
    pub fn keep(&mut self, outcome: Outcome) -> Result<(), String> {
        self.put(Kept {
            tool: self.tool.clone(),
            judged_by: None,
            effort: self.effort,
            restless: self.restless,
            outcome,
        })
    }

    /// Takes what the tool of now says of the record of an earlier outcome.
    pub fn judged_again(&mut self, outcome: Outcome) -> Result<(), String> {
        let key = (outcome.scenario.clone(), outcome.seed);
        let measured_by = self.kept.get(&key).map(|kept| kept.tool.clone());
        let now = self.tool.clone();
        let tool = measured_by.unwrap_or_else(|| now.clone());
        self.put(Kept {
            judged_by: Some(now).filter(|now| *now != tool),
            tool,
            effort: self.effort,
            restless: self.restless,
            outcome,
        })
    }

    fn put(&mut self, kept: Kept) -> Result<(), String> {
        if let Some(folder) = &self.folder {
            write(folder, &kept)?;
        }
        let key = (kept.outcome.scenario.clone(), kept.outcome.seed);
        self.kept.insert(key, kept);
        Ok(())
    }

    /// All outcomes of these scenarios, in their order, then by seed.
    pub fn all(&self, wanted: &[&Scenario]) -> Vec<Outcome> {
        let of_scenario = |scenario: &&Scenario| {
            let scenario = **scenario;
            self.of_scenario(&scenario)
                .map(move |kept| kept.outcome.clone().marked(&scenario))
                .collect::<Vec<_>>()
        };
        wanted.iter().flat_map(of_scenario).collect()
    }

    /// The tools that these scenarios were run with, and how many runs each made.
    pub fn tools(&self, wanted: &[&Scenario]) -> BTreeMap<String, usize> {
        let mut tools = BTreeMap::new();
        for kept in wanted
            .iter()
            .flat_map(|scenario| self.of_scenario(scenario))
        {
            *tools.entry(kept.by()).or_default() += 1;
        }
        tools
    }

    fn of_scenario(&self, scenario: &Scenario) -> impl Iterator<Item = &Kept> {
        let name = scenario.name;
        self.kept
            .iter()
            .filter(move |((scenario, _), _)| scenario == name)
            .map(|(_, kept)| kept)
    }
}

/// Each file of outcomes in a folder: its path and what it holds.
pub(crate) fn texts(
    folder: &Path,
) -> Result<impl Iterator<Item = Result<(PathBuf, Vec<u8>), String>>, String> {
    let of_folder = folder.to_owned();
    let at = move |error: std::io::Error| format!("{}: {error}", of_folder.display());
    let entries = fs::read_dir(folder).map_err(&at)?;
    Ok(entries.filter_map(move |entry| {
        let path = match entry.map_err(&at) {
            Ok(entry) => entry.path(),
            Err(why) => return Some(Err(why)),
        };
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        is_json.then(|| match fs::read(&path) {
            Ok(bytes) => Ok((path, bytes)),
            Err(error) => Err(format!("{}: {error}", path.display())),
        })
    }))
}

fn write(folder: &Path, kept: &Kept) -> Result<(), String> {
    let (scenario, effort, seed) = (&kept.outcome.scenario, kept.effort, kept.outcome.seed);
    let restless = if kept.restless { "restless-" } else { "" };
    let path = folder.join(format!(
        "{scenario}-{}-{restless}{seed}.json",
        effort.label()
    ));
    let part = path.with_extension("part");
    let text = serde_json::to_string_pretty(kept).map_err(|error| error.to_string())?;
    fs::write(&part, text + "\n")
        .and_then(|()| fs::rename(&part, &path))
        .map_err(|error| format!("{}: {error}", path.display()))
}
