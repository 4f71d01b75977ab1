//! HPACK: header compression for HTTP/2 (RFC 7541).
//!
//! What it is: a decoder that keeps what a field *means* instead of what it says, and an
//! encoder for the one request of a worker. What it is not: a map of headers. A client
//! that measures wants the status and the length; every other field only has to be
//! sound. So the decoder's dynamic table holds values of an [`Interpret`]er's making,
//! made once when an entry is inserted, and an indexed field costs no look at its bytes.
//!
//! ```text
//!   block ─► Decoder ─► Interpret::name, value ─► dynamic table ─► visit(name, value)
//!                 └──── index ──────────────────────────┘ ▲
//!                 └──── index ≤ 61 ──► StaticFields ──────┘
//! ```
//!
//! Invariants:
//!
//! * Nothing is kept of a block beyond the table's entries; their size is the standard's
//!   (name, value and 32 bytes), so the peer's encoder and this table agree.
//! * Every error is a COMPRESSION_ERROR: after one the table is undefined and the
//!   connection ends (RFC 9113, 4.3).
//! * A block is decoded whole; nothing in it can make the decoder hold more than the
//!   limits that it was given.

mod decode;
mod encode;
mod error;
mod huffman;
mod integer;
mod static_table;

pub use decode::{Decoder, Interpret, Limits, StaticFields};
pub use encode::{Field, RequestBlocks};
pub(super) use encode::{literal_field, literal_name, plain_string_len, table_size};
pub use error::HpackError;

/// The dynamic table's size until SETTINGS say otherwise, in bytes (RFC 9113, 6.5.2).
pub const TABLE_BYTES_DEFAULT: u32 = 4096;

/// What an entry costs beyond its name and value, in bytes (RFC 7541, 4.1).
const ENTRY_OVERHEAD_BYTES: u32 = 32;
