//! What the template shows: words and geometry, made from a record and nothing else.

mod ab;
mod cells;
mod charts;
mod environment;
mod groups;
mod hero;
mod pictures;
mod profiles;
mod proof;
mod ramp;
mod sizes;
mod step;

use serde::Serialize;
use wallfinder_model::record::Outcome;
use wallfinder_model::{Record, Step};

use crate::said::Worded;
use crate::text::judged_step;
use crate::words;
use crate::{number, squeezed};

/// A name and its value, both in words.
#[derive(Serialize)]
pub(super) struct Fact {
    name: String,
    value: String,
}

pub(super) fn fact(name: impl Into<String>, value: impl Into<String>) -> Fact {
    Fact {
        name: name.into(),
        value: value.into(),
    }
}

#[derive(Serialize)]
struct Doubt {
    fact: String,
    advice: Option<String>,
}

impl From<Worded> for Doubt {
    fn from(worded: Worded) -> Doubt {
        Doubt {
            fact: worded.fact,
            advice: worded.advice,
        }
    }
}

#[derive(Serialize)]
struct Claim {
    outcome: &'static str,
    /// Decided by the source's own figures, not by what was measured.
    by_figures: bool,
    claim: String,
    source: String,
    because: String,
}

#[derive(Serialize)]
pub(super) struct Page {
    title: String,
    id: String,
    started: String,
    tool_version: String,
    target: String,
    about: Vec<Fact>,
    partial: Option<String>,
    hero: Option<hero::Hero>,
    ab: Option<ab::AbView>,
    sizes: Option<sizes::SizesView>,
    charts: Vec<charts::ChartView>,
    proof: Option<proof::Proof>,
    profiles: Option<profiles::ProfilesView>,
    doubts: Vec<Doubt>,
    cells: Option<cells::Cells>,
    groups: Option<groups::Groups>,
    ramp: Option<ramp::Ramp>,
    claims: Vec<Claim>,
    claims_headline: String,
    steps: Vec<step::StepView>,
    environment: Vec<environment::Group>,
    command_line: String,
    plan: Vec<Fact>,
    chosen: usize,
    has_curves: bool,
    has_time: bool,
    has_series: bool,
}

impl Page {
    pub(super) fn of(record: &Record) -> Page {
        let cells = cells::Cells::of(record);
        let groups = groups::Groups::of(record);
        // Hundreds of steps that are cells of one table are shown as that, and no step alone.
        let steps: &[Step] = match cells {
            Some(_) => &[],
            None => &record.steps,
        };
        let judged = judged_step(record).filter(|_| cells.is_none());
        let chosen = judged
            .and_then(|judged| {
                record
                    .steps
                    .iter()
                    .position(|step| std::ptr::eq(step, judged))
            })
            .unwrap_or(0);
        let target = match judged {
            Some(judged) if record.steps.iter().all(|step| step.target == judged.target) => {
                crate::words::target(judged)
            }
            _ if cells.is_some() => record.plan.name.clone(),
            _ => record.plan.target.url.clone(),
        };
        Page {
            title: format!("{}: {}", record.plan.command, record.plan.name),
            id: record.id.clone(),
            started: moment(&record.started_utc),
            tool_version: record.tool_version.clone(),
            target,
            about: about(record, judged),
            partial: partial(record),
            // Of a study's groups none is the answer, but those that were squeezed.
            hero: judged
                .filter(|step| groups.is_none() || step.experiment.is_some())
                .map(|step| hero::Hero::of(record, step)),
            ab: ab::AbView::of(record),
            sizes: sizes::SizesView::of(record),
            charts: record
                .charts
                .iter()
                .filter_map(charts::ChartView::of)
                .collect(),
            proof: judged.and_then(proof::Proof::of),
            profiles: profiles::ProfilesView::of(record, judged, chosen),
            doubts: squeezed::careful(record, &record.steps)
                .into_iter()
                .map(Doubt::from)
                .collect(),
            cells,
            groups,
            // Windows of two settings, or of several sizes, are rounds, and no ramp.
            ramp: (steps.len() > 1 && record.ab.is_none() && record.sizes.is_none())
                .then(|| ramp::Ramp::of(record, chosen)),
            claims: claims(record),
            claims_headline: claims_headline(record),
            steps: steps
                .iter()
                .enumerate()
                .map(|(index, step)| step::StepView::of(step, index, index == chosen))
                .collect(),
            environment: environment::groups(record),
            command_line: shell(&record.command_line),
            plan: plan(record),
            chosen,
            has_curves: steps.iter().any(|step| step.latency.is_some()),
            has_time: steps.iter().any(|step| !step.intervals.is_empty()),
            has_series: steps.iter().any(|step| !step.series.is_empty()),
        }
    }

    /// Index of the step shown first.
    pub(super) fn chosen(&self) -> usize {
        self.chosen
    }
}

