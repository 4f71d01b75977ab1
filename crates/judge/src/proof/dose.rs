//! Where what is slack begins to bind: r*, and with it the next wall.
//!
//! A resource with ceiling C = X·e^g answers a squeeze to r with min(0, g + ln r): nothing
//! until it binds, then in proportion. Where a dose binds beyond doubt, g is read off it.
//! Around the knee the answer is rounder than that (two stations of like speed share the
//! cycle), so doses well past it are preferred; and where two of them show another slope
//! than 1 (collectors and overheads answer more than the dose), the line is drawn with it.
//!
//! What a dose of 0.5 does not bind lies beyond twice the present throughput. For that the
//! service demand says where, with a cost per request taken as constant.

use std::collections::BTreeMap;

use wallfinder_model::Wall;
use wallfinder_model::experiment::Squeeze;
use wallfinder_model::verdict::{NextWall, ResourceView};

use super::claims::ONE_THREAD_MAX;
use super::estimate::{ALPHA, Estimate};
use super::looks;
use super::readings::{AtDose, Reading, Readings};
use super::squares::Effect;
use crate::finite::positive;

/// Loss, in ln of throughput, from which a dose certainly binds.
const BINDS: f64 = 0.02;
/// Loss from which the knee is well past.
const WELL_PAST: f64 = 0.08;
/// Rounds without which nothing is read off a dose.
const ROUNDS_MIN: u32 = 2;
/// Slopes outside are noise.
const SLOPES: (f64, f64) = (0.7, 1.5);

/// The ceiling of one resource over the present throughput.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ceiling {
    pub(super) ratio: f64,
    /// 95 % interval; `None` where it is from service demand alone.
    pub(super) interval: Option<(f64, f64)>,
}

/// Ceilings of everything that was squeezed or seen, `walls` apart.
pub(super) fn ceilings(
    readings: &Readings,
    views: &[ResourceView],
    throughput: f64,
    walls: &[Wall],
) -> BTreeMap<Wall, Ceiling> {
    let mut ceilings = BTreeMap::new();
    for squeeze in Squeeze::ALL.into_iter().filter(|it| looks::is_speed(*it)) {
        let wall = squeeze.wall();
        let server = [Wall::ServerCpu, Wall::ServerSerial];
        let same = server.contains(&wall) && walls.iter().any(|wall| server.contains(wall));
        let reading = readings.get(squeeze);
        // Where a quota is the wall, the processors beyond it may be next: their speed is
        // slack until it is squeezed to the quota.
        let beyond = same && reading.is_some_and(Reading::slack);
        if (same || walls.contains(&wall)) && !beyond {
            continue;
        }
        let demand = by_demand(views, wall)
            .and_then(|ceiling| positive(ceiling / throughput))
            .filter(|_| !beyond);
        // What the client spins may be taken from a backend on its processors, which is the wall; what is stolen from a server
        // wakes those later who hold what others wait for. Where telemetry says that the processors have far more, the
        // squeeze read the wall once more.
        let may_feed = match wall {
            Wall::ClientCpu => readings.client_is_shared && walls.contains(&Wall::Backend),
            Wall::ServerCpu => walls.contains(&Wall::Wait),
            _ => false,
        };
        let is_beyond = |ceiling: &Ceiling| {
            let reach = ceiling.interval.map_or(ceiling.ratio, |(_, high)| high);
            demand.is_some_and(|demand| demand > reach)
        };
        let measured = reading.and_then(measured);
        let measured = measured.filter(|ceiling| !(may_feed && is_beyond(ceiling)));
        let ceiling = measured.or_else(|| {
            // A dose that did not bind says at least so much.
            let least = reading.map_or(1.0, least);
            demand.map(|demand| Ceiling {
                ratio: demand.max(least),
                interval: None,
            })
        });
        if let Some(ceiling) = ceiling {
            ceilings.insert(wall, ceiling);
        }
    }
    ceilings
}

/// The throughput at which a resource would be full by telemetry. Of a server whose work one thread does
/// that thread is full before its processors are.
fn by_demand(views: &[ResourceView], wall: Wall) -> Option<f64> {
    let view = |wall: Wall| views.iter().find(|view| view.wall == wall);
    let ceiling = view(wall)?.ceiling?;
    if wall != Wall::ServerCpu {
        return Some(ceiling);
    }
    let all = view(wall)?.demand_s;
    let thread = view(Wall::ServerSerial).filter(|thread| {
        let demands = all.zip(thread.demand_s);
        demands.is_some_and(|(all, thread)| all <= ONE_THREAD_MAX * thread)
    });
    let of_thread = thread.and_then(|thread| thread.ceiling);
    Some(of_thread.map_or(ceiling, |full| full.min(ceiling)))
}

