//! One handshake before any load: whether there will be any, and what is agreed on.

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::{CertificateError, ClientConnection, Error};

use super::Client;

/// What client and server agreed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// `TLSv1.3`.
    pub version: String,
    /// `TLS13_AES_256_GCM_SHA384`.
    pub cipher_suite: String,
    /// The group of the exchange of keys, `X25519`.
    pub group: Option<String>,
    /// The protocol inside, by ALPN.
    pub alpn: Option<String>,
    /// Certificates that the server showed.
    pub certificates: usize,
    /// Bytes of them.
    pub certificate_bytes: usize,
}

/// Why there will be no load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// What the server showed is not good for the name, in this time, by those who are trusted.
    #[error("the server's certificate is refused: {0}")]
    Certificate(String),
    /// They came to no agreement, or it does not speak TLS.
    #[error("no handshake: {0}")]
    Handshake(String),
}

/// What a peer's first bytes show it to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoken {
    /// A handshake's record or an alert.
    Tls,
    /// HTTP/1 in the clear.
    Http1,
    /// HTTP/2 in the clear: its settings, or a farewell.
    Http2,
}

impl Spoken {
    /// First bytes that are enough.
    pub const BYTES: usize = 9;

    /// `None` where it is something else, or too little to tell.
    pub fn of(first: &[u8]) -> Option<Spoken> {
        match first {
            [0x15 | 0x16, 0x03, ..] => Some(Spoken::Tls),
            _ if first.starts_with(b"HTTP/") => Some(Spoken::Http1),
            // SETTINGS or GOAWAY of the connection (RFC 9113 6.5, 6.8).
            [0, _, _, 4 | 7, _, 0, 0, 0, 0, ..] => Some(Spoken::Http2),
            _ => None,
        }
    }
}

impl Client {
    /// Shakes hands over a stream of bytes, which has its own deadlines.
    pub fn greet(&self, stream: &mut (impl Read + Write)) -> Result<Greeting, Refused> {
        let mut session = ClientConnection::new(Arc::clone(&self.config), self.name.clone())
            .map_err(|error| Refused::Handshake(error.to_string()))?;
        while session.is_handshaking() {
            session.complete_io(stream).map_err(refused)?;
        }
        let certificates = session.peer_certificates().unwrap_or_default();
        let greeting = Greeting {
            version: session
                .protocol_version()
                .map(|version| format!("{version:?}").replace('_', "."))
                .unwrap_or_default(),
            cipher_suite: session
                .negotiated_cipher_suite()
                .map(|suite| format!("{:?}", suite.suite()))
                .unwrap_or_default(),
            group: session
                .negotiated_key_exchange_group()
                .map(|group| format!("{:?}", group.name())),
            alpn: session
                .alpn_protocol()
                .map(|protocol| String::from_utf8_lossy(protocol).into_owned()),
            certificates: certificates.len(),
            certificate_bytes: certificates.iter().map(|der| der.len()).sum(),
        };
        session.send_close_notify();
        // Whether it hears of the end is its own affair.
        let _ = session.write_tls(stream);
        Ok(greeting)
    }
}

fn refused(error: std::io::Error) -> Refused {
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<Error>())
    {
        Some(Error::InvalidCertificate(why)) => Refused::Certificate(in_words(why)),
        Some(other) => Refused::Handshake(other.to_string()),
        None => Refused::Handshake(error.to_string()),
    }
}

fn in_words(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => "nobody who is trusted has signed it".to_owned(),
        // The library tells this one only by its name.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it is marked as that of an authority, and shown as a server's (`openssl req -x509` \
             makes such, unless told -addext basicConstraints=critical,CA:FALSE)"
                .to_owned()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_what_is_spoken() {
        for (first, spoken) in [
            (&b"\x15\x03\x01\0\x02\x02\x46"[..], Some(Spoken::Tls)),
            (b"\x16\x03\x03\0\x7a\x02", Some(Spoken::Tls)),
            (b"HTTP/1.1 400 Bad Request\r\n", Some(Spoken::Http1)),
            (b"HTTP/1.0 400", Some(Spoken::Http1)),
            (b"\0\0\x12\x04\0\0\0\0\0", Some(Spoken::Http2)),
            (b"\0\0\x08\x07\0\0\0\0\0\0", Some(Spoken::Http2)),
            // DATA of a stream, other protocols, and next to nothing.
            (b"\0\0\x08\0\0\0\0\0\x01", None),
            (b"SSH-2.0-OpenSSH", None),
            (b"220 mail ESMTP", None),
            (b"\x15", None),
            (b"HTTP", None),
            (b"", None),
        ] {
            assert_eq!(Spoken::of(first), spoken, "{first:?}");
        }
    }
}
