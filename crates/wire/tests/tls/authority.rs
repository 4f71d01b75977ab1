//! Certificates for tests, made as they are needed.

use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use wallfinder_wire::tls::{Identity, Options, Trust};

/// Who signs.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // By one name, two would be taken for each other.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("authority {}", MADE.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Authority {
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
        }
    }

    /// A certificate for `name` and its key.
    pub(crate) fn signs(&self, name: &str) -> Identity {
        self.signs_as(CertificateParams::new(vec![name.to_owned()]).unwrap())
    }

    /// One whose time is over.
    pub(crate) fn signed_long_ago(&self, name: &str) -> Identity {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.signs_as(params)
    }

    fn signs_as(&self, params: CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            chain: vec![certificate.der().to_vec()],
            key: key.serialize_der(),
        }
    }

    /// Its own certificate.
    pub(crate) fn root(&self) -> Vec<u8> {
        self.issuer.der().to_vec()
    }

    /// A client that believes what this one signs.
    pub(crate) fn believer(&self, name: &str) -> Options {
        Options {
            name: name.to_owned(),
            alpn: vec!["http/1.1".to_owned()],
            trust: Trust::Roots(vec![self.root()]),
            identity: None,
            groups: Vec::new(),
            version: None,
            resumes: true,
        }
    }
}
