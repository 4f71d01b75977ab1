//! Where one of two curves over size becomes the higher one.
//!
//! At each size the ratio of the two has an interval of its rounds
//! ([`rounds::ratio`](crate::rounds::ratio)). A size is sure where that interval leaves out one. A
//! crossover lies between two sizes that are sure of different sides, with no sure one between them:
//! however often noise takes the ratio past one there, it is one crossover.
//!
//! ```text
//!  ratio │                  ┬
//!        │            ┬     ·
//!      1 ├──────┬─────·─────┴──
//!        │  ┬   ·     ┴
//!        │  ·   ┴
//!        │  ┴
//!        └──┴───┴─────┴─────┴── size
//!          sure            sure
//! ```
//!
//! What is known of its place is that it lies between these two. Only where the ratio surely
//! changes by little from the one to the other do straight lines say more, of logarithms: where the
//! ends of the interval pass one.

use crate::compare::RatioInterval;

/// A change of the ratio from which on a crossover is a step and not gradual.
const STEP: f64 = 1.35;
/// The larger of two sizes over the smaller, up to which what changes between them is no slope.
const CLOSE: f64 = 1.5;

/// One place where two curves cross.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossover {
    /// The size, by straight lines between those around it.
    pub at: f64,
    /// Up to here the one that was lower surely is; `None`: nowhere before.
    pub low: Option<f64>,
    /// From here on the other one surely is; `None`: nowhere after.
    pub high: Option<f64>,
    /// Whether the ratio rises above one; else it falls below.
    pub rises: bool,
    /// The sizes around it: the next ones that are sure, or where there is none the end of the
    /// curve.
    pub between: (f64, f64),
    /// By what factor the ratio changes between them, above 1.
    pub change: RatioInterval,
}

/// How one curve passes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// At once: by much, between sizes that are close to each other.
    Step,
    /// By so little that there is no step, wherever between the two sizes.
    Gradual,
    /// By much, between sizes that are too far apart to tell a step from a slope.
    TooFarApart,
    /// The rounds leave it open.
    Open,
}

impl Crossover {
    /// Whether there surely is one, be its place known as it may.
    pub fn is_sure(&self) -> bool {
        self.low.is_some() && self.high.is_some()
    }

    /// How the ratio passes one.
    pub fn manner(&self) -> Manner {
        let (before, after) = self.between;
        let RatioInterval { low, high, .. } = self.change;
        if !self.is_sure() {
            Manner::Open
        } else if high.is_some_and(|high| high < STEP) {
            Manner::Gradual
        } else if after > CLOSE * before {
            Manner::TooFarApart
        } else if low.is_some_and(|low| low > STEP) {
            Manner::Step
        } else {
            Manner::Open
        }
    }
}

/// All crossovers of a curve of ratios; sizes ascend. Before the first sure size and after the last
/// one, and where none is sure, there is one at the most: if the curve begins, or ends, on the
/// other side.
pub fn crossovers(curve: &[(f64, RatioInterval)]) -> Vec<Crossover> {
    let points: Vec<Point> = curve.iter().filter_map(Point::of).collect();
    let leans = |point: &Point| point.value != 0.0;
    let mut stations: Vec<usize> = (0..points.len())
        .filter(|at| points[*at].is_sure())
        .chain(points.iter().position(leans))
        .chain(points.iter().rposition(leans))
        .collect();
    stations.sort_unstable();
    stations.dedup();
    stations
        .windows(2)
        .filter_map(|pair| crossover(&points[pair[0]..=pair[1]]))
        .collect()
}

/// A size, and there the logarithms of the ratio and of the ends of its interval.
#[derive(Clone, Copy)]
struct Point {
    size: f64,
    value: f64,
    lower: Option<f64>,
    upper: Option<f64>,
}

impl Point {
    /// `None`: without a logarithm.
    fn of((size, ratio): &(f64, RatioInterval)) -> Option<Point> {
        let log = |value: f64| (value.is_finite() && value > 0.0).then(|| value.ln());
        log(*size)?;
        Some(Point {
            size: *size,
            value: log(ratio.value)?,
            lower: ratio.low.and_then(log),
            upper: ratio.high.and_then(log),
        })
    }

