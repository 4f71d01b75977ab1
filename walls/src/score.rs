//! Marks: what was found beside what is known, and the bar. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wallfinder_model::verdict::{How, Wall};

use crate::costs::{self, CostsTold};
use crate::found::{Found, Span};
use crate::held::Held;
use crate::scenario::{Check, Expect, Scenario, Told};

/// Of those answered, this share must be right.
pub const RIGHT_MIN: f64 = 0.95;
/// This share must be answered.
pub const ANSWERED_MIN: f64 = 0.90;
/// Root mean square of the relative error of next walls, and of requests half as dear, at the most.
pub const NEXT_RMSE_MAX: f64 = 0.05;
/// Of repeats of a scenario, this share must give the same verdict.
pub const SAME_MIN: f64 = 0.9;
/// Fewer repeats than this say nothing about such a share.
const REPEATS_MIN: usize = 10;
/// An elasticity whose whole interval is beyond this has an effect.
const EFFECT: f64 = 0.2;

/// One scenario, run and marked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Outcome {
    /// Its name.
    pub scenario: String,
    /// The seed it ran with; asked again, it has seeds of their own.
    pub seed: u64,
    /// How often it was asked again, for want of an answer.
    #[serde(default)]
    pub asked_again: u64,
    /// What was found, or why nothing was.
    pub found: Result<Found, String>,
    /// What it took.
    pub seconds: f64,
    /// The mark.
    pub mark: Mark,
    /// Whether the detail names what the wall is made of; `None`: nothing to name.
    pub detail_named: Option<bool>,
    /// Whether what was seen inside names the function behind the wall; `None`: none to name, or
    /// nothing was seen.
    #[serde(default)]
    pub function_named: Option<bool>,
    /// Whether the rate was one at which the label holds; `None`: no bounds.
    pub label_holds: Option<bool>,
    /// Answers per second once the first wall was lifted, where it was.
    #[serde(default)]
    pub lifted_rate: Option<f64>,
    /// Answers per second before, measured in turn with those, where a mix was lifted.
    #[serde(default)]
    pub before_rate: Option<f64>,
    /// What requests of a mix take of the wall, measured before and behind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// Whether the interval of what was told of a request half as dear held what came.
    #[serde(default)]
    pub half_held: Option<bool>,
    /// Relative error of the next wall's ceiling, once the first was lifted.
    pub next_error: Option<f64>,
    /// Why there is no such error where there should be one.
    pub next_unknown: Option<String>,
}

impl Outcome {
    /// The same with how far the next wall was off; `None`: it was not asked.
    pub fn with_next(mut self, next: Option<Result<f64, String>>) -> Outcome {
        (self.next_error, self.next_unknown) = match next {
            None => (None, None),
            Some(Ok(error)) => (Some(error), None),
            Some(Err(why)) => (None, Some(why)),
        };
        self
    }

    /// The same with its marks as the scenario's labels are now.
    pub fn marked(mut self, scenario: &Scenario) -> Outcome {
        let found = self.found.as_ref().ok();
        self.half_held = found.and_then(|found| half_held(scenario, found, &self));
        self.detail_named = found.and_then(|found| detail_named(scenario, found));
        self.function_named = found.and_then(|found| function_named(scenario, found));
        self.label_holds = found.and_then(|found| label_holds(scenario, found));
        self.mark = mark(scenario, &self.found);
        self
    }
}

/// How a scenario went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// The wall, and what else had to be.
    Right,
    /// Another wall, or a number that is off.
    Wrong,
    /// No wall where there is one.
    Unanswered,
    /// Nothing squeezed, and nothing named.
    NoEffect,
    /// Nothing squeezed, and a wall named.
    FalseWall,
}

impl Mark {
    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            Mark::Right => "right",
            Mark::Wrong => "WRONG",
            Mark::Unanswered => "unanswered",
            Mark::NoEffect => "no effect",
            Mark::FalseWall => "FALSE WALL",
        }
    }
}

