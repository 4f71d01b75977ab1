//! The server of a scenario on another host, and its client on several: those of a lab, on the processors that they have
//! here.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wallfinder_bench::child::Held;

use crate::clients::Slow;
use crate::find::CLIENT_CPU;
use crate::scenario::{Scenario, Server};

/// How long a server may take to listen there.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(20);
/// How long a lab may take to be taken down.
const END_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// A lab: a host with the server on it, and the client's hosts where these are several. Dropping it removes both.
#[derive(Debug)]
pub struct Elsewhere {
    /// Before the lab.
    _server: Held,
    _lab: Held,
    /// After what runs in it.
    _slow: Option<Slow>,
    address: IpAddr,
    flags: Vec<String>,
}

impl Elsewhere {
    /// Whether a scenario can be there, with so many client hosts beside the server's: our own server, without a link that
    /// the tool would lay; and where there are some, with our own load.
    pub fn takes(scenario: &Scenario, clients: u32) -> bool {
        let is_ours =
            matches!(scenario.server, Server::Subject(command) if command.starts_with("knownwall"));
        let is_apart = scenario.server_cpus == "0";
        let asks_more = ["--null", "--server-quota"];
        let asks_more = asks_more.iter().any(|flag| scenario.flags.contains(flag));
        let of_one_client = ["--driver", "--client-quota"];
        let of_one_client = of_one_client
            .iter()
            .any(|flag| scenario.flags.contains(flag));
        let is_alone = scenario.link.is_none() && scenario.beside.is_none();
        let has_its_client = match clients {
            0 => scenario.slow_client.is_none(),
            _ => !of_one_client && scenario.beside_client.is_none(),
        };
        is_ours && is_apart && is_alone && has_its_client && !asks_more
    }

    /// Puts them up.
    pub fn start(
        scenario: &Scenario,
        wallfinder: &Path,
        bin: &Path,
        port: u16,
        clients: u32,
    ) -> Result<Elsewhere, String> {
        let failed = |what: &str, error: std::io::Error| format!("{what}: {error}");
        let mut lab = Command::new("setpriv")
            .args(["--pdeathsig", "TERM"])
            .arg(wallfinder)
            .args(["lab", "up", &(1 + clients).to_string()])
            .args(["--cpus", scenario.server_cpus])
            // Of all hosts that follow.
            .args(if clients > 0 {
                &["--cpus", CLIENT_CPU][..]
            } else {
                &[]
            })
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
        let mut elsewhere = Elsewhere {
            _server: Held::killed(server),
            _lab: lab,
            _slow: None,
            address,
            flags: flags(clients, &ssh),
        };
        let since = Instant::now();
        let there = SocketAddr::new(address, port);
        while TcpStream::connect_timeout(&there, POLL).is_err() {
            if since.elapsed() > LISTEN_TIMEOUT {
                return Err(format!("nobody listens on {there}"));
            }
            thread::sleep(POLL);
        }
        if let Some(by) = scenario.slow_client {
            let hosts: Vec<String> = (0..clients).map(client_name).collect();
            let slow = Slow::new(by, &hosts)?;
            let agent = wallfinder.canonicalize();
            let agent = agent.map_err(|error| failed("the wallfinder binary", error))?;
            forced(&call, &slow.script(&agent)).map_err(|error| failed("a slow client", error))?;
            elsewhere._slow = Some(slow);
        }
        Ok(elsewhere)
    }

    /// Where the server is.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Flags that lead to its host, and to the client's.
    pub fn flags(&self) -> &[String] {
        &self.flags
    }
}

/// The lab's first host is the server's.
fn client_name(nth: u32) -> String {
    format!("h{}", nth + 2)
}

fn flags(clients: u32, ssh: &str) -> Vec<String> {
    let server = ["--server-host", "ssh://h1", "--ssh", ssh].map(str::to_owned);
    let clients = (0..clients).map(|nth| {
        let host = format!("ssh://{}", client_name(nth));
        ["--client-host".to_owned(), host]
    });
    server.into_iter().chain(clients.flatten()).collect()
}

/// From now on every session at the hosts that this call reaches runs this script, whatever it asks for.
fn forced(call: &[&str], script: &str) -> io::Result<()> {
    let at = call.iter().position(|word| *word == "-F");
    let settings = at.and_then(|at| call.get(at + 1)).map(Path::new);
    let settings = settings.ok_or_else(|| io::Error::other("the lab names no settings of ssh"))?;
    let (file, key) = (
        settings.with_file_name("walls.sh"),
        settings.with_file_name("user.pub"),
    );
    let public = fs::read_to_string(&key)?;
    fs::write(&file, script)?;
    fs::write(
        key,
        format!("command=\"/bin/sh {}\",restrict {public}", file.display()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::scenarios;

    #[test]
    fn with_several_clients_there_are_scenarios_enough_and_one_of_their_own() {
        let of = |clients| -> Vec<&str> {
            let taken = scenarios().filter(|scenario| Elsewhere::takes(scenario, clients));
            taken.map(|scenario| scenario.name).collect()
        };
        let (one, several) = (of(0), of(3));
        assert!(several.len() >= 11, "{several:?}");
        for slow in ["client-one-slow", "client-one-spins"] {
            assert!(several.contains(&slow) && !one.contains(&slow));
        }
        assert!(one.contains(&"client-spin-300us") && !several.contains(&"client-spin-300us"));
    }

    #[test]
    fn hosts_are_named_after_the_servers() {
        let flags = flags(2, "ssh -F s").join(" ");
        assert_eq!(
            flags,
            "--server-host ssh://h1 --ssh ssh -F s --client-host ssh://h2 --client-host ssh://h3"
        );
    }
}