    /// Whether it is surely above one, or surely below.
    fn is_sure(&self) -> bool {
        let above = self.value > 0.0 && self.lower.is_some_and(|lower| lower > 0.0);
        let below = self.value < 0.0 && self.upper.is_some_and(|upper| upper < 0.0);
        above || below
    }

    fn upside_down(self) -> Point {
        Point {
            size: self.size,
            value: -self.value,
            lower: self.upper.map(|upper| -upper),
            upper: self.lower.map(|lower| -lower),
        }
    }
}

/// The one between the first and the last point, which are not at one themselves.
fn crossover(points: &[Point]) -> Option<Crossover> {
    let rises = points.first()?.value < 0.0;
    // What falls is looked at upside down.
    let turned = |point: &Point| match rises {
        true => *point,
        false => point.upside_down(),
    };
    let points: Vec<Point> = points.iter().map(turned).collect();
    let (before, after) = (points[0], points[points.len() - 1]);
    if after.value <= 0.0 {
        return None;
    }
    let mut found = Crossover {
        at: place(&points)?,
        low: before.is_sure().then_some(before.size),
        high: after.is_sure().then_some(after.size),
        rises,
        between: (before.size, after.size),
        change: change(&before, &after),
    };
    if found.manner() == Manner::Gradual {
        let (next, last) = (points[1], points[points.len() - 2]);
        let (upper, lower) = (|point: &Point| point.upper, |point: &Point| point.lower);
        let low = passes(&before, &next, upper).map(|low| low.min(found.at));
        let high = passes(&last, &after, lower).map(|high| high.max(found.at));
        found.low = low.or(found.low);
        found.high = high.or(found.high);
    }
    Some(found)
}

/// Where the ratio passes one; where noise takes it there several times, in the middle between the
/// first and the last time.
fn place(points: &[Point]) -> Option<f64> {
    let value = |point: &Point| Some(point.value);
    let mut pairs = points.windows(2);
    let first = pairs.find(|pair| pair[1].value >= 0.0)?;
    let mut pairs = points.windows(2).rev();
    let last = pairs.find(|pair| pair[0].value <= 0.0)?;
    let first = passes(&first[0], &first[1], value)?;
    let last = passes(&last[0], &last[1], value)?;
    Some((first * last).sqrt())
}

/// Where a line between two points passes one, from below; sizes count by their logarithms. `None`:
/// one of them does not have it.
fn passes(from: &Point, to: &Point, of: fn(&Point) -> Option<f64>) -> Option<f64> {
    let (below, above) = (of(from)?, of(to)?);
    if above <= below {
        return Some(to.size);
    }
    let share = (-below / (above - below)).clamp(0.0, 1.0);
    let (from, to) = (from.size.ln(), to.size.ln());
    Some((from + share * (to - from)).exp())
}

