//! Waits by timers: stations in series, each with a number of servers and a queue that is
//! first come, first served.
//!
//! ```text
//!   a sleep:  ( any number of servers, fixed time )
//!   permits:  ( 4 servers, fixed time )
//!   stages:   ( 1 server, exponential ) ─► ( 1 ) ─► ( 1 )
//! ```
//!
//! Time is an argument, in nanoseconds from any origin, and never goes back. A request that
//! leaves one station enters the next, and hands its server over, at the *intended* instant,
//! however late somebody looks: throughput is that of the queueing model and not of the
//! machine's timers.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::draws::Draws;

/// How long a station serves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServiceTime {
    /// Always as long, in nanoseconds.
    Fixed(u64),
    /// Exponential with this mean, in nanoseconds.
    Exponential(u64),
}

/// One station.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StationPlan {
    /// How many are served at a time; `None`: all.
    pub servers: Option<u32>,
    /// For how long.
    pub time: ServiceTime,
}

#[derive(Debug)]
struct Station {
    plan: StationPlan,
    busy: u32,
    queue: VecDeque<u64>,
}

/// Where those are that only wait.
const NOWHERE: usize = usize::MAX;

/// Stations in series, and who is where. A request is a number of the caller's.
#[derive(Debug)]
pub struct Stations {
    stations: Vec<Station>,
    /// (done at, order of entry, station, request): earliest first.
    in_service: BinaryHeap<Reverse<(u64, u64, usize, u64)>>,
    entries: u64,
    draws: Draws,
}

impl Stations {
    /// Empty ones.
    pub fn new(plans: &[StationPlan], draws: Draws) -> Stations {
        let station = |plan: &StationPlan| Station {
            plan: *plan,
            busy: 0,
            queue: VecDeque::new(),
        };
        Stations {
            stations: plans.iter().map(station).collect(),
            in_service: BinaryHeap::new(),
            entries: 0,
            draws,
        }
    }

    /// Whether there is none: requests need not enter then.
    pub fn is_empty(&self) -> bool {
        self.stations.is_empty()
    }

    /// A request enters the first station. `stretch` scales its times.
    pub fn enter(&mut self, now_ns: u64, request: u64, stretch: f64) {
        self.arrive(now_ns, 0, request, stretch);
    }

    /// A request waits for so long, passes no station, and leaves.
    pub fn rest(&mut self, now_ns: u64, request: u64, for_ns: u64) {
        self.entries += 1;
        let due = (now_ns + for_ns, self.entries, NOWHERE, request);
        self.in_service.push(Reverse(due));
    }

    /// When to look again.
    pub fn next_due_ns(&self) -> Option<u64> {
        self.in_service.peek().map(|Reverse((due, ..))| *due)
    }

    /// Lets time pass until `now_ns` and adds those who left the last station, in order.
    pub fn leave(&mut self, now_ns: u64, stretch: f64, left: &mut Vec<u64>) {
        while let Some(Reverse((due_ns, _, at, request))) = self.in_service.peek().copied() {
            if due_ns > now_ns {
                return;
            }
            self.in_service.pop();
            if at == NOWHERE {
                left.push(request);
                continue;
            }
            self.stations[at].busy -= 1;
            if let Some(next) = self.stations[at].queue.pop_front() {
                self.serve(due_ns, at, next, stretch);
            }
            if at + 1 < self.stations.len() {
                self.arrive(due_ns, at + 1, request, stretch);
            } else {
                left.push(request);
            }
        }
    }

    fn arrive(&mut self, now_ns: u64, at: usize, request: u64, stretch: f64) {
        let station = &mut self.stations[at];
        let full = station.plan.servers.is_some_and(|n| station.busy >= n);
        if full {
            station.queue.push_back(request);
        } else {
            self.serve(now_ns, at, request, stretch);
        }
    }

    fn serve(&mut self, now_ns: u64, at: usize, request: u64, stretch: f64) {
        let time_ns = match self.stations[at].plan.time {
            ServiceTime::Fixed(ns) => ns as f64,
            ServiceTime::Exponential(mean_ns) => self.draws.exponential(mean_ns as f64),
        };
        self.stations[at].busy += 1;
        self.entries += 1;
        let due_ns = now_ns + (time_ns * stretch) as u64;
        self.in_service
            .push(Reverse((due_ns, self.entries, at, request)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests per second of a closed loop without think time, from a virtual clock. Who is
    /// late by `late_ns` each time shows what lateness costs.
    fn closed_loop(plans: &[StationPlan], in_flight: u64, seconds: u64, late_ns: u64) -> f64 {
        let mut stations = Stations::new(plans, Draws::new(1, 0));
        for request in 0..in_flight {
            stations.enter(0, request, 1.0);
        }
        let (mut answered, mut left) = (0, Vec::new());
        while let Some(due) = stations.next_due_ns() {
            let now = due + late_ns;
            if now > seconds * 1_000_000_000 {
                break;
            }
            stations.leave(now, 1.0, &mut left);
            for request in left.drain(..) {
                answered += 1;
                stations.enter(now, request, 1.0);
            }
        }
        answered as f64 / seconds as f64
    }

    const fn station(servers: Option<u32>, us: u64) -> StationPlan {
        StationPlan {
            servers,
            time: ServiceTime::Fixed(us * 1_000),
        }
    }

    #[test]
    fn a_sleep_lets_any_number_sleep() {
        assert_eq!(closed_loop(&[station(None, 5_000)], 8, 10, 0), 1_600.0);
    }

    #[test]
    fn four_permits_of_five_milliseconds_make_800_a_second() {
        let permits = [station(Some(4), 5_000)];
        assert_eq!(closed_loop(&permits, 64, 10, 0), 800.0);
        assert_eq!(closed_loop(&permits, 2, 10, 0), 400.0);
        // Woken late: those who queue lose nothing, whoever is behind the queue.
        let late = closed_loop(&permits, 64, 10, 200_000);
        assert!((799.0..=800.0).contains(&late), "{late}");
    }

    #[test]
    fn three_equal_exponential_stages_follow_the_closed_form() {
        let stage = StationPlan {
            servers: Some(1),
            time: ServiceTime::Exponential(300_000),
        };
        let throughput = |in_flight| closed_loop(&[stage; 3], in_flight, 200, 0);
        for in_flight in [1_u64, 3, 4, 16] {
            // N / (N + K - 1) of one stage's rate: a balanced closed network.
            let expected = in_flight as f64 / (in_flight + 2) as f64 / 300e-6;
            let ratio = throughput(in_flight) / expected;
            assert!((0.98..1.02).contains(&ratio), "{in_flight}: {ratio}");
        }
    }

    #[test]
    fn first_come_first_served() {
        let mut stations = Stations::new(
            &[station(Some(1), 10), station(Some(2), 10)],
            Draws::new(1, 0),
        );
        for request in 0..5 {
            stations.enter(request, request, 1.0);
        }
        let mut left = Vec::new();
        stations.leave(1_000_000, 1.0, &mut left);
        assert_eq!(left, [0, 1, 2, 3, 4]);
        assert_eq!(stations.next_due_ns(), None);
    }
}
