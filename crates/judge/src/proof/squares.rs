//! What each squeeze did, from all windows at once: generalised least squares.
//!
//! ```text
//!   ln X  =  level of the start  +  elasticity · ln(retained)  +  wander  +  noise
//! ```
//!
//! Windows that are near in time are alike: the machine wanders. By how much and for how long is estimated
//! from the same windows (restricted likelihood, over a grid of first-order autoregressions with white noise
//! beside them), so that every window is compared with all others, the nearest counting most. A window that
//! the others do not foresee within four deviations was slowed by something else and is left out.
//!
//! The likelihood is exact and takes one pass: a Kalman filter of one state turns windows that are alike into
//! ones that are not, and its smoother says what each window differs by from what all the others
//! foresee (Durbin and Koopman, *Time Series Analysis by State Space Methods*, chapter 4).
//!
//! Two things widen an interval. What starts of the server differ by in their answers to a squeeze, more than
//! their windows explain; and windows of one squeeze that are much noisier than the rest.

use super::estimate::{Estimate, Spread};
use crate::finite::median;

/// One window: what was done in it and what came of it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Whose effects it shows; none where nothing was squeezed.
    pub(super) columns: Vec<usize>,
    /// ln of what was left.
    pub(super) x: f64,
    /// ln of throughput.
    pub(super) y: f64,
    /// The start of the server that served it.
    pub(super) start: u32,
    /// Its middle, in seconds.
    pub(super) at_s: f64,
}

/// What one column did.
#[derive(Debug, Clone)]
pub(super) struct Effect {
    /// y over x, which for one squeeze is its elasticity.
    pub(super) elasticity: Estimate,
    /// Mean of x.
    pub(super) x: f64,
    /// Each window by itself, with its start: what it shows of the elasticity.
    pub(super) each: Vec<(u32, f64)>,
    /// What one window's elasticity varies by.
    pub(super) noise: Spread,
}

impl Effect {
    /// The effect in ln of throughput.
    pub(super) fn y(&self) -> Estimate {
        self.elasticity.scaled(self.x)
    }
}

/// A window is out from so many deviations on.
const FAR: f64 = 4.0;
/// The least deviation of a window, in ln of throughput: differences below it are none.
const LEAST: f64 = 1e-5;
/// How often windows are left out or taken back.
const PASSES_MAX: usize = 12;
/// Windows of a column of which one may be left out.
const KEPT_MIN: usize = 3;
/// The variance of a window that is left out, in those of one that counts.
const OUT: f64 = 1e6;
/// Degrees of freedom without which nothing is said of how alike windows are.
const DEGREES_ALIKE: f64 = 8.0;
/// Those that saying it takes.
const DEGREES_SPENT: f64 = 2.0;
/// Degrees of freedom that other squeezes' starts count for.
const POOL_DEGREES: f64 = 3.0;
/// Windows of one squeeze that vary so many times as much as the others are their own affair.
const OWN_VARIANCE: f64 = 4.0;

/// Effects of columns `0..columns`; `None` where the windows do not tell: there is none of it in a start
/// that has windows without it.
pub(super) fn effects(rows: &[Row], columns: usize) -> Vec<Option<Effect>> {
    let starts = starts(rows);
    let told = |of: usize| {
        let own = rows.iter().filter(|row| row.columns.contains(&of));
        let mut own = own.map(|row| row.start);
        own.any(|start| {
            rows.iter()
                .any(|it| it.start == start && !it.columns.contains(&of))
        })
    };
    let told: Vec<usize> = (0..columns).filter(|of| told(*of)).collect();
    if told.is_empty() {
        return vec![None; columns];
    }
    let is_told = |row: &&Row| row.columns.iter().all(|of| told.contains(of));
    let kept: Vec<&Row> = rows.iter().filter(is_told).collect();
    let model = Model {
        rows: &kept,
        columns: &told,
        starts: &starts,
    };
    let fit = model.fit();
    let mut effects = vec![None; columns];
    for (effect, of) in model.effects(&fit).into_iter().zip(&told) {
        effects[*of] = Some(effect);
    }
    effects
}

fn starts(rows: &[Row]) -> Vec<u32> {
    let mut starts: Vec<u32> = rows.iter().map(|row| row.start).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// How alike windows are.
#[derive(Debug, Clone, Copy)]
struct Alike {
    /// What is left of a wander one window later.
    memory: f64,
    /// The wander's share of the variance.
    share: f64,
}

const INDEPENDENT: Alike = Alike {
    memory: 0.0,
    share: 0.0,
};

fn likenesses(degrees: f64) -> impl Iterator<Item = Alike> {
    let of = |memory| [0.2, 0.4, 0.6, 0.8].map(|share| Alike { memory, share });
    let some = [0.6, 0.8, 0.9, 0.96].into_iter().flat_map(of);
    let are_told = degrees >= DEGREES_ALIKE;
    std::iter::once(INDEPENDENT).chain(some.filter(move |_| are_told))
}

struct Model<'m> {
    rows: &'m [&'m Row],
    columns: &'m [usize],
    starts: &'m [u32],
}

