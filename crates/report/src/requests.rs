//! The kinds of request and of session of a mix, row by row: for the terminal and for the page.

use serde::Serialize;
use wallfinder_judge::profile::short;
use wallfinder_model::record::{
    Cost, Costs, FunctionCost, Histogram, Interference, RequestKind, SessionKind, UsedBy,
};
use wallfinder_model::{Step, Wall};

use crate::figures::quantile;
use crate::number;

/// One kind.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// What it is called.
    pub(crate) name: String,
    /// Its share of what was begun, beside that of its weight; of what was sent, for a step of a session.
    pub(crate) sent: String,
    /// Good answers per second; sessions that were completed.
    pub(crate) rate: String,
    pub(crate) p50: String,
    pub(crate) p99: String,
    /// Share of what was sent that failed, with the class that most of it has.
    pub(crate) failed: String,
    /// Body bytes of an answer, in the mean.
    pub(crate) body: String,
    /// CPU time of the server for one, with half of its interval; empty where that is not known.
    pub(crate) cost: String,
    /// The kind's share of the server's CPU time, with its interval.
    pub(crate) share: String,
    /// CPU time of the load generator for one.
    pub(crate) client: String,
    /// CPU time of what the server asks for one; empty where that is nobody.
    pub(crate) backend: String,
}

/// What there is to say of each kind: requests alone, those that are begun most first, then each session and its steps.
pub(crate) fn rows(step: &Step) -> Vec<Row> {
    Mixed::of(step).rows()
}

/// What was sent in a window.
#[derive(Debug, Clone, Copy)]
struct Mixed<'s> {
    requests: &'s [RequestKind],
    sessions: &'s [SessionKind],
    window_ns: u64,
}

impl<'s> Mixed<'s> {
    fn of(step: &'s Step) -> Mixed<'s> {
        Mixed {
            requests: &step.requests,
            sessions: &step.sessions,
            window_ns: step.window_ns,
        }
    }

    /// Whether a kind begins something by itself.
    fn is_alone(&self, kind: &RequestKind) -> bool {
        let of_session = |session: &SessionKind| kind.session.as_ref() == Some(&session.name);
        kind.weight > 0 && !self.sessions.iter().any(of_session)
    }

    fn rows(self) -> Vec<Row> {
        let whole = Whole::of(self);
        let mut alone: Vec<&RequestKind> = self
            .requests
            .iter()
            .filter(|kind| self.is_alone(kind))
            .collect();
        alone.sort_by_key(|kind| std::cmp::Reverse((kind.weight, kind.sent)));
        let mut rows: Vec<Row> = Vec::new();
        for kind in alone {
            rows.push(whole.alone(kind));
            let hops = self
                .requests
                .iter()
                .filter(|hop| hop.weight == 0 && hop.session.as_ref() == Some(&kind.name));
            rows.extend(hops.map(|hop| whole.step(hop)));
        }
        for session in self.sessions {
            rows.push(whole.session(session));
            let steps = self
                .requests
                .iter()
                .filter(|kind| kind.session.as_ref() == Some(&session.name));
            rows.extend(steps.map(|kind| whole.step(kind)));
        }
        rows
    }
}

/// What shares are of.
struct Whole {
    begun: u64,
    weights: u64,
    sent: u64,
    window_ns: u64,
}

impl Whole {
    fn of(mixed: Mixed<'_>) -> Whole {
        let alone = || mixed.requests.iter().filter(|kind| mixed.is_alone(kind));
        let sessions = || mixed.sessions.iter();
        Whole {
            begun: alone().map(|kind| kind.sent).sum::<u64>()
                + sessions().map(|session| session.begun).sum::<u64>(),
            weights: alone().map(|kind| u64::from(kind.weight)).sum::<u64>()
                + sessions()
                    .map(|session| u64::from(session.weight))
                    .sum::<u64>(),
            sent: mixed.requests.iter().map(|kind| kind.sent).sum(),
            window_ns: mixed.window_ns,
        }
    }

