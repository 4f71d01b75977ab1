//! What was told of what requests cost, beside what is known of it. Pure.

use wallfinder_model::record::{Cost, Costs};

use crate::found::Found;
use crate::held::{Held, Mean};
use crate::scenario::{Check, Expect, Of, Scenario};

/// A cost is near the truth where it is off by no more than this part of it.
const NEAR: f64 = 0.1;

/// A number with half of its interval, beside what it is by arithmetic.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Estimate {
    value: f64,
    half: f64,
    truth: f64,
}

impl Estimate {
    fn off(&self) -> f64 {
        (self.value - self.truth).abs()
    }

    /// Off by a tenth at the most.
    fn is_near(&self) -> bool {
        self.off() <= NEAR * self.truth
    }

    /// Whether it differs from what was measured by no more than the intervals of both allow.
    fn is_held(&self, measured: Mean) -> bool {
        (self.value - measured.value).abs() <= self.half.hypot(measured.half)
    }
}

/// Whether a check of what requests cost holds; `None`: it asks for something else.
pub(crate) fn holds(check: &Check, found: &Found) -> Option<bool> {
    match check {
        // Bytes are counted.
        Check::Share {
            name,
            of: Of::Bytes,
            truth,
        } => {
            let share = share_of_bytes(found, name);
            Some(share.is_some_and(|share| (share - truth).abs() <= NEAR * truth))
        }
        Check::Share { .. } | Check::Added { .. } => {
            Some(told(check, found).is_some_and(|told| told.is_near()))
        }
        _ => None,
    }
}

fn share_of_bytes(found: &Found, name: &str) -> Option<f64> {
    let all: u64 = found.kinds.iter().map(|kind| kind.wire_bytes).sum();
    let own = found.kind(name)?;
    (all > 0).then(|| own.wire_bytes as f64 / all as f64)
}

fn costs(found: &Found, name: &str) -> Option<Costs> {
    found.kind(name)?.costs
}

/// Whether windows are to tell the number that a check is of.
fn is_estimated(check: &Check) -> bool {
    match check {
        Check::Share { of, .. } => *of != Of::Bytes,
        Check::Added { .. } => true,
        _ => false,
    }
}

/// What windows told of it; `None` where they did not.
fn told(check: &Check, found: &Found) -> Option<Estimate> {
    match check {
        Check::Share { name, of, truth } => {
            let costs = costs(found, name)?;
            let cost = match of {
                Of::Server => Some(costs.server),
                Of::Held => costs.held,
                Of::Backend => costs.backend,
                Of::Bytes => None,
            }?;
            Some(Estimate {
                value: cost.share,
                half: (cost.share_high - cost.share_low) / 2.0,
                truth: *truth,
            })
        }
        Check::Added { name, over, us } => {
            let (one, other) = (costs(found, name)?.server, costs(found, over)?.server);
            let half = |cost: Cost| (cost.high - cost.low) / 2.0;
            Some(Estimate {
                value: one.each - other.each,
                // They are of one fit, so that their errors may add up.
                half: half(one) + half(other),
                truth: us * 1e3,
            })
        }
        _ => None,
    }
}

/// What was measured of the same, with each request alone; `None` where it was not.
fn measured(check: &Check, held: &[Held]) -> Option<Mean> {
    let of = |name: &str| held.iter().find(|held| held.name == name);
    match check {
        Check::Share { name, .. } => Some(Mean::of(of(name)?.shares.iter().copied())),
        Check::Added { name, over, .. } => {
            let both = of(name)?.each_ns.iter().zip(&of(over)?.each_ns);
            Some(Mean::of(both.map(|(one, other)| one - other)))
        }
        _ => None,
    }
}

/// What a run found, and what was measured beside it.
pub type Run<'o> = (Option<&'o Found>, &'o [Held]);

/// How near what was told of costs came to what they are, of one scenario or of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostsTold {
    /// The scenario; empty for all of them.
    pub scenario: String,
    /// Costs to be told.
    pub asked: usize,
    /// Those told.
    pub told: usize,
    /// Those off by a tenth at the most.
    pub near: usize,
    /// Those measured too, with each request alone.
    pub measured: usize,
    /// Those of them that differ from that by no more than both intervals allow.
    pub held: usize,
}

impl CostsTold {
    /// Of each scenario of which costs are known, and of all where those are several. Scenarios come with their runs.
    pub fn all<'o>(runs: impl IntoIterator<Item = (&'o str, Vec<Run<'o>>)>) -> Vec<CostsTold> {
        let of = |(name, runs): (&str, Vec<Run<'_>>)| {
            let scenario = crate::suite::scenarios().find(|it| it.name == name)?;
            CostsTold::of(scenario, &runs)
        };
        let mut all: Vec<CostsTold> = runs.into_iter().filter_map(of).collect();
        if all.len() > 1 {
            let sum = |of: fn(&CostsTold) -> usize| all.iter().map(of).sum();
            all.push(CostsTold {
                scenario: String::new(),
                asked: sum(|it| it.asked),
                told: sum(|it| it.told),
                near: sum(|it| it.near),
                measured: sum(|it| it.measured),
                held: sum(|it| it.held),
            });
        }
        all
    }

    fn of(scenario: &Scenario, runs: &[Run<'_>]) -> Option<CostsTold> {
        let Expect::Wall { checks, .. } = scenario.expect else {
            return None;
        };
        let checks: Vec<&Check> = checks.iter().filter(|check| is_estimated(check)).collect();
        let of_run = |(found, held): &Run<'_>| {
            let of_check = |check: &&Check| Some((told(check, (*found)?)?, measured(check, held)));
            checks.iter().filter_map(of_check).collect::<Vec<_>>()
        };
        let all: Vec<(Estimate, Option<Mean>)> = runs.iter().flat_map(of_run).collect();
        let both = || all.iter().filter_map(|(told, held)| Some((told, (*held)?)));
        (!checks.is_empty()).then(|| CostsTold {
            scenario: scenario.name.to_owned(),
            asked: runs.len() * checks.len(),
            told: all.len(),
            near: all.iter().filter(|(told, _)| told.is_near()).count(),
            measured: both().count(),
            held: both().filter(|(told, held)| told.is_held(*held)).count(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_near_or_not_and_its_interval_holds_the_truth_or_not() {
        let told = |value, half| Estimate {
            value,
            half,
            truth: 100.0,
        };
        let alone = Mean {
            value: 101.0,
            half: 4.0,
        };
        let near_and_held = |told: Estimate| (told.is_near(), told.is_held(alone));
        assert_eq!(near_and_held(told(109.0, 8.0)), (true, true));
        assert_eq!(near_and_held(told(91.0, 5.0)), (true, false));
        assert_eq!(near_and_held(told(85.0, 20.0)), (false, true));
        assert_eq!(near_and_held(told(120.0, 10.0)), (false, false));
    }

    #[test]
    fn what_one_takes_more_than_another_is_measured_turn_by_turn() {
        let held = |name: &str, each_ns: [f64; 2]| Held {
            name: name.to_owned(),
            each_ns: each_ns.to_vec(),
            shares: vec![0.4, 0.6],
        };
        let all = [held("dear", [550.0, 660.0]), held("light", [50.0, 160.0])];
        let added = Check::Added {
            name: "dear",
            over: "light",
            us: 0.5,
        };
        // The machine was slower in the second turn, for both.
        let told = measured(&added, &all).expect("both were held");
        assert_eq!((told.value, told.half), (500.0, 0.0));
        assert_eq!(measured(&added, &all[..1]), None);
    }
}