struct Fit {
    beta: Vec<f64>,
    /// Variances of beta, in those of a window.
    spread: Vec<f64>,
    /// Variance of a window.
    variance: f64,
    degrees: f64,
    likely: f64,
    /// What each window differs by from what the others foresee.
    odd: Vec<f64>,
    /// The inverse of that difference's variance, in those of a window.
    precision: Vec<f64>,
    /// Windows that are left out.
    out: Vec<bool>,
}

impl Model<'_> {
    fn cell(&self, row: &Row, of: usize) -> f64 {
        match of.checked_sub(self.columns.len()) {
            None if row.columns.contains(&self.columns[of]) => row.x,
            Some(start) if self.starts[start] == row.start => 1.0,
            _ => 0.0,
        }
    }

    /// The fit without the windows that the others do not foresee. Of each column the farthest is left out first,
    /// for it draws the others away from what they would show without it; and of two that disagree nobody
    /// can say which is off.
    fn fit(&self) -> Fit {
        let mut out = vec![false; self.rows.len()];
        let mut fit = self.most_likely(&out);
        for _ in 0..PASSES_MAX {
            let kept = |at: &usize| !out[*at];
            let size = |at: usize| fit.odd[at].abs() * fit.precision[at].sqrt();
            let sizes: Vec<f64> = (0..out.len()).filter(kept).map(size).collect();
            let typical = (1.4826 * median(&sizes).unwrap_or(0.0)).max(LEAST);
            let mut next: Vec<bool> = (0..out.len())
                // What is out is compared by what it would be, were it in.
                .map(|at| out[at] && fit.odd[at].abs() > FAR * typical)
                .collect();
            for of in 0..=self.columns.len() {
                let own = |at: &usize| kept(at) && self.is_of(*at, of);
                let farthest = |a: &usize, b: &usize| size(*a).total_cmp(&size(*b));
                let worst = (0..out.len()).filter(own).max_by(farthest);
                let are_enough = (0..out.len()).filter(own).count() >= KEPT_MIN;
                if let Some(worst) = worst.filter(|at| are_enough && size(*at) > FAR * typical) {
                    next[worst] = true;
                }
            }
            if next == out {
                break;
            }
            out = next;
            fit = self.most_likely(&out);
        }
        fit.out = out;
        fit
    }

    /// Whether a window is of a column; of the one after the last are those with nothing squeezed.
    fn is_of(&self, at: usize, of: usize) -> bool {
        let columns = &self.rows[at].columns;
        match self.columns.get(of) {
            Some(column) => columns.contains(column),
            None => columns.is_empty(),
        }
    }

    /// The fit under the likeness that makes the windows most likely.
    fn most_likely(&self, out: &[bool]) -> Fit {
        let kept = out.iter().filter(|out| !**out).count();
        let degrees = kept as f64 - (self.columns.len() + self.starts.len()) as f64;
        likenesses(degrees)
            .map(|alike| self.under(alike, out, degrees))
            .reduce(|best, next| {
                if next.likely > best.likely {
                    next
                } else {
                    best
                }
            })
            .expect("windows may be independent")
    }

    fn under(&self, alike: Alike, out: &[bool], degrees: f64) -> Fit {
        let filter = Filter::of(self.rows, alike, out);
        let count = self.columns.len() + self.starts.len();
        let white: Vec<Vec<f64>> = (0..count)
            .map(|of| filter.whitened(|at| self.cell(self.rows[at], of)))
            .collect();
        let target = filter.whitened(|at| self.rows[at].y);
        let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let mut normal: Vec<Vec<f64>> = (0..count)
            .map(|i| (0..count).map(|j| product(&white[i], &white[j])).collect())
            .collect();
        for (i, row) in normal.iter_mut().enumerate() {
            // Columns that windows cannot tell apart are of unbounded error, and break nothing.
            row[i] += 1e-9;
        }
        let right: Vec<f64> = white
            .iter()
            .map(|column| product(column, &target))
            .collect();
        let (inverse, ln_determinant) = inverse(normal);
        let beta: Vec<f64> = inverse.iter().map(|row| product(row, &right)).collect();
        let left = |at: usize| {
            let fitted: f64 = (0..count)
                .map(|of| self.cell(self.rows[at], of) * beta[of])
                .sum();
            self.rows[at].y - fitted
        };
        let residual = filter.whitened(left);
        let squares = product(&residual, &residual);
        let variance = (squares / degrees.max(1.0)).max(LEAST * LEAST);
        let likely =
            -0.5 * (degrees.max(1.0) * variance.ln() + filter.ln_determinant() + ln_determinant);
        let (odd, precision) = filter.foreseen(left);
        let spent = if degrees >= DEGREES_ALIKE {
            DEGREES_SPENT
        } else {
            0.0
        };
        Fit {
            beta,
            spread: (0..count).map(|of| inverse[of][of]).collect(),
            variance: if degrees >= 1.0 {
                variance
            } else {
                f64::INFINITY
            },
            degrees: (degrees - spent).max(1.0),
            likely,
            odd,
            precision,
            out: out.to_vec(),
        }
    }

    fn effects(&self, fit: &Fit) -> Vec<Effect> {
        let unlike = (0..self.columns.len())
            .map(|of| self.between_starts(fit, of))
            .collect::<Vec<_>>();
        let ratios: Vec<f64> = unlike.iter().flatten().map(|(ratio, _)| *ratio).collect();
        let pool = median(&ratios).filter(|_| ratios.len() >= 3).unwrap_or(1.0);
        (0..self.columns.len())
            .map(|of| {
                let own: Vec<usize> = self.windows_of(of).collect();
                let x =
                    own.iter().map(|at| self.rows[*at].x).sum::<f64>() / own.len().max(1) as f64;
                let mut elasticity = Estimate {
                    value: fit.beta[of],
                    error: (fit.variance * fit.spread[of]).sqrt(),
                    degrees: fit.degrees,
                    rounds: own.len() as u32,
                };
                if let Some((ratio, degrees)) = self.own_noise(fit, &own) {
                    elasticity.error *= ratio.sqrt();
                    elasticity.degrees = degrees;
                }
                if let Some((ratio, degrees)) = unlike[of] {
                    let (ratio, degrees) = match ratio > OWN_VARIANCE * pool.max(1.0) {
                        true => (ratio, degrees),
                        false => {
                            let all = degrees + POOL_DEGREES;
                            ((degrees * ratio + POOL_DEGREES * pool.min(1.0)) / all, all)
                        }
                    };
                    if ratio > 1.0 {
                        elasticity.error *= ratio.sqrt();
                        elasticity.degrees = elasticity.degrees.min(degrees);
                    }
                }
                Effect {
                    elasticity,
                    x,
                    each: own
                        .iter()
                        .map(|at| {
                            let row = self.rows[*at];
                            (row.start, fit.beta[of] + fit.odd[*at] / row.x)
                        })
                        .collect(),
                    noise: Spread {
                        variance: fit.variance / (x * x).max(1e-9),
                        degrees: fit.degrees,
                    },
                }
            })
            .collect()
    }

    fn windows_of(&self, of: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.rows.len()).filter(move |at| self.is_of(*at, of))
    }

    /// How many times as much as other windows those of a column vary, where that is many times, and the degrees
    /// of freedom of that.
    fn own_noise(&self, fit: &Fit, own: &[usize]) -> Option<(f64, f64)> {
        let kept: Vec<usize> = own.iter().copied().filter(|at| !fit.out[*at]).collect();
        let squares: f64 = kept
            .iter()
            .map(|at| fit.odd[*at].powi(2) * fit.precision[*at] / fit.variance)
            .sum();
        let degrees = kept.len() as f64 - 1.0;
        let ratio = squares / degrees;
        (degrees >= 1.0 && ratio > OWN_VARIANCE).then_some((ratio, degrees))
    }

    /// What starts of the server differ by in one column, over what their windows explain; and the
    /// degrees of freedom of that.
    fn between_starts(&self, fit: &Fit, of: usize) -> Option<(f64, f64)> {
        let mut sum = 0.0;
        let mut count = 0.0;
        for start in self.starts {
            let is_own = |at: &usize| self.rows[*at].start == *start && !fit.out[*at];
            let own = self.windows_of(of).filter(is_own);
            let (weight, odd) = own.fold((0.0, 0.0), |(weight, odd), at| {
                let of_window = fit.precision[at];
                (weight + of_window, odd + of_window * fit.odd[at])
            });
            if weight > 0.0 {
                sum += odd * odd / weight / fit.variance;
                count += 1.0;
            }
        }
        (count >= 2.0 && sum.is_finite()).then(|| (sum / (count - 1.0), count - 1.0))
    }
}

