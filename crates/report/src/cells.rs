//! Steps that are cells of a study's table, with all rounds of each together.

use std::collections::BTreeMap;

use wallfinder_judge::compare::RatioInterval;
use wallfinder_judge::crossover::{Crossover, crossovers};
use wallfinder_judge::rounds;
use wallfinder_model::record::Cell;
use wallfinder_model::{Record, Step, Wall};

use crate::figures::quantile;
use crate::{number, words};

/// Whether every step is a cell's, those apart that were measured again.
pub(crate) fn are_all(record: &Record) -> bool {
    let mut steps = record.steps.iter().filter(|step| !step.measured_again());
    !record.steps.is_empty() && steps.all(|step| step.cell.is_some())
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
    /// The next best, and by how much that is worse: at least 1, with the interval of the
    /// rounds.
    pub(crate) next: &'r str,
    pub(crate) by: RatioInterval,
}

impl Choice<'_> {
    /// Whether the rounds leave no doubt that it is the best.
    pub(crate) fn is_clear(&self) -> bool {
        self.by.low.is_some_and(|low| low > 1.0)
    }
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

/// A rival, and in each round what is the less the better.
type Costs<'r> = (&'r str, Vec<f64>);

/// In each round what is the less the better; more is better where what is compared is the time
/// between. `None`: a round does not have it.
fn costs(rounds: &[&Step], measure: Measure) -> Option<Vec<f64>> {
    let values = rounds.iter().map(|step| (measure.figure)(step));
    let cost = |value: f64| match measure.more_is_better {
        true => 1.0 / value,
        false => value,
    };
    values.map(|value| value.map(cost)).collect()
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

    /// `grpc, until rest from 3.1 KB [2.6, 4.0] on: gradual`.
    pub(crate) fn words(&self) -> String {
        let bytes = |size: f64| number::bytes(size.round());
        let end = |end: Option<f64>| end.map_or("?".to_owned(), bytes);
        let Crossover { at, low, high, .. } = self.place;
        let how = match self.place.is_step() {
            true => format!("a step of {} ×", number::fixed(self.place.change, 2)),
            false => "gradual".to_owned(),
        };
        let doubt = if self.place.is_sure() {
            ""
        } else {
            ", not surely"
        };
        format!(
            "{} up to {} [{}, {}], {} from there: {how}{doubt}",
            self.below,
            bytes(at),
            end(low),
            end(high),
            self.above
        )
    }
}

/// Sizes that a curve must have for its crossovers to be told.
const SIZES_MIN: usize = 3;

/// A rival, and by size what each round cost.
type Curve<'r> = (&'r str, BTreeMap<u32, Vec<f64>>);

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
                let ratio = |(size, costs): (&u32, &Vec<f64>)| {
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

/// The best rival of each cell that at least two of them have, by size and clients.
pub(crate) fn choices<'r>(
    cells: &[(&'r Cell, Vec<&Step>)],
    driver: &str,
    measure: Measure,
) -> Vec<Choice<'r>> {
    let of_driver = cells
        .iter()
        .filter(|(cell, _)| cell.rival && cell.driver == driver);
    let mut places: BTreeMap<(u32, u32), Vec<Costs<'r>>> = BTreeMap::new();
    for (cell, rounds) in of_driver {
        let Some(costs) = costs(rounds, measure) else {
            continue;
        };
        let place = places.entry((cell.payload, cell.clients)).or_default();
        place.push((&cell.group, costs));
    }
    let best_of = |((payload, clients), mut rivals): ((u32, u32), Vec<Costs<'r>>)| {
        let mean =
            |costs: &[f64]| costs.iter().map(|cost| cost.ln()).sum::<f64>() / costs.len() as f64;
        rivals.sort_by(|a, b| mean(&a.1).total_cmp(&mean(&b.1)));
        let [(best, least), (next, more), ..] = rivals.as_slice() else {
            return None;
        };
        Some(Choice {
            payload,
            clients,
            best,
            next,
            by: rounds::ratio(more, least)?,
        })
    };
    places.into_iter().filter_map(best_of).collect()
}
