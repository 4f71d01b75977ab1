//! `agent`: this host stands at a controller's service, for what it grants and as long as it is asked.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::process::geteuid;
use wallfinder_hosts::agent::{Log, serve};
use wallfinder_protocol::Grant;
use wallfinder_store::utc_rfc3339;

use crate::commands::running::{Words, end};
use crate::exit::Failed;
use crate::flags::AgentFlags;
use crate::output;

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
    let served = serve(io::stdin(), io::stdout(), &grants, &mut log);
    log.line(&match &served {
        Ok(()) => "its controller is gone".to_owned(),
        Err(why) => format!("ended: {why}"),
    });
    served.map_err(Failed::run)
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
