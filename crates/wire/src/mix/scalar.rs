//! Values of protobuf, from text and to text: as its mapping to JSON writes them.
//!
//! A number, a truth or bytes in base64 that comes as text is encoded for its place while a request is written, and what
//! a pointer finds in an answer is told as text. Nothing is allocated for either.

use serde::{Deserialize, Serialize};

/// How a value of protobuf is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scalar {
    /// `string`: text in UTF-8, as it is.
    Text,
    /// `bytes`: as text, in base64.
    Bytes,
    /// `bool`.
    Bool,
    /// `int32`, or the number of an enum.
    Int32,
    /// `int64`.
    Int64,
    /// `uint32`.
    Uint32,
    /// `uint64`.
    Uint64,
    /// `sint32`.
    Sint32,
    /// `sint64`.
    Sint64,
    /// `fixed32`.
    Fixed32,
    /// `fixed64`.
    Fixed64,
    /// `sfixed32`.
    Sfixed32,
    /// `sfixed64`.
    Sfixed64,
    /// `float`.
    Float,
    /// `double`.
    Double,
}

/// How the value of a field is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireType {
    /// Seven bits a byte.
    Varint = 0,
    /// Eight bytes.
    Eight = 1,
    /// A length before it.
    Sized = 2,
    /// Four bytes.
    Four = 5,
}

/// A number or a truth, encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Encoded {
    bytes: [u8; 10],
    len: usize,
}

impl Encoded {
    pub(crate) fn varint(mut value: u64) -> Encoded {
        let (mut bytes, mut len) = ([0; 10], 0);
        while value >= 0x80 {
            bytes[len] = value as u8 | 0x80;
            value >>= 7;
            len += 1;
        }
        bytes[len] = value as u8;
        Encoded {
            bytes,
            len: len + 1,
        }
    }

    fn fixed<const N: usize>(value: [u8; N]) -> Encoded {
        let mut bytes = [0; 10];
        bytes[..N].copy_from_slice(&value);
        Encoded { bytes, len: N }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Scalar {
    /// Its name in the language of protobuf.
    pub fn name(self) -> &'static str {
        match self {
            Scalar::Text => "string",
            Scalar::Bytes => "bytes (in base64)",
            Scalar::Bool => "bool",
            Scalar::Int32 => "int32",
            Scalar::Int64 => "int64",
            Scalar::Uint32 => "uint32",
            Scalar::Uint64 => "uint64",
            Scalar::Sint32 => "sint32",
            Scalar::Sint64 => "sint64",
            Scalar::Fixed32 => "fixed32",
            Scalar::Fixed64 => "fixed64",
            Scalar::Sfixed32 => "sfixed32",
            Scalar::Sfixed64 => "sfixed64",
            Scalar::Float => "float",
            Scalar::Double => "double",
        }
    }

    /// How it is delimited, where it is not packed.
    pub fn wire_type(self) -> WireType {
        match self {
            Scalar::Text | Scalar::Bytes => WireType::Sized,
            Scalar::Fixed32 | Scalar::Sfixed32 | Scalar::Float => WireType::Four,
            Scalar::Fixed64 | Scalar::Sfixed64 | Scalar::Double => WireType::Eight,
            _ => WireType::Varint,
        }
    }

    /// Whether a text can be encoded so.
    pub fn accepts(self, text: &[u8]) -> bool {
        match self {
            Scalar::Text => std::str::from_utf8(text).is_ok(),
            Scalar::Bytes => decode_base64(text, |_| ()),
            _ => self.encoded(text).is_some(),
        }
    }

    /// Gives the encoded text, without a length before it. One that it does not accept is none or zero.
    pub(crate) fn spell(self, text: &[u8], mut to: impl FnMut(&[u8])) {
        match self {
            Scalar::Text => to(text),
            Scalar::Bytes => {
                decode_base64(text, to);
            }
            _ => to(self.encoded(text).unwrap_or_else(|| self.zero()).bytes()),
        }
    }

    /// Bytes that one byte of text comes to at the most.
    pub(crate) fn longest(self) -> usize {
        match self {
            Scalar::Text | Scalar::Bytes => 1,
            _ => 10,
        }
    }

    pub(crate) fn zero(self) -> Encoded {
        match self.wire_type() {
            WireType::Varint => Encoded::varint(0),
            WireType::Eight => Encoded::fixed([0; 8]),
            WireType::Four => Encoded::fixed([0; 4]),
            WireType::Sized => Encoded {
                bytes: [0; 10],
                len: 0,
            },
        }
    }

    /// A number or a truth.
    pub(crate) fn encoded(self, text: &[u8]) -> Option<Encoded> {
        let text = std::str::from_utf8(text).ok()?;
        let signed = || {
            let plain = text.parse::<i64>().ok();
            plain
                .or_else(|| whole(text, i64::MIN as f64, i64::MAX as f64).map(|whole| whole as i64))
        };
        let unsigned = || {
            let plain = text.parse::<u64>().ok();
            plain.or_else(|| whole(text, 0.0, u64::MAX as f64).map(|whole| whole as u64))
        };
        let short = || i32::try_from(signed()?).ok();
        Some(match self {
            Scalar::Text | Scalar::Bytes => return None,
            Scalar::Bool => Encoded::varint(match text {
                "true" => 1,
                "false" => 0,
                _ => return None,
            }),
            // A negative number has the ten bytes of one of 64 bits.
            Scalar::Int32 => Encoded::varint(i64::from(short()?) as u64),
            Scalar::Int64 => Encoded::varint(signed()? as u64),
            Scalar::Uint32 => Encoded::varint(u32::try_from(unsigned()?).ok()?.into()),
            Scalar::Uint64 => Encoded::varint(unsigned()?),
            Scalar::Sint32 => {
                let value = short()?;
                Encoded::varint(((value << 1) ^ (value >> 31)) as u32 as u64)
            }
            Scalar::Sint64 => {
                let value = signed()?;
                Encoded::varint(((value << 1) ^ (value >> 63)) as u64)
            }
            Scalar::Fixed32 => Encoded::fixed(u32::try_from(unsigned()?).ok()?.to_le_bytes()),
            Scalar::Fixed64 => Encoded::fixed(unsigned()?.to_le_bytes()),
            Scalar::Sfixed32 => Encoded::fixed(short()?.to_le_bytes()),
            Scalar::Sfixed64 => Encoded::fixed(signed()?.to_le_bytes()),
            Scalar::Float => {
                let value = text.parse::<f32>().ok()?;
                // What is above all of them is none, and not infinite.
                let is_above = value.is_infinite() && text.parse::<f64>().ok()?.is_finite();
                match is_above {
                    true => return None,
                    false => Encoded::fixed(value.to_le_bytes()),
                }
            }
            Scalar::Double => Encoded::fixed(text.parse::<f64>().ok()?.to_le_bytes()),
        })
    }
}

/// A whole number that is written otherwise: `1e3`, `5.0`.
fn whole(text: &str, from: f64, below: f64) -> Option<f64> {
    let value = text.parse::<f64>().ok()?;
    let is_whole = value.fract() == 0.0 && value >= from && value < below;
    is_whole.then_some(value)
}

/// Gives what base64 stands for, in either alphabet and with or without its padding; `false`: it is none.
fn decode_base64(text: &[u8], mut to: impl FnMut(&[u8])) -> bool {
    let end = text.iter().rposition(|byte| *byte != b'=');
    let digits = &text[..end.map_or(0, |end| end + 1)];
    let padding = text.len() - digits.len();
    let is_padded_well = padding == 0 || (padding < 3 && text.len().is_multiple_of(4));
    let six_bits = |byte: u8| {
        Some(u32::from(match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        }))
    };
    for four in digits.chunks(4) {
        let mut bits = 0;
        for byte in four {
            let Some(six) = six_bits(*byte) else {
                return false;
            };
            bits = bits << 6 | six;
        }
        match four.len() {
            4 => to(&bits.to_be_bytes()[1..]),
            3 => to(&(bits << 6).to_be_bytes()[1..3]),
            2 => to(&(bits << 12).to_be_bytes()[1..2]),
            _ => return false,
        }
    }
    is_padded_well
}

