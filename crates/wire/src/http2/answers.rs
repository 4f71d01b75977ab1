//! The frames that make an answer: DATA, HEADERS, CONTINUATION (RFC 9113, 6.1, 6.2, 6.10
//! and 8.1).
//!
//! ```text
//!   HEADERS (1xx) *  ─►  HEADERS  ─►  DATA *  ─►  HEADERS (trailers) ?  ─►  the end
//!      └ CONTINUATION *     └ CONTINUATION *         └ CONTINUATION *
//! ```

use super::connection::Http2;
use super::fault::Breach;
use super::fields::{Name, Section, Value};
use super::filled::Filling;
use super::frame::{FrameHeader, FrameKind, HEADER_BYTES, flag};
use super::frames::Payload;
use super::shared::Shared;
use crate::WireError;
use crate::content::Coding;

/// A header block that began and has not ended (RFC 9113, 4.3).
#[derive(Debug)]
pub(super) struct Block {
    /// 0: none.
    stream: u32,
    /// `None`: of a stream that was reset, and decoded for the table's sake.
    slot: Option<u32>,
    ends_stream: bool,
    continuations: u32,
    /// The fragments so far, where there is more than one.
    bytes: Vec<u8>,
}

/// A buffer that grew beyond this is given back once its block is whole.
const BLOCK_BYTES_KEPT: usize = 16 * 1024;

impl Block {
    pub(super) fn new() -> Block {
        Block {
            stream: 0,
            slot: None,
            ends_stream: false,
            continuations: 0,
            bytes: Vec::new(),
        }
    }

    pub(super) fn reset(&mut self) {
        self.stream = 0;
        self.bytes.clear();
    }

    /// Whether a frame may come next: inside a block only what goes on with it.
    #[inline]
    pub(super) fn admits(&self, header: FrameHeader) -> bool {
        let continues = header.kind == FrameKind::CONTINUATION && header.stream == self.stream;
        self.stream == 0 || continues
    }

    /// What is left of this slot's block is decoded for the table's sake alone.
    pub(super) fn forget(&mut self, slot: u32) {
        if self.slot == Some(slot) {
            self.slot = None;
        }
    }
}

impl Http2 {
    #[inline]
    fn count_wire_bytes(&mut self, header: FrameHeader, slot: u32) {
        let bytes = HEADER_BYTES as u64 + u64::from(header.len);
        self.streams.at_mut(slot).wire_bytes += bytes;
    }

    #[inline]
    pub(super) fn begin_data(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
    ) -> Result<Payload, Breach> {
        if header.stream == 0 {
            return Err(Breach::protocol("DATA on stream 0 (RFC 9113, 6.1)"));
        }
        let slot = self.slot_of(header)?;
        if header.has(flag::PADDED) && header.len == 0 {
            return Err(Breach::frame_size(
                "padding without its length (RFC 9113, 6.1)",
            ));
        }
        if !self.receive.take(header.len) {
            let why = "more than the connection's window (RFC 9113, 6.9.1)";
            return Err(Breach::flow(why));
        }
        let Some(slot) = slot else {
            if header.len == 0 {
                self.count_idle_frame(shared)?;
            }
            return Ok(Payload::Skip);
        };
        self.count_wire_bytes(header, slot);
        let stream = self.streams.at_mut(slot);
        if !stream.receive.take(header.len) {
            let breach = Breach::flow("more than the stream's window (RFC 9113, 6.9.1)");
            self.fail_stream(shared, header, slot, breach);
            return Ok(Payload::Skip);
        }
        if !stream.has_head {
            let breach = malformed("a body before its head (RFC 9113, 8.1)");
            self.fail_stream(shared, header, slot, breach);
            return Ok(Payload::Skip);
        }
        if stream.receive.is_due() && !header.has(flag::END_STREAM) {
            self.credits.push(slot);
        }
        let is_padded = header.has(flag::PADDED);
        if is_padded || self.take_body(shared, header, slot, header.len)? {
            Ok(Payload::Data { slot })
        } else {
            Ok(Payload::Skip)
        }
    }

