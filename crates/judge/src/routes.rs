//! What one more request of each kind costs the processors of the server and of the client, and which share of their use
//! each kind has.
//!
//! Windows in which the weights are drawn anew have as many equations as there are windows: CPU time is the sum over
//! the kinds of answers times what one costs. Least squares tell the costs, and what is left over how well. No tracing,
//! and nothing in the server. The steps of a session come together, so that they are told as one.

use fastrand::Rng;
use wallfinder_model::record::{Cost, Costs, MixWindow, RequestKind};

use crate::finite::median;
use crate::proof::squares::inverse;
use crate::student::quantile;

/// Windows beyond one for each kind, at the least: else what is left over tells nothing.
const SPARE_MIN: usize = 3;

/// What is told apart: a request alone, or all steps of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name: the request's, or the session's.
    pub name: String,
    /// Whether it is a session.
    pub is_session: bool,
    /// Places of its kinds among the requests of a step.
    pub kinds: Vec<usize>,
}

impl Group {
    /// Of the kinds of a step, in their order.
    pub fn all(requests: &[RequestKind]) -> Vec<Group> {
        let mut groups: Vec<Group> = Vec::new();
        for (nth, request) in requests.iter().enumerate() {
            let name = request.session.as_ref().unwrap_or(&request.name);
            match groups.iter_mut().find(|group| group.name == *name) {
                Some(group) => group.kinds.push(nth),
                None => groups.push(Group {
                    name: name.clone(),
                    is_session: request.session.is_some(),
                    kinds: vec![nth],
                }),
            }
        }
        groups
    }

    /// How many of it `of` its kinds make: requests, or whole sessions.
    fn count(&self, requests: &[RequestKind], of: impl Fn(usize) -> f64) -> f64 {
        // Those that only follow redirects are made now and then.
        let always = self.kinds.iter().filter(|kind| requests[**kind].weight > 0);
        let (sum, kinds) = always.fold((0.0, 0), |(sum, kinds), kind| (sum + of(*kind), kinds + 1));
        sum / f64::from(kinds.max(1))
    }
}

/// What is told apart, at the most: each takes two windows.
const PARCELS_MAX: usize = 24;

/// Which of several weights vary by themselves, by number: the heaviest; the rest of more than there may be vary as one,
/// which is the last.
fn parcels(weights: &[u32]) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let mut pooled = Vec::new();
    if order.len() > PARCELS_MAX {
        order.sort_by_key(|nth| (std::cmp::Reverse(weights[*nth]), *nth));
        pooled.push(order.split_off(PARCELS_MAX - 1));
    }
    order.sort_unstable();
    order
        .into_iter()
        .map(|nth| vec![nth])
        .chain(pooled)
        .collect()
}

