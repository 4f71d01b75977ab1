//! Header blocks in, fields out; the dynamic table between them (RFC 7541, 3 and 6).

use std::collections::VecDeque;
use std::fmt;

use super::error::HpackError;
use super::static_table::STATIC_TABLE;
use super::{ENTRY_OVERHEAD_BYTES, TABLE_BYTES_DEFAULT, huffman, integer};

/// What to keep of a field. Both functions are pure: the table remembers what they gave.
pub trait Interpret {
    /// What a name means.
    type Name: Clone;
    /// What a value means, beside its name.
    type Value: Clone;

    /// Takes the bytes of a name.
    fn name(bytes: &[u8]) -> Self::Name;

    /// Takes the bytes of a value.
    fn value(name: &Self::Name, bytes: &[u8]) -> Self::Value;
}

/// How much one header block may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Names, values and 32 for each field (RFC 9113, 6.5.2), in bytes.
    pub list_bytes_max: u32,
    /// Fields.
    pub fields_max: u32,
}

/// The static table, interpreted: made once, used by every connection.
pub struct StaticFields<I: Interpret> {
    entries: Box<[Entry<I>]>,
}

impl<I: Interpret> StaticFields<I> {
    /// Interprets the 61 fields of the static table.
    pub fn new() -> StaticFields<I> {
        let interpret = |(name, value): &(&str, &str)| {
            let meaning = I::name(name.as_bytes());
            Entry {
                value: I::value(&meaning, value.as_bytes()),
                name: meaning,
                name_bytes: name.len() as u32,
                bytes: size(name.len() as u32, value.len() as u32),
                text: TextAt::default(),
            }
        };
        StaticFields {
            entries: STATIC_TABLE.iter().map(interpret).collect(),
        }
    }
}

impl<I: Interpret> Default for StaticFields<I> {
    fn default() -> StaticFields<I> {
        StaticFields::new()
    }
}

impl<I: Interpret> fmt::Debug for StaticFields<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticFields").finish_non_exhaustive()
    }
}

struct Entry<I: Interpret> {
    name: I::Name,
    value: I::Value,
    name_bytes: u32,
    /// The entry's size by RFC 7541, 4.1.
    bytes: u32,
    /// How it is spelled, where that is kept.
    text: TextAt,
}

/// Room for the text of a field that no table keeps, in bytes; of a longer one the end is not kept.
const LITERAL_BYTES_KEPT: usize = 16 * 1024;

/// Where the text of an entry stands.
#[derive(Debug, Clone, Copy, Default)]
struct TextAt {
    /// Of all that was ever kept.
    from: u64,
    name_bytes: usize,
    value_bytes: usize,
}

/// The text of a table's entries, the oldest first, and behind them that of a literal.
struct Texts {
    bytes: Vec<u8>,
    /// Bytes that went before these.
    gone: u64,
}

impl Texts {
    fn end(&self) -> u64 {
        self.gone + self.bytes.len() as u64
    }

    /// Makes room for a literal. What stands before `oldest` is of no use any more.
    fn make_room(&mut self, oldest: u64) {
        if self.bytes.capacity() - self.bytes.len() < LITERAL_BYTES_KEPT {
            self.bytes.drain(..(oldest - self.gone) as usize);
            self.gone = oldest;
        }
    }

    /// Keeps as much as there is room for, and says how much.
    fn push(&mut self, bytes: &[u8]) -> usize {
        let len = bytes.len().min(self.bytes.capacity() - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..len]);
        len
    }

    /// Keeps the name of an entry once more.
    fn push_name(&mut self, of: TextAt) -> usize {
        let from = (of.from - self.gone) as usize;
        let len = of.name_bytes.min(self.bytes.capacity() - self.bytes.len());
        self.bytes.extend_from_within(from..from + len);
        len
    }

    fn truncate(&mut self, to: u64) {
        self.bytes.truncate((to - self.gone) as usize);
    }

    fn of(&self, text: TextAt) -> (&[u8], &[u8]) {
        let from = (text.from - self.gone) as usize;
        let text_bytes = text.name_bytes + text.value_bytes;
        self.bytes[from..from + text_bytes].split_at(text.name_bytes)
    }
}

