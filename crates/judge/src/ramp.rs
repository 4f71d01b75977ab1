//! A ramp: the ceiling, the knee, what lies past it, and what neighbours say of a step.
//!
//! One step shows that nothing was full; its neighbours show why: where throughput grows
//! with what is in flight, there was too little of it, and where it does not, something
//! waits. Neighbours also unmask a thread that is busy whatever it has to do.
//!
//! The knee is the least in-flight at which throughput reaches 95 % of its maximum, taken
//! between two steps on a logarithmic scale. In an open loop the rate takes the place of
//! what is in flight, and verdicts stay as they are.

use wallfinder_model::evidence::{Evidence, Fact};
use wallfinder_model::record::Step;
use wallfinder_model::verdict::How;
use wallfinder_model::{Caveat, Detail, Environment, Reason, Verdict, Wall};

use crate::finite::{positive, ratio};
use crate::{caveats, observed};

/// Share of the maximum at which the knee lies.
const KNEE_SHARE: f64 = 0.95;
/// Steps nearer than this in what is in flight say nothing of each other.
const NEIGHBOUR_RATIO: f64 = 1.25;
/// Growth of throughput with what is in flight (d ln X / d ln N): none.
const FLAT: f64 = 0.10;
/// The same: it answers, at least on a part of the way.
const ANSWERS: f64 = 0.20;
/// The same: it answers for the most part.
const GROWS: f64 = 0.50;
/// The same: in proportion.
const PROPORTIONAL: f64 = 0.80;
/// Use from which a resource is near enough to be the reason that throughput stays flat.
const NEAR: f64 = 0.85;

/// What the steps of a ramp say together.
#[derive(Debug, Clone, PartialEq)]
pub struct Ramp {
    /// The step with the most throughput.
    pub peak: Option<Point>,
    /// Where throughput stops to grow; none where it still grew at the last step.
    pub knee: Option<Knee>,
    /// The last step past the knee, against the knee.
    pub past_knee: Option<PastKnee>,
}

/// A step's place in the ramp.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Index into the steps given.
    pub position: usize,
    /// In flight on average (in an open loop: the rate asked for).
    pub load: f64,
    /// Good answers per second.
    pub throughput: f64,
}

/// Where more in flight stops to help.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knee {
    /// In flight (in an open loop: the rate).
    pub load: f64,
    /// Whether the first step was already past it, so that it lies at `load` or below.
    pub at_most: bool,
    /// The first step at or past it: index into the steps given.
    pub position: usize,
}

/// What more in flight brought, past the knee.
#[derive(Debug, Clone, PartialEq)]
pub struct PastKnee {
    /// The step: index into the steps given.
    pub position: usize,
    /// Its in-flight over that of the first step past the knee.
    pub load_ratio: f64,
    /// The same for mean time in flight.
    pub time_ratio: f64,
    /// The same for throughput.
    pub throughput_ratio: f64,
    /// Whether the load is a rate, and not what is in flight.
    pub by_rate: bool,
}

/// Reads the steps of one ramp: one target, one driver, differing in load alone.
pub fn read(steps: &[Step]) -> Ramp {
    let points = points(steps);
    let peak = points
        .iter()
        .copied()
        .max_by(|a, b| a.throughput.total_cmp(&b.throughput));
    let knee = peak.and_then(|peak| knee(&points, peak));
    Ramp {
        peak,
        knee,
        past_knee: knee.and_then(|knee| past_knee(steps, &points, knee)),
    }
}

/// A verdict for each step of any mixture of ramps: steps of one target, driver and shape
/// are neighbours of each other.
pub(crate) fn verdicts(steps: &[Step], environment: &Environment) -> Vec<Verdict> {
    let mut verdicts: Vec<Verdict> = steps
        .iter()
        .map(|step| observed::verdict(step, environment))
        .collect();
    let alone = verdicts.clone();
    for (i, step) in steps.iter().enumerate() {
        if step.load.arrival.is_open() || observed::gated(step, environment) {
            continue;
        }
        let kin = |other: &Step| same_ramp(step, other);
        let below = neighbour(steps, i, |ratio| ratio <= 1.0 / NEIGHBOUR_RATIO, &kin);
        let above = neighbour(steps, i, |ratio| ratio >= NEIGHBOUR_RATIO, &kin);
        refine(&mut verdicts[i], step, below, above, &alone, steps);
    }
    verdicts
}