    fn of_weight(&self, begun: u64, weight: u32) -> String {
        format!(
            "{} of {}",
            number::share(part(begun, self.begun)),
            number::share(part(u64::from(weight), self.weights))
        )
    }

    fn alone(&self, kind: &RequestKind) -> Row {
        Row {
            sent: self.of_weight(kind.sent, kind.weight),
            ..self.step(kind)
        }
    }

    fn step(&self, kind: &RequestKind) -> Row {
        Row {
            name: kind.name.clone(),
            sent: number::share(part(kind.sent, self.sent)),
            rate: number::amount(kind.throughput),
            failed: failed(kind),
            body: match kind.answered {
                0 => number::UNKNOWN.to_owned(),
                answered => number::bytes(kind.body_bytes as f64 / answered as f64),
            },
            ..timed(kind.latency.as_ref(), kind.costs.as_ref())
        }
    }

    fn session(&self, session: &SessionKind) -> Row {
        let per_second = session.completed as f64 * 1e9 / self.window_ns.max(1) as f64;
        let broken = part(session.broken_off, session.completed + session.broken_off);
        Row {
            name: format!("{}, whole", session.name),
            sent: self.of_weight(session.begun, session.weight),
            rate: number::amount(per_second),
            failed: match session.broken_off {
                0 => number::share(0.0),
                _ => format!("{} broken off", number::share(broken)),
            },
            ..timed(session.took.as_ref(), session.costs.as_ref())
        }
    }
}

/// A row's times and costs, the rest empty.
fn timed(latency: Option<&Histogram>, costs: Option<&Costs>) -> Row {
    let latency = |name| {
        let found = quantile(latency, name);
        found.map_or(number::UNKNOWN.to_owned(), number::span)
    };
    let each = |cost: Cost| {
        let half = (cost.high - cost.low) / 2.0;
        format!("{} ± {}", number::span(cost.each), number::span(half))
    };
    let server = costs.map(|costs| costs.server);
    Row {
        name: String::new(),
        sent: String::new(),
        rate: String::new(),
        p50: latency("p50"),
        p99: latency("p99"),
        failed: String::new(),
        body: String::new(),
        cost: server.map_or(String::new(), each),
        share: server.map_or(String::new(), |cost| {
            let [share, low, high] = percents(&cost);
            format!("{share} % [{low}, {high}]")
        }),
        client: costs
            .and_then(|costs| costs.client)
            .map_or(String::new(), each),
        backend: costs
            .and_then(|costs| costs.backend)
            .map_or(String::new(), each),
    }
}

fn part(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn percent(share: f64) -> String {
    format!("{:.0}", 100.0 * share.clamp(0.0, 1.0))
}

fn percents(cost: &Cost) -> [String; 3] {
    [cost.share, cost.share_low, cost.share_high].map(percent)
}

/// Which of them cost each other, a sentence for each pair.
pub(crate) fn interference(step: &Step) -> impl Iterator<Item = String> + '_ {
    step.interference.iter().map(beside)
}

fn beside(pair: &Interference) -> String {
    let [one, other] = &pair.between;
    let [share, low, high] = [pair.share, pair.share_low, pair.share_high].map(percent);
    let (of, cause) = match pair.of {
        UsedBy::Server => (
            "the server's CPU time",
            "empties a cache that the other uses",
        ),
        UsedBy::Backend => (
            "the CPU time of what the server asks",
            "empties a cache that the other uses",
        ),
        UsedBy::Wait => (
            "the time for which requests wait",
            "holds a lock that the other needs",
        ),
    };
    let names: Vec<&str> = pair.functions.iter().map(|name| short(name)).collect();
    let mostly = match names.as_slice() {
        [] => String::new(),
        names => format!(", mostly in {}", names.join(", ")),
    };
    format!(
        "{one} and {other} cost each other: {share} % [{low}, {high}] of {of} is what neither takes without the other{mostly}, \
         as where one {cause}."
    )
}

/// The server's functions that mostly work for one of them, a sentence for each.
pub(crate) fn functions(step: &Step) -> impl Iterator<Item = String> + '_ {
    let requests = step.requests.iter();
    let requests = requests.map(|kind| (&kind.name, &kind.functions));
    let sessions = step.sessions.iter();
    let sessions = sessions.map(|session| (&session.name, &session.functions));
    let all = requests.chain(sessions);
    all.filter(|(_, functions)| !functions.is_empty())
        .map(|(name, functions)| spent(name, functions))
}

