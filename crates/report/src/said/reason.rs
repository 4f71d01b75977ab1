//! Why a verdict is what it is.

use wallfinder_judge::proof::Because;
use wallfinder_model::detail::{AtSockets, Exhausted};
use wallfinder_model::evidence::Fact;
use wallfinder_model::experiment::Squeeze;
use wallfinder_model::reason::{
    Beside, Full, Moved, Odd, Open, Part, Rest, Side, TimeOf, Unsqueezed,
};
use wallfinder_model::{Detail, Nanos, Reason, Verdict, Wall};

use super::ended::{away, ended};
use super::{capacity, crowded_out, detail, gate, resource, side, squeeze};
use crate::number;
use crate::words::{capital, capital_sentence, join, lower, sentence};

/// A verdict's reason, whole: it says of a wall that is not decided that it is not.
pub fn verdict(verdict: &Verdict) -> String {
    let said = reason(&verdict.reason);
    match &verdict.reason {
        _ if verdict.wall != Wall::Inconclusive => said,
        Reason::TooLittleConfidence { .. } => format!("Not decided, {}", lower(&said)),
        _ => format!("Not decided: {}", lower(&said)),
    }
}

/// The same, below a heading that names the wall, or says that none is decided.
pub fn below_heading(verdict: &Verdict) -> String {
    reason(&verdict.reason)
}

/// What a wall is made of, as a sentence, where the reason does not say it and no list does.
pub fn made_of(verdict: &Verdict) -> Option<String> {
    let made_of = verdict.detail.as_ref()?;
    (!says(&verdict.reason, made_of)).then(|| capital_sentence(&detail(made_of)))
}

/// Whether a reason says what the wall is made of, or a list of what was out of reach does.
fn says(reason: &Reason, made_of: &Detail) -> bool {
    match (reason, made_of) {
        (Reason::OutOfReach { .. }, Detail::Unsqueezed { .. }) => true,
        (_, Detail::Unsqueezed { missing }) => missing.is_listed(),
        (Reason::NamedWait { detail, .. }, _) => detail == made_of,
        (Reason::IdleAndFlat { detail, .. }, _) => detail.as_ref() == Some(made_of),
        (_, Detail::Phases) => true,
        (Reason::AcceptQueue { .. }, Detail::AcceptQueue) => true,
        (Reason::RanOut { .. }, Detail::RanOut { .. }) => true,
        (Reason::ByTelemetry { observed, .. }, _) => says(observed, made_of),
        _ => false,
    }
}

/// Whether a reason says a fact already.
pub fn tells(reason: &Reason, fact: &Fact) -> bool {
    match (reason, fact) {
        (Reason::ByTelemetry { observed, .. }, _) => tells(observed, fact),
        (Reason::TooLittleConfidence { of }, _) => tells(of, fact),
        (Reason::OneAtATime, Fact::OneAtATime) => true,
        (Reason::Full { full, beside }, Fact::Used { side, .. }) => {
            full.wall == Wall::ClientCpu && beside.server.is_some() && *side == Side::Server
        }
        _ => false,
    }
}

/// What a prediction rests on.
pub fn because(because: &Because) -> String {
    let names = |walls: &[Wall]| {
        let names = walls.iter().map(|wall| wall.words().to_owned());
        join(&names.collect::<Vec<_>>())
    };
    match because {
        Because::Untouched { walls } => {
            format!("The change does not touch what binds: {}.", names(walls))
        }
        Because::StillBinds { walls, ratio } => format!(
            "{} still binds, at {ratio:.2} times what it was.",
            capital(&names(walls))
        ),
        Because::BindsNext {
            wall,
            throughput,
            squeezed,
        } => {
            let source = match squeezed {
                true => "as squeezing it showed",
                false => "by its service demand, for it was not squeezed until it bound",
            };
            format!(
                "{} then binds, at {}/s, {source}.",
                capital(wall.words()),
                number::amount(*throughput)
            )
        }
    }
}

