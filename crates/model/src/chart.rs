//! A picture of numbers that belong side by side: bars on the left axis, areas on the right one.

use serde::{Deserialize, Serialize};

/// Bars and areas over the same categories.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What stands on the horizontal axis, such as `1k`, `2k`.
    pub categories: Vec<String>,
    /// What bars count, on the left axis from 0 on.
    pub bars_unit: String,
    /// Bars, beside each other in each category.
    pub bars: Vec<ChartSeries>,
    /// What areas count, on the right axis, by logarithms.
    #[serde(default)]
    pub areas_unit: String,
    /// Areas, behind the bars.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub areas: Vec<ChartSeries>,
}

/// A number for each category.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChartSeries {
    /// What it is of.
    pub name: String,
    /// None where it was not measured.
    pub values: Vec<Option<f64>>,
    /// Lower ends of 95 % intervals, where there are some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub low: Vec<Option<f64>>,
    /// Upper ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub high: Vec<Option<f64>>,
}
