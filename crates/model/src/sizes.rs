//! Answers of several sizes in several content codings, with a link in their way and without: what a
//! byte costs whom, and from which size on compressing pays.

use serde::{Deserialize, Serialize};

use crate::verdict::Wall;

/// What was asked for, and what came of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sizes {
    /// Each path in each coding.
    pub answers: Vec<Answer>,
    /// For each step of the record, in order.
    pub order: Vec<Turn>,
    /// The link, as it was asked for; none: only without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Its rate from server to client, in bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_bits: Option<u64>,
    /// What was measured, one for each of `answers` that was.
    pub points: Vec<Point>,
    /// What one more request and one more byte cost, by regression over sizes.
    pub costs: Vec<Cost>,
    /// From which size on a coding pays, for each coding and link.
    pub pays: Vec<Pays>,
    /// How good the predictions were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
}

/// One thing that is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// Path and query.
    pub path: String,
    /// The one coding that is accepted: `identity`, `gzip`, `br`, `zstd`, `deflate`.
    pub coding: String,
}

/// What a step was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turn {
    /// From 0.
    pub round: u32,
    /// Which of the answers.
    pub answer: u32,
    /// Whether the link had the rate that was asked for; else it had many times that.
    pub behind_link: bool,
}

/// A value, and where its 95 % interval ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Known {
    /// The centre.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Whether it may lie beyond: `high` is then as far as was measured.
    #[serde(default, skip_serializing_if = "crate::scenario::is_false")]
    pub high_is_open: bool,
}

/// What was measured of one answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// Which of the answers.
    pub answer: u32,
    /// Bytes of its body as it is, uncoded; of its own body where that was not asked for.
    pub raw_bytes: f64,
    /// Bytes of its body on the wire.
    pub body_bytes: f64,
    /// Bytes on the link from server to client, headers of every packet included.
    pub downlink_bytes: Option<f64>,
    /// TCP segments that the server's host sent, acknowledgements included.
    pub segments: Option<f64>,
    /// Answers per second without the link's rate.
    pub open: Option<Known>,
    /// Behind it.
    pub behind: Option<Known>,
    /// Behind it, as predicted from what was measured without, and from bytes.
    pub predicted: Option<Known>,
    /// Processor time of the server for each answer, without the link's rate, nanoseconds.
    pub server_cpu_ns: Option<f64>,
    /// The same of the client.
    pub client_cpu_ns: Option<f64>,
    /// What binds without the link's rate, by telemetry.
    pub open_wall: Option<Wall>,
    /// What binds behind it.
    pub behind_wall: Option<Wall>,
}

/// A straight line over sizes: so much for each request, and so much for each byte of its answer's
/// body on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cost {
    /// `server` and `client` in nanoseconds of processor time, `downlink` in bytes.
    pub whose: String,
    /// Answers in this coding.
    pub coding: String,
    /// For a request whose answer has no body.
    pub per_request: Known,
    /// For each byte of body.
    pub per_byte: Known,
    /// Root mean square of how far the measured sizes are from the line, as a share of it.
    pub misfit: f64,
    /// Sizes behind it.
    pub sizes: u32,
}

/// From which size on a coding brings more answers than none does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pays {
    /// The coding.
    pub coding: String,
    /// The link, such as `1gbit`; none: without one.
    pub link: Option<String>,
    /// Whether it is predicted; else it was measured.
    pub predicted: bool,
    /// Bytes of the body as it is, from which on it pays; none where it nowhere does.
    pub from_bytes: Option<Known>,
    /// Answers with the coding over answers without, at the smallest size.
    pub smallest: Known,
    /// At the largest.
    pub largest: Known,
}

/// Predictions beside what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Score {
    /// Predictions with a measurement.
    pub predictions: u32,
    /// Of them, whose interval holds the measured value.
    pub within: u32,
    /// Root mean square of the relative errors.
    pub rmse: f64,
}
