//! Each squeezed window beside its own shams.
//!
//! ```text
//!   ln X      sham ●─────────┬──────● sham
//!                     base ──┘ ↕ y = ln(X_s / X_0)
//!                            ● squeezed          x = ln(retained)      elasticity = y / x
//! ```
//!
//! The base is read off the line between the nearest sham before and the nearest after, so
//! a machine that drifts, or that slows for several windows, slows both alike. Throughput is
//! that of good answers. What the check of the manipulation measured goes before what was
//! asked for, and a squeeze that was not in force is no evidence.

use std::ops::RangeInclusive;

use wallfinder_model::experiment::{Experiment, Squeeze, Takes, Window};

use super::estimate::{self, Estimate};
use super::pace;
use crate::finite::median;

/// A squeeze that left more than this did not squeeze.
const RETAINED_MAX: f64 = 0.985;
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

/// A sham is isolated from this distance in ln of throughput, and this many deviations.
const ISOLATED_MIN: f64 = 0.06;
const ISOLATED_DEVIATIONS: f64 = 6.0;

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
    /// The dose of a condition. In-flight comes in whole requests, so that any is its main.
    pub(super) fn of(squeeze: Squeeze, retained: f64) -> Dose {
        match retained {
            r if squeeze.takes() == Takes::InFlight || (0.72..=0.86).contains(&r) => Dose::Main,
            r if r > 0.86 => Dose::Small,
            _ => Dose::Deep,
        }
    }
}

/// One squeezed window beside its base.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    pub(super) squeeze: Squeeze,
    pub(super) dose: Dose,
    /// What was asked to be left.
    pub(super) asked: f64,
    pub(super) round: u32,
    pub(super) restart: u32,
    /// ln(retained): below 0 for what was squeezed, above for what was widened.
    pub(super) x: f64,
    /// ln(throughput over that of its shams).
    pub(super) y: f64,
}

impl Pair {
    pub(super) fn elasticity(&self) -> f64 {
        (self.y / self.x).clamp(-ELASTICITY_MAX, ELASTICITY_MAX)
    }
}

/// Every squeezed window that is evidence.
pub(super) fn pairs(experiment: &Experiment) -> Vec<Pair> {
    let shams = without_isolated(&shams(experiment));
    let unwashed = outlast_the_wash_out(&shams);
    experiment
        .windows
        .iter()
        .filter_map(|window| pair(experiment, &shams, window))
        .filter(|pair| !(unwashed && pair.squeeze.takes() == Takes::InFlight))
        .collect()
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

fn pair(experiment: &Experiment, shams: &[&Window], window: &Window) -> Option<Pair> {
    let condition = experiment.condition(window)?;
    let squeeze = condition.squeeze?;
    if window.in_force == Some(false) {
        return None;
    }
    let retained = window.left(condition.retained);
    let changed = match squeeze {
        Squeeze::MoreInFlight => WIDENED.contains(&retained),
        _ => (0.01..=RETAINED_MAX).contains(&retained),
    };
    if !changed {
        return None;
    }
    let base = base(shams, window)?;
    let x = retained.ln();
    let is_off = (retained - condition.retained).abs() > OFF_MAX;
    let dosed = if is_off { retained } else { condition.retained };
    Some(Pair {
        squeeze,
        dose: Dose::of(squeeze, dosed),
        asked: condition.retained,
        round: window.round,
        restart: window.restart,
        x,
        y: log_throughput(window) - base,
    })
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

/// The shams that may be bases. A shared machine now and then slows by a quarter for one
/// window; a sham that is so far from its nearest shams, while they agree with each other,
/// would bias every squeeze at its side, and the next sham is the better base.
fn without_isolated<'w>(shams: &[&'w Window]) -> Vec<&'w Window> {
    let levels: Vec<f64> = shams.iter().map(|sham| log_throughput(sham)).collect();
    let off: Vec<Option<(f64, f64)>> = (0..shams.len()).map(|at| isolation(&levels, at)).collect();
    let distances: Vec<f64> = off
        .iter()
        .flatten()
        .map(|(distance, _)| *distance)
        .collect();
    let typical = 1.4826 * median(&distances).unwrap_or(0.0);
    let far = (ISOLATED_DEVIATIONS * typical).max(ISOLATED_MIN);
    shams
        .iter()
        .zip(off)
        .filter(|(_, off)| {
            off.is_none_or(|(distance, others)| distance < far || others > far / 2.0)
        })
        .map(|(sham, _)| *sham)
        .collect()
}

