//! The levers: speed and capacity of processors, and the rate of a link.

use wallfinder_model::experiment::Squeeze;
use wallfinder_sys::clock::monotonic_ns;

use super::{Check, Lever, check_range};
use crate::cpu_stealer::{CpuStealer, DOSE_MAX, Stolen, shown_cpus};
use crate::error::TestbedError;
use crate::group::{Group, Throttling};
use crate::lab::{Shaper, ShaperStats};
use crate::pauses::{DUTY_MAX, Pauses};

/// How far what was taken may be from what was asked, beside a twentieth of it.
const TAKEN_OFF_MAX: f64 = 0.01;
/// Of ten processors, those of each of which what was taken must be so near, at the least. That the
/// mean over all must be, too, bounds what the others may be off.
const NEAR_OF_TEN_MIN: usize = 9;
/// How far a quota or a rate that is read back may be from what was set, as a share of it.
const SET_OFF_MAX: f64 = 0.01;
/// The least quota, as a share of what is available.
const CAPACITY_MIN: f64 = 0.05;
/// The least rate, as a share of the full one.
const RATE_MIN: f64 = 0.01;
/// A quota that binds nobody, as a multiple of the processors.
const LOOSE: f64 = 2.0;

/// The speed of processors, or of the processes on them.
#[derive(Debug)]
pub struct Speed {
    squeeze: Squeeze,
    by: By,
    taken: f64,
}

#[derive(Debug)]
enum By {
    CpuStealer {
        stealer: CpuStealer,
        before: Option<Result<Stolen, TestbedError>>,
    },
    Pauses {
        pauses: Pauses,
        /// Of whom.
        side: String,
        /// Clock, and time paused.
        before: (u64, u64),
    },
}

impl Speed {
    /// By a CPU stealer on the processors.
    pub fn by_stealer(squeeze: Squeeze, stealer: CpuStealer) -> Speed {
        Speed {
            squeeze,
            by: By::CpuStealer {
                stealer,
                before: None,
            },
            taken: 0.0,
        }
    }

    /// By pauses of a side's processes.
    pub fn by_pauses(squeeze: Squeeze, pauses: Pauses, side: &str) -> Speed {
        Speed {
            squeeze,
            by: By::Pauses {
                pauses,
                side: side.to_owned(),
                before: (0, 0),
            },
            taken: 0.0,
        }
    }

    fn check(&self, shares: &[f64], text: String) -> Check {
        let off_max = TAKEN_OFF_MAX + self.taken / 20.0;
        let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        Check {
            retained: Some(1.0 - mean),
            in_force: Some(is_taken(shares, self.taken, off_max)),
            text,
        }
    }
}

impl Lever for Speed {
    fn squeeze(&self) -> Squeeze {
        self.squeeze
    }

    fn how(&self) -> String {
        match &self.by {
            By::CpuStealer { stealer, .. } => {
                format!("SCHED_FIFO CPU stealer on {}", shown_cpus(stealer.cpus()))
            }
            By::Pauses { pauses, side, .. } => {
                format!("pauses of 1 to 3 ms of the {side}, by {}", pauses.how())
            }
        }
    }

    fn retained_min(&self) -> f64 {
        match self.by {
            By::CpuStealer { .. } => 1.0 - DOSE_MAX,
            By::Pauses { .. } => 1.0 - DUTY_MAX,
        }
    }

    fn set(&mut self, retained: f64) -> Result<(), TestbedError> {
        check_range(self, retained)?;
        self.taken = 1.0 - retained;
        match &mut self.by {
            By::CpuStealer { stealer, .. } => stealer.set_dose(self.taken.min(DOSE_MAX)),
            By::Pauses { pauses, .. } => pauses.set_duty(self.taken.min(DUTY_MAX)),
        }
    }

    fn follow(&mut self, pids: &[u32]) -> Result<(), TestbedError> {
        match &mut self.by {
            By::CpuStealer { .. } => Ok(()),
            By::Pauses { pauses, .. } => pauses.follow(pids),
        }
    }

    fn begin_window(&mut self) {
        match &mut self.by {
            By::CpuStealer { stealer, before } => *before = Some(stealer.stolen()),
            By::Pauses { pauses, before, .. } => {
                pauses.begin_window();
                *before = (monotonic_ns(), pauses.paused_ns());
            }
        }
    }

