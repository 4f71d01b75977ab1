//! What must hold before a wall may be called proved.
//!
//! A gate that fails is said. Most take *proved* down to *likely*; failures, stolen time or
//! drift beyond measure leave nothing to be said.

use std::collections::BTreeMap;

use wallfinder_model::experiment::{Experiment, Window};
use wallfinder_model::gate::{Gate, GateKind, GateOutcome, Seen};
use wallfinder_model::record::{Histogram, ThroughputFrom};
use wallfinder_model::{Caveat, Step};

use super::estimate::Estimate;
use super::pace;
use super::windows;
use crate::caveats::{ERRORS_MAX, STEAL_MAX};
use crate::finite::{known, mean, median, positive, ratio};
use crate::identity;
use crate::little;
use crate::steady;
use crate::student;

/// Shams against shams must read nothing within this, in ln of throughput.
pub(super) const NULL_MAX: f64 = 0.02;
/// Error of an interval that must lie within bounds on both sides for one error of 5 % in saying so: two
/// one-sided tests (Schuirmann 1987).
pub(super) const ALPHA_WITHIN: f64 = 0.1;
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

/// One gate, the doubt that it leaves where it failed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Checked {
    pub(super) gate: Gate,
    /// What a reader must know, where it failed.
    pub(super) caveat: Option<Caveat>,
}

impl Checked {
    fn new(kind: GateKind, asked: Option<f64>, seen: Option<Seen>) -> Checked {
        let outcome = match seen {
            Some(_) => GateOutcome::Held,
            None => GateOutcome::NotSeen,
        };
        Checked {
            gate: Gate {
                kind,
                outcome,
                asked,
                seen,
            },
            caveat: None,
        }
    }

    fn failed(mut self, fatal: bool, caveat: Caveat) -> Checked {
        self.gate.outcome = GateOutcome::Failed { fatal };
        self.caveat = Some(caveat);
        self
    }
}

/// All gates of one experiment.
#[derive(Debug, Clone)]
pub(super) struct Gates {
    /// Those first that say most of a failure.
    checked: Vec<Checked>,
    /// The effect of nothing, in ln of throughput.
    pub(super) null: Option<Estimate>,
}

impl Gates {
    pub(super) fn of(step: &Step, experiment: &Experiment, doubts: &[Caveat]) -> Gates {
        let shams = windows::shams(experiment);
        // How fast the machine was is neither drift nor an effect of nothing.
        let at_one_pace = pace::at_one_pace(experiment);
        let null = windows::null_effect(&at_one_pace);
        let checked = [
            Some(errors(step, experiment)),
            uncounted(step, experiment),
            other_answers(step, &shams, experiment),
            Some(steal(experiment)),
            Some(steady(&windows::shams(&at_one_pace))),
            little(step, &shams, experiment),
            apart(experiment),
            schedule(doubts, experiment),
            Some(null_effect(null)),
        ];
        Gates {
            checked: checked.into_iter().flatten().collect(),
            null,
        }
    }

    /// Every gate, in the order in which a reader looks at them.
    pub(super) fn all(&self) -> Vec<Gate> {
        let mut gates: Vec<Gate> = self.checked.iter().map(|it| it.gate.clone()).collect();
        gates.sort_by_key(|gate| gate.kind);
        gates
    }

    pub(super) fn pass(&self) -> bool {
        self.failed().next().is_none()
    }

    /// Whether all of them hold but that on the effect of nothing, which fails.
    pub(super) fn only_null_is_wide(&self) -> bool {
        let mut failed = self.failed().map(|gate| gate.kind);
        failed.next() == Some(GateKind::NullEffect) && failed.next().is_none()
    }

    fn failed(&self) -> impl Iterator<Item = &Gate> {
        self.checked
            .iter()
            .map(|it| &it.gate)
            .filter(|gate| gate.failed())
    }

    /// The doubts that gates leave that failed.
    pub(super) fn caveats(&self) -> impl Iterator<Item = &Caveat> {
        self.checked.iter().filter_map(|it| it.caveat.as_ref())
    }

    pub(super) fn fatal(&self) -> Option<&Gate> {
        self.failed().find(|gate| gate.is_fatal())
    }
}

