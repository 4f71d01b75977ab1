//! Doubt in words, with what to do about it.
//!
//! The judge types a doubt ([`Caveat`]); here it is worded. Where several steps share a
//! doubt, it is said once, with the worst of them.

use std::mem::{Discriminant, discriminant};

use wallfinder_model::{Caveat, Record, Step};

use crate::words::{capital, sentence};
use crate::{number, words};

/// A doubt in words: what is so, and what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worded {
    /// What is so, the number included.
    pub fact: String,
    /// What to do, where there is something to do.
    pub advice: Option<String>,
}

impl Worded {
    /// Both in one line.
    pub fn line(&self) -> String {
        match &self.advice {
            Some(advice) => format!("{} {advice}", self.fact),
            None => self.fact.clone(),
        }
    }
}

/// `the client's` or `the server's`; another side by its name.
fn whose(side: &str) -> String {
    format!("the {side}'s")
}

/// The side across.
fn other(side: &str) -> &'static str {
    match side {
        "client" => "server",
        "server" => "client",
        _ => "other side",
    }
}

fn list(cpus: &[u32]) -> String {
    let shown: Vec<String> = cpus.iter().take(8).map(u32::to_string).collect();
    let more = if cpus.len() > 8 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// A doubt in words.
pub fn caveat(caveat: &Caveat) -> Worded {
    let (fact, advice) = match caveat {
        Caveat::StealAbove { share } => (
            format!(
                "The hypervisor took {} of the processors.",
                number::share(*share)
            ),
            "Repeat on a quieter machine before comparing numbers.",
        ),
        Caveat::Errors { share, class } => (
            format!(
                "{} of what was tried failed, most of it with {class}.",
                number::share(*share)
            ),
            "Throughput and latency are of good answers only; find the cause first.",
        ),
        Caveat::Redirects {
            count,
            answers,
            statuses,
        } => (
            format!(
                "{} of {} answers were redirects ({}): the load measured those, and not the page that they lead to.",
                number::whole(*count),
                number::whole(*answers),
                list(
                    &statuses
                        .iter()
                        .map(|status| u32::from(*status))
                        .collect::<Vec<_>>()
                )
            ),
            "Give the final URL, which `curl -sIL` tells.",
        ),
        Caveat::Unreachable {
            at_ns,
            for_ns,
            window_ns,
            outages,
        } => {
            let from = at_ns.map(|at_ns| format!(" from {} on", number::span(at_ns as f64)));
            let times = match outages {
                0 | 1 => String::new(),
                n => format!(", in {} outages", number::whole(*n)),
            };
            (
                format!(
                    "The server could not be reached for {}{} of a window of {}{times}.",
                    number::span(*for_ns as f64),
                    from.unwrap_or_default(),
                    number::length(*window_ns)
                ),
                "Throughput is of the whole window, the outage included; latency is of what was answered.",
            )
        }
        Caveat::Unanswered {
            in_flight,
            not_sent,
            oldest_ns,
            waited_ns,
            bounds,
        } => {
            let mut parts = Vec::new();
            if *in_flight > 0 {
                let sent = words::counted(*in_flight, "request");
                parts.push(format!("{sent} had no answer"));
            }
            if *not_sent > 0 {
                let due = words::counted(*not_sent, "request");
                parts.push(format!("{due} waited unsent for a free connection"));
            }
            let which = match bounds.is_empty() {
                true => String::new(),
                false => format!(" Lower bounds, for these could move them: {}.", bounds.join(", ")),
            };
            (
                format!(
                    "{} {} after the window's end, the oldest for {}.{which}",
                    parts.join(", and "),
                    number::span(*waited_ns as f64),
                    number::span(*oldest_ns as f64)
                ),
                "--drain TIME waits longer for those that were sent.",
            )
        }
        Caveat::LateByClient { count, timeouts } => (
            format!(
                "{} of {} timeouts may be the load generator's own: it sent the requests or read their answers so late.",
                number::whole(*count),
                number::whole(*timeouts)
            ),
            "Give the client processors of its own (--client-cpus), or raise --timeout.",
        ),
        Caveat::FewerConnections {
            asked,
            most,
            mean,
            answering,
        } => (
            format!(
                "{} connections were asked for; at most {} were open at a time, {} on average, and {} brought an answer.",
                number::whole(*asked),
                number::whole(*most),
                number::amount(*mean),
                number::whole(*answering)
            ),
            "Look at the server's limit of connections and its backlog (`ss -lnt`), and at `ulimit -n` on both sides.",
        ),
        Caveat::SubjectEnded { how, said } => {
            let said = match said.is_empty() {
                true => ", and said nothing".to_owned(),
                false => format!(". It said: {}", said.replace('\n', " / ")),
            };
            (
                format!(
                    "The server that was started for the run ended during the load, with {how}{said}"
                ),
                "",
            )
        }
        Caveat::WorkersLate { p999_ns } => (
            format!(
                "The workers ran late against their own schedule: p99.9 of lateness is {}.",
                number::span(*p999_ns as f64)
            ),
            "Give them more processors (-t, --client-cpus) or ask for a lower rate.",
        ),
        Caveat::RateMissed { asked, sent } => (
            format!(
                "{} requests/s were asked for and {} were sent.",
                number::amount(*asked),
                number::amount(*sent)
            ),
            "The tail below is of the rate that was sent. Allow more connections or in-flight, or ask for less.",
        ),
        Caveat::LittleMismatch { ratio } => (
            format!(
                "In flight, throughput and latency do not fit each other: N / (X·R) is {} and should be 1.",
                number::factor(*ratio)
            ),
            "One of the three is not what it seems; trust none of them yet.",
        ),
        Caveat::MeasuredAgain { why } => (
            format!("What was disturbed was measured again: {why}."),
            "Claims look at the second; the first stands beside it.",
        ),
        Caveat::NotSteady { ratio, at_ns } => (
            format!(
                "Throughput changed within the window, to {} × after {}.",
                number::factor(*ratio),
                number::span(*at_ns as f64)
            ),
            "Warm up longer (--warmup), or look at the intervals for what happened then.",
        ),
        Caveat::SharedProcessors { cpus } => (
            format!("Client and server shared processors ({}).", list(cpus)),
            "Each takes time from the other: keep them apart with --client-cpus, and --server-cpus or, for a server that stands, taskset.",
        ),
        Caveat::Neighbour { side, cores } => (
            format!(
                "Others used {} cores of {} processors.",
                number::amount(*cores),
                whose(side)
            ),
            "Stop them, or pin this run elsewhere.",
        ),
        Caveat::SoftirqElsewhere { side, share } => (
            format!(
                "{} of {} processors went to receive work of the {}.",
                number::share(*share),
                whose(side),
                other(side)
            ),
            "On veth and loopback the sender's processor pays for it; on two machines it would not.",
        ),
        Caveat::ServerNotSeen { why } => (
            format!("The server's processes could not be seen: {why}"),
            "Name them with --server-pid.",
        ),
        Caveat::FewAnswers { answers } => (
            format!(
                "Only {} answers: the outer percentiles rest on a handful of values.",
                number::whole(*answers)
            ),
            "Measure longer (-d), or more of them (-n).",
        ),
        Caveat::FewTurns { answers, in_flight } => (
            format!(
                "{} answers for {} requests in flight: throughput is known no better than to {}, for \
                 those under way as the window opens and closes.",
                number::whole(*answers),
                number::whole(*in_flight),
                number::share(*in_flight as f64 / (*answers).max(1) as f64)
            ),
            "Measure longer (-d) or more of them (-n), or keep fewer in flight (-c).",
        ),
        Caveat::WindowCut {
            planned_ns,
            actual_ns,
        } => (
            format!(
                "The window was {} long instead of {}.",
                number::span(*actual_ns as f64),
                number::length(*planned_ns)
            ),
            "",
        ),
        Caveat::Gap { gap_ns, at_ns } => (
            format!(
                "The machine or this process stood still for {} at {}.",
                number::span(*gap_ns as f64),
                number::span(*at_ns as f64)
            ),
            "Latencies around it are not the server's.",
        ),
        Caveat::TelemetryGap { gap_ns, at_ns } => (
            format!(
                "Telemetry stood still for {} at {}, and the load went on.",
                number::span(*gap_ns as f64),
                number::span(*at_ns as f64)
            ),
            "The processors were full; what happened meanwhile is known as a sum.",
        ),
        Caveat::RelayBehind {
            delay_ns,
            dropped,
            late_p99_ns,
            busy_share,
        } => (
            format!(
                "The relay that delays the link's packets by {} lost {} of them, was {} late \
                 with one in a hundred, and was busy for {} of a processor.",
                number::span(*delay_ns as f64),
                number::whole(*dropped),
                number::span(*late_p99_ns as f64),
                number::share(*busy_share)
            ),
            "It may be the limit, and not the link: ask for less at a time, larger packets, or a \
             processor that nobody else has.",
        ),
        Caveat::ClockStepped { by_ns } => (
            format!(
                "The wall clock was stepped {} by {} during the run.",
                if *by_ns < 0 { "back" } else { "forward" },
                number::span(by_ns.unsigned_abs() as f64)
            ),
            "Durations are unaffected; timestamps are not comparable across it.",
        ),
        Caveat::Throttled { side, share } => (
            format!(
                "{} processor group was throttled in {} of its periods.",
                capital(&whose(side)),
                number::share(*share)
            ),
            "Its quota is the limit, not the processors: raise it, or read p99 with that in mind.",
        ),
        Caveat::DriverReportUnread { why } => (
            format!("The driver's own report was not understood: {why}"),
            "Throughput is counted on the wire instead; latency is not known.",
        ),
        Caveat::DriverTargetUnchecked => (
            "The driver's command neither takes the target nor names an address: where its load went was \
             not checked."
                .to_owned(),
            "Write {url} or {address} into it, or let its script read WALLFINDER_URL and say so in the \
             command, such as -e URL={url}.",
        ),
        Caveat::Incomplete { what } => (format!("The run did not end as planned: {what}"), ""),
        Caveat::BeyondHistogram { count } => (
            format!(
                "{} values lay beyond the histogram and are in no percentile.",
                number::whole(*count)
            ),
            "The maximum shown is the range's end.",
        ),
        Caveat::Anomaly { what, count } => (
            format!(
                "The peer did something odd that was survived: {what}, {} ×.",
                number::whole(*count)
            ),
            "",
        ),
        Caveat::SamplesDropped { count } => (
            format!(
                "{} requests are missing from the samples: they could not be written fast enough.",
                number::whole(*count)
            ),
            "Histograms and counts have all of them. Write to a faster disk, or offer less load.",
        ),
        Caveat::NotVerified => (
            "The server's certificate was not verified: whoever listened there was loaded."
                .to_owned(),
            "Of a server that the run did not start itself, name who signed it: --cacert in the place of -k.",
        ),
        Caveat::Backlog { requests } => (
            format!(
                "{} requests were due and not sent when the window closed.",
                number::whole(*requests)
            ),
            "The target does not keep up with this rate; latency grows as long as it lasts.",
        ),
        Caveat::Note { text } => (text.clone(), ""),
    };
    Worded {
        fact: sentence(&fact),
        advice: (!advice.is_empty()).then(|| advice.to_owned()),
    }
}

/// The doubts of a run and of some of its steps, each kind of doubt once, in the order of
/// their first appearance.
pub fn of<'r>(record: &'r Record, steps: impl IntoIterator<Item = &'r Step>) -> Vec<Worded> {
    of_kept(record, steps, |_| true)
}

