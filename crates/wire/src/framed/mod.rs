//! Messages that follow their length, on a plain stream: the client's end of one
//! connection.
//!
//! What it is: any private protocol of the shape *length, message*, loaded with one message
//! that is framed once, each answer framed and matched to its request. What it is not: a
//! decoder of messages; what stands in them is the peers' own business, but for an id.
//!
//! ```text
//!   Format ◄── "u32be,id=u64be@0"
//!   Request ──► Shared { block: frame frame frame … }        one for each worker
//!                 │
//!        ┌────────┴────────┐
//!     InTurn             ById                                one for each connection
//!     answers in order   answers by id, in any order
//!     (and Credit)
//!        └───── Reader ────┘
//! ```
//!
//! Invariants:
//!
//! * A length is checked as soon as it is whole and before anything is done with it; no
//!   length makes anything grow.
//! * An answer that no request waits for ends the connection (`frame.unmatched`); it never
//!   counts as the next one's.

mod by_id;
mod credit;
mod format;
mod in_turn;
mod reader;
mod shared;

pub use by_id::ById;
pub use format::{BadFormat, Format, IdField, Integer, MESSAGE_BYTES_MAX};
pub use in_turn::InTurn;
pub use shared::{BadRequest, Options, Request, Shared, encode};
