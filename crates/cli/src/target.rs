//! A URL as the user gives it: taken apart, resolved, and refused where no load may go.

use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use wallfinder_model::Target;
use wallfinder_stage::redact::is_telling;

use crate::exit::Failed;

/// The host name that stands for a subject which Wallfinder started itself.
pub(crate) const SUBJECT_HOST: &str = "subject";

/// How long a host's addresses are tried for, each, where there are several.
const CONNECT_PATIENCE: Duration = Duration::from_secs(1);

/// A URL taken apart: what the request needs, and what the record may show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    /// Host as written, brackets of IPv6 taken off.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// `host[:port]` as the Host field wants it.
    pub(crate) authority: String,
    /// Path and query, as the request line wants them.
    pub(crate) path_and_query: String,
    /// `user:password`, not yet encoded.
    pub(crate) user_info: Option<String>,
}

impl Url {
    /// Parses `http://[user:password@]host[:port][/path][?query]`, `tcp://host:port` and
    /// `grpc://[user:password@]host:port/package.Service/Method`, each with an `s` for TLS; a
    /// missing scheme is http.
    pub(crate) fn parse(text: &str) -> Result<Url, Failed> {
        let bad = |why: &str| Failed::usage(format!("`{}` is not a target: {why}", redact(text)));
        if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(bad("it has white space or control characters"));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        match scheme {
            "http" | "https" | "tcp" | "tcps" | "grpc" | "grpcs" => {}
            _ => {
                return Err(bad(
                    "only http://, tcp:// and grpc:// are supported, and the same with an s for TLS",
                ));
            }
        }
        let protocol = protocol_of(scheme);
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (place, path) = rest.split_at(end);
        let (user_info, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user.to_owned()), place),
            None => (None, place),
        };
        let (host, port) = split_port(place).ok_or_else(|| bad("the port is not a number"))?;
        if host.is_empty() {
            return Err(bad("it has no host, such as http://127.0.0.1:8083/simple"));
        }
        let path_and_query = match (protocol, path) {
            ("tcp", "" | "/") => String::new(),
            ("tcp", _) => {
                return Err(bad(&format!(
                    "{scheme}:// has no path, such as {scheme}://127.0.0.1:9000"
                )));
            }
            ("grpc", path) if !is_method(path) => {
                return Err(bad(&format!(
                    "{scheme}:// names a method, such as {scheme}://127.0.0.1:9000/package.Service/Method"
                )));
            }
            (_, path) if path.starts_with('/') => path.to_owned(),
            (_, path) => format!("/{path}"),
        };
        let port = match (scheme, port) {
            (_, Some(port)) => port,
            ("http", None) => 80,
            ("https", None) => 443,
            (_, None) => return Err(bad(&format!("{scheme}:// needs a port"))),
        };
        Ok(Url {
            scheme: scheme.to_owned(),
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            authority: place.to_owned(),
            path_and_query,
            user_info,
        })
    }

    /// What is spoken, under TLS or not: `http`, `tcp` or `grpc`.
    pub(crate) fn protocol(&self) -> &str {
        protocol_of(&self.scheme)
    }

    /// Whether it is spoken under TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.scheme.ends_with('s')
    }

    /// The path without its query.
    pub(crate) fn path(&self) -> &str {
        self.path_and_query.split('?').next().unwrap_or("/")
    }

    /// The URL as it may be shown: user information and secret-looking values are `***`.
    pub(crate) fn shown(&self) -> String {
        let user = if self.user_info.is_some() { "***@" } else { "" };
        let (path, query) = match self.path_and_query.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (self.path_and_query.as_str(), None),
        };
        let query = query
            .map(|query| format!("?{}", redact_query(query)))
            .unwrap_or_default();
        format!("{}://{user}{}{path}{query}", self.scheme, self.authority)
    }

    /// Finds the address, `subject` being that of the subject's, and refuses what no load
    /// may be sent to unless the user has named the host.
    pub(crate) fn resolve(
        &self,
        subject: Option<SocketAddr>,
        allowed_hosts: &[String],
    ) -> Result<SocketAddr, Failed> {
        if self.host == SUBJECT_HOST
            && let Some(address) = subject
        {
            return Ok(address);
        }
        let addresses = addresses_of(&self.host, self.port)?;
        for address in &addresses {
            refuse_unless_allowed(&self.host, *address, allowed_hosts)?;
        }
        listening(&addresses)
            .ok_or_else(|| Failed::run(format!("`{}` has no address (net.name)", self.host)))
    }

    /// The URL as another program is given it: secrets included, the host as an address.
    pub(crate) fn with_address(&self, address: SocketAddr) -> String {
        let user = self
            .user_info
            .as_ref()
            .map(|user| format!("{user}@"))
            .unwrap_or_default();
        format!("{}://{user}{address}{}", self.scheme, self.path_and_query)
    }

    /// What must not be shown, whoever says it: user information, its password, values of
    /// secret-looking query fields.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let mut secrets: Vec<String> = self.user_info.iter().cloned().collect();
        let password = self
            .user_info
            .iter()
            .filter_map(|info| info.split_once(':'));
        secrets.extend(password.map(|(_, password)| password.to_owned()));
        if let Some((_, query)) = self.path_and_query.split_once('?') {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let secret = pairs.filter(|(name, _)| is_telling(name));
            secrets.extend(secret.map(|(_, value)| value.to_owned()));
        }
        secrets.retain(|secret| !secret.is_empty());
        secrets
    }

    /// What the record keeps.
    pub(crate) fn target(&self, address: SocketAddr) -> Target {
        Target {
            url: self.shown(),
            scheme: self.scheme.clone(),
            host: self.host.clone(),
            port: self.port,
            path: self.path().to_owned(),
            address: address.to_string(),
            tls: None,
        }
    }
}

