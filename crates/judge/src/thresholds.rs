//! Thresholds: `p99<5ms`, `errors<0.1%`, `rps>20k`.
//!
//! ```text
//!  threshold = [name:] measure op limit
//!  measure   = p0..p100 (p99.9) | mean | min | max | errors | unavailable | rps
//!  op        = < | <= | > | >=
//!  limit     = a duration with its unit | a share (0.1% or 0.001) | a rate (20k)
//! ```
//!
//! With a name it is of one kind of request of a mix, or of one session, which is over when its last step is answered.
//!
//! A threshold without samples fails: what was not measured was not met. So does an upper limit of a
//! latency that requests without an answer could lift.
//!
//! `errors` is the share of what ended that failed; where nothing could be reached for a larger share of
//! the window's time, it is that, for a client that waits before it tries again fails seldom.
//! `unavailable` is the share of that time alone.

use std::fmt;
use std::str::FromStr;

use wallfinder_model::reason::{Ended, Unreachable};
use wallfinder_model::record::Histogram;
use wallfinder_model::{Nanos, Rate, Step};

use crate::bounds::{Bounds, unanswered_of_part};
use crate::finite::known;
use crate::{histogram, identity, unanswered};

/// One condition on a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// As written.
    pub text: String,
    /// The request or session that it is of; `None`: all.
    pub name: Option<String>,
    /// What it is of.
    pub measure: Measure,
    op: Op,
    /// In the measure's unit: nanoseconds, share, requests per second.
    limit: f64,
}

/// What a threshold is of, and in which unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measure {
    /// A quantile of latency, 0..1; nanoseconds.
    Quantile(f64),
    /// Mean latency, nanoseconds.
    Mean,
    /// The least latency, nanoseconds.
    Min,
    /// The greatest latency, nanoseconds.
    Max,
    /// Failures as a share, 0..1.
    Errors,
    /// Share of the window without a connection, 0..1.
    Unavailable,
    /// Good answers per second.
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

/// What became of a threshold. A value has the unit of its measure.
#[derive(Debug, Clone, PartialEq)]
pub enum Crossing {
    /// It was kept.
    Kept {
        /// The value.
        value: f64,
    },
    /// It was breached.
    Breached {
        /// The value.
        value: f64,
        /// When the server could not be reached, where that is in the value.
        away: Option<Unreachable>,
    },
    /// It would be kept, had not requests without an answer room to lift the value above it.
    AtLeast {
        /// The value.
        value: f64,
        /// So many of them.
        unanswered: u64,
    },
    /// Nothing was answered well.
    NothingAnswered {
        /// How requests ended.
        ended: Vec<Ended>,
    },
    /// A foreign driver does not tell the value.
    NotTold {
        /// Which.
        driver: String,
    },
    /// The value was not measured.
    NotMeasured,
    /// Nothing has the threshold's name.
    NoSuch {
        /// Names that there are.
        there: Vec<String>,
    },
}

impl Crossing {
    /// Whether it was kept.
    pub fn holds(&self) -> bool {
        matches!(self, Crossing::Kept { .. })
    }
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
        let (left, rest) = text.split_at(at);
        let (name, measure) = match left.rsplit_once(':') {
            Some((name, measure)) => (Some(name.trim().to_owned()), measure),
            None => (None, left),
        };
        let (op, limit) = match (rest.as_bytes()[0], rest.as_bytes().get(1)) {
            (b'<', Some(b'=')) => (Op::LessOrEqual, &rest[2..]),
            (b'<', _) => (Op::Less, &rest[1..]),
            (_, Some(b'=')) => (Op::MoreOrEqual, &rest[2..]),
            _ => (Op::More, &rest[1..]),
        };
        let measure = Measure::parse(measure.trim()).ok_or_else(|| {
            bad("the measure is none of p50, p99.9, mean, min, max, errors, unavailable, rps")
        })?;
        if name.is_some() && measure == Measure::Unavailable {
            return Err(bad(
                "a server is away for all requests alike: leave the name out",
            ));
        }
        let limit = measure.limit(limit.trim()).map_err(|why| bad(&why))?;
        Ok(Threshold {
            text: text.trim().to_owned(),
            name,
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
            _ => self.of_latency(latency?),
        }
    }

