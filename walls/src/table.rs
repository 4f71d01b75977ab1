//! What is printed: a line for each scenario, its elasticities below, and the score.

use std::fmt::Write as _;

use wallfinder_model::verdict::How;

use crate::costs::CostsTold;
use crate::found::Found;
use crate::scenario::{Expect, Scenario, Told};
use crate::score::{Outcome, Repeats, Score, WhatIf};

/// An elasticity beyond this, or whose interval reaches beyond it, is shown.
const SHOWN: f64 = 0.15;

/// The line above the others.
pub fn header() -> String {
    format!(
        "{:<28}{:<25}{:<14}{:<13}{:>9}  {:>5}  mark",
        "scenario", "expected", "verdict", "how", "rate/s", "s"
    )
}

/// One scenario: a line, its elasticities, and whatever else a reader must know.
pub fn line(scenario: &Scenario, outcome: &Outcome) -> String {
    let mark = outcome.mark.word();
    let expected = expected(scenario);
    let seconds = outcome.seconds;
    let name = scenario.name;
    let mut text = match &outcome.found {
        Ok(found) => format!(
            "{name:<28}{expected:<25}{:<14}{:<13}{:>9.0}  {seconds:>5.0}  {mark}\n",
            found.wall.label(),
            how(found.how),
            found.rate,
        ),
        Err(why) => format!("{name:<28}{expected:<25}{why}  {seconds:.0}  {mark}\n"),
    };
    if let Ok(found) = &outcome.found {
        text += &below(found, outcome, scenario);
    }
    text
}

fn below(found: &Found, outcome: &Outcome, scenario: &Scenario) -> String {
    let mut text = String::new();
    for (squeeze, span) in &found.elasticities {
        let [value, low, high] = [span.value, span.low, span.high].map(|n| n.unwrap_or(f64::NAN));
        if [value, low, high].iter().any(|n| n.abs() >= SHOWN) {
            let _ = writeln!(text, "    {squeeze:<18}{value:>6.2} [{low:.2}, {high:.2}]");
        }
    }
    if outcome.detail_named.is_some() || found.detail.is_some() {
        let word = match outcome.detail_named {
            Some(true) => " (named)",
            Some(false) => " (not what it is)",
            None => "",
        };
        let detail = found.made_of.as_deref().unwrap_or("none");
        let _ = writeln!(text, "    detail: {detail}{word}");
    }
    if let (Some(named), Some(inside)) = (outcome.function_named, &found.inside) {
        let word = if named { "named" } else { "not what it is" };
        let _ = writeln!(text, "    inside: {inside} ({word})");
    }
    if let (Some(false), Some((least, most))) = (outcome.label_holds, scenario.rate) {
        let _ = writeln!(
            text,
            "    the label holds from {least}/s to {most}/s: in doubt here"
        );
    }
    let told = match scenario.lift.map(|lift| lift.told) {
        Some(Told::Half(_)) => "half as dear",
        _ => "next wall",
    };
    if let Some(error) = outcome.next_error {
        let held = match outcome.half_held {
            Some(true) => ", within its interval",
            Some(false) => ", beyond its interval",
            None => "",
        };
        let _ = writeln!(text, "    {told}: off by {:+.1} %{held}", error * 100.0);
    }
    if let Some(why) = &outcome.next_unknown {
        let _ = writeln!(text, "    {told}: {why}");
    }
    for pair in &found.interference {
        let [one, other] = &pair.between;
        let _ = writeln!(
            text,
            "    {one} and {other} cost each other: {:.0} % [{:.0}, {:.0}]",
            pair.share * 100.0,
            pair.share_low * 100.0,
            pair.share_high * 100.0
        );
    }
    text
}

fn expected(scenario: &Scenario) -> String {
    match scenario.expect {
        Expect::NoEffect => "no effect".to_owned(),
        Expect::Wall { walls, .. } => {
            let labels: Vec<&str> = walls.iter().map(|wall| wall.label()).collect();
            labels.join(" or ")
        }
    }
}

/// How a verdict was established, in a word.
pub(crate) const fn how(how: How) -> &'static str {
    match how {
        How::Inconclusive => "inconclusive",
        How::Observed => "observed",
        How::Likely => "likely",
        How::Proved => "proved",
    }
}

