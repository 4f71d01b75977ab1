//! Charts of a study: for each category, the values of expressions over its steps.

use std::sync::Arc;

use wallfinder_model::chart::{Chart, ChartSeries};

use crate::StudyError;
use crate::check::Place;
use crate::claims::{Condition, NoValue, no_value};
use crate::data::Data;
use crate::file::{ChartFile, SeriesFile};
use crate::language::Value;
use crate::study::Study;

/// Names in expressions.
const CATEGORY: &str = "category";
const DRIVER: &str = "driver";
const PAYLOAD: &str = "payload";
/// Categories and series at the most: more cannot be told apart.
const CATEGORIES_MAX: usize = 40;
const SERIES_MAX: usize = 4;

/// A chart that a study draws of its steps, or several that differ in driver or payload.
#[derive(Debug)]
pub struct ChartPlan {
    title: String,
    each: Vec<Of>,
    categories: Vec<String>,
    bars_unit: String,
    bars: Vec<SeriesPlan>,
    areas_unit: String,
    areas: Vec<SeriesPlan>,
}

/// What one of several charts is of.
#[derive(Debug, Clone, Default)]
struct Of {
    driver: Option<String>,
    payload: Option<u32>,
}

impl Of {
    /// Each driver with each payload, in the file's order.
    fn each(raw: &ChartFile) -> Vec<Of> {
        let drivers = raw.for_each.iter().map(|name| name.get_ref().clone());
        let drivers = some_or_none(drivers.collect());
        let payloads = some_or_none(raw.payloads.clone());
        let with = |payload: Option<u32>| {
            let of = move |driver: &Option<String>| Of {
                driver: driver.clone(),
                payload,
            };
            drivers.iter().map(of)
        };
        payloads.into_iter().flat_map(with).collect()
    }

    fn title(&self, title: &str) -> String {
        let title = title.replace("{driver}", self.driver.as_deref().unwrap_or("{driver}"));
        match self.payload {
            Some(payload) => title.replace("{payload}", &payload.to_string()),
            None => title,
        }
    }
}

fn some_or_none<T>(list: Vec<T>) -> Vec<Option<T>> {
    match list.is_empty() {
        true => vec![None],
        false => list.into_iter().map(Some).collect(),
    }
}

/// A number for each category, by an expression.
#[derive(Debug)]
struct SeriesPlan {
    name: String,
    value: Condition,
}

/// Compiles a chart.
pub(crate) fn compile(raw: &ChartFile, place: &Place) -> Result<ChartPlan, StudyError> {
    let span = raw.title.span();
    let told = |message: String| Err(place.error(span.clone(), message));
    if raw.categories.is_empty() || raw.categories.len() > CATEGORIES_MAX {
        return told(format!("a chart has 1 to {CATEGORIES_MAX} categories"));
    }
    if raw.bars.is_empty() || raw.bars.len().max(raw.areas.len()) > SERIES_MAX {
        return told(format!(
            "a chart has 1 to {SERIES_MAX} kinds of bars, and as many areas at the most"
        ));
    }
    let mut names = vec![CATEGORY];
    names.extend((!raw.for_each.is_empty()).then_some(DRIVER));
    names.extend((!raw.payloads.is_empty()).then_some(PAYLOAD));
    let series = |raw: &SeriesFile| {
        Ok(SeriesPlan {
            name: raw.name.clone(),
            value: place.condition(&raw.value, &names)?,
        })
    };
    let all = |raw: &[SeriesFile]| {
        raw.iter()
            .map(series)
            .collect::<Result<Vec<_>, StudyError>>()
    };
    Ok(ChartPlan {
        title: raw.title.get_ref().clone(),
        each: Of::each(raw),
        categories: raw.categories.clone(),
        bars_unit: raw.bars_unit.clone(),
        bars: all(&raw.bars)?,
        areas_unit: raw.areas_unit.clone(),
        areas: all(&raw.areas)?,
    })
}

/// Draws every chart of which anything was measured.
pub(crate) fn draw(study: &Study, data: &Arc<Data>) -> Vec<Chart> {
    let chart = |plan: &ChartPlan, of: &Of| Chart {
        title: of.title(&plan.title),
        categories: plan.categories.clone(),
        bars_unit: plan.bars_unit.clone(),
        bars: all(&plan.bars, of, &plan.categories, data),
        areas_unit: plan.areas_unit.clone(),
        areas: all(&plan.areas, of, &plan.categories, data),
    };
    let charts = study
        .charts
        .iter()
        .flat_map(|plan| plan.each.iter().map(move |of| chart(plan, of)));
    let drawn = |chart: &Chart| {
        let mut values = chart.bars.iter().flat_map(|series| &series.values);
        values.any(Option::is_some)
    };
    charts.filter(drawn).collect()
}

fn all(plans: &[SeriesPlan], of: &Of, categories: &[String], data: &Arc<Data>) -> Vec<ChartSeries> {
    let series = |plan: &SeriesPlan| ChartSeries {
        name: plan.name.clone(),
        values: categories
            .iter()
            .map(|category| number(&plan.value, of, category, data).ok().flatten())
            .collect(),
        ..ChartSeries::default()
    };
    plans.iter().map(series).collect()
}

/// A number; `None` where what it needs was not measured.
fn number(
    value: &Condition,
    of: &Of,
    category: &str,
    data: &Arc<Data>,
) -> Result<Option<f64>, String> {
    let mut context = data.context();
    context.set(CATEGORY, category);
    if let Some(driver) = &of.driver {
        context.set(DRIVER, driver.as_str());
    }
    if let Some(payload) = of.payload {
        context.set(PAYLOAD, f64::from(payload));
    }
    match value.expression.value(&context) {
        Ok(Value::Number(number)) => Ok(Some(number).filter(|number| number.is_finite())),
        Ok(other) => Err(format!("it is {}, and no number", other.kind())),
        Err(error) => match no_value(error) {
            NoValue::Missing(_) => Ok(None),
            NoValue::Wrong(why) => Err(why),
        },
    }
}

/// Holds charts against made-up data: an expression that is wrong is told before the first packet.
pub(crate) fn check(study: &Study, data: &Arc<Data>, place: &Place) -> Result<(), StudyError> {
    for plan in &study.charts {
        let series = plan.bars.iter().chain(&plan.areas);
        let of_all = series.flat_map(|series| plan.each.iter().map(move |of| (series, of)));
        for (series, of) in of_all {
            for category in &plan.categories {
                number(&series.value, of, category, data).map_err(|why| {
                    let message = format!("this cannot be drawn for `{category}`: {why}");
                    place.error(series.value.span.clone(), message)
                })?;
            }
        }
    }
    Ok(())
}
