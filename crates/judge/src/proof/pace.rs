//! Windows as they would have been at one pace of the machine.
//!
//! A processor of a shared machine is slowed by strangers, by a quarter or a half, for seconds at a
//! time. Windows that are compared then differ by more than what was squeezed. A reference loop on each
//! side's processors tells how slow they were ([`Window::server_reference_ns`]), and what throughput answers
//! to that is learnt from the experiment itself and taken out of every window (analysis of
//! covariance; Cochran 1957):
//!
//! ```text
//!   ln X ┤ ●                        within one condition and one start
//!        │   ● ●   slope            ln X' = ln X - slope · (ln yard - its median)
//!        │      ●  ●
//!        └──────────── ln yard
//! ```
//!
//! Slopes come from differences within conditions alone, so that no squeeze is taken for a pace, and without the trend
//! of each start, so that a server that drifts is not excused by a reference loop that happens to drift meanwhile; and
//! where a squeeze itself moves a reference loop (a CPU stealer that shares its core with the other side), that
//! much of it is none. Where the reference loop explains little, as on a quiet machine, nothing is changed.

use std::collections::{BTreeMap, BTreeSet};

use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::experiment::{Experiment, Window};

use crate::finite::{mean, median, positive};

/// Differences without which there is no slope.
const DEGREES_MIN: usize = 10;
/// Share of the variance within conditions that a pace must explain.
const EXPLAINED_MIN: f64 = 0.3;
/// Standard errors from which a slope is believed.
const ERRORS_MIN: f64 = 4.0;
/// The second side's pace counts where it leaves no more than this of the variance.
const SECOND_LEAVES_MAX: f64 = 0.85;
/// ln of a yard over its middle from which it was misread: half of it.
const MISREAD: f64 = -std::f64::consts::LN_2;
/// Deviations from which a window is no guide to the slope.
const FAR: f64 = 5.0;
/// Standard errors from which a condition is taken to move a reference loop by itself.
const MOVES_MIN: f64 = 3.0;
/// The steepest slope that is believed. An interpreter that shares its core loses more than half of its
/// throughput where system calls take a third longer: -2.9 was seen.
const STEEPEST: f64 = -4.0;
/// Server and client.
const SIDES: usize = 2;

/// What throughput answers to the machine's pace.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pace {
    /// d ln X / d ln yard of server and client: 0 for a side that is of no weight, else below.
    slopes: [f64; SIDES],
    /// ln yards from which windows of each condition are off: medians of all, and what a squeeze
    /// moves them by itself.
    middles: BTreeMap<u32, [f64; SIDES]>,
    /// Share of the variance within conditions that is explained.
    explained: f64,
    /// The slowest and the fastest window's pace, as a factor of throughput.
    span: (f64, f64),
}

impl Pace {
    /// That of an experiment's windows; `None` where no reference loop stood, or where it explains too little.
    pub(super) fn of(experiment: &Experiment) -> Option<Pace> {
        let points = experiment.windows.iter().filter_map(|window| {
            let y = positive(window.throughput)?.ln();
            let group = (window.condition, window.restart);
            (window.in_force != Some(false))
                .then(|| Point::new(group, window.from_ns as f64, y, yards(window)))
        });
        let mut pace = Pace::through(points)?;
        let effects = experiment.windows.iter().map(|w| pace.of_window(w).exp());
        pace.span = effects.fold((1.0, 1.0), |(low, high), e| (e.min(low), e.max(high)));
        Some(pace)
    }

    /// That of any points, whose y falls as yards grow.
    pub(super) fn through(points: impl Iterator<Item = Point>) -> Option<Pace> {
        let points = without_misread(points.collect());
        // One that lacks what the others know would lie far from them.
        let known = [0, 1].map(|side| points.iter().any(|point| point.is_known[side]));
        let is_whole = |point: &Point| point.is_known == known;
        let points = centred(points.into_iter().filter(is_whole));
        let first = best(&without_trends(&points))?;
        let points = without_far(&points, &first);
        let fit = best(&without_trends(&points))?;
        Some(Pace {
            slopes: fit.slopes.map(|slope| slope.max(STEEPEST)),
            middles: middles(&points),
            explained: fit.explained,
            span: (1.0, 1.0),
        })
    }

