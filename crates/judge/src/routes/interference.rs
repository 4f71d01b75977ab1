//! Kinds that cost more beside each other than each does with the other away: one empties a cache that the other uses,
//! or holds a lock that the other waits for.
//!
//! Costs that add up explain windows as well as noise lets them. A pair is named where they do not, and where it does:
//!
//! 1. the model with the pair is better by more than chance gives in one of 250 experiments for *any* of its pairs, over
//!    both looks;
//! 2. it stays so whichever other pair is taken in as well, so that it is this pair and not one like it;
//! 3. no other pair explains more by costing *less*, nor costs less beside it beyond what chance gives any: two walls, of
//!    which now the one binds and now the other, are convex in the mix, and so is work in batches. No pair that costs more
//!    comes of them alone, but one may seem to while those that cost less are left out;
//! 4. it stays so whichever window is left out;
//! 5. it has at least a twentieth of the whole.

use super::linear::{Among, Fit, Pair, SPARE_MIN, Who, Windows};
use crate::student::tail;

/// How often a pair may be named where costs add up, over all looks.
const LEVEL: f64 = 0.004;
/// Looks: at as many windows as costs need, and at twice as many where those leave a doubt.
const LOOKS: f64 = 2.0;
/// A first look that finds this by chance at the most is followed by another one.
const SUSPICION: f64 = 0.25;
/// What another pair, or one window less, may make of a pair that is named.
const STAYS: f64 = 0.01;
/// How often chance has some other pair cost less beside it.
const LESS: f64 = 0.05;
/// Share of the whole, at the least.
const SHARE_MIN: f64 = 0.05;
/// Pairs named at the most.
const NAMED_MAX: usize = 3;

/// What one look found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    /// Pairs beyond doubt, the clearest first.
    pub(super) named: Vec<Pair>,
    /// For each, how often chance shows so much of any pair.
    pub(super) chances: Vec<f64>,
    /// The same of the clearest that is not named.
    pub(super) chance_left: f64,
}

impl Default for Found {
    /// Of no look.
    fn default() -> Found {
        Found {
            named: Vec::new(),
            chances: Vec::new(),
            chance_left: 1.0,
        }
    }
}

impl Found {
    /// Whether more windows may name what these do not.
    pub(super) fn is_open(&self) -> bool {
        self.named.is_empty() && self.chance_left < SUSPICION
    }
}

/// Looks at windows whose mix is `own` otherwise.
pub(super) fn look(windows: &Windows<'_>, own: &[f64]) -> Found {
    let level = LEVEL / LOOKS;
    let kinds = own.len();
    let two = (0..kinds).flat_map(|a| (a + 1..kinds).map(move |b| (a, b)));
    // Of two kinds those are all there are.
    let among: &[Among] = match kinds {
        0..=2 => &[Among::All],
        _ => &[Among::All, Among::Both],
    };
    let each = |kinds| {
        among.iter().map(move |among| Pair {
            kinds,
            among: *among,
        })
    };
    let all: Vec<Pair> = two.flat_map(each).collect();
    let mut found = Found::default();
    while found.named.len() < NAMED_MAX {
        let others = unnamed(&all, &found.named);
        let chances_of = |pair: &Pair| chances(windows, &with(&found.named, *pair), None);
        let each: Vec<(Pair, [f64; 2])> = others
            .iter()
            .map(|pair| (*pair, chances_of(pair)))
            .collect();
        let least_less = each.iter().map(|(_, [_, less])| *less).fold(1.0, f64::min);
        let best = each.into_iter().min_by(|a, b| a.1[0].total_cmp(&b.1[0]));
        let Some((pair, [more, _])) = best else {
            break;
        };
        let chance = (more * others.len() as f64).min(1.0);
        let is_named = chance < level
            && more < least_less
            && has_weight(windows, own, &with(&found.named, pair))
            && stays(windows, &found.named, pair, &others);
        if !is_named {
            found.chance_left = chance;
            break;
        }
        found.named.push(pair);
        found.chances.push(chance);
    }
    found
}

fn with(named: &[Pair], pair: Pair) -> Vec<Pair> {
    named.iter().copied().chain([pair]).collect()
}

/// How often chance alone has the last pair cost as much more, and as much less, where costs and the pairs before it are all
/// there is.
fn chances(windows: &Windows<'_>, pairs: &[Pair], left_out: Option<usize>) -> [f64; 2] {
    let fit = Fit::of(windows, pairs, left_out).filter(|fit| fit.degrees >= SPARE_MIN);
    fit.map_or([1.0; 2], |fit| {
        let t = fit.t_of_pair(pairs.len() - 1);
        [t, -t].map(|t| tail(t, fit.degrees as f64))
    })
}

