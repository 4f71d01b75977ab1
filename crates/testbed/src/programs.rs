//! Where programs are found that a user names: subjects, drivers, and what comes with the tool.
//!
//! ```text
//!  a path, ./server or /opt/x     that file: the user gave it
//!  knownwall, echo-client         1. the folder that WALLFINDER_SUBJECTS names
//!                                 2. where the tool is installed: beside it, in PREFIX/libexec/wallfinder,
//!                                    in the build tree that it stands in
//!                                 3. PATH
//!  nats-server                    the same
//!  any other name                 PATH; drivers then beside the tool's benchmarks
//! ```
//!
//! Nothing is taken from the current folder or from those above it. What is found by 1 and 2 is
//! run as root only where nobody else could have put it there ([`crate::trust`]).

use std::env;
use std::path::{Path, PathBuf};

use wallfinder_sys::programs::{is_executable, on_path, passed_over};

use crate::command::{CommandError, SUBJECTS_VARIABLE};
use crate::trust::trusted;

/// The load generator that comes with the tool, and is built with its subjects.
pub const ECHO_CLIENT: &str = "echo-client";
/// The server of messages that comes with the tool: what agents of a fleet and their controller meet at.
pub const NATS_SERVER: &str = "nats-server";
/// Names of the subjects that come with the tool.
pub const BUILT_IN: &[&str] = &[
    "catalogue",
    "content",
    "echo",
    "echo-rs",
    "knownwall",
    ECHO_CLIENT,
];

/// A program's file, and whether it is a subject of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// Its name, if it came with the tool.
    pub built_in: Option<String>,
}

/// Finds the program of a subject. `small20k/echo` is a built-in one that was built otherwise, in a
/// folder beside the others.
pub fn find_subject(program: &str) -> Result<Program, CommandError> {
    find_subject_in(program, &subject_folders())
}

fn find_subject_in(program: &str, folders: &[PathBuf]) -> Result<Program, CommandError> {
    let (variant, name) = match program.split_once('/') {
        Some((variant, name)) => (Some(variant), name),
        None => (None, program),
    };
    if BUILT_IN.contains(&name) && variant.is_none_or(is_name) {
        let found = match first_in(folders, program)? {
            // `echo` on PATH is a program of the system, and no server.
            None if name != "echo" => on_path(program),
            found => found,
        };
        match found {
            Some(path) => {
                return Ok(Program {
                    path,
                    built_in: Some(name.to_owned()),
                });
            }
            None if variant.is_none() => {
                return Err(CommandError::NotBuilt {
                    name: name.to_owned(),
                    looked_in: folders.to_vec(),
                });
            }
            // A path that the user gave.
            None => {}
        }
    }
    Ok(Program {
        path: find(program)?,
        built_in: None,
    })
}

/// Finds a program that comes with the tool and is no subject: where subjects stand, or on PATH.
pub fn find_bundled(program: &str) -> Result<PathBuf, CommandError> {
    let folders = subject_folders();
    match first_in(&folders, program)?.or_else(|| on_path(program)) {
        Some(path) => Ok(path),
        None => Err(CommandError::NotBuilt {
            name: program.to_owned(),
            looked_in: folders,
        }),
    }
}

/// Whether it can only be the name of a folder: not `.`, and not the root.
fn is_name(folder: &str) -> bool {
    !folder.is_empty()
        && folder
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '-')
}

/// Finds a program by its path if it has a slash, else on PATH.
pub fn find(program: &str) -> Result<PathBuf, CommandError> {
    if !program.contains('/') {
        return on_path(program).ok_or_else(|| not_found(program));
    }
    let path = PathBuf::from(program);
    match path.metadata() {
        Ok(_) if is_executable(&path) => Ok(path),
        Ok(_) => Err(CommandError::NotExecutable { path }),
        Err(_) => Err(not_found(program)),
    }
}

/// Finds a load generator: one that comes with the tool as [`find_subject`] does, `small20k/echo-client` too; any
/// other as [`find`] does, and then among the peers of the build tree's benchmarks.
pub fn find_driver(program: &str) -> Result<PathBuf, CommandError> {
    find_driver_in(program, &subject_folders())
}

fn find_driver_in(program: &str, subjects: &[PathBuf]) -> Result<PathBuf, CommandError> {
    let name = program.split_once('/').map_or(program, |(_, name)| name);
    if name == ECHO_CLIENT {
        return find_subject_in(program, subjects).map(|found| found.path);
    }
    match find(program) {
        Err(CommandError::NotFound { .. }) if !program.contains('/') => {
            let folders: Vec<PathBuf> = build_tree().map_or(Vec::new(), |root| {
                let within = ["bench/node_modules/.bin", "bench/.peers/bin"];
                within.map(|part| root.join(part)).to_vec()
            });
            first_in(&folders, program)?.ok_or_else(|| not_found(program))
        }
        found => found,
    }
}

fn not_found(program: &str) -> CommandError {
    CommandError::NotFound {
        program: program.to_owned(),
        passed_over: passed_over(),
    }
}

