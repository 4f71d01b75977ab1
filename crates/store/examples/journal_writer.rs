//! A run to be killed, or to fill a disk, in tests.
//!
//! ```text
//!  journal_writer intervals RUNS   an interval every 200 ms, its number printed when noted
//!  journal_writer fill RUNS        intervals until the journal fails; what can be read then
//! ```

#![forbid(unsafe_code)]

#[path = "../tests/records/mod.rs"]
mod records;

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use records::{interval, record, step_begun};
use wallfinder_store::{Journal, RunFolder, StoreError, open};

/// Long enough that the thread which writes had its turn, on a machine that others fill.
const INTERVAL: Duration = Duration::from_millis(200);

fn main() {
    let mut args = std::env::args_os().skip(1);
    let what = args.next().and_then(|what| what.into_string().ok());
    let runs = PathBuf::from(args.next().unwrap_or_default());
    let result = match what.as_deref() {
        Some("intervals") => intervals(&runs),
        Some("fill") => fill(&runs),
        _ => std::process::exit(2),
    };
    if let Err(error) = result {
        println!("{error}");
        std::process::exit(1);
    }
}

fn begin(runs: &std::path::Path) -> Result<(RunFolder, Journal), StoreError> {
    let folder = RunFolder::create(runs, "killed", SystemTime::now())?;
    let journal = folder.begin(&record(folder.id(), 3))?;
    let mut step = step_begun(0);
    step.load.warmup = wallfinder_model::Nanos(0);
    journal.step_begins(&step)?;
    Ok((folder, journal))
}

fn intervals(runs: &std::path::Path) -> Result<(), StoreError> {
    let (folder, journal) = begin(runs)?;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{}", folder.path().display());
    for nth in 0.. {
        journal.interval(0, &interval(nth))?;
        let _ = writeln!(out, "{}", nth + 1).and_then(|()| out.flush());
        std::thread::sleep(INTERVAL);
    }
    Ok(())
}

fn fill(runs: &std::path::Path) -> Result<(), StoreError> {
    let (folder, journal) = begin(runs)?;
    let mut nth = 0;
    let failure = loop {
        if let Err(failure) = journal.interval(0, &interval(nth)) {
            break failure;
        }
        nth += 1;
        std::thread::sleep(Duration::from_micros(100));
    };
    let read = open(folder.path())?;
    println!(
        "{} of {nth} intervals are readable",
        read.steps[0].intervals.len()
    );
    match folder.seal(&journal, &read) {
        Ok(_) => println!("sealed as if nothing had been"),
        Err(error) => println!("not sealed: {error}"),
    }
    println!(
        "still {} readable",
        open(folder.path())?.steps[0].intervals.len()
    );
    Err(failure)
}
