//! Pages made of kept results: what became of every claim, and each source walked sentence by sentence.
//!
//! ```text
//!  studies/sources/<source>.toml ──┐
//!  studies/<study>.toml ───────────┼─► docs/studies/sources/<source>.md
//!  studies/results/<study>.toml ───┴─► docs/studies/results.md
//! ```
//!
//! They hold no number of their own. What the source's own figures decide is computed when a page is made.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;
use wallfinder_model::record::Outcome;

use crate::claims::{Claim, Condition};
use crate::results::{Cause, Kept};
use crate::study::Study;
use crate::{Size, StudyError};

/// The first line of every page that is made: pages that begin so are not written by hand.
pub const MADE: &str = "<!-- Made by `WALLFINDER_BLESS=1 cargo test -p wallfinder-study`: edit what it is made of. -->";

/// What a claim without a kept outcome has.
const NOT_RUN: &str = "not run at full size yet";

/// A source, sentence by sentence.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walk {
    /// The source's file name: `client-ceiling.txt`.
    pub source: String,
    /// What it is about.
    pub title: String,
    /// How many lines it has.
    pub lines: u32,
    /// Lines that say nothing: blank ones, headings, heads of tables.
    pub says_nothing: Vec<String>,
    /// Its sentences, in its order.
    #[serde(rename = "sentence")]
    pub sentences: Vec<Sentence>,
}

/// A sentence of a source, or several that say one thing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sentence {
    /// Where it stands: `37-42`.
    pub lines: String,
    /// What it says, in our words.
    pub says: String,
    /// Claims that try it: `client-ceiling/simple-drop`.
    #[serde(default)]
    pub claims: Vec<String>,
    /// What of it is not tried, and why.
    #[serde(default)]
    pub untried: Option<String>,
    /// What a reader has to know of how it is tried.
    #[serde(default)]
    pub remark: Option<String>,
}

/// What is known of a claim, for one driver.
struct Standing {
    driver: Option<String>,
    outcome: Option<Outcome>,
    cause: Option<Cause>,
    numbers: String,
    /// Judged when the claim asked something else.
    is_earlier: bool,
    /// The run it is of, where that is not the file's.
    run: Option<String>,
}

impl Walk {
    /// Reads a file's text. `file` is the name that errors carry.
    ///
    /// # Errors
    ///
    /// It is no TOML of this shape.
    pub fn parse(file: &str, text: &str) -> Result<Walk, StudyError> {
        toml::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            StudyError::at(file, text, span, error.message().trim_end().to_owned())
        })
    }

    /// What is wrong with it: a claim that there is not, a sentence that is neither tried nor said not to be, a line of the
    /// source that no sentence has.
    pub fn faults(&self, studies: &[Study]) -> Vec<String> {
        let mut faults = self.lines_missing();
        for sentence in &self.sentences {
            let place = format!("{}, lines {}", self.source, sentence.lines);
            if sentence.claims.is_empty() && sentence.untried.is_none() {
                faults.push(format!("{place}: neither a claim nor a reason"));
            }
            for name in &sentence.claims {
                if find(studies, name).is_none() {
                    faults.push(format!("{place}: there is no claim `{name}`"));
                }
            }
        }
        faults
    }

    /// Lines of the source that no sentence has, and lines that there are not.
    fn lines_missing(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut is_told = vec![false; self.lines as usize];
        let told = self.sentences.iter().map(|sentence| &sentence.lines);
        for place in told.chain(&self.says_nothing) {
            let (first, last) = place.split_once('-').unwrap_or((place, place));
            let told = match (first.parse::<usize>(), last.parse::<usize>()) {
                (Ok(first @ 1..), Ok(last)) => is_told.get_mut(first - 1..last),
                _ => None,
            };
            match told {
                Some(told) => told.fill(true),
                None => faults.push(format!("{}: there are no lines {place}", self.source)),
            }
        }
        let missing = (1..).zip(is_told).filter(|(_, is_told)| !is_told);
        faults.extend(
            missing.map(|(line, _)| format!("{}: no sentence has line {line}", self.source)),
        );
        faults
    }

    /// The page.
    pub fn page(&self, studies: &[Study], kept: &[Kept]) -> String {
        let tried = self.sentences.iter().filter(|one| !one.claims.is_empty());
        let mut page = format!(
            "{MADE}\n\n# {}, sentence by sentence\n\n`{}`: {} sentences, {} of which a claim tries. Claims are of \
             [the studies](../README.md); [results](../results.md) say where and when they were run. *By its \
             figures*: decided by the source's own numbers.\n\n\
             | lines | the source says | claim | outcome | numbers |\n|---|---|---|---|---|\n",
            self.title,
            self.source,
            self.sentences.len(),
            tried.count()
        );
        for sentence in &self.sentences {
            let mut says = format!("{} | {}", sentence.lines, cell(&sentence.says));
            for name in &sentence.claims {
                let Some((study, claim)) = find(studies, name) else {
                    continue;
                };
                for standing in standings(study, claim, kept) {
                    let row = row(&format!("`{name}`"), claim, &standing);
                    let _ = writeln!(page, "| {says} | {row} |");
                    says = " | ".to_owned();
                }
            }
            let told = [
                ("remark", &sentence.remark),
                ("not tried", &sentence.untried),
            ];
            for (what, why) in told {
                if let Some(why) = why {
                    let _ = writeln!(page, "| {says} |  | {what} | {} |", cell(why));
                    says = " | ".to_owned();
                }
            }
        }
        page
    }
}

