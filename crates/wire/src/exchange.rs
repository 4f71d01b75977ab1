//! What a worker asks, in whichever protocol it asks.

use crate::mix::{KINDS_MAX, Kind, Mix, Protocol, Template};
use crate::{Request, framed, grpc, http1, http2};
use serde::{Deserialize, Serialize};

/// What is sent over and over, in its protocol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exchange {
    /// HTTP/1.1.
    Http1(Request),
    /// What users send, in HTTP/1.1, HTTP/2 or gRPC.
    Mix(Box<Mix>),
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
            Exchange::Mix(mix) => check_mix(mix, in_flight_max),
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

    /// It as a mix, where it is one.
    pub fn mix(&self) -> Option<&Mix> {
        match self {
            Exchange::Mix(mix) => Some(mix),
            _ => None,
        }
    }

    /// The kinds of a mix; none of anything else.
    pub fn kinds(&self) -> &[Kind] {
        self.mix().map_or(&[], |mix| &mix.kinds)
    }

    /// The method, how its messages are framed, or the kind of call: `GET`, `u32be`, `unary`.
    pub fn method(&self) -> String {
        match self {
            Exchange::Http1(request) | Exchange::Http2(request) => request.method.clone(),
            Exchange::Mix(mix) => {
                let kinds = &mix.kinds;
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
            // In the mean, by weight; places count as nothing.
            Exchange::Mix(mix) => {
                let weights = mix.weights();
                let all: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
                let bytes = mix.kinds.iter().zip(&weights).map(|(kind, weight)| {
                    u64::from(*weight) * kind.request.body.fixed_bytes() as u64
                });
                bytes.sum::<u64>() / all.max(1)
            }
            Exchange::Framed(request) => request.message.len() as u64,
            Exchange::Grpc(request) => request.message_bytes(),
        }
    }
}

fn check_mix(mix: &Mix, in_flight_max: u32) -> Result<(), String> {
    let count = mix.kinds.len();
    if count == 0 || count > KINDS_MAX {
        return Err(format!(
            "a mix has 1 to {KINDS_MAX} kinds of request, the steps of sessions among them, and this one {count}"
        ));
    }
    if let Some(none) = mix.flows.iter().find(|flow| flow.weight == 0) {
        return Err(format!(
            "`{}` has no weight: it would never be sent",
            none.name
        ));
    }
    let session = mix.flows.iter().find(|flow| flow.is_session());
    if let Some(session) = session.filter(|_| in_flight_max > 1) {
        return Err(format!(
            "`{}` has several requests, each after the answer to the one before: its connection has one in flight, \
             so leave --pipeline out",
            session.name
        ));
    }
    let of_user = |kind: &&Kind| kind.expect.keeps_cookies || !kind.expect.takes.is_empty();
    if let Some(kind) = mix.kinds.iter().find(of_user).filter(|_| in_flight_max > 1) {
        return Err(format!(
            "`{}` takes from its answers: its connection has one request in flight, so leave --pipeline out",
            kind.name
        ));
    }
    let options = http1::Options::default();
    match mix.protocol {
        Protocol::Http1 if mix.is_fixed() => {
            for kind in &mix.kinds {
                http1::Shared::of_kinds(&[&kind.request], options.clone())
                    .map_err(|error| format!("`{}`: {error}", kind.name))?;
            }
            let requests: Vec<&Template> = mix.kinds.iter().map(|kind| &kind.request).collect();
            http1::Shared::of_kinds(&requests, options)
                .map(drop)
                .map_err(|error| error.to_string())
        }
        Protocol::Http1 => http1::Ready::of(mix, 0, &options).map(drop),
        Protocol::Http2 | Protocol::Grpc => http2::Ready::of(mix, 0, false).map(drop),
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
