//! Each claim of each built-in study can be confirmed and can be contradicted: on made-up data that a search
//! finds, with fixed seeds.
//!
//! The search draws every field that a claim's conditions name: a level, and how it differs between groups,
//! sizes, clients and rounds, in one of several manners. It knows nothing of the claim but its words. Levels
//! that it would never draw stand in `made-up.toml`, and claims that can come out one way only in `ONE_WAY`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use wallfinder_model::record::Outcome;
use wallfinder_study::claims::Claim;
use wallfinder_study::made_up::{Field, MadeUp, Words};
use wallfinder_study::{Figure, Size, Study, StudyStep, builtin};

/// Claims with one outcome only, and why.
const ONE_WAY: &[(&str, Outcome, &str)] = &[];

/// Draws before the search gives up.
const DRAWS_MAX: u64 = 20_000;
/// Rounds that are made up.
const ROUNDS_MAX: u32 = 3;

#[test]
fn every_claim_can_be_confirmed_and_can_be_contradicted() {
    let hints = hints();
    let studies = studies();
    let jobs = jobs(&studies);
    let (next, lacking) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((study, claim, driver)) =
                    jobs.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let name = format!("{}/{}", study.id, claim.id);
                    let found = search(study, claim, *driver, hints.get(&name));
                    let mut lacking = lacking.lock().unwrap_or_else(PoisonError::into_inner);
                    if let Some(fault) = &found.fault {
                        lacking.push(format!("{name}: {fault}"));
                    }
                    for outcome in [Outcome::Confirmed, Outcome::Contradicted] {
                        let one_way = ONE_WAY.iter().find(|(id, _, _)| *id == name);
                        let is_excused = one_way.is_some_and(|(_, only, _)| *only != outcome);
                        let is_found = found.outcomes.contains(&format!("{outcome:?}"));
                        if is_found == is_excused {
                            let driver = driver.unwrap_or_default();
                            lacking.push(format!("{name} {driver}: {outcome:?}; {}", found.last));
                        }
                    }
                }
            });
        }
    });
    let mut lacking = lacking.into_inner().unwrap_or_else(PoisonError::into_inner);
    lacking.sort();
    assert!(
        lacking.is_empty(),
        "no made-up data were found for these, or some were although they are in ONE_WAY:\n{}",
        lacking.join("\n")
    );
}

/// The search makes up a few rounds; lists of a full run are as long as its runs have rounds.
#[test]
fn no_claim_pairs_rounds_of_runs_that_have_not_as_many() {
    let (studies, hints) = (studies(), hints());
    for (study, claim, driver) in jobs(&studies) {
        let words = claim.words();
        let steps = study.expand(Size::Full);
        let looked_at = looked_at(study, &words, driver, &steps, u32::MAX);
        let name = format!("{}/{}", study.id, claim.id);
        let mut random = Random(0x5eed);
        for _ in 0..20 {
            let hints = hints.get(&name);
            let drawn = Draw::of(&mut random, &words, &looked_at, study, hints);
            let made_up = drawn.steps(&mut random, &looked_at);
            let figures = figures(&mut random, claim, hints);
            let decided = claim.on_made_up(driver, Size::Full, &made_up, &figures);
            let (_, why) = decided.unwrap_or_else(|fault| panic!("{name}: {fault}"));
            assert!(!why.contains("in the same rounds"), "{name}: {why}");
        }
    }
}

#[test]
fn what_is_excused_is_a_claim_and_has_a_reason() {
    for (name, outcome, why) in ONE_WAY {
        let (study, claim) = name.split_once('/').unwrap();
        let study = builtin::find(study).unwrap().study().unwrap();
        assert!(
            study.claims.iter().any(|known| known.id == *claim),
            "{name}"
        );
        assert!(*outcome != Outcome::Open && !why.is_empty(), "{name}");
    }
}

