//! `agent`: this host stands at a controller's service, for what it grants and as long as it is asked.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::process::geteuid;
use wallfinder_hosts::agent::{Log, Permits, serve};
use wallfinder_protocol::Grant;
use wallfinder_store::utc_rfc3339;

use crate::commands::running::{Words, end};
use crate::exit::Failed;
use crate::flags::AgentFlags;
use crate::output;
use crate::reach::{Network, is_metadata};

/// A log that is longer begins anew, and the one before is kept.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// `wallfinder agent`.
pub(crate) fn agent(flags: &AgentFlags) -> Result<(), Failed> {
    if flags.stop {
        return output::put(&end("agent", is_agent)?, None);
    }
    let grants = match flags.grant.is_empty() {
        true => Grant::ALL.to_vec(),
        false => flags.grant.clone(),
    };
    let mut log = HostLog(open_log());
    let names: Vec<String> = grants.iter().map(Grant::to_string).collect();
    log.line(&format!("an agent begins, and grants {}", names.join(", ")));
    let targets = flags.target.clone();
    let permits = Permits {
        grants,
        may_load: Box::new(move |address| may_load(address, &targets)),
        subjects: flags.subject.iter().cloned().collect(),
    };
    let served = serve(io::stdin(), io::stdout(), permits, &mut log);
    log.line(&match &served {
        Ok(()) => "its controller is gone".to_owned(),
        Err(why) => format!("ended: {why}"),
    });
    served.map_err(Failed::run)
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
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let state = variable("XDG_STATE_HOME");
    let state = state.or_else(|| Some(variable("HOME")?.join(".local/state")));
    Some(state?.join("wallfinder")).filter(|path| path.is_absolute())
}

fn is_agent(words: &Words<'_>) -> bool {
    words.first() == Some(&&b"agent"[..]) && words.contains(&&b"--stdio"[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_goes_where_the_hosts_own_list_says() {
        let targets: Vec<Network> = ["10.1.0.0/16", "fd00::/8", "192.168.7.9", "0.0.0.0/1"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
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
