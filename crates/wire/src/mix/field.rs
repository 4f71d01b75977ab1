//! One value out of a message of protobuf, by the numbers of its fields, without making anything of the rest.
//!
//! ```text
//!   /order/lines/1/id  ─►  field 3 │ field 2, the second of them │ field 1, a string
//! ```
//!
//! A field that has no presence of its own and is not there has its default, where the whole message was read. Of one
//! that ends early, or cannot be read to its end, what stands before that is found and nothing else.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use super::scalar::{Scalar, WireType};

/// Where a value stands in a message, and how it is told as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldPath {
    /// From the message inwards; one or more.
    pub steps: Vec<FieldStep>,
    /// How the value is encoded.
    pub scalar: Scalar,
    /// Of an enum: its numbers and their names.
    pub names: Vec<(i32, String)>,
    /// Whether it has its default where the message around it is there, and it is not.
    pub has_default: bool,
}

/// A field of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldStep {
    /// Its number.
    pub number: u32,
    /// Which of several.
    pub which: Which,
}

/// Which of the fields of one number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Which {
    /// The last, which counts.
    Only,
    /// Of a list, the nth from 0.
    Nth(u32),
    /// Of a map, the entry of this key; the key is field 1 in it, and its value field 2.
    Key(Key),
}

/// The key of an entry of a map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    scalar: Scalar,
    /// What is compared.
    #[serde(with = "crate::bytes::one")]
    bytes: Vec<u8>,
    /// Of a number, as it stands in a message.
    number: u64,
}

impl Key {
    /// From its text; `None`: it is no such key.
    pub fn of(scalar: Scalar, text: &str) -> Option<Key> {
        let number = match scalar.wire_type() {
            WireType::Sized => 0,
            _ => number_of(scalar, text.as_bytes())?,
        };
        scalar.accepts(text.as_bytes()).then(|| Key {
            scalar,
            bytes: text.as_bytes().to_vec(),
            number,
        })
    }

    /// Whether an entry of a map has it. A key that is not there is empty, or 0.
    fn is_of(&self, entry: &[u8]) -> bool {
        let first = FieldStep {
            number: 1,
            which: Which::Only,
        };
        let is_number = self.scalar.wire_type() != WireType::Sized;
        match first.find(entry, self.scalar) {
            Some(Raw::Bytes(bytes)) => bytes == self.bytes,
            Some(Raw::Number(number)) => number == self.number,
            None if is_number => self.number == 0,
            None => self.bytes.is_empty(),
        }
    }
}

/// A value as it stands in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Raw<'m> {
    Bytes(&'m [u8]),
    Number(u64),
}

impl FieldPath {
    /// The value in a message; with `has_default`, which asks for a message that is whole, its default where it is not
    /// there.
    pub(crate) fn find<'m>(&self, message: &'m [u8], has_default: bool) -> Option<Raw<'m>> {
        let (last, outer) = self.steps.split_last()?;
        let mut inside = message;
        for step in outer {
            let Raw::Bytes(bytes) = step.find(inside, Scalar::Bytes)? else {
                return None;
            };
            inside = bytes;
        }
        let default = || match self.scalar.wire_type() {
            WireType::Sized => Raw::Bytes(b""),
            _ => Raw::Number(0),
        };
        let found = last.find(inside, self.scalar);
        let is_default = || has_default && self.has_default && Records(inside).are_read();
        found.or_else(|| is_default().then(default))
    }

    /// Gives a value as text, in pieces.
    pub(crate) fn tell(&self, raw: Raw<'_>, mut to: impl FnMut(&[u8])) {
        let mut digits = [0; 400];
        let mut rest = &mut digits[..];
        let number = match raw {
            Raw::Bytes(bytes) if self.scalar == Scalar::Bytes => {
                return encode_base64(bytes, to);
            }
            Raw::Bytes(bytes) => return to(bytes),
            Raw::Number(number) => number,
        };
        if !self.names.is_empty() {
            let named = self.names.iter().find(|(of, _)| *of == number as i32);
            if let Some((_, name)) = named {
                return to(name.as_bytes());
            }
        }
        let written = match self.scalar {
            Scalar::Text | Scalar::Bytes => return,
            Scalar::Bool => return to(if number == 0 { b"false" } else { b"true" }),
            Scalar::Int32 | Scalar::Sfixed32 => write!(rest, "{}", number as i32),
            Scalar::Int64 | Scalar::Sfixed64 => write!(rest, "{}", number as i64),
            Scalar::Uint32 | Scalar::Fixed32 => write!(rest, "{}", number as u32),
            Scalar::Uint64 | Scalar::Fixed64 => write!(rest, "{number}"),
            Scalar::Sint32 => {
                let number = number as u32;
                let value = (number >> 1) as i32 ^ -((number & 1) as i32);
                write!(rest, "{value}")
            }
            Scalar::Sint64 => {
                let value = (number >> 1) as i64 ^ -((number & 1) as i64);
                write!(rest, "{value}")
            }
            Scalar::Float => match f32::from_bits(number as u32) {
                value if value.is_finite() => write!(rest, "{value}"),
                value => return to(not_finite(value.into())),
            },
            Scalar::Double => match f64::from_bits(number) {
                value if value.is_finite() => write!(rest, "{value}"),
                value => return to(not_finite(value)),
            },
        };
        assert!(written.is_ok(), "no number has so many digits");
        let left = rest.len();
        to(&digits[..digits.len() - left]);
    }
}