#[test]
fn a_condition_that_cannot_hold_is_found_out() {
    let decided = crate::files::SMALL.replace("throughput < 500", "throughput < 0 - 500");
    let study = Study::parse("my.toml", &decided).unwrap();
    let found = search(&study, &study.claims[0], None, None);
    assert_eq!(found.outcomes, BTreeSet::from(["Confirmed".to_owned()]));
}

fn studies() -> Vec<Study> {
    let studies = builtin::ALL.iter();
    studies.map(|builtin| builtin.study().unwrap()).collect()
}

/// Each claim, and with each of the drivers that it is judged for.
fn jobs(studies: &[Study]) -> Vec<(&Study, &Claim, Option<&str>)> {
    studies
        .iter()
        .flat_map(|study| study.claims.iter().map(move |claim| (study, claim)))
        .flat_map(|(study, claim)| {
            let drivers: Vec<Option<&str>> = match claim.for_each.len() {
                0 => vec![None],
                _ => claim
                    .for_each
                    .iter()
                    .map(|name| Some(name.as_str()))
                    .collect(),
            };
            drivers
                .into_iter()
                .map(move |driver| (study, claim, driver))
        })
        .collect()
}

/// What the search would not draw: levels of a field, of a group's field (`group:field`), or a figure
/// (`figures.name`).
type Hints = BTreeMap<String, Vec<f64>>;

/// Hints by study and claim.
fn hints() -> BTreeMap<String, Hints> {
    let hints: BTreeMap<String, Hints> = toml::from_str(include_str!("made-up.toml")).unwrap();
    for name in hints.keys() {
        let (study, claim) = name.split_once('/').unwrap();
        let study = builtin::find(study).unwrap().study().unwrap();
        assert!(study.claims.iter().any(|known| known.id == claim), "{name}");
    }
    hints
}

/// What a search found.
struct Found {
    /// Outcomes that the claim had.
    outcomes: BTreeSet<String>,
    /// Why the last draw came out as it did.
    last: String,
    /// What is wrong with its conditions.
    fault: Option<String>,
}

fn search(study: &Study, claim: &Claim, driver: Option<&str>, hints: Option<&Hints>) -> Found {
    let mut found = Found {
        outcomes: BTreeSet::new(),
        last: String::new(),
        fault: None,
    };
    let words = claim.words();
    let mut random = Random(0x5eed);
    // At one size, the largest: a claim that each size can decide one way only is decided before it is measured.
    let size = Size::Full;
    let steps = study.expand(size);
    let looked_at = looked_at(study, &words, driver, &steps, ROUNDS_MAX);
    for _ in 0..DRAWS_MAX {
        let drawn = Draw::of(&mut random, &words, &looked_at, study, hints);
        let made_up = drawn.steps(&mut random, &looked_at);
        let figures = figures(&mut random, claim, hints);
        let (outcome, why) = match claim.on_made_up(driver, size, &made_up, &figures) {
            Ok(decided) => decided,
            Err(fault) => {
                found.fault = Some(fault);
                return found;
            }
        };
        found.last = why;
        if outcome != Outcome::Open {
            found.outcomes.insert(format!("{outcome:?}"));
        }
        if found.outcomes.len() == 2 {
            return found;
        }
    }
    found
}

/// Steps that a claim may look at, by the texts in its conditions, of so many rounds at the most.
fn looked_at<'s>(
    study: &Study,
    words: &Words,
    driver: Option<&str>,
    steps: &'s [StudyStep],
    rounds_max: u32,
) -> Vec<&'s StudyStep> {
    let has_ends = words.texts.iter().any(|text| text.starts_with('-'));
    let is_of_group = |group: &str| {
        words.all_steps
            || words.texts.iter().any(|text| {
                let is_beginning = text.ends_with('-') || (has_ends && text.len() > 2);
                text == group || (is_beginning && group.starts_with(text.as_str()))
            })
    };
    let named: Vec<&str> = study
        .drivers
        .iter()
        .map(|driver| driver.name.as_str())
        .filter(|name| words.texts.contains(*name) || driver == Some(name))
        .collect();
    let is_by = |name: &str| named.is_empty() || named.contains(&name);
    steps
        .iter()
        .filter(|step| step.round <= rounds_max)
        .filter(|step| is_of_group(&step.group) && is_by(&step.driver.name))
        .collect()
}

