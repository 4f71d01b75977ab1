//! A record as CSV (RFC 4180): one row for each step; of a `find` one for each window of its
//! experiment; of an `ab` one for each step with its setting and round, and one for each
//! ratio; of a mix, behind an empty row, one for each request and session. And one row for each interval.
//!
//! Times are in nanoseconds, shares in 0..1, sizes in bytes; a value that is not known is
//! an empty field. The first row names the columns; [`STEP_COLUMNS`],
//! [`INTERVAL_COLUMNS`], [`WINDOW_COLUMNS`], [`RATIO_COLUMNS`] and [`PART_COLUMNS`] say what they hold.

use crate::safe::clean;
use wallfinder_judge::bounds::Bounds;
use wallfinder_judge::proof::relatives;
use wallfinder_judge::routes::WallShares;
use wallfinder_model::experiment::{Condition, Experiment, Squeeze, Window};
use wallfinder_model::plan::Arrival;
use wallfinder_model::record::{
    Cost, Costs, Histogram, Interval, Looked, Ratio, RequestKind, SessionKind,
};
use wallfinder_model::{Record, Step};

use crate::figures::{Figures, QUANTILES, quantile};
use crate::requests::{pooled, share_of_pool, shares_of_wall};
use crate::words;

/// What a column takes a value from.
type StepCell = fn(&Step, &Figures) -> Cell;
type IntervalCell = fn(&Step, &Interval) -> Cell;
type WindowCell = fn(&WindowOf<'_>) -> Cell;
type RatioCell = fn(&Ratio) -> Cell;
type PartCell = fn(&PartOf<'_>) -> Cell;

/// A window, the experiment that it is of, and its throughput over that of its shams.
#[derive(Debug)]
pub struct WindowOf<'r> {
    step: &'r Step,
    experiment: &'r Experiment,
    window: &'r Window,
    relative: Option<f64>,
}

impl WindowOf<'_> {
    fn condition(&self) -> Option<&Condition> {
        self.experiment.condition(self.window)
    }
}

/// A request of a mix, or a session, and the step that it is of.
#[derive(Debug)]
pub struct PartOf<'r> {
    step: &'r Step,
    shares: Option<WallShares<'r>>,
    is: Part<'r>,
}

#[derive(Debug)]
enum Part<'r> {
    Request(&'r RequestKind),
    Session(&'r SessionKind),
    /// The rarest of many, together.
    Pool(&'r RequestKind),
}

impl PartOf<'_> {
    fn cost(&self, of: fn(&Costs) -> Option<Cost>) -> Option<Cost> {
        let costs = match self.is {
            Part::Request(kind) | Part::Pool(kind) => kind.costs.as_ref(),
            Part::Session(session) => session.costs.as_ref(),
        };
        costs.and_then(of)
    }

    /// Its share of the wall, or an end of that share's interval.
    fn of_wall(&self, nth: usize) -> Cell {
        let share = self.shares.as_ref().and_then(|shares| match self.is {
            Part::Request(kind) => shares.share(&kind.name, kind.costs.as_ref()),
            Part::Session(session) => shares.share(&session.name, session.costs.as_ref()),
            Part::Pool(_) => share_of_pool(shares, self.step.pool.as_ref()?),
        });
        Cell::maybe(share.map(|share| share[nth]))
    }

    fn latency(&self, name: &str) -> Cell {
        let latency = match self.is {
            Part::Request(kind) | Part::Pool(kind) => kind.latency.as_ref(),
            Part::Session(session) => session.took.as_ref(),
        };
        Cell::maybe(quantile(latency, name))
    }
}

/// A column: its name, what it holds, and where that comes from.
#[derive(Debug)]
pub struct Column<F> {
    /// In the first row.
    pub name: &'static str,
    /// What it holds, and its unit.
    pub about: &'static str,
    cell: F,
}

/// One field.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words; quoted where needed.
    Text(String),
    /// A whole number.
    Whole(i128),
    /// A fraction; empty when it is not finite.
    Real(f64),
    /// Not known.
    Unknown,
}

impl Cell {
    fn maybe(value: Option<f64>) -> Cell {
        value.map_or(Cell::Unknown, Cell::Real)
    }

    fn write(&self, row: &mut String) {
        match self {
            Cell::Text(text) => quote(text, row),
            Cell::Whole(value) => row.push_str(&value.to_string()),
            Cell::Real(value) if value.is_finite() => row.push_str(&value.to_string()),
            Cell::Real(_) | Cell::Unknown => {}
        }
    }
}

