//! What a host, a process, a link and its sockets do during a step.
//!
//! The probe looks and never touches: it reads `/proc`, `/sys`, netlink, control groups and
//! packets, needs no privilege, sees more with it, and says what it could not see. It does not
//! judge; it fills the shapes of `wallfinder_model::telemetry` and `wallfinder_model::environment`.
//!
//! ```text
//! discover     who serves an address, with its family of processes        → Family, or why not
//! environment  the fingerprint of the machine                             → Environment
//! cores        which processors are threads of one core                   → Cores
//! sample       a thread that reads cumulative counters, tick by tick      → Series → Telemetry, caveats
//! sockets      sock_diag: the kernel's chronographs of a port's sockets   → SocketsSummary
//! overhear     what somebody else's exchanges weigh, from packets             → Weight
//! online       which processors are online                                → their numbers
//! profiles     profiles of a process that offers them over HTTP    → bytes as they are written
//! stacks       sampled stacks of any process, with names           → Profile
//! waits        where threads of any process wait, with names       → Profile
//! calls        system calls of any process, by name                → SystemCall
//! reference loop    how fast the processors are at this moment              → CPU time of a piece of work
//! counters     events that processors and the kernel count         → EventCount
//! parse        bytes to numbers; pure
//! ```
//!
//! Invariants: counters are kept cumulative and subtracted only at the end, so that a late tick
//! loses nothing; everything is bounded (processes, threads, sockets, readings); the instrument
//! reports its own cost.

pub mod calls;
pub mod cores;
pub mod counters;
pub mod discover;
pub mod environment;
pub mod online;
pub mod overhear;
pub mod parse;
pub mod profiles;
pub mod reference_loop;
pub mod sample;
pub mod sockets;
pub mod stacks;
pub mod waits;

mod groups;
mod link;
mod netlink;
mod netns;
mod procfile;
mod rings;
mod symbols;

pub use discover::{Family, NotSeen, family_of, family_of_self, server_of};
pub use environment::fingerprint;
pub use sample::{Sampler, Series, Setup};
