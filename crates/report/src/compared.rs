//! Two settings of a lever in words: the answer in one sentence, and each measure with what
//! its ratio means.

use std::collections::HashMap;

use wallfinder_judge::bounds::is_bound;
use wallfinder_judge::unanswered;
use wallfinder_model::record::{Ab, CostBound, CostOutcome, Ratio, Sign, SignKind};
use wallfinder_model::{Record, Step, Wall};

use crate::{number, said, words};

/// Fewer rounds than these give no interval.
pub const ROUNDS_MIN: u32 = 3;
/// Fewer rounds than these make a wide one.
pub const ROUNDS_WISHED: u32 = 6;

/// Whether more of a measure is better: `None` for a cost that has no better word.
fn more_is_better(measure: &str) -> bool {
    measure == "throughput"
}

/// Whether a measure is of time: it is faster or slower; costs are less or more.
fn is_speed(measure: &str) -> bool {
    measure == "throughput" || measure.starts_with('p')
}

/// A measure as tables name it.
pub fn measure(name: &str) -> String {
    match name {
        "throughput" => "requests/s".to_owned(),
        "server-cpu" => "server CPU each".to_owned(),
        "client-cpu" => "client CPU each".to_owned(),
        "downlink-bytes" => "bytes down each".to_owned(),
        other => other.to_owned(),
    }
}

/// A value of a measure, with its unit where the name does not say it.
pub fn value(measure: &str, value: f64) -> String {
    match measure {
        "throughput" => number::amount(value),
        "downlink-bytes" => number::bytes(value),
        name if name.starts_with('p') || name.ends_with("cpu") => number::span(value),
        _ => number::amount(value),
    }
}

/// `faster`, `slower`, `less`, `more`, or that no difference is shown: of a setting that is not known
/// to have acted there is none to show.
pub fn effect(ab: &Ab, ratio: &Ratio) -> &'static str {
    let more = ratio.ratio > 1.0;
    match (ratio.differs, is_speed(&ratio.measure)) {
        (false, _) => match idle(ab) {
            None => "no difference shown",
            Some(sign) if sign.acted.is_none() => "not known to act",
            Some(_) => "not applicable",
        },
        (true, true) if more == more_is_better(&ratio.measure) => "faster",
        (true, true) => "slower",
        (true, false) if more => "more",
        (true, false) => "less",
    }
}

/// `[2.01, 2.09]`: as many digits as tell its ends from its centre, two at least.
pub fn interval(ratio: &Ratio) -> String {
    let digits = digits(ratio);
    format!(
        "[{}, {}]",
        number::fixed(ratio.low, digits),
        number::fixed(ratio.high, digits)
    )
}

/// The centre, as exact as its interval.
pub fn centre(ratio: &Ratio) -> String {
    number::fixed(ratio.ratio, digits(ratio))
}

fn digits(ratio: &Ratio) -> usize {
    let half = (ratio.high - ratio.low).abs() / 2.0;
    if half < 0.02 && ratio.ratio < 1.2 {
        3
    } else {
        2
    }
}

/// The measure that the answer is about: throughput, and the tail where the rate was given.
pub fn main<'r>(record: &Record, ab: &'r Ab) -> Option<&'r Ratio> {
    let open = record.steps.iter().any(|step| step.load.arrival.is_open());
    let order: &[&str] = if open {
        &["p99", "p50", "throughput"]
    } else {
        &["throughput", "p50"]
    };
    order
        .iter()
        .find_map(|name| ab.ratios.iter().find(|ratio| ratio.measure == *name))
}

/// The first setting of the host that did not act, else the first of which that is not known.
fn idle(ab: &Ab) -> Option<&Sign> {
    let of = |acted: Option<bool>| ab.signs.iter().find(move |sign| sign.acted == acted);
    of(Some(false)).or_else(|| of(None))
}

/// What showed of each setting of the host, but for the one that the answer is about.
pub fn proofs(ab: &Ab) -> Vec<String> {
    let told = idle(ab).filter(|_| !ab.ratios.is_empty());
    let told = told.map(|sign| &sign.setting);
    let signs = ab.signs.iter().filter(|sign| !sign.steps.is_empty());
    signs
        .filter(|sign| Some(&sign.setting) != told)
        .map(|sign| format!("{}: {}.", sign.setting, proof(sign)))
        .collect()
}