/// Failures with nothing squeezed: those of the windows and, of a foreign driver, whose windows show
/// none, those that it reports of the same load.
fn errors(step: &Step, experiment: &Experiment) -> Checked {
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
    let seen = ratio(counts.0 as f64, counts.1 as f64);
    let reported = match experiment.setting.own_engine {
        true => None,
        false => Some(identity::failure_share(&step.counts)),
    };
    let share = seen.into_iter().chain(reported).reduce(f64::max);
    let checked = Checked::new(
        GateKind::Errors,
        Some(ERRORS_MAX),
        share.map(|value| Seen::Share { value }),
    );
    match share {
        Some(share) if share > ERRORS_MAX => {
            let class = identity::worst_class(&step.counts)
                .unwrap_or("any")
                .to_owned();
            checked.failed(share > ERRORS_TOO_MANY, Caveat::Errors { share, class })
        }
        _ => checked,
    }
}

/// On the wire an error is as good as an answer: where a driver's report was not understood, nobody
/// has counted failures.
fn uncounted(step: &Step, experiment: &Experiment) -> Option<Checked> {
    if experiment.setting.own_engine {
        return None;
    }
    let checked = Checked::new(GateKind::FailuresCounted, None, None);
    Some(match step.driver.throughput_from {
        ThroughputFrom::Wire => checked.failed(false, Caveat::FailuresUncounted),
        ThroughputFrom::Engine | ThroughputFrom::Report => Checked {
            gate: Gate {
                outcome: GateOutcome::Held,
                ..checked.gate
            },
            ..checked
        },
    })
}

/// A driver's bytes come much faster or slower than those of the load that it reported on: they may
/// be of other answers, such as errors.
fn other_answers(step: &Step, shams: &[&Window], experiment: &Experiment) -> Option<Checked> {
    if experiment.setting.own_engine {
        return None;
    }
    let rates: Vec<f64> = shams.iter().map(|sham| sham.throughput).collect();
    let change = median(&rates)
        .and_then(|rate| ratio(rate, step.throughput))
        .and_then(positive);
    let checked = Checked::new(
        GateKind::SameAnswers,
        Some(OTHER_ANSWERS),
        change.map(|value| Seen::Ratio { value }),
    );
    Some(match change {
        Some(ratio) if ratio.ln().abs() > OTHER_ANSWERS.ln() => {
            checked.failed(false, Caveat::OtherAnswers { ratio })
        }
        _ => checked,
    })
}

fn steal(experiment: &Experiment) -> Checked {
    let shares: Vec<f64> = experiment.windows.iter().map(|w| w.steal_share).collect();
    let share = mean(&shares).and_then(known);
    let checked = Checked::new(
        GateKind::Steal,
        Some(STEAL_MAX),
        share.map(|value| Seen::Share { value }),
    );
    match share {
        Some(share) if share > STEAL_MAX => {
            checked.failed(share > STEAL_TOO_MUCH, Caveat::StealAbove { share })
        }
        _ => checked,
    }
}

