//! What became of requests that were not answered well, as the counts bear it out.
//!
//! What it is: the one place that looks for it in classes of failure, statuses and outages of a step, for
//! thresholds, verdicts, reports and exit messages alike. What it is not: a verdict; it names no wall.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use wallfinder_model::reason::{Ended, Unreachable};
use wallfinder_model::record::{Counts, Driver, Outage};
use wallfinder_model::{Arrival, Caveat, Step};

use crate::identity;

/// Statuses that send the client elsewhere. 304 is not among them: the page is what the client is said
/// to have already (RFC 9110 15.4).
const REDIRECTS: [u16; 6] = [300, 301, 302, 303, 307, 308];
/// Share of the window without a connection above which no wall is named.
pub const UNREACHABLE_MAX: f64 = 0.01;

/// How the requests of a step ended that has no good answer. `None`: it has one.
pub fn nothing_answered(step: &Step) -> Option<Vec<Ended>> {
    if step.counts.answered > 0 {
        return None;
    }
    let mut ended = how_ended(&step.counts, &step.driver);
    if let Arrival::Closed { think } = step.load.arrival
        && think.0 > step.window_ns
        && step.counts.failed.is_empty()
    {
        ended.push(Ended::Pause {
            pause_ns: think.0,
            window_ns: step.window_ns,
        });
    }
    Some(ended)
}

/// One of two settings that were held in turn, of which no round has a good answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnansweredSetting {
    /// Whether it is the second.
    pub is_b: bool,
    /// In how many rounds it was held.
    pub rounds: u64,
    /// How its requests ended.
    pub ended: Vec<Ended>,
}

