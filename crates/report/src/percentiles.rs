//! The percentile curve of a histogram: latency against how rare it is.
//!
//! The horizontal axis of such a curve is `1 / (1 - quantile)`, on a logarithmic scale: one
//! answer in 10, in 100, in 1,000. All curves share one grid of it, so that they can be
//! laid over each other. A curve ends where one answer is the rest: beyond that, nothing
//! was measured.

use wallfinder_judge::histogram::{NAMED, decode};
use wallfinder_model::record::Histogram;

/// Points for each decade of the axis.
const PER_DECADE: u32 = 16;
/// Decades: one answer in 10^8 is the rarest that is drawn.
const DECADES: u32 = 8;

/// Where curves have their points: `1 / (1 - quantile)`, ascending from 1. The quantiles of
/// tables are among them.
pub fn grid() -> Vec<f64> {
    let even = (0..=PER_DECADE * DECADES).map(|k| 10f64.powf(f64::from(k) / f64::from(PER_DECADE)));
    let mut grid: Vec<f64> = even.chain(NAMED.map(|(_, q)| rarity(q))).collect();
    grid.sort_by(f64::total_cmp);
    grid.dedup_by(|a, b| (*a / *b - 1.0).abs() < 1e-6);
    grid
}

/// One answer in how many is slower than the quantile.
fn rarity(quantile: f64) -> f64 {
    1.0 / (1.0 - quantile)
}

/// A histogram's values over [`grid`].
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Nanoseconds; `None` where nothing is known or measured.
    pub values_ns: Vec<Option<u64>>,
    /// Whether only the named quantiles are known.
    pub sparse: bool,
}

/// The curve, from the whole histogram where the record has it, else from its quantiles.
pub fn curve(histogram: &Histogram, grid: &[f64]) -> Option<Curve> {
    let Some(whole) = decode(histogram).ok().filter(|whole| whole.count() > 0) else {
        return from_quantiles(histogram, grid);
    };
    let count = whole.count() as f64;
    let value = |x: &f64| {
        (*x <= count)
            .then(|| whole.quantile_ns(1.0 - 1.0 / x))
            .flatten()
    };
    Some(Curve {
        values_ns: grid.iter().map(value).collect(),
        sparse: false,
    })
}

fn from_quantiles(histogram: &Histogram, grid: &[f64]) -> Option<Curve> {
    let named: Vec<(f64, u64)> = NAMED
        .iter()
        .filter_map(|(name, q)| Some((rarity(*q), histogram.quantile_ns(name)?)))
        .collect();
    let value = |x: &f64| {
        named
            .iter()
            .find(|(rarity, _)| (x / rarity - 1.0).abs() < 1e-6)
            .map(|(_, ns)| *ns)
    };
    (!named.is_empty()).then(|| Curve {
        values_ns: grid.iter().map(value).collect(),
        sparse: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::Histogram as Hdr;
    use hdrhistogram::serialization::{Serializer, V2Serializer};
    use proptest::prelude::*;

    fn encoded(values: impl Iterator<Item = u64>) -> Histogram {
        let mut hdr = Hdr::<u64>::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        values.for_each(|value| hdr.record(value).unwrap());
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&hdr, &mut bytes).unwrap();
        Histogram {
            hdr_v2: STANDARD.encode(bytes),
            count: hdr.len(),
            beyond: 0,
            mean_ns: hdr.mean(),
            stdev_ns: 0.0,
            min_ns: hdr.min(),
            max_ns: hdr.max(),
            quantiles_ns: Default::default(),
        }
    }

    #[test]
    fn a_curve_meets_the_quantiles_and_ends_with_the_last_answer() {
        let histogram = encoded(1..=1000);
        let grid = grid();
        let curve = curve(&histogram, &grid).unwrap();
        let at = |x: f64| {
            let index = grid
                .iter()
                .position(|g| (g / x - 1.0).abs() < 1e-6)
                .unwrap();
            curve.values_ns[index]
        };
        assert_eq!(at(2.0), Some(500));
        assert_eq!(at(100.0), Some(990));
        assert_eq!(at(1000.0), Some(999));
        assert_eq!(at(10_000.0), None);
        assert!(!curve.sparse);
    }

    #[test]
    fn quantiles_alone_make_a_sparse_curve() {
        let mut histogram = encoded(1..=10);
        histogram.hdr_v2.clear();
        histogram.quantiles_ns.insert("p50".into(), 5);
        let curve = curve(&histogram, &grid()).unwrap();
        assert!(curve.sparse);
        assert_eq!(curve.values_ns.iter().flatten().count(), 1);
    }

    proptest! {
        #[test]
        fn no_bytes_panic(payload in proptest::collection::vec(any::<u8>(), 0..64), digits in 0u8..6) {
            let mut bytes = vec![0x1c, 0x84, 0x93, 0x13];
            bytes.extend((payload.len() as u32).to_be_bytes());
            bytes.extend([0, 0, 0, 0]);
            bytes.extend(u32::from(digits).to_be_bytes());
            bytes.extend(1u64.to_be_bytes());
            bytes.extend(1_000_000u64.to_be_bytes());
            bytes.extend(1f64.to_be_bytes());
            bytes.extend(payload);
            let mut histogram = encoded([1, 2, 3].into_iter());
            histogram.hdr_v2 = STANDARD.encode(bytes);
            let _ = curve(&histogram, &grid());
        }
    }
}