/// The source's figures, as they are or otherwise.
fn figures(random: &mut Random, claim: &Claim, hints: Option<&Hints>) -> BTreeMap<String, Figure> {
    let is_hinted = random.chance(0.5);
    let width = *random.of(&[0.0, 0.02, 0.2, 1.0, 3.0]);
    let mut other = |number: f64| number * (width * random.normal()).exp();
    claim
        .figures
        .iter()
        .map(|(name, figure)| {
            let hint = hints.and_then(|hints| hints.get(&format!("figures.{name}")));
            let figure = match figure {
                Figure::Several(_) if is_hinted && hint.is_some() => {
                    Figure::Several(hint.cloned().unwrap_or_default())
                }
                Figure::One(number) => Figure::One(other(*number)),
                Figure::Several(numbers) => {
                    Figure::Several(numbers.iter().map(|number| other(*number)).collect())
                }
            };
            (name.clone(), figure)
        })
        .collect()
}

/// How a number differs between steps.
#[derive(Debug)]
enum Manner {
    Alike,
    /// Each cell on its own, by so much.
    Each(f64),
    /// Each cell at one of two levels, by chance.
    Two(f64),
    /// By a word of the group's name.
    Word(String, f64),
    /// As a power of the size, of all groups or of some.
    Size(f64, String),
    /// As a power of the clients.
    Clients(f64, String),
    /// From one size on.
    Step(u32, f64, String),
    /// From one number of clients on.
    Crowd(f64, f64, String),
    /// By the driver.
    Driver(String, f64),
}

/// A field under drawing.
#[derive(Debug)]
struct Level {
    path: &'static str,
    base: f64,
    manners: Vec<Manner>,
    jitter: f64,
}

/// What one draw makes up.
#[derive(Debug)]
struct Draw {
    numbers: Vec<Level>,
    /// Levels of groups' fields that were hinted.
    hinted: BTreeMap<(String, String), f64>,
    texts: BTreeMap<(&'static str, String), String>,
    server_bound: BTreeMap<String, bool>,
}

const WALLS: [&str; 5] = [
    "client-cpu",
    "server-cpu",
    "downlink",
    "server-serial",
    "wait",
];

const OF_THE_SERVER: [&str; 3] = ["server-cpu", "server-serial", "wait"];

impl Draw {
    fn of(
        random: &mut Random,
        words: &Words,
        steps: &[&StudyStep],
        study: &Study,
        hints: Option<&Hints>,
    ) -> Draw {
        let groups: BTreeSet<&str> = steps.iter().map(|step| step.group.as_str()).collect();
        let mut draw = Draw {
            numbers: Vec::new(),
            hinted: BTreeMap::new(),
            texts: BTreeMap::new(),
            server_bound: BTreeMap::new(),
        };
        if random.chance(0.5) {
            let of_groups = hints.into_iter().flatten().filter_map(|(key, levels)| {
                let (group, field) = key.split_once(':')?;
                Some(((group.to_owned(), field.to_owned()), levels[0]))
            });
            draw.hinted.extend(of_groups);
        }
        // What is alike for all fields makes costs and throughputs move together.
        let is_calm = random.chance(0.5);
        for path in &words.fields {
            match *path {
                "server_bound" => {
                    let all = random.chance(0.5);
                    let each = random.chance(0.5);
                    for group in &groups {
                        let drawn = if each { random.chance(0.5) } else { all };
                        let wall = draw.texts.get(&("bound_by", (*group).to_owned()));
                        let bound =
                            wall.map_or(drawn, |wall| OF_THE_SERVER.contains(&wall.as_str()));
                        draw.server_bound.insert((*group).to_owned(), bound);
                    }
                }
                "bound_by" | "how" | "profile.wait" | "profile.wait_in" | "profile.holder" => {
                    let mut known: Vec<&str> = words.texts.iter().map(String::as_str).collect();
                    known.extend(match *path {
                        "bound_by" => &WALLS[..],
                        "how" => &["proved", "likely", "observed"],
                        _ => &["main.next", ""],
                    });
                    known.retain(|text| study.driver(text).is_none());
                    let one = *random.of(&known);
                    let each = random.chance(0.4);
                    for group in &groups {
                        let text = if each { *random.of(&known) } else { one };
                        draw.texts
                            .insert((path, (*group).to_owned()), text.to_owned());
                    }
                }
                _ => {
                    let hint = hints.and_then(|hints| hints.get(*path));
                    draw.numbers
                        .push(Level::of(random, path, words, steps, hint, is_calm));
                }
            }
        }
        draw
    }

