//! Distributions out of a record: decoded, and read at any quantile.
//!
//! The store is HDR V2 in base64, uncompressed, in nanoseconds. The bytes may come from a
//! damaged or hostile record: the header is checked against the bytes that are there
//! before anything is allocated.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::Deserializer;
use wallfinder_model::record::Histogram;

/// Header of the format: cookie, length, offset, digits, lowest, highest, ratio.
const HEADER_BYTES: usize = 40;
/// Longest encoding that is read; a full histogram of three digits is far below.
const ENCODED_BYTES_MAX: usize = 16 << 20;
/// Most significant digits that are accepted: five would take 50 MB.
const DIGITS_MAX: u32 = 4;
/// First byte of the uncompressed format's cookie, and its last three.
const COOKIE_V2: [u8; 4] = [0x1c, 0x84, 0x93, 0x13];

/// Quantiles that tables show.
pub const NAMED: [(&str, f64); 7] = [
    ("p50", 0.50),
    ("p75", 0.75),
    ("p90", 0.90),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
    ("p99.99", 0.9999),
];

/// Why a histogram could not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadHistogram {
    /// A foreign driver gave quantiles only.
    QuantilesOnly,
    /// The bytes are not a histogram, or claim more than they hold.
    Damaged(String),
}

impl fmt::Display for BadHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadHistogram::QuantilesOnly => {
                f.write_str("the driver reported quantiles, not the whole distribution")
            }
            BadHistogram::Damaged(what) => write!(f, "the histogram is damaged: {what}"),
        }
    }
}

impl std::error::Error for BadHistogram {}

/// A whole distribution.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    values: Hdr<u64>,
}

/// Reads the whole distribution behind a record's histogram.
pub fn decode(histogram: &Histogram) -> Result<Distribution, BadHistogram> {
    if histogram.hdr_v2.is_empty() {
        return Err(BadHistogram::QuantilesOnly);
    }
    let damaged = |what: &str| BadHistogram::Damaged(what.to_owned());
    if histogram.hdr_v2.len() > ENCODED_BYTES_MAX {
        return Err(damaged("it is longer than any of ours"));
    }
    let bytes = STANDARD
        .decode(&histogram.hdr_v2)
        .map_err(|error| BadHistogram::Damaged(error.to_string()))?;
    if bytes.len() < HEADER_BYTES {
        return Err(damaged("it ends within its header"));
    }
    let word =
        |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if bytes[..4] != COOKIE_V2 {
        return Err(damaged("it is not uncompressed HDR V2"));
    }
    if word(4) as usize > bytes.len() - HEADER_BYTES {
        return Err(damaged("it claims more bytes than it has"));
    }
    if word(12) > DIGITS_MAX {
        return Err(damaged("it claims too many digits"));
    }
    let values = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| BadHistogram::Damaged(error.to_string()))?;
    Ok(Distribution { values })
}

impl Distribution {
    /// Values within the range.
    pub fn count(&self) -> u64 {
        self.values.len()
    }

    /// The mean in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.values.mean()
    }

    /// How many of the largest values were found, at most `count`, and their sum in nanoseconds.
    pub(crate) fn longest(&self, count: u64) -> (u64, f64) {
        let found = count.min(self.values.len());
        let mut shorter = self.values.len() - found;
        let mut sum_ns = 0.0;
        for bucket in self.values.iter_recorded() {
            let here = bucket.count_at_value();
            let skipped = shorter.min(here);
            shorter -= skipped;
            sum_ns += (here - skipped) as f64 * bucket.value_iterated_to() as f64;
        }
        (found, sum_ns)
    }

    /// The value below which this share of the values lies; none without values.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        if self.values.is_empty() || !quantile.is_finite() {
            return None;
        }
        Some(self.values.value_at_quantile(quantile.clamp(0.0, 1.0)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use proptest::prelude::*;

    pub(crate) fn of(values: impl IntoIterator<Item = u64>) -> Distribution {
        let mut hdr = Hdr::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        for value in values {
            hdr.record(value).unwrap();
        }
        Distribution { values: hdr }
    }

    impl Distribution {
        /// As a record keeps it.
        pub(crate) fn to_record(&self) -> Histogram {
            let mut bytes = Vec::new();
            // Writing to memory cannot fail.
            let written = V2Serializer::new().serialize(&self.values, &mut bytes);
            assert!(written.is_ok(), "a histogram in memory can be encoded");
            let quantiles_ns = NAMED
                .into_iter()
                .filter_map(|(name, q)| Some((name.to_owned(), self.quantile_ns(q)?)))
                .collect();
            Histogram {
                hdr_v2: STANDARD.encode(bytes),
                count: self.values.len(),
                beyond: 0,
                mean_ns: self.values.mean(),
                stdev_ns: self.values.stdev(),
                min_ns: if self.values.is_empty() {
                    0
                } else {
                    self.values.min()
                },
                max_ns: self.values.max(),
                quantiles_ns,
            }
        }
    }

    #[test]
    fn what_is_encoded_reads_back_the_same() {
        let whole = of((1..=10_000).map(|i| i * 1_000));
        let back = decode(&whole.to_record()).unwrap();
        assert_eq!(back.values, whole.values);
        let p99 = back.quantile_ns(0.99).unwrap();
        assert!((9_890_000..=9_910_000).contains(&p99), "{p99}");
    }

    #[test]
    fn the_longest_are_summed_however_many_are_asked_for() {
        let whole = of((1..=1_000).map(|i| i * 1_000));
        let near = |count, found, sum: f64| {
            let (of_them, sum_ns) = whole.longest(count);
            assert_eq!(of_them, found);
            assert!((sum_ns - sum).abs() <= 0.002 * sum, "{sum_ns}, not {sum}");
        };
        near(0, 0, 0.0);
        near(2, 2, 1.999e6);
        near(5_000, 1_000, 500.5e6);
    }

    #[test]
    fn a_header_that_claims_too_much_is_refused_before_it_is_believed() {
        let good = of(1..=100).to_record();
        let mut bytes = STANDARD.decode(&good.hdr_v2).unwrap();
        bytes[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        let mut bad = good.clone();
        bad.hdr_v2 = STANDARD.encode(&bytes);
        assert!(matches!(decode(&bad), Err(BadHistogram::Damaged(_))));
        bad.hdr_v2 = "AAAA".to_owned();
        assert!(matches!(decode(&bad), Err(BadHistogram::Damaged(_))));
        bad.hdr_v2.clear();
        assert_eq!(decode(&bad), Err(BadHistogram::QuantilesOnly));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), v2 in any::<bool>()) {
            if v2 && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&COOKIE_V2);
            }
            let mut histogram = of([]).to_record();
            histogram.hdr_v2 = STANDARD.encode(&bytes);
            if let Ok(read) = decode(&histogram) {
                let _ = (read.quantile_ns(0.5), read.to_record());
            }
        }
    }
}