/// A field of words. A label that a spreadsheet would run as a formula gets an apostrophe.
/// Line ends and tabs are data here; other control characters are not.
fn quote(text: &str, row: &mut String) {
    let text: String = text
        .split_inclusive(['\n', '\r', '\t'])
        .map(|piece| match piece.char_indices().next_back() {
            Some((at, end @ ('\n' | '\r' | '\t'))) => format!("{}{end}", clean(&piece[..at])),
            _ => clean(piece),
        })
        .collect();
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let guard = if formula { "'" } else { "" };
    if formula || text.contains(['"', ',', '\n', '\r']) {
        row.push_str(&format!("\"{guard}{}\"", text.replace('"', "\"\"")));
    } else {
        row.push_str(&text);
    }
}

fn count(value: u64) -> Cell {
    Cell::Whole(i128::from(value))
}

fn nanos(histogram: Option<&Histogram>, name: &str) -> Cell {
    histogram
        .and_then(|histogram| histogram.quantile_ns(name))
        .map_or(Cell::Unknown, count)
}

fn whole(histogram: Option<&Histogram>, pick: fn(&Histogram) -> Cell) -> Cell {
    histogram
        .filter(|histogram| histogram.count > 0)
        .map_or(Cell::Unknown, pick)
}

fn lower_bounds(step: &Step) -> String {
    let Some(bounds) = Bounds::of(step) else {
        return String::new();
    };
    let names = QUANTILES.iter().map(|(name, _)| *name);
    let bound: Vec<&str> = names.filter(|name| bounds.bounds_named(name)).collect();
    bound.join(" ")
}

macro_rules! column {
    ($name:literal, $about:literal, $cell:expr) => {
        Column {
            name: $name,
            about: $about,
            cell: $cell,
        }
    };
}

