//! A URL as the user gives it: taken apart, and resolved where a load may go.

use std::net::SocketAddr;

use wallfinder_model::Target;
use wallfinder_testbed::redact::is_telling;

use crate::exit::Failed;
use crate::reach::Reach;

/// The host name that stands for a subject which Wallfinder started itself.
pub(crate) const SUBJECT_HOST: &str = "subject";

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
        if text.starts_with("unix:") || text.starts_with("http+unix:") {
            return Err(bad(
                "a unix socket is not driven: have the server listen on a port of loopback, or lead one there, such as \
                 `socat TCP-LISTEN:8080,fork,bind=127.0.0.1 UNIX-CONNECT:/run/app.sock`, which is then measured too",
            ));
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        match scheme {
            "http" | "https" | "tcp" | "tcps" | "grpc" | "grpcs" => {}
            "ws" | "wss" => {
                return Err(bad(
                    "WebSocket is not spoken: only http://, tcp:// and grpc:// are supported, and the same with an s \
                     for TLS",
                ));
            }
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
        let (host, port) = split_port(place).map_err(|why| bad(&why))?;
        if host.is_empty() {
            return Err(bad("it has no host, such as http://127.0.0.1:8083/simple"));
        }
        if port == Some(0) && host != SUBJECT_HOST {
            return Err(bad(
                "nobody listens on port 0; a port is a number from 1 to 65535 (0, on the host \
                 `subject`, is whichever --subject takes)",
            ));
        }
        let path_and_query = match (protocol, path) {
            ("tcp", "" | "/") => String::new(),
            ("tcp", _) => {
                return Err(bad(&format!(
                    "{scheme}:// has no path, such as {scheme}://127.0.0.1:9000"
                )));
            }
            // Calls of --traffic name their methods themselves.
            ("grpc", "" | "/") => "/".to_owned(),
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

    /// Finds the address, `subject` being that of the subject's, which was checked when it started.
    pub(crate) fn resolve(
        &self,
        subject: Option<SocketAddr>,
        reach: &Reach,
    ) -> Result<SocketAddr, Failed> {
        match subject {
            Some(address) if self.host == SUBJECT_HOST => Ok(address),
            _ => reach.look_up(&self.host, self.port),
        }
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

/// Whether its path is a method of gRPC.
impl Url {
    pub(crate) fn names_a_method(&self) -> bool {
        is_method(&self.path_and_query)
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

/// `host[:port]`, or why it is none.
fn split_port(place: &str) -> Result<(&str, Option<u16>), String> {
    let (host, rest) = match place.find(']') {
        Some(end) => place.split_at(end + 1),
        None => place.split_at(place.find(':').unwrap_or(place.len())),
    };
    match rest.strip_prefix(':') {
        Some(text) => Ok((host, Some(port(text)?))),
        None if rest.is_empty() => Ok((host, None)),
        None => Err(format!("`{rest}` stands behind the host's brackets")),
    }
}

/// A port as it is written, 0 among them; or why it is none.
pub(crate) fn port(text: &str) -> Result<u16, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(port) if is_number => Ok(port),
        _ if text.is_empty() => {
            Err("there is no port behind its colon; name one from 1 to 65535".to_owned())
        }
        _ => Err(format!(
            "its port is `{text}`, and a port is a number from 1 to 65535"
        )),
    }
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
    fn websocket_is_declined_in_words_with_what_is_spoken() {
        for text in ["ws://h/live", "wss://h:8443/live"] {
            let message = Url::parse(text).unwrap_err().message;
            assert!(message.contains("WebSocket is not spoken"), "{message}");
            assert!(message.contains("only http://, tcp://"), "{message}");
        }
        let message = Url::parse("ftp://h/").unwrap_err().message;
        assert!(!message.contains("WebSocket"), "{message}");
    }

    #[test]
    fn a_port_that_is_none_is_told_with_those_that_are() {
        for (text, wrong) in [
            ("http://h:70000/", "`70000`"),
            ("http://h:65536", "`65536`"),
            (
                "http://[::1]:99999999999999999999/",
                "`99999999999999999999`",
            ),
            ("http://h:-1/", "`-1`"),
            ("http://h:+80/", "`+80`"),
            ("http://h:80a/", "`80a`"),
            ("http://h:0/", "port 0"),
            ("http://h:/", "no port behind its colon"),
            ("http://[::1]:", "no port behind its colon"),
            ("h:", "no port behind its colon"),
        ] {
            let error = Url::parse(text).unwrap_err();
            assert_eq!(error.code, 2, "{text}");
            let message = error.message;
            assert!(message.contains(wrong), "{text}: {message}");
            assert!(message.contains("from 1 to 65535"), "{text}: {message}");
        }
        assert!(Url::parse("http://[::1]80/").is_err());
        for (text, port) in [
            ("http://h:1/", 1),
            ("http://h:65535/", 65535),
            ("http://subject:0/", 0),
        ] {
            assert_eq!(Url::parse(text).unwrap().port, port, "{text}");
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
        let error = Url::parse("ftp://me:hush@host/").unwrap_err();
        assert!(!error.message.contains("hush"), "{}", error.message);
    }
}