    fn end_window(&mut self) -> Check {
        match &mut self.by {
            By::CpuStealer { stealer, before } => {
                let before = match before.take() {
                    Some(Ok(before)) => before,
                    Some(Err(error)) => return Check::blind(error),
                    None => return Check::blind("no window was begun"),
                };
                let shares = match stealer.stolen() {
                    Ok(now) => now.shares_since(&before),
                    Err(error) => return Check::blind(error),
                };
                let each = stealer.cpus().iter().zip(&shares);
                let each: Vec<String> = each
                    .map(|(cpu, share)| format!("{share:.3} of cpu {cpu}"))
                    .collect();
                let text = format!("stole {}", each.join(", "));
                self.check(&shares, text)
            }
            By::Pauses { pauses, before, .. } => {
                let elapsed_ns = monotonic_ns().saturating_sub(before.0).max(1);
                let paused_ns = pauses.paused_ns().saturating_sub(before.1);
                let share = paused_ns as f64 / elapsed_ns as f64;
                let unreached = pauses.end_window();
                let text = format!("paused for {share:.3} of the time{unreached}");
                let check = self.check(&[share], text);
                let all = unreached.missed == 0 || self.taken <= 0.0;
                Check {
                    in_force: check.in_force.map(|holds| holds && all),
                    ..check
                }
            }
        }
    }
}

/// Whether a share was taken of processors: in the mean, and of nearly each. One of many that is
/// off makes no other squeeze of it.
fn is_taken(shares: &[f64], asked: f64, off_max: f64) -> bool {
    let is_near = |share: f64| (share - asked).abs() <= off_max;
    let mean = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
    let near = shares.iter().filter(|share| is_near(**share)).count();
    is_near(mean) && near * 10 >= shares.len() * NEAR_OF_TEN_MIN
}

/// The processor time that a side may use as a whole: a quota on its group.
#[derive(Debug)]
pub struct Capacity {
    squeeze: Squeeze,
    group: Group,
    pids: Vec<u32>,
    /// What it may use without us: its processors, or a quota that stood there.
    available_cores: f64,
    loose_cores: f64,
    asked_cores: f64,
    before: Option<Result<Throttling, TestbedError>>,
}

impl Capacity {
    /// A quota on a group, for processes that may use this many processors. `pids` are those
    /// that must be in it.
    pub fn of(
        squeeze: Squeeze,
        group: Group,
        cpus: usize,
        pids: &[u32],
    ) -> Result<Capacity, TestbedError> {
        let outer = group.outer_quota_cores();
        let loose_cores = group.sham_cores(LOOSE * cpus as f64);
        let mut capacity = Capacity {
            squeeze,
            group,
            pids: pids.to_vec(),
            available_cores: outer.map_or(cpus as f64, |outer| outer.min(cpus as f64)),
            loose_cores,
            asked_cores: loose_cores,
            before: None,
        };
        capacity.set(1.0)?;
        Ok(capacity)
    }

    /// What the side may use when nothing is taken, in cores.
    pub fn available_cores(&self) -> f64 {
        self.available_cores
    }

    /// A quota that stood there before, in cores.
    pub fn outer_quota_cores(&self) -> Option<f64> {
        self.group.outer_quota_cores()
    }

    fn is_in_force(&self, cores: Option<f64>) -> bool {
        let as_asked =
            cores.is_some_and(|cores| (cores / self.asked_cores - 1.0).abs() <= SET_OFF_MAX);
        let members = self.group.members();
        let is_inside = |pid: &u32| {
            members.contains(pid) || !std::path::Path::new(&format!("/proc/{pid}")).exists()
        };
        as_asked && !members.is_empty() && self.pids.iter().all(is_inside)
    }
}

impl Lever for Capacity {
    fn squeeze(&self) -> Squeeze {
        self.squeeze
    }

    fn how(&self) -> String {
        let of = match self.group.outer_quota_cores() {
            Some(_) => "of its quota",
            None => "of its processors",
        };
        let on = match self.group.is_in_place() {
            true => "their own control group",
            false => "a control group",
        };
        format!("quota on {on}, {of}, {:.2} cores", self.available_cores)
    }

    fn retained_min(&self) -> f64 {
        CAPACITY_MIN
    }

    fn set(&mut self, retained: f64) -> Result<(), TestbedError> {
        check_range(self, retained)?;
        self.asked_cores = if retained >= 1.0 {
            self.loose_cores
        } else {
            retained * self.available_cores
        };
        self.group.set_quota(Some(self.asked_cores))
    }

    fn follow(&mut self, pids: &[u32]) -> Result<(), TestbedError> {
        self.group.include(pids)?;
        self.pids = pids.to_vec();
        Ok(())
    }

    fn begin_window(&mut self) {
        self.before = Some(self.group.throttling());
    }

