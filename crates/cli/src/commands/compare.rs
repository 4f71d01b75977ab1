//! `compare`: two records step by step, and where their environments differ.

use wallfinder_judge::compare::{Comparison, RatioInterval, Short, compare as judge};

use crate::commands::record::open;
use crate::exit::{Failed, THRESHOLD};
use crate::flags::{CompareFlags, PlainFormat};
use crate::output;

/// `wallfinder compare BEFORE AFTER`.
pub(crate) fn compare(flags: &CompareFlags) -> Result<(), Failed> {
    let (before, after) = (open(&flags.before)?, open(&flags.after)?);
    let comparison = judge(&before, &after);
    let printed = match flags.format {
        PlainFormat::Text => text(&comparison),
        PlainFormat::Json => serde_json::to_string_pretty(&comparison)
            .map_err(|error| Failed::run(error.to_string()))?,
    };
    output::put(&printed, None)?;
    let short = flags.at_least.map(|ratio| short(&comparison, ratio));
    match short.filter(|lines| !lines.is_empty()) {
        None => Ok(()),
        Some(lines) => Err(Failed::with_code(THRESHOLD, lines.join("\n"))),
    }
}

/// A line for each step that falls short of what is required.
fn short(comparison: &Comparison, ratio: f64) -> Vec<String> {
    let short = comparison.short_of(ratio).into_iter();
    short
        .map(|(name, short)| match short {
            Short::Unknown => format!("{name}: throughput is not known"),
            Short::Below(value) => format!("{name}: {value:.3} x, surely below {ratio}"),
            Short::Gone => format!("{name}: only before"),
        })
        .collect()
}

fn text(comparison: &Comparison) -> String {
    let mut text = String::new();
    for pair in &comparison.steps {
        let ratio = pair.throughput.as_ref().map_or("unknown".into(), ratio);
        let walls = match &pair.walls {
            Some((before, after)) if before == after => format!("bound by {}", after.label()),
            Some((before, after)) => {
                format!("bound by {}, before {}", after.label(), before.label())
            }
            None => "no verdict".to_owned(),
        };
        let latency = |name, ratio: Option<f64>| {
            ratio.map_or(String::new(), |ratio| format!("  {name} {ratio:.2} x"))
        };
        let (p50, p99) = (latency("p50", pair.p50), latency("p99", pair.p99));
        let name = &pair.name;
        text.push_str(&format!(
            " {name:32} throughput {ratio}{p50}{p99}  {walls}\n"
        ));
        for part in &pair.parts {
            let times = part
                .throughput
                .map_or("unknown".to_owned(), |ratio| format!("{ratio:.3} x"));
            let (p50, p99) = (latency("p50", part.p50), latency("p99", part.p99));
            text.push_str(&format!(
                "   {:30} throughput {times}{p50}{p99}\n",
                part.name
            ));
        }
    }
    for (names, side) in [
        (&comparison.only_before, "before"),
        (&comparison.only_after, "after"),
    ] {
        for name in names {
            text.push_str(&format!(" {name:32} only {side}\n"));
        }
    }
    if comparison.environment.is_empty() {
        text.push_str("\n The environments are alike.\n");
    } else {
        text.push_str("\n The environments differ, and so may the results for that reason:\n");
    }
    for difference in &comparison.environment {
        text.push_str(&format!(
            "   {}: {} before, {} after\n",
            difference.what, difference.before, difference.after
        ));
    }
    text
}

fn ratio(ratio: &RatioInterval) -> String {
    match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => format!("{:.3} x [{low:.3}, {high:.3}]", ratio.value),
        _ => format!("{:.3} x (no interval: too short a window)", ratio.value),
    }
}