fn same_ramp(one: &Step, other: &Step) -> bool {
    one.target.url == other.target.url
        && one.driver.name == other.driver.name
        && one.load.method == other.load.method
        && one.load.body_bytes == other.load.body_bytes
        && one.load.connection_per_request == other.load.connection_per_request
        && one.load.arrival == other.load.arrival
        && one.load.decode == other.load.decode
}

/// What was in flight, or the rate asked for.
fn load(step: &Step) -> Option<f64> {
    caveats::asked_rate(step)
        .or_else(|| positive(step.in_flight_mean))
        .or_else(|| positive(step.load.in_flight_bound() as f64))
}

fn points(steps: &[Step]) -> Vec<Point> {
    let mut points: Vec<Point> = steps
        .iter()
        .enumerate()
        .filter_map(|(position, step)| {
            Some(Point {
                position,
                load: load(step)?,
                throughput: positive(step.throughput)?,
            })
        })
        .collect();
    points.sort_by(|a, b| a.load.total_cmp(&b.load));
    points
}

fn knee(points: &[Point], peak: Point) -> Option<Knee> {
    let goal = KNEE_SHARE * peak.throughput;
    let at = points.iter().position(|point| point.throughput >= goal)?;
    let last = points.len() - 1;
    if at == last && last > 0 {
        // The last step alone reaches the goal: throughput still grew when the ramp ended.
        return None;
    }
    let first = points[at];
    let Some(before) = at.checked_sub(1).map(|i| points[i]) else {
        return Some(Knee {
            load: first.load,
            at_most: true,
            position: first.position,
        });
    };
    let along = (goal / before.throughput).ln() / (first.throughput / before.throughput).ln();
    let along = if along.is_finite() {
        along.clamp(0.0, 1.0)
    } else {
        1.0
    };
    Some(Knee {
        load: before.load * (first.load / before.load).powf(along),
        at_most: false,
        position: first.position,
    })
}

fn mean_time(step: &Step) -> Option<f64> {
    let time = step.service.as_ref().or(step.latency.as_ref())?;
    positive(time.mean_ns)
}

fn past_knee(steps: &[Step], points: &[Point], knee: Knee) -> Option<PastKnee> {
    let first = points
        .iter()
        .find(|point| point.position == knee.position)?;
    let last = points.last()?;
    let load_ratio = ratio(last.load, first.load)?;
    if load_ratio < NEIGHBOUR_RATIO {
        return None;
    }
    let throughput_ratio = ratio(last.throughput, first.throughput)?;
    let time_ratio = ratio(
        mean_time(&steps[last.position])?,
        mean_time(&steps[first.position])?,
    )?;
    Some(PastKnee {
        position: last.position,
        load_ratio,
        time_ratio,
        throughput_ratio,
        by_rate: steps[last.position].load.arrival.is_open(),
    })
}

/// A neighbour in the ramp, and how throughput went between the two.
#[derive(Clone, Copy)]
struct Neighbour {
    position: usize,
    load_ratio: f64,
    throughput_ratio: f64,
    /// d ln X / d ln N.
    growth: f64,
}

/// The nearest step on one side.
fn neighbour(
    steps: &[Step],
    i: usize,
    side: impl Fn(f64) -> bool,
    kin: &dyn Fn(&Step) -> bool,
) -> Option<Neighbour> {
    let own = load(&steps[i])?;
    let throughput = positive(steps[i].throughput)?;
    steps
        .iter()
        .enumerate()
        .filter(|(position, other)| *position != i && kin(other))
        .filter_map(|(position, other)| {
            let load_ratio = ratio(load(other)?, own)?;
            let throughput_ratio = ratio(positive(other.throughput)?, throughput)?;
            let growth = throughput_ratio.ln() / load_ratio.ln();
            (side(load_ratio) && growth.is_finite()).then_some(Neighbour {
                position,
                load_ratio,
                throughput_ratio,
                growth,
            })
        })
        .min_by(|a, b| a.load_ratio.ln().abs().total_cmp(&b.load_ratio.ln().abs()))
}