#[cfg(test)]
mod tests {
    use base64::prelude::*;
    use proptest::prelude::*;

    use super::*;

    fn spelled(scalar: Scalar, text: &str) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        scalar.spell(text.as_bytes(), |bytes| all.extend_from_slice(bytes));
        scalar.accepts(text.as_bytes()).then_some(all)
    }

    #[test]
    fn numbers_are_encoded_as_the_specification_has_them() {
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        for (scalar, text, bytes) in [
            (Scalar::Int32, "150", &[0x96, 1][..]),
            (Scalar::Int32, "-1", &minus_one),
            (Scalar::Int64, "5.0", &[5]),
            (Scalar::Int64, "1e2", &[100]),
            (
                Scalar::Sint32,
                "-2147483648",
                &[0xff, 0xff, 0xff, 0xff, 0xf],
            ),
            (Scalar::Sint64, "-2", &[3]),
            (Scalar::Uint64, "18446744073709551615", &minus_one),
            (Scalar::Bool, "true", &[1]),
            (Scalar::Fixed32, "258", &[2, 1, 0, 0]),
            (Scalar::Sfixed64, "-1", &[0xff; 8]),
            (Scalar::Float, "1.5", &[0, 0, 0xc0, 0x3f]),
            (
                Scalar::Double,
                "-Infinity",
                &f64::NEG_INFINITY.to_le_bytes(),
            ),
        ] {
            assert_eq!(
                spelled(scalar, text).as_deref(),
                Some(bytes),
                "{scalar:?} {text}"
            );
        }
        for (scalar, text) in [
            (Scalar::Int32, "2147483648"),
            (Scalar::Int32, "x"),
            (Scalar::Int32, ""),
            (Scalar::Int64, "1.5"),
            (Scalar::Int64, "9223372036854775808"),
            (Scalar::Uint32, "-1"),
            (Scalar::Uint64, "18446744073709551616"),
            (Scalar::Bool, "1"),
            (Scalar::Float, "1e39"),
            (Scalar::Double, "1,5"),
            (Scalar::Bytes, "A"),
            (Scalar::Bytes, "AAA*"),
            (Scalar::Bytes, "AAAA="),
            (Scalar::Bytes, "A==="),
        ] {
            assert_eq!(spelled(scalar, text), None, "{scalar:?} {text}");
        }
        assert!(!Scalar::Text.accepts(b"\xff"));
    }

    proptest! {
        /// Bytes in any form of base64 are themselves again.
        #[test]
        fn base64_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            for text in [
                BASE64_STANDARD.encode(&bytes),
                BASE64_STANDARD_NO_PAD.encode(&bytes),
                BASE64_URL_SAFE.encode(&bytes),
            ] {
                prop_assert_eq!(spelled(Scalar::Bytes, &text), Some(bytes.clone()));
            }
        }
    }
}
