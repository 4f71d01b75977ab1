//! The server under all contestants: one that ships with Wallfinder, or nghttp2's.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::child::{self, Held};
use crate::contestants::Tools;
use crate::scenario::Speaks;

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Subject {
    process: Held,
    /// Where it runs.
    pub cpu: u32,
    /// Where it listens.
    pub address: SocketAddr,
    /// What it says of itself.
    pub announcement: Value,
}

impl Subject {
    /// Starts the server of a protocol on a free port of loopback, on one processor.
    pub fn start(root: &Path, cpu: u32, speaks: Speaks, tools: &Tools) -> Result<Subject, String> {
        match speaks {
            Speaks::Http1 => announced(root, "catalogue", &["--server", "fiber"], cpu),
            Speaks::Https => announced(root, "catalogue", &["--server", "fiber", "--tls"], cpu),
            Speaks::Http2Tls => {
                announced(root, "catalogue", &["--server", "nethttp", "--tls"], cpu)
            }
            Speaks::Grpc => announced(root, "echo", &["--protocol", "grpc"], cpu),
            Speaks::Framed => announced(root, "echo", &["--protocol", "tcp"], cpu),
            Speaks::Http2 => nghttpd(root, cpu, tools),
        }
    }

    /// CPU time it has used so far.
    pub fn cpu_seconds(&self) -> Result<f64, String> {
        child::run_seconds(self.process.id()).map_err(|error| format!("the server: {error}"))
    }
}

/// A subject of ours, which says where it listens.
fn announced(root: &Path, name: &str, flags: &[&str], cpu: u32) -> Result<Subject, String> {
    let binary = build(root, name)?;
    let mut command = Command::new(binary);
    command
        .args(flags)
        .args(["--port", "0"])
        // Ends with the thread that starts it, so nothing is left behind.
        .env("WALLFINDER_SUBJECT", "1")
        .env("GOMAXPROCS", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut child = child::start_pinned(&mut command, Some(cpu))
        .map_err(|error| format!("{name} cannot be started: {error}"))?;
    let mut line = String::new();
    let stdout = child.stdout.take().ok_or("no pipe from the subject")?;
    let read = BufReader::new(stdout).read_line(&mut line);
    let announcement = match read {
        Ok(_) => serde_json::from_str(&line).unwrap_or(Value::Null),
        Err(_) => Value::Null,
    };
    let address = announcement["listening"]
        .as_str()
        .and_then(|text| text.parse().ok());
    let process = Held::killed(child);
    let Some(address) = address else {
        return Err(format!("{name} did not say where it listens: `{line}`"));
    };
    Ok(Subject {
        process,
        cpu,
        address,
        announcement,
    })
}

/// nghttp2's server with one thread, on files of ours.
fn nghttpd(root: &Path, cpu: u32, tools: &Tools) -> Result<Subject, String> {
    const LISTENS_WITHIN: Duration = Duration::from_secs(5);
    let binary = tools.find("nghttpd")?;
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.map_err(|error| format!("no free port: {error}"))?;
    // It does not end with who started it by itself. util-linux's wrapper becomes the server.
    let mut command = Command::new(tools.find("setpriv")?);
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(&binary)
        .args(["--no-tls", "-n1", "-a", "127.0.0.1", "-d"])
        .arg(root.join("bench/served"))
        .arg(address.port().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    let child = child::start_pinned(&mut command, Some(cpu))
        .map_err(|error| format!("{}: {error}", binary.display()))?;
    let mut subject = Subject {
        process: Held::killed(child),
        cpu,
        address,
        announcement: json!({"server": "nghttpd", "version": version(&binary)}),
    };
    let until = Instant::now() + LISTENS_WITHIN;
    while TcpStream::connect(address).is_err() {
        if subject.process.has_ended() || Instant::now() > until {
            return Err("nghttpd does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(subject)
}

fn version(binary: &Path) -> Option<String> {
    let output = Command::new(binary).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text.lines().next()?.trim().to_owned())
}

/// A subject's binary in `bin`, built if it is not there.
fn build(root: &Path, name: &str) -> Result<PathBuf, String> {
    let binary = root.join("bin").join(name);
    if binary.exists() {
        return Ok(binary);
    }
    eprintln!("building {}", binary.display());
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&binary)
        .arg(format!("./cmd/{name}"))
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
        false => Err(format!("{name} does not build")),
    }
}