/// What showed whether a setting of the host acted: `B had 412 MB in huge pages, A none`.
fn proof(sign: &Sign) -> String {
    let (Some(a), Some(b)) = (sign.a, sign.b) else {
        let unseen = match sign.kind {
            _ if sign.steps.is_empty() => "nothing is kept of what it did",
            SignKind::HugeBytes => "the server's memory could not be looked at",
            SignKind::Steered => "the kernel's counts of receive work could not be read",
            SignKind::Polled => "the kernel's counts of polled packets could not be read",
            SignKind::Interrupts => "where interrupts go could not be read",
        };
        return unseen.to_owned();
    };
    let amount = |value: f64| match (sign.kind, value > 0.0) {
        (_, false) => "none".to_owned(),
        (SignKind::HugeBytes, true) => number::bytes(value),
        (_, true) => number::amount(value),
    };
    let (a, b) = (amount(a), amount(b));
    match sign.kind {
        SignKind::HugeBytes => format!("B had {b} in huge pages, A {a}"),
        SignKind::Steered => format!("B had receive work handed over {b} times a turn, A {a}"),
        SignKind::Polled => format!("B had {b} packets polled for in a turn, A {a}"),
        SignKind::Interrupts => format!("B had {b} interrupts where it wants them, A {a}"),
    }
}

/// The answer in a sentence.
pub fn answer(record: &Record, ab: &Ab) -> String {
    if let Some(setting) = unanswered::setting_unanswered(&record.steps, &ab.order) {
        return format!("Not compared: {}.", said::unanswered(&setting));
    }
    if let Some(sign) = idle(ab).filter(|_| !ab.ratios.is_empty()) {
        return idle_answer(record, ab, sign);
    }
    if let Some(bound) = &ab.at_most_cost
        && let Some(text) = bound_answer(ab, bound)
    {
        return text;
    }
    let Some(main) = main(record, ab) else {
        let both = rounds_with_both(record, ab);
        let few = match both {
            0 => "no round has".to_owned(),
            1 => "only one round has".to_owned(),
            n if n < ROUNDS_MIN => format!("only {n} rounds have"),
            _ => {
                return "Not compared: too few rounds have good answers of both settings."
                    .to_owned();
            }
        };
        return format!("Not compared: {few} both settings, and an interval needs {ROUNDS_MIN}.");
    };
    let known = [main.ratio, main.low, main.high]
        .iter()
        .all(|value| value.is_finite() && *value > 0.0);
    if !known {
        return "Not known: the rounds are too few or too unlike to tell.".to_owned();
    }
    if main.differs {
        differs(main)
    } else {
        no_difference(main)
    }
}

/// The answer where a setting of the host did not act, or nobody can say whether it did.
fn idle_answer(record: &Record, ab: &Ab, sign: &Sign) -> String {
    let (setting, proof) = (&sign.setting, proof(sign));
    let known = match sign.acted {
        Some(_) => format!("Not applicable: {setting} did not act here. {proof}."),
        None => format!("Not known whether {setting} acted: {proof}."),
    };
    let rest = match main(record, ab) {
        Some(main) if main.differs => format!("Something else differs: {}", differs(main)),
        Some(main) => format!("What else may differ is within {}.", limits(main)),
        None => String::new(),
    };
    format!("{known} {rest}").trim_end().to_owned()
}

/// What the rounds say of the bound on B's cost, where they say anything.
fn bound_answer(ab: &Ab, bound: &CostBound) -> Option<String> {
    let outcome = bound.outcome?;
    let mut ratios = ab.ratios.iter();
    let ratio = ratios.find(|ratio| ratio.measure == "throughput")?;
    let by = |ratio: f64| number::signed_share(ratio - 1.0);
    let rounds = words::counted(u64::from(ratio.rounds), "round");
    let seen = format!(
        "the difference is {} [{}, {}] over {rounds}",
        by(ratio.ratio),
        by(ratio.low),
        by(ratio.high)
    );
    let share = number::share(bound.share);
    Some(match outcome {
        CostOutcome::Shown => format!("B costs at most {share} of A's throughput: shown, {seen}."),
        CostOutcome::NotMet => format!("B costs more than {share} of A's throughput: {seen}."),
        CostOutcome::NotDecided => format!(
            "Whether B costs at most {share} of A's throughput is not decided: {seen}. More or \
             longer rounds would narrow that."
        ),
    })
}