/// The same, of the doubts that are to be kept.
pub(crate) fn of_kept<'r>(
    record: &'r Record,
    steps: impl IntoIterator<Item = &'r Step>,
    keep: impl Fn(&Caveat) -> bool,
) -> Vec<Worded> {
    let mut kinds: Vec<Kind<'r>> = Vec::new();
    for caveat in record.caveats.iter().filter(|caveat| keep(caveat)) {
        gather(&mut kinds, caveat, None);
    }
    for (index, step) in steps.into_iter().enumerate() {
        let judged = step.verdict.iter().flat_map(|verdict| &verdict.caveats);
        let all = step.caveats.iter().chain(judged);
        // Of what was measured again nothing else is of interest.
        let again = |caveat: &&Caveat| matches!(caveat, Caveat::MeasuredAgain { .. });
        let all = all.filter(|caveat| !step.measured_again() || again(caveat));
        for caveat in all.filter(|caveat| keep(caveat)) {
            gather(&mut kinds, caveat, Some(index));
        }
    }
    kinds
        .into_iter()
        .map(|kind| {
            let mut worded = caveat(kind.worst);
            if kind.steps.len() > 1 {
                let fact = worded.fact.trim_end_matches('.');
                worded.fact = format!("{fact} (worst of {} steps).", kind.steps.len());
            }
            worded
        })
        .filter(|worded| !worded.fact.is_empty())
        .collect()
}

