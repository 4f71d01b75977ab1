//! What was seen, as clauses without a capital and a full stop.

use wallfinder_judge::profile::{place, short};
use wallfinder_model::evidence::Fact;
use wallfinder_model::reason::Sign;
use wallfinder_model::verdict::Saturation;

use super::detail::{client_hosts, client_links, waiters};
use super::reason::{at_sockets, moved, time_of};
use super::{capacity, side};
use crate::words::counted;
use crate::{number, words};

/// What shows that a resource was full: `its one core was 98 % busy`.
pub(super) fn sign(sign: &Sign) -> String {
    let share = |value: &f64| number::share(*value);
    let were = |of: &wallfinder_model::reason::Capacity| match of.cores == 1.0 || of.quota {
        true => "was",
        false => "were",
    };
    match sign {
        Sign::Quota {
            used,
            capacity: of,
            throttled,
        } => {
            let throttled = throttled
                .map(|part| format!(" and was throttled in {} of the periods", share(&part)));
            let throttled = throttled.unwrap_or_default();
            format!("it used {} of {}{throttled}", share(used), capacity(*of))
        }
        Sign::ByOthers { busy, own } => format!(
            "its processors were {} busy, but only {} with its own work",
            share(busy),
            share(own)
        ),
        Sign::ReceiveWork {
            capacity: of,
            busy,
            softirq,
        } => format!(
            "{} {} {} busy, {} of it with network receive work",
            capacity(*of),
            were(of),
            share(busy),
            share(softirq)
        ),
        Sign::Busy { capacity: of, busy } => {
            format!("{} {} {} busy", capacity(*of), were(of), share(busy))
        }
        Sign::ReceivingCore {
            cpu,
            softirq,
            cores,
        } => format!(
            "processor {cpu} spent {} of its time on network receive work, and the mean over {cores:.0} cores hides it",
            share(softirq)
        ),
        Sign::HotThreads {
            name,
            threads: 1,
            busy,
            cores,
        } => format!(
            "its thread `{name}` was {} busy on the {cores:.0} cores it may use",
            share(busy)
        ),
        Sign::HotThreads {
            name,
            threads,
            cores,
            ..
        } => format!("{threads} threads of `{name}` were full, on the {cores:.0} cores it may use"),
        Sign::InTurn {
            threads,
            used,
            cores,
        } => format!(
            "its {threads} threads together used {} cores of the {cores:.0} cores it may use, as if one ran at a time",
            number::cores(*used)
        ),
        Sign::LinkUse { share: part } => format!("it carried {} of its rate", share(part)),
        Sign::Workers { workers: 1, busy } => format!("its one worker was {} busy", share(busy)),
        Sign::Workers { workers, busy } => {
            format!("its {workers} workers were {} busy", share(busy))
        }
        Sign::Ceiling {
            share: part,
            throughput,
        } => format!(
            "it drove {} of the {}/s that its workers can",
            share(part),
            number::amount(*throughput)
        ),
        Sign::WorkingThreads { threads: 1, busy } => {
            format!("its one working thread was {} busy", share(busy))
        }
        Sign::WorkingThreads { threads, busy } => {
            format!("its {threads} working threads were {} busy", share(busy))
        }
        Sign::DriverThread { name, busy } => {
            format!("its thread `{name}` was {} busy", share(busy))
        }
    }
}

/// A sign that work waited for a resource.
pub fn saturation(saturation: &Saturation) -> String {
    match saturation {
        Saturation::NeverRests { thread } => format!("thread `{thread}` never rests"),
        Saturation::Throttled { share } => {
            format!("throttled in {} of periods", number::share(*share))
        }
        Saturation::RunWait { cores } => {
            format!("threads waited for {} cores", number::cores(*cores))
        }
        Saturation::Dropped { packets } => format!("{} dropped", counted(*packets, "packet")),
        Saturation::SentAgain { segments } => {
            format!("{} sent again", counted(*segments, "segment"))
        }
    }
}

