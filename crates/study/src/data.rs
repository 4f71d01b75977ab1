//! Everything that conditions can refer to: steps that ran, and why others did not.
//!
//! It notes which steps a condition looks at, so that a claim knows whether others
//! disturbed what it rests on. Who asks only what was run, as which sizes there are, looks at no
//! step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Size;
use crate::entry::{Entry, is_own_doubt};
use crate::language::Value;

/// A step that did not run.
#[derive(Debug, Clone)]
pub(crate) struct Absent {
    pub(crate) group: String,
    pub(crate) driver: String,
    pub(crate) why: String,
}

/// Everything that conditions can refer to.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) size: Size,
    pub(crate) entries: Vec<Entry>,
    pub(crate) absent: Vec<Absent>,
    /// Every step, as conditions see them.
    pub(crate) all: Value,
    /// Steps that conditions looked at, by their labels.
    looked_at: Mutex<BTreeMap<String, Look>>,
    left_out: Mutex<LeftOut>,
}

/// Rounds that cells do without.
#[derive(Debug, Default)]
struct LeftOut {
    rounds: BTreeSet<u32>,
    /// Whether ramps do without them, too.
    of_ramps: bool,
}

/// A step that a condition looked at.
#[derive(Debug)]
struct Look {
    round: u32,
    /// What disturbed it.
    disturbed: Option<String>,
}

/// Rounds that must be left of a cell: this many, and this part of them.
const ROUNDS_MIN: usize = 5;
const PART_MIN: f64 = 0.75;

impl Data {
    /// Data of a size.
    pub(crate) fn new(size: Size, entries: Vec<Entry>, absent: Vec<Absent>) -> Data {
        Data {
            size,
            all: Value::list(entries.iter().map(Entry::value)),
            entries,
            absent,
            looked_at: Mutex::default(),
            left_out: Mutex::default(),
        }
    }

