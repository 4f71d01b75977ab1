//! Fewer processors: processor time taken from a side as a whole, where no quota can be had.
//! It needs a side of two processors or more, and no privilege for processes of the same
//! user.

use std::time::{Duration, Instant};

use wallfinder_model::experiment::Squeeze;

use super::{Check, Lever, cpus_of};
use crate::affinity::{self, Narrowed};
use crate::child::Shim;
use crate::cpu_stealer::shown_cpus;
use crate::error::TestbedError;
use crate::group;
use crate::undo::Change;

/// How long taking all that is ever taken may last: an experiment measures again what took so
/// long that the machine may have stood still.
const TAKE_WITHIN: Duration = Duration::from_millis(400);

/// Takes the last of a side's processors, as many as come nearest to the dose: one at the
/// least, all but one at the most. How much that is, the check says.
#[derive(Debug)]
pub struct FewerCpus {
    squeeze: Squeeze,
    pids: Vec<u32>,
    /// Its processors.
    cpus: Vec<u32>,
    /// How many of them it takes at the most.
    most: usize,
    shim: Shim,
    /// One for each processor that is taken, the last processor first. Each knows where threads
    /// might run before it, so they are undone from the end.
    taken: Vec<Change>,
}

impl FewerCpus {
    /// Of these processes and their descendants, which run on these processors. Whether they
    /// may be moved is tried.
    pub fn of(
        squeeze: Squeeze,
        pids: &[u32],
        cpus: &[u32],
        shim: &Shim,
    ) -> Result<FewerCpus, TestbedError> {
        let what = "fewer processors";
        if cpus.len() < 2 {
            return Err(TestbedError::refused(what, "there is but one"));
        }
        if pids.contains(&std::process::id()) {
            let why = "this process is among them, whose workers have a processor each";
            return Err(TestbedError::refused(what, why));
        }
        let mut fewer = FewerCpus {
            squeeze,
            pids: pids.to_vec(),
            cpus: cpus.to_vec(),
            most: 1,
            shim: shim.clone(),
            taken: Vec::new(),
        };
        let tried = Instant::now();
        fewer.take(1)?;
        fewer.most = most_within(TAKE_WITHIN, tried.elapsed(), cpus.len());
        fewer.take(0)?;
        Ok(fewer)
    }

    /// Takes more of them, or gives some back, until so many are taken.
    fn take(&mut self, wanted: usize) -> Result<(), TestbedError> {
        while self.taken.len() > wanted {
            self.taken.pop().map_or(Ok(()), Change::undo)?;
        }
        while self.taken.len() < wanted {
            let left = self.cpus.len() - self.taken.len() - 1;
            let change = Narrowed::to(&self.pids, &self.cpus[..left], self.cpus[left], &self.shim)?;
            self.taken.push(change);
        }
        Ok(())
    }

    /// The processors that are left, and those that are taken.
    fn parted(&self) -> (&[u32], &[u32]) {
        self.cpus.split_at(self.cpus.len() - self.taken.len())
    }
}

impl Lever for FewerCpus {
    fn squeeze(&self) -> Squeeze {
        self.squeeze
    }

    fn how(&self) -> String {
        format!("fewer processors of {}", shown_cpus(&self.cpus))
    }

    fn retained_min(&self) -> f64 {
        left_of(self.most, self.cpus.len())
    }

    fn set(&mut self, retained: f64) -> Result<(), TestbedError> {
        super::check_range(self, retained)?;
        let wanted = match retained >= 1.0 {
            true => 0,
            false => to_take(retained, self.cpus.len()).min(self.most),
        };
        self.take(wanted)
    }

    fn follow(&mut self, pids: &[u32]) -> Result<(), TestbedError> {
        self.pids = pids.to_vec();
        Ok(())
    }

    fn begin_window(&mut self) {}

    fn end_window(&mut self) -> Check {
        let (left, taken) = self.parted();
        let (_, threads) = affinity::on(&self.pids, self.cpus[0]);
        // At no dose there is nothing that must hold.
        let holds = taken.is_empty() || {
            let allowed = cpus_of(&group::family(&self.pids));
            !taken.iter().any(|cpu| allowed.contains(cpu))
        };
        Check {
            retained: Some(left_of(taken.len(), self.cpus.len())),
            in_force: (threads > 0).then_some(holds),
            text: format!("{threads} threads on {}", shown_cpus(left)),
        }
    }
}

impl Drop for FewerCpus {
    fn drop(&mut self) {
        while self.taken.pop().is_some() {}
    }
}

/// How many of so many processors to take so that what is left is nearest to this share: one at
/// the least, all but one at the most.
fn to_take(retained: f64, cpus: usize) -> usize {
    let wanted = ((1.0 - retained) * cpus as f64).round() as usize;
    wanted.clamp(1, cpus - 1)
}

/// The share that is left of so many processors when some are taken.
fn left_of(taken: usize, cpus: usize) -> f64 {
    (cpus - taken) as f64 / cpus as f64
}

/// How many of so many processors can be taken within a time, where one takes this long: one at
/// the least, all but one at the most.
fn most_within(time: Duration, each: Duration, cpus: usize) -> usize {
    let most = time.as_nanos() / each.as_nanos().max(1);
    usize::try_from(most).map_or(cpus - 1, |most| most.clamp(1, cpus - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_processors_are_taken_as_come_nearest_to_the_dose() {
        for (retained, cpus, taken, left) in [
            (0.8, 2, 1, 0.5),
            (0.8, 4, 1, 0.75),
            (0.8, 8, 2, 0.75),
            (0.8, 10, 2, 0.8),
            (0.5, 10, 5, 0.5),
            (0.8, 32, 6, 0.8125),
            (0.8, 128, 26, 0.796_875),
            (0.99, 8, 1, 0.875),
            (0.05, 4, 3, 0.25),
        ] {
            let got = to_take(retained, cpus);
            assert_eq!(got, taken, "{retained} of {cpus}");
            assert_eq!(left_of(got, cpus), left, "{retained} of {cpus}");
        }
        assert_eq!(left_of(0, 7), 1.0);
    }

    #[test]
    fn no_more_are_taken_than_there_is_time_for() {
        let most = |each_ms, cpus| {
            let each = Duration::from_millis(each_ms);
            most_within(Duration::from_millis(400), each, cpus)
        };
        assert_eq!(most(1, 32), 31);
        assert_eq!(most(50, 32), 8);
        assert_eq!(most(3_000, 32), 1);
        assert_eq!(most(0, 2), 1);
    }
}
