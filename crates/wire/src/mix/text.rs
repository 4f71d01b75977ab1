//! Text with places that are filled in: pieces that never change, and values, each spelled for where it stands.

use serde::{Deserialize, Serialize};

/// Pieces in turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Text(pub Vec<Piece>);

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Piece {
    /// Always the same.
    Fixed(#[serde(with = "crate::bytes::one")] Vec<u8>),
    /// A place.
    Slot(Slot),
}

/// A place, and what it is filled in with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The value.
    pub value: Value,
    /// How it is spelled there.
    pub spelling: Spelling,
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// A column of a row.
    Column {
        /// The table.
        table: u16,
        /// The column.
        column: u16,
    },
    /// What the session took from an answer.
    Variable(u16),
    /// What is the same for all users: what set-up took.
    Known(u16),
    /// Where the last answer redirected to.
    Location,
}

/// How a value is spelled in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Spelling {
    /// As it is.
    Raw,
    /// As a part of a path or a query: all but letters, digits, `-`, `.`, `_` and `~` in percent.
    Url,
    /// As what stands between the quotes of a string of JSON.
    Json,
    /// As a path and query of its own: all in percent that could not stand in one.
    Path,
}

impl Text {
    /// One that is always the same.
    pub fn fixed(bytes: impl Into<Vec<u8>>) -> Text {
        let bytes = bytes.into();
        match bytes.is_empty() {
            true => Text::default(),
            false => Text(vec![Piece::Fixed(bytes)]),
        }
    }

    /// Whether it has no place.
    pub fn is_fixed(&self) -> bool {
        self.slots().next().is_none()
    }

    /// Bytes behind it.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            _ if bytes.is_empty() => {}
            Some(Piece::Fixed(last)) => last.extend_from_slice(bytes),
            _ => self.0.push(Piece::Fixed(bytes.to_vec())),
        }
    }

    /// Another text behind it.
    pub(crate) fn append(&mut self, other: &Text) {
        for piece in &other.0 {
            match piece {
                Piece::Fixed(bytes) => self.push(bytes),
                Piece::Slot(_) => self.0.push(piece.clone()),
            }
        }
    }

    /// Without white space around it.
    pub(crate) fn trimmed(&self) -> Text {
        let mut text = self.clone();
        if let Some(Piece::Fixed(first)) = text.0.first_mut() {
            let blanks = first
                .iter()
                .take_while(|byte| b" \t".contains(byte))
                .count();
            first.drain(..blanks);
        }
        if let Some(Piece::Fixed(last)) = text.0.last_mut() {
            let blanks = last
                .iter()
                .rev()
                .take_while(|byte| b" \t".contains(byte))
                .count();
            last.truncate(last.len() - blanks);
        }
        text
    }

    /// Its bytes, where it has no place.
    pub(crate) fn into_fixed(self) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        for piece in self.0 {
            match piece {
                Piece::Fixed(bytes) => all.extend(bytes),
                Piece::Slot(_) => return None,
            }
        }
        Some(all)
    }

    /// Its places.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Slot(slot) => Some(slot),
            Piece::Fixed(_) => None,
        })
    }

    /// The same, with a value of a letter in each place: the first of two that are known, or where it begins a path the
    /// second, which has a slash before it.
    pub(crate) fn with_letters(&self) -> Text {
        let piece = |(nth, piece): (usize, &Piece)| match piece {
            Piece::Fixed(_) => piece.clone(),
            Piece::Slot(slot) => Piece::Slot(Slot {
                value: Value::Known((nth == 0 && slot.spelling == Spelling::Path).into()),
                spelling: slot.spelling,
            }),
        };
        Text(self.0.iter().enumerate().map(piece).collect())
    }

    /// The text with a letter in each place: what does not depend on values can be checked of it. A place that begins it
    /// stands for a whole path.
    pub(crate) fn sample(&self) -> String {
        let piece = |(nth, piece): (usize, &Piece)| match piece {
            Piece::Fixed(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Piece::Slot(slot) if nth == 0 && slot.spelling == Spelling::Path => "/x".to_owned(),
            Piece::Slot(_) => "x".to_owned(),
        };
        self.0.iter().enumerate().map(piece).collect()
    }
}

impl Spelling {
    /// Gives the spelled value, in pieces.
    #[inline]
    pub fn spell(self, value: &[u8], mut to: impl FnMut(&[u8])) {
        match self {
            Spelling::Raw => to(value),
            Spelling::Url => spell_by(value, is_unreserved, percent, to),
            Spelling::Json => spell_by(value, is_plain_in_json, escaped, to),
            Spelling::Path => spell_by(value, may_stand_in_path, percent, to),
        }
    }

    /// Bytes that one byte comes to at the most.
    pub(crate) fn longest(self) -> usize {
        match self {
            Spelling::Raw => 1,
            Spelling::Url | Spelling::Path => 3,
            Spelling::Json => 6,
        }
    }