    fn end_window(&mut self) -> Check {
        let before = match self.before.take() {
            Some(Ok(before)) => before,
            Some(Err(error)) => return Check::blind(error),
            None => return Check::blind("no window was begun"),
        };
        let now = match self.group.throttling() {
            Ok(now) => now,
            Err(error) => return Check::blind(error),
        };
        let cores = self.group.quota_cores();
        let periods = now.periods.saturating_sub(before.periods);
        let throttled = now.throttled.saturating_sub(before.throttled);
        let held_ms = now.throttled_ns.saturating_sub(before.throttled_ns) / 1_000_000;
        Check {
            retained: cores.map(|cores| (cores / self.available_cores).min(1.0)),
            in_force: Some(self.is_in_force(cores)),
            text: format!(
                "throttled in {throttled} of {periods} periods, {held_ms} ms; quota {}",
                cores.map_or("none".to_owned(), |cores| format!("{cores:.2} cores"))
            ),
        }
    }
}

/// The rate of one direction of a link.
#[derive(Debug)]
pub struct LinkRate {
    squeeze: Squeeze,
    shaper: Shaper,
    share: f64,
    before: Option<(u64, Result<ShaperStats, TestbedError>)>,
}

impl LinkRate {
    /// Of an interface whose rate can be set.
    pub fn of(squeeze: Squeeze, shaper: Shaper) -> LinkRate {
        LinkRate {
            squeeze,
            shaper,
            share: 1.0,
            before: None,
        }
    }

    /// The rate when nothing is taken, bits per second.
    pub fn full_bits(&self) -> u64 {
        self.shaper.full_bits()
    }
}

impl Lever for LinkRate {
    fn squeeze(&self) -> Squeeze {
        self.squeeze
    }

    fn how(&self) -> String {
        self.shaper.how()
    }

    fn retained_min(&self) -> f64 {
        RATE_MIN
    }

    fn set(&mut self, retained: f64) -> Result<(), TestbedError> {
        check_range(self, retained)?;
        self.share = retained;
        self.shaper.set_share(retained.min(1.0))
    }

    fn begin_window(&mut self) {
        let stats = self.shaper.stats();
        self.before = Some((monotonic_ns(), stats));
    }

    fn end_window(&mut self) -> Check {
        let Some((from_ns, before)) = self.before.take() else {
            return Check::blind("no window was begun");
        };
        let seconds = monotonic_ns().saturating_sub(from_ns).max(1) as f64 / 1e9;
        let (before, now, bits) = match (before, self.shaper.stats(), self.shaper.bits()) {
            (Ok(before), Ok(now), Ok(bits)) => (before, now, bits),
            (Err(error), _, _) | (_, Err(error), _) | (_, _, Err(error)) => {
                return Check::blind(error);
            }
        };
        let retained = bits as f64 / self.shaper.full_bits().max(1) as f64;
        let passed_bits = now.bytes.saturating_sub(before.bytes) as f64 * 8.0 / seconds;
        Check {
            retained: Some(retained),
            // A rate that nothing passes by holds nothing: the load goes another way.
            in_force: Some(
                now.bytes > before.bytes && (retained / self.share - 1.0).abs() <= SET_OFF_MAX,
            ),
            text: format!(
                "{:.1} of {:.1} Mbit/s, {} waits, {} drops, backlog {} KB",
                passed_bits / 1e6,
                bits as f64 / 1e6,
                now.overlimits.saturating_sub(before.overlimits),
                now.drops.saturating_sub(before.drops),
                now.backlog_bytes / 1000
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_of_many_that_is_off_does_not_void_a_window() {
        let mut many = vec![0.2; 128];
        many[7] = 0.1;
        assert!(is_taken(&many, 0.2, 0.02));
        many[..13].fill(0.15);
        assert!(!is_taken(&many, 0.2, 0.02), "more than a tenth are off");
        let mut far = vec![0.2; 20];
        far[..2].fill(0.0);
        assert!(is_taken(&far, 0.2, 0.021));
        far[..2].fill(1.0);
        assert!(!is_taken(&far, 0.2, 0.021), "the mean is off");
    }

    #[test]
    fn of_few_processors_each_must_be_near() {
        assert!(is_taken(&[0.19, 0.215], 0.2, 0.02));
        assert!(!is_taken(&[0.2, 0.23], 0.2, 0.02));
        let mut nine = [0.2; 9];
        nine[0] = 0.17;
        assert!(!is_taken(&nine, 0.2, 0.02));
        assert!(is_taken(&[0.0], 0.0, 0.01), "the sham");
        assert!(!is_taken(&[], 0.2, 0.02), "nothing was seen");
    }
}
