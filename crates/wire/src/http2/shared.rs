//! What the connections of one worker have in common.

use std::sync::Arc;

use super::anomalies::Anomalies;
use super::fault::Fault;
use super::fields::Meaning;
use super::filled::{Filling, Ready};
use super::flow::{WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX};
use super::frame::{HEADER_BYTES, PAYLOAD_BYTES_MAX};
use super::hpack::{Field, Limits, RequestBlocks, StaticFields};
use super::request;
use super::streams::Stream;
use super::transmit;
use crate::content::{Decode, Decoders};
use crate::grpc::Calls;
use crate::request::{BadRequest, Request};

/// Bounds and habits of a worker's connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Streams open at once on one connection; at least 1. The peer may allow fewer.
    pub in_flight_max: u32,
    /// Requests that one connection carries before another takes its place; 1 to
    /// [`REQUESTS_MAX`], which is where stream ids are used up (RFC 9113, 5.1.1).
    pub requests_max: u32,
    /// Whether the scheme is `https`.
    pub is_https: bool,
    /// How much of one body the peer may send ahead, in bytes; up to 2^31 - 1.
    pub stream_window_bytes: u32,
    /// How much of all bodies it may send ahead, in bytes; 65,535 to 2^31 - 1.
    pub connection_window_bytes: u32,
    /// The longest header list, by RFC 9113, 6.5.2, and the longest header block, in
    /// bytes. The peer is told.
    pub head_bytes_max: u32,
    /// The most fields in one header block.
    pub head_fields_max: u32,
    /// The most CONTINUATION frames in one header block.
    pub continuations_max: u32,
    /// The most interim (1xx) heads before one final head.
    pub interim_max: u32,
    /// The most frames that bring no answer further (SETTINGS, PING, WINDOW_UPDATE,
    /// PRIORITY, empty DATA, frames of closed streams and of unknown type) in a row; at
    /// least 1.
    pub idle_frames_max: u32,
    /// Which coded bodies are decoded and checked; those of calls are not.
    pub decode: Decode,
    /// The most bytes that one of them may decode to.
    pub decoded_bytes_max: u64,
}

/// The requests of a connection whose stream ids are used up: each odd id once.
pub const REQUESTS_MAX: u32 = 1 << 30;

impl Default for Options {
    fn default() -> Options {
        Options {
            in_flight_max: 1,
            requests_max: REQUESTS_MAX,
            is_https: false,
            stream_window_bytes: 16 << 20,
            connection_window_bytes: 1 << 30,
            head_bytes_max: 300 * 1024,
            head_fields_max: 5000,
            continuations_max: 32,
            interim_max: 32,
            idle_frames_max: 512,
            decode: Decode::None,
            decoded_bytes_max: 256 << 20,
        }
    }
}

/// One worker's encoded request, limits, interpreted static table and counters.
#[derive(Debug)]
pub struct Shared {
    pub(super) options: Options,
    pub(super) blocks: RequestBlocks,
    pub(super) body: Box<[u8]>,
    pub(super) is_head: bool,
    /// What answers must be as calls, where requests are calls; of each kind.
    pub(super) calls: Vec<Calls>,
    /// Where requests are those of a mix.
    pub(super) filling: Option<Filling>,
    pub(super) decoders: Decoders,
    pub(super) known: StaticFields<Meaning>,
    pub(super) limits: Limits,
    /// Where coded strings are spelled out, to be judged and dropped.
    pub(super) scratch: Vec<u8>,
    pub(super) anomalies: Anomalies,
    pub(super) fault: Option<Fault>,
}

/// Room for strings, reserved at the start.
const SCRATCH_BYTES: usize = 4096;

/// The longest header list of a request, in bytes.
pub(super) const REQUEST_LIST_BYTES_MAX: u32 = 64 * 1024;

impl Shared {
    /// Checks and encodes `request`.
    pub fn new(request: &Request, options: Options) -> Result<Shared, BadRequest> {
        let fields = request::fields(request, options.is_https)?;
        let mut shared = Shared::of_fields(&fields, request.body.clone(), options)?;
        shared.is_head = request.method == "HEAD";
        Ok(shared)
    }

    /// Encodes the fields and the body of calls.
    pub(crate) fn of_calls(
        fields: &[Field],
        body: Vec<u8>,
        calls: Calls,
        options: Options,
    ) -> Result<Shared, BadRequest> {
        let options = Options {
            decode: Decode::None,
            ..options
        };
        let mut shared = Shared::of_fields(fields, body, options)?;
        shared.calls.push(calls);
        Ok(shared)
    }

    /// Those of a mix.
    pub fn of_mix(ready: &Arc<Ready>, options: Options) -> Result<Shared, BadRequest> {
        let calls = ready.calls();
        let options = Options {
            decode: match calls.is_empty() {
                true => options.decode,
                false => Decode::None,
            },
            ..options
        };
        Ok(Shared {
            calls,
            filling: Some(Filling::of(ready)),
            ..Shared::of_blocks(ready.common.clone(), Vec::new(), options)?
        })
    }

