//! What was told of what requests cost, beside what is known of it. Pure.

use wallfinder_model::record::{Cost, Costs};

use crate::found::Found;
use crate::scenario::{Check, Expect, Of, Scenario};

/// A cost is near the truth where it is off by no more than this part of it.
const NEAR: f64 = 0.1;
/// What it is, is known to this part of it: a spin takes what is asked at the least (some 2 % more, by itself), and what is
/// around it differs from start to start.
const KNOWN_TO: f64 = 0.03;

/// A number with half of its interval, beside what it is.
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

    /// Whether the interval holds what it is, as far as that is known.
    fn is_held(&self) -> bool {
        self.off() <= self.half + KNOWN_TO * self.truth
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
        Check::Share { .. } => Some(told(check, found).is_some_and(|told| told.is_near())),
        Check::Added { .. } => {
            Some(told(check, found).is_some_and(|told| told.off() <= NEAR * told.truth + told.half))
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
    /// Those whose interval holds what they are.
    pub held: usize,
}

impl CostsTold {
    /// Of each scenario of which costs are known, and of all where those are several. Scenarios come with what each run
    /// of theirs found.
    pub fn all<'f>(
        runs: impl IntoIterator<Item = (&'f str, Vec<Option<&'f Found>>)>,
    ) -> Vec<CostsTold> {
        let of = |(name, runs): (&str, Vec<Option<&Found>>)| {
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
                held: sum(|it| it.held),
            });
        }
        all
    }

    fn of(scenario: &Scenario, runs: &[Option<&Found>]) -> Option<CostsTold> {
        let Expect::Wall { checks, .. } = scenario.expect else {
            return None;
        };
        let checks: Vec<&Check> = checks.iter().filter(|check| is_estimated(check)).collect();
        let all: Vec<Estimate> = runs
            .iter()
            .flatten()
            .flat_map(|found| checks.iter().filter_map(|check| told(check, found)))
            .collect();
        let count = |wanted: fn(&Estimate) -> bool| all.iter().filter(|told| wanted(told)).count();
        (!checks.is_empty()).then(|| CostsTold {
            scenario: scenario.name.to_owned(),
            asked: runs.len() * checks.len(),
            told: all.len(),
            near: count(Estimate::is_near),
            held: count(Estimate::is_held),
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
        let near_and_held = |told: Estimate| (told.is_near(), told.is_held());
        assert_eq!(near_and_held(told(109.0, 10.0)), (true, true));
        assert_eq!(near_and_held(told(91.0, 5.0)), (true, false));
        assert_eq!(near_and_held(told(85.0, 20.0)), (false, true));
        assert_eq!(near_and_held(told(120.0, 10.0)), (false, false));
    }
}
