//! `samples`: quantiles of requests that were kept one by one.

use std::fmt::Write as _;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::json;
use wallfinder_judge::samples::quantiles;
use wallfinder_model::record::QuantileInterval;
use wallfinder_report::number;
use wallfinder_store::{Clock, StoreError, Times, read_times};

use crate::exit::Failed;
use crate::flags::{PlainFormat, SamplesFlags};
use crate::output;

/// `wallfinder samples PATH...`.
pub(crate) fn samples(flags: &SamplesFlags) -> Result<(), Failed> {
    let mut text = String::new();
    let mut documents = Vec::new();
    for path in files(&flags.paths)? {
        let read = Read::of(&path)?;
        match flags.format {
            PlainFormat::Text => text.push_str(&table(&path, &read)),
            PlainFormat::Json => documents.push(json!({
                "file": path,
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

/// What a file says.
struct Read {
    answered: u64,
    failed: u64,
    latency: Vec<QuantileInterval>,
    service: Vec<QuantileInterval>,
}

impl Read {
    /// Both clocks at once, a thread each.
    fn of(path: &Path) -> Result<Read, Failed> {
        let by = |clock: Clock| {
            let Times { good_ns, failed } = read_times(path, clock)?;
            let answered = good_ns.len() as u64;
            Ok((answered, failed, quantiles(&good_ns)))
        };
        let (due, sent): (Result<_, StoreError>, Result<_, StoreError>) = thread::scope(|scope| {
            let sent = scope.spawn(|| by(Clock::Sent));
            let due = by(Clock::Due);
            let sent = sent.join().unwrap_or_else(|panic| resume_unwind(panic));
            (due, sent)
        });
        let (answered, failed, latency) = due.map_err(Failed::run)?;
        let (_, _, service) = sent.map_err(Failed::run)?;
        Ok(Read {
            answered,
            failed,
            latency,
            service,
        })
    }
}

/// Files as they are, and those of folders in their order.
fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failed> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let bad = |error: std::io::Error| Failed::usage(format!("{}: {error}", path.display()));
        let mut found: Vec<PathBuf> = std::fs::read_dir(path)
            .map_err(bad)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|file| is_of_samples(file))
            .collect();
        if found.is_empty() {
            return Err(Failed::usage(format!(
                "{} holds no samples: `run --samples` keeps them",
                path.display()
            )));
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

fn is_of_samples(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("samples-") && name.ends_with(".parquet")
}

fn table(path: &Path, read: &Read) -> String {
    let mut text = format!(
        " {}: {} answered, {} failed\n\n",
        path.display(),
        number::whole(read.answered),
        number::whole(read.failed),
    );
    let _ = writeln!(
        text,
        "   {:8} {:>10}  {:24} {:>10}  95 % interval",
        "", "from due", "95 % interval", "from sent"
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
