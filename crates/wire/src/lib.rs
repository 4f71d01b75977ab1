//! Sans-I/O protocol clients: bytes in, outcomes out.
//!
//! What this crate is: one state machine for each protocol, each driving the
//! client's end of *one connection*. What it is not: it opens no socket, reads no
//! clock, starts no thread and touches no file, so the same bytes give the same
//! outcomes in a test, in a fuzzer and under load.
//!
//! ```text
//!            issue()            poll_transmit() / handle_sent(n), write(buffer)
//!   worker ───────────────►  Wire  ───────────────────────────────────►  socket
//!        ◄───────────────        ◄───────────────────────────────────
//!         poll_outcome()              handle_bytes(&[u8]) / handle_eof()
//! ```
//!
//! Invariants, for every implementation:
//!
//! * Each issued request ends in exactly one outcome, unless the connection is
//!   abandoned first; outcomes never outnumber requests.
//! * After [`Outcome::Broken`], [`Outcome::Over`] or an answer that is not `reusable`, the
//!   connection is never used again: the worker closes it and calls [`Wire::reset`] for the next one.
//! * Any split of the same bytes over calls gives the same outcomes.
//! * Nothing allocates after [`Wire::open`] while answers stay within the reserved
//!   sizes.

#![forbid(unsafe_code)]
// Nothing that `crates/clippy.toml` lists, but in tests.
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

use strum::{IntoStaticStr, VariantArray};

pub mod bytes;
mod content;
mod exchange;
pub mod framed;
pub mod grpc;
pub mod http1;
pub mod http2;
mod list;
pub mod mix;
pub mod random;
mod request;
mod sending;
pub mod tls;

pub use content::Decode;
pub use exchange::Exchange;
use http2::ErrorCode;
use mix::{Ask, Looked, Values};
pub use request::{BadRequest, Request};

