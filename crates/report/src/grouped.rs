//! A study whose steps differ in more than a size: its groups under each load, with all rounds of each
//! together. Shared by terminal text and the page.

use std::collections::BTreeMap;

use wallfinder_model::profile::{ProfileKind, Profiles, Reading, share};
use wallfinder_model::{Load, Record, Step};

use crate::cells::middle;
use crate::figures::{Figures, quantile};
use crate::number::maybe;
use crate::profiled::short;
use crate::{cells, number, words};

/// A group under one load.
pub(crate) struct Place<'r> {
    /// Id of the study's group.
    pub(crate) group: &'r str,
    /// The study's name for what drives it.
    pub(crate) driver: &'r str,
    /// One step for each round.
    pub(crate) rounds: Vec<&'r Step>,
}

/// A column of figures, in the order of places.
pub(crate) struct Column {
    pub(crate) name: &'static str,
    /// Its heading, on up to two lines.
    pub(crate) head: [&'static str; 2],
    /// 0 is never left out; of the others the highest goes first.
    pub(crate) rank: u8,
    pub(crate) cells: Vec<String>,
}

/// What is waited for in the server of a place, at any moment.
pub(crate) struct Waits {
    /// Goroutines or threads that wait for something.
    pub(crate) waiting: f64,
    /// Those that have nothing to do.
    pub(crate) idle: f64,
    /// Where most of the waiting is, and the share of it that is there.
    pub(crate) most: Option<(String, f64)>,
    /// Seconds of waiting for mutexes in each second, by who holds them, and the share of it that is of
    /// the same place. `None`: nobody asked the server.
    pub(crate) mutexes: Option<(f64, Option<f64>)>,
}

/// Whether a record is shown so: every step has a place in a study's table, none sends data of a size,
/// and some were run in several rounds.
pub(crate) fn are_all(record: &Record) -> bool {
    let cells = || record.steps.iter().filter_map(|step| step.cell.as_ref());
    cells::have_all(record)
        && cells().all(|cell| cell.payload == 0)
        && cells().any(|cell| cell.round > 1)
}

/// Each place and its steps, by the order in which groups first ran.
pub(crate) fn of(record: &Record) -> Vec<Place<'_>> {
    let mut places: Vec<Place<'_>> = Vec::new();
    for step in &record.steps {
        let Some(cell) = &step.cell else { continue };
        let same = |place: &&mut Place<'_>| {
            (place.group, place.driver) == (&cell.group, &cell.driver)
                && asked(&place.rounds[0].load) == asked(&step.load)
        };
        match places.iter_mut().find(same) {
            Some(place) => place.rounds.push(step),
            None => places.push(Place {
                group: &cell.group,
                driver: &cell.driver,
                rounds: vec![step],
            }),
        }
    }
    places
}

/// What tells loads of one group apart.
fn asked(load: &Load) -> (u32, u32, Option<f64>) {
    let rate = words::rate_asked(&load.arrival);
    (load.connections, load.in_flight_per_connection, rate)
}

impl Place<'_> {
    /// The load, which all rounds have in common.
    pub(crate) fn load(&self) -> &Load {
        &self.rounds[0].load
    }

    /// `before, 256 connections`, with the driver where that does not go without saying.
    pub(crate) fn name(&self, with_driver: bool) -> String {
        let driver = match with_driver {
            true => format!(" {}", self.driver),
            false => String::new(),
        };
        format!(
            "{}{driver}, {}",
            self.group,
            words::connections(self.load())
        )
    }

    /// What profiles of its server say of waits, the middle one of the rounds.
    pub(crate) fn waits(&self) -> Option<Waits> {
        let profiled = || self.rounds.iter().filter_map(|step| step.profiles.as_ref());
        let readings: Vec<&Reading> = profiled().filter_map(Profiles::of_waits).collect();
        let most = most(&readings);
        let mutexes = middle(&self.rounds, |step| mutexes_of(step)?.per_second());
        let there = most.as_ref().and_then(|(place, _)| {
            middle(&self.rounds, |step| {
                let reading = mutexes_of(step)?;
                (reading.total != 0).then(|| share(at(reading, place), reading.total))
            })
        });
        Some(Waits {
            waiting: middle(&self.rounds, |step| waits_of(step)?.per_second())?,
            idle: middle(&self.rounds, |step| {
                let reading = waits_of(step)?;
                let idle = reading.idle as f64 / reading.duration_ns as f64;
                Some(idle).filter(|idle| idle.is_finite())
            })?,
            most: most.map(|(place, part)| (short(&place).to_owned(), part)),
            mutexes: mutexes.map(|seconds| (seconds, there)),
        })
    }

    /// The step whose squeezes tell of its wall: the last that has some.
    pub(crate) fn squeezed(&self) -> Option<&Step> {
        let has_some = |step: &&&Step| {
            let verdict = step.verdict.as_ref();
            step.experiment.is_some() || verdict.is_some_and(|v| !v.elasticities.is_empty())
        };
        self.rounds.iter().rev().find(has_some).copied()
    }
}

fn waits_of(step: &Step) -> Option<&Reading> {
    step.profiles.as_ref()?.of_waits()
}

fn mutexes_of(step: &Step) -> Option<&Reading> {
    step.profiles.as_ref()?.of(ProfileKind::Mutex)
}

/// What a function has among the places of a profile.
fn at(reading: &Reading, function: &str) -> i64 {
    let there = reading
        .sites
        .iter()
        .filter(|site| site.function == function);
    there.fold(0, |sum, site| site.value.saturating_add(sum))
}

