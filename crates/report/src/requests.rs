//! The kinds of request of a mix, row by row: for the terminal and for the page.

use serde::Serialize;
use wallfinder_model::record::RequestKind;

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
        }
    };
    kinds.into_iter().map(row).collect()
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
