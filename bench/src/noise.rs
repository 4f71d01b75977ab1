//! How much of the two processors others took during a turn.
//!
//! Others at work make a client cheaper (answers gather while it waits for its processor) or
//! dearer (its caches are cold); either way the turn says little. What others took is
//! what `/proc/stat` counts as busy, less what client and server used themselves. It
//! counts by ticks of 10 ms, so a turn of some seconds is known to a per cent or two.

use std::time::{Duration, Instant};

/// A turn with a larger share of foreign work counts as disturbed.
pub const DISTURBED_SHARE: f64 = 0.04;

/// How long the processors are looked at before a turn.
const GLANCE: Duration = Duration::from_millis(300);

/// Ticks in a second, as `/proc` counts them on every platform of Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Busy time of some processors, in seconds, stolen time included.
pub fn busy_seconds(cpus: &[u32]) -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    cpus.iter()
        .filter_map(|cpu| busy_ticks(&stat, *cpu))
        .sum::<u64>() as f64
        / TICKS_PER_SECOND
}

/// Waits until the processors are idle but for [`DISTURBED_SHARE`], at most so long. Takes
/// at least a glance, in which nothing of ours may run.
pub fn wait_for_lull(cpus: &[u32], at_most: Duration) {
    let end = Instant::now() + at_most;
    loop {
        let (began, before) = (Instant::now(), busy_seconds(cpus));
        std::thread::sleep(GLANCE);
        let offered = began.elapsed().as_secs_f64() * cpus.len() as f64;
        let is_lull = busy_seconds(cpus) - before <= DISTURBED_SHARE * offered;
        if is_lull || Instant::now() >= end {
            return;
        }
    }
}

/// user + nice + system + irq + softirq + steal of one processor.
fn busy_ticks(stat: &str, cpu: u32) -> Option<u64> {
    let name = format!("cpu{cpu}");
    let mut fields = stat
        .lines()
        .map(str::split_whitespace)
        .find_map(|mut fields| (fields.next() == Some(&name)).then_some(fields))?
        .map(|field| field.parse::<u64>().unwrap_or(0));
    let mut next = || fields.next().unwrap_or(0);
    let (user, nice, system) = (next(), next(), next());
    let (_idle, _iowait) = (next(), next());
    let (irq, softirq, steal) = (next(), next(), next());
    Some(user + nice + system + irq + softirq + steal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  3 0 3 9 0 0 0 0 0 0\n\
                        cpu1 1 0 1 5 0 0 0 0 0 0\n\
                        cpu10 100 20 30 4000 500 6 7 8 9 10\nintr 5\n";

    #[test]
    fn busy_is_all_but_idle_and_waiting() {
        assert_eq!(busy_ticks(STAT, 1), Some(2));
        assert_eq!(busy_ticks(STAT, 10), Some(100 + 20 + 30 + 6 + 7 + 8));
        assert_eq!(busy_ticks(STAT, 2), None);
        assert_eq!(busy_ticks("", 0), None);
    }
}
