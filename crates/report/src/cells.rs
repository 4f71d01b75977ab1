//! Steps that are cells of a study's table, with all rounds of each together.

use std::collections::{BTreeMap, BTreeSet};

use wallfinder_judge::compare::RatioInterval;
use wallfinder_judge::crossover::{Crossover, Manner, crossovers};
use wallfinder_judge::rounds::{self, ByRound};
use wallfinder_model::record::Cell;
use wallfinder_model::{Record, Step, Wall};

use crate::figures::quantile;
use crate::{number, words};

/// Whether every step has a place in a study's table, those apart that were measured again.
pub(crate) fn have_all(record: &Record) -> bool {
    let mut steps = record.steps.iter().filter(|step| !step.measured_again());
    !record.steps.is_empty() && steps.all(|step| step.cell.is_some())
}

/// Whether that table is one of sizes and clients: messages of some size are sent.
pub(crate) fn are_all(record: &Record) -> bool {
    let mut cells = record.steps.iter().filter_map(|step| step.cell.as_ref());
    have_all(record) && cells.any(|cell| cell.payload > 0)
}

/// Each cell and its steps, in the order in which cells first ran within their group.
pub(crate) fn of(record: &Record) -> Vec<(&Cell, Vec<&Step>)> {
    let mut cells: Vec<(&Cell, Vec<&Step>)> = Vec::new();
    for step in &record.steps {
        let Some(cell) = &step.cell else { continue };
        match cells.iter_mut().find(|(known, _)| same(known, cell)) {
            Some((_, rounds)) => rounds.push(step),
            None => cells.push((cell, vec![step])),
        }
    }
    cells
}

fn same(a: &Cell, b: &Cell) -> bool {
    (&a.group, &a.driver, a.payload, a.clients) == (&b.group, &b.driver, b.payload, b.clients)
}

/// The median over rounds of what was measured in each.
pub(crate) fn middle(steps: &[&Step], figure: impl Fn(&Step) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = steps.iter().filter_map(|step| figure(step)).collect();
    rounds::median(&values)
}

/// The 99th percentile over the median.
pub(crate) fn tail(step: &Step) -> Option<f64> {
    let of = |name| quantile(step.latency.as_ref(), name);
    Some(of("p99")? / of("p50").filter(|median| *median > 0.0)?)
}

/// The wall that most rounds name, and how many of them do.
pub(crate) fn wall(rounds: &[&Step]) -> Option<(Wall, usize)> {
    let named = rounds.iter().filter_map(|step| step.verdict.as_ref());
    let walls: Vec<Wall> = named.map(|verdict| verdict.wall).collect();
    let count = |wall: Wall| walls.iter().filter(|other| **other == wall).count();
    let most = walls.iter().copied().max_by_key(|wall| count(*wall))?;
    Some((most, count(most)))
}

/// That wall in words: `server CPU (3 of 4)`.
pub(crate) fn wall_words(rounds: &[&Step]) -> String {
    match wall(rounds) {
        None => number::UNKNOWN.to_owned(),
        Some((wall, agree)) if agree == rounds.len() => words::short(wall).to_owned(),
        Some((wall, agree)) => format!("{} ({agree} of {})", words::short(wall), rounds.len()),
    }
}

/// What is compared between rivals.
#[derive(Clone, Copy)]
pub(crate) struct Measure {
    /// Its name: `p99`.
    pub(crate) name: &'static str,
    figure: fn(&Step) -> Option<f64>,
    /// Whether more of it is better.
    more_is_better: bool,
}

/// What rivals are compared by.
pub(crate) const MEASURES: [Measure; 3] = [
    Measure {
        name: "p50",
        figure: |step| quantile(step.latency.as_ref(), "p50"),
        more_is_better: false,
    },
    Measure {
        name: "p99",
        figure: |step| quantile(step.latency.as_ref(), "p99"),
        more_is_better: false,
    },
    Measure {
        name: "requests/s",
        figure: |step| Some(step.throughput),
        more_is_better: true,
    },
];

