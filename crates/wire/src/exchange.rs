//! What a lane asks, in whichever protocol it asks.

use crate::{Request, framed, http1, http2};

/// One request, sent over and over, in its protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exchange {
    /// HTTP/1.1.
    Http1(Request),
    /// HTTP/2, by prior knowledge.
    Http2(Request),
    /// A message that follows its length, over a plain stream.
    Framed(framed::Request),
}

impl Exchange {
    /// Whether it can be sent with so many in flight on a connection; else why not.
    pub fn check(&self, in_flight_max: u32) -> Result<(), String> {
        match self {
            Exchange::Http1(request) => http1::Shared::new(request, http1::Options::default())
                .map(drop)
                .map_err(|error| error.to_string()),
            Exchange::Http2(request) => {
                let options = http2::Options {
                    in_flight_max,
                    ..http2::Options::default()
                };
                http2::Shared::new(request, options)
                    .map(drop)
                    .map_err(|error| error.to_string())
            }
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

    /// The method, or how its messages are framed: `GET`, `u32be`.
    pub fn method(&self) -> String {
        match self {
            Exchange::Http1(request) | Exchange::Http2(request) => request.method.clone(),
            Exchange::Framed(request) => request.format.to_string(),
        }
    }

    /// Names of its extra header fields.
    pub fn header_names(&self) -> Vec<String> {
        match self {
            Exchange::Http1(request) | Exchange::Http2(request) => {
                let names = request.headers.iter().map(|(name, _)| name.clone());
                names.collect()
            }
            Exchange::Framed(_) => Vec::new(),
        }
    }

    /// Bytes of its body, or of its message.
    pub fn body_bytes(&self) -> u64 {
        let body = match self {
            Exchange::Http1(request) | Exchange::Http2(request) => &request.body,
            Exchange::Framed(request) => &request.message,
        };
        body.len() as u64
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