/// The first of these folders that has it, if root may run what stands there.
fn first_in(folders: &[PathBuf], program: &str) -> Result<Option<PathBuf>, CommandError> {
    let mut files = folders.iter().map(|folder| folder.join(program));
    match files.find(|file| is_executable(file)) {
        Some(file) => trusted(&file)
            .map(|_| Some(absolute(&file)))
            .map_err(CommandError::Untrusted),
        None => Ok(None),
    }
}

fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}

/// Where programs that come with the tool may stand, first come, first served.
fn subject_folders() -> Vec<PathBuf> {
    let named = env::var_os(SUBJECTS_VARIABLE).filter(|value| !value.is_empty());
    let mut folders: Vec<PathBuf> = named.map(PathBuf::from).into_iter().collect();
    let executable = env::current_exe().unwrap_or_default();
    if let Some(beside) = executable.parent() {
        folders.push(beside.to_owned());
        if beside.ends_with("bin") {
            folders.extend(
                beside
                    .parent()
                    .map(|prefix| prefix.join("libexec/wallfinder")),
            );
        }
    }
    folders.extend(build_tree().map(|root| root.join("bin")));
    folders.dedup();
    folders
}

/// The source tree that this binary was built in: where it stands in `target/`, and the folder
/// around that has what is built.
fn build_tree() -> Option<PathBuf> {
    let executable = env::current_exe().ok()?;
    build_tree_of(&executable)
}

fn build_tree_of(executable: &Path) -> Option<PathBuf> {
    let target = executable.ancestors().find(|at| at.ends_with("target"))?;
    let root = target.parent()?;
    let is_ours = root.join("subjects").is_dir() && root.join("crates").is_dir();
    is_ours.then(|| root.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn program_at(path: &Path) -> PathBuf {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        path.to_owned()
    }

    #[test]
    fn programs_are_found_or_the_way_out_is_named() {
        assert!(find("sh").expect("a shell").is_absolute());
        assert!(find_driver("sh").expect("a shell").is_absolute());
        assert!(matches!(
            find("no-such-program"),
            Err(CommandError::NotFound { .. })
        ));
        assert!(matches!(
            find_driver("no-such-generator"),
            Err(CommandError::NotFound { .. })
        ));
        assert!(matches!(
            find("/dev/null"),
            Err(CommandError::NotExecutable { .. })
        ));
        let error = find_subject_in("echo", &["/nowhere".into()]).expect_err("not built");
        let words = error.to_string();
        assert!(
            words.contains("make subjects") && words.contains("/nowhere"),
            "{words}"
        );
    }

    #[test]
    fn what_comes_with_the_tool_is_found_in_its_folders_by_name_or_by_variant() {
        let top = env::temp_dir().join(format!("wf-programs-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        let plain = program_at(&top.join("bin/echo"));
        let small = program_at(&top.join("bin/small20k/echo"));
        program_at(&top.join("bin/other"));
        let folders = [top.join("bin")];
        let found = |program: &str| find_subject_in(program, &folders);
        let ours = |path: &Path| Program {
            path: path.to_owned(),
            built_in: Some("echo".into()),
        };
        assert_eq!(found("echo"), Ok(ours(&plain)));
        assert_eq!(found("small20k/echo"), Ok(ours(&small)));
        let client = program_at(&top.join("bin/small20k/echo-client"));
        let driver = |program: &str| find_driver_in(program, &folders);
        assert_eq!(driver("small20k/echo-client"), Ok(client.clone()));
        assert_eq!(driver(client.to_str().unwrap()), Ok(client));
        assert!(driver("no-such/echo-client").is_err());
        // Neither a name of ours nor a way out of the folder.
        for other in [
            "other",
            "../bin/echo",
            "./echo",
            "no-such/echo",
            "x/../echo",
        ] {
            assert!(found(other).is_err(), "{other}");
        }
        assert_eq!(found("sh").unwrap().built_in, None);
        fs::remove_dir_all(&top).unwrap();
    }

    #[test]
    fn a_build_tree_is_told_by_where_the_tool_stands_alone() {
        let top = env::temp_dir().join(format!("wf-tree-{}", std::process::id()));
        let _ = fs::remove_dir_all(&top);
        for folder in ["subjects", "crates", "bin", "target/debug/deps"] {
            fs::create_dir_all(top.join(folder)).unwrap();
        }
        for built in [
            "target/debug/wallfinder",
            "target/debug/deps/test-1",
            "target/x/release/w",
        ] {
            assert_eq!(
                build_tree_of(&top.join(built)),
                Some(top.clone()),
                "{built}"
            );
        }
        for elsewhere in ["wallfinder", "bin/wallfinder", "a/b/wallfinder"] {
            assert_eq!(build_tree_of(&top.join(elsewhere)), None, "{elsewhere}");
        }
        fs::remove_dir(top.join("crates")).unwrap();
        assert_eq!(build_tree_of(&top.join("target/debug/wallfinder")), None);
        fs::remove_dir_all(&top).unwrap();
    }
}
