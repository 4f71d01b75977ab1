//! What became of requests that were not answered well, in words that the counts bear out.
//!
//! What it is: the one place that turns classes of failure, statuses and outages of a step into
//! clauses, for thresholds, verdicts, reports and exit messages alike. What it is not: a verdict;
//! it names no wall.

use std::collections::BTreeMap;

use wallfinder_model::record::{Counts, Driver, Outage};
use wallfinder_model::{Arrival, Caveat, Step};

use crate::identity;
use crate::words::{rate, time};

/// Statuses that send the client elsewhere. 304 is not among them: the page is what the client is said
/// to have already (RFC 9110 15.4).
const REDIRECTS: [u16; 6] = [300, 301, 302, 303, 307, 308];
/// Share of the window without a connection above which no wall is named.
pub const UNREACHABLE_MAX: f64 = 0.01;

/// Why a step has no good answer, to stand behind a colon: what was tried, and how it ended. `None`: it has
/// one.
pub fn nothing_answered(step: &Step) -> Option<String> {
    if step.counts.answered > 0 {
        return None;
    }
    let mut why = why_nothing(&step.counts, &step.driver);
    let (window, load) = (step.window_ns, &step.load);
    match load.arrival {
        Arrival::Closed { think } if think.0 > window && step.counts.failed.is_empty() => {
            let of = |ns: u64| time(ns as f64 / 1e9);
            let (pause, window) = (of(think.0), of(window));
            why.push_str(&format!(
                "; connections pause for {pause} between requests, and the window is {window} long"
            ));
        }
        _ => {}
    }
    Some(why)
}

/// Why one of two settings that were held in turn has no good answer in any of its steps, and how many
/// those are. `None`: it has one, or was never held.
pub fn setting_unanswered(steps: &[Step], order: &[(u32, bool)], is_b: bool) -> Option<String> {
    let mut own = steps
        .iter()
        .zip(order)
        .filter(|(_, (_, of_b))| *of_b == is_b)
        .map(|(step, _)| step);
    let first = own.next()?;
    let (mut sum, mut held) = (first.counts.clone(), 1u64);
    for step in own {
        add(&mut sum, &step.counts);
        held += 1;
    }
    (sum.answered == 0).then(|| {
        let rounds = if held == 1 { "round" } else { "rounds" };
        let name = if is_b { "B" } else { "A" };
        let why = why_nothing(&sum, &first.driver);
        format!("{name} had no good answer in {held} {rounds}: {why}")
    })
}

/// Adds what says how requests ended.
fn add(sum: &mut Counts, counts: &Counts) {
    sum.answered = sum.answered.saturating_add(counts.answered);
    sum.in_flight_end = sum.in_flight_end.saturating_add(counts.in_flight_end);
    sum.expired_unsent = sum.expired_unsent.saturating_add(counts.expired_unsent);
    sum.not_sent = sum.not_sent.saturating_add(counts.not_sent);
    let classes = [
        (&mut sum.failed, &counts.failed),
        (&mut sum.connect_failures, &counts.connect_failures),
    ];
    for (sum, classes) in classes {
        for (class, count) in classes {
            let of_class = sum.entry(class.clone()).or_default();
            *of_class = of_class.saturating_add(*count);
        }
    }
    for (status, count) in &counts.statuses {
        let of_status = sum.statuses.entry(*status).or_default();
        *of_status = of_status.saturating_add(*count);
    }
}

fn why_nothing(counts: &Counts, driver: &Driver) -> String {
    let ended = how_others_ended(counts);
    match driver.command {
        _ if !ended.is_empty() => ended.join(", "),
        Some(_) => format!("{} reports no good answer", driver.name),
        None => "no request was sent in the window".to_owned(),
    }
}

