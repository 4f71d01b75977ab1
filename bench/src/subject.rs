//! The server under all contestants: the catalogue that ships with Wallfinder.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::child;

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Subject {
    child: Child,
    /// Where it runs.
    pub cpu: u32,
    /// Where it listens.
    pub address: SocketAddr,
    /// What it says of itself.
    pub announcement: Value,
}

impl Subject {
    /// Starts `catalogue --server fiber` on a free port of loopback, on one processor.
    pub fn start(root: &Path, cpu: u32) -> Result<Subject, String> {
        let binary = build(root)?;
        let mut command = Command::new(binary);
        command
            .args(["--server", "fiber", "--port", "0"])
            // Ends with the thread that starts it, so nothing is left behind.
            .env("WALLFINDER_SUBJECT", "1")
            .env("GOMAXPROCS", "1")
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut child = child::start_pinned(&mut command, Some(cpu))
            .map_err(|error| format!("the catalogue cannot be started: {error}"))?;
        let mut line = String::new();
        let stdout = child.stdout.take().ok_or("no pipe from the catalogue")?;
        let read = BufReader::new(stdout).read_line(&mut line);
        let announcement = match read {
            Ok(_) => serde_json::from_str(&line).unwrap_or(Value::Null),
            Err(_) => Value::Null,
        };
        let address = announcement["listening"]
            .as_str()
            .and_then(|text| text.parse().ok());
        let Some(address) = address else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(format!(
                "the catalogue did not say where it listens: `{line}`"
            ));
        };
        Ok(Subject {
            child,
            cpu,
            address,
            announcement,
        })
    }

    /// CPU time it has used so far.
    pub fn cpu_seconds(&self) -> Result<f64, String> {
        child::run_seconds(self.child.id()).map_err(|error| format!("the catalogue: {error}"))
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `bin/catalogue`, built if it is not there.
fn build(root: &Path) -> Result<PathBuf, String> {
    let binary = root.join("bin/catalogue");
    if binary.exists() {
        return Ok(binary);
    }
    eprintln!("building {}", binary.display());
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&binary)
        .arg("./cmd/catalogue")
        .current_dir(root.join("subjects/go"))
        .status()
        .map_err(|error| {
            format!(
                "go cannot be run, and {} is missing: {error}",
                binary.display()
            )
        })?;
    match status.success() {
        true => Ok(binary),
        false => Err("the catalogue does not build".into()),
    }
}
