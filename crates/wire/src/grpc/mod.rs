//! gRPC over HTTP/2: a call's request, and what its answer must be.
//!
//! What it is: what gRPC adds to an exchange of [`http2`](crate::http2). The request is a POST
//! whose body is messages behind their lengths, encoded once; the answer is messages of the
//! same form, counted and dropped as they pass, and a status in trailers. What it is not: a
//! state machine of its own (a call is one stream, and HTTP/2 has those), nor a codec of
//! messages: what stands in them is for the caller to encode and for nobody to decode.
//!
//! ```text
//!   Request ─► shared() ─► http2::Shared { header blocks, body, Calls }   one for each worker
//!                                                          │
//!   http2::Http2:  HEADERS ─► is it gRPC? ─────────────────┤
//!                  DATA    ─► Messages (one for each stream) ─► counted, or grpc.frame
//!                  trailers ─► Status ─► Calls::judge ─► a good answer, or its class
//! ```
//!
//! An exchange is one call of any kind: all of its messages are sent, then the stream is
//! half-closed, and the answer is whole when the status has come. Where both sides stream,
//! messages may go in turn: each waits for an answer to the one before it.
//!
//! Invariants:
//!
//! * A length is checked when it is whole, and no length makes anything grow.
//! * A call is answered once, by a status: without one it has failed, whatever came before.
//! * Any split of the same bytes over frames, padding and reads gives the same outcome.
//!
//! # Where the specification leaves a choice
//!
//! | seen | done |
//! |---|---|
//! | `:status` other than 200 | a failure of that status' class; what follows is not read as messages |
//! | another content type than `application/grpc`, `…+proto` and so on | `grpc.content_type`, the stream is reset |
//! | a compression flag other than 0 | `grpc.frame`: no coding was offered |
//! | a length above the limit, an end inside a message | `grpc.frame` |
//! | a status other than OK inside a message | the status: it says why the message ends |
//! | no status, or one that is no number, or two that differ | `grpc.no_status` |
//! | a status above 16 | `grpc.status.other` |
//! | OK with another count of messages than the method has | `grpc.messages` |
//! | a stream that the peer resets | `h2.reset.<code>`, as in HTTP/2 |
//! | a status before the whole request | an answer, counted; the rest is not sent |

mod call;
mod messages;
mod request;
mod status;

pub(crate) use call::Calls;
pub use call::{Call, KEPT_BYTES_MAX, Kind, Terms};
pub(crate) use messages::Messages;
pub use request::{MESSAGE_BYTES_MAX, Request, shared};
pub(crate) use request::{fields_of, is_grpc};
pub use status::Code;
pub(crate) use status::Status;
