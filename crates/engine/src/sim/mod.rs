//! A worker without sockets, threads and time: joined in memory to a peer that follows a script, by a virtual clock.
//!
//! ```text
//!   Sim: a load, what is done when        Peer: what is answered, closed, refused, and after how long
//!     └─► Worker<W, SimIo> ── bytes ──► SimIo ── bytes ──► Peer
//!                          ◄─ events ──   │    ◄─ script ──
//!                                   clock in ns
//! ```
//!
//! Nothing takes time but what a script says, so that each instant is known exactly, and the same run gives the same
//! numbers. After each publication the identities of its counters are checked ([`world`]).

mod http1;
mod http2;
mod io;
mod peer;
mod tests;
mod world;
