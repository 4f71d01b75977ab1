//! What a record says, as plain JSON.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::json_at;

/// The step in which resources were squeezed.
#[track_caller]
pub fn squeezed(record: &Value) -> &Value {
    let steps = json_at(record, "/steps").as_array().expect("steps");
    let found = steps.iter().find(|step| step["experiment"].is_object());
    found.unwrap_or_else(|| panic!("no step was squeezed: {record:#}"))
}

/// What two settings differ by in a measure.
#[track_caller]
pub fn ratio_of<'r>(record: &'r Value, measure: &str) -> &'r Value {
    let ratios = json_at(record, "/ab/ratios").as_array().expect("ratios");
    let found = ratios.iter().find(|ratio| ratio["measure"] == measure);
    found.unwrap_or_else(|| panic!("{measure}: {ratios:#?}"))
}

/// The identity of the counts: nothing is lost, nothing is counted twice.
#[track_caller]
pub fn assert_balanced(step: &Value) {
    let counts = &step["counts"];
    let of = |name: &str| counts[name].as_i64().unwrap();
    let failures: i64 = counts["failed"]
        .as_object()
        .unwrap()
        .values()
        .map(|count| count.as_i64().unwrap())
        .sum();
    assert_eq!(
        of("in_flight_start") + of("scheduled"),
        of("answered")
            + failures
            + of("not_sent")
            + of("in_flight_end")
            + counts["unknown"].as_i64().unwrap_or(0),
        "{counts:#}"
    );
}

/// Tries a load up to five times until 99 of 100 of its requests were sent within a millisecond of their intended start,
/// nearly all with a connection free. Where a thread that only sleeps is woken later than half of that, within twice its own.
#[track_caller]
pub fn until_prompt(mut load: impl FnMut() -> Value) {
    let mut seen = Vec::new();
    let is_prompt = (0..5).any(|_| {
        let (step, woken_late_ns) = beside_a_sleeper(&mut load);
        let number = |pointer: &str| step.pointer(pointer).and_then(Value::as_f64);
        let late_ns = number("/lateness/quantiles_ns/p99").unwrap_or(f64::INFINITY);
        let free = number("/lateness/count").unwrap_or(0.0);
        let share = free / number("/counts/answered").unwrap_or(f64::INFINITY);
        seen.push((late_ns, woken_late_ns, share));
        late_ns < f64::max(1e6, 2.0 * woken_late_ns) && share > 0.9
    });
    assert!(
        is_prompt,
        "99 of 100 were late by so many ns, a sleeper was, and so many had a connection free: {seen:?}"
    );
}

/// What a load comes to, and by how many nanoseconds a thread is woken late beside it, at the 99th percentile.
fn beside_a_sleeper(load: impl FnOnce() -> Value) -> (Value, f64) {
    const SLEEPS: Duration = Duration::from_millis(2);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut late_ns = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let since = Instant::now();
                thread::sleep(SLEEPS);
                late_ns.push((since.elapsed() - SLEEPS).as_nanos() as f64);
            }
            late_ns.sort_unstable_by(f64::total_cmp);
            late_ns[late_ns.len() * 99 / 100]
        });
        let step = {
            let _over = Over(&is_over);
            load()
        };
        (step, sleeper.join().expect("it only sleeps"))
    })
}

/// Says so however its load ends: a scope waits for its threads.
struct Over<'o>(&'o AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether a verdict says that the hypervisor took so much time that nothing is decided over it: this
/// machine's fault, and no test's.
pub fn stolen(verdict: &Value) -> bool {
    let caveats = json_at(verdict, "/caveats").as_array();
    let is_stolen = |caveat: &Value| caveat["kind"] == "steal-above";
    verdict["wall"] == "inconclusive" && caveats.is_some_and(|all| all.iter().any(is_stolen))
}
