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
            link: crate::look::clean(sizes.link.as_deref().unwrap_or_default()),
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
    let chart = |title: String, of: fn(&Point) -> Option<Known>| {
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
        ChartView::of(&Chart {
            title,
            categories: raw.iter().map(|raw| number::bytes(*raw)).collect(),
            bars_unit: "answers/s".into(),
            bars: bars.collect(),
            areas_unit: "bytes of a body on the wire".into(),
            areas: areas.collect(),
        })
    };
    let behind = sizes
        .link
        .as_ref()
        .map(|link| chart(format!("Behind {link}"), |point| point.behind));
    let open = match sizes.link {
        Some(_) => "Without the link's rate".to_owned(),
        None => words::capital_sentence("answers a second"),
    };
    let open = chart(open, |point| point.open);
    behind.into_iter().flatten().chain(open).collect()
}
