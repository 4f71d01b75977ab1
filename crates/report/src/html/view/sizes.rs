//! Answers of several sizes: from which on a coding pays, drawn, and what bytes cost whom.

use serde::Serialize;
use wallfinder_model::Record;
use wallfinder_model::chart::{Chart, ChartSeries};
use wallfinder_model::sizes::{Known, Point, Sizes};

use super::charts::ChartView;
use crate::sized::{self, CostRow, Row};
use crate::{number, words};

#[derive(Serialize)]
pub(super) struct SizesView {
    headline: String,
    answers: Vec<String>,
    pays: &'static str,
    has_link: bool,
    link: String,
    rows: Vec<SizeRow>,
    costs_words: &'static str,
    costs: Vec<[String; 7]>,
    score: Option<String>,
    predicted: Vec<String>,
    rounds: String,
    charts: Vec<ChartView>,
}

#[derive(Serialize)]
struct SizeRow {
    cells: Vec<String>,
    /// Whether what was measured lies outside of what was predicted.
    missed: bool,
}

impl SizesView {
    pub(super) fn of(record: &Record) -> Option<SizesView> {
        let sizes = record.sizes.as_ref()?;
        let has_link = sizes.link.is_some();
        let answers = sized::measured(sizes);
        let points = sized::points(sizes);
        Some(SizesView {
            headline: match answers.first() {
                Some(first) => first.short.clone(),
                None => "Nothing was measured in every round".to_owned(),
            },
            answers: answers.into_iter().map(|sentence| sentence.full).collect(),
            pays: sized::PAYS,
            has_link,
            link: crate::safe::clean(sizes.link.as_deref().unwrap_or_default()),
            rows: points
                .iter()
                .map(|point| row(sized::row(sizes, point), has_link))
                .collect(),
            costs_words: sized::COSTS,
            costs: sizes
                .costs
                .iter()
                .map(|cost| cost_row(sized::cost(cost)))
                .collect(),
            score: sized::score(sizes),
            predicted: sized::predicted(sizes),
            rounds: sized::rounds(record, sizes),
            charts: charts(sizes, &points),
        })
    }
}

fn row(row: Row, has_link: bool) -> SizeRow {
    let mut cells = vec![
        row.raw,
        row.coding,
        row.body,
        row.downlink,
        row.segments,
        row.server,
        row.client,
        row.open,
        row.open_wall.to_owned(),
    ];
    if has_link {
        cells.extend([row.behind, row.predicted, row.behind_wall.to_owned()]);
    }
    SizeRow {
        cells,
        missed: row.holds == Some(false),
    }
}

fn cost_row(row: CostRow) -> [String; 7] {
    [
        row.whose,
        row.coding,
        row.per_request,
        row.per_request_ends,
        row.per_kb,
        row.per_kb_ends,
        row.misfit,
    ]
}

/// Answers a second in each coding as bars, what they are on the wire as areas: behind the link, and
/// without it.
fn charts(sizes: &Sizes, points: &[&Point]) -> Vec<ChartView> {
    let mut raw: Vec<f64> = points.iter().map(|point| point.raw_bytes).collect();
    raw.dedup();
    let mut codings: Vec<&str> = points
        .iter()
        .map(|point| sized::coding(sizes, point))
        .collect();
    codings.sort_unstable();
    codings.dedup();
    // As it is comes first.
    codings.sort_by_key(|coding| *coding != "identity");
    let find = |raw: f64, coding: &str| {
        let of = |point: &&&Point| point.raw_bytes == raw && sized::coding(sizes, point) == coding;
        points.iter().find(of).copied()
    };
    let chart = |title: String, link: &Option<String>, of: fn(&Point) -> Option<Known>| {
        let bars = codings.iter().map(|coding| {
            let known: Vec<Option<Known>> = raw.iter().map(|raw| of(find(*raw, coding)?)).collect();
            let each = |take: fn(Known) -> f64| known.iter().map(|known| known.map(take)).collect();
            ChartSeries {
                name: (*coding).to_owned(),
                values: each(|known| known.value),
                low: each(|known| known.low),
                high: each(|known| known.high),
            }
        });
        let areas = codings.iter().map(|coding| ChartSeries {
            name: format!("{coding}, bytes on the wire"),
            values: raw
                .iter()
                .map(|raw| Some(find(*raw, coding)?.body_bytes))
                .collect(),
            ..ChartSeries::default()
        });
        let drawn = ChartView::of(&Chart {
            title,
            categories: raw.iter().map(|raw| number::bytes(*raw)).collect(),
            bars_unit: "answers/s".into(),
            bars: bars.collect(),
            areas_unit: "bytes of a body on the wire".into(),
            areas: areas.collect(),
        })?;
        // One coding has one place from which on it pays; several would hide each other.
        let mut pays = sizes
            .pays
            .iter()
            .filter(|pays| !pays.predicted && pays.link == *link);
        let only = pays.next().filter(|_| pays.next().is_none());
        Some(match only.and_then(|pays| Some((pays, pays.from_bytes?))) {
            None => drawn,
            Some((pays, from)) => {
                let at = |bytes: f64| place(&raw, bytes);
                let words = format!("{} pays from {} on", pays.coding, number::bytes(from.value));
                drawn.marked(at(from.value), (at(from.low), at(from.high)), words)
            }
        })
    };
    let behind = sizes
        .link
        .as_ref()
        .map(|link| chart(format!("Behind {link}"), &sizes.link, |point| point.behind));
    let open = match sizes.link {
        Some(_) => "Without the link's rate".to_owned(),
        None => words::capital_sentence("answers a second"),
    };
    let open = chart(open, &None, |point| point.open);
    behind.into_iter().flatten().chain(open).collect()
}

/// Where a size stands among those measured, by logarithms: 0 is the first of them.
fn place(raw: &[f64], bytes: f64) -> f64 {
    let after = raw.iter().position(|known| *known >= bytes);
    match after {
        Some(0) => 0.0,
        Some(at) => {
            let (low, high) = (raw[at - 1], raw[at]);
            at as f64 - (high.ln() - bytes.ln()) / (high.ln() - low.ln())
        }
        None => raw.len().saturating_sub(1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn a_size_stands_between_its_neighbours() {
        let raw = [1e3, 1e4, 1e6];
        assert_eq!(place(&raw, 500.0), 0.0);
        assert_eq!(place(&raw, 1e4), 1.0);
        assert!((place(&raw, 1e5) - 1.5).abs() < 1e-9);
        assert_eq!(place(&raw, 1e9), 2.0);
    }
}
