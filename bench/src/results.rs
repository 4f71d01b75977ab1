//! What is shown and kept: a table for each scenario, the aims, and one JSON file.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::contestants::Contestant;
use crate::open_loop::Check;
use crate::race::{Race, Score, Turn};
use crate::scenario::Scenario;
use crate::statistics::{Estimate, Judgement, median, ratio};

/// Everything of one invocation.
#[derive(Debug, Clone, Serialize)]
pub struct Results {
    /// Of the order of turns.
    pub seed: u64,
    /// Kernel and processor.
    pub machine: Machine,
    /// Who is compared with all others.
    pub ours: String,
    /// The races.
    pub races: Vec<Race>,
    /// Their comparisons.
    pub comparisons: Vec<Comparison>,
    /// Their aims.
    pub aims: Vec<Outcome>,
    /// The checks of the open loop and of memory.
    pub checks: Vec<Check>,
}

/// Where it ran.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Its release.
    pub kernel: String,
    /// As `/proc/cpuinfo` names it.
    pub processor: String,
    /// Where the server ran.
    pub server_cpu: u32,
    /// Where clients ran.
    pub client_cpu: u32,
    /// One-minute load average before the first turn: others at work make noise.
    pub load_before: f64,
}

/// Ours over theirs, paired by round.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// Which scenario.
    pub scenario: &'static str,
    /// With whom.
    pub against: String,
    /// Client CPU for each answer: below 1 is better for us.
    pub client: Estimate,
    /// Throughput: above 1 is better for us.
    pub throughput: Estimate,
    /// Server CPU for each answer: what our way of asking costs the server.
    pub server: Estimate,
}

/// An aim and what became of it.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Which scenario.
    pub scenario: &'static str,
    /// With whom.
    pub against: String,
    /// The bound on the ratio of client CPU.
    pub at_most: f64,
    /// The ratio, where both raced.
    pub ratio: Option<Estimate>,
    /// Whether it was met.
    pub judgement: Judgement,
}

/// Ours against everyone else of a race.
pub fn compare(race: &Race, ours: Contestant) -> Vec<Comparison> {
    let Some(mine) = race.score(ours) else {
        return Vec::new();
    };
    let others = race.scores.iter().filter(|score| score.contestant != ours);
    others
        .filter_map(|theirs| {
            let estimate = |of: fn(&Turn) -> f64| ratio(&mine.paired(theirs, of));
            Some(Comparison {
                scenario: race.scenario,
                against: theirs.contestant.name(),
                client: estimate(|turn| turn.client_us)?,
                throughput: estimate(|turn| turn.throughput)?,
                server: estimate(|turn| turn.server_us)?,
            })
        })
        .collect()
}

/// What became of a scenario's aims.
pub fn judge(scenario: &Scenario, comparisons: &[Comparison]) -> Vec<Outcome> {
    let outcome = |aim: &crate::scenario::Aim| {
        let against = aim.against.name();
        let found = comparisons
            .iter()
            .find(|one| one.scenario == scenario.name && one.against == against);
        let ratio = found.map(|comparison| comparison.client);
        Outcome {
            scenario: scenario.name,
            against,
            at_most: aim.at_most,
            ratio,
            judgement: ratio.map_or(Judgement::Undecided, |ratio| ratio.at_most(aim.at_most)),
        }
    };
    scenario.aims.iter().map(outcome).collect()
}

/// The table of a race.
pub fn table(race: &Race, comparisons: &[Comparison]) -> String {
    let mut text = format!(
        "{}: {} · {} connections · depth {}\n\n{:20}{:>11}{:>11}{:>7}{:>11}{:>8}   {:28}{:24}{}\n",
        race.scenario,
        race.path,
        race.connections,
        race.depth,
        "",
        "requests/s",
        "client µs",
        "user",
        "server µs",
        "others",
        "client CPU, ours/theirs",
        "throughput",
        "server CPU"
    );
    for score in &race.scores {
        text += &line(
            score,
            comparisons.iter().find(|one| {
                one.scenario == race.scenario && one.against == score.contestant.name()
            }),
        );
    }
    for (who, why) in &race.absent {
        let _ = writeln!(text, "{who:20} skipped: {why}");
    }
    text
}

