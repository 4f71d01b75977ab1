//! Sans-I/O protocol clients: bytes in, outcomes out.
//!
//! What this crate is: one state machine for each protocol, each driving the
//! client's end of *one connection*. What it is not: it opens no socket, reads no
//! clock, starts no thread and touches no file, so the same bytes give the same
//! outcomes in a test, in a fuzzer and under load.
//!
//! ```text
//!            issue()                 poll_transmit() / handle_sent(n)
//!   lane ───────────────►  Wire  ───────────────────────────────────►  socket
//!        ◄───────────────        ◄───────────────────────────────────
//!         poll_outcome()              handle_bytes(&[u8]) / handle_eof()
//! ```
//!
//! Invariants, for every implementation:
//!
//! * Each issued request ends in exactly one outcome, unless the connection is
//!   abandoned first; outcomes never outnumber requests.
//! * After [`Outcome::Broken`] or an answer that is not `reusable`, the connection is
//!   never used again: the lane closes it and calls [`Wire::reset`] for the next one.
//! * Any split of the same bytes over calls gives the same outcomes.
//! * Nothing allocates after [`Wire::open`] while answers stay within the reserved
//!   sizes.

#![forbid(unsafe_code)]

pub mod http1;

/// Why a peer's bytes could not be taken as an answer. `Copy`, and an index into
/// counters: the hot path counts, the report names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum WireError {
    /// Malformed status line.
    H1Status,
    /// Head above its limit of bytes or fields.
    H1HeadLimit,
    /// NUL, bare CR, folded line, space before the colon, or another broken field.
    H1Head,
    /// A length that is not one: negative, hex, overflowing, or differing duplicates.
    H1Length,
    /// A transfer coding that this client does not know.
    H1Framing,
    /// A broken or endless chunk, extension or trailer.
    H1Chunk,
    /// The stream ended inside an answer.
    H1Truncated,
    /// Bytes that no request asked for.
    H1Unsolicited,
    /// Too many interim answers, or a switch of protocols that nobody asked for.
    H1Interim,
    /// A body that does not decode, or decodes to more than its cap.
    BodyDecode,
}

impl WireError {
    /// Every class, in the order of its index.
    pub const ALL: [WireError; 10] = [
        WireError::H1Status,
        WireError::H1HeadLimit,
        WireError::H1Head,
        WireError::H1Length,
        WireError::H1Framing,
        WireError::H1Chunk,
        WireError::H1Truncated,
        WireError::H1Unsolicited,
        WireError::H1Interim,
        WireError::BodyDecode,
    ];

    /// The class as it stands in records and output, such as `h1.length`.
    pub const fn class(self) -> &'static str {
        match self {
            WireError::H1Status => "h1.status",
            WireError::H1HeadLimit => "h1.head_limit",
            WireError::H1Head => "h1.head",
            WireError::H1Length => "h1.length",
            WireError::H1Framing => "h1.framing",
            WireError::H1Chunk => "h1.chunk",
            WireError::H1Truncated => "h1.truncated",
            WireError::H1Unsolicited => "h1.unsolicited",
            WireError::H1Interim => "h1.interim",
            WireError::BodyDecode => "body.decode",
        }
    }
}

/// What is to be written next on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transmit {
    /// Nothing to write.
    Idle,
    /// `len` bytes of the lane's immutable payload block, from `start`. The block holds
    /// the encoded request repeated, so a burst of pipelined requests is one slice.
    Block {
        /// Offset into the block, in bytes.
        start: usize,
        /// Length, in bytes; never 0.
        len: usize,
    },
}

/// What became of a request, or of the whole connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A complete, framed and checked answer.
    Answered(Answer),
    /// The peer broke the protocol. The request in `slot` (none when no request was in
    /// flight) fails with this class; every other request in flight is abandoned.
    Broken {
        /// The request that was being answered.
        slot: Option<u32>,
        /// The class of the failure.
        error: WireError,
    },
}

/// A complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The request that it answers: what [`Wire::issue`] gave.
    pub slot: u32,
    /// The status code, 200..=999 (interim answers are consumed inside the wire).
    pub status: u16,
    /// Bytes on the wire for this answer: heads, interim heads, framing and body.
    pub wire_bytes: u64,
    /// Bytes of the body after framing is taken off, before any content coding is.
    pub body_bytes: u64,
    /// Whether the connection may carry another request.
    pub reusable: bool,
}

/// One connection's protocol state.
pub trait Wire: Sized {
    /// What the connections of one lane share: encoded request, limits, memoised heads.
    type Shared;

    /// A connection's state, with everything it will need reserved.
    fn open(shared: &Self::Shared) -> Self;

    /// Forgets everything: the next bytes are those of a new connection.
    fn reset(&mut self, shared: &Self::Shared);

    /// How many more requests may be issued now.
    fn room(&self, shared: &Self::Shared) -> u32;

    /// Takes one more request, and gives the slot (`0..in_flight_max`) that names it
    /// until its outcome. Panics when there is no room: that is the lane's own bug.
    fn issue(&mut self, shared: &Self::Shared) -> u32;

    /// What to write next. The same answer until [`Wire::handle_sent`] moves it on.
    fn poll_transmit(&self, shared: &Self::Shared) -> Transmit;

    /// `count` bytes of the last [`Wire::poll_transmit`] were taken by the socket.
    fn handle_sent(&mut self, shared: &Self::Shared, count: usize);

    /// Takes bytes of the peer, stopping after the first that ends an answer or breaks
    /// the protocol, and says how many it took. Call [`Wire::poll_outcome`] and then
    /// this again with the rest.
    fn handle_bytes(&mut self, shared: &mut Self::Shared, bytes: &[u8]) -> usize;

    /// The peer has finished writing. May complete an answer that is read to close, or
    /// break one that is truncated; requests not yet begun stay without outcome.
    fn handle_eof(&mut self, shared: &mut Self::Shared);

    /// What became of a request since the last call.
    fn poll_outcome(&mut self) -> Option<Outcome>;

    /// The slot whose answer has begun to arrive and not ended.
    fn answering(&self) -> Option<u32>;
}