    /// Notes that a condition looks at steps.
    pub(crate) fn look_at<'e>(&self, entries: impl IntoIterator<Item = &'e Entry>) {
        let mut notes = self.notes();
        for entry in entries {
            let look = Look {
                round: entry.round,
                disturbed: entry.disturbed.clone(),
            };
            notes.insert(entry.label.clone(), look);
        }
    }

    /// Notes that a condition looks at the step with a label.
    pub(crate) fn look_at_label(&self, label: &str) {
        self.look_at(self.entries.iter().filter(|entry| entry.label == label));
    }

    fn notes(&self) -> MutexGuard<'_, BTreeMap<String, Look>> {
        // A panic while noting leaves whole notes.
        self.looked_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets which steps were looked at.
    pub(crate) fn look_away(&self) {
        self.notes().clear();
    }

    /// The first step looked at that others disturbed, in words; or else the first whose own record doubts it.
    pub(crate) fn disturbed(&self) -> Option<String> {
        let notes = self.notes();
        let disturbed = || {
            let each = notes.iter();
            each.filter_map(|(label, look)| Some((label, look.disturbed.as_ref()?)))
        };
        let by_others = disturbed().find(|(_, what)| !is_own_doubt(what));
        let (label, what) = by_others.or_else(|| disturbed().next())?;
        Some(format!("`{label}` was disturbed: {what}"))
    }

    /// Rounds in which a step was disturbed that was looked at.
    pub(crate) fn disturbed_rounds(&self) -> BTreeSet<u32> {
        let notes = self.notes();
        let disturbed = notes.values().filter(|look| look.disturbed.is_some());
        disturbed.map(|look| look.round).collect()
    }

    /// From now on cells do without these rounds, all of them alike, where enough others are left;
    /// and so do ramps, if they are to.
    pub(crate) fn leave_out(&self, rounds: BTreeSet<u32>, of_ramps: bool) {
        *self.left_out() = LeftOut { rounds, of_ramps };
    }

    fn left_out(&self) -> MutexGuard<'_, LeftOut> {
        // It is replaced as a whole.
        self.left_out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is left of a cell's rounds.
    fn calm<'e>(&self, found: Vec<&'e Entry>) -> Vec<&'e Entry> {
        let left_out = self.left_out();
        let is_left = |entry: &&&Entry| !left_out.rounds.contains(&entry.round);
        let left: Vec<&Entry> = found.iter().filter(is_left).copied().collect();
        let enough = left.len() >= ROUNDS_MIN && left.len() as f64 >= PART_MIN * found.len() as f64;
        if enough { left } else { found }
    }

    /// What is left of the rounds of each cell of a ramp.
    fn calm_ramp<'e>(&self, found: Vec<&'e Entry>) -> Vec<&'e Entry> {
        if !self.left_out().of_ramps {
            return found;
        }
        let place = |entry: &Entry| (bytes(entry), entry.clients);
        let mut cells: Vec<Vec<&Entry>> = Vec::new();
        for entry in found {
            match cells.iter_mut().find(|of| place(of[0]) == place(entry)) {
                Some(of) => of.push(entry),
                None => cells.push(vec![entry]),
            }
        }
        cells.into_iter().flat_map(|of| self.calm(of)).collect()
    }

    /// Whether this size has steps of a driver, run or not.
    pub(crate) fn plans(&self, driver: &str) -> bool {
        let ran = self.entries.iter().map(|entry| entry.driver.as_str());
        let absent = self.absent.iter().map(|absent| absent.driver.as_str());
        ran.chain(absent).any(|planned| planned == driver)
    }

    /// Steps of a group by one driver, by what is in flight; or why there is none.
    pub(crate) fn ramp(&self, group: &str, driver: &str) -> Result<Vec<&Entry>, String> {
        let found = self.unseen_ramp(group, driver)?;
        self.look_at(found.iter().copied());
        Ok(found)
    }

    /// The same, for who looks at some of these steps and notes which.
    pub(crate) fn unseen_ramp(&self, group: &str, driver: &str) -> Result<Vec<&Entry>, String> {
        let found: Vec<&Entry> = self.of(group, driver).collect();
        if found.is_empty() {
            return Err(self.absence(group, driver));
        }
        let mut found = self.calm_ramp(found);
        // Cells have their places; other steps stand by what was in flight.
        let place = |entry: &Entry| {
            entry
                .payload
                .map(|bytes| (entry.clients as u64, bytes, entry.round))
        };
        found.sort_by(|a, b| {
            let by_place = place(a).cmp(&place(b));
            by_place.then(a.in_flight.total_cmp(&b.in_flight))
        });
        Ok(found)
    }

    /// Steps of one cell, one for each round; or why there is none.
    pub(crate) fn cell(
        &self,
        group: &str,
        driver: &str,
        payload: f64,
        clients: f64,
    ) -> Result<Vec<&Entry>, String> {
        let is = |entry: &&Entry| bytes(entry) == payload && entry.clients == clients;
        let mut found: Vec<&Entry> = self.of(group, driver).filter(is).collect();
        if found.is_empty() {
            let place = format!("{payload} bytes and {clients} clients");
            return Err(self.absence_at(group, driver, &place));
        }
        found = self.calm(found);
        self.look_at(found.iter().copied());
        found.sort_by_key(|entry| entry.round);
        Ok(found)
    }

    /// Sizes that a group was run at by a driver and so many clients, in bytes, or why there is
    /// none.
    pub(crate) fn sizes_of(
        &self,
        group: &str,
        driver: &str,
        clients: f64,
    ) -> Result<Vec<f64>, String> {
        let is = |entry: &&Entry| entry.clients == clients;
        let found = in_order(self.of(group, driver).filter(is).map(bytes));
        match found.is_empty() {
            true => Err(self.absence_at(group, driver, &format!("{clients} clients"))),
            false => Ok(found),
        }
    }

    /// How many clients a group was run with by a driver and at so many bytes, or why there is none.
    pub(crate) fn clients_of(
        &self,
        group: &str,
        driver: &str,
        payload: f64,
    ) -> Result<Vec<f64>, String> {
        let is = |entry: &&Entry| bytes(entry) == payload;
        let of_size = self.of(group, driver).filter(is);
        let found = in_order(of_size.map(|entry| entry.clients));
        match found.is_empty() {
            true => Err(self.absence_at(group, driver, &format!("{payload} bytes"))),
            false => Ok(found),
        }
    }

    /// Whether a group ran with a driver.
    pub(crate) fn has(&self, group: &str, driver: &str) -> bool {
        self.of(group, driver).next().is_some()
    }

    /// Steps of a group by one driver, as they ran.
    fn of(&self, group: &str, driver: &str) -> impl Iterator<Item = &Entry> {
        let is = move |entry: &&Entry| entry.group == group && entry.driver == driver;
        self.entries.iter().filter(is)
    }

    /// Every step, for conditions that go through them all.
    pub(crate) fn look_at_all(&self) {
        self.look_at(&self.entries);
    }

    /// Why a group has no step at a place of its table.
    fn absence_at(&self, group: &str, driver: &str, place: &str) -> String {
        match self.has(group, driver) {
            true => format!(
                "`{group}` with {driver} at {place} was not run in size {}",
                self.size
            ),
            false => self.absence(group, driver),
        }
    }

    fn absence(&self, group: &str, driver: &str) -> String {
        let known = self
            .absent
            .iter()
            .find(|absent| absent.group == group && absent.driver == driver);
        match known {
            Some(absent) => format!("`{group}{DID_NOT_RUN}{driver}: {}", absent.why),
            None => format!("`{group}` with {driver} is not part of size {}", self.size),
        }
    }
}

/// What the reason has why steps are absent that were planned.
pub(crate) const DID_NOT_RUN: &str = "` did not run with ";

/// Bytes of data in each request; 0 where nothing is sent.
fn bytes(entry: &Entry) -> f64 {
    entry.payload.map_or(0.0, f64::from)
}

/// Each value once, the least first.
fn in_order(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}