/// Marks what was found in a scenario.
pub fn mark(scenario: &Scenario, found: &Result<Found, String>) -> Mark {
    let (found, expect) = match (found, scenario.expect) {
        (Err(_), _) => return Mark::Unanswered,
        (Ok(found), expect) => (found, expect),
    };
    let Expect::Wall { walls, checks, .. } = expect else {
        return match names_a_wall(found) {
            true => Mark::FalseWall,
            false => Mark::NoEffect,
        };
    };
    let expected = walls.contains(&found.wall);
    if found.wall == Wall::Inconclusive && !expected {
        return Mark::Unanswered;
    }
    match expected && checks.iter().all(|check| holds(check, found)) {
        true => Mark::Right,
        false => Mark::Wrong,
    }
}

/// With every squeeze a sham, an effect is false. `wait` is none: it means that no squeeze
/// moved anything, which is so; nor is what telemetry alone observed, for it is true.
fn names_a_wall(found: &Found) -> bool {
    let beyond = |span: &Span| {
        span.low.is_some_and(|low| low > EFFECT) || span.high.is_some_and(|high| high < -EFFECT)
    };
    let from_squeezes = found.how >= How::Likely;
    let named = from_squeezes && !matches!(found.wall, Wall::Inconclusive | Wall::Wait);
    named || found.elasticities.values().any(beyond)
}

fn holds(check: &Check, found: &Found) -> bool {
    match check {
        Check::Elasticity { squeeze, low, high } => {
            let value = found.elasticities.get(*squeeze).and_then(|e| e.value);
            value.is_some_and(|value| (*low..=*high).contains(&value))
        }
        Check::P99AtLeastMs(least) => found.p99_ms.is_some_and(|ms| ms >= *least),
        Check::Unproved => found.wall == Wall::Inconclusive || found.how < How::Proved,
        Check::Pairs(pairs) => {
            let mut named: Vec<&[String; 2]> = found
                .interference
                .iter()
                .map(|pair| &pair.between)
                .collect();
            named.dedup();
            // Where nothing was told, no pair was looked for.
            found.kinds.iter().any(|kind| kind.costs.is_some())
                && named.len() == pairs.len()
                && named
                    .iter()
                    .all(|named| pairs.iter().any(|pair| *named == pair))
        }
        Check::Together(function) => {
            let mut named = found.interference.iter().flat_map(|pair| &pair.functions);
            named.any(|name| name.contains(function))
        }
        Check::Share { .. } | Check::Added { .. } => {
            costs::holds(check, found).is_some_and(|holds| holds)
        }
    }
}

/// Whether the detail is what it should be.
pub fn detail_named(scenario: &Scenario, found: &Found) -> Option<bool> {
    let Expect::Wall {
        detail: Some(is_it),
        ..
    } = scenario.expect
    else {
        return None;
    };
    Some(found.detail.as_ref().is_some_and(is_it))
}

/// Whether what was seen inside names the function behind the wall.
pub fn function_named(scenario: &Scenario, found: &Found) -> Option<bool> {
    let inside = found.inside.as_ref()?;
    Some(inside.contains(scenario.function?))
}

/// Whether the rate is one at which the label holds.
pub fn label_holds(scenario: &Scenario, found: &Found) -> Option<bool> {
    let (least, most) = scenario.rate?;
    Some((least..=most).contains(&found.rate))
}

/// What was told of a change over what came once it was made, less one: `rate` came, and where it was measured beside the
/// rate before, that was `before_rate`.
pub fn told_error(
    found: &Found,
    told: Told,
    before_rate: Option<f64>,
    rate: f64,
) -> Result<f64, String> {
    let ratio = match told {
        Told::Next(next) => next_ratio(found, next)?,
        Told::Half(name) => found
            .kind(name)
            .and_then(|kind| Some(kind.half_as_dear?.ratio))
            .ok_or_else(|| format!("what a {name} half as dear would give was not told"))?,
    };
    Ok(ratio * before_rate.unwrap_or(found.rate) / rate - 1.0)
}

/// The runs of each scenario, in the order of the outcomes.
fn by_scenario<'o>(
    outcomes: impl IntoIterator<Item = &'o Outcome>,
) -> Vec<(&'o str, Vec<&'o Outcome>)> {
    let mut all: Vec<(&str, Vec<&Outcome>)> = Vec::new();
    for outcome in outcomes {
        match all.iter_mut().find(|(name, _)| *name == outcome.scenario) {
            Some((_, runs)) => runs.push(outcome),
            None => all.push((&outcome.scenario, vec![outcome])),
        }
    }
    all
}

