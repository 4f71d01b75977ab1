//! A lab of hosts on one machine: what tests, and users who want to try, take for other machines.
//!
//! ```text
//!  this machine            switch                  h1                         h2
//!  wf-labN 10.232.N.1 ══ p0 ┐        ┌ p1 ══ eth0 10.232.N.2    ┌ p2 ══ eth0 10.232.N.3
//!                           └ bridge ┴──────────────────────────┘
//!                             a tbf on each port: the network between, which is no host's
//! ```
//!
//! A host has its own network, processes, mounts of what a tool writes to, and name, an sshd, the processors and the quota
//! that it was given, and a monotonic clock that is `CLOCK_AHEAD` further ahead of this machine's with each host. Kernel, control
//! groups, files and the wall clock are this machine's. Keys are made for the lab, and go with
//! it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use wallfinder_model::LinkSpec;
use wallfinder_sys::namespace;
use wallfinder_sys::programs::on_path;

use super::{Tbf, add_netns, free_network};
use crate::child::{Child, ChildSpec, Keep, Place, RunAs, Shim};
use crate::error::TestbedError;
use crate::group::{Control, Group};
use crate::iproute;
use crate::scratch::Scratch;
use crate::undo::{Change, Journal};

/// Hosts of one lab, at the most.
pub const HOSTS_MAX: usize = 16;
/// How far the monotonic clock of the first host is ahead; that of the next is ahead of it as much.
const CLOCK_AHEAD: Duration = Duration::from_secs(100_000);
/// Where an sshd listens, and how long it may take until it does.
const SSH_PORT: u16 = 22;
const BOOT_WAIT_MAX: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long agents may take to undo what they did, when their hosts go.
const AGENTS_WAIT_MAX: Duration = Duration::from_secs(3);
/// What of an sshd's complaints is kept.
const SAID_BYTES_MAX: usize = 16 << 10;
/// Folders of a host's own: what is written there is not this machine's.
const OWN_FOLDERS: &str = "/root /var/log /var/tmp";

/// Hosts on a bridge. Dropping it removes them, with all that runs there.
#[derive(Debug)]
pub struct Hosts {
    hosts: Vec<Host>,
    /// After the processes in them.
    quotas: Vec<Group>,
    keys: Scratch,
    changes: Vec<Change>,
}

/// One of them.
#[derive(Debug)]
pub struct Host {
    /// `h1`.
    pub name: String,
    /// Where it is reached.
    pub address: IpAddr,
    netns: PathBuf,
    init: Child,
}

impl Hosts {
    /// So many, with a link of this rate to the bridge. Each has its own list of processors and its own quota in cores,
    /// those beyond the last list and the last quota have that one; without any all have all.
    pub fn up(
        count: usize,
        link: LinkSpec,
        cpus: &[Vec<u32>],
        quotas: &[Option<f64>],
        shim: &Shim,
    ) -> Result<Hosts, TestbedError> {
        let sshd = needed("sshd", "openssh-server")?;
        let keygen = needed("ssh-keygen", "openssh-client")?;
        let unshare = needed("unshare", "util-linux")?;
        let journal = Journal::open(shim)?;
        let keys = Scratch::new(None).map_err(|e| TestbedError::failed("make keys", e))?;
        make_key(&keygen, &keys, "host")?;
        make_key(&keygen, &keys, "user")?;
        let network = free_network(None, 232, 24)?;
        let (switch, change) = add_netns(journal, "w")?;
        let mut lab = Hosts {
            hosts: Vec::new(),
            quotas: Vec::new(),
            keys,
            changes: vec![change],
        };
        // From here on dropping it removes what is there.
        let lock = journal.held()?;
        let own = format!("wf-lab{network}");
        let address = |host: usize| Ipv4Addr::new(10, 232, network, host as u8 + 1);
        let mtu = link.mtu.to_string();
        let here = std::process::id().to_string();
        in_netns(
            Some(&switch),
            &["ip link add br0 type bridge", "ip link set br0 up"],
            &lock,
        )?;
        let port = |nth: usize, far: &str, place: &str| {
            let tbf = Tbf::of_link(&link, link.down_bits).words().join(" ");
            let commands = [
                format!(
                    "ip link add p{nth} mtu {mtu} type veth peer name {far} mtu {mtu} netns {place}"
                ),
                format!("ip link set p{nth} master br0"),
                format!("ip link set p{nth} up"),
                format!("tc qdisc add dev p{nth} root {tbf}"),
            ];
            let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
            in_netns(Some(&switch), &commands, &lock)
        };
        let put_up = |netns: Option<&Path>, link: &str, host: usize| {
            let commands = [
                format!("ip address add {}/24 dev {link}", address(host)),
                format!("ip link set {link} up"),
            ];
            let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
            in_netns(netns, &commands, &lock)
        };
        port(0, &own, &here)?;
        put_up(None, &own, 0)?;
        for nth in 1..=count {
            let (netns, change) = add_netns(journal, "h")?;
            lab.changes.push(change);
            port(nth, "eth0", &netns.display().to_string())?;
            put_up(Some(&netns), "eth0", nth)?;
            in_netns(Some(&netns), &["ip link set lo up"], &lock)?;
            let host = lab.boot(
                nth,
                address(nth),
                &netns,
                of_host(cpus, nth).map_or(&[], Vec::as_slice),
                shim,
                [&unshare, &sshd],
            )?;
            lab.hosts.push(host);
        }
        lab.write_settings()?;
        lab.answer()?;
        for (nth, host) in (1..).zip(&lab.hosts) {
            let Some(cores) = of_host(quotas, nth).copied().flatten() else {
                continue;
            };
            let mut group = Group::around(&[host.init.pid()], &host.name, Control::Cpu, shim)?;
            group.set_quota(Some(cores))?;
            lab.quotas.push(group);
        }
        Ok(lab)
    }

