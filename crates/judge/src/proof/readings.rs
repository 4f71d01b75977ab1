//! What each squeeze did: elasticity by dose, with its interval, and its gap to the wall.
//!
//! The gap tells a wall from a near next wall. With ln of throughput as y and ln of what was
//! left as x, a wall answers y = x from the first touch. A ceiling a little above the present
//! throughput answers nothing at first and then y = x + g: it stays a constant g = ln(C/X)
//! behind, at every dose that binds.
//!
//! Throughput is monotone in each resource: what costs so much together with others costs no more than that
//! alone. So a squeeze of which one window by itself tells little is bounded by those in which it was
//! squeezed beside others.
//!
//! ```text
//!    x = ln retained  0.5   0.65   0.8  0.9  1
//!                      .      .     .    .   ┼ 0      C = X·e^g
//!                      .      .     .    ╱╱──┤
//!                      .      .    ╱ ╱   wall and next wall, g apart
//! ```

use std::collections::BTreeMap;

use wallfinder_model::Step;
use wallfinder_model::experiment::{Effort, Experiment, Squeeze, Takes};
use wallfinder_model::reason::{Doubt, Odd};
use wallfinder_model::telemetry::FamilySummary;
use wallfinder_model::verdict::Elasticity;

use super::estimate::{self, ALPHA, Estimate, Spread};
use super::looks;
use super::pace;
use super::windows::{self, Done, Dose, ELASTICITY_MAX};
use crate::caveats;
use crate::finite::{known, positive};

/// From here a squeeze may name a wall.
pub(super) const WALL_MIN: f64 = 0.5;
/// From here a resource has a share.
pub(super) const SHARE_MIN: f64 = 0.2;
/// An interval wider than this to each side decides nothing by itself.
pub(super) const HALF_WIDTH_MAX: f64 = 0.25;
/// An interval wider than this to each side is of no squeeze that can be judged, wherever it lies.
const TOO_WIDE: f64 = 0.75;
/// What is in flight is worth its share of throughput at most, for more of it never brings more than that.
const IN_FLIGHT_MAX: f64 = 1.25;
/// Error in saying that two doses disagree: it is asked of every squeeze at every look.
const ALPHA_DOSES: f64 = 0.01;
/// Starts of the server whose elasticities are nearer than this say the same.
const APART_MIN: f64 = 0.3;
/// Rounds without which nothing is proved.
pub(super) const ROUNDS_PROVED: u32 = 6;
/// Rounds of the small dose without which it bears nothing out.
pub(super) const ROUNDS_CONFIRMED: u32 = 3;
/// Cores at work above which the speed of processors may be a wall of any height.
const IDLE_MAX: f64 = 0.3;
/// A family that ran and wanted to run for this share of its processors uses next to nothing of them.
const RESTS: f64 = 0.10;
/// Use of the load generator's processors from which a pause is paid for by what else they do.
const PAUSED_MAX: f64 = 0.85;
/// How much more than the use that telemetry counts an elasticity may be: collectors and
/// interpreters answer up to 1.35 times their dose, and what ran while idle is not counted.
const OVER_USE: (f64, f64) = (1.5, 0.05);

/// How far a squeeze's answer settles whether its resource is a wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Above a half beyond doubt, the error shared over resources and looks.
    Surely,
    /// Above a half.
    Likely,
    /// Below a half.
    No,
    /// Not known well enough.
    Open,
}

/// What one dose did.
#[derive(Debug, Clone)]
pub(super) struct AtDose {
    pub(super) dose: Dose,
    /// Mean of ln(retained).
    pub(super) x: f64,
    /// ln of throughput over that with nothing squeezed.
    pub(super) y: Estimate,
    /// Whether others were squeezed in the same windows.
    pub(super) together: bool,
    /// What each window shows of the elasticity, with the start that served it.
    each: Vec<(u32, f64)>,
    /// What a window's elasticity varies by.
    noise: Spread,
}