/// What a scheme speaks, under TLS or not.
fn protocol_of(scheme: &str) -> &str {
    scheme.strip_suffix('s').unwrap_or(scheme)
}

/// `/package.Service/Method`.
fn is_method(path: &str) -> bool {
    let names: Vec<&str> = path.split('/').collect();
    let named = |name: &str| !name.is_empty() && !name.contains('?');
    matches!(names.as_slice(), ["", service, method] if named(service) && named(method))
}

fn split_port(place: &str) -> Option<(&str, Option<u16>)> {
    if let Some(end) = place.find(']') {
        let (host, rest) = place.split_at(end + 1);
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None if rest.is_empty() => Some((host, None)),
            None => None,
        };
    }
    match place.split_once(':') {
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((place, None)),
    }
}

/// What a name service may take, all of its tries together.
const NAME_PATIENCE: Duration = Duration::from_secs(10);

/// The addresses of a host. The resolver of the system knows no deadline: it is asked in a thread of
/// its own, which is left behind where it does not answer.
pub(crate) fn addresses_of(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failed> {
    let (answer, answered) = mpsc::channel();
    let asked = host.to_owned();
    thread::spawn(move || {
        let found = (asked.as_str(), port).to_socket_addrs();
        // Nobody listens any more where the deadline has passed.
        let _ = answer.send(found.map(Iterator::collect));
    });
    match answered.recv_timeout(NAME_PATIENCE) {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(Failed::run(format!(
            "`{host}` has no address (net.name): {error}"
        ))),
        Err(_) => Err(Failed::run(format!(
            "the name service did not answer for `{host}` within {} s (net.name_slow); \
             an address in its place needs none",
            NAME_PATIENCE.as_secs()
        ))),
    }
}

/// Of a host's addresses the first that takes a connection, for `localhost` is often two and a server
/// listens on one; else the first, whose errors are then told.
fn listening(addresses: &[SocketAddr]) -> Option<SocketAddr> {
    let takes =
        |address: &&SocketAddr| TcpStream::connect_timeout(address, CONNECT_PATIENCE).is_ok();
    let found = match addresses {
        [_] => None,
        several => several.iter().find(takes),
    };
    found.or(addresses.first()).copied()
}

/// Whether a load may go there without more words: loopback, private and unique-local
/// addresses; never link-local ones, where metadata services live.
fn refuse_unless_allowed(
    host: &str,
    address: SocketAddr,
    allowed_hosts: &[String],
) -> Result<(), Failed> {
    let ip = match address.ip() {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4),
        v4 => v4,
    };
    let (link_local, private) = match ip {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.is_loopback() || v4.is_private()),
        IpAddr::V6(v6) => {
            let first = v6.segments()[0];
            let link_local = first & 0xffc0 == 0xfe80 || v6.to_string() == "fd00:ec2::254";
            (link_local, v6.is_loopback() || first & 0xfe00 == 0xfc00)
        }
    };
    if link_local {
        return Err(Failed::usage(format!(
            "{host} is {ip}, a link-local address where metadata services live: never loaded"
        )));
    }
    if private || allowed_hosts.iter().any(|allowed| allowed == host) {
        return Ok(());
    }
    Err(Failed::usage(format!(
        "{host} is {ip}, which is not loopback, private or a lab address; \
         if you may load it, say so with --i-may-load {host}"
    )))
}

