//! What must hold before a wall may be called proved.
//!
//! A gate that fails is said. Most take *proved* down to *likely*; failures, stolen time or
//! drift beyond measure leave nothing to be said.

use std::collections::BTreeMap;

use wallfinder_model::experiment::{Experiment, Window};
use wallfinder_model::record::Histogram;
use wallfinder_model::verdict::Evidence;
use wallfinder_model::{Caveat, Step};

use super::estimate::{ALPHA, Estimate};
use super::pace;
use super::pairs;
use crate::caveats::{ERRORS_MAX, STEAL_MAX};
use crate::finite::{known, mean, median, positive, ratio};
use crate::identity;
use crate::little;
use crate::steady;
use crate::student;
use crate::words::{capital, percent, trimmed};

/// Shams against shams must read nothing within this, in ln of throughput.
pub(super) const NULL_MAX: f64 = 0.02;
/// Failures from here leave nothing to be said of walls.
const ERRORS_TOO_MANY: f64 = 0.10;
/// Stolen time from here leaves nothing to be said of walls.
const STEAL_TOO_MUCH: f64 = 0.10;
/// N over X·R so many times beyond what can be leaves nothing to be said of walls: what is counted is
/// not what happens.
const LITTLE_TOO_MUCH: f64 = 2.0;
/// A level that moved this much is not one level.
const DRIFT_TOO_MUCH: f64 = 0.20;
/// Bytes per second of a driver's load, over those that its report was about or under them, from
/// which its answers may be others.
const OTHER_ANSWERS: f64 = 1.5;

/// One gate that failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failed {
    pub(super) words: String,
    pub(super) caveat: Caveat,
    /// Nothing can be said.
    pub(super) fatal: bool,
}

/// All gates of one experiment.
#[derive(Debug, Clone)]
pub(super) struct Gates {
    pub(super) failed: Vec<Failed>,
    /// The effect of nothing, in ln of throughput.
    pub(super) null: Option<Estimate>,
    /// That it is not known to be small, where it is not.
    pub(super) null_is_wide: Option<Failed>,
}

impl Gates {
    pub(super) fn of(step: &Step, experiment: &Experiment, doubts: &[Caveat]) -> Gates {
        let shams = pairs::shams(experiment);
        // How fast the machine was is neither drift nor an effect of nothing.
        let at_one_pace = pace::at_one_pace(experiment);
        let null = pairs::null_effect(&at_one_pace);
        let mut failed: Vec<Failed> = [
            errors(step, experiment),
            uncounted(step, experiment),
            other_answers(step, &shams, experiment),
            steal(experiment),
            drift(&pairs::shams(&at_one_pace)),
            little(step, &shams, experiment),
            shared(experiment),
        ]
        .into_iter()
        .flatten()
        .collect();
        failed.extend(schedule(doubts, experiment));
        Gates {
            failed,
            null,
            null_is_wide: null_effect(null),
        }
    }

    pub(super) fn pass(&self) -> bool {
        self.all_failed().next().is_none()
    }

    /// Whether all of them hold but that on the effect of nothing, which fails.
    pub(super) fn only_null_is_wide(&self) -> bool {
        self.failed.is_empty() && self.null_is_wide.is_some()
    }

    pub(super) fn all_failed(&self) -> impl Iterator<Item = &Failed> {
        self.failed.iter().chain(&self.null_is_wide)
    }

    pub(super) fn fatal(&self) -> Option<&Failed> {
        self.failed.iter().find(|failed| failed.fatal)
    }

    /// The comparison of nothing with nothing, as evidence.
    pub(super) fn evidence(&self) -> Option<Evidence> {
        let null = self.null?;
        let (low, high) = null.interval(ALPHA);
        let text = if high.is_finite() {
            format!(
                "windows with nothing squeezed differed by {} % to {} % from their neighbours",
                hundredths(low),
                hundredths(high)
            )
        } else {
            "too few windows with nothing squeezed to compare them".to_owned()
        };
        Some(Evidence {
            text,
            measure: "proof.null_effect".to_owned(),
            value: null.value,
        })
    }
}

