//! What to run next: windows are spent where a decision needs them.
//!
//! ```text
//!  each squeeze in reach once at 0.8
//!      └► who is suspected alone, all others at once   ◄─┐  to 3 rounds (quick), 6, 10 and 16
//!            │  the others cost something together: ─────┘  who of them is, is suspected too
//!            └► the suspect at 0.9 · the others at 0.5 at once, and each at 0.5 and 0.65 where that binds
//! ```
//!
//! Why at once: throughput is monotone in each resource, so what costs nothing together costs nothing alone,
//! and one window speaks of all of them. Why not a factorial design, in which every window speaks of
//! everything: near a second wall its effects are not the elasticities of the load that is not squeezed
//! (`tests::designs` holds both beside each other).
//!
//! It is a function of the experiment so far. The conductor calls it after each batch and
//! stops at [`Next::Enough`]. It ends by itself, for every order is for rounds that a
//! condition lacks, and windows count as run whether or not their squeeze was in force.

use std::collections::BTreeSet;
use std::time::Duration;

use wallfinder_model::Wall;
use wallfinder_model::experiment::{Condition, Effort, Experiment, Squeeze, Takes};

use super::decide;
use super::design;
use super::dose;
use super::estimate::{ALPHA, LOOKS};
use super::gates::{ALPHA_WITHIN, NULL_MAX};
use super::pace;
use super::readings::{
    Answer, HALF_WIDTH_MAX, ROUNDS_CONFIRMED, ROUNDS_PROVED, Reading, Readings, SHARE_MIN, WALL_MIN,
};
use super::windows::{self, Dose};

/// Half an interval from which a squeeze blurs the sum of all.
const BLURRED: f64 = 0.13;
/// From this elasticity a squeeze is suspected of its wall.
const SUSPECT_MIN: f64 = 0.35;
/// Rounds after which what several cost at once is believed.
const ROUNDS_BELIEVED: u32 = 3;

/// What the conductor does now.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// More rounds of these conditions, each round with its shams ([`design::block`]).
    Rounds {
        /// How many.
        rounds: u32,
        /// What is squeezed; the shams are not among them.
        conditions: Vec<ConditionOrder>,
    },
    /// Nothing that could still be run would change the verdict, or the budget is spent.
    Enough,
}

/// Squeezes at a dose.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionOrder {
    /// What to squeeze, one or several at once; in order.
    pub squeezes: Vec<Squeeze>,
    /// What to leave of each.
    pub retained: f64,
}

impl ConditionOrder {
    fn of(squeeze: Squeeze, retained: f64) -> ConditionOrder {
        ConditionOrder {
            squeezes: vec![squeeze],
            retained,
        }
    }

    fn dose(&self) -> Dose {
        match self.squeezes[..] {
            [one] => Dose::of(one, self.retained),
            _ => Dose::of_several(self.retained),
        }
    }

    /// Whether a condition of an experiment is this one, whatever was left of it.
    pub fn is(&self, condition: &Condition) -> bool {
        condition.squeezes().eq(self.squeezes.iter().copied())
            && condition.retained == self.retained
    }

    /// Such a condition, made so.
    pub fn condition(&self, how: String) -> Condition {
        let one = match self.squeezes[..] {
            [one] => Some(one),
            _ => None,
        };
        Condition {
            squeeze: one,
            together: match one {
                Some(_) => Vec::new(),
                None => self.squeezes.clone(),
            },
            retained: self.retained,
            how,
        }
    }
}

/// Rounds of one batch, after each squeeze was seen once.
const BATCH: u32 = 2;
/// The first dose.
pub const MAIN: f64 = 0.8;
/// The dose that tells a wall from a near next wall.
const SMALL: f64 = 0.9;
/// Half of what is slack: what then binds is next.
pub const DEEP: f64 = 0.5;
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
    let each = plan
        .in_reach
        .iter()
        .filter(|squeeze| **squeeze != Squeeze::MoreInFlight);
    let first = plan.lacking(each.map(|squeeze| want(*squeeze, first_dose(*squeeze), 1)));
    if !first.is_empty() {
        return plan.order(first, u32::MAX);
    }
    let readings = Readings::of(experiment);
    let mut wanted = plan.lacking(plan.suspects_and_rest(&readings));
    if experiment.effort == Effort::Quick {
        if wanted.is_empty() {
            wanted = plan.lacking(plan.unknown(&readings));
        }
        return plan.order(wanted, BATCH);
    }
    // Who is slack is known well enough before who is the wall is known beyond doubt.
    if readings
        .bounding()
        .is_some_and(|done| done.effect.elasticity.rounds >= ROUNDS_BELIEVED)
    {
        // One that ends half done tells nothing, and would take the time of what a proof needs.
        let both = [&wanted[..], &plan.lacking(plan.search(&readings))].concat();
        if plan.fits(&both) {
            wanted = both;
        }
    }
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
            // A quick look has no time for it, unless a quota asks for it.
            Squeeze::ClientCapacity => {
                experiment.effort != Effort::Quick || setting.client_quota_cores.is_some()
            }
            _ => true,
        })
        .collect()
}