/// How far a value is from the median of its four nearest, and how far those are from it.
fn isolation(levels: &[f64], at: usize) -> Option<(f64, f64)> {
    let from = at.saturating_sub(2).min(levels.len().saturating_sub(5));
    let others: Vec<f64> = (from..levels.len().min(from + 5))
        .filter(|near| *near != at)
        .map(|near| levels[near])
        .collect();
    if others.len() < 3 {
        return None;
    }
    let middle = median(&others)?;
    let mut apart: Vec<f64> = others.iter().map(|level| (level - middle).abs()).collect();
    apart.sort_by(f64::total_cmp);
    // One of the four may be such a window itself.
    Some(((levels[at] - middle).abs(), apart[apart.len() - 2]))
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
    let middle = |window: &Window| window.from_ns as f64 / 2.0 + window.to_ns as f64 / 2.0;
    match (before, after) {
        (Some(before), Some(after)) => {
            let (from, to) = (middle(before), middle(after));
            let weight = ((middle(window) - from) / (to - from).max(1.0)).clamp(0.0, 1.0);
            Some(log_throughput(before) * (1.0 - weight) + log_throughput(after) * weight)
        }
        (Some(one), None) | (None, Some(one)) => Some(log_throughput(one)),
        (None, None) => None,
    }
}

/// Each window's throughput over its base, in the order of the windows and as at one pace; `None`
/// where there is no sham beside it. For showing what was measured beside what is estimated of it:
/// here every sham is a base, also one that is isolated.
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

/// Shams against shams: every other one taken as if it had been squeezed, beside its own
/// neighbours. What it reads is the effect of nothing, in ln of throughput.
pub(super) fn null_effect(experiment: &Experiment) -> Option<Estimate> {
    let shams = shams(experiment);
    let even: Vec<&Window> = shams.iter().copied().step_by(2).collect();
    let bases = without_isolated(&even);
    let effects: Vec<f64> = shams
        .iter()
        .skip(1)
        .step_by(2)
        .filter_map(|sham| Some(log_throughput(sham) - base(&bases, sham)?))
        .collect();
    estimate::estimate(&effects, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::synthetic::experiment_of;

    fn only(windows: &[(u32, f64)]) -> Vec<Pair> {
        pairs(&experiment_of(&[(Squeeze::Downlink, 0.8)], windows))
    }

    #[test]
    fn the_base_is_read_off_the_line_between_the_shams() {
        let pairs = only(&[(0, 1000.0), (1, 720.0), (0, 800.0)]);
        let [pair] = pairs[..] else {
            panic!("{pairs:?}")
        };
        let base = (1000.0f64 * 800.0).sqrt();
        assert!((pair.y - (720.0 / base).ln()).abs() < 1e-9);
        assert!((pair.x - 0.8f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn a_squeeze_out_of_force_is_no_evidence_and_a_measured_one_counts_as_measured() {
        let mut experiment = experiment_of(
            &[(Squeeze::Downlink, 0.8)],
            &[(0, 1000.0), (1, 900.0), (1, 900.0), (0, 1000.0)],
        );
        experiment.windows[1].in_force = Some(false);
        experiment.windows[2].retained = Some(0.9);
        let pairs = pairs(&experiment);
        assert_eq!(pairs.len(), 1);
        assert!((pairs[0].elasticity() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn no_answers_and_no_shams_do_no_harm() {
        let pairs = only(&[(0, 1000.0), (1, 0.0), (0, 1000.0)]);
        assert_eq!(pairs[0].elasticity(), ELASTICITY_MAX);
        assert!(only(&[(1, 5.0), (1, f64::NAN)]).is_empty());
        assert!(only(&[(0, 0.0), (1, 5.0), (0, f64::NAN)]).is_empty());
    }

    #[test]
    fn a_sham_that_was_slow_alone_is_no_base() {
        let mut windows = Vec::new();
        for round in 0..6 {
            let wobble = 1000.0 + 3.0 * f64::from(round % 3);
            windows.extend([(0, wobble), (1, 0.8 * wobble)]);
        }
        windows.push((0, 1000.0));
        windows[4].1 *= 0.75;
        for pair in only(&windows) {
            assert!((pair.elasticity() - 1.0).abs() < 0.05, "{pair:?}");
        }
    }

    #[test]
    fn shams_beside_shams_read_nothing_though_the_machine_drifts() {
        let windows: Vec<(u32, f64)> = (0..20).map(|i| (0, 1000.0 * 0.99f64.powi(i))).collect();
        let null = null_effect(&experiment_of(&[], &windows)).unwrap();
        assert!(null.value.abs() < 1e-3, "{null:?}");
    }
}
