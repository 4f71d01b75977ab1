//! The Huffman code of string literals (RFC 7541, 5.2 and appendix B).
//!
//! The code is canonical: codes of one length are consecutive in the order of their
//! symbols, and follow those of the length before. So the lengths say everything, and
//! the tables are computed from them when this crate is compiled.
//!
//! The decoder takes four bits at a time through an automaton whose states are the inner
//! nodes of the code's tree. No code is shorter than five bits, so each step ends at
//! most one symbol.

use super::error::HpackError;

/// The end-of-string symbol, whose code pads the last byte and is itself an error.
const EOS: usize = 256;

/// The length of each symbol's code, in bits.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

const LENGTH_MAX: u8 = 30;

/// Each symbol's code, in the low bits.
static CODES: [u32; 257] = codes();

const fn codes() -> [u32; 257] {
    let mut codes = [0; 257];
    let mut code = 0;
    let mut length = 1;
    while length <= LENGTH_MAX {
        let mut symbol = 0;
        while symbol < 257 {
            if LENGTHS[symbol] == length {
                codes[symbol] = code;
                code += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        length += 1;
    }
    codes
}

/// Inner nodes of the code's tree: one fewer than its leaves.
const NODES: usize = 256;
const ROOT: usize = 0;
/// Marks a child that is a leaf; the other bits are its symbol.
const LEAF: u16 = 1 << 15;

const fn tree() -> [[u16; 2]; NODES] {
    let codes = codes();
    let mut nodes = [[0; 2]; NODES];
    let mut used = 1;
    let mut symbol = 0;
    while symbol < 257 {
        let mut node = ROOT;
        let mut left = LENGTHS[symbol] - 1;
        while left > 0 {
            let bit = (codes[symbol] >> left & 1) as usize;
            if nodes[node][bit] == 0 {
                nodes[node][bit] = used;
                used += 1;
            }
            node = nodes[node][bit] as usize;
            left -= 1;
        }
        nodes[node][(codes[symbol] & 1) as usize] = LEAF | symbol as u16;
        symbol += 1;
    }
    nodes
}

/// Four bits from one node.
#[derive(Clone, Copy)]
struct Step {
    /// The node that they lead to.
    next: u8,
    /// What they end on the way, if [`EMITS`].
    symbol: u8,
    flags: u8,
}

const EMITS: u8 = 1;
/// They spell the end of string, which stands in no string.
const FAILS: u8 = 2;
/// A string may end at the node: what leads to it from the root is at most seven ones.
const MAY_END: u8 = 4;

static STEPS: [[Step; 16]; NODES] = steps();

const fn steps() -> [[Step; 16]; NODES] {
    let tree = tree();
    let mut may_end = [false; NODES];
    let mut node = ROOT;
    let mut ones = 0;
    while ones <= 7 {
        may_end[node] = true;
        node = tree[node][1] as usize;
        ones += 1;
    }
    let nothing = Step {
        next: 0,
        symbol: 0,
        flags: 0,
    };
    let mut steps = [[nothing; 16]; NODES];
    let mut from = 0;
    while from < NODES {
        let mut bits = 0;
        while bits < 16 {
            let mut node = from;
            let mut step = nothing;
            let mut left = 4;
            while left > 0 {
                left -= 1;
                let child = tree[node][bits >> left & 1];
                if child == LEAF | EOS as u16 {
                    step.flags |= FAILS;
                    node = ROOT;
                } else if child & LEAF != 0 {
                    step.flags |= EMITS;
                    step.symbol = child as u8;
                    node = ROOT;
                } else {
                    node = child as usize;
                }
            }
            step.next = node as u8;
            if may_end[node] {
                step.flags |= MAY_END;
            }
            steps[from][bits] = step;
            bits += 1;
        }
        from += 1;
    }
    steps
}

/// Appends the decoded string. It has at most 8/5 of the coded bytes.
#[inline]
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), HpackError> {
    out.reserve(coded.len() / 5 * 8 + 8);
    let mut node = ROOT;
    let mut flags = MAY_END;
    for byte in coded {
        for bits in [byte >> 4, byte & 15] {
            let step = STEPS[node][bits as usize];
            if step.flags & EMITS != 0 {
                out.push(step.symbol);
            }
            if step.flags & FAILS != 0 {
                return Err(HpackError::Huffman);
            }
            node = step.next as usize;
            flags = step.flags;
        }
    }
    if flags & MAY_END == 0 {
        return Err(HpackError::Huffman);
    }
    Ok(())
}

/// How many bytes [`encode`] appends.
pub(super) fn encoded_len(bytes: &[u8]) -> usize {
    let bits: usize = bytes
        .iter()
        .map(|byte| usize::from(LENGTHS[usize::from(*byte)]))
        .sum();
    bits.div_ceil(8)
}

/// Appends the coded string.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    let mut held: u64 = 0;
    let mut held_bits = 0;
    for byte in bytes {
        let symbol = usize::from(*byte);
        held = held << LENGTHS[symbol] | u64::from(CODES[symbol]);
        held_bits += u32::from(LENGTHS[symbol]);
        while held_bits >= 8 {
            held_bits -= 8;
            out.push((held >> held_bits) as u8);
        }
    }
    if held_bits > 0 {
        let padding = 8 - held_bits;
        out.push((held << padding) as u8 | (0xff >> held_bits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut out = Vec::new();
        decode(coded, &mut out).map(|()| out)
    }

    #[test]
    fn codes_are_those_of_the_standards_appendix() {
        for (symbol, code) in [
            (0, 0x1ff8),
            (b'0', 0x0),
            (b'a', 0x3),
            (b' ', 0x14),
            (b':', 0x5c),
            (b'Z', 0xfd),
            (b'~', 0x1ffd),
            (10, 0x3fff_fffc),
            (22, 0x3fff_fffe),
            (249, 0xfff_fffe),
            (255, 0x3ff_ffee),
        ] {
            assert_eq!(CODES[usize::from(symbol)], code, "{symbol}");
        }
        assert_eq!(CODES[EOS], 0x3fff_ffff);
    }

    #[test]
    fn every_byte_comes_back_after_every_other() {
        for first in 0..=255 {
            for second in 0..=255 {
                let bytes = [first, second, first];
                let mut coded = Vec::new();
                encode(&bytes, &mut coded);
                assert_eq!(coded.len(), encoded_len(&bytes));
                assert_eq!(decoded(&coded).unwrap(), bytes);
            }
        }
    }

    #[test]
    fn padding_is_at_most_seven_ones() {
        // `a` is 00011.
        assert_eq!(decoded(&[0b0001_1111]).unwrap(), b"a");
        for (coded, what) in [
            (&[0b0001_1000][..], "zeros"),
            (&[0b0001_1110], "a zero last"),
            (&[0b0001_1111, 0xff], "eleven ones"),
            (&[0xff], "eight ones"),
            (&[0xff, 0xff, 0xff, 0xff], "the end of string"),
            (
                &[0xff, 0xff, 0xff, 0xfc],
                "the end of string and no padding",
            ),
        ] {
            assert_eq!(decoded(coded), Err(HpackError::Huffman), "{what}");
        }
        assert_eq!(decoded(&[]).unwrap(), b"");
    }

    #[test]
    fn the_code_is_complete() {
        let kraft: u64 = LENGTHS
            .iter()
            .map(|length| 1 << (LENGTH_MAX - length))
            .sum();
        assert_eq!(kraft, 1 << LENGTH_MAX);
    }
}