    /// By how much y was off for the pace, in a condition.
    pub(super) fn effect(&self, condition: u32, yards: Yards) -> f64 {
        // A condition that was run once: as the sham.
        let middles = self.middles.get(&condition).or(self.middles.get(&0));
        let Some(middles) = middles else { return 0.0 };
        (0..SIDES)
            .filter_map(|side| {
                let off = yards[side]? - middles[side];
                (off > MISREAD).then_some(self.slopes[side] * off)
            })
            .sum()
    }

    /// By how much of ln throughput a window was off for its pace.
    fn of_window(&self, window: &Window) -> f64 {
        self.effect(window.condition, yards(window))
    }

    /// Share of the variance within conditions that it explains.
    pub(super) fn explained(&self) -> f64 {
        self.explained
    }

    pub(super) fn evidence(&self) -> Evidence {
        let (low, high) = self.span;
        let fact = Fact::Pace {
            lost: 1.0 - low,
            won: high - 1.0,
            explained: self.explained,
        };
        Evidence::new("proof.pace_explained", self.explained, fact)
    }
}

/// The experiment with its throughputs as at one pace, where that makes them agree better. Slices
/// are left out.
pub(super) fn at_one_pace(experiment: &Experiment) -> Experiment {
    let pace = Pace::of(experiment);
    let at_pace = |window: &Window| Window {
        throughput: match &pace {
            Some(pace) => window.throughput * (-pace.of_window(window)).exp(),
            None => window.throughput,
        },
        ..window.clone()
    };
    Experiment {
        windows: experiment.windows.iter().map(at_pace).collect(),
        intervals: Vec::new(),
        conditions: experiment.conditions.clone(),
        out_of_reach: experiment.out_of_reach.clone(),
        setting: experiment.setting.clone(),
        cut_short: experiment.cut_short.clone(),
        ..*experiment
    }
}

/// ln of a server's and a client's yard, where they are known.
pub(super) type Yards = [Option<f64>; SIDES];

fn yards(window: &Window) -> Yards {
    ln_yards([window.server_reference_ns, window.client_reference_ns])
}

/// Logarithms of what makes sense.
pub(super) fn ln_yards(yards_ns: [Option<f64>; SIDES]) -> Yards {
    yards_ns.map(|yard| yard.and_then(positive).map(f64::ln))
}

/// What was measured, in ln, and ln yards meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    /// Condition and start.
    group: (u32, u32),
    /// When, in any unit.
    at: f64,
    y: f64,
    c: [f64; SIDES],
    /// ln yards as they are; `at`, `y` and `c` become distances from the middle of their group.
    yards: [f64; SIDES],
    is_known: [bool; SIDES],
}

impl Point {
    pub(super) fn new(group: (u32, u32), at: f64, y: f64, yards: Yards) -> Point {
        let is_known = yards.map(|yard| yard.is_some());
        let yards = yards.map(|yard| yard.unwrap_or(0.0));
        Point {
            group,
            at,
            y,
            c: yards,
            yards,
            is_known,
        }
    }
}

/// Yards so short that no processor was ever so fast are unknown: one of them would outweigh all others.
fn without_misread(mut points: Vec<Point>) -> Vec<Point> {
    for side in 0..SIDES {
        let known = points.iter().filter(|point| point.is_known[side]);
        let yards: Vec<f64> = known.map(|point| point.yards[side]).collect();
        let Some(middle) = median(&yards) else {
            continue;
        };
        for point in &mut points {
            point.is_known[side] &= point.yards[side] - middle > MISREAD;
        }
    }
    points
}

