//! Two profiles side by side: numbers that are known, lists that were cut, and chance.

use wallfinder_model::profile::{Measure, Profile, ProfileKind};

use super::tests::written;
use super::*;

/// What a sample of a processor is, in nanoseconds: the Go runtime takes a hundred in a second.
const EACH_NS: i64 = 10_000_000;

/// A profile of processors by stacks written from the leaf, with numbers of samples.
fn taken<N: AsRef<str>>(seconds: u64, stacks: &[(N, i64)]) -> Profile {
    let stacks = stacks.iter();
    let stacks = stacks.map(|(stack, count)| (stack.as_ref(), vec![*count, count * EACH_NS]));
    let (functions, samples) = written(stacks);
    let measure = |name: &str, unit: &str| Measure {
        name: name.to_owned(),
        unit: unit.to_owned(),
    };
    Profile {
        measures: vec![measure("samples", "count"), measure("cpu", "nanoseconds")],
        functions,
        samples,
        duration_ns: seconds * 1_000_000_000,
    }
}

/// What changed from one to the other, of which these requests were answered.
fn changes(before: (&Profile, f64), after: (&Profile, f64)) -> Vec<Change> {
    let of = |(profile, answered)| Taken {
        profile,
        answered: Some(answered),
    };
    difference(ProfileKind::Cpu, of(before), of(after))
}

fn named<'c>(changes: &'c [Change], name: &str) -> &'c Change {
    let mut found = changes.iter().filter(|change| change.name == name);
    let one = found.next().expect(name);
    assert!(found.next().is_none(), "{name} stands there twice");
    one
}

fn both(rates: &Rates) -> (f64, f64) {
    (rates.before, rates.after)
}

#[test]
fn a_difference_is_of_seconds_and_of_requests() {
    let before = taken(2, &[("main.f<main.main", 40), ("main.g<main.main", 10)]);
    let after = taken(1, &[("main.f<main.main", 40), ("main.h<main.main", 5)]);
    let changes = changes((&before, 100.0), (&after, 200.0));
    let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
    assert_eq!(names, [ALL, "main.f", "main.g", "main.h", "main.main"]);
    // In a second there is twice as much of it, and for each request half as much.
    let f = named(&changes, "main.f");
    assert_eq!(both(&f.own.per_second), (200e6, 400e6));
    assert_eq!(both(f.own.per_request.as_ref().unwrap()), (4e6, 2e6));
    assert_eq!(f.own.told().by(), -2e6, "requests are told where known");
    // Who is in one of the two alone has nothing in the other.
    assert_eq!(both(named(&changes, "main.g").own.told()), (1e6, 0.0));
    assert_eq!(both(named(&changes, "main.h").own.told()), (0.0, 0.25e6));
    // Nothing is the caller's own, and all is below it.
    let main = named(&changes, "main.main");
    assert_eq!(both(main.own.told()), (0.0, 0.0));
    assert_eq!(both(main.with_callees.told()), (5e6, 2.25e6));
    let whole = named(&changes, ALL);
    assert_eq!(whole.own, main.with_callees, "the whole is all of it");
    assert_eq!(whole.own, whole.with_callees);
}

#[test]
fn requests_that_are_known_of_one_side_alone_are_not_divided_by() {
    let profile = taken(1, &[("main.f", 4)]);
    let of = |answered| Taken {
        profile: &profile,
        answered,
    };
    for (before, after) in [(None, None), (Some(9.0), None), (Some(9.0), Some(0.0))] {
        let changes = difference(ProfileKind::Cpu, of(before), of(after));
        assert_eq!(changes.len(), 1, "the whole alone: {changes:?}");
        assert_eq!(changes[0].own.per_request, None);
        assert_eq!(both(changes[0].own.told()), (40e6, 40e6));
    }
    // The same work for more requests is a change.
    let changes = difference(ProfileKind::Cpu, of(Some(10.0)), of(Some(20.0)));
    assert_eq!(both(named(&changes, "main.f").own.told()), (4e6, 2e6));
}

/// 130 functions of which a reading keeps 60: one of the smallest grows to be the largest.
#[test]
fn who_crosses_the_cut_neither_appears_nor_vanishes() {
    let stacks = |of_crossing: i64| -> Vec<(String, i64)> {
        let others = (0..130).map(|nth| (format!("main.f{nth:03}"), 100 + nth));
        let crossing = ("main.crossing".to_owned(), of_crossing);
        others.chain([crossing]).collect()
    };
    let (small, large) = (taken(1, &stacks(3)), taken(1, &stacks(500)));
    let rules = Rules::default();
    let is_kept = |profile: &Profile, name: &str| {
        let reading = read(ProfileKind::Cpu, profile, &rules);
        assert_eq!(reading.functions.len(), FUNCTIONS_MAX);
        reading.functions.iter().any(|part| part.name == name)
    };
    assert!(!is_kept(&small, "main.crossing") && is_kept(&large, "main.crossing"));
    // What it pushes out of the cut did not change at all.
    assert!(is_kept(&small, "main.f070") && !is_kept(&large, "main.f070"));
    for (before, after, counts) in [(&small, &large, (3, 500)), (&large, &small, (500, 3))] {
        let changes = changes((before, 10.0), (after, 10.0));
        let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, [ALL, "main.crossing"]);
        let of = |count: i64| (count * EACH_NS) as f64;
        let expected = (of(counts.0), of(counts.1));
        for change in &changes[1..] {
            assert_eq!(both(&change.own.per_second), expected);
            assert_eq!(both(&change.with_callees.per_second), expected);
        }
        let others: i64 = (100..230).sum();
        let all = (of(others + counts.0), of(others + counts.1));
        assert_eq!(both(&changes[0].own.per_second), all, "whole profiles");
    }
}

