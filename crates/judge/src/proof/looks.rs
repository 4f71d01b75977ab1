//! What to run next: rounds are spent where a decision needs them.
//!
//! ```text
//!  every squeeze in reach at 0.8, 3 rounds (quick) or 6
//!      └► what may be the wall at 0.9 · what is slack at 0.5, and at 0.65 where that binds
//!            └► what is still open: to 10 rounds, and to 16
//! ```
//!
//! A quick look has the first line, and more rounds of what that leaves open while its minute lasts.
//!
//! It is a function of the experiment so far. The conductor calls it after each batch and
//! stops at [`Next::Enough`]. It ends by itself, for every order is for rounds that a
//! condition lacks, and windows count as run whether or not their squeeze was in force.

use std::collections::BTreeSet;

use wallfinder_model::experiment::{Effort, Experiment, Squeeze, Takes};

use super::decide;
use super::design;
use super::dose;
use super::estimate::{ALPHA, LOOKS};
use super::gates::NULL_MAX;
use super::pace;
use super::pairs;
use super::readings::{
    Answer, HALF_WIDTH_MAX, ROUNDS_CONFIRMED, ROUNDS_PROVED, Reading, Readings, SHARE_MIN, WALL_MIN,
};

/// Half an interval from which a squeeze blurs the sum of all.
const BLURRED: f64 = 0.13;

/// What the conductor does now.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// More rounds of these squeezes, each round with its shams ([`design::block`]).
    Rounds {
        /// How many.
        rounds: u32,
        /// Squeezes in use; the shams are not among them.
        conditions: Vec<ConditionOrder>,
    },
    /// Nothing that could still be run would change the verdict, or the budget is spent.
    Enough,
}

/// A squeeze at a dose.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConditionOrder {
    /// What to squeeze.
    pub squeeze: Squeeze,
    /// What to leave of it.
    pub retained: f64,
}

/// Rounds of one batch, after the first look.
const BATCH: u32 = 3;
/// The first dose.
const MAIN: f64 = 0.8;
/// The dose that tells a wall from a near next wall.
const SMALL: f64 = 0.9;
/// What is widened, is widened by a quarter: as far as the first dose is from nothing.
const WIDENED: f64 = 1.25;

/// The first dose of a squeeze.
fn first_dose(squeeze: Squeeze) -> f64 {
    match squeeze {
        Squeeze::MoreInFlight => WIDENED,
        _ => MAIN,
    }
}

/// The next batch.
pub fn next(experiment: &Experiment) -> Next {
    if experiment.cut_short.is_some() {
        return Next::Enough;
    }
    let plan = Plan {
        experiment,
        in_reach: in_reach(experiment),
    };
    let first = plan.lacking(
        plan.in_reach
            .iter()
            .map(|s| (*s, first_dose(*s), first(experiment.effort))),
    );
    if !first.is_empty() {
        return plan.order(first, u32::MAX);
    }
    let readings = Readings::of(experiment);
    if experiment.effort == Effort::Quick {
        return plan.order(plan.lacking(plan.unknown(&readings)), BATCH);
    }
    let mut wanted = plan.lacking(plan.confirm(&readings));
    wanted.extend(plan.lacking(plan.search(&readings)));
    if wanted.is_empty() {
        wanted = plan.lacking(plan.open(&readings));
    }
    plan.order(wanted, BATCH)
}

/// Squeezes that this experiment can make and that mean something in it.
pub fn in_reach(experiment: &Experiment) -> Vec<Squeeze> {
    let setting = &experiment.setting;
    let had = |squeeze: Squeeze| {
        let out = experiment
            .out_of_reach
            .iter()
            .any(|out| out.squeeze == squeeze);
        !out
    };
    Squeeze::ALL
        .into_iter()
        .filter(|squeeze| had(*squeeze))
        .filter(|squeeze| squeeze.applies(setting))
        .filter(|squeeze| match squeeze {
            Squeeze::InFlight => setting.in_flight_max > 1,
            // It tells what too little in flight is worth, for which a quick look has no time.
            Squeeze::MoreInFlight => experiment.effort != Effort::Quick,
            // A quick look has no time for it, unless a quota asks for it.
            Squeeze::ClientCapacity => {
                experiment.effort != Effort::Quick || setting.client_quota_cores.is_some()
            }
            _ => true,
        })
        .collect()
}