pub(super) fn note(text: String) -> Caveat {
    Caveat::Note { text }
}

/// A small difference in per cent: `-1.2`.
fn hundredths(value: f64) -> String {
    let tenths = (1000.0 * value).round() / 10.0;
    // Without the sign of a negative zero.
    trimmed(tenths + 0.0, 1)
}

/// Failures with nothing squeezed: those of the windows and, of a foreign driver, whose windows show
/// none, those that it reports of the same load.
fn errors(step: &Step, experiment: &Experiment) -> Option<Failed> {
    // Under a squeeze a server may well refuse; with none it should not.
    let mut counts = (0u64, 0u64);
    for window in &experiment.windows {
        if experiment.is_sham(window) {
            counts.0 = counts.0.saturating_add(window.failed);
            counts.1 = counts
                .1
                .saturating_add(window.answered)
                .saturating_add(window.failed);
        }
    }
    let seen = ratio(counts.0 as f64, counts.1 as f64).unwrap_or(0.0);
    let reported = match experiment.setting.own_engine {
        true => 0.0,
        false => identity::failure_share(&step.counts),
    };
    let share = Some(seen.max(reported)).filter(|share| *share > ERRORS_MAX)?;
    Some(Failed {
        words: format!(
            "{} of the requests failed with nothing squeezed",
            percent(share)
        ),
        caveat: Caveat::Errors {
            share,
            class: identity::worst_class(&step.counts)
                .unwrap_or("any")
                .to_owned(),
        },
        fatal: share > ERRORS_TOO_MANY,
    })
}

/// On the wire an error is as good as an answer: where a driver's report was not understood, nobody
/// has counted failures.
fn uncounted(step: &Step, experiment: &Experiment) -> Option<Failed> {
    let nobody = !experiment.setting.own_engine && step.driver.throughput_from == "wire";
    nobody.then(|| {
        let words = "nobody counted failures: the driver's own report was not understood, and on \
                     the wire an error is as good as an answer";
        Failed {
            words: words.to_owned(),
            caveat: note(format!("{}.", capital(words))),
            fatal: false,
        }
    })
}

/// A driver's bytes come much faster or slower than those of the load that it reported on: they may
/// be of other answers, such as errors.
fn other_answers(step: &Step, shams: &[&Window], experiment: &Experiment) -> Option<Failed> {
    if experiment.setting.own_engine {
        return None;
    }
    let rates: Vec<f64> = shams.iter().map(|sham| sham.throughput).collect();
    let change = ratio(median(&rates)?, step.throughput).and_then(positive)?;
    (change.ln().abs() > OTHER_ANSWERS.ln()).then(|| {
        let words = format!(
            "the wire carries {} of the bytes per second that the driver's load had before",
            percent(change)
        );
        Failed {
            caveat: note(format!(
                "With no squeeze {words}: its answers may be others by now, such as errors."
            )),
            words,
            fatal: false,
        }
    })
}

fn steal(experiment: &Experiment) -> Option<Failed> {
    let shares: Vec<f64> = experiment.windows.iter().map(|w| w.steal_share).collect();
    let share = mean(&shares)
        .and_then(known)
        .filter(|share| *share > STEAL_MAX)?;
    Some(Failed {
        words: format!("the hypervisor took {} of the processors", percent(share)),
        caveat: Caveat::StealAbove { share },
        fatal: share > STEAL_TOO_MUCH,
    })
}

/// A change of level across the shams.
fn drift(shams: &[&Window]) -> Option<Failed> {
    let levels = levels(shams);
    let jump = steady::change_point(&levels).map(|p| (p.before, p.after, p.index));
    let slope = steady::drift(&levels).map(|(first, last)| (first, last, levels.len() / 2));
    // A slope reads as a jump of half its height, so the larger of the two is meant.
    let (before, after, at) = [slope, jump]
        .into_iter()
        .flatten()
        .max_by(|a, b| (a.1 / a.0).ln().abs().total_cmp(&(b.1 / b.0).ln().abs()))?;
    let change = ratio(after, before)?;
    Some(Failed {
        words: format!(
            "with nothing squeezed throughput moved to {} of what it was",
            percent(change)
        ),
        caveat: Caveat::NotSteady {
            ratio: change,
            at_ns: shams[at].from_ns,
        },
        fatal: (change - 1.0).abs() > DRIFT_TOO_MUCH,
    })
}