/// Why a peer's bytes could not be taken as a good answer. `Copy`, and an index into
/// counters: the hot path counts, the report names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, VariantArray, IntoStaticStr)]
#[repr(u8)]
pub enum WireError {
    /// Malformed status line.
    #[strum(serialize = "h1.status")]
    H1Status,
    /// Head above its limit of bytes or fields.
    #[strum(serialize = "h1.head_limit")]
    H1HeadLimit,
    /// NUL, bare CR, space before the colon, or another broken field.
    #[strum(serialize = "h1.head")]
    H1Head,
    /// A length that is not one: negative, hex, overflowing, or differing duplicates.
    #[strum(serialize = "h1.length")]
    H1Length,
    /// A transfer coding that this client does not know.
    #[strum(serialize = "h1.framing")]
    H1Framing,
    /// A broken or endless chunk, extension or trailer.
    #[strum(serialize = "h1.chunk")]
    H1Chunk,
    /// The stream ended inside an answer.
    #[strum(serialize = "h1.truncated")]
    H1Truncated,
    /// Bytes that no request asked for.
    #[strum(serialize = "h1.unsolicited")]
    H1Unsolicited,
    /// Too many interim answers, or a switch of protocols that nobody asked for.
    #[strum(serialize = "h1.interim")]
    H1Interim,
    /// A body that does not decode, or decodes to more than its cap.
    #[strum(serialize = "body.decode")]
    BodyDecode,
    /// The peer does not begin as HTTP/2 begins: it speaks another protocol.
    #[strum(serialize = "h2.preface")]
    H2Preface,
    /// A frame where it may not stand, or with what it may not say.
    #[strum(serialize = "h2.protocol")]
    H2Protocol,
    /// A frame of a length that its kind cannot have.
    #[strum(serialize = "h2.frame_size")]
    H2FrameSize,
    /// More bytes than the window, or a window above 2^31 - 1.
    #[strum(serialize = "h2.flow")]
    H2Flow,
    /// A frame of a stream that has ended.
    #[strum(serialize = "h2.stream_closed")]
    H2StreamClosed,
    /// A header block that does not decode, or to more than its limit.
    #[strum(serialize = "h2.compression")]
    H2Compression,
    /// A header block without end.
    #[strum(serialize = "h2.head_flood")]
    H2HeadFlood,
    /// Frames without end that bring no answer further.
    #[strum(serialize = "h2.flood")]
    H2Flood,
    /// An answer whose fields or order of frames are malformed.
    #[strum(serialize = "h2.head")]
    H2Head,
    /// A length that is not one, or not that of the body.
    #[strum(serialize = "h2.length")]
    H2Length,
    /// Too many interim heads, or 101.
    #[strum(serialize = "h2.interim")]
    H2Interim,
    /// The stream of bytes ended inside an answer.
    #[strum(serialize = "h2.truncated")]
    H2Truncated,
    /// A GOAWAY said that the request was not looked at: it may be sent again.
    #[strum(serialize = "h2.unprocessed")]
    H2Unprocessed,
    /// The peer reset the stream with NO_ERROR.
    #[strum(serialize = "h2.reset.no_error")]
    H2ResetNoError,
    /// The peer reset the stream with PROTOCOL_ERROR.
    #[strum(serialize = "h2.reset.protocol_error")]
    H2ResetProtocolError,
    /// The peer reset the stream with INTERNAL_ERROR.
    #[strum(serialize = "h2.reset.internal_error")]
    H2ResetInternalError,
    /// The peer reset the stream with FLOW_CONTROL_ERROR.
    #[strum(serialize = "h2.reset.flow_control_error")]
    H2ResetFlowControlError,
    /// The peer reset the stream with SETTINGS_TIMEOUT.
    #[strum(serialize = "h2.reset.settings_timeout")]
    H2ResetSettingsTimeout,
    /// The peer reset the stream with STREAM_CLOSED.
    #[strum(serialize = "h2.reset.stream_closed")]
    H2ResetStreamClosed,
    /// The peer reset the stream with FRAME_SIZE_ERROR.
    #[strum(serialize = "h2.reset.frame_size_error")]
    H2ResetFrameSizeError,
    /// The peer reset the stream with REFUSED_STREAM.
    #[strum(serialize = "h2.reset.refused_stream")]
    H2ResetRefusedStream,
    /// The peer reset the stream with CANCEL.
    #[strum(serialize = "h2.reset.cancel")]
    H2ResetCancel,
    /// The peer reset the stream with COMPRESSION_ERROR.
    #[strum(serialize = "h2.reset.compression_error")]
    H2ResetCompressionError,
    /// The peer reset the stream with CONNECT_ERROR.
    #[strum(serialize = "h2.reset.connect_error")]
    H2ResetConnectError,
    /// The peer reset the stream with ENHANCE_YOUR_CALM.
    #[strum(serialize = "h2.reset.enhance_your_calm")]
    H2ResetEnhanceYourCalm,
    /// The peer reset the stream with INADEQUATE_SECURITY.
    #[strum(serialize = "h2.reset.inadequate_security")]
    H2ResetInadequateSecurity,
    /// The peer reset the stream with HTTP_1_1_REQUIRED.
    #[strum(serialize = "h2.reset.http_1_1_required")]
    H2ResetHttp11Required,
    /// The peer reset the stream with a code that the standard does not know.
    #[strum(serialize = "h2.reset.other")]
    H2ResetOther,
    /// A frame's length is zero, above its limit, or too short for what it must hold.
    #[strum(serialize = "frame.length")]
    FrameLength,
    /// A frame that answers no request: an id that is unknown or was answered already, or
    /// more frames than requests.
    #[strum(serialize = "frame.unmatched")]
    FrameUnmatched,
    /// The stream ended inside a frame.
    #[strum(serialize = "frame.truncated")]
    FrameTruncated,
    /// Credit that is none: not granted first, of nothing, or beyond what may be granted.
    #[strum(serialize = "frame.credit")]
    FrameCredit,
    /// A message of an answer is too long, broken off, or coded in a way that was not offered.
    #[strum(serialize = "grpc.frame")]
    GrpcFrame,
    /// A call ended without a status, or with one that is none.
    #[strum(serialize = "grpc.no_status")]
    GrpcNoStatus,
    /// An answer of another content type than gRPC's.
    #[strum(serialize = "grpc.content_type")]
    GrpcContentType,
    /// A call ended with OK, and another number of messages than its method has.
    #[strum(serialize = "grpc.messages")]
    GrpcMessages,
    /// The call ended with CANCELLED.
    #[strum(serialize = "grpc.status.cancelled")]
    GrpcCancelled,
    /// The call ended with UNKNOWN.
    #[strum(serialize = "grpc.status.unknown")]
    GrpcUnknown,
    /// The call ended with INVALID_ARGUMENT.
    #[strum(serialize = "grpc.status.invalid_argument")]
    GrpcInvalidArgument,
    /// The call ended with DEADLINE_EXCEEDED.
    #[strum(serialize = "grpc.status.deadline_exceeded")]
    GrpcDeadlineExceeded,
    /// The call ended with NOT_FOUND.
    #[strum(serialize = "grpc.status.not_found")]
    GrpcNotFound,
    /// The call ended with ALREADY_EXISTS.
    #[strum(serialize = "grpc.status.already_exists")]
    GrpcAlreadyExists,
    /// The call ended with PERMISSION_DENIED.
    #[strum(serialize = "grpc.status.permission_denied")]
    GrpcPermissionDenied,
    /// The call ended with RESOURCE_EXHAUSTED.
    #[strum(serialize = "grpc.status.resource_exhausted")]
    GrpcResourceExhausted,
    /// The call ended with FAILED_PRECONDITION.
    #[strum(serialize = "grpc.status.failed_precondition")]
    GrpcFailedPrecondition,
    /// The call ended with ABORTED.
    #[strum(serialize = "grpc.status.aborted")]
    GrpcAborted,
    /// The call ended with OUT_OF_RANGE.
    #[strum(serialize = "grpc.status.out_of_range")]
    GrpcOutOfRange,
    /// The call ended with UNIMPLEMENTED.
    #[strum(serialize = "grpc.status.unimplemented")]
    GrpcUnimplemented,
    /// The call ended with INTERNAL.
    #[strum(serialize = "grpc.status.internal")]
    GrpcInternal,
    /// The call ended with UNAVAILABLE.
    #[strum(serialize = "grpc.status.unavailable")]
    GrpcUnavailable,
    /// The call ended with DATA_LOSS.
    #[strum(serialize = "grpc.status.data_loss")]
    GrpcDataLoss,
    /// The call ended with UNAUTHENTICATED.
    #[strum(serialize = "grpc.status.unauthenticated")]
    GrpcUnauthenticated,
    /// The call ended with a status that the specification does not know.
    #[strum(serialize = "grpc.status.other")]
    GrpcStatusOther,
    /// No agreement on how to encrypt, or on whom to believe; or what answers speaks no TLS.
    #[strum(serialize = "tls.handshake")]
    TlsHandshake,
    /// Records that do not decrypt, are out of place, or an alert, after the handshake.
    #[strum(serialize = "tls.record")]
    TlsRecord,
    /// An answer that ends with the stream, which ended without a word (close_notify).
    #[strum(serialize = "tls.truncated")]
    TlsTruncated,
    /// Another status than its request's check asks for.
    #[strum(serialize = "check.status")]
    CheckStatus,
    /// A field that a check asks for is missing, or says something else.
    #[strum(serialize = "check.header")]
    CheckHeader,
    /// What a check seeks is not in the body.
    #[strum(serialize = "check.body")]
    CheckBody,
    /// A body of another length than a check asks for.
    #[strum(serialize = "check.length")]
    CheckLength,
    /// A value of JSON that a check asks for is missing, or another.
    #[strum(serialize = "check.json")]
    CheckJson,
    /// A body that is to be looked into is compressed.
    #[strum(serialize = "check.coded")]
    CheckCoded,
    /// What a later step needs is not in the answer.
    #[strum(serialize = "take.missing")]
    TakeMissing,
    /// What a later step needs is too long.
    #[strum(serialize = "take.too_long")]
    TakeTooLong,
    /// What a later step needs is not of the kind that it needs, such as a number.
    #[strum(serialize = "take.unfit")]
    TakeUnfit,
    /// A redirect leads to another server.
    #[strum(serialize = "redirect.elsewhere")]
    RedirectElsewhere,
    /// A redirect names no place that can be followed.
    #[strum(serialize = "redirect.target")]
    RedirectTarget,
    /// More redirects than are followed.
    #[strum(serialize = "redirect.too_many")]
    RedirectTooMany,
}

