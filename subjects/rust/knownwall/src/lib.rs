//! `knownwall`: an HTTP/1.1 server whose wall is dialled in, so that a tool that names walls
//! can be marked. What it is not: fast, or a server for anything else.
//!
//! ```text
//!            ┌ acceptor (main) ┐ deals connections out in turn
//!            ▼                 ▼
//!   worker 0: epoll ─► request ─► work ─► stations ─► answer        worker 1: …
//!                                  │         │
//!               CPU, locks, bursts ┘         └ timers: sleeps, permits, stages
//! ```
//!
//! Invariants:
//! * CPU work is a number of loop iterations, calibrated once against the CPU time of the
//!   thread: a slower processor makes it longer, and a CPU stealer does not shorten it.
//! * Timers run on intended instants: being woken late delays an answer and no other one.
//! * Answers on one connection leave in the order of their requests: all that can delay
//!   them is first come, first served.
//! * Whatever is drawn at random is drawn from `--seed`.

#![forbid(unsafe_code)]

pub mod announce;
pub mod background;
pub mod connection;
pub mod draws;
pub mod http;
pub mod options;
pub mod serve;
pub mod spin;
pub mod stations;
pub mod work;
pub mod worker;