/// What was seen.
pub fn fact(fact: &Fact) -> String {
    let share = |value: &f64| number::share(*value);
    let cores = |value: &f64| number::cores(*value);
    let rate = |value: &f64| number::amount(*value);
    let time = |seconds: &f64| number::span(seconds * 1e9);
    match fact {
        Fact::Throughput { per_second } => format!("{} good answers per second", rate(per_second)),
        Fact::Used {
            side: which,
            share: part,
            capacity: of,
        } => format!("{} used {} of {}", side(*which), share(part), capacity(*of)),
        Fact::CoresUsed {
            side: which,
            cores: used,
        } => {
            format!("{} used {} cores of them", side(*which), cores(used))
        }
        Fact::Throttled {
            side: which,
            share: part,
        } => format!(
            "{} was throttled in {} of its quota periods",
            side(*which),
            share(part)
        ),
        Fact::RunWait {
            side: which,
            cores: waited,
        } => format!(
            "{}'s threads waited for {} cores that they could have used",
            side(*which),
            cores(waited)
        ),
        Fact::ReceiveWork {
            side: which,
            share: part,
        } => format!(
            "network receive work took {} of {}'s processors",
            share(part),
            side(*which)
        ),
        Fact::Others {
            side: which,
            cores: others,
            busy,
            waited,
        } => {
            let busy = busy.map(|busy| format!(", which were {} busy", share(&busy)));
            let waited =
                waited.map(|waited| format!(", and its threads waited for {}", cores(&waited)));
            format!(
                "others used {} of {}'s processors{}{}",
                words::cores(*others),
                side(*which),
                busy.unwrap_or_default(),
                waited.unwrap_or_default()
            )
        }
        Fact::Relay {
            side: which,
            cores: taken,
        } => format!(
            "the relay that delays the link used {} of {}'s processors",
            words::cores(*taken),
            side(*which)
        ),
        Fact::ProcessorsBusy {
            side: which,
            share: part,
        } => format!(
            "{}'s processors were {} busy, everybody's work included",
            side(*which),
            share(part)
        ),
        Fact::Shared { processors, busy } => format!(
            "client and server shared {}, {} busy together",
            counted(u64::from(*processors), "processor"),
            share(busy)
        ),
        Fact::ReceivingCore { cpu, softirq } => format!(
            "processor {cpu} was full, {} of it with network receive work",
            share(softirq)
        ),
        Fact::HotThread { name, busy } => format!("thread `{name}` was {} busy", share(busy)),
        Fact::OfAllCores { share: part, cores } => format!(
            "of all the {cores:.0} cores it may use, {} were used",
            share(part)
        ),
        Fact::ThreadsUsed {
            threads,
            processes,
            cores: used,
        } => format!(
            "{} in {} used {} cores",
            counted(u64::from(*threads), "thread"),
            match processes {
                1 => "one process".to_owned(),
                n => format!("{n} processes"),
            },
            cores(used)
        ),
        Fact::ClientFull { sign: shown } => format!("the load generator: {}", sign(shown)),
        Fact::ClientBusy { share: part } => format!("the load generator was {} busy", share(part)),
        Fact::CeilingShare {
            share: part,
            of: None,
        } => {
            format!("throughput was {} of the engine's own ceiling", share(part))
        }
        Fact::CeilingShare {
            share: part,
            of: Some(ceiling),
        } => format!(
            "throughput was {} of the {}/s that its workers drive against a null server",
            share(part),
            rate(ceiling)
        ),
        Fact::LinkUse { wall, share: part } => {
            format!("{} carried {} of its rate", wall.words(), share(part))
        }
        Fact::ServerNotSeen => "the server was not seen".to_owned(),
        Fact::NeitherSideSeen => "no telemetry of either side".to_owned(),
        Fact::Unanswered {
            in_flight,
            answering,
        } => format!(
            "{} requests were in flight on average, and the answers account for {}",
            rate(in_flight),
            rate(answering)
        ),
        Fact::Failures { share: part, class } => {
            format!("{} of what was tried failed, most as {class}", share(part))
        }
        Fact::NoConnection { share: part } => format!(
            "{} of the window had no connection, and attempts to open one failed",
            share(part)
        ),
        Fact::NoAnswers => "no good answers in the window".to_owned(),
        Fact::ClientHostsFull { hosts, of } => client_hosts(hosts, *of),
        Fact::ClientLinksFull { hosts, of } => client_links(hosts, *of),
        Fact::ClientHostBehind {
            host,
            asked,
            sent,
            more,
            link,
            processors,
        } => {
            let why = match (link, processors) {
                (Some(used), _) => {
                    format!("; its link was full, at {} of its rate", share(used))
                }
                (None, Some(busy)) => format!("; its processors were {} busy", share(busy)),
                (None, None) => String::new(),
            };
            let others = match more {
                0 => String::new(),
                1 => "; 1 more host was behind".to_owned(),
                more => format!("; {more} more hosts were behind"),
            };
            format!(
                "{host} was behind its rate: {} of {} requests/s were sent{why}{others}",
                rate(sent),
                rate(asked)
            )
        }
        Fact::Lost { unknown } => format!(
            "of {} requests nobody knows what became of them",
            number::whole(*unknown)
        ),
        Fact::Stolen { share: part } => {
            format!("{} of the processors in use was stolen", share(part))
        }
        Fact::Still { share: part } => format!("{} of the window lies in gaps", share(part)),
        Fact::Window { seconds } => format!("the window was {} long", time(seconds)),
        Fact::RateReached {
            asked,
            on_average,
            share: part,
            failed,
        } => {
            let mean = if *on_average { " on average" } else { "" };
            let failed = failed.map(|failed| format!(", {} of them by a failure", share(&failed)));
            format!(
                "{} requests/s were asked for{mean} and {} of them ended in the window{}",
                rate(asked),
                share(part),
                failed.unwrap_or_default()
            )
        }
        Fact::Phase { wall, share: part } => format!(
            "{} alone was full in {} of the ticks",
            wall.words(),
            share(part)
        ),
        Fact::SentAgain { share: part } => {
            format!("{} of the segments were sent again", share(part))
        }
        Fact::AcceptQueue { connections } => format!(
            "{} connections found the accept queue full",
            rate(connections)
        ),
        Fact::InFlight { mean, most } => format!(
            "{} requests were in flight on average, {most} at the most",
            cores(mean)
        ),
        Fact::Response { seconds } => format!("a request took {} on average", time(seconds)),
        Fact::Pausing { share: part } => {
            format!("connections spent {} of their time pausing", share(part))
        }
        Fact::OfAllowed { share: part } => {
            format!("{} of the allowed requests were in flight", share(part))
        }
        Fact::OneAtATime => "one request at a time".to_owned(),
        Fact::Explained { by, share: part } => {
            format!(
                "{} explains {} of a request's time",
                time_of(*by),
                share(part)
            )
        }
        Fact::AtSockets { what, share: part } => format!(
            "connections waited for their {} {} of their busy time",
            at_sockets(*what),
            share(part)
        ),
        Fact::Median { ms } => format!("the median is {ms:.1} ms, and the mean is the same"),
        Fact::Growth {
            load_ratio,
            throughput_ratio,
        } => format!(
            "with {load_ratio:.2} × as much in flight there were {throughput_ratio:.2} × as many answers"
        ),
        Fact::Moved { moved: what, check } => match check.is_empty() {
            true => moved(what),
            false => format!("{} ({check})", moved(what)),
        },
        Fact::MovedTogether {
            squeezes,
            by,
            lost: (least, most),
            rounds,
        } => format!(
            "{} less of {} at once: throughput changed by {} to {} ({})",
            share(by),
            words::squeezes(squeezes),
            small(-most),
            small(-least),
            words::counted(u64::from(*rounds), "window")
        ),
        Fact::Null {
            interval: Some((low, high)),
        } => format!(
            "windows with nothing squeezed differed by {} to {} from their neighbours",
            small(*low),
            small(*high)
        ),
        Fact::Null { interval: None } => {
            "too few windows with nothing squeezed to compare them".to_owned()
        }
        Fact::PauseIsWork { used } => format!(
            "pauses are made on the load generator's processors, {} of which are used: what a pause costs there does not tell of what is in flight",
            share(used)
        ),
        Fact::Pace {
            lost,
            won,
            explained,
        } => format!(
            "the machine itself moved throughput by -{} to {}, as a reference loop on its processors tells: windows are compared as at one pace, which takes {} of their variance away",
            share(lost),
            share(won),
            share(explained)
        ),
        Fact::Alone {
            each_ns,
            throughput,
            at_once,
        } => format!(
            "alone a request takes {}; at {}/s that is {} at a time",
            number::span(*each_ns),
            rate(throughput),
            number::fixed(*at_once, 1)
        ),
        Fact::Cpu {
            side: which,
            category,
            share: part,
            function,
            own,
            nameless,
        } => {
            let nameless =
                nameless.map(|part| format!(" ({:.0} % is in code without symbols)", 100.0 * part));
            format!(
                "{:.0} % of {}'s CPU is {}; {} has the most of its own, {:.0} %{}",
                100.0 * part,
                side(*which),
                doing(category),
                short(function),
                100.0 * own,
                nameless.unwrap_or_default()
            )
        }
        Fact::Collector {
            side: which,
            share: part,
        } => format!(
            "the garbage collector has {:.0} % of {}'s CPU",
            100.0 * part,
            side(*which)
        ),
        Fact::Waiting {
            place: at,
            share: part,
            waiting,
            who,
            of_in_flight,
            no_wall,
            but_sockets,
        } => {
            let so = match (of_in_flight, no_wall) {
                (Some(all), _) => {
                    format!(": {waiting:.1} of the {all:.1} requests in flight are there")
                }
                (None, true) => format!(
                    ", {waiting:.2} {} at any moment: it is not the wall",
                    waiters(*who)
                ),
                (None, false) => format!(", {waiting:.2} {} at any moment", waiters(*who)),
            };
            let whole = match but_sockets {
                true => "anything but a socket is waited for",
                false => "anything waits",
            };
            format!(
                "{} has {:.0} % of the time in which {whole}{so}",
                place(&at.waits_in, &at.function, &at.line),
                100.0 * part
            )
        }
        Fact::Allocated { bytes, function } => format!(
            "each request allocates {}, most of it in {}",
            number::bytes(*bytes),
            short(function)
        ),
    }
}

