//! The verdict: the wall, how sure, the sentence, the squeezes behind it, the next wall.

use wallfinder_model::verdict::{Elasticity, How, Verdict};
use wallfinder_model::{Step, Wall};

use crate::look::{INDENT, Line, Page, Role, cut};
use crate::{number, words};

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

/// `WALL  the server's CPU                        observed · confidence 0.85`, and why.
pub(crate) fn wall(page: &mut Page, verdict: Option<&Verdict>) {
    let Some(verdict) = verdict else {
        page.entry("WALL", Role::Dim, "not judged");
        return;
    };
    let columns = page.columns();
    page.push(
        Line::new()
            .plain(" ")
            .strong("WALL")
            .until_column(INDENT)
            .put(role(verdict.wall), verdict.wall.words())
            .right(columns, Role::Dim, &words::standing(verdict)),
    );
    page.beside(Role::Plain, &verdict.sentence);
    if let Some(detail) = &verdict.detail {
        page.beside(Role::Plain, &words::capital_sentence(detail));
    }
    let shares: Vec<String> = verdict
        .shares
        .iter()
        .map(|(name, share)| format!("{} {}", words::squeeze(name), number::share(*share)))
        .collect();
    if !shares.is_empty() {
        page.beside(Role::Plain, &format!("Shares: {}.", shares.join(" · ")));
    }
    const REASONS_MAX: usize = 4;
    for evidence in verdict.evidence.iter().take(REASONS_MAX) {
        page.beside(Role::Dim, &format!("· {}", evidence.text));
    }
    if verdict.wall == Wall::ClientCpu {
        page.beside(Role::Plain, words::CLIENT_WALL);
    }
}

/// Each squeeze with its elasticity, interval and a bar.
pub(crate) fn elasticities(page: &mut Page, verdict: Option<&Verdict>) {
    let Some(verdict) = verdict.filter(|verdict| !verdict.elasticities.is_empty()) else {
        return;
    };
    let mut rows: Vec<(&String, &Elasticity)> = verdict.elasticities.iter().collect();
    rows.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    page.push(
        Line::new()
            .until_column(INDENT)
            .dim("squeezed")
            .until_column(INDENT + 18)
            .dim("elasticity  95 % interval"),
    );
    for (name, elasticity) in rows {
        let interval = format!(
            "[{:>5}, {:>5}]",
            number::elasticity(elasticity.low),
            number::elasticity(elasticity.high)
        );
        page.push(
            Line::new()
                .until_column(INDENT)
                .plain(cut(&words::squeeze(name), 17))
                .until_column(INDENT + 18)
                .plain(format!("{:>10}", number::elasticity(elasticity.value)))
                .plain("  ")
                .plain(interval)
                .plain("  ")
                .put(Role::Strong, bar(elasticity.value)),
        );
    }
}

/// Twenty columns are an elasticity of one; nothing is a tick.
fn bar(value: f64) -> String {
    let length = (value * 20.0).round();
    if length >= 1.0 {
        "━".repeat(length.min(30.0) as usize)
    } else {
        "╵".to_owned()
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