/// Corrects a step's verdict by how throughput goes on from it, or came to it.
fn refine(
    verdict: &mut Verdict,
    step: &Step,
    below: Option<Neighbour>,
    above: Option<Neighbour>,
    alone: &[Verdict],
    steps: &[Step],
) {
    let slack = matches!(
        verdict.wall,
        Wall::Concurrency | Wall::Wait | Wall::Inconclusive
    );
    let Some(neighbour) = above.or(below) else {
        return;
    };
    let ahead = above.is_some();
    let growth = neighbour.growth;
    if growth >= GROWS && slack {
        // Growth up to here says less than growth from here on.
        if ahead || growth >= PROPORTIONAL {
            grew(verdict, neighbour, if ahead { 0.85 } else { 0.6 });
        }
    } else if ahead && growth > ANSWERS && verdict.wall == Wall::Wait {
        // A wait does not grow at all: there was too little in flight up to some point
        // before the next step.
        grew(verdict, neighbour, 0.55);
    } else if growth <= FLAT && slack {
        stayed(verdict, step, neighbour, ahead, &alone[neighbour.position]);
    } else if !slack && verdict.wall != Wall::OfferedLoad {
        if ahead && growth >= PROPORTIONAL {
            unmask(verdict, neighbour, &steps[neighbour.position]);
        } else if ahead && growth >= GROWS {
            verdict.confidence *= 0.6;
            verdict.evidence.push(growth_evidence(neighbour));
        } else if growth <= FLAT {
            verdict.confidence = (verdict.confidence + 0.3 * (1.0 - verdict.confidence)).min(0.95);
            verdict.evidence.push(growth_evidence(neighbour));
        }
    }
}

fn growth_evidence(neighbour: Neighbour) -> Evidence {
    let fact = Fact::Growth {
        load_ratio: neighbour.load_ratio,
        throughput_ratio: neighbour.throughput_ratio,
    };
    Evidence::new("ramp.growth", neighbour.growth, fact)
}

/// Throughput answers to what is in flight.
fn grew(verdict: &mut Verdict, neighbour: Neighbour, confidence: f64) {
    if verdict.wall != Wall::Concurrency {
        verdict.detail = None;
    }
    verdict.wall = Wall::Concurrency;
    verdict.how = How::Observed;
    verdict.confidence = if crowded(verdict) {
        0.7 * confidence
    } else {
        confidence
    };
    verdict.evidence.insert(0, growth_evidence(neighbour));
    verdict.reason = Reason::Grows {
        load_ratio: neighbour.load_ratio,
        throughput_ratio: neighbour.throughput_ratio,
    };
}

/// Whether others used so much of a side's processors that slack may be theirs.
fn crowded(verdict: &Verdict) -> bool {
    let much = |caveat: &Caveat| matches!(caveat, Caveat::Neighbour { cores, .. } if *cores > 0.15);
    verdict.caveats.iter().any(much)
}

/// Throughput does not answer: a resource that came near, or a wait.
fn stayed(verdict: &mut Verdict, step: &Step, neighbour: Neighbour, ahead: bool, other: &Verdict) {
    let near = verdict
        .resources
        .iter()
        .max_by(|a, b| a.utilisation.total_cmp(&b.utilisation))
        .filter(|view| view.utilisation >= NEAR)
        .map(|view| (view.wall, view.utilisation));
    let fact = growth_evidence(neighbour);
    if let Some((wall, used)) = near {
        verdict.wall = wall;
        verdict.how = How::Observed;
        verdict.confidence = 0.6;
        verdict.detail = None;
        verdict.next = None;
        verdict.reason = Reason::NearAndFlat { wall, busy: used };
        verdict.evidence.insert(0, fact);
        return;
    }
    // A neighbour whose own resources were full is no evidence of a wait here.
    let other_slack = matches!(
        other.wall,
        Wall::Concurrency | Wall::Wait | Wall::Inconclusive
    ) && other.resources.iter().all(|view| view.utilisation < 0.8);
    let server_seen = step.telemetry.server.is_some();
    let idle = verdict.resources.iter().all(|view| view.utilisation < 0.8);
    // A limit on the client's side stays one, however much is nominally in flight.
    let on_client = verdict.detail.as_ref().is_some_and(Detail::is_on_client);
    if !other_slack || !server_seen || !idle || on_client || crowded(verdict) {
        return;
    }
    if verdict.wall != Wall::Wait {
        verdict.detail = None;
    }
    verdict.wall = Wall::Wait;
    verdict.how = How::Observed;
    verdict.confidence = if ahead { 0.7 } else { 0.65 };
    verdict.reason = Reason::IdleAndFlat {
        load_ratio: neighbour.load_ratio,
        detail: verdict.detail.clone(),
    };
    verdict.evidence.insert(0, fact);
}

