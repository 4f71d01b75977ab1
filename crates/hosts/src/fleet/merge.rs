//! What several hosts measured of one load, as one: count for count.

use std::collections::BTreeMap;

use wallfinder_engine::histogram::Latencies;
use wallfinder_model::drive::Measured;
use wallfinder_model::record::{
    Ceiling, ClientPart, Counts, Drained, Handshakes, Histogram, Interval, Looked, LostClient,
    OpenConnections, Outage, RequestKind, SessionKind, WorkerSummary,
};

use crate::several::sockets;

/// What one host measured of its part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) host: String,
    pub(super) connections: u32,
    pub(super) dealt: f64,
    pub(super) workers: u32,
    pub(super) clock_error_ns: u64,
    pub(super) measured: Measured,
    pub(super) lost: Option<LostClient>,
}

/// All of them as one, with the intervals as they were told. The schedule began at `zero_ns`, as was agreed.
pub(super) fn merged(parts: Vec<Part>, intervals: Vec<Interval>, zero_ns: u64) -> Measured {
    let each = || parts.iter().map(|part| &part.measured);
    let whole: Vec<&Measured> = parts
        .iter()
        .filter(|part| part.lost.is_none())
        .map(|part| &part.measured)
        .collect();
    // The edges of those that saw both, where there are some.
    let edges: Vec<&Measured> = match whole.is_empty() {
        true => each().collect(),
        false => whole.clone(),
    };
    let mean = |of: fn(&Measured) -> u64| {
        let sum: u128 = edges.iter().map(|measured| u128::from(of(measured))).sum();
        (sum / edges.len().max(1) as u128) as u64
    };
    let outages: Vec<&[Outage]> = whole.iter().map(|of| &of.outages[..]).collect();
    let outages = common(&outages);
    let mut counts = Counts::default();
    each().for_each(|of| add_counts(&mut counts, &of.counts));
    counts.unreachable_ns = outages.iter().map(|outage| outage.for_ns).sum();
    assert!(counts.balanced(), "the accounting identity does not hold");
    let fine = |of: fn(&Measured) -> &Option<Histogram>| {
        histograms(each().map(|measured| of(measured).as_ref()), Latencies::new)
    };
    let mut io: Vec<&str> = whole.iter().map(|of| of.io.as_str()).collect();
    io.sort_unstable();
    io.dedup();
    let sockets_of_all = each().filter_map(|of| of.sockets.clone()).reduce(sockets);
    Measured {
        zero_ns,
        window_from_ns: mean(|of| of.window_from_ns),
        window_to_ns: mean(|of| of.window_to_ns),
        counts,
        throughput: each().map(|of| of.throughput).sum(),
        in_flight_mean: each().map(|of| of.in_flight_mean).sum(),
        fairness: fairness(&parts),
        requests: by_place(each().map(|of| &of.requests[..]), add_kind),
        sessions: by_place(each().map(|of| &of.sessions[..]), add_session),
        latency: fine(|of| &of.latency),
        service: fine(|of| &of.service),
        first_byte: fine(|of| &of.first_byte),
        lateness: fine(|of| &of.lateness),
        drained: each().fold(Drained::default(), |sum, of| drained(sum, of.drained)),
        open_connections: each().fold(OpenConnections::default(), |sum, of| OpenConnections {
            most: sum.most + of.open_connections.most,
            mean: sum.mean + of.open_connections.mean,
            answering: sum.answering + of.open_connections.answering,
        }),
        outages,
        intervals,
        workers: workers(each()),
        sockets: sockets_of_all,
        io: io.join(" and "),
        clients: parts
            .into_iter()
            .map(|part| of_client(part, zero_ns))
            .collect(),
    }
}