/// The setting without a good answer in any of its steps. `None`: each has one, or was never held.
pub fn setting_unanswered(steps: &[Step], order: &[(u32, bool)]) -> Option<UnansweredSetting> {
    let of = |is_b: bool| {
        let held = steps.iter().zip(order);
        let mut own = held.filter(|(_, (_, of_b))| *of_b == is_b);
        let (first, _) = own.next()?;
        let (mut sum, mut rounds) = (first.counts.clone(), 1);
        for (step, _) in own {
            add(&mut sum, &step.counts);
            rounds += 1;
        }
        (sum.answered == 0).then(|| UnansweredSetting {
            is_b,
            rounds,
            ended: how_ended(&sum, &first.driver),
        })
    };
    of(true).or_else(|| of(false))
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

/// How requests ended, or did not, that got no good answer; most of all first.
fn how_ended(counts: &Counts, driver: &Driver) -> Vec<Ended> {
    let mut ended: Vec<(u64, Ended)> = Vec::new();
    for (class, &count) in &counts.connect_failures {
        let class = class.clone();
        ended.push((count, Ended::NotConnected { count, class }));
    }
    let count = u64::try_from(counts.not_sent).unwrap_or(0);
    ended.push((count, Ended::NotSent { count }));
    for (class, &count) in &counts.failed {
        let failed = Ended::Failed {
            count,
            class: class.clone(),
            statuses: statuses_of(class, counts),
            unsent: unsent_of(class, counts),
        };
        ended.push((count, failed));
    }
    // A few that the window's end cut off beside thousands that failed explain nothing.
    let failed = counts
        .failed
        .values()
        .chain(counts.connect_failures.values());
    let some = failed.fold(0u64, |sum, n| sum.saturating_add(*n)) / 100;
    let count = counts.in_flight_end;
    if count > some {
        ended.push((count, Ended::InFlight { count }));
    }
    ended.retain(|(count, _)| *count > 0);
    ended.sort_by_key(|(count, _)| Reverse(*count));
    match driver.command {
        _ if !ended.is_empty() => ended.into_iter().map(|(_, ended)| ended).collect(),
        Some(_) => vec![Ended::NoneReported {
            driver: driver.name.clone(),
        }],
        None => vec![Ended::NoneSent],
    }
}

/// Of a class of failure, the requests that were never sent; `None`: there are none.
pub fn unsent_of(class: &str, counts: &Counts) -> Option<u64> {
    let unsent = counts.expired_unsent;
    (class == "timeout.total" && unsent > 0).then_some(unsent)
}

/// The statuses that a class such as `status.4xx` stands for, of those that came.
fn statuses_of(class: &str, counts: &Counts) -> Vec<(u16, u64)> {
    let is_of_class = |status: u16| match class {
        "status.4xx" => (400..500).contains(&status),
        "status.5xx" => (500..600).contains(&status),
        "status.other" => !(200..600).contains(&status),
        _ => false,
    };
    let all = counts
        .statuses
        .iter()
        .map(|(status, count)| (*status, *count));
    all.filter(|(status, count)| *count > 0 && is_of_class(*status))
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
    // Those that were followed led to a request of their own.
    let hops = step.requests.iter().filter(|kind| kind.weight == 0);
    let followed: u64 = hops.map(|hop| hop.sent).sum();
    // A few were answered at the window's edge, and are followed behind it.
    let at_edge = u64::from(step.load.connections).min(followed);
    let count = count.saturating_sub(followed + at_edge);
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
fn outages_in_window(step: &Step) -> Vec<Outage> {
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

/// When and for how long the target could not be reached.
pub fn unreachable(step: &Step) -> Option<Unreachable> {
    (unreachable_share(step) > 0.0).then(|| {
        let outages = outages_in_window(step);
        Unreachable {
            at_ns: outages.first().map(|outage| outage.at_ns),
            for_ns: step.counts.unreachable_ns,
            outages: outages.len().max(1) as u64,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::a_step;
    use wallfinder_model::Nanos;

    fn nothing(with: impl FnOnce(&mut Step)) -> Vec<Ended> {
        let step = a_step().throughput(0.0).with(with).build();
        nothing_answered(&step).expect("nothing was answered")
    }

    fn failed(count: u64, class: &str, statuses: &[(u16, u64)], unsent: Option<u64>) -> Ended {
        Ended::Failed {
            count,
            class: class.to_owned(),
            statuses: statuses.to_vec(),
            unsent,
        }
    }

    #[test]
    fn what_ended_without_an_answer_is_counted_by_class_most_of_all_first() {
        let refused = |count| Ended::NotConnected {
            count,
            class: "net.refused".into(),
        };
        let mixed = nothing(|step| {
            let attempts = &mut step.counts.connect_failures;
            attempts.insert("net.refused".into(), 37);
            step.counts.failed.insert("net.closed.wait".into(), 37);
            step.counts.failed.insert("net.reset.wait".into(), 41);
            step.counts.not_sent = 37;
            step.counts.in_flight_end = 37;
        });
        assert_eq!(
            mixed,
            [
                failed(41, "net.reset.wait", &[], None),
                refused(37),
                Ended::NotSent { count: 37 },
                failed(37, "net.closed.wait", &[], None),
                Ended::InFlight { count: 37 }
            ]
        );
        let expired = nothing(|step| {
            step.counts.failed.insert("timeout.total".into(), 5_879);
            step.counts.expired_unsent = 679;
            step.counts.in_flight_end = 40;
        });
        let unsent = Some(679);
        assert_eq!(expired, [failed(5_879, "timeout.total", &[], unsent)]);
        let missing = nothing(|step| {
            step.counts.failed.insert("status.4xx".into(), 5_120);
            let statuses = [(404, 5_000), (410, 120), (500, 0), (200, 3)];
            step.counts.statuses.extend(statuses);
        });
        let statuses = [(404, 5_000), (410, 120)];
        assert_eq!(missing, [failed(5_120, "status.4xx", &statuses, None)]);
        assert_eq!(nothing(|_| {}), [Ended::NoneSent]);
        let driver = nothing(|step| step.driver.command = Some("wrk".into()));
        assert!(matches!(driver[..], [Ended::NoneReported { .. }]));
        let paused = nothing(|step| {
            step.load.arrival = Arrival::Closed {
                think: Nanos::from_secs(50),
            };
            step.window_ns = 500_000_000;
        });
        let pause = Ended::Pause {
            pause_ns: 50_000_000_000,
            window_ns: 500_000_000,
        };
        assert_eq!(paused, [Ended::NoneSent, pause]);
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
    fn a_setting_without_a_good_answer_is_counted_over_all_of_its_rounds() {
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
        let unanswered = UnansweredSetting {
            is_b: true,
            rounds: 2,
            ended: vec![failed(4_000, "status.4xx", &[(404, 4_000)], None)],
        };
        assert_eq!(setting_unanswered(&steps, &order), Some(unanswered));
        let steps = [a_step().build(), missing(0), missing(1), a_step().build()];
        assert_eq!(setting_unanswered(&steps, &order), None, "each had one");
        assert_eq!(
            setting_unanswered(&steps[..1], &order),
            None,
            "B was never held"
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
        let away = Unreachable {
            at_ns: Some(1_500_000_000),
            for_ns: 3_500_000_000,
            outages: 1,
        };
        assert_eq!(unreachable(&step), Some(away));
        let kept = outages_in_window(&step);
        assert_eq!(kept[0].for_ns, 3_500_000_000, "{kept:?}");
        // Nobody wanted a connection: a load that thinks between connections of its own.
        assert_eq!(unreachable_share(&cut(0)), 0.0);
        assert_eq!(unreachable(&cut(0)), None);
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