/// The columns of [`each_step`].
pub const STEP_COLUMNS: &[Column<StepCell>] = &[
    column!("index", "position in the run, from 0", |s, _| Cell::Whole(
        s.index.into()
    )),
    column!("name", "name of the step", |s, _| Cell::Text(
        s.name.clone()
    )),
    column!("url", "URL, secrets redacted", |s, _| Cell::Text(
        s.target.url.clone()
    )),
    column!("driver", "what produced the load", |s, _| Cell::Text(
        s.driver.name.clone()
    )),
    column!("throughput_from", "`engine`, `report` or `wire`", |s, _| {
        Cell::Text(s.driver.throughput_from.label().to_owned())
    }),
    column!("connections", "connections over all workers", |s, _| {
        Cell::Whole(s.load.connections.into())
    }),
    column!(
        "in_flight_per_connection",
        "depth or streams at the most",
        |s, _| { Cell::Whole(s.load.in_flight_per_connection.into()) }
    ),
    column!(
        "max_in_flight",
        "requests in flight over all connections at the most; empty: no bound",
        |s, _| {
            s.load
                .max_in_flight
                .map_or(Cell::Unknown, |bound| Cell::Whole(bound.into()))
        }
    ),
    column!("workers", "engine threads", |s, _| Cell::Whole(
        s.load.workers.into()
    )),
    column!(
        "arrival",
        "`closed`, `constant`, `poisson`, `ramp` or `replay`",
        |s, _| {
            Cell::Text(
                match s.load.arrival {
                    Arrival::Closed { .. } => "closed",
                    Arrival::Constant { .. } => "constant",
                    Arrival::Poisson { .. } => "poisson",
                    Arrival::Ramp { .. } => "ramp",
                    Arrival::Replay { .. } => "replay",
                }
                .to_owned(),
            )
        }
    ),
    column!(
        "rate_asked",
        "requests per second asked for, of a rate that grows at its end; empty in a closed loop",
        |s, _| { Cell::maybe(words::rate_asked(&s.load.arrival)) }
    ),
    column!("window_ns", "length of the measured window", |s, _| count(
        s.window_ns
    )),
    column!("throughput", "good answers per second", |s, _| Cell::Real(
        s.throughput
    )),
    column!("in_flight_mean", "mean requests in flight", |s, _| {
        Cell::Real(s.in_flight_mean)
    }),
    column!("scheduled", "requests whose intended start came", |s, _| {
        count(s.counts.scheduled)
    }),
    column!("answered", "good answers", |s, _| count(s.counts.answered)),
    column!("failed", "failures of every class", |s, _| {
        Cell::Whole(s.counts.failed.values().map(|n| i128::from(*n)).sum())
    }),
    column!(
        "connect_failures",
        "connections that could not be made, of every class; in no other count",
        |s, _| {
            let failures = s.counts.connect_failures.values();
            Cell::Whole(failures.map(|n| i128::from(*n)).sum())
        }
    ),
    column!(
        "not_sent",
        "growth of requests that were to start and were not sent",
        |s, _| { Cell::Whole(s.counts.not_sent.into()) }
    ),
    column!(
        "expired_unsent",
        "of the failed: never sent, for no connection was free before their deadline",
        |s, _| { count(s.counts.expired_unsent) }
    ),
    column!(
        "statuses",
        "answers by status, such as `200:1024 302:16`",
        |s, _| {
            let of = |(status, count): (&u16, &u64)| format!("{status}:{count}");
            let all: Vec<String> = s.counts.statuses.iter().map(of).collect();
            Cell::Text(all.join(" "))
        }
    ),
    column!(
        "unreachable_ns",
        "time of the window during which no connection was open",
        |s, _| { count(s.counts.unreachable_ns) }
    ),
    column!("bytes_in", "bytes read", |s, _| count(s.counts.bytes_in)),
    column!("bytes_out", "bytes written", |s, _| count(
        s.counts.bytes_out
    )),
    column!("latency_mean_ns", "from the intended instant", |s, _| {
        whole(s.latency.as_ref(), |h| Cell::Real(h.mean_ns))
    }),
    column!("latency_p50_ns", "median", |s, _| nanos(
        s.latency.as_ref(),
        "p50"
    )),
    column!("latency_p75_ns", "75th percentile", |s, _| nanos(
        s.latency.as_ref(),
        "p75"
    )),
    column!("latency_p90_ns", "90th percentile", |s, _| nanos(
        s.latency.as_ref(),
        "p90"
    )),
    column!("latency_p95_ns", "95th percentile", |s, _| nanos(
        s.latency.as_ref(),
        "p95"
    )),
    column!("latency_p99_ns", "99th percentile", |s, _| nanos(
        s.latency.as_ref(),
        "p99"
    )),
    column!("latency_p999_ns", "99.9th percentile", |s, _| {
        nanos(s.latency.as_ref(), "p99.9")
    }),
    column!("latency_p9999_ns", "99.99th percentile", |s, _| {
        nanos(s.latency.as_ref(), "p99.99")
    }),
    column!("latency_max_ns", "largest", |s, _| {
        whole(s.latency.as_ref(), |h| count(h.max_ns))
    }),
    column!("service_mean_ns", "from the first byte sent", |s, _| {
        whole(s.service.as_ref(), |h| Cell::Real(h.mean_ns))
    }),
    column!("service_p50_ns", "median", |s, _| nanos(
        s.service.as_ref(),
        "p50"
    )),
    column!("service_p99_ns", "99th percentile", |s, _| nanos(
        s.service.as_ref(),
        "p99"
    )),
    column!("service_max_ns", "largest", |s, _| {
        whole(s.service.as_ref(), |h| count(h.max_ns))
    }),
    column!(
        "unanswered",
        "requests without an answer when the load and the wait for them were over",
        |s, _| s.drained.map_or(Cell::Unknown, |d| count(d.unanswered()))
    ),
    column!(
        "unanswered_oldest_ns",
        "age of the oldest of them",
        |s, _| s.drained.map_or(Cell::Unknown, |d| count(d.oldest_ns))
    ),
    column!(
        "latency_lower_bounds",
        "percentiles of latency that those could move: lower bounds",
        |s, _| Cell::Text(lower_bounds(s))
    ),
    column!(
        "late_by_client",
        "timeouts that the load generator itself may have made",
        |s, _| count(s.counts.late_by_client)
    ),
    column!(
        "connections_open_max",
        "connections open at a time, at the most",
        |s, _| s
            .open_connections
            .map_or(Cell::Unknown, |open| count(open.most))
    ),
    column!("connections_open_mean", "mean over the window", |s, _| {
        Cell::maybe(s.open_connections.map(|open| open.mean))
    }),
    column!(
        "connections_answering",
        "connections that brought an answer",
        |s, _| s
            .open_connections
            .map_or(Cell::Unknown, |open| count(open.answering))
    ),
    column!(
        "lateness_p999_ns",
        "how late the worker was: 99.9th percentile",
        |s, _| { Cell::maybe(quantile(s.lateness.as_ref(), "p99.9")) }
    ),
    column!("n_over_x_ns", "mean in flight over throughput", |_, f| {
        Cell::maybe(f.n_over_x_ns)
    }),
    column!(
        "server_utilisation",
        "of the processors it may use, 0..1",
        |s, _| { Cell::maybe(s.telemetry.server.as_ref().map(|server| server.utilisation)) }
    ),
    column!(
        "server_core_max",
        "busiest of its processors, 0..1",
        |_, f| { Cell::maybe(f.server_core_max) }
    ),
    column!("server_cpu_per_answer_ns", "CPU time", |_, f| Cell::maybe(
        f.server_cpu_ns
    )),
    column!(
        "client_utilisation",
        "of the processors it may use, 0..1",
        |s, _| { Cell::maybe(s.telemetry.client.as_ref().map(|client| client.utilisation)) }
    ),
    column!(
        "client_core_max",
        "busiest of its processors, 0..1",
        |_, f| { Cell::maybe(f.client_core_max) }
    ),
    column!("client_cpu_per_answer_ns", "CPU time", |_, f| Cell::maybe(
        f.client_cpu_ns
    )),
    column!("downlink_share", "of the link's rate, 0..1", |s, _| {
        Cell::maybe(
            s.telemetry
                .link
                .as_ref()
                .and_then(|link| link.downlink_share),
        )
    }),
    column!("uplink_share", "of the link's rate, 0..1", |s, _| {
        Cell::maybe(s.telemetry.link.as_ref().and_then(|link| link.uplink_share))
    }),
    column!("packets_down_per_answer", "server to client", |_, f| {
        Cell::maybe(f.packets_down)
    }),
    column!("packets_up_per_answer", "client to server", |_, f| {
        Cell::maybe(f.packets_up)
    }),
    column!("segments_down_per_answer", "server to client", |_, f| {
        Cell::maybe(f.segments_down)
    }),
    column!("segments_up_per_answer", "client to server", |_, f| {
        Cell::maybe(f.segments_up)
    }),
    column!(
        "header_bytes_down_per_answer",
        "of those segments",
        |_, f| { Cell::maybe(f.header_bytes_down) }
    ),
    column!("header_bytes_up_per_answer", "of those segments", |_, f| {
        Cell::maybe(f.header_bytes_up)
    }),
    column!(
        "ceiling",
        "what the workers can drive, requests per second",
        |s, _| { Cell::maybe(s.ceiling.as_ref().map(|ceiling| ceiling.throughput)) }
    ),
    column!("wall", "label of the wall", |s, _| {
        s.verdict.as_ref().map_or(Cell::Unknown, |verdict| {
            Cell::Text(verdict.wall.label().to_owned())
        })
    }),
    column!("how", "how the wall was established", |s, _| {
        s.verdict.as_ref().map_or(Cell::Unknown, |verdict| {
            Cell::Text(words::how(verdict.how).to_owned())
        })
    }),
    column!("confidence", "stated, 0..1", |s, _| {
        Cell::maybe(s.verdict.as_ref().map(|verdict| verdict.confidence))
    }),
];

