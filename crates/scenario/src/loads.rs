//! Which loads are held: the steps of a ramp, the turns of a comparison, the search for the ceiling, and what
//! an experiment needs beside its load.

use wallfinder_model::{Effort, Nanos, Rate, Scenario};

/// Connections where nobody says how many.
pub const CONNECTIONS: u32 = 64;
/// The same for `bytes`.
pub const CONNECTIONS_OF_BYTES: u32 = 20;
/// Shorter windows than this say little of a tail.
pub const WINDOW_MIN: Nanos = Nanos::from_millis(300);
/// What is captured is captured for whole seconds.
pub const CAPTURED_MIN: Nanos = Nanos::from_millis(1300);
/// How long a foreign driver is let run at a time.
pub const DRIVER_RUN: Nanos = Nanos::from_secs(30);

/// Connections that the search for the ceiling begins and ends with.
const SEARCH_FIRST: u32 = 4;
const SEARCH_LAST: u32 = 1024;
const SEARCH_FACTOR: u32 = 4;
/// Steps in a row that bring less than this much more end it.
const GROWTH_MIN: f64 = 1.05;
/// Answers for each request in flight at which a rise is believed or not, whatever the window's ends may be.
const TURNS_SURE: f64 = 6.0;
/// A step of the search lasts no longer for that.
const SEARCH_STEP_MAX: Nanos = Nanos::from_secs(4);
const FLAT_STEPS: usize = 2;
/// A step that comes this close to the most has reached the ceiling.
const AT_CEILING: f64 = 0.97;
/// Length of a step of the search.
const SEARCH_STEP: Nanos = Nanos::from_millis(800);
const SEARCH_WARMUP: Nanos = Nanos::from_millis(300);
/// Connections, or requests in flight, of a worker at the least: each worker rests a whole number of its own,
/// and of these a fifth and a tenth are more than none.
const WORKER_CONNECTIONS_MIN: u32 = 8;
/// How long requests are asked one at a time.
const ALONE_LEAST: Nanos = Nanos::from_secs(1);
const ALONE_MOST: Nanos = Nanos::from_secs(5);

/// The scenario of each step of `ramp`.
pub fn of_ramp(scenario: &Scenario) -> Vec<Scenario> {
    let ramp = scenario.ramp.clone().unwrap_or_default();
    let most = ramp.connections.iter().copied().max().unwrap_or(1);
    let step = |connections: u32| {
        let mut step = scenario.clone();
        step.load.connections = Some(connections);
        step
    };
    if !ramp.rates.is_empty() {
        let at_rate = |rate: &Rate| {
            let mut step = step(most);
            step.load.rate = Some(*rate);
            step
        };
        return ramp.rates.iter().map(at_rate).collect();
    }
    if !ramp.depths.is_empty() {
        let at_depth = |depth: &u32| {
            let mut step = step(most);
            step.load.pipeline = *depth;
            step
        };
        return ramp.depths.iter().map(at_depth).collect();
    }
    ramp.connections.iter().copied().map(step).collect()
}

/// A scenario that is held in turn with others: each round has its part of the time, and no less than `least`;
/// the engine's ceiling is not measured after each.
pub fn in_turn(scenario: &Scenario, rounds: u32, least: Nanos) -> Scenario {
    let mut turn = scenario.clone();
    let each = scenario.load.duration.0 / u64::from(rounds);
    turn.load.duration = Nanos(each.max(least.0));
    turn.load.warmup = turn.load.warmup.or(Some(Nanos::from_millis(300)));
    turn.watch.no_calibrate = true;
    turn
}

/// Engine threads: as many as are asked for, else one for each processor that is theirs; each needs a
/// connection, and room for one in flight where that is bounded.
pub fn workers(scenario: &Scenario, connections: u32, processors: u32) -> u32 {
    let bound = scenario.load.max_in_flight.unwrap_or(u32::MAX);
    let asked = scenario.load.threads.unwrap_or(processors);
    asked.clamp(1, connections.min(bound).max(1))
}

/// Engine threads of a closed loop that is to be squeezed, so that each has enough in flight for a part of it
/// to be taken.
pub fn workers_squeezed(connections: u32, bound: Option<u32>) -> u32 {
    let each_has = connections.min(bound.unwrap_or(u32::MAX));
    (each_has / WORKER_CONNECTIONS_MIN).max(1)
}