/// One squeeze over all of its rounds.
#[derive(Debug, Clone)]
pub(super) struct Reading {
    pub(super) squeeze: Squeeze,
    /// The elasticity at 0.8.
    pub(super) main: Option<Estimate>,
    /// The same at 0.9.
    pub(super) small: Option<Estimate>,
    /// The one to judge by, of it alone.
    pub(super) local: Estimate,
    /// That of several at once of which it was one, where that bounds it from above.
    pub(super) at_most: Option<Estimate>,
    /// At 0.9 it is certainly less than at 0.8: it is not the first to bind.
    pub(super) bent: bool,
    /// At 0.9 it is certainly more than at 0.8: the doses disagree.
    pub(super) disagree: bool,
    /// ln(ceiling / throughput), taken as if it bound at 0.8 and 0.9.
    pub(super) gap: Estimate,
    /// Adjusted p of being no wall.
    p: f64,
    /// Error that may be spent at this look.
    level: f64,
    /// What was measured and the share of processors that were at work, where that share bounds the
    /// elasticity to their speed below what was measured.
    pub(super) over_use: Option<(Estimate, f64)>,
    /// What was measured, where the centre is held to the processors at work and the rest may be chance.
    by_chance: Option<Estimate>,
    pub(super) doses: Vec<AtDose>,
    /// How much larger it may be than it reads, where what is taken feeds the other side.
    pub(super) fed: f64,
}

/// Every squeeze with evidence.
#[derive(Debug, Clone)]
pub(super) struct Readings {
    all: BTreeMap<Squeeze, Reading>,
    /// What several at once did.
    together: Vec<Done>,
    /// The part that the load generator used of the processors that it may use, where it was watched.
    client_used: Option<f64>,
    /// Whether something else runs on the load generator's processors, from which its own squeeze takes.
    pub(super) client_is_shared: bool,
}

impl Reading {
    pub(super) fn answer(&self) -> Answer {
        let (low, high) = self.interval();
        let narrow = self.half_width() <= HALF_WIDTH_MAX;
        match self.value() {
            _ if high < WALL_MIN => Answer::No,
            _ if self.odd().is_some() => Answer::Open,
            _ if low >= WALL_MIN && self.p < self.level => Answer::Surely,
            value if low >= WALL_MIN || (narrow && value >= WALL_MIN) => Answer::Likely,
            value if narrow && value < WALL_MIN && self.fed == 0.0 => Answer::No,
            _ => Answer::Open,
        }
    }

    /// Why nothing can be built on it, where that is so.
    pub(super) fn odd(&self) -> Option<Odd> {
        let (low, _) = self.interval();
        let of_in_flight = matches!(self.squeeze, Squeeze::InFlight | Squeeze::ThinkTime);
        if low >= SHARE_MIN && self.half_width() > TOO_WIDE {
            Some(Odd::TooWide)
        } else if of_in_flight && low > IN_FLIGHT_MAX {
            Some(Odd::MoreThanItsShare)
        } else {
            None
        }
    }

    /// Why it is not beyond doubt that it is a wall.
    pub(super) fn doubt(&self) -> Option<Doubt> {
        let (low, _) = self.interval();
        match self.answer() {
            Answer::Surely => None,
            _ if low >= WALL_MIN => Some(Doubt::ChancesShared),
            _ => Some(Doubt::BelowHalf),
        }
    }

    pub(super) fn names(&self) -> bool {
        matches!(self.answer(), Answer::Surely | Answer::Likely)
    }

    /// Named, and either beyond doubt or with the whole interval above a half.
    pub(super) fn clearly(&self) -> bool {
        self.names() && self.interval().0 >= WALL_MIN
    }

    /// It takes nearly all of the cycle, so that widening anything else gains little.
    pub(super) fn fills(&self) -> bool {
        self.names() && self.value() >= 0.8 && self.interval().0 >= 0.6
    }

