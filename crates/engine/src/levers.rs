//! What may be changed while workers run, and the segments of time between changes.
//!
//! What it is: the engine's own squeezes. A worker can be made slower, hold some of its
//! requests in flight back, pause before each request, or follow its schedule at another
//! pace; one at a time, so that it can be seen which of them moves the throughput. What it
//! is not: it decides nothing, and without a change it costs a worker one load of a number
//! that nobody writes.
//!
//! ```text
//!  conductor ── set(Setting { segment: 7, … }) ──► version ──► worker: ends its segment 6
//!                                                              with a report, begins 7
//! ```
//!
//! Every worker cuts its segment at its own instant and says when that was, so that rates are
//! exact whatever the workers' delays.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use wallfinder_model::{Load, Nanos};

use crate::worker::{part, workers_of};

/// What a worker is to do until the next change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Number of the segment that begins; 0: none is counted, and what an open loop has
    /// due and not sent stays unsent.
    pub segment: u32,
    /// What is left of a worker's speed, above 0 and at most 1: for the rest of its working
    /// time it spins. At 1 it keeps the same accounts and spins never; `None`: no accounts.
    pub speed: Option<f64>,
    /// What is left of the requests in flight, above 0 (see [`in_flight_left`]); above 1:
    /// the spare connections are used too (see [`in_flight_more`]).
    pub in_flight: f64,
    /// Turns over which connections are held back, where some are.
    pub turn: u32,
    /// A pause before each request of a closed loop, beside that of the load.
    pub think: Nanos,
    /// Pace of an open loop's schedule, as a factor.
    pub pace: f64,
    /// The form of the request: 0 as it was asked for, from 1 on with the paddings of
    /// [`crate::StepSpec`].
    pub form: usize,
}

impl Setting {
    /// No change, nothing counted.
    pub const FREE: Setting = Setting {
        segment: 0,
        speed: None,
        in_flight: 1.0,
        turn: 0,
        think: Nanos(0),
        pace: 1.0,
        form: 0,
    };
}

/// The place where settings are handed to workers.
#[derive(Debug)]
pub struct Levers {
    version: AtomicU32,
    setting: Mutex<Setting>,
    /// A version in the upper half, the workers that follow it in the lower.
    followed: AtomicU64,
}

impl Default for Levers {
    fn default() -> Levers {
        Levers {
            version: AtomicU32::new(0),
            setting: Mutex::new(Setting::FREE),
            followed: AtomicU64::new(0),
        }
    }
}

impl Levers {
    /// Hands a setting to every worker. They follow within 50 ms, at once where they work; on a machine
    /// full of others' work, later. A setting that another one replaces before a worker followed it is
    /// none for that worker, and its segment never ends: see [`Levers::are_followed_by`].
    pub fn set(&self, setting: Setting) {
        assert!(
            setting.speed.is_none_or(|left| left > 0.0 && left <= 1.0)
                && setting.in_flight > 0.0
                && setting.pace > 0.0,
            "a lever beyond its range: {setting:?}"
        );
        let mut last = self.setting.lock().expect("nobody panics in here");
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

    /// Changes with every setting.
    #[inline]
    pub(crate) fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    /// The last setting and its version.
    pub(crate) fn setting(&self) -> (u32, Setting) {
        let last = self.setting.lock().expect("nobody panics in here");
        (self.version(), *last)
    }
}

fn follow_of(version: u32, workers: u32) -> u64 {
    u64::from(version) << 32 | u64::from(workers)
}

/// What the workers did in one segment.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Its number.
    pub number: u32,
    /// Start, from the schedule's zero: the mean over the workers.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// Good answers.
    pub answered: u64,
    /// Failures.
    pub failed: u64,
    /// Requests that became due.
    pub scheduled: u64,
    /// Good answers per second.
    pub throughput: f64,
    /// Mean requests in flight.
    pub in_flight_mean: f64,
    /// Mean latency; 0 without answers.
    pub latency_mean_ns: f64,
    /// Quantiles of latency by name, as in a record; none without answers.
    pub quantiles_ns: BTreeMap<String, u64>,
    /// CPU time of the workers.
    pub workers_cpu_ns: u64,
    /// Part of that which they spun, because their speed was squeezed.
    pub workers_spun_ns: u64,
}

/// Requests that one worker may have in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Connections in use.
    pub(crate) connections: u32,
    /// Requests on each.
    pub(crate) depth: u32,
    /// Requests on all of them; `u64::MAX`: no bound.
    pub(crate) in_flight_max: u64,
}