/// The best of the rivals in one cell.
pub(crate) struct Choice<'r> {
    pub(crate) payload: u32,
    pub(crate) clients: u32,
    /// Its group.
    pub(crate) best: &'r str,
    /// By how much the next best is worse.
    pub(crate) by: f64,
    /// All others, the next best first.
    pub(crate) behind: Vec<Behind<'r>>,
    /// Whether others disturbed a round of any of them.
    pub(crate) disturbed: bool,
}

/// One that is not the best.
pub(crate) struct Behind<'r> {
    /// Its group.
    pub(crate) rival: &'r str,
    /// By how much it is worse: at least 1, with the interval of the rounds. `None`: not known.
    pub(crate) by: Option<RatioInterval>,
}

/// Marks of a choice that the rounds leave open, and of one of which others disturbed a round.
pub(crate) const OPEN_MARK: &str = "~";
pub(crate) const DISTURBED_MARK: &str = "*";

impl Choice<'_> {
    /// Whether the rounds leave no doubt that it is better than each of the others.
    pub(crate) fn is_clear(&self) -> bool {
        let is_behind = |by: RatioInterval| by.low.is_some_and(|low| low > 1.0);
        self.behind.iter().all(|one| one.by.is_some_and(is_behind))
    }

    /// `rest is worse by 1.52 [1.40, 1.66], grpc by 2.01 [0.98, 4.12]`.
    pub(crate) fn words(&self) -> String {
        let by = |one: &Behind<'_>| match one.by {
            Some(by) => format!("{} {}", number::fixed(by.value, 2), ends(by)),
            None => number::UNKNOWN.to_owned(),
        };
        let mut all = self.behind.iter();
        let first = all
            .next()
            .map(|one| format!("{} is worse by {}", one.rival, by(one)));
        let others = all.map(|one| format!("{} by {}", one.rival, by(one)));
        let words: Vec<String> = first.into_iter().chain(others).collect();
        let words = words.join(", ");
        match self.disturbed {
            true => format!("{words}; others disturbed a round"),
            false => words,
        }
    }
}

/// The interval of a ratio: `[1.40, 1.66]`.
fn ends(ratio: RatioInterval) -> String {
    let end = |end: Option<f64>| match end {
        Some(end) => number::fixed(end, 2),
        None => number::UNKNOWN.to_owned(),
    };
    format!("[{}, {}]", end(ratio.low), end(ratio.high))
}

/// Drivers with which rivals were run, in order.
pub(crate) fn drivers_of_rivals<'r>(cells: &[(&'r Cell, Vec<&Step>)]) -> Vec<&'r str> {
    let mut drivers: Vec<&str> = Vec::new();
    for (cell, _) in cells.iter().filter(|(cell, _)| cell.rival) {
        if !drivers.contains(&cell.driver.as_str()) {
            drivers.push(&cell.driver);
        }
    }
    drivers
}

/// A rival, what the less of is the better in each of its rounds, and whether others disturbed one.
struct Rival<'r> {
    group: &'r str,
    costs: ByRound,
    disturbed: bool,
}

/// In each round what is the less the better; more is better where what is compared is the time
/// between. `None`: a round does not have it.
fn costs(rounds: &[&Step], measure: Measure) -> Option<ByRound> {
    let cost = |value: f64| match measure.more_is_better {
        true => 1.0 / value,
        false => value,
    };
    let of_round = |step: &&Step| {
        let round = step.cell.as_ref()?.round;
        Some((round, cost((measure.figure)(step)?)))
    };
    rounds.iter().map(of_round).collect()
}

/// Where of two rivals the one becomes better than the other, as messages grow.
pub(crate) struct Crossing<'r> {
    pub(crate) clients: u32,
    /// The better one of smaller messages.
    pub(crate) below: &'r str,
    /// The better one of larger messages.
    pub(crate) above: &'r str,
    pub(crate) place: Crossover,
}

