//! What full runs came to, kept in the repository: `studies/results/<study>.toml`.
//!
//! ```text
//!  record.json ─┐
//!  study.toml ──┴─► wallfinder study keep ─► studies/results/lock.toml ─► pages, totals
//! ```
//!
//! What is kept is what the run was asked, and came to: `study.toml` is the study as it was run, and the record has
//! its fingerprint. A condition that was changed after that would have been chosen with the data in sight.
//!
//! Each outcome carries a fingerprint of what was asked: the claim's conditions and the groups that they may
//! look at. An outcome whose claim has changed since is shown as one of an earlier version, and not as the
//! claim's.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use wallfinder_model::Record;
use wallfinder_model::record::{ClaimOutcome, Outcome};

use crate::claims::Claim;
use crate::study::{Driver, Group, Ramp, Study};
use crate::{Size, StudyError};

/// Version of the file's shape.
const SCHEMA: &str = "wallfinder.results/1";

/// Outcomes of one run of a study.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// `wallfinder.results/1`.
    pub schema: String,
    /// The study.
    pub study: String,
    /// `smoke`, `demo` or `full`.
    pub size: String,
    /// When it began, UTC: `2026-11-25 17:19`.
    pub date: String,
    /// What measured: `wallfinder 0.1.0+26ff8c9f`.
    pub tool: String,
    /// Where.
    pub machine: String,
    /// Steps that were measured.
    pub steps: u64,
    /// Whether its outcomes are those that the run itself came to, by claims that were written before any of its steps
    /// was measured. Of earlier files that is not known: their claims were judged by whatever they asked when they were
    /// kept.
    #[serde(default)]
    pub as_run: bool,
    /// Where it is from, if not from a record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// One for each claim that something measured decides, and for each driver that it is judged for.
    #[serde(default, rename = "claim")]
    pub claims: Vec<KeptClaim>,
}

/// An outcome of a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeptClaim {
    /// The claim; behind a slash the driver.
    pub id: String,
    /// What the data said.
    pub outcome: Outcome,
    /// Why it stayed open, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// The numbers that decided, with their intervals.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub numbers: String,
    /// Fingerprint of what was asked.
    pub asked: String,
    /// The run it is of, where that is not the file's: size and day; tool and machine where these differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
}

/// Why a claim stayed open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The data lie between the conditions.
    Between,
    /// Others disturbed what it rests on.
    Disturbed,
    /// Nobody did, and the throughput of a step that it rests on changed all the same.
    Unsteady,
    /// Requests in flight, throughput and latency of such a step cannot all be true.
    Misfit,
    /// The relay that delays packets for such a step may have been its limit.
    Relay,
    /// Something was not measured, or there was no interval.
    Lacking,
    /// A driver or server that it asks for did not run.
    NotRun,
    /// Its conditions are wrong.
    Wrong,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Cause; 8] = [
        Cause::Between,
        Cause::Disturbed,
        Cause::Unsteady,
        Cause::Misfit,
        Cause::Relay,
        Cause::Lacking,
        Cause::NotRun,
        Cause::Wrong,
    ];

    /// In words.
    pub const fn label(self) -> &'static str {
        match self {
            Cause::Between => "the data lie between",
            Cause::Disturbed => "others disturbed it",
            Cause::Unsteady => "a step's own throughput changed in its window",
            Cause::Misfit => "a step's own numbers do not fit each other",
            Cause::Relay => "the relay that delays packets was behind",
            Cause::Lacking => "something was not measured",
            Cause::NotRun => "a driver or server did not run",
            Cause::Wrong => "its conditions are wrong",
        }
    }

    /// Earlier files call whatever was wrong with a step a disturbance, and wrong conditions a lack; their reasons tell
    /// more.
    fn told_apart(self, because: &str) -> Cause {
        match (self, crate::claims::cause(because)) {
            (Cause::Disturbed, own @ (Cause::Unsteady | Cause::Misfit)) => own,
            (Cause::Lacking, Cause::Wrong) => Cause::Wrong,
            _ => self,
        }
    }
}

impl Kept {
    /// Reads a file's text. `file` is the name that errors carry.
    ///
    /// # Errors
    ///
    /// It is no TOML of this shape.
    pub fn parse(file: &str, text: &str) -> Result<Kept, StudyError> {
        let mut kept: Kept = toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            StudyError::at(file, text, span, error.message().trim_end().to_owned())
        })?;
        for claim in &mut kept.claims {
            claim.cause = claim.cause.map(|cause| cause.told_apart(&claim.numbers));
        }
        match kept.schema.as_str() {
            SCHEMA => Ok(kept),
            other => {
                let message = format!("this version reads `{SCHEMA}`, not `{other}`");
                Err(StudyError::at(file, text, 0..0, message))
            }
        }
    }

    /// What a record of a study's run at a size came to, its claims judged already: by the study as it was run.
    /// Whoever judged them since says so in `as_run`.
    pub fn of(study: &Study, size: Size, record: &Record) -> Kept {
        let planned = study.expand(size);
        let is_planned = |name: &str| planned.iter().any(|step| step.label == name);
        let steps = record.steps.iter().filter(|step| is_planned(&step.name));
        let measured = record.claims.iter().filter(|claim| !claim.by_figures);
        Kept {
            schema: SCHEMA.to_owned(),
            study: study.id.clone(),
            size: size.label().to_owned(),
            date: record
                .started_utc
                .replace('T', " ")
                .chars()
                .take(16)
                .collect(),
            tool: format!("wallfinder {}", record.tool_version),
            machine: machine(record),
            steps: steps.count() as u64,
            as_run: true,
            from: None,
            claims: measured
                .filter_map(|outcome| KeptClaim::of(study, size, outcome))
                .collect(),
        }
    }

    /// The same with what was kept before of parts of the study that this run did not have.
    pub fn beside(mut self, earlier: &Kept, whole: &Study) -> Kept {
        let is_of_part =
            |kept: &&KeptClaim| claim_of(whole, &kept.id).is_some_and(|claim| claim.part.is_some());
        let mut run = format!("{}, {}", earlier.size, earlier.date);
        if earlier.tool != self.tool {
            let _ = write!(run, ", by {}", earlier.tool);
        }
        if earlier.machine != self.machine {
            let _ = write!(run, ", on {}", earlier.machine);
        }
        if !earlier.as_run {
            run.push_str(", asked then or later");
        }
        for kept in earlier.claims.iter().filter(is_of_part) {
            if self.claims.iter().all(|own| own.id != kept.id) {
                self.claims.push(KeptClaim {
                    run: kept.run.clone().or_else(|| Some(run.clone())),
                    ..kept.clone()
                });
            }
        }
        self
    }

    /// The file's text.
    pub fn text(&self) -> String {
        let mut text = String::from("# Written by `wallfinder study keep`.\n\n");
        // It holds strings, numbers and tables alone.
        text.push_str(&toml::to_string(self).expect("results can be written as TOML"));
        text
    }

    /// The outcome of a claim for a driver, if there is one.
    pub fn outcome(&self, claim: &str, driver: Option<&str>) -> Option<&KeptClaim> {
        let id = driver.map_or_else(|| claim.to_owned(), |driver| format!("{claim}/{driver}"));
        self.claims.iter().find(|kept| kept.id == id)
    }
}