    fn steps<'s>(&self, random: &mut Random, steps: &[&'s StudyStep]) -> Vec<MadeUp<'s>> {
        let mut cells: BTreeMap<(usize, String), f64> = BTreeMap::new();
        let mut made = Vec::with_capacity(steps.len());
        for step in steps {
            let mut measured = BTreeMap::new();
            for (nth, level) in self.numbers.iter().enumerate() {
                let cell = (nth, cell_of(step));
                let factor = match cells.get(&cell) {
                    Some(factor) => *factor,
                    None => {
                        let factor = level.factor(random, step);
                        cells.insert(cell, factor);
                        factor
                    }
                };
                let hint = self
                    .hinted
                    .get(&(step.group.clone(), level.path.to_owned()));
                let drawn = level.base * factor * (level.jitter * random.normal()).exp();
                let value = hint.copied().unwrap_or(drawn);
                let value = if is_share(level.path) {
                    value.min(1.0)
                } else {
                    value
                };
                measured.insert(level.path, Field::Number(value));
            }
            for ((path, group), text) in &self.texts {
                if *group == step.group {
                    measured.insert(*path, Field::Text(text.clone()));
                }
            }
            if let Some(bound) = self.server_bound.get(&step.group) {
                measured.insert("server_bound", Field::Truth(*bound));
            }
            made.push(MadeUp {
                planned: step,
                measured,
            });
        }
        made
    }
}

impl Level {
    fn of(
        random: &mut Random,
        path: &'static str,
        words: &Words,
        steps: &[&StudyStep],
        hint: Option<&Vec<f64>>,
        is_calm: bool,
    ) -> Level {
        let shares = [
            0.001, 0.02, 0.1, 0.2, 0.3, 0.5, 0.6, 0.75, 0.8, 0.93, 0.97, 0.995, 1.0,
        ];
        let others = [
            0.0001, 0.01, 0.1, 0.5, 1.0, 2.0, 3.0, 10.0, 30.0, 100.0, 1e4, 1e6,
        ];
        let mut bases: Vec<f64> = if is_share(path) {
            shares.to_vec()
        } else {
            others.to_vec()
        };
        bases.extend(words.numbers.iter().filter(|number| **number > 0.0));
        let mut base = *random.of(&bases) * *random.of(&[0.6, 0.9, 1.0, 1.0, 1.1, 1.5]);
        if path == "in_flight" {
            base = 1.0;
        }
        if let Some(hint) = hint
            && random.chance(0.7)
        {
            base = *random.of(hint);
        }
        let count = *random.of(&[0, 1, 1, 1, 2, 3]);
        let manners = (0..if is_calm { count.min(1) } else { count })
            .map(|_| Manner::of(random, steps))
            .collect();
        Level {
            path,
            base,
            manners,
            jitter: *random.of(&[0.0, 0.001, 0.001, 0.01]),
        }
    }