/// Beyond this the ratio is said as a factor, within it in percent.
const NEAR: f64 = 0.2;

fn differs(main: &Ratio) -> String {
    let more = main.ratio > 1.0;
    let far = (main.ratio - 1.0).abs() > NEAR;
    let share = |value: f64| number::signed_share(value - 1.0);
    if far {
        let (factor, interval) = (centre(main), interval(main));
        return match main.measure.as_str() {
            "throughput" => {
                format!("B answers {factor} × as many requests as A {interval}.")
            }
            name => format!("B's {name} is {factor} × that of A {interval}."),
        };
    }
    let by = number::share((main.ratio - 1.0).abs());
    let interval = format!("[{}, {}]", share(main.low), share(main.high));
    match main.measure.as_str() {
        "throughput" => {
            let word = if more { "more" } else { "fewer" };
            format!("B answers {by} {word} requests than A {interval}.")
        }
        name => {
            let word = if more { "longer" } else { "shorter" };
            format!("B's {name} is {by} {word} than that of A {interval}.")
        }
    }
}

fn no_difference(main: &Ratio) -> String {
    let what = match main.measure.as_str() {
        "throughput" => String::new(),
        name => format!(" in {name}"),
    };
    let wide = main.high - 1.0 > NEAR / 2.0 || 1.0 - main.low > NEAR / 2.0;
    let more = if wide {
        " More or longer rounds would narrow that."
    } else {
        ""
    };
    format!(
        "No difference shown{what}: if there is one, it is within {}.{more}",
        limits(main)
    )
}

/// `−1.2 % and +0.9 %`: how far a difference could go that is not shown.
fn limits(main: &Ratio) -> String {
    // An interval that leaves 1 out is what the correction for many measures widened.
    let (low, high) = (main.low.min(1.0), main.high.max(1.0));
    format!(
        "{} and {}",
        number::signed_share(low - 1.0),
        number::signed_share(high - 1.0)
    )
}

/// Rounds in which both settings were measured.
pub fn rounds_with_both(record: &Record, ab: &Ab) -> u32 {
    rounds(record, ab)
        .iter()
        .filter(|(_, a, b)| a.is_some() && b.is_some())
        .count() as u32
}

/// Each round with its step of A and of B, as far as they were measured.
pub fn rounds<'r>(record: &'r Record, ab: &Ab) -> Vec<(u32, Option<&'r Step>, Option<&'r Step>)> {
    let mut rounds: Vec<(u32, Option<&Step>, Option<&Step>)> = Vec::new();
    let mut places: HashMap<u32, usize> = HashMap::new();
    for (at, (round, is_b)) in ab.order.iter().enumerate() {
        let index = *places.entry(*round).or_insert_with(|| {
            rounds.push((*round, None, None));
            rounds.len() - 1
        });
        let place = if *is_b {
            &mut rounds[index].2
        } else {
            &mut rounds[index].1
        };
        *place = record.steps.get(at);
    }
    rounds
}

/// The steps of one setting.
pub fn steps_of<'r>(record: &'r Record, ab: &Ab, is_b: bool) -> Vec<&'r Step> {
    record
        .steps
        .iter()
        .zip(&ab.order)
        .filter(|(_, (_, of_b))| *of_b == is_b)
        .map(|(step, _)| step)
        .collect()
}

/// How many rounds there were, and what is missing of them.
pub fn rounds_in_words(record: &Record, ab: &Ab) -> String {
    let planned = rounds(record, ab).len() as u64;
    let both = u64::from(rounds_with_both(record, ab));
    let words = words::counted(planned, "round");
    if both == planned {
        format!("{words}, A and B in turn")
    } else {
        format!("{both} of {words} with both A and B")
    }
}

