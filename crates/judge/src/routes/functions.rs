//! Which functions of the server are whose: the samples that each function has in a window are regressed on the counts by
//! kind, as CPU time is.
//!
//! A function is told of a kind where most of its time is that kind's, more of it than of the server's time altogether,
//! both beyond what chance gives over all functions and kinds. So what serves every request is nobody's.

use std::collections::{BTreeMap, BTreeSet};

use wallfinder_model::record::{FunctionCost, MixWindow};

use super::cost;
use super::linear::{Fit, Pair, Windows};
use crate::profile::is_named;
use crate::student::quantile;

/// A function with less than this of every window is left alone.
const SHARE_MIN: f64 = 0.02;
/// Least part of what a kind costs the server.
const PART_MIN: f64 = 0.1;
/// Least share of the function that is the kind's.
const OWN_MIN: f64 = 0.5;
/// Functions whose times are as near as this are one call within another; the inner one is told.
const NEAR: f64 = 0.9;
/// Told of a kind, at the most.
const TOLD_MAX: usize = 3;

/// By kind, the functions that are told of it, the dearest first. `beside` has the server's CPU time, of which `pairs` cost
/// each other. Nothing where stacks were not sampled in every window.
pub(super) fn functions(
    windows: &[MixWindow],
    beside: &Windows<'_>,
    pairs: &[Pair],
    own: &[f64],
) -> BTreeMap<usize, Vec<FunctionCost>> {
    let mut told: BTreeMap<usize, Vec<FunctionCost>> = BTreeMap::new();
    let (Some(samples), Some(server)) = (Samples::of(windows), Fit::of(beside, pairs, None)) else {
        return told;
    };
    let names = samples.names();
    let sure = quantile(
        0.05 / (names.len() * own.len()).max(1) as f64,
        server.degrees as f64,
    );
    let usual = quantile(0.05, server.degrees as f64);
    for name in names {
        let used: Vec<f64> = beside
            .used
            .iter()
            .zip(samples.shares(name))
            .map(|(used, share)| used * share)
            .collect();
        let windows = Windows {
            counts: beside.counts,
            used: &used,
        };
        let Some(fit) = Fit::of(&windows, pairs, None).filter(|fit| fit.whole(own) > 0.0) else {
            continue;
        };
        for kind in 0..own.len() {
            let (each, share) = (fit.one_more(kind, own), fit.share(kind, own));
            let all = server.one_more(kind, own);
            let of_server = server.share(kind, own);
            let most = OWN_MIN.max(of_server.value + usual * of_server.error);
            let part = each.value / all.value;
            let is_told = each.value > sure * each.error
                && share.value - sure * share.error > most
                && part >= PART_MIN;
            if is_told {
                let error = ((each.error / all.value).powi(2)
                    + (part * all.error / all.value).powi(2))
                .sqrt();
                told.entry(kind).or_default().push(FunctionCost {
                    name: name.to_owned(),
                    cost: cost(&fit, kind, own),
                    part,
                    part_low: part - usual * error,
                    part_high: part + usual * error,
                });
            }
        }
    }
    told.values_mut().for_each(innermost);
    told
}

/// Keeps the inner of functions with the same time, and the dearest of those.
fn innermost(functions: &mut Vec<FunctionCost>) {
    functions.sort_by(|a, b| b.cost.each.total_cmp(&a.cost.each));
    let mut kept: Vec<FunctionCost> = Vec::new();
    let mut group_each = f64::INFINITY;
    for function in functions.drain(..) {
        match kept.last_mut() {
            Some(last) if function.cost.each >= NEAR * group_each => *last = function,
            _ => {
                group_each = function.cost.each;
                kept.push(function);
            }
        }
    }
    kept.truncate(TOLD_MAX);
    *functions = kept;
}

/// What was sampled in each window: all of it, and by function.
struct Samples<'w> {
    windows: Vec<(f64, BTreeMap<&'w str, i64>)>,
}

impl<'w> Samples<'w> {
    fn of(windows: &'w [MixWindow]) -> Option<Samples<'w>> {
        let one = |window: &'w MixWindow| {
            let stacks = window.stacks.as_ref().filter(|stacks| stacks.total > 0)?;
            let each = stacks.functions.iter();
            let by_name = each.map(|part| (part.name.as_str(), part.with_callees));
            Some((stacks.total as f64, by_name.collect()))
        };
        let windows: Option<Vec<_>> = windows.iter().map(one).collect();
        Some(Samples { windows: windows? })
    }

