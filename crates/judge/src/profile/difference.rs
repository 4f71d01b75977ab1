//! Two readings of one kind, side by side.

use std::collections::BTreeMap;

use wallfinder_model::profile::Reading;

/// A function, category or site in two readings, each as its rate: per second of the window, or
/// as it is for a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// Of what.
    pub name: String,
    /// In the first, per second.
    pub before: f64,
    /// In the second, per second.
    pub after: f64,
}

impl Change {
    /// How much more the second has, per second.
    pub fn by(&self) -> f64 {
        self.after - self.before
    }
}

/// What functions have on their own, the largest change first. Readings of windows of different
/// length are compared by what they have in a second.
pub fn difference(before: &Reading, after: &Reading) -> Vec<Change> {
    let mut values: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for function in &before.functions {
        values.entry(&function.name).or_default().0 = rate(before, function.own);
    }
    for function in &after.functions {
        values.entry(&function.name).or_default().1 = rate(after, function.own);
    }
    let mut changes: Vec<Change> = values
        .into_iter()
        .map(|(name, (before, after))| Change {
            name: name.to_owned(),
            before,
            after,
        })
        .filter(|change| change.by() != 0.0)
        .collect();
    changes.sort_by(|a, b| b.by().abs().total_cmp(&a.by().abs()));
    changes
}

fn rate(reading: &Reading, value: i64) -> f64 {
    match reading.duration_ns {
        0 => value as f64,
        duration => value as f64 / (duration as f64 / 1e9),
    }
}
