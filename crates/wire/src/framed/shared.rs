//! What the connections of one worker have in common.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::format::Format;
use crate::sending::Form;

/// A message to be sent over and over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// How it is framed, and its answers.
    pub format: Format,
    /// The message, without its length. Where the format has an id, its bytes are
    /// overwritten.
    #[serde(with = "crate::bytes::one")]
    pub message: Vec<u8>,
}

/// Habits of a worker's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Requests in flight on one connection; at least 1.
    pub in_flight_max: u32,
    /// One request for each connection.
    pub connection_per_request: bool,
}

/// Why a message cannot be sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// It is empty, or too short for the id.
    #[error(
        "the message has {bytes} bytes and the frame needs {min} at least; give one with -b, --body-file or --body-bytes"
    )]
    TooShort {
        /// Its bytes.
        bytes: u64,
        /// What it must have at least.
        min: u64,
    },
    /// Its length does not fit into the format's.
    #[error(
        "the message has {bytes} bytes and the frame's length says {max} at most; a wider length is spelt u32be or u64be"
    )]
    TooLong {
        /// Its bytes.
        bytes: u64,
        /// What it may have at most.
        max: u64,
    },
    /// The id is too narrow for so many requests in flight.
    #[error(
        "an id of {width} bytes does not tell {in_flight_max} requests in flight apart; send fewer at once"
    )]
    NarrowId {
        /// Requests in flight.
        in_flight_max: u32,
        /// The id's width in bytes.
        width: usize,
    },
}

/// One worker's encoded message and habits.
#[derive(Debug)]
pub struct Shared {
    pub(super) format: Format,
    pub(super) options: Options,
    pub(super) frame_len: usize,
    /// Bits of an id that name its slot.
    pub(super) slot_bits: u32,
    block: Arc<[u8]>,
}

/// The length and the message, as they stand on the wire.
pub fn encode(request: &Request) -> Result<Vec<u8>, BadRequest> {
    let format = request.format;
    let bytes = request.message.len() as u64;
    let min = format.message_bytes_min();
    if bytes < min {
        return Err(BadRequest::TooShort { bytes, min });
    }
    let max = format.announced_max();
    if bytes > max {
        return Err(BadRequest::TooLong { bytes, max });
    }
    let mut frame = vec![0; format.length.width];
    format.length.write(bytes + format.counted(), &mut frame);
    frame.extend_from_slice(&request.message);
    Ok(frame)
}

/// Copies of the frame in the block fill at most this many bytes, or are one.
const BLOCK_BYTES_MAX: usize = 64 * 1024;

impl Shared {
    /// Checks and encodes `request`.
    pub fn new(request: &Request, mut options: Options) -> Result<Shared, BadRequest> {
        let format = request.format;
        let frame = encode(request)?;
        if options.connection_per_request {
            options.in_flight_max = 1;
        }
        let slot_bits = u32::BITS - (options.in_flight_max - 1).leading_zeros();
        if let Some(id) = format.id
            && slot_bits > 8 * id.integer.width as u32
        {
            return Err(BadRequest::NarrowId {
                in_flight_max: options.in_flight_max,
                width: id.integer.width,
            });
        }
        let copies = (BLOCK_BYTES_MAX / frame.len()).clamp(1, options.in_flight_max as usize);
        Ok(Shared {
            format,
            options,
            frame_len: frame.len(),
            slot_bits,
            block: frame.repeat(copies).into(),
        })
    }

    /// The frame, repeated: what [`Transmit::Block`](crate::Transmit::Block) refers to.
    pub fn block(&self) -> &Arc<[u8]> {
        &self.block
    }

    /// Whether messages carry the ids of their requests.
    pub fn has_ids(&self) -> bool {
        self.format.id.is_some()
    }

    /// Whether the peer grants credit, so that a request may have to be sent in parts.
    pub fn has_credit(&self) -> bool {
        self.format.credit
    }

    /// The one form that requests have.
    pub(super) fn form(&self) -> Form {
        Form {
            start: 0,
            len: self.block.len(),
            request_len: self.frame_len,
        }
    }

    /// The length of one frame, in bytes.
    pub fn request_bytes(&self) -> usize {
        self.frame_len
    }
}