impl WireError {
    /// Whether the peer said that it did nothing for the request, so that it may be sent again, whatever its
    /// method (RFC 9113, 8.7).
    pub const fn is_unprocessed(self) -> bool {
        matches!(
            self,
            WireError::H2Unprocessed | WireError::H2ResetRefusedStream
        )
    }

    /// Every class, in the order of its index.
    pub const ALL: [WireError; WireError::VARIANTS.len()] =
        *WireError::VARIANTS.first_chunk().unwrap();

    /// The class as it stands in records and output, such as `h1.length`.
    pub fn class(self) -> &'static str {
        self.into()
    }

    /// The class of a stream that the peer reset; `None` for a code of its own.
    pub(crate) const fn of_reset(code: Option<ErrorCode>) -> WireError {
        let Some(code) = code else {
            return WireError::H2ResetOther;
        };
        match code {
            ErrorCode::NoError => WireError::H2ResetNoError,
            ErrorCode::ProtocolError => WireError::H2ResetProtocolError,
            ErrorCode::InternalError => WireError::H2ResetInternalError,
            ErrorCode::FlowControlError => WireError::H2ResetFlowControlError,
            ErrorCode::SettingsTimeout => WireError::H2ResetSettingsTimeout,
            ErrorCode::StreamClosed => WireError::H2ResetStreamClosed,
            ErrorCode::FrameSizeError => WireError::H2ResetFrameSizeError,
            ErrorCode::RefusedStream => WireError::H2ResetRefusedStream,
            ErrorCode::Cancel => WireError::H2ResetCancel,
            ErrorCode::CompressionError => WireError::H2ResetCompressionError,
            ErrorCode::ConnectError => WireError::H2ResetConnectError,
            ErrorCode::EnhanceYourCalm => WireError::H2ResetEnhanceYourCalm,
            ErrorCode::InadequateSecurity => WireError::H2ResetInadequateSecurity,
            ErrorCode::Http11Required => WireError::H2ResetHttp11Required,
        }
    }
}