/// Each point from the middle of its group; groups of one have no differences.
fn centred(points: impl Iterator<Item = Point>) -> Vec<Point> {
    let mut groups: BTreeMap<(u32, u32), Vec<Point>> = BTreeMap::new();
    for point in points {
        groups.entry(point.group).or_default().push(point);
    }
    let groups = groups.into_values().filter(|group| group.len() >= 2);
    let centred = groups.flat_map(|group| {
        let of = |get: &dyn Fn(&Point) -> f64| {
            mean(&group.iter().map(get).collect::<Vec<f64>>()).unwrap_or(0.0)
        };
        let (at, y) = (of(&|point| point.at), of(&|point| point.y));
        let c = [0, 1].map(|side| of(&|point| point.c[side]));
        let moved = |point: Point| Point {
            at: point.at - at,
            y: point.y - y,
            c: [point.c[0] - c[0], point.c[1] - c[1]],
            ..point
        };
        group.into_iter().map(moved).collect::<Vec<Point>>()
    });
    centred.collect()
}

/// What is left of centred points once the line of each start through time is taken out.
fn without_trends(points: &[Point]) -> Vec<Point> {
    let mut flat = points.to_vec();
    let starts: BTreeSet<u32> = flat.iter().map(|point| point.group.1).collect();
    for start in starts {
        let own = || points.iter().filter(|point| point.group.1 == start);
        let times = |of: &dyn Fn(&Point) -> f64| own().map(|point| point.at * of(point)).sum();
        let squares: f64 = times(&|point| point.at);
        let Some(squares) = positive(squares) else {
            continue;
        };
        let y: f64 = times(&|point| point.y);
        let c: [f64; SIDES] = [0, 1].map(|side| times(&|point| point.c[side]));
        for point in flat.iter_mut().filter(|point| point.group.1 == start) {
            let part = point.at / squares;
            point.y -= part * y;
            point.c = [0, 1].map(|side| point.c[side] - part * c[side]);
        }
    }
    flat
}

/// What windows of each condition are measured from.
fn middles(points: &[Point]) -> BTreeMap<u32, [f64; SIDES]> {
    let mut conditions: BTreeMap<u32, Vec<&Point>> = BTreeMap::new();
    for point in points {
        conditions.entry(point.group.0).or_default().push(point);
    }
    let groups: BTreeSet<(u32, u32)> = points.iter().map(|point| point.group).collect();
    let degrees = points.len().saturating_sub(groups.len()).max(1) as f64;
    let sides = [0, 1].map(|side| {
        let yards_of =
            |own: &[&Point]| -> Vec<f64> { own.iter().map(|point| point.yards[side]).collect() };
        let all: Vec<f64> = points.iter().map(|point| point.yards[side]).collect();
        let middle = median(&all).unwrap_or(0.0);
        let squares: f64 = points.iter().map(|point| point.c[side].powi(2)).sum();
        let shams = conditions.get(&0).map_or(&[][..], Vec::as_slice);
        let sham = mean(&yards_of(shams)).unwrap_or(middle);
        let of_start = |start: u32| {
            let own: Vec<&Point> = shams
                .iter()
                .filter(|s| s.group.1 == start)
                .copied()
                .collect();
            mean(&yards_of(&own)).unwrap_or(sham)
        };
        let moved = conditions.iter().map(|(condition, own)| {
            let apart = own
                .iter()
                .map(|point| point.yards[side] - of_start(point.group.1));
            let apart: Vec<f64> = apart.collect();
            let centre = mean(&apart).unwrap_or(0.0);
            let count = own.len() as f64;
            let pooled = (squares / degrees * (1.0 / count + 1.0 / shams.len() as f64)).sqrt();
            // A few of its windows in a slow spell are no move of its own.
            let scatter: f64 = apart.iter().map(|a| (a - centre).powi(2)).sum();
            let scatter = (scatter / (count - 1.0).max(1.0) / count).sqrt();
            let is_own = !shams.is_empty() && centre.abs() > MOVES_MIN * pooled.max(scatter);
            (*condition, middle + if is_own { centre } else { 0.0 })
        });
        moved.collect::<BTreeMap<u32, f64>>()
    });
    let [server, client] = sides;
    let both = server.into_iter().map(|(condition, middle)| {
        let other = client.get(&condition).copied().unwrap_or(0.0);
        (condition, [middle, other])
    });
    both.collect()
}