fn spent(name: &str, functions: &[FunctionCost]) -> String {
    let part = |function: &FunctionCost| {
        let [part, low, high] = [function.part, function.part_low, function.part_high].map(percent);
        format!("{part} % [{low}, {high}] in {}", short(&function.name))
    };
    let parts: Vec<String> = functions.iter().map(part).collect();
    format!("Of the server's CPU time for {name}, {}.", parts.join(", "))
}

/// Which of them has most of what the wall is made of, and what part of all that begins it is.
pub(crate) fn heaviest(step: &Step) -> Option<String> {
    let mixed = Mixed::of(step);
    let whole = Whole::of(mixed);
    let wall = step.verdict.as_ref().map(|verdict| verdict.wall);
    let alone = step.requests.iter().filter(|kind| mixed.is_alone(kind));
    let alone = alone.map(|kind| (&kind.name, kind.sent, kind.costs));
    let sessions = step.sessions.iter();
    let sessions = sessions.map(|session| (&session.name, session.begun, session.costs));
    let all = || alone.clone().chain(sessions.clone());
    if wall == Some(Wall::Downlink) {
        return heaviest_by_bytes(step);
    }
    let of_wall = |costs: Costs| match wall {
        Some(Wall::ClientCpu) => costs.client,
        Some(Wall::Wait) => costs.held,
        Some(Wall::Backend) => costs.backend,
        _ => Some(costs.server),
    };
    let costed = all().filter_map(|(name, begun, costs)| Some((name, begun, of_wall(costs?)?)));
    let (name, begun, cost) = costed.max_by(|a, b| a.2.share.total_cmp(&b.2.share))?;
    let is_wall = matches!(
        wall,
        Some(Wall::ServerCpu | Wall::ServerSerial | Wall::ClientCpu | Wall::Backend | Wall::Wait)
    );
    let [share, low, high] = percents(&cost);
    let of = match wall {
        Some(Wall::ClientCpu) => "the load generator's CPU time",
        Some(Wall::Wait) => "the time for which requests wait",
        Some(Wall::Backend) => "the CPU time of what the server asks",
        _ => "the server's CPU time",
    };
    Some(format!(
        "{name} is {} % of {} and {share} % [{low}, {high}] of {of}{}.",
        percent(part(begun, whole.begun)),
        if step.sessions.is_empty() {
            "the requests"
        } else {
            "what begins"
        },
        if is_wall { ", which is the wall" } else { "" },
    ))
}

/// The same of the bytes of answers, which are counted and not estimated.
fn heaviest_by_bytes(step: &Step) -> Option<String> {
    let [sent, bytes] = [
        |kind: &RequestKind| kind.sent,
        |kind: &RequestKind| kind.wire_bytes,
    ]
    .map(|of| step.requests.iter().map(of).sum::<u64>());
    let kind = step.requests.iter().max_by_key(|kind| kind.wire_bytes)?;
    Some(format!(
        "{} is {} % of the requests and {} % of the bytes of answers, which the wall is made of.",
        kind.name,
        percent(part(kind.sent, sent)),
        percent(part(kind.wire_bytes, bytes)),
    ))
}