fn line(score: &Score, comparison: Option<&Comparison>) -> String {
    let name = score.contestant.name();
    let middle = |of: fn(&Turn) -> f64| median(&score.each(of));
    let mut text = match middle(|turn| turn.throughput) {
        None => format!("{name:20} did not work"),
        Some(throughput) => format!(
            "{name:20}{throughput:>11.0}{:>11.3}{:>6.0}%{:>11.3}{:>7.0}%",
            middle(|turn| turn.client_us).unwrap_or(f64::NAN),
            middle(|turn| turn.client_user_share * 100.0).unwrap_or(f64::NAN),
            middle(|turn| turn.server_us).unwrap_or(f64::NAN),
            middle(|turn| turn.foreign_share * 100.0).unwrap_or(f64::NAN),
        ),
    };
    if let Some(comparison) = comparison {
        let _ = write!(
            text,
            "   {:28}{:24}{}",
            interval(&comparison.client),
            interval(&comparison.throughput),
            interval(&comparison.server)
        );
    }
    let failed: u64 = score.turns.iter().map(|turn| turn.failed).sum();
    if failed > 0 {
        let _ = write!(text, "   {failed} failed");
    }
    if let Some(error) = score.errors.last() {
        let _ = write!(text, "   {} turns lost: {error}", score.errors.len());
    }
    text.trim_end().to_owned() + "\n"
}

fn interval(estimate: &Estimate) -> String {
    format!(
        "{:.3} [{:.3}, {:.3}]",
        estimate.value, estimate.low, estimate.high
    )
}

/// The aims, a line for each.
pub fn aims(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let judgement = match outcome.judgement {
            Judgement::Met => "met",
            Judgement::NotMet => "not met",
            Judgement::Undecided => "undecided",
        };
        let ratio = match &outcome.ratio {
            Some(ratio) => format!(
                "{} at {:.0} %, {} rounds",
                interval(ratio),
                ratio.confidence * 100.0,
                ratio.rounds
            ),
            None => "nothing to compare".to_owned(),
        };
        let _ = writeln!(
            text,
            "{judgement:10} {:12} client CPU at most {:.2} x {:14} {ratio}",
            outcome.scenario, outcome.at_most, outcome.against
        );
    }
    text
}

/// The checks, a line for each.
pub fn checks(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let _ = writeln!(
            text,
            "{:10} {}: {:.3}, at most {}   {}",
            if check.holds { "met" } else { "not met" },
            check.what,
            check.measured,
            check.at_most,
            check.detail
        );
    }
    text
}

/// Writes the JSON file, whole or not at all.
pub fn keep(results: &Results, file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let unfinished = file.with_extension("json.part");
    let text = serde_json::to_string_pretty(results).map_err(std::io::Error::other)?;
    std::fs::write(&unfinished, text)?;
    std::fs::rename(&unfinished, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::SCENARIOS;

    fn score(contestant: Contestant, client_us: f64) -> Score {
        let turn = |round| Turn {
            round,
            answered: 1000,
            failed: 0,
            throughput: 100_000.0,
            client_us,
            client_user_share: 0.25,
            server_us: 9.5,
            foreign_share: 0.01,
        };
        Score {
            contestant,
            version: None,
            command: String::new(),
            turns: (1..=7).map(turn).collect(),
            errors: Vec::new(),
        }
    }

    fn race() -> Race {
        Race {
            subject: serde_json::Value::Null,
            scenario: "simple-1",
            path: "/simple",
            connections: 100,
            depth: 1,
            scores: vec![
                score(Contestant::Engine, 5.0),
                score(Contestant::Wrk, 6.25),
                score(Contestant::NULL_EPOLL, 4.0),
            ],
            absent: vec![("shb".into(), "`shb` is not installed".into())],
        }
    }

    #[test]
    fn aims_are_judged_by_their_intervals() {
        let comparisons = compare(&race(), Contestant::Engine);
        let outcomes = judge(&SCENARIOS[0], &comparisons);
        let of = |name: &str| outcomes.iter().find(|one| one.against == name).unwrap();
        assert_eq!(of("wrk").judgement, Judgement::Met);
        assert_eq!(of("null-epoll").judgement, Judgement::NotMet);
        assert_eq!(of("shb").judgement, Judgement::Undecided);
        let text = aims(&outcomes);
        assert!(text.contains("met        simple-1     client CPU at most 1.00 x wrk"));
        assert!(
            text.contains("0.800 [0.800, 0.800] at 95 %, 7 rounds"),
            "{text}"
        );
        assert!(text.contains("nothing to compare"));
    }

    #[test]
    fn a_table_says_who_is_missing_and_why() {
        let race = race();
        let text = table(&race, &compare(&race, Contestant::Engine));
        assert!(text.contains("shb                  skipped: `shb` is not installed"));
        assert!(text.contains(
            "wrk                      100000      6.250    25%      9.500      1%   0.800"
        ));
    }
}
