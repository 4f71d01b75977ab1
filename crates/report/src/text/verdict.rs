//! The verdict: the wall, how sure, the sentence, the squeezes behind it, the next wall.

use wallfinder_model::verdict::{How, Verdict};
use wallfinder_model::{Step, Wall};

use crate::look::{INDENT, Line, Page, Role};
use crate::{said, words};

/// The colour of a wall: the server's is what one wants to have measured, the client's
/// means that the number is not the server's. The words say the same.
pub(crate) fn role(wall: Wall) -> Role {
    match wall {
        wall if wall.is_server() => Role::Good,
        Wall::ClientCpu => Role::Bad,
        Wall::Inconclusive => Role::Dim,
        _ => Role::Warn,
    }
}

/// `WALL  the server's CPU                        observed · confidence 0.85`
pub(super) fn heading(page: &mut Page, wall: Wall, standing: &str) {
    let columns = page.columns();
    page.push(
        Line::new()
            .plain(" ")
            .strong("WALL")
            .until_column(INDENT)
            .put(role(wall), wall.words())
            .right(columns, Role::Dim, standing),
    );
}

/// The wall, how sure, and why.
pub(crate) fn wall(page: &mut Page, verdict: Option<&Verdict>) {
    let Some(verdict) = verdict else {
        page.entry("WALL", Role::Dim, "not judged");
        return;
    };
    heading(page, verdict.wall, &words::standing(verdict));
    page.beside(Role::Plain, &said::below_heading(verdict));
    for line in super::find::details(verdict) {
        page.beside(Role::Plain, &line);
    }
    const REASONS_MAX: usize = 4;
    for evidence in verdict.evidence.iter().take(REASONS_MAX) {
        page.beside(Role::Dim, &format!("· {}", said::fact(&evidence.fact)));
    }
}

/// `NEXT  the server's CPU at 74,000/s (2.63 ×, [2.55, 2.71])`.
pub(crate) fn next(page: &mut Page, step: &Step) {
    let Some(verdict) = &step.verdict else {
        return;
    };
    match words::next(verdict, step.throughput) {
        Some(next) => page.entry("NEXT", Role::Plain, &next),
        None if verdict.how >= How::Likely => page.entry("NEXT", Role::Dim, "not known"),
        None => {}
    }
}