/// The lowest of the ceilings.
pub(super) fn next(ceilings: &BTreeMap<Wall, Ceiling>) -> Option<NextWall> {
    let (wall, ceiling) = ceilings
        .iter()
        .min_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio))?;
    Some(NextWall {
        wall: *wall,
        ratio: ceiling.ratio,
        low: ceiling.interval.map(|(low, _)| low),
        high: ceiling.interval.map(|(_, high)| high),
    })
}

/// The ceiling, where a dose was bound by it.
fn measured(reading: &Reading) -> Option<Ceiling> {
    // One window may have been slow for another reason.
    let alone = reading
        .doses
        .iter()
        .filter(|dose| !dose.together && dose.y.rounds >= ROUNDS_MIN);
    let bound: Vec<&AtDose> = alone
        .filter(|dose| dose.y.interval(ALPHA).1 < -BINDS)
        .collect();
    let past = bound.iter().filter(|dose| dose.y.value <= -WELL_PAST);
    let past: Vec<&AtDose> = past.copied().collect();
    let used = if past.is_empty() { bound } else { past };
    let gap = sloped(&used).or_else(|| {
        let gaps = used.iter().map(|dose| Estimate {
            value: dose.y.value - dose.x,
            ..dose.y
        });
        gaps.reduce(Estimate::joined)
    })?;
    let (low, high) = gap.interval(ALPHA);
    let ratio = gap.value.max(0.0).exp();
    // A dose that bound holds the ceiling below its own reach.
    let reach = used.iter().map(|dose| (-dose.x).exp()).fold(1.0, f64::max);
    Some(Ceiling {
        ratio,
        interval: Some((
            low.max(0.0).exp(),
            high.max(0.0).exp().min(reach.max(ratio)),
        )),
    })
}

/// The knee by the line through the deepest and the shallowest of the doses past it, where
/// its slope is certainly not 1.
fn sloped(used: &[&AtDose]) -> Option<Estimate> {
    let deep = used.iter().min_by(|a, b| a.x.total_cmp(&b.x))?;
    let shallow = used.iter().max_by(|a, b| a.x.total_cmp(&b.x))?;
    let run = shallow.x - deep.x;
    if run < 0.15 {
        return None;
    }
    let slope = shallow.y.minus(deep.y).scaled(1.0 / run);
    let (low, high) = slope.interval(ALPHA);
    if low <= 1.0 && high >= 1.0 {
        return None;
    }
    let k = slope.value.clamp(SLOPES.0, SLOPES.1);
    // The line meets 0 at x* = x - y / k, and the ceiling lies at -x*.
    let reach = (shallow.x - shallow.y.value / k).abs();
    let lever = (shallow.x + reach).abs() / run;
    Some(Estimate {
        value: shallow.y.value / k - shallow.x,
        error: (shallow.y.error / k) * (1.0 + lever),
        ..shallow.y
    })
}

/// How far above the present throughput the ceiling lies at least, whatever the demand
/// says: a dose of 0.5 that cost nothing puts it at twice or beyond, one that cost 5 % at
/// 1.9, and the more so where others were squeezed beside it. A server that polls looks busier than it is,
/// and only this tells.
fn least(reading: &Reading) -> f64 {
    reading
        .doses
        .iter()
        .filter(|dose| dose.y.rounds >= ROUNDS_MIN)
        .map(|dose| (dose.y.value.min(0.0) - dose.x).exp())
        .fold(1.0, f64::max)
}

/// Whether it certainly costs throughput.
pub(super) fn costs(effect: &Effect) -> bool {
    effect.y().interval(ALPHA).1 < -BINDS
}

/// Whether the squeeze binds where about so much is left; `None`: it was not tried, or could not be
/// had, as pauses take a fifth at most, whatever is asked of them; or only together with others, of which
/// any may be what bound.
pub(super) fn binds(reading: &Reading, left: f64) -> Option<bool> {
    const ABOUT: f64 = 0.06;
    let of = |together: bool| {
        let doses = reading
            .doses
            .iter()
            .filter(|dose| dose.together == together);
        let near = doses.filter(|dose| (dose.x.exp() - left).abs() < ABOUT);
        let elasticity = near.map(AtDose::elasticity).reduce(Estimate::joined)?;
        Some(elasticity.interval(ALPHA).0 > 0.05)
    };
    of(false).or_else(|| of(true).filter(|bound| !bound))
}

