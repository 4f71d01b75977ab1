//! Processes that do not outlive this one.
//!
//! Between `fork` and `exec` only a program of ours can act without `unsafe`, so a child
//! starts as this tool again, under a hidden subcommand, and becomes the program asked
//! for once it has arranged its end:
//!
//! ```text
//!  wallfinder ──spawn──► wallfinder __child --guard …                       the child's parent, to its end
//!                          └─spawn──► wallfinder __child --parent GUARD --cpus 0,1 --user … -- nginx -c …
//!                                       cgroup.procs, setns, sched_setaffinity, setresuid
//!                                       prctl(PR_SET_PDEATHSIG), is the parent still GUARD?
//!                                       ──exec──► nginx -c …                    (same pid, own group)
//! ```
//!
//! Three things see to the end of it, whatever ends us:
//!
//! - the *guard* ([`guard`]) adopts what detaches itself from the child (`setsid`, a double fork), and
//!   kills all that is below it when its socket to us ends, or when the child does;
//! - the kernel's death signal kills the child with its guard. It is sent when the *thread* that
//!   forked ends, so guards are forked by one thread that never does;
//! - the *keeper* ([`keeper`]), one more process of ours, kills what is left of the groups when the
//!   end of its pipe says that we are gone.
//!
//! What is left where all of these were killed bears a tag in its environment ([`tree`]).

mod capture;
mod enter;
mod environment;
mod guard;
mod hearing;
mod helper;
mod keeper;
mod run_as;
mod spawn;
mod tree;
mod version;

pub use enter::{EnterError, enter};
pub(crate) use helper::Helper;
pub(crate) use keeper::keep_journal;
pub use keeper::{extend_lease, hold_lease};
pub use run_as::{PASSED, RunAs, RunAsError};
pub(crate) use spawn::{Child, ChildSpec, Keep};
pub use spawn::{Ended, Place, Shim, SpawnError};
pub use tree::{Stray, left_over};
pub(crate) use version::version;

/// Set between the start of a child and its becoming the program.
const BETWEEN_VARIABLE: &str = "WALLFINDER_CHILD";

/// The hidden subcommand behind which the tool calls [`enter`].
pub const SUBCOMMAND: &str = "__child";

/// What makes it a guard, before anything else.
const GUARD: &str = "--guard";
