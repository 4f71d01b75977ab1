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

/// The name of the category in expressions.
const CATEGORY: &str = "category";
/// Categories and series at the most: more cannot be told apart.
const CATEGORIES_MAX: usize = 40;
const SERIES_MAX: usize = 4;

/// A chart that a study draws of its steps.
#[derive(Debug)]
pub struct ChartPlan {
    title: String,
    categories: Vec<String>,
    bars_unit: String,
    bars: Vec<SeriesPlan>,
    areas_unit: String,
    areas: Vec<SeriesPlan>,
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
    let series = |raw: &SeriesFile| {
        Ok(SeriesPlan {
            name: raw.name.clone(),
            value: place.condition(&raw.value, &[CATEGORY])?,
        })
    };
    let all = |raw: &[SeriesFile]| {
        raw.iter()
            .map(series)
            .collect::<Result<Vec<_>, StudyError>>()
    };
    Ok(ChartPlan {
        title: raw.title.get_ref().clone(),
        categories: raw.categories.clone(),
        bars_unit: raw.bars_unit.clone(),
        bars: all(&raw.bars)?,
        areas_unit: raw.areas_unit.clone(),
        areas: all(&raw.areas)?,
    })
}

/// Draws every chart of which anything was measured.
pub(crate) fn draw(study: &Study, data: &Arc<Data>) -> Vec<Chart> {
    let charts = study.charts.iter().map(|plan| Chart {
        title: plan.title.clone(),
        categories: plan.categories.clone(),
        bars_unit: plan.bars_unit.clone(),
        bars: all(&plan.bars, &plan.categories, data),
        areas_unit: plan.areas_unit.clone(),
        areas: all(&plan.areas, &plan.categories, data),
    });
    let drawn = |chart: &Chart| {
        let mut values = chart.bars.iter().flat_map(|series| &series.values);
        values.any(Option::is_some)
    };
    charts.filter(drawn).collect()
}

fn all(plans: &[SeriesPlan], categories: &[String], data: &Arc<Data>) -> Vec<ChartSeries> {
    let series = |plan: &SeriesPlan| ChartSeries {
        name: plan.name.clone(),
        values: categories
            .iter()
            .map(|category| number(&plan.value, category, data).ok().flatten())
            .collect(),
        ..ChartSeries::default()
    };
    plans.iter().map(series).collect()
}

/// A number; `None` where what it needs was not measured.
fn number(value: &Condition, category: &str, data: &Arc<Data>) -> Result<Option<f64>, String> {
    let mut context = data.context();
    context.set(CATEGORY, category);
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
        for series in plan.bars.iter().chain(&plan.areas) {
            for category in &plan.categories {
                number(&series.value, category, data).map_err(|why| {
                    let message = format!("this cannot be drawn for `{category}`: {why}");
                    place.error(series.value.span.clone(), message)
                })?;
            }
        }
    }
    Ok(())
}
