//! What the processor itself allows: a loop that does nothing but read the clock, and the
//! gaps in which it could not.
//!
//! A request that falls due in a gap is sent when the gap is over at the earliest, whoever
//! sends it. So the share of time that lies more than the bound before a gap's end is the
//! least share of late requests that any load generator can have here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use wallfinder_sys::clock::monotonic_ns;
use wallfinder_sys::process;

use crate::ours::LATE_NS;

/// How long the clock is read.
#[derive(Debug, Clone, Args)]
pub struct Spec {
    /// Seconds.
    #[arg(short = 'd', long, default_value_t = 10.0)]
    seconds: f64,
    /// Keep this processor busy for half of the time, as a server would: the kernel's own
    /// threads go where there is room, and beside an idle processor they trouble nobody.
    #[arg(long)]
    beside: Option<u32>,
}

/// What the loop missed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gaps {
    /// Share of instants whose next reading came later than [`LATE_NS`] after them.
    pub late_share: f64,
    /// The longest gap, in microseconds.
    pub longest_us: f64,
}

/// Reads the clock.
pub fn run(spec: &Spec) -> Result<Gaps, String> {
    let for_ns = Duration::from_secs_f64(spec.seconds).as_nanos() as u64;
    let over = Arc::new(AtomicBool::new(false));
    let beside = spec.beside.map(|cpu| keep_half_busy(cpu, &over));
    let began = monotonic_ns();
    let mut last = began;
    let (mut late, mut longest) = (0, 0);
    while last - began < for_ns {
        let now = monotonic_ns();
        let gap = now - last;
        late += gap.saturating_sub(LATE_NS);
        longest = longest.max(gap);
        last = now;
    }
    over.store(true, Ordering::Relaxed);
    if let Some(beside) = beside {
        beside
            .join()
            .map_err(|_| "the thread beside it panicked")??;
    }
    Ok(Gaps {
        late_share: late as f64 / (last - began) as f64,
        longest_us: longest as f64 / 1e3,
    })
}

/// A millisecond of work, a millisecond of none.
fn keep_half_busy(cpu: u32, over: &Arc<AtomicBool>) -> JoinHandle<Result<(), String>> {
    const TURN: Duration = Duration::from_millis(1);
    let over = Arc::clone(over);
    thread::spawn(move || {
        process::pin_to(&[cpu]).map_err(|error| format!("processor {cpu}: {error}"))?;
        while !over.load(Ordering::Relaxed) {
            let until = monotonic_ns() + TURN.as_nanos() as u64;
            while monotonic_ns() < until {
                std::hint::spin_loop();
            }
            thread::sleep(TURN);
        }
        Ok(())
    })
}
