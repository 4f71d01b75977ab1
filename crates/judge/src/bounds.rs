//! Which latencies requests without an answer could move.
//!
//! A request that had no answer when the wait for it was over took longer than anybody knows. A percentile
//! is a *lower bound* where it would be larger by more than a tenth, had all of those taken for ever. What
//! this is not: an estimate of how long they would have taken.

use wallfinder_model::{Caveat, Step};

use crate::histogram::{self, Distribution};

/// A percentile that moves by less is told as it is.
const MOVED: f64 = 1.1;

/// The latencies of a step beside the requests that had no answer.
#[derive(Debug, Clone)]
pub struct Bounds {
    latency: Distribution,
    unanswered: u64,
    oldest_ns: u64,
}

impl Bounds {
    /// `None` where every request had an answer, or nothing is known of the others.
    pub fn of(step: &Step) -> Option<Bounds> {
        let drained = step.drained.filter(|drained| drained.unanswered() > 0)?;
        let latency = histogram::decode(step.latency.as_ref()?).ok()?;
        (latency.count() > 0).then_some(Bounds {
            latency,
            unanswered: drained.unanswered(),
            oldest_ns: drained.oldest_ns,
        })
    }

    /// Whether a quantile of latency, 0..1, is a lower bound.
    pub fn bounds(&self, quantile: f64) -> bool {
        let count = self.latency.count() as f64;
        let shifted = quantile * (count + self.unanswered as f64) / count;
        let value = |quantile| self.latency.quantile_ns(quantile).map(|ns| ns as f64);
        match (value(quantile), value(shifted)) {
            _ if shifted > 1.0 => true,
            (Some(as_it_is), Some(at_most)) => at_most > MOVED * as_it_is,
            _ => false,
        }
    }

    /// Whether the same holds for one of the quantiles of tables.
    pub fn bounds_named(&self, name: &str) -> bool {
        let named = histogram::NAMED.iter().find(|(other, _)| *other == name);
        named.is_some_and(|(_, quantile)| self.bounds(*quantile))
    }

    /// Whether the mean is one: the oldest request alone may stand for all of them.
    pub fn bounds_mean(&self) -> bool {
        let sum = self.latency.mean_ns() * self.latency.count() as f64;
        self.unanswered as f64 * self.oldest_ns as f64 > (MOVED - 1.0) * sum
    }

    /// Requests without an answer.
    pub fn unanswered(&self) -> u64 {
        self.unanswered
    }
}

/// Whether a quantile of a step's latency, by its name in tables, is a lower bound.
pub fn is_bound(step: &Step, name: &str) -> bool {
    Bounds::of(step).is_some_and(|bounds| bounds.bounds_named(name))
}

/// Requests without an answer that could move a quantile of a part of a step, of which `left` had not ended when the
/// window closed and `count` have a latency. How many of the step's `unanswered` are of this part is known at the
/// window's end alone: as many as were left at the most.
pub(crate) fn unanswered_of_part(left: u64, unanswered: u64, count: u64, quantile: f64) -> u64 {
    let of_part = left.min(unanswered);
    let could_move = of_part as f64 > (1.0 - quantile) * count as f64;
    if could_move { of_part } else { 0 }
}

/// The doubt that requests without an answer raise.
pub(crate) fn unanswered(step: &Step) -> Option<Caveat> {
    let drained = step.drained.filter(|drained| drained.unanswered() > 0)?;
    let bounds = Bounds::of(step);
    let is_bound = |name: &str| bounds.as_ref().is_some_and(|b| b.bounds_named(name));
    let names = histogram::NAMED.iter().map(|(name, _)| *name);
    Some(Caveat::Unanswered {
        in_flight: drained.in_flight,
        not_sent: drained.not_sent,
        oldest_ns: drained.oldest_ns,
        waited_ns: drained.waited_ns,
        bounds: names
            .filter(|name| is_bound(name))
            .map(str::to_owned)
            .collect(),
    })
}

/// The doubt where the load generator itself may have made requests late.
pub(crate) fn late_by_client(step: &Step) -> Option<Caveat> {
    let count = step.counts.late_by_client;
    let timeouts = step.counts.failed.get("timeout.total").copied();
    (count > 0).then_some(Caveat::LateByClient {
        count,
        timeouts: timeouts.unwrap_or(count),
    })
}

