//! What may be changed while workers run, and the windows of time between changes.
//!
//! What it is: the engine's own squeezes. A worker can be made slower, hold some of its
//! requests in flight back, pause before each request, or follow its schedule at another
//! pace; one at a time, so that it can be seen which of them moves the throughput. What it
//! is not: it decides nothing, and without a change it costs a worker one load of a number
//! that is hardly ever written.
//!
//! ```text
//!  conductor ── set(LeverSetting { window: 7, … }) ──► version ──► worker: ends its window 6
//!                                                              with a report, begins 7
//! ```
//!
//! Every worker cuts its window at its own instant and says when that was, so that rates are
//! exact whatever the workers' delays.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wallfinder_model::drive::LeverSetting;

/// The place where settings are handed to workers.
#[derive(Debug)]
pub struct Levers {
    version: AtomicU32,
    setting: Mutex<LeverSetting>,
    /// A version in the upper half, the workers that follow it in the lower.
    followed: AtomicU64,
}

impl Default for Levers {
    fn default() -> Levers {
        Levers {
            version: AtomicU32::new(0),
            setting: Mutex::new(LeverSetting::FREE),
            followed: AtomicU64::new(0),
        }
    }
}

impl Levers {
    /// Hands a setting to every worker. They follow within 50 ms, at once where they work; on a machine
    /// full of others' work, later. A setting that another one replaces before a worker followed it is
    /// none for that worker, and its window never ends: see [`Levers::are_followed_by`].
    pub fn set(&self, setting: LeverSetting) {
        assert!(
            setting.speed.is_none_or(|left| left > 0.0 && left <= 1.0)
                && setting.in_flight > 0.0
                && setting.pace > 0.0,
            "a lever beyond its range: {setting:?}"
        );
        let mut last = self.setting.lock().expect("no thread panics in here");
        *last = setting;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Whether so many workers follow the last setting.
    pub fn are_followed_by(&self, workers: u32) -> bool {
        self.followed.load(Ordering::Acquire) == follow_of(self.version(), workers)
    }

    /// A worker follows the setting of this version.
    pub(crate) fn follow(&self, version: u32) {
        let _ = self
            .followed
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |followed| {
                let behind = version.wrapping_sub((followed >> 32) as u32) as i32;
                match behind {
                    0 => Some(followed + 1),
                    1.. => Some(follow_of(version, 1)),
                    // Others follow a later one.
                    _ => None,
                }
            });
    }

    /// So many workers follow the setting of this version, on a host where it was set as well.
    pub fn followed_elsewhere(&self, version: u32, workers: u32) {
        for _ in 0..workers {
            self.follow(version);
        }
    }

    /// Changes with every setting.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// The last setting and its version.
    pub fn setting(&self) -> (u32, LeverSetting) {
        let last = self.setting.lock().expect("no thread panics in here");
        (self.version(), *last)
    }
}

fn follow_of(version: u32, workers: u32) -> u64 {
    u64::from(version) << 32 | u64::from(workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_followed_when_every_worker_follows_the_last_one() {
        let levers = Levers::default();
        levers.set(LeverSetting::FREE);
        let (first, _) = levers.setting();
        levers.follow(first);
        assert!(levers.are_followed_by(1) && !levers.are_followed_by(2));
        levers.set(LeverSetting::FREE);
        assert!(!levers.are_followed_by(1));
        let (second, _) = levers.setting();
        levers.follow(second);
        // A worker that was late for the one before, and comes to the last one after.
        levers.follow(first);
        assert!(!levers.are_followed_by(2));
        levers.follow(second);
        assert!(levers.are_followed_by(2));
    }
}
