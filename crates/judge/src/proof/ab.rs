//! Two settings of a lever: what B is over A, measure by measure.
//!
//! Each round holds both settings once, next to each other, so that a machine that slows
//! for a while slows both. The ratio of a round is B's value over A's; the centre is that
//! of the rounds' logarithms, and a difference is shown only where the interval leaves 1
//! out after Holm's correction for the number of measures. No difference shown is not the
//! same as no difference: the interval says how large one could be. A quantile that requests
//! without an answer could move is a lower bound: its round is left out.
//!
//! A bound on B's cost is about throughput alone and was declared before anything was measured: its
//! 95 % interval is taken as it is. A setting of the host that shows no sign of having acted makes
//! no comparison: what A and B then have in common is everything.

use std::cmp::Reverse;

use fastrand::Rng;
use wallfinder_model::Step;
use wallfinder_model::record::{Ab, CostOutcome, Histogram, Ratio, Sign, SignKind};

use super::estimate::{ALPHA, Estimate, estimate, holm};
use super::pace::{self, Pace, Point};
use crate::bounds::is_bound;
use crate::compare::{is_told_of_kind, is_told_of_session};
use crate::cost;
use crate::finite::{known, median, positive};

/// The rounds' order: for each step its round, and whether it is of B. In pairs of rounds
/// each setting comes first once; which one is drawn.
pub fn order_of_rounds(seed: u64, rounds: u32) -> Vec<(u32, bool)> {
    let mut random = Rng::with_seed(seed);
    let mut order = Vec::with_capacity(rounds as usize * 2);
    let mut b_first = false;
    for round in 0..rounds {
        let mut pair = [false, true];
        if round % 2 == 0 {
            random.shuffle(&mut pair);
            b_first = pair[0];
        }
        let first = if round % 2 == 0 { b_first } else { !b_first };
        order.extend([(round, first), (round, !first)]);
    }
    order
}

/// What two settings come to: their ratios, whether settings of the host acted, and what is said of the
/// bound on B's cost.
pub fn weigh(steps: &[Step], ab: &mut Ab) {
    ab.ratios = ratios(steps, &ab.order);
    for sign in &mut ab.signs {
        weigh_sign(sign, &ab.order);
    }
    if let Some(bound) = &mut ab.at_most_cost {
        let throughput = ab.ratios.iter().find(|ratio| ratio.measure == THROUGHPUT);
        bound.outcome = throughput.map(|ratio| cost_outcome(ratio, bound.share));
    }
}

/// Whether B costs at most this share of A's throughput, by that ratio alone.
pub fn cost_outcome(throughput: &Ratio, share: f64) -> CostOutcome {
    let least = 1.0 - share;
    if throughput.low >= least {
        CostOutcome::Shown
    } else if throughput.high < least {
        CostOutcome::NotMet
    } else {
        CostOutcome::NotDecided
    }
}

/// Settings that differ by less than this share of the larger show the same.
const SIGN_SHARE_MIN: f64 = 0.1;

/// Medians of what was seen in either setting, and whether they differ.
fn weigh_sign(sign: &mut Sign, order: &[(u32, bool)]) {
    let seen = |of_b: bool| {
        let all = sign.steps.iter().zip(order);
        let own = all.filter(|(_, (_, is_b))| *is_b == of_b);
        let values: Vec<f64> = own.filter_map(|(value, _)| value.and_then(known)).collect();
        median(&values)
    };
    (sign.a, sign.b) = (seen(false), seen(true));
    sign.acted = sign.a.zip(sign.b).map(|(a, b)| {
        let least = sign_min(sign.kind).max(SIGN_SHARE_MIN * a.max(b));
        (b - a).abs() >= least
    });
}

/// Less than this is nothing, in the unit of the sign.
fn sign_min(kind: SignKind) -> f64 {
    match kind {
        // The least that a huge page is.
        SignKind::HugeBytes => 2.0 * 1024.0 * 1024.0,
        // What others on the machine may have had steered or polled meanwhile.
        SignKind::Steered | SignKind::Polled => 10.0,
        SignKind::Interrupts => 1.0,
    }
}