    /// The 95 % interval: of it alone, and below what it cost together with others.
    pub(super) fn interval(&self) -> (f64, f64) {
        let (low, high) = self.local.interval(ALPHA);
        match self.bound() {
            Some(all) => {
                let (all_low, all_high) = all.interval(ALPHA);
                // Squeezing more never costs less: below nothing there is nothing to look for.
                (low.max(all_low).min(0.0), all_high.max(0.0))
            }
            None => {
                let read = self.by_chance.map_or(high, |read| read.interval(ALPHA).1);
                (low, high.max(read) + self.fed)
            }
        }
    }

    /// The centre.
    pub(super) fn value(&self) -> f64 {
        match self.bound() {
            Some(all) => {
                let (low, high) = self.interval();
                self.local.value.min(all.value).clamp(low, high)
            }
            None => self.local.value,
        }
    }

    /// Half the width of the interval, as windows make it.
    pub(super) fn half_width(&self) -> f64 {
        let (low, high) = match self.bound() {
            Some(_) => self.interval(),
            None => self.local.interval(ALPHA),
        };
        (high - low) / 2.0
    }

    /// Rounds that tell it.
    pub(super) fn rounds(&self) -> u32 {
        self.bound()
            .map_or(self.local.rounds, |all| all.rounds.max(self.local.rounds))
    }

    /// Several at once that say more of how large it is at most than it does alone.
    fn bound(&self) -> Option<&Estimate> {
        let high = self.local.interval(ALPHA).1;
        self.at_most
            .as_ref()
            .filter(|all| all.interval(ALPHA).1 < high)
    }

    /// Certainly more than a share, and not only at a dose at which something else that was
    /// slack begins to bind.
    pub(super) fn has_share(&self) -> bool {
        let at_once = self
            .small
            .is_none_or(|small| small.interval(ALPHA).0 > 0.0 || small.value >= SHARE_MIN);
        self.interval().0 >= SHARE_MIN && at_once && self.odd().is_none()
    }

    /// Certainly less than a share: not this.
    pub(super) fn excluded(&self) -> bool {
        self.interval().1 < SHARE_MIN
    }

    /// As good as nothing: certainly no wall, and little at the centre.
    pub(super) fn slack(&self) -> bool {
        let (_, high) = self.interval();
        high < WALL_MIN && self.value() < SHARE_MIN
    }

    /// As good as nothing, and known well enough to conclude something else from it.
    pub(super) fn surely_slack(&self) -> bool {
        self.slack() && self.half_width() <= HALF_WIDTH_MAX
    }

    /// Why the small dose does not bear the main one out, where it does not.
    pub(super) fn unconfirmed(&self) -> Option<Doubt> {
        let rounds = self.small.map_or(0, |small| small.rounds);
        let Some(small) = self.small.filter(|small| small.rounds >= ROUNDS_CONFIRMED) else {
            return Some(Doubt::SmallDoseFew {
                rounds,
                needed: ROUNDS_CONFIRMED,
            });
        };
        let (low, high) = small.interval(ALPHA);
        if low <= 0.0 {
            Some(Doubt::SmallDoseNothing)
        } else if high < WALL_MIN {
            Some(Doubt::SmallDoseLittle)
        } else {
            None
        }
    }

    /// What is left of it where nothing moves throughput by as much as is not excluded. `None` also where it was
    /// not measured at the first dose.
    pub(super) fn least_beside(&self, null: &Estimate) -> Option<f64> {
        let dose = positive(self.alone(Dose::Main).next()?.x.abs())?;
        let low = self.interval().0;
        least_beside(low, dose, null).filter(|_| !self.bent)
    }

    /// What a dose did where nothing else was squeezed.
    pub(super) fn alone(&self, dose: Dose) -> impl Iterator<Item = &AtDose> {
        let own = move |at: &&AtDose| at.dose == dose && !at.together;
        self.doses.iter().filter(own)
    }

    /// The centre of what was measured, whatever of it counts.
    pub(super) fn measured(&self) -> f64 {
        self.over_use
            .map_or(self.value(), |(measured, _)| measured.value)
    }

