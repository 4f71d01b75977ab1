//! A study at one size becomes a list of steps, in the order in which they run.

use wallfinder_model::{Arrival, Load, Nanos, Rate, Stop};

use crate::Size;
use crate::study::{Driver, Group, Ramp, Study};

/// Time beside warm-up and window that a step takes: connecting, draining, starting a
/// foreign driver.
const OVERHEAD: Nanos = Nanos::from_millis(700);
/// Time that calibration of a step takes.
const CALIBRATION: Nanos = Nanos::from_millis(700);

/// One step of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct StudyStep {
    /// Its name in tables and claims: `simple/engine/c100`.
    pub label: String,
    /// The group it belongs to.
    pub group: String,
    /// Name of its subject.
    pub subject: String,
    /// Path and query.
    pub path: String,
    /// What produces the load.
    pub driver: Driver,
    /// The load.
    pub load: Load,
    /// Whether the engine's own ceiling is to be measured beside it.
    pub calibrate: bool,
}

impl Study {
    /// The steps of a size: subject by subject and group by group, so that a server is
    /// started as seldom as can be.
    pub fn expand(&self, size: Size) -> Vec<StudyStep> {
        let mut steps = Vec::new();
        for subject in 0..self.subjects.len() {
            for group in self.groups.iter().filter(|group| group.subject == subject) {
                for run in group.runs.iter().filter(|run| run.sizes.contains(&size)) {
                    for driver in &run.drivers {
                        self.ramp(group, run, &self.drivers[*driver], &mut steps);
                    }
                }
            }
        }
        steps
    }

    /// How long a size takes, about.
    pub fn duration(&self, size: Size) -> Nanos {
        let each = |step: &StudyStep| {
            let calibration = if step.calibrate { CALIBRATION.0 } else { 0 };
            step.load.warmup.0 + step.load.stop.after.0 + OVERHEAD.0 + calibration
        };
        Nanos(self.expand(size).iter().map(each).sum())
    }

    fn ramp(&self, group: &Group, run: &Ramp, driver: &Driver, steps: &mut Vec<StudyStep>) {
        for connections in &run.connections {
            let rates: Vec<Option<Rate>> = match run.rates.len() {
                0 => vec![None],
                _ => run.rates.iter().copied().map(Some).collect(),
            };
            for rate in rates {
                let suffix = rate.map_or(String::new(), |rate| format!("/r{:.0}", rate.0));
                steps.push(StudyStep {
                    label: format!("{}/{}/c{connections}{suffix}", group.id, driver.name),
                    group: group.id.clone(),
                    subject: self.subjects[group.subject].name.clone(),
                    path: group.path.clone(),
                    driver: driver.clone(),
                    load: self.load(group, run, *connections, rate),
                    calibrate: run.calibrate && driver.is_engine(),
                });
            }
        }
    }

    fn load(&self, group: &Group, run: &Ramp, connections: u32, rate: Option<Rate>) -> Load {
        Load {
            connections,
            in_flight_per_connection: group.pipeline,
            lanes: self.client_cpus.min(connections),
            arrival: match rate {
                None => Arrival::Closed { think: Nanos(0) },
                Some(rate) => Arrival::Constant { rate },
            },
            warmup: run.warmup,
            stop: Stop {
                after: run.window,
                requests: None,
            },
            timeout: run.timeout,
            connection_per_request: false,
            method: "GET".to_owned(),
            header_names: Vec::new(),
            body_bytes: 0,
            inflate: false,
        }
    }
}