/// The doubt where far fewer connections were open than were asked for.
pub(crate) fn fewer_connections(step: &Step) -> Option<Caveat> {
    /// A mean below this share of what was asked for is said.
    const MEAN_MIN: f64 = 0.95;
    let open = step.open_connections?;
    let asked = u64::from(step.load.connections);
    let replaced =
        step.load.connection_per_request || step.counts.connects > step.counts.answered / 2;
    // A server that ends each connection leaves fewer open than there are, and so does an outage.
    let few = open.most < asked
        || (!replaced && step.counts.unreachable_ns == 0 && open.mean < MEAN_MIN * asked as f64);
    few.then_some(Caveat::FewerConnections {
        asked,
        most: open.most,
        mean: open.mean,
        answering: open.answering,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::double::a_step;
    use crate::histogram::tests::of;
    use wallfinder_model::record::{Drained, OpenConnections};

    const MS: u64 = 1_000_000;

    /// Answers of 1 to 1.2 ms beside requests without one.
    fn step(answers: u64, unanswered: u64) -> Step {
        let latency = of((0..answers).map(|n| MS + n % 200 * 1_000));
        a_step()
            .with(|step| {
                step.latency = Some(latency.to_record());
                step.drained = Some(Drained {
                    in_flight: unanswered,
                    oldest_ns: 5_000 * MS,
                    ..Drained::default()
                });
            })
            .build()
    }

    #[test]
    fn percentiles_beyond_the_answers_are_lower_bounds() {
        // One in 20 had no answer.
        let step = step(475, 25);
        let bounds = Bounds::of(&step).unwrap();
        let names: Vec<_> = histogram::NAMED.iter().map(|(name, _)| *name).collect();
        let bound: Vec<_> = names
            .into_iter()
            .filter(|n| bounds.bounds_named(n))
            .collect();
        assert_eq!(bound, ["p99", "p99.9", "p99.99"]);
        assert!(bounds.bounds_mean());
        assert!(!bounds.bounds(0.5));
        let caveats = crate::caveats::of_step(&step, &crate::double::a_machine());
        let told = caveats.iter().any(|caveat| {
            matches!(caveat, Caveat::Unanswered { in_flight: 25, bounds, .. } if bounds.len() == 3)
        });
        assert!(told, "{caveats:?}");
    }

    #[test]
    fn where_all_were_answered_nothing_is_a_bound() {
        assert!(Bounds::of(&step(475, 0)).is_none());
        assert!(unanswered(&step(475, 0)).is_none());
        let mut foreign = step(475, 25);
        foreign.drained = None;
        assert!(Bounds::of(&foreign).is_none());
    }

    #[test]
    fn a_few_among_many_move_the_far_tail_only() {
        let bounds = Bounds::of(&step(100_000, 3)).unwrap();
        assert!(!bounds.bounds(0.999));
        assert!(bounds.bounds(0.99999));
    }

    #[test]
    fn counts_at_their_limits_are_bounds_and_no_panic() {
        let mut step = step(475, u64::MAX);
        step.drained.as_mut().unwrap().not_sent = u64::MAX;
        let bounds = Bounds::of(&step).unwrap();
        assert!(bounds.bounds(0.5) && bounds.bounds_mean());
    }

    #[test]
    fn connections_that_were_asked_for_and_never_open_are_told() {
        let open = |most, mean| {
            let mut step = step(100_000, 0);
            step.load.connections = 1000;
            step.counts.answered = 100_000;
            step.counts.connects = 0;
            step.open_connections = Some(OpenConnections {
                most,
                mean,
                answering: most,
            });
            fewer_connections(&step).is_some()
        };
        assert!(open(100, 100.0));
        assert!(open(1000, 400.0));
        assert!(!open(1000, 999.0));
    }

    #[test]
    fn the_clients_own_lateness_is_told_with_the_timeouts() {
        let mut step = step(475, 0);
        assert!(late_by_client(&step).is_none());
        step.counts.late_by_client = 3;
        step.counts.failed.insert("timeout.total".into(), 10);
        let told = late_by_client(&step);
        assert!(matches!(
            told,
            Some(Caveat::LateByClient {
                count: 3,
                timeouts: 10
            })
        ));
    }
}