fn of_client(part: Part, zero_ns: u64) -> ClientPart {
    let Part {
        host,
        connections,
        dealt,
        workers,
        clock_error_ns,
        measured,
        lost,
    } = part;
    ClientPart {
        host,
        connections,
        dealt,
        workers,
        // Of one that was lost nothing but the agreed instant is known.
        began_ns: match lost {
            Some(_) => 0,
            None => (measured.zero_ns as i64).saturating_sub(zero_ns as i64),
        },
        clock_error_ns,
        counts: measured.counts,
        throughput: measured.throughput,
        in_flight_mean: measured.in_flight_mean,
        drained: measured.drained,
        latency: measured.latency,
        lateness: measured.lateness,
        lost,
    }
}

/// The most that all could drive together: each as much as it can.
pub(super) fn ceilings(of_hosts: Vec<Ceiling>) -> Ceiling {
    let sum = |of: fn(&Ceiling) -> f64| of_hosts.iter().map(of).sum::<f64>();
    let driven = sum(|of| of.driven);
    let worked_ns: f64 = of_hosts
        .iter()
        .map(|of| of.cpu_per_request_ns * of.driven)
        .sum();
    Ceiling {
        throughput: sum(|of| of.throughput),
        workers_saturated: of_hosts.iter().all(|of| of.workers_saturated),
        cpu_per_request_ns: worked_ns / driven.max(f64::MIN_POSITIVE),
        driven,
        age_s: None,
        host: None,
        of_hosts,
    }
}

fn add_all<K: Ord + Clone>(sum: &mut BTreeMap<K, u64>, of: &BTreeMap<K, u64>) {
    for (key, count) in of {
        *sum.entry(key.clone()).or_default() += count;
    }
}

fn add_counts(sum: &mut Counts, of: &Counts) {
    sum.scheduled += of.scheduled;
    sum.answered += of.answered;
    add_all(&mut sum.failed, &of.failed);
    sum.expired_unsent += of.expired_unsent;
    sum.not_sent += of.not_sent;
    sum.in_flight_start += of.in_flight_start;
    sum.in_flight_end += of.in_flight_end;
    sum.unknown += of.unknown;
    add_all(&mut sum.statuses, &of.statuses);
    sum.bytes_in += of.bytes_in;
    sum.bytes_out += of.bytes_out;
    sum.body_bytes += of.body_bytes;
    sum.decoded_bytes += of.decoded_bytes;
    sum.messages += of.messages;
    sum.late_by_client += of.late_by_client;
    sum.connects += of.connects;
    add_all(&mut sum.connect_failures, &of.connect_failures);
    add_all(&mut sum.anomalies, &of.anomalies);
    if let Some(of) = of.handshakes {
        let sum = sum.handshakes.get_or_insert_with(Handshakes::default);
        sum.full += of.full;
        sum.resumed += of.resumed;
    }
}

fn drained(sum: Drained, of: Drained) -> Drained {
    Drained {
        waited_ns: sum.waited_ns.max(of.waited_ns),
        answered: sum.answered + of.answered,
        failed: sum.failed + of.failed,
        in_flight: sum.in_flight + of.in_flight,
        not_sent: sum.not_sent + of.not_sent,
        oldest_ns: sum.oldest_ns.max(of.oldest_ns),
    }
}

/// Every value of each; `None` where there is none.
fn histograms<'h>(
    each: impl Iterator<Item = Option<&'h Histogram>>,
    empty: fn() -> Latencies,
) -> Option<Histogram> {
    let mut sum = empty();
    for histogram in each.flatten() {
        let added = sum.add_record(histogram);
        debug_assert!(added.is_some(), "hosts have the same bounds");
    }
    sum.to_record()
}

/// What hosts say of the kinds of one mix, each of which has its place.
fn by_place<'m, T: Clone + 'm>(each: impl Iterator<Item = &'m [T]>, add: fn(&mut T, &T)) -> Vec<T> {
    let mut sums: Vec<T> = Vec::new();
    for kinds in each {
        for (place, kind) in kinds.iter().enumerate() {
            match sums.get_mut(place) {
                Some(sum) => add(sum, kind),
                None => sums.push(kind.clone()),
            }
        }
    }
    sums
}

