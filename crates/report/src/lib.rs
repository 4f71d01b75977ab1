//! A record becomes something to read: terminal text, one JSON document, CSV, one HTML file.
//!
//! ```text
//!                 ┌─► text   run, ramp, find, ab, claims, progress lines, the live frame
//!  Record ──►  ───┼─► json   the document, and the schema it obeys
//!                 ├─► csv    a row for each step, a row for each interval
//!                 └─► html   one self-contained file
//! ```
//!
//! It is not the judge: nothing is concluded here. Quantities that follow from a step by
//! a division stand in [`figures`], sentences of verdicts and doubts in [`said`]. It does no I/O: every
//! function takes values and returns a `String`; writing, colours' on and off, and the
//! terminal's control sequences are the caller's.
//!
//! Invariants: no record makes it panic, whatever its numbers or labels; a value that is
//! not known is shown as not known, never as 0; strings of a record never reach a
//! terminal as control characters, nor a page as markup.

mod cells;
mod clients;
pub mod compared;
mod counted;
pub mod csv;
pub mod doubt;
pub mod figures;
mod flames;
mod grouped;
pub mod html;
pub mod json;
pub mod look;
pub mod number;
pub mod percentiles;
mod profiled;
mod requests;
pub mod safe;
pub mod said;
mod sized;
pub mod squeezed;
pub mod text;
pub mod words;

pub use look::Look;