/// What each run of each scenario found, and what was measured beside it.
fn told_by_scenario(outcomes: &[Outcome]) -> impl Iterator<Item = (&str, Vec<costs::Run<'_>>)> {
    by_scenario(outcomes).into_iter().map(|(name, runs)| {
        let told = runs.into_iter();
        let told = told.map(|run| (run.found.as_ref().ok(), run.held.as_slice()));
        (name, told.collect())
    })
}

/// Whether what came is within the interval of what was told.
fn half_held(scenario: &Scenario, found: &Found, outcome: &Outcome) -> Option<bool> {
    let Told::Half(name) = scenario.lift?.told else {
        return None;
    };
    let (before, rate) = outcome.before_rate.zip(outcome.lifted_rate)?;
    let gain = found.kind(name)?.half_as_dear?;
    Some((gain.low..=gain.high).contains(&(rate / before)))
}

/// How near what was told of requests half as dear came to what then came, of one scenario or of all.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatIf {
    /// The scenario; empty for all of them.
    pub scenario: String,
    /// Runs that were to tell.
    pub asked: usize,
    /// Those that told.
    pub told: usize,
    /// Mean of the relative errors: a bias, where it is far from none for its error.
    pub mean: f64,
    /// Standard error of that; no number for one.
    pub mean_error: f64,
    /// Root mean square.
    pub rmse: f64,
    /// Those whose interval held what came.
    pub held: usize,
}

impl WhatIf {
    /// Of each scenario, and of all where those are several; nothing where none was asked.
    fn all(outcomes: &[&Outcome]) -> Vec<WhatIf> {
        let runs = by_scenario(outcomes.iter().copied());
        let each = runs.iter().map(|(name, own)| WhatIf::of(name, own));
        let whole = (runs.len() > 1).then(|| WhatIf::of("", outcomes));
        each.chain(whole).collect()
    }

    fn of(scenario: &str, outcomes: &[&Outcome]) -> WhatIf {
        let errors: Vec<f64> = outcomes.iter().filter_map(|o| o.next_error).collect();
        let n = errors.len() as f64;
        let mean = errors.iter().sum::<f64>() / n;
        let spread: f64 = errors.iter().map(|error| (error - mean).powi(2)).sum();
        WhatIf {
            scenario: scenario.to_owned(),
            asked: outcomes.len(),
            told: errors.len(),
            mean,
            mean_error: (spread / (n - 1.0) / n).sqrt(),
            rmse: (errors.iter().map(|error| error * error).sum::<f64>() / n).sqrt(),
            held: outcomes
                .iter()
                .filter(|o| o.half_held == Some(true))
                .count(),
        }
    }
}

/// The ceiling of the next wall over the throughput.
fn next_ratio(before: &Found, next: Wall) -> Result<f64, String> {
    let predicted = before.next.ok_or("no next wall was named")?;
    if predicted.wall != next {
        let (said, is) = (predicted.wall.label(), next.label());
        return Err(format!("the next wall is {is}, not {said}"));
    }
    Ok(predicted.ratio.ok_or("the next wall has no ceiling")?)
}

/// How alike the verdicts of one scenario are, over its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repeats {
    /// Its name.
    pub scenario: String,
    /// How often it ran.
    pub runs: usize,
    /// The verdict that came most often, and how often; `None`: no run had one.
    pub most: Option<(Wall, usize)>,
    /// How that verdict was established, and how often so.
    pub how: BTreeMap<How, usize>,
}

impl Repeats {
    /// Of every scenario that ran more than once, in the order of the outcomes.
    pub fn of(outcomes: &[Outcome]) -> Vec<Repeats> {
        let repeated = by_scenario(outcomes).into_iter();
        let repeated = repeated.filter(|(_, runs)| runs.len() > 1);
        repeated
            .map(|(name, runs)| Repeats::of_runs(name, &runs))
            .collect()
    }

    fn of_runs(scenario: &str, runs: &[&Outcome]) -> Repeats {
        let found = || {
            runs.iter()
                .filter_map(|outcome| outcome.found.as_ref().ok())
        };
        let mut walls: BTreeMap<Wall, usize> = BTreeMap::new();
        for found in found() {
            *walls.entry(found.wall).or_default() += 1;
        }
        let most = walls.into_iter().max_by_key(|(_, times)| *times);
        let mut how = BTreeMap::new();
        for found in found().filter(|found| Some(found.wall) == most.map(|(wall, _)| wall)) {
            *how.entry(found.how).or_default() += 1;
        }
        Repeats {
            scenario: scenario.to_owned(),
            runs: runs.len(),
            most,
            how,
        }
    }

