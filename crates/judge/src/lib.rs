//! Estimators and verdicts: what a record says.
//!
//! Everything here is a function of its arguments. There is no file, socket, thread or
//! clock, so an old record can be judged again by a newer version, on any machine.
//!
//! ```text
//!            ┌─► identity, little, steady ──► caveats ─┐
//!  Step ──► ─┼─► cost ────────────────────────────────┼─► judge_step
//!            └─► histogram                             │        │
//!  [Step] ──────────────────────────────► ramp ◄───────┴────────┘ judge_among
//!  Step with an Experiment ─► proof::next (what to run), proof::what_if
//!  Verdict ─► require      Step ─► thresholds      (Record, Record) ─► compare
//!  the same cells, several times over ─► rounds ─► crossover
//!  what a profiler wrote ─► profile (who has the time, what waits for what)
//! ```
//!
//! `observed` names walls from telemetry and never says proved; [`proof`] judges windows in
//! which one resource at a time was squeezed. Neither squeezes: that is the conductor's work.
//!
//! Invariants: no record makes it panic, whatever its numbers; a value that is not finite
//! counts as not known; a doubt is stated, as a caveat or as less confidence.

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

pub mod bounds;
pub mod caveats;
pub mod clients;
pub mod compare;
pub mod cost;
pub mod crossover;
#[cfg(test)]
mod double;
mod finite;
pub mod histogram;
pub mod identity;
pub mod little;
mod observed;
pub mod profile;
pub mod proof;
pub mod ramp;
pub mod require;
pub mod rounds;
pub mod routes;
pub mod samples;
pub mod segments;
pub mod steady;
mod step;
mod student;
pub mod thresholds;
pub mod unanswered;
mod way;

pub use step::{judge_among, judge_step};
