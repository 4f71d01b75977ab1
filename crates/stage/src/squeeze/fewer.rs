//! One processor less: processor time taken from a side as a whole, where no quota can be
//! had. It needs a side of two processors or more, and no privilege for processes of the
//! same user.

use wallfinder_model::experiment::Squeeze;

use super::{Check, Lever};
use crate::affinity::{self, Narrowed};
use crate::child::Shim;
use crate::error::StageError;
use crate::thief::shown_cpus;
use crate::undo::Change;

/// Takes the last of a side's processors, whatever the dose: how much that is, the check
/// says.
#[derive(Debug)]
pub struct FewerCpus {
    squeeze: Squeeze,
    pids: Vec<u32>,
    /// Its processors but the last, and the last.
    left: Vec<u32>,
    last: u32,
    shim: Shim,
    /// While that is taken.
    taken: Option<Change>,
}

impl FewerCpus {
    /// Of these processes and their descendants, which run on these processors. Whether they
    /// may be moved is tried.
    pub fn of(
        squeeze: Squeeze,
        pids: &[u32],
        cpus: &[u32],
        shim: &Shim,
    ) -> Result<FewerCpus, StageError> {
        let what = "one processor less";
        let (last, left) = match cpus.split_last() {
            Some((last, left)) if !left.is_empty() => (*last, left.to_vec()),
            _ => return Err(StageError::refused(what, "there is but one")),
        };
        if pids.contains(&std::process::id()) {
            let why = "this process is among them, whose lanes have a processor each";
            return Err(StageError::refused(what, why));
        }
        let mut fewer = FewerCpus {
            squeeze,
            pids: pids.to_vec(),
            left,
            last,
            shim: shim.clone(),
            taken: None,
        };
        fewer.set(fewer.retained_min())?;
        fewer.set(1.0)?;
        Ok(fewer)
    }

    fn all(&self) -> Vec<u32> {
        let mut all = self.left.clone();
        all.push(self.last);
        all
    }
}

impl Lever for FewerCpus {
    fn squeeze(&self) -> Squeeze {
        self.squeeze
    }

    fn how(&self) -> String {
        format!("one processor less of {}", shown_cpus(&self.all()))
    }

    fn retained_min(&self) -> f64 {
        self.left.len() as f64 / (self.left.len() + 1) as f64
    }

    fn set(&mut self, retained: f64) -> Result<(), StageError> {
        super::check_range(self, retained)?;
        if retained >= 1.0 {
            return self.taken.take().map_or(Ok(()), Change::undo);
        }
        if self.taken.is_none() {
            let change = Narrowed::to(&self.pids, &self.left, self.last, &self.shim)?;
            self.taken = Some(change);
        }
        Ok(())
    }

    fn follow(&mut self, pids: &[u32]) -> Result<(), StageError> {
        self.pids = pids.to_vec();
        Ok(())
    }

    fn begin_window(&mut self) {}

    fn end_window(&mut self) -> Check {
        let (on_last, threads) = affinity::on(&self.pids, self.last);
        let (cpus, retained) = match self.taken {
            Some(_) => (self.left.clone(), self.retained_min()),
            None => (self.all(), 1.0),
        };
        let holds = self.taken.is_none() || on_last == 0;
        Check {
            retained: Some(retained),
            in_force: (threads > 0).then_some(holds),
            text: format!("{threads} threads on {}", shown_cpus(&cpus)),
        }
    }
}