/// A wander of one state, followed through the windows.
struct Filter {
    /// Variance of what is not foreseen of a window.
    variance: Vec<f64>,
    /// How much of that is taken for wander.
    gain: Vec<f64>,
    /// What is left of the wander at the next window.
    memory: Vec<f64>,
}

impl Filter {
    fn of(rows: &[&Row], alike: Alike, out: &[bool]) -> Filter {
        let steps: Vec<f64> = rows
            .windows(2)
            .map(|two| (two[1].at_s - two[0].at_s).abs())
            .collect();
        let usual = median(&steps).filter(|step| *step > 0.0).unwrap_or(1.0);
        let mut filter = Filter {
            variance: Vec::with_capacity(rows.len()),
            gain: Vec::with_capacity(rows.len()),
            memory: Vec::with_capacity(rows.len()),
        };
        let mut state = alike.share;
        for (at, is_out) in out.iter().enumerate() {
            let noise = if *is_out { OUT } else { 1.0 - alike.share };
            let variance = state + noise;
            let gain = state / variance;
            let memory = steps
                .get(at)
                .map_or(0.0, |step| alike.memory.powf(step / usual));
            filter.variance.push(variance);
            filter.gain.push(gain);
            filter.memory.push(memory);
            state = memory * memory * state * (1.0 - gain) + alike.share * (1.0 - memory * memory);
        }
        filter
    }