impl Crossing<'_> {
    /// The same, with how many clients there are.
    pub(crate) fn line(&self) -> String {
        let clients = words::counted(u64::from(self.clients), "client");
        format!("{clients}: {}", self.words())
    }

    /// `grpc up to 24.6 KB, rest from 32.8 KB on: a step of 2.11 × [2.02, 2.20]`.
    pub(crate) fn words(&self) -> String {
        let Crossing { below, above, .. } = self;
        let Crossover { at, low, high, .. } = self.place;
        let bytes = |size: f64| number::bytes(size.round());
        let (Some(low), Some(high)) = (low, high) else {
            let end = |end: Option<f64>| end.map_or("?".to_owned(), bytes);
            return format!(
                "{below} up to {} [{}, {}], {above} from there, not surely",
                bytes(at),
                end(low),
                end(high)
            );
        };
        let how = match self.place.manner() {
            Manner::Gradual => {
                return format!(
                    "{below} up to {} [{}, {}], {above} from there: gradual",
                    bytes(at),
                    bytes(low),
                    bytes(high)
                );
            }
            Manner::Step => {
                let change = self.place.change;
                let factor = number::fixed(change.value, 2);
                format!("a step of {factor} × {}", ends(change))
            }
            Manner::TooFarApart => "too far apart to tell a step from a slope".to_owned(),
            Manner::Open => "the rounds leave open whether it is a step".to_owned(),
        };
        format!(
            "{below} up to {}, {above} from {} on: {how}",
            bytes(low),
            bytes(high)
        )
    }
}

/// Sizes that a curve must have for its crossovers to be told.
const SIZES_MIN: usize = 3;

/// A rival, and by size what each round cost.
type Curve<'r> = (&'r str, BTreeMap<u32, ByRound>);

/// Every crossover of two rivals, by clients and size.
pub(crate) fn crossings<'r>(
    cells: &[(&'r Cell, Vec<&Step>)],
    driver: &str,
    measure: Measure,
) -> Vec<Crossing<'r>> {
    let mut curves: BTreeMap<u32, Vec<Curve<'r>>> = BTreeMap::new();
    let of_driver = cells
        .iter()
        .filter(|(cell, _)| cell.rival && cell.driver == driver);
    for (cell, rounds) in of_driver {
        let Some(costs) = costs(rounds, measure) else {
            continue;
        };
        let rivals = curves.entry(cell.clients).or_default();
        let at = rivals.iter().position(|(group, _)| *group == cell.group);
        let at = at.unwrap_or_else(|| {
            rivals.push((&cell.group, BTreeMap::new()));
            rivals.len() - 1
        });
        rivals[at].1.insert(cell.payload, costs);
    }
    let mut found = Vec::new();
    for (clients, rivals) in curves {
        for (nth, (one, costs_of_one)) in rivals.iter().enumerate() {
            for (other, costs_of_other) in &rivals[nth + 1..] {
                let ratio = |(size, costs): (&u32, &ByRound)| {
                    let ratio = rounds::ratio(costs, costs_of_other.get(size)?)?;
                    Some((f64::from((*size).max(1)), ratio))
                };
                let curve: Vec<_> = costs_of_one.iter().filter_map(ratio).collect();
                if curve.len() < SIZES_MIN {
                    continue;
                }
                found.extend(crossovers(&curve).into_iter().map(|place| {
                    // What costs more is the worse one.
                    let (below, above) = if place.rises {
                        (*one, *other)
                    } else {
                        (*other, *one)
                    };
                    Crossing {
                        clients,
                        below,
                        above,
                        place,
                    }
                }));
            }
        }
    }
    found
}

/// The best rival of each cell that at least two of them have, by size and clients, in the rounds
/// that all of them have.
pub(crate) fn choices<'r>(
    cells: &[(&'r Cell, Vec<&Step>)],
    driver: &str,
    measure: Measure,
) -> Vec<Choice<'r>> {
    let of_driver = cells
        .iter()
        .filter(|(cell, _)| cell.rival && cell.driver == driver);
    let mut places: BTreeMap<(u32, u32), Vec<Rival<'r>>> = BTreeMap::new();
    for (cell, rounds) in of_driver {
        let Some(costs) = costs(rounds, measure) else {
            continue;
        };
        let place = places.entry((cell.payload, cell.clients)).or_default();
        place.push(Rival {
            group: &cell.group,
            costs,
            disturbed: is_disturbed(rounds),
        });
    }
    let choice = |((payload, clients), rivals)| choice(payload, clients, rivals);
    places.into_iter().filter_map(choice).collect()
}

/// Whether others disturbed a round of a cell.
fn is_disturbed(rounds: &[&Step]) -> bool {
    rounds
        .iter()
        .any(|step| rounds::disturbance(step).is_some())
}