impl Room {
    /// The bound is lower, or a quarter higher; connections are as many as before.
    pub(crate) fn limited(connections: u32, depth: u32, bound: u64, left: f64) -> Room {
        let more = (bound as f64 * MORE).round().max(1.0) as u64;
        let fewer = (bound as f64 * left).round().max(1.0) as u64;
        Room {
            connections,
            depth,
            in_flight_max: if left > 1.0 { bound + more } else { fewer },
        }
    }

    /// Whether a bound says what may be in flight.
    #[inline]
    pub(crate) fn is_limited_in_flight(&self) -> bool {
        self.in_flight_max != u64::MAX
    }

    /// Fewer connections where there are some; else fewer requests on each. Above 1: with
    /// the spare ones.
    pub(crate) fn of(connections: u32, spare: u32, depth: u32, left: f64) -> Room {
        if left > 1.0 {
            return Room::free(connections + spare, depth);
        }
        Room::left(connections, depth, left)
    }

    fn free(connections: u32, depth: u32) -> Room {
        Room {
            connections,
            depth,
            in_flight_max: u64::MAX,
        }
    }

    fn left(connections: u32, depth: u32, left: f64) -> Room {
        const SOME: u32 = 4;
        let part = |whole: u32| {
            let part = (f64::from(whole) * left).round() as u32;
            part.clamp(1, whole.max(1))
        };
        if left >= 1.0 {
            Room::free(connections, depth)
        } else if connections >= SOME {
            Room::free(part(connections), depth)
        } else {
            Room::free(connections, part(depth))
        }
    }

    /// Of one worker of a load, with so many spare connections.
    pub(crate) fn of_worker(
        load: &Load,
        (workers, worker): (u32, u32),
        spare: u32,
        left: f64,
    ) -> Room {
        let part = |whole: u32| part(u64::from(whole), workers, worker);
        let (connections, depth) = (part(load.connections) as u32, load.in_flight_per_connection);
        match load.max_in_flight {
            Some(bound) => Room::limited(connections, depth, part(bound), left),
            None => Room::of(connections, spare, depth, left),
        }
    }

    fn in_flight(&self) -> u64 {
        (u64::from(self.connections) * u64::from(self.depth)).min(self.in_flight_max)
    }
}

/// So much more can be in flight where a lever asks for more.
const MORE: f64 = 0.25;

/// Of all workers, over what the load has in flight at the most.
fn really(load: &Load, left: f64) -> f64 {
    let workers = workers_of(load);
    let spare = |worker| part(u64::from(spare_connections(load)), workers, worker) as u32;
    let room = |worker| Room::of_worker(load, (workers, worker), spare(worker), left);
    let rooms = (0..workers).map(|worker| room(worker).in_flight());
    rooms.sum::<u64>() as f64 / load.in_flight_bound() as f64
}

/// What is really left of a load's requests in flight when `left` of them is asked for:
/// connections and requests are whole. `None` where nothing can be taken.
pub fn in_flight_left(load: &Load, left: f64) -> Option<f64> {
    let really = really(load, left);
    (really < 1.0).then_some(really)
}

/// Connections beside those of a closed loop from which a quarter more can be in flight: at
/// least one. None where a bound says what is in flight.
pub fn spare_connections(load: &Load) -> u32 {
    if load.max_in_flight.is_some() {
        return 0;
    }
    ((f64::from(load.connections) * MORE).round() as u32).max(1)
}

/// What a load's requests in flight are multiplied by when its spare connections are used, or more
/// bound.
pub fn in_flight_more(load: &Load) -> f64 {
    really(load, 1.0 + MORE)
}

/// Spins for a part of the calling worker's working time.
#[derive(Debug)]
pub(crate) struct Slowdown {
    /// Spinning for each unit of work.
    per_work: f64,
    counted_ns: u64,
    owed_ns: f64,
}

/// Shorter turns would be mostly spent reading the clock.
const SPIN_NS_MIN: f64 = 20_000.0;

impl Slowdown {
    /// At most `speed` of the worker's speed is left from now on, by the CPU time of its thread.
    pub(crate) fn to(speed: f64, cpu_ns: u64) -> Slowdown {
        Slowdown {
            per_work: (1.0 - speed) / speed,
            counted_ns: cpu_ns,
            owed_ns: 0.0,
        }
    }

