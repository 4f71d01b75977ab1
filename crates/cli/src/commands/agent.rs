//! `agent`: this host stands at a controller's service, for what it grants and as long as it is asked.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use rustix::process::geteuid;
use wallfinder_hosts::agent::{Log, Permits, Results, serve};
use wallfinder_hub::{About, Credentials, Here, is_name, join};
use wallfinder_probe::fingerprint;
use wallfinder_protocol::{Grant, VERSION};
use wallfinder_store::utc_rfc3339;
use wallfinder_sys::{process, signal};

use crate::commands::running::{Words, end};
use crate::exit::Failed;
use crate::flags::AgentFlags;
use crate::hub::servers_of;
use crate::output;
use crate::reach::{Network, is_metadata};

/// A log that is longer begins anew, and the one before is kept.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// `wallfinder agent`.
pub(crate) fn agent(flags: &AgentFlags) -> Result<(), Failed> {
    if flags.stop {
        return output::put(&end("agent", is_agent)?, None);
    }
    if let Some(credentials) = &flags.join {
        return joined(credentials, flags);
    }
    let grants = match flags.grant.is_empty() {
        true => Grant::ALL.to_vec(),
        false => flags.grant.clone(),
    };
    let mut log = HostLog(open_log());
    let names: Vec<String> = grants.iter().map(Grant::to_string).collect();
    log.line(&format!("an agent begins, and grants {}", names.join(", ")));
    if let Some(speed) = flags.client_speed {
        let percent = speed * 100.0;
        log.line(&format!(
            "its loads have {percent} % of their speed: --client-speed"
        ));
    }
    let targets = flags.target.clone();
    // Without it a session is as good as its channel.
    let results = flags.results.as_deref().and_then(|folder| {
        let opened = Results::open(folder);
        let warned = opened.inspect_err(|error| {
            let folder = folder.display();
            let text = format!("no results are kept, for {folder} cannot be made: {error}");
            output::complain(&text);
            log.line(&text);
        });
        warned.ok()
    });
    let permits = Permits {
        grants,
        may_load: Box::new(move |address| may_load(address, &targets)),
        subjects: flags.subject.iter().cloned().collect(),
        results,
        speed: flags.client_speed.unwrap_or(1.0),
    };
    let served = serve(io::stdin(), io::stdout(), permits, &mut log);
    log.line(&match &served {
        Ok(()) => "its controller is gone".to_owned(),
        Err(why) => format!("ended: {why}"),
    });
    served.map_err(Failed::run)
}

/// Joins a hub: each session of a controller has an agent of its own, which is this tool with `--stdio`.
fn joined(path: &Path, flags: &AgentFlags) -> Result<(), Failed> {
    let mut credentials = Credentials::read(path).map_err(Failed::run)?;
    if let Some(servers) = &flags.nats {
        credentials.servers = servers_of(servers);
    }
    let name = flags.name.clone().or(credentials.name.clone());
    let name = name.filter(|name| is_name(name)).ok_or_else(|| {
        Failed::usage(
            "an agent is called by the --name that it is given, or by its credentials: small letters, digits and hyphens",
        )
    })?;
    let asked = match &flags.grant[..] {
        [] => credentials.default_grants(),
        asked => asked,
    };
    let grants = narrowed(&credentials.grants, asked);
    if grants.is_empty() {
        let why =
            "nothing is left that may be asked for: --grant narrows what the credentials grant";
        return Err(Failed::usage(why));
    }
    let mut words = vec!["agent".to_owned(), "--stdio".to_owned()];
    let mut more = |flag: &str, values: Vec<String>| {
        words.extend(
            values
                .into_iter()
                .flat_map(|value| [flag.to_owned(), value]),
        );
    };
    more("--grant", grants.iter().map(Grant::to_string).collect());
    more(
        "--target",
        flags.target.iter().map(Network::to_string).collect(),
    );
    let subject = |(name, command): &(String, String)| format!("{name}={command}");
    more("--subject", flags.subject.iter().map(subject).collect());
    let speed = flags.client_speed.iter();
    let speed = speed.map(|share| format!("{}%", share * 100.0));
    more("--client-speed", speed.collect());
    let results = flags.results.clone().or_else(results_folder);
    more(
        "--results",
        results
            .iter()
            .map(|path| path.display().to_string())
            .collect(),
    );
    let facts = fingerprint(None);
    let here = Here {
        number: 0,
        instance: 0,
        name,
        host: process::host_name(),
        kernel: facts.kernel.unwrap_or_default(),
        cpus: process::allowed_cpus().len() as u32,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: VERSION,
        grants,
        is_root: geteuid().is_root(),
        sessions: 0,
        monotonic_ns: 0,
    };
    let mut log = HostLog(open_log());
    let called = here.name.clone();
    let about = About {
        here,
        command: Box::new(move || {
            let mut command = Command::new("/proc/self/exe");
            // What it is called is how `agent --stop` finds it.
            command.arg0("wallfinder").args(&words);
            command
        }),
        log: Box::new(move |line| {
            output::complain(&format!("{called}: {line}"));
            log.line(line);
        }),
    };
    // As a container's first process, whose sessions end with it.
    signal::end_as_first_process();
    join(&credentials, about).map_err(Failed::run)
}

