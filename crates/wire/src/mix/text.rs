//! Text with places that are filled in: pieces that never change, and values, each spelled for where it stands.

use serde::{Deserialize, Serialize};

use super::scalar::{Encoded, Scalar};

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
    /// A text with places, behind its own length.
    Sized(Prefix, Text),
}

/// How a length stands before a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prefix {
    /// As a field of protobuf has it: seven bits a byte.
    Varint,
    /// As a message of gRPC has it: a flag of 0, then four bytes.
    Call,
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
    /// As a value of protobuf.
    Scalar(Scalar),
}

impl Prefix {
    /// Gives the prefix of a text of this length.
    #[inline]
    pub(crate) fn spell(self, len: usize, mut to: impl FnMut(&[u8])) {
        match self {
            Prefix::Varint => to(Encoded::varint(len as u64).bytes()),
            Prefix::Call => {
                to(b"\0");
                to(&(len as u32).to_be_bytes());
            }
        }
    }

    /// The length of that.
    #[inline]
    pub(crate) fn len(self, len: usize) -> usize {
        match self {
            Prefix::Varint => Encoded::varint(len as u64).bytes().len(),
            Prefix::Call => 5,
        }
    }
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

    /// A text behind its own length.
    pub fn sized(prefix: Prefix, text: Text) -> Text {
        match text.clone().into_fixed() {
            None => Text(vec![Piece::Sized(prefix, text)]),
            Some(bytes) => {
                let mut all = Text::default();
                prefix.spell(bytes.len(), |part| all.push(part));
                all.push(&bytes);
                all
            }
        }
    }

    /// Bytes behind it.
    pub fn push(&mut self, bytes: &[u8]) {
        match self.0.last_mut() {
            _ if bytes.is_empty() => {}
            Some(Piece::Fixed(last)) => last.extend_from_slice(bytes),
            _ => self.0.push(Piece::Fixed(bytes.to_vec())),
        }
    }

    /// Another text behind it.
    pub fn append(&mut self, other: &Text) {
        for piece in &other.0 {
            match piece {
                Piece::Fixed(bytes) => self.push(bytes),
                Piece::Slot(_) | Piece::Sized(..) => self.0.push(piece.clone()),
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
    pub fn into_fixed(self) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        for piece in self.0 {
            match piece {
                Piece::Fixed(bytes) => all.extend(bytes),
                Piece::Slot(_) | Piece::Sized(..) => return None,
            }
        }
        Some(all)
    }

    /// Its places, those within texts in it among them.
    pub fn slots(&self) -> impl Iterator<Item = &Slot> {
        let mut slots = Vec::new();
        self.find_slots(&mut slots);
        slots.into_iter()
    }

    fn find_slots<'t>(&'t self, slots: &mut Vec<&'t Slot>) {
        for piece in &self.0 {
            match piece {
                Piece::Fixed(_) => {}
                Piece::Slot(slot) => slots.push(slot),
                Piece::Sized(_, text) => text.find_slots(slots),
            }
        }
    }

    /// Bytes of it that never change.
    pub fn fixed_bytes(&self) -> usize {
        let bytes = |piece: &Piece| match piece {
            Piece::Fixed(bytes) => bytes.len(),
            Piece::Slot(_) => 0,
            Piece::Sized(_, text) => text.fixed_bytes(),
        };
        self.0.iter().map(bytes).sum()
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
            Piece::Sized(prefix, text) => Piece::Sized(*prefix, text.with_letters()),
        };
        Text(self.0.iter().enumerate().map(piece).collect())
    }

    /// The text with a letter in each place: what does not depend on values can be checked of it. A place that begins it
    /// stands for a whole path.
    pub(crate) fn sample(&self) -> Vec<u8> {
        let mut all = Vec::new();
        for (nth, piece) in self.0.iter().enumerate() {
            match piece {
                Piece::Fixed(bytes) => all.extend_from_slice(bytes),
                Piece::Slot(slot) => {
                    let is_path = nth == 0 && slot.spelling == Spelling::Path;
                    let letter = if is_path { &b"/x"[..] } else { b"x" };
                    slot.spelling
                        .spell(letter, |part| all.extend_from_slice(part));
                }
                Piece::Sized(prefix, text) => {
                    let inside = text.sample();
                    prefix.spell(inside.len(), |part| all.extend_from_slice(part));
                    all.extend(inside);
                }
            }
        }
        all
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
            Spelling::Scalar(scalar) => scalar.spell(value, to),
        }
    }

    /// Bytes that one byte comes to at the most.
    pub(crate) fn longest(self) -> usize {
        match self {
            Spelling::Raw => 1,
            Spelling::Url | Spelling::Path => 3,
            Spelling::Json => 6,
            Spelling::Scalar(scalar) => scalar.longest(),
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
        // Nearly always a request is written whole.
        let end = self.len + bytes.len();
        if self.skip == 0
            && let Some(place) = self.into.get_mut(self.len..end)
        {
            copy(bytes, place);
            self.len = end;
            return;
        }
        self.push_part(bytes);
    }

    #[cold]
    fn push_part(&mut self, bytes: &[u8]) {
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

/// Writes bytes where there is room for them; what is behind them is left.
#[inline]
pub(super) fn put<'a>(bytes: &[u8], into: &'a mut [u8]) -> &'a mut [u8] {
    let (place, rest) = into.split_at_mut(bytes.len());
    copy(bytes, place);
    rest
}

/// Copies to a place as long. Pieces of requests are short: two moves of one length, which may overlap, take less than a
/// call that looks for the best way.
#[inline]
fn copy(from: &[u8], to: &mut [u8]) {
    match from.len() {
        8..=16 => copy_ends::<8>(from, to),
        17..=32 => copy_ends::<16>(from, to),
        33..=64 => copy_ends::<32>(from, to),
        65..=128 => copy_ends::<64>(from, to),
        _ => to.copy_from_slice(from),
    }
}

#[inline]
fn copy_ends<const LEN: usize>(from: &[u8], to: &mut [u8]) {
    if let (Some(first), Some(to)) = (from.first_chunk::<LEN>(), to.first_chunk_mut()) {
        *to = *first;
    }
    if let (Some(last), Some(to)) = (from.last_chunk::<LEN>(), to.last_chunk_mut()) {
        *to = *last;
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
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..150), 0..8),
            room in 1_usize..300,
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