/// The receiving end of one connection's header compression.
pub struct Decoder<I: Interpret> {
    /// Newest first.
    entries: VecDeque<Entry<I>>,
    bytes: u32,
    bytes_max: u32,
    /// The most that the peer may set `bytes_max` to.
    limit: u32,
    /// Counts what changed the table: with the same version, equal blocks say the same.
    version: u64,
    /// Where fields are spelled out as well.
    texts: Option<Texts>,
}

impl<I: Interpret> Decoder<I> {
    /// An empty table that may grow to `limit` bytes, with room for as many entries as
    /// that can hold.
    pub fn new(limit: u32) -> Decoder<I> {
        let entries_max = limit.max(TABLE_BYTES_DEFAULT) / ENTRY_OVERHEAD_BYTES;
        Decoder {
            entries: VecDeque::with_capacity(entries_max as usize),
            bytes: 0,
            bytes_max: limit.min(TABLE_BYTES_DEFAULT),
            limit,
            version: 0,
            texts: None,
        }
    }

    /// The same, which keeps how fields are spelled, for [`Decoder::decode_spelled`].
    pub fn keeping_text(limit: u32) -> Decoder<I> {
        let tables = 2 * limit.max(TABLE_BYTES_DEFAULT) as usize;
        let texts = Texts {
            bytes: Vec::with_capacity(tables + LITERAL_BYTES_KEPT),
            gone: 0,
        };
        Decoder {
            texts: Some(texts),
            ..Decoder::new(limit)
        }
    }

    /// Forgets everything: the next block is the first of a new connection.
    pub fn reset(&mut self) {
        self.entries.clear();
        self.bytes = 0;
        self.bytes_max = self.limit.min(TABLE_BYTES_DEFAULT);
        self.version = 0;
        if let Some(texts) = &mut self.texts {
            texts.bytes.clear();
            texts.gone = 0;
        }
    }

    /// Changes with the table. A block that left it as it was means the same again while
    /// it stays so.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Bytes in the table, by the standard's measure.
    pub fn table_bytes(&self) -> u32 {
        self.bytes
    }

    /// Decodes one whole block and visits its fields in order. `scratch` is where coded
    /// strings are spelled out; it grows to the longest of them and no further.
    pub fn decode(
        &mut self,
        known: &StaticFields<I>,
        scratch: &mut Vec<u8>,
        limits: Limits,
        block: &[u8],
        mut visit: impl FnMut(&I::Name, &I::Value),
    ) -> Result<(), HpackError> {
        let plain = |name: &I::Name, value: &I::Value, _: (&[u8], &[u8])| visit(name, value);
        self.decode_spelled(known, scratch, limits, block, plain)
    }

    /// The same, with each field's name and value as they are spelled where text is kept: of a field above 16 KiB its
    /// beginning. Where none is kept, both are empty.
    #[inline]
    pub fn decode_spelled(
        &mut self,
        known: &StaticFields<I>,
        scratch: &mut Vec<u8>,
        limits: Limits,
        block: &[u8],
        mut visit: impl FnMut(&I::Name, &I::Value, (&[u8], &[u8])),
    ) -> Result<(), HpackError> {
        let mut rest = block;
        let mut list_bytes: u64 = 0;
        let mut fields = 0;
        while let Some(&first) = rest.first() {
            if first & 0b1110_0000 == 0b0010_0000 {
                let (bytes_max, used) = integer::decode(rest, 5)?;
                if fields > 0 {
                    return Err(HpackError::SizeMisplaced);
                }
                self.resize(bytes_max)?;
                rest = &rest[used..];
                continue;
            }
            fields += 1;
            let bytes = if first & 0b1000_0000 != 0 {
                let (index, used) = integer::decode(rest, 7)?;
                rest = &rest[used..];
                let entry = self.entry(known, index)?;
                let text = match &self.texts {
                    None => Default::default(),
                    Some(texts) => static_text(index).unwrap_or_else(|| texts.of(entry.text)),
                };
                visit(&entry.name, &entry.value, text);
                entry.bytes
            } else {
                let inserts = first & 0b0100_0000 != 0;
                let prefix_bits = if inserts { 6 } else { 4 };
                let entry = self.literal(known, scratch, limits, prefix_bits, &mut rest)?;
                let text = self.texts.as_ref().map(|texts| texts.of(entry.text));
                visit(&entry.name, &entry.value, text.unwrap_or_default());
                let (bytes, from) = (entry.bytes, entry.text.from);
                let is_kept = inserts && self.insert(entry);
                if let Some(texts) = self.texts.as_mut().filter(|_| !is_kept) {
                    texts.truncate(from);
                }
                bytes
            };
            list_bytes += u64::from(bytes);
            if list_bytes > u64::from(limits.list_bytes_max) || fields > limits.fields_max {
                return Err(HpackError::ListTooLong);
            }
        }
        Ok(())
    }