    pub(super) fn record(&self) -> Elasticity {
        let (value, (low, high), rounds) = match self.over_use {
            Some((measured, _)) => (measured.value, measured.interval(ALPHA), measured.rounds),
            None => (self.value(), self.interval(), self.rounds()),
        };
        let shown = |it: f64| it.clamp(-ELASTICITY_MAX, ELASTICITY_MAX);
        Elasticity {
            value: shown(value),
            low: shown(low),
            high: shown(high),
            rounds,
        }
    }

    /// Holds it to what `cores` at work allow.
    fn bound_by_use(&mut self, cores: f64) {
        let most = OVER_USE.0 * cores + OVER_USE.1;
        if cores > IDLE_MAX {
            return;
        }
        if self.interval().0 <= most {
            // What is above may be chance: the interval says how much was measured all the same.
            if self.local.value > cores {
                self.by_chance = Some(self.local);
                self.local.value = cores;
            }
            return;
        }
        let held = |estimate: Estimate| Estimate {
            value: most,
            ..estimate
        };
        self.over_use = Some((self.local, cores));
        self.at_most = None;
        (self.local, self.main, self.small) = (held(self.local), None, None);
        (self.bent, self.disagree, self.p) = (false, false, 1.0);
        // Doses of a delay tell nothing about where the processors bind.
        self.doses.clear();
    }

    /// Whether the starts of the subject fall into two sorts that say different things of it,
    /// where together they give it a share. One odd start with both of its rounds slow is not
    /// a sort: the interval over starts is wide enough for that.
    pub(super) fn restarts_disagree(&self) -> bool {
        const OF_A_SORT_MIN: usize = 3;
        if self.value() < SHARE_MIN {
            return false;
        }
        let mut starts: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (start, elasticity) in self.alone(Dose::Main).flat_map(|at| &at.each) {
            let own = starts.entry(*start).or_default();
            own.push(*elasticity);
        }
        let noise = self.alone(Dose::Main).next().map(|at| at.noise);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let mut starts: Vec<Vec<f64>> = starts.into_values().collect();
        starts.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
        // Asked of every way to part them, and of every squeeze.
        let alpha = ALPHA_DOSES / (starts.len() * Squeeze::ALL.len()).max(1) as f64;
        (1..starts.len()).any(|at| {
            let sorts = [&starts[..at], &starts[at..]].map(|sort| sort.concat());
            if sorts.iter().any(|sort| sort.len() < OF_A_SORT_MIN) {
                return false;
            }
            let [low, high] = sorts.map(|sort| estimate::estimate(&sort, noise));
            let apart = high.zip(low).map(|(high, low)| high.minus(low));
            apart.is_some_and(|apart| apart.value > APART_MIN && apart.interval(alpha).0 > 0.0)
        })
    }
}

impl Readings {
    pub(super) fn of(experiment: &Experiment) -> Readings {
        let done = windows::done(&pace::at_one_pace(experiment));
        let mut all: BTreeMap<Squeeze, Reading> = BTreeMap::new();
        for squeeze in Squeeze::ALL {
            let own = done.iter().filter(|done| done.squeezes.contains(&squeeze));
            if let Some(reading) = reading(squeeze, own, experiment.effort) {
                all.insert(squeeze, reading);
            }
        }
        // What was widened names no wall, and is no question among the others.
        let mut asked: Vec<&mut Reading> = all
            .values_mut()
            .filter(|reading| reading.squeeze != Squeeze::MoreInFlight)
            .collect();
        let p: Vec<f64> = asked.iter().map(|r| r.local.p_above(WALL_MIN)).collect();
        for (reading, p) in asked.iter_mut().zip(estimate::holm(&p)) {
            reading.p = p;
        }
        let together = done.into_iter().filter(|done| done.squeezes.len() > 1);
        Readings {
            all,
            together: together.collect(),
            client_used: None,
            client_is_shared: !experiment.setting.client_neighbours.is_empty(),
        }
    }