#[cfg(test)]
mod tests {
    use wallfinder_model::experiment::{Condition, Window};

    use super::*;
    use crate::proof::synthetic::experiment_of;

    fn ceiling_of(answers: [f64; 3]) -> Option<Ceiling> {
        ceiling_beside(answers, &[], &[], false)
    }

    fn ceiling_beside(
        answers: [f64; 3],
        views: &[ResourceView],
        walls: &[Wall],
        is_shared: bool,
    ) -> Option<Ceiling> {
        let doses = [0.8, 0.65, 0.5];
        let conditions: Vec<(Squeeze, f64)> = doses
            .iter()
            .map(|dose| (Squeeze::ClientSpeed, *dose))
            .collect();
        let mut windows = Vec::new();
        for round in 0..4 {
            for (i, answer) in answers.iter().enumerate() {
                let wobble = 1.0 + 0.004 * f64::from((round + i as i32) % 3 - 1);
                windows.extend([(0, 1000.0), (i as u32 + 1, answer * wobble)]);
            }
        }
        windows.push((0, 1000.0));
        let mut readings = Readings::of(&experiment_of(&conditions, &windows));
        readings.client_is_shared = is_shared;
        ceilings(&readings, views, 1000.0, walls)
            .get(&Wall::ClientCpu)
            .copied()
    }

    /// The client spins on the processor of the backend that is the wall, and uses next to nothing of it otherwise.
    #[test]
    fn a_client_that_feeds_on_the_wall_is_not_the_next_one() {
        let client = ResourceView {
            wall: Wall::ClientCpu,
            utilisation: 0.06,
            demand_s: None,
            ceiling: Some(16_000.0),
            saturation: None,
        };
        let ratio = |walls: &[Wall], is_shared: bool| {
            let views = std::slice::from_ref(&client);
            let found = ceiling_beside([930.0, 800.0, 600.0], views, walls, is_shared);
            found.expect("it was squeezed").ratio
        };
        assert!(ratio(&[], true) < 1.3);
        assert!(ratio(&[Wall::Backend], true) > 10.0);
        // The backend has processors of its own.
        assert!(ratio(&[Wall::Backend], false) < 1.3);
    }

    /// A CPU stealer wakes those later who sleep under a lock, at a server that is at work for a quarter of its time.
    #[test]
    fn a_server_that_waits_is_slower_without_being_full() {
        let ratio = |utilisation: f64, walls: &[Wall]| {
            let server = ResourceView {
                wall: Wall::ServerCpu,
                utilisation,
                demand_s: Some(utilisation / 1000.0),
                ceiling: Some(1000.0 / utilisation),
                saturation: None,
            };
            let conditions = [(Squeeze::ServerSpeed, 0.8), (Squeeze::ServerSpeed, 0.5)];
            let windows = (0..4).flat_map(|_| [(0, 1000.0), (1, 930.0), (2, 630.0)]);
            let windows: Vec<(u32, f64)> = windows.chain([(0, 1000.0)]).collect();
            let readings = Readings::of(&experiment_of(&conditions, &windows));
            ceilings(&readings, &[server], 1000.0, walls)[&Wall::ServerCpu].ratio
        };
        assert!((ratio(0.25, &[Wall::Wait]) - 4.0).abs() < 1e-9);
        // One that is at work for most of its time is full soon.
        assert!((ratio(0.8, &[Wall::Wait]) - 1.26).abs() < 0.03);
        assert!((ratio(0.25, &[Wall::Downlink]) - 1.26).abs() < 0.03);
    }

    #[test]
    fn the_ceiling_is_read_off_the_doses_that_bind() {
        let ceiling = ceiling_of([1000.0, 910.0, 700.0]).unwrap();
        assert!((ceiling.ratio - 1.4).abs() < 0.02, "{ceiling:?}");
        let (low, high) = ceiling.interval.unwrap();
        assert!(low <= ceiling.ratio && ceiling.ratio <= high && high - low < 0.15);
    }