    /// How many runs gave the verdict that came most often.
    pub fn same(&self) -> usize {
        self.most.map_or(0, |(_, times)| times)
    }

    /// Whether they are enough to say that verdicts differ too often, and do.
    fn differ(&self) -> bool {
        self.runs >= REPEATS_MIN && (self.same() as f64) < SAME_MIN * self.runs as f64
    }
}

/// The sum of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Scenarios with a wall.
    pub labelled: usize,
    /// Those answered.
    pub answered: usize,
    /// Those asked more than once, for want of an answer.
    pub asked_again: usize,
    /// Those right.
    pub right: usize,
    /// Those of them that squeezes established, and telemetry alone did not.
    pub right_by_squeezes: usize,
    /// Scenarios without a squeeze.
    pub null: usize,
    /// Those with a wall all the same.
    pub false_walls: usize,
    /// Those of them that did not run.
    pub null_failed: usize,
    /// Details to be named.
    pub details: usize,
    /// Those named.
    pub details_named: usize,
    /// Functions to be named.
    pub functions: usize,
    /// Those named.
    pub functions_named: usize,
    /// Walls behind which a function was to be named, and nothing was seen inside.
    pub not_looked_into: usize,
    /// Rates at which the label does not hold.
    pub labels_doubtful: usize,
    /// Next walls to be told.
    pub next: usize,
    /// Those told, and measured.
    pub next_told: usize,
    /// Root mean square of their relative errors.
    pub next_rmse: Option<f64>,
    /// What was told of requests half as dear: of each scenario, and then of all.
    pub what_if: Vec<WhatIf>,
    /// What was told of the costs of requests: of each scenario, and then of all.
    pub costs: Vec<CostsTold>,
    /// Scenarios that ran more than once.
    pub repeats: Vec<Repeats>,
    /// Runs that took longer than their effort may.
    pub slow: usize,
}

impl Score {
    /// Adds outcomes up, each of which may have taken so long.
    pub fn of(outcomes: &[Outcome], within: Duration) -> Score {
        let count =
            |wanted: &dyn Fn(&Outcome) -> bool| outcomes.iter().filter(|o| wanted(o)).count();
        let marked = |mark: Mark| count(&|outcome| outcome.mark == mark);
        let asks = |outcome: &Outcome, for_it: fn(&Scenario) -> bool| {
            let mut scenarios = crate::suite::scenarios();
            let scenario = scenarios.find(|scenario| scenario.name == outcome.scenario);
            scenario.is_some_and(for_it)
        };
        let is_null = |o: &Outcome| asks(o, |s| matches!(s.expect, Expect::NoEffect));
        let null = count(&is_null);
        let by_squeezes = |o: &Outcome| o.found.as_ref().is_ok_and(|f| f.how >= How::Likely);
        let unseen = |o: &Outcome| o.function_named.is_none() && asks(o, |s| s.function.is_some());
        let is_half = |o: &Outcome| {
            asks(o, |s| {
                s.lift
                    .is_some_and(|lift| matches!(lift.told, Told::Half(_)))
            })
        };
        let is_asked = |o: &Outcome| o.next_error.is_some() || o.next_unknown.is_some();
        let halves: Vec<&Outcome> = outcomes
            .iter()
            .filter(|o| is_half(o) && is_asked(o))
            .collect();
        let of_next = |o: &&Outcome| !is_half(o);
        let errors: Vec<f64> = outcomes
            .iter()
            .filter(of_next)
            .filter_map(|o| o.next_error)
            .collect();
        let mean_square = errors.iter().map(|e| e * e).sum::<f64>() / errors.len().max(1) as f64;
        Score {
            labelled: outcomes.len() - null,
            answered: marked(Mark::Right) + marked(Mark::Wrong),
            asked_again: count(&|outcome| outcome.asked_again > 0),
            right: marked(Mark::Right),
            right_by_squeezes: count(&|o| o.mark == Mark::Right && by_squeezes(o)),
            null,
            false_walls: marked(Mark::FalseWall),
            null_failed: count(&|o| is_null(o) && o.mark == Mark::Unanswered),
            details: count(&|outcome| outcome.detail_named.is_some()),
            details_named: count(&|outcome| outcome.detail_named == Some(true)),
            functions: count(&|outcome| outcome.function_named.is_some()),
            functions_named: count(&|outcome| outcome.function_named == Some(true)),
            not_looked_into: count(&unseen),
            labels_doubtful: count(&|outcome| outcome.label_holds == Some(false)),
            next: errors.len() + count(&|o| !is_half(o) && o.next_unknown.is_some()),
            next_told: errors.len(),
            next_rmse: (!errors.is_empty()).then(|| mean_square.sqrt()),
            what_if: WhatIf::all(&halves),
            costs: CostsTold::all(told_by_scenario(outcomes)),
            repeats: Repeats::of(outcomes),
            slow: count(&|outcome| outcome.seconds > within.as_secs_f64()),
        }
    }