/// How requests ended, or did not, that got no good answer; most of all first.
fn how_others_ended(counts: &Counts) -> Vec<String> {
    let mut ended: Vec<(u64, String)> = Vec::new();
    for (class, count) in &counts.failed {
        ended.push((*count, failed_as(class, *count, counts)));
    }
    for (class, count) in &counts.connect_failures {
        let attempts = if *count == 1 { "attempt" } else { "attempts" };
        let text = format!("{} {attempts} to connect failed as {class}", whole(*count));
        ended.push((*count, text));
    }
    // A few that the window's end cut off beside thousands that failed explain nothing.
    let some = ended
        .iter()
        .fold(0u64, |sum, (n, _)| sum.saturating_add(*n))
        / 100;
    let open = Some(counts.in_flight_end).filter(|open| *open > some);
    let open = open.unwrap_or(0);
    ended.push((
        open,
        format!("{} in flight when the window closed", whole(open)),
    ));
    let due = u64::try_from(counts.not_sent).unwrap_or(0);
    ended.push((due, format!("{} due and never sent", whole(due))));
    ended.retain(|(count, _)| *count > 0);
    ended.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    ended.into_iter().map(|(_, text)| text).collect()
}

/// `5,120 failed as status.4xx (404)`, `879 failed as timeout.total (679 of them never sent)`.
fn failed_as(class: &str, count: u64, counts: &Counts) -> String {
    let mut text = format!("{} failed as {class}", whole(count));
    let of_class = statuses_of(class, counts);
    let statuses = of_class.iter().map(|status| match of_class.len() {
        1 => status.to_string(),
        _ => format!("{status}: {}", whole(counts.statuses[status])),
    });
    let statuses: Vec<String> = statuses.collect();
    if !statuses.is_empty() {
        text.push_str(&format!(" ({})", statuses.join(", ")));
    } else if let Some(unsent) = unsent_of(class, counts) {
        text.push_str(&format!(" ({} of them never sent)", whole(unsent)));
    }
    text
}

/// Of a class of failure, the requests that were never sent; `None`: there are none.
pub fn unsent_of(class: &str, counts: &Counts) -> Option<u64> {
    let unsent = counts.expired_unsent;
    (class == "timeout.total" && unsent > 0).then_some(unsent)
}

/// The statuses that a class such as `status.4xx` stands for, of those that came.
pub fn statuses_of(class: &str, counts: &Counts) -> Vec<u16> {
    let is_of_class = |status: u16| match class {
        "status.4xx" => (400..500).contains(&status),
        "status.5xx" => (500..600).contains(&status),
        "status.other" => !(200..600).contains(&status),
        _ => false,
    };
    let came = counts.statuses.iter().filter(|(_, count)| **count > 0);
    came.map(|(status, _)| *status)
        .filter(|status| is_of_class(*status))
        .collect()
}

/// Answers by status, where not all of them are 200.
pub fn unlike_statuses(counts: &Counts) -> Option<&BTreeMap<u16, u64>> {
    let unlike = |(status, count): (&u16, &u64)| *status != 200 && *count > 0;
    counts
        .statuses
        .iter()
        .any(unlike)
        .then_some(&counts.statuses)
}

/// Good answers that send the client elsewhere.
pub(crate) fn redirects(step: &Step) -> Option<Caveat> {
    let all = &step.counts.statuses;
    let statuses: Vec<u16> = REDIRECTS
        .into_iter()
        .filter(|status| all.get(status).is_some_and(|count| *count > 0))
        .collect();
    let count = statuses
        .iter()
        .fold(0u64, |sum, status| sum.saturating_add(all[status]));
    let answers = all.values().fold(0u64, |sum, n| sum.saturating_add(*n));
    (count > 0).then_some(Caveat::Redirects {
        count,
        answers,
        statuses,
    })
}

/// Share of the window during which no connection was open, though some were tried, 0..1. Without
/// attempts that failed, nobody wanted a connection.
pub fn unreachable_share(step: &Step) -> f64 {
    let counts = &step.counts;
    let tried = counts.connect_failures.values().any(|count| *count > 0);
    if !tried || step.window_ns == 0 {
        return 0.0;
    }
    (counts.unreachable_ns as f64 / step.window_ns as f64).min(1.0)
}

