//! What a worker asks, in whichever protocol it asks.

use crate::{Request, framed, grpc, http1, http2};
use serde::{Deserialize, Serialize};

/// One request, sent over and over, in its protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exchange {
    /// HTTP/1.1.
    Http1(Request),
    /// HTTP/2, by prior knowledge.
    Http2(Request),
    /// A message that follows its length, over a plain stream.
    Framed(framed::Request),
    /// A call of gRPC, over HTTP/2 by prior knowledge.
    Grpc(grpc::Request),
}

impl Exchange {
    /// Whether it can be sent with so many in flight on a connection; else why not.
    pub fn check(&self, in_flight_max: u32) -> Result<(), String> {
        match self {
            Exchange::Http1(request) => http1::Shared::new(request, http1::Options::default())
                .map(drop)
                .map_err(|error| error.to_string()),
            Exchange::Http2(request) => http2::Shared::new(request, streams(in_flight_max))
                .map(drop)
                .map_err(|error| error.to_string()),
            Exchange::Grpc(request) => grpc::shared(request, streams(in_flight_max))
                .map(drop)
                .map_err(|error| error.to_string()),
            Exchange::Framed(request) => {
                let options = framed::Options {
                    in_flight_max,
                    connection_per_request: false,
                };
                framed::Shared::new(request, options)
                    .map(drop)
                    .map_err(|error| error.to_string())
            }
        }
    }

    /// The method, how its messages are framed, or the kind of call: `GET`, `u32be`, `unary`.
    pub fn method(&self) -> String {
        match self {
            Exchange::Http1(request) | Exchange::Http2(request) => request.method.clone(),
            Exchange::Framed(request) => request.format.to_string(),
            Exchange::Grpc(request) if request.in_turn => {
                format!("{} in turn", request.kind.name())
            }
            Exchange::Grpc(request) => request.kind.name().to_owned(),
        }
    }

    /// Names of its extra header fields, or of its metadata.
    pub fn header_names(&self) -> Vec<String> {
        let fields = match self {
            Exchange::Http1(request) | Exchange::Http2(request) => &request.headers,
            Exchange::Grpc(request) => &request.metadata,
            Exchange::Framed(_) => return Vec::new(),
        };
        fields.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Bytes of its body, or of its messages.
    pub fn body_bytes(&self) -> u64 {
        match self {
            Exchange::Http1(request) | Exchange::Http2(request) => request.body.len() as u64,
            Exchange::Framed(request) => request.message.len() as u64,
            Exchange::Grpc(request) => request.message_bytes(),
        }
    }
}

fn streams(in_flight_max: u32) -> http2::Options {
    http2::Options {
        in_flight_max,
        ..http2::Options::default()
    }
}

impl From<Request> for Exchange {
    /// In HTTP/1.1.
    fn from(request: Request) -> Exchange {
        Exchange::Http1(request)
    }
}

impl From<framed::Request> for Exchange {
    fn from(request: framed::Request) -> Exchange {
        Exchange::Framed(request)
    }
}

impl From<grpc::Request> for Exchange {
    fn from(request: grpc::Request) -> Exchange {
        Exchange::Grpc(request)
    }
}
