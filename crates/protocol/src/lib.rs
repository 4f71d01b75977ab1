//! What a controller and the agent of another host say to each other.
//!
//! ```text
//!  controller                                             agent
//!  Request { number, epoch, ask } ──frame──► Frames ─► Terms::admit ─► what it does ─┐
//!  Said: Reply { number, answer } ◄──frame──────────────────────────────────────────┤
//!        News of a load           ◄──frame── its engine ◄───────────────────────────┘
//! ```
//!
//! The same messages go over any channel that carries bytes in order. A controller asks for one of a fixed
//! set of verbs ([`Ask`]); none of them runs a command. What may be asked for is the agent's own word ([`Grant`]).
//! What was squeezed stays so, and a load goes on, only while the controller goes on asking ([`Terms`]).
//!
//! Everything is a function of bytes and of time that is handed in. What it is not: the channel, nor what a host does
//! when asked (`wallfinder-hosts`).

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types
    )
)]

pub mod clock;
mod frames;
mod load;
mod messages;
pub mod stream;
mod terms;

pub use frames::{FRAME_BYTES_MAX, FrameError, Frames, GREETING, Greeting, frame};
pub use load::LoadOrder;
pub use messages::{
    Answer, Ask, Check, Family, Found, Hello, LeverAt, LeversOrder, Named, News, ProcessTime,
    ProcessTimes, Refusal, Reply, Request, Role, Said, Side, Stacks, WayOut, Welcome,
};
pub use terms::{AWAY_MAX, Grant, LEASE, Terms};

/// Version of everything here. Both ends say theirs, and only the same talk.
pub const VERSION: u32 = 6;