    /// What keeps it below the bar, in words. A next wall that was not told is a part of
    /// the bar not reached.
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        if self.answered > 0 && share(self.right, self.answered) < RIGHT_MIN {
            missed.push(format!(
                "{} of {} answered are right",
                self.right, self.answered
            ));
        }
        if self.labelled > 0 && share(self.answered, self.labelled) < ANSWERED_MIN {
            missed.push(format!(
                "{} of {} are answered",
                self.answered, self.labelled
            ));
        }
        if self.false_walls > 0 {
            missed.push(format!(
                "{} false walls without a squeeze",
                self.false_walls
            ));
        }
        if self.null_failed > 0 {
            missed.push(format!(
                "{} runs without a squeeze failed",
                self.null_failed
            ));
        }
        if self.next_told < self.next {
            missed.push(format!(
                "{} of {} next walls are told",
                self.next_told, self.next
            ));
        }
        if let Some(rmse) = self.next_rmse.filter(|rmse| *rmse > NEXT_RMSE_MAX) {
            missed.push(format!(
                "the next wall is off by {:.1} % RMSE",
                rmse * 100.0
            ));
        }
        if let Some(all) = self.what_if.last() {
            if all.told < all.asked {
                missed.push(format!(
                    "{} of {} requests half as dear are told",
                    all.told, all.asked
                ));
            }
            if all.rmse > NEXT_RMSE_MAX {
                missed.push(format!(
                    "requests half as dear are off by {:.1} % RMSE",
                    all.rmse * 100.0
                ));
            }
        }
        if self.functions > 0 && share(self.functions_named, self.functions) < RIGHT_MIN {
            missed.push(format!(
                "{} of {} functions behind a wall are named",
                self.functions_named, self.functions
            ));
        }
        if self.slow > 0 {
            missed.push(format!("{} took longer than they may", self.slow));
        }
        for repeats in self.repeats.iter().filter(|repeats| repeats.differ()) {
            let (name, same, runs) = (&repeats.scenario, repeats.same(), repeats.runs);
            missed.push(format!("{name}: {same} of {runs} the same verdict"));
        }
        missed
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_model::record::{Cost, Costs};

    use super::*;
    use crate::found::{Gain, Kind, Next};
    use crate::suite::scenarios;

    const MINUTES: Duration = Duration::from_secs(300);