/// The columns of [`intervals`].
pub const INTERVAL_COLUMNS: &[Column<IntervalCell>] = &[
    column!("index", "position of the step", |s, _| Cell::Whole(
        s.index.into()
    )),
    column!("name", "name of the step", |s, _| Cell::Text(
        s.name.clone()
    )),
    column!(
        "at_ns",
        "end, from the start of the step's schedule",
        |_, i| count(i.at_ns)
    ),
    column!("span_ns", "length", |_, i| count(i.span_ns)),
    column!("warmup", "1 where it ended within the warm-up", |s, i| {
        Cell::Whole((i.at_ns <= s.load.warmup.0).into())
    }),
    column!("scheduled", "requests whose intended start came", |_, i| {
        count(i.scheduled)
    }),
    column!("answered", "good answers", |_, i| count(i.answered)),
    column!("failed", "failures", |_, i| count(i.failed)),
    column!("throughput", "good answers per second", |_, i| {
        Cell::maybe((i.span_ns > 0).then(|| i.answered as f64 * 1e9 / i.span_ns as f64))
    }),
    column!("bytes_in", "bytes read", |_, i| count(i.bytes_in)),
    column!("in_flight", "in flight at the end", |_, i| count(
        i.in_flight
    )),
    column!("latency_p50_ns", "median; empty without answers", |_, i| {
        some(i.p50_ns)
    }),
    column!(
        "latency_p99_ns",
        "99th percentile; empty without answers",
        |_, i| some(i.p99_ns)
    ),
    column!(
        "latency_max_ns",
        "largest; empty without answers",
        |_, i| some(i.max_ns)
    ),
];