/// By what factor the ratio rises; what is not known of the two adds in squares.
fn change(before: &Point, after: &Point) -> RatioInterval {
    let value = after.value - before.value;
    let least = || Some(value - (after.value - after.lower?).hypot(before.upper? - before.value));
    let most = || Some(value + (after.upper? - after.value).hypot(before.value - before.lower?));
    RatioInterval {
        value: value.exp(),
        low: least().map(f64::exp),
        high: most().map(f64::exp),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn point(size: f64, value: f64, half: f64) -> (f64, RatioInterval) {
        let ratio = RatioInterval {
            value,
            low: Some(value / half),
            high: Some(value * half),
        };
        (size, ratio)
    }

    fn the_only(curve: &[(f64, RatioInterval)]) -> Crossover {
        let found = crossovers(curve);
        assert_eq!(found.len(), 1, "{found:?}");
        found[0]
    }

    #[test]
    fn a_crossover_lies_between_the_sizes_by_their_logarithms() {
        let found = the_only(&[
            point(100.0, 0.25, 1.1),
            point(1_000.0, 0.5, 1.1),
            point(4_000.0, 2.0, 1.1),
            point(8_000.0, 4.0, 1.1),
        ]);
        assert!((found.at - 2_000.0).abs() < 1e-6, "{found:?}");
        assert_eq!(found.between, (1_000.0, 4_000.0));
        assert!(found.rises && found.is_sure());
        assert!((found.change.value - 4.0).abs() < 1e-9);
    }

    #[test]
    fn upside_down_it_is_the_same() {
        let curve = [
            point(10.0, 0.93, 1.02),
            point(13.0, 0.995, 1.02),
            point(17.0, 1.01, 1.02),
            point(22.0, 1.08, 1.02),
        ];
        let mirrored: Vec<_> = curve
            .iter()
            .map(|(size, ratio)| {
                let upside_down = RatioInterval {
                    value: 1.0 / ratio.value,
                    low: ratio.high.map(|end| 1.0 / end),
                    high: ratio.low.map(|end| 1.0 / end),
                };
                (*size, upside_down)
            })
            .collect();
        let (up, down) = (the_only(&curve), the_only(&mirrored));
        assert!(up.rises && !down.rises);
        assert_eq!(up.manner(), down.manner());
        assert!((up.at - down.at).abs() < 1e-9);
        assert!((up.low.unwrap() - down.low.unwrap()).abs() < 1e-9);
        assert!((up.high.unwrap() - down.high.unwrap()).abs() < 1e-9);
        assert!((up.change.high.unwrap() - down.change.high.unwrap()).abs() < 1e-9);
    }

    #[test]
    fn a_gradual_change_is_placed_by_the_ends_of_its_intervals() {
        // Two sizes are not sure, and lie between those that are.
        let found = the_only(&[
            point(1_000.0, 0.93, 1.02),
            point(1_300.0, 0.995, 1.02),
            point(1_700.0, 1.01, 1.02),
            point(2_200.0, 1.08, 1.02),
        ]);
        assert_eq!(found.manner(), Manner::Gradual);
        assert_eq!(found.between, (1_000.0, 2_200.0));
        let (low, high) = (found.low.unwrap(), found.high.unwrap());
        assert!(1_000.0 < low && low < 1_300.0, "{found:?}");
        assert!(1_300.0 < found.at && found.at < 1_700.0, "{found:?}");
        assert!(1_700.0 < high && high < 2_200.0, "{found:?}");
    }

    #[test]
    fn a_step_may_be_anywhere_between_its_sizes() {
        let [below, before] = [point(16_384.0, 0.7, 1.03), point(24_576.0, 0.71, 1.03)];
        let [after, above] = [point(32_768.0, 1.5, 1.03), point(65_536.0, 1.6, 1.03)];
        let near = the_only(&[below, before, after, above]);
        assert_eq!(near.manner(), Manner::Step);
        assert_eq!((near.low, near.high), (Some(24_576.0), Some(32_768.0)));
        let RatioInterval { value, low, high } = near.change;
        assert!((value - 1.5 / 0.71).abs() < 1e-9);
        assert!(STEP < low.unwrap() && low.unwrap() < value && value < high.unwrap());
        // Seen from afar the same may be a slope.
        let far = the_only(&[below, above]);
        assert_eq!(far.manner(), Manner::TooFarApart);
        assert_eq!((far.low, far.high), (Some(16_384.0), Some(65_536.0)));
    }

    #[test]
    fn a_change_that_may_be_small_is_no_step() {
        let found = the_only(&[point(24_576.0, 0.85, 1.12), point(32_768.0, 1.3, 1.12)]);
        assert!(found.is_sure() && found.change.value > STEP, "{found:?}");
        assert!(found.change.low.unwrap() < STEP, "{found:?}");
        assert_eq!(found.manner(), Manner::Open);
    }

    #[test]
    fn noise_around_one_is_one_crossover() {
        let noise = |values: &[f64]| -> Vec<(f64, RatioInterval)> {
            let sizes = (0..).map(|nth| 64.0 * 4f64.powi(nth));
            let of = |(size, value): (f64, &f64)| point(size, *value, 1.1);
            sizes.zip(values).map(of).collect()
        };
        // Past one and back, but surely so at both ends alone.
        let found = the_only(&noise(&[0.5, 0.98, 1.03, 0.99, 1.02, 2.0]));
        assert_eq!((found.low, found.high), (Some(64.0), Some(65_536.0)));
        assert_eq!(found.manner(), Manner::TooFarApart);
        // Of nothing but noise none is sure.
        let found = the_only(&noise(&[0.98, 1.02, 0.97, 1.03]));
        assert_eq!((found.low, found.high), (None, None));
        assert!(crossovers(&noise(&[0.98, 1.02, 0.97, 1.03, 0.99])).is_empty());
        assert!(crossovers(&noise(&[2.0, 0.98, 1.02, 0.97, 2.0])).is_empty());
        // And each sure change of sides is one.
        let twice = crossovers(&noise(&[0.5, 0.98, 1.02, 2.0, 1.02, 0.98, 0.5]));
        let rises: Vec<bool> = twice.iter().map(|found| found.rises).collect();
        assert_eq!(rises, [true, false]);
        assert!(twice.iter().all(Crossover::is_sure));
    }

    #[test]
    fn what_the_rounds_leave_open_has_no_end() {
        // Above one at the end, but not surely.
        let found = the_only(&[
            point(10.0, 0.5, 1.1),
            point(20.0, 1.05, 1.2),
            point(40.0, 1.1, 1.2),
        ]);
        assert_eq!((found.low, found.high), (Some(10.0), None));
        assert_eq!(found.manner(), Manner::Open);
        // Without rounds nothing is sure.
        let bare = |size, value| {
            let (low, high) = (None, None);
            (size, RatioInterval { value, low, high })
        };
        let found = the_only(&[bare(1.0, 0.5), bare(4.0, 2.0)]);
        assert!((found.at - 2.0).abs() < 1e-9);
        assert_eq!((found.low, found.high), (None, None));
        assert_eq!((found.change.low, found.change.high), (None, None));
    }

    #[test]
    fn curves_that_touch_or_keep_apart_do_not_cross() {
        assert!(crossovers(&[]).is_empty());
        assert!(crossovers(&[point(1.0, 0.5, 1.1), point(2.0, 0.9, 1.5)]).is_empty());
        let touching = [
            point(1.0, 0.5, 1.1),
            point(2.0, 1.0, 1.1),
            point(4.0, 0.5, 1.1),
        ];
        assert!(crossovers(&touching).is_empty());
        // Through a ratio of one it goes from the one side to the other.
        let through = [
            point(1.0, 0.5, 1.1),
            point(2.0, 1.0, 1.1),
            point(4.0, 2.0, 1.1),
        ];
        assert!((the_only(&through).at - 2.0).abs() < 1e-9);
    }

    proptest! {
        #[test]
        fn what_costs_more_is_overtaken_sooner(
            points in prop::collection::vec((-0.2f64..0.2, 0.01f64..0.3), 2..12),
            more in 0.01f64..0.3,
        ) {
            let last = (points.len() - 1) as f64;
            let curve = |shift: f64| -> Vec<(f64, RatioInterval)> {
                let of = |(nth, (noise, half)): (usize, &(f64, f64))| {
                    let trend = 1.2 * nth as f64 / last - 0.6;
                    let size = 64.0 * 1.4f64.powi(nth as i32);
                    point(size, (trend + noise + shift).exp(), half.exp())
                };
                points.iter().enumerate().map(of).collect()
            };
            let (one, other) = (crossovers(&curve(0.0)), crossovers(&curve(more)));
            for found in one.iter().chain(&other) {
                let (before, after) = found.between;
                let (low, high) = (found.low.unwrap_or(before), found.high.unwrap_or(after));
                for pair in [before, low, found.at, high, after].windows(2) {
                    prop_assert!(pair[0] <= pair[1] * (1.0 + 1e-9), "{:?}", found);
                }
            }
            prop_assume!(one.len() == 1 && other.len() == 1);
            prop_assert!(one[0].rises && other[0].rises);
            prop_assert!(other[0].at < one[0].at, "{:?} {:?}", one, other);
        }
    }
}
