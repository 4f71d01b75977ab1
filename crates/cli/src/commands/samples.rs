//! `samples`: quantiles of requests that were kept one by one.

use std::fmt::Write as _;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use serde_json::json;
use wallfinder_judge::samples::quantiles;
use wallfinder_model::record::QuantileInterval;
use wallfinder_report::number;
use wallfinder_store::{Clock, SampleFile, StoreError, Times};

use crate::exit::Failed;
use crate::flags::{PlainFormat, SamplesFlags};
use crate::output;

/// `wallfinder samples PATH...`.
pub(crate) fn samples(flags: &SamplesFlags) -> Result<(), Failed> {
    let mut text = String::new();
    let mut documents = Vec::new();
    let mut files = Vec::new();
    for path in &flags.paths {
        files.extend(found(path)?);
    }
    for file in &files {
        let read = Read::of(file)?;
        match flags.format {
            PlainFormat::Text => text.push_str(&table(file, &read)),
            PlainFormat::Json => documents.push(json!({
                "file": file.path(),
                "answered": read.answered,
                "failed": read.failed,
                "latency": read.latency,
                "service": read.service,
            })),
        }
    }
    if flags.format == PlainFormat::Json {
        text = serde_json::to_string_pretty(&documents).map_err(Failed::run)?;
        text.push('\n');
    }
    output::put(&text, None)
}

/// A file, or those of a run.
fn found(path: &Path) -> Result<Vec<SampleFile>, Failed> {
    SampleFile::all(path).map_err(|error| match error {
        StoreError::NotARun { .. } => Failed::usage(error),
        error => Failed::run(error),
    })
}

/// What a file says.
struct Read {
    answered: u64,
    failed: u64,
    latency: Vec<QuantileInterval>,
    service: Vec<QuantileInterval>,
}

impl Read {
    /// Both clocks at once, a thread each.
    fn of(file: &SampleFile) -> Result<Read, Failed> {
        let by = |clock: Clock| {
            let Times { good_ns, failed } = file.times(clock)?;
            let answered = good_ns.len() as u64;
            Ok((answered, failed, quantiles(&good_ns)))
        };
        let (intended, sent): (Result<_, StoreError>, Result<_, StoreError>) =
            thread::scope(|scope| {
                let sent = scope.spawn(|| by(Clock::Sent));
                let intended = by(Clock::Intended);
                let sent = sent.join().unwrap_or_else(|panic| resume_unwind(panic));
                (intended, sent)
            });
        let (answered, failed, latency) = intended.map_err(Failed::run)?;
        let (_, _, service) = sent.map_err(Failed::run)?;
        Ok(Read {
            answered,
            failed,
            latency,
            service,
        })
    }
}

fn table(file: &SampleFile, read: &Read) -> String {
    let mut text = format!(
        " {}: {} answered, {} failed\n\n",
        file.path().display(),
        number::whole(read.answered),
        number::whole(read.failed),
    );
    let _ = writeln!(
        text,
        "   {:8} {:>10}  {:24} {:>10}  95 % interval",
        "", "from start", "95 % interval", "from sent"
    );
    for (latency, service) in read.latency.iter().zip(&read.service) {
        let span = |ns: u64| number::span(ns as f64);
        let _ = writeln!(
            text,
            "   {:8} {:>10}  {:24} {:>10}  {}",
            latency.name,
            span(latency.value_ns),
            interval(latency),
            span(service.value_ns),
            interval(service),
        );
    }
    text.push('\n');
    text
}

/// `[1.02 ms, 1.05 ms]`; a dash where there are too few samples beyond the quantile.
fn interval(of: &QuantileInterval) -> String {
    match (of.low_ns, of.high_ns) {
        (Some(low), Some(high)) => format!(
            "[{}, {}]",
            number::span(low as f64),
            number::span(high as f64)
        ),
        _ => "-".to_owned(),
    }
}
