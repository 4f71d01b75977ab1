//! The answer of `find`: where the ceiling is, the wall and the squeezes that tell, what was
//! out of reach, what comes next.

use wallfinder_model::evidence::Fact;
use wallfinder_model::experiment::{Squeeze, Takes};
use wallfinder_model::gate::{Gate, GateKind};
use wallfinder_model::verdict::{Elasticity, How, Verdict};
use wallfinder_model::{Record, Step, Wall};

use super::{best_step, verdict};
use crate::figures::{self, Figures};
use crate::look::{INDENT, Line, Page, Role, cut};
use crate::squeezed::{self, Dose};
use crate::{number, requests, said, words};

/// `target  http://… · catalogue, 1 process on cpu 0 · client on cpu 1 · link 1 Gbit/s`.
pub(crate) fn target(page: &mut Page, record: &Record, step: &Step) {
    page.entry("target", Role::Plain, &words::target(step));
    page.beside(Role::Dim, &words::place(record, step));
    if let Some(command) = &step.driver.command {
        page.entry("driver", Role::Plain, command);
    }
}

/// `ceiling  28,140 requests/s at 100 connections (knee at 32 in flight), p50 3.4 ms, …`, of
/// the step that was squeezed.
pub(crate) fn ceiling(page: &mut Page, record: &Record, step: &Step) {
    let figures = Figures::of(step);
    let mut text = format!(
        "{} requests/s at {}",
        number::amount(step.throughput),
        words::connections(&step.load)
    );
    let ramp = words::one_ramp(record);
    if let Some(knee) = ramp.as_ref().and_then(|ramp| ramp.knee) {
        let knee = words::knee(&knee, step.load.arrival.is_open());
        text.push_str(&format!(" ({knee})"));
    }
    for name in ["p50", "p99"] {
        if let Some(shown) = figures::latency(step, name) {
            text.push_str(&format!(", {name} {shown}"));
        }
    }
    if let Some(bytes) = figures.bytes_in {
        text.push_str(&format!(", {} each", number::bytes(bytes)));
    }
    let label = if step.load.arrival.is_open() {
        "load"
    } else {
        "ceiling"
    };
    page.entry(label, Role::Strong, &text);
    // A ramp's short step may have seen more than could be held.
    const MORE: f64 = 1.05;
    if let Some(best) = best_step(record).filter(|best| best.throughput > step.throughput * MORE) {
        page.beside(
            Role::Dim,
            &format!(
                "The ramp saw {}/s at {} for {}; what was squeezed is what held.",
                number::amount(best.throughput),
                words::connections(&best.load),
                number::length(best.window_ns)
            ),
        );
    }
}

/// The wall, how it was established, and why in a sentence.
pub(crate) fn wall(page: &mut Page, step: &Step) {
    let Some(verdict) = &step.verdict else {
        page.entry("WALL", Role::Dim, "not judged");
        return;
    };
    let standing = words::standing_of(step).unwrap_or_default();
    verdict::heading(page, verdict.wall, &standing);
    page.beside(Role::Plain, &said::below_heading(verdict));
    for line in details(verdict) {
        page.beside(Role::Plain, &line);
    }
    // Where squeezes did not decide, telemetry is what there is.
    if verdict.how <= How::Observed {
        const REASONS_MAX: usize = 3;
        let telemetry = verdict.evidence.iter().map(|evidence| &evidence.fact);
        let telemetry = telemetry.filter(|fact| !fact.is_of_squeezes() && !fact.is_of_profiles());
        let new = telemetry.filter(|fact| !said::tells(&verdict.reason, fact));
        for fact in new.take(REASONS_MAX) {
            page.beside(Role::Dim, &format!("· {}", said::fact(fact)));
        }
    }
}

/// What profiles say of the wall, a line for each reason, and for each request of a mix whose functions they tell.
pub(crate) fn inside(page: &mut Page, step: &Step) {
    let evidence = step.verdict.iter().flat_map(|verdict| &verdict.evidence);
    let mut label = "INSIDE";
    for evidence in evidence.filter(|evidence| evidence.fact.is_of_profiles()) {
        let text = words::capital_sentence(&said::fact(&evidence.fact));
        page.entry(label, Role::Plain, &text);
        label = "";
    }
    for text in requests::functions(step) {
        page.entry(label, Role::Plain, &text);
        label = "";
    }
}

/// What the wall is made of, its shares, and whose number this is.
pub(crate) fn details(verdict: &Verdict) -> Vec<String> {
    let mut lines: Vec<String> = said::made_of(verdict).into_iter().collect();
    let shares: Vec<String> = verdict
        .shares
        .iter()
        .map(|(name, share)| format!("{} {}", words::squeeze(name), number::share(*share)))
        .collect();
    if !shares.is_empty() {
        lines.push(format!("Shares: {}.", shares.join(" · ")));
    }
    if verdict.wall == Wall::ClientCpu {
        lines.push(words::CLIENT_WALL.to_owned());
    }
    lines.extend(words::more_clients(verdict));
    lines
}

/// Columns of the table of squeezes, from the indent.
const NAME: usize = 23;
/// Columns that an elasticity of one takes, and the most that a bar does.
const BAR: usize = 14;
const BAR_MAX: usize = 18;
/// An interval with ends further than this from its centre says nothing.
const HALF_WIDTH_MAX: f64 = 0.5;