#[test]
fn what_few_samples_say_may_be_chance() {
    let shown = |before: i64, after: i64| {
        let before = taken(1, &[("main.f", before), ("main.rest", 1000)]);
        let after = taken(1, &[("main.f", after), ("main.rest", 1000)]);
        let changes = changes((&before, 50.0), (&after, 50.0));
        let f = named(&changes, "main.f");
        let of_seconds = f.own.per_second.is_shown();
        assert_eq!(f.own.told().is_shown(), of_seconds, "by whatever divided");
        assert_eq!(f.with_callees.told().is_shown(), of_seconds);
        let (low, high) = f.own.per_second.limits.unwrap();
        let by = f.own.per_second.by();
        assert!(low < by && by < high, "{by} in {low} to {high}");
        of_seconds
    };
    assert_eq!(shown(0, 4), Some(false));
    assert_eq!(shown(4, 0), Some(false));
    assert_eq!(shown(0, 8), Some(true));
    assert_eq!(shown(8, 0), Some(true));
    assert_eq!(shown(100, 120), Some(false));
    assert_eq!(shown(1000, 1200), Some(true));
}

/// A window of twice the length has twice the samples of what did not change.
#[test]
fn chance_is_that_of_rates_and_not_of_counts() {
    let before = taken(1, &[("main.f", 200), ("main.rest", 1000)]);
    let after = taken(2, &[("main.f", 402), ("main.rest", 2000)]);
    let changes = changes((&before, 50.0), (&after, 100.0));
    let f = named(&changes, "main.f");
    assert_eq!(f.own.per_second.is_shown(), Some(false));
    assert_eq!(f.own.told().is_shown(), Some(false));
    // By twice the requests in the same time it costs half.
    let cheaper = difference(
        ProfileKind::Cpu,
        Taken {
            profile: &before,
            answered: Some(50.0),
        },
        Taken {
            profile: &after,
            answered: Some(200.0),
        },
    );
    let f = named(&cheaper, "main.f");
    assert_eq!(f.own.per_second.is_shown(), Some(false));
    assert_eq!(f.own.told().is_shown(), Some(true));
}

/// A generator that is the same everywhere (xorshift), in 0..1.
fn random(state: &mut u64) -> f64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

/// A count that is Poisson's: how many factors it takes until their product is below exp(-mean).
fn poisson(mean: f64, state: &mut u64) -> i64 {
    let least = (-mean).exp();
    let mut product = random(state);
    let mut count = 0;
    while product > least {
        product *= random(state);
        count += 1;
    }
    count
}

#[test]
fn of_what_did_not_change_about_one_in_twenty_seems_to() {
    const PAIRS: usize = 2000;
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let mut stacks = || -> Vec<(String, i64)> {
        let name = |nth: usize| format!("main.f{nth}");
        (0..PAIRS)
            .map(|nth| (name(nth), poisson(20.0, &mut state)))
            .collect()
    };
    let (before, after) = (taken(1, &stacks()), taken(1, &stacks()));
    let changes = changes((&before, 1.0), (&after, 1.0));
    let seem = |change: &&Change| change.own.told().is_shown() == Some(true);
    let seeming = changes[1..].iter().filter(seem).count() as f64 / PAIRS as f64;
    assert!((0.02..0.08).contains(&seeming), "{seeming}");
}

#[test]
fn chance_is_known_of_equal_samples_alone() {
    let mut before = taken(1, &[("main.f", 2)]);
    let mut after = taken(1, &[("main.f", 9)]);
    for profile in [&mut before, &mut after] {
        profile.measures[0].name = "contentions".to_owned();
        profile.measures[1].name = "delay".to_owned();
    }
    let of = |profile| Taken {
        profile,
        answered: None,
    };
    let changes = difference(ProfileKind::Block, of(&before), of(&after));
    let f = named(&changes, "main.f");
    assert_eq!(both(f.own.told()), (20e6, 90e6));
    assert_eq!((f.own.told().limits, f.own.told().is_shown()), (None, None));
}

#[test]
fn a_profile_beside_itself_has_no_change() {
    let profile = taken(3, &[("main.f<main.main", 7), ("main.g<main.main", 5)]);
    let changes = changes((&profile, 123.0), (&profile, 123.0));
    assert_eq!(changes.len(), 1);
    assert_eq!(
        (changes[0].name.as_str(), changes[0].own.told().by()),
        (ALL, 0.0)
    );
}