/// One kind of doubt, and who has it.
struct Kind<'c> {
    key: (Discriminant<Caveat>, &'c str),
    worst: &'c Caveat,
    steps: Vec<usize>,
}

fn gather<'c>(kinds: &mut Vec<Kind<'c>>, caveat: &'c Caveat, step: Option<usize>) {
    let key = (discriminant(caveat), about(caveat));
    let index = kinds.iter().position(|kind| kind.key == key);
    let kind = match index {
        Some(index) => &mut kinds[index],
        None => {
            kinds.push(Kind {
                key,
                worst: caveat,
                steps: Vec::new(),
            });
            kinds.last_mut().expect("one was just added")
        }
    };
    if severity(caveat) > severity(kind.worst) {
        kind.worst = caveat;
    }
    if let Some(step) = step
        && kind.steps.last() != Some(&step)
    {
        kind.steps.push(step);
    }
}

/// What tells two doubts of one sort apart: the side, the class, the words.
fn about(caveat: &Caveat) -> &str {
    match caveat {
        Caveat::Errors { class: about, .. }
        | Caveat::Neighbour { side: about, .. }
        | Caveat::SoftirqElsewhere { side: about, .. }
        | Caveat::Throttled { side: about, .. }
        | Caveat::ServerNotSeen { why: about }
        | Caveat::DriverReportUnread { why: about }
        | Caveat::Incomplete { what: about }
        | Caveat::Anomaly { what: about, .. }
        | Caveat::Note { text: about } => about,
        _ => "",
    }
}

