//! Numbers that look independent, from others that do not: where a run is to be the same again, from its seed.

/// SplitMix64's mixing function: a bijection whose outputs look independent.
#[inline]
pub fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
