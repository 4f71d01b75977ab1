//! What can be wrong with a header block.

/// Why a header block cannot be decoded. All are COMPRESSION_ERRORs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.why())]
pub enum HpackError {
    /// The block ends inside a representation.
    Truncated,
    /// An integer above 2^32 - 1, or spelled with more bytes than that needs.
    IntegerTooLarge,
    /// An index of 0, or behind the end of the dynamic table.
    Index,
    /// A string with the end-of-string symbol, or padded with anything but ones.
    Huffman,
    /// A table size above what SETTINGS allow.
    SizeAboveLimit,
    /// A change of the table's size behind a field.
    SizeMisplaced,
    /// More bytes of names and values, or more fields, than the limits allow.
    ListTooLong,
}

impl HpackError {
    /// In words, with the section of RFC 7541 or RFC 9113.
    pub const fn why(self) -> &'static str {
        match self {
            HpackError::Truncated => "the header block ends inside a field (RFC 7541, 6)",
            HpackError::IntegerTooLarge => "an integer above 2^32 - 1 (RFC 7541, 5.1)",
            HpackError::Index => "an index that no table has (RFC 7541, 2.3.3)",
            HpackError::Huffman => "a bad Huffman code or padding (RFC 7541, 5.2)",
            HpackError::SizeAboveLimit => "a table size above the limit (RFC 7541, 6.3)",
            HpackError::SizeMisplaced => "a table size behind a field (RFC 7541, 4.2)",
            HpackError::ListTooLong => "a header list above the limit (RFC 9113, 10.5.1)",
        }
    }
}
