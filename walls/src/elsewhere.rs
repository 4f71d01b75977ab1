//! The server of a scenario on another host: one of a lab, on the processors that it has here.

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wallfinder_bench::child::Held;

use crate::scenario::{Scenario, Server};

/// How long a server may take to listen there.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a lab may take to be taken down.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// A lab of one host, and the server on it. Dropping it removes both.
#[derive(Debug)]
pub struct Elsewhere {
    /// Before the lab.
    _server: Held,
    _lab: Held,
    address: IpAddr,
    ssh: String,
}

impl Elsewhere {
    /// Whether a scenario can be there: our own server, without a link that the tool would lay.
    pub fn takes(scenario: &Scenario) -> bool {
        let is_ours =
            matches!(scenario.server, Server::Subject(command) if command.starts_with("knownwall"));
        let is_apart = scenario.server_cpus == "0";
        let asks_more = ["--null", "--server-quota"];
        let asks_more = asks_more.iter().any(|flag| scenario.flags.contains(flag));
        is_ours && is_apart && scenario.link.is_none() && scenario.beside.is_none() && !asks_more
    }

    /// Puts them up.
    pub fn start(
        scenario: &Scenario,
        wallfinder: &Path,
        bin: &Path,
        port: u16,
    ) -> Result<Elsewhere, String> {
        let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
        let mut lab = Command::new("setpriv")
            .args(["--pdeathsig", "TERM"])
            .arg(wallfinder)
            .args(["lab", "up", "1", "--cpus", scenario.server_cpus])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("a lab", error))?;
        let said = lab.stdout.take();
        let lab = Held::asked(lab, Signal::TERM, END_TIMEOUT);
        let (mut address, mut ssh) = (None, None);
        for line in said
            .into_iter()
            .flat_map(|said| BufReader::new(said).lines())
        {
            let line = line.map_err(|error| failed("a lab", error))?;
            if let Some(found) = line.strip_prefix("h1 ") {
                address = found.trim().parse().ok();
            }
            if let Some((_, call)) = line.split_once("--ssh '") {
                ssh = Some(call.trim_end_matches('\'').to_owned());
                break;
            }
        }
        let (Some(address), Some(ssh)) = (address, ssh) else {
            return Err("the lab did not come up".to_owned());
        };
        let command = scenario.server.command();
        let call: Vec<&str> = ssh.split_whitespace().collect();
        let server = Command::new(call[0])
            .args(&call[1..])
            .arg("h1")
            .arg(format!(
                "{}/{command} --host {address} --port {port}",
                bin.display()
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| failed("a server on a host", error))?;
        let elsewhere = Elsewhere {
            _server: Held::killed(server),
            _lab: lab,
            address,
            ssh,
        };
        let since = Instant::now();
        let there = SocketAddr::new(address, port);
        while TcpStream::connect_timeout(&there, POLL).is_err() {
            if since.elapsed() > LISTEN_TIMEOUT {
                return Err(format!("nobody listens on {there}"));
            }
            thread::sleep(POLL);
        }
        Ok(elsewhere)
    }

    /// Where the server is.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Flags that lead to its host.
    pub fn flags(&self) -> [&str; 4] {
        ["--server-host", "ssh://h1", "--ssh", &self.ssh]
    }
}
