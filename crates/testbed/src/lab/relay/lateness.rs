//! How late packets left: a histogram that never grows.

/// Steps within a doubling: a quantile is told to within an eighth.
const STEPS: u64 = 8;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const CELLS: usize = (64 - STEP_BITS as usize + 1) * STEPS as usize;

/// Counts of packets by how late they were.
#[derive(Debug)]
pub(super) struct Lateness {
    counts: Box<[u64; CELLS]>,
    count: u64,
    max_ns: u64,
}

impl Lateness {
    pub(super) fn new() -> Lateness {
        Lateness {
            counts: Box::new([0; CELLS]),
            count: 0,
            max_ns: 0,
        }
    }

    pub(super) fn add(&mut self, late_ns: u64) {
        self.counts[cell(late_ns)] += 1;
        self.count += 1;
        self.max_ns = self.max_ns.max(late_ns);
    }

    pub(super) fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// So many of a thousand packets were at most that late; told to within an eighth, upwards.
    pub(super) fn quantile_ns(&self, thousandths: u64) -> u64 {
        let wanted = (self.count * thousandths).div_ceil(1_000);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return end_of(at).min(self.max_ns);
            }
        }
        self.max_ns
    }

    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        (self.count, self.max_ns) = (0, 0);
    }
}

/// Below 2 × [`STEPS`] each value has its own; above, the leading bits count.
fn cell(value: u64) -> usize {
    let doublings = (64 - value.leading_zeros()).saturating_sub(STEP_BITS + 1);
    let within = value >> doublings;
    (u64::from(doublings) * STEPS + within) as usize
}

/// The largest value of a cell.
fn end_of(cell: usize) -> u64 {
    let cell = cell as u64;
    let doublings = (cell / STEPS).saturating_sub(1);
    let within = cell - doublings * STEPS;
    ((u128::from(within + 1) << doublings) - 1) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_cell_that_ends_at_most_an_eighth_above_it() {
        for value in (0..300).chain([1 << 20, (1 << 40) - 1, u64::MAX / 3, u64::MAX]) {
            let end = end_of(cell(value));
            assert!(end >= value && end - value <= value / 8, "{value}: {end}");
            assert!(cell(value) < CELLS);
        }
    }

    #[test]
    fn quantiles_are_of_packets() {
        let mut lateness = Lateness::new();
        assert_eq!((lateness.quantile_ns(990), lateness.max_ns()), (0, 0));
        for _ in 0..990 {
            lateness.add(3);
        }
        for _ in 0..10 {
            lateness.add(1_000_000);
        }
        assert_eq!(
            (lateness.quantile_ns(990), lateness.quantile_ns(991)),
            (3, 1_000_000)
        );
        lateness.clear();
        assert_eq!((lateness.quantile_ns(990), lateness.max_ns()), (0, 0));
    }
}
