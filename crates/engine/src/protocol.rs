//! What a run asks of a protocol, beside driving its wire: what its connections are opened
//! with, what they send from, what they noticed.

use std::sync::Arc;

use wallfinder_model::{self as model, Load};
use wallfinder_wire::{Decode, Exchange, framed, http1, http2, tls};

use crate::spec::StepSpec;

/// Most bytes that one body may decode to.
const DECODED_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Room of a connection that makes what it sends itself, in bytes: some full frames of
/// HTTP/2.
const OWN_BYTES: usize = 64 * 1024;

/// What the connections of a worker share, as a run sees it.
pub(crate) trait Common {
    /// The bytes that all connections send ranges of.
    fn payload(&self) -> Arc<[u8]>;

    /// Room that each connection needs for bytes of its own; 0: it sends none.
    fn own_bytes(&self) -> usize;

    /// The longest that a request is, where an answer shows that all of it was sent; `None`: it may be sent in parts that
    /// wait for the peer, or more than requests is sent.
    fn request_bytes_max(&self) -> Option<usize>;

    /// What peers did against the standard without breaking it, by name.
    fn anomalies(&self) -> Vec<(&'static str, u64)>;

    /// How connections began, under TLS.
    fn handshakes(&self) -> Option<tls::Handshakes> {
        None
    }

    /// The first thing that a peer broke, in words, where the wire keeps it.
    fn fault(&self) -> Option<String> {
        None
    }
}

impl Common for http1::Shared {
    fn payload(&self) -> Arc<[u8]> {
        Arc::clone(self.block())
    }

    fn own_bytes(&self) -> usize {
        if self.makes_bytes() { OWN_BYTES } else { 0 }
    }

    fn request_bytes_max(&self) -> Option<usize> {
        Some(http1::Shared::request_bytes_max(self))
    }

    fn anomalies(&self) -> Vec<(&'static str, u64)> {
        self.anomalies().named().to_vec()
    }
}

impl Common for http2::Shared {
    fn payload(&self) -> Arc<[u8]> {
        Arc::from([])
    }

    fn own_bytes(&self) -> usize {
        self.write_bytes_min().max(OWN_BYTES)
    }

    fn request_bytes_max(&self) -> Option<usize> {
        None
    }

    fn anomalies(&self) -> Vec<(&'static str, u64)> {
        self.anomalies().named().to_vec()
    }

    fn fault(&self) -> Option<String> {
        self.fault().map(|fault| fault.to_string())
    }
}

impl Common for framed::Shared {
    fn payload(&self) -> Arc<[u8]> {
        Arc::clone(self.block())
    }

    fn own_bytes(&self) -> usize {
        if self.has_ids() { OWN_BYTES } else { 0 }
    }

    fn request_bytes_max(&self) -> Option<usize> {
        let is_whole = !self.has_ids() && !self.has_credit();
        is_whole.then(|| self.block().len())
    }

    fn anomalies(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl<S: Common> Common for tls::Shared<S> {
    fn payload(&self) -> Arc<[u8]> {
        // Encrypted, nothing is the same twice.
        Arc::from([])
    }

    fn own_bytes(&self) -> usize {
        self.write_bytes()
    }

    fn request_bytes_max(&self) -> Option<usize> {
        None
    }

    fn anomalies(&self) -> Vec<(&'static str, u64)> {
        self.inner().anomalies()
    }

    fn handshakes(&self) -> Option<tls::Handshakes> {
        Some(self.handshakes())
    }

    fn fault(&self) -> Option<String> {
        let own = self.fault().map(str::to_owned);
        own.or_else(|| self.inner().fault())
    }
}

pub(crate) fn http1_options(spec: &StepSpec) -> http1::Options {
    let load = &spec.load;
    http1::Options {
        in_flight_max: load.in_flight_per_connection,
        connection_per_request: load.connection_per_request,
        decode: decode(load),
        decoded_bytes_max: DECODED_BYTES_MAX,
        paddings: spec.paddings.clone(),
        ..http1::Options::default()
    }
}

pub(crate) fn http2_options(spec: &StepSpec) -> http2::Options {
    let load = &spec.load;
    let requests_max = match load.connection_per_request {
        true => 1,
        false => http2::REQUESTS_MAX,
    };
    http2::Options {
        in_flight_max: load.in_flight_per_connection,
        requests_max,
        is_https: spec.tls.is_some(),
        decode: decode(load),
        decoded_bytes_max: DECODED_BYTES_MAX,
        ..http2::Options::default()
    }
}

fn decode(load: &Load) -> Decode {
    match load.decode {
        model::Decode::None => Decode::None,
        model::Decode::Check => Decode::Check,
        model::Decode::Inflate => Decode::Inflate,
    }
}

/// What does not speak HTTP/2 was asked in it for this reason: where to look.
pub(crate) fn way_out(request: &Exchange) -> &'static str {
    match request {
        Exchange::Grpc(_) => "gRPC needs it; is this the port of a gRPC server, without TLS?",
        _ => "leave --http2 out for HTTP/1.1",
    }
}

pub(crate) fn framed_options(load: &Load) -> framed::Options {
    framed::Options {
        in_flight_max: load.in_flight_per_connection,
        connection_per_request: load.connection_per_request,
    }
}