/// A small difference in per cent, as fine as a tenth: `-1.2 %`.
pub(super) fn small(value: f64) -> String {
    let tenths = (1000.0 * value).round() / 10.0;
    // Without the sign of a negative zero.
    format!(
        "{} %",
        number::fixed(tenths + 0.0, 1).trim_end_matches(".0")
    )
}

/// A category in a sentence.
fn doing(category: &str) -> &str {
    match category {
        "application" => "the application's own code",
        "library" => "code of libraries",
        "runtime" => "the runtime's other work",
        "kernel" => "other system calls",
        "locking" => "taking and giving back locks",
        "scheduler" => "the scheduler's",
        "futex" => "waking and sleeping threads",
        "collection" => "the garbage collector's",
        "protocol" => "the protocol's",
        named => named,
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_model::Wall;
    use wallfinder_model::reason::{Capacity, Side};

    use super::*;

    #[test]
    fn what_was_seen_reads_as_it_is_said() {
        let one = Capacity {
            cores: 1.0,
            quota: false,
        };
        let used = Fact::Used {
            side: Side::Server,
            share: 0.984,
            capacity: one,
        };
        assert_eq!(fact(&used), "the server used 98 % of its one core");
        let link = Fact::LinkUse {
            wall: Wall::Downlink,
            share: 0.99,
        };
        assert_eq!(fact(&link), "the downlink carried 99 % of its rate");
        let null = Fact::Null {
            interval: Some((-0.0044, 0.006)),
        };
        assert_eq!(
            fact(&null),
            "windows with nothing squeezed differed by -0.4 % to 0.6 % from their neighbours"
        );
        assert_eq!(small(-0.0001), "0 %");
        let behind = |link, more| Fact::ClientHostBehind {
            host: "c3".to_owned(),
            asked: 1_000.0,
            sent: 812.0,
            more,
            link,
            processors: Some(0.41),
        };
        assert_eq!(
            fact(&behind(None, 0)),
            "c3 was behind its rate: 812 of 1,000 requests/s were sent; its processors were 41 % busy"
        );
        assert_eq!(
            fact(&behind(Some(0.97), 2)),
            "c3 was behind its rate: 812 of 1,000 requests/s were sent; its link was full, at 97 % of its rate; 2 more \
             hosts were behind"
        );
        let links = |names: [&str; 2], of| Fact::ClientLinksFull {
            hosts: names.map(str::to_owned).to_vec(),
            of,
        };
        assert_eq!(
            fact(&links(["c1", "c3"], 4)),
            "the links of c1 and c3 of 4 client hosts were full"
        );
        assert_eq!(
            fact(&links(["c1", "c2"], 2)),
            "the links of all 2 client hosts were full"
        );
        let quota = Sign::Quota {
            used: 0.97,
            capacity: Capacity {
                cores: 0.5,
                quota: true,
            },
            throttled: Some(0.6),
        };
        assert_eq!(
            sign(&quota),
            "it used 97 % of its quota of 0.5 cores and was throttled in 60 % of the periods"
        );
    }
}
