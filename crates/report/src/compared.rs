//! Two settings of a lever in words: the answer in one sentence, and each measure with what
//! its ratio means.

use wallfinder_model::record::{Ab, Ratio};
use wallfinder_model::{Record, Step, Wall};

use crate::{number, words};

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

/// `faster`, `slower`, `less`, `more`, or that no difference is shown.
pub fn effect(ratio: &Ratio) -> &'static str {
    let more = ratio.ratio > 1.0;
    match (ratio.differs, is_speed(&ratio.measure)) {
        (false, _) => "no difference shown",
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

/// The answer in a sentence.
pub fn answer(record: &Record, ab: &Ab) -> String {
    let Some(main) = main(record, ab) else {
        let both = rounds_with_both(record, ab);
        return format!(
            "Not compared: {} both settings, and an interval needs {ROUNDS_MIN}.",
            match both {
                0 => "no round has".to_owned(),
                1 => "only one round has".to_owned(),
                n => format!("only {n} rounds have"),
            }
        );
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
    // An interval that leaves 1 out is what the correction for many measures widened.
    let (low, high) = (main.low.min(1.0), main.high.max(1.0));
    let wide = high - 1.0 > NEAR / 2.0 || 1.0 - low > NEAR / 2.0;
    let more = if wide {
        " More or longer rounds would narrow that."
    } else {
        ""
    };
    format!(
        "No difference shown{what}: if there is one, it is within {} and {}.{more}",
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
    for (at, (round, is_b)) in ab.order.iter().enumerate() {
        let index = rounds
            .iter()
            .position(|(known, _, _)| known == round)
            .unwrap_or_else(|| {
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
        assert_eq!(effect(&ratio("p99", 0.5, 0.4, 0.6, true)), "faster");
        assert_eq!(effect(&ratio("throughput", 0.5, 0.4, 0.6, true)), "slower");
        assert_eq!(effect(&ratio("server-cpu", 0.5, 0.4, 0.6, true)), "less");
        assert_eq!(
            effect(&ratio("server-cpu", 0.9, 0.4, 1.6, false)),
            "no difference shown"
        );
    }
}
