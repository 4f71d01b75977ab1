//! An experiment as a reader looks at it: what each window had beside its own shams, each
//! squeeze with its doses, what was out of reach and could have mattered, and the doubts
//! without those that something else on the page says already.
//!
//! Nothing is estimated here: elasticities and their intervals are the judge's, and stand in
//! the verdict. What is shown of the doses are the windows themselves and their median.
//!
//! ```text
//!   sham ●────────┬─────● sham
//!            base ┘ ↕ relative = squeezed / base
//!                 ● squeezed
//! ```

use wallfinder_judge::proof::relatives;
use wallfinder_model::experiment::{Experiment, Squeeze};
use wallfinder_model::reason::Open;
use wallfinder_model::{Caveat, Reason, Record, Step};

use crate::compared;
use crate::doubt;
use crate::said::Worded;

/// From this use of a link on, a squeeze of it could have mattered.
const LINK_USED: f64 = 0.7;

/// One squeezed window beside its shams.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// What was left of the resource, as the check measured it, else as asked for.
    pub retained: f64,
    /// Throughput over that of the shams before and after.
    pub relative: f64,
    /// Whether the squeeze was in force, where that can be told.
    pub in_force: Option<bool>,
}

/// A squeeze at one dose.
#[derive(Debug, Clone, PartialEq)]
pub struct Dose {
    /// What was asked to be left.
    pub asked: f64,
    /// How it was done.
    pub how: String,
    /// Its windows.
    pub points: Vec<Point>,
    /// Windows in force, not in force, and untold.
    pub force: (usize, usize, usize),
    /// What the check of the manipulation saw, in the last window of it that says so.
    pub check: String,
}

impl Dose {
    /// Median of what was left and of the relative throughput, over windows in force.
    pub fn middle(&self) -> Option<(f64, f64)> {
        let mut points: Vec<Point> = self
            .points
            .iter()
            .copied()
            .filter(|point| point.in_force != Some(false))
            .collect();
        let of = |points: &[Point], pick: fn(&Point) -> f64| {
            let half = points.len() / 2;
            match points.len() {
                0 => None,
                n if n % 2 == 1 => Some(pick(&points[half])),
                _ => Some((pick(&points[half - 1]) + pick(&points[half])) / 2.0),
            }
        };
        points.sort_by(|a, b| a.retained.total_cmp(&b.retained));
        let retained = of(&points, |point| point.retained)?;
        points.sort_by(|a, b| a.relative.total_cmp(&b.relative));
        Some((retained, of(&points, |point| point.relative)?))
    }

    /// d ln(throughput) / d ln(resource) of its medians.
    pub fn elasticity(&self) -> Option<f64> {
        let (retained, relative) = self.middle()?;
        let value = relative.ln() / retained.ln();
        ((retained - 1.0).abs() > 0.01 && value.is_finite()).then_some(value)
    }
}

/// Every squeeze of an experiment with its doses, the largest part left first; in the order
/// of [`Squeeze::ALL`].
pub fn squeezes(experiment: &Experiment) -> Vec<(Squeeze, Vec<Dose>)> {
    let relative = relatives(experiment);
    Squeeze::ALL
        .into_iter()
        .filter_map(|squeeze| {
            let mut doses: Vec<Dose> = experiment
                .conditions
                .iter()
                .enumerate()
                .filter(|(_, condition)| condition.squeeze == Some(squeeze))
                .map(|(at, condition)| {
                    dose(
                        experiment,
                        &relative,
                        at,
                        condition.retained,
                        &condition.how,
                    )
                })
                .filter(|dose| dose.force != (0, 0, 0))
                .collect();
            doses.sort_by(|a, b| b.asked.total_cmp(&a.asked));
            (!doses.is_empty()).then_some((squeeze, doses))
        })
        .collect()
}

fn dose(
    experiment: &Experiment,
    relative: &[Option<f64>],
    condition: usize,
    asked: f64,
    how: &str,
) -> Dose {
    let own = || {
        experiment
            .windows
            .iter()
            .zip(relative)
            .filter(|(window, _)| window.condition as usize == condition)
    };
    let count = |force| own().filter(|(window, _)| window.in_force == force).count();
    Dose {
        asked,
        how: how.to_owned(),
        points: own()
            .filter_map(|(window, relative)| {
                Some(Point {
                    retained: window.left(asked),
                    relative: (*relative)?,
                    in_force: window.in_force,
                })
            })
            .collect(),
        force: (count(Some(true)), count(Some(false)), count(None)),
        check: own()
            .map(|(window, _)| window.check.as_str())
            .rfind(|check| !check.is_empty())
            .unwrap_or_default()
            .to_owned(),
    }
}

/// From the start of the load to the end of the last window or slice.
pub fn length_ns(experiment: &Experiment) -> u64 {
    let windows = experiment.windows.iter().map(|window| window.to_ns);
    let slices = experiment.intervals.iter().map(|slice| slice.at_ns);
    windows.chain(slices).max().unwrap_or(0)
}

