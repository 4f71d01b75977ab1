//! A small generator of reproducible numbers: the order of windows, and nothing secret.

/// SplitMix64 (Steele, Lea and Flood 2014): any seed is as good as any other.
pub(super) struct Random {
    state: u64,
}

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in 0..n; 0 for n of 0.
    pub(super) fn below(&mut self, n: usize) -> usize {
        // The bias of the product is n in 2^64.
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// Fisher and Yates.
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}
