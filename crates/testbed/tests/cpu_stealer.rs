//! What a CPU stealer takes, measured on a victim that spins.

mod helper;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use helper::{one_of_three, shim, wait_until};
use wallfinder_sys::process::{allowed_cpus, pin_to};
use wallfinder_testbed::cpu_stealer::CpuStealer;

/// Loops that a victim on the processor does in one window after the other, each begun by
/// `begin` with its number.
fn victim(cpu: u32, windows: usize, mut begin: impl FnMut(usize)) -> Vec<f64> {
    let (count, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_to(&[cpu]).expect("a processor");
            // Before whatever else this machine does.
            let _ = rustix::process::setpriority_process(None, -20);
            while !ends.load(Ordering::Relaxed) {
                for _ in 0..100 {
                    std::hint::spin_loop();
                }
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let speeds = (0..windows).map(|nth| {
            begin(nth);
            std::thread::sleep(Duration::from_millis(20));
            let (from, before) = (Instant::now(), count.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(200));
            let loops = count.load(Ordering::Relaxed) - before;
            loops as f64 / from.elapsed().as_secs_f64()
        });
        let speeds = speeds.collect();
        ends.store(true, Ordering::Relaxed);
        speeds
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn a_dose_takes_its_share_of_a_victims_speed() {
    let _turn = turn();
    let cpu = *allowed_cpus().last().expect("a processor");
    let mut stealer = match CpuStealer::start(&[cpu], 7, &shim()) {
        Ok(stealer) => stealer,
        Err(why) if why.why.contains("SCHED_FIFO") => return wallfinder_skip::skip(why),
        Err(why) => panic!("{why}"),
    };
    one_of_three(|| {
        let [sham, fifth, half] = taken(&mut stealer, cpu, [0.0, 0.2, 0.5]);
        // Windows of one and the same dose differ by two per cent where others are at work; what it tells is of
        // windows that are a little longer than those of the victim, and begin before the dose.
        let is_right = |dose: f64, (lost, told): (f64, f64)| {
            println!("dose {dose}: the victim lost {lost:.4}, the CPU stealer told of {told:.4}");
            (lost - dose).abs() < 0.04 + 0.05 * dose && (told - dose).abs() < 0.005 + 0.01 * dose
        };
        is_right(0.0, sham) & is_right(0.2, fifth) & is_right(0.5, half)
    });
}

/// Of each dose: the share of its speed that a victim lost, and what the CPU stealer tells of; medians of five
/// windows, each between two of the sham.
fn taken<const N: usize>(stealer: &mut CpuStealer, cpu: u32, doses: [f64; N]) -> [(f64, f64); N] {
    const ROUNDS: usize = 5;
    let mut stolen = Vec::new();
    let mut last = None;
    let speeds = victim(cpu, 2 * N * ROUNDS + 1, |nth| {
        let now = stealer.stolen().expect("an answer");
        if let Some(before) = last.replace(now.clone()) {
            stolen.push(now.shares_since(&before)[0]);
        }
        let dose = if nth % 2 == 1 {
            doses[nth / 2 % N]
        } else {
            0.0
        };
        stealer.set_dose(dose).expect("it obeys");
    });
    std::array::from_fn(|at| {
        let windows = (0..ROUNDS).map(|round| 2 * (round * N + at) + 1);
        let lost = windows.clone().map(|nth| lost(&speeds, nth));
        let told = windows.map(|nth| stolen[nth]);
        (median(lost.collect()), median(told.collect()))
    })
}

/// What a window lost of the speed of its neighbours.
fn lost(speeds: &[f64], nth: usize) -> f64 {
    1.0 - 2.0 * speeds[nth] / (speeds[nth - 1] + speeds[nth + 1])
}

#[test]
fn the_sham_takes_next_to_nothing_beside_no_cpu_stealer_at_all() {
    let _turn = turn();
    let cpu = *allowed_cpus().last().expect("a processor");
    let mut stealer = match CpuStealer::start(&[cpu], 7, &shim()) {
        Ok(stealer) => Some(stealer),
        Err(why) if why.why.contains("SCHED_FIFO") => return wallfinder_skip::skip(why),
        Err(why) => panic!("{why}"),
    };
    one_of_three(|| {
        let speeds = victim(cpu, 15, |nth| {
            stealer = (nth % 2 == 1).then(|| CpuStealer::start(&[cpu], 7, &shim()).expect("again"));
        });
        let lost = median((0..7).map(|at| lost(&speeds, 2 * at + 1)).collect());
        println!("the sham costs {lost:.4}");
        // Wake-ups cost 1 %; a machine that is busy with other things shows more.
        lost < 0.05
    });
}

/// One test at a time: they look at the same processor.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_cpu_stealer_is_gone_when_it_is_dropped_and_refuses_processors_that_are_not_there() {
    let _turn = turn();
    let cpu = allowed_cpus()[0];
    let error = CpuStealer::start(&[1000], 1, &shim())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("1000") && error.contains("out of reach"),
        "{error}"
    );
    assert!(CpuStealer::start(&[], 1, &shim()).is_err());
    let stealer = match CpuStealer::start(&[cpu], 1234, &shim()) {
        Ok(stealer) => stealer,
        Err(why) if why.why.contains("SCHED_FIFO") => return wallfinder_skip::skip(why),
        Err(why) => panic!("{why}"),
    };
    let ours = || stealers_of(std::process::id(), "--seed\x001234\0");
    assert!(!ours().is_empty());
    drop(stealer);
    wait_until("the CPU stealer is gone", || ours().is_empty());
}

fn stealers_of(parent: u32, seed: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").expect("proc").flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_one = |pid: &u32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).into_owned();
        words.contains(seed) && words.contains(&format!("--parent\0{parent}\0"))
    };
    pids.filter(is_one).collect()
}