    /// The length of the spelled value.
    #[inline]
    pub(crate) fn len(self, value: &[u8]) -> usize {
        let mut len = 0;
        self.spell(value, |bytes| len += bytes.len());
        len
    }
}

/// Runs of plain bytes as they are, and each other one by its own spelling.
#[inline]
fn spell_by(
    value: &[u8],
    is_plain: fn(u8) -> bool,
    other: fn(u8) -> ([u8; 6], usize),
    mut to: impl FnMut(&[u8]),
) {
    let mut rest = value;
    while !rest.is_empty() {
        let plain = rest.iter().take_while(|byte| is_plain(**byte)).count();
        if plain > 0 {
            to(&rest[..plain]);
        }
        if let Some(byte) = rest.get(plain) {
            let (spelled, len) = other(*byte);
            to(&spelled[..len]);
        }
        rest = rest.get(plain + 1..).unwrap_or_default();
    }
}

/// RFC 3986, 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// RFC 8259, 7.
fn is_plain_in_json(byte: u8) -> bool {
    !matches!(byte, 0..=0x1f | b'"' | b'\\')
}

fn may_stand_in_path(byte: u8) -> bool {
    (0x21..=0x7e).contains(&byte) && byte != b'#'
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn percent(byte: u8) -> ([u8; 6], usize) {
    let [high, low] = [byte >> 4, byte & 15].map(|half| HEX[usize::from(half)]);
    ([b'%', high, low, 0, 0, 0], 3)
}

fn escaped(byte: u8) -> ([u8; 6], usize) {
    if byte >= 0x20 {
        return ([b'\\', byte, 0, 0, 0, 0], 2);
    }
    let [high, low] = [byte >> 4, byte & 15].map(|half| HEX[usize::from(half)]);
    ([b'\\', b'u', b'0', b'0', high, low], 6)
}

/// Where bytes are written: past those that were written before, and as far as there is room.
#[derive(Debug)]
pub(crate) struct Sink<'a> {
    into: &'a mut [u8],
    len: usize,
    skip: usize,
    is_short: bool,
}

impl<'a> Sink<'a> {
    /// Into this room, past the first `skip` bytes of what is given.
    pub(crate) fn past(skip: usize, into: &'a mut [u8]) -> Sink<'a> {
        Sink {
            into,
            len: 0,
            skip,
            is_short: false,
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        let bytes = &bytes[skipped..];
        let count = bytes.len().min(self.into.len() - self.len);
        self.into[self.len..self.len + count].copy_from_slice(&bytes[..count]);
        self.len += count;
        self.is_short |= count < bytes.len();
    }

    /// Bytes that were written.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there was no room for all that was given.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short
    }
}

/// A number in digits.
pub(crate) fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spelled(spelling: Spelling, value: &[u8]) -> Vec<u8> {
        let mut all = Vec::new();
        spelling.spell(value, |bytes| all.extend_from_slice(bytes));
        assert_eq!(spelling.len(value), all.len());
        all
    }

    #[test]
    fn a_value_is_spelled_for_its_place() {
        let value = "a b&c=\"d\"/\u{e9}\n".as_bytes();
        assert_eq!(spelled(Spelling::Raw, value), value);
        let url = b"a%20b%26c%3D%22d%22%2F%C3%A9%0A";
        assert_eq!(spelled(Spelling::Url, value), url);
        let json = "a b&c=\\\"d\\\"/\u{e9}\\u000A";
        assert_eq!(spelled(Spelling::Json, value), json.as_bytes());
    }

    proptest! {
        /// What stands in a string of JSON or in a path is read back as it was.
        #[test]
        fn what_is_spelled_is_read_back(value in "\\PC{0,40}|[\\x00-\\x7f]{0,20}") {
            let json = [b"\"", &spelled(Spelling::Json, value.as_bytes())[..], b"\""].concat();
            prop_assert_eq!(serde_json::from_slice::<String>(&json).unwrap(), value.clone());
            let url = spelled(Spelling::Url, value.as_bytes());
            prop_assert!(url.iter().all(|byte| is_unreserved(*byte) || *byte == b'%'));
        }

        /// However a text is split over writes, it is the same.
        #[test]
        fn a_sink_goes_on_where_it_was_short(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8),
            room in 1_usize..30,
        ) {
            let whole = pieces.concat();
            let mut got = Vec::new();
            loop {
                let mut into = vec![0; room];
                let mut sink = Sink::past(got.len(), &mut into);
                for piece in &pieces {
                    sink.push(piece);
                }
                let (len, is_short) = (sink.len(), sink.is_short());
                got.extend_from_slice(&into[..len]);
                if !is_short {
                    break;
                }
                prop_assert!(len > 0);
            }
            prop_assert_eq!(got, whole);
        }
    }
}