/// The costs of each group of a step's requests, but for those of the rarest of many, which are told from the rest as one;
/// `None` where the windows do not tell.
pub fn costs(windows: &[MixWindow], requests: &[RequestKind]) -> Option<Vec<(Group, Costs)>> {
    let groups = Group::all(requests);
    let own: Vec<u32> = groups
        .iter()
        .map(|group| requests[group.kinds[0]].weight)
        .collect();
    let parcels = parcels(&own);
    let degrees = windows.len().checked_sub(parcels.len())?;
    let is_whole = |window: &MixWindow| {
        window.answered.len() == requests.len() && window.window_ns > 0 && window.cpu_span_ns > 0
    };
    if parcels.len() < 2 || degrees < SPARE_MIN || !windows.iter().all(is_whole) {
        return None;
    }
    // Answers and CPU time, each by its own clock: nanoseconds of CPU for each nanosecond.
    let counts = |of: &dyn Fn(usize) -> f64| -> Vec<f64> {
        let count = |nth: &usize| groups[*nth].count(requests, of);
        let parcels = parcels.iter();
        parcels
            .map(|parcel| parcel.iter().map(count).sum())
            .collect()
    };
    let row =
        |window: &MixWindow| counts(&|kind| window.answered[kind] as f64 / window.window_ns as f64);
    let rows: Vec<Vec<f64>> = windows.iter().map(row).collect();
    let rates = counts(&|kind| requests[kind].sent as f64);
    let server = used(windows, |w| {
        Some((w.server_cpu_ns, w.cpu_span_ns, w.reference_ns))
    });
    let server = fitted(&rows, &rates, &server?)?;
    let client = used(windows, |w| {
        Some((w.client_cpu_ns?, w.cpu_span_ns, w.client_reference_ns))
    });
    let client = client.and_then(|used| fitted(&rows, &rates, &used));
    let backend = used(windows, |w| {
        let used = w.backend.filter(|used| used.span_ns > 0)?;
        Some((used.cpu_ns, used.span_ns, None))
    });
    let backend = backend.and_then(|used| fitted(&rows, &rates, &used));
    // At a wall that is a wait something is in use all the time, whatever it is: the load's own time is shared out.
    let held = fitted(&rows, &rates, &vec![1.0; rows.len()]);
    let all = parcels.iter().zip(server).enumerate();
    let alone = all.filter_map(|(nth, (parcel, server))| match parcel[..] {
        [group] => Some((nth, groups[group].clone(), server)),
        _ => None,
    });
    let one = |(nth, group, server)| {
        let of = |all: &Option<Vec<Cost>>| all.as_ref().map(|all| all[nth]);
        let costs = Costs {
            server,
            client: of(&client),
            backend: of(&backend),
            held: of(&held),
        };
        (group, costs)
    };
    Some(alone.map(one).collect())
}

/// CPU time of each window, over so long, as at one pace where that was watched: the same work takes a machine more time
/// when it is slow.
fn used(
    windows: &[MixWindow],
    of: impl Fn(&MixWindow) -> Option<(u64, u64, Option<f64>)>,
) -> Option<Vec<f64>> {
    let spent: Vec<(u64, u64, Option<f64>)> = windows.iter().map(&of).collect::<Option<_>>()?;
    let paces: Option<Vec<f64>> = spent.iter().map(|(_, _, pace)| *pace).collect();
    let usual = paces.as_ref().and_then(|paces| median(paces));
    let one = |(cpu_ns, span_ns, own): &(u64, u64, Option<f64>)| {
        let pace = usual.zip(*own).map_or(1.0, |(usual, own)| usual / own);
        pace * *cpu_ns as f64 / *span_ns as f64
    };
    Some(spent.iter().map(one).collect())
}