    /// The value in times; `None` for what is none of them.
    fn of_latency(self, latency: &Histogram) -> Option<f64> {
        match self {
            Measure::Mean => known(latency.mean_ns),
            Measure::Min => Some(latency.min_ns as f64),
            Measure::Max => Some(latency.max_ns as f64),
            Measure::Quantile(quantile) => {
                let named = histogram::NAMED
                    .iter()
                    .find(|(_, q)| (q - quantile).abs() < 1e-9)
                    .and_then(|(name, _)| latency.quantile_ns(name));
                let whole = || histogram::decode(latency).ok()?.quantile_ns(quantile);
                named.or_else(whole).map(|ns| ns as f64)
            }
            Measure::Errors | Measure::Unavailable | Measure::Throughput => None,
        }
    }

    /// The value of a kind of request, or of a session; none without samples.
    fn of_named(self, part: &Part) -> Option<f64> {
        let ended = part.good + part.bad;
        match self {
            Measure::Errors => (ended > 0).then(|| part.bad as f64 / ended as f64),
            Measure::Unavailable => None,
            Measure::Throughput => (part.good > 0).then_some(part.throughput).and_then(known),
            _ => self.of_latency(part.latency.filter(|latency| latency.count > 0)?),
        }
    }
}

/// What has a name: a kind of request, or a session.
struct Part<'s> {
    begun: u64,
    good: u64,
    bad: u64,
    throughput: f64,
    latency: Option<&'s Histogram>,
}

