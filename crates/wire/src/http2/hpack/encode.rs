//! The header block of a request that is sent over and over (RFC 7541, 6).
//!
//! ```text
//!   first on a connection   :method :scheme  :path+  :authority+  user-agent+     + inserts
//!   every later one         :method :scheme   [64]     [63]          [62]         indices
//!   where no table is       :method :scheme   :path   :authority   user-agent     literals
//! ```
//!
//! What is inserted is chosen so that it fits the table together: nothing is ever evicted,
//! so an index stays what it was for the life of the connection.

use super::static_table::STATIC_TABLE;
use super::{ENTRY_OVERHEAD_BYTES, TABLE_BYTES_DEFAULT, huffman, integer};

/// A field to be sent; its name in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Vec<u8>,
}

impl Field {
    /// A field of text.
    pub fn new(name: &str, value: &str) -> Field {
        Field {
            name: name.into(),
            value: value.as_bytes().into(),
        }
    }
}

/// The ways of one request's header block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestBlocks {
    /// For an empty dynamic table of at least [`RequestBlocks::table_bytes`]: inserts.
    pub first: Vec<u8>,
    /// For a table that holds what `first` inserted, and nothing after it.
    pub later: Vec<u8>,
    /// For a table of any size, which it neither reads nor changes.
    pub literal: Vec<u8>,
    /// What `first` inserts, in bytes by the standard's measure.
    pub table_bytes: u32,
    /// The list's size by RFC 9113, 6.5.2, in bytes.
    pub list_bytes: u32,
}

impl RequestBlocks {
    /// Encodes a header list.
    pub fn new(fields: &[Field]) -> RequestBlocks {
        let mut inserted: Vec<&Field> = Vec::new();
        let mut blocks = RequestBlocks {
            first: Vec::new(),
            later: Vec::new(),
            literal: Vec::new(),
            table_bytes: 0,
            list_bytes: fields.iter().map(size).sum(),
        };
        for field in fields {
            if let Some(index) = static_index(|entry| entry == (&field.name, &field.value)) {
                indexed(index, &mut blocks.first);
                indexed(index, &mut blocks.literal);
                continue;
            }
            without_indexing(field, &mut blocks.literal);
            if let Some(age) = age_of(&inserted, field) {
                indexed(FIRST_DYNAMIC + age, &mut blocks.first);
            } else if blocks.table_bytes + size(field) <= TABLE_BYTES_DEFAULT {
                literal(field, 6, 0b0100_0000, &mut blocks.first);
                blocks.table_bytes += size(field);
                inserted.push(field);
            } else {
                without_indexing(field, &mut blocks.first);
            }
        }
        for field in fields {
            if let Some(index) = static_index(|entry| entry == (&field.name, &field.value)) {
                indexed(index, &mut blocks.later);
            } else if let Some(age) = age_of(&inserted, field) {
                indexed(FIRST_DYNAMIC + age, &mut blocks.later);
            } else {
                without_indexing(field, &mut blocks.later);
            }
        }
        blocks
    }
}

/// The newest entry of the dynamic table.
const FIRST_DYNAMIC: u32 = STATIC_TABLE.len() as u32 + 1;

/// Appends a change of the table's size, to stand first in a block (RFC 7541, 6.3).
pub(in crate::http2) fn table_size(bytes_max: u32, out: &mut Vec<u8>) {
    integer::encode(bytes_max, 5, 0b0010_0000, out);
}

fn size(field: &Field) -> u32 {
    (field.name.len() + field.value.len()) as u32 + ENTRY_OVERHEAD_BYTES
}

fn static_index(wanted: impl Fn((&str, &[u8])) -> bool) -> Option<u32> {
    let entries = STATIC_TABLE.iter();
    let found = entries
        .map(|(name, value)| (*name, value.as_bytes()))
        .position(wanted)?;
    Some(found as u32 + 1)
}

