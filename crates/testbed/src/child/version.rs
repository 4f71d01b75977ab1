//! Asking a program for its version.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{Child, ChildSpec, Keep, Place, RunAs, Shim};

/// The first line that a program answers to its version flag, if it answers in time.
pub(crate) fn version(
    shim: &Shim,
    program: &Path,
    args: &[String],
    env: &[(String, String)],
    run_as: &RunAs,
    limit: Duration,
) -> Option<String> {
    let mut child = Child::start(ChildSpec {
        shim,
        program,
        args,
        env,
        cpus: &[],
        place: &Place::default(),
        run_as,
        stdin: None,
        stdout: Keep::Head(4 << 10),
        stderr: Keep::Head(4 << 10),
    })
    .ok()?;
    let since = Instant::now();
    while child.exited().is_none() && since.elapsed() < limit {
        std::thread::sleep(Duration::from_millis(2));
    }
    let ended = child.exited();
    child.stop(Duration::ZERO);
    // wrk ends its version with an exit code of 1.
    ended?;
    let (stdout, stderr) = (child.stdout.text(), child.stderr.text());
    let mut lines = stdout.lines().chain(stderr.lines()).map(str::trim);
    lines
        .find(|line| line.chars().any(|c| c.is_ascii_digit()))
        .map(|line| line.chars().take(120).collect())
}
