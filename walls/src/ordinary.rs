//! An ordinary server: started as its users start it, and not by the tool, which has to find
//! it by its URL.
//!
//! Everything it writes stands in a temporary folder. The kernel ends it with this process,
//! by SIGTERM: a master that is killed would leave its workers behind.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wallfinder_bench::child::Held;

use crate::find::words;
use crate::scenario::Ordinary;

/// Where each of them listens, on loopback.
pub const PORT: u16 = 18_181;
/// How long one may take to listen.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one may take to end before it is killed.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// How often one that starts is looked at.
const POLL: Duration = Duration::from_millis(20);

/// One that runs. Dropping it ends it and removes its folder.
#[derive(Debug)]
pub struct Standing {
    folder: PathBuf,
    /// The server last: it is ended before what is behind it.
    processes: Vec<Held>,
    has_backend: bool,
}

impl Standing {
    /// Starts what is behind the server, and the server, on these processors.
    pub fn start(server: &Ordinary, cpus: &str, bin: &Path) -> Result<Standing, String> {
        if listens() {
            return Err(format!("somebody listens on port {PORT} already"));
        }
        let name = format!("wallfinder-walls-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        // Its name can be guessed: one that is there is somebody else's.
        fs::create_dir(&folder).map_err(failed)?;
        let mut standing = Standing {
            folder: folder.clone(),
            processes: Vec::new(),
            has_backend: server.backend.is_some(),
        };
        let (file, text) = server.file;
        fs::write(folder.join(file), text).map_err(failed)?;
        let behind = server.backend.map(|behind| (behind.command, behind.cpus));
        for (command, cpus) in behind.into_iter().chain([(server.command, cpus)]) {
            let command = command
                .replace("{folder}", &folder.display().to_string())
                .replace("{bin}", &bin.display().to_string());
            let child = start(&command, cpus, &folder).map_err(|e| format!("{command}: {e}"))?;
            standing.processes.push(child);
        }
        standing.listening()?;
        Ok(standing)
    }

    /// The process behind the server.
    pub fn backend(&self) -> Option<u32> {
        self.has_backend.then(|| self.processes[0].id())
    }

    fn listening(&mut self) -> Result<(), String> {
        let since = Instant::now();
        while !listens() {
            if self.processes.iter_mut().any(Held::has_ended) || since.elapsed() > LISTEN_TIMEOUT {
                let said = fs::read_to_string(self.folder.join(SAID)).unwrap_or_default();
                let last = said.lines().last().unwrap_or("it said nothing");
                return Err(format!("the server does not listen: {last}"));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

/// The file with what the processes said.
const SAID: &str = "said.log";

fn start(command: &str, cpus: &str, folder: &Path) -> io::Result<Held> {
    let said = File::options()
        .create(true)
        .append(true)
        .open(folder.join(SAID))?;
    let path = std::env::join_paths(folders()).map_err(io::Error::other)?;
    // Each of them becomes the next one: the process is the server in the end.
    let child = Command::new("setpriv")
        .args(["--pdeathsig", "TERM", "taskset", "-c", cpus])
        .args(words(command))
        .env("PATH", path)
        .stdin(Stdio::null())
        .stdout(said.try_clone()?)
        .stderr(said)
        .spawn()?;
    Ok(Held::asked(child, Signal::TERM, END_TIMEOUT))
}

fn listens() -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], PORT));
    TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_ok()
}

impl Drop for Standing {
    fn drop(&mut self) {
        while self.processes.pop().is_some() {}
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Where programs are looked for: Debian has servers in a folder that the path of a user may
/// lack.
fn folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    folders.chain([PathBuf::from("/usr/sbin")]).collect()
}

impl Ordinary {
    /// Why it cannot be started here, where it cannot.
    pub fn missing(&self) -> Option<String> {
        let folders = folders();
        let there = |program: &str| folders.iter().any(|folder| folder.join(program).is_file());
        let (program, package) = (self.program, self.package);
        if !there(program) {
            return Some(format!(
                "{program} is not there (Debian: apt-get install {package})"
            ));
        }
        let tools = ["setpriv", "taskset"];
        let tool = tools.into_iter().find(|tool| !there(tool))?;
        Some(format!(
            "{tool} is not there (Debian: apt-get install util-linux)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: Ordinary = Ordinary {
        program: "no-such-server",
        package: "no-such-package",
        command: "sh {folder}/server.sh",
        file: ("server.sh", "echo no such setting\nexit 1\n"),
        backend: None,
        backend_is_named: false,
    };

    #[test]
    fn one_that_is_not_there_says_where_it_comes_from() {
        let why = NOBODY.missing().expect("it is not there");
        assert!(why.contains("apt-get install no-such-package"), "{why}");
    }

    #[test]
    fn one_that_does_not_start_says_why_and_leaves_nothing() {
        let why = Standing::start(&NOBODY, "0", Path::new("/")).expect_err("it ends at once");
        assert!(why.ends_with("no such setting"), "{why}");
        let name = format!("wallfinder-walls-{}", std::process::id());
        assert!(!std::env::temp_dir().join(name).exists());
    }
}
