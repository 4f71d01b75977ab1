//! Latencies in HDR histograms: 3 significant digits, 1 ns to an hour, overflow counted.

use std::collections::BTreeMap;

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use wallfinder_model::record;

/// Largest latency that a histogram places: two hours.
pub const HIGHEST_NS: u64 = 7_200_000_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;
const COARSE_DIGITS: u8 = 2;

/// Quantiles that tables show.
pub const QUANTILES: [(&str, f64); 7] = [
    ("p50", 0.50),
    ("p75", 0.75),
    ("p90", 0.90),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// A histogram that counts what is beyond its range instead of dropping it.
#[derive(Debug, Clone)]
pub struct Latencies {
    within: Histogram<u64>,
    beyond: u64,
}

impl Latencies {
    /// An empty one, with all of its memory.
    pub fn new() -> Latencies {
        Latencies {
            within: Histogram::new_with_bounds(1, HIGHEST_NS, SIGNIFICANT_DIGITS)
                .expect("constant bounds are valid"),
            beyond: 0,
        }
    }

    /// One to two digits, in an eighth of the memory: of which there are many.
    pub fn coarse() -> Latencies {
        Latencies {
            within: Histogram::new_with_bounds(1, HIGHEST_NS, COARSE_DIGITS)
                .expect("constant bounds are valid"),
            beyond: 0,
        }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.record_many(ns, 1);
    }

    /// Counts a value so many times.
    #[inline]
    pub fn record_many(&mut self, ns: u64, times: u64) {
        if self.within.record_n(ns, times).is_err() {
            self.beyond += times;
        }
    }

    /// Adds every value of another.
    pub fn add(&mut self, other: &Latencies) {
        if !other.within.is_empty() {
            self.within
                .add(&other.within)
                .expect("both have the same bounds");
        }
        self.beyond += other.beyond;
    }

    /// Forgets every value.
    pub fn clear(&mut self) {
        self.within.reset();
        self.beyond = 0;
    }

    /// Values within the range.
    pub fn count(&self) -> u64 {
        self.within.len()
    }

    /// The value at a quantile, 0..=1; 0 when empty.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        if self.within.is_empty() {
            return 0;
        }
        self.within.value_at_quantile(quantile)
    }

    /// Mean of the values within the range.
    pub fn mean_ns(&self) -> f64 {
        self.within.mean()
    }

    /// Smallest value within the range; 0 when empty.
    pub fn min_ns(&self) -> u64 {
        self.within.min()
    }

    /// Largest value within the range.
    pub fn max_ns(&self) -> u64 {
        self.within.max()
    }

    /// The quantiles that tables show, by name.
    pub fn quantiles_ns(&self) -> BTreeMap<String, u64> {
        QUANTILES
            .iter()
            .map(|(name, quantile)| ((*name).to_owned(), self.quantile_ns(*quantile)))
            .collect()
    }

    /// Adds every value of one in the record's shape. `None`: it is none of ours, or has other bounds.
    pub fn add_record(&mut self, other: &record::Histogram) -> Option<()> {
        let bytes = base64::engine::general_purpose::STANDARD.decode(&other.hdr_v2);
        let within: Histogram<u64> = Deserializer::new().deserialize(&mut &*bytes.ok()?).ok()?;
        let is_alike = within.sigfig() == self.within.sigfig()
            && within.low() == self.within.low()
            && within.high() == self.within.high();
        is_alike.then_some(())?;
        let beyond = self.beyond.checked_add(other.beyond)?;
        self.within.add(&within).ok()?;
        self.beyond = beyond;
        Some(())
    }

    /// In the record's shape; `None` when nothing was counted.
    pub fn to_record(&self) -> Option<record::Histogram> {
        if self.within.is_empty() && self.beyond == 0 {
            return None;
        }
        let mut bytes = Vec::new();
        V2Serializer::new()
            .serialize(&self.within, &mut bytes)
            .expect("writing to memory cannot fail");
        Some(record::Histogram {
            hdr_v2: base64::engine::general_purpose::STANDARD.encode(bytes),
            count: self.within.len(),
            beyond: self.beyond,
            mean_ns: self.within.mean(),
            stdev_ns: self.within.stdev(),
            min_ns: self.within.min(),
            max_ns: self.within.max(),
            quantiles_ns: self.quantiles_ns(),
        })
    }
}

