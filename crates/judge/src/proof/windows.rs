//! The windows of an experiment as evidence: what each squeezed, and what came of it.
//!
//! Throughput is that of good answers. What the check of the manipulation measured goes before what
//! was asked for, and a squeeze that was not in force is no evidence; of several at once only those count
//! that were, each with what its own lever left.
//!
//! For people each window is shown beside its own shams:
//!
//! ```text
//!   ln X      sham ●─────────┬──────● sham
//!                     base ──┘ ↕ y = ln(X_s / X_0)
//!                            ● squeezed          x = ln(retained)      elasticity = y / x
//! ```

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use wallfinder_model::experiment::{Condition, Experiment, Squeeze, Takes, Window};

use super::estimate::Estimate;
use super::pace;
use super::squares::{self, Effect, Row};
use crate::finite::median;

/// What a squeeze left: where it is more, it did not squeeze, and no less is ever asked for.
const SQUEEZED: RangeInclusive<f64> = 0.01..=0.985;
/// What was widened by less than this was not, and by more is no small change.
const WIDENED: RangeInclusive<f64> = 1.015..=4.0;
/// What was left may differ so much from what was asked for and still be of the dose that was asked for.
/// Of what cannot be dosed finely, such as a processor less of two, what was left is the dose.
const OFF_MAX: f64 = 0.1;
/// The longest wash-out between two windows, in seconds: where answers take longer, what is in flight is
/// not squeezed within one.
pub const WASH_OUT_MAX_S: f64 = 2.0;
/// One window says no more than this of an elasticity, in either direction.
pub(super) const ELASTICITY_MAX: f64 = 4.0;

/// How hard was squeezed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dose {
    /// About 0.9 retained: what binds at the first touch.
    Small,
    /// About 0.8 retained.
    Main,
    /// About 0.65 and 0.5: until what is slack binds.
    Deep,
}

impl Dose {
    /// The dose of a squeeze. In-flight comes in whole requests, so that any is its main.
    pub(super) fn of(squeeze: Squeeze, retained: f64) -> Dose {
        match squeeze.takes() {
            Takes::InFlight => Dose::Main,
            _ => Dose::of_several(retained),
        }
    }

    /// The dose of several at once.
    pub(super) fn of_several(retained: f64) -> Dose {
        match retained {
            r if (0.72..=0.86).contains(&r) => Dose::Main,
            r if r > 0.86 => Dose::Small,
            _ => Dose::Deep,
        }
    }
}

/// What was squeezed by how much: windows of it are of one effect.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// In order, without those that were not in force.
    squeezes: Vec<Squeeze>,
    dose: Dose,
    /// Thousandths that were to be left.
    asked: u64,
}

/// What one dose of a squeeze did, or of several at once.
#[derive(Debug, Clone)]
pub(super) struct Done {
    /// What was squeezed and in force.
    pub(super) squeezes: Vec<Squeeze>,
    /// What was asked of them.
    pub(super) dose: Dose,
    pub(super) effect: Effect,
    /// Of several, mean of ln of what was left of each.
    x_each: BTreeMap<Squeeze, f64>,
}

impl Done {
    /// Mean of ln of what was left of one of them.
    pub(super) fn x_of(&self, squeeze: Squeeze) -> f64 {
        let each = self.x_each.get(&squeeze);
        each.copied().unwrap_or(self.effect.x)
    }
}

/// What every dose did of which the windows tell.
pub(super) fn done(experiment: &Experiment) -> Vec<Done> {
    let unwashed = outlast_the_wash_out(&shams(experiment));
    let level = median(
        &shams(experiment)
            .into_iter()
            .map(log_throughput)
            .collect::<Vec<f64>>(),
    );
    let Some(level) = level else {
        return Vec::new();
    };
    let mut keys: BTreeMap<Key, usize> = BTreeMap::new();
    let mut told: Vec<Vec<(&Condition, &Window)>> = Vec::new();
    let mut rows = Vec::new();
    for window in &experiment.windows {
        let Some(condition) = experiment.condition(window) else {
            continue;
        };
        let (columns, x) = if condition.is_sham() {
            (Vec::new(), 0.0)
        } else if let Some((key, x)) = squeezed(condition, window, unwashed) {
            let next = keys.len();
            let column = *keys.entry(key).or_insert(next);
            told.resize_with(keys.len(), Vec::new);
            told[column].push((condition, window));
            (vec![column], x)
        } else {
            continue;
        };
        rows.extend(row(window, columns, x, level));
    }
    let mut effects = squares::effects(&rows, keys.len());
    keys.into_iter()
        .filter_map(|(key, column)| {
            let effect = effects[column].take()?;
            let x_each = match key.squeezes.len() {
                1 => BTreeMap::new(),
                _ => x_each(&key.squeezes, &told[column]),
            };
            Some(Done {
                squeezes: key.squeezes,
                dose: key.dose,
                effect,
                x_each,
            })
        })
        .collect()
}