    #[inline]
    fn entry<'a>(
        &'a self,
        known: &'a StaticFields<I>,
        index: u32,
    ) -> Result<&'a Entry<I>, HpackError> {
        let index = (index as usize).checked_sub(1).ok_or(HpackError::Index)?;
        let entry = match index.checked_sub(STATIC_TABLE.len()) {
            None => known.entries.get(index),
            Some(index) => self.entries.get(index),
        };
        entry.ok_or(HpackError::Index)
    }

    /// A field whose value, and perhaps name, are spelled out.
    fn literal(
        &mut self,
        known: &StaticFields<I>,
        scratch: &mut Vec<u8>,
        limits: Limits,
        prefix_bits: u8,
        rest: &mut &[u8],
    ) -> Result<Entry<I>, HpackError> {
        let (index, used) = integer::decode(rest, prefix_bits)?;
        *rest = &rest[used..];
        let mut text = TextAt::default();
        if let Some(texts) = &mut self.texts {
            let oldest = self.entries.back().map(|entry| entry.text.from);
            texts.make_room(oldest.unwrap_or(texts.end()));
            text.from = texts.end();
        }
        let (name, name_bytes) = if index == 0 {
            let bytes = string(rest, scratch, limits)?;
            if let Some(texts) = &mut self.texts {
                text.name_bytes = texts.push(bytes);
            }
            (I::name(bytes), bytes.len() as u32)
        } else {
            let entry = self.entry(known, index)?;
            let named = (entry.name.clone(), entry.name_bytes);
            let of = entry.text;
            if let Some(texts) = &mut self.texts {
                text.name_bytes = match static_text(index) {
                    Some((name, _)) => texts.push(name),
                    None => texts.push_name(of),
                };
            }
            named
        };
        let bytes = string(rest, scratch, limits)?;
        if let Some(texts) = &mut self.texts {
            text.value_bytes = texts.push(bytes);
        }
        Ok(Entry {
            value: I::value(&name, bytes),
            name,
            name_bytes,
            bytes: size(name_bytes, bytes.len() as u32),
            text,
        })
    }

    /// RFC 7541, 4.4: room is made first, and an entry larger than the table empties it and is not kept.
    fn insert(&mut self, entry: Entry<I>) -> bool {
        self.version += 1;
        self.evict(self.bytes_max.saturating_sub(entry.bytes));
        let fits = entry.bytes <= self.bytes_max;
        if fits {
            self.bytes += entry.bytes;
            self.entries.push_front(entry);
        }
        fits
    }

    fn resize(&mut self, bytes_max: u32) -> Result<(), HpackError> {
        if bytes_max > self.limit {
            return Err(HpackError::SizeAboveLimit);
        }
        self.version += 1;
        self.bytes_max = bytes_max;
        self.evict(bytes_max);
        Ok(())
    }

    fn evict(&mut self, bytes_max: u32) {
        while self.bytes > bytes_max
            && let Some(entry) = self.entries.pop_back()
        {
            self.bytes -= entry.bytes;
        }
    }
}

impl<I: Interpret> fmt::Debug for Decoder<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("entries", &self.entries.len())
            .field("bytes", &self.bytes)
            .field("bytes_max", &self.bytes_max)
            .finish_non_exhaustive()
    }
}

/// A field of the static table, as it is spelled.
fn static_text(index: u32) -> Option<(&'static [u8], &'static [u8])> {
    let (name, value) = STATIC_TABLE.get((index as usize).checked_sub(1)?)?;
    Some((name.as_bytes(), value.as_bytes()))
}

#[inline]
fn size(name_bytes: u32, value_bytes: u32) -> u32 {
    name_bytes
        .saturating_add(value_bytes)
        .saturating_add(ENTRY_OVERHEAD_BYTES)
}