fn reason(reason: &Reason) -> String {
    let share = |value: &f64| number::share(*value);
    let time = |seconds: &f64| number::span(seconds * 1e9);
    sentence(&match reason {
        Reason::UnansweredHoldMost { in_flight } => format!(
            "{} requests had no answer, and requests like them were most of what was in flight; no answer tells where they waited",
            number::whole(*in_flight)
        ),
        Reason::RanOut { of } => format!(
            "The load generator's host ran out of {}, so it could not keep in flight what was asked",
            exhausted(*of)
        ),
        Reason::Unreachable(when) => format!(
            "The server could not be reached {}",
            away(when, |ns| number::span(ns as f64))
        ),
        Reason::TooManyFailures { share: part, class } => format!(
            "{} of what was tried failed ({class}), and failures are not throughput",
            share(part)
        ),
        Reason::NothingAnswered { ended: how, why } => match why {
            _ if !how.is_empty() => format!("Nothing was answered well: {}", ended(how)),
            Some(why) => format!("Nothing was answered well: {why}"),
            None => "Nothing was answered well".to_owned(),
        },
        Reason::ClientsLost { hosts } => format!(
            "{} {} lost during the load, so it was not the one that was asked for",
            join(hosts),
            if hosts.len() == 1 { "was" } else { "were" }
        ),
        Reason::Stolen { share: part } => {
            format!("The hypervisor took {} of the processors in use", share(part))
        }
        Reason::StoodStill { share: part } => format!(
            "The machine, or this process, stood still for {} of the window",
            share(part)
        ),
        Reason::WindowTooShort { seconds } => format!(
            "A window of {} is too short for the counters of processors",
            time(seconds)
        ),
        Reason::NeitherSideSeen => {
            "Neither the server's processes nor the load generator's were seen".to_owned()
        }
        Reason::Offered {
            asked,
            on_average,
            answered,
            full,
        } => {
            let mean = if *on_average { " on average" } else { "" };
            let asked = number::amount(*asked);
            match full {
                None => format!(
                    "The offered load: {asked}/s were asked for{mean} and {}/s were answered; no more was wanted",
                    number::amount(*answered)
                ),
                Some(full) => format!(
                    "The offered load: {asked}/s were asked for{mean} and answered, but {} is nearly full: {}",
                    full.wall.words(),
                    sign_of(full)
                ),
            }
        }
        Reason::Phases { parts } => phases(parts),
        Reason::CrowdedOut { others } => capital(&format!(
            "{}. Stop them, or pin this run elsewhere",
            crowded_out(others)
        )),
        Reason::SharedProcessors {
            wall,
            busy,
            client,
            link,
        } => {
            let told = format!(
                "the processors that client and server share were {} busy, {} of that with the server and {} with the load generator",
                share(busy),
                share(&(1.0 - client)),
                share(client)
            );
            match (wall, link) {
                (Some(wall), _) => {
                    format!("{}, as far as can be told: {told}", capital(wall.words()))
                }
                (None, None) => format!("More than one resource at once: {told}"),
                (None, Some(link)) => format!(
                    "More than one resource at once: {told}; and {}: {}",
                    link.wall.words(),
                    sign_of(link)
                ),
            }
        }
        Reason::Full { full, beside } => {
            let name = capital(full.wall.words());
            match self::beside(full.wall, beside) {
                Some(beside) => format!("{name}: {} {beside}", sign_of(full)),
                None => format!("{name}: {}", sign_of(full)),
            }
        }
        Reason::FullAndNear { full, near } => format!(
            "{}: {}, with {} close behind: {}",
            capital(full.wall.words()),
            sign_of(full),
            near.wall.words(),
            sign_of(near)
        ),
        Reason::SeveralFull { full } => {
            let each = |full: &Full| format!("{} ({})", full.wall.words(), sign_of(full));
            let each: Vec<String> = full.iter().map(each).collect();
            format!("More than one resource at once: {}", join(&each))
        }
        Reason::ServerNotSeen { client: Some(busy) } => format!(
            "The load generator was only {} busy, so the limit lies beyond it, but the server could not be seen",
            share(busy)
        ),
        Reason::ServerNotSeen { client: None } => {
            "The server could not be seen, and the load generator alone does not tell".to_owned()
        }
        Reason::OthersToo { sides } => {
            let each = sides
                .iter()
                .map(|(which, part)| format!("{} of {}'s", share(part), side(*which)));
            format!(
                "Others used {} processor time, so both sides' numbers are theirs too",
                join(&each.collect::<Vec<_>>())
            )
        }
        Reason::GreaterPart { wall, busy } => format!(
            "So little is in flight that nothing fills, and {} takes the greater part of a request's time ({} busy)",
            wall.words(),
            share(busy)
        ),
        Reason::Nearest { full } => format!(
            "{} came nearest ({}), but was not surely full; a ramp or a squeeze would tell",
            capital(full.wall.words()),
            sign_of(full)
        ),
        Reason::AcceptQueue { connections } => format!(
            "A wait at the server's door: {} connections found its accept queue full while its CPU idled",
            number::amount(*connections)
        ),
        Reason::ThinkTime {
            pause_s,
            response_s,
        } => format!(
            "Too little in flight: each connection pauses {} between requests that take {}",
            time(pause_s),
            time(response_s)
        ),
        Reason::HeldBack { allowed, in_flight } => format!(
            "Too little in flight: the load allows {}, and only {} were, while both sides idled",
            number::amount(*allowed),
            number::cores(*in_flight)
        ),
        Reason::OneAtATime => {
            "Too little in flight: with one request at a time, each side waits for the other"
                .to_owned()
        }
        Reason::Explained {
            by,
            response_s,
            part_s,
        } => format!(
            "Too little in flight: of the {} that a request takes, {} is {}; nothing queues",
            time(response_s),
            time_of(*by),
            time(part_s)
        ),
        Reason::WindowLimited { what, share: part } => format!(
            "Too little in flight on the wire: for {} of its busy time a connection waited for its {}",
            share(part),
            at_sockets(*what)
        ),
        Reason::DelayedAck { ms } => format!(
            "A wait of {ms:.0} ms in every answer while both sides idle: the time of a delayed acknowledgement, as when small writes meet Nagle's algorithm"
        ),
        Reason::NothingFull { few: true } => {
            "Too little in flight, more likely than a wait inside the server: nothing was full. The next step of a ramp would tell".to_owned()
        }
        Reason::NothingFull { few: false } => {
            "A wait, more likely than too little in flight: much was in flight and nothing was full. The next step of a ramp would tell".to_owned()
        }
        Reason::Grows {
            load_ratio,
            throughput_ratio,
        } => match *load_ratio > 1.0 {
            true => format!(
                "Too little in flight: the next step has {load_ratio:.1} × as much and gets {throughput_ratio:.1} × the answers"
            ),
            false => format!(
                "Too little in flight: up to here throughput grew in proportion, {:.1} × for {:.1} ×",
                1.0 / throughput_ratio,
                1.0 / load_ratio
            ),
        },
        Reason::NearAndFlat { wall, busy } => format!(
            "{}: {} busy, and more in flight brought no more answers",
            capital(wall.words()),
            share(busy)
        ),
        Reason::IdleAndFlat {
            load_ratio,
            detail: made_of,
        } => {
            let made_of = made_of.as_ref().map(|it| format!(" ({})", detail(it)));
            let made_of = made_of.unwrap_or_default();
            match *load_ratio > 1.0 {
                true => format!(
                    "A wait inside the server{made_of}: {load_ratio:.1} × as much in flight brought no more answers, while nothing was full"
                ),
                false => format!(
                    "A wait inside the server{made_of}: {:.1} × as much in flight as at the step before brought no more answers, while nothing was full",
                    1.0 / load_ratio
                ),
            }
        }
        Reason::Unmasked {
            was,
            in_flight,
            throughput_ratio,
        } => format!(
            "Too little in flight: {} looked full, and yet {} in flight got {throughput_ratio:.1} × the answers",
            was.words(),
            number::whole(*in_flight)
        ),
        Reason::GateFailed { gate: failed } => capital(&gate::failed(failed)),
        Reason::EndedEarly { why } => {
            format!("The experiment ended before any squeeze told: {why}")
        }
        Reason::NothingInForce => "No squeeze was in force in any window".to_owned(),
        Reason::StartsDisagree { squeeze } => {
            format!("Starts of the server disagree about {}", resource(*squeeze))
        }
        Reason::Moved {
            wall: Wall::OfferedLoad,
            moved: what,
            rest: others,
        } => format!("The offered load: {}; {}", lower(&moved(what)), rest(others)),
        Reason::Moved {
            moved: what,
            rest: others,
            ..
        } => format!("{}; {}", moved(what), rest(others)),
        Reason::MovedFirst {
            moved: what,
            next,
            ratio,
        } => format!(
            "{}; {} binds next, at {} times this throughput",
            moved(what),
            next.words(),
            number::cores(*ratio)
        ),
        Reason::TooLittleInFlight { fewer, more } => {
            let more = more.as_ref().map(|more| lower(&moved(more)));
            let more = more.unwrap_or_else(|| "more in flight would carry more".to_owned());
            format!("Too little in flight: {}; {more}", lower(&moved(fewer)))
        }
        Reason::HeldPerConnection { more } => format!(
            "Nothing that was squeezed costs throughput, and more connections carry more: {}. Each connection is held to its part",
            lower(&moved(more))
        ),
        Reason::HeldPerClient { fewer } => format!(
            "Nothing else that was squeezed costs throughput, and fewer client machines do: {}. Each of them is held to its part",
            lower(&moved(fewer))
        ),
        Reason::NamedWait {
            detail: made_of,
            fewer,
        } => format!(
            "A wait in front of every answer ({}): {}, for each one more waits beside the others",
            detail(made_of),
            lower(&moved(fewer))
        ),
        Reason::JustFills { wall, fewer, more } => format!(
            "What is in flight just fills {}: {}, and {}",
            wall.words(),
            lower(&moved(fewer)),
            lower(&moved(more))
        ),
        Reason::Coincide { walls } => {
            let names: Vec<String> = walls.iter().map(|wall| wall.words().to_owned()).collect();
            format!(
                "{} bind at the same throughput: taking from any of them costs in full, and widening one alone gains next to nothing",
                capital(&join(&names))
            )
        }
        Reason::Shares { parts } => shares(parts),
        Reason::PhasesAndShares { phases, parts } => {
            format!("{} {}", sentence(&self::phases(phases)), shares(parts))
        }
        Reason::HeldInside { throughput } => format!(
            "A wait: most of it answers to no squeeze of either side, the link or the number in flight, so something inside holds it at {}/s while both sides have time left: a pool, a limiter, a lock that is held while it waits, or a timer",
            number::amount(*throughput)
        ),
        Reason::BetweenHosts {
            busy_share,
            rtt_us,
            rtt_min_us,
            sent_again,
            flow_bits,
            squeezed,
        } => {
            let trip = |us: u32| Nanos(u64::from(us) * 1_000);
            let mut seen = format!("round trips take {}", trip(*rtt_us));
            if let Some(least) = rtt_min_us {
                seen.push_str(&format!(" ({} at the least)", trip(*least)));
            }
            if let Some(share) = sent_again.filter(|share| *share > 0.0) {
                seen.push_str(&format!(", {} of the server's segments are sent again", number::share(share)));
            }
            let slack = match squeezed {
                true => ", and nothing that was squeezed moves throughput",
                false => "",
            };
            let mut text = format!(
                "Answers are on their way between the hosts for {} of a connection's time, {seen}{slack}: what lies between the hosts holds it, and is no host's to squeeze",
                number::share(*busy_share),
            );
            if let Some(bits) = flow_bits {
                text.push_str(&format!(
                    ". Each connection carries {}: many networks bound what one may carry, and more connections (-c) show whether this one does",
                    number::bits(*bits)
                ));
            }
            text
        }
        Reason::QueuedInside { fewer } => format!(
            "Waits inside the server at which requests queue for a part of their time: {}, and slowing either side or the link moves nothing",
            lower(&moved(fewer))
        ),
        Reason::FewConnections { asked, open } => format!(
            "Too little in flight: slowing either side moves nothing, both have time left, and {} of the {} connections that the load generator was asked for are open",
            number::whole(u64::from(*open)),
            number::whole(u64::from(*asked))
        ),
        Reason::ByTelemetry {
            ruled_out,
            observed,
        } => format!(
            "{}By telemetry: {}",
            self::ruled_out(ruled_out),
            self::reason(observed)
        ),
        Reason::OutOfReach {
            ruled_out,
            against,
            missing,
        } => {
            let missing = unsqueezed(missing);
            let why = match against {
                Some(wall) => format!(
                    "telemetry alone would say {}, which a squeeze rules out, and {missing}",
                    wall.words()
                ),
                None => missing,
            };
            format!("{}{}", self::ruled_out(ruled_out), capital(&why))
        }
        Reason::Undecided { ruled_out, why } => {
            format!("{}{}", self::ruled_out(ruled_out), capital(&open(why)))
        }
        Reason::TooLittleConfidence { of } => {
            format!("Too much speaks against it: {}", self::reason(of))
        }
    })
}