impl FieldPath {
    /// Whether a value is this number, however that is written.
    pub(crate) fn is_number(&self, raw: Raw<'_>, text: &str) -> bool {
        let wanted = number_of(self.scalar, text.as_bytes());
        wanted.is_some_and(|wanted| raw == Raw::Number(wanted))
    }
}

impl FieldStep {
    /// Its value in a message.
    fn find<'m>(&self, message: &'m [u8], scalar: Scalar) -> Option<Raw<'m>> {
        let mut found = None;
        let mut nth = 0;
        let mut records = Records(message);
        while let Some((number, raw)) = records.next() {
            if number != self.number {
                continue;
            }
            match (&self.which, raw) {
                (Which::Only, raw) => found = Some(raw),
                (Which::Key(key), Raw::Bytes(entry)) => {
                    if key.is_of(entry) {
                        found = Some(raw);
                    }
                }
                (Which::Key(_), Raw::Number(_)) => {}
                (Which::Nth(wanted), Raw::Bytes(packed))
                    if scalar.wire_type() != WireType::Sized =>
                {
                    let mut packed = Records(packed);
                    while let Some(value) = packed.value(scalar.wire_type() as u8) {
                        if nth == *wanted {
                            return Some(value);
                        }
                        nth += 1;
                    }
                }
                (Which::Nth(wanted), raw) => {
                    if nth == *wanted {
                        return Some(raw);
                    }
                    nth += 1;
                }
            }
        }
        let is_sized = scalar.wire_type() == WireType::Sized;
        found.filter(|raw| matches!(raw, Raw::Bytes(_)) == is_sized)
    }
}

/// A text as the number that stands in a message.
fn number_of(scalar: Scalar, text: &[u8]) -> Option<u64> {
    let encoded = scalar.encoded(text)?;
    match Records(encoded.bytes()).value(scalar.wire_type() as u8)? {
        Raw::Number(number) => Some(number),
        Raw::Bytes(_) => None,
    }
}

/// The fields of a message, one after the other, as far as it is one.
struct Records<'m>(&'m [u8]);

impl<'m> Records<'m> {
    fn next(&mut self) -> Option<(u32, Raw<'m>)> {
        let tag = self.varint()?;
        let raw = self.value((tag & 7) as u8)?;
        Some((u32::try_from(tag >> 3).ok()?, raw))
    }

    /// Whether each can be read, to the end.
    fn are_read(mut self) -> bool {
        while !self.0.is_empty() {
            if self.next().is_none() {
                return false;
            }
        }
        true
    }

    fn value(&mut self, wire_type: u8) -> Option<Raw<'m>> {
        Some(match wire_type {
            0 => Raw::Number(self.varint()?),
            1 => {
                let (bytes, rest) = self.0.split_first_chunk::<8>()?;
                self.0 = rest;
                Raw::Number(u64::from_le_bytes(*bytes))
            }
            2 => {
                let len = usize::try_from(self.varint()?).ok()?;
                let (bytes, rest) = self.0.split_at_checked(len)?;
                self.0 = rest;
                Raw::Bytes(bytes)
            }
            5 => {
                let (bytes, rest) = self.0.split_first_chunk::<4>()?;
                self.0 = rest;
                Raw::Number(u32::from_le_bytes(*bytes).into())
            }
            // Groups, which nobody writes any more.
            _ => return None,
        })
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for (nth, byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * nth);
            if byte & 0x80 == 0 {
                self.0 = &self.0[nth + 1..];
                return Some(value);
            }
        }
        None
    }
}

fn not_finite(value: f64) -> &'static [u8] {
    match (value.is_nan(), value > 0.0) {
        (true, _) => b"NaN",
        (_, true) => b"Infinity",
        (_, false) => b"-Infinity",
    }
}