    /// What is new in each value, in deviations.
    fn whitened(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        let mut foreseen = 0.0;
        (0..self.gain.len())
            .map(|at| {
                let new = value(at) - foreseen;
                foreseen = self.memory[at] * (foreseen + self.gain[at] * new);
                new / self.variance[at].sqrt()
            })
            .collect()
    }

    fn ln_determinant(&self) -> f64 {
        self.variance.iter().map(|variance| variance.ln()).sum()
    }

    /// What each value differs by from what all others foresee, and the precision of that.
    fn foreseen(&self, value: impl Fn(usize) -> f64) -> (Vec<f64>, Vec<f64>) {
        let white = self.whitened(value);
        let count = self.gain.len();
        let (mut odd, mut precision) = (vec![0.0; count], vec![0.0; count]);
        let (mut later, mut weight) = (0.0, 0.0);
        for at in (0..count).rev() {
            let deviation = self.variance[at].sqrt();
            let kept = self.memory[at] * self.gain[at];
            let smoothed = white[at] / deviation - kept * later;
            precision[at] = 1.0 / self.variance[at] + kept * kept * weight;
            odd[at] = smoothed / precision[at];
            let through = self.memory[at] * (1.0 - self.gain[at]);
            later = white[at] / deviation + through * later;
            weight = 1.0 / self.variance[at] + through * through * weight;
        }
        (odd, precision)
    }
}