/// Each squeeze with its elasticity, interval and a bar, and what each dose alone reads
/// where there were two.
pub(crate) fn elasticities(page: &mut Page, step: &Step) {
    let Some(verdict) = step.verdict.as_ref().filter(|v| !v.elasticities.is_empty()) else {
        return;
    };
    let doses = step.experiment.as_ref().map(squeezed::squeezes);
    let doses = doses.unwrap_or_default();
    let of = |name: &str| -> &[Dose] {
        doses
            .iter()
            .find(|(squeeze, _)| squeeze.label() == name)
            .map_or(&[], |(_, doses)| doses)
    };
    let two = doses
        .iter()
        .any(|(squeeze, doses)| small(*squeeze, doses).is_some());
    let wide = page.columns() >= 96;
    let mut head = Line::new()
        .until_column(INDENT)
        .dim(squeezed_head(&doses))
        .until_column(INDENT + NAME)
        .dim("elasticity  95 % interval");
    if two && wide {
        head = head
            .until_column(INDENT + NAME + 28 + BAR_MAX + 2)
            .dim("at 10 %   at 20 %");
    }
    page.push(head);
    let mut rows: Vec<_> = verdict.elasticities.iter().collect();
    rows.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    for (name, elasticity) in rows {
        let own = of(name);
        let interval = format!(
            "[{:>5}, {:>5}]",
            number::elasticity(elasticity.low),
            number::elasticity(elasticity.high)
        );
        let mut row = Line::new()
            .until_column(INDENT)
            .plain(cut(&row_name(name, own), NAME - 1))
            .until_column(INDENT + NAME)
            .plain(format!("{:>10}", number::elasticity(elasticity.value)))
            .plain("  ")
            .plain(interval)
            .plain("  ")
            .put(
                Role::Strong,
                cut(
                    &bar(elasticity),
                    page.columns().saturating_sub(INDENT + NAME + 28),
                ),
            );
        let squeeze = Squeeze::ALL.into_iter().find(|s| s.label() == name);
        if let Some(small) = squeeze.and_then(|squeeze| small(squeeze, own))
            && wide
        {
            let shown = |dose: Option<&Dose>| {
                let value = dose.and_then(Dose::elasticity);
                value.map_or(number::UNKNOWN.to_owned(), number::elasticity)
            };
            row = row
                .until_column(INDENT + NAME + 28 + BAR_MAX + 2)
                .plain(format!(
                    "{:>7}   {:>7}",
                    shown(Some(small)),
                    shown(main(own))
                ));
        }
        page.push(row);
    }
    // What is doubted is said as a doubt.
    let is_doubted = |fact: &Fact| {
        let null = |gate: &Gate| gate.kind == GateKind::NullEffect && gate.failed();
        matches!(fact, Fact::Null { .. }) && verdict.gates.iter().any(null)
    };
    let facts = verdict.evidence.iter().map(|evidence| &evidence.fact);
    let machine = facts.filter(|fact| {
        matches!(
            fact,
            Fact::Null { .. } | Fact::PauseIsWork { .. } | Fact::Pace { .. }
        )
    });
    for fact in machine.filter(|fact| !is_doubted(fact)) {
        page.beside(Role::Dim, &words::capital_sentence(&said::fact(fact)));
    }
}

/// The dose of about a fifth.
fn main(doses: &[Dose]) -> Option<&Dose> {
    // What was widened has one dose, of a quarter.
    let wanted = |dose: &Dose| if dose.asked > 1.0 { 1.25 } else { 0.8 };
    let far = |dose: &Dose| (dose.asked - wanted(dose)).abs();
    doses
        .iter()
        .filter(|dose| far(dose) < 0.07)
        .min_by(|a, b| far(a).total_cmp(&far(b)))
}

/// The dose of about a tenth. In flight comes in whole requests, and has none.
fn small(squeeze: Squeeze, doses: &[Dose]) -> Option<&Dose> {
    let whole = squeeze.takes() == Takes::InFlight;
    doses
        .iter()
        .find(|dose| !whole && (0.86..0.95).contains(&dose.asked))
}

/// `squeezed 20 %`, where a fifth is what was asked for.
fn squeezed_head(doses: &[(Squeeze, Vec<Dose>)]) -> &'static str {
    if doses.iter().any(|(_, doses)| main(doses).is_some()) {
        "squeezed 20 %"
    } else {
        "squeezed"
    }
}

/// A squeeze with the dose that it really was, where that is not the heading's.
fn row_name(name: &str, doses: &[Dose]) -> String {
    let words = words::squeeze(name);
    let taken = main(doses)
        .and_then(Dose::middle)
        .map(|(left, _)| 1.0 - left);
    match taken {
        Some(taken) if taken < 0.0 => format!("{words} (+{})", number::share(-taken)),
        Some(taken) if (taken - 0.2).abs() >= 0.025 => {
            format!("{words} ({})", number::share(taken))
        }
        _ => words,
    }
}

/// As long as the elasticity; nothing is a tick.
fn bar(elasticity: &Elasticity) -> String {
    let half = (elasticity.high - elasticity.low) / 2.0;
    if half.is_nan() || half > HALF_WIDTH_MAX {
        return "too wide to tell".to_owned();
    }
    let length = (elasticity.value * BAR as f64).round();
    if length >= 1.0 {
        "━".repeat((length as usize).min(BAR_MAX))
    } else {
        "╵".to_owned()
    }
}

/// One line of what was out of reach and could have mattered.
pub(crate) fn missing(page: &mut Page, step: &Step) {
    if let Some(text) = words::missing(&squeezed::missing(step)) {
        page.gap();
        page.entry("MISSING", Role::Plain, &text);
    }
}

/// The next wall, and what doubling what binds would bring.
pub(crate) fn next(page: &mut Page, step: &Step) {
    verdict::next(page, step);
    if let Some((question, prediction)) = words::natural_what_if(step) {
        page.entry("WHAT IF", Role::Plain, &format!("{question}: {prediction}"));
    }
}
