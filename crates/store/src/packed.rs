//! A column of integers as differences of few bits: Parquet's `DELTA_BINARY_PACKED`
//! ([Encodings](https://parquet.apache.org/docs/file-format/data-pages/encodings/)).
//!
//! ```text
//!  page:   256 │ 4 │ values │ first value │ block │ block │ ...
//!  block:  smallest difference │ width x 4 │ 64 x 4 differences above the smallest
//! ```
//!
//! A request takes some 8 bytes so, in the place of 40: less to be copied into the kernel than to be
//! packed. `parquet`'s own encoder takes one value after the other, more than five times as long as this one.

use bytes::Bytes;

/// Differences of a block. Whoever reads by 64 at a time finds them so.
pub(crate) const BLOCK: usize = PART * PARTS;
/// Differences of one width.
const PART: usize = 64;
const PARTS: usize = 4;

/// Room for what a page begins with, which is known when it ends: four numbers of at most ten bytes.
const HEAD: usize = 40;

/// Values of a column on their way into a page.
#[derive(Debug)]
pub(crate) struct Packed {
    first: i64,
    last: i64,
    values: usize,
    /// [`HEAD`] bytes, and the blocks.
    bytes: Vec<u8>,
    /// Where a block is worked on: to set it aside each time would be to clear it each time.
    block: Box<[u64; BLOCK]>,
}

impl Default for Packed {
    fn default() -> Packed {
        Packed {
            first: 0,
            last: 0,
            values: 0,
            bytes: Vec::new(),
            block: Box::new([0; BLOCK]),
        }
    }
}

impl Packed {
    /// Begins a page with its first value.
    pub(crate) fn begin(&mut self, first: i64) {
        self.first = first;
        self.last = first;
        self.values = 1;
        self.bytes.clear();
        self.bytes.resize(HEAD, 0);
    }

    /// Appends a block: [`BLOCK`] values, and fewer only as the last of a page.
    pub(crate) fn append(&mut self, values: impl ExactSizeIterator<Item = i64>) {
        let count = values.len();
        assert!(
            (1..=BLOCK).contains(&count) && self.values % BLOCK == 1,
            "a block is whole"
        );
        // Differences first, as two's complements, and then what they are above the smallest.
        let block = &mut *self.block;
        let mut last = self.last;
        for (difference, value) in block.iter_mut().zip(values) {
            *difference = value.wrapping_sub(last) as u64;
            last = value;
        }
        self.last = last;
        self.values += count;
        if are_alike(&block[..count]) {
            varint(zigzag(block[0] as i64), &mut self.bytes);
            self.bytes.extend([0; PARTS]);
            return;
        }
        let smallest = smallest(&block[..count]);
        // What stands behind the last value has the smallest difference, and takes no bits.
        block[count..].fill(smallest as u64);
        for difference in block.iter_mut() {
            *difference = difference.wrapping_sub(smallest as u64);
        }
        varint(zigzag(smallest), &mut self.bytes);
        let (parts, _) = block.as_chunks::<PART>();
        let widths: [u32; PARTS] = std::array::from_fn(|at| width(&parts[at]));
        self.bytes.extend(widths.map(|width| width as u8));
        for (part, width) in parts.iter().zip(widths) {
            pack(part, width, &mut self.bytes);
        }
    }

    /// The page, which ends here. The next one finds room for as much.
    pub(crate) fn end(&mut self) -> Bytes {
        let mut head = Vec::with_capacity(HEAD);
        for number in [BLOCK as u64, PARTS as u64, self.values as u64] {
            varint(number, &mut head);
        }
        varint(zigzag(self.first), &mut head);
        let from = HEAD - head.len();
        let room = Vec::with_capacity(self.bytes.len() + self.bytes.len() / 16);
        let mut page = std::mem::replace(&mut self.bytes, room);
        page[from..HEAD].copy_from_slice(&head);
        Bytes::from(page).slice(from..)
    }
}

/// Whether all are the same, as those of a status or a size are, of at least one.
fn are_alike(differences: &[u64]) -> bool {
    let first = differences[0];
    let (eights, rest) = differences.as_chunks::<8>();
    let differ = |all: u64, difference: &u64| all | (difference ^ first);
    eights.iter().all(|eight| eight.iter().fold(0, differ) == 0) && rest.iter().fold(0, differ) == 0
}

/// The smallest difference of at least one.
fn smallest(differences: &[u64]) -> i64 {
    // Four at a time: one would wait for the one before it.
    let (fours, rest) = differences.as_chunks::<4>();
    let of_fours = fours.iter().fold([i64::MAX; 4], |least, four| {
        std::array::from_fn(|at| least[at].min(four[at] as i64))
    });
    let rest = rest.iter().map(|difference| *difference as i64);
    of_fours.into_iter().chain(rest).fold(i64::MAX, i64::min)
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
    if width == 0 {
        return;
    }
    if width > u64::BITS / 2 {
        return string(values, width, into);
    }
    // Two are one of twice the width, which vector instructions do for all of them.
    let twos: [u64; PART / 2] = pairs(values, width);
    if width > u64::BITS / 4 {
        return string(&twos, 2 * width, into);
    }
    let fours: [u64; PART / 4] = pairs(&twos, 2 * width);
    string(&fours, 4 * width, into);
}

/// Two values of `width` bits in one, the first in its lower bits.
fn pairs<const MANY: usize, const HALF: usize>(values: &[u64; MANY], width: u32) -> [u64; HALF] {
    std::array::from_fn(|at| values[2 * at] | values[2 * at + 1] << width)
}

/// Puts values of `width` bits, 1 to 64, behind each other; together they are whole words.
fn string(values: &[u64], width: u32, into: &mut Vec<u8>) {
    let mut words = [0_u64; PART];
    let (mut at, mut word, mut filled) = (0, 0, 0);
    for value in values {
        word |= value << filled;
        filled += width;
        if filled >= u64::BITS {
            filled -= u64::BITS;
            words[at] = word;
            at += 1;
            word = value.checked_shr(width - filled).unwrap_or(0);
        }
    }
    let from = into.len();
    into.resize(from + at * size_of::<u64>(), 0);
    let (places, _) = into[from..].as_chunks_mut();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
}

/// Seven bits a byte, the lowest first (LEB128).
pub(crate) fn varint(mut number: u64, into: &mut Vec<u8>) {
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

    fn packed(values: &[i64]) -> Bytes {
        let mut packed = Packed::default();
        // A page of something else before it: nothing of that is left.
        packed.begin(7);
        packed.append([i64::MIN, i64::MAX].into_iter());
        packed.end();
        packed.begin(values[0]);
        for block in values[1..].chunks(BLOCK) {
            packed.append(block.iter().copied());
        }
        packed.end()
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