/// The length of what windows under squeezes are compared with: four of them, where they are as long as was
/// asked for.
pub fn base_window(effort: Effort, window: Option<Nanos>) -> Nanos {
    if let Some(Nanos(window)) = window {
        return Nanos(4 * window);
    }
    match effort {
        Effort::Quick => Nanos::from_secs(2),
        Effort::Normal => Nanos::from_secs(3),
        Effort::Thorough => Nanos::from_secs(6),
    }
}

/// How long the server is profiled at the wall: whole seconds, and a margin.
pub fn profiled_for(effort: Effort) -> Nanos {
    match effort {
        Effort::Quick => Nanos::from_millis(2300),
        Effort::Normal | Effort::Thorough => Nanos::from_millis(5300),
    }
}

/// How long a foreign driver loads meanwhile: its rise and its end are left out.
pub fn driven_for(effort: Effort) -> Nanos {
    match effort {
        Effort::Quick => Nanos::from_secs(4),
        Effort::Normal | Effort::Thorough => Nanos::from_secs(7),
    }
}

/// One request at a time, with pauses of ten times what comes between two answers of a load, in which whatever
/// a request waits for is free again. `throughput` is above 0.
pub fn alone(scenario: &Scenario, throughput: f64) -> Scenario {
    const PAUSES: f64 = 10.0;
    const PAUSE_MAX: Nanos = Nanos::from_millis(500);
    let apart_s = 1.0 / throughput;
    let mut alone = scenario.clone();
    let load = &mut alone.load;
    load.connections = Some(1);
    load.pipeline = 1;
    load.max_in_flight = None;
    load.rate = None;
    load.think = Nanos((PAUSES * apart_s * 1e9) as u64).min(PAUSE_MAX);
    load.duration = Nanos((1_000.0 * apart_s * 1e9) as u64).clamp(ALONE_LEAST, ALONE_MOST);
    load.warmup = Some(SEARCH_WARMUP);
    alone.watch.no_calibrate = true;
    alone
}

/// What was in flight in a window on average, and how many answers came in it.
#[derive(Debug, Clone, Copy)]
pub struct Turns {
    /// Requests.
    pub in_flight: f64,
    /// Answers.
    pub answered: u64,
}

impl Turns {
    /// What of a throughput is not that of the window's ends.
    fn at_least(self, throughput: f64) -> f64 {
        let of_ends = self.in_flight / self.answered.max(1) as f64;
        throughput * (1.0 - of_ends).max(0.0)
    }
}

/// The search for the ceiling: four times the connections, until throughput grows no more.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// Connections, and the throughput at them.
    seen: Vec<(u32, f64)>,
}

impl Search {
    /// Connections of the next step; `None`: it is known by now.
    pub fn next(&self) -> Option<u32> {
        let next = match self.seen.last() {
            None => SEARCH_FIRST,
            Some(_) if self.is_flat() => return None,
            Some((connections, _)) => connections * SEARCH_FACTOR,
        };
        (next <= SEARCH_LAST).then_some(next)
    }

    /// The scenario of such a step.
    pub fn step(scenario: &Scenario, connections: u32) -> Scenario {
        let mut step = scenario.clone();
        step.load.connections = Some(connections);
        step.load.duration = SEARCH_STEP;
        step.load.warmup = Some(SEARCH_WARMUP);
        step.watch.no_calibrate = true;
        step
    }

    /// What a step brought: its throughput, and how many answers there were beside what was in flight on average.
    /// Those under way as a window opens and closes may all be answered in it, or none: a rise that may be theirs
    /// alone is not believed.
    pub fn saw(&mut self, connections: u32, throughput: f64, turns: Turns) {
        let before = self.best();
        let is_sure = self.seen.is_empty() || turns.at_least(throughput) > before;
        let believed = match is_sure {
            true => throughput,
            false => throughput.min(before),
        };
        self.seen.push((connections, believed));
    }

