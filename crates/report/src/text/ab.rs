//! Two settings side by side: what they are, the answer, and each measure with its ratio.

use wallfinder_model::record::Ab;
use wallfinder_model::{Record, Step};

use super::columns::{self, Column};
use crate::compared;
use crate::look::{INDENT, Page, Role, cut};
use crate::{number, words};

/// What A and B are, and how they were measured.
pub(crate) fn settings(page: &mut Page, record: &Record, ab: &Ab) {
    let a = compared::steps_of(record, ab, false).first().copied();
    let b = compared::steps_of(record, ab, true).first().copied();
    let loads = (a.map(load), b.map(load));
    let alike = loads.0 == loads.1 || loads.1.is_none();
    let targets = (a.map(words::target), b.map(words::target));
    if let Some(step) = a.or(b) {
        page.entry("target", Role::Plain, &words::target(step));
        page.beside(Role::Dim, &words::place(record, step));
    }
    let other = targets
        .1
        .filter(|target| targets.0.as_ref() != Some(target));
    page.entry("A", Role::Strong, &setting(&ab.a, None, &loads.0, alike));
    page.entry("B", Role::Strong, &setting(&ab.b, other, &loads.1, alike));
    let mut how = Vec::new();
    if let Some(load) = loads.0.filter(|_| alike) {
        how.push(load);
    }
    if let Some(step) = a.or(b) {
        how.push(format!("{} each", number::length(step.window_ns)));
    }
    how.push(compared::rounds_in_words(record, ab));
    page.entry("load", Role::Plain, &how.join(" · "));
}

/// A setting in words, with its target and load where those are its own.
fn setting(what: &str, target: Option<String>, load: &Option<String>, alike: bool) -> String {
    let mut parts = vec![what.to_owned()];
    // What differs in the path alone is said by it.
    parts.extend(target.filter(|target| !target.contains(what)));
    parts.extend(load.clone().filter(|_| !alike));
    parts.join(" · ")
}

fn load(step: &Step) -> String {
    format!(
        "{} · {} · {}",
        words::connections(&step.load),
        words::arrival(&step.load.arrival),
        words::driver(&step.driver, step.load.workers)
    )
}

/// The answer in a sentence, and beside it what showed that settings of the host acted.
pub(crate) fn answer(page: &mut Page, record: &Record, ab: &Ab) {
    page.entry("ANSWER", Role::Strong, &compared::answer(record, ab));
    for proof in compared::proofs(ab) {
        page.beside(Role::Plain, &proof);
    }
}

/// Each measure of A and of B, B over A with its interval, and what that means.
pub(crate) fn table(page: &mut Page, record: &Record, ab: &Ab) {
    if ab.ratios.is_empty() {
        each(page, record, ab);
    } else {
        ratios(page, ab);
    }
    let bound = |is_b| compared::bound_by(record, ab, is_b);
    let text = match (bound(false), bound(true)) {
        (Some(a), Some(b)) if a == b => format!("both by {a}"),
        (Some(a), Some(b)) => format!("A by {a}, B by {b}"),
        (Some(a), None) => format!("A by {a}"),
        (None, Some(b)) => format!("B by {b}"),
        (None, None) => return,
    };
    page.gap();
    page.entry(
        "bound",
        Role::Plain,
        &format!("{text}, by telemetry alone."),
    );
}

fn ratios(page: &mut Page, ab: &Ab) {
    let plain = |cells: Vec<String>| cells.into_iter().map(|cell| (Role::Plain, cell)).collect();
    let of = |cell: &dyn Fn(&wallfinder_model::record::Ratio) -> String| -> Vec<String> {
        ab.ratios.iter().map(cell).collect()
    };
    let effects = ab.ratios.iter().map(|ratio| {
        let effect = compared::effect(ab, ratio);
        let role = match effect {
            "faster" | "less" => Role::Good,
            "slower" | "more" => Role::Warn,
            _ => Role::Dim,
        };
        (role, effect.to_owned())
    });
    // Where it is narrow, the columns need the room.
    let indent = if page.columns() < 96 { 1 } else { INDENT };
    let left_out = columns::write(
        page,
        vec![
            Column::words(
                "measure",
                0,
                plain(of(&|r| cut(&compared::measure(&r.measure), 16))),
            ),
            Column::numbers("A", 2, of(&|r| compared::value(&r.measure, r.a))),
            Column::numbers("B", 1, of(&|r| compared::value(&r.measure, r.b))),
            Column::numbers("B/A", 0, of(&compared::centre)),
            Column::words("95 % interval", 0, plain(of(&compared::interval))),
            Column::words("", 0, effects.collect()),
        ],
        indent,
    );
    columns::note(page, left_out);
    let paced = ab.ratios.iter().filter_map(|ratio| {
        let share = number::share(ratio.pace_explained?);
        Some(format!("{} ({share})", compared::measure(&ratio.measure)))
    });
    let paced: Vec<String> = paced.collect();
    if !paced.is_empty() {
        page.beside(
            Role::Dim,
            &format!(
                "As at one pace of the machine, which explains so much of the variance within A and within B: {}.",
                paced.join(", ")
            ),
        );
    }
}

/// What there is where nothing could be compared: each window.
fn each(page: &mut Page, record: &Record, ab: &Ab) {
    let rounds = compared::rounds(record, ab);
    let shown = |step: Option<&Step>| {
        step.map_or(number::UNKNOWN.to_owned(), |step| {
            number::amount(step.throughput)
        })
    };
    if rounds.iter().all(|(_, a, b)| a.is_none() && b.is_none()) {
        return;
    }
    columns::write(
        page,
        vec![
            Column::numbers(
                "round",
                0,
                rounds
                    .iter()
                    .map(|(round, _, _)| number::whole(u64::from(*round) + 1))
                    .collect(),
            ),
            Column::numbers("A/s", 0, rounds.iter().map(|(_, a, _)| shown(*a)).collect()),
            Column::numbers("B/s", 0, rounds.iter().map(|(_, _, b)| shown(*b)).collect()),
        ],
        INDENT,
    );
}