/// The sum, and the bar.
pub fn score(score: &Score) -> String {
    let mut text = format!(
        "right {} of {} answered, {} of them by squeezes · {} of {} answered · false walls {} of {} · details named {} of {} · functions named {} of {}\n",
        score.right,
        score.answered,
        score.right_by_squeezes,
        score.answered,
        score.labelled,
        score.false_walls,
        score.null,
        score.details_named,
        score.details,
        score.functions_named,
        score.functions,
    );
    if let Some(rmse) = score.next_rmse {
        let (told, all) = (score.next_told, score.next);
        let _ = writeln!(
            text,
            "next wall {:.1} % RMSE over {told} of {all}",
            rmse * 100.0
        );
    }
    score
        .what_if
        .iter()
        .for_each(|what_if| text += &halved(what_if));
    score
        .costs
        .iter()
        .for_each(|costs| text += &costs_told(costs));
    if score.asked_again > 0 {
        let n = score.asked_again;
        let _ = writeln!(text, "asked again for want of an answer: {n}");
    }
    if score.not_looked_into > 0 {
        let n = score.not_looked_into;
        let _ = writeln!(
            text,
            "{n} with a function to be named showed nothing inside"
        );
    }
    if score.labels_doubtful > 0 {
        let n = score.labels_doubtful;
        let _ = writeln!(text, "{n} ran at a rate at which the label is in doubt");
    }
    score
        .repeats
        .iter()
        .for_each(|repeats| text += &alike(repeats));
    match score.missed().as_slice() {
        [] => text += "the bar is met\n",
        missed => {
            let _ = writeln!(text, "the bar is missed: {}", missed.join("; "));
        }
    }
    text
}

fn costs_told(costs: &CostsTold) -> String {
    let CostsTold {
        scenario,
        asked,
        told,
        near,
        measured,
        held,
    } = costs;
    format!(
        "costs of requests, {}: {told} of {asked} told, {near} within a tenth of what they are; of {measured} measured alone \
         intervals held {held}\n",
        of_which(scenario),
    )
}

fn of_which(scenario: &str) -> &str {
    match scenario {
        "" => "all of them",
        name => name,
    }
}

/// A mean with twice its error says whether there is a bias.
fn halved(what_if: &WhatIf) -> String {
    let WhatIf {
        scenario,
        asked,
        told,
        mean,
        mean_error,
        rmse,
        held,
    } = what_if;
    let of = of_which(scenario);
    let spread = match mean_error.is_finite() {
        true => format!(" ± {:.1}", 200.0 * mean_error),
        false => String::new(),
    };
    format!(
        "half as dear, {of}: {:.1} % RMSE over {told} of {asked}, {:+.1}{spread} % in the mean, intervals held {held} of {told}\n",
        100.0 * rmse,
        100.0 * mean,
    )
}

fn alike(repeats: &Repeats) -> String {
    let (name, same, runs) = (&repeats.scenario, repeats.same(), repeats.runs);
    let Some((wall, _)) = repeats.most else {
        return format!("{name}: no verdict in {runs} runs\n");
    };
    let hows: Vec<String> = repeats
        .how
        .iter()
        .rev()
        .map(|(established, times)| format!("{times} {}", how(*established)))
        .collect();
    format!(
        "{name}: {same} of {runs} the same verdict, {} ({})\n",
        wall.label(),
        hows.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::found;
    use crate::score::{detail_named, function_named, label_holds, mark};
    use crate::suite::SUITE;

    #[test]
    fn a_line_says_what_was_expected_and_what_came() {
        let scenario = SUITE.iter().find(|s| s.name == "neighbour").unwrap();
        let found = found::read(include_bytes!("../testdata/record.json")).unwrap();
        let outcome = Outcome {
            scenario: scenario.name.to_owned(),
            seed: 1,
            asked_again: 0,
            mark: mark(scenario, &Ok(found.clone())),
            detail_named: detail_named(scenario, &found),
            function_named: function_named(scenario, &found),
            label_holds: label_holds(scenario, &found),
            found: Ok(found),
            seconds: 61.4,
            lifted_rate: None,
            before_rate: None,
            held: Vec::new(),
            half_held: None,
            next_error: Some(-0.031),
            next_unknown: None,
        };
        let expected = "\
neighbour                   server-cpu               server-cpu    proved            4700     61  right
    server-speed        1.02 [0.97, 1.06]
    detail: neighbour: others used 0.5 of its cores (named)
    the label holds from 1800/s to 2600/s: in doubt here
    next wall: off by -3.1 %
";
        assert_eq!(line(scenario, &outcome), expected);
        let minutes = Duration::from_secs(300);
        let said = score(&Score::of(std::slice::from_ref(&outcome), minutes));
        assert!(
            said.starts_with("right 1 of 1 answered, 1 of them by squeezes")
                && said.ends_with("the bar is met\n")
        );
        assert!(!said.contains("asked again"), "{said}");
        let again = Outcome {
            asked_again: 1,
            ..outcome.clone()
        };
        let said = score(&Score::of(&[outcome, again], minutes));
        assert!(
            said.contains("asked again for want of an answer: 1\n"),
            "{said}"
        );
        let alike = "neighbour: 2 of 2 the same verdict, server-cpu (2 proved)\n";
        assert!(said.contains(alike), "{said}");
    }
}