/// Of several squeezes at once, mean of ln of what was left of each.
fn x_each(squeezes: &[Squeeze], windows: &[(&Condition, &Window)]) -> BTreeMap<Squeeze, f64> {
    let of = |squeeze: &Squeeze| {
        let left = windows
            .iter()
            .map(|(condition, window)| window.left_of(*squeeze, condition.retained).ln());
        (*squeeze, left.sum::<f64>() / windows.len() as f64)
    };
    squeezes.iter().map(of).collect()
}

/// The effect that a window shows and ln of what was left; `None` where it is no evidence.
fn squeezed(condition: &Condition, window: &Window, unwashed: bool) -> Option<(Key, f64)> {
    let of_several = condition.squeeze.is_none();
    let counts = |squeeze: &Squeeze| {
        let left = window.left_of(*squeeze, condition.retained);
        let is_squeezed = !of_several || SQUEEZED.contains(&left);
        is_squeezed
            && !window.without.contains(squeeze)
            && !(unwashed && squeeze.takes() == Takes::InFlight)
    };
    let mut squeezes: Vec<Squeeze> = condition.squeezes().filter(counts).collect();
    squeezes.sort_unstable();
    if squeezes.is_empty() || window.in_force == Some(false) {
        return None;
    }
    let retained = window.left(condition.retained);
    let changed = match squeezes[..] {
        [Squeeze::MoreInFlight] => WIDENED.contains(&retained),
        _ => SQUEEZED.contains(&retained),
    };
    let is_off = (retained - condition.retained).abs() > OFF_MAX;
    let dosed = if is_off { retained } else { condition.retained };
    let dose = match squeezes[..] {
        [one] => Dose::of(one, dosed),
        _ => Dose::of_several(dosed),
    };
    let asked = (condition.retained * 1e3) as u64;
    changed.then(|| {
        let key = Key {
            squeezes,
            dose,
            asked,
        };
        (key, retained.ln())
    })
}

fn row(window: &Window, columns: Vec<usize>, x: f64, level: f64) -> Option<Row> {
    // Of nothing no more is known than that it is nothing.
    if columns.is_empty() && !(window.throughput.is_finite() && window.throughput > 0.0) {
        return None;
    }
    let most = match columns.is_empty() {
        true => f64::INFINITY,
        false => ELASTICITY_MAX * x.abs(),
    };
    Some(Row {
        columns,
        x,
        y: log_throughput(window).clamp(level - most, level + most),
        start: window.restart,
        at_s: middle_ns(window) / 1e9,
    })
}

fn middle_ns(window: &Window) -> f64 {
    window.from_ns as f64 / 2.0 + window.to_ns as f64 / 2.0
}

/// Whether answers take longer than any wash-out does: those of a window were asked for before it, and
/// tell nothing of how many are asked for within it.
pub(super) fn outlast_the_wash_out(shams: &[&Window]) -> bool {
    let p99: Vec<f64> = shams
        .iter()
        .filter_map(|sham| sham.p99_ns)
        .map(|ns| ns as f64)
        .collect();
    median(&p99).is_some_and(|ns| ns > WASH_OUT_MAX_S * 1e9)
}

/// Sham windows with good answers, in the order of time.
pub(super) fn shams(experiment: &Experiment) -> Vec<&Window> {
    let mut shams: Vec<&Window> = experiment
        .windows
        .iter()
        .filter(|window| {
            experiment.is_sham(window) && window.throughput.is_finite() && window.throughput > 0.0
        })
        .collect();
    shams.sort_by_key(|window| window.from_ns);
    shams
}

/// ln of good answers per second. A window without any counts as half an answer: less than
/// one was seen, and the logarithm of none says nothing.
fn log_throughput(window: &Window) -> f64 {
    let least = 0.5 / window.seconds().max(1e-3);
    let seen = window.throughput;
    if seen.is_finite() {
        seen.max(least).ln()
    } else {
        least.ln()
    }
}

/// ln of what the shams around a window say that its throughput would have been.
fn base(shams: &[&Window], window: &Window) -> Option<f64> {
    let own: Vec<&&Window> = shams
        .iter()
        .filter(|sham| sham.restart == window.restart && !std::ptr::eq(**sham, window))
        .collect();
    let after = own.iter().find(|sham| sham.from_ns >= window.to_ns);
    let before = own.iter().rev().find(|sham| sham.to_ns <= window.from_ns);
    match (before, after) {
        (Some(before), Some(after)) => {
            let (from, to) = (middle_ns(before), middle_ns(after));
            let weight = ((middle_ns(window) - from) / (to - from).max(1.0)).clamp(0.0, 1.0);
            Some(log_throughput(before) * (1.0 - weight) + log_throughput(after) * weight)
        }
        (Some(one), None) | (None, Some(one)) => Some(log_throughput(one)),
        (None, None) => None,
    }
}

