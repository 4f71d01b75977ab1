//! Integers with a prefix of some bits (RFC 7541, 5.1).

use super::error::HpackError;

/// Reads an integer whose prefix is the low `prefix_bits` of the first byte; gives its
/// value and how many bytes it took. Values above 2^32 - 1 are refused, and so are
/// encodings longer than those need.
#[inline]
pub(super) fn decode(bytes: &[u8], prefix_bits: u8) -> Result<(u32, usize), HpackError> {
    let (first, rest) = bytes.split_first().ok_or(HpackError::Truncated)?;
    let prefix_max = u32::MAX >> (32 - u32::from(prefix_bits));
    let prefix = u32::from(*first) & prefix_max;
    if prefix < prefix_max {
        return Ok((prefix, 1));
    }
    let mut value = u64::from(prefix_max);
    for (index, byte) in rest.iter().enumerate() {
        if index == CONTINUATION_BYTES_MAX {
            return Err(HpackError::IntegerTooLarge);
        }
        value += u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            let value = u32::try_from(value).map_err(|_| HpackError::IntegerTooLarge)?;
            return Ok((value, index + 2));
        }
    }
    // A prefix of endless zeros is too large before it is truncated.
    if rest.len() > CONTINUATION_BYTES_MAX {
        return Err(HpackError::IntegerTooLarge);
    }
    Err(HpackError::Truncated)
}

/// Seven bits each: as many as 32 bits need.
const CONTINUATION_BYTES_MAX: usize = 5;

/// Appends `value` behind the bits of `first` above the prefix.
pub(super) fn encode(value: u32, prefix_bits: u8, first: u8, out: &mut Vec<u8>) {
    let prefix_max = u32::MAX >> (32 - u32::from(prefix_bits));
    if value < prefix_max {
        out.push(first | value as u8);
        return;
    }
    out.push(first | prefix_max as u8);
    let mut rest = value - prefix_max;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_examples_hold() {
        for (value, prefix_bits, bytes) in [
            (10, 5, &[0x0a][..]),
            (1337, 5, &[0x1f, 0x9a, 0x0a]),
            (42, 8, &[0x2a]),
        ] {
            let mut out = Vec::new();
            encode(value, prefix_bits, 0, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(decode(bytes, prefix_bits), Ok((value, bytes.len())));
        }
    }

    #[test]
    fn every_prefix_carries_every_size() {
        for prefix_bits in 1..=8 {
            for shift in 0..32 {
                for value in [(1_u32 << shift) - 1, 1 << shift, u32::MAX - (1 << shift)] {
                    let mut out = Vec::new();
                    encode(value, prefix_bits, 0, &mut out);
                    let len = out.len();
                    out.push(0xff);
                    assert_eq!(decode(&out, prefix_bits), Ok((value, len)));
                    let cut = decode(&out[..len - 1], prefix_bits);
                    assert_eq!(cut, Err(HpackError::Truncated));
                }
            }
        }
    }

    #[test]
    fn what_does_not_fit_32_bits_is_refused() {
        for bytes in [
            &[0x1f, 0xe1, 0xff, 0xff, 0xff, 0x0f][..],
            &[0x1f, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00],
            &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
        ] {
            assert_eq!(decode(bytes, 5), Err(HpackError::IntegerTooLarge));
        }
    }
}