    /// Counts bytes of a body; `false` when there are more of them than its length.
    #[inline]
    pub(super) fn take_body(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
        slot: u32,
        bytes: u32,
    ) -> Result<bool, Breach> {
        if bytes > 0 {
            self.idle_frames = 0;
        } else if !header.has(flag::END_STREAM) {
            self.count_idle_frame(shared)?;
        }
        let stream = self.streams.at_mut(slot);
        stream.body_bytes += u64::from(bytes);
        if stream
            .length
            .is_some_and(|length| stream.body_bytes > length)
        {
            let why = "a body longer than its length (RFC 9113, 8.1.1)";
            let breach = Breach::malformed(WireError::H2Length, why);
            self.fail_stream(shared, header, slot, breach);
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads a piece of a body, where it is coded or requests are calls; `false` when it is
    /// not what it says, and its request has failed.
    #[inline]
    pub(super) fn take_piece(&mut self, shared: &mut Shared, slot: u32, piece: &[u8]) -> bool {
        if let (Some(of_user), Some(filling)) = (&mut self.of_user, &shared.filling) {
            of_user.take_body(filling, slot, piece);
        }
        if !shared.calls.is_empty() {
            self.take_messages(shared, slot, piece)
        } else if self.streams.at(slot).is_decoded {
            self.take_content(shared, slot, piece)
        } else {
            true
        }
    }

    #[inline]
    fn take_messages(&mut self, shared: &mut Shared, slot: u32, piece: &[u8]) -> bool {
        let stream = self.streams.at_mut(slot);
        let Some(calls) = shared.calls.get_mut(usize::from(stream.ask.kind)) else {
            return true;
        };
        if stream.status != 200 {
            // What a proxy says instead.
            return true;
        }
        match calls.take(&mut stream.messages, piece) {
            Ok(()) => {
                // An answer may be what the next message waits for.
                if stream.unsent > 0 && stream.send.open() > 0 {
                    self.uploads.push(slot);
                }
                true
            }
            Err(why) => {
                let breach = Breach::call(WireError::GrpcFrame, why);
                self.fail_stream(shared, self.frames.header(), slot, breach);
                false
            }
        }
    }

    pub(super) fn begin_headers(&mut self, header: FrameHeader) -> Result<Payload, Breach> {
        if header.stream == 0 {
            return Err(Breach::protocol("HEADERS on stream 0 (RFC 9113, 6.2)"));
        }
        let slot = self.slot_of(header)?;
        if let Some(slot) = slot {
            self.begin_answer(slot);
            self.count_wire_bytes(header, slot);
        }
        self.block.stream = header.stream;
        self.block.slot = slot;
        self.block.ends_stream = header.has(flag::END_STREAM);
        self.block.continuations = 0;
        Ok(Payload::Whole)
    }

    pub(super) fn begin_continuation(
        &mut self,
        shared: &Shared,
        header: FrameHeader,
    ) -> Result<Payload, Breach> {
        if self.block.stream == 0 {
            let why = "CONTINUATION of no header block (RFC 9113, 6.10)";
            return Err(Breach::protocol(why));
        }
        self.block.continuations += 1;
        if self.block.continuations > shared.options.continuations_max {
            let why = "too many CONTINUATION frames (RFC 9113, 10.5.1)";
            return Err(Breach::flood(WireError::H2HeadFlood, why));
        }
        if let Some(slot) = self.block.slot {
            self.count_wire_bytes(header, slot);
        }
        Ok(Payload::Whole)
    }

    pub(super) fn take_fragment(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
        fragment: &[u8],
    ) -> Result<(), Breach> {
        let ends = header.has(flag::END_HEADERS);
        if ends && self.block.bytes.is_empty() {
            return self.end_block(shared, header, fragment);
        }
        let len = self.block.bytes.len() + fragment.len();
        if len > shared.options.head_bytes_max as usize {
            let why = "a header block above the limit (RFC 9113, 10.5.1)";
            return Err(Breach::flood(WireError::H2HeadFlood, why));
        }
        self.block.bytes.extend_from_slice(fragment);
        if ends {
            let mut bytes = std::mem::take(&mut self.block.bytes);
            let ended = self.end_block(shared, header, &bytes);
            if bytes.capacity() <= BLOCK_BYTES_KEPT {
                bytes.clear();
                self.block.bytes = bytes;
            }
            return ended;
        }
        Ok(())
    }

    fn end_block(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
        block: &[u8],
    ) -> Result<(), Breach> {
        self.block.stream = 0;
        let section = self.decode(shared, block)?;
        let Some(slot) = self.block.slot else {
            return self.count_idle_frame(shared);
        };
        if section.seen.any() {
            shared.anomalies.count(section.seen);
        }
        if let Err(breach) = self.take_section(shared, header, slot, section) {
            self.fail_stream(shared, header, slot, breach);
        }
        Ok(())
    }

    fn decode(&mut self, shared: &mut Shared, block: &[u8]) -> Result<Section, Breach> {
        let looked_into = self.block.slot.map(|slot| self.streams.at(slot).ask.kind);
        if let Some(filling) = &mut shared.filling
            && let Some(kind) = looked_into.filter(|kind| filling.needs_fields(*kind))
        {
            let mut section = Section::default();
            let Filling { ready, fields, .. } = filling;
            fields.clear();
            let visit = |name: &Name, value: &Value, spelled: (&[u8], &[u8])| {
                section.take(*name, *value);
                fields.keep(ready, kind, spelled);
            };
            let (known, scratch) = (&shared.known, &mut shared.scratch);
            self.decoder
                .decode_spelled(known, scratch, shared.limits, block, visit)?;
            return Ok(section);
        }
        let version = self.decoder.version();
        if let Some(section) = self.memo.recall(block, version) {
            return Ok(section);
        }
        let mut section = Section::default();
        let (known, scratch) = (&shared.known, &mut shared.scratch);
        self.decoder
            .decode(known, scratch, shared.limits, block, |name, value| {
                section.take(*name, *value);
            })?;
        if self.decoder.version() == version {
            self.memo.remember(block, version, section);
        }
        Ok(section)
    }

    /// Takes a head, an interim head or trailers. An error is the stream's (RFC 9113, 8.1).
    fn take_section(
        &mut self,
        shared: &mut Shared,
        header: FrameHeader,
        slot: u32,
        section: Section,
    ) -> Result<(), Breach> {
        let ends_stream = self.block.ends_stream;
        let stream = self.streams.at_mut(slot);
        if let Some(breach) = section.breach {
            return Err(breach);
        }
        match section.status {
            0 if stream.has_head && ends_stream => stream.call = section.call,
            _ if stream.has_head => {
                return Err(malformed(
                    "trailers with a status, or not last (RFC 9113, 8.1)",
                ));
            }
            0 => return Err(malformed("a head without :status (RFC 9113, 8.3.2)")),
            101 => {
                let why = "101, which HTTP/2 has not (RFC 9113, 8.6)";
                return Err(Breach::malformed(WireError::H2Interim, why));
            }
            100..200 if ends_stream => {
                return Err(malformed(
                    "an interim head that ends its stream (RFC 9113, 8.1)",
                ));
            }
            100..200 => {
                stream.interims += 1;
                if stream.interims > shared.options.interim_max {
                    let why = "too many interim heads (RFC 9110, 15.2)";
                    return Err(Breach::flood(WireError::H2Interim, why));
                }
                return Ok(());
            }
            status => {
                stream.has_head = true;
                stream.status = status;
                let is_bodiless = shared.is_head(stream.ask.kind) || matches!(status, 204 | 304);
                stream.length = if is_bodiless { Some(0) } else { section.length };
                let coding = section.codings.coding();
                let has_body = !ends_stream && stream.length != Some(0);
                if ends_stream {
                    stream.call = section.call;
                }
                if !shared.calls.is_empty() && status == 200 && !section.is_grpc {
                    let why = "a content type that is not application/grpc";
                    return Err(Breach::call(WireError::GrpcContentType, why));
                }
                shared.anomalies.status_out_of_class += u64::from(status >= 600);
                self.idle_frames = 0;
                let (ask, is_sent) = (stream.ask, stream.unsent == 0);
                if let (Some(of_user), Some(filling)) = (&mut self.of_user, &mut shared.filling) {
                    let is_coded = coding != Coding::Plain;
                    of_user.take_head(filling, (slot, ask, is_sent), status, is_coded);
                }
                if coding != Coding::Plain && has_body {
                    self.begin_content(shared, slot, coding);
                }
            }
        }
        if ends_stream {
            self.end_answer(shared, header, slot);
        }
        Ok(())
    }
}

/// What of a HEADERS frame is its block, without padding and priority (RFC 9113, 6.2).
pub(super) fn fragment(header: FrameHeader, payload: &[u8]) -> Result<&[u8], Breach> {
    let too_short = Breach::frame_size("HEADERS without what its flags say (RFC 9113, 6.2)");
    let mut rest = payload;
    let mut padding = 0;
    if header.has(flag::PADDED) {
        let (first, after) = rest.split_first().ok_or(too_short)?;
        padding = usize::from(*first);
        rest = after;
    }
    if header.has(flag::PRIORITY) {
        rest = rest.get(5..).ok_or(too_short)?;
    }
    let len = rest.len().checked_sub(padding).ok_or(Breach::protocol(
        "padding longer than the frame (RFC 9113, 6.2)",
    ))?;
    Ok(&rest[..len])
}

fn malformed(why: &'static str) -> Breach {
    Breach::malformed(WireError::H2Head, why)
}
