//! Two records side by side: ratios of the steps both have, and what else differs.

use wallfinder_judge::compare::{Comparison, RatioInterval, StepPair};

use super::columns::{self, Column};
use crate::look::{Page, Role, cut};
use crate::{number, words};

pub(crate) fn write(page: &mut Page, comparison: &Comparison) {
    if comparison.steps.is_empty() {
        page.entry("STEPS", Role::Warn, "The two runs have no step in common.");
    } else {
        steps(page, &comparison.steps);
    }
    page.gap();
    let alone = |names: &[String]| {
        let shown: Vec<String> = names.iter().take(12).map(|name| cut(name, 40)).collect();
        let more = if names.len() > 12 { ", …" } else { "" };
        format!("{}{more}", shown.join(", "))
    };
    if !comparison.only_before.is_empty() {
        page.entry("only before", Role::Plain, &alone(&comparison.only_before));
    }
    if !comparison.only_after.is_empty() {
        page.entry("only after", Role::Plain, &alone(&comparison.only_after));
    }
    page.gap();
    if comparison.environment.is_empty() {
        page.entry("alike", Role::Plain, "The surroundings do not differ.");
    }
    let mut label = "DIFFERENT";
    for difference in &comparison.environment {
        let text = format!(
            "{}: {} → {}",
            difference.what, difference.before, difference.after
        );
        page.entry(label, Role::Plain, &text);
        label = "";
    }
    if !comparison.environment.is_empty() {
        page.beside(
            Role::Dim,
            "A ratio above may be that of the surroundings. `ab` compares under the same ones.",
        );
    }
}

fn steps(page: &mut Page, pairs: &[StepPair]) {
    let times = |ratio: Option<f64>| {
        ratio.map_or(number::UNKNOWN.to_owned(), |ratio| {
            format!("{} ×", number::factor(ratio))
        })
    };
    let names = pairs
        .iter()
        .map(|pair| (Role::Plain, cut(&pair.name, 26)))
        .collect();
    let throughput = pairs
        .iter()
        .map(|pair| times(pair.throughput.map(|r| r.value)));
    let intervals = pairs
        .iter()
        .map(|pair| (Role::Dim, pair.throughput.map_or(String::new(), interval)))
        .collect();
    let walls = pairs
        .iter()
        .map(|pair| (Role::Plain, walls(pair)))
        .collect();
    let left_out = columns::write(
        page,
        vec![
            Column::words("step", 0, names),
            Column::numbers("throughput", 0, throughput.collect()),
            Column::words("95 %, within the windows", 2, intervals),
            Column::numbers("p50", 3, pairs.iter().map(|pair| times(pair.p50)).collect()),
            Column::numbers("p99", 0, pairs.iter().map(|pair| times(pair.p99)).collect()),
            Column::words("bound by", 1, walls),
        ],
        1,
    );
    columns::note(page, left_out);
}

fn interval(ratio: RatioInterval) -> String {
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => {
            format!("[{}, {}]", number::factor(low), number::factor(high))
        }
        _ => String::new(),
    }
}

fn walls(pair: &StepPair) -> String {
    match pair.walls {
        Some((before, after)) if before == after => words::short(after).to_owned(),
        Some((before, after)) => {
            format!("{} → {}", words::short(before), words::short(after))
        }
        None => number::UNKNOWN.to_owned(),
    }
}
