//! Apparatus of the black-box tests: the real binary run as a user runs it, servers that
//! behave as a script says, and the facts of processes as `/proc` has them.
//!
//! What it is not: a second implementation of anything. It reads records as plain JSON, so
//! that a test sees what a script of a user would see.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

mod binary;
mod double;
mod place;
mod processes;
mod record;
mod served;
mod traces;
mod turns;

pub use binary::{Ran, Running, binary, subjects};
pub use double::{Conversation, Double, Seen, free_port};
pub use place::{Place, json_at};
pub use processes::{alive, comm, descendants, end_soon, listens_on, own_ip, until};
pub use record::{assert_balanced, ratio_of, squeezed, stolen, until_prompt};
pub use served::Served;
pub use traces::{network, processes_with, stopped, things_of_ours};
pub use turns::{Turn, alone, busily, quietly, together};
pub use wallfinder_skip::skip;

/// What the subject `echo` speaks over gRPC.
pub const ECHO_PROTO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../subjects/go/echo/payload/echo.proto"
);

/// Where control groups with quotas are made here, of version 1 or of version 2 where the controller is
/// handed on.
pub fn quotas() -> Option<&'static Path> {
    let one = Path::new("/sys/fs/cgroup/cpu");
    if one.join("cgroup.procs").exists() {
        return Some(one);
    }
    let two = Path::new("/sys/fs/cgroup");
    let handed_on = fs::read_to_string(two.join("cgroup.subtree_control")).unwrap_or_default();
    let has_cpu = handed_on.split_whitespace().any(|name| name == "cpu");
    has_cpu.then_some(two)
}

/// Whether a subject can be given a quota here; says why not.
pub fn may_set_quotas() -> bool {
    let may = rustix::process::geteuid().is_root() && quotas().is_some();
    if !may {
        skip("it needs root, and control groups with the cpu controller");
    }
    may
}

/// Whether links and quotas can be made here; says why not.
pub fn has_apparatus() -> bool {
    let has = may_set_quotas() && program("ip").is_some() && program("tc").is_some();
    if !has {
        skip("it needs root, ip and tc, and control groups with the cpu controller");
    }
    has
}

/// Where a program is on the search path.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}