/// A line through the differences.
#[derive(Debug, Clone, Copy)]
struct Fit {
    slopes: [f64; SIDES],
    explained: f64,
    /// Variance that is left.
    left: f64,
}

/// The line of one side, or of both where the second explains much of what the first leaves; through points without
/// trends, each of which was a parameter too.
fn best(points: &[Point]) -> Option<Fit> {
    let mut groups: Vec<(u32, u32)> = points.iter().map(|point| point.group).collect();
    groups.sort_unstable();
    groups.dedup();
    let starts: BTreeSet<u32> = groups.iter().map(|group| group.1).collect();
    let degrees = points.len().checked_sub(groups.len() + starts.len() + 1)?;
    if degrees < DEGREES_MIN {
        return None;
    }
    let sum = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>();
    let yy = positive(sum(&|p| p.y * p.y))?;
    let cy = [0, 1].map(|side| sum(&|p| p.c[side] * p.y));
    let cc = [0, 1].map(|side| sum(&|p| p.c[side] * p.c[side]));
    let both = sum(&|p| p.c[0] * p.c[1]);
    let fit = |slopes: [f64; SIDES], degrees: usize| {
        let rest = sum(&|p| (p.y - slopes[0] * p.c[0] - slopes[1] * p.c[1]).powi(2));
        Fit {
            slopes,
            explained: 1.0 - rest / yy,
            left: rest / degrees as f64,
        }
    };
    let one = |side: usize| {
        let slope = cy[side] / positive(cc[side])?;
        let mut slopes = [0.0; SIDES];
        slopes[side] = slope;
        let fit = fit(slopes, degrees);
        let error = (fit.left / cc[side]).sqrt();
        let is_sure = slope < -ERRORS_MIN * error && fit.explained >= EXPLAINED_MIN;
        is_sure.then_some(fit)
    };
    let first = [one(0), one(1)]
        .into_iter()
        .flatten()
        .min_by(|a, b| a.left.total_cmp(&b.left))?;
    let Some(determinant) = positive(cc[0] * cc[1] - both * both) else {
        // One processor for both sides, or only one that is watched.
        return Some(first);
    };
    let slopes = [
        (cy[0] * cc[1] - cy[1] * both) / determinant,
        (cy[1] * cc[0] - cy[0] * both) / determinant,
    ];
    let second = fit(slopes, degrees - 1);
    let is_better =
        slopes.iter().all(|slope| *slope < 0.0) && second.left <= SECOND_LEAVES_MAX * first.left;
    Some(if is_better { second } else { first })
}

/// Without the windows that lie far from the line: what slowed them was no pace.
fn without_far(points: &[Point], fit: &Fit) -> Vec<Point> {
    let off =
        |point: &Point| (point.y - fit.slopes[0] * point.c[0] - fit.slopes[1] * point.c[1]).abs();
    let distances: Vec<f64> = without_trends(points).iter().map(off).collect();
    let typical = 1.4826 * median(&distances).unwrap_or(0.0);
    let all = points.iter().zip(distances);
    let near = all.filter(|(_, distance)| *distance <= FAR * typical);
    centred(near.map(|(point, _)| *point))
}

#[cfg(test)]
mod tests {
    use wallfinder_model::experiment::Squeeze;

    use super::*;
    use crate::double::Noise;
    use crate::proof::synthetic::experiment_of;
    use crate::proof::windows::{done, relatives};