    /// What several at once did that says most of all of them: of the main dose, with the most rounds. `None` also
    /// where processors that idle cost more than they can: that cost is in it.
    pub(super) fn bounding(&self) -> Option<&Done> {
        let idles = |squeeze: &Squeeze| self.get(*squeeze).is_some_and(|it| it.over_use.is_some());
        self.together
            .iter()
            .filter(|done| done.dose == Dose::Main && !done.squeezes.iter().any(idles))
            .max_by_key(|done| (done.effect.elasticity.rounds, done.squeezes.len()))
    }

    /// What just these did at once, at a dose.
    pub(super) fn of_several(&self, squeezes: &[Squeeze], dose: Dose) -> Option<&Done> {
        let same = |done: &&Done| done.squeezes == squeezes && done.dose == dose;
        self.together.iter().find(same)
    }

    /// The same, with what telemetry says of the processors that were squeezed.
    ///
    /// Who takes time from a processor also holds up whatever wakes on it meanwhile. That is no
    /// slower processor: a sleep under a lock becomes longer by it, at any speed. The two can be told
    /// apart, for the elasticity to the speed of processors is at most the cores at work. (In a closed
    /// product-form network a station of utilisation U with Q before it has dln X / dln speed =
    /// Q(N) - Q(N-1), and Q(N) = U (1 + Q(N-1)) by the arrival theorem, so this is
    /// U - (1 - U) Q(N-1).)
    pub(super) fn within(mut self, step: &Step) -> Readings {
        for (squeeze, family) in [
            (Squeeze::ServerSpeed, &step.telemetry.server),
            (Squeeze::ClientSpeed, &step.telemetry.client),
        ] {
            let cores = family
                .as_ref()
                .and_then(|family| wanted(family, step).or_else(|| at_work(family, step)));
            if let (Some(reading), Some(cores)) = (self.all.get_mut(&squeeze), cores) {
                reading.bound_by_use(cores);
            }
        }
        let fed = fed(step).unwrap_or(0.0);
        for squeeze in [Squeeze::ServerSpeed, Squeeze::ServerCapacity] {
            if let Some(reading) = self.all.get_mut(&squeeze) {
                reading.fed = fed;
            }
        }
        let client = step.telemetry.client.as_ref();
        self.client_used = client.and_then(|client| {
            let all = client.cpus_allowed.len().max(1) as f64;
            Some(at_work_of_all(client, step)? / quota(client).map_or(all, |quota| quota.min(all)))
        });
        self
    }

