//! What a run was held to, and was not kept.

use wallfinder_judge::require::Requirement;
use wallfinder_judge::thresholds::{Crossing, Measure, Threshold};
use wallfinder_model::{Nanos, Verdict};

use super::ended::{away, ended, time};
use crate::number;

/// What became of a threshold: `p99<5ms: breached, it was 6 ms`.
pub fn threshold(threshold: &Threshold, crossing: &Crossing) -> String {
    let shown = |value: f64| match threshold.measure {
        Measure::Errors | Measure::Unavailable => {
            format!("{} %", number::trimmed(&format!("{:.3}", value * 100.0)))
        }
        Measure::Throughput => format!("{value:.0}/s"),
        _ => Nanos(value as u64).to_string(),
    };
    let became = match crossing {
        Crossing::Kept { value } => format!("kept, it was {}", shown(*value)),
        Crossing::Breached { value, away: None } => format!("breached, it was {}", shown(*value)),
        Crossing::Breached {
            value,
            away: Some(when),
        } => format!(
            "breached, it was {}: the server could not be reached {}",
            shown(*value),
            away(when, time)
        ),
        Crossing::AtLeast { value, unanswered } => format!(
            "failed, it was at least {}: {unanswered} requests had no answer when the load ended",
            shown(*value)
        ),
        Crossing::NothingAnswered { ended: how } => {
            format!("failed, nothing was answered well: {}", ended(how))
        }
        Crossing::NotTold { driver } => format!("failed, {driver} does not tell it"),
        Crossing::NotMeasured => "failed, it was not measured".to_owned(),
        Crossing::NoSuch { there } => match there.is_empty() {
            true => "failed, one request is sent, which has no name".to_owned(),
            false => format!(
                "failed, nothing has that name; there is {}",
                there.join(", ")
            ),
        },
    };
    format!("{}: {became}", threshold.text)
}

/// A requirement that does not hold of a verdict.
pub fn unmet(requirement: Requirement, verdict: Option<&Verdict>) -> String {
    match verdict {
        None => format!("{requirement} was required, and there is no verdict"),
        Some(verdict) => {
            let wall = verdict.wall.label();
            format!("{requirement} was required, and the wall is {wall}")
        }
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_model::reason::Unreachable;

    use super::*;

    #[test]
    fn what_became_of_a_threshold_is_said_with_its_value_and_why() {
        let away = Some(Unreachable {
            at_ns: Some(1_500_000_000),
            for_ns: 3_500_000_000,
            outages: 1,
        });
        let breached = |value, away| Crossing::Breached { value, away };
        for (text, crossing, became) in [
            ("p99<5ms", breached(6e6, None), "breached, it was 6 ms"),
            (
                "rps>20k",
                breached(19_999.6, None),
                "breached, it was 20000/s",
            ),
            (
                "errors<1%",
                breached(0.7, away),
                "breached, it was 70 %: the server could not be reached for 3.5 s from 1.5 s on",
            ),
            (
                "max<1s",
                Crossing::AtLeast {
                    value: 2e9,
                    unanswered: 27,
                },
                "failed, it was at least 2 s: 27 requests had no answer when the load ended",
            ),
            (
                "unavailable<1%",
                Crossing::NotTold {
                    driver: "wrk".into(),
                },
                "failed, wrk does not tell it",
            ),
            (
                "errors<1%",
                Crossing::Kept { value: 0.0012 },
                "kept, it was 0.12 %",
            ),
        ] {
            let parsed: Threshold = text.parse().expect("a threshold");
            assert_eq!(threshold(&parsed, &crossing), format!("{text}: {became}"));
        }
    }
}