/// The inverse of a symmetric positive matrix, and ln of its determinant, by Cholesky's root.
pub(crate) fn inverse(mut matrix: Vec<Vec<f64>>) -> (Vec<Vec<f64>>, f64) {
    let n = matrix.len();
    for i in 0..n {
        for j in 0..=i {
            let below: f64 = (0..j).map(|k| matrix[i][k] * matrix[j][k]).sum();
            let left = matrix[i][j] - below;
            matrix[i][j] = match i == j {
                true => left.max(1e-12).sqrt(),
                false => left / matrix[j][j],
            };
        }
    }
    let ln_determinant = 2.0 * (0..n).map(|i| matrix[i][i].ln()).sum::<f64>();
    // Columns of the root's inverse.
    let columns: Vec<Vec<f64>> = (0..n)
        .map(|column| {
            let mut solved = vec![0.0; n];
            for i in column..n {
                let known: f64 = (column..i).map(|k| matrix[i][k] * solved[k]).sum();
                let unit = if i == column { 1.0 } else { 0.0 };
                solved[i] = (unit - known) / matrix[i][i];
            }
            solved
        })
        .collect();
    let cell = |i: usize, j: usize| (i.max(j)..n).map(|k| columns[i][k] * columns[j][k]).sum();
    let inverse = (0..n)
        .map(|i| (0..n).map(|j| cell(i, j)).collect())
        .collect();
    (inverse, ln_determinant)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::Noise;

    /// A machine of which windows are drawn: two at nothing, one squeezed, by turns, in three starts.
    struct Machine {
        white: f64,
        wander: f64,
        /// Deviation of the elasticity from start to start.
        luck: f64,
        slow: f64,
    }

    impl Machine {
        fn windows(&self, noise: &mut Noise, many: usize) -> Vec<Row> {
            let memory = (-1.0f64 / 8.0).exp();
            let step = (1.0 - memory * memory).sqrt();
            let mut wander = noise.gauss();
            let answers: Vec<f64> = (0..3).map(|_| 1.0 + self.luck * noise.gauss()).collect();
            let x = 0.8f64.ln();
            (0..many)
                .map(|at| {
                    wander = memory * wander + step * noise.gauss();
                    let start = at * 3 / many;
                    let columns = match at % 4 {
                        1 => vec![0],
                        3 => vec![1],
                        _ => Vec::new(),
                    };
                    // The second costs nothing.
                    let squeezed = if at % 4 == 1 { x * answers[start] } else { 0.0 };
                    let slow = if noise.uniform() < self.slow {
                        -0.3
                    } else {
                        0.0
                    };
                    let level = self.wander * wander + self.white * noise.gauss() + slow;
                    Row {
                        columns,
                        x,
                        y: 7.0 + squeezed + level,
                        start: start as u32,
                        at_s: at as f64,
                    }
                })
                .collect()
        }

        /// Share of intervals that hold an elasticity of 1 and of 0, and the first's mean half.
        fn coverage(&self, many: usize) -> (f64, f64, f64) {
            const TRIALS: u32 = 600;
            let mut noise = Noise::new(41);
            let (mut wall, mut slack, mut half) = (0, 0, 0.0);
            for _ in 0..TRIALS {
                let told = effects(&self.windows(&mut noise, many), 2);
                let [of_wall, of_slack] = [0, 1].map(|of| told[of].as_ref().unwrap().elasticity);
                let holds = |it: Estimate, truth: f64| {
                    let (low, high) = it.interval(0.05);
                    u32::from(low <= truth && truth <= high)
                };
                wall += holds(of_wall, 1.0);
                slack += holds(of_slack, 0.0);
                let (low, high) = of_wall.interval(0.05);
                half += (high - low) / 2.0;
            }
            let share = |count: u32| f64::from(count) / f64::from(TRIALS);
            (share(wall), share(slack), half / f64::from(TRIALS))
        }
    }

    const QUIET: Machine = Machine {
        white: 0.02,
        wander: 0.0,
        luck: 0.0,
        slow: 0.0,
    };

    #[test]
    fn intervals_hold_the_truth_whatever_the_machine_does() {
        for (name, machine) in [
            ("quiet", QUIET),
            (
                "wanders",
                Machine {
                    wander: 0.03,
                    ..QUIET
                },
            ),
            (
                "slow windows",
                Machine {
                    slow: 0.03,
                    ..QUIET
                },
            ),
            (
                "both",
                Machine {
                    wander: 0.03,
                    slow: 0.03,
                    ..QUIET
                },
            ),
        ] {
            for many in [24, 48] {
                let (wall, slack, half) = machine.coverage(many);
                println!("{name}, {many} windows: {wall:.3}, {slack:.3}, half {half:.3}");
                assert!(wall >= 0.93 && slack >= 0.93, "{name}: {wall}, {slack}");
            }
        }
    }

    /// Starts that answer a squeeze by 1 ± 0.3.
    #[test]
    fn what_starts_differ_by_widens_the_interval() {
        let lucky = Machine { luck: 0.3, ..QUIET };
        let (held, slack, wide) = lucky.coverage(48);
        let (_, _, narrow) = QUIET.coverage(48);
        println!("lucky starts: {held:.3}, {slack:.3}, half {wide:.3} in place of {narrow:.3}");
        assert!(held >= 0.88 && wide > 1.5 * narrow);
        assert!(slack >= 0.93);
    }

    #[test]
    fn one_window_tells_nothing_of_its_error() {
        let rows = QUIET.windows(&mut Noise::new(1), 24);
        let [first, second, ..] = &rows[..] else {
            unreachable!()
        };
        let told = effects(&[first.clone(), second.clone()], 2);
        let (low, high) = told[0].as_ref().unwrap().elasticity.interval(0.05);
        assert!(low == f64::NEG_INFINITY && high == f64::INFINITY);
        assert!(told[1].is_none());
    }

    #[test]
    fn a_window_that_all_others_contradict_moves_nothing() {
        let mut rows = QUIET.windows(&mut Noise::new(3), 48);
        let value = |rows: &[Row]| effects(rows, 2)[0].as_ref().unwrap().elasticity.value;
        let before = value(&rows);
        rows[13].y -= 0.4;
        assert!(
            (value(&rows) - before).abs() < 0.06,
            "one of twelve is off by 1.8"
        );
    }
}
