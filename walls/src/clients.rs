//! What is asked where several client hosts make the load, and of no other load: one of them is slower than the others.
//!
//! A quota of its control group slows it, which an agent joins before it begins; or it spins for most of its working time.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use wallfinder_model::Detail;
use wallfinder_model::verdict::Wall::ClientCpu;

use crate::scenario::Scenario;
use crate::suite::{PLAIN, made_of};

/// Period of a quota, by either version of control groups.
const PERIOD_US: u32 = 20_000;
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

/// What slows the last of several client hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowedBy {
    /// A quota of a twentieth of a processor.
    Quota,
    /// Its own spin, for 19 of 20 parts of its working time. Each host has a fifth of a processor.
    Spin,
}

/// Every scenario with a slow client host.
pub const CLIENTS: &[Scenario] = &[
    Scenario {
        name: "client-one-slow",
        // More than a twentieth of a processor drives of its part, and less than the others do of theirs.
        flags: "-c 48 -R 30000",
        expect: made_of(&[ClientCpu], Some(by_the_last)),
        slow_client: Some(SlowedBy::Quota),
        ..PLAIN
    },
    Scenario {
        name: "client-one-spins",
        // Without the spin a twentieth of a processor drives its part.
        flags: "-c 48 -R 6000",
        expect: made_of(&[ClientCpu], Some(by_the_last)),
        slow_client: Some(SlowedBy::Spin),
        ..PLAIN
    },
];

/// What slows client hosts. Dropping it undoes it.
#[derive(Debug)]
pub struct Slow {
    /// Control groups that the agents of hosts join, by the hosts' names.
    groups: Vec<(String, Group)>,
    /// A host whose agents are told more, and what.
    told: Option<(String, &'static str)>,
}

impl Slow {
    /// Makes it for hosts, of which the last is to be slow, where control groups have quotas.
    pub fn new(by: SlowedBy, hosts: &[String]) -> Result<Slow, String> {
        let last = &hosts[hosts.len() - 1..];
        let groups = |hosts: &[String], quota_us| -> Result<Vec<_>, String> {
            let each = hosts.iter();
            each.map(|host| Ok((host.clone(), Group::new(host, quota_us)?)))
                .collect()
        };
        match by {
            SlowedBy::Quota => Ok(Slow {
                groups: groups(last, PERIOD_US / 20)?,
                told: None,
            }),
            // What spins leaves others of its processor nothing, so each has its part.
            SlowedBy::Spin => Ok(Slow {
                groups: groups(hosts, PERIOD_US / 5)?,
                told: last.first().map(|host| (host.clone(), "--client-speed 5%")),
            }),
        }
    }

    /// What an account at any of the hosts runs, whatever is asked for.
    pub fn script(&self, wallfinder: &Path) -> String {
        let agent = format!("'{}' agent --stdio", wallfinder.display());
        let is_at = |host: &str| format!("[ \"$(hostname)\" != {host} ] ||");
        let mut lines = vec!["#!/bin/sh".to_owned()];
        lines.extend(self.groups.iter().map(|(host, group)| {
            let joins = format!("echo $$ >'{}/cgroup.procs'", group.folder.display());
            format!("{} {joins} || exit 1", is_at(host))
        }));
        let told = self.told.iter();
        lines.extend(told.map(|(host, more)| format!("{} exec {agent} {more}", is_at(host))));
        lines.push(format!("exec {agent}\n"));
        lines.join("\n")
    }
}

/// A control group with a part of a processor. Dropping it removes it.
#[derive(Debug)]
struct Group {
    folder: PathBuf,
}

impl Group {
    /// Makes one for a host, which may use so much of each period.
    fn new(host: &str, quota_us: u32) -> Result<Group, String> {
        let name = format!("wallfinder-walls-{}-{host}", std::process::id());
        let quotas = [
            (
                "/sys/fs/cgroup/cpu",
                vec![
                    ("cpu.cfs_period_us", PERIOD_US.to_string()),
                    ("cpu.cfs_quota_us", quota_us.to_string()),
                ],
            ),
            (
                "/sys/fs/cgroup",
                vec![("cpu.max", format!("{quota_us} {PERIOD_US}"))],
            ),
        ];
        let mut why = String::new();
        for (root, settings) in quotas {
            let folder = Path::new(root).join(&name);
            match made(&folder, &settings) {
                Ok(()) => return Ok(Group { folder }),
                Err(error) => why = format!("{}: {error}", folder.display()),
            }
            let _ = fs::remove_dir(&folder);
        }
        Err(format!("no client host can be made slow: {why}"))
    }
}

fn made(group: &Path, settings: &[(&str, String)]) -> io::Result<()> {
    fs::create_dir(group)?;
    let mut each = settings.iter();
    each.try_for_each(|(file, value)| fs::write(group.join(file), value))
}

impl Drop for Group {
    fn drop(&mut self) {
        let since = Instant::now();
        let is_left = || match fs::remove_dir(&self.folder) {
            Ok(()) => false,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        while is_left() && since.elapsed() < EMPTY_TIMEOUT {
            thread::sleep(POLL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_spins_is_told_so_and_the_others_are_not() {
        let folder = PathBuf::from("/no/such/group");
        let slow = Slow {
            groups: vec![("h2".to_owned(), Group { folder })],
            told: Some(("h2".to_owned(), "--client-speed 5%")),
        };
        let script = slow.script(Path::new("/bin/wallfinder"));
        let lines: Vec<&str> = script.lines().collect();
        assert_eq!(
            lines[1..],
            [
                "[ \"$(hostname)\" != h2 ] || echo $$ >'/no/such/group/cgroup.procs' || exit 1",
                "[ \"$(hostname)\" != h2 ] || exec '/bin/wallfinder' agent --stdio --client-speed 5%",
                "exec '/bin/wallfinder' agent --stdio",
            ]
        );
    }

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
