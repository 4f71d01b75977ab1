//! One step in full: percentiles on each clock, counts, resources, workers, sockets.

use serde::Serialize;
use wallfinder_judge::bounds::Bounds;
use wallfinder_model::Step;
use wallfinder_model::record::Histogram;
use wallfinder_model::telemetry::{FamilySummary, SocketsSummary};

use super::{Fact, fact};
use crate::clients;
use crate::figures::{self, Figures, QUANTILES, at_least, quantile};
use crate::html::kind;
use crate::number::maybe;
use crate::requests::{self, Row};
use crate::said::{self, ended};
use crate::{number, words};

#[derive(Serialize)]
pub(super) struct StepView {
    index: usize,
    open: bool,
    name: String,
    throughput: String,
    p50: String,
    p99: String,
    wall: String,
    kind: &'static str,
    standing: String,
    sentence: String,
    evidence: Vec<String>,
    load: String,
    heads: Vec<&'static str>,
    clocks: Vec<Clock>,
    no_latency: &'static str,
    clock_note: &'static str,
    little: String,
    batching: String,
    counts: Vec<Fact>,
    failures: Vec<Fact>,
    costs: Vec<Fact>,
    resources: Vec<Resource>,
    requests: Vec<Row>,
    /// What windows with other weights tell of them, in sentences.
    told_of_requests: Vec<String>,
    /// Whether any of them has costs.
    costed: bool,
    /// The same of what the server asks.
    costed_behind: bool,
    /// Whether the wall is another than the server's CPU time, and shares of it are known.
    walled: bool,
    clients: Vec<clients::Row>,
    clients_more: usize,
    clients_have_links: bool,
    clients_skew: String,
    workers: Vec<Worker>,
    workers_more: usize,
}

/// Percentiles on one clock.
#[derive(Serialize)]
struct Clock {
    name: &'static str,
    cells: Vec<String>,
}

#[derive(Serialize)]
struct Resource {
    name: &'static str,
    kind: &'static str,
    wall: bool,
    utilisation: String,
    bar: f64,
    demand: String,
    ceiling: String,
    saturation: String,
}

#[derive(Serialize)]
struct Worker {
    worker: u32,
    cpu: String,
    connections: String,
    answered: String,
    busy: String,
    bar: f64,
    per_wait: String,
}

/// Workers listed at the most.
const WORKERS_MAX: usize = 64;

fn bar(share: f64) -> f64 {
    if share.is_finite() {
        (share.clamp(0.0, 1.0) * 1000.0).round() / 10.0
    } else {
        0.0
    }
}

impl StepView {
    pub(super) fn of(step: &Step, index: usize, open: bool) -> StepView {
        let figures = Figures::of(step);
        let verdict = step.verdict.as_ref();
        let requests = requests::rows(step);
        let (clients, clients_more) = clients::rows(step);
        StepView {
            index,
            open,
            name: step.name.clone(),
            throughput: number::amount(step.throughput),
            p50: figures::latency(step, "p50").unwrap_or(number::UNKNOWN.to_owned()),
            p99: figures::latency(step, "p99").unwrap_or(number::UNKNOWN.to_owned()),
            wall: verdict
                .map_or("not judged", |v| words::short(v.wall))
                .to_owned(),
            kind: verdict.map_or("neutral", |v| kind(v.wall)),
            standing: verdict.map(words::standing).unwrap_or_default(),
            sentence: verdict.map(said::verdict).unwrap_or_default(),
            evidence: verdict
                .map(|v| v.evidence.iter().map(|e| said::fact(&e.fact)).collect())
                .unwrap_or_default(),
            load: words::load(&step.load),
            heads: QUANTILES.iter().map(|(name, _)| *name).collect(),
            clocks: clocks(step),
            no_latency: words::no_latency(step),
            clock_note: if step.driver.latency_from_intended {
                "Latency counts from the intended instant, so waiting to be sent is part of it; service time counts from the first byte sent."
            } else {
                "This driver counts from the send: a wait before it is not in these numbers."
            },
            little: words::little(&figures).unwrap_or_default(),
            batching: words::batching(step).unwrap_or_default(),
            counts: counts(step),
            failures: failures(step),
            costs: costs(step, &figures),
            resources: resources(step),
            costed: requests.iter().any(|row| !row.cost.is_empty()),
            costed_behind: requests.iter().any(|row| !row.backend.is_empty()),
            walled: requests
                .iter()
                .any(|row| !row.wall.is_empty() && row.wall != row.share),
            requests,
            told_of_requests: requests::heaviest(step)
                .into_iter()
                .chain(requests::interference(step))
                .chain(requests::functions(step))
                .chain(requests::looks(step))
                .collect(),
            clients_have_links: clients::has_links(&clients),
            clients,
            clients_more,
            clients_skew: clients::skew(step).unwrap_or_default(),
            workers: workers(step),
            workers_more: step.workers.len().saturating_sub(WORKERS_MAX),
        }
    }
}