/// How a measure is read from a step.
type Of<'m> = &'m dyn Fn(&Step) -> Option<f64>;
type Own<'m> = Box<dyn Fn(&Step) -> Option<f64> + 'm>;

/// A measure, and what it answers to a slow machine.
struct Measure<'m> {
    name: &'m str,
    of: Of<'m>,
    answers: Answers,
}

/// Which way a measure goes when the machine becomes slow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    /// It falls.
    Falls,
    /// It grows.
    Grows,
    /// It does not answer.
    Stays,
}

const fn measure<'m>(name: &'m str, answers: Answers, of: Of<'m>) -> Measure<'m> {
    Measure { name, of, answers }
}

/// The measure that a bound on B's cost is about.
const THROUGHPUT: &str = "throughput";

/// What is compared. Costs are of one good answer.
const MEASURES: [Measure<'static>; 7] = [
    measure(THROUGHPUT, Answers::Falls, &|step| {
        positive(step.throughput)
    }),
    measure("p50", Answers::Grows, &|step| told(step, "p50")),
    measure("p99", Answers::Grows, &|step| told(step, "p99")),
    measure("p99.9", Answers::Grows, &|step| told(step, "p99.9")),
    measure("server-cpu", Answers::Grows, &|step| {
        cost::per_answer(step).server_cpu_ns
    }),
    measure("client-cpu", Answers::Grows, &|step| {
        cost::per_answer(step).client_cpu_ns
    }),
    measure("downlink-bytes", Answers::Stays, &|step| {
        cost::per_answer(step).downlink_bytes
    }),
];

/// Requests and sessions of a mix that are compared by name, at the most.
const NAMED_MAX: usize = 40;

/// A quantile of a step's latency; `None` where it is a lower bound.
fn told(step: &Step, name: &str) -> Option<f64> {
    let ns = quantile(step.latency.as_ref(), name)?;
    (!is_bound(step, name)).then_some(ns)
}

fn quantile(latency: Option<&Histogram>, name: &str) -> Option<f64> {
    let latency = latency?;
    // A quantile needs some answers beyond it.
    let beyond = match name {
        "p99.9" => 0.001,
        "p99" => 0.01,
        _ => 0.5,
    };
    const BEYOND_MIN: f64 = 10.0;
    (latency.count as f64 * beyond >= BEYOND_MIN)
        .then(|| latency.quantile_ns(name))
        .flatten()
        .and_then(|ns| positive(ns as f64))
}

/// What was compared: a measure over the rounds that have it.
struct Compared<'m> {
    name: &'m str,
    pairs: Vec<(f64, f64)>,
    pace_explained: Option<f64>,
}

/// B over A by measure; steps that were not measured leave their round out. Where the machine's own
/// pace explains how a measure moves within either setting, it is taken out ([`pace`]).
pub fn ratios(steps: &[Step], order: &[(u32, bool)]) -> Vec<Ratio> {
    let mut ratios = ratios_of(&MEASURES, steps, order);
    ratios.extend(by_name(steps, order));
    ratios
}

