//! Bars and areas over categories, as geometry in a box of 720 by 300: bars stand on the left axis,
//! which begins at 0, areas on the right one, which is of logarithms.

use serde::Serialize;
use wallfinder_model::chart::{Chart, ChartSeries};

use crate::number;
use crate::safe::clean;

const LEFT: f64 = 64.0;
const RIGHT: f64 = 652.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = 258.0;
/// Of a category's room, what its bars have.
const BARS_SHARE: f64 = 0.7;
/// Lines across the box.
const TICKS: usize = 4;

/// A chart, drawn.
#[derive(Serialize)]
pub(super) struct ChartView {
    title: String,
    left_unit: String,
    right_unit: String,
    /// What stands where at the bottom.
    categories: Vec<(f64, String)>,
    left: Vec<(f64, String)>,
    right: Vec<(f64, String)>,
    areas: Vec<Area>,
    bars: Vec<Bar>,
    legend: Vec<Entry>,
    mark: Option<Mark>,
    /// The same in words, category by category.
    rows: Vec<Vec<String>>,
}

#[derive(Serialize)]
struct Area {
    place: usize,
    points: String,
}

#[derive(Serialize)]
struct Bar {
    place: usize,
    x: f64,
    y: f64,
    width: f64,
    height: f64,
    /// Ends of the interval, where there is one.
    ends: Option<(f64, f64)>,
    middle: f64,
    words: String,
}

/// A place between categories, and how well it is known.
#[derive(Serialize)]
struct Mark {
    x: f64,
    low: f64,
    width: f64,
    words: String,
}

#[derive(Serialize)]
struct Entry {
    place: usize,
    name: String,
    is_area: bool,
}

impl ChartView {
    pub(super) fn of(chart: &Chart) -> Option<ChartView> {
        let most = ends(&chart.bars, |series| &series.high)
            .1
            .max(ends(&chart.bars, |series| &series.values).1);
        if chart.categories.is_empty() || most <= 0.0 {
            return None;
        }
        let step = round_up(most / TICKS as f64);
        let top = step * TICKS as f64;
        let y = |value: f64| tenth(BOTTOM - (value / top).clamp(0.0, 1.0) * (BOTTOM - TOP));
        let room = (RIGHT - LEFT) / chart.categories.len() as f64;
        let middle = |at: usize| LEFT + room * (at as f64 + 0.5);
        let decades = Decades::of(&chart.areas);
        let columns = chart.bars.len().max(1) as f64;
        let width = room * BARS_SHARE / columns;
        let mut bars = Vec::new();
        for (place, series) in chart.bars.iter().enumerate() {
            for (at, value) in known(series).take(chart.categories.len()).enumerate() {
                let Some(value) = value else { continue };
                let x = middle(at) - room * BARS_SHARE / 2.0 + place as f64 * width;
                let end = |ends: &[Option<f64>]| {
                    ends.get(at).copied().flatten().filter(|v| v.is_finite())
                };
                bars.push(Bar {
                    place,
                    x: tenth(x),
                    y: y(value),
                    width: tenth(width - 1.0),
                    height: tenth(BOTTOM - y(value)),
                    ends: end(&series.low)
                        .zip(end(&series.high))
                        .map(|(low, high)| (y(low), y(high))),
                    middle: tenth(x + (width - 1.0) / 2.0),
                    words: format!(
                        "{}, {}: {}",
                        clean(&chart.categories[at]),
                        clean(&series.name),
                        number::amount(value)
                    ),
                });
            }
        }
        let areas = chart
            .areas
            .iter()
            .enumerate()
            .filter_map(|(place, series)| {
                let points: Vec<String> = known(series)
                    .take(chart.categories.len())
                    .enumerate()
                    .filter_map(|(at, value)| {
                        Some(format!(
                            "{:.1},{:.1}",
                            middle(at),
                            decades.as_ref()?.y(value?)
                        ))
                    })
                    .collect();
                let (first, last) = (points.first()?.clone(), points.last()?.clone());
                let x = |point: &str| point.split(',').next().unwrap_or_default().to_owned();
                let closed = format!(
                    "{},{BOTTOM} {} {},{BOTTOM}",
                    x(&first),
                    points.join(" "),
                    x(&last)
                );
                (points.len() > 1).then_some(Area {
                    place,
                    points: closed,
                })
            });
        let entry = |is_area: bool| {
            move |(place, series): (usize, &ChartSeries)| Entry {
                place,
                name: clean(&series.name),
                is_area,
            }
        };
        let of_bars = chart.bars.iter().enumerate().map(entry(false));
        let of_areas = chart.areas.iter().enumerate().map(entry(true));
        Some(ChartView {
            title: clean(&chart.title),
            left_unit: clean(&chart.bars_unit),
            right_unit: clean(&chart.areas_unit),
            categories: chart
                .categories
                .iter()
                .enumerate()
                .map(|(at, name)| (tenth(middle(at)), clean(name)))
                .collect(),
            left: (0..=TICKS)
                .map(|tick| (y(step * tick as f64), number::amount(step * tick as f64)))
                .collect(),
            right: decades
                .as_ref()
                .map_or(Vec::new(), |decades| decades.ticks(&chart.areas_unit)),
            areas: areas.collect(),
            bars,
            legend: of_bars.chain(of_areas).collect(),
            mark: None,
            rows: rows(chart),
        })
    }

