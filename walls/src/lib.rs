//! The labelled suite: servers whose wall is dialled in or imposed by their settings,
//! `wallfinder find` on each, and a score. What each scenario is, and why its label holds, is in `docs/labelled-suite.md`.
//!
//! ```text
//!  suite ─► Scenario ─► find ─► Found ─► score ─► table, JSON, exit code
//!  (data)      │         │      (read from its JSON)
//!              │         └─ a child, with a time limit; a neighbour beside it
//!              └─ lift: the same again without its wall, for the next one
//! ```
//!
//! The runner shares nothing with the tool but the record's shape: what it marks is what a
//! user would have seen.

#![forbid(unsafe_code)]

pub mod again;
pub mod alone;
pub mod beside;
pub mod catalogue;
pub mod clients;
pub mod costs;
pub mod elsewhere;
pub mod find;
pub mod found;
pub mod held;
pub mod http2;
pub mod ordinary;
pub mod restless;
pub mod results;
pub mod routes;
pub mod scenario;
pub mod score;
pub mod servers;
pub mod suite;
pub mod table;
