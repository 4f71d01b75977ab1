//! The kinds of request and of session of a mix, row by row: for the terminal and for the page.

use serde::Serialize;
use wallfinder_judge::profile::short;
use wallfinder_judge::routes::{MadeOf, WallShares};
use wallfinder_model::Step;
use wallfinder_model::record::{
    Cost, Costs, FunctionCost, Histogram, Interference, Pool, RequestKind, SessionKind, UsedBy,
};

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
    /// Share of what was sent, or was to be, that failed, with the class that most of it has.
    pub(crate) failed: String,
    /// Body bytes of an answer, in the mean.
    pub(crate) body: String,
    /// CPU time of the server for one, with half of its interval; empty where that is not known.
    pub(crate) cost: String,
    /// The kind's share of the server's CPU time, with its interval.
    pub(crate) share: String,
    /// Its share of what the wall is made of; empty where that is not known.
    pub(crate) wall: String,
    /// CPU time of the load generator for one.
    pub(crate) client: String,
    /// CPU time of what the server asks for one; empty where that is nobody.
    pub(crate) backend: String,
}

/// What there is to say of each kind: those with most of the wall first, where that is known, or else of the server's CPU
/// time; and else requests alone, those that are begun most first, then each session and its steps. Of many the rarest have a
/// row together too.
pub(crate) fn rows(step: &Step) -> Vec<Row> {
    Mixed::of(step).rows()
}

/// The rarest of many, which are told only together, as one kind of request.
pub(crate) fn pooled(step: &Step) -> Option<RequestKind> {
    Mixed::of(step).pooled()
}

/// Shares of a step's wall, where they are known.
pub(crate) fn shares_of_wall(step: &Step) -> Option<WallShares<'_>> {
    let verdict = step.verdict.as_ref()?;
    WallShares::of(verdict.wall, &step.requests)
}

/// The share of the rarest of many; `None` where each of them has a share of its own, for it is counted.
pub(crate) fn share_of_pool(shares: &WallShares<'_>, pool: &Pool) -> Option<[f64; 3]> {
    let is_told_together = !shares.made_of.is_counted();
    let shares = is_told_together.then_some(shares)?;
    shares.share_of(|name| has(pool, name), Some(&pool.costs))
}

fn has(pool: &Pool, name: &str) -> bool {
    pool.names.iter().any(|of| of == name)
}

/// What was sent in a window.
#[derive(Debug, Clone, Copy, Default)]
struct Mixed<'s> {
    requests: &'s [RequestKind],
    sessions: &'s [SessionKind],
    pool: Option<&'s Pool>,
    shares: Option<WallShares<'s>>,
    window_ns: u64,
}

