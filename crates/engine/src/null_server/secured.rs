//! Any of the others under TLS: they read and write plain bytes.

use rcgen::{CertifiedKey, generate_simple_self_signed};
use wallfinder_wire::tls::{Client, Double, DoubleSession, Identity};

use super::{Out, Script, Spoilt};
use crate::error::{EngineError, bad_request};

pub(super) struct Secured<S> {
    inner: S,
    double: Double,
}

#[derive(Debug, Default)]
pub(super) struct Peer<P> {
    inner: P,
    /// `None` until the first bytes come.
    session: Option<DoubleSession>,
    /// What records carried.
    plain: Vec<u8>,
    out: Out,
}

impl<S> Secured<S> {
    pub(super) fn new(inner: S, double: Double) -> Secured<S> {
        Secured { inner, double }
    }
}

/// The server's end for a client, with a certificate that no root has signed.
pub(super) fn double(client: &Client) -> Result<Double, EngineError> {
    let made = generate_simple_self_signed(["null".to_owned()]).map_err(bad_request)?;
    let CertifiedKey { cert, signing_key } = made;
    let identity = Identity {
        chain: vec![cert.der().to_vec()],
        key: signing_key.serialize_der(),
    };
    Double::new(client, identity).map_err(bad_request)
}

impl<S: Script> Secured<S> {
    /// Puts into records what is to be written next, unless there are some already.
    fn fill(&self, peer: &mut Peer<S::Peer>) {
        let Some(session) = &mut peer.session else {
            return;
        };
        while peer.out.left().is_empty() {
            let next = self.inner.next(&peer.inner);
            let count = match next.is_empty() {
                true => 0,
                false => session.write(next),
            };
            session.collect(&mut peer.out.bytes);
            if count == 0 {
                return;
            }
            self.inner.wrote(&mut peer.inner, count);
        }
    }
}

impl<S: Script> Script for Secured<S> {
    type Peer = Peer<S::Peer>;

    fn read(&self, peer: &mut Self::Peer, bytes: &[u8]) -> Result<(), Spoilt> {
        let session = peer.session.get_or_insert_with(|| self.double.begin());
        let read = session.read(bytes, &mut peer.plain);
        // Also what is wrong is told the peer; the connection is closed then, and it hears that.
        read.map_err(|_| Spoilt)?;
        self.inner.read(&mut peer.inner, &peer.plain)?;
        peer.plain.clear();
        session.collect(&mut peer.out.bytes);
        self.fill(peer);
        Ok(())
    }

    fn next<'s>(&'s self, peer: &'s Self::Peer) -> &'s [u8] {
        peer.out.left()
    }

    fn wrote(&self, peer: &mut Self::Peer, bytes: usize) {
        peer.out.wrote(bytes);
        self.fill(peer);
    }
}
