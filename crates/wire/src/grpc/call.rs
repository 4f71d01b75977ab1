//! What a call's answer must be, and what it came to.

use std::time::Duration;

use super::messages::Messages;
use super::status::Status;
use crate::WireError;
use serde::{Deserialize, Serialize};

/// Most bytes of messages that are kept for who reads them.
pub const KEPT_BYTES_MAX: usize = 16 << 20;

/// Which side of a method streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// One message, one answer.
    Unary,
    /// One message, any number of answers.
    ServerStreaming,
    /// Any number of messages, one answer.
    ClientStreaming,
    /// Any number of both.
    Bidirectional,
}

impl Kind {
    /// By which of the two sides stream.
    pub fn of(client_streams: bool, server_streams: bool) -> Kind {
        match (client_streams, server_streams) {
            (false, false) => Kind::Unary,
            (false, true) => Kind::ServerStreaming,
            (true, false) => Kind::ClientStreaming,
            (true, true) => Kind::Bidirectional,
        }
    }

    /// As it stands in records and output.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Unary => "unary",
            Kind::ServerStreaming => "server-streaming",
            Kind::ClientStreaming => "client-streaming",
            Kind::Bidirectional => "bidi-streaming",
        }
    }

    /// Whether a call may have any number of messages.
    pub fn client_streams(self) -> bool {
        matches!(self, Kind::ClientStreaming | Kind::Bidirectional)
    }

    /// Whether an answer may have any number of messages.
    pub fn server_streams(self) -> bool {
        matches!(self, Kind::ServerStreaming | Kind::Bidirectional)
    }
}

/// What an answer says as a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Whole messages in it.
    pub messages: u32,
    /// The class of the status, where it is not OK.
    pub error: Option<WireError>,
}

/// What a call of a mix is, beside its request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Which sides stream.
    pub kind: Kind,
    /// How long the server is told that it may take.
    pub deadline: Option<Duration>,
    /// Longest message that an answer may have, in bytes.
    pub message_bytes_max: u32,
}

/// What the answers of a worker must be.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(super) message_bytes_max: u32,
    pub(super) kind: Kind,
    /// Where the messages of a call end in its body, where each waits for an answer to the one before
    /// it; else none.
    pub(super) turns: Vec<usize>,
    /// The messages of all answers with their prefixes, for whoever reads them.
    pub(super) kept: Option<Vec<u8>>,
}

impl Calls {
    pub(crate) fn of(terms: &Terms) -> Calls {
        Calls {
            message_bytes_max: terms.message_bytes_max,
            kind: terms.kind,
            turns: Vec::new(),
            kept: None,
        }
    }

    pub(crate) fn kept(&self) -> Option<&[u8]> {
        self.kept.as_deref()
    }

    /// How much of a call's body may be sent when so much of its answer has come; `None`: all of it.
    #[inline]
    pub(crate) fn turn(&self, messages: &Messages) -> Option<usize> {
        self.turns.get(messages.count() as usize).copied()
    }

    /// Takes bytes of a body; an error is the rule that they break.
    #[inline]
    pub(crate) fn take(
        &mut self,
        messages: &mut Messages,
        bytes: &[u8],
    ) -> Result<(), &'static str> {
        messages.take(bytes, self.message_bytes_max)?;
        if let Some(kept) = &mut self.kept {
            if kept.len() + bytes.len() > KEPT_BYTES_MAX {
                return Err("more messages than are kept");
            }
            kept.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// What an answer came to that ended with this status of HTTP, of the call, and these
    /// messages; an error is the class of one that is none, and the rule that it breaks.
    #[inline]
    pub(crate) fn judge(
        &self,
        http_status: u16,
        status: Status,
        messages: &Messages,
    ) -> Result<Call, (WireError, &'static str)> {
        let failed_by = |error| {
            Ok(Call {
                messages: messages.count(),
                error: Some(error),
            })
        };
        match (http_status, status) {
            (200, Status::Known(code)) => {
                if let Some(error) = WireError::of_code(code) {
                    return failed_by(error);
                }
            }
            (200, Status::Other) => return failed_by(WireError::GrpcStatusOther),
            (200, Status::Missing | Status::Bad) if messages.is_inside() => {
                return Err((WireError::GrpcFrame, "an end inside a message"));
            }
            (200, Status::Missing) => {
                return Err((WireError::GrpcNoStatus, "an end without grpc-status"));
            }
            (200, Status::Bad) => {
                return Err((WireError::GrpcNoStatus, "a grpc-status that is none"));
            }
            (400.., _) => {
                // Its class is that of the status of HTTP.
                return Ok(Call {
                    messages: 0,
                    error: None,
                });
            }
            _ => return Err((WireError::GrpcNoStatus, "a :status that is not 200")),
        }
        if messages.is_inside() {
            return Err((WireError::GrpcFrame, "an end inside a message"));
        }
        if !self.kind.server_streams() && messages.count() != 1 {
            let why = "not one message, and the method answers with one";
            return Err((WireError::GrpcMessages, why));
        }
        Ok(Call {
            messages: messages.count(),
            error: None,
        })
    }
}
