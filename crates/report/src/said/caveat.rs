//! Doubt in words, with what to do about it.

use wallfinder_model::Caveat;
use wallfinder_model::experiment::Squeeze;
use wallfinder_model::reason::{Doubt, Side};

use super::fact::small;
use super::reason::unsqueezed;
use super::{resource, squeeze as named_squeeze};
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

/// `the client's` or `the server's`.
fn whose(side: Side) -> String {
    format!("the {}'s", side.label())
}

/// The side across.
const fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

fn list(cpus: &[u32]) -> String {
    let shown: Vec<String> = cpus.iter().take(8).map(u32::to_string).collect();
    let more = if cpus.len() > 8 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// What is known of a reason, or what most likely is one.
fn known<'w>(why: &'w str, otherwise: &'w str) -> &'w str {
    match why {
        "" => otherwise,
        why => why,
    }
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
                let unsent = words::counted(*not_sent, "request");
                parts.push(format!("{unsent} waited unsent for a free connection"));
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
        Caveat::LeftOut { step, why } => (
            format!("Left out {step}: {why}."),
            "Claims that need it stay open.",
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
                "Others used {} of {} processors.",
                words::cores(*cores),
                whose(*side)
            ),
            "Stop them, or pin this run elsewhere.",
        ),
        Caveat::SoftirqElsewhere { side, share } => (
            format!(
                "{} of {} processors went to receive work of the {}.",
                number::share(*share),
                whose(*side),
                other(*side).label()
            ),
            "On veth and loopback the sender's processor pays for it; on two machines it would not.",
        ),
        Caveat::ClientLost { host, why, unknown } => (
            format!(
                "The client host {host} was lost ({}): {} of its requests are unknown, and its part is missing.",
                known(why, "nobody knows why"),
                number::whole(*unknown)
            ),
            "Nothing follows from this step for walls: see after that host, and measure again.",
        ),
        Caveat::ServerNotSeen { why } => (
            format!(
                "The server's processes could not be seen: {}",
                known(why, "they were not found on this machine, or may not be read")
            ),
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
        Caveat::AllowanceExceeded { interface, counted } => {
            let each: Vec<String> = counted
                .iter()
                .map(|(name, count)| format!("{name} {}", number::whole(*count)))
                .collect();
            (
                format!(
                    "The driver of {interface} counted what was held up or lost beyond the machine's allowance: {}.",
                    each.join(", ")
                ),
                "Who rents the machine out bounds it below the card's speed: another size of machine has another allowance.",
            )
        }
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
                capital(&whose(*side)),
                number::share(*share)
            ),
            "Its quota is the limit, not the processors: raise it, or read p99 with that in mind.",
        ),
        Caveat::DriverReportUnread { why } => (
            format!(
                "The driver's own report was not understood: {}",
                known(why, "its output holds no figures")
            ),
            "Throughput is counted on the wire instead; latency is not known.",
        ),
        Caveat::DriverTargetUnchecked => (
            "The driver's command neither takes the target nor names an address: where its load went was \
             not checked."
                .to_owned(),
            "Write {url} or {address} into it, or let its script read WALLFINDER_URL and say so in the \
             command, such as -e URL={url}.",
        ),
        Caveat::DriverTimeRounded {
            driver,
            duration_ns,
            requests,
        } => (
            format!(
                "{driver} tells of {}, which goes on to a whole second: its {} requests took less, and what the window had of them stands here.",
                number::length(*duration_ns),
                number::whole(*requests)
            ),
            "",
        ),
        Caveat::DriverPrintsMore {
            driver,
            printed,
            counted,
            duration_ns,
        } => (
            format!(
                "{driver} prints {} requests/s, but counted {} in {}: it prints an average of samples, which can come late, and what it counted stands here.",
                number::amount(*printed),
                number::whole(*counted),
                number::length(*duration_ns)
            ),
            "",
        ),
        Caveat::LatencyInSteps { driver, step_ns } => (
            format!(
                "{driver} tells latency in steps of {}: N/X beside it shows what that hides.",
                number::length(*step_ns)
            ),
            "",
        ),
        Caveat::LatencyMadeUp { driver, is_told } => (
            format!(
                "{driver} adds latencies of requests that it never sent to those that it measured: {}.",
                match is_told {
                    true => "its mean and its quantiles are of both",
                    false => "only the largest is told here, and -C makes it keep to what it measured",
                }
            ),
            "",
        ),
        Caveat::DriverLeftRunning {
            command,
            processes,
            names,
        } => (
            format!(
                "The driver `{command}` ended and left {processes} of its processes running, which were ended too ({}): what they would have loaded is missing, so a driver has to run in the foreground.",
                names.join(", ")
            ),
            "",
        ),
        Caveat::DriverNotWeighed { why } => (
            format!(
                "Throughput is counted on the wire as if the driver's requests were as long as ours: its own packets could not be weighed ({why})."
            ),
            "",
        ),
        Caveat::NothingProfiled { why: None } => (
            "Nothing was profiled: the load was not seen for long enough.".to_owned(),
            "",
        ),
        Caveat::NothingProfiled { why: Some(why) } => {
            (format!("The server was not profiled: {why}"), "")
        }
        Caveat::OtherWeightsUnmeasured { why } => (
            format!(
                "Other weights were not measured, so requests that cost each other were not looked for: {why}"
            ),
            "",
        ),
        Caveat::NoCeiling { why } => (
            format!("There is no ceiling of the workers beside the result: {why}"),
            "",
        ),
        Caveat::UnpreparedServer { why, round } => (
            format!(
                "The server was started anew before round {round}, and {why}. It is not started again; the load goes on as it was set up before."
            ),
            "",
        ),
        Caveat::UnpreparedServerFails => (
            "Requests failed at that server, so what was measured before it was started anew counts alone."
                .to_owned(),
            "",
        ),
        Caveat::NothingMoreAsked { why } => (
            format!(
                "{why}. No more is asked of the server: neither one request at a time, nor other mixes."
            ),
            "",
        ),
        Caveat::HostClockMoved { host, by_ns } => (
            format!(
                "The clock of {host} moved by {} against this host's: one of the two machines stood still. What happened on one is placed beside the other by round trips from then on.",
                number::length(*by_ns)
            ),
            "",
        ),
        Caveat::WatchLost { role, why } => (
            format!("The {role}'s host was lost while it was watched: {why}"),
            "",
        ),
        Caveat::HostStoodStill {
            host,
            gap_ns,
            at_ns,
        } => (
            format!(
                "The host {host}, or its agent, stood still for {} at {}; the others went on.",
                number::span(*gap_ns as f64),
                number::span(*at_ns as f64)
            ),
            "",
        ),
        Caveat::ServersUneven {
            most,
            most_used,
            least,
            least_used,
        } => (
            format!(
                "The servers are not used evenly: the processors of {most} for {}, those of {least} for {}. What is squeezed on all of them tells most of the one that is full first.",
                number::share(*most_used),
                number::share(*least_used)
            ),
            "",
        ),
        Caveat::SharedCores { client, server } => (
            format!(
                "Client and server share cores (processors {} of the client's are siblings of {} of the server's): what is taken from one may speed the other up.",
                list(client),
                list(server)
            ),
            "Keep them on cores of their own with --client-cpus and --server-cpus.",
        ),
        Caveat::MeasuredBefore { steps, runs } => (
            format!(
                "{steps} steps were measured in runs that were cut short ({}), where their samples and profiles are.",
                runs.join(", ")
            ),
            "",
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
                "{} requests were to start in the window and were not sent when it closed.",
                number::whole(*requests)
            ),
            "The target does not keep up with this rate; latency grows as long as it lasts.",
        ),
        Caveat::WorkersTakeTurns { workers, cpus } => (
            format!(
                "{} took turns on {}.",
                words::counted(*workers, "worker"),
                words::counted(*cpus, "processor")
            ),
            "",
        ),
        Caveat::FailuresUncounted => (
            "Nobody counted failures: the driver's own report was not understood, and on the wire an error is as good as an answer."
                .to_owned(),
            "",
        ),
        Caveat::OtherAnswers { ratio } => (
            format!(
                "With nothing squeezed the wire carries {} of the bytes per second that the driver's load had before: its answers may be others by now, such as errors.",
                number::share(*ratio)
            ),
            "",
        ),
        Caveat::FailuresUnseen { reported } => {
            let unseen = "Failures and latencies within the windows of a foreign driver are not seen, for its answers are counted by their bytes.";
            let reported = match reported {
                None => "",
                Some(share) if *share > 0.0 => {
                    " By its own report of this load, before any squeeze, fewer than one in a thousand failed."
                }
                Some(_) => " By its own report of this load, before any squeeze, none failed.",
            };
            (format!("{unseen}{reported}"), "")
        }
        Caveat::NullUnknown => (
            "There were too few windows with nothing squeezed to compare them.".to_owned(),
            "",
        ),
        Caveat::NullWide { low, high } => (
            format!(
                "Windows with nothing squeezed differ by {} to {} from their neighbours, as far as is known; a proof needs less than 2 %.",
                small(*low),
                small(*high)
            ),
            "",
        ),
        Caveat::LikelyOnly { doubt } => (
            format!("Likely, and not proved: {}.", self::doubt(doubt)),
            "",
        ),
        Caveat::ProvedAllTheSame { squeeze, least } => (
            format!(
                "Proved all the same: with the most that nothing may have cost taken from it, {} still reads at least {}.",
                squeeze.map_or("what no squeeze reaches", resource),
                number::cores(*least)
            ),
            "",
        ),
        Caveat::Fed { most } => (
            format!(
                "The client ran on the server's processors and may have used what was taken from the server: its elasticities may be up to {} larger than they read.",
                number::elasticity(*most)
            ),
            "Keep them apart with --client-cpus and --server-cpus.",
        ),
        Caveat::Warmed { for_ns, ratio, over } => (
            format!(
                "Throughput rose to {} of what it was first; {} for that before squeezing, and the server was not started anew.{}",
                number::share(*ratio),
                format_args!("{} were waited", number::span(*for_ns as f64)),
                if *over { "" } else { " It still rose then." }
            ),
            "",
        ),
        Caveat::SessionsOutlast {
            session,
            took_ns,
            window_ns,
        } => (
            format!(
                "What each request of the mix costs is not told: a session of {session} takes {}, and windows that tell are {} long at the most.",
                number::span(*took_ns as f64),
                number::length(*window_ns),
            ),
            "Give them the time with --window, twice that at the least, or take pauses out of its steps.",
        ),
        Caveat::NotSqueezed { missing } => (format!("Not proved: {}.", unsqueezed(missing)), ""),
        Caveat::Inert { squeeze } => (
            format!(
                "By telemetry {} should cost throughput at half, and it did not: the squeeze does not work, or what looks busy is not at work.",
                named_squeeze(*squeeze)
            ),
            "",
        ),
        Caveat::OutOfReach { squeeze, why } => (
            capital(&format!("{} was out of reach: {why}", named_squeeze(*squeeze))),
            "",
        ),
        Caveat::OutlastWashOut => (
            "Answers take longer than the wait between two windows: what was in flight could not be squeezed within them."
                .to_owned(),
            "",
        ),
        Caveat::OverUse {
            squeeze,
            measured,
            most,
            cores,
        } => (
            format!(
                "{} read {measured:.2}, of which at most {most:.2} can be the processors' speed, for only {} cores were at work. The rest is delay: threads that wake up wait until the squeeze lets go of their processor.",
                capital(resource(*squeeze)),
                number::cores(*cores)
            ),
            "",
        ),
        Caveat::Rose {
            squeeze,
            value,
            low,
            high,
            by_bytes,
        } => {
            let why = match squeeze {
                Squeeze::InFlight | Squeeze::ThinkTime | Squeeze::OfferedLoad => {
                    "so much at a time stands in its own way"
                }
                _ => "what was taken stood in the way of the other side",
            };
            let or = match by_bytes {
                true => " Or the count is off, for a driver's answers are counted by their bytes.",
                false => "",
            };
            (
                format!(
                    "Throughput rose under the squeeze of {}, by {} % for each per cent that was taken [{}, {}]. That is no wall: {why}.{or}",
                    named_squeeze(*squeeze),
                    number::cores(-value),
                    number::cores(-high),
                    number::cores(-low)
                ),
                "",
            )
        }
        Caveat::NotInForce { squeeze, share } => (
            capital(&format!(
                "{} was not in force in {} of its windows; they are no evidence.",
                named_squeeze(*squeeze),
                number::share(*share)
            )),
            "",
        ),
        Caveat::CutShort { why } => (format!("The experiment was cut short: {why}"), ""),
        Caveat::Note { text } => (text.clone(), ""),
    };
    Worded {
        fact: sentence(&fact),
        advice: (!advice.is_empty()).then(|| advice.to_owned()),
    }
}

