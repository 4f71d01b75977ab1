//! A folder of its own for each test, in which the binary keeps its runs.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::binary::{Ran, Running, binary, subjects};

/// Longer than any command of these tests takes.
const LIMIT: Duration = Duration::from_secs(60);

/// A folder that is the working directory of commands; removed with it, unless the test
/// fails.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    commands: Cell<u32>,
}

impl Default for Place {
    fn default() -> Place {
        Place::new()
    }
}

impl Place {
    /// An empty one.
    pub fn new() -> Place {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let nth = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("wallfinder-test-{}-{nth}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a temporary folder");
        Place {
            path,
            commands: Cell::new(0),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file in it.
    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.join(name);
        fs::write(&path, bytes).expect("a file in a temporary folder");
        path
    }

    /// Runs the binary to its end.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Ran {
        self.start(args).wait(LIMIT)
    }

    /// Starts the binary.
    pub fn start(&self, args: &[&str]) -> Running {
        self.start_as(&[], args)
    }

    /// Starts the binary by way of another command, such as `unshare -n`.
    pub fn start_as(&self, wrapper: &[&str], args: &[&str]) -> Running {
        let mut words: Vec<PathBuf> = wrapper.iter().map(PathBuf::from).collect();
        words.push(binary());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(args);
        self.start_command(command)
    }

    /// Starts any command here.
    pub fn start_command(&self, mut command: Command) -> Running {
        let nth = self.commands.replace(self.commands.get() + 1);
        command.current_dir(&self.path);
        // What one test measures is not another's.
        command.env("XDG_CACHE_HOME", self.path.join("cache"));
        if let Some(folder) = subjects_quietly() {
            command.env("WALLFINDER_SUBJECTS", folder);
        }
        Running::start(command, &self.path, &format!("command-{nth}"))
    }

    /// Folders of all runs, oldest first.
    pub fn runs(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.path.join("runs")) else {
            return Vec::new();
        };
        let mut runs: Vec<PathBuf> = entries
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.is_dir() && !path.is_symlink())
            .collect();
        runs.sort();
        runs
    }

    /// Folder of the last run.
    #[track_caller]
    pub fn last_run(&self) -> PathBuf {
        self.runs().pop().expect("there is a run")
    }

    /// The sealed record of the last run.
    #[track_caller]
    pub fn record(&self) -> Value {
        self.record_of(&self.last_run())
    }

    /// The sealed record of a run.
    #[track_caller]
    pub fn record_of(&self, run: &Path) -> Value {
        let path = run.join("record.json");
        let text =
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The first step of the last run.
    #[track_caller]
    pub fn step(&self) -> Value {
        json_at(&self.record(), "/steps/0").clone()
    }
}

fn subjects_quietly() -> Option<PathBuf> {
    static FOUND: std::sync::OnceLock<Option<PathBuf>> = std::sync::OnceLock::new();
    FOUND.get_or_init(subjects).clone()
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("left for a look: {}", self.path.display());
        } else {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// A value inside a document by its JSON pointer.
#[track_caller]
pub fn json_at<'v>(value: &'v Value, pointer: &str) -> &'v Value {
    value
        .pointer(pointer)
        .unwrap_or_else(|| panic!("no {pointer} in {value:#}"))
}