/// The page of all results: for each study where and when it was run, its totals, and every claim.
pub fn results(studies: &[Study], kept: &[Kept]) -> String {
    let mut page = format!(
        "{MADE}\n\n# What became of every claim\n\nOf the last run that was kept (`wallfinder study keep`), at the size that stands beside it. \
         *Earlier*: the claim has asked something else since, by its conditions or by what it is asked of. *By its \
         figures*: the source's own numbers decide it. What the names in conditions stand for is in \
         [the files](../../studies).\n\n| study | full size takes | kept: size, date | steps | measured: confirmed, contradicted, \
         open | earlier | not run | by figures: confirmed, contradicted, open |\n|---|---|---|---|---|---|---|---|\n"
    );
    let mut causes: BTreeMap<(bool, Option<Cause>), usize> = BTreeMap::new();
    for study in studies {
        let of = kept.iter().find(|kept| kept.study == study.id);
        let (measured, figures) = counts(study, kept, &mut causes);
        let run = of.map_or((String::new(), String::new()), |of| {
            (format!("{}, {}", of.size, of.date), of.steps.to_string())
        });
        let _ = writeln!(
            page,
            "| [{0}](#{0}) | {11:.0} min | {1} | {2} | {3}, {4}, {5} | {6} | {7} | {8}, {9}, {10} |",
            study.id,
            run.0,
            run.1,
            measured[0],
            measured[1],
            measured[2],
            measured[3],
            measured[4],
            figures[0],
            figures[1],
            figures[2],
            minutes(study)
        );
    }
    let all: f64 = studies.iter().map(minutes).sum();
    let _ = writeln!(
        page,
        "\nAll studies at full size, all parts among them, take about {:.1} hours.",
        all / 60.0
    );
    open(&causes, &mut page);
    for study in studies {
        let _ = write!(page, "\n## {}\n\n", study.id);
        if let Some(of) = kept.iter().find(|kept| kept.study == study.id) {
            let from = of
                .from
                .as_ref()
                .map_or(String::new(), |from| format!(" {from}"));
            let asked = match of.as_run {
                true => " Asked as it was then.",
                false => " Whether it was asked before it was run was not kept.",
            };
            let _ = writeln!(
                page,
                "{} on {} by {}, `--size {}`, {} steps.{asked}{from}\n",
                of.date, of.machine, of.tool, of.size, of.steps
            );
        }
        page.push_str(
            "| claim | says | confirmed if | contradicted if | outcome | numbers |\n|---|---|---|---|---|---|\n",
        );
        for claim in &study.claims {
            let text = claim.text.replace("{driver}", "each driver");
            let mut says = format!(
                "{} | {} | {}",
                cell(&text),
                asked(claim, &claim.confirmed),
                asked(claim, &claim.contradicted)
            );
            for standing in standings(study, claim, kept) {
                let row = row(&format!("`{}` | {says}", claim.id), claim, &standing);
                let _ = writeln!(page, "| {row} |");
                " |  | ".clone_into(&mut says);
            }
        }
    }
    page
}

/// Open claims by cause, a row for each.
fn open(causes: &BTreeMap<(bool, Option<Cause>), usize>, page: &mut String) {
    let of = |is_earlier, cause| causes.get(&(is_earlier, cause)).copied().unwrap_or(0);
    page.push_str("\n| open, because | as it is asked now | earlier |\n|---|---|---|\n");
    for cause in Cause::ALL.map(Some).into_iter().chain([None]) {
        let label = cause.map_or("the cause was not kept", Cause::label);
        let (now, earlier) = (of(false, cause), of(true, cause));
        let _ = writeln!(page, "| {label} | {now} | {earlier} |");
    }
}

