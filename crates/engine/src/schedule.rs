//! When requests are meant to start: a pure function of how many were issued.
//!
//! What it is: the arrivals of one worker, as offsets from the schedule's zero. What it is
//! not: it reads no clock and remembers no answers; a closed loop has no schedule, since
//! its requests start when answers make room.
//!
//! The arrivals of all workers interleave ([`Turns`]), so that the load is the same whatever the number of workers, and
//! of hosts.

use std::sync::Arc;

use wallfinder_model::Arrival;
use wallfinder_wire::mix::Replay;
use wallfinder_wire::random::mixed;

use crate::turns::Turns;

/// The arrivals of one worker, in order.
#[derive(Debug, Clone)]
pub struct Schedule {
    pattern: Pattern,
    turns: Turns,
    /// Arrivals taken so far.
    taken: u64,
    /// The next arrival, from the schedule's zero; `None` after the last.
    next_ns: Option<u64>,
    /// No arrival beyond this many.
    limit: u64,
    pace: Pace,
}

/// Real time against the schedule's own, which are the same until a lever says otherwise.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// Where the two parted.
    real_ns: u64,
    own_ns: u64,
    /// Own time for each unit of real time.
    factor: f64,
}

impl Pace {
    const REAL: Pace = Pace {
        real_ns: 0,
        own_ns: 0,
        factor: 1.0,
    };

    #[inline]
    fn to_real(self, own_ns: u64) -> u64 {
        if self.factor == 1.0 {
            return (own_ns + self.real_ns).saturating_sub(self.own_ns);
        }
        let ahead = own_ns as f64 - self.own_ns as f64;
        (self.real_ns as f64 + ahead / self.factor).max(0.0) as u64
    }

    fn to_own(self, real_ns: u64) -> u64 {
        if self.factor == 1.0 {
            return (real_ns + self.own_ns).saturating_sub(self.real_ns);
        }
        let ahead = real_ns as f64 - self.real_ns as f64;
        (self.own_ns as f64 + ahead * self.factor).max(0.0) as u64
    }
}

#[derive(Debug, Clone)]
enum Pattern {
    Constant {
        gap_ns: f64,
    },
    Poisson {
        mean_gap_ns: f64,
        seed: u64,
    },
    Ramp {
        from: f64,
        to: f64,
        over_s: f64,
    },
    /// As it was logged, and perhaps from the beginning again.
    Logged {
        at_ns: Arc<[u64]>,
        again_after_ns: Option<u64>,
    },
}

impl Schedule {
    /// The arrivals of the worker in this place; at most `limit` of them. `None` for a
    /// closed loop. The seed matters to Poisson arrivals alone, and what was logged to a replay.
    pub fn new(
        arrival: &Arrival,
        turns: impl Into<Turns>,
        seed: u64,
        limit: u64,
        logged: Option<&Replay>,
    ) -> Option<Schedule> {
        let turns = turns.into();
        let pattern = match arrival {
            Arrival::Closed { .. } => return None,
            Arrival::Constant { rate } => Pattern::Constant {
                gap_ns: 1e9 / rate.0,
            },
            Arrival::Poisson { rate } => Pattern::Poisson {
                mean_gap_ns: 1e9 / rate.0 / turns.part(),
                seed: mixed(seed ^ mixed(turns.number(0) + 1)),
            },
            Arrival::Ramp { from, to, over } => Pattern::Ramp {
                from: from.0,
                to: to.0,
                over_s: over.as_secs_f64(),
            },
            Arrival::Replay { .. } => {
                let replay = logged.expect("a replay has what was logged");
                Pattern::Logged {
                    at_ns: replay.at_ns.as_slice().into(),
                    again_after_ns: replay.again_after_ns,
                }
            }
        };
        let mut schedule = Schedule {
            pattern,
            turns,
            taken: 0,
            next_ns: None,
            limit,
            pace: Pace::REAL,
        };
        schedule.next_ns = schedule.find_next(0.0);
        Some(schedule)
    }

    /// The next arrival, from the schedule's zero.
    #[inline]
    pub fn next_intended_ns(&self) -> Option<u64> {
        self.next_ns.map(|own_ns| self.pace.to_real(own_ns))
    }

    /// From `elapsed_ns` on, arrivals come `factor` times as fast as planned.
    pub fn set_pace(&mut self, elapsed_ns: u64, factor: f64) {
        self.pace = Pace {
            own_ns: self.pace.to_own(elapsed_ns),
            real_ns: elapsed_ns,
            factor,
        };
    }