    pub(super) fn get(&self, squeeze: Squeeze) -> Option<&Reading> {
        self.all.get(&squeeze)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Reading> {
        self.all.values()
    }

    /// In flight: by fewer connections or, where a pool on the client's side does not feel
    /// that (or it was not to be had), by an added pause, if that takes nothing but time.
    pub(super) fn in_flight(&self) -> Option<&Reading> {
        let (fewer, pause) = (self.get(Squeeze::InFlight), self.get(Squeeze::ThinkTime));
        let pause = pause.filter(|_| self.pause_paid_by().is_none());
        self.by_a_pool().or(fewer).or(pause)
    }

    /// A pause that costs where fewer connections cost nothing: a pool on the client's side.
    pub(super) fn by_a_pool(&self) -> Option<&Reading> {
        let (fewer, pause) = (self.get(Squeeze::InFlight)?, self.get(Squeeze::ThinkTime)?);
        let is_free = self.pause_paid_by().is_none();
        (is_free && fewer.surely_slack() && pause.names()).then_some(pause)
    }

    /// The part that is used of the load generator's processors, where those are full: making pauses is work for them,
    /// so that a pause before each request takes more than time.
    pub(super) fn pause_paid_by(&self) -> Option<f64> {
        self.client_used.filter(|used| *used >= PAUSED_MAX)
    }
}

/// The lower end of an interval without the effect of nothing at its largest. `None` where nothing certainly has
/// an effect.
pub(super) fn least_beside(low: f64, dose: f64, null: &Estimate) -> Option<f64> {
    const ALPHA_NOTHING: f64 = 0.01;
    let (certainly, certainly_not) = null.interval(ALPHA_NOTHING);
    let (below, above) = null.interval(ALPHA);
    let may_be_none = certainly <= 0.0 && certainly_not >= 0.0;
    may_be_none.then(|| low - above.max(-below) / dose)
}

/// Cores at work of those that a family may use, everybody's work included. Under a quota of less
/// than a core: the share of the quota, for what a slow processor takes is taken from that.
fn at_work(family: &FamilySummary, step: &Step) -> Option<f64> {
    let quota = quota(family).unwrap_or(1.0);
    Some(at_work_of_all(family, step)? / quota.min(1.0))
}

/// The same, whatever its quota is.
fn at_work_of_all(family: &FamilySummary, step: &Step) -> Option<f64> {
    let window_ns = positive(step.telemetry.window_ns as f64)?;
    let busy = positive(family.cpus_busy)? * family.cpus_allowed.len() as f64;
    Some(busy.max(family.cpu_ns as f64 / window_ns))
}

fn quota(family: &FamilySummary) -> Option<f64> {
    family.quota_cores.and_then(positive)
}

/// While a server is paused, or may not run for its quota, a client on the same processors may do there what it
/// would have done meanwhile elsewhere: as much as it used of them, over what is taken.
fn fed(step: &Step) -> Option<f64> {
    /// What a first dose takes.
    const TAKEN: f64 = 0.2;
    let setting = &step.experiment.as_ref()?.setting;
    let client = step.telemetry.client.as_ref()?;
    let window_ns = positive(step.telemetry.window_ns as f64)?;
    let cpus = setting.server_cpus.len().max(1) as f64;
    let used = client.cpu_ns as f64 / window_ns / cpus;
    setting.shares_cpus().then_some(used / TAKEN)
}

/// Of a family that uses next to nothing of its processors: cores in which it ran or wanted to. Others'
/// work on them is none of its, however slow it becomes.
fn wanted(family: &FamilySummary, step: &Step) -> Option<f64> {
    let window_ns = positive(step.telemetry.window_ns as f64)?;
    let others = caveats::neighbour_cores(family);
    let cores = family.cpu_ns as f64 / window_ns + known(family.run_wait_cores)?;
    let most = RESTS * family.cpus_allowed.len() as f64;
    (cores <= most && cores < others).then_some(cores)
}

fn reading<'d>(
    squeeze: Squeeze,
    done: impl Iterator<Item = &'d Done>,
    effort: Effort,
) -> Option<Reading> {
    let doses: Vec<AtDose> = done.map(|done| AtDose::of(done, squeeze)).collect();
    let joined = |dose: Dose, of: fn(&AtDose) -> Estimate| {
        let own = doses.iter().filter(|at| at.dose == dose && !at.together);
        own.map(of).reduce(Estimate::joined)
    };
    let at = |dose: Dose| joined(dose, AtDose::elasticity);
    let (main, small) = (at(Dose::Main), at(Dose::Small));
    let apart = main
        .zip(small)
        .map(|(main, small)| main.minus(small).interval(ALPHA_DOSES));
    let bent = apart.is_some_and(|(low, _)| low > 0.0);
    let disagree = apart.is_some_and(|(_, high)| high < 0.0);
    let local = match (main, small) {
        (Some(_), Some(small)) if bent => small,
        (Some(main), _) => main,
        (None, Some(small)) => small,
        (None, None) => at(Dose::Deep).filter(|deep| tells_at_once(squeeze, deep))?,
    };
    let gap = [Dose::Main, Dose::Small, Dose::Deep]
        .into_iter()
        .filter(|dose| *dose != Dose::Deep || main.or(small).is_none())
        .filter_map(|dose| joined(dose, AtDose::gap))
        .reduce(Estimate::joined)?;
    let at_most = doses
        .iter()
        .filter(|at| at.together && at.dose != Dose::Deep)
        .map(AtDose::elasticity)
        .min_by(|a, b| a.interval(ALPHA).1.total_cmp(&b.interval(ALPHA).1));
    let level = match effort {
        Effort::Quick => ALPHA,
        effort => estimate::level(local.rounds, looks::first(effort)),
    };
    Some(Reading {
        squeeze,
        main,
        small,
        local,
        at_most,
        bent,
        disagree,
        gap,
        over_use: None,
        by_chance: None,
        p: 1.0,
        level,
        doses,
        fed: 0.0,
    })
}