/// Squeezes that were out of reach and could have mattered at this load, by what they lack.
pub fn missing(step: &Step) -> Vec<(Vec<Squeeze>, String)> {
    let Some(experiment) = &step.experiment else {
        return Vec::new();
    };
    let mut missing: Vec<(Vec<Squeeze>, String)> = Vec::new();
    for out in &experiment.out_of_reach {
        if !could_matter(step, experiment, out.squeeze) {
            continue;
        }
        match missing.iter_mut().find(|(_, why)| *why == out.why) {
            Some((squeezes, _)) => squeezes.push(out.squeeze),
            None => missing.push((vec![out.squeeze], out.why.clone())),
        }
    }
    missing
}

fn could_matter(step: &Step, experiment: &Experiment, squeeze: Squeeze) -> bool {
    let setting = &experiment.setting;
    let squeezed = |squeeze: Squeeze| {
        experiment
            .windows
            .iter()
            .filter_map(|window| experiment.condition(window))
            .any(|condition| condition.squeezes().any(|it| it == squeeze))
    };
    let link = step.telemetry.link.as_ref();
    let limited = |bits: Option<f64>, share: Option<f64>| {
        let rate = bits.is_some() || link.is_some_and(|link| link.rate_bits.is_some());
        // A link of a known rate that is far from full cannot be the wall.
        match share {
            Some(share) => rate && share >= LINK_USED,
            None => rate || link.is_none(),
        }
    };
    match squeeze {
        Squeeze::ServerSpeed | Squeeze::ClientSpeed => true,
        // On one processor the speed says it all, unless there is a quota.
        Squeeze::ServerCapacity => {
            !squeezed(Squeeze::ServerSpeed)
                || setting.server_cpus.len() != 1
                || setting.server_quota_cores.is_some()
        }
        Squeeze::ClientCapacity => {
            !squeezed(Squeeze::ClientSpeed) && !setting.own_engine
                || setting.client_quota_cores.is_some()
        }
        Squeeze::Downlink => limited(
            setting.downlink_bits,
            link.and_then(|link| link.downlink_share),
        ),
        Squeeze::Uplink => limited(setting.uplink_bits, link.and_then(|link| link.uplink_share)),
        Squeeze::InFlight => !setting.open_loop && setting.in_flight_max > 1,
        Squeeze::ThinkTime => !setting.open_loop && !squeezed(Squeeze::InFlight),
        Squeeze::MoreInFlight => false,
        Squeeze::MoreClients => squeeze.applies(setting),
        Squeeze::OfferedLoad => setting.open_loop,
        Squeeze::BackendSpeed => squeeze.applies(setting),
        // Without a quota its speed says it all.
        Squeeze::BackendCapacity => false,
    }
}

/// What a reader must know of a run and of some of its steps, each doubt once; of two
/// settings side by side first what holds for their comparison.
pub fn careful<'r>(record: &'r Record, steps: impl IntoIterator<Item = &'r Step>) -> Vec<Worded> {
    careful_but(record, steps, |_| false)
}

/// The same, without what is told elsewhere.
pub(crate) fn careful_but<'r>(
    record: &'r Record,
    steps: impl IntoIterator<Item = &'r Step>,
    told: impl Fn(&Caveat) -> bool,
) -> Vec<Worded> {
    let comparison = record.ab.iter();
    comparison
        .flat_map(|ab| compared::careful(record, ab))
        .map(|fact| Worded { fact, advice: None })
        .chain(doubts(record, steps, told))
        .collect()
}

/// Doubts, without those that the reason or the list of what was out of reach says already.
fn doubts<'r>(
    record: &'r Record,
    steps: impl IntoIterator<Item = &'r Step>,
    told: impl Fn(&Caveat) -> bool,
) -> Vec<Worded> {
    let steps: Vec<&Step> = steps.into_iter().collect();
    let quiet = record.ab.is_some() || steps.iter().any(|step| step.experiment.is_some());
    let mut doubts: Vec<Worded> = doubt::of_kept(record, steps.iter().copied(), |caveat| {
        !(told(caveat) || quiet && is_said(caveat, &steps))
    });
    // What helps against two doubts in a row is said below the second.
    for at in 1..doubts.len() {
        if doubts[at].advice == doubts[at - 1].advice {
            doubts[at - 1].advice = None;
        }
    }
    doubts
}

fn is_said(caveat: &Caveat, steps: &[&Step]) -> bool {
    let mut verdicts = steps.iter().filter_map(|step| step.verdict.as_ref());
    match caveat {
        Caveat::OutOfReach { .. } => true,
        Caveat::NotSqueezed { missing } => missing.is_listed(),
        Caveat::CutShort { .. } => verdicts.any(|verdict| {
            matches!(
                verdict.reason,
                Reason::Undecided {
                    why: Open::CutShort { .. },
                    ..
                }
            )
        }),
        _ => false,
    }
}
