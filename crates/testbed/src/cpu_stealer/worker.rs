//! Inside the CPU stealer's process: a thread on each processor, and the pipe that it obeys.

use std::fs;
use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use wallfinder_probe::cores::Cores;
use wallfinder_probe::parse::cgroup;
use wallfinder_sys::clock::monotonic_ns;
use wallfinder_sys::{Errno, process};

use super::{DOSE_MAX, Said, Stolen};

/// The middle of the times from one turn to the next, and how far they stray from it. To wake
/// costs the processor 20 µs on a virtual machine, so waking twice as often would cost the
/// sham 2 %.
const EVERY_NS: u64 = 2_000_000;
const JITTER: f64 = 0.3;
/// What is left to the others between two turns, at the least; more after a long one.
const REST_NS_MIN: u64 = 100_000;
/// Before all ordinary threads, and behind a link's relay.
const PRIORITY: i32 = 1;
/// The longest turn.
const TURN_NS_MAX: u64 = 2_500_000;
/// What it is behind its dose at the most: more, after the machine stood still, is forgiven.
const BEHIND_NS_MAX: f64 = 5_000_000.0;
/// The part of the time that may pass in turns, as a multiple of the dose: what it is behind is
/// made good that slowly. No less than `SHARE_MIN`, and no more than [`DOSE_MAX`].
const CATCH_UP: f64 = 2.0;
const SHARE_MIN: f64 = 0.01;
/// A step of the clock that is longer was not spent spinning. The network's softirq work, which
/// the server may need, is told from theft by this; the kernel's ticks, 1 to 2 % of the time
/// on a virtual machine, are left out with it, and so is that much of the dose.
const GAP_NS: u64 = 3_000;
/// The longest step of a clock by which the two can be told apart, in the median of so many.
const STEP_NS_MAX: u64 = 1_000;
const STEPS: usize = 101;
/// How long a dose stands that nobody renews.
const DOSE_NS_MAX: u64 = 30_000_000_000;

/// What the threads are told.
#[derive(Debug, Default)]
struct Orders {
    /// The bits of the dose.
    dose: AtomicU64,
    /// When it was last wanted.
    wanted_ns: AtomicU64,
}

impl Orders {
    fn dose_at(&self, now_ns: u64) -> f64 {
        let dose = f64::from_bits(self.dose.load(Ordering::Relaxed));
        let since_ns = now_ns.saturating_sub(self.wanted_ns.load(Ordering::Relaxed));
        if since_ns < DOSE_NS_MAX { dose } else { 0.0 }
    }
}

/// Steals until standard input ends. The process ends with this.
pub(crate) fn steal(cpus: &[u32], seed: u64) {
    if let Err(why) = is_quick(clock_steps_ns()) {
        return say(&Said::Failed(why));
    }
    let cores = Cores::of(cpus);
    let zero_ns = monotonic_ns();
    let orders = Arc::new(Orders::default());
    let stolen: Arc<Vec<AtomicU64>> = Arc::new(cpus.iter().map(|_| AtomicU64::new(0)).collect());
    let (began, begun) = channel();
    for (at, cpu) in cpus.iter().copied().enumerate() {
        let (orders, stolen) = (Arc::clone(&orders), Arc::clone(&stolen));
        let began = began.clone();
        let rhythm = Rhythm::of_core(cores.core(cpu), seed, zero_ns);
        let run = move || match take_place(cpu) {
            Ok(()) => {
                let _ = began.send(Ok(()));
                turns(&orders, &stolen[at], rhythm);
            }
            Err(why) => drop(began.send(Err(why))),
        };
        let thread = std::thread::Builder::new().name(format!("stealer-{cpu}"));
        if let Err(error) = thread.spawn(run) {
            return say(&Said::Failed(error.to_string()));
        }
    }
    for _ in cpus {
        if let Ok(Err(why)) = begun.recv() {
            return say(&Said::Failed(why));
        }
    }
    say(&Said::Ready);
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        if line == "read" {
            let stolen_ns = stolen.iter().map(|ns| ns.load(Ordering::Relaxed)).collect();
            say(&Said::Stolen(Stolen {
                at_ns: monotonic_ns(),
                stolen_ns,
            }));
            continue;
        }
        if let Some(dose) = line
            .strip_prefix("dose ")
            .and_then(|dose| dose.parse().ok())
        {
            let dose = f64::clamp(dose, 0.0, DOSE_MAX);
            orders.dose.store(dose.to_bits(), Ordering::Relaxed);
        }
        orders.wanted_ns.store(monotonic_ns(), Ordering::Relaxed);
    }
}

