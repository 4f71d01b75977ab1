//! Alone in its process: threads that come and go must not hide what they used.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use wallfinder_probe::{Sampler, Setup, family_of_self};
use wallfinder_sys::clock::{monotonic_ns, thread_cpu_ns};

#[test]
fn threads_that_end_between_ticks_are_counted() {
    static USED_NS: AtomicU64 = AtomicU64::new(0);
    let sampler = Sampler::start(Setup {
        zero_ns: monotonic_ns(),
        tick: Duration::from_millis(50),
        client: Some(family_of_self()),
        ..Setup::default()
    });
    let sampler = sampler.unwrap();
    let from = sampler.mark("open");
    let started = monotonic_ns();
    while monotonic_ns() - started < 1_000_000_000 {
        let thread = std::thread::spawn(|| {
            while thread_cpu_ns() < 7_000_000 {
                std::hint::spin_loop();
            }
            USED_NS.fetch_add(thread_cpu_ns(), Ordering::Relaxed);
        });
        thread.join().unwrap();
    }
    let to = sampler.mark("close");
    let telemetry = sampler.stop().summarise(from, to);
    let client = telemetry.client.unwrap();
    let used_ns = USED_NS.load(Ordering::Relaxed) as f64 + telemetry.observer_cpu_ns as f64;
    let seen_ns = client.cpu_ns as f64;
    assert!(used_ns > 1e8, "{used_ns}");
    assert!(
        (seen_ns - used_ns).abs() < 0.03 * used_ns + 4.5e7,
        "seen {seen_ns}, used {used_ns}"
    );
    // The last one may be on its way out still.
    assert!(client.threads <= 4, "{client:#?}");
}