    /// How long the step has to be measured for its rise to be believed or not; `None`: that is known.
    pub fn longer(&self, throughput: f64, turns: Turns) -> Option<Nanos> {
        let before = self.best();
        let may_rise = !self.seen.is_empty() && throughput > before * GROWTH_MIN;
        let is_unsure = may_rise && turns.at_least(throughput) <= before;
        let seconds = TURNS_SURE * turns.in_flight / throughput;
        let longer = Nanos((seconds * 1e9) as u64).min(SEARCH_STEP_MAX);
        (is_unsure && longer > SEARCH_STEP).then_some(longer)
    }

    fn best(&self) -> f64 {
        self.seen.iter().map(|(_, x)| *x).fold(0.0, f64::max)
    }

    /// Steps so far.
    pub fn steps(&self) -> usize {
        self.seen.len()
    }

    /// Whether the last steps brought nothing more than the best before them.
    fn is_flat(&self) -> bool {
        let seen = &self.seen;
        let Some(before) = seen.len().checked_sub(FLAT_STEPS).filter(|n| *n > 0) else {
            return false;
        };
        let best = |steps: &[(u32, f64)]| steps.iter().map(|(_, x)| *x).fold(0.0, f64::max);
        best(&seen[before..]) < best(&seen[..before]) * GROWTH_MIN
    }

    /// At how many connections the ceiling is to be squeezed, well past the knee, where more in flight brings
    /// nothing: four times those that reach it, as far as throughput keeps up.
    pub fn past_the_knee(&self) -> u32 {
        let most = self.seen.iter().map(|(_, x)| *x).fold(0.0, f64::max);
        let reaches = |(_, x): &&(u32, f64)| *x >= most * AT_CEILING;
        let mut reaching = self.seen.iter().filter(reaches);
        let knee = reaching.next().map_or(SEARCH_FIRST, |(n, _)| *n);
        let beyond = reaching.rev().find(|(n, _)| *n <= knee * SEARCH_FACTOR);
        beyond.map_or(knee, |(n, _)| *n)
    }
}

#[cfg(test)]
mod tests {
    use wallfinder_model::scenario::Ramp;

    use super::*;

    fn searched(seen: &[(u32, f64)]) -> Search {
        let mut search = Search::default();
        for (connections, throughput) in seen {
            assert_eq!(search.next(), Some(*connections), "{seen:?}");
            search.saw(*connections, *throughput, MANY);
        }
        search
    }

    /// Answers enough for throughput to be what it says.
    const MANY: Turns = Turns {
        in_flight: 1.0,
        answered: 1_000_000,
    };

    fn turns(in_flight: u32, answered: u64) -> Turns {
        Turns {
            in_flight: f64::from(in_flight),
            answered,
        }
    }

    #[test]
    fn a_rise_that_the_ends_of_a_window_may_make_is_none() {
        // 20 KB each behind 20 Mbit/s: 119 a second, whatever is in flight.
        let mut search = Search::default();
        search.saw(4, 119.0, turns(4, 95));
        search.saw(16, 118.0, turns(16, 94));
        let first = turns(64, 126);
        let longer = search.longer(157.0, first).expect("it may be none");
        assert!((2.0..2.6).contains(&longer.as_secs_f64()), "{longer:?}");
        search.saw(64, 121.0, turns(64, 297));
        assert_eq!((search.next(), search.past_the_knee()), (None, 16));
    }

    #[test]
    fn a_slow_server_that_answers_in_parallel_is_measured_for_longer_and_believed() {
        // Each takes 0.7 s.
        let mut search = Search::default();
        search.saw(4, 5.7, turns(4, 5));
        for connections in [16_u32, 64, 256] {
            let throughput = f64::from(connections) / 0.7;
            let seen = |seconds: f64| turns(connections, (throughput * seconds) as u64);
            let longer = search.longer(throughput, seen(0.8));
            let longer = longer.expect("0.8 s do not tell");
            assert!(longer <= SEARCH_STEP_MAX);
            search.saw(connections, throughput, seen(longer.as_secs_f64()));
        }
        assert_eq!(search.next(), Some(1024));
        assert!(search.longer(257.0 / 0.7, turns(256, 366 * 4)).is_none());
    }