fn say(said: &Said) {
    let text = serde_json::to_string(said).unwrap_or_default();
    let mut out = io::stdout().lock();
    // Without a reader the input ends as well.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// How long the clock takes from one step to the next, looked at as in a turn.
fn clock_steps_ns() -> Vec<u64> {
    let step_ns = |_| {
        let from_ns = monotonic_ns();
        loop {
            std::hint::spin_loop();
            let step_ns = monotonic_ns() - from_ns;
            if step_ns > 0 {
                break step_ns;
            }
        }
    };
    (0..STEPS).map(step_ns).collect()
}

/// Whether a clock of such steps tells time that was stolen from other time; if not, why not.
fn is_quick(mut steps_ns: Vec<u64>) -> Result<(), String> {
    steps_ns.sort_unstable();
    let median_ns = steps_ns.get(steps_ns.len() / 2).copied().unwrap_or(0);
    if median_ns <= STEP_NS_MAX {
        return Ok(());
    }
    Err(format!(
        "a step of this machine's clock takes {median_ns} ns, and by one that takes more than \
         {STEP_NS_MAX} ns it cannot be counted what is taken; the clocks that there are stand in \
         /sys/devices/system/clocksource/clocksource0/available_clocksource"
    ))
}

/// Onto the processor, and before everybody else there.
fn take_place(cpu: u32) -> Result<(), String> {
    process::pin_to(&[cpu]).map_err(|e| format!("cpu {cpu} may not be used: {e}"))?;
    before_all_others(PRIORITY).map_err(refused)
}

/// Puts the calling thread of a helper before all others, outside of its group if need be.
pub(crate) fn before_all_others(priority: i32) -> Result<(), Errno> {
    let first = process::before_all_others(priority);
    if first == Err(Errno::PERM) && leave_group() {
        return process::before_all_others(priority);
    }
    first
}

fn refused(errno: Errno) -> String {
    format!("SCHED_FIFO is refused ({errno}): it needs root or CAP_SYS_NICE")
}

/// Kernels that hand out real-time bandwidth by groups give none to new ones. The root group
/// has some, and this process is nobody's but ours.
fn leave_group() -> bool {
    let mounts = cgroup::mounts(&fs::read("/proc/self/mountinfo").unwrap_or_default());
    let mut mounts = mounts.iter();
    let cpu = mounts.find(|mount| {
        mount.kind == "cgroup" && mount.options.split(',').any(|option| option == "cpu")
    });
    cpu.is_some_and(|mount| fs::write(format!("{}/cgroup.procs", mount.point), "0").is_ok())
}

/// One processor's turns, without end.
fn turns(orders: &Orders, stolen: &AtomicU64, mut rhythm: Rhythm) {
    let mut account = Account::default();
    loop {
        let woken_ns = monotonic_ns();
        let dose = orders.dose_at(woken_ns);
        account.begin_turn(dose, woken_ns);
        let mut last_ns = woken_ns;
        while account.owes(last_ns) && last_ns - woken_ns < TURN_NS_MAX {
            std::hint::spin_loop();
            let now_ns = monotonic_ns();
            let step_ns = now_ns - last_ns;
            last_ns = now_ns;
            if step_ns < GAP_NS {
                account.stolen_ns += step_ns as f64;
                stolen.fetch_add(step_ns, Ordering::Relaxed);
            }
        }
        let next_ns = rhythm.after(last_ns);
        let rest_ns = (next_ns - last_ns).max(rest_ns_min(dose, last_ns - woken_ns));
        std::thread::sleep(Duration::from_nanos(rest_ns));
    }
}

/// What is left to the others after a turn that took so long by the clock. What was counted of it
/// is of no matter here: on a clock that became slow, nothing is.
fn rest_ns_min(dose: f64, turn_ns: u64) -> u64 {
    let share_max = (CATCH_UP * dose).clamp(SHARE_MIN, DOSE_MAX);
    // A longer one is the machine that stood still.
    let turn_ns = (turn_ns as f64).min(BEHIND_NS_MAX);
    let rest_ns = turn_ns * (1.0 - share_max) / share_max;
    REST_NS_MIN.max(rest_ns.ceil() as u64)
}

/// When turns are to begin: instants that follow from seed, core and zero. The threads of one core
/// are robbed at once, for what is taken from one alone makes the other faster.
#[derive(Debug)]
struct Rhythm {
    random: fastrand::Rng,
    next_ns: u64,
}

impl Rhythm {
    fn of_core(core: u32, seed: u64, zero_ns: u64) -> Rhythm {
        // Numbers that are close give streams that are not.
        let own = (u64::from(core) + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Rhythm {
            random: fastrand::Rng::with_seed(seed ^ own),
            next_ns: zero_ns,
        }
    }

    /// The first of its instants after this one. Asked for ever later ones.
    fn after(&mut self, now_ns: u64) -> u64 {
        while self.next_ns <= now_ns {
            let stray = JITTER * (2.0 * self.random.f64() - 1.0);
            self.next_ns += (EVERY_NS as f64 * (1.0 + stray)) as u64;
        }
        self.next_ns
    }
}

/// What is owed of one dose.
#[derive(Debug, Default)]
struct Account {
    dose: f64,
    since_ns: u64,
    stolen_ns: f64,
}

impl Account {
    fn begin_turn(&mut self, dose: f64, now_ns: u64) {
        if dose != self.dose || self.since_ns == 0 {
            *self = Account {
                dose,
                since_ns: now_ns,
                stolen_ns: 0.0,
            };
        }
        let due_ns = self.due_ns(now_ns);
        self.stolen_ns = self.stolen_ns.max(due_ns - BEHIND_NS_MAX);
    }

    fn due_ns(&self, now_ns: u64) -> f64 {
        self.dose * (now_ns - self.since_ns) as f64
    }

    fn owes(&self, now_ns: u64) -> bool {
        self.dose > 0.0 && self.stolen_ns < self.due_ns(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dose_is_owed_by_elapsed_time_and_a_standstill_is_forgiven() {
        let mut account = Account::default();
        account.begin_turn(0.2, 1_000);
        assert!(!account.owes(1_000));
        assert!(account.owes(2_000));
        account.stolen_ns = 200.0;
        assert!(!account.owes(2_000) && account.owes(2_001));
        // A second later most of the debt is gone.
        account.begin_turn(0.2, 1_000_000_000);
        let behind_ns = account.due_ns(1_000_000_000) - account.stolen_ns;
        assert!((behind_ns - BEHIND_NS_MAX).abs() < 1.0, "{behind_ns}");
        account.begin_turn(0.0, 2_000_000_000);
        assert!(!account.owes(3_000_000_000), "the sham steals nothing");
    }

    #[test]
    fn turns_never_take_more_than_their_share_by_the_clock() {
        // A clock of which nothing is counted: each turn is as long as it may be.
        for (dose, most) in [
            (0.1, 0.2),
            (0.2, 0.4),
            (0.5, DOSE_MAX),
            (DOSE_MAX, DOSE_MAX),
        ] {
            let rest_ns = rest_ns_min(dose, TURN_NS_MAX);
            let share = TURN_NS_MAX as f64 / (TURN_NS_MAX + rest_ns) as f64;
            assert!(share <= most && share > most - 0.01, "{dose}: {share}");
        }
        assert_eq!(rest_ns_min(0.0, 0), REST_NS_MIN);
        // The machine stood still for a minute: that was not the CPU stealer.
        assert!(rest_ns_min(0.2, 60_000_000_000) < 10_000_000);
    }

    #[test]
    fn a_slow_clock_is_refused_and_a_step_that_was_disturbed_is_not() {
        let mut steps_ns = vec![70; STEPS];
        steps_ns[..STEPS / 2].fill(50_000);
        assert_eq!(is_quick(steps_ns), Ok(()));
        let why = is_quick(vec![1_400; STEPS]).expect_err("it is slow");
        assert!(
            why.contains("takes 1400 ns") && why.contains("clocksource"),
            "{why}"
        );
    }

    #[test]
    fn threads_of_one_core_are_robbed_at_once() {
        let (mut one, mut other) = (Rhythm::of_core(3, 7, 1_000), Rhythm::of_core(3, 7, 1_000));
        // Their turns end at other times, and one of them misses some.
        for turn in 1..200_u64 {
            one.after(turn * 1_000_000);
        }
        for turn in 1..20_u64 {
            other.after(turn * 10_000_000 + 345);
        }
        let at_ns = 400_000_000;
        assert_eq!(one.after(at_ns), other.after(at_ns));
        let mut apart = Rhythm::of_core(2, 7, 1_000);
        assert_ne!(one.after(at_ns), apart.after(at_ns));
        let next_ns = one.after(at_ns);
        let every_ns = one.after(next_ns) - next_ns;
        assert!((1_400_000..=2_600_000).contains(&every_ns), "{every_ns}");
    }

    #[test]
    fn a_dose_that_nobody_renews_ends() {
        let orders = Orders::default();
        orders.dose.store(0.2_f64.to_bits(), Ordering::Relaxed);
        orders.wanted_ns.store(1_000, Ordering::Relaxed);
        assert_eq!(orders.dose_at(DOSE_NS_MAX), 0.2);
        assert_eq!(orders.dose_at(DOSE_NS_MAX + 1_000), 0.0);
    }

    /// The same instants for a seed, as long as the generator's order is the same.
    #[test]
    fn the_rhythm_follows_from_the_seed_and_the_core_and_strays_evenly() {
        let instants = |core, seed| {
            let mut rhythm = Rhythm::of_core(core, seed, 0);
            let mut now_ns = 0;
            std::iter::repeat_with(move || {
                now_ns = rhythm.after(now_ns);
                now_ns
            })
        };
        let first = |core, seed| instants(core, seed).take(3).collect::<Vec<_>>();
        assert_eq!(first(0, 7), [1_927_192, 3_478_187, 5_322_374]);
        assert_ne!(first(0, 7), first(1, 7));
        assert_ne!(first(0, 7), first(0, 8));
        const COUNT: usize = 10_000;
        let last_ns = instants(0, 7).nth(COUNT - 1).unwrap();
        let mean = last_ns as f64 / COUNT as f64 / EVERY_NS as f64;
        assert!((mean - 1.0).abs() < 0.02, "{mean}");
    }
}