/// The same value over and over, not placed yet: answers that come together to requests that were sent together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Repeated {
    ns: u64,
    times: u64,
}

impl Repeated {
    /// Counts a value; one that came before it and was another is placed.
    #[inline]
    pub(crate) fn record(&mut self, ns: u64, into: &mut Latencies) {
        if ns != self.ns {
            self.place(into);
            self.ns = ns;
        }
        self.times += 1;
    }

    /// Places what was counted.
    #[inline]
    pub(crate) fn place(&mut self, into: &mut Latencies) {
        let times = std::mem::take(&mut self.times);
        if times > 0 {
            into.record_many(self.ns, times);
        }
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The value below or at which at least `quantile` of the sorted values lie.
    fn exact(sorted: &[u64], quantile: f64) -> u64 {
        let rank = (quantile * sorted.len() as f64).ceil().max(1.0) as usize;
        sorted[rank - 1]
    }

    #[test]
    fn quantiles_are_within_a_thousandth_of_sorted_samples() {
        // Log-uniform over seven decades, as latencies of a bad day are.
        let mut latencies = Latencies::new();
        let mut values: Vec<u64> = (0..200_000_u64)
            .map(|n| {
                let uniform = wallfinder_wire::random::mixed(n) as f64 / u64::MAX as f64;
                (1e3 * 10_f64.powf(7.0 * uniform)) as u64
            })
            .collect();
        for value in &values {
            latencies.record(*value);
        }
        values.sort_unstable();
        for (name, quantile) in QUANTILES {
            let (got, want) = (latencies.quantile_ns(quantile), exact(&values, quantile));
            let error = (got as f64 / want as f64 - 1.0).abs();
            assert!(error <= 0.001, "{name}: {got} for {want}");
        }
    }

    proptest! {
        #[test]
        fn values_that_are_counted_together_are_those_that_are_counted_alone(
            values in prop::collection::vec((prop::sample::select(vec![0, 7, 90_000, HIGHEST_NS * 4]), 1_usize..5), 0..30),
        ) {
            let (mut alone, mut together) = (Latencies::new(), Latencies::new());
            let mut repeated = Repeated::default();
            for (ns, times) in values {
                for _ in 0..times {
                    alone.record(ns);
                    repeated.record(ns, &mut together);
                }
            }
            repeated.place(&mut together);
            prop_assert_eq!(alone.to_record(), together.to_record());
        }
    }

    #[test]
    fn what_is_beyond_the_range_is_counted() {
        let mut latencies = Latencies::new();
        latencies.record(5);
        latencies.record(HIGHEST_NS * 4);
        assert_eq!((latencies.count(), latencies.beyond), (1, 1));
        assert_eq!(latencies.to_record().unwrap().beyond, 1);
    }

    #[test]
    fn what_is_no_histogram_of_ours_is_not_added() {
        let mut coarse = Latencies::coarse();
        coarse.record(7);
        let of_coarse = coarse.to_record().unwrap();
        let mut latencies = Latencies::new();
        assert_eq!(latencies.add_record(&of_coarse), None);
        for hdr_v2 in ["", "AAAA", "?"] {
            let hdr_v2 = hdr_v2.to_owned();
            let none = record::Histogram {
                hdr_v2,
                ..of_coarse.clone()
            };
            assert_eq!(latencies.add_record(&none), None);
        }
        assert_eq!((latencies.count(), latencies.beyond), (0, 0));
        assert_eq!(coarse.add_record(&of_coarse), Some(()));
        assert_eq!(coarse.count(), 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn merged_workers_equal_one_histogram(
            workers in proptest::collection::vec(
                proptest::collection::vec(0_u64..HIGHEST_NS, 0..200), 1..5)
        ) {
            let mut merged = Latencies::new();
            let mut whole = Latencies::new();
            let mut by_records = Latencies::new();
            for values in &workers {
                let mut worker = Latencies::new();
                for value in values {
                    worker.record(*value);
                    whole.record(*value);
                }
                merged.add(&worker);
                if let Some(record) = worker.to_record() {
                    by_records.add_record(&record).expect("it has the same bounds");
                }
            }
            prop_assert_eq!(by_records.to_record(), whole.to_record());
            prop_assert_eq!(&merged.within, &whole.within);
            prop_assert_eq!(merged.to_record(), whole.to_record());
        }
    }
}
