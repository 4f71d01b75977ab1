//! What a client trusts, offers and shows.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion, version,
};

use super::Greeting;
use super::sessions::Sessions;

/// Whom a client believes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trust {
    /// Whoever shows a certificate that one of these (DER) has signed, for the name that was
    /// asked for, in its time.
    Roots(#[serde(with = "crate::bytes::many")] Vec<Vec<u8>>),
    /// Anybody.
    Anybody,
}

/// What a client shows where it is asked who it is.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Its certificate and those between it and a root, in this order (DER).
    #[serde(with = "crate::bytes::many")]
    pub chain: Vec<Vec<u8>>,
    /// The key of the first (DER: PKCS #8, PKCS #1 or SEC 1).
    #[serde(with = "crate::bytes::one")]
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} certificates and a key", self.chain.len())
    }
}

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl Version {
    fn supported(self) -> &'static SupportedProtocolVersion {
        match self {
            Version::Tls12 => &version::TLS12,
            Version::Tls13 => &version::TLS13,
        }
    }
}

/// Groups for the exchange of keys, by the names that openssl and nginx give them.
pub const GROUPS: [&str; 3] = ["x25519", "secp256r1", "secp384r1"];

fn group(name: &str) -> Option<&'static dyn SupportedKxGroup> {
    match name {
        "x25519" => Some(ring::kx_group::X25519),
        "secp256r1" => Some(ring::kx_group::SECP256R1),
        "secp384r1" => Some(ring::kx_group::SECP384R1),
        _ => None,
    }
}

/// Everything that is to be decided about a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// The server's name: what its certificate must be for. A DNS name, or an address.
    pub name: String,
    /// Protocols to offer (ALPN, RFC 7301), the best first: `h2`, `http/1.1`.
    pub alpn: Vec<String>,
    /// Whom to believe.
    pub trust: Trust,
    /// Who the client is.
    pub identity: Option<Identity>,
    /// Groups of the exchange of keys, the best first; empty: all of [`GROUPS`].
    pub groups: Vec<String>,
    /// One version only.
    pub version: Option<Version>,
    /// Whether connections resume what earlier ones agreed on.
    pub resumes: bool,
}

/// Why a client cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadOptions(pub(super) String);

/// What connections are begun with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "Described", into = "Described")]
pub struct Client {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
    described: Arc<Described>,
}

/// All that makes a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Described {
    options: Options,
    /// The cipher suite that a server agreed to.
    agreed_suite: Option<String>,
}

impl PartialEq for Client {
    fn eq(&self, other: &Client) -> bool {
        self.described == other.described
    }
}

impl From<Client> for Described {
    fn from(client: Client) -> Described {
        Arc::unwrap_or_clone(client.described)
    }
}

impl TryFrom<Described> for Client {
    type Error = BadOptions;

    fn try_from(described: Described) -> Result<Client, BadOptions> {
        let mut client = Client::new(&described.options)?;
        Arc::make_mut(&mut client.described).agreed_suite = described.agreed_suite;
        Ok(client)
    }
}

impl Client {
    /// A client of these options. Fails where a name, a certificate or a key is none, or where
    /// certificate and key do not belong together.
    pub fn new(options: &Options) -> Result<Client, BadOptions> {
        let name = ServerName::try_from(options.name.clone())
            .map_err(|_| BadOptions(format!("`{}` is not the name of a server", options.name)))?;
        let provider = Arc::new(provider(&options.groups)?);
        let versions = match options.version {
            Some(version) => vec![version.supported()],
            None => rustls::ALL_VERSIONS.to_vec(),
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(bad)?;
        let builder = match &options.trust {
            Trust::Roots(certificates) => builder.with_root_certificates(roots(certificates)?),
            Trust::Anybody => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(Believer(provider))),
        };
        let mut config = match &options.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let chain = identity.chain.iter().cloned().map(CertificateDer::from);
                let key = PrivateKeyDer::try_from(identity.key.clone())
                    .map_err(|why| BadOptions(format!("the key of the client: {why}")))?;
                builder
                    .with_client_auth_cert(chain.collect(), key)
                    .map_err(|why| BadOptions(format!("the client's certificate: {why}")))?
            }
        };
        config.alpn_protocols = options
            .alpn
            .iter()
            .map(|protocol| protocol.clone().into_bytes())
            .collect();
        config.resumption = Resumption::disabled();
        Ok(Client {
            config: Arc::new(config),
            name,
            described: Arc::new(Described {
                options: options.clone(),
                agreed_suite: None,
            }),
        })
    }

    /// Whether connections resume what earlier ones agreed on.
    pub fn resumes(&self) -> bool {
        self.described.options.resumes
    }

    /// Whether certificates must be good.
    pub fn verifies(&self) -> bool {
        matches!(self.described.options.trust, Trust::Roots(_))
    }

    /// Whether a certificate of the client's own is shown to who asks.
    pub fn shows_certificate(&self) -> bool {
        self.config.client_auth_cert_resolver.has_certs()
    }

    /// As this one, knowing what a server agreed to.
    pub fn having_greeted(&self, greeting: &Greeting) -> Client {
        let mut client = self.clone();
        let described = Arc::make_mut(&mut client.described);
        described.agreed_suite = Some(greeting.cipher_suite.clone());
        client
    }

    /// The cipher suite that a server agreed to.
    pub(super) fn agreed_suite(&self) -> Option<&str> {
        self.described.agreed_suite.as_deref()
    }

    /// As this one, believing anybody: for a [`Double`](super::Double), whom nobody vouches for.
    pub fn that_believes_anybody(&self) -> Client {
        let mut client = self.clone();
        let believer = Arc::new(Believer(Arc::clone(client.config.crypto_provider())));
        let config = Arc::make_mut(&mut client.config);
        config.dangerous().set_certificate_verifier(believer);
        Arc::make_mut(&mut client.described).options.trust = Trust::Anybody;
        client
    }

    /// As this one, with nobody to share what is resumed.
    pub(super) fn with_sessions_of_its_own(&self) -> Client {
        let mut client = self.clone();
        if self.resumes() {
            let config = Arc::make_mut(&mut client.config);
            config.resumption = Resumption::store(Arc::new(Sessions::default()));
        }
        client
    }

    pub(super) fn begin(&self) -> UnbufferedClientConnection {
        UnbufferedClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .expect("what was built as a whole can be begun")
    }
}

fn provider(groups: &[String]) -> Result<CryptoProvider, BadOptions> {
    let mut provider = ring::default_provider();
    if !groups.is_empty() {
        provider.kx_groups = groups
            .iter()
            .map(|name| {
                group(name).ok_or_else(|| {
                    BadOptions(format!(
                        "`{name}` is no group for the exchange of keys; there are {}",
                        GROUPS.join(", ")
                    ))
                })
            })
            .collect::<Result<_, _>>()?;
    }
    Ok(provider)
}

fn roots(certificates: &[Vec<u8>]) -> Result<RootCertStore, BadOptions> {
    let mut roots = RootCertStore::empty();
    let certificates = certificates.iter().cloned().map(CertificateDer::from);
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(BadOptions(
            "there is no certificate to trust; name one with --cacert, or trust anybody with -k"
                .into(),
        ));
    }
    Ok(roots)
}

pub(super) fn bad(error: Error) -> BadOptions {
    BadOptions(error.to_string())
}

/// Believes every certificate, and checks only that whoever shows it has its key.
#[derive(Debug)]
struct Believer(Arc<CryptoProvider>);

impl ServerCertVerifier for Believer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
