//! The folder of a hub: its authority, who was invited, and what the server of messages is told.
//!
//! ```text
//!  hub.json          where it listens, and each identity's public key with its grants
//!  controller.json   credentials of who conducts
//!  agents/NAME.json  credentials of an agent, to be taken there
//!  authority.pem     and server.pem, with their keys
//!  nats.json         what nats-server reads: written from hub.json by the hub that runs
//!  applied           the edit of hub.json that the server was told of last
//! ```
//!
//! `invite` and `revoke` edit `hub.json` under a lock; the hub that runs notices.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nkeys::KeyPair;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use wallfinder_protocol::Grant;

use crate::authority::{self, SERVER, SERVER_KEY};
use crate::credentials::{Credentials, write_secret};
use crate::subjects;

const STATE: &str = "hub.json";
const CONTROLLER: &str = "controller.json";
const AGENTS: &str = "agents";
const SETTINGS: &str = "nats.json";
const APPLIED: &str = "applied";
/// Held while `hub.json` is edited.
const EDITED: &str = "edited.lock";
/// Held by the hub that runs.
const RUNS: &str = "runs.lock";
/// Where a hub listens unless it is told.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4222);
/// How long a handshake may take: a thousand agents dial at once when a hub comes back.
const HANDSHAKE_WITHIN_S: u64 = 15;
/// How long the hub that runs may take to apply an edit.
const APPLY_WAIT_MAX: Duration = Duration::from_secs(10);

/// Something about a hub's folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// The system's word.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// In its words.
        error: io::Error,
    },
    /// There is none.
    #[error("{} is no folder of a hub: `wallfinder hub --dir` makes one", path.display())]
    NoHub {
        /// The folder.
        path: PathBuf,
    },
    /// Another hub runs from it.
    #[error("a hub runs from {} already", path.display())]
    Runs {
        /// The folder.
        path: PathBuf,
    },
    /// Others may put files there.
    #[error("others may write to {}, which holds secrets: chmod 700 it", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
    },
    /// A name that no agent may have.
    #[error("`{name}` is no name of an agent: small letters, digits and hyphens, 63 at the most")]
    BadName {
        /// As given.
        name: String,
    },
    /// It was invited already.
    #[error("`{name}` was invited already; `wallfinder hub revoke {name}` comes first")]
    Invited {
        /// Whose.
        name: String,
    },
    /// It was never invited, or was revoked.
    #[error("no agent `{name}` is invited{}", listed(known))]
    NotInvited {
        /// As given.
        name: String,
        /// Who is.
        known: Vec<String>,
    },
    /// Every address of this host is none that another can dial.
    #[error(
        "{listen} is every address of this host: name the one that agents dial with --reached-as"
    )]
    NoAddress {
        /// Where it is to listen.
        listen: SocketAddr,
    },
    /// The hub that runs did not notice an edit.
    #[error("the hub that runs did not take the change within {APPLY_WAIT_MAX:?}")]
    NotApplied,
}

fn listed(known: &[String]) -> String {
    match known {
        [] => String::new(),
        known => format!("; there are {}", known.join(", ")),
    }
}

/// An agent that was invited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its public key.
    key: String,
    /// What it may be asked for.
    pub grants: Vec<Grant>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    listen: SocketAddr,
    /// How agents reach it: a name or an address, with the port.
    reached_as: String,
    /// Whether that was given, and is not just where it listens.
    #[serde(default)]
    is_named: bool,
    /// The controller's public key.
    controller: String,
    agents: BTreeMap<String, Identity>,
    /// Counts every change.
    edits: u64,
}

/// What came of an invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invited {
    /// The file of its credentials.
    pub path: PathBuf,
    /// What is typed on the other machine. It holds the secret, for a shell's own `echo`.
    pub line: String,
}

/// Held by the hub that runs from a folder, so that no other does.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