/// Failures as a share: of what ended, or of the window's time where nothing could be reached for longer
/// than that share. A client that waits before it tries again fails seldom, and is not better served.
pub fn failure_share(step: &Step) -> f64 {
    identity::failure_share(&step.counts).max(unreachable_share(step))
}

/// Outages as far as they lie within the window, from its opening.
pub fn outages_in_window(step: &Step) -> Vec<Outage> {
    let from_ns = step.load.warmup.0;
    let to_ns = from_ns.saturating_add(step.window_ns);
    let within = step.outages.iter().filter_map(|outage| {
        let begin_ns = outage.at_ns.max(from_ns);
        let end_ns = outage.at_ns.saturating_add(outage.for_ns).min(to_ns);
        (end_ns > begin_ns).then(|| Outage {
            at_ns: begin_ns - from_ns,
            for_ns: end_ns - begin_ns,
        })
    });
    within.collect()
}

/// When and for how long the target could not be reached: `for 3.5 s from 1.5 s on`.
pub fn unreachable_in_words(step: &Step) -> Option<String> {
    if unreachable_share(step) <= 0.0 {
        return None;
    }
    let seconds = |ns: u64| time(ns as f64 / 1e9);
    let whole = seconds(step.counts.unreachable_ns);
    Some(match outages_in_window(step).as_slice() {
        [] => format!("for {whole}"),
        [one] => format!("for {whole} from {} on", seconds(one.at_ns)),
        [first, rest @ ..] => format!(
            "for {whole} in {} outages, the first from {} on",
            rest.len() + 1,
            seconds(first.at_ns)
        ),
    })
}

/// The same as a doubt about the step.
pub(crate) fn unreachable(step: &Step) -> Option<Caveat> {
    let for_ns = step.counts.unreachable_ns;
    (unreachable_share(step) > 0.0).then(|| {
        let outages = outages_in_window(step);
        Caveat::Unreachable {
            at_ns: outages.first().map(|outage| outage.at_ns),
            for_ns,
            window_ns: step.window_ns,
            outages: outages.len().max(1) as u64,
        }
    })
}