/// What credentials grant, where `asked` narrows it.
fn narrowed(granted: &[Grant], asked: &[Grant]) -> Vec<Grant> {
    let is_asked = |grant: &Grant| asked.is_empty() || asked.contains(grant);
    granted.iter().copied().filter(is_asked).collect()
}

/// Whether a load from this host may go to an address: where its own list says, and never to a metadata service.
fn may_load(address: SocketAddr, targets: &[Network]) -> Result<(), String> {
    let ip = address.ip().to_canonical();
    if is_metadata(ip) {
        return Err(format!(
            "{ip} is an address where metadata services live: never loaded"
        ));
    }
    match targets.is_empty() || targets.iter().any(|network| network.contains(ip)) {
        true => Ok(()),
        false => Err(format!(
            "the agent there makes no load to {ip}: what it may load is given to it with --target"
        )),
    }
}

/// What this host was asked, in a file of its own: `/var/log/wallfinder/agent.log`, or for who is not root in the
/// user's folder for states. One that cannot be written is no reason not to serve.
struct HostLog(Option<File>);

impl Log for HostLog {
    fn line(&mut self, text: &str) {
        if let Some(file) = &mut self.0 {
            let (at, pid) = (utc_rfc3339(SystemTime::now()), std::process::id());
            let _ = file.write_all(format!("{at} {pid} {text}\n").as_bytes());
        }
    }
}

fn open_log() -> Option<File> {
    let folder = log_folder()?;
    fs::create_dir_all(&folder).ok()?;
    let path = folder.join("agent.log");
    if fs::metadata(&path).is_ok_and(|found| found.len() > LOG_BYTES_MAX) {
        let _ = fs::rename(&path, folder.join("agent.log.1"));
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options.open(path).ok()
}

fn log_folder() -> Option<PathBuf> {
    if geteuid().is_root() {
        return Some(PathBuf::from("/var/log/wallfinder"));
    }
    user_folder()
}

/// Where results are kept that no controller has on disk.
fn results_folder() -> Option<PathBuf> {
    let folder = match geteuid().is_root() {
        true => PathBuf::from("/var/lib/wallfinder"),
        false => user_folder()?,
    };
    Some(folder.join("results"))
}

/// The user's folder for states.
fn user_folder() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME");
    let state = state.or_else(|| Some(variable("HOME")?.join(".local/state")));
    Some(state?.join("wallfinder")).filter(|path| path.is_absolute())
}

fn is_agent(words: &Words<'_>) -> bool {
    words.first() == Some(&&b"agent"[..])
        && words.iter().any(|word| {
            // Its file may be of the same word.
            *word == b"--stdio" || *word == b"--join" || word.starts_with(b"--join=")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_told_from_the_other_runs() {
        for (line, is_one) in [
            ("agent --stdio", true),
            ("agent --join a.json", true),
            ("agent --grant load --join=a.json", true),
            ("agent --stop", false),
            ("hub --dir --join", false),
        ] {
            let words = line.split(' ').map(str::as_bytes).collect();
            assert_eq!(is_agent(&words), is_one, "{line}");
        }
    }

    #[test]
    fn grants_are_narrowed_and_never_widened() {
        let [observe, load] = [Grant::Observe, Grant::Load];
        for (granted, asked, left) in [
            (&[observe, load][..], &[][..], &[observe, load][..]),
            (&[observe, load], &[load], &[load]),
            (&[observe], &[load], &[]),
            (&[observe], &[load, observe], &[observe]),
            (&[], &[load], &[]),
            (&[], &[], &[]),
        ] {
            assert_eq!(narrowed(granted, asked), left);
        }
    }

    #[test]
    fn a_load_goes_where_the_hosts_own_list_says() {
        let targets: Vec<Network> = ["10.1.0.0/16", "fd00::/8", "192.168.7.9", "0.0.0.0/1"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        for network in &targets {
            // As it is passed on to the agent of a session.
            assert_eq!(network.to_string().parse(), Ok(*network));
        }
        let may = |address: &str, targets: &[Network]| may_load(address.parse().unwrap(), targets);
        for address in [
            "10.1.255.1:80",
            "[fd12::1]:80",
            "192.168.7.9:1",
            "127.0.0.1:1",
            "[::ffff:10.1.0.1]:1",
        ] {
            assert_eq!(may(address, &targets), Ok(()), "{address}");
        }
        for address in ["192.168.7.8:1", "[2001:db8::1]:80"] {
            assert!(may(address, &targets).unwrap_err().contains("--target"));
            assert_eq!(may(address, &[]), Ok(()));
        }
        assert!(
            may("169.254.169.254:80", &[])
                .unwrap_err()
                .contains("metadata")
        );
        for wrong in ["", "10.0.0.0/33", "host", "10.0.0.0/-1", "fd00::/129"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
