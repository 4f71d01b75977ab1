//! Doubts of a run and its steps, gathered: where several steps share a doubt, it is said once, with the
//! worst of them. How one is worded stands in [`said`].

use std::mem::{Discriminant, discriminant};

use wallfinder_model::{Caveat, Record, Step};

use crate::said::{self, Worded};

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
            let mut worded = said::caveat(kind.worst);
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
    let index = kinds
        .iter()
        .position(|kind| kind.key == key && (kind.worst == caveat || !is_by_itself(caveat)));
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

/// What tells two doubts of one sort apart: the side, the class, the driver, the reason, the words.
fn about(caveat: &Caveat) -> &str {
    match caveat {
        Caveat::Errors { class: about, .. }
        | Caveat::ServerNotSeen { why: about }
        | Caveat::ClientLost { host: about, .. }
        | Caveat::DriverReportUnread { why: about }
        | Caveat::DriverTimeRounded { driver: about, .. }
        | Caveat::DriverPrintsMore { driver: about, .. }
        | Caveat::LatencyInSteps { driver: about, .. }
        | Caveat::LatencyMadeUp { driver: about, .. }
        | Caveat::DriverLeftRunning { command: about, .. }
        | Caveat::DriverNotWeighed { why: about }
        | Caveat::NothingProfiled { why: Some(about) }
        | Caveat::OtherWeightsUnmeasured { why: about }
        | Caveat::NoCeiling { why: about }
        | Caveat::UnpreparedServer { why: about, .. }
        | Caveat::NothingMoreAsked { why: about }
        | Caveat::ServersUneven { most: about, .. }
        | Caveat::HostClockMoved { host: about, .. }
        | Caveat::HostStoodStill { host: about, .. }
        | Caveat::WatchLost { role: about, .. }
        | Caveat::Incomplete { what: about }
        | Caveat::Anomaly { what: about, .. }
        | Caveat::Note { text: about }
        | Caveat::CutShort { why: about } => about,
        Caveat::Neighbour { side, .. }
        | Caveat::SoftirqElsewhere { side, .. }
        | Caveat::Throttled { side, .. } => side.label(),
        Caveat::ProvedAllTheSame { squeeze, .. } => squeeze.map_or("", |it| it.label()),
        Caveat::Inert { squeeze }
        | Caveat::OutOfReach { squeeze, .. }
        | Caveat::OverUse { squeeze, .. }
        | Caveat::Rose { squeeze, .. }
        | Caveat::NotInForce { squeeze, .. } => squeeze.label(),
        _ => "",
    }
}

/// Whether two of one sort that differ are two doubts.
fn is_by_itself(caveat: &Caveat) -> bool {
    matches!(
        caveat,
        Caveat::LikelyOnly { .. } | Caveat::NotSqueezed { .. } | Caveat::FailuresUnseen { .. }
    )
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
        Caveat::Gap { gap_ns, .. }
        | Caveat::TelemetryGap { gap_ns, .. }
        | Caveat::HostStoodStill { gap_ns, .. } => *gap_ns as f64,
        Caveat::HostClockMoved { by_ns, .. } => *by_ns as f64,
        Caveat::LatencyInSteps { step_ns, .. } => *step_ns as f64,
        Caveat::DriverPrintsMore {
            printed, counted, ..
        } => printed / (*counted).max(1) as f64,
        Caveat::ServersUneven {
            most_used,
            least_used,
            ..
        } => most_used - least_used,
        Caveat::DriverLeftRunning { processes, .. } => *processes as f64,
        Caveat::MeasuredBefore { steps, .. } => *steps as f64,
        Caveat::RelayBehind { busy_share, .. } => *busy_share,
        Caveat::AllowanceExceeded { counted, .. } => counted.values().sum::<u64>() as f64,
        Caveat::ClockStepped { by_ns } => by_ns.unsigned_abs() as f64,
        Caveat::BeyondHistogram { count }
        | Caveat::SamplesDropped { count }
        | Caveat::Anomaly { count, .. } => *count as f64,
        Caveat::Backlog { requests } => *requests as f64,
        Caveat::ClientLost { unknown, .. } => *unknown as f64,
        Caveat::ServerNotSeen { .. }
        | Caveat::SubjectEnded { .. }
        | Caveat::NotVerified
        | Caveat::MeasuredAgain { .. }
        | Caveat::LeftOut { .. }
        | Caveat::DriverReportUnread { .. }
        | Caveat::DriverTargetUnchecked
        | Caveat::DriverTimeRounded { .. }
        | Caveat::LatencyMadeUp { .. }
        | Caveat::DriverNotWeighed { .. }
        | Caveat::NothingProfiled { .. }
        | Caveat::OtherWeightsUnmeasured { .. }
        | Caveat::NoCeiling { .. }
        | Caveat::UnpreparedServer { .. }
        | Caveat::UnpreparedServerFails
        | Caveat::NothingMoreAsked { .. }
        | Caveat::WatchLost { .. }
        | Caveat::SharedCores { .. }
        | Caveat::Incomplete { .. }
        | Caveat::FailuresUncounted
        | Caveat::NullUnknown
        | Caveat::LikelyOnly { .. }
        | Caveat::NotSqueezed { .. }
        | Caveat::Inert { .. }
        | Caveat::OutOfReach { .. }
        | Caveat::OutlastWashOut
        | Caveat::CutShort { .. }
        | Caveat::Note { .. } => 0.0,
        Caveat::WorkersTakeTurns { workers, cpus } => *workers as f64 / (*cpus).max(1) as f64,
        Caveat::OtherAnswers { ratio } => ratio.ln().abs(),
        Caveat::FailuresUnseen { reported } => reported.unwrap_or(1.0),
        Caveat::NullWide { low, high } => high - low,
        Caveat::ProvedAllTheSame { least, .. } => -least,
        Caveat::OverUse { measured, most, .. } => measured - most,
        Caveat::Rose { value, .. } => -value,
        Caveat::Fed { most } => *most,
        Caveat::Warmed { for_ns, .. } => *for_ns as f64,
        Caveat::SessionsOutlast { took_ns, .. } => *took_ns as f64,
        Caveat::NotInForce { share, .. } => *share,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wallfinder_model::reason::Side;

    #[test]
    fn a_doubt_of_many_steps_is_said_once_with_the_worst() {
        let near = Caveat::Neighbour {
            side: Side::Client,
            cores: 0.2,
        };
        let far = Caveat::Neighbour {
            side: Side::Client,
            cores: 0.4,
        };
        let server = Caveat::Neighbour {
            side: Side::Server,
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

    #[test]
    fn what_two_drivers_do_and_what_has_two_reasons_are_two_doubts() {
        let in_steps = |driver: &str| Caveat::LatencyInSteps {
            driver: driver.to_owned(),
            step_ns: 1_000_000,
        };
        let none = |why: &str| Caveat::NoCeiling {
            why: why.to_owned(),
        };
        let all = [
            in_steps("autocannon"),
            in_steps("ghz"),
            none("every body is decoded"),
            none("too few descriptors"),
            in_steps("ghz"),
        ];
        let mut kinds = Vec::new();
        for (step, caveat) in all.iter().enumerate() {
            gather(&mut kinds, caveat, Some(step));
        }
        let steps: Vec<&[usize]> = kinds.iter().map(|kind| &kind.steps[..]).collect();
        assert_eq!(steps, [&[0][..], &[1, 4], &[2], &[3]]);
    }
}
