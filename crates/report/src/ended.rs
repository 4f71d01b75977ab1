//! What became of requests in words: failures by class, answers by status, outages. Shared by terminal text
//! and the page.

use wallfinder_judge::unanswered;
use wallfinder_model::Step;
use wallfinder_model::record::Counts;

use crate::number;

/// Classes of failure with their counts, most of all first: of a status which, of a deadline how many had
/// not been sent.
pub(crate) fn failure_classes(counts: &Counts) -> Vec<(String, String)> {
    let all = counts.failed.iter().chain(&counts.connect_failures);
    let mut classes: Vec<(&String, u64)> = all
        .map(|(class, count)| (class, *count))
        .filter(|(_, count)| *count > 0)
        .collect();
    classes.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let worded = |(class, count): (&String, u64)| {
        let mut text = number::whole(count);
        if let Some(unsent) = unanswered::unsent_of(class, counts) {
            text.push_str(&format!(
                " ({} of them never sent: no connection was free in time)",
                number::whole(unsent)
            ));
        }
        (class.clone(), text)
    };
    classes.into_iter().map(worded).collect()
}

/// Answers by status, where not all are 200: `200 1,024 (98 %) · 302 16 (1.5 %)`.
pub(crate) fn statuses(counts: &Counts) -> Option<String> {
    /// Statuses that are told one by one.
    const TOLD_MAX: usize = 12;
    let statuses = unanswered::unlike_statuses(counts)?;
    let all: u64 = statuses.values().fold(0, |sum, n| sum.saturating_add(*n));
    let mut by_count: Vec<(u16, u64)> = statuses
        .iter()
        .map(|(status, count)| (*status, *count))
        .filter(|(_, count)| *count > 0)
        .collect();
    by_count.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let others = by_count.split_off(by_count.len().min(TOLD_MAX));
    let told = by_count.iter().map(|(status, count)| {
        let share = number::share(*count as f64 / all as f64);
        format!("{status} {} ({share})", number::whole(*count))
    });
    let mut told: Vec<String> = told.collect();
    if !others.is_empty() {
        told.push(format!("{} others", others.len()));
    }
    Some(told.join(" · "))
}

/// When and for how long the server could not be reached, where it could not.
pub(crate) fn unreachable(step: &Step) -> Option<String> {
    let when = unanswered::unreachable_in_words(step)?;
    let share = number::share(unanswered::unreachable_share(step));
    Some(format!("{when} ({share} of the window)"))
}