    /// Marks a place, and from where to where it may be: 0 is the first category, 0.5 half way to the
    /// second.
    pub(super) fn marked(
        mut self,
        place: f64,
        (low, high): (f64, f64),
        words: String,
    ) -> ChartView {
        let room = (RIGHT - LEFT) / self.categories.len().max(1) as f64;
        let x = |place: f64| tenth((LEFT + room * (place + 0.5)).clamp(LEFT, RIGHT));
        self.mark = Some(Mark {
            x: x(place),
            low: x(low),
            width: tenth(x(high) - x(low)),
            words,
        });
        self
    }
}

/// What is a number, and not below 0.
fn known(series: &ChartSeries) -> impl Iterator<Item = Option<f64>> + '_ {
    let good = |value: &Option<f64>| value.filter(|value| value.is_finite() && *value >= 0.0);
    series.values.iter().map(good)
}

fn ends(series: &[ChartSeries], of: fn(&ChartSeries) -> &Vec<Option<f64>>) -> (f64, f64) {
    let values = || {
        let all = series.iter().flat_map(of).flatten().copied();
        all.filter(|value| value.is_finite() && *value > 0.0)
    };
    (
        values().fold(f64::INFINITY, f64::min),
        values().fold(0.0, f64::max),
    )
}

/// The next of 1, 2, 2.5 and 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let fits = steps
        .into_iter()
        .find(|step| step * power >= value * (1.0 - 1e-9));
    fits.unwrap_or(10.0) * power
}

fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// An axis of whole powers of ten.
struct Decades {
    low: f64,
    high: f64,
}

impl Decades {
    fn of(areas: &[ChartSeries]) -> Option<Decades> {
        let (low, high) = ends(areas, |series| &series.values);
        let (low, high) = (low.log10().floor(), high.log10().ceil());
        (low.is_finite() && high.is_finite()).then(|| Decades {
            low,
            high: high.max(low + 1.0),
        })
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value.max(1e-300).log10() - self.low) / (self.high - self.low);
        tenth(BOTTOM - share.clamp(0.0, 1.0) * (BOTTOM - TOP))
    }

    fn ticks(&self, unit: &str) -> Vec<(f64, String)> {
        let shown = |value: f64| match value {
            _ if unit.starts_with("bytes") => {
                number::bytes(value).replace(".00", "").replace(".0 ", " ")
            }
            ..0.01 => format!("{value:e}"),
            _ => number::amount(value),
        };
        let count = (self.high - self.low) as usize;
        let every = count.div_ceil(6).max(1);
        (0..=count)
            .step_by(every)
            .map(|at| 10f64.powf(self.low + at as f64))
            .map(|value| (self.y(value), shown(value)))
            .collect()
    }
}

/// A heading, then a row for each category.
fn rows(chart: &Chart) -> Vec<Vec<String>> {
    let series = || chart.bars.iter().chain(&chart.areas);
    let mut rows = vec![
        std::iter::once(String::new())
            .chain(series().map(|series| clean(&series.name)))
            .collect::<Vec<String>>(),
    ];
    for (at, category) in chart.categories.iter().enumerate() {
        let shown = |series: &ChartSeries| {
            let value = series.values.get(at).copied().flatten();
            value.map_or(number::UNKNOWN.to_owned(), number::amount)
        };
        rows.push(
            std::iter::once(clean(category))
                .chain(series().map(shown))
                .collect(),
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(round_up(1_030.0), 2_000.0);
        assert_eq!(round_up(24.0), 25.0);
        assert_eq!(round_up(0.005), 0.005);
        assert_eq!(round_up(6_000.0), 10_000.0);
    }

    #[test]
    fn bars_stand_on_the_axis_and_areas_on_decades() {
        let series = |values: &[f64]| ChartSeries {
            name: "x".into(),
            values: values.iter().map(|value| Some(*value)).collect(),
            ..ChartSeries::default()
        };
        let mut chart = Chart {
            areas_unit: "bytes read for an answer".to_owned(),
            categories: vec!["1k".into(), "1m".into()],
            bars: vec![series(&[100.0, 0.0]), series(&[50.0, f64::NAN])],
            areas: vec![series(&[1e3, 1e6])],
            ..Chart::default()
        };
        let view = ChartView::of(&chart).unwrap();
        assert_eq!(view.bars.len(), 3, "what is no number is no bar");
        for bar in &view.bars {
            assert!((bar.y + bar.height - BOTTOM).abs() < 0.2);
        }
        assert_eq!(view.bars[0].y, TOP);
        assert_eq!(view.right.first().unwrap().1, "1 KB");
        assert_eq!(view.right.last().unwrap().1, "1 MB");
        chart.areas_unit = "answers per second".to_owned();
        let view = ChartView::of(&chart).unwrap();
        assert_eq!(view.right.last().unwrap().1, "1,000,000");
        assert!(ChartView::of(&Chart::default()).is_none());
    }
}
