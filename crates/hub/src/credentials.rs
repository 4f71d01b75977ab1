//! Who somebody is at a hub: a file that holds the way there, the authority that vouches for the hub, and a secret key.
//!
//! A file of `nats` or `nsc` (`*.creds`, with a token that a cluster of one's own has signed) does as well; the way
//! there is then given beside it, and the system's authorities vouch.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_nats::ConnectOptions;
use serde::{Deserialize, Serialize};
use wallfinder_protocol::Grant;
use wallfinder_sys::clock;

/// Longest file of credentials.
const FILE_BYTES_MAX: u64 = 64 << 10;
/// How long the hub may take to answer a connection.
pub(crate) const CONNECT_WAIT_MAX: Duration = Duration::from_secs(15);
/// The same where there are others to dial.
const CONNECT_WAIT_OF_SEVERAL: Duration = Duration::from_secs(3);
/// Of several servers that of the other end alone may be lost: within [`PING_EVERY`] thrice it finds out, and it may dial
/// for [`CONNECT_WAIT_OF_SEVERAL`] in vain before it is at another. It may be silent for so much longer.
const SILENCE_MORE_OF_SEVERAL: Duration = Duration::from_secs(2);
/// How often a silent connection is tried. One that answers twice no more is given up, sooner than the other end of a
/// session is taken for gone.
const PING_EVERY: Duration = Duration::from_secs(1);
/// The longest pause before the hub is dialled again: a hub that comes back within a lease has lost nothing.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// So much longer one may be, so that a thousand agents do not dial at once.
const SPREAD_MS: u64 = 250;
const TOKEN_BEGINS: &str = "-----BEGIN NATS USER JWT-----";

/// Credentials that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {why}", path.display())]
pub struct CredentialsError {
    /// Their file.
    pub path: PathBuf,
    /// Why, in a sentence.
    pub why: String,
}

/// One identity at one hub.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credentials {
    /// Where the hub is reached, such as `tls://10.0.0.1:4222`; any of them.
    pub servers: Vec<String>,
    /// What the agent is called; a controller has no name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the agent may be asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub grants: Vec<Grant>,
    /// The secret.
    key: String,
    /// The certificate of who vouches for the hub, as PEM; without one the system's authorities do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authority: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("servers", &self.servers)
            .field("name", &self.name)
            .field("grants", &self.grants)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    pub(crate) fn new(
        server: &str,
        authority: &str,
        key: String,
        agent: Option<(&str, &[Grant])>,
    ) -> Credentials {
        Credentials {
            servers: vec![server.to_owned()],
            name: agent.map(|(name, _)| name.to_owned()),
            grants: agent.map_or(Vec::new(), |(_, grants)| grants.to_vec()),
            key,
            authority: Some(authority.to_owned()),
        }
    }

    /// Reads them; `-` is standard input. A file that others can read is refused.
    pub fn read(path: &Path) -> Result<Credentials, CredentialsError> {
        let wrong = |why: String| CredentialsError {
            path: path.to_owned(),
            why,
        };
        let text = if path == Path::new("-") {
            text_of(io::stdin())
        } else {
            let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
            let mode = file.metadata().map(|found| found.permissions().mode());
            let mode = mode.map_err(|error| wrong(error.to_string()))?;
            if mode & 0o077 != 0 {
                let why = "others can read it, and it is a secret: chmod 600 it";
                return Err(wrong(why.to_owned()));
            }
            text_of(file)
        };
        Credentials::parse(&text.map_err(|error| wrong(error.to_string()))?).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Credentials, String> {
        if text.contains(TOKEN_BEGINS) {
            return Ok(Credentials {
                servers: Vec::new(),
                name: None,
                // A token says nothing of them: the agent's own flags do.
                grants: Grant::ALL.to_vec(),
                key: text.to_owned(),
                authority: None,
            });
        }
        let read: Credentials = serde_json::from_str(text).map_err(|error| {
            format!(
                "it holds no credentials of a hub (as `wallfinder hub invite` writes them) nor of NATS: {error}"
            )
        })?;
        let wrong = read.name.iter().find(|name| !crate::is_name(name));
        match wrong {
            Some(name) => Err(format!("`{name}` is no name of an agent")),
            None => Ok(read),
        }
    }

    /// What is granted where the agent's own flags name nothing.
    pub fn default_grants(&self) -> &[Grant] {
        match self.key.contains(TOKEN_BEGINS) {
            true => &Grant::DEFAULT,
            false => &self.grants,
        }
    }

    /// Writes them where nobody else reads them.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        write_secret(path, text.as_bytes())
    }

    /// How long the other end of a session may be silent, where that is `most` with one server.
    pub(crate) fn silence_max(&self, most: Duration) -> Duration {
        match self.servers.len() {
            0 | 1 => most,
            _ => most + SILENCE_MORE_OF_SEVERAL,
        }
    }

    /// How to connect with them. Nothing is said to who is not vouched for.
    pub(crate) fn options(&self) -> Result<Connecting, String> {
        let mut options = match self.key.contains(TOKEN_BEGINS) {
            true => ConnectOptions::with_credentials(&self.key)
                .map_err(|error| format!("its credentials cannot be read: {error}"))?,
            false => ConnectOptions::with_nkey(self.key.clone()),
        };
        let authority = self.authority.as_deref().map(nameless).transpose();
        let authority = authority.map_err(|error| error.to_string())?;
        if let Some(file) = &authority {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            options = options.add_root_certificates(path.into());
        }
        let options = options
            .require_tls(true)
            .ignore_discovered_servers()
            .connection_timeout(match self.servers.len() {
                0 | 1 => CONNECT_WAIT_MAX,
                _ => CONNECT_WAIT_OF_SEVERAL,
            })
            .ping_interval(PING_EVERY)
            .reconnect_delay_callback(|attempt| {
                let spread = Duration::from_millis(clock::monotonic_ns() % SPREAD_MS);
                pause(attempt) + spread
            });
        Ok(Connecting {
            options,
            servers: self.servers.clone(),
            authority,
        })
    }
}

