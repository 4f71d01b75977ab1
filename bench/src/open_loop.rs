//! How exact the engine is where it does not saturate: rate, punctuality, memory.
//!
//! What they are held to: the achieved rate within 0.5 % of the one asked for and 99.9 %
//! of the requests sent within 250 µs of their intended instant, at half of the rate that
//! a closed loop reaches on the same server; and 10,000 connections without a failure,
//! at no more than 8 KiB of resident memory for each (of the client's process; the
//! kernel's socket buffers are not its memory).

use std::process::Command;
use std::time::Duration;

use serde::Serialize;
use wallfinder_sys::limits;

use crate::child;
use crate::clock::Gaps;
use crate::contestants::Tools;
use crate::ours::{self, Done};
use crate::subject::Subject;

/// How much is run.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Seconds of the open loop.
    pub seconds: f64,
    /// How often a turn of the open loop is taken again where the processor is not quiet.
    pub patience: usize,
    /// Connections of the check of memory.
    pub connections: u32,
}

/// What came of a check.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What is held to what.
    pub what: String,
    /// What was measured.
    pub measured: f64,
    /// The bound.
    pub at_most: f64,
    /// Whether it held.
    pub holds: bool,
    /// What else there is to know.
    pub detail: String,
}

impl Check {
    fn new(what: &str, measured: f64, at_most: f64, detail: String) -> Check {
        Check {
            what: what.to_owned(),
            measured,
            at_most,
            holds: measured <= at_most,
            detail,
        }
    }
}

/// The processor is quiet enough to be punctual on: away for at most half of what a request
/// may be late, since what falls due in a gap is late together with as much again while the
/// worker catches up.
const QUIET_SHARE: f64 = 0.0005;

/// Rate and punctuality at half of the ceiling, on a machine as idle as it gets: a turn
/// is taken again while the processor itself was away too much before and after it, and the
/// quietest turn counts. Turns are chosen by the processor, never by what the engine did.
pub fn open_loop(tools: &Tools, subject: &Subject, size: Size) -> Result<Vec<Check>, String> {
    // Enough that a server that pauses for some milliseconds leaves some free.
    let flags = ["-c", "1000"];
    let closed = engine(tools, subject, &flags, 2.0)?;
    let ceiling = closed.answered as f64 / closed.seconds;
    let asked = (ceiling / 2.0).round();
    let rate = asked.to_string();
    let flags = [&flags[..], &["-R", &rate, "--warmup", "0.5"]].concat();
    let mut turns: Vec<Turn> = Vec::new();
    for _ in 0..=size.patience {
        let turn = Turn::take(tools, subject, &flags, size.seconds)?;
        turns.push(turn);
        if turns.last().is_some_and(|turn| turn.away() <= QUIET_SHARE) {
            break;
        }
    }
    let all: Vec<String> = turns.iter().map(Turn::shown).collect();
    let quietest = turns
        .iter()
        .min_by(|a, b| a.away().total_cmp(&b.away()))
        .ok_or("no turn was taken")?;
    let achieved = quietest.open.answered as f64 / quietest.open.seconds;
    let (_, sent) = quietest.open.on_time.unwrap_or((0, 0));
    Ok(vec![
        Check::new(
            "the processor itself: away for more than 250 µs, in %",
            quietest.away() * 100.0,
            QUIET_SHARE * 100.0,
            format!(
                "a loop that reads the clock misses so many instants, {:.4} % before and {:.4} % after; longest gap {:.0} µs; turns taken (away, late, in %): {}",
                quietest.before.late_share * 100.0,
                quietest.after.late_share * 100.0,
                quietest.before.longest_us.max(quietest.after.longest_us),
                all.join("; ")
            ),
        ),
        Check::new(
            "open loop: achieved rate off by, in %",
            (achieved / asked - 1.0).abs() * 100.0,
            0.5,
            format!(
                "asked {asked:.0}/s (half of {ceiling:.0}), achieved {achieved:.1}/s over {:.1} s, {} failed",
                quietest.open.seconds, quietest.open.failed
            ),
        ),
        Check::new(
            "open loop: sent later than 250 µs, in %",
            quietest.late() * 100.0,
            0.1,
            format!(
                "of {} scheduled; {sent} found a connection free; 99.9 % of those within {:.0} µs",
                quietest.open.scheduled,
                quietest.open.lateness_p999_us.unwrap_or(f64::NAN)
            ),
        ),
    ])
}

