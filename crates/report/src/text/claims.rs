//! The claims of a study: outcome, claim, where it was made, and the numbers.

use wallfinder_model::record::{ClaimOutcome, Outcome};

use crate::look::{Line, Page, Role, wrap};
use crate::words;

const COLUMN: usize = 15;

fn role(outcome: Outcome) -> Role {
    match outcome {
        Outcome::Confirmed => Role::Good,
        Outcome::Contradicted => Role::Bad,
        Outcome::Open => Role::Warn,
    }
}

/// What was measured, and below it what the source's own figures decide.
pub(crate) fn list(page: &mut Page, outcomes: &[ClaimOutcome]) {
    let (by_figures, measured): (Vec<_>, Vec<_>) = outcomes.iter().partition(|one| one.by_figures);
    if !measured.is_empty() {
        part(page, "CLAIMS", "", &measured);
    }
    if !by_figures.is_empty() {
        if !measured.is_empty() {
            page.gap();
        }
        part(page, "SOURCE", words::BY_FIGURES, &by_figures);
    }
}

fn part(page: &mut Page, heading: &str, what: &str, outcomes: &[&ClaimOutcome]) {
    let count = |outcome| outcomes.iter().filter(|one| one.outcome == outcome).count();
    page.entry(
        heading,
        Role::Strong,
        &format!(
            "{what}{} confirmed · {} contradicted · {} open",
            count(Outcome::Confirmed),
            count(Outcome::Contradicted),
            count(Outcome::Open)
        ),
    );
    for outcome in [Outcome::Contradicted, Outcome::Confirmed, Outcome::Open] {
        for one in outcomes.iter().filter(|one| one.outcome == outcome) {
            claim(page, one);
        }
    }
}

fn claim(page: &mut Page, one: &ClaimOutcome) {
    page.gap();
    let room = page.columns() - COLUMN;
    let source = if one.source.is_empty() {
        String::new()
    } else {
        format!(" ({})", one.source)
    };
    let claim = format!("{}{source}", one.claim);
    for (index, piece) in wrap(&claim, room).into_iter().enumerate() {
        let head = if index == 0 {
            words::outcome(one.outcome)
        } else {
            ""
        };
        page.push(
            Line::new()
                .plain(" ")
                .put(role(one.outcome), head)
                .until_column(COLUMN)
                .plain(piece),
        );
    }
    for piece in wrap(&one.because, room) {
        page.push(Line::new().until_column(COLUMN).dim(piece));
    }
}
