//! Thresholds: `p99<5ms`, `errors<0.1%`, `rps>20k`.
//!
//! ```text
//!  threshold = measure op limit
//!  measure   = p0..p100 (p99.9) | mean | min | max | errors | unavailable | rps
//!  op        = < | <= | > | >=
//!  limit     = a duration with its unit | a share (0.1% or 0.001) | a rate (20k)
//! ```
//!
//! A threshold without samples fails: what was not measured was not met. So does an upper limit of a
//! latency that requests without an answer could lift.
//!
//! `errors` is the share of what ended that failed; where nothing could be reached for a larger share of
//! the window's time, it is that, for a client that waits before it tries again fails seldom.
//! `unavailable` is the share of that time alone.

use std::fmt;
use std::str::FromStr;

use wallfinder_model::{Nanos, Rate, Step};

use crate::bounds::Bounds;
use crate::finite::known;
use crate::words::trimmed;
use crate::{histogram, identity, unanswered};

/// One condition on a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    measure: Measure,
    op: Op,
    /// In the measure's unit: nanoseconds, share, requests per second.
    limit: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Measure {
    /// A quantile of latency, 0..1.
    Quantile(f64),
    Mean,
    Min,
    Max,
    Errors,
    Unavailable,
    Throughput,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

/// A text that is no threshold; the message says what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadThreshold(String);

impl fmt::Display for BadThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadThreshold {}

/// What became of a threshold.
#[derive(Debug, Clone, PartialEq)]
pub struct Crossing {
    /// The threshold as written.
    pub threshold: String,
    /// The measured value: nanoseconds, share, or requests per second.
    pub value: Option<f64>,
    /// Whether it was kept.
    pub holds: bool,
    /// In words, with the value.
    pub sentence: String,
}

impl FromStr for Threshold {
    type Err = BadThreshold;

    fn from_str(text: &str) -> Result<Threshold, BadThreshold> {
        let bad = |why: &str| {
            BadThreshold(format!(
                "`{text}` is not a threshold such as p99<5ms, errors<0.1% or rps>20k: {why}"
            ))
        };
        let at = text
            .find(['<', '>'])
            .ok_or_else(|| bad("it has no < or >"))?;
        let (name, rest) = text.split_at(at);
        let (op, limit) = match (rest.as_bytes()[0], rest.as_bytes().get(1)) {
            (b'<', Some(b'=')) => (Op::LessOrEqual, &rest[2..]),
            (b'<', _) => (Op::Less, &rest[1..]),
            (_, Some(b'=')) => (Op::MoreOrEqual, &rest[2..]),
            _ => (Op::More, &rest[1..]),
        };
        let measure = Measure::parse(name.trim()).ok_or_else(|| {
            bad("the measure is none of p50, p99.9, mean, min, max, errors, unavailable, rps")
        })?;
        let limit = measure.limit(limit.trim()).map_err(|why| bad(&why))?;
        Ok(Threshold {
            text: text.trim().to_owned(),
            measure,
            op,
            limit,
        })
    }
}

impl Measure {
    fn parse(name: &str) -> Option<Measure> {
        Some(match name {
            "mean" | "avg" => Measure::Mean,
            "med" => Measure::Quantile(0.5),
            "min" => Measure::Min,
            "max" => Measure::Max,
            "errors" => Measure::Errors,
            "unavailable" => Measure::Unavailable,
            "rps" | "throughput" => Measure::Throughput,
            _ => {
                let percent: f64 = name
                    .strip_prefix('p')
                    .filter(|digits| digits.starts_with(|c: char| c.is_ascii_digit()))?
                    .parse()
                    .ok()?;
                return (0.0..=100.0)
                    .contains(&percent)
                    .then_some(Measure::Quantile(percent / 100.0));
            }
        })
    }

    fn limit(self, text: &str) -> Result<f64, String> {
        match self {
            Measure::Errors | Measure::Unavailable => share(text),
            Measure::Throughput => match text {
                "0" => Ok(0.0),
                text => text.parse::<Rate>().map(|rate| rate.0).map_err(|e| e.0),
            },
            _ if text.ends_with(|c: char| c.is_ascii_digit()) => {
                Err(format!("`{text}` needs a unit, such as ms"))
            }
            _ => text.parse::<Nanos>().map(|ns| ns.0 as f64).map_err(|e| e.0),
        }
    }

    /// The value in a step; none without samples.
    fn of(self, step: &Step) -> Option<f64> {
        let latency = step.latency.as_ref().filter(|latency| latency.count > 0);
        match self {
            Measure::Errors => {
                let counts = &step.counts;
                let ended = counts.answered > 0 || identity::worst_class(counts).is_some();
                ended.then(|| unanswered::failure_share(step))
            }
            // Of another driver's connections nothing is known.
            Measure::Unavailable => (step.driver.command.is_none() && step.window_ns > 0)
                .then(|| unanswered::unreachable_share(step)),
            Measure::Throughput => (step.counts.answered > 0)
                .then_some(step.throughput)
                .and_then(known),
            Measure::Mean => latency.and_then(|l| known(l.mean_ns)),
            Measure::Min => latency.map(|l| l.min_ns as f64),
            Measure::Max => latency.map(|l| l.max_ns as f64),
            Measure::Quantile(quantile) => {
                let latency = latency?;
                let named = histogram::NAMED
                    .iter()
                    .find(|(_, q)| (q - quantile).abs() < 1e-9)
                    .and_then(|(name, _)| latency.quantile_ns(name));
                let whole = || histogram::decode(latency).ok()?.quantile_ns(quantile);
                named.or_else(whole).map(|ns| ns as f64)
            }
        }
    }

    fn words(self, value: f64) -> String {
        match self {
            Measure::Errors | Measure::Unavailable => {
                format!("{} %", trimmed(value * 100.0, 3))
            }
            Measure::Throughput => format!("{value:.0}/s"),
            _ => Nanos(value as u64).to_string(),
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let (digits, unit) = match text.strip_suffix('%') {
        Some(digits) => (digits.trim(), 0.01),
        None => (text, 1.0),
    };
    let plain = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    match digits.parse::<f64>() {
        Ok(value) if plain && (0.0..=1.0).contains(&(value * unit)) => Ok(value * unit),
        _ => Err(format!("`{text}` is not a share such as 0.1% or 0.001")),
    }
}

impl Threshold {
    /// Why there is nothing to hold it against.
    fn without_samples(&self, step: &Step) -> String {
        match unanswered::nothing_answered(step) {
            Some(why) => format!("nothing was answered well: {why}"),
            None if step.driver.command.is_some() => {
                format!("{} does not tell it", step.driver.name)
            }
            None => "it was not measured".to_owned(),
        }
    }

    /// Requests without an answer that could lift the measure above its upper limit.
    fn unanswered_within(&self, step: &Step) -> u64 {
        let is_upper = matches!(self.op, Op::Less | Op::LessOrEqual);
        let Some(bounds) = Bounds::of(step).filter(|_| is_upper) else {
            return 0;
        };
        let could_lift = match self.measure {
            Measure::Quantile(quantile) => bounds.bounds(quantile),
            Measure::Mean => bounds.bounds_mean(),
            Measure::Max => true,
            Measure::Min | Measure::Errors | Measure::Unavailable | Measure::Throughput => false,
        };
        if could_lift { bounds.unanswered() } else { 0 }
    }

    /// What a breach is due to, beside its number.
    fn because(&self, step: &Step, holds: bool) -> String {
        let of_outage = matches!(self.measure, Measure::Errors | Measure::Unavailable);
        match unanswered::unreachable_in_words(step).filter(|_| of_outage && !holds) {
            Some(when) => format!(": the server could not be reached {when}"),
            None => String::new(),
        }
    }

    /// Holds the threshold against a step.
    pub fn evaluate(&self, step: &Step) -> Crossing {
        let value = self.measure.of(step);
        let kept = value.is_some_and(|value| match self.op {
            Op::Less => value < self.limit,
            Op::LessOrEqual => value <= self.limit,
            Op::More => value > self.limit,
            Op::MoreOrEqual => value >= self.limit,
        });
        let unanswered = self.unanswered_within(step);
        let holds = kept && unanswered == 0;
        let sentence = match value {
            None => format!("{}: failed, {}", self.text, self.without_samples(step)),
            Some(value) if kept && !holds => format!(
                "{}: failed, it was at least {}: {unanswered} requests had no answer when the load ended",
                self.text,
                self.measure.words(value)
            ),
            Some(value) => format!(
                "{}: {}, it was {}{}",
                self.text,
                if holds { "kept" } else { "breached" },
                self.measure.words(value),
                self.because(step, holds)
            ),
        };
        Crossing {
            threshold: self.text.clone(),
            value,
            holds,
            sentence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::a_step;
    use proptest::prelude::*;
    use wallfinder_model::record::Outage;

    fn check(text: &str, step: &Step) -> Crossing {
        text.parse::<Threshold>().unwrap().evaluate(step)
    }

    #[test]
    fn thresholds_read_as_users_write_them() {
        let step = a_step()
            .throughput(20_500.0)
            .latency_ms(3.0, 2.5)
            .with(|step| {
                step.counts.failed.insert("status.5xx".into(), 100);
            })
            .build();
        for (text, holds) in [
            ("p50<3ms", true),
            ("p99 <= 6ms", true),
            ("p99<5ms", false),
            ("mean>=3ms", true),
            ("max<1s", true),
            ("rps>20k", true),
            ("rps > 21k", false),
            ("errors<0.1%", true),
            ("errors<0.0001", false),
        ] {
            let crossing = check(text, &step);
            assert_eq!(crossing.holds, holds, "{}", crossing.sentence);
        }
        assert_eq!(
            check("p99<5ms", &step).sentence,
            "p99<5ms: breached, it was 6 ms"
        );
    }

    #[test]
    fn an_upper_limit_of_a_lower_bound_is_not_kept() {
        let step = a_step()
            .latency_ms(3.0, 2.5)
            .with(|step| {
                let values = (0..1000).map(|n| 1_000_000 + n * 1_000);
                step.latency = Some(histogram::tests::of(values).to_record());
                step.drained = Some(wallfinder_model::record::Drained {
                    in_flight: 27,
                    oldest_ns: 5_000_000_000,
                    ..Default::default()
                });
            })
            .build();
        for (text, holds) in [
            ("p50<5ms", true),
            ("p99<5ms", false),
            ("max<1s", false),
            ("mean<5ms", false),
            ("p99>1ms", true),
            ("min<5ms", true),
        ] {
            let crossing = check(text, &step);
            assert_eq!(crossing.holds, holds, "{}", crossing.sentence);
        }
        let sentence = check("p99<5ms", &step).sentence;
        assert!(sentence.contains("at least"), "{sentence}");
        assert!(sentence.contains("27 requests"), "{sentence}");
    }

    #[test]
    fn a_server_that_cannot_be_reached_breaches_errors_and_unavailable_however_seldom_it_is_tried()
    {
        let step = a_step()
            .with(|step| {
                step.window_ns = 5_000_000_000;
                step.load.warmup.0 = 0;
                step.counts.connect_failures.insert("net.refused".into(), 9);
                step.counts.unreachable_ns = 3_500_000_000;
                step.outages.push(Outage {
                    at_ns: 1_500_000_000,
                    for_ns: 3_500_000_000,
                });
            })
            .build();
        for text in [
            "errors<1%",
            "errors<=69%",
            "unavailable<1%",
            "unavailable<0.7",
        ] {
            let crossing = check(text, &step);
            assert!(!crossing.holds, "{}", crossing.sentence);
            assert!(
                crossing.sentence.ends_with(
                    "breached, it was 70 %: the server could not be reached for 3.5 s from 1.5 s on"
                ),
                "{}",
                crossing.sentence
            );
        }
        assert!(check("unavailable<71%", &step).holds);
        assert!(check("errors>50%", &step).holds);
        // Nothing is diluted where the requests themselves failed more.
        let mut failing = step;
        failing
            .counts
            .failed
            .insert("status.5xx".into(), failing.counts.answered * 9);
        assert!(!check("errors<89%", &failing).holds);
        assert!(check("unavailable<71%", &failing).holds);
    }

    #[test]
    fn where_all_is_reachable_unavailable_is_0_and_of_another_driver_it_is_not_known() {
        let reachable = a_step().build();
        assert_eq!(check("unavailable<1%", &reachable).value, Some(0.0));
        let mut foreign = reachable;
        foreign.driver.command = Some("wrk".into());
        let crossing = check("unavailable<1%", &foreign);
        assert!(!crossing.holds && crossing.value.is_none());
        assert!(
            crossing.sentence.ends_with("does not tell it"),
            "{}",
            crossing.sentence
        );
    }

    #[test]
    fn without_samples_it_is_said_what_failed() {
        let refused = a_step().throughput(0.0).with(|step| {
            step.counts
                .connect_failures
                .insert("net.refused".into(), 37);
        });
        assert_eq!(
            check("p99<5ms", &refused.build()).sentence,
            "p99<5ms: failed, nothing was answered well: 37 attempts to connect failed as net.refused"
        );
    }

    #[test]
    fn without_samples_every_threshold_fails() {
        let step = a_step().throughput(0.0).build();
        for text in ["p99<1h", "errors<100%", "rps>0", "p37>0ns", "max<1h"] {
            assert!(!check(text, &step).holds, "{text}");
        }
    }

    #[test]
    fn what_is_no_threshold_is_refused_with_a_reason() {
        for text in [
            "",
            "p99",
            "p99<",
            "p99<5",
            "p101<5ms",
            "pnan<1ms",
            "errors<5x",
            "errors<200%",
            "rps>nan",
            "speed>3",
            "p99=5ms",
            "errors<-1%",
            "rps>inf",
        ] {
            assert!(text.parse::<Threshold>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(p|rps|errors|mean)?[0-9.]{0,4}[<>]?=?.{0,8}") {
            if let Ok(threshold) = text.parse::<Threshold>() {
                prop_assert!(!threshold.evaluate(&a_step().throughput(0.0).build()).holds);
            }
        }
    }
}
