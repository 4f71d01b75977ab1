//! A column of integers as differences of few bits: Parquet's `DELTA_BINARY_PACKED`
//! ([Encodings](https://parquet.apache.org/docs/file-format/data-pages/encodings/)).
//!
//! ```text
//!  page:   256 │ 4 │ values │ first value │ block │ block │ ...
//!  block:  smallest difference │ width x 4 │ 64 x 4 differences above the smallest
//! ```
//!
//! A request takes some 8 bytes so, in the place of 40: less to be copied into the kernel than to be
//! packed. `parquet`'s own encoder takes one value after the other, five times as long as this one.

/// Differences of a block. Whoever reads by 64 at a time finds them so.
pub(crate) const BLOCK: usize = PART * PARTS;
/// Differences of one width.
const PART: usize = 64;
const PARTS: usize = 4;

/// Values of a column on their way into a page.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    first: i64,
    last: i64,
    values: usize,
    blocks: Vec<u8>,
}

impl Packed {
    /// Begins a page with its first value.
    pub(crate) fn begin(&mut self, first: i64) {
        self.first = first;
        self.last = first;
        self.values = 1;
        self.blocks.clear();
    }

    /// Appends a block: [`BLOCK`] values, and fewer only as the last of a page.
    pub(crate) fn append(&mut self, values: impl ExactSizeIterator<Item = i64>) {
        let count = values.len();
        assert!(
            count <= BLOCK && self.values % BLOCK == 1,
            "a block is whole"
        );
        let mut above = [0_u64; BLOCK];
        let (mut last, mut smallest) = (self.last, i64::MAX);
        for (difference, value) in above.iter_mut().zip(values) {
            let by = value.wrapping_sub(last);
            smallest = smallest.min(by);
            *difference = by as u64;
            last = value;
        }
        for difference in &mut above[..count] {
            *difference = difference.wrapping_sub(smallest as u64);
        }
        self.last = last;
        self.values += count;
        varint(zigzag(smallest), &mut self.blocks);
        let (parts, _) = above.as_chunks::<PART>();
        let widths = parts.iter().map(width);
        self.blocks.extend(widths.map(|width| width as u8));
        for part in parts {
            pack(part, width(part), &mut self.blocks);
        }
    }

    /// Values of the page so far.
    pub(crate) fn values(&self) -> usize {
        self.values
    }

    /// The page so far.
    pub(crate) fn page(&self) -> Vec<u8> {
        let mut page = Vec::with_capacity(self.blocks.len() + 32);
        for number in [BLOCK as u64, PARTS as u64, self.values as u64] {
            varint(number, &mut page);
        }
        varint(zigzag(self.first), &mut page);
        page.extend_from_slice(&self.blocks);
        page
    }
}

/// Bits that the largest of these takes.
fn width(values: &[u64; PART]) -> u32 {
    u64::BITS
        - values
            .iter()
            .fold(0, |all, value| all | value)
            .leading_zeros()
}

/// Puts values of `width` bits behind each other, the lowest bits first: as many words as bits.
fn pack(values: &[u64; PART], width: u32, into: &mut Vec<u8>) {
    // One more than there can be: the last value ends where a word does.
    let mut words = [0_u64; PART + 1];
    let (mut at, mut filled) = (0, 0);
    for value in values {
        words[at] |= value << filled;
        filled += width;
        if filled >= u64::BITS {
            filled -= u64::BITS;
            at += 1;
            words[at] = value.checked_shr(width - filled).unwrap_or(0);
        }
    }
    for word in &words[..at] {
        into.extend_from_slice(&word.to_le_bytes());
    }
}

/// Seven bits a byte, the lowest first (LEB128).
fn varint(mut number: u64, into: &mut Vec<u8>) {
    while number > 0x7f {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Small for numbers near 0 of either sign.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bits from the lowest on, as the page has them.
    struct Bits<'a> {
        bytes: &'a [u8],
        at: usize,
    }

    impl Bits<'_> {
        fn take(&mut self, width: u32) -> u64 {
            (0..width).fold(0, |value, place| {
                let bit = self.bytes[self.at / 8] >> (self.at % 8) & 1;
                self.at += 1;
                value | u64::from(bit) << place
            })
        }

        fn varint(&mut self) -> u64 {
            let (mut value, mut place) = (0, 0);
            loop {
                let byte = self.take(8);
                value |= (byte & 0x7f) << place;
                place += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        }

        fn signed(&mut self) -> i64 {
            let value = self.varint();
            (value >> 1) as i64 ^ -((value & 1) as i64)
        }
    }

    /// The text of the format, read bit by bit.
    fn unpacked(page: &[u8]) -> Vec<i64> {
        let mut bits = Bits { bytes: page, at: 0 };
        let (block, parts, count) = (bits.varint(), bits.varint(), bits.varint() as usize);
        let mut values = vec![bits.signed()];
        while values.len() < count {
            let smallest = bits.signed();
            let widths: Vec<u32> = (0..parts).map(|_| bits.take(8) as u32).collect();
            for width in widths {
                // A part that no value is in has no bits.
                if values.len() == count {
                    break;
                }
                for _ in 0..block / parts {
                    let above = bits.take(width);
                    let last = *values.last().unwrap();
                    values.push(last.wrapping_add(smallest).wrapping_add(above as i64));
                }
            }
            values.truncate(count);
        }
        assert_eq!(bits.at, page.len() * 8, "nothing follows the last value");
        values
    }

    fn packed(values: &[i64]) -> Vec<u8> {
        let mut packed = Packed::default();
        packed.begin(values[0]);
        for block in values[1..].chunks(BLOCK) {
            packed.append(block.iter().copied());
        }
        packed.page()
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            values in prop::collection::vec(any::<i64>(), 1..700),
            bits in 0_u32..64,
        ) {
            // Of every width, and not only of the widest.
            let values: Vec<i64> = values.into_iter().map(|value| value >> bits).collect();
            prop_assert_eq!(unpacked(&packed(&values)), values);
        }
    }

    #[test]
    fn what_stays_the_same_takes_no_room() {
        let page = packed(&[200; 1 + 4 * BLOCK]);
        // Per block a difference of 0 and four widths.
        assert_eq!(page.len(), 7 + 4 * 5, "{page:?}");
        assert_eq!(unpacked(&page), [200; 1 + 4 * BLOCK]);
    }
}