fn add_kind(sum: &mut RequestKind, of: &RequestKind) {
    sum.sent += of.sent;
    sum.answered += of.answered;
    add_all(&mut sum.failed, &of.failed);
    sum.unsent += of.unsent;
    sum.throughput += of.throughput;
    sum.body_bytes += of.body_bytes;
    sum.wire_bytes += of.wire_bytes;
    sum.sent_bytes += of.sent_bytes;
    let looked = [sum.looked_into, of.looked_into].into_iter().flatten();
    sum.looked_into = looked.reduce(Looked::and);
    let each = [sum.latency.as_ref(), of.latency.as_ref()];
    sum.latency = histograms(each.into_iter(), Latencies::coarse);
}

fn add_session(sum: &mut SessionKind, of: &SessionKind) {
    sum.begun += of.begun;
    sum.completed += of.completed;
    sum.broken_off += of.broken_off;
    let each = [sum.took.as_ref(), of.took.as_ref()];
    sum.took = histograms(each.into_iter(), Latencies::coarse);
}

/// Those of one host after those of the other, numbered through.
fn workers<'m>(each: impl Iterator<Item = &'m Measured>) -> Vec<WorkerSummary> {
    let all = each.flat_map(|of| &of.workers).cloned();
    let numbered = (0..).zip(all);
    numbered
        .map(|(worker, of)| WorkerSummary { worker, ..of })
        .collect()
}

