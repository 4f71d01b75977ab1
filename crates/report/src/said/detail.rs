//! What a wall is made of, as a clause without a capital and a full stop.

use wallfinder_judge::profile;
use wallfinder_model::Detail;
use wallfinder_model::detail::{ClientHold, Waiters};

use super::reason::{at_sockets, exhausted, unsqueezed};
use super::{named, side};
use crate::number;
use crate::words::join;

/// Which of several client hosts were full. No host's name comes first, which is written as it is.
pub(super) fn client_hosts(hosts: &[String], of: u32) -> String {
    let was = if hosts.len() == 1 { "was" } else { "were" };
    match hosts.len() as u32 == of {
        true => format!("all {of} client hosts {was} full"),
        false => format!("of {of} client hosts {} {was} full", these(hosts)),
    }
}

/// Which of several client hosts had a full link.
pub(super) fn client_links(hosts: &[String], of: u32) -> String {
    let these = these_of(hosts, of);
    match hosts.len() {
        1 => format!("the link of {these} was full"),
        _ => format!("the links of {these} were full"),
    }
}

fn these_of(hosts: &[String], of: u32) -> String {
    match hosts.len() as u32 == of {
        true => format!("all {of} client hosts"),
        false => format!("{} of {of} client hosts", these(hosts)),
    }
}

fn these(hosts: &[String]) -> String {
    /// More are counted.
    const NAMED_MAX: usize = 8;
    match hosts.split_at_checked(NAMED_MAX) {
        Some((named, more)) if !more.is_empty() => {
            format!("{} and {} more", named.join(", "), more.len())
        }
        _ => join(hosts),
    }
}

/// What a wall is made of.
pub fn detail(detail: &Detail) -> String {
    let share = |value: &f64| number::share(*value);
    let cores = |value: &f64| number::cores(*value);
    let time = |ns: &f64| number::span(*ns);
    match detail {
        Detail::Quota { cores: quota } => format!(
            "quota of {} cores: the processors have time left that it may not use",
            cores(quota)
        ),
        Detail::Throttled { share: part } => {
            format!("a quota: throttled in {} of its periods", share(part))
        }
        Detail::ClientHosts { hosts, of } => client_hosts(hosts, *of),
        Detail::Relay { cores: taken } => {
            format!(
                "relay: what delays the link used {} of its cores",
                cores(taken)
            )
        }
        Detail::Neighbour { cores: others } => {
            format!("neighbour: others used {} of its cores", cores(others))
        }
        Detail::Neighbours { named: others } => {
            format!("neighbour on its processors: {}", named(others))
        }
        Detail::ReceiveWork { cpu: None } => {
            "softirq: network receive work on its processors".to_owned()
        }
        Detail::ReceiveWork { cpu: Some(cpu) } => {
            format!("softirq: receive work is not spread beyond processor {cpu}")
        }
        Detail::HotThreads {
            name,
            threads: 1,
            busy,
        } => format!("one hot thread: `{name}` is {} busy", share(busy)),
        Detail::HotThreads { name, threads, .. } => format!("{threads} hot threads: {name}"),
        Detail::InTurn => {
            "one thread at a time: a runtime limited to one processor, or a lock with work inside"
                .to_owned()
        }
        Detail::OneRuns => {
            "no thread is full, so one runs at a time: a lock with work inside".to_owned()
        }
        Detail::SomeRun { count } => format!(
            "about {count:.0} run at a time: as many as its runtime or its workers are, or connections that are spread unevenly over them"
        ),
        Detail::SpeedAlone => {
            "its one processor answers speed and not a quota, which is odd".to_owned()
        }
        Detail::RateIsOther => "its rate is not what it is said to be".to_owned(),
        Detail::UnevenWorkers => "some workers are full and others not".to_owned(),
        Detail::PollingWorkers => "workers that poll: busy by design".to_owned(),
        Detail::DriverThreads { name } => {
            format!("threads of {name} do not spread over its processors")
        }
        Detail::SharedProcessors { thread: None } => {
            "client and server share processors".to_owned()
        }
        Detail::SharedProcessors { thread: Some(name) } => {
            format!("one thread: {name}; client and server share processors")
        }
        Detail::RanOut { of } => format!("the client ran out of {}", exhausted(*of)),
        Detail::Phases => "phases".to_owned(),
        Detail::AcceptQueue => "accept queue".to_owned(),
        Detail::ThinkTime => "think time".to_owned(),
        Detail::ClientLimit => "a pool or limit on the client's side".to_owned(),
        Detail::ClientPool => "a pool on the client's side: fewer connections cost nothing, a pause before each request does".to_owned(),
        Detail::FewConnections { asked, open } => format!(
            "a pool on the client's side: {open} connections are open where {asked} were asked for"
        ),
        Detail::PerConnection { what } => {
            format!("a limit per connection: {}", at_sockets(*what))
        }
        Detail::Bodies { share: part } => format!(
            "a limit per connection: {} of a request's time is that of its body",
            share(part)
        ),
        Detail::StreamsMax { open, asked } => format!(
            "a limit of streams: {} are open on a connection where {asked} were asked for",
            number::fixed(*open, 1)
        ),
        Detail::TimeOfARequest { parts, rest } => {
            let parts = parts
                .iter()
                .map(|part| format!("{} {}", part.wall.words(), share(&part.value)));
            let rest = rest.map(|rest| format!("waiting that no squeeze reaches {}", share(&rest)));
            let all: Vec<String> = parts.chain(rest).collect();
            format!("of a request's time: {}", all.join(", "))
        }
        Detail::DelayedAck => "timer: delayed acknowledgement".to_owned(),
        Detail::BusyWithoutLimit { wall } => {
            format!("{} was busy without being the limit", wall.words())
        }
        Detail::BurstsThrottled { share: part } => format!(
            "latency pays: the server was throttled in {} of the periods of its quota",
            share(part)
        ),
        Detail::HeldPerClient { by } => held_per_client(*by).to_owned(),
        Detail::NoSqueezeReaches => "a wait that no squeeze reaches".to_owned(),
        Detail::Spaced { each_ns } => format!(
            "a limit of rate, or a timer: alone a request takes {}, and fewer are let through",
            time(each_ns)
        ),
        Detail::OneAtATime { each_ns } => format!(
            "one request at a time, {} each: a lock that is held while it waits, or a single slot",
            time(each_ns)
        ),
        Detail::Pool { at_once, each_ns } => format!(
            "a pool, or a limit of how many at once: about {} at a time, {} each",
            number::fixed(*at_once, usize::from(*at_once < 3.0)),
            time(each_ns)
        ),
        Detail::Backends { names } => names.join(", "),
        Detail::Coincide { sum } => format!(
            "their ceilings coincide: elasticities sum to {}",
            number::fixed(*sum, 1)
        ),
        Detail::Unsqueezed { missing } => unsqueezed(missing),
        Detail::Collector {
            side: which,
            share: part,
        } => format!(
            "collection: the garbage collector has {} of {}'s CPU",
            share(part),
            side(*which)
        ),
        Detail::LockAt {
            place,
            waiting,
            who,
        } => format!(
            "a lock: {}, where {waiting:.1} {} wait at any moment",
            profile::place(&place.waits_in, &place.function, &place.line),
            waiters(*who)
        ),
    }
}