/// What binds a setting, by the telemetry of its steps: `the downlink`, or `the downlink in
/// 5 of 6 windows`.
pub fn bound_by(record: &Record, ab: &Ab, is_b: bool) -> Option<String> {
    let (wall, count, all) = commonest_wall(record, ab, is_b)?;
    let name = match wall {
        Wall::Inconclusive => "not decided",
        wall => wall.words(),
    };
    Some(if count == all {
        name.to_owned()
    } else {
        format!("{name} in {count} of {all} windows")
    })
}

fn commonest_wall(record: &Record, ab: &Ab, is_b: bool) -> Option<(Wall, usize, usize)> {
    let walls: Vec<Wall> = steps_of(record, ab, is_b)
        .iter()
        .filter_map(|step| Some(step.verdict.as_ref()?.wall))
        .collect();
    let count = |wall: Wall| walls.iter().filter(|other| **other == wall).count();
    let wall = Wall::ALL
        .into_iter()
        .filter(|wall| walls.contains(wall))
        .max_by_key(|wall| count(*wall))?;
    Some((wall, count(wall), walls.len()))
}

/// What a reader must know of this comparison, beside the doubts of its steps.
pub fn careful(record: &Record, ab: &Ab) -> Vec<String> {
    let mut careful = Vec::new();
    let planned = rounds(record, ab).len() as u32;
    let both = rounds_with_both(record, ab);
    if ab.order.len() < record.steps.len() {
        careful.push(format!(
            "{} steps belong to no round; they are in no ratio.",
            record.steps.len() - ab.order.len()
        ));
    }
    if both < planned {
        careful.push(format!(
            "{} lack a setting and are in no ratio.",
            words::counted(u64::from(planned - both), "round")
        ));
    }
    careful.extend(lower_bounds(record, ab));
    if (ROUNDS_MIN..ROUNDS_WISHED).contains(&both) {
        careful.push(format!(
            "{both} rounds make a wide interval; {ROUNDS_WISHED} or more (--rounds) make a better one."
        ));
    }
    for (is_b, name, other) in [(false, "A", "B"), (true, "B", "A")] {
        if let Some((Wall::ClientCpu, count, all)) = commonest_wall(record, ab, is_b)
            && 2 * count > all
        {
            careful.push(format!(
                "With {name} the load generator's CPU binds: the server could do more, and {name} over {other} is then not the server's own."
            ));
        }
    }
    let unshown = ab
        .ratios
        .iter()
        .any(|ratio| !ratio.differs && (ratio.low > 1.0 || ratio.high < 1.0));
    if unshown {
        careful.push(format!(
            "An interval may leave 1 out without a difference being shown: {} measures were looked at, and one of them will stray by chance.",
            ab.ratios.len()
        ));
    }
    careful
}

