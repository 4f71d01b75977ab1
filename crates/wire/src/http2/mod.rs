//! HTTP/2: the client's end of one connection (RFC 9113), with its header compression
//! ([`hpack`], RFC 7541).
//!
//! What it is: many requests at once over one connection, each answer framed, checked and
//! matched to its request. What it is not: an HTTP library. One worker sends one request
//! over and over; nobody wants to see a field or a body, only whether the answer was
//! whole. There is no server push, no priority, no CONNECT, no upgrade from HTTP/1.1: the
//! connection begins with the preface, by prior knowledge or because ALPN chose `h2`.
//!
//! ```text
//!   Request ─► Shared { header blocks, body, known fields, anomalies, fault }   one for
//!                 │                                                             each worker
//!   Http2:        │                                                       one for each
//!     bytes ─► frames ─► receive ─┬─► streams (slab by slot, found by id) ─► outcomes
//!                 │               ├─► hpack decoder ─► memo ─► fields
//!                 │               └─► settings, windows, pings, resets
//!     worker's buffer ◄─ transmit ◄─┴── lines of slots, counts of what is owed   connection
//! ```
//!
//! # How a worker uses it
//!
//! As it uses HTTP/1, with two differences. Bytes out are this connection's own, since
//! stream ids rise: where [`Wire::poll_transmit`](crate::Wire::poll_transmit) says
//! [`Transmit::Own`](crate::Transmit::Own), the worker gives [`Wire::write`](crate::Wire::write)
//! a buffer of at least [`Shared::write_bytes_min`] bytes and sends what was written, all of
//! it and in order. And one request may fail while the connection goes on
//! ([`Outcome::Failed`](crate::Outcome::Failed)).
//!
//! Requests may be issued once the peer's SETTINGS have come, so that its limit on streams
//! holds for the first one too; until then there is no room. That costs a new connection
//! one round trip, and makes a peer that speaks another protocol known before any request
//! is counted.
//!
//! Invariants:
//!
//! * A request is a slot, `0..in_flight_max`, from its issue to its one outcome. It has an
//!   id only once its HEADERS are written, so ids rise on the wire by two, without gaps.
//! * Nothing is kept of a body or of a field's text; nothing allocates after
//!   [`Wire::open`](crate::Wire::open) while header blocks come in one frame of up to 1 KiB
//!   or whole in one read.
//! * A GOAWAY fails what the peer did not take up as `h2.unprocessed`, at once, and never
//!   counts it as answered; what it did take up is still answered. Then comes
//!   [`Outcome::Over`](crate::Outcome::Over), or a last answer that is not `reusable`.
//! * After [`Outcome::Broken`](crate::Outcome::Broken) one GOAWAY is to be written, with
//!   the code of the standard, if the worker cares to tell the peer.
//! * The memo of header blocks changes no outcome.
//! * Where the worker's requests are calls of [`grpc`](crate::grpc), which is a value of
//!   [`Shared`], bodies are read as messages and trailers as a status; nothing else changes.
//!
//! # Where the standard leaves a choice
//!
//! | seen | done |
//! |---|---|
//! | a first frame that is not SETTINGS, or an end before it | `h2.preface` |
//! | a malformed head (RFC 9113, 8.1.1) | `h2.head`, the stream is reset, the connection goes on |
//! | a length that is none, differs, or is not the body's | `h2.length`, the same |
//! | white space at an end of a value | accepted, counted |
//! | equal lengths in several fields | accepted, counted |
//! | a header list above its limit | `h2.compression`, the connection ends |
//! | too many or too long CONTINUATIONs | `h2.head_flood`, the connection ends |
//! | frames of a stream that this end reset | ignored; its header blocks are decoded |
//! | frames of a stream that the peer ended or reset | `h2.stream_closed`, the connection ends |
//! | WINDOW_UPDATE or RST_STREAM of a stream that has ended | ignored, bounded |
//! | a whole answer before the whole request | an answer, counted; the rest is not sent |
//! | a table size of the peer below what the request needs | literals, no table |
//! | MAX_HEADER_LIST_SIZE of the peer | not heeded: the request is what was asked for |
//! | a padded or prioritised frame | accepted; padding counts against windows only |
//! | content coded in a way that is not known or twice, where decoding is asked | `body.decode`, the stream is reset |
//! | more coded bodies under way than a worker has decoders for | not decoded, counted |

mod anomalies;
mod answers;
mod connection;
mod contents;
mod fault;
mod fields;
mod filled;
mod flow;
mod frame;
mod frames;
pub mod hpack;
mod memo;
mod receive;
mod request;
mod settings;
mod shared;
mod streams;
mod transmit;

pub use anomalies::Anomalies;
pub use connection::Http2;
pub use fault::Fault;
pub use filled::Ready;
pub use frame::{ErrorCode, FrameKind};
pub(crate) use request::{pseudo_fields, user_fields};
pub use shared::{Options, REQUESTS_MAX, Shared};