const fn held_per_client(by: Option<ClientHold>) -> &'static str {
    match by {
        None => "a limit of each client host: its link, or one of the server's for each address",
        Some(ClientHold::OwnLink) => "a limit of each client host: its link is full",
        Some(ClientHold::Server) => {
            "a limit for each client, of the server's or of the way there: the client hosts' own links have room"
        }
    }
}

pub(super) const fn waiters(who: Waiters) -> &'static str {
    match who {
        Waiters::Threads => "threads",
        Waiters::Goroutines => "goroutines",
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_model::detail::Place;

    use super::*;

    #[test]
    fn a_wait_says_how_many_are_served_at_once() {
        let said = detail(&Detail::Pool {
            at_once: 4.08,
            each_ns: 5.1e6,
        });
        assert!(said.ends_with("about 4 at a time, 5.10 ms each"), "{said}");
        let said = detail(&Detail::OneAtATime { each_ns: 1.1e6 });
        assert!(
            said.starts_with("one request at a time, 1.10 ms each"),
            "{said}"
        );
        let said = detail(&Detail::Spaced { each_ns: 0.2e6 });
        assert!(said.starts_with("a limit of rate"), "{said}");
    }

    #[test]
    fn a_limit_for_each_client_says_whose_it_is_where_that_is_known() {
        let said = |by| detail(&Detail::HeldPerClient { by });
        assert!(said(None).contains("its link, or one of the server's"));
        assert!(said(Some(ClientHold::OwnLink)).ends_with("its link is full"));
        assert!(said(Some(ClientHold::Server)).contains("of the server's or of the way"));
    }

    #[test]
    fn a_lock_says_where_it_is() {
        let said = detail(&Detail::LockAt {
            place: Place {
                waits_in: "sync.(*Mutex).Lock".into(),
                function: "example.org/app/main.next".into(),
                line: "main.go:12".into(),
            },
            waiting: 61.04,
            who: Waiters::Goroutines,
        });
        assert_eq!(
            said,
            "a lock: sync.(*Mutex).Lock in main.next (main.go:12), where 61.0 goroutines wait at any moment"
        );
    }
}
