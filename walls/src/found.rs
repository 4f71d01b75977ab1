//! What `wallfinder find` said, read from its JSON: only what is marked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wallfinder_judge::proof::what_if_of_kind;
use wallfinder_model::Detail;
use wallfinder_model::record::{Costs, FunctionCost, Interference};
use wallfinder_model::verdict::{How, Wall};

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The wall.
    pub wall: Wall,
    /// How it was established.
    pub how: How,
    /// What it is made of.
    pub detail: Option<Detail>,
    /// The same in words.
    #[serde(default)]
    pub made_of: Option<String>,
    /// What was seen inside the server, where it was looked into.
    #[serde(default)]
    pub inside: Option<String>,
    /// Elasticities by squeeze.
    pub elasticities: BTreeMap<String, Span>,
    /// The wall after this one.
    pub next: Option<Next>,
    /// Answers per second with nothing squeezed.
    pub rate: f64,
    /// 99th percentile of latency in the worst window without a squeeze, where it is known:
    /// what happens now and then is not in every window.
    pub p99_ms: Option<f64>,
    /// Requests of a mix.
    #[serde(default)]
    pub kinds: Vec<Kind>,
    /// Those of them that cost each other.
    #[serde(default)]
    pub interference: Vec<Interference>,
}

impl Found {
    /// A request of a mix.
    pub fn kind(&self, name: &str) -> Option<&Kind> {
        self.kinds.iter().find(|kind| kind.name == name)
    }
}

/// What was found of one request of a mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// Its name.
    pub name: String,
    /// Bytes of its answers.
    #[serde(default)]
    pub wire_bytes: u64,
    /// What one costs.
    #[serde(default)]
    pub costs: Option<Costs>,
    /// The server's functions that work for it.
    #[serde(default)]
    pub functions: Vec<FunctionCost>,
    /// What is told of it if it took half as much of what the wall is made of.
    #[serde(default)]
    pub half_as_dear: Option<Gain>,
}

/// So many times the present throughput, as told, with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Centre.
    pub ratio: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A number with its interval. What is not finite is not there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Centre.
    pub value: Option<f64>,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// The next wall.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Next {
    /// Which.
    pub wall: Wall,
    /// Its ceiling over the present throughput.
    pub ratio: Option<f64>,
}

#[derive(Deserialize)]
struct Record {
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    throughput: Option<f64>,
    latency: Option<Latency>,
    verdict: Option<Verdict>,
    experiment: Option<Experiment>,
    #[serde(default)]
    requests: Vec<Kind>,
    #[serde(default)]
    interference: Vec<Interference>,
}