fn about(record: &Record, judged: Option<&wallfinder_model::Step>) -> Vec<Fact> {
    let mut about = Vec::new();
    if let Some(step) = judged {
        let load = if record.steps.len() > 1 {
            let mut load = format!(
                "{} · {} · {} each",
                words::counted(record.steps.len() as u64, "step"),
                words::driver(&step.driver, step.load.workers),
                number::length(step.load.stop.after.0)
            );
            if step.load.warmup.0 > 0 {
                load.push_str(&format!(
                    " after {} of warm-up",
                    number::length(step.load.warmup.0)
                ));
            }
            load
        } else {
            format!(
                "{} · {}",
                words::load(&step.load),
                words::driver(&step.driver, step.load.workers)
            )
        };
        about.push(fact("Load", load));
    } else if !record.steps.is_empty() {
        let steps = words::counted(record.steps.len() as u64, "step");
        about.push(fact("Load", steps));
    }
    if let Some(subject) = &record.plan.subject {
        let pinned = pinned(&record.plan.server_cpus);
        about.push(fact("Server", format!("{subject}{pinned}")));
    }
    let client = pinned(&record.plan.client_cpus);
    match &record.plan.driver {
        Some(driver) => about.push(fact("Driver", format!("{driver}{client}"))),
        None if !client.is_empty() => {
            about.push(fact("Client", client.trim_start_matches(" · ").to_owned()))
        }
        None => {}
    }
    about
}

fn pinned(cpus: &[u32]) -> String {
    if cpus.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = cpus.iter().take(16).map(u32::to_string).collect();
    let more = if cpus.len() > 16 { ", …" } else { "" };
    format!(" · on cpu {}{more}", shown.join(", "))
}

fn partial(record: &Record) -> Option<String> {
    match (&record.interrupted, record.complete) {
        (Some(why), _) => Some(format!(
            "The run was interrupted ({why}). What is shown is what it had by then: {} of {} planned steps.",
            record.steps.len(),
            record.plan.steps.len().max(record.steps.len())
        )),
        (None, false) => {
            Some("The run did not end as planned. What is shown is what it had by then.".to_owned())
        }
        (None, true) => None,
    }
}

fn claims(record: &Record) -> Vec<Claim> {
    let mut claims = Vec::new();
    for outcome in [Outcome::Contradicted, Outcome::Confirmed, Outcome::Open] {
        claims.extend(
            record
                .claims
                .iter()
                .filter(|c| c.outcome == outcome)
                .map(|c| Claim {
                    by_figures: c.by_figures,
                    outcome: words::outcome(c.outcome),
                    claim: c.claim.clone(),
                    source: c.source.clone(),
                    because: c.because.clone(),
                }),
        );
    }
    claims.sort_by_key(|claim| claim.by_figures);
    claims
}

/// `3 claims: 1 confirmed, 1 contradicted, 1 open`, of those that were measured, if any were.
fn claims_headline(record: &Record) -> String {
    let measured = record.claims.iter().filter(|claim| !claim.by_figures);
    let measured: Vec<_> = measured.collect();
    let counted = match measured.is_empty() {
        true => record.claims.iter().collect(),
        false => measured,
    };
    let count = |outcome| counted.iter().filter(|c| c.outcome == outcome).count();
    let parts: Vec<String> = [Outcome::Confirmed, Outcome::Contradicted, Outcome::Open]
        .into_iter()
        .map(|outcome| (count(outcome), words::outcome(outcome)))
        .filter(|(count, _)| *count > 0)
        .map(|(count, outcome)| format!("{count} {outcome}"))
        .collect();
    format!(
        "{}: {}",
        words::counted(counted.len() as u64, "claim"),
        parts.join(", ")
    )
}

fn plan(record: &Record) -> Vec<Fact> {
    vec![
        fact("Record", record.id.clone()),
        fact("Schema", record.schema.clone()),
        fact("Started", moment(&record.started_utc)),
        fact("Seed", record.plan.seed.to_string()),
        fact("Tool", format!("wallfinder {}", record.tool_version)),
    ]
}

/// `2026-11-20T14:02:11Z` reads `2026-11-20 14:02:11 UTC`; anything else stays.
fn moment(utc: &str) -> String {
    match (utc.split_once('T'), utc.strip_suffix('Z')) {
        (Some((day, _)), Some(_)) if day.len() == 10 && utc.len() >= 20 && utc.is_ascii() => {
            format!("{day} {} UTC", &utc[11..19])
        }
        _ => utc.to_owned(),
    }
}

/// A command line that a shell takes apart again into the same words.
fn shell(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    let quoted: Vec<String> = words
        .iter()
        .map(|word| {
            if !word.is_empty() && word.chars().all(plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        })
        .collect();
    quoted.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted() {
        let words = [
            "wallfinder",
            "run",
            "--subject",
            "nginx -c 'x'",
            "http://h/",
        ];
        assert_eq!(
            shell(&words.map(String::from)),
            "wallfinder run --subject 'nginx -c '\\''x'\\''' http://h/"
        );
    }

    #[test]
    fn moments_are_read_or_left() {
        assert_eq!(moment("2026-11-20T14:02:11Z"), "2026-11-20 14:02:11 UTC");
        assert_eq!(moment("yesterday"), "yesterday");
        assert_eq!(moment("TZ"), "TZ");
    }
}