/// How many entries were inserted after this one.
fn age_of(inserted: &[&Field], field: &Field) -> Option<u32> {
    let place = inserted.iter().rev().position(|entry| *entry == field)?;
    Some(place as u32)
}

fn indexed(index: u32, out: &mut Vec<u8>) {
    integer::encode(index, 7, 0b1000_0000, out);
}

fn without_indexing(field: &Field, out: &mut Vec<u8>) {
    literal(field, 4, 0, out);
}

fn literal(field: &Field, prefix_bits: u8, kind: u8, out: &mut Vec<u8>) {
    match static_index(|(name, _)| name == field.name) {
        Some(index) => integer::encode(index, prefix_bits, kind, out),
        None => {
            out.push(kind);
            string(field.name.as_bytes(), out);
        }
    }
    string(&field.value, out);
}

/// A field that no table takes, in bytes; one that the static table has by its index.
pub(in crate::http2) fn literal_field(field: &Field) -> Vec<u8> {
    let mut out = Vec::new();
    match static_index(|entry| entry == (&field.name, &field.value)) {
        Some(index) => indexed(index, &mut out),
        None => without_indexing(field, &mut out),
    }
    out
}

/// The name of a field that no table takes, whose value is to follow.
pub(in crate::http2) fn literal_name(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    match static_index(|(known, _)| known == name) {
        Some(index) => integer::encode(index, 4, 0, &mut out),
        None => {
            out.push(0);
            string(name.as_bytes(), &mut out);
        }
    }
    out
}

/// The beginning of a string of so many bytes that follow as they are.
pub(in crate::http2) fn plain_string_len(len: usize, out: &mut Vec<u8>) {
    integer::encode(len as u32, 7, 0, out);
}

fn string(bytes: &[u8], out: &mut Vec<u8>) {
    let coded_len = huffman::encoded_len(bytes);
    if coded_len < bytes.len() {
        integer::encode(coded_len as u32, 7, 0x80, out);
        huffman::encode(bytes, out);
    } else {
        integer::encode(bytes.len() as u32, 7, 0, out);
        out.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(list: &[(&str, &str)]) -> Vec<Field> {
        let field = |(name, value): &(&str, &str)| Field {
            name: (*name).into(),
            value: value.as_bytes().into(),
        };
        list.iter().map(field).collect()
    }

    /// RFC 7541, C.4.1 and what its table makes of the same request again.
    #[test]
    fn the_standards_request_is_encoded_and_then_indexed() {
        let blocks = RequestBlocks::new(&fields(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "www.example.com"),
        ]));
        let authority = b"\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        assert_eq!(blocks.first, [b"\x82\x86\x84\x41", &authority[..]].concat());
        assert_eq!(blocks.later, b"\x82\x86\x84\xbe");
        assert_eq!(
            blocks.literal,
            [b"\x82\x86\x84\x01", &authority[..]].concat()
        );
        assert_eq!(blocks.table_bytes, 57);
    }

    #[test]
    fn what_is_given_twice_is_inserted_once() {
        let blocks = RequestBlocks::new(&fields(&[("x", "1"), ("y", "2"), ("x", "1")]));
        assert_eq!(blocks.first, b"\x40\x01x\x011\x40\x01y\x012\xbf");
        assert_eq!(blocks.later, b"\xbf\xbe\xbf");
        assert_eq!(blocks.table_bytes, 68);
    }

    #[test]
    fn what_does_not_fit_the_table_stays_spelled_out() {
        let long = "z".repeat(4096);
        let blocks = RequestBlocks::new(&fields(&[("x", &long), ("y", "2")]));
        assert_eq!(blocks.table_bytes, 34);
        assert_eq!(blocks.later.last(), Some(&0xbe));
        assert_eq!(blocks.later[..2], *b"\x00\x01");
        assert_eq!(blocks.later.len(), blocks.first.len() - 4);
    }
}
