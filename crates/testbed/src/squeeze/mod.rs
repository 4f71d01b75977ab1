//! Squeezes, behind one trait: what the conductor of an experiment pulls.
//!
//! ```text
//!  Scene ─► reach ─► levers         all stand for the whole experiment, at no dose: the sham
//!                └─► out of reach   why, and what it would need
//!
//!  lever.set(0.8) ─► wash-out ─► begin_window ─► measured ─► end_window ─► Check ─► set(1.0)
//! ```
//!
//! What it is not: the engine's own squeezes (workers that spin, fewer in flight, think time, the
//! rate), which need no apparatus.
//!
//! Invariants: every lever is a share of what is *available*, never of what is in use; after
//! dropping it nothing of it stands.

mod fewer;
mod levers;
mod reach;

use wallfinder_model::experiment::Squeeze;

use crate::error::TestbedError;

pub use fewer::FewerCpus;
pub use levers::{Capacity, LinkRate, Speed};
pub use reach::{Reach, Scene, Side, cpus_of, reach};

/// One resource, and the means to leave less of it.
pub trait Lever: Send {
    /// Which resource.
    fn squeeze(&self) -> Squeeze;

    /// How it is done, in words: `SCHED_FIFO CPU stealer on cpu 0`.
    fn how(&self) -> String;

    /// The least that it can leave.
    fn retained_min(&self) -> f64;

    /// From now on leaves this share of the resource; 1 is the sham. Less than
    /// [`Lever::retained_min`] is refused.
    fn set(&mut self, retained: f64) -> Result<(), TestbedError>;

    /// Its side runs as these processes now: a server that was started anew, the next run of
    /// a driver. Called between windows. Nothing to do where processors or links
    /// are squeezed and not processes.
    fn follow(&mut self, pids: &[u32]) -> Result<(), TestbedError> {
        let _ = pids;
        Ok(())
    }

    /// The measured part of a window begins.
    fn begin_window(&mut self);

    /// It ends: what the squeeze did in it.
    fn end_window(&mut self) -> Check;
}

/// What one window shows of a squeeze.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Check {
    /// What was left of the resource, measured.
    pub retained: Option<f64>,
    /// Whether the squeeze was in force; `None` where that cannot be told. One that binds
    /// nobody may well be in force.
    pub in_force: Option<bool>,
    /// What was seen: `stole 0.199 of cpu 0`.
    pub text: String,
}

impl Check {
    /// Nothing could be seen, and why.
    fn blind(why: impl std::fmt::Display) -> Check {
        Check {
            text: why.to_string(),
            ..Check::default()
        }
    }
}

/// Whether a share can be left at all.
fn check_range(lever: &impl Lever, retained: f64) -> Result<(), TestbedError> {
    let least = lever.retained_min();
    // A little less is rounding.
    if retained >= least - 1e-9 && retained <= 1.0 {
        return Ok(());
    }
    Err(TestbedError::refused(
        format!("leaving {retained} of {}", lever.squeeze().label()),
        format!("{} leaves between {least} and 1", lever.how()),
    ))
}