fn sign_of(full: &Full) -> String {
    super::fact::sign(&full.sign)
}

/// `while the load generator idled at 33 %`.
fn beside(wall: Wall, beside: &Beside) -> Option<String> {
    let share = number::share;
    match (wall, beside.server, beside.client) {
        (Wall::ClientCpu, Some((used, of)), _) => Some(format!(
            "while the server used {} of {}; the number is the load generator's",
            share(used),
            capacity(of)
        )),
        (_, Some((server, _)), Some(client)) => Some(format!(
            "while the server was {} busy and the load generator {}",
            share(server),
            share(client)
        )),
        (_, Some((server, _)), None) => {
            Some(format!("while the server was {} busy", share(server)))
        }
        (_, None, Some(client)) => {
            let verb = if client < 0.7 {
                "idled at"
            } else {
                "was busy at"
            };
            Some(format!("while the load generator {verb} {}", share(client)))
        }
        (_, None, None) => None,
    }
}

fn phases(parts: &[Part]) -> String {
    let each = parts.iter().map(|part| {
        let share = number::share(part.value);
        format!("{} in {share} of the ticks", part.wall.words())
    });
    format!(
        "Phases that alternate: {}",
        each.collect::<Vec<_>>().join(", ")
    )
}

fn shares(parts: &[Part]) -> String {
    let each = |part: &Part| format!("{} ({:.2})", part.wall.words(), part.value);
    let each: Vec<String> = parts.iter().map(each).collect();
    format!(
        "More than one resource at once: throughput answers to {}",
        join(&each)
    )
}