    fn scenario(name: &str) -> &'static Scenario {
        scenarios().find(|s| s.name == name).expect("in the suite")
    }

    fn found(wall: Wall) -> Found {
        Found {
            kinds: Vec::new(),
            interference: Vec::new(),
            wall,
            how: How::Proved,
            detail: None,
            made_of: None,
            inside: None,
            elasticities: BTreeMap::new(),
            next: None,
            rate: 4_700.0,
            p99_ms: None,
        }
    }

    fn with(mut found: Found, squeeze: &str, value: f64) -> Found {
        let span = Span {
            value: Some(value),
            low: Some(value - 0.05),
            high: Some(value + 0.05),
        };
        found.elasticities.insert(squeeze.to_owned(), span);
        found
    }

    fn outcome(name: &str, mark: Mark) -> Outcome {
        Outcome {
            scenario: name.to_owned(),
            seed: 1,
            asked_again: 0,
            found: Ok(found(Wall::ServerCpu)),
            seconds: 0.0,
            mark,
            detail_named: None,
            function_named: None,
            label_holds: None,
            lifted_rate: None,
            before_rate: None,
            held: Vec::new(),
            half_held: None,
            next_error: None,
            next_unknown: None,
        }
    }

    #[test]
    fn the_label_is_right_another_is_wrong_and_none_is_no_answer() {
        let spin = scenario("spin-200us");
        let of = |wall| mark(spin, &Ok(found(wall)));
        assert_eq!(of(Wall::ServerCpu), Mark::Right);
        assert_eq!(of(Wall::ServerSerial), Mark::Wrong);
        assert_eq!(of(Wall::Inconclusive), Mark::Unanswered);
        assert_eq!(mark(spin, &Err("it failed".into())), Mark::Unanswered);
        // Where nothing can be concluded, saying so is the right answer.
        let drift = scenario("drift");
        assert_eq!(mark(drift, &Ok(found(Wall::Inconclusive))), Mark::Right);
        let so = |how| {
            let server = found(Wall::ServerCpu);
            mark(drift, &Ok(Found { how, ..server }))
        };
        assert_eq!(
            (so(How::Likely), so(How::Proved)),
            (Mark::Right, Mark::Wrong)
        );
    }

    #[test]
    fn numbers_must_be_right_as_well() {
        let sleep = scenario("async-sleep-5ms");
        let of = |found| mark(sleep, &Ok(found));
        let concurrency = || found(Wall::Concurrency);
        assert_eq!(of(concurrency()), Mark::Wrong, "the elasticity is missing");
        assert_eq!(of(with(concurrency(), "in-flight", 0.98)), Mark::Right);
        assert_eq!(of(with(concurrency(), "in-flight", 0.70)), Mark::Wrong);
        let stall = scenario("stall-500ms");
        let mut offered = found(Wall::OfferedLoad);
        assert_eq!(mark(stall, &Ok(offered.clone())), Mark::Wrong);
        offered.p99_ms = Some(440.0);
        assert_eq!(mark(stall, &Ok(offered)), Mark::Right);
    }

    #[test]
    fn without_a_squeeze_no_effect_may_be_seen() {
        let null = scenario("null-spin");
        let of = |found| mark(null, &Ok(found));
        assert_eq!(of(found(Wall::Inconclusive)), Mark::NoEffect);
        assert_eq!(of(found(Wall::Wait)), Mark::NoEffect);
        assert_eq!(of(found(Wall::ServerCpu)), Mark::FalseWall);
        let mut observed = found(Wall::ServerCpu);
        observed.how = How::Observed;
        assert_eq!(of(observed), Mark::NoEffect);
        let effect = |value| of(with(found(Wall::Inconclusive), "uplink", value));
        assert_eq!(effect(0.24), Mark::NoEffect, "the interval reaches 0.19");
        assert_eq!(effect(0.30), Mark::FalseWall);
        assert_eq!(effect(-0.30), Mark::FalseWall);
    }

    #[test]
    fn details_and_labels_are_marked_apart() {
        let neighbour = scenario("neighbour");
        let mut said = found(Wall::ServerCpu);
        assert_eq!(detail_named(neighbour, &said), Some(false));
        said.detail = Some(wallfinder_model::Detail::Neighbour { cores: 0.5 });
        assert_eq!(detail_named(neighbour, &said), Some(true));
        assert_eq!(
            label_holds(neighbour, &said),
            Some(false),
            "4,700/s is too fast"
        );
        assert_eq!(detail_named(scenario("spin-200us"), &said), None);
    }

    #[test]
    fn the_function_behind_a_lock_is_named_or_not() {
        let lock = scenario("lock-sleep-1ms");
        let mut said = found(Wall::Wait);
        assert_eq!(function_named(lock, &said), None, "nobody looked");
        said.inside = Some("88 % of waiting is a futex in main".into());
        assert_eq!(function_named(lock, &said), Some(false));
        said.inside = Some("88 % of waiting is a futex in knownwall::work::Work::request".into());
        assert_eq!(function_named(lock, &said), Some(true));
        assert_eq!(function_named(scenario("spin-200us"), &said), None);
    }

    #[test]
    fn the_next_wall_is_compared_with_what_lifting_gave() {
        let mut before = found(Wall::ServerCpu);
        assert!(told_error(&before, Told::Next(Wall::Downlink), None, 6_600.0).is_err());
        before.next = Some(Next {
            wall: Wall::Downlink,
            ratio: Some(1.40),
        });
        let error = told_error(&before, Told::Next(Wall::Downlink), None, 6_600.0).unwrap();
        assert!((error - (1.40 * 4_700.0 / 6_600.0 - 1.0)).abs() < 1e-12);
        assert!(told_error(&before, Told::Next(Wall::Uplink), None, 6_600.0).is_err());
    }

    /// A run of a mix of which so much was told, and so much came.
    fn halved(name: &str, told: f64, came: f64) -> Outcome {
        let mut found = found(Wall::ServerCpu);
        let Some(Told::Half(dear_name)) = scenario(name).lift.map(|lift| lift.told) else {
            panic!("{name} has a request that is made half as dear");
        };
        let dear = Kind {
            name: dear_name.to_owned(),
            wire_bytes: 0,
            costs: None,
            functions: Vec::new(),
            half_as_dear: Some(Gain {
                ratio: told,
                low: told - 0.05,
                high: told + 0.05,
            }),
        };
        found.kinds = vec![dear];
        let error = told_error(&found, Told::Half(dear_name), Some(1_000.0), 1_000.0 * came);
        Outcome {
            found: Ok(found),
            before_rate: Some(1_000.0),
            lifted_rate: Some(1_000.0 * came),
            ..outcome(name, Mark::Right)
        }
        .with_next(Some(error))
        .marked(scenario(name))
    }

    #[test]
    fn requests_half_as_dear_are_counted_by_themselves_over_seeds_and_scenarios() {
        let runs = [
            halved("routes-cpu", 1.30, 1.25),
            halved("routes-cpu", 1.20, 1.25),
        ];
        let score = Score::of(&runs, MINUTES);
        assert_eq!((score.next, score.next_rmse), (0, None));
        let told: Vec<(&str, usize, usize)> = score
            .what_if
            .iter()
            .map(|it| (it.scenario.as_str(), it.told, it.held))
            .collect();
        assert_eq!(told, [("routes-cpu", 2, 2)]);
        let cpu = &score.what_if[0];
        assert!(
            cpu.mean.abs() < 1e-9 && (cpu.rmse - 0.04).abs() < 1e-9,
            "{cpu:?}"
        );
        let off = [
            halved("routes-cpu", 1.40, 1.25),
            halved("routes-lock", 1.25, 1.25),
        ];
        let score = Score::of(&off, MINUTES);
        assert_eq!(score.what_if.len(), 3);
        let all = score.what_if.last().unwrap();
        assert_eq!((all.told, all.held, all.scenario.as_str()), (2, 1, ""));
        let missed = score.missed();
        assert!(
            missed.contains(&"requests half as dear are off by 8.5 % RMSE".to_owned()),
            "{missed:?}"
        );
    }

    #[test]
    fn costs_that_windows_tell_are_counted_by_scenario_beside_what_they_are() {
        let cost = |each: f64, share: f64| Costs {
            server: Cost {
                each,
                low: each - 20e3,
                high: each + 20e3,
                share,
                share_low: share - 0.01,
                share_high: share + 0.01,
            },
            client: None,
            backend: None,
            held: None,
        };
        let kind = |name: &str, costs| Kind {
            name: name.to_owned(),
            wire_bytes: 0,
            costs: Some(costs),
            functions: Vec::new(),
            half_as_dear: None,
        };
        let mut told = outcome("routes-cpu", Mark::Right);
        told.found = Ok(Found {
            // Of 500 more the one is told as 490, of 60 as 110; the share is 0.505, and told as 0.54.
            kinds: vec![
                kind("light", cost(45e3, 0.28)),
                kind("middle", cost(155e3, 0.2)),
                kind("dear", cost(535e3, 0.54)),
            ],
            ..found(Wall::ServerCpu)
        });
        let untold = outcome("routes-cpu", Mark::Wrong);
        let plain = outcome("spin-200us", Mark::Right);
        let score = Score::of(&[told.clone(), untold.clone(), plain], MINUTES);
        let counted = CostsTold {
            scenario: "routes-cpu".to_owned(),
            asked: 6,
            told: 3,
            near: 2,
            measured: 0,
            held: 0,
        };
        assert_eq!(score.costs, std::slice::from_ref(&counted));
        // Alone the one takes 46 µs, and the other 551: 505 more, and 15 less than was told.
        let held = |name: &str, each_ns: f64, share: f64| Held {
            name: name.to_owned(),
            each_ns: vec![each_ns, each_ns],
            shares: vec![share, share],
        };
        told.held = vec![held("light", 46e3, 0.28), held("dear", 551e3, 0.51)];
        let score = Score::of(&[told, untold], MINUTES);
        let counted = CostsTold {
            measured: 2,
            held: 1,
            ..counted
        };
        assert_eq!(score.costs, [counted]);
    }

    #[test]
    fn the_bar_is_a_bar() {
        let labelled = |right: usize, wrong: usize, unanswered: usize| {
            let marks = [
                (Mark::Right, right),
                (Mark::Wrong, wrong),
                (Mark::Unanswered, unanswered),
            ];
            let all = marks.into_iter().flat_map(|(mark, n)| vec![mark; n]);
            let all: Vec<Outcome> = all.map(|mark| outcome("spin-200us", mark)).collect();
            all
        };
        let missed = |outcomes: &[Outcome]| Score::of(outcomes, MINUTES).missed();
        assert_eq!(missed(&labelled(19, 1, 2)), Vec::<String>::new());
        assert_eq!(missed(&labelled(18, 2, 0)), ["18 of 20 answered are right"]);
        assert_eq!(missed(&labelled(17, 0, 3)), ["17 of 20 are answered"]);
        assert_eq!(missed(&labelled(0, 0, 2)), ["0 of 2 are answered"]);
        let null = [outcome("null-spin", Mark::FalseWall)];
        assert_eq!(missed(&null), ["1 false walls without a squeeze"]);
        let null = [outcome("null-spin", Mark::Unanswered)];
        assert_eq!(missed(&null), ["1 runs without a squeeze failed"]);
        let mut next = labelled(2, 0, 0);
        next[0].next_error = Some(0.06);
        next[1].next_error = Some(-0.08);
        assert_eq!(missed(&next), ["the next wall is off by 7.1 % RMSE"]);
        next[1].next_error = None;
        next[1].next_unknown = Some("none was named".into());
        next[0].next_error = Some(0.01);
        assert_eq!(missed(&next), ["1 of 2 next walls are told"]);
        let mut slow = labelled(2, 0, 0);
        slow[1].seconds = 301.0;
        assert_eq!(missed(&slow), ["1 took longer than they may"]);
        let mut locks = labelled(2, 0, 0);
        locks[0].function_named = Some(true);
        assert_eq!(missed(&locks), Vec::<String>::new());
        locks[1].function_named = Some(false);
        let expected = ["1 of 2 functions behind a wall are named"];
        assert_eq!(missed(&locks), expected);
    }

    #[test]
    fn repeats_are_as_good_as_their_verdicts_are_alike() {
        let run = |wall, how| {
            let mut outcome = outcome("spin-200us", Mark::Right);
            outcome.found = Ok(Found { how, ..found(wall) });
            outcome
        };
        let mut runs = vec![run(Wall::ServerCpu, How::Proved); 8];
        runs.push(run(Wall::ServerCpu, How::Likely));
        runs.push(run(Wall::ServerSerial, How::Likely));
        let repeats = Repeats::of(&runs);
        assert_eq!(repeats[0].most, Some((Wall::ServerCpu, 9)));
        assert_eq!(
            repeats[0].how,
            BTreeMap::from([(How::Proved, 8), (How::Likely, 1)])
        );
        assert_eq!(Score::of(&runs, MINUTES).missed(), Vec::<String>::new());
        // What did not run is no verdict, and so not the same one.
        runs[0].found = Err("not done".into());
        assert_eq!(
            Score::of(&runs, MINUTES).missed(),
            ["spin-200us: 8 of 10 the same verdict"]
        );
        assert_eq!(Repeats::of(&runs[..1]), []);
        assert_eq!(
            Score::of(&runs[8..], MINUTES).missed(),
            Vec::<String>::new(),
            "two runs show nothing"
        );
    }

    #[test]
    fn marks_follow_the_labels() {
        let mut outcome = outcome("spin-200us", Mark::Wrong);
        outcome.found = Ok(found(Wall::ServerCpu));
        let outcome = outcome.marked(scenario("spin-200us"));
        assert_eq!(
            (outcome.mark, outcome.label_holds),
            (Mark::Right, Some(true))
        );
    }
}