/// The row that no request without an answer could move.
const LATE: &str = "Worker late";

fn clocks(step: &Step) -> Vec<Clock> {
    let bounds = Bounds::of(step);
    let clock = |name, histogram: &Option<Histogram>| {
        let histogram = histogram.as_ref()?;
        let bounds = bounds.as_ref().filter(|_| name != LATE);
        let mut cells: Vec<String> = QUANTILES
            .iter()
            .map(|(name, _)| {
                let shown = maybe(quantile(Some(histogram), name), number::span);
                at_least(shown, bounds.is_some_and(|b| b.bounds_named(name)))
            })
            .collect();
        let some = histogram.count > 0;
        let max = maybe(some.then_some(histogram.max_ns as f64), number::span);
        cells.push(at_least(max, bounds.is_some()));
        let mean = maybe(some.then_some(histogram.mean_ns), number::span);
        cells.push(at_least(mean, bounds.is_some_and(Bounds::bounds_mean)));
        Some(Clock { name, cells })
    };
    [
        clock("Latency", &step.latency),
        clock("Service time", &step.service),
        clock("First byte", &step.first_byte),
        clock(LATE, &step.lateness),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn counts(step: &Step) -> Vec<Fact> {
    let counts = &step.counts;
    let mut facts = vec![
        fact("Window", number::length(step.window_ns)),
        fact("Scheduled", number::whole(counts.scheduled)),
        fact("Answered", number::whole(counts.answered)),
    ];
    if counts.not_sent != 0 {
        facts.push(fact("Not sent", number::amount(counts.not_sent as f64)));
    }
    facts.push(fact(
        "In flight, start and end",
        format!(
            "{} and {}",
            number::whole(counts.in_flight_start),
            number::whole(counts.in_flight_end)
        ),
    ));
    if counts.unknown > 0 {
        facts.push(fact(
            "Unknown, of lost hosts",
            number::whole(counts.unknown),
        ));
    }
    if counts.connects > 0 {
        facts.push(fact("Connections opened", number::whole(counts.connects)));
    }
    if let Some(handshakes) = &counts.handshakes {
        facts.push(fact("Handshakes", words::handshakes(handshakes)));
    }
    if let Some(statuses) = ended::statuses(counts) {
        facts.push(fact("Statuses", statuses));
    }
    facts
}

fn failures(step: &Step) -> Vec<Fact> {
    let counts = &step.counts;
    let unreachable = ended::unreachable(step).map(|when| fact("Unreachable", when));
    let classes = ended::failure_classes(counts);
    let classes = classes.into_iter().map(|(class, count)| fact(class, count));
    let odd = counts.anomalies.iter().filter(|(_, count)| **count > 0);
    let odd = odd.map(|(what, count)| fact(what.clone(), number::whole(*count)));
    unreachable.into_iter().chain(classes).chain(odd).collect()
}

fn costs(step: &Step, figures: &Figures) -> Vec<Fact> {
    let telemetry = &step.telemetry;
    let mut facts = Vec::new();
    let side = |name: &str, cpu: Option<f64>, family: Option<&FamilySummary>| {
        let mut text = maybe(cpu, number::span);
        if let Some(family) = family {
            text.push_str(&format!(
                " · {} · {}, {}",
                family.name,
                words::counted(u64::from(family.processes), "process")
                    .replace("processs", "processes"),
                words::counted(u64::from(family.threads), "thread")
            ));
            if let Some(procs) = family.gomaxprocs {
                text.push_str(&format!(" · GOMAXPROCS {procs} in each"));
            }
            if let Some(thread) = &family.hottest_thread {
                text.push_str(&format!(
                    " · busiest thread {}",
                    number::share(thread.share)
                ));
            }
        }
        fact(format!("{name} CPU per request"), text)
    };
    facts.push(side(
        "Server",
        figures.server_cpu_ns,
        telemetry.server.as_ref(),
    ));
    facts.push(side(
        "Client",
        figures.client_cpu_ns,
        telemetry.client.as_ref(),
    ));
    if let Some(bytes) = figures.bytes_in {
        let mut text = number::bytes(bytes);
        if let Some(body) = figures.body_bytes {
            text.push_str(&format!(", {} of it body", number::bytes(body)));
        }
        if let Some(decoded) = figures.decoded_bytes {
            text.push_str(&format!(", decoded to {}", number::bytes(decoded)));
        }
        if let Some(messages) = figures.messages {
            text.push_str(&format!(" in {} messages", number::amount(messages)));
        }
        if let Some(packets) = figures.packets_down {
            text.push_str(&format!(", {}", words::packets(packets)));
        }
        text.push_str(&segments(figures.segments_down, figures.header_bytes_down));
        facts.push(fact("Each answer", text));
    }
    if let Some(bytes) = figures.bytes_out {
        let mut text = number::bytes(bytes);
        if let Some(packets) = figures.packets_up {
            text.push_str(&format!(", {}", words::packets(packets)));
        }
        text.push_str(&segments(figures.segments_up, figures.header_bytes_up));
        facts.push(fact("Each request", text));
    }
    if let Some(link) = &telemetry.link {
        let mut text = link.interface.clone();
        if let Some(bits) = link.rate_bits {
            text.push_str(&format!(" at {}", number::bits(bits as f64)));
        }
        if let Some(mtu) = link.mtu {
            text.push_str(&format!(", MTU {mtu}"));
        }
        if let Some(share) = figures.link_share {
            text.push_str(&format!(", {} used", number::share(share)));
        }
        if link.totals.drops > 0 {
            text.push_str(&format!(", {} dropped", number::whole(link.totals.drops)));
        }
        for (name, count) in &link.card {
            text.push_str(&format!(", {name} {}", number::whole(*count)));
        }
        facts.push(fact("Link", text));
    }
    if let Some(tcp) = telemetry
        .tcp
        .filter(|tcp| tcp.retransmits > 0 || tcp.listen_drops > 0)
    {
        facts.push(fact(
            "TCP",
            format!(
                "{} retransmits, {} dropped at listening sockets",
                number::whole(tcp.retransmits),
                number::whole(tcp.listen_drops)
            ),
        ));
    }
    for (name, sockets) in [
        ("Server's sockets", &telemetry.server_sockets),
        ("Client's sockets", &telemetry.client_sockets),
    ] {
        if let Some(sockets) = sockets.as_ref().filter(|seen| seen.sockets > 0) {
            facts.push(fact(name, self::sockets(sockets)));
        }
    }
    if let Some(cores) = figures.observer_cores {
        facts.push(fact(
            "Observing took",
            format!("{} of a core", number::share(cores)),
        ));
    }
    facts
}

fn sockets(sockets: &SocketsSummary) -> String {
    let mut text = number::whole(u64::from(sockets.sockets));
    if let Some(share) = sockets.busy_share {
        text.push_str(&format!(
            " with data to send {} of the time",
            number::share(share)
        ));
    }
    for (share, by) in [
        (sockets.receive_window_limited_share, "the peer's window"),
        (sockets.send_buffer_limited_share, "the send buffer"),
    ] {
        if share > 0.0 {
            text.push_str(&format!(", {} of it limited by {by}", number::share(share)));
        }
    }
    if sockets.rtt_p50_us > 0 {
        text.push_str(&format!(
            ", round trip {}",
            number::span(f64::from(sockets.rtt_p50_us) * 1e3)
        ));
    }
    if let Some(least) = sockets.rtt_min_us {
        let least = number::span(f64::from(least) * 1e3);
        text.push_str(&format!(" ({least} at the least)"));
    }
    if let Some(mtu) = sockets.path_mtu {
        text.push_str(&format!(", path MTU {mtu}"));
    }
    if sockets.retransmits > 0 {
        let segments = number::whole(sockets.retransmits);
        text.push_str(&format!(", {segments} segments sent again"));
    }
    text
}

fn resources(step: &Step) -> Vec<Resource> {
    let Some(verdict) = &step.verdict else {
        return Vec::new();
    };
    verdict
        .resources
        .iter()
        .map(|resource| Resource {
            name: words::short(resource.wall),
            kind: kind(resource.wall),
            wall: resource.wall == verdict.wall,
            utilisation: number::share(resource.utilisation),
            bar: bar(resource.utilisation),
            demand: resource
                .demand_s
                .map_or(number::UNKNOWN.to_owned(), |s| number::span(s * 1e9)),
            ceiling: resource.ceiling.map_or(number::UNKNOWN.to_owned(), |c| {
                format!("{}/s", number::amount(c))
            }),
            saturation: resource
                .saturation
                .as_ref()
                .map(said::saturation)
                .unwrap_or_default(),
        })
        .collect()
}

fn workers(step: &Step) -> Vec<Worker> {
    step.workers
        .iter()
        .take(WORKERS_MAX)
        .map(|worker| Worker {
            worker: worker.worker,
            cpu: worker
                .cpu
                .map_or("not pinned".to_owned(), |cpu| format!("cpu {cpu}")),
            connections: number::whole(u64::from(worker.connections)),
            answered: number::whole(worker.answered),
            busy: number::share(worker.busy_share),
            bar: bar(worker.busy_share),
            per_wait: if worker.waits > 0 {
                number::amount(worker.events as f64 / worker.waits as f64)
            } else {
                number::UNKNOWN.to_owned()
            },
        })
        .collect()
}

/// `, 3 segments with 198 B of headers`; nothing where they are not known.
fn segments(count: Option<f64>, header_bytes: Option<f64>) -> String {
    let Some(count) = count else {
        return String::new();
    };
    let headers = header_bytes.map(|bytes| format!(" with {} of headers", number::bytes(bytes)));
    format!(
        ", {}{}",
        words::segments(count),
        headers.unwrap_or_default()
    )
}