/// Throughput of the shams as if one start of the server had served them all. What starts
/// differ by is what each of them drew, and no drift, unless it goes one way; what all of them
/// do while they last goes on from each to the next.
fn levels(shams: &[&Window]) -> Vec<f64> {
    let as_seen = || shams.iter().map(|sham| sham.throughput).collect();
    let mut starts: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    for sham in shams {
        starts.entry(sham.restart).or_default().push(point(sham));
    }
    if starts.len() < 2 {
        return as_seen();
    }
    let centres: BTreeMap<u32, (f64, f64)> = starts
        .iter()
        .map(|(start, own)| (*start, centre(own)))
        .collect();
    let slope = slope_within(&starts);
    // Where starts decline and later ones are shorter, their centres rise; so they are
    // compared as they began.
    let begun = |(start, own): (&u32, &Vec<(f64, f64)>)| {
        let ((middle, level), (first, _)) = (centres[start], own[0]);
        (first, level + slope * (first - middle))
    };
    let begun: Vec<(f64, f64)> = starts.iter().map(begun).collect();
    if goes_one_way(&begun) {
        return as_seen();
    }
    let all: Vec<(f64, f64)> = starts.into_values().flatten().collect();
    let (middle, mean) = centre(&all);
    let joined = |sham: &&Window| {
        let ((_, y), (t, level)) = (point(sham), centres[&sham.restart]);
        (mean + y - level + slope * (t - middle)).exp()
    };
    shams.iter().map(joined).collect()
}

/// A window's middle in seconds, and its ln throughput.
fn point(window: &Window) -> (f64, f64) {
    let middle_ns = window.from_ns / 2 + window.to_ns / 2;
    (middle_ns as f64 / 1e9, window.throughput.ln())
}

fn centre(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len() as f64;
    points
        .iter()
        .fold((0.0, 0.0), |s, p| (s.0 + p.0 / n, s.1 + p.1 / n))
}

/// What every start does while it lasts: the common slope of its windows; 0 where there may be none.
/// A start that warms up does so at first, and one that drifts goes on.
fn slope_within(starts: &BTreeMap<u32, Vec<(f64, f64)>>) -> f64 {
    /// A slope is believed from so many standard errors on.
    const ERRORS_MIN: f64 = 4.0;
    /// That of the later windows alone, which are fewer.
    const ERRORS_LATER_MIN: f64 = 2.0;
    let later = |own: &Vec<(f64, f64)>| own[own.len() / 3..].to_vec();
    let whole = common_slope(starts.values().cloned());
    let goes_on = common_slope(starts.values().map(later));
    match (whole, goes_on) {
        (Some((slope, error)), Some((later, error_later)))
            if slope.abs() > ERRORS_MIN * error
                && later * slope.signum() > ERRORS_LATER_MIN * error_later =>
        {
            slope
        }
        _ => 0.0,
    }
}

/// One slope for groups of points that each have a level of their own, and its standard error.
fn common_slope(groups: impl Iterator<Item = Vec<(f64, f64)>>) -> Option<(f64, f64)> {
    let mut apart: Vec<(f64, f64)> = Vec::new();
    let mut levels = 0;
    for group in groups {
        let (middle, level) = centre(&group);
        apart.extend(group.iter().map(|(t, y)| (t - middle, y - level)));
        levels += 1;
    }
    let degrees = apart.len().checked_sub(levels + 1).filter(|d| *d > 0)?;
    let time = positive(apart.iter().map(|(t, _)| t * t).sum::<f64>())?;
    let slope = apart.iter().map(|(t, y)| t * y).sum::<f64>() / time;
    let left: f64 = apart.iter().map(|(t, y)| (y - slope * t).powi(2)).sum();
    Some((slope, (left / degrees as f64 / time).sqrt()))
}