/// A string, as it stands in the block or spelled out in `scratch`.
#[inline]
fn string<'s, 'b: 's>(
    rest: &mut &'b [u8],
    scratch: &'s mut Vec<u8>,
    limits: Limits,
) -> Result<&'s [u8], HpackError> {
    let is_coded = rest.first().is_some_and(|first| first & 0x80 != 0);
    let (len, used) = integer::decode(rest, 7)?;
    let after = &rest[used..];
    let (bytes, after) = after
        .split_at_checked(len as usize)
        .ok_or(HpackError::Truncated)?;
    *rest = after;
    if !is_coded {
        return Ok(bytes);
    }
    // The longest code has 30 bits: a shorter string than this is above the limit.
    if u64::from(len) * 8 / 30 > u64::from(limits.list_bytes_max) {
        return Err(HpackError::ListTooLong);
    }
    scratch.clear();
    huffman::decode(bytes, scratch)?;
    Ok(scratch)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the bytes.
    struct Text;

    impl Interpret for Text {
        type Name = Vec<u8>;
        type Value = Vec<u8>;

        fn name(bytes: &[u8]) -> Vec<u8> {
            bytes.to_vec()
        }

        fn value(_: &Vec<u8>, bytes: &[u8]) -> Vec<u8> {
            bytes.to_vec()
        }
    }

    const WIDE: Limits = Limits {
        list_bytes_max: 1 << 20,
        fields_max: 5000,
    };

    struct Reader {
        decoder: Decoder<Text>,
        known: StaticFields<Text>,
        limits: Limits,
    }

    impl Reader {
        fn new(limit: u32) -> Reader {
            Reader {
                decoder: Decoder::new(limit),
                known: StaticFields::new(),
                limits: WIDE,
            }
        }

        fn read(&mut self, block: &[u8]) -> Result<String, HpackError> {
            let mut text = String::new();
            let visit = |name: &Vec<u8>, value: &Vec<u8>| {
                text += &format!("{}={};", name.escape_ascii(), value.escape_ascii());
            };
            let mut scratch = Vec::new();
            self.decoder
                .decode(&self.known, &mut scratch, self.limits, block, visit)?;
            Ok(text)
        }
    }

    /// RFC 7541, C.5: responses, in a table of 256 bytes that overflows.
    #[test]
    fn the_standards_responses_are_read_and_evicted() {
        let mut reader = Reader::new(256);
        let first = b"\x48\x03302\x58\x07private\x61\x1dMon, 21 Oct 2013 20:13:21 GMT\
                      \x6e\x17https://www.example.com";
        let head = "cache-control=private;date=Mon, 21 Oct 2013 20:13:21 GMT;\
                    location=https://www.example.com;";
        assert_eq!(reader.read(first).unwrap(), format!(":status=302;{head}"));
        assert_eq!(reader.decoder.table_bytes(), 222);
        let second = b"\x48\x03307\xc1\xc0\xbf";
        assert_eq!(reader.read(second).unwrap(), format!(":status=307;{head}"));
        assert_eq!(reader.decoder.table_bytes(), 222);
        let gone = reader.read(b"\xc2");
        assert_eq!(gone, Err(HpackError::Index), "the oldest made room");
    }

    use proptest::prelude::*;

    proptest! {
        /// Whatever comes, what is spelled is what was meant.
        #[test]
        fn the_text_that_is_kept_is_that_of_the_field(
            fields in prop::collection::vec((0_u8..6, 0_usize..200, "[a-z]{1,9}", 0_usize..1500), 1..80),
        ) {
            let mut decoder = Decoder::<Text>::keeping_text(4096);
            let (known, mut scratch) = (StaticFields::new(), Vec::new());
            for (kind, index, name, len) in fields {
                    let mut block = Vec::new();
                    let index = 1 + index % (61 + decoder.entries.len());
                    let value = name.as_bytes().iter().cycle().take(len).copied().collect::<Vec<u8>>();
                    let string = |text: &[u8], block: &mut Vec<u8>| {
                        integer::encode(text.len() as u32, 7, 0, block);
                        block.extend_from_slice(text);
                    };
                    match kind {
                        0 => integer::encode(index as u32, 7, 0x80, &mut block),
                        1 | 2 => {
                            let (prefix, first) = if kind == 1 { (6, 0x40) } else { (4, 0) };
                            integer::encode(index as u32, prefix, first, &mut block);
                            string(&value, &mut block);
                        }
                        _ => {
                            block.push(if kind == 3 { 0 } else { 0x40 });
                            string(name.as_bytes(), &mut block);
                            string(&value, &mut block);
                        }
                    }
                    let mut same = true;
                    decoder.decode_spelled(&known, &mut scratch, WIDE, &block, |name, value, text| {
                        same &= text == (name.as_slice(), value.as_slice());
                    }).unwrap();
                    prop_assert!(same);
            }
        }
    }

    #[test]
    fn an_entry_larger_than_the_table_empties_it() {
        let mut reader = Reader::new(64);
        reader.read(b"\x40\x01a\x01b").unwrap();
        assert_eq!(reader.decoder.table_bytes(), 34);
        reader
            .read(&[b"\x40\x01c\x20", &[b'd'; 32][..]].concat())
            .unwrap();
        assert_eq!(reader.decoder.table_bytes(), 0);
    }

    #[test]
    fn a_name_may_be_that_of_an_entry_which_makes_room_for_it() {
        let mut reader = Reader::new(40);
        reader.read(b"\x40\x02ab\x01c").unwrap();
        assert_eq!(reader.read(b"\x7e\x01d").unwrap(), "ab=d;");
        assert_eq!(reader.read(b"\xbe").unwrap(), "ab=d;");
        assert_eq!(reader.decoder.table_bytes(), 35);
    }

    #[test]
    fn sizes_change_first_in_a_block_and_within_the_limit() {
        let mut reader = Reader::new(100);
        reader.read(b"\x40\x01a\x01b").unwrap();
        assert_eq!(reader.read(b"\x20\x3f\x45\x82").unwrap(), ":method=GET;");
        assert_eq!(reader.read(b"\xbe"), Err(HpackError::Index));
        assert_eq!(reader.read(b"\x3f\x46"), Err(HpackError::SizeAboveLimit));
        assert_eq!(reader.read(b"\x82\x20"), Err(HpackError::SizeMisplaced));
    }

    #[test]
    fn what_is_broken_is_named() {
        for (block, error) in [
            (&b"\x80"[..], HpackError::Index),
            (b"\xbe", HpackError::Index),
            (b"\x7f\x00", HpackError::Index),
            (b"\xff\xff\xff\xff\xff\xff\x00", HpackError::IntegerTooLarge),
            (b"\xff", HpackError::Truncated),
            (b"\x40", HpackError::Truncated),
            (b"\x40\x05abcd", HpackError::Truncated),
            (b"\x40\x01a", HpackError::Truncated),
            (b"\x40\x01a\x02b", HpackError::Truncated),
            (b"\x00\x81\xff\x00", HpackError::Huffman),
            (b"\x00\x01a\x84\xff\xff\xff\xff", HpackError::Huffman),
        ] {
            let seen = Reader::new(4096).read(block);
            assert_eq!(seen, Err(error), "{}", block.escape_ascii());
        }
    }

    #[test]
    fn a_bomb_of_references_is_stopped_at_the_limit() {
        let mut reader = Reader::new(4096);
        let long = [b"\x40\x01a\x7f\x81\x0f", &[b'x'; 2048][..]].concat();
        reader.read(&long).unwrap();
        reader.limits.list_bytes_max = 10 * 2081;
        assert!(reader.read(&[0xbe; 10]).is_ok());
        assert_eq!(reader.read(&[0xbe; 11]), Err(HpackError::ListTooLong));
        reader.limits.fields_max = 3;
        assert!(reader.read(b"\x82\x82\x82").is_ok());
        assert_eq!(
            reader.read(b"\x82\x82\x82\x82"),
            Err(HpackError::ListTooLong)
        );
    }

    #[test]
    fn the_version_tells_whether_a_block_changed_the_table() {
        let mut reader = Reader::new(4096);
        reader.read(b"\x82\x00\x01a\x01b\x10\x01a\x01b").unwrap();
        assert_eq!(reader.decoder.version(), 0);
        reader.read(b"\x40\x01a\x01b").unwrap();
        assert_eq!(reader.decoder.version(), 1);
        reader.read(b"\x20").unwrap();
        assert_eq!(reader.decoder.version(), 2);
    }
}