/// Rounds at the first look.
pub(super) fn first(effort: Effort) -> u32 {
    match effort {
        Effort::Quick => 3,
        Effort::Normal => LOOKS[0],
        Effort::Thorough => LOOKS[1],
    }
}

type Want = (Squeeze, f64, u32);

struct Plan<'e> {
    experiment: &'e Experiment,
    in_reach: Vec<Squeeze>,
}

impl Plan<'_> {
    /// Windows that may still be run, shams included.
    fn left(&self) -> usize {
        let (windows, seconds) = match self.experiment.effort {
            Effort::Quick => (60, 65.0),
            Effort::Normal => (190, 265.0),
            Effort::Thorough => (580, 870.0),
        };
        let had = self.experiment.windows.len();
        let spent = self
            .experiment
            .windows
            .iter()
            .map(|w| w.to_ns)
            .max()
            .unwrap_or(0);
        let spent = spent as f64 / 1e9;
        // A slow server's windows are longer than the second and a half that is usual.
        let each = (spent / had.max(1) as f64).max(0.1);
        let by_time = ((seconds - spent) / each).max(0.0) as usize;
        by_time.min(usize::saturating_sub(windows, had))
    }

    /// Rounds that a condition has had, whatever they told.
    fn had(&self, squeeze: Squeeze, retained: f64) -> u32 {
        let dose = pairs::Dose::of(squeeze, retained);
        let rounds: BTreeSet<u32> = self
            .experiment
            .windows
            .iter()
            .filter(|window| {
                self.experiment.condition(window).is_some_and(|condition| {
                    let near = (condition.retained - retained).abs() < 0.03;
                    let same = dose == pairs::Dose::of(squeeze, condition.retained);
                    condition.squeeze == Some(squeeze)
                        && (near || (same && dose == pairs::Dose::Main))
                })
            })
            .map(|window| window.round)
            .collect();
        rounds.len() as u32
    }

    /// Of what is wanted, the rounds that are still to be run.
    fn lacking(&self, wanted: impl IntoIterator<Item = Want>) -> Vec<Want> {
        wanted
            .into_iter()
            .filter_map(|(squeeze, retained, rounds)| {
                let lacks = rounds.saturating_sub(self.had(squeeze, retained));
                (lacks > 0).then_some((squeeze, retained, lacks))
            })
            .collect()
    }

    /// What is wanted, cut to the budget; the last wishes go first. A small dose is worth the rounds that
    /// bear a wall out, and where all of them together leave too few for that, the others wait.
    fn order(&self, wanted: Vec<Want>, rounds_max: u32) -> Next {
        let confirms = wanted.iter().any(|(squeeze, retained, _)| {
            *retained == SMALL && self.had(*squeeze, SMALL) < ROUNDS_CONFIRMED
        });
        if confirms {
            let next = self.cut(wanted.clone(), rounds_max, ROUNDS_CONFIRMED);
            if next != Next::Enough {
                return next;
            }
        }
        self.cut(wanted, rounds_max, 2)
    }

    /// The most of what is wanted that has so many rounds in the budget, or all that it lacks.
    fn cut(&self, mut wanted: Vec<Want>, rounds_max: u32, least: u32) -> Next {
        let left = self.left();
        while !wanted.is_empty() {
            let block = design::length(wanted.len());
            let lacks = wanted
                .iter()
                .map(|(_, _, rounds)| *rounds)
                .min()
                .unwrap_or(0);
            let rounds = lacks.min(rounds_max).min((left / block) as u32);
            // The first look is taken whole: without it there is nothing to say.
            let first = self.experiment.windows.is_empty();
            if rounds >= lacks.min(least) || first {
                return Next::Rounds {
                    rounds: if first { lacks } else { rounds },
                    conditions: wanted
                        .iter()
                        .map(|(squeeze, retained, _)| ConditionOrder {
                            squeeze: *squeeze,
                            retained: *retained,
                        })
                        .collect(),
                };
            }
            wanted.pop();
        }
        Next::Enough
    }

    /// A small dose of what may be the wall.
    fn confirm(&self, readings: &Readings) -> Vec<Want> {
        let mut candidates: Vec<&Reading> = readings
            .iter()
            .filter(|reading| is_rate(reading.squeeze) && self.in_reach.contains(&reading.squeeze))
            .filter(|reading| {
                let at_main = reading.main.unwrap_or(reading.local);
                at_main.value >= 0.4 || reading.has_share()
            })
            .collect();
        let size = |reading: &Reading| reading.main.unwrap_or(reading.local).value;
        candidates.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let most = if self.experiment.effort == Effort::Thorough {
            4
        } else {
            3
        };
        candidates
            .into_iter()
            .take(most)
            .map(|reading| (reading.squeeze, SMALL, LOOKS[0]))
            .collect()
    }

    /// Large doses of what is slack, until it binds.
    fn search(&self, readings: &Readings) -> Vec<Want> {
        let rounds = if self.experiment.effort == Effort::Thorough {
            6
        } else {
            3
        };
        let slack: Vec<&Reading> = readings
            .iter()
            .filter(|reading| is_speed(reading.squeeze) && self.in_reach.contains(&reading.squeeze))
            .filter(|reading| reading.answer() == Answer::No)
            .collect();
        let mut wanted: Vec<Want> = slack
            .iter()
            .map(|reading| (reading.squeeze, 0.5, rounds))
            .collect();
        wanted.extend(
            slack
                .iter()
                .filter(|reading| dose::binds(readings, reading, 0.5) == Some(true))
                .map(|reading| (reading.squeeze, 0.65, rounds)),
        );
        wanted
    }

    /// What is not known well enough to say anything of, up to the next look; what seems to be a
    /// wall comes first.
    fn unknown(&self, readings: &Readings) -> Vec<Want> {
        let mut unknown: Vec<&Reading> = readings
            .iter()
            .filter(|reading| self.in_reach.contains(&reading.squeeze))
            .filter(|reading| reading.answer() == Answer::Open)
            .collect();
        unknown.sort_by(|a, b| b.local.value.total_cmp(&a.local.value));
        let wanted = unknown.into_iter().map(|reading| {
            let dose = first_dose(reading.squeeze);
            let rounds = look_after(self.had(reading.squeeze, dose));
            (reading.squeeze, dose, rounds)
        });
        wanted.collect()
    }

    /// What is not yet decided, up to the next look.
    fn open(&self, readings: &Readings) -> Vec<Want> {
        let named = readings
            .iter()
            .any(|reading| is_rate(reading.squeeze) && reading.names())
            || readings.in_flight().is_some_and(Reading::names);
        let mut wanted = Vec::new();
        for reading in readings
            .iter()
            .filter(|r| self.in_reach.contains(&r.squeeze))
            .filter(|r| r.squeeze != Squeeze::MoreInFlight || named)
        {
            if is_open(reading, named) {
                let dose = if reading.bent {
                    SMALL
                } else {
                    first_dose(reading.squeeze)
                };
                wanted.push((
                    reading.squeeze,
                    dose,
                    look_after(self.had(reading.squeeze, dose)),
                ));
            }
        }
        if let Some((first, second)) = self.at_the_kink(readings) {
            for squeeze in [first, second] {
                for dose in [SMALL, MAIN] {
                    wanted.push((squeeze, dose, look_after(self.had(squeeze, dose))));
                }
            }
        }
        if wanted.is_empty() && !self.null_is_known() {
            // Shams come with any round; what names a wall gains most from it, for it must outweigh them.
            let mut gain: Vec<&Reading> = readings
                .iter()
                .filter(|reading| self.in_reach.contains(&reading.squeeze))
                .filter(|reading| reading.squeeze != Squeeze::MoreInFlight)
                .collect();
            gain.sort_by(|a, b| b.local.value.total_cmp(&a.local.value));
            let named = gain.iter().filter(|reading| reading.names()).count();
            wanted.extend(gain.into_iter().take(named.max(1)).map(|reading| {
                let rounds = look_after(self.had(reading.squeeze, MAIN));
                (reading.squeeze, MAIN, rounds)
            }));
        }
        wanted.sort_by(|a, b| {
            (a.0, a.1)
                .partial_cmp(&(b.0, b.1))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        wanted.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
        wanted
    }

    /// Pairs of walls that may still be told apart by more rounds.
    fn at_the_kink(&self, readings: &Readings) -> Option<(Squeeze, Squeeze)> {
        let mut named: Vec<&Reading> = readings
            .iter()
            .filter(|reading| is_speed(reading.squeeze) && reading.names())
            .collect();
        named.sort_by(|a, b| a.gap.value.total_cmp(&b.gap.value));
        let [first, second, ..] = named[..] else {
            return None;
        };
        let gap = decide::behind(first, second);
        let (_, high) = gap.interval(decide::ALPHA_BEHIND);
        let open = !decide::is_behind(&gap) && high > 2.0 * NULL_MAX;
        open.then_some((first.squeeze, second.squeeze))
    }

    fn null_is_known(&self) -> bool {
        pairs::null_effect(&pace::at_one_pace(self.experiment)).is_some_and(|null| {
            let (low, high) = null.interval(ALPHA);
            low >= -NULL_MAX && high <= NULL_MAX
        })
    }
}

/// Whether more rounds of a squeeze could change what is said of it.
fn is_open(reading: &Reading, named: bool) -> bool {
    let (low, high) = reading.interval();
    // It is judged by its small dose, which was begun and has too few rounds for any proof.
    if reading.bent && reading.local.rounds < ROUNDS_PROVED {
        return true;
    }
    match reading.answer() {
        Answer::Surely => false,
        Answer::Likely | Answer::Open => true,
        // With a wall named, what is certainly none of it needs no more.
        Answer::No if named => reading.local.half_width() > HALF_WIDTH_MAX,
        // Without one, the rest is what all of them leave of 1, and each blurs it.
        Answer::No => {
            let half = reading.local.half_width();
            high > WALL_MIN || half > BLURRED || (low < SHARE_MIN && high > SHARE_MIN + 0.1)
        }
    }
}

/// The look after so many rounds; beyond the last, none.
fn look_after(rounds: u32) -> u32 {
    LOOKS.into_iter().find(|look| *look > rounds).unwrap_or(0)
}

/// A squeeze of a rate, whose small dose tells a wall from a next wall.
fn is_rate(squeeze: Squeeze) -> bool {
    squeeze.takes() != Takes::InFlight
}

/// A squeeze that may be deep: until what is slack binds.
pub(super) fn is_speed(squeeze: Squeeze) -> bool {
    squeeze.takes() == Takes::Speed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::synthetic::{Conditions, System, experiment_of, run};
    use wallfinder_model::experiment::OutOfReach;

    #[test]
    fn the_first_batch_holds_every_squeeze_in_reach_once() {
        let mut experiment = experiment_of(&[], &[]);
        experiment.out_of_reach.push(OutOfReach {
            squeeze: Squeeze::Uplink,
            why: "no link of ours".to_owned(),
        });
        let Next::Rounds { rounds, conditions } = next(&experiment) else {
            panic!()
        };
        assert_eq!(rounds, 6);
        let squeezes: Vec<Squeeze> = conditions.iter().map(|order| order.squeeze).collect();
        assert!(squeezes.contains(&Squeeze::ServerSpeed) && !squeezes.contains(&Squeeze::Uplink));
        assert!(!squeezes.contains(&Squeeze::OfferedLoad));
        for order in conditions {
            let widened = order.squeeze == Squeeze::MoreInFlight;
            assert_eq!(order.retained, if widened { 1.25 } else { 0.8 });
        }
    }

    #[test]
    fn an_experiment_that_was_cut_short_ends() {
        let mut experiment = experiment_of(&[], &[]);
        experiment.cut_short = Some("a signal".to_owned());
        assert_eq!(next(&experiment), Next::Enough);
    }

    #[test]
    fn without_any_squeeze_in_reach_there_is_nothing_to_run() {
        let mut experiment = experiment_of(&[], &[]);
        experiment.out_of_reach = Squeeze::ALL
            .into_iter()
            .map(|squeeze| OutOfReach {
                squeeze,
                why: String::new(),
            })
            .collect();
        assert_eq!(next(&experiment), Next::Enough);
    }

    /// Slow answers make long windows, and after the first look there is time for a dozen more.
    #[test]
    fn a_small_dose_has_its_rounds_before_large_ones_where_time_is_short() {
        let system = System {
            downlink: 4e-3,
            ..System::default()
        };
        let mut experiment = run(&system, Conditions::default()).experiment.unwrap();
        experiment.windows.retain(|window| window.round < LOOKS[0]);
        let spent = experiment.windows.iter().map(|w| w.to_ns).max().unwrap();
        for window in &mut experiment.windows {
            let stretched = |ns: u64| (ns as f64 * 225e9 / spent as f64) as u64;
            (window.from_ns, window.to_ns) = (stretched(window.from_ns), stretched(window.to_ns));
        }
        let Next::Rounds { rounds, conditions } = next(&experiment) else {
            panic!("there is time for it")
        };
        assert_eq!(
            (conditions[0].squeeze, conditions[0].retained),
            (Squeeze::Downlink, SMALL)
        );
        assert!(rounds >= ROUNDS_CONFIRMED, "{rounds} rounds");
    }
}
