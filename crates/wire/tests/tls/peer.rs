//! A server in memory, and a client's wire beside it.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use wallfinder_wire::http1::{self, Http1};
use wallfinder_wire::tls::{Client, Identity, Options, Shared, Tls};
use wallfinder_wire::{Outcome, Request, Transmit, Wire};

pub(crate) type Http = Tls<Http1>;
pub(crate) type HttpShared = Shared<http1::Shared>;

/// What a server is made with: its certificate, and who signs its clients' where it asks for one.
pub(crate) fn server(identity: &Identity, clients: Option<Vec<u8>>) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(root) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from(root)).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let chain = identity.chain.iter().cloned().map(CertificateDer::from);
    let key = PrivateKeyDer::try_from(identity.key.clone()).unwrap();
    let mut config = builder.with_single_cert(chain.collect(), key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

pub(crate) fn shared(options: &Options, depth: u32) -> HttpShared {
    let request = Request::get("server.test", "/");
    let options_of_http = http1::Options {
        in_flight_max: depth,
        ..http1::Options::default()
    };
    let inner = http1::Shared::new(&request, options_of_http).unwrap();
    Shared::new(inner, &Client::new(options).unwrap(), 0)
}

/// One connection, both ends.
pub(crate) struct Pair {
    pub(crate) wire: Http,
    pub(crate) server: ServerConnection,
    /// How many bytes the client is given at a time.
    pub(crate) split: usize,
    /// Everything that the client was told.
    pub(crate) outcomes: Vec<Outcome>,
    /// What the server has read.
    pub(crate) asked: Vec<u8>,
}

impl Pair {
    pub(crate) fn new(shared: &HttpShared, server: &Arc<ServerConfig>, split: usize) -> Pair {
        Pair {
            wire: Http::open(shared),
            server: ServerConnection::new(Arc::clone(server)).unwrap(),
            split,
            outcomes: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// One whose handshake is over, however it ended.
    pub(crate) fn settled(
        shared: &mut HttpShared,
        server: &Arc<ServerConfig>,
        split: usize,
    ) -> Pair {
        let mut pair = Pair::new(shared, server, split);
        pair.settle(shared);
        pair
    }

    /// Sends what the client has to send; whether there was anything.
    pub(crate) fn sends(&mut self, shared: &HttpShared) -> bool {
        let mut sent = false;
        let mut buffer = vec![0; shared.write_bytes()];
        while self.wire.poll_transmit(shared) == Transmit::Own {
            let len = self.wire.write(shared, &mut buffer);
            if len == 0 {
                break;
            }
            sent = true;
            let mut bytes = &buffer[..len];
            while !bytes.is_empty() {
                self.server.read_tls(&mut bytes).unwrap();
                // An error is the server's to tell the client of.
                let _ = self.server.process_new_packets();
            }
        }
        let _ = self.server.reader().read_to_end(&mut self.asked);
        sent
    }

    /// Gives the client what the server has to send; whether there was anything.
    pub(crate) fn receives(&mut self, shared: &mut HttpShared) -> bool {
        let mut bytes = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut bytes).unwrap();
        }
        self.takes(shared, &bytes);
        !bytes.is_empty()
    }

    /// Gives the client bytes as a worker does.
    pub(crate) fn takes(&mut self, shared: &mut HttpShared, bytes: &[u8]) {
        for mut part in bytes.chunks(self.split) {
            while !part.is_empty() {
                let taken = self.wire.handle_bytes(shared, part);
                part = &part[taken..];
                let before = self.outcomes.len();
                while let Some(outcome) = self.wire.poll_outcome() {
                    self.outcomes.push(outcome);
                    if matches!(outcome, Outcome::Broken { .. }) {
                        return;
                    }
                }
                assert!(taken > 0 || self.outcomes.len() > before, "take or tell");
            }
        }
    }

    /// Lets both speak until neither has anything to say.
    pub(crate) fn settle(&mut self, shared: &mut HttpShared) {
        loop {
            let sent = self.sends(shared);
            let received = self.receives(shared);
            if !sent && !received {
                return;
            }
        }
    }

    /// The server answers, in as many records as there are parts.
    pub(crate) fn answers(&mut self, shared: &mut HttpShared, parts: &[&[u8]]) {
        for part in parts {
            self.server.writer().write_all(part).unwrap();
        }
        self.settle(shared);
    }
}

pub(crate) const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
