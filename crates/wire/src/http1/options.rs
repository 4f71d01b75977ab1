//! What a worker asks of its connections, and what it takes of them at the most.

use crate::content::Decode;

/// Bounds and habits of a worker's connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Requests in flight on one connection (the pipeline's depth); at least 1.
    pub in_flight_max: u32,
    /// One request for each connection: adds `Connection: close`, no answer is reusable,
    /// and only one request is in flight. A `Connection: close` among the user's fields
    /// does the same.
    pub connection_per_request: bool,
    /// The longest head, blank line included, in bytes; at least 64.
    pub head_bytes_max: usize,
    /// The most fields in one head.
    pub head_fields_max: u32,
    /// The most interim (1xx) answers before one final answer.
    pub interim_max: u32,
    /// The most bytes of chunk extensions in one body.
    pub chunk_extension_bytes_max: u32,
    /// The most bytes of trailers in one body.
    pub trailer_bytes_max: u32,
    /// Which coded bodies are decoded and checked.
    pub decode: Decode,
    /// The most bytes that one of them may decode to.
    pub decoded_bytes_max: u64,
    /// Longer forms of the request, by how many bytes each is longer: at least 14. See
    /// [`Wire::take_form`](crate::Wire::take_form).
    pub paddings: Vec<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            in_flight_max: 1,
            connection_per_request: false,
            head_bytes_max: 300 * 1024,
            head_fields_max: 5000,
            interim_max: 32,
            chunk_extension_bytes_max: 64 * 1024,
            trailer_bytes_max: 64 * 1024,
            decode: Decode::None,
            decoded_bytes_max: 256 << 20,
            paddings: Vec::new(),
        }
    }
}

impl Options {
    /// A request that asks for it has a connection of its own.
    pub(super) fn close_after_one(&mut self, closes: bool) {
        if closes {
            self.connection_per_request = true;
            self.in_flight_max = 1;
        }
    }
}
