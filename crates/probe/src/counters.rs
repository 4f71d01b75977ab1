//! What the processor and the kernel count of a family's threads: cycles, instructions, looks into
//! caches and branches where the machine counts them, and migrations.

use std::fs;
use std::io;

use rustix::io::Errno;
use wallfinder_model::counters::EventCount;
use wallfinder_sys::perf::{Count, Counted, Counter};

/// What is counted, and its name in the record.
const EVENTS: [(Counted, &str); 6] = [
    (Counted::Cycles, "cycles"),
    (Counted::Instructions, "instructions"),
    (Counted::CacheReferences, "cache-references"),
    (Counted::CacheMisses, "cache-misses"),
    (Counted::BranchMisses, "branch-misses"),
    (Counted::Migrations, "migrations"),
];

/// Counters of a family.
#[derive(Debug)]
pub struct Counters(Vec<Event>);

/// One event, of every thread.
#[derive(Debug)]
struct Event {
    name: &'static str,
    /// Or why it cannot be counted.
    threads: Result<Vec<Running>, io::Error>,
    /// What it came to, once it has ended.
    ended: Option<EventCount>,
}

#[derive(Debug)]
struct Running {
    counter: Counter,
    began: Count,
}

impl Counters {
    /// Begins to count.
    pub fn start(pids: &[u32]) -> Counters {
        let tids: Vec<u32> = pids.iter().flat_map(|pid| threads_of(*pid)).collect();
        let event = |(what, name)| Event {
            name,
            threads: open(what, &tids),
            ended: None,
        };
        Counters(EVENTS.map(event).into())
    }

    /// The window has closed.
    pub fn end(&mut self) {
        for event in &mut self.0 {
            if event.ended.is_none() {
                event.ended = Some(event.count());
            }
        }
    }

    /// What was counted.
    pub fn stop(mut self) -> Vec<EventCount> {
        self.end();
        let counts = self.0.into_iter().filter_map(|event| event.ended);
        counts.collect()
    }
}

impl Event {
    fn count(&self) -> EventCount {
        let unavailable = |why: String| EventCount {
            name: self.name.to_owned(),
            value: None,
            unavailable: Some(why),
        };
        let threads = match &self.threads {
            Ok(threads) => threads,
            Err(error) => return unavailable(reason(error)),
        };
        // A thread that has ended can still be read.
        let counted = threads.iter().filter_map(|running| {
            let now = running.counter.read().ok()?;
            whole(running.began, now)
        });
        let counted: Vec<f64> = counted.collect();
        if counted.len() < threads.len() {
            return unavailable("it shared its counter with others and never had it".to_owned());
        }
        EventCount {
            name: self.name.to_owned(),
            value: Some(counted.iter().sum::<f64>() as u64),
            unavailable: None,
        }
    }
}

/// What was counted between two looks, for the whole of the time that it was wanted; `None` where it
/// was wanted and never counted.
fn whole(began: Count, now: Count) -> Option<f64> {
    let value = now.value.saturating_sub(began.value) as f64;
    let wanted = now.wanted_ns.saturating_sub(began.wanted_ns);
    let counted = now.counted_ns.saturating_sub(began.counted_ns);
    match (wanted, counted) {
        (0, _) => Some(value),
        (_, 0) => None,
        _ => Some(value * wanted as f64 / counted as f64),
    }
}

/// A counter of each thread; those that are gone are left out.
fn open(what: Counted, tids: &[u32]) -> Result<Vec<Running>, io::Error> {
    let mut running = Vec::with_capacity(tids.len());
    for tid in tids {
        let opened = Counter::open(what, *tid);
        match opened.and_then(|counter| Ok((counter.read()?, counter))) {
            Ok((began, counter)) => running.push(Running { counter, began }),
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(running)
}

fn reason(error: &io::Error) -> String {
    let known = error.raw_os_error().map(Errno::from_raw_os_error);
    match known {
        Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV) => {
            "this machine has no such counter, as most virtual machines".to_owned()
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            "it takes root, or kernel.perf_event_paranoid at 1 (sysctl)".to_owned()
        }
        _ => error.to_string(),
    }
}

fn threads_of(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shared_its_counter_is_scaled_to_the_whole_time() {
        let count = |value, wanted_ns, counted_ns| Count {
            value,
            wanted_ns,
            counted_ns,
        };
        let began = count(100, 1_000, 500);
        assert_eq!(whole(began, count(300, 5_000, 2_500)), Some(400.0));
        assert_eq!(whole(began, count(100, 5_000, 500)), None);
        assert_eq!(whole(began, began), Some(0.0));
    }

    #[test]
    fn each_event_has_a_count_or_a_reason() {
        let mut counters = Counters::start(&[std::process::id()]);
        counters.end();
        let counts = counters.stop();
        assert_eq!(counts.len(), EVENTS.len());
        for count in counts {
            assert!(
                count.value.is_some() != count.unavailable.is_some(),
                "{count:?}"
            );
        }
    }
}
