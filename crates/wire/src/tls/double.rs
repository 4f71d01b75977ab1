//! The server's end of a connection, as plain as it can be: what an engine is measured against.
//!
//! It trusts and asks for nobody, resumes nothing, and agrees to what its client agreed on with the
//! server that it stands for.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, ServerConfig, ServerConnection};

use super::client::{BadOptions, Client, Identity, bad};

/// What the server's ends of connections are begun with.
#[derive(Debug, Clone)]
pub struct Double {
    config: Arc<ServerConfig>,
}

impl Double {
    /// A double of the server that `client` has greeted, if it has: with its cipher suite, and the
    /// protocol inside that the client offers. `identity` is what it shows, whose key is of an elliptic
    /// curve: a suite of TLS 1.2 that names another kind of key differs in its handshake, and only there.
    pub fn new(client: &Client, identity: Identity) -> Result<Double, BadOptions> {
        let ours = client.config.crypto_provider();
        let mut provider = CryptoProvider::clone(ours);
        if let Some(suite) = client.agreed_suite() {
            let suite = suite.replace("ECDHE_RSA", "ECDHE_ECDSA");
            let is_agreed =
                |known: &rustls::SupportedCipherSuite| format!("{:?}", known.suite()) == suite;
            provider.cipher_suites.retain(is_agreed);
        }
        let chain = identity.chain.into_iter().map(CertificateDer::from);
        let key = PrivateKeyDer::try_from(identity.key)
            .map_err(|why| BadOptions(format!("the key of the double: {why}")))?;
        let versions: Vec<_> = rustls::ALL_VERSIONS
            .iter()
            .copied()
            .filter(|version| {
                let mut suites = provider.cipher_suites.iter();
                suites.any(|suite| suite.version().version == version.version)
            })
            .collect();
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)
            .map_err(bad)?
            .with_no_client_auth()
            .with_single_cert(chain.collect(), key)
            .map_err(bad)?;
        config
            .alpn_protocols
            .clone_from(&client.config.alpn_protocols);
        config.send_tls13_tickets = 0;
        Ok(Double {
            config: Arc::new(config),
        })
    }

    /// The server's end of one connection.
    pub fn begin(&self) -> DoubleSession {
        let config = Arc::clone(&self.config);
        let session =
            ServerConnection::new(config).expect("what was built as a whole can be begun");
        DoubleSession { session }
    }
}

/// The server's end of one connection.
#[derive(Debug)]
pub struct DoubleSession {
    session: ServerConnection,
}

impl DoubleSession {
    /// Takes records, and appends what they carry to `plain`.
    pub fn read(&mut self, mut records: &[u8], plain: &mut Vec<u8>) -> Result<(), Error> {
        while !records.is_empty() {
            let taken = self.session.read_tls(&mut records);
            taken.map_err(|error| Error::General(error.to_string()))?;
            let state = self.session.process_new_packets()?;
            let from = plain.len();
            plain.resize(from + state.plaintext_bytes_to_read(), 0);
            let read = self.session.reader().read_exact(&mut plain[from..]);
            read.map_err(|error| Error::General(error.to_string()))?;
        }
        Ok(())
    }

    /// Puts plain bytes into records, as many as it has room for until they are collected; their
    /// number.
    pub fn write(&mut self, plain: &[u8]) -> usize {
        // Memory is all that it writes to.
        self.session.writer().write(plain).unwrap_or(0)
    }

    /// Appends what is to be sent: of the handshake, and records.
    pub fn collect(&mut self, records: &mut Vec<u8>) {
        while self.session.wants_write() {
            if self.session.write_tls(records).is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use rcgen::{CertifiedKey, generate_simple_self_signed};

    use super::super::{Greeting, Options, Refused, Trust};
    use super::*;

    /// The server's end, as a stream.
    struct Across {
        session: DoubleSession,
        records: Vec<u8>,
    }

    impl Write for Across {
        fn write(&mut self, records: &[u8]) -> io::Result<usize> {
            let read = self.session.read(records, &mut Vec::new());
            self.session.collect(&mut self.records);
            read.map_err(io::Error::other)?;
            Ok(records.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Across {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = into.len().min(self.records.len());
            into[..count].copy_from_slice(&self.records[..count]);
            self.records.drain(..count);
            Ok(count)
        }
    }

    fn client() -> Client {
        let root = generate_simple_self_signed(["root".to_owned()]).unwrap();
        Client::new(&Options {
            name: "server.test".into(),
            alpn: vec!["h2".into()],
            trust: Trust::Roots(vec![root.cert.der().to_vec()]),
            identity: None,
            groups: Vec::new(),
            version: None,
            resumes: true,
        })
        .unwrap()
    }

    fn greet(client: &Client, double: &Double) -> Result<Greeting, Refused> {
        let mut across = Across {
            session: double.begin(),
            records: Vec::new(),
        };
        client.greet(&mut across)
    }

    #[test]
    fn agrees_to_what_was_agreed_on_before() {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["null".to_owned()]).unwrap();
        let identity = Identity {
            chain: vec![cert.der().to_vec()],
            key: signing_key.serialize_der(),
        };
        let client = client();
        let double = Double::new(&client, identity.clone()).unwrap();
        let refused = greet(&client, &double).unwrap_err();
        assert!(matches!(refused, Refused::Certificate(_)), "{refused}");
        let first = greet(&client.that_believes_anybody(), &double).unwrap();
        assert_eq!(first.alpn.as_deref(), Some("h2"));
        for (agreed, suite, version) in [
            (
                "TLS13_CHACHA20_POLY1305_SHA256",
                "TLS13_CHACHA20_POLY1305_SHA256",
                "TLSv1.3",
            ),
            (
                "TLS13_AES_128_GCM_SHA256",
                "TLS13_AES_128_GCM_SHA256",
                "TLSv1.3",
            ),
            (
                "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
                "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
                "TLSv1.2",
            ),
        ] {
            let agreed = Greeting {
                cipher_suite: agreed.into(),
                ..first.clone()
            };
            let client = client.having_greeted(&agreed);
            let double = Double::new(&client, identity.clone()).unwrap();
            let again = greet(&client.that_believes_anybody(), &double).unwrap();
            assert_eq!(again.cipher_suite, suite);
            assert_eq!(again.version, version);
        }
    }
}
