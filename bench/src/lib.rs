//! Wallfinder's engine side by side with its peers, and against a client that does nothing.
//!
//! What it is: a harness that lets load generators take turns at the same server and
//! compares what a request costs each of them. What it is not: a test (a missed target is
//! printed and fails nothing), nor a part of the tool.
//!
//! ```text
//!   scenario ─► subject (server, CPU 0) ◄──── contestants in turn (CPU 1), in random order
//!                   │ schedstat                   │ report on stdout, getrusage when reaped
//!                   └──────────► race: rounds ◄───┘
//!                                  │
//!                 statistics: ratios paired by round ─► results: table, JSON, targets
//! ```
//!
//! `README.md` beside this crate says what is counted and what is not.

#![forbid(unsafe_code)]

pub mod child;
pub mod clock;
pub mod contestants;
pub mod learn;
pub mod noise;
pub mod null_client;
pub mod null_http2;
pub mod open_loop;
pub mod ours;
pub mod outputs;
pub mod race;
pub mod results;
pub mod scenario;
pub mod statistics;
pub mod subject;