    /// After some work; gives the time spun.
    pub(crate) fn spin(&mut self, cpu_ns: impl Fn() -> u64) -> u64 {
        let mut spun_ns = 0;
        let mut now_ns = cpu_ns();
        self.owed_ns += (now_ns - self.counted_ns) as f64 * self.per_work;
        if self.owed_ns >= SPIN_NS_MIN {
            let began_ns = now_ns;
            while ((now_ns - began_ns) as f64) < self.owed_ns {
                std::hint::spin_loop();
                now_ns = cpu_ns();
            }
            spun_ns = now_ns - began_ns;
            self.owed_ns -= spun_ns as f64;
        }
        self.counted_ns = now_ns;
        spun_ns
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use wallfinder_model::{Arrival, DRAIN_DEFAULT, Decode, Stop};

    use super::*;

    #[test]
    fn connections_are_held_back_before_depth() {
        assert_eq!(Room::left(16, 1, 0.8).connections, 13);
        assert_eq!(Room::left(100, 10, 0.5).depth, 10);
        assert_eq!(Room::left(2, 10, 0.8).depth, 8);
        assert_eq!(Room::left(1, 1, 0.5).depth, 1);
        assert_eq!(Room::left(4, 1, 0.1).connections, 1);
    }

    #[test]
    fn a_quarter_more_is_had_from_spare_connections() {
        let room = Room::of(16, 4, 1, 1.25);
        assert_eq!((room.connections, room.depth), (20, 1));
        assert_eq!(Room::of(16, 4, 1, 1.0).connections, 16);
        assert_eq!(Room::of(16, 4, 1, 0.8).connections, 13);
    }

    fn load_of(connections: u32) -> Load {
        Load {
            connections,
            in_flight_per_connection: 1,
            max_in_flight: None,
            workers: 1,
            arrival: Arrival::Closed { think: Nanos(0) },
            warmup: Nanos(0),
            stop: Stop {
                after: Nanos::from_secs(1),
                requests: None,
            },
            timeout: Nanos::from_secs(1),
            drain: DRAIN_DEFAULT,
            connection_per_request: false,
            method: "GET".to_owned(),
            header_names: Vec::new(),
            body_bytes: 0,
            decode: Decode::None,
            no_batching: false,
        }
    }

    #[test]
    fn a_bound_of_requests_in_flight_is_lowered_or_raised() {
        let bound = |left| Room::limited(500, 1, 50, left).in_flight_max;
        assert_eq!((bound(1.0), bound(0.8), bound(1.25)), (50, 40, 63));
        assert_eq!(Room::limited(500, 1, 1, 0.1).in_flight_max, 1);
        let mut load = Load {
            max_in_flight: Some(50),
            ..load_of(500)
        };
        assert_eq!(in_flight_left(&load, 0.8), Some(0.8));
        assert_eq!((spare_connections(&load), in_flight_more(&load)), (0, 1.26));
        // Where there are as many as wanted, nobody waits, and more of them bring nothing.
        load.max_in_flight = Some(500);
        assert_eq!(in_flight_more(&load), 1.0);
    }

    #[test]
    fn a_setting_is_followed_when_every_worker_follows_the_last_one() {
        let levers = Levers::default();
        levers.set(Setting::FREE);
        let (first, _) = levers.setting();
        levers.follow(first);
        assert!(levers.are_followed_by(1) && !levers.are_followed_by(2));
        levers.set(Setting::FREE);
        assert!(!levers.are_followed_by(1));
        let (second, _) = levers.setting();
        levers.follow(second);
        // A worker that was late for the one before, and comes to the last one after.
        levers.follow(first);
        assert!(!levers.are_followed_by(2));
        levers.follow(second);
        assert!(levers.are_followed_by(2));
    }

    #[test]
    fn a_worker_at_half_speed_spins_as_long_as_it_works() {
        // A clock that goes on by 100 ns whenever it is read.
        let cpu = Cell::new(0);
        let read = || {
            cpu.set(cpu.get() + 100);
            cpu.get()
        };
        let mut slow = Slowdown::to(0.5, 0);
        let (mut worked_ns, mut spun_ns) = (0, 0);
        for _ in 0..200 {
            cpu.set(cpu.get() + 49_900);
            worked_ns += 50_000;
            spun_ns += slow.spin(read);
        }
        assert_eq!(spun_ns, worked_ns);
        assert_eq!(cpu.get(), worked_ns + spun_ns);
        // Turns that are too short to spin after are owed.
        assert_eq!((slow.spin(|| cpu.get() + 19_000)), 0);
        cpu.set(cpu.get() + 20_000);
        assert_eq!(slow.spin(read), 20_100);
    }
}
