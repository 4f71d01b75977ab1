//! The kinds of request of a mix, row by row: for the terminal and for the page.

use serde::Serialize;
use wallfinder_model::record::RequestKind;
use wallfinder_model::{Step, Wall};

use crate::figures::quantile;
use crate::number;

/// One kind.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Row {
    /// What it is called.
    pub(crate) name: String,
    /// Its share of what was sent, beside that of its weight.
    pub(crate) sent: String,
    /// Good answers per second.
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
}

/// What there is to say of each kind, those that are sent most first.
pub(crate) fn rows(requests: &[RequestKind]) -> Vec<Row> {
    let (sent, weights) = requests.iter().fold((0, 0), |(sent, weights), kind| {
        (sent + kind.sent, weights + u64::from(kind.weight))
    });
    let mut kinds: Vec<&RequestKind> = requests.iter().collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse((kind.weight, kind.sent)));
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let row = |kind: &RequestKind| {
        let latency = |name| {
            let found = quantile(kind.latency.as_ref(), name);
            found.map_or(number::UNKNOWN.to_owned(), number::span)
        };
        let asked = share(u64::from(kind.weight), weights);
        Row {
            name: kind.name.clone(),
            sent: format!(
                "{} of {}",
                number::share(share(kind.sent, sent)),
                number::share(asked)
            ),
            rate: number::amount(kind.throughput),
            p50: latency("p50"),
            p99: latency("p99"),
            failed: failed(kind),
            body: match kind.answered {
                0 => number::UNKNOWN.to_owned(),
                answered => number::bytes(kind.body_bytes as f64 / answered as f64),
            },
            cost: kind.cost.map_or(String::new(), |cost| {
                let half = (cost.cpu_high_ns - cost.cpu_low_ns) / 2.0;
                format!("{} ± {}", number::span(cost.cpu_ns), number::span(half))
            }),
            share: kind.cost.map_or(String::new(), |cost| {
                let percent = |share: f64| format!("{:.0}", 100.0 * share.clamp(0.0, 1.0));
                let [low, high] = [cost.share_low, cost.share_high].map(percent);
                format!("{} % [{low}, {high}]", percent(cost.share))
            }),
        }
    };
    kinds.into_iter().map(row).collect()
}

/// Which of them has most of the server's CPU time, and what part of the requests it is.
pub(crate) fn heaviest(step: &Step) -> Option<String> {
    let costed = step
        .requests
        .iter()
        .filter_map(|kind| Some((kind, kind.cost?)));
    let (kind, cost) = costed.max_by(|a, b| a.1.share.total_cmp(&b.1.share))?;
    let sent: u64 = step.requests.iter().map(|kind| kind.sent).sum();
    let percent = |share: f64| format!("{:.0}", 100.0 * share.clamp(0.0, 1.0));
    let is_wall = step
        .verdict
        .as_ref()
        .is_some_and(|verdict| matches!(verdict.wall, Wall::ServerCpu | Wall::ServerSerial));
    let of = if is_wall { ", which is the wall" } else { "" };
    Some(format!(
        "{} is {} % of the requests and {} % [{}, {}] of the server's CPU time{of}.",
        kind.name,
        percent(kind.sent as f64 / sent.max(1) as f64),
        percent(cost.share),
        percent(cost.share_low),
        percent(cost.share_high)
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
        let rows = rows(&[kind("/pay", 1, 90, 9), kind("/search", 9, 910, 0)]);
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
}