/// The columns of the windows of an experiment.
pub const WINDOW_COLUMNS: &[Column<WindowCell>] = &[
    column!("step", "the step that was squeezed", |w| Cell::Text(
        w.step.name.clone()
    )),
    column!("round", "round, from 0", |w| Cell::Whole(
        w.window.round.into()
    )),
    column!(
        "squeeze",
        "what was squeezed, several joined by `+`; `sham` for nothing",
        |w| w.condition().map_or(Cell::Unknown, |condition| {
            let labels: Vec<&str> = condition.squeezes().map(Squeeze::label).collect();
            Cell::Text(match labels.is_empty() {
                true => "sham".to_owned(),
                false => labels.join("+"),
            })
        })
    ),
    column!(
        "retained_asked",
        "what was to be left, 0..1; above 1 of what was widened",
        |w| { Cell::maybe(w.condition().map(|condition| condition.retained)) }
    ),
    column!("retained", "what was left by the check, likewise", |w| {
        Cell::maybe(w.window.retained)
    }),
    column!("in_force", "1 or 0; empty where it cannot be told", |w| {
        w.window
            .in_force
            .map_or(Cell::Unknown, |held| Cell::Whole(held.into()))
    }),
    column!("restart", "which start of the subject, from 0", |w| {
        Cell::Whole(w.window.restart.into())
    }),
    column!("from_ns", "from the start of the experiment", |w| count(
        w.window.from_ns
    )),
    column!("to_ns", "its end", |w| count(w.window.to_ns)),
    column!("throughput", "good answers per second", |w| Cell::Real(
        w.window.throughput
    )),
    column!(
        "relative",
        "throughput over that of the shams before and after, as at one pace",
        |w| Cell::maybe(w.relative)
    ),
    column!("answered", "good answers", |w| count(w.window.answered)),
    column!("failed", "failures", |w| count(w.window.failed)),
    column!("in_flight_mean", "mean requests in flight", |w| {
        Cell::maybe(w.window.in_flight_mean)
    }),
    column!("latency_mean_ns", "from the intended instant", |w| {
        Cell::maybe(w.window.latency_mean_ns)
    }),
    column!("latency_p50_ns", "median", |w| {
        w.window.p50_ns.map_or(Cell::Unknown, count)
    }),
    column!("latency_p99_ns", "99th percentile", |w| {
        w.window.p99_ns.map_or(Cell::Unknown, count)
    }),
    column!("server_cores", "cores that the server used", |w| {
        Cell::maybe(w.window.server_cores)
    }),
    column!("client_cores", "cores that the client used", |w| {
        Cell::maybe(w.window.client_cores)
    }),
    column!("steal_share", "taken by the hypervisor, 0..1", |w| {
        Cell::Real(w.window.steal_share)
    }),
    column!("check", "what the check of the manipulation saw", |w| {
        Cell::Text(w.window.check.clone())
    }),
];

/// The columns of the ratios of two settings, which follow their steps after an empty row.
pub const RATIO_COLUMNS: &[Column<RatioCell>] = &[
    column!("measure", "what is compared", |r| Cell::Text(
        r.measure.clone()
    )),
    column!("a", "geometric mean of A", |r| Cell::Real(r.a)),
    column!("b", "of B", |r| Cell::Real(r.b)),
    column!("ratio", "B over A", |r| Cell::Real(r.ratio)),
    column!("low", "lower end of the 95 % interval", |r| Cell::Real(
        r.low
    )),
    column!("high", "upper end", |r| Cell::Real(r.high)),
    column!("rounds", "rounds behind it", |r| Cell::Whole(
        r.rounds.into()
    )),
    column!("differs", "1 where a difference is shown", |r| Cell::Whole(
        r.differs.into()
    )),
];

fn some(ns: u64) -> Cell {
    if ns > 0 { count(ns) } else { Cell::Unknown }
}