/// Which quantiles are lower bounds, and so left out of their ratios, and in how many windows.
fn lower_bounds(record: &Record, ab: &Ab) -> Option<String> {
    let steps = || record.steps.iter().take(ab.order.len());
    let moved = ["p50", "p99", "p99.9"].into_iter().filter_map(|name| {
        let windows = steps().filter(|step| is_bound(step, name)).count();
        (windows > 0).then(|| format!("{name} in {windows}"))
    });
    let moved: Vec<String> = moved.collect();
    let windows = words::counted(steps().count() as u64, "window");
    (!moved.is_empty()).then(|| {
        format!(
            "Left out of ratios, since requests without an answer make it a lower bound: {} of {windows}.",
            moved.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(measure: &str, ratio: f64, low: f64, high: f64, differs: bool) -> Ratio {
        Ratio {
            measure: measure.into(),
            a: 1.0,
            b: ratio,
            ratio,
            low,
            high,
            rounds: 6,
            differs,
            pace_explained: None,
        }
    }

    #[test]
    fn the_answer_is_a_factor_or_a_percentage() {
        assert_eq!(
            differs(&ratio("throughput", 2.05, 2.01, 2.09, true)),
            "B answers 2.05 × as many requests as A [2.01, 2.09]."
        );
        assert_eq!(
            differs(&ratio("throughput", 0.968, 0.96, 0.975, true)),
            "B answers 3 % fewer requests than A [−4 %, −2.5 %]."
        );
        assert_eq!(
            no_difference(&ratio("throughput", 0.999, 0.988, 1.009, false)),
            "No difference shown: if there is one, it is within −1.2 % and +0.9 %."
        );
        assert!(no_difference(&ratio("throughput", 1.0, 0.6, 1.5, false)).contains("narrow"));
    }

    #[test]
    fn less_time_is_faster_and_less_cost_is_less() {
        let ab = Ab::default();
        let effect = |measure: &str, differs| effect(&ab, &ratio(measure, 0.5, 0.4, 0.6, differs));
        assert_eq!(effect("p99", true), "faster");
        assert_eq!(effect("throughput", true), "slower");
        assert_eq!(effect("server-cpu", true), "less");
        assert_eq!(effect("server-cpu", false), "no difference shown");
    }

    fn huge_pages(a: Option<f64>, b: Option<f64>, acted: Option<bool>) -> Sign {
        Sign {
            setting: "huge-pages=always".to_owned(),
            kind: SignKind::HugeBytes,
            steps: vec![a, b],
            a,
            b,
            acted,
        }
    }

    #[test]
    fn without_a_setting_that_acted_no_difference_is_none() {
        let with = |signs: Vec<Sign>| Ab {
            signs,
            ..Ab::default()
        };
        let none = ratio("throughput", 1.0, 0.99, 1.01, false);
        let acted = huge_pages(Some(0.0), Some(4e8), Some(true));
        assert_eq!(proof(&acted), "B had 400 MB in huge pages, A none");
        let idle = huge_pages(Some(0.0), Some(0.0), Some(false));
        let unseen = huge_pages(None, None, None);
        for (signs, says) in [
            (vec![acted.clone()], "no difference shown"),
            (vec![acted.clone(), idle.clone()], "not applicable"),
            (vec![acted.clone(), unseen.clone()], "not known to act"),
            (vec![unseen, idle.clone()], "not applicable"),
        ] {
            assert_eq!(effect(&with(signs), &none), says);
        }
        let shown = ratio("throughput", 0.5, 0.4, 0.6, true);
        assert_eq!(effect(&with(vec![idle]), &shown), "slower");
    }

    #[test]
    fn what_is_kept_of_a_setting_stands_beside_the_answer_once() {
        let mut ab = Ab {
            signs: vec![
                huge_pages(Some(0.0), Some(4e8), Some(true)),
                Sign {
                    setting: "rps=0-1".to_owned(),
                    kind: SignKind::Steered,
                    ..huge_pages(Some(0.0), Some(0.0), Some(false))
                },
            ],
            ratios: vec![ratio("throughput", 1.0, 0.99, 1.01, false)],
            ..Ab::default()
        };
        let kept = "huge-pages=always: B had 400 MB in huge pages, A none.";
        assert_eq!(proofs(&ab), [kept], "the other is in the answer");
        ab.signs[1].steps.clear();
        ab.ratios.clear();
        assert_eq!(proofs(&ab), [kept], "nothing was measured of the other");
    }

    #[test]
    fn a_bound_on_cost_is_answered_with_its_interval() {
        let said = |outcome| {
            let bound = CostBound {
                share: 0.02,
                outcome,
            };
            let ab = Ab {
                ratios: vec![ratio("throughput", 0.995, 0.99, 1.0, false)],
                ..Ab::default()
            };
            bound_answer(&ab, &bound)
        };
        let seen = "the difference is −0.5 % [−1 %, 0 %] over 6 rounds.";
        assert_eq!(
            said(Some(CostOutcome::Shown)),
            Some(format!(
                "B costs at most 2 % of A's throughput: shown, {seen}"
            ))
        );
        assert_eq!(
            said(Some(CostOutcome::NotMet)),
            Some(format!("B costs more than 2 % of A's throughput: {seen}"))
        );
        let open = said(Some(CostOutcome::NotDecided)).unwrap();
        assert!(open.contains("is not decided"), "{open}");
        assert!(open.contains(seen), "{open}");
        assert_eq!(said(None), None);
    }
}
