//! Two records side by side: what differs in the surroundings, and what in the steps.
//!
//! Steps are paired by target, driver and load. A ratio is later over earlier; its
//! interval holds what the slices within the two windows show, and nothing of what
//! differs from run to run: two runs of the same thing may well differ by more. That is
//! `ab`'s business. A quantile that requests without an answer could move is a lower bound
//! and has no ratio.

use std::fmt::Debug;

use serde::Serialize;
use wallfinder_model::record::{Histogram, Record, RequestKind, SessionKind, Step};
use wallfinder_model::{Environment, Wall};

use crate::bounds::{is_bound, unanswered_of_part};
use crate::finite::{positive, ratio};
use crate::{histogram, steady};

/// Two records side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// What differs in the surroundings.
    pub environment: Vec<Difference>,
    /// Steps that both records have.
    pub steps: Vec<StepPair>,
    /// Names of steps of the earlier record that the later lacks.
    pub only_before: Vec<String>,
    /// Names of steps of the later record that the earlier lacks.
    pub only_after: Vec<String>,
}

/// One fact that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Which: `kernel`, `versions.server`.
    pub what: String,
    /// Value in the earlier record; `unknown` where it was not read.
    pub before: String,
    /// Value in the later record.
    pub after: String,
}

/// One step of both records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepPair {
    /// Name in the later record.
    pub name: String,
    /// Index into the earlier record's steps.
    pub before: usize,
    /// Index into the later record's steps.
    pub after: usize,
    /// Throughput, later over earlier.
    pub throughput: Option<RatioInterval>,
    /// Median latency, later over earlier.
    pub p50: Option<f64>,
    /// 99th percentile, later over earlier.
    pub p99: Option<f64>,
    /// The walls, where both have a verdict.
    pub walls: Option<(Wall, Wall)>,
    /// Requests of a mix, and sessions, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartPair>,
}

/// A kind of request of both steps, or a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartPair {
    /// Its name.
    pub name: String,
    /// Throughput, later over earlier; of whole sessions.
    pub throughput: Option<f64>,
    /// Median latency, later over earlier.
    pub p50: Option<f64>,
    /// 99th percentile, later over earlier.
    pub p99: Option<f64>,
}

/// A ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct RatioInterval {
    /// The ratio.
    pub value: f64,
    /// Lower end, where both windows have enough slices.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// Why a step's throughput is not at least what was required.
#[derive(Debug, Clone, PartialEq)]
pub enum Short {
    /// One of the two throughputs is not known.
    Unknown,
    /// Surely below: by the whole interval, or by the ratio where there is none.
    Below(f64),
    /// The later record has no such step.
    Gone,
}

impl Comparison {
    /// What speaks against the later record where its throughput is to be at least `ratio` times the
    /// earlier one's: steps by name.
    pub fn short_of(&self, ratio: f64) -> Vec<(&str, Short)> {
        let paired = self.steps.iter().filter_map(|pair| {
            let short = pair.throughput.map_or(Some(Short::Unknown), |throughput| {
                let most = throughput.high.unwrap_or(throughput.value);
                (most < ratio).then_some(Short::Below(throughput.value))
            });
            Some((pair.name.as_str(), short?))
        });
        let gone = self.only_before.iter();
        paired
            .chain(gone.map(|name| (name.as_str(), Short::Gone)))
            .collect()
    }
}

/// Sets the later record beside the earlier.
pub fn compare(before: &Record, after: &Record) -> Comparison {
    let mut taken = vec![false; before.steps.len()];
    let mut steps = Vec::new();
    let mut only_after = Vec::new();
    for (j, step) in after.steps.iter().enumerate() {
        let twin = before
            .steps
            .iter()
            .enumerate()
            .position(|(i, other)| !taken[i] && alike(other, step));
        match twin {
            Some(i) => {
                taken[i] = true;
                steps.push(pair((i, &before.steps[i]), (j, step)));
            }
            None => only_after.push(step.name.clone()),
        }
    }
    Comparison {
        environment: surroundings(before, after),
        steps,
        only_before: before
            .steps
            .iter()
            .zip(taken)
            .filter(|(_, taken)| !taken)
            .map(|(step, _)| step.name.clone())
            .collect(),
        only_after,
    }
}

