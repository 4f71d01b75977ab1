//! A process that puts the apparatus up step by step, and can be killed after each.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

pub(crate) struct Steps {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Steps {
    pub(crate) fn begin(steps: &[&str]) -> Steps {
        let mut child = Command::new(super::helper_path())
            .arg("steps")
            .args(steps)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the helper");
        let stdout = child.stdout.take().expect("piped");
        let (said, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        Steps {
            stdin: child.stdin.take(),
            child,
            lines,
        }
    }

    /// Lets it take its next step without waiting for it.
    pub(crate) fn go(&mut self) {
        let stdin = self.stdin.as_mut().expect("not ended");
        stdin.write_all(b"\n").expect("it reads");
    }

    /// The facts of its next step; panics where it was not taken.
    pub(crate) fn next(&mut self) -> Vec<String> {
        self.try_next().unwrap_or_else(|why| panic!("{why}"))
    }

    pub(crate) fn try_next(&mut self) -> Result<Vec<String>, String> {
        self.go();
        let line = self.lines.recv_timeout(Duration::from_secs(30));
        let line = line.expect("an answer within 30 s");
        match line.strip_prefix("did ") {
            Some(facts) => Ok(facts.split(' ').skip(1).map(str::to_owned).collect()),
            None => Err(line),
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a pid");
        kill_process(pid, Signal::KILL).expect("killed");
        self.child.wait().expect("gone");
    }

    /// Lets it undo everything.
    pub(crate) fn end(mut self) {
        self.stdin = None;
        assert!(self.child.wait().expect("its end").success());
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

/// Whatever bears the tag of a process: namespaces, groups, its journal.
pub(crate) fn things_of(pid: u32) -> Vec<String> {
    let mut things = Vec::new();
    let tag = format!("wf-{pid}-");
    let folders = ["/run/netns", "/run/wallfinder"].map(|folder| (folder.to_owned(), 0));
    let mut folders = folders.to_vec();
    folders.push(("/sys/fs/cgroup".into(), 4));
    while let Some((folder, depth)) = folders.pop() {
        let entries = std::fs::read_dir(Path::new(&folder)).into_iter().flatten();
        for entry in entries.flatten() {
            let path = entry.path().display().to_string();
            if entry.file_name().to_string_lossy().contains(&tag) {
                things.push(path.clone());
            }
            if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push((path, depth - 1));
            }
        }
    }
    // A link's relay has its namespace in its command.
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains(" --relay ") && command.contains(&tag) {
            things.push(format!("{}: {command}", entry.path().display()));
        }
    }
    things
}

/// Why there can be no test of it here.
pub(crate) fn no_privilege() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let has_tools = Command::new("tc").arg("-V").output().is_ok();
    if !is_root || !has_tools {
        wallfinder_skip::skip("it needs root, and ip and tc of iproute2");
    }
    !is_root || !has_tools
}
