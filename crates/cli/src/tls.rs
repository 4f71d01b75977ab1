//! TLS as a scenario asks for it: whom to trust, what to show, and one handshake before
//! any load.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use wallfinder_model::plan;
use wallfinder_model::scenario::{Tls, TlsVersion};
use wallfinder_sys::file::{self, Source};
use wallfinder_wire::tls::{Client, Greeting, Identity, Options, Refused, Spoken, Trust, Version};

use crate::exit::Failed;
use crate::job::Job;

/// Longest time for the one handshake before the load, and for its connection before that.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same where it is only for a hint.
const HINT_PATIENCE: Duration = Duration::from_secs(1);
/// Longest file of certificates or of a key.
const PEM_BYTES_MAX: u64 = 16 << 20;
/// Protocols inside, as ALPN names them (RFC 7301).
const HTTP1: &str = "http/1.1";
const H2: &str = "h2";

/// A client, and what it and the server agreed on.
#[derive(Debug, Clone)]
pub(crate) struct Secured {
    pub(crate) client: Client,
    pub(crate) agreed: plan::Tls,
}

/// The client that a scenario describes, where its URL asks for TLS.
pub(crate) fn client(job: &Job) -> Result<Option<Client>, Failed> {
    let (url, wanted) = (&job.url, &job.scenario.target.tls);
    if !url.is_secure() {
        return match flag_of_tls(wanted) {
            None => Ok(None),
            Some(flag) => Err(Failed::usage(format!(
                "{flag} is for TLS, and the target is {}://",
                url.scheme
            ))),
        };
    }
    let options = Options {
        name: wanted
            .server_name
            .clone()
            .unwrap_or_else(|| url.host.clone()),
        alpn: alpn(job).into_iter().map(str::to_owned).collect(),
        trust: trust(wanted)?,
        identity: identity(wanted)?,
        groups: wanted.tls_groups.clone(),
        version: wanted.tls_version.map(|version| match version {
            TlsVersion::V12 => Version::Tls12,
            TlsVersion::V13 => Version::Tls13,
        }),
        resumes: !wanted.no_tls_resumption,
    };
    Client::new(&options).map(Some).map_err(Failed::usage)
}

/// The client of a null server, whom nobody vouches for.
pub(crate) fn of_a_null_server(http2: bool) -> Client {
    believing("null", Some(if http2 { H2 } else { HTTP1 }))
}

/// A client that believes whoever answers.
fn believing(name: &str, protocol: Option<&str>) -> Client {
    let options = Options {
        name: name.into(),
        alpn: protocol.into_iter().map(str::to_owned).collect(),
        trust: Trust::Anybody,
        identity: None,
        groups: Vec::new(),
        version: None,
        resumes: true,
    };
    Client::new(&options).expect("these options are good ones")
}

fn flag_of_tls(wanted: &Tls) -> Option<&'static str> {
    let given = [
        ("-k", wanted.insecure),
        ("--cacert", wanted.cacert.is_some()),
        ("--cert", wanted.cert.is_some()),
        ("--server-name", wanted.server_name.is_some()),
        ("--tls-groups", !wanted.tls_groups.is_empty()),
        ("--tls-version", wanted.tls_version.is_some()),
        ("--no-tls-resumption", wanted.no_tls_resumption),
    ];
    let flag = given.iter().find(|(_, given)| *given);
    flag.map(|(flag, _)| *flag)
}

/// The name of the protocol inside (RFC 7301); none where it has no registered one.
fn alpn(job: &Job) -> Option<&'static str> {
    match job.url.protocol() {
        "tcp" => None,
        "grpc" => Some(H2),
        _ if job.scenario.target.http2 => Some(H2),
        _ => Some(HTTP1),
    }
}

fn trust(wanted: &Tls) -> Result<Trust, Failed> {
    if wanted.insecure {
        return Ok(Trust::Anybody);
    }
    if let Some(file) = &wanted.cacert {
        return certificates(file, "--cacert").map(Trust::Roots);
    }
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map(ToString::to_string);
        return Err(Failed::usage(format!(
            "this system has no certificates to trust ({}); name one with --cacert, or trust \
             anybody with -k",
            why.unwrap_or_else(|| "none are installed".into())
        )));
    }
    let roots = found.certs.into_iter().map(|root| root.to_vec());
    Ok(Trust::Roots(roots.collect()))
}

fn identity(wanted: &Tls) -> Result<Option<Identity>, Failed> {
    let (Some(cert), Some(key)) = (&wanted.cert, &wanted.key) else {
        return Ok(None);
    };
    let key_der = PrivateKeyDer::from_pem_slice(&pem(key, "--key")?)
        .map_err(|error| unread(key, "--key", &error))?;
    Ok(Some(Identity {
        chain: certificates(cert, "--cert")?,
        key: key_der.secret_der().to_vec(),
    }))
}