/// Whether two steps asked for the same. The length of the window and the address may
/// differ: they change how well a number is known, and where from, not which it is.
fn alike(one: &Step, other: &Step) -> bool {
    let (a, b) = (&one.load, &other.load);
    one.target.path == other.target.path
        && one.target.scheme == other.target.scheme
        && one.driver.name == other.driver.name
        && a.connections == b.connections
        && a.in_flight_per_connection == b.in_flight_per_connection
        && a.max_in_flight == b.max_in_flight
        && a.arrival == b.arrival
        && a.connection_per_request == b.connection_per_request
        && a.method == b.method
        && a.body_bytes == b.body_bytes
        && a.decode == b.decode
        && a.no_batching == b.no_batching
        && sent(one).eq(sent(other))
}

/// What is sent: each request of a mix by name, its part of all weights, and the session that it is a step of.
fn sent(step: &Step) -> impl Iterator<Item = (&str, f64, Option<&str>)> {
    let all: f64 = step
        .requests
        .iter()
        .map(|kind| f64::from(kind.weight))
        .sum();
    step.requests.iter().map(move |kind| {
        let part = f64::from(kind.weight) / all.max(1.0);
        (kind.name.as_str(), part, kind.session.as_deref())
    })
}

/// Whether a quantile of a kind of request of a mix can be compared: requests without an answer could not move it.
pub(crate) fn is_told_of_kind(step: &Step, kind: &RequestKind, name: &str) -> bool {
    let failed = kind
        .failed
        .values()
        .fold(0_u64, |sum, count| sum.saturating_add(*count));
    let begun = kind.sent.saturating_add(kind.unsent);
    let left = begun.saturating_sub(kind.answered.saturating_add(failed));
    is_told_of(step, kind.latency.as_ref(), left, name)
}

/// The same of a session.
pub(crate) fn is_told_of_session(step: &Step, session: &SessionKind, name: &str) -> bool {
    let over = session.completed.saturating_add(session.broken_off);
    let left = session.begun.saturating_sub(over);
    is_told_of(step, session.took.as_ref(), left, name)
}

/// The same of a part of a step, of which `left` had not ended when the window closed.
fn is_told_of(step: &Step, latency: Option<&Histogram>, left: u64, name: &str) -> bool {
    let unanswered = step.drained.map_or(0, |drained| drained.unanswered());
    let count = latency.map_or(0, |latency| latency.count);
    let named = histogram::NAMED.iter().find(|(other, _)| *other == name);
    let quantile = named.map_or(1.0, |(_, quantile)| *quantile);
    unanswered_of_part(left, unanswered, count, quantile) == 0
}

fn quantile(latency: Option<&Histogram>, name: &str) -> Option<f64> {
    positive(latency?.quantile_ns(name)? as f64)
}

/// Requests and sessions that both have.
fn parts(before: &Step, after: &Step) -> Vec<PartPair> {
    let of_kind = |step: &Step, kind: &RequestKind, name: &str| {
        let ns = quantile(kind.latency.as_ref(), name)?;
        is_told_of_kind(step, kind, name).then_some(ns)
    };
    let of_session = |step: &Step, session: &SessionKind, name: &str| {
        let ns = quantile(session.took.as_ref(), name)?;
        is_told_of_session(step, session, name).then_some(ns)
    };
    let requests = after.requests.iter().filter_map(|kind| {
        let earlier = before
            .requests
            .iter()
            .find(|other| other.name == kind.name)?;
        let latency = |name: &str| {
            let before = of_kind(before, earlier, name)?;
            ratio(of_kind(after, kind, name)?, before)
        };
        Some(PartPair {
            name: kind.name.clone(),
            throughput: positive(earlier.throughput).and_then(|of| ratio(kind.throughput, of)),
            p50: latency("p50"),
            p99: latency("p99"),
        })
    });
    let per_second =
        |step: &Step, completed: u64| positive(completed as f64 / step.window_ns as f64);
    let sessions = after.sessions.iter().filter_map(|session| {
        let earlier = before
            .sessions
            .iter()
            .find(|other| other.name == session.name)?;
        let took = |name: &str| {
            let before = of_session(before, earlier, name)?;
            ratio(of_session(after, session, name)?, before)
        };
        let of_before = per_second(before, earlier.completed);
        let rates = of_before.zip(per_second(after, session.completed));
        Some(PartPair {
            name: format!("{}, whole", session.name),
            throughput: rates.and_then(|(before, after)| ratio(after, before)),
            p50: took("p50"),
            p99: took("p99"),
        })
    });
    requests.chain(sessions).collect()
}