    /// Its first process: mounts, then an sshd.
    fn boot(
        &self,
        nth: usize,
        address: Ipv4Addr,
        netns: &Path,
        cpus: &[u32],
        shim: &Shim,
        [unshare, sshd]: [&PathBuf; 2],
    ) -> Result<Host, TestbedError> {
        let name = format!("h{nth}");
        let keys = self.keys.path().display();
        let settings = format!(
            "ListenAddress {address}\nHostKey {keys}/host\nAuthorizedKeysFile {keys}/user.pub\nStrictModes no\n\
             UsePAM no\nPermitRootLogin prohibit-password\nPidFile none\n"
        );
        let file = format!("sshd-{name}");
        let written = self.keys.write(&file, settings.as_bytes());
        let written = written.map_err(|e| TestbedError::failed("set up sshd", e))?;
        let script = format!(
            "set -e; mount --make-rprivate /; mount -t proc proc /proc; mount -t tmpfs tmpfs /run; \
             mkdir /run/sshd /run/groups; mount --rbind /sys/fs/cgroup /run/groups; \
             mount -t sysfs sysfs /sys; mount --rbind /run/groups /sys/fs/cgroup; \
             for each in {OWN_FOLDERS}; do mount -t tmpfs tmpfs $each; done; \
             hostname {name}; exec {} -D -e -f {}",
            sshd.display(),
            written.display()
        );
        let ahead = CLOCK_AHEAD.as_secs() * nth as u64;
        let ahead = ahead.to_string();
        let clocks = ["--time", "--monotonic", &ahead, "--boottime", &ahead];
        // A kernel may have none of its own for a namespace.
        let has_clocks = Path::new("/proc/self/ns/time").exists();
        let others = [
            "--pid",
            "--mount",
            "--uts",
            "--fork",
            "--kill-child",
            "sh",
            "-c",
            &script,
        ];
        let clocks = clocks.into_iter().filter(|_| has_clocks);
        let args: Vec<String> = clocks.chain(others).map(str::to_owned).collect();
        let init = Child::start(ChildSpec {
            shim,
            program: unshare,
            args: &args,
            env: &[],
            cpus,
            place: &Place {
                netns: Some(netns.to_owned()),
                ..Place::default()
            },
            run_as: &RunAs::default(),
            stdin: None,
            stdout: Keep::Tail(SAID_BYTES_MAX),
            stderr: Keep::Tail(SAID_BYTES_MAX),
        });
        let init = init.map_err(|error| TestbedError::failed(format!("boot {name}"), error))?;
        Ok(Host {
            name,
            address: address.into(),
            netns: netns.to_owned(),
            init,
        })
    }

    /// How ssh reaches them: a file of its settings.
    fn write_settings(&self) -> Result<(), TestbedError> {
        let failed = |e: std::io::Error| TestbedError::failed("write settings of ssh", e);
        let keys = self.keys.path().display();
        let key = std::fs::read_to_string(self.keys.path().join("host.pub")).map_err(failed)?;
        let known: Vec<String> = self
            .hosts
            .iter()
            .map(|host| format!("{},{} {key}", host.name, host.address))
            .collect();
        self.keys
            .write("known", known.concat().as_bytes())
            .map_err(failed)?;
        let mut settings: String = self
            .hosts
            .iter()
            .map(|host| format!("Host {}\n  HostName {}\n", host.name, host.address))
            .collect();
        settings.push_str(&format!(
            "Host *\n  User root\n  IdentityFile {keys}/user\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {keys}/known\n  StrictHostKeyChecking yes\n  LogLevel ERROR\n"
        ));
        self.keys
            .write("config", settings.as_bytes())
            .map_err(failed)?;
        Ok(())
    }

