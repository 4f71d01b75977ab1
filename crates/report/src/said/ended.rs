//! What became of requests: failures by class, answers by status, outages, and how those ended that got no good
//! answer.

use wallfinder_judge::unanswered::{self, UnansweredSetting};
use wallfinder_model::Step;
use wallfinder_model::reason::{Ended, Unreachable};
use wallfinder_model::record::Counts;

use crate::{number, words};

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
    let when = away(&unanswered::unreachable(step)?, time);
    let share = number::share(unanswered::unreachable_share(step));
    Some(format!("{when} ({share} of the window)"))
}

/// `for 3.5 s from 1.5 s on`, with times as they are to be shown.
pub(super) fn away(away: &Unreachable, time: impl Fn(u64) -> String) -> String {
    let from = away.at_ns.map(|ns| format!("from {} on", time(ns)));
    let when = match (from, away.outages) {
        (None, _) => String::new(),
        (Some(from), 0 | 1) => format!(" {from}"),
        (Some(from), n) => format!(" in {} outages, the first {from}", number::whole(n)),
    };
    format!("for {}{when}", time(away.for_ns))
}

/// `3.4 ms`, `250.0 µs`, `1.2 s`.
pub(super) fn time(ns: u64) -> String {
    let (size, unit) = match ns {
        1_000_000_000.. => (1e9, "s"),
        1_000_000.. => (1e6, "ms"),
        _ => (1e3, "µs"),
    };
    format!("{:.1} {unit}", ns as f64 / size)
}

/// How requests ended that got no good answer, to stand behind a colon.
pub fn ended(ended: &[Ended]) -> String {
    let mut text = String::new();
    for one in ended {
        text.push_str(match one {
            _ if text.is_empty() => "",
            Ended::Pause { .. } => "; ",
            _ => ", ",
        });
        text.push_str(&clause(one));
    }
    text
}

fn clause(ended: &Ended) -> String {
    match ended {
        Ended::NotConnected { count, class } => {
            let attempts = words::counted(*count, "attempt");
            format!("{attempts} to connect failed as {class}")
        }
        Ended::NotSent { count } => format!("{} never sent", number::whole(*count)),
        Ended::Failed {
            count,
            class,
            statuses,
            unsent,
        } => {
            let each = |(status, count): &(u16, u64)| match statuses.len() {
                1 => status.to_string(),
                _ => format!("{status}: {}", number::whole(*count)),
            };
            let of_them = match unsent {
                Some(unsent) => format!(" ({} of them never sent)", number::whole(*unsent)),
                None if statuses.is_empty() => String::new(),
                None => {
                    let each: Vec<String> = statuses.iter().map(each).collect();
                    format!(" ({})", each.join(", "))
                }
            };
            format!("{} failed as {class}{of_them}", number::whole(*count))
        }
        Ended::InFlight { count } => {
            let count = number::whole(*count);
            format!("{count} in flight when the window closed")
        }
        Ended::NoneReported { driver } => format!("{driver} reports no good answer"),
        Ended::NoneSent => "no request was sent in the window".to_owned(),
        Ended::Pause {
            pause_ns,
            window_ns,
        } => format!(
            "connections pause for {} between requests, and the window is {} long",
            time(*pause_ns),
            time(*window_ns)
        ),
    }
}

/// `B had no good answer in 3 rounds: 120 failed as status.4xx (404)`.
pub fn unanswered(setting: &UnansweredSetting) -> String {
    format!(
        "{} had no good answer in {}: {}",
        if setting.is_b { "B" } else { "A" },
        words::counted(setting.rounds, "round"),
        ended(&setting.ended)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_without_an_answer_is_told_by_class_and_count() {
        let failed = |count, class: &str, statuses: &[(u16, u64)], unsent| Ended::Failed {
            count,
            class: class.to_owned(),
            statuses: statuses.to_vec(),
            unsent,
        };
        let refused = |count| Ended::NotConnected {
            count,
            class: "net.refused".to_owned(),
        };
        let pause = Ended::Pause {
            pause_ns: 50_000_000_000,
            window_ns: 500_000_000,
        };
        let missing = failed(4_000, "status.4xx", &[(404, 4_000)], None);
        for (list, said) in [
            (
                vec![refused(37)],
                "37 attempts to connect failed as net.refused",
            ),
            (
                vec![refused(1), Ended::NotSent { count: 1 }],
                "1 attempt to connect failed as net.refused, 1 never sent",
            ),
            (
                vec![
                    failed(879, "timeout.total", &[], Some(679)),
                    Ended::InFlight { count: 40 },
                ],
                "879 failed as timeout.total (679 of them never sent), 40 in flight when the window closed",
            ),
            (
                vec![failed(
                    5_120,
                    "status.4xx",
                    &[(404, 5_000), (410, 120)],
                    None,
                )],
                "5,120 failed as status.4xx (404: 5,000, 410: 120)",
            ),
            (vec![missing.clone()], "4,000 failed as status.4xx (404)"),
            (
                vec![Ended::NoneReported {
                    driver: "wrk".to_owned(),
                }],
                "wrk reports no good answer",
            ),
            (
                vec![Ended::NoneSent, pause],
                "no request was sent in the window; connections pause for 50.0 s between requests, and the \
                 window is 500.0 ms long",
            ),
        ] {
            assert_eq!(ended(&list), said);
        }
        let setting = UnansweredSetting {
            is_b: true,
            rounds: 2,
            ended: vec![missing],
        };
        assert_eq!(
            unanswered(&setting),
            "B had no good answer in 2 rounds: 4,000 failed as status.4xx (404)"
        );
    }
}