/// Whether points lie on a line that is not level, beyond one chance in a hundred.
fn goes_one_way(points: &[(f64, f64)]) -> bool {
    const ALPHA_LINE: f64 = 0.01;
    let n = points.len() as f64;
    if points.len() < 4 {
        return false;
    }
    let (t, y) = centre(points);
    let time: f64 = points.iter().map(|p| (p.0 - t).powi(2)).sum();
    let slope = points.iter().map(|p| (p.0 - t) * (p.1 - y)).sum::<f64>() / time.max(1e-9);
    let left: f64 = points
        .iter()
        .map(|p| (p.1 - y - slope * (p.0 - t)).powi(2))
        .sum();
    let error = (left / (n - 2.0) / time.max(1e-9)).sqrt();
    slope.abs() > student::quantile(ALPHA_LINE, n - 2.0) * error
}

/// N = X·R over the shams, but for what their edges and failures explain. R is the time in flight: of the
/// windows latency is known, of which the step says how much passes before a request is sent. In an open
/// loop latency counts from the intended instant, and the law does not hold for it.
fn little(step: &Step, shams: &[&Window], experiment: &Experiment) -> Option<Failed> {
    if experiment.setting.open_loop {
        return None;
    }
    let mean = |time: &Option<Histogram>| time.as_ref().and_then(|time| positive(time.mean_ns));
    let sent = mean(&step.service)
        .zip(mean(&step.latency))
        .map_or(1.0, |(service, latency)| (service / latency).min(1.0));
    let laws: Vec<(f64, f64, f64)> = shams
        .iter()
        .filter_map(|sham| law(step, sham, sent))
        .collect();
    let each = |of: fn(&(f64, f64, f64)) -> f64| median(&laws.iter().map(of).collect::<Vec<f64>>());
    let off = each(|law| law.0)?;
    // Edges of several windows are not off all at once, and failures are.
    let edges = each(|law| law.1)? / (laws.len() as f64).sqrt();
    let low = 1.0 - edges - little::TOLERANCE;
    let high = 1.0 + edges + each(|law| law.2)? + little::TOLERANCE;
    (off < low || off > high).then(|| Failed {
        words: format!(
            "in flight is {} times throughput times latency",
            trimmed(off, 2)
        ),
        caveat: Caveat::LittleMismatch { ratio: off },
        fatal: off < low / LITTLE_TOO_MUCH || off > high * LITTLE_TOO_MUCH,
    })
}

/// N over X·R of one window, what its edges can make of it, and what its failures can add.
fn law(step: &Step, window: &Window, sent: f64) -> Option<(f64, f64, f64)> {
    /// Deviations of what is under way at two edges.
    const DEVIATIONS: f64 = 3.0;
    let answered = window.answered as f64;
    let ended = ratio(window.failed as f64, answered).unwrap_or(0.0);
    let in_flight = positive(window.in_flight_mean?)?;
    let latency_s = positive(window.latency_mean_ns? / 1e9)?;
    let time_s = latency_s * sent;
    let off = ratio(in_flight, window.throughput * (1.0 + ended) * time_s)?;
    // How much the times of requests differ, in their mean.
    let spread = window
        .p99_ns
        .map_or(1.0, |p99| p99 as f64 / 1e9 / latency_s / 2.0);
    let edges = DEVIATIONS * spread.max(1.0) * (2.0 * in_flight).sqrt() / answered.max(1.0);
    let deadline_s = (step.load.timeout.0 as f64 / 1e9).min(window.seconds());
    Some((off, edges, ended / (1.0 + ended) * deadline_s / time_s))
}

fn null_effect(null: Option<Estimate>) -> Option<Failed> {
    let Some(null) = null else {
        let words = "too few windows with nothing squeezed to compare them".to_owned();
        return Some(Failed {
            caveat: note(format!("There were {words}.")),
            words,
            fatal: false,
        });
    };
    let (low, high) = null.interval(ALPHA);
    if low >= -NULL_MAX && high <= NULL_MAX {
        return None;
    }
    let words = format!(
        "nothing against nothing is only known to be within {} % and {} %",
        hundredths(low.max(-1.0)),
        hundredths(high.min(1.0))
    );
    Some(Failed {
        caveat: note(format!(
            "Windows with nothing squeezed: {words}; it should be within 2 %."
        )),
        words,
        fatal: false,
    })
}