    /// A machine of this many rounds whose server slows and speeds up by this, and whose reference loop is
    /// `yard(pace, noise)`.
    fn run(deviation: f64, yard: impl Fn(u32, f64, f64) -> f64) -> Experiment {
        let mut noise = Noise::new(7);
        let mut windows = Vec::new();
        let mut paces = Vec::new();
        for window in 0..41 {
            let pace = deviation * noise.gauss();
            let condition = window % 2;
            let left = if condition == 1 { 0.8 } else { 1.0 };
            let x = 1_000.0 * left * (1.3 * pace + 0.01 * noise.gauss()).exp();
            windows.push((condition, x));
            paces.push((condition, pace, noise.gauss()));
        }
        let mut experiment = experiment_of(&[(Squeeze::ServerSpeed, 0.8)], &windows);
        for (window, (condition, pace, blur)) in experiment.windows.iter_mut().zip(paces) {
            window.server_reference_ns = Some(7_000.0 * yard(condition, pace, blur).exp());
            window.client_reference_ns = Some(7_000.0 * (0.05 * blur).exp());
        }
        experiment
    }

    fn elasticities(experiment: &Experiment) -> (f64, f64) {
        let speed = done(experiment)
            .into_iter()
            .find(|it| it.squeezes == [Squeeze::ServerSpeed]);
        let of: Vec<f64> = speed
            .unwrap()
            .effect
            .each
            .iter()
            .map(|(_, it)| *it)
            .collect();
        let centre = mean(&of).unwrap();
        let squares: f64 = of.iter().map(|e| (e - centre).powi(2)).sum();
        (centre, (squares / of.len() as f64).sqrt())
    }

    #[test]
    fn windows_of_a_machine_that_wanders_agree_at_one_pace() {
        let seen = run(0.15, |_, pace, blur| -pace + 0.01 * blur);
        let (_, apart) = elasticities(&seen);
        assert!(apart > 0.5, "{apart}");
        let pace = Pace::of(&seen).unwrap();
        assert!(
            pace.explained > 0.9 && (pace.slopes[0] + 1.3).abs() < 0.1,
            "{pace:?}"
        );
        assert_eq!(pace.slopes[1], 0.0, "the client's is of no weight");
        let (value, apart) = elasticities(&at_one_pace(&seen));
        assert!(
            (value - 1.0).abs() < 0.06 && apart < 0.15,
            "{value} {apart}"
        );
    }

    #[test]
    fn what_is_shown_of_windows_is_at_the_same_pace_as_what_is_said_of_them() {
        let seen = run(0.15, |_, pace, blur| -pace + 0.01 * blur);
        let shown = relatives(&seen);
        let squeezed = shown.iter().skip(1).step_by(2).flatten();
        for relative in squeezed {
            assert!((relative - 0.8).abs() < 0.08, "{shown:?}");
        }
    }

    #[test]
    fn a_reference_loop_that_tells_nothing_changes_nothing() {
        let seen = run(0.15, |_, _, blur| 0.1 * blur);
        assert_eq!(Pace::of(&seen), None);
        assert_eq!(at_one_pace(&seen).windows, seen.windows);
        let mut unwatched = run(0.15, |_, pace, _| -pace);
        for window in &mut unwatched.windows {
            (window.server_reference_ns, window.client_reference_ns) = (None, None);
        }
        assert_eq!(at_one_pace(&unwatched).windows, unwatched.windows);
    }

    /// As seen at a server of 20 % more work a minute, beside a machine that slowed down in the same minute.
    #[test]
    fn a_server_that_drifts_is_not_excused_by_a_reference_loop_that_drifts_meanwhile() {
        let mut seen = run(0.0, |_, _, blur| 0.005 * blur);
        for (at, window) in (0..).zip(&mut seen.windows) {
            let drift = -0.2 * f64::from(at) / 41.0;
            window.throughput *= drift.exp();
            let yard = window.server_reference_ns.unwrap() * (-0.5 * drift).exp();
            window.server_reference_ns = Some(yard);
        }
        assert_eq!(Pace::of(&seen), None);
    }

