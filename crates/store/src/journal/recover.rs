//! What a journal still tells of a run that was never sealed.
//!
//! Entries are taken until the end or the first damage. Steps that ended are as they
//! ended. The step in progress is rebuilt from its intervals: counts and throughput are
//! those of the intervals, and there is no latency distribution, since quantiles of slices
//! do not add up to a quantile of the whole. An experiment in progress has the windows that
//! ended.

use std::collections::BTreeMap;
use std::io::Read;

use serde::Deserialize;
use wallfinder_model::experiment::{Experiment, Window};
use wallfinder_model::record::Interval;
use wallfinder_model::telemetry::Sample;
use wallfinder_model::{Caveat, Json, Record, Step};

use super::entry::{Damage, Entries, Entry, Kind};
use crate::record_1::{self, Piece};

use super::{LeftOut, StepExperiment, StepInterval, StepSamples, StepWindow};

/// Reads a journal as far as it can be read. An error means not even its header could be.
pub(crate) fn recover(source: impl Read) -> Result<Record, Damage> {
    let mut entries = Entries::start(source)?;
    let mut recovered = match entries.next_entry()? {
        Some(entry) if entry.kind == Kind::Header => {
            let header = read_header(entry.payload).map_err(|e| Damage {
                offset_bytes: entry.offset_bytes,
                why: format!("the header is not understood: {e}"),
            })?;
            Recovered::new(header)
        }
        other => {
            return Err(Damage {
                offset_bytes: other.map_or(super::entry::MAGIC.len() as u64, |e| e.offset_bytes),
                why: "the header is missing".into(),
            });
        }
    };
    loop {
        match entries.next_entry() {
            Ok(Some(entry)) => recovered.take(&entry),
            Ok(None) => break,
            Err(damage) => {
                recovered.damage = Some(damage);
                break;
            }
        }
    }
    Ok(recovered.into_record())
}

fn read_header(payload: &[u8]) -> serde_json::Result<Record> {
    #[derive(Deserialize)]
    struct Versioned {
        schema: String,
    }
    let versioned: Versioned = serde_json::from_slice(payload)?;
    match versioned.schema == record_1::SCHEMA {
        true => record_1::read(payload),
        false => Record::from_json(payload),
    }
}

struct Recovered {
    header: Record,
    steps: BTreeMap<u32, StepSoFar>,
    caveats: Vec<Caveat>,
    left_out: LeftOut,
    end: Option<Record>,
    damage: Option<Damage>,
    not_understood: Option<Damage>,
}

#[derive(Default)]
struct StepSoFar {
    begun: Option<Step>,
    ended: Option<Step>,
    intervals: Vec<Interval>,
    samples: Vec<Sample>,
    experiment: Option<Experiment>,
    windows: Vec<Window>,
}

impl Recovered {
    fn new(header: Record) -> Recovered {
        Recovered {
            header,
            steps: BTreeMap::new(),
            caveats: Vec::new(),
            left_out: LeftOut::default(),
            end: None,
            damage: None,
            not_understood: None,
        }
    }

    fn take(&mut self, entry: &Entry<'_>) {
        if let Err(why) = self.try_take(entry) {
            self.not_understood.get_or_insert(Damage {
                offset_bytes: entry.offset_bytes,
                why,
            });
        }
    }

    /// Reads what changed its shape since the first version.
    fn parse<T: Piece>(&self, entry: &Entry<'_>) -> Result<T, String> {
        match self.header.schema == record_1::SCHEMA {
            true => record_1::read(entry.payload).map_err(|e| e.to_string()),
            false => parse(entry),
        }
    }

    fn try_take(&mut self, entry: &Entry<'_>) -> Result<(), String> {
        match entry.kind {
            Kind::Header => return Err("a second header".into()),
            Kind::StepBegins => {
                let step: Step = self.parse(entry)?;
                let so_far = self.steps.entry(step.index).or_default();
                so_far.begun = Some(step);
            }
            Kind::Interval => {
                let StepInterval { step, interval } = parse(entry)?;
                self.steps.entry(step).or_default().intervals.push(interval);
            }
            Kind::Samples => {
                let rows: StepSamples = parse(entry)?;
                let so_far = &mut self.steps.entry(rows.step).or_default().samples;
                if rows.replace {
                    so_far.clear();
                }
                so_far.extend(rows.samples);
            }
            Kind::StepEnds => {
                let step: Step = self.parse(entry)?;
                let so_far = self.steps.entry(step.index).or_default();
                so_far.intervals = Vec::new();
                so_far.ended = Some(step);
            }
            Kind::Experiment => {
                let StepExperiment { step, experiment } = self.parse(entry)?;
                self.steps.entry(step).or_default().experiment = Some(experiment);
            }
            Kind::Window => {
                let StepWindow { step, window } = self.parse(entry)?;
                self.steps.entry(step).or_default().windows.push(window);
            }
            Kind::Caveat => {
                let caveat = self.parse(entry)?;
                self.caveats.push(caveat);
            }
            Kind::LeftOut => self.left_out = parse(entry)?,
            Kind::End => self.end = Some(self.parse(entry)?),
        }
        Ok(())
    }