    /// Ends after so many arrivals, counted from the first.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit;
        if self.taken >= limit {
            self.next_ns = None;
        }
    }

    /// Arrivals taken so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes the next arrival.
    #[inline]
    pub fn take(&mut self) {
        let Some(at) = self.next_ns else { return };
        self.taken += 1;
        self.next_ns = self.find_next(at as f64);
    }

    /// Takes every arrival up to `elapsed_ns`, and says how many there were by then.
    pub fn take_until(&mut self, elapsed_ns: u64) -> u64 {
        let elapsed_ns = self.pace.to_own(elapsed_ns);
        if let Pattern::Constant { gap_ns } = &self.pattern {
            // In closed form, since a long stall can leave millions behind.
            let arrived = self.turns.certainly_below(elapsed_ns as f64 / gap_ns);
            self.taken = self.taken.max(arrived.min(self.limit));
            self.next_ns = self.find_next(0.0);
        }
        while self.next_ns.is_some_and(|at| at <= elapsed_ns) {
            self.take();
        }
        self.taken
    }

    fn find_next(&self, previous_ns: f64) -> Option<u64> {
        if self.taken >= self.limit {
            return None;
        }
        let nth = self.turns.number(self.taken);
        let number = nth as f64;
        let at = match &self.pattern {
            Pattern::Constant { gap_ns } => number * gap_ns,
            Pattern::Poisson { mean_gap_ns, seed } => {
                let bits = mixed(seed.wrapping_add(self.taken)) >> 11;
                let uniform = (bits as f64 + 0.5) / (1_u64 << 53) as f64;
                previous_ns - uniform.ln() * mean_gap_ns
            }
            Pattern::Ramp { from, to, over_s } => 1e9 * ramp_instant(number, *from, *to, *over_s),
            Pattern::Logged {
                at_ns,
                again_after_ns,
            } => {
                let lap = nth.checked_div(at_ns.len() as u64)?;
                let at = at_ns[(nth % at_ns.len() as u64) as usize];
                return match again_after_ns {
                    _ if lap == 0 => Some(at),
                    Some(after) => Some(at + lap * after),
                    None => None,
                };
            }
        };
        Some(at as u64)
    }
}