/// Squeezing one side of a shared processor feeds the other.
fn shared(experiment: &Experiment) -> Option<Failed> {
    let setting = &experiment.setting;
    let both: Vec<u32> = setting
        .server_cpus
        .iter()
        .copied()
        .filter(|cpu| setting.client_cpus.contains(cpu))
        .collect();
    (!both.is_empty()).then(|| Failed {
        words: "client and server share processors, and squeezing one feeds the other".to_owned(),
        caveat: Caveat::SharedProcessors { cpus: both },
        fatal: false,
    })
}

/// In an open loop: workers that ran late did not ask for what they should have.
fn schedule(doubts: &[Caveat], experiment: &Experiment) -> Option<Failed> {
    if !experiment.setting.open_loop {
        return None;
    }
    let late = doubts
        .iter()
        .find(|doubt| matches!(doubt, Caveat::WorkersLate { .. }))?;
    Some(Failed {
        words: "the load generator ran late against its own schedule".to_owned(),
        caveat: late.clone(),
        fatal: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::synthetic::experiment_of;

    /// Six starts of ten windows each, of these levels.
    fn of_starts(level: impl Fn(u32, u32) -> f64) -> Option<Failed> {
        let windows: Vec<(u32, f64)> = (0..60).map(|at| (0, level(at / 10, at % 10))).collect();
        let mut experiment = experiment_of(&[], &windows);
        for (at, window) in experiment.windows.iter_mut().enumerate() {
            window.restart = at as u32 / 10;
        }
        drift(&pairs::shams(&experiment))
    }

    fn wobble(at: u32) -> f64 {
        1.0 + 0.004 * f64::from(at % 3)
    }

    #[test]
    fn what_starts_of_the_server_differ_by_is_no_drift() {
        let failed = of_starts(|start, at| {
            let luck = [0.0, 60.0, -40.0, 80.0, -20.0, 30.0][start as usize];
            (1000.0 + luck) * wobble(at)
        });
        assert_eq!(failed, None);
    }

    #[test]
    fn a_drift_that_goes_on_from_start_to_start_is_one() {
        let noise = |at: u32| 1.0 + 0.03 * f64::from((7 * at) % 5) - 0.06;
        let failed = of_starts(|start, at| {
            let wobble = if at % 2 == 0 {
                noise(at)
            } else {
                1.0 / noise(at)
            };
            (1000.0 - 50.0 * f64::from(start)) * wobble
        });
        assert!(failed.is_some_and(|failed| failed.fatal));
    }

    #[test]
    fn a_start_that_warms_up_does_not_drift() {
        let failed = of_starts(|_, at| 1000.0 * (1.0 - 0.1 * 0.3f64.powi(at as i32)) * wobble(at));
        assert_eq!(failed, None);
    }

    #[test]
    fn shorter_and_shorter_starts_hide_no_drift() {
        let lengths = [10, 10, 10, 6, 5, 4, 4, 2];
        let windows: Vec<(u32, u32)> = (0..)
            .zip(lengths)
            .flat_map(|(start, length)| (0..length).map(move |at| (start, at)))
            .collect();
        let levels = windows
            .iter()
            .map(|(_, at)| (0, 1000.0 * 0.99f64.powi(*at as i32) * wobble(*at)));
        let mut experiment = experiment_of(&[], &levels.collect::<Vec<(u32, f64)>>());
        for (window, (start, _)) in experiment.windows.iter_mut().zip(&windows) {
            window.restart = *start;
        }
        let failed = drift(&pairs::shams(&experiment));
        assert!(failed.is_some_and(|failed| failed.fatal));
    }

    #[test]
    fn a_drift_that_every_start_begins_anew_is_one() {
        let failed = of_starts(|_, at| 1000.0 * 0.99f64.powi(at as i32) * wobble(at));
        let failed = failed.expect("a tenth in every start");
        assert!(failed.fatal, "{failed:?}");
    }
}
