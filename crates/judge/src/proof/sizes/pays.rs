//! From which size on a coding pays: answers with it over answers without, size by size, and where
//! that passes the bar for good.

use wallfinder_model::sizes::{Known, Pays, Sizes};

use super::network::Behind;
use super::rounds::Rounds;
use super::{IDENTITY, codings, of_logs, of_rounds};

/// A coding pays where it brings so many times the answers: less is within what runs differ by.
pub(super) const BAR: f64 = 1.05;

/// Links that predictions are made for, beside the one that was there.
const LINKS: [(&str, u64); 3] = [
    ("100mbit", 100_000_000),
    ("1gbit", 1_000_000_000),
    ("10gbit", 10_000_000_000),
];

/// What a coding is held against, and where.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Measured without the link's rate, or behind it.
    Measured { behind_link: bool },
    /// Behind a link of so many bits per second that was not there.
    Predicted(u64),
}

/// A path in a coding and without: its size and both answers.
#[derive(Debug, Clone, Copy)]
struct Pair {
    raw_bytes: f64,
    coded: u32,
    plain: u32,
}

pub(super) fn all(rounds: &Rounds<'_>, sizes: &Sizes) -> Vec<Pays> {
    let mut places = vec![(None, Place::Measured { behind_link: false })];
    if let Some(link) = &sizes.link {
        places.push((Some(link.clone()), Place::Measured { behind_link: true }));
    }
    let others = LINKS
        .iter()
        .filter(|(_, bits)| sizes.link_bits != Some(*bits));
    places.extend(others.map(|(name, bits)| (Some((*name).to_owned()), Place::Predicted(*bits))));
    let mut found = Vec::new();
    for coding in codings(sizes) {
        let pairs = pairs(sizes, coding);
        if coding == IDENTITY || pairs.is_empty() {
            continue;
        }
        for (link, place) in &places {
            if let Some(pays) = pays(rounds, &pairs, *place) {
                found.push(Pays {
                    coding: coding.to_owned(),
                    link: link.clone(),
                    ..pays
                });
            }
        }
    }
    found
}

/// By size.
fn pairs(sizes: &Sizes, coding: &str) -> Vec<Pair> {
    let with = |coding: &str, path: &str| {
        sizes.points.iter().find(|point| {
            let answer = &sizes.answers[point.answer as usize];
            answer.coding == coding && answer.path == path
        })
    };
    let mut paths: Vec<&str> = sizes
        .answers
        .iter()
        .map(|answer| answer.path.as_str())
        .collect();
    paths.dedup();
    let mut pairs: Vec<Pair> = paths
        .into_iter()
        .filter_map(|path| {
            let (coded, plain) = (with(coding, path)?, with(IDENTITY, path)?);
            Some(Pair {
                raw_bytes: plain.raw_bytes,
                coded: coded.answer,
                plain: plain.answer,
            })
        })
        .collect();
    pairs.sort_by(|a, b| a.raw_bytes.total_cmp(&b.raw_bytes));
    pairs.dedup_by_key(|pair| pair.plain);
    pairs
}

fn pays(rounds: &Rounds<'_>, pairs: &[Pair], place: Place) -> Option<Pays> {
    let of_pair = |pair: &Pair| Some((pair.raw_bytes, ratio(rounds, pair, place)?));
    let ratios: Option<Vec<(f64, Known)>> = pairs.iter().map(of_pair).collect();
    let ratios = ratios?;
    let ((_, smallest), (_, largest)) = (*ratios.first()?, *ratios.last()?);
    Some(Pays {
        coding: String::new(),
        link: None,
        predicted: matches!(place, Place::Predicted(_)),
        from_bytes: from_bytes(&ratios),
        smallest,
        largest,
    })
}

