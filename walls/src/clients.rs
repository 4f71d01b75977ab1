//! What is asked where several client hosts make the load, and of no other load: one of them is slower than the others.
//!
//! A quota of its control group slows it, which an agent joins before it begins.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use wallfinder_model::Detail;
use wallfinder_model::verdict::Wall::ClientCpu;

use crate::scenario::Scenario;
use crate::suite::{PLAIN, made_of};

/// Where groups with a quota are, by version of control groups: the folder, and how a twentieth of a processor is written
/// there in periods of 20 ms.
const GROUPS: [(&str, &[(&str, &str)]); 2] = [
    (
        "/sys/fs/cgroup/cpu",
        &[("cpu.cfs_period_us", "20000"), ("cpu.cfs_quota_us", "1000")],
    ),
    ("/sys/fs/cgroup", &[("cpu.max", "1000 20000")]),
];
/// How long what ran in a group may take to leave it.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// The last host, of those that are named by number after the server's.
fn by_the_last(detail: &Detail) -> bool {
    match detail {
        Detail::ClientHosts { hosts, of } => *hosts == [format!("h{}", of + 1)],
        _ => false,
    }
}

/// Every scenario with a slow client host.
pub const CLIENTS: &[Scenario] = &[Scenario {
    name: "client-one-slow",
    // More than a twentieth of a processor drives of its part, and less than the others do of theirs.
    flags: "-c 48 -R 30000",
    expect: made_of(&[ClientCpu], Some(by_the_last)),
    has_slow_client: true,
    ..PLAIN
}];

/// A control group with a twentieth of a processor. Dropping it removes it.
#[derive(Debug)]
pub struct Slow {
    group: PathBuf,
}

impl Slow {
    /// Makes one, where control groups have quotas.
    pub fn new() -> Result<Slow, String> {
        let name = format!("wallfinder-walls-{}", std::process::id());
        let mut why = "no control groups".to_owned();
        for (root, settings) in GROUPS {
            let group = Path::new(root).join(&name);
            match made(&group, settings) {
                Ok(()) => return Ok(Slow { group }),
                Err(error) => why = format!("{}: {error}", group.display()),
            }
            let _ = fs::remove_dir(&group);
        }
        Err(format!("no client host can be made slow: {why}"))
    }

    /// Has the agents of this host join it: what an account runs, whatever is asked for.
    pub fn script(&self, host: &str, wallfinder: &Path) -> String {
        format!(
            "#!/bin/sh\n[ \"$(hostname)\" != {host} ] || echo $$ >'{}/cgroup.procs' || exit 1\nexec '{}' agent --stdio\n",
            self.group.display(),
            wallfinder.display()
        )
    }
}

fn made(group: &Path, settings: &[(&str, &str)]) -> io::Result<()> {
    fs::create_dir(group)?;
    let mut each = settings.iter();
    each.try_for_each(|(file, value)| fs::write(group.join(file), value))
}

impl Drop for Slow {
    fn drop(&mut self) {
        let since = Instant::now();
        while fs::remove_dir(&self.group).is_err() && since.elapsed() < EMPTY_TIMEOUT {
            thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_the_hosts_alone_is_the_slow_one() {
        let detail = |hosts: &[&str]| Detail::ClientHosts {
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            of: 3,
        };
        assert!(by_the_last(&detail(&["h4"])));
        assert!(!by_the_last(&detail(&["h3"])) && !by_the_last(&detail(&["h3", "h4"])));
    }
}