#[derive(Deserialize)]
struct Latency {
    quantiles_ns: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Verdict {
    wall: Wall,
    how: How,
    detail: Option<Detail>,
    #[serde(default)]
    made_of: Option<String>,
    #[serde(default)]
    evidence: Vec<Evidence>,
    #[serde(default)]
    elasticities: BTreeMap<String, Span>,
    next: Option<Next>,
}

#[derive(Deserialize)]
struct Evidence {
    text: String,
    measure: String,
}

#[derive(Deserialize)]
struct Experiment {
    conditions: Vec<Condition>,
    windows: Vec<Window>,
}

#[derive(Deserialize)]
struct Condition {
    squeeze: Option<String>,
    #[serde(default)]
    together: Vec<String>,
}

#[derive(Deserialize)]
struct Window {
    condition: usize,
    throughput: Option<f64>,
    p99_ns: Option<u64>,
}

/// Reads a record. Of its steps the one that was squeezed counts, else the last one.
pub fn read(json: &[u8]) -> Result<Found, String> {
    let record: Record = serde_json::from_slice(json)
        .map_err(|error| format!("what find printed is no record: {error}"))?;
    let squeezed = record.steps.iter().rfind(|step| step.experiment.is_some());
    let step = squeezed.or(record.steps.last());
    let step = step.ok_or("the record has no step")?;
    let verdict = step.verdict.as_ref().ok_or("the step has no verdict")?;
    let shams = step.experiment.as_ref().map(shams).unwrap_or_default();
    let rate = base_rate(&shams).or(step.throughput);
    let of_step = step
        .latency
        .as_ref()
        .and_then(|l| l.quantiles_ns.get("p99"));
    let of_shams = shams.iter().filter_map(|window| window.p99_ns);
    let p99_ns = of_shams.chain(of_step.copied()).max();
    Ok(Found {
        wall: verdict.wall,
        how: verdict.how,
        detail: verdict.detail.clone(),
        made_of: verdict.made_of.clone(),
        inside: inside(&verdict.evidence),
        elasticities: verdict.elasticities.clone(),
        next: verdict.next,
        rate: rate.ok_or("the step has no throughput")?,
        p99_ms: p99_ns.map(|ns| ns as f64 / 1e6),
        kinds: with_halves(json, step.requests.clone())?,
        interference: step.interference.clone(),
    })
}

/// What each of a mix would give if it were half as dear.
fn with_halves(json: &[u8], mut kinds: Vec<Kind>) -> Result<Vec<Kind>, String> {
    if kinds.is_empty() {
        return Ok(kinds);
    }
    let whole: wallfinder_model::Record = serde_json::from_slice(json)
        .map_err(|error| format!("the record cannot be read: {error}"))?;
    let squeezed = whole.steps.iter().rfind(|step| step.experiment.is_some());
    for kind in &mut kinds {
        kind.half_as_dear = squeezed.and_then(|step| {
            let told = what_if_of_kind(step, &kind.name, 0.5)?;
            let [ratio, low, high] =
                [told.throughput, told.low, told.high].map(|rate| rate / step.throughput);
            Some(Gain { ratio, low, high })
        });
    }
    Ok(kinds)
}

/// What profiles say, in one.
fn inside(evidence: &[Evidence]) -> Option<String> {
    let of_profiles = evidence
        .iter()
        .filter(|evidence| evidence.measure.starts_with("profile."));
    let texts: Vec<&str> = of_profiles.map(|evidence| evidence.text.as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

/// The windows in which nothing was squeezed.
fn shams(experiment: &Experiment) -> Vec<&Window> {
    let is_sham = |window: &&Window| {
        let condition = experiment.conditions.get(window.condition);
        condition.is_some_and(|it| it.squeeze.is_none() && it.together.is_empty())
    };
    experiment.windows.iter().filter(is_sham).collect()
}

/// The mean throughput of the shams: what elasticities are relative to.
fn base_rate(shams: &[&Window]) -> Option<f64> {
    let rates: Vec<f64> = shams
        .iter()
        .filter_map(|window| window.throughput)
        .collect();
    (!rates.is_empty()).then(|| rates.iter().sum::<f64>() / rates.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &[u8] = include_bytes!("../testdata/record.json");

    #[test]
    fn the_squeezed_step_counts_and_its_shams_are_the_rate() {
        let found = read(RECORD).unwrap();
        assert_eq!((found.wall, found.how), (Wall::ServerCpu, How::Proved));
        assert_eq!(found.rate, 4_700.0);
        assert_eq!(found.p99_ms, Some(7.1), "the worst of step and shams");
        let speed = found.elasticities["server-speed"];
        assert_eq!((speed.value, speed.low), (Some(1.02), Some(0.97)));
        // A bound that is not finite is written as null.
        assert_eq!(found.elasticities["uplink"].high, None);
        let next = found.next.unwrap();
        assert_eq!((next.wall, next.ratio), (Wall::Downlink, Some(1.38)));
    }

    #[test]
    fn what_is_no_record_is_said_to_be_none() {
        for bad in [&b""[..], b"{}", b"{\"steps\":[]}", &RECORD[..400]] {
            assert!(read(bad).is_err());
        }
    }
}