    /// Whether taking an answer may allocate: the library of regular expressions does when it first comes to a state.
    pub fn may_allocate(&self) -> bool {
        self.filling.as_ref().is_some_and(Filling::may_allocate)
    }

    /// Whether answers to a kind of request have no body.
    #[inline]
    pub(super) fn is_head(&self, kind: u16) -> bool {
        match &self.filling {
            None => self.is_head,
            Some(filling) => filling.is_head(kind),
        }
    }

    /// What answers to a kind of request must be as calls.
    #[inline]
    pub(super) fn calls(&self, kind: u16) -> Option<&Calls> {
        self.calls.get(usize::from(kind))
    }

    /// Bytes of a stream's request that may be written now, as far as windows allow.
    #[inline]
    pub(super) fn sendable(&self, stream: &Stream) -> usize {
        let calls = self.calls(stream.ask.kind);
        match calls.and_then(|calls| calls.turn(&stream.messages)) {
            None => stream.unsent,
            Some(end) => end.saturating_sub(stream.request_body - stream.unsent),
        }
    }

    fn of_fields(fields: &[Field], body: Vec<u8>, options: Options) -> Result<Shared, BadRequest> {
        Shared::of_blocks(RequestBlocks::new(fields), body, options)
    }

    fn of_blocks(
        blocks: RequestBlocks,
        body: Vec<u8>,
        options: Options,
    ) -> Result<Shared, BadRequest> {
        check(&options)?;
        if blocks.list_bytes > REQUEST_LIST_BYTES_MAX {
            return Err(BadRequest::new("header list", "is above 64 KiB"));
        }
        Ok(Shared {
            blocks,
            body: body.into(),
            is_head: false,
            calls: Vec::new(),
            filling: None,
            decoders: Decoders::new(options.decode, options.decoded_bytes_max),
            known: StaticFields::new(),
            limits: Limits {
                list_bytes_max: options.head_bytes_max,
                fields_max: options.head_fields_max,
            },
            scratch: Vec::with_capacity(SCRATCH_BYTES),
            anomalies: Anomalies::default(),
            fault: None,
            options,
        })
    }

    /// The least room that [`Wire::write`](crate::Wire::write) must be given, in bytes.
    /// More room lets more frames go out together.
    pub fn write_bytes_min(&self) -> usize {
        let blocks = [&self.blocks.first, &self.blocks.later, &self.blocks.literal];
        let longest = blocks.map(Vec::len).into_iter().max().unwrap_or(0);
        let filling = self.filling.as_ref();
        let longest = longest + filling.map_or(0, |filling| filling.ready.block_bytes_max);
        let head = longest + transmit::TABLE_SIZE_BYTES_MAX;
        let frames = head.div_ceil(PAYLOAD_BYTES_MAX as usize);
        (head + frames * HEADER_BYTES).max(transmit::GREETING_BYTES_MAX)
    }

    /// What one request puts on the wire once a connection is warm, in bytes: HEADERS
    /// and, where windows allow it, DATA.
    pub fn request_bytes(&self) -> usize {
        let framed = |len: usize| len + len.div_ceil(PAYLOAD_BYTES_MAX as usize) * HEADER_BYTES;
        framed(self.blocks.later.len()) + framed(self.body.len())
    }

    /// The messages of all answers so far, each behind its prefix, where the call keeps them.
    pub fn kept_messages(&self) -> &[u8] {
        let kept = self.calls.first().and_then(Calls::kept);
        kept.unwrap_or_default()
    }

    /// What the connections of this worker have seen so far.
    pub fn anomalies(&self) -> &Anomalies {
        &self.anomalies
    }

    /// The rule that was broken last on any connection of this worker, and by which frame.
    pub fn fault(&self) -> Option<&Fault> {
        self.fault.as_ref()
    }
}

fn check(options: &Options) -> Result<(), BadRequest> {
    let at_least_one = [
        ("in_flight_max", options.in_flight_max),
        ("requests_max", options.requests_max),
        ("idle_frames_max", options.idle_frames_max),
        ("stream_window_bytes", options.stream_window_bytes),
    ];
    if let Some((name, _)) = at_least_one.iter().find(|(_, value)| *value == 0) {
        return Err(BadRequest::new(name, "is 0"));
    }
    let windows = [
        ("stream_window_bytes", options.stream_window_bytes),
        ("connection_window_bytes", options.connection_window_bytes),
    ];
    if let Some((name, _)) = windows.iter().find(|(_, value)| *value > WINDOW_BYTES_MAX) {
        return Err(BadRequest::new(name, "is above 2^31 - 1"));
    }
    if options.connection_window_bytes < WINDOW_BYTES_DEFAULT {
        return Err(BadRequest::new(
            "connection_window_bytes",
            "is below 65,535",
        ));
    }
    if options.requests_max > REQUESTS_MAX {
        return Err(BadRequest::new("requests_max", "is above 2^30"));
    }
    Ok(())
}