    /// Waits until each takes connections.
    fn answer(&self) -> Result<(), TestbedError> {
        let since = Instant::now();
        for host in &self.hosts {
            let address = SocketAddr::new(host.address, SSH_PORT);
            while TcpStream::connect_timeout(&address, LOOK_EVERY).is_err() {
                self.stand()?;
                if since.elapsed() > BOOT_WAIT_MAX {
                    let what = format!("boot {}", host.name);
                    return Err(TestbedError::failed(what, "its sshd does not answer"));
                }
                sleep(LOOK_EVERY);
            }
        }
        Ok(())
    }

    /// They.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The settings that ssh reaches them by: `ssh -F FILE`.
    pub fn settings(&self) -> PathBuf {
        self.keys.path().join("config")
    }

    /// An error where a host is gone, with what its sshd said.
    pub fn stand(&self) -> Result<(), TestbedError> {
        match self.hosts.iter().find(|host| host.init.exited().is_some()) {
            None => Ok(()),
            Some(host) => {
                let said = host.init.stderr.text();
                Err(TestbedError::failed(
                    format!("keep {} up", host.name),
                    said.trim(),
                ))
            }
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // Control groups are the machine's: what an agent has squeezed by one it undoes itself, and with its host
        // goes the journal that says so.
        self.end_agents();
        self.hosts.clear();
        self.quotas.clear();
        while self.changes.pop().is_some() {}
    }
}

impl Hosts {
    /// Ends the agents on all hosts, and waits a while for them and for those who look after them.
    fn end_agents(&self) {
        let ids: Vec<u64> = self
            .hosts
            .iter()
            .filter_map(|host| namespace::netns_id(Some(&host.netns)).ok())
            .collect();
        let is_there = |pid: &u32| {
            let own = namespace::netns_id(Some(Path::new(&format!("/proc/{pid}/ns/net"))));
            own.is_ok_and(|id| ids.contains(&id))
        };
        let said = |pid: &u32, words: &[u8]| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.windows(words.len()).any(|part| part == words)
        };
        let of = |words: &[u8]| -> Vec<u32> {
            let all = numbers_of_processes().into_iter().filter(is_there);
            all.filter(|pid| said(pid, words)).collect()
        };
        for pid in of(b"agent\0--stdio") {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
        }
        let since = Instant::now();
        let is_any = || !of(b"agent\0--stdio").is_empty() || !of(b"__child\0--keep").is_empty();
        while is_any() && since.elapsed() < AGENTS_WAIT_MAX {
            sleep(Duration::from_millis(20));
        }
    }
}

/// What a host was given, by its number from 1.
fn of_host<T>(given: &[T], nth: usize) -> Option<&T> {
    given.get(nth - 1).or(given.last())
}

fn numbers_of_processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.collect()
}

fn needed(program: &str, package: &str) -> Result<PathBuf, TestbedError> {
    let beside = || {
        let path = Path::new("/usr/sbin").join(program);
        path.is_file().then_some(path)
    };
    on_path(program).or_else(beside).ok_or_else(|| {
        TestbedError::failed(
            "put up a lab of hosts",
            format!("{program} is not there (Debian: apt-get install {package})"),
        )
    })
}

fn make_key(keygen: &Path, keys: &Scratch, name: &str) -> Result<(), TestbedError> {
    let failed = |why: String| TestbedError::failed("make a key", why);
    let made = Command::new(keygen)
        .args([
            "-q",
            "-t",
            "ed25519",
            "-N",
            "",
            "-C",
            "wallfinder-lab",
            "-f",
        ])
        .arg(keys.path().join(name))
        .output()
        .map_err(|error| failed(error.to_string()))?;
    match made.status.success() {
        true => Ok(()),
        false => Err(failed(
            String::from_utf8_lossy(&made.stderr).trim().to_owned(),
        )),
    }
}

fn in_netns(
    netns: Option<&Path>,
    commands: &[&str],
    lock: &std::fs::File,
) -> Result<(), TestbedError> {
    commands.iter().try_for_each(|command| {
        let words: Vec<&str> = command.split_whitespace().collect();
        iproute::change(netns, &words, lock)
    })
}