fn pair((i, before): (usize, &Step), (j, after): (usize, &Step)) -> StepPair {
    let latency = |name: &str| {
        let of = |step: &Step| {
            let ns = quantile(step.latency.as_ref(), name)?;
            (!is_bound(step, name)).then_some(ns)
        };
        ratio(of(after)?, of(before)?)
    };
    StepPair {
        name: after.name.clone(),
        before: i,
        after: j,
        throughput: throughput(before, after),
        p50: latency("p50"),
        p99: latency("p99"),
        walls: before
            .verdict
            .as_ref()
            .zip(after.verdict.as_ref())
            .map(|(a, b)| (a.wall, b.wall)),
        parts: parts(before, after),
    }
}

/// The ratio of two means; relative errors add in squares.
fn throughput(before: &Step, after: &Step) -> Option<RatioInterval> {
    let value = ratio(after.throughput, positive(before.throughput)?)?;
    let relative = |step: &Step| {
        let interval = steady::throughput(step)?;
        ratio((interval.high - interval.low) / 2.0, interval.mean)
    };
    let half = relative(before)
        .zip(relative(after))
        .map(|(a, b)| (a * a + b * b).sqrt());
    Some(RatioInterval {
        value,
        low: half.map(|half| value * (-half).exp()),
        high: half.map(|half| value * half.exp()),
    })
}

/// Every fact in which the hosts of two records differ; those of a server's host of its own stand behind `server_host.`.
fn surroundings(before: &Record, after: &Record) -> Vec<Difference> {
    let mut found = environment(&before.environment, &after.environment);
    let of_server = [&before.server_environment, &after.server_environment];
    let others = match of_server {
        [Some(before), Some(after)] => environment(before, after),
        _ => {
            let name = |facts: &Option<Environment>| {
                let kernel = facts.as_ref().map(|facts| facts.kernel.clone());
                kernel.map(|kernel| kernel.unwrap_or_else(|| "another".to_owned()))
            };
            let mut list = Differences::default();
            list.option("kernel", &of_server.map(name)[0], &of_server.map(name)[1]);
            list.found
        }
    };
    found.extend(others.into_iter().map(|mut difference| {
        difference.what.insert_str(0, "server_host.");
        difference
    }));
    found
}

/// Every fact in which two environments differ.
pub fn environment(before: &Environment, after: &Environment) -> Vec<Difference> {
    let mut list = Differences::default();
    list.option("kernel", &before.kernel, &after.kernel);
    list.option("os", &before.os, &after.os);
    list.option("cpu_model", &before.cpu_model, &after.cpu_model);
    list.value("cpus", &before.cpus, &after.cpus);
    list.value("cpus_allowed", &before.cpus_allowed, &after.cpus_allowed);
    list.option("memory_bytes", &before.memory_bytes, &after.memory_bytes);
    list.option("governor", &before.governor, &after.governor);
    list.option("smt", &before.smt, &after.smt);
    list.option(
        "virtualisation",
        &before.virtualisation,
        &after.virtualisation,
    );
    list.option(
        "cgroup_quota_cores",
        &before.cgroup_quota_cores,
        &after.cgroup_quota_cores,
    );
    list.option(
        "cgroup_version",
        &before.cgroup_version,
        &after.cgroup_version,
    );
    list.option("huge_pages", &before.huge_pages, &after.huge_pages);
    list.option(
        "congestion_control",
        &before.congestion_control,
        &after.congestion_control,
    );
    list.option("irqbalance", &before.irqbalance, &after.irqbalance);
    list.option("rps", &before.rps, &after.rps);
    list.option(
        "descriptors_max",
        &before.descriptors_max,
        &after.descriptors_max,
    );
    list.option("local_ports", &before.local_ports, &after.local_ports);
    interface(&mut list, before, after);
    for (name, a, b) in [
        ("mitigations", &before.mitigations, &after.mitigations),
        ("versions", &before.versions, &after.versions),
        ("settings", &before.settings, &after.settings),
    ] {
        let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let (a, b) = (a.get(key).cloned(), b.get(key).cloned());
            list.option(&format!("{name}.{key}"), &a, &b);
        }
    }
    list.found
}