fn encode_base64(bytes: &[u8], mut to: impl FnMut(&[u8])) {
    let mut four = [0; 4];
    for three in bytes.chunks(3) {
        let written = BASE64.encode_slice(three, &mut four);
        to(&four[..written.expect("three bytes are four digits")]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(path: &FieldPath, message: &[u8]) -> Option<String> {
        let raw = path.find(message, true)?;
        let mut all = Vec::new();
        path.tell(raw, |part| all.extend_from_slice(part));
        Some(String::from_utf8(all).expect("it is text"))
    }

    fn path(steps: &[(u32, Which)], scalar: Scalar) -> FieldPath {
        let step = |(number, which): &(u32, Which)| FieldStep {
            number: *number,
            which: which.clone(),
        };
        FieldPath {
            steps: steps.iter().map(step).collect(),
            scalar,
            names: vec![],
            has_default: true,
        }
    }

    #[test]
    fn values_are_found_by_their_numbers_and_told_as_json_has_them() {
        use Which::{Nth, Only};
        // 1: "ab"; 2: packed 3, 4, and 5 alone; 3: {1: -2 (sint64)} twice; 4: {"k": 7}; 5: 1.5; 6: "\0\xff"
        let message = b"\x0a\x02ab\x12\x02\x03\x04\x10\x05\x1a\x02\x08\x01\x1a\x02\x08\x03\
            \x22\x05\x0a\x01k\x10\x07\x29\0\0\0\0\0\0\xf8\x3f\x32\x02\0\xff";
        let key = |key: &str| Which::Key(Key::of(Scalar::Text, key).expect("a key"));
        for (steps, scalar, expected) in [
            (vec![(1, Only)], Scalar::Text, Some("ab")),
            (vec![(2, Nth(0))], Scalar::Int32, Some("3")),
            (vec![(2, Nth(2))], Scalar::Int32, Some("5")),
            (vec![(2, Nth(3))], Scalar::Int32, None),
            (vec![(3, Nth(1)), (1, Only)], Scalar::Sint64, Some("-2")),
            (vec![(3, Only), (1, Only)], Scalar::Sint64, Some("-2")),
            (vec![(3, Nth(2)), (1, Only)], Scalar::Sint64, None),
            (vec![(4, key("k")), (2, Only)], Scalar::Int64, Some("7")),
            (vec![(4, key("x")), (2, Only)], Scalar::Int64, None),
            (vec![(5, Only)], Scalar::Double, Some("1.5")),
            (vec![(6, Only)], Scalar::Bytes, Some("AP8=")),
            // Not there, and so its default.
            (vec![(7, Only)], Scalar::Bool, Some("false")),
            (vec![(7, Only)], Scalar::Text, Some("")),
        ] {
            let mut path = path(&steps, scalar);
            path.has_default = steps.iter().all(|(number, _)| *number == 7);
            assert_eq!(told(&path, message).as_deref(), expected, "{steps:?}");
        }
        let mut size = path(&[(1, Only)], Scalar::Int32);
        size.names = vec![(2, "LARGE".to_owned())];
        assert_eq!(told(&size, b"\x08\x02").as_deref(), Some("LARGE"));
        assert_eq!(told(&size, b"\x08\x03").as_deref(), Some("3"));
        assert!(size.is_number(Raw::Number(2), "2.0"));
        assert_eq!(size.find(b"", false), None);
    }

    #[test]
    fn nonsense_is_no_message() {
        let key = Key::of(Scalar::Sint32, "-3").expect("a key");
        let paths = [
            path(&[(1, Which::Only), (1, Which::Nth(1))], Scalar::Int64),
            path(&[(1, Which::Key(key)), (2, Which::Only)], Scalar::Text),
            path(&[(2, Which::Nth(2))], Scalar::Fixed32),
            path(&[(3, Which::Only)], Scalar::Double),
        ];
        let mut bytes = Vec::new();
        for seed in 0..20_000_u64 {
            bytes.clear();
            let mut state = seed;
            // Small bytes are short fields; others go on, and are longer than the message.
            let mask = if seed % 2 == 0 { 0x1f } else { 0xff };
            for _ in 0..seed % 40 {
                state = crate::random::mixed(state);
                bytes.push(state as u8 & mask);
            }
            for path in &paths {
                let _ = told(path, &bytes);
            }
        }
        assert_eq!(told(&paths[0], b"\x0a\x7f"), None);
        assert_eq!(told(&paths[0], &[0xff; 40]), None);
    }

    #[test]
    fn what_is_not_read_has_no_default() {
        let path = path(&[(2, Which::Only)], Scalar::Int32);
        assert_eq!(told(&path, b"\x0a\x01a").as_deref(), Some("0"));
        for cut in [
            &b"\x0a\x02a"[..],
            b"\x0a",
            b"\x0b",
            &[
                0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f,
            ],
        ] {
            assert_eq!(told(&path, cut), None, "{cut:?}");
        }
        // What stands before it is there all the same.
        assert_eq!(told(&path, b"\x10\x05\x0a\x02a").as_deref(), Some("5"));
    }

    /// A field of a made-up message: its number, and its value or what is inside.
    #[derive(Debug, Clone)]
    enum Made {
        Number(u32, u64),
        Text(u32, String),
        Inside(u32, Vec<Made>),
    }

    impl Made {
        fn number(&self) -> u32 {
            let (Made::Number(number, _) | Made::Text(number, _) | Made::Inside(number, _)) = self;
            *number
        }

        fn encode(&self, to: &mut Vec<u8>) {
            let varint = |to: &mut Vec<u8>, value: u64| {
                to.extend(
                    Scalar::Uint64
                        .encoded(value.to_string().as_bytes())
                        .expect("a number")
                        .bytes(),
                )
            };
            let tag = |wire_type: WireType| u64::from(self.number()) << 3 | wire_type as u64;
            let sized = |to: &mut Vec<u8>, bytes: &[u8]| {
                varint(to, tag(WireType::Sized));
                varint(to, bytes.len() as u64);
                to.extend(bytes);
            };
            match self {
                Made::Number(_, value) => {
                    varint(to, tag(WireType::Varint));
                    varint(to, *value);
                }
                Made::Text(_, text) => sized(to, text.as_bytes()),
                Made::Inside(_, fields) => sized(to, &encoded(fields)),
            }
        }
    }

    fn encoded(fields: &[Made]) -> Vec<u8> {
        let mut bytes = Vec::new();
        fields.iter().for_each(|field| field.encode(&mut bytes));
        bytes
    }

    /// The nth field of this number, or the last.
    fn plainly(fields: &[Made], number: u32, nth: Option<u32>) -> Option<&Made> {
        let mut of = fields.iter().filter(|field| field.number() == number);
        match nth {
            Some(nth) => of.nth(nth as usize),
            None => of.next_back(),
        }
    }

    fn made() -> impl Strategy<Value = Vec<Made>> {
        let leaf = prop_oneof![
            (1..4_u32, any::<u64>()).prop_map(|(number, value)| Made::Number(number, value)),
            (4..6_u32, "[a-z]{0,9}").prop_map(|(number, text)| Made::Text(number, text)),
        ];
        let field = leaf.prop_recursive(3, 30, 6, |inner| {
            let inside = proptest::collection::vec(inner, 0..6);
            (6..9_u32, inside).prop_map(|(number, fields)| Made::Inside(number, fields))
        });
        proptest::collection::vec(field, 0..8)
    }

    proptest! {
        /// In messages of any shape a value is where a plain walk over its fields has it, and nowhere else.
        #[test]
        fn a_value_is_found_where_it_stands(
            fields in made(),
            outer in (6..9_u32, proptest::option::of(0..3_u32)),
            inner in (1..6_u32, proptest::option::of(0..3_u32)),
        ) {
            let which = |nth: Option<u32>| nth.map_or(Which::Only, Which::Nth);
            let scalar = if inner.0 < 4 { Scalar::Uint64 } else { Scalar::Text };
            let mut path = path(&[(outer.0, which(outer.1)), (inner.0, which(inner.1))], scalar);
            path.has_default = false;
            let expected = match plainly(&fields, outer.0, outer.1) {
                Some(Made::Inside(_, inside)) => plainly(inside, inner.0, inner.1),
                _ => None,
            };
            let expected = expected.map(|field| match field {
                Made::Number(_, value) => value.to_string(),
                Made::Text(_, text) => text.clone(),
                Made::Inside(..) => unreachable!("its number is of another kind"),
            });
            prop_assert_eq!(told(&path, &encoded(&fields)), expected);
        }

        /// What is told of a number is text that is encoded as the same number.
        #[test]
        fn a_number_that_is_told_is_the_number_that_was_there(bits: u64, which in 0..13_usize) {
            use Scalar::*;
            let scalar = [Bool, Int32, Int64, Uint32, Uint64, Sint32, Sint64, Fixed32, Fixed64, Sfixed32, Sfixed64, Float, Double][which];
            let number = match scalar {
                Bool => bits & 1,
                Int32 => i64::from(bits as i32) as u64,
                Uint32 | Sint32 | Fixed32 | Sfixed32 | Float => bits & 0xffff_ffff,
                _ => bits,
            };
            let path = path(&[(1, Which::Only)], scalar);
            let mut text = Vec::new();
            path.tell(Raw::Number(number), |part| text.extend_from_slice(part));
            let back = number_of(scalar, &text);
            let is_none = text == b"NaN";
            prop_assert!(is_none || back == Some(number), "{:?}", String::from_utf8_lossy(&text));
        }
    }
}
