//! Where one of two curves over size becomes the higher one.
//!
//! At each size the ratio of the two has an interval of its rounds ([`rounds::ratio`](crate::rounds::ratio)).
//! Between sizes logarithms are joined by straight lines, of the ratio and of both ends of its
//! interval: the ratio passes one where the curves cross, and its ends pass one where it has surely not
//! yet been and where it surely is.
//!
//! ```text
//!  ratio │            ·───high
//!        │        ·──╱──·──value
//!      1 ├───────╱──╱──╱────────
//!        │  ·───·  ╱  ╱
//!        │   ·────·──·──low
//!        └──────┴──┴──┴──────── size
//!              low at high
//! ```

use crate::compare::RatioInterval;

/// A change between neighbouring sizes from which on a crossover is a step and not gradual.
const STEP: f64 = 1.35;

/// One place where two curves cross.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossover {
    /// The size.
    pub at: f64,
    /// Up to here the one that was lower surely is; `None`: nowhere before.
    pub low: Option<f64>,
    /// From here on the other one surely is; `None`: nowhere after.
    pub high: Option<f64>,
    /// Whether the ratio rises above one; else it falls below.
    pub rises: bool,
    /// By what factor the ratio changes between the two sizes around it, at least 1.
    pub change: f64,
}

impl Crossover {
    /// Whether there surely is one, be its place known as it may.
    pub fn is_sure(&self) -> bool {
        self.low.is_some() && self.high.is_some()
    }

    /// Whether it is a step from one size to the next.
    pub fn is_step(&self) -> bool {
        self.change > STEP
    }
}

/// All places where a ratio passes one; sizes ascend.
pub fn crossovers(curve: &[(f64, RatioInterval)]) -> Vec<Crossover> {
    let mut found = Vec::new();
    // The last size whose ratio was not one.
    let mut before: Option<usize> = None;
    for (after, (_, ratio)) in curve.iter().enumerate() {
        if ratio.value == 1.0 {
            continue;
        }
        if let Some(before) = before
            && (curve[before].1.value < 1.0) != (ratio.value < 1.0)
        {
            found.push(crossover(curve, before, after));
        }
        before = Some(after);
    }
    found
}

/// The one between two sizes.
fn crossover(curve: &[(f64, RatioInterval)], before: usize, after: usize) -> Crossover {
    let rises = curve[before].1.value < 1.0;
    // What falls is looked at upside down.
    let value = |at: usize| signed(curve[at].1.value, rises);
    let upper = |at: usize| {
        let RatioInterval { low, high, .. } = curve[at].1;
        (if rises { high } else { low }).map(|end| signed(end, rises))
    };
    let lower = |at: usize| {
        let RatioInterval { low, high, .. } = curve[at].1;
        (if rises { low } else { high }).map(|end| signed(end, rises))
    };
    let size = |at: usize| curve[at].0;
    let sure_before = (0..=before)
        .rev()
        .find(|at| upper(*at).is_some_and(|end| end < 0.0));
    let sure_after = (after..curve.len()).find(|at| lower(*at).is_some_and(|end| end > 0.0));
    Crossover {
        at: root((size(before), value(before)), (size(after), value(after))),
        low: sure_before.map(|at| {
            let next = (at + 1).min(curve.len() - 1);
            let end = upper(next).unwrap_or(value(next)).max(value(next));
            root((size(at), upper(at).unwrap_or(0.0)), (size(next), end))
        }),
        high: sure_after.map(|at| {
            let last = at - 1;
            let end = lower(last).unwrap_or(value(last)).min(value(last));
            root((size(last), end), (size(at), lower(at).unwrap_or(0.0)))
        }),
        rises,
        change: (value(after) - value(before)).exp(),
    }
}

/// The logarithm of a ratio, or of what it is upside down.
fn signed(ratio: f64, rises: bool) -> f64 {
    if rises { ratio.ln() } else { -ratio.ln() }
}

/// Where a line from below zero to above it passes it; sizes count by their logarithms.
fn root((from, below): (f64, f64), (to, above): (f64, f64)) -> f64 {
    if above <= below {
        return to;
    }
    let share = (-below / (above - below)).clamp(0.0, 1.0);
    (from.ln() + share * (to.ln() - from.ln())).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(size: f64, value: f64, half: f64) -> (f64, RatioInterval) {
        let ratio = RatioInterval {
            value,
            low: Some(value / half),
            high: Some(value * half),
        };
        (size, ratio)
    }

    #[test]
    fn a_crossover_lies_between_the_sizes_by_their_logarithms() {
        let curve = [
            point(100.0, 0.25, 1.1),
            point(1_000.0, 0.5, 1.1),
            point(4_000.0, 2.0, 1.1),
            point(8_000.0, 4.0, 1.1),
        ];
        let [found] = crossovers(&curve)[..] else {
            panic!("one, and not more")
        };
        assert!((found.at - 2_000.0).abs() < 1e-6, "{found:?}");
        let (low, high) = (found.low.unwrap(), found.high.unwrap());
        assert!(
            1_000.0 < low && low < found.at && found.at < high && high < 4_000.0,
            "{found:?}"
        );
        assert!(found.rises && found.is_sure() && found.is_step());
        assert!((found.change - 4.0).abs() < 1e-9);
    }

    #[test]
    fn upside_down_it_is_the_same() {
        let curve = [
            point(10.0, 0.8, 1.05),
            point(20.0, 0.95, 1.1),
            point(40.0, 1.2, 1.05),
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
        let (up, down) = (crossovers(&curve), crossovers(&mirrored));
        assert_eq!((up.len(), down.len()), (1, 1));
        assert!(up[0].rises && !down[0].rises);
        assert!((up[0].at - down[0].at).abs() < 1e-9);
        assert!((up[0].low.unwrap() - down[0].low.unwrap()).abs() < 1e-9);
        assert!((up[0].high.unwrap() - down[0].high.unwrap()).abs() < 1e-9);
        assert!(!up[0].is_step(), "{up:?}");
    }

    #[test]
    fn what_the_rounds_leave_open_has_no_end() {
        // Above one at the end, but not surely.
        let curve = [
            point(10.0, 0.5, 1.1),
            point(20.0, 1.05, 1.2),
            point(40.0, 1.1, 1.2),
        ];
        let [found] = crossovers(&curve)[..] else {
            panic!("one, and not more")
        };
        assert!(found.low.is_some() && found.high.is_none() && !found.is_sure());
        // Without rounds nothing is sure.
        let bare = |size, value| {
            let (low, high) = (None, None);
            (size, RatioInterval { value, low, high })
        };
        let [found] = crossovers(&[bare(1.0, 0.5), bare(4.0, 2.0)])[..] else {
            panic!("one, and not more")
        };
        assert_eq!((found.at, found.low, found.high), (2.0, None, None));
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
        let found = crossovers(&through);
        assert_eq!(found.len(), 1);
        assert!((found[0].at - 2.0).abs() < 1e-9);
    }
}