fn interface(list: &mut Differences, before: &Environment, after: &Environment) {
    match (&before.interface, &after.interface) {
        (Some(a), Some(b)) => {
            list.value("interface.name", &a.name, &b.name);
            list.option("interface.mtu", &a.mtu, &b.mtu);
            list.option("interface.speed_bits", &a.speed_bits, &b.speed_bits);
            list.option("interface.queues", &a.queues, &b.queues);
            list.value("interface.offloads", &a.offloads, &b.offloads);
            list.option("interface.qdisc", &a.qdisc, &b.qdisc);
        }
        (a, b) => {
            let name = |i: &Option<wallfinder_model::environment::InterfaceFacts>| {
                i.as_ref().map(|facts| facts.name.clone())
            };
            list.option("interface", &name(a), &name(b));
        }
    }
}

/// Collects differences.
#[derive(Default)]
struct Differences {
    found: Vec<Difference>,
}

impl Differences {
    fn value<T: PartialEq + Debug>(&mut self, what: &str, before: &T, after: &T) {
        if before != after {
            self.push(what, plain(before), plain(after));
        }
    }

    fn option<T: PartialEq + Debug>(&mut self, what: &str, before: &Option<T>, after: &Option<T>) {
        if before != after {
            let word = |value: &Option<T>| value.as_ref().map_or("unknown".to_owned(), plain);
            self.push(what, word(before), word(after));
        }
    }

    fn push(&mut self, what: &str, before: String, after: String) {
        self.found.push(Difference {
            what: what.to_owned(),
            before,
            after,
        });
    }
}

/// A value without the quotes of its debug form.
fn plain<T: Debug>(value: &T) -> String {
    format!("{value:?}").replace('"', "")
}

#[cfg(test)]
mod tests {
    use wallfinder_model::record::Drained;

    use super::*;
    use crate::double::{Noise, a_machine, a_record, a_step};

    fn slices(seed: u64, level: f64) -> Vec<f64> {
        let mut noise = Noise::new(seed);
        (0..80)
            .map(|_| level * (1.0 + 0.02 * noise.gauss()))
            .collect()
    }

    #[test]
    fn alike_records_do_not_differ() {
        let record = a_record(vec![a_step().slices(&slices(1, 1e4)).build()]);
        let comparison = compare(&record, &record);
        assert!(comparison.environment.is_empty());
        assert_eq!(comparison.steps.len(), 1);
        let ratio = comparison.steps[0].throughput.unwrap();
        assert_eq!(ratio.value, 1.0);
        assert!(ratio.low.unwrap() < 1.0 && ratio.high.unwrap() > 1.0);
    }

    #[test]
    fn steps_are_paired_by_what_they_asked_for() {
        let step = |n: f64, x: f64| a_step().in_flight(n).throughput(x).build();
        let before = a_record(vec![step(10.0, 1e4), step(20.0, 2e4)]);
        let after = a_record(vec![step(20.0, 3e4), step(40.0, 3e4)]);
        let comparison = compare(&before, &after);
        assert_eq!(comparison.steps.len(), 1);
        assert_eq!(
            (comparison.steps[0].before, comparison.steps[0].after),
            (1, 0)
        );
        assert!((comparison.steps[0].throughput.unwrap().value - 1.5).abs() < 1e-9);
        assert_eq!(comparison.only_before.len(), 1);
        assert_eq!(comparison.only_after.len(), 1);
    }

