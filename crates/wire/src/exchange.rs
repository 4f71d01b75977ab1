//! What a worker asks, in whichever protocol it asks.

use crate::{Request, framed, grpc, http1, http2};
use serde::{Deserialize, Serialize};

/// Most kinds of request in one mix.
pub const KINDS_MAX: usize = 200;

/// One kind of request in a mix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// What it is called in results.
    pub name: String,
    /// Its part of all requests, against those of the others; above 0.
    pub weight: u32,
    /// It.
    pub request: Request,
}

/// What is sent over and over, in its protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exchange {
    /// HTTP/1.1.
    Http1(Request),
    /// HTTP/1.1, each request of a kind that is drawn by weight.
    Mix(Vec<Kind>),
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
            Exchange::Mix(kinds) => check_mix(kinds),
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

    /// The kinds of a mix; none of anything else.
    pub fn kinds(&self) -> &[Kind] {
        match self {
            Exchange::Mix(kinds) => kinds,
            _ => &[],
        }
    }

    /// The method, how its messages are framed, or the kind of call: `GET`, `u32be`, `unary`.
    pub fn method(&self) -> String {
        match self {
            Exchange::Http1(request) | Exchange::Http2(request) => request.method.clone(),
            Exchange::Mix(kinds) => {
                let first = kinds.first().map_or("", |kind| &kind.request.method);
                let is_one = kinds.iter().all(|kind| kind.request.method == first);
                if is_one { first } else { "mix" }.to_owned()
            }
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
            Exchange::Framed(_) | Exchange::Mix(_) => return Vec::new(),
        };
        fields.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Bytes of its body, or of its messages.
    pub fn body_bytes(&self) -> u64 {
        match self {
            Exchange::Http1(request) | Exchange::Http2(request) => request.body.len() as u64,
            // In the mean, by weight.
            Exchange::Mix(kinds) => {
                let weights: u64 = kinds.iter().map(|kind| u64::from(kind.weight)).sum();
                let bytes = kinds
                    .iter()
                    .map(|kind| u64::from(kind.weight) * kind.request.body.len() as u64);
                bytes.sum::<u64>() / weights.max(1)
            }
            Exchange::Framed(request) => request.message.len() as u64,
            Exchange::Grpc(request) => request.message_bytes(),
        }
    }
}

fn check_mix(kinds: &[Kind]) -> Result<(), String> {
    if kinds.is_empty() || kinds.len() > KINDS_MAX {
        return Err(format!(
            "a mix has 1 to {KINDS_MAX} kinds of request, and this one {}",
            kinds.len()
        ));
    }
    if let Some(none) = kinds.iter().find(|kind| kind.weight == 0) {
        return Err(format!(
            "`{}` has no weight: it would never be sent",
            none.name
        ));
    }
    for kind in kinds {
        http1::Shared::new(&kind.request, http1::Options::default())
            .map_err(|error| format!("`{}`: {error}", kind.name))?;
    }
    let requests: Vec<&Request> = kinds.iter().map(|kind| &kind.request).collect();
    http1::Shared::of_kinds(&requests, http1::Options::default())
        .map(drop)
        .map_err(|error| error.to_string())
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
