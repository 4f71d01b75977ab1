//! `samples`: quantiles of requests that were kept one by one.

use std::fmt::Write as _;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use serde_json::{Value, json};
use wallfinder_judge::samples::quantiles;
use wallfinder_model::Step;
use wallfinder_model::record::QuantileInterval;
use wallfinder_report::number;
use wallfinder_report::safe::clean;
use wallfinder_store::{Clock, Places, SampleFile, StoreError};

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
    for (file, names) in &files {
        let read = Read::of(file, names)?;
        match flags.format {
            PlainFormat::Text => text.push_str(&table(file, &read)),
            PlainFormat::Json => documents.push(document(file, &read)),
        }
    }
    if flags.format == PlainFormat::Json {
        text = serde_json::to_string_pretty(&documents).map_err(Failed::run)?;
        text.push('\n');
    }
    output::put(&text, None)
}

/// A file, or those of a run, each with what the requests of its step are called: nothing where no record lies beside it.
fn found(path: &Path) -> Result<Vec<(SampleFile, Vec<String>)>, Failed> {
    let files = SampleFile::all(path).map_err(|error| match error {
        StoreError::NotARun { .. } => Failed::usage(error),
        error => Failed::run(error),
    })?;
    let folder = files.first().and_then(|file| file.path().parent());
    let folder = folder.filter(|folder| *folder != Path::new(""));
    let record = wallfinder_store::open(folder.unwrap_or(Path::new("."))).ok();
    let steps = record.as_ref().map_or(&[][..], |record| &record.steps);
    let named = |file: SampleFile| {
        let names = names(steps, file.path());
        (file, names)
    };
    Ok(files.into_iter().map(named).collect())
}

fn names(steps: &[Step], path: &Path) -> Vec<String> {
    let name = path.file_name().map(|name| name.to_string_lossy());
    let is_of = |step: &&Step| {
        let file = step.samples.as_ref().map(|samples| samples.file.as_str());
        file.is_some() && file == name.as_deref()
    };
    let step = steps.iter().find(is_of);
    let requests = step.map_or(&[][..], |step| &step.requests);
    requests.iter().map(|kind| kind.name.clone()).collect()
}

/// What a file says.
struct Read {
    all: Requests,
    /// Those of a mix, by name and in its order; empty where all are of one kind.
    by_name: Vec<(String, Requests)>,
}

/// Some requests.
struct Requests {
    answered: u64,
    failed: u64,
    latency: Vec<QuantileInterval>,
    service: Vec<QuantileInterval>,
}

impl Read {
    /// Both clocks at once, a thread each.
    fn of(file: &SampleFile, names: &[String]) -> Result<Read, Failed> {
        let places = (names.len() > 1).then(|| file.places()).transpose();
        let places = places.map_err(Failed::run)?;
        let kinds = places.as_ref().map(|places| (places, names.len()));
        let (intended, sent) = thread::scope(|scope| {
            let sent = scope.spawn(|| by_clock(file, Clock::Sent, kinds));
            let intended = by_clock(file, Clock::Intended, kinds);
            let sent = sent.join().unwrap_or_else(|panic| resume_unwind(panic));
            (intended, sent)
        });
        let each = intended?.into_iter().zip(sent?);
        let mut each = each.map(|(latency, service)| Requests {
            answered: latency.answered,
            failed: latency.failed,
            latency: latency.quantiles,
            service: service.quantiles,
        });
        let all = each.next().expect("all requests come first");
        Ok(Read {
            all,
            by_name: names.iter().cloned().zip(each).collect(),
        })
    }
}

/// Some requests by one clock.
struct ByClock {
    answered: u64,
    failed: u64,
    quantiles: Vec<QuantileInterval>,
}

/// All requests of a file, and then those of each of so many kinds.
fn by_clock(
    file: &SampleFile,
    clock: Clock,
    kinds: Option<(&Places, usize)>,
) -> Result<Vec<ByClock>, Failed> {
    let of = |good_ns: &[i64], failed| ByClock {
        answered: good_ns.len() as u64,
        failed,
        quantiles: quantiles(good_ns),
    };
    let times = file.times(clock).map_err(Failed::run)?;
    let mut found = vec![of(&times.good_ns, times.failed)];
    let Some((places, kinds)) = kinds else {
        return Ok(found);
    };
    let mut by_kind = vec![Vec::new(); kinds];
    for (ns, place) in times.good_ns.iter().zip(&places.good) {
        let kind = by_kind.get_mut(usize::from(*place)).ok_or_else(|| {
            Failed::run(format!(
                "{}: an answer of request {place}, where the record has {kinds}",
                file.path().display()
            ))
        })?;
        kind.push(*ns);
    }
    let failed = places.failed.iter().copied().chain(std::iter::repeat(0));
    found.extend(
        by_kind
            .iter()
            .zip(failed)
            .map(|(good_ns, failed)| of(good_ns, failed)),
    );
    Ok(found)
}

fn document(file: &SampleFile, read: &Read) -> Value {
    let mut document = told(&read.all);
    document["file"] = json!(file.path());
    let by_name = read.by_name.iter();
    let by_name: Vec<Value> = by_name
        .map(|(name, requests)| {
            let mut of = told(requests);
            of["name"] = json!(name);
            of
        })
        .collect();
    if !by_name.is_empty() {
        document["requests"] = Value::Array(by_name);
    }
    document
}

fn told(requests: &Requests) -> Value {
    json!({
        "answered": requests.answered,
        "failed": requests.failed,
        "latency": requests.latency,
        "service": requests.service,
    })
}

fn table(file: &SampleFile, read: &Read) -> String {
    let mut text = format!(" {}: {}", file.path().display(), both_clocks(&read.all));
    for (name, requests) in &read.by_name {
        let _ = write!(text, " {}: {}", clean(name), both_clocks(requests));
    }
    text
}

fn both_clocks(of: &Requests) -> String {
    let mut text = format!(
        "{} answered, {} failed\n\n",
        number::whole(of.answered),
        number::whole(of.failed),
    );
    if of.answered == 0 {
        return text;
    }
    let _ = writeln!(
        text,
        "   {:8} {:>10}  {:24} {:>10}  95 % interval",
        "", "from start", "95 % interval", "from sent"
    );
    for (latency, service) in of.latency.iter().zip(&of.service) {
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
