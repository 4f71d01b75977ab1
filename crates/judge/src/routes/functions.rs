//! Which functions of the server are whose: the samples that each function has in a window are regressed on the counts by
//! kind, as CPU time is.
//!
//! A function is told of a kind where most of its time is that kind's, and surely more of it than of the server's time
//! altogether: for what is others', at least twice as much. So what serves every request is nobody's. Of kinds that cost
//! each other the time that neither takes without the other is no kind's, and functions are told of it in the same way.

use std::collections::{BTreeMap, BTreeSet};

use wallfinder_model::record::{FunctionCost, MixWindow};

use super::linear::{Fit, Pair, Who, Windows};
use super::spread;
use crate::profile::is_named;
use crate::student::quantile;

/// A function with less than this of every window is left alone.
const SHARE_MIN: f64 = 0.02;
/// Share of a window that counts as none.
const TRIFLE: f64 = 0.002;
/// Least part of what a kind costs the server.
const PART_MIN: f64 = 0.1;
/// Least share of the function that is the kind's.
const OWN_MIN: f64 = 0.5;
/// What is one's of a function to what is others', over the same of the server, at the least.
const ODDS_MIN: f64 = 2.0;
/// Functions whose times are as near as this are one call within another; the inner one is told.
const NEAR: f64 = 0.9;
/// Told of a kind, at the most.
const TOLD_MAX: usize = 3;

/// Functions that are told of somebody, the dearest first.
pub(super) type Whose = BTreeMap<Who, Vec<FunctionCost>>;

/// Whose the server's functions are. `beside` has its CPU time, of which `pairs` cost each other. Nobody's where stacks
/// were not sampled in every window.
pub(super) fn functions(
    windows: &[MixWindow],
    beside: &Windows<'_>,
    pairs: &[Pair],
    own: &[f64],
) -> Whose {
    let (Some(samples), Some(server)) = (Samples::of(windows), Fit::of(beside, pairs, None)) else {
        return Whose::new();
    };
    let of_name = |name| {
        let shares = beside.used.iter().zip(samples.shares(name));
        let used: Vec<f64> = shares.map(|(used, share)| used * share).collect();
        let windows = Windows {
            counts: beside.counts,
            used: &used,
        };
        let fit = Fit::of(&windows, pairs, None).filter(|fit| fit.whole(own) > 0.0)?;
        Some((name, fit))
    };
    let fitted: Vec<(&str, Fit)> = samples.names().into_iter().filter_map(of_name).collect();
    let kinds = (0..own.len()).map(Who::Kind);
    let all = kinds.chain((0..pairs.len()).map(Who::Pair));
    let mut told: Whose = all
        .map(|who| (who, told(who, &fitted, &server, own)))
        .collect();
    // What is neither's alone is not one's.
    let of_pairs: BTreeSet<String> = told
        .iter()
        .filter(|(who, _)| matches!(who, Who::Pair(_)))
        .flat_map(|(_, functions)| functions.iter().map(|function| function.name.clone()))
        .collect();
    for (who, functions) in &mut told {
        functions
            .retain(|function| matches!(who, Who::Pair(_)) || !of_pairs.contains(&function.name));
        innermost(functions);
    }
    told.retain(|_, functions| !functions.is_empty());
    told
}

/// Those of one.
fn told(who: Who, fitted: &[(&str, Fit)], server: &Fit, own: &[f64]) -> Vec<FunctionCost> {
    let (all, whole) = (server.each(who, own), server.share(who, own));
    // Others have too little altogether for such a part of what is this one's.
    let least = PART_MIN * whole.value * server.whole(own);
    let able: Vec<&(&str, Fit)> = fitted
        .iter()
        .filter(|(_, fit)| fit.whole(own) >= least)
        .collect();
    // A function can be mostly one's alone, whoever that is: what chance gives is over functions.
    let sure = quantile(0.05 / able.len().max(1) as f64, server.degrees as f64);
    let usual = quantile(0.05, server.degrees as f64);
    let odds = ODDS_MIN * whole.value;
    let least_share = odds / (1.0 - whole.value + odds);
    let one = |(name, fit): &(&str, Fit)| {
        let (each, share) = (fit.each(who, own), fit.share(who, own));
        let above = fit.share_above(server, who, own);
        let part = each.value / all.value;
        let is_told = each.value > sure * each.error
            && share.value - sure * share.error > OWN_MIN
            && above.value > sure * above.error
            && share.value > least_share
            && part >= PART_MIN;
        let error =
            ((each.error / all.value).powi(2) + (part * all.error / all.value).powi(2)).sqrt();
        is_told.then(|| FunctionCost {
            name: (*name).to_owned(),
            cost: spread(each, share, usual),
            part,
            part_low: part - usual * error,
            part_high: part + usual * error,
        })
    };
    able.into_iter().filter_map(one).collect()
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
    windows: Vec<Window<'w>>,
}