fn whole(count: u64) -> String {
    match count {
        0..10 => count.to_string(),
        count => rate(count as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::a_step;
    use wallfinder_model::Nanos;

    fn nothing(with: impl FnOnce(&mut Step)) -> String {
        let step = a_step().throughput(0.0).with(with).build();
        nothing_answered(&step).expect("nothing was answered")
    }

    #[test]
    fn what_ended_without_an_answer_is_told_by_class_and_count() {
        let refused = nothing(|step| {
            step.counts
                .connect_failures
                .insert("net.refused".into(), 37);
        });
        assert_eq!(refused, "37 attempts to connect failed as net.refused");
        let expired = nothing(|step| {
            step.counts.failed.insert("timeout.total".into(), 879);
            step.counts.expired_unsent = 679;
            step.counts.in_flight_end = 40;
        });
        assert_eq!(
            expired,
            "879 failed as timeout.total (679 of them never sent), \
             40 in flight when the window closed"
        );
        let missing = nothing(|step| {
            step.counts.failed.insert("status.4xx".into(), 5_120);
            step.counts.statuses.extend([(404, 5_000), (410, 120)]);
        });
        assert_eq!(missing, "5,120 failed as status.4xx (404: 5,000, 410: 120)");
        let open = nothing(|step| step.counts.in_flight_end = 300);
        assert_eq!(open, "300 in flight when the window closed");
        let slow = nothing(|_| {});
        assert_eq!(slow, "no request was sent in the window");
        let paused = nothing(|step| {
            step.load.arrival = Arrival::Closed {
                think: Nanos::from_secs(50),
            };
            step.window_ns = 500_000_000;
        });
        assert_eq!(
            paused,
            "no request was sent in the window; connections pause for 50.0 s between requests, and the \
             window is 500.0 ms long"
        );
        assert_eq!(nothing_answered(&a_step().build()), None);
    }

    #[test]
    fn statuses_are_shown_where_one_is_not_200_and_only_redirects_are_doubted() {
        // Which answers came, whether their table is shown, and the redirects among them.
        let mixes = [
            (vec![(200, 9)], false, 0),
            (vec![(200, 9), (404, 0)], false, 0),
            (vec![(204, 9)], true, 0),
            (vec![(200, 8), (206, 1)], true, 0),
            (vec![(200, 8), (304, 1)], true, 0),
            (vec![(302, 9)], true, 9),
            (vec![(200, 5), (301, 1), (308, 3)], true, 4),
            (vec![(200, 5), (503, 4)], true, 0),
        ];
        for (mix, shown, redirected) in mixes {
            let step = a_step()
                .with(|step| step.counts.statuses = mix.iter().copied().collect())
                .build();
            assert_eq!(unlike_statuses(&step.counts).is_some(), shown, "{mix:?}");
            let count = match redirects(&step) {
                Some(Caveat::Redirects { count, .. }) => count,
                _ => 0,
            };
            assert_eq!(count, redirected, "{mix:?}");
        }
    }

    #[test]
    fn a_setting_without_a_good_answer_is_told_over_all_of_its_rounds() {
        let missing = |answered: u64| {
            let step = a_step().throughput(0.0).with(|step| {
                step.counts.answered = answered;
                step.counts.failed.insert("status.4xx".into(), 2_000);
                step.counts.statuses.insert(404, 2_000);
            });
            step.build()
        };
        let steps = [a_step().build(), missing(0), missing(0), a_step().build()];
        let order = [(0, false), (0, true), (1, true), (1, false)];
        assert_eq!(
            setting_unanswered(&steps, &order, true).as_deref(),
            Some("B had no good answer in 2 rounds: 4,000 failed as status.4xx (404)")
        );
        assert_eq!(setting_unanswered(&steps, &order, false), None);
        let steps = [a_step().build(), missing(0), missing(1), a_step().build()];
        assert_eq!(setting_unanswered(&steps, &order, true), None, "it had one");
        assert_eq!(
            setting_unanswered(&steps[..1], &order, true),
            None,
            "never held"
        );
    }

    #[test]
    fn an_outage_counts_by_time_and_only_where_a_connection_was_tried() {
        let cut = |tried: u64| {
            let step = a_step().with(|step| {
                step.load.warmup.0 = 500_000_000;
                step.window_ns = 5_000_000_000;
                step.counts.unreachable_ns = 3_500_000_000;
                step.counts
                    .connect_failures
                    .insert("net.refused".into(), tried);
                step.outages.push(Outage {
                    at_ns: 2_000_000_000,
                    for_ns: 4_000_000_000,
                });
            });
            step.build()
        };
        let step = cut(37);
        assert!((failure_share(&step) - 0.7).abs() < 1e-9);
        assert_eq!(
            unreachable_in_words(&step).as_deref(),
            Some("for 3.5 s from 1.5 s on")
        );
        let kept = outages_in_window(&step);
        assert_eq!(kept[0].for_ns, 3_500_000_000, "{kept:?}");
        // Nobody wanted a connection: a load that thinks between connections of its own.
        assert_eq!(unreachable_share(&cut(0)), 0.0);
        assert_eq!(unreachable_in_words(&cut(0)), None);
    }

    #[test]
    fn outages_outside_of_the_window_are_none_of_it() {
        let step = a_step()
            .with(|step| {
                step.load.warmup.0 = 1_000_000_000;
                step.window_ns = 1_000_000_000;
                for (at_ns, for_ns) in [
                    (0, 900_000_000),
                    (2_000_000_000, 5),
                    (900_000_000, 300_000_000),
                    (u64::MAX, u64::MAX),
                ] {
                    step.outages.push(Outage { at_ns, for_ns });
                }
            })
            .build();
        let kept = outages_in_window(&step);
        let expected = Outage {
            at_ns: 0,
            for_ns: 200_000_000,
        };
        assert_eq!(kept, [expected]);
    }
}