/// How bad, among doubts of one kind.
fn severity(caveat: &Caveat) -> f64 {
    match caveat {
        Caveat::Redirects { count, answers, .. } => *count as f64 / (*answers).max(1) as f64,
        Caveat::Unreachable { for_ns, .. } => *for_ns as f64,
        Caveat::Unanswered {
            in_flight,
            not_sent,
            ..
        } => *in_flight as f64 + *not_sent as f64,
        Caveat::LateByClient { count, .. } => *count as f64,
        Caveat::FewerConnections { asked, mean, .. } => *asked as f64 - mean,
        Caveat::StealAbove { share }
        | Caveat::Errors { share, .. }
        | Caveat::SoftirqElsewhere { share, .. }
        | Caveat::Throttled { share, .. } => *share,
        Caveat::WorkersLate { p999_ns } => *p999_ns as f64,
        Caveat::RateMissed { asked, sent } => asked - sent,
        Caveat::LittleMismatch { ratio } | Caveat::NotSteady { ratio, .. } => ratio.ln().abs(),
        Caveat::SharedProcessors { cpus } => cpus.len() as f64,
        Caveat::Neighbour { cores, .. } => *cores,
        Caveat::FewAnswers { answers } => -(*answers as f64),
        Caveat::FewTurns { answers, in_flight } => *in_flight as f64 / (*answers).max(1) as f64,
        Caveat::WindowCut {
            planned_ns,
            actual_ns,
        } => *planned_ns as f64 - *actual_ns as f64,
        Caveat::Gap { gap_ns, .. } | Caveat::TelemetryGap { gap_ns, .. } => *gap_ns as f64,
        Caveat::RelayBehind { busy_share, .. } => *busy_share,
        Caveat::ClockStepped { by_ns } => by_ns.unsigned_abs() as f64,
        Caveat::BeyondHistogram { count }
        | Caveat::SamplesDropped { count }
        | Caveat::Anomaly { count, .. } => *count as f64,
        Caveat::Backlog { requests } => *requests as f64,
        Caveat::ServerNotSeen { .. }
        | Caveat::SubjectEnded { .. }
        | Caveat::NotVerified
        | Caveat::MeasuredAgain { .. }
        | Caveat::DriverReportUnread { .. }
        | Caveat::DriverTargetUnchecked
        | Caveat::Incomplete { .. }
        | Caveat::Note { .. } => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_that_is_behind_says_by_how_much() {
        let worded = caveat(&Caveat::RelayBehind {
            delay_ns: 10_000_000,
            dropped: 3,
            late_p99_ns: 1_500_000,
            busy_share: 0.8,
        });
        for part in ["by 10.0 ms lost 3", "1.50 ms late", "80 %"] {
            assert!(worded.fact.contains(part), "{part}: {}", worded.fact);
        }
    }

    #[test]
    fn doubts_are_sentences_with_advice() {
        let worded = caveat(&Caveat::SoftirqElsewhere {
            side: "client".into(),
            share: 0.14,
        });
        assert_eq!(
            worded.fact,
            "14 % of the client's processors went to receive work of the server."
        );
        assert!(worded.advice.is_some());
        let worded = caveat(&Caveat::Throttled {
            side: "server".into(),
            share: 0.5,
        });
        assert!(worded.fact.starts_with("The server's processor group"));
        let note = caveat(&Caveat::Note {
            text: "Short".into(),
        });
        assert_eq!(note.line(), "Short.");
    }

    #[test]
    fn a_doubt_of_many_steps_is_said_once_with_the_worst() {
        let near = Caveat::Neighbour {
            side: "client".into(),
            cores: 0.2,
        };
        let far = Caveat::Neighbour {
            side: "client".into(),
            cores: 0.4,
        };
        let server = Caveat::Neighbour {
            side: "server".into(),
            cores: 0.1,
        };
        let mut kinds = Vec::new();
        for (step, caveat) in [(0, &near), (1, &far), (1, &server), (2, &near)] {
            gather(&mut kinds, caveat, Some(step));
        }
        assert_eq!(kinds.len(), 2);
        assert_eq!(kinds[0].worst, &far);
        assert_eq!(kinds[0].steps, [0, 1, 2]);
    }
}
