//! The echo without a garbage collector: what the Go echo answers, over a plain stream,
//! HTTP/1.1 and gRPC, so that what Go's runtime and libraries add can be told.
//!
//! ```text
//!   acceptor (main) ─ deals connections out in turn ─► thread 0: one event loop     thread 1: …
//!                                                        ├ tcp    length, message
//!                                                        ├ rest   hyper
//!                                                        └ grpc   h2
//!                                                            └ payload ─► answer ─► payload
//! ```
//!
//! Invariants:
//! * A request that the Go echo answers is answered with the same message, but for the
//!   timestamp; one that it refuses is refused.
//! * Over a plain stream the system calls of a message are those of the Go echo: its length
//!   and the message are read apart, and the answer is one write.

#![forbid(unsafe_code)]

pub mod announce;
pub mod answer;
pub mod credit;
pub mod grpc;
pub mod options;
pub mod payload;
pub mod rest;
pub mod serve;
pub mod tcp;