/// Least squares: what one of each takes, where the rows have how many there were and `used` what all took.
fn fitted(rows: &[Vec<f64>], rates: &[f64], used: &[f64]) -> Option<Vec<Cost>> {
    let kinds = rates.len();
    let degrees = rows.len().checked_sub(kinds)?;
    // Kinds that are answered seldom would stand beside others like nothing.
    let scale: Vec<f64> = (0..kinds)
        .map(|kind| rows.iter().map(|row| row[kind]).sum::<f64>() / rows.len() as f64)
        .collect();
    if scale.iter().any(|mean| *mean <= 0.0) {
        return None;
    }
    let scaled = |row: &[f64], kind: usize| row[kind] / scale[kind];
    let sum = |of: &dyn Fn(usize) -> f64| (0..rows.len()).map(of).sum::<f64>();
    let products: Vec<Vec<f64>> = (0..kinds)
        .map(|a| {
            let with = |b: usize| sum(&|i| scaled(&rows[i], a) * scaled(&rows[i], b));
            (0..kinds).map(with).collect()
        })
        .collect();
    let (inverse, _) = inverse(products);
    if inverse.iter().flatten().any(|value| !value.is_finite()) {
        return None;
    }
    let right: Vec<f64> = (0..kinds)
        .map(|a| sum(&|i| scaled(&rows[i], a) * used[i]))
        .collect();
    let fitted: Vec<f64> = inverse
        .iter()
        .map(|row| row.iter().zip(&right).map(|(a, b)| a * b).sum())
        .collect();
    let left_over = sum(&|i| {
        let foreseen: f64 = (0..kinds)
            .map(|kind| fitted[kind] * scaled(&rows[i], kind))
            .sum();
        (used[i] - foreseen).powi(2)
    });
    let variance = left_over / degrees as f64;
    let t = quantile(0.05, degrees as f64);
    let cost = |kind: usize| fitted[kind] / scale[kind];
    let spent: Vec<f64> = (0..kinds).map(|kind| cost(kind) * rates[kind]).collect();
    let whole: f64 = spent.iter().sum();
    if whole <= 0.0 {
        return None;
    }
    // How the share of a kind changes with each of the fitted values.
    let slope = |kind: usize, of: usize| {
        let own = if kind == of { 1.0 } else { 0.0 };
        (own - spent[kind] / whole) * rates[of] / scale[of] / whole
    };
    let one = |kind: usize| {
        let half = t * (variance * inverse[kind][kind]).sqrt() / scale[kind];
        let spread: f64 = (0..kinds)
            .flat_map(|a| (0..kinds).map(move |b| (a, b)))
            .map(|(a, b)| slope(kind, a) * slope(kind, b) * inverse[a][b])
            .sum();
        let half_share = t * (variance * spread.max(0.0)).sqrt();
        let share = spent[kind] / whole;
        Cost {
            each: cost(kind),
            low: cost(kind) - half,
            high: cost(kind) + half,
            share,
            share_low: share - half_share,
            share_high: share + half_share,
        }
    };
    Some((0..kinds).map(one).collect())
}

/// Weights for as many windows as a mix of these needs: each between half of its own and twice, those of the rarest of
/// many alike.
pub fn weights(own: &[u32], seed: u64) -> Vec<Vec<u32>> {
    /// Weights are counts: a thousandth of one is told apart.
    const SCALE: f64 = 1_000.0;
    let mut random = Rng::with_seed(seed);
    let parcels = parcels(own);
    let mut one = |_| {
        let mut drawn = vec![0; own.len()];
        for parcel in &parcels {
            let factor = 2_f64.powf(2.0 * random.f64() - 1.0);
            for nth in parcel {
                let weight = (f64::from(own[*nth]) * factor * SCALE).round() as u32;
                drawn[*nth] = weight.max(1);
            }
        }
        drawn
    };
    (0..windows_needed(parcels.len())).map(&mut one).collect()
}

