//! Whether a worker could reach its server: how many connections were open, and when none was.
//!
//! A moment without a connection is an *outage* where an attempt to open one failed meanwhile, or takes long:
//! a server that ends each connection after its answer is not gone in between, nor while none is wanted.

use wallfinder_model::record::Outage;

/// An attempt that takes as long makes an outage without having failed.
const OUTAGE_NS: u64 = 100_000_000;
/// Outages that a worker keeps; what comes after them is joined to the last.
const OUTAGES_MAX: usize = 1024;

/// Connections that are open, over time. Times are monotonic.
#[derive(Debug)]
pub(crate) struct Reach {
    open: u64,
    most: u64,
    /// Connection-nanoseconds up to `at_ns`; 0: before the schedule's zero.
    area: u128,
    at_ns: u64,
    /// Since when none is open, and whether an attempt failed since.
    dark: Option<(u64, bool)>,
    outages: Vec<(u64, u64)>,
}

impl Reach {
    pub(crate) fn new() -> Reach {
        Reach {
            open: 0,
            most: 0,
            area: 0,
            at_ns: 0,
            dark: None,
            outages: Vec::with_capacity(OUTAGES_MAX),
        }
    }

    /// The schedule begins.
    pub(crate) fn begin(&mut self, now: u64) {
        self.at_ns = now;
        self.dark = (self.open == 0).then_some((now, true));
    }

    /// The window begins: the most is that of the window.
    pub(crate) fn open_window(&mut self) {
        self.most = self.open;
    }

    /// An attempt that began then has led to a connection.
    pub(crate) fn opened(&mut self, since_ns: u64, now: u64) {
        self.advance(now);
        self.open += 1;
        self.most = self.most.max(self.open);
        self.light(Some(since_ns), now);
    }

    pub(crate) fn closed(&mut self, now: u64) {
        self.advance(now);
        self.open -= 1;
        if self.open == 0 && self.at_ns > 0 {
            self.dark = Some((now, false));
        }
    }

    pub(crate) fn failed(&mut self) {
        if let Some((_, failed)) = &mut self.dark {
            *failed = true;
        }
    }

    /// Connection-nanoseconds since the schedule began.
    pub(crate) fn area(&mut self, now: u64) -> u128 {
        self.advance(now);
        self.area
    }

    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// The window is over, and so is an outage that lasts; an attempt under way began then.
    pub(crate) fn end(&mut self, since_ns: Option<u64>, now: u64) -> Vec<(u64, u64)> {
        self.light(since_ns, now);
        std::mem::take(&mut self.outages)
    }

    fn advance(&mut self, now: u64) {
        if self.at_ns > 0 {
            let span = now.saturating_sub(self.at_ns);
            self.area += u128::from(span) * u128::from(self.open);
            self.at_ns = now.max(self.at_ns);
        }
    }

    fn light(&mut self, attempt_ns: Option<u64>, now: u64) {
        let Some((dark_ns, failed)) = self.dark.take() else {
            return;
        };
        let since = match attempt_ns {
            _ if failed => dark_ns,
            Some(attempt_ns) => dark_ns.max(attempt_ns),
            None => return,
        };
        if !failed && now.saturating_sub(since) < OUTAGE_NS {
            return;
        }
        if self.outages.len() < OUTAGES_MAX {
            self.outages.push((since, now));
        } else if let Some((_, until)) = self.outages.last_mut() {
            *until = now;
        }
    }
}

/// When no worker had a connection, within a window: what all workers have in common. Counted from `zero_ns`.
pub(crate) fn common(
    workers: &[&[(u64, u64)]],
    (from_ns, to_ns): (u64, u64),
    zero_ns: u64,
) -> Vec<Outage> {
    let mut common = vec![(from_ns, to_ns)];
    for worker in workers {
        common = intersection(&common, worker);
    }
    if workers.is_empty() {
        return Vec::new();
    }
    common
        .into_iter()
        .map(|(from, to)| Outage {
            at_ns: from.saturating_sub(zero_ns),
            for_ns: to - from,
        })
        .collect()
}