/// The folder of a hub.
#[derive(Debug, Clone)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// One that is there.
    pub fn open(path: &Path) -> Result<Folder, FolderError> {
        let folder = Folder {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        };
        match folder.path.join(STATE).is_file() {
            true => Ok(folder),
            false => Err(FolderError::NoHub {
                path: path.to_owned(),
            }),
        }
    }

    /// One that is there, or a new one, for the hub that will run from it: it is changed where no other hub does. Where it
    /// is to listen and how it is reached changes only what is given.
    pub fn make(
        path: &Path,
        listen: Option<SocketAddr>,
        reached_as: Option<&str>,
    ) -> Result<(Folder, RunLock), FolderError> {
        let folder = Folder {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        };
        let agents = folder.path.join(AGENTS);
        let mut making = fs::DirBuilder::new();
        let made = making.recursive(true).mode(0o700).create(&agents);
        made.map_err(at(&agents))?;
        for folder in [&folder.path, &agents] {
            let found = fs::metadata(folder).map_err(at(folder))?;
            if found.permissions().mode() & 0o022 != 0 {
                return Err(FolderError::NotOurs {
                    path: folder.to_owned(),
                });
            }
        }
        let runs = folder.run()?;
        let _lock = folder.locked(EDITED)?;
        let authority = authority::authority(&folder.path).map_err(at(&folder.path))?;
        let (mut state, is_new) = match folder.path.join(STATE).is_file() {
            true => (folder.state()?, false),
            false => (folder.first()?, true),
        };
        let listen = listen.unwrap_or(state.listen);
        if is_new || listen != state.listen || reached_as.is_some() {
            // A name that was given stays, at the port that is listened to now.
            let kept = state
                .is_named
                .then(|| host_of(&state.reached_as).to_owned());
            state.is_named |= reached_as.is_some();
            state.reached_as = reached_at(listen, reached_as.or(kept.as_deref()))?;
            state.listen = listen;
            let names = names_of(&state);
            authority::vouch(&folder.path, &names).map_err(at(&folder.path))?;
            folder.readdress(&state)?;
        }
        let controller = folder.path.join(CONTROLLER);
        let mut credentials = match is_new {
            true => {
                let key = KeyPair::new_user();
                state.controller = key.public_key();
                let seed = key.seed().map_err(io::Error::other);
                let seed = seed.map_err(at(&controller))?;
                Credentials::new("", &authority, seed, None)
            }
            false => Credentials::read(&controller).map_err(|error| FolderError::Io {
                path: controller.clone(),
                error: io::Error::other(error.why),
            })?,
        };
        credentials.servers = vec![state.server_here()];
        credentials.write(&controller).map_err(at(&controller))?;
        folder.keep(state)?;
        Ok((folder, runs))
    }

    /// Agents that were invited are told where it is from now on, by whoever reads their credentials here.
    fn readdress(&self, state: &State) -> Result<(), FolderError> {
        for name in state.agents.keys() {
            let path = self.path.join(AGENTS).join(format!("{name}.json"));
            // What was taken away holds no address.
            if let Ok(mut credentials) = Credentials::read(&path) {
                credentials.servers = vec![state.server()];
                credentials.write(&path).map_err(at(&path))?;
            }
        }
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The controller's credentials.
    pub fn controller(&self) -> PathBuf {
        self.path.join(CONTROLLER)
    }

    /// Where agents reach it, as a URL.
    pub fn server(&self) -> Result<String, FolderError> {
        Ok(self.state()?.server())
    }

    /// Who was invited, by name.
    pub fn agents(&self) -> Result<BTreeMap<String, Identity>, FolderError> {
        Ok(self.state()?.agents)
    }

    /// Makes an identity for an agent, with credentials that name these grants. Returns when the hub that runs knows it.
    pub fn invite(&self, name: &str, grants: &[Grant]) -> Result<Invited, FolderError> {
        let edit = self.edit(|state| self.identify(state, name, grants))?;
        self.wait_until_applied(edit)?;
        self.invited(name)
    }

    /// The same for each of these that was not invited before, by the hub that is about to run.
    pub fn invite_first(
        &self,
        _lock: &RunLock,
        names: &[String],
        grants: &[Grant],
    ) -> Result<(), FolderError> {
        // Looked at first: no credentials are written that no hub knows.
        if let Some(name) = names.iter().find(|name| !crate::is_name(name)) {
            let name = name.clone();
            return Err(FolderError::BadName { name });
        }
        self.edit(|state| {
            let mut each = names.iter();
            each.try_for_each(|name| match state.agents.contains_key(name) {
                true => Ok(()),
                false => self.identify(state, name, grants),
            })
        })?;
        Ok(())
    }

    fn identify(&self, state: &mut State, name: &str, grants: &[Grant]) -> Result<(), FolderError> {
        let name = name.to_owned();
        if !crate::is_name(&name) {
            return Err(FolderError::BadName { name });
        }
        if state.agents.contains_key(&name) {
            return Err(FolderError::Invited { name });
        }
        let path = self.path.join(AGENTS).join(format!("{name}.json"));
        let key = KeyPair::new_user();
        let seed = key.seed().map_err(io::Error::other).map_err(at(&path))?;
        let authority = authority::authority(&self.path).map_err(at(&self.path))?;
        let credentials =
            Credentials::new(&state.server(), &authority, seed, Some((&name, grants)));
        credentials.write(&path).map_err(at(&path))?;
        let identity = Identity {
            key: key.public_key(),
            grants: grants.to_vec(),
        };
        state.agents.insert(name, identity);
        Ok(())
    }

    /// What was invited before, once more, while its credentials are in the folder.
    pub fn invited(&self, name: &str) -> Result<Invited, FolderError> {
        let path = self.path.join(AGENTS).join(format!("{name}.json"));
        let text = fs::read(&path).map_err(at(&path))?;
        let line = format!(
            "echo {} | base64 -d | wallfinder agent --join -",
            STANDARD.encode(text)
        );
        Ok(Invited { path, line })
    }

    /// Takes an identity back. Returns when the hub that runs has put its agent out.
    pub fn revoke(&self, name: &str) -> Result<(), FolderError> {
        let edit = self.edit(|state| match state.agents.remove(name) {
            Some(_) => Ok(()),
            None => Err(FolderError::NotInvited {
                name: name.to_owned(),
                known: state.agents.keys().cloned().collect(),
            }),
        })?;
        let _ = fs::remove_file(self.path.join(AGENTS).join(format!("{name}.json")));
        self.wait_until_applied(edit)
    }

    /// Whether a hub runs from it.
    pub fn is_run(&self) -> bool {
        let lock = lock_file(&self.path.join(RUNS));
        // Shared, so that two who ask do not find each other.
        lock.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
    }

    fn run(&self) -> Result<RunLock, FolderError> {
        let path = self.path.join(RUNS);
        let file = lock_file(&path).map_err(at(&path))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(RunLock { _file: file }),
            Err(_) => Err(FolderError::Runs {
                path: self.path.clone(),
            }),
        }
    }

    /// The number of the last edit.
    pub(crate) fn edits(&self) -> Result<u64, FolderError> {
        Ok(self.state()?.edits)
    }

    /// Writes what nats-server reads; gives its file, and the edit that it is of.
    pub(crate) fn write_settings(&self) -> Result<(PathBuf, u64), FolderError> {
        let (state, path) = (self.state()?, self.path.join(SETTINGS));
        let text = serde_json::to_string_pretty(&settings(&state, &self.path));
        let text = text.map_err(io::Error::from).map_err(at(&path))?;
        write_secret(&path, text.as_bytes()).map_err(at(&path))?;
        Ok((path, state.edits))
    }

    /// The server of messages has taken this edit.
    pub(crate) fn applied(&self, edit: u64) -> Result<(), FolderError> {
        let path = self.path.join(APPLIED);
        write_secret(&path, edit.to_string().as_bytes()).map_err(at(&path))
    }

    fn wait_until_applied(&self, edit: u64) -> Result<(), FolderError> {
        let path = self.path.join(APPLIED);
        let is_applied = || {
            let applied = fs::read_to_string(&path).unwrap_or_default();
            applied.parse().is_ok_and(|applied: u64| applied >= edit)
        };
        let since = Instant::now();
        while self.is_run() && !is_applied() {
            if since.elapsed() > APPLY_WAIT_MAX {
                return Err(FolderError::NotApplied);
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn first(&self) -> Result<State, FolderError> {
        Ok(State {
            listen: LISTEN,
            reached_as: String::new(),
            is_named: false,
            controller: String::new(),
            agents: BTreeMap::new(),
            edits: 0,
        })
    }

    fn state(&self) -> Result<State, FolderError> {
        let path = self.path.join(STATE);
        let text = fs::read(&path).map_err(at(&path))?;
        serde_json::from_slice(&text)
            .map_err(io::Error::from)
            .map_err(at(&path))
    }

    fn edit(
        &self,
        what: impl FnOnce(&mut State) -> Result<(), FolderError>,
    ) -> Result<u64, FolderError> {
        let _lock = self.locked(EDITED)?;
        let mut state = self.state()?;
        what(&mut state)?;
        self.keep(state)
    }

    fn keep(&self, mut state: State) -> Result<u64, FolderError> {
        let path = self.path.join(STATE);
        state.edits += 1;
        let text = serde_json::to_string_pretty(&state).map_err(io::Error::from);
        let written = text.and_then(|text| write_secret(&path, text.as_bytes()));
        written.map_err(at(&path))?;
        Ok(state.edits)
    }

    fn locked(&self, name: &str) -> Result<File, FolderError> {
        let path = self.path.join(name);
        let file = lock_file(&path).map_err(at(&path))?;
        let locked = flock(&file, FlockOperation::LockExclusive);
        locked.map_err(|error| at(&path)(error.into()))?;
        Ok(file)
    }
}

impl State {
    fn server(&self) -> String {
        format!("tls://{}", self.reached_as)
    }

    /// The same from this host.
    fn server_here(&self) -> String {
        let mut listen = self.listen;
        if listen.ip().is_unspecified() {
            listen.set_ip(match listen {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        format!("tls://{listen}")
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> FolderError + '_ {
    move |error| FolderError::Io {
        path: path.to_owned(),
        error,
    }
}

fn lock_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.open(path)
}

/// How a hub is reached that listens there; `given` may leave the port out.
fn reached_at(listen: SocketAddr, given: Option<&str>) -> Result<String, FolderError> {
    match given {
        Some(given) => {
            let has_port = given.parse::<SocketAddr>().is_ok()
                || (!given.contains('[') && given.matches(':').count() == 1);
            Ok(match (has_port, given.parse::<IpAddr>()) {
                (true, _) => given.to_owned(),
                (false, Ok(ip)) => SocketAddr::new(ip, listen.port()).to_string(),
                (false, Err(_)) => format!("{given}:{}", listen.port()),
            })
        }
        None if listen.ip().is_unspecified() => Err(FolderError::NoAddress { listen }),
        None => Ok(listen.to_string()),
    }
}

/// Without its port.
fn host_of(reached_as: &str) -> &str {
    let host = reached_as.rsplit_once(':');
    host.map_or(reached_as, |(host, _)| host)
        .trim_matches(['[', ']'])
}

/// Names and addresses that the hub is vouched for under.
fn names_of(state: &State) -> Vec<String> {
    let mut names = vec![host_of(&state.reached_as).to_owned()];
    names.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    if !state.listen.ip().is_unspecified() {
        names.push(state.listen.ip().to_string());
    }
    names.sort();
    names.dedup();
    names
}

/// What nats-server is told: TLS for all, an identity for each, and what it may say and hear.
fn settings(state: &State, folder: &Path) -> Value {
    let user = |key: &str, [publish, subscribe]: [Vec<String>; 2]| {
        json!({
            "nkey": key,
            "permissions": {
                "publish": { "allow": publish },
                "subscribe": { "allow": subscribe },
            },
        })
    };
    let mut users = vec![user(&state.controller, subjects::of_controller())];
    let agents = state.agents.iter();
    users.extend(agents.map(|(name, of)| user(&of.key, subjects::of_agent(name))));
    json!({
        "server_name": "wallfinder-hub",
        "listen": state.listen.to_string(),
        "max_payload": 1 << 20,
        "ping_interval": "2s",
        "ping_max": 3,
        "write_deadline": "5s",
        "tls": {
            "cert_file": folder.join(SERVER),
            "key_file": folder.join(SERVER_KEY),
            "min_version": "1.3",
            "timeout": HANDSHAKE_WITHIN_S,
        },
        "authorization": { "timeout": HANDSHAKE_WITHIN_S, "users": users },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("wf-hub-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn who_was_invited_has_an_identity_until_it_is_revoked() {
        let path = folder("invited");
        assert!(matches!(
            Folder::open(&path),
            Err(FolderError::NoHub { .. })
        ));
        let (hub, lock) = Folder::make(&path, None, None).unwrap();
        drop(lock);
        let invited = hub.invite("c1", &[Grant::Load]).unwrap();
        let credentials = Credentials::read(&invited.path).unwrap();
        assert_eq!(credentials.name.as_deref(), Some("c1"));
        assert_eq!(credentials.grants, [Grant::Load]);
        assert_eq!(credentials.servers, ["tls://127.0.0.1:4222"]);
        let again = hub.invite("c1", &[]).unwrap_err();
        assert!(matches!(again, FolderError::Invited { .. }));
        let settings = |hub: &Folder| fs::read_to_string(hub.write_settings().unwrap().0).unwrap();
        let key = hub.agents().unwrap()["c1"].key.clone();
        assert!(settings(&hub).contains(&key));
        // The secret is in the credentials alone.
        let seed: Value = serde_json::from_slice(&fs::read(&invited.path).unwrap()).unwrap();
        assert!(!settings(&hub).contains(seed["key"].as_str().unwrap()));
        hub.revoke("c1").unwrap();
        assert!(!settings(&hub).contains(&key) && !invited.path.exists());
        let why = hub.revoke("c1").unwrap_err().to_string();
        assert!(why.contains("no agent `c1` is invited"), "{why}");
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn who_is_invited_twice_at_once_has_one_key_and_nobody_is_where_a_name_is_none() {
        let path = folder("twice");
        let (hub, lock) = Folder::make(&path, None, None).unwrap();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let wrong: Vec<String> = names(&["c1", "C 2"]);
        let refused = hub.invite_first(&lock, &wrong, &[]).unwrap_err();
        assert!(matches!(refused, FolderError::BadName { .. }));
        assert_eq!(fs::read_dir(path.join(AGENTS)).unwrap().count(), 0);
        let twice: Vec<String> = names(&["c1", "c1"]);
        hub.invite_first(&lock, &twice, &[]).unwrap();
        let text = fs::read(path.join("agents/c1.json")).unwrap();
        let secret: Value = serde_json::from_slice(&text).unwrap();
        let own = KeyPair::from_seed(secret["key"].as_str().unwrap()).unwrap();
        assert_eq!(hub.agents().unwrap()["c1"].key, own.public_key());
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_hub_that_is_made_again_is_the_same() {
        let path = folder("again");
        let (hub, lock) = Folder::make(&path, None, None).unwrap();
        drop(lock);
        let before = Credentials::read(&hub.controller()).unwrap();
        hub.invite("c1", &[]).unwrap();
        let listen = "127.0.0.2:4333".parse().unwrap();
        let (hub, lock) = Folder::make(&path, Some(listen), Some("hub.example")).unwrap();
        let after = Credentials::read(&hub.controller()).unwrap();
        assert_eq!(after.servers, ["tls://127.0.0.2:4333"]);
        let mut same = before;
        same.servers = after.servers.clone();
        assert_eq!(after, same);
        assert_eq!(hub.server().unwrap(), "tls://hub.example:4333");
        assert!(hub.agents().unwrap().contains_key("c1"));
        // Who reads its credentials here from now on dials where it is; and a name that was given stays.
        let agent = || Credentials::read(&path.join("agents/c1.json")).unwrap();
        let secret = agent();
        assert_eq!(secret.servers, ["tls://hub.example:4333"]);
        drop(lock);
        let listen = "0.0.0.0:4444".parse().unwrap();
        let (hub, _lock) = Folder::make(&path, Some(listen), None).unwrap();
        assert_eq!(hub.server().unwrap(), "tls://hub.example:4444");
        let mut moved = agent();
        assert_eq!(moved.servers, ["tls://hub.example:4444"]);
        moved.servers = secret.servers.clone();
        assert_eq!(moved, secret);
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let path = folder("lax");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let refused = Folder::make(&path, None, None).unwrap_err();
        assert!(matches!(refused, FolderError::NotOurs { .. }));
        fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn how_a_hub_is_reached_is_asked_for_where_it_cannot_be_told() {
        let at = |listen: &str, given| reached_at(listen.parse().unwrap(), given);
        assert!(at("0.0.0.0:4222", None).is_err());
        for (given, reached) in [
            ("db1", "db1:4222"),
            ("db1:7", "db1:7"),
            ("10.0.0.1", "10.0.0.1:4222"),
            ("fd00::1", "[fd00::1]:4222"),
            ("[fd00::1]:7", "[fd00::1]:7"),
        ] {
            assert_eq!(at("0.0.0.0:4222", Some(given)).unwrap(), reached);
        }
    }

    #[test]
    fn one_hub_runs_from_a_folder() {
        let path = folder("runs");
        let (hub, lock) = Folder::make(&path, None, None).unwrap();
        assert!(hub.is_run());
        let state = || fs::read(path.join(STATE)).unwrap();
        let before = state();
        let listen = Some("127.0.0.2:4333".parse().unwrap());
        let second = Folder::make(&path, listen, None).unwrap_err();
        assert!(matches!(second, FolderError::Runs { .. }));
        assert!(state() == before, "it changed nothing");
        drop(lock);
        assert!(!hub.is_run());
        fs::remove_dir_all(&path).unwrap();
    }
}
