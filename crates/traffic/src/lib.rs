//! What users send: traffic files, the data that fills them in, and what becomes of both.
//!
//! ```text
//!   traffic file, list of URLs ──► Traffic ──┐
//!   HAR, access log, curl, OpenAPI ─► import ┘   compile ──► wire::mix::Mix: constant pieces and slots
//!   HAR, access log ─► replay ───────────────────────────►
//! ```
//!
//! Everything is decided here before a load: places are resolved to columns and variables, values checked for where
//! they stand, patterns and pointers parsed. What it is not: it opens no file and no socket; what it needs of the
//! outside it asks of a [`World`].

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

mod calls;
mod compile;
mod data;
mod expect;
mod file;
pub mod import;
mod multipart;
mod replay;
mod slots;

pub use compile::{Around, Compiled, Once, Origin, Refresh, World, compile};
pub use data::DATA_BYTES_MAX;
pub use file::{TRAFFIC_BYTES_MAX, TrafficFile, of_urls};