/// What a connection is made with.
pub(crate) struct Connecting {
    pub(crate) options: ConnectOptions,
    pub(crate) servers: Vec<String>,
    /// Read whenever the hub is dialled.
    pub(crate) authority: Option<File>,
}

/// Before the attempt of this number.
fn pause(attempt: usize) -> Duration {
    let doubled = Duration::from_millis(50) * 2_u32.saturating_pow(attempt.min(10) as u32);
    match attempt {
        0 | 1 => Duration::ZERO,
        _ => doubled.min(PAUSE_MAX),
    }
}

fn text_of(from: impl Read) -> io::Result<String> {
    let mut text = String::new();
    from.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// A file in memory, for a library that reads certificates by their path.
fn nameless(text: &str) -> io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::memfd_create("authority", flags)?);
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// Puts a secret into a file of this name at once, and to disk.
pub(crate) fn write_secret(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(&fresh)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    written
        .and_then(|()| fs::rename(&fresh, path))
        .inspect_err(|_| drop(fs::remove_file(&fresh)))?;
    // The name is on disk when its folder is.
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_agent() -> Credentials {
        let agent = Some(("c1", &[Grant::Load][..]));
        Credentials::new(
            "tls://10.0.0.1:4222",
            "a certificate",
            "SECRET".into(),
            agent,
        )
    }

    #[test]
    fn credentials_are_read_as_they_are_written_and_only_where_nobody_else_can() {
        let path = std::env::temp_dir().join(format!("wf-credentials-{}", std::process::id()));
        of_agent().write(&path).unwrap();
        assert_eq!(Credentials::read(&path), Ok(of_agent()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let why = Credentials::read(&path).unwrap_err().to_string();
        assert!(why.contains("chmod 600"), "{why}");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_secret_is_in_no_message_to_developers() {
        assert!(!format!("{:?}", of_agent()).contains("SECRET"));
    }

    #[test]
    fn what_holds_no_credentials_is_refused() {
        for text in [
            "",
            "{}",
            "{\"servers\":[],\"key\":\"x\",\"name\":\"a.b\"}",
            "x",
        ] {
            assert!(Credentials::parse(text).is_err(), "{text}");
        }
        let token = format!("{TOKEN_BEGINS}\nx\n");
        assert!(Credentials::parse(&token).unwrap().servers.is_empty());
    }

    #[test]
    fn a_token_grants_no_squeeze_unless_the_agent_says_so() {
        let token = Credentials::parse(&format!("{TOKEN_BEGINS}\nx\n")).unwrap();
        assert_eq!(token.default_grants(), Grant::DEFAULT);
        assert_eq!(token.grants, Grant::ALL);
        assert_eq!(of_agent().default_grants(), [Grant::Load]);
    }

    #[test]
    fn the_hub_is_dialled_at_ever_longer_pauses() {
        let pauses: Vec<Duration> = (0..20).map(pause).collect();
        assert!(pauses.is_sorted() && pauses[1].is_zero());
        assert_eq!(pauses.last(), Some(&PAUSE_MAX));
    }
}