/// Those of a window.
struct Window<'w> {
    total: f64,
    functions: BTreeMap<&'w str, i64>,
    /// One that is not listed has so little that it counts as none.
    lacks_trifles: bool,
}

impl<'w> Samples<'w> {
    fn of(windows: &'w [MixWindow]) -> Option<Samples<'w>> {
        let one = |window: &'w MixWindow| {
            let stacks = window.stacks.as_ref().filter(|stacks| stacks.total > 0)?;
            let each = stacks.functions.iter();
            let by_name = each.map(|part| (part.name.as_str(), part.with_callees));
            Some(Window {
                total: stacks.total as f64,
                functions: by_name.collect(),
                lacks_trifles: stacks.unlisted_most as f64 <= TRIFLE * stacks.total as f64,
            })
        };
        let windows: Option<Vec<_>> = windows.iter().map(one).collect();
        Some(Samples { windows: windows? })
    }

    /// Of functions that are more than a trifle in some window, and of which it is known what they have in each: one
    /// that is not listed where its request is rare would seem to grow faster than that request.
    fn names(&self) -> BTreeSet<&'w str> {
        let of_window = |window: &Window<'w>| {
            let least = SHARE_MIN * window.total;
            let each = window.functions.iter();
            let heavy = each.filter(|(name, value)| is_named(name) && **value as f64 >= least);
            heavy.map(|(name, _)| *name).collect::<Vec<_>>()
        };
        let is_known = |name: &&str| {
            let known = |of: &Window<'w>| of.lacks_trifles || of.functions.contains_key(name);
            self.windows.iter().all(known)
        };
        let heavy = self.windows.iter().flat_map(of_window);
        heavy.filter(is_known).collect()
    }

    /// A function's share in each window; none where it is too small to be kept.
    fn shares(&self, name: &str) -> impl Iterator<Item = f64> + '_ {
        let name = name.to_owned();
        let one = move |window: &Window<'w>| {
            let value = window.functions.get(name.as_str());
            value.map_or(0.0, |value| *value as f64 / window.total)
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
    use crate::routes::linear::Among;

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

    /// The first two take turns with each other.
    const TURNS: Pair = Pair {
        kinds: (0, 1),
        among: Among::Both,
    };

    const PAIR: Who = Who::Pair(0);

    fn names(whose: &Whose, who: Who) -> Vec<&str> {
        let told = whose.get(&who).into_iter().flatten();
        told.map(|function| function.name.as_str()).collect()
    }

    fn told(samples: f64, seed: u64) -> Whose {
        whose(samples, seed, 0.0, |_| {})
    }

    /// What is told where a turn costs so much, in `fill`, and windows lack something.
    fn whose(samples: f64, seed: u64, turn: f64, lack: impl Fn(&mut MixStacks)) -> Whose {
        let mut random = Rng::with_seed(seed);
        let (mut counts, mut windows) = (Vec::new(), Vec::new());
        let mut all = FUNCTIONS.to_vec();
        all.push(("fill", [0.0; 3]));
        for drawn in weights(&OWN, seed) {
            let drawn: Vec<f64> = drawn.into_iter().map(f64::from).collect();
            let takes = |(name, of): &(&str, [f64; 3])| {
                let turns = match *name {
                    "serve" | "fill" => turn * TURNS.times(&drawn),
                    _ => 0.0,
                };
                let alone = drawn.iter().zip(of).map(|(count, cost)| count * cost);
                alone.sum::<f64>() + turns
            };
            let whole = takes(&all[0]);
            let mut part = |of: &(&str, [f64; 3])| {
                let share = takes(of) / whole;
                let normal: f64 = (0..12).map(|_| random.f64() - 0.5).sum();
                let sampled = samples * share + (samples * share * (1.0 - share)).sqrt() * normal;
                FunctionPart {
                    name: of.0.to_owned(),
                    own: 0,
                    with_callees: sampled.max(0.0) as i64,
                }
            };
            let mut stacks = MixStacks {
                total: samples as i64,
                functions: all.iter().map(&mut part).collect(),
                unlisted_most: 0,
            };
            lack(&mut stacks);
            windows.push(MixWindow {
                stacks: Some(stacks),
                ..MixWindow::default()
            });
            counts.push(drawn.iter().map(|count| count / whole).collect());
        }
        let used = vec![1.0; counts.len()];
        let beside = Windows {
            counts: &counts,
            used: &used,
        };
        let pairs = if turn > 0.0 { &[TURNS][..] } else { &[] };
        functions(&windows, &beside, pairs, &OWN.map(f64::from))
    }

    /// A cache that one empties and the other fills: the filling is neither's.
    #[test]
    fn what_neither_takes_without_the_other_has_functions_of_its_own() {
        let whose = whose(20_000.0, 3, 80.0, |_| {});
        assert_eq!(names(&whose, PAIR), ["fill"]);
        let of_kinds = [0, 1, 2].map(|kind| names(&whose, Who::Kind(kind)));
        let mut of_kinds = of_kinds.iter().flatten();
        assert!(of_kinds.clone().all(|name| *name != "fill"), "{whose:?}");
        assert!(of_kinds.any(|name| *name == "sort"), "{whose:?}");
    }

    /// Seven tenths of the server's time are a pair's, and a window has as many samples as one of a second has: the
    /// function that has all of that is told, in nine of ten, and what serves all never.
    #[test]
    fn a_pair_that_has_most_of_the_server_has_its_function() {
        let told: Vec<Whose> = (0..60)
            .map(|seed| whose(450.0, seed, 480.0, |_| {}))
            .collect();
        let has = |name: &str| {
            let of_pair = told.iter().map(|whose| names(whose, PAIR));
            of_pair.filter(|names| names.contains(&name)).count()
        };
        assert!(has("fill") >= 54, "{}", has("fill"));
        assert_eq!(has("serve"), 0);
    }

    #[test]
    fn functions_are_told_of_whom_they_work_for_the_inner_ones_first() {
        let told = told(20_000.0, 1);
        let names = |kind| names(&told, Who::Kind(kind));
        assert_eq!(names(2), ["sort", "compare"]);
        assert_eq!(names(1), ["copy"]);
        assert_eq!(names(0), Vec::<&str>::new());
        let sort = &told[&Who::Kind(2)][0];
        assert!((sort.part - 0.88).abs() < 0.03, "{sort:?}");
        assert!((sort.part_low..=sort.part_high).contains(&0.88), "{sort:?}");
        assert!((sort.cost.each - 176.0).abs() < 5.0, "{sort:?}");
    }

    /// A function that is left out where it is rare would seem to grow faster than its request.
    #[test]
    fn what_a_window_may_have_left_out_is_told_of_no_request() {
        let rare = |stacks: &mut MixStacks| {
            let total = stacks.total;
            let left_out =
                |part: &FunctionPart| part.name == "sort" && 3 * part.with_callees < total;
            stacks.functions.retain(|part| !left_out(part));
            stacks.unlisted_most = total / 3;
        };
        let has_sort = |told: &Whose| {
            let mut all = told.values().flatten();
            all.any(|function| function.name == "sort")
        };
        let told = whose(20_000.0, 1, 0.0, rare);
        assert!(!has_sort(&told), "{told:?}");
        let trifles = |stacks: &mut MixStacks| stacks.unlisted_most = stacks.total / 1_000;
        assert!(has_sort(&whose(20_000.0, 1, 0.0, trifles)));
    }

    /// What serves all is nobody's, and few samples tell less, but nothing wrong.
    #[test]
    fn few_samples_tell_nothing_wrong() {
        for seed in 0..60 {
            for (who, functions) in told(300.0, seed) {
                for function in functions {
                    let is_so = match function.name.as_str() {
                        "rank" | "sort" | "compare" => who == Who::Kind(2),
                        "copy" => who == Who::Kind(1),
                        _ => false,
                    };
                    assert!(is_so, "{seed}: {who:?} has {}", function.name);
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