/// The columns of [`parts`].
pub const PART_COLUMNS: &[Column<PartCell>] = &[
    column!("index", "position of the step in the run, from 0", |p| {
        Cell::Whole(p.step.index.into())
    }),
    column!(
        "kind",
        "`request`, `session`, or `pool`: the rarest together",
        |p| {
            let kind = match p.is {
                Part::Request(_) => "request",
                Part::Session(_) => "session",
                Part::Pool(_) => "pool",
            };
            Cell::Text(kind.to_owned())
        }
    ),
    column!("name", "what it is called", |p| {
        let name = match p.is {
            Part::Request(kind) | Part::Pool(kind) => &kind.name,
            Part::Session(session) => &session.name,
        };
        Cell::Text(name.clone())
    }),
    column!(
        "of_session",
        "the session that a request is a step of",
        |p| {
            match p.is {
                Part::Request(kind) => kind.session.clone().map_or(Cell::Unknown, Cell::Text),
                Part::Session(_) | Part::Pool(_) => Cell::Unknown,
            }
        }
    ),
    column!("weight", "its weight against what else begins", |p| {
        Cell::Whole(match p.is {
            Part::Request(kind) | Part::Pool(kind) => kind.weight.into(),
            Part::Session(session) => session.weight.into(),
        })
    }),
    column!("sent", "requests sent; sessions begun", |p| {
        Cell::Whole(match p.is {
            Part::Request(kind) | Part::Pool(kind) => kind.sent.into(),
            Part::Session(session) => session.begun.into(),
        })
    }),
    column!("answered", "good answers; sessions completed", |p| {
        Cell::Whole(match p.is {
            Part::Request(kind) | Part::Pool(kind) => kind.answered.into(),
            Part::Session(session) => session.completed.into(),
        })
    }),
    column!("failed", "failures; sessions broken off", |p| {
        Cell::Whole(match p.is {
            Part::Request(kind) | Part::Pool(kind) => kind.failed.values().sum::<u64>().into(),
            Part::Session(session) => session.broken_off.into(),
        })
    }),
    column!("body_bytes", "body bytes of good answers", |p| {
        match p.is {
            Part::Request(kind) | Part::Pool(kind) => Cell::Whole(kind.body_bytes.into()),
            Part::Session(_) => Cell::Unknown,
        }
    }),
    column!("wire_bytes", "bytes of good answers on the wire", |p| {
        match p.is {
            Part::Request(kind) | Part::Pool(kind) => Cell::Whole(kind.wire_bytes.into()),
            Part::Session(_) => Cell::Unknown,
        }
    }),
    column!("p50_ns", "median latency; how long a session took", |p| p
        .latency("p50")),
    column!("p99_ns", "99th percentile", |p| p.latency("p99")),
    column!("server_cpu_ns", "CPU time of the server for one", |p| {
        Cell::maybe(p.cost(|costs| Some(costs.server)).map(|cost| cost.each))
    }),
    column!("server_cpu_low_ns", "lower end of its 95 % interval", |p| {
        Cell::maybe(p.cost(|costs| Some(costs.server)).map(|cost| cost.low))
    }),
    column!("server_cpu_high_ns", "upper end", |p| {
        Cell::maybe(p.cost(|costs| Some(costs.server)).map(|cost| cost.high))
    }),
    column!(
        "server_cpu_share",
        "its share of the server's CPU time",
        |p| { Cell::maybe(p.cost(|costs| Some(costs.server)).map(|cost| cost.share)) }
    ),
    column!(
        "client_cpu_ns",
        "CPU time of the load generator for one",
        |p| { Cell::maybe(p.cost(|costs| costs.client).map(|cost| cost.each)) }
    ),
    column!(
        "backend_cpu_ns",
        "CPU time of what the server asks for one",
        |p| { Cell::maybe(p.cost(|costs| costs.backend).map(|cost| cost.each)) }
    ),
    column!("sent_bytes", "bytes of requests on the wire", |p| {
        match p.is {
            Part::Request(kind) | Part::Pool(kind) => some(kind.sent_bytes),
            Part::Session(_) => Cell::Unknown,
        }
    }),
    column!(
        "look_ns",
        "time of the load generator to look into an answer",
        |p| match p.is {
            Part::Request(kind) => Cell::maybe(kind.looked_into.map(Looked::each_ns)),
            Part::Pool(_) | Part::Session(_) => Cell::Unknown,
        }
    ),
    column!("wall_share", "its share of what the wall is made of", |p| p
        .of_wall(0)),
    column!("wall_share_low", "lower end of its 95 % interval", |p| p
        .of_wall(1)),
    column!("wall_share_high", "upper end", |p| p.of_wall(2)),
];