/// `The wall is not the downlink or the uplink: squeezing them moves nothing. `
fn ruled_out(walls: &[Wall]) -> String {
    let names: Vec<&str> = walls.iter().map(|wall| wall.words()).collect();
    let (names, them) = match &names[..] {
        [] => return String::new(),
        [one] => ((*one).to_owned(), "it"),
        [most @ .., last] => (format!("{} or {last}", most.join(", ")), "them"),
    };
    format!("The wall is not {names}: squeezing {them} moves nothing. ")
}

/// `Take 20 % of the downlink away and 20 % of the throughput goes`.
pub(super) fn moved(moved: &Moved) -> String {
    /// What is none as far as a reader is concerned.
    const NONE: f64 = 0.005;
    let by = number::share(moved.by);
    let goes = match moved.lost {
        lost if lost < NONE => "none".to_owned(),
        lost => number::share(lost),
    };
    match moved.squeeze {
        Squeeze::MoreInFlight => {
            let comes = match -moved.lost {
                won if won < NONE => "nothing".to_owned(),
                won => number::share(won),
            };
            format!("Put {by} more in flight and {comes} is gained")
        }
        Squeeze::ThinkTime => format!(
            "Add a pause of {by} of the response time before each request and {goes} of the throughput goes"
        ),
        Squeeze::MoreClients => format!(
            "Let {by} of the client hosts rest while the others take their connections over and {goes} of the throughput goes"
        ),
        squeeze => format!(
            "Take {by} of {} away and {goes} of the throughput goes",
            resource(squeeze)
        ),
    }
}

