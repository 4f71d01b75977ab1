//! How many requests a worker may have in flight, and what a lever can take of them or add.
//!
//! Connections and requests are whole, so that what is asked for and what comes of it may differ: a
//! caller is told ([`in_flight_left`], [`in_flight_more`]).

use wallfinder_model::Load;
use wallfinder_model::drive::{Clients, Share};

use crate::plan::workers_of;

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

    /// Of one worker of a load that is on a host which may rest or take over, with so many spare connections.
    pub(crate) fn of_worker(
        load: &Load,
        (workers, worker): (u32, u32),
        spare: u32,
        left: f64,
        clients: Clients,
    ) -> Room {
        let share = Share {
            nth: worker,
            of: workers,
        };
        let part = |whole: u32| share.of(u64::from(whole));
        let (connections, depth) = (part(load.connections) as u32, load.in_flight_per_connection);
        let room = match load.max_in_flight {
            Some(bound) => Room::limited(connections, depth, part(bound), left),
            None => Room::of(connections, spare, depth, left),
        };
        match clients {
            Clients::All | Clients::Rest { .. } => room,
            Clients::Rests => Room {
                connections: 0,
                in_flight_max: if room.is_limited_in_flight() {
                    0
                } else {
                    u64::MAX
                },
                ..room
            },
            Clients::TakesOver {
                connections,
                in_flight,
            } => Room {
                connections: room.connections + part(connections) as u32,
                in_flight_max: room.in_flight_max.saturating_add(part(in_flight)),
                ..room
            },
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
    let spare = |nth| Share { nth, of: workers }.of(u64::from(spare_connections(load))) as u32;
    let room = |worker| Room::of_worker(load, (workers, worker), spare(worker), left, Clients::All);
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

#[cfg(test)]
mod tests {

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

    #[test]
    fn a_host_rests_or_takes_over() {
        let mut load = load_of(7);
        let room =
            |load: &Load, worker, clients| Room::of_worker(load, (2, worker), 1, 1.0, clients);
        let takes = Clients::TakesOver {
            connections: 3,
            in_flight: 3,
        };
        let connections = |clients| [0, 1].map(|worker| room(&load, worker, clients).connections);
        assert_eq!(connections(Clients::All), [4, 3]);
        assert_eq!(connections(Clients::Rests), [0, 0]);
        assert_eq!(connections(takes), [6, 4]);
        assert!(!room(&load, 0, takes).is_limited_in_flight());
        load.max_in_flight = Some(5);
        let bounds = |clients| [0, 1].map(|worker| room(&load, worker, clients).in_flight_max);
        assert_eq!(bounds(Clients::All), [3, 2]);
        assert_eq!(bounds(Clients::Rests), [0, 0]);
        assert_eq!(bounds(takes), [5, 3]);
    }

    fn load_of(connections: u32) -> Load {
        Load::closed(connections)
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
        // Where there are as many as wanted no request waits, and more of them bring nothing.
        load.max_in_flight = Some(500);
        assert_eq!(in_flight_more(&load), 1.0);
    }
}