/// Jain's index over the connections of all hosts. That of a host says what its squares sum up to.
fn fairness(parts: &[Part]) -> Option<f64> {
    let (mut connections, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for part in parts {
        let own = f64::from(part.connections);
        let answers = part.measured.counts.answered as f64;
        let index = match part.connections {
            1 => 1.0,
            _ => part.measured.fairness?,
        };
        connections += own;
        sum += answers;
        squares += answers.powi(2) / (own * index);
    }
    (connections >= 2.0 && squares > 0.0).then(|| sum.powi(2) / (connections * squares))
}

/// When no host had a connection: what the outages of all have in common. Those of a host are in time, and apart.
fn common(each: &[&[Outage]]) -> Vec<Outage> {
    let Some((first, others)) = each.split_first() else {
        return Vec::new();
    };
    let ends = |outage: &Outage| outage.at_ns + outage.for_ns;
    others.iter().fold(first.to_vec(), |known, of| {
        let pairs = known.iter().flat_map(|a| of.iter().map(move |b| (a, b)));
        let both = pairs.filter_map(|(a, b)| {
            let at_ns = a.at_ns.max(b.at_ns);
            let for_ns = ends(a).min(ends(b)).checked_sub(at_ns)?;
            (for_ns > 0).then_some(Outage { at_ns, for_ns })
        });
        both.collect()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::heard::Heard;
    use super::*;

    fn histogram(values: &[u64]) -> Option<Histogram> {
        let mut latencies = Latencies::new();
        values.iter().for_each(|value| latencies.record(*value));
        latencies.to_record()
    }

    fn part(values: &[u64], connections: u32) -> Part {
        let mut measured = Heard::of(0).measured(1_000_000_000);
        measured.counts = Counts {
            scheduled: values.len() as u64 + 3,
            answered: values.len() as u64,
            in_flight_end: 3,
            ..Counts::default()
        };
        measured.latency = histogram(values);
        measured.fairness = (connections > 1).then_some(1.0);
        Part {
            host: "c".to_owned(),
            connections,
            dealt: 0.5,
            workers: 1,
            clock_error_ns: 40_000,
            measured,
            lost: None,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn hosts_are_merged_count_for_count(
            hosts in prop::collection::vec(prop::collection::vec(1_u64..10_000_000_000, 0..200), 1..9),
        ) {
            let all: Vec<u64> = hosts.concat();
            let parts: Vec<Part> = hosts.iter().map(|values| part(values, 1)).collect();
            let merged = merged(parts, Vec::new(), 7);
            prop_assert_eq!(merged.latency, histogram(&all));
            prop_assert_eq!(merged.counts.answered, all.len() as u64);
            prop_assert_eq!(merged.counts.scheduled, all.len() as u64 + 3 * hosts.len() as u64);
            prop_assert!(merged.counts.balanced());
            prop_assert!(merged.clients.iter().all(|client| client.counts.balanced()));
        }
    }

    #[test]
    fn fairness_is_of_the_connections_of_all_hosts() {
        // Two connections with 8 answers each, and one with none: 16² / (3 · 128).
        let merged = fairness(&[part(&[1; 16], 2), part(&[], 1)]);
        assert!((merged.unwrap() - 2.0 / 3.0).abs() < 1e-9, "{merged:?}");
        assert_eq!(fairness(&[part(&[1; 9], 3), part(&[1; 3], 1)]), Some(1.0));
        assert_eq!(fairness(&[part(&[], 1), part(&[], 1)]), None);
    }

    #[test]
    fn an_outage_is_one_of_all_hosts() {
        let of = |spans: &[(u64, u64)]| -> Vec<Outage> {
            let spans = spans.iter().map(|(from, to)| Outage {
                at_ns: *from,
                for_ns: to - from,
            });
            spans.collect()
        };
        let (a, b) = (of(&[(10, 30), (50, 60)]), of(&[(20, 55)]));
        assert_eq!(common(&[&a, &b]), of(&[(20, 30), (50, 55)]));
        assert_eq!(common(&[&a, &[]]), []);
        assert_eq!(common(&[&a]), a);
        assert_eq!(common(&[]), []);
    }

    #[test]
    fn what_a_lost_host_had_in_flight_is_unknown_and_its_sums_close() {
        let interval = |at_ns: u64, scheduled, answered, failed| Interval {
            at_ns,
            span_ns: 100_000_000,
            scheduled,
            answered,
            failed,
            in_flight: 4,
            ..Interval::default()
        };
        let mut heard = Heard::of(200_000_000);
        for told in [
            interval(100_000_000, 14, 10, 0),
            interval(200_100_000, 10, 9, 1),
            interval(300_000_000, 10, 9, 0),
            interval(400_000_000, 11, 10, 2),
        ] {
            heard.add(&told, histogram(&[5; 9]).as_ref());
        }
        let measured = heard.measured(1_000_000_000);
        let counts = &measured.counts;
        assert_eq!((counts.in_flight_start, counts.scheduled), (4, 21));
        assert_eq!((counts.answered, counts.failed_total()), (19, 2));
        assert_eq!(counts.unknown, 4);
        assert!(counts.balanced());
        assert_eq!(heard.heard_ns(), 400_000_000);
        assert_eq!(measured.latency.map(|latency| latency.count), Some(18));
        let lost = Part {
            measured: heard.measured(1_000_000_000),
            lost: Some(LostClient {
                why: "its ssh ended".to_owned(),
                heard_ns: heard.heard_ns(),
            }),
            ..part(&[], 4)
        };
        let merged = merged(vec![part(&[5; 100], 4), lost], Vec::new(), 7);
        assert_eq!((merged.counts.answered, merged.counts.unknown), (119, 4));
        assert_eq!(merged.latency.map(|latency| latency.count), Some(118));
    }

    #[test]
    fn the_ceiling_of_all_is_the_sum_of_theirs() {
        let of = |throughput, cpu_per_request_ns| Ceiling {
            throughput,
            workers_saturated: true,
            cpu_per_request_ns,
            driven: throughput,
            age_s: None,
            host: None,
            of_hosts: Vec::new(),
        };
        let all = ceilings(vec![of(100.0, 10.0), of(300.0, 2.0)]);
        assert_eq!((all.throughput, all.cpu_per_request_ns), (400.0, 4.0));
        assert_eq!(all.of_hosts.len(), 2);
    }
}