fn failed(kind: &RequestKind) -> String {
    let all: u64 = kind.failed.values().sum();
    let most = kind.failed.iter().max_by_key(|(_, count)| **count);
    let share = number::share(all as f64 / kind.sent.max(1) as f64);
    match most.filter(|_| all > 0) {
        Some((class, _)) => format!("{share} {class}"),
        None => share,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_another_and_where_time_is_spent_are_sentences() {
        let pair = |of| Interference {
            between: ["search".to_owned(), "flush".to_owned()],
            of,
            share: 0.312,
            share_low: 0.25,
            share_high: 0.374,
            chance: 1e-5,
            functions: Vec::new(),
        };
        assert_eq!(
            beside(&pair(UsedBy::Server)),
            "search and flush cost each other: 31 % [25, 37] of the server's CPU time is what neither takes without the \
             other, as where one empties a cache that the other uses."
        );
        assert!(beside(&pair(UsedBy::Wait)).contains("of the time for which requests wait"));
        let mut filled = pair(UsedBy::Server);
        filled.functions.push("shop/cache.Fill".to_owned());
        assert!(
            beside(&filled).contains("takes without the other, mostly in cache.Fill, as where")
        );
        let function = |name: &str, part| FunctionCost {
            name: name.to_owned(),
            part,
            part_low: part - 0.05,
            part_high: part + 0.05,
            ..FunctionCost::default()
        };
        let functions = [function("shop/rank.Sort", 0.8), function("rank.less", 0.31)];
        assert_eq!(
            spent("search", &functions),
            "Of the server's CPU time for search, 80 % [75, 85] in rank.Sort, 31 % [26, 36] in rank.less."
        );
    }

    #[test]
    fn kinds_stand_by_weight_with_what_failed() {
        let kind = |name: &str, weight, sent, failed: u64| RequestKind {
            name: name.to_owned(),
            weight,
            sent,
            answered: sent - failed,
            failed: [("status.4xx".to_owned(), failed)].into(),
            throughput: sent as f64,
            body_bytes: 2_000 * (sent - failed),
            ..RequestKind::default()
        };
        let mixed = Mixed {
            requests: &[kind("/pay", 1, 90, 9), kind("/search", 9, 910, 0)],
            sessions: &[],
            window_ns: 1,
        };
        let rows = mixed.rows();
        let shown: Vec<[&str; 4]> = rows
            .iter()
            .map(|row| [&*row.name, &*row.sent, &*row.failed, &*row.body])
            .collect();
        assert_eq!(shown[0], ["/search", "91 % of 90 %", "0 %", "2.00 KB"]);
        assert_eq!(
            shown[1],
            ["/pay", "9 % of 10 %", "10 % status.4xx", "2.00 KB"]
        );
    }

    #[test]
    fn a_session_stands_before_its_steps() {
        let step = |name: &str, sent| RequestKind {
            name: name.to_owned(),
            weight: 1,
            sent,
            session: Some("buy".to_owned()),
            ..RequestKind::default()
        };
        let session = SessionKind {
            name: "buy".to_owned(),
            weight: 1,
            begun: 10,
            completed: 6,
            broken_off: 2,
            ..SessionKind::default()
        };
        let search = RequestKind {
            name: "search".to_owned(),
            weight: 3,
            sent: 30,
            ..RequestKind::default()
        };
        let mixed = Mixed {
            requests: &[step("buy.login", 10), step("buy.pay", 8), search],
            sessions: &[session],
            window_ns: 2_000_000_000,
        };
        let shown: Vec<[String; 3]> = mixed
            .rows()
            .into_iter()
            .map(|row| [row.name, row.sent, row.failed])
            .collect();
        let want = [
            ["search", "75 % of 75 %", "0 %"],
            ["buy, whole", "25 % of 25 %", "25 % broken off"],
            ["buy.login", "21 %", "0 %"],
            ["buy.pay", "17 %", "0 %"],
        ];
        assert_eq!(shown, want);
    }
}