/// Both ascending and without overlaps.
fn intersection(one: &[(u64, u64)], other: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut a, mut b) = (0, 0);
    let mut both = Vec::new();
    while a < one.len() && b < other.len() {
        let (from, to) = (one[a].0.max(other[b].0), one[a].1.min(other[b].1));
        if from < to {
            both.push((from, to));
        }
        if one[a].1 < other[b].1 {
            a += 1;
        } else {
            b += 1;
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn begun() -> Reach {
        let mut reach = Reach::new();
        reach.opened(1, 1);
        reach.begin(1_000 * MS);
        reach
    }

    #[test]
    fn a_server_that_goes_is_missed_from_then_on() {
        let mut reach = begun();
        reach.closed(2_500 * MS);
        reach.failed();
        reach.opened(2_990 * MS, 3_000 * MS);
        reach.closed(4_000 * MS);
        assert_eq!(
            reach.end(Some(4_000 * MS), 4_200 * MS),
            [(2_500 * MS, 3_000 * MS), (4_000 * MS, 4_200 * MS)]
        );
    }

    #[test]
    fn a_connection_for_each_request_is_no_outage() {
        let mut reach = begun();
        for at in 0..50 {
            reach.closed((1_000 + 10 * at) * MS);
            reach.opened((1_001 + 10 * at) * MS, (1_005 + 10 * at) * MS);
        }
        // Nor is a pause in which no connection is wanted.
        reach.closed(1_500 * MS);
        reach.opened(1_900 * MS, 1_905 * MS);
        reach.closed(1_910 * MS);
        assert!(reach.end(None, 3_000 * MS).is_empty());
    }

    #[test]
    fn an_attempt_that_takes_long_is_an_outage() {
        let mut reach = begun();
        reach.closed(2_000 * MS);
        reach.opened(2_300 * MS, 2_500 * MS);
        assert_eq!(reach.end(None, 3_000 * MS), [(2_300 * MS, 2_500 * MS)]);
    }

    #[test]
    fn where_no_connection_ever_opened_all_is_outage() {
        let mut reach = Reach::new();
        reach.begin(MS);
        assert_eq!(reach.end(None, 9 * MS), [(MS, 9 * MS)]);
    }

    #[test]
    fn connections_are_counted_over_time() {
        let mut reach = begun();
        reach.opened(1_999 * MS, 2_000 * MS);
        reach.open_window();
        reach.closed(3_000 * MS);
        assert_eq!(reach.most(), 2);
        // One for a second, two for another, one for half.
        let seconds = reach.area(3_500 * MS) as f64 / 1e9;
        assert!((seconds - 3.5).abs() < 1e-9, "{seconds}");
        reach.open_window();
        assert_eq!(reach.most(), 1);
    }

    #[test]
    fn an_outage_is_one_that_all_workers_have() {
        let one = [(10, 50), (80, 90)];
        let other = [(20, 30), (40, 85)];
        let outages = common(&[&one, &other], (25, 82), 5);
        let spans: Vec<_> = outages.iter().map(|o| (o.at_ns, o.for_ns)).collect();
        assert_eq!(spans, [(20, 5), (35, 10), (75, 2)]);
        assert!(common(&[&one, &[]], (0, 100), 0).is_empty());
        assert!(common(&[], (0, 100), 0).is_empty());
    }

    #[test]
    fn more_outages_than_are_kept_are_joined_to_the_last() {
        let mut reach = begun();
        for at in 0..2_000_u64 {
            reach.closed((2_000 + 10 * at) * MS);
            reach.failed();
            reach.opened(0, (2_001 + 10 * at) * MS);
        }
        let outages = reach.end(None, 30_000 * MS);
        assert_eq!(outages.len(), OUTAGES_MAX);
        assert_eq!(outages.last().unwrap().1, (2_001 + 19_990) * MS);
    }
}