    #[test]
    fn a_client_that_takes_answers_one_by_one_is_another() {
        let step = a_step().slices(&slices(1, 1e4)).build();
        let mut no_batching = step.clone();
        no_batching.load.no_batching = true;
        let comparison = compare(&a_record(vec![step]), &a_record(vec![no_batching]));
        assert!(comparison.steps.is_empty());
        assert_eq!(comparison.only_before.len(), 1);
        assert_eq!(comparison.only_after.len(), 1);
    }

    #[test]
    fn mixes_with_other_weights_or_sessions_are_others() {
        let mix = |weights: [u32; 2], session: Option<&str>| {
            let kind = |(name, weight): (&str, u32)| RequestKind {
                name: name.to_owned(),
                weight,
                session: session.map(str::to_owned),
                ..RequestKind::default()
            };
            let all = ["read", "write"].into_iter().zip(weights);
            let requests: Vec<RequestKind> = all.map(kind).collect();
            let step = a_step().with(|step| step.requests = requests);
            a_record(vec![step.build()])
        };
        let before = mix([90, 10], None);
        for (after, paired) in [
            (mix([90, 10], None), 1),
            (mix([50, 50], None), 0),
            (mix([90, 10], Some("buy")), 0),
        ] {
            let comparison = compare(&before, &after);
            let alone = (comparison.only_before.len(), comparison.only_after.len());
            assert_eq!(comparison.steps.len(), paired);
            assert_eq!(alone, (1 - paired, 1 - paired));
        }
    }

    #[test]
    fn a_tail_that_is_a_lower_bound_is_not_compared() {
        let values = (0..2_000).map(|n| 1_000_000 + n * 1_000);
        let latency = histogram::tests::of(values).to_record();
        let step = |lost: u64| {
            let request = RequestKind {
                name: "search".to_owned(),
                sent: 2_000 + lost,
                answered: 2_000,
                latency: Some(latency.clone()),
                ..RequestKind::default()
            };
            let session = SessionKind {
                name: "buy".to_owned(),
                begun: 2_000 + lost,
                completed: 2_000,
                took: Some(latency.clone()),
                ..SessionKind::default()
            };
            let whole = a_step().with(|step| {
                step.latency = Some(latency.clone());
                step.requests.push(request);
                step.sessions.push(session);
                step.drained = Some(Drained {
                    in_flight: lost,
                    oldest_ns: 5_000_000_000,
                    ..Drained::default()
                });
            });
            whole.build()
        };
        let compared = |before: u64, after: u64| {
            let record = |lost: u64| a_record(vec![step(lost)]);
            let comparison = compare(&record(before), &record(after));
            let pair = &comparison.steps[0];
            let parts = pair.parts.iter().map(|part| (part.p50, part.p99));
            let all = [(pair.p50, pair.p99)].into_iter().chain(parts);
            let told = all.map(|(p50, p99)| (p50.is_some(), p99.is_some()));
            told.collect::<Vec<_>>()
        };
        assert_eq!(compared(0, 0), [(true, true); 3]);
        // One in fifty: more than are beyond the 99th percentile.
        assert_eq!(compared(0, 40), [(true, false); 3]);
        assert_eq!(compared(40, 0), [(true, false); 3]);
    }

    #[test]
    fn every_difference_of_the_surroundings_is_named() {
        let mut other = a_machine();
        other.kernel = Some("6.18".to_owned());
        other.versions.insert("server".to_owned(), "2".to_owned());
        let found = environment(&a_machine(), &other);
        let named: Vec<&str> = found.iter().map(|d| d.what.as_str()).collect();
        assert_eq!(named, ["kernel", "versions.server"]);
        assert_eq!(found[0].before, "unknown");
        assert_eq!(found[0].after, "6.18");
        let at = |server: Option<&Environment>| Record {
            server_environment: server.cloned(),
            ..a_record(Vec::new())
        };
        let of_hosts = surroundings(&at(Some(&a_machine())), &at(Some(&other)));
        let named: Vec<&str> = of_hosts.iter().map(|d| d.what.as_str()).collect();
        assert_eq!(named, ["server_host.kernel", "server_host.versions.server"]);
        let moved = surroundings(&at(None), &at(Some(&other)));
        assert_eq!(
            (moved.len(), moved[0].what.as_str()),
            (1, "server_host.kernel")
        );
    }
}