/// When arrival `number` falls, in seconds, where the rate grows linearly from `from` to
/// `to` over `over_s` seconds and stays there: the inverse of
/// `from·t + (to - from)·t² / (2·over)`.
fn ramp_instant(number: f64, from: f64, to: f64, over_s: f64) -> f64 {
    let within = (from + to) / 2.0 * over_s;
    if number >= within {
        return over_s + (number - within) / to;
    }
    let slope = (to - from) / over_s;
    // The root in the form that stays exact when the slope is near zero.
    2.0 * number / (from + (from * from + 2.0 * slope * number).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wallfinder_model::drive::Share;
    use wallfinder_model::{Nanos, Rate};

    fn arrivals(schedule: &mut Schedule, count: usize) -> Vec<u64> {
        (0..count)
            .map_while(|_| {
                let at = schedule.next_intended_ns();
                schedule.take();
                at
            })
            .collect()
    }

    fn of(arrival: Arrival, worker: u32, workers: u32) -> Schedule {
        part_of(arrival, worker, workers, Share::WHOLE)
    }

    fn part_of(arrival: Arrival, worker: u32, workers: u32, share: Share) -> Schedule {
        let share = share.of_worker(worker, workers);
        Schedule::new(&arrival, share, 7, u64::MAX, None).unwrap()
    }

    #[test]
    fn a_constant_rate_is_evenly_spaced_and_never_drifts() {
        let mut schedule = of(Arrival::Constant { rate: Rate(3000.0) }, 0, 1);
        let at = arrivals(&mut schedule, 3_000_001);
        assert_eq!(at[0], 0);
        assert_eq!(at[3], 1_000_000);
        assert_eq!(at[3_000_000], 1_000_000_000_000);
    }

    #[test]
    fn a_change_of_pace_holds_from_its_instant_on() {
        let mut schedule = of(Arrival::Constant { rate: Rate(1000.0) }, 0, 1);
        let mut count = schedule.clone();
        assert_eq!(arrivals(&mut schedule, 11)[10], 10_000_000);
        schedule.set_pace(10_500_000, 0.5);
        count.set_pace(10_500_000, 0.5);
        assert_eq!(
            arrivals(&mut schedule, 3),
            [11_500_000, 13_500_000, 15_500_000]
        );
        schedule.set_pace(16_500_000, 1.0);
        count.set_pace(16_500_000, 1.0);
        assert_eq!(arrivals(&mut schedule, 2), [17_000_000, 18_000_000]);
        assert_eq!(count.take_until(18_000_000), 16);
    }

    #[test]
    fn workers_share_one_load() {
        let arrival = Arrival::Constant { rate: Rate(1000.0) };
        let alone = arrivals(&mut of(arrival, 0, 1), 300);
        let mut together: Vec<u64> = (0..3)
            .flat_map(|worker| arrivals(&mut of(arrival, worker, 3), 100))
            .collect();
        together.sort_unstable();
        assert_eq!(alone, together);
    }

    /// Of hosts with so many workers each, the arrivals of all before an instant, in time.
    fn of_hosts(arrival: Arrival, workers: &[u32], until_ns: u64) -> Vec<u64> {
        let hosts = workers.len() as u32;
        let shares = (0..hosts).map(|nth| Share { nth, of: hosts });
        let each = shares.zip(workers).flat_map(|(share, workers)| {
            (0..*workers).map(move |worker| part_of(arrival, worker, *workers, share))
        });
        let mut all = Vec::new();
        for mut schedule in each {
            while let Some(at) = schedule.next_intended_ns().filter(|at| *at < until_ns) {
                all.push(at);
                schedule.take();
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn eight_hosts_together_have_the_arrivals_of_one() {
        let rate = Rate(5_000.0);
        let ramp = Arrival::Ramp {
            from: Rate(100.0),
            to: rate,
            over: Nanos::from_secs(1),
        };
        for arrival in [Arrival::Constant { rate }, Arrival::Poisson { rate }, ramp] {
            let alone = of_hosts(arrival, &[8], 2_000_000_000);
            assert_eq!(of_hosts(arrival, &[1; 8], 2_000_000_000), alone);
            assert_eq!(of_hosts(arrival, &[2; 4], 2_000_000_000), alone);
        }
        let constant = Arrival::Constant { rate };
        let uneven = of_hosts(constant, &[1, 4, 2], 2_000_000_000);
        assert_eq!(uneven, of_hosts(constant, &[1], 2_000_000_000));
    }

    #[test]
    fn starts_of_a_constant_rate_go_to_the_hosts_in_turn() {
        let arrival = Arrival::Constant {
            rate: Rate(1_000.0),
        };
        let of_second =
            |worker| arrivals(&mut part_of(arrival, worker, 2, Share { nth: 1, of: 3 }), 3);
        assert_eq!(of_second(0), [1_000_000, 7_000_000, 13_000_000]);
        assert_eq!(of_second(1), [4_000_000, 10_000_000, 16_000_000]);
    }

    #[test]
    fn eight_hosts_of_different_size_make_one_poisson_process() {
        let arrival = Arrival::Poisson {
            rate: Rate(4_000.0),
        };
        let at = of_hosts(arrival, &[1, 2, 1, 4, 1, 1, 3, 1], 10_000_000_000);
        let mut gaps: Vec<f64> = at
            .windows(2)
            .map(|w| (w[1] - w[0]) as f64 / 250e3)
            .collect();
        gaps.sort_unstable_by(f64::total_cmp);
        // Kolmogorov and Smirnov: beyond 1.95 / sqrt(n) once in a thousand times.
        let count = gaps.len() as f64;
        let off = gaps.iter().enumerate().map(|(nth, gap)| {
            let expected = 1.0 - (-gap).exp();
            (expected - nth as f64 / count)
                .abs()
                .max((expected - (nth + 1) as f64 / count).abs())
        });
        let off = off.fold(0.0, f64::max);
        assert!((count / 40_000.0 - 1.0).abs() < 0.02, "{count}");
        assert!(off < 1.95 / count.sqrt(), "{off}");
    }

    #[test]
    fn poisson_gaps_have_the_mean_and_spread_of_an_exponential() {
        let mut schedule = of(Arrival::Poisson { rate: Rate(1000.0) }, 0, 1);
        let at = arrivals(&mut schedule, 100_000);
        let gaps: Vec<f64> = at.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "mean {mean}");
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.03);
    }

    #[test]
    fn a_ramp_integrates_its_rate() {
        let arrival = Arrival::Ramp {
            from: Rate(100.0),
            to: Rate(300.0),
            over: Nanos::from_secs(10),
        };
        let mut schedule = of(arrival, 0, 1);
        assert_eq!(schedule.take_until(10_000_000_000), 2001);
        assert_eq!(schedule.take_until(11_000_000_000), 2301);
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals() {
        let arrival = Arrival::Poisson { rate: Rate(50.0) };
        assert_eq!(
            arrivals(&mut of(arrival, 1, 2), 100),
            arrivals(&mut of(arrival, 1, 2), 100)
        );
        assert_ne!(
            arrivals(&mut of(arrival, 0, 2), 100),
            arrivals(&mut of(arrival, 1, 2), 100)
        );
    }

    proptest! {
        #[test]
        fn counting_agrees_with_taking_one_by_one(
            rate in 1.0_f64..100_000.0,
            workers in 1_u32..5,
            worker in 0_u32..5,
            elapsed in 0_u64..2_000_000_000,
            limit in proptest::option::of(0_u64..1000),
        ) {
            let worker = worker % workers;
            for arrival in [Arrival::Constant { rate: Rate(rate) }, Arrival::Poisson { rate: Rate(rate) }] {
                let mut by_one = Schedule::new(&arrival, Share { nth: worker, of: workers }, 3, limit.unwrap_or(u64::MAX), None).unwrap();
                let mut at_once = by_one.clone();
                while by_one.next_intended_ns().is_some_and(|at| at <= elapsed) {
                    by_one.take();
                }
                prop_assert_eq!(at_once.take_until(elapsed), by_one.taken());
                prop_assert_eq!(at_once.next_intended_ns(), by_one.next_intended_ns());
            }
        }

        #[test]
        fn arrivals_never_go_back(from in 1.0_f64..1e5, to in 1.0_f64..1e5, over in 1_u64..30) {
            let over = Nanos::from_secs(over);
            let arrival = Arrival::Ramp { from: Rate(from), to: Rate(to), over };
            let at = arrivals(&mut of(arrival, 0, 1), 2000);
            prop_assert!(at.windows(2).all(|w| w[0] <= w[1]));
        }
    }
}