fn has_weight(windows: &Windows<'_>, own: &[f64], pairs: &[Pair]) -> bool {
    let fit = Fit::of(windows, pairs, None);
    fit.is_some_and(|fit| fit.share(Who::Pair(pairs.len() - 1), own).value >= SHARE_MIN)
}

/// Whether a pair stays whichever other is taken in as well, none of which costs less, and whichever window is left out.
fn stays(windows: &Windows<'_>, named: &[Pair], pair: Pair, others: &[Pair]) -> bool {
    let others = unnamed(others, &[pair]);
    let is_left_by = |other: &Pair| {
        let pairs: Vec<Pair> = named.iter().copied().chain([*other, pair]).collect();
        let Some(fit) = Fit::of(windows, &pairs, None).filter(|fit| fit.degrees >= SPARE_MIN)
        else {
            return false;
        };
        let chance = |t: f64| tail(t, fit.degrees as f64);
        let less = chance(-fit.t_of_pair(pairs.len() - 2)) * others.len() as f64;
        chance(fit.t_of_pair(pairs.len() - 1)) < STAYS && less > LESS
    };
    let own = with(named, pair);
    let without = |window: usize| chances(windows, &own, Some(window))[0];
    others.iter().all(is_left_by)
        && (0..windows.counts.len())
            .map(without)
            .all(|chance| chance < STAYS)
}

/// Those of other kinds than any that is named.
fn unnamed(all: &[Pair], named: &[Pair]) -> Vec<Pair> {
    let is_named = |pair: &Pair| named.iter().any(|named| named.kinds == pair.kinds);
    all.iter().copied().filter(|pair| !is_named(pair)).collect()
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;
    use crate::routes::design::weights;

    const OWN: [u32; 4] = [300, 300, 250, 150];

    /// Windows of a server that is full, where so much of it is used by the first two beside each other.
    fn windows(pair: f64, noise: f64, seed: u64) -> (Vec<Vec<f64>>, Vec<f64>) {
        let costs = [40.0, 60.0, 30.0, 200.0];
        let takes = |counts: &[f64], each: f64| {
            let all: f64 = counts.iter().sum();
            let alone: f64 = counts
                .iter()
                .zip(costs)
                .map(|(count, cost)| count * cost)
                .sum();
            alone + each * counts[0] * counts[1] / all
        };
        let own = OWN.map(f64::from);
        let alone = takes(&own, 0.0);
        let each = pair / (1.0 - pair) * alone / (takes(&own, 1.0) - alone);
        let mut random = Rng::with_seed(seed);
        let row = |weights: Vec<u32>| {
            let counts: Vec<f64> = weights.into_iter().map(f64::from).collect();
            let spread = 1.0 + noise * (0..12).map(|_| random.f64() - 0.5).sum::<f64>();
            let rounds = 1.0 / (takes(&counts, each) * spread);
            counts.iter().map(|count| count * rounds).collect()
        };
        let counts: Vec<Vec<f64>> = weights(&OWN, seed).into_iter().map(row).collect();
        let used = vec![1.0; counts.len()];
        (counts, used)
    }

    fn named(pair: f64, noise: f64, seed: u64) -> Vec<(usize, usize)> {
        let (counts, used) = windows(pair, noise, seed);
        let windows = Windows {
            counts: &counts,
            used: &used,
        };
        look(&windows, &OWN.map(f64::from))
            .named
            .iter()
            .map(|pair| pair.kinds)
            .collect()
    }

    #[test]
    fn a_pair_that_costs_a_third_is_named_and_no_other() {
        let times = (0..40)
            .filter(|seed| named(0.35, 0.01, *seed) == [(0, 1)])
            .count();
        assert!(times >= 36, "{times} of 40");
        let others = (0..40)
            .flat_map(|seed| named(0.35, 0.01, seed))
            .filter(|pair| *pair != (0, 1));
        assert_eq!(others.count(), 0);
    }

    #[test]
    fn where_costs_add_up_no_pair_is_named() {
        let wrong = (0..400)
            .filter(|seed| !named(0.0, 0.03, *seed).is_empty())
            .count();
        assert!(wrong <= 4, "{wrong} of 400");
    }

    /// A trifle is none, however sure it is.
    #[test]
    fn a_pair_without_weight_is_not_named() {
        for seed in 0..20 {
            assert_eq!(named(0.03, 0.0, seed), []);
        }
    }

    #[test]
    fn one_window_makes_no_pair() {
        for seed in 0..60 {
            let (counts, mut used) = windows(0.0, 0.005, seed);
            let at = seed as usize % used.len();
            used[at] *= 1.5;
            let windows = Windows {
                counts: &counts,
                used: &used,
            };
            assert_eq!(
                look(&windows, &OWN.map(f64::from)).named,
                Vec::new(),
                "{seed}"
            );
        }
    }
}
