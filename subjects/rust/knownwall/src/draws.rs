//! Random draws from a seed: the same seed draws the same (SplitMix64, Steele et al. 2014).

/// A stream of draws.
#[derive(Debug, Clone)]
pub struct Draws {
    state: u64,
}

impl Draws {
    /// From a seed; streams of one seed with different numbers have nothing in common.
    pub fn new(seed: u64, stream: u64) -> Draws {
        let mut draws = Draws { state: seed };
        draws.state = draws.next() ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03);
        draws
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.state;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// Evenly in (0, 1].
    fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// True once in so many times on average; never for 0.
    pub fn one_in(&mut self, times: u32) -> bool {
        times != 0 && self.unit() <= 1.0 / f64::from(times)
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_again_and_streams_differ() {
        let draw = |seed, stream| {
            let mut draws = Draws::new(seed, stream);
            [draws.next(), draws.next()]
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_ne!(draw(1, 0), draw(2, 0));
    }

    #[test]
    fn means_are_what_was_asked_for() {
        let mut draws = Draws::new(7, 0);
        let n = 200_000;
        let sum: f64 = (0..n).map(|_| draws.exponential(300.0)).sum();
        let mean = sum / f64::from(n);
        assert!((mean - 300.0).abs() < 4.0, "{mean}");
        let hits = (0..n).filter(|_| draws.one_in(50)).count();
        assert!((3_600..4_400).contains(&hits), "{hits}");
        assert!(!draws.one_in(0));
    }
}