impl KeptClaim {
    fn of(study: &Study, size: Size, outcome: &ClaimOutcome) -> Option<KeptClaim> {
        let claim = claim_of(study, &outcome.id)?;
        let is_open = outcome.outcome == Outcome::Open;
        Some(KeptClaim {
            id: outcome.id.clone(),
            outcome: outcome.outcome,
            cause: is_open.then(|| crate::claims::cause(&outcome.because)),
            numbers: outcome.because.clone(),
            asked: study.asked(claim, size),
            run: None,
        })
    }
}

/// The claim that an outcome is of, by its id: `claim` or `claim/driver`.
fn claim_of<'s>(study: &'s Study, outcome: &str) -> Option<&'s Claim> {
    let name = outcome.split('/').next()?;
    study.claims.iter().find(|claim| claim.id == name)
}

/// A machine in a line.
fn machine(record: &Record) -> String {
    let environment = &record.environment;
    let mut parts = vec![format!("{} processors", environment.cpus)];
    parts.extend(environment.cpu_model.clone());
    parts.extend(environment.virtualisation.clone());
    parts.extend(
        environment
            .kernel
            .as_ref()
            .map(|kernel| format!("Linux {kernel}")),
    );
    parts.join(", ")
}

impl Study {
    /// Fingerprint of what a claim asks at a size: its conditions and figures, and how the groups are run that
    /// they may look at. How often and how long does not count; nor do other cells, for a claim that names its own.
    pub fn asked(&self, claim: &Claim, size: Size) -> String {
        let mut asked = claim.conditions();
        let words = claim.words();
        // A name may be made of parts: `"realistic-" + z + "-raw"`.
        let has_ends = words.texts.iter().any(|text| text.starts_with('-'));
        let names = |group: &Group, text: &str| {
            let is_beginning = text.ends_with('-') || (has_ends && text.len() > 2);
            group.id == text || (is_beginning && group.id.starts_with(text))
        };
        for group in &self.groups {
            let is_of_part = group.part.is_none() || group.part == claim.part;
            let is_named = words.texts.iter().any(|text| names(group, text));
            if !is_of_part || !(words.all_steps || is_named) {
                continue;
            }
            self.describe(group, &mut asked);
            for run in group.runs.iter().filter(|run| run.sizes.contains(&size)) {
                self.describe_run(run, claim, &mut asked);
            }
        }
        fingerprint(&asked)
    }

    fn describe(&self, group: &Group, into: &mut String) {
        let subject = &self.subjects[group.subject];
        let _ = write!(
            into,
            "\n{} {:?} {:?} {} {} {:?} {:?} {:?} {} {:?} {:?}",
            group.id,
            subject.command,
            subject.env,
            subject.cpus,
            subject.everywhere,
            subject.quota_cores,
            subject.link,
            group.speaks,
            group.path,
            group.headers,
            group.decode
        );
    }

    fn describe_run(&self, run: &Ramp, claim: &Claim, into: &mut String) {
        let names_cells = claim.names_cells();
        let texts = claim.words().texts;
        let is_asked = |driver: &&Driver| {
            texts.contains(&driver.name) || claim.for_each.contains(&driver.name)
        };
        let drivers = run.drivers.iter().map(|driver| &self.drivers[*driver]);
        let drivers: Vec<&Driver> = drivers
            .filter(|driver| !names_cells || is_asked(driver))
            .collect();
        if drivers.is_empty() {
            return;
        }
        if !names_cells {
            let _ = write!(
                into,
                "\n{:?} {:?} {:?}",
                run.payload, run.concurrency, run.rates
            );
        }
        let how = format!(
            "\n{drivers:?} {:?} {:?} {:?} {:?}",
            run.requests, run.client_quota, run.max_in_flight, run.squeeze
        );
        // Several runs of one group that differ in cells alone are one.
        if !into.ends_with(&how) {
            into.push_str(&how);
        }
    }
}

/// Fingerprint of a study's text.
pub fn fingerprint(text: &str) -> String {
    format!("{:016x}", fnv1a(text.as_bytes()))
}

/// The hash of Fowler, Noll and Vo, of 64 bits: it tells changes, and keeps no secret.
fn fnv1a(bytes: &[u8]) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}
