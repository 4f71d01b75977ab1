//! Processes that do not outlive this one.
//!
//! Between `fork` and `exec` only a program of ours can act without `unsafe`, so a child
//! starts as this tool again, under a hidden subcommand, and becomes the program asked
//! for once it has arranged its end:
//!
//! ```text
//!  wallfinder ──spawn──► wallfinder __child --parent PID --cpus 0,1 -- nginx -c …
//!                          prctl(PR_SET_PDEATHSIG), is the parent still PID?
//!                          cgroup.procs, setns, sched_setaffinity ──exec──► nginx -c …   (same pid, own group)
//! ```
//!
//! The kernel's death signal reaches the child, not its children, and it is sent when the
//! *thread* that forked ends. So all children are forked by one thread that never ends,
//! and a keeper — one more process of ours, which notices the end of its pipe — kills
//! whatever is left of their groups. A process that leaves its group (`setsid`, a daemon)
//! escapes: subjects and drivers run in the foreground.

mod capture;
mod enter;
mod helper;
mod keeper;
mod spawn;
mod version;

pub use enter::{EnterError, enter};
pub(crate) use helper::Helper;
pub(crate) use keeper::keep_journal;
pub(crate) use spawn::{Child, ChildSpec, Keep};
pub use spawn::{Ended, Place, Shim, SpawnError};
pub(crate) use version::version;

/// Set between the start of a child and its becoming the program.
const BETWEEN_VARIABLE: &str = "WALLFINDER_CHILD";

/// The hidden subcommand behind which the tool calls [`enter`].
pub const SUBCOMMAND: &str = "__child";