impl<'s> Mixed<'s> {
    fn of(step: &'s Step) -> Mixed<'s> {
        Mixed {
            requests: &step.requests,
            sessions: &step.sessions,
            pool: step.pool.as_ref(),
            shares: shares_of_wall(step),
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
        let mut blocks: Vec<(f64, Vec<Row>)> = Vec::new();
        for kind in alone {
            let hops = self
                .requests
                .iter()
                .filter(|hop| hop.weight == 0 && hop.session.as_ref() == Some(&kind.name));
            let mut rows = vec![whole.alone(kind)];
            rows.extend(hops.map(|hop| whole.step(hop)));
            let wall = self.share(&kind.name, kind.costs.as_ref());
            blocks.push((order(wall, kind.costs.as_ref()), rows));
        }
        for session in self.sessions {
            let steps = self
                .requests
                .iter()
                .filter(|kind| kind.session.as_ref() == Some(&session.name));
            let mut rows = vec![whole.session(session)];
            rows.extend(steps.map(|kind| whole.step(kind)));
            let wall = self.share(&session.name, session.costs.as_ref());
            blocks.push((order(wall, session.costs.as_ref()), rows));
        }
        if let (Some(pool), Some(kind)) = (self.pool, self.pooled()) {
            let wall = self.shares.and_then(|shares| share_of_pool(&shares, pool));
            let row = Row {
                wall: wall.map_or(String::new(), spread),
                ..whole.alone(&kind)
            };
            blocks.push((order(wall, Some(&pool.costs)), vec![row]));
        }
        // Those of which no share is known stay as they are, behind the others.
        blocks.sort_by(|one, other| other.0.total_cmp(&one.0));
        blocks.into_iter().flat_map(|(_, rows)| rows).collect()
    }

    /// The share of the wall that a request has, or a session.
    fn share(self, name: &str, costs: Option<&Costs>) -> Option<[f64; 3]> {
        self.shares?.share(name, costs)
    }

    fn completed_per_second(self, session: &SessionKind) -> f64 {
        session.completed as f64 * 1e9 / self.window_ns.max(1) as f64
    }

    fn pooled(self) -> Option<RequestKind> {
        let pool = self.pool?;
        let mut sum = RequestKind {
            name: format!("{} rarest together", pool.names.len()),
            costs: Some(pool.costs),
            ..RequestKind::default()
        };
        for kind in self.requests {
            let session = kind.session.as_deref();
            if !has(pool, &kind.name) && !session.is_some_and(|name| has(pool, name)) {
                continue;
            }
            sum.wire_bytes += kind.wire_bytes;
            sum.sent_bytes += kind.sent_bytes;
            if !self.is_alone(kind) {
                continue;
            }
            sum.weight = sum.weight.saturating_add(kind.weight);
            sum.sent += kind.sent;
            sum.answered += kind.answered;
            for (class, count) in &kind.failed {
                *sum.failed.entry(class.clone()).or_default() += count;
            }
            sum.unsent += kind.unsent;
            sum.throughput += kind.throughput;
            sum.body_bytes += kind.body_bytes;
        }
        for session in self.sessions.iter().filter(|of| has(pool, &of.name)) {
            sum.weight = sum.weight.saturating_add(session.weight);
            sum.sent += session.begun;
            sum.throughput += self.completed_per_second(session);
        }
        Some(sum)
    }
}

/// By what rows are ordered: the share of the wall, or of the server's CPU time where the wall is of nothing that requests
/// share out.
fn order(wall: Option<[f64; 3]>, costs: Option<&Costs>) -> f64 {
    let share = wall.map(|[share, _, _]| share);
    share
        .or(costs.map(|costs| costs.server.share))
        .unwrap_or(f64::NEG_INFINITY)
}

/// What shares are of.
struct Whole<'s> {
    mixed: Mixed<'s>,
    begun: u64,
    weights: u64,
    sent: u64,
}

impl<'s> Whole<'s> {
    fn of(mixed: Mixed<'s>) -> Whole<'s> {
        let alone = || mixed.requests.iter().filter(|kind| mixed.is_alone(kind));
        let sessions = || mixed.sessions.iter();
        Whole {
            mixed,
            begun: alone().map(|kind| kind.sent).sum::<u64>()
                + sessions().map(|session| session.begun).sum::<u64>(),
            weights: alone().map(|kind| u64::from(kind.weight)).sum::<u64>()
                + sessions()
                    .map(|session| u64::from(session.weight))
                    .sum::<u64>(),
            sent: mixed.requests.iter().map(|kind| kind.sent).sum(),
        }
    }

    fn of_weight(&self, begun: u64, weight: u32) -> String {
        format!(
            "{} of {}",
            number::share(part(begun, self.begun)),
            number::share(part(u64::from(weight), self.weights))
        )
    }

    fn of_wall(&self, name: &str, costs: Option<&Costs>) -> String {
        let share = self.mixed.share(name, costs);
        share.map_or(String::new(), spread)
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
            wall: self.of_wall(&kind.name, kind.costs.as_ref()),
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
        let broken = part(session.broken_off, session.completed + session.broken_off);
        Row {
            name: format!("{}, whole", session.name),
            wall: self.of_wall(&session.name, session.costs.as_ref()),
            sent: self.of_weight(session.begun, session.weight),
            rate: number::amount(self.mixed.completed_per_second(session)),
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
        share: server.map_or(String::new(), |cost| spread(cost.shares())),
        wall: String::new(),
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

/// A share with its interval, which what is counted does not have.
fn spread([share, low, high]: [f64; 3]) -> String {
    let text = format!("{} %", percent(share));
    match low < high {
        true => format!("{text} [{}, {}]", percent(low), percent(high)),
        false => text,
    }
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

/// What looking into answers takes of the load generator: those that take most are named.
pub(crate) fn looks(step: &Step) -> Option<String> {
    looks_of(&step.requests, step.window_ns)
}

fn looks_of(requests: &[RequestKind], window_ns: u64) -> Option<String> {
    /// More say little.
    const NAMED_MAX: usize = 3;
    let looked = requests.iter().filter_map(|kind| {
        let looked = kind.looked_into?;
        let each = looked.each_ns();
        Some((&*kind.name, each, each * looked.answers as f64))
    });
    let mut all: Vec<(&str, f64, f64)> = looked.collect();
    all.sort_by(|one, other| other.2.total_cmp(&one.2));
    let whole: f64 = all.iter().map(|(_, _, whole)| whole).sum();
    let each = |(name, each, _): &(&str, f64, f64)| format!("{} for {name}", number::span(*each));
    let each: Vec<String> = all.iter().take(NAMED_MAX).map(each).collect();
    let rest = match all.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        rest => format!(" and less for {rest} more"),
    };
    let share = number::share(whole / window_ns.max(1) as f64);
    (!all.is_empty()).then(|| {
        format!(
            "Looking into an answer takes the load generator {}{rest}: {share} of one processor.",
            each.join(", ")
        )
    })
}

/// Which of them has most of what the wall is made of, and what part of all that begins it is.
pub(crate) fn heaviest(step: &Step) -> Option<String> {
    Mixed::of(step).heaviest()
}

impl Mixed<'_> {
    fn heaviest(self) -> Option<String> {
        let made_of = self.shares.map(|shares| shares.made_of);
        if let Some(shares) = self.shares.filter(|shares| shares.made_of.is_counted()) {
            return self.heaviest_by_bytes(&shares);
        }
        let pool = self.pooled();
        let alone = self.requests.iter().filter(|kind| self.is_alone(kind));
        let alone = alone
            .chain(&pool)
            .map(|kind| (&kind.name, kind.sent, kind.costs));
        let sessions = self.sessions.iter();
        let sessions = sessions.map(|session| (&session.name, session.begun, session.costs));
        let of = made_of.unwrap_or(MadeOf::ServerCpu);
        let costed = alone
            .chain(sessions)
            .filter_map(|(name, begun, costs)| Some((name, begun, of.cost(&costs?)?)));
        let (name, begun, cost) = costed.max_by(|a, b| a.2.share.total_cmp(&b.2.share))?;
        let subject = match pool.as_ref().is_some_and(|pool| pool.name == *name) {
            true => format!("The {name} are"),
            false => format!("{name} is"),
        };
        Some(format!(
            "{subject} {} % of {} and {} of {}{}.",
            percent(part(begun, Whole::of(self).begun)),
            if self.sessions.is_empty() {
                "the requests"
            } else {
                "what begins"
            },
            spread(cost.shares()),
            match of {
                MadeOf::ClientCpu => "the load generator's CPU time",
                MadeOf::Waiting => "the time for which requests wait",
                MadeOf::BackendCpu => "the CPU time of what the server asks",
                _ => "the server's CPU time",
            },
            if made_of.is_some() {
                ", which is the wall"
            } else {
                ""
            },
        ))
    }

    /// The same of bytes, which are counted and not estimated.
    fn heaviest_by_bytes(self, shares: &WallShares<'_>) -> Option<String> {
        let all: u64 = self.requests.iter().map(|kind| kind.sent).sum();
        let shared = self
            .requests
            .iter()
            .filter_map(|kind| Some((kind, shares.share(&kind.name, None)?)));
        let (kind, share) = shared.max_by(|a, b| a.1[0].total_cmp(&b.1[0]))?;
        Some(format!(
            "{} is {} % of the requests and {} of the bytes of {} on the link, which is the wall.",
            kind.name,
            percent(part(kind.sent, all)),
            spread(share),
            match shares.made_of {
                MadeOf::RequestBytes => "requests",
                _ => "answers",
            },
        ))
    }
}

fn failed(kind: &RequestKind) -> String {
    let all: u64 = kind.failed.values().sum();
    let most = kind.failed.iter().max_by_key(|(_, count)| **count);
    let ended = kind.sent + kind.unsent;
    let share = number::share(all as f64 / ended.max(1) as f64);
    match most.filter(|_| all > 0) {
        Some((class, _)) => format!("{share} {class}"),
        None => share,
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_model::Wall;
    use wallfinder_model::record::Looked;

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
    fn what_looking_into_answers_takes_is_told_of_those_that_take_most() {
        let kind = |name: &str, answers: u64, each_ns: u64| RequestKind {
            name: name.to_owned(),
            looked_into: Some(Looked {
                answers,
                timed: 10,
                timed_ns: 10 * each_ns,
            }),
            ..RequestKind::default()
        };
        let plain = RequestKind::default();
        let requests = [
            kind("cart", 1_000, 2_000),
            plain,
            kind("search", 10_000, 900),
        ];
        assert_eq!(
            looks_of(&requests, 100_000_000).expect("it was measured"),
            "Looking into an answer takes the load generator 900 ns for search, 2.00 µs for cart: 11 % of one processor."
        );
        let many: Vec<RequestKind> = (0..5).map(|nth| kind(&nth.to_string(), 10, 900)).collect();
        let told = looks_of(&many, 100_000_000).expect("it was measured");
        assert!(told.contains("for 2 and less for 2 more: "), "{told}");
        assert_eq!(looks_of(&requests[1..2], 100_000_000), None);
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
            window_ns: 1,
            ..Mixed::default()
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
            ..Mixed::default()
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

    fn cost(share: f64) -> Cost {
        Cost {
            share,
            share_low: share - 0.01,
            share_high: share + 0.01,
            ..Cost::default()
        }
    }

    /// A kind with so much of the server's CPU time and of the wait.
    fn costed(name: &str, weight: u32, server: f64, held: f64) -> RequestKind {
        RequestKind {
            name: name.to_owned(),
            weight,
            sent: 10 * u64::from(weight),
            costs: Some(Costs {
                server: cost(server),
                held: Some(cost(held)),
                ..Costs::default()
            }),
            ..RequestKind::default()
        }
    }

    fn at<'s>(wall: Wall, requests: &'s [RequestKind], pool: Option<&'s Pool>) -> Mixed<'s> {
        Mixed {
            requests,
            pool,
            shares: WallShares::of(wall, requests),
            window_ns: 1,
            ..Mixed::default()
        }
    }

    #[test]
    fn what_has_most_of_the_wall_stands_first_with_its_share() {
        let requests = [costed("read", 9, 0.7, 0.1), costed("write", 1, 0.3, 0.9)];
        let shown = |wall| -> Vec<[String; 2]> {
            let rows = at(wall, &requests, None).rows().into_iter();
            rows.map(|row| [row.name, row.wall]).collect()
        };
        assert_eq!(
            shown(Wall::Wait),
            [["write", "90 % [89, 91]"], ["read", "10 % [9, 11]"]]
        );
        assert_eq!(
            shown(Wall::ServerCpu),
            [["read", "70 % [69, 71]"], ["write", "30 % [29, 31]"]]
        );
        // Whose share is not known keeps it empty.
        assert_eq!(shown(Wall::Concurrency), [["read", ""], ["write", ""]]);
        assert_eq!(shown(Wall::ClientCpu), [["read", ""], ["write", ""]]);
    }

    #[test]
    fn the_rarest_together_have_a_row_and_are_named_where_they_have_most_of_the_wall() {
        let rare = |name: &str| RequestKind {
            name: name.to_owned(),
            weight: 1,
            sent: 10,
            answered: 8,
            failed: [("status.5xx".to_owned(), 2)].into(),
            throughput: 4.0,
            body_bytes: 800,
            ..RequestKind::default()
        };
        let requests = [costed("read", 98, 0.2, 0.2), rare("export"), rare("import")];
        let pool = Pool {
            names: vec!["export".to_owned(), "import".to_owned()],
            costs: Costs {
                server: cost(0.8),
                ..Costs::default()
            },
        };
        let mixed = at(Wall::ServerCpu, &requests, Some(&pool));
        let rows = mixed.rows();
        let names: Vec<&str> = rows.iter().map(|row| &*row.name).collect();
        assert_eq!(names, ["2 rarest together", "read", "export", "import"]);
        let together = &rows[0];
        assert_eq!(
            [&*together.sent, &*together.rate, &*together.failed],
            ["2 % of 2 %", "8", "20 % status.5xx"]
        );
        assert_eq!(
            [&*together.body, &*together.wall],
            ["100 B", "80 % [79, 81]"]
        );
        assert_eq!(
            mixed.heaviest().expect("costs are known"),
            "The 2 rarest together are 2 % of the requests and 80 % [79, 81] of the server's CPU time, which is the wall."
        );
    }

    #[test]
    fn bytes_of_requests_are_the_uplinks_where_they_were_counted() {
        let mut requests = [costed("read", 9, 0.6, 0.0), costed("upload", 1, 0.4, 0.0)];
        let said = |requests: &[RequestKind]| at(Wall::Uplink, requests, None).heaviest();
        assert_eq!(
            said(&requests).expect("costs are known"),
            "read is 90 % of the requests and 60 % [59, 61] of the server's CPU time."
        );
        // A segment of the one has 33 bytes beside its heads, one of the other as many as fit.
        (requests[0].sent_bytes, requests[1].sent_bytes) = (3_000, 144_000);
        assert_eq!(
            said(&requests).expect("bytes are counted"),
            "upload is 10 % of the requests and 94 % [94, 98] of the bytes of requests on the link, which is the wall."
        );
        let rows = at(Wall::Uplink, &requests, None).rows();
        assert_eq!(
            [&*rows[0].name, &*rows[0].wall],
            ["upload", "94 % [94, 98]"]
        );
    }
}
