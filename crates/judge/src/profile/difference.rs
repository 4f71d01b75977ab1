//! Two profiles of one kind, side by side, each counted whole: what is too small for a reading has
//! its number here all the same, so nothing appears or vanishes by where a list was cut.
//!
//! How much of a difference may be chance is known of CPU, whose samples have equal weight: their
//! counts are taken for Poisson's, and the score intervals of both rates are put together (Zou and
//! Donner, *Construction of confidence limits about effect measures: a general approach*,
//! Statistics in Medicine 27, 2008).

use std::collections::{BTreeSet, HashMap};

use wallfinder_model::profile::{Profile, ProfileKind};

use super::{Sum, Total, totals};

/// What a whole profile is called where its functions stand.
pub const ALL: &str = "(all)";

/// Between so many standard deviations lie 95 % of a normal distribution.
const Z: f64 = 1.96;

/// A whole profile, and what was answered while it was taken.
#[derive(Debug, Clone, Copy)]
pub struct Taken<'p> {
    /// As it was written.
    pub profile: &'p Profile,
    /// Requests; `None` where that is not known.
    pub answered: Option<f64>,
}

/// A function in two profiles.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Of what; [`ALL`] of the whole.
    pub name: String,
    /// Where it is the leaf.
    pub own: Amounts,
    /// Where it is on the stack.
    pub with_callees: Amounts,
}

/// What it has in both, by what is divided.
#[derive(Debug, Clone, PartialEq)]
pub struct Amounts {
    /// In a second of each window, or as it is for a moment.
    pub per_second: Rates,
    /// For each request; `None` where those of one are not known.
    pub per_request: Option<Rates>,
}

/// What it has in both, in the unit of the profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// In the first.
    pub before: f64,
    /// In the second.
    pub after: f64,
    /// Between these lies how much more the second has, with 95 % confidence, by the number of
    /// samples alone. `None` where values are not samples of equal weight.
    pub limits: Option<(f64, f64)>,
}

impl Amounts {
    /// For each request where that is known, else in a second: what a server that answers more has
    /// more of in a second says nothing of what a request costs.
    pub fn told(&self) -> &Rates {
        self.per_request.as_ref().unwrap_or(&self.per_second)
    }

    fn differ(&self) -> bool {
        let of_requests = self.per_request.as_ref().map_or(0.0, Rates::by);
        self.per_second.by() != 0.0 || of_requests != 0.0
    }
}

impl Rates {
    /// How much more the second has.
    pub fn by(&self) -> f64 {
        self.after - self.before
    }

    /// Whether there is more to the difference than the chance of sampling; `None` where that is
    /// not known. Of functions that did not change, five of a hundred seem to.
    pub fn is_shown(&self) -> Option<bool> {
        self.limits.map(|(low, high)| low > 0.0 || high < 0.0)
    }
}

/// The whole first, then every function that has not the same in both: by what is their own, the
/// largest change first. Nothing is left out on either side.
pub fn difference(kind: ProfileKind, before: Taken<'_>, after: Taken<'_>) -> Vec<Change> {
    let sides = [Side::of(kind, before), Side::of(kind, after)];
    let seconds = sides.each_ref().map(|side| side.seconds);
    let answered = match sides.each_ref().map(|side| side.answered) {
        [Some(before), Some(after)] => Some([before, after]),
        _ => None,
    };
    let weights = match sides.each_ref().map(Side::weight) {
        [Some(before), Some(after)] => Some([before, after]),
        _ => None,
    };
    let amounts = |sums: [Sum; 2]| Amounts {
        per_second: rates(sums, weights, seconds),
        per_request: answered.map(|answered| rates(sums, weights, answered)),
    };
    let change = |name: &str, totals: [Total; 2]| Change {
        name: name.to_owned(),
        own: amounts(totals.map(|total| total.own)),
        with_callees: amounts(totals.map(|total| total.with_callees)),
    };
    let names = sides.iter().flat_map(|side| side.functions.keys().copied());
    let names: BTreeSet<&str> = names.collect();
    let functions = names.into_iter().map(|name| {
        let total = |side: &Side<'_>| side.functions.get(name).copied().unwrap_or_default();
        change(name, sides.each_ref().map(total))
    });
    let mut functions: Vec<Change> = functions
        .filter(|change| change.own.differ() || change.with_callees.differ())
        .collect();
    let by = |amounts: &Amounts| amounts.told().by().abs();
    functions.sort_by(|a, b| {
        let own = by(&b.own).total_cmp(&by(&a.own));
        own.then_with(|| by(&b.with_callees).total_cmp(&by(&a.with_callees)))
    });
    let whole = sides.each_ref().map(|side| Total {
        own: side.whole,
        with_callees: side.whole,
    });
    let mut changes = vec![change(ALL, whole)];
    changes.extend(functions);
    changes
}

/// One of the two, counted.
struct Side<'p> {
    functions: HashMap<&'p str, Total>,
    whole: Sum,
    /// Of the window; 1 of a moment.
    seconds: f64,
    answered: Option<f64>,
}

impl<'p> Side<'p> {
    fn of(kind: ProfileKind, taken: Taken<'p>) -> Side<'p> {
        let functions = totals(kind, taken.profile);
        let mut whole = Sum::default();
        for total in functions.values() {
            whole.take(total.own);
        }
        Side {
            functions,
            whole,
            seconds: match taken.profile.duration_ns {
                0 => 1.0,
                duration => duration as f64 / 1e9,
            },
            answered: taken.answered.filter(|answered| *answered > 0.0),
        }
    }

    /// What one sample has.
    fn weight(&self) -> Option<f64> {
        let Sum { value, samples } = self.whole;
        (samples > 0).then(|| value as f64 / samples as f64)
    }
}

/// Both sides' values over what each is divided by.
fn rates(sums: [Sum; 2], weights: Option<[f64; 2]>, over: [f64; 2]) -> Rates {
    let rate = |side: usize| sums[side].value as f64 / over[side];
    let limits = weights.map(|weights| {
        let within = |side: usize| {
            let of_one = weights[side] / over[side];
            interval(sums[side].samples).map(|count| count * of_one)
        };
        let ([low, before, high], [least, after, most]) = (within(0), within(1));
        let by = after - before;
        (
            by - (after - least).hypot(high - before),
            by + (most - after).hypot(before - low),
        )
    });
    Rates {
        before: rate(0),
        after: rate(1),
        limits,
    }
}

/// The score interval of a count that is Poisson's, with the count in its middle.
fn interval(count: i64) -> [f64; 3] {
    let count = count.max(0) as f64;
    let middle = count + Z * Z / 2.0;
    let half = Z * (count + Z * Z / 4.0).sqrt();
    [middle - half, count, middle + half]
}
