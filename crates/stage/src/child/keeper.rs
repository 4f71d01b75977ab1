//! The keeper: a process of ours that outlives us by a moment, to kill what is left.
//!
//! It reads process groups from its standard input, `+4711` when one starts and `-4711`
//! when it is gone, and `journal PATH` once for the journal of changes. The end of the input
//! is our end, whatever caused it: it kills the groups, and undoes what the journal holds.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

use super::spawn::ARG0;
use super::{BETWEEN_VARIABLE, SUBCOMMAND, Shim};
use crate::undo;

/// What stands before the path of the journal.
const JOURNAL: &str = "journal ";

/// The keeper's own life.
pub(super) fn keep() {
    // Out of the terminal's reach: its signals are for those who work.
    let _ = rustix::process::setsid();
    let mut groups = BTreeSet::new();
    let mut journal = None;
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let pid = |text: &str| text.parse().ok().and_then(Pid::from_raw);
        if let Some(group) = line.strip_prefix('+').and_then(pid) {
            groups.insert(group.as_raw_pid());
        } else if let Some(group) = line.strip_prefix('-').and_then(pid) {
            groups.remove(&group.as_raw_pid());
        } else if let Some(path) = line.strip_prefix(JOURNAL) {
            journal = Some(PathBuf::from(path));
        }
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    if let Some(path) = journal {
        // What fails here stays in the journal, for `doctor --clean`.
        let _ = undo::undo_all_of(&path);
    }
}

/// Tells the keeper of a group that started; the first one starts the keeper.
pub(super) fn watch(shim: &Shim, group: Pid) {
    tell(Some(shim), &format!("+{}\n", group.as_raw_pid()));
}

/// Tells the keeper that a group is gone.
pub(super) fn forget(group: Pid) {
    tell(None, &format!("-{}\n", group.as_raw_pid()));
}

/// Tells the keeper where our changes are written down.
pub(crate) fn keep_journal(shim: &Shim, path: &Path) {
    // One path cannot hold what would end the line: it is made from numbers.
    tell(Some(shim), &format!("{JOURNAL}{}\n", path.display()));
}

/// Without a keeper the kernel's death signal still reaches each child itself.
fn tell(shim: Option<&Shim>, line: &str) {
    static KEEPER: OnceLock<Mutex<Option<ChildStdin>>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| Mutex::new(None));
    let mut keeper = keeper.lock().unwrap_or_else(PoisonError::into_inner);
    if let (None, Some(shim)) = (&*keeper, shim) {
        *keeper = start(shim).ok();
    }
    if let Some(stdin) = keeper.as_mut()
        && stdin.write_all(line.as_bytes()).is_err()
    {
        *keeper = None;
    }
}

fn start(shim: &Shim) -> io::Result<ChildStdin> {
    let mut child = Command::new(&shim.program)
        .arg0(ARG0)
        .args([SUBCOMMAND, "--keep"])
        .env(BETWEEN_VARIABLE, "1")
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .spawn()?;
    child
        .stdin
        .take()
        .ok_or_else(|| io::Error::other("no pipe"))
}