/// How long a study takes at full size, about, with all of its parts.
fn minutes(study: &Study) -> f64 {
    study.duration(Size::Full).0 as f64 / 60e9
}

/// How many claims and drivers came to what: confirmed, contradicted, open, of an earlier version, not run; and
/// those that figures decide.
fn counts(
    study: &Study,
    kept: &[Kept],
    causes: &mut BTreeMap<(bool, Option<Cause>), usize>,
) -> ([usize; 5], [usize; 3]) {
    let (mut measured, mut figures) = ([0; 5], [0; 3]);
    for claim in &study.claims {
        for standing in standings(study, claim, kept) {
            let place = standing.outcome.map(|outcome| match outcome {
                Outcome::Confirmed => 0,
                Outcome::Contradicted => 1,
                Outcome::Open => 2,
            });
            match (claim.is_by_figures(), place) {
                (true, Some(place)) => figures[place] += 1,
                (false, Some(_)) if standing.is_earlier => measured[3] += 1,
                (false, Some(place)) => measured[place] += 1,
                (_, None) => measured[4] += 1,
            }
            if !claim.is_by_figures() && standing.outcome == Some(Outcome::Open) {
                let key = (standing.is_earlier, standing.cause);
                *causes.entry(key).or_default() += 1;
            }
        }
    }
    (measured, figures)
}

/// What is known of a claim, one for each driver that has an outcome, or one.
fn standings(study: &Study, claim: &Claim, kept: &[Kept]) -> Vec<Standing> {
    if claim.is_by_figures() {
        // Nothing measured has a part in it.
        let decided = claim.on_made_up(None, Size::Full, &[], &claim.figures);
        let (outcome, numbers) = decided.unwrap_or_else(|fault| (Outcome::Open, fault));
        return vec![Standing {
            driver: None,
            outcome: Some(outcome),
            cause: None,
            numbers,
            is_earlier: false,
            run: None,
        }];
    }
    let of = kept.iter().find(|kept| kept.study == study.id);
    let drivers = claim.drivers().into_iter().map(|driver| {
        let found = of.and_then(|of| of.outcome(&claim.id, driver));
        let size = of.and_then(|of| of.size.parse().ok()).unwrap_or(Size::Full);
        Standing {
            driver: driver.map(str::to_owned),
            outcome: found.map(|found| found.outcome),
            cause: found.and_then(|found| found.cause),
            numbers: found.map_or(String::new(), |found| found.numbers.clone()),
            is_earlier: found.is_some_and(|found| found.asked != study.asked(claim, size)),
            run: found.and_then(|found| found.run.clone()),
        }
    });
    let all: Vec<Standing> = drivers.collect();
    match all.iter().any(|one| one.outcome.is_some()) {
        true => all,
        // One line says so for all of them.
        false => all
            .into_iter()
            .take(1)
            .map(|one| Standing {
                driver: None,
                ..one
            })
            .collect(),
    }
}

/// `claim | outcome | numbers`.
fn row(claim: &str, of: &Claim, standing: &Standing) -> String {
    let by = match (&standing.driver, of.is_by_figures()) {
        (Some(driver), _) => format!(" ({driver})"),
        (None, true) => " (by its figures)".to_owned(),
        (None, false) => String::new(),
    };
    let word = match standing.outcome {
        Some(Outcome::Confirmed) => "✓ confirmed",
        Some(Outcome::Contradicted) => "✗ contradicted",
        Some(Outcome::Open) => "open",
        None => NOT_RUN,
    };
    let earlier = if standing.is_earlier { "earlier: " } else { "" };
    let cause = standing
        .cause
        .map_or(String::new(), |cause| format!(", {}", cause.label()));
    let run = standing.run.as_ref();
    let run = run.map_or(String::new(), |run| format!(" (run: {run})"));
    format!(
        "{claim} | {earlier}{word}{cause}{by}{run} | {}",
        cell(&standing.numbers)
    )
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
}

/// A condition of a claim for a cell of a table, behind what the claim needs.
fn asked(claim: &Claim, condition: &Condition) -> String {
    let code = |of: &Condition| format!("`{}`", cell(of.expression.text()));
    match &claim.needs {
        Some(needs) => format!("{} and {}", code(needs), code(condition)),
        None => code(condition),
    }
}

/// A claim by its study's name and its own.
fn find<'s>(studies: &'s [Study], name: &str) -> Option<(&'s Study, &'s Claim)> {
    let (study, claim) = name.split_once('/')?;
    let study = studies.iter().find(|known| known.id == study)?;
    let claim = study.claims.iter().find(|known| known.id == claim)?;
    Some((study, claim))
}