impl AtDose {
    /// What was done, as one of its squeezes tells it: beside others by what was left of it, and not by what was asked.
    fn of(done: &Done, squeeze: Squeeze) -> AtDose {
        let together = done.squeezes.len() > 1;
        let x = done.x_of(squeeze);
        AtDose {
            dose: match together {
                true => Dose::of(squeeze, x.exp()),
                false => done.dose,
            },
            x,
            y: done.effect.y(),
            together,
            each: done.effect.each.clone(),
            noise: done.effect.noise,
        }
    }

    pub(super) fn elasticity(&self) -> Estimate {
        self.y.scaled(1.0 / self.x)
    }

    /// y - x, as if every window was bound.
    fn gap(&self) -> Estimate {
        Estimate {
            value: self.y.value - self.x,
            ..self.y
        }
    }
}

/// Whether a large dose by itself tells what a small one would: what costs nothing when halved has
/// slack, and what costs nearly all of its part was full. In between it may have begun to bind on
/// the way.
/// Whole machines name no resource by themselves, so that their centre will do.
fn tells_at_once(squeeze: Squeeze, deep: &Estimate) -> bool {
    const NEARLY_ALL: f64 = 0.9;
    const OF_MACHINES: (f64, f64) = (0.8, 0.6);
    let (low, high) = deep.interval(ALPHA);
    let is_nearly_all = match squeeze.takes() {
        Takes::Machines => deep.value >= OF_MACHINES.0 && low >= OF_MACHINES.1,
        _ => low >= NEARLY_ALL,
    };
    high < SHARE_MIN || is_nearly_all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::a_step;
    use crate::proof::synthetic::experiment_of;
    use wallfinder_model::experiment::Window;

    fn rounds(at_08: f64, at_09: f64) -> Readings {
        let mut windows = Vec::new();
        for round in 0..8 {
            let wobble = 1.0 + 0.002 * f64::from(round % 3);
            windows.extend([
                (0, 1000.0),
                (1, at_08 * wobble),
                (0, 1000.0),
                (2, at_09 * wobble),
            ]);
        }
        windows.push((0, 1000.0));
        Readings::of(&experiment_of(
            &[(Squeeze::ServerSpeed, 0.8), (Squeeze::ServerSpeed, 0.9)],
            &windows,
        ))
    }

    /// Three hosts that each have a tenth of a processor: what wakes at the end of a pause is work for them.
    #[test]
    fn a_pause_of_a_client_that_has_used_up_its_quota_is_no_evidence_of_what_is_in_flight() {
        let readings = |quota: Option<f64>| {
            let windows = (0..6).flat_map(|_| [(0, 1000.0), (1, 500.0)]);
            let windows: Vec<(u32, f64)> = windows.chain([(0, 1000.0)]).collect();
            let step = a_step().throughput(1000.0).client(0.3, 0.3).with(|step| {
                let client = step.telemetry.client.as_mut().expect("a client");
                client.cpus_allowed = vec![0, 1, 2];
                client.cpus_busy = 0.1;
                client.quota_cores = quota;
            });
            Readings::of(&experiment_of(&[(Squeeze::ThinkTime, 0.8)], &windows))
                .within(&step.build())
        };
        assert!(readings(Some(0.3)).in_flight().is_none());
        assert!(readings(Some(2.0)).in_flight().is_some());
        assert!(readings(None).in_flight().is_some());
    }

    /// A stealer delays what wakes under a lock, at a server that is at work for a quarter of its time: no more than that
    /// quarter can be the processor's share, so what is above is no co-limit.
    #[test]
    fn what_an_idle_processor_reads_above_its_use_is_chance() {
        let mut readings = rounds(927.0, 963.0);
        let reading = readings.all.get_mut(&Squeeze::ServerSpeed).unwrap();
        let read = reading.value();
        assert!((0.3..0.4).contains(&read), "{reading:?}");
        reading.bound_by_use(0.31);
        assert_eq!(reading.value(), read);
        let measured = reading.interval().1;
        reading.bound_by_use(0.26);
        assert_eq!((reading.value(), reading.over_use), (0.26, None));
        // How much was measured is within the interval: less is not excluded.
        assert_eq!(reading.interval().1, measured);
    }

    /// A processor less of two leaves a half, whatever was asked for.
    #[test]
    fn what_was_left_is_the_dose_where_it_could_not_be_asked_for() {
        let capacity = |at_half: f64| {
            let mut windows = Vec::new();
            for round in 0..8 {
                let wobble = 1.0 + 0.002 * f64::from(round % 3);
                windows.extend([(0, 1000.0), (1, at_half * wobble)]);
            }
            windows.push((0, 1000.0));
            let mut experiment = experiment_of(&[(Squeeze::ServerCapacity, 0.8)], &windows);
            let squeezed = |window: &&mut Window| window.condition == 1;
            for window in experiment.windows.iter_mut().filter(squeezed) {
                window.retained = Some(0.5);
            }
            Readings::of(&experiment)
                .get(Squeeze::ServerCapacity)
                .cloned()
        };
        assert_eq!(capacity(500.0).unwrap().answer(), Answer::Surely);
        assert!(capacity(1000.0).unwrap().surely_slack());
        // Three fifths in use: a fifth less would have cost nothing.
        assert!(capacity(833.0).is_none());
    }

    #[test]
    fn a_wall_is_linear_in_the_dose() {
        let readings = rounds(800.0, 900.0);
        let server = readings.get(Squeeze::ServerSpeed).unwrap();
        assert_eq!(server.answer(), Answer::Surely);
        assert!(!server.bent && server.unconfirmed().is_none());
        assert!(server.gap.value.abs() < 0.01);
    }

    /// A CPU stealer holds up whoever sleeps under a lock on a processor that is at work for a sixteenth of its time.
    #[test]
    fn an_idle_processor_is_no_wall_whatever_its_squeeze_costs() {
        let at_work = |cores: f64| a_step().server(1.0, cores).build();
        let judged = |cores: f64| {
            let readings = rounds(870.0, 935.0).within(&at_work(cores));
            readings.get(Squeeze::ServerSpeed).unwrap().clone()
        };
        let idle = judged(0.0625);
        assert!((idle.local.value - 0.14375).abs() < 1e-9 && !idle.has_share());
        assert!((idle.record().value - 0.62).abs() < 0.02, "as measured");
        let readings = rounds(870.0, 935.0).within(&at_work(0.0625));
        assert!(crate::proof::dose::ceilings(&readings, &[], 1000.0, &[]).is_empty());
        // Where it works much, or nobody knows, what was measured stands.
        for cores in [0.6, 0.0] {
            let reading = judged(cores);
            assert!(
                reading.over_use.is_none() && reading.has_share(),
                "{cores}: {reading:?}"
            );
        }
    }

    #[test]
    fn a_next_wall_that_starts_to_bind_is_not() {
        // Its ceiling lies 8 % above the present throughput.
        let readings = rounds(864.0, 972.0);
        let server = readings.get(Squeeze::ServerSpeed).unwrap();
        assert!(server.bent, "{server:?}");
        assert!(
            (server.gap.value - 1.08f64.ln()).abs() < 0.01,
            "{:?}",
            server.gap
        );
        assert!(server.local.value < 0.35);
    }
}