fn header<F>(columns: &[Column<F>]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name).collect();
    format!("{}\r\n", names.join(","))
}

fn row(cells: impl Iterator<Item = Cell>, text: &mut String) {
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            text.push(',');
        }
        cell.write(text);
    }
    text.push_str("\r\n");
}

/// A record's steps as rows: of a `find` the windows of what was squeezed, of an `ab` its
/// steps by setting and round with their ratios, else [`each_step`], an empty row and the windows of what was squeezed of them.
pub fn steps(record: &Record) -> String {
    if record.ab.is_some() {
        ab(record)
    } else if !record.steps.iter().any(|step| step.experiment.is_some()) {
        each_step(record)
    } else if record.plan.command == "find" {
        windows(record)
    } else {
        each_step(record) + "\r\n" + &windows(record)
    }
}

/// One row for each step.
pub fn each_step(record: &Record) -> String {
    let mut text = header(STEP_COLUMNS);
    for step in &record.steps {
        let figures = Figures::of(step);
        let cells = STEP_COLUMNS.iter();
        row(cells.map(|column| (column.cell)(step, &figures)), &mut text);
    }
    text + &parts(record)
}

/// An empty row, and one for each request of a mix and each session; nothing where there is no mix.
fn parts(record: &Record) -> String {
    if record.steps.iter().all(|step| step.requests.is_empty()) {
        return String::new();
    }
    let mut text = format!("\r\n{}", header(PART_COLUMNS));
    for step in &record.steps {
        let requests = step.requests.iter().map(Part::Request);
        let sessions = step.sessions.iter().map(Part::Session);
        let pool = pooled(step);
        let shares = shares_of_wall(step);
        for is in requests.chain(sessions).chain(pool.iter().map(Part::Pool)) {
            let part = PartOf { step, shares, is };
            let cells = PART_COLUMNS.iter().map(|column| (column.cell)(&part));
            row(cells, &mut text);
        }
    }
    text
}

/// One row for each window of each experiment.
pub fn windows(record: &Record) -> String {
    let mut text = header(WINDOW_COLUMNS);
    let squeezed = record.steps.iter();
    for (step, experiment) in squeezed.filter_map(|step| Some((step, step.experiment.as_ref()?))) {
        let relatives = relatives(experiment);
        for (window, relative) in experiment.windows.iter().zip(relatives) {
            let window = WindowOf {
                step,
                experiment,
                window,
                relative,
            };
            let cells = WINDOW_COLUMNS.iter();
            row(cells.map(|column| (column.cell)(&window)), &mut text);
        }
    }
    text + &parts(record)
}

/// One row for each step with its setting and round, an empty row, one for each ratio.
pub fn ab(record: &Record) -> String {
    let Some(ab) = &record.ab else {
        return each_step(record);
    };
    let mut text = format!("setting,round,{}", header(STEP_COLUMNS));
    for (index, step) in record.steps.iter().enumerate() {
        let place = ab.order.get(index);
        let setting = place.map_or(Cell::Unknown, |(_, is_b)| {
            Cell::Text(if *is_b { "B" } else { "A" }.to_owned())
        });
        let round = place.map_or(Cell::Unknown, |(round, _)| Cell::Whole((*round).into()));
        let figures = Figures::of(step);
        let cells = STEP_COLUMNS
            .iter()
            .map(|column| (column.cell)(step, &figures));
        row([setting, round].into_iter().chain(cells), &mut text);
    }
    text.push_str("\r\n");
    text.push_str(&header(RATIO_COLUMNS));
    for ratio in &ab.ratios {
        let cells = RATIO_COLUMNS.iter();
        row(cells.map(|column| (column.cell)(ratio)), &mut text);
    }
    text
}

/// One row for each interval of each step.
pub fn intervals(record: &Record) -> String {
    let mut text = header(INTERVAL_COLUMNS);
    for step in &record.steps {
        for interval in &step.intervals {
            row(
                INTERVAL_COLUMNS
                    .iter()
                    .map(|column| (column.cell)(step, interval)),
                &mut text,
            );
        }
    }
    text
}