/// Each window's throughput over its base, in the order of the windows and as at one pace; `None`
/// where there is no sham beside it. For showing what was measured beside what is estimated of it.
pub fn relatives(experiment: &Experiment) -> Vec<Option<f64>> {
    let experiment = &pace::at_one_pace(experiment);
    let shams = shams(experiment);
    experiment
        .windows
        .iter()
        .map(|window| {
            let relative = window.throughput / base(&shams, window)?.exp();
            (relative.is_finite() && relative >= 0.0).then_some(relative)
        })
        .collect()
}

/// Shams against shams: every other one taken as if something had been squeezed in it. What it reads is the
/// effect of nothing, in ln of throughput.
pub(super) fn null_effect(experiment: &Experiment) -> Option<Estimate> {
    let shams = shams(experiment);
    let rows = shams.iter().enumerate().filter_map(|(at, sham)| {
        let row = row(sham, Vec::new(), 1.0, 0.0)?;
        let columns = if at % 2 == 1 { vec![0] } else { Vec::new() };
        Some(Row { columns, ..row })
    });
    let effects = squares::effects(&rows.collect::<Vec<Row>>(), 1);
    effects.into_iter().flatten().next().map(|it| it.elasticity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::synthetic::experiment_of;

    fn only(windows: &[(u32, f64)]) -> Vec<Done> {
        done(&experiment_of(&[(Squeeze::Downlink, 0.8)], windows))
    }

    fn elasticity(done: &[Done]) -> f64 {
        assert_eq!(done.len(), 1, "{done:?}");
        done[0].effect.elasticity.value
    }

    #[test]
    fn a_window_is_compared_with_its_shams() {
        let done = only(&[(0, 1000.0), (1, 720.0), (0, 800.0)]);
        let base = (1000.0f64 * 800.0).sqrt();
        assert!((done[0].effect.y().value - (720.0 / base).ln()).abs() < 1e-6);
        assert!((done[0].effect.x - 0.8f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn a_squeeze_out_of_force_is_no_evidence_and_a_measured_one_counts_as_measured() {
        let mut experiment = experiment_of(
            &[(Squeeze::Downlink, 0.8)],
            &[(0, 1000.0), (1, 900.0), (1, 900.0), (0, 1000.0)],
        );
        experiment.windows[1].in_force = Some(false);
        experiment.windows[2].retained = Some(0.9);
        let done = done(&experiment);
        assert_eq!(done[0].effect.elasticity.rounds, 1);
        assert!((elasticity(&done) - 1.0).abs() < 1e-6);
    }

    #[test]
    fn of_several_at_once_those_count_that_were_in_force() {
        let mut experiment = experiment_of(
            &[(Squeeze::Downlink, 0.8)],
            &[(0, 1000.0), (1, 900.0), (1, 900.0), (0, 1000.0)],
        );
        let condition = &mut experiment.conditions[1];
        condition.squeeze = None;
        condition.together = vec![Squeeze::Uplink, Squeeze::Downlink];
        experiment.windows[2].without = vec![Squeeze::Uplink];
        let done = done(&experiment);
        let squeezes: Vec<&[Squeeze]> = done.iter().map(|done| &done.squeezes[..]).collect();
        let both = [Squeeze::Downlink, Squeeze::Uplink];
        assert_eq!(squeezes, [&both[..1], &both[..]]);
    }

    #[test]
    fn no_answers_and_no_shams_do_no_harm() {
        let nothing = only(&[(0, 1000.0), (1, 0.0), (0, 1000.0)]);
        assert!((elasticity(&nothing) - ELASTICITY_MAX).abs() < 1e-6);
        assert!(only(&[(1, 5.0), (1, f64::NAN)]).is_empty());
        assert!(only(&[(0, 0.0), (1, 5.0), (0, f64::NAN)]).is_empty());
    }

    #[test]
    fn a_sham_that_was_slow_alone_biases_nothing() {
        let mut windows = Vec::new();
        for round in 0..6 {
            let wobble = 1000.0 + 3.0 * f64::from(round % 3);
            windows.extend([(0, wobble), (1, 0.8 * wobble)]);
        }
        windows.push((0, 1000.0));
        windows[4].1 *= 0.75;
        assert!((elasticity(&only(&windows)) - 1.0).abs() < 0.05);
    }

    #[test]
    fn shams_beside_shams_read_nothing_though_the_machine_drifts() {
        let windows: Vec<(u32, f64)> = (0..20).map(|i| (0, 1000.0 * 0.99f64.powi(i))).collect();
        let null = null_effect(&experiment_of(&[], &windows)).unwrap();
        let (low, high) = null.interval(0.05);
        assert!(low <= 0.0 && (0.0..0.03).contains(&high), "{null:?}");
    }
}
