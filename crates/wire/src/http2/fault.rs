//! What a peer did wrong: the class to count, the code to answer with, and the words.

use std::fmt;

use super::frame::{ErrorCode, FrameKind};
use super::hpack::HpackError;
use crate::WireError;

/// A broken rule, before it is known which frame broke it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Breach {
    pub(super) error: WireError,
    pub(super) code: ErrorCode,
    pub(super) why: &'static str,
}

impl Breach {
    pub(super) const fn protocol(why: &'static str) -> Breach {
        Breach {
            error: WireError::H2Protocol,
            code: ErrorCode::ProtocolError,
            why,
        }
    }

    /// The peer speaks something else.
    pub(super) const fn preface(why: &'static str) -> Breach {
        Breach {
            error: WireError::H2Preface,
            code: ErrorCode::ProtocolError,
            why,
        }
    }

    pub(super) const fn frame_size(why: &'static str) -> Breach {
        Breach {
            error: WireError::H2FrameSize,
            code: ErrorCode::FrameSizeError,
            why,
        }
    }

    pub(super) const fn flow(why: &'static str) -> Breach {
        Breach {
            error: WireError::H2Flow,
            code: ErrorCode::FlowControlError,
            why,
        }
    }

    pub(super) const fn closed(why: &'static str) -> Breach {
        Breach {
            error: WireError::H2StreamClosed,
            code: ErrorCode::StreamClosed,
            why,
        }
    }

    pub(super) const fn flood(error: WireError, why: &'static str) -> Breach {
        Breach {
            error,
            code: ErrorCode::EnhanceYourCalm,
            why,
        }
    }

    /// An answer that breaks HTTP rather than its framing (RFC 9113, 8.1.1).
    pub(super) const fn malformed(error: WireError, why: &'static str) -> Breach {
        Breach {
            error,
            code: ErrorCode::ProtocolError,
            why,
        }
    }

    /// A body that cannot be decoded, on a stream that is sound: the request is given up.
    pub(super) const fn content() -> Breach {
        Breach {
            error: WireError::BodyDecode,
            code: ErrorCode::Cancel,
            why: "a body that does not decode as it says (RFC 9110, 8.4)",
        }
    }

    /// An answer that breaks gRPC, on a stream that is sound: the call is given up.
    pub(super) const fn call(error: WireError, why: &'static str) -> Breach {
        Breach {
            error,
            code: ErrorCode::Cancel,
            why,
        }
    }
}

impl From<HpackError> for Breach {
    fn from(error: HpackError) -> Breach {
        Breach {
            error: WireError::H2Compression,
            code: ErrorCode::CompressionError,
            why: error.why(),
        }
    }
}

/// A broken rule and the frame that broke it, for the words beside a counted class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The class that is counted.
    pub error: WireError,
    /// What the peer is told: in GOAWAY where the connection ends, else in RST_STREAM.
    pub code: ErrorCode,
    /// The frame.
    pub frame: FrameKind,
    /// Its stream; 0 for the connection.
    pub stream: u32,
    /// The rule, with its section.
    pub why: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frame = self.frame.name();
        let code = self.code.name();
        write!(f, "{frame} on stream {}: {}: {code}", self.stream, self.why)
    }
}