    #[test]
    fn the_search_ends_when_two_steps_bring_nothing() {
        assert_eq!(Search::default().next(), Some(4));
        assert_eq!(searched(&[(4, 10.0), (16, 20.0)]).next(), Some(64));
        let grows = [(4, 10.0), (16, 20.0), (64, 20.1), (256, 30.0)];
        assert_eq!(searched(&grows).next(), Some(1024));
        let flat = [(4, 10.0), (16, 20.0), (64, 20.1), (256, 19.0)];
        assert_eq!(searched(&flat).next(), None);
        let always: Vec<(u32, f64)> = (1..=5).map(|n| (1 << (2 * n), f64::from(1 << n))).collect();
        assert_eq!(searched(&always).next(), None, "1024 are enough");
    }

    #[test]
    fn the_ceiling_is_squeezed_well_past_the_knee() {
        let mut search = Search::default();
        assert_eq!(search.past_the_knee(), 4);
        for (connections, throughput) in [(4, 10.0), (16, 20.0), (64, 20.1), (256, 20.0)] {
            search.saw(connections, throughput, MANY);
        }
        assert_eq!(search.past_the_knee(), 64);
        let falls = searched(&[(4, 10.0), (16, 20.0), (64, 18.0), (256, 12.0)]);
        assert_eq!(falls.past_the_knee(), 16);
    }

    #[test]
    fn a_ramp_has_a_step_for_each_load() {
        let steps = |ramp: Ramp| {
            let scenario = Scenario {
                ramp: Some(ramp),
                ..Scenario::default()
            };
            let load = |step: Scenario| {
                let rate = step.load.rate.map(|rate| rate.0);
                (step.load.connections, step.load.pipeline, rate)
            };
            of_ramp(&scenario).into_iter().map(load).collect::<Vec<_>>()
        };
        let ramp = || Ramp {
            connections: vec![1, 9, 4],
            ..Ramp::default()
        };
        let plain = [(Some(1), 1, None), (Some(9), 1, None), (Some(4), 1, None)];
        assert_eq!(steps(ramp()), plain);
        let rates = Ramp {
            rates: vec![Rate(10.0), Rate(5.0)],
            ..ramp()
        };
        let open = [(Some(9), 1, Some(10.0)), (Some(9), 1, Some(5.0))];
        assert_eq!(steps(rates), open);
        let depths = Ramp {
            depths: vec![2, 8],
            ..ramp()
        };
        assert_eq!(steps(depths), [(Some(9), 2, None), (Some(9), 8, None)]);
    }

    #[test]
    fn a_turn_has_its_part_of_the_time_and_no_less_than_it_needs() {
        let mut scenario = Scenario::default();
        scenario.load.duration = Nanos::from_secs(16);
        let turn = in_turn(&scenario, 8, WINDOW_MIN);
        assert_eq!(turn.load.duration, Nanos::from_secs(2));
        assert_eq!(turn.load.warmup, Some(Nanos::from_millis(300)));
        assert!(turn.watch.no_calibrate);
        let short = in_turn(&scenario, 160, WINDOW_MIN);
        assert_eq!(short.load.duration, WINDOW_MIN);
    }

    #[test]
    fn workers_have_a_connection_and_room_each() {
        let mut scenario = Scenario::default();
        assert_eq!(workers(&scenario, 64, 2), 2);
        assert_eq!(workers(&scenario, 1, 2), 1);
        assert_eq!(workers(&scenario, 0, 2), 1);
        scenario.load.max_in_flight = Some(3);
        assert_eq!(workers(&scenario, 64, 8), 3);
        scenario.load.threads = Some(2);
        assert_eq!(workers(&scenario, 64, 8), 2);
        let squeezed = [4, 8, 16, 64].map(|n| workers_squeezed(n, None));
        assert_eq!(squeezed, [1, 1, 2, 8]);
        assert_eq!(workers_squeezed(64, Some(16)), 2);
    }

    #[test]
    fn one_at_a_time_leaves_what_is_waited_for_free() {
        let mut scenario = Scenario::default();
        scenario.load.max_in_flight = Some(4);
        let load = alone(&scenario, 1_000.0).load;
        assert_eq!(load.connections, Some(1));
        assert_eq!(load.max_in_flight, None);
        assert_eq!(load.think, Nanos::from_millis(10));
        assert_eq!(load.duration, Nanos::from_secs(1));
        let slow = alone(&scenario, 1.0).load;
        assert_eq!(slow.think, Nanos::from_millis(500));
        assert_eq!(slow.duration, Nanos::from_secs(5));
    }
}