/// The function that has most of all waiting in all rounds, idle waits apart, and its share.
fn most(readings: &[&Reading]) -> Option<(String, f64)> {
    let mut by_function: BTreeMap<&str, i64> = BTreeMap::new();
    for site in readings.iter().flat_map(|reading| &reading.sites) {
        if !site.idle {
            let sum = by_function.entry(&site.function).or_default();
            *sum = sum.saturating_add(site.value);
        }
    }
    let all = readings
        .iter()
        .fold(0i64, |sum, reading| sum.saturating_add(reading.busy()));
    let (function, value) = by_function.into_iter().max_by_key(|(_, value)| *value)?;
    (value > 0).then(|| (function.to_owned(), share(value, all)))
}

/// What there is to see of each place: of each figure the middle one of its rounds.
pub(crate) fn columns(places: &[Place<'_>]) -> Vec<Column> {
    let of_load = |name, head, rank, cell: &dyn Fn(&Load) -> String| Column {
        name,
        head,
        rank,
        cells: places.iter().map(|place| cell(place.load())).collect(),
    };
    let figure = |name, head, rank, of: &dyn Fn(&Step) -> Option<f64>, show: fn(f64) -> String| {
        let shown = |place: &Place<'_>| maybe(middle(&place.rounds, of), show);
        Column {
            name,
            head,
            rank,
            cells: places.iter().map(shown).collect(),
        }
    };
    let any = |is: &dyn Fn(&Step) -> bool| {
        let mut steps = places.iter().flat_map(|place| &place.rounds);
        steps.any(|step| is(step))
    };
    let mut columns = vec![of_load("connections", ["connec-", "tions"], 0, &|load| {
        number::whole(u64::from(load.connections))
    })];
    let depth = |place: &Place<'_>| place.load().in_flight_per_connection;
    if places.iter().any(|place| depth(place) != depth(&places[0])) {
        columns.push(of_load("depth", ["", "depth"], 0, &|load| {
            number::depth(load.in_flight_per_connection)
        }));
    }
    if any(&|step| step.load.arrival.is_open()) {
        columns.push(of_load("asked for", ["asked", "for/s"], 0, &|load| {
            maybe(words::rate_asked(&load.arrival), number::amount)
        }));
    }
    columns.push(Column {
        name: "rounds",
        head: ["", "rounds"],
        rank: 8,
        cells: places
            .iter()
            .map(|place| number::whole(place.rounds.len() as u64))
            .collect(),
    });
    let latency = |step: &Step, name: &str| quantile(step.latency.as_ref(), name);
    columns.extend([
        figure(
            "requests/s",
            ["", "requests/s"],
            0,
            &|step| Some(step.throughput),
            number::amount,
        ),
        figure(
            "p50",
            ["", "p50"],
            6,
            &|step| latency(step, "p50"),
            number::span,
        ),
        figure(
            "p99",
            ["", "p99"],
            2,
            &|step| latency(step, "p99"),
            number::span,
        ),
        figure(
            "bytes each",
            ["bytes", "each"],
            7,
            &|step| Figures::of(step).bytes_in,
            number::bytes,
        ),
    ]);
    let failed = |step: &Step| Figures::of(step).failed_share;
    if any(&|step| failed(step).is_some_and(|share| share > 0.0)) {
        columns.push(figure("errors", ["", "errors"], 1, &failed, number::share));
    }
    let used = |step: &Step| Some(step.telemetry.server.as_ref()?.utilisation);
    let used_by_client = |step: &Step| Some(step.telemetry.client.as_ref()?.utilisation);
    columns.extend([
        figure(
            "server CPU each",
            ["server", "each"],
            3,
            &|step| Figures::of(step).server_cpu_ns,
            number::span,
        ),
        figure(
            "client CPU each",
            ["client", "each"],
            5,
            &|step| Figures::of(step).client_cpu_ns,
            number::span,
        ),
        figure("server CPU", ["server", "CPU"], 4, &used, number::share),
        figure(
            "client CPU",
            ["client", "CPU"],
            4,
            &used_by_client,
            number::share,
        ),
    ]);
    let link = |step: &Step| Figures::of(step).link_share;
    if any(&|step| link(step).is_some()) {
        columns.push(figure("link", ["", "link"], 3, &link, number::share));
    }
    columns
}

/// Whether places are driven by more than one driver.
pub(crate) fn by_several(places: &[Place<'_>]) -> bool {
    places.iter().any(|place| place.driver != places[0].driver)
}

/// What squeezes say of a step: its wall, how that was established, and what throughput answers to, the
/// most first.
pub(crate) fn squeezes(step: &Step) -> String {
    let Some(verdict) = &step.verdict else {
        return "not judged".to_owned();
    };
    let mut all: Vec<_> = verdict.elasticities.iter().collect();
    all.sort_by(|a, b| b.1.value.total_cmp(&a.1.value));
    let shown = all.iter().map(|(name, elasticity)| {
        format!(
            "{} {} [{}, {}]",
            words::squeeze(name),
            number::elasticity(elasticity.value),
            number::elasticity(elasticity.low),
            number::elasticity(elasticity.high)
        )
    });
    let shown: Vec<String> = shown.collect();
    let wall = words::short(verdict.wall);
    let mut text = format!("{wall} ({})", words::standing(verdict));
    if !shown.is_empty() {
        text.push_str(": ");
        text.push_str(&shown.join(" · "));
    }
    text
}