/// What the other squeezes did, as the end of a sentence about one.
fn rest(rest: &Rest) -> String {
    let each = |(which, value): &(Squeeze, f64)| format!("{} reads {value:.2}", squeeze(*which));
    let moving: Vec<String> = rest.moving.iter().map(each).collect();
    match rest {
        Rest {
            squeezed: false, ..
        } => "no other squeeze was in reach".to_owned(),
        _ if !moving.is_empty() => format!("of the others, {}", join(&moving)),
        Rest { rises: true, .. } => "nothing else that was squeezed costs any".to_owned(),
        _ => "nothing else that was squeezed moves it".to_owned(),
    }
}

/// `server speed is out of reach: no privilege`.
pub(super) fn unsqueezed(missing: &Unsqueezed) -> String {
    let name = squeeze(missing.squeeze);
    let why = match &missing.why {
        Some(why) => format!("{name} is out of reach: {why}"),
        None => format!("{name} was not squeezed"),
    };
    match &missing.others {
        Some(others) => format!("{}; and {why}", crowded_out(others)),
        None => why,
    }
}

fn open(open: &Open) -> String {
    match open {
        Open::CutShort { why } => format!("the experiment was cut short: {why}"),
        Open::Odd {
            squeeze: which,
            odd: Odd::TooWide,
        } => format!(
            "the interval of {} is too wide to tell how much it moves throughput",
            squeeze(*which)
        ),
        Open::Odd {
            squeeze: which,
            odd: Odd::MoreThanItsShare,
        } => format!(
            "{} costs more throughput than its share of what is in flight, so it takes something else of the server",
            squeeze(*which)
        ),
        Open::CrowdedOut { others } => crowded_out(others),
        Open::DosesDisagree { squeeze: which } => {
            format!("the doses of {} disagree", squeeze(*which))
        }
        Open::Wide {
            squeeze: which,
            low,
            high,
            rounds,
        } => format!(
            "the elasticity to {} is only known to lie between {low:.2} and {high:.2} after {rounds} rounds",
            squeeze(*which)
        ),
        Open::QuotaWithout => "the server answers a quota and not slower processors, and has no quota of its own: something beside the requests uses its processor time".to_owned(),
        Open::NothingMoves { idle: true } => "nothing that was squeezed moves the throughput, and what is left is not known well enough to call it a wait".to_owned(),
        Open::NothingMoves { idle: false } => "nothing that was squeezed moves the throughput, and telemetry does not show both sides waiting".to_owned(),
        Open::NotEnough {
            squeeze: which,
            value,
        } => format!(
            "{} moves the throughput most, by {value:.2} of its dose, and that is not enough to be the wall",
            squeeze(*which)
        ),
        Open::EitherFirst {
            first,
            second,
            low,
            high,
        } => format!(
            "{} and {} both move the throughput, and which of them binds first is not known: the second's ceiling lies at {low:.2} to {high:.2} × the first's",
            first.words(),
            second.words()
        ),
        Open::NothingInForce => "no squeeze was in force".to_owned(),
    }
}

