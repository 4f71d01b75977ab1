//! Two cells of an experiment that was run several times over, side by side.
//!
//! A round runs every cell once, one after another, each time with a server started anew.
//! What differs from round to round is what another run would differ by, so rounds are the
//! sample: logarithms of the ratio within each round, and Student's interval of their mean.

use std::collections::BTreeMap;

use wallfinder_model::reason::Side;
use wallfinder_model::{Caveat, Step};

use crate::compare::RatioInterval;
use crate::student;

pub use crate::finite::median;
pub use crate::student::mean_95;

/// A step counts as disturbed where others used so much of each of a side's processors, and these
/// were so busy.
const NEIGHBOUR_MIN: f64 = 0.15;
const BUSY_MIN: f64 = 0.9;
/// So does one of whose time the hypervisor took such a share, and one in which everything stood
/// still for such a share of its window.
const STEAL_MIN: f64 = 0.05;
const GAP_MIN: f64 = 0.05;

/// What a cell had in each of its rounds, by their numbers.
pub type ByRound = BTreeMap<u32, f64>;

/// One cell over another in the rounds that both have; a round that one of them lacks counts for
/// nothing. The ratio is the geometric mean; its 95 % interval needs two rounds. `None`: no
/// round is shared, or a value in one that is shared is not above zero.
pub fn ratio(over: &ByRound, under: &ByRound) -> Option<RatioInterval> {
    let sound = |value: f64| value.is_finite() && value > 0.0;
    let mut logs = Vec::new();
    for (round, a) in over {
        let Some(b) = under.get(round) else { continue };
        if !sound(*a) || !sound(*b) {
            return None;
        }
        logs.push(a.ln() - b.ln());
    }
    if logs.is_empty() {
        return None;
    }
    let (mean, half) = student::mean_95(&logs);
    let half = Some(half).filter(|_| logs.len() > 1);
    Some(RatioInterval {
        value: mean.exp(),
        low: half.map(|half| (mean - half).exp()),
        high: half.map(|half| (mean + half).exp()),
    })
}

/// What others did to a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Disturbance {
    /// They used processors of a side.
    Neighbour {
        /// Whose.
        side: Side,
        /// Cores.
        cores: f64,
    },
    /// The hypervisor took time.
    Stolen {
        /// Share of it, 0..1.
        share: f64,
    },
    /// Everything stood still.
    StoodStill {
        /// For so long.
        gap_ns: u64,
    },
}

/// What others did to a step, where that was so much that its round may tell nothing of the cell.
pub fn disturbance(step: &Step) -> Option<Disturbance> {
    let telemetry = &step.telemetry;
    let judged = step.verdict.iter().flat_map(|verdict| &verdict.caveats);
    let mut caveats = step.caveats.iter().chain(judged);
    caveats.find_map(|caveat| match *caveat {
        Caveat::Neighbour { side, cores } => {
            let family = match side {
                Side::Client => telemetry.client.as_ref()?,
                Side::Server => telemetry.server.as_ref()?,
            };
            let processors = family.cpus_allowed.len().max(1) as f64;
            let contended = family.cpus_busy >= BUSY_MIN && cores >= NEIGHBOUR_MIN * processors;
            contended.then_some(Disturbance::Neighbour { side, cores })
        }
        Caveat::StealAbove { share } if share >= STEAL_MIN => Some(Disturbance::Stolen { share }),
        Caveat::Gap { gap_ns, .. } if gap_ns as f64 >= GAP_MIN * step.window_ns as f64 => {
            Some(Disturbance::StoodStill { gap_ns })
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::a_step;

    fn rounds(values: &[f64]) -> ByRound {
        (1..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn what_all_rounds_share_leaves_no_doubt() {
        let drifting = rounds(&[10.0, 20.0, 40.0]);
        let twice = rounds(&[20.0, 40.0, 80.0]);
        let found = ratio(&twice, &drifting).unwrap();
        assert!((found.value - 2.0).abs() < 1e-12);
        assert!((found.low.unwrap() - 2.0).abs() < 1e-9);
        assert!((found.high.unwrap() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn the_interval_is_students_of_the_logarithms() {
        // Logarithms 0 and ln 4: mean ln 2, standard error ln 2, t(1) = 12.706.
        let found = ratio(&rounds(&[1.0, 4.0]), &rounds(&[1.0, 1.0])).unwrap();
        assert!((found.value - 2.0).abs() < 1e-12);
        let high = found.high.unwrap().ln();
        assert!((high - 13.706 * 2f64.ln()).abs() < 1e-3, "{high}");
    }

    #[test]
    fn rounds_are_paired_by_their_numbers() {
        // The machine slows tenfold from round to round, one takes twice the other's time, and each
        // lacks another round.
        let mut slow = rounds(&[2.0, 20.0, 200.0, 2e3]);
        let mut fast = rounds(&[1.0, 10.0, 100.0, 1e3]);
        slow.remove(&2);
        fast.remove(&3);
        let found = ratio(&slow, &fast).unwrap();
        assert!((found.value - 2.0).abs() < 1e-9, "{found:?}");
        assert!((found.low.unwrap() - 2.0).abs() < 1e-9, "{found:?}");
        // What only one of them has need not be sound.
        slow.insert(9, f64::NAN);
        assert_eq!(ratio(&slow, &fast), Some(found));
        // One shared round has no interval, and none no ratio.
        let last = ByRound::from([(4, 1e3), (5, 1.0)]);
        let one = ratio(&slow, &last).unwrap();
        assert!((one.value - 2.0).abs() < 1e-9, "{one:?}");
        assert_eq!((one.low, one.high), (None, None));
        assert_eq!(ratio(&slow, &ByRound::from([(2, 1.0)])), None);
    }

    #[test]
    fn one_round_has_no_interval_and_nonsense_no_ratio() {
        let one = ratio(&rounds(&[3.0]), &rounds(&[2.0])).unwrap();
        assert!((one.value - 1.5).abs() < 1e-12, "{one:?}");
        assert_eq!((one.low, one.high), (None, None));
        for (over, under) in [
            (&[][..], &[][..]),
            (&[1.0], &[]),
            (&[1.0], &[0.0]),
            (&[-1.0], &[1.0]),
            (&[f64::NAN], &[1.0]),
        ] {
            assert_eq!(ratio(&rounds(over), &rounds(under)), None);
        }
    }

    #[test]
    fn a_step_is_disturbed_by_what_took_much_of_it() {
        let mut step = a_step().build();
        assert_eq!(disturbance(&step), None);
        step.caveats = vec![Caveat::StealAbove { share: 0.03 }];
        assert_eq!(disturbance(&step), None, "a little is not much");
        step.caveats = vec![Caveat::StealAbove { share: 0.07 }];
        let stolen = Disturbance::Stolen { share: 0.07 };
        assert_eq!(disturbance(&step), Some(stolen));
        let gap_ns = step.window_ns / 10;
        step.caveats = vec![Caveat::Gap { gap_ns, at_ns: 0 }];
        let still = Disturbance::StoodStill { gap_ns };
        assert_eq!(disturbance(&step), Some(still));
    }
}