/// The same of each request and session of a mix, those that were begun most first, as a family of their own: of `p99 of
/// search` others say nothing.
fn by_name(steps: &[Step], order: &[(u32, bool)]) -> Vec<Ratio> {
    let Some(first) = steps.first() else {
        return Vec::new();
    };
    let requests = first.requests.iter().map(|kind| (&kind.name, kind.sent));
    let sessions = first
        .sessions
        .iter()
        .map(|session| (&session.name, session.begun));
    let mut parts: Vec<(&String, u64)> = requests.chain(sessions).collect();
    parts.sort_by_key(|(_, begun)| Reverse(*begun));
    parts.truncate(NAMED_MAX);
    let mut ratios = Vec::new();
    for quantile_name in ["p50", "p99"] {
        let of_part = |(name, _): &(&String, u64)| {
            let name = String::clone(name);
            let measure = format!("{quantile_name} of {name}");
            let of: Own<'_> = Box::new(move |step: &Step| of_name(step, &name, quantile_name));
            (measure, of)
        };
        let named: Vec<(String, Own<'_>)> = parts.iter().map(of_part).collect();
        let measures: Vec<Measure<'_>> = named
            .iter()
            .map(|(name, of)| measure(name, Answers::Grows, &**of))
            .collect();
        ratios.extend(ratios_of(&measures, steps, order));
    }
    ratios
}

/// A quantile of a request or of a session of a mix; `None` where it is a lower bound.
fn of_name(step: &Step, name: &str, quantile_name: &str) -> Option<f64> {
    if let Some(kind) = step.requests.iter().find(|kind| kind.name == name) {
        let ns = quantile(kind.latency.as_ref(), quantile_name)?;
        return is_told_of_kind(step, kind, quantile_name).then_some(ns);
    }
    let session = step.sessions.iter().find(|session| session.name == name)?;
    let ns = quantile(session.took.as_ref(), quantile_name)?;
    is_told_of_session(step, session, quantile_name).then_some(ns)
}

fn ratios_of(measures: &[Measure<'_>], steps: &[Step], order: &[(u32, bool)]) -> Vec<Ratio> {
    let compared: Vec<Compared<'_>> = measures
        .iter()
        .map(|measure| {
            let seen: Vec<Option<f64>> = steps.iter().map(measure.of).collect();
            let pace = pace_of(measure, steps, &seen, order);
            let values = match &pace {
                Some(pace) => at_one_pace(measure, pace, steps, &seen, order),
                None => seen,
            };
            Compared {
                name: measure.name,
                pairs: pairs(&values, order),
                pace_explained: pace.map(|pace| pace.explained()),
            }
        })
        .filter(|compared| compared.pairs.len() >= 3)
        .collect();
    let estimates: Vec<Option<Estimate>> = compared
        .iter()
        .map(|compared| {
            let logs: Vec<f64> = compared.pairs.iter().map(|(a, b)| (b / a).ln()).collect();
            estimate(&logs, None)
        })
        .collect();
    let p: Vec<f64> = estimates
        .iter()
        .map(|found| {
            found.map_or(1.0, |found| {
                let away = Estimate {
                    value: found.value.abs(),
                    ..found
                };
                away.p_above(0.0)
            })
        })
        .collect();
    let adjusted = holm(&p);
    compared
        .iter()
        .zip(&estimates)
        .zip(&adjusted)
        .filter_map(|((compared, found), p)| {
            let found = (*found)?;
            let pairs = &compared.pairs;
            let (low, high) = found.interval(ALPHA);
            let mean = |of: fn(&(f64, f64)) -> f64| {
                let sum: f64 = pairs.iter().map(|pair| of(pair).ln()).sum();
                (sum / pairs.len() as f64).exp()
            };
            Some(Ratio {
                measure: compared.name.to_owned(),
                a: mean(|pair| pair.0),
                b: mean(|pair| pair.1),
                ratio: found.value.exp(),
                low: low.exp(),
                high: high.exp(),
                rounds: pairs.len() as u32,
                differs: *p < ALPHA,
                pace_explained: compared.pace_explained,
            })
        })
        // An interval without an end says nothing, and no record can hold one.
        .filter(|ratio| ratio.low > 0.0 && ratio.high.is_finite())
        .collect()
}

/// Which way y of a measure goes: it has to fall.
fn sign(measure: &Measure<'_>) -> f64 {
    match measure.answers {
        Answers::Grows => -1.0,
        Answers::Falls | Answers::Stays => 1.0,
    }
}

fn yards(step: &Step) -> pace::Yards {
    let telemetry = &step.telemetry;
    pace::ln_yards([telemetry.server_reference_ns, telemetry.client_reference_ns])
}

/// What the machine's pace does to a measure; a setting is a condition.
fn pace_of(
    measure: &Measure<'_>,
    steps: &[Step],
    seen: &[Option<f64>],
    order: &[(u32, bool)],
) -> Option<Pace> {
    if measure.answers == Answers::Stays {
        return None;
    }
    let all = steps.iter().zip(seen).zip(order).zip(0_u32..);
    Pace::through(all.filter_map(|(((step, value), (_, is_b)), at)| {
        let y = sign(measure) * value.and_then(positive)?.ln();
        let group = (u32::from(*is_b), 0);
        Some(Point::new(group, f64::from(at), y, yards(step)))
    }))
}

fn at_one_pace(
    measure: &Measure<'_>,
    pace: &Pace,
    steps: &[Step],
    seen: &[Option<f64>],
    order: &[(u32, bool)],
) -> Vec<Option<f64>> {
    let all = steps.iter().zip(seen).zip(order);
    all.map(|((step, value), (_, is_b))| {
        let off = sign(measure) * pace.effect(u32::from(*is_b), yards(step));
        value.map(|value| value * (-off).exp())
    })
    .collect()
}

/// A and B of each round that has both.
fn pairs(values: &[Option<f64>], order: &[(u32, bool)]) -> Vec<(f64, f64)> {
    let measured = |round: u32, is_b: bool| {
        let at = order.iter().position(|place| *place == (round, is_b))?;
        *values.get(at)?
    };
    let rounds = order.iter().map(|(round, _)| *round + 1).max().unwrap_or(0);
    (0..rounds)
        .filter_map(|round| Some((measured(round, false)?, measured(round, true)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use wallfinder_model::record::{CostBound, Drained, RequestKind, SessionKind};

    use super::*;
    use crate::double::{Noise, a_step};
    use crate::histogram;

    /// Rounds of two settings with so much noise; B's throughput is `effect` times A's.
    fn rounds(effect: f64, noise: &mut Noise) -> (Vec<Step>, Vec<(u32, bool)>) {
        let order = order_of_rounds(5, 8);
        let steps = order
            .iter()
            .map(|(_, is_b)| {
                let mut step = a_step().build();
                let factor = if *is_b { effect } else { 1.0 };
                step.throughput = 1_000.0 * factor * (0.02 * noise.gauss()).exp();
                step.counts.answered = 1_000;
                step
            })
            .collect();
        (steps, order)
    }

    #[test]
    fn every_round_holds_both_and_neither_is_always_first() {
        let order = order_of_rounds(3, 40);
        let first = order.iter().step_by(2).filter(|(_, is_b)| *is_b).count();
        assert_eq!(first, 20);
        for pair in order.chunks(2) {
            assert_eq!(pair[0].0, pair[1].0);
            assert_ne!(pair[0].1, pair[1].1);
        }
        assert_ne!(order, order_of_rounds(4, 40));
    }

    #[test]
    fn two_equal_settings_show_no_difference() {
        let mut noise = Noise::new(1);
        let mut shown = 0;
        for _ in 0..300 {
            let (steps, order) = rounds(1.0, &mut noise);
            shown += ratios(&steps, &order).iter().filter(|r| r.differs).count();
        }
        assert!(shown <= 18, "a difference was shown {shown} times in 300");
    }

    #[test]
    fn a_tenth_more_is_shown_with_its_size() {
        let mut noise = Noise::new(2);
        let (mut shown, mut held) = (0, 0);
        for _ in 0..100 {
            let (steps, order) = rounds(1.1, &mut noise);
            let ratios = ratios(&steps, &order);
            let throughput = ratios.iter().find(|r| r.measure == "throughput").unwrap();
            shown += u32::from(throughput.differs);
            held += u32::from(throughput.low <= 1.1 && 1.1 <= throughput.high);
        }
        assert!(shown >= 97, "{shown}");
        assert!(held >= 90, "{held}");
    }

    #[test]
    fn rounds_that_lack_a_step_are_left_out() {
        let (mut steps, order) = rounds(1.0, &mut Noise::new(3));
        steps.truncate(9);
        assert_eq!(ratios(&steps, &order)[0].rounds, 4);
        steps.truncate(4);
        assert!(ratios(&steps, &order).is_empty());
    }

    /// Rounds in which B's answers come in half the time, and so many of its requests have none.
    fn rounds_with_lost(lost: u64) -> (Vec<Step>, Vec<(u32, bool)>) {
        let order = order_of_rounds(5, 8);
        let mut noise = Noise::new(13);
        let mut step = |is_b: bool| {
            let (each_ns, lost) = if is_b { (500.0, lost) } else { (1_000.0, 0) };
            let each_ns = each_ns * (0.02 * noise.gauss()).exp();
            let values = (0..2_000_u32).map(|n| 500_000 + (f64::from(n) * each_ns) as u64);
            let latency = histogram::tests::of(values).to_record();
            let request = RequestKind {
                name: "search".to_owned(),
                sent: 2_000 + lost,
                answered: 2_000,
                latency: Some(latency.clone()),
                ..RequestKind::default()
            };
            let whole = a_step().with(|step| {
                step.latency = Some(latency);
                step.requests.push(request);
                step.drained = Some(Drained {
                    in_flight: lost,
                    oldest_ns: 5_000_000_000,
                    ..Drained::default()
                });
            });
            whole.build()
        };
        let steps = order.iter().map(|(_, is_b)| step(*is_b)).collect();
        (steps, order)
    }

    #[test]
    fn a_tail_that_is_a_lower_bound_is_not_compared() {
        let names = ["p50", "p99", "p50 of search", "p99 of search"];
        let compared = |lost: u64| {
            let (steps, order) = rounds_with_lost(lost);
            let ratios = ratios(&steps, &order);
            names.map(|name| ratios.iter().any(|ratio| ratio.measure == name))
        };
        assert_eq!(compared(0), [true; 4]);
        // One in fifty of B's requests: more than are beyond the 99th percentile.
        assert_eq!(compared(40), [true, false, true, false]);
    }

    #[test]
    fn sessions_are_compared_as_requests_are() {
        let (mut steps, order) = rounds_with_lost(0);
        for step in &mut steps {
            step.sessions.push(SessionKind {
                name: "buy".to_owned(),
                begun: 5_000,
                completed: 5_000,
                took: step.latency.clone(),
                ..SessionKind::default()
            });
        }
        let ratios = ratios(&steps, &order);
        let named = ratios.iter().filter(|ratio| ratio.measure.contains(" of "));
        let named: Vec<&str> = named.map(|ratio| ratio.measure.as_str()).collect();
        // More of them were begun.
        let want = ["p50 of buy", "p50 of search", "p99 of buy", "p99 of search"];
        assert_eq!(named, want);
        assert!(
            ratios
                .iter()
                .all(|ratio| !ratio.measure.contains("buy") || ratio.high < 0.75)
        );
    }

    #[test]
    fn on_a_machine_that_wanders_a_small_difference_is_shown() {
        let mut noise = Noise::new(11);
        let (mut shown, mut held) = ([0, 0], 0);
        for told in [false, true] {
            for _ in 0..20 {
                let (mut steps, order) = rounds(1.08, &mut noise);
                for step in &mut steps {
                    let pace = 0.1 * noise.gauss();
                    step.throughput *= pace.exp();
                    let yard = 7_000.0 * (0.01 * noise.gauss() - pace).exp();
                    step.telemetry.server_reference_ns = told.then_some(yard);
                }
                let ratios = ratios(&steps, &order);
                let throughput = ratios.iter().find(|r| r.measure == "throughput").unwrap();
                assert_eq!(throughput.pace_explained.is_some(), told, "{throughput:?}");
                held += u32::from(throughput.low <= 1.08 && 1.08 <= throughput.high);
                shown[usize::from(told)] += u32::from(throughput.differs);
            }
        }
        let [blind, told] = shown;
        assert!(told >= 17 && blind <= 5, "{blind} and {told} of 20");
        assert!(held >= 34, "{held} of 40");
    }

    fn of_throughput(ratio: f64, low: f64, high: f64) -> Ratio {
        Ratio {
            measure: THROUGHPUT.to_owned(),
            a: 1_000.0,
            b: 1_000.0 * ratio,
            ratio,
            low,
            high,
            rounds: 8,
            differs: false,
            pace_explained: None,
        }
    }

    #[test]
    fn a_bound_on_cost_is_shown_missed_or_open() {
        for (low, high, outcome) in [
            (0.981, 0.999, CostOutcome::Shown),
            (0.99, 1.02, CostOutcome::Shown),
            (0.979, 0.999, CostOutcome::NotDecided),
            (0.95, 1.05, CostOutcome::NotDecided),
            (0.95, 0.979, CostOutcome::NotMet),
        ] {
            let ratio = of_throughput((low + high) / 2.0, low, high);
            assert_eq!(cost_outcome(&ratio, 0.02), outcome, "[{low}, {high}]");
        }
    }

    /// So many rounds of B with `effect` times A's throughput, and what is said of a bound of 2 %.
    fn bounded(effect: f64, rounds: u32, noise: &mut Noise) -> Option<CostOutcome> {
        let order = order_of_rounds(5, rounds);
        let steps: Vec<Step> = order
            .iter()
            .map(|(_, is_b)| {
                let factor = if *is_b { effect } else { 1.0 };
                let throughput = 1_000.0 * factor * (0.03 * noise.gauss()).exp();
                a_step().throughput(throughput).build()
            })
            .collect();
        let mut ab = Ab {
            order,
            at_most_cost: Some(CostBound {
                share: 0.02,
                outcome: None,
            }),
            ..Ab::default()
        };
        weigh(&steps, &mut ab);
        ab.at_most_cost.unwrap().outcome
    }

    #[test]
    fn many_rounds_decide_a_bound_that_few_leave_open() {
        let mut noise = Noise::new(7);
        let mut told = |effect: f64, rounds: u32| -> Vec<Option<CostOutcome>> {
            (0..20)
                .map(|_| bounded(effect, rounds, &mut noise))
                .collect()
        };
        let count = |told: &[Option<CostOutcome>], outcome: CostOutcome| {
            told.iter().filter(|said| **said == Some(outcome)).count()
        };
        let (few, many) = (told(1.0, 6), told(1.0, 150));
        assert!(count(&few, CostOutcome::NotDecided) >= 10, "{few:?}");
        assert!(count(&many, CostOutcome::Shown) >= 19, "{many:?}");
        let dear = told(0.95, 150);
        assert!(count(&dear, CostOutcome::NotMet) >= 19, "{dear:?}");
        // What costs just as much as it may is not said to cost less, but by chance.
        let edge = told(0.98, 150);
        assert!(count(&edge, CostOutcome::Shown) <= 3, "{edge:?}");
        assert_eq!(bounded(1.0, 2, &mut Noise::new(8)), None, "no interval");
    }

    /// What was seen in A's and B's steps of rounds that are A first.
    fn sign(kind: SignKind, seen: &[(Option<f64>, Option<f64>)]) -> Sign {
        let order: Vec<(u32, bool)> = (0..seen.len() as u32)
            .flat_map(|round| [(round, false), (round, true)])
            .collect();
        let mut sign = Sign {
            setting: "a=b".to_owned(),
            kind,
            steps: seen.iter().flat_map(|(a, b)| [*a, *b]).collect(),
            a: None,
            b: None,
            acted: None,
        };
        weigh_sign(&mut sign, &order);
        sign
    }

    #[test]
    fn a_setting_acted_where_a_and_b_show_another_amount_of_it() {
        const MB: f64 = 1024.0 * 1024.0;
        let alike = |kind, a: f64, b: f64| sign(kind, &[(Some(a), Some(b)); 3]).acted;
        assert_eq!(alike(SignKind::HugeBytes, 0.0, 40.0 * MB), Some(true));
        assert_eq!(alike(SignKind::HugeBytes, 40.0 * MB, 0.0), Some(true));
        assert_eq!(alike(SignKind::HugeBytes, 0.0, 0.0), Some(false));
        assert_eq!(
            alike(SignKind::HugeBytes, 40.0 * MB, 42.0 * MB),
            Some(false),
            "one page of twenty"
        );
        assert_eq!(alike(SignKind::Steered, 0.0, 5_000.0), Some(true));
        assert_eq!(alike(SignKind::Steered, 0.0, 3.0), Some(false), "others");
        assert_eq!(alike(SignKind::Polled, 0.0, 0.0), Some(false));
        assert_eq!(alike(SignKind::Interrupts, 1.0, 2.0), Some(true));
        assert_eq!(alike(SignKind::Interrupts, 2.0, 2.0), Some(false));
    }

    #[test]
    fn a_sign_that_was_not_seen_is_not_known() {
        let some = Some(8e6);
        let found = sign(SignKind::HugeBytes, &[(some, None), (some, None)]);
        assert_eq!((found.a, found.b, found.acted), (some, None, None));
        let found = sign(
            SignKind::HugeBytes,
            &[(Some(0.0), None), (Some(f64::NAN), some)],
        );
        assert_eq!(found.acted, Some(true));
        assert_eq!(sign(SignKind::Polled, &[]).acted, None);
    }
}