impl Part<'_> {
    fn of<'s>(step: &'s Step, name: &str) -> Option<Part<'s>> {
        if let Some(kind) = step.requests.iter().find(|kind| kind.name == name) {
            return Some(Part {
                begun: kind.sent,
                good: kind.answered,
                bad: kind.failed.values().sum(),
                throughput: kind.throughput,
                latency: kind.latency.as_ref(),
            });
        }
        let session = step.sessions.iter().find(|session| session.name == name)?;
        Some(Part {
            begun: session.begun,
            good: session.completed,
            bad: session.broken_off,
            throughput: session.completed as f64 * 1e9 / step.window_ns.max(1) as f64,
            latency: session.took.as_ref(),
        })
    }

    fn names(step: &Step) -> Vec<String> {
        let requests = step.requests.iter().map(|kind| kind.name.clone());
        let sessions = step.sessions.iter().map(|session| session.name.clone());
        requests.chain(sessions).collect()
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
    /// Requests without an answer that could lift the measure above its upper limit.
    fn unanswered_within(&self, step: &Step) -> u64 {
        let is_upper = matches!(self.op, Op::Less | Op::LessOrEqual);
        let Some(bounds) = Bounds::of(step).filter(|_| is_upper) else {
            return 0;
        };
        let is_of_time = matches!(
            self.measure,
            Measure::Quantile(_) | Measure::Mean | Measure::Max
        );
        if let Some(part) = self.name.as_ref().and_then(|name| Part::of(step, name)) {
            let left = part.begun.saturating_sub(part.good + part.bad);
            let quantile = match self.measure {
                Measure::Quantile(quantile) => quantile,
                _ => 1.0,
            };
            return match is_of_time {
                true => unanswered_of_part(left, bounds.unanswered(), part.good, quantile),
                false => 0,
            };
        }
        let could_lift = match self.measure {
            Measure::Quantile(quantile) => bounds.bounds(quantile),
            Measure::Mean => bounds.bounds_mean(),
            Measure::Max => true,
            Measure::Min | Measure::Errors | Measure::Unavailable | Measure::Throughput => false,
        };
        if could_lift { bounds.unanswered() } else { 0 }
    }

    /// Holds the threshold against a step.
    pub fn evaluate(&self, step: &Step) -> Crossing {
        let part = match &self.name {
            None => None,
            Some(name) => match Part::of(step, name) {
                Some(part) => Some(part),
                None => {
                    return Crossing::NoSuch {
                        there: Part::names(step),
                    };
                }
            },
        };
        let value = match &part {
            None => self.measure.of(step),
            Some(part) => self.measure.of_named(part),
        };
        let Some(value) = value else {
            return match unanswered::nothing_answered(step) {
                Some(ended) => Crossing::NothingAnswered { ended },
                None if step.driver.command.is_some() => Crossing::NotTold {
                    driver: step.driver.name.clone(),
                },
                None => Crossing::NotMeasured,
            };
        };
        let kept = match self.op {
            Op::Less => value < self.limit,
            Op::LessOrEqual => value <= self.limit,
            Op::More => value > self.limit,
            Op::MoreOrEqual => value >= self.limit,
        };
        match (kept, self.unanswered_within(step)) {
            (true, 0) => Crossing::Kept { value },
            (true, unanswered) => Crossing::AtLeast { value, unanswered },
            (false, _) => {
                let of_outage = matches!(self.measure, Measure::Errors | Measure::Unavailable);
                let away = of_outage.then(|| unanswered::unreachable(step)).flatten();
                Crossing::Breached { value, away }
            }
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
    fn with_a_name_a_threshold_is_of_one_request_or_session() {
        use wallfinder_model::record::{RequestKind, SessionKind};
        let mut step = a_step().build();
        step.window_ns = 2_000_000_000;
        step.requests = vec![RequestKind {
            name: "GET: a".to_owned(),
            answered: 90,
            failed: [("check.status".to_owned(), 10)].into(),
            throughput: 45.0,
            latency: step.latency.clone(),
            ..RequestKind::default()
        }];
        step.sessions = vec![SessionKind {
            name: "buy".to_owned(),
            completed: 8,
            broken_off: 2,
            ..SessionKind::default()
        }];
        assert_eq!(
            check("GET: a: errors<20%", &step),
            Crossing::Kept { value: 0.1 }
        );
        assert_eq!(
            check("GET: a: rps>40", &step),
            Crossing::Kept { value: 45.0 }
        );
        assert_eq!(check("GET: a:p50<1h", &step), check("p50<1h", &step));
        let away = None;
        assert_eq!(
            check("buy: errors<10%", &step),
            Crossing::Breached { value: 0.2, away }
        );
        assert_eq!(check("buy: rps>3", &step), Crossing::Kept { value: 4.0 });
        let there = vec!["GET: a".to_owned(), "buy".to_owned()];
        assert_eq!(check("by: p99<1h", &step), Crossing::NoSuch { there });
        assert!("buy: unavailable<1%".parse::<Threshold>().is_err());
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
            assert_eq!(crossing.holds(), holds, "{text}: {crossing:?}");
        }
        let (value, away) = (6e6, None);
        assert_eq!(check("p99<5ms", &step), Crossing::Breached { value, away });
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
            assert_eq!(crossing.holds(), holds, "{text}: {crossing:?}");
        }
        let crossing = check("p99<5ms", &step);
        let unanswered = 27;
        assert!(
            matches!(crossing, Crossing::AtLeast { unanswered: n, .. } if n == unanswered),
            "{crossing:?}"
        );
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
            let away = Some(Unreachable {
                at_ns: Some(1_500_000_000),
                for_ns: 3_500_000_000,
                outages: 1,
            });
            let value = 0.7;
            assert_eq!(
                check(text, &step),
                Crossing::Breached { value, away },
                "{text}"
            );
        }
        assert!(check("unavailable<71%", &step).holds());
        assert!(check("errors>50%", &step).holds());
        // Nothing is diluted where the requests themselves failed more.
        let mut failing = step;
        failing
            .counts
            .failed
            .insert("status.5xx".into(), failing.counts.answered * 9);
        assert!(!check("errors<89%", &failing).holds());
        assert!(check("unavailable<71%", &failing).holds());
    }

    #[test]
    fn where_all_is_reachable_unavailable_is_0_and_of_another_driver_it_is_not_known() {
        let reachable = a_step().build();
        let none = Crossing::Kept { value: 0.0 };
        assert_eq!(check("unavailable<1%", &reachable), none);
        let mut foreign = reachable;
        foreign.driver.command = Some("wrk".into());
        let driver = foreign.driver.name.clone();
        assert_eq!(
            check("unavailable<1%", &foreign),
            Crossing::NotTold { driver }
        );
    }

    #[test]
    fn without_samples_it_is_known_what_failed() {
        let refused = a_step().throughput(0.0).with(|step| {
            step.counts
                .connect_failures
                .insert("net.refused".into(), 37);
        });
        let ended = vec![Ended::NotConnected {
            count: 37,
            class: "net.refused".into(),
        }];
        assert_eq!(
            check("p99<5ms", &refused.build()),
            Crossing::NothingAnswered { ended }
        );
    }

    #[test]
    fn without_samples_every_threshold_fails() {
        let step = a_step().throughput(0.0).build();
        for text in ["p99<1h", "errors<100%", "rps>0", "p37>0ns", "max<1h"] {
            assert!(!check(text, &step).holds(), "{text}");
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
                prop_assert!(!threshold.evaluate(&a_step().throughput(0.0).build()).holds());
            }
        }
    }
}
