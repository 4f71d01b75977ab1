//! Apparatus of the black-box tests: the real binary run as a user runs it, servers that
//! behave as a script says, and the facts of processes as `/proc` has them.
//!
//! What it is not: a second implementation of anything. It reads records as plain JSON, so
//! that a test sees what a script of a user would see.

#![forbid(unsafe_code)]

mod binary;
mod dice;
mod double;
mod place;
mod processes;
mod record;
mod served;
mod traces;
mod turns;

pub use binary::{Ran, Running, binary, subjects};
pub use dice::Dice;
pub use double::{Conversation, Double, Seen, free_port};
pub use place::{Place, json_at};
pub use processes::{alive, descendants, end_soon, listens_on};
pub use record::{assert_balanced, ratio_of, squeezed, stolen};
pub use served::Served;
pub use traces::{network, processes_with, stopped, things_of_ours};
pub use turns::{Turn, alone, busily, together};

/// What the subject `echo` speaks over gRPC.
pub const ECHO_PROTO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../subjects/go/echo/payload/echo.proto"
);

/// Says why a test does nothing on this machine.
pub fn skip(why: &str) {
    println!("skipped: {why}");
}

/// Whether a subject can be given a quota here; says why not.
pub fn may_set_quotas() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let may = is_root && std::path::Path::new("/sys/fs/cgroup/cpu/cgroup.procs").exists();
    if !may {
        skip("it needs root, and version 1 of control groups");
    }
    may
}

/// Where a program is on the search path.
pub fn program(name: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