/// What a host ran out of.
pub(super) const fn exhausted(of: Exhausted) -> &'static str {
    match of {
        Exhausted::Ports => "local ports",
        Exhausted::Descriptors => "file descriptors",
        Exhausted::SocketMemory => "kernel memory for sockets",
    }
}

pub(super) const fn at_sockets(what: AtSockets) -> &'static str {
    match what {
        AtSockets::ReceiveWindow => "receive window",
        AtSockets::SendBuffer => "send buffer",
    }
}

pub(super) const fn time_of(by: TimeOf) -> &'static str {
    match by {
        TimeOf::Work => "the work of both sides",
        TimeOf::RoundTrip => "the round trip",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wallfinder_model::reason::{Ended, Unreachable};

    #[test]
    fn what_was_not_answered_is_said_as_counted_and_of_an_older_record_as_it_stands_there() {
        let old: Reason =
            serde_json::from_str(r#"{"kind":"nothing-answered","why":"7 failed as status.4xx"}"#)
                .expect("the shape of older records");
        assert_eq!(
            reason(&old),
            "Nothing was answered well: 7 failed as status.4xx."
        );
        let counted = Reason::NothingAnswered {
            ended: vec![Ended::InFlight { count: 300 }],
            why: None,
        };
        assert_eq!(
            reason(&counted),
            "Nothing was answered well: 300 in flight when the window closed."
        );
    }

    #[test]
    fn what_lies_between_hosts_is_told_by_what_both_ends_see() {
        let between = |sent_again, flow_bits| Reason::BetweenHosts {
            busy_share: 0.98,
            rtt_us: 12_000,
            rtt_min_us: Some(200),
            sent_again,
            flow_bits,
            squeezed: true,
        };
        let plain = reason(&between(Some(0.0), None));
        assert!(
            plain.contains("round trips take 12 ms (200 µs at the least), and nothing"),
            "{plain}"
        );
        let one = reason(&between(Some(0.012), Some(5e9)));
        for part in [
            " 1 % of the server's segments",
            "Each connection carries 5 Gbit/s",
        ] {
            assert!(one.contains(part), "{part}: {one}");
        }
        let older: Reason =
            serde_json::from_str(r#"{"kind":"between-hosts","busy_share":0.98,"rtt_us":9}"#)
                .expect("the shape of older records");
        assert!(reason(&older).contains("round trips take 9 µs, and"));
    }

    #[test]
    fn a_squeeze_says_what_was_taken_and_what_went() {
        let said = |squeeze, by, lost| moved(&Moved { squeeze, by, lost });
        assert_eq!(
            said(Squeeze::Downlink, 0.2, 0.198),
            "Take 20 % of the downlink away and 20 % of the throughput goes"
        );
        assert_eq!(
            said(Squeeze::MoreInFlight, 0.25, 0.001),
            "Put 25 % more in flight and nothing is gained"
        );
        assert_eq!(
            said(Squeeze::ThinkTime, 0.25, 0.0),
            "Add a pause of 25 % of the response time before each request and none of the throughput goes"
        );
    }

    #[test]
    fn what_is_ruled_out_is_said_before_why_nothing_is_decided() {
        let undecided = Reason::Undecided {
            ruled_out: vec![Wall::Downlink, Wall::Concurrency],
            why: Open::NothingInForce,
        };
        assert_eq!(
            reason(&undecided),
            "The wall is not the downlink or too little in flight: squeezing them moves nothing. No squeeze was in force."
        );
        let offered = Reason::Offered {
            asked: 5_000.0,
            on_average: true,
            answered: 4_980.0,
            full: None,
        };
        let doubted = Reason::TooLittleConfidence {
            of: Box::new(offered),
        };
        assert_eq!(
            reason(&doubted),
            "Too much speaks against it: The offered load: 5,000/s were asked for on average and 4,980/s were answered; no more was wanted."
        );
    }

    #[test]
    fn an_outage_says_when_and_how_often() {
        let said = |at_ns, outages| {
            reason(&Reason::Unreachable(Unreachable {
                at_ns,
                for_ns: 3_500_000_000,
                outages,
            }))
        };
        assert_eq!(said(None, 0), "The server could not be reached for 3.50 s.");
        let one = said(Some(1_500_000_000), 1);
        assert_eq!(
            one,
            "The server could not be reached for 3.50 s from 1.50 s on."
        );
        let more = said(Some(1_500_000_000), 3);
        assert!(
            more.ends_with("in 3 outages, the first from 1.50 s on."),
            "{more}"
        );
    }

    #[test]
    fn what_idles_beside_a_wall_is_said_with_it() {
        let side = Beside {
            server: Some((
                0.5,
                wallfinder_model::reason::Capacity {
                    cores: 2.0,
                    quota: false,
                },
            )),
            client: None,
        };
        assert_eq!(
            beside(Wall::ClientCpu, &side).unwrap(),
            "while the server used 50 % of its 2 cores; the number is the load generator's"
        );
        let client = Beside {
            client: Some(0.33),
            ..Beside::default()
        };
        assert_eq!(
            beside(Wall::ServerCpu, &client).unwrap(),
            "while the load generator idled at 33 %"
        );
    }
}