fn choice(payload: u32, clients: u32, mut rivals: Vec<Rival<'_>>) -> Option<Choice<'_>> {
    let first = rivals.first()?.costs.keys();
    let shared: Vec<u32> = first
        .copied()
        .filter(|round| rivals.iter().all(|rival| rival.costs.contains_key(round)))
        .collect();
    for rival in &mut rivals {
        rival.costs.retain(|round, _| shared.contains(round));
    }
    let mean = |rival: &Rival<'_>| {
        let logs = rival.costs.values().map(|cost| cost.ln());
        logs.sum::<f64>() / shared.len() as f64
    };
    rivals.sort_by(|a, b| mean(a).total_cmp(&mean(b)));
    let (best, others) = rivals.split_first()?;
    let behind: Vec<Behind<'_>> = others
        .iter()
        .map(|other| Behind {
            rival: other.group,
            by: rounds::ratio(&other.costs, &best.costs),
        })
        .collect();
    Some(Choice {
        payload,
        clients,
        best: best.group,
        by: behind.first()?.by?.value,
        behind,
        disturbed: rivals.iter().any(|rival| rival.disturbed),
    })
}

/// The 99th percentile over the median, with one driver: sizes and groups down, clients across.
pub(crate) struct Amplification<'r> {
    pub(crate) driver: &'r str,
    pub(crate) clients: Vec<u32>,
    pub(crate) rows: Vec<AmplificationRow<'r>>,
}

/// One group at one size.
pub(crate) struct AmplificationRow<'r> {
    pub(crate) payload: u32,
    pub(crate) group: &'r str,
    /// One for each number of clients, of the rounds the middle one.
    pub(crate) tails: Vec<Option<f64>>,
}

/// What the table is of, where it is shown.
pub(crate) const AMPLIFICATION: &str =
    "p99 over p50: how much longer the slowest of a hundred requests takes than the middle one";

/// The tables of all drivers with which several groups met several numbers of clients.
pub(crate) fn amplification<'r>(cells: &[(&'r Cell, Vec<&Step>)]) -> Vec<Amplification<'r>> {
    let known = cells
        .iter()
        .filter_map(|(cell, rounds)| Some((*cell, middle(rounds, tail)?)));
    let known: Vec<(&Cell, f64)> = known.collect();
    let mut drivers: Vec<&str> = Vec::new();
    for (cell, _) in &known {
        if !drivers.contains(&cell.driver.as_str()) {
            drivers.push(&cell.driver);
        }
    }
    drivers
        .into_iter()
        .filter_map(|driver| amplified_with(driver, &known))
        .collect()
}

fn amplified_with<'r>(driver: &'r str, known: &[(&'r Cell, f64)]) -> Option<Amplification<'r>> {
    let is_its = |(cell, _): &&(&Cell, f64)| cell.driver == driver;
    let known: Vec<(&Cell, f64)> = known.iter().filter(is_its).copied().collect();
    let payloads: BTreeSet<u32> = known.iter().map(|(cell, _)| cell.payload).collect();
    let clients: BTreeSet<u32> = known.iter().map(|(cell, _)| cell.clients).collect();
    let mut groups: Vec<&str> = Vec::new();
    for (cell, _) in &known {
        if !groups.contains(&cell.group.as_str()) {
            groups.push(&cell.group);
        }
    }
    if groups.len() < 2 || clients.len() < 2 {
        return None;
    }
    let mut rows = Vec::new();
    for payload in payloads {
        for group in groups.iter().copied() {
            let tail = |count: &u32| {
                let mut its = known.iter().filter(|(cell, _)| cell.group == group);
                let here = (payload, *count);
                let found = its.find(|(cell, _)| (cell.payload, cell.clients) == here);
                found.map(|(_, tail)| *tail)
            };
            let tails: Vec<Option<f64>> = clients.iter().map(tail).collect();
            if tails.iter().any(Option::is_some) {
                rows.push(AmplificationRow {
                    payload,
                    group,
                    tails,
                });
            }
        }
    }
    Some(Amplification {
        driver,
        clients: clients.into_iter().collect(),
        rows,
    })
}
