//! How many requests a worker may have in flight, and what a lever can take of them or add.
//!
//! Connections and requests are whole, so that what is asked for and what comes of it may differ: a
//! caller is told ([`in_flight_left`], [`in_flight_more`]).

use wallfinder_model::Load;
use wallfinder_model::drive::{Clients, Share};

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
    /// Of a whole load, without its spare connections: a bound is lowered, or raised by a quarter. Where there is none
    /// there are fewer connections, or fewer requests on each where that is nearer to what is asked for.
    fn of_load(load: &Load, left: f64) -> Room {
        let all = Room {
            connections: load.connections,
            depth: load.in_flight_per_connection,
            in_flight_max: load.max_in_flight.map_or(u64::MAX, u64::from),
        };
        if let Some(bound) = load.max_in_flight.map(f64::from) {
            let wanted = match left > 1.0 {
                true => bound + (bound * MORE).round().max(1.0),
                false => (bound * left).round().max(1.0),
            };
            return Room {
                in_flight_max: wanted as u64,
                ..all
            };
        }
        if left >= 1.0 {
            return all;
        }
        /// So far off is near enough.
        const ABOUT: f64 = 0.1;
        let part = |whole: u32| ((f64::from(whole) * left).round() as u32).max(1);
        let off = |whole: u32| (f64::from(part(whole)) / f64::from(whole) - left).abs();
        let mut room = all;
        match off(all.connections) <= off(all.depth).max(ABOUT) {
            true => room.connections = part(all.connections),
            false => room.depth = part(all.depth),
        }
        room
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
        let part = |whole: u32| share.of(u64::from(whole)) as u32;
        let whole = Room::of_load(load, left);
        let is_limited = whole.is_limited_in_flight();
        let room = Room {
            connections: part(whole.connections)
                + if left > 1.0 && !is_limited { spare } else { 0 },
            depth: whole.depth,
            in_flight_max: match is_limited {
                true => share.of(whole.in_flight_max),
                false => u64::MAX,
            },
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
                connections: room.connections + part(connections),
                in_flight_max: room
                    .in_flight_max
                    .saturating_add(share.of(u64::from(in_flight))),
                ..room
            },
        }
    }

    /// Whether a bound says what may be in flight.
    #[inline]
    pub(crate) fn is_limited_in_flight(&self) -> bool {
        self.in_flight_max != u64::MAX
    }

    fn in_flight(&self) -> u64 {
        (u64::from(self.connections) * u64::from(self.depth)).min(self.in_flight_max)
    }
}

/// So much more can be in flight where a lever asks for more.
const MORE: f64 = 0.25;

/// Of the whole, over what the load has in flight at the most.
fn really(load: &Load, left: f64) -> f64 {
    let mut room = Room::of_load(load, left);
    if left > 1.0 {
        room.connections += spare_connections(load);
    }
    room.in_flight() as f64 / load.in_flight_bound() as f64
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

/// How many of a load's connections there are, or of the requests in flight that are its bound, when `left` of them is asked
/// for: what may be dealt to those who make the load together. `None` where neither is changed.
pub fn places_left(load: &Load, left: f64) -> Option<u64> {
    let room = Room::of_load(load, left);
    let connections = u64::from(room.connections);
    match room.is_limited_in_flight() {
        true => (left != 1.0).then_some(room.in_flight_max),
        false => (connections < u64::from(load.connections)).then_some(connections),
    }
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
        let room = |connections, depth, left| {
            let load = Load {
                in_flight_per_connection: depth,
                ..load_of(connections)
            };
            let room = Room::of_load(&load, left);
            (room.connections, room.depth)
        };
        assert_eq!(room(16, 1, 0.8), (13, 1));
        assert_eq!(room(100, 10, 0.5), (50, 10));
        assert_eq!(room(2, 10, 0.8), (2, 8));
        assert_eq!(room(3, 10, 0.8), (3, 8));
        assert_eq!(room(3, 1, 0.8), (2, 1));
        assert_eq!(room(1, 1, 0.5), (1, 1));
        assert_eq!(room(4, 1, 0.1), (1, 1));
        assert_eq!(room(16, 1, 1.25), (16, 1));
    }

    #[test]
    fn what_is_left_of_a_load_is_dealt_to_its_workers() {
        let load = load_of(8);
        let of = |left| {
            let room = |worker| Room::of_worker(&load, (4, worker), 1, left, Clients::All);
            [0, 1, 2, 3].map(|worker| room(worker).connections)
        };
        assert_eq!(of(0.8), [2, 2, 1, 1]);
        assert_eq!(of(0.25), [1, 1, 0, 0]);
        assert_eq!(of(1.0), [2; 4]);
        assert_eq!(of(1.25), [3; 4]);
        assert_eq!(in_flight_left(&load, 0.8), Some(0.75));
        assert_eq!(places_left(&load, 0.8), Some(6));
        assert_eq!(places_left(&load, 1.0), None);
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
        let mut load = Load {
            max_in_flight: Some(50),
            ..load_of(500)
        };
        let bound = |load: &Load, left| Room::of_load(load, left).in_flight_max;
        let bounds = [1.0, 0.8, 1.25].map(|left| bound(&load, left));
        assert_eq!(bounds, [50, 40, 63]);
        assert_eq!(places_left(&load, 0.8), Some(40));
        assert_eq!(in_flight_left(&load, 0.8), Some(0.8));
        assert_eq!((spare_connections(&load), in_flight_more(&load)), (0, 1.26));
        load.max_in_flight = Some(1);
        assert_eq!(bound(&load, 0.1), 1);
        // Where there are as many as wanted no request waits, and more of them bring nothing.
        load.max_in_flight = Some(500);
        assert_eq!(in_flight_more(&load), 1.0);
    }
}
