//! Programs by name: looked for on `PATH`, and never in the current folder.
//!
//! An empty or a relative entry of `PATH` means the current folder, which may be anybody's while
//! this process is root. Such entries are passed over, here and in what children are given.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The file of a program on `PATH`.
pub fn on_path(program: &str) -> Option<PathBuf> {
    on(&env::var_os("PATH")?, program)
}

fn on(path: &OsStr, program: &str) -> Option<PathBuf> {
    // A name, and no way out of the folder.
    if program.is_empty() || program.contains('/') {
        return None;
    }
    absolute(path)
        .map(|folder| folder.join(program))
        .find(|file| is_executable(file))
}

/// `PATH` without the entries that mean the current folder.
pub fn clean_path(path: &OsStr) -> OsString {
    // Entries that were split have no colon in them.
    env::join_paths(absolute(path)).unwrap_or_default()
}

/// Entries of `PATH` that are passed over, as they are written.
pub fn passed_over() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .filter(|folder| !folder.is_absolute())
        .collect()
}

fn absolute(path: &OsStr) -> impl Iterator<Item = PathBuf> {
    env::split_paths(path).filter(|folder| folder.is_absolute())
}

/// Whether it is a file that somebody may execute.
pub fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_that_mean_the_current_folder_are_passed_over() {
        for path in ["", ":", ".", "./bin:", "bin:../bin::."] {
            assert_eq!(on(path.as_ref(), "sh"), None, "{path:?}");
            assert_eq!(clean_path(path.as_ref()), "", "{path:?}");
        }
        let mixed = OsStr::new(":/nowhere:.:/bin:x");
        assert_eq!(on(mixed, "sh"), Some("/bin/sh".into()));
        assert_eq!(clean_path(mixed), "/nowhere:/bin");
        // A name that leads elsewhere is none.
        for name in ["../bin/sh", "/bin/sh", "./sh", ""] {
            assert_eq!(on(mixed, name), None, "{name}");
        }
    }
}