/// What is to be written next on the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transmit {
    /// Nothing to write.
    Idle,
    /// `len` bytes of the worker's immutable payload block, from `start`. The block holds
    /// the encoded request repeated, so a burst of pipelined requests is one slice.
    Block {
        /// Offset into the block, in bytes.
        start: usize,
        /// Length, in bytes; never 0.
        len: usize,
    },
    /// Bytes of this connection's own making, to be had with [`Wire::write`].
    Own,
}

/// What became of a request, or of the whole connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A complete, framed and checked answer.
    Answered(Answer),
    /// The request in `slot` failed with this class; the connection goes on.
    Failed {
        /// The request.
        slot: u32,
        /// The class of the failure.
        error: WireError,
    },
    /// The connection carries no more requests, and none is in flight: its peer is going
    /// away, or its stream ids are used up. Nobody is at fault.
    Over,
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
    /// The status code, 200..=999 (interim answers are consumed inside the wire), or
    /// [`Answer::NO_STATUS`].
    pub status: u16,
    /// Bytes on the wire for this answer: heads, interim heads, framing and body.
    pub wire_bytes: u64,
    /// Bytes of the body after framing is taken off, that of its messages too, before any
    /// content coding is.
    pub body_bytes: u64,
    /// What a body came to that was decoded; with [`Decode::Inflate`] the bytes of one that is
    /// not coded too; else 0.
    pub decoded_bytes: u64,
    /// Whether the connection may carry another request.
    pub reusable: bool,
    /// Whether the peer said that it processes nothing behind this request (RFC 9112, 9.6): what was sent
    /// there may be sent again.
    pub is_last: bool,
    /// What it says as a call, in gRPC.
    pub call: Option<grpc::Call>,
    /// What it was found to be, where it was looked into.
    pub judged: Judged,
    /// Whether it is a redirect that the next request follows.
    pub redirects: Option<Redirect>,
}

/// What an answer was found to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Judged {
    /// What its status says.
    #[default]
    ByStatus,
    /// Good, whatever its status.
    Good,
    /// Not what was asked for.
    Bad(WireError),
}

impl Answer {
    /// The status of an answer in a protocol that has none: whole is good.
    pub const NO_STATUS: u16 = 0;
}

/// How a redirect is followed (RFC 9110, 15.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Redirect {
    /// By a GET.
    ToGet,
    /// By the same request at the other place: a 307 or 308 of what is no GET.
    AsItIs,
}

/// One connection's protocol state.
pub trait Wire: Sized {
    /// What the connections of one worker share: encoded request, limits, memoised heads.
    type Shared;

    /// A connection's state, with everything it will need reserved.
    fn open(shared: &Self::Shared) -> Self;

    /// Forgets everything: the next bytes are those of a new connection.
    fn reset(&mut self, shared: &Self::Shared);

    /// From now on issues another form of the request, on every connection as soon as all
    /// of its requests are sent: 0 is the one that was asked for, others are longer. A wire
    /// with one form takes no other.
    fn take_form(shared: &mut Self::Shared, form: usize) {
        let _ = shared;
        assert!(form == 0, "there is no form {form}");
    }

    /// From now on requests are filled in with these values, where a mix has any that are the same for all users. One
    /// of which a part is written keeps those that it began with.
    fn take_known(shared: &mut Self::Shared, known: &Values) {
        let _ = (shared, known);
    }