/// Windows and time that an experiment may take.
const fn at_most(effort: Effort) -> (usize, Duration) {
    match effort {
        Effort::Quick => (44, Duration::from_secs(17)),
        Effort::Normal => (110, Duration::from_secs(58)),
        Effort::Thorough => (330, Duration::from_secs(285)),
    }
}

/// How long an experiment takes at the most, but for its last windows.
pub const fn longest(effort: Effort) -> Duration {
    at_most(effort).1
}

/// Rounds at the first look.
pub(super) fn first(effort: Effort) -> u32 {
    match effort {
        Effort::Quick => 3,
        Effort::Normal => LOOKS[0],
        Effort::Thorough => LOOKS[1],
    }
}

/// A condition and the rounds that it is to have in all.
#[derive(Debug, Clone, PartialEq)]
struct Want {
    what: ConditionOrder,
    rounds: u32,
}

fn want(squeeze: Squeeze, retained: f64, rounds: u32) -> Want {
    Want {
        what: ConditionOrder::of(squeeze, retained),
        rounds,
    }
}

struct Plan<'e> {
    experiment: &'e Experiment,
    in_reach: Vec<Squeeze>,
}

impl Plan<'_> {
    /// Windows that may still be run, shams included.
    fn left(&self) -> usize {
        let (windows, time) = at_most(self.experiment.effort);
        let seconds = time.as_secs_f64();
        let had = self.experiment.windows.len();
        let spent = self
            .experiment
            .windows
            .iter()
            .map(|w| w.to_ns)
            .max()
            .unwrap_or(0);
        let spent = spent as f64 / 1e9;
        // A slow server's windows are longer than the second that is usual.
        let each = (spent / had.max(1) as f64).max(0.1);
        let by_time = ((seconds - spent) / each).max(0.0) as usize;
        by_time.min(usize::saturating_sub(windows, had))
    }

    /// Rounds that a condition has had, whatever they told.
    fn had(&self, what: &ConditionOrder) -> u32 {
        let dose = what.dose();
        let of_several = what.squeezes.len() > 1;
        let rounds: BTreeSet<u32> = self
            .experiment
            .windows
            .iter()
            .filter(|window| {
                self.experiment.condition(window).is_some_and(|condition| {
                    let same = condition.squeezes().eq(what.squeezes.iter().copied());
                    let near = (condition.retained - what.retained).abs() < 0.03;
                    let of_dose = !of_several && dose == Dose::Main && {
                        let squeeze = what.squeezes[0];
                        Dose::of(squeeze, condition.retained) == dose
                    };
                    same && (near || of_dose)
                })
            })
            .map(|window| window.round)
            .collect();
        rounds.len() as u32
    }

    fn had_of(&self, squeeze: Squeeze, retained: f64) -> u32 {
        self.had(&ConditionOrder::of(squeeze, retained))
    }

    /// Of what is wanted, the rounds that are still to be run.
    fn lacking(&self, wanted: impl IntoIterator<Item = Want>) -> Vec<Want> {
        wanted
            .into_iter()
            .filter_map(|want| {
                let lacks = want.rounds.saturating_sub(self.had(&want.what));
                (lacks > 0).then_some(Want {
                    rounds: lacks,
                    ..want
                })
            })
            .collect()
    }

    /// Whether there is time for all of it.
    fn fits(&self, wanted: &[Want]) -> bool {
        let most = wanted.iter().map(|want| want.rounds).max().unwrap_or(0);
        let lack_more = |round: u32| wanted.iter().filter(|want| want.rounds > round).count();
        let windows = (0..most).map(|round| design::length(lack_more(round)));
        windows.sum::<usize>() <= self.left()
    }

    /// What is wanted, cut to the budget: the most of it that has its rounds there; the last wishes go first.
    fn order(&self, mut wanted: Vec<Want>, rounds_max: u32) -> Next {
        let left = self.left();
        // The first look is taken whole: without it there is nothing to say.
        let first = self.experiment.windows.is_empty();
        while !wanted.is_empty() {
            let block = design::length(wanted.len());
            let lacks = wanted.iter().map(|want| want.rounds).min().unwrap_or(0);
            let rounds = match first {
                true => lacks,
                false => lacks.min(rounds_max).min((left / block) as u32),
            };
            if rounds > 0 {
                return Next::Rounds {
                    rounds,
                    conditions: wanted.into_iter().map(|want| want.what).collect(),
                };
            }
            wanted.pop();
        }
        Next::Enough
    }

    /// Who may be a wall: whatever answers like one, and of what costs nothing like a wall by itself those
    /// that must hold what they cost at once.
    fn suspects(&self, readings: &Readings) -> Vec<Squeeze> {
        let may_be = |squeeze| !matches!(squeeze, Squeeze::MoreInFlight | Squeeze::OfferedLoad);
        let mut order: Vec<&Reading> = readings
            .iter()
            .filter(|reading| may_be(reading.squeeze))
            .filter(|reading| self.in_reach.contains(&reading.squeeze))
            .collect();
        order.sort_by(|a, b| b.local.value.total_cmp(&a.local.value));
        let mut suspects: Vec<Squeeze> = order
            .iter()
            .filter(|reading| reading.local.value >= SUSPECT_MIN)
            .map(|reading| reading.squeeze)
            .collect();
        loop {
            let rest = self.rest(&suspects);
            let Some(done) = readings.of_several(&rest, Dose::Main) else {
                return suspects;
            };
            let cost = done.effect.elasticity;
            let costs = cost.value >= SHARE_MIN && cost.interval(ALPHA).0 > 0.0;
            if cost.rounds < ROUNDS_BELIEVED || !costs {
                return suspects;
            }
            let known = suspects.len();
            let of_rest = order
                .iter()
                .filter(|reading| rest.contains(&reading.squeeze));
            let of_rest: Vec<&&Reading> = of_rest.collect();
            let shares = of_rest.iter().filter(|it| it.local.value >= SHARE_MIN);
            suspects.extend(shares.map(|reading| reading.squeeze));
            if suspects.len() == known {
                suspects.extend(of_rest.first().map(|reading| reading.squeeze));
            }
            if suspects.len() == known {
                return suspects;
            }
        }
    }

    /// Whether a squeeze may be made beside others. What is widened costs nothing, and less that is asked for
    /// costs wherever little less comes through.
    /// What is taken from a server on the client's processors feeds the client. Whole hosts are no fifth.
    fn is_for_rests(&self, squeeze: Squeeze) -> bool {
        let feeds = squeeze.wall() == Wall::ServerCpu && self.experiment.setting.shares_cpus();
        let by_itself = matches!(
            squeeze,
            Squeeze::MoreInFlight | Squeeze::MoreClients | Squeeze::OfferedLoad
        );
        !(feeds || by_itself)
    }

    /// All that is of another wall than the suspects.
    fn rest(&self, suspects: &[Squeeze]) -> Vec<Squeeze> {
        let is_other = |squeeze: &Squeeze| {
            let same = suspects
                .iter()
                .any(|suspect| suspect.wall() == squeeze.wall());
            !same && self.is_for_rests(*squeeze)
        };
        self.in_reach.iter().copied().filter(is_other).collect()
    }

    /// Suspects alone, with what tells their wall from others like it, and the rest at once.
    fn suspects_and_rest(&self, readings: &Readings) -> Vec<Want> {
        let effort = self.experiment.effort;
        let look = first(effort);
        let beside = look.min(ROUNDS_BELIEVED);
        let suspects = self.suspects(readings);
        let rest = self.rest(&suspects);
        let mut wanted: Vec<Want> = suspects.iter().map(|it| want(*it, MAIN, look)).collect();
        if self.in_reach.contains(&Squeeze::OfferedLoad) {
            wanted.push(want(Squeeze::OfferedLoad, MAIN, look));
        }
        if effort != Effort::Quick {
            wanted.extend(self.confirm(readings));
        }
        if !rest.is_empty() {
            wanted.push(Want {
                what: ConditionOrder {
                    squeezes: rest,
                    retained: MAIN,
                },
                // With a wall in sight, few windows say that the others are none.
                rounds: if suspects.is_empty() { look } else { beside },
            });
        }
        let of_same_wall = self.in_reach.iter().filter(|squeeze| {
            let same = suspects
                .iter()
                .any(|suspect| suspect.wall() == squeeze.wall());
            // What too little in flight is worth a quick look has no time for.
            let has_time = **squeeze != Squeeze::MoreInFlight || effort != Effort::Quick;
            same && has_time && !suspects.contains(squeeze)
        });
        wanted.extend(of_same_wall.map(|squeeze| {
            let rounds = match squeeze {
                Squeeze::MoreInFlight => look,
                _ => beside,
            };
            want(*squeeze, first_dose(*squeeze), rounds)
        }));
        let is_wanted = |squeeze| wanted.iter().any(|want| want.what.squeezes == [squeeze]);
        if self.in_reach.contains(&Squeeze::MoreClients) && !is_wanted(Squeeze::MoreClients) {
            // Where nothing seems to be a wall, each client may be held to its part.
            let rounds = if suspects.is_empty() { look } else { beside };
            wanted.push(want(Squeeze::MoreClients, MAIN, rounds));
        }
        // The same of each connection.
        if suspects.is_empty() && self.in_reach.contains(&Squeeze::MoreInFlight) {
            wanted.push(want(Squeeze::MoreInFlight, WIDENED, look));
        }
        wanted
    }

    /// A small dose of what may be the wall.
    fn confirm(&self, readings: &Readings) -> Vec<Want> {
        let mut candidates: Vec<&Reading> = readings
            .iter()
            .filter(|reading| is_rate(reading.squeeze) && self.in_reach.contains(&reading.squeeze))
            .filter(|reading| {
                let at_main = reading.main.unwrap_or(reading.local);
                at_main.rounds >= ROUNDS_CONFIRMED && (at_main.value >= 0.4 || reading.has_share())
            })
            .collect();
        // One dose of a wall is borne out by another of the same squeeze, and that of its speed says most.
        let walls: Vec<Wall> = candidates
            .iter()
            .filter(|reading| is_speed(reading.squeeze))
            .map(|reading| reading.squeeze.wall())
            .collect();
        let says_most = |reading: &&Reading| {
            is_speed(reading.squeeze) || !walls.contains(&reading.squeeze.wall())
        };
        candidates.retain(says_most);
        let size = |reading: &Reading| reading.main.unwrap_or(reading.local).value;
        candidates.sort_by(|a, b| size(b).total_cmp(&size(a)));
        let (most, rounds) = match self.experiment.effort {
            Effort::Thorough => (4, LOOKS[0]),
            _ => (3, ROUNDS_CONFIRMED),
        };
        candidates
            .into_iter()
            .take(most)
            .map(|reading| {
                (
                    reading.squeeze,
                    if reading.bent { LOOKS[0] } else { rounds },
                )
            })
            .map(|(squeeze, rounds)| want(squeeze, SMALL, rounds))
            .collect()
    }

    /// Large doses of what is slack, until it binds: all of it at once, and one by one where that binds.
    fn search(&self, readings: &Readings) -> Vec<Want> {
        let rounds = match self.experiment.effort {
            Effort::Thorough => 6,
            _ => ROUNDS_CONFIRMED,
        };
        let slack: Vec<&Reading> = readings
            .iter()
            .filter(|reading| is_speed(reading.squeeze) && self.in_reach.contains(&reading.squeeze))
            .filter(|reading| reading.answer() == Answer::No)
            .collect();
        let squeezes: Vec<Squeeze> = slack.iter().map(|reading| reading.squeeze).collect();
        if squeezes.len() > 1 {
            let at_once = Want {
                what: ConditionOrder {
                    squeezes: squeezes.clone(),
                    retained: DEEP,
                },
                rounds,
            };
            let done = readings.of_several(&squeezes, Dose::Deep);
            let binds = done.is_some_and(|done| dose::costs(&done.effect));
            if !binds {
                return vec![at_once];
            }
        }
        let mut wanted: Vec<Want> = slack
            .iter()
            .map(|reading| want(reading.squeeze, DEEP, rounds))
            .collect();
        wanted.extend(
            slack
                .iter()
                .filter(|reading| dose::binds(reading, DEEP) == Some(true))
                .map(|reading| want(reading.squeeze, 0.65, rounds)),
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
        unknown.sort_by(|a, b| b.value().total_cmp(&a.value()));
        let wanted = unknown.into_iter().map(|reading| {
            let dose = first_dose(reading.squeeze);
            let rounds = look_after(self.had_of(reading.squeeze, dose));
            want(reading.squeeze, dose, rounds)
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
            // It is no part of what the squeezes leave of 1.
            .filter(|r| r.squeeze != Squeeze::MoreClients || r.answer() != Answer::No)
        {
            if is_open(reading, named) {
                let dose = if reading.bent {
                    SMALL
                } else {
                    first_dose(reading.squeeze)
                };
                let rounds = look_after(self.had_of(reading.squeeze, dose));
                wanted.push(want(reading.squeeze, dose, rounds));
            }
        }
        if let Some((first, second)) = self.at_the_kink(readings) {
            for squeeze in [first, second] {
                for dose in [SMALL, MAIN] {
                    wanted.push(want(squeeze, dose, look_after(self.had_of(squeeze, dose))));
                }
            }
        }
        if wanted.is_empty() && !self.null_is_known(readings) {
            // Shams come with any round; what names a wall gains most from it, for it must outweigh them.
            let mut gain: Vec<&Reading> = readings
                .iter()
                .filter(|reading| self.in_reach.contains(&reading.squeeze))
                .filter(|reading| reading.squeeze != Squeeze::MoreInFlight)
                .collect();
            gain.sort_by(|a, b| b.value().total_cmp(&a.value()));
            let named = gain.iter().filter(|reading| reading.names()).count();
            wanted.extend(gain.into_iter().take(named.max(1)).map(|reading| {
                let rounds = look_after(self.had_of(reading.squeeze, MAIN));
                want(reading.squeeze, MAIN, rounds)
            }));
        }
        wanted.sort_by(|a, b| {
            let of = |want: &Want| (want.what.squeezes.clone(), want.what.retained);
            of(a)
                .partial_cmp(&of(b))
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        wanted.dedup_by(|a, b| a.what == b.what);
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

    /// Whether nothing against nothing reads nothing, or what is named outweighs what it reads at the most.
    fn null_is_known(&self, readings: &Readings) -> bool {
        windows::null_effect(&pace::at_one_pace(self.experiment)).is_some_and(|null| {
            let (low, high) = null.interval(ALPHA_WITHIN);
            let outweighs = |reading: &Reading| {
                let least = reading.least_beside(&null);
                reading.names() && least.is_some_and(|least| least >= WALL_MIN)
            };
            (low >= -NULL_MAX && high <= NULL_MAX) || readings.iter().any(outweighs)
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
        Answer::No if named => reading.half_width() > HALF_WIDTH_MAX,
        // Without one, the rest is what all of them leave of 1, and each blurs it.
        Answer::No => {
            let half = reading.half_width();
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
    !matches!(squeeze.takes(), Takes::InFlight | Takes::Machines)
}

/// A squeeze that may be deep: until what is slack binds.
pub(super) fn is_speed(squeeze: Squeeze) -> bool {
    squeeze.takes() == Takes::Speed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proof::synthetic::{Conditions, System, experiment_of, run};
    use wallfinder_model::experiment::{OutOfReach, Window};

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
        assert_eq!(rounds, 1);
        assert!(conditions.iter().all(|order| order.squeezes.len() == 1));
        let squeezes: Vec<Squeeze> = conditions.iter().map(|order| order.squeezes[0]).collect();
        assert!(squeezes.contains(&Squeeze::ServerSpeed) && !squeezes.contains(&Squeeze::Uplink));
        assert!(!squeezes.contains(&Squeeze::OfferedLoad));
        for order in conditions {
            assert_eq!(order.retained, 0.8);
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

    /// Whatever is not suspected is squeezed at once.
    #[test]
    fn a_suspect_is_squeezed_alone_and_all_others_together() {
        let system = System {
            downlink: 4e-3,
            ..System::default()
        };
        let mut experiment = run(&system, Conditions::default()).experiment.unwrap();
        experiment.windows.retain(|window| window.round == 0);
        let Next::Rounds { conditions, .. } = next(&experiment) else {
            panic!("there is more to ask")
        };
        assert_eq!(conditions[0].squeezes, [Squeeze::Downlink]);
        let rest = &conditions[1].squeezes;
        assert!(rest.contains(&Squeeze::ServerSpeed) && rest.contains(&Squeeze::InFlight));
        assert!(!rest.contains(&Squeeze::Downlink) && !rest.contains(&Squeeze::MoreInFlight));
    }

    /// Two ceilings at the same throughput: what is left costs something as long as one of them is in it.
    #[test]
    fn who_costs_something_among_the_others_is_suspected_too() {
        let system = System {
            server: 200e-6,
            downlink: 200e-6,
            in_flight: 64.0,
            ..System::default()
        };
        let step = run(&system, Conditions::default());
        let experiment = step.experiment.unwrap();
        let alone = |squeeze: Squeeze| {
            let own = |window: &&Window| experiment.squeezed(window) == Some(squeeze);
            experiment.windows.iter().filter(own).count()
        };
        assert!(alone(Squeeze::ServerSpeed) >= 6 && alone(Squeeze::Downlink) >= 6);
        assert!(alone(Squeeze::Uplink) < 6);
    }
}
