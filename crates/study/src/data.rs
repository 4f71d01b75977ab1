//! Everything that conditions can refer to: steps that ran, and why others did not.
//!
//! It notes which steps a condition looks at, so that a claim knows whether others
//! disturbed what it rests on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cel::Value;

use crate::Size;
use crate::entry::Entry;

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
    /// Every step, as CEL sees them.
    pub(crate) all: Value,
    /// Steps that conditions looked at, by their labels.
    looked_at: Mutex<BTreeMap<String, Look>>,
    /// Rounds that cells do without.
    left_out: Mutex<BTreeSet<u32>>,
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
        let all = entries.iter().map(Entry::value).collect();
        Data {
            size,
            all: Value::List(Arc::new(all)),
            entries,
            absent,
            looked_at: Mutex::default(),
            left_out: Mutex::default(),
        }
    }

    /// Notes that a condition looks at steps.
    fn look_at<'e>(&self, entries: impl IntoIterator<Item = &'e Entry>) {
        let mut notes = self.notes();
        for entry in entries {
            let look = Look {
                round: entry.round,
                disturbed: entry.disturbed.clone(),
            };
            notes.insert(entry.label.clone(), look);
        }
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

    /// The first step looked at that others disturbed, in words.
    pub(crate) fn disturbed(&self) -> Option<String> {
        self.notes().iter().find_map(|(label, look)| {
            let what = look.disturbed.as_ref()?;
            Some(format!("`{label}` was disturbed: {what}"))
        })
    }

    /// Rounds in which others disturbed a step that was looked at.
    pub(crate) fn disturbed_rounds(&self) -> BTreeSet<u32> {
        let notes = self.notes();
        let disturbed = notes.values().filter(|look| look.disturbed.is_some());
        disturbed.map(|look| look.round).collect()
    }

    /// From now on cells do without these rounds, all of them alike, where enough others are left.
    pub(crate) fn leave_out(&self, rounds: BTreeSet<u32>) {
        *self.left_out.lock().unwrap_or_else(PoisonError::into_inner) = rounds;
    }

    /// What is left of a cell's rounds.
    fn calm<'e>(&self, found: Vec<&'e Entry>) -> Vec<&'e Entry> {
        let left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        let is_left = |entry: &&&Entry| !left_out.contains(&entry.round);
        let left: Vec<&Entry> = found.iter().filter(is_left).copied().collect();
        let enough = left.len() >= ROUNDS_MIN && left.len() as f64 >= PART_MIN * found.len() as f64;
        if enough { left } else { found }
    }

    /// Whether this size has steps of a driver, run or not.
    pub(crate) fn plans(&self, driver: &str) -> bool {
        let ran = self.entries.iter().map(|entry| entry.driver.as_str());
        let absent = self.absent.iter().map(|absent| absent.driver.as_str());
        ran.chain(absent).any(|planned| planned == driver)
    }

    /// Steps of a group by one driver, by what is in flight; or why there is none.
    pub(crate) fn ramp(&self, group: &str, driver: &str) -> Result<Vec<&Entry>, String> {
        let mut found: Vec<&Entry> = self
            .entries
            .iter()
            .filter(|entry| entry.group == group && entry.driver == driver)
            .collect();
        if found.is_empty() {
            return Err(self.absence(group, driver));
        }
        self.look_at(found.iter().copied());
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
        let is = |entry: &&Entry| {
            entry.group == group
                && entry.driver == driver
                && entry.payload.map_or(0.0, f64::from) == payload
                && entry.clients == clients
        };
        let mut found: Vec<&Entry> = self.entries.iter().filter(is).collect();
        if found.is_empty() {
            return Err(match self.has(group, driver) {
                true => format!(
                    "`{group}` with {driver} at {payload} bytes and {clients} clients was not run \
                     in size {}",
                    self.size
                ),
                false => self.absence(group, driver),
            });
        }
        found = self.calm(found);
        self.look_at(found.iter().copied());
        found.sort_by_key(|entry| entry.round);
        Ok(found)
    }

    /// Whether a group ran with a driver.
    pub(crate) fn has(&self, group: &str, driver: &str) -> bool {
        let is = |entry: &Entry| entry.group == group && entry.driver == driver;
        self.entries.iter().any(is)
    }

    /// Every step, for conditions that go through them all.
    pub(crate) fn look_at_all(&self) {
        self.look_at(&self.entries);
    }

    fn absence(&self, group: &str, driver: &str) -> String {
        let known = self
            .absent
            .iter()
            .find(|absent| absent.group == group && absent.driver == driver);
        match known {
            Some(absent) => format!("`{group}` did not run with {driver}: {}", absent.why),
            None => format!("`{group}` with {driver} is not part of size {}", self.size),
        }
    }
}
