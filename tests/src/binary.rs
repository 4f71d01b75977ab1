//! The binary under test, started and waited for within a time limit.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace is above this crate")
}

/// `WALLFINDER_BIN`, else the release build of this workspace.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("WALLFINDER_BIN") {
        return path.into();
    }
    let targets = [
        Some(root().join("target")),
        std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from),
    ];
    let mut tried = targets
        .into_iter()
        .flatten()
        .map(|target| target.join("release/wallfinder"));
    tried.find(|path| path.is_file()).unwrap_or_else(|| {
        panic!("no binary: run `cargo build --release -p wallfinder`, or set WALLFINDER_BIN")
    })
}

/// The folder of the built-in subjects, where they have been built.
pub fn subjects() -> Option<PathBuf> {
    let folder =
        std::env::var_os("WALLFINDER_SUBJECTS").map_or_else(|| root().join("bin"), PathBuf::from);
    let built = folder.join("catalogue").is_file();
    if !built {
        crate::skip(
            "the catalogue is not built: (cd subjects/go && go build -o ../../bin/ ./cmd/...)",
        );
    }
    built.then_some(folder)
}

/// What a finished command left.
#[derive(Debug)]
pub struct Ran {
    /// Exit code; `None`: ended by a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
    /// From start to end.
    pub took: Duration,
}

impl Ran {
    /// Demands an exit code, and shows what was said where it is another one.
    #[track_caller]
    pub fn ends_with(self, code: i32) -> Ran {
        assert_eq!(
            self.code,
            Some(code),
            "exit code; stdout:\n{}\nstderr:\n{}",
            self.out,
            self.err
        );
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// Standard output as the one JSON document that it must be.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error} in standard output:\n{}", self.out))
    }

    /// Both outputs.
    pub fn said(&self) -> String {
        format!("{}{}", self.out, self.err)
    }
}

/// A command under way. Dropping it kills it.
#[derive(Debug)]
pub struct Running {
    child: Child,
    words: String,
    out: PathBuf,
    err: PathBuf,
    started: Instant,
}

impl Running {
    /// Starts a command with its output in files named after `label`, so that no pipe can
    /// fill and no orphan can keep one open.
    pub(crate) fn start(mut command: Command, folder: &Path, label: &str) -> Running {
        let (out, err) = (
            folder.join(format!("{label}.out")),
            folder.join(format!("{label}.err")),
        );
        let words = format!("{command:?}");
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(&out).expect("a file for output"))
            .stderr(File::create(&err).expect("a file for output"))
            .spawn()
            .unwrap_or_else(|error| panic!("{words}: {error}"));
        crate::traces::started(child.id());
        Running {
            child,
            words,
            out,
            err,
            started: Instant::now(),
        }
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal to it.
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a pid is not 0");
        kill_process(pid, signal).expect("the process is there");
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("it can be waited for")
            .is_none()
    }

    /// What it said on standard output so far.
    pub fn out(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    /// What it said on standard error so far.
    pub fn err(&self) -> String {
        fs::read_to_string(&self.err).unwrap_or_default()
    }

    /// Waits for its end; a command beyond `limit` hangs, which is a failure.
    #[track_caller]
    pub fn wait(mut self, limit: Duration) -> Ran {
        let until = Instant::now() + limit;
        while self.runs() {
            if Instant::now() > until {
                let _ = self.child.kill();
                panic!("hangs after {limit:?}: {}\n{}", self.words, self.err());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let status = self.child.wait().expect("it has ended");
        let text =
            |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        Ran {
            code: status.code(),
            out: text(&self.out),
            err: text(&self.err),
            took: self.started.elapsed(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