/// All certificates of a PEM file.
fn certificates(file: &Path, flag: &str) -> Result<Vec<Vec<u8>>, Failed> {
    let read = CertificateDer::pem_slice_iter(&pem(file, flag)?)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unread(file, flag, &error))?;
    if read.is_empty() {
        return Err(Failed::usage(format!(
            "{flag} {}: there is no certificate in it (PEM)",
            file.display()
        )));
    }
    Ok(read.into_iter().map(|der| der.to_vec()).collect())
}

fn pem(path: &Path, flag: &str) -> Result<Vec<u8>, Failed> {
    file::read(Source::File(path.into()), PEM_BYTES_MAX, file::PATIENCE)
        .map_err(|error| unread(path, flag, &error))
}

fn unread(file: &Path, flag: &str, error: &dyn std::fmt::Display) -> Failed {
    Failed::usage(format!("{flag} {}: {error}", file.display()))
}

/// Shakes hands once, so that what cannot be agreed on is said before any load.
pub(crate) fn greet(client: Client, address: SocketAddr, job: &Job) -> Result<Secured, Failed> {
    let greeting = shake_hands(&client, address)?;
    if greeting.alpn.is_none() && alpn(job) == Some(H2) {
        let way_out = match job.url.protocol() {
            "grpc" => "is it a gRPC server?",
            _ => "leave --http2 out for HTTP/1.1",
        };
        return Err(Failed::run(format!(
            "{} offers no HTTP/2 under TLS (ALPN); {way_out}",
            job.url.shown()
        )));
    }
    Ok(Secured {
        agreed: plan::Tls {
            version: greeting.version.clone(),
            cipher_suite: greeting.cipher_suite.clone(),
            group: greeting.group.clone(),
            alpn: greeting.alpn.clone(),
            verified: client.verifies(),
            resumes: client.resumes(),
            client_certificate: client.shows_certificate(),
        },
        client: client.having_greeted(&greeting),
    })
}

fn shake_hands(client: &Client, address: SocketAddr) -> Result<Greeting, Failed> {
    let io = |error: io::Error| Failed::run(format!("no handshake with {address}: {error}"));
    let mut stream = UntilThen::connect(address, PATIENCE).map_err(io)?;
    client.greet(&mut stream).map_err(|refused| match refused {
        Refused::Certificate(_) => Failed::run(format!(
            "{address}: {refused}. Name who signed it with --cacert FILE, the name it is for \
             with --server-name, or trust anybody with -k"
        )),
        Refused::Handshake(_) => {
            let hint = match Spoken::of(&stream.first) {
                Some(Spoken::Http1) => "What listens there speaks plain HTTP: use http://",
                Some(Spoken::Http2) => {
                    "What listens there speaks HTTP/2 without TLS: use http:// with --http2, or grpc://"
                }
                Some(Spoken::Tls) | None => "Does it speak TLS there?",
            };
            Failed::run(format!("{address}: {refused} (tls.handshake). {hint}"))
        }
    })
}

/// Why a load without TLS had no good answer, where that is what listens there speaks: it answers a
/// handshake in kind. Asked once, after a load, for it may trouble a server that does not.
pub(crate) fn hint_of_tls(address: SocketAddr, scheme: &str) -> Option<String> {
    let mut stream = UntilThen::connect(address, HINT_PATIENCE).ok()?;
    // What comes of the handshake is no matter.
    let _ = believing("wallfinder", None).greet(&mut stream);
    (Spoken::of(&stream.first) == Some(Spoken::Tls)).then(|| {
        format!(
            "What listens at {address} speaks TLS, and the load did not: use {scheme}s:// in the \
             place of {scheme}://."
        )
    })
}

/// A stream that is read and written until an instant, however little comes at a time.
struct UntilThen {
    stream: TcpStream,
    then: Instant,
    /// The first bytes that were read.
    first: Vec<u8>,
}

impl UntilThen {
    fn connect(address: SocketAddr, patience: Duration) -> io::Result<UntilThen> {
        Ok(UntilThen {
            stream: TcpStream::connect_timeout(&address, patience)?,
            then: Instant::now() + patience,
            first: Vec::new(),
        })
    }

    /// What is left; an error when nothing is.
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.then.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Some(left))
    }
}

impl Read for UntilThen {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        let read = self.stream.read(into)?;
        let missing = Spoken::BYTES.saturating_sub(self.first.len());
        self.first.extend_from_slice(&into[..read.min(missing)]);
        Ok(read)
    }
}

impl Write for UntilThen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