/// One load, between two readings of what its processor allows.
struct Turn {
    before: Gaps,
    open: Done,
    after: Gaps,
}

impl Turn {
    fn take(
        tools: &Tools,
        subject: &Subject,
        flags: &[&str],
        seconds: f64,
    ) -> Result<Turn, String> {
        Ok(Turn {
            before: clock(tools, subject, seconds / 3.0)?,
            open: engine(tools, subject, flags, seconds)?,
            after: clock(tools, subject, seconds / 3.0)?,
        })
    }

    /// Share of the time in which nobody could have been punctual.
    fn away(&self) -> f64 {
        (self.before.late_share + self.after.late_share) / 2.0
    }

    /// Share of the requests that were sent too late. Those that found no connection free
    /// were late as well, and are in `scheduled`.
    fn late(&self) -> f64 {
        let (on_time, _) = self.open.on_time.unwrap_or((0, 0));
        (1.0 - on_time as f64 / self.open.scheduled.max(1) as f64).max(0.0)
    }

    fn shown(&self) -> String {
        format!("{:.3}, {:.3}", self.away() * 100.0, self.late() * 100.0)
    }
}

/// Memory with many connections, against that with few.
pub fn memory(tools: &Tools, subject: &Subject, size: Size) -> Result<Vec<Check>, String> {
    const FEW: u32 = 10;
    let connections = size.connections;
    if limits::raise_descriptors(u64::from(connections) + 512) < u64::from(connections) + 512 {
        return Err(format!(
            "{connections} connections need more descriptors than are allowed"
        ));
    }
    let few = engine(tools, subject, &["-c", &FEW.to_string()], 1.0)?;
    let many = engine(tools, subject, &["-c", &connections.to_string()], 3.0)?;
    let grown = many.memory_bytes_max.saturating_sub(few.memory_bytes_max);
    Ok(vec![
        Check::new(
            "memory for each connection, in KiB",
            grown as f64 / f64::from(connections - FEW) / 1024.0,
            8.0,
            format!(
                "{:.1} MiB at {connections} connections, {:.1} MiB at {FEW}",
                many.memory_bytes_max as f64 / 1048576.0,
                few.memory_bytes_max as f64 / 1048576.0
            ),
        ),
        Check::new(
            "failures with many connections",
            many.failed as f64,
            0.0,
            format!(
                "{connections} connections, {:.0}/s",
                many.answered as f64 / many.seconds
            ),
        ),
    ])
}

fn clock(tools: &Tools, subject: &Subject, seconds: f64) -> Result<Gaps, String> {
    let mut command = Command::new(&tools.this);
    command.args(["clock", "-d", &seconds.to_string()]);
    command.args(["--beside", &subject.cpu.to_string()]);
    let at_most = Duration::from_secs_f64(seconds + 60.0);
    let ended = child::run_pinned(&mut command, tools.client_cpu, at_most)
        .map_err(|error| error.to_string())?;
    serde_json::from_str(&ended.stdout).map_err(|error| format!("the clock's loop: {error}"))
}

fn engine(tools: &Tools, subject: &Subject, flags: &[&str], seconds: f64) -> Result<Done, String> {
    let mut command = Command::new(&tools.this);
    command
        .args(["engine", &subject.address.to_string(), "/simple"])
        .args(flags)
        .args(["-d", &seconds.to_string()]);
    let at_most = Duration::from_secs_f64(seconds + 60.0);
    let ended = child::run_pinned(&mut command, tools.client_cpu, at_most)
        .map_err(|error| error.to_string())?;
    if !ended.is_success() {
        return Err(format!("the engine: {}", ended.last_words()));
    }
    serde_json::from_str::<ours::Done>(&ended.stdout).map_err(|error| error.to_string())
}