    #[test]
    fn a_steeper_answer_moves_the_knee() {
        // Answers 1.3 times its dose beyond a knee at 1.2.
        let at = |r: f64| 1000.0 * (1.2 * r).powf(1.3).min(1.0);
        let ceiling = ceiling_of([at(0.8), at(0.65), at(0.5)]).unwrap();
        assert!((ceiling.ratio - 1.2).abs() < 0.03, "{ceiling:?}");
    }

    /// Pauses take a fifth at most.
    #[test]
    fn a_half_that_could_not_be_had_says_nothing_of_a_half() {
        let binds_where_left = |left: f64| {
            let windows: Vec<(u32, f64)> = (0..9).map(|at| (at % 2, 1000.0)).collect();
            let mut experiment = experiment_of(&[(Squeeze::ServerSpeed, 0.5)], &windows);
            for window in &mut experiment.windows {
                window.retained = (window.condition == 1).then_some(left);
            }
            let readings = Readings::of(&experiment);
            let reading = readings.get(Squeeze::ServerSpeed).unwrap();
            binds(reading, 0.5)
        };
        assert_eq!(binds_where_left(0.5), Some(false));
        assert_eq!(binds_where_left(0.8), None);
    }

    /// Beside a link that a half was taken of.
    #[test]
    fn a_lever_that_could_not_go_so_far_as_those_beside_it_speaks_of_what_it_left() {
        let of = |left: Option<f64>| {
            let windows: Vec<(u32, f64)> = (0..9).map(|at| (at % 2, 1000.0)).collect();
            let mut experiment = experiment_of(&[(Squeeze::ServerSpeed, 0.5)], &windows);
            let squeezes = vec![Squeeze::ServerSpeed, Squeeze::Downlink];
            let condition = &mut experiment.conditions[1];
            (condition.squeeze, condition.together) = (None, squeezes);
            for window in &mut experiment.windows {
                let measured = left.filter(|_| window.condition == 1);
                window.retained_each = measured
                    .into_iter()
                    .map(|left| (Squeeze::ServerSpeed, left))
                    .collect();
            }
            // Alone each was seen once, at the first dose.
            experiment
                .conditions
                .extend(
                    [Squeeze::ServerSpeed, Squeeze::Downlink].map(|squeeze| Condition {
                        squeeze: Some(squeeze),
                        retained: 0.8,
                        ..Condition::sham()
                    }),
                );
            let last = experiment.windows[8].clone();
            for at in [2, 3] {
                let window = Window {
                    condition: at,
                    from_ns: last.to_ns + u64::from(at) * 1_000_000_000,
                    to_ns: last.to_ns + u64::from(at + 1) * 1_000_000_000,
                    ..last.clone()
                };
                experiment.windows.push(window);
            }
            let readings = Readings::of(&experiment);
            [Squeeze::ServerSpeed, Squeeze::Downlink].map(|squeeze| {
                let reading = readings.get(squeeze).unwrap();
                (least(reading), binds(reading, 0.5))
            })
        };
        let is_about = |(ratio, binds): (f64, Option<bool>), wanted: f64, at_half| {
            assert!((ratio - wanted).abs() < 0.02, "{ratio}");
            assert_eq!(binds, at_half);
        };
        let [server, link] = of(Some(0.8));
        is_about(server, 1.25, None);
        is_about(link, 2.0, Some(false));
        is_about(of(None)[0], 2.0, Some(false));
        // Who stood at no dose was not squeezed.
        let [server, link] = of(Some(1.0));
        is_about(server, 1.0, None);
        is_about(link, 2.0, Some(false));
    }

    /// One thread that is busy for 0.4 of its time, on sixteen processors.
    #[test]
    fn a_thread_that_does_all_of_the_work_is_full_before_its_processors() {
        let view = |wall, utilisation: f64, capacity: f64| ResourceView {
            wall,
            utilisation,
            demand_s: Some(utilisation * capacity / 1000.0),
            ceiling: Some(1000.0 / utilisation),
            saturation: None,
        };
        let full_at = |used: f64| {
            let views = [
                view(Wall::ServerCpu, used / 16.0, 16.0),
                view(Wall::ServerSerial, 0.4, 1.0),
            ];
            by_demand(&views, Wall::ServerCpu).unwrap().round()
        };
        assert_eq!(full_at(0.44), 2500.0);
        assert_eq!(full_at(3.2), 5000.0, "eight threads alike");
    }

    #[test]
    fn what_never_binds_has_no_measured_ceiling() {
        assert_eq!(ceiling_of([1000.0, 1000.0, 1000.0]), None);
    }
}