    #[test]
    fn a_squeeze_that_moves_the_reference_loop_is_not_taken_back() {
        // In its windows the reference loop is a third slower, and the server is not.
        let seen = run(0.05, |condition, pace, _| {
            -pace + 0.3 * f64::from(condition)
        });
        assert!(Pace::of(&seen).is_some());
        let (value, _) = elasticities(&at_one_pace(&seen));
        assert!((value - 1.0).abs() < 0.06, "{value}");
    }

    /// As seen at `/compute`: of six windows of a squeeze four fell into slow spells, one of them by a third.
    #[test]
    fn a_squeeze_whose_windows_fell_into_slow_spells_did_not_move_the_reference_loop() {
        const SPELLS: [f64; 6] = [0.0, 0.0, 0.073, 0.039, 0.156, 0.334];
        let mut noise = Noise::new(7);
        let mut windows = Vec::new();
        let mut yards = Vec::new();
        for round in 0..6 {
            for (condition, spell) in [
                (0, 0.01),
                (1, SPELLS[round]),
                (0, 0.4 * SPELLS[(round + 2) % 6]),
                (2, 0.1 * SPELLS[(round + 3) % 6]),
                (0, 0.02),
            ] {
                let yard = spell + 0.005 * noise.gauss();
                let left = if condition == 0 { 1.0 } else { 0.8 };
                windows.push((
                    condition,
                    1_000.0 * left * (-1.56 * yard + 0.01 * noise.gauss()).exp(),
                ));
                yards.push((round as u32 / 2, yard));
            }
        }
        let squeezes = [(Squeeze::ServerSpeed, 0.8), (Squeeze::ServerCapacity, 0.8)];
        let mut seen = experiment_of(&squeezes, &windows);
        for (window, (start, yard)) in seen.windows.iter_mut().zip(yards) {
            window.restart = start;
            window.server_reference_ns = Some(7_900.0 * yard.exp());
        }
        let (value, apart) = elasticities(&at_one_pace(&seen));
        assert!(
            (value - 1.0).abs() < 0.06 && apart < 0.15,
            "{value} {apart}"
        );
    }

    #[test]
    fn a_window_in_which_a_reference_loop_was_starved_is_no_guide() {
        let mut seen = run(0.15, |_, pace, blur| -pace + 0.01 * blur);
        let whole = Pace::of(&seen).unwrap();
        seen.windows[3].server_reference_ns = None;
        seen.windows[8].client_reference_ns = None;
        let pace = Pace::of(&seen).unwrap();
        assert!((pace.slopes[0] - whole.slopes[0]).abs() < 0.05, "{pace:?}");
        // Of the client's alone where nobody sees the server.
        let mut far = run(0.15, |_, pace, blur| -pace + 0.01 * blur);
        for window in &mut far.windows {
            window.client_reference_ns = window.server_reference_ns.take();
        }
        let pace = Pace::of(&far).unwrap();
        assert!((pace.slopes[1] + 1.3).abs() < 0.1, "{pace:?}");
    }

    #[test]
    fn a_yard_that_was_misread_changes_nothing_but_its_own_window() {
        let mut seen = run(0.15, |_, pace, blur| -pace + 0.01 * blur);
        let whole = Pace::of(&seen).unwrap();
        seen.windows[3].server_reference_ns = Some(190.0);
        seen.windows[8].client_reference_ns = Some(193.0);
        let pace = Pace::of(&seen).unwrap();
        assert!((pace.slopes[0] - whole.slopes[0]).abs() < 0.05, "{pace:?}");
        assert_eq!(pace.of_window(&seen.windows[3]), 0.0);
    }

    #[test]
    fn absurd_yards_are_none() {
        for absurd in [f64::NAN, 0.0, -1.0, f64::INFINITY] {
            let mut seen = run(0.15, |_, pace, _| -pace);
            seen.windows[3].server_reference_ns = Some(absurd);
            for window in at_one_pace(&seen).windows {
                assert!(window.throughput.is_finite(), "{absurd}");
            }
        }
    }
}