fn redact_query(query: &str) -> String {
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_telling(name) => format!("{name}=***"),
        _ => pair.to_owned(),
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// A word of the command line as it may be kept: user information of URLs, secret-looking
/// query values, and values of header fields with such names are `***`. A URL may lack its
/// scheme.
pub(crate) fn redact(word: &str) -> String {
    let (scheme, rest) = match word.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), word),
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (place, path) = rest.split_at(end);
    let url = !scheme.is_empty() || !word.contains(char::is_whitespace);
    let user_info = place.rfind('@').is_some_and(|at| at > 0);
    if url && (user_info || path.contains('?')) {
        let place = match place.rsplit_once('@') {
            Some((_, place)) if user_info => format!("***@{place}"),
            _ => place.to_owned(),
        };
        let path = match path.split_once('?') {
            Some((path, query)) => format!("{path}?{}", redact_query(query)),
            None => path.to_owned(),
        };
        return format!("{scheme}{place}{path}");
    }
    match word.split_once(':') {
        Some((name, _)) if is_telling(name) && !name.contains(char::is_whitespace) => {
            format!("{name}: ***")
        }
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_addresses_the_one_that_listens_is_taken() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let heard = listener.local_addr().unwrap();
        let deaf = SocketAddr::from(([127, 0, 0, 2], heard.port()));
        assert_eq!(listening(&[deaf, heard]), Some(heard));
        assert_eq!(listening(&[heard, deaf]), Some(heard));
        // One is not asked, and of several that are deaf the first is told of.
        assert_eq!(listening(&[deaf]), Some(deaf));
        drop(listener);
        assert_eq!(listening(&[deaf, heard]), Some(deaf));
        assert_eq!(listening(&[]), None);
    }

    #[test]
    fn a_url_comes_apart() {
        let url = Url::parse("http://127.0.0.1:8083/read?body=full#top").unwrap();
        assert_eq!((url.host.as_str(), url.port), ("127.0.0.1", 8083));
        assert_eq!(url.path_and_query, "/read?body=full");
        assert_eq!(url.path(), "/read");
        let url = Url::parse("localhost").unwrap();
        assert_eq!((url.port, url.path_and_query.as_str()), (80, "/"));
        let url = Url::parse("http://[::1]:80?x=1").unwrap();
        assert_eq!(
            (url.host.as_str(), url.path_and_query.as_str()),
            ("::1", "/?x=1")
        );
        let url = Url::parse("grpc://[::1]:9000/a.B/C").unwrap();
        assert_eq!((url.port, url.path()), (9000, "/a.B/C"));
        for text in [
            "grpc://h/a.B/C",
            "grpc://h:1",
            "grpc://h:1/a.B",
            "grpc://h:1/a.B/",
            "grpc://h:1/a.B/C/D",
            "grpc://h:1/a.B/C?x",
            "tcp://h",
            "",
            "http://",
            "ftp://x",
            "http://a:b/",
            "http://a b/",
            "http://:80/",
        ] {
            assert!(Url::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        let url = Url::parse("http://me:hush@127.0.0.1/x?api_key=1&page=2").unwrap();
        assert_eq!(url.shown(), "http://***@127.0.0.1/x?api_key=***&page=2");
        assert_eq!(redact("Authorization: Bearer x"), "Authorization: ***");
        assert_eq!(redact("Accept: text/html"), "Accept: text/html");
        assert_eq!(redact("http://a:b@h/?token=z"), "http://***@h/?token=***");
        assert_eq!(
            redact("me:pw@h:80/?api_key=z&n=1"),
            "***@h:80/?api_key=***&n=1"
        );
        assert_eq!(redact("127.0.0.1:8083/simple"), "127.0.0.1:8083/simple");
        assert_eq!(
            Url::parse("http://me:hush@h/?token=sesame&n=1")
                .unwrap()
                .secrets(),
            ["me:hush", "hush", "sesame"]
        );
        let error = Url::parse("ftp://me:hush@host/").unwrap_err();
        assert!(!error.message.contains("hush"), "{}", error.message);
    }

    #[test]
    fn loads_stay_where_they_may_go() {
        let refused = |text: &str| {
            let address: SocketAddr = text.parse().unwrap();
            refuse_unless_allowed("h", address, &[]).is_err()
        };
        for text in [
            "127.0.0.1:1",
            "10.1.2.3:1",
            "[::1]:1",
            "[fd12::1]:1",
            "192.168.0.9:1",
        ] {
            assert!(!refused(text), "{text}");
        }
        for text in [
            "8.8.8.8:1",
            "169.254.169.254:1",
            "[2001:db8::1]:1",
            "[fe80::1]:1",
            "[::ffff:8.8.8.8]:1",
        ] {
            assert!(refused(text), "{text}");
        }
        let metadata: SocketAddr = "169.254.169.254:80".parse().unwrap();
        assert!(refuse_unless_allowed("h", metadata, &["h".into()]).is_err());
        let public: SocketAddr = "8.8.8.8:80".parse().unwrap();
        assert!(refuse_unless_allowed("h", public, &["h".into()]).is_ok());
    }
}