fn windows_needed(kinds: usize) -> usize {
    (2 * kinds + 4).max(10)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that these costs fill, whatever the weights, measured with some noise.
    fn measured(costs: &[f64], weights: &[f64], noise: f64, random: &mut Rng) -> Vec<MixWindow> {
        let window_ns = 1_000_000_000_u64;
        let one = |_| {
            let drawn: Vec<f64> = weights
                .iter()
                .map(|weight| weight * 2_f64.powf(2.0 * random.f64() - 1.0))
                .collect();
            let each: f64 = drawn
                .iter()
                .zip(costs)
                .map(|(weight, cost)| weight * cost)
                .sum();
            let spread = 1.0 + noise * (random.f64() + random.f64() + random.f64() - 1.5) * 2.0;
            let rounds = window_ns as f64 / each;
            MixWindow {
                weights: Vec::new(),
                answered: drawn
                    .iter()
                    .map(|weight| (weight * rounds) as u64)
                    .collect(),
                window_ns,
                server_cpu_ns: (window_ns as f64 * spread) as u64,
                cpu_span_ns: window_ns,
                reference_ns: None,
                ..MixWindow::default()
            }
        };
        (0..windows_needed(costs.len())).map(one).collect()
    }

    /// Requests alone, at these rates.
    fn at(rates: &[f64]) -> Vec<RequestKind> {
        let one = |(nth, rate): (usize, &f64)| RequestKind {
            name: nth.to_string(),
            weight: 1,
            // Shares have no unit.
            sent: (*rate * 1e3) as u64,
            ..RequestKind::default()
        };
        rates.iter().enumerate().map(one).collect()
    }

    fn of_server(windows: &[MixWindow], rates: &[f64]) -> Option<Vec<Cost>> {
        let found = costs(windows, &at(rates))?;
        Some(found.into_iter().map(|(_, costs)| costs.server).collect())
    }

    /// A session's steps come together, and its costs are those of all of them; a redirect is one of its kinds.
    #[test]
    fn a_session_is_told_as_one() {
        let mut windows = measured(
            &[10_000.0, 90_000.0],
            &[9.0, 1.0],
            0.0,
            &mut Rng::with_seed(2),
        );
        for window in &mut windows {
            let sessions = window.answered[1];
            window.answered.extend([sessions, sessions / 2]);
            window.client_cpu_ns = Some(2_000 * window.answered[0] + 6_000 * sessions);
        }
        let mut requests = at(&[9.0, 1.0, 1.0, 0.5]);
        requests[3].weight = 0;
        for step in &mut requests[1..] {
            step.session = Some("buy".to_owned());
        }
        let found = costs(&windows, &requests).expect("they tell");
        let shown: Vec<(&str, bool)> = found
            .iter()
            .map(|(group, _)| (&*group.name, group.is_session))
            .collect();
        assert_eq!(shown, [("0", false), ("buy", true)]);
        let of_session = found[1].1;
        assert!((of_session.server.each / 90_000.0 - 1.0).abs() < 0.01);
        let client = of_session.client.expect("it was watched");
        assert!((client.each / 6_000.0 - 1.0).abs() < 0.01, "{client:?}");
    }

    #[test]
    fn a_kind_that_is_seldom_and_dear_has_its_share_of_a_full_server() {
        let (costs_ns, weights) = ([8_000.0, 12_000.0, 400_000.0], [70.0, 25.0, 5.0]);
        let windows = measured(&costs_ns, &weights, 0.0, &mut Rng::with_seed(1));
        let found = of_server(&windows, &weights).expect("they tell");
        for (found, cost) in found.iter().zip(costs_ns) {
            assert!(
                (found.each / cost - 1.0).abs() < 0.01,
                "{found:?} of {cost}"
            );
        }
        let whole: f64 = costs_ns
            .iter()
            .zip(weights)
            .map(|(cost, weight)| cost * weight)
            .sum();
        assert!((found[2].share - 400_000.0 * 5.0 / whole).abs() < 0.01);
        let shares: f64 = found.iter().map(|cost| cost.share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_rarest_of_many_are_told_as_one() {
        let own: Vec<u32> = (0..40)
            .map(|nth| if nth == 30 { 900 } else { 100 - nth })
            .collect();
        let cost = |nth: usize| {
            if nth == 30 {
                200_000.0
            } else {
                5_000.0 + 100.0 * nth as f64
            }
        };
        let mut requests = at(&own
            .iter()
            .map(|weight| f64::from(*weight))
            .collect::<Vec<f64>>());
        for (request, weight) in requests.iter_mut().zip(&own) {
            request.weight = *weight;
        }
        let window = |drawn: Vec<u32>| {
            let each = drawn.iter().enumerate();
            let each: f64 = each
                .map(|(nth, weight)| f64::from(*weight) * cost(nth))
                .sum();
            let rounds = 1e9 / each;
            MixWindow {
                answered: drawn
                    .iter()
                    .map(|weight| (f64::from(*weight) * rounds * 1e3) as u64)
                    .collect(),
                weights: drawn,
                window_ns: 1_000_000_000,
                server_cpu_ns: 1_000_000_000_000,
                cpu_span_ns: 1_000_000_000,
                ..MixWindow::default()
            }
        };
        let drawn = weights(&own, 3);
        assert_eq!(drawn.len(), windows_needed(PARCELS_MAX));
        let windows: Vec<MixWindow> = drawn.into_iter().map(window).collect();
        let found = costs(&windows, &requests).expect("they tell");
        assert_eq!(found.len(), PARCELS_MAX - 1);
        let (dear, costs) = found.last().expect("there are some");
        assert_eq!(dear.name, "30");
        assert!(
            (costs.server.each / 200_000.0 - 1.0).abs() < 0.02,
            "{costs:?}"
        );
        let whole: f64 = own
            .iter()
            .enumerate()
            .map(|(nth, weight)| f64::from(*weight) * cost(nth))
            .sum();
        assert!((costs.server.share - 900.0 * 200_000.0 / whole).abs() < 0.02);
    }

    #[test]
    fn intervals_hold_the_truth_in_nineteen_of_twenty() {
        let (costs_ns, weights) = (
            [8_000.0, 12_000.0, 90_000.0, 30_000.0],
            [60.0, 25.0, 5.0, 10.0],
        );
        let whole: f64 = costs_ns
            .iter()
            .zip(weights)
            .map(|(cost, weight)| cost * weight)
            .sum();
        let mut random = Rng::with_seed(7);
        let (mut costs_held, mut shares_held, mut all) = (0, 0, 0);
        for _ in 0..400 {
            let windows = measured(&costs_ns, &weights, 0.02, &mut random);
            let found = of_server(&windows, &weights).expect("they tell");
            for ((found, cost), weight) in found.iter().zip(costs_ns).zip(weights) {
                all += 1;
                costs_held += usize::from((found.low..=found.high).contains(&cost));
                let share = cost * weight / whole;
                shares_held += usize::from((found.share_low..=found.share_high).contains(&share));
            }
        }
        for held in [costs_held, shares_held] {
            let share = held as f64 / all as f64;
            assert!((0.92..=0.98).contains(&share), "{share}");
        }
    }

    #[test]
    fn a_machine_that_changes_its_pace_moves_no_cost() {
        let (costs_ns, weights) = ([10_000.0, 100_000.0], [9.0, 1.0]);
        let mut random = Rng::with_seed(5);
        let mut windows = measured(&costs_ns, &weights, 0.0, &mut random);
        for window in &mut windows {
            let slower = 1.0 + 0.5 * random.f64();
            let fewer = |answered: &mut u64| *answered = (*answered as f64 / slower) as u64;
            window.answered.iter_mut().for_each(fewer);
            window.reference_ns = Some(40_000.0 * slower);
        }
        let found = of_server(&windows, &weights).expect("they tell");
        assert!((found[1].share - 100.0 / 190.0).abs() < 0.01, "{found:?}");
        assert!(found[1].share_high - found[1].share_low < 0.02, "{found:?}");
    }

    #[test]
    fn weights_are_drawn_between_half_and_twice_and_alike_for_a_seed() {
        let own = [60, 5, 1];
        let drawn = weights(&own, 3);
        assert_eq!(drawn.len(), windows_needed(3));
        assert_eq!(drawn, weights(&own, 3));
        assert_ne!(drawn, weights(&own, 4));
        for window in &drawn {
            for (weight, own) in window.iter().zip(own) {
                assert!((own * 500..=own * 2_000).contains(weight), "{window:?}");
            }
        }
    }

    #[test]
    fn few_windows_and_one_kind_tell_nothing() {
        let windows = measured(
            &[1_000.0, 2_000.0],
            &[1.0, 1.0],
            0.0,
            &mut Rng::with_seed(3),
        );
        assert!(of_server(&windows[..4], &[1.0, 1.0]).is_none());
        assert!(of_server(&windows, &[1.0]).is_none());
        // The same mix each time.
        let same = vec![windows[0].clone(); 12];
        assert!(of_server(&same, &[1.0, 1.0]).is_none_or(|found| {
            found
                .iter()
                .all(|cost| !cost.each.is_finite() || cost.share.is_finite())
        }));
    }
}