    fn factor(&self, random: &mut Random, step: &StudyStep) -> f64 {
        let manners = self.manners.iter();
        let factor: f64 = manners.map(|manner| manner.factor(random, step)).product();
        match self.path {
            // Counted: what the plan holds, about.
            "in_flight" => step.load.in_flight_bound() as f64,
            _ => factor,
        }
    }
}

impl Manner {
    fn of(random: &mut Random, steps: &[&StudyStep]) -> Manner {
        let step = *random.of(steps);
        let far = *random.of(&[1.02, 1.05, 1.2, 1.6, 2.0, 3.0, 7.0, 15.0, 60.0]);
        let factor = if random.chance(0.5) { far } else { 1.0 / far };
        let mut parts: Vec<String> = step.group.split('-').map(str::to_owned).collect();
        parts.push(step.group.clone());
        let part = random.of(&parts).clone();
        let all_or_part = if random.chance(0.3) {
            String::new()
        } else {
            part.clone()
        };
        let power = *random.of(&[-1.0, -0.5, -0.1, 0.1, 0.3, 0.5, 1.0]);
        match random.below(9) {
            0 => Manner::Alike,
            1 => Manner::Each(*random.of(&[0.01, 0.1, 0.5, 1.5])),
            2 => Manner::Two(factor),
            3 | 4 => Manner::Word(part, factor),
            5 => Manner::Size(power, all_or_part),
            6 => Manner::Clients(power, all_or_part),
            7 if step.payload.is_some() => {
                Manner::Step(step.payload.unwrap_or(0), factor, all_or_part)
            }
            7 => Manner::Crowd(step.load.wanted_max() as f64, factor, all_or_part),
            _ => Manner::Driver(step.driver.name.clone(), factor),
        }
    }

    fn factor(&self, random: &mut Random, step: &StudyStep) -> f64 {
        let is_of = |word: &str| {
            word.is_empty() || step.group == word || step.group.split('-').any(|part| part == word)
        };
        let clients = step.load.wanted_max() as f64;
        match self {
            Manner::Alike => 1.0,
            Manner::Each(width) => (width * random.normal()).exp(),
            Manner::Two(factor) if random.chance(0.5) => *factor,
            Manner::Word(word, factor) if is_of(word) => *factor,
            Manner::Size(power, word) if is_of(word) => {
                f64::from(step.payload.unwrap_or(1).max(1)).powf(*power)
            }
            Manner::Clients(power, word) if is_of(word) => clients.powf(*power),
            Manner::Step(from, factor, word) if is_of(word) && step.payload >= Some(*from) => {
                *factor
            }
            Manner::Crowd(from, factor, word) if is_of(word) && clients >= *from => *factor,
            Manner::Driver(name, factor) if *name == step.driver.name => *factor,
            _ => 1.0,
        }
    }
}

/// The place of a step in its study's table, without the round.
fn cell_of(step: &StudyStep) -> String {
    let (group, driver) = (&step.group, &step.driver.name);
    format!(
        "{group}/{driver}/{:?}/{}",
        step.payload,
        step.load.wanted_max()
    )
}

/// Whether a field is at most 1.
fn is_share(path: &str) -> bool {
    let of_processors = path.starts_with("client.") || path.starts_with("server.");
    let name = path.rsplit('.').next().unwrap_or(path);
    name.ends_with("_share")
        || [
            "utilisation",
            "fairness",
            "confidence",
            "send_buffer_limited",
        ]
        .contains(&name)
        || (of_processors && ["usr", "sys", "softirq", "idle"].contains(&name))
}

/// Numbers that are the same in each run (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn chance(&mut self, part: f64) -> bool {
        self.unit() < part
    }

    fn of<'v, T>(&mut self, values: &'v [T]) -> &'v T {
        let place = self.below(values.len());
        &values[place]
    }

    /// About normal: the sum of twelve.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}