    /// The worker's immutable payload block, which [`Transmit::Block`] names parts of.
    fn block(shared: &Self::Shared) -> &[u8] {
        let _ = shared;
        &[]
    }

    /// Whether what comes before the first request is done. Until then there is no room, and
    /// the worker sends and gives bytes as at any time.
    fn is_ready(&self) -> bool {
        true
    }

    /// Whether taking an answer may allocate.
    fn may_allocate(shared: &Self::Shared) -> bool {
        let _ = shared;
        false
    }

    /// Bytes on the wire of the requests of a kind so far, heads and framing included, of which `sent` were issued and
    /// not taken back; 0 where they are not counted.
    fn sent_bytes(shared: &Self::Shared, kind: u16, sent: u64) -> u64 {
        let _ = (shared, kind, sent);
        0
    }

    /// Answers that were looked into so far, where any may be.
    fn looked(shared: &Self::Shared) -> Option<&Looked> {
        let _ = shared;
        None
    }

    /// How many more requests may be issued now.
    fn room(&self, shared: &Self::Shared) -> u32;

    /// Takes one more request, and gives the slot (`0..in_flight_max`) that names it
    /// until its outcome. Panics when there is no room: that is the worker's own bug.
    fn issue(&mut self, shared: &Self::Shared) -> u32;

    /// The same of one of several kinds of request, where the wire has several.
    fn issue_one(&mut self, shared: &Self::Shared, ask: Ask) -> u32 {
        assert!(ask.kind == 0, "there is no kind {}", ask.kind);
        self.issue(shared)
    }

    /// What to write next. The same answer until [`Wire::handle_sent`] moves it on.
    fn poll_transmit(&self, shared: &Self::Shared) -> Transmit;

    /// `count` bytes of the last [`Transmit::Block`] were taken by the socket.
    fn handle_sent(&mut self, shared: &Self::Shared, count: usize);

    /// Where [`Transmit::Own`] says so: writes as much as there is room for into the worker's
    /// buffer, and gives the length, which may be 0 after all. What was written is sent
    /// whole and in order, or the connection is given up.
    fn write(&mut self, shared: &Self::Shared, into: &mut [u8]) -> usize;

    /// Takes bytes of the peer, stopping after the first that brings an outcome, and says
    /// how many it took. Call [`Wire::poll_outcome`] until it gives none, and then this
    /// again with the rest.
    fn handle_bytes(&mut self, shared: &mut Self::Shared, bytes: &[u8]) -> usize;

    /// The peer has finished writing. May complete an answer that is read to close, or
    /// break one that is truncated; requests not yet begun stay without outcome.
    fn handle_eof(&mut self, shared: &mut Self::Shared);

    /// What became of a request since the last call.
    fn poll_outcome(&mut self) -> Option<Outcome>;

    /// A slot whose answer has begun to arrive since the last call, and has no outcome.
    /// Asked after each read, until it gives none: the worker then knows the instant.
    fn poll_begun(&mut self) -> Option<u32>;

    /// A slot whose answer has begun to arrive and not ended.
    fn answering(&self) -> Option<u32>;

    /// Whether the request in `slot` cannot go on before the peer opens a window.
    fn is_flow_blocked(&self, slot: u32) -> bool {
        let _ = slot;
        false
    }

    /// What the session on this connection took last, of a mix: the value of a variable by its number.
    fn taken(&self, variable: u16) -> &[u8] {
        let _ = variable;
        &[]
    }

    /// The cookies of the session on this connection, of a mix, as a request's field has them.
    fn cookies(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Gives a session that has not begun cookies, as [`Wire::cookies`] gives them.
    fn take_cookies(&mut self, cookies: &[u8]) {
        let _ = cookies;
    }

    /// Gives up one request, which then has no outcome, and says whether the others on the
    /// connection may go on without it; if not, nothing is changed. Poll for an outcome
    /// afterwards: the connection may be over with it.
    fn cancel(&mut self, slot: u32) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_indexed_in_order_and_distinct() {
        for (index, error) in WireError::ALL.iter().enumerate() {
            assert_eq!(*error as usize, index);
        }
        let mut names: Vec<_> = WireError::ALL.iter().map(|error| error.class()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), WireError::ALL.len());
    }

    #[test]
    fn every_code_of_a_reset_has_a_class_of_its_name() {
        for code in ErrorCode::ALL {
            let class = WireError::of_reset(Some(code)).class();
            assert_eq!(class, format!("h2.reset.{}", code.name().to_lowercase()));
        }
        assert_eq!(WireError::of_reset(None).class(), "h2.reset.other");
    }
}