/// A resource that looked full, and yet throughput grew in proportion from here on.
fn unmask(verdict: &mut Verdict, neighbour: Neighbour, next: &Step) {
    let was = verdict.wall;
    verdict.evidence.insert(0, growth_evidence(neighbour));
    verdict.wall = Wall::Concurrency;
    verdict.how = How::Observed;
    verdict.confidence = 0.6;
    verdict.shares.clear();
    verdict.next = None;
    verdict.detail = Some(Detail::BusyWithoutLimit { wall: was });
    verdict.reason = Reason::Unmasked {
        was,
        in_flight: next.load.in_flight_bound(),
        throughput_ratio: neighbour.throughput_ratio,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::{DoubleStep, a_machine, a_step};

    /// A closed loop with N in flight at X per second: mean time N/X, both sides as given.
    fn at(n: f64, x: f64, server: f64, client: f64) -> DoubleStep {
        let mean_ms = n / x * 1e3;
        a_step()
            .throughput(x)
            .in_flight(n)
            .latency_ms(mean_ms, 0.9 * mean_ms)
            .server(1.0, server)
            .client(1.0, client)
    }

    fn walls(steps: &[Step]) -> Vec<Wall> {
        let verdicts = verdicts(steps, &a_machine());
        verdicts.iter().map(|verdict| verdict.wall).collect()
    }

    #[test]
    fn the_knee_lies_where_throughput_reaches_its_ceiling() {
        let steps: Vec<Step> = [
            (1.0, 2_000.0),
            (10.0, 18_000.0),
            (32.0, 27_800.0),
            (100.0, 28_140.0),
            (500.0, 27_900.0),
        ]
        .map(|(n, x)| at(n, x, x / 28_200.0, 0.3).build())
        .into();
        let ramp = read(&steps);
        assert_eq!(ramp.peak.unwrap().position, 3);
        let knee = ramp.knee.unwrap();
        assert_eq!(knee.position, 2);
        assert!((20.0..32.0).contains(&knee.load), "{knee:?}");
        let past = ramp.past_knee.unwrap();
        assert!((past.load_ratio - 500.0 / 32.0).abs() < 1e-9);
        assert!((past.time_ratio - past.load_ratio / past.throughput_ratio).abs() < 0.01);
        assert!(!past.by_rate);
        assert_eq!(walls(&steps)[0], Wall::Concurrency);
        assert_eq!(walls(&steps)[3], Wall::ServerCpu);
    }

    #[test]
    fn a_ramp_that_still_grows_has_no_knee() {
        let steps = [
            at(1.0, 1_000.0, 0.1, 0.1).build(),
            at(10.0, 9_500.0, 0.5, 0.2).build(),
        ];
        let ramp = read(&steps);
        assert_eq!(ramp.knee, None);
        assert_eq!(ramp.past_knee, None);
    }

    #[test]
    fn a_ramp_that_starts_past_its_knee_says_at_most() {
        let steps = [
            at(100.0, 9_900.0, 0.99, 0.2).build(),
            at(500.0, 10_000.0, 0.99, 0.2).build(),
        ];
        assert!(read(&steps).knee.unwrap().at_most);
    }

    #[test]
    fn a_sleep_in_parallel_is_too_little_in_flight_and_a_pool_is_a_wait() {
        // An asynchronous sleep of 5 ms: throughput is N / 5 ms.
        let sleep = [8.0, 64.0, 256.0].map(|n| at(n, n / 0.005, n / 1_000.0, n / 2_000.0).build());
        assert_eq!(walls(&sleep), [Wall::Concurrency; 3]);
        // Four permits of 5 ms: 800/s, however much is in flight.
        let pool = [8.0, 64.0, 256.0].map(|n| at(n, 800.0, 0.03, 0.02).build());
        assert_eq!(walls(&pool), [Wall::Wait; 3]);
        let verdicts = verdicts(&pool, &a_machine());
        assert!(verdicts.iter().all(|v| v.confidence >= 0.6));
    }

    #[test]
    fn a_thread_that_polls_is_unmasked_by_growth() {
        let steps = [8.0, 16.0, 64.0].map(|n| {
            at(n, n * 100.0, 0.5, 0.2)
                .server(2.0, 0.5)
                .with(|step| step.telemetry.client.as_mut().unwrap().cpus_allowed = vec![2])
                .hottest_server("poller", 1.0)
                .build()
        });
        assert_eq!(walls(&steps)[0], Wall::Concurrency);
        assert_eq!(walls(&steps)[1], Wall::Concurrency);
    }

    #[test]
    fn a_resource_that_came_near_is_the_wall_where_throughput_stays_flat() {
        let steps = [
            at(100.0, 10_000.0, 0.88, 0.2).build(),
            at(400.0, 10_100.0, 0.88, 0.2).build(),
        ];
        assert_eq!(walls(&steps), [Wall::ServerCpu; 2]);
        let growing = [
            at(100.0, 10_000.0, 0.83, 0.2).build(),
            at(200.0, 16_000.0, 0.99, 0.3).build(),
        ];
        assert_eq!(walls(&growing), [Wall::Concurrency, Wall::ServerCpu]);
    }

    #[test]
    fn flat_throughput_before_an_unseen_server_is_no_wait() {
        let steps = [64.0, 256.0].map(|n| at(n, 800.0, 0.1, 0.02).without_server().build());
        assert_eq!(walls(&steps), [Wall::Inconclusive; 2]);
    }

    #[test]
    fn steps_of_other_targets_and_drivers_are_no_neighbours() {
        let mut steps = vec![
            at(64.0, 800.0, 0.03, 0.02).build(),
            at(256.0, 800.0, 0.03, 0.02).build(),
        ];
        steps[1].target.url = "http://127.0.0.1:8083/compute".to_owned();
        let alone = crate::observed::verdict(&steps[0], &a_machine());
        assert_eq!(verdicts(&steps, &a_machine())[0], alone);
    }

    #[test]
    fn gated_steps_stay_undecided_whatever_the_neighbours_do() {
        let failing = at(8.0, 800.0, 0.1, 0.1)
            .with(|step| {
                step.counts.failed.insert("status.5xx".into(), 20_000);
            })
            .build();
        let steps = [failing, at(64.0, 6_400.0, 0.2, 0.1).build()];
        assert_eq!(walls(&steps)[0], Wall::Inconclusive);
    }

    /// Flat throughput would be a wait of the server, and may be that others leave it no processor.
    #[test]
    fn among_strangers_who_fill_the_processors_a_ramp_tells_of_no_wait() {
        let flat = |crowded: bool| {
            let step = |n: f64| {
                let step = at(n, 800.0, 0.03, 0.02).with(|step| {
                    for family in [&mut step.telemetry.server, &mut step.telemetry.client] {
                        let family = family.as_mut().unwrap();
                        let others = if crowded { 0.97 } else { 0.0 };
                        (family.cpus_busy, family.neighbour_cores) = (others + 0.03, others);
                    }
                });
                step.build()
            };
            walls(&[step(64.0), step(256.0)])
        };
        assert_eq!(flat(false), [Wall::Wait; 2]);
        assert_eq!(flat(true), [Wall::Inconclusive; 2]);
    }

    #[test]
    fn no_steps_are_no_ramp() {
        let ramp = read(&[]);
        assert_eq!((ramp.peak, ramp.knee, ramp.past_knee), (None, None, None));
    }
}
