//! Two folders of results beside each other, scenario by scenario: another tool's, and this one's. Pure.
//!
//! ```text
//!  scenario        before: proved, 231 s, ±0.04     now: proved, 49 s, ±0.05
//! ```
//!
//! Only what both have is compared. Of the older one little is read, so that a tool whose verdicts
//! had another form can be held beside this one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;
use wallfinder_bench::statistics::median;
use wallfinder_model::verdict::{How, Wall};

use crate::found::Span;

/// What both tools keep of a run.
#[derive(Debug, Clone, Deserialize)]
pub struct Run {
    scenario: String,
    seed: u64,
    seconds: f64,
    found: Result<Verdict, serde::de::IgnoredAny>,
}

#[derive(Debug, Clone, Deserialize)]
struct Verdict {
    wall: Wall,
    how: How,
    #[serde(default)]
    elasticities: BTreeMap<String, Span>,
}

impl Run {
    /// Half of the interval of the greatest elasticity: that of the wall, where a squeeze reaches it.
    fn half_width(&self) -> Option<f64> {
        let spans = self.found.as_ref().ok()?.elasticities.values();
        let known = spans.filter_map(|span| Some((span.value?, span.high? - span.low?)));
        let greatest = known.max_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(greatest.1 / 2.0)
    }

    fn is_proved(&self) -> bool {
        self.found.as_ref().is_ok_and(|v| v.how == How::Proved)
    }

    fn told(&self) -> String {
        let Ok(verdict) = &self.found else {
            return format!("failed, {:.0} s", self.seconds);
        };
        let width = self.half_width().map(|half| format!(", ±{half:.2}"));
        let (wall, how) = (verdict.wall.label(), crate::table::how(verdict.how));
        let width = width.unwrap_or_default();
        format!("{wall}, {how}, {:.0} s{width}", self.seconds)
    }
}

/// The runs of a folder with this effort, on a restless machine or not, in the order of names and seeds.
pub fn read(folder: &Path, effort: &str, restless: bool) -> Result<Vec<Run>, String> {
    #[derive(Deserialize)]
    struct Kept {
        effort: String,
        #[serde(default)]
        restless: bool,
        outcome: Run,
    }
    let mut runs = Vec::new();
    for text in crate::results::texts(folder)? {
        let (path, bytes) = text?;
        let kept: Kept = serde_json::from_slice(&bytes)
            .map_err(|error| format!("{}: no outcome of a suite: {error}", path.display()))?;
        if kept.effort == effort && kept.restless == restless {
            runs.push(kept.outcome);
        }
    }
    runs.sort_by(|one, other| (&one.scenario, one.seed).cmp(&(&other.scenario, other.seed)));
    Ok(runs)
}

/// A line for each scenario and seed that both have, and the sums.
pub fn told(before: &[Run], now: &[Run]) -> String {
    let same = |run: &&Run, other: &Run| run.scenario == other.scenario && run.seed == other.seed;
    let pairs: Vec<(&Run, &Run)> = now
        .iter()
        .filter_map(|now| Some((before.iter().find(|before| same(before, now))?, now)))
        .collect();
    let mut text = format!("{:<30}{:<46}now\n", "scenario, seed", "before");
    for (before, now) in &pairs {
        let name = format!("{} {}", now.scenario, now.seed);
        let _ = writeln!(text, "{name:<30}{:<46}{}", before.told(), now.told());
    }
    let of = |take: fn(&(&Run, &Run)) -> bool| pairs.iter().filter(|pair| take(pair)).count();
    let _ = writeln!(
        text,
        "\nof {} in both: proved {} before and {} now; only before {}, only now {}",
        pairs.len(),
        of(|pair| pair.0.is_proved()),
        of(|pair| pair.1.is_proved()),
        of(|pair| pair.0.is_proved() && !pair.1.is_proved()),
        of(|pair| !pair.0.is_proved() && pair.1.is_proved()),
    );
    let of_side = |side: fn(&(&Run, &Run)) -> Run| pairs.iter().map(side).collect::<Vec<Run>>();
    let sides = [
        ("before", of_side(|pair| pair.0.clone())),
        ("now", of_side(|pair| pair.1.clone())),
    ];
    for (name, side) in sides {
        let seconds: Vec<f64> = side.iter().map(|run| run.seconds).collect();
        let widths: Vec<f64> = side.iter().filter_map(Run::half_width).collect();
        if let (Some(seconds), Some(width)) = (median(&seconds), median(&widths)) {
            let _ = writeln!(
                text,
                "{name}: in the median {seconds:.0} s, the wall's elasticity to ±{width:.3}"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scenario: &str, how: &str, seconds: f64, high: f64) -> Run {
        let text = format!(
            r#"{{"scenario":"{scenario}","seed":1,"seconds":{seconds},"found":{{"Ok":{{"wall":"server-cpu","how":"{how}",
               "elasticities":{{"server-speed":{{"value":1.0,"low":0.9,"high":{high}}},
               "client-speed":{{"value":0.0,"low":-0.5,"high":0.5}}}}}}}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_both_have_is_compared() {
        let before = [
            run("a", "proved", 230.0, 1.1),
            run("b", "likely", 240.0, 1.3),
        ];
        let mut failed = run("c", "likely", 1.0, 1.0);
        failed.found = serde_json::from_str(r#"{"Err":"not done"}"#).unwrap();
        let now = [
            run("b", "proved", 50.0, 1.2),
            run("a", "proved", 60.0, 1.1),
            failed,
        ];
        let text = told(&before, &now);
        assert!(
            text.contains("of 2 in both: proved 1 before and 2 now; only before 0, only now 1")
        );
        assert!(text.contains("before: in the median 235 s, the wall's elasticity to ±0.150"));
        assert!(text.contains("now: in the median 55 s, the wall's elasticity to ±0.125"));
        assert!(text.contains("server-cpu, likely, 240 s, ±0.20"), "{text}");
        assert!(!text.contains("c 1"), "{text}");
    }

    #[test]
    fn a_run_that_failed_has_no_width() {
        let mut failed = run("c", "likely", 1.0, 1.0);
        failed.found = serde_json::from_str(r#"{"Err":"not done"}"#).unwrap();
        assert_eq!(failed.told(), "failed, 1 s");
        assert!(!failed.is_proved());
    }
}
