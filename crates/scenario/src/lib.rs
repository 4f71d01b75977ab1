//! Scenario files, and what is decided about loads before any is made.
//!
//! ```text
//!  file ─► Scenario ─► check ─► loads of a ramp, of a comparison, of a search for the ceiling
//!                        │
//!                        └─► Changes, what-if, lift: one scenario becomes another
//! ```
//!
//! Everything is a function of a [`Scenario`](wallfinder_model::Scenario) and of what was measured, and
//! tried without a process. What it is not: the testbed, which is `cli`'s, nor the verdict, which is the
//! judge's.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

pub mod change;
pub mod check;
mod error;
pub mod file;
pub mod lift;
pub mod loads;
pub mod what_if;

pub use check::{Fault, is_at_hub, is_pattern, is_several, named_once};
pub use error::FileError;
pub use file::ScenarioFile;