    /// Of functions that are more than a trifle in some window.
    fn names(&self) -> BTreeSet<&'w str> {
        let of_window = |(total, functions): &(f64, BTreeMap<&'w str, i64>)| {
            let least = SHARE_MIN * total;
            let heavy = functions
                .iter()
                .filter(|(name, value)| is_named(name) && **value as f64 >= least);
            heavy.map(|(name, _)| *name).collect::<Vec<_>>()
        };
        self.windows.iter().flat_map(of_window).collect()
    }

    /// A function's share in each window; none where it is too small to be kept.
    fn shares(&self, name: &str) -> impl Iterator<Item = f64> + '_ {
        let name = name.to_owned();
        let one = move |(total, functions): &(f64, BTreeMap<&'w str, i64>)| {
            functions
                .get(name.as_str())
                .map_or(0.0, |value| *value as f64 / total)
        };
        self.windows.iter().map(one)
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use wallfinder_model::profile::FunctionPart;
    use wallfinder_model::record::MixStacks;

    use super::*;
    use crate::routes::design::weights;

    const OWN: [u32; 3] = [50, 40, 10];
    /// CPU time of one of each in functions: all serve, one sorts in what ranks, and one copies for two of them.
    const FUNCTIONS: [(&str, [f64; 3]); 6] = [
        ("serve", [20.0, 30.0, 200.0]),
        ("rank", [0.0, 0.0, 180.0]),
        ("sort", [0.0, 0.0, 176.0]),
        ("compare", [0.0, 0.0, 90.0]),
        ("copy", [5.0, 12.0, 0.0]),
        ("(no symbol)", [0.0, 9.0, 0.0]),
    ];

    fn told(samples: f64, seed: u64) -> BTreeMap<usize, Vec<FunctionCost>> {
        let mut random = Rng::with_seed(seed);
        let (mut counts, mut windows) = (Vec::new(), Vec::new());
        for drawn in weights(&OWN, seed) {
            let drawn: Vec<f64> = drawn.into_iter().map(f64::from).collect();
            let takes = |of: &[f64; 3]| {
                drawn
                    .iter()
                    .zip(of)
                    .map(|(count, cost)| count * cost)
                    .sum::<f64>()
            };
            let whole = takes(&FUNCTIONS[0].1);
            let mut part = |(name, of): &(&str, [f64; 3])| {
                let share = takes(of) / whole;
                let normal: f64 = (0..12).map(|_| random.f64() - 0.5).sum();
                let sampled = samples * share + (samples * share * (1.0 - share)).sqrt() * normal;
                FunctionPart {
                    name: (*name).to_owned(),
                    own: 0,
                    with_callees: sampled.max(0.0) as i64,
                }
            };
            let stacks = MixStacks {
                total: samples as i64,
                functions: FUNCTIONS.iter().map(&mut part).collect(),
            };
            windows.push(MixWindow {
                stacks: Some(stacks),
                ..MixWindow::default()
            });
            counts.push(drawn.iter().map(|count| count / whole).collect());
        }
        let used = vec![1.0; counts.len()];
        functions(
            &windows,
            &Windows {
                counts: &counts,
                used: &used,
            },
            &[],
            &OWN.map(f64::from),
        )
    }

    #[test]
    fn functions_are_told_of_whom_they_work_for_the_inner_ones_first() {
        let told = told(20_000.0, 1);
        let names = |kind| {
            told.get(&kind).map_or(Vec::new(), |all| {
                all.iter().map(|it| it.name.as_str()).collect()
            })
        };
        assert_eq!(names(2), ["sort", "compare"]);
        assert_eq!(names(1), ["copy"]);
        assert_eq!(names(0), Vec::<&str>::new());
        let sort = &told[&2][0];
        assert!((sort.part - 0.88).abs() < 0.03, "{sort:?}");
        assert!((sort.part_low..=sort.part_high).contains(&0.88), "{sort:?}");
        assert!((sort.cost.each - 176.0).abs() < 5.0, "{sort:?}");
    }

    /// What serves all is nobody's, and few samples tell less, but nothing wrong.
    #[test]
    fn few_samples_tell_nothing_wrong() {
        for seed in 0..60 {
            for (kind, functions) in told(300.0, seed) {
                for function in functions {
                    let is_so = match function.name.as_str() {
                        "rank" | "sort" | "compare" => kind == 2,
                        "copy" => kind == 1,
                        _ => false,
                    };
                    assert!(is_so, "{seed}: {kind} has {}", function.name);
                }
            }
        }
    }

    #[test]
    fn windows_without_stacks_tell_of_no_functions() {
        let windows = vec![MixWindow::default(); 12];
        let counts = vec![vec![1.0, 2.0, 3.0]; 12];
        let beside = Windows {
            counts: &counts,
            used: &[1.0; 12],
        };
        assert!(functions(&windows, &beside, &[], &[1.0, 2.0, 3.0]).is_empty());
    }
}