/// Answers with the coding over answers without, round by round.
fn ratio(rounds: &Rounds<'_>, pair: &Pair, place: Place) -> Option<Known> {
    let throughput = |answer: u32, chosen: &[usize]| match place {
        Place::Measured { behind_link } => rounds.throughput_in(answer, behind_link, chosen),
        Place::Predicted(rate) => {
            let behind = Behind {
                link_seconds: rounds.downlink_bits_in(answer, chosen)? / rate as f64,
                in_flight: rounds.in_flight(answer)?,
            };
            Some(behind.between(rounds.throughput_in(answer, false, chosen)?))
        }
    };
    let log = |chosen: &[usize]| {
        let ratio = throughput(pair.coded, chosen)? / throughput(pair.plain, chosen)?;
        Some(ratio.ln())
    };
    let whole = rounds.whole(|round| log(&[round]).is_some());
    of_logs(of_rounds(&whole, log)?)
}

/// Where the ratios cross the bar, and where the ends of their intervals do. Where the lower ends
/// nowhere do, it may only pay beyond the largest size: the interval is open there.
fn from_bytes(ratios: &[(f64, Known)]) -> Option<Known> {
    let (largest, _) = *ratios.last()?;
    let crossing = |of: fn(&Known) -> f64| {
        let ratios = ratios.iter().map(|(bytes, known)| (*bytes, of(known)));
        crossing(&ratios.collect::<Vec<_>>())
    };
    let value = crossing(|known| known.value)?;
    let high = crossing(|known| known.low);
    Some(Known {
        value,
        low: crossing(|known| known.high).unwrap_or(value).min(value),
        high: high.unwrap_or(largest).max(value),
        high_is_open: high.is_none(),
    })
}

/// The size from which on every ratio is above the bar, between measured sizes by a straight line of
/// logarithms. The smallest size, where it is there already.
fn crossing(ratios: &[(f64, f64)]) -> Option<f64> {
    let above = ratios
        .iter()
        .rev()
        .take_while(|(_, ratio)| *ratio >= BAR)
        .count();
    let first = ratios.len() - above;
    let (bytes, ratio) = *ratios.get(first)?;
    let Some((below_bytes, below_ratio)) = first.checked_sub(1).map(|at| ratios[at]) else {
        return Some(bytes);
    };
    let share = (BAR.ln() - below_ratio.ln()) / (ratio.ln() - below_ratio.ln());
    Some((below_bytes.ln() + share * (bytes.ln() - below_bytes.ln())).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_pays_from_where_it_never_falls_back() {
        assert_eq!(crossing(&[]), None);
        assert_eq!(crossing(&[(1e3, 1.0), (4e3, 1.01)]), None);
        assert_eq!(crossing(&[(1e3, 1.1), (4e3, 2.0)]), Some(1e3));
        // It pays at 1 KB by chance, and not at 2 KB.
        let from = crossing(&[(1e3, 1.2), (2e3, 0.9), (8e3, 2.0)]).unwrap();
        assert!((2e3..8e3).contains(&from), "{from}");
    }

    #[test]
    fn the_bar_is_met_between_two_sizes() {
        let half_way = BAR * BAR;
        let from = crossing(&[(1e3, 1.0), (1e5, half_way)]).unwrap();
        assert!((from / 1e4 - 1.0).abs() < 1e-9, "{from}");
    }

    #[test]
    fn the_interval_reaches_as_far_as_those_of_the_ratios_do() {
        let known = |value: f64| Known {
            value,
            low: value / 1.02,
            high: value * 1.02,
            high_is_open: false,
        };
        let found = from_bytes(&[(1e3, known(0.9)), (1e6, known(2.0))]).unwrap();
        for (end, times) in [(found.low, 1.02), (found.high, 1.0 / 1.02)] {
            let wanted = crossing(&[(1e3, 0.9 * times), (1e6, 2.0 * times)]).unwrap();
            assert!((end / wanted - 1.0).abs() < 1e-9, "{found:?}");
        }
        assert!(1e3 < found.low && found.low < found.value && found.value < found.high);
        assert!(!found.high_is_open);
        // The largest size may be too small, and the smallest be enough.
        let found = from_bytes(&[(1e3, known(1.04)), (1e6, known(1.06))]).unwrap();
        assert_eq!((found.low, found.high), (1e3, 1e6));
        assert!(found.high_is_open, "it may pay beyond 1 MB alone");
        assert_eq!(from_bytes(&[(1e3, known(0.9)), (1e6, known(1.04))]), None);
    }
}