/// A change of level across the shams. Where none is certain, what is seen is the last third over the first.
fn steady(shams: &[&Window]) -> Checked {
    let levels = levels(shams);
    let jump = steady::change_point(&levels).map(|p| (p.before, p.after, p.index));
    let slope = steady::drift(&levels).map(|(first, last)| (first, last, levels.len() / 2));
    // A slope reads as a jump of half its height, so the larger of the two is meant.
    let moved = [slope, jump]
        .into_iter()
        .flatten()
        .max_by(|a, b| (a.1 / a.0).ln().abs().total_cmp(&(b.1 / b.0).ln().abs()))
        .and_then(|(before, after, at)| Some((ratio(after, before)?, at)));
    let third = levels.len() / 3;
    let of_thirds = || {
        let (first, last) = (&levels[..third], &levels[levels.len() - third..]);
        ratio(mean(last)?, mean(first)?)
    };
    let seen = moved.map(|(ratio, _)| ratio).or_else(of_thirds);
    let checked = Checked::new(
        GateKind::Steady,
        None,
        seen.map(|value| Seen::Ratio { value }),
    );
    match moved {
        Some((ratio, at)) => {
            let at_ns = shams[at].from_ns;
            let fatal = (ratio - 1.0).abs() > DRIFT_TOO_MUCH;
            checked.failed(fatal, Caveat::NotSteady { ratio, at_ns })
        }
        None => checked,
    }
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
fn little(step: &Step, shams: &[&Window], experiment: &Experiment) -> Option<Checked> {
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
    let Some((off, edges, failures)) = each(|law| law.0)
        .zip(each(|law| law.1))
        .zip(each(|law| law.2))
        .map(|((off, edges), failures)| (off, edges, failures))
    else {
        return Some(Checked::new(
            GateKind::Little,
            Some(little::TOLERANCE),
            None,
        ));
    };
    // Edges of several windows are not off all at once, and failures are.
    let edges = edges / (laws.len() as f64).sqrt();
    let low = 1.0 - edges - little::TOLERANCE;
    let high = 1.0 + edges + failures + little::TOLERANCE;
    let checked = Checked::new(
        GateKind::Little,
        Some(little::TOLERANCE),
        Some(Seen::Ratio { value: off }),
    );
    Some(match off < low || off > high {
        true => {
            let fatal = off < low / LITTLE_TOO_MUCH || off > high * LITTLE_TOO_MUCH;
            checked.failed(fatal, Caveat::LittleMismatch { ratio: off })
        }
        false => checked,
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

fn null_effect(null: Option<Estimate>) -> Checked {
    let interval = null.map(|null| null.interval(ALPHA_WITHIN));
    let interval = interval.map(|(low, high)| (low.max(-1.0), high.min(1.0)));
    let checked = Checked::new(
        GateKind::NullEffect,
        Some(NULL_MAX),
        interval.map(|(low, high)| Seen::Interval { low, high }),
    );
    match interval {
        None => checked.failed(false, Caveat::NullUnknown),
        Some((low, high)) if low < -NULL_MAX || high > NULL_MAX => {
            checked.failed(false, Caveat::NullWide { low, high })
        }
        Some(_) => checked,
    }
}

/// Squeezing one side of a shared processor feeds the other.
fn apart(experiment: &Experiment) -> Option<Checked> {
    let (server, client) = (
        &experiment.setting.server_cpus,
        &experiment.setting.client_cpus,
    );
    if server.is_empty() || client.is_empty() {
        return None;
    }
    let both = experiment.setting.shared_cpus();
    let seen = Seen::Processors {
        server: server.clone(),
        client: client.clone(),
    };
    let checked = Checked::new(GateKind::Apart, None, Some(seen));
    Some(match both.is_empty() {
        true => checked,
        false => checked.failed(false, Caveat::SharedProcessors { cpus: both }),
    })
}

/// In an open loop: workers that ran late did not ask for what they should have.
fn schedule(doubts: &[Caveat], experiment: &Experiment) -> Option<Checked> {
    if !experiment.setting.open_loop {
        return None;
    }
    let late = doubts.iter().find_map(|doubt| match doubt {
        Caveat::WorkersLate { p999_ns } => Some(*p999_ns),
        _ => None,
    });
    let seen = late.map(|p999_ns| Seen::Late { p999_ns });
    let mut checked = Checked::new(GateKind::Schedule, None, seen);
    checked.gate.outcome = GateOutcome::Held;
    Some(match late {
        Some(p999_ns) => checked.failed(false, Caveat::WorkersLate { p999_ns }),
        None => checked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::synthetic::experiment_of;

    /// Six starts of ten windows each, of these levels.
    fn of_starts(level: impl Fn(u32, u32) -> f64) -> Gate {
        let windows: Vec<(u32, f64)> = (0..60).map(|at| (0, level(at / 10, at % 10))).collect();
        let mut experiment = experiment_of(&[], &windows);
        for (at, window) in experiment.windows.iter_mut().enumerate() {
            window.restart = at as u32 / 10;
        }
        steady(&windows::shams(&experiment)).gate
    }

    fn wobble(at: u32) -> f64 {
        1.0 + 0.004 * f64::from(at % 3)
    }

    #[test]
    fn what_starts_of_the_server_differ_by_is_no_drift() {
        let gate = of_starts(|start, at| {
            let luck = [0.0, 60.0, -40.0, 80.0, -20.0, 30.0][start as usize];
            (1000.0 + luck) * wobble(at)
        });
        assert_eq!(gate.outcome, GateOutcome::Held);
    }

    #[test]
    fn a_drift_that_goes_on_from_start_to_start_is_one() {
        let noise = |at: u32| 1.0 + 0.03 * f64::from((7 * at) % 5) - 0.06;
        let gate = of_starts(|start, at| {
            let wobble = if at % 2 == 0 {
                noise(at)
            } else {
                1.0 / noise(at)
            };
            (1000.0 - 50.0 * f64::from(start)) * wobble
        });
        assert!(gate.is_fatal());
    }

    #[test]
    fn a_start_that_warms_up_does_not_drift() {
        let gate = of_starts(|_, at| 1000.0 * (1.0 - 0.1 * 0.3f64.powi(at as i32)) * wobble(at));
        assert_eq!(gate.outcome, GateOutcome::Held);
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
        let gate = steady(&windows::shams(&experiment)).gate;
        assert!(gate.is_fatal());
    }

    #[test]
    fn a_drift_that_every_start_begins_anew_is_one() {
        let gate = of_starts(|_, at| 1000.0 * 0.99f64.powi(at as i32) * wobble(at));
        assert!(gate.is_fatal(), "a tenth in every start: {gate:?}");
    }
}
