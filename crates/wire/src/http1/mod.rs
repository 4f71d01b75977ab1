//! HTTP/1.1 and 1.0: the client's end of one connection.
//!
//! What it is: a request that is encoded once, and a reader that frames and checks
//! every answer to it (RFC 9112, in full: no answer's length is guessed from another's).
//! What it is not: an HTTP library. One worker sends one request over and over, or those of a mix; nobody
//! wants to see a field or a body, only whether the answer was whole, unless a mix looks into it.
//!
//! ```text
//!   Request ──encode──► Shared { block: GET … GET … GET … , memo, anomalies }
//!                          │                        one for each worker
//!        ┌─────────────────┴───────────────┐
//!   Http1: Sending (what is unsent)   Head ─► Body ─► Answered      one for each
//!       or Asked (what is filled in)   │ ▲      │                   connection
//!                                      └─┘1xx   └─► Broken
//! ```
//!
//! Invariants:
//!
//! * Requests are answered in the order of their issue: slots form a ring.
//! * A head is judged only when it is whole, so that its class is a function of its
//!   bytes and not of how they were split. The one exception, the first 13 bytes of the
//!   status line, is judged byte by byte: a peer that speaks another protocol is told
//!   apart at once.
//! * The memo of heads changes no outcome: it remembers what parsing gave for exactly
//!   these bytes.
//! * An answer to a request of which no byte had been offered to the socket is
//!   unsolicited. What [`Wire::poll_transmit`](crate::Wire::poll_transmit) gave counts
//!   as offered before `handle_sent` confirms it, since a completion may be learnt of
//!   after the answer.
//!
//! # Where the standard leaves a choice
//!
//! | seen | done |
//! |---|---|
//! | a line of the head that ends with LF alone | accepted, counted |
//! | a chunk line or trailer that ends with LF alone | `h1.chunk` |
//! | bare CR, NUL, other controls, folded lines, space before the colon | `h1.head` |
//! | an empty line before the status line | `h1.status`: bytes of no answer |
//! | no space after a status code without reason | accepted |
//! | a status below 100, or a version other than 1.0 and 1.1 | `h1.status` |
//! | a status of 600 to 999 | an answer, counted |
//! | equal lengths, in one field (`5, 5`) or several | accepted, counted |
//! | a bad length on an answer that needs none (HEAD, 304, chunked) | `h1.length` |
//! | `Transfer-Encoding` beside a length | coding wins, counted, not reusable |
//! | `Transfer-Encoding` in a 1.0 answer | obeyed, counted, not reusable |
//! | `chunked` with parameters or twice, `identity`, unknown codings | `h1.framing` |
//! | `gzip`, `deflate` or `compress` as the last transfer coding | read to close, counted |
//! | content coded in a way that is not known or twice, where decoding is asked | `body.decode` |
//! | more coded bodies under way than a worker has decoders for | not decoded, counted |

mod anomalies;
mod chunked;
mod connection;
mod fields;
mod filled;
mod head;
mod memo;
mod options;
mod request;
mod shared;

pub use crate::request::{BadRequest, Request};
pub use anomalies::Anomalies;
pub use connection::Http1;
pub use filled::Ready;
pub use options::Options;
pub use shared::Shared;