    fn into_record(mut self) -> Record {
        let mut missing = Vec::new();
        let ended_well = self.end.is_some() && self.damage.is_none();
        let mut record = match self.end.take() {
            Some(end) => end,
            None => {
                self.header.caveats.append(&mut self.caveats);
                self.header
            }
        };
        let planned = record.plan.steps.len();
        for (index, so_far) in std::mem::take(&mut self.steps) {
            record
                .steps
                .extend(so_far.into_step(index, planned, &mut missing));
        }
        if !ended_well {
            missing.extend(not_run(&record));
        }
        missing.extend(self.damage.map(|damage| {
            format!(
                "the journal is damaged at byte {} ({}); what stands before it was recovered",
                damage.offset_bytes, damage.why
            )
        }));
        missing.extend(self.not_understood.map(|entry| {
            format!(
                "the journal's entry at byte {} was not understood ({}) and is left out",
                entry.offset_bytes, entry.why
            )
        }));
        if self.left_out != LeftOut::default() && !ended_well {
            missing.push(format!(
                "{} intervals and {} batches of telemetry were never written, because the disk \
                 did not keep up",
                self.left_out.intervals, self.left_out.samples
            ));
        }
        if ended_well && missing.is_empty() {
            record.caveats.push(Caveat::Note {
                text: "the record was not sealed; everything was recovered from its journal".into(),
            });
            return record;
        }
        record.complete = false;
        if record.interrupted.is_none() && !ended_well {
            record.interrupted = Some("cut off: killed, or still under way".into());
        }
        if missing.is_empty() {
            missing.push("the run was cut off after its last step".into());
        }
        record.caveats.push(Caveat::Incomplete {
            what: missing.join("; "),
        });
        record
    }
}

fn parse<T: Json>(entry: &Entry<'_>) -> Result<T, String> {
    T::from_json(entry.payload).map_err(|e| e.to_string())
}

/// Which planned steps have nothing to show.
fn not_run(record: &Record) -> Option<String> {
    let planned = record.plan.steps.len();
    let first = record
        .steps
        .last()
        .map_or(0, |step| step.index as usize + 1);
    match planned.saturating_sub(first) {
        0 => None,
        1 => Some(format!("step {planned} of {planned} was not measured")),
        _ => Some(format!(
            "steps {} to {planned} of {planned} were not measured",
            first + 1
        )),
    }
}

impl StepSoFar {
    fn into_step(self, index: u32, planned: usize, missing: &mut Vec<String>) -> Option<Step> {
        if let Some(mut step) = self.ended {
            step.series = self.samples;
            if step.experiment.is_none()
                && let Some(mut experiment) = self.experiment
            {
                missing.push(format!(
                    "the experiment of step {} was cut off after {} windows, whose processors \
                     were not summed up",
                    u64::from(index) + 1,
                    self.windows.len()
                ));
                experiment.windows = self.windows;
                experiment.cut_short = Some("killed, or still under way".into());
                step.experiment = Some(experiment);
            }
            return Some(step);
        }
        let number = u64::from(index) + 1;
        let Some(begun) = self.begun else {
            missing.push(format!("step {number} has no beginning and is left out"));
            return None;
        };
        let name = begun.name.clone();
        let rebuilt = rebuild(begun, self.intervals, self.samples);
        let Some(mut step) = rebuilt else {
            missing.push(format!(
                "step {number} of {planned} (`{name}`) was cut off before its window had an \
                 interval, and is left out"
            ));
            return None;
        };
        missing.push(format!(
            "step {number} of {planned} (`{name}`) was cut off after {:.1} s of its window",
            step.window_ns as f64 / 1e9
        ));
        step.caveats.push(Caveat::Incomplete {
            what: "rebuilt from its intervals: failures without classes, in flight as at their \
                   ends, no latency distribution, no bytes sent, telemetry not summed up"
                .into(),
        });
        Some(step)
    }
}

/// A step from its beginning and its intervals; none without an interval in the window.
fn rebuild(mut step: Step, intervals: Vec<Interval>, samples: Vec<Sample>) -> Option<Step> {
    let warmup_ns = step.load.warmup.0;
    // An interval that begins a little early, by the jitter of whoever cut it, still counts.
    let in_window = |interval: &&Interval| {
        let start_ns = interval.at_ns.saturating_sub(interval.span_ns);
        interval.span_ns > 0 && start_ns.saturating_add(interval.span_ns / 10) >= warmup_ns
    };
    let before = intervals.iter().take_while(|i| !in_window(i)).last();
    let in_flight_start = before.map_or(0, |interval| interval.in_flight);
    let window: Vec<&Interval> = intervals.iter().filter(in_window).collect();
    let last = window.last()?;
    let sum = |of: fn(&Interval) -> u64| {
        window
            .iter()
            .fold(0_u64, |sum, interval| sum.saturating_add(of(interval)))
    };
    let window_ns = sum(|i| i.span_ns);
    let (answered, failed, scheduled) =
        (sum(|i| i.answered), sum(|i| i.failed), sum(|i| i.scheduled));
    let counts = &mut step.counts;
    *counts = Default::default();
    counts.scheduled = scheduled;
    counts.answered = answered;
    if failed > 0 {
        counts.failed.insert("unclassified".into(), failed);
    }
    counts.in_flight_start = in_flight_start;
    counts.in_flight_end = last.in_flight;
    counts.bytes_in = sum(|i| i.bytes_in);
    // What is left over by the identity; in a closed loop, requests that fell between two slices.
    let not_sent = i128::from(in_flight_start) + i128::from(scheduled)
        - i128::from(answered)
        - i128::from(failed)
        - i128::from(last.in_flight);
    counts.not_sent = i64::try_from(not_sent).unwrap_or(0);
    step.throughput = answered as f64 / (window_ns as f64 / 1e9);
    step.in_flight_mean = window
        .iter()
        .map(|i| i.in_flight as f64 * i.span_ns as f64)
        .sum::<f64>()
        / window_ns as f64;
    step.window_ns = window_ns;
    step.intervals = intervals;
    step.series = samples;
    (step.latency, step.service, step.first_byte, step.lateness) = (None, None, None, None);
    Some(step)
}
