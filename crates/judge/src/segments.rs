//! Segments over Ethernet, and what their heads take of a link.

/// Payload of a segment with time stamps, and its heads.
const PAYLOAD_BYTES: u64 = 1_448;
const HEADS_BYTES: u64 = 66;

/// How many segments a message takes that has some of its own.
pub const fn segments(bytes: u64) -> u64 {
    bytes.div_ceil(PAYLOAD_BYTES)
}

/// Bytes of the heads of so many segments.
pub const fn heads(segments: u64) -> u64 {
    HEADS_BYTES * segments
}
