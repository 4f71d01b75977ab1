//! `compare`: two records step by step, and where their environments differ.

use wallfinder_judge::compare::{Comparison, RatioInterval, compare as judge};

use crate::commands::record::open;
use crate::exit::Failed;
use crate::flags::CompareFlags;
use crate::output;

/// `wallfinder compare BEFORE AFTER`.
pub(crate) fn compare(flags: &CompareFlags) -> Result<(), Failed> {
    let (before, after) = (open(&flags.before)?, open(&flags.after)?);
    output::put(&text(&judge(&before, &after)), None)
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
        text.push_str(&format!(" {:32} throughput {ratio}  {walls}\n", pair.name));
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
        _ => format!("{:.3} x (no interval: too few slices)", ratio.value),
    }
}