/// Why a wall that squeezes name is not called proved, as a clause.
fn doubt(doubt: &Doubt) -> String {
    match doubt {
        Doubt::FewRounds { rounds, needed } => {
            let rounds = words::counted(u64::from(*rounds), "round");
            format!("it rests on {rounds}, and a proof needs {needed}")
        }
        Doubt::FewRoundsOf {
            squeeze,
            rounds,
            needed,
        } => format!(
            "{} told in {} at the dose that counts, and a proof needs {needed} of each squeeze",
            named_squeeze(*squeeze),
            words::counted(u64::from(*rounds), "round")
        ),
        Doubt::ChancesShared => "its interval lies above 0.5, but not once the chances of an error are shared over all squeezes and looks".to_owned(),
        Doubt::BelowHalf => "its interval reaches below 0.5".to_owned(),
        Doubt::Bent => "its small dose moves less than its share of the large one".to_owned(),
        Doubt::BentAlone { squeeze } => format!(
            "at a small dose {} moves throughput less than at a large one: something that was not squeezed binds just before it",
            named_squeeze(*squeeze)
        ),
        Doubt::DosesDisagree { squeeze } => format!(
            "{} moves throughput more at the small dose than at the large one: the doses disagree",
            named_squeeze(*squeeze)
        ),
        Doubt::SmallDoseFew { rounds, needed } => {
            format!("its small dose told in {rounds} rounds, and {needed} are needed")
        }
        Doubt::SmallDoseNothing => "its small dose is not known to move anything".to_owned(),
        Doubt::SmallDoseLittle => {
            "its small dose moves less than half of what a wall would".to_owned()
        }
        Doubt::MoreInVain => {
            "more in flight was tried, and is not known to have carried more".to_owned()
        }
        Doubt::ShareUnsure { wall } => {
            format!("that {} has its share is not beyond doubt", wall.words())
        }
        Doubt::WaitUnsure => "that more than half of a request's time is out of every squeeze's reach is not beyond doubt".to_owned(),
        Doubt::Inert => "a squeeze that should have bound by telemetry did not".to_owned(),
        Doubt::OthersNotSqueezed => "the work of others that fills its processors was not squeezed apart: --backend-pid names a process that works for it".to_owned(),
        Doubt::ProcessorsUnknown => {
            "how many processors the server may use is not known".to_owned()
        }
        Doubt::Contradiction => "its two squeezes contradict each other".to_owned(),
        Doubt::CapacityUnknown => "what its capacity is worth was not squeezed, or is not known, so telemetry alone tells all of its processors from one thread".to_owned(),
        Doubt::SpeedUnknown => {
            "its speed was not squeezed, or answers too little to be called slack".to_owned()
        }
        Doubt::QuotaUnknown => {
            "it answers a quota and not its speed, and no quota of its own is known".to_owned()
        }
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
    fn sessions_that_outlast_a_window_are_named_with_the_way_out() {
        let worded = caveat(&Caveat::SessionsOutlast {
            session: "buy".to_owned(),
            took_ns: 4_200_000_000,
            window_ns: 3_000_000_000,
        });
        for part in ["a session of buy takes 4.20 s", "3 s long at the most"] {
            assert!(worded.fact.contains(part), "{part}: {}", worded.fact);
        }
        assert!(
            worded
                .advice
                .is_some_and(|advice| advice.contains("--window"))
        );
    }

    #[test]
    fn what_those_who_measure_found_is_worded_here() {
        let why = || "`setup.POST /key` was answered with status 500".to_owned();
        for (told, part) in [
            (
                Caveat::SharedCores {
                    client: vec![1],
                    server: vec![0],
                },
                "processors 1 of the client's are siblings of 0 of",
            ),
            (
                Caveat::ServersUneven {
                    most: "h1".to_owned(),
                    most_used: 0.9,
                    least: "h2".to_owned(),
                    least_used: 0.5,
                },
                "h1 for 90 %, those of h2 for 50 %",
            ),
            (
                Caveat::NoCeiling { why: why() },
                "no ceiling of the workers",
            ),
            (
                Caveat::MeasuredBefore {
                    steps: 3,
                    runs: vec!["a".to_owned()],
                },
                "were cut short (a)",
            ),
            (
                Caveat::UnpreparedServer {
                    why: why(),
                    round: 3,
                },
                "status 500. It is not started again",
            ),
            (
                Caveat::UnpreparedServerFails,
                "Requests failed at that server",
            ),
            (
                Caveat::NothingMoreAsked { why: why() },
                "No more is asked of the server",
            ),
            (
                Caveat::DriverNotWeighed { why: why() },
                "as if the driver's requests were as long as ours",
            ),
        ] {
            let line = caveat(&told).line();
            assert!(line.contains(part), "{part}: {line}");
        }
    }

    #[test]
    fn an_allowance_is_told_by_the_drivers_own_names() {
        let counted = [("pps_allowance_exceeded".to_owned(), 1_204)].into();
        let worded = caveat(&Caveat::AllowanceExceeded {
            interface: "ens5".to_owned(),
            counted,
        });
        for part in ["ens5", "pps_allowance_exceeded 1,204"] {
            assert!(worded.fact.contains(part), "{part}: {}", worded.fact);
        }
    }

    #[test]
    fn doubts_are_sentences_with_advice() {
        let worded = caveat(&Caveat::SoftirqElsewhere {
            side: Side::Client,
            share: 0.14,
        });
        assert_eq!(
            worded.fact,
            "14 % of the client's processors went to receive work of the server."
        );
        assert!(worded.advice.is_some());
        let worded = caveat(&Caveat::Throttled {
            side: Side::Server,
            share: 0.5,
        });
        assert!(worded.fact.starts_with("The server's processor group"));
        let note = caveat(&Caveat::Note {
            text: "Short".into(),
        });
        assert_eq!(note.line(), "Short.");
    }
}
