//! Numbers by chance that a seed brings back.

/// xorshift64*.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    /// The same seed throws the same numbers.
    pub fn new(seed: u64) -> Dice {
        // All zeros would stay zeros.
        Dice(seed.max(1))
    }

    /// From 0 to one less than `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    /// One of them.
    pub fn one_of<'a, T>(&mut self, things: &'a [T]) -> &'a T {
        &things[self.below(things.len() as u64) as usize]
    }
}
