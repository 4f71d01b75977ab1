//! Which loads are raced, and what is aimed at in each.

use crate::contestants::Contestant;

/// One load, the same for every contestant.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// The request's target.
    pub path: &'static str,
    /// Connections, all of one thread.
    pub connections: u32,
    /// Requests in flight on each.
    pub depth: u32,
    /// What our client's CPU per request should be, at most, times a peer's.
    pub aims: &'static [Aim],
}

/// A bound on the ratio of client CPU per request, ours to a peer's.
#[derive(Debug, Clone, Copy)]
pub struct Aim {
    /// Compared with whom.
    pub against: Contestant,
    /// The ratio is to be at most this.
    pub at_most: f64,
}

const fn aim(against: Contestant, at_most: f64) -> Aim {
    Aim { against, at_most }
}

/// All of them.
pub const SCENARIOS: [Scenario; 3] = [
    Scenario {
        name: "simple-1",
        path: "/simple",
        connections: 100,
        depth: 1,
        aims: &[
            aim(Contestant::Wrk, 1.00),
            aim(Contestant::Shb, 1.00),
            aim(Contestant::NULL_EPOLL, 1.05),
            aim(Contestant::NULL_URING_8, 1.05),
        ],
    },
    Scenario {
        name: "simple-100",
        path: "/simple",
        connections: 100,
        depth: 100,
        aims: &[
            aim(Contestant::Wrk, 0.85),
            aim(Contestant::NULL_EPOLL, 1.30),
            aim(Contestant::NULL_URING_8, 1.30),
        ],
    },
    Scenario {
        name: "read-1",
        path: "/read",
        connections: 100,
        depth: 1,
        aims: &[aim(Contestant::Wrk, 1.00), aim(Contestant::Shb, 1.00)],
    },
];
